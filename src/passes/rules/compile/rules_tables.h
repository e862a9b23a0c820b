// What the compilers make of rules: constant tables, and programs of 16-bit words over them. compile_rules.py writes
// those of the house's book as C when weir is built; rules_compile.h makes those of a user's files in memory.
//
// A rule is three programs (pattern, condition, result) and a table of cells: `for F in Add Mul` is
// a table of two rows, `{F}` a column of it. A word with RULES_COLUMN set is a column, to be looked
// up in the row at hand; other words are numbers of operators, literals, registers. Rules hang at
// their root operator: entries roots[op] .. roots[op + 1], in the order of the files. An entry has
// a gate for each of the first two operands: what may make it (0: anything).
#ifndef WEIR_RULES_TABLES_H
#define WEIR_RULES_TABLES_H

#include "passes/kit/kit_ops.h"

#include <math.h>

enum { RULES_COLUMN = 0x8000, RULES_NOTHING = 0xffff, RULES_HERE = 255 };
enum { RULES_REGISTERS = 32, RULES_NODES = 16, RULES_CHOICES = 16, RULES_WAYS = 4096 };

// The words of a pattern, with what follows each: n a node's register, i one of its operands
// (RULES_HERE: the one that EACH is at), r a register. Words to skip are counted from behind the
// instruction.
enum rules_pattern_word {
  RULES_P_END,
  RULES_P_ARITY, // n most: has no more operands
  RULES_P_FLIP,  // n: a choice, if its operator is commutative: operands in turned order
  // n' n i op: operand i is the first output of such a node in the same graph, from now on n'
  RULES_P_NODE,
  RULES_P_VAR,       // r n i: given, and r if that is bound
  RULES_P_OPT,       // r n i: the same, or left out
  RULES_P_LIT,       // r n i literal: a constant, every element equal to it; r or RULES_NOTHING
  RULES_P_ALT,       // k skip[k]: a choice
  RULES_P_JUMP,      // skip
  RULES_P_ATTR,      // r n word: its value or default
  RULES_P_ATTR_NONE, // n word: not given
  RULES_P_ATTR_INT,  // n word int
  RULES_P_ATTR_TEXT, // n word word
  RULES_P_STAR,      // r n: all its attributes
  RULES_P_OUT,       // r n: its first output
  RULES_P_REST,      // r n: all its operands
  RULES_P_EACH, // r n first fields skip: the program up to EACH_END for every operand, fields kept
  RULES_P_EACH_END,
};

// The words of conditions and results: a stack machine.
enum rules_word {
  RULES_E_END,
  RULES_E_SMALL,   // number
  RULES_E_INT,     // int
  RULES_E_FLOAT,   // float
  RULES_E_REG,     // r
  RULES_E_LITERAL, // literal
  RULES_E_TEXT,    // word
  RULES_E_NONE,
  RULES_E_FIELD, // r k: field k of the element in r
  RULES_E_LIST,  // n
  RULES_E_CALL,  // function arguments
  RULES_E_NOT,
  RULES_E_AND, // skip: if false, leave it and skip
  RULES_E_OR,  // skip: if true
  RULES_E_BOTH,
  RULES_E_EITHER,
  RULES_E_CMP, // == != < <= > >= in
  RULES_E_INDEX,
  RULES_E_SLICE,  // 1: has a start, 2: has an end
  RULES_E_BRANCH, // skip if false
  RULES_E_JUMP,   // skip
  RULES_E_ELSE,   // skip if not absent, else drop it
  RULES_E_INTS,   // a list becomes a constant
  RULES_E_SET,    // r
  RULES_E_FOR,    // r of skip: r runs over `of`
  RULES_E_NEXT,   // back to the body of this many words
  RULES_E_MARK,
  RULES_E_NODE, // op star n word[n]: operands from the mark on, then n attribute values
};

enum rules_literal_kind { RULES_WHOLE, RULES_REAL, RULES_TRUTH, RULES_ONES };
struct rules_literal {
  uint8_t kind;
  int64_t i;
  double d;
};

struct rules_pass {
  const char *name, *summary, *keys; // keys: names of sets, separated by blanks
  uint8_t exactness, most;  // enum exactness: of its least exact rule, and its most exact one
  const char *const *texts; // its rules but for name and summary, NULL behind the last
};

struct rules_rule {
  uint32_t pattern, where, result; // in code; where: NO_ID without one
  uint32_t cells;
  uint16_t n_columns, n_rows; // the last column is the pass
  uint16_t root;
  uint8_t exactness;
  uint8_t depth; // of nodes in the pattern
  uint8_t n_registers;
  uint8_t since;            // 0: nodes of the versions that floors say
  uint8_t once;             // 1: it is about no node that such a rule made
  const char *place, *text; // "tidy.rules:12", and what stands there
};

struct rules_entry {
  uint16_t rule, row; // RULES_NOTHING: told by another operator of the pattern
  uint16_t gates[2];
  uint16_t either; // 1: the gates may let the operands through in turned order
};

struct rules_book {
  const struct rules_pass *passes;
  const struct rules_rule *rules;
  const struct rules_entry *entries;
  const uint32_t *roots;
  const uint64_t *gates; // a set of operators: gate_words of them each
  // By operator: the version since which it means what rules take it for; and where its first operand
  // is of floats.
  const uint8_t *floors, *real_floors;
  const struct rules_literal *literals;
  const int64_t *ints;
  const double *floats;
  const char *const *words;
  const uint16_t *cells, *code;
  uint32_t n_passes, n_rules, n_entries, gate_words;
  uint32_t depth; // of the deepest rule
  uint32_t n_literals, n_ints, n_floats, n_words, n_cells, n_code, n_gates;
};

#endif
