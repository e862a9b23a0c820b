// Room: files written whole and listed, threads, folders for a run, files read again and hashed.
//
// What staging, seal and records do with files and folders, beyond a call of the system (platform/files.h).
#ifndef WEIR_FS_H
#define WEIR_FS_H

#include "base/err.h"
#include "base/span.h"
#include "base/table.h"
#include "platform/files.h"

#include <stdbool.h>

// Writes all n bytes. `what` names the file in messages.
int fs_write_all(struct file f, const void *bytes, size_t n, const char *what, struct err *err);
// Makes `name` in the folder hold exactly these bytes, durably: written beside as `<name>.tmp`, synced
// and renamed over. The folder itself is not synced.
int fs_put_file(struct folder in, const char *name, struct span bytes, struct err *err);
// The whole of a regular file of at most `limit` bytes. *out.at belongs to the caller (fs_free).
// Missing is -1 with an empty err; anything else fills it.
int fs_read_file(struct folder in, const char *name, size_t limit, struct span *out,
                 struct err *err);
void fs_free(struct span bytes);

// A file of a folder that is nobody's but ours: what lies there may have been put there by somebody
// else, to have us wait on a pipe, or write through a link to a file elsewhere.
//
// Says what is wrong with one that was looked at (without following a link): NULL, or "is a FIFO" and
// the like: not a regular file, more than one link, another owner.
const char *fs_not_own(struct folder in, const struct entry_facts *at);
// Opens one for writing; `how`: FILE_READ, FILE_APPEND. What is wrong with it is ERR_PERMISSION, which names
// it and `where` it lies. Missing is none with an empty err.
struct file fs_open_own(struct folder in, const char *name, unsigned how, const char *where,
                        struct err *err);
// The same for one that is read whole, as fs_read_file has it.
int fs_read_own(struct folder in, const char *name, size_t limit, const char *where,
                struct span *out, struct err *err);
// Makes a new one. What bears the name is removed first: if it is a link, what it leads to stays as it
// is. `how`: FILE_READ, FILE_APPEND.
struct file fs_make_own(struct folder in, const char *name, unsigned how, struct err *err);
// Does the path lead to this file? Links are followed.
bool fs_is_at(const struct entry_facts *file, const char *path);
// folder_sync; file systems that cannot sync one (EINVAL) are taken at their word.
int fs_sync_folder(struct folder f, const char *what, struct err *err);
// Calls `each` for every entry of the folder but "." and "..", in an order of the system's; a value
// other than 0 ends it and is returned. -1 with err if the folder cannot be read.
int fs_list(struct folder f, int (*each)(void *ctx, const char *name), void *ctx, const char *what,
            struct err *err);
// Names of entries, in the arena: their table is the caller's (TABLE_FREE).
struct fs_names {
  struct arena *a;
  TABLE(const char *, names);
};
// Appends those of the folder that do not begin with a dot, in an order of the system's. -1: it cannot be opened; -2: it cannot be
// read to its end; errno says why.
int fs_names(const char *path, struct fs_names *out);
// Removes the files in a folder of weir's own that is no longer needed. What cannot be removed stays, and so do folders.
void fs_remove_files(struct folder in);

#endif
