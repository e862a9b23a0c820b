// convert-layouts/ConvertLayouts: what inputs and outputs are laid like is written into the graph.
//
//   x ─▶ …        ──▶   x ─ LayoutConverter(assumes NCHW, perm 0231) ─ Transpose(0312) ─▶ …
//   … ─▶ y        ──▶   … ─ LayoutConverter(assumes NCHW, perm 0231) ─ Transpose(0312) ─▶ y
//
// LayoutConverter (of onnx_passes.ops) is a Transpose that says what its axes mean. The pair changes nothing; the
// Transpose can now move through the graph, and absorb-layouts merges what arrives at a converter with it. Names of
// inputs and outputs stay. Initializers that are inputs too are not counted as inputs, and keep what they are.
#include "passes/kit/kit.h"
#include "passes/lower/inside/lower.h"

enum { MOST_AXES = 32 };

// Of one input or output. n 0: it has none.
struct layout {
  uint32_t n;
  const struct span *assumes;
  const int64_t *perm;
};

struct layouts {
  struct layout *list;
  uint32_t n;
};

struct layout_options {
  struct layouts in, out;
};

// ---- options -----------------------------------------------------------------------------------

// The words of a text: with dots between them, or its letters, one each. 0: an empty one, or too many.
static uint32_t words_of(struct span text, struct span out[MOST_AXES]) {
  const bool dots = text.n > 0 && memchr(text.at, '.', text.n) != NULL;
  uint32_t n = 0;
  for (size_t at = 0; at < text.n;) {
    size_t end = at + 1;
    while (dots && end <= text.n && text.at[end - 1] != '.')
      end++;
    const size_t length = dots ? end - 1 - at : 1;
    if (length == 0 || n == MOST_AXES) return 0;
    out[n++] = span_of(text.at + at, length);
    at = dots ? end : at + 1;
  }
  return dots && text.at[text.n - 1] == '.' ? 0 : n;
}

// The axes 0 … n - 1, each once.
static bool read_perm(const struct span *words, uint32_t n, int64_t *perm) {
  uint32_t seen = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t axis = 0;
    if (words[i].n > 2) return false;
    for (size_t j = 0; j < words[i].n; j++) {
      if (words[i].at[j] < '0' || words[i].at[j] > '9') return false;
      axis = axis * 10 + words[i].at[j] - '0';
    }
    if (axis >= n || seen >> axis & 1) return false;
    seen |= 1u << axis;
    perm[i] = axis;
  }
  return true;
}

static int read_layout(const char *text, struct layout *out, struct arena *a, struct err *err) {
  struct span words[MOST_AXES];
  const char *slash = strchr(text, '/');
  *out = (struct layout){0};
  if (strcmp(text, "-") == 0) return 0;
  const uint32_t n = slash ? words_of(span_of(text, (size_t)(slash - text)), words) : 0;
  if (n > 0) {
    struct span *assumes = arena_alloc(a, n * sizeof *assumes), numbers[MOST_AXES];
    int64_t *perm = arena_alloc(a, n * sizeof *perm);
    for (uint32_t i = 0; i < n; i++)
      assumes[i] = span_of(arena_string(a, words[i]), words[i].n);
    *out = (struct layout){n, assumes, perm};
    if (words_of(span_str(slash + 1), numbers) == n && read_perm(numbers, n, perm)) return 0;
  }
  err_set(err, ERR_USAGE, "'%s' is not of the form AXES/PERM", quote_str(text).s);
  return err_hint(err, "write the names of the axes and the permutation, for example NCHW/0231 or "
                       "batch.channels.time/0.2.1; - for no layout");
}

static int read_layouts(const struct pass_value *v, struct layouts *out, struct arena *a,
                        struct err *err) {
  out->n = v->n_list;
  out->list = arena_alloc(a, (v->n_list + (size_t)1) * sizeof *out->list);
  for (uint32_t i = 0; i < v->n_list; i++)
    if (read_layout(v->list[i], &out->list[i], a, err)) return -1;
  return 0;
}

static int read_inputs(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  return read_layouts(v, &((struct layout_options *)with)->in, a, err);
}
static int read_outputs(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  return read_layouts(v, &((struct layout_options *)with)->out, a, err);
}

static const struct pass_option options[] = {
    {"inputs", PASS_LIST, "AXES/PERM", NULL,
     "layouts of the inputs, in order, as in NCHW/0231\n"
     "AXES names the axes: a letter each, or words with dots between them. PERM is the "
     "permutation. - stands for an input without a layout.",
     .read = read_inputs, .commas = true},
    {"outputs", PASS_LIST, "AXES/PERM", NULL, "layouts of the outputs, in order",
     .read = read_outputs, .commas = true},
};

// ---- the pair ----------------------------------------------------------------------------------

// Of `x`, before k->before. `out` takes the result; its value is given, and in *converter the first of both nodes.
static uint32_t put_pair(struct kit *k, const struct layout *l, uint32_t x, uint32_t *converter,
                         const struct edit_output *out) {
  int64_t back[MOST_AXES];
  for (uint32_t i = 0; i < l->n; i++)
    back[l->perm[i]] = i;
  const struct edit_attr attrs[2] = {
      {.name = "assumes", .type = ATTR_STRINGS, .strings = l->assumes, .n = l->n},
      {.name = "perm", .type = ATTR_INTS, .ints = l->perm, .n = l->n}};
  const uint32_t y = kit_make(k, OP_ops_LayoutConverter, KIT_IN(x), KIT_ATTRS(attrs, 2));
  *converter = kit_maker(k, y);
  if (out) return kit_make(k, OP_Transpose, KIT_IN(y), KIT_INTS("perm", back, l->n), KIT_OUT(*out));
  return kit_make(k, OP_Transpose, KIT_IN(y), KIT_INTS("perm", back, l->n));
}

// Begins a pair for the value.
static void begin(struct kit *k, uint32_t value, uint32_t before, const char *what) {
  const struct model *m = k->m;
  kit_site(k, NO_ID, what);
  k->graph = m->main_graph;
  k->before = before;
  k->stem = kit_stem_of(k, value);
  kit_import(k, k->graph, kit_domain_name(KIT_PASSES), 1);
}

static void convert_input(struct kit *k, uint32_t x, const struct layout *l) {
  uint32_t converter;
  begin(k, x, k->m->graphs[k->m->main_graph].first_node, "input");
  const uint32_t same = put_pair(k, l, x, &converter, NULL);
  kit_note_like(k, same, x);
  for (struct kit_use u = kit_uses(k, x); kit_use(k, &u);)
    if (u.node != converter) edit_set_input(k->e, u.node, u.slot, same);
  kit_converted(k, converter, "input");
}

static void convert_output(struct kit *k, uint32_t y, const struct layout *l) {
  uint32_t converter, slot = 0;
  const uint32_t maker = kit_maker(k, y);
  begin(k, y, NO_ID, "output");
  while (kit_out(k, maker, slot) != y)
    slot++;
  edit_set_output(k->e, maker, slot, (struct edit_output){NO_ID, kit_name(k, "as_made")});
  const uint32_t made = kit_out(k, maker, slot);
  kit_note_like(k, made, y);
  edit_replace_uses(k->e, y, made);
  put_pair(k, l, made, &converter, &(struct edit_output){.value = y});
  kit_converted(k, converter, "output");
}

// ---- all of them -------------------------------------------------------------------------------

// Inputs that callers must give, or outputs; how many.
static uint32_t listed(struct kit *k, bool in, uint32_t *out) {
  const struct model *m = k->m;
  const struct model_graph *g = &m->graphs[m->main_graph];
  uint32_t n = 0;
  for (uint32_t i = 0; i < (in ? g->n_inputs : g->n_outputs); i++) {
    const uint32_t value = m->graph_io[(in ? g->inputs : g->outputs) + i];
    if (in && m->values[value].kind == VALUE_INITIALIZER) continue;
    if (out) out[n] = value;
    n++;
  }
  return n;
}

// Fit the layouts the values?
static int check(struct kit *k, const struct layouts *l, const uint32_t *values, uint32_t n,
                 const char *what, struct err *err) {
  uint32_t rank;
  if (l->n > n)
    return err_set(err, ERR_USAGE, "%u layout%s of %ss %s given, but the model has %u", l->n,
                   plural(l->n), what, l->n == 1 ? "is" : "are", n);
  for (uint32_t i = 0; i < l->n; i++) {
    const struct quoted name = quote(model_value_name(k->m, values[i]));
    if (l->list[i].n == 0) continue;
    if (kit_rank(k, values[i], &rank) && rank != l->list[i].n)
      return err_set(err, ERR_USAGE, "the layout of %s '%s' has %u %s, but it has %u dim%s", what,
                     name.s, l->list[i].n, l->list[i].n == 1 ? "axis" : "axes", rank, plural(rank));
    if (*what != 'o') continue;
    bool twice = false;
    for (uint32_t j = 0; j < n; j++)
      twice |= j != i && values[j] == values[i];
    const bool elsewhere = !model_listed_at_home(k->m, values[i]);
    if (twice || elsewhere || kit_maker(k, values[i]) == NO_ID) {
      err_set(err, ERR_USAGE, "the output '%s' cannot have a layout: it is %s", name.s,
              twice       ? "listed twice"
              : elsewhere ? "an output of a body, too"
                          : "an input or an initializer");
      return err_hint(err, "use - as its layout");
    }
  }
  return 0;
}

static int convert(struct kit *k, const struct layout_options *o, struct err *err) {
  const uint32_t n_in = listed(k, true, NULL), n_out = listed(k, false, NULL);
  uint32_t *in = arena_alloc(k->env->scratch, (n_in + (size_t)1) * sizeof *in);
  uint32_t *out = arena_alloc(k->env->scratch, (n_out + (size_t)1) * sizeof *out);
  listed(k, true, in);
  listed(k, false, out);
  if (check(k, &o->in, in, n_in, "input", err) || check(k, &o->out, out, n_out, "output", err))
    return -1;
  for (uint32_t i = 0; i < o->in.n; i++)
    if (o->in.list[i].n > 0) convert_input(k, in[i], &o->in.list[i]);
  for (uint32_t i = 0; i < o->out.n; i++)
    if (o->out.list[i].n > 0) convert_output(k, out[i], &o->out.list[i]);
  if (o->in.n + o->out.n == 0)
    kit_warn(k, "no layouts are given: nothing is converted", "as in inputs=NCHW/0231");
  return 0;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  kit_init(&k, env, env->pass->name);
  kit_infer(&k);
  const int failed = convert(&k, with, err);
  struct err other;
  if (kit_done(&k, failed ? &other : err)) return -1;
  return failed;
}

const struct pass lower_layouts = {
    .name = "convert-layouts/ConvertLayouts",
    .summary = "mark the layouts of inputs and outputs",
    .about =
        "Adds two nodes after inputs and before outputs: the custom operator LayoutConverter, a "
        "Transpose that records the meaning of its axes, and a Transpose that reverses it. The "
        "pass absorb-layouts then merges a LayoutConverter with Transposes that other passes move "
        "next to it.",
    .needs = "layouts of inputs or outputs",
    .exactness = EXACTNESS_EXACT,
    PASS_OPTIONS(options, layout_options),
    .run = run,
};
