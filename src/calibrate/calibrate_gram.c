// Tiles lie in files (second_moments.h says how), since those of one value may be a gigabyte. A sample's rows are taken in panels that fit the
// memory; for each panel every tile is read, added to and written: the first panel reads the file that the sample before
// left and writes the other one, so that the first is whole until the sample is recorded.
#include "calibrate/calibrate.h"

#include "calibrate/calibrate_look.h"
#include "kernels/kernels.h"
#include "platform/files.h"
#include "platform/maps.h"
#include "resources/resources.h"
#include "tensor_stats/second_moments.h"

#include <errno.h>
#include <math.h>
#include <string.h>

uint64_t calibrate_gram_bytes(uint32_t channels) {
  return channels > SECOND_MOMENTS_MOST ? 0 : second_moments_elements(channels) * sizeof(double);
}

struct adding {
  const struct calibrate_gram *g;
  uint64_t k;
  float *rows;
  size_t most, n; // elements of a panel; that it has
  bool any;       // a panel was added
  double *tile;
  uint8_t *scratch;
};

static int read_tile(struct file f, uint64_t at, double *tile, size_t bytes, struct err *err) {
  if (!file_is_open(f)) {
    memset(tile, 0, bytes);
    return 0;
  }
  const int64_t got = file_read_all_at(f, tile, bytes, at);
  if (got == (int64_t)bytes) return 0;
  return err_errno(err, got < 0 ? errno : EIO, ERR_IO, "second moments cannot be read back");
}

static int write_tile(struct file f, uint64_t at, const double *tile, size_t bytes,
                      struct err *err) {
  if (file_write_all_at(f, tile, bytes, at) == 0) return 0;
  return err_errno(err, errno, ERR_IO, "second moments cannot be stored");
}

static int add_panel(struct adding *a, struct err *err) {
  const size_t rows = a->n / (size_t)a->k;
  for (uint64_t r = 0; r < second_moments_tiles(a->k); r++)
    for (uint64_t c = 0; c <= r; c++) {
      const uint64_t at = a->g->at + second_moments_at(a->k, r, c) * sizeof(double);
      const size_t bytes =
          (size_t)(second_moments_side(a->k, r) * second_moments_side(a->k, c)) * sizeof(double);
      if (read_tile(a->any ? a->g->to : a->g->from, at, a->tile, bytes, err)) return -1;
      if (rows > 0) kernels_gram(a->tile, a->k, r, c, a->rows, (size_t)a->k, rows, a->scratch);
      if (write_tile(a->g->to, at, a->tile, bytes, err)) return -1;
    }
  a->any = true;
  a->n = 0;
  return 0;
}

static int add_piece(void *ctx, const struct calibrate_piece *p, struct err *err) {
  struct adding *a = ctx;
  for (size_t i = 0; i < p->n; i++) {
    a->rows[a->n++] = isnan(p->at[i]) ? 0.0f : p->at[i];
    if (a->n == a->most && add_panel(a, err)) return -1;
  }
  return 0;
}

int calibrate_gram_add(const struct calibrate_gram *g, const struct array *x, struct err *err) {
  const uint64_t k = (uint64_t)x->dims[x->rank - 1];
  uint64_t rows = g->memory / (k * sizeof(float));
  rows = min_u64(max_u64(rows, 1), max_u64(x->count / k, 1));
  struct adding a = {.g = g, .k = k, .most = (size_t)(rows * k)};
  a.rows = resources_alloc(a.most * sizeof *a.rows);
  a.tile = resources_alloc(SECOND_MOMENTS_SIDE * SECOND_MOMENTS_SIDE * sizeof *a.tile);
  a.scratch = lines_new(KERNELS_PRODUCTS_SCRATCH);
  int rc = a.rows && a.tile && a.scratch
               ? 0
               : err_set(err, ERR_NO_MEMORY, "not enough memory for second moments");
  if (rc == 0) rc = calibrate_look(x, add_piece, &a, err);
  if (rc == 0 && (a.n > 0 || !a.any)) rc = add_panel(&a, err);
  resources_free(a.rows);
  resources_free(a.tile);
  lines_free(a.scratch);
  return rc;
}

// ---- the companion --------------------------------------------------------------------------------

static void digest_zeros(struct digest *d, uint64_t n) {
  static const uint8_t zeros[SECOND_MOMENTS_ALIGN];
  if (n > 0) digest_add(d, zeros, (size_t)n);
}

int calibrate_gram_move(struct file from, uint64_t at, struct file to, uint64_t *end,
                        struct digest *all, struct ranges_value *v, struct err *err) {
  enum { PIECE = 1 << 20 };
  const uint64_t bytes = calibrate_gram_bytes(v->gram_k),
                 start = round_up(*end, SECOND_MOMENTS_ALIGN);
  double *piece = resources_alloc(PIECE);
  struct digest *own = digest_new();
  int rc = piece ? 0 : err_set(err, ERR_NO_MEMORY, "not enough memory for second moments");
  digest_zeros(all, start - *end);
  for (uint64_t off = 0; off < bytes && rc == 0; off += PIECE) {
    const size_t n = (size_t)min_u64(PIECE, bytes - off);
    rc = read_tile(from, at + off, piece, n, err);
    if (rc == 0) rc = write_tile(to, start + off, piece, n, err);
    if (rc) break;
    digest_add(own, piece, n);
    digest_add(all, piece, n);
  }
  digest_finish(own, v->gram_sha256);
  resources_free(piece);
  v->gram_at = start;
  v->gram_bytes = bytes;
  *end = start + bytes;
  return rc;
}
