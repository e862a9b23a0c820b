// Everything except nodes and tensors: versions, metadata, inputs and outputs, declared types,
// functions.
#include "compare/inside/diff_parts.h"

#include <stdio.h>
#include <stdlib.h>

static const char *text_of(struct diff *d, uint32_t side, uint32_t name) {
  return model_name_str(d->m[side], name);
}

void diff_line(struct diff *d, const char *what, const char *name, const char *was,
               const char *is) {
  *TABLE_PUSH(d, lines) = (struct diff_line){what, name, was, is};
}

// One line where two texts differ; NULL: not there.
void diff_texts(struct diff *d, const char *what, const char *name, const char *was,
                const char *is) {
  d->steps++;
  if (was && is && strcmp(was, is) == 0) return;
  if (was || is) diff_line(d, what, name, was, is);
}

const char *diff_number(struct diff *d, int64_t n) {
  return arena_printf(&d->arena, "%s", integer(n).s);
}

// ---- opsets and metadata -----------------------------------------------------------------------

struct imports {
  const struct model_opset *at;
  uint32_t n;
};

struct import {
  uint32_t domain, place;
};

static int by_domain(const void *pa, const void *pb) {
  const struct import *a = pa, *b = pb;
  if (a->domain != b->domain) return a->domain < b->domain ? -1 : 1;
  return (a->place > b->place) - (a->place < b->place);
}

static void pair_imports(struct diff *d, const struct imports l[DIFF_SIDES],
                         uint32_t *of[DIFF_SIDES]) {
  struct import *list[DIFF_SIDES];
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    list[s] = arena_alloc(&d->arena, (l[s].n + (size_t)1) * sizeof **list);
    of[s] = arena_alloc(&d->arena, (l[s].n + (size_t)1) * sizeof **of);
    for (uint32_t i = 0; i < l[s].n; i++) {
      list[s][i] = (struct import){diff_name(d, s, l[s].at[i].domain), i};
      of[s][i] = NO_ID;
    }
    if (l[s].n) qsort(list[s], l[s].n, sizeof **list, by_domain);
  }
  for (uint32_t i = 0, k = 0; i < l[0].n && k < l[1].n;) {
    const struct import a = list[0][i], b = list[1][k];
    if (a.domain != b.domain) {
      *(a.domain < b.domain ? &i : &k) += 1;
      continue;
    }
    of[0][a.place] = b.place;
    of[1][b.place] = a.place;
    i++, k++;
  }
}

static const char *import_name(struct diff *d, uint32_t side, const struct model_opset *o,
                               const char *function) {
  const char *name = text_of(d, side, o->domain);
  if (!*name) name = "ai.onnx";
  return function ? arena_printf(&d->arena, "%s (function %s)", name, function) : name;
}

static int compare_import(struct diff *d, const struct model_opset *a, const struct model_opset *b,
                          const char *function, struct err *err) {
  bool differ = false;
  if (a->version != b->version) {
    diff_line(d, "opset", import_name(d, DIFF_A, a, function), diff_number(d, a->version),
              diff_number(d, b->version));
    return 0;
  }
  if (diff_kept_differs(d, KEPT_OPSET, a->loaded ? a->loaded - 1 : NO_ID,
                        b->loaded ? b->loaded - 1 : NO_ID, &differ, err))
    return -1;
  if (differ)
    diff_line(d, "opset", import_name(d, DIFF_A, a, function), "unknown fields", "others");
  return 0;
}

// Of several of one domain the k-th is the twin of the other side's k-th.
static int compare_imports(struct diff *d, const struct imports l[DIFF_SIDES], const char *function,
                           struct err *err) {
  uint32_t *of[DIFF_SIDES];
  pair_imports(d, l, of);
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t i = 0; i < l[s].n; i++) {
      const struct model_opset *here = &l[s].at[i];
      d->steps++;
      if (of[s][i] == NO_ID) {
        const char *version = diff_number(d, here->version);
        diff_line(d, "opset", import_name(d, s, here, function), s ? NULL : version,
                  s ? version : NULL);
      } else if (s == DIFF_A) {
        if (compare_import(d, here, &l[DIFF_B].at[of[s][i]], function, err)) return -1;
      }
    }
  return 0;
}

// The same entries in the same order, keys that come twice with them.
static bool same_metadata(const struct diff *d) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  for (uint32_t i = 0; i < a->n_metadata && a->n_metadata == b->n_metadata; i++)
    if (diff_name(d, DIFF_A, a->metadata[i].key) != diff_name(d, DIFF_B, b->metadata[i].key) ||
        diff_name(d, DIFF_A, a->metadata[i].value) != diff_name(d, DIFF_B, b->metadata[i].value))
      return false;
  return a->n_metadata == b->n_metadata;
}

// A text is shown up to a NUL; what comes after it counts.
static const char *text_beside(struct diff *d, const char *was, uint32_t side, uint32_t name) {
  const char *is = text_of(d, side, name);
  return strcmp(was, is) == 0 ? "another one with the same beginning" : is;
}

static void compare_names(struct diff *d, const char *what, const char *name, uint32_t a,
                          uint32_t b) {
  const char *was = text_of(d, DIFF_A, a);
  d->steps++;
  if (diff_name(d, DIFF_A, a) != diff_name(d, DIFF_B, b))
    diff_line(d, what, name, was, text_beside(d, was, DIFF_B, b));
}

// Keys may be many: looked up by the number of their name. Of several of one key the k-th is the twin of the other side's
// k-th; the order of other keys says nothing.
static void compare_metadata(struct diff *d) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  uint32_t *of = arena_alloc(&d->arena, (d->n_names + (size_t)1) * sizeof *of);
  uint32_t *next = arena_alloc(&d->arena, (b->n_metadata + (size_t)1) * sizeof *next);
  memset(of, 0xff, (d->n_names + (size_t)1) * sizeof *of);
  if (same_metadata(d)) return;
  for (uint32_t i = b->n_metadata; i-- > 0;) {
    const uint32_t key = diff_name(d, DIFF_B, b->metadata[i].key);
    next[i] = of[key];
    of[key] = i;
  }
  for (uint32_t i = 0; i < a->n_metadata; i++) {
    const uint32_t key = diff_name(d, DIFF_A, a->metadata[i].key), twin = of[key];
    const char *word = text_of(d, DIFF_A, a->metadata[i].key);
    if (twin == NO_ID) {
      diff_line(d, "metadata", word, text_of(d, DIFF_A, a->metadata[i].value), NULL);
      continue;
    }
    compare_names(d, "metadata", word, a->metadata[i].value, b->metadata[twin].value);
    of[key] = next[twin];
  }
  for (uint32_t i = 0; i < b->n_metadata; i++) {
    uint32_t *first = &of[diff_name(d, DIFF_B, b->metadata[i].key)];
    if (*first != i) continue;
    diff_line(d, "metadata", text_of(d, DIFF_B, b->metadata[i].key), NULL,
              text_of(d, DIFF_B, b->metadata[i].value));
    *first = next[i];
  }
}

// ---- types -------------------------------------------------------------------------------------

// "float[1,t,?]"; NULL: no info.
static const char *type_text(struct diff *d, uint32_t side, uint32_t info) {
  const struct model *m = d->m[side];
  if (info == NO_ID) return NULL;
  const struct model_info *x = &m->infos[info];
  const char *around = x->flags & INFO_SEQUENCE   ? "sequence of "
                       : x->flags & INFO_OPTIONAL ? "optional "
                                                  : "";
  if (!(x->flags & (INFO_TENSOR | INFO_SEQUENCE | INFO_OPTIONAL)))
    return x->type.len ? "another type" : "no type";
  char *text = arena_printf(&d->arena, "%s%s", around, dtype_name((enum dtype)x->dtype));
  if (!(x->flags & (INFO_SHAPED | INFO_HELD_SHAPED)))
    return arena_printf(&d->arena, "%s of unknown shape", text);
  struct {
    TABLE_BIG(char, at);
  } out = {0};
  for (uint32_t i = 0; i < x->rank; i++) {
    const struct model_dim dim = m->info_dims[x->dims + i];
    char room[32];
    const char *word = dim.value >= 0          ? room
                       : dim.param == m->empty ? "?"
                                               : model_name_str(m, dim.param);
    if (dim.value >= 0) snprintf(room, sizeof room, "%s", integer(dim.value).s);
    const size_t n = strlen(word);
    TABLE_ROOM(&out, at, n + 1);
    if (i) out.at[out.n_at++] = ',';
    memcpy(out.at + out.n_at, word, n);
    out.n_at += n;
  }
  text = arena_printf(&d->arena, "%s[%.*s]", text, (int)out.n_at, out.n_at ? out.at : "");
  TABLE_FREE(&out, at);
  return text;
}

static bool same_dims(const struct diff *d, const struct model_info *x,
                      const struct model_info *y) {
  for (uint32_t i = 0; i < x->rank && x->rank == y->rank; i++) {
    const struct model_dim p = d->m[DIFF_A]->info_dims[x->dims + i],
                           q = d->m[DIFF_B]->info_dims[y->dims + i];
    if (p.value != q.value || diff_name(d, DIFF_A, p.param) != diff_name(d, DIFF_B, q.param))
      return false;
  }
  return x->rank == y->rank;
}

// Two that read alike: a dim's name may be a number, or hold a comma.
static int compare_types(struct diff *d, const char *what, const char *name, const char *text,
                         uint32_t a, uint32_t b, struct err *err) {
  const struct model_info *x = &d->m[DIFF_A]->infos[a], *y = &d->m[DIFF_B]->infos[b];
  bool differ = false;
  d->steps += x->rank + 1u;
  if (!(x->flags & (INFO_TENSOR | INFO_SEQUENCE | INFO_OPTIONAL)) || x->dtype == DTYPE_UNDEFINED) {
    if (diff_bytes_differ(d, x->type, y->type, &differ, err)) return -1;
    if (differ) diff_line(d, what, name, text, "yet another type");
    return 0;
  }
  if (!same_dims(d, x, y)) {
    diff_line(d, what, name, text, arena_printf(&d->arena, "%s, with other names of dims", text));
    return 0;
  }
  if (diff_types_differ(d, a, b, &differ, err)) return -1;
  if (differ) diff_line(d, what, name, text, arena_printf(&d->arena, "%s, with other notes", text));
  return 0;
}

// doc_string, metadata and unknown fields.
static int compare_notes(struct diff *d, const char *what, const char *name, uint32_t a, uint32_t b,
                         struct err *err) {
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  const uint32_t p = a == NO_ID ? ma->empty : ma->infos[a].range,
                 q = b == NO_ID ? mb->empty : mb->infos[b].range;
  bool differ = false;
  if (diff_kept_differs(d, KEPT_INFO, a, b, &differ, err)) return -1;
  if (differ || diff_name(d, DIFF_A, p) != diff_name(d, DIFF_B, q))
    diff_line(d, what, name, "doc_string or metadata", "others");
  return 0;
}

// Compares two declarations: x of the value a, y of the value b.
static int compare_sayings(struct diff *d, const char *what, uint32_t a, uint32_t x, uint32_t b,
                           uint32_t y, enum info_home home, struct err *err) {
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  const char *name =
      a == NO_ID ? model_name_str(mb, mb->values[b].name) : model_name_str(ma, ma->values[a].name);
  const char *was = type_text(d, DIFF_A, x), *is = type_text(d, DIFF_B, y);
  if (home != INFO_VALUE) { // those of outputs may be left out
    if (a != NO_ID && !was) was = "no type";
    if (b != NO_ID && !is) is = "no type";
  }
  if (was && is && strcmp(was, is) == 0 && x != NO_ID && y != NO_ID) {
    if (compare_types(d, what, name, was, x, y, err)) return -1;
  } else {
    diff_texts(d, what, name, was, is);
  }
  return was && is ? compare_notes(d, what, name, x, y, err) : 0;
}

static int compare_infos(struct diff *d, const char *what, uint32_t a, uint32_t b,
                         enum info_home home, struct err *err) {
  const uint32_t x = a == NO_ID ? NO_ID : model_info_at(d->m[DIFF_A], a, home);
  const uint32_t y = b == NO_ID ? NO_ID : model_info_at(d->m[DIFF_B], b, home);
  return compare_sayings(d, what, a, x, b, y, home, err);
}

// The next value_info of the same value; NO_ID: none.
static uint32_t next_info(const struct model *m, uint32_t info) {
  if (info != NO_ID) info = model_live_info(m, m->infos[info].next);
  while (info != NO_ID && m->infos[info].home != INFO_VALUE)
    info = model_live_info(m, m->infos[info].next);
  return info;
}

// A value may have several value_infos: each with the one at its place in the other model.
static int compare_infos_of(struct diff *d, uint32_t a, uint32_t b, struct err *err) {
  uint32_t x = model_info_at(d->m[DIFF_A], a, INFO_VALUE),
           y = model_info_at(d->m[DIFF_B], b, INFO_VALUE);
  do {
    if (compare_sayings(d, "value_info", a, x, b, y, INFO_VALUE, err)) return -1;
    d->steps++;
    x = next_info(d->m[DIFF_A], x), y = next_info(d->m[DIFF_B], y);
  } while (x != NO_ID || y != NO_ID);
  return 0;
}

// ---- inputs and outputs ------------------------------------------------------------------------

static bool initializer(const struct model *m, uint32_t value) {
  return m->values[value].kind == VALUE_INITIALIZER;
}

static const char *renamed(struct diff *d, uint32_t side, uint32_t value) {
  return arena_printf(&d->arena, "named %s",
                      model_name_str(d->m[side], d->m[side]->values[value].name));
}

static int compare_inputs(struct diff *d, const struct model_graph *ga,
                          const struct model_graph *gb, struct err *err) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  uint64_t listed[DIFF_SIDES] = {0};
  for (uint32_t i = 0; i < ga->n_inputs; i++) {
    const uint32_t x = a->graph_io[ga->inputs + i], y = x == NO_ID ? NO_ID : d->values[DIFF_A][x];
    if (x == NO_ID) continue;
    if (initializer(a, x)) {
      listed[DIFF_A]++;
      continue;
    }
    if (compare_infos(d, "input", x, y, INFO_INPUT, err)) return -1;
    if (y != NO_ID &&
        diff_name(d, DIFF_A, a->values[x].name) != diff_name(d, DIFF_B, b->values[y].name))
      diff_line(d, "input", text_of(d, DIFF_A, a->values[x].name), renamed(d, DIFF_A, x),
                renamed(d, DIFF_B, y));
  }
  for (uint32_t i = 0; i < gb->n_inputs; i++) {
    const uint32_t y = b->graph_io[gb->inputs + i];
    if (y == NO_ID) continue;
    listed[DIFF_B] += initializer(b, y);
    if (!initializer(b, y) && d->values[DIFF_B][y] == NO_ID &&
        compare_infos(d, "input", NO_ID, y, INFO_INPUT, err))
      return -1;
  }
  if (listed[DIFF_A] != listed[DIFF_B])
    diff_line(d, "inputs", "initializers listed as inputs", diff_number(d, (int64_t)listed[DIFF_A]),
              diff_number(d, (int64_t)listed[DIFF_B]));
  return 0;
}

// Outputs of one name are the same output, whatever makes them; others are compared by their place
// where none of them has a name of the other side.
static int compare_outputs(struct diff *d, uint32_t a, uint32_t b, struct err *err) {
  const struct model *m[DIFF_SIDES] = {d->m[DIFF_A], d->m[DIFF_B]};
  const struct model_graph *g[DIFF_SIDES] = {&m[0]->graphs[a], &m[1]->graphs[b]};
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t i = 0; i < g[s]->n_outputs; i++) {
      const uint32_t v = m[s]->graph_io[g[s]->outputs + i];
      if (v == NO_ID) continue;
      const uint32_t name = model_find_name(m[!s], model_value_name(m[s], v));
      const uint32_t other = name == NO_ID ? NO_ID : model_value_in(m[!s], s ? a : b, name);
      const bool there = other != NO_ID && m[!s]->values[other].flags & VALUE_IS_OUTPUT;
      const char *word = text_of(d, s, m[s]->values[v].name);
      d->steps++;
      if (s == DIFF_A && there && compare_infos(d, "output", v, other, INFO_OUTPUT, err)) return -1;
      if (s == DIFF_A && there && d->values[DIFF_A][v] != other)
        diff_line(d, "output", word, "made by another node", "than its twin");
      if (!there && compare_infos(d, "output", s ? NO_ID : v, s ? v : NO_ID, INFO_OUTPUT, err))
        return -1;
    }
  return 0;
}

static void compare_order_of_io(struct diff *d, const struct model_graph *ga,
                                const struct model_graph *gb) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  bool inputs = ga->n_inputs == gb->n_inputs, outputs = ga->n_outputs == gb->n_outputs;
  bool moved = false;
  for (uint32_t i = 0; inputs && i < ga->n_inputs; i++) {
    const uint32_t x = a->graph_io[ga->inputs + i], y = b->graph_io[gb->inputs + i];
    moved |= x != NO_ID && y != NO_ID && d->values[DIFF_A][x] != y && d->values[DIFF_A][x] != NO_ID;
  }
  if (moved) diff_line(d, "inputs", "order", "as in the first model", "another");
  moved = false;
  for (uint32_t i = 0; outputs && i < ga->n_outputs; i++) {
    const uint32_t x = a->graph_io[ga->outputs + i], y = b->graph_io[gb->outputs + i];
    if (x == NO_ID || y == NO_ID) continue;
    const uint32_t name = model_find_name(b, model_value_name(a, x));
    moved |= name != NO_ID && b->values[y].name != name;
  }
  if (moved) diff_line(d, "outputs", "order", "as in the first model", "another");
}

// ---- graphs and functions ----------------------------------------------------------------------

// doc_string, quantization annotations, metadata of the graph, unknown fields; of a function that was loaded its name too.
static int compare_other(struct diff *d, uint32_t a, uint32_t b, struct err *err) {
  const struct model *m[DIFF_SIDES] = {d->m[DIFF_A], d->m[DIFF_B]};
  const struct model_graph *g[DIFF_SIDES] = {&m[0]->graphs[a], &m[1]->graphs[b]};
  const struct model_item *items[DIFF_SIDES] = {m[0]->items + g[0]->items,
                                                m[1]->items + g[1]->items};
  const uint32_t n[DIFF_SIDES] = {g[0]->n_items, g[1]->n_items};
  bool differ = false;
  if ((g[0]->flags | g[1]->flags) & GRAPH_NEW) return 0; // made by an edit: no bytes say what it is
  if (diff_bytes_items(d, items, n, ITEM_OTHER, &differ, err)) return -1;
  if (differ)
    diff_line(d, "graph", text_of(d, DIFF_A, g[0]->name), "doc_string, annotations or metadata",
              "others");
  return 0;
}

static int compare_graphs(struct diff *d, uint32_t a, uint32_t b, struct err *err) {
  const struct model_graph *ga = &d->m[DIFF_A]->graphs[a], *gb = &d->m[DIFF_B]->graphs[b];
  if (ga->kind == GRAPH_MAIN)
    diff_texts(d, "graph name", "", text_of(d, DIFF_A, ga->name), text_of(d, DIFF_B, gb->name));
  if (compare_inputs(d, ga, gb, err) || compare_outputs(d, a, b, err)) return -1;
  compare_order_of_io(d, ga, gb);
  return diff_stale_infos_compare(d, a, b, err) ? -1 : compare_other(d, a, b, err);
}

static const char *function_name(struct diff *d, uint32_t side, uint32_t f) {
  const struct model_function *x = &d->m[side]->functions[f];
  const char *domain = text_of(d, side, x->domain), *overload = text_of(d, side, x->overload);
  return arena_printf(&d->arena, "%s%s%s%s%s", domain, *domain ? "." : "",
                      text_of(d, side, x->name), *overload ? ":" : "", overload);
}

static const char *nodes_in(struct diff *d, uint32_t side, uint32_t f) {
  const struct model *m = d->m[side];
  uint64_t n = 0;
  for (uint32_t i = m->graphs[m->functions[f].graph].first_node; i != NO_ID; i = m->nodes[i].next)
    n++;
  return arena_printf(&d->arena, "%s node%s", decimal(n).s, plural(n));
}

static int compare_defaults(struct diff *d, uint32_t f, uint32_t twin, struct err *err) {
  const struct model_function *of[DIFF_SIDES] = {&d->m[0]->functions[f], &d->m[1]->functions[twin]};
  uint32_t *other[DIFF_SIDES];
  diff_attrs_pair(
      d, (struct diff_attrs[]){{of[0]->attrs, of[0]->n_attrs}, {of[1]->attrs, of[1]->n_attrs}},
      other);
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t i = 0; i < of[s]->n_attrs; i++) {
      const uint32_t there = other[s][i], attr = of[s]->attrs + i;
      const struct model_attr *a = &d->m[s]->attrs[attr];
      bool differ = there == NO_ID;
      if (a->type == ATTR_UNDEFINED || a->flags & ATTR_DEAD) continue; // it has no default
      if (s == DIFF_B && !differ) continue;
      if (!differ && diff_attrs_differ(d, attr, there, &differ, err)) return -1;
      if (!differ) continue;
      const char *name = arena_printf(&d->arena, "%s (function %s)", text_of(d, s, a->name),
                                      function_name(d, DIFF_A, f));
      diff_line(d, "attribute", name, s ? NULL : "a default",
                there != NO_ID ? "another default"
                : s            ? "a default"
                               : NULL);
    }
  return 0;
}

static int compare_functions(struct diff *d, struct err *err) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t f = 0; f < d->m[s]->n_functions; f++) {
      const uint32_t twin = d->functions[s][f];
      d->steps++;
      if (twin == NO_ID) {
        const char *words = nodes_in(d, s, f);
        diff_line(d, "function", function_name(d, s, f), s ? NULL : words, s ? words : NULL);
      } else if (s == DIFF_A) {
        const struct model_function *x = &d->m[0]->functions[f], *y = &d->m[1]->functions[twin];
        const struct imports both[] = {{d->m[0]->opsets + x->opsets, x->n_opsets},
                                       {d->m[1]->opsets + y->opsets, y->n_opsets}};
        if (compare_imports(d, both, function_name(d, s, f), err)) return -1;
        if (compare_defaults(d, f, twin, err)) return -1;
      }
    }
  return 0;
}

// Graphs of training are pairs of their own.
static int compare_trainings(struct diff *d, struct err *err) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  bool differ = false;
  if (a->n_trainings != b->n_trainings)
    diff_line(d, "training", "steps", diff_number(d, a->n_trainings),
              diff_number(d, b->n_trainings));
  for (uint32_t i = 0; i < a->n_trainings && i < b->n_trainings; i++) {
    if (diff_kept_differs(d, KEPT_TRAINING, i, i, &differ, err)) return -1;
    if (differ) diff_line(d, "training", diff_number(d, i), "bindings", "others");
  }
  return 0;
}

// ---- the whole ---------------------------------------------------------------------------------

static int compare_value_infos(struct diff *d, struct err *err) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  for (uint32_t v = 0; v < a->n_values; v++)
    if (d->values[DIFF_A][v] != NO_ID && compare_infos_of(d, v, d->values[DIFF_A][v], err))
      return -1;
  d->steps += a->n_values + b->n_values;
  return 0;
}

int diff_lines_compare(struct diff *d, struct err *err) {
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  const struct imports both[] = {{a->opsets, a->n_model_opsets}, {b->opsets, b->n_model_opsets}};
  diff_texts(d, "ir_version", "", diff_number(d, a->ir_version), diff_number(d, b->ir_version));
  if (compare_imports(d, both, NULL, err)) return -1;
  if (diff_fields_compare(d, err)) return -1;
  compare_metadata(d);
  if (compare_functions(d, err) || compare_trainings(d, err)) return -1;
  for (uint32_t g = 0; g < a->n_graphs; g++)
    if (d->graphs[DIFF_A][g] != NO_ID && compare_graphs(d, g, d->graphs[DIFF_A][g], err)) return -1;
  return compare_value_infos(d, err);
}
