// Bytes in memory (span), places in files (extent), and arithmetic that cannot wrap.
#ifndef WEIR_SPAN_H
#define WEIR_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// An id that names nothing. All tables are indexed by uint32_t ids below this.
#define NO_ID UINT32_MAX

struct span {
  const uint8_t *at;
  size_t n;
};

// A place in a source file; `file` indexes the model's (and plan's) list of source files.
struct extent {
  uint64_t off;
  uint64_t len;
  uint32_t file;
};

// A place in the .onnx itself (file 0).
struct place {
  uint64_t off;
  uint64_t len;
};

static inline struct span span_of(const void *at, size_t n) {
  return (struct span){at, n};
}
static inline struct span span_str(const char *s) {
  return (struct span){(const uint8_t *)s, strlen(s)};
}
static inline bool span_eq(struct span a, struct span b) {
  return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}
static inline bool span_is(struct span a, const char *s) {
  return span_eq(a, span_str(s));
}

// True if [off, off+len) lies inside n bytes. The only form in which ranges are checked.
static inline bool range_fits(uint64_t off, uint64_t len, uint64_t n) {
  return off <= n && len <= n - off;
}
static inline bool mul_overflows(uint64_t a, uint64_t b, uint64_t *out) {
  return __builtin_mul_overflow(a, b, out);
}
static inline bool add_overflows(uint64_t a, uint64_t b, uint64_t *out) {
  return __builtin_add_overflow(a, b, out);
}
static inline uint64_t min_u64(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}
static inline uint64_t max_u64(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}
// Do two ranges have a byte in common? Empty ones have none, except inside another's.
static inline bool ranges_meet(uint64_t off, uint64_t len, uint64_t off2, uint64_t len2) {
  return off < off2 + len2 && off2 < off + len;
}
// Rounds up to a multiple of `to` (a power of two). The caller knows that it cannot wrap.
static inline uint64_t round_up(uint64_t x, uint64_t to) {
  return (x + to - 1) & ~(to - 1);
}

// Its length, or `most` where it is longer: no more of it is looked at.
static inline size_t str_length(const char *s, size_t most) {
  const char *end = memchr(s, 0, most);
  return end ? (size_t)(end - s) : most;
}
// Does s begin with the word, or is it that, whatever the case of letters of ASCII?
bool str_begins_in_any_case(const char *s, const char *word);
static inline bool str_is_in_any_case(const char *s, const char *word) {
  return strlen(s) == strlen(word) && str_begins_in_any_case(s, word);
}
static inline bool str_ends(const char *s, const char *end) {
  const size_t n = strlen(s), k = strlen(end);
  return n >= k && strcmp(s + n - k, end) == 0;
}
// For qsort and bsearch: where texts lie, by their bytes.
int str_order(const void *a, const void *b);
// "-": standard input or standard output, in the place of a path. A file of that name is './-'.
static inline bool path_is_stream(const char *path) {
  return strcmp(path, "-") == 0;
}
// The part of a path after its last slash.
static inline const char *path_base(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// Where `what` begins in a text for the first time; NULL: nowhere.
const uint8_t *span_find(struct span text, struct span what);
// The part behind the last c, or all of it.
struct span span_behind(struct span text, char c);
// Zeros over a secret, which no compiler leaves out.
void span_wipe(struct span secret);

// Product of dims in *out. False if a dim is negative or the product passes 2^63 - 1.
bool dims_product(const int64_t *dims, uint32_t rank, uint64_t *out);

// A name from a file made fit for a terminal or a message: control characters, invalid UTF-8 and
// bidirectional controls appear as \xNN or \u{NNNN}, long names are cut in the middle with "...".
struct quoted {
  char s[192];
};
struct quoted quote(struct span name);
struct quoted quote_str(const char *name);
// The same of a path, of which the end says most: a long one is cut at its front.
struct quoted quote_path(const char *path);

// "[2,3,4]" of dims, cut with "..." past 16 of them.
struct quoted quote_dims(const int64_t *dims, uint32_t rank);

// "2.4 GB"-style text of a byte count (decimal units), and "48 MiB" (binary) for limits.
struct quoted quote_bytes(uint64_t n);
// "2.44 GB (2436923392 bytes)"; below 1000 bytes "12 bytes".
struct quoted quote_bytes_exact(uint64_t n);
// "2.44 GB", or "an unknown amount" for 0: memory of another process where the system does not say.
struct quoted quote_memory(uint64_t n);
// A time that passed: "0.04 s", "2.3 s", "3 min 20 s".
struct quoted quote_seconds(double seconds);

bool span_has_nul(struct span s);

// Decimal digits and nothing else, below 2^63.
bool span_decimal(struct span text, uint64_t *n);

// A number in decimal digits, with a minus sign before them where asked for; it lies in `room`, without a NUL.
enum { SPAN_DIGITS = 24 };
struct span span_digits(uint64_t n, bool minus, char room[SPAN_DIGITS]);

// The same as a text: "%s" with decimal(n).s, or integer(n).s of a number that may be negative. Which letters of printf are those of
// a uint64_t depends on the system, and PRIu64 in the middle of a sentence hides the sentence.
struct decimal {
  char s[SPAN_DIGITS];
};
struct decimal decimal(uint64_t n);
struct decimal integer(int64_t n);

// What a noun has behind it that stands for n of its kind: "" or "s".
static inline const char *plural(uint64_t n) {
  return n == 1 ? "" : "s";
}

// 64-bit mix of bytes for hash tables; not for anything that leaves the process.
uint64_t span_hash(struct span s);
// One more word into such a hash; order counts.
static inline uint64_t span_hash_mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 31;
}

// Length in bytes of the valid UTF-8 character at s (1..4), or 0 if there is none.
size_t utf8_length(struct span s, uint32_t *code_point);
bool utf8_valid(struct span s);
// Control, bidirectional and line-separating characters: what must not reach a terminal as it is.
bool utf8_steers_terminal(uint32_t code_point);

// Lower-case hex of n bytes into out (2n + 1 chars), and back: false if not exactly 2n hex digits.
void hex_encode(const uint8_t *bytes, size_t n, char *out);
bool hex_decode(struct span text, uint8_t *out, size_t n);

// Takes a text piece by piece.
struct span_sink {
  void (*put)(void *ctx, struct span piece);
  void *ctx;
};

#endif
