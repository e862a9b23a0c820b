// The pass `mark-preprocessed`: a metadata entry by which onnxruntime's quantize_static and quantize_dynamic
// know that quant_pre_process, or what does the same, has seen the model. Without it they warn.
//
//   onnx.quant.pre_process = onnxruntime.quant
#include "passes/shapes/inside/mark_preprocessed.h"

#include "passes/kit/kit.h"

static const char key[] = "onnx.quant.pre_process", value[] = "onnxruntime.quant";

static bool is_marked(const struct model *m) {
  for (uint32_t i = 0; i < m->n_metadata; i++)
    if (span_is(model_name(m, m->metadata[i].key), key))
      return span_is(model_name(m, m->metadata[i].value), value);
  return false;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  (void)with;
  kit_init(&k, env, env->pass->name);
  if (!is_marked(k.m)) {
    kit_site(&k, NO_ID, "preprocessed");
    edit_set_metadata(k.e, span_str(key), span_str(value));
  }
  return kit_done(&k, err);
}

const struct pass mark_preprocessed = {
    .name = "mark-preprocessed",
    .summary = "mark the model as preprocessed for quantization in its metadata",
    .about = "Sets the metadata entry onnx.quant.pre_process to onnxruntime.quant. Without this "
             "entry, onnxruntime's quantize_static and quantize_dynamic warn that the model was "
             "not preprocessed.",
    .needs = "a preprocessed model; 'weir preprocess' preprocesses it and runs this pass last",
    .promises = "only this metadata entry changes",
    .exactness = EXACTNESS_EXACT,
    .run = run,
};
