// The seal: a complete staging folder becomes files under their final names.
//
//   prepare   nothing visible changes              finish   repeatable, from seal.json alone
//   ────────────────────────────────               ─────────────────────────────────────────
//   exclusive lock, names still free?              owner of what is replaced
//   fsync outputs                                  data ─rename─▶ place, fsync folder
//   write the manifest, fsync                      (a passage, where data keeps its name: passage.c)
//   mode of what is replaced
//   write seal.json, fsync, fsync folder   ──────▶ .onnx ─rename─▶ place, fsync folder   ◀ commit
//                                                  companions ─rename─▶ place, fsync folder
//                                                  unlink what only the old model named
//                                                  seal.json ─rename─▶ sealed.json, remove the folder
//
// A data file replaces nothing but one of the model that is replaced (seal_may_replace); any other name
// was free when the plan was made, and RENAME_NOREPLACE holds the plan to it. So until the commit point
// the old .onnx and its old sidecar stand untouched, and after it the new one's data is in place.
// A file whose bytes are there already stays as it is.
//
// What is never done: removing or replacing a file that neither the old .onnx names nor its own manifest
// lists, or that any other model in the folder names.
#include "stream/seal/seal.h"

#include "stream/seal/inside/seal_parts.h"
#include "stream/seal/seal_intent.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/fs.h"
#include "stream/sys/name_scan.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

static bool may_replace(const struct seal_intent *s, const struct seal_move *m) {
  return m->role == SEAL_COMPANION || (s->replace && (m->role == SEAL_ONNX || m->via));
}

// All files of one role, then the folder. Data files: those with another name for a while, or those
// without.
static int place_role(const struct staging *st, const struct seal_intent *s, enum seal_role role,
                      bool via, struct err *err) {
  for (uint32_t i = 0; i < s->n_moves; i++) {
    const struct seal_move *m = &s->moves[i];
    if (m->role == role && (m->via != NULL) == via && seal_place(st, m, may_replace(s, m), err))
      return -1;
  }
  return fs_sync_folder(st->dest, st->dest_path, err);
}

// ---- what the old model leaves ----

enum { KEPT_NAMED = 3 }; // of many, these by name

static void note_kept(const struct staging *st, struct seal_kept_files *kept, const char *name,
                      const char *who) {
  const size_t n = strlen(kept->names);
  struct entry_facts at = {0};
  if (kept->n++ >= KEPT_NAMED) return;
  (void)entry_look(st->dest, name, FILE_NO_LINK, &at);
  snprintf(kept->names + n, sizeof kept->names - n, "%s'%s' (%s)", n ? ", " : "", quote_str(name).s,
           quote_bytes(at.size).s);
  if (n == 0) snprintf(kept->who, sizeof kept->who, "%s", who);
}

static int unlink_in_dest(const struct staging *st, const char *name, struct err *err) {
  if (file_remove(st->dest, name) == 0 || errno == ENOENT) return 0;
  return err_errno(err, errno, ERR_IO, "cannot remove the old '%s' in '%s'", quote_str(name).s,
                   quote_str(st->dest_path).s);
}

static int drop_old_sidecar(const struct staging *st, const struct seal_old *old, const char *onnx,
                            struct seal_report *report, struct err *err) {
  static const enum seal_kept why[] = {[NAME_SCAN_FREE] = SEAL_KEPT_UNLISTED,
                                       [NAME_SCAN_NAMED] = SEAL_KEPT_USED,
                                       [NAME_SCAN_UNKNOWN] = SEAL_KEPT_UNKNOWN};
  char who[256];
  if (!staging_has(st->dest, old->name)) return 0;
  const enum name_scan found = name_scan_folder(st->dest, old->name, onnx, who);
  if (found == NAME_SCAN_FREE && old->listed) return unlink_in_dest(st, old->name, err);
  note_kept(st,
            &report->kept[found == NAME_SCAN_FREE && old->unsure ? SEAL_KEPT_UNSURE : why[found]],
            old->name, who);
  return 0;
}

static void note_unchanged(const struct seal_intent *s, struct seal_report *report) {
  const struct manifest_names beside = manifest_names(seal_intent_onnx(s));
  report->unchanged = true;
  for (uint32_t i = 0; i < s->n_moves; i++) {
    const struct seal_move *m = &s->moves[i];
    if (m->role != SEAL_COMPANION)
      report->unchanged = report->unchanged && m->kept;
    else if (strcmp(m->name, beside.manifest) == 0)
      report->same_manifest = m->kept;
    else
      report->same_tensors = m->kept;
  }
}

// What is staged gets the owner of the model that it replaces, as far as this process may give it. That comes after seal.json: a run that is
// given again refuses files of another owner that are in no seal. Where the new .onnx is in place already, it has that owner.
static void give_owner(const struct seal_intent *s, const struct staging *st) {
  struct entry_facts old;
  if (entry_look(st->dest, seal_intent_onnx(s), FILE_NO_LINK, &old) || old.kind != ENTRY_FILE)
    return;
  for (uint32_t i = 0; i <= s->n_moves; i++) {
    const char *name = i < s->n_moves ? s->moves[i].name : s->passage.name;
    struct entry_facts is;
    if (!name || entry_look(st->folder, name, FILE_NO_LINK, &is)) continue;
    if (is.owner == old.owner && is.group == old.group) continue;
    if (entry_set_owner(st->folder, name, old.owner, old.group))
      (void)entry_set_owner(st->folder, name, NOBODY, old.group);
    (void)entry_set_mode(st->folder, name, old.mode); // another owner takes bits of it away
  }
}

static int finish(const struct staging *st, const struct seal_intent *s, struct seal_report *report,
                  struct err *err) {
  note_unchanged(s, report);
  if (s->replace) give_owner(s, st);
  if (place_role(st, s, SEAL_DATA, false, err) || passage_enter(s, st, err)) return -1;
  if (s->passage.name && place_role(st, s, SEAL_DATA, true, err)) return -1;
  if (place_role(st, s, SEAL_ONNX, false, err) || passage_leave(s, st, err)) return -1;
  if (place_role(st, s, SEAL_COMPANION, false, err)) return -1;
  for (uint32_t i = 0; i < s->n_old; i++)
    if (drop_old_sidecar(st, &s->old[i], seal_intent_onnx(s), report, err)) return -1;
  for (uint32_t i = 0; i < s->n_stale; i++)
    if (unlink_in_dest(st, s->stale[i], err)) return -1;
  return s->n_old + s->n_stale > 0 ? fs_sync_folder(st->dest, st->dest_path, err) : 0;
}

// All is in place: a folder that cannot be removed is told of, and is no failure.
static int retire(struct staging *st, struct seal_report *report) {
  struct err why = {0};
  if (staging_retire(st, &why)) snprintf(report->left, sizeof report->left, "%s", why.msg);
  return 0;
}

int seal_finish(struct staging *st, struct seal_report *report, struct err *err) {
  memset(report, 0, sizeof *report);
  if (staging_seal_in(st->dest, st->name) == STAGING_SEAL_FINISHED) return staging_retire(st, err);
  struct seal_intent s;
  if (seal_intent_read(&s, st->folder, st->name, err)) return -1;
  const int bad = finish(st, &s, report, err);
  seal_intent_free(&s);
  return bad ? -1 : retire(st, report);
}

// ---- preparing ----

static int add_move(struct seal_intent *s, const struct staging *st, const char *name,
                    enum seal_role role, struct err *err) {
  struct entry_facts at;
  if (entry_look(st->folder, name, FILE_NO_LINK, &at))
    return err_errno(err, errno, ERR_IO, "cannot examine '%s' in '%s'", quote_str(name).s,
                     quote_str(st->name).s);
  struct seal_move *m = &s->moves[s->n_moves++];
  *m = (struct seal_move){.name = arena_string(&s->arena, span_str(name)), .role = role};
  m->size = at.size;
  m->inode = (uint64_t)at.number;
  return 0;
}

// A data file whose name something has. What the replaced model may lose it for, and nothing else.
static int take_name(struct seal_intent *s, const struct staging *st, struct seal_move *m,
                     const char *onnx, struct err *err) {
  if (s->replace && seal_may_replace(s->refers, st->dest, st->dest_path, onnx, m->name))
    return passage_plan(s, st, m, err);
  err_set(err, ERR_RETRY, "'%s' in '%s' appeared after this run was planned", quote_str(m->name).s,
          quote_str(st->dest_path).s);
  return err_hint(err, "run the same command again: it will choose another name");
}

static int add_outputs(struct seal_intent *s, const struct staging *st, const struct plan *p,
                       struct err *err) {
  uint32_t unit = 0;
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    if (add_move(s, st, p->outputs[i].name, i + 1 == p->n_outputs ? SEAL_ONNX : SEAL_DATA, err))
      return -1;
    struct seal_move *m = &s->moves[s->n_moves - 1];
    m->units = (const uint8_t(*)[DIGEST_BYTES])(st->digests + unit);
    while (unit < st->n_units && plan_unit_at(p, unit).output == i)
      unit++;
    m->n_units = (uint32_t)(st->digests + unit - (uint8_t(*)[DIGEST_BYTES])(uintptr_t)m->units);
    m->kept = seal_is_there(st, m, m->name);
    if (m->role == SEAL_DATA && !m->kept && staging_has(st->dest, m->name) &&
        take_name(s, st, m, p->outputs[p->n_outputs - 1].name, err))
      return -1;
    if (file_sync(staging_output_fd(st, i)))
      return err_errno(err, errno, ERR_IO, "cannot sync '%s'", quote_str(m->name).s);
  }
  return 0;
}

static int add_companions(struct seal_intent *s, const struct staging *st, const char *onnx,
                          const struct seal_options *o, struct err *err) {
  if (o->tensors) {
    if (add_move(s, st, companion_name(o->tensors), SEAL_COMPANION, err)) return -1;
    struct seal_move *m = &s->moves[s->n_moves - 1];
    m->units = companion_units(o->tensors, &m->n_units);
    m->kept = o->replace && seal_is_there(st, m, m->name);
  }
  if (!o->manifest) return 0;
  const struct span text = span_of(o->manifest, o->manifest_bytes);
  const struct manifest_names beside = manifest_names(onnx);
  if (fs_put_file(st->folder, beside.manifest, text, err) ||
      add_move(s, st, beside.manifest, SEAL_COMPANION, err))
    return -1;
  struct seal_move *m = &s->moves[s->n_moves - 1];
  m->n_units = (uint32_t)((text.n + PLAN_UNIT_BYTES - 1) / PLAN_UNIT_BYTES);
  uint8_t(*units)[DIGEST_BYTES] = arena_alloc(&s->arena, m->n_units * DIGEST_BYTES + 1);
  for (uint32_t i = 0; i < m->n_units; i++) {
    const size_t off = (size_t)(i * PLAN_UNIT_BYTES);
    digest_of(text.at + off, (size_t)min_u64(PLAN_UNIT_BYTES, text.n - off), units[i]);
  }
  m->units = (const uint8_t(*)[DIGEST_BYTES])units;
  m->kept = o->replace && seal_is_there(st, m, m->name);
  return 0;
}

static int give_mode(const struct seal_intent *s, const struct staging *st, uint32_t mode,
                     struct err *err) {
  for (uint32_t i = 0; i <= s->n_moves; i++) {
    const char *name = i < s->n_moves ? s->moves[i].name : s->passage.name;
    if (name && entry_set_mode(st->folder, name, mode) && errno != ENOENT)
      return err_errno(err, errno, ERR_IO, "cannot give '%s' the mode of the model it replaces",
                       quote_str(name).s);
  }
  return 0;
}

static int prepare(struct seal_intent *s, struct staging *st, const struct plan *p,
                   const struct seal_options *o, struct err *err) {
  const char *onnx = p->outputs[p->n_outputs - 1].name;
  s->replace = o->replace;
  memcpy(s->plan_id, p->id, DIGEST_BYTES);
  s->moves = arena_alloc(&s->arena, (p->n_outputs + 2) * sizeof *s->moves);
  if (staging_lock_exclusive(st, err)) return -1;
  struct entry_facts at;
  const bool there = entry_look(st->dest, onnx, FILE_NO_LINK, &at) == 0;
  if (there && at.kind == ENTRY_FOLDER)
    return err_set(err, ERR_USAGE, "'%s' in '%s' is a folder", quote_str(onnx).s,
                   quote_str(st->dest_path).s);
  if (there && !o->replace) {
    err_set(err, ERR_USAGE, "'%s' exists in '%s'", quote_str(onnx).s, quote_str(st->dest_path).s);
    return err_because(err, REASON_EXISTS);
  }
  if (add_outputs(s, st, p, err) || add_companions(s, st, onnx, o, err)) return -1;
  staging_close_files(st);
  if (passage_write(s, st, err)) return -1;
  if (there && at.kind == ENTRY_FILE && give_mode(s, st, at.mode, err)) return -1;
  if (o->replace && seal_old_find(s, st, p, err)) return -1;
  return seal_intent_write(s, st->folder, err);
}

int seal_run(struct staging *st, const struct plan *p, const struct seal_options *options,
             struct seal_report *report, struct err *err) {
  memset(report, 0, sizeof *report);
  if (!folder_is_open(st->folder)) return 0;
  assert(staging_done_count(st) == st->n_units);
  struct seal_refers own = {0};
  struct seal_intent s = {.refers = options->refers ? options->refers : &own};
  int bad = prepare(&s, st, p, options, err);
  if (!bad) bad = finish(st, &s, report, err);
  seal_intent_free(&s);
  seal_refers_done(&own);
  return bad ? -1 : retire(st, report);
}
