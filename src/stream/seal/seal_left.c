// Which data files had an interrupted run put in place? Asked where seal.json is damaged, and by who lists
// what such runs left.
//
//   plan.json ─▶ names and sizes of the data files ─▶ in the folder under that name, or under the one
//                                                     of a passage, and no model names it?
//
// The plan is believed if its digest is the one that the staging folder is named for. What is found
// has the name of a file of that run, and may be somebody else's all the same: it is named to the user
// and never removed.
#include "stream/seal/inside/seal_parts.h"

#include "plan/plan_file.h"
#include "stream/seal/seal_intent.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/fs.h"
#include "stream/sys/name_scan.h"

#include <stdio.h>

enum { PLAN_MAX_BYTES = 1 << 30, ID_SHOWN = 16 };

struct looking {
  const struct staging *st;
  const struct plan *p;
  bool replacing; // the model of that run is about to be replaced
  bool sealed;    // there is a seal.json, so a name of its own is that run's, or to be
  int (*each)(void *ctx, const char *name, uint64_t bytes);
  void *ctx;
};

// The plan that the folder is named for.
static bool read_plan(const struct staging *st, struct plan *p) {
  struct span json = {0}, literals = {0};
  struct err unreadable = {0};
  bool good =
      fs_read_own(st->folder, "plan.json", PLAN_MAX_BYTES, st->name, &json, &unreadable) == 0 &&
      fs_read_own(st->folder, "plan.bin", PLAN_MAX_BYTES, st->name, &literals, &unreadable) == 0 &&
      plan_file_read(p, json, literals, &unreadable) == 0;
  if (json.at) fs_free(json);
  if (literals.at) fs_free(literals);
  if (!good) return false;
  struct digest_hex hex = digest_hex(p->id);
  hex.s[ID_SHOWN] = '\0';
  if (strstr(st->name, hex.s)) return true;
  plan_free(p);
  return false;
}

// Could it be the data file `of` which that run made, or the one that it was to replace?
static bool may_be(const struct looking *l, const char *name, const struct plan_output *of,
                   uint64_t *size) {
  const bool own = strcmp(name, of->name) == 0;
  struct entry_facts at;
  char who[256];
  if (!own && !passage_is_name(l->p->id, of->name, name)) return false;
  if (!entry_is_file(l->st->dest, name, &at)) return false;
  *size = at.size;
  if (*size != of->size && !(own && l->sealed)) return false;
  // The name of a passage goes with the model that has it, if that is about to be replaced.
  const char *replaced = own || !l->replacing ? NULL : l->p->outputs[l->p->n_outputs - 1].name;
  return name_scan_folder(l->st->dest, name, replaced, who) != NAME_SCAN_NAMED;
}

static int look(void *ctx, const char *name) {
  const struct looking *l = ctx;
  for (uint32_t i = 0; i + 1 < l->p->n_outputs; i++) {
    uint64_t size;
    if (may_be(l, name, &l->p->outputs[i], &size)) return l->each(l->ctx, name, size);
  }
  return 0;
}

// False if the plan cannot be read.
static bool look_at_all(struct looking *l) {
  struct plan p;
  struct err unreadable = {0};
  if (!read_plan(l->st, &p)) return false;
  l->p = &p;
  const int rc = fs_list(l->st->dest, look, l, l->st->dest_path, &unreadable);
  plan_free(&p);
  return rc >= 0;
}

// ---- for who gives it up -----------------------------------------------------------------------

static int add(void *ctx, const char *name, uint64_t size) {
  struct seal_given_up *out = ctx;
  const size_t n = strlen(out->left);
  snprintf(out->left + n, sizeof out->left - n, "%s'%s' (%s)", n ? ", " : "", quote_str(name).s,
           quote_bytes(size).s);
  return 0;
}

void seal_left_add(const struct staging *st, const char *name, struct seal_given_up *out) {
  struct entry_facts at;
  if (entry_is_file(st->dest, name, &at)) add(out, name, at.size);
}

void seal_left_find(const struct staging *st, struct seal_given_up *out) {
  struct looking l = {.st = st, .replacing = true, .sealed = true, .each = add, .ctx = out};
  out->left[0] = '\0';
  out->known = look_at_all(&l);
}

// ---- for who lists it --------------------------------------------------------------------------

// Files of the replaced model, which only seal.json still knows.
static int look_at_old(const struct looking *l) {
  struct seal_intent s;
  struct err ignored = {0};
  int stop = 0;
  if (seal_intent_read(&s, l->st->folder, l->st->name, &ignored)) return 0;
  for (uint32_t i = 0; i < s.n_old && !stop; i++) {
    struct entry_facts at;
    char who[256];
    if (s.old[i].listed && entry_look(l->st->dest, s.old[i].name, FILE_NO_LINK, &at) == 0 &&
        name_scan_folder(l->st->dest, s.old[i].name, NULL, who) != NAME_SCAN_NAMED)
      stop = l->each(l->ctx, s.old[i].name, at.size);
  }
  seal_intent_free(&s);
  return stop;
}

void seal_left_each(const char *dir, const char *staging,
                    int (*each)(void *ctx, const char *name, uint64_t bytes), void *ctx) {
  struct staging st = {.dest = folder_open(HERE, dir, 0)};
  struct looking l = {.st = &st, .each = each, .ctx = ctx};
  snprintf(st.name, sizeof st.name, "%s", staging);
  snprintf(st.dest_path, sizeof st.dest_path, "%s", dir);
  st.folder = !folder_is_open(st.dest) ? NO_FOLDER : folder_open(st.dest, staging, FILE_NO_LINK);
  if (folder_is_open(st.folder)) {
    l.sealed = staging_has(st.folder, STAGING_INTENT);
    (void)look_at_all(&l);
    if (l.sealed) (void)look_at_old(&l);
    folder_close(&st.folder);
  }
  folder_close(&st.dest);
}
