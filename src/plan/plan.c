// Building a plan: placement, emission, layout of segments; and finding one's way in it.
//
//   model + recipes ──placement──▶ what lies where ──emission──▶ rope of the .onnx ──▶ segments
//                       └──────────▶ offsets in data files ──────────────────────────▶ segments
//
// Literals are packed in output order at the end, so that neighbours become one segment.
#include "plan/plan.h"

#include "plan/emit_parts.h"
#include "plan/placement.h"
#include "plan/rope.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

// What protobuf readers accept, and so what an .onnx may measure.
#define ONNX_MAX_BYTES ((uint64_t)INT32_MAX)

// More than this is a mistake or an attack (tensors that overlap in a sparse file add up to
// anything); below it, offsets cannot wrap and units have 32-bit numbers.
#define OUTPUT_MAX_BYTES ((uint64_t)1 << 50)

void plan_own_recipes(struct plan *p) {
  p->recipes = arena_alloc(&p->arena, sizeof *p->recipes);
  recipes_init(p->recipes);
  p->owns_recipes = true;
}

const uint32_t *plan_recipes(const struct plan *p, uint32_t *n) {
  *n = p->owns_recipes ? p->recipes->n_rows : p->n_used;
  return p->owns_recipes ? NULL : p->used;
}

void plan_free(struct plan *p) {
  if (p->owns_recipes) recipes_free(p->recipes);
  TABLES_FREE(p, used, numbers, sources, outputs, segments, literals, tensors, small);
  arena_free(&p->arena);
  *p = (struct plan){0};
}

// ---- segments ----------------------------------------------------------------------------------

static void open_output(struct plan *p, const char *name) {
  *TABLE_PUSH(p, outputs) = (struct plan_output){.name = arena_string(&p->arena, span_str(name)),
                                                 .first_segment = p->n_segments};
}

static void close_output(struct plan *p, uint64_t size) {
  struct plan_output *o = &p->outputs[p->n_outputs - 1];
  o->size = size;
  o->n_segments = p->n_segments - o->first_segment;
}

static const char *tensor_address(struct plan *p, const struct model *m, uint32_t id) {
  const struct model_tensor *t = &m->tensors[id];
  if (t->home != HOME_ATTRIBUTE || t->owner == NO_ID)
    return arena_string(&p->arena, model_name(m, t->name));
  const struct model_attr *a = &m->attrs[t->owner];
  if (a->node == NO_ID) return arena_string(&p->arena, model_name(m, a->name));
  return arena_printf(&p->arena, "g%u/n%u.%s", t->graph, a->node, model_name_str(m, a->name));
}

static struct plan_tensor tensor_row(struct plan *p, const struct model *m, uint32_t id,
                                     uint32_t output, uint64_t off, uint32_t segment) {
  const struct model_tensor *t = &m->tensors[id];
  int64_t *dims = arena_copy(&p->arena, model_dims(m, t), t->rank * sizeof *dims);
  const bool stands_for = t->of != m->empty;
  return (struct plan_tensor){.name = tensor_address(p, m, id),
                              .of =
                                  stands_for ? arena_string(&p->arena, model_name(m, t->of)) : NULL,
                              .output = output,
                              .off = off,
                              .len = t->bytes,
                              .dtype = t->dtype,
                              .rank = t->rank,
                              .dims = dims,
                              .segment = segment,
                              .encoding = ENCODING_RAW};
}

// How the elements of a recipe become a segment: copied bytes are better said plainly.
static struct segment recipe_segment(const struct plan *p, uint32_t recipe, uint64_t off) {
  struct segment s = {
      .off = off, .len = p->recipes->rows[recipe].bytes, .ref = recipe, .kind = SEGMENT_RECIPE};
  struct extent from;
  if (recipe_is_copy(p->recipes, recipe, &from))
    s = (struct segment){
        .off = off, .len = from.len, .at = from.off, .ref = from.file, .kind = SEGMENT_EXTENT};
  return s;
}

// The data files are the first outputs. They are filled one after the other: a tensor lies in the
// last one, in the next, or where an earlier tensor has the same bytes.
static void add_sidecars(struct plan *p, const struct model *m, const struct placement *x) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    if (x->of[i] != PLACE_SIDECAR) continue;
    if (x->data[i] == p->n_outputs) {
      if (p->n_outputs > 0) close_output(p, end);
      open_output(p, x->data_names[x->data[i]]);
      end = 0;
    }
    if (x->data[i] + 1 == p->n_outputs && x->off[i] >= end) {
      if (x->off[i] > end)
        *TABLE_PUSH(p, segments) =
            (struct segment){.off = end, .len = x->off[i] - end, .kind = SEGMENT_ZERO};
      *TABLE_PUSH(p, segments) = recipe_segment(p, x->recipe[i], x->off[i]);
      end = x->off[i] + m->tensors[i].bytes;
    }
    *TABLE_PUSH(p, tensors) =
        tensor_row(p, m, i, x->data[i], x->off[i], plan_segment_at(p, x->data[i], x->off[i]));
  }
  close_output(p, end);
}

// The rope as the segments of the .onnx, its literals packed in order.
static void add_onnx(struct plan *p, const struct model *m, const struct rope_pool *pool,
                     struct rope body, const char *name) {
  uint8_t *packed = NULL;
  size_t packed_cap = 0, n_packed = 0;
  uint64_t off = 0;
  open_output(p, name);
  for (uint32_t i = body.first; i != NO_ID; i = pool->parts[i].next) {
    const struct rope_part *part = &pool->parts[i];
    struct segment s = {
        .off = off, .len = part->len, .at = part->at, .ref = part->ref, .kind = part->kind};
    off += part->len;
    if (part->kind == SEGMENT_LITERAL) {
      packed = table_grow(packed, &packed_cap, n_packed + part->len, 1);
      memcpy(packed + n_packed, p->literals + part->at, part->len);
      s.at = n_packed;
      n_packed += part->len;
    }
    const bool first = p->n_segments == p->outputs[p->n_outputs - 1].first_segment;
    struct segment *last = first ? NULL : &p->segments[p->n_segments - 1];
    if (last && s.kind == SEGMENT_LITERAL && last->kind == SEGMENT_LITERAL)
      last->len += s.len;
    else
      *TABLE_PUSH(p, segments) = s;
    if (part->tensor == NO_ID) continue;
    const struct plan_tensor row =
        tensor_row(p, m, part->tensor, p->n_outputs - 1, s.off, p->n_segments - 1);
    if (part->kind == SEGMENT_LITERAL)
      *TABLE_PUSH(p, small) = row;
    else
      *TABLE_PUSH(p, tensors) = row;
  }
  close_output(p, off);
  TABLE_FREE(p, literals);
  p->literals = packed;
  p->literals_cap = packed_cap;
  p->n_literals = n_packed;
}

// ---- tensors that were copied with their surroundings -----------------------------------------

// A stretch of the source's .onnx and where it went.
struct stretch {
  uint64_t from, len;
  uint32_t segment;
};

static int by_from(const void *a, const void *b) {
  const struct stretch *x = a, *y = b;
  return x->from < y->from ? -1 : x->from > y->from;
}

static uint32_t list_stretches(const struct plan *p, struct stretch *list) {
  const struct plan_output *o = &p->outputs[p->n_outputs - 1];
  uint32_t n = 0;
  for (uint32_t i = o->first_segment; i < o->first_segment + o->n_segments; i++) {
    const struct segment *s = &p->segments[i];
    if (s->kind == SEGMENT_EXTENT && s->ref == 0) list[n++] = (struct stretch){s->at, s->len, i};
  }
  if (n) qsort(list, n, sizeof *list, by_from);
  return n;
}

static const struct stretch *find_stretch(const struct stretch *list, uint32_t n,
                                          struct extent at) {
  uint32_t i;
  BISECT(i, n, list[i].from <= at.off);
  if (i == 0) return NULL;
  const struct stretch *s = &list[i - 1];
  return range_fits(at.off - s->from, at.len, s->len) ? s : NULL;
}

// The rows of a model with a million small tensors would make its plan several times larger, and
// nobody needs them to carry it out: only large ones are part of the plan.
static bool is_listed(const struct model *m, uint32_t id) {
  uint32_t n;
  struct extent at;
  model_pieces(m, id, &n);
  return n > 0 && model_plain_place(m, id, &at);
}

// What holds a tensor that was not copied as it stood. False: it has a row, as all have but those
// of strings (they were copied one behind the other) and those without elements (any place will
// do).
static bool holder_of_edited(const struct model *m, uint32_t id, struct extent *at, uint64_t *len) {
  const struct model_tensor *t = &m->tensors[id];
  uint32_t n = 0;
  const struct piece *pieces = NULL;
  if (t->encoding == ENCODING_STRINGS && t->recipe == NO_ID) pieces = model_pieces(m, id, &n);
  *at = n ? pieces[0].at : (struct extent){0};
  *len = 0;
  for (uint32_t i = 0; i < n; i++)
    *len += pieces[i].at.len;
  return n > 0 || t->bytes == 0;
}

// Tensors that have no row yet.
static void note_others(struct plan *p, const struct model *m, const struct placement *x,
                        const struct stretch *list, uint32_t n) {
  const uint32_t first_segment = p->outputs[p->n_outputs - 1].first_segment;
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const bool copied = x->of[i] == PLACE_COPY;
    enum encoding encoding = ENCODING_STRINGS;
    struct extent at;
    uint64_t len;
    if (m->tensors[i].flags & TENSOR_DEAD || (copied && is_listed(m, i))) continue;
    if (copied) {
      at = model_tensor_holder(m, i, &encoding);
      len = encoding == ENCODING_NONE ? 0 : at.len;
    } else if (!holder_of_edited(m, i, &at, &len)) {
      continue;
    }
    const struct stretch *s = find_stretch(list, n, at);
    if (!s && (copied || len > 0)) continue; // of a graph or node that is gone
    const uint64_t off = s && at.len ? p->segments[s->segment].off + (at.off - s->from) : 0;
    struct plan_tensor row =
        tensor_row(p, m, i, p->n_outputs - 1, off, s ? s->segment : first_segment);
    row.len = len;
    if (len > 0) row.encoding = encoding;
    *TABLE_PUSH(p, small) = row;
  }
}

// ---- names -------------------------------------------------------------------------------------

size_t plan_data_stem(const char *name) {
  size_t n = strlen(name), digits = 0;
  while (digits < n && name[n - 1 - digits] >= '0' && name[n - 1 - digits] <= '9')
    digits++;
  return digits > 0 && digits < n && name[n - 1 - digits] == '_' ? n - 1 - digits : n;
}

// The name of a tensor as that of a file: others than letters, digits and "+-._=@~" become "_", and so does a dot at the front
// and one after another; cut where it is long.
static const char *file_name_of(struct span tensor, const char *prefix, struct arena *a) {
  enum { LONGEST = 160, ALL = 240 };
  const size_t before = strlen(prefix);
  const size_t most = before + LONGEST <= ALL ? LONGEST : before < ALL ? ALL - before : 1;
  char *name = arena_string(a, span_of(tensor.at, min_u64(tensor.n, most)));
  for (char *c = name; *c; c++) {
    const bool letter =
        (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
    const bool dots = *c == '.' && (c == name || c[-1] == '.');
    if (dots || (!letter && !strchr("+-._=@~", *c))) *c = '_';
  }
  // Such files are not finished yet.
  const char *end = str_ends(name, ".tmp") ? "_" : "";
  return arena_printf(a, "%s%s%s", prefix, *name ? name : "tensor", end);
}

// A file for each tensor, named after the first of those that share it; a name that comes twice gets the number of its file at the
// end.
static void name_after_tensors(struct placement *x, struct plan *p, const struct model *m,
                               const struct plan_layout *layout, const char *prefix) {
  const char **sorted = arena_alloc(&x->arena, (x->n_data + (size_t)1) * sizeof *sorted);
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->n_tensors && n < x->n_data; i++)
    if (x->of[i] == PLACE_SIDECAR && x->data[i] == n)
      x->data_names[n++] = file_name_of(model_name(m, m->tensors[i].name), prefix, &p->arena);
  memcpy(sorted, x->data_names, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, str_order);
  for (uint32_t i = 0; i < n; i++) {
    const char *name = x->data_names[i];
    const char **at = bsearch(&name, sorted, n, sizeof *sorted, str_order);
    const bool twice = (at > sorted && strcmp(at[-1], name) == 0) ||
                       (at + 1 < sorted + n && strcmp(at[1], name) == 0);
    if (twice || strcmp(name, layout->onnx_name) == 0)
      x->data_names[i] = arena_printf(&p->arena, "%s.%u", name, i);
  }
  // A number may make the name of another tensor: then numbers alone.
  memcpy(sorted, x->data_names, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, str_order);
  for (uint32_t i = 1; i < n; i++)
    if (strcmp(sorted[i - 1], sorted[i]) == 0 || strcmp(sorted[i], layout->onnx_name) == 0) {
      for (uint32_t k = 0; k < n; k++)
        x->data_names[k] = arena_printf(&p->arena, "%stensor.%u", prefix, k);
      return;
    }
}

// `first`, first_1, first_2 …; with a file for each tensor `first` is what their names begin with.
static void name_data(struct placement *x, struct plan *p, const struct model *m,
                      const struct plan_layout *layout, const char *first) {
  x->data_names = arena_alloc(&x->arena, x->n_data * sizeof *x->data_names + 1);
  if (layout->each) {
    name_after_tensors(x, p, m, layout, first);
    return;
  }
  for (uint32_t i = 0; i < x->n_data; i++)
    x->data_names[i] = i == 0 ? first : arena_printf(&p->arena, "%s_%u", first, i);
}

// The first of the names that is taken, or NULL.
static const char *taken(const struct placement *x, const struct plan_layout *layout) {
  for (uint32_t i = 0; i < x->n_data && layout->name_taken; i++)
    if (layout->name_taken(layout->name_ctx, x->data_names[i])) return x->data_names[i];
  return NULL;
}

// Names that no old file has: one of the usual ones is taken. They come from the source and
// from what will lie in the files, so they are the same in every run.
static void fresh_names(struct placement *x, struct plan *p, const struct model *m,
                        const struct plan_layout *layout) {
  struct digest *d = digest_new();
  uint8_t sum[DIGEST_BYTES];
  char hex[DIGEST_HEX], piece[9] = {0};
  digest_add(d, m->meta_sha256, DIGEST_BYTES);
  if (layout->split) digest_add(d, &layout->split, sizeof layout->split);
  if (layout->each) digest_add(d, "each", 4);
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    if (x->of[i] != PLACE_SIDECAR) continue;
    struct segment s = recipe_segment(p, x->recipe[i], x->off[i]);
    char line[128];
    int n = snprintf(line, sizeof line, "%s %s %s %u %u\n", decimal(s.off).s, decimal(s.len).s,
                     decimal(s.at).s, s.kind == SEGMENT_RECIPE ? p->numbers[s.ref] : s.ref, s.kind);
    digest_add(d, line, (size_t)n);
  }
  digest_finish(d, sum);
  for (;;) {
    hex_encode(sum, sizeof sum, hex);
    for (size_t at = 0; at + 8 < DIGEST_HEX; at += 8) {
      memcpy(piece, hex + at, 8);
      name_data(x, p, m, layout,
                arena_printf(&p->arena, "%s.%s.%s", layout->onnx_name, piece,
                             layout->each ? "" : "data"));
      if (!taken(x, layout)) return;
    }
    digest_of(sum, sizeof sum, sum); // all eight are taken: eight more
  }
}

static int choose_data_names(struct placement *x, struct plan *p, const struct model *m,
                             const struct plan_layout *layout, struct err *err) {
  if (layout->data_name) {
    name_data(x, p, m, layout, layout->data_name);
    const char *there = taken(x, layout);
    if (!there) return 0;
    err_set(err, ERR_USAGE, "the data file '%s' exists already", quote_str(there).s);
    return err_because(err, REASON_DATA_NAME);
  }
  // In the source's style: x.onnx.data, or x.onnx_data. Of several, transformers.js finds the latter only.
  const bool one = m->n_files >= 2 && (m->n_files == 2 || m->files[2].companion);
  const size_t n = one && !m->files[1].companion ? strlen(m->files[1].name) : 0;
  const bool underscore =
      layout->split || (n >= 5 && strcmp(m->files[1].name + n - 5, "_data") == 0);
  name_data(x, p, m, layout,
            layout->each ? ""
                         : arena_printf(&p->arena, "%s%s", layout->onnx_name,
                                        underscore ? "_data" : ".data"));
  if (taken(x, layout)) fresh_names(x, p, m, layout);
  return 0;
}

// ---- building ----------------------------------------------------------------------------------

// Whatever form is chosen, no output can pass what this adds up. *external: the source has external
// data.
static int check_total(const struct model *m, const struct plan_layout *layout, bool *external,
                       struct err *err) {
  uint64_t total = 0;
  *external = false;
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (t->flags & TENSOR_EXTERNAL) *external = true;
    if (t->flags & TENSOR_DEAD) continue;
    if (!add_overflows(total, t->bytes, &total) && !add_overflows(total, layout->align, &total) &&
        total <= OUTPUT_MAX_BYTES)
      continue;
    return err_set(
        err, ERR_FAIL,
        "tensor '%s' of %s bytes makes the output larger than %s bytes, which is not supported",
        quote(model_name(m, t->name)).s, decimal(t->bytes).s, decimal(OUTPUT_MAX_BYTES).s);
  }
  return 0;
}

struct attempt {
  struct placement x;
  struct rope_pool pool;
  struct rope onnx;
};

// Placement and emission for one form. The .onnx's size tells whether the form will do.
static int attempt_form(struct attempt *a, struct plan *p, const struct model *m,
                        const struct plan_layout *layout, bool all, struct err *err) {
  rope_pool_free(&a->pool);
  p->n_used = 0;
  p->n_numbers = 0;
  p->n_literals = 0;
  a->pool.plan = p;
  a->pool.marks_literals = layout->small_tensors;
  if (placement_decide(&a->x, p, m, layout, all, err)) return -1;
  if (a->x.n_data > 0 && choose_data_names(&a->x, p, m, layout, err)) return -1;
  a->onnx = emit_model(&a->pool, m, &a->x);
  return 0;
}

static int too_large(const struct attempt *a, const struct plan_layout *layout, struct err *err) {
  err_set(err, ERR_FAIL,
          "'%s' would have %s bytes, more than the 2147483647 that readers of ONNX accept",
          quote_str(layout->onnx_name).s, decimal(a->onnx.len).s);
  if (layout->form == PLAN_DATA_INLINE) return err_because(err, REASON_INLINE);
  return err_hint(err, "the bytes are not tensor data, so no layout of data files makes the file "
                       "smaller");
}

// Tries the form asked for; where the .onnx would pass its limit and nobody insisted on inline, one
// sidecar for the initializers, then for tensors in attributes too.
static int find_form(struct attempt *a, struct plan *p, const struct model *m,
                     const struct plan_layout *asked, bool external, struct err *err) {
  struct plan_layout layout = *asked;
  if (asked->form == PLAN_DATA_DEFAULT)
    layout.form =
        external || asked->data_name || asked->split ? PLAN_DATA_EXTERNAL : PLAN_DATA_INLINE;
  if (attempt_form(a, p, m, &layout, false, err)) return -1;
  if (a->onnx.len <= ONNX_MAX_BYTES) return 0;
  if (asked->form == PLAN_DATA_INLINE) return too_large(a, &layout, err);
  for (int all = layout.form == PLAN_DATA_INLINE ? 0 : 1; all < 2; all++) {
    layout.form = PLAN_DATA_EXTERNAL;
    if (attempt_form(a, p, m, &layout, all == 1, err)) return -1;
    p->moved_out = true;
    if (a->onnx.len <= ONNX_MAX_BYTES) return 0;
  }
  return too_large(a, &layout, err);
}

// What was asked for and did something.
static const char *layout_text(struct plan *p, const struct placement *x,
                               const struct plan_layout *layout) {
  char split[40] = "";
  if (layout->split && x->n_data > 0)
    snprintf(split, sizeof split, ",\"split\":%s", decimal(layout->split).s);
  if (layout->each && x->n_data > 0) snprintf(split, sizeof split, ",\"each\":true");
  return arena_printf(&p->arena, "{\"form\":\"%s\",\"align\":%s,\"inline_below\":%s%s}",
                      x->n_data > 0 ? "external" : "inline", decimal(layout->align).s,
                      decimal(layout->inline_below).s, split);
}

int plan_build(struct plan *p, const struct model *m, struct recipes *r,
               const struct plan_layout *layout, struct err *err) {
  struct attempt a = {0};
  *p = (struct plan){.recipes = r};
  memcpy(p->meta_sha256, m->meta_sha256, DIGEST_BYTES);
  for (uint32_t i = 0; i < m->n_files; i++)
    *TABLE_PUSH(p, sources) =
        (struct plan_source){arena_string(&p->arena, span_str(m->files[i].name)), m->files[i].size};
  p->passes = arena_string(&p->arena, span_str(layout->passes ? layout->passes : "[]"));
  if (layout->artifacts) p->artifacts = arena_string(&p->arena, span_str(layout->artifacts));
  bool external;
  int rc = check_total(m, layout, &external, err);
  if (rc == 0) rc = find_form(&a, p, m, layout, external, err);
  if (rc == 0) {
    if (a.x.n_data > 0) add_sidecars(p, m, &a.x);
    add_onnx(p, m, &a.pool, a.onnx, layout->onnx_name);
    // Tensors that emission never looked at because all around them was copied: what of the source
    // went where tells where they are.
    const struct placement *x = &a.x;
    struct arena scratch = {0};
    const struct plan_output *o = &p->outputs[p->n_outputs - 1];
    struct stretch *list = arena_alloc(&scratch, (o->n_segments + 1) * sizeof *list);
    uint32_t n = list_stretches(p, list);
    for (uint32_t k = 0; k < m->n_tensors; k++) {
      struct extent at;
      if (x->of[k] != PLACE_COPY || m->tensors[k].flags & (TENSOR_EXTERNAL | TENSOR_DEAD)) continue;
      if (!is_listed(m, k) || !model_plain_place(m, k, &at)) continue;
      const struct stretch *s = find_stretch(list, n, at);
      if (s)
        *TABLE_PUSH(p, tensors) =
            tensor_row(p, m, k, p->n_outputs - 1, p->segments[s->segment].off + (at.off - s->from),
                       s->segment);
    }
    if (layout->small_tensors) note_others(p, m, x, list, n);
    arena_free(&scratch);
    p->layout = layout_text(p, &a.x, layout);
  }
  rope_pool_free(&a.pool);
  placement_free(&a.x);
  if (rc) plan_free(p);
  return rc;
}

// ---- finding one's way -------------------------------------------------------------------------

static uint64_t output_units(const struct plan_output *o) {
  return (o->size + PLAN_UNIT_BYTES - 1) / PLAN_UNIT_BYTES;
}

uint32_t plan_unit_count(const struct plan *p) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < p->n_outputs; i++)
    n += output_units(&p->outputs[i]);
  assert(n < NO_ID);
  return (uint32_t)n;
}

struct plan_unit plan_unit_at(const struct plan *p, uint32_t unit) {
  uint64_t at = unit;
  for (uint32_t i = 0; i < p->n_outputs; i++) {
    uint64_t n = output_units(&p->outputs[i]);
    if (at < n) {
      uint64_t off = at * PLAN_UNIT_BYTES;
      return (struct plan_unit){i, off, min_u64(PLAN_UNIT_BYTES, p->outputs[i].size - off)};
    }
    at -= n;
  }
  assert(false && "unit outside the plan");
  return (struct plan_unit){0};
}

uint32_t plan_segment_at(const struct plan *p, uint32_t output, uint64_t off) {
  const struct plan_output *o = &p->outputs[output];
  uint32_t lo = o->first_segment;
  uint32_t hi =
      output == p->n_outputs - 1 && o->n_segments == 0 ? p->n_segments : lo + o->n_segments;
  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (p->segments[mid].off <= off)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

const char *plan_segment_weight(const struct plan *p, uint32_t segment) {
  for (uint32_t i = 0; i < p->n_tensors; i++)
    if (p->tensors[i].segment == segment)
      return p->tensors[i].of ? p->tensors[i].of : p->tensors[i].name;
  return NULL;
}

uint64_t plan_total_bytes(const struct plan *p) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < p->n_outputs; i++)
    n += p->outputs[i].size;
  return n;
}
