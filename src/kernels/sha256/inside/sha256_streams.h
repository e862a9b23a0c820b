// Inside sha256_<isa>.c: any number of streams, WIDE (3) of them side by side at the most. Before including this a file says
// STREAMS_TARGET, a function attribute; STREAMS_ISA(name), the name with the ISA's; and gives side_by_side(state, at, n, blocks)
// of n streams.
#ifndef WEIR_SHA256_STREAMS_H
#define WEIR_SHA256_STREAMS_H

STREAMS_TARGET static void three(uint32_t state[][8], const uint8_t *const at[], size_t blocks) {
  side_by_side(state, at, 3, blocks);
}

STREAMS_TARGET static void two(uint32_t state[][8], const uint8_t *const at[], size_t blocks) {
  side_by_side(state, at, 2, blocks);
}

STREAMS_TARGET static void one(uint32_t state[][8], const uint8_t *const at[], size_t blocks) {
  side_by_side(state, at, 1, blocks);
}

void STREAMS_ISA(sha256_lanes)(uint32_t state[][8], const uint8_t *const at[], size_t lanes,
                               size_t blocks) {
  for (; lanes > 4 || lanes == 3; lanes -= 3, state += 3, at += 3)
    three(state, at, blocks);
  for (; lanes > 1; lanes -= 2, state += 2, at += 2)
    two(state, at, blocks);
  if (lanes > 0) one(state, at, blocks);
}

size_t STREAMS_ISA(sha256_width)(void) {
  return WIDE;
}

#endif
