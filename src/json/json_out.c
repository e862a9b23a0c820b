// JSON out: a writer that appends to one growing buffer.
//
// The text is a function of the calls alone: no white space unless asked for, keys in the order
// given, integers never through a double (past 2^53, where other readers round, they are decimal
// strings), doubles in the shortest form that reads back, laid out as Python prints them.
//
// Strings are bytes from files. Valid UTF-8 stays readable, except characters that steer a
// terminal, which are escaped; a byte that belongs to no valid character is written \udcNN (a lone
// low surrogate, Python's "surrogateescape"), which no valid text contains, so every string of
// bytes comes back from json_parse unchanged.
//
// The commas: `comma` says that the open container has an element already. A key clears the way
// for its value (`keyed`), which then needs neither comma nor line break.
#include "base/table.h"
#include "json/json.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define EXACT_MAX ((uint64_t)1 << 53)

// Room for n more bytes, and a NUL.
static void room(struct json_out *j, size_t n) {
  if (j->cap - j->n <= n) j->text = table_grow(j->text, &j->cap, j->n + n + 1, 1);
}

static void put(struct json_out *j, const void *bytes, size_t n) {
  room(j, n);
  memcpy(j->text + j->n, bytes, n);
  j->n += n;
  j->text[j->n] = '\0';
}

static void put_char(struct json_out *j, char c) {
  room(j, 1);
  j->text[j->n++] = c;
  j->text[j->n] = '\0';
}

static void put_line_break(struct json_out *j, int depth) {
  put_char(j, '\n');
  for (int i = 0; i < depth * j->indent; i++)
    put_char(j, ' ');
}

static bool in_array(const struct json_out *j) {
  return j->depth > 0 && j->is_array[j->depth - 1];
}

// Elements of an array that lies in no other array.
static bool breaks_elements(const struct json_out *j) {
  if (j->indent) return j->depth > 0;
  return j->line_elements && in_array(j) && j->arrays == 1;
}

// What stands before an element: a comma, a line break, or nothing after its key.
static void begin_element(struct json_out *j) {
  if (j->keyed) {
    j->keyed = false;
    return;
  }
  if (j->comma) put_char(j, ',');
  if (breaks_elements(j) || (j->broken && j->depth > 0)) put_line_break(j, j->depth);
  j->broken = false;
  j->comma = true;
}

static void open_container(struct json_out *j, char bracket) {
  begin_element(j);
  put_char(j, bracket);
  assert(j->depth < JSON_MAX_DEPTH);
  j->is_array[j->depth++] = bracket == '[';
  j->arrays += bracket == '[';
  j->comma = false;
}

static void close_container(struct json_out *j, char bracket) {
  assert(j->depth > 0 && !j->keyed && in_array(j) == (bracket == ']'));
  const bool broken = (j->comma && breaks_elements(j)) || j->broken;
  j->depth--;
  j->arrays -= bracket == ']';
  if (broken) put_line_break(j, j->depth);
  put_char(j, bracket);
  j->broken = false;
  j->comma = true;
}

void json_object(struct json_out *j) {
  open_container(j, '{');
}

void json_end_object(struct json_out *j) {
  close_container(j, '}');
}

void json_array(struct json_out *j) {
  open_container(j, '[');
}

void json_end_array(struct json_out *j) {
  close_container(j, ']');
}

void json_key(struct json_out *j, const char *key) {
  assert(j->depth > 0 && !in_array(j));
  json_text(j, key);
  put(j, ": ", j->indent ? 2 : 1);
  j->keyed = true;
}

// A backslash and a letter, or \uNNNN (what steers a terminal lies below U+10000).
static void put_escaped(struct json_out *j, uint32_t c) {
  static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
  const char *at = c && c < 0x80 ? strchr(from, (int)c) : NULL;
  char escape[8];
  const int n = at ? snprintf(escape, sizeof escape, "\\%c", to[at - from])
                   : snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c);
  put(j, escape, (size_t)n);
}

static bool is_plain(uint8_t c) {
  return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

// Nearly all bytes of nearly all strings are themselves: those go out in runs.
void json_string(struct json_out *j, struct span s) {
  begin_element(j);
  put_char(j, '"');
  for (size_t i = 0; i < s.n;) {
    size_t end = i;
    while (end < s.n && is_plain(s.at[end]))
      end++;
    if (end > i) put(j, s.at + i, end - i);
    if ((i = end) == s.n) break;
    uint32_t c = 0;
    size_t n = utf8_length(span_of(s.at + i, s.n - i), &c);
    if (n == 0)
      put_escaped(j, 0xdc00u + s.at[i]);
    else if (c == '"' || c == '\\' || utf8_steers_terminal(c))
      put_escaped(j, c);
    else
      put(j, s.at + i, n);
    i += n ? n : 1;
  }
  put_char(j, '"');
}

void json_text(struct json_out *j, const char *s) {
  if (s)
    json_string(j, span_str(s));
  else
    json_null(j);
}

void json_raw(struct json_out *j, struct span text) {
  begin_element(j);
  put(j, text.at, text.n);
}

static void put_number(struct json_out *j, struct span digits, bool quoted) {
  begin_element(j);
  if (quoted) put_char(j, '"');
  put(j, digits.at, digits.n);
  if (quoted) put_char(j, '"');
}

void json_uint(struct json_out *j, uint64_t x) {
  char room_for[SPAN_DIGITS];
  put_number(j, span_digits(x, false, room_for), x > EXACT_MAX);
}

void json_int(struct json_out *j, int64_t x) {
  char room_for[SPAN_DIGITS];
  const uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
  put_number(j, span_digits(size, x < 0, room_for), size > EXACT_MAX);
}

void json_ints(struct json_out *j, const int64_t *x, size_t n) {
  json_array(j);
  for (size_t i = 0; i < n; i++)
    json_int(j, x[i]);
  json_end_array(j);
}

// Python's layout: positional from 1e-4 up to 1e16, always with a point or an exponent.
static void format_double(char out[40], double x) {
  int digits = 1;
  do
    snprintf(out, 40, "%.*e", digits - 1, x);
  while (strtod(out, NULL) != x && digits++ < 17);
  const int exponent = atoi(strchr(out, 'e') + 1);
  if (exponent < -4 || exponent >= 16) {
    snprintf(out, 40, "%.*e", digits - 1, x);
    return;
  }
  const int decimals = digits - 1 - exponent;
  snprintf(out, 40, "%.*f", decimals > 0 ? decimals : 1, x);
}

void json_double(struct json_out *j, double x) {
  if (isnan(x)) {
    json_text(j, "NaN");
  } else if (isinf(x)) {
    json_text(j, x > 0 ? "Infinity" : "-Infinity");
  } else {
    char digits[40];
    format_double(digits, x);
    put_number(j, span_str(digits), false);
  }
}

void json_bool(struct json_out *j, bool x) {
  json_raw(j, span_str(x ? "true" : "false"));
}

void json_null(struct json_out *j) {
  json_raw(j, span_str("null"));
}

void json_hex(struct json_out *j, const uint8_t *bytes, size_t n) {
  begin_element(j);
  put_char(j, '"');
  for (size_t i = 0; i < n; i++) {
    char digits[3];
    hex_encode(bytes + i, 1, digits);
    put(j, digits, 2);
  }
  put_char(j, '"');
}

void json_newline(struct json_out *j) {
  if (j->depth > 0) {
    j->broken = true;
    return;
  }
  put_char(j, '\n');
  j->comma = false;
}

char *json_take(struct json_out *j, struct arena *a) {
  char *text = arena_string(a, span_of(j->text, j->n));
  json_done(j);
  return text;
}

void json_flush(struct json_out *j) {
  enum { LONG = 1 << 20 };
  if (!j->sink || j->n < LONG) return;
  j->sink->put(j->sink->ctx, j->text, j->n);
  j->n = 0;
}

bool json_is_read(const struct json_out *j) {
  return !j->sink || j->sink->alive(j->sink->ctx);
}

void json_done(struct json_out *j) {
  table_free(j->text, j->cap, 1);
  memset(j, 0, sizeof *j);
}
