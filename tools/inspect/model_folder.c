// A folder of models.
//
//   DIR ──▶ all files, by path ──▶ *.onnx ──▶ their parts ──▶ sorted by device and inode ──▶ shared, used, sums
//
// Files are the same if they are one file of the system, whatever they are called: a data file that two models
// refer to counts once, and so does one with several names, as in a Hugging Face cache, where snapshots are links
// to blobs. Nothing is read but metadata of .onnx files; what is beside the folder is no part of it.
#include "model_folder.h"

#include "again.h"
#include "shell_words.h"
#include "folder_kinds.h"
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { PARTS_SHOWN = 3, OTHERS_SHOWN = 20 };

bool model_folder_is(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

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
  struct stat link, st = {0};
  const char *at = opened(b, path);
  if (lstat(at, &link) != 0) {
    if (errno == ENOENT) return 0; // gone since it was listed
    return err_errno(err, errno, ERR_INPUT, "the attributes of '%s' cannot be read",
                     quote_path(at).s);
  }
  const bool leads_nowhere = S_ISLNK(link.st_mode) && stat(at, &st) != 0;
  if (!S_ISLNK(link.st_mode)) st = link;
  if (S_ISDIR(link.st_mode)) *TABLE_PUSH(f, rows) = path;
  if (!S_ISREG(st.st_mode) && !(leads_nowhere && str_ends(path, ".onnx"))) return 0;
  *TABLE_PUSH(b, files) = (struct folder_file){
      .path = path, .bytes = (uint64_t)st.st_size, .dev = st.st_dev, .ino = st.st_ino};
  return 0;
}

// Counted as they come: nobody knows how many names a folder has.
static int list_one(struct model_folder *b, struct folders *f, const char *folder,
                    struct err *err) {
  int rc = 0, failed = 0;
  DIR *list = again_opendir(opened(b, folder));
  if (!list) failed = errno;
  while (rc == 0 && list) {
    errno = 0;
    const struct dirent *e = readdir(list);
    if (!e) failed = errno;
    if (!e) break;
    if (e->d_name[0] == '.') continue;
    rc = ++b->n_entries > MODEL_FOLDER_FILES ? too_many(b, err)
                                             : take_entry(b, f, below(b, folder, e->d_name), err);
  }
  if (list) closedir(list);
  if (failed)
    return err_errno(err, failed, ERR_INPUT, "the folder '%s' cannot be read",
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
  TABLE_FREE(b, files);
  TABLE_FREE(b, models);
  TABLE_FREE(b, parts);
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

static bool is_there(const struct folder_part *p) {
  return !p->missing && !p->unreadable;
}

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

void model_folder_sum(struct model_folder *b) {
  struct folder_part **parts = arena_alloc(&b->arena, (b->n_parts + (size_t)1) * sizeof *parts);
  struct folder_file **files = arena_alloc(&b->arena, (b->n_files + (size_t)1) * sizeof *files);
  size_t n = 0, at = 0;
  for (uint32_t i = 0; i < b->n_models; i++)
    b->n_read += b->models[i].why == NULL;
  for (uint32_t i = 0; i < b->n_parts; i++)
    if (is_there(&b->parts[i])) parts[n++] = &b->parts[i];
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

// ---- printing -----------------------------------------------------------------------------------

static void print_part(const struct folder_model *m, const struct folder_part *p) {
  const size_t folder = (size_t)(path_base(m->path) - m->path);
  printf(" + %s (%s%s)", quote_str(p->path + folder).s,
         p->missing      ? "missing"
         : p->unreadable ? "unreadable"
                         : quote_bytes(p->bytes).s,
         p->shared ? ", shared" : "");
}

static void print_model(const struct model_folder *b, const struct folder_model *m) {
  printf("%-10s %s", quote_bytes(m->bytes).s, quote_str(m->path).s);
  if (m->n > 1) printf(" (%s)", quote_bytes(b->parts[m->first].bytes).s);
  for (uint32_t i = 1; i < m->n && i <= PARTS_SHOWN; i++)
    print_part(m, &b->parts[m->first + i]);
  if (m->n > PARTS_SHOWN + 1) printf(" + %u more data files", m->n - PARTS_SHOWN - 1);
  if (b->checked)
    printf(": %lu error%s, %lu warning%s, %lu note%s", m->errors, plural(m->errors), m->warnings,
           plural(m->warnings), m->notes, plural(m->notes));
  putchar('\n');
}

static void print_sum(const struct model_folder *b) {
  printf("%-10s in all: %lu model%s in %u file%s", quote_bytes(b->bytes).s, b->n_read,
         plural(b->n_read), b->n_distinct, plural(b->n_distinct));
  if (b->n_shared)
    printf("; %u file%s of several models, counted once", b->n_shared, plural(b->n_shared));
  putchar('\n');
}

static void print_skipped(const struct model_folder *b) {
  bool any = false;
  for (uint32_t i = 0; i < b->n_models && report_stdout_alive(); i++) {
    const struct folder_model *m = &b->models[i];
    if (!m->why || b->checked) continue;
    if (!any) printf("\nSkipped: not readable as a model\n");
    any = true;
    printf("  %s: %s\n", quote_str(m->path).s, m->why);
  }
}

// Of weir, or of nobody known.
static void print_others(const struct model_folder *b, bool own, const char *title) {
  uint32_t n = 0;
  uint64_t rest = 0;
  for (uint32_t i = 0; i < b->n_files; i++) {
    const struct folder_file *f = &b->files[i];
    if (f->used || (f->kind != NULL) != own) continue;
    if (n == 0) printf("\n%s\n", title);
    if (n++ >= OTHERS_SHOWN)
      rest += f->bytes;
    else if (own)
      printf("%-10s %s (%s)\n", quote_bytes(f->bytes).s, quote_str(f->path).s, f->kind);
    else
      printf("%-10s %s\n", quote_bytes(f->bytes).s, quote_str(f->path).s);
  }
  if (n > OTHERS_SHOWN) printf("%-10s in %u more\n", quote_bytes(rest).s, n - OTHERS_SHOWN);
}

void model_folder_print(const struct model_folder *b) {
  for (uint32_t i = 0; i < b->n_models && report_stdout_alive(); i++)
    if (!b->models[i].why || b->checked) print_model(b, &b->models[i]);
  print_sum(b);
  print_skipped(b);
  print_others(b, true, "Files of weir next to them");
  print_others(b, false, "Files that no model refers to");
}

// ---- JSON ---------------------------------------------------------------------------------------

static void write_part(const struct folder_part *p, struct json_out *j) {
  json_object(j);
  json_put_text(j, "path", p->path);
  json_put_uint(j, "bytes", p->bytes);
  if (p->missing) json_put_bool(j, "missing", true);
  if (p->unreadable) json_put_text(j, "unreadable", p->unreadable);
  json_put_bool(j, "shared", p->shared);
  json_end_object(j);
  report_json_flush(j);
}

static void write_model(const struct model_folder *b, const struct folder_model *m,
                        struct json_out *j) {
  json_object(j);
  json_put_text(j, "path", m->path);
  json_put_uint(j, "bytes", m->bytes);
  json_put_array(j, "files");
  for (uint32_t i = 0; i < m->n; i++)
    write_part(&b->parts[m->first + i], j);
  json_end_array(j);
  if (b->checked) {
    json_put_uint(j, "errors", m->errors);
    json_put_uint(j, "warnings", m->warnings);
    json_put_uint(j, "notes", m->notes);
  }
  json_end_object(j);
}

static void write_others(const struct model_folder *b, bool own, const char *key,
                         struct json_out *j) {
  json_put_array(j, key);
  for (uint32_t i = 0; i < b->n_files; i++) {
    const struct folder_file *f = &b->files[i];
    if (f->used || (f->kind != NULL) != own) continue;
    json_object(j);
    json_put_text(j, "path", f->path);
    json_put_uint(j, "bytes", f->bytes);
    if (own) json_put_text(j, "kind", f->kind);
    json_end_object(j);
    report_json_flush(j);
  }
  json_end_array(j);
}

void model_folder_write(const struct model_folder *b, struct json_out *j) {
  json_put_object(j, "folder");
  json_put_array(j, "models");
  for (uint32_t i = 0; i < b->n_models; i++)
    if (!b->models[i].why) write_model(b, &b->models[i], j);
  json_end_array(j);
  json_put_array(j, "skipped");
  for (uint32_t i = 0; i < b->n_models; i++) {
    if (!b->models[i].why) continue;
    json_object(j);
    json_put_text(j, "path", b->models[i].path);
    json_put_text(j, "why", b->models[i].why);
    json_end_object(j);
    report_json_flush(j);
  }
  json_end_array(j);
  write_others(b, true, "records", j);
  write_others(b, false, "unreferenced", j);
  json_put_uint(j, "files", b->n_distinct);
  json_put_uint(j, "bytes", b->bytes);
  json_end_object(j);
}
