// Prints what inference knows of the values of models, one line of JSON for each file, for tests that
// compare it with what runs and with other packages:
//
//   infer_tool [--declared refine|keep|override] [--least N] FILE.onnx…
//
//   {"model":"a.onnx","values":[{"name":"y","kind":"tensor","dtype":"float","dims":["N",3],
//    "elements":[…],"why":"known"}],"said":["node n: …"]}
//
// Dims are numbers, or texts of expressions; null where the rank is not known. Elements are there where
// there is a list: numbers, texts, "num / den", or null. A model that does not load has an "error".
#include "infer/infer.h"
#include "json/json.h"
#include "stream/load/load.h"

#include <stdio.h>
#include <stdlib.h>

static void put_expression(struct json_out *j, struct infer *in, dim_id d, struct arena *a) {
  int64_t n;
  if (d == NO_ID)
    json_null(j);
  else if (dims_is_number(infer_dims(in), d, &n))
    json_int(j, n);
  else
    json_string(j, dims_text(infer_dims(in), d, a));
}

static void put_number(struct json_out *j, struct infer *in, struct infer_number x,
                       struct arena *a) {
  if (x.num == NO_ID || x.den == 1) {
    put_expression(j, in, x.num, a);
    return;
  }
  const struct span text = dims_text(infer_dims(in), x.num, a);
  json_text(j, arena_printf(a, "(%.*s) / %lld", (int)text.n, text.at, (long long)x.den));
}

static void put_value(struct json_out *j, struct infer *in, const struct model *m, uint32_t value,
                      struct arena *a) {
  static const char *const kinds[] = {"tensor", "sequence", "optional", "other"};
  struct infer_type t;
  const struct infer_number *list;
  uint32_t n;
  infer_type_of(in, value, &t);
  json_object(j);
  json_put_string(j, "name", model_name(m, m->values[value].name));
  json_put_text(j, "kind", kinds[t.kind]);
  json_put_text(j, "dtype", t.dtype == DTYPE_UNDEFINED ? NULL : dtype_name(t.dtype));
  json_key(j, "dims");
  if (t.ranked) {
    json_array(j);
    for (uint32_t i = 0; i < t.rank; i++)
      put_expression(j, in, t.dims[i], a);
    json_end_array(j);
  } else
    json_null(j);
  if (infer_numbers(in, value, &list, &n)) {
    json_put_array(j, "elements");
    for (uint32_t i = 0; i < n; i++)
      put_number(j, in, list[i], a);
    json_end_array(j);
  }
  json_put_text(j, "why", infer_why_code(infer_why(in, value)));
  json_end_object(j);
}

struct said {
  struct json_out *j;
  const struct model *m;
  struct arena *a;
};

static void say(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  const struct said *s = ctx;
  const uint32_t name = node != NO_ID ? s->m->nodes[node].name : s->m->values[value].name;
  json_text(s->j, arena_printf(s->a, "%s %s: %s", node != NO_ID ? "node" : "value",
                               model_name_str(s->m, name), sentence));
}

static void put_model(struct json_out *j, const struct model *m, const struct infer_options *o) {
  struct arena a = {0};
  struct infer *in = infer_new(m, o);
  struct said said = {j, m, &a};
  json_put_array(j, "said");
  infer_all(in, &(struct infer_told){.say = say, .ctx = &said});
  json_end_array(j);
  json_put_array(j, "values");
  for (uint32_t value = 0; value < m->n_values; value++)
    if (!(m->values[value].flags & VALUE_DEAD)) put_value(j, in, m, value, &a);
  json_end_array(j);
  infer_free(in);
  arena_free(&a);
}

static void tell(const char *path, const struct infer_options *o) {
  struct json_out j = {0};
  struct sources *s;
  struct model m;
  struct err err = {0};
  json_object(&j);
  json_put_text(&j, "model", path);
  if (sources_open(&s, path, NULL, &err) == 0) {
    model_init(&m);
    if (load_model(&m, s, NULL, &err) == 0) put_model(&j, &m, o);
    model_free(&m);
    sources_close(s);
  }
  if (err.kind != ERR_NONE) json_put_text(&j, "error", err.msg);
  json_end_object(&j);
  puts(j.text);
  json_done(&j);
}

int main(int argc, char **argv) {
  struct infer_options o = {INFER_REFINE, 1, INT64_MAX, false};
  int i = 1;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
    const char *word = argv[i + 1];
    if (strcmp(argv[i], "--least") == 0)
      o.least_dim = atoll(word);
    else if (strcmp(argv[i], "--declared") == 0)
      o.declared = strcmp(word, "keep") == 0       ? INFER_KEEP
                   : strcmp(word, "override") == 0 ? INFER_OVERRIDE
                                                   : INFER_REFINE;
    else
      return 2;
  }
  if (i == argc) return 2;
  for (; i < argc; i++)
    tell(argv[i], &o);
  return 0;
}
