// Models as a few readable lines, both ways. A line is one of
//
//   ir 8                                the IR version
//   opset 18      opset com.microsoft 1  imports; without a domain: of ai.onnx
//   metadata range:x = [0, 1]            an entry of the model's metadata
//   input x: float[1,C,T]               dims are numbers, names or ?; float[]: a scalar; float: of
//   output y: float[1,?,T]              unknown rank; no type at all: "output y"
//   info h: float[1,2,T]                a value that is declared in between
//   input x: float[2] range [0, null]   one whose metadata says a range
//   w = float[2,3] {1 2 3 4 5 6}        an initializer whose elements are at hand; of all equal ones:
//   b = float[64,64] fill 0             "fill"; elements of float16 and the like are bits: 0x3c00
//   big = float[4096,4096] large        one that stays in its data file: no pass can see it
//   v = float[512] kept fill 1          one that stays there, and is read where a pass asks for it
//   h = Relu(x)                         a node; - stands for a slot left out
//   mm: y, z = com.microsoft::Op<axis=1, alpha=0.5, perm=[0,2,1], mode="x", value=int64[2] {1 2}>(h, w)
//                                       the same with a name, a domain and attributes: int, float (has
//                                       a point), ints, floats, string, tensor
//   if: y = If<then_branch=graph>(c)    graphs lie below their node, two columns further in
//     graph then_branch
//       output r: float[2]
//       r = Relu(x)
//   function local::f(a, b) -> r        model-local; its lines further in
//     opset 17
//     r = Add(a, b)
//   function local::g<k, s=0.5>(a) -> r  one with attributes: of k there is no default
//     r = Elu<alpha=@s:float>(a)        the function's s
//   # what it shows                     to the end of the line, where it is the first thing there
//
// A node may stand before what makes its inputs. Without lines: IR version 8, opset 18.
// What passes have made is printed as "w_t = float[3,2] made {…}", with the recipe as the edit log
// writes it, where its elements are not at hand; that form is not read.
#ifndef WEIR_GRAPH_TEXT_H
#define WEIR_GRAPH_TEXT_H

#include "edit/edit.h"
#include "model_builder.h"

// The elements of a kept tensor; rows of a list, in the arena that reading was given.
struct graph_text_kept {
  uint32_t tensor;
  struct span elements;
  const struct graph_text_kept *next;
};

// Makes the model. -1 and ERR_USAGE with the number of the line that is not understood. *m is to be
// given to model_free in any case.
int graph_text_read(struct model *m, const char *text, const struct graph_text_kept **kept,
                    struct arena *a, struct err *err);
// All of the model that lives. The text lies in *a.
const char *graph_text_write(struct edits *e, struct arena *a);

#endif
