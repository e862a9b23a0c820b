// What all targets share that run passes: two copies of a model, of which one is rewritten and the
// other replays what was done to it.
//
//   bytes ──▶ model ──▶ passes ──▶ edits ──▶ written ──▶ loads again
//     └─────▶ model ◀── replay ◀────┘ the same text
#include "fuzzed.h"

#include "check/check.h"
#include "edit/edit_log.h"
#include "graph_text.h"
#include "infer/infer.h"
#include "made_model.h"
#include "made_ranges.h"
#include "pipeline/pass_run.h"
#include "plan/plan.h"
#include "stream/load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

// ---- models -------------------------------------------------------------------------------------

static const struct fuzzed *target;
static char path[128];

static void write_file(const void *data, size_t size) {
  const char *base = getenv("TMPDIR");
  snprintf(path, sizeof path, "%.40s/weir-fuzz-%s-%ld.onnx", base ? base : "/tmp", target->name,
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
  struct check_found found = {0};
  good = good && check_structure(&c->m, NULL, &found, &err) == 0;
  c->flaws = found.warnings;
  return good;
}

static void end_copy(struct copy *c) {
  edits_free(&c->e);
  recipes_free(&c->r);
  model_free(&c->m);
  arena_free(&c->arena);
  if (c->sources) sources_close(c->sources);
}

// ---- what is done to them -----------------------------------------------------------------------

int fuzzed_add(struct pipeline *p, const char *const *texts, uint32_t n, uint32_t how,
               struct err *err) {
  return pipeline_add_text(p, texts[how % n], err);
}

static int give_ranges(void *ctx, const char *name, const struct ranges **out, struct err *err) {
  (void)name, (void)err;
  *out = ctx;
  return 0;
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

// ---- what must hold -----------------------------------------------------------------------------

static bool is_valid(const struct model *m, struct err *err) {
  *err = (struct err){0};
  return check_operators(m, NULL, err) == 0;
}

// The .onnx that a plan describes, with zeros for what recipes make.
static void write_planned(const struct plan *p, struct span source) {
  const struct plan_output *o = &p->outputs[p->n_outputs - 1];
  uint8_t *all = calloc(1, o->size + 1);
  demand(all != NULL);
  for (uint32_t i = o->first_segment; i < o->first_segment + o->n_segments; i++) {
    const struct segment *s = &p->segments[i];
    demand(range_fits(s->off, s->len, o->size));
    if (s->kind == SEGMENT_LITERAL) memcpy(all + s->off, p->literals + s->at, s->len);
    if (s->kind != SEGMENT_EXTENT || s->ref != 0) continue;
    demand(range_fits(s->at, s->len, source.n));
    memcpy(all + s->off, source.at + s->at, s->len);
  }
  write_file(all, o->size);
  free(all);
}

static void load_again(struct copy *c, struct span source) {
  struct plan p = {0};
  struct err err = {0};
  const struct plan_layout layout = {.onnx_name = "out.onnx", .inline_below = 1024};
  if (plan_build(&p, &c->m, &c->r, &layout, &err) == 0 &&
      p.outputs[p.n_outputs - 1].size < 1 << 22) {
    struct copy out = {0};
    write_planned(&p, source);
    model_init(&out.m);
    recipes_init(&out.r);
    edits_init(&out.e, &out.m, &out.r);
    demand_of(load_file(&out, &err), "load", &err);
    end_copy(&out);
  }
  plan_free(&p);
}

static void count_faults(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  uint32_t *n = ctx;
  (void)sentence;
  *n += node != NO_ID || value == NO_ID;
}

static void count_mistyped(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  uint32_t *n = ctx;
  (void)node, (void)value, (void)sentence;
  *n += 1;
}

// Does a declared type contradict what nodes make or initializers hold, or can a node not take its inputs?
static bool contradicts(const struct model *m) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < m->n_values; v++) {
    if (m->values[v].kind != VALUE_INITIALIZER) continue;
    MODEL_EACH_INFO (m, v, i)
      n += m->infos[i].dtype != m->tensors[m->values[v].def].dtype;
  }
  const struct infer_told told = {count_faults, &n, count_mistyped};
  struct infer *in = infer_new(m, NULL);
  infer_all(in, &told);
  infer_free(in);
  return n > 0;
}

// Would a check find faults in the model as it came if it knew more types? Passes write types that the
// model left out.
static bool has_faults_unsaid(const uint8_t *data, size_t size) {
  struct pipeline p;
  struct copy c;
  struct err err = {0};
  bool faults = true;
  pipeline_init(&p);
  if (begin_copy(&c, data, size) && pipeline_add_text(&p, "infer", &err) == 0) {
    struct pass_run run = {.pipeline = &p, .flaws = c.flaws, .env = {.m = &c.m, .edits = &c.e}};
    faults = contradicts(&c.m) || pass_run(&run, &c.arena, &err) != 0 || !is_valid(&c.m, &err);
  }
  end_copy(&c);
  pipeline_free(&p);
  return faults;
}

static void rewrite(struct copy *c, const uint8_t *data, size_t size, struct log *log) {
  struct pipeline p;
  struct err err = {0};
  pipeline_init(&p);
  demand_of(target->steps(&p, (uint32_t)size, &err) == 0, "steps", &err);
  struct ranges ranges;
  made_ranges(&ranges, &c->m);
  struct pass_run run = {
      .pipeline = &p,
      .flaws = c->flaws,
      .env = {.m = &c->m, .edits = &c->e, .files.ranges = give_ranges, .files.ctx = &ranges}};
  const uint32_t nodes = c->m.n_nodes;
  const bool valid = is_valid(&c->m, &err);
  c->e.sink = keep_line;
  c->e.sink_ctx = log;
  if (pass_run(&run, &c->arena, &err)) {
    demand_of(err.kind != ERR_INTERNAL && err.msg[0], "passes", &err);
  } else {
    build_check(&c->m);
    demand(c->m.n_nodes <= nodes * GROWTH + GROWTH);
    demand_of(!valid || is_valid(&c->m, &err) || has_faults_unsaid(data, size), "operators", &err);
    struct copy again;
    demand(begin_copy(&again, data, size));
    replay(&again, span_of(log->at, log->n));
    demand_of(
        strcmp(graph_text_write(&c->e, &c->arena), graph_text_write(&again.e, &again.arena)) == 0,
        "replay", &err);
    end_copy(&again);
    if (is_onnx(data, size)) load_again(c, span_of(data, size));
  }
  ranges_free(&ranges);
  pipeline_free(&p);
}

int fuzzed_run(const struct fuzzed *f, const uint8_t *data, size_t size) {
  struct copy c;
  target = f;
  struct log log = {0};
  if (size > LARGEST) return 0;
  if (begin_copy(&c, data, size)) rewrite(&c, data, size, &log);
  end_copy(&c);
  table_free(log.at, log.cap, 1);
  if (is_onnx(data, size)) unlink(path);
  return 0;
}
