// Room: JSON, read and written; small plain files that a user names (plain_file.h).
//
// JSON in and out. Writing is ours (integers never pass through a double, keys in the order given,
// no white space beyond what is asked for); reading is cJSON behind a strict face: duplicate keys,
// trailing text, integers outside ±2^53, numbers past the range of double, invalid UTF-8 and
// nesting past JSON_MAX_DEPTH are errors.
#ifndef WEIR_JSON_H
#define WEIR_JSON_H

#include "base/arena.h"
#include "base/err.h"

#include <stdio.h>

enum { JSON_MAX_DEPTH = 80 };

// Where a long document goes piece by piece, so that it needs little memory.
struct json_sink {
  void (*put)(void *ctx, const char *text, size_t n);
  bool (*alive)(void *ctx); // false: its reader is gone
  void *ctx;
};

// A writer appends to a growing buffer. Zero-initialize; json_done frees. The text so far is
// (text, n), always NUL-terminated once anything was written.
struct json_out {
  char *text;
  size_t n, cap;
  int depth;          // open objects and arrays
  bool comma;         // the next element needs a comma before it
  int indent;         // 0: one line; else spaces a level (as Python's json.dumps(indent=))
  bool line_elements; // indent 0: every element of the outermost array on a line of its own
  bool keyed;         // a key was written, its value comes next
  bool broken;        // a line break was asked for before the next element
  int arrays;         // open arrays
  bool is_array[JSON_MAX_DEPTH]; // the open containers, the outermost first
  const struct json_sink *sink;  // NULL: all of the text stays
};

// Between elements of a long list: gives the text so far to the sink, if there is one, once it is long.
void json_flush(struct json_out *j);
// False once nobody reads any more: long lists stop then.
bool json_is_read(const struct json_out *j);

void json_object(struct json_out *j);                // {
void json_end_object(struct json_out *j);            // }
void json_array(struct json_out *j);                 // [
void json_end_array(struct json_out *j);             // ]
void json_key(struct json_out *j, const char *key);  // "key":
void json_string(struct json_out *j, struct span s); // invalid UTF-8: \udcNN, as Python does
void json_raw(struct json_out *j, struct span text); // a value that is JSON text already
void json_text(struct json_out *j, const char *s);   // NULL: null
void json_uint(struct json_out *j, uint64_t x);      // past 2^53: as a decimal string
void json_int(struct json_out *j, int64_t x);        // likewise
void json_ints(struct json_out *j, const int64_t *x, size_t n); // a list of them
void json_double(struct json_out *j, double x); // shortest that reads back; NaN, inf: strings
void json_bool(struct json_out *j, bool x);
void json_null(struct json_out *j);
void json_newline(struct json_out *j); // a line break before the next element, or
                                       // after a whole document (JSON Lines)
void json_done(struct json_out *j);
// The text as a string of the arena; frees the rest.
char *json_take(struct json_out *j, struct arena *a);

// n bytes as lower-case hex.
void json_hex(struct json_out *j, const uint8_t *bytes, size_t n);

// A member of the open object: key and value in one call. `j` is evaluated twice.
#define json_put_object(j, key) (json_key(j, key), json_object(j)) // "key":{
#define json_put_array(j, key) (json_key(j, key), json_array(j))   // "key":[
#define json_put_string(j, key, s) (json_key(j, key), json_string(j, s))
#define json_put_text(j, key, s) (json_key(j, key), json_text(j, s))
#define json_put_raw(j, key, text) (json_key(j, key), json_raw(j, text))
#define json_put_uint(j, key, x) (json_key(j, key), json_uint(j, x))
#define json_put_int(j, key, x) (json_key(j, key), json_int(j, x))
#define json_put_ints(j, key, x, n) (json_key(j, key), json_ints(j, x, n))
#define json_put_double(j, key, x) (json_key(j, key), json_double(j, x))
#define json_put_bool(j, key, x) (json_key(j, key), json_bool(j, x))
#define json_put_null(j, key) (json_key(j, key), json_null(j))
#define json_put_hex(j, key, bytes, n) (json_key(j, key), json_hex(j, bytes, n))
// A number, or null where there is none.
#define json_put_known(j, key, known, x)                                                           \
  (json_key(j, key), (known) ? json_uint(j, x) : json_null(j))

// A parsed document; values belong to it and die with json_free.
struct json_value; // opaque
// `what` names the text in messages ("edit log 'e.jsonl', line 3"). NULL and ERR_MODEL if the text
// is not one JSON value, or one that the rules above refuse.
struct json_value *json_parse(struct span text, const char *what, struct err *err);
void json_free(struct json_value *root);

// Navigation. json_get returns NULL where there is no such key (or v is no object).
const struct json_value *json_get(const struct json_value *v, const char *key);
const struct json_value *json_first(const struct json_value *v); // of an array or object
const struct json_value *json_next(const struct json_value *v);
const char *json_name(const struct json_value *v); // the key of an object's member
size_t json_count(const struct json_value *v);
bool json_is_object(const struct json_value *v);
bool json_is_array(const struct json_value *v);
bool json_is_null(const struct json_value *v);
// Conversions: false if v is NULL or of another kind. Integers may come as decimal strings, and
// doubles as "NaN", "Infinity" and "-Infinity". A string written by json_string comes back as the
// same bytes, NUL and invalid UTF-8 included (n counts them; NUL-terminated).
bool json_as_uint(const struct json_value *v, uint64_t *out);
bool json_as_int(const struct json_value *v, int64_t *out);
bool json_as_double(const struct json_value *v, double *out);
bool json_as_bool(const struct json_value *v, bool *out);
bool json_as_string(const struct json_value *v, struct span *out);
bool json_is_text(const struct json_value *v, const char *text); // this very string

// Writes a parsed value again: what json_out wrote comes out as the same text, except that a whole
// double ("3.0") comes out as an integer.
void json_copy(struct json_out *out, const struct json_value *v);
// The value as JSON text, in *a.
const char *json_value_text(const struct json_value *v, struct arena *a);

#endif
