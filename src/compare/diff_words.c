#include "compare/diff_words.h"

enum { LIST_SHOWN = 8, VALUE_SHOWN = 60 };

// The name of a node, or of its first output where it has none.
static struct span node_name(const struct model *m, const struct model_node *n) {
  const uint32_t out = model_output(m, n, 0);
  return n->name != m->empty || out == NO_ID ? model_name(m, n->name) : model_value_name(m, out);
}

const char *diff_words_type(struct diffing *x, uint32_t side, uint32_t tensor) {
  const struct model *m = &x->side[side].model;
  const struct model_tensor *t = &m->tensors[tensor];
  return arena_printf(&x->arena, "%s%s", dtype_name((enum dtype)t->dtype),
                      quote_dims(model_dims(m, t), t->rank).s);
}

const char *diff_words_tensor(struct diffing *x, uint32_t side, uint32_t tensor) {
  const struct model *m = &x->side[side].model;
  const struct model_tensor *t = &m->tensors[tensor];
  const struct span name = diff_tensor_name(m, tensor);
  if (t->home != HOME_ATTRIBUTE || diff_tensor_value(m, tensor) != NO_ID || t->owner == NO_ID ||
      m->attrs[t->owner].node == NO_ID)
    return arena_string(&x->arena, name);
  const struct model_attr *a = &m->attrs[t->owner];
  const struct span of = node_name(m, &m->nodes[a->node]);
  return arena_printf(&x->arena, "%.*s.%s", (int)of.n, (const char *)of.at,
                      model_name_str(m, a->name));
}

const char *diff_words_layer(struct diffing *x, const struct matched_tensor *row) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const struct model *m = &x->side[s].model;
    const uint32_t value = row->tensor[s] == NO_ID ? NO_ID : diff_tensor_value(m, row->tensor[s]);
    const uint32_t use = value == NO_ID ? NO_ID : m->values[value].first_use;
    if (use != NO_ID && m->nodes[m->refs[use].node].name != m->empty)
      return model_name_str(m, m->nodes[m->refs[use].node].name);
  }
  return "";
}

const char *diff_words_graph(struct diffing *x, uint32_t side, uint32_t graph) {
  const struct model *m = &x->side[side].model;
  const struct model_graph *g = &m->graphs[graph];
  if (g->kind == GRAPH_FUNCTION && g->owner != NO_ID)
    return arena_printf(&x->arena, "function %s", model_name_str(m, m->functions[g->owner].name));
  if (g->kind == GRAPH_TRAINING) return "training";
  if (g->kind != GRAPH_SUB || g->owner == NO_ID || m->attrs[g->owner].node == NO_ID) return "";
  const struct model_attr *a = &m->attrs[g->owner];
  const struct span of = node_name(m, &m->nodes[a->node]);
  return arena_printf(&x->arena, "%s of %.*s", model_name_str(m, a->name), (int)of.n,
                      (const char *)of.at);
}

// ---- attributes --------------------------------------------------------------------------------

static const char *join(struct diffing *x, const char *so_far, const char *word) {
  return arena_printf(&x->arena, "%s%s%s", so_far, *so_far ? "," : "", word);
}

static const char *small_elements(struct diffing *x, uint32_t side, uint32_t tensor) {
  const struct model *m = &x->side[side].model;
  const struct model_tensor *t = &m->tensors[tensor];
  struct span s;
  if (!model_small_value(m, tensor, &s) || s.n == 0) return "";
  const char *list = "";
  for (uint32_t i = 0; i < LIST_SHOWN; i++) {
    int64_t wide;
    float single;
    double real;
    const char *word = NULL;
    if (t->dtype == DTYPE_INT64 && (i + 1) * sizeof wide <= s.n) {
      memcpy(&wide, s.at + i * sizeof wide, sizeof wide);
      word = arena_printf(&x->arena, "%s", integer(wide).s);
    } else if (t->dtype == DTYPE_FLOAT && (i + 1) * sizeof single <= s.n) {
      memcpy(&single, s.at + i * sizeof single, sizeof single);
      word = arena_printf(&x->arena, "%.9g", (double)single);
    } else if (t->dtype == DTYPE_DOUBLE && (i + 1) * sizeof real <= s.n) {
      memcpy(&real, s.at + i * sizeof real, sizeof real);
      word = arena_printf(&x->arena, "%.17g", real);
    } else if (t->dtype == DTYPE_BOOL && i < s.n) {
      word = s.at[i] ? "true" : "false";
    }
    if (!word) return i ? arena_printf(&x->arena, " = %s", list) : "";
    list = join(x, list, word);
  }
  return arena_printf(&x->arena, " = %s…", list);
}

static const char *list_of(struct diffing *x, const struct model *m, const struct model_attr *a) {
  const char *list = "";
  if (a->first == NO_ID) return arena_printf(&x->arena, "%u element%s", a->count, plural(a->count));
  for (uint32_t i = 0; i < a->count && i < LIST_SHOWN; i++)
    list = join(
        x, list,
        a->type == ATTR_INTS     ? arena_printf(&x->arena, "%s", integer(m->longs[a->first + i]).s)
        : a->type == ATTR_FLOATS ? arena_printf(&x->arena, "%.9g", (double)m->floats[a->first + i])
                                 : quote(model_name(m, m->strings[a->first + i])).s);
  return arena_printf(&x->arena, "[%s%s]", list, a->count > LIST_SHOWN ? ",…" : "");
}

const char *diff_words_attr(struct diffing *x, uint32_t side, uint32_t attr) {
  const struct model *m = &x->side[side].model;
  const struct model_attr *a = &m->attrs[attr];
  if (a->ref_name != m->empty)
    return arena_printf(&x->arena, "the function's %s", quote(model_name(m, a->ref_name)).s);
  if (model_attr_is_constant(m, a)) return "a constant";
  switch ((enum attr_type)a->type) {
  case ATTR_INT: return arena_printf(&x->arena, "%s", integer(a->u.i).s);
  case ATTR_FLOAT: return arena_printf(&x->arena, "%.9g", (double)a->u.f);
  case ATTR_STRING:
    return a->u.s == NO_ID ? "a long string"
                           : arena_printf(&x->arena, "'%s'", quote(model_name(m, a->u.s)).s);
  case ATTR_INTS:
  case ATTR_FLOATS:
  case ATTR_STRINGS: return list_of(x, m, a);
  case ATTR_TENSOR:
    return a->first == NO_ID ? "a tensor"
                             : arena_printf(&x->arena, "%s%s", diff_words_type(x, side, a->first),
                                            small_elements(x, side, a->first));
  case ATTR_GRAPH: return "a graph";
  case ATTR_GRAPHS: return arena_printf(&x->arena, "%u graph%s", a->count, plural(a->count));
  default: return "another value";
  }
}

const char *diff_words_counted(struct diffing *x, uint64_t n, const char *noun) {
  return arena_printf(&x->arena, "%s %s%s", decimal(n).s, noun, plural(n));
}

const char *diff_words_cut(struct diffing *x, const char *value) {
  if (!value) return "-";
  const struct quoted q = quote_str(value);
  size_t n = strlen(q.s), at = n < VALUE_SHOWN ? n : VALUE_SHOWN;
  while (at > 0 && at < n && ((unsigned char)q.s[at] & 0xc0) == 0x80)
    at--; // not within a character
  return arena_printf(&x->arena, "%.*s%s", (int)at, q.s, at < n ? "…" : "");
}

// ---- the answer --------------------------------------------------------------------------------

static void add_of(struct diffing *x, const char **list, uint64_t n, const char *noun,
                   const char *rest) {
  if (n)
    *list = arena_printf(&x->arena, "%s%s%s %s", *list, **list ? ", " : "",
                         diff_words_counted(x, n, noun), rest);
}

static bool is_listed(const char *kinds, const char *kind) {
  const size_t n = strlen(kind);
  for (const char *at = kinds; *at; at += strspn(at, ", ")) {
    const size_t length = strcspn(at, ",");
    if (length == n && memcmp(at, kind, n) == 0) return true;
    at += length;
  }
  return false;
}

// "opset, metadata": the kinds of the lines but value_info, each once. There are few kinds.
static const char *line_kinds(struct diffing *x) {
  const char *kinds = "";
  for (uint32_t i = 0; i < x->d.n_lines; i++) {
    const struct diff_line *l = &x->d.lines[i];
    if (diff_summary_is_info(l) || is_listed(kinds, l->what)) continue;
    kinds = arena_printf(&x->arena, "%s%s%s", kinds, *kinds ? ", " : "", l->what);
  }
  return kinds;
}

const char *diff_words_answer(struct diffing *x, const struct diff_summary *s) {
  const char *list = "";
  if (diff_summary_equal(x)) {
    if (!s->unknown) return "the models are the same";
    return arena_printf(&x->arena, "the models have the same structure; %s not compared",
                        diff_words_counted(x, s->unknown, "tensor"));
  }
  add_of(x, &list, s->lines, "model field", arena_printf(&x->arena, "changed (%s)", line_kinds(x)));
  add_of(x, &list, s->infos, "value", "declared differently");
  add_of(x, &list, s->changed, "node", "changed");
  add_of(x, &list, s->alone[0], "node", "only in the first");
  add_of(x, &list, s->alone[1], "node", "only in the second");
  add_of(x, &list, s->renamed_only, "node", "renamed");
  add_of(x, &list, x->d.renamed_values, "value", "renamed");
  add_of(x, &list, s->differ, "tensor", "changed");
  add_of(x, &list, s->recast, "tensor", "stored in another form");
  add_of(x, &list, s->transposed, "tensor", "transposed");
  add_of(x, &list, s->renamed, "tensor", "renamed");
  add_of(x, &list, s->rehomed, "constant", "moved between nodes and initializers");
  add_of(x, &list, s->tensors_alone[0], "tensor", "only in the first");
  add_of(x, &list, s->tensors_alone[1], "tensor", "only in the second");
  return arena_printf(&x->arena, "different: %s", list);
}
