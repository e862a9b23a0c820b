// Overrides of single tensors: a file as quantize_static's TensorQuantOverrides is, in JSON.
//
//   {"conv1.weight": [{"quant_type": "int16", "symmetric": true}],          an initializer
//    "fc.weight":    [{"axis": 0, "rmin": -1, "rmax": 1}, {…}, …],           by channel: one for all, or one for each
//    "h":            [{"scale": 0.02, "zero_point": 128,                     a value in between
//                      "convert": {"quant_type": "uint16", "recv_nodes": ["fc"]}}]}
//
// All of it is checked before anything is changed (the existing tool looks at the first name only), and a mistake is reported with
// the file and the line. Lines are found in the text again, since the reader of JSON keeps none.
#include "passes/int8_static/inside/static.h"

#include "json/json.h"

#include <math.h>
#include <stdarg.h>

struct reading {
  struct static_run *s;
  struct span text;
  const char *path;
  const char *name;         // of the tensor in hand
  uint32_t member, element; // its place, and that of the override in hand; NO_ID: of none
  enum dtype dtype;         // its elements
  bool is_constant;
};

// ---- where ---------------------------------------------------------------------------------------

// The line of element `inner` of member `outer` of the text's object; of the member itself, if inner is NO_ID.
static uint32_t line_of(struct span text, uint32_t outer, uint32_t inner) {
  uint32_t line = 1, depth = 0, at[2] = {0, 0};
  bool in_string = false;
  for (size_t i = 0; i < text.n; i++) {
    const uint8_t c = text.at[i];
    const bool here =
        at[0] == outer && (inner == NO_ID ? depth == 1 : depth == 2 && at[1] == inner);
    if (c == '\n') line++;
    if (in_string) {
      i += c == '\\';
      in_string = c != '"';
      continue;
    }
    if (here && depth > 0 && c != ',' && c != ' ' && c != '\n' && c != '\t' && c != '\r')
      return line;
    in_string = c == '"';
    if (c == '{' || c == '[') {
      if (depth < 2) at[depth] = 0;
      depth++;
    }
    if ((c == '}' || c == ']') && depth > 0) depth--;
    if (c == ',' && depth >= 1 && depth <= 2) at[depth - 1]++;
  }
  return line;
}

static int refuse(const struct reading *r, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int refuse(const struct reading *r, struct err *err, const char *fmt, ...) {
  char what[256];
  va_list list;
  va_start(list, fmt);
  vsnprintf(what, sizeof what, fmt, list);
  va_end(list);
  return err_set(err, ERR_USAGE, "%s:%u: tensor '%s': %s", quote_path(r->path).s,
                 line_of(r->text, r->member, r->element), quote_str(r->name).s, what);
}

// ---- one override --------------------------------------------------------------------------------

static const struct {
  const char *name;
  enum dtype type;
} types[] = {{"int8", DTYPE_INT8},
             {"uint8", DTYPE_UINT8},
             {"int16", DTYPE_INT16},
             {"uint16", DTYPE_UINT16},
             {"int4", DTYPE_INT4},
             {"uint4", DTYPE_UINT4},
             {"float8e4m3fn", DTYPE_FLOAT8E4M3FN},
             {"QInt8", DTYPE_INT8},
             {"QUInt8", DTYPE_UINT8},
             {"QInt16", DTYPE_INT16},
             {"QUInt16", DTYPE_UINT16},
             {"QInt4", DTYPE_INT4},
             {"QUInt4", DTYPE_UINT4},
             {"QFLOAT8E4M3FN", DTYPE_FLOAT8E4M3FN}};

static int read_type(const struct reading *r, const struct json_value *v,
                     struct static_override *out, struct err *err) {
  struct span word;
  if (!json_as_string(v, &word)) return refuse(r, err, "quant_type is not a string");
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (span_is(word, types[i].name)) {
      out->has_type = true;
      out->type = types[i].type;
      return 0;
    }
  refuse(r, err, "unknown quant_type '%s'", quote(word).s);
  return err_hint(err, "int8, uint8, int16, uint16, int4, uint4 or float8e4m3fn");
}

static int read_number(const struct reading *r, const char *key, const struct json_value *v,
                       double *out, struct err *err) {
  if (!json_as_double(v, out) || !isfinite(*out))
    return refuse(r, err, "%s is not a finite number", key);
  const double rounded = int8_rounded(r->dtype, *out);
  if (isfinite(rounded) && (rounded != 0 || *out == 0)) return 0;
  return refuse(r, err, "%s %g is too %s for %s", key, *out, rounded == 0 ? "small" : "large",
                dtype_name(r->dtype));
}

struct seen {
  bool scale, zero, least, most;
};

// Of a key: 1 if it is not one of these.
static int read_key(const struct reading *r, const struct json_value *v,
                    struct static_override *out, struct seen *seen, struct err *err) {
  const char *key = json_name(v);
  if (strcmp(key, "quant_type") == 0) return read_type(r, v, out, err);
  const struct {
    const char *key;
    bool *given;
    double *number;
    int64_t *whole;
    bool *flag;
  } rows[] = {{"scale", &seen->scale, &out->scale, NULL, NULL},
              {"zero_point", &seen->zero, NULL, &out->zero, NULL},
              {"rmin", &seen->least, &out->least, NULL, NULL},
              {"rmax", &seen->most, &out->most, NULL, NULL},
              {"symmetric", &out->has_symmetric, NULL, NULL, &out->symmetric},
              {"reduce_range", &out->has_reduced, NULL, NULL, &out->reduced},
              {"axis", &out->has_axis, NULL, &out->axis, NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(key, rows[i].key) != 0) continue;
    *rows[i].given = true;
    if (rows[i].number && read_number(r, key, v, rows[i].number, err)) return -1;
    if (rows[i].number == &out->scale && out->scale <= 0)
      return refuse(r, err, "scale must be above 0");
    if (rows[i].whole && !json_as_int(v, rows[i].whole))
      return refuse(r, err, "%s is not an integer", key);
    if (rows[i].flag && !json_as_bool(v, rows[i].flag))
      return refuse(r, err, "%s is not true or false", key);
    return 0;
  }
  return 1;
}

static bool holds(enum dtype type, int64_t code) {
  int64_t least, most;
  int8_full_codes(type, &least, &most);
  return type == DTYPE_FLOAT8E4M3FN ? code == 0 : code >= least && code <= most;
}

// A constant whose type is not said has that of weights or of activations, as its node takes it: static_weight_params
// knows which.
static bool may_hold(const struct reading *r, const struct static_override *o, enum dtype usual) {
  return holds(o->has_type ? o->type : usual, o->zero) ||
         (r->is_constant && !o->has_type && holds(r->s->o->activation, o->zero));
}

static int check_together(const struct reading *r, struct static_override *o,
                          const struct seen *seen, enum dtype usual, struct err *err) {
  if (seen->scale != seen->zero) return refuse(r, err, "scale and zero_point must both be given");
  if (seen->least != seen->most) return refuse(r, err, "rmin and rmax must both be given");
  o->has_scale = seen->scale;
  o->has_range = seen->least;
  if (o->has_scale && (o->has_range || o->has_symmetric || o->has_reduced))
    return refuse(r, err,
                  "scale and zero_point cannot be combined with rmin, rmax, symmetric or "
                  "reduce_range");
  if (o->has_range && o->least > o->most) return refuse(r, err, "rmin is above rmax");
  if (o->has_reduced && !r->is_constant)
    return refuse(r, err, "reduce_range is for constants, and this is a computed value");
  if (o->has_axis && !r->is_constant)
    return refuse(r, err, "axis is for constants, and this is a computed value");
  const enum dtype type = o->has_type ? o->type : usual;
  int64_t least, most;
  if (!o->has_scale || may_hold(r, o, usual)) return 0;
  if (type == DTYPE_FLOAT8E4M3FN) return refuse(r, err, "zero_point is not 0, as float8 requires");
  int8_full_codes(type, &least, &most);
  return refuse(r, err, "zero_point %s is outside %s to %s, the range of %s", integer(o->zero).s,
                integer(least).s, integer(most).s, dtype_name(type));
}

// ---- a second type -------------------------------------------------------------------------------

static int read_receivers(const struct reading *r, const struct json_value *v,
                          struct static_overrides *out, struct err *err) {
  if (!json_is_array(v)) return refuse(r, err, "recv_nodes is not a list of names of nodes");
  struct span *list = arena_alloc(&r->s->arena, (json_count(v) + 1) * sizeof *list);
  out->n_receivers = 0;
  for (const struct json_value *x = json_first(v); x; x = json_next(x)) {
    struct span name;
    bool there = false, again = false;
    if (!json_as_string(x, &name))
      return refuse(r, err, "recv_nodes is not a list of names of nodes");
    for (struct kit_use u = kit_uses(&r->s->k, out->value); kit_use(&r->s->k, &u);)
      there = there || span_eq(model_name(r->s->k.m, r->s->k.m->nodes[u.node].name), name);
    if (!there) return refuse(r, err, "no node '%s' uses it (recv_nodes)", quote(name).s);
    for (uint32_t i = 0; i < out->n_receivers; i++)
      again = again || span_eq(list[i], name);
    if (again) continue;
    list[out->n_receivers++] = span_of(arena_string(&r->s->arena, name), name.n);
  }
  out->receivers = list;
  out->some_receive = true;
  return 0;
}

static int read_convert(struct reading *r, const struct json_value *v, struct static_overrides *out,
                        enum dtype first, struct err *err) {
  struct static_override *to = arena_zalloc(&r->s->arena, sizeof *to);
  struct seen seen = {0};
  if (r->is_constant)
    return refuse(r, err, "convert is for computed values, and this is a constant");
  if (!json_is_object(v)) return refuse(r, err, "convert is not an object");
  for (const struct json_value *x = json_first(v); x; x = json_next(x)) {
    int rc;
    if (strcmp(json_name(x), "recv_nodes") == 0)
      rc = read_receivers(r, x, out, err);
    else
      rc = read_key(r, x, to, &seen, err);
    if (rc < 0) return -1;
    if (rc > 0) return refuse(r, err, "convert has no key '%s'", quote_str(json_name(x)).s);
  }
  if (!to->has_type) return refuse(r, err, "convert needs a quant_type");
  if (to->type == first)
    return refuse(r, err, "convert to %s, which is already its type", dtype_name(first));
  if (check_together(r, to, &seen, to->type, err)) return -1;
  out->convert = to;
  return 0;
}

// ---- a tensor ------------------------------------------------------------------------------------

static int read_override(struct reading *r, const struct json_value *v, bool first,
                         struct static_override *o, struct static_overrides *of, struct err *err) {
  const struct static_options *opt = r->s->o;
  const struct json_value *convert = NULL;
  struct seen seen = {0};
  if (!json_is_object(v)) return refuse(r, err, "an override is not an object");
  for (const struct json_value *x = json_first(v); x; x = json_next(x)) {
    if (strcmp(json_name(x), "convert") == 0) {
      convert = x;
      continue;
    }
    const int rc = read_key(r, x, o, &seen, err);
    if (rc < 0) return -1;
    if (rc == 0) continue;
    refuse(r, err, "unknown key '%s'", quote_str(json_name(x)).s);
    return err_hint(
        err, "quant_type, scale, zero_point, symmetric, reduce_range, rmin, rmax, axis, convert");
  }
  enum dtype usual = r->is_constant ? opt->weight : opt->activation;
  if (!first && of->of->has_type) usual = of->of->type;
  if (check_together(r, o, &seen, usual, err)) return -1;
  return convert ? read_convert(r, convert, of, o->has_type ? o->type : usual, err) : 0;
}

// Channels agree in all but their numbers.
static int check_channels(const struct reading *r, const struct static_overrides *of,
                          struct static_override *x, struct err *err) {
  const struct static_override *a = of->of;
  if ((x->has_type && (!a->has_type || x->type != a->type)) ||
      (x->has_axis && (!a->has_axis || x->axis != a->axis)) ||
      (x->has_symmetric && (!a->has_symmetric || x->symmetric != a->symmetric)) ||
      (x->has_reduced && (!a->has_reduced || x->reduced != a->reduced)))
    return refuse(r, err,
                  "quant_type, axis, symmetric and reduce_range must be the same as for the first "
                  "channel");
  if (x->has_scale != a->has_scale || x->has_range != a->has_range)
    return refuse(r, err,
                  "scale and zero_point, or rmin and rmax, must be given for all channels or for "
                  "no channel");
  return 0;
}

static int check_axis(const struct reading *r, const struct static_overrides *of, struct err *err) {
  struct model_constant c;
  model_resolve_constant(r->s->k.m, of->value, &c);
  const struct model_tensor *t = &r->s->k.m->tensors[c.tensor];
  const int64_t axis = of->of->axis < 0 ? of->of->axis + t->rank : of->of->axis;
  if (axis < 0 || axis >= t->rank)
    return refuse(r, err, "axis %s of a tensor of %u dim%s", integer(of->of->axis).s, t->rank,
                  plural(t->rank));
  const int64_t n = model_dims(r->s->k.m, t)[axis];
  if (of->n == 1 || of->n == (uint64_t)n) return 0;
  return refuse(r, err, "%u overrides for %s channel%s along axis %s", of->n, integer(n).s,
                plural((uint64_t)n), integer(of->of->axis).s);
}

static int read_tensor(struct reading *r, const struct json_value *v, struct err *err) {
  struct static_run *s = r->s;
  struct static_overrides of = {0};
  const uint32_t name = model_find_name(s->k.m, span_str(r->name));
  of.value = name == NO_ID ? NO_ID : model_value_in(s->k.m, s->graph, name);
  if (of.value == NO_ID) {
    refuse(r, err, "the model has no such tensor");
    return err_hint(err, "'weir inspect --tensors' lists the names of constants");
  }
  r->is_constant = static_is_constant(s, of.value);
  r->dtype = static_dtype(s, of.value);
  if (!dtype_is_plain_float(r->dtype)) r->dtype = DTYPE_FLOAT;
  if (!json_is_array(v)) return refuse(r, err, "its overrides are not a list");
  const size_t n = json_count(v);
  if (n == 0) return 0;
  struct static_override *list = arena_zalloc(&s->arena, n * sizeof *list);
  of.of = list;
  for (const struct json_value *x = json_first(v); x; x = json_next(x), of.n++) {
    r->element = of.n;
    if (read_override(r, x, of.n == 0, &list[of.n], &of, err)) return -1;
    if (of.n > 0 && check_channels(r, &of, &list[of.n], err)) return -1;
  }
  r->element = NO_ID;
  if (of.n > 1 && !list->has_axis)
    return refuse(r, err, "overrides by channel need an axis in the first one");
  if (list->has_axis && check_axis(r, &of, err)) return -1;
  *TABLE_PUSH(s, overrides) = of;
  s->override_of[of.value] = s->n_overrides;
  return 0;
}

int static_read_overrides(struct static_run *s, struct err *err) {
  struct reading r = {.s = s, .path = s->o->override};
  struct pass_env *env = s->k.env;
  TABLE_ADD(s, override_of, s->k.m->n_values);
  if (!r.path) return 0;
  if (!env->files.file)
    return err_set(err, ERR_USAGE,
                   "--override cannot be used here: this run has no access to files");
  if (env->files.file(env->files.ctx, r.path, &r.text, err)) return -1;
  struct json_value *root = json_parse(r.text, r.path, err);
  if (!root) return -1;
  int rc = 0;
  if (!json_is_object(root))
    rc = err_set(err, ERR_USAGE, "%s: not a JSON object whose keys are names of tensors",
                 quote_path(r.path).s);
  uint32_t i = 0;
  for (const struct json_value *v = rc ? NULL : json_first(root); v && rc == 0;
       v = json_next(v), i++) {
    r.name = json_name(v);
    r.member = i;
    r.element = NO_ID;
    rc = read_tensor(&r, v, err);
  }
  json_free(root);
  return rc;
}
