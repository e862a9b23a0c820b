// The search is by names of files alone: no Python is started, nothing is loaded.
//
//   --onnxruntime, WEIR_ONNXRUNTIME ──▶ that file, or an error
//   an environment's folder P ──▶ P/{lib,lib64}/python3*/{site-packages,dist-packages}/onnxruntime/capi/libonnxruntime.so.*
//                                 P/onnxruntime/capi (pip install --target), P/lib (conda), P/lib/x86_64-linux-gnu (Debian)
//       our own, where P/bin/weir is us, if it is a virtual environment or conda's; VIRTUAL_ENV; CONDA_PREFIX; our own of
//       another kind; the folder above that of the first python3 or python in PATH, as it is named there and where links
//       lead; PYTHONUSERBASE, or ~/.local
//   "libonnxruntime.so.1" ──▶ the dynamic loader's affair, in weir-ort
//
// The environment that weir was installed into comes before the one that is active, since Python calls weir by its path, and
// whoever else does so means that one. A system's weir (/usr/bin) belongs to no environment: there the active one is meant.
//
// Of several in one environment the newest is taken. A library that was named is taken as it is, if it is one; one
// that was found must not be a file that everybody can write to, nor lie in such a folder: whoever put it there
// would run as us. Entries of PATH that are not absolute are passed over for the same reason.
#include "verify/runtime/runtime_find.h"

#include "base/span.h"
#include "platform/files.h"
#include "platform/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int runtime_find_hint(struct err *err) {
  return err_hint(err, "pip install onnxruntime (1.20 or newer), or name its library with "
                       "--onnxruntime FILE or " RUNTIME_FIND_LIBRARY);
}

// ---- is it a library? ---------------------------------------------------------------------------

static int not_a_library(const char *path, const char *why, struct err *err) {
  err_set(err, ERR_RUNTIME, "'%s' is not a library of ONNX Runtime for this machine: %s",
          quote_path(path).s, why);
  return runtime_find_hint(err);
}

// FILE_NO_WAIT: a pipe with nobody at its other end is an answer, not a wait.
static int check_library(const char *path, struct err *err) {
  struct entry_facts is;
  struct file f = file_open(HERE, path, FILE_NO_WAIT);
  const char *why = !file_is_open(f) || file_look(f, &is) ? err_errno_words(errno)
                    : is.kind != ENTRY_FILE               ? "it is not a regular file"
                                                          : library_fault(f);
  file_close(&f);
  return why ? not_a_library(path, why, err) : 0;
}

// ---- what Python has ------------------------------------------------------------------------------

#if defined __x86_64__
#define OF_OUR_MACHINE "lib/x86_64-linux-gnu"
#elif defined __aarch64__
#define OF_OUR_MACHINE "lib/aarch64-linux-gnu"
#endif

// Compares names as versions: runs of digits by their number.
static int compare_versions(const char *a, const char *b) {
  while (*a && *b) {
    char *end_a, *end_b;
    if (*a >= '0' && *a <= '9' && *b >= '0' && *b <= '9') {
      const uint64_t x = strtoull(a, &end_a, 10), y = strtoull(b, &end_b, 10);
      if (x != y) return x < y ? -1 : 1;
      a = end_a;
      b = end_b;
    } else if (*a != *b) {
      return *a < *b ? -1 : 1;
    } else {
      a++, b++;
    }
  }
  return (*a != 0) - (*b != 0);
}

struct newest {
  struct arena *a;
  const char *below;  // of a Python's folder
  const char *folder; // that is looked at
  const char *best;   // NULL: none so far
};

static void look_into(struct newest *n, const char *folder,
                      int (*each)(void *newest, const char *name)) {
  const char *before = n->folder;
  int ended;
  n->folder = folder;
  (void)folder_names(HERE, folder, each, n, &ended);
  n->folder = before;
}

static int library_here(void *newest, const char *name) {
  static const char start[] = "libonnxruntime.so.";
  struct newest *n = newest;
  const char *number = name + sizeof start - 1;
  if (strncmp(name, start, sizeof start - 1) != 0 || *number < '0' || *number > '9') return 0;
  if (!n->best || compare_versions(path_base(n->best), name) < 0)
    n->best = arena_printf(n->a, "%s/%s", n->folder, name);
  return 0;
}

static int python_here(void *newest, const char *name) {
  struct newest *n = newest;
  if (strncmp(name, "python3", strlen("python3")) == 0)
    look_into(n, arena_printf(n->a, "%s/%s/%s", n->folder, name, n->below), library_here);
  return 0;
}

// The newest library of that environment, or NULL.
static const char *newest_in(const char *prefix, struct arena *a) {
  static const struct {
    const char *folder, *below; // below: that of each of its Pythons
  } places[] = {{"lib", "site-packages/onnxruntime/capi"},
                {"lib64", "site-packages/onnxruntime/capi"},
                {"lib", "dist-packages/onnxruntime/capi"},
                {"onnxruntime/capi", NULL},
                {"lib", NULL},
                {OF_OUR_MACHINE, NULL}};
  struct newest n = {.a = a};
  if (strpbrk(prefix, "*?[\\")) return NULL; // such folders have never been looked into
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    n.below = places[i].below;
    look_into(&n, arena_printf(a, "%s/%s", prefix, places[i].folder),
              n.below ? python_here : library_here);
  }
  return n.best;
}

// Calls try(ctx, folder) for the folders of PATH, in order, until it gives something.
static const char *in_path(const char *(*try)(const char *folder, struct arena *a),
                           struct arena *a) {
  const char *path = machine_variable("PATH");
  while (path && *path) {
    const size_t n = strcspn(path, ":");
    const char *folder = arena_string(a, span_of(path, n));
    const char *found = folder[0] == '/' ? try(folder, a) : NULL;
    if (found) return found;
    path += n + (path[n] == ':');
  }
  return NULL;
}

static bool is_program(const char *path) {
  struct entry_facts is;
  return entry_look(HERE, path, 0, &is) == 0 && is.kind == ENTRY_FILE &&
         entry_may(HERE, path, MAY_ENTER) == 0;
}

static const char *python_in(const char *folder, struct arena *a) {
  const char *three = arena_printf(a, "%s/python3", folder);
  const char *plain = arena_printf(a, "%s/python", folder);
  return is_program(three) ? three : is_program(plain) ? plain : NULL;
}

static const char *above_its_folder(const char *program, struct arena *a) {
  return arena_folder(a, arena_folder(a, program));
}

// Our own path, links resolved, or NULL.
static const char *ourselves(struct arena *a) {
  char self[PATH_BYTES];
  return process_program(self) == 0 ? arena_string(a, span_str(self)) : NULL;
}

// Virtual environments have the one, conda's the other.
static bool is_environment(const char *prefix, struct arena *a) {
  return entry_may(HERE, arena_printf(a, "%s/pyvenv.cfg", prefix), MAY_EXIST) == 0 ||
         entry_may(HERE, arena_printf(a, "%s/conda-meta", prefix), MAY_EXIST) == 0;
}

static const char *of_first_python(struct arena *a) {
  const char *python = in_path(python_in, a);
  if (!python) return NULL;
  const char *prefix = above_its_folder(python, a);
  const char *found = newest_in(prefix, a);
  if (!found && strcmp(prefix, "/usr") == 0) found = newest_in("/usr/local", a); // Debian's pip
  char real[PATH_BYTES];
  if (!found && path_real(python, real) == 0) found = newest_in(above_its_folder(real, a), a);
  return found;
}

static const char *of_user(struct arena *a) {
  const char *base = machine_variable("PYTHONUSERBASE"), *home = machine_variable("HOME");
  if (base) return newest_in(base, a);
  return home ? newest_in(arena_printf(a, "%s/.local", home), a) : NULL;
}

static const char *of_python(struct arena *a) {
  const char *us = ourselves(a);
  const char *own = us ? above_its_folder(us, a) : NULL;
  const char *const prefixes[] = {own && is_environment(own, a) ? own : NULL,
                                  machine_variable("VIRTUAL_ENV"), machine_variable("CONDA_PREFIX"),
                                  own};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    const char *found = prefixes[i] ? newest_in(prefixes[i], a) : NULL;
    if (found) return found;
  }
  const char *found = of_first_python(a);
  return found ? found : of_user(a);
}

static bool everybody_writes(const char *path) {
  enum { BY_OTHERS = 0002 };
  struct entry_facts is;
  return entry_look(HERE, path, 0, &is) == 0 && (is.mode & BY_OTHERS);
}

// The file itself, the folder where it was found, and the one that a link leads to. (A folder's sticky bit keeps its files from
// being replaced, but not new ones from being put there.)
static int check_nobody_else_writes(const char *path, struct arena *a, struct err *err) {
  char real[PATH_BYTES];
  const char *leads_to = path_real(path, real) == 0 ? real : path;
  const char *const places[] = {leads_to, arena_folder(a, leads_to), arena_folder(a, path)};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (!everybody_writes(places[i])) continue;
    err_set(err, ERR_RUNTIME,
            "every user can write to '%s', where ONNX Runtime was found, so weir does not load it",
            quote_path(places[i]).s);
    return err_hint(err, "chmod o-w, or name the library with --onnxruntime FILE if you trust it");
  }
  return 0;
}

int runtime_find_library(const char *asked, struct arena *a, const char **out, struct err *err) {
  const char *named = asked ? asked : machine_variable(RUNTIME_FIND_LIBRARY);
  *out = named ? named : of_python(a);
  if (!*out) {
    *out = "libonnxruntime.so.1";
    return 0;
  }
  if (!named && check_nobody_else_writes(*out, a, err) < 0) return -1;
  // A name without a slash would be looked for elsewhere than here.
  if (!strchr(*out, '/')) *out = arena_printf(a, "./%s", *out);
  return check_library(*out, err);
}

// ---- the program ----------------------------------------------------------------------------------

static const char *program_in(const char *folder, struct arena *a) {
  const char *path = arena_printf(a, "%s/weir-ort", folder);
  return is_program(path) ? path : NULL;
}

static const char *beside_us(struct arena *a) {
  const char *us = ourselves(a);
  if (!us) return NULL;
  const char *folder = arena_folder(a, us);
  const char *found = program_in(folder, a);
  return found ? found : program_in(arena_printf(a, "%s/libexec/weir", arena_folder(a, folder)), a);
}

int runtime_find_program(struct arena *a, const char **out, struct err *err) {
  const char *named = machine_variable(RUNTIME_FIND_PROGRAM);
  if (named && !is_program(named)) {
    err_set(err, ERR_RUNTIME, RUNTIME_FIND_PROGRAM " names '%s', which is not a program",
            quote_path(named).s);
    return err_hint(err, "it names weir-ort, which opens ONNX Runtime for weir");
  }
  *out = named ? arena_string(a, span_str(named)) : beside_us(a);
  if (!*out) *out = in_path(program_in, a);
  if (*out) return 0;
  err_set(err, ERR_RUNTIME, "weir-ort, the program that opens ONNX Runtime, was not found");
  return err_hint(err, "it is installed with weir, next to it or in ../libexec/weir; if it is "
                       "elsewhere, " RUNTIME_FIND_PROGRAM " names it");
}
