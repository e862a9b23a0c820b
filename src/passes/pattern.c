// Globs through fnmatch(3), without FNM_PATHNAME since names of nodes are no paths, and regular
// expressions through regcomp(3). weir sets no locale, so both work on bytes.
//
// regcomp does not say where an expression is wrong. The place is found by asking: it is the shortest
// prefix that no continuation repairs, for which the shortest prefix that fails with the same words as
// the whole is a good enough pointer for a person.
#include "pattern.h"

#include <fnmatch.h>

enum { MEASURED = 256 };

static bool has_prefix(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

static size_t failing_length(const char *expression, int code) {
  char prefix[MEASURED];
  size_t n = strlen(expression);
  for (size_t i = 1; i < n && i < sizeof prefix; i++) {
    regex_t ignored;
    memcpy(prefix, expression, i);
    prefix[i] = 0;
    int rc = regcomp(&ignored, prefix, REG_EXTENDED | REG_NOSUB);
    if (rc == 0) regfree(&ignored);
    if (rc == code) return i;
  }
  return n;
}

static int bad_regex(const struct pattern *p, const char *expression, int code, const char *option,
                     struct err *err) {
  char words[128];
  regerror(code, &p->regex, words, sizeof words);
  err_set(err, ERR_USAGE, "%s '%s': %s, seen at character %zu of the expression", option,
          quote_str(p->text).s, words, failing_length(expression, code));
  return err_hint(err, "re: takes a POSIX extended regular expression; without re: the text is a "
                       "glob (* ? [a-z])");
}

int pattern_compile(struct pattern *p, const char *text, const char *option, struct err *err) {
  *p = (struct pattern){.text = text, .is_regex = has_prefix(text, "re:")};
  const char *body = p->is_regex ? text + 3 : text;
  if (*body == 0) {
    err_set(err, ERR_USAGE, "%s '%s': the pattern is empty", option, quote_str(text).s);
    return err_hint(err, "'*' matches every name");
  }
  if (!p->is_regex) return 0;
  int code = regcomp(&p->regex, body, REG_EXTENDED | REG_NOSUB);
  return code ? bad_regex(p, body, code, option, err) : 0;
}

void pattern_done(struct pattern *p) {
  if (p->is_regex) regfree(&p->regex);
}

bool pattern_matches(const struct pattern *p, const char *name) {
  if (p->is_regex) return regexec(&p->regex, name, 0, NULL, 0) == 0;
  return fnmatch(p->text, name, 0) == 0;
}

bool pattern_look(struct pattern *p, const char *name) {
  if (*name == 0 || !pattern_matches(p, name)) return false;
  p->matches++;
  return true;
}

// Levenshtein's table, one row at a time: row[j] is the distance of the pattern so far to the first j
// characters of the name.
uint32_t pattern_distance(const struct pattern *p, const char *name) {
  uint32_t row[MEASURED + 1];
  const char *text = p->is_regex ? p->text + 3 : p->text;
  size_t n = strnlen(name, MEASURED), length = strnlen(text, MEASURED);
  for (size_t j = 0; j <= n; j++)
    row[j] = (uint32_t)j;
  for (size_t i = 0; i < length; i++) {
    bool star = text[i] == '*', any = text[i] == '?' || (p->is_regex && text[i] == '.');
    uint32_t diagonal = row[0];
    row[0] += !star;
    for (size_t j = 1; j <= n; j++) {
      uint32_t change = diagonal + (star || any || text[i] == name[j - 1] ? 0 : 1);
      uint32_t least = row[j] + !star < row[j - 1] + !star ? row[j] + !star : row[j - 1] + !star;
      diagonal = row[j];
      row[j] = change < least ? change : least;
    }
  }
  return row[n];
}

void pattern_consider(struct pattern_nearest *c, const struct pattern *p, const char *name) {
  if (*name == 0) return;
  for (uint32_t i = 0; i < c->n; i++)
    if (strcmp(c->names[i], name) == 0) return;
  uint32_t distance = pattern_distance(p, name), at = c->n;
  while (at > 0 && distance < c->distances[at - 1])
    at--;
  if (at == PATTERN_NEAREST) return;
  if (c->n < PATTERN_NEAREST) c->n++;
  for (uint32_t i = c->n - 1; i > at; i--) {
    c->names[i] = c->names[i - 1];
    c->distances[i] = c->distances[i - 1];
  }
  c->names[at] = name;
  c->distances[at] = distance;
}

const char *pattern_hint(const struct pattern_nearest *c, struct arena *a) {
  if (c->n == 0) return NULL;
  const char *hint = arena_printf(a, "the nearest names: '%s'", quote_str(c->names[0]).s);
  for (uint32_t i = 1; i < c->n; i++)
    hint = arena_printf(a, "%s, '%s'", hint, quote_str(c->names[i]).s);
  return hint;
}
