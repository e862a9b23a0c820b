// Advice: what weir could do with a model, in the words of its commands.
//
// The last word is one command to copy: of all that can be done the one that leaves the fewest bytes.
//
// Each line comes from the pass itself, which runs on the metadata of a copy of the model, or is asked about every node
// (prospect.h, estimate.h); the size is that of the plan that comes of it. So a line that is
// printed is true of the command it names; the command's --dry-run says it node by node. What would
// save too little to be worth it is not said. Without the data files nothing can be run: sizes are then those of the
// weights alone, and no command is named. The same where the model has too many rows to be loaded again for each line.
// test_outlook.py runs every line.
#include "base/shell_words.h"
#include "inspect/inside/inspect_steps.h"
#include "passes/cast/cast.h"
#include "passes/conv2matmul/conv2matmul.h"
#include "passes/custom_ops/custom_ops.h"
#include "passes/kit/weights.h"
#include "passes/nbits/matmulnbits.h"
#include "passes/shrink/shrink.h"
#include "pipeline/estimate.h"
#include "pipeline/prospect.h"

#include <stdarg.h>
#include <stdio.h>

enum {
  WORTH_BYTES = 64 << 10, // less waste than this is not worth a word
  NEXT_BLOCK = 64 // of what is advised: long enough to be small, short enough for small weights
};

// Gives the line, for what else is known of it; NULL: there are too many.
static struct inspect_advice *advise(struct inspect *in, const char *command, uint64_t sites,
                                     const char *fmt, ...) ERR_PRINTF(4, 5);
static struct inspect_advice *advise(struct inspect *in, const char *command, uint64_t sites,
                                     const char *fmt, ...) {
  if (in->n_advice == INSPECT_ADVICE) return NULL;
  struct inspect_advice *a = &in->advice[in->n_advice++];
  a->command = command;
  a->sites = sites;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(a->text, sizeof a->text, fmt, ap);
  va_end(ap);
  return a;
}

// ---- what would come of it ----------------------------------------------------------------------

// "models/encoder.onnx models/encoder.int4.onnx", quoted; `o` between them, if any.
static const char *out_path(struct inspect *in, const char *kind) {
  const char *path = in->path;
  const size_t n = strlen(path) - (str_ends(path, ".onnx") ? strlen(".onnx") : 0);
  return arena_printf(&in->arena, "%.*s.%s.onnx", (int)n, path, kind);
}

static const char *paths(struct inspect *in, const char *o, const char *kind) {
  return arena_printf(&in->arena, "%s %s%s%s", shell_words_quote(in->path, &in->arena), o,
                      shell_words_quote(out_path(in, kind), &in->arena),
                      in->allow_links ? " --allow-links" : "");
}

static const char *run_line(struct inspect *in, const char *kind, const char *const *passes) {
  const char *line = arena_printf(&in->arena, "weir run %s", paths(in, "", kind));
  for (uint32_t i = 0; i < PROSPECT_PASSES && passes[i]; i++)
    line = arena_printf(&in->arena, "%s --pass %s", line, passes[i]);
  return line;
}

// Can weights be read? Otherwise whatever comes next would be refused.
static bool has_its_data(const struct inspect *in) {
  for (uint32_t f = 1; f < in->m->n_files; f++)
    if (in->files[f].missing || in->files[f].unreadable || in->files[f].needed > in->files[f].size)
      return false;
  return true;
}

// Is the model soon loaded? Rows are not all that there may be beside elements.
static bool is_soon_loaded(const struct inspect *in) {
  const uint64_t rows = (uint64_t)in->m->n_nodes + in->m->n_tensors, size = in->files[0].size,
                 elements = in->sums.inlined.bytes + in->sums.in_nodes.bytes;
  return rows <= PROSPECT_ROWS && size - min_u64(size, elements) <= PROSPECT_BYTES;
}

static bool look_ahead(struct inspect *in, const char *const passes[PROSPECT_PASSES],
                       struct prospect *out) {
  if (!has_its_data(in) || !is_soon_loaded(in)) return false;
  return prospect_of(in->sources, passes, path_base(out_path(in, "int8")), out);
}

// Bytes of data files that are in no tensor and more than padding.
static uint64_t wasted(const struct inspect *in) {
  uint64_t waste = 0;
  for (uint32_t f = 1; f < in->m->n_files; f++) {
    const struct inspect_file *file = &in->files[f];
    waste += file->size - min_u64(file->size, file->use.used + file->use.padding);
  }
  return waste;
}

// Of the files without what any command drops.
static uint64_t needed_bytes(const struct inspect *in) {
  return inspect_bytes(in) - wasted(in);
}

static bool is_worth(uint64_t before, uint64_t after) {
  return before > after && before - after >= WORTH_BYTES;
}

// A twentieth of the model is worth a run.
static bool is_worth_a_run(const struct inspect *in, uint64_t after) {
  const uint64_t all = inspect_bytes(in);
  return is_worth(all, after) && all - after >= all / 20;
}

// What the line comes to, and how it is run; the smallest of them, the first of equals, is the next thing.
// run NULL: more is needed than the model. lossy: the kind of its output, which is to be compared; NULL: it loses nothing.
static void is_next(struct inspect *in, struct inspect_advice *a, uint64_t bytes, const char *run,
                    const char *lossy) {
  if (!a) return;
  a->bytes = bytes;
  a->run = run;
  if (!run || !has_its_data(in) || !is_worth_a_run(in, bytes)) return;
  if (in->next.command && in->next.bytes <= bytes) return;
  in->next.command = run;
  in->next.bytes = bytes;
  in->next.check =
      lossy ? arena_printf(&in->arena, "weir verify %s --inputs DIR", paths(in, "", lossy)) : NULL;
}

// ---- lines --------------------------------------------------------------------------------------

// Asks the pass itself, with its plain options and with all of them.
static void advise_conv2matmul(struct inspect *in) {
  static const struct conv2matmul_options plain = {0};
  static const struct conv2matmul_options extended = {.extended = true};
  const struct model *m = in->m;
  uint64_t convs = 0, plainly = 0, more = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    struct conv2matmul_match match;
    if ((m->nodes[i].flags & NODE_DEAD) || !conv2matmul_looks_at(m, i, &plain)) continue;
    convs++;
    conv2matmul_match(m, i, &plain, &match);
    plainly += match.converts;
    if (match.converts) continue;
    conv2matmul_match(m, i, &extended, &match);
    more += match.converts;
  }
  if (plainly + more == 0) return;
  char those[64] = "";
  if (more > 0)
    snprintf(those, sizeof those, " (%s of them with --extended-conv1x1)", decimal(more).s);
  advise(in, "conv2matmul", plainly + more,
         "%s of %s Conv node%s pointwise and can become MatMul%s", decimal(plainly + more).s,
         decimal(convs).s,
         convs == 1            ? " is"
         : plainly + more == 1 ? "s is"
                               : "s are",
         those);
}

// Quantizers that no runtime has (those of which the pass makes nothing are few). Their float weights can be codes.
static void advise_import(struct inspect *in) {
  static const char *const passes[PROSPECT_PASSES] = {"import-qonnx", "requantize"};
  const struct model *m = in->m;
  struct prospect p;
  uint64_t n = 0;
  bool alike = true;
  const struct model_node *first = NULL;
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    const struct model_node *node = &m->nodes[i];
    if (node->flags & NODE_DEAD || !custom_ops_is_imported(model_name(m, node->domain))) continue;
    if (n++ == 0) first = node;
    alike &= node->op_type == first->op_type;
  }
  if (n == 0) return;
  const bool known = look_ahead(in, passes, &p);
  const char *size = known ? arena_printf(&in->arena, "; with --pass requantize about %s in all",
                                          quote_bytes(p.bytes).s)
                           : "";
  struct inspect_advice *a = advise(
      in, "run", n,
      "a %s model: no runtime has its %s node%s%s%s; --pass import-qonnx converts %s to ONNX%s",
      span_is(model_name(m, first->domain), CUSTOM_OPS_BREVITAS) ? "Brevitas" : "QONNX",
      decimal(n).s, plural(n), alike ? " " : " such as ", quote(model_name(m, first->op_type)).s,
      n == 1 ? "it" : "them", size);
  if (known) is_next(in, a, p.bytes, run_line(in, "int8", passes), NULL);
}

static void advise_convert(struct inspect *in) {
  const uint64_t waste = wasted(in);
  if (in->m->n_files > 2)
    advise(in, "convert", in->m->n_files - 1u, "%u data files can become one", in->m->n_files - 1u);
  if (waste >= WORTH_BYTES)
    is_next(in,
            advise(in, "convert", 1,
                   "%s of data files are not used by any tensor and can be dropped",
                   quote_bytes(waste).s),
            inspect_bytes(in) - waste,
            arena_printf(&in->arena, "weir convert %s", paths(in, "", "packed")), NULL);
  if (in->files[0].size > INT32_MAX)
    advise(in, "convert", 1,
           "the .onnx is larger than 2 GiB - 1 bytes, which other readers refuse: --external");
}

// What the files would be with `before` bytes of them become `after`.
static uint64_t size_with(const struct inspect *in, uint64_t before, uint64_t after) {
  const uint64_t all = inspect_bytes(in);
  return all > before - after ? all - (before - after) : after;
}

// Weights that shrink and cast would store in fewer bytes.
struct savings {
  uint64_t weights, before, after;
};

static void add_saving(struct savings *s, uint64_t before, uint64_t after) {
  s->weights++;
  s->before += before;
  s->after += after;
}

// The pass quantize with four or eight bits for these operators, as behind --pass.
static const char *quantize_words(struct inspect *in, uint32_t ops, uint32_t bits) {
  const char *words = arena_printf(&in->arena, "quantize:block_size=%d", NEXT_BLOCK);
  if (bits != 4) words = arena_printf(&in->arena, "%s,bits=%u", words, bits);
  if (ops == MATMULNBITS_MATMUL) return words;
  return arena_printf(&in->arena, "%s,op_types=%s", words, estimate_op_types(ops, "+", &in->arena));
}

static uint64_t in_bits(struct inspect *in, uint32_t ops, const struct matmulnbits_scheme *scheme,
                        uint64_t *nodes, bool *known) {
  const char *const passes[PROSPECT_PASSES] = {quantize_words(in, ops, scheme->bits)};
  struct matmulnbits_survey s;
  struct prospect p;
  matmulnbits_survey(in->m, scheme, ops, &s);
  *nodes = s.nodes;
  *known = look_ahead(in, passes, &p);
  return *known ? p.bytes : size_with(in, s.bytes_before, s.bytes_after);
}

// Weights that each operator has, and what they would all be together. *four: with 4 bits; 0: not listed.
static void advise_quantize(struct inspect *in, uint32_t *ops, uint64_t *four) {
  static const struct matmulnbits_scheme in_four = {.bits = 4, .block = NEXT_BLOCK},
                                         in_eight = {.bits = 8, .block = NEXT_BLOCK};
  uint64_t bytes, nodes;
  bool known;
  *ops = MATMULNBITS_ALL_OPS;
  *four = 0;
  const char *words = estimate_words(in->m, ops, &in->arena, &bytes);
  if (!words) return;
  const uint64_t eight = in_bits(in, *ops, &in_eight, &nodes, &known);
  const uint64_t least = in_bits(in, *ops, &in_four, &nodes, &known);
  if (!is_worth(needed_bytes(in), least)) return;
  const char *types = estimate_op_types(*ops, ",", &in->arena);
  struct inspect_advice *a = advise(
      in, "quantize", nodes, "%.150s: about %.20s in all with 4 bits, %.20s with 8 (--op-types %s)",
      words, quote_bytes(least).s, quote_bytes(eight).s, types);
  *four = least;
  if (!known) return;
  const char *taken =
      *ops == MATMULNBITS_MATMUL ? "" : arena_printf(&in->arena, " --op-types %s", types);
  is_next(in, a, least,
          arena_printf(&in->arena, "weir quantize %s --block-size %d%s", paths(in, "", "int4"),
                       NEXT_BLOCK, taken),
          "int4");
}

// Four bits with what goes well with them, in one read and one write: pointwise convolutions as products before it, int8
// for what is left behind it. The smallest of what there is, if it is smaller than four bits alone.
static void advise_together(struct inspect *in, uint32_t ops, uint64_t four,
                            const struct savings *shrunk) {
  static const struct matmulnbits_scheme in_four = {.bits = 4, .block = NEXT_BLOCK};
  struct matmulnbits_survey convs;
  uint64_t least = four ? four : needed_bytes(in);
  const char *best[PROSPECT_PASSES] = {NULL}, *words = NULL;
  struct prospect p, of = {0};
  estimate_convs(in->m, &in_four, &convs);
  const char *quantize = quantize_words(in, ops ? ops : MATMULNBITS_MATMUL, 4);
  for (int way = 1; way < 4; way++) {
    const bool rewrites = way & 1, shrinks = way & 2;
    const char *passes[PROSPECT_PASSES] = {NULL};
    uint32_t n = 0;
    if ((rewrites && convs.weights == 0) || (shrinks && shrunk->weights == 0)) continue;
    if (!rewrites && ops == 0) continue; // nothing but shrink
    if (rewrites) passes[n++] = "conv2matmul";
    passes[n++] = quantize;
    if (shrinks) passes[n++] = "shrink";
    if (!look_ahead(in, passes, &p) || !is_worth(least, p.bytes)) continue;
    least = p.bytes;
    of = p;
    memcpy(best, passes, sizeof best);
    words = rewrites && shrinks ? "pointwise Conv as MatMul, 4 bits for products, int8 for the rest"
            : rewrites          ? "pointwise Conv as MatMul, 4 bits for products"
                                : "4 bits for products, int8 for the rest";
  }
  if (!words) return;
  is_next(in, advise(in, "run", of.sites, "%s: about %s in all", words, quote_bytes(least).s),
          least, run_line(in, "int4", best), "int4");
}

// Commands that are a pass of their own; the words stand behind "3 nodes", where nodes are what they change.
static const struct alone {
  const char *command, *pass, *of, *words;
  bool needs_samples, lossy;
} alone[] = {
    {"dynamic", "dynamic", "weight", " as int8, activations quantized as the model runs", false,
     true},
    {"static", "static:ranges=RANGES", "node",
     " in int8, with ranges of samples ('weir calibrate')", true, true},
    {"requantize", "requantize", "node",
     ", such as float weights that are quantized as the model runs, as codes", false, false},
};

static void advise_alone(struct inspect *in, const struct alone *what) {
  const char *const passes[PROSPECT_PASSES] = {what->pass};
  struct prospect p;
  if (!look_ahead(in, passes, &p) || !is_worth(needed_bytes(in), p.bytes)) return;
  struct inspect_advice *a =
      advise(in, what->command, p.sites, "%s %s%s%s: about %s in all", decimal(p.sites).s, what->of,
             plural(p.sites), what->words, quote_bytes(p.bytes).s);
  const char *run = arena_printf(&in->arena, "weir %s %s", what->command, paths(in, "", "int8"));
  is_next(in, a, p.bytes, what->needs_samples ? NULL : run, what->lossy ? "int8" : NULL);
}

// The size that the pass comes to, or what the weights alone save.
static void advise_saving(struct inspect *in, const char *command, const char *pass,
                          const struct savings *s, const char *which, const char *stored,
                          const char *kind, const char *run) {
  const char *const passes[PROSPECT_PASSES] = {pass};
  struct prospect p;
  if (!is_worth(s->before, s->after)) return;
  const bool known = look_ahead(in, passes, &p);
  const uint64_t bytes = known ? p.bytes : size_with(in, s->before, s->after);
  struct inspect_advice *a =
      advise(in, command, s->weights, "%s %s weight%s as %s: about %s in all",
             decimal(s->weights).s, which, plural(s->weights), stored, quote_bytes(bytes).s);
  if (known) is_next(in, a, bytes, run, kind);
}

static void ask_all(void *ctx) {
  struct inspect *in = ctx;
  uint32_t ops;
  uint64_t four;
  const struct model *m = in->m;
  struct savings shrunk = {0}, cast = {0};
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    struct weight w;
    uint64_t n;
    struct model_constant c;
    if (!weights_at(m, i, &w) || !model_resolve_constant(m, w.value, &c) ||
        !dims_product(model_dims(m, t), t->rank, &n))
      continue;
    const struct model_value *v = &m->values[w.value];
    if (v->first_use == NO_ID && v->n_graph_outputs == 0) continue;
    const bool real =
        t->dtype == DTYPE_FLOAT || t->dtype == DTYPE_FLOAT16 || t->dtype == DTYPE_DOUBLE;
    if (real && n >= SHRINK_MIN_ELEMENTS)
      add_saving(&shrunk, t->bytes, n + t->bytes / n * 2); // and a scale and an offset
    if (t->dtype == DTYPE_FLOAT && n >= CAST_MIN_ELEMENTS) add_saving(&cast, t->bytes, n * 2);
  }
  advise_import(in);
  advise_conv2matmul(in);
  advise_quantize(in, &ops, &four);
  advise_together(in, ops, four, &shrunk);
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
    advise_alone(in, &alone[i]);
  advise_saving(in, "shrink", "shrink", &shrunk, "large float", "int8", "int8",
                arena_printf(&in->arena, "weir shrink %s", paths(in, "-o ", "int8")));
  advise_saving(in, "cast", "cast:to=float16", &cast, "float32", "float16 or bfloat16", "float16",
                arena_printf(&in->arena, "weir cast %s --to float16", paths(in, "", "float16")));
  if (in->m->n_files > 0) advise_convert(in);
}

void inspect_advise(struct inspect *in, struct model *m) {
  weights_ask(m, ask_all, in);
}
