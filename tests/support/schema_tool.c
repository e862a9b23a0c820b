// Prints the table of operators, one JSON object for each signature, in the form of
// schema_facts.py: for tests that compare it with what packages say.
#include "json/json.h"
#include "schema/schema.h"

#include <stdio.h>

static const char *const kinds[SCHEMA_KINDS] = {
    [SCHEMA_TENSOR] = "tensor",
    [SCHEMA_SEQUENCE] = "seq",
    [SCHEMA_OPTIONAL] = "optional",
    [SCHEMA_OPTIONAL_SEQUENCE] = "optional(seq)",
    [SCHEMA_MAP_INT64] = "map(int64)",
    [SCHEMA_MAP_STRING] = "map(string)",
    [SCHEMA_SEQUENCE_MAP_INT64] = "seq(map(int64))",
    [SCHEMA_SEQUENCE_MAP_STRING] = "seq(map(string))",
    [SCHEMA_SPARSE] = "sparse",
};
static const char *const options[] = {
    [SCHEMA_SINGLE] = "single", [SCHEMA_OPTIONAL_ONE] = "optional", [SCHEMA_VARIADIC] = "variadic"};
static const char *const attribute_types[] = {
    "undefined",      "float",      "int",        "string",  "tensor", "graph",
    "floats",         "ints",       "strings",    "tensors", "graphs", "sparse_tensor",
    "sparse_tensors", "type_proto", "type_protos"};

static void put_types(struct json_out *j, const char *key, const struct schema_types *t) {
  json_put_object(j, key);
  for (int kind = 0; kind < SCHEMA_KINDS; kind++) {
    if (!t->dtypes[kind]) continue;
    json_put_array(j, kinds[kind]);
    for (enum dtype dtype = 1; dtype < 32; dtype++)
      if (t->dtypes[kind] >> dtype & 1) json_text(j, dtype_name(dtype));
    json_end_array(j);
  }
  json_end_object(j);
}

static void put_formals(struct json_out *j, const char *key, const struct schema_signature *s,
                        const struct schema_formal *formals, uint32_t n) {
  json_put_array(j, key);
  for (uint32_t i = 0; i < n; i++) {
    const struct schema_formal *f = &formals[i];
    json_object(j);
    json_put_text(j, "name", f->name);
    const bool named = f->variable != SCHEMA_NO_VARIABLE;
    json_put_text(j, "variable", named ? s->variables[f->variable].name : NULL);
    put_types(j, "types", f->types);
    json_put_text(j, "option", options[f->option]);
    json_put_uint(j, "least", f->least);
    json_put_bool(j, "same", f->same);
    json_end_object(j);
  }
  json_end_array(j);
}

static void put_default(struct json_out *j, const struct schema_attribute *a) {
  static const char *const words[] = {
      [SCHEMA_ONES] = "ones", [SCHEMA_ZEROS] = "zeros", [SCHEMA_REVERSED] = "reversed"};
  uint32_t bits;
  json_key(j, "default");
  switch ((enum schema_default)a->kind) {
  case SCHEMA_NO_DEFAULT: json_null(j); return;
  case SCHEMA_INT: json_int(j, a->u.i); return;
  case SCHEMA_STRING: json_text(j, a->u.s); return;
  case SCHEMA_INTS: json_ints(j, a->u.ints, a->n); return;
  case SCHEMA_FLOAT:
    memcpy(&bits, &a->u.f, sizeof bits);
    json_object(j);
    json_put_uint(j, "float32", bits);
    json_end_object(j);
    return;
  case SCHEMA_STRINGS:
    json_array(j);
    for (uint32_t i = 0; i < a->n; i++)
      json_text(j, a->u.strings[i]);
    json_end_array(j);
    return;
  default:
    json_object(j);
    json_put_text(j, "words", words[a->kind]);
    json_end_object(j);
  }
}

static void put_attributes(struct json_out *j, const struct schema_signature *s) {
  json_put_object(j, "attributes");
  for (uint32_t i = 0; i < s->n_attributes; i++) {
    const struct schema_attribute *a = &s->attributes[i];
    json_put_object(j, a->name);
    json_put_text(j, "type", attribute_types[a->type]);
    json_put_bool(j, "required", a->required);
    put_default(j, a);
    json_end_object(j);
  }
  json_end_object(j);
}

static void put_signature(struct json_out *j, const struct schema_operator *op,
                          const struct schema_signature *s) {
  json_object(j);
  json_put_text(j, "domain", op->domain);
  json_put_text(j, "name", op->name);
  json_put_int(j, "since", s->since);
  json_put_bool(j, "deprecated", s->deprecated);
  put_formals(j, "inputs", s, s->inputs, s->n_inputs);
  put_formals(j, "outputs", s, s->outputs, s->n_outputs);
  put_attributes(j, s);
  json_put_object(j, "variables");
  for (uint32_t i = 0; i < s->n_variables; i++)
    put_types(j, s->variables[i].name, s->variables[i].types);
  json_end_object(j);
  // What no package says.
  json_put_array(j, "bounds");
  json_uint(j, s->least_in);
  json_uint(j, s->most_in);
  json_uint(j, s->least_out);
  json_uint(j, s->most_out);
  json_end_array(j);
  json_put_bool(j, "one_or_all", s->one_or_all);
  json_put_bool(j, "more", s->more);
  json_put_text(j, "rule", schema_rule_row(op->rule)->family);
  json_put_bool(j, "random", op->flags & SCHEMA_RANDOM);
  json_end_object(j);
}

int main(void) {
  uint32_t n;
  const struct schema_operator *ops = schema_all(&n);
  struct json_out j = {.line_elements = true};
  json_array(&j);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t v = 0; v < ops[i].n_versions; v++)
      put_signature(&j, &ops[i], &ops[i].versions[v]);
  json_end_array(&j);
  puts(j.text);
  json_done(&j);
  return 0;
}
