// The pass `infer`: what is known of values is written as value_info, for whoever reads the model next.
//
//   h = Conv(x, w)          value_info h: float[1,256,(t + 1)//2]
//
// What the model declares stays as it is spelled where it says the same; a number takes the place of a
// symbol, and what contradicts inference gives way, as --declared says. Values inside functions mean
// another thing in every call, and are left. A dim of which only is known that it is the same in several
// places gets a name, unk__0, unk__1 …, that the model does not have.
#include "infer.h"
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANK = 64 };

struct infer_pass_options {
  uint32_t declared; // enum infer_declared, then: refuse
  bool guess_rank;
  uint64_t min_dim;
  const char **set_shape, **set_dim;
  uint32_t n_set_shape, n_set_dim;
};
enum { DECLARED_REFUSE = 3 };

struct writing {
  struct kit k;
  struct infer *in;
  const struct infer_pass_options *o;
  TABLE(uint32_t, unknown_names); // by dim id: name id + 1
  uint32_t n_unknown;
  // contradictions
  uint32_t said;
  struct err why; // of the first
};

// ---- what inference says -------------------------------------------------------------------------

static void say(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  struct writing *w = ctx;
  const struct model *m = w->k.m;
  const bool of_node = node != NO_ID;
  const struct span name =
      of_node ? model_name(m, m->nodes[node].name) : model_value_name(m, value);
  if (w->said++ > 0) return;
  err_set(&w->why, ERR_MODEL, "%s %s: %s", of_node ? "node" : "value",
          arena_printf(&w->k.site, "'%.*s'", (int)name.n, name.at), sentence);
}

static void warn_of_what_was_said(struct writing *w) {
  if (w->said == 0) return;
  const char *sentence =
      w->said == 1 ? w->why.msg
                   : arena_printf(&w->k.site, "%s (and %u more)", w->why.msg, w->said - 1);
  kit_warn(&w->k, sentence, "what was inferred is written; --declared=keep keeps what is declared");
}

// ---- dims as they are written ----------------------------------------------------------------------

static uint32_t unknown_name(struct writing *w, dim_id d) {
  struct model *m = w->k.m;
  if (d >= w->n_unknown_names) TABLE_ADD(w, unknown_names, d + 1 - w->n_unknown_names);
  while (w->unknown_names[d] == 0) {
    char name[32];
    const int n = snprintf(name, sizeof name, "unk__%u", w->n_unknown++);
    if (model_find_name(m, span_of(name, (size_t)n)) != NO_ID) continue;
    w->unknown_names[d] = model_intern(m, span_of(name, (size_t)n)) + 1;
  }
  return w->unknown_names[d] - 1;
}

static struct model_dim written(struct writing *w, dim_id found, struct model_dim declared) {
  struct dims *d = infer_dims(w->in);
  int64_t n;
  if (dims_is_number(d, found, &n) && n >= 0) return (struct model_dim){n, w->k.m->empty};
  const dim_id said = infer_declared_dim(w->in, declared);
  if (said != NO_ID && dims_equal(d, said, found) == DIMS_YES) return declared;
  struct span name, text = dims_text(d, found, &w->k.site);
  if (dims_is_symbol(d, found, &name) && name.at) text = name;
  if (memchr(text.at, '?', text.n)) return (struct model_dim){-1, unknown_name(w, found)};
  return (struct model_dim){-1, model_intern(w->k.m, text)};
}

static bool same_dim(struct model_dim a, struct model_dim b) {
  return a.value >= 0 || b.value >= 0 ? a.value == b.value : a.param == b.param;
}

// ---- values ----------------------------------------------------------------------------------------

// True: its declaration was changed or made.
static bool write_value(struct writing *w, uint32_t value) {
  struct model *m = w->k.m;
  struct infer_type t;
  struct model_type was;
  struct model_dim dims[RANK];
  if (!infer_type_of(w->in, value, &t) || t.kind != INFER_TENSOR || t.dtype == DTYPE_UNDEFINED)
    return false;
  model_types_get(NULL, m, value, &was);
  if (!t.ranked && was.dtype == t.dtype) return false;
  // A constant has its type without a declaration.
  bool same = model_live_info(m, m->values[value].info) != NO_ID && was.dtype == t.dtype &&
              was.ranked == t.ranked && was.rank == t.rank;
  for (uint32_t i = 0; t.ranked && i < t.rank; i++) {
    const struct model_dim declared = model_type_dim(m, &was, i);
    dims[i] = written(w, dims_find(infer_dims(w->in), t.dims[i]), declared);
    same = same && same_dim(dims[i], declared);
    // The name may have moved what `was` points at.
    model_types_get(NULL, m, value, &was);
  }
  if (same) return false;
  edit_retype_value(w->k.e, value, t.dtype, dims, t.ranked ? t.rank : NO_ID);
  return true;
}

static bool is_written(const struct model *m, uint32_t graph) {
  while (m->graphs[graph].kind == GRAPH_SUB)
    graph = m->graphs[graph].parent;
  return m->graphs[graph].kind == GRAPH_MAIN;
}

static void write_node(struct writing *w, uint32_t node) {
  const struct model *m = w->k.m;
  enum infer_why why = INFER_WHY_KNOWN;
  bool changed = false;
  kit_site(&w->k, node, "inferred");
  for (uint32_t i = 0; i < m->nodes[node].n_out; i++) {
    const uint32_t value = model_output(m, &m->nodes[node], i);
    if (value == NO_ID) continue;
    changed = write_value(w, value) || changed;
    if (why == INFER_WHY_KNOWN) why = infer_why(w->in, value);
  }
  if (why != INFER_WHY_KNOWN)
    kit_skipped(&w->k, node, infer_why_code(why));
  else if (changed)
    kit_converted(&w->k, node, "inferred");
}

// ---- options ---------------------------------------------------------------------------------------

static int set_dims(struct writing *w, struct err *err) {
  struct dims *d = infer_dims(w->in);
  for (uint32_t i = 0; i < w->o->n_set_dim; i++) {
    const char *text = w->o->set_dim[i], *equals = strrchr(text, '=');
    char *end;
    const long long n = equals ? strtoll(equals + 1, &end, 10) : -1;
    if (!equals || equals == text || end == equals + 1 || *end || n < 0) {
      err_fill(err, ERR_USAGE, "'%s' is no NAME=NUMBER", text);
      return err_hint(err, "--set-dim batch=1");
    }
    const struct span name = span_of(text, (size_t)(equals - text));
    if (model_find_name(w->k.m, name) == NO_ID) {
      err_fill(err, ERR_USAGE, "no dim of the model is called '%.*s'", (int)name.n, name.at);
      return err_hint(err, "'weir inspect' shows the dims of inputs");
    }
    const dim_id symbol = dims_parse(d, name, (int64_t)w->o->min_dim);
    if (!dims_unite(d, symbol, dims_number(d, n)))
      return err_set(err, ERR_USAGE, "the dim '%.*s' cannot be %lld", (int)name.n, name.at, n);
  }
  return 0;
}

static int set_shapes(struct writing *w, struct err *err) {
  struct model *m = w->k.m;
  struct dims *d = infer_dims(w->in);
  for (uint32_t i = 0; i < w->o->n_set_shape; i++) {
    const char *text = w->o->set_shape[i], *equals = strrchr(text, '=');
    dim_id dims[RANK];
    uint32_t rank = 0;
    const struct span name = span_of(text, equals ? (size_t)(equals - text) : 0);
    const uint32_t id = model_find_name(m, name);
    const uint32_t value = id == NO_ID ? NO_ID : model_value_in(m, m->main_graph, id);
    if (!equals || equals == text) {
      err_fill(err, ERR_USAGE, "'%s' is no INPUT=SHAPE", text);
      return err_hint(err, "--set-shape audio_signal=1x128xT");
    }
    if (value == NO_ID || !(m->values[value].flags & VALUE_IS_INPUT))
      return err_set(err, ERR_USAGE, "the model has no input '%.*s'", (int)name.n, name.at);
    for (const char *at = equals + 1; rank < RANK;) {
      const size_t n = strcspn(at, "x,");
      dims[rank++] = dims_parse(d, span_of(at, n), (int64_t)w->o->min_dim);
      if (at[n] == 0) break;
      at += n + 1;
    }
    if (!infer_set_input(w->in, value, dims, rank))
      return err_set(err, ERR_USAGE, "the input '%.*s' cannot have the shape '%s'", (int)name.n,
                     name.at, equals + 1);
  }
  return 0;
}

static int read_list(const struct pass_value *v, const char ***list, uint32_t *n) {
  *list = v->list;
  *n = v->n_list;
  return 0;
}
static int read_set_shape(const struct pass_value *v, void *with, struct arena *a,
                          struct err *err) {
  struct infer_pass_options *o = with;
  (void)a, (void)err;
  return read_list(v, &o->set_shape, &o->n_set_shape);
}
static int read_set_dim(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct infer_pass_options *o = with;
  (void)a, (void)err;
  return read_list(v, &o->set_dim, &o->n_set_dim);
}
static int read_min_dim(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  (void)a, (void)err;
  ((struct infer_pass_options *)with)->min_dim = v->given ? v->number : 1;
  return 0;
}

static const struct pass_option options[] = {
    {"declared", PASS_CHOICE, "refine|keep|override|refuse", "refine",
     "what the shapes count that the model declares for what nodes make: refine, they are joined "
     "with what is inferred, which wins where both are sure; keep, they win; override, they are "
     "not looked at; refuse, the run fails where they are wrong",
     PASS_MEMBER(infer_pass_options, declared)},
    {"set-shape", PASS_LIST, "INPUT=SHAPE", NULL,
     "the shape of an input: numbers and names with an x between them, as in audio=1x128xT",
     .read = read_set_shape, .commas = false},
    {"set-dim", PASS_LIST, "NAME=NUMBER", NULL, "what a dim of that name is, as in batch=1",
     .read = read_set_dim},
    {"min-dim", PASS_NUMBER, "N", NULL,
     "the least that a dim of an input with a name may be: 0 for models that take empty inputs "
     "(default: 1)",
     .read = read_min_dim},
    {"guess-output-rank", PASS_FLAG, NULL, NULL,
     "take what an unknown operator makes to have the type and rank of its first input",
     PASS_MEMBER(infer_pass_options, guess_rank)},
};

// ---- the pass ----------------------------------------------------------------------------------------

static int run(struct pass_env *env, void *with, struct pass_result *result, struct err *err) {
  struct writing w = {.o = with};
  const struct model *m = env->m;
  const struct infer_options o = {.declared = w.o->declared == DECLARED_REFUSE
                                                  ? INFER_REFINE
                                                  : (enum infer_declared)w.o->declared,
                                  .least_dim = (int64_t)w.o->min_dim,
                                  .to_end = INT64_MAX,
                                  .guess_rank = w.o->guess_rank};
  (void)result;
  kit_init(&w.k, env, env->pass->name);
  w.in = infer_new(m, &o);
  int rc = set_dims(&w, err) || set_shapes(&w, err) ? -1 : 0;
  if (rc == 0) {
    infer_all(w.in, &(struct infer_told){say, &w});
    if (w.said && w.o->declared == DECLARED_REFUSE) {
      err_fill(err, ERR_MODEL, "%s", w.why.msg);
      rc = err_hint(err, "--declared=refine writes what was inferred");
    }
  }
  for (uint32_t node = 0, n = m->n_nodes; rc == 0 && node < n; node++)
    if (!(m->nodes[node].flags & NODE_DEAD) && is_written(m, m->nodes[node].graph))
      write_node(&w, node);
  if (rc == 0 && w.o->declared != DECLARED_REFUSE) warn_of_what_was_said(&w);
  infer_free(env->infer);
  env->infer = w.in;
  TABLE_FREE(&w, unknown_names);
  return kit_done(&w.k, err) || rc ? -1 : 0;
}

static const struct pass infer = {
    .name = "infer",
    .summary = "write the type and shape of every value that can be inferred",
    .about = "Infers types, shapes and small values through the whole model, bodies and functions "
             "included, and writes them as value_info. Dims are expressions of the symbols of the "
             "inputs, such as (t + 7)//8. Weights are not read.",
    .needs = "nothing",
    .promises = "only declarations change; what is written holds for all inputs that fit the "
                "declared ones",
    .exactness = EXACTNESS_EXACT,
    PASS_OPTIONS(options, infer_pass_options),
    .run = run,
};

const struct pass *const shapes_passes[] = {&infer, NULL};
