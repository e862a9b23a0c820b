// What libFuzzer asks for inputs of targets that take models: mutants of an .onnx are mutate.h's,
// mostly; other bytes, and now and then those too, are libFuzzer's own.
#include "chance.h"
#include "mutate.h"

#include <stdint.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b,
                                 uint8_t *out, size_t most, unsigned seed);

static bool is_onnx(const uint8_t *data, size_t size) {
  return size > 1 && data[0] == 8 && data[1] < 32;
}

// 0: it would be too large.
static size_t made_of(struct span model, struct span other, uint8_t *out, size_t most,
                      unsigned seed) {
  struct arena room = {0};
  const char *what;
  const struct span made = mutate(model, other, seed, &room, &what);
  const size_t n = made.n <= most ? made.n : 0;
  memmove(out, made.at, n);
  arena_free(&room);
  return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  const struct span model = span_of(data, size);
  const size_t n = is_onnx(data, size) && seed % 16 ? made_of(model, model, data, most, seed) : 0;
  return n ? n : LLVMFuzzerMutate(data, size, most);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b,
                                 uint8_t *out, size_t most, unsigned seed) {
  return is_onnx(a, n_a) && is_onnx(b, n_b)
             ? made_of(span_of(a, n_a), span_of(b, n_b), out, most, seed)
             : 0;
}
