// Sets of commands, a bit each: in rows of options.def and peer_words.def.
#ifndef WEIR_COMMAND_SETS_H
#define WEIR_COMMAND_SETS_H

#define ON(stem) (1u << CLI_##stem)
#define REWRITERS                                                                                  \
  (ON(conv2matmul) | ON(quantize) | ON(shrink) | ON(cast) | ON(dynamic) | ON(static) |             \
   ON(smooth) | ON(requantize) | ON(infer) | ON(preprocess) | ON(optimize) | ON(run) | ON(plan))
// Commands that write no copy of a model in which they find nothing to do.
#define FINDERS (ON(quantize) | ON(dynamic))
#define WRITERS (REWRITERS | ON(convert) | ON(replay) | ON(plan))
#define ONE_MODEL_WRITERS (WRITERS & ~ON(shrink))
// Commands whose first operand is a model in any case.
#define MODEL_READERS (WRITERS | ON(inspect) | ON(check) | ON(measure) | ON(calibrate) | ON(verify))
#define ALL ((1u << CLI_COMMANDS) - 1)

#endif
