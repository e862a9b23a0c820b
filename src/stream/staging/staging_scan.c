// What interrupted runs left in a folder, and which of it may go.
//
//   .<OUT>.<16 hex>.weir        a run's staging folder: locked, half-sealed, finished, or dead
//   <OUT>.onnx.<8 hex>.data     a fresh-named sidecar that no .onnx names: its seal never reached the
//                               commit point. Of several: …data_1, …data_2, …
//
// Only the finished and the dead may be removed. A half-sealed folder holds the one list of what is left to do, and
// the sidecars it has put in place already are named by no .onnx yet: they are no orphans. The
// decision is made again, under the exclusive lock, when something is removed.
#include "stream/staging/inside/records.h"
#include "stream/staging/inside/staging_header.h"
#include "stream/staging/staging_folder.h"
#include "stream/staging/staging_join.h"
#include "stream/sys/fs.h"
#include "stream/sys/name_scan.h"

#include <errno.h>
#include <stdio.h>

enum { SEAL_MAX_BYTES = 256 << 20 };

// ---- unfinished seals ----

struct finding {
  struct folder dest;
  const char *onnx_name;
  char *name;
  enum staging_seal state;
};

static int find_entry(void *ctx, const char *name) {
  struct finding *f = ctx;
  if (!staging_name_is(name, f->onnx_name)) return 0;
  const enum staging_seal state = staging_seal_in(f->dest, name);
  if (state == STAGING_SEAL_NONE) return 0;
  snprintf(f->name, STAGING_NAME_MAX, "%s", name);
  f->state = state;
  return state == STAGING_SEAL_UNFINISHED; // which is what matters: look no further
}

int staging_find_seal_in(struct folder dest, const char *dest_folder, const char *onnx_name,
                         char name[STAGING_NAME_MAX], enum staging_seal *state, struct err *err) {
  struct finding f = {.dest = dest, .onnx_name = onnx_name, .name = name};
  name[0] = '\0';
  const int bad = fs_list(dest, find_entry, &f, dest_folder, err);
  *state = f.state;
  return bad < 0 ? -1 : 0;
}

int staging_find_seal(const char *dest_folder, const char *onnx_name, char name[STAGING_NAME_MAX],
                      enum staging_seal *state, struct err *err) {
  struct folder dest;
  if (staging_open_dest(dest_folder, &dest, err)) return -1;
  const int bad = staging_find_seal_in(dest, dest_folder, onnx_name, name, state, err);
  folder_close(&dest);
  return bad;
}

// ---- orphans ----

// The length of "<x>.onnx" in "<x>.onnx.<8 hex>.data" or "<x>.onnx.<8 hex>.data_<number>", or 0.
static size_t fresh_sidecar_of(const char *name) {
  const size_t n = plan_data_stem(name), tail = strlen(".01234567.data");
  if (n <= tail + strlen(".onnx")) return 0;
  const char *at = name + n - tail;
  if (at[0] != '.' || memcmp(at + 9, ".data", 5) != 0) return 0;
  if (strspn(at + 1, "0123456789abcdef") < 8) return 0;
  return memcmp(at - 5, ".onnx", 5) == 0 ? n - tail : 0;
}

struct claim {
  struct folder dir;
  const char *name;
};

// Does this entry's seal.json mention the name?
static int claims(void *ctx, const char *entry) {
  const struct claim *c = ctx;
  char path[STAGING_NAME_MAX + 16];
  if (!staging_name_is(entry, NULL)) return 0;
  snprintf(path, sizeof path, "%s/" STAGING_INTENT, entry);
  struct span text;
  struct err err = {0};
  if (fs_read_file(c->dir, path, SEAL_MAX_BYTES, &text, &err)) return err.kind != ERR_NONE;
  const bool found = span_find(text, span_str(c->name)) != NULL;
  fs_free(text);
  return found;
}

static bool is_orphan(struct folder dir, const char *name) {
  struct claim c = {.dir = dir, .name = name};
  struct err err = {0};
  char who[256];
  return fresh_sidecar_of(name) > 0 && entry_is_file(dir, name, NULL) &&
         fs_list(dir, claims, &c, "", &err) == 0 &&
         name_scan_folder(dir, name, NULL, who) == NAME_SCAN_FREE;
}

// ---- scanning ----

struct scan {
  struct folder dir;
  int (*each)(void *ctx, const struct staging_found *found);
  void *ctx;
  struct err *err;
};

static int is_of_records(void *ctx, const char *name) {
  (void)ctx;
  return records_is_name(name);
}

static int report_folder(const struct scan *s, const char *name) {
  const enum staging_seal state = staging_seal_in(s->dir, name);
  const bool done = state == STAGING_SEAL_FINISHED;
  struct folder folder = folder_open(s->dir, name, FILE_NO_LINK);
  if (!folder_is_open(folder)) return 0;
  struct staging_header h = {0};
  struct err unread = {0}; // a header that cannot be read only leaves out how to resume
  staging_header_read(folder, "", &h, &unread);
  struct err unlisted = {0};
  const struct staging_found found = {
      .name = name,
      .planned = !done && staging_has(folder, STAGING_ORDERS),
      .begun = fs_list(folder, is_of_records, NULL, name, &unlisted) != 0,
      .bytes = staging_folder_bytes(folder),
      .locked = staging_is_locked(folder),
      .half_sealed = state == STAGING_SEAL_UNFINISHED,
      .finished = done,
      .resume_command = done ? NULL : staging_header_resume(&h),
  };
  const int stop = s->each(s->ctx, &found);
  staging_header_free(&h);
  folder_close(&folder);
  return stop;
}

static int report_orphan(const struct scan *s, const char *name) {
  struct entry_facts at;
  if (!is_orphan(s->dir, name) || entry_look(s->dir, name, FILE_NO_LINK, &at)) return 0;
  char of[256];
  snprintf(of, sizeof of, "%.*s", (int)fresh_sidecar_of(name), name);
  const struct staging_found found = {.name = name, .bytes = at.allocated, .orphan_of = of};
  return s->each(s->ctx, &found);
}

static int scan_entry(void *ctx, const char *name) {
  const struct scan *s = ctx;
  if (strlen(name) >= STAGING_NAME_MAX) return 0;
  if (staging_name_is(name, NULL)) return report_folder(s, name);
  return fresh_sidecar_of(name) > 0 ? report_orphan(s, name) : 0;
}

int staging_scan(const char *dir, int (*each)(void *ctx, const struct staging_found *found),
                 void *ctx, struct err *err) {
  struct scan s = {.each = each, .ctx = ctx, .err = err};
  if (staging_open_dest(dir, &s.dir, err)) return -1;
  const int result = fs_list(s.dir, scan_entry, &s, dir, err);
  folder_close(&s.dir);
  return result;
}

// ---- removing ----

static int remove_orphan(const char *dir, const char *name, struct err *err) {
  struct folder folder;
  int bad = 0;
  if (staging_open_dest(dir, &folder, err)) return -1;
  if (strchr(name, '/') || !is_orphan(folder, name))
    bad = err_set(err, ERR_USAGE, "'%s' in '%s' is not a staging folder or an unused data file",
                  quote_str(name).s, quote_str(dir).s);
  else if (file_remove(folder, name) && errno != ENOENT)
    bad = err_errno(err, errno, ERR_IO, "cannot remove '%s'", quote_str(name).s);
  folder_close(&folder);
  return bad;
}

int staging_remove_named(const char *dir, const char *name, struct err *err) {
  if (strchr(name, '/') || !staging_name_is(name, NULL)) return remove_orphan(dir, name, err);
  struct staging st;
  if (staging_open_sealed(&st, dir, name, err)) return -1;
  const enum staging_seal state = staging_seal_in(st.dest, st.name);
  if (state == STAGING_SEAL_FINISHED) return staging_retire(&st, err);
  if (state == STAGING_SEAL_NONE) return staging_remove(&st, err);
  staging_close(&st);
  err_set(err, ERR_RETRY, "'%s' in '%s' contains an output that is only partly in place",
          quote_str(name).s, quote_str(dir).s);
  return err_hint(err, "run the same command again to complete it ('weir clean' shows it)");
}
