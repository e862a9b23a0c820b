// The steps of a pipeline, from words and to canonical words.
//
//   --pass cast:to=float16                    one step
//   --pass tidy                               a step for each pass of the family
//   --pass optimize                           the steps of 'weir optimize', in rounds
//   --pass 'repeat(tidy,fuse/bn)'             steps that run until they change nothing
//
// A pipeline of one pass is recorded as the command of that pass would be, so that both ways to say
// the same thing give the same plan.
#include "pipeline/pipeline.h"

#include "base/guess.h"
#include "json/json.h"
#include "passes/catalogue/passes.h"
#include "pipeline/groups.h"
#include "pipeline/optimize_steps.h"

void pipeline_init(struct pipeline *p) {
  *p = (struct pipeline){
      .exactness = EXACTNESS_ROUNDING, .tolerance = compare_nothing(), .open = NO_ID};
}

void pipeline_free(struct pipeline *p) {
  for (uint32_t i = 0; i < p->n_steps; i++)
    pass_values_done(&p->steps[i].values);
  TABLES_FREE(p, steps, repeats, metrics, settings, notes);
  TABLE_FREE(&p->inputs, list);
  TABLE_FREE(&p->read, list);
  TABLE_FREE(&p->outputs, list);
  side_inputs_done(&p->files);
  arena_free(&p->arena);
  pipeline_init(p);
}

// The target of all, where the pass has one and was given none.
static int state_target(struct pipeline *p, struct pass_values *v, struct err *err) {
  const uint32_t o = pass_values_option(v->pass, span_str("target"));
  if (!p->target || o == NO_ID || v->of[o].given) return 0;
  return pass_values_state(v, o, p->target->name, &p->arena, err);
}

int pipeline_take_target(struct pipeline *p, const struct target *target, struct err *err) {
  if (p->target || !target) return 0;
  p->target = target;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    struct pass_values *v = &p->steps[i].values;
    pass_values_done(v);
    if (state_target(p, v, err) || pass_values_read(v, &p->arena, err)) return -1;
  }
  return 0;
}

const struct target *pipeline_step_target(const struct pipeline *p, uint32_t step) {
  const struct pass_values *v = &p->steps[step].values;
  const uint32_t o = pass_values_option(v->pass, span_str("target"));
  return o != NO_ID && v->of[o].text ? targets_at(v->of[o].choice) : p->target;
}

// The family optimize stands for more than its members: for all that 'weir optimize' does.
static struct pipeline_step *add_optimize(struct pipeline *p, uint32_t *n, struct err *err) {
  const uint32_t first = p->n_steps;
  const struct optimize_asked asked = {.goal = GOAL_ONNX, .rounds = OPTIMIZE_ROUNDS};
  if (optimize_steps_list(p, &asked, err)) return NULL;
  *n = p->n_steps - first;
  for (uint32_t i = first; i < p->n_steps; i++)
    p->steps[i].named = i == first ? *n : 0;
  return &p->steps[first];
}

static int add_words(struct pipeline *p, const char *words, struct err *err) {
  for (uint32_t k = 0, n; passes_word(words, k).n > 0; k++) {
    const struct span word = passes_word(words, k);
    const size_t end = pass_values_up_to(word, ":");
    struct pipeline_step *steps = pipeline_add(p, span_of(word.at, end), &n, err);
    if (!steps) return -1;
    const struct span options = span_of(word.at + end + 1, word.n - min_u64(word.n, end + 1));
    if (end < word.n && pass_values_parse(&steps->values, options, &p->arena, err)) return -1;
  }
  return 0;
}

// What runs in rounds is a repeat of its own, also inside another one.
static struct pipeline_step *add_group(struct pipeline *p, const struct group *group, uint32_t *n,
                                       struct err *err) {
  const uint32_t first = p->n_steps;
  const bool rounds = group->rounds[0] && pipeline_depth(p) < PIPELINE_DEPTH;
  if (rounds) pipeline_begin(p, PIPELINE_ROUNDS);
  int rc = add_words(p, group->rounds, err);
  if (rounds) pipeline_end(p);
  if (rc == 0) rc = add_words(p, group->once, err);
  *n = p->n_steps - first;
  for (uint32_t i = first; i < p->n_steps; i++)
    p->steps[i].named = i == first ? *n : 0;
  return rc ? NULL : &p->steps[first];
}

// A name that is none: perhaps a group was meant, where no pass is nearer.
static void guess_group(struct span name, struct err *err, struct arena *a) {
  struct guess g = guess_start(arena_string(a, name));
  const struct group *group;
  if (strncmp(err->hint, "did you mean", strlen("did you mean")) == 0) return;
  for (uint32_t i = 0; (group = groups_at(i)); i++) {
    if (*group->key) guess_try(&g, group->key);
    if (*group->class) guess_try(&g, group->class);
  }
  if (!g.best) return;
  err->hint[0] = '\0';
  err_fill_hint(err, "did you mean '%s'?", g.best);
}

static struct pipeline_step *add_name(struct pipeline *p, struct span name, uint32_t *n,
                                      struct err *err) {
  const struct group *group = groups_find(name);
  if (group) return add_group(p, group, n, err);
  struct err why = {0};
  const struct pass *pass = passes_known(pipeline_own(p), name, &why);
  if (!pass) {
    guess_group(name, &why, &p->arena);
    *err = why;
    return NULL;
  }
  if (span_is(name, "optimize")) return add_optimize(p, n, err);
  const uint32_t first = p->n_steps;
  for (*n = 0; pass; pass = passes_named(pipeline_own(p), name, ++*n)) {
    struct pipeline_step *step = TABLE_PUSH(p, steps);
    *step = (struct pipeline_step){.repeat = p->open};
    for (uint32_t r = p->open; r != NO_ID; r = p->repeats[r].outer)
      p->repeats[r].n++;
    pass_values_start(&step->values, pass, &p->arena);
    if (state_target(p, &step->values, err)) return NULL;
  }
  p->steps[first].named = *n;
  return &p->steps[first];
}

struct pipeline_step *pipeline_add(struct pipeline *p, struct span name, uint32_t *n,
                                   struct err *err) {
  struct pipeline_step *steps = add_name(p, name, n, err);
  if (steps) steps->word = arena_string(&p->arena, name);
  return steps;
}

struct pass_values **pipeline_values(struct pipeline *p, struct pipeline_step *steps, uint32_t n) {
  struct pass_values **list = arena_alloc(&p->arena, n * sizeof *list);
  for (uint32_t i = 0; i < n; i++)
    list[i] = &steps[i].values;
  return list;
}

void pipeline_begin(struct pipeline *p, uint32_t rounds) {
  const uint32_t outer = p->open;
  p->open = TABLE_ADD(p, repeats, 1);
  p->repeats[p->open] =
      (struct pipeline_repeat){.first = p->n_steps, .rounds = rounds, .outer = outer};
}

void pipeline_end(struct pipeline *p) {
  const struct pipeline_repeat r = p->repeats[p->open];
  if (r.n == 0) p->n_repeats--; // it is the last one: those inside it went before it
  p->open = r.outer;
}

uint32_t pipeline_depth(const struct pipeline *p) {
  uint32_t n = 0;
  for (uint32_t r = p->open; r != NO_ID; r = p->repeats[r].outer)
    n++;
  return n;
}

void pipeline_repeat_all(struct pipeline *p, uint32_t first, uint32_t rounds) {
  if (first == p->n_steps) return;
  const uint32_t all = TABLE_ADD(p, repeats, 1);
  p->repeats[all] = (struct pipeline_repeat){
      .first = first, .n = p->n_steps - first, .rounds = rounds, .outer = NO_ID};
  for (uint32_t r = 0; r < all; r++)
    if (p->repeats[r].outer == NO_ID && p->repeats[r].first >= first) p->repeats[r].outer = all;
  for (uint32_t i = first; i < p->n_steps; i++)
    if (p->steps[i].repeat == NO_ID) p->steps[i].repeat = all;
}

uint32_t pipeline_next_repeat(const struct pipeline *p, uint32_t open, uint32_t i) {
  uint32_t next = NO_ID;
  for (uint32_t r = p->steps[i].repeat; r != open && r != NO_ID; r = p->repeats[r].outer)
    next = r;
  return next;
}

// ---- words -------------------------------------------------------------------------------------

static int add_pass(struct pipeline *p, struct span text, struct err *err) {
  const size_t name = pass_values_up_to(text, ":");
  uint32_t n;
  struct pipeline_step *steps = pipeline_add(p, span_of(text.at, name), &n, err);
  if (!steps) return -1;
  const bool family = !passes_called(steps->values.pass, span_of(text.at, name));
  const struct span options = span_of(text.at + name + 1, text.n - min_u64(text.n, name + 1));
  if (name < text.n &&
      (family ? pass_values_parse_family(pipeline_values(p, steps, n), n, options, &p->arena, err)
              : pass_values_parse(&steps->values, options, &p->arena, err)))
    return -1;
  for (uint32_t i = 0; i < n; i++)
    if (pass_values_read(&steps[i].values, &p->arena, err)) return -1;
  return 0;
}

// "repeat(…)" or "repeat=8(…)": what is inside, and the limit.
static bool is_repeat(struct span text, struct span *inside, struct span *rounds) {
  static const char word[] = "repeat";
  const size_t n = sizeof word - 1;
  if (text.n < n + 2 || memcmp(text.at, word, n) != 0 || text.at[text.n - 1] != ')') return false;
  const uint8_t *open = memchr(text.at, '(', text.n);
  if (!open || (open != text.at + n && text.at[n] != '=')) return false;
  *inside = span_of(open + 1, (size_t)(text.at + text.n - 1 - (open + 1)));
  *rounds = open == text.at + n ? span_of(open, 0)
                                : span_of(text.at + n + 1, (size_t)(open - (text.at + n + 1)));
  return true;
}

static int add_repeat(struct pipeline *p, struct span inside, struct span rounds, struct err *err) {
  uint64_t most = PIPELINE_ROUNDS;
  const char *wanted =
      rounds.n > 0 ? pass_values_whole(rounds, 1, INT32_MAX, &most, &p->arena) : NULL;
  if (wanted)
    return err_set(err, ERR_USAGE, "'%s' is not a number of rounds: use %s", quote(rounds).s,
                   wanted);
  const char between = memchr(inside.at, ';', inside.n) ? ';' : ',';
  const bool has_options = memchr(inside.at, ':', inside.n) != NULL;
  pipeline_begin(p, (uint32_t)most);
  for (;;) {
    const uint8_t *end = memchr(inside.at, between, inside.n);
    const size_t n = end ? (size_t)(end - inside.at) : inside.n;
    if (add_pass(p, span_of(inside.at, n), err)) {
      if (between == ';' || !has_options) return -1;
      err->hint[0] = '\0'; // more likely than what it guessed
      return err_hint(
          err,
          "inside repeat( ), separate passes by semicolons where their options contain commas");
    }
    if (!end) break;
    inside = span_of(end + 1, inside.n - n - 1);
  }
  pipeline_end(p);
  return 0;
}

int pipeline_add_text(struct pipeline *p, const char *text, struct err *err) {
  const struct span all = span_str(text);
  struct span inside, rounds;
  if (is_repeat(all, &inside, &rounds)) return add_repeat(p, inside, rounds, err);
  return add_pass(p, all, err);
}

// ---- together ----------------------------------------------------------------------------------

// What the step says of all of the output, if anything.
static const struct pass_option *of_output(const struct pipeline_step *step, const char **text) {
  const struct pass_values *v = &step->values;
  for (uint32_t o = 0; o < v->pass->n_options; o++) {
    if (!v->pass->options[o].of_output || !v->of[o].given) continue;
    *text = v->of[o].text;
    return &v->pass->options[o];
  }
  return NULL;
}

// The steps of its pass that say nothing of it take the value.
static int take_setting(struct pipeline *p, const struct pipeline_setting *s, struct err *err) {
  struct err why = {0};
  const struct pass *pass = passes_find(pipeline_own(p), span_str(s->pass));
  const uint32_t o = pass ? pass_values_option(pass, span_str(s->option)) : NO_ID;
  if (o == NO_ID) {
    const char *sentence = arena_printf(
        &p->arena, "%s: '%s' has no effect: no pass has such an option", s->place, s->key);
    *TABLE_PUSH(p, notes) = (struct pipeline_note){sentence, NULL};
    return 0;
  }
  for (uint32_t i = 0; i < p->n_steps; i++) {
    struct pass_values *v = &p->steps[i].values;
    if (v->pass != pass || v->of[o].given) continue;
    pass_values_done(v);
    for (uint32_t w = 0; w < s->n_words && why.kind == ERR_NONE; w++)
      (void)pass_values_put(v, o, span_str(s->words[w]), &p->arena, &why);
    if (why.kind == ERR_NONE) (void)pass_values_read(v, &p->arena, &why);
    if (why.kind == ERR_NONE) continue;
    (void)err_set(err, ERR_USAGE, "%s: %s", s->place, why.msg);
    err_fill_hint_of(err, &why);
    return -1;
  }
  return 0;
}

int pipeline_settle(struct pipeline *p, uint32_t first, bool repeat, struct err *err) {
  for (uint32_t i = 0; i < p->n_settings; i++)
    if (take_setting(p, &p->settings[i], err)) return -1;
  if (repeat || p->exhaustive) pipeline_repeat_all(p, first, PIPELINE_ROUNDS);
  return 0;
}

enum pipeline_point pipeline_point_of(const struct pipeline *p, uint32_t step) {
  static const char *const names[] = {[POINT_EQUALITY] = "verify/VerifyEquality",
                                      [POINT_TOLERANCE] = "verify/VerifyTolerance",
                                      [POINT_METRIC] = "verify/VerifyMetric"};
  const char *name = p->steps[step].values.pass->name;
  for (enum pipeline_point k = POINT_EQUALITY; k <= POINT_METRIC; k++)
    if (strcmp(name, names[k]) == 0) return k;
  return POINT_NONE;
}

int pipeline_check(const struct pipeline *p, struct err *err) {
  const char *first = NULL, *text;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const struct pass_option *option = of_output(&p->steps[i], &text);
    if (!option) continue;
    if (!first) {
      first = text;
      continue;
    }
    err_set(err, ERR_USAGE,
            "two passes set %s (%s and %s), but it applies to all files of the output",
            option->name, quote_str(first).s, quote_str(text).s);
    return err_hint(err, "set the %s for one pass only, or set bits for the other pass",
                    option->name);
  }
  return 0;
}

int pipeline_read_files(struct pipeline *p, const char *folder, struct err *err) {
  for (uint32_t i = 0; i < p->n_steps; i++)
    if (side_inputs_take(&p->files, &p->steps[i].values, folder, err)) return -1;
  return 0;
}

// ---- canonical words ---------------------------------------------------------------------------

bool pipeline_has_own_steps(const struct pipeline *p) {
  for (uint32_t i = 0; i < p->n_steps; i++)
    if (p->steps[i].values.pass->book) return true;
  return false;
}

static bool is_one_pass(const struct pipeline *p) {
  return p->n_steps == 1 && !pipeline_has_own_steps(p) && p->n_repeats == 0 &&
         p->exactness == EXACTNESS_ROUNDING;
}

const char *pipeline_command(const struct pipeline *p) {
  return is_one_pass(p) ? p->steps[0].values.pass->name : "run";
}

// Those that end before step i. The innermost that stays open.
static uint32_t end_repeats(struct json_out *j, const struct pipeline *p, uint32_t open,
                            uint32_t i) {
  for (; open != NO_ID && p->repeats[open].first + p->repeats[open].n <= i;
       open = p->repeats[open].outer) {
    json_end_array(j);
    json_put_uint(j, "rounds", p->repeats[open].rounds);
    json_end_object(j);
  }
  return open;
}

// Those of step i that are not open yet, outer ones first: the innermost.
static uint32_t begin_repeats(struct json_out *j, const struct pipeline *p, uint32_t open,
                              uint32_t i) {
  for (uint32_t next; (next = pipeline_next_repeat(p, open, i)) != NO_ID; open = next) {
    json_object(j);
    json_put_array(j, "repeat");
  }
  return open;
}

const char *pipeline_options(struct pipeline *p) {
  if (is_one_pass(p)) return pass_values_json(&p->steps[0].values, &p->arena);
  struct json_out j = {0};
  json_object(&j);
  if (p->exactness != EXACTNESS_ROUNDING)
    json_put_text(&j, "exactness", exactness_name(p->exactness));
  json_put_array(&j, "passes");
  uint32_t open = NO_ID;
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const struct pass_values *v = &p->steps[i].values;
    open = end_repeats(&j, p, open, i);
    open = begin_repeats(&j, p, open, i);
    json_object(&j);
    json_put_text(&j, "name", v->pass->name);
    json_put_raw(&j, "options", span_str(pass_values_json(v, &p->arena)));
    json_end_object(&j);
  }
  end_repeats(&j, p, open, p->n_steps);
  json_end_array(&j);
  if (pipeline_has_own_steps(p)) user_rules_write(p->own, &j);
  json_end_object(&j);
  return json_take(&j, &p->arena);
}

// ---- verification ------------------------------------------------------------------------------

static struct pipeline_verify of_step(const struct pipeline *p, uint32_t i) {
  return p->steps[i].verify.proof == PIPELINE_PROOF_OPEN ? p->verify : p->steps[i].verify;
}

bool pipeline_verifies(const struct pipeline *p) {
  for (uint32_t i = 0; i < p->n_steps; i++)
    if (of_step(p, i).proof > PIPELINE_PROOF_OFF) return true;
  return false;
}

// Steps of one pass that differ in it: what it promises counts for more than to be left alone, and bounds for
// more than what it promises.
struct pipeline_verify pipeline_verify_of(const struct pipeline *p, const char *pass) {
  struct pipeline_verify all = {.proof = PIPELINE_PROOF_OPEN};
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const struct pipeline_verify v = of_step(p, i);
    if (strcmp(p->steps[i].values.pass->name, pass) == 0 && v.proof > all.proof) all = v;
  }
  return all;
}
