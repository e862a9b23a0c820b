// Quoting is the one way in which a name from a file reaches a message. Names are chosen by whoever
// made the file, and terminals obey escape sequences: what could steer a terminal, and what is no
// valid UTF-8, is written as \xnn, and a long name is cut.
//
// Texts are returned in structs by value, so that a message can hold several of them and nobody
// owns any. Products say when they overflow, and never wrap.
#include "base/span.h"

#include <ctype.h>
#include <stdio.h>

bool dims_product(const int64_t *dims, uint32_t rank, uint64_t *out) {
  uint64_t n = 1;
  bool zero = false;
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0)
      zero = true;
    else if (mul_overflows(n, (uint64_t)dims[i], &n) || n > INT64_MAX)
      return false;
  }
  *out = zero ? 0 : n;
  return true;
}

size_t utf8_length(struct span s, uint32_t *code_point) {
  if (s.n == 0) return 0;
  uint8_t b = s.at[0];
  if (b < 0x80) {
    *code_point = b;
    return 1;
  }
  size_t n = b >= 0xf0 && b < 0xf5 ? 4 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xc2 && b < 0xe0 ? 2 : 0;
  if (n == 0 || n > s.n) return 0;
  uint32_t c = b & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if ((s.at[i] & 0xc0) != 0x80) return 0;
    c = c << 6 | (s.at[i] & 0x3f);
  }
  bool overlong = (n == 3 && c < 0x800) || (n == 4 && c < 0x10000);
  if (overlong || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
  *code_point = c;
  return n;
}

bool utf8_valid(struct span s) {
  while (s.n > 0) {
    uint32_t c;
    size_t n = utf8_length(s, &c);
    if (n == 0) return false;
    s = span_of(s.at + n, s.n - n);
  }
  return true;
}

bool utf8_steers_terminal(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || c == 0x061c ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

struct quoted quote(struct span name) {
  struct quoted q;
  size_t out = 0;
  const size_t room = sizeof q.s - 4;
  while (name.n > 0) {
    char piece[16]; // the printable form of the next character
    uint32_t c = 0;
    size_t used = utf8_length(name, &c);
    if (used == 0)
      snprintf(piece, sizeof piece, "\\x%02x", name.at[0]);
    else if (utf8_steers_terminal(c))
      snprintf(piece, sizeof piece, c < 0x100 ? "\\x%02x" : "\\u{%x}", c);
    else
      snprintf(piece, sizeof piece, "%.*s", (int)used, (const char *)name.at);
    if (used == 0) used = 1;
    const bool fits = out + strlen(piece) <= room;
    out += (size_t)snprintf(q.s + out, sizeof q.s - out, "%s", fits ? piece : "...");
    name = span_of(name.at + used, fits ? name.n - used : 0);
  }
  q.s[out] = '\0';
  return q;
}

struct quoted quote_str(const char *name) {
  return quote(span_str(name));
}

struct quoted quote_path(const char *path) {
  enum { KEPT = 150 };
  const size_t n = strlen(path);
  if (n <= KEPT) return quote_str(path);
  const char *from = path + n - KEPT;
  while ((*from & 0xc0) == 0x80) // the middle of a character
    from++;
  struct quoted q = {"..."}, end = quote_str(from);
  snprintf(q.s + 3, sizeof q.s - 3, "%.*s", (int)sizeof q.s - 4, end.s);
  return q;
}

struct quoted quote_dims(const int64_t *dims, uint32_t rank) {
  struct quoted q;
  size_t n = 0;
  q.s[n++] = '[';
  for (uint32_t i = 0; i < rank; i++) {
    if (n > sizeof q.s - 32) {
      n += (size_t)snprintf(q.s + n, sizeof q.s - n, "...");
      break;
    }
    n += (size_t)snprintf(q.s + n, sizeof q.s - n, "%s%s", i ? "," : "", integer(dims[i]).s);
  }
  snprintf(q.s + n, sizeof q.s - n, "]");
  return q;
}

struct quoted quote_bytes(uint64_t n) {
  static const char *const unit[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  struct quoted q;
  if (n < 1000) {
    snprintf(q.s, sizeof q.s, "%u byte%s", (unsigned)n, plural(n));
    return q;
  }
  double x = (double)n / 1000;
  size_t u = 0;
  while (x >= 999.95 && u < 5) {
    x /= 1000;
    u++;
  }
  snprintf(q.s, sizeof q.s, x < 9.995 ? "%.2f %s" : x < 99.95 ? "%.1f %s" : "%.0f %s", x, unit[u]);
  return q;
}

struct quoted quote_bytes_exact(uint64_t bytes) {
  struct quoted q = quote_bytes(bytes);
  size_t n = strlen(q.s);
  if (bytes >= 1000) snprintf(q.s + n, sizeof q.s - n, " (%s bytes)", decimal(bytes).s);
  return q;
}

struct quoted quote_memory(uint64_t bytes) {
  return bytes ? quote_bytes(bytes) : quote_str("an unknown amount");
}

struct quoted quote_seconds(double seconds) {
  struct quoted q;
  const uint64_t whole = (uint64_t)(seconds + 0.5);
  if (seconds < 0.995)
    snprintf(q.s, sizeof q.s, "%.2f s", seconds);
  else if (seconds < 119.5)
    snprintf(q.s, sizeof q.s, "%.1f s", seconds);
  else if (whole < 7200)
    snprintf(q.s, sizeof q.s, "%s min %s s", decimal(whole / 60).s, decimal(whole % 60).s);
  else
    snprintf(q.s, sizeof q.s, "%s h %s min", decimal(whole / 3600).s, decimal(whole / 60 % 60).s);
  return q;
}

static bool word_has_nul(uint64_t w) {
  return (w - 0x0101010101010101u) & ~w & 0x8080808080808080u;
}

// Names are short: a call of memchr costs more than it looks at.
bool span_has_nul(struct span s) {
  uint64_t w;
  if (s.n < 8) {
    bool found = false;
    for (size_t i = 0; i < s.n; i++)
      found |= s.at[i] == 0;
    return found;
  }
  for (size_t i = 0; i + 8 < s.n; i += 8) {
    memcpy(&w, s.at + i, 8);
    if (word_has_nul(w)) return true;
  }
  memcpy(&w, s.at + s.n - 8, 8);
  return word_has_nul(w);
}

// The two bytes that end at `at`, as one of 256.
static uint8_t pair_at(const uint8_t *at) {
  return (uint8_t)(at[-1] << 3 ^ at[0]);
}

// Horspool's search by pairs of bytes: the word moves on until the text's pair at its end meets the last such pair in the word. Where
// there is none, which is so nearly everywhere, it moves by a number that does not depend on what was read.
const uint8_t *span_find(struct span text, struct span what) {
  uint8_t moves[256];
  if (what.n > text.n) return NULL;
  if (what.n == 0) return text.at;
  if (what.n == 1) return memchr(text.at, what.at[0], text.n);
  const size_t last = what.n - 1, furthest = last < UINT8_MAX ? last : UINT8_MAX;
  memset(moves, (int)furthest, sizeof moves);
  for (size_t i = last - furthest + 1; i < last; i++)
    moves[pair_at(what.at + i)] = (uint8_t)(last - i);
  const size_t after_end = moves[pair_at(what.at + last)];
  moves[pair_at(what.at + last)] = 0;
  for (size_t i = last, move; i < text.n; i += move) {
    move = moves[pair_at(text.at + i)];
    while (move == furthest && i + furthest < text.n)
      move = moves[pair_at(text.at + (i += furthest))];
    if (move > 0) continue;
    if (memcmp(text.at + i - last, what.at, what.n) == 0) return text.at + i - last;
    move = after_end;
  }
  return NULL;
}

struct span span_behind(struct span text, char c) {
  size_t at = text.n;
  while (at > 0 && text.at[at - 1] != (uint8_t)c)
    at--;
  return at > 0 ? span_of(text.at + at, text.n - at) : text;
}

int str_order(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool str_begins_in_any_case(const char *s, const char *word) {
  while (*word && tolower((uint8_t)*s) == tolower((uint8_t)*word))
    s++, word++;
  return *word == '\0';
}

void span_wipe(struct span secret) {
  static void *(*const volatile set)(void *, int, size_t) = memset;
  if (secret.n > 0) set((void *)(uintptr_t)secret.at, 0, secret.n);
}

bool span_decimal(struct span text, uint64_t *n) {
  *n = 0;
  for (size_t i = 0; i < text.n; i++) {
    if (text.at[i] < '0' || text.at[i] > '9') return false;
    if (mul_overflows(*n, 10, n) || add_overflows(*n, (uint64_t)(text.at[i] - '0'), n))
      return false;
    if (*n > INT64_MAX) return false;
  }
  return text.n > 0;
}

struct span span_digits(uint64_t n, bool minus, char room[SPAN_DIGITS]) {
  size_t at = SPAN_DIGITS;
  do
    room[--at] = (char)('0' + n % 10);
  while ((n /= 10) > 0);
  if (minus) room[--at] = '-';
  return span_of(room + at, SPAN_DIGITS - at);
}

static struct decimal decimal_of(uint64_t n, bool minus) {
  struct decimal d = {0};
  char room[SPAN_DIGITS];
  const struct span digits = span_digits(n, minus, room);
  memcpy(d.s, digits.at, digits.n);
  return d;
}

struct decimal decimal(uint64_t n) {
  return decimal_of(n, false);
}

struct decimal integer(int64_t n) {
  return decimal_of(n < 0 ? -(uint64_t)n : (uint64_t)n, n < 0);
}

// Fewer than 8 bytes as a number, another one for every other text of this length. Both read what they
// share twice: a copy of a length that is not known is a call.
static uint64_t short_word(const uint8_t *at, size_t n) {
  if (n >= 4) {
    uint32_t head, tail;
    memcpy(&head, at, 4);
    memcpy(&tail, at + n - 4, 4);
    return head | (uint64_t)tail << 32;
  }
  return n ? at[0] | (uint32_t)at[n / 2] << 8 | (uint32_t)at[n - 1] << 16 : 0;
}

uint64_t span_hash(struct span s) {
  const uint64_t k = 0x9e3779b97f4a7c15u;
  uint64_t h = s.n * k;
  size_t i = 0;
  for (; i + 8 <= s.n; i += 8) {
    uint64_t w;
    memcpy(&w, s.at + i, 8);
    h = (h ^ w) * k;
    h ^= h >> 29;
  }
  h = (h ^ short_word(s.at + i, s.n - i)) * k;
  h ^= h >> 32;
  h *= k;
  return h ^ h >> 29;
}

void hex_encode(const uint8_t *bytes, size_t n, char *out) {
  for (size_t i = 0; i < n; i++) {
    out[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
    out[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
  }
  out[2 * n] = '\0';
}

static int hex_digit(uint8_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool hex_decode(struct span text, uint8_t *out, size_t n) {
  if (text.n != 2 * n) return false;
  for (size_t i = 0; i < n; i++) {
    int hi = hex_digit(text.at[2 * i]), lo = hex_digit(text.at[2 * i + 1]);
    if (hi < 0 || lo < 0) return false;
    out[i] = (uint8_t)(hi << 4 | lo);
  }
  return true;
}
