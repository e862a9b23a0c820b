// Replay: the lines of a log onto a model.
//
// A log is a file that anybody may have written: nothing here trusts it, and every failure names what
// was expected. A line is read whole, member by member as its kind's row says, and put to the same
// check as an edit that a pass asks for; only then is it made, as that one is, which also records it.
// So a replayed log, recorded again, is the same log.
//
// An address is  g<graph>/<kind><id>  and, for values and tensors, :<name>. Ids decide, and graph
// and name must agree with the row: a log that was made for another model, or edited by hand and
// got out of step, is noticed at the first line that does not fit. Rows that a line makes must
// carry the id that comes next.
#include "edit/edit_asked.h"
#include "edit/edit_log.h"
#include "edit/edit_make.h"
#include "recipe/recipe_json.h"

#include <math.h>

struct reading {
  struct edits *e;
  const struct json_value *line;
  struct arena *scratch;
  struct err *err;
  uint32_t next_node, next_value, next_tensor; // the ids that new rows of this line must have
};

static struct quoted shown(const struct json_value *v) {
  struct span s;
  return json_as_string(v, &s) ? quote(s) : quote_str("(no string)");
}

static bool listed(const char *allowed, const char *key) {
  const size_t n = strlen(key);
  for (const char *at = allowed; *at;) {
    const size_t word = strcspn(at, " ");
    if (word == n && memcmp(at, key, n) == 0) return true;
    at += word + (at[word] == ' ');
  }
  return false;
}

// An object has no other keys than those in `allowed` (separated by blanks).
static int read_keys(struct reading *in, const struct json_value *v, const char *allowed) {
  for (const struct json_value *c = json_first(v); c; c = json_next(c))
    if (!listed(allowed, json_name(c)))
      return err_set(in->err, ERR_MODEL, "unknown key '%s' (known: %s)", quote_str(json_name(c)).s,
                     allowed);
  return 0;
}

static int missing(struct reading *in, const char *key, const char *what) {
  return err_set(in->err, ERR_MODEL, "'%s' is not %s", key, what);
}

// ---- addresses ---------------------------------------------------------------------------------

struct address {
  uint32_t graph, id;
  struct span name;
  bool named;
};

static bool take_number(struct span *s, uint32_t *out) {
  uint64_t x = 0;
  size_t n = 0;
  while (n < s->n && n < 10 && s->at[n] >= '0' && s->at[n] <= '9')
    x = x * 10 + (s->at[n++] - (uint64_t)'0');
  if (n == 0 || (n > 1 && s->at[0] == '0') || x >= NO_ID) return false;
  *out = (uint32_t)x;
  *s = span_of(s->at + n, s->n - n);
  return true;
}

static bool take_char(struct span *s, char c) {
  if (s->n == 0 || s->at[0] != (uint8_t)c) return false;
  *s = span_of(s->at + 1, s->n - 1);
  return true;
}

static bool parse_address(struct span s, char kind, struct address *out) {
  if (!take_char(&s, 'g') || !take_number(&s, &out->graph)) return false;
  if (!take_char(&s, '/') || !take_char(&s, kind) || !take_number(&s, &out->id)) return false;
  out->named = take_char(&s, ':');
  out->name = s;
  return out->named || s.n == 0;
}

static int read_address(struct reading *in, const struct json_value *v, char kind,
                        struct address *out) {
  struct span s;
  const bool named = kind != 'n';
  if (json_as_string(v, &s) && parse_address(s, kind, out) && out->named == named) return 0;
  return err_set(in->err, ERR_MODEL, "'%s' is not an address of the form g0/%c1%s", shown(v).s,
                 kind, named ? ":name" : "");
}

static int no_such(struct reading *in, const struct json_value *v) {
  return err_set(in->err, ERR_MODEL, "the model has no '%s' at this point", shown(v).s);
}

static int read_node(struct reading *in, const struct json_value *v, uint32_t *out) {
  struct address a;
  if (read_address(in, v, 'n', &a)) return -1;
  *out = a.id;
  const struct model *m = in->e->m;
  return a.id < m->n_nodes && m->nodes[a.id].graph == a.graph ? 0 : no_such(in, v);
}

static int read_value(struct reading *in, const struct json_value *v, uint32_t *out) {
  struct address a;
  if (read_address(in, v, 'v', &a)) return -1;
  const struct model *m = in->e->m;
  if (a.id >= m->n_values || m->values[a.id].graph != a.graph ||
      !span_eq(model_value_name(m, a.id), a.name))
    return no_such(in, v);
  *out = a.id;
  return 0;
}

static int read_tensor(struct reading *in, const struct json_value *v, uint32_t *out) {
  struct address a;
  if (read_address(in, v, 't', &a)) return -1;
  if (a.id >= in->e->m->n_tensors) return no_such(in, v);
  const struct model_tensor *t = &in->e->m->tensors[a.id];
  const uint32_t graph = t->graph == NO_ID ? 0 : t->graph;
  if (graph != a.graph || !span_eq(model_name(in->e->m, t->name), a.name)) return no_such(in, v);
  *out = a.id;
  return 0;
}

static int read_plain(struct reading *in, const struct json_value *v, char kind, uint32_t *out) {
  struct span s;
  if (json_as_string(v, &s) && take_char(&s, kind) && take_number(&s, out) && s.n == 0) return 0;
  return err_set(in->err, ERR_MODEL, "'%s' is not an address of the form %c1", shown(v).s, kind);
}

// ---- new rows ----------------------------------------------------------------------------------

static int read_new(struct reading *in, const struct json_value *v, char kind, uint32_t *next,
                    struct address *out) {
  if (read_address(in, v, kind, out)) return -1;
  if (out->id != *next)
    return err_set(in->err, ERR_MODEL, "'%s' is new, and must have the number %u", shown(v).s,
                   *next);
  ++*next;
  return 0;
}

// Its graph, if the line named that before, is the same.
static int read_new_value(struct reading *in, const struct json_value *v, struct edit_asked *x) {
  struct address a;
  if (read_new(in, v, 'v', &in->next_value, &a)) return -1;
  if (x->graph != NO_ID && x->graph != a.graph)
    return err_set(in->err, ERR_MODEL, "'value' is in graph g%u, not g%u", a.graph, x->graph);
  x->graph = a.graph;
  x->name = a.name;
  return 0;
}

// A tensor of a function's body is made by a Constant node; others are by none.
static int read_maker(struct reading *in, const struct json_value *v, struct edit_asked *x) {
  struct address a = {.graph = x->graph};
  if (edit_check_graph(in->e, x->graph, in->err)) return -1;
  const bool constant = in->e->m->graphs[x->graph].kind == GRAPH_FUNCTION;
  if (constant && read_new(in, v, 'n', &in->next_node, &a)) return -1;
  if (a.graph == x->graph && constant == (v != NULL)) return 0;
  return err_set(in->err, ERR_MODEL, "'node' does not belong to a tensor of graph g%u", x->graph);
}

static int read_output(struct reading *in, const struct json_value *v, uint32_t graph,
                       struct edit_output *out) {
  struct address a;
  *out = (struct edit_output){.value = NO_ID, .name = span_of("", 0)};
  if (json_is_null(v)) return 0;
  if (read_address(in, v, 'v', &a)) return -1;
  if (a.graph != graph)
    return err_set(in->err, ERR_MODEL, "'%s' is not of graph g%u", shown(v).s, graph);
  if (a.id < in->e->m->n_values) return read_value(in, v, &out->value);
  if (read_new(in, v, 'v', &in->next_value, &a)) return -1;
  out->name = a.name;
  return a.name.n ? 0 : err_set(in->err, ERR_MODEL, "'%s' has no name", shown(v).s);
}

// ---- recipes -----------------------------------------------------------------------------------

static int read_dims(struct reading *in, const struct json_value *v, int64_t *dims,
                     uint32_t *rank) {
  const struct json_value *list = json_get(v, "dims");
  if (!json_is_array(list) || json_count(list) > RECIPE_MAX_RANK)
    return missing(in, "dims", "a list of at most 64 sizes");
  *rank = 0;
  for (const struct json_value *c = json_first(list); c; c = json_next(c))
    if (!json_as_int(c, &dims[(*rank)++])) return missing(in, "dims", "a list of sizes");
  return 0;
}

// The recipe of a source tensor as loaded, or NO_ID if it has none.
static uint32_t source_recipe(struct edits *e, uint32_t tensor) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  if (t->flags & TENSOR_NEW) return NO_ID;
  if (t->flags & TENSOR_REPLACED) return e->source_of[tensor] - 1;
  return edit_tensor_readable(e, tensor) ? edit_make_source_recipe(e, tensor) : NO_ID;
}

// {"tensor":"g0/t12:w","dims":[…]}
static int read_leaf(void *ctx, const struct json_value *v, uint32_t *recipe, struct err *err) {
  struct reading *in = ctx;
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t tensor, rank;
  uint64_t count;
  if (!json_get(v, "tensor")) return 0;
  if (read_keys(in, v, "tensor dims")) return -1;
  if (read_tensor(in, json_get(v, "tensor"), &tensor) || read_dims(in, v, dims, &rank)) return -1;
  const uint32_t source = source_recipe(in->e, tensor);
  if (source == NO_ID)
    return err_set(err, ERR_MODEL, "tensor '%s' has no elements in the source that weir can read",
                   shown(json_get(v, "tensor")).s);
  const struct recipe *x = &in->e->r->rows[source];
  if (!dims_product(dims, rank, &count) || count != x->count)
    return err_set(err, ERR_MODEL, "dims %s do not match the %s elements of tensor '%s'",
                   quote_dims(dims, rank).s, decimal(x->count).s, shown(json_get(v, "tensor")).s);
  *recipe = recipe_has_dims(in->e->r, source, dims, rank)
                ? source
                : edit_make_source_recipe_as(in->e, tensor, dims, rank);
  return 1;
}

static uint64_t *file_sizes(struct reading *in) {
  const struct model *m = in->e->m;
  uint64_t *sizes = arena_alloc(in->scratch, (m->n_files + (size_t)1) * sizeof *sizes);
  for (uint32_t i = 0; i < m->n_files; i++)
    sizes[i] = m->files[i].size;
  return sizes;
}

static struct recipe_json_leaves leaves_of(struct reading *in) {
  return (struct recipe_json_leaves){
      .read = read_leaf, .ctx = in, .n_files = in->e->m->n_files, .file_sizes = file_sizes(in)};
}

// "dtype", "dims" and "recipe", which must agree.
static int read_data(struct reading *in, const struct json_value *v, uint32_t *recipe) {
  const struct recipe_json_leaves leaves = leaves_of(in);
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t rank;
  struct span dtype;
  if (!json_as_string(json_get(v, "dtype"), &dtype)) return missing(in, "dtype", "a string");
  if (read_dims(in, v, dims, &rank)) return -1;
  if (recipe_json_read(in->e->r, json_get(v, "recipe"), &leaves, recipe, in->err)) return -1;
  const struct recipe *x = &in->e->r->rows[*recipe];
  if (recipe_has_dims(in->e->r, *recipe, dims, rank) &&
      span_is(dtype, dtype_name((enum dtype)x->dtype)))
    return 0;
  return err_set(in->err, ERR_MODEL, "the line says %s %s, but its recipe makes %s %s",
                 quote(dtype).s, quote_dims(dims, rank).s, dtype_name((enum dtype)x->dtype),
                 quote_dims(recipe_dims(in->e->r, *recipe), x->rank).s);
}

// The same, and "tensor": the next new one, of that graph and name.
static int read_new_tensor(struct reading *in, const struct json_value *v, uint32_t graph,
                           struct span name, uint32_t *recipe) {
  struct address a;
  const struct json_value *at = json_get(v, "tensor");
  if (read_new(in, at, 't', &in->next_tensor, &a)) return -1;
  if (a.graph != graph || !span_eq(a.name, name))
    return err_set(in->err, ERR_MODEL, "'%s' must be of graph g%u and named '%s'", shown(at).s,
                   graph, quote(name).s);
  return read_data(in, v, recipe);
}

// ---- attributes --------------------------------------------------------------------------------

static bool read_float(const struct json_value *v, float *out) {
  struct span hex;
  uint8_t be[4];
  double x;
  if (json_is_object(v)) {
    if (json_count(v) != 1 || !json_as_string(json_get(v, "bits"), &hex)) return false;
    if (!hex_decode(hex, be, 4)) return false;
    const uint32_t bits =
        (uint32_t)be[0] << 24 | (uint32_t)be[1] << 16 | (uint32_t)be[2] << 8 | be[3];
    memcpy(out, &bits, 4);
    return true;
  }
  if (!json_as_double(v, &x) || isnan(x)) return false;
  if (isfinite(x) && fabs(x) > 3.4028235677973366e38) return false; // rounds to infinity
  *out = (float)x;
  return true;
}

static int read_floats(struct reading *in, const struct json_value *v, struct edit_attr *a) {
  if (!json_is_array(v)) return missing(in, "floats", "a list");
  float *list = arena_alloc(in->scratch, (json_count(v) + 1) * sizeof *list);
  for (const struct json_value *c = json_first(v); c; c = json_next(c))
    if (!read_float(c, &list[a->n++])) return missing(in, "floats", "a list of float32 numbers");
  a->floats = list;
  return 0;
}

static int read_ints(struct reading *in, const struct json_value *v, struct edit_attr *a) {
  if (!json_is_array(v)) return missing(in, "ints", "a list");
  int64_t *list = arena_alloc(in->scratch, (json_count(v) + 1) * sizeof *list);
  for (const struct json_value *c = json_first(v); c; c = json_next(c))
    if (!json_as_int(c, &list[a->n++])) return missing(in, "ints", "a list of integers");
  a->ints = list;
  return 0;
}

static int read_strings(struct reading *in, const struct json_value *v, struct edit_attr *a) {
  if (!json_is_array(v)) return missing(in, "strings", "a list");
  struct span *list = arena_alloc(in->scratch, (json_count(v) + 1) * sizeof *list);
  for (const struct json_value *c = json_first(v); c; c = json_next(c))
    if (!json_as_string(c, &list[a->n++])) return missing(in, "strings", "a list of strings");
  a->strings = list;
  return 0;
}

static enum attr_type attr_type_of(const struct json_value *v) {
  const size_t n = json_count(v);
  for (enum attr_type t = ATTR_FLOAT; t <= ATTR_STRINGS; t++)
    if (json_get(v, edit_attr_words[t]) && n == (t == ATTR_TENSOR ? 4u : 1u)) return t;
  return ATTR_UNDEFINED;
}

// {"ref":"alpha","type":"float"}
static int read_ref(struct reading *in, const struct json_value *v, struct edit_attr *a) {
  struct span ref, type;
  if (read_keys(in, v, "ref type")) return -1;
  if (!json_as_string(json_get(v, "ref"), &ref)) return missing(in, "ref", "a string");
  if (memchr(ref.at, 0, ref.n))
    return err_set(in->err, ERR_MODEL, "the name of a function's attribute has a NUL in it");
  if (!json_as_string(json_get(v, "type"), &type)) return missing(in, "type", "a string");
  a->ref = arena_string(in->scratch, ref);
  for (a->type = ATTR_FLOAT; a->type <= ATTR_STRINGS; a->type++)
    if (span_is(type, edit_attr_words[a->type])) return 0;
  return err_set(in->err, ERR_MODEL, "'%s' is not a type of attributes", quote(type).s);
}

// {"int":1}, …; null: ATTR_UNDEFINED.
static int read_attr(struct reading *in, const struct json_value *v, const char *name,
                     uint32_t graph, struct edit_attr *a) {
  *a = (struct edit_attr){.name = name, .type = attr_type_of(v)};
  if (json_is_null(v)) return 0;
  if (json_get(v, "ref")) return read_ref(in, v, a);
  switch (a->type) {
  case ATTR_INT: return json_as_int(json_first(v), &a->i) ? 0 : missing(in, "int", "an integer");
  case ATTR_FLOAT:
    return read_float(json_first(v), &a->f) ? 0 : missing(in, "float", "a float32 number");
  case ATTR_STRING:
    return json_as_string(json_first(v), &a->s) ? 0 : missing(in, "string", "a string");
  case ATTR_INTS: return read_ints(in, json_first(v), a);
  case ATTR_FLOATS: return read_floats(in, json_first(v), a);
  case ATTR_STRINGS: return read_strings(in, json_first(v), a);
  case ATTR_TENSOR:
    if (read_keys(in, v, "tensor dtype dims recipe")) return -1;
    return read_new_tensor(in, v, graph, span_of("", 0), &a->recipe);
  case ATTR_GRAPH: return read_plain(in, json_first(v), 'g', &a->graph);
  default:
    return err_set(in->err, ERR_MODEL,
                   "attribute '%s' is not of the form {\"int\":1} (or float, string, ints, floats, "
                   "strings, tensor, graph, ref)",
                   quote_str(name).s);
  }
}

// ---- types of values ---------------------------------------------------------------------------

static int read_dim(struct reading *in, const struct json_value *v, struct model_dim *d) {
  struct span name;
  *d = (struct model_dim){.value = -1, .param = in->e->m->empty};
  if (json_is_null(v)) return 0;
  if (json_as_string(v, &name)) {
    d->param = model_intern(in->e->m, name);
    return 0;
  }
  if (json_is_object(v) && json_count(v) == 1) v = json_get(v, "size");
  if (json_as_int(v, &d->value) && d->value >= 0) return 0;
  return missing(in, "dims", "a list of sizes, names and nulls");
}

static int read_type(struct reading *in, struct edit_asked *x) {
  const struct json_value *type = json_get(in->line, "dtype"), *list = json_get(in->line, "dims");
  struct span name;
  x->dtype = DTYPE_UNDEFINED;
  x->rank = NO_ID;
  if (!json_is_null(type)) {
    if (!json_as_string(type, &name)) return missing(in, "dtype", "an element type or null");
    x->dtype = dtype_by_name(name);
    if (x->dtype == DTYPE_UNDEFINED)
      return err_set(in->err, ERR_MODEL, "'%s' is not an element type", quote(name).s);
  }
  if (!list) return 0;
  if (!json_is_array(list)) return missing(in, "dims", "a list");
  struct model_dim *dims = arena_alloc(in->scratch, (json_count(list) + 1) * sizeof *dims);
  x->rank = 0;
  for (const struct json_value *c = json_first(list); c; c = json_next(c))
    if (read_dim(in, c, &dims[x->rank++])) return -1;
  x->dims = dims;
  return 0;
}

// ---- lists -------------------------------------------------------------------------------------

static int read_inputs(struct reading *in, const struct json_value *list, struct edit_node *spec) {
  if (!json_is_array(list)) return missing(in, "in", "a list of values");
  uint32_t *inputs = arena_alloc(in->scratch, (json_count(list) + 1) * sizeof *inputs);
  for (const struct json_value *v = json_first(list); v; v = json_next(v)) {
    uint32_t *value = &inputs[spec->n_in++];
    *value = NO_ID;
    if (!json_is_null(v) && read_value(in, v, value)) return -1;
  }
  spec->in = inputs;
  return 0;
}

static int read_outputs(struct reading *in, const struct json_value *list, struct edit_node *spec) {
  if (!json_is_array(list)) return missing(in, "out", "a list of values");
  struct edit_output *out = arena_alloc(in->scratch, (json_count(list) + 1) * sizeof *out);
  for (const struct json_value *v = json_first(list); v; v = json_next(v))
    if (read_output(in, v, spec->graph, &out[spec->n_out++])) return -1;
  spec->out = out;
  return 0;
}

static int read_attrs(struct reading *in, const struct json_value *list, bool defaults,
                      struct edit_node *spec) {
  if (!list) return 0;
  if (!json_is_object(list)) return missing(in, "attrs", "an object");
  struct edit_attr *attrs = arena_alloc(in->scratch, (json_count(list) + 1) * sizeof *attrs);
  for (const struct json_value *v = json_first(list); v; v = json_next(v)) {
    struct edit_attr *a = &attrs[spec->n_attrs++];
    if (read_attr(in, v, json_name(v), spec->graph, a)) return -1;
    if (a->type == ATTR_UNDEFINED && !defaults)
      return err_set(in->err, ERR_MODEL, "attribute '%s' is null", quote_str(a->name).s);
  }
  spec->attrs = attrs;
  return 0;
}

static int read_recipes(struct reading *in, const struct json_value *list, struct edit_asked *x) {
  const struct recipe_json_leaves leaves = leaves_of(in);
  if (!json_is_array(list)) return missing(in, "of", "a list of recipes");
  uint32_t *of = arena_alloc(in->scratch, (json_count(list) + 1) * sizeof *of);
  for (const struct json_value *v = json_first(list); v; v = json_next(v))
    if (recipe_json_read(in->e->r, v, &leaves, &of[x->n_of++], in->err)) return -1;
  x->of = of;
  return 0;
}

// ---- the line ----------------------------------------------------------------------------------

static int read_field(struct reading *in, struct edit_asked *x, const struct edit_field *f) {
  const struct json_value *v = json_get(in->line, f->keys);
  void *at = (uint8_t *)x + f->at;
  uint32_t *id = at;
  uint64_t number;
  struct span hex;
  struct address a;
  if (!v && f->may_lack) {
    *id = NO_ID;
    return 0;
  }
  switch (f->type) {
  case FIELD_NUMBER: return json_as_int(v, at) ? 0 : missing(in, f->keys, "an integer");
  case FIELD_POSITION:
    if (!json_as_uint(v, &number) || number >= NO_ID) return missing(in, f->keys, "a position");
    *id = (uint32_t)number;
    return 0;
  case FIELD_TEXT: return !v || json_as_string(v, at) ? 0 : missing(in, f->keys, "a string");
  case FIELD_STRING: return json_as_string(v, at) ? 0 : missing(in, f->keys, "a string");
  case FIELD_DIGEST:
    if (!json_as_string(v, &hex)) return missing(in, f->keys, "a string");
    return hex_decode(hex, at, sizeof x->sha256) ? 0 : missing(in, f->keys, "of 64 hex digits");
  case FIELD_NODE: return read_node(in, v, id);
  case FIELD_VALUE: return read_value(in, v, id);
  case FIELD_TENSOR: return read_tensor(in, v, id);
  case FIELD_GRAPH: return read_plain(in, v, 'g', id);
  case FIELD_FUNCTION: return read_plain(in, v, 'f', id);
  case FIELD_NEW_NODE:
    if (read_new(in, v, 'n', &in->next_node, &a)) return -1;
    x->spec.graph = a.graph;
    return 0;
  case FIELD_NEW_VALUE: return read_new_value(in, v, x);
  case FIELD_MAKER: return read_maker(in, v, x);
  case FIELD_NEW_TENSOR: return read_new_tensor(in, in->line, x->graph, x->name, &x->recipe);
  case FIELD_SEEN_TENSOR:
    return read_new_tensor(in, in->line, in->e->m->values[x->value].graph,
                           model_value_name(in->e->m, x->value), &x->recipe);
  case FIELD_DATA:
    if (read_tensor(in, json_get(in->line, "tensor"), id)) return -1;
    return read_data(in, in->line, &x->recipe);
  case FIELD_TYPE: return read_type(in, x);
  case FIELD_INPUTS: return read_inputs(in, v, &x->spec);
  case FIELD_OUTPUTS: return read_outputs(in, v, &x->spec);
  case FIELD_ATTRS: return read_attrs(in, v, false, &x->spec);
  case FIELD_DEFAULTS: return read_attrs(in, v, true, &x->spec);
  case FIELD_OUTPUT:
    x->out = (struct edit_output){.value = NO_ID, .name = span_of("", 0)};
    return v ? read_output(in, v, in->e->m->nodes[x->node].graph, &x->out) : 0;
  case FIELD_ATTR:
    if (!v) return err_set(in->err, ERR_MODEL, "'value' is missing (null removes an attribute)");
    return read_attr(in, v, (const char *)x->name.at, in->e->m->nodes[x->node].graph,
                     &x->attr_value);
  case FIELD_RECIPES: return read_recipes(in, v, x);
  }
  return 0;
}

// Has what decided the edits that follow found again, if somebody can, and compared.
static int find_again(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (x->kind == EDIT_ARTIFACT && e->artifact) {
    struct edit_artifact a = {.stage = (const char *)x->stage.at, .of = x->of, .n = x->n_of};
    memcpy(a.sha256, x->sha256, sizeof a.sha256);
    return e->artifact(e->replay_ctx, &a, err);
  }
  if (x->kind == EDIT_LOOK && e->look) {
    struct edit_look look = {.tensor = x->tensor};
    memcpy(look.sha256, x->sha256, sizeof look.sha256);
    return e->look(e->replay_ctx, &look, err);
  }
  if (x->kind == EDIT_SOURCE && e->source) {
    struct edit_source source = {
        .file = x->slot, .name = (const char *)x->name.at, .size = (uint64_t)x->number};
    memcpy(source.sha256, x->sha256, sizeof source.sha256);
    return e->source(e->replay_ctx, &source, err);
  }
  return 0;
}

static int replay(struct reading *in) {
  struct edit_asked x = {.node = NO_ID, .graph = NO_ID};
  struct span word;
  if (!json_as_string(json_get(in->line, "edit"), &word))
    return err_set(in->err, ERR_MODEL, "the line is not an object with the key 'edit'");
  while (x.kind < EDIT_KINDS && !span_is(word, edit_kinds[x.kind].word))
    x.kind++;
  if (x.kind == EDIT_KINDS)
    return err_set(in->err, ERR_MODEL, "'%s' is not a kind of edit", quote(word).s);
  const struct edit_kind_row *kind = &edit_kinds[x.kind];
  const char *keys = "edit";
  for (const struct edit_field *f = kind->fields; f->keys; f++)
    keys = arena_printf(in->scratch, "%s %s", keys, f->keys);
  if (read_keys(in, in->line, keys)) return -1;
  for (const struct edit_field *f = kind->fields; f->keys; f++)
    if (read_field(in, &x, f)) return -1;
  if (kind->check(in->e, &x, in->err) || find_again(in->e, &x, in->err)) return -1;
  edit_take(in->e, &x);
  return 0;
}

int edit_log_replay_line(struct edits *e, struct span line, uint64_t line_number, struct err *err) {
  char what[48];
  snprintf(what, sizeof what, "edit log, line %s", decimal(line_number).s);
  struct json_value *doc = json_parse(line, what, err);
  if (!doc) return -1;
  struct arena scratch = {0};
  struct err cause = {0};
  struct reading in = {.e = e,
                       .line = doc,
                       .scratch = &scratch,
                       .err = &cause,
                       .next_node = e->m->n_nodes,
                       .next_value = e->m->n_values,
                       .next_tensor = e->m->n_tensors};
  const int rc = replay(&in);
  if (rc < 0) {
    err_fill(err, cause.kind, "%s: %.900s", what, cause.msg);
    err_fill_hint_of(err, &cause);
  }
  arena_free(&scratch);
  json_free(doc);
  return rc;
}
