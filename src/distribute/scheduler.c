#include "scheduler.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>

static const struct row {
  const char *name, *index, *first, *last, *step, *count;
} rows[] = {
#define SCHEDULER(name, index, first, last, step, count) {name, index, first, last, step, count},
#include "schedulers.def"
#undef SCHEDULER
};

static bool number(const char *text, uint32_t *x) {
  char *end;
  if (!text || !isdigit((unsigned char)text[0])) return false;
  const unsigned long long n = strtoull(text, &end, 10);
  *x = (uint32_t)n;
  return *end == '\0' && n < UINT32_MAX;
}

static bool variable(const char *name, uint32_t *x) {
  if (name && name[0] == '=') return number(name + 1, x);
  return name && number(getenv(name), x);
}

static bool take(const struct row *r, struct scheduler_says *says) {
  uint32_t id, first = 0, last, step = 1, count = 0;
  if (!variable(r->index, &id)) return false;
  (void)variable(r->first, &first);
  if (id < first) return false;
  if (!variable(r->step, &step) || step == 0) step = 1;
  if (!variable(r->count, &count) && variable(r->last, &last) && last >= first)
    count = (last - first) / step + 1;
  *says = (struct scheduler_says){
      .name = r->name, .variable = r->index, .index = (id - first) / step, .count = count};
  return true;
}

struct scheduler_says scheduler_look(void) {
  struct scheduler_says says = {.name = NULL};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (take(&rows[i], &says)) return says;
  return says;
}
