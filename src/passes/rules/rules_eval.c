// Conditions and results: a small stack machine over the registers that the pattern filled.
//
// Conditions have three values. What the model does not tell (a rank, a dim, an element that is not
// at hand) is UNKNOWN, and so is what is computed of it, unless it does not matter: false & unknown
// is false. A rule fires where its condition is true, so nothing fires by not knowing. Results are
// the same machine: their terms (rules_build.c) are UNKNOWN where they cannot be made, and a node
// of an unknown operand is unknown.
//
// Programs have no jumps back but those of FOR, which runs once for each operand of a node, and
// programs come from the compiler, which checked kinds: an operand of the wrong kind is one whose
// value is absent or unknown, and gives UNKNOWN.
#include "passes/rules/inside/rules_functions.h"

#include <assert.h>

enum { STACK = 64 };

struct machine {
  struct rules_run *run;
  struct rules_value *stack; // `small`, or one of the match at hand
  uint32_t n, room;
  uint32_t turn; // of FOR
  struct rules_value small[STACK];
};

static void push(struct machine *m, struct rules_value v) {
  if (m->n == m->room) { // a node of many operands
    struct rules_value *more = arena_alloc(&m->run->match, 2 * (size_t)m->room * sizeof *more);
    memcpy(more, m->stack, m->n * sizeof *more);
    m->stack = more;
    m->room *= 2;
  }
  m->stack[m->n++] = v;
}

static struct rules_value pop(struct machine *m) {
  assert(m->n > 0);
  return m->stack[--m->n];
}

int rules_truth(const struct rules_value *v) {
  switch (v->kind) {
  case RULES_UNKNOWN: return -1;
  case RULES_ABSENT: return 0;
  case RULES_INT: return v->i == RULES_NO_DIM ? -1 : v->i != 0;
  case RULES_FLOAT: return v->d != 0;
  default: return 1;
  }
}

static struct rules_value truth(int t) {
  return t < 0 ? rules_unknown() : rules_int(t);
}

static struct rules_value compare(uint32_t how, const struct rules_value *a,
                                  const struct rules_value *b) {
  if (how == 6) { // in
    if (b->kind != RULES_LIST || a->kind != RULES_INT) return rules_unknown();
    int any = 0;
    for (uint32_t i = 0; i < b->n && any != 1; i++) {
      const struct rules_value x = rules_int(b->list[i]);
      const int same = rules_equal(a, &x);
      any = same == 1 ? 1 : same < 0 ? -1 : any;
    }
    return truth(any);
  }
  if (how < 2) {
    const int same = rules_equal(a, b);
    return truth(same < 0 ? -1 : same == (how == 0));
  }
  if ((a->kind != RULES_INT && a->kind != RULES_FLOAT) ||
      (b->kind != RULES_INT && b->kind != RULES_FLOAT))
    return rules_unknown();
  if ((a->kind == RULES_INT && !rules_is_number(a->i)) ||
      (b->kind == RULES_INT && !rules_is_number(b->i)))
    return rules_unknown();
  const double x = a->kind == RULES_INT ? (double)a->i : a->d,
               y = b->kind == RULES_INT ? (double)b->i : b->d;
  return rules_int(how == 2 ? x < y : how == 3 ? x <= y : how == 4 ? x > y : x >= y);
}

// Places from the end are negative; those out of range are unknown.
static struct rules_value index_of(const struct rules_value *list, const struct rules_value *at) {
  if (at->kind != RULES_INT) return rules_unknown();
  if (list->kind == RULES_PAIR && (at->i == 0 || at->i == 1))
    return rules_list(list->list + at->i * (list->n / 2), list->n / 2);
  if (list->kind != RULES_LIST) return rules_unknown();
  const int64_t i = at->i < 0 ? at->i + list->n : at->i;
  if (i < 0 || i >= list->n) return rules_unknown();
  return rules_int(list->list[i]);
}

static int64_t clamp(int64_t i, uint32_t n) {
  if (i < 0) i += n;
  return i < 0 ? 0 : i > n ? n : i;
}

// list[a:b]; an end that is absent is the list's.
static struct rules_value slice_of(struct machine *m, uint16_t has) {
  const struct rules_value last = has & 2 ? pop(m) : (struct rules_value){0};
  const struct rules_value first = has & 1 ? pop(m) : (struct rules_value){0};
  const struct rules_value list = pop(m);
  if (list.kind != RULES_LIST || last.kind == RULES_UNKNOWN || first.kind == RULES_UNKNOWN)
    return rules_unknown();
  const int64_t from = first.kind == RULES_INT ? clamp(first.i, list.n) : 0;
  const int64_t to = last.kind == RULES_INT ? clamp(last.i, list.n) : list.n;
  return rules_list(list.list + from, to > from ? (uint32_t)(to - from) : 0);
}

static struct rules_value list_of(struct machine *m, uint32_t n) {
  int64_t *list = arena_alloc(&m->run->match, (n + 1) * sizeof *list);
  bool known = true;
  for (uint32_t i = n; i-- > 0;) {
    const struct rules_value v = pop(m);
    known = known && v.kind == RULES_INT;
    list[i] = v.kind == RULES_INT ? v.i : 0;
  }
  return known ? rules_list(list, n) : rules_unknown();
}

// Element `turn` of what FOR runs over.
static struct rules_value element(const struct rules_value *of, uint32_t turn) {
  if (of->kind == RULES_MANY) return rules_tensor(of->many[turn]);
  return (struct rules_value){.kind = RULES_ELEMENT, .each = of->each + (size_t)turn * of->fields};
}

// The loop at `w` enters its body for the next operand that is there, or ends. What is left out
// stays so.
static const uint16_t *turn(struct machine *m, const uint16_t *w, uint32_t from) {
  const struct rules_value *of = &m->run->registers[w[2]];
  for (m->turn = from; m->turn < of->n; m->turn++) {
    const struct rules_value v = element(of, m->turn);
    if (v.kind != RULES_ABSENT) {
      m->run->registers[w[1]] = v;
      return w + 4;
    }
    push(m, v);
  }
  return w + 4 + w[3];
}

// The model's names move when it is edited.
static const struct span *texts_of(struct rules_run *run, const struct rules_value *v) {
  struct span *texts = arena_alloc(&run->match, (v->n + (size_t)1) * sizeof *texts);
  for (uint32_t i = 0; i < v->n; i++) {
    const struct span name = model_name(run->k.m, (uint32_t)v->list[i]);
    texts[i] = span_of(arena_string(&run->match, name), name.n);
  }
  return texts;
}

static bool attribute_of(struct rules_run *run, const struct rules_value *v, const char *name,
                         struct edit_attr *out) {
  *out = (struct edit_attr){.name = name, .recipe = NO_ID, .graph = NO_ID};
  switch (v->kind) {
  case RULES_INT: out->type = ATTR_INT, out->i = v->i; return rules_is_number(v->i);
  case RULES_FLOAT: out->type = ATTR_FLOAT, out->f = (float)v->d; return true;
  case RULES_STRING: out->type = ATTR_STRING, out->s = rules_text(v); return true;
  case RULES_TEXTS:
    out->type = ATTR_STRINGS, out->strings = texts_of(run, v), out->n = v->n;
    return true;
  case RULES_LIST:
    out->type = ATTR_INTS, out->ints = v->list, out->n = v->n;
    for (uint32_t i = 0; i < v->n; i++)
      if (!rules_is_number(v->list[i])) return false;
    return true;
  default: return false;
  }
}

// op star n word[n]: the operands lie between the mark and the n attribute values. What is absent
// is left out.
static void node(struct machine *m, const uint16_t *w) {
  struct rules_run *run = m->run;
  const uint32_t n_values = w[3];
  struct edit_attr attrs[16];
  uint32_t n_attrs = 0, attrs_of = NO_ID;
  bool known = n_values <= 16;
  assert(known);
  for (uint32_t i = 0; i < n_values; i++) {
    const struct rules_value *v = &m->stack[m->n - n_values + i];
    if (v->kind == RULES_ABSENT) continue;
    known = known && attribute_of(run, v, run->book->words[w[4 + i]], &attrs[n_attrs]);
    n_attrs++;
  }
  m->n -= n_values;
  uint32_t first = m->n;
  while (m->stack[first - 1].kind != RULES_MARK)
    first--;
  for (uint32_t i = first; i < m->n; i++)
    known = known && (m->stack[i].kind == RULES_ABSENT || m->stack[i].kind == RULES_TENSOR ||
                      m->stack[i].kind == RULES_TERM);
  // Of an alternative that was not taken there are none.
  if (w[2] != RULES_NOTHING && run->registers[w[2]].kind == RULES_NODE)
    attrs_of = run->registers[w[2]].id;
  const struct rules_value made =
      known ? rules_new_node(run, (enum op)rules_cell(run, w[1]), m->stack + first, m->n - first,
                             attrs_of, attrs, n_attrs)
            : rules_unknown();
  m->n = first - 1;
  push(m, made);
}

static struct rules_value literal(const struct rules_literal *l) {
  if (l->kind == RULES_WHOLE) return rules_int(l->i);
  return (struct rules_value){.kind = RULES_WORD, .literal = l};
}

struct rules_value rules_eval(struct rules_run *run, uint32_t program) {
  static struct rules_value (*const functions[])(struct rules_run *, const struct rules_value *) = {
#define RULES_FUNCTION(name, arguments, result) rules_call_##name,
#include "passes/rules/compile/rules_functions.def"
  };
  struct machine m; // the stack is not cleared: it is large, and this is called often
  m.run = run, m.stack = m.small, m.n = 0, m.room = STACK, m.turn = 0;
  const struct rules_book *b = run->book;
  const uint16_t *w = b->code + program;
  struct rules_value x, y;
  for (;;)
    switch ((enum rules_word) * w) {
    case RULES_E_END: return pop(&m);
    case RULES_E_SMALL: push(&m, rules_int(w[1])), w += 2; break;
    case RULES_E_INT: push(&m, rules_int(b->ints[w[1]])), w += 2; break;
    case RULES_E_FLOAT:
      push(&m, (struct rules_value){.kind = RULES_FLOAT, .d = b->floats[w[1]]}), w += 2;
      break;
    case RULES_E_REG: push(&m, run->registers[w[1]]), w += 2; break;
    case RULES_E_LITERAL: push(&m, literal(b->literals + rules_cell(run, w[1]))), w += 2; break;
    case RULES_E_TEXT:
      push(&m, (struct rules_value){.kind = RULES_STRING,
                                    .n = (uint32_t)strlen(b->words[w[1]]),
                                    .text = (const uint8_t *)b->words[w[1]]}),
          w += 2;
      break;
    case RULES_E_NONE: push(&m, (struct rules_value){0}), w += 1; break;
    case RULES_E_FIELD: push(&m, run->registers[w[1]].each[w[2]]), w += 3; break;
    case RULES_E_LIST: push(&m, list_of(&m, w[1])), w += 2; break;
    case RULES_E_CALL:
      push(&m, (struct rules_value){.kind = RULES_MARK});
      m.n -= w[2] + 1u;
      x = functions[w[1]](run, m.stack + m.n);
      push(&m, x), w += 3;
      break;
    case RULES_E_NOT:
      x = pop(&m);
      push(&m, truth(rules_truth(&x) < 0 ? -1 : !rules_truth(&x))), w += 1;
      break;
    case RULES_E_AND: w += 2 + (rules_truth(&m.stack[m.n - 1]) == 0 ? w[1] : 0); break;
    case RULES_E_OR: w += 2 + (rules_truth(&m.stack[m.n - 1]) == 1 ? w[1] : 0); break;
    case RULES_E_BOTH:
    case RULES_E_EITHER: {
      y = pop(&m), x = pop(&m);
      const int s = rules_truth(&x), t = rules_truth(&y), decides = *w == RULES_E_EITHER;
      push(&m, truth(s == decides || t == decides ? decides
                     : s < 0 || t < 0             ? -1
                                                  : !decides)),
          w += 1;
      break;
    }
    case RULES_E_CMP:
      y = pop(&m), x = pop(&m);
      push(&m, compare(w[1], &x, &y)), w += 2;
      break;
    case RULES_E_INDEX:
      y = pop(&m), x = pop(&m);
      push(&m, index_of(&x, &y)), w += 1;
      break;
    case RULES_E_SLICE: push(&m, slice_of(&m, w[1])), w += 2; break;
    case RULES_E_BRANCH:
      x = pop(&m);
      if (rules_truth(&x) < 0) return rules_unknown();
      w += 2 + (rules_truth(&x) ? 0 : w[1]);
      break;
    case RULES_E_JUMP: w += 2 + w[1]; break;
    case RULES_E_ELSE:
      if (m.stack[m.n - 1].kind == RULES_ABSENT)
        m.n--, w += 2;
      else
        w += 2 + w[1];
      break;
    case RULES_E_INTS:
      x = pop(&m);
      push(&m, x.kind == RULES_LIST ? rules_new_ints(run, x.list, x.n) : rules_unknown()), w += 1;
      break;
    case RULES_E_SET: run->registers[w[1]] = m.stack[m.n - 1], w += 2; break;
    case RULES_E_FOR: w = turn(&m, w, 0); break;
    case RULES_E_NEXT: w = turn(&m, w - w[1] - 2, m.turn + 1); break;
    case RULES_E_MARK: push(&m, (struct rules_value){.kind = RULES_MARK}), w += 1; break;
    case RULES_E_NODE:
      node(&m, w);
      w += 4 + w[3];
      break;
    }
}
