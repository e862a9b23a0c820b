// Matching one rule at one node.
//
// A pattern is a straight program (rules_tables.h): it fails at the first instruction that does not
// hold. Where there is more than one way, an instruction asks for a choice: which of the
// alternatives, operands left first or right first. Choices are the digits of a counter. When a way
// fails, the last digit that can is counted up, those behind it are forgotten, and the program runs
// again from its start:
//
//   Add((Mul(a,x)|x), (Mul(b,x)|x))     turned?  left alternative  turned?  right alternative …
//                                          0           0              0             0
//                                          0           0              0             1
//
// That is no stack of states and no recursion; patterns are a few instructions long and nearly all
// ways fail at the first of them. Nothing is asked of a model that could not be known: an attribute
// that refers to a function's, or is too large to be held, matches nothing.
#include "passes/rules/inside/rules_inside.h"

#include <assert.h>

// The next digit of the counter, below n.
static uint32_t choose(struct rules_run *run, uint32_t n) {
  assert(run->at_choice < RULES_CHOICES);
  if (run->at_choice == run->n_choices) {
    run->choices[run->n_choices] = 0;
    run->limits[run->n_choices++] = (uint8_t)n;
  }
  return run->choices[run->at_choice++];
}

// Counts up the digits behind the first `floor`: false if they are through, or if a node took too many ways.
static bool count_up(struct rules_run *run, uint32_t floor) {
  if (++run->ways >= RULES_WAYS) {
    run->too_many = run->n_choices > floor;
    return false;
  }
  while (run->n_choices > floor &&
         run->choices[run->n_choices - 1] + 1 == run->limits[run->n_choices - 1])
    run->n_choices--;
  if (run->n_choices == floor) return false;
  run->choices[run->n_choices - 1]++;
  return true;
}

static uint32_t operand(const struct rules_run *run, uint32_t n, uint32_t i, uint32_t here) {
  const uint32_t at = i == RULES_HERE ? here : run->flipped[n] ? 1 - i : i;
  return model_input(run->k.m, &run->k.m->nodes[run->nodes[n]], at);
}

// Operands, without those left out at the end.
static uint32_t n_operands(const struct rules_run *run, uint32_t node) {
  const struct model_node *n = &run->k.m->nodes[node];
  uint32_t count = n->n_in;
  while (count > 0 && run->k.m->refs[n->refs + count - 1].value == NO_ID)
    count--;
  return count;
}

// Is it this operator? A column whose row is still open is settled by it.
static bool is_op(struct rules_run *run, enum op op, uint16_t word) {
  if (!(word & RULES_COLUMN)) return op == word;
  const struct rules_rule *r = run->rule;
  if (run->row != RULES_NOTHING) return op == rules_cell(run, word);
  for (uint32_t row = 0; row < r->n_rows; row++)
    if (run->book->cells[r->cells + row * r->n_columns + (word & (RULES_COLUMN - 1u))] == op) {
      run->row = row;
      return true;
    }
  return false;
}

// Lists of the model move when it is edited.
static struct rules_value copied(struct rules_run *run, const int64_t *list, uint32_t n) {
  int64_t *copy = arena_copy(&run->match, list, n * sizeof *copy);
  return rules_list(copy, n);
}

// Names stay what they are, whatever is edited.
static struct rules_value texts(struct rules_run *run, const uint32_t *names, uint32_t n) {
  int64_t *list = arena_alloc(&run->match, ((size_t)n + 1) * sizeof *list);
  for (uint32_t i = 0; i < n; i++)
    list[i] = names[i];
  struct rules_value v = rules_list(list, n);
  v.kind = RULES_TEXTS;
  return v;
}

// An attribute as a value of the run: false where it is not known.
static bool attribute(struct rules_run *run, uint32_t node, const char *word,
                      struct rules_value *out) {
  struct kit *k = &run->k;
  const int64_t *perm;
  uint32_t n;
  *out = (struct rules_value){0};
  if (kit_op(k, node) == OP_Transpose && strcmp(word, "perm") == 0) {
    if (!kit_perm(k, node, &perm, &n)) return false;
    *out = copied(run, perm, n);
    return true;
  }
  struct kit_attr a;
  const enum kit_state state = kit_attr(k, node, word, &a);
  if (state == KIT_UNKNOWN) return false;
  if (state == KIT_ABSENT) return true;
  switch (a.type) {
  case ATTR_INT: *out = rules_int(a.i); return true;
  case ATTR_FLOAT: *out = (struct rules_value){.kind = RULES_FLOAT, .d = (double)a.f}; return true;
  case ATTR_INTS: *out = copied(run, a.ints, a.n); return true;
  case ATTR_STRINGS: *out = texts(run, a.strings, a.n); return true;
  case ATTR_STRING:
    *out = (struct rules_value){.kind = RULES_STRING,
                                .n = (uint32_t)a.s.n,
                                .text = (const uint8_t *)arena_string(&run->match, a.s)};
    return true;
  default: return false;
  }
}

int rules_equal(const struct rules_value *a, const struct rules_value *b) {
  if (a->kind == RULES_UNKNOWN || b->kind == RULES_UNKNOWN) return -1;
  if (a->kind != b->kind) {
    const bool numbers = (a->kind == RULES_INT || a->kind == RULES_FLOAT) &&
                         (b->kind == RULES_INT || b->kind == RULES_FLOAT);
    if (!numbers) return 0;
    return (a->kind == RULES_INT ? (double)a->i : a->d) ==
           (b->kind == RULES_INT ? (double)b->i : b->d);
  }
  switch (a->kind) {
  case RULES_INT:
    if (a->i == RULES_NO_DIM || b->i == RULES_NO_DIM) return -1;
    if (a->i == b->i) return 1;
    return rules_is_number(a->i) && rules_is_number(b->i) ? 0 : -1;
  case RULES_FLOAT: return a->d == b->d;
  case RULES_STRING: return span_eq(rules_text(a), rules_text(b));
  case RULES_TENSOR:
  case RULES_TERM: return a->id == b->id;
  case RULES_TEXTS:
  case RULES_LIST: {
    if (a->n != b->n) return 0;
    int all = 1;
    for (uint32_t i = 0; i < a->n; i++) {
      const struct rules_value x = rules_int(a->list[i]), y = rules_int(b->list[i]);
      const int one = rules_equal(&x, &y);
      if (one == 0) return 0;
      if (one < 0) all = -1;
    }
    return all;
  }
  default: return a->kind == RULES_ABSENT;
  }
}

// The number of the type that is written so: 0.1 of floats is not the 0.1 of doubles.
static double rounded(enum dtype t, double x) {
  uint8_t raw[16];
  if (!dtype_is_plain_float(t)) return x;
  rules_number_put(t, raw, 0, x);
  return rules_number_get(t, raw, 0);
}

// Is every element of a constant equal to it?
static bool is_literal(struct rules_run *run, uint32_t value, const struct rules_literal *literal) {
  struct kit *k = &run->k;
  if (!rules_const(run, value)) return false;
  const enum dtype t = kit_dtype(k, value);
  struct kit_number fill;
  switch (literal->kind) {
  case RULES_ONES:
    // All bits: true, -1, or the largest of an unsigned type.
    if (kit_const_fill(k, value, &fill) != KIT_YES || !dtype_is_integer(t)) return false;
    if (t == DTYPE_BOOL) return fill.d != 0;
    if (fill.exact && fill.i == -1) return true;
    return fill.d > 0 && fill.d == ldexp(1, (int)dtype_bits(t)) - (t == DTYPE_UINT64 ? 0 : 1) &&
           !dtype_is_plain_float(t);
  case RULES_TRUTH: return t == DTYPE_BOOL && kit_const_all(k, value, literal->d) == KIT_YES;
  case RULES_REAL:
    return dtype_is_float(t) && kit_const_all(k, value, rounded(t, literal->d)) == KIT_YES;
  default:
    return (t != DTYPE_BOOL || literal->i == 0 || literal->i == 1) &&
           kit_const_all(k, value, literal->d) == KIT_YES;
  }
}

// A register gets a value; true too if it has the same already.
static bool put(struct rules_run *run, uint32_t r, struct rules_value v) {
  struct rules_value *at = &run->registers[r];
  if (at->kind != RULES_ABSENT) return rules_equal(at, &v) == 1;
  *at = v;
  return true;
}

// All operands as values; or, for `each`, the registers that the pattern fills for each of them.
static struct rules_value operands(struct rules_run *run, uint32_t node) {
  const uint32_t n = n_operands(run, node);
  uint32_t *list = arena_alloc(&run->match, (n + 1) * sizeof *list);
  for (uint32_t i = 0; i < n; i++)
    list[i] = model_input(run->k.m, &run->k.m->nodes[node], i);
  return (struct rules_value){.kind = RULES_MANY, .n = n, .many = list};
}

static bool run_program(struct rules_run *run, uint32_t from, uint32_t here);

// Every operand takes its first way: choices inside are tried for it alone.
static bool each(struct rules_run *run, const uint16_t *w, uint32_t body) {
  const uint32_t n = n_operands(run, run->nodes[w[2]]), first = w[3], fields = w[4];
  struct rules_value *all = arena_alloc(&run->match, (n * fields + 1) * sizeof *all);
  const uint32_t outer = run->n_choices, at = run->at_choice, ways = run->ways;
  for (uint32_t i = 0; i < n; i++) {
    bool found;
    const uint32_t touched = run->n_touched;
    do {
      memset(run->registers + first, 0, fields * sizeof *run->registers);
      run->n_touched = touched;
      run->at_choice = at;
      found = run_program(run, body, i);
    } while (!found && count_up(run, outer));
    run->n_choices = outer;
    run->at_choice = at;
    run->ways = ways; // of as many operands as there are
    if (!found) return false;
    memcpy(all + (size_t)i * fields, run->registers + first, fields * sizeof *all);
  }
  return put(
      run, w[1],
      (struct rules_value){.kind = RULES_EACH, .n = n, .fields = (uint8_t)fields, .each = all});
}

// One way through the pattern from there on, at operand `here` of an `each`.
static bool run_program(struct rules_run *run, uint32_t from, uint32_t here) {
  struct kit *k = &run->k;
  const uint16_t *w = run->book->code + from;
  for (;; run->steps++)
    switch ((enum rules_pattern_word) * w) {
    case RULES_P_END:
    case RULES_P_EACH_END: return true;
    case RULES_P_ARITY:
      if (n_operands(run, run->nodes[w[1]]) > w[2]) return false;
      w += 3;
      break;
    case RULES_P_FLIP: {
      const uint32_t node = run->nodes[w[1]];
      const bool turns = kit_op_has(kit_op(k, node), KIT_COMMUTATIVE) && n_operands(run, node) == 2;
      run->flipped[w[1]] = turns && choose(run, 2) == 1;
      w += 2;
      break;
    }
    case RULES_P_NODE: {
      const uint32_t value = operand(run, w[2], w[3], here);
      const uint32_t node = kit_maker(k, value);
      const enum op op = node == NO_ID ? OP_NONE : kit_op(k, node);
      if (op == OP_NONE || run->k.m->nodes[node].graph != run->graph ||
          kit_out(k, node, 0) != value)
        return false;
      if (!is_op(run, op, w[4]) || !rules_meant(run, op, node)) return false;
      while (run->n_nodes < w[1])
        run->nodes[run->n_nodes++] = NO_ID; // of an alternative that is not taken
      run->nodes[w[1]] = node;
      run->flipped[w[1]] = false;
      if (run->n_nodes <= w[1]) run->n_nodes = w[1] + 1u;
      if (run->options->filters) *TABLE_PUSH(run, touched) = node;
      w += 5;
      break;
    }
    case RULES_P_VAR:
    case RULES_P_OPT: {
      const uint32_t value = operand(run, w[2], w[3], here);
      if (kit_may_be_left_out(k->m, value)) return false; // there in one call, absent in another
      if (value == NO_ID ? *w == RULES_P_VAR : !put(run, w[1], rules_tensor(value))) return false;
      w += 4;
      break;
    }
    case RULES_P_LIT: {
      const uint32_t value = operand(run, w[2], w[3], here);
      if (value == NO_ID || !is_literal(run, value, run->book->literals + rules_cell(run, w[4])))
        return false;
      if (w[1] != RULES_NOTHING && !put(run, w[1], rules_tensor(value))) return false;
      w += 5;
      break;
    }
    case RULES_P_ALT: w += w[2 + choose(run, w[1])]; break;
    case RULES_P_JUMP: w += 2 + w[1]; break;
    case RULES_P_ATTR: {
      struct rules_value v;
      if (!attribute(run, run->nodes[w[2]], run->book->words[w[3]], &v) || !put(run, w[1], v))
        return false;
      w += 4;
      break;
    }
    case RULES_P_ATTR_NONE: {
      struct kit_attr a;
      const enum kit_state state = kit_attr(k, run->nodes[w[1]], run->book->words[w[2]], &a);
      if (state == KIT_GIVEN || state == KIT_UNKNOWN) return false;
      w += 3;
      break;
    }
    case RULES_P_ATTR_INT: {
      struct rules_value v;
      if (!attribute(run, run->nodes[w[1]], run->book->words[w[2]], &v)) return false;
      if (v.kind != RULES_INT || v.i != run->book->ints[w[3]]) return false;
      w += 4;
      break;
    }
    case RULES_P_ATTR_TEXT: {
      struct rules_value v;
      if (!attribute(run, run->nodes[w[1]], run->book->words[w[2]], &v)) return false;
      if (v.kind != RULES_STRING || !span_is(rules_text(&v), run->book->words[w[3]])) return false;
      w += 4;
      break;
    }
    case RULES_P_STAR:
      run->registers[w[1]] = (struct rules_value){.kind = RULES_NODE, .id = run->nodes[w[2]]};
      w += 3;
      break;
    case RULES_P_OUT:
      if (!put(run, w[1], rules_tensor(kit_out(k, run->nodes[w[2]], 0)))) return false;
      w += 3;
      break;
    case RULES_P_REST:
      run->registers[w[1]] = operands(run, run->nodes[w[2]]);
      w += 3;
      break;
    case RULES_P_EACH:
      if (!each(run, w, (uint32_t)(w + 6 - run->book->code))) return false;
      w += 6 + w[5] + 1;
      break;
    }
}

static bool try_ways(struct rules_run *run, uint32_t row) {
  do {
    memset(run->registers, 0, run->rule->n_registers * sizeof *run->registers);
    run->row = row;
    run->flipped[0] = false;
    run->n_nodes = 1;
    run->n_touched = 0;
    run->at_choice = 0;
    if (run_program(run, run->rule->pattern, NO_ID)) return true;
  } while (count_up(run, 0));
  return false;
}

bool rules_match_first(struct rules_run *run, const struct rules_rule *rule, uint32_t row,
                       uint32_t node) {
  run->steps++;
  run->rule = rule;
  run->nodes[0] = node;
  run->n_choices = run->ways = 0;
  run->too_many = false;
  run->first_row = row;
  return try_ways(run, row);
}

bool rules_match_next(struct rules_run *run) {
  return count_up(run, 0) && try_ways(run, run->first_row);
}
