// The licences of what is in the program: made by the build (licenses.cmake).
#ifndef WEIR_LICENSES_H
#define WEIR_LICENSES_H

struct license {
  const char *name; // "weir", "openssl"
  const char *text;
};

// weir's own is first. Others are of libraries that are linked into the program; a shared library has its own
// with it. The last row has no name.
extern const struct license licenses[];

#endif
