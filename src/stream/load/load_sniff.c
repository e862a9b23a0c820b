// What people give as a model by mistake: an empty download, an archive, a web page, a pointer that
// Git LFS left in place of the file, the weights instead of the .onnx; and what lies where a data
// file should be.
//
// This is asked only after a file failed to load, or turned out too short, so a wrong guess cannot
// refuse a good one. It looks at the first bytes and at the size, and knows no more than a few
// signatures. Weights may begin with any bytes, so of a data file only what is long or telling
// enough is believed.
#include "stream/load/inside/loader.h"

struct mark {
  const char *bytes;
  size_t n;
  const char *what, *hint;
};

#define UNPACK "unpack it first"
#define FETCH "'git lfs pull' in the repository it came from fetches the file itself"
#define OTHER "weir transforms only ONNX models: export the model to ONNX first"
#define PAGE                                                                                       \
  "it seems to be a web page about the file: on Hugging Face the file itself is under /resolve/, " \
  "not /blob/"
#define AGAIN "was the download complete?"

static const struct mark marks[] = {
    {"version https://git-lfs", 23, "is a Git LFS pointer: the file itself was not downloaded",
     FETCH},
    {"<!DOCTYPE", 9, "is a web page", PAGE},
    {"<!doctype", 9, "is a web page", PAGE},
    {"<html", 5, "is a web page", PAGE},
    {"PK\x03\x04", 4, "is a zip archive", UNPACK},
    {"\xfd"
     "7zXZ",
     5, "is xz-compressed", UNPACK},
    {"\x28\xb5\x2f\xfd", 4, "is zstd-compressed", UNPACK},
    {"\x7f"
     "ELF",
     4, "is an executable", OTHER},
    {"\x89HDF", 4, "is an HDF5 file", OTHER},
    {"GGUF", 4, "is a GGUF file", OTHER},
    {"\x93NUMPY", 6, "is a NumPy array", OTHER},
    {"\x1f\x8b", 2, "is gzip-compressed", UNPACK},
    {"BZh", 3, "is bzip2-compressed", UNPACK},
};

enum { COMMON = 4 }; // weights may well begin with a mark of so many bytes, or fewer

static bool is_text(struct span s) {
  for (size_t i = 0; i < s.n; i++) {
    const uint8_t c = s.at[i];
    if (c < 0x20 && c != '\n' && c != '\r' && c != '\t') return false;
  }
  return utf8_valid(s);
}

// The length of a JSON header, and the header.
static bool is_safetensors(const uint8_t *head, size_t n, uint64_t size) {
  uint64_t length;
  if (n < 10) return false;
  memcpy(&length, head, sizeof length);
  return length <= size - 8 && length < 100 << 20 && head[8] == '{' &&
         (head[9] == '"' || head[9] == '}');
}

static struct load_likeness model_looks_like(const uint8_t *head, size_t n, uint64_t size) {
  if (is_safetensors(head, n, size)) return (struct load_likeness){"is a safetensors file", OTHER};
  if (n >= 64 && memcmp(head, head + 1, n - 1) == 0)
    return (struct load_likeness){head[0] ? "is filled with one byte" : "is filled with zeros",
                                  AGAIN};
  // A multi-byte character may be cut at the end of the window.
  for (size_t cut = 0; cut < 4 && cut < n; cut++)
    if (n > 1 && is_text(span_of(head, n - cut)))
      return (struct load_likeness){"is text", "give the .onnx file"};
  // Every ONNX writer begins with ir_version (08) or, rarely, the opset (42) or the graph (3a).
  if (head[0] != 0x08 && head[0] != 0x42 && head[0] != 0x3a && head[0] != 0x12)
    return (struct load_likeness){"does not begin like one",
                                  "give the .onnx file, not its data files"};
  return (struct load_likeness){0};
}

struct load_likeness load_looks_like(struct sources *s, uint32_t file) {
  uint8_t head[512];
  struct err ignored = {0};
  const uint64_t size = sources_size(s, file);
  const size_t n = (size_t)min_u64(sizeof head, size);
  if (n == 0) return (struct load_likeness){"is empty", AGAIN};
  if (sources_read(s, file, 0, head, n, &ignored)) return (struct load_likeness){0};
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    const struct mark *m = &marks[i];
    if (file > 0 && m->n <= COMMON) continue;
    if (n >= m->n && memcmp(head, m->bytes, m->n) == 0)
      return (struct load_likeness){m->what, m->hint};
  }
  return file > 0 ? (struct load_likeness){0} : model_looks_like(head, n, size);
}
