// A rule's trees as programs of words (rules_tables.h says what each means): pattern, condition, result.
//
//   Add(Mul(x,2)@m,y) ──▶ ARITY 0 2 · FLIP 0 · NODE 1 0 0 Mul · ARITY 1 2 · FLIP 1 · VAR x 1 0 ·
//                         LIT - 1 1 2 · OUT m 1 · VAR y 0 1 · END
//
// Bodies that may be skipped say how many words they have: their place is kept and filled in when they
// end. Registers are given to names in the order in which the pattern binds them, then to names in the
// patterns of 'each', then to those that the result runs with.
#include "passes/rules/compile/inside/compile_inside.h"

#include <stdio.h>

static void emit(struct compile_writer *w, uint32_t word) {
  *TABLE_PUSH(w, code) = (uint16_t)word;
}

// A place for a number of words; filled in when all of them are there.
static uint32_t keep_place(struct compile_writer *w) {
  emit(w, 0);
  return w->n_code - 1;
}
static void fill_place(struct compile_writer *w, uint32_t place, uint32_t extra) {
  w->code[place] = (uint16_t)(w->n_code - place - 1 + extra);
}

static const struct compile_tree *tree_of(const struct compile_writer *w, uint32_t tree) {
  return &w->c->trees[tree];
}

static uint32_t count(const struct compile_writer *w, uint32_t first) {
  uint32_t n = 0;
  for (uint32_t x = first; x != NO_ID; x = tree_of(w, x)->next)
    n++;
  return n;
}

static uint32_t register_of(const struct compile_writer *w, uint32_t name, bool star,
                            uint8_t owner) {
  return w->registers[compile_check_name(w->c, name, star, owner)];
}

static uint32_t word_id(struct compile_writer *w, uint32_t word) {
  return compile_book_id(w, &w->words, word);
}

// ---- patterns ---------------------------------------------------------------------------------------

static void write_operand(struct compile_writer *w, uint32_t tree, uint32_t node, uint32_t i,
                          uint32_t depth);

static uint32_t int_id(struct compile_writer *w, int64_t value) {
  char text[32];
  const struct span digits =
      span_of(text, (size_t)snprintf(text, sizeof text, "%s", integer(value).s));
  const uint32_t id = compile_book_id(w, &w->ints, rules_compile_word(w->c, digits));
  if (id == w->n_int_values) *TABLE_PUSH(w, int_values) = value;
  return id;
}

static void write_attributes(struct compile_writer *w, const struct compile_tree *t,
                             uint32_t node) {
  for (uint32_t a = t->attrs; a != NO_ID; a = tree_of(w, a)->next) {
    const struct compile_tree v = *tree_of(w, a);
    const uint32_t key = word_id(w, v.key);
    if (v.kind == TREE_VAR) {
      emit(w, RULES_P_ATTR), emit(w, register_of(w, v.text, false, w->owner));
      emit(w, node), emit(w, key);
      continue;
    }
    emit(w, v.kind == TREE_NONE  ? RULES_P_ATTR_NONE
            : v.kind == TREE_NUM ? RULES_P_ATTR_INT
                                 : RULES_P_ATTR_TEXT);
    emit(w, node), emit(w, key);
    if (v.kind == TREE_NUM) emit(w, int_id(w, v.i));
    if (v.kind == TREE_TEXT) emit(w, word_id(w, v.text));
  }
}

// Is the operator commutative, in some row?
static bool may_turn(struct compile_writer *w, uint32_t tree) {
  if (tree_of(w, tree)->domain != w->c->empty) return false;
  for (uint32_t row = w->row; row < w->row + w->n_rows; row++)
    if (rules_compile_ops[rules_compile_op_of(w->c, w->c->rule, row, tree)].commutes) return true;
  return false;
}

// What is inside a node that was found.
static void write_node(struct compile_writer *w, uint32_t tree, uint32_t node, uint32_t depth) {
  const struct compile_tree t = *tree_of(w, tree);
  const uint32_t n = count(w, t.first);
  const uint8_t first = n ? tree_of(w, t.first)->kind : TREE_ANY;
  const bool many = first == TREE_REST || first == TREE_EACH;
  if (depth > w->depth) w->depth = depth;
  if (!many) emit(w, RULES_P_ARITY), emit(w, node), emit(w, n);
  if (!many && n == 2 && may_turn(w, tree)) {
    emit(w, RULES_P_FLIP), emit(w, node);
    w->n_choices++;
  }
  uint32_t i = 0;
  for (uint32_t x = t.first; x != NO_ID; x = tree_of(w, x)->next)
    write_operand(w, x, node, i++, depth);
  write_attributes(w, &t, node);
  if (t.star != NO_ID)
    emit(w, RULES_P_STAR), emit(w, register_of(w, t.star, true, w->owner)), emit(w, node);
  if (t.other != NO_ID)
    emit(w, RULES_P_OUT), emit(w, register_of(w, t.other, false, w->owner)), emit(w, node);
}

// ALT k skip[k], bodies, each with a JUMP behind it over those that follow.
static void write_alternatives(struct compile_writer *w, const struct compile_tree *t,
                               uint32_t node, uint32_t i, uint32_t depth) {
  const uint32_t n = count(w, t->first), at = w->n_code;
  w->n_choices++;
  emit(w, RULES_P_ALT), emit(w, n);
  for (uint32_t k = 0; k < n; k++)
    keep_place(w);
  uint32_t *jumps = arena_alloc(&w->c->own, n * sizeof *jumps), k = 0;
  for (uint32_t x = t->first; x != NO_ID; x = tree_of(w, x)->next, k++) {
    w->code[at + 2 + k] = (uint16_t)(w->n_code - at);
    write_operand(w, x, node, i, depth);
    emit(w, RULES_P_JUMP);
    jumps[k] = keep_place(w);
  }
  for (k = 0; k < n; k++)
    fill_place(w, jumps[k], 0);
}

// How many names the pattern of an 'each' binds, and the register of the first.
static uint32_t fields_of(const struct compile_writer *w, uint8_t owner, uint32_t *first) {
  const struct compile_name *names = w->c->bound + w->c->rule->names;
  uint32_t n = 0;
  *first = w->n_registers;
  for (uint32_t i = 0; i < w->c->rule->n_names; i++)
    if (names[i].owner == owner && n++ == 0) *first = w->registers[i];
  return n;
}

static void write_each(struct compile_writer *w, const struct compile_tree *t, uint32_t node,
                       uint32_t depth) {
  const uint8_t owner = (uint8_t)compile_check_name(w->c, t->text, false, COMPILE_TOP);
  uint32_t first;
  const uint32_t n = fields_of(w, owner, &first);
  emit(w, RULES_P_EACH), emit(w, w->registers[owner]), emit(w, node), emit(w, first), emit(w, n);
  const uint32_t skip = keep_place(w);
  w->owner = owner;
  write_operand(w, t->first, node, RULES_HERE, depth);
  w->owner = COMPILE_TOP;
  fill_place(w, skip, 0);
  emit(w, RULES_P_EACH_END);
}

static void write_operand(struct compile_writer *w, uint32_t tree, uint32_t node, uint32_t i,
                          uint32_t depth) {
  const struct compile_tree t = *tree_of(w, tree);
  switch ((enum compile_kind)t.kind) {
  case TREE_VAR:
  case TREE_OPT:
    emit(w, t.kind == TREE_VAR ? RULES_P_VAR : RULES_P_OPT);
    emit(w, register_of(w, t.text, false, w->owner)), emit(w, node), emit(w, i);
    break;
  case TREE_LIT:
    emit(w, RULES_P_LIT);
    emit(w, t.other == NO_ID ? RULES_NOTHING : register_of(w, t.other, false, w->owner));
    emit(w, node), emit(w, i), emit(w, compile_book_literal(w, &t));
    break;
  case TREE_OP: {
    const uint32_t mine = w->n_nodes++;
    emit(w, RULES_P_NODE), emit(w, mine), emit(w, node), emit(w, i);
    emit(w, compile_book_op(w, &t));
    write_node(w, tree, mine, depth + 1);
    break;
  }
  case TREE_ALT: write_alternatives(w, &t, node, i, depth); break;
  case TREE_REST:
    emit(w, RULES_P_REST), emit(w, register_of(w, t.text, false, w->owner)), emit(w, node);
    break;
  case TREE_EACH: write_each(w, &t, node, depth); break;
  default: break; // anything
  }
}

// ---- expressions ------------------------------------------------------------------------------------

static void write_expression(struct compile_writer *w, uint32_t tree);

static void write_list(struct compile_writer *w, uint32_t first) {
  for (uint32_t x = first; x != NO_ID; x = tree_of(w, x)->next)
    write_expression(w, x);
}

// An operator that is a jump over the body: OP skip body.
static void write_over(struct compile_writer *w, enum rules_word word, uint32_t body,
                       uint32_t behind) {
  emit(w, word);
  const uint32_t skip = keep_place(w);
  write_expression(w, body);
  if (behind != RULES_E_END) emit(w, behind);
  fill_place(w, skip, 0);
}

static void write_number(struct compile_writer *w, const struct compile_tree *t) {
  if (!t->real && t->i >= 0 && t->i < 0x8000) {
    emit(w, RULES_E_SMALL), emit(w, (uint32_t)t->i);
  } else if (!t->real) {
    emit(w, RULES_E_INT), emit(w, int_id(w, t->i));
  } else {
    char text[64];
    const int n = snprintf(text, sizeof text, "%a", t->d + 0.0); // 0.0 and -0.0 are one number
    const uint32_t word = rules_compile_word(w->c, span_of(text, (size_t)n));
    const uint32_t id = compile_book_id(w, &w->floats, word);
    if (id == w->n_float_values) *TABLE_PUSH(w, float_values) = t->d;
    emit(w, RULES_E_FLOAT), emit(w, id);
  }
}

static void write_choice(struct compile_writer *w, const struct compile_tree *t) {
  const uint32_t yes = tree_of(w, t->first)->next, no = tree_of(w, yes)->next;
  write_expression(w, t->first);
  emit(w, RULES_E_BRANCH);
  const uint32_t skip = keep_place(w);
  write_expression(w, yes);
  emit(w, RULES_E_JUMP);
  const uint32_t jump = keep_place(w);
  fill_place(w, skip, 0);
  write_expression(w, no);
  fill_place(w, jump, 0);
}

static void write_loop(struct compile_writer *w, const struct compile_tree *t) {
  const uint32_t of = compile_check_name(w->c, t->other, false, COMPILE_TOP);
  w->running = (uint8_t)w->n_registers++;
  w->c->loop.name = t->text, w->c->loop.of = (uint8_t)of;
  emit(w, RULES_E_FOR), emit(w, w->running), emit(w, w->registers[of]);
  const uint32_t skip = keep_place(w);
  write_expression(w, t->first);
  fill_place(w, skip, 2);
  emit(w, RULES_E_NEXT), emit(w, w->code[skip]);
  w->c->loop.name = NO_ID;
}

static void write_operator(struct compile_writer *w, const struct compile_tree *t) {
  emit(w, RULES_E_MARK);
  write_list(w, t->first);
  write_list(w, t->attrs);
  emit(w, RULES_E_NODE), emit(w, compile_book_op(w, t));
  emit(w, t->star == NO_ID ? RULES_NOTHING : register_of(w, t->star, true, COMPILE_TOP));
  emit(w, count(w, t->attrs));
  for (uint32_t a = t->attrs; a != NO_ID; a = tree_of(w, a)->next)
    emit(w, word_id(w, tree_of(w, a)->key));
}

static void write_name(struct compile_writer *w, const struct compile_tree *t) {
  if (w->c->loop.name == t->text)
    emit(w, RULES_E_REG), emit(w, w->running);
  else if (t->text == w->c->none)
    emit(w, RULES_E_NONE);
  else
    emit(w, RULES_E_REG), emit(w, register_of(w, t->text, false, COMPILE_TOP));
}

static void write_field(struct compile_writer *w, const struct compile_tree *t) {
  const uint8_t owner = w->c->loop.of;
  uint32_t first;
  fields_of(w, owner, &first);
  emit(w, RULES_E_FIELD), emit(w, w->running);
  emit(w, register_of(w, t->other, false, owner) - first);
}

static void write_expression(struct compile_writer *w, uint32_t tree) {
  const struct compile_tree t = *tree_of(w, tree);
  const uint32_t second = t.first == NO_ID ? NO_ID : tree_of(w, t.first)->next;
  switch ((enum compile_kind)t.kind) {
  case TREE_NAME:
  case TREE_SPLAT: write_name(w, &t); break;
  case TREE_NUM: write_number(w, &t); break;
  case TREE_WORD: emit(w, RULES_E_LITERAL), emit(w, compile_book_literal(w, &t)); break;
  case TREE_TEXT: emit(w, RULES_E_TEXT), emit(w, word_id(w, t.text)); break;
  case TREE_LIST:
    write_list(w, t.first);
    emit(w, RULES_E_LIST), emit(w, count(w, t.first));
    break;
  case TREE_FIELD: write_field(w, &t); break;
  case TREE_AND:
    write_expression(w, t.first);
    write_over(w, RULES_E_AND, second, RULES_E_BOTH);
    break;
  case TREE_OR:
    write_expression(w, t.first);
    write_over(w, RULES_E_OR, second, RULES_E_EITHER);
    break;
  case TREE_NOT: write_expression(w, t.first), emit(w, RULES_E_NOT); break;
  case TREE_CMP:
    write_list(w, t.first);
    emit(w, RULES_E_CMP), emit(w, t.how);
    break;
  case TREE_INDEX: write_list(w, t.first), emit(w, RULES_E_INDEX); break;
  case TREE_SLICE:
    write_list(w, t.first);
    emit(w, RULES_E_SLICE), emit(w, t.how);
    break;
  case TREE_IFELSE: write_choice(w, &t); break;
  case TREE_ELSE:
    write_expression(w, t.first);
    write_over(w, RULES_E_ELSE, second, RULES_E_END);
    break;
  case TREE_INTS: write_expression(w, t.first), emit(w, RULES_E_INTS); break;
  case TREE_SET:
    write_expression(w, t.first);
    emit(w, RULES_E_SET), emit(w, register_of(w, t.text, false, COMPILE_TOP));
    break;
  case TREE_FOR: write_loop(w, &t); break;
  case TREE_CALL:
    write_list(w, t.first);
    emit(w, RULES_E_CALL), emit(w, rules_compile_function(w->c, t.text));
    emit(w, count(w, t.first));
    break;
  case TREE_OP: write_operator(w, &t); break;
  default: break;
  }
}

// ---- a rule -----------------------------------------------------------------------------------------

// Registers by name: those of the pattern and the result, then those of each 'each', one behind the other.
static void give_registers(struct compile_writer *w) {
  const struct compile_rule *r = w->c->rule;
  const struct compile_name *names = w->c->bound + r->names;
  w->n_registers = 0;
  for (uint32_t i = 0; i < r->n_names; i++)
    if (names[i].owner == COMPILE_TOP) w->registers[i] = (uint8_t)w->n_registers++;
  for (uint32_t owner = 0; owner < r->n_names; owner++)
    for (uint32_t i = 0; i < r->n_names; i++)
      if (names[i].owner == owner) w->registers[i] = (uint8_t)w->n_registers++;
}

// A program's place; NO_ID with an error if it is too long.
static uint32_t ended(struct compile_writer *w, uint32_t from) {
  emit(w, 0);
  _Static_assert(RULES_P_END == 0 && RULES_E_END == 0, "programs end with a zero");
  if (w->n_code - from <= COMPILE_PROGRAM && w->n_code <= COMPILE_CODE) return from;
  rules_compile_fail_rule(w->c, "the rule is too long");
  return NO_ID;
}

int compile_write(struct compile_writer *w, struct rules_rule *rule) {
  const struct compile_rule *r = w->c->rule;
  w->n_nodes = 1, w->n_choices = 0, w->depth = 1, w->owner = COMPILE_TOP;
  w->c->loop.name = NO_ID;
  give_registers(w);
  uint32_t from = w->n_code;
  write_node(w, r->pattern, 0, 1);
  rule->pattern = ended(w, from);
  rule->where = NO_ID;
  from = w->n_code;
  if (r->where != NO_ID) {
    write_expression(w, r->where);
    rule->where = ended(w, from);
    if (rule->where == NO_ID) return -1;
  }
  from = w->n_code;
  write_expression(w, r->result);
  rule->result = ended(w, from);
  if (rule->pattern == NO_ID || rule->result == NO_ID) return -1;
  if (w->n_registers > RULES_REGISTERS || w->n_nodes > RULES_NODES || w->n_choices > RULES_CHOICES)
    return rules_compile_fail_rule(w->c, "a rule may have %d names, %d nodes and %d choices",
                                   RULES_REGISTERS, RULES_NODES, RULES_CHOICES);
  rule->depth = (uint8_t)w->depth, rule->n_registers = (uint8_t)w->n_registers;
  return 0;
}
