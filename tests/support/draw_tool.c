// Draws inputs of models and writes them, a file each, for tests that run the models on them:
//
//   draw_tool [--seed N] [--length N] [--shape NAME=1x2x3] FILE.onnx FOLDER …
//
// A line of JSON for each model:
//
//   {"model":"a.onnx","sizes":"batch=1","inputs":[{"name":"x","file":"0","dtype":"float","dims":[1,3]}]}
//
// or "cannot", or "error". Files hold the elements as arrays have them, without a header.
#include "draw.h"
#include "json.h"
#include "load.h"

#include <stdio.h>
#include <stdlib.h>

enum { SHAPES = 16 };

static void put_arrays(struct json_out *j, const struct arrays *x, const char *folder) {
  struct arena a = {0};
  json_put_array(j, "inputs");
  for (uint32_t i = 0; i < x->n; i++) {
    const struct array *at = &x->list[i];
    FILE *f = fopen(arena_printf(&a, "%s/%u", folder, i), "wb");
    if (!f || fwrite(at->at, 1, at->bytes, f) != at->bytes || fclose(f) != 0) exit(3);
    json_object(j);
    json_put_string(j, "name", span_str(at->name));
    json_put_text(j, "file", arena_printf(&a, "%u", i));
    json_put_text(j, "dtype", dtype_name(at->dtype));
    json_put_array(j, "dims");
    for (uint32_t k = 0; k < at->rank; k++)
      json_int(j, at->dims[k]);
    json_end_array(j);
    json_end_object(j);
  }
  json_end_array(j);
  arena_free(&a);
}

static void put_drawn(struct json_out *j, const struct model *m, const struct draw_options *o,
                      const char *folder, struct err *err) {
  struct arena a = {0};
  struct infer *in = infer_new(m, NULL);
  struct draw *d = NULL;
  struct arrays x;
  char why[256];
  infer_all(in, NULL);
  if (draw_open(&d, in, m, o, err) == 0) {
    json_put_text(j, "sizes", draw_words(d, &a));
    if (draw_inputs(d, &a, &x, why) == DRAW_DONE)
      put_arrays(j, &x, folder);
    else
      json_put_text(j, "cannot", why);
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
