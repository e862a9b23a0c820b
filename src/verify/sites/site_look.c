// One site: what edits changed is cut out of the source and of the result as two small models, which are run one after the
// other on the same inputs.
//
//   boundary values ── drawn ──┬─▶ before.onnx ─▶ r ┐
//                              └─▶ after.onnx  ─▶ x ┴─▶ compared by what the passes of the site promise
//
// What fails with arrays that were drawn one by one is looked at again with more of what is around it, what cannot be run in a
// batch of one; what passes, once more with large numbers where nodes have bounds, and its weights by themselves.
#include "verify/sites/site_look.h"

#include "compare/quant_error_check.h"
#include "passes/cast/cast.h"
#include "verify/run/site_traits.h"
#include "verify/run/verify_products.h"
#include "verify/run/verify_rounded.h"
#include "verify/run/verify_top1.h"
#include "verify/run/verify_written.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { WIDEST = 32, ALONE_WIDEST = 2, ENDS_MOST = 4 };
static const char *const side_names[SIDES] = {"before", "after"};

// ---- how narrow ---------------------------------------------------------------------------------

static uint32_t new_bits(const struct site_run *r, const struct site *s) {
  const uint32_t before = site_traits_bits(site_run_model(r, BEFORE), s->before, s->n_before,
                                           s->constants[BEFORE], s->n_constants[BEFORE]),
                 after = site_traits_bits(site_run_model(r, AFTER), s->after, s->n_after,
                                          s->constants[AFTER], s->n_constants[AFTER]);
  return after < before ? after : 0;
}

// On both sides: what is computed once and for all is no number of the runtime's.
static bool is_uneven(const struct site_run *r, const struct site *s) {
  return site_traits_uneven(site_run_model(r, BEFORE), s->before, s->n_before) &&
         site_traits_uneven(site_run_model(r, AFTER), s->after, s->n_after);
}

// ---- runs ---------------------------------------------------------------------------------------

static struct part part_of(const struct site_run *r, const struct site *s,
                           const struct site_feeds *f, int side, struct arena *a) {
  uint32_t *outputs = arena_alloc(a, (s->n_outputs + (size_t)1) * sizeof *outputs);
  const char **names = arena_alloc(a, (s->n_outputs + (size_t)1) * sizeof *names);
  for (uint32_t i = 0; i < s->n_outputs; i++) {
    outputs[i] = side == BEFORE ? s->outputs[i].before : s->outputs[i].after;
    names[i] = arena_printf(
        a, "%u:%s", i,
        arena_string(a, model_value_name(site_run_model(r, BEFORE), s->outputs[i].before)));
  }
  return (struct part){.m = site_run_model(r, side),
                       .graph = site_run_graph(r, side, s->graph),
                       .nodes = side == BEFORE ? s->before : s->after,
                       .n_nodes = side == BEFORE ? s->n_before : s->n_after,
                       .inputs = f->inputs[side],
                       .n_inputs = f->of[side].n,
                       .constants = s->constants[side],
                       .n_constants = s->n_constants[side],
                       .outputs = outputs,
                       .output_names = names,
                       .n_outputs = s->n_outputs};
}

static void remove_part(const struct site_run *r, int side) {
  char name[32];
  snprintf(name, sizeof name, "%s.onnx", side_names[side]);
  (void)file_remove(r->v->scratch_at, name);
  snprintf(name, sizeof name, "%s.onnx.data", side_names[side]);
  (void)file_remove(r->v->scratch_at, name);
}

// A signal, a full disk: it says nothing of the site, and the next one would fare no better.
static bool is_of_the_machine(const struct err *cause) {
  return cause->kind == ERR_RETRY || cause->kind == ERR_NOSPACE || cause->kind == ERR_IO;
}

// The result of running one side: an end, with its words in *cause.
static enum runtime_end run_side(struct site_run *r, const struct part *p,
                                 const struct arrays *inputs, int side, struct arena *a,
                                 struct arrays *out, struct err *cause) {
  struct verify *v = r->v;
  struct runtime_model model;
  uint64_t bytes;
  if (part_write(r->cutter[side], p, v->scratch_at, side_names[side], &bytes, cause)) {
    remove_part(r, side);
    if (!is_of_the_machine(cause)) return RUNTIME_BROKEN;
    if (cause->kind != ERR_RETRY) {
      const char *why = arena_string(a, span_str(cause->msg));
      err_fill(cause, cause->kind, "'%s' (TMPDIR) has too little space for the verification: %s",
               quote_path(v->scratch).s, why);
    }
    return RUNTIME_STOPPED;
  }
  enum runtime_end end = runtime_load(
      v->runtime, arena_printf(a, "%s/%s.onnx", v->scratch, side_names[side]), NULL, &model, cause);
  if (end == RUNTIME_DONE)
    end = runtime_run(v->runtime, inputs, p->output_names, p->n_outputs, a, out, cause);
  remove_part(r, side);
  return end;
}

// ---- what came out ------------------------------------------------------------------------------

// Of several outputs the one that is worst.
static bool is_worse(const struct compare_result *x, const struct compare_figures *than) {
  if (x->end == COMPARE_DIFFERENT || than->count == 0) return true;
  return x->figures.relative > than->relative || x->figures.nonfinite_apart > than->nonfinite_apart;
}

// Has the recipe elements that are ±1e4?
static bool holds_ten_thousand(const struct recipes *r, uint32_t recipe) {
  const struct span list = recipe_elements(r, recipe);
  float x;
  for (size_t i = 0; r->rows[recipe].dtype == DTYPE_FLOAT && i + sizeof x <= list.n;
       i += sizeof x) {
    memcpy(&x, list.at + i, sizeof x);
    if (fabsf(x) == CAST_MASK_MOST) return true;
  }
  return false;
}

// Is it a tensor whose elements an edit held to ±1e4, as masks are (cast)? Its recipe says so: a cast of such elements, or of
// Where(beyond and finite, ±1e4, the mask).
static bool is_held_mask(const struct site_run *r, uint32_t tensor) {
  const struct recipes *rs = r->e->recipes;
  const struct model_tensor *t = &r->e->result->tensors[tensor];
  if (t->dtype != DTYPE_FLOAT16 || t->recipe == NO_ID || rs->rows[t->recipe].kind != RECIPE_CAST)
    return false;
  const uint32_t of = rs->args[rs->rows[t->recipe].args];
  if (rs->rows[of].kind != RECIPE_MAP) return holds_ten_thousand(rs, of);
  return recipe_map_op_of(rs, of) == RECIPE_MAP_WHERE &&
         holds_ten_thousand(rs, rs->args[rs->rows[of].args + 1]);
}

static bool has_held_mask(const struct site_run *r, const struct site *s) {
  for (uint32_t i = 0; i < s->n_constants[AFTER]; i++)
    if (is_held_mask(r, s->constants[AFTER][i].tensor)) return true;
  return false;
}

static int compare_outputs(struct site_run *r, const struct site *s, const struct arrays out[SIDES],
                           struct verified_row *row, struct err *err) {
  struct arena *a = &r->v->found.arena;
  const char *names[SITE_PASSES];
  const uint32_t n = site_run_passes(r, s, names);
  const struct verify_site site = {new_bits(r, s), is_uneven(r, s), site_run_rounds(r, s)};
  const bool masks = has_held_mask(r, s);
  uint32_t empty = 0;
  uint64_t elements = 0;
  struct compare_rows rows = {
      .counted = UINT64_MAX}; // of the output that has fewest, if top-1 is asked for
  row->end = VERIFIED_PASSED;
  for (uint32_t i = 0; i < s->n_outputs; i++) {
    struct compare_result got;
    const struct array *x = &out[BEFORE].list[i], *y = &out[AFTER].list[i];
    struct verify_bounds b = {r->v->options.bounds, r->v->options.bounds_words};
    if (!b.words && verify_proof_of(&r->v->options, names, n, &b, a) != PIPELINE_PROOF_BOUNDS)
      b = verify_bounds_of_site(&r->v->options, names, n, &site, x->dtype, y->dtype, a);
    // A type that became another one on purpose is compared as numbers.
    b.bounds.retyped = true;
    b.bounds.masks = masks;
    if (compare_arrays(x, y, &b.bounds, r->v->options.runtime.stop, &got, err)) return -1;
    if (is_worse(&got, &row->figures)) {
      row->figures = got.figures;
      row->bounds = b.words;
    }
    if (!isnan(b.bounds.least_top1) && got.end == COMPARE_PASSED && compare_rows_of(x) &&
        got.figures.top1_rows < rows.counted)
      rows.counted = got.figures.top1_rows;
    elements += x->count;
    empty += got.end != COMPARE_DIFFERENT && got.figures.count == got.figures.nonfinite[0];
    if (got.end == COMPARE_PASSED || row->end == VERIFIED_FAILED) continue;
    row->end = VERIFIED_FAILED;
    row->figures = got.figures;
    row->bounds = b.words;
    const struct span name = model_value_name(site_run_model(r, BEFORE), s->outputs[i].before);
    row->why = span_is(name, row->name) ? arena_printf(a, "%s", got.why)
                                        : arena_printf(a, "'%s': %s", quote(name).s, got.why);
  }
  if (rows.counted < VERIFY_TOP1_LEAST && row->end == VERIFIED_PASSED) {
    row->end = VERIFIED_NOT;
    row->why = verify_top1_few(&rows, a);
    row->unmet = true;
  }
  // Of constants alone that is all there is to see: an infinity is one before and after.
  if (empty == s->n_outputs && s->n_inputs > 0 && row->end == VERIFIED_PASSED) {
    row->end = VERIFIED_NOT;
    row->why = elements ? "the part before the change returns no finite number for the drawn inputs"
                        : "the part before the change returns no elements for the drawn inputs";
  }
  return 0;
}

static void not_verified(struct verified_row *row, struct arena *a, const char *what,
                         const char *why) {
  row->end = VERIFIED_NOT;
  row->why = arena_printf(a, "%s%s", what, why);
}

// "Add(14)"
static const char *lacking(const struct err *cause, struct arena *a) {
  static const char before[] = "implementation for ";
  const char *at = strstr(cause->msg, before);
  if (!at) return "an operator";
  at += sizeof before - 1;
  return arena_string(a, span_of(at, strcspn(at, " ")));
}

// The site with the numbers of what was written, on either side; false: it has what is not there.
static bool as_written(const struct site_run *r, const struct site *s, struct arena *a,
                       struct site *out) {
  *out = *s;
  for (int side = 0; side < SIDES; side++) {
    const struct verify_written *w = site_run_written(r, side);
    if (w && !verify_written_site(w, side, out, a, out)) return false;
  }
  return true;
}

static int look_once(struct site_run *r, const struct site *s, uint32_t own_outputs,
                     struct verified_row *row, struct arena *a, struct err *err) {
  struct arena *kept = &r->v->found.arena;
  struct site_feeds f;
  struct arrays out[SIDES] = {{0}};
  char why[256];
  r->lacks_kernel = r->ended = false;
  if (s->why_not) {
    not_verified(row, kept, "", s->why_not);
    return 0;
  }
  struct site written;
  if (!as_written(r, s, a, &written)) {
    not_verified(row, kept, "", "the output lacks parts of it under the names that the edits gave");
    return 0;
  }
  s = &written;
  if (!site_feeds_draw(r, s, a, &f, why)) {
    not_verified(row, kept, "no inputs can be drawn: ", why);
    return 0;
  }
  for (int side = 0; side < SIDES; side++) {
    struct err cause = {0};
    const struct part p = part_of(r, s, &f, side, a);
    const enum runtime_end end = run_side(r, &p, &f.of[side], side, a, &out[side], &cause);
    if (end == RUNTIME_STOPPED) {
      *err = cause;
      return -1;
    }
    if (end == RUNTIME_DONE) continue;
    r->lacks_kernel = verify_lacks_kernel(&cause);
    r->ended = end == RUNTIME_DIED || end == RUNTIME_LATE;
    if (r->lacks_kernel) {
      not_verified(row, kept, "ONNX Runtime has no kernel for these types of ", lacking(&cause, a));
    } else if (side == BEFORE || end == RUNTIME_BROKEN) {
      row->stopped = side == BEFORE;
      not_verified(row, kept,
                   side == BEFORE ? "the part before the change does not run: "
                                  : "the part after the change cannot be run: ",
                   cause.msg);
    } else {
      row->end = VERIFIED_FAILED;
      row->why = arena_printf(kept, "the part after the change does not run: %s", cause.msg);
    }
    return 0;
  }
  // Of a part that was grown: are its inputs still such that something can be seen?
  bool flat;
  if (site_traits_flat(&out[BEFORE], own_outputs, &flat, err)) return -1;
  if (!flat) return compare_outputs(r, s, out, row, err);
  not_verified(row, kept, "",
               "together with the nodes around it, the part receives only equal numbers");
  return 0;
}

// ---- weights ------------------------------------------------------------------------------------

// Of codes of a weight, not of a bias.
static void add_linear(const struct recipes *r, uint32_t codes, struct quant_error_check *w) {
  struct recipe_quantization q;
  const struct recipe *x = &r->rows[codes];
  if (x->kind != RECIPE_QUANTIZE_LINEAR || dtype_bits((enum dtype)x->dtype) > 16) return;
  const bool found = recipe_quantize_linear_found(r, codes, &q);
  w->given = w->given || !found;
  w->reduced = w->reduced || (found && q.reduced);
}

// What edits say of how weights of a site were quantized.
static void add_quantization(const struct site_run *r, const struct site *s,
                             struct quant_error_check *w) {
  const struct model *m = r->e->result;
  for (uint32_t i = 0; i < s->n_constants[AFTER]; i++) {
    const struct model_tensor *t = &m->tensors[s->constants[AFTER][i].tensor];
    if (!(t->flags & (TENSOR_NEW | TENSOR_REPLACED)) || t->recipe == NO_ID) continue;
    add_linear(r->e->recipes, recipe_unmoved(r->e->recipes, t->recipe), w);
    if (!recipe_quantizes(r->e->recipes, t->recipe)) continue;
    const struct recipe_quantization q = recipe_quantization_of(r->e->recipes, t->recipe);
    w->searched = w->searched || q.format == FORMAT_NBITS_RTN || q.format == FORMAT_NBITS_KQUANT ||
                  q.format == FORMAT_NBITS_KQUANT_BEST || q.format == FORMAT_NBITS_HQQ;
    w->compensates = w->compensates || recipe_takes_gram(q.format);
    if (q.format != FORMAT_LEVELS) continue;
    w->levels = q.levels;
    w->levels_axis = q.axis;
  }
}

// Weights of the output that hold less than those of the source, where the site is judged by what such weights usually give.
static int look_at_weights(struct site_run *r, const struct site *s, struct verified_row *row,
                           struct arena *a, struct err *err) {
  const struct verify_edited *e = r->e;
  const char *names[SITE_PASSES];
  struct verify_bounds ignored;
  struct site written;
  struct quant_error_found found;
  if (!e->written || row->end != VERIFIED_PASSED || r->v->options.bounds_words ||
      verify_proof_of(&r->v->options, names, site_run_passes(r, s, names), &ignored, a) ==
          PIPELINE_PROOF_BOUNDS ||
      !as_written(r, s, a, &written))
    return 0;
  struct quant_error_check w = {.m = {site_run_model(r, BEFORE), &e->written->model},
                                .sources = {site_run_sources(r, BEFORE), e->written->sources},
                                .site = &written,
                                .masks = has_held_mask(r, s),
                                .coded = site_run_rounds(r, s),
                                .memory = r->v->options.memory,
                                .stop = r->v->options.runtime.stop};
  add_quantization(r, s, &w);
  if (w.compensates)
    return 0; // an element may be off by any number of steps; what comes out counts
  if (!w.levels && !w.coded && !new_bits(r, &written)) return 0;
  if (quant_error_check(&w, a, &found, err)) return -1;
  if (found.n == 0 || found.most <= found.allowed) return 0;
  row->end = VERIFIED_FAILED;
  row->why = arena_printf(&r->v->found.arena,
                          "%s: the error of element %s is %.3g times what rounding allows",
                          found.what, decimal(found.place).s, found.most);
  return 0;
}

// ---- surroundings -------------------------------------------------------------------------------

// The inputs of before that are computed now are outputs too, after the others.
static void add_outputs(const struct site_run *r, const struct site *s, struct arena *a,
                        struct site *wide) {
  struct site_pair *list = arena_alloc(a, (s->n_outputs + (size_t)s->n_inputs + 1) * sizeof *list);
  uint32_t n = s->n_outputs;
  memcpy(list, s->outputs, n * sizeof *list);
  for (uint32_t i = 0; i < s->n_inputs; i++)
    if (site_traits_made(r->e->source, wide->before, wide->n_before, s->inputs[i].before) &&
        site_traits_made(r->e->result, wide->after, wide->n_after, s->inputs[i].after))
      list[n++] = s->inputs[i];
  wide->outputs = list;
  wide->n_outputs = n;
}

// What differs, or does not run, with arrays that were drawn one by one may be right with arrays that hang together as they do
// in the model: the site is looked at again with more and more of what is around it. An input that is alone hangs together with
// nothing, but may be what few functions give, such as whole numbers of Round: of it the next node or two say that. The first
// answer is told if none is good.
static int look_at(struct site_run *r, uint32_t i, struct verified_row *row, struct arena *a,
                   struct err *err) {
  const struct site *s = &r->sites.list[i];
  struct site wide;
  if (look_once(r, s, s->n_outputs, row, a, err)) return -1;
  const bool alone = row->end == VERIFIED_FAILED && s->n_inputs < 2 && !s->doubt;
  if (r->lacks_kernel || r->ended) return 0;
  for (uint32_t layers = 1; layers <= (alone ? ALONE_WIDEST : WIDEST) &&
                            row->end != VERIFIED_PASSED && !s->why_not && !r->ended;
       layers *= 2) {
    struct verified_row again = *row;
    if (!sites_widen(&r->sites, i, layers, a, &wide)) break;
    add_outputs(r, s, a, &wide);
    again.figures = (struct compare_figures){.count = 0};
    again.why = NULL;
    again.unmet = false;
    if (look_once(r, &wide, s->n_outputs, &again, a, err)) return -1;
    if (again.end == VERIFIED_PASSED) *row = again;
  }
  if (row->end == VERIFIED_FAILED && s->doubt) not_verified(row, &r->v->found.arena, "", s->doubt);
  return 0;
}

// What cannot be run with this batch may be with one of one.
static int look_at_sizes(struct site_run *r, uint32_t i, struct verified_row *row, struct arena *a,
                         struct err *err) {
  struct verified_row again = *row;
  struct draw *kept[SIDES] = {r->draw[BEFORE], r->draw[AFTER]};
  if (look_at(r, i, row, a, err)) return -1;
  if (row->end != VERIFIED_NOT || r->lacks_kernel || r->ended || r->sites.list[i].why_not) return 0;
  if (!r->of_one[BEFORE] && site_run_draws(r, 0, r->of_one, err)) return -1;
  memcpy(r->draw, r->of_one, sizeof kept);
  const int rc = look_at(r, i, &again, a, err);
  memcpy(r->draw, kept, sizeof kept);
  if (rc == 0 && again.end != VERIFIED_NOT) *row = again;
  return rc;
}

// A runtime that dies or hangs whatever it is given would take its time for every site.
static int look_if_alive(struct site_run *r, uint32_t i, struct verified_row *row, struct arena *a,
                         struct err *err) {
  if (r->n_ended == ENDS_MOST) {
    not_verified(row, &r->v->found.arena, "",
                 "weir-ort died or timed out with the sites before it, and was not started again");
    return 0;
  }
  const int rc = look_at_sizes(r, i, row, a, err);
  r->n_ended = r->ended ? r->n_ended + 1 : 0;
  return rc;
}

// ---- bounds -------------------------------------------------------------------------------------

static bool has_bounds(const struct site_run *r, const struct site *s) {
  for (uint32_t i = 0; i < s->n_before; i++)
    if (site_traits_bounded(r->e->source, s->before[i])) return true;
  for (uint32_t i = 0; i < s->n_after; i++)
    if (site_traits_bounded(r->e->result, s->after[i])) return true;
  return false;
}

// Once more with numbers that reach bounds, such as 6, which what comes out of a Conv of normal numbers does not. That it
// cannot be looked at there says nothing.
static int look_beyond(struct site_run *r, uint32_t i, struct verified_row *row, struct arena *a,
                       struct err *err) {
  enum { FACTOR = 32 };
  struct verified_row again = *row;
  if (row->end != VERIFIED_PASSED || !has_bounds(r, &r->sites.list[i])) return 0;
  again.figures = (struct compare_figures){.count = 0};
  for (int side = 0; side < SIDES; side++)
    draw_enlarge(r->draw[side], FACTOR);
  const int rc = look_at(r, i, &again, a, err);
  for (int side = 0; side < SIDES; side++)
    draw_enlarge(r->draw[side], 1);
  if (rc == 0 && again.end == VERIFIED_FAILED) *row = again;
  return rc;
}

// ---- all of it ----------------------------------------------------------------------------------

static int look_fully(struct site_run *r, uint32_t i, struct verified_row *row, struct arena *a,
                      struct err *err) {
  if (look_if_alive(r, i, row, a, err)) return -1;
  if (!r->ended && look_beyond(r, i, row, a, err)) return -1;
  return look_at_weights(r, &r->sites.list[i], row, a, err);
}

// What the runtime does by itself to products of a site, and does not do where it is turned off.
struct habit {
  bool has;
  void (*stop)(struct runtime *r, bool on);
  size_t flag; // of a row that failed by it
};

static bool *flag_of(struct verified_row *row, const struct habit *h) {
  return (bool *)((char *)row + h->flag);
}

// Once more without it, since it is not what the edit is about.
static int look_without(struct site_run *r, uint32_t i, const struct habit *h,
                        const struct verified_row *fresh, struct verified_row *row, struct arena *a,
                        struct err *err) {
  struct verified_row again = *fresh;
  if (row->end != VERIFIED_FAILED || r->ended || !h->has) return 0;
  *flag_of(row, h) = *flag_of(&again, h) = true;
  h->stop(r->v->runtime, true);
  const int rc = look_fully(r, i, &again, a, err);
  h->stop(r->v->runtime, false);
  if (rc == 0 && again.end == VERIFIED_PASSED) *row = again;
  // What was compared, and differs all the same, differs for another reason.
  if (rc == 0 && again.end == VERIFIED_FAILED && again.figures.count > 0) *flag_of(row, h) = false;
  return rc;
}

// The processor cuts sums off, and an optimized session rounds activations.
int site_look(struct site_run *r, uint32_t i, struct verified_row *row, struct arena *a,
              struct err *err) {
  const struct verified_row fresh = *row;
  const struct site *s = &r->sites.list[i];
  if (look_fully(r, i, row, a, err)) return -1;
  if (row->end != VERIFIED_FAILED) return 0; // nearly all
  const bool rounded =
      r->v->options.runtime.optimized &&
      verify_rounded_in(r->e->source, r->e->result, s, runtime_about(r->v->runtime).version);
  const struct habit habits[] = {
      {verify_products_cut_at(r->e->result, s), runtime_keep_sums,
       offsetof(struct verified_row, cut_off)},
      {rounded, runtime_keep_floats, offsetof(struct verified_row, rounded)}};
  for (size_t k = 0; k < sizeof habits / sizeof *habits; k++)
    if (look_without(r, i, &habits[k], &fresh, row, a, err)) return -1;
  return 0;
}
