// Stages over the weights that come before the edits they decide: measuring, so far.
//
//   pass ──recipes of codes──▶ job_stage_measure ──▶ artifact (made, or found again) ──▶ figures
//                                                     │
//                                                     ├──▶ a line in the edit log
//                                                     └──▶ the plan's list of artifacts
//
// An artifact's text is the same on every machine: a line a question, in order, sums as the
// shortest decimals that read back. Its digest therefore says whether the weights are those that
// were measured: a replay of the log runs the stage again and compares.
#include "job.h"
#include "job_stage.h"

#include "measure.h"
#include "report.h"
#include "stop.h"

#include <stdlib.h>

// ---- the text ----------------------------------------------------------------------------------

static bool read_row(struct span line, struct figures *f) {
  struct err malformed = {0};
  struct json_value *v = json_parse(line, "artifact", &malformed);
  const bool whole = v && json_as_uint(json_get(v, "elements"), &f->elements) &&
                     json_as_uint(json_get(v, "nonfinite"), &f->nonfinite) &&
                     json_as_double(json_get(v, "vv"), &f->vv) &&
                     json_as_double(json_get(v, "ee"), &f->ee) &&
                     json_as_double(json_get(v, "ve"), &f->ve) &&
                     json_as_double(json_get(v, "max_error"), &f->max_error);
  if (v) json_free(v);
  return whole;
}

static bool next_line(struct span *rest, struct span *line) {
  const uint8_t *end = rest->n ? memchr(rest->at, '\n', rest->n) : NULL;
  if (!end) return false;
  *line = span_of(rest->at, (size_t)(end - rest->at));
  *rest = span_of(end + 1, rest->n - line->n - 1);
  return true;
}

static int read_rows(struct span text, uint32_t n, struct figures *figures, struct err *err) {
  struct span line;
  bool whole = next_line(&text, &line); // the head
  for (uint32_t i = 0; i < n && whole; i++)
    whole = next_line(&text, &line) && read_row(line, &figures[i]);
  if (whole && text.n == 0) return 0;
  err_set(err, ERR_INPUT, "the artifact of an interrupted run does not hold %u measurements", n);
  return err_hint(err, "without --resume the weights are measured again");
}

// ---- the stage ---------------------------------------------------------------------------------

struct measuring {
  struct job *job;
  const uint32_t *codes;
  uint32_t n;
  struct artifact_request request;
  struct figures *out;
};

static char *options_text(struct job *job, const uint32_t *codes, uint32_t n) {
  struct json_out j = {0};
  json_array(&j);
  for (uint32_t i = 0; i < n; i++)
    edit_artifact_recipe(&job->edits, &j, codes[i]);
  json_end_array(&j);
  char *text = arena_string(&job->arena, span_of(j.text, j.n));
  json_done(&j);
  return text;
}

static int make(const struct measuring *m, struct job_stage *stage, struct err *err) {
  struct job *job = m->job;
  struct measure_stats stats;
  const struct work_options options = {.jobs = cli_count(job->args, OPT_JOBS),
                                       .memory = job->memory,
                                       .mode = job->mode,
                                       .progress = {report_tick, NULL},
                                       .stop = stop_watch()};
  report_begin("measuring", 0);
  int rc = measure_run(&job->recipes, job->sources, m->codes, m->n, &options, m->out, &stats, err);
  report_end();
  if (rc) return -1;
  stage->source_bytes_read = stats.source_bytes_read;
  struct json_out text = {0};
  artifact_begin(&text, &m->request, stage->artifact.id);
  for (uint32_t i = 0; i < m->n; i++) {
    json_object(&text);
    json_key(&text, "of");
    edit_artifact_recipe(&job->edits, &text, m->codes[i]);
    const struct figures *f = &m->out[i];
    json_put_uint(&text, "elements", f->elements);
    json_put_uint(&text, "nonfinite", f->nonfinite);
    json_put_double(&text, "vv", f->vv);
    json_put_double(&text, "ee", f->ee);
    json_put_double(&text, "ve", f->ve);
    json_put_double(&text, "max_error", f->max_error);
    json_end_object(&text);
    json_newline(&text);
  }
  rc = artifact_put(&stage->artifact, span_of(text.text, text.n), err);
  json_done(&text);
  return rc;
}

static int run_stage(const struct measuring *m, struct job_stage *stage, struct err *err) {
  struct job *job = m->job;
  if (job_choose_io(job, err)) return -1;
  if (job->nothing_to_write || job->mode == IO_NULL)
    artifact_open_null(&stage->artifact, &m->request);
  else if (artifact_open(&stage->artifact, &m->request, cli_flag(job->args, OPT_RESUME), err))
    return -1;
  int rc;
  if (stage->artifact.text.at) {
    stage->resumed = true;
    rc = read_rows(stage->artifact.text, m->n, m->out, err);
    if (rc == 0) report_notice("took over what an interrupted run had measured");
  } else {
    rc = make(m, stage, err);
  }
  if (rc) artifact_end(&stage->artifact, false);
  return rc;
}

// The stage, run or found again, at the end of the job's list; NULL if it failed.
static struct job_stage *measure(struct job *job, const uint32_t *codes, uint32_t n,
                                 struct figures *out, struct err *err) {
  const struct measuring m = {
      .job = job,
      .codes = codes,
      .n = n,
      .out = out,
      .request = {.dest_folder = job->out.folder,
                  .onnx_name = job->out.onnx_name,
                  .resume_command = cli_resume_command(job->args, &job->arena),
                  .sources = job->sources,
                  .meta_sha256 = job->model.meta_sha256,
                  .stage = "measure",
                  .options = span_str(options_text(job, codes, n))}};
  struct job_stage *stage = arena_zalloc(&job->arena, sizeof *stage);
  stage->name = m.request.stage;
  stage->n = n;
  if (run_stage(&m, stage, err)) return NULL;
  struct job_stage **end = &job->stages;
  while (*end)
    end = &(*end)->next;
  *end = stage;
  memcpy(stage->sha256, stage->artifact.sha256, sizeof stage->sha256);
  struct json_out j = {0};
  json_array(&j);
  for (const struct job_stage *s = job->stages; s; s = s->next) {
    json_object(&j);
    json_put_text(&j, "stage", s->name);
    json_put_hex(&j, "sha256", s->sha256, DIGEST_BYTES);
    json_end_object(&j);
  }
  json_end_array(&j);
  job->layout.artifacts = arena_string(&job->arena, span_of(j.text, j.n));
  json_done(&j);
  return stage;
}

int job_stage_measure(void *ctx, const uint32_t *codes, uint32_t n, struct figures *out,
                      struct err *err) {
  struct job *job = ctx;
  const struct job_stage *stage = measure(job, codes, n, out, err);
  if (!stage) return -1;
  struct edit_artifact line = {.stage = stage->name, .of = codes, .n = n};
  memcpy(line.sha256, stage->sha256, sizeof line.sha256);
  edit_artifact(&job->edits, &line);
  return 0;
}

// ---- replay ------------------------------------------------------------------------------------

int job_stage_replay(void *ctx, const struct edit_artifact *a, struct err *err) {
  struct job *job = ctx;
  struct figures *figures = NULL;
  size_t cap = 0;
  if (strcmp(a->stage, "measure") != 0)
    return err_set(err, ERR_MODEL, "'%s' is no stage that this program knows",
                   quote_str(a->stage).s);
  for (uint32_t i = 0; i < a->n; i++)
    if (!measure_can(&job->recipes, a->of[i]))
      return err_set(err, ERR_MODEL, "recipe %u of 'of' is not one that can be measured", i);
  figures = table_grow(NULL, &cap, (size_t)a->n + 1, sizeof *figures);
  const struct job_stage *stage = measure(job, a->of, a->n, figures, err);
  table_free(figures, cap, sizeof *figures);
  if (!stage) return -1;
  if (memcmp(stage->sha256, a->sha256, DIGEST_BYTES) == 0) return 0;
  char is[DIGEST_HEX], was[DIGEST_HEX];
  hex_encode(stage->sha256, DIGEST_BYTES, is);
  hex_encode(a->sha256, DIGEST_BYTES, was);
  err_set(err, ERR_INPUT,
          "the weights are not those that were measured: measuring them again gives %s, not %s", is,
          was);
  return err_hint(err, "the edits of this log were decided by other weights: make them anew from "
                       "this source");
}

// ---- their end ---------------------------------------------------------------------------------

bool job_stage_took_over(const struct job *job) {
  for (const struct job_stage *s = job->stages; s; s = s->next)
    if (s->resumed) return true;
  return false;
}

int job_stage_move(struct job *job, const struct staging *st, struct err *err) {
  for (struct job_stage *s = job->stages; s; s = s->next)
    if (artifact_move(&s->artifact, st, err)) return -1;
  job_stage_end(job, false);
  return 0;
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
    json_end_object(j);
  }
  json_end_array(j);
}
