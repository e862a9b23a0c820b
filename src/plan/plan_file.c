// The plan as text: one JSON document in the one form we write, so that its bytes (and with them
// plan_id) are a function of the plan. Lists have one element a line; the reader takes it line by
// line, so that a plan of a million segments never becomes a tree in memory.
//
//   {"weir_plan":1,
//   "meta_sha256":"…",
//   "passes":[…],
//   "artifacts":[{"stage":…,"sha256":…},…],      only where there are any
//   "layout":{…},
//   "literals":{"bytes":n,"sha256":"…"},
//   "sources":[
//   {"name":"encoder.onnx","size":n},
//   …
//   ],
//   "recipes":[          row form of recipe_json.h
//   "outputs":[          {"name":…,"size":n}
//   "segments":[         in order over all outputs:
//                        ["z",len] zeros · ["l",len] next literals · ["x",file,at,len] source bytes ·
//                        ["r",recipe,at,len] elements of a recipe
//   "tensors":[          {"name":…,"output":n,"off":n,"len":n,"dtype":…,"dims":[…],"segment":n}
//   ]}
#include "plan/plan_file.h"

#include "recipe/recipe_json.h"

#include <stdio.h>

// ---- writing -----------------------------------------------------------------------------------

struct writing {
  int (*sink)(void *ctx, struct span text);
  void *ctx;
  struct digest *digest;
  struct json_out line;
  int failed;
};

static void put(struct writing *w, struct span text) {
  digest_add(w->digest, text.at, text.n);
  if (!w->failed) w->failed = w->sink(w->ctx, text);
}

static void put_text(struct writing *w, const char *text) {
  put(w, span_str(text));
}

// The element in w->line, as one line.
static void put_element(struct writing *w, bool last) {
  put(w, span_of(w->line.text, w->line.n));
  put_text(w, last ? "\n" : ",\n");
  w->line.n = 0;
  w->line.comma = false;
}

// The list named key; all but the first end one before.
static void begin_list(struct writing *w, const char *key, const char *before) {
  put_text(w, before);
  put_text(w, "\"");
  put_text(w, key);
  put_text(w, "\":[\n");
}

enum { SEGMENT_KINDS = SEGMENT_RECIPE + 1 };
static const char *const segment_letters[SEGMENT_KINDS] = {
    [SEGMENT_ZERO] = "z", [SEGMENT_LITERAL] = "l", [SEGMENT_EXTENT] = "x", [SEGMENT_RECIPE] = "r"};

// {"name":…,"size":n}: a source or an output.
static void write_named(struct writing *w, const char *name, uint64_t size, bool last) {
  json_object(&w->line);
  json_put_text(&w->line, "name", name);
  json_put_uint(&w->line, "size", size);
  json_end_object(&w->line);
  put_element(w, last);
}

static void write_head(struct writing *w, const struct plan *p) {
  char line[160];
  uint8_t literals[DIGEST_BYTES];
  snprintf(line, sizeof line,
           "{\"weir_plan\":%d,\n\"meta_sha256\":\"%s\",\n\"passes\":", PLAN_FORMAT,
           digest_hex(p->meta_sha256).s);
  put_text(w, line);
  put_text(w, p->passes);
  if (p->artifacts) {
    put_text(w, ",\n\"artifacts\":");
    put_text(w, p->artifacts);
  }
  put_text(w, ",\n\"layout\":");
  put_text(w, p->layout);
  digest_of(p->literals, p->n_literals, literals);
  snprintf(line, sizeof line, ",\n\"literals\":{\"bytes\":%zu,\"sha256\":\"%s\"},\n", p->n_literals,
           digest_hex(literals).s);
  put_text(w, line);
}

static void write_tensor(struct writing *w, const struct plan_tensor *t) {
  json_object(&w->line);
  json_put_text(&w->line, "name", t->name);
  json_put_uint(&w->line, "output", t->output);
  json_put_uint(&w->line, "off", t->off);
  json_put_uint(&w->line, "len", t->len);
  json_put_text(&w->line, "dtype", dtype_name((enum dtype)t->dtype));
  json_put_ints(&w->line, "dims", t->dims, t->rank);
  json_put_uint(&w->line, "segment", t->segment);
  if (t->encoding != ENCODING_RAW) json_put_uint(&w->line, "encoding", t->encoding);
  json_end_object(&w->line);
}

int plan_file_write(struct plan *p, int (*sink)(void *ctx, struct span text), void *ctx,
                    struct err *err) {
  struct writing w = {.sink = sink, .ctx = ctx, .digest = digest_new()};
  write_head(&w, p);
  begin_list(&w, "sources", "");
  for (uint32_t i = 0; i < p->n_sources; i++)
    write_named(&w, p->sources[i].name, p->sources[i].size, i + 1 == p->n_sources);
  begin_list(&w, "recipes", "],\n");
  uint32_t n;
  const uint32_t *used = plan_recipes(p, &n);
  for (uint32_t i = 0; i < n; i++) {
    recipe_json_write_row(&w.line, p->recipes, used ? used[i] : i, used ? p->numbers : NULL);
    put_element(&w, i + 1 == n);
  }
  begin_list(&w, "outputs", "],\n");
  for (uint32_t i = 0; i < p->n_outputs; i++)
    write_named(&w, p->outputs[i].name, p->outputs[i].size, i + 1 == p->n_outputs);
  begin_list(&w, "segments", "],\n");
  for (uint32_t i = 0; i < p->n_segments; i++) {
    const struct segment *s = &p->segments[i];
    json_array(&w.line);
    json_text(&w.line, segment_letters[s->kind]);
    if (s->kind == SEGMENT_EXTENT || s->kind == SEGMENT_RECIPE) {
      const bool numbered = s->kind == SEGMENT_RECIPE && !p->owns_recipes;
      json_uint(&w.line, numbered ? p->numbers[s->ref] : s->ref);
      json_uint(&w.line, s->at);
    }
    json_uint(&w.line, s->len);
    json_end_array(&w.line);
    put_element(&w, i + 1 == p->n_segments);
  }
  begin_list(&w, "tensors", "],\n");
  for (uint32_t i = 0; i < p->n_tensors; i++) {
    write_tensor(&w, &p->tensors[i]);
    put_element(&w, i + 1 == p->n_tensors);
  }
  put_text(&w, "]}\n");
  digest_finish(w.digest, p->id);
  json_done(&w.line);
  return w.failed ? err_set(err, ERR_IO, "the plan could not be written") : 0;
}

int plan_file_write_small(const struct plan *p, int (*sink)(void *ctx, struct span text), void *ctx,
                          uint8_t sha256[DIGEST_BYTES], struct err *err) {
  struct writing w = {.sink = sink, .ctx = ctx, .digest = digest_new()};
  begin_list(&w, "small", "{");
  for (uint32_t i = 0; i < p->n_small; i++) {
    write_tensor(&w, &p->small[i]);
    put_element(&w, i + 1 == p->n_small);
  }
  put_text(&w, "]}\n");
  digest_finish(w.digest, sha256);
  json_done(&w.line);
  return w.failed ? err_set(err, ERR_IO, "the list of small tensors could not be written") : 0;
}

// ---- reading -----------------------------------------------------------------------------------

struct reading {
  struct plan *p;
  struct span rest;     // lines not yet taken
  uint64_t line_number; // of the line last taken
  TABLE(uint64_t, source_sizes);
  uint32_t filling;     // output: all before it are full
  uint64_t literals_at; // how many literal bytes segments have used
  struct err *err;
};

static int bad(struct reading *in, const char *what) {
  return err_set(in->err, ERR_MODEL, "the plan's line %s %s", decimal(in->line_number).s, what);
}

static bool take_line(struct reading *in, struct span *line) {
  if (in->rest.n == 0) return false;
  const uint8_t *end = memchr(in->rest.at, '\n', in->rest.n);
  size_t n = end ? (size_t)(end - in->rest.at) : in->rest.n;
  *line = span_of(in->rest.at, n);
  size_t used = end ? n + 1 : n;
  in->rest = span_of(in->rest.at + used, in->rest.n - used);
  in->line_number++;
  return true;
}

static int expect(struct reading *in, const char *text) {
  struct span line;
  if (take_line(in, &line) && span_is(line, text)) return 0;
  err_set(in->err, ERR_MODEL, "the plan's line %s is not '%s'", decimal(in->line_number).s, text);
  return -1;
}

// A line `"key":<JSON>,` : gives the JSON part.
static int take_member(struct reading *in, const char *key, struct span *value) {
  struct span line;
  char start[64];
  size_t n = (size_t)snprintf(start, sizeof start, "\"%s\":", key);
  if (!take_line(in, &line) || line.n < n + 2 || memcmp(line.at, start, n) != 0 ||
      line.at[line.n - 1] != ',') {
    err_set(in->err, ERR_MODEL, "the plan's line %s is not its '%s'", decimal(in->line_number).s,
            key);
    return -1;
  }
  *value = span_of(line.at + n, line.n - n - 1);
  return 0;
}

static bool comes_next(const struct reading *in, const char *key) {
  char start[64];
  const size_t n = (size_t)snprintf(start, sizeof start, "\"%s\":", key);
  return in->rest.n >= n && memcmp(in->rest.at, start, n) == 0;
}

// The list named key: `each` sees every element; the line after the last one is `end`.
static int read_list(struct reading *in, const char *key, const char *end,
                     int (*each)(struct reading *in, const struct json_value *v)) {
  char start[64];
  struct span line;
  snprintf(start, sizeof start, "\"%s\":[", key);
  if (expect(in, start)) return -1;
  bool more = true;
  for (bool first = true;; first = false) {
    if (!take_line(in, &line)) return bad(in, "is missing: the plan ends early");
    if ((first || !more) && span_is(line, end)) return 0;
    if (!more) return bad(in, "does not end the list");
    more = line.n > 0 && line.at[line.n - 1] == ',';
    struct json_value *v = json_parse(span_of(line.at, line.n - more), "the plan", in->err);
    if (!v) return -1;
    int rc = each(in, v);
    json_free(v);
    if (rc) return -1;
  }
}

static int read_source(struct reading *in, const struct json_value *v) {
  struct plan *p = in->p;
  struct span name;
  uint64_t size;
  if (!json_as_string(json_get(v, "name"), &name) || !json_as_uint(json_get(v, "size"), &size))
    return bad(in, "is not a source with name and size");
  if (name.n == 0 || span_has_nul(name)) return bad(in, "has an impossible file name");
  *TABLE_PUSH(in, source_sizes) = size;
  *TABLE_PUSH(p, sources) = (struct plan_source){arena_string(&p->arena, name), size};
  return 0;
}

static int read_recipe(struct reading *in, const struct json_value *v) {
  if (recipe_json_read_row(in->p->recipes, v, in->p->n_sources, in->source_sizes, in->err) == 0)
    return 0;
  err_hint(in->err, "line %s of the plan", decimal(in->line_number).s);
  return -1;
}

// Outputs are written into the staging and destination folders: base names only.
static bool is_base_name(struct span name) {
  return name.n > 0 && name.n <= 255 && !memchr(name.at, '/', name.n) && !span_has_nul(name) &&
         !span_is(name, ".") && !span_is(name, "..");
}

static int read_output(struct reading *in, const struct json_value *v) {
  struct plan *p = in->p;
  struct span name;
  uint64_t size;
  if (!json_as_string(json_get(v, "name"), &name) || !json_as_uint(json_get(v, "size"), &size) ||
      size > INT64_MAX)
    return bad(in, "is not an output with name and size");
  if (!is_base_name(name)) return bad(in, "names an output that is not a base name");
  for (uint32_t i = 0; i < p->n_outputs; i++)
    if (span_is(name, p->outputs[i].name)) return bad(in, "names an output twice");
  *TABLE_PUSH(p, outputs) =
      (struct plan_output){.name = arena_string(&p->arena, name), .size = size};
  return 0;
}

static int check_segment(struct reading *in, const struct segment *s) {
  const struct plan *p = in->p;
  switch ((enum segment_kind)s->kind) {
  case SEGMENT_ZERO: return 0;
  case SEGMENT_LITERAL:
    if (!range_fits(s->at, s->len, p->n_literals))
      return bad(in, "uses more literals than there are");
    return 0;
  case SEGMENT_EXTENT:
    if (s->ref >= p->n_sources || !range_fits(s->at, s->len, p->sources[s->ref].size))
      return bad(in, "reads outside its source file");
    return 0;
  case SEGMENT_RECIPE:
    if (s->ref >= p->recipes->n_rows || !range_fits(s->at, s->len, p->recipes->rows[s->ref].bytes))
      return bad(in, "reads outside its recipe");
  }
  return 0;
}

// The output that is not full yet; segments fill them in order, so those before stay full.
static struct plan_output *filling(struct reading *in, uint64_t *filled) {
  struct plan *p = in->p;
  for (; in->filling < p->n_outputs; in->filling++) {
    struct plan_output *o = &p->outputs[in->filling];
    const struct segment *last =
        o->n_segments ? &p->segments[o->first_segment + o->n_segments - 1] : NULL;
    *filled = last ? last->off + last->len : 0;
    if (*filled < o->size) return o;
  }
  return NULL;
}

static int read_segment(struct reading *in, const struct json_value *v) {
  struct plan *p = in->p;
  struct segment s = {0};
  uint64_t x[3] = {0};
  const struct json_value *e = json_is_array(v) ? json_first(v) : NULL;
  struct span letter;
  if (!e || !json_as_string(e, &letter)) return bad(in, "is not a segment");
  while (s.kind < SEGMENT_KINDS && !span_is(letter, segment_letters[s.kind]))
    s.kind++;
  if (s.kind == SEGMENT_KINDS) return bad(in, "is not a segment");
  int want = s.kind == SEGMENT_EXTENT || s.kind == SEGMENT_RECIPE ? 3 : 1;
  for (int i = 0; i < want; i++) {
    e = json_next(e);
    if (!e || !json_as_uint(e, &x[i])) return bad(in, "is a segment without its numbers");
  }
  s.len = x[want - 1];
  if (want == 3) {
    if (x[0] >= NO_ID) return bad(in, "is a segment with an impossible reference");
    s.ref = (uint32_t)x[0];
    s.at = x[1];
  } else if (s.kind == SEGMENT_LITERAL) {
    s.at = in->literals_at;
    in->literals_at += min_u64(s.len, p->n_literals);
  }
  struct plan_output *o = filling(in, &s.off);
  if (!o || s.len == 0 || s.len > o->size - s.off) return bad(in, "does not fit its output file");
  if (check_segment(in, &s)) return -1;
  if (o->n_segments == 0) o->first_segment = p->n_segments;
  *TABLE_PUSH(p, segments) = s;
  o->n_segments++;
  return 0;
}

static int read_dims(struct reading *in, const struct json_value *list, struct plan_tensor *t) {
  size_t n = json_count(list);
  if (!json_is_array(list) || n > 1024) return bad(in, "has no dims");
  int64_t *dims = arena_alloc(&in->p->arena, n * sizeof *dims + 1);
  for (const struct json_value *x = json_first(list); x; x = json_next(x))
    if (!json_as_int(x, &dims[t->rank++])) return bad(in, "has dims that are not integers");
  t->dims = dims;
  return 0;
}

static int take_tensor(struct reading *in, const struct json_value *v, struct plan_tensor *t) {
  struct plan *p = in->p;
  struct span name, dtype;
  uint64_t output, segment;
  *t = (struct plan_tensor){0};
  if (!json_as_string(json_get(v, "name"), &name) ||
      !json_as_uint(json_get(v, "output"), &output) || !json_as_uint(json_get(v, "off"), &t->off) ||
      !json_as_uint(json_get(v, "len"), &t->len) || !json_as_string(json_get(v, "dtype"), &dtype) ||
      !json_as_uint(json_get(v, "segment"), &segment))
    return bad(in, "is not a tensor");
  if (output >= p->n_outputs || segment >= p->n_segments ||
      !range_fits(t->off, t->len, p->outputs[output].size))
    return bad(in, "is a tensor outside its output");
  t->dtype = dtype_by_name(dtype);
  t->output = (uint32_t)output;
  t->segment = (uint32_t)segment;
  t->name = arena_string(&p->arena, name);
  return read_dims(in, json_get(v, "dims"), t);
}

static int read_tensor(struct reading *in, const struct json_value *v) {
  struct plan_tensor t;
  if (take_tensor(in, v, &t)) return -1;
  *TABLE_PUSH(in->p, tensors) = t;
  return 0;
}

static int read_small(struct reading *in, const struct json_value *v) {
  struct plan_tensor t;
  uint64_t encoding = ENCODING_RAW;
  const struct json_value *named = json_get(v, "encoding");
  if (take_tensor(in, v, &t)) return -1;
  if (named && (!json_as_uint(named, &encoding) || encoding > ENCODING_STRINGS))
    return bad(in, "is a tensor without an encoding");
  t.encoding = (uint32_t)encoding;
  *TABLE_PUSH(in->p, small) = t;
  return 0;
}

// Text that goes back into manifests and statements of provenance as it is: it must be JSON of the kind it claims to
// be, and still be read where it is nested as deep as there.
static int take_json(struct reading *in, const char *key, bool array, const char **text) {
  struct span value;
  struct arena scratch = {0};
  if (take_member(in, key, &value)) return -1;
  const char *nested = arena_printf(&scratch, "[[[[%.*s]]]]", (int)value.n, (const char *)value.at);
  struct json_value *deep = json_parse(span_str(nested), "the plan", in->err);
  const bool is_json = deep != NULL;
  json_free(deep);
  arena_free(&scratch);
  if (!is_json) return -1;
  struct json_value *v = json_parse(value, "the plan", in->err);
  if (!v) return -1;
  bool fits = array ? json_is_array(v) : json_is_object(v);
  json_free(v);
  if (!fits) return bad(in, "is JSON of another kind");
  *text = arena_string(&in->p->arena, value);
  return 0;
}

static int read_literals(struct reading *in, struct span literals) {
  struct span value, text;
  uint8_t want[DIGEST_BYTES], got[DIGEST_BYTES];
  uint64_t bytes = 0;
  if (take_member(in, "literals", &value)) return -1;
  struct json_value *v = json_parse(value, "the plan", in->err);
  if (!v) return -1;
  bool fits = json_as_uint(json_get(v, "bytes"), &bytes) &&
              json_as_string(json_get(v, "sha256"), &text) && hex_decode(text, want, DIGEST_BYTES);
  json_free(v);
  if (!fits) return bad(in, "does not name the literals");
  digest_of(literals.at, literals.n, got);
  if (bytes != literals.n || memcmp(want, got, DIGEST_BYTES) != 0)
    return bad(in, "names other literals than there are");
  TABLE_ROOM(in->p, literals, literals.n + 1);
  if (literals.n) memcpy(in->p->literals, literals.at, literals.n);
  in->p->n_literals = literals.n;
  return 0;
}

static int read_all(struct reading *in, struct span literals) {
  struct span value;
  char first[32];
  snprintf(first, sizeof first, "{\"weir_plan\":%d,", PLAN_FORMAT);
  if (expect(in, first)) return -1;
  if (take_member(in, "meta_sha256", &value)) return -1;
  if (value.n != 66 || value.at[0] != '"' ||
      !hex_decode(span_of(value.at + 1, 64), in->p->meta_sha256, DIGEST_BYTES))
    return bad(in, "is not a SHA-256");
  if (take_json(in, "passes", true, &in->p->passes)) return -1;
  if (comes_next(in, "artifacts") && take_json(in, "artifacts", true, &in->p->artifacts)) return -1;
  if (take_json(in, "layout", false, &in->p->layout)) return -1;
  if (read_literals(in, literals)) return -1;
  if (read_list(in, "sources", "],", read_source)) return -1;
  if (read_list(in, "recipes", "],", read_recipe)) return -1;
  if (read_list(in, "outputs", "],", read_output)) return -1;
  if (read_list(in, "segments", "],", read_segment)) return -1;
  if (read_list(in, "tensors", "]}", read_tensor)) return -1;
  uint64_t filled;
  if (in->rest.n) return bad(in, "is followed by more text");
  if (filling(in, &filled)) return bad(in, "ends the plan before its outputs are full");
  if (in->p->n_outputs == 0) return bad(in, "ends a plan without outputs");
  if (in->literals_at != in->p->n_literals) return bad(in, "ends the plan with unused literals");
  return 0;
}

static int drop(void *ctx, struct span text) {
  (void)ctx;
  (void)text;
  return 0;
}

// A plan has one form only, or plan_id would not name it: written again it must be the same text.
static int check_form(struct plan *p, struct span json, struct err *err) {
  uint8_t read[DIGEST_BYTES];
  if (plan_file_write(p, drop, NULL, err)) return -1;
  digest_of(json.at, json.n, read);
  if (memcmp(read, p->id, DIGEST_BYTES) == 0) return 0;
  return err_set(err, ERR_MODEL, "the plan is not written in its canonical form");
}

int plan_file_read(struct plan *p, struct span json, struct span literals, struct err *err) {
  *p = (struct plan){0};
  plan_own_recipes(p);
  struct reading in = {.p = p, .rest = json, .err = err};
  int rc = read_all(&in, literals);
  TABLE_FREE(&in, source_sizes);
  if (rc == 0) rc = check_form(p, json, err);
  if (rc) plan_free(p);
  return rc;
}

int plan_file_read_small(struct plan *p, struct span json, struct err *err) {
  struct reading in = {.p = p, .rest = json, .err = err};
  if (in.rest.n == 0 || in.rest.at[0] != '{') return bad(&in, "is not a list of small tensors");
  in.rest = span_of(in.rest.at + 1, in.rest.n - 1);
  if (read_list(&in, "small", "]}", read_small)) return -1;
  return in.rest.n ? bad(&in, "is followed by more text") : 0;
}
