// tidy/equal-initializers: initializers of equal dtype, dims and bytes become one.
//
//   a ── Add          a ─┬─ Add
//   b ── Mul    ──▶      └─ Mul          where b holds what a holds
//
// The story:
//
//   group     by dtype and dims. One that is alone needs no look
//   tell      what its elements are: those at hand by their digest; those that lie at the same place
//             of the same file, or are made alike, by their recipe, unread; all others are asked
//             about together (stage "equal", likenesses.h), which reads a sample of 64 KiB of each
//             and the whole only of those whose samples agree
//   merge     from the outermost graph to the innermost: a user can see what stands in its own graph
//             or one around it. The first one found stays
//
// Names are promises: an initializer that is an output of a graph stays (others may become it), and
// so does one that callers may override. Where a name in between hides the one that would stay, both
// do. What nothing uses is left for tidy/unused-initializers, and is not read.
#include "passes/tidy/inside/tidy.h"

#include "base/digest.h"
#include "base/table.h"
#include "passes/kit/weights.h"
#include "passes/questions/likenesses.h"
#include "passes/tidy/inside/unlist.h"

struct equal_options {
  bool at_hand;
};

struct member {
  uint32_t tensor, group;
  uint32_t recipe; // of elements that are not at hand; else NO_ID
  bool known;      // `content` is a digest of all elements; else it is a recipe id
  bool left;       // said to be left alone
  uint8_t content[DIGEST_BYTES];
};

struct group {
  uint32_t first; // member
  uint32_t n;     // members
};

struct equal {
  struct kit *k;
  const struct equal_options *options;
  TABLE(struct member, members); // from the outermost graphs to the innermost
  TABLE(struct group, groups);
  TABLE(uint32_t, slots);     // hash table: group + 1, later member + 1
  TABLE(uint32_t, questions); // recipes
  TABLE(uint32_t, asked);     // by recipe: its question + 1
  TABLE(struct content_hash, answers);
};

static const struct model_tensor *tensor_of(const struct equal *q, const struct member *x) {
  return &q->k->m->tensors[x->tensor];
}

// ---- groups ------------------------------------------------------------------------------------

static bool is_initializer(const struct model *m, uint32_t tensor) {
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->flags & (TENSOR_DEAD | TENSOR_SPARSE) || t->home != HOME_INITIALIZER) return false;
  const struct model_value *v = &m->values[t->owner];
  if (v->kind != VALUE_INITIALIZER || v->def != tensor) return false;
  return v->first_use != NO_ID && !weights_in_training(m, t->graph);
}

// In order of how deep their graphs lie, those of a depth in order of their ids.
static void collect(struct equal *q) {
  const struct model *m = q->k->m;
  uint32_t n = 0, deepest = 0;
  for (uint32_t g = 0; g < m->n_graphs; g++)
    if (m->graphs[g].depth > deepest) deepest = m->graphs[g].depth;
  struct {
    TABLE(uint32_t, from);
  } at = {0};
  TABLE_ADD(&at, from, deepest + 2);
  for (uint32_t i = 0; i < m->n_tensors; i++)
    if (is_initializer(m, i)) {
      at.from[m->graphs[m->tensors[i].graph].depth + 1]++;
      n++;
    }
  for (uint32_t d = 1; d <= deepest; d++)
    at.from[d] += at.from[d - 1];
  TABLE_ADD(q, members, n);
  for (uint32_t i = 0; i < m->n_tensors; i++)
    if (is_initializer(m, i))
      q->members[at.from[m->graphs[m->tensors[i].graph].depth]++] =
          (struct member){.tensor = i, .recipe = NO_ID};
  TABLE_FREE(&at, from);
}

static bool same_type(const struct model *m, uint32_t a, uint32_t b) {
  const struct model_tensor *x = &m->tensors[a], *y = &m->tensors[b];
  return x->dtype == y->dtype && model_same_dims(m, x, m, y);
}

static void group_all(struct equal *q) {
  const struct model *m = q->k->m;
  uint32_t n = 16;
  while (n < 2 * q->n_members)
    n *= 2;
  TABLE_ADD(q, slots, n);
  for (uint32_t i = 0; i < q->n_members; i++) {
    const struct model_tensor *t = tensor_of(q, &q->members[i]);
    const uint64_t h =
        span_hash(span_of(model_dims(m, t), t->rank * sizeof(int64_t))) + (uint64_t)t->dtype;
    uint32_t at = (uint32_t)(h ^ h >> 32) & (n - 1);
    while (q->slots[at] != 0 && !same_type(m, q->members[q->groups[q->slots[at] - 1].first].tensor,
                                           q->members[i].tensor))
      at = (at + 1) & (n - 1);
    if (q->slots[at] == 0) {
      *TABLE_PUSH(q, groups) = (struct group){.first = i};
      q->slots[at] = q->n_groups;
    }
    q->members[i].group = q->slots[at] - 1;
    q->groups[q->slots[at] - 1].n++;
  }
}

// ---- what they hold ----------------------------------------------------------------------------

// Why nothing may be done about it, a stable word; or NULL.
static const char *obstacle(const struct equal *q, const struct member *x) {
  const struct model *m = q->k->m;
  const struct model_tensor *t = tensor_of(q, x);
  const bool is_input = m->values[t->owner].flags & VALUE_IS_INPUT;
  if (m->n_trainings > 0 && t->graph == m->main_graph) return "training";
  if (is_input && (m->ir_version >= WEIGHTS_FREE_IR || t->graph != m->main_graph))
    return "graph_input";
  return edit_tensor_readable(q->k->e, x->tensor) ? NULL : "unreadable";
}

static void report(const struct equal *q, const struct member *x, const char *reason,
                   bool skipped) {
  kit_report(q->k, &(struct kit_report){.node = NO_ID,
                                        .reason = reason,
                                        .skipped = skipped,
                                        .weight = tensor_of(q, x)->owner + 1});
}

static void look(struct equal *q, struct member *x) {
  struct span raw;
  const char *why = q->groups[x->group].n > 1 ? obstacle(q, x) : "alone";
  x->left = why != NULL;
  if (x->left) {
    if (q->groups[x->group].n > 1) report(q, x, why, true);
    return;
  }
  if (model_small_value(q->k->m, x->tensor, &raw)) {
    x->known = true;
    digest_of(raw.at, raw.n, x->content);
    return;
  }
  x->recipe = edit_tensor_recipe(q->k->e, x->tensor);
  memcpy(x->content, &x->recipe, sizeof x->recipe);
}

// Of a group that holds more than one recipe, each is asked about once.
static int ask(struct equal *q, struct err *err) {
  struct pass_env *env = q->k->env;
  struct {
    TABLE(uint32_t, first); // by group: a recipe + 1, or where there are elements at hand, NO_ID
    TABLE(bool, several);
  } by = {0};
  TABLE_ADD(&by, first, q->n_groups);
  TABLE_ADD(&by, several, q->n_groups);
  for (uint32_t i = 0; i < q->n_members; i++) {
    const struct member *x = &q->members[i];
    const uint32_t what = x->recipe == NO_ID ? NO_ID : x->recipe + 1;
    if (x->left) continue;
    if (by.first[x->group] == 0) by.first[x->group] = what;
    if (by.first[x->group] != what) by.several[x->group] = true;
  }
  TABLE_ADD(q, asked, q->k->r->n_rows);
  for (uint32_t i = 0; i < q->n_members; i++) {
    const struct member *x = &q->members[i];
    if (x->left || x->recipe == NO_ID || !by.several[x->group] || q->asked[x->recipe]) continue;
    *TABLE_PUSH(q, questions) = x->recipe;
    q->asked[x->recipe] = q->n_questions;
  }
  TABLES_FREE(&by, first, several);
  if (q->n_questions == 0 || q->options->at_hand || !env->ask) return 0;
  TABLE_ADD(q, answers, q->n_questions);
  if (answers_ask(&likenesses_form, env, LIKENESSES_STAGE, q->questions, q->n_questions, q->answers,
                  err))
    return -1;
  for (uint32_t i = 0; i < q->n_members; i++) {
    struct member *x = &q->members[i];
    if (x->left || x->recipe == NO_ID || !q->asked[x->recipe]) continue;
    const struct content_hash *l = &q->answers[q->asked[x->recipe] - 1];
    if (!l->whole) continue; // nothing else is like it, but what has its recipe
    x->known = true;
    memcpy(x->content, l->all, sizeof x->content);
  }
  return 0;
}

// ---- merging -----------------------------------------------------------------------------------

// The slot of the one that stays in that graph with those contents, or where it would be.
static uint32_t *stays(struct equal *q, const struct member *x, uint32_t graph) {
  const uint32_t key[3] = {x->group, x->known, graph};
  const uint64_t h =
      span_hash(span_of(key, sizeof key)) ^ span_hash(span_of(x->content, sizeof x->content));
  uint32_t at = (uint32_t)(h ^ h >> 32) & (q->n_slots - 1);
  for (; q->slots[at] != 0; at = (at + 1) & (q->n_slots - 1)) {
    const struct member *y = &q->members[q->slots[at] - 1];
    if (y->group == x->group && y->known == x->known && tensor_of(q, y)->graph == graph &&
        memcmp(y->content, x->content, sizeof x->content) == 0)
      break;
  }
  return &q->slots[at];
}

static void merge(struct equal *q, struct unlist *gone, uint32_t i) {
  struct kit *k = q->k;
  const struct member *x = &q->members[i];
  const struct model_tensor *t = tensor_of(q, x);
  const uint32_t value = t->owner;
  const char *why = NULL;
  const uint32_t home = kit_is_empty(k, x->tensor) ? t->graph : kit_home(k, t->graph),
                 end = k->m->graphs[home].parent;
  for (uint32_t g = t->graph; g != end; g = k->m->graphs[g].parent) {
    const uint32_t other = *stays(q, x, g);
    if (other == 0) continue;
    const uint32_t to = tensor_of(q, &q->members[other - 1])->owner;
    why = kit_is_output(k, value) ? "graph_output" : "hidden";
    if (kit_is_output(k, value) || !edit_can_forward(k->e, value, to)) continue;
    kit_site(k, NO_ID, "equal");
    report(q, x, "equal", false);
    edit_replace_uses(k->e, value, to);
    unlist_initializer(gone, k, value);
    return;
  }
  if (why) report(q, x, why, true);
  uint32_t *here = stays(q, x, t->graph);
  if (*here == 0) *here = i + 1;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct kit k;
  struct equal q = {.k = &k, .options = with};
  struct unlist gone = {0};
  kit_init(&k, env, env->pass->name);
  collect(&q);
  group_all(&q);
  for (uint32_t i = 0; i < q.n_members; i++)
    look(&q, &q.members[i]);
  int rc = ask(&q, err);
  memset(q.slots, 0, q.n_slots * sizeof *q.slots);
  for (uint32_t i = 0; i < q.n_members && rc == 0; i++)
    if (!q.members[i].left) merge(&q, &gone, i);
  unlist_done(&gone, &k);
  TABLES_FREE(&q, members, groups, slots, questions, asked, answers);
  return kit_done(&k, err) || rc ? -1 : 0;
}

static const struct pass_option options[] = {
    {"at-hand", PASS_FLAG, NULL, NULL,
     "compare only small initializers; read no weights\n"
     "Initializers that are stored in the same place are compared too.",
     PASS_MEMBER(equal_options, at_hand)},
};

const struct pass tidy_equal_initializers = {
    .name = "tidy/equal-initializers",
    .keys = "cleanup deduplicate-initializers",
    .classes = "DeduplicateInitializers",
    .summary = "merge initializers with equal type, shape and bytes",
    .about = "Compares a sample of 64 KiB of each initializer, then reads the initializers with "
             "equal samples completely, and replaces equal ones by the first.",
    .exactness = EXACTNESS_EXACT,
    PASS_OPTIONS(options, equal_options),
    .run = run,
};
