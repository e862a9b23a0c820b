// Reading the parts of a log line.
//
// An address is  g<graph>/<kind><id>  and, for values and tensors, :<name>. Ids decide, and graph
// and name must agree with the row: a log that was made for another model, or edited by hand and
// got out of step, is noticed at the first line that does not fit. Rows that a line makes must
// carry the id that comes next.
#include "edit_read.h"

#include "edit_make.h"
#include "recipe_json.h"

#include <math.h>

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

int edit_read_keys(struct edit_reading *in, const struct json_value *v, const char *allowed) {
  for (const struct json_value *c = json_first(v); c; c = json_next(c))
    if (!listed(allowed, json_name(c)))
      return err_set(in->err, ERR_MODEL, "the key '%s' has no meaning here (known are: %s)",
                     quote_str(json_name(c)).s, allowed);
  return 0;
}

static int missing(struct edit_reading *in, const char *key, const char *what) {
  return err_set(in->err, ERR_MODEL, "'%s' is not %s", key, what);
}

// ---- plain members -----------------------------------------------------------------------------

struct span edit_read_text(struct edit_reading *in, const char *key, bool required) {
  const struct json_value *v = json_get(in->line, key);
  struct span s = span_of("", 0);
  if ((v || required) && !json_as_string(v, &s)) missing(in, key, "a string");
  return s;
}

int64_t edit_read_int(struct edit_reading *in, const char *key) {
  int64_t x = 0;
  if (!json_as_int(json_get(in->line, key), &x)) missing(in, key, "an integer");
  return x;
}

uint32_t edit_read_index(struct edit_reading *in, const char *key) {
  uint64_t x;
  if (json_as_uint(json_get(in->line, key), &x) && x < NO_ID) return (uint32_t)x;
  missing(in, key, "a position");
  return NO_ID;
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

static int read_address(struct edit_reading *in, const struct json_value *v, char kind,
                        struct address *out) {
  struct span s;
  const bool named = kind != 'n';
  if (json_as_string(v, &s) && parse_address(s, kind, out) && out->named == named) return 0;
  return err_set(in->err, ERR_MODEL, "'%s' is not an address of the form g0/%c1%s", shown(v).s,
                 kind, named ? ":name" : "");
}

static int no_such(struct edit_reading *in, const struct json_value *v) {
  return err_set(in->err, ERR_MODEL, "the model has no '%s' at this point", shown(v).s);
}

uint32_t edit_read_node(struct edit_reading *in, const char *key, bool required) {
  const struct json_value *v = json_get(in->line, key);
  const struct model *m = in->e->m;
  struct address a;
  if ((!v && !required) || read_address(in, v, 'n', &a)) return NO_ID;
  if (a.id < m->n_nodes && m->nodes[a.id].graph == a.graph) return a.id;
  no_such(in, v);
  return NO_ID;
}

static int read_value(struct edit_reading *in, const struct json_value *v, uint32_t *out) {
  struct address a;
  if (read_address(in, v, 'v', &a)) return -1;
  const struct model *m = in->e->m;
  if (a.id >= m->n_values || m->values[a.id].graph != a.graph ||
      !span_eq(model_value_name(m, a.id), a.name))
    return no_such(in, v);
  *out = a.id;
  return 0;
}

uint32_t edit_read_value(struct edit_reading *in, const char *key, bool required) {
  const struct json_value *v = json_get(in->line, key);
  uint32_t value = NO_ID;
  if (v || required) read_value(in, v, &value);
  return value;
}

static int read_tensor(struct edit_reading *in, const struct json_value *v, uint32_t *out) {
  struct address a;
  if (read_address(in, v, 't', &a)) return -1;
  if (a.id >= in->e->m->n_tensors) return no_such(in, v);
  const struct model_tensor *t = &in->e->m->tensors[a.id];
  const uint32_t graph = t->graph == NO_ID ? 0 : t->graph;
  if (graph != a.graph || !span_eq(model_name(in->e->m, t->name), a.name)) return no_such(in, v);
  *out = a.id;
  return 0;
}

uint32_t edit_read_tensor(struct edit_reading *in) {
  uint32_t tensor = NO_ID;
  read_tensor(in, json_get(in->line, "tensor"), &tensor);
  return tensor;
}

static int read_plain(struct edit_reading *in, const struct json_value *v, char kind,
                      uint32_t *out) {
  struct span s;
  if (json_as_string(v, &s) && take_char(&s, kind) && take_number(&s, out) && s.n == 0) return 0;
  return err_set(in->err, ERR_MODEL, "'%s' is not an address of the form %c1", shown(v).s, kind);
}

uint32_t edit_read_graph(struct edit_reading *in, const char *key) {
  uint32_t graph = NO_ID;
  read_plain(in, json_get(in->line, key), 'g', &graph);
  return graph;
}

uint32_t edit_read_function(struct edit_reading *in, const char *key) {
  uint32_t function = NO_ID;
  read_plain(in, json_get(in->line, key), 'f', &function);
  return function;
}

// ---- new rows ----------------------------------------------------------------------------------

static int read_new(struct edit_reading *in, const struct json_value *v, char kind, uint32_t *next,
                    struct address *out) {
  if (read_address(in, v, kind, out)) return -1;
  if (out->id != *next)
    return err_set(in->err, ERR_MODEL, "'%s' is new, and must have the number %u", shown(v).s,
                   *next);
  ++*next;
  return 0;
}

int edit_read_new_node(struct edit_reading *in, const char *key, uint32_t *graph) {
  struct address a;
  if (read_new(in, json_get(in->line, key), 'n', &in->next_node, &a)) return -1;
  *graph = a.graph;
  return 0;
}

int edit_read_new_value(struct edit_reading *in, const struct json_value *v, uint32_t *graph,
                        struct span *name) {
  struct address a;
  if (read_new(in, v, 'v', &in->next_value, &a)) return -1;
  *graph = a.graph;
  *name = a.name;
  return 0;
}

int edit_read_new_tensor(struct edit_reading *in, const struct json_value *v, uint32_t graph,
                         struct span name, uint32_t *recipe) {
  struct address a;
  const struct json_value *at = json_get(v, "tensor");
  if (read_new(in, at, 't', &in->next_tensor, &a)) return -1;
  if (a.graph != graph || !span_eq(a.name, name))
    return err_set(in->err, ERR_MODEL, "'%s' must be of graph g%u and named '%s'", shown(at).s,
                   graph, quote(name).s);
  return edit_read_recipe(in, v, recipe);
}

int edit_read_inputs(struct edit_reading *in, const char *key, uint32_t **list, uint32_t *n) {
  const struct json_value *v = json_get(in->line, key);
  if (!json_is_array(v)) return missing(in, key, "a list of values");
  *n = 0;
  *list = arena_alloc(in->scratch, (json_count(v) + 1) * sizeof **list);
  for (const struct json_value *c = json_first(v); c; c = json_next(c), ++*n) {
    (*list)[*n] = NO_ID;
    if (!json_is_null(c) && read_value(in, c, &(*list)[*n])) return -1;
  }
  return 0;
}

int edit_read_output(struct edit_reading *in, const struct json_value *v, uint32_t graph,
                     struct edit_output *out) {
  struct address a;
  *out = (struct edit_output){.value = NO_ID, .name = span_of("", 0)};
  if (json_is_null(v)) return 0;
  if (read_address(in, v, 'v', &a)) return -1;
  if (a.graph != graph)
    return err_set(in->err, ERR_MODEL, "'%s' is not of graph g%u", shown(v).s, graph);
  if (a.id < in->e->m->n_values) return read_value(in, v, &out->value);
  uint32_t same;
  if (edit_read_new_value(in, v, &same, &out->name)) return -1;
  if (out->name.n == 0) return err_set(in->err, ERR_MODEL, "'%s' has no name", shown(v).s);
  return 0;
}

// ---- recipes -----------------------------------------------------------------------------------

static int read_dims(struct edit_reading *in, const struct json_value *v, int64_t *dims,
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
  struct edit_reading *in = ctx;
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t tensor, rank;
  uint64_t count;
  if (!json_get(v, "tensor")) return 0;
  if (edit_read_keys(in, v, "tensor dims")) return -1;
  if (read_tensor(in, json_get(v, "tensor"), &tensor) || read_dims(in, v, dims, &rank)) return -1;
  const uint32_t source = source_recipe(in->e, tensor);
  if (source == NO_ID)
    return err_set(err, ERR_MODEL, "tensor '%s' has no elements in the source that can be read",
                   shown(json_get(v, "tensor")).s);
  const struct recipe *x = &in->e->r->rows[source];
  if (!dims_product(dims, rank, &count) || count != x->count)
    return err_set(err, ERR_MODEL, "dims %s do not hold the %lu elements of tensor '%s'",
                   quote_dims(dims, rank).s, x->count, shown(json_get(v, "tensor")).s);
  const bool same = recipe_has_dims(in->e->r, source, dims, rank);
  *recipe = same ? source : edit_make_source_recipe_as(in->e, tensor, dims, rank);
  return 1;
}

static uint64_t *file_sizes(struct edit_reading *in) {
  const struct model *m = in->e->m;
  uint64_t *sizes = arena_alloc(in->scratch, (m->n_files + (size_t)1) * sizeof *sizes);
  for (uint32_t i = 0; i < m->n_files; i++)
    sizes[i] = m->files[i].size;
  return sizes;
}

static struct recipe_json_leaves leaves_of(struct edit_reading *in) {
  return (struct recipe_json_leaves){
      .read = read_leaf, .ctx = in, .n_files = in->e->m->n_files, .file_sizes = file_sizes(in)};
}

int edit_read_recipes(struct edit_reading *in, const char *key, uint32_t **list, uint32_t *n) {
  const struct json_value *v = json_get(in->line, key);
  const struct recipe_json_leaves leaves = leaves_of(in);
  if (!json_is_array(v)) return missing(in, key, "a list of recipes");
  *n = 0;
  *list = arena_alloc(in->scratch, (json_count(v) + 1) * sizeof **list);
  for (const struct json_value *c = json_first(v); c; c = json_next(c), ++*n)
    if (recipe_json_read(in->e->r, c, &leaves, &(*list)[*n], in->err)) return -1;
  return 0;
}

int edit_read_recipe(struct edit_reading *in, const struct json_value *v, uint32_t *recipe) {
  const struct recipe_json_leaves leaves = leaves_of(in);
  int64_t dims[RECIPE_MAX_RANK];
  uint32_t rank;
  struct span dtype;
  if (!json_as_string(json_get(v, "dtype"), &dtype)) return missing(in, "dtype", "a string");
  if (read_dims(in, v, dims, &rank)) return -1;
  if (recipe_json_read(in->e->r, json_get(v, "recipe"), &leaves, recipe, in->err)) return -1;
  const struct recipe *x = &in->e->r->rows[*recipe];
  const bool same = recipe_has_dims(in->e->r, *recipe, dims, rank);
  if (same && span_is(dtype, dtype_name((enum dtype)x->dtype))) return 0;
  return err_set(in->err, ERR_MODEL, "the line says %s %s, but its recipe makes %s %s",
                 quote(dtype).s, quote_dims(dims, rank).s, dtype_name((enum dtype)x->dtype),
                 quote_dims(recipe_dims(in->e->r, *recipe), x->rank).s);
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

static int read_floats(struct edit_reading *in, const struct json_value *v, struct edit_attr *a) {
  if (!json_is_array(v)) return missing(in, "floats", "a list");
  float *list = arena_alloc(in->scratch, (json_count(v) + 1) * sizeof *list);
  for (const struct json_value *c = json_first(v); c; c = json_next(c))
    if (!read_float(c, &list[a->n++])) return missing(in, "floats", "a list of float32 numbers");
  a->floats = list;
  return 0;
}

static int read_ints(struct edit_reading *in, const struct json_value *v, struct edit_attr *a) {
  if (!json_is_array(v)) return missing(in, "ints", "a list");
  int64_t *list = arena_alloc(in->scratch, (json_count(v) + 1) * sizeof *list);
  for (const struct json_value *c = json_first(v); c; c = json_next(c))
    if (!json_as_int(c, &list[a->n++])) return missing(in, "ints", "a list of integers");
  a->ints = list;
  return 0;
}

static enum attr_type attr_type_of(const struct json_value *v) {
  static const struct {
    const char *key;
    enum attr_type type;
  } keys[] = {{"int", ATTR_INT},    {"float", ATTR_FLOAT},   {"string", ATTR_STRING},
              {"ints", ATTR_INTS},  {"floats", ATTR_FLOATS}, {"tensor", ATTR_TENSOR},
              {"graph", ATTR_GRAPH}};
  const size_t n = json_count(v);
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    if (json_get(v, keys[i].key) && n == (keys[i].type == ATTR_TENSOR ? 4u : 1u))
      return keys[i].type;
  return ATTR_UNDEFINED;
}

int edit_read_attr(struct edit_reading *in, const struct json_value *v, const char *name,
                   uint32_t graph, struct edit_attr *a) {
  *a = (struct edit_attr){.name = name, .type = attr_type_of(v)};
  if (json_is_null(v)) return 0;
  switch (a->type) {
  case ATTR_INT: return json_as_int(json_first(v), &a->i) ? 0 : missing(in, "int", "an integer");
  case ATTR_FLOAT:
    return read_float(json_first(v), &a->f) ? 0 : missing(in, "float", "a float32 number");
  case ATTR_STRING:
    return json_as_string(json_first(v), &a->s) ? 0 : missing(in, "string", "a string");
  case ATTR_INTS: return read_ints(in, json_first(v), a);
  case ATTR_FLOATS: return read_floats(in, json_first(v), a);
  case ATTR_TENSOR:
    if (edit_read_keys(in, v, "tensor dtype dims recipe")) return -1;
    return edit_read_new_tensor(in, v, graph, span_of("", 0), &a->recipe);
  case ATTR_GRAPH: return read_plain(in, json_first(v), 'g', &a->graph);
  default:
    return err_set(in->err, ERR_MODEL,
                   "attribute '%s' is not of the form {\"int\":1} (or float, string, ints, floats, "
                   "tensor, graph)",
                   quote_str(name).s);
  }
}

// ---- types of values ---------------------------------------------------------------------------

static int read_dim(struct edit_reading *in, const struct json_value *v, struct model_dim *d) {
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

int edit_read_type(struct edit_reading *in, enum dtype *dtype, struct model_dim **dims,
                   uint32_t *rank) {
  const struct json_value *type = json_get(in->line, "dtype"), *list = json_get(in->line, "dims");
  struct span name;
  *dtype = DTYPE_UNDEFINED;
  *dims = NULL;
  *rank = NO_ID;
  if (!json_is_null(type)) {
    if (!json_as_string(type, &name)) return missing(in, "dtype", "an element type or null");
    *dtype = dtype_by_name(name);
    if (*dtype == DTYPE_UNDEFINED)
      return err_set(in->err, ERR_MODEL, "'%s' is not an element type", quote(name).s);
  }
  if (!list) return 0;
  if (!json_is_array(list)) return missing(in, "dims", "a list");
  *rank = 0;
  *dims = arena_alloc(in->scratch, (json_count(list) + 1) * sizeof **dims);
  for (const struct json_value *c = json_first(list); c; c = json_next(c))
    if (read_dim(in, c, &(*dims)[(*rank)++])) return -1;
  return 0;
}
