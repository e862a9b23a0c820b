// What people give as a model by mistake: an empty download, an archive, a web page, a pointer that
// Git LFS left in place of the file, the weights instead of the .onnx.
//
// This is asked only after the file failed to load, so a wrong guess cannot refuse a good model. It
// looks at the first bytes and at the size, and knows no more than a few signatures: the message of
// the failed load is kept in the hint.
#include "loader.h"

struct mark {
  const char *bytes;
  size_t n;
  const char *what;
};

static const struct mark marks[] = {
    {"version https://git-lfs", 23, "is a Git LFS pointer: the file itself was not downloaded"},
    {"\x1f\x8b", 2, "is gzip-compressed"},
    {"PK\x03\x04", 4, "is a zip archive"},
    {"\xfd"
     "7zXZ",
     5, "is xz-compressed"},
    {"\x28\xb5\x2f\xfd", 4, "is zstd-compressed"},
    {"BZh", 3, "is bzip2-compressed"},
    {"\x7f"
     "ELF",
     4, "is an executable"},
    {"\x89HDF", 4, "is an HDF5 file"},
    {"GGUF", 4, "is a GGUF file"},
    {"\x93NUMPY", 6, "is a NumPy array"},
    {"<!DOCTYPE", 9, "is a web page"},
    {"<html", 5, "is a web page"},
};

static bool is_text(struct span s) {
  for (size_t i = 0; i < s.n; i++) {
    const uint8_t c = s.at[i];
    if (c < 0x20 && c != '\n' && c != '\r' && c != '\t') return false;
  }
  return utf8_valid(s);
}

const char *load_sniff(struct loader *l) {
  uint8_t head[512];
  struct err ignored = {0};
  const size_t n = (size_t)min_u64(sizeof head, l->w.size);
  if (n == 0) return "is empty";
  if (sources_read(l->s, 0, 0, head, n, &ignored)) return NULL;
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
    if (n >= marks[i].n && memcmp(head, marks[i].bytes, marks[i].n) == 0) return marks[i].what;
  if (n >= 64 && memcmp(head, head + 1, n - 1) == 0) return "is one byte over and over";
  // A multi-byte character may be cut at the end of the window.
  for (size_t cut = 0; cut < 4 && cut < n; cut++)
    if (n > 1 && is_text(span_of(head, n - cut))) return "is text";
  // Every ONNX writer begins with ir_version (08) or, rarely, the opset (42) or the graph (3a).
  if (head[0] != 0x08 && head[0] != 0x42 && head[0] != 0x3a && head[0] != 0x12)
    return "does not begin like one; it may be a data file";
  return NULL;
}
