// Sizes with their units. KMGT count in powers of 1024, with a B behind them in powers of 1000, as most
// tools that take such words do: "64M" is "64MiB", and "64MB" a little less.
#include "size_words.h"

// The factor that a unit stands for, 0 for what is none.
static uint64_t unit_factor(const char *unit) {
  static const char letters[] = "KMGT";
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

bool size_words_parse(const char *text, uint64_t *bytes) {
  char digits[24];
  size_t n = strspn(text, "0123456789");
  if (n == 0 || n >= sizeof digits) return false;
  memcpy(digits, text, n);
  digits[n] = '\0';
  uint64_t factor = unit_factor(text + n), count;
  if (factor == 0 || !span_decimal(span_str(digits), &count)) return false;
  return !mul_overflows(count, factor, bytes) && *bytes <= INT64_MAX;
}
