// Advice: what weir could do with a model, in the words of its commands.
//
// Each line comes from the pass itself, which is asked about every node without an edit being made,
// or from a look at how much smaller the files would be if they were packed anew. So a line that is
// printed is true of the command it names; the command's --dry-run says it node by node. What would
// save too little to be worth it is not said.
#include "cast.h"
#include "conv2matmul.h"
#include "inspect.h"
#include "matmulnbits.h"
#include "shrink.h"
#include "weights.h"

#include <stdarg.h>
#include <stdio.h>

enum { WORTH_BYTES = 64 << 10 }; // less waste than this is not worth a word

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

static void advise_convert(struct inspect *in) {
  uint64_t waste = 0;
  for (uint32_t f = 1; f < in->m->n_files; f++) {
    const struct inspect_file *file = &in->files[f];
    waste += file->size - min_u64(file->size, file->use.used + file->use.padding);
  }
  if (in->m->n_files > 2)
    advise(in, "convert", in->m->n_files - 1u, "%u data files can become one", in->m->n_files - 1u);
  if (waste >= WORTH_BYTES)
    advise(in, "convert", 1, "%s of data files that no tensor uses can be left behind",
           quote_bytes(waste).s);
  if (in->files[0].size > INT32_MAX)
    advise(in, "convert", 1,
           "the .onnx is larger than 2 GiB - 1 bytes, which other readers refuse: --external");
}

// What the files would be with `before` bytes of them become `after`.
static struct quoted size_with(const struct inspect *in, uint64_t before, uint64_t after) {
  uint64_t all = 0;
  for (uint32_t f = 0; f < in->m->n_files; f++)
    all += in->files[f].size;
  return quote_bytes(all > before - after ? all - (before - after) : after);
}

static bool is_worth(uint64_t before, uint64_t after) {
  return before > after && before - after >= WORTH_BYTES;
}

static void advise_quantize(struct inspect *in) {
  static const struct matmulnbits_scheme four = {.bits = 4, .block = 128},
                                         eight = {.bits = 8, .block = 128};
  struct matmulnbits_survey a, b;
  matmulnbits_survey(in->m, &four, MATMULNBITS_ALL_OPS, &a);
  matmulnbits_survey(in->m, &eight, MATMULNBITS_ALL_OPS, &b);
  if (!is_worth(a.bytes_before, a.bytes_after)) return;
  advise(
      in, "quantize", a.nodes,
      "%lu weight%s of MatMul, Gemm and Gather (%.20s): about %.20s in all with 4 bits and blocks "
      "of 128, %.20s with 8 (--op-types MatMul,Gemm,Gather)",
      a.weights, plural(a.weights), quote_bytes(a.bytes_before).s,
      size_with(in, a.bytes_before, a.bytes_after).s,
      size_with(in, b.bytes_before, b.bytes_after).s);
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

void inspect_advise(struct inspect *in) {
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
}
