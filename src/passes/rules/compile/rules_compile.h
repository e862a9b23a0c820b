// Room: the compiler of rules: texts in the language of README.md (the folder above) become a book of tables
// (rules_tables.h), in memory. It compiles a user's files while weir runs. The house's own files are compiled by
// compile_rules.py while weir is built; test_rules_compiler.py compares the two compilers.
//
//   text ─▶ statements, tokens (compile_text.c) ─▶ trees (compile_trees.c)
//        ─▶ every name bound, every kind right, every operator known (compile_check.c)
//        ─▶ rewriting ends (compile_terms.c, compile_proof.c)
//        ─▶ programs and tables (compile_write.c, compile_book.c)
//
// A text may come from anyone: whatever it holds, there is a book or an error that says where. What a
// text may cost is bounded: its size, its statements, rows and depth, and the steps of the proof.
#ifndef WEIR_RULES_COMPILE_H
#define WEIR_RULES_COMPILE_H

#include "base/arena.h"
#include "base/err.h"

struct rules_book;

struct rules_text {
  const char *name; // as messages and reports call it: "tidy.rules"
  struct span text;
};
enum { RULES_TEXT_BYTES = 1 << 20 }; // of all texts of a book

// What a user's rules are called: own: FAMILY/NAME, and rules that are in no set are in that of their
// family. objection: why a pass cannot have a name (a sentence), or NULL; may be NULL.
struct rules_naming {
  bool own;
  const char *(*objection)(const char *name);
};

// Makes one book of n texts: lists, sets and spellings of one hold in those behind it. The book lies in
// *a and keeps no pointer to the texts. `naming`: of a user's rules, else NULL. ERR_USAGE: "my.rules:3:14: there is no operator 'Idenity'", the
// column counted in characters from 1, and a hint.
int rules_compile(const struct rules_text *texts, uint32_t n, const struct rules_naming *naming,
                  struct arena *a, struct rules_book *book, struct err *err);

#endif
