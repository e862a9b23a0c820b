"""What judges shapes and optimized graphs must itself tell right from wrong: each judge is shown mistakes.

Shapes (`shape_oracle.py`): the numbers that ONNX's and ONNX Runtime's own inference get right on known exports, and programs
that write what is not so.
"""

import onnx
import pytest

import shape_oracle
from conftest import DATA

BERT = DATA / "exports" / "bert-eager-dynamo-20.onnx"
GPT2 = DATA / "exports" / "gpt2-eager-dynamo-20.onnx"


# ---- shapes


@pytest.mark.parametrize(
    "text, number",
    [
        ("t", 7),
        ("(t - 1)//2", 3),
        ("floor(floor(t/2 - 1/2)/2) + 1", 2),
        ("((((((t - 1)//4)) + 1 - 1)//2)) + 1", 1),
        ("Min(128, seq) + Max(t, 2*seq, 3)", 24),
        ("Mod(-t, 4) + -t % 4", 2),
        ("ceiling(t/2)**2 - trunc(-7, 2)", 19),
        ("exact(t*seq, t)", 8),
        ("p2o.DynamicDimension.0*2", 6),
        ("a strange name", 5),
    ],
)
def test_formulas(text, number):
    binding = {"t": 7, "seq": 8, "p2o.DynamicDimension.0": 3, "a strange name": 5}
    assert shape_oracle.evaluate(text, binding) == number


@pytest.mark.parametrize("text", ["u", "t.__class__", "print(t)", "t if t else 1", "[t]", "(" * 5000, "9**9**9", "'t'"])
def test_what_is_no_formula_is_not_evaluated(text):
    with pytest.raises(shape_oracle.NotEvaluated):
        shape_oracle.evaluate(text, {"t": 7})


@pytest.mark.parametrize(
    "path, program, values, right, fresh",
    [
        (DATA / "parakeet-dynamo" / "encoder-model.onnx", "onnx", 274, 82, 192),
        (DATA / "parakeet-torchscript" / "encoder-model.onnx", "sym", 646, 646, 0),
        (BERT, "sym-merge", 93, 93, 0),
        (GPT2, "onnx", 118, 42, 76),
    ],
    ids=lambda value: value.parent.name if hasattr(value, "parent") else str(value),
)
def test_what_other_inferences_know(path, program, values, right, fresh):
    report = shape_oracle.check(path, program)
    assert (report.error, report.wrong, report.dtype_wrong) == ("", [], [])
    assert (report.values, report.right, len(report.fresh)) == (values, right, fresh)
    assert report.dtype_right == values


def test_a_program_that_fails_is_reported():
    report = shape_oracle.check(BERT, "false IN OUT")
    assert "exit code 1" in report.error and report.right == 0
    assert "Incomplete" in shape_oracle.check(BERT, "sym").error


def after(change):
    """A program that infers rightly and then makes a mistake."""

    def program(source, out):
        shape_oracle.PROGRAMS["sym"](source, out)
        model = onnx.load(out)
        change(model.graph, {value.name: value.type.tensor_type for value in model.graph.value_info})
        onnx.save(model, out)

    return program


def one_dim(symbol, text):
    def change(graph, types):
        dims = [dim for each in types.values() for dim in each.shape.dim if dim.dim_param == symbol]
        dims[0].dim_param = text

    return change


def shorter(graph, types):
    next(each for each in types.values() if len(each.shape.dim) == 3).shape.dim.pop()


def number_for_symbol(graph, types):
    next(dim for each in types.values() for dim in each.shape.dim if dim.dim_param == "seq").dim_value = 5


def other_dtype(graph, types):
    next(each for each in types.values() if each.elem_type == onnx.TensorProto.FLOAT).elem_type = onnx.TensorProto.DOUBLE


def one_symbol_for_two(graph, types):
    for value in types.values():
        for dim in value.shape.dim:
            if dim.dim_param in ("batch", "seq"):
                dim.dim_param = "own"


def input_pinned(graph, types):
    graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5


@pytest.mark.parametrize(
    "change",
    [one_dim("seq", "batch"), one_dim("seq", "seq//2*2 + 1"), shorter, number_for_symbol, one_symbol_for_two, input_pinned],
)
def test_a_wrong_shape_is_named(change):
    report = shape_oracle.check(GPT2, after(change))
    assert report.wrong and not report.error


def test_a_wrong_dtype_is_named():
    assert len(shape_oracle.check(GPT2, after(other_dtype)).dtype_wrong) == 1


def test_what_is_not_written_is_not_known():
    def forget(graph, types):
        del graph.value_info[0]

    report = shape_oracle.check(GPT2, after(forget))
    assert len(report.unknown) == 1 and len(report.dtype_unknown) == 1 and not report.wrong
