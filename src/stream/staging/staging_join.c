// Joining the folder of a plan: everything in it is doubted, since it lay on a disk that others see, and a member may
// come days after the plan was made.
//
//   folder     ours, and all that is in it: plain files of ours          else 77
//   header     of this version, of this plan                             else 66
//   orders     whole; they name the header by its digest                 else 66
//   plan       its digest is the id that the header has; sources of both are the same  else 66
//   outputs    there, with their size                                    else 66
//   records    those that are whole and carry the header's digest count; what else there is, its units are made again
#include "stream/staging/inside/records.h"
#include "stream/staging/staging_join.h"

#include "plan/plan_file.h"
#include "stream/staging/inside/staging_header.h"
#include "stream/staging/inside/staging_orders.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/fs.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { PLAN_MAX_BYTES = 1 << 30 };

// ---- when ----

// A member makes its records file when it begins (staging_open_records).
static int note_birth(void *ctx, const char *name) {
  struct staging_joined *j = ctx;
  int64_t born;
  if (!records_is_name(name) || entry_born(j->st.folder, name, &born)) return 0;
  if (j->began_ns == 0 || born < j->began_ns) j->began_ns = born;
  return 0;
}

// ---- the path ----

// The folder's own path: without slashes at its end, without plan.json.
static const char *folder_of(const char *path, struct arena *a) {
  static const char plan_json[] = "plan.json";
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/')
    n--;
  const char *own = arena_string(a, span_of(path, n));
  if (strcmp(path_base(own), plan_json) != 0) return own;
  return own == path_base(own) ? "." : arena_folder(a, own);
}

// "." is a folder as well as any, whose name is asked of the system.
static const char *named_folder(const char *path, struct arena *a) {
  const char *own = folder_of(path, a);
  if (strcmp(own, ".") != 0 && strcmp(path_base(own), "..") != 0) return own;
  char full[PATH_BYTES];
  return path_real(own, full) ? own : arena_string(a, span_str(full));
}

bool staging_joined_name(const char *path, struct arena *a, const char **dest, const char **onnx,
                         const char **id) {
  const char *own = named_folder(path, a), *name = path_base(own);
  char out[STAGING_NAME_MAX], hex[17];
  if (!staging_name_parts(name, out, hex)) return false;
  *dest = name == own ? "." : arena_folder(a, own);
  *onnx = arena_string(a, span_str(out));
  *id = arena_string(a, span_str(hex));
  return true;
}

bool staging_joined_over(const char *path, struct arena *a) {
  const char *own = named_folder(path, a);
  return str_ends(own, ".done.weir") || entry_may(HERE, own, MAY_EXIST) != 0 ||
         entry_may(HERE, arena_printf(a, "%s/" STAGING_FINISHED, own), MAY_EXIST) == 0;
}

// ---- what lies there ----

static int damaged(const struct staging *st, const char *name, struct err *err) {
  err_fill(err, ERR_INPUT, "'%s' in '%s' was damaged or changed since 'weir plan' wrote it", name,
           quote_str(st->name).s);
  return err_hint(err, "remove the folder and plan again: 'weir plan' with --fresh");
}

static int take_lock(struct staging *st, enum staging_as as, struct err *err) {
  if (as == STAGING_AS_VIEWER) return 0;
  st->lock = fs_open_own(st->folder, "lock", FILE_READ, st->name, err);
  if (!file_is_open(st->lock) && err->kind != ERR_NONE) return -1;
  if (!file_is_open(st->lock)) return damaged(st, "lock", err);
  const unsigned kind = as == STAGING_AS_MEMBER ? LOCK_SHARED : LOCK_ALONE;
  // File systems without locks are taken as they are: no correctness rests on this one.
  if (file_lock(st->lock, kind | LOCK_NO_WAIT) == 0 || errno != EWOULDBLOCK) {
    if (staging_still_there(st)) return 0;
    return err_set(err, ERR_RETRY, "'%s' in '%s' was removed by another process meanwhile",
                   quote_str(st->name).s, quote_str(st->dest_path).s);
  }
  err_fill(err, ERR_RETRY,
           as == STAGING_AS_MEMBER
               ? "'%s' in '%s' is being finalized, or planned, by another process"
               : "shards of '%s' in '%s' are still running",
           quote_str(st->name).s, quote_str(st->dest_path).s);
  return err_hint(err, as == STAGING_AS_MEMBER ? "wait until that process ends"
                                               : "'weir status' shows their progress");
}

static int read_part(const struct staging *st, const char *name, struct span *text,
                     struct err *err) {
  if (fs_read_own(st->folder, name, PLAN_MAX_BYTES, st->name, text, err) == 0) return 0;
  return err->kind == ERR_NONE ? damaged(st, name, err) : -1;
}

static int read_plan(struct staging_joined *j, const struct staging *st, struct err *err) {
  struct span json = {0}, literals = {0};
  struct err why = {0};
  int bad = read_part(st, "plan.json", &json, err);
  if (!bad) bad = read_part(st, "plan.bin", &literals, err);
  if (!bad && plan_file_read(&j->plan, json, literals, &why)) {
    err_fill(err, ERR_INPUT, "the plan in '%s' was damaged or changed: %.700s",
             quote_str(st->name).s, why.msg);
    bad = err_hint(err, "remove the folder and plan again: 'weir plan' with --fresh");
  }
  if (json.at) fs_free(json);
  if (literals.at) fs_free(literals);
  return bad;
}

static int read_small(struct staging_joined *j, const struct staging *st,
                      const struct staging_orders_found *f, struct err *err) {
  struct span text;
  uint8_t is[DIGEST_BYTES];
  if (!f->lists_small) return 0;
  if (read_part(st, "small.jsonl", &text, err)) return -1;
  digest_of(text.at, text.n, is);
  int bad = memcmp(is, f->small_sha256, DIGEST_BYTES) == 0 ? 0 : damaged(st, "small.jsonl", err);
  struct err why = {0};
  if (!bad && plan_file_read_small(&j->plan, text, &why)) bad = damaged(st, "small.jsonl", err);
  fs_free(text);
  return bad;
}

// The plan has names and sizes, which recipes were made for; the header has times, and the orders say which of them are
// files beside the model, and where. All of them mean the same files.
static bool sources_agree(const struct staging_joined *j) {
  const uint32_t n = j->n_sources, beside = j->orders.n_companions;
  if (n == 0 || n != j->plan.n_sources || beside >= n || strchr(j->sources[0].name, '/'))
    return false;
  for (uint32_t i = 0; i < n; i++) {
    const char *name = j->sources[i].name;
    if (strcmp(name, j->plan.sources[i].name) != 0 || j->sources[i].size != j->plan.sources[i].size)
      return false;
    if (i >= n - beside && strcmp(path_base(j->orders.companions[i - (n - beside)]), name) != 0)
      return false;
  }
  return true;
}

static int take_header(struct staging_joined *j, const struct staging *st,
                       const struct staging_header *h, const struct staging_orders_found *f,
                       struct err *err) {
  if (memcmp(h->sha256, f->header_sha256, DIGEST_BYTES) != 0 || !h->usable)
    return damaged(st, "header.json", err);
  const char *resume = staging_header_resume(h);
  struct entry_facts at;
  j->resume_command = resume ? arena_string(&j->arena, span_str(resume)) : "";
  j->source_folder = arena_string(&j->arena, staging_header_source_folder(h));
  j->sources = staging_header_sources(h, &j->arena, &j->n_sources);
  if (entry_look(st->folder, STAGING_ORDERS, FILE_NO_LINK, &at) == 0)
    j->planned_ns = at.modified_ns;
  return 0;
}

// Everything that is read; `st` has folder and lock only.
static int read_all(struct staging_joined *j, const struct staging *st, const char *version,
                    struct err *err) {
  struct staging_header h;
  struct staging_orders_found f;
  if (staging_check_entries(st, err) || staging_header_read(st->folder, version, &h, err))
    return -1;
  int bad = 0;
  if (h.made_by[0]) {
    err_fill(err, ERR_INPUT,
             "'%s' in '%s' was planned by %s; this is weir %s, which cannot continue it",
             quote_str(st->name).s, quote_str(st->dest_path).s, h.made_by, version);
    bad = err_hint(err, "use that version on every machine, or plan again with this one");
  }
  if (!bad) bad = staging_orders_read(st, &f, &j->arena, err);
  if (!bad) bad = take_header(j, st, &h, &f, err);
  if (!bad) j->orders = f.orders;
  if (!bad) bad = read_plan(j, st, err);
  if (!bad && (!staging_header_is_of(&h, j->plan.id) || !sources_agree(j)))
    bad = damaged(st, "plan.json", err);
  char own[STAGING_NAME_MAX];
  if (!bad) {
    j->onnx_name = j->plan.outputs[j->plan.n_outputs - 1].name;
    staging_name(own, j->onnx_name, j->plan.id);
    if (strcmp(own, st->name) != 0) {
      err_fill(err, ERR_INPUT, "'%s' contains another plan than its name says ('%s')",
               quote_str(st->name).s, quote_str(own).s);
      bad =
          err_hint(err, "was the folder renamed, or were files of another folder copied into it?");
    }
  }
  if (!bad) bad = read_small(j, st, &f, err);
  staging_header_free(&h);
  return bad;
}

static int open_outputs(struct staging *st, const struct plan *p, struct err *err) {
  for (uint32_t i = 0; i < p->n_outputs && staging_writes(st); i++) {
    struct entry_facts at;
    st->outputs[i] = fs_open_own(st->folder, p->outputs[i].name, FILE_READ, st->name, err);
    if (!file_is_open(st->outputs[i]) && err->kind != ERR_NONE) return -1;
    if (file_is_open(st->outputs[i]) && file_look(st->outputs[i], &at) == 0 &&
        at.size == p->outputs[i].size)
      continue;
    err_fill(err, ERR_INPUT, "the output '%s' in '%s' is missing, or has another size than planned",
             quote_str(p->outputs[i].name).s, quote_str(st->name).s);
    return err_hint(err, "run the 'weir plan' command again: other outputs are kept");
  }
  return 0;
}

// The staging once more, with what is known of the plan.
static void settle(struct staging_joined *j, struct staging *bare) {
  staging_reset(&j->st, &j->plan, bare->dest_path);
  j->st.folder = bare->folder;
  j->st.dest = bare->dest;
  j->st.lock = bare->lock;
  j->st.null = j->orders.null;
  snprintf(j->st.name, sizeof j->st.name, "%s", bare->name);
  bare->folder = bare->dest = NO_FOLDER;
  bare->lock = NO_FILE;
}

static int enter(struct staging *st, const char *path, enum staging_as as, struct arena *a,
                 struct err *err) {
  const char *own = named_folder(path, a), *name = path_base(own);
  if (!staging_name_is(name, NULL)) {
    err_fill(err, ERR_INPUT, "'%s' is not the folder of a plan", quote_path(path).s);
    return err_hint(err, "'weir plan' prints its name: .OUT.onnx.<16 digits>.weir");
  }
  staging_reset(st, NULL, name == own ? "." : arena_folder(a, own));
  snprintf(st->name, sizeof st->name, "%s", name);
  if (staging_open_dest(st->dest_path, &st->dest, err)) return -1;
  st->folder = folder_open(st->dest, name, FILE_NO_LINK);
  if (!folder_is_open(st->folder) && errno == ENOENT)
    return err_set(err, ERR_INPUT, "'%s' does not exist", quote_path(own).s);
  if (!folder_is_open(st->folder) && (errno == ELOOP || errno == ENOTDIR))
    return err_set(err, ERR_PERMISSION,
                   "'%s' is not a folder, or is a link: weir did not create it", quote_path(own).s);
  if (!folder_is_open(st->folder))
    return err_errno(err, errno, ERR_IO, "cannot open the folder '%s'", quote_path(own).s);
  if (staging_check_owner(st, err)) return -1;
  if (staging_seal_in(st->dest, name) == STAGING_SEAL_FINISHED)
    return err_set(err, ERR_INPUT, "the output of '%s' is in place", quote_path(own).s);
  return take_lock(st, as, err);
}

int staging_join(struct staging_joined *j, const char *path, const char *version,
                 enum staging_as as, struct err *err) {
  struct staging bare;
  *j = (struct staging_joined){.n_sources = 0};
  staging_reset(&bare, NULL, "");
  staging_reset(&j->st, NULL, "");
  int bad = enter(&bare, path, as, &j->arena, err);
  if (!bad) bad = read_all(j, &bare, version, err);
  if (!bad) {
    j->sealed = staging_has(bare.folder, STAGING_INTENT);
    settle(j, &bare);
    struct staging_header h;
    bad = staging_header_read(j->st.folder, version, &h, err);
    memcpy(j->st.header_sha256, h.sha256, DIGEST_BYTES);
    staging_header_free(&h);
  }
  // Of a seal that has begun, outputs are under way to their names.
  if (!bad && !j->sealed && as != STAGING_AS_VIEWER) bad = open_outputs(&j->st, &j->plan, err);
  if (!bad) bad = staging_take_records(&j->st, &j->plan, &j->bad_records, err);
  if (!bad && as == STAGING_AS_VIEWER) bad = fs_list(j->st.folder, note_birth, j, j->st.name, err);
  staging_close(&bare);
  if (bad) staging_leave(j);
  return bad;
}

int staging_join_again(struct staging_joined *j, struct err *err) {
  return staging_take_records(&j->st, &j->plan, &j->bad_records, err);
}

void staging_leave(struct staging_joined *j) {
  staging_close(&j->st);
  if (j->plan.n_outputs > 0) plan_free(&j->plan);
  arena_free(&j->arena);
  *j = (struct staging_joined){.n_sources = 0};
  staging_reset(&j->st, NULL, "");
}

// ---- sources ----

static int other_source(const char *name, const char *folder, const char *how, struct err *err) {
  err_fill(err, ERR_INPUT, "source '%s' in '%s' is not what the plan was made from (%s)",
           quote_str(name).s, quote_path(folder).s, how);
  return err_hint(err, "a copy must keep the modification time (cp -p, rsync -t); if the model "
                       "itself changed, plan again");
}

static int check_source(const struct staging_source *then, const struct sources *s, uint32_t file,
                        const char *folder, struct err *err) {
  const struct fingerprint now = sources_fingerprint(s, file);
  char sizes[80];
  snprintf(sizes, sizeof sizes, "%s bytes then, %s now", decimal(then->size).s,
           decimal(now.size).s);
  if (then->size != now.size) return other_source(then->name, folder, sizes, err);
  if (then->mtime_ns != now.mtime_ns)
    return other_source(then->name, folder, "same size, different mtime", err);
  return 0;
}

int staging_join_sources(const struct staging_joined *j, const char *folder, struct sources **out,
                         struct err *err) {
  struct arena a = {0};
  const char *where = folder ? folder : j->source_folder;
  const struct sources_options options = {.allow_links = j->orders.allow_links};
  const uint32_t n_model = j->n_sources - j->orders.n_companions;
  int bad = sources_open(out, arena_printf(&a, "%s/%s", where, j->sources[0].name), &options, err);
  for (uint32_t i = 1; i < j->n_sources && !bad; i++) {
    uint32_t file;
    bad = i < n_model ? sources_add(*out, span_str(j->sources[i].name), &file, err)
                      : sources_add_companion(*out, j->orders.companions[i - n_model], &file, err);
    if (!bad && file != i) bad = other_source(j->sources[i].name, where, "it is named twice", err);
  }
  for (uint32_t i = 0; i < j->n_sources && !bad; i++)
    bad = check_source(&j->sources[i], *out, i, where, err);
  arena_free(&a);
  if (bad && *out) sources_close(*out);
  if (bad) *out = NULL;
  return bad;
}
