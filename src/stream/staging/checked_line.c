#include "stream/staging/inside/checked_line.h"

#include "base/digest.h"

enum { CHECK_HEX = 16 };
static const char check_key[] = ",\"check\":\"";

static void check_of(const char *text, size_t n, char hex[CHECK_HEX + 1]) {
  uint8_t sha[DIGEST_BYTES];
  digest_of(text, n, sha);
  hex_encode(sha, CHECK_HEX / 2, hex);
}

void checked_line_end(struct json_out *j) {
  char check[CHECK_HEX + 1];
  check_of(j->text, j->n, check);
  json_put_text(j, "check", check);
  json_end_object(j);
  json_newline(j);
}

bool checked_line_is(struct span line) {
  const size_t key = sizeof check_key - 1, tail = key + CHECK_HEX + 2; // ,"check":"…"}
  if (line.n <= tail) return false;
  const char *text = (const char *)line.at, *at = text + line.n - tail;
  char check[CHECK_HEX + 1];
  check_of(text, line.n - tail, check);
  return memcmp(at, check_key, key) == 0 && memcmp(at + key, check, CHECK_HEX) == 0 &&
         memcmp(at + key + CHECK_HEX, "\"}", 2) == 0;
}
