// Sizes with their units. KMGT count in powers of 1024, with a B behind them in powers of 1000, as
// most tools that take such words do: "64M" is "64MiB", and "64MB" a little less.
//
// A fraction is multiplied out digit by digit in integers, from its end: no double comes between
// the words and the bytes, however many digits there are. Sizes that were given are shown as such
// words again; sizes that came about are shown in decimal units (quote_bytes).
#include "base/size_words.h"

#include <stdio.h>

static const char letters[] = "KMGT";

// The factor that a unit stands for, 0 for what is none.
static uint64_t unit_factor(const char *unit) {
  if (*unit == '\0' || strcmp(unit, "B") == 0) return 1;
  char first = unit[0] == 'k' ? 'K' : unit[0];
  const char *at = strchr(letters, first);
  if (!at) return 0;
  bool decimal = strcmp(unit + 1, "B") == 0;
  if (!decimal && unit[1] != '\0' && strcmp(unit + 1, "iB") != 0 && strcmp(unit + 1, "i") != 0)
    return 0;
  uint64_t factor = 1;
  for (const char *l = letters; l <= at; l++)
    factor *= decimal ? 1000 : 1024;
  return factor;
}

// floor(0.d1d2… * factor). Rounding down at every digit rounds the whole down, as what is added to
// each quotient is an integer.
static uint64_t fraction_of(const char *digits, size_t n, uint64_t factor) {
  uint64_t part = 0;
  for (size_t i = n; i > 0; i--)
    part = ((uint64_t)(digits[i - 1] - '0') * factor + part) / 10;
  return part;
}

bool size_words_parse(const char *text, uint64_t *bytes) {
  static const char decimal[] = "0123456789";
  const size_t n = strspn(text, decimal);
  const char *unit = text + n, *fraction = NULL;
  size_t n_fraction = 0;
  if (*unit == '.') {
    fraction = unit + 1;
    n_fraction = strspn(fraction, decimal);
    unit = fraction + n_fraction;
    if (n_fraction == 0) return false;
  }
  const uint64_t factor = unit_factor(unit);
  uint64_t count;
  // Of a byte there are no fractions.
  if (factor == 0 || (fraction && factor == 1)) return false;
  if (!span_decimal(span_of(text, n), &count) || mul_overflows(count, factor, bytes)) return false;
  if (*bytes > INT64_MAX) return false;
  if (fraction) *bytes += fraction_of(fraction, n_fraction, factor);
  return *bytes <= INT64_MAX;
}

// The number of units if n is a whole number of them; `letter`: which, NUL if of none.
static uint64_t whole_units(uint64_t n, uint64_t step, char *letter) {
  *letter = '\0';
  for (const char *l = letters; *l && n && n % step == 0; l++) {
    n /= step;
    *letter = *l;
  }
  return n;
}

struct quoted size_words_of(uint64_t n) {
  struct quoted q;
  char two, ten;
  const uint64_t b = whole_units(n, 1024, &two), d = whole_units(n, 1000, &ten);
  if (two && (!ten || b <= d))
    snprintf(q.s, sizeof q.s, "%s%ciB", decimal(b).s, two);
  else if (ten)
    snprintf(q.s, sizeof q.s, "%s%cB", decimal(d).s, ten);
  else
    snprintf(q.s, sizeof q.s, "%s byte%s", decimal(n).s, plural(n));
  return q;
}
