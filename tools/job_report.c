// What a writing command says of its work: JSON for programs, lines for people.
//
// The JSON object has sorted keys and two-space indentation. The command's own members come first in
// their places (conv2matmul: converted, nodes, skipped, as onnx-conv2matmul writes them); all that is
// common lies under "weir". Reports may name memory and engines; outputs and manifests never do.
#include "job.h"

#include "report.h"
#include "version.h"

#include <sys/resource.h>

// Peak resident memory of this process in bytes: VmHWM. (ru_maxrss would do, but survives exec: it may be that
// of whoever started us.)
static uint64_t peak_memory(void) {
  char line[256];
  unsigned long long kilobytes = 0;
  FILE *f = fopen("/proc/self/status", "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1) break;
  if (f) fclose(f);
  if (kilobytes) return kilobytes * 1024;
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_maxrss * 1024;
}

static void write_file(struct json_out *j, const char *name, uint64_t size) {
  json_object(j);
  json_key(j, "name");
  json_text(j, name);
  json_key(j, "size");
  json_uint(j, size);
  json_end_object(j);
}

static void write_inputs(const struct job *job, struct json_out *j) {
  json_key(j, "input");
  json_array(j);
  for (uint32_t i = 0; i < job->plan.n_sources; i++)
    write_file(j, job->plan.sources[i].name, job->plan.sources[i].size);
  json_end_array(j);
}

static void write_outputs(const struct job *job, struct json_out *j) {
  json_key(j, "output");
  json_array(j);
  for (uint32_t i = 0; i < job->plan.n_outputs; i++)
    write_file(j, job->plan.outputs[i].name, job->plan.outputs[i].size);
  json_end_array(j);
}

static void write_member(struct json_out *j, const char *key, uint64_t value) {
  json_key(j, key);
  json_uint(j, value);
}

static void write_common(const struct job *job, struct json_out *j) {
  char id[DIGEST_HEX];
  hex_encode(job->plan.id, DIGEST_BYTES, id);
  json_key(j, "weir");
  json_object(j);
  write_member(j, "bytes_cloned", job->stats.bytes_cloned);
  write_member(j, "bytes_written", job->stats.bytes_written);
  json_key(j, "dry_run");
  json_bool(j, job->nothing_to_write);
  write_member(j, "edits", job->edits.n);
  write_member(j, "index_bytes", job->index_bytes);
  write_inputs(job, j);
  json_key(j, "io");
  json_text(j, io_mode_name(job->mode));
  write_member(j, "jobs", job->stats.jobs);
  write_member(j, "memory_bytes", job->memory);
  write_outputs(job, j);
  write_member(j, "peak_memory_bytes", peak_memory());
  json_key(j, "plan_id");
  json_text(j, id);
  write_member(j, "source_bytes_read", job->stats.source_bytes_read);
  write_member(j, "units", plan_unit_count(&job->plan));
  write_member(j, "units_resumed", job->stats.units_skipped);
  json_key(j, "version");
  json_text(j, version_number());
  json_end_object(j);
}

void job_report_write(struct job *job, struct json_out *j) {
  json_object(j);
  if (job->report) job->report(job, j);
  if (!job->plain_report) write_common(job, j);
  json_end_object(j);
}

static uint64_t input_bytes(const struct plan *p) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < p->n_sources; i++)
    n += p->sources[i].size;
  return n;
}

static void print_dry_run(const struct job *job) {
  uint64_t bytes = plan_total_bytes(&job->plan);
  printf("would write:\n");
  for (uint32_t i = 0; i < job->plan.n_outputs; i++)
    printf("  %s  %s\n", quote_str(job->plan.outputs[i].name).s,
           report_size(job->plan.outputs[i].size).s);
  printf("disk needed: %s%s\n", report_size(bytes).s,
         job->replace ? ", beside the files that are replaced" : "");
  printf("peak memory: at most %s (index %s + --memory %s + program %s)\n",
         quote_bytes(job->index_bytes + job->memory + (16 << 20)).s,
         quote_bytes(job->index_bytes).s, quote_bytes(job->memory).s, quote_bytes(16 << 20).s);
}

void job_report_print(struct job *job) {
  if (job->print) job->print(job);
  if (job->nothing_to_write) {
    print_dry_run(job);
    return;
  }
  if (job->mode == IO_NULL || cli_flag(job->args, OPT_QUIET)) return;
  printf("input:  %s\noutput: %s in %u file%s\n", report_size(input_bytes(&job->plan)).s,
         report_size(plan_total_bytes(&job->plan)).s, job->plan.n_outputs,
         job->plan.n_outputs == 1 ? "" : "s");
  printf("peak memory: %s (index %s)\n", quote_bytes(peak_memory()).s,
         quote_bytes(job->index_bytes).s);
}
