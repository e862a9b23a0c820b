// TensorRT's calibration table:
//
//   TRT-8501-EntropyCalibration2
//   input: 3c010a14
//   (Unnamed Layer* 4) [Convolution]_output: 3d2b1c04
//
// The number is the bits of a float32, most significant digit first: the largest magnitude over 127. So a range is
// symmetric, 127 steps to either side. Names may have colons and blanks; the last ": " ends them.
#include "ranges/inside/ranges_in.h"

#include <math.h>

static enum ranges_method method_of(struct span head) {
  static const struct {
    const char *tail;
    enum ranges_method method;
  } rows[] = {{"-EntropyCalibration", RANGES_ENTROPY},
              {"-EntropyCalibration2", RANGES_ENTROPY},
              {"-MinMaxCalibration", RANGES_MINMAX}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const size_t n = strlen(rows[i].tail);
    if (head.n > n && memcmp(head.at + head.n - n, rows[i].tail, n) == 0) return rows[i].method;
  }
  return RANGES_ANY;
}

static int read_scale(const struct ranges_in *in, struct ranges *r, struct span line,
                      struct err *err) {
  enum { DIGITS = 8, TAIL = DIGITS + 2 };
  uint8_t b[4];
  float scale;
  if (line.n < TAIL || memcmp(line.at + line.n - TAIL, ": ", 2) != 0 ||
      !hex_decode(span_of(line.at + line.n - DIGITS, DIGITS), b, sizeof b))
    return ranges_in_error(in, err, "the line is not 'name: ' and 8 hex digits");
  const uint32_t bits =
      (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
  memcpy(&scale, &bits, sizeof scale);
  struct ranges_value *v = ranges_in_value(in, r, span_of(line.at, line.n - TAIL), err);
  if (!v) return -1;
  v->type = DTYPE_FLOAT;
  v->most = (double)(scale * 127.0f);
  v->least = -v->most;
  if (signbit(scale))
    return ranges_in_error(in, err, "the scale of '%s' is below 0", quote(v->name).s);
  return ranges_in_range(in, v, err);
}

int ranges_tensorrt_read(struct ranges_in *in, struct ranges *r, struct err *err) {
  if (ranges_in_whole(in, err)) return -1;
  r->form = RANGES_TENSORRT;
  r->symmetric = true;
  struct span rest = span_of(in->text, in->n_text);
  for (in->line = 1; rest.n > 0; in->line++) {
    const uint8_t *end = memchr(rest.at, '\n', rest.n);
    const struct span line = span_of(rest.at, end ? (size_t)(end - rest.at) : rest.n);
    const size_t used = line.n + (end != NULL);
    if (in->line == 1)
      r->method = method_of(line);
    else if (line.n > 0 && read_scale(in, r, line, err))
      return -1;
    rest = span_of(rest.at + used, rest.n - used);
  }
  return 0;
}
