// Texts on their way into a page: lines of arbitrary bytes, each as HTML and as JSON.
//
// Of the HTML nothing is left that a browser could take for markup; the JSON is read back, and a text that was written
// as what differs from the one before must come out the same as when it was written whole.
#include "json/json.h"
#include "render/html/html_out.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds) {
  if (!holds) abort();
}

struct taken {
  char text[16 * HTML_TEXT_MAX];
  size_t n;
};

static void take(void *ctx, struct span piece) {
  struct taken *t = ctx;
  demand(piece.n <= sizeof t->text - t->n);
  memcpy(t->text + t->n, piece.at, piece.n);
  t->n += piece.n;
}

static void check_html(struct span text) {
  static struct taken t;
  struct html_out o = {.sink = {take, &t}};
  t.n = 0;
  html_text(&o, text);
  html_flush(&o);
  demand(utf8_valid(span_of(t.text, t.n)));
  for (size_t i = 0; i < t.n; i++) {
    demand(!strchr("<>\"'", t.text[i]) && (uint8_t)t.text[i] >= 0x20);
    demand(t.text[i] != '&' || memchr(t.text + i, ';', t.n - i));
  }
}

// What a script reads; `room` has space for it.
static size_t as_read(struct span text, size_t from, char *room) {
  static struct taken t;
  struct html_out o = {.sink = {take, &t}};
  struct err err = {0};
  struct span read;
  t.n = 0;
  html_json(&o, text, from);
  html_flush(&o);
  for (size_t i = 0; i < t.n; i++)
    demand(!strchr("<>&", t.text[i]) && (uint8_t)t.text[i] >= 0x20);
  struct json_value *v = json_parse(span_of(t.text, t.n), "text", &err);
  demand(v && json_as_string(v, &read));
  memcpy(room, read.at, read.n);
  const size_t n = read.n;
  json_free(v);
  return n;
}

static void check_pair(struct span a, struct span b) {
  static char before[sizeof(struct taken)], whole[sizeof(struct taken)], rest[sizeof(struct taken)];
  const size_t same = html_shared(b, a);
  const size_t n_before = as_read(a, 0, before), n_whole = as_read(b, 0, whole),
               n = as_read(b, same, rest);
  demand(same <= n_before && same + n == n_whole);
  demand(memcmp(before, whole, same) == 0 && memcmp(rest, whole + same, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct span before = span_of(data, 0);
  while (size > 0) {
    const uint8_t *end = memchr(data, '\n', size);
    const struct span line = span_of(data, end ? (size_t)(end - data) : size);
    check_html(line);
    check_pair(before, line);
    before = line;
    const size_t taken = line.n + (end ? 1 : 0);
    data += taken;
    size -= taken;
  }
  return 0;
}
