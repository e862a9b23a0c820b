// Draws inputs of models and writes them, a file each, for tests that run the models on them:
//
//   draw_tool [--seed N] [--length N] [--shape NAME=1x2x3] [--nodes K] FILE.onnx FOLDER …
//
// A line of JSON for each model:
//
//   {"model":"a.onnx","sizes":"batch=1","inputs":[{"name":"x","file":"0","dtype":"float","dims":[1,3]}]}
//
// or "cannot", or "error". With --nodes, instead of inputs, what each K nodes of the main graph that stand behind each
// other read from outside that is no constant, drawn for these nodes alone: "nodes":[{"node":3,"inputs":[…]}], by the
// first of them, an input perhaps with "cannot". Files hold the elements as arrays have them, without a header.
#include "json/json.h"
#include "stream/load/load.h"
#include "verify/draw/draw.h"

#include <stdio.h>
#include <stdlib.h>

enum { SHAPES = 16 };

static void put_array(struct json_out *j, const struct array *x, const char *folder,
                      const char *file) {
  struct arena a = {0};
  FILE *f = fopen(arena_printf(&a, "%s/%s", folder, file), "wb");
  if (!f || fwrite(x->at, 1, x->bytes, f) != x->bytes || fclose(f) != 0) exit(3);
  json_put_string(j, "name", span_str(x->name));
  json_put_text(j, "file", file);
  json_put_text(j, "dtype", dtype_name(x->dtype));
  json_put_array(j, "dims");
  for (uint32_t k = 0; k < x->rank; k++)
    json_int(j, x->dims[k]);
  json_end_array(j);
  arena_free(&a);
}

static void put_inputs(struct json_out *j, struct draw *d, const char *folder) {
  struct arena a = {0};
  struct arrays x;
  char why[256];
  if (draw_inputs(d, &a, &x, why) == DRAW_DONE) {
    json_put_array(j, "inputs");
    for (uint32_t i = 0; i < x.n; i++) {
      json_object(j);
      put_array(j, &x.list[i], folder, arena_printf(&a, "%u", i));
      json_end_object(j);
    }
    json_end_array(j);
  } else
    json_put_text(j, "cannot", why);
  arena_free(&a);
}

static bool is_made_by(const struct model *m, uint32_t value, const uint32_t *nodes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (m->values[value].kind == VALUE_NODE_OUTPUT && m->values[value].def == nodes[i]) return true;
  return false;
}

// What the nodes read that neither they make nor the model has as a constant. Their ids are sorted.
static void put_site(struct json_out *j, const struct model *m, struct draw *d,
                     const uint32_t *nodes, uint32_t n, const char *folder) {
  struct arena a = {0};
  struct array x;
  struct model_constant c;
  char why[256];
  json_object(j);
  json_put_int(j, "node", nodes[0]);
  json_put_array(j, "inputs");
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = 0; i < m->nodes[nodes[k]].n_in; i++) {
      const uint32_t value = model_input(m, &m->nodes[nodes[k]], i);
      if (value == NO_ID || model_resolve_constant(m, value, &c) || is_made_by(m, value, nodes, n))
        continue;
      json_object(j);
      if (draw_value(d, value, nodes, n, &a, &x, why) == DRAW_DONE)
        put_array(j, &x, folder, arena_printf(&a, "%u.%u.%u", nodes[0], nodes[k], i));
      else
        json_put_text(j, "cannot", why);
      json_end_object(j);
    }
  json_end_array(j);
  json_end_object(j);
  arena_free(&a);
}

static uint32_t many; // --nodes

// As they stand in the model: so many at once, each at the beginning of one site.
static void put_sites(struct json_out *j, const struct model *m, struct draw *d,
                      const char *folder) {
  struct {
    TABLE(uint32_t, nodes);
  } all = {0};
  json_put_array(j, "nodes");
  for (uint32_t node = m->graphs[m->main_graph].first_node; node != NO_ID;
       node = m->nodes[node].next)
    *TABLE_PUSH(&all, nodes) = node;
  for (uint32_t i = 0; i < all.n_nodes; i++)
    put_site(j, m, d, all.nodes + i, all.n_nodes - i < many ? all.n_nodes - i : many, folder);
  json_end_array(j);
  TABLE_FREE(&all, nodes);
}

static void put_drawn(struct json_out *j, const struct model *m, const struct draw_options *o,
                      const char *folder, struct err *err) {
  struct arena a = {0};
  const struct infer_options believing = {INFER_REFINE, 1, INT64_MAX, false}; // as verify has it
  struct infer *in = infer_new(m, &believing);
  struct draw *d = NULL;
  infer_all(in, NULL);
  if (draw_open(&d, in, m, o, err) == 0) {
    json_put_text(j, "sizes", draw_words(d, &a));
    if (many)
      put_sites(j, m, d, folder);
    else
      put_inputs(j, d, folder);
  }
  draw_close(d);
  infer_free(in);
  arena_free(&a);
}

static void tell(const char *path, const char *folder, const struct draw_options *o) {
  struct json_out j = {0};
  struct sources *s;
  struct model m;
  struct err err = {0};
  json_object(&j);
  json_put_text(&j, "model", path);
  if (sources_open(&s, path, NULL, &err) == 0) {
    model_init(&m);
    if (load_model(&m, s, NULL, &err) == 0) put_drawn(&j, &m, o, folder, &err);
    model_free(&m);
    sources_close(s);
  }
  if (err.kind != ERR_NONE) json_put_text(&j, "error", err.msg);
  json_end_object(&j);
  puts(j.text);
  json_done(&j);
}

static void take_shape(char *word, struct draw_shape *s, int64_t *dims) {
  char *at = strrchr(word, '=');
  if (!at) exit(2);
  *at++ = 0;
  *s = (struct draw_shape){.name = word, .dims = dims};
  while (*at && s->rank < ARRAY_MAX_RANK) {
    dims[s->rank++] = strtoll(at, &at, 10);
    at += *at == 'x';
  }
}

int main(int argc, char **argv) {
  struct draw_shape shapes[SHAPES];
  int64_t dims[SHAPES][ARRAY_MAX_RANK];
  struct draw_options o = {.shapes = shapes};
  int i = 1;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
    if (strcmp(argv[i], "--seed") == 0)
      o.seed = (uint64_t)atoll(argv[i + 1]);
    else if (strcmp(argv[i], "--length") == 0)
      o.length = atoll(argv[i + 1]);
    else if (strcmp(argv[i], "--nodes") == 0)
      many = (uint32_t)atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--shape") == 0 && o.n_shapes < SHAPES) {
      take_shape(argv[i + 1], &shapes[o.n_shapes], dims[o.n_shapes]);
      o.n_shapes++;
    } else
      return 2;
  }
  if (i == argc || (argc - i) % 2) return 2;
  for (; i < argc; i += 2)
    tell(argv[i], argv[i + 1], &o);
  return 0;
}
