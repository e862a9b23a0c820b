// Numbers of the fields of an ONNX file: ONNX_GRAPH_initializer is GraphProto.initializer. The
// rows, and what else is known of each field, are in onnx_fields.def.
#ifndef WEIR_ONNX_FIELDS_H
#define WEIR_ONNX_FIELDS_H

enum onnx_field {
#define FIELD(message, number, name, count, type, role, submessage)                                \
  ONNX_##message##_##name = number,
#include "model/onnx_fields.def"
#undef FIELD
};

// The key of the metadata of a value (onnx-passes) behind which its range is said.
#define ONNX_RANGE_KEY "range"

#endif
