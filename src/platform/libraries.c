// The first bytes of a file say what it is.
#include "platform/libraries.h"

#include "platform/inside/variant.h"

const char *library_fault(struct file f) {
  char head[256];
  const int64_t got = file_read_all_at(f, head, sizeof head, 0);
  return variant_library_fault(head, got > 0 ? (size_t)got : 0);
}
