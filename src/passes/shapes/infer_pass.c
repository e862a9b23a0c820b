// Room: the pass that writes the inferred shapes, and the mark of `weir preprocess`.
//
// The pass `infer`: what is known of values is written as value_info, for whoever reads the model next.
//
//   h = Conv(x, w)          value_info h: float[1,256,(t + 1)//2]
//
// Dims that the model declares stay as they are spelled where they say the same in the words of the inputs; a
// number takes the place of a symbol, a formula that of a name that only an output has, and what contradicts
// inference gives way, as --declared says. Inputs declare what --set-shape and --set-dim make of them; their dims
// without a name get one. Values inside functions mean another thing in every call, and are left. A symbol of which only is known that it is the
// same in several places gets a name, unk__0, unk__1 ..., that nothing in the model has: (unk__0 + 1)//2.
#include "base/guess.h"
#include "base/table.h"
#include "infer/infer.h"
#include "passes/kit/kit.h"
#include "passes/shapes/inside/infer_left.h"
#include "passes/shapes/inside/mark_preprocessed.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANK = 64, REASONS_SAID = 4 };

struct infer_pass_options {
  uint32_t declared; // enum infer_declared, then: refuse
  bool guess_rank, strict;
  uint64_t min_dim, int_max;
  const char **set_shape, **set_dim;
  uint32_t n_set_shape, n_set_dim;
};
enum { DECLARED_REFUSE = 3 };

struct writing {
  struct kit k;
  struct infer *in;
  const struct infer_pass_options *o;
  TABLE(uint32_t, symbol_names); // by number of "?7" in texts: name id + 1
  TABLE(uint32_t, number_of);    // by name id, of names that were kept: that number + 1
  TABLE(uint32_t, long_names);   // by dim id, of those that have no text: name id + 1
  uint32_t n_unknown;
  TABLE(uint8_t, of_input);  // by name id: an input has a dim of that name
  TABLE(uint8_t, elsewhere); // a value of the main graph has one, or it was given to a number
  // contradictions
  uint32_t said;
  struct err why;          // of the first
  bool of_node;            // which cannot run; else of a value
  struct infer_leads left; // what is not to be written
  TABLE(uint8_t, wrong);   // by value id: it is declared wrongly
  // without a shape: values, why, and the first of them
  uint32_t shapeless, shapeless_why[INFER_WHYS], first_shapeless;
};

// ---- what inference says -------------------------------------------------------------------------

static void say(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  struct writing *w = ctx;
  const struct model *m = w->k.m;
  if (w->said++ > 0) return;
  w->of_node = node != NO_ID;
  if (w->of_node)
    err_set(&w->why, ERR_MODEL, "%s cannot run with these inputs: %s", model_node_words(m, node).s,
            sentence);
  else
    err_set(&w->why, ERR_MODEL, "value '%s': %s", quote(model_value_name(m, value)).s, sentence);
}

static void warn_of_what_was_said(struct writing *w) {
  if (w->said == 0) return;
  const char *sentence =
      w->said == 1 ? w->why.msg
                   : arena_printf(&w->k.site, "%s (and %u more)", w->why.msg, w->said - 1);
  kit_warn(&w->k, sentence,
           w->of_node ? "'weir check' names them all"
           : w->o->declared == INFER_KEEP
               ? "weir kept the declarations; --declared refine writes the inferred shapes instead"
               : "weir writes the inferred shapes; --declared keep keeps the declarations");
}

// ---- dims as they are written ----------------------------------------------------------------------

#define NEW_NAME "unk__"
enum { NAME_ROOM = 32 };

// Is it a name as new_name makes them?
static bool is_of_ours(const struct writing *w, uint32_t name) {
  if (name == NO_ID || name == w->k.m->empty) return false;
  const struct span text = model_name(w->k.m, name);
  return text.n < NAME_ROOM && text.n >= sizeof NEW_NAME &&
         memcmp(text.at, NEW_NAME, sizeof NEW_NAME - 1) == 0;
}

// A name that nothing in the model has.
static uint32_t new_name(struct writing *w) {
  struct model *m = w->k.m;
  for (;;) {
    char name[NAME_ROOM];
    const int n = snprintf(name, sizeof name, NEW_NAME "%u", w->n_unknown++);
    if (model_find_name(m, span_of(name, (size_t)n)) == NO_ID)
      return model_intern(m, span_of(name, (size_t)n));
  }
}

// The name that stands for "?number" in every text.
static struct span symbol_name(struct writing *w, uint32_t number) {
  if (number >= w->n_symbol_names) TABLE_ADD(w, symbol_names, number + 1 - w->n_symbol_names);
  if (w->symbol_names[number] == 0) w->symbol_names[number] = new_name(w) + 1;
  return model_name(w->k.m, w->symbol_names[number] - 1);
}

// A text with names for the symbols that have none. Where that makes it too long to be read as an expression
// again, it is one name instead.
static struct span named(struct writing *w, struct span text) {
  const char *from = (const char *)text.at, *end = from + text.n;
  char out[2 * DIMS_TEXT];
  size_t n = 0;
  bool quoted = false;
  while (from < end && n < DIMS_TEXT) {
    quoted ^= *from == '`';
    if (quoted || *from != '?') {
      out[n++] = *from++;
      continue;
    }
    uint32_t number = 0;
    for (from++; from < end && *from >= '0' && *from <= '9'; from++)
      number = number * 10 + (uint32_t)(*from - '0');
    const struct span name = symbol_name(w, number);
    memcpy(out + n, name.at, name.n); // of at most 31 bytes
    n += name.n;
  }
  if (from < end || n > DIMS_TEXT) return span_of(NULL, 0);
  char *kept = arena_copy(&w->k.site, out, n);
  return span_of(kept, n);
}

static void mark_elsewhere(struct writing *w, uint32_t name) {
  if (name == NO_ID) return;
  if (name >= w->n_elsewhere) TABLE_ADD(w, elsewhere, name + 1 - w->n_elsewhere);
  w->elsewhere[name] = 1;
}

static void give_name(struct writing *w, uint32_t number, uint32_t name) {
  if (number >= w->n_symbol_names) TABLE_ADD(w, symbol_names, number + 1 - w->n_symbol_names);
  if (name >= w->n_number_of) TABLE_ADD(w, number_of, name + 1 - w->n_number_of);
  w->symbol_names[number] = name + 1;
  w->number_of[name] = number + 1;
  mark_elsewhere(w, name);
}

static bool input_has(const struct writing *w, uint32_t name) {
  return name < w->n_of_input && w->of_input[name];
}

// Does a declared dim say what was found, in words that mean something to who reads it? Names that only
// outputs have do not, nor do those that others were set to be.
static bool says_it(struct writing *w, dim_id found, struct model_dim declared) {
  struct dims *d = infer_dims(w->in);
  const dim_id said = infer_declared_dim(w->in, declared);
  if (said == NO_ID || dims_equal(d, said, found) != DIMS_YES) return false;
  if (dims_find(d, said) == said) return true;
  return w->o->n_set_shape + w->o->n_set_dim == 0 && input_has(w, declared.param);
}

// Did an earlier run call the dim so, since its text would be too long?
static bool says_long(struct writing *w, dim_id found, struct model_dim declared) {
  if (!is_of_ours(w, declared.param) || input_has(w, declared.param)) return false;
  const dim_id said = infer_declared_dim(w->in, declared);
  return dims_equal(infer_dims(w->in), said, found) == DIMS_YES;
}

// A number that only the run tells, in a body: there names of dims do not hold beyond it, and what an earlier run called
// such a number was forgotten. Not if the main graph has the name too, or another number was given it.
static bool was_forgotten(struct writing *w, dim_id found, struct model_dim declared) {
  struct span own;
  if (!is_of_ours(w, declared.param)) return false;
  if (declared.param < w->n_elsewhere && w->elsewhere[declared.param]) return false;
  return dims_is_symbol(infer_dims(w->in), found, &own) && !own.at;
}

// What has a number for a text keeps the name that an earlier run gave it, so that inferring once more changes nothing.
static void keep_name(struct writing *w, dim_id found, struct model_dim declared,
                      struct span text) {
  char *end;
  if (!says_long(w, found, declared) && !was_forgotten(w, found, declared)) return;
  const uint32_t number = (uint32_t)strtoull(arena_string(&w->k.site, text) + 1, &end, 10);
  if (text.at[0] != '?' || *end != '\0') return;
  if (number < w->n_symbol_names && w->symbol_names[number]) return;
  give_name(w, number, declared.param);
}

// One "?number" of a text, and what stands for it in a declared one. Moves both on. False: no name of ours does.
static bool take_name(struct writing *w, const char **text, const char **declared, uint32_t *number,
                      uint32_t *name) {
  char *end;
  const char *from = *declared;
  *number = (uint32_t)strtoull(*text + 1, &end, 10);
  *text = end;
  while (isalnum((unsigned char)**declared) || **declared == '_')
    ++*declared;
  *name = model_find_name(w->k.m, span_of(from, (size_t)(*declared - from)));
  return is_of_ours(w, *name);
}

// Has the number another name, or the name another number?
static bool is_given(const struct writing *w, uint32_t number, uint32_t name) {
  return (name < w->n_number_of && w->number_of[name] && w->number_of[name] != number + 1) ||
         (number < w->n_symbol_names && w->symbol_names[number] &&
          w->symbol_names[number] != name + 1);
}

// The same of what has such numbers inside: "Max(a, ?1)" that is declared to be "Max(a, unk__3)".
static void keep_names(struct writing *w, dim_id found, struct model_dim declared,
                       struct span text) {
  enum { NAMES = 16 };
  uint32_t numbers[NAMES], names[NAMES], n = 0;
  if (declared.value >= 0 || declared.param == NO_ID || input_has(w, declared.param) ||
      dims_equal(infer_dims(w->in), infer_declared_dim(w->in, declared), found) != DIMS_YES)
    return;
  const char *a = arena_string(&w->k.site, text),
             *b = arena_string(&w->k.site, model_name(w->k.m, declared.param));
  bool quoted = false;
  while (*a && *b) {
    quoted ^= *a == '`';
    if (quoted || *a != '?') {
      if (*a++ != *b++) return;
    } else if (n == NAMES || !take_name(w, &a, &b, &numbers[n], &names[n]) ||
               is_given(w, numbers[n], names[n])) {
      return;
    } else {
      n++;
    }
  }
  for (uint32_t i = 0; *a == *b && i < n && !is_given(w, numbers[i], names[i]); i++)
    give_name(w, numbers[i], names[i]);
}

// The name of an expression whose text is too long with the names of its symbols.
static struct span long_name(struct writing *w, dim_id d, struct model_dim declared) {
  if (d >= w->n_long_names) TABLE_ADD(w, long_names, d + 1 - w->n_long_names);
  if (w->long_names[d] == 0)
    w->long_names[d] = (says_long(w, d, declared) ? declared.param : new_name(w)) + 1;
  return model_name(w->k.m, w->long_names[d] - 1);
}

static struct model_dim written(struct writing *w, dim_id found, struct model_dim declared) {
  struct dims *d = infer_dims(w->in);
  int64_t n;
  if (dims_is_number(d, found, &n) && n >= 0) return (struct model_dim){n, w->k.m->empty};
  if (says_it(w, found, declared)) return declared;
  struct span name, text = dims_text(d, found, &w->k.site);
  if (dims_is_symbol(d, found, &name) && name.at) {
    text = name;
  } else if (memchr(text.at, '?', text.n)) {
    keep_name(w, found, declared, text);
    keep_names(w, found, declared, text);
    text = named(w, text);
  }
  if (!text.at) text = long_name(w, found, declared);
  return (struct model_dim){-1, model_intern(w->k.m, text)};
}

static bool same_dim(struct model_dim a, struct model_dim b) {
  return a.value >= 0 || b.value >= 0 ? a.value == b.value : a.param == b.param;
}

// What the model declares, of a constant too. False: not everywhere where it declares something.
static bool declared_type(const struct model *m, uint32_t value, struct model_type *out) {
  bool everywhere = true;
  *out = (struct model_type){.dtype = DTYPE_UNDEFINED};
  MODEL_EACH_INFO (m, value, i) {
    const struct model_info *info = &m->infos[i];
    if (!(info->flags & INFO_TENSOR)) continue;
    everywhere = everywhere && (info->flags & INFO_SHAPED);
    if (out->ranked) continue;
    out->dtype = (enum dtype)info->dtype;
    out->ranked = info->flags & INFO_SHAPED;
    out->rank = out->ranked ? info->rank : 0;
    out->dims = out->ranked ? &m->info_dims[info->dims] : NULL;
  }
  return everywhere;
}

// ---- values ----------------------------------------------------------------------------------------

static bool is_wrong(const struct writing *w, uint32_t value) {
  return value < w->n_wrong && w->wrong[value];
}

static void note_wrong(struct writing *w) {
  uint32_t n;
  const uint32_t *values = infer_misdeclared(w->in, &n);
  if (n) TABLE_ADD(w, wrong, w->k.m->n_values);
  for (uint32_t i = 0; i < n; i++)
    w->wrong[values[i]] = 1;
}

// True: its declaration was changed or made.
static bool write_value(struct writing *w, uint32_t value) {
  struct model *m = w->k.m;
  struct infer_type t;
  struct model_type was;
  struct model_dim dims[RANK];
  if (!infer_type_of(w->in, value, &t) || t.kind != INFER_TENSOR || t.dtype == DTYPE_UNDEFINED)
    return false;
  const bool everywhere = declared_type(m, value, &was);
  if (!t.ranked && was.dtype == t.dtype) return false;
  if (infer_leads_has(&w->left, value) && !is_wrong(w, value)) return false;
  bool same = everywhere && was.dtype == t.dtype && was.ranked == t.ranked && was.rank == t.rank;
  for (uint32_t i = 0; t.ranked && i < t.rank; i++) {
    const struct model_dim declared = model_type_dim(m, &was, i);
    dims[i] = written(w, dims_find(infer_dims(w->in), t.dims[i]), declared);
    same = same && same_dim(dims[i], declared);
    // The name may have moved what `was` points at.
    declared_type(m, value, &was);
  }
  if (same) return false;
  edit_retype_value(w->k.e, value, t.dtype, dims, t.ranked ? t.rank : NO_ID);
  return true;
}

static bool is_written(const struct model *m, uint32_t graph) {
  return m->graphs[model_root_graph(m, graph)].kind == GRAPH_MAIN;
}

// What is wrong and no node makes, or lies in a function, whose values keep what is declared of them unless it is wrong in
// some call.
static void write_misdeclared(struct writing *w) {
  const struct model *m = w->k.m;
  uint32_t n;
  const uint32_t *values = infer_misdeclared(w->in, &n);
  if (w->o->declared == INFER_KEEP) return;
  for (uint32_t i = 0; i < n; i++) {
    kit_site(&w->k, NO_ID, "declared");
    if (!is_written(m, m->values[values[i]].graph))
      kit_undeclare(&w->k, values[i]);
    else if (m->values[values[i]].kind != VALUE_NODE_OUTPUT)
      write_value(w, values[i]);
  }
}

static bool has_shape(struct writing *w, uint32_t value) {
  struct infer_type t;
  if (!infer_type_of(w->in, value, &t)) return false;
  return t.kind != INFER_TENSOR || (t.ranked && t.dtype != DTYPE_UNDEFINED);
}

static void count_shapeless(struct writing *w, uint32_t value, enum infer_why why) {
  if (w->shapeless++ == 0) w->first_shapeless = value;
  w->shapeless_why[why]++;
}

// A node is left alone if something that it makes has no shape; else it is in the report where something of it is
// written.
static void write_node(struct writing *w, uint32_t node) {
  const struct model *m = w->k.m;
  enum infer_why why = INFER_WHY_KNOWN;
  bool changed = false;
  kit_site(&w->k, node, "inferred");
  for (uint32_t i = 0; i < m->nodes[node].n_out; i++) {
    const uint32_t value = model_output(m, &m->nodes[node], i);
    if (value == NO_ID) continue;
    changed = write_value(w, value) || changed;
    if (has_shape(w, value)) continue;
    const enum infer_why of = infer_why(w->in, value);
    count_shapeless(w, value, of == INFER_WHY_KNOWN ? INFER_WHY_INPUT : of);
    if (why == INFER_WHY_KNOWN) why = of == INFER_WHY_KNOWN ? INFER_WHY_INPUT : of;
  }
  if (why != INFER_WHY_KNOWN)
    kit_skipped(&w->k, node, infer_why_code(why));
  else if (changed)
    kit_converted(&w->k, node, "inferred");
}

// ---- inputs ----------------------------------------------------------------------------------------

// The inputs of the main graph that callers give: the i-th at or after *i. NO_ID: no further one.
static uint32_t next_input(const struct model *m, uint32_t *i) {
  const struct model_graph *g = &m->graphs[m->main_graph];
  for (; *i < g->n_inputs; ++*i) {
    const uint32_t value = m->graph_io[g->inputs + *i];
    if (value != NO_ID && m->values[value].kind != VALUE_INITIALIZER) return value;
  }
  return NO_ID;
}

static void note_input_dims(struct writing *w) {
  const struct model *m = w->k.m;
  for (uint32_t i = 0, value; (value = next_input(m, &i)) != NO_ID; i++) {
    struct model_type t;
    model_types_get(NULL, m, value, &t);
    for (uint32_t k = 0; t.ranked && k < t.rank; k++) {
      const uint32_t name = model_type_dim(m, &t, k).param;
      if (name == NO_ID || name == m->empty) continue;
      if (name >= w->n_of_input) TABLE_ADD(w, of_input, name + 1 - w->n_of_input);
      w->of_input[name] = 1;
    }
  }
}

static void note_main_dims(struct writing *w) {
  const struct model *m = w->k.m;
  for (uint32_t i = 0; i < m->n_infos; i++) {
    const struct model_info *info = &m->infos[i];
    if (info->flags & INFO_DEAD || !(info->flags & INFO_SHAPED) || info->value == NO_ID) continue;
    if (m->values[info->value].graph != m->main_graph) continue;
    for (uint32_t k = 0; k < info->rank; k++)
      if (m->info_dims[info->dims + k].value < 0)
        mark_elsewhere(w, m->info_dims[info->dims + k].param);
  }
}

// What was set, and names for dims that have none, since other dims follow from them.
static void write_inputs(struct writing *w) {
  kit_site(&w->k, NO_ID, "set");
  for (uint32_t i = 0, value; (value = next_input(w->k.m, &i)) != NO_ID; i++)
    write_value(w, value);
}

// ---- options ---------------------------------------------------------------------------------------

static const char *few_dims(struct writing *w) {
  const char *text = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->n_of_input; i++) {
    if (!w->of_input[i] || n++ >= REASONS_SAID) continue;
    text = arena_printf(&w->k.site, "%s%s%s", text ? text : "", text ? ", " : "",
                        quote(model_name(w->k.m, i)).s);
  }
  return n > REASONS_SAID ? arena_printf(&w->k.site, "%s and %u more", text, n - REASONS_SAID)
                          : text;
}

// Is the symbol in a dim of an input?
static bool is_of_inputs(struct writing *w, dim_id symbol) {
  const struct model *m = w->k.m;
  struct dims *d = infer_dims(w->in);
  for (uint32_t i = 0, value; (value = next_input(m, &i)) != NO_ID; i++) {
    struct model_type t;
    struct infer_type set;
    model_types_get(NULL, m, value, &t);
    for (uint32_t k = 0; t.ranked && k < t.rank; k++) {
      const dim_id e = infer_declared_dim(w->in, model_type_dim(m, &t, k));
      if (e != NO_ID && dims_replace(d, e, symbol, dims_number(d, 1)) != e) return true;
    }
    if (!infer_type_of(w->in, value, &set)) continue;
    for (uint32_t k = 0; set.ranked && k < set.rank; k++)
      if (dims_replace(d, set.dims[k], symbol, dims_number(d, 1)) != set.dims[k]) return true;
  }
  return false;
}

// Digits only, and few enough for any dim that can be.
static bool read_number(const char *text, int64_t *n) {
  const size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 18 || text[digits] != '\0') return false;
  *n = strtoll(text, NULL, 10);
  return true;
}

static int set_dims(struct writing *w, struct err *err) {
  struct dims *d = infer_dims(w->in);
  for (uint32_t i = 0; i < w->o->n_set_dim; i++) {
    const char *text = w->o->set_dim[i], *equals = strrchr(text, '=');
    int64_t n;
    if (!equals || equals == text || !read_number(equals + 1, &n)) {
      err_fill(err, ERR_USAGE, "'%s' is not of the form NAME=NUMBER", quote_str(text).s);
      return err_hint(err, "for example batch=1");
    }
    const struct span name = span_of(text, (size_t)(equals - text));
    const dim_id symbol = dims_symbol(d, name, (int64_t)w->o->min_dim);
    if (!is_of_inputs(w, symbol)) {
      const char *few = few_dims(w);
      err_fill(err, ERR_USAGE, "no input has a dim named '%s'", quote(name).s);
      return few ? err_hint(err, "named dims of the inputs: %s", few)
                 : err_hint(err, "no dim of an input has a name; --set-shape sets whole shapes");
    }
    if (!dims_unite(d, symbol, dims_number(d, n))) {
      err_fill(err, ERR_USAGE, "the dim '%s' cannot be %s", quote(name).s, integer(n).s);
      return n == 0 ? err_hint(err, "'weir infer --min-dim 0' allows empty inputs") : -1;
    }
  }
  return 0;
}

// "1x128xT", or "1,128,max_len" where a name has an x in it. -1: one of them is missing or no dim.
static int read_shape(struct writing *w, const char *text, dim_id *dims, uint32_t *rank) {
  const char *between = strchr(text, ',') ? "," : "x";
  for (*rank = 0; *rank < RANK; text++) {
    const size_t n = strcspn(text, between);
    int64_t number;
    const dim_id e = dims_parse(infer_dims(w->in), span_of(text, n), (int64_t)w->o->min_dim);
    if (n == 0 || (dims_is_number(infer_dims(w->in), e, &number) && number < 0)) return -1;
    dims[(*rank)++] = e;
    text += n;
    if (*text == '\0') return 0;
  }
  return -1;
}

// An input of that name; NO_ID and *err without one.
static uint32_t input_named(struct writing *w, struct span name, struct err *err) {
  const struct model *m = w->k.m;
  struct guess g = guess_start(arena_string(&w->k.site, name));
  for (uint32_t at = 0, value; (value = next_input(m, &at)) != NO_ID; at++) {
    if (span_eq(model_value_name(m, value), name)) return value;
    guess_try(&g, arena_string(&w->k.site, model_value_name(m, value)));
  }
  err_fill(err, ERR_USAGE, "the model has no input '%s'", quote(name).s);
  if (g.best)
    err_fill_hint(err, "did you mean '%s'?", quote_str(g.best).s);
  else
    err_fill_hint(err, "'weir inspect' shows the inputs");
  return NO_ID;
}

// "[batch,3,224]", as the model says it.
static const char *declared_words(struct writing *w, uint32_t value) {
  struct arena *a = &w->k.site;
  struct model_type t;
  const char *text = "[";
  model_types_get(NULL, w->k.m, value, &t);
  for (uint32_t i = 0; i < t.rank; i++) {
    const struct model_dim d = model_type_dim(w->k.m, &t, i);
    const char *between = i ? "," : "";
    text = d.value >= 0
               ? arena_printf(a, "%s%s%s", text, between, integer(d.value).s)
               : arena_printf(a, "%s%s%s", text, between,
                              d.param == NO_ID ? "?" : quote(model_name(w->k.m, d.param)).s);
  }
  return arena_printf(a, "%s]", text);
}

struct set_shape {
  struct span name;
  const char *shape;
  dim_id dims[RANK];
  uint32_t rank;
};

// Names that the user gives come before those of the model: they are what stays.
static int set_shapes(struct writing *w, struct err *err) {
  const uint32_t n = w->o->n_set_shape;
  struct set_shape *set = arena_alloc(&w->k.site, (n + (size_t)1) * sizeof *set);
  for (uint32_t i = 0; i < n; i++) {
    const char *text = w->o->set_shape[i], *equals = strrchr(text, '=');
    if (!equals || equals == text || read_shape(w, equals + 1, set[i].dims, &set[i].rank)) {
      err_fill(err, ERR_USAGE, "'%s' is not of the form INPUT=SHAPE", quote_str(text).s);
      return err_hint(err, "for example audio=1x128xT, or audio=1,128,max_len");
    }
    set[i].name = span_of(text, (size_t)(equals - text));
    set[i].shape = equals + 1;
  }
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t value = input_named(w, set[i].name, err);
    if (value == NO_ID) return -1;
    if (infer_set_input(w->in, value, set[i].dims, set[i].rank)) continue;
    err_fill(err, ERR_USAGE, "the input '%s' cannot have the shape '%s': the model declares %s",
             quote(set[i].name).s, quote_str(set[i].shape).s, declared_words(w, value));
    return err_hint(err, "dims that the model declares as numbers cannot change; named dims can "
                         "be set");
  }
  return 0;
}

static int read_min_dim(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a, (void)err;
  ((struct infer_pass_options *)with)->min_dim = v->given ? v->number : 1;
  return 0;
}

static const struct pass_option options[] = {
    {"declared", PASS_CHOICE, "refine|keep|override|refuse", "refine",
     "how to treat shapes that the model declares\n"
     "Applies to outputs of nodes. refine: combine them with the inferred shapes, which win if "
     "the two contradict each other. keep: declared shapes win. override: ignore declared "
     "shapes. refuse: fail if a declared shape is wrong.",
     PASS_MEMBER(infer_pass_options, declared)},
    {"set-shape", PASS_LIST, "INPUT=SHAPE", NULL,
     "set the shape of an input, as in audio=1x128xT\n"
     "Dims are numbers or names, with an x or a comma between them.",
     PASS_LIST_MEMBER(infer_pass_options, set_shape, n_set_shape)},
    {"set-dim", PASS_LIST, "NAME=NUMBER", NULL,
     "set the size of all dims of that name, as in batch=1",
     PASS_LIST_MEMBER(infer_pass_options, set_dim, n_set_dim)},
    {"min-dim", PASS_NUMBER, "N", NULL,
     "smallest size that a named input dim can have (default: 1)\n"
     "Use 0 if the model must accept empty inputs.",
     .read = read_min_dim},
    {"int-max", PASS_COUNT, "N", "2147483647",
     "treat very large numbers as unbounded\nA Slice that ends at N or later ends where its axis "
     "ends. Min of x and a number above N is x.",
     PASS_MEMBER(infer_pass_options, int_max)},
    {"guess-output-rank", PASS_FLAG, NULL, NULL,
     "guess the outputs of unknown operators\n"
     "weir assumes that they have the type and rank of the operator's first input.",
     PASS_MEMBER(infer_pass_options, guess_rank)},
    {"strict", PASS_FLAG, NULL, NULL,
     "fail if the shape of any node's output is unknown\nThe exit code is then 1.",
     PASS_MEMBER(infer_pass_options, strict)},
};

// ---- the pass ----------------------------------------------------------------------------------------

// "3: it depends on what is computed; 1: nothing is known of its operator", the most frequent first.
static const char *reasons(struct writing *w) {
  const char *text = "";
  uint32_t shown = 0;
  for (; shown < REASONS_SAID; shown++) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < INFER_WHYS; i++)
      if (w->shapeless_why[i] > w->shapeless_why[most]) most = i;
    if (w->shapeless_why[most] == 0) break;
    text = arena_printf(&w->k.site, "%s%s%u: %s", text, shown ? "; " : "", w->shapeless_why[most],
                        infer_why_words((enum infer_why)most));
    w->shapeless_why[most] = 0;
  }
  return text;
}

// Runs that were asked not to go on with a model like this one.
static int judge(struct writing *w, struct err *err) {
  struct err why = {0};
  if (w->said && w->o->declared == DECLARED_REFUSE) {
    err_fill(&why, ERR_MODEL, "%s", w->why.msg);
    err_fill_hint(&why, "--declared refine writes the inferred shapes instead");
    return pass_refuse(w->k.env, &why, err);
  }
  if (w->shapeless && w->o->strict) {
    const struct span first = model_value_name(w->k.m, w->first_shapeless);
    err_fill(&why, ERR_FAIL, "%u value%s %s no known shape (%s); the first is '%s'", w->shapeless,
             w->shapeless == 1 ? "" : "s", w->shapeless == 1 ? "has" : "have", reasons(w),
             quote(first).s);
    err_fill_hint(&why, "without --strict, weir leaves such values without a shape");
    return pass_refuse(w->k.env, &why, err);
  }
  return 0;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct writing w = {.o = with};
  const struct model *m = env->m;
  const struct infer_options o = {.declared = w.o->declared == DECLARED_REFUSE
                                                  ? INFER_REFINE
                                                  : (enum infer_declared)w.o->declared,
                                  .least_dim = (int64_t)w.o->min_dim,
                                  .to_end = (int64_t)w.o->int_max,
                                  .guess_rank = w.o->guess_rank};
  kit_init(&w.k, env, env->pass->name);
  w.in = infer_new(m, &o);
  note_input_dims(&w);
  note_main_dims(&w);
  int rc = set_shapes(&w, err) || set_dims(&w, err) ? -1 : 0;
  if (rc == 0) {
    infer_all(w.in, &(struct infer_told){.say = say, .ctx = &w});
    infer_left_find(&w.left, m, w.in);
    note_wrong(&w);
    write_inputs(&w);
  }
  for (uint32_t node = 0, n = m->n_nodes; rc == 0 && node < n; node++)
    if (!(m->nodes[node].flags & NODE_DEAD) && is_written(m, m->nodes[node].graph))
      write_node(&w, node);
  if (rc == 0) write_misdeclared(&w);
  if (rc == 0) rc = judge(&w, err);
  if (rc == 0 && w.o->declared != DECLARED_REFUSE) warn_of_what_was_said(&w);
  env->keeps_declared = env->keeps_declared || w.o->declared == INFER_KEEP;
  // Passes behind this one ask for facts.
  infer_free(env->infer);
  env->infer = infer_keep_facts(w.in) ? w.in : NULL;
  if (!env->infer) infer_free(w.in);
  TABLES_FREE(&w, symbol_names, number_of, long_names, of_input, elsewhere);
  infer_leads_free(&w.left);
  TABLE_FREE(&w, wrong);
  return kit_done(&w.k, err) || rc ? -1 : 0;
}

static const struct pass infer = {
    .name = "infer",
    .keys = "shape-inference",
    .classes = "ShapeInference",
    .summary = "write the type and shape of every value that can be inferred",
    .about = "Infers types, shapes and small values in the whole model, including subgraphs and "
             "functions, and writes the types and shapes as value_info. Dims are expressions in "
             "the symbols of the inputs, such as (t + 7)//8. Weights are not read.",
    .promises = "only declarations change; they hold for all inputs that match the declared shapes",
    .exactness = EXACTNESS_EXACT,
    PASS_OPTIONS(options, infer_pass_options),
    .run = run,
};

const struct pass *const shapes_passes[] = {&infer, &mark_preprocessed, NULL};
