// What whole models give, judged: a row for each output of each case, and top-1 by the rows of all cases together.
#include "verify/models/verify_models.h"

#include "verify/compare/task_metric.h"

#include <math.h>
#include <string.h>

// ---- rows --------------------------------------------------------------------------------------

static uint32_t outputs_of(const struct verify_run *r) {
  const struct model *m = &r->side[0].model;
  return m->graphs[m->main_graph].n_outputs;
}

static struct verified_row *add_row(struct verify_run *r, const char *name,
                                    const struct array_case *c) {
  struct verified *f = &r->v->found;
  struct verified_row *row = TABLE_PUSH(f, rows);
  const char *of = c->name;
  if (r->v->step && r->v->step_number)
    of = arena_printf(&f->arena, "%s (step %u), %s", r->v->step, r->v->step_number, of);
  else if (r->v->step)
    of = arena_printf(&f->arena, "%s, %s", r->v->step, of);
  *row = (struct verified_row){.name = arena_string(&f->arena, span_str(name)),
                               .of = of,
                               .bounds = r->bounds.words,
                               .output = true,
                               .loses = r->loses,
                               .drawn = !r->given};
  return row;
}

static void end_row(struct verify_run *r, struct verified_row *row, enum verified_end end,
                    const char *why) {
  struct verified *f = &r->v->found;
  row->end = end;
  row->why = end == VERIFIED_PASSED ? NULL : arena_string(&f->arena, span_str(why));
  verified_count(f, end);
}

static void end_stopped_row(struct verify_run *r, struct verified_row *row, enum verified_end end,
                            const char *which, const char *cause) {
  row->stopped = true;
  end_row(r, row, end, arena_printf(&r->v->found.arena, "the %s does not run: %s", which, cause));
}

static const char no_elements[] = "it has no elements for these inputs";

// Ends a row with what a comparison by bounds found.
static void end_compared(struct verify_run *r, struct verified_row *row,
                         const struct compare_result *got) {
  const bool passed = got->end == COMPARE_PASSED;
  row->figures = got->figures;
  if (passed && got->figures.count == 0)
    end_row(r, row, VERIFIED_NOT, no_elements);
  else
    end_row(r, row, passed ? VERIFIED_PASSED : VERIFIED_FAILED, got->why);
}

// Drawn inputs do not show how much was lost, but elements that became NaN or infinite are reported: "NaN at 3 of 8 elements where SRC
// is finite".
static const char *unjudged_words(struct verify_run *r, const struct compare_figures *f) {
  struct arena *a = &r->v->found.arena;
  const uint64_t others = f->nonfinite_apart - f->made_nan - f->made_infinite;
  const char *nan = "", *infinite = "", *more = "";
  if (!f->nonfinite_apart) return r->unjudged;
  if (f->made_nan) nan = arena_printf(a, "; NaN at %s", decimal(f->made_nan).s);
  if (f->made_infinite)
    infinite = arena_printf(a, "%s infinite at %s", f->made_nan ? " and" : ";",
                            decimal(f->made_infinite).s);
  if (f->made_nan || f->made_infinite)
    infinite =
        arena_printf(a, "%s of %s elements where SRC is finite", infinite, decimal(f->count).s);
  if (others)
    more = arena_printf(a, "; %s of %s elements are not finite in SRC and differ in the result",
                        decimal(others).s, decimal(f->count).s);
  return arena_printf(a, "%s%s%s%s", r->unjudged, nan, infinite, more);
}

// Why an output that differs shows nothing; NULL: it does. Another form, and what is finite in the source alone, are not the work of
// other numbers.
static const char *random_words(const struct verify_run *r, uint32_t place, const struct array *a,
                                const struct array *b, const struct compare_result *got) {
  const struct model *m = r->random[0].m;
  const struct compare_figures *f = &got->figures;
  if (got->end == COMPARE_PASSED) return NULL;
  if (got->end == COMPARE_DIFFERENT && !verify_random_forms(&r->random[0], place, a, b))
    return NULL;
  if (got->end != COMPARE_DIFFERENT && f->nonfinite[0] + f->nonfinite[1] > 0 &&
      (f->nonfinite[0] == 0 || r->v->options.finite))
    return NULL;
  const uint32_t node = verify_random_behind(&r->random[0], place);
  if (node == NO_ID) return NULL;
  const struct span op = model_name(m, m->nodes[node].op_type);
  return arena_printf(
      &r->v->found.arena,
      "it depends on random numbers, which each model draws by itself (the %.*s has no seed)",
      (int)op.n, (const char *)op.at);
}

// Is the output of the result made of random numbers? Those of the source alone are no reason for it to differ.
static bool is_drawn(const struct verify_run *r, const struct array_case *c,
                     const struct array *b) {
  const struct array *first = r->side[1].results[c - r->cases].list;
  return verify_random_behind(&r->random[1], (uint32_t)(b - first)) != NO_ID;
}

// A bound that somebody asked for is not met by what cannot be judged.
static void end_random(struct verify_run *r, struct verified_row *row, const char *why) {
  end_row(r, row, VERIFIED_NOT, why);
  row->unmet = r->theirs;
}

// equal: the bounds of models that have lost nothing, as they are for this output.
static bool meets_equal(const struct compare_result *got, const struct compare_bounds *equal,
                        bool floats) {
  char why[COMPARE_WHY];
  return got->end != COMPARE_DIFFERENT && !(floats && got->figures.largest == 0) &&
         compare_judge(&got->figures, equal, why) == COMPARE_PASSED;
}

// floats: an output of theirs that is all zeros shows nothing of what is lost.
static void judge(struct verify_run *r, struct verified_row *row, const struct compare_result *got,
                  bool floats) {
  const struct compare_figures *f = &got->figures;
  if (got->end == COMPARE_PASSED && f->count == 0)
    end_row(r, row, VERIFIED_NOT, no_elements);
  else if (got->end != COMPARE_DIFFERENT && f->count > 0 && f->nonfinite[0] == f->count)
    end_row(r, row, VERIFIED_NOT, "the source returns no finite number for these inputs");
  else if (got->end == COMPARE_PASSED && r->loses && !r->theirs && r->given && floats &&
           f->largest == 0)
    end_row(r, row, VERIFIED_NOT, "the source returns only zeros for these inputs");
  else if (got->end != COMPARE_DIFFERENT && r->v->options.finite &&
           f->nonfinite[0] + f->nonfinite[1] > 0)
    end_row(r, row, VERIFIED_FAILED, "there are elements that are not finite");
  else if (got->end != COMPARE_DIFFERENT && r->unjudged && (!r->given || !f->nonfinite_apart))
    end_row(r, row, VERIFIED_UNJUDGED, unjudged_words(r, f));
  else
    end_row(r, row, got->end == COMPARE_PASSED ? VERIFIED_PASSED : VERIFIED_FAILED, got->why);
}

// The rows of one case, whose row of `found` is the last one, for top-1 of all cases together.
static int count_rows(struct verify_run *r, struct verify_output *o, const struct array *a,
                      const struct array *b, const struct compare_result *got, struct err *err) {
  struct compare_rows one;
  const uint32_t at = r->v->found.n_rows - 1;
  if (got->end == COMPARE_DIFFERENT || r->v->found.rows[at].end == VERIFIED_NOT) return 0;
  if (verify_top1_add(o->top1, a, b, &got->figures, r->v->options.runtime.stop, &one, &o->rows,
                      err))
    return -1;
  const double share = one.counted ? (double)one.changed / (double)one.counted : 0;
  struct verify_output_row *each = arena_alloc(&r->v->arena, sizeof *each);
  *each = (struct verify_output_row){at, one, o->rows_of};
  o->rows_of = each;
  if (o->worst == NO_ID || share > o->most) {
    o->worst = at;
    o->most = share;
  }
  o->last = at;
  return 0;
}

static const char equal_words[] = "equal";

// The type of the elements, of a sequence those of its first item; UNDEFINED: there is none.
static enum dtype element_type(const struct array *a) {
  while (a->kind == ARRAY_SEQUENCE && a->n_items > 0)
    a = &a->items[0];
  return a->kind == ARRAY_TENSOR ? a->dtype : DTYPE_UNDEFINED;
}

// The same in all cases, so that it is found once.
static enum verify_whole whole_of(struct verify_run *r, uint32_t place) {
  if (place >= outputs_of(r)) return VERIFY_WHOLE_EQUAL;
  if (!r->wholes[place]) r->wholes[place] = (uint8_t)(1 + verify_whole_of(&r->random[0], place));
  return (enum verify_whole)(r->wholes[place] - 1);
}

// Do floats of these types hold whole numbers alone, and both models the same of them? Found once, too.
static bool is_stored(struct verify_run *r, uint32_t place, enum dtype t, enum dtype other) {
  const bool wide = dtype_bits(t) >= 32 && dtype_bits(other) >= 32;
  if (place >= outputs_of(r) || (other != t && !wide)) return false;
  if (!r->stored[place]) r->stored[place] = verify_whole_stored(&r->random[0], place) ? 2 : 1;
  return r->stored[place] == 2;
}

// Of whole numbers, truth values and strings the bounds depend on what they are made of (verify_random.h), also where `a` of the source
// and `other` store them as floats. *words: of the bounds.
static void bound_whole(struct verify_run *r, uint32_t place, const struct array *a,
                        const struct array *other, struct compare_bounds *b, const char **words) {
  const enum dtype t = element_type(a);
  if (!b->whole_equal || t == DTYPE_UNDEFINED) return;
  const bool floats = dtype_is_float(t);
  if (floats && !is_stored(r, place, t, element_type(other))) return;
  const enum verify_whole whole = t == DTYPE_STRING ? VERIFY_WHOLE_EQUAL : whole_of(r, place);
  b->whole_equal = whole == VERIFY_WHOLE_EQUAL || whole == VERIFY_WHOLE_PLACE;
  b->equal = b->zeros_equal = floats && b->whole_equal;
  b->step = whole == VERIFY_WHOLE_STEP && t != DTYPE_BOOL;
  if (whole == VERIFY_WHOLE_PLACE && verify_places_has(r, place))
    *words = arena_printf(&r->v->found.arena, "equal, or of elements within %g%s", b->most_relative,
                          verify_places_step(r, place) ? " and one step" : "");
  else if (b->whole_equal)
    *words = equal_words;
  else if (b->step)
    *words = arena_printf(&r->v->found.arena, "%s and one step", *words);
}

// Places that differ are as good where the elements there are within the bound of each other.
static int see_places(struct verify_run *r, const struct array_case *c, uint32_t place,
                      const struct array *a, const struct array *b,
                      const struct compare_bounds *bounds, struct compare_result *got,
                      struct err *err) {
  bool is_near = false;
  if (got->end != COMPARE_FAILED || !bounds->whole_equal || place >= outputs_of(r) ||
      whole_of(r, place) != VERIFY_WHOLE_PLACE)
    return 0;
  if (verify_places_near(r, c, place, a, b, bounds->most_relative, &is_near, err)) return -1;
  if (!is_near) return 0;
  got->end = COMPARE_PASSED;
  got->why[0] = 0;
  return 0;
}

// Compares an output of the source with that of the result.
static int compare_output(struct verify_run *r, const struct array_case *c, const struct array *a,
                          const struct array *b, struct verify_output *o, struct err *err) {
  struct compare_result got;
  struct compare_bounds bounds = r->judged;
  struct verified_row *row = add_row(r, a->name, c);
  if (!b) {
    end_row(r, row, VERIFIED_FAILED, "the result has no such output");
    return 0;
  }
  const uint32_t place = o ? (uint32_t)(o - r->outputs) : NO_ID;
  bound_whole(r, place, a, b, &bounds, &row->bounds);
  const bool rows = o && verify_top1_has(o->top1, a);
  if (rows) bounds.least_top1 = NAN; // of all cases (judge_top1)
  if (compare_arrays(a, b, &bounds, r->v->options.runtime.stop, &got, err) ||
      see_places(r, c, place, a, b, &bounds, &got, err))
    return -1;
  row->figures = got.figures;
  row->figures.has_top1 = false;
  const char *random = o && (!r->unjudged || got.end == COMPARE_DIFFERENT)
                           ? random_words(r, place, a, b, &got)
                           : NULL;
  if (random && is_drawn(r, c, b)) {
    end_random(r, row, random);
    return 0;
  }
  judge(r, row, &got, dtype_is_float(a->dtype));
  const char *unsaid = r->equal.words;
  bounds = r->equal.bounds;
  bound_whole(r, place, a, b, &bounds, &unsaid);
  if (row->end != VERIFIED_NOT && !meets_equal(&got, &bounds, dtype_is_float(a->dtype)))
    r->n_unequal++;
  return rows ? count_rows(r, o, a, b, &got, err) : 0;
}

// ---- top-1 -------------------------------------------------------------------------------------

static struct verify_output begin_output(struct verify_run *r, uint32_t i, double least) {
  struct verify_output o = {.least = least,
                            .top1 = verify_top1_of(&r->side[0].model, r->infer, i),
                            .last = NO_ID,
                            .worst = NO_ID};
  if (isnan(least) || o.top1 != VERIFY_TOP1_NONE) return o;
  // Asked for by name: of whatever has rows, by the first case that ran.
  for (uint32_t k = 0; k < r->n_cases; k++) {
    if (r->side[0].why[k] || i >= r->side[0].results[k].n) continue;
    const struct array *rows = compare_rows_of(&r->side[0].results[k].list[i]);
    if (!rows) continue;
    o.top1 = VERIFY_TOP1_ROWS;
    o.whole = !dtype_is_float(rows->dtype) && dtype_bits(rows->dtype) >= 32;
    break;
  }
  return o;
}

void verify_rows_begin(struct verify_run *r) {
  const struct pipeline *p = r->v->options.pipeline;
  const uint32_t n = outputs_of(r);
  r->wholes = arena_zalloc(&r->v->arena, n + (size_t)1);
  r->stored = arena_zalloc(&r->v->arena, n + (size_t)1);
  r->listed = arena_zalloc(&r->v->arena, (n + (size_t)1) * sizeof *r->listed);
  r->outputs = arena_zalloc(&r->v->arena, (n + (size_t)1) * sizeof *r->outputs);
  r->expected = arena_zalloc(&r->v->arena, (n + (size_t)1) * sizeof *r->expected);
  for (uint32_t i = 0; i < n; i++) {
    r->outputs[i] = begin_output(r, i, r->judged.least_top1);
    r->expected[i] = begin_output(r, i, r->judged.least_top1);
    r->listed[i] = begin_output(r, i, p ? p->tolerance.least_top1 : NAN);
  }
}

// Takes back that a row passed, or was not judged.
static void end_again(struct verify_run *r, struct verified_row *row, enum verified_end end,
                      const char *why) {
  struct verified *f = &r->v->found;
  *(row->end == VERIFIED_PASSED ? &f->n_passed : &f->n_unjudged) -= 1;
  end_row(r, row, end, why);
}

// A share of so few rows says nothing: no case is verified by it.
static void leave_top1(struct verify_run *r, const struct verify_output *o) {
  const char *why = verify_top1_few(&o->rows, &r->v->found.arena);
  for (const struct verify_output_row *each = o->rows_of; each; each = each->before) {
    struct verified_row *row = &r->v->found.rows[each->row];
    if (row->end == VERIFIED_FAILED || (o->whole && row->figures.unequal == 0)) continue;
    end_again(r, row, VERIFIED_NOT, why);
    row->unmet = true;
  }
}

// The bound of the user, by the rows of all cases. It fails with the case that is worst.
static void judge_top1(struct verify_run *r, struct verify_output *o, double kept) {
  struct verified *f = &r->v->found;
  struct verified_row *row = &f->rows[o->worst];
  const double least = o->least;
  if (isnan(least)) return;
  if (o->rows.counted < VERIFY_TOP1_LEAST) {
    leave_top1(r, o);
    return;
  }
  if (kept >= least) return;
  const char *why =
      arena_printf(&f->arena, "top-1 changes in %s of %s rows%s: an agreement of %.4g, below %g",
                   decimal(o->rows.changed).s, decimal(o->rows.counted).s,
                   verified_ties(o->rows.close).s, kept, least);
  if (row->end == VERIFIED_FAILED)
    row->why = arena_printf(&f->arena, "%s, %s", row->why, why);
  else
    end_again(r, row, VERIFIED_FAILED, why);
}

// What looked lossy gave the same numbers everywhere: it is another form of the same, as said of models that lost nothing.
static void end_equal(struct verify_run *r) {
  struct verified *f = &r->v->found;
  if (!r->equal.words || r->n_unequal || f->n_failed) return;
  for (uint32_t i = r->first_row; i < f->n_rows; i++) {
    struct verified_row *row = &f->rows[i];
    if (!row->output || !row->loses || row->end == VERIFIED_NOT) continue;
    end_again(r, row, VERIFIED_PASSED, NULL);
    row->bounds = r->equal.words;
    row->loses = false;
  }
  f->lossy = NULL;
}

static void end_output(struct verify_run *r, struct verify_output *o) {
  const double kept = o->rows.counted ? 1 - (double)o->rows.changed / (double)o->rows.counted : 0;
  if (o->last == NO_ID) return;
  judge_top1(r, o, kept);
  if (o->rows.counted < VERIFY_TOP1_LEAST) return;
  struct verified_row *row = &r->v->found.rows[o->last];
  row->top1_rows = o->rows.counted;
  row->top1_changed = o->rows.changed;
  row->top1_ties = o->rows.close;
  row->top1_asked = !isnan(o->least);
  row->top1_least = o->least;
  row->figures.has_top1 = true;
  row->figures.top1 = kept;
  for (const struct verify_output_row *each = o->rows_of; each; each = each->before) {
    r->v->found.rows[each->row].case_rows = each->rows.counted;
    r->v->found.rows[each->row].case_changed = each->rows.changed;
  }
}

void verify_rows_end(struct verify_run *r) {
  for (uint32_t i = 0; i < outputs_of(r); i++) {
    end_output(r, &r->outputs[i]);
    end_output(r, &r->expected[i]);
    end_output(r, &r->listed[i]);
  }
  end_equal(r);
}

// ---- cases, one by one -------------------------------------------------------------------------

// The output of the result that goes with output k of the source: by name; by place where it was renamed, so that neither has the
// name of the other. NULL: there is none.
static const struct array *partner_of(const struct arrays *a, const struct arrays *b, uint32_t k) {
  const char *name = a->list[k].name;
  if (k < b->n && strcmp(b->list[k].name, name) == 0) return &b->list[k];
  const struct array *named = array_named(b, name);
  return named || a->n != b->n || array_named(a, b->list[k].name) ? named : &b->list[k];
}

// Outputs that the result has besides: nothing was compared with them.
static void add_others(struct verify_run *r, const struct array_case *c, const struct arrays *b,
                       const bool *compared) {
  for (uint32_t k = 0; k < b->n; k++)
    if (!compared[k])
      end_row(r, add_row(r, b->list[k].name, c), VERIFIED_NOT,
              "the source has no such output to compare with");
}

int verify_rows_case(struct verify_run *r, uint32_t i, struct err *err) {
  const struct array_case *c = &r->cases[i];
  const struct verify_side *s = r->side;
  const struct arrays *a = &s[0].results[i], *b = &s[1].results[i];
  const int64_t only = r->v->options.compatible.output,
                lengths = r->v->options.compatible.length_output;
  if (outputs_of(r) == 0) {
    end_row(r, add_row(r, "outputs", c), VERIFIED_NOT, "the model has no outputs");
    return 0;
  }
  if (r->undrawn && r->undrawn[i]) {
    end_row(r, add_row(r, "outputs", c), VERIFIED_NOT, r->undrawn[i]);
    return 0;
  }
  if (s[0].why[i]) {
    end_stopped_row(r, add_row(r, "outputs", c), VERIFIED_NOT, "source", s[0].why[i]);
    return 0;
  }
  if (s[1].why[i]) {
    end_stopped_row(r, add_row(r, "outputs", c), s[1].lacks_kernel ? VERIFIED_NOT : VERIFIED_FAILED,
                    "result", s[1].why[i]);
    return 0;
  }
  bool *compared = arena_zalloc(&r->v->arena, b->n + (size_t)1);
  for (uint32_t k = 0; k < a->n; k++) {
    if (only >= 0 && k != (uint64_t)only && k != (uint64_t)lengths) continue;
    const struct array *other = partner_of(a, b, k);
    if (other) compared[other - b->list] = true;
    struct verify_output *o = k < outputs_of(r) ? &r->outputs[k] : NULL;
    if (compare_output(r, c, &a->list[k], other, o, err)) return -1;
  }
  if (only < 0) add_others(r, c, b, compared);
  return 0;
}

// For the source itself, compared with expected outputs: no pass was at work.
static struct verify_bounds bounds_of_one(const struct verify_run *r) {
  const struct model *m = &r->side[0].model;
  struct infer *const in[2] = {r->infer, r->infer};
  struct verify_models_bounds b = {.knows = true};
  verify_bounds_of_models(m, m, in, &b, &r->v->found.arena);
  return b.bounds;
}

// `have`: what the model gives for it; NULL: nothing.
static int compare_expected(struct verify_run *r, const struct array_case *c, struct array *x,
                            const struct array *have, const struct verify_bounds *bounds,
                            struct err *err) {
  struct compare_bounds judged = bounds->bounds;
  struct compare_result got;
  struct verified_row *row = add_row(r, have ? have->name : x->name, c);
  row->of = arena_printf(&r->v->found.arena, "%s, expected", row->of);
  row->bounds = bounds->words;
  row->loses = false;
  if (!have) {
    end_row(r, row, VERIFIED_FAILED, "the model has no such output");
    return 0;
  }
  const size_t k = (size_t)(have - r->side[0].results[c - r->cases].list);
  struct verify_output *o = k < outputs_of(r) ? &r->expected[k] : NULL;
  array_settle_like(x, have);
  bound_whole(r, (uint32_t)k, have, x, &judged, &row->bounds);
  const bool rows = o && verify_top1_has(o->top1, x);
  if (rows) judged.least_top1 = NAN; // of all cases (judge_top1)
  judged.nonfinite = r->judged.nonfinite;
  if (compare_arrays(x, have, &judged, r->v->options.runtime.stop, &got, err) ||
      see_places(r, c, (uint32_t)k, x, have, &judged, &got, err))
    return -1;
  const char *random = random_words(r, (uint32_t)k, x, have, &got);
  if (random)
    end_random(r, row, random);
  else
    end_compared(r, row, &got);
  row->figures.has_top1 = false;
  return rows ? count_rows(r, o, x, have, &got, err) : 0;
}

// An output has one expected array in a case: a second one would count its rows twice.
static int expected_once(const struct array_case *c, const struct array *have, uint32_t *by,
                         uint32_t k, struct err *err) {
  if (*by == 0) {
    *by = k + 1;
    return 0;
  }
  return err_set(err, ERR_MODEL, "'%s' expects output '%s' twice: in output_%u.pb and output_%u.pb",
                 quote_str(c->name).s, quote_str(have->name).s, *by - 1, k);
}

// Expected outputs that came with the inputs: what the source itself gives is held against them.
int verify_rows_expected(struct verify_run *r, uint32_t i, struct err *err) {
  const struct array_case *c = &r->cases[i];
  const struct arrays *a = &r->side[0].results[i];
  const struct verify_bounds bounds = r->theirs ? r->bounds : bounds_of_one(r);
  if (!r->side[1].path && (c->outputs.n == 0 || r->side[0].why[i])) {
    const char *why = r->side[0].why[i];
    struct verified_row *row = add_row(r, "outputs", c);
    if (why)
      end_stopped_row(r, row, VERIFIED_NOT, "model", why);
    else
      end_row(r, row, VERIFIED_NOT, "there are no expected outputs");
    return 0;
  }
  // What a pipeline expects is compared with the result (verify_rows_listed).
  if (verify_models_listed(&r->v->options)) return 0;
  if (r->side[0].why[i]) return 0;
  uint32_t *by = arena_zalloc(&r->v->arena, (a->n + (size_t)1) * sizeof *by); // 1 + what expects it
  for (uint32_t k = 0; k < c->outputs.n; k++) {
    struct array *x = &c->outputs.list[k];
    const struct array *have = *x->name ? array_named(a, x->name) : k < a->n ? &a->list[k] : NULL;
    if (have && expected_once(c, have, &by[have - a->list], k, err)) return -1;
    if (compare_expected(r, c, x, have, &bounds, err)) return -1;
  }
  return 0;
}

// ---- metrics -----------------------------------------------------------------------------------

bool verify_has_metrics(const struct pipeline *p) {
  return p && p->n_metrics > 0 && p->outputs.n_list > 0;
}

// What is expected, in the order of the outputs, where the arrays have names.
static bool order_expected(struct verify_run *r, const struct arrays *produced,
                           const struct arrays *named, struct arrays *out, const char **why) {
  struct arena *a = &r->v->found.arena;
  *out = *named;
  for (uint32_t k = 0; k < named->n; k++)
    if (!*named->list[k].name) return true; // of a .npy: they go by their place
  out->list = arena_zalloc(a, (named->n + (size_t)1) * sizeof *out->list);
  out->n = 0;
  for (uint32_t k = 0; k < produced->n; k++) {
    const struct array *x = array_named(named, produced->list[k].name);
    if (x && out->n == k) out->list[out->n++] = *x;
  }
  if (out->n == named->n) return true;
  *why = arena_printf(a, "the expected arrays do not have the names of the first outputs ('%s')",
                      quote_str(named->list[0].name).s);
  return false;
}

static int compare_listed_one(struct verify_run *r, const struct array_case *c,
                              const struct array *expected, uint32_t k,
                              const struct verify_bounds *b, struct err *err) {
  const struct array *have = &r->side[1].results[c - r->cases].list[k];
  struct verify_output *o = k < outputs_of(r) ? &r->listed[k] : NULL;
  struct compare_bounds bounds = b->bounds;
  const bool metrics = r->v->options.pipeline->n_metrics > 0;
  struct array x = *expected;
  struct compare_result got;
  array_settle_like(&x, have);
  const bool rows = o && verify_top1_has(o->top1, &x);
  if (rows) bounds.least_top1 = NAN; // of all cases (judge_top1)
  if (compare_arrays(&x, have, &bounds, r->v->options.runtime.stop, &got, err)) return -1;
  // With metrics it may be places of largest elements, which are no outputs.
  if (metrics && got.end == COMPARE_DIFFERENT) return 0;
  struct verified_row *row = add_row(r, have->name, c);
  row->of = arena_printf(&r->v->found.arena, "%s, reference.out", row->of);
  row->listed = true;
  row->bounds = b->words;
  row->loses = false;
  end_compared(r, row, &got);
  row->figures.has_top1 = false;
  return rows ? count_rows(r, o, &x, have, &got, err) : 0;
}

// Compares the outputs that the pipeline expects with those of the result, by its tolerance.
int verify_rows_listed(struct verify_run *r, uint32_t i, struct err *err) {
  const struct verify_options *o = &r->v->options;
  const struct array_case *c = &r->cases[i];
  const char *why = NULL;
  struct arrays expected;
  if (!verify_models_listed(o) || o->pipeline->outputs.n_list == 0 ||
      o->pipeline->tolerance.rtol < 0 || r->v->unexpected || !r->side[1].why || r->side[1].why[i])
    return 0;
  const struct arrays *have = &r->side[1].results[i];
  if (!order_expected(r, have, &c->outputs, &expected, &why) || expected.n > have->n) {
    if (!why) why = "more arrays are expected than there are outputs";
    end_row(r, add_row(r, "reference.out", c), VERIFIED_FAILED, why);
    return 0;
  }
  struct verify_bounds b = {o->pipeline->tolerance, NULL};
  b.words = verify_bounds_words(&b.bounds, &r->v->found.arena);
  b.bounds.nonfinite = r->judged.nonfinite;
  b.bounds.retyped = true;
  for (uint32_t k = 0; k < expected.n; k++)
    if (compare_listed_one(r, c, &expected.list[k], k, &b, err)) return -1;
  return 0;
}

static int judge_metric(struct verify_run *r, const struct array_case *c,
                        const struct pipeline_metric *m, const struct arrays *produced,
                        const char *unfit, struct err *err) {
  struct arena *a = &r->v->found.arena;
  const char *name = task_metric_name(m->metric);
  char why[TASK_METRIC_WHY];
  struct arrays expected;
  double x = 0;
  struct verified_row *row = add_row(r, name, c);
  row->bounds = arena_printf(a, "from %g to %g", m->least, m->most);
  if (unfit || !order_expected(r, produced, &c->outputs, &expected, &unfit)) {
    end_row(r, row, VERIFIED_FAILED, unfit);
    return 0;
  }
  const int rc = task_metric_value(m->metric, produced, &expected, &x, why, err);
  if (rc < 0) return -1;
  if (rc > 0) {
    end_row(r, row, VERIFIED_FAILED, why);
    return 0;
  }
  row->has_value = true;
  row->value = x;
  const bool fits = x >= m->least && x <= m->most;
  end_row(r, row, fits ? VERIFIED_PASSED : VERIFIED_FAILED,
          arena_printf(a, "%s %.9g is not within [%g, %g]", name, x, m->least, m->most));
  return 0;
}

// Where the source did not run, the result was not run either, and verify_rows_case has said so.
int verify_rows_metrics(struct verify_run *r, uint32_t i, struct err *err) {
  const struct pipeline *p = r->v->options.pipeline;
  const struct verify_side *s = &r->side[1];
  if (r->v->metrics == VERIFY_NO_METRICS || !verify_has_metrics(p) ||
      !verify_models_listed(&r->v->options) || !s->why)
    return 0;
  const char *why =
      s->why[i] ? arena_printf(&r->v->found.arena, "the model does not run: %s", s->why[i]) : NULL;
  for (uint32_t k = 0; k < p->n_metrics; k++)
    if (judge_metric(r, &r->cases[i], &p->metrics[k], &s->results[i], why, err)) return -1;
  return 0;
}
