// The tables of a book: rules with their rows, passes, entries by root operator, gates, and whatever is
// named by number. All of it is collected in the writer first and then laid into the caller's arena.
#include "passes/rules/compile/inside/compile_inside.h"

#include "base/table.h"
#include "passes/exactness.h"
#include "schema/schema.h"

#include <stdlib.h>

// ---- numbers ----------------------------------------------------------------------------------------

uint32_t compile_book_id(struct compile_writer *w, struct compile_ids *ids, uint32_t word) {
  if (ids->n_at <= word) TABLE_ADD(ids, at, w->c->n_words - ids->n_at);
  if (ids->at[word] == 0) {
    *TABLE_PUSH(ids, items) = word;
    ids->at[word] = ids->n_items;
  }
  return ids->at[word] - 1;
}

// Equal columns are one. Past the last there is no room: that is found when the rule is done.
static uint16_t column_of(struct compile_writer *w, struct compile_column x) {
  uint32_t i = 0;
  while (i < w->n_columns && (w->columns[i].kind != x.kind || w->columns[i].domain != x.domain ||
                              w->columns[i].text != x.text))
    i++;
  if (i == w->n_columns && i < COMPILE_COLUMNS) w->columns[w->n_columns++] = x;
  return (uint16_t)(RULES_COLUMN | i);
}

uint16_t compile_book_op(struct compile_writer *w, const struct compile_tree *t) {
  if (compile_is_template(w->c, t->text))
    return column_of(w, (struct compile_column){COLUMN_OP, t->domain, t->text});
  return (uint16_t)rules_compile_op(w->c, t->domain, t->text);
}

uint16_t compile_book_literal(struct compile_writer *w, const struct compile_tree *t) {
  if (compile_is_template(w->c, t->text))
    return column_of(w, (struct compile_column){COLUMN_LITERAL, w->c->empty, t->text});
  return (uint16_t)compile_book_id(w, &w->literals, t->text);
}

// ---- passes -----------------------------------------------------------------------------------------

// The name in a row, spelled as the book wants it where a row has a word that is spelled otherwise.
static uint32_t spelled(struct compile *c, const struct compile_rule *r, uint32_t row,
                        uint32_t name) {
  for (uint32_t i = 0; i < c->n_spell; i += 2) {
    bool has = false;
    for (uint32_t k = 0; k < r->n_vars; k++)
      has = has || c->cells[r->rows + row * r->n_vars + k] == c->spell[i];
    if (!has) continue;
    const char *text = compile_text_of(c, name), *before = compile_text_of(c, c->spell[i]);
    const char *made = "";
    for (const char *at; (at = strstr(text, before)); text = at + strlen(before))
      made = arena_printf(&c->own, "%s%.*s%s", made, (int)(at - text), text,
                          compile_text_of(c, c->spell[i + 1]));
    name = rules_compile_word(c, span_str(arena_printf(&c->own, "%s%s", made, text)));
  }
  return name;
}

static bool is_name_of_pass(struct span s) {
  for (size_t i = 0; i < s.n; i++) {
    const uint8_t x = s.at[i];
    const bool letter = (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z');
    if (!letter && (i == 0 || !x || !strchr("0123456789_/-", x))) return false;
  }
  return s.n > 0;
}

// The text of a rule but for its name and summary: "exact for F in Add Mul: {F}(x) -> x"; in a row of a
// template without its loops, and with the row's words.
static uint32_t text_in(struct compile *c, const struct compile_rule *r, uint32_t row,
                        bool template) {
  static const char *const levels[] = {"exact", "zero", "rounding", "finite"};
  const char *text = r->text, *made = "", *level = levels[r->level];
  const char *at = strchr(text, ' ');
  for (; *at == ' ';) { // words of the head; its last one is the level
    at++;
    size_t n = strcspn(at, " :");
    if (*at == '"' && at[1] != '"') {
      n = strcspn(at + 1, "\"") + 2; // the summary
    } else {
      while (at[n] == ':' && at[n + 1] == ':')
        n += 2 + strcspn(at + n + 2, " :");
      const bool last = at[n] == ':' || (at[n] == ' ' && at[n + 1] == ':');
      if (last)
        level = arena_string(&c->own, span_of(at, n));
      else if (!template)
        made = arena_printf(&c->own, "%s %.*s", made, (int)n, at);
    }
    at += n;
    if (at[0] == ' ' && at[1] == ':') at++;
  }
  const char *body = at + 1 + strspn(at + 1, " ");
  made = arena_printf(&c->own, "%s%s: %s", level, made, body);
  const uint32_t word = rules_compile_word(c, span_str(made));
  return template ? rules_compile_fill(c, r, row, word, r->at) : word;
}

static void add_once(uint32_t **list, uint32_t *n, size_t *cap, uint32_t word) {
  for (uint32_t i = 0; i < *n; i++)
    if ((*list)[i] == word) return;
  *list = table_grow(*list, cap, *n + 1, sizeof **list);
  (*list)[(*n)++] = word;
}

// The pass of a row: its number; NO_ID with an error. What it is is collected.
static uint32_t pass_of(struct compile_writer *w, uint32_t row) {
  struct compile *c = w->c;
  const struct compile_rule *r = c->rule;
  uint32_t name = rules_compile_fill(c, r, row, r->name, r->at);
  if (name == NO_ID) return NO_ID;
  name = spelled(c, r, row, name);
  if (!is_name_of_pass(c->words[name])) {
    rules_compile_fail_rule(c, "'%s' is not a name", quote(c->words[name]).s);
    return NO_ID;
  }
  const uint32_t pass = compile_book_id(w, &w->passes, name);
  const char *objection = pass == w->n_about && c->naming.objection
                              ? c->naming.objection(compile_text_of(c, name))
                              : NULL;
  if (objection) {
    rules_compile_fail_rule(c, "%s", objection);
    err_fill_hint(c->err, "use another family and name for the rule");
    return NO_ID;
  }
  if (pass == w->n_about)
    *TABLE_PUSH(w, about) = (struct compile_pass){.summary = NO_ID, .least = EXACTNESSES};
  struct compile_pass *p = &w->about[pass];
  if (r->level > p->loosest) p->loosest = r->level;
  if (r->level < p->least) p->least = r->level;
  if (r->summary != NO_ID && p->summary == NO_ID) {
    p->summary = rules_compile_fill(c, r, row, r->summary, r->at);
    if (p->summary == NO_ID) return NO_ID;
  }
  const uint32_t text = text_in(c, r, row, compile_is_template(c, r->name));
  if (text == NO_ID) return NO_ID;
  add_once(&p->texts, &p->n_texts, &p->texts_cap, text);
  for (uint32_t k = 0; k < r->n_keys; k++)
    add_once(&p->keys, &p->n_keys, &p->keys_cap, c->keys[r->keys + k]);
  return pass;
}

// ---- rows -------------------------------------------------------------------------------------------

static int write_cell(struct compile_writer *w, const struct compile_column *x, uint32_t row) {
  struct compile *c = w->c;
  if (x->kind == COLUMN_NAME) {
    const uint32_t pass = pass_of(w, row);
    if (pass == NO_ID) return -1;
    *TABLE_PUSH(w, cells) = (uint16_t)pass;
    return 0;
  }
  const uint32_t word = rules_compile_fill(c, c->rule, row, x->text, c->rule->at);
  if (word == NO_ID) return -1;
  const uint32_t id = x->kind == COLUMN_OP ? (uint32_t)rules_compile_op(c, x->domain, word)
                                           : compile_book_id(w, &w->literals, word);
  *TABLE_PUSH(w, cells) = (uint16_t)id;
  return 0;
}

static int write_rows(struct compile_writer *w, struct rules_rule *rule) {
  if (w->n_columns == COMPILE_COLUMNS ||
      w->n_cells + (uint64_t)w->n_rows * (w->n_columns + 1) > COMPILE_CODE)
    return rules_compile_fail_rule(w->c, "the table of the rule is too large");
  column_of(w, (struct compile_column){COLUMN_NAME, w->c->empty, w->c->rule->name});
  rule->cells = w->n_cells;
  rule->n_columns = (uint16_t)w->n_columns, rule->n_rows = (uint16_t)w->n_rows;
  for (uint32_t row = w->row; row < w->row + w->n_rows; row++)
    for (uint32_t i = 0; i < w->n_columns; i++)
      if (!compile_step(w->c) || write_cell(w, &w->columns[i], row))
        return compile_terms_exhausted(w->c);
  return 0;
}

// ---- gates ------------------------------------------------------------------------------------------

// A set of operators; all: anything.
struct gate {
  bool all;
  uint64_t ops[(OPS + 64) / 64];
};

static void add_op(struct gate *g, uint32_t op) {
  g->ops[op / 64] |= (uint64_t)1 << op % 64;
}

static bool root_is_template(const struct compile_writer *w) {
  const struct compile_rule *r = w->c->rule;
  return compile_is_template(w->c, w->c->trees[r->pattern].text);
}

// Adds what may make such an operand in a row.
static void add_operand(struct compile_writer *w, uint32_t tree, uint32_t row, uint32_t known,
                        struct gate *g) {
  struct compile *c = w->c;
  const struct compile_tree t = c->trees[tree];
  const bool one = root_is_template(w);
  switch ((enum compile_kind)t.kind) {
  case TREE_VAR:
    if (compile_cases_letter(c, known, t.text) != 'c') break;
    add_op(g, OP_Constant), add_op(g, OP_Identity);
    return;
  case TREE_LIT: add_op(g, OP_Constant), add_op(g, OP_Identity); return;
  case TREE_OP:
    if (!compile_is_template(c, t.text)) {
      add_op(g, (uint32_t)rules_compile_op(c, t.domain, t.text));
      return;
    }
    for (uint32_t i = one ? row : w->row; i < (one ? row + 1 : w->row + w->n_rows); i++)
      add_op(g, (uint32_t)rules_compile_op_of(c, c->rule, i, tree));
    return;
  case TREE_ALT:
    for (uint32_t x = t.first; x != NO_ID; x = c->trees[x].next)
      add_operand(w, x, row, known, g);
    return;
  default: break;
  }
  g->all = true;
}

static uint16_t gate_id(struct compile_writer *w, const struct gate *g) {
  if (g->all) return 0;
  const uint32_t word = rules_compile_word(w->c, span_of(g->ops, sizeof g->ops));
  return (uint16_t)compile_book_id(w, &w->gates, word);
}

// Does the condition hold only where fits(name, ...) does?
static bool asks_fits(const struct compile *c, uint32_t tree, uint32_t name) {
  if (tree == NO_ID) return false;
  const struct compile_tree *t = &c->trees[tree];
  if (t->kind == TREE_AND)
    return asks_fits(c, t->first, name) || asks_fits(c, c->trees[t->first].next, name);
  return t->kind == TREE_CALL && span_is(c->words[t->text], "fits") &&
         c->trees[t->first].kind == TREE_NAME && c->trees[t->first].text == name;
}

static void write_entry(struct compile_writer *w, uint32_t number, uint32_t row) {
  struct compile *c = w->c;
  const struct compile_rule *r = c->rule;
  const struct compile_tree root = c->trees[r->pattern];
  const bool bound = root_is_template(w) || w->n_rows == 1;
  if (!bound && row > w->row) return;
  struct gate gates[2] = {{0}};
  struct compile_row e = {.root = (uint16_t)rules_compile_op_of(c, r, row, r->pattern)};
  uint32_t x = root.first;
  for (uint32_t k = 0; k < 2; k++) {
    gates[k].all = x == NO_ID;
    for (uint32_t known = 0; known < r->n_cases && !gates[k].all && compile_step(c); known++)
      add_operand(w, x, row, r->cases + known, &gates[k]);
    if (x != NO_ID) x = c->trees[x].next;
  }
  // One of the operands must be what the first alternative says.
  if (root.first != NO_ID && c->trees[root.first].kind == TREE_EACH &&
      rules_compile_ops[e.root].most <= 2 && asks_fits(c, r->where, c->trees[root.first].text)) {
    const uint32_t inner = c->trees[root.first].first;
    gates[0] = (struct gate){0}, gates[1] = (struct gate){.all = true};
    add_operand(w, c->trees[inner].kind == TREE_ALT ? c->trees[inner].first : inner, row,
                COMPILE_KNOWS_NOTHING, &gates[0]);
    e.entry.either = 1;
  }
  e.entry.rule = (uint16_t)number;
  e.entry.row = bound ? (uint16_t)(row - w->row) : RULES_NOTHING;
  e.entry.gates[0] = gate_id(w, &gates[0]);
  e.entry.gates[1] = gate_id(w, &gates[1]);
  *TABLE_PUSH(w, entries) = e;
}

// ---- rules ------------------------------------------------------------------------------------------

// Rows from `row` on as one rule of the book.
static int write_part(struct compile_writer *w, uint32_t row, uint32_t n) {
  const struct compile_rule *r = w->c->rule;
  struct rules_rule rule = {.exactness = r->level,
                            .since = r->since,
                            .once = r->once,
                            .place = r->place,
                            .text = r->text};
  const uint32_t number = w->n_rules;
  w->row = row, w->n_rows = n, w->n_columns = 0;
  if (compile_write(w, &rule)) return -1;
  rule.root = compile_book_op(w, &w->c->trees[r->pattern]);
  if (write_rows(w, &rule)) return -1;
  *TABLE_PUSH(w, rules) = rule;
  if (w->depth > w->deepest) w->deepest = w->depth;
  for (uint32_t i = row; i < row + n; i++)
    write_entry(w, number, i);
  if (w->c->exhausted) return compile_terms_exhausted(w->c);
  const uint32_t ids[] = {w->n_rules,        w->words.n_items, w->ints.n_items,
                          w->floats.n_items, w->gates.n_items, w->literals.n_items,
                          w->passes.n_items, w->n_entries};
  for (uint32_t i = 0; i < sizeof ids / sizeof *ids; i++)
    if (ids[i] > COMPILE_IDS) return rules_compile_fail_rule(w->c, "there are too many rules");
  return 0;
}

// The first operator with a column that is there whatever alternatives are taken.
static uint32_t telling(const struct compile *c, uint32_t tree) {
  const struct compile_tree *t = &c->trees[tree];
  if (t->kind != TREE_OP) return NO_ID;
  if (compile_is_template(c, t->text)) return tree;
  for (uint32_t x = t->first; x != NO_ID; x = c->trees[x].next) {
    const uint32_t found = telling(c, x);
    if (found != NO_ID) return found;
  }
  return NO_ID;
}

// Can the row of a template be told from an operator that every match has?
static bool rows_are_told(struct compile *c, const struct compile_rule *r) {
  if (r->n_rows == 1 || compile_is_template(c, c->trees[r->pattern].text)) return true;
  const uint32_t tree = telling(c, r->pattern);
  bool seen[OPS] = {false};
  for (uint32_t row = 0; row < r->n_rows && tree != NO_ID; row++) {
    const uint32_t op = rules_compile_op_of(c, r, row, tree);
    if (seen[op]) return false;
    seen[op] = true;
  }
  return tree != NO_ID;
}

static int write_all(struct compile_writer *w) {
  struct compile *c = w->c;
  for (uint32_t i = 0; i < c->n_rules; i++) {
    const struct compile_rule *r = c->rule = &c->rules[i];
    c->file = r->file;
    const uint32_t each = rows_are_told(c, r) ? r->n_rows : 1;
    for (uint32_t row = 0; row < r->n_rows; row += each)
      if (write_part(w, row, each)) return -1;
  }
  c->rule = NULL;
  return 0;
}

// ---- the book ---------------------------------------------------------------------------------------

static const char *kept(struct compile *c, uint32_t word) {
  return arena_string(c->out, c->words[word]);
}

static void *copied(struct arena *a, const void *rows, size_t bytes) {
  void *to = arena_zalloc(a, bytes + 8);
  if (bytes) memcpy(to, rows, bytes);
  return to;
}

static struct rules_pass *put_passes(struct compile_writer *w) {
  struct compile *c = w->c;
  struct rules_pass *passes = arena_zalloc(c->out, (w->n_about + 1) * sizeof *passes);
  for (uint32_t i = 0; i < w->n_about; i++) {
    const struct compile_pass *p = &w->about[i];
    const char *keys = "";
    const char **texts = arena_zalloc(c->out, (p->n_texts + 1) * sizeof *texts);
    for (uint32_t k = 0; k < p->n_keys; k++)
      keys = arena_printf(c->out, "%s%s%s", keys, k ? " " : "", compile_text_of(c, p->keys[k]));
    for (uint32_t k = 0; k < p->n_texts; k++)
      texts[k] = kept(c, p->texts[k]);
    passes[i] = (struct rules_pass){.name = kept(c, w->passes.items[i]),
                                    .summary = p->summary == NO_ID ? "" : kept(c, p->summary),
                                    .keys = keys,
                                    .exactness = p->loosest,
                                    .most = p->least,
                                    .texts = texts};
  }
  return passes;
}

static struct rules_literal literal_of(struct span s) {
  const char *text = (const char *)s.at;
  if (span_is(s, "ones")) return (struct rules_literal){RULES_ONES, 0, 0};
  if (span_is(s, "true")) return (struct rules_literal){RULES_TRUTH, 1, 1};
  if (span_is(s, "false")) return (struct rules_literal){RULES_TRUTH, 0, 0};
  if (strstr(text, "inf"))
    return (struct rules_literal){RULES_REAL, 0, text[0] == '-' ? -INFINITY : INFINITY};
  if (strchr(text, '.')) return (struct rules_literal){RULES_REAL, 0, strtod(text, NULL)};
  return (struct rules_literal){RULES_WHOLE, strtoll(text, NULL, 10),
                                (double)strtoll(text, NULL, 10)};
}

// The version since which the operator means what it means now, types and additions aside; `real`: where
// its first operand is of floats.
static uint8_t floor_of(uint32_t op, bool real) {
  const struct compile_op *row = &rules_compile_ops[op];
  const struct schema_operator *o = row->domain == KIT_ONNX && op != OP_NONE
                                        ? schema_operator_of(span_str(""), span_str(row->name))
                                        : NULL;
  int floor = 0;
  for (uint32_t v = 0; o && v < o->n_versions; v++) {
    const struct schema_signature *s = &o->versions[v];
    const bool same = s->change == CHANGE_same || (real && s->change == CHANGE_floating);
    if ((v == 0 || !same) && s->since > floor) floor = s->since;
  }
  return (uint8_t)floor;
}

// Entries by root, in the order of the rules; where those of each operator begin.
static void put_entries(struct compile_writer *w, struct rules_book *book) {
  uint32_t *roots = arena_zalloc(w->c->out, (OPS + 1) * sizeof *roots), at[OPS + 1] = {0};
  struct rules_entry *entries = arena_zalloc(w->c->out, (w->n_entries + 1) * sizeof *entries);
  for (uint32_t i = 0; i < w->n_entries; i++)
    at[w->entries[i].root + 1]++;
  for (uint32_t op = 0; op < OPS; op++)
    at[op + 1] += at[op];
  memcpy(roots, at, sizeof at);
  for (uint32_t i = 0; i < w->n_entries; i++)
    entries[at[w->entries[i].root]++] = w->entries[i].entry;
  book->roots = roots, book->entries = entries, book->n_entries = w->n_entries;
}

static void put_named(struct compile_writer *w, struct rules_book *book) {
  struct compile *c = w->c;
  const char **words = arena_zalloc(c->out, (w->words.n_items + 1) * sizeof *words);
  for (uint32_t i = 0; i < w->words.n_items; i++)
    words[i] = kept(c, w->words.items[i]);
  struct rules_literal *literals =
      arena_zalloc(c->out, (w->literals.n_items + 1) * sizeof *literals);
  for (uint32_t i = 0; i < w->literals.n_items; i++)
    literals[i] = literal_of(c->words[w->literals.items[i]]);
  const uint32_t each = (OPS + 63) / 64;
  uint64_t *gates = arena_zalloc(c->out, w->gates.n_items * each * sizeof *gates + 8);
  for (uint32_t i = 1; i < w->gates.n_items; i++)
    memcpy(gates + (size_t)i * each, c->words[w->gates.items[i]].at, each * sizeof *gates);
  book->words = words, book->n_words = w->words.n_items;
  book->literals = literals, book->n_literals = w->literals.n_items;
  book->gates = gates, book->n_gates = w->gates.n_items, book->gate_words = each;
}

static void put_book(struct compile_writer *w, struct rules_book *book) {
  struct arena *a = w->c->out;
  uint8_t *floors = arena_zalloc(a, OPS), *real_floors = arena_zalloc(a, OPS);
  for (uint32_t op = 0; op < OPS; op++)
    floors[op] = floor_of(op, false), real_floors[op] = floor_of(op, true);
  *book = (struct rules_book){.floors = floors, .real_floors = real_floors, .depth = w->deepest};
  put_entries(w, book);
  put_named(w, book);
  book->passes = put_passes(w), book->n_passes = w->n_about;
  book->rules = copied(a, w->rules, w->n_rules * sizeof *w->rules), book->n_rules = w->n_rules;
  book->ints = copied(a, w->int_values, w->n_int_values * sizeof *w->int_values);
  book->floats = copied(a, w->float_values, w->n_float_values * sizeof *w->float_values);
  book->cells = copied(a, w->cells, w->n_cells * sizeof *w->cells);
  book->code = copied(a, w->code, w->n_code * sizeof *w->code);
  book->n_ints = w->n_int_values, book->n_floats = w->n_float_values;
  book->n_cells = w->n_cells, book->n_code = w->n_code;
}

static void free_ids(struct compile_ids *ids) {
  TABLES_FREE(ids, items, at);
}

int compile_book(struct compile *c, struct rules_book *book) {
  struct compile_writer w = {.c = c};
  compile_book_id(&w, &w.gates, c->empty); // anything
  const int rc = write_all(&w);
  if (rc == 0) put_book(&w, book);
  struct compile_ids *const ids[] = {&w.words,    &w.ints,   &w.floats,
                                     &w.literals, &w.passes, &w.gates};
  for (uint32_t i = 0; i < sizeof ids / sizeof *ids; i++)
    free_ids(ids[i]);
  for (uint32_t i = 0; i < w.n_about; i++)
    TABLES_FREE(&w.about[i], keys, texts);
  TABLES_FREE(&w, int_values, float_values, code, cells, rules, entries, about);
  return rc;
}
