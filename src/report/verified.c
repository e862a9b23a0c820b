// What rows of a verification say together: how many, and what that shows.
#include "report/verified.h"

#include <stdio.h>
#include <string.h>

static const double TOP1_TOLD = 0.99;

void verified_count(struct verified *v, enum verified_end end) {
  *(end == VERIFIED_PASSED   ? &v->n_passed
    : end == VERIFIED_FAILED ? &v->n_failed
    : end == VERIFIED_NOT    ? &v->n_not
                             : &v->n_unjudged) += 1;
}

uint64_t verified_all(const struct verified *v) {
  return v->n_passed + v->n_failed + v->n_not + v->n_unjudged;
}

const char *verified_things(const struct verified *v, uint64_t n) {
  const bool one = n == 1;
  if (!v->scope || strcmp(v->scope, "model") == 0) return one ? "output" : "outputs";
  if (strcmp(v->scope, "sites") == 0) return one ? "site" : "sites";
  return one ? "site or output" : "sites and outputs";
}

static double kept_of(const struct verified_row *r) {
  return 1 - (double)r->top1_changed / (double)r->top1_rows;
}

struct verified_shown verified_shown(const struct verified *v) {
  struct verified_shown s = {.unjudged = NULL};
  bool sites = false, measured = false, alarming = false;
  for (uint32_t i = 0; i < v->n_rows; i++) {
    const struct verified_row *r = &v->rows[i];
    const bool passed = r->end == VERIFIED_PASSED;
    s.cut_off += passed && r->cut_off;
    s.rounded += passed && r->rounded;
    sites = sites || (passed && r->loses && !r->output);
    measured = measured || (passed && r->loses && r->output && !r->drawn);
    s.on_drawn = s.on_drawn || (passed && r->loses && r->output && r->drawn);
    if (r->end == VERIFIED_UNJUDGED && (!s.unjudged || (r->figures.nonfinite_apart && !alarming))) {
      s.unjudged = r->why;
      alarming = r->figures.nonfinite_apart > 0;
    }
    if (r->top1_rows && kept_of(r) < TOP1_TOLD && (!s.top1 || kept_of(r) < kept_of(s.top1)))
      s.top1 = r;
  }
  s.as_computed = sites && !measured;
  return s;
}

struct verified_ties verified_ties(uint64_t n) {
  struct verified_ties t = {""};
  if (n) snprintf(t.s, sizeof t.s, " (%s tie%s left out)", decimal(n).s, plural(n));
  return t;
}

bool verified_differs(const struct verified_row *r) {
  return r->end == VERIFIED_FAILED && r->output && r->loses && r->figures.count > 0;
}

const char *verified_word(const struct verified_row *r) {
  switch (r->end) {
  case VERIFIED_PASSED: return "passed";
  case VERIFIED_FAILED: return verified_differs(r) ? "differs" : "failed";
  case VERIFIED_NOT: return "not verified";
  default: return "not judged";
  }
}
