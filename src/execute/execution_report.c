// Texts that are derived (names of the manifest, digests in hex, what a runtime must be) are made here, so that no
// renderer derives them again. What the passes found is theirs and is pointed at: a model may have a million sites.
//
// Digests come from the records of units: a file of one unit has the unit's, a longer one has those that the manifest
// lists, of which the root is the one.
#include "execution.h"

#include "machine.h"
#include "manifest.h"
#include "runtime_needs.h"
#include "version_number.h"

static const char *hex_of(struct arena *a, const uint8_t digest[DIGEST_BYTES]) {
  char *text = arena_alloc(a, DIGEST_HEX);
  hex_encode(digest, DIGEST_BYTES, text);
  return text;
}

static void list_files(struct run_report *r, const struct execution *exec) {
  const struct plan *p = &exec->plan;
  for (uint32_t i = 0; i < p->n_sources; i++)
    *TABLE_PUSH(r, inputs) =
        (struct run_file){.name = p->sources[i].name, .size = p->sources[i].size};
  // The plan has the .onnx last.
  for (uint32_t k = 0; k < p->n_outputs; k++) {
    const struct plan_output *out = &p->outputs[k ? k - 1 : p->n_outputs - 1];
    *TABLE_PUSH(r, outputs) = (struct run_file){.name = out->name, .size = out->size};
  }
}

static void collect(struct execution *exec, struct run_report *r) {
  char manifest[256];
  r->command = exec->request->command;
  r->command_line = exec->request->command_line;
  r->version = version_number;
  r->model = path_base(exec->in_path);
  r->dry = exec->request->dry_run;
  r->cost.bytes_before = execution_input_bytes(exec);
  r->cost.bytes_after = plan_total_bytes(&exec->plan);
  r->cost.packed = exec->sizes.packed;
  r->recipes = &exec->recipes;
  list_files(r, exec);
  manifest_name(manifest, exec->out.onnx_name);
  if (exec->wanted->manifest) r->manifest = arena_string(&r->arena, span_str(manifest));
  r->digests.plan = hex_of(&r->arena, exec->plan.id);
  r->digests.meta = hex_of(&r->arena, exec->plan.meta_sha256);
  r->digests.edits = exec->records.edits_sha256;
  r->needs = runtime_needs_words(&exec->model, &r->arena);
  if (exec->forms.collect) exec->forms.collect(exec, r);
  if (exec->reported.counted_before) {
    r->census = exec->reported.census;
    exec->reported.census = (struct census){0};
    census_count(&r->census, &exec->model, CENSUS_AFTER);
    census_end(&r->census);
  }
  r->told.did = "nothing changed";
}

const struct run_report *execution_report(struct execution *exec) {
  struct run_report *r = exec->reported.said;
  if (!r) {
    r = exec->reported.said = arena_zalloc(&exec->arena, sizeof *r);
    collect(exec, r);
    if (exec->forms.tell) exec->forms.tell(exec, &r->told);
  }
  r->refusal = exec->outcome.refusal.kind == ERR_NONE ? NULL : &exec->outcome.refusal;
  r->unchanged = exec->outcome.unchanged.outputs;
  r->verified = exec->reported.verified;
  r->resumed = exec->outcome.resumed;
  r->warnings = exec->outcome.warnings;
  r->n_warnings = exec->outcome.n_warnings;
  r->cost.seconds = machine_clock() - exec->began;
  r->cost.peak_memory = machine_peak_memory();
  return r;
}

void execution_report_take_digests(struct execution *exec, const struct staging *st) {
  const struct plan *p = &exec->plan;
  uint8_t root[DIGEST_BYTES];
  execution_report(exec);
  struct run_report *r = exec->reported.said;
  for (uint32_t unit = 0, n = plan_unit_count(p); unit < n; unit++) {
    const struct plan_unit u = plan_unit_at(p, unit);
    struct run_file *f = &r->outputs[u.output + 1 == p->n_outputs ? 0 : u.output + 1];
    f->sha256 = f->shards++ ? NULL : hex_of(&r->arena, st->digests[unit]);
  }
  manifest_root(p, (const uint8_t(*)[DIGEST_BYTES])st->digests, root);
  if (r->manifest) r->digests.output = hex_of(&r->arena, root);
}
