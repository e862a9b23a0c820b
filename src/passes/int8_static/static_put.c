// What was marked is written: Q and DQ nodes around values, codes and DQ in place of weights, and how names go.
//
//   producer ─▶ t ─▶ Q ─▶ DQ ─▶ t_DequantizeLinear_Output ─▶ consumers          a value
//   producer ─▶ t_QuantizeLinear_Input ─▶ Q ─▶ DQ ─▶ t (an output)               an output of the graph: its name stays; and (not
//                                                                                with compat) what codes clip for a Relu
//   w_quantized ─▶ DQ ─▶ w_DequantizeLinear_Output ─▶ consumers                  a weight
//   producer ─▶ Q ─┬─▶ DQ ─▶ some                                                 a value of two types
//                  └─▶ DQ ─▶ Q ─▶ DQ ─▶ others
//
// First those with parameters of their own, then those that share, as often as it takes until no provider is left out,
// then biases, whose scales are products of those that were written. Bodies of If and Loop see what they saw.
// Nodes stand right after what makes their value; DQ of weights right before the first who uses them.
#include "passes/int8_static/inside/static_put.h"
#include "ranges/ranges.h"

#include "passes/kit/dead_ends.h"
#include "passes/kit/weights.h"

#include <assert.h>

#include <math.h>

// ---- nodes ---------------------------------------------------------------------------------------

uint32_t static_put_node(struct static_run *s, enum op op, const struct static_form *f, uint32_t in,
                         struct edit_output out, struct span name) {
  struct kit *k = &s->k;
  const uint32_t inputs[3] = {in, f->scale, f->zero};
  struct edit_attr attrs[2];
  uint32_t n = 0;
  if (f->axis != RECIPE_PER_TENSOR)
    attrs[n++] = (struct edit_attr){
        .name = "axis", .type = ATTR_INT, .i = f->from_end ? -1 : (int64_t)f->axis};
  if (f->block)
    attrs[n++] = (struct edit_attr){.name = "block_size", .type = ATTR_INT, .i = (int64_t)f->block};
  if (s->contrib || f->contrib)
    op = op == OP_QuantizeLinear ? OP_ms_QuantizeLinear : OP_ms_DequantizeLinear;
  return kit_make(k, op, KIT_INPUTS(inputs, f->zero == NO_ID ? 2 : 3), KIT_ATTRS(attrs, n),
                  KIT_CALLED(name), KIT_OUT(out));
}

static struct edit_output new_value(struct static_run *s, struct span stem, const char *suffix) {
  return (struct edit_output){NO_ID, int8_value_name(&s->k, stem, suffix)};
}

// Q or DQ called <stem><what>, with <stem><what>_Output.
static uint32_t put_named(struct static_run *s, enum op op, const struct static_form *f,
                          uint32_t in, struct span stem, const char *number) {
  struct kit *k = &s->k;
  const char *what = op == OP_QuantizeLinear ? "_QuantizeLinear" : "_DequantizeLinear";
  const char *called = arena_printf(&k->site, "%s%s", what, number);
  const char *output = arena_printf(&k->site, "%s_Output%s", what, number);
  return static_put_node(s, op, f, in, new_value(s, stem, output),
                         kit_names_join(stem, called, &k->site));
}

// New nodes go after what makes the value: to the graph's begin if that is no node.
static void place_behind(struct static_run *s, uint32_t value) {
  struct kit *k = &s->k;
  const uint32_t maker = kit_maker(k, value);
  kit_site(k, maker, "quantized");
  k->graph = s->graph;
  k->before = maker == NO_ID ? k->m->graphs[s->graph].first_node : k->m->nodes[maker].next;
}

uint32_t static_first_user(struct static_run *s, uint32_t value) {
  struct kit *k = &s->k;
  uint32_t first = NO_ID;
  for (struct kit_use u = kit_uses(k, value); kit_use(k, &u);) {
    const uint32_t node = kit_node_around(k, u.node, s->graph);
    if (node != NO_ID && (first == NO_ID || kit_before(k, node, first))) first = node;
  }
  return first;
}

static void place_before_users(struct static_run *s, uint32_t value) {
  const uint32_t user = static_first_user(s, value);
  kit_site(&s->k, user, "quantized");
  s->k.graph = s->graph;
  s->k.before = user;
}

// ---- uses ----------------------------------------------------------------------------------------

struct uses {
  TABLE(uint32_t, at);   // pairs (node, slot)
  TABLE(uint32_t, bare); // the same, of nodes that take the value before its Q
};

// Has the zero point the type that ONNX Runtime moves wrongly?
static bool is_int8(struct static_run *s, const struct static_form *f) {
  return kit_dtype(&s->k, f->zero) == DTYPE_INT8;
}

// Those of nodes of the graph, not of bodies. `int8`: the value gets a DQ of such codes.
static void list_uses(struct static_run *s, uint32_t value, bool int8, struct uses *uses) {
  for (struct kit_use u = kit_uses(&s->k, value); kit_use(&s->k, &u);) {
    if (s->k.m->nodes[u.node].graph != s->graph) continue;
    const bool bare = static_is_bare(s, u.node, int8);
    const uint32_t use[2] = {u.node, u.slot};
    for (uint32_t i = 0; i < 2; i++)
      *(bare ? TABLE_PUSH(uses, bare) : TABLE_PUSH(uses, at)) = use[i];
  }
}

static void free_uses(struct uses *uses) {
  TABLES_FREE(uses, at, bare);
}

// Nodes that take part (`which`): all, those that get the converted form, or those of a list that do not.
enum part { ALL, RECEIVERS, OTHERS };
static bool takes_part(struct static_run *s, uint32_t node, enum part which,
                       const struct static_overrides *with) {
  const char *why;
  if (which == ALL) return true;
  if ((which == RECEIVERS) != static_receives(s, with, node)) return false;
  // Of a value of two types quantize_static leaves the float to nodes that it does not quantize and that the list does not have.
  const bool is_listed = which == RECEIVERS && with->some_receive;
  return !s->o->compat || is_listed || static_takes(s, node, &why);
}
static void move_uses(struct static_run *s, const struct uses *uses, uint32_t to, enum part which,
                      const struct static_overrides *with) {
  for (uint32_t i = 0; i + 1 < uses->n_at; i += 2)
    if (takes_part(s, uses->at[i], which, with))
      edit_set_input(s->k.e, uses->at[i], uses->at[i + 1], to);
}

// Of an output of the graph, whose name its DQ has: who takes it before its Q takes what that is made of.
static void move_bare(struct static_run *s, const struct uses *uses, uint32_t to) {
  for (uint32_t i = 0; i + 1 < uses->n_bare; i += 2)
    edit_set_input(s->k.e, uses->bare[i], uses->bare[i + 1], to);
}

// ---- what was made -------------------------------------------------------------------------------

struct static_made *static_made_of(struct static_run *s, uint32_t value) {
  static const struct static_made nothing = {NO_ID, NO_ID, NO_ID, NO_ID, NULL};
  assert(value != NO_ID);
  for (uint32_t i = s->n_made; i <= value; i++)
    *TABLE_PUSH(s, made) = nothing;
  return &s->made[value];
}

static bool is_made(struct static_run *s, uint32_t value) {
  return value != NO_ID && static_made_of(s, value)->scale != NO_ID;
}

uint32_t static_scale_for(struct static_run *s, uint32_t value, uint32_t node, uint32_t *zero) {
  if (zero) *zero = NO_ID;
  if (value == NO_ID) return NO_ID;
  const struct static_made *m = static_made_of(s, value);
  const bool converted = m->converted_scale != NO_ID && static_receives(s, m->with, node);
  if (zero) *zero = converted ? m->converted_zero : m->zero;
  return converted ? m->converted_scale : m->scale;
}

// ---- activations ---------------------------------------------------------------------------------

struct static_form static_new_form(struct static_run *s, struct span stem, const char *suffix,
                                   const struct static_params *p, uint32_t scale) {
  struct kit *k = &s->k;
  const uint32_t zero = int8_codes(k->r, p->type, &p->own.zero, NO_ID);
  if (scale == NO_ID) scale = int8_floats(k->r, p->scale_type, &p->own.scale, NO_ID);
  const char *zeros = arena_printf(&k->site, "_zero_point%s", suffix),
             *scales = arena_printf(&k->site, "_scale%s", suffix);
  struct static_form f = {.axis = RECIPE_PER_TENSOR};
  f.zero = int8_tensor(k, stem, zeros, zero, NO_ID);
  f.scale = int8_tensor(k, stem, scales, scale, NO_ID);
  return f;
}

static uint32_t first_receiver(const struct static_run *s, uint32_t value) {
  return value < s->n_receivers_of ? s->receivers_of[value].first : 0;
}

static uint32_t n_receivers(const struct static_run *s, uint32_t value) {
  uint32_t n = 0;
  for (uint32_t i = first_receiver(s, value); i; i = s->receivers[i - 1].next)
    n++;
  return n;
}

// All who take it take it before its Q: there is none, nor are there tensors for it.
static void take_back(struct static_run *s, uint32_t value, const struct static_form *f) {
  *static_made_of(s, value) = (struct static_made){NO_ID, NO_ID, NO_ID, NO_ID, NULL};
  dead_ends_drop(s->k.e, f->scale);
  dead_ends_drop(s->k.e, f->zero);
}

static bool reads(const struct kit *k, uint32_t node, uint32_t value) {
  for (uint32_t slot = 0; slot < kit_n_in(k, node); slot++)
    if (kit_in(k, node, slot) == value) return true;
  return false;
}

// A pair for each node that takes it: one for a node that takes it twice. (compat: then the second is there, and nobody reads it.)
static void put_dedicated(struct static_run *s, uint32_t value, struct span stem,
                          const struct static_form *f) {
  struct kit *k = &s->k;
  uint32_t i = 0;
  for (uint32_t r = first_receiver(s, value); r; r = s->receivers[r - 1].next) {
    const uint32_t node = s->receivers[r - 1].node;
    if (static_is_bare(s, node, is_int8(s, f)) || (!s->o->compat && !reads(k, node, value)))
      continue;
    const char *number = arena_printf(&k->site, "_%u", ++i);
    const uint32_t q = put_named(s, OP_QuantizeLinear, f, value, stem, number);
    const uint32_t dq = put_named(s, OP_DequantizeLinear, f, q, stem, number);
    kit_note_like(k, dq, value);
    for (uint32_t slot = 0; slot < kit_n_in(k, node); slot++)
      if (kit_in(k, node, slot) == value) edit_set_input(k->e, node, slot, dq);
  }
  if (i == 0) take_back(s, value, f);
}

// Of an output of the graph: its maker makes another value, which this gives.
static uint32_t take_name(struct static_run *s, uint32_t value, struct span stem) {
  struct kit *k = &s->k;
  const uint32_t maker = kit_maker(k, value);
  uint32_t slot = 0;
  while (kit_out(k, maker, slot) != value)
    slot++;
  edit_set_output(k->e, maker, slot, new_value(s, stem, "_QuantizeLinear_Input"));
  const uint32_t made = kit_out(k, maker, slot);
  kit_note_like(k, made, value);
  return made;
}

// What takes a value before its Q, which a Relu or Clip made that went, takes it from one that is put back, which makes `out`.
static uint32_t put_clip_back(struct static_run *s, const struct static_clip *c, uint32_t value,
                              struct span stem, struct edit_output out) {
  static const char *const names[2] = {"min", "max"};
  const uint32_t in[3] = {value, c->low, c->high};
  struct kit *k = &s->k;
  struct edit_attr attrs[2];
  uint32_t n = 0;
  for (uint32_t i = 0; i < 2 && c->op == OP_Clip && s->opset < 11; i++)
    if (isfinite(c->bounds[i]))
      attrs[n++] =
          (struct edit_attr){.name = names[i], .type = ATTR_FLOAT, .f = (float)c->bounds[i]};
  const uint32_t made = kit_make(k, c->op,
                                 KIT_INPUTS(in, c->high != NO_ID  ? 3
                                                : c->low != NO_ID ? 2
                                                                  : 1),
                                 KIT_ATTRS(attrs, n),
                                 KIT_CALLED(kit_names_join(stem, "_clip", &k->site)), KIT_OUT(out));
  kit_note_like(k, made, value);
  return made;
}

static void put_pair(struct static_run *s, uint32_t value, struct span stem,
                     const struct static_form *f) {
  struct kit *k = &s->k;
  struct uses uses = {0};
  // What a Relu let through, nobody may see before codes have done the same.
  const uint32_t clip = !s->o->compat && value < s->n_clipped ? s->clipped[value] : 0;
  const bool keeps_name = kit_is_output(k, value) || clip;
  const struct edit_output named = {value, span_of("", 0)};
  list_uses(s, value, is_int8(s, f), &uses);
  if (!kit_is_output(k, value) && uses.n_at == 0 && uses.n_bare > 0) {
    if (clip) put_clip_back(s, &s->clips[clip - 1], take_name(s, value, stem), stem, named);
    take_back(s, value, f);
    free_uses(&uses);
    return;
  }
  if (keeps_name) {
    value = take_name(s, value, stem);
    move_bare(s, &uses,
              clip && uses.n_bare > 0 ? put_clip_back(s, &s->clips[clip - 1], value, stem,
                                                      new_value(s, stem, "_clipped"))
                                      : value);
  }
  const uint32_t q = put_named(s, OP_QuantizeLinear, f, value, stem, "");
  if (keeps_name) {
    static_put_node(s, OP_DequantizeLinear, f, q, named,
                    kit_names_join(stem, "_DequantizeLinear", &k->site));
  } else {
    const uint32_t dq = put_named(s, OP_DequantizeLinear, f, q, stem, "");
    kit_note_like(k, dq, value);
    move_uses(s, &uses, dq, ALL, NULL);
  }
  free_uses(&uses);
}

// Does no node keep the first type? quantize_static counts: names of nodes that it quantized, and those of the list.
static bool all_receive(struct static_run *s, uint32_t value, const struct static_overrides *with) {
  uint32_t n = 0, last = NO_ID;
  bool all = true, any_nameless = false;
  for (uint32_t i = first_receiver(s, value); i; i = s->receivers[i - 1].next) {
    const uint32_t node = s->receivers[i - 1].node;
    if (node == last) continue;
    last = node;
    all = all && static_receives(s, with, node);
    const bool is_nameless = model_name(s->k.m, s->k.m->nodes[node].name).n == 0;
    n += !is_nameless || !any_nameless;
    any_nameless = any_nameless || is_nameless;
  }
  return s->o->compat && with->some_receive ? n == with->n_receivers : all;
}

// A value of one type for its producer, and of another for some consumers or all.
static void put_converted(struct static_run *s, uint32_t value, struct span stem,
                          const struct static_form *f, const struct static_form *g,
                          const struct static_overrides *with) {
  struct kit *k = &s->k;
  struct uses uses = {0};
  const bool is_output = kit_is_output(k, value);
  const struct edit_output named = {value, span_of("", 0)};
  const struct span second = kit_names_join(stem, "_convert", &k->site);
  const bool all = all_receive(s, value, with);
  list_uses(s, value, is_int8(s, f) || is_int8(s, g), &uses);
  if (!is_output && uses.n_at == 0 && uses.n_bare > 0) {
    take_back(s, value, f);
    take_back(s, value, g);
    free_uses(&uses);
    return;
  }
  const uint32_t source = is_output ? take_name(s, value, stem) : value;
  if (is_output) move_bare(s, &uses, source);
  const uint32_t q = put_named(s, OP_QuantizeLinear, f, source, stem, "");
  uint32_t from, last;
  if (is_output && !all)
    from = static_put_node(s, OP_DequantizeLinear, f, q, named,
                           kit_names_join(stem, "_DequantizeLinear", &k->site));
  else
    from = put_named(s, OP_DequantizeLinear, f, q, stem, "");
  kit_note_like(k, from, source);
  if (all || !is_output) move_uses(s, &uses, from, OTHERS, with);
  if (!all) {
    const struct span clone = kit_names_join(stem, "_convert_clone_DequantizeLinear", &k->site);
    from = static_put_node(s, OP_DequantizeLinear, f, q,
                           new_value(s, second, "_QuantizeLinear_Input"), clone);
  }
  const uint32_t q2 = put_named(s, OP_QuantizeLinear, g, from, second, "");
  if (is_output && all) {
    static_put_node(s, OP_DequantizeLinear, g, q2, named,
                    kit_names_join(second, "_DequantizeLinear", &k->site));
  } else {
    last = put_named(s, OP_DequantizeLinear, g, q2, second, "");
    kit_note_like(k, last, source);
    move_uses(s, &uses, last, RECEIVERS, with);
  }
  free_uses(&uses);
}

// Q and DQ for a value with the scale and zero point of *f.
static void put_activation(struct static_run *s, uint32_t value, struct span stem,
                           const struct static_form *f, const struct static_params *p) {
  struct static_form g;
  *static_made_of(s, value) = (struct static_made){f->scale, f->zero, NO_ID, NO_ID, NULL};
  if (p && p->with) {
    const struct static_params second = {
        .own = p->converted, .type = p->converted_type, .scale_type = p->scale_type};
    g = static_new_form(s, stem, "_convert", &second, NO_ID);
    *static_made_of(s, value) = (struct static_made){f->scale, f->zero, g.scale, g.zero, p->with};
    put_converted(s, value, stem, f, &g, p->with);
  } else if (s->o->dedicated_qdq_pair && n_receivers(s, value) > 1) {
    put_dedicated(s, value, stem, f);
  } else {
    put_pair(s, value, stem, f);
  }
}

static int no_range(struct static_run *s, uint32_t value, struct err *err) {
  const bool has = value < s->n_range && s->range[value].type != DTYPE_UNDEFINED;
  const bool wants_spread = has && s->o->activation == DTYPE_FLOAT8E4M3FN;
  const struct quoted name = quote(model_value_name(s->k.m, value));
  if (wants_spread) {
    err_fill(err, ERR_INPUT,
             "'%s' has no standard deviation for the value '%s', but float8 needs one",
             quote_path(s->o->ranges).s, name.s);
    return err_hint(err, "run 'weir calibrate --method distribution'");
  }
  if (ranges_is_unfit(s->ranges, model_value_name(s->k.m, value))) {
    err_fill(err, ERR_INPUT, "the range of the value '%s' in '%s' is not finite", name.s,
             quote_path(s->o->ranges).s);
    return err_hint(err, "give its rmin and rmax with --override, or exclude the nodes that use "
                         "it with --exclude");
  }
  if (has) {
    const struct int8_range *r = &s->range[value];
    err_fill(err, ERR_INPUT, "the range of '%s' in '%s', %g to %g, is too wide for %s", name.s,
             quote_path(s->o->ranges).s, r->least, r->most, dtype_name(static_dtype(s, value)));
    return err_hint(err, "the ranges are from a model of another type: calibrate this model");
  }
  err_fill(err, ERR_INPUT, "'%s' has no range for the value '%s', which is to be quantized",
           quote_path(s->o->ranges).s, name.s);
  return err_hint(
      err, "calibrate the model after the passes that run before this one ('weir calibrate --pass "
           "...'), give its rmin and rmax with --override, or exclude the nodes that use it with "
           "--exclude");
}

// Was it made by a DequantizeLinear of the model? Then it is quantized already.
static bool is_dequantized(struct static_run *s, uint32_t value) {
  const enum op op = kit_maker_op(&s->k, value);
  return op == OP_DequantizeLinear || op == OP_ms_DequantizeLinear;
}

static int put_own(struct static_run *s, uint32_t value, struct err *err) {
  struct static_params p;
  if (is_dequantized(s, value)) return 0;
  if (kit_is_output(&s->k, value) && kit_maker(&s->k, value) == NO_ID) return 0;
  if (!static_params_of(s, value, &p)) return no_range(s, value, err);
  place_behind(s, value);
  const struct span stem = kit_stem_of(&s->k, value);
  const struct static_entry *e = static_entry_of(s, value);
  const struct static_form f = static_new_form(s, stem, "", &p, e ? e->scales : NO_ID);
  put_activation(s, value, stem, &f, &p);
  return 0;
}

// ---- weights -------------------------------------------------------------------------------------

static void report_weight(struct static_run *s, const struct static_entry *e, uint32_t codes) {
  struct model_constant c;
  model_resolve_constant(s->k.m, e->value, &c);
  kit_report(&s->k, &(struct kit_report){.node = static_first_user(s, e->value),
                                         .reason = "quantized",
                                         .weight = c.value + 1,
                                         .codes = codes + 1,
                                         .of = c.tensor});
}

static void put_weight(struct static_run *s, const struct static_entry *e) {
  struct kit *k = &s->k;
  struct model_constant c;
  struct uses uses = {0};
  const uint32_t codes = static_weight_codes(s, e);
  if (codes == NO_ID) return;
  if (!s->o->add_qdq_pair_to_weight) report_weight(s, e, codes);
  place_before_users(s, e->value);
  model_resolve_constant(k->m, e->value, &c);
  const struct span stem = kit_stem_of(k, c.value);
  struct static_form f = {.axis = e->as.axis, .block = e->as.block};
  const bool pair = s->o->add_qdq_pair_to_weight;
  // Codes first: a look at the elements for their ranges leaves them in hand.
  uint32_t in = pair ? NO_ID : int8_tensor(k, stem, "_quantized", codes, c.tensor);
  f.zero = int8_tensor(k, stem, "_zero_point", e->zeros, c.tensor);
  f.scale = int8_tensor(k, stem, "_scale", e->scales, c.tensor);
  list_uses(s, e->value, false, &uses); // ONNX Runtime folds these
  if (pair) in = put_named(s, OP_QuantizeLinear, &f, e->value, stem, "");
  const uint32_t dq = put_named(s, OP_DequantizeLinear, &f, in, stem, "");
  kit_note_like(k, dq, e->value);
  move_uses(s, &uses, dq, ALL, NULL);
  free_uses(&uses);
  *static_made_of(s, e->value) = (struct static_made){f.scale, f.zero, NO_ID, NO_ID, NULL};
  dead_ends_drop(k->e, e->value);
}

// ---- all of them ---------------------------------------------------------------------------------

// ONNX Runtime fuses a MatMul of codes of 8 bits to operators that take no blocks, and does not run those. (Of a Gemm it does not.)
static uint32_t fused_user(struct static_run *s, const struct static_entry *e) {
  struct static_params x;
  if (!e->as.block || dtype_bits(e->as.type) != 8) return NO_ID;
  for (struct kit_use u = kit_uses(&s->k, e->value); kit_use(&s->k, &u);)
    if (u.slot == 1 && kit_op(&s->k, u.node) == OP_MatMul &&
        s->k.m->nodes[u.node].graph == s->graph && static_is_marked(s, kit_in(&s->k, u.node, 0)) &&
        static_params_of(s, kit_in(&s->k, u.node, 0), &x) && dtype_bits(x.type) == 8)
      return u.node;
  return NO_ID;
}

static void warn_fused(struct static_run *s, uint64_t n, uint32_t node) {
  const struct quoted name = quote(model_name(s->k.m, s->k.m->nodes[node].name));
  kit_warn(&s->k,
           arena_printf(&s->k.site,
                        "%s weight%s of 8 bits in blocks with activations of 8 bits: ONNX "
                        "Runtime runs MatMul '%s' only with its optimizations disabled",
                        decimal(n).s, plural(n), name.s),
           "use --activation-type uint16 or --weight-type int4, or omit --block-size");
}

// Blocks are of matrices. Weights of more dims, of which quantize_static refuses each, are told, and refused where no weight
// is in blocks.
static int check_blocks(struct static_run *s, struct err *err) {
  uint64_t in_blocks = 0, others = 0, fused = 0;
  uint32_t first = NO_ID, by = NO_ID, rank = 0;
  for (uint32_t i = 0; i < s->n_entries; i++) {
    const struct static_entry *e = &s->entries[i];
    if (e->gone || e->provider != NO_ID || !e->weight || !static_is_constant(s, e->value)) continue;
    const uint32_t user = fused_user(s, e);
    if (user != NO_ID && fused++ == 0) by = user;
    in_blocks += e->as.block > 0;
    if (e->as.block || !kit_rank(&s->k, e->value, &rank) || rank < 3) continue;
    if (others++ == 0) first = e->value;
  }
  if (fused) warn_fused(s, fused, by);
  if (others == 0) return 0;
  const struct quoted name = quote(model_value_name(s->k.m, first));
  if (in_blocks == 0) {
    kit_rank(&s->k, first, &rank);
    err_fill(err, ERR_FAIL,
             "--block-size needs weights of two dims, and there are no such weights: '%s' has %u",
             name.s, rank);
    return err_hint(err, "omit --block-size, or use --per-channel");
  }
  kit_warn(&s->k,
           arena_printf(&s->k.site,
                        "--block-size applies to weights of two dims only: %s of more dims get "
                        "no blocks: '%s'%s",
                        decimal(others).s, name.s, others > 1 ? " is the first" : ""),
           "--per-channel gives them a scale for each channel");
  return 0;
}

static int weights_params(struct static_run *s, struct err *err) {
  for (uint32_t i = 0; i < s->n_entries; i++) {
    struct static_entry *e = &s->entries[i];
    if (!e->gone && e->provider == NO_ID && static_is_constant(s, e->value) &&
        static_weight_params(s, e, err))
      return -1;
  }
  return s->o->block ? check_blocks(s, err) : 0;
}

static int put_owners(struct static_run *s, struct err *err) {
  for (uint32_t i = 0; i < s->n_entries; i++) {
    struct static_entry *e = &s->entries[i];
    if (e->gone || e->provider != NO_ID || is_made(s, e->value)) continue;
    e->gone = true;
    if (static_is_constant(s, e->value))
      put_weight(s, e);
    else if (put_own(s, e->value, err))
      return -1;
  }
  return 0;
}

// Parameters of a table by channel do not serve what is picked from it.
static int put_sharer(struct static_run *s, const struct static_entry *e, struct err *err) {
  struct static_params p;
  struct static_form f = {.axis = RECIPE_PER_TENSOR};
  uint32_t rank = 0;
  f.scale = static_scale_for(s, e->provider, e->provider_node, &f.zero);
  if (!kit_rank(&s->k, f.scale, &rank) || rank > 0) return put_own(s, e->value, err);
  place_behind(s, e->value);
  const bool known = static_params_of(s, e->value, &p);
  put_activation(s, e->value, kit_stem_of(&s->k, e->value), &f, known ? &p : NULL);
  return 0;
}

static int put_sharers(struct static_run *s, struct err *err) {
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < s->n_entries; i++) {
      struct static_entry *e = &s->entries[i];
      if (e->gone || e->provider == NO_ID || !is_made(s, e->provider)) continue;
      e->gone = more = true;
      if (!is_made(s, e->value) && !is_dequantized(s, e->value) && put_sharer(s, e, err)) return -1;
    }
  }
  return 0;
}

int static_put(struct static_run *s, struct err *err) {
  if (weights_params(s, err) || static_part_weights(s, err)) return -1;
  static_make_room(s);
  if (put_owners(s, err) || put_sharers(s, err)) return -1;
  if (!s->o->keep_float_bias && static_put_biases(s, err)) return -1;
  static_put_recipes(s);
  return 0;
}
