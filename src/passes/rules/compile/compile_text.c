// Texts to statements, statements to what stands before the ':' of a rule, and the tokens behind it.
//
//   ops NAME = …;   spell A B;   set KEY …;
//   NAME "summary" for A/B in x/y … LEVEL : body ;
//   └──────────── head ─────────────────┘   tokens, read by compile_trees.c
//
// A statement is copied without comments and superfluous blanks, and every character of the copy knows
// where it came from, so that all that follows can say line and column. Lists are known from where they
// stand, and hold in the files behind too; so do spellings. A set holds up to the next one of its file.
#include "passes/rules/compile/inside/compile_inside.h"

#include "base/guess.h"
#include "passes/exactness.h"

// ---- statements -----------------------------------------------------------------------------------

static bool is_blank(uint8_t x) {
  return x == ' ' || x == '\t' || x == '\n' || x == '\r';
}

static bool is_comment(struct span text, size_t i) {
  return text.at[i] == '#' &&
         (i + 1 == text.n || is_blank(text.at[i + 1]) || text.at[i + 1] == '#');
}

static int put(struct compile *c, uint8_t x, size_t at) {
  if (c->n_text >= COMPILE_STATEMENT)
    return rules_compile_fail(c, (uint32_t)at, "the statement is longer than %d characters",
                              COMPILE_STATEMENT);
  *TABLE_PUSH(c, text) = (char)x;
  *TABLE_PUSH(c, where) = (uint32_t)at;
  return 0;
}

// Copies the statement at *i up to its ';'. 1: there is one; 0: there is nothing any more.
static int next_statement(struct compile *c, size_t *i) {
  const struct span text = c->texts[c->file].text;
  bool quoted = false, blank = false;
  c->n_text = c->n_where = 0;
  for (; *i < text.n; ++*i) {
    const uint8_t x = text.at[*i];
    if (quoted && x == '\n')
      return rules_compile_fail(c, (uint32_t)*i, "a text must end on its line: '\"' is missing");
    if (!quoted && is_comment(text, *i)) {
      while (*i + 1 < text.n && text.at[*i + 1] != '\n')
        ++*i;
      continue;
    }
    if (is_blank(x)) {
      blank = true;
      continue;
    }
    if (blank && c->n_text > 0 && put(c, ' ', *i)) return -1;
    blank = false;
    if (x == ';' && !quoted) {
      if (c->n_text > 0 && c->text[c->n_text - 1] == ' ') c->n_text--, c->n_where--;
      if (put(c, 0, *i)) return -1; // the end has a place too
      c->n_text--;
      ++*i;
      return 1;
    }
    quoted ^= x == '"';
    if (put(c, x, *i)) return -1;
  }
  if (c->n_text == 0) return 0;
  return rules_compile_fail(c, c->where[0], "the last statement does not end with ';'");
}

// ---- words of a statement -------------------------------------------------------------------------

// A piece of the statement, which moves over its words.
struct piece {
  uint32_t at, end;
};

static struct span span_at(const struct compile *c, uint32_t from, uint32_t end) {
  return span_of(c->text + from, end - from);
}

static uint32_t place(const struct compile *c, uint32_t at) {
  return c->where[at];
}

// The next word: up to a blank, but a text up to its end. False: none is left.
static bool next_word(const struct compile *c, struct piece *p, struct piece *word) {
  while (p->at < p->end && c->text[p->at] == ' ')
    p->at++;
  if (p->at == p->end) return false;
  word->at = p->at;
  bool quoted = false;
  while (p->at < p->end && (quoted || c->text[p->at] != ' '))
    quoted ^= c->text[p->at++] == '"';
  word->end = p->at;
  return true;
}

static struct span word_span(const struct compile *c, struct piece word) {
  return span_at(c, word.at, word.end);
}

static uint32_t intern(struct compile *c, struct piece word) {
  return rules_compile_word(c, word_span(c, word));
}

// A summary: "" is a word of a loop, and so is ""/x.
static bool is_text(const struct compile *c, struct piece word) {
  return word.end - word.at > 2 && c->text[word.at] == '"' && c->text[word.at + 1] != '"';
}

// ---- lists, spellings, sets -----------------------------------------------------------------------

static const struct compile_list *list_named(const struct compile *c, uint32_t name) {
  for (uint32_t i = c->n_lists; i-- > 0;) // the last of a name counts
    if (c->lists[i].name == name) return &c->lists[i];
  return NULL;
}

static int refuse_list(struct compile *c, struct piece word) {
  const char *name = arena_string(&c->own, span_at(c, word.at + 1, word.end));
  struct guess g = guess_start(name);
  for (uint32_t i = 0; i < c->n_lists; i++)
    guess_try(&g, compile_text_of(c, c->lists[i].name));
  rules_compile_fail(c, place(c, word.at), "list '%s' does not exist", quote_str(name).s);
  return g.best ? err_hint(c->err, "did you mean '$%s'?", g.best)
                : err_hint(c->err, "define a list before its use: ops %s = Add Mul ;",
                           quote_str(name).s);
}

// A word, or those of a list, onto compile.cells.
static int put_words(struct compile *c, struct piece word) {
  if (c->n_cells > COMPILE_CODE)
    return rules_compile_fail(c, place(c, word.at), "the lists are too long in all");
  if (c->text[word.at] != '$') {
    const uint32_t id = intern(c, word);
    *TABLE_PUSH(c, cells) = id;
    return 0;
  }
  const struct compile_list *list =
      list_named(c, rules_compile_word(c, span_at(c, word.at + 1, word.end)));
  if (!list) return refuse_list(c, word);
  for (uint32_t i = 0; i < list->n; i++) {
    const uint32_t id = c->cells[list->first + i];
    *TABLE_PUSH(c, cells) = id;
  }
  return 0;
}

static int read_list(struct compile *c, struct piece p) {
  struct piece name, sign, word;
  if (!next_word(c, &p, &name) || !next_word(c, &p, &sign) || !span_is(word_span(c, sign), "="))
    return rules_compile_fail(c, place(c, 0), "write a list as: ops NAME = Add Mul ;");
  struct compile_list list = {.name = intern(c, name), .first = c->n_cells};
  while (next_word(c, &p, &word))
    if (put_words(c, word)) return -1;
  list.n = c->n_cells - list.first;
  *TABLE_PUSH(c, lists) = list;
  return 0;
}

static int read_spelling(struct compile *c, struct piece p) {
  struct piece before, after, more;
  if (!next_word(c, &p, &before) || !next_word(c, &p, &after) || next_word(c, &p, &more))
    return rules_compile_fail(c, place(c, 0), "a spelling has two words: spell IsInf IfInf ;");
  const uint32_t pair[] = {intern(c, before), intern(c, after)};
  for (uint32_t i = 0; i < c->n_spell; i += 2)
    if (c->spell[i] == pair[0]) {
      c->spell[i + 1] = pair[1];
      return 0;
    }
  for (uint32_t i = 0; i < 2; i++)
    *TABLE_PUSH(c, spell) = pair[i];
  return 0;
}

static void read_set(struct compile *c, struct piece p) {
  struct piece word;
  c->set = c->n_keys;
  while (next_word(c, &p, &word)) {
    const uint32_t id = intern(c, word);
    *TABLE_PUSH(c, keys) = id;
  }
  c->n_set = c->n_keys - c->set;
}

// ---- for … in … -----------------------------------------------------------------------------------

// Part k of a word of which '/' divides the parts; "" is a part without letters. False past the last.
static bool part_of(const struct compile *c, struct piece word, uint32_t k, struct span *part) {
  uint32_t at = word.at;
  for (;; k--) {
    uint32_t end = at;
    while (end < word.end && c->text[end] != '/')
      end++;
    *part = span_at(c, at, end);
    if (span_is(*part, "\"\"")) *part = span_str("");
    if (k == 0) return true;
    if (end == word.end) return false;
    at = end + 1;
  }
}

static bool is_name_of_loop(struct span s) {
  for (size_t i = 0; i < s.n; i++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", s.at[i]))
      return false;
  return s.n > 0;
}

struct loop {
  struct piece vars;
  uint32_t n_vars, first, n; // of words: in compile.cells
  uint32_t at;
};
enum { LOOPS = 8, VARS = 16 };

// Reads `for A/B in x/y …` up to the next 'for', a summary or the end.
static int read_loop(struct compile *c, struct piece *p, struct loop *loop) {
  struct piece in, word;
  struct span part;
  loop->at = p->at;
  if (!next_word(c, p, &loop->vars) || !next_word(c, p, &in) || !span_is(word_span(c, in), "in"))
    return rules_compile_fail(c, place(c, loop->at), "write a loop as: for F in Add Mul");
  for (; part_of(c, loop->vars, loop->n_vars, &part); loop->n_vars++)
    if (!is_name_of_loop(part) || loop->n_vars == VARS)
      return rules_compile_fail(c, place(c, loop->vars.at), "'%s' is not a name",
                                quote(word_span(c, loop->vars)).s);
  loop->first = c->n_cells;
  for (struct piece ahead = *p; next_word(c, &ahead, &word); *p = ahead) {
    if (span_is(word_span(c, word), "for") || is_text(c, word)) break;
    const uint32_t before = c->n_cells;
    if (put_words(c, word)) return -1;
    for (uint32_t i = before; i < c->n_cells; i++) {
      const struct span s = c->words[c->cells[i]];
      uint32_t parts = 1;
      for (size_t k = 0; k < s.n; k++)
        parts += s.at[k] == '/';
      if (parts != loop->n_vars)
        return rules_compile_fail(c, place(c, word.at), "'%s' does not fit 'for %s'", quote(s).s,
                                  quote(word_span(c, loop->vars)).s);
    }
  }
  loop->n = c->n_cells - loop->first;
  if (loop->n == 0) return rules_compile_fail(c, place(c, loop->at), "the loop has no words");
  return 0;
}

static struct span part_of_word(struct span word, uint32_t k) {
  size_t at = 0;
  for (; k > 0; k--)
    at += strcspn((const char *)word.at + at, "/") + 1;
  const struct span part = span_of(word.at + at, strcspn((const char *)word.at + at, "/"));
  return span_is(part, "\"\"") ? span_of(word.at, 0) : part;
}

// The table of a rule: all combinations of its loops, the last one turning fastest. Of two loops with
// one name the later counts.
static int make_rows(struct compile *c, struct compile_rule *r, const struct loop *loops,
                     uint32_t n) {
  uint64_t rows = 1;
  for (uint32_t i = 0; i < n; i++) {
    rows *= loops[i].n;
    if (rows > COMPILE_ROWS)
      return rules_compile_fail(c, place(c, loops[i].at),
                                "the loops of the rule make more than %d rules", COMPILE_ROWS);
  }
  r->vars = c->n_cells;
  for (uint32_t i = n; i-- > 0;)
    for (uint32_t k = 0; k < loops[i].n_vars; k++) {
      struct span part;
      part_of(c, loops[i].vars, k, &part);
      const uint32_t id = rules_compile_word(c, part);
      *TABLE_PUSH(c, cells) = id;
    }
  r->n_vars = c->n_cells - r->vars;
  r->rows = c->n_cells, r->n_rows = (uint32_t)rows;
  for (uint32_t row = 0; row < r->n_rows; row++)
    for (uint32_t i = n, turn = row; i-- > 0; turn /= loops[i].n)
      for (uint32_t k = 0; k < loops[i].n_vars; k++) {
        const struct span word = c->words[c->cells[loops[i].first + turn % loops[i].n]];
        const uint32_t id = rules_compile_word(c, part_of_word(word, k));
        *TABLE_PUSH(c, cells) = id;
      }
  return 0;
}

// ---- the head of a rule ---------------------------------------------------------------------------

static bool is_name_of_rule(struct span s) {
  for (size_t i = 0; i < s.n; i++) {
    const uint8_t x = s.at[i];
    const bool letter = (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || x == '{';
    if (!letter && (i == 0 || !strchr("0123456789_/}-", x))) return false;
  }
  return s.n > 0;
}

static int level_of(struct span word) {
  static const char *const signs[EXACTNESSES] = {"=", "=0", "~", "!"};
  for (int e = 0; e < EXACTNESSES; e++)
    if (span_is(word, exactness_name((enum exactness)e)) || span_is(word, signs[e])) return e;
  return -1;
}

// Where the head ends: the first ':' that is no part of '::' or of a text. NO_ID: there is none.
static uint32_t find_colon(const struct compile *c) {
  bool quoted = false;
  for (uint32_t i = 0; i < c->n_text; i++) {
    quoted ^= c->text[i] == '"';
    if (quoted || c->text[i] != ':') continue;
    if (i + 1 == c->n_text || c->text[i + 1] != ':') return i;
    i++;
  }
  return NO_ID;
}

static bool begins(const struct compile *c, uint32_t at, const char *word) {
  const size_t n = strlen(word);
  return c->n_text - at > n && memcmp(c->text + at, word, n) == 0 && c->text[at + n] == ' ';
}

struct head {
  struct piece names[VARS];
  uint32_t n_names;
  struct loop loops[LOOPS];
  uint32_t n_loops;
  int level;
};

static int read_head(struct compile *c, struct compile_rule *r, struct head *h, uint32_t end) {
  struct piece p = {0, end}, word;
  while (next_word(c, &p, &word)) {
    const struct span s = word_span(c, word);
    struct piece ahead = p, more;
    if (span_is(s, "for") && h->n_names > 0) {
      if (h->n_loops == LOOPS)
        return rules_compile_fail(c, place(c, word.at), "more than %d loops", LOOPS);
      // The level stands behind the words of the last loop.
      struct piece inside = {p.at, p.end}, last = word;
      for (struct piece q = p; next_word(c, &q, &more);)
        last = more;
      if (level_of(word_span(c, last)) >= 0) inside.end = last.at;
      if (read_loop(c, &inside, &h->loops[h->n_loops++])) return -1;
      p.at = inside.at;
    } else if (is_text(c, word)) {
      if (r->summary != NO_ID)
        return rules_compile_fail(c, place(c, word.at), "the rule has two summaries");
      r->summary = rules_compile_word(c, span_at(c, word.at + 1, word.end - 1));
    } else if (!next_word(c, &ahead, &more) && level_of(s) >= 0) {
      h->level = level_of(s);
    } else if (!is_name_of_rule(s) || h->n_names == VARS || h->n_loops > 0 || r->summary != NO_ID) {
      return rules_compile_fail(c, place(c, word.at), "'%s' is not a name", quote(s).s);
    } else {
      h->names[h->n_names++] = word;
    }
  }
  return 0;
}

// ---- tokens ---------------------------------------------------------------------------------------

static bool is_letter(uint8_t x) {
  return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || x == '_';
}

static bool is_digit(uint8_t x) {
  return x >= '0' && x <= '9';
}

// Length of {X} at i, else 0.
static uint32_t column_at(const struct compile *c, uint32_t i) {
  uint32_t end = i + 1;
  if (i >= c->n_text || c->text[i] != '{') return 0;
  while (end < c->n_text && (is_letter((uint8_t)c->text[end]) || is_digit((uint8_t)c->text[end])))
    end++;
  return end > i + 1 && end < c->n_text && c->text[end] == '}' ? end + 1 - i : 0;
}

static uint32_t name_at(const struct compile *c, uint32_t i) {
  uint32_t end = i, n;
  while (end < c->n_text) {
    const uint8_t x = (uint8_t)c->text[end];
    if (is_letter(x) || (end > i && is_digit(x)))
      end++;
    else if ((n = column_at(c, end)) > 0)
      end += n;
    else
      break;
  }
  return end - i;
}

static uint32_t number_at(const struct compile *c, uint32_t i) {
  uint32_t end = i;
  while (end < c->n_text && is_digit((uint8_t)c->text[end]))
    end++;
  if (end > i && end + 1 < c->n_text && c->text[end] == '.' && is_digit((uint8_t)c->text[end + 1]))
    for (end++; end < c->n_text && is_digit((uint8_t)c->text[end]);)
      end++;
  return end - i;
}

static uint32_t sign_at(const struct compile *c, uint32_t i) {
  static const char *const signs[] = {"->", "...", "::", "??", "==", "!=", "<=", ">="};
  for (uint32_t k = 0; k < sizeof signs / sizeof *signs; k++) {
    const uint32_t n = (uint32_t)strlen(signs[k]);
    if (c->n_text - i >= n && memcmp(c->text + i, signs[k], n) == 0) return n;
  }
  return 1;
}

static int make_tokens(struct compile *c, uint32_t from) {
  c->n_tokens = c->token = 0;
  for (uint32_t i = from; i < c->n_text;) {
    struct compile_token t = {.from = i};
    if (c->text[i] == ' ') {
      i++;
      continue;
    }
    if (c->text[i] == '"') {
      const char *end = memchr(c->text + i + 1, '"', c->n_text - i - 1);
      if (!end) return rules_compile_fail(c, place(c, i), "a text must end with '\"'");
      t.kind = TOKEN_TEXT, t.n = (uint32_t)(end + 1 - (c->text + i));
    } else if ((t.n = name_at(c, i)) > 0) {
      t.kind = TOKEN_NAME;
    } else if ((t.n = number_at(c, i)) > 0) {
      t.kind = TOKEN_NUMBER;
    } else {
      t.kind = TOKEN_SIGN, t.n = sign_at(c, i);
      uint32_t point;
      if ((uint8_t)c->text[i] >= 0x80)
        t.n = (uint32_t)utf8_length(span_at(c, i, c->n_text), &point);
    }
    *TABLE_PUSH(c, tokens) = t;
    i += t.n;
  }
  *TABLE_PUSH(c, tokens) = (struct compile_token){.from = c->n_text, .kind = TOKEN_END};
  return 0;
}

// ---- rules ----------------------------------------------------------------------------------------

// Statements come in order: lines are counted on from the last one.
static uint32_t line_of(struct compile *c, uint32_t at) {
  for (; c->counted < at; c->counted++)
    c->line += c->texts[c->file].text.at[c->counted] == '\n';
  return c->line;
}

// FAMILY/NAME, and without a set the family is one.
static int take_family(struct compile *c, struct compile_rule *r, struct piece name) {
  const struct span s = word_span(c, name);
  const uint8_t *slash = memchr(s.at, '/', s.n);
  const struct span family = span_of(s.at, slash ? (size_t)(slash - s.at) : s.n);
  if (!slash || slash + 1 == s.at + s.n || family.n == 0 || memchr(family.at, '{', family.n)) {
    rules_compile_fail(c, place(c, name.at), "'%s' has no family", quote(s).s);
    return err_hint(c->err, "name the rule FAMILY/NAME: mine/%s", quote(s).s);
  }
  if (r->n_keys > 0) return 0;
  const uint32_t id = rules_compile_word(c, family);
  r->keys = c->n_keys, r->n_keys = 1;
  *TABLE_PUSH(c, keys) = id;
  return 0;
}

// Each name is a pass, which others look for among all: of a template, those of all its rows.
static int count_passes(struct compile *c, const struct compile_rule *r, struct piece name) {
  const uint32_t names = compile_is_template(c, r->name) ? r->n_rows : 1;
  for (uint32_t row = 0; row < names; row++) {
    const uint32_t word = rules_compile_fill(c, r, row, r->name, place(c, name.at));
    if (word == NO_ID) return -1;
    if (c->n_named < c->n_words) TABLE_ADD(c, named, c->n_words - c->n_named);
    c->n_passes += !c->named[word];
    c->named[word] = true;
    if (c->n_passes <= COMPILE_PASSES) continue;
    rules_compile_fail(c, place(c, name.at), "there are more than %d names of rules",
                       COMPILE_PASSES);
    return err_hint(c->err, "rules of one name are one pass");
  }
  return 0;
}

static int read_rule(struct compile *c) {
  const uint32_t colon = find_colon(c);
  if (colon == NO_ID) return rules_compile_fail(c, place(c, 0), "a rule needs a ':'");
  struct compile_rule r = {.file = c->file,
                           .at = place(c, 0),
                           .keys = c->set,
                           .n_keys = c->n_set,
                           .summary = NO_ID,
                           .where = NO_ID};
  struct head h = {.level = -1};
  uint32_t body = colon + 1;
  while (body < c->n_text && c->text[body] == ' ')
    body++;
  const bool elsewhere = begins(c, body, "proc") || begins(c, body, "group");
  if (read_head(c, &r, &h, colon)) return -1;
  if (h.level < 0 && !elsewhere) {
    rules_compile_fail(
        c, place(c, colon),
        "the exactness of the rule is missing: write exact, zero, rounding or finite before the "
        "':'");
    return err_hint(c->err, "exact: the same bits for all inputs; zero: the same except -0 and "
                            "NaN payloads; rounding: the same up to rounding; finite: the same if "
                            "there is no NaN, infinity, zero divisor, or comparison that rounding "
                            "decides");
  }
  if (h.n_names == 0)
    return rules_compile_fail(c, place(c, 0), "'%s' is not a name", quote(span_at(c, 0, colon)).s);
  if (make_rows(c, &r, h.loops, h.n_loops)) return -1;
  if (elsewhere && c->naming.own)
    return rules_compile_fail(c, place(c, body),
                              "only rules are allowed here, not 'proc' or 'group'");
  if (elsewhere) return 0; // what is C has its own place
  if (h.n_names > 1) return rules_compile_fail(c, place(c, h.names[1].at), "a rule has one name");
  r.name = intern(c, h.names[0]);
  if (c->naming.own && (take_family(c, &r, h.names[0]) || count_passes(c, &r, h.names[0])))
    return -1;
  r.level = (uint8_t)h.level;
  r.line = line_of(c, r.at);
  r.text = arena_string(c->out, span_at(c, 0, c->n_text));
  r.place = arena_printf(c->out, "%s:%u", c->texts[c->file].name, r.line);
  *TABLE_PUSH(c, rules) = r;
  c->rule = &c->rules[c->n_rules - 1];
  if (make_tokens(c, body) || compile_trees_read(c)) return -1;
  c->rule = NULL;
  return 0;
}

int compile_text_read(struct compile *c, uint32_t file) {
  size_t i = 0;
  int more;
  c->file = file;
  c->counted = 0, c->line = 1;
  c->set = c->n_keys, c->n_set = 0;
  while ((more = next_statement(c, &i)) > 0) {
    if (c->n_text == 0) return rules_compile_fail(c, place(c, 0), "a statement is empty");
    struct piece p = {0, c->n_text}, word;
    next_word(c, &p, &word);
    int rc = 0;
    if (span_is(word_span(c, word), "ops"))
      rc = read_list(c, p);
    else if (span_is(word_span(c, word), "spell"))
      rc = read_spelling(c, p);
    else if (span_is(word_span(c, word), "set"))
      read_set(c, p);
    else
      rc = read_rule(c);
    if (rc) return -1;
  }
  return more;
}
