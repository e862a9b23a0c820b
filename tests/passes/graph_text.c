// Reads and writes models as lines (graph_text.h), for golden cases.
//
// Reading is a walk over lines with a stack of the graphs that are open: how far a line is indented says
// which graph it belongs to, and a line that is less so closes those deeper than it. Each line is cut
// by one cursor that never goes back. Rows are made by model_builder.h.
//
// Writing gives the same lines in one order (versions, inputs, outputs, declarations, initializers,
// nodes), so that equal models have equal texts however the lines stood.
#include "graph_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 16, LONGEST = 1 << 16, MOST_DEFAULTS = 16 };

struct reading {
  struct build b;
  struct arena *arena;
  const struct graph_text_kept *kept;
  struct {
    uint32_t indent; // of its lines
    uint32_t node;   // the last one, NO_ID: none yet
  } open[DEPTH];
  uint32_t n_open;
  uint32_t n_large;
  const char *at; // the cursor in the line
};

// ---- the cursor --------------------------------------------------------------------------------

static void skip(struct reading *r) {
  r->at += strspn(r->at, " ");
}

static bool take(struct reading *r, const char *word) {
  skip(r);
  const size_t n = strlen(word);
  if (strncmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

// Up to one of `ends`, blanks behind it cut off.
static const char *word(struct reading *r, const char *ends) {
  skip(r);
  size_t n = strcspn(r->at, ends), used = n;
  while (n > 0 && r->at[n - 1] == ' ')
    n--;
  const char *text = arena_string(r->arena, span_of(r->at, n));
  r->at += used;
  return text;
}

static bool at_end(struct reading *r) {
  skip(r);
  return *r->at == '\0';
}

// ---- types and elements ------------------------------------------------------------------------

struct type {
  enum dtype dtype;
  const char *dims; // NULL: not known
};

static bool read_type(struct reading *r, struct type *t) {
  const char *name = word(r, "[ {");
  *t = (struct type){0};
  for (int d = 1; d < 64 && t->dtype == DTYPE_UNDEFINED; d++)
    if (strcmp(dtype_name((enum dtype)d), name) == 0) t->dtype = (enum dtype)d;
  if (t->dtype == DTYPE_UNDEFINED) return false;
  if (*r->at != '[') return true;
  r->at++;
  t->dims = word(r, "]");
  return take(r, "]");
}

// How wide an element is written: sub-byte types as bytes.
static size_t width_of(enum dtype t) {
  const uint64_t bits = dtype_bits(t);
  return bits < 8 ? 1 : (size_t)bits / 8;
}

static bool is_signed(enum dtype t) {
  return t == DTYPE_INT8 || t == DTYPE_INT16 || t == DTYPE_INT32 || t == DTYPE_INT64;
}

static bool is_unsigned(enum dtype t) {
  return t == DTYPE_UINT8 || t == DTYPE_UINT16 || t == DTYPE_UINT32 || t == DTYPE_UINT64 ||
         t == DTYPE_BOOL;
}

static void put_element(enum dtype t, const char *text, uint8_t *out) {
  const float f = strtof(text, NULL);
  const double d = strtod(text, NULL);
  const uint64_t bits = is_signed(t) ? (uint64_t)strtoll(text, NULL, 10) : strtoull(text, NULL, 0);
  memcpy(out,
         t == DTYPE_FLOAT    ? (const void *)&f
         : t == DTYPE_DOUBLE ? (const void *)&d
                             : (const void *)&bits,
         width_of(t));
}

// "{1 2}" or "fill 1" of `bytes` bytes; NULL: something else, or another number of them.
static const uint8_t *read_elements(struct reading *r, enum dtype t, uint64_t bytes) {
  const size_t width = width_of(t);
  uint8_t *out = arena_zalloc(r->arena, bytes + 8);
  if (take(r, "fill ")) {
    const char *x = word(r, " >,");
    for (uint64_t i = 0; i < bytes; i += width)
      put_element(t, x, out + i);
    return out;
  }
  if (!take(r, "{")) return NULL;
  uint64_t at = 0;
  while (!take(r, "}")) {
    const char *x = word(r, " }");
    if (*x == '\0' || at + width > bytes) return NULL;
    put_element(t, x, out + at);
    at += width;
  }
  return at == bytes ? out : NULL;
}

static bool bytes_of(struct type t, uint64_t *bytes) {
  uint64_t n = 1;
  for (const char *at = t.dims; at && *at; at += strspn(at, ",")) {
    char *end;
    n *= strtoull(at, &end, 10);
    if (end == at) return false;
    at = end;
  }
  return t.dims && dtype_bytes(t.dtype, n, bytes);
}

// ---- lines -------------------------------------------------------------------------------------

static bool read_version(struct reading *r) {
  struct model *m = r->b.m;
  const char *first = word(r, " "), *second = word(r, " ");
  const char *domain = *second ? first : "";
  const int64_t version = strtoll(*second ? second : first, NULL, 10);
  const uint32_t graph = r->b.graph;
  if (m->graphs[graph].kind == GRAPH_FUNCTION) {
    struct model_function *f = &m->functions[m->graphs[graph].owner];
    if (*domain == '\0') {
      m->opsets[f->opsets].version = version;
      return true;
    }
    if (f->opsets + f->n_opsets != m->n_opsets) return false;
    f->n_opsets++;
    const struct model_opset made = {model_intern(m, span_str(domain)), version, 0};
    *TABLE_PUSH(m, opsets) = made;
    return true;
  }
  for (uint32_t i = 0; i < m->n_model_opsets; i++)
    if (strcmp(model_name_str(m, m->opsets[i].domain), domain) == 0) {
      m->opsets[i].version = version;
      return true;
    }
  build_opset(&r->b, domain, version);
  return true;
}

static bool read_metadata(struct reading *r) {
  struct model *m = r->b.m;
  const char *key = word(r, "=");
  if (!take(r, "=")) return false;
  skip(r);
  const struct model_metadata made = {model_intern(m, span_str(key)),
                                      model_intern(m, span_str(r->at))};
  *TABLE_PUSH(m, metadata) = made;
  return true;
}

static bool read_declared(struct reading *r,
                          uint32_t (*put)(struct build *, const char *, enum dtype, const char *)) {
  const char *name = word(r, ":");
  struct type t = {0};
  const bool more = take(r, ":");
  skip(r);
  const bool untyped = strncmp(r->at, "range ", 6) == 0;
  if (more && !untyped && !read_type(r, &t)) return false;
  put(&r->b, name, t.dtype, t.dims);
  if (!take(r, "range ")) return at_end(r);
  struct model *m = r->b.m;
  m->infos[m->n_infos - 1].range = model_intern(m, span_str(r->at));
  return true;
}

static uint32_t put_info(struct build *b, const char *name, enum dtype dtype, const char *dims) {
  build_value_info(b, name, dtype, dims);
  return 0;
}

static void keep(struct reading *r, uint32_t tensor, struct span elements) {
  struct graph_text_kept *row = arena_alloc(r->arena, sizeof *row);
  *row = (struct graph_text_kept){tensor, elements, r->kept};
  r->kept = row;
}

static bool read_initializer(struct reading *r, const char *name) {
  struct type t;
  uint64_t bytes;
  if (!read_type(r, &t) || !bytes_of(t, &bytes)) return false;
  if (take(r, "large")) {
    build_extent(&r->b, name, t.dtype, t.dims, 1, (uint64_t)r->n_large++ << 30);
    return at_end(r);
  }
  if (take(r, "kept ")) {
    const uint8_t *stay = read_elements(r, t.dtype, bytes);
    if (stay)
      keep(r, build_extent(&r->b, name, t.dtype, t.dims, 1, (uint64_t)r->n_large++ << 30),
           span_of(stay, bytes));
    return stay && at_end(r);
  }
  if (t.dtype == DTYPE_STRING) {
    build_tensor(&r->b, name, t.dtype, t.dims, NULL);
    return true;
  }
  const uint8_t *elements = read_elements(r, t.dtype, bytes);
  if (elements) build_tensor(&r->b, name, t.dtype, t.dims, elements);
  return elements && at_end(r);
}

static bool is_float(const char *x) {
  return strpbrk(x, ".e") || strstr(x, "inf") || strstr(x, "nan");
}

static void put_floats(struct reading *r, uint32_t node, const char *key, const char *list) {
  struct model *m = r->b.m;
  const uint32_t at = build_attr_int(&r->b, node, key, 0);
  m->attrs[at].type = ATTR_FLOATS;
  m->attrs[at].first = m->n_floats;
  m->attrs[at].count = 0;
  for (char *end; *list; list = end + strspn(end, ", ")) {
    const uint32_t i = TABLE_ADD(m, floats, 1);
    m->floats[i] = strtof(list, &end);
    m->attrs[at].count++;
  }
}

// ["N", "C"], behind the bracket.
static void put_strings(struct reading *r, uint32_t node, const char *key, char *list) {
  struct model *m = r->b.m;
  const uint32_t at = build_attr_int(&r->b, node, key, 0);
  m->attrs[at].type = ATTR_STRINGS;
  m->attrs[at].first = m->n_strings;
  m->attrs[at].count = 0;
  for (char *quote, *end; (quote = strchr(list, '"')) && (end = strchr(quote + 1, '"'));
       list = end + 1) {
    *TABLE_PUSH(m, strings) = model_intern(m, span_of(quote + 1, (size_t)(end - quote - 1)));
    m->attrs[at].count++;
  }
}

static const char *const types[] = {
    "",           "float",   "int",     "string", "tensor",        "graph",          "floats",
    "ints",       "strings", "tensors", "graphs", "sparse_tensor", "sparse_tensors", "type_proto",
    "type_protos"};

// @alpha:float, behind the @.
static bool put_reference(struct reading *r, uint32_t node, const char *key) {
  const uint32_t at = build_attr_int(&r->b, node, key, 0);
  struct model_attr *a = &r->b.m->attrs[at];
  a->first = NO_ID;
  a->count = 0;
  a->ref_name = model_intern(r->b.m, span_str(word(r, ":")));
  if (!take(r, ":")) return false;
  const char *type = word(r, ",>");
  for (a->type = ATTR_FLOAT; a->type <= ATTR_TYPE_PROTOS; a->type++)
    if (strcmp(types[a->type], type) == 0) return true;
  return false;
}

static bool read_attribute(struct reading *r, uint32_t node) {
  const char *key = word(r, "=");
  struct type t;
  uint64_t bytes;
  if (!take(r, "=")) return false;
  skip(r);
  if (take(r, "graph")) return true; // made where its lines are
  if (take(r, "@")) return put_reference(r, node, key);
  if (take(r, "[")) {
    const char *list = word(r, "]");
    if (*list == '"') {
      put_strings(r, node, key, arena_string(r->arena, span_str(list)));
      return take(r, "]");
    }
    if (is_float(list))
      put_floats(r, node, key, list);
    else
      build_attr_ints(&r->b, node, key, list);
    return take(r, "]");
  }
  if (take(r, "\"")) {
    build_attr_string(&r->b, node, key, word(r, "\""));
    return take(r, "\"");
  }
  if (strchr("-0123456789", *r->at) || strncmp(r->at, "inf", 3) == 0 ||
      strncmp(r->at, "nan", 3) == 0) {
    const char *x = word(r, ",>");
    if (is_float(x))
      build_attr_float(&r->b, node, key, strtof(x, NULL));
    else
      build_attr_int(&r->b, node, key, strtoll(x, NULL, 10));
    return true;
  }
  if (!read_type(r, &t) || !bytes_of(t, &bytes)) return false;
  const uint8_t *elements = read_elements(r, t.dtype, bytes);
  if (elements) build_attr_tensor(&r->b, node, key, t.dtype, t.dims, elements);
  return elements != NULL;
}

// "a, b" as the builder takes lists: with blanks.
static const char *names(struct reading *r, const char *list) {
  char *out = arena_string(r->arena, span_str(list));
  for (char *c = out; *c; c++)
    if (*c == ',') *c = ' ';
  return out;
}

static bool read_node(struct reading *r, const char *name, const char *outputs) {
  const char *op = word(r, "<("), *colons = strstr(op, "::");
  // Attributes come behind the node, inputs before: they are found first.
  const char *attributes = r->at;
  bool quoted = false;
  for (; *r->at && (*r->at != '(' || quoted); r->at++)
    quoted ^= *r->at == '"';
  const bool has = *attributes == '<';
  if (!take(r, "(")) return false;
  const char *in = word(r, ")");
  if (!take(r, ")") || !at_end(r)) return false;
  const uint32_t node =
      build_node(&r->b, colons ? colons + 2 : op, name, names(r, in), names(r, outputs));
  if (colons) build_domain(&r->b, node, arena_string(r->arena, span_of(op, (size_t)(colons - op))));
  r->open[r->n_open - 1].node = node;
  r->at = attributes;
  if (!has) return true;
  r->at++;
  while (!take(r, ">")) {
    if (!read_attribute(r, node)) return false;
    take(r, ",");
  }
  return true;
}

// "w = float[2] {1 2}" or "name: a, b = Op(…)".
static bool read_made(struct reading *r) {
  const char *equals = strstr(r->at, " = "), *colon = strstr(r->at, ": ");
  const char *name = "";
  if (!equals) return false;
  if (colon && colon < equals) {
    name = word(r, ":");
    r->at = colon + 2;
  }
  const char *left = arena_string(r->arena, span_of(r->at, (size_t)(equals - r->at)));
  r->at = equals + 3;
  struct type t;
  const char *right = r->at;
  const bool is_tensor = read_type(r, &t) && t.dims;
  r->at = right;
  return is_tensor ? read_initializer(r, left) : read_node(r, name, left);
}

static bool open_graph(struct reading *r, uint32_t indent) {
  if (r->n_open == DEPTH) return false;
  r->open[r->n_open].indent = indent;
  r->open[r->n_open++].node = NO_ID;
  return true;
}

// <must, alpha=0.5, mode="x"> of a function: rows that hang on no node.
static bool read_defaults(struct reading *r, struct model_attr *list, uint32_t *n) {
  struct model *m = r->b.m;
  while (!take(r, ">")) {
    if (*n == MOST_DEFAULTS) return false;
    struct model_attr *a = &list[*n];
    *a = (struct model_attr){.node = NO_ID, .ref_name = m->empty, .first = NO_ID};
    a->name = model_intern(m, span_str(word(r, "=,>")));
    const bool given = take(r, "=");
    if (given && take(r, "\"")) {
      a->type = ATTR_STRING;
      a->u.s = model_intern(m, span_str(word(r, "\"")));
      if (!take(r, "\"")) return false;
    } else if (given) {
      const char *x = word(r, ",>");
      a->type = is_float(x) ? ATTR_FLOAT : ATTR_INT;
      if (a->type == ATTR_FLOAT)
        a->u.f = strtof(x, NULL);
      else
        a->u.i = strtoll(x, NULL, 10);
    }
    *n += given; // of a loaded function the rows do not say the others
    take(r, ",");
    skip(r);
  }
  return true;
}

static bool read_function(struct reading *r, uint32_t indent) {
  struct model_attr defaults[MOST_DEFAULTS];
  uint32_t n = 0;
  const char *name = word(r, "<("), *colons = strstr(name, "::");
  if (take(r, "<") && !read_defaults(r, defaults, &n)) return false;
  if (!take(r, "(") || !colons) return false;
  const char *in = word(r, ")");
  if (!take(r, ")") || !take(r, "->")) return false;
  const char *domain = arena_string(r->arena, span_of(name, (size_t)(colons - name)));
  build_enter_function(&r->b, domain, colons + 2, names(r, in), names(r, word(r, "")));
  struct model *m = r->b.m;
  struct model_function *f = &m->functions[m->n_functions - 1];
  f->n_attrs = n;
  f->attrs = TABLE_ADD(m, attrs, n);
  for (uint32_t i = 0; i < n; i++)
    m->attrs[f->attrs + i] = defaults[i];
  return open_graph(r, indent + 2);
}

static bool read_line(struct reading *r, uint32_t indent) {
  while (r->n_open > 1 && indent < r->open[r->n_open - 1].indent) {
    // The line that opens a graph stands between its node and its lines.
    if (indent + 2 == r->open[r->n_open - 1].indent && strncmp(r->at, "graph ", 6) != 0 &&
        r->b.m->graphs[r->b.graph].kind != GRAPH_FUNCTION)
      return false;
    build_leave(&r->b);
    r->n_open--;
  }
  const bool opens = strncmp(r->at, "graph ", 6) == 0;
  if (indent != r->open[r->n_open - 1].indent + (opens ? 2 : 0)) return false;
  if (opens) {
    const uint32_t node = r->open[r->n_open - 1].node;
    if (node == NO_ID) return false;
    r->at += 6;
    const char *attr = word(r, " ");
    build_enter(&r->b, node, attr, attr);
    return open_graph(r, indent + 2);
  }
  if (take(r, "function ")) return indent == 0 && read_function(r, indent);
  if (take(r, "opset ")) return read_version(r);
  if (take(r, "metadata ")) return indent == 0 && read_metadata(r);
  if (take(r, "input ")) return read_declared(r, build_input);
  if (take(r, "output ")) return read_declared(r, build_output);
  if (take(r, "info ")) return read_declared(r, put_info);
  if (!take(r, "ir ")) return read_made(r);
  r->b.m->ir_version = strtoll(r->at, NULL, 10);
  return indent == 0;
}

int graph_text_read(struct model *m, const char *text, const struct graph_text_kept **kept,
                    struct arena *a, struct err *err) {
  struct reading r = {.arena = a, .n_open = 1, .open[0].node = NO_ID};
  uint32_t number = 0;
  int rc = 0;
  build_begin(&r.b, m);
  build_file(&r.b, "m.onnx", 1000);
  build_file(&r.b, "m.data", UINT64_C(1) << 40);
  while (*text && rc == 0) {
    const size_t n = strcspn(text, "\n");
    const char *line = arena_string(r.arena, span_of(text, n));
    const uint32_t indent = (uint32_t)strspn(line, " ");
    number++;
    text += n + (text[n] == '\n');
    r.at = line + indent;
    if (*r.at && *r.at != '#' && !read_line(&r, indent))
      rc = err_set(err, ERR_USAGE, "line %u is not understood: %s", number, line);
  }
  while (rc == 0 && r.n_open > 1) {
    build_leave(&r.b);
    r.n_open--;
  }
  if (rc == 0) build_end(&r.b);
  *kept = r.kept;
  return rc;
}

// ---- writing -----------------------------------------------------------------------------------

struct writing {
  struct edits *e;
  const struct model *m;
  TABLE_BIG(char, text);
  uint32_t indent;
};

static void put(struct writing *w, const char *text) {
  const size_t n = strlen(text);
  w->text = table_grow(w->text, &w->text_cap, w->n_text + n, 1);
  memcpy(w->text + w->n_text, text, n);
  w->n_text += n;
}

static void begin(struct writing *w) {
  for (uint32_t i = 0; i < w->indent; i++)
    put(w, " ");
}

static void put_number(struct writing *w, const char *format, double x) {
  char text[64];
  snprintf(text, sizeof text, format, x);
  put(w, text);
}

static void put_int(struct writing *w, int64_t x) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)x);
  put(w, text);
}

// With a point, or what stands for one.
static void put_float(struct writing *w, double x, const char *format) {
  char text[64];
  snprintf(text, sizeof text, format, x);
  put(w, text);
  if (!is_float(text)) put(w, ".0");
}

static void put_value(struct writing *w, uint32_t value) {
  put(w, value == NO_ID ? "-" : model_name_str(w->m, w->m->values[value].name));
}

static void put_bits(struct writing *w, const uint8_t *at, size_t width) {
  char text[32];
  uint64_t bits = 0;
  for (; width > sizeof bits; at += sizeof bits, width -= sizeof bits) { // complex128
    memcpy(&bits, at, sizeof bits);
    snprintf(text, sizeof text, "0x%016llx:", (unsigned long long)bits);
    put(w, text);
  }
  memcpy(&bits, at, width);
  snprintf(text, sizeof text, "0x%0*llx", (int)width * 2, (unsigned long long)bits);
  put(w, text);
}

static void put_one(struct writing *w, enum dtype t, const uint8_t *at) {
  const size_t width = width_of(t);
  uint64_t bits = 0;
  float f;
  double d;
  memcpy(&bits, at, width < sizeof bits ? width : sizeof bits);
  memcpy(&f, at, width < sizeof f ? width : sizeof f);
  if (t == DTYPE_FLOAT) {
    put_number(w, "%.9g", (double)f);
  } else if (t == DTYPE_DOUBLE) {
    memcpy(&d, at, sizeof d);
    put_number(w, "%.17g", d);
  } else if (is_signed(t)) {
    const unsigned shift = 64 - 8 * (unsigned)width;
    put_int(w, (int64_t)(bits << shift) >> shift);
  } else if (is_unsigned(t)) {
    put_int(w, (int64_t)bits);
  } else {
    put_bits(w, at, width);
  }
}

static void put_elements(struct writing *w, enum dtype t, struct span raw) {
  const size_t width = width_of(t);
  bool equal = raw.n > width;
  for (size_t i = width; i + width <= raw.n && equal; i += width)
    equal = memcmp(raw.at, raw.at + i, width) == 0;
  if (equal) {
    put(w, "fill ");
    put_one(w, t, raw.at);
    return;
  }
  put(w, "{");
  for (size_t i = 0; i + width <= raw.n; i += width) {
    if (i) put(w, " ");
    put_one(w, t, raw.at + i);
  }
  put(w, "}");
}

static void put_tensor(struct writing *w, uint32_t tensor) {
  const struct model_tensor *t = &w->m->tensors[tensor];
  struct span raw;
  put(w, dtype_name((enum dtype)t->dtype));
  put(w, quote_dims(model_dims(w->m, t), t->rank).s);
  put(w, " ");
  if (model_small_value(w->m, tensor, &raw)) {
    put_elements(w, (enum dtype)t->dtype, raw);
  } else if (t->recipe == NO_ID) {
    put(w, t->dtype == DTYPE_STRING ? "{}" : "large");
  } else {
    put(w, "made ");
    struct json_out recipe = {0};
    edit_artifact_recipe(w->e, &recipe, t->recipe);
    put(w, recipe.text);
    json_done(&recipe);
  }
}

static void put_type(struct writing *w, const struct model_info *i) {
  if (!(i->flags & INFO_TENSOR)) return;
  put(w, dtype_name((enum dtype)i->dtype));
  if (!(i->flags & INFO_SHAPED)) return;
  put(w, "[");
  for (uint32_t k = 0; k < i->rank; k++) {
    const struct model_dim *d = &w->m->info_dims[i->dims + k];
    if (k) put(w, ",");
    if (d->value >= 0)
      put_int(w, d->value);
    else
      put(w, d->param == w->m->empty ? "?" : model_name_str(w->m, d->param));
  }
  put(w, "]");
}

static void put_declared(struct writing *w, const char *what, uint32_t value, enum info_home home) {
  begin(w);
  put(w, what);
  put_value(w, value);
  for (uint32_t i = w->m->values[value].info; i != NO_ID; i = w->m->infos[i].next)
    if (!(w->m->infos[i].flags & INFO_DEAD) && w->m->infos[i].home == home) {
      const struct model_info *info = &w->m->infos[i];
      const bool ranged = info->range != w->m->empty;
      if (info->flags & INFO_TENSOR || ranged) put(w, ": ");
      put_type(w, info);
      if (ranged) put(w, info->flags & INFO_TENSOR ? " range " : "range ");
      if (ranged) put(w, model_name_str(w->m, info->range));
      break;
    }
  put(w, "\n");
}

static void put_attr(struct writing *w, const struct model_attr *a) {
  const struct model *m = w->m;
  put(w, model_name_str(m, a->name));
  put(w, "=");
  if (a->ref_name != m->empty) {
    put(w, "@");
    put(w, model_name_str(m, a->ref_name));
    put(w, ":");
    put(w, types[a->type]);
    return;
  }
  if (model_attr_is_constant(m, a)) {
    put_tensor(w, a->first);
    return;
  }
  const bool held = a->first != NO_ID;
  switch (a->type) {
  case ATTR_INT: put_int(w, a->u.i); break;
  case ATTR_FLOAT: put_float(w, (double)a->u.f, "%.9g"); break;
  case ATTR_STRING:
    put(w, "\"");
    put(w, model_name_str(m, a->u.s));
    put(w, "\"");
    break;
  case ATTR_TENSOR: put_tensor(w, a->first); break;
  case ATTR_GRAPH: put(w, "graph"); break;
  case ATTR_INTS:
  case ATTR_FLOATS:
    put(w, "[");
    for (uint32_t i = 0; held && i < a->count; i++) {
      if (i) put(w, ",");
      if (a->type == ATTR_INTS)
        put_int(w, m->longs[a->first + i]);
      else
        put_float(w, (double)m->floats[a->first + i], "%.9g");
    }
    put(w, "]");
    break;
  case ATTR_STRINGS:
    put(w, "[");
    for (uint32_t i = 0; held && i < a->count; i++) {
      put(w, i ? ",\"" : "\"");
      put(w, model_name_str(m, m->strings[a->first + i]));
      put(w, "\"");
    }
    put(w, "]");
    break;
  default: put(w, "…"); break;
  }
}

// Graphs nest as deep as the case that was read.
static void put_graph(struct writing *w, uint32_t graph);

static void put_node(struct writing *w, uint32_t node) {
  const struct model *m = w->m;
  const struct model_node *n = &m->nodes[node];
  begin(w);
  if (n->name != m->empty) {
    put(w, model_name_str(m, n->name));
    put(w, ": ");
  }
  for (uint32_t i = 0; i < n->n_out; i++) {
    if (i) put(w, ", ");
    put_value(w, model_output(m, n, i));
  }
  put(w, " = ");
  if (n->domain != m->empty) {
    put(w, model_name_str(m, n->domain));
    put(w, "::");
  }
  put(w, model_name_str(m, n->op_type));
  const char *between = "<";
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (a->flags & ATTR_DEAD) continue;
    put(w, between);
    put_attr(w, a);
    between = ", ";
  }
  if (*between == ',') put(w, ">");
  put(w, "(");
  for (uint32_t i = 0; i < n->n_in; i++) {
    if (i) put(w, ", ");
    put_value(w, model_input(m, n, i));
  }
  put(w, ")\n");
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (a->flags & ATTR_DEAD || a->type != ATTR_GRAPH || a->ref_name != m->empty) continue;
    w->indent += 2;
    begin(w);
    put(w, "graph ");
    put(w, model_name_str(m, a->name));
    put(w, "\n");
    w->indent += 2;
    put_graph(w, a->first);
    w->indent -= 4;
  }
}

static void put_graph(struct writing *w, uint32_t graph) {
  const struct model *m = w->m;
  const struct model_graph *g = &m->graphs[graph];
  for (uint32_t i = 0; i < g->n_inputs && g->kind != GRAPH_FUNCTION; i++)
    put_declared(w, "input ", m->graph_io[g->inputs + i], INFO_INPUT);
  for (uint32_t i = 0; i < g->n_outputs && g->kind != GRAPH_FUNCTION; i++)
    put_declared(w, "output ", m->graph_io[g->outputs + i], INFO_OUTPUT);
  for (uint32_t i = 0; i < m->n_infos; i++) {
    const struct model_info *x = &m->infos[i];
    if (x->flags & INFO_DEAD || x->home != INFO_VALUE || x->value == NO_ID ||
        m->values[x->value].graph != graph || m->values[x->value].flags & VALUE_DEAD)
      continue;
    put_declared(w, "info ", x->value, INFO_VALUE);
  }
  for (uint32_t t = 0; t < m->n_tensors; t++) {
    const struct model_tensor *x = &m->tensors[t];
    if (x->flags & TENSOR_DEAD || x->home != HOME_INITIALIZER || x->graph != graph) continue;
    begin(w);
    put(w, model_name_str(m, x->name));
    put(w, " = ");
    put_tensor(w, t);
    put(w, "\n");
  }
  for (uint32_t n = g->first_node; n != NO_ID; n = m->nodes[n].next)
    put_node(w, n);
}

static void put_opsets(struct writing *w, uint32_t first, uint32_t n) {
  const struct model *m = w->m;
  for (uint32_t i = first; i < first + n; i++) {
    const char *domain = model_name_str(m, m->opsets[i].domain);
    begin(w);
    put(w, "opset ");
    put(w, domain);
    if (*domain) put(w, " ");
    put_int(w, m->opsets[i].version);
    put(w, "\n");
  }
}

static void put_function(struct writing *w, const struct model_function *f) {
  const struct model *m = w->m;
  const struct model_graph *g = &m->graphs[f->graph];
  put(w, "function ");
  put(w, model_name_str(m, f->domain));
  put(w, "::");
  put(w, model_name_str(m, f->name));
  for (uint32_t i = 0; i < f->n_attrs; i++) {
    put(w, i ? ", " : "<");
    if (m->attrs[f->attrs + i].type == ATTR_UNDEFINED)
      put(w, model_name_str(m, m->attrs[f->attrs + i].name));
    else
      put_attr(w, &m->attrs[f->attrs + i]);
  }
  if (f->n_attrs) put(w, ">");
  put(w, "(");
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    if (i) put(w, ", ");
    put_value(w, m->graph_io[g->inputs + i]);
  }
  put(w, ") -> ");
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    if (i) put(w, ", ");
    put_value(w, m->graph_io[g->outputs + i]);
  }
  put(w, "\n");
  w->indent = 2;
  put_opsets(w, f->opsets, f->n_opsets);
  put_graph(w, f->graph);
  w->indent = 0;
}

const char *graph_text_write(struct edits *e, struct arena *a) {
  struct writing w = {.e = e, .m = e->m};
  put(&w, "ir ");
  put_int(&w, e->m->ir_version);
  put(&w, "\n");
  put_opsets(&w, 0, e->m->n_model_opsets);
  for (uint32_t i = 0; i < e->m->n_metadata; i++) {
    put(&w, "metadata ");
    put(&w, model_name_str(e->m, e->m->metadata[i].key));
    put(&w, " = ");
    put(&w, model_name_str(e->m, e->m->metadata[i].value));
    put(&w, "\n");
  }
  put_graph(&w, e->m->main_graph);
  for (uint32_t i = 0; i < e->m->n_functions; i++)
    if (!(e->m->functions[i].flags & FUNCTION_DEAD)) put_function(&w, &e->m->functions[i]);
  const char *text = arena_string(a, span_of(w.text, w.n_text));
  table_free(w.text, w.text_cap, 1);
  return text;
}
