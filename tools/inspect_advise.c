// What weir could do with a model, in the words of its commands: what the pass itself says of each
// node, and what packing anew would change. The commands' --dry-run says it node by node.
#include "conv2matmul.h"
#include "inspect.h"

#include <stdio.h>

enum { WORTH_BYTES = 64 << 10 }; // less waste than this is not worth a word

static struct inspect_advice *add_advice(struct inspect *in, const char *command, uint64_t sites) {
  if (in->n_advice == INSPECT_ADVICE) return NULL;
  struct inspect_advice *a = &in->advice[in->n_advice++];
  a->command = command;
  a->sites = sites;
  return a;
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
  struct inspect_advice *a = add_advice(in, "conv2matmul", plainly + more);
  if (!a) return;
  int n = snprintf(a->text, sizeof a->text,
                   "%llu of %llu Conv nodes are pointwise and can become MatMul",
                   (unsigned long long)(plainly + more), (unsigned long long)convs);
  if (more > 0)
    snprintf(a->text + n, sizeof a->text - (size_t)n, " (%llu of them with --extended-conv1x1)",
             (unsigned long long)more);
}

static void advise_convert(struct inspect *in) {
  struct inspect_advice *a;
  uint64_t waste = 0;
  for (uint32_t f = 1; f < in->m->n_files; f++) {
    const struct inspect_file *file = &in->files[f];
    waste += file->size - min_u64(file->size, file->use.used + file->use.padding);
  }
  if (in->m->n_files > 2 && (a = add_advice(in, "convert", in->m->n_files - 1u)))
    snprintf(a->text, sizeof a->text, "%u data files can become one", in->m->n_files - 1u);
  if (waste >= WORTH_BYTES && (a = add_advice(in, "convert", 1)))
    snprintf(a->text, sizeof a->text, "%s of data files that no tensor uses can be left behind",
             quote_bytes(waste).s);
  if (in->files[0].size > INT32_MAX && (a = add_advice(in, "convert", 1)))
    snprintf(a->text, sizeof a->text,
             "the .onnx is larger than 2 GiB - 1 bytes, which other readers refuse: --external");
}

void inspect_advise(struct inspect *in) {
  advise_conv2matmul(in);
  if (in->m->n_files > 0) advise_convert(in);
}
