"""The compiler of the table of operators says where a row is wrong, and what is wrong with it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "schema"))

import compile_schema  # noqa: E402

HEAD = "types small = float bool\ndomain ai.onnx 13\nOp: same | unary\n"
ROW = "   1 | X:T -> Y:T | axis:int=0 | T=small\n"


def load(folder, text):
    (folder / "t.ops").write_text(text)
    return compile_schema.load(folder)


def test_what_is_right(tmp_path):
    text = HEAD + ROW + '  13 | X:T axes:int64? -> Y:T~+2 |\n            - | T=small,seq[string] | deprecated; without axis -> inputs axis=axes\n'
    [op], domains = load(tmp_path, text)
    old, new = op.versions
    assert domains == {"": 13} and (op.rule, op.flags) == ("same", {"unary"})
    assert [each.default for each in old.attributes] == [0] and new.attributes == []
    assert new.variables == {"T": {"tensor": {"float", "bool"}, "seq": {"string"}}}
    assert (new.outputs[0].option, new.outputs[0].least, new.outputs[0].same) == ("variadic", 2, False)
    assert new.deprecated and (new.change, new.names, new.rewrite) == ("without", ["axis"], "inputs axis=axes")
    assert compile_schema.bounds(new.inputs) == (1, 2) and compile_schema.bounds(new.outputs) == (2, compile_schema.ANY)
    assert list(compile_schema.say_kit([op])) == ['KIT_OP(Op, ONNX, "Op", 1, 2, KIT_UNARY | KIT_ELEMENTWISE)']


WRONG = {
    "type": (ROW.replace("T=small", "T=smal"), "t.ops:4: 'smal' is neither a type nor a set of types"),
    "kind": (ROW.replace("T=small", "T=list[float]"), "'list' is no kind of type"),
    "variable": (ROW.replace("Y:T ", "Y:U "), "'U' is neither a type nor a set of types"),
    "input": (ROW.replace("X:T ", "X "), "'X' is no input or output"),
    "attribute that says a type": (ROW.replace("axis:int=0", "axis:float^"), "'axis:float^' is no attribute"),
    "arrow": (ROW.replace("->", ""), "inputs and outputs have an arrow between them"),
    "variadic": (ROW.replace("X:T ", "X:T+ Z:T "), "a variadic input or output is the last"),
    "columns": (ROW.replace("| T=small", ""), "a version has its number and three or four columns"),
    "attribute": (ROW.replace("axis:int", "axis:integer"), "'axis:integer=0' is no attribute"),
    "words": (ROW.replace("axis:int=0", "axes:ints~twos"), "'twos' is no default in words"),
    "attributes": (ROW.replace("axis", "b:int axis"), "attributes are in order of their names"),
    "default": (ROW.replace("axis:int=0", "axis:graph=0"), "an attribute of type graph has no default that could be written"),
    "number": (ROW.replace("int=0", "int=x"), "t.ops:4: invalid literal"),
    "change": (ROW.replace("small", "small | changes"), "'changes' is no change of an operator"),
    "rewrite": (ROW.replace("small", "small | changed -> magic"), "'magic' is no rewrite of a node"),
    "order": (ROW + ROW, "t.ops:5: versions are in order, and none is newer than its domain"),
    "too new": (ROW.replace("   1", "  14"), "versions are in order, and none is newer than its domain"),
    "ditto": (ROW.replace("axis:int=0", '"'), "t.ops:4"),
    "family": (ROW + "Other: sames\n", "t.ops:5: an operator begins with its name and its rule of inference"),
    "flag": (ROW + "Other: same | nary\n", "t.ops:5: no flag: nary"),
    "twice": (ROW + "Op: same\n" + ROW, "'Op' is there twice"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong(tmp_path, name):
    rows, message = WRONG[name]
    with pytest.raises(compile_schema.SchemaError) as e:
        load(tmp_path, HEAD + rows)
    assert message in str(e.value)
