// Reads what people keep inputs and outputs in: finds the files of each case, and gives each to the reader
// of its format (array_formats.h), which is told by its first bytes.
//
// A file stays open as long as an array lies in it, the one without a name as long as any does.
#include "verify/arrays/array_files.h"

#include "base/table.h"
#include "stream/sys/fs.h"
#include "verify/arrays/inside/array_formats.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES_MOST = 10000, ARRAYS_MOST = 10000 };

struct array_files {
  struct space s;
  struct arena *a;
  TABLE(struct array_case, cases);
  TABLE(struct file, held);
};

// ---- one file ----------------------------------------------------------------------------------

static int open_file(const char *path, struct feed_file *file, struct feed *f, struct err *err) {
  struct entry_facts at;
  *file = (struct feed_file){file_open(HERE, path, FILE_NO_WAIT), false};
  if (!file_is_open(file->file))
    return err_errno(err, errno, ERR_INPUT, "cannot open '%s'", quote_path(path).s);
  int bad = 0;
  if (file_look(file->file, &at) != 0)
    bad = err_errno(err, errno, ERR_IO, "cannot examine '%s'", quote_path(path).s);
  else if (at.kind != ENTRY_FILE)
    bad = err_set(err, ERR_INPUT, "'%s' is not a regular file", quote_path(path).s);
  if (bad) {
    file_close(&file->file);
    return -1;
  }
  *f = (struct feed){.path = path, .file = file, .len = at.size};
  return 0;
}

static void close_file(struct array_files *x, struct feed_file *file) {
  if (file->stays)
    *TABLE_PUSH(x, held) = file->file;
  else
    file_close(&file->file);
}

static int unknown_format(const struct feed *f, struct err *err) {
  feed_error(f, err, "it is not a .npz or a .npy");
  return err_hint(err, "give a .npz of arrays named as the model's inputs, or a folder of "
                       "test_data_set_*/input_*.pb");
}

// A file by its content: .npz, .npy, or one message if it is called .pb.
static int read_by_content(struct array_files *x, const struct feed *f, struct arrays *out,
                           struct err *err) {
  uint8_t lead[8];
  const size_t n = (size_t)min_u64(f->len, sizeof lead);
  if (feed_read(f, 0, lead, n, err) != 0) return -1;
  if (npz_begins(lead, n)) return npz_read(f, &x->s, out, err);
  const bool npy = npy_begins(lead, n);
  if (!npy && !str_ends(f->path, ".pb")) return unknown_format(f, err);
  *out = (struct arrays){.list = arena_zalloc(x->a, sizeof *out->list), .n = 1};
  return npy ? npy_read(f, "", &x->s, out->list, err) : pb_read(f, &x->s, out->list, err);
}

static int read_file_case(struct array_files *x, const char *path, struct err *err) {
  struct feed_file file;
  struct feed f;
  struct array_case c = {.name = arena_string(x->a, span_str(path_base(path)))};
  if (open_file(path, &file, &f, err) != 0) return -1;
  const int bad = read_by_content(x, &f, &c.inputs, err);
  close_file(x, &file);
  if (bad) return -1;
  *TABLE_PUSH(x, cases) = c;
  return 0;
}

// ---- folders -----------------------------------------------------------------------------------

static int list_folder(const char *path, struct fs_names *l, struct err *err) {
  const int rc = fs_names(path, l);
  if (rc == 0) return 0;
  return rc == -1 ? err_errno(err, errno, ERR_INPUT, "cannot open '%s'", quote_path(path).s)
                  : err_errno(err, errno, ERR_IO, "cannot list '%s'", quote_path(path).s);
}

// The number in "<before>N<behind>", digits alone; false for other names.
static bool number_in(const char *name, const char *before, const char *behind, uint64_t *n) {
  const size_t b = strlen(before), all = strlen(name), e = strlen(behind);
  if (all < b + e + 1 || memcmp(name, before, b) != 0 || !str_ends(name, behind)) return false;
  return span_decimal(span_of(name + b, all - b - e), n);
}

static bool has_numbered(const struct fs_names *l, const char *before, const char *behind) {
  uint64_t n;
  for (uint32_t i = 0; i < l->n_names; i++)
    if (number_in(l->names[i], before, behind, &n)) return true;
  return false;
}

static int read_message(struct array_files *x, const char *path, struct array *out,
                        struct err *err) {
  struct feed_file file;
  struct feed f;
  if (open_file(path, &file, &f, err) != 0) return -1;
  const int bad = pb_read(&f, &x->s, out, err);
  close_file(x, &file);
  return bad;
}

// <before>0.pb, <before>1.pb … without a gap.
static int read_numbered(struct array_files *x, const char *folder, const struct fs_names *l,
                         const char *before, struct arrays *out, struct err *err) {
  uint64_t n, count = 0, most = 0;
  for (uint32_t i = 0; i < l->n_names; i++) {
    if (!number_in(l->names[i], before, ".pb", &n)) continue;
    count++;
    most = max_u64(most, n);
  }
  if (count > ARRAYS_MOST)
    return err_set(err, ERR_MODEL, "'%s' has %s files %s*.pb; at most %d are read",
                   quote_path(folder).s, decimal(count).s, before, ARRAYS_MOST);
  *out = (struct arrays){.list = arena_zalloc(x->a, (count + 1) * sizeof *out->list)};
  for (; out->n < count; out->n++) {
    const char *path = arena_printf(x->a, "%s/%s%u.pb", folder, before, out->n);
    if (!path_exists(path))
      return err_set(err, ERR_INPUT, "'%s' has %s%s.pb, but no %s%u.pb", quote_path(folder).s,
                     before, decimal(most).s, before, out->n);
    if (read_message(x, path, &out->list[out->n], err) != 0) return -1;
  }
  return 0;
}

static int read_data_set(struct array_files *x, const char *folder, const struct fs_names *l,
                         struct err *err) {
  struct array_case c = {.name = arena_string(x->a, span_str(path_base(folder)))};
  if (read_numbered(x, folder, l, "input_", &c.inputs, err) != 0 ||
      read_numbered(x, folder, l, "output_", &c.outputs, err) != 0)
    return -1;
  *TABLE_PUSH(x, cases) = c;
  return 0;
}

struct numbered {
  uint64_t n;
  const char *name;
};
static int by_number(const void *a, const void *b) {
  const struct numbered *x = a, *y = b;
  return x->n != y->n ? (x->n > y->n) - (x->n < y->n) : strcmp(x->name, y->name);
}
static int too_many_cases(const char *path, struct err *err) {
  return err_set(err, ERR_MODEL, "'%s' has more than %d cases", quote_path(path).s, CASES_MOST);
}

static int read_data_sets(struct array_files *x, const char *path, const struct fs_names *l,
                          struct err *err) {
  struct numbered *sets = arena_alloc(x->a, (l->n_names + 1) * sizeof *sets);
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->n_names; i++) {
    sets[n].name = l->names[i];
    n += number_in(l->names[i], "test_data_set_", "", &sets[n].n);
  }
  if (n > CASES_MOST) return too_many_cases(path, err);
  qsort(sets, n, sizeof *sets, by_number);
  int bad = 0;
  for (uint32_t i = 0; bad == 0 && i < n; i++) {
    const char *folder = arena_printf(x->a, "%s/%s", path, sets[i].name);
    struct fs_names inside = {.a = x->a};
    bad = list_folder(folder, &inside, err);
    if (bad == 0) bad = read_data_set(x, folder, &inside, err);
    TABLE_FREE(&inside, names);
  }
  return bad;
}

static int read_archives(struct array_files *x, const char *path, struct fs_names *l,
                         struct err *err) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->n_names; i++)
    if (str_ends(l->names[i], ".npz")) l->names[n++] = l->names[i];
  if (n == 0) {
    err_set(err, ERR_INPUT, "'%s' has no test_data_set_*/input_*.pb and no *.npz",
            quote_path(path).s);
    return err_hint(err, "a case is a .npz of arrays named as the model's inputs, or a folder "
                         "test_data_set_0 with input_0.pb, input_1.pb …");
  }
  if (n > CASES_MOST) return too_many_cases(path, err);
  qsort(l->names, n, sizeof *l->names, str_order);
  for (uint32_t i = 0; i < n; i++)
    if (read_file_case(x, arena_printf(x->a, "%s/%s", path, l->names[i]), err) != 0) return -1;
  return 0;
}

enum holds { MESSAGES, DATA_SETS, ARCHIVES };
static enum holds what_holds(const char *path, const struct fs_names *l) {
  uint64_t n;
  if (has_numbered(l, "input_", ".pb") || has_numbered(l, "output_", ".pb") ||
      number_in(path_base(path), "test_data_set_", "", &n))
    return MESSAGES;
  return has_numbered(l, "test_data_set_", "") ? DATA_SETS : ARCHIVES;
}

static int read_listing(struct array_files *x, const char *path, struct fs_names *l,
                        struct err *err) {
  if (list_folder(path, l, err) != 0) return -1;
  switch (what_holds(path, l)) {
  case MESSAGES: return read_data_set(x, path, l, err);
  case DATA_SETS: return read_data_sets(x, path, l, err);
  default: return read_archives(x, path, l, err);
  }
}

static int read_folder(struct array_files *x, const char *path, struct err *err) {
  struct fs_names l = {.a = x->a};
  const int bad = read_listing(x, path, &l, err);
  TABLE_FREE(&l, names);
  return bad;
}

// ---- names of files ----------------------------------------------------------------------------

struct names {
  struct arena *a;
  uint32_t most;
  bool too_many;
  TABLE(const char *, paths);
};

static void add_name(struct names *x, const char *folder, const char *name) {
  x->too_many |= x->n_paths == x->most;
  if (!x->too_many) *TABLE_PUSH(x, paths) = arena_printf(x->a, "%s/%s", folder, name);
}

static void add_messages(struct names *x, const char *folder, const struct fs_names *l) {
  uint64_t n;
  for (uint32_t i = 0; i < l->n_names && !x->too_many; i++)
    if (number_in(l->names[i], "input_", ".pb", &n) || number_in(l->names[i], "output_", ".pb", &n))
      add_name(x, folder, l->names[i]);
}

static void add_data_sets(struct names *x, const char *path, const struct fs_names *l) {
  uint64_t n;
  for (uint32_t i = 0; i < l->n_names && !x->too_many; i++) {
    if (!number_in(l->names[i], "test_data_set_", "", &n)) continue;
    const char *folder = arena_printf(x->a, "%s/%s", path, l->names[i]);
    struct fs_names inside = {.a = x->a};
    if (list_folder(folder, &inside, &(struct err){0}) == 0) add_messages(x, folder, &inside);
    TABLE_FREE(&inside, names);
  }
}

static void add_archives(struct names *x, const char *path, const struct fs_names *l) {
  for (uint32_t i = 0; i < l->n_names && !x->too_many; i++)
    if (str_ends(l->names[i], ".npz")) add_name(x, path, l->names[i]);
}

// ---- the story ---------------------------------------------------------------------------------

// Names of messages end in no slash.
static const char *without_slashes(const char *path, struct arena *a) {
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/')
    n--;
  return arena_string(a, span_of(path, n));
}

static struct array_files *begin(const char *scratch_folder, uint64_t most, struct arena *a) {
  struct array_files *x = arena_zalloc(a, sizeof *x);
  assert(scratch_folder);
  x->a = a;
  x->s = (struct space){.a = a,
                        .most = most,
                        .left = most,
                        .memory = FEED_MEMORY,
                        .scratch = arena_string(a, span_str(scratch_folder))};
  return x;
}

static int end(struct array_files *x, int bad, struct array_files **out,
               struct array_cases *cases) {
  struct arena *a = x->a;
  *out = NULL;
  *cases = (struct array_cases){0};
  if (bad) {
    array_files_close(x);
    return -1;
  }
  cases->n = x->n_cases;
  cases->list = arena_zalloc(a, (x->n_cases + 1) * sizeof *cases->list);
  for (uint32_t i = 0; i < x->n_cases; i++)
    cases->list[i] = x->cases[i];
  *out = x;
  return 0;
}

int array_files_read(struct array_files **out, const char *path, const char *scratch_folder,
                     uint64_t most, struct arena *a, struct array_cases *cases, struct err *err) {
  struct entry_facts at;
  *out = NULL;
  path = without_slashes(path, a);
  if (entry_look(HERE, path, 0, &at))
    return err_errno(err, errno, ERR_INPUT, "cannot open '%s'", quote_path(path).s);
  struct array_files *x = begin(scratch_folder, most, a);
  const int bad =
      at.kind == ENTRY_FOLDER ? read_folder(x, path, err) : read_file_case(x, path, err);
  return end(x, bad, out, cases);
}

bool array_files_names(const char *path, uint32_t most, struct arena *a, struct array_paths *out) {
  struct names x = {.a = a, .most = most};
  struct fs_names l = {.a = a};
  path = without_slashes(path, a);
  if (list_folder(path, &l, &(struct err){0}) == 0) {
    static void (*const add[])(struct names *, const char *, const struct fs_names *) = {
        [MESSAGES] = add_messages, [DATA_SETS] = add_data_sets, [ARCHIVES] = add_archives};
    add[what_holds(path, &l)](&x, path, &l);
  }
  TABLE_FREE(&l, names);
  const char **list = arena_copy(a, x.paths, x.n_paths * sizeof *list);
  qsort(list, x.n_paths, sizeof *list, str_order);
  *out = (struct array_paths){list, x.n_paths};
  TABLE_FREE(&x, paths);
  return !x.too_many;
}

static int read_list(struct array_files *x, const struct array_paths *paths, struct arrays *all,
                     struct err *err) {
  *all = (struct arrays){0};
  for (uint32_t i = 0; i < paths->n; i++) {
    struct feed_file file;
    struct feed f;
    struct arrays one;
    if (open_file(arena_string(x->a, span_str(paths->list[i])), &file, &f, err) != 0) return -1;
    const int bad = read_by_content(x, &f, &one, err);
    close_file(x, &file);
    if (bad) return -1;
    struct array *list = arena_zalloc(x->a, (all->n + one.n + (size_t)1) * sizeof *list);
    if (all->n) memcpy(list, all->list, all->n * sizeof *list);
    if (one.n) memcpy(list + all->n, one.list, one.n * sizeof *list);
    *all = (struct arrays){list, all->n + one.n};
  }
  return 0;
}

int array_files_read_lists(struct array_files **out, const struct array_paths *inputs,
                           const struct array_paths *outputs, const char *scratch_folder,
                           uint64_t most, struct arena *a, struct array_cases *cases,
                           struct err *err) {
  struct array_files *x = begin(scratch_folder, most, a);
  struct array_case c = {.name = "reference"};
  const int bad = read_list(x, inputs, &c.inputs, err) || read_list(x, outputs, &c.outputs, err);
  if (!bad) *TABLE_PUSH(x, cases) = c;
  return end(x, bad, out, cases);
}

void array_files_close(struct array_files *x) {
  if (!x) return;
  for (uint32_t i = 0; i < x->n_held; i++)
    file_close(&x->held[i]);
  space_close(&x->s);
  TABLES_FREE(x, held, cases);
}
