// Room: all that weir asks of the operating system, in its own words. A port to another system is a port of this room.
//
// Files and folders. files.def has the calls with what each promises; here are the words that they use.
//
// A name is that of an entry of a folder, or a path that begins in it. A call fails with errno, whatever the system has instead.
#ifndef WEIR_PLATFORM_FILES_H
#define WEIR_PLATFORM_FILES_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// What is open. {0} is none. Whoever opened it closes it; a copy of the struct is the same file.
struct file {
  intptr_t handle;
};
struct folder {
  intptr_t handle;
};
#define NO_FILE ((struct file){0})
#define NO_FOLDER ((struct folder){0})
// The folder in which paths begin that are not absolute: never closed.
#define HERE ((struct folder){-99})

static inline bool file_is_open(struct file f) {
  assert(f.handle >= 0);
  return f.handle != 0;
}
static inline bool folder_is_open(struct folder f) {
  assert(f.handle >= 0 || f.handle == HERE.handle);
  return f.handle != 0;
}
static inline bool file_is_same(struct file a, struct file b) {
  return a.handle == b.handle; // the same opening of it
}
// Closes *f if it is open; it is none afterwards. Errors are not told: sync before.
void file_close(struct file *f);
// The same for a file that was written and not synced: -1 and errno if a network file system reports only now that it has no room.
int file_close_written(struct file *f);
void folder_close(struct folder *f);

enum { PATH_BYTES = 4097 }; // of the longest path with its NUL

// How a name is looked up and opened.
enum file_how {
  FILE_NO_LINK = 1, // the last component may not be a link (ELOOP); a link itself is examined
  FILE_NO_WAIT = 2, // a FIFO is opened without waiting for its writer
  FILE_MAKE = 4,    // made where there is none
  FILE_NEW = 8,     // made; EEXIST where there is something
  FILE_EMPTY = 16,  // emptied
  FILE_APPEND = 32, // each write goes to the end
  FILE_READ = 64,   // for reading too
  FILE_PLACE =
      128, // a folder that names begin in, and that cannot be listed or synced: it need not be readable
  FILE_BY_NAME =
      512, // a link that leads to what has no name (/proc) is not followed, if the system can tell
  FILE_NEVER_NAMED = 1024, // not even for a moment
  FILE_WALK =
      256, // beneath: one component after the other, even where the system has a call for all
};

enum entry_kind { ENTRY_FILE, ENTRY_FOLDER, ENTRY_LINK, ENTRY_FIFO, ENTRY_OTHER };

struct entry_facts {
  enum entry_kind kind;
  uint64_t size;           // in bytes
  uint64_t allocated;      // bytes on the disk
  uint64_t volume, number; // together the identity of what has the name
  uint64_t names;          // hard links, the name itself counted
  uint32_t owner, group;
  uint32_t mode;                   // permissions: 07777
  int64_t modified_ns, changed_ns; // since 1970; its bytes; these or its other facts
};

enum {
  ENTRY_STICKY = 01000
}; // in the mode of a folder: who does not own an entry may not replace it

static inline bool entry_is_same(const struct entry_facts *a, const struct entry_facts *b) {
  return a->volume == b->volume && a->number == b->number;
}

#define NOBODY UINT32_MAX // no owner, no group
// Who this process acts as.
uint32_t process_owner(void);
// Permissions that are taken away from files and folders that this process makes.
uint32_t process_mask(void);

enum entry_may {
  MAY_EXIST = 0,
  MAY_READ = 1,
  MAY_WRITE = 2,
  MAY_ENTER = 4
}; // a folder, or a program

// Of one attempt to write: past the page cache, which then keeps what others need; only what does not wait (EAGAIN).
enum file_write_how { WRITE_UNCACHED = 1, WRITE_NO_WAIT = 2 };

enum file_lock_how { LOCK_SHARED = 0, LOCK_ALONE = 1, LOCK_NO_WAIT = 2 };

// What says something and fails nowhere: the system may take it or not.
//
// These bytes are read soon: it may begin. They are not read again soon.
void file_will_need(struct file f, uint64_t off, uint64_t n);
void file_forget(struct file f, uint64_t off, uint64_t n);
// What was written there may go to the disk now.
void file_write_out(struct file f, uint64_t off, uint64_t n);

// The calls, through a table: tests put another one in its place, before any other thread runs.
struct file_calls {
#define CALL(kind, word, about, result, failed, name, parameters, arguments)                       \
  result(*name) parameters;
#include "platform/files.def"
};
extern const struct file_calls file_calls_of_system;
extern const struct file_calls *file_calls;

#define CALL(kind, word, about, result, failed, name, parameters, arguments)                       \
  static inline result name parameters {                                                           \
    return file_calls->name arguments;                                                             \
  }
#include "platform/files.def"

// Writes to `to` (PATH_BYTES) a path by which this process can open a file without a name again, as long as f is open. False: the system
// has none.
bool file_path(struct file f, char *to);
// All n bytes from `off` on; fewer where the file ends; -1 and errno where they cannot be read.
int64_t file_read_all_at(struct file f, void *to, size_t n, uint64_t off);
// All n bytes; -1 and errno where they do not go: EIO or, of the second, ENOSPC where nothing says why.
int file_write_all(struct file f, const void *bytes, size_t n);
int file_write_all_at(struct file f, const void *bytes, size_t n, uint64_t off);
// Is there a regular file of this name itself, no link? *out: its facts, or not set; NULL: nobody asks.
bool entry_is_file(struct folder in, const char *name, struct entry_facts *out);
// Does the path lead to anything; to a folder?
bool path_exists(const char *path);
bool path_is_folder(const char *path);
// Does this errno say that the disk, the user's quota or the largest size of a file is reached?
bool failure_is_no_room(int errnum);
// A stream of a file, "r" or "w", which stream_close closes (0; EOF and errno: not all was written). NULL and errno, with the file
// closed, where there can be none; of no file too.
FILE *file_stream(struct file f, const char *mode);
int stream_close(FILE *stream);
// getc of a stream that one thread has.
int stream_getc(FILE *f);
// Why the file cannot be loaded as a shared library on this machine, as a sentence without its full stop; NULL: its header is right.
const char *library_fault(struct file f);

#endif
