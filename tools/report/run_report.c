// Texts that are derived (names of the manifest, digests in hex, what a runtime must be) are made here, so that no
// renderer derives them again. What the passes found is theirs and is pointed at: a model may have a million sites.
//
// Digests come from the records of units: a file of one unit has the unit's, a longer one has those that the manifest
// lists, of which the root is the one.
#include "run_report.h"

#include "job.h"
#include "machine.h"
#include "manifest.h"
#include "runtime_needs.h"
#include "version_number.h"

static const char *hex_of(struct arena *a, const uint8_t digest[DIGEST_BYTES]) {
  char *text = arena_alloc(a, DIGEST_HEX);
  hex_encode(digest, DIGEST_BYTES, text);
  return text;
}

static void list_files(struct run_report *r, const struct job *job) {
  const struct plan *p = &job->plan;
  for (uint32_t i = 0; i < p->n_sources; i++)
    *TABLE_PUSH(r, inputs) =
        (struct run_file){.name = p->sources[i].name, .size = p->sources[i].size};
  // The plan has the .onnx last.
  for (uint32_t k = 0; k < p->n_outputs; k++) {
    const struct plan_output *out = &p->outputs[k ? k - 1 : p->n_outputs - 1];
    *TABLE_PUSH(r, outputs) = (struct run_file){.name = out->name, .size = out->size};
  }
}

static void collect(struct job *job, struct run_report *r) {
  char manifest[256];
  r->command = job->request->command;
  r->command_line = job->request->command_line;
  r->version = version_number;
  r->model = path_base(job->in_path);
  r->dry = job->request->dry_run;
  r->bytes_before = job_input_bytes(job);
  r->bytes_after = plan_total_bytes(&job->plan);
  r->packed = job->packed;
  r->recipes = &job->recipes;
  list_files(r, job);
  manifest_name(manifest, job->out.onnx_name);
  if (job->wanted->manifest) r->manifest = arena_string(&r->arena, span_str(manifest));
  r->plan_id = hex_of(&r->arena, job->plan.id);
  r->meta_sha256 = hex_of(&r->arena, job->plan.meta_sha256);
  r->edits_sha256 = job->edits_sha256;
  r->needs = runtime_needs_words(&job->model, &r->arena);
  if (job->collect) job->collect(job, r);
  if (job->counted_before) {
    r->census = job->census;
    job->census = (struct census){0};
    census_count(&r->census, &job->model, CENSUS_AFTER);
    census_end(&r->census);
  }
  r->told.did = "nothing changed";
}

const struct run_report *run_report_of(struct job *job) {
  struct run_report *r = job->said;
  if (!r) {
    r = job->said = arena_zalloc(&job->arena, sizeof *r);
    collect(job, r);
    if (job->tell) job->tell(job, &r->told);
  }
  r->refusal = job->refusal.kind == ERR_NONE ? NULL : &job->refusal;
  r->unchanged = job->unchanged.outputs;
  r->verified = job->verified;
  r->resumed = job->resumed;
  r->warnings = job->warnings;
  r->n_warnings = job->n_warnings;
  r->seconds = machine_clock() - job->began;
  r->peak_memory = machine_peak_memory();
  return r;
}

void run_report_take_digests(struct job *job, const struct staging *st) {
  const struct plan *p = &job->plan;
  uint8_t root[DIGEST_BYTES];
  run_report_of(job);
  struct run_report *r = job->said;
  for (uint32_t unit = 0, n = plan_unit_count(p); unit < n; unit++) {
    const struct plan_unit u = plan_unit_at(p, unit);
    struct run_file *f = &r->outputs[u.output + 1 == p->n_outputs ? 0 : u.output + 1];
    f->sha256 = f->shards++ ? NULL : hex_of(&r->arena, st->digests[unit]);
  }
  manifest_root(p, (const uint8_t(*)[DIGEST_BYTES])st->digests, root);
  if (r->manifest) r->root = hex_of(&r->arena, root);
}

void run_report_free(struct run_report *r) {
  quantized_free(&r->stored);
  census_free(&r->census);
  TABLE_FREE(r, inputs);
  TABLE_FREE(r, outputs);
  arena_free(&r->arena);
}
