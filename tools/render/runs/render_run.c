// What a writing command says of its work: JSON for programs, lines for people.
//
// The JSON object begins as all documents do (report.h), then come the command's own members
// (conv2matmul: converted, nodes, skipped, as onnx-conv2matmul writes them; with --strict-compat these
// alone); all that is common lies under "weir". Reports may name memory and engines; outputs and manifests
// never do.
#include "render/runs/render_run.h"

#include "base/shell_words.h"
#include "cli/hints.h"
#include "cli/report.h"
#include "render/runs/render_rank.h"
#include "render/runs/render_verified.h"
#include "report/verified_json.h"

#include <stdio.h>

enum { DATA_FILES_NAMED = 3 };
#define UNCHANGED "unchanged, since they have the same bytes already: "

static void put_file(struct json_out *j, const struct run_file *f) {
  json_object(j);
  json_put_text(j, "name", f->name);
  json_put_uint(j, "size", f->size);
  json_end_object(j);
}

static void write_refusal(const struct err *why, struct json_out *j) {
  if (!why) {
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
static const char *padding_words(const struct run_report *r, struct arena *a) {
  const uint64_t before = r->cost.bytes_before, after = r->cost.bytes_after;
  return after > before && r->files.padding > (after - before) / 2
             ? arena_printf(a, ", %s of it for alignment", quote_bytes(r->files.padding).s)
             : "";
}

static const char *unwritten_line(const struct run_report *r, struct arena *a) {
  const bool dry = r->asked.dry;
  const char *quote = r->out.absent ? "" : "'";
  return arena_printf(a, "%s%s: %s%s%s %s; --copy writes it anyway", dry ? "dry run: " : "",
                      r->told.did, quote, r->out.absent ? "the output" : quote_path(r->out.path).s,
                      quote,
                      r->out.inplace ? "is left unchanged"
                      : dry          ? "would not be written"
                                     : "is not written");
}

// spent: what comes after the sizes.
static const char *first_line(const struct run_report *r, const char *spent, struct arena *a) {
  const uint64_t before = r->cost.bytes_before, after = r->cost.bytes_after;
  if (r->told.line) return r->told.line;
  if (r->out.unwritten) return unwritten_line(r, a);
  return arena_printf(a, "%s%s -> %s (%.1f %%%s)%s: %s", r->asked.dry ? "dry run: " : "",
                      quote_bytes(before).s, quote_bytes(after).s,
                      before ? 100.0 * (double)after / (double)before : 100.0, padding_words(r, a),
                      spent, r->told.did);
}

// What came of it: the first line, and, where passes ran, a line for each thing that they have to say.
struct summary {
  TABLE(const char *, lines);
  struct arena arena;
};

static void summary_free(struct summary *s) {
  TABLE_FREE(s, lines);
  arena_free(&s->arena);
}

static void add_line(struct summary *s, const char *title, const char *text) {
  if (text) *TABLE_PUSH(s, lines) = arena_printf(&s->arena, "  %s%s", title, text);
}

static struct summary summary_of(const struct run_report *r, bool timed) {
  struct summary s = {0};
  const struct run_summary *told = &r->told;
  const char *spent =
      !timed ? ""
             : arena_printf(&s.arena, " in %s, %s of memory", quote_seconds(r->cost.seconds).s,
                            quote_memory(r->cost.peak_memory).s);
  *TABLE_PUSH(&s, lines) = first_line(r, spent, &s.arena);
  if (told->line || r->out.unwritten) return s;
  for (uint32_t i = 0; i < told->n_more; i++)
    add_line(&s, "", told->more[i]);
  for (uint32_t i = 0; i < told->n_steps; i++)
    add_line(&s, "", told->steps[i]);
  // A dry run says it of all that it would write.
  if (r->cost.packed && !r->asked.dry && r->out.packs)
    add_line(&s, "packed \xe2\x89\x88 ",
             arena_printf(&s.arena, "%s compressed (gzip -9)", quote_bytes(r->cost.packed).s));
  add_line(&s, "worst  ", told->worst);
  add_line(&s, "kept   ", told->kept);
  add_line(&s, "held back  ", told->held_back);
  add_line(&s, "larger ", told->larger);
  add_line(&s, "no shape  ", told->shapeless);
  return s;
}

// ---- for programs -------------------------------------------------------------------------------

static void write_stages(const struct run_work *w, struct json_out *j) {
  json_put_array(j, "stages");
  for (uint32_t i = 0; i < w->n_stages; i++) {
    const struct run_stage *s = &w->stages[i];
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

static void write_common(const struct run_report *r, struct json_out *j) {
  const struct run_files *files = &r->files;
  const struct run_work *work = &r->work;
  const bool dry = r->asked.dry;
  json_put_object(j, "weir");
  json_put_uint(j, "bytes_cloned", work->stats.bytes_cloned);
  json_put_uint(j, "bytes_written", work->stats.bytes_written);
  json_put_uint(j, "data_files", files->n_outputs - 1);
  if (dry) json_put_known(j, "disk_free_bytes", r->ahead.space.known, r->ahead.space.free_bytes);
  if (dry) json_put_uint(j, "disk_needed_bytes", r->ahead.space.needed_bytes);
  json_put_bool(j, "dry_run", dry);
  json_put_uint(j, "edits", work->edits);
  if (r->cost.packed) json_put_uint(j, "gzip_bytes", r->cost.packed);
  json_put_uint(j, "index_bytes", r->memory.index);
  json_put_array(j, "input");
  for (uint32_t i = 0; i < files->n_inputs; i++)
    put_file(j, &files->inputs[i]);
  json_end_array(j);
  json_put_text(j, "io", work->io);
  json_put_uint(j, "jobs", work->stats.jobs);
  json_put_uint(j, "memory_bytes", r->memory.asked);
  runtime_needs_write(&r->needs, j);
  if (dry) {
    json_put_array(j, "not_looked_for");
    if (r->doubts.nonfinite) json_text(j, "nonfinite");
    if (r->doubts.overflow) json_text(j, "overflow");
    json_end_array(j);
  }
  json_put_array(j, "output"); // the .onnx last
  for (uint32_t i = 1; i <= files->n_outputs && !r->out.unwritten; i++)
    put_file(j, &files->outputs[i % files->n_outputs]);
  json_end_array(j);
  if (dry) json_put_bool(j, "output_exists", r->ahead.output_exists);
  if (dry) json_put_bool(j, "output_folder_writable", r->ahead.folder_writable);
  json_put_uint(j, "peak_memory_bytes", r->cost.peak_memory);
  json_put_uint(j, "peak_memory_limit_bytes", r->memory.limit);
  json_put_text(j, "plan_id", r->digests.plan);
  json_put_text(j, "recorded_as", r->asked.recorded_as);
  if (dry || r->refusal) write_refusal(r->refusal, j);
  json_put_text(j, "resumed", work->resumed);
  json_put_double(j, "seconds", r->cost.seconds);
  if (work->staged) json_put_uint(j, "shards", work->shards);
  json_put_uint(j, "source_bytes_read", work->stats.source_bytes_read);
  if (work->staged) json_put_text(j, "staged", work->staged);
  write_stages(work, j);
  struct summary summary = summary_of(r, false);
  json_put_array(j, "summary");
  for (uint32_t i = 0; i < summary.n_lines; i++)
    json_text(j, summary.lines[i]);
  json_end_array(j);
  summary_free(&summary);
  json_put_uint(j, "units", work->units);
  json_put_uint(j, "units_resumed", work->stats.units_skipped);
  json_put_text(j, "version", r->version);
  json_put_array(j, "warnings");
  for (uint32_t i = 0; i < r->n_warnings; i++)
    json_text(j, r->warnings[i]);
  json_end_array(j);
  if (r->out.unwritten) json_put_bool(j, "written", false);
  json_end_object(j);
}

void render_run_json(const struct run_report *r, struct json_out *j) {
  const bool plain = r->asked.shown->plain;
  if (plain)
    json_object(j);
  else
    report_json_begin(j);
  if (r->refusal && !plain) report_json_put_error(j, r->refusal);
  if (r->asked.forms && r->asked.forms->report) r->asked.forms->report(r, j);
  if (r->verifying && !plain) verified_json(r->verifying, j);
  if (!plain) write_common(r, j);
  json_end_object(j);
}

// ---- for people ---------------------------------------------------------------------------------

struct quoted render_run_path(const struct run_report *r, const char *name) {
  struct arena a = {0};
  const struct quoted q = quote_str(arena_printf(&a, "%s%s", r->out.above, name));
  arena_free(&a);
  return q;
}

// "small/m.onnx_data to m.onnx_data_4 (5 data files, 5.2 GB)"
static void print_data_files(const struct run_report *r) {
  const struct run_file *data = r->files.outputs + 1;
  const uint32_t n = r->files.n_outputs - 1;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++)
    bytes += data[i].size;
  if (r->files.each)
    printf(", %u data files (%s)", n, quote_bytes(bytes).s);
  else
    printf(", %s to %s (%u data files, %s)", render_run_path(r, data[0].name).s,
           quote_str(data[n - 1].name).s, n, quote_bytes(bytes).s);
}

// "wrote int4/encoder.onnx (522 kB), …", each as far as the user's folder; many data files as a range. Of a model that
// was there already the records may be other ones.
static void print_files(const struct run_report *r) {
  const struct run_files *files = &r->files;
  const bool same = r->out.unchanged, many = files->n_outputs - 1 > DATA_FILES_NAMED;
  const struct run_record *records[] = {&files->manifest, &files->tensors};
  bool was_same = same;
  printf("%s", same ? UNCHANGED : "wrote ");
  for (uint32_t k = 0; k < (many ? 1 : files->n_outputs); k++)
    printf("%s%s (%s)", k ? ", " : "", render_run_path(r, files->outputs[k].name).s,
           quote_bytes(files->outputs[k].size).s);
  if (many) print_data_files(r);
  for (uint32_t i = 0; i < sizeof records / sizeof *records; i++) {
    const struct run_record *f = records[i];
    if (!f->is_there) continue;
    const bool is_same = same && f->unchanged;
    printf("%s%s (%s)",
           is_same == was_same ? ", "
           : is_same           ? "; " UNCHANGED
                               : "; wrote ",
           render_run_path(r, f->name).s, quote_bytes(f->size).s);
    was_same = is_same;
  }
  printf("%s%s\n", r->needs.words ? "; " : "", r->needs.words ? r->needs.words : "");
}

// How to go on: as lines to paste.
static void print_plan(const struct run_work *w) {
  struct arena a = {0};
  const uint32_t shards = w->shards, units = w->units;
  const char *plan = shell_words_quote(w->staged, &a);
  printf("planned %s: %u unit%s of 64 MiB in %u shard%s", plan, units, plural(units), shards,
         plural(shards));
  if (w->stats.units_skipped)
    printf(", %s of them finished already", decimal(w->stats.units_skipped).s);
  printf("\n  make     weir shard %s --index I --count %u     (I: 0 to %u; on as many machines as "
         "you like)\n"
         "  look     weir status %s\n  finish   weir finalize %s\n",
         plan, shards, shards - 1, plan, plan);
  if (shards > units)
    report_notice("%u unit%s %s work for %u shard%s: the other %u %s nothing to do", units,
                  plural(units), units == 1 ? "is" : "are", units, plural(units), shards - units,
                  shards - units == 1 ? "has" : "have");
  arena_free(&a);
}

// Five lines at most, and one for each step where there are many.
void render_run_text(const struct run_report *r) {
  const bool dry = r->asked.dry;
  if (r->passes && r->passes->rank) render_rank_text(r->passes->rank);
  if (r->asked.shown->quiet) return;
  if (r->asked.forms && r->asked.forms->hint) r->asked.forms->hint(r);
  struct summary s = summary_of(r, !dry);
  if (r->told.line && r->verifying && !dry) render_verified_compatible(r->verifying);
  for (uint32_t i = 0; i < s.n_lines && report_stdout_alive(); i++)
    printf("%s\n", s.lines[i]);
  summary_free(&s);
  if (!r->told.line && !r->out.unwritten && r->verifying && !dry)
    render_verified(r->verifying, true);
  if ((r->told.line && !dry) || r->out.unwritten) return;
  if (dry)
    render_dry_run(r);
  else if (r->asked.plans)
    print_plan(&r->work);
  else if (!r->work.null)
    print_files(r);
}
