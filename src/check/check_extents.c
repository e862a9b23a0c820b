// What ranges of data files do to each other. None of this is an error: runtimes accept all of it.
// But overlapping ranges are more often a mistake than a trick, and bytes that nothing names are
// weight that somebody pays for.
//
// Ranges are sorted by place; one sweep then sees every overlap with the range that reaches
// farthest, and every hole.
#include "check/inside/check_parts.h"

#include <stdlib.h>

struct claim {
  struct extent at;
  uint32_t tensor;
};

static int compare_claims(const void *a, const void *b) {
  const struct claim *x = a, *y = b;
  if (x->at.file != y->at.file) return x->at.file < y->at.file ? -1 : 1;
  if (x->at.off != y->at.off) return x->at.off < y->at.off ? -1 : 1;
  if (x->at.len != y->at.len) return x->at.len > y->at.len ? -1 : 1;
  return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static struct quoted name_of(const struct check *c, uint32_t tensor) {
  return quote(model_name(c->m, c->m->tensors[tensor].name));
}

struct sweep {
  uint64_t named;    // bytes of this file that some range names
  uint64_t end;      // how far ranges have reached
  uint32_t farthest; // index of the range that did
  uint64_t aliases, overlaps;
  uint32_t overlap; // index of the first overlapping range
  uint32_t overlapped;
};

static void see_claim(struct sweep *s, const struct claim *claims, uint32_t i) {
  const struct extent *x = &claims[i].at;
  if (x->len == 0) return;
  const uint64_t end = x->off + x->len;
  const struct extent *last = s->farthest == NO_ID ? NULL : &claims[s->farthest].at;
  if (last && last->off == x->off && last->len == x->len) {
    s->aliases++;
    return;
  }
  if (last && x->off < s->end && s->overlaps++ == 0) {
    s->overlap = i;
    s->overlapped = s->farthest;
  }
  if (end <= s->end) return;
  s->named += end - max_u64(x->off, s->end);
  s->end = end;
  s->farthest = i;
}

static int report_file(struct check *c, uint32_t file, const struct sweep *s,
                       const struct claim *claims) {
  const struct model_file *f = &c->m->files[file];
  const struct quoted q = quote_str(f->name);
  const char *place = q.s;
  if (s->overlaps) {
    const struct claim *a = &claims[s->overlapped], *b = &claims[s->overlap];
    if (check_report(c, FAULT_WARNING, place,
                     "tensor '%s' (bytes %s..%s) overlaps tensor '%s' (bytes %s..%s); %s "
                     "such overlaps",
                     name_of(c, a->tensor).s, decimal(a->at.off).s,
                     decimal(a->at.off + a->at.len).s, name_of(c, b->tensor).s,
                     decimal(b->at.off).s, decimal(b->at.off + b->at.len).s,
                     decimal(s->overlaps).s))
      return -1;
  }
  if (s->aliases && check_report(c, FAULT_NOTE, place, "%s tensor%s bytes with another tensor",
                                 decimal(s->aliases).s, s->aliases == 1 ? " shares" : "s share"))
    return -1;
  if (f->size <= s->named || file == 0) return 0;
  return check_report(c, FAULT_NOTE, place, "%s of %s bytes %s not used by any tensor",
                      decimal(f->size - s->named).s, decimal(f->size).s,
                      f->size - s->named == 1 ? "is" : "are");
}

static int report_unaligned(struct check *c, const struct claim *claims, uint32_t n) {
  uint32_t first = NO_ID;
  uint64_t count = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t bytes = dtype_bits(c->m->tensors[claims[i].tensor].dtype) / 8;
    if (bytes < 2 || claims[i].at.off % bytes == 0) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return 0;
  const struct claim *x = &claims[first];
  return check_report(c, FAULT_NOTE, quote_str(c->m->files[x->at.file].name).s,
                      "%s tensor%s at an offset that is not a multiple of the element size "
                      "(the first: '%s' at byte %s)",
                      decimal(count).s, count == 1 ? " begins" : "s begin", name_of(c, x->tensor).s,
                      decimal(x->at.off).s);
}

int check_extents(struct check *c) {
  const struct model *m = c->m;
  struct arena scratch = {0};
  uint32_t n = 0;
  if (!c->faults || m->n_tensors == 0) return 0;
  struct claim *claims = arena_alloc(&scratch, m->n_tensors * sizeof *claims);
  for (uint32_t id = 0; id < m->n_tensors; id++) {
    const struct model_tensor *t = &m->tensors[id];
    uint32_t pieces;
    if (!(t->flags & TENSOR_EXTERNAL) || t->flags & (TENSOR_DEAD | TENSOR_NEW)) continue;
    const struct piece *piece = model_pieces(m, id, &pieces);
    if (pieces == 1) claims[n++] = (struct claim){piece->at, id};
  }
  qsort(claims, n, sizeof *claims, compare_claims);
  int rc = report_unaligned(c, claims, n);
  for (uint32_t i = 0; i < n && rc == 0;) {
    const uint32_t file = claims[i].at.file;
    struct sweep s = {.farthest = NO_ID};
    for (; i < n && claims[i].at.file == file; i++)
      see_claim(&s, claims, i);
    rc = report_file(c, file, &s, claims);
  }
  arena_free(&scratch);
  return rc;
}
