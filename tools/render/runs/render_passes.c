// What passes did, for people: texts that render_run.c makes lines of.
//
//   did    6 Conv rewritten as MatMul, 25 weights quantized to 4 bits in blocks of 32
//   worst  /layers.17/feed_forward1/linear2/MatMul  21.2 dB  (usual for 4 bits: about 21)
//   kept   5 Conv (kernel larger than 1x1), 2 MatMul (excluded)
//
// Long lists are cut: a text is for reading, and the report has every node. What was never there to be
// taken (a product of two activations has no weight) is not said.
#include "cli/report.h"
#include "render/runs/render_passes.h"
#include "report/run_passes_json.h"

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
  add(t, "%s%s weight%s quantized", comma(t), decimal(all).s, plural(all));
  if (g.n == 1) add(t, " to %s", g.at[0].word);
  for (uint32_t k = 0; g.n > 1 && k < g.n && k < SCHEMES_SHOWN; k++)
    add(t, "%s%s to %s", k ? "; " : " (", decimal(g.at[k].count).s, g.at[k].word);
  if (g.n > SCHEMES_SHOWN) add(t, "; and other schemes");
  if (g.n > 1) add(t, ")");
}

static int by_hash(const void *x, const void *y) {
  const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
  return (a > b) - (a < b);
}

// How many weights the sites of a step are about that `which` holds of; one that several nodes use counts once.
static uint64_t count_weights(const struct run_passes *p, uint32_t step,
                              bool (*which)(const struct run_site *s), struct arena *a) {
  uint64_t *hashes = arena_alloc(a, (p->n_sites + (size_t)1) * sizeof *hashes);
  uint32_t n = 0, different = 0;
  for (uint32_t i = 0; i < p->n_sites; i++) {
    const struct run_site *s = &p->sites[i];
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
static void tell_gate(struct text *t, const struct run_passes *p, uint32_t step, struct arena *a) {
  const char *gate = p->steps[step].gate;
  if (!gate) return;
  const uint64_t all = count_weights(p, step, is_weighed, a);
  const uint64_t raised = count_weights(p, step, is_raised, a);
  const uint64_t left = count_weights(p, step, misses_gate, a);
  if (raised)
    add(t, "%s%s of %s missed the gate %s and have 8 bits", comma(t), decimal(raised).s,
        decimal(all).s, gate);
  if (left)
    add(t, "%s%s of %s weight%s missed the gate %s and %s left unchanged", comma(t),
        decimal(left).s, decimal(all).s, plural(all), gate, left == 1 ? "is" : "are");
}

static const char *type_words(enum dtype dtype) {
  return dtype == DTYPE_FLOAT ? "float32" : dtype_name(dtype);
}

static void tell_cast(struct text *t, const struct stored_tensors *q) {
  struct groups g = {.n = 0};
  for (uint32_t i = 0; i < q->n_rows; i++)
    if (!q->rows[i].has_scheme) count_in(&g, NULL, 0, "", type_words(q->rows[i].stored));
  for (uint32_t k = 0; k < g.n; k++)
    add(t, "%s%s weight%s cast to %s", comma(t), decimal(g.at[k].count).s, plural(g.at[k].count),
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
    add(t, " (%s element%s of '%s' clipped)", decimal(elements).s, plural(elements),
        quote(first->name).s);
  else if (weights > 1)
    add(t, " (%s elements of %s weights clipped)", decimal(elements).s, decimal(weights).s);
}

bool render_passes_infers(const struct run_passes *p, uint32_t step) {
  return strcmp(p->steps[step].pass->name, "infer") == 0;
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
static struct changes changes_of(const struct run_passes *p, struct arena *a) {
  const uint32_t n_steps = p->n_steps;
  struct changes c = {.list = arena_alloc(a, (n_steps + (size_t)1) * sizeof *c.list)};
  const char *family = NULL; // the word of the steps up to `end`
  uint32_t end = 0;
  for (uint32_t i = 0; i < n_steps; i++) {
    const struct run_step *step = &p->steps[i];
    const char *name = step->pass->name;
    if (step->named > 1) family = step->word, end = i + step->named;
    if (step->pass->stores || step->converted == 0) continue;
    if (render_passes_infers(p, i))
      c.declared = step->converted; // the last one speaks of what is left
    else
      add_change(&c, i < end ? family : name, name, i >= end, step->converted);
  }
  return c;
}

static void tell_change(struct text *t, const struct change *c) {
  if (strcmp(c->word, "conv2matmul") == 0)
    add(t, "%s%s Conv rewritten as MatMul", comma(t), decimal(c->n).s);
  else
    add(t, "%s%s change%s by %s", comma(t), decimal(c->n).s, plural(c->n),
        c->pass ? c->pass : c->word);
}

static void tell_rest(struct text *t, const struct changes *c) {
  const uint32_t more = c->n > PASSES_SHOWN ? c->n - PASSES_SHOWN : 0;
  if (more) add(t, "%smore by %u other pass%s", comma(t), more, more == 1 ? "" : "es");
  if (c->declared)
    add(t, "%stypes and shapes of %s value%s", comma(t), decimal(c->declared).s,
        plural(c->declared));
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
  uint32_t rounds; // how often they ran
};

static struct pass_told *told_of(struct pass_told *list, uint32_t *n, const struct pass *pass) {
  for (uint32_t i = 0; i < *n; i++)
    if (list[i].pass == pass) return &list[i];
  list[*n] = (struct pass_told){.pass = pass};
  return &list[(*n)++];
}

static const char *step_words(const struct pass_told *t, struct arena *a) {
  const char *held =
      t->held_back ? arena_printf(a, ", %s held back by --exactness", decimal(t->held_back).s) : "";
  const char *runs = t->rounds > 1 ? arena_printf(a, " in %u runs", t->rounds)
                     : t->rounds   ? ""
                                   : " (did not run)";
  return arena_printf(a, "%7s  %s%s%s", decimal(t->converted).s, t->pass->name, runs, held);
}

// A line for each pass that did something, in the order in which they first stand in the pipeline, and one for all; with
// `every` those that did nothing too.
static void tell_steps(const struct run_passes *p, bool every, struct run_summary *told,
                       struct arena *a) {
  const uint32_t n_steps = p->n_steps;
  struct pass_told *list = arena_alloc(a, (n_steps + (size_t)1) * sizeof *list);
  uint64_t all = 0;
  uint32_t n = 0, did = 0, passes = 0;
  for (uint32_t i = 0; i < n_steps; i++) {
    const struct run_step *step = &p->steps[i];
    struct pass_told *t = told_of(list, &n, step->pass);
    t->converted += step->converted;
    t->held_back += step->held_back;
    t->rounds += step->rounds;
    did += step->converted > 0;
    all += step->converted;
  }
  if (!every && did <= PASSES_SHOWN) return;
  told->n_more = 0;
  told->steps = arena_alloc(a, (n + (size_t)1) * sizeof *told->steps);
  for (uint32_t i = 0; i < n; i++)
    passes += list[i].converted > 0;
  for (uint32_t i = 0; i < n; i++)
    if (every || list[i].converted) told->steps[told->n_steps++] = step_words(&list[i], a);
  told->did = arena_printf(a, "%s change%s by %u pass%s (of %u step%s)", decimal(all).s,
                           plural(all), passes, passes == 1 ? "" : "es", n_steps, plural(n_steps));
}

// ---- what was kept ------------------------------------------------------------------------------

const char *render_passes_reason(const char *reason, struct arena *a) {
#define REASON(word, text)                                                                         \
  if (strcmp(reason, word) == 0) return text;
#include "render/runs/reasons.def"
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
static const char *held_back_text(const struct run_passes *p, struct arena *a) {
  const struct pass **idle = arena_alloc(a, (p->n_steps + (size_t)1) * sizeof *idle);
  uint32_t n_idle = 0;
  uint64_t rewrites = 0;
  const char *first = NULL;
  enum exactness loosest = EXACTNESS_EXACT;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    if (p->steps[i].held_back == 0) continue;
    const struct pass *pass = p->steps[i].pass;
    if (!first) first = pass->name;
    if (pass->exactness > loosest) loosest = pass->exactness;
    if (pass->loosest > loosest) loosest = pass->loosest;
    if (p->steps[i].rounds > 0)
      rewrites += p->steps[i].held_back;
    else
      idle[n_idle++] = pass;
  }
  const uint32_t passes = distinct(idle, n_idle);
  if (!first) return NULL;
  if (rewrites + passes == 1)
    return arena_printf(a, "%s (--exactness %s allows it)", first, exactness_name(loosest));
  const char *of_rewrites =
      rewrites ? arena_printf(a, "%s rewrite%s", decimal(rewrites).s, plural(rewrites)) : "";
  const char *of_passes =
      passes ? arena_printf(a, "%u pass%s", passes, passes == 1 ? "" : "es") : "";
  return arena_printf(a, "%s%s%s, such as %s (--exactness %s allows them)", of_rewrites,
                      rewrites && passes ? " and " : "", of_passes, first, exactness_name(loosest));
}

// What an earlier round of a repeat took is no longer there to be taken.
static bool is_left(const struct run_passes *p, const struct run_site *s) {
  return !s->gone && !run_site_converted(s) &&
         !(p->steps[s->step].repeats && strcmp(s->reason, "already_quantized") == 0);
}

bool render_passes_keeps(const struct run_passes *p, const struct run_site *s, struct arena *a) {
  return is_left(p, s) && render_passes_reason(s->reason, a) != NULL;
}

// Nodes that were left as they were, by reason.
static void list_kept(struct text *t, const struct run_passes *p, uint32_t step,
                      struct arena *arena) {
  struct groups g = {.n = 0};
  uint64_t more = 0;
  for (uint32_t i = 0; i < p->n_sites; i++) {
    const struct run_site *s = &p->sites[i];
    if (!is_left(p, s) || (step != NO_ID && s->step != step)) continue;
    if (step == NO_ID && render_passes_infers(p, s->step)) continue;
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
    add(t, "%s%s %s (%s)", comma(t), decimal(g.at[k].count).s,
        one ? "weight" : quote_str(g.at[k].op).s, why);
  }
  // A weight in a Constant is known by who uses it.
  if (only && only->layer != only->name && strcmp(only->op_type, "Constant") == 0)
    add(t, ", such as that of %s", quote_str(only->layer).s);
  else if (only)
    add(t, ", such as %s", quote_str(only->name).s);
  if (more + g.left_out)
    add(t, ", %s for %s", decimal(more + g.left_out).s,
        more + g.left_out == 1 ? "another reason" : "other reasons");
}

const char *render_passes_kept(const struct run_passes *p, uint32_t step, struct arena *arena) {
  struct text t = {.n = 0};
  list_kept(&t, p, step, arena);
  return kept_text(&t, arena);
}

// Nodes whose outputs have no known shape, as the last inference found them.
static const char *shapeless_text(const struct run_passes *p, struct arena *arena) {
  struct text t = {.n = 0};
  uint32_t last = NO_ID;
  for (uint32_t i = 0; i < p->n_steps; i++)
    if (render_passes_infers(p, i)) last = i;
  if (last != NO_ID) list_kept(&t, p, last, arena);
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
static bool is_run(const struct run_report *r) {
  return strcmp(r->asked.command, "run") == 0;
}

// ---- what else could be done --------------------------------------------------------------------

// A quantization that took less than it could have, had it been asked for more operators.
static bool hint_op_types(const struct run_report *r, uint32_t step) {
  const struct run_step *s = &r->passes->steps[step];
  const struct run_unasked *more = &s->unasked;
  uint64_t taken = 0;
  for (uint32_t i = 0; i < r->stored.n_rows; i++)
    if (r->stored.rows[i].step == step) taken += r->stored.rows[i].bytes_before;
  if (!more->words || more->bytes < WORTH_BYTES || more->bytes < taken) return false;
  report_hint("%s would be quantized with %s%s", more->words,
              s->is_command ? "--op-types " : "op_types=", more->op_types);
  return true;
}

// Dynamic quantization that took nothing, of a model with Convs, for which it was not asked.
static bool hint_convs(const struct run_passes *p, uint32_t step) {
  const struct run_step *s = &p->steps[step];
  if (p->convs == 0 || strcmp(s->pass->name, "dynamic") != 0) return false;
  for (uint32_t i = 0; i < p->n_sites; i++)
    if (p->sites[i].step == step &&
        (run_site_converted(&p->sites[i]) || strcmp(p->sites[i].op_type, "Conv") == 0))
      return false;
  report_hint(
      "%s Conv would be quantized with %sMatMul%cConv; 'conv2matmul' before it turns pointwise "
      "ones into MatMul, which runs faster",
      decimal(p->convs).s, s->is_command ? "--op-types " : "op_types=", s->is_command ? ',' : '+');
  return true;
}

// What is written before the k-th of n.
static const char *between(uint32_t k, uint32_t n, const char *last) {
  return k == 0 ? "" : k + 1 < n ? ", " : last;
}

// "1 LSTM and 2 MatMul", whose weights nodes make of constants; NULL: none.
static const char *waiting_text(const struct run_passes *p, struct arena *a) {
  struct groups g = {.n = 0};
  struct text t = {.n = 0};
  for (uint32_t i = 0; i < p->n_waiting; i++) {
    const struct run_site *s = &p->sites[p->waiting[i]];
    count_in(&g, s, s->step, s->op_type, "");
  }
  for (uint32_t k = 0; k < g.n; k++)
    add(&t, "%s%s %s", between(k, g.n, " and "), decimal(g.at[k].count).s, quote_str(g.at[k].op).s);
  return kept_text(&t, a);
}

static bool hint_fold(const struct run_report *r) {
  struct arena a = {0};
  const char *waiting = waiting_text(r->passes, &a);
  const bool waits = waiting != NULL;
  // Where nothing changed the closing line says whose weights.
  if (waits && r->work.edits == 0 && r->passes->is_command)
    report_hint("run 'weir optimize' or 'weir preprocess' first: it stores such weights where it "
                "can evaluate their nodes");
  else if (waits)
    report_hint("the weights of %s are computed from constants; run 'weir optimize' or 'weir "
                "preprocess' first: it stores them where it can evaluate the nodes",
                waiting);
  arena_free(&a);
  return waits;
}

// A model whose quantizers no runtime has, which other passes leave as they are.
static bool hint_import(const struct run_report *r) {
  const struct run_passes *p = r->passes;
  if (p->foreign_domain.n == 0) return false;
  report_hint("no runtime has the operator %s of %s, and other passes leave it unchanged; %s "
              "converts it to ONNX",
              quote(p->foreign).s, quote(p->foreign_domain).s,
              is_run(r) ? "--pass import-qonnx before all others"
                        : "'weir run IN OUT --pass import-qonnx' first");
  return true;
}

static void print_hints(const struct run_report *r) {
  const struct run_passes *p = r->passes;
  bool hinted = hint_fold(r);
  hinted = hint_import(r) || hinted;
  for (uint32_t i = 0; i < p->n_steps; i++)
    hinted = hint_op_types(r, i) || hint_convs(p, i) || hinted;
  if (!hinted && p->n_sites == 0 && r->work.edits == 0)
    report_hint("'weir inspect' lists what weir could do with this model");
}

// "MatMul or Gather": the operators of the sites that were left alone without a word; NULL: there are none.
static const char *left_ops(const struct run_passes *p, struct arena *a) {
  struct groups g = {.n = 0};
  struct text t = {.n = 0};
  for (uint32_t i = 0; i < p->n_sites; i++)
    if (is_left(p, &p->sites[i]))
      count_in(&g, &p->sites[i], p->sites[i].step, p->sites[i].op_type, "");
  for (uint32_t k = 0; k < g.n; k++)
    add(&t, "%s%s", between(k, g.n, " or "), quote_str(g.at[k].op).s);
  return kept_text(&t, a);
}

// Why nothing changed: weights that nodes make of constants; the sites that were kept and why; that the operators have no stored weight;
// that the model has none of them.
static const char *nothing_text(const struct run_passes *p, const char *kept, struct arena *a) {
  const struct run_step *only = p->n_steps == 1 ? p->steps : NULL;
  const char *waiting = waiting_text(p, a);
  if (waiting)
    return arena_printf(a, "nothing changed (the weights of %s are computed from constants%s%s)",
                        waiting, kept ? "; " : "", kept ? kept : "");
  if (kept) return arena_printf(a, "nothing changed (%s)", kept);
  const char *left = left_ops(p, a);
  if (left) return arena_printf(a, "nothing changed (no %s has a stored weight)", left);
  if (only && only->ops && strcmp(only->ops, "all") != 0)
    return arena_printf(a, "nothing changed (the model has no %s)", only->ops);
  return arena_printf(a, "nothing changed (the model has nothing for %s)",
                      only ? only->pass->name : "these passes");
}

static void tell_run(struct run_report *r) {
  const struct run_passes *p = r->passes;
  const struct stored_tensors *q = &r->stored;
  struct run_summary *told = &r->told;
  struct arena *a = &r->arena;
  const struct changes changes = changes_of(p, a);
  struct text did = {.n = 0}, stored = {.n = 0};
  tell_quantized(&stored, q, a);
  for (uint32_t i = 0; i < p->n_steps; i++)
    tell_gate(&stored, p, i, a);
  tell_cast(&stored, q);
  tell_clipped(&stored, q);
  tell_changes(&did, &changes);
  if (stored.n) add(&did, "%s%s", comma(&did), stored.s);
  if (did.n > DID_MOST && is_run(r) && changes.n + (stored.n > 0) > 1)
    tell_lines(told, &changes, kept_text(&stored, a), a);
  else if (did.n)
    told->did = kept_text(&did, a);
  else if (r->work.edits)
    told->did = "only types, opsets or other metadata changed";
  if (is_run(r) && q->n_rows == 0) tell_steps(p, p->verbose || r->asked.shown->verbose, told, a);
  told->worst = worst_text(q, a);
  told->kept = render_passes_kept(p, NO_ID, a);
  told->held_back = held_back_text(p, a);
  told->larger = larger_text(r, a);
  if (!did.n && r->work.edits == 0 && p->n_steps > 0 &&
      p->is_command) { // the closing line says what was kept
    if (told->held_back)
      told->kept = arena_printf(a, "%s%sheld back: %s", told->kept ? told->kept : "",
                                told->kept ? "; " : "", told->held_back);
    told->did = nothing_text(p, told->kept, a);
    told->kept = told->held_back = NULL;
  }
  told->shapeless = shapeless_text(p, a);
}

// With the numbers of nodes before and after, bodies and functions included.
static void tell_nodes(struct run_report *r) {
  const uint64_t before = r->passes->nodes[0], after = r->passes->nodes[1];
  tell_run(r);
  if (after != before)
    r->told.did = arena_printf(&r->arena, "%s -> %s node%s (%s)", decimal(before).s,
                               decimal(after).s, plural(after), r->told.did);
}

const struct run_forms render_passes = {
    .report = run_passes_json, .tell = tell_run, .hint = print_hints};
const struct run_forms render_passes_nodes = {
    .report = run_passes_json, .tell = tell_nodes, .hint = print_hints};
