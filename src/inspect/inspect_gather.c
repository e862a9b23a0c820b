// The facts, gathered once.
//
// There is one walk over the tensors and one over the nodes. Everything is counted from the rows of
// the model; of the files themselves the two producer fields are read again, which no row holds, and samples, for the
// size that they have when they are compressed (gzip_guess.h).
// Lists are kept short here (the largest tensors, operators by count), so that what is shown does
// not depend on who shows it.
#include "inspect/inside/inspect_steps.h"

#include "base/table.h"
#include "base/varint.h"
#include "squeeze/gzip_guess.h"
#include "stream/load/load.h"
#include "stream/staging/unfinished.h"

#include <stdio.h>
#include <stdlib.h>

// ---- producer -----------------------------------------------------------------------------------

// ModelProto's string fields 2 and 3, at most this much of each place is looked at.
enum { TAG_PRODUCER_NAME = 2 << 3 | 2, TAG_PRODUCER_VERSION = 3 << 3 | 2, LOOK_BYTES = 4096 };

// Steps over fields (framing was checked by load) and keeps the two that are looked for.
static void look_at_fields(struct inspect *in, struct span s) {
  uint64_t tag, n;
  while (varint_take(&s, &tag) && varint_take(&s, &n)) {
    if ((tag & 7) == 0) continue; // a varint field: n was its value
    if ((tag & 7) != 2 || n > s.n) return;
    char *text = arena_string(&in->arena, span_of(s.at, (size_t)n));
    if (tag == TAG_PRODUCER_NAME) in->producer_name = text;
    if (tag == TAG_PRODUCER_VERSION) in->producer_version = text;
    s = span_of(s.at + n, s.n - (size_t)n);
  }
}

static void gather_producer(struct inspect *in) {
  const struct model *m = in->m;
  in->producer_name = in->producer_version = "";
  uint8_t bytes[LOOK_BYTES];
  for (uint32_t i = 0; i < m->model_n_items; i++) {
    const struct model_item *item = &m->items[m->model_items + i];
    if (item->kind != ITEM_OTHER) continue;
    for (uint32_t k = 0; k < item->count; k++) {
      struct place at = m->others[item->first + k];
      size_t n = (size_t)min_u64(at.len, LOOK_BYTES);
      struct err unimportant = {0};
      if (sources_read(in->sources, 0, at.off, bytes, n, &unimportant) == 0)
        look_at_fields(in, span_of(bytes, n));
    }
  }
}

// ---- nodes --------------------------------------------------------------------------------------

static int compare_u64(const void *pa, const void *pb) {
  uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
  return (a > b) - (a < b);
}

static int compare_ops(const void *pa, const void *pb, const void *model) {
  const struct inspect_op *a = pa, *b = pb;
  const struct model *m = model;
  if (a->count != b->count) return a->count > b->count ? -1 : 1;
  int by_name = strcmp(model_name_str(m, a->op_type), model_name_str(m, b->op_type));
  if (by_name != 0) return by_name;
  return strcmp(model_name_str(m, a->domain), model_name_str(m, b->domain));
}

// Operators as one number each, sorted, then counted in runs.
static void gather_ops(struct inspect *in) {
  const struct model *m = in->m;
  uint64_t *keys = NULL;
  size_t cap = 0, n = 0;
  keys = table_grow(keys, &cap, m->n_nodes + 1u, sizeof *keys);
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (!(m->nodes[i].flags & NODE_DEAD))
      keys[n++] = (uint64_t)m->nodes[i].domain << 32 | m->nodes[i].op_type;
  qsort(keys, n, sizeof *keys, compare_u64);
  for (size_t i = 0; i < n; i++)
    if (i == 0 || keys[i] != keys[i - 1]) in->n_ops++;
  in->ops = arena_zalloc(&in->arena, (in->n_ops + 1u) * sizeof *in->ops);
  struct inspect_op *op = in->ops;
  for (size_t i = 0; i < n; i++) {
    op->domain = (uint32_t)(keys[i] >> 32);
    op->op_type = (uint32_t)keys[i];
    op->count++;
    if (i + 1 < n && keys[i + 1] != keys[i]) op++;
  }
  table_free(keys, cap, sizeof *keys);
  in->n_nodes = n;
  table_sort(in->ops, in->n_ops, sizeof *in->ops, compare_ops, m);
}

// ---- tensors ------------------------------------------------------------------------------------

uint32_t inspect_uses(const struct model *m, uint32_t tensor) {
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->home == HOME_INITIALIZER) return model_use_count(m, t->owner);
  if (t->home != HOME_ATTRIBUTE || t->owner == NO_ID || m->attrs[t->owner].node == NO_ID) return 1;
  uint32_t node = m->attrs[t->owner].node;
  if (!model_op_is(m, node, "Constant")) return 1;
  uint32_t output = model_output(m, &m->nodes[node], 0);
  return output == NO_ID ? 0 : model_use_count(m, output);
}

bool inspect_place(const struct model *m, uint32_t tensor, struct extent *at) {
  uint32_t n;
  const struct piece *p = model_pieces(m, tensor, &n);
  if (n == 0) return false;
  *at = p[0].at;
  return true;
}

const char *inspect_tensor_name(struct inspect *in, uint32_t tensor) {
  const struct model *m = in->m;
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->name != m->empty || t->home != HOME_ATTRIBUTE) return model_name_str(m, t->name);
  if (t->owner == NO_ID || m->attrs[t->owner].node == NO_ID) return "";
  const struct model_attr *a = &m->attrs[t->owner];
  const struct model_node *node = &m->nodes[a->node];
  uint32_t name = node->name, output = model_output(m, node, 0);
  // A node without a name is known by what it makes.
  if (name == m->empty && output != NO_ID) name = m->values[output].name;
  return arena_printf(&in->arena, "%s.%s", model_name_str(m, name), model_name_str(m, a->name));
}

static void add_to(struct inspect_sum *sum, uint64_t bytes) {
  sum->tensors++;
  sum->bytes += bytes;
}

// Keeps the largest, by insertion; the first of equals stays in front.
static void offer_largest(struct inspect *in, uint32_t tensor) {
  const struct model_tensor *t = in->m->tensors;
  if (t[tensor].bytes == 0) return;
  uint32_t at = in->n_largest;
  while (at > 0 && t[in->largest[at - 1]].bytes < t[tensor].bytes)
    at--;
  if (at == INSPECT_LARGEST) return;
  if (in->n_largest < INSPECT_LARGEST) in->n_largest++;
  for (uint32_t i = in->n_largest - 1; i > at; i--)
    in->largest[i] = in->largest[i - 1];
  in->largest[at] = tensor;
}

static void gather_tensors(struct inspect *in) {
  const struct model *m = in->m;
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (t->flags & TENSOR_DEAD) continue;
    add_to(&in->sums.all, t->bytes);
    add_to(&in->sums.by_dtype[t->dtype], t->bytes);
    if (t->flags & TENSOR_EXTERNAL)
      add_to(&in->sums.external, t->bytes);
    else
      add_to(t->home == HOME_ATTRIBUTE ? &in->sums.in_nodes : &in->sums.inlined, t->bytes);
    if (t->home == HOME_INITIALIZER && inspect_uses(m, i) == 0) add_to(&in->sums.unused, t->bytes);
    offer_largest(in, i);
  }
}

// How long every data file must be, and what one is that is not.
static void gather_needed(struct inspect *in) {
  for (size_t i = 0; i < in->map.n_rows; i++) {
    const struct tensor_span *at = &in->map.rows[i];
    in->files[at->file].needed = max_u64(in->files[at->file].needed, at->off + at->len);
  }
  for (uint32_t f = 1; f < in->m->n_files; f++) {
    struct inspect_file *file = &in->files[f];
    if (!sources_is_absent(in->sources, f) && file->needed > file->size)
      file->is = load_looks_like(in->sources, f).what;
  }
}

// A file that was not opened is missing, or there is a reason not to read it.
static void gather_absent(struct inspect *in) {
  for (uint32_t f = 1; f < in->m->n_files; f++) {
    struct inspect_file *file = &in->files[f];
    struct err why;
    if (!sources_is_absent(in->sources, f)) continue;
    file->missing = true;
    if (!sources_why_absent(in->sources, f, &why) || why.kind != ERR_PERMISSION) continue;
    file->missing = false;
    (void)unfinished_explains(in->path, &why);
    file->unreadable = arena_copy(&in->arena, &why, sizeof why);
  }
}

// ---- compressed ---------------------------------------------------------------------------------

// Files stand one behind the other; a sample may go on in the next.
static bool read_files(void *ctx, uint64_t off, uint8_t *buf, size_t n) {
  const struct inspect *in = ctx;
  struct err unimportant = {0};
  for (uint32_t f = 0; f < in->m->n_files && n > 0; f++) {
    const uint64_t size = in->files[f].size;
    if (off >= size) {
      off -= size;
      continue;
    }
    const size_t here = (size_t)min_u64(n, size - off);
    if (sources_read(in->sources, f, off, buf, here, &unimportant)) return false;
    buf += here;
    n -= here;
    off = 0;
  }
  return n == 0;
}

static void gather_packed(struct inspect *in) {
  struct gzip_guess guess;
  uint64_t all = 0;
  for (uint32_t f = 0; f < in->m->n_files; f++) {
    const struct inspect_file *file = &in->files[f];
    if (file->missing || file->unreadable || file->needed > file->size) return;
    all += file->size;
  }
  if (gzip_guess(all, read_files, in, &guess)) in->packed = guess.bytes;
}

void inspect_gather(struct inspect *in, struct model *m, struct sources *sources, const char *path,
                    bool allow_links) {
  *in = (struct inspect){.m = m, .sources = sources, .path = path, .allow_links = allow_links};
  gather_producer(in);
  gather_ops(in);
  for (uint32_t g = 0; g < in->m->n_graphs; g++) {
    const struct model_graph *graph = &in->m->graphs[g];
    if (graph->flags & GRAPH_DEAD) continue;
    in->n_subgraphs += graph->kind == GRAPH_SUB;
    in->n_functions += graph->kind == GRAPH_FUNCTION;
    in->n_training += graph->kind == GRAPH_TRAINING;
  }
  gather_tensors(in);
  tensor_map_init(&in->map, m, false);
  in->files = arena_zalloc(&in->arena, (m->n_files + 1u) * sizeof *in->files);
  for (uint32_t f = 0; f < m->n_files; f++)
    in->files[f] = (struct inspect_file){
        .name = m->files[f].name, .size = m->files[f].size, .use = tensor_map_use(&in->map, f)};
  gather_absent(in);
  gather_needed(in);
  inspect_weights(in);
}

uint64_t inspect_bytes(const struct inspect *in) {
  uint64_t all = 0;
  for (uint32_t f = 0; f < in->m->n_files; f++)
    all += max_u64(in->files[f].size, in->files[f].needed);
  return all;
}

void inspect_look_ahead(struct inspect *in, struct model *m) {
  gather_packed(in);
  inspect_advise(in, m);
}

void inspect_done(struct inspect *in) {
  tensor_map_done(&in->map);
  arena_free(&in->arena);
}
