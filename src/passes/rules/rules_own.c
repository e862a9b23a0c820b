// A user's rules as passes. The book is compiled as the house's is, but while weir runs; rows of the
// catalogue are made of it here and not in a file of C. They run by the same function (rules_pass.c),
// which takes the book from the pass.
#include "passes/rules/rules_own.h"

#include "passes/rules/compile/rules_tables.h"
#include "passes/rules/inside/rules_pass.h"
#include "passes/rules/rules.h"

#include <string.h>

static const char *promise_of(uint8_t exactness) {
  static const char *const promises[EXACTNESSES] = {
      [EXACTNESS_EXACT] = "the same bits for all inputs",
      [EXACTNESS_ZERO] = "the same results except for the sign of zeros and the bits of NaNs",
      [EXACTNESS_ROUNDING] = "the same results up to rounding, for finite inputs",
      [EXACTNESS_FINITE] = ("the same if no value is NaN or infinite, no divisor is zero, and no "
                            "comparison is so close that rounding decides it")};
  return promises[exactness];
}

// The k-th word of a list with blanks between; n 0: there are fewer.
static struct span word_of(const char *list, uint32_t k) {
  for (;; k--) {
    const size_t n = strcspn(list, " ");
    if (k == 0) return span_of(list, n);
    list += n + strspn(list + n, " ");
  }
}

static bool has_word(const char *list, struct span word) {
  for (uint32_t k = 0; word_of(list, k).n > 0; k++)
    if (span_eq(word_of(list, k), word)) return true;
  return false;
}

// The sets of a pass, but for its family, whose name says it, and what is no set.
static const char *keys_of(const struct rules_pass *p, struct arena *a) {
  const char *keys = NULL;
  struct span word;
  for (uint32_t k = 0; (word = word_of(p->keys, k)).n > 0; k++) {
    const bool family = span_eq(word, span_of(p->name, strcspn(p->name, "/")));
    if (family || span_is(word, "none") || span_is(word, "infers")) continue;
    keys = arena_printf(a, "%s%s%.*s", keys ? keys : "", keys ? " " : "", (int)word.n,
                        (const char *)word.at);
  }
  return keys;
}

static struct pass row_of(const struct rules_book *book, const struct rules_pass *p,
                          struct arena *a) {
  const bool infers = has_word(p->keys, span_str("infers"));
  const char *summary = p->summary[0] ? p->summary : "rules of your own";
  return (struct pass){.name = p->name,
                       .keys = keys_of(p, a),
                       .rules = p->texts,
                       .book = book,
                       .infers = infers,
                       .summary = summary,
                       .about = arena_printf(a, "%s.", summary),
                       .needs = infers ? "types and shapes, which the pass infers" : "nothing",
                       .promises = promise_of(p->exactness),
                       .exactness = (enum exactness)p->most,
                       .loosest = (enum exactness)p->exactness,
                       NAME_FILTER_ALONE,
                       .run_together = rules_pass_run};
}

int rules_own(const struct rules_text *texts, uint32_t n,
              const char *(*objection)(const char *name), struct arena *a,
              const struct pass *const **passes, struct err *err) {
  struct rules_book *book = arena_zalloc(a, sizeof *book);
  const struct rules_naming naming = {.own = true, .objection = objection};
  if (rules_compile(texts, n, &naming, a, book, err)) return -1;
  struct pass *rows = arena_zalloc(a, (book->n_passes + 1) * sizeof *rows);
  const struct pass **list = arena_zalloc(a, (book->n_passes + 1) * sizeof *list);
  for (uint32_t i = 0; i < book->n_passes; i++) {
    rows[i] = row_of(book, &book->passes[i], a);
    rows[i].at = i;
    list[i] = &rows[i];
  }
  *passes = list;
  return 0;
}

static const char *sets_of(const struct pass *pass) {
  return pass->book->passes[pass->at].keys;
}

bool rules_own_together(const struct pass *a, const struct pass *b) {
  if (a->book != b->book) return false;
  if (!a->book || a == b) return true;
  struct span word;
  for (uint32_t k = 0; (word = word_of(sets_of(a), k)).n > 0; k++)
    if (!span_is(word, "none") && !span_is(word, "infers") && has_word(sets_of(b), word))
      return true;
  return false;
}

bool rules_own_alike(const struct pass *a, const struct pass *b) {
  return a->book && a->book == b->book && strcmp(sets_of(a), sets_of(b)) == 0;
}
