// JSON in: cJSON behind a strict face. This file is cJSON's only home.
//
// cJSON is lenient where files are not to be trusted: it takes numbers that are none ("01", "1."),
// rounds integers silently, keeps duplicate keys, cuts strings at an escaped NUL, takes any byte
// below 0x20 for white space, refuses the lone surrogates that stand for invalid UTF-8, and
// recurses with the text. So the text is read once before it, byte by byte (struct scan), which
// checks all of this, counts the nesting, and makes a copy in which cJSON meets no surprise:
//
//   in the text      in the copy      in the value
//   \u0000           0xff '0' '0'     the byte 00
//   \udcNN alone     0xff  N   N      the byte NN     (json_out.c writes invalid UTF-8 so)
//
// 0xff occurs in no valid UTF-8, so the marks cannot be confused with anything. A walk over the
// finished tree turns them back, keeps the length of each string in the item's (otherwise unused)
// number, and refuses duplicate keys.
#include "json/json.h"

#include "base/table.h"
#include "resources/resources.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { MARK = 0xff };
#define EXACT_MAX 9007199254740992.0 // 2^53

// ---- the scan before cJSON ---------------------------------------------------------------------

struct scan {
  struct span text;
  size_t at;
  uint8_t *copy; // as long as the text at most, and a NUL
  size_t n;
  const char *what;
  struct err *err;
};

static int refuse_most(const struct scan *s, const char *what, int most, const char *unit) {
  return err_set(s->err, ERR_MODEL, "%s: %s %d%s at byte %zu", s->what, what, most, unit, s->at);
}

static int refuse(const struct scan *s, const char *why) {
  return err_set(s->err, ERR_MODEL, "%s: %s at byte %zu", s->what, why, s->at);
}

static int peek(const struct scan *s, size_t ahead) {
  return s->at + ahead < s->text.n ? s->text.at[s->at + ahead] : -1;
}

static void copy_bytes(struct scan *s, size_t n) {
  memcpy(s->copy + s->n, s->text.at + s->at, n);
  s->n += n;
  s->at += n;
}

// The four hex digits `ahead` bytes on, or -1.
static int32_t hex_unit(const struct scan *s, size_t ahead) {
  int32_t unit = 0;
  for (size_t i = 0; i < 4; i++) {
    int c = peek(s, ahead + i);
    int low = c | 0x20;
    int digit = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
    if (digit < 0) return -1;
    unit = unit << 4 | digit;
  }
  return unit;
}

static int scan_escape(struct scan *s) {
  const int c = peek(s, 1);
  if (c != 'u') {
    if (c <= 0 || !strchr("\"\\/bfnrt", c)) return refuse(s, "an unknown escape");
    copy_bytes(s, 2);
    return 0;
  }
  const int32_t unit = hex_unit(s, 2);
  if (unit < 0) return refuse(s, "a \\u escape without four hex digits");
  if (unit == 0 || (unit >= 0xdc80 && unit <= 0xdcff)) {
    char mark[4];
    snprintf(mark, sizeof mark, "%c%02x", MARK, (unsigned)unit & 0xff);
    memcpy(s->copy + s->n, mark, 3);
    s->n += 3;
    s->at += 6;
    return 0;
  }
  if (unit >= 0xd800 && unit <= 0xdfff) {
    const bool pair = unit < 0xdc00 && peek(s, 6) == '\\' && peek(s, 7) == 'u';
    const int32_t low = pair ? hex_unit(s, 8) : -1;
    if (low < 0xdc00 || low > 0xdfff) return refuse(s, "an unpaired surrogate");
    copy_bytes(s, 6);
  }
  copy_bytes(s, 6);
  return 0;
}

static int scan_string(struct scan *s) {
  copy_bytes(s, 1);
  for (;;) {
    const int c = peek(s, 0);
    if (c < 0) return refuse(s, "an unterminated string");
    if (c < 0x20) return refuse(s, "a control character in a string");
    if (c == '"') break;
    if (c == '\\') {
      if (scan_escape(s) < 0) return -1;
      continue;
    }
    uint32_t code;
    const size_t n = utf8_length(span_of(s->text.at + s->at, s->text.n - s->at), &code);
    if (n == 0) return refuse(s, "invalid UTF-8");
    copy_bytes(s, n);
  }
  copy_bytes(s, 1);
  return 0;
}

static size_t digits_at(const struct scan *s, size_t ahead) {
  size_t n = 0;
  while (peek(s, ahead + n) >= '0' && peek(s, ahead + n) <= '9')
    n++;
  return n;
}

// The length of the number here by JSON's grammar, or 0.
static size_t number_length(const struct scan *s, bool *integer) {
  size_t n = peek(s, 0) == '-';
  size_t digits = digits_at(s, n);
  if (digits == 0 || (digits > 1 && peek(s, n) == '0')) return 0;
  n += digits;
  *integer = true;
  if (peek(s, n) == '.') {
    *integer = false;
    digits = digits_at(s, n + 1);
    if (digits == 0) return 0;
    n += 1 + digits;
  }
  if (peek(s, n) == 'e' || peek(s, n) == 'E') {
    *integer = false;
    n += peek(s, n + 1) == '+' || peek(s, n + 1) == '-' ? 2 : 1;
    digits = digits_at(s, n);
    if (digits == 0) return 0;
    n += digits;
  }
  return n;
}

static int scan_number(struct scan *s) {
  enum { DIGITS = 63 }; // cJSON reads no more characters of a number; an exact double needs 17
  bool integer = false;
  char digits[DIGITS + 1];
  const size_t n = number_length(s, &integer);
  if (n == 0) return refuse(s, "not a number");
  if (n > DIGITS) return refuse_most(s, "a number of more than", DIGITS, " characters");
  memcpy(digits, s->text.at + s->at, n);
  digits[n] = '\0';
  const double x = strtod(digits, NULL);
  // 2^53 + 1 rounds to 2^53: compare the digits.
  if (integer &&
      (fabs(x) > EXACT_MAX || (fabs(x) == EXACT_MAX && !strstr(digits, "9007199254740992"))))
    return refuse(s, "an integer past 2^53 (it must be written as a string)");
  if (!isfinite(x)) return refuse(s, "a number past the range of double");
  copy_bytes(s, n);
  return 0;
}

static int scan_text(struct scan *s) {
  for (int depth = 0; s->at < s->text.n;) {
    const int c = peek(s, 0);
    if (c == '"') {
      if (scan_string(s)) return -1;
      continue;
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
      if (scan_number(s)) return -1;
      continue;
    }
    if (c == '[' || c == '{') {
      if (++depth > JSON_MAX_DEPTH)
        return refuse_most(s, "nesting deeper than", JSON_MAX_DEPTH, "");
    } else if (c == ']' || c == '}') {
      depth--;
    } else if (!strchr(" \t\r\n,:truefalsn", c) || c == 0) {
      return refuse(s, "not valid JSON");
    }
    copy_bytes(s, 1);
  }
  s->copy[s->n] = '\0';
  return 0;
}

// ---- the walk after cJSON ----------------------------------------------------------------------

// Turns marks back into bytes, in place; gives the length.
static size_t unmark(char *s) {
  const char *from = s;
  size_t n = 0;
  while (*from) {
    if ((uint8_t)*from != MARK) {
      s[n++] = *from++;
      continue;
    }
    uint8_t byte = 0;
    (void)hex_decode(span_of(from + 1, 2), &byte, 1);
    s[n++] = (char)byte;
    from += 3;
  }
  s[n] = '\0';
  return n;
}

static int by_key(const void *a, const void *b) {
  const cJSON *const *x = a, *const *y = b;
  return strcmp((*x)->string, (*y)->string);
}

static int check_keys(cJSON *object, const struct scan *s) {
  size_t n = 0, cap = 0;
  cJSON **members = NULL;
  int r = 0;
  for (cJSON *c = object->child; c; c = c->next) {
    members = table_grow(members, &cap, n + 1, sizeof(cJSON *));
    members[n++] = c;
  }
  if (n > 1) qsort(members, n, sizeof(cJSON *), by_key);
  for (size_t i = 1; i < n && r == 0; i++)
    if (strcmp(members[i - 1]->string, members[i]->string) == 0)
      r = err_set(s->err, ERR_MODEL, "%s: duplicate key '%s' in an object", s->what,
                  quote_str(members[i]->string).s);
  table_free(members, cap, sizeof(cJSON *));
  return r;
}

static int finish_tree(cJSON *root, const struct scan *s) {
  cJSON *open[JSON_MAX_DEPTH + 2];
  int depth = 0;
  for (cJSON *item = root; item;) {
    if (cJSON_IsString(item)) item->valuedouble = (double)unmark(item->valuestring);
    // Keys are C strings to their readers.
    if (item->string && unmark(item->string) != strlen(item->string))
      return err_set(s->err, ERR_MODEL, "%s: a key with a NUL in it", s->what);
    if (item->child) {
      assert(depth <= JSON_MAX_DEPTH);
      open[depth++] = item;
      item = item->child;
      continue;
    }
    while (!item->next && depth > 0) {
      item = open[--depth];
      if (cJSON_IsObject(item) && check_keys(item, s) < 0) return -1;
    }
    item = item->next;
  }
  return 0;
}

// A text that is JSON must not be called anything else for want of memory.
static void *must_have(size_t bytes) {
  return arena_must(resources_alloc(bytes), bytes);
}

static void give_memory(void) {
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = must_have, .free_fn = resources_free});
}

struct json_value *json_parse(struct span text, const char *what, struct err *err) {
  size_t cap = 0;
  struct scan s = {.text = text, .what = what, .err = err};
  s.copy = table_grow(NULL, &cap, text.n + 1, 1);
  cJSON *root = NULL;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, give_memory);
  if (scan_text(&s) == 0) {
    const char *end = NULL;
    root = cJSON_ParseWithLengthOpts((const char *)s.copy, s.n + 1, &end, true);
    const size_t at = end ? (size_t)(end - (const char *)s.copy) : 0;
    if (!root) err_fill(err, ERR_MODEL, "%s: not JSON near byte %zu", what, at);
  }
  if (root && finish_tree(root, &s) < 0) {
    cJSON_Delete(root);
    root = NULL;
  }
  table_free(s.copy, cap, 1);
  return (struct json_value *)root;
}

void json_free(struct json_value *root) {
  cJSON_Delete((cJSON *)root);
}

// ---- navigation and conversions ----------------------------------------------------------------

static const cJSON *item_of(const struct json_value *v) {
  return (const cJSON *)v;
}

const struct json_value *json_get(const struct json_value *v, const char *key) {
  if (!json_is_object(v)) return NULL;
  return (const struct json_value *)cJSON_GetObjectItemCaseSensitive(item_of(v), key);
}

const struct json_value *json_first(const struct json_value *v) {
  return v ? (const struct json_value *)item_of(v)->child : NULL;
}

const struct json_value *json_next(const struct json_value *v) {
  return v ? (const struct json_value *)item_of(v)->next : NULL;
}

const char *json_name(const struct json_value *v) {
  return v ? item_of(v)->string : NULL;
}

size_t json_count(const struct json_value *v) {
  size_t n = 0;
  for (const struct json_value *c = json_first(v); c; c = json_next(c))
    n++;
  return n;
}

bool json_is_object(const struct json_value *v) {
  return cJSON_IsObject(item_of(v));
}

bool json_is_array(const struct json_value *v) {
  return cJSON_IsArray(item_of(v));
}

bool json_is_null(const struct json_value *v) {
  return cJSON_IsNull(item_of(v));
}

// Canonical decimal digits: no sign, no leading zeros.
static bool parse_digits(struct span s, uint64_t *out) {
  if (s.n == 0 || (s.n > 1 && s.at[0] == '0')) return false;
  uint64_t x = 0;
  for (size_t i = 0; i < s.n; i++) {
    if (s.at[i] < '0' || s.at[i] > '9') return false;
    if (mul_overflows(x, 10, &x) || add_overflows(x, s.at[i] - '0', &x)) return false;
  }
  *out = x;
  return true;
}

static bool exact_integer(const struct json_value *v, int64_t *out) {
  if (!cJSON_IsNumber(item_of(v))) return false;
  const double x = item_of(v)->valuedouble;
  if (fabs(x) > EXACT_MAX || x != trunc(x)) return false;
  *out = (int64_t)x;
  return true;
}

bool json_as_uint(const struct json_value *v, uint64_t *out) {
  int64_t x;
  struct span text;
  if (json_as_string(v, &text)) return parse_digits(text, out);
  if (!exact_integer(v, &x) || x < 0) return false;
  *out = (uint64_t)x;
  return true;
}

bool json_as_int(const struct json_value *v, int64_t *out) {
  struct span text;
  if (!json_as_string(v, &text)) return exact_integer(v, out);
  const bool negative = text.n > 0 && text.at[0] == '-';
  uint64_t size;
  if (!parse_digits(span_of(text.at + negative, text.n - negative), &size)) return false;
  if (size > (uint64_t)INT64_MAX + negative || (negative && size == 0)) return false;
  *out = negative ? (int64_t)(0 - size) : (int64_t)size;
  return true;
}

bool json_as_double(const struct json_value *v, double *out) {
  struct span text;
  if (json_as_string(v, &text)) {
    if (span_is(text, "NaN"))
      *out = (double)NAN;
    else if (span_is(text, "Infinity"))
      *out = (double)INFINITY;
    else if (span_is(text, "-Infinity"))
      *out = -(double)INFINITY;
    else
      return false;
    return true;
  }
  if (!cJSON_IsNumber(item_of(v))) return false;
  *out = item_of(v)->valuedouble;
  return true;
}

bool json_as_bool(const struct json_value *v, bool *out) {
  if (!cJSON_IsBool(item_of(v))) return false;
  *out = cJSON_IsTrue(item_of(v));
  return true;
}

bool json_as_string(const struct json_value *v, struct span *out) {
  if (!cJSON_IsString(item_of(v))) return false;
  *out = span_of(item_of(v)->valuestring, (size_t)item_of(v)->valuedouble);
  return true;
}

bool json_is_text(const struct json_value *v, const char *text) {
  struct span s;
  return json_as_string(v, &s) && span_is(s, text);
}

// ---- copying -----------------------------------------------------------------------------------

// Depth is bounded by the scan (JSON_MAX_DEPTH).
void json_copy(struct json_out *out, const struct json_value *v) {
  struct span text;
  int64_t whole;
  double real;
  bool truth;
  if (json_is_object(v) || json_is_array(v)) {
    const bool object = json_is_object(v);
    (object ? json_object : json_array)(out);
    for (const struct json_value *x = json_first(v); x; x = json_next(x)) {
      if (object) json_key(out, json_name(x));
      json_copy(out, x);
    }
    (object ? json_end_object : json_end_array)(out);
  } else if (json_as_string(v, &text)) {
    json_string(out, text);
  } else if (json_as_int(v, &whole)) {
    json_int(out, whole);
  } else if (json_as_double(v, &real)) {
    json_double(out, real);
  } else if (json_as_bool(v, &truth)) {
    json_bool(out, truth);
  } else {
    json_null(out);
  }
}

const char *json_value_text(const struct json_value *v, struct arena *a) {
  struct json_out out = {0};
  json_copy(&out, v);
  return json_take(&out, a);
}
