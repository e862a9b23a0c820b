// The number of an open file or folder on systems that have such: for io_uring, and for what another program is given.
#ifndef WEIR_PLATFORM_DESCRIPTOR_H
#define WEIR_PLATFORM_DESCRIPTOR_H

#include "platform/files.h"

// -1: none. It stays the file's: it is closed with it.
static inline int file_descriptor(struct file f) {
  return (int)(f.handle - 1);
}
static inline int folder_descriptor(struct folder f) {
  return (int)(f.handle - 1);
}
// Lists a descriptor that was opened with the resources in use (resources.h), until descriptor_leave. Returns it; none: -1.
int descriptor_hold(int fd);
void descriptor_leave(int fd);
// The file of a descriptor, which is its own from then on; none: -1.
static inline struct file file_of_descriptor(int fd) {
  return (struct file){(intptr_t)descriptor_hold(fd) + 1};
}
static inline struct folder folder_of_descriptor(int fd) {
  return (struct folder){(intptr_t)descriptor_hold(fd) + 1};
}

// How io_uring is told file_write_how (RWF_…).
int descriptor_write_flags(unsigned how);

#endif
