// What a writing command says of its work: JSON for programs, lines for people.
//
// The JSON object begins as all documents do (report.h), then come the command's own members
// (conv2matmul: converted, nodes, skipped, as onnx-conv2matmul writes them; with --strict-compat these
// alone); all that is common lies under "weir". Reports may name memory and engines; outputs and manifests
// never do.
#include "render_run.h"

#include "render_needs.h"
#include "render_verified.h"
#include "shell_words.h"
#include "hints.h"
#include "execution_stage.h"
#include "report.h"
#include "run_report.h"
#include "runtime_needs.h"
#include "verify.h"
#include "version_number.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { DATA_FILES_NAMED = 3 };

static void put_file(struct json_out *j, const char *name, uint64_t size) {
  json_object(j);
  json_put_text(j, "name", name);
  json_put_uint(j, "size", size);
  json_end_object(j);
}

static void write_refusal(const struct err *why, struct json_out *j) {
  if (why->kind == ERR_NONE) {
    json_put_null(j, "refusal");
    return;
  }
  json_put_object(j, "refusal");
  json_put_uint(j, "exit_code", (uint64_t)why->kind);
  json_put_text(j, "hint", hints_of(why).s);
  json_put_text(j, "message", why->msg);
  json_end_object(j);
}

// ---- in sentences -------------------------------------------------------------------------------

// An output that grew, most of all by what puts its tensors at aligned places, says so.
static const char *padding_words(struct execution *exec, uint64_t before, uint64_t after) {
  uint64_t padding = 0;
  for (uint32_t i = 0; i < exec->plan.n_segments; i++)
    if (exec->plan.segments[i].kind == SEGMENT_ZERO) padding += exec->plan.segments[i].len;
  return after > before && padding > (after - before) / 2
             ? arena_printf(&exec->arena, ", %s of it for alignment", quote_bytes(padding).s)
             : "";
}

static const char *unwritten_line(struct execution *exec, const struct run_report *r) {
  const bool inplace = exec->wanted->inplace, dry = exec->request->dry_run;
  const char *quote = exec->out.absent ? "" : "'";
  return arena_printf(&exec->arena, "%s%s: %s%s%s %s; --copy writes it anyway",
                      dry ? "dry run: " : "", r->told.did, quote,
                      exec->out.absent ? "the output" : quote_path(exec->out.path).s, quote,
                      inplace ? "is left unchanged"
                      : dry   ? "would not be written"
                              : "is not written");
}

// spent: what comes after the sizes.
static const char *first_line(struct execution *exec, const struct run_report *r,
                              const char *spent) {
  const uint64_t before = r->cost.bytes_before, after = r->cost.bytes_after;
  if (r->told.line) return r->told.line;
  if (exec->outcome.unwritten) return unwritten_line(exec, r);
  return arena_printf(&exec->arena, "%s%s -> %s (%.1f %%%s)%s: %s",
                      exec->request->dry_run ? "dry run: " : "", quote_bytes(before).s,
                      quote_bytes(after).s, before ? 100.0 * (double)after / (double)before : 100.0,
                      padding_words(exec, before, after), spent, r->told.did);
}

// What came of it: the first line, and, where passes ran, a line for each thing that they have to say. `spent`: what comes
// after the sizes, such as time and memory.
struct summary {
  TABLE(const char *, lines);
};

static void add_line(struct summary *s, struct execution *exec, const char *title,
                     const char *text) {
  if (text) *TABLE_PUSH(s, lines) = arena_printf(&exec->arena, "  %s%s", title, text);
}

static struct summary summary_of(struct execution *exec, const char *spent) {
  struct summary s = {0};
  const struct run_report *r = execution_report(exec);
  const struct run_summary *told = &r->told;
  *TABLE_PUSH(&s, lines) = first_line(exec, r, spent);
  if (told->line || exec->outcome.unwritten) return s;
  for (uint32_t i = 0; i < told->n_more; i++)
    add_line(&s, exec, "", told->more[i]);
  for (uint32_t i = 0; i < told->n_steps; i++)
    add_line(&s, exec, "", told->steps[i]);
  // A dry run says it of all that it would write.
  if (exec->sizes.packed && !exec->request->dry_run && execution_is_for_packing(exec))
    add_line(
        &s, exec, "packed \xe2\x89\x88 ",
        arena_printf(&exec->arena, "%s compressed (gzip -9)", quote_bytes(exec->sizes.packed).s));
  add_line(&s, exec, "worst  ", told->worst);
  add_line(&s, exec, "kept   ", told->kept);
  add_line(&s, exec, "held back  ", told->held_back);
  add_line(&s, exec, "larger ", told->larger);
  add_line(&s, exec, "no shape  ", told->shapeless);
  return s;
}

// ---- for programs -------------------------------------------------------------------------------

static void write_common(struct execution *exec, struct json_out *j) {
  const struct run_report *r = execution_report(exec);
  const bool dry = exec->request->dry_run;
  const struct execution_ahead *ahead = &exec->outcome.ahead;
  json_put_object(j, "weir");
  json_put_uint(j, "bytes_cloned", exec->outcome.stats.bytes_cloned);
  json_put_uint(j, "bytes_written", exec->outcome.stats.bytes_written);
  json_put_uint(j, "data_files", exec->plan.n_outputs - 1);
  if (dry) json_put_known(j, "disk_free_bytes", ahead->space.known, ahead->space.free_bytes);
  if (dry) json_put_uint(j, "disk_needed_bytes", ahead->space.needed_bytes);
  json_put_bool(j, "dry_run", dry);
  json_put_uint(j, "edits", exec->edits.n);
  if (exec->sizes.packed) json_put_uint(j, "gzip_bytes", exec->sizes.packed);
  json_put_uint(j, "index_bytes", exec->sizes.index_bytes);
  json_put_array(j, "input");
  for (uint32_t i = 0; i < r->n_inputs; i++)
    put_file(j, r->inputs[i].name, r->inputs[i].size);
  json_end_array(j);
  json_put_text(j, "io",
                exec->outcome.stats.ring_lost ? "uring, then sync" : io_mode_name(exec->mode));
  json_put_uint(j, "jobs", exec->outcome.stats.jobs);
  json_put_uint(j, "memory_bytes", exec->memory);
  runtime_needs_write(&exec->model, j);
  if (dry) {
    const struct run_doubts doubts = run_doubts(&exec->plan);
    json_put_array(j, "not_looked_for");
    if (doubts.nonfinite) json_text(j, "nonfinite");
    if (doubts.overflow) json_text(j, "overflow");
    json_end_array(j);
  }
  json_put_array(j, "output");
  for (uint32_t i = 0; i < exec->plan.n_outputs && !exec->outcome.unwritten; i++)
    put_file(j, exec->plan.outputs[i].name, exec->plan.outputs[i].size);
  json_end_array(j);
  if (dry) json_put_bool(j, "output_exists", ahead->output_exists);
  if (dry) json_put_bool(j, "output_folder_writable", ahead->folder_writable);
  json_put_uint(j, "peak_memory_bytes", r->cost.peak_memory);
  json_put_uint(j, "peak_memory_limit_bytes", execution_memory_limit(exec));
  json_put_text(j, "plan_id", r->digests.plan);
  json_put_text(j, "recorded_as", exec->records.command);
  if (dry || exec->outcome.refusal.kind != ERR_NONE) write_refusal(&exec->outcome.refusal, j);
  json_put_text(j, "resumed", exec->outcome.resumed);
  json_put_double(j, "seconds", r->cost.seconds);
  if (exec->outcome.staged) json_put_uint(j, "shards", execution_shards(exec));
  json_put_uint(j, "source_bytes_read", exec->outcome.stats.source_bytes_read);
  if (exec->outcome.staged) json_put_text(j, "staged", exec->outcome.staged);
  execution_stage_write(exec, j);
  struct summary summary = summary_of(exec, "");
  json_put_array(j, "summary");
  for (uint32_t i = 0; i < summary.n_lines; i++)
    json_text(j, summary.lines[i]);
  json_end_array(j);
  TABLE_FREE(&summary, lines);
  json_put_uint(j, "units", plan_unit_count(&exec->plan));
  json_put_uint(j, "units_resumed", exec->outcome.stats.units_skipped);
  json_put_text(j, "version", r->version);
  json_put_array(j, "warnings");
  for (uint32_t i = 0; i < r->n_warnings; i++)
    json_text(j, r->warnings[i]);
  json_end_array(j);
  if (exec->outcome.unwritten) json_put_bool(j, "written", false);
  json_end_object(j);
}

void render_run_json(struct execution *exec, struct json_out *j) {
  if (exec->forms.plain)
    json_object(j);
  else
    report_json_begin(j);
  if (exec->outcome.refusal.kind != ERR_NONE && !exec->forms.plain)
    report_json_put_error(j, &exec->outcome.refusal);
  if (exec->forms.report) exec->forms.report(exec, j);
  if (exec->reported.verifying && !exec->forms.plain)
    render_verified_json(exec->reported.verifying, j);
  if (!exec->forms.plain) write_common(exec, j);
  json_end_object(j);
}

// ---- for people ---------------------------------------------------------------------------------

// "small/m.onnx_data to m.onnx_data_4 (5 data files, 5.2 GB)"
static void print_data_files(struct execution *exec) {
  const uint32_t n = exec->plan.n_outputs - 1;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++)
    bytes += exec->plan.outputs[i].size;
  if (exec->layout.each) {
    printf(", %u data files (%s)", n, quote_bytes(bytes).s);
    return;
  }
  printf(", %s to %s (%u data files, %s)", execution_file(exec, 1).shown,
         quote_str(exec->plan.outputs[n - 1].name).s, n, quote_bytes(bytes).s);
}

// Was the k-th file there already, byte for byte? Outputs are all of them, or none.
static bool was_there(const struct execution *exec, uint32_t k) {
  const bool manifest = exec->wanted->manifest;
  if (k < exec->plan.n_outputs) return exec->outcome.unchanged.outputs;
  return k == exec->plan.n_outputs && manifest ? exec->outcome.unchanged.manifest
                                               : exec->outcome.unchanged.tensors;
}

// "wrote int4/encoder.onnx (522 kB), …", each as far as the user's folder; many data files as a range. Of a model that
// was there already the records may be other ones.
static void print_files(struct execution *exec) {
  struct stat at;
  const char *before = "";
  bool was_same = false;
  const uint32_t n_data = exec->plan.n_outputs - 1;
  for (uint32_t k = 0; k < execution_n_files(exec); k++) {
    if (n_data > DATA_FILES_NAMED && k > 0 && k <= n_data) {
      if (k == 1) print_data_files(exec);
      continue;
    }
    const struct execution_file f = execution_file(exec, k);
    const bool there = was_there(exec, k), same = exec->outcome.unchanged.outputs && there;
    if (fstatat(exec->out.dest, f.name, &at, AT_SYMLINK_NOFOLLOW)) continue;
    if (!*before || same != was_same)
      printf("%s%s", *before ? "; " : "",
             same ? "unchanged, since they have the same bytes already: " : "wrote ");
    else
      printf("%s", before);
    printf("%s (%s)", f.shown, quote_bytes((uint64_t)at.st_size).s);
    before = ", ";
    was_same = same;
  }
  render_needs(&exec->model, "; ", "\n", "\n");
}

// How to go on: as lines to paste.
static void print_plan(const struct execution *exec) {
  struct arena a = {0};
  const uint32_t shards = execution_shards(exec), units = plan_unit_count(&exec->plan);
  const char *plan = shell_words_quote(exec->outcome.staged, &a);
  printf("planned %s: %u unit%s of 64 MiB in %u shard%s", plan, units, plural(units), shards,
         plural(shards));
  if (exec->outcome.stats.units_skipped)
    printf(", %lu of them finished already", exec->outcome.stats.units_skipped);
  printf("\n  make     weir shard %s --index I --count %u     (I: 0 to %u; on as many machines as "
         "you like)\n"
         "  look     weir status %s\n  finish   weir finalize %s\n",
         plan, shards, shards - 1, plan, plan);
  if (shards > units)
    observer_notice(exec->request->observer,
                    "%u unit%s %s work for %u shard%s: the other %u %s nothing to do", units,
                    plural(units), units == 1 ? "is" : "are", units, plural(units), shards - units,
                    shards - units == 1 ? "has" : "have");
  arena_free(&a);
}

// Five lines at most, and one for each step where there are many.
void render_run_text(struct execution *exec) {
  const bool dry = exec->request->dry_run;
  if (exec->forms.print) exec->forms.print(exec);
  if (exec->request->shown.quiet) return;
  const struct run_report *r = execution_report(exec);
  const struct run_summary told = r->told;
  if (exec->forms.hint) exec->forms.hint(exec);
  const char *spent =
      arena_printf(&exec->arena, " in %s, %s of memory", quote_seconds(r->cost.seconds).s,
                   quote_bytes(r->cost.peak_memory).s);
  struct summary s = summary_of(exec, dry ? "" : spent);
  const bool counted = !told.line && !exec->outcome.unwritten;
  if (told.line && exec->reported.verifying && !dry)
    render_verified_compatible(exec->reported.verifying);
  for (uint32_t i = 0; i < s.n_lines && report_stdout_alive(); i++)
    printf("%s\n", s.lines[i]);
  TABLE_FREE(&s, lines);
  if (counted && exec->reported.verifying && !dry) render_verified(exec->reported.verifying, true);
  if (told.line && !dry) return;
  if (exec->outcome.unwritten) return;
  if (dry)
    render_dry_run(exec);
  else if (exec->request->plans)
    print_plan(exec);
  else if (exec->mode != IO_NULL)
    print_files(exec);
}
