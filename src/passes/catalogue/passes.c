// The catalogue: the lists of the families, one after the other. Pipeline files, the command line
// and `weir passes` all look here, so that a pass is known everywhere by its row.
//
//   families.def ──▶ nbits_passes, cast_passes, … ──▶ passes_at(0 … passes_count() - 1)
//
// A name with a slash belongs to the family before the slash ("tidy/identity"), and the family's name
// stands for all of its passes, as the name of a set does (pass.keys); a name without a slash is a family of one pass. The passes
// of a family need not be in one list. Names are looked up in an index, which is made with the first look-up: a user may
// add thousands of passes, and name each. A family or a set is found by a walk over the lists.
#include "passes/catalogue/passes.h"

#include "base/guess.h"
#include "base/table.h"

#include <stdlib.h>
#include <string.h>

static const struct pass *const *const lists[] = {
#define FAMILY(stem) stem##_passes,
#include "passes/families.def"
#undef FAMILY
};

enum { LISTS = sizeof lists / sizeof lists[0] };

// Passes that a user added: they come after all others.
static const struct pass *const none[] = {NULL};
static const struct pass *const *extra = none;

// The words that name a pass: whole names, and words that stand alone or after a dot. A hash table with
// open addressing; a word's entry is the first pass that has the word.
static struct {
  struct entry {
    struct span word;
    const struct pass *pass;
    uint32_t rank; // in the catalogue
    bool alone;
  } * at;
  size_t cap, room; // a power of two, 0: there is no index yet; rows that memory was taken for
} index_of_names;

void passes_extend(const struct pass *const *list) {
  extra = list ? list : none;
  table_free(index_of_names.at, index_of_names.room, sizeof *index_of_names.at);
  index_of_names.at = NULL;
  index_of_names.cap = index_of_names.room = 0;
}

static const struct pass *const *list_at(uint32_t l) {
  return l < LISTS ? lists[l] : extra;
}

uint32_t passes_count(void) {
  uint32_t n = 0;
  for (uint32_t i = 0; i <= LISTS; i++)
    for (const struct pass *const *p = list_at(i); *p; p++)
      n++;
  return n;
}

const struct pass *passes_at(uint32_t i) {
  for (uint32_t l = 0; l <= LISTS; l++)
    for (const struct pass *const *p = list_at(l); *p; p++)
      if (i-- == 0) return *p;
  return NULL;
}

struct span passes_family(const struct pass *pass) {
  return span_of(pass->name, strcspn(pass->name, "/"));
}

struct span passes_word(const char *list, uint32_t k) {
  struct span word = span_str("");
  for (const char *at = list ? list : ""; *at;) {
    word = span_of(at, strcspn(at, " "));
    if (k-- == 0) return word;
    at += word.n + strspn(at + word.n, " ");
  }
  return span_str("");
}

static bool has_word(const char *list, struct span word) {
  for (uint32_t k = 0;; k++) {
    const struct span w = passes_word(list, k);
    if (w.n == 0) return false;
    if (span_eq(w, word)) return true;
  }
}

// Classes begin with a capital letter, and nothing else after a slash does.
struct span passes_class(const struct pass *pass) {
  const char *slash = strchr(pass->name, '/');
  return span_str(slash && slash[1] >= 'A' && slash[1] <= 'Z' ? slash + 1 : "");
}

bool passes_called(const struct pass *pass, struct span name) {
  if (span_is(name, pass->name) || (pass->also && span_is(name, pass->also))) return true;
  const struct span last = span_behind(name, '.');
  if (last.n == 0) return false;
  return span_eq(last, passes_class(pass)) || has_word(pass->classes, last);
}

bool passes_is_in(const struct pass *pass, struct span set) {
  return set.n > 0 && (span_eq(set, passes_family(pass)) || has_word(pass->keys, set));
}

bool passes_rounds_in(const struct pass *pass, const char *reason) {
  return has_word(pass->activations_in, span_str(reason));
}

// "family:reorder": returns what comes after the colon, which is no pass then.
static bool is_set_only(struct span *name) {
  static const char word[] = "family:";
  if (name->n < sizeof word - 1 || memcmp(name->at, word, sizeof word - 1) != 0) return false;
  *name = span_of(name->at + sizeof word - 1, name->n - (sizeof word - 1));
  return true;
}

static struct entry *entry_of(struct span word, bool alone) {
  const size_t mask = index_of_names.cap - 1;
  size_t i = (size_t)span_hash_mix(span_hash(word), alone) & mask;
  struct entry *at = index_of_names.at;
  while (at[i].pass && (at[i].alone != alone || !span_eq(at[i].word, word)))
    i = (i + 1) & mask;
  return &at[i];
}

static void enter(const struct pass *pass, uint32_t rank, struct span word, bool alone) {
  if (word.n == 0) return;
  struct entry *e = entry_of(word, alone);
  if (!e->pass) *e = (struct entry){word, pass, rank, alone};
}

static size_t count_words(const struct pass *pass) {
  size_t n = 3; // its name, what it is called too, its class
  while (passes_word(pass->classes, (uint32_t)n - 3).n > 0)
    n++;
  return n;
}

static void make_index(void) {
  size_t n = 1, cap = 1;
  uint32_t rank = 0;
  for (uint32_t l = 0; l <= LISTS; l++)
    for (const struct pass *const *p = list_at(l); *p; p++)
      n += count_words(*p);
  while (cap < 2 * n)
    cap *= 2;
  index_of_names.at = table_grow(NULL, &index_of_names.room, cap, sizeof *index_of_names.at);
  index_of_names.cap = cap;
  memset(index_of_names.at, 0, cap * sizeof *index_of_names.at);
  for (uint32_t l = 0; l <= LISTS; l++)
    for (const struct pass *const *p = list_at(l); *p; p++, rank++) {
      enter(*p, rank, span_str((*p)->name), false);
      enter(*p, rank, span_str((*p)->also ? (*p)->also : ""), false);
      enter(*p, rank, passes_class(*p), true);
      for (uint32_t k = 0; passes_word((*p)->classes, k).n > 0; k++)
        enter(*p, rank, passes_word((*p)->classes, k), true);
    }
}

// The first pass that has the name (passes_called).
static const struct pass *called(struct span name) {
  if (index_of_names.cap == 0) make_index();
  const struct entry *whole = entry_of(name, false), *last = entry_of(span_behind(name, '.'), true);
  if (!whole->pass || (last->pass && last->rank < whole->rank)) return last->pass;
  return whole->pass;
}

const struct pass *passes_named(struct span name, uint32_t k) {
  const bool set_only = is_set_only(&name);
  const struct pass *one = set_only ? NULL : called(name);
  if (one) return k == 0 ? one : NULL;
  for (uint32_t l = 0; l <= LISTS; l++)
    for (const struct pass *const *p = list_at(l); *p; p++)
      if (passes_is_in(*p, name) && k-- == 0) return *p;
  return NULL;
}

const struct pass *passes_find(struct span name) {
  const struct pass *p = passes_named(name, 0);
  return p && passes_called(p, name) ? p : NULL;
}

static void guess_span(struct guess *g, struct span word, struct arena *a) {
  if (word.n > 0) guess_try(g, arena_string(a, word));
}

static void guess_words(struct guess *g, const char *list, struct arena *a) {
  for (uint32_t k = 0; passes_word(list, k).n > 0; k++)
    guess_span(g, passes_word(list, k), a);
}

const struct pass *passes_known(struct span name, struct err *err) {
  struct arena scratch = {0};
  const struct pass *pass = passes_named(name, 0);
  if (pass) return pass;
  struct guess g = guess_start(arena_string(&scratch, name));
  for (uint32_t l = 0; l <= LISTS; l++)
    for (const struct pass *const *p = list_at(l); *p; p++) {
      guess_try(&g, arena_string(&scratch, passes_family(*p)));
      guess_try(&g, (*p)->name);
      guess_span(&g, passes_class(*p), &scratch);
      guess_words(&g, (*p)->keys, &scratch);
      guess_words(&g, (*p)->classes, &scratch);
    }
  err_fill(err, ERR_USAGE, "pass '%s' does not exist", quote(name).s);
  if (memchr(name.at, ',', name.n))
    err_fill_hint(err, "give one name for each --pass: --pass A --pass B");
  else if (g.best)
    err_fill_hint(err, "did you mean '%s'?", g.best);
  else
    err_fill_hint(err, "'weir passes' lists the passes");
  arena_free(&scratch);
  return NULL;
}
