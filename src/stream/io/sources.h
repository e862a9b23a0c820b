// The source files of one run: the .onnx (file 0) and what its external_data locations name. Every
// name is opened *beneath* the model's folder and checked on the opened descriptor; identities
// (size, mtime_ns, ctime_ns, inode, device) are kept from the first look and compared at every
// later one. At most SOURCES_MAX_OPEN descriptors are open at a time, whatever the number of files.
// Thread-safe once loading is over (sources_add is not).
#ifndef WEIR_SOURCES_H
#define WEIR_SOURCES_H

#include "base/err.h"
#include "base/span.h"
#include "platform/files.h"

enum { SOURCES_MAX_OPEN = 200, SOURCES_MAX_LOCATION = 4096 };

struct sources_options {
  bool allow_links; // hard links, and symbolic links to files anywhere (beneath.h says which are
                    // followed without)
  bool walk;        // resolve names component by component even where openat2 exists (for tests)
};

// Is a file the one that was looked at before, unchanged?
struct fingerprint {
  uint64_t size;
  int64_t mtime_ns, ctime_ns;
  uint64_t ino, dev;
};
struct fingerprint fingerprint_of(const struct entry_facts *st);
bool fingerprint_same(struct fingerprint a, struct fingerprint b);

struct sources;

// Opens the .onnx itself, also through a link: the user named it.
int sources_open(struct sources **out, const char *onnx_path, const struct sources_options *options,
                 struct err *err);
void sources_close(struct sources *s);
// Closes what nobody reads at this moment; a later read opens it again, and refuses another file. For who is about to replace or remove
// the files: some systems refuse that while they are open.
void sources_let_go(struct sources *s);

// The file id for an external_data location (the same id for the same location). Refused with the
// location and the reason: empty, absolute, drive letters and backslashes that other systems would
// take for a path, a ".." that leaves the folder, NUL, over SOURCES_MAX_LOCATION bytes (ERR_MODEL);
// missing, or not a regular file (ERR_INPUT); without allow_links a link that leads out of the
// folder, unless it leads to where the .onnx's own does (beneath.h), and nlink > 1 (ERR_PERMISSION).
int sources_add(struct sources *s, struct span location, uint32_t *file, struct err *err);

// A file beside the model that the user named, at any path, links included: what recipes may read besides. Its name
// is the base name; a new row each time, unless one is there of the same file by this call. ERR_INPUT: missing, or not
// a regular file.
int sources_add_companion(struct sources *s, const char *path, uint32_t *file, struct err *err);
bool sources_is_companion(const struct sources *s, uint32_t file);
const char *sources_companion_path(const struct sources *s, uint32_t file); // as it was given

// As sources_add, by name only: nothing is opened, the size is 0. For looking at a model without
// its data, or with what there is of it (load.h); such a file cannot be read. sources_add gives it
// as it is from then on.
int sources_add_name(struct sources *s, struct span location, uint32_t *file, struct err *err);
// Why a file is there by name only; and the same error again, false if there was none.
void sources_absent_because(struct sources *s, uint32_t file, const struct err *why);
bool sources_why_absent(const struct sources *s, uint32_t file, struct err *why);

uint32_t sources_count(const struct sources *s);
const char *sources_name(const struct sources *s, uint32_t file); // as written; row 0: base name
const char *sources_folder(const struct sources *s);              // as given by the user
const char *sources_given(const struct sources *s);               // the .onnx, the same
bool sources_is_absent(const struct sources *s, uint32_t file);   // added by name only
// What messages call it: the location behind the folder as the user gave it, quoted.
struct quoted sources_shown(const struct sources *s, uint32_t file);
uint64_t sources_size(const struct sources *s, uint32_t file);
struct fingerprint sources_fingerprint(const struct sources *s, uint32_t file);

// A descriptor for reading, valid until sources_release_fd. Reopens (and checks the identity of) a
// file whose descriptor was closed to stay under the limit. Only descriptors in use at this moment
// can exceed SOURCES_MAX_OPEN.
int sources_fd(struct sources *s, uint32_t file, struct file *fd, struct err *err);
void sources_release_fd(struct sources *s, uint32_t file);

// Reads exactly [off, off+len) by pread. A short file is ERR_INPUT ("changed while we read it").
int sources_read(struct sources *s, uint32_t file, uint64_t off, void *buf, size_t len,
                 struct err *err);

// 0 if every file still has the identity it had when first opened, else -1 with ERR_INPUT.
int sources_unchanged(struct sources *s, struct err *err);

// Is (dev, ino) one of our sources? For "output equals input" checks. NO_ID if not.
uint32_t sources_find_inode(const struct sources *s, uint64_t dev, uint64_t ino);
// Rows looked at so far to close a descriptor; for tests.
uint64_t sources_looks(const struct sources *s);

#endif
