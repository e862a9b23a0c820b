// Rules that anyone may have written: any bytes up to a NUL are a file of rules, and those behind it graphs
// (made_rules.h), as a user's file meets models. There is a book or an error that says where; the rules of a
// book leave every model whole.
#include "made_rules.h"
#include "passes/rules/rules_own.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

// "t.rules:LINE:COLUMN: a sentence", or what is about the whole file.
static void check_error(const struct err *err) {
  unsigned line = 0;
  const char *at = err->msg;
  if (err->kind != ERR_USAGE || strncmp(at, "t.rules:", 8) != 0) abort();
  for (at += 8; *at >= '0' && *at <= '9'; at++)
    line = line * 10 + (unsigned)(*at - '0');
  if (line == 0 || *at != ':' || !utf8_valid(span_str(err->msg))) abort();
}

// Some graphs of their own, where the bytes have none.
static void run(const struct rules_book *book, struct span bytes) {
  uint8_t any[96];
  uint32_t state = 1;
  made_rules_run(book, false, bytes);
  made_rules_run(book, true, bytes);
  for (uint32_t turn = 0; turn < 8; turn++) {
    for (uint32_t i = 0; i < sizeof any; i++)
      any[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 24);
    made_rules_run(book, turn & 1, span_of(any, sizeof any));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  const uint8_t *end = n ? memchr(data, 0, n) : NULL;
  const size_t size = end ? (size_t)(end - data) : n;
  const struct rules_text text = {"t.rules", span_of(data, size)};
  struct arena a = {0};
  struct err err = {0};
  const struct pass *const *passes;
  if (n > 1 << 16) return 0;
  if (rules_own(&text, 1, NULL, &a, &passes, &err))
    check_error(&err);
  else if (passes[0])
    run(passes[0]->book, end ? span_of(end + 1, n - size - 1) : span_of(NULL, 0));
  arena_free(&a);
  return 0;
}
