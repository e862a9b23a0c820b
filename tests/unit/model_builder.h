// Small models by hand, for tests: rows as load would make them, without a file.
//
//   struct build b;
//   build_begin(&b, &m);                                   // IR version 8, opset 18, a main graph
//   build_input(&b, "x", DTYPE_FLOAT, "1,C,T");
//   build_floats(&b, "w", "2,2,1", (float[]){1, 2, 3, 4}); // an initializer, its value at hand
//   uint32_t conv = build_node(&b, "Conv", "conv1", "x w", "y");
//   build_attr_ints(&b, conv, "pads", "0,0");
//   build_output(&b, "y", DTYPE_FLOAT, "1,2,T");
//   build_end(&b);
//
// Names are resolved as they come: an input that nothing made yet is a value of the graph without a
// producer, and a node or initializer made later becomes it. Lists of names are separated by
// blanks, '-' is a slot left out. Dims are numbers, names or '?', separated by commas; "" is a
// scalar, NULL an unknown shape (of declared values).
#ifndef WEIR_MODEL_BUILDER_H
#define WEIR_MODEL_BUILDER_H

#include "model/model.h"

struct build {
  struct model *m;
  uint32_t graph; // where new rows go
};

// Initializes *m too.
void build_begin(struct build *b, struct model *m);
// Counts what was "loaded": later ids are new. Sets the runs that emission walks.
void build_end(struct build *b);
void build_opset(struct build *b, const char *domain, int64_t version);
// Row 0 of the files is the .onnx; the first call makes it.
uint32_t build_file(struct build *b, const char *name, uint64_t size);

// Declared values of the current graph. dtype UNDEFINED: no type.
uint32_t build_input(struct build *b, const char *name, enum dtype dtype, const char *dims);
uint32_t build_output(struct build *b, const char *name, enum dtype dtype, const char *dims);
void build_value_info(struct build *b, const char *name, enum dtype dtype, const char *dims);

// Initializers of the current graph; give the tensor id. `bytes` holds the elements in RAW form.
uint32_t build_tensor(struct build *b, const char *name, enum dtype dtype, const char *dims,
                      const void *bytes);
uint32_t build_floats(struct build *b, const char *name, const char *dims, const float *x);
uint32_t build_ints(struct build *b, const char *name, const char *dims, const int64_t *x);
// Elements that stay in file `file` at `off`, RAW.
uint32_t build_extent(struct build *b, const char *name, enum dtype dtype, const char *dims,
                      uint32_t file, uint64_t off);

uint32_t build_node(struct build *b, const char *op_type, const char *name, const char *in,
                    const char *out);
void build_domain(struct build *b, uint32_t node, const char *domain);
// Attributes; give the row. A node's rows move when another attribute is added to it.
uint32_t build_attr_int(struct build *b, uint32_t node, const char *name, int64_t x);
uint32_t build_attr_float(struct build *b, uint32_t node, const char *name, float x);
uint32_t build_attr_string(struct build *b, uint32_t node, const char *name, const char *x);
uint32_t build_attr_ints(struct build *b, uint32_t node, const char *name, const char *list);
uint32_t build_attr_tensor(struct build *b, uint32_t node, const char *name, enum dtype dtype,
                           const char *dims, const void *bytes);
// A Constant node's value_float or value_ints, … as load leaves it: with a tensor made of it.
uint32_t build_constant_list(struct build *b, uint32_t node, const char *name, enum attr_type type,
                             enum dtype dtype, const char *dims, const void *bytes);

// What follows goes into a graph attribute of the node, or a function's body, until build_leave.
uint32_t build_enter(struct build *b, uint32_t node, const char *attr, const char *name);
uint32_t build_enter_function(struct build *b, const char *domain, const char *name,
                              const char *inputs, const char *outputs);
void build_leave(struct build *b);

// The value of that name as seen from the current graph; asserts that there is one.
uint32_t build_value(const struct build *b, const char *name);

// Everything that lives, as text, one row a line, ids and flags included: equal texts, equal
// models.
// The text belongs to the caller's arena.
const char *build_dump(const struct model *m, struct arena *a);
// The nodes of a graph in order, a line each: "Op(inputs)->first output"; with `names`
// "Op name(inputs)->first output". The text belongs to the caller's arena.
const char *build_nodes(const struct model *m, uint32_t graph, bool names, struct arena *a);
// Aborts, with a word, where an invariant of the tables is broken.
void build_check(const struct model *m);

#endif
