// Writes a case as ONNX's own tests keep theirs:
//
//   folder/test_data_set_<k>/input_0.pb …, output_0.pb …
//
// each a TensorProto, SequenceProto or OptionalProto. The set grows under another
// name beside and takes its own when it is whole; one of that name is never replaced.
//
// Elements go as raw_data, a stretch at a time; strings as string_data. Lengths stand in front of what they
// count, so those of sequences are found by a walk over their items first, the inner ones before the outer.
#include "verify/arrays/array_files.h"

#include "base/table.h"
#include "base/varint.h"
#include "model/onnx_fields.h"
#include "stream/sys/fs.h"
#include "verify/arrays/inside/array_formats.h"

#include <errno.h>
#include <stdio.h>

enum { PIECE = 1 << 20 };

// ---- bytes of a file ---------------------------------------------------------------------------

struct writer {
  struct file to;
  const char *name; // for messages
  uint8_t *buffer;  // PIECE
  size_t held;
  struct err *err;
  int bad;
};

static void flush(struct writer *w) {
  if (!w->bad) w->bad = fs_write_all(w->to, w->buffer, w->held, w->name, w->err);
  w->held = 0;
}

static void put(struct writer *w, const void *bytes, size_t n) {
  const uint8_t *at = bytes;
  while (n > 0 && !w->bad) {
    const size_t some = n < PIECE - w->held ? n : PIECE - w->held;
    memcpy(w->buffer + w->held, at, some);
    w->held += some;
    at += some;
    n -= some;
    if (w->held == PIECE) flush(w);
  }
}

static void put_number(struct writer *w, uint32_t field, uint64_t x) {
  uint8_t room[2 * VARINT_MAX_BYTES], *end = varint_put_tag(room, field, WIRE_VARINT);
  put(w, room, (size_t)(varint_put(end, x) - room));
}

static void put_lead(struct writer *w, uint32_t field, uint64_t n) {
  uint8_t room[2 * VARINT_MAX_BYTES], *end = varint_put_tag(room, field, WIRE_BYTES);
  put(w, room, (size_t)(varint_put(end, n) - room));
}

// ---- tensors -----------------------------------------------------------------------------------

static uint64_t tensor_bytes(const struct array *x) {
  uint64_t n = 1 + varint_bytes((uint64_t)x->dtype);
  for (uint32_t i = 0; i < x->rank; i++)
    n += 1 + varint_bytes((uint64_t)x->dims[i]);
  if (*x->name) n += varint_field_bytes(strlen(x->name));
  if (x->dtype != DTYPE_STRING) return n + varint_field_bytes(x->bytes);
  for (uint64_t i = 0; i < x->count; i++)
    n += varint_field_bytes(x->strings[i].n);
  return n;
}

static void put_elements(struct writer *w, const struct array *x) {
  put_lead(w, ONNX_TENSOR_raw_data, x->bytes);
  for (uint64_t at = 0; at < x->bytes && !w->bad;) {
    if (w->held == PIECE) flush(w);
    const size_t n = (size_t)min_u64(PIECE - w->held, x->bytes - at);
    if (!w->bad) w->bad = array_read(x, at, w->buffer + w->held, n, w->err);
    w->held += n;
    at += n;
  }
  if (w->held == PIECE) flush(w);
}

static void put_tensor(struct writer *w, const struct array *x) {
  for (uint32_t i = 0; i < x->rank; i++)
    put_number(w, ONNX_TENSOR_dims, (uint64_t)x->dims[i]);
  put_number(w, ONNX_TENSOR_data_type, (uint64_t)x->dtype);
  for (uint64_t i = 0; x->dtype == DTYPE_STRING && i < x->count; i++) {
    put_lead(w, ONNX_TENSOR_string_data, x->strings[i].n);
    put(w, x->strings[i].at, x->strings[i].n);
  }
  if (*x->name) {
    put_lead(w, ONNX_TENSOR_name, strlen(x->name));
    put(w, x->name, strlen(x->name));
  }
  if (x->dtype != DTYPE_STRING) put_elements(w, x);
}

// ---- sequences ---------------------------------------------------------------------------------

// Arrays in the order in which they are written, with the bytes of their messages: an array before its
// items.
struct part {
  const struct array *x;
  uint32_t behind; // the next part that is not inside this one
  uint64_t bytes;
};
struct parts {
  TABLE(struct part, rows);
};
struct open_part {
  uint32_t row, item;
};
struct open_parts {
  TABLE(struct open_part, rows);
};

static uint32_t value_field(const struct array *x) {
  return x->kind == ARRAY_TENSOR     ? HELD_TENSOR
         : x->kind == ARRAY_SEQUENCE ? HELD_SEQUENCE
                                     : HELD_OPTIONAL;
}

// elem_type of the message: of its items; nothing: UNDEFINED.
static uint32_t element_type(const struct array *x) {
  if (x->kind == ARRAY_NOTHING) return 0;
  const uint32_t field = x->n_items ? value_field(&x->items[0]) : HELD_TENSOR;
  return field == HELD_TENSOR ? 1 : field == HELD_SEQUENCE ? 3 : 5;
}

static uint64_t own_bytes(const struct array *x) {
  if (x->kind == ARRAY_TENSOR) return tensor_bytes(x);
  return (*x->name ? varint_field_bytes(strlen(x->name)) : 0) + 2;
}

// Depth first, with a list of what is open.
static void list_parts(struct parts *p, const struct array *x) {
  struct open_parts open = {0};
  *TABLE_PUSH(p, rows) = (struct part){.x = x, .bytes = own_bytes(x)};
  *TABLE_PUSH(&open, rows) = (struct open_part){0};
  while (open.n_rows > 0) {
    struct open_part *top = &open.rows[open.n_rows - 1];
    const struct array *at = p->rows[top->row].x;
    if (at->kind == ARRAY_SEQUENCE && top->item < at->n_items) {
      const struct array *item = &at->items[top->item++];
      *TABLE_PUSH(&open, rows) = (struct open_part){.row = p->n_rows};
      *TABLE_PUSH(p, rows) = (struct part){.x = item, .bytes = own_bytes(item)};
      continue;
    }
    p->rows[top->row].behind = p->n_rows;
    const uint64_t bytes = p->rows[top->row].bytes;
    open.n_rows--;
    if (open.n_rows > 0) p->rows[open.rows[open.n_rows - 1].row].bytes += varint_field_bytes(bytes);
  }
  TABLE_FREE(&open, rows);
}

static void put_array(struct writer *w, const struct array *x) {
  // An optional that holds something is, on the wire, a sequence of that.
  struct array item = *x;
  item.name = "";
  const struct array held = {.name = x->name, .kind = ARRAY_SEQUENCE, .items = &item, .n_items = 1};
  struct parts p = {0};
  list_parts(&p, x->optional && x->kind != ARRAY_NOTHING ? &held : x);
  for (uint32_t i = 0; i < p.n_rows && !w->bad; i++) {
    const struct array *at = p.rows[i].x;
    if (i > 0) put_lead(w, value_field(at), p.rows[i].bytes);
    if (at->kind == ARRAY_TENSOR) {
      put_tensor(w, at);
      continue;
    }
    if (*at->name) {
      put_lead(w, HELD_NAME, strlen(at->name));
      put(w, at->name, strlen(at->name));
    }
    put_number(w, HELD_TYPE, element_type(at));
  }
  TABLE_FREE(&p, rows);
}

// ---- the folder --------------------------------------------------------------------------------

static int write_array(struct folder in, const char *name, const struct array *x, uint8_t *buffer,
                       struct err *err) {
  struct writer w = {
      .to = fs_make_own(in, name, 0, err), .name = name, .buffer = buffer, .err = err};
  if (!file_is_open(w.to)) return -1;
  put_array(&w, x);
  flush(&w);
  if (!w.bad && file_sync(w.to)) w.bad = err_errno(err, errno, ERR_IO, "cannot sync '%s'", name);
  file_close(&w.to);
  return w.bad;
}

static int write_arrays(struct folder in, const char *before, const struct arrays *list,
                        uint8_t *buffer, struct err *err) {
  for (uint32_t i = 0; list && i < list->n; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s_%u.pb", before, i);
    if (write_array(in, name, &list->list[i], buffer, err) != 0) return -1;
  }
  return 0;
}

// What an ended writing left: files, no folders.
static void remove_set(struct folder in, const char *name) {
  struct folder set = folder_open(in, name, FILE_NO_LINK);
  if (!folder_is_open(set)) return;
  fs_remove_files(set);
  folder_close(&set);
  (void)folder_remove(in, name);
}

static int fill_set(struct folder in, const char *name, const struct arrays *inputs,
                    const struct arrays *outputs, struct err *err) {
  struct folder set = folder_open(in, name, FILE_NO_LINK);
  if (!folder_is_open(set)) return err_errno(err, errno, ERR_IO, "cannot open '%s'", name);
  struct arena a = {0};
  uint8_t *buffer = arena_alloc(&a, PIECE);
  int bad = write_arrays(set, "input", inputs, buffer, err) != 0 ||
            write_arrays(set, "output", outputs, buffer, err) != 0 ||
            fs_sync_folder(set, name, err) != 0;
  arena_free(&a);
  folder_close(&set);
  return bad ? -1 : 0;
}

static int already_there(const char *path, const char *name, struct err *err) {
  err_set(err, ERR_FAIL, "'%s' already has a %s", quote_path(path).s, name);
  return err_hint(err, "choose another folder, or remove it");
}

// What is there and empty may be replaced: there is nothing in it.
static int rename_set(struct folder in, const char *from, const char *to) {
  if (entry_rename_new(in, from, in, to) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  return entry_rename(in, from, in, to);
}

static int write_set(struct folder in, const char *path, uint32_t k, const struct arrays *inputs,
                     const struct arrays *outputs, struct err *err) {
  char name[64], beside[80];
  struct entry_facts at;
  snprintf(name, sizeof name, "test_data_set_%u", k);
  snprintf(beside, sizeof beside, ".%s.weir", name);
  if (entry_look(in, name, FILE_NO_LINK, &at) == 0) return already_there(path, name, err);
  remove_set(in, beside);
  if (folder_make(in, beside, 0777))
    return err_errno(err, errno, ERR_IO, "cannot make a folder in '%s'", quote_path(path).s);
  int bad = fill_set(in, beside, inputs, outputs, err);
  if (!bad && rename_set(in, beside, name))
    bad = errno == EEXIST || errno == ENOTEMPTY
              ? already_there(path, name, err)
              : err_errno(err, errno, ERR_IO, "cannot rename '%s' to '%s' in '%s'", beside, name,
                          quote_path(path).s);
  if (bad)
    remove_set(in, beside);
  else
    bad = fs_sync_folder(in, path, err);
  return bad;
}

int array_files_write_case(const char *path, uint32_t k, const struct arrays *inputs,
                           const struct arrays *outputs, struct err *err) {
  if (folder_make(HERE, path, 0777) && errno != EEXIST)
    return err_errno(err, errno, ERR_IO, "cannot make the folder '%s'", quote_path(path).s);
  struct folder in = folder_open(HERE, path, 0);
  if (!folder_is_open(in))
    return err_errno(err, errno, ERR_INPUT, "cannot open '%s'", quote_path(path).s);
  const int bad = write_set(in, path, k, inputs, outputs, err);
  folder_close(&in);
  return bad;
}
