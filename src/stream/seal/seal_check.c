// Checks an unfinished seal before it is completed, or gives it up.
//
//   staged?  ──yes──▶ that file             size and digests as in seal.json?
//     └──no──▶ the file under its final name   no: refused, by name, before a file is moved
//
// Another run may complete the seal days after the run that began it, and other programs may write to the
// folder meanwhile. The rename of the .onnx must not make a damaged data file part of a model, so files that
// have their final names are read too.
#include "stream/seal/inside/seal_parts.h"
#include "stream/seal/seal.h"
#include "stream/seal/seal_intent.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/name_scan.h"

#include <errno.h>

static const struct seal_move *file_at(const struct seal_intent *s, uint32_t i) {
  return i < s->n_moves ? &s->moves[i] : &s->passage;
}

// Opens one of them; none with err.
static struct file open_file(const struct staging *st, const struct seal_move *m, struct err *err) {
  struct entry_facts at;
  const bool moved = staging_has(st->folder, STAGING_FINISHED); // all are
  struct file fd = moved ? NO_FILE : file_open(st->folder, m->name, FILE_NO_LINK | FILE_NO_WAIT);
  if (!file_is_open(fd) && (moved || errno == ENOENT))
    fd = file_open(st->dest, m->name, FILE_NO_LINK | FILE_NO_WAIT);
  const bool looked = file_is_open(fd) && file_look(fd, &at) == 0;
  const int why = errno;
  if (looked && at.kind == ENTRY_FILE && at.size == m->size) return fd;
  if (!looked && (file_is_open(fd) || (why != ENOENT && why != ELOOP && why != ENXIO))) {
    err_fill_errno(err, why, ERR_IO, "'%s' cannot be examined", quote_str(m->name).s);
    file_close(&fd);
    return NO_FILE;
  }
  if (!file_is_open(fd))
    err_fill(err, ERR_INPUT, "'%s' is missing in both '%s' and '%s'", quote_str(m->name).s,
             quote_str(st->name).s, quote_str(st->dest_path).s);
  else
    err_fill(err, ERR_INPUT,
             "'%s' in '%s' is not the file of %s bytes that the interrupted run wrote",
             quote_str(m->name).s, quote_str(st->dest_path).s, decimal(m->size).s);
  file_close(&fd);
  err_fill_reason(err, REASON_STAGED_OTHER);
  return NO_FILE;
}

// The ranges of n files, in their order. Returns how many.
static uint32_t list_ranges(const struct seal_intent *s, const struct file *fds, uint32_t n_files,
                            struct reread_known *rows) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < n_files; i++) {
    const struct seal_move *m = file_at(s, i);
    for (uint32_t k = 0; k < m->n_units; k++) {
      const uint64_t off = k * PLAN_UNIT_BYTES;
      rows[n++] = (struct reread_known){.file = fds[i],
                                        .off = off,
                                        .len = min_u64(PLAN_UNIT_BYTES, m->size - off),
                                        .sha256 = m->units[k]};
    }
  }
  return n;
}

static int say_differs(const struct staging *st, const struct seal_intent *s, uint32_t n_files,
                       const struct reread_known *rows, struct err *err) {
  for (uint32_t i = 0; i < n_files; i++) {
    const struct seal_move *m = file_at(s, i);
    for (uint32_t k = 0; k < m->n_units; k++, rows++) {
      if (!rows->differs) continue;
      if (rows->why && rows->why != ENODATA)
        return reread_failed(m->name, rows->off, rows->why, err);
      err_set(err, ERR_INPUT,
              "'%s' in '%s' differs from the output of the interrupted run: bytes %s..%s",
              quote_str(m->name).s, quote_str(st->dest_path).s, decimal(rows->off).s,
              decimal(rows->off + rows->len).s);
      return err_because(err, REASON_STAGED_OTHER);
    }
  }
  return 0;
}

static int compare(const struct staging *st, const struct seal_intent *s, const struct file *fds,
                   uint32_t n_files, struct arena *scratch, const struct reread_work *work,
                   struct err *err) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < n_files; i++)
    n += file_at(s, i)->n_units;
  struct reread_known *rows = arena_alloc(scratch, (n + 1) * sizeof *rows);
  n = list_ranges(s, fds, n_files, rows);
  if (!reread_compare(rows, n, work))
    return err_set(err, ERR_RETRY, "interrupted while checking the work of an earlier run");
  return say_differs(st, s, n_files, rows, err);
}

// Where only the removal of the folder is left, nothing else tells what was moved.
static int check_manifest(const struct staging *st, const struct reread_work *work,
                          struct err *err) {
  char onnx[STAGING_NAME_MAX], id[17];
  struct manifest m;
  if (!staging_name_parts(st->name, onnx, id)) return -1;
  const struct manifest_names beside = manifest_names(onnx);
  const struct manifest_at at = {st->dest, beside.manifest, beside.manifest, onnx, NULL};
  const struct audit_options audit = {
      .shown = beside.manifest, .jobs = work->jobs, .stop = work->stop};
  struct audit_result found = {0};
  if (manifest_read(&m, &at, err)) return -1;
  int bad = manifest_audit(&m, st->dest, &audit, &found, err);
  const bool same = found.damaged == 0 && strncmp(digest_hex(m.plan_id).s, id, strlen(id)) == 0;
  if (!bad && !same)
    bad = err_set(err, ERR_INPUT, "'%s' in '%s' is not the output of the interrupted run",
                  quote_str(onnx).s, quote_str(st->dest_path).s);
  manifest_free(&m);
  return bad;
}

int seal_check(const struct staging *st, const struct reread_work *work, struct err *err) {
  struct seal_intent s;
  struct arena scratch = {0};
  if (str_ends(st->name, ".done.weir") && !staging_has(st->folder, STAGING_FINISHED))
    return check_manifest(st, work, err);
  if (staging_check_entries(st, err) || seal_intent_read(&s, st->folder, st->name, err)) return -1;
  // All files that the seal moves, or has moved. The .onnx of a passage is the last one while it exists.
  const uint32_t n_files = s.n_moves + (s.passage.name && staging_has(st->folder, s.passage.name));
  struct file *fds = arena_alloc(&scratch, (n_files + 1) * sizeof *fds);
  int bad = 0;
  uint32_t n = 0;
  for (; !bad && n < n_files; n++)
    if (!file_is_open(fds[n] = open_file(st, file_at(&s, n), err))) bad = -1;
  if (!bad) bad = compare(st, &s, fds, n_files, &scratch, work, err);
  for (uint32_t i = 0; i < n; i++)
    file_close(&fds[i]);
  arena_free(&scratch);
  seal_intent_free(&s);
  return bad;
}

// ---- giving up ----
//
// Before the commit point no model uses the data files that have their final names: they are removed. After
// it the new .onnx uses them, and only seal.json says that these names are ours and which files of the old
// model remain: the seal is completed if its files are whole. The result is a model like any other, and its manifest lists
// all of its files for whoever replaces it.

static bool has_passed(const struct seal_intent *s, const struct staging *st) {
  for (uint32_t i = 0; i < s->n_moves && !s->passage.name; i++)
    if (s->moves[i].role == SEAL_ONNX) return !staging_has(st->folder, s->moves[i].name);
  return !staging_has(st->folder, s->passage.name);
}

// May this file take its final name? A file that has the name already stays, and so does data that the .onnx
// in place uses under another name of the same file.
static bool can_be_placed(const struct staging *st, const struct seal_move *m) {
  struct err ignored = {0};
  struct entry_facts at, via;
  struct file fd = open_file(st, m, &ignored);
  if (!file_is_open(fd)) return false;
  const bool in_use = m->via && file_look(fd, &at) == 0 &&
                      entry_look(st->dest, m->via, FILE_NO_LINK, &via) == 0 &&
                      entry_is_same(&at, &via);
  const bool good = in_use || !staging_has(st->folder, m->name) || seal_same_bytes(fd, m);
  file_close(&fd);
  return good;
}

static bool can_be_completed(const struct seal_intent *s, const struct staging *st) {
  struct err ignored = {0};
  const char *name = seal_intent_onnx(s);
  bool good = staging_check_entries(st, &ignored) == 0;
  for (uint32_t i = 0; good && i < s->n_moves; i++) {
    const struct seal_move *m = &s->moves[i];
    good = can_be_placed(st, m);
    if (good && m->role == SEAL_ONNX)
      good =
          seal_is_there(st, m, name) || (s->passage.name && seal_is_there(st, &s->passage, name));
  }
  return good;
}

// Removes data file m from its own name or from `via`, whichever it has now, if no model uses it by that name.
// (A copy may replace a second name: passage.c.)
static void take_back(const struct staging *st, const struct seal_move *m, const char *name) {
  struct entry_facts at;
  char who[256];
  if (!entry_is_file(st->dest, name, &at)) return;
  const bool ours = at.number == m->inode && at.size == m->size;
  if ((ours || (name == m->via && seal_is_there(st, m, name))) &&
      name_scan_folder(st->dest, name, NULL, who) == NAME_SCAN_FREE)
    file_remove(st->dest, name); // if it fails, an unused file remains
}

static void take_all_back(const struct staging *st, const struct seal_intent *s) {
  for (uint32_t i = 0; i < s->n_moves; i++) {
    const struct seal_move *m = &s->moves[i];
    if (m->role != SEAL_DATA || m->kept) continue;
    take_back(st, m, m->name);
    if (m->via) take_back(st, m, m->via);
  }
}

// Lists the files that stay where they are if a seal is past its commit point and cannot be completed.
static void name_left(const struct staging *st, const struct seal_intent *s,
                      struct seal_given_up *out) {
  for (uint32_t i = 0; i < s->n_moves; i++)
    if (s->moves[i].via) seal_left_add(st, s->moves[i].via, out);
  for (uint32_t i = 0; i < s->n_old; i++)
    if (s->old[i].listed) seal_left_add(st, s->old[i].name, out);
}

// Without seal.json the folder is that of a run that was killed.
static int discard(struct staging *st, struct err *err) {
  int bad = staging_remove_file(st->folder, STAGING_INTENT, st->name, err);
  if (!bad) bad = staging_remove(st, err);
  staging_close(st);
  return bad;
}

int seal_give_up(struct staging *st, struct seal_given_up *out, struct err *err) {
  struct seal_intent s;
  struct err unreadable = {0};
  *out = (struct seal_given_up){.known = true};
  if (seal_intent_read(&s, st->folder, st->name, &unreadable)) {
    out->damage = SEAL_JSON_DAMAGED;
    seal_left_find(st, out);
    return discard(st, err);
  }
  const bool passed = has_passed(&s, st);
  out->completed = passed && can_be_completed(&s, st);
  if (!out->completed) take_all_back(st, &s);
  if (passed && !out->completed) {
    out->damage = SEAL_FILES_DAMAGED;
    name_left(st, &s, out);
  }
  seal_intent_free(&s);
  const int bad = out->completed ? seal_finish(st, &out->report, err) : discard(st, err);
  staging_close(st); // still open if the seal could not be completed
  return bad;
}
