// A dry run's lines.
#include "base/size_words.h"
#include "render/runs/render_run.h"

#include <stdio.h>

static void print_files(const struct run_report *r) {
  const struct run_files *files = &r->files;
  const char *const records[] = {files->manifest.name, files->tensors.name};
  for (uint32_t k = 0; k < files->n_outputs; k++) {
    const struct run_file *f = &files->outputs[k];
    printf(f->size ? "  %s  %s\n" : "  %s\n", render_run_path(r, f->name).s,
           quote_bytes_exact(f->size).s);
  }
  for (uint32_t i = 0; i < 2; i++)
    if (records[i]) printf("  %s\n", render_run_path(r, records[i]).s);
}

void render_dry_run(const struct run_report *r) {
  const struct run_out *out = &r->out;
  const struct run_memory *m = &r->memory;
  const struct staging_space *space = &r->ahead.space;
  if (out->absent)
    printf("OUT not given: names and sizes are for an output with the input's name, in the same "
           "folder\n");
  printf("would write:\n");
  print_files(r);
  if (r->cost.packed) printf("compressed: ≈ %s (gzip -9)\n", quote_bytes(r->cost.packed).s);
  const char *writable = r->ahead.folder_writable ? "is writable" : "is NOT writable";
  if (!out->absent && !r->ahead.output_exists)
    printf("output: '%s' does not exist yet\n", quote_str(out->path).s);
  else if (!out->absent)
    printf("output: '%s' exists%s\n", quote_str(out->path).s,
           r->refusal ? "" : " and would be replaced");
  printf("folder: '%s' %s%s\n", quote_str(out->folder).s, writable,
         !out->folder_is_above ? ""
         : r->refusal          ? " (the nearest existing one)"
                      : " (the nearest existing one; the run creates the output's folder)");
  printf("disk needed: %s%s; ", quote_bytes_exact(space->needed_bytes).s,
         out->replaces ? ", in addition to the files to be replaced (they stay until the end)"
                       : "");
  printf(space->known ? "%s free\n" : "free space unknown\n",
         quote_bytes_exact(space->free_bytes).s);
  printf("peak memory: at most %s (index %s + --memory %s + program %s)\n", quote_bytes(m->limit).s,
         quote_bytes(m->index_peak).s, size_words_of(m->asked).s, quote_bytes(m->program).s);
  if (r->work.stats.jobs) printf("workers: %u, io: %s\n", r->work.stats.jobs, r->work.io);
  if (r->doubts.overflow || r->doubts.nonfinite)
    printf("not checked (a dry run reads only samples): %s%s%s\n",
           r->doubts.overflow ? "values too large for the new type" : "",
           r->doubts.overflow && r->doubts.nonfinite ? ", " : "",
           r->doubts.nonfinite ? "NaN and infinities" : "");
  if (r->verifying) printf("not verified (a dry run writes no model to run)\n");
  if (r->needs.words) printf("%s\n", r->needs.words);
  if (r->refusal) printf("this would fail with exit code %d\n", (int)r->refusal->kind);
}
