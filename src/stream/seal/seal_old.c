// Which files make up the model that a seal replaces? Asked before the commit point, while the old
// .onnx and its manifest are still there; the answer is kept in seal.json.
//
// Two witnesses, and they differ in what they allow:
//
//   the old manifest lists it, and the old .onnx        ours: may be unlinked after the commit point
//   refers to it
//   the old .onnx refers to it, or has its name in it  somebody's: named to the user, left in place
//
// If an old .onnx cannot be read, all that its manifest lists, and all conventional names, are named to the user too: they may be
// its files. They are not removed: only the conventional ones that the manifest lists are.
//
// A manifest alone gives no right to anything: it may have come with the model, and list any file of
// the folder; nor does a name in the .onnx, which may be that of a tensor. What counts is the location of
// a tensor's data (seal_refers.h), or (of a model that a kill left half replaced) a conventional name.
// For the second only likely names are asked about (the conventional sidecar names and the data
// files of this run's source), each by looking for the bytes of the name. A manifest that is not a
// consistent one of ours counts as none, and one about another model says nothing of this one's files:
// what they say gives no right to remove anything.
#include "stream/seal/inside/seal_parts.h"

#include "stream/seal/manifest.h"
#include "stream/seal/seal.h"
#include "stream/sys/fs.h"
#include "stream/sys/name_scan.h"

#include <stdio.h>

struct finding {
  struct seal_intent *s;
  struct folder dest;
  const char *folder;
  const char *onnx;
  size_t cap;
};

static bool is_known(const struct seal_intent *s, const char *name) {
  for (uint32_t i = 0; i < s->n_moves; i++)
    if (strcmp(s->moves[i].name, name) == 0) return true;
  for (uint32_t i = 0; i < s->n_old; i++)
    if (strcmp(s->old[i].name, name) == 0) return true;
  return false;
}

static void add_old(struct finding *f, const char *name, bool listed, bool unsure) {
  struct seal_intent *s = f->s;
  if (is_known(s, name) || !entry_is_file(f->dest, name, NULL)) return;
  if (s->n_old == f->cap) {
    f->cap = f->cap ? f->cap * 2 : 8;
    struct seal_old *rows = arena_alloc(&s->arena, f->cap * sizeof *rows);
    if (s->n_old > 0) memcpy(rows, s->old, s->n_old * sizeof *rows);
    s->old = rows;
  }
  s->old[s->n_old++] = (struct seal_old){
      .name = arena_string(&s->arena, span_str(name)), .listed = listed, .unsure = unsure};
}

// The model cannot be read, so it does not say which files are its own.
static bool is_unread(struct finding *f) {
  seal_refers_ask(f->s->refers, f->folder, f->onnx);
  return f->s->refers->unread;
}

static void add_if_named(struct finding *f, const char *name) {
  if (is_known(f->s, name) || !entry_is_file(f->dest, name, NULL)) return;
  if (name_scan_file(f->dest, f->onnx, name) == NAME_SCAN_NAMED) add_old(f, name, false, false);
}

// "<onnx>.data", "<onnx>_data", "<onnx>.<8 hex>.data"; each with "_<number>" behind it.
static bool is_conventional(const char *onnx, const char *entry) {
  const size_t stem = strlen(onnx), n = plan_data_stem(entry);
  return n >= stem + 5 && memcmp(entry, onnx, stem) == 0 && memcmp(entry + n - 4, "data", 4) == 0;
}

static int add_conventional(void *ctx, const char *entry) {
  struct finding *f = ctx;
  if (!is_conventional(f->onnx, entry)) return 0;
  add_if_named(f, entry);
  if (is_unread(f)) add_old(f, entry, false, true);
  return 0;
}

// A file that the old manifest lists.
static bool is_data_file(const struct finding *f, const char *name) {
  return strcmp(name, f->onnx) != 0 && entry_is_file(f->dest, name, NULL) &&
         (is_conventional(f->onnx, name) || seal_refers_to(f->s->refers, f->folder, f->onnx, name));
}

static void add_stale(struct seal_intent *s, struct folder dest, const char *name) {
  if (is_known(s, name) || !entry_is_file(dest, name, NULL)) return;
  s->stale[s->n_stale++] = arena_string(&s->arena, span_str(name));
}

static void ask_manifest(struct finding *f) {
  const struct manifest_names beside = manifest_names(f->onnx);
  struct manifest m;
  struct err none = {0};
  if (manifest_read(
          &m, &(struct manifest_at){f->dest, beside.manifest, beside.manifest, NULL, NULL}, &none))
    return;
  for (uint32_t i = 0; i < m.n_files && strcmp(m.subject, f->onnx) == 0; i++)
    if (is_data_file(f, m.files[i]))
      add_old(f, m.files[i], true, false);
    else if (strcmp(m.files[i], f->onnx) != 0 && is_unread(f))
      add_old(f, m.files[i], false, true);
  manifest_free(&m);
  f->s->stale = arena_alloc(&f->s->arena, 2 * sizeof *f->s->stale);
  add_stale(f->s, f->dest, beside.manifest);
  add_stale(f->s, f->dest, beside.tensors);
}

static bool is_listed(struct folder dest, const char *onnx, const char *name) {
  const struct manifest_names beside = manifest_names(onnx);
  struct manifest m;
  struct err none = {0};
  bool listed;
  if (manifest_read(&m, &(struct manifest_at){dest, beside.manifest, beside.manifest, onnx, NULL},
                    &none))
    return false;
  listed = manifest_file_named(&m, span_str(name)) != NO_ID;
  manifest_free(&m);
  return listed;
}

bool seal_may_replace(struct seal_refers *refers, struct folder dest, const char *folder,
                      const char *onnx, const char *name) {
  char who[256];
  if (!entry_is_file(dest, onnx, NULL) || !entry_is_file(dest, name, NULL)) return false;
  if (!seal_refers_to(refers, folder, onnx, name) &&
      !(is_conventional(onnx, name) && is_listed(dest, onnx, name)))
    return false;
  return name_scan_folder(dest, name, onnx, who) == NAME_SCAN_FREE;
}

int seal_old_find(struct seal_intent *s, const struct staging *st, const struct plan *p,
                  struct err *err) {
  struct finding f = {
      .s = s, .dest = st->dest, .folder = st->dest_path, .onnx = seal_intent_onnx(s)};
  const struct folder dest = st->dest;
  if (!entry_is_file(dest, f.onnx, NULL)) return 0;
  ask_manifest(&f);
  seal_refers_ask(s->refers, f.folder, f.onnx);
  for (uint32_t i = 0; i < s->refers->n; i++)
    if (!strchr(s->refers->names[i], '/')) add_old(&f, s->refers->names[i], false, false);
  for (uint32_t i = 1; i < p->n_sources; i++)
    if (!strchr(p->sources[i].name, '/')) add_if_named(&f, p->sources[i].name);
  return fs_list(dest, add_conventional, &f, "output folder", err);
}
