// Patterns, as POSIX has them.
#include "platform/patterns.h"

#include "resources/resources.h"

#include <fnmatch.h>
#include <regex.h>

struct pattern_regex {
  regex_t compiled;
};

bool pattern_glob(const char *glob, const char *text) {
  return fnmatch(glob, text, 0) == 0;
}

static void regex_left(void *p, size_t n) {
  (void)n;
  regfree(&((struct pattern_regex *)p)->compiled);
}

struct pattern_regex *pattern_compile(const char *expression, int *fault) {
  struct pattern_regex *p = resources_alloc(sizeof *p);
  *fault = p ? regcomp(&p->compiled, expression, REG_EXTENDED | REG_NOSUB) : REG_ESPACE;
  if (*fault == 0) {
    resources_hold(p, 0, regex_left);
    return p;
  }
  resources_free(p);
  return NULL;
}

void pattern_free(struct pattern_regex *p) {
  if (!p) return;
  resources_drop_thing(p, 0);
  regfree(&p->compiled);
  resources_free(p);
}

void pattern_fault_words(int fault, char *words, size_t n) {
  regerror(fault, &(regex_t){0}, words, n);
}

bool pattern_finds(const struct pattern_regex *p, const char *text) {
  return regexec(&p->compiled, text, 0, NULL, 0) == 0;
}
