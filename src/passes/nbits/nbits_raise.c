// What the new nodes and types need of the model: com.microsoft for the operators of ONNX Runtime,
// opset 21 (2 bits: 25) for blockwise DequantizeLinear, an IR version that knows 4 and 2 bit types.
//
// The existing tool overwrites the opset's number, which makes models that no longer load, or mean
// something else; kit_raise looks at every node first, and stops the pass.
#include "passes/nbits/inside/nbits.h"

#include "passes/kit/weights.h"

enum {
  DEQUANTIZE_OPSET = 21, // blockwise, (u)int4 and (u)int8
  DEQUANTIZE_2_OPSET = 25,
  IR_4_BITS = 10, // also that of opset 21
  IR_2_BITS = 13, // also that of opset 25
};

int64_t matmulnbits_opset(const struct matmulnbits_options *o) {
  bool narrow = o->n_candidates == 0 && o->scheme.bits == 2;
  if (!o->qdq) return 0;
  for (uint32_t i = 0; i < o->n_candidates; i++)
    narrow = narrow || o->candidates[i].bits == 2;
  for (uint32_t i = 0; i < o->n_overrides; i++)
    narrow = narrow || (o->overrides[i].has_bits && o->overrides[i].scheme.bits == 2);
  return narrow ? DEQUANTIZE_2_OPSET : DEQUANTIZE_OPSET;
}

int nbits_raise(struct nbits_work *w, const struct nbits_site *sites, uint32_t n, struct err *err) {
  struct kit *k = &w->k;
  const bool qdq = w->options->qdq;
  int64_t opset = 0, ir = 0; // of ai.onnx; 0: as it is
  for (uint32_t i = 0; i < n; i++) {
    if (!sites[i].converts) continue;
    const bool narrow = sites[i].scheme.bits == 2;
    const bool typed = qdq || (sites[i].op == MATMULNBITS_GATHER && sites[i].scheme.bits == 4);
    const int64_t needs_opset = !qdq ? 0 : narrow ? DEQUANTIZE_2_OPSET : DEQUANTIZE_OPSET;
    const int64_t needs_ir = !typed ? WEIGHTS_FREE_IR : narrow ? IR_2_BITS : IR_4_BITS;
    if (opset < needs_opset) opset = needs_opset;
    if (ir < needs_ir) ir = needs_ir;
  }
  if (ir == 0) return 0;
  kit_site(k, NO_ID, "versions");
  if (!qdq) kit_import(k, k->m->main_graph, "com.microsoft", 1);
  for (uint32_t i = 0; i < n && !qdq; i++)
    if (sites[i].converts) kit_import(k, k->m->nodes[sites[i].node].graph, "com.microsoft", 1);
  static const char instead[] = "'weir quantize --opset auto' rewrites such nodes where it can; "
                                "--format qoperator works with any opset";
  if (opset && kit_raise(k, opset, instead, err)) return -1;
  kit_raise_ir(k, ir);
  return 0;
}
