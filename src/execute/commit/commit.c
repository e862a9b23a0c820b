//   units ──▶ OUT.tensors.jsonl, OUT.manifest.json, provenance ──▶ seal_run: renames ──▶ in place
//
// Everything that the records say comes from the plan and the unit digests in the staging folder,
// so a process that made none of the units can do this as well. With the null engine the manifest
// is printed and nothing is moved.
#include "execute/commit/commit.h"

#include "base/version_number.h"
#include "execute/commit/provenance.h"
#include "stream/io/hash_source.h"
#include "stream/seal/companion.h"
#include "stream/seal/manifest.h"
#include "stream/sys/reread_files.h"

#include <errno.h>

static int put_lines(void *ctx, struct span text, struct err *err) {
  return companion_add(ctx, text, err);
}

static int list_tensors(const struct commit *x, const struct staging *st,
                        struct companion **tensors, struct err *err) {
  const struct manifest_names beside = manifest_names(x->onnx_name);
  if (companion_open(tensors, st->folder, beside.tensors, err)) return -1;
  const struct run_lines lines = {put_lines, *tensors};
  if (run_tensor_digests(x->plan, x->sources, st, &x->work, lines, err)) return -1;
  return companion_end(*tensors, err);
}

// With the digests of units, of the companion (NULL: there is none) and of the inputs (NULL: not
// wanted).
static int put_manifest(const struct commit *x, const uint8_t (*units)[DIGEST_BYTES],
                        const uint8_t *tensors, const char *const *inputs, struct json_out *out,
                        struct err *err) {
  const struct manifest_names beside = manifest_names(x->onnx_name);
  struct digest_hex tensors_hex;
  if (tensors) tensors_hex = digest_hex(tensors);
  const char *const ignore[2] = {beside.manifest, beside.tensors};
  const struct manifest_input in = {.plan = x->plan,
                                    .unit_digests = units,
                                    .edits_sha256 = x->edits_sha256,
                                    .layout_asked = x->layout_asked,
                                    .tensors_sha256 = tensors ? tensors_hex.s : NULL,
                                    .ignore_paths = ignore,
                                    .n_ignore_paths = tensors ? 2 : 1,
                                    .weir_version = version_number,
                                    .source_sha256 = inputs};
  return manifest_write(out, &in, err);
}

// In hex, of each source; they are read once more. NULL: not wanted.
static int hash_inputs(const struct commit *x, const char *const **out, struct arena *a,
                       struct err *err) {
  const uint32_t n = sources_count(x->sources);
  const char **inputs = arena_alloc(a, n * sizeof *inputs + 1);
  *out = NULL;
  if (!x->hash_inputs && !x->provenance) return 0;
  for (uint32_t i = 0; i < n; i++) {
    uint8_t sum[DIGEST_BYTES];
    if (hash_source(x->sources, i, x->work.stop, sum, err)) return -1;
    inputs[i] = digest_hex_in(a, sum);
  }
  *out = inputs;
  return 0;
}

// Digests of whole outputs. One of a single unit has that of the unit, and is not read.
static int hash_outputs(const struct commit *x, const struct staging *st,
                        uint8_t (*sha256)[DIGEST_BYTES], struct arena *a, struct err *err) {
  const struct plan *p = x->plan;
  const struct reread_work work = {.jobs = x->work.jobs,
                                   .stop = x->work.stop,
                                   .tick = observer_tick_bytes,
                                   .ctx = x->work.observer};
  bool *known = arena_zalloc(a, p->n_outputs);
  struct reread_file *files = arena_zalloc(a, p->n_outputs * sizeof *files);
  struct reread_known *parts = arena_zalloc(a, p->n_outputs * sizeof *parts);
  uint32_t *of = arena_alloc(a, p->n_outputs * sizeof *of), n = 0;
  int rc = 0;
  for (uint32_t unit = 0; unit < st->n_units; unit++) {
    const struct plan_unit u = plan_unit_at(p, unit);
    if (u.len != p->outputs[u.output].size) continue;
    memcpy(sha256[u.output], st->digests[unit], DIGEST_BYTES);
    known[u.output] = true;
  }
  for (uint32_t i = 0; i < p->n_outputs && rc == 0; i++) {
    const struct plan_output *out = &p->outputs[i];
    if (known[i]) continue;
    struct file fd = file_open(st->folder, out->name, FILE_NO_LINK);
    if (!file_is_open(fd)) {
      rc = err_errno(err, errno, ERR_IO, "cannot open '%s' in '%s'", quote_str(out->name).s,
                     quote_str(st->name).s);
      break;
    }
    parts[n] = (struct reread_known){.file = fd, .len = out->size};
    files[n] = (struct reread_file){.name = out->name, .parts = &parts[n], .n_parts = 1};
    of[n++] = i;
  }
  observer_begin(x->work.observer, "hashing");
  if (rc == 0) rc = reread_files(files, n, &work, err);
  observer_end(x->work.observer);
  while (n-- > 0) {
    memcpy(sha256[of[n]], files[n].sha256, DIGEST_BYTES);
    file_close(&parts[n].file);
  }
  return rc;
}

static int write_provenance(const struct commit *x, const struct staging *st,
                            const struct companion *tensors, const char *const *inputs,
                            const struct json_out *manifest, struct arena *a, struct err *err) {
  const uint32_t n = x->plan->n_outputs;
  uint8_t(*sums)[DIGEST_BYTES] = arena_zalloc(a, n * sizeof *sums);
  const char **outputs = arena_alloc(a, n * sizeof *outputs);
  const struct manifest_names beside = manifest_names(x->onnx_name);
  uint8_t sum[DIGEST_BYTES];
  if (hash_outputs(x, st, sums, a, err)) return -1;
  for (uint32_t i = 0; i < n; i++)
    outputs[i] = digest_hex_in(a, sums[i]);
  if (x->manifest) digest_of(manifest->text, manifest->n, sum);
  const struct provenance_input in = {
      .plan = x->plan,
      .source_sha256 = inputs,
      .output_sha256 = outputs,
      .edits_sha256 = x->edits_sha256,
      .manifest = x->manifest ? beside.manifest : NULL,
      .manifest_sha256 = x->manifest ? digest_hex_in(a, sum) : NULL,
      .tensors = tensors ? beside.tensors : NULL,
      .tensors_sha256 = tensors ? digest_hex_in(a, companion_sha256(tensors)) : NULL,
      .weir_version = version_number};
  provenance_write(x->provenance, &in);
  return 0;
}

static int write_records(const struct commit *x, const struct staging *st,
                         const struct companion *tensors, struct json_out *manifest,
                         struct err *err) {
  struct arena a = {0};
  const char *const *inputs;
  int rc = hash_inputs(x, &inputs, &a, err);
  if (rc == 0 && x->manifest)
    rc = put_manifest(x, (const uint8_t(*)[DIGEST_BYTES])st->digests,
                      tensors ? companion_sha256(tensors) : NULL, x->hash_inputs ? inputs : NULL,
                      manifest, err);
  if (rc == 0 && x->provenance && x->work.mode != IO_NULL)
    rc = write_provenance(x, st, tensors, inputs, manifest, &a, err);
  arena_free(&a);
  return rc;
}

// Digests are as long whatever they are.
int commit_bytes(const struct commit *x, uint64_t *bytes, struct err *err) {
  static const uint8_t any[DIGEST_BYTES];
  const struct digest_hex hex = digest_hex(any);
  const uint32_t n_inputs = sources_count(x->sources);
  const uint64_t n_units = plan_unit_count(x->plan);
  struct arena a = {0};
  const uint8_t(*units)[DIGEST_BYTES] = arena_zalloc(&a, (n_units + (size_t)1) * DIGEST_BYTES);
  const char **inputs = arena_alloc(&a, n_inputs * sizeof *inputs + 1);
  struct json_out out = {0};
  int rc = 0;
  for (uint32_t i = 0; i < n_inputs; i++)
    inputs[i] = hex.s;
  *bytes = x->tensor_digests ? run_tensor_digests_bytes(x->plan) : 0;
  if (x->manifest)
    rc = put_manifest(x, units, x->tensor_digests ? any : NULL, x->hash_inputs ? inputs : NULL,
                      &out, err);
  *bytes += out.n;
  json_done(&out);
  arena_free(&a);
  return rc;
}

struct reason {
  char s[300];
};

// Only what is known: that no manifest lists a file does not say who wrote it.
static struct reason why_kept(enum seal_kept why, const struct seal_kept_files *kept) {
  const bool one = kept->n == 1;
  struct reason text;
  if (why == SEAL_KEPT_UNLISTED)
    snprintf(text.s, sizeof text.s,
             "the old model has no manifest that lists %s; delete %s if nothing else uses %s",
             one ? "it" : "them", one ? "it" : "them", one ? "it" : "them");
  else if (why == SEAL_KEPT_UNSURE)
    snprintf(text.s, sizeof text.s,
             "the old model cannot be read, so weir does not know whether %s its data; delete %s "
             "if nothing else uses %s",
             one ? "it was" : "they were", one ? "it" : "them", one ? "it" : "them");
  else if (why == SEAL_KEPT_USED)
    snprintf(text.s, sizeof text.s,
             one ? "'%s' uses it too" : "other models, such as '%s', use them too",
             quote_str(kept->who).s);
  else
    snprintf(text.s, sizeof text.s, "another model may use %s, but %s%s%s cannot be read",
             one ? "it" : "them", kept->who[0] ? "'" : "the folder",
             kept->who[0] ? quote_str(kept->who).s : "", kept->who[0] ? "'" : "");
  return text;
}

void commit_say_left(struct observer *o, const struct seal_report *report) {
  if (report->left[0]) {
    observer_warning(o, "the output is in place, but its staging folder could not be removed: %s",
                     report->left);
    observer_hint(o, "'weir clean' lists and removes it");
  }
  for (enum seal_kept why = 0; why < SEAL_KEPT_REASONS; why++) {
    const struct seal_kept_files *kept = &report->kept[why];
    const struct reason reason = why_kept(why, kept);
    const char *old = why == SEAL_KEPT_UNSURE ? "" : "old data ";
    if (kept->n == 1) observer_notice(o, "the %sfile %s was kept: %s", old, kept->names, reason.s);
    if (kept->n > 1)
      observer_notice(o, "%u %sfiles were kept, such as %s: %s", kept->n, old, kept->names,
                      reason.s);
  }
}

int commit_outputs(const struct commit *x, struct staging *st, struct commit_unchanged *unchanged,
                   struct err *err) {
  struct companion *tensors = NULL; // NULL: not wanted
  struct json_out manifest = {0};
  struct seal_report report = {0};
  int rc = 0;
  if (x->tensor_digests) rc = list_tensors(x, st, &tensors, err);
  if (rc == 0 && (x->manifest || x->provenance)) rc = write_records(x, st, tensors, &manifest, err);
  if (rc == 0 && x->work.mode == IO_NULL) {
    if (x->manifest) observer_data(x->work.observer, span_of(manifest.text, manifest.n));
    rc = staging_remove(st, err);
  } else if (rc == 0) {
    const struct seal_options options = {.replace = x->replace,
                                         .manifest = x->manifest ? manifest.text : NULL,
                                         .manifest_bytes = manifest.n,
                                         .tensors = tensors,
                                         .refers = x->refers};
    const struct json_out *made = x->provenance;
    rc = kept_report_put(st, STAGING_REPORT, x->report, err);
    if (rc == 0)
      rc = kept_report_put(st, STAGING_PROVENANCE,
                           made ? span_of(made->text, made->n) : span_of(NULL, 0), err);
    if (rc == 0) rc = kept_report_put_page(st, &x->page, err);
    sources_let_go(x->sources); // the seal may replace them
    if (rc == 0) rc = seal_run(st, x->plan, &options, &report, err);
  }
  *unchanged = (struct commit_unchanged){0};
  if (rc == 0)
    *unchanged =
        (struct commit_unchanged){report.unchanged, report.same_manifest, report.same_tensors};
  commit_say_left(x->work.observer, &report);
  json_done(&manifest);
  companion_close(tensors);
  return rc;
}
