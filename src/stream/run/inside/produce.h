// The maker of output bytes: one a worker. Turns a range of an output into tiles by what the plan's
// segments say, hashes them in order and hands them to the queue.
#ifndef WEIR_PRODUCE_H
#define WEIR_PRODUCE_H

#include "base/digest.h"
#include "plan/plan.h"
#include "stream/eval/shared/eval_cache.h"
#include "stream/io/io_queue.h"
#include "stream/run/run.h"
#include "stream/staging/figure_sums.h"
#include "stream/sys/lanes.h"

struct produce; // opened, used and closed by one thread

struct produce_options {
  struct io_options io;
  size_t eval_bytes;        // scratch of the recipe evaluator
  bool errors;              // error figures are wanted, and weights must be finite
  struct eval_cache *cache; // what workers find out about weights, for each other; or NULL
  // Called after every tile, with where it lies, and with n 0 while there is no next one for long;
  // false: stop.
  bool (*go_on)(void *ctx, uint32_t output, uint64_t off, size_t n);
  // Told of bytes of a recipe that were read for their range, while there is no next tile. NULL: not wanted.
  void (*looked)(void *ctx, uint32_t of, uint64_t bytes);
  // Called before bytes [from, to) of a part are made: `line`, its place among those that are made
  // beside each other. Gives how far to go before asking again, in (from, to], and sets *end to where
  // the part ends by now. NULL: parts stay as they are.
  uint64_t (*claim)(void *ctx, uint32_t line, uint64_t from, uint64_t to, uint64_t *end);
  void *ctx;
};
int produce_open(struct produce **out, const struct plan *p, struct sources *s,
                 const struct produce_options *options, struct err *err);
void produce_close(struct produce *w);

// Makes bytes [off, off+len) of an output, writes them to `fd` (none: nowhere) and gives their
// SHA-256. On return everything is written, though not durable. 0; -1 with an err that names the
// output and the range; 1 if go_on said stop.
int produce_range(struct produce *w, const struct plan_unit *range, struct file fd,
                  uint8_t digest[DIGEST_BYTES], struct err *err);

// How many ranges are worth being made, and hashed, beside each other by one worker.
enum { PRODUCE_LINES_MAX = LANES_MAX };
uint32_t produce_lines(const struct produce_options *o);

// The same for ranges of one output that others may make parts of (options.claim): what is left of
// them for us is made, and hashed if `hashed`, which more than one must be. What others made is then to
// follow in order, before the digest of a line is asked for. Results as of produce_range.
int produce_parts(struct produce *w, const struct plan_unit ranges[], uint32_t n, struct file fd,
                  bool hashed, struct err *err);
// The next `len` bytes of the output, which are in `fd`, and their error figures, which stay the
// caller's.
int produce_follow(struct produce *w, uint32_t line, uint64_t len, const struct figure_sums *errors,
                   struct err *err);
void produce_digest(struct produce *w, uint32_t line, uint8_t digest[DIGEST_BYTES]);

// Error figures of what the last range, or part, and what followed, quantized. The caller's from now
// on (figure_sums_free).
struct figure_sums produce_take_errors(struct produce *w, uint32_t line);

struct produce_counts {
  uint64_t source_bytes_read, bytes_written, bytes_cloned;
  int ring_lost; // io_ring_lost
};
struct produce_counts produce_counts(const struct produce *w);

#endif
