// Texts that are derived (names of the manifest, digests in hex, what a runtime must be) are made here, so that no
// renderer derives them again. What the passes found is theirs and is pointed at: a model may have a million sites.
//
// Digests come from the records of units: a file of one unit has the unit's, a longer one has those that the manifest
// lists, of which the root is the one.
#include "execute/execution.h"

#include "base/version_number.h"
#include "execute/execution_stage.h"
#include "platform/machine.h"
#include "stream/seal/manifest.h"

static void list_files(struct run_files *files, const struct execution *exec, struct arena *a) {
  const struct plan *p = &exec->plan;
  const struct manifest_names beside = manifest_names(exec->out.onnx_name);
  for (uint32_t i = 0; i < p->n_sources; i++)
    *TABLE_PUSH(files, inputs) =
        (struct run_file){.name = p->sources[i].name, .size = p->sources[i].size};
  // The plan has the .onnx last.
  for (uint32_t k = 0; k < p->n_outputs; k++) {
    const struct plan_output *out = &p->outputs[k ? k - 1 : p->n_outputs - 1];
    *TABLE_PUSH(files, outputs) = (struct run_file){.name = out->name, .size = out->size};
  }
  if (exec->wanted->manifest) files->manifest.name = arena_string(a, span_str(beside.manifest));
  if (exec->wanted->tensor_digests) files->tensors.name = arena_string(a, span_str(beside.tensors));
  for (uint32_t i = 0; i < p->n_segments; i++)
    if (p->segments[i].kind == SEGMENT_ZERO) files->padding += p->segments[i].len;
  files->each = exec->layout.each;
}

static void fill_out(struct run_out *r, const struct execution *exec, struct arena *a) {
  const struct execution_output *out = &exec->out;
  r->path = out->path;
  r->above = arena_string(a, span_of(out->path, (size_t)(out->onnx_name - out->path)));
  r->folder = out->folder;
  r->folder_is_above = out->folder_is_above;
  r->absent = out->absent;
  r->replaces = out->replace;
  r->inplace = exec->wanted->inplace;
  r->packs = execution_is_for_packing(exec);
}

// The most that a run takes is the index, --memory, and the program itself. A stage has --memory beside what the passes
// hold that asked it; without one --memory is not in use yet while the plan is made.
static struct run_memory memory_of(const struct execution *exec) {
  enum { PROGRAM_BYTES = 16 << 20 };
  const uint64_t index = exec->sizes.index_bytes, before = exec->sizes.planning_bytes;
  const uint64_t unused = exec->stages ? 0 : exec->memory;
  const uint64_t peak = before > index + unused ? before - unused : index;
  return (struct run_memory){exec->memory, index, peak, PROGRAM_BYTES,
                             peak + exec->memory + PROGRAM_BYTES};
}

static uint64_t input_bytes(const struct execution *exec) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < exec->plan.n_sources; i++)
    if (!sources_is_companion(exec->sources, i)) n += exec->plan.sources[i].size;
  return n;
}

static void collect(struct execution *exec, struct run_report *r) {
  const struct request *q = exec->request;
  r->asked = (struct run_asked){.command = q->command,
                                .command_line = q->command_line,
                                .recorded_as = exec->records.command,
                                .dry = q->dry_run,
                                .plans = q->plans,
                                .shown = &q->shown,
                                .forms = exec->forms.shown};
  r->version = version_number;
  r->model = path_base(exec->in_path);
  r->cost.bytes_before = input_bytes(exec);
  r->cost.bytes_after = plan_total_bytes(&exec->plan);
  r->recipes = &exec->recipes;
  list_files(&r->files, exec, &r->arena);
  fill_out(&r->out, exec, &r->arena);
  r->work.edits = exec->edits.n;
  r->work.units = plan_unit_count(&exec->plan);
  r->work.shards = execution_shards(exec);
  for (const struct execution_stage *s = exec->stages; s; s = s->next)
    *TABLE_PUSH(&r->work, stages) = s->found;
  r->memory = memory_of(exec);
  r->doubts = run_doubts(&exec->plan);
  r->digests.plan = digest_hex_in(&r->arena, exec->plan.id);
  r->digests.meta = digest_hex_in(&r->arena, exec->plan.meta_sha256);
  r->digests.edits = exec->records.edits_sha256;
  r->needs = runtime_needs_of(&exec->model, &r->arena);
  if (exec->forms.collect) exec->forms.collect(exec, r);
  if (exec->request->records.report_html) { // as before the edits (execution_open)
    census_count(&r->census, &exec->model, CENSUS_AFTER);
    census_end(&r->census);
  }
  r->told.did = "nothing changed";
}

static void look_at(const struct execution *exec, struct run_record *record) {
  struct entry_facts at = {.size = 0};
  record->is_there = record->name && !exec->request->dry_run &&
                     entry_look(exec->out.dest, record->name, FILE_NO_LINK, &at) == 0;
  record->size = at.size;
}

const struct run_report *execution_report(struct execution *exec) {
  struct run_report *r = &exec->reported;
  if (!r->version) {
    collect(exec, r);
    if (r->asked.forms && r->asked.forms->tell) r->asked.forms->tell(r);
  }
  r->refusal = exec->outcome.refusal.kind == ERR_NONE ? NULL : &exec->outcome.refusal;
  look_at(exec, &r->files.manifest);
  look_at(exec, &r->files.tensors);
  r->work.io = r->work.stats.ring_lost ? "uring, then sync" : io_mode_name(exec->mode);
  r->work.null = exec->mode == IO_NULL;
  r->cost.seconds = machine_clock() - exec->began;
  r->cost.peak_memory = machine_peak_memory();
  return r;
}

void execution_report_take_digests(struct execution *exec, const struct staging *st) {
  const struct plan *p = &exec->plan;
  uint8_t root[DIGEST_BYTES];
  struct run_report *r = &exec->reported;
  execution_report(exec);
  for (uint32_t unit = 0, n = plan_unit_count(p); unit < n; unit++) {
    const struct plan_unit u = plan_unit_at(p, unit);
    struct run_file *f = &r->files.outputs[u.output + 1 == p->n_outputs ? 0 : u.output + 1];
    f->sha256 = f->shards++ ? NULL : digest_hex_in(&r->arena, st->digests[unit]);
  }
  manifest_root(p, (const uint8_t(*)[DIGEST_BYTES])st->digests, root);
  if (r->files.manifest.name) r->digests.output = digest_hex_in(&r->arena, root);
}
