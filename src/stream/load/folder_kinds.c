// Recognizes the records that weir wrote next to models in the folder of a bundle.
//
//   M.onnx.manifest.json, .sig, .tensors.jsonl    by their names, if M.onnx is there
//   edit logs, ranges, reports, pages, provenance  by their beginnings: users choose their names
//
// No more than HEAD_BYTES of a file are read, and what cannot be read is not known.
#include "folder_kinds.h"

#include "again.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_BYTES = 4096 };

static const struct {
  const char *end, *kind;
} names[] = {
    {".manifest.json", "manifest"}, {".sig", "signature"}, {".tensors.jsonl", "tensor digests"}};

// The beginning of the file, without blanks; `within`: a text that must follow in the head, or NULL.
static const struct {
  const char *start, *within, *kind;
} starts[] = {
    {"{\"weir_edit_log\":", NULL, "edit log"},
    {"{\"weir_ranges\":", NULL, "ranges"},
    {"{\"schema\":1,\"command\":\"", NULL, "report"},
    {"<!doctypehtml>", "<metaname=\"generator\"content=\"weir", "page"},
    {"{\"_type\":\"https://in-toto.io/Statement/v1\"", "#provenance/v1\"", "provenance"},
};

static int by_path(const void *key, const void *row) {
  return strcmp(key, ((const struct folder_model *)row)->path);
}

static const char *kind_by_name(struct model_folder *b, const struct folder_file *f) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!str_ends(f->path, names[i].end) || b->n_models == 0) continue;
    const char *model =
        arena_string(&b->arena, span_of(f->path, strlen(f->path) - strlen(names[i].end)));
    if (bsearch(model, b->models, b->n_models, sizeof *b->models, by_path)) return names[i].kind;
  }
  return NULL;
}

// The head of the file without blanks; its length.
static size_t read_head(const char *path, char head[HEAD_BYTES]) {
  ssize_t n = 0;
  size_t kept = 0;
  const int fd = again_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return 0;
  AGAIN(n, read(fd, head, HEAD_BYTES));
  close(fd);
  for (ssize_t i = 0; i < n; i++)
    if (!strchr(" \t\r\n", head[i]) || head[i] == '\0') head[kept++] = head[i];
  return kept;
}

static const char *kind_by_head(const char *path) {
  char head[HEAD_BYTES];
  const size_t n = read_head(path, head);
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    const size_t len = strlen(starts[i].start);
    const char *within = starts[i].within;
    if (n >= len && memcmp(head, starts[i].start, len) == 0 &&
        (!within || memmem(head, n, within, strlen(within))))
      return starts[i].kind;
  }
  return NULL;
}

const char *folder_kind(struct model_folder *b, const struct folder_file *f) {
  const char *kind = kind_by_name(b, f);
  return kind ? kind : kind_by_head(arena_printf(&b->arena, "%s/%s", b->folder, f->path));
}
