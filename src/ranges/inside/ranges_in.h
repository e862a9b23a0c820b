// What the readers of the three forms share: a file that is read once, line by line or whole, with its digest; the border
// that numbers pass.
#ifndef WEIR_RANGES_IN_H
#define WEIR_RANGES_IN_H

#include "json/json.h"
#include "ranges/ranges.h"

enum {
  RANGES_LINE_BYTES = 64 << 20,   // of RANGES
  RANGES_WHOLE_BYTES = 256 << 20, // of a cache or a table, which are read whole
  RANGES_NAME_BYTES = 64 << 10,
};

struct ranges_in {
  FILE *f;          // NULL: a text in memory is read
  struct span left; // of that text
  const char *path; // quoted
  uint64_t line;    // of the text that is read, from 1
  TABLE_BIG(char, text);
  size_t counted; // of a text that is read whole: the bytes before the place that `line` is of
  struct digest *digest;
};

// in_error(in, err, fmt, …): ERR_MODEL "'path':line: …"; -1.
#define ranges_in_error(...) (ranges_in_fill(__VA_ARGS__), err_minus_one())
void ranges_in_fill(const struct ranges_in *in, struct err *err, const char *fmt, ...)
    ERR_PRINTF(3, 4);

// The next line, without its newline, in in->text; *ended: there is none. A last line without a newline is
// cut: ERR_MODEL.
int ranges_in_line(struct ranges_in *in, bool *ended, struct err *err);
// All that is left. ERR_MODEL past RANGES_WHOLE_BYTES.
int ranges_in_whole(struct ranges_in *in, struct err *err);

// The rest of the border. A value of a range: finite, exact in its type, least <= most, under a name that is new.
struct ranges_value *ranges_in_value(const struct ranges_in *in, struct ranges *r, struct span name,
                                     struct err *err);
int ranges_in_range(const struct ranges_in *in, const struct ranges_value *v, struct err *err);
bool ranges_in_exact(double x, enum dtype type);
// x in the type, rounded to nearest, ties to even: infinite where it is past the type's range.
double ranges_in_rounded(double x, enum dtype type);

// A range that a method turned over becomes one of a single number that quantizes alike, since what is quantized is
// the range with 0 in it. Methods look at the lower edge of a bin, which may lie outside of what was seen where all of it lies in
// one or two bins away from 0; being clipped to what was seen, one end then passes the other.
void ranges_in_settle(struct ranges_value *v);

// The readers: all of it, of which nothing was read yet.
int ranges_own_read(struct ranges_in *in, struct ranges *r, struct err *err);
int ranges_cache_read(struct ranges_in *in, struct ranges *r, struct err *err);
int ranges_tensorrt_read(struct ranges_in *in, struct ranges *r, struct err *err);

#endif
