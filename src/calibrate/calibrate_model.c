// Messages of protobuf that follow each other are merged, so
//
//   the small .onnx │ ModelProto{opset_import, graph{node… initializer… output…}}
//
// is the model with more nodes and outputs. The first part is written once; the rest is truncated and written
// again for each session.
//
// The runtime reads external data from below one folder, which is here "/": the locations are absolute paths of the source's
// files and of our own.
#include "calibrate/calibrate_model.h"

#include "model/onnx_fields.h"
#include "plan/plan_refer.h"
#include "plan/rope.h"
#include "stream/sys/fs.h"
#include "verify/cut/part.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ONNX_NAME "model.onnx"
#define DATA_NAME "model.data"
enum {
  INLINE_BELOW = 16 << 10,
  OPSET_WHERE_NONE = 13,
  OPSET_AXES_INPUT = 18,
  OPSET_SUM_AXES_INPUT = 13
};

struct calibrate_model {
  struct calibrate_model_of of;
  struct plan plan; // of the first part
  bool written, maps;
  const char *prefix; // of new names
  int64_t opset;
  // The second part.
  struct plan literals;
  struct rope_pool pool;
  struct rope graph;
  uint32_t n_lists; // of axes
  struct arena arena, names;
};

// ---- the first part -----------------------------------------------------------------------------

// A path without links, as a location below "/".
static int location_of(const char *path, struct arena *a, const char **out, struct err *err) {
  char full[PATH_BYTES];
  if (path_real(path, full))
    return err_errno(err, errno, ERR_INPUT, "'%s' cannot be found", quote_path(path).s);
  *out = arena_string(a, span_str(full + 1));
  return 0;
}

static int plan(struct calibrate_model *c, struct err *err) {
  const struct model *m = c->of.m;
  const char **locations = arena_zalloc(&c->arena, (m->n_files + (size_t)1) * sizeof *locations);
  for (uint32_t i = 0; i < m->n_files; i++) {
    const char *path = i == 0 ? sources_given(c->of.sources)
                              : arena_printf(&c->arena, "%s/%s", sources_folder(c->of.sources),
                                             sources_name(c->of.sources, i));
    if (location_of(path, &c->arena, &locations[i], err)) return -1;
  }
  const char *folder;
  if (location_of(c->of.scratch, &c->arena, &folder, err)) return -1;
  const struct plan_refer how = {.onnx_name = ONNX_NAME,
                                 .data_name = DATA_NAME,
                                 .locations = locations,
                                 .data_location = arena_printf(&c->arena, "%s/" DATA_NAME, folder),
                                 .inline_below = INLINE_BELOW};
  if (plan_refer_build(&c->plan, m, c->of.recipes, &how, err)) return -1;
  for (uint32_t i = 0; i < m->n_tensors; i++)
    c->maps =
        c->maps || (m->tensors[i].bytes >= INLINE_BELOW && !(m->tensors[i].flags & TENSOR_DEAD));
  return 0;
}

static const char *free_prefix(const struct model *m, struct arena *a) {
  const char *prefix = "weir_calibrate_";
  for (uint32_t i = 0; i < m->n_name_at; i++) {
    const struct span name = model_name(m, i);
    const size_t n = strlen(prefix);
    if (name.n < n || memcmp(name.at, prefix, n) != 0) continue;
    prefix = arena_printf(a, "%s_", prefix);
    i = UINT32_MAX; // from the first one on
  }
  return prefix;
}

int calibrate_model_open(struct calibrate_model **out, const struct calibrate_model_of *of,
                         struct err *err) {
  struct arena arena = {0};
  struct calibrate_model *c = arena_zalloc(&arena, sizeof *c);
  c->of = *of;
  c->arena = arena;
  c->pool.plan = &c->literals;
  c->prefix = free_prefix(of->m, &c->arena);
  c->opset = model_opset_version(of->m, of->m->main_graph, span_str(""));
  if (plan(c, err)) {
    calibrate_model_close(c);
    return -1;
  }
  *out = c;
  return 0;
}

void calibrate_model_close(struct calibrate_model *c) {
  if (!c) return;
  if (c->written) {
    (void)file_remove(c->of.scratch_at, ONNX_NAME);
    (void)file_remove(c->of.scratch_at, DATA_NAME);
  }
  rope_pool_free(&c->pool);
  plan_free(&c->literals);
  plan_free(&c->plan);
  arena_free(&c->names);
  struct arena arena = c->arena; // *c is stored in it
  arena_free(&arena);
}

uint64_t calibrate_model_made_bytes(const struct calibrate_model *c) {
  return c->plan.n_outputs > 1 ? c->plan.outputs[0].size : 0;
}

int calibrate_model_write(struct calibrate_model *c, struct err *err) {
  struct part_cutter *cutter;
  c->written = true;
  if (part_cutter_open(&cutter, c->of.m, c->of.recipes, c->of.sources, c->of.memory, err))
    return -1;
  const int rc = part_write_plan(cutter, &c->plan, c->of.scratch_at, err);
  part_cutter_close(cutter);
  return rc;
}

// ---- the second part ----------------------------------------------------------------------------

void calibrate_model_begin(struct calibrate_model *c) {
  rope_pool_free(&c->pool);
  c->pool.plan = &c->literals;
  c->literals.n_literals = 0;
  c->graph = rope_empty();
  c->n_lists = 0;
  arena_reset(&c->names);
}

const char *calibrate_model_name(const struct calibrate_model *c, const char *what, uint32_t number,
                                 struct arena *a) {
  return arena_printf(a, "%s%s%u", c->prefix, what, number);
}

static void put_attr(struct calibrate_model *c, struct rope *node,
                     const struct calibrate_attr *attr) {
  struct rope body = rope_empty();
  rope_bytes_field(&c->pool, &body, ONNX_ATTRIBUTE_name, span_str(attr->name));
  if (attr->n == 0) rope_varint_field(&c->pool, &body, ONNX_ATTRIBUTE_i, (uint64_t)attr->i);
  for (uint32_t i = 0; i < attr->n; i++)
    rope_varint_field(&c->pool, &body, ONNX_ATTRIBUTE_ints, (uint64_t)attr->list[i]);
  rope_varint_field(&c->pool, &body, ONNX_ATTRIBUTE_type, attr->n ? ATTR_INTS : ATTR_INT);
  rope_message_field(&c->pool, node, ONNX_NODE_attribute, body);
}

struct node {
  const char *op, *in[2], *out;
  struct calibrate_attr attr; // name NULL: none
};

static void put_node(struct calibrate_model *c, const struct node *n) {
  struct rope body = rope_empty();
  for (uint32_t i = 0; i < 2 && n->in[i]; i++)
    rope_bytes_field(&c->pool, &body, ONNX_NODE_input, span_str(n->in[i]));
  rope_bytes_field(&c->pool, &body, ONNX_NODE_output, span_str(n->out));
  rope_bytes_field(&c->pool, &body, ONNX_NODE_op_type, span_str(n->op));
  if (n->attr.name) put_attr(c, &body, &n->attr);
  rope_message_field(&c->pool, &c->graph, ONNX_GRAPH_node, body);
}

void calibrate_model_node(struct calibrate_model *c, const char *op, const char *in,
                          const char *out, const struct calibrate_attr *attr) {
  struct node n = {.op = op, .in = {in}, .out = out};
  if (attr) n.attr = *attr;
  put_node(c, &n);
}

static const char *put_list(struct calibrate_model *c, const int64_t *list, uint32_t n) {
  const char *name = calibrate_model_name(c, "list", c->n_lists++, &c->names);
  struct rope body = rope_empty();
  rope_varint_field(&c->pool, &body, ONNX_TENSOR_dims, n);
  rope_varint_field(&c->pool, &body, ONNX_TENSOR_data_type, DTYPE_INT64);
  rope_bytes_field(&c->pool, &body, ONNX_TENSOR_name, span_str(name));
  rope_bytes_field(&c->pool, &body, ONNX_TENSOR_raw_data, span_of(list, n * sizeof *list));
  rope_message_field(&c->pool, &c->graph, ONNX_GRAPH_initializer, body);
  return name;
}

void calibrate_model_reduce(struct calibrate_model *c, const char *op, const char *in,
                            const char *out, const int64_t *axes, uint32_t n) {
  struct node x = {.op = op, .in = {in}, .out = out};
  const int64_t since = strcmp(op, "ReduceSum") == 0 ? OPSET_SUM_AXES_INPUT : OPSET_AXES_INPUT;
  const int64_t opset = c->opset ? c->opset : OPSET_WHERE_NONE;
  if (n > 0 && opset >= since)
    x.in[1] = put_list(c, axes, n);
  else if (n > 0)
    x.attr = (struct calibrate_attr){.name = "axes", .list = axes, .n = n};
  put_node(c, &x);
}

void calibrate_model_output(struct calibrate_model *c, const char *name) {
  struct rope body = rope_empty();
  rope_bytes_field(&c->pool, &body, ONNX_INFO_name, span_str(name));
  rope_message_field(&c->pool, &c->graph, ONNX_GRAPH_output, body);
}

// All parts are literals, since nothing of it comes from a file.
static int append(struct calibrate_model *c, struct rope all, struct err *err) {
  struct file f = file_open_to_write(c->of.scratch_at, ONNX_NAME, FILE_NO_LINK, 0);
  if (!file_is_open(f))
    return err_errno(err, errno, ERR_IO, "'%s/" ONNX_NAME "' cannot be opened",
                     quote_path(c->of.scratch).s);
  uint8_t *bytes = arena_alloc(&c->names, all.len + 1), *at = bytes;
  for (uint32_t i = all.first; i != NO_ID; i = c->pool.parts[i].next) {
    const struct rope_part *part = &c->pool.parts[i];
    memcpy(at, c->literals.literals + part->at, part->len);
    at += part->len;
  }
  int rc = 0;
  const uint64_t end = c->plan.outputs[c->plan.n_outputs - 1].size;
  if (file_set_size(f, end) || file_seek(f, end))
    rc = err_errno(err, errno, ERR_IO, "'%s/" ONNX_NAME "' cannot be written",
                   quote_path(c->of.scratch).s);
  if (rc == 0) rc = fs_write_all(f, bytes, (size_t)all.len, ONNX_NAME, err);
  file_close(&f);
  return rc;
}

enum runtime_end calibrate_model_load(struct calibrate_model *c, struct runtime_model *out,
                                      struct err *err) {
  struct rope all = rope_empty(), import = rope_empty();
  if (c->opset == 0) { // the model imports none of ONNX's own operators
    rope_varint_field(&c->pool, &import, ONNX_OPSET_version, OPSET_WHERE_NONE);
    rope_message_field(&c->pool, &all, ONNX_MODEL_opset_import, import);
  }
  rope_message_field(&c->pool, &all, ONNX_MODEL_graph, c->graph);
  c->graph = rope_empty();
  if (append(c, all, err)) return RUNTIME_REFUSED;
  const char *path = arena_printf(&c->names, "%s/" ONNX_NAME, c->of.scratch);
  return runtime_load(c->of.runtime, path, c->maps ? "/" : NULL, out, err);
}
