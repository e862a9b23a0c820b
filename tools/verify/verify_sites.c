// Site by site: what edits changed is cut out of the source and of the result as two small models, which are run one
// after the other on the same inputs.
//
//   boundary values ── drawn ──┬─▶ before.onnx ─▶ r ┐
//                              └─▶ after.onnx  ─▶ x ┴─▶ compared by what the passes of the site promise
//
// Memory is that of the largest site. What cannot be cut, fed or run is "not verified", with its reason: of a site that
// nobody looked at nothing good is said.
#include "verify.h"

#include "name_pattern.h"
#include "narrowed.h"
#include "part.h"
#include "report.h"
#include "site_traits.h"
#include "sites.h"
#include "verify_codes.h"
#include "verify_replay.h"
#include "verify_wide.h"
#include "verify_written.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEFORE, AFTER, SIDES };
enum {
  WIDEST = 32,
  ALONE_WIDEST = 2,
  FAULTS_SOUGHT = 16,
  SITE_PASSES = 16,
  ENDS_MOST = 4,
  FEW_SITES = 4
};
// In a batch of one nobody sees what mixes up its members, or takes it for another axis of one.
enum { BATCH = 2 };
static const char *const side_names[SIDES] = {"before", "after"};

struct site_run {
  struct verify *v;
  const struct verify_edited *e;
  struct infer *infer[SIDES];
  struct draw *draw[SIDES];
  struct draw *of_one
      [SIDES]; // with a batch of one, where `draw` has another; NULL: it was not wanted so far
  struct part_cutter *cutter[SIDES];
  struct sites sites;
  struct arena arena; // of the sites
  struct name_pattern pattern;
  bool has_pattern;
  uint64_t picked; // of the sites, this many, spread evenly; 0: all
  uint64_t bytes_done, bytes_total;
  uint64_t *all_done;     // of all processes; NULL: there is this one
  bool alone;             // another one tells of progress
  bool lacks_kernel;      // the runtime did, for the part that was run last
  bool ended;             // the runtime died or hung with it
  uint32_t n_ended;       // sites in a row of which that holds
  const uint32_t *groups; // sites of these alone; NULL: of all
  uint32_t n_groups;
  const char *passes[SITE_PASSES]; // of all groups
  uint32_t n_passes;
};

// The side after is cut out of what was written, where something was.
static const struct model *model_of(const struct site_run *r, int side) {
  const struct verify_written *w = r->e->written;
  return side == BEFORE ? r->e->source : w ? &w->model : r->e->result;
}

static struct recipes *recipes_of(const struct site_run *r, int side) {
  struct verify_written *w = r->e->written;
  return side == BEFORE ? r->e->source_recipes : w ? &w->recipes : r->e->recipes;
}

static struct sources *sources_of(const struct site_run *r, int side) {
  return side == AFTER && r->e->written ? r->e->written->sources : r->e->sources;
}

// ---- which sites -------------------------------------------------------------------------------

static int read_choice(struct site_run *r, struct err *err) {
  const char *word = r->v->options.sites;
  char *end;
  if (!word || strcmp(word, "all") == 0) return 0;
  errno = 0;
  const unsigned long long n = strtoull(word, &end, 10);
  if (*end == '\0' && *word >= '0' && *word <= '9' && !errno) {
    r->picked = n;
    return n ? 0 : err_set(err, ERR_USAGE, "--sites 0 looks at nothing");
  }
  if (name_pattern_compile(&r->pattern, word, "--sites", err)) return -1;
  r->has_pattern = true;
  return 0;
}

static const char *pass_of(const struct site_run *r, uint32_t group) {
  const struct edit_groups *g = r->e->edits->groups;
  return g->rows[group - 1 - g->first].pass;
}

// Adds it to those that are there, as far as there is room.
static void add_pass(const char *names[SITE_PASSES], uint32_t *n, const char *pass) {
  for (uint32_t k = 0; k < *n; k++)
    if (strcmp(names[k], pass) == 0) return;
  if (*n < SITE_PASSES) names[(*n)++] = pass;
}

// The passes of a site, each once. What changed its type alone has no group: it is the work of all.
static uint32_t passes_of(const struct site_run *r, const struct site *s,
                          const char *names[SITE_PASSES]) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n_groups; i++)
    add_pass(names, &n, pass_of(r, s->groups[i]));
  if (s->n_groups > 0) return n;
  memcpy(names, r->passes, r->n_passes * sizeof *names);
  return r->n_passes;
}

static bool has_group(const struct site_run *r, const struct site *s) {
  for (uint32_t i = 0, k = 0; i < s->n_groups && k < r->n_groups;) {
    if (s->groups[i] == r->groups[k]) return true;
    *(s->groups[i] < r->groups[k] ? &i : &k) += 1;
  }
  return false;
}

static bool is_chosen(struct site_run *r, uint32_t i, const char *name) {
  const struct site *s = &r->sites.list[i];
  const char *names[SITE_PASSES];
  struct verify_bounds ignored;
  if (r->groups) return has_group(r, s);
  if (verify_proof_of(&r->v->options, names, passes_of(r, s, names), &ignored,
                      &r->v->found.arena) == PIPELINE_PROOF_OFF)
    return false;
  if (r->picked && r->picked < r->sites.n)
    return i * r->picked / r->sites.n != (i + (uint64_t)1) * r->picked / r->sites.n;
  if (!r->has_pattern || name_pattern_matches(&r->pattern, name)) return true;
  for (uint32_t k = 0; k < s->n_groups; k++)
    if (name_pattern_matches(&r->pattern, pass_of(r, s->groups[k]))) return true;
  return false;
}

static uint64_t constant_bytes(const struct site_run *r, const struct site *s) {
  uint64_t n = 0;
  for (int side = 0; side < SIDES; side++)
    for (uint32_t i = 0; i < s->n_constants[side]; i++)
      n += (side == BEFORE ? r->e->source : r->e->result)
               ->tensors[s->constants[side][i].tensor]
               .bytes;
  return n + 1;
}

// ---- how narrow --------------------------------------------------------------------------------

static uint32_t new_bits(const struct site_run *r, const struct site *s) {
  const uint32_t before = site_traits_bits(r->e->source, s->before, s->n_before,
                                           s->constants[BEFORE], s->n_constants[BEFORE]),
                 after = site_traits_bits(model_of(r, AFTER), s->after, s->n_after,
                                          s->constants[AFTER], s->n_constants[AFTER]);
  return after < before ? after : 0;
}

// On both sides: what is computed once and for all is no number of the runtime's.
static bool is_uneven(const struct site_run *r, const struct site *s) {
  return site_traits_uneven(r->e->source, s->before, s->n_before) &&
         site_traits_uneven(model_of(r, AFTER), s->after, s->n_after);
}

// ---- inputs ------------------------------------------------------------------------------------

struct feeds {
  struct arrays of[SIDES];
  struct part_input *inputs[SIDES];
};

static enum dtype dtype_in(struct infer *in, uint32_t value) {
  struct infer_type t;
  return infer_type_of(in, value, &t) && t.kind == INFER_TENSOR ? t.dtype : DTYPE_UNDEFINED;
}

// Elements for a value that one side alone reads: as the source has it, if it does.
static bool draw_alone(struct site_run *r, const struct site *s, int side, uint32_t value,
                       struct arena *a, struct array *x, char why[256]) {
  const struct model *m = model_of(r, side), *source = r->e->source;
  const uint32_t name =
      side == BEFORE ? NO_ID : model_find_name(source, model_value_name(m, value));
  const uint32_t there = side == BEFORE  ? value
                         : name == NO_ID ? NO_ID
                                         : model_value_in(source, s->graph, name);
  if (there != NO_ID)
    return draw_value(r->draw[BEFORE], there, s->before, s->n_before, a, x, why) == DRAW_DONE;
  return draw_value(r->draw[AFTER], value, s->after, s->n_after, a, x, why) == DRAW_DONE;
}

static bool draw_pair(struct site_run *r, const struct site *s, const struct site_pair *p,
                      struct arena *a, struct array x[SIDES], char why[256]) {
  if (p->before == NO_ID || p->after == NO_ID) {
    const int side = p->before == NO_ID ? AFTER : BEFORE;
    if (!draw_alone(r, s, side, side == BEFORE ? p->before : p->after, a, &x[side], why))
      return false;
    x[!side] = x[side];
    return true;
  }
  if (draw_value(r->draw[BEFORE], p->before, s->before, s->n_before, a, &x[BEFORE], why) !=
      DRAW_DONE)
    return false;
  verify_codes_fit(model_of(r, AFTER), p->after, a, &x[BEFORE]);
  const enum dtype to = dtype_in(r->infer[AFTER], p->after);
  x[AFTER] = x[BEFORE];
  if (to == DTYPE_UNDEFINED || to == x[BEFORE].dtype) return true;
  // Elements that both types hold: through the other type and back.
  struct array there, back;
  if (!draw_retype(&x[BEFORE], to, a, &there) || !draw_retype(&there, x[BEFORE].dtype, a, &back)) {
    snprintf(why, 256, "a value is %s before and %s after", dtype_name(x[BEFORE].dtype),
             dtype_name(to));
    return false;
  }
  x[BEFORE] = back;
  x[AFTER] = there;
  return true;
}

// Of two values of the source that are one in the result, or the other way round, both have the same elements: the first
// pair before this one that has one of its values, or `i`.
static uint32_t fed_already(const struct site *s, uint32_t i) {
  const struct site_pair *p = s->inputs;
  for (uint32_t k = 0; k < i; k++)
    if ((p[i].before != NO_ID && p[k].before == p[i].before) ||
        (p[i].after != NO_ID && p[k].after == p[i].after))
      return k;
  return i;
}

// The arrays of pair `same`, for another pair: of the types that its values have.
static bool feed_again(const struct site_run *r, const struct site_pair *p,
                       const struct array fed[SIDES], struct array x[SIDES], char why[256]) {
  const uint32_t value[SIDES] = {p->before, p->after};
  for (int side = 0; side < SIDES; side++) {
    x[side] = fed[side];
    const enum dtype to =
        value[side] == NO_ID ? DTYPE_UNDEFINED : dtype_in(r->infer[side], value[side]);
    if (to == DTYPE_UNDEFINED || to == x[side].dtype) continue;
    snprintf(why, 256, "values that are one have two types, %s and %s", dtype_name(to),
             dtype_name(x[side].dtype));
    return false;
  }
  return true;
}

// Inputs of a side: those that it reads.
static void add_feed(const struct site_run *r, struct feeds *f, int side, uint32_t value,
                     struct array x, struct arena *a) {
  struct arrays *list = &f->of[side];
  if (value == NO_ID) return;
  x.name = arena_string(a, model_value_name(model_of(r, side), value));
  if (array_named(list, x.name)) return; // two pairs may share a value
  f->inputs[side][list->n] = (struct part_input){value, x.dtype, x.dims, x.rank};
  list->list[list->n++] = x;
}

static bool draw_feeds(struct site_run *r, const struct site *s, struct arena *a, struct feeds *f,
                       char why[256]) {
  struct array(*drawn)[SIDES] = arena_zalloc(a, (s->n_inputs + (size_t)1) * sizeof *drawn);
  for (int side = 0; side < SIDES; side++) {
    f->of[side] =
        (struct arrays){arena_zalloc(a, (s->n_inputs + (size_t)1) * sizeof(struct array)), 0};
    f->inputs[side] = arena_zalloc(a, (s->n_inputs + (size_t)1) * sizeof(struct part_input));
  }
  for (uint32_t i = 0; i < s->n_inputs; i++) {
    const struct site_pair *p = &s->inputs[i];
    const uint32_t same = fed_already(s, i);
    if (same < i ? !feed_again(r, p, drawn[same], drawn[i], why)
                 : !draw_pair(r, s, p, a, drawn[i], why))
      return false;
    add_feed(r, f, BEFORE, p->before, drawn[i][BEFORE], a);
    add_feed(r, f, AFTER, p->after, drawn[i][AFTER], a);
  }
  return true;
}

// ---- runs --------------------------------------------------------------------------------------

static struct part part_of(const struct site_run *r, const struct site *s, const struct feeds *f,
                           int side, struct arena *a) {
  uint32_t *outputs = arena_alloc(a, (s->n_outputs + (size_t)1) * sizeof *outputs);
  const char **names = arena_alloc(a, (s->n_outputs + (size_t)1) * sizeof *names);
  for (uint32_t i = 0; i < s->n_outputs; i++) {
    outputs[i] = side == BEFORE ? s->outputs[i].before : s->outputs[i].after;
    names[i] = arena_printf(a, "%u:%s", i,
                            arena_string(a, model_value_name(r->e->source, s->outputs[i].before)));
  }
  return (struct part){.m = model_of(r, side),
                       .graph = side == AFTER && r->e->written ? r->e->written->graph_of[s->graph]
                                                               : s->graph,
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
  (void)unlinkat(r->v->scratch_fd, name, 0);
  snprintf(name, sizeof name, "%s.onnx.data", side_names[side]);
  (void)unlinkat(r->v->scratch_fd, name, 0);
}

// A signal, a full disk: it says nothing of the site, and the next one would fare no better.
static bool is_of_the_machine(const struct err *cause) {
  return cause->kind == ERR_RETRY || cause->kind == ERR_NOSPACE || cause->kind == ERR_IO;
}

// What came of running one side: an end, with its words in *cause.
static enum runtime_end run_side(struct site_run *r, const struct part *p,
                                 const struct arrays *inputs, int side, struct arena *a,
                                 struct arrays *out, struct err *cause) {
  struct verify *v = r->v;
  struct runtime_model model;
  uint64_t bytes;
  if (part_write(r->cutter[side], p, v->scratch_fd, side_names[side], &bytes, cause)) {
    remove_part(r, side);
    if (!is_of_the_machine(cause)) return RUNTIME_BROKEN;
    if (cause->kind != ERR_RETRY) {
      const char *why = arena_string(a, span_str(cause->msg));
      err_fill(cause, cause->kind, "verification has no room in '%s' (TMPDIR): %s",
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

// Of several outputs the one that is worst.
static bool is_worse(const struct compare_result *x, const struct compare_figures *than) {
  if (x->end == COMPARE_DIFFERENT || than->count == 0) return true;
  return x->figures.relative > than->relative || x->figures.nonfinite_apart > than->nonfinite_apart;
}

static int compare_outputs(struct site_run *r, const struct site *s, const struct arrays out[SIDES],
                           struct verified_row *row, struct err *err) {
  struct arena *a = &r->v->found.arena;
  const char *names[SITE_PASSES];
  const uint32_t n = passes_of(r, s, names), bits = new_bits(r, s);
  const bool uneven = is_uneven(r, s);
  uint32_t empty = 0;
  uint64_t elements = 0;
  row->end = VERIFIED_PASSED;
  for (uint32_t i = 0; i < s->n_outputs; i++) {
    struct compare_result got;
    const struct array *x = &out[BEFORE].list[i], *y = &out[AFTER].list[i];
    struct verify_bounds b = {r->v->options.bounds, r->v->options.bounds_words};
    if (!b.words && verify_proof_of(&r->v->options, names, n, &b, a) != PIPELINE_PROOF_BOUNDS)
      b = verify_bounds_of_site(names, n, bits, uneven, x->dtype, y->dtype, a);
    // A type that became another one on purpose is compared as numbers.
    b.bounds.retyped = true;
    if (compare_arrays(x, y, &b.bounds, r->v->options.runtime.stop, &got, err)) return -1;
    if (is_worse(&got, &row->figures)) {
      row->figures = got.figures;
      row->bounds = b.words;
    }
    elements += x->count;
    empty += got.end != COMPARE_DIFFERENT && got.figures.count == got.figures.nonfinite[0];
    if (got.end == COMPARE_PASSED || row->end == VERIFIED_FAILED) continue;
    row->end = VERIFIED_FAILED;
    row->figures = got.figures;
    row->bounds = b.words;
    row->why = arena_printf(a, "'%s': %s",
                            quote(model_value_name(r->e->source, s->outputs[i].before)).s, got.why);
  }
  // Of constants alone that is all there is to see: an infinity is one before and after.
  if (empty == s->n_outputs && s->n_inputs > 0 && row->end == VERIFIED_PASSED) {
    row->end = VERIFIED_NOT;
    row->why = elements ? "the part before gives no finite number for the inputs that were drawn"
                        : "the part before gives no elements for the inputs that were drawn";
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

static int look_once(struct site_run *r, const struct site *s, uint32_t own_outputs,
                     struct verified_row *row, struct arena *a, struct err *err) {
  struct arena *kept = &r->v->found.arena;
  struct feeds f;
  struct arrays out[SIDES] = {{0}};
  char why[256];
  r->lacks_kernel = r->ended = false;
  if (s->why_not) {
    not_verified(row, kept, "", s->why_not);
    return 0;
  }
  struct site written;
  if (r->e->written) {
    if (!verify_written_site(r->e->written, s, a, &written)) {
      not_verified(row, kept, "",
                   "the output does not have all of it under the names that edits gave");
      return 0;
    }
    s = &written;
  }
  if (!draw_feeds(r, s, a, &f, why)) {
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
      not_verified(row, kept,
                   side == BEFORE ? "the part before does not run: "
                                  : "the part after cannot be run: ",
                   cause.msg);
    } else {
      row->end = VERIFIED_FAILED;
      row->why = arena_printf(kept, "the part after does not run: %s", cause.msg);
    }
    return 0;
  }
  // Of a part that was grown: are its inputs still such that something can be seen?
  bool flat;
  if (site_traits_flat(&out[BEFORE], own_outputs, &flat, err)) return -1;
  if (!flat) return compare_outputs(r, s, out, row, err);
  not_verified(row, kept, "",
               "with its surroundings, the part is given numbers that are all the same");
  return 0;
}

// Of codes of a weight, not of a bias.
static void add_linear(const struct recipes *r, uint32_t codes, struct narrowed *w) {
  struct recipe_quantization q;
  const struct recipe *x = &r->rows[codes];
  if (x->kind != RECIPE_QUANTIZE_LINEAR || dtype_bits((enum dtype)x->dtype) > 16) return;
  const bool found = recipe_quantize_linear_found(r, codes, &q);
  w->given = w->given || !found;
  w->reduced = w->reduced || (found && q.reduced);
}

// What edits say of how weights of a site were quantized.
static void add_quantization(const struct site_run *r, const struct site *s, struct narrowed *w) {
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
  struct narrowed_found found;
  if (!e->written || row->end != VERIFIED_PASSED || r->v->options.bounds_words ||
      verify_proof_of(&r->v->options, names, passes_of(r, s, names), &ignored, a) ==
          PIPELINE_PROOF_BOUNDS ||
      !verify_written_site(e->written, s, a, &written))
    return 0;
  struct narrowed w = {.m = {e->source, &e->written->model},
                       .sources = {e->sources, e->written->sources},
                       .site = &written,
                       .memory = r->v->options.memory,
                       .stop = r->v->options.runtime.stop};
  add_quantization(r, s, &w);
  if (w.compensates)
    return 0; // an element may be off by any number of steps; what comes out counts
  if (!w.levels && !new_bits(r, &written)) return 0;
  if (narrowed_look(&w, a, &found, err)) return -1;
  if (found.n == 0 || found.most <= found.allowed) return 0;
  row->end = VERIFIED_FAILED;
  row->why = arena_printf(&r->v->found.arena,
                          "%s: element %llu is off by %.3g times what rounding explains",
                          found.what, (unsigned long long)found.place, found.most);
  return 0;
}

// The inputs of before that are computed now are outputs too, behind the others.
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
    if (look_once(r, &wide, s->n_outputs, &again, a, err)) return -1;
    if (again.end == VERIFIED_PASSED) *row = again;
  }
  if (row->end == VERIFIED_FAILED && s->doubt) not_verified(row, &r->v->found.arena, "", s->doubt);
  return 0;
}

// ---- bounds ------------------------------------------------------------------------------------

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

// ---- all of them -------------------------------------------------------------------------------

static const char *joined(const char *const *names, uint32_t n, struct arena *a) {
  const char *text = n ? names[0] : "no pass";
  for (uint32_t i = 1; i < n; i++)
    text = arena_printf(a, "%s, %s", text, names[i]);
  return arena_string(a, span_str(text));
}

static void tick(struct site_run *r, const char *name) {
  if (r->groups || r->alone) return;
  const uint64_t done =
      r->all_done && name ? __atomic_load_n(r->all_done, __ATOMIC_RELAXED) : r->bytes_done;
  const struct work_told told = {.bytes_done = done,
                                 .bytes_total = r->bytes_total,
                                 .work_done = (double)done,
                                 .work_total = (double)r->bytes_total,
                                 .tensor = name};
  report_tick(NULL, &told);
}

// The result has the sizes that fit the source. What they do not fit is perhaps why it is wrong; but where it cannot have them
// (dims were set), the source has those that fit the result, and at last both get what fits each.
static int open_draws(struct site_run *r, int64_t batch, struct draw *out[SIDES], struct err *err) {
  const struct verify_options *o = &r->v->options;
  struct draw_options draw = {.seed = o->seed,
                              .length = o->n_lengths ? o->lengths[0] : 0,
                              .batch = batch,
                              .shapes = o->shapes,
                              .n_shapes = o->n_shapes};
  const struct model *const m[SIDES] = {model_of(r, BEFORE), model_of(r, AFTER)};
  struct err why = {0};
  if (draw_open_alike(out, r->infer, m, BEFORE, &draw, &r->arena, &why)) return 0;
  if (why.kind != ERR_NONE) {
    *err = why;
    return -1;
  }
  if (draw_open_alike(out, r->infer, m, AFTER, &draw, &r->arena, &why)) return 0;
  draw.batch = 0;
  for (int side = 0; side < SIDES; side++)
    if (draw_open(&out[side], r->infer[side], model_of(r, side), &draw, err)) return -1;
  return 0;
}

static void close_draws(struct draw *draw[SIDES]) {
  for (int side = 0; side < SIDES; side++) {
    draw_close(draw[side]);
    draw[side] = NULL;
  }
}

// What cannot be run with this batch may be with one of one.
static int look_at_sizes(struct site_run *r, uint32_t i, struct verified_row *row, struct arena *a,
                         struct err *err) {
  struct verified_row again = *row;
  struct draw *kept[SIDES] = {r->draw[BEFORE], r->draw[AFTER]};
  if (look_at(r, i, row, a, err)) return -1;
  if (row->end != VERIFIED_NOT || r->lacks_kernel || r->ended || r->sites.list[i].why_not) return 0;
  if (!r->of_one[BEFORE] && open_draws(r, 0, r->of_one, err)) return -1;
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

static int verify_one(struct site_run *r, uint32_t i, struct err *err) {
  struct verified *f = &r->v->found;
  const struct site *s = &r->sites.list[i];
  struct arena a = {0};
  const char *names[SITE_PASSES];
  const char *name = site_name(r->e->source, s, &f->arena);
  const double began = report_clock();
  const uint32_t n_names = passes_of(r, s, names);
  struct verified_row row = {.name = name,
                             .bounds = "",
                             .of = joined(names, n_names, &f->arena),
                             .loses = verify_loses(names, n_names)};
  int rc = 0;
  if (is_chosen(r, i, name)) {
    tick(r, name);
    rc = look_if_alive(r, i, &row, &a, err);
    if (rc == 0 && !r->ended) rc = look_beyond(r, i, &row, &a, err);
    if (rc == 0) rc = look_at_weights(r, s, &row, &a, err);
    // Each takes some replays of the log.
    if (rc == 0 && row.end == VERIFIED_FAILED && !r->groups && !r->ended &&
        f->n_failed < FAULTS_SOUGHT)
      row.fault = verify_fault(r->v, r->e, s->groups, s->n_groups, &f->arena);
    row.seconds = report_clock() - began;
    if (rc == 0) {
      *TABLE_PUSH(f, rows) = row;
      *(row.end == VERIFIED_PASSED   ? &f->n_passed
        : row.end == VERIFIED_FAILED ? &f->n_failed
                                     : &f->n_not) += 1;
    }
  } else if (!r->groups) {
    f->n_left++;
  }
  r->bytes_done += constant_bytes(r, s);
  if (r->all_done) __atomic_fetch_add(r->all_done, constant_bytes(r, s), __ATOMIC_RELAXED);
  runtime_release(r->v->runtime);
  arena_free(&a);
  return rc;
}

// By value of the source: does the result compute it in another type?
static const bool *find_retyped(struct site_run *r) {
  const struct model *m = r->e->source;
  const struct verify_written *w = r->e->written;
  bool *retyped = arena_zalloc(&r->arena, m->n_values + (size_t)1);
  for (uint32_t i = 0; i < m->n_values; i++) {
    const uint32_t after = w ? w->value_of[i] : i;
    if (r->e->result->values[i].flags & VALUE_DEAD || after == NO_ID) continue;
    const enum dtype was = dtype_in(r->infer[BEFORE], i), is = dtype_in(r->infer[AFTER], after);
    retyped[i] = was != DTYPE_UNDEFINED && is != DTYPE_UNDEFINED && was != is;
  }
  return retyped;
}

static int open_all(struct site_run *r, struct err *err) {
  const struct verify_options *o = &r->v->options;
  const struct infer_options infer = {INFER_REFINE, 1, INT64_MAX, false};
  if (read_choice(r, err)) return -1;
  for (int side = 0; side < SIDES; side++) {
    r->infer[side] = infer_new(model_of(r, side), &infer);
    infer_all(r->infer[side], NULL);
    if (part_cutter_open(&r->cutter[side], model_of(r, side), recipes_of(r, side),
                         sources_of(r, side), o->memory, err))
      return -1;
  }
  if (open_draws(r, BATCH, r->draw, err)) return -1;
  if (!r->v->found.sizes) r->v->found.sizes = draw_words(r->draw[BEFORE], &r->v->found.arena);
  for (uint32_t i = 0; i < r->e->edits->groups->n_rows; i++)
    add_pass(r->passes, &r->n_passes, r->e->edits->groups->rows[i].pass);
  sites_find(r->e->source, r->e->result, r->e->edits->groups, find_retyped(r), &r->arena,
             &r->sites);
  for (uint32_t i = 0; i < r->sites.n; i++)
    r->bytes_total += constant_bytes(r, &r->sites.list[i]);
  return 0;
}

static int one_site(void *ctx, uint32_t i, struct err *err) {
  return verify_one(ctx, i, err);
}

static void be_alone(void *ctx) {
  struct site_run *r = ctx;
  r->alone = true;
}

// Several at a time, if there are several and nobody looks for a group at fault.
static int verify_all(struct site_run *r, struct err *err) {
  const uint32_t jobs = r->v->options.jobs, most = r->sites.n / FEW_SITES;
  struct verify_wide w = {.v = r->v,
                          .jobs = jobs < most ? jobs : most,
                          .n = r->sites.n,
                          .one = one_site,
                          .alone = be_alone,
                          .ctx = r};
  if (r->groups || w.jobs < 2) {
    int rc = 0;
    for (uint32_t i = 0; i < r->sites.n && rc == 0; i++)
      rc = verify_one(r, i, err);
    return rc;
  }
  r->all_done = verify_wide_counter();
  const int rc = verify_wide_run(&w, err);
  r->bytes_done = r->bytes_total;
  verify_wide_counter_free(r->all_done);
  r->all_done = NULL;
  return rc;
}

int verify_sites_of(struct verify *v, const struct verify_edited *e, const uint32_t *groups,
                    uint32_t n, struct err *err) {
  struct site_run r = {.v = v, .e = e, .groups = groups, .n_groups = n};
  int rc = open_all(&r, err);
  if (rc == 0) rc = verify_all(&r, err);
  if (rc == 0) tick(&r, NULL);
  close_draws(r.draw);
  close_draws(r.of_one);
  for (int side = 0; side < SIDES; side++) {
    if (r.cutter[side]) part_cutter_close(r.cutter[side]);
    if (r.infer[side]) infer_free(r.infer[side]);
  }
  sites_done(&r.sites);
  if (r.has_pattern) name_pattern_done(&r.pattern);
  arena_free(&r.arena);
  return rc;
}

int verify_sites(struct verify *v, const struct verify_edited *e, struct err *err) {
  report_begin("verifying");
  const int rc = verify_sites_of(v, e, NULL, 0, err);
  report_end();
  v->found.peak_memory[0] += report_peak_memory(); // to those of other processes
  v->found.peak_memory[1] += runtime_peak_memory(v->runtime);
  v->found.seconds = report_clock() - v->began;
  return rc;
}
