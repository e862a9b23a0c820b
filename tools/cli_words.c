// The distance is that of "optimal string alignment": rows of the usual edit matrix, with one more
// step for two neighbours swapped, which is what fingers do. Option names are short, so three rows
// of 32 cells are enough, and longer words have no near name.
#include "cli_words.h"

#include "cli.h"

#include <string.h>

enum { WORD_MAX = 31 };

static uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

uint32_t cli_distance(const char *a, const char *b) {
  size_t na = strlen(a), nb = strlen(b);
  if (na > WORD_MAX || nb > WORD_MAX) return UINT32_MAX;
  uint32_t row[3][WORD_MAX + 1];
  for (uint32_t j = 0; j <= nb; j++)
    row[0][j] = j;
  for (size_t i = 1; i <= na; i++) {
    uint32_t *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
    now[0] = (uint32_t)i;
    for (size_t j = 1; j <= nb; j++) {
      uint32_t best = up[j - 1] + (a[i - 1] != b[j - 1]);
      best = min_u32(best, min_u32(up[j], now[j - 1]) + 1);
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) best = min_u32(best, up2[j - 2] + 1);
      now[j] = best;
    }
  }
  return row[na % 3][nb];
}

struct cli_guess cli_guess_start(const char *word) {
  return (struct cli_guess){.word = word, .edits = UINT32_MAX};
}

void cli_guess_try(struct cli_guess *g, const char *candidate) {
  size_t n = strlen(g->word);
  uint32_t edits = cli_distance(g->word, candidate);
  uint32_t allowed = n < 6 ? 1 : (uint32_t)n / 3;
  // The start of a name is nearer than any slip: it counts as one.
  if (n >= 2 && strncmp(g->word, candidate, n) == 0) edits = 1;
  if (edits > allowed || edits >= g->edits) return;
  g->best = candidate;
  g->edits = edits;
}

bool cli_words_number(const char *text, uint64_t *n) {
  *n = 0;
  if (*text == '\0') return false;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return false;
    if (mul_overflows(*n, 10, n) || add_overflows(*n, (uint64_t)(*text - '0'), n)) return false;
    if (*n > INT64_MAX) return false;
  }
  return true;
}

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

bool cli_parse_size(const char *text, uint64_t *bytes) {
  char digits[24];
  size_t n = strspn(text, "0123456789");
  if (n == 0 || n >= sizeof digits) return false;
  memcpy(digits, text, n);
  digits[n] = '\0';
  uint64_t factor = unit_factor(text + n), count;
  if (factor == 0 || !cli_words_number(digits, &count)) return false;
  return !mul_overflows(count, factor, bytes) && *bytes <= INT64_MAX;
}

static bool is_bare(const char *word) {
  static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "@%_+=:,./-";
  return *word && word[strspn(word, safe)] == '\0';
}

const char *cli_words_quote(const char *word, struct arena *arena) {
  if (is_bare(word)) return word;
  size_t n = strlen(word);
  char *out = arena_alloc(arena, 4 * n + 3), *to = out;
  *to++ = '\'';
  for (; *word; word++) {
    if (*word == '\'') {
      memcpy(to, "'\\''", 4);
      to += 4;
    } else {
      *to++ = *word;
    }
  }
  *to++ = '\'';
  *to = '\0';
  return out;
}
