// The pass `static`: weights and activations in int8 (and its kin) with parameters that are known beforehand, since the
// model was calibrated.
//
//   opset      what Q and DQ of these types need; the model is raised where that changes nothing
//   ranges     of RANGES, by the names of values
//   types      as quantize_static knows them, with compat: static_types.c
//   marks      static_mark.c
//   nodes      static_put.c, or the form of operators on codes, or one of three recipes for biases
//
// Only the main graph is quantized: what bodies compute was never seen by calibration.
#include "passes/int8_static/inside/static.h"

#include "base/table.h"
#include "infer/infer.h"
#include "passes/kit/dead_ends.h"
#include "passes/kit/weights.h"
#include "passes/opset/opset.h"
#include "ranges/ranges.h"

#include <stdio.h>

enum {
  OPSET_CHANNELS = 13, // Q and DQ have an axis
  OPSET_FLOAT8 = 19,   // and float8, float16
  OPSET_16_BITS = 21,  // and 16 bits, 4 bits, blocks
  IR_FLOAT8 = 9,
  IR_4_BITS = 10,
};

// ---- versions ------------------------------------------------------------------------------------

static bool is_16_bits(enum dtype t) {
  return t == DTYPE_INT16 || t == DTYPE_UINT16;
}
static bool is_4_bits(enum dtype t) {
  return t == DTYPE_INT4 || t == DTYPE_UINT4;
}

static int64_t later(int64_t a, int64_t b) {
  return a > b ? a : b;
}

struct used_types {
  bool bits16, bits4, float8, float16;
};

static void use_type(struct used_types *u, enum dtype t) {
  u->bits16 = u->bits16 || is_16_bits(t);
  u->bits4 = u->bits4 || is_4_bits(t);
  u->float8 = u->float8 || t == DTYPE_FLOAT8E4M3FN;
}

static bool has_float16(const struct model *m) {
  for (uint32_t i = 0; i < m->n_tensors; i++)
    if (!(m->tensors[i].flags & TENSOR_DEAD) && m->tensors[i].dtype == DTYPE_FLOAT16) return true;
  for (uint32_t i = 0; i < m->n_infos; i++)
    if (!(m->infos[i].flags & INFO_DEAD) && m->infos[i].dtype == DTYPE_FLOAT16) return true;
  return false;
}

static struct used_types types_of(const struct static_run *s) {
  struct used_types u = {.float16 = has_float16(s->k.m)};
  use_type(&u, s->o->activation);
  use_type(&u, s->o->weight);
  for (uint32_t i = 0; i < s->n_overrides; i++) {
    const struct static_overrides *o = &s->overrides[i];
    if (o->of->has_type) use_type(&u, o->of->type);
    if (o->convert) use_type(&u, o->convert->type);
  }
  return u;
}

// Does a node that is taken have a weight with a scale a channel?
static bool has_channels(struct static_run *s) {
  struct kit *k = &s->k;
  const char *why;
  uint32_t axis;
  for (uint32_t n = k->m->graphs[s->graph].first_node; n != NO_ID; n = k->m->nodes[n].next) {
    if (!static_takes(s, n, &why)) continue;
    const char *type = model_name_str(k->m, k->m->nodes[n].op_type);
    const struct static_op *op = static_op_named(span_str(type));
    if (!op || op->qdq < STATIC_Q_CONV || op->qdq > STATIC_Q_NORM) continue;
    for (uint32_t i = 0; i < 2; i++) // an axis that any tensor has
      if (kit_in(k, n, i) != NO_ID && static_is_per_channel(s, kit_in(k, n, i), 0, type, &axis))
        return true;
  }
  return false;
}

static int64_t opset_for(struct static_run *s, const struct used_types *u, int64_t now) {
  int64_t to = now < 10 ? 11 : now;
  if (u->bits16 || s->o->block || (u->bits4 && !s->o->compat)) to = later(to, OPSET_16_BITS);
  if (u->float8) to = later(to, OPSET_FLOAT8);
  if (s->o->use_qdq_contrib_ops || (u->bits4 && to < OPSET_16_BITS) ||
      s->o->format == STATIC_QOPERATOR)
    return to;
  if (to < OPSET_CHANNELS && has_channels(s)) to = OPSET_CHANNELS;
  if (u->float16) to = later(to, OPSET_FLOAT8);
  return to;
}

// What the types of this run need of the model's IR.
static int64_t ir_for(const struct static_run *s, const struct used_types *u) {
  int64_t ir = WEIGHTS_FREE_IR;
  if (u->float8 || s->opset >= OPSET_FLOAT8) ir = IR_FLOAT8;
  if (u->bits4 || s->opset >= OPSET_16_BITS) ir = IR_4_BITS;
  return ir;
}

// ---- what compat leaves wrong --------------------------------------------------------------------

void static_note_theirs(struct static_run *s, uint32_t node, enum static_theirs kind) {
  struct static_told *told = &s->theirs[kind];
  if (told->n++ == 0)
    told->node =
        arena_printf(&s->arena, "'%s' (%s)", quote(model_name(s->k.m, s->k.m->nodes[node].name)).s,
                     static_op_type(s, node));
}

static void warn_theirs(struct static_run *s) {
  static const char *const what[STATIC_THEIRS] = {
      [STATIC_THEIRS_MASK] =
          "has a range that includes the values of a mask, so that other values share few codes",
      [STATIC_THEIRS_FACTORS] = "has a bias whose codes ignore alpha or beta",
      [STATIC_THEIRS_BIAS] = "uses bias codes of another node, which have that node's scales",
      [STATIC_THEIRS_CLIP] = "was removed, but the codes do not clip at the same limits",
      [STATIC_THEIRS_OUTSIDE] = "computes values outside the range of its codes",
  };
  for (uint32_t i = 0; i < STATIC_THEIRS; i++) {
    const struct static_told *told = &s->theirs[i];
    if (told->n == 0) continue;
    char more[40] = "";
    if (told->n > 1) snprintf(more, sizeof more, " (and %s more)", decimal(told->n - 1).s);
    kit_warn(&s->k,
             arena_printf(&s->k.site,
                          "node %s%s %s: quantize_static does the same, but the result differs "
                          "from the float model",
                          told->node, more, what[i]),
             "without --compat, weir quantizes such nodes correctly or leaves them in float");
  }
}

// ---- begin ---------------------------------------------------------------------------------------

static void begin(struct static_run *s, struct pass_env *env, const struct static_options *o,
                  const struct ranges *ranges) {
  *s = (struct static_run){.o = o, .ranges = ranges, .graph = env->m->main_graph};
  kit_init(&s->k, env, "static");
  s->k.tells_no_dims = true;
  s->k.node_names = KIT_NODES;
}

// A kit before this one may have inferred too, into a table of its own.
static void infer_types(struct static_run *s) {
  struct infer *in = kit_infer(&s->k);
  infer_more(in);
  if (!s->k.env->types) infer_fill_anew(in);
  infer_fill(in, s->k.m, s->k.types);
}

static int end(struct static_run *s, struct err *err) {
  TABLES_FREE(s, overrides, override_of, range, entries, entry_of, biases, bias_of, linears, left,
              kept);
  TABLES_FREE(s, scales, counted, moved_past, along, clipped, clips, folded, raw, bare,
              goes_to_bare);
  TABLES_FREE(s, grows, of_softmax, typed, turned, turned_of, numbers, made, receivers,
              receivers_of);
  arena_free(&s->arena);
  return kit_done(&s->k, err);
}

uint32_t static_nodes(struct static_run *s, uint32_t **nodes) {
  return s->o->compat ? kit_listed(&s->k, s->graph, &s->arena, nodes)
                      : kit_running(&s->k, s->graph, &s->arena, nodes);
}

static void symmetric(struct int8_range *r) {
  r->most = r->most > -r->least ? r->most : -r->least;
  r->least = -r->most;
}

static void find_ranges(struct static_run *s) {
  TABLE_ADD(s, range, s->k.m->n_values);
  s->k.graph = s->graph;
  int8_ranges(&s->k, s->ranges, !s->o->compat, s->range);
  for (uint32_t v = 0; v < s->n_range && s->o->calib_tensor_range_symmetric; v++)
    if (s->range[v].type != DTYPE_UNDEFINED) symmetric(&s->range[v]);
  static_adjust_ranges(s);
}

// First of all: a weight that nodes make may have channels, and such nodes be what a newer opset changed.
static int bring_weights(struct pass_env *env, const struct static_options *o,
                         const struct ranges *ranges, struct static_brought *brought,
                         struct err *err) {
  struct static_run s;
  begin(&s, env, o, ranges);
  static_bring_weights(&s, brought);
  return end(&s, err);
}

// Which opset it takes, before versions change; 0: what the model has.
static int find_opset(struct pass_env *env, const struct static_options *o,
                      const struct ranges *ranges, int64_t *opset, struct err *err) {
  struct static_run s;
  begin(&s, env, o, ranges);
  const int64_t now = kit_opset(&s.k, s.graph);
  int rc = static_read_overrides(&s, err);
  if (rc == 0) {
    const struct used_types u = types_of(&s);
    const int64_t to = opset_for(&s, &u, now);
    *opset = to > now ? to : 0;
  }
  return end(&s, err) ? -1 : rc;
}

static int quantize(struct static_run *s, struct err *err) {
  const struct used_types u = types_of(s);
  s->contrib = s->o->use_qdq_contrib_ops || (u.bits4 && s->opset < OPSET_16_BITS);
  if (!s->o->compat) static_find_along(s);
  find_ranges(s);
  if (s->o->compat) static_find_typed(s);
  kit_site(&s->k, NO_ID, "versions");
  kit_raise_ir(&s->k, ir_for(s, &u));
  if (s->contrib) kit_import(&s->k, s->graph, "com.microsoft", 1);
  static_leave(s);
  static_leave_unseen(s);
  static_find_passed(s);
  if (!s->o->compat) static_find_growing(s);
  const bool as_codes = s->o->format == STATIC_QOPERATOR;
  if (as_codes) static_find_before_bodies(s);
  if (as_codes ? static_qoperator(s, err) : (static_mark(s, err) || static_put(s, err))) return -1;
  warn_theirs(s);
  if (s->o->format != STATIC_QDQ && kit_has_scan(&s->k)) kit_declare_made(&s->k);
  if (s->o->compat && (as_codes || !s->o->add_qdq_pair_to_weight)) { // as quantize_static leaves it
    kit_site(&s->k, NO_ID, "unused");
    dead_ends_drop_all(s->k.e);
  }
  return 0;
}

int static_pass(struct pass_env *env, const struct static_options *o, struct err *err) {
  static const struct ranges none = {.n_values = 0};
  const struct ranges *ranges = &none; // overrides alone
  int64_t opset = 0;
  struct static_brought brought = {0};
  struct static_run s;
  if (env->m->main_graph == NO_ID) return 0;
  if (o->ranges && !env->files.ranges)
    return err_set(err, ERR_USAGE, "--ranges cannot be used here: this run has no access to files");
  weights_warn_unmatched(env, &o->nodes.exclude, "--exclude");
  weights_warn_unmatched(env, &o->nodes.include, "--include");
  if ((o->ranges && env->files.ranges(env->files.ctx, o->ranges, &ranges, err)) ||
      bring_weights(env, o, ranges, &brought, err) || find_opset(env, o, ranges, &opset, err) ||
      (opset && opset_raise(env, opset, err))) {
    TABLE_FREE(&brought, list);
    return -1;
  }
  begin(&s, env, o, ranges);
  infer_types(&s);
  s.opset = kit_opset(&s.k, s.graph);
  int rc = static_read_overrides(&s, err);
  if (rc == 0) rc = quantize(&s, err);
  if (rc == 0) static_take_back(&s, &brought);
  TABLE_FREE(&brought, list);
  return end(&s, err) ? -1 : rc;
}
