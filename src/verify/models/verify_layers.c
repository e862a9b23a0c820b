// More outputs for a model without writing it anew: messages of protobuf that follow each other are merged, so
//
//   the bytes of the .onnx │ ModelProto{graph{output{name, type} output{…} …}}
//
// is the same model with these outputs at the end of its list. The weights stay where they are: the runtime is told the
// folder of the data files.
#include "verify/models/verify_models.h"

#include "model/onnx_fields.h"
#include "stream/sys/fs.h"
#include "verify/sites/site_run.h"

#include <errno.h>
#include <string.h>

enum { CHUNK = 128, VARINT_ROOM = 10 };

struct layer {
  uint32_t value, node; // of the source
  enum dtype dtype[2];
};

struct walking {
  const struct verify_layers *l;
  struct arena arena;
  struct layer *list;
  uint32_t n;
};

// ---- which values ------------------------------------------------------------------------------

static void list_layers(struct walking *w, struct infer *after) {
  const struct model *m = w->l->source, *x = w->l->result;
  w->list = arena_alloc(&w->arena, (m->n_values + (size_t)1) * sizeof *w->list);
  for (uint32_t node = m->graphs[m->main_graph].first_node; node != NO_ID;
       node = m->nodes[node].next)
    for (uint32_t k = 0; k < m->nodes[node].n_out && !model_op_is(m, node, "Constant"); k++) {
      const uint32_t value = model_output(m, &m->nodes[node], k);
      if (value == NO_ID || m->values[value].n_graph_outputs > 0) continue;
      const uint32_t name = model_find_name(x, model_value_name(m, value));
      const uint32_t there = name == NO_ID ? NO_ID : model_value_in(x, x->main_graph, name);
      if (there == NO_ID || x->values[there].kind != VALUE_NODE_OUTPUT) continue;
      if (x->values[there].flags & VALUE_DEAD || x->values[there].n_graph_outputs > 0) continue;
      const struct layer layer = {
          value, node, {site_run_dtype(w->l->infer, value), site_run_dtype(after, there)}};
      if (dtype_is_float(layer.dtype[0]) && dtype_is_float(layer.dtype[1])) w->list[w->n++] = layer;
    }
}

// ---- a model with more outputs -----------------------------------------------------------------

struct bytes {
  uint8_t *at;
  size_t n;
};

static void put_varint(struct bytes *b, uint64_t x) {
  for (; x >= 0x80; x >>= 7)
    b->at[b->n++] = (uint8_t)(x | 0x80);
  b->at[b->n++] = (uint8_t)x;
}

static void put_field(struct bytes *b, uint32_t field, const struct bytes *content) {
  put_varint(b, (uint64_t)field << 3 | 2);
  put_varint(b, content->n);
  memcpy(b->at + b->n, content->at, content->n);
  b->n += content->n;
}

static struct bytes room(struct arena *a, size_t n) {
  return (struct bytes){arena_alloc(a, n + 4 * VARINT_ROOM), 0};
}

static struct bytes output_field(struct arena *a, struct span name, enum dtype dtype) {
  struct bytes text = {(uint8_t *)(uintptr_t)name.at, name.n};
  struct bytes elem = room(a, 0), type = room(a, VARINT_ROOM),
               info = room(a, name.n + 8 * VARINT_ROOM), field = room(a, name.n + 12 * VARINT_ROOM);
  put_varint(&elem, (uint64_t)ONNX_TYPE_TENSOR_elem_type << 3);
  put_varint(&elem, dtype);
  put_field(&type, ONNX_TYPE_tensor_type, &elem);
  put_field(&info, ONNX_INFO_name, &text);
  put_field(&info, ONNX_INFO_type, &type);
  put_field(&field, ONNX_GRAPH_output, &info);
  return field;
}

static struct bytes outputs_of(struct arena *a, const struct walking *w, uint32_t first, uint32_t n,
                               int side) {
  size_t most = 0;
  for (uint32_t i = first; i < first + n; i++)
    most += model_value_name(w->l->source, w->list[i].value).n + 16 * VARINT_ROOM;
  struct bytes graph = room(a, most), all = room(a, most + 4 * VARINT_ROOM);
  for (uint32_t i = first; i < first + n; i++) {
    const struct bytes f =
        output_field(a, model_value_name(w->l->source, w->list[i].value), w->list[i].dtype[side]);
    memcpy(graph.at + graph.n, f.at, f.n);
    graph.n += f.n;
  }
  put_field(&all, ONNX_MODEL_graph, &graph);
  return all;
}

static const char copy_name[] = "layers.onnx";

static int not_copied(struct err *err) {
  return err_errno(err, errno, ERR_IO, "the model cannot be copied for --layers");
}

static int copy_all(struct file from, struct file to, struct err *err) {
  uint8_t block[1 << 16];
  int64_t n;
  while ((n = file_copy(to, from, 1 << 30)) > 0) {
  }
  if (n == 0) return 0;
  if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP) return not_copied(err);
  while ((n = file_read(from, block, sizeof block)) > 0)
    if (fs_write_all(to, block, (size_t)n, copy_name, err)) return -1;
  return n < 0 ? not_copied(err) : 0;
}

static const char *folder_of(const char *path, struct arena *a) {
  const char *base = path_base(path);
  return base == path ? "." : arena_string(a, span_of(path, (size_t)(base - path)));
}

static int write_copy(const struct walking *w, int side, const struct bytes *more,
                      struct err *err) {
  struct file from = file_open(HERE, w->l->paths[side], 0);
  if (!file_is_open(from))
    return err_errno(err, errno, ERR_INPUT, "'%s' cannot be read", quote_path(w->l->paths[side]).s);
  struct file to = file_open_to_write(w->l->v->scratch_at, copy_name, FILE_MAKE | FILE_EMPTY, 0600);
  int rc = file_is_open(to) ? 0 : not_copied(err);
  if (rc == 0) rc = copy_all(from, to, err);
  if (rc == 0) rc = fs_write_all(to, more->at, more->n, copy_name, err);
  file_close(&to);
  file_close(&from);
  return rc;
}

// ---- chunks ------------------------------------------------------------------------------------

// RUNTIME_DONE, or why this chunk has no figures.
static int run_chunk(struct walking *w, uint32_t first, uint32_t n, int side, struct arena *a,
                     struct arrays *out, enum runtime_end *end, struct err *err) {
  struct verify *v = w->l->v;
  const struct bytes more = outputs_of(a, w, first, n, side);
  struct runtime_model model;
  struct err cause = {0};
  const char **wanted = arena_alloc(a, n * sizeof *wanted);
  for (uint32_t i = 0; i < n; i++)
    wanted[i] = arena_string(a, model_value_name(w->l->source, w->list[first + i].value));
  if (write_copy(w, side, &more, err)) {
    (void)file_remove(v->scratch_at, copy_name);
    return -1;
  }
  *end = runtime_load(v->runtime, arena_printf(a, "%s/%s", v->scratch, copy_name),
                      folder_of(w->l->paths[side], a), &model, &cause);
  if (*end == RUNTIME_DONE) *end = runtime_run(v->runtime, w->l->inputs, wanted, n, a, out, &cause);
  (void)file_remove(v->scratch_at, copy_name);
  if (*end == RUNTIME_STOPPED) {
    *err = cause;
    return -1;
  }
  if (*end != RUNTIME_DONE)
    observer_notice(v->options.observer, "no figures for %u layers from '%s' on: %s", n,
                    quote_str(wanted[0]).s, cause.msg);
  return 0;
}

static int compare_chunk(struct walking *w, uint32_t first, uint32_t n, const struct arrays *of,
                         struct err *err) {
  struct verified *f = &w->l->v->found;
  const struct model *m = w->l->source;
  struct compare_bounds all = compare_nothing();
  all.nonfinite = true;
  for (uint32_t i = 0; i < n; i++) {
    struct compare_result got;
    const struct layer *x = &w->list[first + i];
    if (compare_arrays(&of[0].list[i], &of[1].list[i], &all, w->l->v->options.runtime.stop, &got,
                       err))
      return -1;
    if (got.end == COMPARE_DIFFERENT) continue;
    const struct span node = model_name(m, m->nodes[x->node].name);
    const char *value = arena_string(&f->arena, model_value_name(m, x->value));
    *TABLE_PUSH(f, layers) =
        (struct verified_layer){.node = node.n ? arena_string(&f->arena, node) : value,
                                .value = value,
                                .figures = got.figures};
  }
  return 0;
}

int verify_layers_run(const struct verify_layers *l, struct err *err) {
  const struct infer_options o = {INFER_REFINE, 1, INT64_MAX, false};
  struct walking w = {.l = l};
  struct infer *after = infer_new(l->result, &o);
  int rc = 0;
  infer_all(after, NULL);
  list_layers(&w, after);
  infer_free(after);
  for (uint32_t first = 0; first < w.n && rc == 0; first += CHUNK) {
    const uint32_t n = w.n - first < CHUNK ? w.n - first : CHUNK;
    struct arena a = {0};
    struct arrays of[2] = {{0}};
    enum runtime_end end = RUNTIME_DONE;
    for (int side = 0; side < 2 && rc == 0 && end == RUNTIME_DONE; side++)
      rc = run_chunk(&w, first, n, side, &a, &of[side], &end, err);
    if (rc == 0 && end == RUNTIME_DONE) rc = compare_chunk(&w, first, n, of, err);
    runtime_release(l->v->runtime);
    arena_free(&a);
  }
  arena_free(&w.arena);
  return rc;
}
