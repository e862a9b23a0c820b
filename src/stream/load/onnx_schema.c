// The field table, arranged for the scanner: one small row per (message, field number), found by
// indexing. No message has a field above 26, and the table is a few KiB, so it stays in cache while
// millions of fields go by.
#include "onnx_schema.h"

#include <stddef.h>

enum { FIELDS = 27 };

static const struct schema_field fields[MESSAGES][FIELDS] = {
#define FIELD(message, number, name, form, role, submessage)                                       \
  [MESSAGE_##message][number] = {name, number, FORM_##form, ROLE_##role, MESSAGE_##submessage},
#include "onnx_fields.def"
#undef FIELD
};

static const char *const names[MESSAGES] = {
    [MESSAGE_NONE] = "unknown group",
    [MESSAGE_MODEL] = "ModelProto",
    [MESSAGE_OPSET] = "OperatorSetIdProto",
    [MESSAGE_ENTRY] = "StringStringEntryProto",
    [MESSAGE_TRAINING] = "TrainingInfoProto",
    [MESSAGE_DEVICES] = "DeviceConfigurationProto",
    [MESSAGE_GRAPH] = "GraphProto",
    [MESSAGE_ANNOTATION] = "TensorAnnotation",
    [MESSAGE_NODE] = "NodeProto",
    [MESSAGE_PLACEMENT] = "NodeDeviceConfigurationProto",
    [MESSAGE_SHARDING] = "ShardingSpecProto",
    [MESSAGE_INT_LIST] = "IntIntListEntryProto",
    [MESSAGE_SHARDED_DIM] = "ShardedDimProto",
    [MESSAGE_SIMPLE_DIM] = "SimpleShardedDimProto",
    [MESSAGE_ATTRIBUTE] = "AttributeProto",
    [MESSAGE_TENSOR] = "TensorProto",
    [MESSAGE_SEGMENT] = "TensorProto.Segment",
    [MESSAGE_LOCATION] = "StringStringEntryProto (external_data)",
    [MESSAGE_SPARSE] = "SparseTensorProto",
    [MESSAGE_INFO] = "ValueInfoProto",
    [MESSAGE_TYPE] = "TypeProto",
    [MESSAGE_TYPE_TENSOR] = "TypeProto.Tensor",
    [MESSAGE_TYPE_SEQUENCE] = "TypeProto.Sequence",
    [MESSAGE_TYPE_MAP] = "TypeProto.Map",
    [MESSAGE_TYPE_OPAQUE] = "TypeProto.Opaque",
    [MESSAGE_SHAPE] = "TensorShapeProto",
    [MESSAGE_DIM] = "TensorShapeProto.Dimension",
    [MESSAGE_FUNCTION] = "FunctionProto",
};

const struct schema_field *onnx_schema_field(enum message message, uint32_t number) {
  if (number >= FIELDS || !fields[message][number].name) return NULL;
  return &fields[message][number];
}

const char *onnx_schema_message(enum message message) {
  return names[message];
}
