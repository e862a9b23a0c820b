// A command line of 'weir calibrate' is put together from what the manifest says of the file ("calibration", the head of
// RANGES), and carried out here. What comes out is held to the recorded SHA-256.
#include "recalibrate.h"

#include "calibrate_job.h"
#include "found_file.h"
#include "fs.h"
#include "json.h"
#include "ranges.h"
#include "recorded.h"

#include <fcntl.h>
#include <unistd.h>

enum { WORDS_MAX = 4096 };

struct making {
  struct recalibrate *r;
  const struct recorded_places *places;
  struct own_rules own;
  const struct json_value *about;
  const char *word[WORDS_MAX + 1];
  int n;
};

static int remove_entry(void *ctx, const char *name) {
  const struct scratch *folder = ctx;
  (void)unlinkat(folder->fd, name, 0);
  return 0;
}

void recalibrate_end(struct recalibrate *r) {
  struct err ignored = {0};
  for (uint32_t i = 0; i < r->n_files; i++) {
    struct scratch *folder = &r->files[i].folder;
    (void)fs_list(folder->fd, remove_entry, folder, "the folder of ranges", &ignored);
    scratch_end(folder);
  }
  TABLE_FREE(r, files);
  arena_free(&r->arena);
}

static void add(struct making *m, const char *word) {
  if (m->n < WORDS_MAX) m->word[m->n++] = word;
}

static void add_pair(struct making *m, const char *option, const char *value) {
  add(m, arena_printf(&m->r->arena, "--%s=%s", option, value));
}

static void add_asked(struct making *m, enum cli_option option) {
  if (cli_given(m->r->args, option))
    add_pair(m, cli_option_row(option)->name, m->r->args->value[option].text);
}

static const char *text_of(struct making *m, const struct json_value *v, const char *key) {
  struct span s;
  return json_as_string(json_get(v, key), &s) ? arena_string(&m->r->arena, s) : NULL;
}

static const char *number_of(struct making *m, const struct json_value *v, const char *key) {
  uint64_t n;
  return json_as_uint(json_get(v, key), &n) ? arena_printf(&m->r->arena, "%lu", n) : NULL;
}

static bool is_set(const struct json_value *v, const char *key) {
  bool set = false;
  return json_as_bool(json_get(v, key), &set) && set;
}

static void add_method(struct making *m) {
  const struct json_value *a = m->about;
  const char *method = text_of(m, a, "method"), *bins = number_of(m, a, "bins");
  double percentile;
  const bool cuts = json_as_double(json_get(a, "percentile"), &percentile);
  if (cuts) method = arena_printf(&m->r->arena, "%s=%.17g", method, percentile);
  add_pair(m, "method", method);
  if (bins) add_pair(m, "bins", bins);
  if (is_set(a, "symmetric") != cuts) // magnitudes are what a percentile counts by itself
    add_pair(m, "symmetric", cuts ? "false" : "true");
  if (is_set(a, "moving_average")) add(m, "--moving-average");
}

static int add_samples(struct making *m, struct err *err) {
  const struct json_value *drawn = json_get(json_get(m->about, "options"), "generate");
  uint32_t n;
  const char *const *data = cli_list(m->r->args, OPT_DATA, &n);
  for (uint32_t i = 0; i < n; i++)
    add_pair(m, "data", data[i]);
  if (n > 0) {
    add_pair(m, "samples", number_of(m, json_get(m->about, "samples"), "n"));
    return 0;
  }
  const char *count = number_of(m, drawn, "n"), *seed = number_of(m, drawn, "seed");
  if (count && seed) {
    add_pair(m, "generate", count);
    add_pair(m, "seed", seed);
    return 0;
  }
  err_fill(err, ERR_USAGE, "the ranges were found on samples, and none are given");
  return err_hint(err, "--data names files of them, as for 'weir calibrate'");
}

static void add_options(struct making *m) {
  const struct json_value *options = json_get(m->about, "options");
  const char *statistics = text_of(m, options, "statistics");
  const struct json_value *e = json_first(json_get(options, "exclude"));
  struct span s;
  for (; e; e = json_next(e))
    if (json_as_string(e, &s)) add_pair(m, "exclude", arena_string(&m->r->arena, s));
  if (is_set(options, "skip_infinite")) add(m, "--skip-infinite");
  if (statistics) add_pair(m, "statistics", statistics);
  add_asked(m, OPT_ONNXRUNTIME);
  add_asked(m, OPT_JOBS);
  add_asked(m, OPT_MEMORY);
  if (cli_flag(m->r->args, OPT_ALLOW_LINKS)) add(m, "--allow-links");
}

static int take_passes(void *ctx, struct pipeline *p, struct err *err) {
  struct making *m = ctx;
  return recorded_take(p, &m->own, json_get(m->about, "passes"), m->places, err);
}

static int carry_out(struct making *m, struct err *err) {
  const struct calibrate_passes passes = {take_passes, m};
  struct cli_args args;
  struct calibrate_job job;
  int rc = cli_parse(&args, m->n, (char *const *)(uintptr_t)m->word, err);
  if (rc == 0) {
    rc = calibrate_job_run(&job, &args, &passes, err);
    calibrate_job_close(&job, false);
    own_rules_done(&m->own);
  }
  cli_free(&args);
  return rc;
}

// What is different in how they were found.
static int tell_other(struct making *m, const struct pass_value *v, const char *path,
                      struct err *err) {
  struct ranges now;
  struct err ignored = {0};
  const char *why = "the samples are the same, and so is the runtime: the model's weights are "
                    "others, or this machine's "
                    "arithmetic";
  uint8_t samples[DIGEST_BYTES];
  struct span hex, runtime;
  ranges_init(&now);
  if (ranges_read(&now, path, &ignored) == 0) {
    const struct json_value *was = json_get(m->about, "samples");
    if (json_as_string(json_get(m->about, "runtime"), &runtime) && !span_is(runtime, now.runtime))
      why = arena_printf(&m->r->arena, "they were found by ONNX Runtime %s, and this is %s",
                         quote(runtime).s, now.runtime);
    if (json_as_string(json_get(was, "sha256"), &hex) && hex_decode(hex, samples, sizeof samples) &&
        memcmp(samples, now.samples_sha256, sizeof samples) != 0)
      why = "the samples are others";
  }
  ranges_free(&now);
  err_fill(err, ERR_FAIL, "the ranges '%s', found again, are not those that were recorded: %s",
           quote_str(path_base(v->text)).s, why);
  return err_hint(err, "without --calibrate the recorded file is taken, by its SHA-256");
}

static const char *made_already(const struct recalibrate *r, const struct pass_value *v) {
  for (uint32_t i = 0; i < r->n_files; i++)
    if (strcmp(r->files[i].sha256, v->sha256) == 0 &&
        strcmp(path_base(r->files[i].path), path_base(v->text)) == 0)
      return r->files[i].path;
  return NULL;
}

static int make(struct making *m, struct pass_value *v, struct err *err) {
  struct recalibrate *r = m->r;
  struct recalibrated new = {.sha256 = v->sha256};
  const char *other;
  uint8_t sha256[DIGEST_BYTES];
  if (!hex_decode(span_str(v->sha256), sha256, sizeof sha256) || !text_of(m, m->about, "method"))
    return err_set(err, ERR_MODEL, "the manifest does not say how '%s' was found",
                   quote_str(v->text).s);
  if (scratch_make(&new.folder, "rebuild-ranges", &r->arena, err)) return -1;
  *TABLE_PUSH(r, files) = new;
  const uint32_t at = r->n_files - 1; // more come, if a pass before it reads ranges
  const char *path = arena_printf(&r->arena, "%s/%s", new.folder.path, path_base(v->text));
  r->files[at].path = path;
  add(m, "weir");
  add(m, "calibrate");
  add(m, "--quiet");
  add_pair(m, "output", path);
  add_method(m);
  add_options(m);
  if (add_samples(m, err)) return -1;
  add(m, "--");
  add(m, r->source);
  if (carry_out(m, err)) return -1;
  const struct found_file wanted = {v->text, FOUND_ANY_SIZE, sha256};
  if (!found_file_in(&wanted, &path, 1, &other)) return tell_other(m, v, path, err);
  v->text = path;
  return 0;
}

int recalibrate(struct recalibrate *r, struct pass_value *v, const struct recorded_places *places,
                struct err *err) {
  const char *made = made_already(r, v);
  if (made) {
    v->text = made;
    return 0;
  }
  struct json_value *about = json_parse(span_str(v->about ? v->about : "{}"), "the manifest", err);
  struct making *m = arena_zalloc(&r->arena, sizeof *m);
  *m = (struct making){.r = r, .about = about, .places = places};
  const int rc = about ? make(m, v, err) : -1;
  json_free(about);
  return rc;
}
