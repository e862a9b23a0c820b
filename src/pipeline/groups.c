// The rows of groups.def, by name.
#include "pipeline/groups.h"

#include <string.h>

static const struct group groups[] = {
#define GROUP(key, class, rounds, once) {key, class, rounds, once},
#include "pipeline/groups.def"
#undef GROUP
};
enum { GROUPS = sizeof groups / sizeof *groups };

const struct group *groups_at(uint32_t i) {
  return i < GROUPS ? &groups[i] : NULL;
}

const struct group *groups_find(struct span name) {
  const struct span last = span_behind(name, '.');
  for (uint32_t i = 0; i < GROUPS && last.n > 0; i++)
    if (span_is(name, groups[i].key) || span_is(last, groups[i].class)) return &groups[i];
  return NULL;
}
