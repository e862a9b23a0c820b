// Runs passes on a model, finds what they changed, and writes every site as two models, for tests that run
// both:
//
//   cut_tool [--size NAME=N]… [--layers N] MODEL FOLDER STEP…    STEP: as behind --pass; "optimize": all of it
//
// FOLDER gets <site>.before.onnx and <site>.after.onnx, and standard output one JSON object:
//
//   {"model":…,"unchanged_groups":N,"unchanged":["tidy/dead"],"looked":N,"nodes":N,"sites":[{"name":…,"graph":0,"groups":[1],
//    "passes":["fuse/gelu"],"nodes":[5,1],"inputs":[{"before":"x","after":"x","dtypes":["float","float"],
//    "dims":[1,4],"elements":[…]}],"outputs":[["y","y"]],"bytes":[123,99]}]}
//
// or, of a site that is not written, "why_not". Layers: how much sites are widened. Dims that are symbols are N,
// those of an input called NAME are "--size NAME=1x4", and 4 where nobody says it. What
// inference knows of an input's elements is there as "elements".
#include "edit/edit_groups.h"
#include "infer/infer.h"
#include "json/json.h"
#include "pipeline/optimize_steps.h"
#include "pipeline/pass_run.h"
#include "platform/descriptor.h"
#include "stream/eval/eval.h"
#include "stream/load/load.h"
#include "verify/cut/part.h"
#include "verify/cut/sites.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZES = 16, SIZE_DEFAULT = 4 };

struct tool {
  struct model m[2];
  struct sources *sources;
  struct recipes r;
  struct edits e;
  struct pipeline p;
  struct arena arena;
  struct infer *in[2];
  struct part_cutter *cutter[2];
  const char *sizes[SIZES]; // NAME=N
  uint32_t n_sizes, layers;
  struct json_out j;
  int folder;
  bool typed; // the ranks of all outputs of the site are known
};

static void must(int rc, const struct err *err) {
  if (rc == 0) return;
  fprintf(stderr, "cut_tool: %s\n", err->msg);
  exit(1);
}

static int read_tensor(void *ctx, uint32_t tensor, uint8_t *out, size_t n, struct err *err) {
  const struct io_options options = {.mode = IO_SYNC, .tiles = 1, .tile_bytes = IO_CLONE_BLOCK};
  struct tool *t = ctx;
  struct io *io = NULL;
  struct eval *ev = NULL;
  const uint32_t recipe = edit_tensor_recipe(&t->e, tensor);
  int rc = io_open(&io, &options, t->sources, err);
  if (rc == 0) rc = eval_open(&ev, &t->r, io, 1 << 20, err);
  if (rc == 0) rc = recipe_read(ev, recipe, 0, out, n, err);
  eval_close(ev);
  if (io) io_close(io);
  return rc;
}

// ---- sizes -------------------------------------------------------------------------------------

// What stands behind "NAME=", or NULL.
static const char *size_text(const struct tool *t, struct span name) {
  for (uint32_t i = 0; i < t->n_sizes; i++)
    if (strncmp(t->sizes[i], (const char *)name.at, name.n) == 0 && t->sizes[i][name.n] == '=')
      return t->sizes[i] + name.n + 1;
  return NULL;
}

static int64_t size_of(const struct tool *t, struct model_dim d, const struct model *m) {
  const char *text = d.value < 0 ? size_text(t, model_name(m, d.param)) : NULL;
  return d.value >= 0 ? d.value : text ? atoll(text) : SIZE_DEFAULT;
}

// "2x3": as many as there are; none for "".
static uint32_t numbers_of(struct dims *in, const char *text, dim_id **dims, struct arena *a) {
  uint32_t n = 0;
  *dims = arena_alloc(a, (strlen(text) + 1) * sizeof **dims);
  for (char *end = NULL; *text; text = *end ? end + 1 : end)
    (*dims)[n++] = dims_number(in, strtoll(text, &end, 10));
  return n;
}

// Declared shapes of the inputs, with numbers for what is none.
static struct infer *infer_with_sizes(struct tool *t, const struct model *m) {
  struct infer *in = infer_new(m, NULL);
  const struct model_graph *g = &m->graphs[m->main_graph];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i], info = model_info_at(m, value, INFO_INPUT);
    const char *text = size_text(t, model_value_name(m, value));
    uint32_t rank = 0;
    dim_id *dims;
    if (text) {
      rank = numbers_of(infer_dims(in), text, &dims, &t->arena);
    } else if (info != NO_ID && m->infos[info].flags & INFO_SHAPED) {
      rank = m->infos[info].rank;
      dims = arena_alloc(&t->arena, rank * sizeof *dims + 1);
      for (uint32_t k = 0; k < rank; k++)
        dims[k] = dims_number(infer_dims(in), size_of(t, m->info_dims[m->infos[info].dims + k], m));
    } else {
      continue;
    }
    infer_set_input(in, value, dims, rank);
  }
  infer_all(in, NULL);
  return in;
}

// Dtype and, as numbers, the dims of a value; why not.
static const char *type_of(struct tool *t, int side, uint32_t value, enum dtype *dtype,
                           int64_t **dims, uint32_t *rank) {
  struct infer_type type;
  if (!infer_type_of(t->in[side], value, &type)) return "nothing is known of an input";
  if (type.kind != INFER_TENSOR) return "an input is no tensor";
  if (type.dtype == DTYPE_UNDEFINED) return "the type of an input is not known";
  *dtype = type.dtype;
  if (!type.ranked) return "the rank of an input is not known";
  *rank = type.rank;
  *dims = arena_alloc(&t->arena, type.rank * sizeof **dims + 1);
  for (uint32_t i = 0; i < type.rank; i++)
    if (!dims_is_number(infer_dims(t->in[side]), type.dims[i], &(*dims)[i]))
      return "the shape of an input is not known";
  return NULL;
}

// ---- sites -------------------------------------------------------------------------------------

static const char *name_of(const struct tool *t, int side, uint32_t value) {
  return value == NO_ID ? NULL : model_name_str(&t->m[side], t->m[side].values[value].name);
}

// Where inference knows them all, as numbers.
static void put_elements(struct tool *t, const uint32_t ids[2]) {
  for (int side = 0; side < 2; side++) {
    const struct infer_number *list;
    uint32_t n, known = 0;
    int64_t x;
    if (ids[side] == NO_ID || !infer_numbers(t->in[side], ids[side], &list, &n)) continue;
    struct dims *dims = infer_dims(t->in[side]);
    while (known < n && list[known].num != NO_ID && list[known].den == 1 &&
           dims_is_number(dims, list[known].num, &x))
      known++;
    if (known < n) continue;
    json_put_array(&t->j, "elements");
    for (uint32_t i = 0; i < n; i++) {
      dims_is_number(dims, list[i].num, &x);
      json_int(&t->j, x);
    }
    json_end_array(&t->j);
    return;
  }
}

// Is it one of the constants of a side too?
static bool has_default(const struct site *s, const uint32_t ids[2]) {
  for (int side = 0; side < 2; side++)
    for (uint32_t i = 0; i < s->n_constants[side]; i++)
      if (s->constants[side][i].value == ids[side]) return true;
  return false;
}

// Inputs of both sides, n[side] of them: without those that a side has not.
static const char *put_inputs(struct tool *t, const struct site *s, struct part_input *inputs[2],
                              uint32_t n[2]) {
  const char *why = NULL;
  for (int side = 0; side < 2; side++)
    inputs[side] = arena_alloc(&t->arena, s->n_inputs * sizeof **inputs + 1);
  n[0] = n[1] = 0;
  json_put_array(&t->j, "inputs");
  for (uint32_t i = 0; i < s->n_inputs; i++) {
    const uint32_t ids[2] = {s->inputs[i].before, s->inputs[i].after};
    const char *unknown = NULL;
    int64_t *dims = NULL;
    uint32_t rank = 0;
    json_object(&t->j);
    json_put_text(&t->j, "before", name_of(t, 0, ids[0]));
    json_put_text(&t->j, "after", name_of(t, 1, ids[1]));
    json_put_array(&t->j, "dtypes");
    for (int side = 0; side < 2; side++) {
      struct part_input *in = &inputs[side][n[side]];
      int64_t *own;
      uint32_t own_rank;
      const char *no = ids[side] == NO_ID
                           ? "there is none"
                           : type_of(t, side, ids[side], &in->dtype, &own, &own_rank);
      json_text(&t->j, no ? NULL : dtype_name(in->dtype));
      if (ids[side] != NO_ID && no) unknown = no;
      if (no) continue;
      if (!dims) {
        dims = own;
        rank = own_rank;
      }
      *in = (struct part_input){ids[side], in->dtype, dims, rank};
      n[side]++;
    }
    json_end_array(&t->j);
    if (dims) json_put_ints(&t->j, "dims", dims, rank);
    if (unknown) why = unknown;
    put_elements(t, ids);
    json_put_bool(&t->j, "default", has_default(s, ids));
    json_end_object(&t->j);
  }
  json_end_array(&t->j);
  return why;
}

static void output_type(struct tool *t, int side, uint32_t value, struct part_input *out) {
  struct infer_type type;
  const bool known = t->typed;
  t->typed = false;
  if (!infer_type_of(t->in[side], value, &type) || type.kind != INFER_TENSOR) return;
  out->dtype = type.dtype;
  if (!type.ranked) return;
  int64_t *dims = arena_alloc(&t->arena, type.rank * sizeof *dims + 1);
  for (uint32_t i = 0; i < type.rank; i++)
    if (!dims_is_number(infer_dims(t->in[side]), type.dims[i], &dims[i])) dims[i] = -1;
  out->dims = dims;
  out->rank = type.rank;
  t->typed = known && type.dtype != DTYPE_UNDEFINED;
}

static const char *write_parts(struct tool *t, const struct site *s, uint32_t number,
                               struct part_input *inputs[2], const uint32_t n[2]) {
  uint64_t bytes[2] = {0};
  struct part part[2];
  for (int side = 0; side < 2; side++) {
    struct err err = {0};
    uint32_t *outputs = arena_alloc(&t->arena, s->n_outputs * sizeof *outputs + 1);
    struct part_input *types = arena_zalloc(&t->arena, s->n_outputs * sizeof *types + 1);
    for (uint32_t i = 0; i < s->n_outputs; i++) {
      outputs[i] = side ? s->outputs[i].after : s->outputs[i].before;
      output_type(t, side, outputs[i], &types[i]);
    }
    part[side] = (struct part){.m = &t->m[side],
                               .graph = s->graph,
                               .nodes = side ? s->after : s->before,
                               .n_nodes = side ? s->n_after : s->n_before,
                               .inputs = inputs[side],
                               .n_inputs = n[side],
                               .constants = s->constants[side],
                               .n_constants = s->n_constants[side],
                               .outputs = outputs,
                               .output_types = types,
                               .n_outputs = s->n_outputs};
    const char *name = arena_printf(&t->arena, "%u.%s", number, side ? "after" : "before");
    if (part_write(t->cutter[side], &part[side], folder_of_descriptor(t->folder), name,
                   &bytes[side], &err))
      return arena_string(&t->arena, span_str(err.msg));
  }
  json_put_array(&t->j, "outputs");
  for (uint32_t i = 0; i < s->n_outputs; i++) {
    json_array(&t->j);
    json_text(&t->j, part_output_name(&part[0], i, &t->arena));
    json_text(&t->j, part_output_name(&part[1], i, &t->arena));
    json_end_array(&t->j);
  }
  json_end_array(&t->j);
  json_put_array(&t->j, "bytes");
  json_uint(&t->j, bytes[0]);
  json_uint(&t->j, bytes[1]);
  json_end_array(&t->j);
  return NULL;
}

static void put_nodes(struct tool *t, const struct site *s) {
  const uint32_t *lists[2] = {s->before, s->after}, n[2] = {s->n_before, s->n_after};
  json_put_array(&t->j, "nodes");
  for (int side = 0; side < 2; side++) {
    json_array(&t->j);
    for (uint32_t i = 0; i < n[side]; i++)
      json_string(&t->j, model_name(&t->m[side], t->m[side].nodes[lists[side][i]].op_type));
    json_end_array(&t->j);
  }
  json_end_array(&t->j);
}

static void put_site(struct tool *t, const struct site *s, uint32_t number) {
  const struct edit_groups *g = t->e.groups;
  struct part_input *inputs[2];
  uint32_t n[2];
  t->typed = true;
  json_object(&t->j);
  json_put_text(&t->j, "name", site_name(&t->m[0], s, &t->arena));
  json_put_uint(&t->j, "graph", s->graph);
  json_put_array(&t->j, "groups");
  for (uint32_t i = 0; i < s->n_groups; i++)
    json_uint(&t->j, s->groups[i]);
  json_end_array(&t->j);
  json_put_array(&t->j, "passes");
  for (uint32_t i = 0; i < s->n_groups; i++)
    json_text(&t->j, g->rows[s->groups[i] - g->first - 1].pass);
  json_end_array(&t->j);
  put_nodes(t, s);
  const char *why = s->why_not, *type = put_inputs(t, s, inputs, n);
  if (!why) why = type;
  if (!why) why = write_parts(t, s, number, inputs, n);
  json_put_text(&t->j, "why_not", why);
  json_put_text(&t->j, "doubt", s->doubt);
  json_put_bool(&t->j, "typed", t->typed);
  json_end_object(&t->j);
}

// ---- the run -----------------------------------------------------------------------------------

static void add_step(struct tool *t, const char *step, struct err *err) {
  const struct optimize_asked asked = {.goal = GOAL_ONNXRUNTIME, .rounds = OPTIMIZE_ROUNDS};
  if (strcmp(step, "optimize") == 0)
    must(optimize_steps_add(&t->p, &asked, err), err);
  else
    must(pipeline_add_text(&t->p, step, err), err);
}

static void run(struct tool *t, const char *path, struct err *err) {
  struct load_options options = {0};
  uint32_t flaws = 0;
  options.warnings = &flaws;
  must(sources_open(&t->sources, path, NULL, err), err);
  for (int side = 0; side < 2; side++) {
    model_init(&t->m[side]);
    must(load_model(&t->m[side], t->sources, &options, err), err);
  }
  recipes_init(&t->r);
  edits_init(&t->e, &t->m[1], &t->r);
  edit_groups_keep(&t->e);
  struct pass_run p = {.pipeline = &t->p,
                       .env = {.m = &t->m[1], .edits = &t->e, .read = read_tensor, .read_ctx = t},
                       .flaws = flaws};
  must(pass_run(&p, &t->arena, err), err);
}

// Passes and reasons of the groups that no site has.
static void put_unchanged(struct tool *t, const struct sites *sites) {
  const struct edit_groups *g = t->e.groups;
  bool *named = arena_zalloc(&t->arena, g->n_rows + (size_t)1);
  for (uint32_t i = 0; i < sites->n; i++)
    for (uint32_t k = 0; k < sites->list[i].n_groups; k++)
      named[sites->list[i].groups[k] - g->first - 1] = true;
  json_put_array(&t->j, "unchanged");
  for (uint32_t i = 0; i < g->n_rows; i++)
    if (!named[i]) json_text(&t->j, g->rows[i].pass);
  json_end_array(&t->j);
}

static void tell(struct tool *t, const char *path, struct err *err) {
  struct sites sites;
  sites_find(&t->m[0], &t->m[1], t->e.groups, NULL, &t->arena, &sites);
  for (int side = 0; side < 2; side++) {
    t->in[side] = infer_with_sizes(t, &t->m[side]);
    must(part_cutter_open(&t->cutter[side], &t->m[side], &t->r, t->sources, 16 << 20, err), err);
  }
  json_object(&t->j);
  json_put_text(&t->j, "model", path);
  json_put_uint(&t->j, "groups", t->e.group);
  json_put_uint(&t->j, "unchanged_groups", sites.unchanged_groups);
  put_unchanged(t, &sites);
  json_put_uint(&t->j, "looked", sites.looked);
  json_put_uint(&t->j, "nodes", t->m[1].n_nodes);
  json_put_array(&t->j, "sites");
  for (uint32_t i = 0; i < sites.n; i++) {
    struct site wider = sites.list[i];
    if (t->layers) sites_widen(&sites, i, t->layers, &t->arena, &wider);
    put_site(t, &wider, i);
  }
  json_end_array(&t->j);
  json_end_object(&t->j);
  puts(t->j.text);
  sites_done(&sites);
}

int main(int argc, char **argv) {
  struct tool t = {0};
  struct err err = {0};
  int i = 1;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
    if (strcmp(argv[i], "--layers") == 0)
      t.layers = (uint32_t)atoi(argv[i + 1]);
    else if (t.n_sizes < SIZES)
      t.sizes[t.n_sizes++] = argv[i + 1];
  if (argc - i < 3) return 2;
  const char *path = argv[i], *folder = argv[i + 1];
  pipeline_init(&t.p);
  for (i += 2; i < argc; i++)
    add_step(&t, argv[i], &err);
  t.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (t.folder < 0) {
    perror(folder);
    return 1;
  }
  run(&t, path, &err);
  tell(&t, path, &err);
  for (int side = 0; side < 2; side++) {
    infer_free(t.in[side]);
    part_cutter_close(t.cutter[side]);
  }
  json_done(&t.j);
  edits_free(&t.e);
  recipes_free(&t.r);
  for (int side = 0; side < 2; side++)
    model_free(&t.m[side]);
  sources_close(t.sources);
  pipeline_free(&t.p);
  arena_free(&t.arena);
  close(t.folder);
  return 0;
}
