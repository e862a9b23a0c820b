// Room: figures of how far two arrays agree, and bounds of them. Read side by side in stretches, in memory that does
// not depend on their size.
//
//   reference r, result x, both taken as doubles (float16, bfloat16, float8, integers, bool are exact in them;
//   int64 and uint64 are compared as they are where they should be equal)
//
//   max abs        max |x - r|                       mean abs   mean |x - r|
//   p99, p99.9     the least of these differences that 99 % (99.9 %) are not above: exact (at most three more reads find it)
//   relative       max |x - r| / max |r|             (of the whole array, not by element: small elements do not blow
//                                                     it up)
//   cosine         x . r / (|x| |r|); 1 where both are zero, 0 where one is
//   SQNR           10 log10(sum r^2 / sum (x - r)^2) in dB; infinite where nothing differs
//   top-1          share of rows (last axis, at least two elements; no bools) whose largest element is at the
//                  same place: the first of equal ones. A row with a NaN on one side is elsewhere, with NaNs on both
//                  it does not count
//   beyond         elements with |x - r| > atol + rtol |r| or > atol + rtol |x|: allclose of NumPy in both directions
//
// Elements that are not finite: equal ones (the same infinity, NaN beside NaN) count as differing by nothing; where
// one side alone is not finite, or they are other ones, the place is kept and no bounds are met. Complex numbers
// are two elements each. Strings that differ are infinitely far apart.
//
// To add a figure: a member of compare_figures, its formula above, its share of the first read in compare.c (no figure
// may depend on where elements are stored), its bound, its word in `metrics` and its judgement in compare_bounds.c, a
// column in render_verified_tables.c and html_verified.c, a member in render_verified.c, and the same with NumPy in
// tests/e2e/test_arrays.py.
#ifndef WEIR_COMPARE_H
#define WEIR_COMPARE_H

#include "verify/arrays/array.h"

struct compare_bounds {
  double rtol, atol;        // allclose; < 0: not asked for
  double max_abs, mean_abs; // < 0: not asked for
  double least_cosine;      // > 1: … is never met; NAN: not asked for. The same of the following
  double least_sqnr_db, least_top1;
  double most_relative, most_p99, most_p999; // < 0: not asked for, too
  bool equal;                                // bit for bit, but that NaNs are equal to each other
  bool zeros_equal;                          // with equal: 0 and -0 too
  bool step;        // with most_relative: and one more, where there are numbers beyond 1
  bool whole_equal; // elements of types that are no floats (integers, bools, strings) are equal
  // Two float types are compared as the numbers they hold; beyond float16, as its largest.
  bool retyped;
  // With retyped: numbers beyond 5000 on one side of 0 in both mean the same, as those of masks do.
  bool masks;
  bool nonfinite; // elements that are not finite may be there, on both sides at the same places
};
// No bound at all; elements may be other than finite where both sides are the same.
struct compare_bounds compare_nothing(void);

enum compare_end {
  COMPARE_PASSED,
  COMPARE_FAILED,   // a bound
  COMPARE_DIFFERENT // dtype, dims, kind: there are no figures
};

struct compare_figures {
  uint64_t count;
  double max_abs, mean_abs, p99_abs, p999_abs, relative, cosine, sqnr_db, top1;
  bool has_top1;               // there are rows that count
  uint64_t top1_rows;          // how many
  double largest;              // max |r|
  uint64_t beyond;             // of allclose, where it was asked for
  uint64_t unequal;            // elements whose bits differ (NaNs: none)
  uint64_t unequal_zeros;      // of these: 0 beside -0
  uint64_t unequal_whole;      // of these: of types that are no floats
  uint64_t nonfinite[2];       // how many, in the reference and in the result
  uint64_t first_nonfinite[2]; // place of the first, row-major
  uint64_t nonfinite_apart;    // where one side alone is not finite, or other ones
  uint64_t first_apart;
  uint64_t made_nan, made_infinite; // of these: where the reference is finite
  uint64_t first_worst;             // place of the largest difference
};

enum { COMPARE_WHY = 256 };

struct compare_result {
  enum compare_end end;
  struct compare_figures figures; // not for DIFFERENT
  // "max abs 3.1e-04 is above 3e-05", "float[1,64] and float[1,65]"; empty if it passed.
  char why[COMPARE_WHY];
};

// Sequences: item by item, the figures of all their elements, as if those lay behind one another (places too).
// `stop` may be NULL: looked at now and then; other than 0 ends it with ERR_RETRY. -1: it could not be read.
int compare_arrays(const struct array *reference, const struct array *result,
                   const struct compare_bounds *bounds, const volatile int *stop,
                   struct compare_result *out, struct err *err);

// Rows (the last axis, at least two elements) whose largest element is elsewhere in the result. A row whose two largest elements
// are closer than `apart` in the reference is undecided: it counts for nothing. A row with a NaN on one side counts as elsewhere;
// one with NaNs on both has no largest element and is not counted at all.
struct compare_rows {
  uint64_t counted, changed; // of those that count
  uint64_t close;            // that are undecided
};
// The array, or the first item of a sequence, that has rows; NULL: none has.
const struct array *compare_rows_of(const struct array *x);
// Of two arrays that compare_arrays found figures of: of sequences, the rows of all items. `stop` and -1 as there.
int compare_rows(const struct array *reference, const struct array *result, double apart,
                 const volatile int *stop, struct compare_rows *out, struct err *err);

// Names of the metrics of --metric and of pipeline files, with their bounds: "cosine>=0.999", "sqnr=20",
// "top1=0.99", "max_abs=1e-3", "relative=…", "p99=…", "p999=…", "mean_abs=…". Sets one of *b. ERR_USAGE.
// Where top-1 has no rows to look at (a scalar, a length, strings), it wants elements that are equal.
int compare_take_metric(struct compare_bounds *b, const char *word, struct err *err);
// Judges figures that were found before by other bounds: `why` as above.
enum compare_end compare_judge(const struct compare_figures *f, const struct compare_bounds *b,
                               char why[COMPARE_WHY]);

#endif
