// meta_sha256: what a model is, without what it weighs.
//
//   .onnx     ══════[payload]═══════════[payload]══════
//   hashed    ══════ length  ═══════════ length  ══════ + small external and varint values
//
// Payloads that load did not materialize count as their length, 8 bytes little-endian (neighbouring
// ranges as one, each string of an attribute's list by itself); everything else counts as it stands in the file. What load did materialize from
// elsewhere, or from varints, is added in load order: it decided what passes do, so it belongs to
// the identity of their input. A second pass over the metadata costs less than bookkeeping in the
// first: the pages are warm, and the hash is fed whole megabytes.
#include "base/digest.h"
#include "stream/load/inside/loader.h"

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

// Tags and lengths as they stand, contents as their length.
static int add_run(struct loader *l, struct digest *d, struct place run) {
  const uint64_t end = run.off + run.len;
  wire_seek(&l->w, run.off);
  while (wire_offset(&l->w) < end) {
    struct wire_field wf;
    uint8_t header[16]; // a tag of at most 5 bytes, a length of at most 10
    if (wire_next(&l->w, end, &wf, l->err)) return -1;
    const size_t n = (size_t)(wf.body - wf.start);
    if (wire_read_at(&l->w, wf.start, header, n, l->err)) return -1;
    digest_add(d, header, n);
    if (wf.len > 0) digest_add(d, &wf.len, sizeof wf.len);
    wire_skip(&l->w, wf.len);
  }
  return 0;
}

static int add_file(struct loader *l, struct digest *d) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < l->n_elided; i++) {
    const struct place p = l->elided[i].at;
    if (add_range(l, d, at, p.off)) return -1;
    at = p.off + p.len;
    if (!l->elided[i].run)
      digest_add(d, &p.len, sizeof p.len); // little-endian hosts only, as everywhere
    else if (add_run(l, d, p))
      return -1;
  }
  return add_range(l, d, at, l->w.size);
}

static int compare_places(const void *a, const void *b) {
  const struct elided *x = a, *y = b;
  return x->at.off < y->at.off ? -1 : x->at.off > y->at.off;
}

int load_digest(struct loader *l) {
  if (l->n_elided) qsort(l->elided, l->n_elided, sizeof *l->elided, compare_places);
  struct digest *d = digest_new();
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
