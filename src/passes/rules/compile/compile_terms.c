// Patterns and results as terms, which the proof measures and matches against each other.
//
// A term is an operator over terms, or a name. Of alternatives the first counts, of a condition the
// branch that makes more, of many operands one; an operator over constants is a constant, since it
// folds. Names of constants begin with '#' and say what makes them, so that equal ones are equal words.
//
// Terms are as high as the trees that they come from, and what is built of two as high as both: the
// functions here call themselves. How long that may take is counted (compile_step), since commutative
// operators are looked at both ways round at every level.
#include "passes/rules/compile/inside/compile_inside.h"

#include "base/dtype.h"
#include "passes/exactness.h"

#include <stdio.h>

// ---- words for constants and attributes -------------------------------------------------------------

struct spelling {
  TABLE(char, text);
};

static void spell_text(struct spelling *s, const char *text) {
  const uint32_t n = (uint32_t)strlen(text), at = TABLE_ADD(s, text, n);
  memcpy(s->text + at, text, n);
}

static void spell_number(struct spelling *s, uint32_t n) {
  char digits[16];
  snprintf(digits, sizeof digits, "%u ", n);
  spell_text(s, digits);
}

static uint32_t spelt(struct compile *c, struct spelling *s) {
  const uint32_t word = rules_compile_word(c, span_of(s->text, s->n_text));
  TABLE_FREE(s, text);
  return word;
}

static void spell_tree(struct compile *c, uint32_t tree, struct spelling *s) {
  const struct compile_tree *t = &c->trees[tree];
  char number[64];
  snprintf(number, sizeof number, "(%d %d %d %s %a ", t->kind, t->how, t->real, integer(t->i).s,
           t->d);
  spell_text(s, number);
  const uint32_t words[] = {t->text, t->domain, t->other, t->star};
  for (uint32_t i = 0; i < 4; i++)
    spell_number(s, words[i]);
  for (uint32_t a = t->attrs; a != NO_ID; a = c->trees[a].next) {
    spell_number(s, c->trees[a].key);
    spell_tree(c, a, s);
  }
  for (uint32_t x = t->first; x != NO_ID; x = c->trees[x].next)
    spell_tree(c, x, s);
  spell_text(s, ")");
}

static uint32_t word_of_tree(struct compile *c, const char *before, uint32_t tree) {
  struct spelling s = {0};
  spell_text(&s, before);
  spell_tree(c, tree, &s);
  return spelt(c, &s);
}

// The attributes of a node, in order of their names' numbers: equal words for equal attributes.
static uint32_t word_of_attributes(struct compile *c, uint32_t tree) {
  if (c->trees[tree].attrs == NO_ID) return c->empty;
  struct spelling s = {0};
  int64_t last = -1;
  for (;;) {
    uint32_t next = NO_ID;
    for (uint32_t a = c->trees[tree].attrs; a != NO_ID; a = c->trees[a].next)
      if (c->trees[a].key > last && (next == NO_ID || c->trees[a].key < c->trees[next].key))
        next = a;
    if (next == NO_ID) return spelt(c, &s);
    last = c->trees[next].key;
    spell_number(&s, c->trees[next].key);
    spell_tree(c, next, &s);
  }
}

// ---- terms ------------------------------------------------------------------------------------------

static uint32_t new_name(struct compile *c, uint32_t name, bool constant) {
  *TABLE_PUSH(c, terms) = (struct compile_term){.name = name, .constant = constant, .weight = 1};
  return c->n_terms - 1;
}

static uint32_t new_constant(struct compile *c, const char *before, uint32_t word) {
  const char *name = arena_printf(&c->own, "#%s%s", before, compile_text_of(c, word));
  return new_name(c, rules_compile_word(c, span_str(name)), true);
}

struct scope { // what an 'each' runs over is constant or not, and so are its elements
  uint32_t known, name;
  char letter;
};

static bool is_constant(const struct compile *c, const struct scope *s, uint32_t name) {
  if (s->name == name) return s->letter == 'c';
  return compile_cases_letter(c, s->known, name) == 'c';
}

struct maker {
  const struct compile_rule *rule;
  uint32_t row;
};

static uint32_t simple(struct compile *c, struct maker m, uint32_t tree, struct scope s);

// The heavier of two branches, the first of equals.
static uint32_t heavier(struct compile *c, struct maker m, uint32_t yes, struct scope s) {
  const uint32_t a = simple(c, m, yes, s), b = simple(c, m, c->trees[yes].next, s);
  return c->terms[b].weight > c->terms[a].weight ? b : a;
}

static int count_tree(struct compile *c, uint32_t tree, void *ctx) {
  (void)c, (void)tree;
  ++*(uint32_t *)ctx;
  return 0;
}

static uint32_t over_constants(struct compile *c, const uint32_t *in, uint32_t n) {
  struct spelling s = {0};
  spell_text(&s, "#[");
  for (uint32_t i = 0; i < n; i++)
    spell_number(&s, c->terms[in[i]].name);
  return new_name(c, spelt(c, &s), true);
}

static uint32_t of_operator(struct compile *c, struct maker m, uint32_t tree, struct scope s) {
  const struct compile_tree t = c->trees[tree];
  uint32_t n = 0, weight = 1;
  for (uint32_t x = t.first; x != NO_ID; x = c->trees[x].next)
    n++;
  uint32_t *in = arena_alloc(&c->own, (n + 1) * sizeof *in);
  bool constant = n > 0;
  for (uint32_t x = t.first, i = 0; x != NO_ID; x = c->trees[x].next, i++) {
    in[i] = simple(c, m, x, s);
    constant = constant && !c->terms[in[i]].is_op && c->terms[in[i]].constant;
    weight += c->terms[in[i]].weight;
  }
  if (constant) return over_constants(c, in, n);
  for (uint32_t a = t.attrs; a != NO_ID; a = c->trees[a].next)
    compile_trees_walk(c, a, count_tree, &weight);
  struct compile_term made = {.is_op = true, .tree = tree, .n = n, .weight = weight};
  made.op = (uint16_t)rules_compile_op_of(c, m.rule, m.row, tree);
  made.name = word_of_attributes(c, tree);
  made.first = TABLE_ADD(c, operands, n);
  for (uint32_t i = 0; i < n; i++)
    c->operands[made.first + i] = in[i];
  *TABLE_PUSH(c, terms) = made;
  return c->n_terms - 1;
}

static bool is_wrapper(struct span function) {
  static const char *const names[] = {"expand", "spread", "padded", "turned", "sliced"};
  for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
    if (span_is(function, names[i])) return true;
  return false;
}

static uint32_t simple(struct compile *c, struct maker m, uint32_t tree, struct scope s) {
  const struct compile_tree t = c->trees[tree];
  if (!compile_step(c)) return new_name(c, c->empty, false);
  switch ((enum compile_kind)t.kind) {
  case TREE_VAR:
  case TREE_OPT:
  case TREE_NAME:
  case TREE_REST:
  case TREE_SPLAT: return new_name(c, t.text, is_constant(c, &s, t.text));
  case TREE_FIELD: return new_name(c, t.other, is_constant(c, &s, t.other));
  case TREE_LIT:
  case TREE_WORD: return new_constant(c, "'", t.text);
  case TREE_TEXT: return new_constant(c, "\"", t.text);
  case TREE_ANY: return new_constant(c, "", c->empty);
  case TREE_ALT:
  case TREE_EACH:
  case TREE_SET:
  case TREE_ELSE: return simple(c, m, t.first, s);
  case TREE_FOR: {
    const bool constant = is_constant(c, &s, t.other);
    return simple(c, m, t.first, (struct scope){s.known, t.text, constant ? 'c' : 'v'});
  }
  case TREE_IFELSE: return heavier(c, m, c->trees[t.first].next, s);
  case TREE_CALL:
    if (is_wrapper(c->words[t.text])) return simple(c, m, t.first, s);
    return new_constant(c, "", t.text);
  case TREE_OP: return of_operator(c, m, tree, s);
  default: return new_name(c, word_of_tree(c, "#", tree), true);
  }
}

uint32_t compile_terms_of(struct compile *c, const struct compile_rule *r, uint32_t row,
                          uint32_t tree, uint32_t known) {
  return simple(c, (struct maker){r, row}, tree, (struct scope){known, NO_ID, 0});
}

// ---- the measure ------------------------------------------------------------------------------------
//
// In this order: comparisons fed by arithmetic, sugar (operators that others can say), height (what moves
// towards the outputs, or towards the inputs, comes nearer), nodes.

struct measure {
  uint64_t fed, sugar, height, nodes;
};

static uint32_t sugar_of(uint16_t op) {
  switch ((enum op)op) {
  case OP_Sub:
  case OP_Div: return 4;
  case OP_Flatten:
  case OP_Squeeze:
  case OP_Unsqueeze: return 3;
  case OP_Neg: return 2;
  case OP_Less:
  case OP_LessOrEqual: return 1;
  default: return 0;
  }
}

// Weights of a level of height: what moves out, whatever its operands (0: not said here); with a
// constant operand; without.
static uint32_t always_of(uint16_t op) {
  return op == OP_Transpose ? 16 : op == OP_Not || op == OP_BitwiseNot ? 4 : op == OP_Where ? 1 : 0;
}
static uint32_t weight_of(uint16_t op, bool constant) {
  if (strncmp(rules_compile_ops[op].id, "Reduce", 6) == 0) return 1;
  if (!constant) return op == OP_MatMul ? 1 : 2;
  return op == OP_Mul ? 8 : op == OP_Add ? 4 : op == OP_MatMul ? 2 : 3;
}

static bool is_from_input(uint16_t op) {
  return op == OP_Reshape || op == OP_Unsqueeze || op == OP_Slice || op == OP_Split ||
         op == OP_Concat || op == OP_ops_Im2Col;
}

static bool is_comparison(uint16_t op) {
  return op == OP_Equal || op == OP_Less || op == OP_LessOrEqual || op == OP_Greater ||
         op == OP_GreaterOrEqual;
}

static bool feeds(uint16_t op) {
  return op == OP_Add || op == OP_Sub || op == OP_Mul || op == OP_Neg || op == OP_Clip ||
         op == OP_Relu || op == OP_Sigmoid || op == OP_ops_Silu || op == OP_Exp || op == OP_Log ||
         op == OP_Pow;
}

static const struct compile_term *operand_of(const struct compile *c, const struct compile_term *t,
                                             uint32_t i) {
  return &c->terms[c->operands[t->first + i]];
}

static bool equal(struct compile *c, uint32_t x, uint32_t y) {
  const struct compile_term *a = &c->terms[x], *b = &c->terms[y];
  if (!compile_step(c) || a->is_op != b->is_op || a->name != b->name) return false;
  if (!a->is_op) return a->constant == b->constant;
  if (a->op != b->op || a->n != b->n) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (!equal(c, c->operands[a->first + i], c->operands[b->first + i])) return false;
  return true;
}

static bool has_constant(const struct compile *c, const struct compile_term *t) {
  for (uint32_t i = 0; i < t->n; i++)
    if (!operand_of(c, t, i)->is_op && operand_of(c, t, i)->constant) return true;
  return false;
}

// Counted twice on the left: constants go to the right, and then away.
static uint32_t fed_of(struct compile *c, const struct compile_term *t) {
  uint32_t fed = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    const struct compile_term *x = operand_of(c, t, i);
    if (!x->is_op || !feeds(x->op) || x->n == 0) continue;
    const uint32_t *in = c->operands + x->first;
    if (x->n == 1 || equal(c, in[0], in[1]) || has_constant(c, x)) fed += i ? 1 : 2;
  }
  return fed;
}

// The attribute of a term's node, or NULL.
static const struct compile_tree *attribute_of(const struct compile *c,
                                               const struct compile_term *t, const char *name) {
  for (uint32_t a = c->trees[t->tree].attrs; a != NO_ID; a = c->trees[a].next)
    if (span_is(c->words[c->trees[a].key], name)) return &c->trees[a];
  return NULL;
}

// Forms of an operator that others can say: a Transpose without perm, x + x, ...
static bool is_sugar(struct compile *c, const struct compile_term *t) {
  const struct compile_tree *perm = attribute_of(c, t, "perm");
  const struct compile_tree *allow = attribute_of(c, t, "allowzero");
  if (t->op == OP_Transpose && (!perm || perm->kind == TREE_NONE)) return true;
  if (t->op == OP_Reshape && allow && allow->kind == TREE_NONE) return true;
  if (t->op == OP_Squeeze && t->n == 1) return true;
  const uint32_t *in = c->operands + t->first;
  if (t->op == OP_Add && t->n == 2 && equal(c, in[0], in[1])) return true;
  if (t->op != OP_Xor && t->op != OP_BitwiseXor) return false;
  for (uint32_t i = 0; i < t->n; i++)
    if (!operand_of(c, t, i)->is_op && span_is(c->words[operand_of(c, t, i)->name], "#'ones"))
      return true;
  return false;
}

// Adds the term's figures; its height, in operators.
static uint32_t measure(struct compile *c, uint32_t term, bool upwards, uint32_t depth,
                        struct measure *sum) {
  const struct compile_term t = c->terms[term];
  if (!t.is_op || !compile_step(c)) return 0;
  uint32_t below = 0;
  for (uint32_t i = 0; i < t.n; i++) {
    const uint32_t high = measure(c, c->operands[t.first + i], upwards, depth + 1, sum);
    below = high > below ? high : below;
  }
  if (is_comparison(t.op)) sum->fed += fed_of(c, &t);
  sum->sugar += (is_sugar(c, &t) ? 4u : 0u) + sugar_of(t.op);
  if (is_from_input(t.op) || (upwards && t.op == OP_Transpose))
    sum->height += 2u * below;
  else if (always_of(t.op))
    sum->height += depth * always_of(t.op);
  else
    sum->height += depth * weight_of(t.op, has_constant(c, &t));
  sum->nodes++;
  return below + 1;
}

static bool is_below(const struct measure *a, const struct measure *b) {
  if (a->fed != b->fed) return a->fed < b->fed;
  if (a->sugar != b->sugar) return a->sugar < b->sugar;
  if (a->height != b->height) return a->height < b->height;
  return a->nodes < b->nodes;
}

// ---- smaller ----------------------------------------------------------------------------------------

struct found {
  const struct compile_rule *rule;
  uint32_t row;
  bool op, stays, answered;
};

// Nodes of constants may stay nodes (rules_fold.c): Expand, Shape, functions.
static int look(struct compile *c, uint32_t tree, void *ctx) {
  const struct compile_tree *t = &c->trees[tree];
  struct found *f = ctx;
  if (t->kind == TREE_CALL) {
    f->stays = true;
    f->answered = f->answered || span_is(c->words[t->text], "common_scale");
  }
  if (t->kind != TREE_OP) return 0;
  f->op = true;
  const bool domain = t->domain != c->empty;
  const uint32_t op = rules_compile_op_of(c, f->rule, f->row, tree);
  f->stays = f->stays || domain || op == OP_Expand || op == OP_Shape;
  return 0;
}

bool compile_terms_smaller(struct compile *c, const struct compile_concrete *x, bool upwards) {
  const struct compile_rule *r = &c->rules[x->rule];
  struct found result = {.rule = r, .row = x->row}, where = result;
  compile_trees_walk(c, r->result, look, &result);
  compile_trees_walk(c, r->where, look, &where);
  if (where.answered) return true; // a rule that asks for it makes what no longer has it
  bool folds = result.op && !result.stays, falls = true;
  for (uint32_t k = 0; k < r->n_cases; k++) {
    const uint32_t after = c->cached[x->results + k], before = c->cached[x->patterns + k];
    struct measure a = {0}, b = {0};
    folds = folds && !c->terms[after].is_op && c->terms[after].constant;
    measure(c, after, upwards, 0, &a);
    measure(c, before, upwards, 0, &b);
    falls = falls && is_below(&a, &b);
  }
  return folds || falls;
}

static uint32_t count_ops(struct compile *c, uint32_t term) {
  const struct compile_term t = c->terms[term];
  if (!t.is_op || !compile_step(c)) return 0;
  uint32_t n = 1;
  for (uint32_t i = 0; i < t.n; i++)
    n += count_ops(c, c->operands[t.first + i]);
  return n;
}

static uint32_t count_name(struct compile *c, uint32_t term, uint32_t name) {
  const struct compile_term t = c->terms[term];
  if (!t.is_op) return t.name == name;
  if (!compile_step(c)) return 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < t.n; i++)
    n += count_name(c, c->operands[t.first + i], name);
  return n;
}

// Has no name of the pattern more places in the result? Looked at from `term` on.
static bool repeats_none(struct compile *c, uint32_t term, uint32_t after, uint32_t before) {
  const struct compile_term t = c->terms[term];
  if (!t.is_op) {
    const uint32_t there = count_name(c, before, t.name);
    return there == 0 || count_name(c, after, t.name) <= there;
  }
  if (!compile_step(c)) return false;
  for (uint32_t i = 0; i < t.n; i++)
    if (!repeats_none(c, c->operands[t.first + i], after, before)) return false;
  return true;
}

bool compile_terms_shrinks(struct compile *c, const struct compile_concrete *x) {
  for (uint32_t k = 0; k < c->rules[x->rule].n_cases; k++) {
    const uint32_t after = c->cached[x->results + k], before = c->cached[x->patterns + k];
    if (count_ops(c, after) >= count_ops(c, before) || !repeats_none(c, after, after, before))
      return false;
  }
  return true;
}

// ---- jumps ------------------------------------------------------------------------------------------
//
// A comparison, or what makes whole numbers of others, jumps where its operand changes by less than rounding. So what is
// rounded before one stays as it is, or the rule is finite. Of constants alone it does not matter; a function that finds the
// least operand that a sum or product takes to a threshold stands for that. The schema says which operators jump and which
// round nothing; a Cast jumps unless it is known to make floats.

static bool is_float(const struct compile_tree *t) {
  return t->kind == TREE_NUM && !t->real && t->i > 0 && t->i <= UINT8_MAX &&
         dtype_is_plain_float((enum dtype)t->i);
}

// Does the condition hold only where the name is the number of a type of floats?
static bool wants_float(struct compile *c, uint32_t condition, uint32_t name) {
  if (condition == NO_ID || !compile_step(c)) return false;
  const struct compile_tree *t = &c->trees[condition];
  if (t->kind == TREE_AND)
    return wants_float(c, t->first, name) || wants_float(c, c->trees[t->first].next, name);
  if (t->kind != TREE_CMP) return false;
  const struct compile_tree *a = &c->trees[t->first], *b = &c->trees[a->next];
  if (a->kind != TREE_NAME || a->text != name) return false;
  if (strcmp(compile_comparisons[t->how], "==") == 0) return is_float(b);
  if (strcmp(compile_comparisons[t->how], "in") != 0 || b->kind != TREE_LIST) return false;
  for (uint32_t x = b->first; x != NO_ID; x = c->trees[x].next)
    if (!is_float(&c->trees[x])) return false;
  return true;
}

static bool jumps(struct compile *c, const struct compile_rule *r, const struct compile_term *t) {
  const struct compile_tree *to = t->op == OP_Cast ? attribute_of(c, t, "to") : NULL;
  if (to && (to->kind == TREE_VAR || to->kind == TREE_NAME))
    return !wants_float(c, r->where, to->text);
  return to ? !is_float(to) : rules_compile_ops[t->op].jumps;
}

struct before { // how often each operator rounds what one that jumps is given
  uint32_t n, times[OPS];
};

static void rounded_before(struct compile *c, const struct compile_rule *r, uint32_t term,
                           bool inside, struct before *b) {
  const struct compile_term t = c->terms[term];
  if (!t.is_op || !compile_step(c)) return;
  if (inside && rules_compile_ops[t.op].rounds) b->times[t.op]++, b->n++;
  inside = inside || jumps(c, r, &t);
  for (uint32_t i = 0; i < t.n; i++)
    rounded_before(c, r, c->operands[t.first + i], inside, b);
}

static int stands_for(struct compile *c, uint32_t tree, void *ctx) {
  const struct compile_tree *t = &c->trees[tree];
  struct before *b = ctx;
  if (t->kind != TREE_CALL) return 0;
  b->times[OP_Add] += span_is(c->words[t->text], "least_sum");
  b->times[OP_Mul] += span_is(c->words[t->text], "least_factor");
  return 0;
}

bool compile_terms_keep_jumps(struct compile *c, const struct compile_concrete *x) {
  const struct compile_rule *r = &c->rules[x->rule];
  struct before wanted = {0};
  if (r->level != EXACTNESS_ROUNDING) return true;
  compile_trees_walk(c, r->result, stands_for, &wanted);
  for (uint32_t k = 0; k < r->n_cases; k++) {
    struct before pattern = {0}, result = {0};
    rounded_before(c, r, c->cached[x->patterns + k], false, &pattern);
    rounded_before(c, r, c->cached[x->results + k], false, &result);
    if (result.n > 0 || memcmp(pattern.times, wanted.times, sizeof wanted.times) != 0) return false;
  }
  return true;
}

// ---- undoing ----------------------------------------------------------------------------------------

static uint32_t in_env(const struct compile *c, uint32_t name) {
  for (uint32_t i = 0; i < c->n_env; i++)
    if (c->env[i].name == name) return c->env[i].term;
  return NO_ID;
}

static bool unify(struct compile *c, uint32_t p, uint32_t t);

// Operands in order, or turned round.
static bool unify_operands(struct compile *c, struct compile_term p, struct compile_term t,
                           bool turned) {
  for (uint32_t i = 0; i < p.n; i++) {
    const uint32_t at = turned ? t.n - 1 - i : i;
    if (!unify(c, c->operands[p.first + i], c->operands[t.first + at])) return false;
  }
  return true;
}

// Matches a pattern's term against another term, whose names stand for themselves. What names stand for
// is added to c->env; of what did not match the caller takes it away.
static bool unify(struct compile *c, uint32_t pattern, uint32_t term) {
  const struct compile_term p = c->terms[pattern], t = c->terms[term];
  if (!compile_step(c)) return false;
  if (!p.is_op) {
    const bool constant = !t.is_op && t.constant;
    if (compile_text_of(c, p.name)[0] == '#') return constant;
    const uint32_t bound = in_env(c, p.name);
    if (bound != NO_ID) return equal(c, bound, term);
    if (p.constant && !constant) return false;
    *TABLE_PUSH(c, env) = (struct compile_bound){p.name, term};
    return true;
  }
  if (!t.is_op || t.op != p.op || t.n != p.n) return false;
  for (uint32_t a = c->trees[p.tree].attrs; a != NO_ID; a = c->trees[a].next)
    if (c->trees[a].kind == TREE_NONE && attribute_of(c, &t, compile_text_of(c, c->trees[a].key)))
      return false;
  const uint32_t before = c->n_env;
  if (unify_operands(c, p, t, false)) return true;
  c->n_env = before;
  if (!rules_compile_ops[p.op].commutes || p.n != 2) return false;
  if (unify_operands(c, p, t, true)) return true;
  c->n_env = before;
  return false;
}

// Is a term, with what its names stand for put in, like another? Attributes do not count.
static bool alike(struct compile *c, uint32_t built, uint32_t other, bool put_in) {
  if (!compile_step(c)) return false;
  if (put_in && !c->terms[built].is_op) {
    const uint32_t bound = in_env(c, c->terms[built].name);
    if (bound != NO_ID) return alike(c, bound, other, false);
  }
  const struct compile_term a = c->terms[built], b = c->terms[other];
  if (a.is_op != b.is_op) return false;
  if (!a.is_op) return a.name == b.name;
  if (a.op != b.op || a.n != b.n) return false;
  const bool turns = rules_compile_ops[a.op].commutes;
  for (uint32_t turned = 0; turned <= (turns ? 1 : 0); turned++) {
    bool same = true;
    for (uint32_t i = 0; i < a.n && same; i++)
      same = alike(c, c->operands[a.first + i], c->operands[b.first + (turned ? a.n - 1 - i : i)],
                   put_in);
    if (same) return true;
  }
  return false;
}

// A letter for a name of a, which another may contradict.
static bool clashes(struct compile *c, uint32_t from, uint32_t known, uint32_t name, char letter) {
  char said = compile_cases_letter(c, known, name);
  for (uint32_t i = from; i < c->n_known; i++)
    if (c->known[i].name == name) said = c->known[i].letter;
  if (!said) *TABLE_PUSH(c, known) = (struct compile_known){name, letter};
  return said && said != letter;
}

// What case `other` of b wants of names is wanted of what they stand for in a, on top of what a's case
// says. False: it cannot be. Its words lie behind c->known, as a case that the caller takes away.
static bool agree(struct compile *c, uint32_t known, uint32_t other) {
  const uint32_t from = c->n_known;
  const struct compile_case wants = c->cases[other];
  bool clash = false;
  for (uint32_t i = 0; i < wants.n; i++) {
    const struct compile_known want = c->known[wants.first + i];
    const uint32_t bound = in_env(c, want.name);
    if (bound == NO_ID) {
      clash |= clashes(c, from, known, c->empty, want.letter);
      continue;
    }
    const struct compile_term t = c->terms[bound];
    if (t.is_op || compile_text_of(c, t.name)[0] == '#')
      clash |= t.is_op == (want.letter == 'c');
    else
      clash |= clashes(c, from, known, t.name, want.letter);
  }
  return !clash;
}

// The pattern of a, with what is known of its names in the case and behind it.
static uint32_t pattern_with(struct compile *c, const struct compile_concrete *a, uint32_t known,
                             uint32_t from) {
  const struct compile_rule *r = &c->rules[a->rule];
  const uint32_t end = c->n_known;
  const struct compile_case base = c->cases[known];
  const uint32_t all = c->n_cases;
  *TABLE_PUSH(c, cases) = (struct compile_case){.first = end};
  for (uint32_t i = 0; i < base.n + (end - from); i++) {
    const struct compile_known k = c->known[i < base.n ? base.first + i : from + i - base.n];
    *TABLE_PUSH(c, known) = k;
    c->cases[all].n++;
  }
  const uint32_t term = compile_terms_of(c, r, a->row, r->pattern, all);
  c->n_cases--;
  return term;
}

bool compile_terms_undoes(struct compile *c, const struct compile_concrete *a,
                          const struct compile_concrete *b) {
  const struct compile_rule *r = &c->rules[a->rule], *s = &c->rules[b->rule];
  bool undoes = false;
  for (uint32_t i = 0; i < r->n_cases && !undoes; i++)
    for (uint32_t k = 0; k < s->n_cases && !undoes; k++) {
      const uint32_t n_known = c->n_known, n_terms = c->n_terms, n_operands = c->n_operands;
      c->n_env = 0;
      if (unify(c, c->cached[b->patterns + k], c->cached[a->results + i]) &&
          agree(c, r->cases + i, s->cases + k))
        undoes =
            alike(c, c->cached[b->results + k], pattern_with(c, a, r->cases + i, n_known), true);
      c->n_known = n_known, c->n_terms = n_terms, c->n_operands = n_operands;
    }
  return undoes;
}
