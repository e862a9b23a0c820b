// Files of rules as one C file of constant tables, as compile_rules.py writes it: test_rules_compiler.py compares the
// two. The build of weir uses compile_rules.py.
//
//   rules_compiler --name BOOK [--catalogue] -o OUT.c FILE.rules...
//
// BOOK is the name of the struct rules_book; --catalogue adds a row of the catalogue for each of its passes
// (rules_passes). What is wrong with a rule is one line on stderr, and the exit code is 1.
#include "passes/exactness.h"
#include "passes/rules/compile/rules_compile.h"
#include "passes/rules/compile/rules_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void give_up(const char *path) {
  perror(path);
  exit(2);
}

static struct span read_file(const char *path, struct arena *a) {
  FILE *f = fopen(path, "rb");
  if (!f) give_up(path);
  uint8_t *bytes = arena_alloc(a, RULES_TEXT_BYTES + 1);
  const size_t n = fread(bytes, 1, RULES_TEXT_BYTES + 1, f);
  if (ferror(f)) give_up(path);
  fclose(f);
  return span_of(bytes, n);
}

// ---- C ----------------------------------------------------------------------------------------------

static void put_text(FILE *out, const char *s) {
  fputc('"', out);
  for (; *s; s++) {
    if (strchr("\\\"?", *s)) fputc('\\', out);
    fputc(*s, out);
  }
  fputc('"', out);
}

// A double with as many digits as tell it from all others, and with a point or an exponent.
static void put_double(FILE *out, double x) {
  char text[40];
  int digits = 1;
  do
    snprintf(text, sizeof text, "%.*g", digits, x);
  while (strtod(text, NULL) != x && ++digits <= 17);
  fprintf(out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

// A table of rows, so many of them a line; an empty one has a row that nobody reads.
struct table {
  FILE *out;
  uint32_t n, per;
};
static struct table begin(FILE *out, const char *type, const char *name, uint32_t per) {
  fprintf(out, "static const %s %s[] = {\n", type, name);
  return (struct table){out, 0, per};
}
static FILE *row(struct table *t) {
  if (t->n > 0) fprintf(t->out, t->n % t->per ? "," : ",\n");
  fprintf(t->out, t->n % t->per ? " " : "    ");
  t->n++;
  return t->out;
}
static void end(struct table *t, const char *empty) {
  if (t->n == 0) fprintf(row(t), "%s", empty);
  fprintf(t->out, ",\n};\n");
}

static void put_passes(FILE *out, const struct rules_book *b) {
  for (uint32_t i = 0; i < b->n_passes; i++) {
    fprintf(out, "static const char *const texts%u[] = {", i);
    for (uint32_t k = 0; b->passes[i].texts[k]; k++)
      put_text(out, b->passes[i].texts[k]), fprintf(out, ", ");
    fprintf(out, "NULL};\n");
  }
  struct table t = begin(out, "struct rules_pass", "passes", 1);
  for (uint32_t i = 0; i < b->n_passes; i++) {
    const struct rules_pass *p = &b->passes[i];
    fprintf(row(&t), "{"), put_text(out, p->name), fprintf(out, ", ");
    put_text(out, p->summary), fprintf(out, ", ");
    put_text(out, p->keys);
    fprintf(out, ", %u, %u, texts%u}", p->exactness, p->most, i);
  }
  end(&t, "{0}");
}

static void put_rules(FILE *out, const struct rules_book *b) {
  struct table t = begin(out, "struct rules_rule", "rules", 1);
  for (uint32_t i = 0; i < b->n_rules; i++) {
    const struct rules_rule *r = &b->rules[i];
    fprintf(row(&t), "{%u, ", r->pattern);
    fprintf(out, r->where == NO_ID ? "NO_ID" : "%u", r->where);
    fprintf(out, ", %u, %u, %u, %u, %u, %u, %u, %u, %u, %u, ", r->result, r->cells, r->n_columns,
            r->n_rows, r->root, r->exactness, r->depth, r->n_registers, r->since, r->once);
    put_text(out, r->place), fprintf(out, ", ");
    put_text(out, r->text), fprintf(out, "}");
  }
  end(&t, "{0}");
}

static void put_entries(FILE *out, const struct rules_book *b) {
  struct table t = begin(out, "struct rules_entry", "entries", 6);
  for (uint32_t i = 0; i < b->n_entries; i++) {
    const struct rules_entry *e = &b->entries[i];
    fprintf(row(&t), "{%u, %u, {%u, %u}, %u}", e->rule, e->row, e->gates[0], e->gates[1],
            e->either);
  }
  end(&t, "{0}");
}

static void put_literals(FILE *out, const struct rules_book *b) {
  static const char *const kinds[] = {"RULES_WHOLE", "RULES_REAL", "RULES_TRUTH", "RULES_ONES"};
  struct table t = begin(out, "struct rules_literal", "literals", 4);
  for (uint32_t i = 0; i < b->n_literals; i++) {
    const struct rules_literal *l = &b->literals[i];
    fprintf(row(&t), "{%s, %s, ", kinds[l->kind], integer(l->i).s);
    if (l->d == INFINITY || l->d == -INFINITY)
      fprintf(out, "%sINFINITY", l->d < 0 ? "-" : "");
    else
      put_double(out, l->d);
    fprintf(out, "}");
  }
  end(&t, "{0}");
}

static void put_numbers(FILE *out, const struct rules_book *b) {
  struct table t = begin(out, "uint8_t", "floors", 24);
  for (uint32_t i = 0; i < OPS; i++)
    fprintf(row(&t), "%u", b->floors[i]);
  end(&t, "0");
  t = begin(out, "uint8_t", "real_floors", 24);
  for (uint32_t i = 0; i < OPS; i++)
    fprintf(row(&t), "%u", b->real_floors[i]);
  end(&t, "0");
  t = begin(out, "uint32_t", "roots", 16);
  for (uint32_t i = 0; i <= OPS; i++)
    fprintf(row(&t), "%u", b->roots[i]);
  end(&t, "0");
  t = begin(out, "uint64_t", "gates", 4);
  for (uint32_t i = 0; i < b->n_gates * b->gate_words; i++)
    fprintf(row(&t), "0x%" PRIx64 "u", b->gates[i]);
  end(&t, "0");
  t = begin(out, "int64_t", "ints", 8);
  for (uint32_t i = 0; i < b->n_ints; i++)
    fprintf(row(&t), "%s", integer(b->ints[i]).s);
  end(&t, "0");
  t = begin(out, "double", "floats", 8);
  for (uint32_t i = 0; i < b->n_floats; i++)
    put_double(row(&t), b->floats[i]);
  end(&t, "0");
  t = begin(out, "char *const", "words", 8);
  for (uint32_t i = 0; i < b->n_words; i++)
    put_text(row(&t), b->words[i]);
  end(&t, "\"\"");
  t = begin(out, "uint16_t", "cells", 16);
  for (uint32_t i = 0; i < b->n_cells; i++)
    fprintf(row(&t), "%u", b->cells[i]);
  end(&t, "0");
  t = begin(out, "uint16_t", "code", 16);
  for (uint32_t i = 0; i < b->n_code; i++)
    fprintf(row(&t), "%u", b->code[i]);
  end(&t, "0");
}

static void put_book(FILE *out, const char *name, const struct rules_book *b) {
  fprintf(out, "// Generated by rules_compiler; do not edit.\n#include \"rules_tables.h\"\n\n");
  put_passes(out, b);
  put_rules(out, b);
  put_entries(out, b);
  put_literals(out, b);
  put_numbers(out, b);
  fprintf(out, "const struct rules_book %s = {\n", name);
  fprintf(out, "    passes, rules, entries, roots, gates, floors, real_floors, literals, ints, "
               "floats, words, cells, code,\n");
  fprintf(out, "    %u, %u, %u, %u, %u,\n", b->n_passes, b->n_rules, b->n_entries, b->gate_words,
          b->depth);
  fprintf(out, "    %u, %u, %u, %u, %u, %u, %u,\n};\n", b->n_literals, b->n_ints, b->n_floats,
          b->n_words, b->n_cells, b->n_code, b->n_gates);
  fprintf(out, "_Static_assert(OPS == %u, \"made for other operators\");\n", (unsigned)OPS);
}

int main(int argc, char **argv) {
  const char *name = NULL, *path = NULL;
  struct rules_text *texts = calloc((size_t)argc + 1, sizeof *texts);
  struct arena a = {0};
  struct rules_book book;
  struct err err = {0};
  uint32_t n = 0;
  if (!texts) give_up(argv[0]);
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--name") == 0 && i + 1 < argc)
      name = argv[++i];
    else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
      path = argv[++i];
    else
      texts[n++] = (struct rules_text){path_base(argv[i]), read_file(argv[i], &a)};
  }
  if (!name || !path || n == 0) {
    fprintf(stderr, "usage: rules_compiler --name BOOK -o OUT.c FILE.rules...\n");
    return 2;
  }
  int rc = rules_compile(texts, n, NULL, &a, &book, &err) ? 1 : 0;
  if (rc) {
    fprintf(stderr, "%s\n", err.msg);
    if (err.hint[0]) fprintf(stderr, "hint: %s\n", err.hint);
  } else {
    FILE *out = fopen(path, "wb");
    if (!out) give_up(path);
    put_book(out, name, &book);
    if (fclose(out)) give_up(path);
  }
  arena_free(&a);
  free(texts);
  return rc;
}
