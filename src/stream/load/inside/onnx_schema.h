// The messages of an ONNX file: what each field is on the wire and what the loader does with it.
// Rows live in the model's onnx_fields.def.
#ifndef WEIR_ONNX_SCHEMA_H
#define WEIR_ONNX_SCHEMA_H

#include "model/onnx_fields.h"

#include <stddef.h>
#include <stdint.h>

enum message {
  MESSAGE_NONE,
#define MESSAGE(message, generated, published) MESSAGE_##message,
#include "model/onnx_fields.def"
#undef MESSAGE
  MESSAGES,
};

// How a field lies on the wire; VARINTS, FIXED32S and FIXED64S are lists, packed or not.
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

enum field_role { ROLE_DECODE, ROLE_UNIT, ROLE_PAYLOAD, ROLE_KEEP, ROLE_PART };

struct schema_field {
  const char *name;
  uint8_t number;
  uint8_t form;       // enum field_form
  uint8_t role;       // enum field_role
  uint8_t submessage; // enum message
};

enum { SCHEMA_FIELDS = 27 }; // no message has a field above 26
extern const struct schema_field onnx_schema_fields[MESSAGES][SCHEMA_FIELDS];

// The row of a field, or NULL for one that no published version knows.
static inline const struct schema_field *onnx_schema_field(enum message message, uint32_t number) {
  if (number >= SCHEMA_FIELDS) return NULL;
  const struct schema_field *field = &onnx_schema_fields[message][number];
  return field->name ? field : NULL;
}
// "NodeProto", …
const char *onnx_schema_message(enum message message);

#endif
