// weir calibrate --scales: scales that are there already, as a file of overrides. Nothing is run.
//
//   --scales model   x ─ QuantizeLinear(s, z)              {"x": [{"quant_type": "uint8", "scale": s, "zero_point": z}]}
//                    w_quantized ─ DequantizeLinear(s, z)  {"w": [{"axis": 0, …}, …]}
//   --scales FILE    {"x": [s, z], …}                      the same without a type
//
// Of a value that several nodes quantize the first counts. Scales that nodes compute, scales of blocks, zero points that are no integers, and
// lists that are larger than what the index holds are left out, and counted.
#include "calibrate/calibrate_scales.h"

#include "base/dtype.h"
#include "execute/record_file.h"
#include "json/json.h"
#include "json/plain_file.h"
#include "passes/kit/kit.h"
#include "platform/files.h"
#include "stream/io/sources.h"
#include "stream/load/load.h"

#include <math.h>

enum { TABLE_BYTES = 64 << 20 };

struct scales {
  struct model m;
  struct arena arena;
  struct json_out out;
  TABLE(bool, taken);    // by value
  uint64_t *names, mask; // hashes of those that are written, by their low bits; 0: free
  uint64_t values, weights, left;
};

// ---- one tensor ---------------------------------------------------------------------------------

// The numbers of a constant operand.
struct numbers {
  enum dtype dtype; // of the elements
  enum dtype type;  // of the value: that of a Cast after them
  struct span raw;
  uint64_t n;
  uint32_t rank;
};

// Also through a Cast, after which zero points of quantization-aware training come.
static uint32_t before_cast(const struct model *m, uint32_t value, enum dtype *type) {
  const bool made = value != NO_ID && m->values[value].kind == VALUE_NODE_OUTPUT;
  const uint32_t node = made ? m->values[value].def : NO_ID;
  const struct model_attr *to =
      node != NO_ID && model_op_is(m, node, "Cast") ? model_attr_named(m, node, "to") : NULL;
  if (!to || to->type != ATTR_INT || !dtype_known(to->u.i)) return value;
  *type = (enum dtype)to->u.i;
  return model_input(m, &m->nodes[node], 0);
}

static bool numbers_of(const struct model *m, uint32_t value, struct numbers *out) {
  struct model_constant c;
  out->type = DTYPE_UNDEFINED;
  value = before_cast(m, value, &out->type);
  if (value == NO_ID || !model_resolve_constant(m, value, &c) ||
      !model_small_value(m, c.tensor, &out->raw))
    return false;
  const struct model_tensor *t = &m->tensors[c.tensor];
  out->dtype = (enum dtype)t->dtype;
  if (out->type == DTYPE_UNDEFINED) out->type = out->dtype;
  const uint64_t bits = dtype_bits(out->dtype);
  out->n = bits ? out->raw.n * 8 / bits : 0;
  out->rank = t->rank;
  return out->n > 0;
}

static bool is_code_type(enum dtype t) {
  return t == DTYPE_INT8 || t == DTYPE_UINT8 || t == DTYPE_INT16 || t == DTYPE_UINT16;
}

static int64_t axis_of(const struct model *m, uint32_t node) {
  const struct model_attr *a = model_attr_named(m, node, "axis");
  return a && a->type == ATTR_INT ? a->u.i : 1;
}

static bool has_blocks(const struct model *m, uint32_t node) {
  const struct model_attr *a = model_attr_named(m, node, "block_size");
  return a && !(a->type == ATTR_INT && a->u.i == 0);
}

static void put(struct json_out *j, const struct numbers *scales, const struct numbers *zeros,
                enum dtype type, uint64_t i, int64_t axis) {
  struct kit_number s = {0}, z = {0};
  (void)kit_number_at(scales->dtype, scales->raw.at, i, &s);
  if (zeros) (void)kit_number_at(zeros->dtype, zeros->raw.at, zeros->n > 1 ? i : 0, &z);
  json_object(j);
  if (scales->n > 1) json_put_int(j, "axis", axis);
  json_put_text(j, "quant_type", dtype_name(type));
  json_put_double(j, "scale", s.d);
  json_put_int(j, "zero_point", zeros ? (int64_t)z.d : 0);
  json_end_object(j);
}

// The type of the zero point; without one that of the stored codes, or the type that the QuantizeLinear names; else uint8.
static enum dtype code_type(const struct model *m, uint32_t node, const struct numbers *zeros,
                            uint32_t codes) {
  const struct model_attr *said = model_attr_named(m, node, "output_dtype");
  struct model_constant c;
  if (zeros) return zeros->type;
  if (codes != NO_ID && model_resolve_constant(m, codes, &c))
    return (enum dtype)m->tensors[c.tensor].dtype;
  return said && said->type == ATTR_INT && said->u.i != 0 ? (enum dtype)said->u.i : DTYPE_UINT8;
}

// False: not of a form that overrides have. `codes`: of a weight that is stored as codes; NO_ID: it is quantized here.
static bool put_scales(struct scales *s, uint32_t node, struct span name, uint32_t codes,
                       bool constant) {
  const struct model *m = &s->m;
  const struct model_node *n = &m->nodes[node];
  struct numbers scales, zeros;
  const uint32_t zero = model_input(m, n, 2);
  if (!numbers_of(m, model_input(m, n, 1), &scales) || scales.rank > 1 || has_blocks(m, node) ||
      !dtype_is_plain_float(scales.dtype))
    return false;
  const bool has_zero = zero != NO_ID;
  if (has_zero && (!numbers_of(m, zero, &zeros) || !is_code_type(zeros.type) ||
                   !dtype_is_integer(zeros.dtype) || (zeros.n != scales.n && zeros.n != 1)))
    return false;
  const enum dtype type = code_type(m, node, has_zero ? &zeros : NULL, codes);
  if (!is_code_type(type) || (scales.n > 1 && !constant)) return false;
  for (uint64_t i = 0; i < scales.n; i++) {
    struct kit_number x = {0};
    if (!kit_number_at(scales.dtype, scales.raw.at, i, &x) || !(x.d > 0) || isinf(x.d))
      return false;
  }
  json_key(&s->out, arena_string(&s->arena, name));
  json_array(&s->out);
  for (uint64_t i = 0; i < scales.n; i++)
    put(&s->out, &scales, has_zero ? &zeros : NULL, type, i, axis_of(m, node));
  json_end_array(&s->out);
  return true;
}

// ---- of a model ---------------------------------------------------------------------------------

static bool is_op(const struct model *m, uint32_t node, const char *op) {
  const struct model_node *n = &m->nodes[node];
  const struct span domain = model_name(m, n->domain);
  return span_is(model_name(m, n->op_type), op) &&
         (domain.n == 0 || span_is(domain, "ai.onnx") || span_is(domain, "com.microsoft"));
}

// The name without this end; empty where it has another one.
static struct span without_end(struct span name, const char *end) {
  const size_t n = strlen(end);
  if (name.n <= n || memcmp(name.at + name.n - n, end, n) != 0) return span_of(NULL, 0);
  return span_of(name.at, name.n - n);
}

// The name in the float model: quantizers name codes "w_quantized", and the input of the QuantizeLinear of an output
// "y_QuantizeLinear_Input". Empty: not said.
static struct span float_name(struct span name, bool codes) {
  const struct span output = without_end(name, "_QuantizeLinear_Input");
  return codes ? without_end(name, "_quantized") : output.n ? output : name;
}

// Codes of a bias have the scales of others.
static bool is_bias(const struct model *m, uint32_t codes) {
  struct model_constant c;
  return model_resolve_constant(m, codes, &c) && m->tensors[c.tensor].dtype == DTYPE_INT32;
}

// Has another value that name in the float model? Then nobody knows which of them counts.
static bool is_named(struct scales *s, struct span name) {
  const uint64_t hash = span_hash(name) | 1;
  uint64_t at = hash >> 1 & s->mask;
  for (; s->names[at]; at = (at + 1) & s->mask)
    if (s->names[at] == hash) return true;
  s->names[at] = hash;
  return false;
}

static void take_node(struct scales *s, uint32_t node) {
  const struct model *m = &s->m;
  const bool quantizes = is_op(m, node, "QuantizeLinear");
  const uint32_t x = model_input(m, &m->nodes[node], 0);
  struct model_constant c;
  if (x == NO_ID || (!quantizes && !is_op(m, node, "DequantizeLinear"))) return;
  const bool constant = model_resolve_constant(m, x, &c);
  if (!quantizes && !constant) return; // its QuantizeLinear says the same
  const struct span name = float_name(model_value_name(m, quantizes ? x : c.value), !quantizes);
  if (s->taken[x] || (!quantizes && is_bias(m, x))) return;
  s->taken[x] = true;
  if (name.n == 0 || is_named(s, name) ||
      !put_scales(s, node, name, quantizes ? NO_ID : x, constant)) {
    s->left++;
    return;
  }
  *(constant ? &s->weights : &s->values) += 1;
}

static int take_model(struct scales *s, const struct calibrate_scales *q, struct err *err) {
  struct sources *sources;
  const int rc = load_model_at(&s->m, &sources, q->model, q->allow_links, NULL, err);
  if (rc == 0 && s->m.main_graph != NO_ID) {
    TABLE_ADD(s, taken, s->m.n_values);
    s->mask = 1;
    while (s->mask <= 2 * (uint64_t)s->m.n_values)
      s->mask = 2 * s->mask + 1;
    s->names = arena_zalloc(&s->arena, (s->mask + 1) * sizeof *s->names);
    for (uint32_t n = s->m.graphs[s->m.main_graph].first_node; n != NO_ID; n = s->m.nodes[n].next)
      take_node(s, n);
  }
  sources_close(sources);
  return rc;
}

// ---- of a table ---------------------------------------------------------------------------------

static int bad_row(const char *path, const struct json_value *row, struct err *err) {
  err_set(err, ERR_INPUT, "'%s': '%s' is not [scale, zero point]", quote_path(path).s,
          quote_str(json_name(row)).s);
  return err_hint(err, "a scale above 0 and an integer, as in {\"x\": [0.02, 128]}");
}

static int take_rows(struct scales *s, const char *path, const struct json_value *table,
                     struct err *err) {
  if (!json_is_object(table))
    return err_set(err, ERR_INPUT, "'%s' is not a JSON object that has a member for each tensor",
                   quote_path(path).s);
  for (const struct json_value *row = json_first(table); row; row = json_next(row)) {
    const struct json_value *scale = json_is_array(row) ? json_first(row) : NULL;
    const struct json_value *zero = scale ? json_next(scale) : NULL;
    double x;
    int64_t z = 0;
    if (!scale || !json_as_double(scale, &x) || !(x > 0) || !isfinite(x) ||
        (zero && (!json_as_int(zero, &z) || json_next(zero))))
      return bad_row(path, row, err);
    json_key(&s->out, json_name(row));
    json_array(&s->out);
    json_object(&s->out);
    if (z < 0) json_put_text(&s->out, "quant_type", "int8");
    json_put_double(&s->out, "scale", x);
    json_put_int(&s->out, "zero_point", z);
    json_end_object(&s->out);
    json_end_array(&s->out);
    s->values++;
  }
  return 0;
}

static int take_table(struct scales *s, const char *path, struct err *err) {
  struct span text;
  if (plain_file_text(path, TABLE_BYTES, &s->arena, &text, err)) return -1;
  struct json_value *table = json_parse(text, path, err);
  const int rc = table ? take_rows(s, path, table, err) : -1;
  json_free(table);
  return rc;
}

// ---- the file --------------------------------------------------------------------------------

static int check_output(const char *path, bool force, struct err *err) {
  if (!path) return err_set(err, ERR_USAGE, "--scales needs -o FILE: where to write the overrides");
  if (force || !path_exists(path)) return 0;
  err_set(err, ERR_INPUT, "'%s' exists already", quote_path(path).s);
  return err_hint(err, "--force replaces it");
}

int calibrate_scales_write(const struct calibrate_scales *q, struct calibrate_scaled *made,
                           struct err *err) {
  struct scales s = {.out = {.indent = 2}};
  struct record_file text = {0};
  model_init(&s.m);
  json_object(&s.out);
  int rc = check_output(q->out, q->replace, err);
  if (rc == 0)
    rc = record_file_spares(q->out, "output", q->table ? q->table : q->model, !q->table,
                            q->allow_links, err);
  if (rc == 0) rc = q->table ? take_table(&s, q->table, err) : take_model(&s, q, err);
  json_end_object(&s.out);
  json_newline(&s.out);
  if (rc == 0 && s.values + s.weights == 0) {
    rc = err_set(err, ERR_FAIL, "'%s' has no scales that can be written as overrides",
                 quote_path(q->table ? q->table : q->model).s);
    (void)err_hint(err, "weir reads the scales of QuantizeLinear and DequantizeLinear nodes, if "
                        "they are constants");
  }
  if (rc == 0) rc = record_file_reserve(&text, q->out, q->observer, &s.arena, err);
  if (rc == 0) rc = record_file_end(&text, span_of(s.out.text, s.out.n), err);
  record_file_drop(&text);
  *made = (struct calibrate_scaled){s.values, s.weights, s.left};
  json_done(&s.out);
  TABLE_FREE(&s, taken);
  model_free(&s.m);
  arena_free(&s.arena);
  return rc;
}
