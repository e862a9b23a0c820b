// What a verification found, for people.
//
// The last line says what share was verified: a script, and a reader in a hurry, look there. What was not verified is
// counted by its reason.
#include "render/runs/render_verified.h"
#include "render/runs/render_verified_tables.h"

#include <string.h>

enum { FAILED_SHOWN = 20, METRICS_SHOWN = 20, REASONS_SHOWN = 8 };

// ---- for people --------------------------------------------------------------------------------

// What it was the last time that it was looked at?
static bool is_last(const struct verified *f, uint32_t i) {
  for (uint32_t k = i + 1; k < f->n_rows; k++)
    if (f->rows[k].has_value && strcmp(f->rows[k].name, f->rows[i].name) == 0) return false;
  return true;
}

static void print_metrics(const struct verified *f) {
  uint64_t met = 0;
  for (uint32_t i = 0; i < f->n_rows; i++) {
    const struct verified_row *r = &f->rows[i];
    if (r->end != VERIFIED_PASSED) continue;
    if (r->has_value && is_last(f, i))
      printf("  metric  %s %.9g (%s; %s)\n", r->name, r->value, quote_str(r->of).s, r->bounds);
    if (r->top1_asked && r->figures.top1 >= r->top1_least && met++ < METRICS_SHOWN)
      printf("  metric  top1 %.4g of '%s', at least %g: %s of %s row%s change%s\n", r->figures.top1,
             quote_str(r->name).s, r->top1_least, decimal(r->top1_changed).s,
             decimal(r->top1_rows).s, plural(r->top1_rows), verified_ties(r->top1_ties).s);
  }
  if (met > METRICS_SHOWN)
    printf("  metric  top1 of %s more, each at its bound or above; --json lists all\n",
           decimal(met - METRICS_SHOWN).s);
}

static void print_failed(const struct verified *f) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n_rows; i++) {
    const struct verified_row *r = &f->rows[i];
    if (r->end != VERIFIED_FAILED || n++ >= FAILED_SHOWN) continue;
    printf("  %s  '%s' (%s): %s%s%s\n", verified_word(r), quote_str(r->name).s, quote_str(r->of).s,
           r->why, r->fault ? "; caused by " : "", r->fault ? r->fault : "");
  }
  if (n > FAILED_SHOWN) printf("  failed  %u more\n", n - FAILED_SHOWN);
}

// By reason: how many, and the first.
static void print_not(const struct verified *f, struct arena *a) {
  const struct verified_row **first = arena_alloc(a, (f->n_rows + (size_t)1) * sizeof *first);
  uint32_t *count = arena_zalloc(a, (f->n_rows + (size_t)1) * sizeof *count), n = 0, more = 0;
  for (uint32_t i = 0; i < f->n_rows; i++) {
    uint32_t k = 0;
    if (f->rows[i].end != VERIFIED_NOT) continue;
    while (k < n && strcmp(first[k]->why, f->rows[i].why) != 0)
      k++;
    if (k == REASONS_SHOWN) {
      more++;
      continue;
    }
    if (k == n) first[n++] = &f->rows[i];
    count[k]++;
  }
  for (uint32_t k = 0; k < n; k++) {
    printf("  not verified  '%s'", quote_str(first[k]->name).s);
    if (count[k] > 1) printf(" and %u more", count[k] - 1);
    printf(": %s\n", first[k]->why);
  }
  if (more) printf("  not verified  %u more, for other reasons\n", more);
}

// All rows lack a bound: the word "verified" is not used then.
static bool is_unjudged(const struct verified *f) {
  return f->n_unjudged > 0 && f->n_passed + f->n_failed + f->n_not == 0;
}

static void print_top1(const struct verified_shown *s) {
  if (s->top1)
    printf("; top-1 changes in %s of %s row%s of '%s'%s", decimal(s->top1->top1_changed).s,
           decimal(s->top1->top1_rows).s, plural(s->top1->top1_rows), quote_str(s->top1->name).s,
           verified_ties(s->top1->top1_ties).s);
}

static void print_shares(const struct verified *f) {
  const uint64_t all = verified_all(f);
  const struct verified_shown s = verified_shown(f);
  if (is_unjudged(f)) {
    printf("not judged (%s): %s of %s %s", s.unjudged, decimal(f->n_unjudged).s, decimal(all).s,
           verified_things(f, all));
  } else {
    printf("verified: %s of %s %s (%.1f %%)", decimal(f->n_passed).s, decimal(all).s,
           verified_things(f, all), 100 * (double)f->n_passed / (double)all);
    if (s.on_drawn) printf(" on drawn inputs");
    if (f->n_failed) printf(", %s failed", decimal(f->n_failed).s);
    if (f->n_not) printf(", %s not verified", decimal(f->n_not).s);
    if (f->n_unjudged) printf(", %s not judged (%s)", decimal(f->n_unjudged).s, s.unjudged);
    if (f->n_left) printf(", %s left out", decimal(f->n_left).s);
  }
  if (f->against)
    printf("; against the model after %s (no runtime has %s)", f->against, f->lacking);
  print_top1(&s);
  if (f->lossy && f->lossy_more) printf("; lossy: %s", f->lossy);
  if (s.as_computed)
    printf("; each site computes what its edit describes; accuracy was not measured");
  if (s.cut_off)
    printf("; %s of them with whole sums of int8 products, which ONNX Runtime cuts off on this "
           "processor (no VNNI; --reduce-range)",
           decimal(s.cut_off).s);
  if (s.rounded)
    printf("; %s of them with float activations, which an optimized session rounds to 8 bits "
           "(MatMulNBits)",
           decimal(s.rounded).s);
  if (f->half_unseen)
    printf("; 16-bit floats are computed in float32 by this runtime: overflow is not seen");
  printf("\n");
}

static void print_rest(const struct verified *f) {
  if (!f->rest.asked) return;
  printf(f->rest.differs ? "no edit explains these differences from SRC (%s)"
                         : "everything that no edit changes is the same as in SRC (%s)",
         quote_path(f->rest.of).s);
  if (f->rest.differs) printf(": the %s", f->rest.first);
  if (f->rest.differs > 1) printf(" and %s more", decimal(f->rest.differs - 1).s);
  printf("\n");
}

// A verdict holds for the runs that were made; this line names one that was not.
static void print_unseen(const struct verified *f) {
  if (f->products_unseen && verified_all(f) > 0)
    printf("not checked: on this processor (no VNNI) an optimized session may cut off sums of int8 "
           "products; %s shows that\n",
           strcmp(f->scope, "sites") == 0 ? "'weir verify SRC OUT --runtime-optimized --inputs DIR'"
                                          : "--runtime-optimized with --inputs DIR");
}

// What an optimized session makes of products by itself.
static void print_rounded(const struct verified *f) {
  if (f->n_rounded == 0) return;
  printf("an optimized session rounds the activations of %s product%s to 8 bits (MatMulNBits, "
         "accuracy level 4)%s\n",
         decimal(f->n_rounded).s, plural(f->n_rounded),
         f->kept_floats ? "; weir turned that off for this comparison" : "");
}

static void print_share(const struct verified *f) {
  const uint64_t all = verified_all(f);
  if (all == 0 && f->n_left)
    printf("verified: nothing, %s site%s left out\n", decimal(f->n_left).s,
           f->n_left == 1 ? " is" : "s are");
  else if (all == 0)
    printf("verified: no edit changes what is computed\n");
  if (all == 0) return;
  printf("%s with ONNX Runtime %s%s: ", is_unjudged(f) ? "compared" : "verified", f->runtime,
         f->cuda ? " on CUDA" : "");
  if (f->drawn.sizes && *f->drawn.sizes)
    printf("%s, seed %s, ", f->drawn.sizes, decimal(f->drawn.seed).s);
  printf("%s, %s of memory and %s in the runtime", quote_seconds(f->seconds).s,
         quote_memory(f->peak_memory[0]).s, quote_memory(f->peak_memory[1]).s);
  if (f->n_helpers) printf(", in %u processes", f->n_helpers + 1);
  printf("\n");
  print_shares(f);
}

void render_verified(const struct verified *f, bool brief) {
  struct arena a = {0};
  if (!brief) render_verified_rows(f, &a);
  print_metrics(f);
  print_failed(f);
  print_not(f, &a);
  render_verified_layers(f, &a);
  print_rest(f);
  print_rounded(f);
  print_unseen(f);
  print_share(f);
  arena_free(&a);
}

// verify_ok=True max_abs=2.384186e-07 max_mean_abs=… seed=102 lengths=64,80
void render_verified_compatible(const struct verified *f) {
  double most[4] = {0};
  for (uint32_t i = 0; i < f->n_rows; i++) {
    const struct compare_figures *c = &f->rows[i].figures;
    const double of[4] = {c->max_abs, c->mean_abs, c->p99_abs, c->p999_abs};
    for (int k = 0; k < 4; k++)
      if (of[k] > most[k]) most[k] = of[k];
  }
  printf("verify_ok=%s max_abs=%.9e max_mean_abs=%.9e max_p99_abs=%.9e max_p999_abs=%.9e seed=%s "
         "lengths=",
         f->n_failed || !f->n_passed ? "False" : "True", most[0], most[1], most[2], most[3],
         decimal(f->drawn.seed).s);
  for (uint32_t i = 0; i < f->drawn.n_lengths; i++)
    printf("%s%s", i ? "," : "", integer(f->drawn.lengths[i]).s);
  printf("\n");
}
