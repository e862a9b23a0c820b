// What comes over the pipe, of either side: any bytes as a head and a body. What is taken must lie inside the body, keep what
// it promises of dims and bytes, and become the same bytes again when it is sent.
#include "frames/frame.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds) {
  if (!holds) abort();
}

static void demand_inside(struct span part, struct span body) {
  demand(part.n == 0 || (part.at >= body.at && part.at + part.n <= body.at + body.n));
}

static void check_tensor(const struct frame_array *x, struct span body) {
  uint64_t count, bytes;
  demand(frame_array_size(x, &count, &bytes));
  demand((x->place == FRAME_STRINGS) == (x->dtype == DTYPE_STRING));
  if (x->place == FRAME_INLINE) demand(x->bytes.n == bytes);
  if (x->place == FRAME_FILE)
    demand(x->length == bytes && x->offset <= INT64_MAX - x->length);
  else
    demand_inside(x->bytes, body);
  if (x->place != FRAME_STRINGS) return;
  demand(x->n_strings == count);
  for (uint64_t i = 0; i < count; i++)
    demand_inside(x->strings[i], body);
}

static void check_arrays(const struct frame_arrays *list, struct span body) {
  for (uint32_t i = 0; i < list->n; i++) {
    const struct frame_array *x = &list->list[i];
    if (x->form == FRAME_TENSOR) check_tensor(x, body);
    for (uint32_t k = 0; k < x->n_items; k++) {
      demand(x->form == FRAME_SEQUENCE && x->items[k].form == FRAME_TENSOR);
      check_tensor(&x->items[k], body);
    }
  }
}

static void check_values(const struct frame_values *list) {
  for (uint32_t i = 0; i < list->n; i++) {
    demand(list->list[i].rank <= FRAME_MAX_RANK);
    demand(list->list[i].ranked || list->list[i].rank == 0);
    for (uint32_t k = 0; k < list->list[i].rank; k++)
      demand(list->list[i].dims[k] >= -1);
  }
}

static void check_frame(const struct frame *f, struct span body) {
  if (f->kind == FRAME_run) check_arrays(&f->run.inputs, body);
  if (f->kind == FRAME_ran) check_arrays(&f->ran.outputs, body);
  if (f->kind == FRAME_opened) {
    check_values(&f->opened.inputs);
    check_values(&f->opened.outputs);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct err err = {0};
  enum frame_kind kind;
  uint64_t length;
  if (size < FRAME_HEAD) return 0;
  if (frame_head(data, &kind, &length, &err) < 0) {
    demand(err.kind == ERR_FAIL && err.msg[0]);
    return 0;
  }
  demand(length <= FRAME_MAX_BODY);
  struct arena a = {0};
  struct frame f;
  struct frame_buffer again = {0};
  const struct span body = span_of(data + FRAME_HEAD, size - FRAME_HEAD);
  if (frame_decode(&f, kind, body, &a, &err) == 0) {
    check_frame(&f, body);
    demand(frame_encode(&again, &f, &err) == 0);
    demand(again.n_bytes == size && memcmp(again.bytes + FRAME_HEAD, body.at, body.n) == 0);
  } else {
    demand(err.kind == ERR_FAIL && err.msg[0]);
  }
  frame_buffer_done(&again);
  arena_free(&a);
  return 0;
}
