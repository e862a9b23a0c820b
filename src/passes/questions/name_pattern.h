// Patterns over the names of nodes and tensors, as users write them.
//
//   /layers/*/MatMul     a glob on the whole name: * ? [a-z] and backslash; * passes slashes too
//   re:layers\.[0-3]\.   a POSIX extended regular expression, found anywhere (anchor with ^ and $)
//
// Options of passes take these. --exclude of `weir calibrate` (calibrate_values.c) and --only and --skip of `weir optimize`
// (optimize_steps.c) take globs alone.
#ifndef WEIR_NAME_PATTERN_H
#define WEIR_NAME_PATTERN_H

#include "base/arena.h"
#include "base/err.h"

struct name_pattern {
  const char *text;            // as written; the caller keeps it
  struct pattern_regex *regex; // NULL: a glob
  uint64_t matches;            // how many names it was found to match (name_pattern_look)
};

// ERR_USAGE with what is wrong and where for a regular expression that does not compile, for one
// that is too large to (1000 characters, 2000 with all repetitions written out), and for an empty
// pattern. `option` ("--exclude") is named in the message. name_pattern_done after success.
int name_pattern_compile(struct name_pattern *p, const char *text, const char *option,
                         struct err *err);
void name_pattern_done(struct name_pattern *p);

bool name_pattern_matches(const struct name_pattern *p, const char *name);
// The same, and counts a match. An empty name matches nothing.
bool name_pattern_look(struct name_pattern *p, const char *name);

// Several, of which any counts. Compiled and given back as one; texts and rows live as long as *a.
struct name_patterns {
  struct name_pattern *at;
  uint32_t n;
};
int name_patterns_compile(struct name_patterns *p, const char *const *texts, uint32_t n,
                          const char *option, struct arena *a, struct err *err);
void name_patterns_done(struct name_patterns *p);
// Does any match? An empty name matches nothing.
bool name_patterns_match(const struct name_patterns *p, const char *name);

// How far a name is from a pattern: the characters to add, remove or change until it matches,
// wildcards standing for anything. Lengths past 256 are cut.
uint32_t name_pattern_distance(const struct name_pattern *p, const char *name);

// The names nearest to a pattern that matches none, each once. Zero-initialize; names are kept by
// reference, empty ones are not considered. The hint is a sentence, or NULL if there was no name.
enum { PATTERN_NEAREST = 3 };
struct name_pattern_nearest {
  const char *names[PATTERN_NEAREST];
  uint32_t distances[PATTERN_NEAREST];
  uint32_t n;
};
void name_pattern_consider(struct name_pattern_nearest *c, const struct name_pattern *p,
                           const char *name);
const char *name_pattern_hint(const struct name_pattern_nearest *c, struct arena *a);

#endif
