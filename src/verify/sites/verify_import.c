// Where a source begins to run. Functions for what an import writes come in the last groups of a run (custom_ops.h): the file has
// them already, the rows have not, so that numbers of nodes are those of the run.
#include "verify/sites/verify_import.h"

#include "passes/custom_ops/custom_ops.h"
#include "pipeline/pass_run.h"
#include "stream/load/load.h"

#include <string.h>

void verify_import_look(struct verify *v, const struct model *source) {
  const uint32_t node = custom_ops_not_runnable(source);
  v->lacking = NULL;
  if (node == NO_ID) return;
  const struct model_node *n = &source->nodes[node];
  v->lacking = arena_printf(&v->arena, "%s of %s", quote(model_name(source, n->op_type)).s,
                            quote(model_name(source, n->domain)).s);
}

// ---- which groups -------------------------------------------------------------------------------

static bool does_nothing(const struct edit_group_row *row) {
  return !row->n_removed && !row->n_made && !row->n_changed && !row->n_forwards && !row->n_replaced;
}

// The groups of a leading import, with those before and between them that change no node; 0: there is none.
static uint32_t import_of(const struct edit_groups *g, const char **pass) {
  uint32_t groups = 0;
  for (uint32_t i = 0; i < g->n_rows; i++) {
    if (custom_ops_makes_runnable(g->rows[i].pass)) {
      groups = g->first + i + 1;
      if (!*pass) *pass = g->rows[i].pass;
    } else if (!does_nothing(&g->rows[i])) {
      break;
    }
  }
  return groups;
}

// Nodes of functions that came or went do nothing by themselves.
static bool any_computes(const struct model *m, const uint32_t *nodes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const struct model_graph *g = &m->graphs[model_root_graph(m, m->nodes[nodes[i]].graph)];
    if (g->kind != GRAPH_FUNCTION ||
        !(m->functions[g->owner].flags & (FUNCTION_NEW | FUNCTION_DEAD)))
      return true;
  }
  return false;
}

static bool changes(const struct model *m, const struct edit_groups *g) {
  for (uint32_t i = 0; i < g->n_rows; i++) {
    const struct edit_group_row *row = &g->rows[i];
    if (row->n_forwards || row->n_replaced ||
        any_computes(m, g->removed + row->removed, row->n_removed) ||
        any_computes(m, g->made + row->made, row->n_made) ||
        any_computes(m, g->changed + row->changed, row->n_changed))
      return true;
  }
  return false;
}

// ---- the model ----------------------------------------------------------------------------------

static void tell_against(struct verify *v, const char *pass) {
  v->found.against = arena_string(&v->found.arena, span_of(pass, strcspn(pass, "/")));
  v->found.lacking = arena_string(&v->found.arena, span_str(v->lacking));
}

static int write_model(struct verify *v, const struct verify_import_from *from, struct err *err) {
  const struct checkpoint_source source = {from->request,     from->model, from->log,
                                           v->options.memory, NULL,        NULL};
  if (!from->log)
    return err_set(err, ERR_IO, "the edits could not be stored in '%s'", quote_path(v->scratch).s);
  return checkpoint_model_write(&source, v->import->groups, v->scratch, v->scratch_at,
                                "import.onnx", &v->import->model, &v->arena, err);
}

static int open_rows(struct verify *v, const struct verify_import_from *from, struct err *err) {
  struct verify_import *x = v->import;
  if (verify_replay_rows(&x->at, from->request, from->model, from->log, x->groups, err)) return -1;
  return verify_written_open(&x->written, x->model.path, false, &x->at.exec.model, err);
}

static void close_import(struct verify *v) {
  if (!v->import) return;
  verify_written_close(&v->import->written);
  if (v->import->at.opened) verify_replay_close(&v->import->at);
  checkpoint_model_remove(v->scratch_at, &v->import->model);
  v->import = NULL;
}

int verify_import_open(struct verify *v, const struct verify_import_from *from, struct err *err) {
  const char *pass = NULL;
  const uint32_t groups = v->lacking && from->groups ? import_of(from->groups, &pass) : 0;
  if (groups == 0) return 0;
  v->import = arena_zalloc(&v->arena, sizeof *v->import);
  v->import_close = close_import;
  *v->import =
      (struct verify_import){.groups = groups, .rest = edit_groups_after(from->groups, groups)};
  tell_against(v, pass);
  if (!changes(from->result, &v->import->rest)) {
    err_fill(err, ERR_FAIL,
             "nothing could be verified: no runtime has %s, and only %s changes what is computed",
             v->lacking, v->found.against);
    return err_hint(err,
                    "leave out --verify to write the output; --verify compares only the changes "
                    "of later passes with it");
  }
  if (write_model(v, from, err)) return -1;
  return from->sites ? open_rows(v, from, err) : 0;
}

// All that passes make of a source so that it runs, and nothing else.
static int import(struct edits *e, struct arena *a, struct err *err) {
  static const char *const passes[] = {"import-qonnx/ImportQONNX", "inject-ops/InjectCustomOps"};
  struct pipeline pipeline;
  pipeline_init(&pipeline);
  struct pass_run run = {.pipeline = &pipeline, .env = {.m = e->m, .edits = e}};
  int rc = 0;
  for (size_t i = 0; i < sizeof passes / sizeof *passes && rc == 0; i++)
    rc = pipeline_add_text(&pipeline, passes[i], err);
  if (rc == 0) rc = pass_run(&run, a, err);
  pipeline_free(&pipeline);
  return rc;
}

int verify_import_source(struct verify *v, struct sources *sources, struct err *err) {
  struct model m;
  struct recipes recipes;
  struct edits edits;
  struct arena a = {0};
  model_init(&m);
  recipes_init(&recipes);
  edits_init(&edits, &m, &recipes);
  edit_groups_keep(&edits);
  v->import = arena_zalloc(&v->arena, sizeof *v->import);
  v->import_close = close_import;
  int rc = load_model(&m, sources, NULL, err);
  if (rc == 0) rc = import(&edits, &a, err);
  const struct checkpoint_edited edited = {&edits, sources, v->options.memory};
  if (rc == 0)
    rc = checkpoint_model_write_edited(&edited, v->scratch, v->scratch_at, "import.onnx",
                                       &v->import->model, &v->arena, err);
  const char *pass = edits.groups->n_rows ? edits.groups->rows[0].pass : "import-qonnx";
  tell_against(v, pass);
  edits_free(&edits);
  recipes_free(&recipes);
  model_free(&m);
  arena_free(&a);
  return rc;
}

struct verify_edited verify_import_edited(const struct verify *v, struct verify_edited e) {
  if (!v->import) return e;
  e.source = &v->import->at.exec.model;
  e.before = &v->import->written;
  e.groups = &v->import->rest;
  return e;
}
