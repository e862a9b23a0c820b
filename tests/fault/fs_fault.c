// Fault injection for the calls of fs.h. strace and libfiu could fail system calls too, but only
// here is "between every two calls" a number that a loop can count to.
//
// The table is installed by a constructor when WEIR_FAULT or WEIR_FAULT_LOG is set, so that linking
// this file is all it takes. Calls are counted over all threads, in the order in which they arrive.
#include "fs_fault.h"

#include "fault_counts.h"
#include "fs_open.h"
#include "fs_shadow.h"
#include "platform/descriptor.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum action { COUNT_ONLY, KILL, STOP, FAIL, SHORT, KEEP };

static struct {
  enum action action;
  int errnum;
  char call[16]; // "*": any
  uint64_t nth;
  bool persist;
} fault;
static _Atomic uint64_t calls, matching;
static int log_fd = -1;

// errno names that a test may ask for.
static const struct {
  const char *name;
  int number;
} errnos[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EACCES", EACCES},
    {"EPERM", EPERM},   {"EROFS", EROFS},   {"EINVAL", EINVAL}, {"EOPNOTSUPP", EOPNOTSUPP},
    {"EEXIST", EEXIST}, {"EINTR", EINTR},   {"ENOENT", ENOENT}, {"EMFILE", EMFILE},
    {"ENOSYS", ENOSYS},
};

static void log_call(const char *call, const char *name, uint64_t n) {
  if (log_fd < 0) return;
  char line[400];
  const int len = snprintf(line, sizeof line, "%llu %s %s\n", (unsigned long long)n, call, name);
  if (write(log_fd, line, (size_t)len) < 0) _exit(2);
}

// True if this call of the fault's kind is to fail, or to fall short. A kill does not return.
static bool hits(void) {
  const uint64_t m = atomic_fetch_add(&matching, 1) + 1;
  if (m != fault.nth && !(fault.persist && m > fault.nth)) return false;
  if (fault.action == KILL) raise(SIGKILL);
  if (fault.action == STOP) raise(SIGSTOP);
  if (fault.action == FAIL || fault.action == SHORT)
    errno = fault.action == FAIL ? fault.errnum : EIO;
  return fault.action != STOP;
}

static bool strikes(const char *call, const char *name) {
  const uint64_t n = atomic_fetch_add(&calls, 1) + 1;
  log_call(call, name, n);
  if (fault.action == COUNT_ONLY) return false;
  if (strcmp(fault.call, "*") != 0 && strcmp(fault.call, call) != 0) return false;
  return hits();
}

static int shadowed(int fd, int result) {
  if (result == 0) fs_shadow_synced(fd);
  return result;
}

// ---- the calls of platform/files.def: changes are counted, and the others fail by their word ----

enum row {
#define CALL(kind, word, about, result, failed, name, parameters, arguments) ROW_##name,
#include "platform/files.def"
  ROWS
};
static _Atomic uint64_t counts[ROWS];

static bool strikes_change(enum row row, const char *word, const char *about) {
  counts[row]++;
  return strikes(word, about);
}

// A call that changes nothing: it is none of those that "*" means.
static bool strikes_look(enum row row, const char *word) {
  counts[row]++;
  return fault.action != COUNT_ONLY && strcmp(fault.call, word) == 0 && hits();
}

#define CHANGE(row, word, about) strikes_change(row, word, about)
#define LOOK(row, word, about) ((void)about, strikes_look(row, word))
#define CALL(kind, word, about, result, failed, name, parameters, arguments)                       \
  static result fault_##name parameters {                                                          \
    return kind(ROW_##name, word, about) ? failed : file_calls_of_system.name arguments;           \
  }
#include "platform/files.def"

static int64_t short_write(struct file f, const void *bytes, size_t n) {
  if (!strikes_change(ROW_file_write, "write", ""))
    return file_calls_of_system.file_write(f, bytes, n);
  return fault.action == SHORT ? file_calls_of_system.file_write(f, bytes, (n + 1) / 2) : -1;
}
static int shadowed_sync(struct file f) {
  return shadowed(file_descriptor(f), fault_file_sync(f));
}
static int shadowed_sync_data(struct file f) {
  return shadowed(file_descriptor(f), fault_file_sync_data(f));
}
static int shadowed_folder_sync(struct folder f) {
  return shadowed(folder_descriptor(f), fault_folder_sync(f));
}

static int looked_file_remove(struct folder in, const char *name) {
  fs_open_look("remove", folder_descriptor(in), name);
  if (!strikes_change(ROW_file_remove, "unlinkat", name))
    return file_calls_of_system.file_remove(in, name);
  return fault.action == KEEP ? 0 : -1;
}
static int looked_folder_remove(struct folder in, const char *name) {
  fs_open_look("remove", folder_descriptor(in), name);
  return fault_folder_remove(in, name);
}
static int looked_entry_rename(struct folder from_in, const char *from, struct folder to_in,
                               const char *to) {
  fs_open_look_rename(folder_descriptor(from_in), from, folder_descriptor(to_in), to);
  return fault_entry_rename(from_in, from, to_in, to);
}

static int looked_entry_rename_new(struct folder from_in, const char *from, struct folder to_in,
                                   const char *to) {
  fs_open_look_rename(folder_descriptor(from_in), from, folder_descriptor(to_in), to);
  return fault_entry_rename_new(from_in, from, to_in, to);
}

// How often each call was made; and by word, how often one that changes nothing.
static void tell_counts(void) {
  static const struct {
    bool look;
    const char *word, *call;
  } rows[] = {
#undef CHANGE
#undef LOOK
#define CHANGE false
#define LOOK true
#define CALL(kind, word, about, result, failed, name, parameters, arguments)                       \
  {kind, "look:" word, "call:" #name},
#include "platform/files.def"
  };
  uint64_t sums[ROWS] = {0};
  for (int i = 0; i < ROWS; i++) {
    int first = 0;
    while (strcmp(rows[first].word, rows[i].word) != 0)
      first++;
    if (rows[i].look) sums[first] += counts[i];
    if (counts[i] > 0) fault_counts_tell(rows[i].call, counts[i]);
  }
  for (int i = 0; i < ROWS; i++)
    if (sums[i] > 0) fault_counts_tell(rows[i].word, sums[i]);
}

static void install_calls(void) {
  static struct file_calls calls_of_fault = {
#define CALL(kind, word, about, result, failed, name, parameters, arguments) .name = fault_##name,
#include "platform/files.def"
  };
  calls_of_fault.file_write = short_write;
  calls_of_fault.file_sync = shadowed_sync;
  calls_of_fault.file_sync_data = shadowed_sync_data;
  calls_of_fault.folder_sync = shadowed_folder_sync;
  calls_of_fault.file_remove = looked_file_remove;
  calls_of_fault.folder_remove = looked_folder_remove;
  calls_of_fault.entry_rename = looked_entry_rename;
  calls_of_fault.entry_rename_new = looked_entry_rename_new;
  file_calls = &calls_of_fault;
}

// A signal that is to be watched from now on counts as a call too: a test can stop the program when
// it has begun to watch, before any work is done. (This name stands before the library's.)
int sigaction(int number, const struct sigaction *restrict act, struct sigaction *restrict was) {
  static int (*real)(int, const struct sigaction *, struct sigaction *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "sigaction");
  const int rc = real(number, act, was);
  if (act && act->sa_handler != SIG_DFL && file_calls != &file_calls_of_system)
    strikes("sigaction", "");
  return rc;
}

static void misspelt(const char *spec) {
  fprintf(stderr, "WEIR_FAULT: cannot read '%s'\n", spec);
  _exit(2);
}

static void parse_action(const char *word, const char *spec) {
  if (strcmp(word, "kill") == 0)
    fault.action = KILL;
  else if (strcmp(word, "stop") == 0)
    fault.action = STOP;
  else if (strcmp(word, "short") == 0)
    fault.action = SHORT;
  else if (strcmp(word, "keep") == 0)
    fault.action = KEEP;
  else
    fault.action = FAIL;
  if (fault.action != FAIL) return;
  for (size_t i = 0; i < sizeof errnos / sizeof *errnos; i++)
    if (strcmp(word, errnos[i].name) == 0) fault.errnum = errnos[i].number;
  if (!fault.errnum) misspelt(spec);
}

static void parse(const char *spec) {
  char word[24] = "", call[16] = "*", tail[16] = "";
  unsigned long long nth = 0;
  if (sscanf(spec, "%23[^:]:%llu", word, &nth) != 2 &&
      sscanf(spec, "%23[^:]:%15[^:]:%llu:%15s", word, call, &nth, tail) < 3)
    misspelt(spec);
  if (nth == 0 || (tail[0] && strcmp(tail, "persist") != 0)) misspelt(spec);
  parse_action(word, spec);
  memcpy(fault.call, call, sizeof call);
  fault.nth = nth;
  fault.persist = tail[0] != '\0';
}

void fs_fault_install(const char *spec) {
  memset(&fault, 0, sizeof fault);
  calls = matching = 0;
  if (spec && *spec) parse(spec);
  install_calls();
}

uint64_t fs_fault_calls(void) {
  return calls;
}

void fs_fault_remove(void) {
  file_calls = &file_calls_of_system;
}

void fs_fault_open_log(void) {
  const char *log = getenv("WEIR_FAULT_LOG");
  if (log && *log) log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

__attribute__((constructor)) static void install_from_environment(void) {
  const char *spec = getenv("WEIR_FAULT");
  fs_fault_open_log();
  fs_shadow_open();
  if ((spec && *spec) || log_fd >= 0 || fs_open_wanted()) fs_fault_install(spec);
  if (fault_counts_wanted()) atexit(tell_counts);
}
