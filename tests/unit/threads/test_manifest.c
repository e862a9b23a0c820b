// The manifest: its form byte for byte, its order, what the audit finds, what a forged one may not
// do. (tests/support/check_manifest.py compares it with what other people's verifier computes.)
#include "platform/descriptor.h"
#include "suites.h"
#include "toy_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

// A plan of two outputs of these sizes, with digests that tell the unit.
struct small {
  struct plan plan;
  uint8_t digests[8][DIGEST_BYTES];
};

static void small_begin(struct small *s, const char *data, uint64_t n_data, const char *onnx,
                        uint64_t n_onnx) {
  memset(s, 0, sizeof *s);
  plan_own_recipes(&s->plan);
  toy_output(&s->plan, data);
  toy_segment(&s->plan, SEGMENT_ZERO, 0, 0, n_data);
  toy_output(&s->plan, onnx);
  toy_segment(&s->plan, SEGMENT_ZERO, 0, 0, n_onnx);
  s->plan.passes = "[]";
  s->plan.layout = "{}";
  for (uint8_t i = 0; i < 8; i++)
    s->digests[i][0] = i;
}

static int small_write(struct small *s, struct json_out *out, struct err *err) {
  static const char *const ignore[] = {"x.onnx.manifest.json", "x.onnx.tensors.jsonl"};
  const struct manifest_input in = {.plan = &s->plan,
                                    .unit_digests = (const uint8_t(*)[DIGEST_BYTES])s->digests,
                                    .ignore_paths = ignore,
                                    .n_ignore_paths = 2,
                                    .weir_version = "1.2.3"};
  return manifest_write(out, &in, err);
}

static void test_form(void **state) {
  (void)state;
  struct small s;
  struct err err = {0};
  struct json_out out = {0};
  small_begin(&s, "x.data", 5, "x.onnx", 7);
  s.plan.sources = table_grow(NULL, &s.plan.sources_cap, 1, sizeof *s.plan.sources);
  s.plan.sources[s.plan.n_sources++] = (struct plan_source){.name = "in.onnx", .size = 99};
  assert_int_equal(small_write(&s, &out, &err), 0);
#define ZEROS62 "00000000000000000000000000000000000000000000000000000000000000"
  assert_string_equal(
      out.text,
      "{\"_type\":\"https://in-toto.io/Statement/v1\",\"subject\":[{\"name\":\"x.onnx\",\"digest\":"
      "{\"sha256\":\"cb592844121d926f1ca3ad4e1d6fb9d8e260ed6e3216361f7732e975a0e8bbf6\"}}],"
      "\"predicateType\":\"https://model_signing/signature/v1.0\",\"predicate\":{\"serialization\":"
      "{\"method\":\"shards\",\"hash_type\":\"sha256\",\"shard_size\":67108864,"
      "\"allow_symlinks\":false,\"ignore_paths\":[\"x.onnx.manifest.json\","
      "\"x.onnx.tensors.jsonl\"]},\"resources\":[\n"
      "{\"name\":\"x.data:0:5\",\"algorithm\":\"sha256-sharded-67108864\",\"digest\":\"00" ZEROS62
      "\"},\n"
      "{\"name\":\"x.onnx:0:7\",\"algorithm\":\"sha256-sharded-67108864\",\"digest\":\"01" ZEROS62
      "\"}],\n"
      "\"x_weir\":{\"version\":1,\"weir\":\"1.2.3\",\"plan_id\":\"00" ZEROS62 "\",\"passes\":[],"
      "\"layout\":{},\"output\":\"x.onnx\",\"source\":{\"name\":\"in.onnx\",\"meta_sha256\":"
      "\"00" ZEROS62 "\",\"files\":[\n{\"name\":\"in.onnx\",\"size\":99,\"sha256\":null}]},"
      "\"layout_asked\":null,\"edits_sha256\":null,\"tensors_sha256\":null,\"artifacts\":[]}}}\n");
  json_done(&out);
  plan_free(&s.plan);
}

// Names in order of bytes whatever the plan's order, shards of a file by number and not by text.
static void test_order(void **state) {
  (void)state;
  struct small s;
  struct err err = {0};
  struct json_out out = {0};
  small_begin(&s, "z.data", 2 * PLAN_UNIT_BYTES + 1, "x.onnx", 7);
  assert_int_equal(small_write(&s, &out, &err), 0);
  const char *at[4] = {strstr(out.text, "x.onnx:0:7\""), strstr(out.text, "z.data:0:67108864\""),
                       strstr(out.text, "z.data:67108864:134217728\""),
                       strstr(out.text, "z.data:134217728:134217729\"")};
  for (int i = 0; i < 4; i++)
    assert_true(at[i] && (i == 0 || at[i] > at[i - 1]));
  json_done(&out);
  plan_free(&s.plan);
}

static void test_names_that_cannot_be_expressed(void **state) {
  (void)state;
  struct small s;
  struct err err = {0};
  struct json_out out = {0};
  assert_true(manifest_can_name("x y.onnx"));
  assert_false(manifest_can_name("a:b.onnx"));
  assert_false(manifest_can_name(""));
  small_begin(&s, "a:b.data", 5, "x.onnx", 7);
  assert_int_equal(small_write(&s, &out, &err), -1);
  assert_int_equal(err.kind, ERR_USAGE);
  json_done(&out);
  plan_free(&s.plan);
}

// ---- audit ----

static void make_output(void) {
  struct toy_shape shape = toy_shape(&toy);
  struct toy_job job;
  struct staging st;
  struct seal_report report;
  struct err err = {0};
  enum staging_resume how;
  const struct staging_options options = toy_staging(&toy, false);
  toy_begin(&job, &shape);
  toy_must(staging_open(&st, &job.plan, job.sources, &options, &how, NULL, 0, &err) == 0, err.msg);
  toy_must(toy_run(&job, &st, &err) == 0, err.msg);
  toy_must(toy_seal(&job, &st, false, &report, &err) == 0, err.msg);
  toy_end(&job);
}

struct damages {
  int n;
  char text[4][300];
};

static void note_damage(void *ctx, const struct audit_damage *d) {
  struct damages *all = ctx;
  assert_true(all->n < 4);
  snprintf(all->text[all->n++], 300, "%s %llu+%llu %s", d->file, (unsigned long long)d->off,
           (unsigned long long)d->len, d->what);
}

// Of the output and its manifest, which has to be about this model.
static int audit_of(const char *model, const struct audit_options *options,
                    struct audit_result *result, struct err *err) {
  struct manifest m;
  static const char name[] = "x.onnx.manifest.json";
  const int dir = open(toy.dest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(dir >= 0);
  int rc = manifest_read(
      &m, &(struct manifest_at){folder_of_descriptor(dir), name, name, model, NULL}, err);
  if (rc == 0) {
    assert_string_equal(m.subject, "x.onnx");
    rc = manifest_audit(&m, folder_of_descriptor(dir), options, result, err);
    manifest_free(&m);
  }
  close(dir);
  return rc;
}

static int audit(struct damages *damages, struct audit_result *result, struct err *err) {
  memset(damages, 0, sizeof *damages);
  memset(err, 0, sizeof *err);
  const struct audit_options options = {
      .shown = "x", .jobs = 3, .damage = note_damage, .ctx = damages};
  return audit_of("x.onnx", &options, result, err);
}

static void test_audit(void **state) {
  (void)state;
  struct damages d;
  struct audit_result r;
  struct err err;
  make_output();
  assert_int_equal(audit(&d, &r, &err), 0);
  assert_int_equal(d.n, 0);
  assert_int_equal(r.files, 2);
  assert_int_equal(r.shards, 2);
  assert_int_equal(r.damaged, 0);
  size_t n = 0;
  uint8_t *data = toy_read(toy.dest, "x.onnx.data", &n);
  assert_int_equal(r.bytes, n + 66081);
  data[n / 2] ^= 1;
  toy_write(toy.dest, "x.onnx.data", data, n);
  assert_int_equal(audit(&d, &r, &err), 0);
  assert_int_equal(r.damaged, 1);
  assert_string_equal(d.text[0], "x.onnx.data 0+2845095 digest differs");
  toy_write(toy.dest, "x.onnx.data", data, 10);
  assert_int_equal(audit(&d, &r, &err), 0);
  assert_int_equal(r.damaged, 1);
  assert_string_equal(d.text[0], "x.onnx.data 0+2845095 file is too short: 10 of 2845095 bytes");
  data[n / 2] ^= 1;
  data[n] = 'x';
  toy_write(toy.dest, "x.onnx.data", data, n + 1);
  assert_int_equal(audit(&d, &r, &err), 0);
  assert_string_equal(d.text[0],
                      "x.onnx.data 2845095+1 file is too long: 2845096 instead of 2845095 bytes");
  char path[200];
  snprintf(path, sizeof path, "%s/x.onnx.data", toy.dest);
  unlink(path);
  assert_int_equal(audit(&d, &r, &err), 0);
  assert_int_equal(r.damaged, 1);
  assert_int_equal(d.n, 1);
  assert_string_equal(d.text[0], "x.onnx.data 0+2845095 file is missing");
  free(data);
}

static void test_audit_stops(void **state) {
  (void)state;
  struct audit_result r;
  struct err err = {0};
  const volatile int stop = 1;
  make_output();
  const struct audit_options options = {.shown = "x", .stop = &stop};
  assert_int_equal(audit_of(NULL, &options, &r, &err), -1);
  assert_int_equal(err.kind, ERR_RETRY);
  err = (struct err){0};
  assert_int_equal(audit_of("y.onnx", &options, &r, &err), -1);
  assert_int_equal(err.kind, ERR_MODEL);
  assert_string_equal(err.msg, "the manifest 'x.onnx.manifest.json' is for 'x.onnx'");
}

// ---- forged manifests ----

// Replaces `from` by `to` in the manifest on disk and audits it.
static enum err_kind forged(const char *from, const char *to) {
  size_t n = 0;
  char *text = (char *)toy_read(toy.dest, "x.onnx.manifest.json", &n);
  char *at = strstr(text, from), *changed = malloc(n + strlen(to) + 1);
  assert_non_null(at);
  const size_t before = (size_t)(at - text);
  memcpy(changed, text, before);
  strcpy(changed + before, to);
  strcat(changed, at + strlen(from));
  toy_write(toy.dest, "x.onnx.manifest.json", changed, strlen(changed));
  struct damages d;
  struct audit_result r;
  struct err err;
  const int bad = audit(&d, &r, &err);
  toy_write(toy.dest, "x.onnx.manifest.json", text, n);
  free(text);
  free(changed);
  return bad ? err.kind : ERR_NONE;
}

static void test_forged_manifests(void **state) {
  (void)state;
  struct damages d;
  struct audit_result r;
  struct err err;
  assert_int_equal(audit(&d, &r, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT); // there is none
  make_output();
  static const char *const pairs[][2] = {
      {"Statement/v1", "Statement/v2"},
      {"\"shards\"", "\"files\""},
      {"\"x_weir\"", "\"y_weir\""},
      {"\"x.onnx:0:", "\"../x.onnx:0:"},
      {"\"x.onnx:0:", "\"x.onnx:1:"},
      {"\"x.onnx:0:", "\"x.onnx:18446744073709551616:"},
      {"\"x.onnx:0:", "\"x.onnx:-1:"},
      {"\"x.onnx:0:", "\"..:0:"},
      {"\"x.onnx.data:0:", "\"x.onnx:0:"},
      {"\"plan_id\":\"", "\"plan_id\":\"zz"},
      {"\"digest\":{\"sha256\":\"", "\"digest\":{\"sha256\":\"0"},
      {"\"resources\":[", "\"resources\":[7,"},
      {"{\"_type\"", "{\"_type\":1,\"_type\""},
      {"\"output\":\"x.onnx\"", "\"output\":\"y.onnx\""},
      {"[{\"name\":\"x.onnx\"", "[{\"name\":\"y.onnx\""},
      {"\"sha256-sharded-67108864\"", "\"sha256\""},
      {"\"sha256-sharded-67108864\"", "\"md5\""},
      {"\"sha256-sharded-67108864\"", "7"},
      {"\"shard_size\":67108864", "\"shard_size\":0"},
      {"\"shard_size\":67108864", "\"shard_size\":-5"},
      {"\"shard_size\":67108864", "\"shard_size\":1.5"},
      {"\"shard_size\":67108864", "\"shard_size\":\"67108864\""},
      {"\"shard_size\":67108864", "\"shard_size\":1000"},
      {"\"shard_size\":67108864,", ""},
      {"}}}", "}}"},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
    assert_int_equal(forged(pairs[i][0], pairs[i][1]), ERR_MODEL);
  assert_int_equal(forged("\"edits_sha256\":null", "\"edits_sha256\":\"no\""), ERR_NONE); // control
}

// One digit of a digest: the root no longer fits.
static void test_root_digest(void **state) {
  (void)state;
  make_output();
  size_t n = 0;
  char *text = (char *)toy_read(toy.dest, "x.onnx.manifest.json", &n);
  char *digest = strstr(strstr(text, "x.onnx.data:0:"), "\"digest\":\"") + 10;
  *digest = *digest == '0' ? '1' : '0';
  toy_write(toy.dest, "x.onnx.manifest.json", text, n);
  struct damages d;
  struct audit_result r;
  struct err err;
  assert_int_equal(audit(&d, &r, &err), -1);
  assert_int_equal(err.kind, ERR_MODEL);
  assert_non_null(strstr(err.msg, "root digest"));
  free(text);
}

int test_manifest(void) {
  const char *word = suite_argument(1);
  if (word && strcmp(word, "keep") == 0) { // leaves an output for check_manifest.py
    toy_open(&toy);
    make_output();
    printf("%s\n", toy.dest);
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_form),
      cmocka_unit_test(test_order),
      cmocka_unit_test(test_names_that_cannot_be_expressed),
      cmocka_unit_test_setup_teardown(test_audit, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_audit_stops, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_forged_manifests, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_root_digest, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
