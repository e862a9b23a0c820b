// Samples are listed, then read one by one: once when they are opened, to see whether they fit and for their digests,
// and once each time they are wanted.
//
//   data ──list──▶ items ──load──▶ arrays of a file, or of raw files, or drawn ──fit──▶ inputs in the model's order
//
// Each sample is stored in one arena, which is emptied for the next; large arrays stay in their files. A sample
// whose bytes are others than when it was opened is refused: what was counted in the first read would not fit what the second
// one counts.
#include "verify/samples/samples.h"

#include "verify/arrays/array_files.h"
#include "verify/samples/inside/samples_parts.h"

#include <errno.h>

#define BYTES_OF_A_SAMPLE (UINT64_C(1) << 30)

struct samples {
  const struct model *m;
  struct infer *in;
  struct samples_options o;
  struct samples_list list;
  uint64_t left_out, next;
  uint8_t sha256[DIGEST_BYTES];
  struct draw_shape *shapes; // of the first drawn sample, which all have
  uint32_t n_shapes;
  struct array_files *files; // of the sample that is loaded
  struct arrays inputs;
  struct arena arena, sample;
};

uint64_t samples_count(const struct samples *s) {
  return s->list.n_items;
}

uint64_t samples_left_out(const struct samples *s) {
  return s->left_out;
}

void samples_sha256(const struct samples *s, uint8_t sha256[DIGEST_BYTES]) {
  memcpy(sha256, s->sha256, DIGEST_BYTES);
}

// ---- one sample --------------------------------------------------------------------------------

static void let_go(struct samples *s) {
  if (s->files) array_files_close(s->files);
  s->files = NULL;
  s->inputs = (struct arrays){.n = 0};
  arena_reset(&s->sample);
}

static int load_file(struct samples *s, const struct samples_item *item, struct arrays *has,
                     struct err *err) {
  struct array_cases cases;
  if (array_files_read(&s->files, item->path, s->o.scratch, s->o.most_bytes, &s->sample, &cases,
                       err))
    return -1;
  if (cases.n != 1)
    return err_set(err, ERR_INPUT, "'%s' has %u samples, not one", quote_path(item->path).s,
                   cases.n);
  *has = cases.list[0].inputs;
  return 0;
}

static int load_raw(struct samples *s, const struct samples_item *item, struct arrays *has,
                    struct err *err) {
  *has = (struct arrays){
      .list = arena_zalloc(&s->sample, (s->list.n_raws + (size_t)1) * sizeof *has->list)};
  for (uint32_t i = 0; i < s->list.n_raws; i++) {
    struct samples_raw *r = &s->list.raws[i];
    if (!file_is_open(r->file)) r->file = file_open(HERE, r->path, 0);
    if (!file_is_open(r->file))
      return err_errno(err, errno, ERR_INPUT, "'%s' cannot be read", quote_path(r->path).s);
    struct array *x = &has->list[has->n++];
    *x = (struct array){.name = r->input,
                        .kind = ARRAY_TENSOR,
                        .dtype = r->dtype,
                        .rank = r->rank,
                        .dims = r->dims,
                        .file = r->file,
                        .offset = item->at * r->bytes};
    array_sizes(x->dtype, x->rank, x->dims, &x->count, &x->bytes);
  }
  return 0;
}

static int draw_one(struct samples *s, const struct samples_item *item, struct arrays *has,
                    struct err *err) {
  struct draw_options o = s->o.draw;
  struct draw *d;
  char why[256] = "";
  o.seed += item->at;
  if (s->shapes) {
    o.shapes = s->shapes;
    o.n_shapes = s->n_shapes;
  }
  if (draw_open(&d, s->in, s->m, &o, err)) return -1;
  const enum draw_end end = draw_inputs(d, &s->sample, has, why);
  if (end == DRAW_DONE && !s->shapes) s->n_shapes = draw_shapes(d, &s->arena, &s->shapes);
  draw_close(d);
  if (end == DRAW_DONE) return 0;
  err_fill(err, ERR_INPUT, "weir cannot draw samples: %s", why);
  return err_hint(err, "give samples with --data");
}

static int load(struct samples *s, const struct samples_item *item, struct err *err) {
  struct arrays has;
  let_go(s);
  const int rc = item->kind == SAMPLES_FILE  ? load_file(s, item, &has, err)
                 : item->kind == SAMPLES_RAW ? load_raw(s, item, &has, err)
                                             : draw_one(s, item, &has, err);
  return rc ? rc : samples_fit(s->m, s->in, item->name, &has, &s->sample, &s->inputs, err);
}

// Of names, types, dims and elements: not of their layout in a file.
static int add_array(struct samples *s, struct digest *d, const struct array *x, struct err *err) {
  enum { PIECE = 1 << 18 };
  uint8_t *piece = arena_alloc(&s->sample, PIECE);
  const char *head = arena_printf(&s->sample, "%s %u", dtype_name(x->dtype), x->rank);
  digest_add(d, x->name, strlen(x->name) + 1);
  digest_add(d, head, strlen(head) + 1);
  digest_add(d, x->dims, x->rank * sizeof *x->dims);
  for (uint64_t i = 0; i < x->count && x->strings; i++) {
    digest_add(d, x->strings[i].at, x->strings[i].n);
    digest_add(d, "", 1); // the memory after them belongs to others
  }
  for (uint64_t off = 0; off < x->bytes; off += PIECE) {
    const size_t n = (size_t)min_u64(PIECE, x->bytes - off);
    if (array_read(x, off, piece, n, err)) return -1;
    digest_add(d, piece, n);
  }
  return 0;
}

static int digest_sample(struct samples *s, uint8_t sha256[DIGEST_BYTES], struct err *err) {
  struct digest *d = digest_new();
  int rc = 0;
  for (uint32_t i = 0; i < s->inputs.n && rc == 0; i++)
    rc = add_array(s, d, &s->inputs.list[i], err);
  digest_finish(d, sha256);
  return rc;
}

// ---- all of them -------------------------------------------------------------------------------

static int list_all(struct samples *s, struct err *err) {
  for (uint32_t i = 0; i < s->o.n_data; i++)
    if (samples_list_data(&s->list, s->o.data[i], &s->arena, err)) return -1;
  if (samples_list_raws(&s->list, &s->arena, err)) return -1;
  const uint64_t files = s->list.n_items;
  for (uint64_t k = 0; k < s->o.generate && files + k < s->o.most; k++)
    *TABLE_PUSH(&s->list, items) =
        (struct samples_item){.name = arena_printf(&s->arena, "drawn sample %s", decimal(k).s),
                              .kind = SAMPLES_DRAWN,
                              .at = k};
  const uint64_t all = files + s->o.generate;
  s->left_out = all > s->o.most ? all - s->o.most : 0;
  s->list.n_items = (uint32_t)min_u64(all, s->o.most);
  if (s->list.n_items > 0) return 0;
  err_fill(err, ERR_USAGE, "there are no samples");
  return err_hint(err, "use --data to name samples, or --generate N to draw them");
}

static int look_at_all(struct samples *s, struct err *err) {
  struct digest *all = digest_new();
  int rc = 0;
  for (uint32_t i = 0; i < s->list.n_items && rc == 0; i++) {
    struct samples_item *item = &s->list.items[i];
    rc = load(s, item, err) || digest_sample(s, item->sha256, err) ? -1 : 0;
    digest_add(all, item->sha256, DIGEST_BYTES);
  }
  digest_finish(all, s->sha256);
  let_go(s);
  return rc;
}

int samples_open(struct samples **out, const struct model *m, struct infer *in,
                 const struct samples_options *o, struct err *err) {
  struct arena arena = {0};
  struct samples *s = arena_zalloc(&arena, sizeof *s);
  s->arena = arena;
  s->m = m;
  s->in = in;
  s->o = *o;
  if (s->o.most == 0) s->o.most = SAMPLES_DEFAULT;
  if (s->o.most > SAMPLES_MOST) s->o.most = SAMPLES_MOST;
  if (s->o.most_bytes == 0) s->o.most_bytes = BYTES_OF_A_SAMPLE;
  *out = NULL;
  if (list_all(s, err) || look_at_all(s, err)) {
    samples_close(s);
    return -1;
  }
  *out = s;
  return 0;
}

void samples_close(struct samples *s) {
  if (!s) return;
  let_go(s);
  for (uint32_t i = 0; i < s->list.n_raws; i++)
    file_close(&s->list.raws[i].file);
  TABLES_FREE(&s->list, items, raws);
  arena_free(&s->sample);
  struct arena arena = s->arena; // it holds *s
  arena_free(&arena);
}

int samples_next(struct samples *s, const struct arrays **inputs, const char **name, bool *ended,
                 struct err *err) {
  uint8_t sha256[DIGEST_BYTES];
  *ended = s->next == s->list.n_items;
  if (*ended) {
    let_go(s);
    s->next = 0;
    return 0;
  }
  const struct samples_item *item = &s->list.items[s->next++];
  if (load(s, item, err) || digest_sample(s, sha256, err)) return -1;
  if (memcmp(sha256, item->sha256, sizeof sha256) != 0) {
    err_fill(err, ERR_INPUT, "the sample '%s' changed during the run", quote_str(item->name).s);
    return err_hint(err, "start again");
  }
  *inputs = &s->inputs;
  *name = item->name;
  return 0;
}

void samples_rewind(struct samples *s) {
  let_go(s);
  s->next = 0;
}
