// What the operators of onnx_passes.ops compute, written in operators of ONNX.
//
//   Swish since 15 <alpha=1.0> (x) -> y      from opset 15 of ai.onnx on; an attribute with a default
//   a = Constant<value_float=@alpha:float>()          a node; @: the function's attribute, of that type
//   s = Sigmoid(Mul…                                  operands are names, not nodes
//   y = Mul(x, s)
//
// An operand may be written as a number: 0 is an int64, [-1] a list of them, 0.5 a float, "CEIL" a text, 0.5:x the
// number in the type of x; 0.5d is a double. Lines between `graph NAME (inputs) -> outputs` and `end` are a graph, which a
// later node of the lines around takes as the attribute NAME=graph; inputs may have types (i:int64). A name is given once, in
// a function and its graphs. ops:: is the domain itself. custom_ops_functions.c reads it.
//
// Where the meaning of an operator is said by what first published it, in onnx-passes, it is kept to the order of
// operations, so that results have the same bits. Differences: what is computed has the type of x throughout; Ulp needs no
// loops, and is NaN of NaN.
#include "passes/custom_ops/inside/custom_ops_inside.h"

const char *const custom_ops_texts[] = {
    "Silu since 7 (x) -> y\n"
    "s = Sigmoid(x)\n"
    "y = Mul(x, s)\n",

    "Swish since 15 <alpha=1.0> (x) -> y\n"
    "a = Constant<value_float=@alpha:float>()\n"
    "al = CastLike(a, x)\n"
    "ax = Mul(al, x)\n"
    "s = Sigmoid(ax)\n"
    "y = Mul(x, s)\n",

    "MultiThreshold since 13 (x, thresholds, weights) -> y\n"
    "wide = Unsqueeze(x, [-1])\n"
    "reached = GreaterOrEqual(wide, thresholds)\n"
    "steps = Cast<to=1>(reached)\n"
    "weighted = Mul(weights, steps)\n"
    "y = ReduceSum<keepdims=0>(weighted, [-1])\n",

    "Im2Col since 9 (x, indices) -> y\n"
    "flat = Flatten(x)\n"
    "y = Gather<axis=1>(flat, indices)\n",

    "LayoutConverter since 7 <assumes, perm> (x) -> y\n"
    "y = Transpose<perm=@perm:ints>(x)\n",

    "ArgSort since 13 <axis=-1> (x) -> indices\n"
    "a = Constant<value_int=@axis:int>()\n"
    "at = Unsqueeze(a, [0])\n"
    "dims = Shape(x)\n"
    "k = Gather(dims, at)\n"
    "sorted, indices = TopK<axis=@axis:int, largest=0>(x, k)\n",

    "Any since 13 (x) -> y\n"
    "i = Cast<to=7>(x)\n"
    "a = Abs(i)\n"
    "most = ReduceMax<keepdims=0>(a)\n"
    "y = Greater(most, 0)\n",

    "Log2 since 15 (x) -> y\n"
    "a = Log(x)\n"
    "b = Log(2.0:x)\n"
    "y = Div(a, b)\n",

    // The power of two below |x|, put right where the logarithm was rounded across it; then as many bits lower
    // as the type has: 52, 23, 10 or 7.
    "Ulp since 15 (x) -> y\n"
    "size = Abs(x)\n"
    "infinite = Equal(size, inf:x)\n"
    "none = Equal(size, 0.0:x)\n"
    "odd = Or(infinite, none)\n"
    "a = Where(odd, 1.0:x, size)\n"
    "log = ops::Log2(a)\n"
    "e0 = Floor(log)\n"
    "p0 = Pow(2.0:x, e0)\n"
    "above = Greater(p0, a)\n"
    "down = Sub(e0, 1.0:x)\n"
    "e1 = Where(above, down, e0)\n"
    "up = Add(e1, 1.0:x)\n"
    "p1 = Pow(2.0:x, up)\n"
    "below = LessOrEqual(p1, a)\n"
    "e2 = Where(below, up, e1)\n"
    "double = Greater(1.0000000000000002d:x, 1.0:x)\n"
    "single = Greater(1.0000001192092896d:x, 1.0:x)\n"
    "half = Greater(1.0009765625d:x, 1.0:x)\n"
    "bits0 = Where(half, 10.0:x, 7.0:x)\n"
    "bits1 = Where(single, 23.0:x, bits0)\n"
    "bits = Where(double, 52.0:x, bits1)\n"
    "single_or_not = Xor(half, single)\n"
    "least0 = Where(single_or_not, -14.0:x, -126.0:x)\n"
    "least = Where(double, -1022.0:x, least0)\n"
    "e3 = Max(e2, least)\n"
    "e4 = Where(none, least, e3)\n"
    "e = Sub(e4, bits)\n"
    "ulp = Pow(2.0:x, e)\n"
    "y = Where(infinite, 0.0:x, ulp)\n",

    "Round since 19 <rounding_mode=\"ROUND\"> (x) -> y\n"
    "mode = Constant<value_string=@rounding_mode:string>()\n"
    "is_ceil = Equal(mode, \"CEIL\")\n"
    "is_floor = Equal(mode, \"FLOOR\")\n"
    "is_zero = Equal(mode, \"ROUND_TO_ZERO\")\n"
    "graph then_branch () -> a\n"
    "a = Ceil(x)\n"
    "end\n"
    "graph else_branch () -> b\n"
    "graph then_branch () -> c\n"
    "c = Floor(x)\n"
    "end\n"
    "graph else_branch () -> d\n"
    "graph then_branch () -> e\n"
    "sign = Sign(x)\n"
    "size = Abs(x)\n"
    "whole = Floor(size)\n"
    "e = Mul(sign, whole)\n"
    "end\n"
    "graph else_branch () -> f\n"
    "f = Round(x)\n"
    "end\n"
    "d = If<then_branch=graph, else_branch=graph>(is_zero)\n"
    "end\n"
    "b = If<then_branch=graph, else_branch=graph>(is_floor)\n"
    "end\n"
    "y = If<then_branch=graph, else_branch=graph>(is_ceil)\n",

    "Quant since 19 <signed, narrow, rounding_mode> (x, scale, zeropoint, bitwidth) -> y\n"
    "s0 = Constant<value_int=@signed:int>()\n"
    "n0 = Constant<value_int=@narrow:int>()\n"
    "s = CastLike(s0, x)\n"
    "n = CastLike(n0, x)\n"
    "b = CastLike(bitwidth, x)\n"
    "bits = Sub(b, s)\n"
    "p = Pow(2.0:x, bits)\n"
    "down = Neg(p)\n"
    "low = Add(down, n)\n"
    "min = Mul(low, s)\n"
    "high = Sub(p, 1.0:x)\n"
    "unsigned = Sub(1.0:x, s)\n"
    "narrower = Mul(n, unsigned)\n"
    "max = Sub(high, narrower)\n"
    "d = Div(x, scale)\n"
    "q = Add(d, zeropoint)\n"
    "one = Equal(b, 1.0:x)\n"
    "is_signed = Cast<to=9>(s0)\n"
    "is_bipolar = And(one, is_signed)\n"
    "positive = GreaterOrEqual(q, 0.0:x)\n"
    "bipolar = Where(positive, 1.0:x, -1.0:x)\n"
    "clipped = Clip(q, min, max)\n"
    "rounded = ops::Round<rounding_mode=@rounding_mode:string>(clipped)\n"
    "codes = Where(is_bipolar, bipolar, rounded)\n"
    "from_zero = Sub(codes, zeropoint)\n"
    "y = Mul(from_zero, scale)\n",

    // R. Iacono and J. P. Boyd 2017; where to begin: L. Loczi 2022.
    "LambertW since 15 <k=0, iterations=4, tolerance=1e-08> (x) -> y\n"
    "branch = Constant<value_int=@k:int>()\n"
    "trips = Constant<value_int=@iterations:int>()\n"
    "near0 = Constant<value_float=@tolerance:float>()\n"
    "near = CastLike(near0, x)\n"
    "principal = Equal(branch, 0)\n"
    "secondary = Equal(branch, -1)\n"
    "e = Exp(1.0:x)\n"
    "log = Log(x)\n"
    "loglog = Log(log)\n"
    "large = Sub(log, loglog)\n"
    "middle = Div(x, e)\n"
    "ex = Mul(e, x)\n"
    "ex1 = Add(1.0:x, ex)\n"
    "root = Sqrt(ex1)\n"
    "root1 = Add(1.0:x, root)\n"
    "logroot = Log(root1)\n"
    "top = Mul(ex, logroot)\n"
    "bottom = Add(ex1, root)\n"
    "small = Div(top, bottom)\n"
    "not_negative = LessOrEqual(0.0:x, x)\n"
    "beyond = Less(e, x)\n"
    "lower = Where(not_negative, middle, small)\n"
    "first = Where(beyond, large, lower)\n"
    "minus = Neg(x)\n"
    "logm = Log(minus)\n"
    "minuslog = Neg(logm)\n"
    "loglogm = Log(minuslog)\n"
    "right = Sub(logm, loglogm)\n"
    "two = Sqrt(2.0:x)\n"
    "tworoot = Mul(two, root)\n"
    "left = Sub(-1.0:x, tworoot)\n"
    "near_zero = Less(-0.25:x, x)\n"
    "second = Where(near_zero, right, left)\n"
    "other = Where(secondary, second, nan:x)\n"
    "w0 = Where(principal, first, other)\n"
    "graph body (i:int64, c:bool, w) -> c1, w1\n"
    "c1 = Identity(c)\n"
    "ww = Add(1.0:x, w)\n"
    "share = Div(w, ww)\n"
    "ratio = Div(x, w)\n"
    "logratio = Log(ratio)\n"
    "grown = Add(1.0:x, logratio)\n"
    "w1 = Mul(share, grown)\n"
    "end\n"
    "wn = Loop<body=graph>(trips, , w0)\n"
    "inverse = Reciprocal(e)\n"
    "apart = Add(x, inverse)\n"
    "size = Abs(apart)\n"
    "is_near = LessOrEqual(size, near)\n"
    "y = Where(is_near, -1.0:x, wn)\n",

    "InverseSwish since 15 <alpha=1.0, k=0, tolerance=1e-08> (x) -> y\n"
    "a0 = Constant<value_float=@alpha:float>()\n"
    "a = CastLike(a0, x)\n"
    "branch = Constant<value_int=@k:int>()\n"
    "principal = Equal(branch, 0)\n"
    "secondary = Equal(branch, -1)\n"
    "inverse = Reciprocal(a)\n"
    "minus = Neg(inverse)\n"
    "e = Exp(-1.0:x)\n"
    "we = ops::LambertW(e)\n"
    "we1 = Add(1.0:x, we)\n"
    "lowest = Mul(minus, we1)\n"
    "least = ops::Swish<alpha=@alpha:float>(lowest)\n"
    "ax = Mul(a, x)\n"
    "minus_a = Neg(a)\n"
    "minus_ax = Mul(minus_a, x)\n"
    "power = Exp(minus_ax)\n"
    "at = Mul(ax, power)\n"
    "w = ops::LambertW<k=@k:int, tolerance=@tolerance:float>(at)\n"
    "part = Mul(inverse, w)\n"
    "found = Add(x, part)\n"
    "has = GreaterOrEqual(x, least)\n"
    "infinite = GreaterOrEqual(x, inf:x)\n"
    "negative = Less(x, 0.0:x)\n"
    "upper = Where(infinite, inf:x, found)\n"
    "right = Where(has, upper, -inf:x)\n"
    "lower = Where(has, found, inf:x)\n"
    "left = Where(negative, lower, -inf:x)\n"
    "other = Where(secondary, left, nan:x)\n"
    "y = Where(principal, right, other)\n",

    "InverseSilu since 15 <k=0, tolerance=1e-08> (x) -> y\n"
    "y = ops::InverseSwish<alpha=1.0, k=@k:int, tolerance=@tolerance:float>(x)\n",
    NULL};
