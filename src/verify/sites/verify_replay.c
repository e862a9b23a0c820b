// Who is at fault, if a site of several groups differs: the log is replayed up to a group in the middle, the site is
// verified there, and so on. A dozen replays find one of thousands of groups.
//
//   groups   1  2  3  4  5  6  7  8       a site of 2, 3, 5, 8 differs
//   up to 3  ok                           it is 5 or 8
//   up to 5  differs                      it is 5
//
// An element of a weight that is off is found in the file that was written, which a replay does not have: for a site of several
// groups no name is given then.
#include "verify/sites/verify_replay.h"

#include "execute/replay_log.h"
#include "infer/infer.h"
#include "passes/catalogue/passes.h"
#include "passes/custom_ops/custom_ops.h"
#include "verify/sites/verify_import.h"

// The functions of onnx_passes.ops come in the last groups of a run, for nodes of all of them: without these groups a model on
// the way calls what it does not have.
static int add_functions(struct execution *exec, uint32_t first, struct err *err) {
  struct arena scratch = {0};
  struct pass_env env = {.m = &exec->model,
                         .edits = &exec->edits,
                         .pass = passes_find(NULL, span_str("inject-ops/InjectCustomOps")),
                         .exactness = EXACTNESS_FINITE,
                         .scratch = &scratch};
  const int rc = custom_ops_complete(&env, first, err);
  infer_free(env.infer);
  arena_free(&scratch);
  return rc;
}

static int replay(struct verify_replay *x, const struct request *request, const char *model,
                  const char *log, uint32_t groups, bool partial, struct user_rules *own,
                  struct err *err) {
  struct replay_log lines;
  *x = (struct verify_replay){.opened = true, .request = *request};
  x->request.dry_run = true; // nothing is kept of what stages answer
  x->request.watch = NULL;
  execution_begin_reading(&x->exec, &x->request, model);
  model_init(&x->source);
  recipes_init(&x->source_recipes);
  int rc = replay_log_open(&lines, log, err);
  lines.groups = groups;
  if (rc == 0) rc = execution_load(&x->exec, err);
  if (rc == 0) rc = replay_log_check_source(&lines, &x->exec, err);
  if (rc == 0 && own) user_rules_read_log(own, lines.head.options);
  edit_groups_keep(&x->exec.edits);
  x->loaded_nodes = x->exec.model.n_nodes;
  if (rc == 0) rc = replay_log_lines(&lines, &x->exec, partial, err);
  replay_log_close(&lines);
  return rc;
}

int verify_replay_open(struct verify_replay *x, const struct request *request, const char *model,
                       const char *log, uint32_t groups, bool partial, struct user_rules *own,
                       struct err *err) {
  int rc = replay(x, request, model, log, groups, partial, own, err);
  if (rc == 0 && groups) rc = add_functions(&x->exec, x->loaded_nodes, err);
  if (rc == 0) rc = load_model(&x->source, x->exec.sources, NULL, err);
  return rc;
}

int verify_replay_rows(struct verify_replay *x, const struct request *request, const char *model,
                       const char *log, uint32_t groups, struct err *err) {
  return replay(x, request, model, log, groups, true, NULL, err);
}

void verify_replay_close(struct verify_replay *x) {
  recipes_free(&x->source_recipes);
  model_free(&x->source);
  execution_close(&x->exec);
}

static struct verify_edited edited_of(const struct verify_replay *x) {
  return (struct verify_edited){.source = &x->source,
                                .result = &x->exec.model,
                                .source_recipes = &x->source_recipes,
                                .recipes = &x->exec.recipes,
                                .sources = x->exec.sources,
                                .groups = x->exec.edits.groups};
}

int verify_logged(struct verify *v, const struct verify_log *l, struct err *err) {
  struct verify_written written = {.sources = NULL};
  struct user_rules own = {.n_texts = 0};
  struct verify_replay x;
  int rc = verify_replay_open(&x, l->request, l->source, l->log, 0, l->partial, &own, err);
  if (own.passes.list) v->options.own = &own.passes;
  if (rc == 0 && l->out)
    rc = verify_written_open(&written, l->out, l->request->allow_links, &x.exec.model, err);
  if (rc == 0) {
    struct verify_edited e = edited_of(&x);
    e.written = l->out ? &written : NULL;
    e.model = l->source;
    e.log = path_is_stream(l->log) ? NULL : l->log;
    e.request = l->request;
    verify_know_groups(v, x.exec.edits.groups, x.exec.edits.group);
    if (e.log) verify_import_look(v, &x.source);
    const struct verify_import_from from = {&x.exec.model, e.groups, l->request,
                                            l->source,     e.log,    true};
    rc = verify_import_open(v, &from, err);
    if (rc == 0) {
      e = verify_import_edited(v, e);
      rc = verify_sites(v, &e, err);
    }
    if (rc == 0 && l->out) rc = verify_rest(v, &x, &written, err);
  }
  if (l->out) verify_written_close(&written);
  verify_replay_close(&x);
  v->options.own = NULL;
  user_rules_done(&own);
  return rc;
}

// ---- who is at fault ---------------------------------------------------------------------------

enum answer { NO, YES, NOBODY_KNOWS };

// Does a site that has edits of these groups differ after the first `upto` groups of the log?
static enum answer differs(struct verify *v, const struct verify_edited *e, const uint32_t *groups,
                           uint32_t n, uint32_t upto) {
  struct verify_replay x;
  struct verified found = {.n_rows = 0};
  struct err ignored = {0};
  enum answer answer = NOBODY_KNOWS;
  // Without a word: this may be one of several threads.
  const struct observer *asked = e->request->observer;
  struct observer silent = {.stop = asked ? asked->stop : NULL, .ctx = asked ? asked->ctx : NULL};
  struct request request = *e->request;
  request.observer = &silent;
  int rc = verify_replay_open(&x, &request, e->model, e->log, upto, true, NULL, &ignored);
  if (rc == 0) {
    const struct verified kept = v->found;
    struct verify_edited part = edited_of(&x);
    const struct edit_groups after = edit_groups_after(part.groups, e->groups->first);
    if (e->before) {
      part.source = e->source;
      part.before = e->before;
      part.groups = &after;
    }
    v->found = (struct verified){.scope = kept.scope, .drawn.sizes = kept.drawn.sizes};
    rc = verify_sites_of(v, &part, groups, n, &ignored);
    found = v->found;
    v->found = kept;
  }
  if (rc == 0 && found.n_not == 0) answer = found.n_failed > 0 ? YES : NO;
  TABLE_FREE(&found, rows);
  arena_free(&found.arena);
  verify_replay_close(&x);
  return answer;
}

const char *verify_fault(struct verify *v, const struct verify_edited *e, const uint32_t *groups,
                         uint32_t n, struct arena *a) {
  const struct edit_groups *g = e->groups;
  uint32_t low = 0, high = n - 1; // after groups[high] it differs
  if (n == 0 || (n > 1 && !e->log)) return NULL;
  while (low < high) {
    const uint32_t mid = low + (high - low) / 2;
    const enum answer is = differs(v, e, groups, n, groups[mid]);
    if (is == NOBODY_KNOWS) return NULL;
    *(is == YES ? &high : &low) = is == YES ? mid : mid + 1;
  }
  // The last of several groups was not replayed yet: does it differ after that one?
  if (n > 1 && low == n - 1 && differs(v, e, groups, n, groups[low]) != YES) return NULL;
  return arena_printf(a, "group %u (%s)", groups[low],
                      quote_str(g->rows[groups[low] - 1 - g->first].pass).s);
}
