// The list is short: a pipeline names one file or two. They are found by the words that named them.
#include "side_inputs/side_inputs.h"
#include "json/plain_file.h"
#include "stream/sys/fs.h"

#include <assert.h>
#include <stdio.h>

static struct side_input *find(const struct side_inputs *g, const char *path,
                               enum pass_reads reads) {
  for (uint32_t i = 0; i < g->n; i++)
    if (g->list[i]->reads == reads && strcmp(g->list[i]->path, path) == 0) return g->list[i];
  return NULL;
}

static int read_text(struct side_inputs *g, struct side_input *f, struct err *err) {
  if (plain_file_text(f->opened, SIDE_INPUTS_TEXT_BYTES, &g->arena, &f->text, err)) return -1;
  digest_of(f->text.at, f->text.n, f->sha256);
  return 0;
}

static int read_ranges(struct side_input *f, struct err *err) {
  if (ranges_read(&f->ranges, f->opened, err)) return -1;
  memcpy(f->sha256, f->ranges.sha256, sizeof f->sha256);
  return 0;
}

static struct side_input *add(struct side_inputs *g, const char *path, enum pass_reads reads,
                              const char *folder) {
  struct side_input **list = arena_alloc(&g->arena, (g->n + (size_t)1) * sizeof *list);
  struct side_input *f = arena_zalloc(&g->arena, sizeof *f);
  f->path = path;
  f->reads = reads;
  f->opened = folder && path[0] != '/' ? arena_printf(&g->arena, "%s/%s", folder, path) : path;
  ranges_init(&f->ranges);
  if (g->n) memcpy(list, g->list, g->n * sizeof *list);
  list[g->n++] = f;
  g->list = list;
  return f;
}

int side_inputs_take(struct side_inputs *g, struct pass_values *v, const char *folder,
                     struct err *err) {
  for (uint32_t o = 0; o < v->pass->n_options; o++) {
    const enum pass_reads reads = v->pass->options[o].reads;
    const char *path = v->of[o].text;
    if (reads == PASS_READS_NOTHING || !path) continue;
    struct side_input *f = find(g, path, reads);
    if (!f) {
      f = add(g, path, reads, folder);
      if (reads == PASS_READS_RANGES ? read_ranges(f, err) : read_text(g, f, err)) return -1;
    }
    v->of[o].sha256 = digest_hex_in(&g->arena, f->sha256);
    if (reads == PASS_READS_RANGES && f->ranges.form == RANGES_OWN)
      v->of[o].about = ranges_about(&f->ranges, &g->arena);
  }
  return 0;
}

bool side_inputs_has(const struct side_inputs *g, const struct entry_facts *st) {
  struct arena room = {0};
  bool has = false;
  for (uint32_t i = 0; i < g->n && !has; i++)
    has = fs_is_at(st, g->list[i]->opened) ||
          (g->list[i]->ranges.data_bytes &&
           fs_is_at(st, ranges_data_path(g->list[i]->opened, &room)));
  arena_free(&room);
  return has;
}

void side_inputs_done(struct side_inputs *g) {
  for (uint32_t i = 0; i < g->n; i++)
    ranges_free(&g->list[i]->ranges);
  arena_free(&g->arena);
  *g = (struct side_inputs){.n = 0};
}

// ---- of this model? ----------------------------------------------------------------------------

// How many of its values the main graph has; *missing: the first that it has not.
static uint32_t shared_values(const struct ranges *r, const struct model *m, struct span *missing) {
  uint32_t n = 0;
  *missing = span_of(NULL, 0);
  for (uint32_t i = 0; i < r->n_values; i++) {
    const uint32_t name = model_find_name(m, r->values[i].name);
    if (name != NO_ID && model_value_in(m, m->main_graph, name) != NO_ID)
      n++;
    else if (!missing->at)
      *missing = r->values[i].name;
  }
  return n;
}

static int refuse_model(const struct ranges *r, const struct model *m, struct span missing,
                        struct err *err) {
  err_fill(err, ERR_INPUT,
           "'%s' has the ranges of another model, '%s' (metadata %.16s...); this model (metadata "
           "%.16s...) has no value '%s'",
           quote_path(r->path).s, quote_str(r->source).s, digest_hex(r->meta_sha256).s,
           digest_hex(m->meta_sha256).s, quote(missing).s);
  return err_hint(err,
                  "run 'weir calibrate' on this model; if passes made it from '%s', use that "
                  "file as input and run those passes first (weir run --pass ... --pass ...)",
                  quote_str(r->source).s);
}

static int refuse_names(const struct ranges *r, struct err *err) {
  err_fill(err, ERR_INPUT,
           r->n_values == 1
               ? "'%s' has the ranges of another model: its one value is not in this one"
               : "'%s' has the ranges of another model: none of its %u values is in this one",
           quote_path(r->path).s, r->n_values);
  return err_hint(
      err, "calibrate this model with 'weir calibrate' or with the tool that wrote the file");
}

static int fits(const struct ranges *r, const struct model *m,
                void (*warn)(void *ctx, const char *sentence, const char *hint), void *ctx,
                struct err *err) {
  struct span missing;
  struct arena room = {0};
  if (r->has_model && memcmp(r->meta_sha256, m->meta_sha256, DIGEST_BYTES) == 0) return 0;
  if (r->n_values == 0) return 0;
  const uint32_t shared = shared_values(r, m, &missing);
  if (r->has_model && missing.at) return refuse_model(r, m, missing, err);
  if (shared == 0) return refuse_names(r, err);
  if (r->has_model && warn)
    warn(ctx,
         arena_printf(&room,
                      "'%s' has the ranges of another file, '%s', whose values have the same names",
                      quote_path(r->path).s, quote_str(r->source).s),
         "if this model has other weights, run 'weir calibrate' on it");
  arena_free(&room);
  return 0;
}

int side_inputs_fit(const struct side_inputs *g, const struct model *m,
                    void (*warn)(void *ctx, const char *sentence, const char *hint), void *ctx,
                    struct err *err) {
  for (uint32_t i = 0; i < g->n; i++)
    if (g->list[i]->reads == PASS_READS_RANGES && fits(&g->list[i]->ranges, m, warn, ctx, err))
      return -1;
  return 0;
}

// ---- what passes call --------------------------------------------------------------------------

static const struct side_input *given(void *ctx, const char *path, enum pass_reads reads,
                                      struct err *err) {
  const struct side_input *f = find(ctx, path, reads);
  if (!f) err_fill(err, ERR_INTERNAL, "the file '%s' of a pass was not read", quote_path(path).s);
  return f;
}

int side_inputs_ranges(void *ctx, const char *path, const struct ranges **out, struct err *err) {
  const struct side_input *f = given(ctx, path, PASS_READS_RANGES, err);
  *out = f ? &f->ranges : NULL;
  return f ? 0 : -1;
}

int side_inputs_text(void *ctx, const char *path, struct span *out, struct err *err) {
  const struct side_input *f = given(ctx, path, PASS_READS_TEXT, err);
  *out = f ? f->text : span_of(NULL, 0);
  return f ? 0 : -1;
}
