// The body of a rule as trees: PATTERN -> RESULT [where E] [mend E] [since N] [once].
//
// Recursive descent, one function for each level of binding, from what binds least: a term (what has a
// tensor as its value), a choice (|), both (&), a comparison, a sign before a primary. Depth is counted
// where a level begins anew (COMPILE_DEPTH), and chains, which are loops here, count as height of their
// tree (COMPILE_HEIGHT), so that whoever walks a tree later needs no such care.
#include "passes/rules/compile/inside/compile_inside.h"

#include <errno.h>
#include <stdlib.h>

// ---- tokens ---------------------------------------------------------------------------------------

static const struct compile_token *ahead(const struct compile *c, uint32_t k) {
  const uint32_t at = c->token + k;
  return &c->tokens[at < c->n_tokens ? at : c->n_tokens - 1];
}

static struct span word_of(const struct compile *c, const struct compile_token *t) {
  return span_of(c->text + t->from, t->n);
}

static struct span peek(const struct compile *c) {
  return word_of(c, ahead(c, 0));
}

static bool sees(const struct compile *c, uint32_t k, const char *word) {
  return span_is(word_of(c, ahead(c, k)), word);
}

static uint32_t here(const struct compile *c) {
  return c->where[ahead(c, 0)->from];
}

static struct span next(struct compile *c) {
  const struct span word = peek(c);
  if (c->token + 1 < c->n_tokens) c->token++;
  return word;
}

static bool eat(struct compile *c, const char *word) {
  if (!sees(c, 0, word)) return false;
  c->token++;
  return true;
}

// What stands before the token at hand, a few tokens of it.
static const char *behind(struct compile *c) {
  const char *text = "";
  for (uint32_t i = c->token > 4 ? c->token - 4 : 0; i < c->token; i++)
    text =
        arena_printf(&c->own, "%s%s%s", text, *text ? " " : "", quote(word_of(c, &c->tokens[i])).s);
  return text;
}

static int need(struct compile *c, const char *word) {
  if (eat(c, word)) return 0;
  const struct span found = peek(c);
  if (found.n == 0)
    return rules_compile_fail(c, here(c), "'%s' is expected before the end, after '%s'", word,
                              behind(c));
  return rules_compile_fail(c, here(c), "'%s' is expected before '%s', after '%s'", word,
                            quote(found).s, behind(c));
}

static bool is_small(uint8_t x) {
  return (x >= 'a' && x <= 'z') || x == '_';
}

static bool is_column(struct span s) {
  return s.n > 2 && s.at[0] == '{' && memchr(s.at, '}', s.n) == s.at + s.n - 1;
}

// A name without columns. NO_ID with an error.
static uint32_t name(struct compile *c) {
  const struct compile_token *t = ahead(c, 0);
  const struct span word = word_of(c, t);
  if (t->kind != TOKEN_NAME || memchr(word.at, '{', word.n)) {
    if (word.n == 0)
      rules_compile_fail(c, here(c), "a name is expected before the end");
    else
      rules_compile_fail(c, here(c), "a name is expected, not '%s'", quote(word).s);
    return NO_ID;
  }
  c->token++;
  return rules_compile_word(c, word);
}

// ---- trees ----------------------------------------------------------------------------------------

static uint32_t tree(struct compile *c, enum compile_kind kind, uint32_t at) {
  *TABLE_PUSH(c, trees) = (struct compile_tree){.kind = (uint8_t)kind,
                                                .height = 1,
                                                .at = at,
                                                .text = c->empty,
                                                .domain = c->empty,
                                                .other = NO_ID,
                                                .star = NO_ID,
                                                .key = NO_ID,
                                                .attrs = NO_ID,
                                                .first = NO_ID,
                                                .next = NO_ID};
  return c->n_trees - 1;
}

// Children are put behind each other: *last is the one before, NO_ID at first. NO_ID with an error if the
// tree becomes too high.
static int put(struct compile *c, uint32_t parent, uint32_t *last, uint32_t child) {
  struct compile_tree *p = &c->trees[parent];
  if (p->height <= c->trees[child].height) p->height = (uint8_t)(c->trees[child].height + 1u);
  if (p->height > COMPILE_HEIGHT)
    return rules_compile_fail(c, c->trees[child].at,
                              "the rule is nested or chained more than %d deep", COMPILE_HEIGHT);
  if (*last == NO_ID)
    p->first = child;
  else
    c->trees[*last].next = child;
  *last = child;
  return 0;
}

// A tree over up to three children; a child that is NO_ID is an error already.
static uint32_t over(struct compile *c, enum compile_kind kind, uint32_t at, uint32_t x, uint32_t y,
                     uint32_t z, uint32_t n) {
  const uint32_t children[] = {x, y, z};
  const uint32_t made = tree(c, kind, at);
  uint32_t last = NO_ID;
  for (uint32_t i = 0; i < n; i++)
    if (children[i] == NO_ID || put(c, made, &last, children[i])) return NO_ID;
  return made;
}

// One level deeper: false with an error where that is too deep.
static bool deeper(struct compile *c) {
  if (++c->depth <= COMPILE_DEPTH) return true;
  rules_compile_fail(c, here(c), "the rule is nested more than %d deep", COMPILE_DEPTH);
  return false;
}

static uint32_t shallower(struct compile *c, uint32_t made) {
  c->depth--;
  return made;
}

// The number that stands here.
static uint32_t number(struct compile *c, bool minus) {
  const struct span word = peek(c);
  const uint32_t made = tree(c, TREE_NUM, here(c));
  char digits[64];
  if (word.n >= sizeof digits - 1) {
    rules_compile_fail(c, here(c), "the number has more than %d digits", (int)sizeof digits - 2);
    return NO_ID;
  }
  digits[0] = '-';
  memcpy(digits + 1, word.at, word.n);
  digits[1 + word.n] = 0;
  struct compile_tree *t = &c->trees[made];
  t->real = memchr(word.at, '.', word.n) != NULL;
  if (t->real) {
    t->d = strtod(digits + !minus, NULL);
  } else {
    errno = 0;
    t->i = strtoll(digits + !minus, NULL, 10);
    if (errno) {
      rules_compile_fail(c, here(c), "%s does not fit in 64 bits", digits + !minus);
      return NO_ID;
    }
    t->d = (double)t->i;
  }
  next(c);
  return made;
}

bool compile_trees_is_literal(struct span s, bool sign) {
  if (sign && s.n > 0 && s.at[0] == '-') {
    s.at++, s.n--;
    if (span_is(s, "true") || span_is(s, "false") || span_is(s, "ones")) return false;
  }
  if (span_is(s, "inf") || span_is(s, "true") || span_is(s, "false") || span_is(s, "ones"))
    return true;
  size_t whole = 0, i;
  while (whole < s.n && s.at[whole] >= '0' && s.at[whole] <= '9')
    whole++;
  if (whole == 0) return false;
  if (whole == s.n) return true;
  for (i = whole + 1; i < s.n && s.at[i] >= '0' && s.at[i] <= '9';)
    i++;
  return s.at[whole] == '.' && i == s.n && i > whole + 1;
}

// In the order of the text. Depth is that of the tree: at most COMPILE_HEIGHT.
int compile_trees_walk(struct compile *c, uint32_t t,
                       int (*visit)(struct compile *c, uint32_t tree, void *ctx), void *ctx) {
  if (t == NO_ID) return 0;
  if (visit(c, t, ctx)) return -1;
  for (uint32_t a = c->trees[t].attrs; a != NO_ID; a = c->trees[a].next)
    if (compile_trees_walk(c, a, visit, ctx)) return -1;
  for (uint32_t child = c->trees[t].first; child != NO_ID; child = c->trees[child].next)
    if (compile_trees_walk(c, child, visit, ctx)) return -1;
  return 0;
}

// ---- operators ------------------------------------------------------------------------------------

static bool is_operator(const struct compile *c) {
  const struct span word = peek(c);
  if (ahead(c, 0)->kind != TOKEN_NAME) return false;
  if (sees(c, 1, "::")) return true;
  if (!sees(c, 1, "(") && !sees(c, 1, "<")) return false;
  return (word.at[0] >= 'A' && word.at[0] <= 'Z') || word.at[0] == '{';
}

// The word as a new name: @NAME. NO_ID with an error, or without one where none stands there.
static int output(struct compile *c, uint32_t t) {
  if (!eat(c, "@")) return 0;
  const uint32_t id = name(c);
  c->trees[t].other = id;
  return id == NO_ID ? -1 : 0;
}

static uint32_t text(struct compile *c) {
  const uint32_t made = tree(c, TREE_TEXT, here(c));
  const struct span word = next(c);
  const uint32_t id = rules_compile_word(c, span_of(word.at + 1, word.n - 2));
  c->trees[made].text = id;
  return made;
}

static uint32_t attribute_of_pattern(struct compile *c) {
  const uint32_t at = here(c);
  const bool minus = eat(c, "-");
  if (minus || ahead(c, 0)->kind == TOKEN_NUMBER) {
    if (ahead(c, 0)->kind != TOKEN_NUMBER) {
      rules_compile_fail(c, here(c), "a number is expected after '-', not '%s'", quote(peek(c)).s);
      return NO_ID;
    }
    const uint32_t made = number(c, minus);
    if (made == NO_ID || !c->trees[made].real) return made;
    rules_compile_fail(c, at,
                       "an attribute of a pattern is a whole number, a text, none or a name");
    err_hint(c->err, "name it and compare it in the condition: alpha=f … where f == 0.5");
    return NO_ID;
  }
  if (ahead(c, 0)->kind == TOKEN_TEXT) return text(c);
  const uint32_t id = name(c);
  if (id == NO_ID) return NO_ID;
  const uint32_t made = tree(c, id == c->none ? TREE_NONE : TREE_VAR, at);
  c->trees[made].text = id == c->none ? c->empty : id;
  return made;
}

static uint32_t unary(struct compile *c);
static uint32_t term(struct compile *c);
static uint32_t expression(struct compile *c);
static uint32_t pattern(struct compile *c);

// > ends the list, so a comparison needs parentheses here.
static uint32_t attribute_of_result(struct compile *c) {
  if (!deeper(c)) return NO_ID;
  const uint32_t at = here(c), e = unary(c);
  if (e == NO_ID || !eat(c, "if")) return shallower(c, e);
  const uint32_t condition = unary(c);
  if (condition == NO_ID || need(c, "else")) return NO_ID;
  return shallower(c, over(c, TREE_IFELSE, at, condition, e, unary(c), 3));
}

static int attribute(struct compile *c, uint32_t op, uint32_t *last,
                     uint32_t (*value)(struct compile *)) {
  const uint32_t at = here(c), key = name(c);
  if (key == NO_ID || need(c, "=")) return -1;
  for (uint32_t a = c->trees[op].attrs; a != NO_ID; a = c->trees[a].next)
    if (c->trees[a].key == key)
      return rules_compile_fail(c, at, "'%s' is there twice", compile_text_of(c, key));
  const uint32_t made = value(c);
  if (made == NO_ID) return -1;
  c->trees[made].key = key;
  struct compile_tree *t = &c->trees[op];
  if (t->height <= c->trees[made].height) t->height = (uint8_t)(c->trees[made].height + 1u);
  if (*last == NO_ID)
    t->attrs = made;
  else
    c->trees[*last].next = made;
  *last = made;
  return 0;
}

// An operator up to the '(' before its operands.
static uint32_t operator(struct compile *c, uint32_t (*value)(struct compile *)) {
  const uint32_t op = tree(c, TREE_OP, here(c));
  uint32_t word = rules_compile_word(c, next(c)), last = NO_ID;
  if (eat(c, "::")) {
    c->trees[op].domain = word;
    c->trees[op].at = here(c);
    if (ahead(c, 0)->kind != TOKEN_NAME) {
      rules_compile_fail(c, here(c), "an operator is expected after '::'");
      return NO_ID;
    }
    word = rules_compile_word(c, next(c));
  }
  c->trees[op].text = word;
  if (eat(c, "<"))
    while (!eat(c, ">")) {
      if (eat(c, "*")) {
        const uint32_t star = ahead(c, 0)->kind == TOKEN_NAME ? name(c) : c->star;
        if (star == NO_ID) return NO_ID;
        c->trees[op].star = star;
      } else if (attribute(c, op, &last, value)) {
        return NO_ID;
      }
      if (!sees(c, 0, ">") && need(c, ",")) return NO_ID;
    }
  return need(c, "(") ? NO_ID : op;
}

// ---- patterns -------------------------------------------------------------------------------------

static uint32_t alternatives(struct compile *c) {
  const uint32_t made = tree(c, TREE_ALT, here(c));
  uint32_t last = NO_ID, n = 0;
  next(c);
  do {
    const uint32_t choice = pattern(c);
    if (choice == NO_ID || put(c, made, &last, choice)) return NO_ID;
    if (++n > UINT8_MAX) {
      rules_compile_fail(c, here(c), "more than %d alternatives", UINT8_MAX);
      return NO_ID;
    }
  } while (eat(c, "|"));
  return need(c, ")") ? NO_ID : made;
}

static uint32_t literal(struct compile *c) {
  const uint32_t made = tree(c, TREE_LIT, here(c));
  const bool minus = eat(c, "-");
  const struct span word = next(c);
  char spelt[80];
  if (word.n > sizeof spelt - 2) {
    rules_compile_fail(c, c->trees[made].at, "'%s' is not a number", quote(word).s);
    return NO_ID;
  }
  spelt[0] = '-';
  memcpy(spelt + 1, word.at, word.n);
  const uint32_t id = rules_compile_word(c, span_of(spelt + !minus, word.n + minus));
  c->trees[made].text = id;
  return output(c, made) ? NO_ID : made;
}

static uint32_t operand(struct compile *c) {
  if (!sees(c, 0, "each") || !sees(c, 2, ":")) return pattern(c);
  const uint32_t at = here(c);
  next(c);
  const uint32_t id = name(c);
  if (id == NO_ID || need(c, ":")) return NO_ID;
  const uint32_t made = over(c, TREE_EACH, at, pattern(c), 0, 0, 1);
  if (made != NO_ID) c->trees[made].text = id;
  return made;
}

static uint32_t operator_of_pattern(struct compile *c) {
  const uint32_t op = operator(c, attribute_of_pattern);
  uint32_t last = NO_ID;
  while (op != NO_ID && !eat(c, ")")) {
    if (last != NO_ID && (c->trees[last].kind == TREE_REST || c->trees[last].kind == TREE_EACH)) {
      rules_compile_fail(c, c->trees[last].at, "only the last operand may be 'xs...' or 'each'");
      return NO_ID;
    }
    const uint32_t child = operand(c);
    if (child == NO_ID || put(c, op, &last, child)) return NO_ID;
    if (!sees(c, 0, ")") && need(c, ",")) return NO_ID;
  }
  return op == NO_ID || output(c, op) ? NO_ID : op;
}

static uint32_t variable(struct compile *c) {
  const struct compile_token *t = ahead(c, 0);
  const struct span word = word_of(c, t);
  const uint32_t at = here(c);
  if (is_column(word)) return literal(c);
  if (t->kind != TOKEN_NAME || !is_small(word.at[0]) || memchr(word.at, '{', word.n)) {
    if (word.n == 0)
      rules_compile_fail(c, at, "the rule ends too early");
    else
      rules_compile_fail(c, at, "'%s' is not allowed in a pattern", quote(word).s);
    if (word.n && word.at[0] >= 'A' && word.at[0] <= 'Z')
      err_hint(c->err, "names of values begin with a small letter; operators have parentheses");
    return NO_ID;
  }
  const uint32_t made = tree(c, TREE_VAR, at);
  const uint32_t id = rules_compile_word(c, next(c));
  struct compile_tree *v = &c->trees[made];
  if (span_is(c->words[id], "_"))
    v->kind = TREE_ANY;
  else
    v->text = id, v->kind = eat(c, "...") ? TREE_REST : eat(c, "?") ? TREE_OPT : TREE_VAR;
  return made;
}

static uint32_t pattern(struct compile *c) {
  if (!deeper(c)) return NO_ID;
  const uint32_t made = sees(c, 0, "(") ? alternatives(c)
                        : sees(c, 0, "-") || compile_trees_is_literal(peek(c), false) ? literal(c)
                        : is_operator(c) ? operator_of_pattern(c)
                                         : variable(c);
  return shallower(c, made);
}

// ---- expressions ----------------------------------------------------------------------------------

// Up to the closing sign, commas between them.
static int list_of(struct compile *c, uint32_t parent, const char *close,
                   uint32_t (*one)(struct compile *)) {
  uint32_t last = NO_ID;
  while (!eat(c, close)) {
    const uint32_t child = one(c);
    if (child == NO_ID || put(c, parent, &last, child)) return -1;
    if (!sees(c, 0, close) && need(c, ",")) return -1;
  }
  return 0;
}

static uint32_t primary(struct compile *c) {
  const struct compile_token *t = ahead(c, 0);
  const struct span word = word_of(c, t);
  const uint32_t at = here(c);
  uint32_t made;
  if (eat(c, "(")) {
    made = expression(c);
    return made == NO_ID || need(c, ")") ? NO_ID : made;
  }
  if (eat(c, "[")) {
    made = tree(c, TREE_LIST, at);
    return list_of(c, made, "]", expression) ? NO_ID : made;
  }
  if (is_operator(c)) {
    made = operator(c, attribute_of_result);
    return made == NO_ID || list_of(c, made, ")", term) ? NO_ID : made;
  }
  if (t->kind == TOKEN_TEXT) return text(c);
  if (t->kind == TOKEN_NUMBER) return number(c, false);
  const bool column = t->kind == TOKEN_NAME && is_column(word);
  if (t->kind != TOKEN_NAME ||
      (!column && (!is_small(word.at[0]) || memchr(word.at, '{', word.n)))) {
    if (word.n == 0)
      rules_compile_fail(c, at, "the rule ends too early");
    else
      rules_compile_fail(c, at, "'%s' is not expected here", quote(word).s);
    return NO_ID;
  }
  const bool literal_word = column || compile_trees_is_literal(word, false);
  const uint32_t id = rules_compile_word(c, next(c));
  const bool call = !literal_word && eat(c, "(");
  made = tree(c, literal_word ? TREE_WORD : call ? TREE_CALL : TREE_NAME, at);
  c->trees[made].text = id;
  return call && list_of(c, made, ")", term) ? NO_ID : made;
}

// Behind the '['.
static uint32_t brackets(struct compile *c, uint32_t e) {
  const uint32_t at = c->trees[e].at;
  const bool has_start = !sees(c, 0, ":");
  const uint32_t first = has_start ? expression(c) : e;
  if (first == NO_ID) return NO_ID;
  if (has_start && eat(c, "]")) return over(c, TREE_INDEX, at, e, first, 0, 2);
  if (need(c, ":")) return NO_ID;
  const bool has_end = !sees(c, 0, "]");
  const uint32_t end = has_end ? expression(c) : e;
  if (end == NO_ID || need(c, "]")) return NO_ID;
  const uint32_t made =
      over(c, TREE_SLICE, at, e, has_start ? first : end, end, 1u + has_start + has_end);
  if (made != NO_ID) c->trees[made].how = (uint8_t)(has_start | has_end << 1);
  return made;
}

static uint32_t suffixed(struct compile *c, uint32_t e) {
  while (e != NO_ID) {
    const uint32_t at = here(c);
    if (eat(c, "[")) {
      e = brackets(c, e);
    } else if (eat(c, ".")) {
      if (c->trees[e].kind != TREE_NAME) {
        rules_compile_fail(c, at, "only an element of 'each' has fields");
        return NO_ID;
      }
      const uint32_t made = tree(c, TREE_FIELD, c->trees[e].at), field = name(c);
      c->trees[made].text = c->trees[e].text;
      c->trees[made].other = field;
      e = field == NO_ID ? NO_ID : made;
    } else if (eat(c, "@")) {
      const uint32_t id = name(c), made = id == NO_ID ? NO_ID : over(c, TREE_SET, at, e, 0, 0, 1);
      if (made != NO_ID) c->trees[made].text = id;
      e = made;
    } else {
      break;
    }
  }
  return e;
}

static uint32_t signed_number(struct compile *c, uint32_t at) {
  if (eat(c, "inf")) {
    const uint32_t made = tree(c, TREE_WORD, at);
    const uint32_t id = rules_compile_word(c, span_str("-inf"));
    c->trees[made].text = id;
    return made;
  }
  if (ahead(c, 0)->kind != TOKEN_NUMBER) {
    rules_compile_fail(c, here(c), "a number is expected after '-', not '%s'", quote(peek(c)).s);
    return NO_ID;
  }
  return number(c, true);
}

static uint32_t unary(struct compile *c) {
  const uint32_t at = here(c);
  if (!deeper(c)) return NO_ID;
  if (eat(c, "!")) return shallower(c, over(c, TREE_NOT, at, unary(c), 0, 0, 1));
  if (eat(c, "-")) return shallower(c, signed_number(c, at));
  if (eat(c, "#")) return shallower(c, over(c, TREE_INTS, at, unary(c), 0, 0, 1));
  if (eat(c, "*")) {
    const uint32_t made = tree(c, TREE_SPLAT, at), id = name(c);
    c->trees[made].text = id == NO_ID ? c->empty : id;
    return shallower(c, id == NO_ID ? NO_ID : made);
  }
  return shallower(c, suffixed(c, primary(c)));
}

// x is y, x is not y: the function `is` between its operands.
static uint32_t identity(struct compile *c, uint32_t e) {
  const uint32_t at = here(c);
  next(c);
  const bool is_not = eat(c, "not");
  const uint32_t made = over(c, TREE_CALL, at, e, unary(c), 0, 2);
  if (made == NO_ID) return NO_ID;
  const uint32_t id = rules_compile_word(c, span_str("is"));
  c->trees[made].text = id;
  return is_not ? over(c, TREE_NOT, at, made, 0, 0, 1) : made;
}

static uint32_t comparison(struct compile *c) {
  const uint32_t e = unary(c), at = here(c);
  if (e == NO_ID) return NO_ID;
  const bool is_not = sees(c, 0, "not") && sees(c, 1, "in");
  if (is_not) next(c);
  for (uint32_t how = 0; how < sizeof compile_comparisons / sizeof *compile_comparisons; how++)
    if (eat(c, compile_comparisons[how])) {
      const uint32_t made = over(c, TREE_CMP, at, e, unary(c), 0, 2);
      if (made == NO_ID) return NO_ID;
      c->trees[made].how = (uint8_t)how;
      return is_not ? over(c, TREE_NOT, at, made, 0, 0, 1) : made;
    }
  return sees(c, 0, "is") ? identity(c, e) : e;
}

static uint32_t both(struct compile *c) {
  uint32_t e = comparison(c);
  for (uint32_t at = here(c); e != NO_ID && eat(c, "&"); at = here(c))
    e = over(c, TREE_AND, at, e, comparison(c), 0, 2);
  return e;
}

static uint32_t choice(struct compile *c) {
  uint32_t e = both(c);
  for (uint32_t at = here(c); e != NO_ID && eat(c, "|"); at = here(c))
    e = over(c, TREE_OR, at, e, both(c), 0, 2);
  return e;
}

static uint32_t expression(struct compile *c) {
  if (!deeper(c)) return NO_ID;
  const uint32_t e = choice(c), at = here(c);
  if (e == NO_ID) return NO_ID;
  if (eat(c, "?")) {
    const uint32_t yes = term(c);
    if (yes == NO_ID || need(c, ":")) return NO_ID;
    return shallower(c, over(c, TREE_IFELSE, at, e, yes, term(c), 3));
  }
  if (eat(c, "if")) {
    const uint32_t condition = choice(c);
    if (condition == NO_ID || need(c, "else")) return NO_ID;
    return shallower(c, over(c, TREE_IFELSE, at, condition, e, expression(c), 3));
  }
  if (eat(c, "??")) return shallower(c, over(c, TREE_ELSE, at, e, term(c), 0, 2));
  return shallower(c, e);
}

static uint32_t term(struct compile *c) {
  if (!sees(c, 0, "each")) return expression(c);
  if (!deeper(c)) return NO_ID;
  const uint32_t at = here(c);
  next(c);
  const uint32_t id = name(c);
  if (id == NO_ID || need(c, "in")) return NO_ID;
  const uint32_t of = name(c);
  if (of == NO_ID || need(c, ":")) return NO_ID;
  const uint32_t made = over(c, TREE_FOR, at, term(c), 0, 0, 1);
  if (made == NO_ID) return NO_ID;
  c->trees[made].text = id, c->trees[made].other = of;
  return shallower(c, made);
}

// ---- the body -------------------------------------------------------------------------------------

static int conditions(struct compile *c) {
  static const char *const words[] = {"where", "mend"};
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t at = here(c);
    if (!eat(c, words[i])) continue;
    uint32_t e = expression(c);
    if (e != NO_ID && c->rule->where != NO_ID) e = over(c, TREE_AND, at, c->rule->where, e, 0, 2);
    if (e == NO_ID) return -1;
    c->rule->where = e;
  }
  return 0;
}

int compile_trees_read(struct compile *c) {
  const uint32_t at = here(c);
  c->depth = 0;
  c->rule->pattern = pattern(c);
  if (c->rule->pattern == NO_ID) return -1;
  if (c->trees[c->rule->pattern].kind != TREE_OP)
    return rules_compile_fail(c, at, "a pattern begins with an operator");
  if (need(c, "->")) return -1;
  c->rule->result = term(c);
  if (c->rule->result == NO_ID || conditions(c)) return -1;
  if (eat(c, "since")) {
    uint64_t since;
    if (!span_decimal(peek(c), &since) || since == 0 || since > UINT8_MAX)
      return rules_compile_fail(c, here(c), "'since' must be followed by the number of an opset");
    c->rule->since = (uint8_t)since;
    next(c);
  }
  c->rule->once = eat(c, "once");
  const struct span rest = peek(c);
  return rest.n ? rules_compile_fail(c, here(c), "'%s' is not expected here", quote(rest).s) : 0;
}
