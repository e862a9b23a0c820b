// Bounds of figures: words for them, and the judgement.
//
// A bound is met if the figure is on its side or equal to it; a figure that is no number meets none. What is
// wrong is said with the number seen and the bound, all of it as far as the line goes.
#include "verify/compare/compare.h"

#include "verify/compare/inside/compare_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct compare_bounds compare_nothing(void) {
  return (struct compare_bounds){.rtol = -1,
                                 .atol = -1,
                                 .max_abs = -1,
                                 .mean_abs = -1,
                                 .least_cosine = NAN,
                                 .least_sqnr_db = NAN,
                                 .least_top1 = NAN,
                                 .most_relative = NAN,
                                 .most_p99 = NAN,
                                 .most_p999 = NAN,
                                 .nonfinite = true};
}

bool compare_wants_close(const struct compare_bounds *b) {
  return b->rtol >= 0 || b->atol >= 0;
}

// ---- judgement ---------------------------------------------------------------------------------

struct verdict {
  char *why; // 256
  size_t n;
  bool failed;
};

static void fail(struct verdict *v, const char *fmt, ...) ERR_PRINTF(2, 3);
static void fail(struct verdict *v, const char *fmt, ...) {
  char text[200];
  va_list args;
  va_start(args, fmt);
  const int n = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  v->failed = true;
  if (n < 0 || v->n + (size_t)n + 3 > COMPARE_WHY) return;
  v->n += (size_t)snprintf(v->why + v->n, COMPARE_WHY - v->n, "%s%s", v->n ? ", " : "", text);
}

// Both in as few digits as tell them apart.
static void fail_bound(struct verdict *v, const char *what, double seen, const char *side,
                       double bound, const char *unit) {
  char text[2][32];
  int digits = 3;
  do {
    snprintf(text[0], sizeof text[0], "%.*g", digits, seen);
    snprintf(text[1], sizeof text[1], "%.*g", digits, bound);
  } while (strcmp(text[0], text[1]) == 0 && digits++ < 17);
  fail(v, "%s %s%s is %s %s%s", what, text[0], unit, side, text[1], unit);
}

// A bound below 0 is none.
static void at_most(struct verdict *v, const char *what, double seen, double bound) {
  if (isnan(bound) || bound < 0 || seen <= bound) return;
  fail_bound(v, what, seen, "above", bound, "");
}

static void at_least(struct verdict *v, const char *what, double seen, double bound,
                     const char *unit) {
  if (isnan(bound) || seen >= bound) return;
  fail_bound(v, what, seen, "below", bound, unit);
}

static void judge_nonfinite(struct verdict *v, const struct compare_figures *f,
                            const struct compare_bounds *b) {
  if (f->nonfinite_apart) {
    fail(v,
         "%s element%s not finite in only one of the two, or not finite in different ways; the "
         "first is element %s",
         decimal(f->nonfinite_apart).s, f->nonfinite_apart == 1 ? " is" : "s are",
         decimal(f->first_apart).s);
    return;
  }
  if (b->nonfinite) return;
  static const char *const of[2] = {"reference", "result"};
  for (unsigned s = 0; s < 2; s++) {
    if (!f->nonfinite[s]) continue;
    fail(v, "%s element%s of the %s %s not finite, the first is element %s",
         decimal(f->nonfinite[s]).s, plural(f->nonfinite[s]), of[s],
         f->nonfinite[s] == 1 ? "is" : "are", decimal(f->first_nonfinite[s]).s);
    return;
  }
}

static uint64_t unequal_of(const struct compare_figures *f, bool zeros_equal) {
  return f->unequal - (zeros_equal ? f->unequal_zeros : 0);
}

static void judge_equal(struct verdict *v, const struct compare_figures *f,
                        const struct compare_bounds *b) {
  const uint64_t unequal = b->equal         ? unequal_of(f, b->zeros_equal)
                           : b->whole_equal ? f->unequal_whole
                                            : 0;
  if (!unequal) return;
  fail(v, "%s of %s element%s differ%s (max abs %.3g at element %s)", decimal(unequal).s,
       decimal(f->count).s, plural(f->count), unequal == 1 ? "s" : "", f->max_abs,
       decimal(f->first_worst).s);
}

// Without rows there is no largest element of one: what is there must be equal.
static void judge_top1(struct verdict *v, const struct compare_figures *f,
                       const struct compare_bounds *b) {
  if (isnan(b->least_top1)) return;
  if (f->has_top1)
    at_least(v, "top-1 agreement", f->top1, b->least_top1, "");
  else if (unequal_of(f, true))
    fail(v, "top-1 has no rows to compare, and %s of %s element%s differ%s",
         decimal(unequal_of(f, true)).s, decimal(f->count).s, plural(f->count),
         unequal_of(f, true) == 1 ? "s" : "");
}

// Of 0 and 1 a step is all there is.
static double most_relative(const struct compare_figures *f, const struct compare_bounds *b) {
  const bool step = b->step && b->most_relative >= 0 && f->largest > 1;
  return b->most_relative + (step ? 1 / f->largest : 0);
}

enum compare_end compare_judge(const struct compare_figures *f, const struct compare_bounds *b,
                               char why[COMPARE_WHY]) {
  why[0] = 0;
  struct verdict v = {.why = why};
  judge_nonfinite(&v, f, b);
  judge_equal(&v, f, b);
  if (compare_wants_close(b) && f->beyond)
    fail(&v, "%s of %s element%s beyond rtol %.3g and atol %.3g", decimal(f->beyond).s,
         decimal(f->count).s, f->count == 1 ? " is" : "s are", b->rtol < 0 ? 0 : b->rtol,
         b->atol < 0 ? 0 : b->atol);
  at_most(&v, "max abs", f->max_abs, b->max_abs);
  at_most(&v, "mean abs", f->mean_abs, b->mean_abs);
  at_most(&v, "p99", f->p99_abs, b->most_p99);
  at_most(&v, "p99.9", f->p999_abs, b->most_p999);
  if (!b->whole_equal || !f->unequal_whole)
    at_most(&v, "relative", f->relative, most_relative(f, b));
  at_least(&v, "cosine", f->cosine, b->least_cosine, "");
  at_least(&v, "SQNR", f->sqnr_db, b->least_sqnr_db, " dB");
  judge_top1(&v, f, b);
  return v.failed ? COMPARE_FAILED : COMPARE_PASSED;
}

// ---- words -------------------------------------------------------------------------------------

static const struct metric {
  const char *name;
  size_t member;
  bool least;    // a bound from below
  bool any_sign; // else it is ≥ 0
} metrics[] = {
    {"max_abs", offsetof(struct compare_bounds, max_abs), false, false},
    {"mean_abs", offsetof(struct compare_bounds, mean_abs), false, false},
    {"p99", offsetof(struct compare_bounds, most_p99), false, false},
    {"p999", offsetof(struct compare_bounds, most_p999), false, false},
    {"relative", offsetof(struct compare_bounds, most_relative), false, false},
    {"cosine", offsetof(struct compare_bounds, least_cosine), true, true},
    {"sqnr", offsetof(struct compare_bounds, least_sqnr_db), true, true},
    {"top1", offsetof(struct compare_bounds, least_top1), true, false},
};
enum { METRICS = sizeof metrics / sizeof *metrics };

static const struct metric *metric_of(struct span name) {
  for (unsigned i = 0; i < METRICS; i++)
    if (span_is(name, metrics[i].name)) return &metrics[i];
  return NULL;
}

static int no_metric(const char *word, struct err *err) {
  err_set(err, ERR_USAGE, "'%s' is not a metric with a bound", quote_str(word).s);
  return err_hint(err, "write one as max_abs=1e-3, mean_abs=1e-4, p99=…, p999=…, relative=…, "
                       "cosine=0.999, sqnr=20 or top1=0.99");
}

int compare_take_metric(struct compare_bounds *b, const char *word, struct err *err) {
  const size_t n = strcspn(word, "<>=");
  const struct metric *m = metric_of(span_of(word, n));
  const char *sign = word + n;
  const bool below = *sign == '<', above = *sign == '>';
  if (below || above) sign++;
  if (!m || *sign != '=') return no_metric(word, err);
  if (m->least ? below : above) {
    err_set(err, ERR_USAGE, "the metric '%s' needs a bound from %s", m->name,
            m->least ? "below" : "above");
    return err_hint(err, "write %s%s%s", m->name, m->least ? ">=" : "<=", sign + 1);
  }
  char *end;
  const double bound = strtod(sign + 1, &end);
  if (end == sign + 1 || *end || !isfinite(bound) || (!m->any_sign && bound < 0))
    return err_set(err, ERR_USAGE, "the bound of '%s' is '%s', which is not a number%s", m->name,
                   quote_str(sign + 1).s, m->any_sign ? "" : " of at least 0");
  if ((m->member == offsetof(struct compare_bounds, least_cosine) ||
       m->member == offsetof(struct compare_bounds, least_top1)) &&
      bound > 1)
    return err_set(err, ERR_USAGE, "the bound of '%s' is %s, but the limit is 1", m->name,
                   quote_str(sign + 1).s);
  memcpy((char *)b + m->member, &bound, sizeof bound);
  return 0;
}
