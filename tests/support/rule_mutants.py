#!/usr/bin/env python3
"""Rules of the house with a mistake in what they make: a book of them, for tests that must find every one.

    rule_mutants.py --schema FOLDER --functions rules_functions.def --name BOOK -o OUT.c FILE.rules...

Of every rule that promises more than `finite` one row is taken, and of its result at most three mutants: another operator, operands
in turned order, another number, a term left out. Each is a pass of its own, `mutant/0`, `mutant/1` …, as exact as the rule was. They are
checked as all rules are, but not for whether rewriting ends.
"""

import argparse
import dataclasses
import random
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "passes" / "rules"))
import compile_rules as compiler  # noqa: E402

MOST = 3  # of a rule
OTHERS = {
    **{"Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul", "Max": "Min", "Min": "Max", "Neg": "Abs", "Abs": "Neg", "Ceil": "Floor", "Floor": "Ceil"},
    **{"Round": "Neg", "And": "Or", "Or": "And", "Xor": "Or", "BitwiseAnd": "BitwiseOr", "BitwiseOr": "BitwiseAnd", "BitwiseXor": "BitwiseOr"},
    **{"Greater": "LessOrEqual", "GreaterOrEqual": "Less", "Less": "GreaterOrEqual", "LessOrEqual": "Greater", "Exp": "Neg", "Log": "Neg", "Sqrt": "Neg"},
    **{"Reciprocal": "Neg", "Relu": "Neg", "Sigmoid": "Neg", "Tanh": "Neg", "ReduceMax": "ReduceMin", "ReduceMin": "ReduceMax", "ReduceSum": "ReduceMax"},
}
NUMBERS = {"0": "1", "1": "2", "-1": "1", "inf": "-inf", "-inf": "inf", "true": "false", "false": "true", "ones": "0", "2": "3"}
TURNED = {"Sub", "Div", "MatMul", "Where", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Pow"}
TRUE, BITS = {"And", "Or", "Xor", "Not"} | {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}, {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"}


def filled(tree, row):
    """A tree with {X} put in everywhere."""
    if isinstance(tree, str):
        return compiler.fill(tree, row)
    if isinstance(tree, (tuple, list)):
        return type(tree)(filled(each, row) for each in tree)
    return {key: filled(each, row) for key, each in tree.items()} if isinstance(tree, dict) else tree


def changes(tree, even):
    """What the root of a tree may be instead. Of what is `even` along the axes all extremes are the same."""
    if tree[0] == "op":
        _, domain, op, attributes, star, args, out = tree
        if op in OTHERS and not domain and not (op.startswith("Reduce") and even & {t[1] for t in compiler.walk(args) if t[0] == "name"}):
            yield ("op", domain, OTHERS[op], attributes, star, args, out)
        if op in TURNED and len(args) > 1 and args[-1] != args[-2]:
            yield ("op", domain, op, attributes, star, [*args[:-2], args[-1], args[-2]], out)
    elif tree[0] == "call" and tree[1] in ("like", "fill") and str(tree[2][0][1]) in NUMBERS:
        number = NUMBERS[str(tree[2][0][1])]
        yield ("call", tree[1], [("num", int(number)) if number.lstrip("-").isdigit() else ("word", number), *tree[2][1:]])
    elif tree[0] == "call" and tree[1] == "compose" and tree[2][0] != tree[2][1]:
        yield ("call", tree[1], tree[2][::-1])
    elif tree[0] == "ifelse":
        yield ("ifelse", tree[1], tree[3], tree[2])


def mutated(tree, even):
    """Every tree that is this one but for one place."""
    yield from changes(tree, even)
    for i, part in enumerate(tree):
        if isinstance(part, tuple):
            yield from ((*tree[:i], each, *tree[i + 1 :]) for each in mutated(part, even))
        elif isinstance(part, list):
            for k, one in enumerate(part):
                if isinstance(one, tuple):
                    yield from ((*tree[:i], [*part[:k], each, *part[k + 1 :]], *tree[i + 1 :]) for each in mutated(one, even))


def beside(rule, tree):
    """The result, and then something: what has nothing to be changed has this."""
    root = rule.pattern[2]
    if root in TRUE | BITS:
        return ("op", "", "Not" if root in TRUE else "BitwiseNot", {}, None, [tree], None)
    first = rule.pattern
    while first[0] == "op":
        first = first[5][0]
    if first[0] != "var":
        return ("op", "", "Neg", {}, None, [tree], None)
    return ("op", "", "Add", {}, None, [tree, ("call", "like", [("num", 1), ("name", first[1])])], None)


def mutants(book):
    """(rule, row, the mutant): the same ones, in the same order, whenever it is asked."""
    made = []
    for rule in book.rules:
        if compiler.LEVELS[rule.level] == "finite":
            continue
        rng = random.Random(zlib.crc32(rule.text.encode()))
        row = rng.choice(rule.rows)
        one = dataclasses.replace(rule, rows=[{}], keys=[], summary="", pattern=filled(rule.pattern, row), where=filled(rule.where, row))
        result = filled(rule.result, row)
        even = {t[2][0][1] for t in compiler.walk(rule.where) if t[0] == "call" and t[1] == "even_along"}
        trees = list(mutated(result, even))
        for tree in rng.sample(trees, min(MOST, len(trees))) or [beside(one, result)]:
            made.append((rule, row, dataclasses.replace(one, names=[f"mutant/{len(made)}"], result=tree)))
    return made


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--schema", "--functions", "--name", "-o"):
        p.add_argument(name, required=True)
    p.add_argument("files", nargs="+")
    a = p.parse_args()
    schema = compiler.Schema(a.schema, a.functions)
    book, mutant_book = compiler.Book(), compiler.Book()
    for path in sorted(a.files):
        compiler.read(path, book)
    for _, _, mutant in mutants(book):
        try:
            compiler.check(mutant, schema)
        except compiler.RulesError as e:
            sys.exit(f"{mutant.file}:{mutant.line}: {mutant.names[0]}: {e.args[0]}")
        mutant_book.rules.append(mutant)
    writer = compiler.Writer(mutant_book, schema)
    writer.all()
    Path(a.o).write_text(writer.c(a.name, False))


if __name__ == "__main__":
    main()
