// x_weir.passes, in the words of execution_passes_json:
//
//   [{"name":"cast","options":{…}},…]                                    steps
//   [{"repeat":[…],"rounds":8},…]                                        some of them again and again
//   [{"name":"run","options":{"exactness":…,"passes":[…],"rules":[…]}}]  with what holds for all
//
// Names of files are base names there; which file it was, its digest says.
#include "rebuild/recorded.h"

#include "stream/sys/file_lookup.h"

struct taking {
  struct pipeline *p;
  struct user_rules *own;
  const struct recorded_places *places;
  struct err *err;
};

static int refuse(const struct taking *t, const char *why) {
  return err_set(t->err, ERR_MODEL, "the passes of the manifest cannot be read: %s", why);
}

// The value gets the path, and what is read there must have the digest that was recorded.
static int find_file(const struct taking *t, struct pass_value *v, const char *or_else) {
  struct arena *a = &t->p->arena;
  const struct recorded_places *at = t->places;
  uint8_t sha256[DIGEST_BYTES];
  const char *other;
  if (!hex_decode(span_str(v->sha256), sha256, sizeof sha256))
    return refuse(t, "a file's digest is not 64 hexadecimal digits");
  const char *const places[] = {
      file_lookup_beside(a, at->manifest, v->text), file_lookup_beside(a, at->source, v->text),
      at->folder ? arena_printf(a, "%s/%s", at->folder, v->text) : NULL, v->text};
  const struct file_lookup wanted = {v->text, FILE_LOOKUP_ANY_SIZE, sha256};
  const char *path = file_lookup_in(&wanted, places, sizeof places / sizeof *places, &other);
  if (path) {
    v->text = path;
    return 0;
  }
  if (other)
    err_fill(t->err, ERR_INPUT, "'%s' is not the file that the passes read (SHA-256 %.16s...)",
             quote_path(other).s, v->sha256);
  else
    err_fill(t->err, ERR_INPUT,
             "the file '%s' (SHA-256 %.16s...), which the passes read, was not found",
             quote_str(v->text).s, v->sha256);
  return err_hint(t->err, "put it next to the manifest, or name its folder with --files%s",
                  or_else);
}

static int have_file(const struct taking *t, enum pass_reads reads, struct pass_value *v) {
  const bool ranges = reads == PASS_READS_RANGES && v->about;
  if (ranges && t->places->again) return recalibrate(t->places->again, v, t->places, t->err);
  return find_file(t, v, ranges ? "; --calibrate measures it again" : "");
}

// By the name that it has now, or had when the manifest was written; not by that of a set or a class.
static bool is_called(const struct pass *pass, struct span name) {
  return span_is(name, pass->name) || (pass->also && span_is(name, pass->also));
}

static int take_step(const struct taking *t, struct span name, const struct json_value *options) {
  struct pipeline *p = t->p;
  struct err why = {0};
  uint32_t n = 0;
  struct pipeline_step *step = pipeline_add(p, name, &n, &why);
  if (!step || n != 1 || !is_called(step->values.pass, name))
    return err_set(t->err, ERR_MODEL, "this version of weir has no pass '%s'", quote(name).s);
  struct pass_values *v = &step->values;
  if (pass_values_take_json(v, options, &p->arena, t->err)) return -1;
  for (uint32_t o = 0; o < v->pass->n_options; o++)
    if (v->pass->options[o].reads != PASS_READS_NOTHING && v->of[o].sha256 &&
        have_file(t, v->pass->options[o].reads, &v->of[o]))
      return -1;
  if (pass_values_read(v, &p->arena, &why) == 0) return 0;
  return err_set(t->err, ERR_MODEL, "pass '%s': %.800s", v->pass->name, why.msg);
}

static int take_list(const struct taking *t, const struct json_value *list, bool outermost);

static int take_repeat(const struct taking *t, const struct json_value *row) {
  uint64_t rounds;
  if (!json_as_uint(json_get(row, "rounds"), &rounds) || rounds == 0 || rounds > INT32_MAX)
    return refuse(t, "a repeat has no number of rounds");
  if (pipeline_depth(t->p) == PIPELINE_DEPTH) return refuse(t, "repeats are nested too deeply");
  pipeline_begin(t->p, (uint32_t)rounds);
  if (take_list(t, json_get(row, "repeat"), false)) return -1;
  pipeline_end(t->p);
  return 0;
}

// A whole pipeline: what holds for all of its steps comes first.
static int take_all(const struct taking *t, const struct json_value *options) {
  const struct json_value *cap = json_get(options, "exactness");
  struct span word;
  if (cap) {
    if (!json_as_string(cap, &word) || exactness_by_name(word) == EXACTNESSES)
      return refuse(t, "this version does not know their exactness");
    t->p->exactness = exactness_by_name(word);
  }
  if (json_get(options, "rules")) {
    user_rules_read_log(t->own, options);
    if (!t->own->passes.list) return refuse(t, "this version cannot read their rules");
    t->p->own = t->own;
  }
  return take_list(t, json_get(options, "passes"), false);
}

static int take_list(const struct taking *t, const struct json_value *list, bool outermost) {
  if (!json_is_array(list)) return refuse(t, "they are not a list");
  for (const struct json_value *row = json_first(list); row; row = json_next(row)) {
    const struct json_value *options = json_get(row, "options");
    struct span name;
    int rc;
    if (json_get(row, "repeat"))
      rc = take_repeat(t, row);
    else if (!json_as_string(json_get(row, "name"), &name))
      return refuse(t, "a step has no name");
    else if (outermost && span_is(name, "run"))
      rc = json_count(list) == 1 ? take_all(t, options) : refuse(t, "'run' is not alone");
    else
      rc = take_step(t, name, options);
    if (rc) return -1;
  }
  return 0;
}

int recorded_take(struct pipeline *p, struct user_rules *own, const struct json_value *passes,
                  const struct recorded_places *places, struct err *err) {
  const struct taking t = {p, own, places, err};
  if (take_list(&t, passes, true)) return -1;
  return pipeline_read_files(p, NULL, err);
}
