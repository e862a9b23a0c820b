// What a condition says of names, in alternatives: which are constants ('c'), which are not ('v').
//
//   consts(b) & (vars(a) | consts(c,d))   ──▶   b:c a:v   or   b:c c:c d:c
//
// Other questions say nothing, and a rule fires only in one of its alternatives. The proof looks at each
// of them, and an operand that is a constant in all of them is a gate.
#include "passes/rules/compile/inside/compile_inside.h"

static uint32_t add_case(struct compile *c) {
  *TABLE_PUSH(c, cases) = (struct compile_case){.first = c->n_known};
  return c->n_cases - 1;
}

// Of several words about one name the last counts.
static void say(struct compile *c, uint32_t known, uint32_t name, char letter) {
  struct compile_case *k = &c->cases[known];
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (c->known[i].name == name) {
      c->known[i].letter = letter;
      return;
    }
  *TABLE_PUSH(c, known) = (struct compile_known){name, letter};
  k->n++;
}

// Adds what another case says to the newest.
static void join(struct compile *c, uint32_t known, uint32_t other) {
  const struct compile_case from = c->cases[other];
  for (uint32_t i = 0; i < from.n; i++) {
    const struct compile_known said = c->known[from.first + i];
    say(c, known, said.name, said.letter);
  }
}

struct range {
  uint32_t first, n;
};

// Both conditions hold (every pair), or either does (all of both).
static int combine(struct compile *c, struct range x, struct range y, bool both,
                   struct range *out) {
  out->first = c->n_cases;
  if ((both ? (uint64_t)x.n * y.n : (uint64_t)x.n + y.n) > COMPILE_CASES)
    return rules_compile_fail(c, c->trees[c->rule->where].at,
                              "the condition has more than %d alternatives", COMPILE_CASES);
  for (uint32_t i = 0; i < (both ? x.n : x.n + y.n); i++)
    for (uint32_t k = 0; k < (both ? y.n : 1); k++) {
      if (!compile_step(c)) return compile_terms_exhausted(c);
      const uint32_t known = add_case(c);
      join(c, known, i < x.n ? x.first + i : y.first + i - x.n);
      if (both) join(c, known, y.first + k);
    }
  out->n = c->n_cases - out->first;
  return 0;
}

static int read_cases(struct compile *c, uint32_t tree, struct range *out) {
  const struct compile_tree t = c->trees[tree];
  if (t.kind == TREE_AND || t.kind == TREE_OR) {
    struct range x, y;
    if (read_cases(c, t.first, &x) || read_cases(c, c->trees[t.first].next, &y)) return -1;
    return combine(c, x, y, t.kind == TREE_AND, out);
  }
  const uint32_t known = add_case(c);
  const bool consts = t.kind == TREE_CALL && span_is(c->words[t.text], "consts");
  const bool vars = t.kind == TREE_CALL && span_is(c->words[t.text], "vars");
  for (uint32_t x = t.first; (consts || vars) && x != NO_ID; x = c->trees[x].next)
    if (c->trees[x].kind == TREE_NAME || c->trees[x].kind == TREE_SPLAT)
      say(c, known, c->trees[x].text, consts ? 'c' : 'v');
  *out = (struct range){known, 1};
  return 0;
}

int compile_cases_read(struct compile *c) {
  struct range all = {c->n_cases, 1};
  if (c->rule->where == NO_ID)
    add_case(c);
  else if (read_cases(c, c->rule->where, &all))
    return -1;
  c->rule->cases = all.first, c->rule->n_cases = all.n;
  return 0;
}

char compile_cases_letter(const struct compile *c, uint32_t known, uint32_t name) {
  if (known == COMPILE_KNOWS_NOTHING) return 0;
  const struct compile_case *k = &c->cases[known];
  for (uint32_t i = k->first; i < k->first + k->n; i++)
    if (c->known[i].name == name) return c->known[i].letter;
  return 0;
}
