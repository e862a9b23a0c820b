// As the dynamic loaders of Linux, BSD and macOS do it.
#include "platform/loading/library_load.h"

#include <dlfcn.h>
#include <stddef.h>

struct library *library_load(const char *path, const char **why) {
  void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) *why = dlerror();
  return library;
}

const void *library_symbol(struct library *l, const char *name) {
  return dlsym(l, name);
}

const char *library_path(const void *address) {
  Dl_info at;
  return address && dladdr(address, &at) && at.dli_fname && at.dli_fname[0] ? at.dli_fname : NULL;
}
