// static in all of its forms, over a model of the bytes with a range for most values (fuzzed.h).
#include "fuzzed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int steps(struct pipeline *p, uint32_t how, struct err *err) {
  static const char *const ways[] = {
      "static:ranges=made",
      "static:ranges=made,format=qoperator,op_types=all",
      "static:ranges=made,op_types=all",
      "static:ranges=made,compat=onnxruntime",
      "static:ranges=made,format=qoperator",
      "static:ranges=made,compat=onnxruntime,format=qoperator",
      "static:ranges=made,compat=onnxruntime-1.31",
      "static:ranges=made,compat=onnxruntime-1.31,format=qoperator",
      "static:ranges=made,op_types=all,activation_type=uint16,weight_type=int16",
      "static:ranges=made,format=int32-bias,execution=qlinear",
      "static:ranges=made,format=fp32-bias,op_types=all",
      "static:ranges=made,op_types=all,activation_type=float8e4m3fn,weight_type=float8e4m3fn",
      "static:ranges=made,op_types=all,per_tensor=true,add_qdq_pair_to_weight=true,dedicated_qdq_"
      "pair=true",
      "static:ranges=made,op_types=all,block_size=16,weight_type=int4",
      "static:ranges=made,format=qoperator,op_types=all,activation_type=int8,reduce_range=true,"
      "activation_symmetric=true",
      "static:ranges=made,op_types=all,use_qdq_contrib_ops=true,force_quantize_no_input_check=true,"
      "qdq_keep_removable_activations=true"};
  return fuzzed_add(p, ways, sizeof ways / sizeof *ways, how, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzzed_run(&(struct fuzzed){"static", steps}, data, size);
}
