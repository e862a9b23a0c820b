// The files of a folder count in any order: what is known of each becomes a digest, and these are added without a carry.
#include "job_asked.h"

#include "digest.h"
#include "fs.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 3 }; // of folders: test_data_set_* in one that holds many, and one more

static void add_text(struct digest *d, const char *text) {
  digest_add(d, text, strlen(text) + 1);
}

static void add_stat(struct digest *d, const char *name, const struct stat *st) {
  char line[160];
  add_text(d, name);
  snprintf(line, sizeof line, "%lld %lld.%ld %lld.%ld %llu", (long long)st->st_size,
           (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
           st->st_ctim.tv_nsec, (unsigned long long)st->st_ino);
  add_text(d, line);
}

// ---- folders -----------------------------------------------------------------------------------

struct listing {
  int dir;
  unsigned depth;
  uint8_t sum[DIGEST_BYTES];
};

static void add_folder(struct digest *d, int dir, unsigned depth);

static int add_entry(void *ctx, const char *name) {
  struct listing *l = ctx;
  struct stat st;
  uint8_t one[DIGEST_BYTES];
  if (fstatat(l->dir, name, &st, 0)) return 0;
  struct digest *d = digest_new();
  digest_start(d);
  add_stat(d, name, &st);
  if (S_ISDIR(st.st_mode) && l->depth + 1 < DEPTH) {
    const int below = openat(l->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (below >= 0) add_folder(d, below, l->depth + 1);
  }
  digest_end(d, one);
  digest_free(d);
  for (size_t i = 0; i < DIGEST_BYTES; i++)
    l->sum[i] = (uint8_t)(l->sum[i] + one[i]);
  return 0;
}

// Closes it.
static void add_folder(struct digest *d, int dir, unsigned depth) {
  struct listing l = {.dir = dir, .depth = depth};
  struct err ignored = {0}; // what cannot be listed now is nobody's answer later either
  (void)fs_list(dir, add_entry, &l, "folder", &ignored);
  digest_add(d, l.sum, sizeof l.sum);
  close(dir);
}

// ---- the whole ---------------------------------------------------------------------------------

static bool add_path(struct digest *d, const char *path) {
  struct stat st;
  if (!path) return true;
  if (cli_is_stream(path)) return false;
  if (stat(path, &st)) return true; // the command says so itself
  add_stat(d, path, &st);
  const int dir = S_ISDIR(st.st_mode) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (dir >= 0) add_folder(d, dir, 0);
  return true;
}

static void add_pipeline(struct digest *d, const struct pipeline *p) {
  static const uint8_t nothing[DIGEST_BYTES];
  if (memcmp(p->read_sha256, nothing, DIGEST_BYTES) != 0)
    digest_add(d, p->read_sha256, DIGEST_BYTES);
  for (uint32_t i = 0; p->own && i < p->own->n_texts; i++) {
    add_text(d, p->own->texts[i].name);
    digest_add(d, p->own->texts[i].text.at, p->own->texts[i].text.n);
  }
  for (uint32_t i = 0; i < p->files.n; i++)
    digest_add(d, p->files.list[i]->sha256, DIGEST_BYTES);
  for (uint32_t i = 0; i < p->inputs.n_list; i++)
    (void)add_path(d, p->inputs.list[i]);
  for (uint32_t i = 0; i < p->outputs.n_list; i++)
    (void)add_path(d, p->outputs.list[i]);
  (void)add_path(d, p->reference);
}

const char *job_asked(const struct cli_args *args, const struct pipeline *pipeline,
                      struct arena *a) {
  uint8_t sha256[DIGEST_BYTES];
  char *hex = arena_alloc(a, DIGEST_HEX);
  struct digest *d = digest_new();
  const bool verifies = cli_option_belongs(OPT_VERIFY_INPUTS, args->command);
  digest_start(d);
  if (pipeline) add_pipeline(d, pipeline);
  const bool known = add_path(d, cli_operand(args, "EDITS")) &&
                     add_path(d, verifies ? cli_string(args, OPT_VERIFY_INPUTS) : NULL);
  digest_end(d, sha256);
  digest_free(d);
  hex_encode(sha256, DIGEST_BYTES, hex);
  return known ? hex : NULL;
}
