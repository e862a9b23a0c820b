// Advice: what weir could do with a model, in the words of its commands.
//
// The last word is one command to copy: of all that can be done the one that leaves the fewest bytes.
//
// Each line comes from the pass itself, which is asked about every node without an edit being made,
// or from a look at how much smaller the files would be if they were packed anew. So a line that is
// printed is true of the command it names; the command's --dry-run says it node by node. What would
// save too little to be worth it is not said.
#include "cast.h"
#include "cli.h"
#include "cli_words.h"
#include "conv2matmul.h"
#include "inspect.h"
#include "matmulnbits.h"
#include "outlook.h"
#include "shrink.h"
#include "weights.h"

#include <stdarg.h>
#include <stdio.h>

enum {
  WORTH_BYTES = 64 << 10, // less waste than this is not worth a word
  NEXT_BLOCK = 64 // of what is advised: long enough to be small, short enough for small weights
};

static void advise(struct inspect *in, const char *command, uint64_t sites, const char *fmt, ...)
    ERR_PRINTF(4, 5);
static void advise(struct inspect *in, const char *command, uint64_t sites, const char *fmt, ...) {
  if (in->n_advice == INSPECT_ADVICE) return;
  struct inspect_advice *a = &in->advice[in->n_advice++];
  a->command = command;
  a->sites = sites;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(a->text, sizeof a->text, fmt, ap);
  va_end(ap);
}

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
  if (more > 0) snprintf(those, sizeof those, " (%lu of them with --extended-conv1x1)", more);
  advise(in, "conv2matmul", plainly + more,
         "%lu of %lu Conv nodes are pointwise and can become MatMul%s", plainly + more, convs,
         those);
}

// Quantizers that no runtime has (those of which the pass makes nothing are few).
static void advise_import(struct inspect *in) {
  const struct model *m = in->m;
  uint64_t n = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    const struct span domain = model_name(m, m->nodes[i].domain);
    if (m->nodes[i].flags & NODE_DEAD) continue;
    n += span_is(domain, "qonnx.custom_op.general") || span_is(domain, "onnx.brevitas");
  }
  if (n > 0)
    advise(in, "run", n,
           "%lu node%s of QONNX or Brevitas, which runtimes do not have: --pass import-qonnx", n,
           plural(n));
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

static void advise_convert(struct inspect *in) {
  const uint64_t waste = wasted(in);
  if (in->m->n_files > 2)
    advise(in, "convert", in->m->n_files - 1u, "%u data files can become one", in->m->n_files - 1u);
  if (waste >= WORTH_BYTES)
    advise(in, "convert", 1, "%s of data files are not used by any tensor and can be dropped",
           quote_bytes(waste).s);
  if (in->files[0].size > INT32_MAX)
    advise(in, "convert", 1,
           "the .onnx is larger than 2 GiB - 1 bytes, which other readers refuse: --external");
}

// What the files would be with `before` bytes of them become `after`.
static struct quoted size_with(const struct inspect *in, uint64_t before, uint64_t after) {
  const uint64_t all = inspect_bytes(in);
  return quote_bytes(all > before - after ? all - (before - after) : after);
}

static bool is_worth(uint64_t before, uint64_t after) {
  return before > after && before - after >= WORTH_BYTES;
}

// Weights that each operator has, and what they would all be together.
static void advise_quantize(struct inspect *in) {
  static const struct matmulnbits_scheme four = {.bits = 4, .block = NEXT_BLOCK},
                                         eight = {.bits = 8, .block = NEXT_BLOCK};
  struct matmulnbits_survey a, b;
  uint64_t bytes;
  uint32_t ops = MATMULNBITS_ALL_OPS;
  matmulnbits_survey(in->m, &four, ops, &a);
  matmulnbits_survey(in->m, &eight, ops, &b);
  if (!is_worth(a.bytes_before, a.bytes_after)) return;
  const char *words = outlook_words(in->m, &ops, &in->arena, &bytes);
  advise(in, "quantize", a.nodes,
         "%.150s: about %.20s in all with 4 bits, %.20s with 8 (--op-types %s)", words,
         size_with(in, a.bytes_before, a.bytes_after).s,
         size_with(in, b.bytes_before, b.bytes_after).s, outlook_op_types(ops, ",", &in->arena));
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

// ---- the best next thing ------------------------------------------------------------------------

// A twentieth of the model is worth a run.
static bool is_worth_a_run(const struct inspect *in, uint64_t before, uint64_t after) {
  return is_worth(before, after) && before - after >= inspect_bytes(in) / 20;
}

// "models/encoder.onnx models/encoder.int4.onnx", quoted; `o` between them, if any.
static const char *paths(struct inspect *in, const char *o, const char *kind) {
  const char *path = in->path;
  const size_t n = strlen(path) - (str_ends(path, ".onnx") ? strlen(".onnx") : 0);
  const char *out = arena_printf(&in->arena, "%.*s.%s.onnx", (int)n, path, kind);
  return arena_printf(&in->arena, "%s %s%s%s", cli_words_quote(path, &in->arena), o,
                      cli_words_quote(out, &in->arena), in->allow_links ? " --allow-links" : "");
}

static void take_next(struct inspect *in, uint64_t before, uint64_t after, const char *command) {
  const uint64_t all = inspect_bytes(in);
  in->next_bytes = all > before - after ? all - (before - after) : after;
  in->next = command;
}

static uint64_t saved_by(const struct matmulnbits_survey *s) {
  return s->bytes_before > s->bytes_after ? s->bytes_before - s->bytes_after : 0;
}

// Four bits for all that can have them, pointwise convolutions included: one read and one write.
static bool next_is_quantize(struct inspect *in, uint64_t shrunk) {
  static const struct matmulnbits_scheme four = {.bits = 4, .block = NEXT_BLOCK};
  struct matmulnbits_survey plain, more, convs;
  uint32_t ops = MATMULNBITS_ALL_OPS;
  uint64_t bytes;
  struct arena *a = &in->arena;
  matmulnbits_survey(in->m, &four, MATMULNBITS_MATMUL, &plain);
  matmulnbits_survey(in->m, &four, ops, &more);
  outlook_convs(in->m, &four, &convs);
  (void)outlook_words(in->m, &ops, a, &bytes);
  plain.bytes_after += plain.bytes_kept;
  if (!is_worth_a_run(in, saved_by(&more), saved_by(&plain))) {
    more = plain;
    ops = MATMULNBITS_MATMUL;
  }
  const bool rewrites = is_worth_a_run(in, convs.bytes_before, convs.bytes_after);
  const uint64_t before = more.bytes_before + (rewrites ? convs.bytes_before : 0);
  const uint64_t after = more.bytes_after + (rewrites ? convs.bytes_after : 0);
  if (!is_worth_a_run(in, before, after) || before - after < shrunk) return false;
  const char *between = rewrites ? "+" : ",";
  const char *taken = ops == MATMULNBITS_MATMUL ? NULL : outlook_op_types(ops, between, a);
  const char *in_out = paths(in, "", "int4");
  const char *command;
  if (rewrites)
    command = arena_printf(a, "weir run %s --pass conv2matmul --pass %s:block_size=%d%s%s", in_out,
                           cli_pass(CLI_quantize)->name, NEXT_BLOCK, taken ? ",op_types=" : "",
                           taken ? taken : "");
  else
    command = arena_printf(a, "weir quantize %s --block-size %d%s%s", in_out, NEXT_BLOCK,
                           taken ? " --op-types " : "", taken ? taken : "");
  take_next(in, before, after, command);
  return true;
}

// Can weights be read? Otherwise whatever comes next would be refused.
static bool has_its_data(const struct inspect *in) {
  for (uint32_t f = 1; f < in->m->n_files; f++)
    if (in->files[f].missing || in->files[f].unreadable || in->files[f].needed > in->files[f].size)
      return false;
  return true;
}

static void choose_next(struct inspect *in, const struct savings *shrunk) {
  const bool shrinks = is_worth_a_run(in, shrunk->before, shrunk->after);
  const uint64_t waste = wasted(in);
  if (next_is_quantize(in, shrinks ? shrunk->before - shrunk->after : 0)) return;
  if (shrinks)
    take_next(in, shrunk->before, shrunk->after,
              arena_printf(&in->arena, "weir shrink %s", paths(in, "-o ", "int8")));
  else if (is_worth_a_run(in, waste, 0))
    take_next(in, waste, 0, arena_printf(&in->arena, "weir convert %s", paths(in, "", "packed")));
}

static void ask_all(void *ctx) {
  struct inspect *in = ctx;
  advise_import(in);
  advise_conv2matmul(in);
  advise_quantize(in);
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
  if (is_worth(shrunk.before, shrunk.after))
    advise(in, "shrink", shrunk.weights, "%lu large float weight%s as int8: about %s in all",
           shrunk.weights, plural(shrunk.weights), size_with(in, shrunk.before, shrunk.after).s);
  if (is_worth(cast.before, cast.after))
    advise(in, "cast", cast.weights, "%lu float32 weight%s as float16 or bfloat16: about %s in all",
           cast.weights, plural(cast.weights), size_with(in, cast.before, cast.after).s);
  if (in->m->n_files > 0) advise_convert(in);
  if (has_its_data(in)) choose_next(in, &shrunk);
}

void inspect_advise(struct inspect *in, struct model *m) {
  weights_ask(m, ask_all, in);
}
