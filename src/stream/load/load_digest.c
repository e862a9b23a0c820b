// meta_sha256: what a model is, without what it weighs.
//
//   .onnx     ══════[payload]═══════════[payload]══════
//   hashed    ══════ length  ═══════════ length  ══════ + small external and varint values
//
// Payloads that load did not materialize count as their length, 8 bytes little-endian (neighbouring
// ranges as one); everything else counts as it stands in the file. What load did materialize from
// elsewhere, or from varints, is added in load order: it decided what passes do, so it belongs to
// the identity of their input. A second pass over the metadata costs less than bookkeeping in the
// first: the pages are warm, and the hash is fed whole megabytes.
#include "digest.h"
#include "loader.h"

#include <stdlib.h>

// The reader steps over what lies between, and reads on through gaps smaller than its window.
static int add_range(struct loader *l, struct digest *d, uint64_t from, uint64_t to) {
  wire_seek(&l->w, from);
  while (wire_offset(&l->w) < to) {
    struct span bytes;
    if (wire_window(&l->w, to - wire_offset(&l->w), &bytes, l->err)) return -1;
    digest_add(d, bytes.at, bytes.n);
  }
  return 0;
}

static int add_file(struct loader *l, struct digest *d) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < l->n_elided; i++) {
    const struct place p = l->elided[i];
    if (add_range(l, d, at, p.off)) return -1;
    digest_add(d, &p.len, sizeof p.len); // little-endian hosts only, as everywhere
    at = p.off + p.len;
  }
  return add_range(l, d, at, l->w.size);
}

static int compare_places(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  return x->off < y->off ? -1 : x->off > y->off;
}

int load_digest(struct loader *l) {
  if (l->n_elided) qsort(l->elided, l->n_elided, sizeof *l->elided, compare_places);
  struct digest *d = digest_new();
  digest_start(d);
  const int rc = add_file(l, d);
  if (rc == 0) {
    const struct model *m = l->m;
    for (uint32_t id = 0; id < m->n_tensors; id++) {
      const struct model_tensor *t = &m->tensors[id];
      struct span bytes;
      if (!(t->flags & TENSOR_EXTERNAL) && t->encoding != ENCODING_VARINT) continue;
      if (model_small_value(m, id, &bytes)) digest_add(d, bytes.at, bytes.n);
    }
    digest_end(d, l->m->meta_sha256);
  }
  digest_free(d);
  return rc;
}
