#!/usr/bin/env python3
"""Whether the shapes that a program writes into a model are true: the runtime says what they are.

    shape_oracle.py [--json] --program 'build/plain/weir infer IN OUT' MODEL...
    shape_oracle.py --program onnx|sym|sym-merge MODEL...     onnx's inference (data_prop), ONNX Runtime's symbolic one

A copy of the model loses its value_info and the shapes of its outputs; the program gets it. Then ONNX Runtime, without
optimizations, runs the same copy with every value of the main graph as an output, at two bindings of the symbols of its
inputs, and every dim that the program wrote is evaluated at both. One number or formula that is not what the runtime gave is
wrong; it is named. A value is right if all its dims are.

    model ── strip ──▶ IN ── program ──▶ OUT     value -> [dims as written], dtype
                       └── runtime, bindings ──▶ value -> [numbers], dtype, twice

A symbol that no input has is the program's own: it stands for what it meets first, and must stand for that wherever else it
is. A value with such a symbol is counted apart ("fresh"): it may be right (NonZero) or a confession (MatMul).

Values are the outputs of the nodes of the main graph; of their bodies nothing is said. A value that the program's model does
not have any more (one that optimizes) is "gone" and counts as nothing; one that it has added is not looked at.
"""

import argparse
import ast
import dataclasses
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
from onnx import TensorProto, helper

RuntimeException = (ort_errors.Fail, ort_errors.InvalidArgument, ort_errors.InvalidGraph, ort_errors.RuntimeException,
                    ort_errors.NotImplemented)  # fmt: skip
OUTPUTS_AT_ONCE = 256


# ---- formulas


class NotEvaluated(Exception):
    """A formula has a symbol without a number, or something that is no formula."""


def _floor(x):
    return Fraction(math.floor(x))


def _truncated(x, y=1):
    return Fraction(int(Fraction(x) / y))


def _exact(x, y):
    if x % y:
        raise ZeroDivisionError(f"{y} does not divide {x}")
    return Fraction(x) / y


def _power(x, y):
    if y.denominator != 1 or abs(y) > 64 or abs(x) > 1 << 40:
        raise NotEvaluated("a large power")
    return Fraction(x) ** int(y)


def _round(x):
    return Fraction(round(x))  # half to even, as Round


FUNCTIONS = {
    "floor": _floor,
    "ceiling": lambda x: -_floor(-x),
    "ceil": lambda x: -_floor(-x),
    "trunc": _truncated,
    "truncate": _truncated,
    "Abs": abs,
    "abs": abs,
    "round": _round,
    "Max": max,
    "max": max,
    "Min": min,
    "min": min,
    "Mod": lambda x, y: x - y * _floor(x / y),
    "FloorDiv": lambda x, y: _floor(x / y),
    "CeilDiv": lambda x, y: -_floor(-(x / y)),
    "exact": _exact,
}
OPERATORS = {
    ast.Add: lambda x, y: x + y,
    ast.Sub: lambda x, y: x - y,
    ast.Mult: lambda x, y: x * y,
    ast.Div: lambda x, y: x / y,
    ast.FloorDiv: lambda x, y: _floor(x / y),
    ast.Mod: lambda x, y: x - y * _floor(x / y),
    ast.Pow: _power,
}


def _value(node, numbers):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return Fraction(node.value)
    if isinstance(node, ast.Name):
        return numbers(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        operand = _value(node.operand, numbers)
        return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left, numbers), _value(node.right, numbers))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords:
        return FUNCTIONS[node.func.id](*(_value(each, numbers) for each in node.args))
    raise NotEvaluated("no formula")


SYMBOL = re.compile(r"[A-Za-z_][\w.:$]*(?![\w.:$]|\s*\()")  # a name that no parenthesis follows
LONGEST = 20000


def evaluate(text, binding):
    """The number that a formula has: a Fraction. Raises NotEvaluated, or ZeroDivisionError."""
    if text in binding:
        return Fraction(binding[text])
    if len(text) > LONGEST:
        raise NotEvaluated("a long formula")
    names = {}

    def plain(match):
        return names.setdefault(match.group(), f"symbol{len(names)}")

    spelled = SYMBOL.sub(lambda match: plain(match) if match.group() not in FUNCTIONS else match.group(), text)
    back = {new: name for name, new in names.items()}

    def number(name):
        if name not in back or back[name] not in binding:
            raise NotEvaluated(f"no number for {back.get(name, name)}")
        return Fraction(binding[back[name]])

    try:
        tree = ast.parse(spelled.strip(), mode="eval")
        return _value(tree.body, number)
    except (SyntaxError, RecursionError, MemoryError, ValueError, TypeError) as error:
        raise NotEvaluated(str(error)) from error


def is_symbol(text):
    """Whether a dim_param is one symbol and no formula of several."""
    return not re.search(r"[-+*/%()]|\bM(ax|in|od)\b", text)


# ---- what is declared


def dims_of(type_proto):
    """Dims as they are written: a number, a text, or None; None alone if there is no shape."""
    tensor = type_proto.tensor_type
    if type_proto.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
        return None
    dims = []
    for dim in tensor.shape.dim:
        kind = dim.WhichOneof("value")
        if kind == "dim_value" and dim.dim_value >= 0:
            dims.append(dim.dim_value)
        elif kind == "dim_param" and dim.dim_param not in ("", "?"):
            dims.append(dim.dim_param)
        else:
            dims.append(None)
    return dims


def inputs_of(model):
    """The inputs that somebody must give."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def values_of(model):
    """Outputs of the main graph's nodes, in order."""
    return [name for node in model.graph.node for name in node.output if name]


def _forget_shapes(graph):
    del graph.value_info[:]
    for output in graph.output:
        output.type.tensor_type.ClearField("shape") if output.type.HasField("tensor_type") else None
    for node in graph.node:
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
                _forget_shapes(body)


def strip(source, folder):
    """A copy of a model without what is known of its values, with its data files beside it. Gives its path."""
    source, folder = Path(source), Path(folder)
    model = onnx.load(source, load_external_data=False)
    _forget_shapes(model.graph)
    for tensor in onnx.external_data_helper._get_all_tensors(model):
        for entry in tensor.external_data:
            there = folder / entry.value
            if entry.key == "location" and not there.exists():
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source.parent / entry.value, there)
    onnx.save(model, folder / "stripped.onnx")
    return folder / "stripped.onnx"


# ---- bindings and inputs

# Bindings for models that do not run at any: part of the file's name -> two of them. An anonymous dim is "input:axis".
SIZES = {
    "PP-OCRv6_det": [
        {"DynamicDimension.0": 1, "DynamicDimension.1": 64, "DynamicDimension.2": 96},
        {"DynamicDimension.0": 2, "DynamicDimension.1": 96, "DynamicDimension.2": 32},
    ],
    "PP-OCRv6_rec": [
        {"DynamicDimension.0": 1, "DynamicDimension.1": 96},
        {"DynamicDimension.0": 2, "DynamicDimension.1": 160},
    ],
    "ppocr_mobile_v2.0_cls": [{"x:0": 1, "x:2": 48, "x:3": 192}, {"x:0": 2, "x:2": 48, "x:3": 96}],
    "silero_vad.onnx": [{"input:0": 1, "input:1": 576, "state:1": 1}, {"input:0": 3, "input:1": 576, "state:1": 3}],
    "silero_vad_16k_sequence": [{"sequence_length": 2}, {"sequence_length": 5}],
    "silero_vad": [{"batch": 1, "sequence": 576}, {"batch": 3, "sequence": 576}],
    "parakeet": [{"batch": 2, "t": 40}, {"batch": 3, "t": 77}],
    "vit-": [{"batch": 2}, {"batch": 3}],
    "cnn-": [{"batch": 2, "height": 21, "width": 30}, {"batch": 3, "height": 28, "width": 17}],
}
# What a number must be, by the input's name: these are no indices.
NUMBERS = {"sr": 16000}


def symbols_of(model):
    """The symbols of a model's inputs; anonymous dims as "input:axis"."""
    found = {}
    for value in inputs_of(model):
        for axis, dim in enumerate(dims_of(value.type) or []):
            if dim is None or isinstance(dim, str) and is_symbol(dim):
                found[dim or f"{value.name}:{axis}"] = None
    return list(found)


def bindings_for(path, model=None):
    """Two bindings of a model's symbols: from the table, else different numbers, the first of each kind small."""
    for part, sizes in SIZES.items():
        if part in str(path):
            return sizes
    symbols = symbols_of(model or onnx.load(path, load_external_data=False))
    # Coprime to each other, so that a dim that is right by chance at one binding is wrong at the other.
    first, second = [2, 5, 7, 11, 13, 17, 19, 23], [3, 8, 11, 14, 17, 23, 25, 29]
    return [{name: sizes[n % len(sizes)] for n, name in enumerate(symbols)} for sizes in (first, second)]


def _filled(name, dtype, dims, numbers):
    if name in NUMBERS:
        return np.full(dims, NUMBERS[name], dtype)
    if dtype == np.bool_:
        return np.ones(dims, bool)
    if np.issubdtype(dtype, np.floating):
        return numbers.standard_normal(dims).astype(dtype)
    if "type" in name:
        return numbers.integers(0, 2, dims).astype(dtype)
    if "mask" in name:
        return np.ones(dims, dtype)
    if "len" in name:
        return np.full(dims, dims[-1] if dims else 1, dtype)
    if "position" in name and dims:
        return np.broadcast_to(np.arange(dims[-1], dtype=dtype), dims).copy()
    return numbers.integers(0, 5, dims).astype(dtype)


def inputs_at(model, binding, seed=0):
    """Inputs at a binding, by the declared types."""
    numbers = np.random.Generator(np.random.PCG64(seed))
    given = {}
    for value in inputs_of(model):
        dims = []
        for axis, dim in enumerate(dims_of(value.type) or []):
            if isinstance(dim, int):
                dims.append(dim)
            elif dim is None:
                dims.append(binding[f"{value.name}:{axis}"])
            else:
                dims.append(int(evaluate(dim, binding)))
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        given[value.name] = _filled(value.name, np.dtype(dtype), dims, numbers)
    return given


# ---- the truth


def _session(path, outputs):
    """The model with these values as outputs, in a session that changes nothing."""
    model = onnx.load(path, load_external_data=False)
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    beside = Path(path).with_name("all-values.onnx")
    onnx.save(model, beside)
    return ort.InferenceSession(beside, options, providers=["CPUExecutionProvider"])


def run(path, bindings):
    """value -> (dtype, dims at each binding), for the tensors of the main graph; dims None: it is no tensor."""
    model = onnx.load(path, load_external_data=False)
    names, found = values_of(model), {}
    given = [inputs_at(model, binding) for binding in bindings]
    for start in range(0, len(names), OUTPUTS_AT_ONCE):
        part = names[start : start + OUTPUTS_AT_ONCE]
        session = _session(path, part)
        for inputs in given:
            for name, value in zip(part, session.run_with_ort_values(part, _ort_values(inputs))):
                tensor = value.is_tensor()
                dtype, all_dims = found.setdefault(name, (value.element_type() if tensor else None, []))
                all_dims.append(list(value.shape()) if tensor else None)
    return found


def _ort_values(inputs):
    return {name: ort.OrtValue.ortvalue_from_numpy(value) for name, value in inputs.items()}


# ---- programs


def _onnx(source, out):
    onnx.shape_inference.infer_shapes_path(os.fspath(source), os.fspath(out), data_prop=True)


def _symbolic(auto_merge):
    def infer(source, out):
        from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

        model, here = onnx.load(source), os.getcwd()
        os.chdir(Path(out).parent)  # where it fails it leaves a model in the working directory
        try:
            onnx.save(SymbolicShapeInference.infer_shapes(model, auto_merge=auto_merge, verbose=0), out)
        finally:
            os.chdir(here)

    return infer


PROGRAMS = {"onnx": _onnx, "sym": _symbolic(False), "sym-merge": _symbolic(True)}


class ProgramFailed(Exception):
    """What the program said."""


class DoesNotRun(Exception):
    """The runtime refuses the model, or the inputs at these bindings: the table wants a row."""


def _call(program, source, out):
    """A program is a name of PROGRAMS, a function of two paths, or a command line with the words IN and OUT."""
    program = PROGRAMS.get(program, program) if isinstance(program, str) else program
    if not isinstance(program, (str, list, tuple)):
        try:
            program(source, out)
        except Exception as error:
            raise ProgramFailed(f"{type(error).__name__}: {error}".splitlines()[0]) from error
        return
    words = shlex.split(program) if isinstance(program, str) else program
    words = [{"IN": os.fspath(source), "OUT": os.fspath(out)}.get(word, os.fspath(word)) for word in words]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[0]
        raise ProgramFailed(f"exit code {done.returncode}: {said}")


# ---- the judgement


@dataclasses.dataclass
class Report:
    model: str
    values: int = 0
    right: int = 0
    fresh: list = dataclasses.field(default_factory=list)  # right as far as can be said, with symbols of the program's own
    wrong: list = dataclasses.field(default_factory=list)  # a line each
    unknown: list = dataclasses.field(default_factory=list)
    gone: list = dataclasses.field(default_factory=list)
    no_tensor: list = dataclasses.field(default_factory=list)
    dtype_right: int = 0
    dtype_wrong: list = dataclasses.field(default_factory=list)
    dtype_unknown: list = dataclasses.field(default_factory=list)
    error: str = ""

    def line(self):
        if self.error:
            return f"{self.model}: {self.values} values; failed: {self.error}"
        dtypes = f"dtypes {self.dtype_right} right, {len(self.dtype_wrong)} wrong, {len(self.dtype_unknown)} not known"
        return (
            f"{self.model}: {self.values} values, {self.right} right, {len(self.fresh)} with symbols of its own, "
            f"{len(self.wrong)} wrong, {len(self.unknown)} not known, {len(self.gone)} gone; {dtypes}"
        )


class _Judge:
    """One model's bindings, with what the program's own symbols have come to stand for."""

    def __init__(self, bindings):
        self.bindings, self.own = [dict(each) for each in bindings], set()

    def learn(self, model, given):
        """Bind names that the program gave to anonymous dims of inputs; say which dims of inputs it got wrong."""
        for value in inputs_of(model):
            actual = [each[value.name].shape for each in given] if value.name in given[0] else []
            for axis, dim in enumerate(dims_of(value.type) or [] if actual else []):
                for binding, dims in zip(self.bindings, actual):
                    if isinstance(dim, str) and is_symbol(dim):
                        binding.setdefault(dim, dims[axis])

    def dim(self, written, truth):
        """(verdict, what it is at the bindings); `truth` has a number for each."""
        if written is None:
            return "unknown", None
        if isinstance(written, int):
            return ("right" if all(written == each for each in truth) else "wrong"), [written] * len(truth)
        if is_symbol(written) and any(written not in binding for binding in self.bindings):
            for binding, number in zip(self.bindings, truth):
                binding[written] = number
            self.own.add(written)
        try:
            got = [evaluate(written, binding) for binding in self.bindings]
        except NotEvaluated:
            return "unknown", None
        except ZeroDivisionError as error:
            return "wrong", [str(error)]
        same = all(number == each for number, each in zip(got, truth))
        own = any(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", written) for name in self.own)
        return ("fresh" if own else "right") if same else "wrong", [str(number) for number in got]

    def value(self, dims, truths):
        """(verdict, text)"""
        if dims is None:
            return "unknown", "no shape"
        if any(len(dims) != len(truth) for truth in truths):
            return "wrong", f"{dims}, but the rank is {len(truths[0])}"
        verdicts = [self.dim(dim, [truth[axis] for truth in truths]) for axis, dim in enumerate(dims)]
        for verdict in ("wrong", "unknown", "fresh"):
            for axis, (each, got) in enumerate(verdicts):
                if each == verdict:
                    truth = [truth[axis] for truth in truths]
                    return verdict, f"dim {axis} is {dims[axis]!r}" + (f" = {got}, not {truth}" if got else "")
        return "right", ""


def declarations(model):
    """Types by name. What was a Constant node's may be an initializer now, which says its own."""
    own = {each.name: helper.make_tensor_type_proto(each.data_type, each.dims) for each in model.graph.initializer}
    return own | {value.name: value.type for value in [*model.graph.value_info, *model.graph.output]}


def check(path, program, bindings=None):
    """A Report on what a program says of a model's values. The model must run at the bindings."""
    path = Path(path)
    model = onnx.load(path, load_external_data=False)
    bindings = bindings or bindings_for(path.resolve(), model)
    report = Report(model=path.name, values=len(values_of(model)))
    with tempfile.TemporaryDirectory() as folder:
        stripped = strip(path, folder)
        out = Path(folder) / "out.onnx"
        try:
            _call(program, stripped, out)
            if not out.exists():
                raise ProgramFailed("it wrote nothing")
        except ProgramFailed as error:
            report.error = f"the program: {error}"
            return report
        written = onnx.load(out, load_external_data=False)
        try:
            truth = run(stripped, bindings)
        except RuntimeException as error:
            raise DoesNotRun(f"{path.name} at {bindings}: {error}") from error
    judge = _Judge(bindings)
    judge.learn(written, [inputs_at(model, binding) for binding in bindings])
    _judge_inputs(report, judge, written, [inputs_at(model, binding) for binding in bindings])
    _judge_values(report, judge, written, truth)
    return report


def _judge_inputs(report, judge, written, given):
    """An input that the program declares otherwise than it may be is wrong too."""
    for value in inputs_of(written):
        if value.name in given[0] and (dims := dims_of(value.type)) is not None:
            verdict, text = judge.value(dims, [list(each[value.name].shape) for each in given])
            if verdict == "wrong":
                report.wrong.append(f"input {value.name}: {text}")


def _judge_values(report, judge, written, truth):
    declared, there = declarations(written), {*values_of(written), *(each.name for each in written.graph.initializer)}
    for name, (dtype, truths) in truth.items():
        if name not in there:
            report.gone.append(name)
            continue
        if dtype is None:
            report.no_tensor.append(name)
            continue
        type_proto = declared.get(name, onnx.TypeProto())
        verdict, text = judge.value(dims_of(type_proto), truths)
        if verdict == "right":
            report.right += 1
        else:
            getattr(report, verdict).append(f"{name}: {text}")
        got = type_proto.tensor_type.elem_type
        if got == TensorProto.UNDEFINED:
            report.dtype_unknown.append(name)
        elif got == dtype:
            report.dtype_right += 1
        else:
            report.dtype_wrong.append(f"{name}: {TensorProto.DataType.Name(got)}, not {TensorProto.DataType.Name(dtype)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--program", required=True, help="onnx, sym, sym-merge, or a command with the words IN and OUT")
    parser.add_argument("--bind", action="append", help="NAME=NUMBER,...: a binding instead of the table's (twice)")
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    pairs = [[pair.rsplit("=", 1) for pair in text.split(",")] for text in words.bind or []]
    bindings = [{name: int(number) for name, number in each} for each in pairs]
    reports = []
    for path in words.models:
        try:
            reports.append(check(path, words.program, bindings or None))
        except DoesNotRun as error:
            reports.append(Report(model=Path(path).name, error=f"it does not run: {error}"))
    if words.json:
        print(json.dumps([dataclasses.asdict(report) for report in reports], indent=2))
    else:
        for report in reports:
            print(report.line())
            for kind in ("wrong", "unknown", "dtype_wrong"):
                for line in getattr(report, kind):
                    print(f"  {kind.replace('_', ' ')}: {line}")
    return 1 if any(report.wrong or report.dtype_wrong or report.error for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
