// The end of a run: records of what was made, then the seal.
//
//   units ──▶ OUT.tensors.jsonl, OUT.manifest.json ──▶ seal_run: renames ──▶ in place
//
// Everything that the records say comes from the plan and the unit digests in the staging folder,
// so a process that made none of the units can do this as well. With the null engine the manifest
// is printed and nothing is moved.
#include "put_in_place.h"

#include "companion.h"
#include "hash_source.h"
#include "manifest.h"
#include "report.h"
#include "version.h"

static int put_lines(void *ctx, struct span text, struct err *err) {
  return companion_add(ctx, text, err);
}

static int list_tensors(const struct put_in_place *x, const struct staging *st,
                        struct companion **tensors, struct err *err) {
  char name[256];
  manifest_tensors_name(name, x->onnx_name);
  if (companion_open(tensors, st->folder, name, err)) return -1;
  const struct run_lines lines = {put_lines, *tensors};
  if (run_tensor_digests(x->plan, x->sources, st, &x->work, lines, err)) return -1;
  return companion_end(*tensors, err);
}

// With the digests of units, of the companion (NULL: there is none) and of the inputs (NULL: not
// wanted).
static int put_manifest(const struct put_in_place *x, const uint8_t (*units)[DIGEST_BYTES],
                        const uint8_t *tensors, const char *const *inputs, struct json_out *out,
                        struct err *err) {
  char own[256], companion[256], tensors_hex[DIGEST_HEX];
  manifest_name(own, x->onnx_name);
  manifest_tensors_name(companion, x->onnx_name);
  if (tensors) hex_encode(tensors, DIGEST_BYTES, tensors_hex);
  const char *const ignore[2] = {own, companion};
  const struct manifest_input in = {.plan = x->plan,
                                    .unit_digests = units,
                                    .edits_sha256 = x->edits_sha256,
                                    .tensors_sha256 = tensors ? tensors_hex : NULL,
                                    .ignore_paths = ignore,
                                    .n_ignore_paths = tensors ? 2 : 1,
                                    .weir_version = version_number,
                                    .source_sha256 = inputs};
  return manifest_write(out, &in, err);
}

static int write_manifest(const struct put_in_place *x, const struct staging *st,
                          const struct companion *tensors, struct json_out *out, struct err *err) {
  const uint32_t n_inputs = x->hash_inputs ? sources_count(x->sources) : 0;
  struct arena a = {0};
  char(*hex)[DIGEST_HEX] = arena_alloc(&a, n_inputs * sizeof *hex + 1);
  const char **inputs = arena_alloc(&a, n_inputs * sizeof *inputs + 1);
  int rc = 0;
  for (uint32_t i = 0; i < n_inputs && rc == 0; i++) {
    uint8_t sum[DIGEST_BYTES];
    rc = hash_source(x->sources, i, sum, err);
    hex_encode(sum, sizeof sum, hex[i]);
    inputs[i] = hex[i];
  }
  if (rc == 0)
    rc = put_manifest(x, (const uint8_t(*)[DIGEST_BYTES])st->digests,
                      tensors ? companion_sha256(tensors) : NULL, x->hash_inputs ? inputs : NULL,
                      out, err);
  arena_free(&a);
  return rc;
}

// Digests are as long whatever they are.
int put_in_place_bytes(const struct put_in_place *x, uint64_t *bytes, struct err *err) {
  static const uint8_t any[DIGEST_BYTES];
  char hex[DIGEST_HEX];
  const uint32_t n_inputs = sources_count(x->sources);
  const uint64_t n_units = plan_unit_count(x->plan);
  struct arena a = {0};
  const uint8_t(*units)[DIGEST_BYTES] = arena_zalloc(&a, (n_units + (size_t)1) * DIGEST_BYTES);
  const char **inputs = arena_alloc(&a, n_inputs * sizeof *inputs + 1);
  struct json_out out = {0};
  int rc = 0;
  hex_encode(any, DIGEST_BYTES, hex);
  for (uint32_t i = 0; i < n_inputs; i++)
    inputs[i] = hex;
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

void put_in_place_say_left(const struct seal_report *report) {
  for (enum seal_kept why = 0; why < SEAL_KEPT_REASONS; why++) {
    const struct seal_kept_files *kept = &report->kept[why];
    const struct reason reason = why_kept(why, kept);
    if (kept->n == 1) report_notice("the old data file %s was kept: %s", kept->names, reason.s);
    if (kept->n > 1)
      report_notice("%u old data files were kept, such as %s: %s", kept->n, kept->names, reason.s);
  }
}

int put_in_place(const struct put_in_place *x, struct staging *st, bool *unchanged,
                 struct err *err) {
  struct companion *tensors = NULL; // NULL: not wanted
  struct json_out manifest = {0};
  struct seal_report report = {0};
  int rc = 0;
  if (x->tensor_digests) rc = list_tensors(x, st, &tensors, err);
  if (rc == 0 && x->manifest) rc = write_manifest(x, st, tensors, &manifest, err);
  if (rc == 0 && x->work.mode == IO_NULL) {
    if (x->manifest) report_text(manifest.text, manifest.n);
    rc = staging_remove(st, err);
  } else if (rc == 0) {
    const struct seal_options options = {.replace = x->replace,
                                         .manifest = x->manifest ? manifest.text : NULL,
                                         .manifest_bytes = manifest.n,
                                         .tensors = tensors};
    rc = kept_report_put(st, x->report, err);
    if (rc == 0) rc = kept_report_put_page(st, &x->page, err);
    if (rc == 0) rc = seal_run(st, x->plan, &options, &report, err);
  }
  *unchanged = rc == 0 && report.unchanged;
  put_in_place_say_left(&report);
  json_done(&manifest);
  companion_close(tensors);
  return rc;
}
