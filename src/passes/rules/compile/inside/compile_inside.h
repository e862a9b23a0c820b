// What the files of the compiler share: texts as tokens, trees and rows; what may go wrong.
#ifndef WEIR_COMPILE_INSIDE_H
#define WEIR_COMPILE_INSIDE_H

#include "base/table.h"
#include "passes/rules/compile/rules_compile.h"
#include "passes/rules/compile/rules_tables.h"

enum {
  COMPILE_STATEMENT = 16384, // characters of a statement, comments and superfluous blanks left out
  COMPILE_DEPTH = 48,        // of what stands in one another, while it is read
  COMPILE_HEIGHT = 128,      // of a tree: chains of operators count too
  COMPILE_ROWS = 4096,       // of a template
  COMPILE_PASSES = 2048,     // of a user: names of rules, of templates those of all rows
  COMPILE_NAMES = 64,        // of a rule, before registers are counted
  COMPILE_ATTRIBUTES = 16,   // of a node that a rule makes
  COMPILE_CASES = 256,       // alternatives of a condition
  COMPILE_OPERANDS = 64,     // of a pattern's node
  COMPILE_COLUMNS = 64,      // of a template's table
  COMPILE_PROGRAM = 0x7fff,  // words of one
  COMPILE_CODE = 1 << 22,    // of all, and cells of all tables
  COMPILE_IDS = 0x7fff,      // of anything that a word names
};
// Of the proof, and of all that is done for each row and each alternative of a condition.
enum { COMPILE_STEPS = 20 * 1000 * 1000, COMPILE_TERMS = 1000 * 1000 };

// A piece of a statement: n characters of compile.text.
enum compile_token_kind { TOKEN_TEXT, TOKEN_SIGN, TOKEN_NAME, TOKEN_NUMBER, TOKEN_END };
struct compile_token {
  uint32_t from, n;
  uint8_t kind;
};

// Trees: what a node has besides `text` is said behind its kind; P and E are children, in order.
enum compile_kind {
  // Patterns.
  TREE_VAR,  // a name
  TREE_OPT,  // name?
  TREE_ANY,  // _
  TREE_LIT,  // a literal; other: the name behind @
  TREE_ALT,  // P…
  TREE_OP,   // an operator, with domain, attributes, star; other: the name behind @; P… or E…
  TREE_REST, // name...
  TREE_EACH, // name, P
  TREE_NONE, // of an attribute
  // Expressions.
  TREE_NAME,
  TREE_NUM,  // real: d; else i
  TREE_WORD, // a literal
  TREE_TEXT,
  TREE_LIST,   // E…
  TREE_CALL,   // E…
  TREE_NOT,    // E
  TREE_AND,    // E E
  TREE_OR,     // E E
  TREE_CMP,    // how: its place in compile_comparisons; E E
  TREE_INDEX,  // E E
  TREE_SLICE,  // how: 1 has a start, 2 has an end; E, start, end
  TREE_IFELSE, // E E E
  TREE_ELSE,   // E E
  TREE_FIELD,  // of `text`; other: the field
  TREE_SPLAT,
  TREE_INTS, // E
  TREE_FOR,  // a name; other: what it runs over; E
  TREE_SET,  // E, and a name
};
struct compile_tree {
  uint8_t kind, how;
  bool real;
  uint8_t height;
  uint32_t at; // where it stands in the file
  uint32_t text, domain, other, star;
  uint32_t key;   // of an attribute: its name
  uint32_t attrs; // OP: the first attribute
  uint32_t first, next;
  int64_t i;
  double d;
};
extern const char *const compile_comparisons[7]; // in the order of RULES_E_CMP

// A name of a rule: kind as rules_functions.def has them, and '*' for all attributes of a node. What the
// pattern of an 'each' binds belongs to that name (owner: its place in the rule's names).
struct compile_name {
  uint32_t name;
  char kind;
  uint8_t owner;
};
enum { COMPILE_TOP = 255 };

struct compile_rule {
  uint32_t file, at, line;
  const char *text, *place;
  uint32_t keys, n_keys;           // in compile.keys
  uint32_t name, summary;          // may hold {X}; summary: NO_ID without
  uint32_t vars, n_vars;           // in compile.cells: the X of the table,
  uint32_t rows, n_rows;           // and n_vars words for each row
  uint32_t pattern, result, where; // where: NO_ID without
  uint32_t names, n_names;         // in compile.bound
  uint32_t cases, n_cases;         // in compile.cases
  uint8_t level, since;
  bool once;
};

// A list of words.
struct compile_list {
  uint32_t name, first, n; // in compile.cells
};

// What a condition says of names: constant ('c') or not ('v').
struct compile_known {
  uint32_t name;
  char letter;
};
struct compile_case {
  uint32_t first, n; // in compile.known
};

// A rule with one row of its table, and what it is as terms, for each case.
struct compile_concrete {
  uint32_t rule, row;
  uint32_t patterns, results; // in compile.cached
  uint32_t root;              // an operator
  uint32_t after;             // the operator of the result, whatever is constant; OP_NONE: none
  bool shrinks;               // compile_terms_shrinks
};

// A term of the proof: a name, or an operator over terms. Names of constants begin with #.
struct compile_term {
  bool is_op, constant;
  uint16_t op;
  uint32_t name;     // of an operator: a word for its attributes, equal where they are
  uint32_t tree;     // that has its attributes
  uint32_t first, n; // in compile.operands
  uint32_t weight;   // how many trees it stands for
};
struct compile_bound {
  uint32_t name, term;
};

struct compile {
  const struct rules_text *texts;
  uint32_t n_texts;
  struct rules_naming naming;
  struct arena *out; // the book's
  struct arena own;
  struct err *err;

  // All names and words, each once.
  TABLE(struct span, words);
  TABLE(uint32_t, slots);
  uint32_t empty, none, star; // "", "none", "*"
  TABLE(bool, named);         // by word: a rule has the name
  uint32_t n_passes;          // such words

  // The statement at hand.
  uint32_t file;
  TABLE(char, text);
  TABLE(uint32_t, where); // by character of it: where it stands in the file
  TABLE(struct compile_token, tokens);
  uint32_t token;
  uint32_t depth;
  uint32_t counted, line; // of the file: characters that were looked at for lines
  uint32_t set, n_set;    // the keys in force, in `keys`

  TABLE(uint32_t, keys);
  TABLE(struct compile_list, lists);
  TABLE(uint32_t, spell); // pairs
  TABLE(uint32_t, cells);
  TABLE(struct compile_tree, trees);
  TABLE(struct compile_rule, rules);
  TABLE(struct compile_name, bound);

  // The rule at hand, and what an 'each' of its result runs over.
  struct compile_rule *rule;
  struct {
    uint32_t name; // NO_ID: no 'each'
    char kind;
    uint8_t of; // the place of what it runs over, in the rule's names
  } loop;
  bool in_where;

  // The proof.
  TABLE(struct compile_case, cases);
  TABLE(struct compile_known, known);
  TABLE(struct compile_concrete, concrete);
  TABLE(uint32_t, cached);
  TABLE(struct compile_term, terms);
  TABLE(uint32_t, operands);
  TABLE(struct compile_bound, env);
  uint64_t steps;
  bool exhausted;
};

// ---- words (rules_compile.c) ------------------------------------------------------------------------

uint32_t rules_compile_word(struct compile *c, struct span word);
static inline const char *compile_text_of(const struct compile *c, uint32_t word) {
  return (const char *)c->words[word].at;
}
static inline bool compile_is_template(const struct compile *c, uint32_t word) {
  return c->words[word].n > 0 && memchr(c->words[word].at, '{', c->words[word].n) != NULL;
}
// The error: at a place of the file at hand. -1.
int rules_compile_fail(struct compile *c, uint32_t at, const char *fmt, ...) ERR_PRINTF(3, 4);
// The same of the rule at hand as a whole.
int rules_compile_fail_rule(struct compile *c, const char *fmt, ...) ERR_PRINTF(2, 3);
// Puts the words of a row in the place of {X}. NO_ID and an error at `at` where X is none of the rule's.
uint32_t rules_compile_fill(struct compile *c, const struct compile_rule *r, uint32_t row,
                            uint32_t word, uint32_t at);

// Operators, by what a rule writes: "Add", domains "ops" and "ms". OP_NONE: there is none.
enum op rules_compile_op(const struct compile *c, uint32_t domain, uint32_t name);
struct compile_op {
  const char *id, *name;
  uint8_t domain; // enum kit_domain
  uint8_t least, most;
  bool commutes, jumps, rounds;
};
extern const struct compile_op rules_compile_ops[];
// The operator of a tree, in a row.
enum op rules_compile_op_of(struct compile *c, const struct compile_rule *r, uint32_t row,
                            uint32_t tree);

struct compile_function {
  const char *name, *takes, *gives; // kinds: gives has one
};
extern const struct compile_function rules_compile_functions[];
// NO_ID: there is none of that name.
uint32_t rules_compile_function(const struct compile *c, uint32_t name);

// ---- reading ------------------------------------------------------------------------------------------

// Reads one text: lists, spellings, rules.
int compile_text_read(struct compile *c, uint32_t file);
// The body of c->rule, of which c->tokens are.
int compile_trees_read(struct compile *c);
// Calls `visit` for a tree, its attributes and children, from the outside in. NO_ID: for none.
int compile_trees_walk(struct compile *c, uint32_t tree,
                       int (*visit)(struct compile *c, uint32_t tree, void *ctx), void *ctx);
// The literals: numbers, inf, true, false, ones.
bool compile_trees_is_literal(struct span word, bool sign);

// ---- checking -----------------------------------------------------------------------------------------

int compile_check(struct compile *c);
// The place of a name in those of c->rule; `star`: of all attributes of a node. NO_ID: there is none.
uint32_t compile_check_name(const struct compile *c, uint32_t name, bool star, uint8_t owner);

// ---- the proof ----------------------------------------------------------------------------------------

// What conditions say of names, in alternatives: of c->rule.
int compile_cases_read(struct compile *c);
// 'c', 'v' or 0.
char compile_cases_letter(const struct compile *c, uint32_t known, uint32_t name);
// What is said for a rule without a condition.
#define COMPILE_KNOWS_NOTHING NO_ID

int compile_proof(struct compile *c);
// A pattern or result as a term. `known`: in compile.cases.
uint32_t compile_terms_of(struct compile *c, const struct compile_rule *r, uint32_t row,
                          uint32_t tree, uint32_t known);
bool compile_terms_smaller(struct compile *c, const struct compile_concrete *x, bool upwards);
// Is nothing rounded in another way before a comparison, or before what makes whole numbers, in rules that promise the same
// results up to rounding?
bool compile_terms_keep_jumps(struct compile *c, const struct compile_concrete *x);
// Does rule b, applied to the result of a, give a's pattern again? What b needs to be constant then is so
// in a too.
// Has the result fewer operators than the pattern in every case, whatever its names stand for? Of two
// such rules none undoes the other.
bool compile_terms_shrinks(struct compile *c, const struct compile_concrete *x);
bool compile_terms_undoes(struct compile *c, const struct compile_concrete *a,
                          const struct compile_concrete *b);
static inline bool compile_step(struct compile *c) {
  if (++c->steps > COMPILE_STEPS || c->n_terms > COMPILE_TERMS) c->exhausted = true;
  return !c->exhausted;
}
int compile_terms_exhausted(struct compile *c);

// ---- the book -----------------------------------------------------------------------------------------

// Distinct words by number, in the order in which they came.
struct compile_ids {
  TABLE(uint32_t, items);
  TABLE(uint32_t, at); // by word: its number + 1
};
struct compile_column {
  enum { COLUMN_OP, COLUMN_LITERAL, COLUMN_NAME } kind;
  uint32_t domain, text;
};
// What a pass is, beside its name: collected from its rules.
struct compile_pass {
  uint32_t summary; // NO_ID: none yet
  uint8_t loosest, least;
  TABLE(uint32_t, keys);
  TABLE(uint32_t, texts);
};
struct compile_row {
  uint16_t root;
  struct rules_entry entry;
};
struct compile_writer {
  struct compile *c;
  struct compile_ids words, ints, floats, literals, passes, gates;
  TABLE(int64_t, int_values);
  TABLE(double, float_values);
  TABLE(uint16_t, code);
  TABLE(uint16_t, cells);
  TABLE(struct rules_rule, rules);
  TABLE(struct compile_row, entries);
  TABLE(struct compile_pass, about); // by pass
  uint32_t deepest;

  // The rule at hand: some rows of it.
  uint32_t row, n_rows; // the first
  uint32_t from;        // where its program at hand begins
  struct compile_column columns[COMPILE_COLUMNS];
  uint32_t n_columns;
  uint8_t registers[COMPILE_NAMES]; // by place in the rule's names
  uint32_t n_registers;
  uint32_t n_nodes, n_choices, depth;
  uint8_t owner;   // of names: the 'each' of a pattern
  uint8_t running; // the register of the 'each' of the result
};

int compile_book(struct compile *c, struct rules_book *book);
// Writes the programs of c->rule; *rule gets their places.
int compile_write(struct compile_writer *w, struct rules_rule *rule);
uint32_t compile_book_id(struct compile_writer *w, struct compile_ids *ids, uint32_t word);
// An operator or literal as a word of a program: itself or its column.
uint16_t compile_book_op(struct compile_writer *w, const struct compile_tree *t);
uint16_t compile_book_literal(struct compile_writer *w, const struct compile_tree *t);

#endif
