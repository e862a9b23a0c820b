// The messages of an ONNX file: what each field is on the wire and what the loader does with it.
// Rows live in onnx_fields.def.
#ifndef WEIR_ONNX_SCHEMA_H
#define WEIR_ONNX_SCHEMA_H

#include <stdint.h>

enum message {
  MESSAGE_NONE,
  MESSAGE_MODEL,
  MESSAGE_OPSET,
  MESSAGE_ENTRY,
  MESSAGE_TRAINING,
  MESSAGE_DEVICES,
  MESSAGE_GRAPH,
  MESSAGE_ANNOTATION,
  MESSAGE_NODE,
  MESSAGE_PLACEMENT,
  MESSAGE_SHARDING,
  MESSAGE_INT_LIST,
  MESSAGE_SHARDED_DIM,
  MESSAGE_SIMPLE_DIM,
  MESSAGE_ATTRIBUTE,
  MESSAGE_TENSOR,
  MESSAGE_SEGMENT,
  MESSAGE_LOCATION,
  MESSAGE_SPARSE,
  MESSAGE_INFO,
  MESSAGE_TYPE,
  MESSAGE_TYPE_TENSOR,
  MESSAGE_TYPE_SEQUENCE,
  MESSAGE_TYPE_MAP,
  MESSAGE_TYPE_OPAQUE,
  MESSAGE_SHAPE,
  MESSAGE_DIM,
  MESSAGE_FUNCTION,
  MESSAGES,
};

enum field_form {
  FORM_VARINT,
  FORM_FIXED32,
  FORM_VARINTS,
  FORM_FIXED32S,
  FORM_FIXED64S,
  FORM_TEXT,
  FORM_BYTES,
  FORM_MESSAGE,
};

enum field_role { ROLE_KEEP, ROLE_UNIT, ROLE_PAYLOAD, ROLE_REST, ROLE_PART };

struct schema_field {
  const char *name;
  uint8_t number;
  uint8_t form;       // enum field_form
  uint8_t role;       // enum field_role
  uint8_t submessage; // enum message
};

// The row of a field, or NULL for one that no published version knows.
const struct schema_field *onnx_schema_field(enum message message, uint32_t number);
// "NodeProto", …
const char *onnx_schema_message(enum message message);

#endif
