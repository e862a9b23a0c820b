// A command line of 'weir calibrate' is put together from what the manifest says of the file ("calibration", the head of
// RANGES), and carried out here. What comes out is held to the recorded SHA-256.
#include "rebuild/recalibrate.h"

#include "base/version_number.h"
#include "calibrate/calibrate_job.h"
#include "json/json.h"
#include "ranges/ranges.h"
#include "rebuild/recorded.h"
#include "stream/sys/file_lookup.h"
#include "stream/sys/fs.h"

enum { WORDS_MAX = 4096 };

struct making {
  struct recalibrate *r;
  const struct recorded_places *places;
  const struct json_value *about;
  const char *word[WORDS_MAX + 1];
  int n;
};

void recalibrate_end(struct recalibrate *r) {
  for (uint32_t i = 0; i < r->n_files; i++) {
    struct scratch *folder = &r->files[i].folder;
    fs_remove_files(folder->at);
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

static void add_asked(struct making *m, const char *option, const char *value) {
  if (value) add_pair(m, option, value);
}

static const char *text_of(struct making *m, const struct json_value *v, const char *key) {
  struct span s;
  return json_as_string(json_get(v, key), &s) ? arena_string(&m->r->arena, s) : NULL;
}

static const char *number_of(struct making *m, const struct json_value *v, const char *key) {
  uint64_t n;
  return json_as_uint(json_get(v, key), &n) ? arena_printf(&m->r->arena, "%s", decimal(n).s) : NULL;
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
  if (is_set(a, "cube_roots")) method = "distribution=p3";
  if (cuts) method = arena_printf(&m->r->arena, "%s=%.17g", method, percentile);
  add_pair(m, "method", method);
  if (bins) add_pair(m, "bins", bins);
  if (is_set(a, "symmetric") != cuts) // magnitudes are what a percentile counts by itself
    add_pair(m, "symmetric", cuts ? "false" : "true");
  if (is_set(a, "moving_average")) add(m, "--moving-average");
}

// Those that were drawn are drawn again, whatever others are given for other files.
static int add_samples(struct making *m, struct err *err) {
  const struct json_value *drawn = json_get(json_get(m->about, "options"), "generate");
  const char *count = number_of(m, drawn, "n"), *seed = number_of(m, drawn, "seed");
  const char *taken = number_of(m, json_get(m->about, "samples"), "n");
  if (count && seed) {
    add_pair(m, "generate", count);
    add_pair(m, "seed", seed);
    return 0;
  }
  for (uint32_t i = 0; i < m->r->n_data; i++)
    add_pair(m, "data", m->r->data[i]);
  if (m->r->n_data > 0 && taken) {
    add_pair(m, "samples", taken);
    return 0;
  }
  err_fill(err, ERR_USAGE, "the ranges were measured on samples, but no samples are given");
  return err_hint(err, "name the sample files with --data, as for 'weir calibrate'");
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
  add_asked(m, "onnxruntime", m->r->library);
  add_asked(m, "jobs", m->r->jobs);
  add_asked(m, "memory", m->r->memory);
  if (m->r->allow_links) add(m, "--allow-links");
}

// Rules of one's own are none of 'weir calibrate'.
static int take_passes(void *ctx, struct pipeline *p, struct err *err) {
  struct making *m = ctx;
  struct user_rules none = {.n_texts = 0};
  const struct json_value *passes = json_get(m->about, "passes");
  if (json_get(json_get(json_first(passes), "options"), "rules"))
    return err_set(err, ERR_MODEL,
                   "the manifest says that ranges were measured with a user's own rules");
  return recorded_take(p, &none, passes, m->places, err);
}

static int carry_out(struct making *m, struct err *err) {
  const struct json_value *source = json_get(m->about, "source");
  const struct calibrate_record record = {.take = take_passes,
                                          .ctx = m,
                                          .meta_sha256 = text_of(m, source, "meta_sha256"),
                                          .weir = text_of(m, m->about, "weir"),
                                          .source = text_of(m, source, "name")};
  if (!record.meta_sha256 || !record.weir || !record.source || m->n == WORDS_MAX)
    return err_set(err, ERR_MODEL, "the manifest's record of the calibration cannot be read");
  return m->r->run(m->word, m->n, &record, err);
}

// What is different in how they were found.
static int tell_other(struct making *m, const struct pass_value *v, const char *path,
                      struct err *err) {
  struct ranges now;
  struct err ignored = {0};
  const char *why = "the samples and the runtime are the same, so the model's weights or this "
                    "machine's arithmetic differ";
  uint8_t samples[DIGEST_BYTES];
  struct span hex, runtime;
  const char *weir = text_of(m, m->about, "weir");
  ranges_init(&now);
  if (ranges_read(&now, path, &ignored) == 0) {
    const struct json_value *was = json_get(m->about, "samples");
    if (weir && strcmp(weir, version_number) != 0)
      why = arena_printf(&m->r->arena, "they were measured by weir %s, but this is %s",
                         quote_str(weir).s, version_number);
    if (json_as_string(json_get(m->about, "runtime"), &runtime) && !span_is(runtime, now.runtime))
      why = arena_printf(&m->r->arena, "they were measured by ONNX Runtime %s, but this is %s",
                         quote(runtime).s, now.runtime);
    if (json_as_string(json_get(was, "sha256"), &hex) && hex_decode(hex, samples, sizeof samples) &&
        memcmp(samples, now.samples_sha256, sizeof samples) != 0)
      why = "the samples differ";
  }
  ranges_free(&now);
  err_fill(err, ERR_FAIL, "the ranges '%s', measured again, differ from the recorded ones: %s",
           quote_str(path_base(v->text)).s, why);
  return err_hint(err,
                  "without --calibrate, weir uses the recorded file, which it finds by SHA-256");
}

static struct recalibrated *find_file(struct recalibrate *r, const uint8_t sha256[DIGEST_BYTES],
                                      const char *name) {
  for (uint32_t i = 0; i < r->n_files; i++)
    if (memcmp(r->files[i].sha256, sha256, DIGEST_BYTES) == 0 &&
        strcmp(path_base(r->files[i].path), name) == 0)
      return &r->files[i];
  return NULL;
}

static int make(struct making *m, const struct pass_value *v, const uint8_t sha256[DIGEST_BYTES],
                const char *path, struct err *err) {
  const struct file_lookup wanted = {v->text, FILE_LOOKUP_ANY_SIZE, sha256};
  const char *other;
  if (!text_of(m, m->about, "method"))
    return err_set(err, ERR_MODEL, "the manifest does not say how '%s' was found",
                   quote_str(v->text).s);
  add(m, "weir");
  add(m, "calibrate");
  add(m, "--quiet");
  add_pair(m, "output", path);
  add_method(m);
  add_options(m);
  if (add_samples(m, err)) return -1;
  add(m, "--");
  add(m, m->r->source);
  if (carry_out(m, err)) return -1;
  return file_lookup_in(&wanted, &path, 1, &other) ? 0 : tell_other(m, v, path, err);
}

int recalibrate(struct recalibrate *r, struct pass_value *v, const struct recorded_places *places,
                struct err *err) {
  struct recalibrated new = {.made = false};
  const char *name = arena_string(&r->arena, span_str(path_base(v->text)));
  if (!hex_decode(span_str(v->sha256), new.sha256, sizeof new.sha256))
    return err_set(err, ERR_MODEL, "a file's digest is not 64 hexadecimal digits");
  struct recalibrated *there = find_file(r, new.sha256, name);
  if (there && !there->made)
    return err_set(err, ERR_MODEL, "the manifest says that '%s' was found with itself",
                   quote_str(name).s);
  if (there) {
    v->text = there->path;
    return 0;
  }
  struct json_value *about = json_parse(span_str(v->about ? v->about : "{}"), "the manifest", err);
  if (!about) return -1;
  struct making *m = arena_zalloc(&r->arena, sizeof *m);
  *m = (struct making){.r = r, .about = about, .places = places};
  int rc = scratch_make(&new.folder, "rebuild-ranges", &r->arena, err);
  if (rc == 0) {
    const uint32_t at = r->n_files; // more come, where a pass before it reads ranges
    new.path = arena_printf(&r->arena, "%s/%s", new.folder.path, name);
    *TABLE_PUSH(r, files) = new;
    rc = make(m, v, new.sha256, new.path, err);
    r->files[at].made = rc == 0;
    if (rc == 0) v->text = new.path;
  }
  json_free(about);
  return rc;
}
