// dynamic in all of its forms, over a model of the bytes (fuzzed.h).
#include "fuzzed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int steps(struct pipeline *p, uint32_t how, struct err *err) {
  static const char *const ways[] = {
      "dynamic",
      "dynamic:form=integer",
      "dynamic:compat=onnxruntime",
      "dynamic:op_types=MatMul+Gemm+LSTM+Gather+Conv+Attention+EmbedLayerNormalization",
      "dynamic:weight_type=uint8,per_tensor=true",
      "dynamic:compat=onnxruntime,per_channel=true,reduce_range=true,enable_subgraph=true",
      "dynamic:compat=onnxruntime-1.31,matmul_const_b_only=false,weight_type=uint8",
      "dynamic:compat=onnxruntime-1.31,enable_subgraph=true",
      "dynamic:form=integer,op_types=Conv+MatMul+Gemm,reduce_range=true"};
  return fuzzed_add(p, ways, sizeof ways / sizeof *ways, how, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzzed_run(&(struct fuzzed){"dynamic", steps}, data, size);
}
