// A data file may be shared by several models of a folder, so before one is replaced or removed every
// model beside it is searched for its name. No parsing: an external_data location is stored as plain
// bytes behind their length, so a file without those bytes cannot name it, and one with them by chance
// only keeps a file alive.
//
//   12 0b "x.onnx.data"      the value of an entry: x.onnx.data
//   12 0d "./x.onnx.data"    a path that ends in the name
//   12 0c "ax.onnx.data"     another name: neither the length nor a slash stands before it
//
// A copy of a model may have any name (model.onnx.bak), so what begins like a ModelProto is one:
// ir_version, and then one of the fields that may follow.
//
// A file is read in windows that overlap, so that a name is whole in one of them with what stands
// before it:
//
//   |---------- window ----------|
//                          |---------- window ----------|
//                          `-----' n + 2 bytes, moved to the front
#include "stream/sys/name_scan.h"

#include "base/varint.h"
#include "resources/resources.h"

#include <errno.h>
#include <stdio.h>

enum { WINDOW = 1 << 20 };

// Is one of the occurrences in buf a location, or the end of one? Those in the first bytes were seen
// in the window before.
static bool has_location(const uint8_t *buf, size_t n, struct span name) {
  uint8_t length[VARINT_MAX_BYTES];
  const size_t prefix = (size_t)(varint_put(length, name.n) - length);
  const uint8_t *at = buf, *end = buf + n;
  while ((at = span_find(span_of(at, (size_t)(end - at)), name))) {
    const size_t before = (size_t)(at - buf);
    if (before > 0 && at[-1] == '/') return true;
    if (before >= prefix && memcmp(at - prefix, length, prefix) == 0) return true;
    at++;
  }
  return false;
}

static enum name_scan scan(struct file f, struct span name, uint8_t *buf) {
  size_t kept = 0;
  for (;;) {
    const int64_t got = file_read(f, buf + kept, WINDOW - kept);
    if (got < 0) return NAME_SCAN_UNKNOWN;
    if (got == 0) return NAME_SCAN_FREE;
    const size_t have = kept + (size_t)got;
    if (has_location(buf, have, name)) return NAME_SCAN_NAMED;
    kept = have < name.n + 2 ? have : name.n + 2;
    memmove(buf, buf + have - kept, kept);
  }
}

enum name_scan name_scan_file(struct folder in, const char *onnx, const char *name) {
  struct file f = file_open(in, onnx, FILE_NO_WAIT);
  if (!file_is_open(f)) return errno == ENOENT ? NAME_SCAN_FREE : NAME_SCAN_UNKNOWN;
  struct entry_facts at;
  uint8_t *buf = resources_alloc(WINDOW);
  enum name_scan result = NAME_SCAN_UNKNOWN;
  if (buf && file_look(f, &at) == 0)
    result = at.kind == ENTRY_FILE ? scan(f, span_str(name), buf) : NAME_SCAN_FREE;
  resources_free(buf);
  file_close(&f);
  return result;
}

struct search {
  struct folder in;
  const char *name, *except;
  char *who;
  enum name_scan result;
};

// Does it begin with ir_version and another field of a ModelProto?
static bool begins_as_model(struct folder in, const char *entry) {
  uint8_t head[3] = {0};
  struct entry_facts at;
  struct file f = file_open(in, entry, FILE_NO_WAIT);
  if (!file_is_open(f)) return false;
  const bool read = file_look(f, &at) == 0 && at.kind == ENTRY_FILE && at.size <= INT32_MAX &&
                    file_read_at(f, head, sizeof head, 0) == (int64_t)sizeof head;
  file_close(&f);
  const unsigned field = head[2] >> 3, type = head[2] & 7;
  return read && head[0] == 0x08 && head[1] < 0x80 && field > 1 && field <= 14 &&
         type == (field == 5 ? 0 : 2);
}

static int search_entry(void *ctx, const char *entry) {
  struct search *s = ctx;
  const size_t n = strlen(entry);
  if (s->except && strcmp(entry, s->except) == 0) return 0;
  if ((n < 5 || !str_is_in_any_case(entry + n - 5, ".onnx")) && !begins_as_model(s->in, entry))
    return 0;
  const enum name_scan found = name_scan_file(s->in, entry, s->name);
  if (found == NAME_SCAN_FREE) return 0;
  s->result = found;
  snprintf(s->who, 256, "%s", entry);
  return 1;
}

enum name_scan name_scan_folder(struct folder in, const char *name, const char *except,
                                char who[256]) {
  struct search s = {.in = in, .name = name, .except = except, .who = who};
  int ended;
  s.result = NAME_SCAN_FREE;
  who[0] = '\0';
  return folder_names(in, ".", search_entry, &s, &ended) ? NAME_SCAN_UNKNOWN : s.result;
}
