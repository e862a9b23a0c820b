// Room: shared libraries, loaded into this process. It is apart from platform, since a program that is linked statically cannot load any.
#ifndef WEIR_LIBRARY_LOAD_H
#define WEIR_LIBRARY_LOAD_H

struct library;

// Loads a library, with those that it needs, for good. What it offers is found by library_symbol alone. NULL and *why, in words of the
// system, which stay until the next call.
struct library *library_load(const char *path, const char **why);
// The address of what has that name in it; NULL: nothing has.
const void *library_symbol(struct library *l, const char *name);
// The path of the library that has something at this address; NULL: none has, or nobody says.
const char *library_path(const void *address);

#endif
