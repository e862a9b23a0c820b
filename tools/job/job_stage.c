// Stages: what must look at weights before edits can be decided. A pass asks one by name, and is
// answered with an artifact.
//
//   pass ──question──▶ job_stage_ask ──▶ artifact: found again, or made by the stage ──▶ answer
//                                        │
//                                        ├──▶ a line in the edit log
//                                        └──▶ the plan's list of artifacts
//
// A stage is a row of the table below. What is the same for all is here: where an artifact lies, how
// a resumed run finds it, what records it, and the replay, which runs the stage again.
//
// With --artifacts what was found is kept in a folder of the user's as well, and 'weir rebuild' takes it from there
// (kept_artifacts.h).
//
// An artifact's text is the same on every machine. Its digest therefore says whether the weights are
// those that were looked at: a replay of the log compares it.
#include "job.h"
#include "job_stage.h"

#include "findings.h"
#include "fs.h"
#include "likenesses.h"
#include "measure.h"
#include "measure_equal.h"
#include "measure_facts.h"
#include "measure_weighed.h"
#include "measured.h"
#include "version_number.h"
#include "weighings.h"

#include <assert.h>

// ---- the stages --------------------------------------------------------------------------------

struct stage_row {
  const char *name;
  const char *doing, *done; // "measuring", "measured"
  // Can it be asked about this recipe? An edit log, which anybody may have written, asks too.
  bool (*can)(const struct recipes *r, uint32_t recipe);
  // Appends the lines behind the artifact's head.
  int (*run)(struct job *job, const struct pass_question *q, const struct work_options *work,
             struct json_out *text, struct measure_stats *stats, struct err *err);
  // Is this text an answer to the question?
  bool (*reads)(struct span text, const struct pass_question *q);
  // Of questions that are two recipes each, instead of `can`.
  bool (*can_pair)(const struct recipes *r, uint32_t first, uint32_t second);
};

static int run_measure(struct job *job, const struct pass_question *q,
                       const struct work_options *work, struct json_out *text,
                       struct measure_stats *stats, struct err *err) {
  struct arena scratch = {0};
  struct figures *found = arena_alloc(&scratch, q->n * sizeof *found);
  const int rc = measure_run(&job->recipes, job->sources, q->of, q->n, work, found, stats, err);
  if (rc == 0) measured_write(text, &job->edits, q->of, q->n, found);
  arena_free(&scratch);
  return rc;
}

static bool reads_measure(struct span text, const struct pass_question *q) {
  return measured_read(text, q->n, NULL);
}

static bool can_compare(const struct recipes *r, uint32_t recipe) {
  (void)r, (void)recipe;
  return true; // any elements can be read
}

static int run_equal(struct job *job, const struct pass_question *q,
                     const struct work_options *work, struct json_out *text,
                     struct measure_stats *stats, struct err *err) {
  struct arena scratch = {0};
  struct likeness *found = arena_alloc(&scratch, q->n * sizeof *found);
  const int rc =
      measure_equal_run(&job->recipes, job->sources, q->of, q->n, work, found, stats, err);
  if (rc == 0) likenesses_write(text, &job->edits, q->of, q->n, found);
  arena_free(&scratch);
  return rc;
}

static bool reads_equal(struct span text, const struct pass_question *q) {
  return likenesses_read(text, q->n, NULL);
}

static int run_looks(struct job *job, const struct pass_question *q, bool multiples,
                     const struct work_options *work, struct json_out *text,
                     struct measure_stats *stats, struct err *err) {
  struct arena scratch = {0};
  struct facts *found = arena_alloc(&scratch, q->n * sizeof *found);
  const int rc = measure_facts_run(&job->recipes, job->sources, q->of, q->n, multiples, work, found,
                                   stats, err);
  if (rc == 0) findings_write(text, &job->edits, q->of, q->n, multiples, found);
  arena_free(&scratch);
  return rc;
}

static int run_facts(struct job *job, const struct pass_question *q,
                     const struct work_options *work, struct json_out *text,
                     struct measure_stats *stats, struct err *err) {
  return run_looks(job, q, false, work, text, stats, err);
}

static int run_multiples(struct job *job, const struct pass_question *q,
                         const struct work_options *work, struct json_out *text,
                         struct measure_stats *stats, struct err *err) {
  return run_looks(job, q, true, work, text, stats, err);
}

static bool reads_facts(struct span text, const struct pass_question *q) {
  return findings_read(text, q->n, false, NULL);
}

static bool reads_multiples(struct span text, const struct pass_question *q) {
  return findings_read(text, q->n, true, NULL);
}

static int run_weighed(struct job *job, const struct pass_question *q,
                       const struct work_options *work, struct json_out *text,
                       struct measure_stats *stats, struct err *err) {
  struct arena scratch = {0};
  const uint32_t n = q->n / 2;
  const struct eval_cache_file file = {job_unnamed_file, NULL};
  struct measure_weighing *of = arena_alloc(&scratch, (n + (size_t)1) * sizeof *of);
  struct weighed *found = arena_alloc(&scratch, (n + (size_t)1) * sizeof *found);
  for (uint32_t i = 0; i < n; i++)
    of[i] = (struct measure_weighing){q->of[2 * i], q->of[2 * i + 1]};
  const int rc =
      measure_weighed_run(&job->recipes, job->sources, of, n, work, file, found, stats, err);
  if (rc == 0) weighings_write(text, &job->edits, q->of, n, found);
  arena_free(&scratch);
  return rc;
}

static bool reads_weighed(struct span text, const struct pass_question *q) {
  return weighings_read(text, q->n / 2, NULL);
}

static const struct stage_row stages[] = {
    {MEASURED_STAGE, "measuring", "measured", measure_can, run_measure, reads_measure, NULL},
    {MEASURED_STAGE_FIGURES, "measuring", "measured", measure_can, run_measure, reads_measure,
     NULL},
    {LIKENESSES_STAGE, "comparing", "compared", can_compare, run_equal, reads_equal, NULL},
    {FINDINGS_STAGE, "reading", "read", measure_facts_can, run_facts, reads_facts, NULL},
    {FINDINGS_STAGE_MULTIPLES, "reading", "read", measure_facts_can, run_multiples, reads_multiples,
     NULL},
    {WEIGHINGS_STAGE, "weighing", "weighed", NULL, run_weighed, reads_weighed, measure_weighed_can},
};

static const struct stage_row *stage_named(const char *name) {
  for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
    if (strcmp(stages[i].name, name) == 0) return &stages[i];
  return NULL;
}

int job_stage_run(struct job *job, const struct pass_question *q, struct json_out *text,
                  uint64_t *source_bytes_read, struct err *err) {
  const struct stage_row *row = stage_named(q->stage);
  const struct work_options work = {.jobs = job->request->limits.jobs,
                                    .memory = job->memory,
                                    .mode = job->mode,
                                    .observer = job->request->observer,
                                    .stop = observer_stop(job->request->observer)};
  struct measure_stats stats = {0};
  observer_begin(job->request->observer, row->doing);
  const int rc = row->run(job, q, &work, text, &stats, err);
  observer_end(job->request->observer);
  *source_bytes_read = stats.source_bytes_read;
  return rc;
}

// ---- a question --------------------------------------------------------------------------------

// The stage, run or found again, in the job's list; NULL if it failed.
static struct job_stage *answer(struct job *job, const struct stage_row *row,
                                const struct pass_question *q, struct err *err) {
  const bool keeps = !job->request->dry_run;
  struct json_out question = {0};
  assert(row); // passes ask stages that there are
  json_array(&question);
  for (uint32_t i = 0; i < q->n; i++)
    edit_artifact_recipe(&job->edits, &question, q->of[i]);
  json_end_array(&question);
  const struct artifact_request request = {.dest_folder = job->out.folder,
                                           .onnx_name = job->out.onnx_name,
                                           .resume_command = job->request->resume_command,
                                           .version = version_number,
                                           .resume = keeps && job->request->resume,
                                           .fresh = keeps && job->request->fresh,
                                           .sources = job->sources,
                                           .meta_sha256 = job->model.meta_sha256,
                                           .stage = row->name,
                                           .options = span_str(json_take(&question, &job->arena))};
  uint8_t id[DIGEST_BYTES];
  artifact_request_id(&request, id);
  for (struct job_stage *s = job->stages; s; s = s->next)
    if (memcmp(s->artifact.id, id, sizeof id) == 0) return s; // asked again
  struct job_stage *stage = arena_zalloc(&job->arena, sizeof *stage);
  stage->name = row->name;
  stage->n = q->n;
  if (job_choose_io(job, err)) return NULL;
  if (!keeps || job->mode == IO_NULL)
    artifact_open_null(&stage->artifact, &request);
  else if (artifact_open(&stage->artifact, &request, err))
    return NULL;
  struct span taken = {0};
  int rc = 0;
  if (!stage->artifact.text.at) rc = kept_artifacts_take(&job->kept, &request, id, &taken, err);
  if (rc == 0 && taken.at && row->reads(taken, q)) {
    stage->taken = true;
    rc = artifact_put(&stage->artifact, taken, err);
  } else if (rc == 0 && !stage->artifact.text.at) {
    struct json_out text = {0};
    artifact_begin(&text, &request, stage->artifact.id);
    rc = job_stage_run(job, q, &text, &stage->source_bytes_read, err);
    if (rc == 0) rc = artifact_put(&stage->artifact, span_of(text.text, text.n), err);
    json_done(&text);
  } else if (rc == 0 && row->reads(stage->artifact.text, q)) {
    stage->resumed = true;
    observer_notice(job->request->observer, "resumed: reusing what an interrupted run had %s",
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
  struct job_stage **end = &job->stages;
  while (*end)
    end = &(*end)->next;
  *end = stage;
  memcpy(stage->sha256, stage->artifact.sha256, sizeof stage->sha256);
  return stage;
}

int job_stage_ask(void *ctx, const struct pass_question *q, struct pass_answer *out,
                  struct err *err) {
  struct job *job = ctx;
  struct job_stage *stage = answer(job, stage_named(q->stage), q, err);
  if (!stage) return -1;
  stage->asked = true;
  struct edit_artifact line = {.stage = stage->name, .of = q->of, .n = q->n};
  memcpy(line.sha256, stage->sha256, sizeof line.sha256);
  edit_artifact(&job->edits, &line);
  out->text = stage->artifact.text; // held by the artifact until the job ends
  memcpy(out->sha256, stage->sha256, sizeof out->sha256);
  return 0;
}

const char *job_stage_artifacts(struct job *job) {
  struct json_out j = {0};
  const struct job_stage *first = job->stages;
  while (first && !first->asked)
    first = first->next;
  if (!first) return NULL;
  json_array(&j);
  for (const struct job_stage *s = first; s; s = s->next) {
    if (!s->asked) continue;
    json_object(&j);
    json_put_text(&j, "stage", s->name);
    json_put_hex(&j, "sha256", s->sha256, DIGEST_BYTES);
    json_end_object(&j);
  }
  json_end_array(&j);
  return json_take(&j, &job->arena);
}

// ---- replay ------------------------------------------------------------------------------------

int job_stage_replay(void *ctx, const struct edit_artifact *a, struct err *err) {
  struct job *job = ctx;
  const struct stage_row *row = stage_named(a->stage);
  const struct pass_question question = {.stage = a->stage, .of = a->of, .n = a->n};
  if (!row)
    return err_set(err, ERR_MODEL, "'%s' is not a stage that this version of weir knows",
                   quote_str(a->stage).s);
  if (row->can_pair && a->n % 2)
    return err_set(err, ERR_MODEL, "'of' has %u recipes, which cannot be paired", a->n);
  for (uint32_t i = 0; i < a->n; i++)
    if (row->can ? !row->can(&job->recipes, a->of[i])
                 : !row->can_pair(&job->recipes, a->of[i & ~1u], a->of[i | 1]))
      return err_set(err, ERR_MODEL, "recipe %u of 'of' cannot be %s", i, row->done);
  struct job_stage *stage = answer(job, row, &question, err);
  if (!stage) return -1;
  stage->asked = true;
  if (memcmp(stage->sha256, a->sha256, DIGEST_BYTES) == 0) return 0;
  bool is_of_old = false; // version 0.1.0 added up these figures in another way
  for (uint32_t i = 0; i < a->n && strcmp(a->stage, MEASURED_STAGE) == 0; i++)
    is_of_old = is_of_old || !measure_is_by_column(&job->recipes, a->of[i]);
  if (is_of_old) {
    observer_notice(job->request->observer,
                    "the log was written by version 0.1.0, whose figures cannot be compared: weir "
                    "cannot tell whether these are the weights that it measured");
    return 0;
  }
  char is[DIGEST_HEX], was[DIGEST_HEX];
  hex_encode(stage->sha256, DIGEST_BYTES, is);
  hex_encode(a->sha256, DIGEST_BYTES, was);
  err_set(err, ERR_INPUT, "the weights are not those that were %s: %s them again gives %s, not %s",
          row->done, row->doing, is, was);
  return err_hint(err, "the edits in this log depend on the weights they were made from: make a "
                       "new log from this source");
}

// ---- their end ---------------------------------------------------------------------------------

bool job_stage_took_over(const struct job *job) {
  for (const struct job_stage *s = job->stages; s; s = s->next)
    if (s->resumed) return true;
  return false;
}

int job_stage_move(struct job *job, const struct staging *st, struct err *err) {
  const char *folder = job->request->records.artifacts;
  for (struct job_stage *s = job->stages; s; s = s->next)
    if (artifact_move(&s->artifact, st, err)) return -1;
  for (struct job_stage *s = job->stages; s && folder; s = s->next)
    if (s->asked && kept_artifacts_put(folder, &s->artifact, err)) return -1;
  job_stage_end(job, false);
  return 0;
}

void job_stage_forget(struct job *job) {
  for (struct job_stage *s = job->stages; s; s = s->next)
    s->asked = false;
}

void job_stage_drop(struct job *job) {
  for (struct job_stage **at = &job->stages; *at;) {
    struct job_stage *s = *at;
    if (s->asked) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    artifact_end(&s->artifact, false);
  }
}

void job_stage_end(struct job *job, bool keep) {
  for (struct job_stage *s = job->stages; s; s = s->next)
    artifact_end(&s->artifact, keep);
}

void job_stage_write(const struct job *job, struct json_out *j) {
  json_put_array(j, "stages");
  for (const struct job_stage *s = job->stages; s; s = s->next) {
    json_object(j);
    json_put_uint(j, "measurements", s->n);
    json_put_text(j, "name", s->name);
    json_put_bool(j, "resumed", s->resumed);
    json_put_hex(j, "sha256", s->sha256, DIGEST_BYTES);
    json_put_uint(j, "source_bytes_read", s->source_bytes_read);
    if (s->taken) json_put_bool(j, "taken", true);
    json_end_object(j);
  }
  json_end_array(j);
}
