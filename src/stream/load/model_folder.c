//   DIR ──▶ all files, by path ──▶ *.onnx ──▶ their parts ──▶ sorted by device and inode ──▶ shared, used, sums
//
// Files are the same if they are one file of the system, whatever they are called: a data file that two models
// refer to counts once, and so does one with several names, as in a Hugging Face cache, where snapshots are links
// to blobs. Nothing is read but metadata of .onnx files; what is beside the folder is no part of it.
#include "stream/load/model_folder.h"

#include "platform/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// ---- the folder ---------------------------------------------------------------------------------

static int too_many(const struct model_folder *b, struct err *err) {
  err_set(err, ERR_INPUT, "more than %d files are below '%s'", MODEL_FOLDER_FILES,
          quote_path(b->folder).s);
  return err_hint(err, "give the folder of the models themselves");
}

struct folders {
  TABLE(const char *, rows); // below the folder; "" is itself
};

static const char *below(struct model_folder *b, const char *folder, const char *name) {
  return *folder ? arena_printf(&b->arena, "%s/%s", folder, name)
                 : arena_string(&b->arena, span_str(name));
}

static const char *opened(struct model_folder *b, const char *path) {
  const char *slash = str_ends(b->folder, "/") ? "" : "/";
  return *path ? arena_printf(&b->arena, "%s%s%s", b->folder, slash, path) : b->folder;
}

// A link that leads nowhere is no file, but a model that is missing if it is called so.
static int take_entry(struct model_folder *b, struct folders *f, const char *path,
                      struct err *err) {
  struct entry_facts link, is = {.kind = ENTRY_OTHER};
  const char *at = opened(b, path);
  if (entry_look(HERE, at, FILE_NO_LINK, &link)) {
    if (errno == ENOENT) return 0; // gone since it was listed
    return err_errno(err, errno, ERR_INPUT, "the attributes of '%s' cannot be read",
                     quote_path(at).s);
  }
  const bool leads_nowhere = link.kind == ENTRY_LINK && entry_look(HERE, at, 0, &is) != 0;
  if (link.kind != ENTRY_LINK) is = link;
  if (link.kind == ENTRY_FOLDER) *TABLE_PUSH(f, rows) = path;
  if (is.kind != ENTRY_FILE && !(leads_nowhere && str_ends(path, ".onnx"))) return 0;
  *TABLE_PUSH(b, files) =
      (struct folder_file){.path = path, .bytes = is.size, .dev = is.volume, .ino = is.number};
  return 0;
}

struct listing {
  struct model_folder *b;
  struct folders *f;
  const char *folder;
  struct err *err;
};

static int take_name(void *ctx, const char *name) {
  const struct listing *l = ctx;
  if (name[0] == '.') return 0;
  return ++l->b->n_entries > MODEL_FOLDER_FILES
             ? too_many(l->b, l->err)
             : take_entry(l->b, l->f, below(l->b, l->folder, name), l->err);
}

// Counted as they come: nobody knows how many names a folder has.
static int list_one(struct model_folder *b, struct folders *f, const char *folder,
                    struct err *err) {
  struct listing l = {b, f, folder, err};
  int rc;
  if (folder_names(HERE, opened(b, folder), take_name, &l, &rc))
    rc = err_errno(err, errno, ERR_INPUT, "the folder '%s' cannot be read",
                   quote_path(opened(b, folder)).s);
  return rc;
}

static int by_path(const void *pa, const void *pb) {
  return strcmp(((const struct folder_file *)pa)->path, ((const struct folder_file *)pb)->path);
}

int model_folder_list(struct model_folder *b, const char *folder, struct err *err) {
  struct folders f = {0};
  *b = (struct model_folder){.folder = folder};
  *TABLE_PUSH(&f, rows) = "";
  int rc = 0;
  for (uint32_t i = 0; rc == 0 && i < f.n_rows; i++)
    rc = list_one(b, &f, f.rows[i], err);
  TABLE_FREE(&f, rows);
  if (rc) return -1;
  if (b->n_files) qsort(b->files, b->n_files, sizeof *b->files, by_path);
  for (uint32_t i = 0; i < b->n_files; i++) {
    if (!str_ends(b->files[i].path, ".onnx")) continue;
    b->files[i].used = true;
    *TABLE_PUSH(b, models) = (struct folder_model){
        .path = b->files[i].path, .given = opened(b, b->files[i].path), .bytes = b->files[i].bytes};
  }
  if (b->n_models > 0) return 0;
  return err_set(err, ERR_INPUT, "no .onnx files in '%s' or the folders in it",
                 quote_path(folder).s);
}

void model_folder_done(struct model_folder *b) {
  TABLES_FREE(b, files, models, parts);
  arena_free(&b->arena);
}

// ---- models -------------------------------------------------------------------------------------

void model_folder_take(struct model_folder *b, struct folder_model *model,
                       const struct sources *sources) {
  const char *base = path_base(model->path);
  const char *folder = arena_string(&b->arena, span_of(model->path, (size_t)(base - model->path)));
  model->bytes = 0;
  model->first = b->n_parts;
  model->n = sources_count(sources);
  for (uint32_t f = 0; f < model->n; f++) {
    struct folder_part p = {.model = (uint32_t)(model - b->models)};
    struct err why = {0};
    p.path = arena_printf(&b->arena, "%s%s", folder, sources_name(sources, f));
    if (!sources_is_absent(sources, f)) {
      const struct fingerprint is = sources_fingerprint(sources, f);
      p.bytes = is.size;
      p.dev = is.dev;
      p.ino = is.ino;
    } else if (sources_why_absent(sources, f, &why) && why.kind == ERR_PERMISSION) {
      p.unreadable = arena_string(&b->arena, span_str(why.msg));
    } else {
      p.missing = true;
    }
    model->bytes += p.bytes;
    *TABLE_PUSH(b, parts) = p;
  }
}

void model_folder_skip(struct model_folder *b, struct folder_model *model, const struct err *why) {
  model->why = arena_string(&b->arena, span_str(why->msg));
}

// ---- sums ---------------------------------------------------------------------------------------

static int by_place(uint64_t dev, uint64_t ino, uint64_t other_dev, uint64_t other_ino) {
  if (dev != other_dev) return dev < other_dev ? -1 : 1;
  return (ino > other_ino) - (ino < other_ino);
}

static int by_inode(const void *pa, const void *pb) {
  const struct folder_file *a = *(struct folder_file *const *)pa,
                           *b = *(struct folder_file *const *)pb;
  return by_place(a->dev, a->ino, b->dev, b->ino);
}

static int part_by_inode(const void *pa, const void *pb) {
  const struct folder_part *a = *(struct folder_part *const *)pa,
                           *b = *(struct folder_part *const *)pb;
  const int place = by_place(a->dev, a->ino, b->dev, b->ino);
  return place ? place : (a->model > b->model) - (a->model < b->model);
}

// Parts that are one file, next to each other.
static void sum_run(struct model_folder *b, struct folder_part **run, size_t n) {
  const bool shared = run[0]->model != run[n - 1]->model;
  b->bytes += run[0]->bytes;
  b->n_distinct++;
  b->n_shared += shared;
  for (size_t i = 0; i < n; i++)
    run[i]->shared = shared;
}

// ---- records of weir -----------------------------------------------------------------------------

// Recognizes the records that weir wrote next to models in the folder of a bundle.
//
//   M.onnx.manifest.json, .sig, .tensors.jsonl    by their names, if M.onnx is there
//   edit logs, ranges, reports, pages, provenance  by their beginnings: users choose their names
//
// No more than HEAD_BYTES of a file are read, and what cannot be read is not known.
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

static int by_model_path(const void *key, const void *row) {
  return strcmp(key, ((const struct folder_model *)row)->path);
}

static const char *kind_by_name(struct model_folder *b, const struct folder_file *f) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!str_ends(f->path, names[i].end) || b->n_models == 0) continue;
    const char *model =
        arena_string(&b->arena, span_of(f->path, strlen(f->path) - strlen(names[i].end)));
    if (bsearch(model, b->models, b->n_models, sizeof *b->models, by_model_path))
      return names[i].kind;
  }
  return NULL;
}

// The head of the file without blanks; its length.
static size_t read_head(const char *path, char head[HEAD_BYTES]) {
  size_t kept = 0;
  struct file f = file_open(HERE, path, FILE_NO_WAIT);
  if (!file_is_open(f)) return 0;
  const int64_t n = file_read(f, head, HEAD_BYTES);
  file_close(&f);
  for (int64_t i = 0; i < n; i++)
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
        (!within || span_find(span_of(head, n), span_str(within))))
      return starts[i].kind;
  }
  return NULL;
}

// "manifest", "edit log", …: the kind of record that weir wrote; NULL: it is another file.
static const char *folder_kind(struct model_folder *b, const struct folder_file *f) {
  const char *kind = kind_by_name(b, f);
  return kind ? kind : kind_by_head(arena_printf(&b->arena, "%s/%s", b->folder, f->path));
}

void model_folder_sum(struct model_folder *b) {
  struct folder_part **parts = arena_alloc(&b->arena, (b->n_parts + (size_t)1) * sizeof *parts);
  struct folder_file **files = arena_alloc(&b->arena, (b->n_files + (size_t)1) * sizeof *files);
  size_t n = 0, at = 0;
  for (uint32_t i = 0; i < b->n_models; i++)
    b->n_read += b->models[i].why == NULL;
  for (uint32_t i = 0; i < b->n_parts; i++)
    if (!b->parts[i].missing && !b->parts[i].unreadable) parts[n++] = &b->parts[i];
  for (uint32_t i = 0; i < b->n_files; i++)
    files[i] = &b->files[i];
  qsort(parts, n, sizeof *parts, part_by_inode);
  qsort(files, b->n_files, sizeof *files, by_inode);
  for (size_t i = 0, k; i < n; i = k) {
    for (k = i; k < n && by_place(parts[i]->dev, parts[i]->ino, parts[k]->dev, parts[k]->ino) == 0;)
      k++;
    sum_run(b, parts + i, k - i);
    for (; at < b->n_files &&
           by_place(files[at]->dev, files[at]->ino, parts[i]->dev, parts[i]->ino) <= 0;
         at++)
      files[at]->used |= files[at]->dev == parts[i]->dev && files[at]->ino == parts[i]->ino;
  }
  for (uint32_t i = 0; i < b->n_files; i++)
    if (!b->files[i].used) b->files[i].kind = folder_kind(b, &b->files[i]);
}
