// The list of the families about the functions of domain onnx_passes.ops, and about QONNX.
#include "pass.h"

const struct pass *const custom_ops_passes[] = {NULL};
