#!/usr/bin/env python3
"""Writes N rules of which none fires on the chain of bench/rules_bench.c: make_rules.py N > many.rules

Spread as in the catalogue of onnx-passes written in this language: some 90 root operators with a few rules each, patterns of one to
four nodes, conditions about constants, types and shapes; on a node of the chain about three rules get past the look at its operands,
match, and fail at what they ask. One template hangs at every elementwise operator and looks at all operands.
"""

import random
import sys

UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish LeakyRelu Log Mish Neg Not "
    "Reciprocal Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh ThresholdedRelu"
).split()
BINARY = "Add Sub Mul Div Max Min Pow Mod Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor PRelu MatMul".split()
OTHERS = ["Reshape(?,s)", "Transpose(?)", "Slice(?,b,e)", "Expand(?,s)", "Squeeze(?,s)", "Unsqueeze(?,s)", "Gather(?,s)", "Softmax(?)"]
OTHERS += [f"Reduce{r}(?,s)" for r in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()]
NEVER = ["rank(x) == 7", "dtype(x) == 8", "static(x) & dims(x)[0] == 12345", "consts(x) & float(x)", "float(x) & rank(o) > 9"]


def inner(rng, depth):
    """An operand that the chain does not have."""
    if depth == 1:
        return f"{rng.choice([u for u in UNARY if u not in ('Relu', 'Sigmoid')])}(x)"
    return f"{rng.choice(BINARY)}({inner(rng, depth - 1)},{rng.choice('xyz')})"


def pattern(rng, root, turn):
    deep = inner(rng, rng.choice([1, 1, 2, 3]))
    if root in UNARY:
        return (f"{root}(x)@o", rng.choice(NEVER)) if turn < 2 else (f"{root}({deep})@o", rng.choice(["vars(x)", "float(o)"]))
    if "?" in root:
        return (root.replace("?", "x") + "@o", rng.choice(NEVER)) if turn < 2 else (root.replace("?", deep) + "@o", "static(x)")
    if turn == 0:
        return f"{root}(x,{rng.choice([3, 5, 7])}.25)@o", "float(x)"
    if turn == 1:
        return f"{root}(x,y)@o", f"consts(y) & {rng.choice(NEVER)}"
    return f"{root}({deep},v)@o", rng.choice(["vars(x) & consts(v)", "consts(x) & ranked(o)", "float(o)"])


def main():
    rng = random.Random(7)
    print("# Made by make_rules.py.\nset many ;")
    print(f"many/t{{F}} for F in {' '.join(UNARY + BINARY[:-1])} exact :")
    print("  {F}<*f>(each ts: (Transpose<perm=p>(x) | c))@o -> fill(0,o) where fits(ts,rank(o)) & rank(o) == 7 ;")
    roots = UNARY + BINARY + OTHERS
    for number in range(int(sys.argv[1]) - len(UNARY + BINARY[:-1])):
        text, where = pattern(rng, roots[number % len(roots)], number // len(roots))
        print(f"many/r{number} exact : {text} -> expand(x,o) where {where} ;")


if __name__ == "__main__":
    main()
