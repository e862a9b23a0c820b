// All that rewrites graphs (optimize for any goal, preprocess, cast with graph, a raise of the opset) over the bytes as
// an .onnx, where they begin as one, else over a model that is made of them (made_model.h), mostly of what is rewritten.
// Whatever the model says, steps leave it whole and as valid as it was, rounds end, the edits replay to the same
// model, and what is written loads again.
//
//   the length says how: goal, exactness and what runs before or behind
#include "check.h"
#include "edit_log.h"
#include "graph_text.h"
#include "load.h"
#include "made_model.h"
#include "optimize_steps.h"
#include "pass_run.h"
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST = 16 << 10, GROWTH = 4096 };

// One of two copies of a model: the second replays what was done to the first.
struct copy {
  struct model m;
  struct recipes r;
  struct edits e;
  struct arena arena;
  struct sources *sources;
  uint32_t flaws;
};

struct log {
  uint8_t *at;
  size_t n, cap;
};

static void demand(bool holds) {
  if (!holds) abort();
}

static void demand_of(bool holds, const char *what, const struct err *err) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", what, err->msg);
  abort();
}

// ---- models ----------------------------------------------------------------------------------------

static char path[128];

static void write_file(const void *data, size_t size) {
  const char *base = getenv("TMPDIR");
  snprintf(path, sizeof path, "%.40s/weir-fuzz-optimize-%ld.onnx", base ? base : "/tmp",
           (long)getpid());
  FILE *f = fopen(path, "wb");
  demand(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static bool is_onnx(const uint8_t *data, size_t size) {
  return size > 1 && data[0] == 8 && data[1] < 32;
}

static bool load_file(struct copy *c, struct err *err) {
  demand(sources_open(&c->sources, path, NULL, err) == 0);
  return load_model(&c->m, c->sources, &(struct load_options){.no_matter_the_data = true}, err) ==
         0;
}

// Is it one that the loader takes?
static bool begin_copy(struct copy *c, const uint8_t *data, size_t size) {
  struct err err = {0};
  bool good = true;
  *c = (struct copy){0};
  model_init(&c->m);
  recipes_init(&c->r);
  if (is_onnx(data, size)) {
    write_file(data, size);
    good = load_file(c, &err);
  } else {
    struct made_bytes in = {data, data + size};
    model_free(&c->m);
    made_model(&c->m, &in, true);
  }
  edits_init(&c->e, &c->m, &c->r);
  return good && check_structure(&c->m, NULL, &c->flaws, &err) == 0;
}

static void end_copy(struct copy *c) {
  edits_free(&c->e);
  recipes_free(&c->r);
  model_free(&c->m);
  arena_free(&c->arena);
  if (c->sources) sources_close(c->sources);
}

// ---- what is done to them ----------------------------------------------------------------------------

static void steps(struct pipeline *p, uint32_t how) {
  static const enum optimize_goal goals[] = {GOAL_ONNX, GOAL_QUANTIZATION, GOAL_ONNXRUNTIME};
  static const char *const before[] = {NULL, "infer:min_dim=0", "opset:version=23",
                                       "cast:to=float16,graph=true"};
  const struct optimize_asked asked = {.goal = goals[how % 3], .rounds = OPTIMIZE_ROUNDS};
  struct err err = {0};
  p->exactness = how / 3 % 4 == 3 ? EXACTNESS_EXACT : EXACTNESS_ROUNDING;
  bool good = !before[how / 12 % 4] || pipeline_add_text(p, before[how / 12 % 4], &err) == 0;
  good = good && optimize_steps_add(p, &asked, &err) == 0;
  good = good && pipeline_add_text(p, "infer", &err) == 0;
  good = good && (how % 3 != 1 || pipeline_add_text(p, "mark-preprocessed", &err) == 0);
  demand_of(good, "steps", &err);
}

static int keep_line(void *ctx, struct span line) {
  struct log *l = ctx;
  l->at = table_grow(l->at, &l->cap, l->n + line.n, 1);
  memcpy(l->at + l->n, line.at, line.n);
  l->n += line.n;
  return 0;
}

static void replay(struct copy *c, struct span log) {
  struct err err = {0};
  for (uint64_t number = 1; log.n > 0; number++) {
    const uint8_t *end = memchr(log.at, '\n', log.n);
    demand(end != NULL);
    demand_of(edit_log_replay_line(&c->e, span_of(log.at, (size_t)(end - log.at)), number, &err) ==
                  0,
              "line", &err);
    log = span_of(end + 1, log.n - (size_t)(end + 1 - log.at));
  }
}

// ---- what must hold ------------------------------------------------------------------------------------

static bool is_valid(const struct model *m, struct err *err) {
  *err = (struct err){0};
  return check_operators(m, NULL, err) == 0;
}

static void copy_range(FILE *from, uint64_t at, uint64_t n, FILE *to) {
  demand(fseek(from, (long)at, SEEK_SET) == 0);
  for (uint64_t i = 0; i < n; i++) {
    const int byte = getc(from);
    demand(byte != EOF && putc(byte, to) != EOF);
  }
}

// The .onnx that a plan describes, with zeros for what recipes make.
static void write_planned(const struct plan *p) {
  const struct plan_output *o = &p->outputs[p->n_outputs - 1];
  FILE *from = fopen(path, "rb"), *to = tmpfile();
  char *all = NULL;
  demand(from && to);
  for (uint32_t i = o->first_segment; i < o->first_segment + o->n_segments; i++) {
    const struct segment *s = &p->segments[i];
    demand(s->off == (uint64_t)ftell(to));
    if (s->kind == SEGMENT_LITERAL)
      demand(fwrite(p->literals + s->at, 1, s->len, to) == s->len);
    else if (s->kind == SEGMENT_EXTENT && s->ref == 0)
      copy_range(from, s->at, s->len, to);
    else
      for (uint64_t n = 0; n < s->len; n++)
        demand(putc(0, to) != EOF);
  }
  fclose(from);
  demand((all = malloc(o->size + 1)) != NULL);
  rewind(to);
  demand(fread(all, 1, o->size, to) == o->size);
  fclose(to);
  write_file(all, o->size);
  free(all);
}

static void load_again(struct copy *c) {
  struct plan p = {0};
  struct err err = {0};
  const struct plan_layout layout = {.onnx_name = "out.onnx", .inline_below = 1024};
  if (plan_build(&p, &c->m, &c->r, &layout, &err) == 0 &&
      p.outputs[p.n_outputs - 1].size < 1 << 22) {
    struct copy out = {0};
    write_planned(&p);
    model_init(&out.m);
    recipes_init(&out.r);
    edits_init(&out.e, &out.m, &out.r);
    demand_of(load_file(&out, &err), "load", &err);
    end_copy(&out);
  }
  plan_free(&p);
}

static void rewrite(struct copy *c, const uint8_t *data, size_t size, struct log *log) {
  struct pipeline p;
  struct err err = {0};
  pipeline_init(&p);
  steps(&p, (uint32_t)size);
  struct pass_run run = {.pipeline = &p, .flaws = c->flaws, .env = {.m = &c->m, .edits = &c->e}};
  const uint32_t nodes = c->m.n_nodes;
  const bool valid = is_valid(&c->m, &err);
  c->e.sink = keep_line;
  c->e.sink_ctx = log;
  if (pass_run(&run, &c->arena, &err)) {
    demand_of(err.kind != ERR_INTERNAL && err.msg[0], "passes", &err);
  } else {
    build_check(&c->m);
    demand(c->m.n_nodes <= nodes * GROWTH + GROWTH);
    demand_of(!valid || is_valid(&c->m, &err), "operators", &err);
    struct copy again;
    demand(begin_copy(&again, data, size));
    replay(&again, span_of(log->at, log->n));
    demand_of(
        strcmp(graph_text_write(&c->e, &c->arena), graph_text_write(&again.e, &again.arena)) == 0,
        "replay", &err);
    end_copy(&again);
    if (is_onnx(data, size)) load_again(c);
  }
  pipeline_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct copy c;
  struct log log = {0};
  if (size > LARGEST) return 0;
  if (begin_copy(&c, data, size)) rewrite(&c, data, size, &log);
  end_copy(&c);
  table_free(log.at, log.cap, 1);
  if (is_onnx(data, size)) unlink(path);
  return 0;
}
