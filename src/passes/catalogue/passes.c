// The catalogue: the lists of the families, one after the other. Pipeline files, the command line
// and `weir passes` all look here, so that a pass is known everywhere by its row.
//
//   families.def ──▶ nbits_passes, cast_passes, … ──▶ passes_at(0 … passes_count() - 1)
//
// A name with a slash belongs to the family before the slash ("tidy/identity"), and the family's name
// stands for all of its passes, as the name of a set does (pass.keys); a name without a slash is a family of one pass. The passes
// of a family need not be in one list. Names are looked up in an index, as a user may have thousands of passes, and name
// each: that of the families is made with the first look-up, in a place of fixed size. A family or a set is found by a walk over the lists.
#include "passes/catalogue/passes.h"

#include "base/guess.h"
#include "base/table.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

static const struct pass *const *const lists[] = {
#define FAMILY(stem) stem##_passes,
#include "passes/families.def"
};

enum { LISTS = sizeof lists / sizeof lists[0] };

// A word that names a pass, a whole name or one that stands alone or after a dot, in a hash table with open addressing:
// of several passes that have the word, the first.
struct passes_entry {
  struct span word;
  const struct pass *pass;
  uint32_t rank; // among those of its index
  bool alone;
};
struct index {
  struct passes_entry *at;
  size_t cap; // a power of two
};
enum { NAMES_OF_FAMILIES = 4096 };

static const struct pass *const *list_at(const struct own_passes *own, uint32_t l) {
  static const struct pass *const none[] = {NULL};
  return l < LISTS ? lists[l] : own && own->list ? own->list : none;
}

uint32_t passes_count(const struct own_passes *own) {
  uint32_t n = 0;
  for (uint32_t i = 0; i <= LISTS; i++)
    for (const struct pass *const *p = list_at(own, i); *p; p++)
      n++;
  return n;
}

const struct pass *passes_at(const struct own_passes *own, uint32_t i) {
  for (uint32_t l = 0; l <= LISTS; l++)
    for (const struct pass *const *p = list_at(own, l); *p; p++)
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

static bool is_in(const struct pass *pass, struct span set) {
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

static struct passes_entry *entry_of(const struct index *x, struct span word, bool alone) {
  const size_t mask = x->cap - 1;
  size_t i = (size_t)span_hash_mix(span_hash(word), alone) & mask;
  while (x->at[i].pass && (x->at[i].alone != alone || !span_eq(x->at[i].word, word)))
    i = (i + 1) & mask;
  return &x->at[i];
}

static void enter(const struct index *x, const struct pass *pass, uint32_t rank, struct span word,
                  bool alone) {
  if (word.n == 0) return;
  struct passes_entry *e = entry_of(x, word, alone);
  if (!e->pass) *e = (struct passes_entry){word, pass, rank, alone};
}

static size_t count_words(const struct pass *const *list) {
  size_t n = 0;
  for (; *list; list++) {
    n += 3; // its name, what it is called too, its class
    for (uint32_t k = 0; passes_word((*list)->classes, k).n > 0; k++)
      n++;
  }
  return n;
}

static void enter_all(const struct index *x, const struct pass *const *list, uint32_t *rank) {
  for (; *list; list++, ++*rank) {
    enter(x, *list, *rank, span_str((*list)->name), false);
    enter(x, *list, *rank, span_str((*list)->also ? (*list)->also : ""), false);
    enter(x, *list, *rank, passes_class(*list), true);
    for (uint32_t k = 0; passes_word((*list)->classes, k).n > 0; k++)
      enter(x, *list, *rank, passes_word((*list)->classes, k), true);
  }
}

static struct passes_entry names_of_families[NAMES_OF_FAMILIES];

static void enter_families(void) {
  const struct index x = {names_of_families, NAMES_OF_FAMILIES};
  uint32_t rank = 0;
  size_t n = 0;
  for (uint32_t l = 0; l < LISTS; l++)
    n += count_words(lists[l]);
  assert(2 * n <= NAMES_OF_FAMILIES);
  for (uint32_t l = 0; l < LISTS; l++)
    enter_all(&x, lists[l], &rank);
}

void own_passes_set(struct own_passes *own, const struct pass *const *list) {
  uint32_t rank = 0;
  size_t cap = 1;
  while (cap < 2 * (count_words(list) + 1))
    cap *= 2;
  *own = (struct own_passes){.list = list, .cap = cap};
  own->names = table_grow(NULL, &own->room, cap, sizeof *own->names);
  memset(own->names, 0, cap * sizeof *own->names);
  enter_all(&(struct index){own->names, cap}, list, &rank);
}

void own_passes_free(struct own_passes *own) {
  table_free(own->names, own->room, sizeof *own->names);
  *own = (struct own_passes){.list = NULL};
}

// The first pass of an index that has the name (passes_called).
static const struct pass *called_in(const struct index *x, struct span name) {
  const struct passes_entry *whole = entry_of(x, name, false),
                            *last = entry_of(x, span_behind(name, '.'), true);
  if (!whole->pass || (last->pass && last->rank < whole->rank)) return last->pass;
  return whole->pass;
}

static const struct pass *called(const struct own_passes *own, struct span name) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, enter_families);
  const struct pass *pass = called_in(&(struct index){names_of_families, NAMES_OF_FAMILIES}, name);
  return pass || !own || !own->names ? pass
                                     : called_in(&(struct index){own->names, own->cap}, name);
}

const struct pass *passes_named(const struct own_passes *own, struct span name, uint32_t k) {
  const bool set_only = is_set_only(&name);
  const struct pass *one = set_only ? NULL : called(own, name);
  if (one) return k == 0 ? one : NULL;
  for (uint32_t l = 0; l <= LISTS; l++)
    for (const struct pass *const *p = list_at(own, l); *p; p++)
      if (is_in(*p, name) && k-- == 0) return *p;
  return NULL;
}

const struct pass *passes_find(const struct own_passes *own, struct span name) {
  const struct pass *p = passes_named(own, name, 0);
  return p && passes_called(p, name) ? p : NULL;
}

static void guess_span(struct guess *g, struct span word, struct arena *a) {
  if (word.n > 0) guess_try(g, arena_string(a, word));
}

static void guess_words(struct guess *g, const char *list, struct arena *a) {
  for (uint32_t k = 0; passes_word(list, k).n > 0; k++)
    guess_span(g, passes_word(list, k), a);
}

const struct pass *passes_known(const struct own_passes *own, struct span name, struct err *err) {
  struct arena scratch = {0};
  const struct pass *pass = passes_named(own, name, 0);
  if (pass) return pass;
  struct guess g = guess_start(arena_string(&scratch, name));
  for (uint32_t l = 0; l <= LISTS; l++)
    for (const struct pass *const *p = list_at(own, l); *p; p++) {
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
