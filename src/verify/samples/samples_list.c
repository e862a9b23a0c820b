// Which samples there are: names of files and folders, by name, and raw files with what they say of themselves.
//
//   calib/              00.npz 01.npz …, or 00.npy 01.npy …, or test_data_set_0 …: one kind of them
//   x.bin:x:float:1x80x300
//
// test_data_set_10 comes behind test_data_set_9: their numbers count, not their digits.
#include "verify/samples/inside/samples_parts.h"

#include "platform/files.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdlib.h>

static const char data_set[] = "test_data_set_";

static bool is_data_set(const char *name) {
  return strncmp(name, data_set, sizeof data_set - 1) == 0;
}

static void add_path(struct samples_list *l, const char *path) {
  *TABLE_PUSH(l, items) =
      (struct samples_item){.path = path, .name = path_base(path), .kind = SAMPLES_FILE};
}

// ---- folders -----------------------------------------------------------------------------------

static int read_names(const char *path, struct fs_names *out, struct err *err) {
  const int rc = fs_names(path, out);
  if (rc == 0) return 0;
  return rc == -1 ? err_errno(err, errno, ERR_INPUT, "'%s' cannot be read", quote_path(path).s)
                  : err_errno(err, errno, ERR_IO, "'%s' cannot be listed", quote_path(path).s);
}

// Names of the same beginning and different numbers: the shorter number is the less.
static int by_name(const void *pa, const void *pb) {
  const char *a = *(const char *const *)pa, *b = *(const char *const *)pb;
  if (is_data_set(a) && is_data_set(b) && strlen(a) != strlen(b))
    return strlen(a) < strlen(b) ? -1 : 1;
  return strcmp(a, b);
}

// Those of one kind.
static uint32_t pick(struct fs_names *l, bool (*is)(const char *name)) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->n_names; i++)
    if (is(l->names[i])) {
      const char *name = l->names[i];
      l->names[i] = l->names[n];
      l->names[n++] = name;
    }
  return n;
}

static bool is_archive(const char *name) {
  return str_ends(name, ".npz");
}
static bool is_array(const char *name) {
  return str_ends(name, ".npy");
}
static bool is_message(const char *name) {
  return str_ends(name, ".pb") && strncmp(name, "input_", 6) == 0;
}

static int list_names(struct samples_list *l, const char *folder, struct fs_names *names,
                      struct arena *a, struct err *err) {
  if (pick(names, is_message) > 0) { // a data set of another name
    add_path(l, folder);
    return 0;
  }
  uint32_t n = pick(names, is_archive);
  if (n == 0) n = pick(names, is_array);
  if (n == 0) n = pick(names, is_data_set);
  if (n == 0) {
    err_fill(err, ERR_INPUT, "there are no samples in '%s'", quote_path(folder).s);
    return err_hint(err,
                    "a sample is a .npz with the model's inputs by name, a .npy (of a model with "
                    "one input), or a folder test_data_set_0 with input_0.pb, input_1.pb …");
  }
  if (n > SAMPLES_MOST)
    return err_set(err, ERR_INPUT, "'%s' has %u samples; the limit is %d", quote_path(folder).s, n,
                   SAMPLES_MOST);
  qsort(names->names, n, sizeof *names->names, by_name);
  for (uint32_t i = 0; i < n; i++)
    add_path(l, arena_printf(a, "%s/%s", folder, names->names[i]));
  return 0;
}

static int list_folder(struct samples_list *l, const char *path, struct arena *a, struct err *err) {
  struct fs_names names = {.a = a};
  int rc = read_names(path, &names, err);
  if (rc == 0) rc = list_names(l, path, &names, a, err);
  TABLE_FREE(&names, names);
  return rc;
}

// ---- raw files ---------------------------------------------------------------------------------

static int refuse_words(const char *data, const char *what, struct err *err) {
  err_fill(err, ERR_USAGE, "'%s': %s", quote_path(data).s, what);
  return err_hint(err, "write raw elements as FILE:INPUT:DTYPE:DIMS, for example "
                       "x.bin:audio:float:1x16000");
}

// The words behind the last three colons. False: there are no three.
static bool cut(const char *data, struct span words[4]) {
  const char *end = data + strlen(data);
  for (int i = 3; i > 0; i--) {
    const char *colon = end;
    while (colon > data && colon[-1] != ':')
      colon--;
    if (colon == data) return false;
    words[i] = span_of(colon, (size_t)(end - colon));
    end = colon - 1;
  }
  words[0] = span_of(data, (size_t)(end - data));
  return words[0].n > 0 && words[1].n > 0;
}

static bool read_dims(struct span text, int64_t *dims, uint32_t *rank) {
  *rank = 0;
  while (text.n > 0) {
    const uint8_t *cross = memchr(text.at, 'x', text.n);
    const size_t n = cross ? (size_t)(cross - text.at) : text.n;
    uint64_t dim;
    if (*rank == ARRAY_MAX_RANK || !span_decimal(span_of(text.at, n), &dim) || dim == 0)
      return false;
    dims[(*rank)++] = (int64_t)dim;
    if (cross && n + 1 == text.n) return false;
    text = span_of(text.at + n + (cross != NULL), text.n - n - (cross != NULL));
  }
  return true;
}

static int list_raw(struct samples_list *l, const char *data, struct arena *a, struct err *err) {
  struct span words[4];
  int64_t dims[ARRAY_MAX_RANK];
  struct samples_raw r = {.path = NULL};
  struct entry_facts at;
  uint64_t elements;
  if (!cut(data, words)) {
    (void)refuse_words(data, "there is no such file", err);
    err->kind = ERR_INPUT;
    return -1;
  }
  r.path = arena_string(a, words[0]);
  r.input = arena_string(a, words[1]);
  r.dtype = dtype_by_name(words[2]);
  if (!dtype_is_plain_number(r.dtype) && r.dtype != DTYPE_BOOL)
    return refuse_words(data, "its type is not one of float, int64, …", err);
  if (!read_dims(words[3], dims, &r.rank) ||
      !array_sizes(r.dtype, r.rank, dims, &elements, &r.bytes) || r.bytes == 0)
    return refuse_words(data, "its dims are not numbers of at least 1 separated by x", err);
  if (entry_look(HERE, r.path, 0, &at))
    return err_errno(err, errno, ERR_INPUT, "'%s' cannot be read", quote_path(r.path).s);
  if (at.kind != ENTRY_FILE)
    return err_set(err, ERR_INPUT, "'%s' is not a plain file", quote_path(r.path).s);
  if (at.size == 0 || at.size % r.bytes != 0) {
    err_fill(err, ERR_INPUT,
             "'%s' has %s bytes, which is not a multiple of the %s bytes of a sample",
             quote_path(r.path).s, decimal(at.size).s, decimal(r.bytes).s);
    return err_hint(err, "a sample is all elements of %s in the type %s",
                    quote_dims(dims, r.rank).s, dtype_name(r.dtype));
  }
  r.count = at.size / r.bytes;
  int64_t *kept = arena_copy(a, dims, r.rank * sizeof *kept);
  r.dims = kept;
  *TABLE_PUSH(l, raws) = r;
  return 0;
}

int samples_list_raws(struct samples_list *l, struct arena *a, struct err *err) {
  if (l->n_raws == 0) return 0;
  const struct samples_raw *first = &l->raws[0];
  for (uint32_t i = 1; i < l->n_raws; i++)
    if (l->raws[i].count != first->count)
      return err_set(err, ERR_INPUT, "'%s' has %s samples, and '%s' has %s",
                     quote_path(first->path).s, decimal(first->count).s,
                     quote_path(l->raws[i].path).s, decimal(l->raws[i].count).s);
  if (first->count > SAMPLES_MOST)
    return err_set(err, ERR_INPUT, "'%s' has %s samples; the limit is %d",
                   quote_path(first->path).s, decimal(first->count).s, SAMPLES_MOST);
  for (uint64_t k = 0; k < first->count; k++) {
    const char *name = arena_printf(a, "%s, sample %s", path_base(first->path), decimal(k).s);
    *TABLE_PUSH(l, items) =
        (struct samples_item){.path = first->path, .name = name, .kind = SAMPLES_RAW, .at = k};
  }
  return 0;
}

int samples_list_data(struct samples_list *l, const char *data, struct arena *a, struct err *err) {
  struct entry_facts at;
  if (entry_look(HERE, data, 0, &at)) {
    if (errno == ENOENT || errno == ENOTDIR) return list_raw(l, data, a, err);
    return err_errno(err, errno, ERR_INPUT, "'%s' cannot be read", quote_path(data).s);
  }
  size_t n = strlen(data);
  while (n > 1 && data[n - 1] == '/')
    n--;
  const char *path = arena_string(a, span_of(data, n));
  if (at.kind == ENTRY_FOLDER && !is_data_set(path_base(path))) return list_folder(l, path, a, err);
  add_path(l, path);
  return 0;
}
