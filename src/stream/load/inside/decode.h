// Units of an ONNX file, decoded one at a time. What goes in is a unit's skeleton: its kept fields,
// with payloads and nested units left out. What comes out points into the skeleton's copies in
// `scratch`.
//
// All functions: false if the bytes do not decode (framing was checked before, so that is a packed
// list whose last number is cut).
#ifndef WEIR_DECODE_H
#define WEIR_DECODE_H

#include "arena.h"

struct decoded_node {
  struct span name, op_type, domain, overload;
  const struct span *in, *out;
  size_t n_in, n_out;
};

struct decoded_attr {
  struct span name, ref_name, s;
  int64_t i;
  float f;
  int32_t type;
  bool has_type, has_i, has_f, has_s;
  const int64_t *ints;
  const float *floats;
  const struct span *strings;
  size_t n_ints, n_floats, n_strings;
};

struct decoded_entry {
  struct span key, value;
};

struct decoded_tensor {
  struct span name;
  const int64_t *dims;
  size_t n_dims;
  int32_t data_type, data_location;
  bool has_segment;
  const struct decoded_entry *entries; // external_data
  size_t n_entries;
};

struct decoded_dim {
  bool has_value;
  int64_t value;
  struct span param;
};

struct decoded_info {
  struct span name;
  bool is_tensor, is_shaped;
  int32_t elem_type;
  const struct decoded_dim *dims;
  size_t n_dims;
};

struct decoded_function {
  struct span name, domain, overload;
  const struct span *in, *out;
  size_t n_in, n_out;
};

struct decoded_opset {
  struct span domain;
  int64_t version;
};

bool decode_ir_version(struct arena *scratch, struct span bytes, int64_t *version); // ModelProto
bool decode_graph_name(struct arena *scratch, struct span bytes, struct span *name);
bool decode_node(struct arena *scratch, struct span bytes, struct decoded_node *out);
bool decode_attr(struct arena *scratch, struct span bytes, struct decoded_attr *out);
bool decode_tensor(struct arena *scratch, struct span bytes, struct decoded_tensor *out);
bool decode_info(struct arena *scratch, struct span bytes, struct decoded_info *out);
bool decode_function(struct arena *scratch, struct span bytes, struct decoded_function *out);
bool decode_opset(struct arena *scratch, struct span bytes, struct decoded_opset *out);
bool decode_entry(struct arena *scratch, struct span bytes, struct decoded_entry *out);

#endif
