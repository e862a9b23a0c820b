// What passes did, for people: three texts that render_run.c makes lines of.
//
//   did    6 Conv rewritten as MatMul, 25 weights quantized to 4 bits in blocks of 32
//   worst  /layers.17/feed_forward1/linear2/MatMul  21.2 dB  (usual for 4 bits: about 21)
//   kept   5 Conv (kernel larger than 1x1), 2 MatMul (excluded)
//
// Long lists are cut: a text is for reading, and the report has every node. What was never there to be
// taken (a product of two activations has no weight) is not said.
#include "custom_ops.h"
#include "estimate.h"
#include "render_passes.h"
#include "render_rank.h"
#include "run_report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

enum { WORTH_BYTES = 64 << 10 }; // less than this is not worth a word
enum { SCHEMES_SHOWN = 3, PASSES_SHOWN = 4, REASONS_SHOWN = 4, GROUPS = 48 };
enum { DID_MOST = 80 }; // letters after the sizes; more become lines

// ---- texts that grow ----------------------------------------------------------------------------

struct text {
  char s[2048];
  size_t n;
};

static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const int n = vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, ap);
  va_end(ap);
  t->n = min_u64(t->n + (size_t)n, sizeof t->s - 1);
}

// A further item of a list.
static const char *comma(const struct text *t) {
  return t->n ? ", " : "";
}

static const char *kept_text(const struct text *t, struct arena *a) {
  return t->n ? arena_string(a, span_of(t->s, t->n)) : NULL;
}

// ---- what was done ------------------------------------------------------------------------------

// Things of one kind, counted: what they are alike in is up to who counts.
struct group {
  const void *first;
  const char *op, *word;
  uint64_t count;
  uint32_t step; // that the last of them is of
  uint64_t of_step;
};
struct groups {
  struct group at[GROUPS];
  uint32_t n;
  uint64_t left_out; // of kinds past the room
};

// Steps may look at the same things: the step that has most of them counts.
static void count_in(struct groups *g, const void *thing, uint32_t step, const char *op,
                     const char *word) {
  uint32_t k = 0;
  while (k < g->n && (strcmp(g->at[k].op, op) != 0 || strcmp(g->at[k].word, word) != 0))
    k++;
  if (k == GROUPS) {
    g->left_out++;
    return;
  }
  if (k == g->n)
    g->at[g->n++] = (struct group){.first = thing, .step = step, .op = op, .word = word};
  if (g->at[k].step != step) g->at[k].of_step = 0;
  g->at[k].step = step;
  g->at[k].of_step++;
  g->at[k].count = max_u64(g->at[k].count, g->at[k].of_step);
}

static void tell_quantized(struct text *t, const struct stored_tensors *q, struct arena *a) {
  struct groups g = {.n = 0};
  uint64_t all = 0;
  for (uint32_t i = 0; i < q->n_rows; i++) {
    if (!q->rows[i].has_scheme) continue;
    all++;
    count_in(&g, &q->rows[i], 0, "", stored_tensors_scheme_words(&q->rows[i].scheme, a));
  }
  if (all == 0) return;
  add(t, "%s%lu weight%s quantized", comma(t), all, plural(all));
  if (g.n == 1) add(t, " to %s", g.at[0].word);
  for (uint32_t k = 0; g.n > 1 && k < g.n && k < SCHEMES_SHOWN; k++)
    add(t, "%s%lu to %s", k ? "; " : " (", g.at[k].count, g.at[k].word);
  if (g.n > SCHEMES_SHOWN) add(t, "; and other schemes");
  if (g.n > 1) add(t, ")");
}

// The values of an option that is a list: "MatMul, Gemm or Gather" with " or " before the last; NULL: the pass has no such option, or it no value.
static const char *list_words(const struct pass_values *v, const char *name, const char *last,
                              struct arena *a) {
  const uint32_t option = pass_values_option(v->pass, span_str(name));
  const char *words = NULL;
  if (option == NO_ID) return NULL;
  const struct pass_value *of = &v->of[option];
  for (uint32_t i = 0; i < of->n_list; i++) {
    const struct quoted one = quote_str(of->list[i]);
    const char *between = i + 1 < of->n_list ? ", " : last;
    words =
        words ? arena_printf(a, "%s%s%s", words, between, one.s) : arena_string(a, span_str(one.s));
  }
  return words;
}

static int by_hash(const void *x, const void *y) {
  const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
  return (a > b) - (a < b);
}

// How many weights the sites of a step are about that `which` holds of; one that several nodes use counts once.
static uint64_t count_weights(const struct pass_edits *pj, uint32_t step,
                              bool (*which)(const struct run_site *s), struct arena *a) {
  uint64_t *hashes = arena_alloc(a, (pj->n_sites + (size_t)1) * sizeof *hashes);
  uint32_t n = 0, different = 0;
  for (uint32_t i = 0; i < pj->n_sites; i++) {
    const struct run_site *s = &pj->sites[i];
    if (s->step == step && !s->gone && s->tensor.at && which(s)) hashes[n++] = span_hash(s->tensor);
  }
  qsort(hashes, n, sizeof *hashes, by_hash);
  for (uint32_t i = 0; i < n; i++)
    different += i == 0 || hashes[i] != hashes[i - 1];
  return different;
}

static bool misses_gate(const struct run_site *s) {
  return strcmp(s->reason, "gate") == 0;
}

static bool is_raised(const struct run_site *s) {
  return run_site_converted(s) && s->chosen_by && strcmp(s->chosen_by, "gate") == 0;
}

static bool is_weighed(const struct run_site *s) {
  return run_site_converted(s) || misses_gate(s);
}

// How many weights missed the gate, and what became of them.
static void tell_gate(struct text *t, const struct pass_edits *pj, uint32_t step, struct arena *a) {
  const char *gate = list_words(&pj->pipeline.steps[step].values, "gate", ", ", a);
  if (!gate) return;
  const uint64_t all = count_weights(pj, step, is_weighed, a);
  const uint64_t raised = count_weights(pj, step, is_raised, a);
  const uint64_t left = count_weights(pj, step, misses_gate, a);
  if (raised)
    add(t, "%s%lu of %lu missed the gate %s and have 8 bits", comma(t), raised, all, gate);
  if (left)
    add(t, "%s%lu of %lu weight%s missed the gate %s and %s left unchanged", comma(t), left, all,
        plural(all), gate, left == 1 ? "is" : "are");
}

static const char *type_words(uint32_t dtype) {
  return dtype == DTYPE_FLOAT ? "float32" : dtype_name(dtype);
}

static void tell_cast(struct text *t, const struct stored_tensors *q,
                      const struct execution *exec) {
  struct groups g = {.n = 0};
  for (uint32_t i = 0; i < q->n_rows; i++)
    if (!q->rows[i].has_scheme)
      count_in(&g, NULL, 0, "", type_words(exec->recipes.rows[q->rows[i].codes].dtype));
  for (uint32_t k = 0; k < g.n; k++)
    add(t, "%s%lu weight%s cast to %s", comma(t), g.at[k].count, plural(g.at[k].count),
        g.at[k].word);
}

static void tell_clipped(struct text *t, const struct stored_tensors *q) {
  uint64_t weights = 0, elements = 0;
  const struct stored_tensor *first = NULL;
  for (uint32_t i = 0; i < q->n_rows; i++) {
    const struct stored_tensor *row = &q->rows[i];
    if (!row->has_figures || row->figures.overflows == 0) continue;
    if (weights++ == 0) first = row;
    elements += row->figures.overflows;
  }
  if (weights == 1)
    add(t, " (%lu element%s of '%s' clipped)", elements, plural(elements), quote(first->name).s);
  else if (weights > 1)
    add(t, " (%lu elements of %lu weights clipped)", elements, weights);
}

bool render_passes_infers(const struct pass_edits *pj, uint32_t step) {
  return strcmp(pj->pipeline.steps[step].values.pass->name, "infer") == 0;
}

// What steps did that were asked for with one word, or a step that nobody asked for by name.
struct change {
  const char *word, *pass; // pass: the only one that did something; NULL: there are several
  bool named;              // one pass was asked for
  uint64_t n;
};
struct changes {
  struct change *list;
  uint32_t n;
  uint64_t declared; // values that infer wrote types and shapes of, which changes no node
};

static void add_change(struct changes *c, const char *word, const char *pass, bool named,
                       uint64_t converted) {
  uint32_t i = 0;
  while (i < c->n && strcmp(c->list[i].word, word) != 0)
    i++;
  if (i == c->n) c->list[c->n++] = (struct change){.word = word, .pass = pass, .named = named};
  if (c->list[i].pass != pass) c->list[i].pass = NULL;
  c->list[i].n += converted;
}

// Steps that change the graph, by the words that asked for them.
static struct changes changes_of(const struct pass_edits *pj, struct arena *a) {
  const uint32_t n_steps = pj->pipeline.n_steps;
  struct changes c = {.list = arena_alloc(a, (n_steps + (size_t)1) * sizeof *c.list)};
  const char *family = NULL; // the word of the steps up to `end`
  uint32_t end = 0;
  for (uint32_t i = 0; i < n_steps; i++) {
    const struct pipeline_step *step = &pj->pipeline.steps[i];
    const struct pass *pass = step->values.pass;
    if (step->named > 1) family = step->word, end = i + step->named;
    const uint64_t converted = pass_edits_count(pj, i).converted;
    if (pass->stores || converted == 0) continue;
    if (render_passes_infers(pj, i))
      c.declared = converted; // the last one speaks of what is left
    else
      add_change(&c, i < end ? family : pass->name, pass->name, i >= end, converted);
  }
  return c;
}

static void tell_change(struct text *t, const struct change *c) {
  if (strcmp(c->word, "conv2matmul") == 0)
    add(t, "%s%lu Conv rewritten as MatMul", comma(t), c->n);
  else
    add(t, "%s%lu change%s by %s", comma(t), c->n, plural(c->n), c->pass ? c->pass : c->word);
}

static void tell_rest(struct text *t, const struct changes *c) {
  const uint32_t more = c->n > PASSES_SHOWN ? c->n - PASSES_SHOWN : 0;
  if (more) add(t, "%smore by %u other pass%s", comma(t), more, more == 1 ? "" : "es");
  if (c->declared)
    add(t, "%stypes and shapes of %lu value%s", comma(t), c->declared, plural(c->declared));
}

static void tell_changes(struct text *t, const struct changes *c) {
  for (uint32_t i = 0; i < c->n && i < PASSES_SHOWN; i++)
    tell_change(t, &c->list[i]);
  tell_rest(t, c);
}

// The same as lines, where it is too long for one: first passes that were named, then sets of passes.
static void tell_lines(struct run_summary *told, const struct changes *c, const char *stored,
                       struct arena *a) {
  struct text rest = {.n = 0};
  const char **lines = arena_alloc(a, (PASSES_SHOWN + (size_t)2) * sizeof *lines);
  uint32_t n = 0, shown = 0;
  for (int named = 1; named >= 0; named--) {
    for (uint32_t i = 0; i < c->n && shown < PASSES_SHOWN; i++) {
      struct text one = {.n = 0};
      if (c->list[i].named != (named == 1)) continue;
      tell_change(&one, &c->list[i]);
      lines[n++] = kept_text(&one, a);
      shown++;
    }
    if (named && stored) lines[n++] = stored;
  }
  tell_rest(&rest, c);
  if (rest.n) lines[n++] = kept_text(&rest, a);
  told->did = lines[0];
  told->more = lines + 1;
  told->n_more = n - 1;
}

// ---- steps --------------------------------------------------------------------------------------

// What steps of a pass did together: a pass may stand in many places of a long pipeline.
struct pass_told {
  const struct pass *pass;
  uint64_t converted, held_back;
  uint32_t steps, rounds; // rounds: how often they ran
};

static struct pass_told *told_of(struct pass_told *list, uint32_t *n, const struct pass *pass) {
  for (uint32_t i = 0; i < *n; i++)
    if (list[i].pass == pass) return &list[i];
  list[*n] = (struct pass_told){.pass = pass};
  return &list[(*n)++];
}

static const char *step_words(const struct pass_told *t, struct arena *a) {
  const char *held =
      t->held_back ? arena_printf(a, ", %lu held back by --exactness", t->held_back) : "";
  const char *runs = t->rounds > 1 ? arena_printf(a, " in %u runs", t->rounds)
                     : t->rounds   ? ""
                                   : " (did not run)";
  return arena_printf(a, "%7lu  %s%s%s", t->converted, t->pass->name, runs, held);
}

// A line for each pass that did something, in the order in which they first stand in the pipeline, and one for all; with
// `every` those that did nothing too.
static void tell_steps(const struct pass_edits *pj, bool every, struct run_summary *told,
                       struct arena *a) {
  const uint32_t n_steps = pj->pipeline.n_steps;
  struct pass_told *list = arena_alloc(a, (n_steps + (size_t)1) * sizeof *list);
  uint64_t *converted = arena_zalloc(a, (n_steps + (size_t)1) * sizeof *converted), all = 0;
  uint32_t n = 0, did = 0, passes = 0;
  for (uint32_t i = 0; i < pj->n_sites; i++)
    converted[pj->sites[i].step] += run_site_converted(&pj->sites[i]) && !pj->sites[i].gone;
  for (uint32_t i = 0; i < n_steps; i++) {
    struct pass_told *t = told_of(list, &n, pj->pipeline.steps[i].values.pass);
    t->converted += converted[i];
    t->held_back += pj->steps[i].held_back;
    t->rounds += pj->steps[i].rounds;
    t->steps++;
    did += converted[i] > 0;
    all += converted[i];
  }
  if (!every && did <= PASSES_SHOWN) return;
  told->n_more = 0;
  told->steps = arena_alloc(a, (n + (size_t)1) * sizeof *told->steps);
  for (uint32_t i = 0; i < n; i++)
    passes += list[i].converted > 0;
  for (uint32_t i = 0; i < n; i++)
    if (every || list[i].converted) told->steps[told->n_steps++] = step_words(&list[i], a);
  told->did = arena_printf(a, "%lu change%s by %u pass%s (of %u step%s)", all, plural(all), passes,
                           passes == 1 ? "" : "es", n_steps, plural(n_steps));
}

// ---- what was kept ------------------------------------------------------------------------------

const char *render_passes_reason(const char *reason, struct arena *a) {
#define REASON(word, text)                                                                         \
  if (strcmp(reason, word) == 0) return text;
#include "reasons.def"
#undef REASON
  char *words = arena_string(a, span_str(reason));
  for (char *c = words; *c; c++)
    if (*c == '_') *c = ' ';
  return words;
}

static int by_place(const void *a, const void *b) {
  const struct pass *x = *(const struct pass *const *)a, *y = *(const struct pass *const *)b;
  return ((uintptr_t)x > (uintptr_t)y) - ((uintptr_t)x < (uintptr_t)y);
}

// How many passes they are, each counted once.
static uint32_t distinct(const struct pass **list, uint32_t n) {
  uint32_t found = n > 0;
  if (n > 0) qsort(list, n, sizeof *list, by_place);
  for (uint32_t i = 1; i < n; i++)
    found += list[i] != list[i - 1];
  return found;
}

// What --exactness kept from happening, and the level that lets all of it happen; NULL: nothing. Of a pass that did not run
// nobody knows what it would have done.
static const char *held_back_text(const struct pass_edits *pj, struct arena *a) {
  const struct pass **idle = arena_alloc(a, (pj->pipeline.n_steps + (size_t)1) * sizeof *idle);
  uint32_t n_idle = 0;
  uint64_t rewrites = 0;
  const char *first = NULL;
  enum exactness loosest = EXACTNESS_EXACT;
  for (uint32_t i = 0; pj->steps && i < pj->pipeline.n_steps; i++) {
    if (pj->steps[i].held_back == 0) continue;
    const struct pass *pass = pj->pipeline.steps[i].values.pass;
    if (!first) first = pass->name;
    if (pass->exactness > loosest) loosest = pass->exactness;
    if (pass->loosest > loosest) loosest = pass->loosest;
    if (pj->steps[i].rounds > 0)
      rewrites += pj->steps[i].held_back;
    else
      idle[n_idle++] = pass;
  }
  const uint32_t passes = distinct(idle, n_idle);
  if (!first) return NULL;
  if (rewrites + passes == 1)
    return arena_printf(a, "%s (--exactness %s allows it)", first, exactness_name(loosest));
  const char *of_rewrites =
      rewrites ? arena_printf(a, "%lu rewrite%s", rewrites, plural(rewrites)) : "";
  const char *of_passes =
      passes ? arena_printf(a, "%u pass%s", passes, passes == 1 ? "" : "es") : "";
  return arena_printf(a, "%s%s%s, such as %s (--exactness %s allows them)", of_rewrites,
                      rewrites && passes ? " and " : "", of_passes, first, exactness_name(loosest));
}

// What an earlier round of a repeat took is no longer there to be taken.
static bool is_left(const struct pass_edits *pj, const struct run_site *s) {
  return !s->gone && !run_site_converted(s) &&
         !(pj->pipeline.steps[s->step].repeat != NO_ID &&
           strcmp(s->reason, "already_quantized") == 0);
}

bool render_passes_keeps(const struct pass_edits *pj, const struct run_site *s, struct arena *a) {
  return is_left(pj, s) && render_passes_reason(s->reason, a) != NULL;
}

// Nodes that were left as they were, by reason.
static void list_kept(struct text *t, const struct pass_edits *pj, uint32_t step,
                      struct arena *arena) {
  struct groups g = {.n = 0};
  uint64_t more = 0;
  for (uint32_t i = 0; i < pj->n_sites; i++) {
    const struct run_site *s = &pj->sites[i];
    if (!is_left(pj, s) || (step != PASS_EDITS_ALL_STEPS && s->step != step)) continue;
    if (step == PASS_EDITS_ALL_STEPS && render_passes_infers(pj, s->step)) continue;
    const bool weight =
        strcmp(s->op_type, "Initializer") == 0 || strcmp(s->op_type, "Constant") == 0;
    count_in(&g, s, s->step, weight ? "weights" : s->op_type, s->reason);
  }
  uint32_t shown = 0;
  const struct run_site *only = NULL;
  for (uint32_t k = 0; k < g.n; k++) {
    const char *why = render_passes_reason(g.at[k].word, arena);
    if (!why) continue;
    if (shown++ >= REASONS_SHOWN) {
      more += g.at[k].count;
      continue;
    }
    only = shown == 1 ? g.at[k].first : NULL;
    const bool one = g.at[k].count == 1 && strcmp(g.at[k].op, "weights") == 0;
    add(t, "%s%lu %s (%s)", comma(t), g.at[k].count, one ? "weight" : quote_str(g.at[k].op).s, why);
  }
  // A weight in a Constant is known by who uses it.
  if (only && only->layer != only->name && strcmp(only->op_type, "Constant") == 0)
    add(t, ", such as that of %s", quote_str(only->layer).s);
  else if (only)
    add(t, ", such as %s", quote_str(only->name).s);
  if (more + g.left_out)
    add(t, ", %lu for %s", more + g.left_out,
        more + g.left_out == 1 ? "another reason" : "other reasons");
}

const char *render_passes_kept(const struct pass_edits *pj, uint32_t step, struct arena *arena) {
  struct text t = {.n = 0};
  list_kept(&t, pj, step, arena);
  return kept_text(&t, arena);
}

// Nodes whose outputs have no known shape, as the last inference found them.
static const char *shapeless_text(const struct pass_edits *pj, struct arena *arena) {
  struct text t = {.n = 0};
  uint32_t last = NO_ID;
  for (uint32_t i = 0; i < pj->pipeline.n_steps; i++)
    if (render_passes_infers(pj, i)) last = i;
  if (last != NO_ID) list_kept(&t, pj, last, arena);
  return kept_text(&t, arena);
}

// ---- all of it ----------------------------------------------------------------------------------

static const char *worst_text(const struct stored_tensors *q, struct arena *a) {
  const struct stored_tensor *worst = stored_tensors_worst(q);
  if (!worst) return NULL;
  const double db = figures_sqnr_db(&worst->figures);
  if (isinf(db) && db > 0) return NULL; // nothing was lost
  const double usual = stored_tensors_usual_db(worst);
  const struct quoted layer = quote_str(worst->layer);
  if (usual == 0) return arena_printf(a, "%s  %.1f dB", layer.s, db);
  return arena_printf(a, "%s  %.1f dB  (usual for %s: about %.0f)", layer.s, db,
                      stored_tensors_usual_words(worst, a), usual);
}

// A model that grew though weights were quantized, or cast to fewer bits: by how much, and whether it is these weights.
static const char *larger_text(const struct run_report *r, struct arena *a) {
  const struct stored_tensors *q = &r->stored;
  uint64_t before = 0, after = 0;
  bool shrinks = false;
  for (uint32_t i = 0; i < q->n_rows; i++) {
    shrinks = shrinks || (q->rows[i].has_scheme && q->rows[i].scheme.format != FORMAT_LEVELS) ||
              q->rows[i].bytes_after < q->rows[i].bytes_before;
    before += q->rows[i].bytes_before;
    after += q->rows[i].bytes_after;
  }
  if (!shrinks || r->cost.bytes_after <= r->cost.bytes_before) return NULL;
  const struct quoted more = quote_bytes(r->cost.bytes_after - r->cost.bytes_before);
  if (after >= before)
    return arena_printf(a, "than the source by %s: the converted weights grew from %s to %s",
                        more.s, quote_bytes(before).s, quote_bytes(after).s);
  return arena_printf(a,
                      "than the source by %s: the converted weights save %s, but the rest of the "
                      "model grew by more",
                      more.s, quote_bytes(before - after).s);
}

// Of 'weir run', which names its passes.
static bool is_run(const struct execution *exec) {
  return strcmp(exec->request->command, "run") == 0;
}

// ---- what else could be done --------------------------------------------------------------------

// Are options of the step written as those of --pass?
static bool is_of_run(const struct execution *exec, uint32_t step) {
  const struct pass_edits *pj = exec->forms.ctx;
  return pj->pipeline.n_steps > 1 || pj->pass != pj->pipeline.steps[step].values.pass;
}

// A quantization that took less than it could have, had it been asked for more operators.
static bool hint_op_types(struct execution *exec, uint32_t step) {
  const struct pass_edits *pj = exec->forms.ctx;
  const struct pass_values *v = &pj->pipeline.steps[step].values;
  if (strcmp(v->pass->name, "quantize") != 0) return false;
  const struct matmulnbits_options *o = v->options;
  uint32_t others = MATMULNBITS_ALL_OPS & ~o->op_types;
  uint64_t bytes, taken = 0;
  const char *words = estimate_words(&exec->model, &others, &exec->arena, &bytes);
  const struct stored_tensors *q = &execution_report(exec)->stored;
  for (uint32_t i = 0; i < q->n_rows; i++)
    if (q->rows[i].step == step) taken += q->rows[i].bytes_before;
  if (!words || bytes < WORTH_BYTES || bytes < taken) return false;
  const bool run = is_of_run(exec, step);
  observer_hint(pj->observer, "%s would be quantized with %s%s", words,
                run ? "op_types=" : "--op-types ",
                estimate_op_types(o->op_types | others, run ? "+" : ",", &exec->arena));
  return true;
}

// Dynamic quantization that took nothing, of a model with Convs, for which it was not asked.
static bool hint_convs(const struct execution *exec, uint32_t step) {
  const struct pass_edits *pj = exec->forms.ctx;
  const struct model *m = &exec->model;
  uint64_t convs = 0;
  if (strcmp(pj->pipeline.steps[step].values.pass->name, "dynamic") != 0) return false;
  for (uint32_t i = 0; i < pj->n_sites; i++)
    if (pj->sites[i].step == step &&
        (run_site_converted(&pj->sites[i]) || strcmp(pj->sites[i].op_type, "Conv") == 0))
      return false;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    convs += !(m->nodes[i].flags & NODE_DEAD) && model_op_is(m, i, "Conv");
  if (convs == 0) return false;
  const bool run = is_of_run(exec, step);
  observer_hint(
      pj->observer,
      "%lu Conv would be quantized with %sMatMul%cConv; 'conv2matmul' before it turns pointwise "
      "ones into MatMul, which runs faster",
      convs, run ? "op_types=" : "--op-types ", run ? '+' : ',');
  return true;
}

// What is written before the k-th of n.
static const char *between(uint32_t k, uint32_t n, const char *last) {
  return k == 0 ? "" : k + 1 < n ? ", " : last;
}

static bool has_no_weight(const struct pass_edits *pj, const struct run_site *s) {
  return is_left(pj, s) && strcmp(s->reason, "non_constant_weight") == 0;
}

// "1 LSTM and 2 MatMul", whose weights nodes make of constants; NULL: none.
static const char *waiting_text(const struct execution *exec, struct arena *a) {
  const struct pass_edits *pj = exec->forms.ctx;
  const bool *foldable = NULL;
  struct groups g = {.n = 0};
  for (uint32_t i = 0; i < pj->n_sites; i++) {
    const struct run_site *s = &pj->sites[i];
    if (!has_no_weight(pj, s) || s->node == NO_ID) continue;
    if (!foldable) foldable = estimate_foldable(&exec->model, a);
    if (estimate_waits_for_fold(&exec->model, foldable, s->node))
      count_in(&g, s, s->step, s->op_type, "");
  }
  struct text t = {.n = 0};
  for (uint32_t k = 0; k < g.n; k++)
    add(&t, "%s%lu %s", between(k, g.n, " and "), g.at[k].count, quote_str(g.at[k].op).s);
  return kept_text(&t, a);
}

static bool hint_fold(struct execution *exec) {
  const char *waiting = waiting_text(exec, &exec->arena);
  if (!waiting) return false;
  // Where nothing changed the closing line says whose weights.
  if (exec->edits.n == 0 && ((const struct pass_edits *)exec->forms.ctx)->pass)
    observer_hint(exec->request->observer,
                  "run 'weir optimize' or 'weir preprocess' first: it stores such weights where it "
                  "can evaluate their nodes");
  else
    observer_hint(exec->request->observer,
                  "the weights of %s are computed from constants; run 'weir optimize' or 'weir "
                  "preprocess' first: it stores them where it can evaluate the nodes",
                  waiting);
  return true;
}

// A model whose quantizers no runtime has, which other passes leave as they are.
static bool hint_import(const struct execution *exec) {
  const struct pass_edits *pj = exec->forms.ctx;
  const struct model *m = &exec->model;
  const uint32_t node = custom_ops_not_runnable(m);
  if (node == NO_ID || !custom_ops_is_imported(model_name(m, m->nodes[node].domain))) return false;
  for (uint32_t i = 0; i < pj->pipeline.n_steps; i++)
    if (custom_ops_makes_runnable(pj->pipeline.steps[i].values.pass->name)) return false;
  observer_hint(pj->observer,
                "no runtime has the operator %s of %s, and other passes leave it unchanged; %s "
                "converts it to ONNX",
                quote(model_name(m, m->nodes[node].op_type)).s,
                quote(model_name(m, m->nodes[node].domain)).s,
                is_run(exec) ? "--pass import-qonnx before all others"
                             : "'weir run IN OUT --pass import-qonnx' first");
  return true;
}

void render_passes_hints(struct execution *exec) {
  const struct pass_edits *pj = exec->forms.ctx;
  bool hinted = hint_fold(exec);
  hinted = hint_import(exec) || hinted;
  for (uint32_t i = 0; i < pj->pipeline.n_steps; i++)
    hinted = hint_op_types(exec, i) || hint_convs(exec, i) || hinted;
  if (!hinted && pj->n_sites == 0 && exec->edits.n == 0)
    observer_hint(pj->observer, "'weir inspect' lists what weir could do with this model");
}

// "MatMul or Gather": the operators of the sites that were left alone without a word; NULL: there are none.
static const char *left_ops(const struct pass_edits *pj, struct arena *a) {
  struct groups g = {.n = 0};
  struct text t = {.n = 0};
  for (uint32_t i = 0; i < pj->n_sites; i++)
    if (is_left(pj, &pj->sites[i]))
      count_in(&g, &pj->sites[i], pj->sites[i].step, pj->sites[i].op_type, "");
  for (uint32_t k = 0; k < g.n; k++)
    add(&t, "%s%s", between(k, g.n, " or "), quote_str(g.at[k].op).s);
  return kept_text(&t, a);
}

// Why nothing changed: weights that nodes make of constants; the sites that were kept and why; that the operators have no stored weight;
// that the model has none of them.
static const char *nothing_text(const struct execution *exec, const char *kept, struct arena *a) {
  const struct pass_edits *pj = exec->forms.ctx;
  const char *waiting = waiting_text(exec, a);
  if (waiting)
    return arena_printf(a, "nothing changed (the weights of %s are computed from constants%s%s)",
                        waiting, kept ? "; " : "", kept ? kept : "");
  if (kept) return arena_printf(a, "nothing changed (%s)", kept);
  const char *left = left_ops(pj, a);
  if (left) return arena_printf(a, "nothing changed (no %s has a stored weight)", left);
  const char *ops = pj->pipeline.n_steps == 1
                        ? list_words(&pj->pipeline.steps[0].values, "op-types", " or ", a)
                        : NULL;
  if (ops && strcmp(ops, "all") != 0)
    return arena_printf(a, "nothing changed (the model has no %s)", ops);
  return arena_printf(a, "nothing changed (the model has nothing for %s)",
                      pj->pipeline.n_steps == 1 ? pj->pipeline.steps[0].values.pass->name
                                                : "these passes");
}

void render_passes_summary(struct execution *exec, struct run_summary *told) {
  const struct pass_edits *pj = exec->forms.ctx;
  const struct stored_tensors *q = &execution_report(exec)->stored;
  const struct changes changes = changes_of(pj, &exec->arena);
  struct text did = {.n = 0}, stored = {.n = 0};
  tell_quantized(&stored, q, &exec->arena);
  for (uint32_t i = 0; i < pj->pipeline.n_steps; i++)
    tell_gate(&stored, pj, i, &exec->arena);
  tell_cast(&stored, q, exec);
  tell_clipped(&stored, q);
  tell_changes(&did, &changes);
  if (stored.n) add(&did, "%s%s", comma(&did), stored.s);
  if (did.n > DID_MOST && is_run(exec) && changes.n + (stored.n > 0) > 1)
    tell_lines(told, &changes, kept_text(&stored, &exec->arena), &exec->arena);
  else if (did.n)
    told->did = kept_text(&did, &exec->arena);
  else if (exec->edits.n)
    told->did = "only types, opsets or other metadata changed";
  if (is_run(exec) && pj->steps && q->n_rows == 0)
    tell_steps(pj, pj->pipeline.verbose || exec->request->shown.verbose, told, &exec->arena);
  told->worst = worst_text(q, &exec->arena);
  told->kept = render_passes_kept(pj, PASS_EDITS_ALL_STEPS, &exec->arena);
  told->held_back = held_back_text(pj, &exec->arena);
  told->larger = larger_text(execution_report(exec), &exec->arena);
  if (!did.n && exec->edits.n == 0 && pj->pipeline.n_steps > 0 &&
      pj->pass) { // the closing line says what was kept
    if (told->held_back)
      told->kept = arena_printf(&exec->arena, "%s%sheld back: %s", told->kept ? told->kept : "",
                                told->kept ? "; " : "", told->held_back);
    told->did = nothing_text(exec, told->kept, &exec->arena);
    told->kept = told->held_back = NULL;
  }
  told->shapeless = shapeless_text(pj, &exec->arena);
}

void render_passes_nodes(struct execution *exec, struct run_summary *told) {
  const struct model *m = &exec->model;
  uint64_t before = 0, after = 0;
  render_passes_summary(exec, told);
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    before += !(m->nodes[i].flags & NODE_NEW);
    after += !(m->nodes[i].flags & NODE_DEAD);
  }
  if (after != before)
    told->did = arena_printf(&exec->arena, "%lu -> %lu node%s (%s)", before, after, plural(after),
                             told->did);
}

// ---- the forms of a command ---------------------------------------------------------------------

static void print_rank(struct execution *exec) {
  const struct pass_edits *pj = exec->forms.ctx;
  render_rank_text(&pj->rank);
}

void render_passes_init(struct pass_edits *pj, struct observer *observer) {
  pass_edits_init(pj, observer);
  pj->report = render_passes_json;
  pj->tell = render_passes_summary;
  pj->hint = render_passes_hints;
  pj->print = print_rank;
}
