// Checks the files of an interrupted run before they become a model.
//
//   entries   a plain file of ours, with one name?          else: refused, by name
//   units     the bytes that a record has digests of?       else: made again
//
// A kill alone leaves nothing wrong. A disk does, or a tool that copies files back and forth, or
// another user: days may pass between the interrupted run and the one that continues it. The check reads
// the written bytes once, and only a run that continues makes it. seal_check.c checks the files of an
// unfinished seal.
#include "stream/staging/inside/records.h"
#include "stream/staging/staging.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

// ---- entries ----

int staging_check_owner(const struct staging *st, struct err *err) {
  const struct folder folder = st->folder;
  struct entry_facts at;
  if (folder_look(folder, &at))
    return err_errno(err, errno, ERR_IO, "cannot examine '%s'", quote_str(st->name).s);
  at.kind = ENTRY_FILE; // a folder has links of its own
  at.names = 1;
  const char *wrong = fs_not_own(folder, &at);
  if (!wrong) return 0;
  err_set(err, ERR_PERMISSION, "the staging folder '%s' in '%s' %s", quote_str(st->name).s,
          quote_str(st->dest_path).s, wrong);
  return err_hint(err, "its owner could change the files in it: remove the folder");
}

struct looking {
  const struct staging *st;
  struct folder folder;
  const char *inside; // "artifacts/", or ""
  bool sealed;        // there is a seal.json
  struct err *err;
};

// What a seal is moving may have another name in the destination by now, and the owner of what it
// replaces. Nothing is written to it any more, and its digests are compared (seal_check.c).
static bool is_being_placed(const struct looking *l, const char *name,
                            const struct entry_facts *at) {
  return l->sealed && at->names <= 2 && strcmp(name, "lock") != 0 &&
         strcmp(name, STAGING_INTENT) != 0;
}

static int look_at_entry(void *ctx, const char *name);

static int look_in_artifacts(const struct looking *l, const char *name) {
  struct folder fd = folder_open(l->folder, name, FILE_NO_LINK);
  if (!folder_is_open(fd))
    return err_errno(l->err, errno, ERR_IO, "cannot open '%s' in '%s'", quote_str(name).s,
                     quote_str(l->st->name).s);
  struct looking in = {.st = l->st, .folder = fd, .inside = "artifacts/", .err = l->err};
  const int bad = fs_list(fd, look_at_entry, &in, name, l->err);
  folder_close(&fd);
  return bad;
}

static int look_at_entry(void *ctx, const char *name) {
  const struct looking *l = ctx;
  struct entry_facts at;
  const struct folder folder = l->folder;
  if (entry_look(folder, name, FILE_NO_LINK, &at)) return 0; // gone meanwhile
  if (at.kind == ENTRY_FOLDER && !l->inside[0] && strcmp(name, "artifacts") == 0)
    return look_in_artifacts(l, name);
  if (is_being_placed(l, name, &at)) {
    at.names = 1;
    at.owner = process_owner();
  }
  const char *wrong = fs_not_own(folder, &at);
  if (!wrong) return 0;
  err_set(l->err, ERR_PERMISSION, "'%s%s' in '%s' %s: weir did not create it", l->inside,
          quote_str(name).s, quote_str(l->st->name).s, wrong);
  return err_because(l->err, REASON_NOT_OURS);
}

int staging_check_entries(const struct staging *st, struct err *err) {
  if (staging_check_owner(st, err)) return -1;
  struct looking l = {.st = st, .folder = st->folder, .inside = "", .err = err};
  l.sealed = staging_has(st->folder, STAGING_INTENT);
  return fs_list(st->folder, look_at_entry, &l, st->name, err) ? -1 : 0;
}

// ---- units ----

// Of several records of one unit:
//
//   record 3: d0ce…      the bytes are 71a2…  ──▶  record 17 holds; record 3 was of bytes that are gone
//   record 17: 71a2…
//
// Two machines that disagree leave such a pair, and so does anyone who adds a record. The bytes become
// the model, so they are hashed, whatever else is taken on trust.
struct checking {
  struct staging *st;
  const struct reread_work *asked;
  uint32_t *of;                // unit of each row
  uint8_t (*is)[DIGEST_BYTES]; // what was found, row by row
};

static int by_unit(const void *a, const void *b) {
  const struct staging_other *x = a, *y = b;
  if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
  return memcmp(x->digest, y->digest, DIGEST_BYTES);
}

// The first of the others that is about a unit: the end, if none is.
static uint32_t first_other(const struct staging_others *o, uint32_t unit) {
  uint32_t i;
  BISECT(i, o->n_rows, o->rows[i].unit < unit);
  return i;
}

static bool is_contrary(const struct staging_others *o, uint32_t unit) {
  const uint32_t at = first_other(o, unit);
  return at < o->n_rows && o->rows[at].unit == unit;
}

static void keep_digest(void *ctx, uint32_t row, const uint8_t *sha256, int why) {
  const struct checking *c = ctx;
  if (why == 0 && sha256) memcpy(c->is[row], sha256, DIGEST_BYTES);
}

static void tick(void *ctx, uint64_t done, uint64_t total) {
  const struct checking *c = ctx;
  if (c->asked->tick) c->asked->tick(c->asked->ctx, done, total);
}

// Is one of the other records right? Then it takes the place of the first.
static bool take_other(struct staging *st, uint32_t unit, const uint8_t is[DIGEST_BYTES]) {
  struct staging_other key = {.unit = unit};
  struct staging_others *o = &st->others;
  memcpy(key.digest, is, DIGEST_BYTES);
  const struct staging_other *other =
      o->n_rows ? bsearch(&key, o->rows, o->n_rows, sizeof key, by_unit) : NULL;
  if (!other) return false;
  memcpy(st->digests[unit], is, DIGEST_BYTES);
  figure_sums_put_unit(&st->errors, unit, &other->errors);
  return true;
}

static uint32_t list_units(struct checking *c, const struct plan *p, enum staging_which which,
                           struct reread_known *rows, struct staging_checked *out) {
  const struct staging *st = c->st;
  uint32_t n = 0;
  for (uint32_t i = 0; i < st->n_units; i++) {
    if (!st->done[i] || (st->leave && st->leave[i])) continue;
    const bool contrary = is_contrary(&st->others, i);
    if (which == STAGING_CONTRARY_UNITS && !contrary) continue;
    const struct plan_unit unit = plan_unit_at(p, i);
    c->of[n] = i;
    out->contrary += contrary;
    rows[n++] = (struct reread_known){.file = staging_output_fd(st, unit.output),
                                      .off = unit.off,
                                      .len = unit.len,
                                      .sha256 = st->digests[i]};
  }
  return n;
}

int staging_check_units(struct staging *st, const struct plan *p, enum staging_which which,
                        const struct reread_work *work, struct staging_checked *out,
                        struct err *err) {
  struct arena scratch = {0};
  struct reread_known *rows = arena_alloc(&scratch, (st->n_units + 1) * sizeof *rows);
  struct checking c = {.st = st, .asked = work};
  c.of = arena_alloc(&scratch, (st->n_units + 1) * sizeof *c.of);
  c.is = arena_zalloc(&scratch, (st->n_units + (size_t)1) * DIGEST_BYTES);
  *out = (struct staging_checked){.read = 0};
  if (st->others.n_rows)
    qsort(st->others.rows, st->others.n_rows, sizeof *st->others.rows, by_unit);
  const uint32_t n = list_units(&c, p, which, rows, out);
  struct reread_work own = *work;
  own.done = keep_digest;
  own.tick = tick;
  own.ctx = &c;
  const bool all = reread_compare(rows, n, &own);
  for (uint32_t i = 0; all && i < n; i++) {
    if (!rows[i].differs || take_other(st, c.of[i], c.is[i])) continue;
    st->done[c.of[i]] = 0;
    out->forgotten++;
  }
  out->read = n;
  arena_free(&scratch);
  if (all) return 0;
  return err_set(err, ERR_RETRY, "interrupted while checking the work of an earlier run");
}

// ---- times ----

struct newest {
  struct folder folder;
  int64_t record_ns;
};

static int see_record(void *ctx, const char *name) {
  struct newest *n = ctx;
  struct entry_facts at;
  if (records_is_name(name) && entry_look(n->folder, name, FILE_NO_LINK, &at) == 0 &&
      at.changed_ns > n->record_ns)
    n->record_ns = at.changed_ns;
  return 0;
}

bool staging_is_newer_than_records(const struct staging *st, const struct plan *p) {
  struct newest n = {.folder = st->folder};
  struct err ignored = {0};
  struct entry_facts at;
  if (fs_list(st->folder, see_record, &n, st->name, &ignored)) return true;
  for (uint32_t i = 0; i < p->n_outputs; i++)
    if (entry_look(st->folder, p->outputs[i].name, FILE_NO_LINK, &at) ||
        n.record_ns <= at.changed_ns)
      return true;
  return false;
}
