// What tests of passes over weights share. Outcomes are texts, so that a test shows what comes out.
#include "pass_bench.h"

#include <stdio.h>

enum { TEXT = 8192 };

static void note(void *ctx, const struct pass_site *site) {
  struct pass_bench *t = ctx;
  const struct span name = site->tensor.n ? site->tensor : site->node_name;
  const size_t n = strlen(t->sites);
  snprintf(t->sites + n, sizeof t->sites - n, "%.*s:%s:%s\n", (int)name.n, (const char *)name.at,
           site->status, site->reason);
}

int pass_bench_setup(void **state) {
  static struct pass_bench t;
  t = (struct pass_bench){0};
  build_begin(&t.b, &t.m);
  recipes_init(&t.r);
  build_file(&t.b, "m.onnx", 1000);
  build_file(&t.b, "m.data", UINT64_C(1) << 40);
  *state = &t;
  return 0;
}

int pass_bench_teardown(void **state) {
  struct pass_bench *t = *state;
  build_check(&t->m);
  edits_free(&t->e);
  recipes_free(&t->r);
  model_free(&t->m);
  arena_free(&t->arena);
  arena_free(&t->scratch);
  return 0;
}

void pass_bench_ready(struct pass_bench *t) {
  build_end(&t->b);
  edits_init(&t->e, &t->m, &t->r);
  t->env = (struct pass_env){
      .m = &t->m, .edits = &t->e, .scratch = &t->scratch, .site = note, .site_ctx = t};
}

uint32_t pass_bench_large(struct pass_bench *t, const char *name, enum dtype dtype,
                          const char *dims) {
  return build_extent(&t->b, name, dtype, dims, 1, (uint64_t)t->m.n_tensors << 30);
}

static void put(char *text, const char *words) {
  const size_t n = strlen(text);
  snprintf(text + n, TEXT - n, "%s", words);
}

const char *pass_bench_nodes(struct pass_bench *t, uint32_t graph) {
  return build_nodes(&t->m, graph, true, &t->arena);
}

const char *pass_bench_tensors(struct pass_bench *t, uint32_t graph) {
  const struct model *m = &t->m;
  char *text = arena_zalloc(&t->arena, TEXT);
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *x = &m->tensors[i];
    if (x->flags & TENSOR_DEAD || x->home != HOME_INITIALIZER || x->graph != graph) continue;
    put(text, model_name_str(m, x->name));
    put(text, " ");
    put(text, dtype_name((enum dtype)x->dtype));
    put(text, quote_dims(model_dims(m, x), x->rank).s);
    put(text, "\n");
  }
  return text;
}

const char *pass_bench_outputs(struct pass_bench *t, uint32_t graph) {
  const struct model *m = &t->m;
  char *text = arena_zalloc(&t->arena, TEXT);
  for (uint32_t i = 0; i < m->graphs[graph].n_outputs; i++) {
    const uint32_t value = m->graph_io[m->graphs[graph].outputs + i];
    enum dtype dtype = DTYPE_UNDEFINED;
    for (uint32_t k = m->values[value].info; k != NO_ID; k = m->infos[k].next)
      if (!(m->infos[k].flags & INFO_DEAD)) dtype = (enum dtype)m->infos[k].dtype;
    put(text, model_name_str(m, m->values[value].name));
    put(text, " ");
    put(text, dtype_name(dtype));
    put(text, "\n");
  }
  return text;
}
