// A model whose data file keeps its name.
//
// x.onnx and x.onnx.data are to be replaced by others of the same names, and no call renames two files.
// So the new model is there under a name for its data that nobody has, and moves from there:
//
//                               x.onnx              x.onnx.data   x.onnk3v9q1z8
//   1  link                     old: x.onnx.data    old           new
//   2  rename  ◀ commit         passage: x.onnk3…   old           new
//   3  rename                   passage             new           new (one file with two names)
//   4  rename                   new: x.onnx.data    new           new
//   5  unlink                   new                 new           –
//
// with the folder synced behind each. The .onnx of the passage is the new one with the other name in
// it: both have one length, so that it is written by looking for the location entries and needs no
// model. A location that only looks like one (in a doc string) has another text for the while between
// 2 and 4, and no other consequence.
//
// Without hard links, 1 is a copy, made in the staging folder and renamed out of it whole.

#include "base/digest.h"
#include "base/varint.h"
#include "plan/plan.h"
#include "stream/seal/inside/seal_parts.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdio.h>

enum { WINDOW = 1 << 20, TRIES = 256, TAIL = 8 };

#define PASSAGE_NAME "passage.onnx"
#define COPY_NAME "passage.copy"

// ---- names -------------------------------------------------------------------------------------

static bool is_free(const struct seal_intent *s, const struct staging *st, const char *name) {
  for (uint32_t i = 0; i < s->n_moves; i++)
    if (strcmp(s->moves[i].name, name) == 0 ||
        (s->moves[i].via && strcmp(s->moves[i].via, name) == 0))
      return false;
  return !staging_has(st->dest, name);
}

// Its last characters, as many as make TAIL bytes or more, are others: by the plan, so that it is the
// same in every run.
static void rename_tail(char *name, const uint8_t plan_id[DIGEST_BYTES], unsigned attempt) {
  const size_t n = strlen(name);
  size_t at = n > TAIL ? n - TAIL : 0;
  while (at > 0 && ((uint8_t)name[at] & 0xc0) == 0x80)
    at--;
  uint8_t sum[DIGEST_BYTES];
  struct digest *d = digest_new();
  digest_add(d, plan_id, DIGEST_BYTES);
  digest_add(d, name, n);
  digest_add(d, &attempt, sizeof attempt);
  digest_finish(d, sum);
  for (size_t i = 0; at < n; at++, i++)
    name[at] = "0123456789abcdefghijklmnopqrstuvwxyz"[sum[i % DIGEST_BYTES] % 36];
}

int passage_plan(struct seal_intent *s, const struct staging *st, struct seal_move *m,
                 struct err *err) {
  for (unsigned attempt = 0; attempt < TRIES; attempt++) {
    char *via = arena_string(&s->arena, span_str(m->name));
    rename_tail(via, s->plan_id, attempt);
    if (!is_free(s, st, via)) continue;
    m->via = via;
    return 0;
  }
  return err_set(err, ERR_FAIL,
                 "'%s' in '%s' cannot be replaced: no free name of the same length is left for "
                 "the new data during the run",
                 quote_str(m->name).s, quote_str(st->dest_path).s);
}

bool passage_is_name(const uint8_t plan_id[DIGEST_BYTES], const char *of, const char *name) {
  char via[256];
  if (strlen(of) != strlen(name) || strlen(of) >= sizeof via) return false;
  for (unsigned attempt = 0; attempt < TRIES; attempt++) {
    memcpy(via, of, strlen(of) + 1);
    rename_tail(via, plan_id, attempt);
    if (strcmp(via, name) == 0) return true;
  }
  return false;
}

// ---- the .onnx of the passage ------------------------------------------------------------------

// A location entry as it lies in the .onnx: StringStringEntryProto{key: "location", value: name}.
struct entry {
  uint8_t from[512], to[512];
  size_t n;
  bool found;
};

static void entry_make(struct entry *e, const char *name, const char *via) {
  static const uint8_t key[] = {0x0a, 8, 'l', 'o', 'c', 'a', 't', 'i', 'o', 'n', 0x12};
  const size_t n = strlen(name);
  memcpy(e->from, key, sizeof key);
  uint8_t *at = varint_put(e->from + sizeof key, n);
  memcpy(e->to, e->from, (size_t)(at - e->from));
  memcpy(at, name, n);
  memcpy(e->to + (at - e->from), via, n);
  e->n = (size_t)(at - e->from) + n;
  e->found = false;
}

// All entries in buf become the others. They have one length, and one is no part of another.
static void replace_all(struct entry *e, uint8_t *buf, size_t n) {
  const struct span from = span_of(e->from, e->n);
  size_t i = 0;
  for (const uint8_t *at; (at = span_find(span_of(buf + i, n - i), from)); i += e->n) {
    i = (size_t)(at - buf);
    memcpy(buf + i, e->to, e->n);
    e->found = true;
  }
}

struct rewriting {
  struct entry *entries;
  uint32_t n;
  size_t longest;
  struct digest *unit;
  uint8_t (*digests)[DIGEST_BYTES];
  uint64_t written;
};

// Bytes that are final go out; a unit's digest is taken where it ends.
static int put(struct rewriting *w, struct file out, const uint8_t *at, size_t n, struct err *err) {
  if (fs_write_all(out, at, n, PASSAGE_NAME, err)) return -1;
  while (n > 0) {
    const size_t take = (size_t)min_u64(n, PLAN_UNIT_BYTES - w->written % PLAN_UNIT_BYTES);
    if (w->written % PLAN_UNIT_BYTES == 0) digest_start(w->unit);
    digest_add(w->unit, at, take);
    w->written += take;
    if (w->written % PLAN_UNIT_BYTES == 0)
      digest_end(w->unit, w->digests[w->written / PLAN_UNIT_BYTES - 1]);
    at += take;
    n -= take;
  }
  return 0;
}

// Windows overlap by an entry's length less one, as in name_scan.c.
static int rewrite(struct rewriting *w, struct file in, struct file out, uint8_t *buf,
                   struct err *err) {
  size_t kept = 0;
  for (;;) {
    const int64_t got = file_read(in, buf + kept, WINDOW - kept);
    if (got < 0) return err_errno(err, errno, ERR_IO, "cannot read the staged .onnx");
    const size_t have = kept + (size_t)got;
    for (uint32_t i = 0; i < w->n; i++)
      replace_all(&w->entries[i], buf, have);
    kept = got == 0 ? 0 : have < w->longest ? have : w->longest - 1;
    if (put(w, out, buf, have - kept, err)) return -1;
    if (got == 0) break;
    memmove(buf, buf + have - kept, kept);
  }
  if (w->written % PLAN_UNIT_BYTES) digest_end(w->unit, w->digests[w->written / PLAN_UNIT_BYTES]);
  return file_sync(out) ? err_errno(err, errno, ERR_IO, "cannot sync '%s'", PASSAGE_NAME) : 0;
}

static int write_passage(struct seal_intent *s, const struct staging *st,
                         const struct seal_move *onnx, struct entry *entries, uint32_t n,
                         struct err *err) {
  struct file in = file_open(st->folder, onnx->name, FILE_NO_LINK);
  if (!file_is_open(in))
    return err_errno(err, errno, ERR_IO, "cannot open the staged '%s'", quote_str(onnx->name).s);
  struct arena scratch = {0};
  struct rewriting w = {.entries = entries, .n = n, .unit = digest_new()};
  uint8_t *buf = arena_alloc(&scratch, WINDOW);
  for (uint32_t i = 0; i < n; i++)
    if (entries[i].n > w.longest) w.longest = entries[i].n;
  w.digests = arena_alloc(&s->arena, onnx->n_units * DIGEST_BYTES + 1);
  struct entry_facts at;
  struct file out = fs_make_own(st->folder, PASSAGE_NAME, 0, err);
  int rc = !file_is_open(out) ? -1 : rewrite(&w, in, out, buf, err);
  if (rc == 0 && file_look(out, &at))
    rc = err_errno(err, errno, ERR_IO, "cannot examine '%s'", PASSAGE_NAME);
  file_close(&in);
  file_close(&out);
  digest_free(w.unit);
  arena_free(&scratch);
  if (rc) return -1;
  s->passage = (struct seal_move){.name = PASSAGE_NAME,
                                  .role = SEAL_ONNX,
                                  .size = w.written,
                                  .inode = (uint64_t)at.number,
                                  .units = (const uint8_t(*)[DIGEST_BYTES])w.digests,
                                  .n_units = onnx->n_units};
  return 0;
}

static const struct seal_move *move_of_onnx(const struct seal_intent *s) {
  const struct seal_move *m = s->moves;
  while (m->role != SEAL_ONNX)
    m++;
  return m;
}

int passage_write(struct seal_intent *s, const struct staging *st, struct err *err) {
  struct arena scratch = {0};
  struct entry *entries = arena_alloc(&scratch, s->n_moves * sizeof *entries + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n_moves; i++)
    if (s->moves[i].via) entry_make(&entries[n++], s->moves[i].name, s->moves[i].via);
  int rc = n ? write_passage(s, st, move_of_onnx(s), entries, n, err) : 0;
  for (uint32_t i = 0; i < n && rc == 0; i++)
    if (!entries[i].found)
      rc = err_set(err, ERR_INTERNAL, "the new .onnx does not refer to one of its data files");
  arena_free(&scratch);
  return rc;
}

// ---- there and on ------------------------------------------------------------------------------

static int cannot_link(const struct seal_move *m, struct err *err) {
  return err_errno(err, errno, ERR_IO, "cannot move '%s' into place as '%s'", quote_str(m->name).s,
                   quote_str(m->via).s);
}

static int copy_bytes(struct file in, struct file out, struct err *err) {
  struct arena scratch = {0};
  uint8_t *buf = arena_alloc(&scratch, WINDOW);
  int rc = 0;
  for (int64_t got = 1; got != 0 && rc == 0;) {
    got = file_read(in, buf, WINDOW);
    rc = got < 0 ? err_errno(err, errno, ERR_IO, "cannot read the staged data")
                 : fs_write_all(out, buf, (size_t)got, COPY_NAME, err);
  }
  if (rc == 0 && file_sync(out)) rc = err_errno(err, errno, ERR_IO, "cannot sync the data");
  arena_free(&scratch);
  return rc;
}

static int copy_under(const struct staging *st, const struct seal_move *m, struct err *err) {
  struct file in = file_open(st->folder, m->name, FILE_NO_LINK);
  struct entry_facts at;
  if (!file_is_open(in) || file_look(in, &at)) {
    const int rc = cannot_link(m, err);
    file_close(&in);
    return rc;
  }
  struct file out = fs_make_own(st->folder, COPY_NAME, 0, err);
  int rc = !file_is_open(out) ? -1 : copy_bytes(in, out, err);
  file_close(&in);
  file_close(&out);
  if (rc == 0 && (entry_set_mode(st->folder, COPY_NAME, at.mode & 0777) ||
                  seal_rename_new(st->folder, COPY_NAME, st->dest, m->via)))
    rc = cannot_link(m, err);
  return rc;
}

// The new data under its other name.
static int enter(const struct staging *st, const struct seal_move *m, struct err *err) {
  if (entry_link(st->folder, m->name, st->dest, m->via) == 0) return 0;
  if (errno == EEXIST && seal_is_there(st, m, m->via)) return 0;
  const bool none = errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP || errno == EMLINK ||
                    errno == EINVAL;
  return none ? copy_under(st, m, err) : cannot_link(m, err);
}

int passage_enter(const struct seal_intent *s, const struct staging *st, struct err *err) {
  if (!s->passage.name) return 0;
  const struct seal_move *onnx = move_of_onnx(s);
  if (!staging_has(st->folder, s->passage.name)) { // it has passed the commit point
    if (seal_is_there(st, &s->passage, onnx->name) || seal_is_there(st, onnx, onnx->name)) return 0;
    return err_set(err, ERR_IO, "'%s' is missing in both '%s' and '%s'", s->passage.name,
                   quote_str(st->name).s, quote_str(st->dest_path).s);
  }
  for (uint32_t i = 0; i < s->n_moves; i++)
    if (s->moves[i].via && enter(st, &s->moves[i], err)) return -1;
  if (fs_sync_folder(st->dest, st->dest_path, err)) return -1;
  if (entry_rename(st->folder, s->passage.name, st->dest, onnx->name) && errno != ENOENT)
    return err_errno(err, errno, ERR_IO, "cannot move '%s' into place in '%s'",
                     quote_str(onnx->name).s, quote_str(st->dest_path).s);
  return fs_sync_folder(st->dest, st->dest_path, err);
}

int passage_leave(const struct seal_intent *s, const struct staging *st, struct err *err) {
  for (uint32_t i = 0; i < s->n_moves; i++) {
    const struct seal_move *m = &s->moves[i];
    if (!m->via || file_remove(st->dest, m->via) == 0 || errno == ENOENT) continue;
    return err_errno(err, errno, ERR_IO, "cannot remove '%s' in '%s'", quote_str(m->via).s,
                     quote_str(st->dest_path).s);
  }
  return s->passage.name ? fs_sync_folder(st->dest, st->dest_path, err) : 0;
}
