// Bytes that arrays are found in, and where elements go.
//
//   feed    a stretch of a file or of memory, with the names that messages have of it
//   sink    bytes that are made one after the other: in memory if they are few, else in one file without
//           a name that all of them share
//   space   what both may take: elements in all, and memory of them
#ifndef WEIR_FEED_H
#define WEIR_FEED_H

#include "verify/arrays/array.h"

enum {
  FEED_SMALL = 1 << 20,   // elements of more bytes stay in their file
  FEED_MEMORY = 64 << 20, // that small ones may take together; and what is put in another order
};

struct space {
  struct arena *a;
  uint64_t most;       // bytes of all elements, for messages
  uint64_t left;       // of `most`
  uint64_t memory;     // left of FEED_MEMORY
  const char *scratch; // folder; NULL: everything goes to memory
  struct file file;    // the one without a name
  uint64_t file_bytes;
  uint8_t *buffer; // of the sink that writes to it
};

// A file that is open as long as an array lies in it.
struct feed_file {
  struct file file;
  bool stays;
};

struct feed {
  const char *path;   // for messages
  const char *member; // of the archive; NULL: it is none
  struct feed_file *file;
  const uint8_t *at; // in memory; NULL: in the file
  uint64_t off, len; // the stretch
};

// feed_error(f, err, fmt, …): ERR_MODEL "'path', array 'member': …"; -1.
#define feed_error(...) (feed_fill_error(__VA_ARGS__), err_minus_one())
void feed_fill_error(const struct feed *f, struct err *err, const char *fmt, ...) ERR_PRINTF(3, 4);
// A part of it, which lies inside.
struct feed feed_part(const struct feed *f, uint64_t off, uint64_t len);
// Bytes [off, off + n), which lie inside. ERR_INPUT if the file became shorter, ERR_IO.
int feed_read(const struct feed *f, uint64_t off, void *to, size_t n, struct err *err);

// Takes n bytes of elements from what may be there. ERR_MODEL.
int space_take(struct space *s, const struct feed *f, uint64_t n, struct err *err);
void space_close(struct space *s);

// The elements of *x, whose sizes are set, are bytes [off, off + x->bytes) of the feed.
int feed_elements(struct space *s, const struct feed *f, uint64_t off, struct array *x,
                  struct err *err);

struct sink {
  struct space *s;
  const struct feed *of; // for messages
  uint64_t n, got;
  uint8_t *at; // in memory
  size_t held;
  uint64_t off;
};
// One at a time. Room for n bytes, of which nothing is taken from the space: who knows that they are elements does.
int sink_open(struct sink *k, struct space *s, const struct feed *of, uint64_t n, struct err *err);
// No more than the n bytes.
int sink_put(struct sink *k, const void *bytes, size_t n, struct err *err);
// All n bytes came: they are this feed, named as `of`.
int sink_close(struct sink *k, struct feed_file *file, struct feed *out, struct err *err);

#endif
