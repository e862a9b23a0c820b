// A seal was interrupted, and its seal.json is damaged: which files had it put in place?
//
//   plan.json ─▶ names and sizes of the data files ─▶ in the folder under that name, or under the one
//                                                     of a passage, and no model names it?
//
// The plan is believed if its digest is the one that the staging folder is named for. What is found
// has the name of a file of that run, and may be somebody else's all the same: it is named to the user
// and never removed.
#include "seal_left.h"

#include "fs.h"
#include "name_scan.h"
#include "passage.h"
#include "plan_file.h"
#include "staging_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { PLAN_MAX_BYTES = 1 << 30, ID_SHOWN = 16 };

struct looking {
  const struct staging *st;
  const struct plan *p;
  struct seal_given_up *out;
};

// The plan that the folder is named for.
static bool read_plan(const struct staging *st, struct plan *p) {
  struct span json = {0}, literals = {0};
  struct err unreadable = {0};
  char hex[DIGEST_HEX];
  bool good =
      fs_read_own(st->folder, "plan.json", PLAN_MAX_BYTES, st->name, &json, &unreadable) == 0 &&
      fs_read_own(st->folder, "plan.bin", PLAN_MAX_BYTES, st->name, &literals, &unreadable) == 0 &&
      plan_file_read(p, json, literals, &unreadable) == 0;
  if (json.at) fs_free(json);
  if (literals.at) fs_free(literals);
  if (!good) return false;
  hex_encode(p->id, DIGEST_BYTES, hex);
  hex[ID_SHOWN] = '\0';
  if (strstr(st->name, hex)) return true;
  plan_free(p);
  return false;
}

// Could it be the data file `of` which that run made, or the one that it was to replace?
static bool may_be(const struct looking *l, const char *name, const struct plan_output *of,
                   uint64_t *size) {
  const bool own = strcmp(name, of->name) == 0;
  struct stat at;
  char who[256];
  if (!own && !passage_is_name(l->p->id, of->name, name)) return false;
  if (fstatat(l->st->dest, name, &at, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(at.st_mode))
    return false;
  *size = (uint64_t)at.st_size;
  if (!own && *size != of->size) return false;
  // The name of a passage goes with the model that has it, which is about to be replaced.
  const char *replaced = own ? NULL : l->p->outputs[l->p->n_outputs - 1].name;
  return name_scan_folder(l->st->dest, name, replaced, who) != NAME_SCAN_NAMED;
}

static void add(struct seal_given_up *out, const char *name, uint64_t size) {
  const size_t n = strlen(out->left);
  snprintf(out->left + n, sizeof out->left - n, "%s'%s' (%s)", n ? ", " : "", quote_str(name).s,
           quote_bytes(size).s);
}

void seal_left_add(const struct staging *st, const char *name, struct seal_given_up *out) {
  struct stat at;
  if (fstatat(st->dest, name, &at, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(at.st_mode))
    add(out, name, (uint64_t)at.st_size);
}

static int look(void *ctx, const char *name) {
  const struct looking *l = ctx;
  for (uint32_t i = 0; i + 1 < l->p->n_outputs; i++) {
    uint64_t size;
    if (!may_be(l, name, &l->p->outputs[i], &size)) continue;
    add(l->out, name, size);
    break;
  }
  return 0;
}

void seal_left_find(const struct staging *st, struct seal_given_up *out) {
  struct plan p;
  struct err unreadable = {0};
  out->left[0] = '\0';
  out->known = read_plan(st, &p);
  if (!out->known) return;
  struct looking l = {st, &p, out};
  if (fs_list(st->dest, look, &l, st->dest_path, &unreadable) < 0) out->known = false;
  plan_free(&p);
}
