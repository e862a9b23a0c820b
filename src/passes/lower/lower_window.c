// The window that slides: its numbers, and the nodes and the index that gather what it sees.
//
// Along an axis of `in` elements, with pads b and e, a window of k elements with dilation d and stride s, the element t
// of the window's place o is number
//
//   o*s + t*d      of the padded axis      0 <= o < out, 0 <= t < k
//
// How many places there are (`out`) is inference's word, which knows ceil_mode and auto_pad as runtimes do. SAME_UPPER
// and SAME_LOWER pad what `out` places need, the odd one behind or before. With ceil_mode the last place may reach
// past the pads: so many elements more are padded, which no mean counts.
//
// The index is a sum over axes, written as a sum of small constants that broadcast: an axis of 256 elements and less is
// a list, a longer one the sum of its digits. Whatever its size, it is computed while it is written.
#include "passes/lower/inside/lower_window.h"

#include "base/size_words.h"

enum { MIN_OPSET = 13, PAD_AXES_OPSET = 18, DIGIT = 256 };

// ---- options -----------------------------------------------------------------------------------

static int read_limit(const struct pass_value *v, void *with, struct arena *a, struct err *err) {
  struct lower_options *o = with;
  (void)a;
  if (!v->text || size_words_parse(v->text, &o->index_limit)) return 0;
  err_set(err, ERR_USAGE, "--index-limit: '%s' is not a size", quote_str(v->text).s);
  return err_hint(err, "a number of bytes, as 64MiB or 1G");
}

const struct pass_option lower_window_rows[3] = {
    NAME_FILTER_ROWS,
    {"index-limit", PASS_TEXT, "SIZE", "1GiB",
     "largest index of an Im2Col to write\n"
     "This is also the most that pads may add to a tensor. Nodes that need more are left "
     "unchanged.",
     .read = read_limit},
};

// ---- numbers of the node -------------------------------------------------------------------------

static bool is_in_range(const int64_t *list, uint32_t n, int64_t least) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] < least || list[i] > INT32_MAX) return false;
  return true;
}

// A list of n numbers, all in range; `fallback` for each where it is not given. False: another one.
static bool read_list(struct kit *k, uint32_t node, const char *name, uint32_t n, int64_t least,
                      int64_t fallback, int64_t *out) {
  struct kit_attr a;
  const enum kit_state state = kit_attr(k, node, name, &a);
  if (state == KIT_UNKNOWN) return false;
  if (state == KIT_ABSENT || (a.type == ATTR_INTS && a.n == 0)) {
    for (uint32_t i = 0; i < n; i++)
      out[i] = fallback;
    return true;
  }
  if (a.type != ATTR_INTS || a.n != n) return false;
  memcpy(out, a.ints, n * sizeof *out);
  return is_in_range(out, n, least);
}

// The spatial dims of a value of rank `rank` + 2.
static bool read_dims(struct kit *k, uint32_t value, uint32_t rank, int64_t *out) {
  uint32_t known;
  if (!kit_rank(k, value, &known) || known != rank + 2) return false;
  for (uint32_t i = 0; i < rank; i++)
    out[i] = kit_dim(k, value, 2 + i).value;
  return is_in_range(out, rank, 1);
}

// From the first element that the window sees to behind its last.
static int64_t reach(const struct lower_window *w, uint32_t i) {
  return (w->out[i] - 1) * w->strides[i] + (w->kernel[i] - 1) * w->dilations[i] + 1;
}

static const char *read_pads(struct kit *k, uint32_t node, struct lower_window *w) {
  int64_t pads[2 * LOWER_WINDOW_AXES];
  struct span mode;
  if (!kit_attr_string(k, node, "auto_pad", "NOTSET", &mode) ||
      !read_list(k, node, "pads", 2 * w->rank, 0, 0, pads))
    return "attribute";
  const bool upper = span_is(mode, "SAME_UPPER"), same = upper || span_is(mode, "SAME_LOWER");
  const bool said = mode.n == 0 || span_is(mode, "NOTSET");
  if (!same && !said && !span_is(mode, "VALID")) return "attribute";
  for (uint32_t i = 0; i < w->rank; i++) {
    const int64_t needs = reach(w, i) - w->in[i], lacks = needs > 0 ? needs : 0;
    // Runtimes pad less than nothing where pooling leaves elements out.
    if (same && needs < 0 && kit_op(k, node) != OP_Conv) return "auto_pad";
    w->before[i] = said ? pads[i] : same ? (upper ? lacks / 2 : lacks - lacks / 2) : 0;
    w->after[i] = said ? pads[w->rank + i] : same ? lacks - w->before[i] : 0;
    const int64_t padded = w->before[i] + w->in[i] + w->after[i];
    w->beyond[i] = reach(w, i) > padded ? reach(w, i) - padded : 0;
    // Of a window that is larger than all there is, runtimes make what they like.
    if (w->beyond[i] > 0 && (w->kernel[i] - 1) * w->dilations[i] + 1 > padded) return "window";
  }
  return NULL;
}

const char *lower_window_of(struct kit *k, uint32_t node, struct lower_window *w) {
  const uint32_t x = kit_in(k, node, 0), y = kit_out(k, node, 0);
  uint32_t rank;
  *w = (struct lower_window){0};
  if (kit_opset(k, k->m->nodes[node].graph) < MIN_OPSET) return "opset_too_old";
  if (kit_refers(k->m, node)) return "attribute_reference";
  if (x == NO_ID || y == NO_ID || kit_may_be_left_out(k->m, x)) return "signature";
  for (uint32_t i = 1; i < k->m->nodes[node].n_out; i++)
    if (kit_out(k, node, i) != NO_ID) return "several_outputs";
  if (!kit_rank(k, x, &rank) || kit_dtype(k, x) == DTYPE_UNDEFINED) return "shape_unknown";
  if (rank < 3 || rank > LOWER_WINDOW_AXES + 2) return "rank";
  w->rank = rank - 2;
  w->dtype = kit_dtype(k, x);
  w->batch = kit_dim(k, x, 0);
  w->channels = kit_dim(k, x, 1).value;
  if (w->channels < 1 || w->channels > INT32_MAX || !read_dims(k, x, w->rank, w->in) ||
      !read_dims(k, y, w->rank, w->out))
    return "shape_unknown";
  if (!read_list(k, node, "strides", w->rank, 1, 1, w->strides) ||
      !read_list(k, node, "dilations", w->rank, 1, 1, w->dilations))
    return "attribute";
  // A convolution says it by its weights too.
  const uint32_t weights = kit_op(k, node) == OP_Conv ? kit_in(k, node, 1) : NO_ID;
  if (weights != NO_ID && !read_dims(k, weights, w->rank, w->kernel)) return "shape_unknown";
  int64_t said[LOWER_WINDOW_AXES];
  if (!read_list(k, node, "kernel_shape", w->rank, 1, 0, said)) return "attribute";
  for (uint32_t i = 0; i < w->rank; i++) {
    if (weights == NO_ID) w->kernel[i] = said[i];
    if (w->kernel[i] < 1 || (said[i] && said[i] != w->kernel[i])) return "attribute";
  }
  return read_pads(k, node, w);
}

int64_t lower_window_count(const struct lower_window *w, uint32_t axis, int64_t at, bool pads) {
  const int64_t first = at * w->strides[axis] - w->before[axis], by = w->dilations[axis];
  const int64_t end = w->in[axis] + (pads ? w->after[axis] : 0);
  const int64_t begin = pads ? -w->before[axis] : 0;
  // Places t with begin <= first + t*by < end.
  const int64_t from = first >= begin ? 0 : (begin - first + by - 1) / by;
  const int64_t to = first >= end ? 0 : (end - first + by - 1) / by;
  const int64_t last = to < w->kernel[axis] ? to : w->kernel[axis];
  return last > from ? last - from : 0;
}

bool lower_window_is_filled(const struct lower_window *w) {
  for (uint32_t i = 0; i < w->rank; i++)
    for (int64_t o = 0; o < w->out[i]; o++)
      if (lower_window_count(w, i, o, false) == 0) return false;
  return true;
}

// ---- the index -----------------------------------------------------------------------------------

int64_t lower_window_product(const int64_t *list, uint32_t n) {
  int64_t all = 1;
  for (uint32_t i = 0; i < n; i++)
    all *= list[i];
  return all;
}

static int64_t padded(const struct lower_window *w, uint32_t i) {
  return w->before[i] + w->in[i] + w->after[i] + w->beyond[i];
}

bool lower_window_index_fits(const struct lower_window *w, int64_t channels, uint64_t limit) {
  int64_t count = channels, input = channels;
  for (uint32_t i = 0; i < w->rank; i++)
    if (__builtin_mul_overflow(count, w->out[i], &count) ||
        __builtin_mul_overflow(count, w->kernel[i], &count) ||
        __builtin_mul_overflow(input, padded(w, i), &input))
      return false;
  uint64_t bytes;
  return !__builtin_mul_overflow((uint64_t)count, sizeof(int64_t), &bytes) && bytes <= limit;
}

bool lower_window_pads_fit(const struct lower_window *w, uint64_t limit) {
  double before = (double)w->channels, after = before;
  for (uint32_t i = 0; i < w->rank; i++) {
    before *= (double)w->in[i];
    after *= (double)padded(w, i);
  }
  return (after - before) * dtype_bits(w->dtype) / 8 <= (double)limit;
}

// [0, by, 2*by, …], n of them: a list, or the sum of the digits of a longer one, cut at its end.
static uint32_t steps(struct kit *k, int64_t n, int64_t by) {
  int64_t list[DIGIT], digits[8], unit = 1, total = 1;
  uint32_t n_digits = 0, sum = NO_ID;
  for (; total < n; total *= digits[n_digits++])
    digits[n_digits] = (n + total - 1) / total < DIGIT ? (n + total - 1) / total : DIGIT;
  for (uint32_t i = 0; i < n_digits; unit *= digits[i++]) {
    int64_t dims[8];
    for (int64_t j = 0; j < digits[i]; j++)
      list[j] = j * unit * by;
    // The least digit is the last axis.
    for (uint32_t j = 0; j < n_digits; j++)
      dims[n_digits - 1 - j] = j == i ? digits[i] : 1;
    const uint32_t digit = recipe_bytes(k->r, DTYPE_INT64, dims, n_digits,
                                        span_of(list, (size_t)digits[i] * sizeof *list));
    sum = sum == NO_ID ? digit : recipe_map(k->r, RECIPE_MAP_ADD, (const uint32_t[]){sum, digit});
  }
  const int64_t zero = 0, one = 1;
  return recipe_slice(k->r, recipe_reshape(k->r, sum, &total, 1), &zero, &one, &n);
}

uint32_t lower_window_index(struct lower *l, const struct lower_window *w, int64_t channels) {
  enum { MOST = 2 * LOWER_WINDOW_AXES + 1 };
  struct kit *k = &l->k;
  const uint32_t rank = 2 * w->rank + 1;
  int64_t lengths[MOST], by[MOST], unit = channels;
  memcpy(lengths, w->out, w->rank * sizeof *lengths);
  memcpy(lengths + w->rank, w->kernel, w->rank * sizeof *lengths);
  lengths[rank - 1] = channels;
  by[rank - 1] = 1;
  for (uint32_t i = w->rank; i-- > 0; unit *= padded(w, i)) {
    by[i] = w->strides[i] * unit;
    by[w->rank + i] = w->dilations[i] * unit;
  }
  uint32_t sum = NO_ID;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t dims[MOST];
    if (lengths[i] == 1) continue;
    for (uint32_t j = 0; j < rank; j++)
      dims[j] = j == i ? lengths[i] : 1;
    const uint32_t term = recipe_reshape(k->r, steps(k, lengths[i], by[i]), dims, rank);
    sum = sum == NO_ID ? term : recipe_map(k->r, RECIPE_MAP_ADD, (const uint32_t[]){sum, term});
  }
  if (sum == NO_ID) sum = kit_scalar_recipe(k, DTYPE_INT64, 0);
  int64_t dims[LOWER_WINDOW_AXES + 1];
  memcpy(dims, w->out, w->rank * sizeof *dims);
  dims[w->rank] = lower_window_product(w->kernel, w->rank) * channels;
  return lower_window_constant(l, "index", recipe_reshape(k->r, sum, dims, w->rank + 1));
}

// ---- nodes -----------------------------------------------------------------------------------------

uint32_t lower_window_constant(struct lower *l, const char *what, uint32_t recipe) {
  const struct kit *k = &l->k;
  if (recipe >= l->n_of_recipe) TABLE_ADD(l, of_recipe, k->r->n_rows - l->n_of_recipe);
  for (uint32_t i = l->of_recipe[recipe]; i > 0; i = l->shared[i - 1].next)
    if (l->shared[i - 1].graph == k->graph) return l->shared[i - 1].value;
  const uint32_t value = kit_new_tensor(&l->k, what, recipe);
  *TABLE_PUSH(l, shared) = (struct lower_shared){k->graph, value, l->of_recipe[recipe]};
  l->of_recipe[recipe] = l->n_shared;
  return value;
}

uint32_t lower_window_ints(struct lower *l, const char *what, const int64_t *list, uint32_t n) {
  const int64_t dim = n;
  return lower_window_constant(
      l, what, recipe_bytes(l->k.r, DTYPE_INT64, &dim, 1, span_of(list, n * sizeof *list)));
}

static uint32_t put_pad(struct lower *l, const struct lower_window *w, uint32_t x, double element) {
  struct kit *k = &l->k;
  int64_t pads[2 * LOWER_WINDOW_AXES + 4] = {0}, axes[LOWER_WINDOW_AXES];
  const bool has_axes = kit_opset(k, k->graph) >= PAD_AXES_OPSET;
  const uint32_t skip = has_axes ? 0 : 2, n = w->rank + skip;
  bool any = false;
  for (uint32_t i = 0; i < w->rank; i++) {
    axes[i] = 2 + i;
    pads[skip + i] = w->before[i];
    pads[n + skip + i] = w->after[i] + w->beyond[i];
    any |= padded(w, i) != w->in[i];
  }
  if (!any) return x;
  const uint32_t amounts = lower_window_ints(l, "pads", pads, 2 * n);
  const uint32_t value =
      lower_window_constant(l, "padding", kit_scalar_recipe(k, w->dtype, element));
  if (!has_axes) return kit_make(k, OP_Pad, KIT_IN(x, amounts, value));
  return kit_make(k, OP_Pad,
                  KIT_IN(x, amounts, value, lower_window_ints(l, "axes", axes, w->rank)));
}

uint32_t lower_window_last(struct lower *l, const struct lower_window *w, uint32_t x,
                           double element) {
  int64_t perm[LOWER_WINDOW_AXES + 2] = {0};
  for (uint32_t i = 0; i < w->rank; i++)
    perm[1 + i] = 2 + i;
  perm[w->rank + 1] = 1;
  const uint32_t padded_x = put_pad(l, w, x, element);
  return kit_make(&l->k, OP_Transpose, KIT_IN(padded_x), KIT_INTS("perm", perm, w->rank + 2));
}

uint32_t lower_window_columns(struct kit *k, const struct lower_window *w, uint32_t x,
                              uint32_t index) {
  return kit_make(k, OP_ops_Im2Col, KIT_IN(x, index), KIT_INTS("dilations", w->dilations, w->rank),
                  KIT_INTS("kernel_shape", w->kernel, w->rank),
                  KIT_INTS("strides", w->strides, w->rank));
}

void lower_window_back(struct kit *k, const struct lower_window *w, uint32_t node, uint32_t last) {
  int64_t perm[LOWER_WINDOW_AXES + 2] = {0, w->rank + 1};
  for (uint32_t i = 0; i < w->rank; i++)
    perm[2 + i] = 1 + i;
  kit_replace(k, node, OP_Transpose, KIT_IN(last), KIT_INTS("perm", perm, w->rank + 2));
}

// ---- the walk ----------------------------------------------------------------------------------------

int lower_window_walk(struct pass_env *env, const struct lower_options *options, enum op op,
                      const char *(*visit)(struct lower *l, uint32_t node), struct err *err) {
  struct lower l = {.options = options};
  struct kit *k = &l.k;
  kit_init(k, env, env->pass->name);
  kit_infer(k);
  name_filter_warn(&(const struct name_filter *){&options->nodes}, 1, env);
  for (uint32_t g = 0; kit_graph(k, &g); g++)
    for (uint32_t n = k->m->graphs[g].first_node, next; n != NO_ID; n = next) {
      next = k->m->nodes[n].next;
      if (kit_op(k, n) != op) continue;
      const char *why =
          name_filter_refuses(&options->nodes, model_name_str(k->m, k->m->nodes[n].name));
      k->graph = g;
      if (!why) why = visit(&l, n);
      if (why) kit_skipped(k, n, why);
    }
  TABLES_FREE(&l, shared, of_recipe);
  return kit_done(k, err);
}
