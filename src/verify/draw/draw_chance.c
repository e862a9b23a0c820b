// Random numbers that are the same on every machine.
//
// A stream is named by (seed, name): the state begins at the seed, mixed with FNV-1a of the name, so that an array is
// drawn alike whatever others are drawn before it. No libm: its functions differ in the last bit between systems.
#include "verify/draw/inside/draw_parts.h"

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

struct draw_chance draw_chance_of(uint64_t seed, struct span name) {
  uint64_t h = 0xcbf29ce484222325;
  for (size_t i = 0; i < name.n; i++)
    h = (h ^ name.at[i]) * 0x100000001b3;
  return (struct draw_chance){mix(seed + 0x9e3779b97f4a7c15) ^ mix(h)};
}

uint64_t draw_chance_next(struct draw_chance *c) {
  c->state += 0x9e3779b97f4a7c15;
  return mix(c->state);
}

int64_t draw_chance_below(struct draw_chance *c, int64_t n) {
  const uint64_t x = draw_chance_next(c), end = (uint64_t)n;
  return (int64_t)(end >> 32 ? x % end : (x >> 32) * end >> 32);
}

float draw_chance_unit(struct draw_chance *c) {
  return (float)(draw_chance_next(c) >> 40) * 0x1p-24f;
}

float draw_chance_normal(struct draw_chance *c) {
  int32_t sum = -6 * 65535;
  for (int i = 0; i < 3; i++)
    for (uint64_t x = draw_chance_next(c), k = 0; k < 4; k++, x >>= 16)
      sum += (int32_t)(x & 0xffff);
  return (float)sum * 0x1p-16f;
}
