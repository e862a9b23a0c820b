// What the new nodes and types need of the model: com.microsoft for the operators of ONNX Runtime,
// opset 21 (2 bits: 25) for blockwise DequantizeLinear, an IR version that knows 4 and 2 bit types.
//
// The existing tool overwrites the opset's number, which makes models that no longer load, or mean
// something else; kit_raise looks at every node first, and stops the pass.
#include "nbits.h"

#include "weights.h"

enum {
  DEQUANTIZE_OPSET = 21, // blockwise, (u)int4 and (u)int8
  DEQUANTIZE_2_OPSET = 25,
  IR_4_BITS = 10, // also that of opset 21
  IR_2_BITS = 13, // also that of opset 25
};

struct needs {
  int64_t opset, ir; // of ai.onnx; 0: as it is
};

static void need(int64_t *what, int64_t version) {
  if (*what < version) *what = version;
}

static void add_needs(const struct matmulnbits_options *o, const struct nbits_site *s,
                      struct needs *n) {
  const uint32_t bits = s->scheme.bits;
  need(&n->ir, WEIGHTS_FREE_IR);
  if (!o->qdq && s->op == MATMULNBITS_GATHER && bits == 4) need(&n->ir, IR_4_BITS);
  if (!o->qdq) return;
  need(&n->opset, bits == 2 ? DEQUANTIZE_2_OPSET : DEQUANTIZE_OPSET);
  need(&n->ir, bits == 2 ? IR_2_BITS : IR_4_BITS);
}

int nbits_raise(struct nbits_work *w, const struct nbits_site *sites, uint32_t n, struct err *err) {
  struct kit *k = &w->k;
  struct needs needs = {0};
  for (uint32_t i = 0; i < n; i++)
    if (sites[i].converts) add_needs(w->options, &sites[i], &needs);
  if (needs.ir == 0) return 0;
  kit_site(k, NO_ID, "versions");
  if (!w->options->qdq) kit_import(k, k->m->main_graph, "com.microsoft", 1);
  for (uint32_t i = 0; i < n && !w->options->qdq; i++)
    if (sites[i].converts) kit_import(k, k->m->nodes[sites[i].node].graph, "com.microsoft", 1);
  if (needs.opset && kit_raise(k, needs.opset, "--format qoperator works with any opset", err))
    return -1;
  kit_raise_ir(k, needs.ir);
  return 0;
}
