// Numbers for the symbols of a model's inputs.
//
//   declared ──▶ symbols, each with a role ──▶ a number for each ──▶ inference again, with these ──▶ how much is wrong?
//                batch, time, past, image …    ▲                                                      │
//                                              └───────────── the next candidate of one ◀─────────────┘
//
// What a role is follows from the name of the symbol ("past_sequence_length"), else from where it stands ([b, C, t]).
// Each role has a list of candidates, the likely one first. Whether they fit (a Reshape divides, a window is no longer
// than what it slides over, two parts that meet are equally long) is known by inferring the model once more with numbers
// and counting what is wrong (draw_fit.c). One symbol after another is tried with its candidates until nothing is wrong,
// or a budget of nodes is used up; the best is kept. What users said is never changed.
#include "verify/draw/inside/draw_parts.h"

#include <ctype.h>

enum { TRIALS = 64, TRIALS_LEAST = 6, NODES_AT_MOST = 1 << 20 };
// Numbers that are tried for a symbol whose expression has a given value; the most that is added up for a total.
enum { NUMBERS = 1 << 16 };

// ---- roles -------------------------------------------------------------------------------------------

static bool has_word(const char *s, const char *word) {
  return strstr(s, word) != NULL;
}

static void lower(struct span name, char *out, size_t room) {
  const size_t n = name.n < room - 1 ? name.n : room - 1;
  for (size_t i = 0; i < n; i++)
    out[i] = (char)tolower(name.at[i]);
  out[n] = 0;
}

static bool is_cache(const char *input) {
  return has_word(input, "past") || has_word(input, "cache") || has_word(input, "pkv");
}

// Of a recurrent layer: [layers, batch, hidden].
static bool is_state(const char *input) {
  return has_word(input, "state") || has_word(input, "hidden") || has_word(input, "cell") ||
         ((*input == 'h' || *input == 'c') && strlen(input) <= 2);
}

static bool is_one_of(const char *s, const char *const *words, bool whole) {
  for (; *words; words++)
    if (whole ? strcmp(s, *words) == 0 : has_word(s, *words)) return true;
  return false;
}

// By its own name; ROLE_OTHER: it says nothing.
static enum draw_role role_by_name(const char *s, bool integer) {
  // audio_signal_dynamic_axes_1, state_dim_1: an exporter's name for an axis of an input.
  if (has_word(s, "dynamic") || has_word(s, "dim_") || has_word(s, "dim-")) return ROLE_OTHER;
  static const char *const batch[] = {"batch", NULL}, *const batch_alone[] = {"n", "b", "bs", NULL};
  static const char *const image[] = {"height", "width", NULL}, *const image_alone[] = {"h", "w",
                                                                                        NULL};
  static const char *const length[] = {"seq",    "len",   "time", "frame", "token",
                                       "sample", "audio", "word", NULL};
  static const char *const length_alone[] = {"t", "l", "s", NULL};
  if (has_word(s, "total")) return ROLE_TOTAL;
  if (is_cache(s)) return ROLE_PAST;
  if (is_one_of(s, batch, false) || is_one_of(s, batch_alone, true)) return ROLE_BATCH;
  if (has_word(s, "channel")) return ROLE_CHANNEL;
  if (is_one_of(s, image, false) || is_one_of(s, image_alone, true)) return ROLE_IMAGE;
  if (is_one_of(s, length, false) || is_one_of(s, length_alone, true))
    return integer ? ROLE_TOKENS : ROLE_TIME;
  return ROLE_OTHER;
}

static bool has_cache(const struct draw *d) {
  char name[64];
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    lower(model_value_name(d->m, d->inputs[i].value), name, sizeof name);
    if (is_cache(name) && d->inputs[i].type.rank >= 3) return true;
  }
  return false;
}

static enum draw_role role_by_place(const struct draw *d, const char *input,
                                    const struct infer_type *t, uint32_t axis) {
  const uint32_t rank = t->rank;
  const bool integer = dtype_is_integer(t->dtype) && t->dtype != DTYPE_UINT8;
  const enum draw_role length = integer ? ROLE_TOKENS : ROLE_TIME;
  if (is_cache(input) && rank >= 3)
    return axis == 0 ? ROLE_BATCH : axis == rank - 2 ? ROLE_PAST : ROLE_OTHER;
  if (rank == 1) return has_word(input, "len") ? ROLE_BATCH : length;
  if (axis == 0 || (axis == 1 && rank == 3 && is_state(input))) return ROLE_BATCH;
  if (rank == 4) return axis == 1 && t->dtype != DTYPE_UINT8 ? ROLE_CHANNEL : ROLE_IMAGE;
  if (has_word(input, "mask") && has_cache(d)) return ROLE_TOTAL; // what is cached, and what is new
  return rank > 4 ? ROLE_OTHER : length;
}

static bool is_length(uint32_t role) {
  return role == ROLE_TOKENS || role == ROLE_TIME;
}

// ---- symbols -----------------------------------------------------------------------------------------

static void add_symbol(struct draw *d, dim_id symbol, const struct draw_input *x, uint32_t axis) {
  const struct span input = model_value_name(d->m, x->value);
  struct span name = {0};
  char word[64], of[64];
  dims_is_symbol(infer_dims(d->in), symbol, &name);
  lower(name, word, sizeof word);
  lower(input, of, sizeof of);
  enum draw_role role = role_by_name(word, dtype_is_integer(x->type.dtype));
  if (role == ROLE_OTHER) role = role_by_place(d, of, &x->type, axis);
  *TABLE_PUSH(d, symbols) = (struct draw_symbol){
      .words = name.n ? arena_printf(&d->arena, "%s", quote(name).s)
                      : arena_printf(&d->arena, "%s[%u]", quote(input).s, axis),
      .role = (uint8_t)role,
  };
  *TABLE_PUSH(d, bound) = (struct dims_binding){symbol, 1};
}

static dim_id dim_of(struct draw *d, const struct draw_input *x, uint32_t axis) {
  return dims_find(infer_dims(d->in), x->type.dims[axis]);
}

static bool value_of(struct draw *d, dim_id e, int64_t *out) {
  return dims_value(infer_dims(d->in), e, d->bound, d->n_bound, out);
}

// Of a signal with two axes of unknown size behind the batch, [b, C, t], the first is the channels.
static void find_symbols(struct draw *d) {
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    const struct draw_input *x = &d->inputs[i];
    const uint32_t before = d->n_symbols;
    for (uint32_t k = 0; x->type.ranked && k < x->type.rank; k++) {
      const dim_id e = dim_of(d, x, k);
      for (dim_id s; (s = dims_unbound(infer_dims(d->in), e, d->bound, d->n_bound)) != NO_ID;)
        add_symbol(d, s, x, k);
    }
    if (x->type.rank != 3 || d->n_symbols < before + 2) continue;
    struct draw_symbol *last = &d->symbols[d->n_symbols - 1];
    if (last[-1].role == ROLE_TIME && last->role == ROLE_TIME && dtype_is_float(x->type.dtype))
      last[-1].role = ROLE_CHANNEL;
  }
}

static void settle(struct draw *d, uint32_t symbol, int64_t n) {
  d->bound[symbol].value = n;
  d->symbols[symbol].fixed = true;
}

// ---- what users said -----------------------------------------------------------------------------------

static uint32_t open_symbol(struct draw *d, dim_id e, uint32_t *n_open) {
  uint32_t found = NO_ID;
  struct dims_binding *rest = d->bound;
  *n_open = 0;
  // Symbols that are not fixed, put at the end of the list that is looked up: one at a time is left out.
  for (uint32_t i = 0; i < d->n_symbols; i++) {
    if (d->symbols[i].fixed) continue;
    const struct dims_binding was = rest[i];
    rest[i].symbol = NO_ID;
    if (dims_unbound(infer_dims(d->in), e, rest, d->n_bound) != NO_ID) {
      found = i;
      ++*n_open;
    }
    rest[i] = was;
  }
  return found;
}

// Makes the expression n by its one symbol that is open; false: no number of it does.
static bool solve(struct draw *d, dim_id e, int64_t n) {
  uint32_t n_open;
  const uint32_t symbol = open_symbol(d, e, &n_open);
  int64_t is;
  if (n_open == 0) return value_of(d, e, &is) && is == n;
  if (n_open > 1) return true; // another input's shape may say more; looked at again at the end
  if (dims_is_symbol(infer_dims(d->in), e, NULL)) {
    settle(d, symbol, n);
    return true;
  }
  for (int64_t x = 0; x <= NUMBERS; x++) {
    d->bound[symbol].value = x;
    if (!value_of(d, e, &is) || is != n) continue;
    settle(d, symbol, x);
    return true;
  }
  return false;
}

static int refuse_dim(struct draw *d, const struct draw_input *x, uint32_t axis, struct err *err) {
  struct arena a = {0};
  const dim_id e = dim_of(d, x, axis);
  const struct span text = dims_text(infer_dims(d->in), e, &a);
  uint32_t n_open;
  int64_t is;
  const bool bound = open_symbol(d, e, &n_open) == NO_ID && value_of(d, e, &is) &&
                     !dims_is_number(infer_dims(d->in), e, &(int64_t){0});
  const char *already =
      bound ? arena_printf(&a, ", which another size makes %s,", integer(is).s) : "";
  err_set(err, ERR_USAGE, "input '%s': axis %u is %.*s in the model%s and cannot be %s",
          quote(model_value_name(d->m, x->value)).s, axis, (int)text.n, text.at, already,
          integer(x->shape->dims[axis]).s);
  arena_free(&a);
  return -1;
}

static int take_shape(struct draw *d, const struct draw_input *x, struct err *err) {
  if (!x->type.ranked) return 0;
  if (x->type.rank != x->shape->rank)
    return err_set(err, ERR_USAGE,
                   "input '%s' has %u dim%s in the model, but %u in the given shape",
                   quote(model_value_name(d->m, x->value)).s, x->type.rank, plural(x->type.rank),
                   x->shape->rank);
  for (uint32_t k = 0; k < x->type.rank; k++)
    if (!solve(d, dim_of(d, x, k), x->shape->dims[k])) return refuse_dim(d, x, k, err);
  return 0;
}

// Twice: an expression of several symbols has them from other inputs.
static int take_shapes(struct draw *d, struct err *err) {
  for (uint32_t i = 0; i < d->o.n_shapes; i++) {
    const struct draw_shape *s = &d->o.shapes[i];
    struct draw_input *of = NULL;
    for (uint32_t k = 0; k < d->n_inputs && !of; k++)
      if (span_is(model_value_name(d->m, d->inputs[k].value), s->name)) of = &d->inputs[k];
    if (!of)
      return err_set(err, ERR_USAGE, "a shape is given for '%s', but the model has no such input",
                     quote_str(s->name).s);
    of->shape = s;
    for (uint32_t k = 0; k < s->rank; k++)
      if (s->dims[k] < 0)
        return err_set(err, ERR_USAGE, "input '%s': %s is not a size", quote_str(s->name).s,
                       integer(s->dims[k]).s);
  }
  for (uint32_t turn = 0; turn < 2; turn++)
    for (uint32_t i = 0; i < d->n_inputs; i++)
      if (d->inputs[i].shape && take_shape(d, &d->inputs[i], err) < 0) return -1;
  return 0;
}

static bool is_signal(const struct draw *d, const struct draw_input *x) {
  return d->o.signal && span_is(model_value_name(d->m, x->value), d->o.signal);
}

// The axis of an input that says how long it is: the one whose symbol is that; else the one behind the channels.
static void find_length_axes(struct draw *d) {
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    struct draw_input *x = &d->inputs[i];
    x->length_axis = NO_ID;
    for (uint32_t k = x->type.ranked ? x->type.rank : 0; k-- > 0;) {
      const dim_id e = dim_of(d, x, k);
      for (uint32_t s = 0; s < d->n_symbols; s++)
        if (d->bound[s].symbol == e && is_length(d->symbols[s].role)) x->length_axis = k;
    }
    if (x->length_axis == NO_ID && x->type.ranked && x->type.rank >= 2 && x->type.rank <= 3)
      x->length_axis = x->type.rank - 1;
  }
}

static void take_sizes(struct draw *d) {
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    const struct draw_input *x = &d->inputs[i];
    uint32_t n_open;
    if (!x->type.ranked || (d->o.signal && !is_signal(d, x))) continue;
    if (d->o.channels > 0 && x->type.rank >= 3 && dtype_is_float(x->type.dtype) &&
        open_symbol(d, dim_of(d, x, 1), &n_open) != NO_ID && n_open == 1 && x->length_axis != 1)
      solve(d, dim_of(d, x, 1), d->o.channels);
    if (d->o.length > 0 && x->length_axis != NO_ID && (is_signal(d, x) || x->type.rank >= 2))
      solve(d, dim_of(d, x, x->length_axis), d->o.length);
  }
  for (uint32_t i = 0; i < d->n_symbols && d->o.length > 0 && !d->o.signal; i++)
    if (is_length(d->symbols[i].role) && !d->symbols[i].fixed) settle(d, i, d->o.length);
}

// ---- candidates ---------------------------------------------------------------------------------------

static int64_t first_of_role(const struct draw *d, uint32_t role, uint32_t or_role) {
  for (uint32_t i = 0; i < d->n_symbols; i++)
    if (d->symbols[i].role == role || d->symbols[i].role == or_role)
      return d->bound[i].value < NUMBERS ? d->bound[i].value : NUMBERS;
  return 0;
}

// Candidate `at` of a symbol; false past the last.
static bool candidate(const struct draw *d, uint32_t symbol, uint32_t at, int64_t *out) {
  static const int64_t batch[] = {1, 2, 4, 0}, channel[] = {3, 1, 4, 64, 80, 128, 16, 32, 256, 0};
  static const int64_t image[] = {224, 256, 64, 32, 48, 128, 320, 384, 512, 640, 96, 16, 0};
  static const int64_t tokens[] = {16, 8, 12, 32, 64, 1, 2, 4, 128, 256, 512, 0};
  static const int64_t time[] = {64, 128, 256, 512, 576, 1024, 100,  400,  480,   160, 32,
                                 16, 8,   4,   2,   1,   1536, 3000, 4096, 16000, 0};
  static const int64_t past[] = {8, 16, 4, 1, 2, 0},
                       other[] = {8, 4, 16, 2, 1, 3, 5, 6, 12, 32, 64, 128, 0};
  static const int64_t *const lists[] = {
      [ROLE_BATCH] = batch, [ROLE_CHANNEL] = channel, [ROLE_IMAGE] = image, [ROLE_TOKENS] = tokens,
      [ROLE_TIME] = time,   [ROLE_PAST] = past,       [ROLE_TOTAL] = other, [ROLE_OTHER] = other};
  const uint32_t role = d->symbols[symbol].role;
  if (role == ROLE_TOTAL) {
    const int64_t new = first_of_role(d, ROLE_TOKENS, ROLE_TIME),
                  old = first_of_role(d, ROLE_PAST, ROLE_PAST);
    const int64_t sums[] = {old + new, new, old};
    if (at < 3) {
      *out = sums[at] ? sums[at] : 16;
      return true;
    }
    at -= 3;
  }
  *out = lists[role][at];
  return *out > 0;
}

static void take_first_candidates(struct draw *d) {
  for (uint32_t turn = 0; turn < 2; turn++)
    for (uint32_t i = 0; i < d->n_symbols; i++)
      if (!d->symbols[i].fixed && (d->symbols[i].role == ROLE_TOTAL) == (turn == 1))
        candidate(d, i, 0, &d->bound[i].value);
}

// ---- trials -------------------------------------------------------------------------------------------

// Dims of an input in this case, as expressions of another table.
static bool set_input(struct draw *d, struct infer *in, const struct draw_input *x) {
  dim_id dims[ARRAY_MAX_RANK];
  const uint32_t rank = x->shape ? x->shape->rank : x->type.rank;
  if (!x->shape && !x->type.ranked) return true;
  if (rank > ARRAY_MAX_RANK || x->type.kind != INFER_TENSOR) return true;
  for (uint32_t k = 0; k < rank; k++) {
    int64_t n;
    if (x->shape)
      n = x->shape->dims[k];
    else if (!value_of(d, dim_of(d, x, k), &n) || n < 0)
      return false;
    dims[k] = dims_number(infer_dims(in), n);
  }
  return infer_set_input(in, x->value, dims, rank);
}

// What comes out of a Reshape by an input says what to draw for it: declarations are believed.
static struct infer *infer_with_numbers(struct draw *d) {
  const struct infer_options o = {INFER_REFINE, 1, INT64_MAX, false};
  struct infer *in = infer_new(d->m, &o);
  for (uint32_t i = 0; i < d->n_inputs; i++)
    if (!set_input(d, in, &d->inputs[i])) {
      infer_free(in);
      return NULL;
    }
  infer_all(in, NULL);
  return in;
}

struct search {
  uint32_t least, floor; // what is wrong at best so far; what is wrong whatever the sizes
  uint32_t trials;
};

// Keeps what is better than all before.
static bool try_sizes(struct draw *d, struct search *s) {
  if (s->trials == 0) return false;
  s->trials--;
  struct infer *in = infer_with_numbers(d);
  const uint32_t n = in ? draw_fit_wrong(d, in) : UINT32_MAX;
  const bool better = in && (n < s->least || !d->sized);
  if (better) {
    infer_free(d->sized);
    d->sized = in;
    s->least = n;
  } else
    infer_free(in);
  return better;
}

static void try_symbol(struct draw *d, uint32_t symbol, struct search *s) {
  int64_t best = d->bound[symbol].value, x;
  for (uint32_t at = 0; candidate(d, symbol, at, &x) && s->least > s->floor && s->trials > 0;
       at++) {
    if (x == best) continue;
    d->bound[symbol].value = x;
    if (try_sizes(d, s)) best = x;
  }
  d->bound[symbol].value = best;
}

// Symbols of one role together first: height and width of an image are nearly always free alike.
static void try_role(struct draw *d, uint32_t role, struct search *s) {
  int64_t x;
  uint32_t n = 0, one = 0;
  for (uint32_t i = 0; i < d->n_symbols; i++)
    if (d->symbols[i].role == role && !d->symbols[i].fixed) n++, one = i;
  if (n < 2) return;
  struct arena a = {0};
  struct dims_binding *best = arena_copy(&a, d->bound, d->n_bound * sizeof *best);
  for (uint32_t at = 0; candidate(d, one, at, &x) && s->least > s->floor && s->trials > 0; at++) {
    for (uint32_t i = 0; i < d->n_symbols; i++)
      if (d->symbols[i].role == role && !d->symbols[i].fixed) d->bound[i].value = x;
    if (try_sizes(d, s)) memcpy(best, d->bound, d->n_bound * sizeof *best);
  }
  memcpy(d->bound, best, d->n_bound * sizeof *best);
  arena_free(&a);
}

static bool set_batch(struct draw *d, int64_t n) {
  bool any = false;
  for (uint32_t i = 0; i < d->n_symbols; i++) {
    if (d->symbols[i].role != ROLE_BATCH || d->symbols[i].fixed) continue;
    any = any || d->bound[i].value != n;
    d->bound[i].value = n;
  }
  return any;
}

// The search over, with the batch that was asked for. What fits worse than a batch of one is given up.
static void enlarge_batch(struct draw *d, const struct search *found) {
  struct search s = {.least = found->least + 1, .floor = found->floor, .trials = 1};
  struct arena a = {0};
  if (d->n_bound == 0) return; // no dim is open
  struct dims_binding *was = arena_copy(&a, d->bound, d->n_bound * sizeof *was);
  if (found->least != UINT32_MAX && set_batch(d, d->o.batch) && !try_sizes(d, &s))
    memcpy(d->bound, was, d->n_bound * sizeof *was);
  arena_free(&a);
}

static void search(struct draw *d) {
  const uint32_t nodes = d->m->n_nodes + 1, many = NODES_AT_MOST / nodes;
  struct search s = {.least = UINT32_MAX, .floor = draw_fit_wrong(d, d->in)};
  s.trials = many > TRIALS ? TRIALS : many < TRIALS_LEAST ? TRIALS_LEAST : many;
  try_sizes(d, &s);
  static const uint8_t order[] = {ROLE_TIME,  ROLE_TOKENS,  ROLE_IMAGE, ROLE_TOTAL,
                                  ROLE_OTHER, ROLE_CHANNEL, ROLE_PAST,  ROLE_BATCH};
  for (uint32_t r = 0; r < sizeof order && s.least > s.floor; r++) {
    try_role(d, order[r], &s);
    for (uint32_t i = 0; i < d->n_symbols; i++)
      if (d->symbols[i].role == order[r] && !d->symbols[i].fixed) try_symbol(d, i, &s);
  }
  if (d->o.batch > 1) enlarge_batch(d, &s);
}

// ---- all of it ----------------------------------------------------------------------------------------

static void list_inputs(struct draw *d) {
  if (d->m->main_graph == NO_ID) return;
  const struct model_graph *g = &d->m->graphs[d->m->main_graph];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = d->m->graph_io[g->inputs + i];
    if (d->m->values[value].kind != VALUE_INPUT) continue;
    struct draw_input x = {.value = value, .length_axis = NO_ID};
    infer_type_of(d->in, value, &x.type);
    *TABLE_PUSH(d, inputs) = x;
  }
}

static void keep_dims(struct draw *d) {
  for (uint32_t i = 0; i < d->n_inputs; i++) {
    struct draw_input *x = &d->inputs[i];
    int64_t dims[ARRAY_MAX_RANK];
    uint32_t rank;
    if (x->type.kind != INFER_TENSOR || !draw_dims(d, x->value, dims, &rank)) continue;
    int64_t *own = arena_copy(&d->arena, dims, rank * sizeof *own);
    x->dims = own;
  }
}

int draw_bind(struct draw *d, struct err *err) {
  list_inputs(d);
  find_symbols(d);
  if (take_shapes(d, err) < 0) return -1;
  find_length_axes(d);
  take_sizes(d);
  take_first_candidates(d);
  if (d->n_symbols || d->o.n_shapes) search(d);
  if (!d->sized && (d->n_symbols || d->o.n_shapes))
    return err_set(err, ERR_USAGE, "weir found no sizes of the inputs that are consistent");
  if (!d->sized) d->sized = d->in;
  keep_dims(d);
  return 0;
}
