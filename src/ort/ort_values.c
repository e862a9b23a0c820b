// Small arrays are copied into memory of the runtime's own; large ones are mapped from the file that weir wrote them to,
// and large results are written to another one, so that neither side holds them twice.
//
//   inline   message ─▶ CreateTensorAsOrtValue, copy        result ─▶ message
//   file     pages of the file ─▶ CreateTensorWithData…     result ─▶ pwrite
//
// Every result's size is what its dims and its type say, in our own arithmetic: a runtime whose dims make no sense is
// told so and nothing of it is read.
#include "ort/ort_values.h"

void ort_values_release(const struct ort *o, struct ort_held *h) {
  for (uint32_t i = 0; i < h->n_values; i++)
    o->ReleaseValue(h->values[i]);
  for (uint32_t i = 0; i < h->n_maps; i++)
    map_close(&h->maps[i]);
  h->n_values = h->n_maps = 0;
}

// ---- to the runtime -----------------------------------------------------------------------------

static struct ort_value *keep(struct ort_held *h, struct ort_value *value) {
  *TABLE_PUSH(h, values) = value;
  return value;
}

static int make_tensor(const struct ort *o, const struct frame_array *x, struct ort_held *h,
                       struct ort_value **out, struct ort_failure *f) {
  if (ort_check(
          o, o->CreateTensorAsOrtValue(o->allocator, x->dims, x->rank, ort_number(x->dtype), out),
          f) < 0)
    return -1;
  keep(h, *out);
  return 0;
}

static int give_copy(const struct ort *o, const struct frame_array *x, struct ort_held *h,
                     struct ort_value **out, struct ort_failure *f) {
  void *at = NULL;
  if (make_tensor(o, x, h, out, f) < 0) return -1;
  if (x->bytes.n == 0) return 0;
  if (ort_check(o, o->GetTensorMutableData(*out, &at), f) < 0) return -1;
  memcpy(at, x->bytes.at, x->bytes.n);
  return 0;
}

static int give_strings(const struct ort *o, const struct frame_array *x, struct ort_held *h,
                        struct ort_value **out, struct ort_failure *f) {
  if (make_tensor(o, x, h, out, f) < 0) return -1;
  for (uint64_t i = 0; i < x->n_strings; i++) {
    const struct span s = x->strings[i];
    char *at = NULL;
    if (ort_check(o, o->GetResizedStringTensorElementBuffer(*out, i, s.n, &at), f) < 0) return -1;
    if (s.n > 0) memcpy(at, s.at, s.n);
  }
  return 0;
}

// Pages are shared: what is only read counts for no limit of memory.
static int give_pages(const struct ort *o, struct file file, const struct frame_array *x,
                      struct ort_held *h, struct ort_value **out, struct ort_failure *f) {
  struct entry_facts is;
  struct file_map map;
  if (!file_is_open(file) || file_look(file, &is) < 0 || !range_fits(x->offset, x->length, is.size))
    return ort_fail(f, FRAME_MISUSED, "input '%s' is past the end of the file of inputs",
                    quote_str(x->name).s);
  if (x->length == 0) return give_copy(o, x, h, out, f);
  if (map_open(&map, file, x->offset, (size_t)x->length) < 0)
    return ort_fail(f, FRAME_NO_ROOM, "input '%s' cannot be mapped: %s", quote_str(x->name).s,
                    err_errno_words(errno));
  *TABLE_PUSH(h, maps) = map;
  void *at = (void *)(uintptr_t)map.at;
  if (ort_check(o,
                o->CreateTensorWithDataAsOrtValue(o->cpu, at, (size_t)x->length, x->dims, x->rank,
                                                  ort_number(x->dtype), out),
                f) < 0)
    return -1;
  keep(h, *out);
  return 0;
}

static int give_tensor(const struct ort *o, const struct ort_files *files,
                       const struct frame_array *x, struct ort_held *h, struct ort_value **out,
                       struct ort_failure *f) {
  if (ort_number(x->dtype) == DTYPE_UNDEFINED)
    return ort_fail(f, FRAME_LACKING, "ONNX Runtime %s has no tensors of %s", o->version,
                    dtype_name(x->dtype));
  switch (x->place) {
  case FRAME_STRINGS: return give_strings(o, x, h, out, f);
  case FRAME_FILE: return give_pages(o, files->inputs, x, h, out, f);
  default: return give_copy(o, x, h, out, f);
  }
}

static int give_sequence(const struct ort *o, const struct ort_files *files,
                         const struct frame_array *x, struct ort_held *h, struct ort_value **out,
                         struct ort_failure *f) {
  const uint32_t first = h->n_values;
  if (x->n_items == 0)
    return ort_fail(
        f, FRAME_LACKING,
        "input '%s' is an empty sequence, which the C API of ONNX Runtime cannot create",
        quote_str(x->name).s);
  for (uint32_t i = 0; i < x->n_items; i++) {
    struct ort_value *item;
    if (give_tensor(o, files, &x->items[i], h, &item, f) < 0) return -1;
  }
  if (ort_check(o,
                o->CreateValue((const struct ort_value *const *)h->values + first, x->n_items,
                               ORT_KIND_SEQUENCE, out),
                f) < 0)
    return -1;
  keep(h, *out);
  return 0;
}

int ort_values_give(const struct ort *o, const struct ort_files *files, const struct frame_array *x,
                    struct ort_held *h, struct ort_value **out, struct ort_failure *f) {
  if (x->form == FRAME_SEQUENCE) return give_sequence(o, files, x, h, out, f);
  if (x->form == FRAME_TENSOR) return give_tensor(o, files, x, h, out, f);
  return ort_fail(f, FRAME_LACKING,
                  "input '%s' is an empty optional, which the C API of ONNX Runtime cannot create",
                  quote_str(x->name).s);
}

// ---- from the runtime ---------------------------------------------------------------------------

// Type and dims of a tensor; refuses what makes no sense. Sparse tensors and maps do not come here.
static int take_dims(const struct ort *o, struct arena *a, const struct ort_tensor_info *info,
                     int64_t least, enum dtype *dtype, uint32_t *rank, const int64_t **dims,
                     struct ort_failure *f) {
  int number = 0;
  size_t n = 0;
  if (ort_check(o, o->GetTensorElementType(info, &number), f) < 0) return -1;
  if (ort_check(o, o->GetDimensionsCount(info, &n), f) < 0) return -1;
  if (n > FRAME_MAX_RANK)
    return ort_fail(f, FRAME_REFUSED, "it reports a tensor of rank %zu: the limit is %d", n,
                    FRAME_MAX_RANK);
  int64_t *list = arena_zalloc(a, n * sizeof *list + 1);
  if (n > 0 && ort_check(o, o->GetDimensions(info, list, n), f) < 0) return -1;
  for (size_t i = 0; i < n; i++)
    if (list[i] < least) list[i] = least;
  *dtype = ort_dtype(number);
  *rank = (uint32_t)n;
  *dims = list;
  return 0;
}

static int take_strings(struct ort_results *r, struct ort_value *value, uint64_t count,
                        struct frame_array *out, struct ort_failure *f) {
  const struct ort *o = r->o;
  if (count > FRAME_MAX_BODY / 4)
    return ort_fail(f, FRAME_NO_ROOM, "output '%s' has %s strings: too many for one message",
                    quote_str(out->name).s, decimal(count).s);
  struct span *list = arena_zalloc(r->a, (size_t)count * sizeof *list + 1);
  uint64_t all = 0;
  for (uint64_t i = 0; i < count; i++) {
    size_t n = 0;
    if (ort_check(o, o->GetStringTensorElementLength(value, i, &n), f) < 0) return -1;
    if (n > FRAME_MAX_BODY || (all += n) > FRAME_MAX_BODY)
      return ort_fail(f, FRAME_NO_ROOM, "the strings of output '%s' are too long for one message",
                      quote_str(out->name).s);
    char *at = arena_alloc(r->a, n + 1);
    if (n > 0 && ort_check(o, o->GetStringTensorElement(value, n, i, at), f) < 0) return -1;
    list[i] = span_of(at, n);
  }
  out->place = FRAME_STRINGS;
  out->strings = list;
  out->n_strings = count;
  return 0;
}

static int write_file(struct ort_results *r, const uint8_t *at, uint64_t n, struct frame_array *out,
                      struct ort_failure *f) {
  if (!file_is_open(r->files->outputs))
    return ort_fail(f, FRAME_MISUSED,
                    "output '%s' is large, but there is no file for large outputs",
                    quote_str(out->name).s);
  out->place = FRAME_FILE;
  out->offset = r->offset;
  out->length = n;
  if (file_write_all_at(r->files->outputs, at, (size_t)n, r->offset))
    return ort_fail(f, FRAME_NO_ROOM, "output '%s' (%s) cannot be written to the scratch file: %s",
                    quote_str(out->name).s, quote_bytes(n).s, err_errno_words(errno));
  r->offset = round_up(r->offset + n, 64);
  return 0;
}

// Bits behind the last element of a packed type: the runtime leaves there what was in memory before.
static void clear_rest(uint8_t *at, const struct frame_array *x, uint64_t count, uint64_t bytes) {
  const uint64_t used = count * dtype_bits(x->dtype) % 8;
  if (used > 0) at[bytes - 1] &= (uint8_t)((1u << used) - 1);
}

static int take_elements(struct ort_results *r, struct ort_value *value, struct frame_array *out,
                         struct ort_failure *f) {
  uint64_t count, bytes;
  void *at = NULL;
  if (!frame_array_size(out, &count, &bytes))
    return ort_fail(f, FRAME_REFUSED, "output '%s' has an unknown type or size",
                    quote_str(out->name).s);
  if (out->dtype == DTYPE_STRING) return take_strings(r, value, count, out, f);
  if (bytes > 0 && ort_check(r->o, r->o->GetTensorMutableData(value, &at), f) < 0) return -1;
  if (bytes > 0 && !at)
    return ort_fail(f, FRAME_REFUSED, "output '%s' has no elements in memory",
                    quote_str(out->name).s);
  if (bytes > 0) clear_rest(at, out, count, bytes);
  if (bytes > r->inline_bytes || bytes > r->room) return write_file(r, at, bytes, out, f);
  r->room -= bytes;
  out->place = FRAME_INLINE;
  out->bytes = span_of(at, (size_t)bytes);
  return 0;
}

static int take_tensor(struct ort_results *r, const char *name, struct ort_value *value,
                       struct frame_array *out, struct ort_failure *f) {
  struct ort_tensor_info *info = NULL;
  *out = (struct frame_array){.name = name, .form = FRAME_TENSOR};
  if (ort_check(r->o, r->o->GetTensorTypeAndShape(value, &info), f) < 0) return -1;
  const int end = take_dims(r->o, r->a, info, -1, &out->dtype, &out->rank, &out->dims, f);
  r->o->ReleaseTensorTypeAndShapeInfo(info);
  return end < 0 ? -1 : take_elements(r, value, out, f);
}

static int take_sequence(struct ort_results *r, const char *name, struct ort_value *value,
                         struct frame_array *out, struct ort_failure *f) {
  size_t n = 0;
  if (ort_check(r->o, r->o->GetValueCount(value, &n), f) < 0) return -1;
  if (n > FRAME_MAX_BODY / 32)
    return ort_fail(f, FRAME_NO_ROOM, "output '%s' is a sequence of %zu: too many for one message",
                    quote_str(name).s, n);
  struct frame_array *items = arena_zalloc(r->a, n * sizeof *items + 1);
  for (size_t i = 0; i < n; i++) {
    struct ort_value *item = NULL;
    int kind = 0;
    if (ort_check(r->o, r->o->GetValue(value, (int)i, r->o->allocator, &item), f) < 0) return -1;
    keep(r->held, item);
    if (ort_check(r->o, r->o->GetValueType(item, &kind), f) < 0) return -1;
    if (kind != ORT_KIND_TENSOR)
      return ort_fail(f, FRAME_LACKING,
                      "output '%s' is a sequence of elements that are not tensors",
                      quote_str(name).s);
    if (take_tensor(r, "", item, &items[i], f) < 0) return -1;
  }
  *out = (struct frame_array){
      .name = name, .form = FRAME_SEQUENCE, .items = items, .n_items = (uint32_t)n};
  return 0;
}

int ort_values_take(struct ort_results *r, const char *name, struct ort_value *value,
                    struct frame_array *out, struct ort_failure *f) {
  int kind = 0, has = 0;
  *out = (struct frame_array){.name = name, .form = FRAME_NOTHING};
  if (!value) return 0;
  if (ort_check(r->o, r->o->HasValue(value, &has), f) < 0) return -1;
  if (!has) return 0;
  if (ort_check(r->o, r->o->GetValueType(value, &kind), f) < 0) return -1;
  if (kind == ORT_KIND_TENSOR) return take_tensor(r, name, value, out, f);
  if (kind == ORT_KIND_SEQUENCE) return take_sequence(r, name, value, out, f);
  return ort_fail(f, FRAME_LACKING, "output '%s' is %s, which weir cannot compare",
                  quote_str(name).s,
                  kind == ORT_KIND_MAP      ? "a map"
                  : kind == ORT_KIND_SPARSE ? "a sparse tensor"
                                            : "not a tensor or a sequence");
}

// ---- of models ----------------------------------------------------------------------------------

static int describe_tensor(const struct ort *o, const struct ort_type_info *info, struct arena *a,
                           struct frame_value *out, struct ort_failure *f) {
  const struct ort_tensor_info *tensor = NULL;
  if (ort_check(o, o->CastTypeInfoToTensorInfo(info, &tensor), f) < 0) return -1;
  if (!tensor) {
    out->form = FRAME_UNKNOWN;
    return 0;
  }
  if (take_dims(o, a, tensor, -1, &out->dtype, &out->rank, &out->dims, f) < 0) return -1;
  out->ranked = out->rank > 0; // one of no dims and one of unknown rank look alike
  return 0;
}

// A step inwards: what an optional or a sequence holds goes to *inner, which is to be released.
static int look_inside(const struct ort *o, const struct ort_type_info *info, enum ort_kind kind,
                       struct ort_type_info **inner, struct ort_failure *f) {
  *inner = NULL;
  if (kind == ORT_KIND_OPTIONAL) {
    const struct ort_optional_info *optional = NULL;
    if (ort_check(o, o->CastTypeInfoToOptionalTypeInfo(info, &optional), f) < 0) return -1;
    return optional ? ort_check(o, o->GetOptionalContainedTypeInfo(optional, inner), f) : 0;
  }
  const struct ort_sequence_info *sequence = NULL;
  if (ort_check(o, o->CastTypeInfoToSequenceTypeInfo(info, &sequence), f) < 0) return -1;
  return sequence ? ort_check(o, o->GetSequenceElementType(sequence, inner), f) : 0;
}

// optional(sequence(tensor)) is the deepest that there is.
enum { DEEPEST = 3 };

int ort_values_describe(const struct ort *o, const struct ort_type_info *info, struct arena *a,
                        struct frame_value *out, struct ort_failure *f) {
  struct ort_type_info *inner[DEEPEST];
  uint32_t n = 0;
  int kind = ORT_KIND_UNKNOWN, end = 0;
  for (out->form = FRAME_UNKNOWN; info && end == 0;) {
    end = ort_check(o, o->GetOnnxTypeFromTypeInfo(info, &kind), f);
    if (end < 0) break;
    if (kind == ORT_KIND_TENSOR) {
      if (out->form == FRAME_UNKNOWN) out->form = FRAME_TENSOR;
      end = describe_tensor(o, info, a, out, f);
      break;
    }
    const bool deeper = (kind == ORT_KIND_OPTIONAL && n == 0) ||
                        (kind == ORT_KIND_SEQUENCE && out->form == FRAME_UNKNOWN);
    if (kind == ORT_KIND_OPTIONAL) out->optional = true;
    out->form = kind == ORT_KIND_SEQUENCE && deeper ? FRAME_SEQUENCE : FRAME_UNKNOWN;
    if (!deeper || n == DEEPEST) break;
    end = look_inside(o, info, (enum ort_kind)kind, &inner[n], f);
    info = end == 0 ? inner[n] : NULL;
    if (info) n++;
  }
  if (kind != ORT_KIND_TENSOR) out->form = FRAME_UNKNOWN;
  while (n > 0)
    o->ReleaseTypeInfo(inner[--n]);
  return end;
}
