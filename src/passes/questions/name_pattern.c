// Globs and regular expressions through the system's functions (platform/patterns.h).
//
// They do not say where an expression is wrong. The place is found by asking: it is the
// shortest prefix that no continuation repairs, for which the shortest prefix that fails with the
// same words as the whole is a good enough pointer for a person.
//
// They write repetitions out (a{3} is aaa, a+ is aa*) and recurse into groups, both without a
// bound: forty characters would take all memory, 30 000 parentheses the stack. So an expression is
// measured first.
#include "passes/questions/name_pattern.h"

#include "base/span.h"
#include "platform/patterns.h"

enum { MEASURED = 256, REGEX_LENGTH_MAX = 1000, REGEX_WRITTEN_OUT_MAX = 2000 };

static bool has_prefix(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

static size_t failing_length(const char *expression, int code) {
  char prefix[MEASURED];
  size_t n = strlen(expression);
  for (size_t i = 1; i < n && i < sizeof prefix; i++) {
    int fault;
    memcpy(prefix, expression, i);
    prefix[i] = 0;
    pattern_free(pattern_compile(prefix, &fault));
    if (fault == code) return i;
  }
  return n;
}

static int bad_regex(const struct name_pattern *p, const char *expression, int code,
                     const char *option, struct err *err) {
  char words[128];
  pattern_fault_words(code, words, sizeof words);
  err_set(err, ERR_USAGE, "%s '%s': %s at character %zu of the expression", option,
          quote_str(p->text).s, words, failing_length(expression, code));
  return err_hint(err,
                  "a pattern is a glob (* ? [a-z]), or re: followed by a POSIX extended regular "
                  "expression");
}

// ---- what would have to be written out ---------------------------------------------------------

// Sizes in characters, of the groups that are open and of the last piece in each.
struct measure {
  uint64_t size[REGEX_LENGTH_MAX + 1], last[REGEX_LENGTH_MAX + 1];
  uint32_t depth;
};

static void measure_piece(struct measure *x, uint64_t size) {
  x->last[x->depth] = size;
  x->size[x->depth] += size;
}

static void measure_repeat(struct measure *x, uint64_t times) {
  if (times < 2) return;
  uint64_t *last = &x->last[x->depth], *size = &x->size[x->depth];
  const uint64_t more = *last > UINT32_MAX / times ? UINT32_MAX : *last * (times - 1);
  *last += more;
  *size = min_u64(*size + more, UINT32_MAX);
}

// Behind "[": the character behind its "]", or the end.
static const char *skip_bracket(const char *e) {
  e += *e == '^';
  e += *e == ']';
  while (*e && *e != ']') {
    const char kind = *e == '[' ? e[1] : 0;
    e++;
    if (kind != ':' && kind != '.' && kind != '=') continue;
    const char *end = strchr(e + 1, kind);
    while (end && end[1] != ']')
      end = strchr(end + 1, kind);
    if (end) e = end + 2;
  }
  return e + (*e == ']');
}

static uint64_t number(const char **e) {
  uint64_t n = 0;
  for (; **e >= '0' && **e <= '9'; ++*e)
    n = min_u64(n * 10 + (uint64_t)(**e - '0'), UINT16_MAX);
  return n;
}

// From behind "{" to behind the "}" of "n}", "n,}" or "n,m}": how often it writes the piece out.
static uint64_t repetitions(const char **e) {
  uint64_t n = number(e);
  if (**e == ',') {
    ++*e;
    n = **e == '}' ? n + 1 : max_u64(n, number(e));
  }
  *e += **e == '}';
  return n;
}

// At least as many characters as `e` has when its repetitions are written out.
static uint64_t written_out(const char *e) {
  struct measure x = {.depth = 0};
  while (*e) {
    const char c = *e++;
    if (c == '(') {
      x.depth++;
      x.size[x.depth] = x.last[x.depth] = 0;
    } else if (c == ')' && x.depth > 0) {
      const uint64_t group = x.size[x.depth--];
      measure_piece(&x, max_u64(group, 1));
    } else if (c == '{') {
      measure_repeat(&x, repetitions(&e));
    } else if (c == '+') {
      measure_repeat(&x, 2);
    } else {
      if (c == '[') e = skip_bracket(e);
      if (c == '\\' && *e) e++;
      measure_piece(&x, 1);
    }
  }
  uint64_t size = 0;
  for (uint32_t i = 0; i <= x.depth; i++)
    size += x.size[i];
  return size;
}

static int check_size(const char *expression, const char *option, struct err *err) {
  const size_t n = strlen(expression);
  if (n > REGEX_LENGTH_MAX) {
    err_set(err, ERR_USAGE, "%s: a regular expression of %zu characters; the limit is %d", option,
            n, REGEX_LENGTH_MAX);
    return err_hint(err, "give %s several times, each with one part of the expression", option);
  }
  const uint64_t size = written_out(expression);
  if (size <= REGEX_WRITTEN_OUT_MAX) return 0;
  err_set(err, ERR_USAGE,
          "%s 're:%s': %s characters with all repetitions written out; the limit is %d", option,
          quote_str(expression).s, decimal(size).s, REGEX_WRITTEN_OUT_MAX);
  return err_hint(err, "use * for repetitions without a limit");
}

// ------------------------------------------------------------------------------------------------

int name_pattern_compile(struct name_pattern *p, const char *text, const char *option,
                         struct err *err) {
  *p = (struct name_pattern){.text = text};
  const bool is_regex = has_prefix(text, "re:");
  const char *body = is_regex ? text + 3 : text;
  int fault;
  if (*body == 0) {
    err_set(err, ERR_USAGE, "%s '%s': the pattern is empty", option, quote_str(text).s);
    return err_hint(err, "'*' matches every name");
  }
  if (!is_regex) return 0;
  if (check_size(body, option, err)) return -1;
  p->regex = pattern_compile(body, &fault);
  return p->regex ? 0 : bad_regex(p, body, fault, option, err);
}

void name_pattern_done(struct name_pattern *p) {
  pattern_free(p->regex);
}

bool name_pattern_matches(const struct name_pattern *p, const char *name) {
  return p->regex ? pattern_finds(p->regex, name) : pattern_glob(p->text, name);
}

bool name_pattern_look(struct name_pattern *p, const char *name) {
  if (*name == 0 || !name_pattern_matches(p, name)) return false;
  p->matches++;
  return true;
}

int name_patterns_compile(struct name_patterns *p, const char *const *texts, uint32_t n,
                          const char *option, struct arena *a, struct err *err) {
  p->at = arena_zalloc(a, (n + (size_t)1) * sizeof *p->at);
  for (p->n = 0; p->n < n; p->n++)
    if (name_pattern_compile(&p->at[p->n], texts[p->n], option, err)) return -1;
  return 0;
}

void name_patterns_done(struct name_patterns *p) {
  for (uint32_t i = 0; i < p->n; i++)
    name_pattern_done(&p->at[i]);
}

bool name_patterns_match(const struct name_patterns *p, const char *name) {
  for (uint32_t i = 0; *name && i < p->n; i++)
    if (name_pattern_matches(&p->at[i], name)) return true;
  return false;
}

// Levenshtein's table, one row at a time: row[j] is the distance of the pattern so far to the first
// j characters of the name.
uint32_t name_pattern_distance(const struct name_pattern *p, const char *name) {
  uint32_t row[MEASURED + 1];
  const char *text = p->regex ? p->text + 3 : p->text;
  size_t n = str_length(name, MEASURED), length = str_length(text, MEASURED);
  for (size_t j = 0; j <= n; j++)
    row[j] = (uint32_t)j;
  for (size_t i = 0; i < length; i++) {
    bool star = text[i] == '*', any = text[i] == '?' || (p->regex && text[i] == '.');
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

void name_pattern_consider(struct name_pattern_nearest *c, const struct name_pattern *p,
                           const char *name) {
  if (*name == 0) return;
  for (uint32_t i = 0; i < c->n; i++)
    if (strcmp(c->names[i], name) == 0) return;
  uint32_t distance = name_pattern_distance(p, name), at = c->n;
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

const char *name_pattern_hint(const struct name_pattern_nearest *c, struct arena *a) {
  if (c->n == 0) return NULL;
  const char *hint = arena_printf(a, "the nearest names: '%s'", quote_str(c->names[0]).s);
  for (uint32_t i = 1; i < c->n; i++)
    hint = arena_printf(a, "%s, '%s'", hint, quote_str(c->names[i]).s);
  return hint;
}
