#include "stream/seal/leftovers.h"

#include "stream/seal/seal.h"
#include "stream/staging/staging.h"

#include <stdlib.h>

static char *copy(struct arena *a, const char *s) {
  return s ? arena_string(a, span_str(s)) : NULL;
}

static bool is_removable(const struct leftover *l) {
  return !l->locked && !l->half_sealed;
}

static void count(struct leftovers_sum *t, const struct leftover *l) {
  t->bytes += l->bytes;
  t->runs += !l->orphan_of && !l->finished && !l->planned;
  t->plans += l->planned;
  t->data_files += l->orphan_of != NULL;
}

static int note_leftover(void *ctx, const struct staging_found *found) {
  struct leftovers *c = ctx;
  struct leftover *l = TABLE_PUSH(c, rows);
  *l = (struct leftover){.name = copy(&c->arena, found->name),
                         .resume = copy(&c->arena, found->resume_command),
                         .orphan_of = copy(&c->arena, found->orphan_of),
                         .bytes = found->bytes,
                         .locked = found->locked,
                         .half_sealed = found->half_sealed,
                         .finished = found->finished,
                         .planned = found->planned,
                         .begun = found->begun};
  if (is_removable(l) && !l->finished) count(&c->removable, l);
  c->active += l->locked;
  c->unfinished += !l->locked && l->half_sealed;
  return 0;
}

// Folders are read in an order of their own.
static int compare_names(const void *pa, const void *pb) {
  const struct leftover *a = pa, *b = pb;
  return strcmp(a->name, b->name);
}

struct naming {
  struct leftovers *c;
  struct leftover *of;
};

static int note_file(void *ctx, const char *name, uint64_t bytes) {
  struct naming *n = ctx;
  for (size_t i = 0; i < n->c->n_rows; i++)
    if (strcmp(n->c->rows[i].name, name) == 0) return 0; // an orphan, with a row of its own
  struct leftover_file *f = arena_alloc(&n->c->arena, sizeof *f);
  struct leftover_file **at = &n->of->files;
  while (*at && strcmp((*at)->name, name) < 0)
    at = &(*at)->next;
  *f = (struct leftover_file){.name = copy(&n->c->arena, name), .bytes = bytes, .next = *at};
  *at = f;
  return 0;
}

static void note_files(struct leftovers *c, const char *dir) {
  for (size_t i = 0; i < c->n_rows; i++) {
    struct leftover *l = &c->rows[i];
    struct naming n = {c, l};
    if (!l->locked && !l->orphan_of) seal_left_each(dir, l->name, note_file, &n);
  }
}

int leftovers_list(struct leftovers *c, const char *dir, struct err *err) {
  *c = (struct leftovers){0};
  const int rc = staging_scan(dir, note_leftover, c, err);
  if (c->n_rows > 0) qsort(c->rows, c->n_rows, sizeof *c->rows, compare_names);
  if (rc == 0) note_files(c, dir);
  return rc;
}

void leftovers_done(struct leftovers *c) {
  TABLE_FREE(c, rows);
  arena_free(&c->arena);
}

const struct err *leftovers_remove(struct leftovers *c, const char *dir, bool all) {
  const struct err *first = NULL;
  for (size_t i = 0; i < c->n_rows; i++) {
    struct leftover *l = &c->rows[i];
    struct err why = {0};
    if (!is_removable(l) || (!all && !l->finished)) continue;
    l->removed = staging_remove_named(dir, l->name, &why) == 0;
    if (l->removed && !l->finished) count(&c->removed, l);
    if (l->removed) continue;
    l->failed = arena_copy(&c->arena, &why, sizeof why);
    if (!first) first = l->failed;
  }
  return first;
}
