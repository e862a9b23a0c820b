// Stages: what must look at weights before edits can be decided. A pass asks one by name, and is
// answered with an artifact.
//
//   pass ──question──▶ execution_stage_ask ──▶ artifact: found again, or made by the stage ──▶ answer
//                                        │
//                                        ├──▶ a line in the edit log
//                                        └──▶ the plan's list of artifacts
//
// A stage is a row of the table below. What is the same for all is here: where an artifact lies, how
// a resumed run finds it, what records it, and the replay, which runs the stage again.
//
// With --artifacts what was found is kept in a folder of the user's as well, and 'weir rebuild' takes it from there
// (artifact_cache.h).
//
// An artifact's text is the same on every machine. Its digest therefore says whether the weights are
// those that were looked at: a replay of the log compares it.
#include "execute/execution_stage.h"

#include "base/version_number.h"
#include "passes/questions/findings.h"
#include "passes/questions/likenesses.h"
#include "passes/questions/measured.h"
#include "passes/questions/weighings.h"
#include "stream/measure/measure.h"
#include "stream/measure/measure_equal.h"
#include "stream/measure/measure_facts.h"
#include "stream/measure/measure_weighed.h"
#include "stream/sys/fs.h"

#include <assert.h>

// ---- the stages --------------------------------------------------------------------------------

struct stage_row {
  const char *name;
  const char *doing, *done; // "measuring", "measured"
  // Can it be asked about this recipe? An edit log, which anybody may have written, asks too.
  bool (*can)(const struct recipes *r, uint32_t recipe);
  // *found: for each question what the form writes, in the arena.
  int (*run)(struct execution *exec, const struct pass_question *q, const struct work_options *work,
             struct arena *a, void **found, struct measure_stats *stats, struct err *err);
  const struct answer_form *form; // of the text
  // Of questions that are two recipes each, instead of `can`.
  bool (*can_pair)(const struct recipes *r, uint32_t first, uint32_t second);
};

static int run_measure(struct execution *exec, const struct pass_question *q,
                       const struct work_options *work, struct arena *a, void **found,
                       struct measure_stats *stats, struct err *err) {
  *found = arena_alloc(a, q->n * sizeof(struct figures));
  return measure_run(&exec->recipes, exec->sources, q->of, q->n, work, *found, stats, err);
}

static bool can_compare(const struct recipes *r, uint32_t recipe) {
  (void)r, (void)recipe;
  return true; // any elements can be read
}

static int run_equal(struct execution *exec, const struct pass_question *q,
                     const struct work_options *work, struct arena *a, void **found,
                     struct measure_stats *stats, struct err *err) {
  *found = arena_alloc(a, q->n * sizeof(struct content_hash));
  return measure_equal_run(&exec->recipes, exec->sources, q->of, q->n, work, *found, stats, err);
}

static int run_facts(struct execution *exec, const struct pass_question *q,
                     const struct work_options *work, struct arena *a, void **found,
                     struct measure_stats *stats, struct err *err) {
  const bool multiples = strcmp(q->stage, FINDINGS_STAGE_MULTIPLES) == 0;
  *found = arena_alloc(a, q->n * sizeof(struct tensor_stats));
  return measure_facts_run(&exec->recipes, exec->sources, q->of, q->n, multiples, work, *found,
                           stats, err);
}

static int run_weighed(struct execution *exec, const struct pass_question *q,
                       const struct work_options *work, struct arena *a, void **found,
                       struct measure_stats *stats, struct err *err) {
  const uint32_t n = q->n / 2;
  const struct eval_cache_file file = {execution_unnamed_file, NULL};
  struct measure_weighing *of = arena_alloc(a, (n + (size_t)1) * sizeof *of);
  *found = arena_alloc(a, (n + (size_t)1) * sizeof(struct output_error));
  for (uint32_t i = 0; i < n; i++)
    of[i] = (struct measure_weighing){q->of[2 * i], q->of[2 * i + 1]};
  return measure_weighed_run(&exec->recipes, exec->sources, of, n, work, file, *found, stats, err);
}

static const struct stage_row stages[] = {
    {MEASURED_STAGE, "measuring", "measured", measure_can, run_measure, &measured_form, NULL},
    {MEASURED_STAGE_FIGURES, "measuring", "measured", measure_can, run_measure, &measured_form,
     NULL},
    {LIKENESSES_STAGE, "comparing", "compared", can_compare, run_equal, &likenesses_form, NULL},
    {FINDINGS_STAGE, "reading", "read", measure_facts_can, run_facts, &findings_forms[false], NULL},
    {FINDINGS_STAGE_MULTIPLES, "reading", "read", measure_facts_can, run_facts,
     &findings_forms[true], NULL},
    {WEIGHINGS_STAGE, "weighing", "weighed", NULL, run_weighed, &weighings_form,
     measure_weighed_can},
};

static uint32_t n_answers(const struct stage_row *row, const struct pass_question *q) {
  return row->form->pairs ? q->n / 2 : q->n;
}

// Is this text an answer to the question?
static bool reads(const struct stage_row *row, struct span text, const struct pass_question *q) {
  return answers_read(row->form, text, n_answers(row, q), NULL);
}

static const struct stage_row *stage_named(const char *name) {
  for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
    if (strcmp(stages[i].name, name) == 0) return &stages[i];
  return NULL;
}

// Appends the lines behind the artifact's head.
static int run_stage(struct execution *exec, const struct pass_question *q, struct json_out *text,
                     uint64_t *source_bytes_read, struct err *err) {
  const struct stage_row *row = stage_named(q->stage);
  const struct work_options work = execution_work(exec);
  struct measure_stats stats = {0};
  struct arena scratch = {0};
  void *found;
  observer_begin(exec->request->observer, row->doing);
  const int rc = row->run(exec, q, &work, &scratch, &found, &stats, err);
  if (rc == 0) answers_write(row->form, text, &exec->edits, q->of, n_answers(row, q), found);
  arena_free(&scratch);
  observer_end(exec->request->observer);
  *source_bytes_read = stats.source_bytes_read;
  return rc;
}

int execution_stage_answer(struct execution *exec, const struct pass_question *q,
                           struct pass_answer *out, uint64_t *source_bytes_read, struct err *err) {
  struct json_out text = {0};
  if (execution_choose_io(exec, err)) return -1;
  json_newline(&text); // instead of the head
  const int rc = run_stage(exec, q, &text, source_bytes_read, err);
  out->text = span_str(json_take(&text, &exec->arena));
  return rc;
}

// ---- a question --------------------------------------------------------------------------------

// The stage, run or found again, in the execution's list; NULL if it failed.
static struct execution_stage *answer(struct execution *exec, const struct stage_row *row,
                                      const struct pass_question *q, struct err *err) {
  const bool keeps = !exec->request->dry_run;
  struct json_out question = {0};
  assert(row); // passes ask stages that there are
  json_array(&question);
  for (uint32_t i = 0; i < q->n; i++)
    edit_artifact_recipe(&exec->edits, &question, q->of[i]);
  json_end_array(&question);
  const struct artifact_request request = {.dest_folder = exec->out.folder,
                                           .onnx_name = exec->out.onnx_name,
                                           .resume_command = exec->request->resume_command,
                                           .version = version_number,
                                           .resume = keeps && exec->request->resume,
                                           .fresh = keeps && exec->request->fresh,
                                           .sources = exec->sources,
                                           .meta_sha256 = exec->model.meta_sha256,
                                           .stage = row->name,
                                           .options = span_str(json_take(&question, &exec->arena))};
  uint8_t id[DIGEST_BYTES];
  artifact_request_id(&request, id);
  for (struct execution_stage *s = exec->stages; s; s = s->next)
    if (memcmp(s->artifact.id, id, sizeof id) == 0) return s; // asked again
  struct execution_stage *stage = arena_zalloc(&exec->arena, sizeof *stage);
  stage->found.name = row->name;
  stage->found.n = q->n;
  if (execution_choose_io(exec, err)) return NULL;
  if (!keeps || exec->mode == IO_NULL)
    artifact_open_null(&stage->artifact, &request);
  else if (artifact_open(&stage->artifact, &request, err))
    return NULL;
  struct span taken = {0};
  int rc = 0;
  if (!stage->artifact.text.at) rc = artifact_cache_take(&exec->kept, &request, id, &taken, err);
  if (rc == 0 && taken.at && reads(row, taken, q)) {
    stage->found.taken = true;
    rc = artifact_put(&stage->artifact, taken, err);
  } else if (rc == 0 && !stage->artifact.text.at) {
    struct json_out text = {0};
    artifact_begin(&text, &request, stage->artifact.id);
    rc = run_stage(exec, q, &text, &stage->found.source_bytes_read, err);
    if (rc == 0) rc = artifact_put(&stage->artifact, span_of(text.text, text.n), err);
    json_done(&text);
  } else if (rc == 0 && reads(row, stage->artifact.text, q)) {
    stage->found.resumed = true;
    observer_notice(exec->request->observer, "resumed: reusing what an interrupted run had %s",
                    row->done);
  } else if (rc == 0) {
    rc = err_set(
        err, ERR_INPUT,
        "a file that an interrupted run left is damaged: it does not have %u results of '%s'", q->n,
        row->name);
    err_fill_hint(err, "--fresh reads the weights again");
  }
  if (taken.at) fs_free(taken);
  if (rc) {
    artifact_end(&stage->artifact, false);
    return NULL;
  }
  struct execution_stage **end = &exec->stages;
  while (*end)
    end = &(*end)->next;
  *end = stage;
  memcpy(stage->found.sha256, stage->artifact.sha256, sizeof stage->found.sha256);
  return stage;
}

int execution_stage_ask(void *ctx, const struct pass_question *q, struct pass_answer *out,
                        struct err *err) {
  struct execution *exec = ctx;
  struct execution_stage *stage = answer(exec, stage_named(q->stage), q, err);
  if (!stage) return -1;
  stage->asked = true;
  struct edit_artifact line = {.stage = stage->found.name, .of = q->of, .n = q->n};
  memcpy(line.sha256, stage->found.sha256, sizeof line.sha256);
  edit_artifact(&exec->edits, &line);
  out->text = stage->artifact.text; // held by the artifact until the execution ends
  memcpy(out->sha256, stage->found.sha256, sizeof out->sha256);
  return 0;
}

const char *execution_stage_artifacts(struct execution *exec) {
  struct json_out j = {0};
  const struct execution_stage *first = exec->stages;
  while (first && !first->asked)
    first = first->next;
  if (!first) return NULL;
  json_array(&j);
  for (const struct execution_stage *s = first; s; s = s->next) {
    if (!s->asked) continue;
    json_object(&j);
    json_put_text(&j, "stage", s->found.name);
    json_put_hex(&j, "sha256", s->found.sha256, DIGEST_BYTES);
    json_end_object(&j);
  }
  json_end_array(&j);
  return json_take(&j, &exec->arena);
}

// ---- replay ------------------------------------------------------------------------------------

int execution_stage_replay(void *ctx, const struct edit_artifact *a, struct err *err) {
  struct execution *exec = ctx;
  const struct stage_row *row = stage_named(a->stage);
  const struct pass_question question = {.stage = a->stage, .of = a->of, .n = a->n};
  if (!row)
    return err_set(err, ERR_MODEL, "'%s' is not a stage that this version of weir knows",
                   quote_str(a->stage).s);
  if (row->can_pair && a->n % 2)
    return err_set(err, ERR_MODEL, "'of' has %u recipes, which cannot be paired", a->n);
  for (uint32_t i = 0; i < a->n; i++)
    if (row->can ? !row->can(&exec->recipes, a->of[i])
                 : !row->can_pair(&exec->recipes, a->of[i & ~1u], a->of[i | 1]))
      return err_set(err, ERR_MODEL, "recipe %u of 'of' cannot be %s", i, row->done);
  struct execution_stage *stage = answer(exec, row, &question, err);
  if (!stage) return -1;
  stage->asked = true;
  if (memcmp(stage->found.sha256, a->sha256, DIGEST_BYTES) == 0) return 0;
  bool is_of_old = false; // version 0.1.0 added up these figures in another way
  for (uint32_t i = 0; i < a->n && strcmp(a->stage, MEASURED_STAGE) == 0; i++)
    is_of_old = is_of_old || !measure_is_by_column(&exec->recipes, a->of[i]);
  if (is_of_old) {
    observer_notice(exec->request->observer,
                    "the log was written by version 0.1.0, whose figures cannot be compared: weir "
                    "cannot tell whether these are the weights that it measured");
    return 0;
  }
  err_set(err, ERR_INPUT, "the weights are not those that were %s: %s them again gives %s, not %s",
          row->done, row->doing, digest_hex(stage->found.sha256).s, digest_hex(a->sha256).s);
  return err_hint(err, "the edits in this log depend on the weights they were made from: make a "
                       "new log from this source");
}

// ---- their end ---------------------------------------------------------------------------------

bool execution_stage_took_over(const struct execution *exec) {
  for (const struct execution_stage *s = exec->stages; s; s = s->next)
    if (s->found.resumed) return true;
  return false;
}

int execution_stage_move(struct execution *exec, const struct staging *st, struct err *err) {
  const char *folder = exec->request->records.artifacts;
  for (struct execution_stage *s = exec->stages; s; s = s->next)
    if (artifact_move(&s->artifact, st, err)) return -1;
  for (struct execution_stage *s = exec->stages; s && folder; s = s->next)
    if (s->asked && artifact_cache_put(folder, &s->artifact, err)) return -1;
  execution_stage_end(exec, false);
  return 0;
}

void execution_stage_forget(struct execution *exec) {
  for (struct execution_stage *s = exec->stages; s; s = s->next)
    s->asked = false;
}

void execution_stage_drop(struct execution *exec) {
  for (struct execution_stage **at = &exec->stages; *at;) {
    struct execution_stage *s = *at;
    if (s->asked) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    artifact_end(&s->artifact, false);
  }
}

void execution_stage_end(struct execution *exec, bool keep) {
  for (struct execution_stage *s = exec->stages; s; s = s->next)
    artifact_end(&s->artifact, keep);
}
