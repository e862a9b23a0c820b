// A run: every graph to its fixpoint, one after the other.
//
//   walk     nodes in topological order; what a rewrite makes is visited at once, before the walk
//            goes on
//   queue    what was visited before and may match now: users of what changed, as far away as the
//            deepest rule can see, and the user that an operand still has when another one went
//   late     places that were rewritten PATIENCE times wait until the walk and the queue are done, and
//            are visited from the last to the first
//   once     a rule with that word is about no node that such a rule made, nor about what became of one; in a
//            repeat its pass rests from the next round on, in a graph where it fired
//   again    a walk from the start where the queue could not hold all of that (a value with very
//            many users)
//   ask      when nothing fires any more in any graph: what rules want to know of large constants
//            (rules_facts.c), all of it at once; then the walks once more
//
// A node costs one look into a table: its operator and what makes its first two operands pick the
// entries whose gates let them through, and for nearly all nodes there are none. So the cost does
// not depend on how many rules there are, only on how many kinds of neighbours a model has.
//
// Why places wait: an operator that moves towards the inputs (a Reshape past what is elementwise, a
// MatMul past factors) moves against the walk. Each one of many would pass all that the ones before it
// passed, n²/2 moves. From the last to the first it passes one node, meets the operator that waits
// there, and goes on as one with it:
//
//   Sigmoid Reshape Sigmoid Reshape Sigmoid Reshape  ──▶  Sigmoid Reshape Sigmoid Sigmoid Reshape'  ──▶  …
//
// Where operators that meet do not become one (factors whose product has no place in their type) n²/2
// moves are all there is. So the late visits of a run have a budget in each graph, a few rewrites for
// each of its nodes, whatever other graphs took. Then what waits stays where it is, and repeats go on
// without the passes that are worn in that graph: 64 rounds would be 64 budgets.
//
// Rules are proved to end when they are compiled, but not all of what they see is proved (constants
// that could fold, and did not). Two guards stop them: a digest of the outputs after every turn of
// the queue, which must be new, and fuel: what one place gives rise to is rewritten so often and no
// more. Both warn and name the rules.
#include "passes/rules/inside/rules_inside.h"

#include "base/table.h"

#include <stdio.h>

enum { QUEUED = 1, VISITED = 2, COUNTED = 4, TOLD = 8, WAITS = 16, MADE_ONCE = 32 };
enum { PATIENCE = 3 }; // rewrites of one place, before it waits
enum { BUDGET = 3 };   // late rewrites for each node of a graph
enum { USES = 32 };    // of a value, that are put down after a rewrite

uint32_t rules_n_passes(const struct rules_book *book) {
  return book->n_passes;
}

struct rules_about rules_about(const struct rules_book *book, uint32_t pass) {
  const struct rules_pass *p = &book->passes[pass];
  return (struct rules_about){p->name, p->summary, p->keys, (enum exactness)p->exactness};
}

uint32_t rules_count(const struct rules_book *book) {
  return book->n_rules;
}

const char *rules_place_of(const struct rules_book *book, uint32_t rule) {
  return book->rules[rule].place;
}

uint32_t rules_named(const struct rules_book *book, struct span name) {
  for (uint32_t i = 0; i < book->n_passes; i++)
    if (span_is(name, book->passes[i].name)) return i;
  return NO_ID;
}

const char *rules_template(const struct rules_book *book, uint32_t pass) {
  for (const struct rules_rule *r = book->rules; r < book->rules + book->n_rules; r++)
    for (uint32_t row = 1; row <= r->n_rows; row++)
      if (book->cells[r->cells + row * r->n_columns - 1] == pass) return r->place;
  return NULL;
}

// ---- which entries a node is worth --------------------------------------------------------------

static enum op class_of(struct rules_run *run, uint32_t value) {
  if (value == NO_ID) return OP_NONE;
  return run->k.m->values[value].kind == VALUE_INITIALIZER ? OP_Constant
                                                           : kit_maker_op(&run->k, value);
}

static bool lets(const struct rules_book *b, uint16_t gate, enum op class) {
  return gate == 0 || (b->gates[(size_t)gate * b->gate_words + class / 64] >> class % 64 & 1);
}

static uint32_t slot_of(const struct rules_run *run, uint32_t key) {
  uint32_t slot = (key * 2654435761u) & (run->n_candidates - 1);
  while (run->candidates[slot].key != NO_ID && run->candidates[slot].key != key)
    slot = (slot + 1) & (run->n_candidates - 1);
  return slot;
}

static void grow_candidates(struct rules_run *run) {
  struct rules_candidate *old = run->candidates;
  const uint32_t n = run->n_candidates;
  const size_t cap = run->candidates_cap;
  run->candidates = NULL, run->candidates_cap = 0, run->n_candidates = 0;
  const uint32_t slots = n > 0 ? 2 * n : 1024;
  TABLE_ADD(run, candidates, slots);
  for (uint32_t i = 0; i < run->n_candidates; i++)
    run->candidates[i].key = NO_ID;
  for (uint32_t i = 0; i < n; i++)
    if (old[i].key != NO_ID) run->candidates[slot_of(run, old[i].key)] = old[i];
  table_free(old, cap, sizeof *old);
}

static struct rules_candidate candidates(struct rules_run *run, enum op op, enum op first,
                                         enum op second) {
  _Static_assert(OPS <= 255, "an operator is a byte of the key");
  const struct rules_book *b = run->book;
  const uint32_t key = (uint32_t)op << 16 | (uint32_t)first << 8 | (uint32_t)second;
  uint32_t slot = slot_of(run, key);
  if (run->candidates[slot].key == key) return run->candidates[slot];
  struct rules_candidate made = {.key = key, .first = run->n_kept};
  const bool turns = kit_op_has(op, KIT_COMMUTATIVE);
  for (uint32_t i = b->roots[op]; i < b->roots[op + 1]; i++) {
    const uint16_t *g = b->entries[i].gates;
    const bool fits =
        (lets(b, g[0], first) && lets(b, g[1], second)) ||
        ((turns || b->entries[i].either) && lets(b, g[0], second) && lets(b, g[1], first));
    if (!fits || !run->entry_on[i]) continue;
    *TABLE_PUSH(run, kept) = i;
    made.n++;
  }
  run->candidates[slot] = made;
  if (++run->n_keys > run->n_candidates / 2) grow_candidates(run);
  return made;
}

static uint16_t pass_of(const struct rules_run *run) {
  return rules_cell(run, (uint16_t)(RULES_COLUMN | (run->rule->n_columns - 1)));
}

// Entries of which some row's pass is wanted.
static void choose_entries(struct rules_run *run) {
  const struct rules_book *b = run->book;
  bool *on = arena_zalloc(&run->lists, b->n_entries + 1);
  for (uint32_t i = 0; i < b->n_entries; i++) {
    const struct rules_rule *r = &b->rules[b->entries[i].rule];
    for (uint32_t row = 0; row < r->n_rows; row++) {
      const bool mine = b->entries[i].row == RULES_NOTHING || b->entries[i].row == row;
      const uint16_t pass = b->cells[r->cells + row * r->n_columns + r->n_columns - 1];
      on[i] = on[i] || (mine && (!run->options->passes || run->options->passes[pass]));
    }
  }
  run->entry_on = on;
}

// ---- one node -----------------------------------------------------------------------------------

static void cover_nodes(struct rules_run *run) {
  const uint32_t n = run->k.m->n_nodes;
  if (run->n_marks < n) TABLE_ADD(run, marks, n - run->n_marks);
  if (run->n_burnt < n) TABLE_ADD(run, burnt, n - run->n_burnt);
}

static bool alive(const struct rules_run *run, uint32_t node) {
  return !(run->k.m->nodes[node].flags & NODE_DEAD);
}

static void put_down(struct rules_run *run, uint32_t node) {
  if (!(run->marks[node] & VISITED) || run->marks[node] & QUEUED || !alive(run, node)) return;
  run->marks[node] |= QUEUED;
  *TABLE_PUSH(run, queue) = node;
}

// The nodes that may match now: users of the node, as far as the deepest rule sees. In run->match.
static uint32_t *users(struct rules_run *run, uint32_t node, uint32_t *n) {
  struct kit *k = &run->k;
  uint32_t *list = arena_alloc(&run->match, sizeof *list * USES * RULES_NODES);
  uint32_t count = 0, from = 0;
  list[count++] = node;
  for (uint32_t level = 1; level < run->book->depth; level++) {
    const uint32_t end = count;
    for (; from < end; from++)
      for (uint32_t o = 0; o < kit_n_out(k, list[from]); o++) {
        uint32_t uses = 0;
        for (struct kit_use u = kit_uses(k, kit_out(k, list[from], o)); kit_use(k, &u);) {
          if (++uses > USES || count == USES * RULES_NODES) {
            run->missed = true;
            break;
          }
          if (run->marks[u.node] & VISITED) list[count++] = u.node;
        }
      }
  }
  *n = count;
  return list;
}

// How often the place at hand was rewritten, as its least rewritten node knows: what moves on past nodes that are still as
// the model had them, however far, is no circle. Of the others only those count that go with the match.
static uint8_t spent(const struct rules_run *run, uint32_t root) {
  uint8_t least = run->burnt[root];
  for (uint32_t i = 1; i < run->n_nodes; i++) {
    const uint32_t node = run->nodes[i];
    if (node != NO_ID && run->burnt[node] < least &&
        kit_sole_user(&run->k, kit_out(&run->k, node, 0)) != NO_ID)
      least = run->burnt[node];
  }
  return least;
}

// The match was rewritten: how spent what came of it is. What is left of it is no less.
static uint8_t burn(struct rules_run *run, uint32_t root) {
  uint8_t least = run->burnt[root];
  for (uint32_t i = 1; i < run->n_nodes; i++)
    if (run->nodes[i] != NO_ID && !alive(run, run->nodes[i]) && run->burnt[run->nodes[i]] < least)
      least = run->burnt[run->nodes[i]];
  if (least < UINT8_MAX) least++;
  for (uint32_t i = 1; i < run->n_nodes; i++)
    if (run->nodes[i] != NO_ID && alive(run, run->nodes[i]) && run->burnt[run->nodes[i]] < least)
      run->burnt[run->nodes[i]] = least;
  return least;
}

// Later rounds leave the graph at hand alone.
static void rest_later(struct rules_run *run, uint16_t pass) {
  const uint32_t n = run->k.m->n_graphs;
  if (!run->options->counts) return;
  struct pass_graphs *worn = &run->options->counts[pass].worn;
  if (worn->in == run->resting[pass].in) { // the caller's
    bool *in = arena_zalloc(run->k.env->scratch, n * sizeof *in);
    if (worn->n) memcpy(in, worn->in, worn->n * sizeof *in);
    *worn = (struct pass_graphs){in, n};
  }
  worn->in[run->graph] = true;
}

// The pass would have fired after the budget of the graph at hand was spent.
static void wear(struct rules_run *run, uint16_t pass) {
  run->over_budget = true;
  run->worn[pass] = true;
  rest_later(run, pass);
}

// Does what is made now come of a rule that fires once, or of what such a rule made?
static bool comes_of_once(const struct rules_run *run) {
  bool comes = run->rule->once;
  for (uint32_t i = 0; i < run->n_nodes; i++)
    comes = comes || (run->nodes[i] != NO_ID && run->marks[run->nodes[i]] & MADE_ONCE);
  return comes;
}

static bool place(struct rules_run *run, const struct rules_value *result) {
  struct kit *k = &run->k;
  const uint32_t root = run->nodes[0], before = k->m->n_nodes, n_in = kit_n_in(k, root);
  const uint16_t pass = pass_of(run);
  const uint8_t mark = comes_of_once(run) ? MADE_ONCE : 0;
  uint32_t n_users;
  const uint32_t *nearby = users(run, root, &n_users);
  uint32_t *in = arena_alloc(&run->match, (n_in + 1) * sizeof *in);
  for (uint32_t i = 0; i < n_in; i++)
    in[i] = kit_in(k, root, i);
  if (!rules_place(run, result)) return false;
  cover_nodes(run);
  if (run->options->counts) run->options->counts[pass].fired++;
  if (run->options->by_rule) run->options->by_rule[run->rule - run->book->rules]++;
  if (run->rule->once) rest_later(run, pass); // marks end with the run
  run->fired++;
  if (run->is_late && run->budgets[run->graph] > 0) run->budgets[run->graph]--;
  const uint8_t burnt = burn(run, root);
  run->recent[pass] = true;
  if (burnt > run->fuel / 2) run->hot[pass] = true;
  for (uint32_t node = k->m->n_nodes; node-- > before;) {
    run->burnt[node] = burnt;
    run->marks[node] |= mark;
    *TABLE_PUSH(run, stack) = node;
  }
  for (uint32_t i = 1; i < n_users; i++)
    put_down(run, nearby[i]);
  for (uint32_t i = 0; i < n_in; i++)
    if (in[i] != NO_ID && !(k->m->values[in[i]].flags & VALUE_DEAD)) {
      const uint32_t user = kit_sole_user(k, in[i]);
      if (user != NO_ID) put_down(run, user);
    }
  return true;
}

// Was the pass worn in the graph at hand before this run?
static bool rests(const struct rules_run *run, uint16_t pass) {
  return pass_graphs_has(&run->resting[pass], run->graph);
}

// Why the match at hand is not to be touched, a stable word, or NULL.
static const char *refused(struct rules_run *run, uint16_t pass) {
  const struct model *m = run->k.m;
  const struct name_filter *f = run->options->filters ? run->options->filters[pass] : NULL;
  if (!f) return NULL;
  const char *why = name_filter_refuses(f, model_name_str(m, m->nodes[run->nodes[0]].name));
  for (uint32_t i = 0; !why && i < run->n_touched; i++)
    if (name_filter_excludes(f, model_name_str(m, m->nodes[run->touched[i]].name)))
      why = "excluded";
  return why;
}

// The node is visited once the walk and the queue are done.
static void put_off(struct rules_run *run, uint32_t node) {
  if (run->marks[node] & WAITS) return;
  run->marks[node] |= WAITS;
  *TABLE_PUSH(run, late) = node;
}

// When the match at hand may be rewritten: LATER: after what does not wait; SPENT: after the budget, which is never.
enum turn { NOW, NEVER, LATER, SPENT };
static enum turn turn_of(struct rules_run *run, uint32_t node, uint16_t pass) {
  const uint8_t times = spent(run, node);
  if (rests(run, pass)) return NEVER;
  if (times >= run->fuel) {
    run->out_of_fuel = true;
    return NEVER;
  }
  if (times < PATIENCE || run->options->once) return NOW;
  if (!run->is_late) return LATER;
  if (run->budgets[run->graph] > 0) return NOW;
  wear(run, pass);
  return SPENT;
}

// Does only what is not known yet keep the rule at hand from firing?
static bool may_fire(struct rules_run *run, uint32_t node, uint16_t pass) {
  return !refused(run, pass) && run->rule->exactness <= run->options->cap && !rests(run, pass) &&
         spent(run, node) < run->fuel;
}

// A rule had more ways to match than were tried.
static void note_lost(struct rules_run *run, const struct rules_entry *e) {
  const struct rules_rule *r = &run->book->rules[e->rule];
  const uint32_t row = e->row == RULES_NOTHING ? 0 : e->row;
  run->lost[run->book->cells[r->cells + (row + 1) * r->n_columns - 1]] = true;
}

// Tries the rules that the node is worth, in the order of the files. True if one was placed.
static bool visit(struct rules_run *run, uint32_t node) {
  struct kit *k = &run->k;
  const enum op op = kit_op(k, node);
  const uint8_t before = run->marks[node];
  run->marks[node] = (uint8_t)((before | VISITED) & ~QUEUED);
  if (op == OP_NONE) return false;
  const struct rules_candidate c =
      candidates(run, op, class_of(run, model_input(k->m, &k->m->nodes[node], 0)),
                 class_of(run, model_input(k->m, &k->m->nodes[node], 1)));
  if (c.n == 0) return false;
  arena_reset(&run->match);
  arena_reset(&k->site);
  for (uint32_t i = c.first; i < c.first + c.n; i++) {
    const struct rules_entry *e = &run->book->entries[run->kept[i]];
    run->rule = &run->book->rules[e->rule];
    if (run->rule->once && before & MADE_ONCE) continue;
    if (!rules_meant(run, op, node)) continue;
    for (bool found = rules_match_first(run, run->rule, e->row, node); found;
         found = rules_match_next(run)) {
      const uint16_t pass = pass_of(run);
      if (run->options->passes && !run->options->passes[pass]) continue;
      run->n_terms = 0;
      if (run->rule->where != NO_ID) {
        run->n_wanted = 0;
        const struct rules_value holds = rules_eval(run, run->rule->where);
        if (rules_truth(&holds) < 0 && run->n_wanted > 0 && may_fire(run, node, pass) &&
            rules_facts_decide(run))
          return false; // the node waits for the answers
        if (rules_truth(&holds) != 1) continue;
        run->n_terms = 0;
      }
      run->n_wanted = 0;
      const struct rules_value result = rules_eval(run, run->rule->result);
      if (result.kind == RULES_UNKNOWN && run->n_wanted > 0 && may_fire(run, node, pass) &&
          rules_facts_complete(run))
        return false;
      if (result.kind == RULES_UNKNOWN || result.kind == RULES_ABSENT) continue;
      const char *why = refused(run, pass);
      if (why) {
        k->pass = run->book->passes[pass].name;
        if (!(run->marks[node] & TOLD)) kit_skipped(k, node, why);
        run->marks[node] |= TOLD;
        continue;
      }
      if (run->rule->exactness > run->options->cap) {
        if (!(before & COUNTED) && run->options->counts) run->options->counts[pass].held++;
        run->marks[node] |= COUNTED;
        break;
      }
      const enum turn turn = turn_of(run, node, pass);
      if (turn == LATER) {
        put_off(run, node);
        return false; // also of what other rules would do: their order is that of the files
      }
      if (turn == SPENT) return false; // nor what comes after it in the files
      if (turn == NEVER) break;
      if (place(run, &result)) return true;
    }
    if (run->too_many) note_lost(run, e);
  }
  return false;
}

// The node, and then whatever comes of it.
static void visit_all(struct rules_run *run, uint32_t node) {
  visit(run, node);
  while (run->n_stack > 0) {
    const uint32_t next = run->stack[--run->n_stack];
    if (alive(run, next)) visit(run, next);
  }
}

// ---- guards -------------------------------------------------------------------------------------

// Has the graph computed the same after an earlier turn? The first turns are all kept, later ones
// at powers of two: a circle comes round to one of those.
static bool seen_before(struct rules_run *run, uint32_t turn) {
  if (turn > 16 && (turn & (turn - 1)) != 0) return false;
  const uint64_t now = rules_digest(run);
  for (uint32_t i = 0; i < run->n_seen; i++)
    if (run->seen[i] == now) return true;
  *TABLE_PUSH(run, seen) = now;
  return false;
}

// The rules that `which` marks, a few of them; NULL: none.
static const char *names_of(struct rules_run *run, const bool *which) {
  const char *names = NULL;
  uint32_t n = 0;
  for (uint32_t p = 0; p < run->book->n_passes; p++)
    if (which[p] && n++ < 6)
      names = arena_printf(&run->lists, "%s%s%s", names ? names : "", names ? ", " : "",
                           run->book->passes[p].name);
  return names;
}

static void warn(struct rules_run *run, const bool *which, const char *what) {
  const char *names = names_of(run, which);
  kit_warn(&run->k,
           arena_printf(&run->lists, "%s: %s; rewriting stopped", what, names ? names : ""),
           "omit one of these");
}

static void warn_lost(struct rules_run *run) {
  const char *names = names_of(run, run->lost);
  if (names)
    kit_warn(&run->k,
             arena_printf(
                 &run->lists,
                 "there are more than %d ways to match at one node: %s; the rest were not tried",
                 (int)RULES_WAYS, names),
             "use fewer commutative operators and alternatives in one pattern");
}

// ---- graphs -------------------------------------------------------------------------------------

// Nodes that a rewrite removes stand before the one it is about: the walk's next one lives. Not so in a graph
// that is not sorted: there the walk goes on where it was, if that can be told.
static void walk(struct rules_run *run) {
  const struct model *m = run->k.m;
  for (uint32_t n = m->graphs[run->graph].first_node, next; n != NO_ID; n = next) {
    const uint32_t before = m->nodes[n].prev;
    next = m->nodes[n].next;
    visit_all(run, n);
    if (next == NO_ID || alive(run, next)) continue;
    if (alive(run, n)) {
      next = m->nodes[n].next;
    } else if (before == NO_ID) {
      next = m->graphs[run->graph].first_node;
    } else if (alive(run, before)) {
      next = m->nodes[before].next;
    } else {
      run->missed = true;
      return;
    }
  }
}

static void empty_queue(struct rules_run *run) {
  while (run->n_queue > 0)
    run->marks[run->queue[--run->n_queue]] &= (uint8_t)~QUEUED;
}

// The turns of the queue: after each that changed something, what the graph computes must be new. A graph
// that is stopped is left as it is, in later rounds too.
static void empty_in_turns(struct rules_run *run, uint32_t *turn) {
  while (run->n_queue > 0 && !run->options->once) {
    const uint64_t before = run->fired;
    const uint32_t n = run->n_queue;
    if (seen_before(run, ++*turn)) {
      warn(run, run->recent, "the outputs are the same as some rewrites ago");
      run->stopped[run->graph] = true;
      break;
    }
    memset(run->recent, 0, run->book->n_passes);
    for (uint32_t i = 0; i < n; i++)
      if (alive(run, run->queue[i])) visit_all(run, run->queue[i]);
    memmove(run->queue, run->queue + n, (run->n_queue - n) * sizeof *run->queue);
    run->n_queue -= n;
    if (run->fired == before) break;
  }
  empty_queue(run);
}

// What waits, from the last to the first. True: something was rewritten.
static bool visit_late(struct rules_run *run) {
  const uint64_t fired = run->fired;
  run->is_late = true;
  while (run->n_late > 0) {
    const uint32_t node = run->late[--run->n_late];
    run->marks[node] &= (uint8_t)~WAITS;
    if (alive(run, node) && !run->stopped[run->graph]) visit_all(run, node);
  }
  run->is_late = false;
  return run->fired != fired;
}

static void fixpoint(struct rules_run *run) {
  run->n_seen = 0;
  uint32_t turn = 0;
  do {
    const uint64_t fired = run->fired;
    run->missed = false;
    memset(run->recent, 0, run->book->n_passes);
    walk(run);
    do
      empty_in_turns(run, &turn);
    while (visit_late(run));
    if (run->stopped[run->graph] || run->fired == fired) return;
  } while (run->missed && !run->options->once);
}

static const struct pass_graphs *resting(struct rules_run *run) {
  struct pass_graphs *of = arena_zalloc(&run->lists, (run->book->n_passes + 1) * sizeof *of);
  for (uint32_t p = 0; run->options->counts && p < run->book->n_passes; p++)
    of[p] = run->options->counts[p].worn;
  return of;
}

// Late rewrites that each graph may have. The first nodes of a graph count for more: there is room for all moves of
// a few dozen operators, and for circles, which fuel stops.
static uint64_t *late_budgets(struct rules_run *run) {
  const struct model *m = run->k.m;
  uint64_t *budgets = arena_zalloc(&run->lists, (m->n_graphs + (size_t)1) * sizeof *budgets);
  uint32_t *n = arena_zalloc(&run->lists, (m->n_graphs + (size_t)1) * sizeof *n);
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    const uint32_t graph = m->nodes[i].graph;
    if (m->nodes[i].flags & NODE_DEAD) continue;
    budgets[graph] += n[graph]++ < RULES_FUEL ? BUDGET + RULES_FUEL : BUDGET;
  }
  return budgets;
}

int rules_run(const struct rules_book *book, struct pass_env *env, const char *name,
              const struct rules_options *options, struct err *err) {
  struct rules_run run = {.book = book, .options = options};
  run.fuel = options->fuel && options->fuel < UINT8_MAX ? options->fuel : RULES_FUEL;
  kit_init(&run.k, env, name);
  if (options->infers) kit_infer(&run.k);
  run.recent = arena_zalloc(&run.lists, book->n_passes + 1);
  run.hot = arena_zalloc(&run.lists, book->n_passes + 1);
  run.lost = arena_zalloc(&run.lists, book->n_passes + 1);
  run.worn = arena_zalloc(&run.lists, book->n_passes + 1);
  run.resting = resting(&run);
  run.budgets = late_budgets(&run);
  run.stopped = arena_zalloc(&run.lists, env->m->n_graphs + 1);
  choose_entries(&run);
  grow_candidates(&run);
  cover_nodes(&run);
  uint64_t fired;
  int asked;
  do {
    fired = run.fired;
    for (uint32_t g = 0; kit_graph(&run.k, &g); g++) {
      run.graph = g;
      run.opset = kit_opset(&run.k, g);
      if (run.opset > 0 && !run.stopped[g]) fixpoint(&run);
    }
    asked = run.fired == fired ? rules_facts_ask(&run, err) : 0;
  } while (asked >= 0 && (run.fired != fired || asked > 0) && !options->once);
  if (options->steps) *options->steps += run.steps;
  if (run.out_of_fuel) {
    char what[64];
    snprintf(what, sizeof what, "one place was rewritten %u times", run.fuel);
    warn(&run, run.hot, what);
  }
  if (run.over_budget) warn(&run, run.worn, "rewrites of the same places did not end");
  warn_lost(&run);
  TABLES_FREE(&run, candidates, kept, touched, sizes, fact_of, facts, wanted, asking, terms);
  TABLES_FREE(&run, marks, burnt, queue, stack, late, hashes, seen);
  arena_free(&run.match);
  arena_free(&run.lists);
  return kit_done(&run.k, err) || asked < 0 ? -1 : 0;
}
