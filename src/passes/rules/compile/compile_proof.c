// The proof that rewriting ends, or the two rules for which that cannot be seen.
//
// Rules of one set run together (a rule without a set runs with those of its name). No rule of a set may
// undo another. A rule is safe if its result is smaller than its pattern (compile_terms.c). One that is
// not is safe too where its root operator is above all operators that it makes, in an order that the
// rules of its set agree about: the graph "makes" of those rules has no circle. Transposes may move
// towards the outputs in a set, or towards the inputs.
//
// Rules that fire once (`once`) have no part in it: each firing uses up a node that none of them made, and what comes
// of such a node is marked by the run (rules_run.c), whoever makes it. Fuel stops what rules do to each other there.
#include "passes/rules/compile/inside/compile_inside.h"

int compile_terms_exhausted(struct compile *c) {
  if (!c->exhausted) return -1;
  return rules_compile_fail_rule(c, "weir cannot prove within its limit that rewriting ends");
}

// ---- rules with one row each ------------------------------------------------------------------------

static void add_terms(struct compile *c, struct compile_concrete *x, uint32_t tree, uint32_t *at) {
  const struct compile_rule *r = &c->rules[x->rule];
  *at = TABLE_ADD(c, cached, r->n_cases);
  for (uint32_t k = 0; k < r->n_cases; k++) {
    const uint32_t term = compile_terms_of(c, r, x->row, tree, r->cases + k);
    c->cached[*at + k] = term;
  }
}

static int make_concrete(struct compile *c, uint32_t rule) {
  const struct compile_rule *r = c->rule = &c->rules[rule];
  for (uint32_t row = 0; row < r->n_rows; row++) {
    struct compile_concrete x = {.rule = rule, .row = row};
    add_terms(c, &x, r->pattern, &x.patterns);
    add_terms(c, &x, r->result, &x.results);
    x.root = rules_compile_op_of(c, r, row, r->pattern);
    const uint32_t after = compile_terms_of(c, r, row, r->result, COMPILE_KNOWS_NOTHING);
    x.after = c->terms[after].is_op ? c->terms[after].op : OP_NONE;
    x.shrinks = compile_terms_shrinks(c, &x);
    *TABLE_PUSH(c, concrete) = x;
    if (c->exhausted) return compile_terms_exhausted(c);
    if (!compile_terms_keep_jumps(c, &x))
      return rules_compile_fail_rule(c, "the level must be 'finite': the rule changes rounding "
                                        "before a comparison or before a conversion to whole "
                                        "numbers");
  }
  return 0;
}

// ---- no rule undoes another -------------------------------------------------------------------------

// The rules of a set: places in c->concrete, by root operator; of each first those that do not shrink.
struct set {
  TABLE(uint32_t, members);
  TABLE(uint32_t, sorted);
  uint32_t
      roots[2 * OPS + 1]; // where those of an operator begin in `sorted`, and those that shrink
};

static uint32_t kind_of(const struct compile *c, uint32_t member) {
  return 2u * c->concrete[member].root + c->concrete[member].shrinks;
}

static void sort_by_root(const struct compile *c, struct set *s) {
  uint32_t at[2 * OPS + 1] = {0};
  for (uint32_t i = 0; i < s->n_members; i++)
    at[kind_of(c, s->members[i]) + 1]++;
  for (uint32_t kind = 0; kind < 2 * OPS; kind++)
    at[kind + 1] += at[kind];
  memcpy(s->roots, at, sizeof at);
  s->n_sorted = 0;
  TABLE_ADD(s, sorted, s->n_members);
  for (uint32_t i = 0; i < s->n_members; i++)
    s->sorted[at[kind_of(c, s->members[i])]++] = s->members[i];
}

static int refuse_undoing(struct compile *c, const struct compile_concrete *a,
                          const struct compile_concrete *b) {
  const struct compile_rule *other = &c->rules[b->rule];
  c->rule = &c->rules[a->rule];
  if (a->rule == b->rule)
    return rules_compile_fail_rule(c, "the rule reverses itself: rewriting would not end");
  rules_compile_fail_rule(c, "the rule in %s (%s) reverses it: rewriting would not end",
                          other->place, quote(c->words[other->name]).s);
  return err_hint(c->err, "put opposite rules into different sets");
}

static int prove_pairs(struct compile *c, const struct set *s) {
  for (uint32_t i = 0; i < s->n_members; i++) {
    const struct compile_concrete *a = &c->concrete[s->members[i]];
    if (a->after == OP_NONE) continue;
    c->rule = &c->rules[a->rule];
    const uint32_t first = 2u * a->after, end = first + (a->shrinks ? 1 : 2);
    for (uint32_t k = s->roots[first]; k < s->roots[end]; k++) {
      const struct compile_concrete *b = &c->concrete[s->sorted[k]];
      if (compile_terms_undoes(c, a, b)) return refuse_undoing(c, a, b);
      if (c->exhausted) return compile_terms_exhausted(c);
    }
  }
  return 0;
}

// ---- an order of operators --------------------------------------------------------------------------

// The rule that makes one operator of another, + 1.
struct order {
  bool any;
  uint32_t makes[OPS][OPS];
};

// Adds what a term has to what a rule makes of its root. Returns true if the root is in it again.
static bool add_made(struct compile *c, struct order *o, uint32_t term,
                     const struct compile_concrete *x) {
  const struct compile_term t = c->terms[term];
  if (!t.is_op) return false;
  if (t.op == x->root) return true;
  if (!o->makes[x->root][t.op]) o->makes[x->root][t.op] = x->rule + 1;
  o->any = true;
  for (uint32_t i = 0; i < t.n; i++)
    if (add_made(c, o, c->operands[t.first + i], x)) return true;
  return false;
}

static int refuse_circle(struct compile *c, const struct order *o, const uint16_t *path,
                         uint32_t from, uint32_t n, uint16_t last) {
  const char *text = rules_compile_ops[path[from]].id;
  for (uint32_t i = from + 1; i < n; i++)
    text = arena_printf(&c->own, "%s makes %s", text, rules_compile_ops[path[i]].id);
  c->rule = &c->rules[o->makes[path[n - 1]][last] - 1];
  return rules_compile_fail_rule(
      c, "%s makes %s, and none of these rules makes the graph smaller: rewriting may not end",
      text, rules_compile_ops[last].id);
}

// Depth first from one operator. `state`: 0 not seen, 1 on the path, 2 done.
static int walk_order(struct compile *c, const struct order *o, uint16_t start, uint8_t *state) {
  uint16_t path[OPS], next[OPS];
  uint32_t n = 0;
  path[n] = start, next[n++] = 0, state[start] = 1;
  while (n > 0) {
    const uint16_t op = path[n - 1], to = next[n - 1]++;
    if (to == OPS) {
      state[op] = 2;
      n--;
    } else if (o->makes[op][to] && state[to] == 1) {
      uint32_t from = 0;
      while (path[from] != to)
        from++;
      return refuse_circle(c, o, path, from, n, to);
    } else if (o->makes[op][to] && state[to] == 0) {
      path[n] = to, next[n++] = 0, state[to] = 1;
    }
  }
  return 0;
}

static int prove_order(struct compile *c, const struct set *s, struct order *o, bool upwards) {
  if (o->any) *o = (struct order){0};
  uint8_t state[OPS] = {0};
  for (uint32_t i = 0; i < s->n_members; i++) {
    const struct compile_concrete *x = &c->concrete[s->members[i]];
    c->rule = &c->rules[x->rule];
    const bool smaller = compile_terms_smaller(c, x, upwards);
    if (c->exhausted) return compile_terms_exhausted(c);
    if (smaller || !add_made(c, o, c->cached[x->results], x)) continue;
    rules_compile_fail_rule(
        c,
        "the result is not smaller than the pattern and contains %s again: rewriting may not end",
        rules_compile_ops[x->root].id);
    return err_hint(c->err, "with 'once' at its end, a rule does not match nodes that such a rule "
                            "created");
  }
  for (uint16_t op = 1; op < OPS && o->any; op++)
    if (state[op] == 0 && walk_order(c, o, op, state)) return -1;
  return 0;
}

// ---- sets -------------------------------------------------------------------------------------------

static bool is_set(const struct compile *c, uint32_t key) {
  return !span_is(c->words[key], "none") && !span_is(c->words[key], "infers");
}

static bool is_in(const struct compile *c, const struct compile_rule *r, uint32_t key) {
  bool any = false;
  for (uint32_t i = 0; i < r->n_keys; i++) {
    if (c->keys[r->keys + i] == key) return true;
    any = any || is_set(c, c->keys[r->keys + i]);
  }
  return !any && r->name == key;
}

static int prove_set(struct compile *c, uint32_t key, struct order *o) {
  struct set s = {0};
  c->steps += c->n_concrete;
  for (uint32_t i = 0; i < c->n_concrete; i++)
    if (!c->rules[c->concrete[i].rule].once && is_in(c, &c->rules[c->concrete[i].rule], key))
      *TABLE_PUSH(&s, members) = i;
  sort_by_root(c, &s);
  int rc = prove_pairs(c, &s);
  if (rc == 0) {
    struct err first = {0}, *err = c->err;
    c->err = &first;
    rc = prove_order(c, &s, o, false);
    if (rc && !c->exhausted) {
      struct err second = {0};
      c->err = &second;
      rc = prove_order(c, &s, o, true);
    }
    c->err = err;
    if (rc) *err = first;
  }
  TABLES_FREE(&s, members, sorted);
  return rc;
}

int compile_proof(struct compile *c) {
  for (uint32_t i = 0; i < c->n_rules; i++)
    if (make_concrete(c, i)) return -1;
  const uint32_t n_words = c->n_words;
  struct order *o = arena_zalloc(&c->own, sizeof *o);
  bool *proved = arena_zalloc(&c->own, n_words + 1);
  for (uint32_t i = 0; i < c->n_rules; i++) {
    const struct compile_rule r = c->rules[i];
    bool any = false;
    for (uint32_t k = 0; k < r.n_keys; k++) {
      const uint32_t key = c->keys[r.keys + k];
      if (!is_set(c, key)) continue;
      any = true;
      if (!proved[key] && prove_set(c, key, o)) return -1;
      proved[key] = true;
    }
    if (any || proved[r.name]) continue;
    if (prove_set(c, r.name, o)) return -1;
    proved[r.name] = true;
  }
  return 0;
}
