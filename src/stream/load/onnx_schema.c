// The field table, arranged for the scanner: one small row per (message, field number), found by
// indexing.
//
// The table is a few KiB, so it stays in cache while millions of fields go by. Counts and types of onnx_fields.def become forms on the wire here: a list of
// numbers may come packed or one by one, and a name and any other bytes look the same.
#include "stream/load/inside/onnx_schema.h"

// The form of every count and type that the table uses; one that is missing does not compile.
enum {
  ONE_INT32 = FORM_VARINT,
  ONE_INT64 = FORM_VARINT,
  ONE_FLOAT = FORM_FIXED32,
  ONE_TEXT = FORM_TEXT,
  ONE_BYTES = FORM_BYTES,
  ONE_MESSAGE = FORM_MESSAGE,
  CHOICE_INT64 = FORM_VARINT,
  CHOICE_TEXT = FORM_TEXT,
  CHOICE_BYTES = FORM_BYTES,
  LIST_INT32 = FORM_VARINTS,
  LIST_INT64 = FORM_VARINTS,
  LIST_UINT64 = FORM_VARINTS,
  LIST_FLOAT = FORM_FIXED32S,
  LIST_DOUBLE = FORM_FIXED64S,
  LIST_TEXT = FORM_TEXT,
  LIST_BYTES = FORM_BYTES,
  LIST_MESSAGE = FORM_MESSAGE,
};

const struct schema_field onnx_schema_fields[MESSAGES][SCHEMA_FIELDS] = {
#define FIELD(message, number, name, count, type, role, submessage)                                \
  [MESSAGE_##message][number] = {#name, number, count##_##type, ROLE_##role, MESSAGE_##submessage},
#include "model/onnx_fields.def"
#undef FIELD
};

static const char *const names[MESSAGES] = {
    "unknown group",
#define MESSAGE(message, generated, published) published,
#include "model/onnx_fields.def"
#undef MESSAGE
};

const char *onnx_schema_message(enum message message) {
  return names[message];
}
