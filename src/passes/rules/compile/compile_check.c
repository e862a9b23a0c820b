// Whether a rule makes sense, one rule alone: every name is bound by the pattern, every argument is of
// the kind that its function takes, every operator, function and literal exists in every row.
//
// Kinds are letters: v tensor · V several tensors · E the elements of an 'each' · e one of them ·
// a attribute (number, list or text) · i number · l list · b truth · w literal · s text · t a tensor that
// is built. What the evaluator does with an operand of a wrong kind is defined (it gives "unknown"), so
// this is for people: a rule that could never fire is an error and not silence.
#include "passes/rules/compile/inside/compile_inside.h"

#include "base/guess.h"

// ---- names ----------------------------------------------------------------------------------------

uint32_t compile_check_name(const struct compile *c, uint32_t name, bool star, uint8_t owner) {
  const struct compile_name *names = c->bound + c->rule->names;
  for (uint32_t i = 0; i < c->rule->n_names; i++)
    if (names[i].name == name && (names[i].kind == '*') == star && names[i].owner == owner)
      return i;
  return NO_ID;
}

static int bind_name(struct compile *c, uint32_t at, uint32_t name, char kind, uint8_t owner) {
  const uint32_t known = compile_check_name(c, name, kind == '*', owner);
  if (known != NO_ID) {
    if (c->bound[c->rule->names + known].kind == kind && kind != 'E') return 0;
    return rules_compile_fail(c, at, "'%s' is used for two kinds of things",
                              compile_text_of(c, name));
  }
  if (c->rule->n_names == COMPILE_NAMES)
    return rules_compile_fail(c, at, "a rule may have %d names", RULES_REGISTERS);
  *TABLE_PUSH(c, bound) = (struct compile_name){.name = name, .kind = kind, .owner = owner};
  c->rule->n_names++;
  return 0;
}

static int bind_pattern(struct compile *c, uint32_t tree, uint8_t owner);

static int bind_operator(struct compile *c, const struct compile_tree *t, uint8_t owner) {
  for (uint32_t a = t->attrs; a != NO_ID; a = c->trees[a].next)
    if (c->trees[a].kind == TREE_VAR && bind_name(c, c->trees[a].at, c->trees[a].text, 'a', owner))
      return -1;
  if (t->star != NO_ID && bind_name(c, t->at, t->star, '*', owner)) return -1;
  uint32_t n = 0;
  for (uint32_t x = t->first; x != NO_ID; x = c->trees[x].next, n++) {
    const bool many = c->trees[x].kind == TREE_REST || c->trees[x].kind == TREE_EACH;
    if (many && n > 0)
      return rules_compile_fail(c, c->trees[x].at,
                                "an operand 'xs...' or 'each' must be the only operand");
    if (n == COMPILE_OPERANDS)
      return rules_compile_fail(c, c->trees[x].at, "a pattern's operator has at most %d operands",
                                COMPILE_OPERANDS);
    if (bind_pattern(c, x, owner)) return -1;
  }
  return t->other == NO_ID ? 0 : bind_name(c, t->at, t->other, 'v', owner);
}

static int bind_pattern(struct compile *c, uint32_t tree, uint8_t owner) {
  const struct compile_tree t = c->trees[tree];
  switch ((enum compile_kind)t.kind) {
  case TREE_VAR:
  case TREE_OPT: return bind_name(c, t.at, t.text, 'v', owner);
  case TREE_LIT: return t.other == NO_ID ? 0 : bind_name(c, t.at, t.other, 'v', owner);
  case TREE_REST: return bind_name(c, t.at, t.text, 'V', owner);
  case TREE_OP: return bind_operator(c, &t, owner);
  case TREE_EACH:
    if (owner != COMPILE_TOP) return rules_compile_fail(c, t.at, "'each' cannot be nested");
    if (bind_name(c, t.at, t.text, 'E', owner)) return -1;
    return bind_pattern(c, t.first, (uint8_t)(c->rule->n_names - 1));
  default:
    for (uint32_t x = t.first; x != NO_ID; x = c->trees[x].next)
      if (bind_pattern(c, x, owner)) return -1;
    return 0;
  }
}

static int refuse_name(struct compile *c, uint32_t at, uint32_t name, uint8_t owner) {
  struct guess g = guess_start(compile_text_of(c, name));
  for (uint32_t i = 0; i < c->rule->n_names; i++) {
    const struct compile_name *n = &c->bound[c->rule->names + i];
    if (n->owner == owner && n->kind != '*') guess_try(&g, compile_text_of(c, n->name));
  }
  rules_compile_fail(c, at, "'%s' is not bound by the pattern%s", compile_text_of(c, name),
                     owner == COMPILE_TOP ? "" : " of 'each'");
  return g.best ? err_hint(c->err, "did you mean '%s'?", g.best) : -1;
}

// ---- words for messages ---------------------------------------------------------------------------

static const char *kind_words(char kind) {
  switch (kind) {
  case 'v':
  case 't': return "a tensor";
  case 'V': return "several tensors";
  case 'E': return "a list of 'each'";
  case 'e': return "an element of 'each'";
  case 'a': return "an attribute";
  case 'i': return "a number";
  case 'l': return "a list";
  case 'b': return "a condition";
  case 'w': return "a literal";
  case 's': return "a text";
  default: return "anything";
  }
}

// An expression as a user may have written it: short ones; "..." for others.
static const char *show(struct compile *c, uint32_t tree, uint32_t depth) {
  const struct compile_tree *t = &c->trees[tree];
  struct arena *a = &c->own;
  const char *text = compile_text_of(c, t->text), *list = "";
  if (depth == 3) return "...";
  switch ((enum compile_kind)t->kind) {
  case TREE_NAME:
  case TREE_SPLAT:
  case TREE_WORD: return text;
  case TREE_TEXT: return arena_printf(a, "\"%s\"", text);
  case TREE_NUM:
    return t->real ? arena_printf(a, "%g", t->d) : arena_printf(a, "%s", integer(t->i).s);
  case TREE_FIELD: return arena_printf(a, "%s.%s", text, compile_text_of(c, t->other));
  case TREE_CMP:
    return arena_printf(a, "%s %s %s", show(c, t->first, depth + 1), compile_comparisons[t->how],
                        show(c, c->trees[t->first].next, depth + 1));
  case TREE_CALL:
  case TREE_OP:
  case TREE_LIST:
    for (uint32_t x = t->first, n = 0; x != NO_ID && n < 8; x = c->trees[x].next, n++)
      list = arena_printf(a, "%s%s%s", list, n ? "," : "", show(c, x, depth + 1));
    return t->kind == TREE_LIST ? arena_printf(a, "[%s]", list)
                                : arena_printf(a, "%s(%s)", text, list);
  default: return "...";
  }
}

// ---- kinds ----------------------------------------------------------------------------------------

// Which kinds fit where that letter is wanted.
static bool fits(char found, char wanted) {
  switch (wanted) {
  case 'v': return found == 'v';
  case 'V': return found == 'v' || found == 'V';
  case 't': return found == 'v' || found == 't';
  case 'a': return strchr("ailbws", found) != NULL;
  case 'i': return strchr("aib", found) != NULL;
  case 'l': return strchr("al", found) != NULL;
  case 'b': return strchr("ailbvte", found) != NULL;
  case 'w': return strchr("aiw", found) != NULL;
  case 's': return strchr("as", found) != NULL;
  case 'E': return found == 'E';
  default: return true;
  }
}

static char kind_of(struct compile *c, uint32_t tree); // 0 with an error

static int want(struct compile *c, uint32_t tree, char wanted) {
  const char found = kind_of(c, tree);
  if (!found) return -1;
  if (fits(found, wanted)) return 0;
  const char *shown = show(c, tree, 0);
  rules_compile_fail(c, c->trees[tree].at, "'%s' is %s, but %s is needed", shown, kind_words(found),
                     kind_words(wanted));
  if (wanted != 't' || !strchr("iw", found)) return -1;
  return err_hint(c->err, "like(%s,x) is a constant of the type of x", shown);
}

// All children, from the first on, as that.
static int want_all(struct compile *c, uint32_t first, char wanted) {
  for (uint32_t x = first; x != NO_ID; x = c->trees[x].next)
    if (want(c, x, wanted)) return -1;
  return 0;
}

static char kind_of_name(struct compile *c, const struct compile_tree *t) {
  if (c->loop.name == t->text) return c->loop.kind;
  if (t->text == c->none) return 'a';
  const uint32_t known = compile_check_name(c, t->text, false, COMPILE_TOP);
  if (known == NO_ID) {
    refuse_name(c, t->at, t->text, COMPILE_TOP);
    return 0;
  }
  return c->bound[c->rule->names + known].kind;
}

static char kind_of_field(struct compile *c, const struct compile_tree *t) {
  if (c->loop.name != t->text || c->loop.kind != 'e') {
    rules_compile_fail(c, t->at, "'%s' is not an element of 'each'", compile_text_of(c, t->text));
    return 0;
  }
  const uint32_t known = compile_check_name(c, t->other, false, c->loop.of);
  if (known != NO_ID) return c->bound[c->rule->names + known].kind;
  refuse_name(c, t->at, t->other, c->loop.of);
  return 0;
}

static bool are_kinds(char a, char b, const char *kinds) {
  return strchr(kinds, a) && strchr(kinds, b);
}

static char kind_of_comparison(struct compile *c, uint32_t tree) {
  const struct compile_tree t = c->trees[tree];
  const char a = kind_of(c, t.first), b = a ? kind_of(c, c->trees[t.first].next) : 0;
  if (!b) return 0;
  if (are_kinds(a, b, "ailbws") && (t.how != 6 || strchr("al", b))) return 'b';
  rules_compile_fail(c, t.at, "'%s' compares values that cannot be compared", show(c, tree, 0));
  if (are_kinds(a, b, "vt"))
    err_fill_hint(c->err, "'x is y' and 'x is not y' compare two names of values");
  return 0;
}

static char kind_of_choice(struct compile *c, const struct compile_tree *t) {
  if (want(c, t->first, 'b')) return 0;
  const uint32_t yes = c->trees[t->first].next, no = c->trees[yes].next;
  const char a = kind_of(c, yes), b = a ? kind_of(c, no) : 0;
  if (!b || a == b) return b;
  if (are_kinds(a, b, "vt")) return 't';
  if (are_kinds(a, b, "ailbws")) return 'a';
  rules_compile_fail(c, t->at, "'%s' and '%s' are of different kinds", show(c, yes, 0),
                     show(c, no, 0));
  return 0;
}

static char kind_of_loop(struct compile *c, const struct compile_tree *t) {
  if (c->loop.name != NO_ID) {
    rules_compile_fail(c, t->at, "'each' cannot be nested");
    return 0;
  }
  const uint32_t of = compile_check_name(c, t->other, false, COMPILE_TOP);
  const char kind = of == NO_ID ? 0 : c->bound[c->rule->names + of].kind;
  if (of == NO_ID) {
    refuse_name(c, t->at, t->other, COMPILE_TOP);
    return 0;
  }
  if (kind != 'V' && kind != 'E') {
    rules_compile_fail(c, t->at, "'%s' is not a list of operands", compile_text_of(c, t->other));
    return 0;
  }
  c->loop.name = t->text, c->loop.kind = kind == 'V' ? 'v' : 'e', c->loop.of = (uint8_t)of;
  const int rc = want(c, t->first, 't');
  c->loop.name = NO_ID;
  return rc ? 0 : 't';
}

static char kind_of_operator(struct compile *c, const struct compile_tree *t) {
  uint32_t n = 0;
  for (uint32_t a = t->attrs; a != NO_ID; a = c->trees[a].next) {
    if (want(c, a, 'a')) return 0;
    if (++n > COMPILE_ATTRIBUTES) {
      rules_compile_fail(c, c->trees[a].at, "a rule makes nodes with at most %d attributes",
                         COMPILE_ATTRIBUTES);
      return 0;
    }
  }
  if (t->star != NO_ID && compile_check_name(c, t->star, true, COMPILE_TOP) == NO_ID) {
    const char *star = t->star == c->star ? "" : compile_text_of(c, t->star);
    rules_compile_fail(c, t->at, "'<*%s>' is not bound by the pattern", star);
    return 0;
  }
  return want_all(c, t->first, 't') ? 0 : 't';
}

static char kind_of_call(struct compile *c, const struct compile_tree *t) {
  const uint32_t f = rules_compile_function(c, t->text);
  const char *name = compile_text_of(c, t->text);
  if (f == NO_ID) {
    struct guess g = guess_start(name);
    for (uint32_t i = 0; rules_compile_functions[i].name; i++)
      guess_try(&g, rules_compile_functions[i].name);
    rules_compile_fail(c, t->at, "there is no function '%s'", name);
    if (g.best) err_fill_hint(c->err, "did you mean '%s'?", g.best);
    return 0;
  }
  const char *takes = rules_compile_functions[f].takes;
  const bool many = str_ends(takes, "+");
  const uint32_t least = (uint32_t)strlen(takes) - many;
  uint32_t n = 0;
  for (uint32_t x = t->first; x != NO_ID; x = c->trees[x].next)
    n++;
  if (n < least || (n > least && !many)) {
    rules_compile_fail(c, t->at, "'%s' takes %u%s argument%s, not %u", name, least,
                       many ? " or more" : "", many ? "s" : plural(least), n);
    return 0;
  }
  n = 0;
  for (uint32_t x = t->first; x != NO_ID; x = c->trees[x].next, n++)
    if (want(c, x, takes[n < least ? n : least - 1])) return 0;
  return rules_compile_functions[f].gives[0];
}

static char kind_of_set(struct compile *c, const struct compile_tree *t) {
  if (c->in_where || c->loop.name != NO_ID) {
    rules_compile_fail(c, t->at, "a name cannot be given in %s",
                       c->in_where ? "a condition" : "an 'each'");
    return 0;
  }
  if (want(c, t->first, 't') || bind_name(c, t->at, t->text, 'v', COMPILE_TOP)) return 0;
  return 't';
}

static char kind_of(struct compile *c, uint32_t tree) {
  const struct compile_tree t = c->trees[tree];
  switch ((enum compile_kind)t.kind) {
  case TREE_NAME:
  case TREE_SPLAT: return kind_of_name(c, &t);
  case TREE_NUM: return 'i';
  case TREE_WORD: return 'w';
  case TREE_TEXT: return 's';
  case TREE_LIST: return want_all(c, t.first, 'i') ? 0 : 'l';
  case TREE_FIELD: return kind_of_field(c, &t);
  case TREE_NOT:
  case TREE_AND:
  case TREE_OR: return want_all(c, t.first, 'b') ? 0 : 'b';
  case TREE_CMP: return kind_of_comparison(c, tree);
  case TREE_INDEX:
  case TREE_SLICE:
    if (want(c, t.first, 'l') || want_all(c, c->trees[t.first].next, 'i')) return 0;
    return t.kind == TREE_INDEX ? 'a' : 'l';
  case TREE_IFELSE: return kind_of_choice(c, &t);
  case TREE_ELSE:
    if (want(c, t.first, 'v') || want(c, c->trees[t.first].next, 't')) return 0;
    return 't';
  case TREE_INTS: return want(c, t.first, 'l') ? 0 : 't';
  case TREE_SET: return kind_of_set(c, &t);
  case TREE_FOR: return kind_of_loop(c, &t);
  case TREE_OP: return kind_of_operator(c, &t);
  case TREE_CALL: return kind_of_call(c, &t);
  default: rules_compile_fail(c, t.at, "this is not allowed here"); return 0;
  }
}

// ---- rows -----------------------------------------------------------------------------------------

static int refuse_operator(struct compile *c, const struct compile_tree *t, uint32_t name) {
  const char *domain = compile_text_of(c, t->domain), *op = compile_text_of(c, name);
  struct guess g = guess_start(arena_printf(&c->own, "%s%s%s", domain, *domain ? "_" : "", op));
  for (uint32_t i = OP_NONE + 1; i < OPS; i++)
    guess_try(&g, rules_compile_ops[i].id);
  rules_compile_fail(c, t->at, "there is no operator '%s%s%s'", domain, *domain ? "::" : "",
                     quote_str(op).s);
  if (!g.best) return -1;
  const char *low = strchr(g.best, '_');
  return low ? err_hint(c->err, "did you mean '%.*s::%s'?", (int)(low - g.best), g.best, low + 1)
             : err_hint(c->err, "did you mean '%s'?", g.best);
}

static int refuse_literal(struct compile *c, const struct compile_tree *t, uint32_t word) {
  return rules_compile_fail(c, t->at, "'%s' is not a number, inf, true, false or ones",
                            quote(c->words[word]).s);
}

// A whole number of a literal must fit.
static bool is_too_large(struct span s) {
  uint64_t n;
  if (s.n > 0 && s.at[0] == '-') s.at++, s.n--;
  const bool digits = s.n > 0 && s.at[0] >= '0' && s.at[0] <= '9' && !memchr(s.at, '.', s.n);
  return digits && !span_decimal(s, &n);
}

// As many operands as the operator has, where they do not stand for many.
static int check_operands(struct compile *c, const struct compile_tree *t, enum op op) {
  const struct compile_op *o = &rules_compile_ops[op];
  uint32_t n = 0;
  for (uint32_t x = t->first; x != NO_ID; x = c->trees[x].next, n++) {
    const uint8_t kind = c->trees[x].kind;
    if (kind == TREE_REST || kind == TREE_EACH || kind == TREE_FOR) return 0;
  }
  if (n >= o->least && (o->most == KIT_ANY || n <= o->most)) return 0;
  const uint32_t bound = n < o->least ? o->least : o->most;
  return rules_compile_fail(c, t->at, "'%s' takes %s%u operand%s, not %u", o->name,
                            o->least == o->most ? ""
                            : n < o->least      ? "at least "
                                                : "at most ",
                            bound, plural(bound), n);
}

static int check_row(struct compile *c, uint32_t row, uint32_t tree) {
  const struct compile_tree t = c->trees[tree];
  const uint32_t word = rules_compile_fill(c, c->rule, row, t.text, t.at);
  if (word == NO_ID) return -1;
  if (t.kind == TREE_OP) {
    const enum op op = rules_compile_op(c, t.domain, word);
    return op == OP_NONE ? refuse_operator(c, &t, word) : check_operands(c, &t, op);
  }
  if (!compile_trees_is_literal(c->words[word], true)) return refuse_literal(c, &t, word);
  return is_too_large(c->words[word])
             ? rules_compile_fail(c, t.at, "%s does not fit in 64 bits", quote(c->words[word]).s)
             : 0;
}

static int check_rows(struct compile *c, uint32_t tree, void *ctx) {
  (void)ctx;
  const struct compile_tree *t = &c->trees[tree];
  if (t->kind != TREE_OP && t->kind != TREE_LIT && t->kind != TREE_WORD) return 0;
  const uint32_t rows = compile_is_template(c, t->text) ? c->rule->n_rows : 1;
  for (uint32_t row = 0; row < rows; row++)
    if (!compile_step(c) || check_row(c, row, tree)) return compile_terms_exhausted(c);
  return 0;
}

int compile_check(struct compile *c) {
  struct compile_rule *r = c->rule;
  r->names = c->n_bound, r->n_names = 0;
  c->loop.name = NO_ID;
  if (bind_pattern(c, r->pattern, COMPILE_TOP)) return -1;
  c->in_where = true;
  if (r->where != NO_ID && want(c, r->where, 'b')) return -1;
  c->in_where = false;
  if (want(c, r->result, 't')) return -1;
  const uint32_t trees[] = {r->pattern, r->result, r->where};
  for (uint32_t i = 0; i < 3; i++)
    if (compile_trees_walk(c, trees[i], check_rows, NULL)) return -1;
  return 0;
}
