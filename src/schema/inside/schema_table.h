// The tables that compile_schema.py makes of *.ops. For schema*.c only; schema.h has the words.
#ifndef WEIR_SCHEMA_TABLE_H
#define WEIR_SCHEMA_TABLE_H

#include "schema/schema.h"

struct schema_domain {
  const char *name; // "" for ai.onnx
  int64_t newest;
};

extern const struct schema_operator schema_operators[]; // in order of (domain, name)
extern const uint32_t schema_n_operators;
extern const struct schema_domain schema_domains[];
extern const uint32_t schema_n_domains;

#endif
