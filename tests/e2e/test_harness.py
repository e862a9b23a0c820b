"""What judges shapes and optimized graphs must itself tell right from wrong: each judge is shown mistakes.

Shapes (`shape_oracle.py`): the numbers that ONNX's and ONNX Runtime's own inference get right on known exports, and programs
that write what is not so. Graphs (`random_graphs.py`): small rewrites done here by hand, once as they must be done and once
without asking for what they must ask.
"""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import optimized_graphs
import random_graphs
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
        (DATA / "exports" / "gpt2-eager-torchscript-17.onnx", "sym", 485, 482, 3),
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


# ---- optimized graphs


class Rewriting:
    """A copy of a model to rewrite by hand: who makes a value, who takes it, what is constant."""

    def __init__(self, model):
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.graph, self.fired, self.made = self.model.graph, 0, 0
        self.look()

    def look(self):
        given = {value.name for value in self.graph.input}
        self.maker = {name: node for node in self.graph.node for name in node.output if name}
        self.constants = {each.name: numpy_helper.to_array(each) for each in self.graph.initializer if each.name not in given}
        for node in self.graph.node:
            if node.op_type == "Constant":
                value = helper.get_attribute_value(node.attribute[0])
                kind = np.float32 if "float" in node.attribute[0].name else np.int64
                tensor = node.attribute[0].name == "value"
                self.constants[node.output[0]] = numpy_helper.to_array(value) if tensor else np.array(value, kind)
        self.uses = Counter(name for name in names_taken(self.graph))

    def all(self, *op_types):
        return [node for node in self.graph.node if node.op_type in op_types]

    def only_use(self, name):
        return self.uses[name] == 1 and name in self.maker

    def put(self, array):
        self.made += 1
        self.graph.initializer.append(numpy_helper.from_array(array, f"made_{self.made}"))
        return f"made_{self.made}"

    def bypass(self, node, name):
        """The node's value is another one's: its output gets an Identity."""
        place = list(self.graph.node).index(node)
        output = node.output[0]
        del self.graph.node[place]
        self.graph.node.insert(place, helper.make_node("Identity", [name], [output]))
        self.fired += 1
        self.look()


def names_taken(graph):
    yield from (value.name for value in graph.output)
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from names_taken(attribute.g)


def attribute(node, name, default):
    return next((helper.get_attribute_value(each) for each in node.attribute if each.name == name), default)


def set_attribute(node, name, value):
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def fold_pads(r, takers=("Conv",), average="asked"):
    """Pad of zeros into the window behind it."""
    for node in r.all("Conv", "MaxPool", "AveragePool"):
        pad = r.maker.get(node.input[0])
        if not pad or pad.op_type != "Pad" or not r.only_use(node.input[0]):
            continue
        if attribute(node, "auto_pad", b"NOTSET") != b"NOTSET":
            continue
        included = average == "never asked" or attribute(node, "count_include_pad", 0) and not attribute(node, "ceil_mode", 0)
        if node.op_type not in takers and not (node.op_type == "AveragePool" and included):
            continue
        if attribute(pad, "mode", b"constant") != b"constant" or len(pad.input) > 3 or pad.input[1] not in r.constants:
            continue
        if len(pad.input) > 2 and (pad.input[2] not in r.constants or r.constants[pad.input[2]].item() != 0):
            continue
        pads = r.constants[pad.input[1]]
        rank = len(pads) // 2
        if (pads < 0).any() or pads[:2].any() or pads[rank : rank + 2].any():
            continue
        own = np.array(attribute(node, "pads", [0] * 2 * (rank - 2)))
        together = own + np.concatenate([pads[2:rank], pads[rank + 2 :]])
        if node.op_type != "Conv" and (together >= np.array(attribute(node, "kernel_shape", []) * 2)).any():
            continue
        set_attribute(node, "pads", together.tolist())
        node.input[0] = pad.input[0]
        r.fired += 1
        r.look()


def fold_norms(r, ask_axis=True, ask_gemm=True, epsilon=None):
    """BatchNormalization into the weight of MatMul or Gemm."""
    ranks = {}
    for value in onnx.shape_inference.infer_shapes(r.model).graph.value_info:
        ranks[value.name] = len(value.type.tensor_type.shape.dim) if value.type.tensor_type.HasField("shape") else None
    for node in r.all("BatchNormalization"):
        before = r.maker.get(node.input[0])
        if not before or before.op_type not in ("MatMul", "Gemm") or attribute(node, "training_mode", 0):
            continue
        if not r.only_use(node.input[0]) or any(name not in r.constants for name in [before.input[1], *node.input[1:]]):
            continue
        w, (gain, bias, mean, var) = r.constants[before.input[1]], (r.constants[name] for name in node.input[1:])
        flipped = before.op_type == "Gemm" and attribute(before, "transB", 0)
        if w.ndim != 2 or w.shape[0 if flipped else 1] != len(gain):
            continue
        if ask_axis and ranks.get(node.input[0]) != 2:
            continue
        scale = gain / np.sqrt(var + np.float32(epsilon or attribute(node, "epsilon", 1e-5)))
        shift = -mean
        if before.op_type == "Gemm":
            if ask_gemm and (attribute(before, "alpha", 1.0), attribute(before, "beta", 1.0)) != (1.0, 1.0):
                continue
            if len(before.input) > 2:
                b = r.constants.get(before.input[2])
                if b is None or b.shape != gain.shape:
                    continue
                shift = b - mean
        product = before.output[0] + "_folded"
        weight = r.put((w * (scale[:, None] if flipped else scale)).astype(np.float32))
        inputs = [before.input[0], weight]
        place = list(r.graph.node).index(node)
        multiply = helper.make_node(before.op_type, inputs, [product], **({"transB": 1} if flipped else {}))
        add = helper.make_node("Add", [product, r.put(shift * scale + bias)], [node.output[0]])
        del r.graph.node[place]
        r.graph.node.insert(place, add)
        r.graph.node.insert(place, multiply)
        r.fired += 1
        r.look()


NOISE = ("RandomNormalLike", "RandomUniformLike", "RandomNormal", "Multinomial", "Bernoulli", "Dropout")


def merge(r, noise=False, attributes=True):
    """One of equal nodes."""
    seen = {}
    for node in list(r.graph.node):
        if node.op_type in ("Constant", "If", "Loop") or len(node.output) > 1 or node.op_type in NOISE and not noise:
            continue
        known = [r.constants.get(name) for name in node.input]
        inputs = [name if array is None else (array.shape, array.tobytes()) for name, array in zip(node.input, known)]
        told = sorted(each.SerializeToString() for each in node.attribute) if attributes else []
        first = seen.setdefault(str((node.domain, node.op_type, inputs, told)), node)
        if first is not node:
            r.bypass(node, first.output[0])


def drop_nothings(r, plus_zero=False, larger=False):
    """x * 1, x / 1, x - 0; x + 0 makes of -0 a 0, and a constant of more dims makes more of x."""
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in r.graph.input}
    for node in r.all("Mul", "Div", "Sub", *(["Add"] if plus_zero else [])):
        places = (0, 1) if node.op_type in ("Mul", "Add") else (1,)
        for place in places:
            constant = r.constants.get(node.input[place])
            rank = ranks.get(node.input[1 - place])
            if constant is None or constant.dtype != np.float32 or rank is None:
                continue
            if not np.all(constant == (1 if node.op_type in ("Mul", "Div") else 0)):
                continue
            if not larger and (constant.size != 1 or constant.ndim > rank):
                continue
            r.bypass(node, node.input[1 - place])
            break


def merge_casts(r, any_first=False):
    """Cast of Cast, if the first loses nothing."""
    wide = (onnx.TensorProto.DOUBLE,)
    for node in r.all("Cast"):
        before = r.maker.get(node.input[0])
        if before and before.op_type == "Cast" and (any_first or attribute(before, "to", 0) in wide):
            node.input[0] = before.input[0]
            r.fired += 1
            r.look()


def forget_overrides(r):
    """Initializers that a caller may override as if they were constants."""
    names = {each.name for each in r.graph.initializer}
    kept = [value for value in r.graph.input if value.name not in names]
    r.fired += len(r.graph.input) - len(kept)
    del r.graph.input[:]
    r.graph.input.extend(kept)


def believe_overrides(r):
    """The same, but nobody can tell by the inputs: what uses them uses copies."""
    given = {value.name for value in r.graph.input}
    for each in list(r.graph.initializer):
        if each.name in given and each.data_type == onnx.TensorProto.FLOAT:
            copy = r.put(numpy_helper.to_array(each))
            for node in r.graph.node:
                for place, name in enumerate(node.input):
                    if name == each.name:
                        node.input[place] = copy
                        r.fired += 1


def bake_noise(r):
    for node in r.all("RandomNormal"):
        dims = attribute(node, "shape", [])
        r.bypass(node, r.put(np.linspace(-1, 1, int(np.prod(dims)), dtype=np.float32).reshape(dims)))


def tanh_for_erf(r):
    """The other spelling of GELU is another function."""
    for node in r.all("Erf"):
        z, place = node.input[0], list(r.graph.node).index(node)
        output = node.output[0]
        del r.graph.node[place]
        cubed = [r.put(np.array(number, np.float32)) for number in (0.1009108, 1.1283792, 3)]
        parts = [("Pow", [z, cubed[2]]), ("Mul", [f"{output}_0", cubed[0]]), ("Mul", [z, cubed[1]])]
        parts += [("Add", [f"{output}_1", f"{output}_2"]), ("Tanh", [f"{output}_3"])]
        for number, (op_type, inputs) in enumerate(parts):
            out = output if op_type == "Tanh" else f"{output}_{number}"
            r.graph.node.insert(place + number, helper.make_node(op_type, inputs, [out]))
        r.fired += 1
        r.look()


def what_is_wrong(rewrite, pieces, exactness, graphs, **options):
    """(in how many of the graphs it did something, complaints)"""
    fired, complaints = 0, []
    for seed in range(graphs):
        case = random_graphs.random_graph(seed, pieces)
        r = Rewriting(case.model)
        rewrite(r, **options)
        if r.fired:
            fired += 1
            complaints += random_graphs.compare(case.model, r.model, exactness, case.feeds)
    return fired, complaints


RIGHT = [
    (fold_pads, ("pad_window",), "Z", {}),
    (fold_norms, ("gemm_norm", "matmul_norm"), "T", {}),
    (merge, ("equal_nodes", "random_pairs"), "E", {}),
    (drop_nothings, ("nothings",), "E", {}),
    (drop_nothings, ("nothings",), "Z", {"plus_zero": True}),
    (merge_casts, ("casts",), "E", {}),
]
WRONG = [
    (fold_pads, ("pad_window",), "Z", {"takers": ("Conv", "MaxPool")}),
    (fold_pads, ("pad_window",), "Z", {"average": "never asked"}),
    (fold_norms, ("matmul_norm",), "T", {"ask_axis": False}),
    (fold_norms, ("gemm_norm",), "T", {"ask_gemm": False}),
    (fold_norms, ("gemm_norm",), "T", {"epsilon": 1e-5}),
    (merge, ("random_pairs",), "E", {"noise": True}),
    (merge, ("equal_nodes",), "E", {"attributes": False}),
    (drop_nothings, ("nothings",), "E", {"plus_zero": True}),
    (drop_nothings, ("nothings",), "Z", {"larger": True}),
    (merge_casts, ("casts",), "E", {"any_first": True}),
    (forget_overrides, (), "T", {}),
    (believe_overrides, (), "T", {}),
    (bake_noise, ("random_pairs",), "T", {}),
    (tanh_for_erf, ("gelu",), "T", {}),
]


def said(value):
    return value.__name__ if callable(value) else "+".join(value) if isinstance(value, (tuple, dict)) else None


@pytest.mark.parametrize("rewrite, pieces, exactness, options", RIGHT, ids=said)
def test_what_is_right_is_not_complained_about(rewrite, pieces, exactness, options):
    fired, complaints = what_is_wrong(rewrite, pieces, exactness, 120, **options)
    assert fired >= 5 and not complaints


@pytest.mark.parametrize("rewrite, pieces, exactness, options", WRONG, ids=said)
def test_a_wrong_rewrite_is_caught(rewrite, pieces, exactness, options):
    fired, complaints = what_is_wrong(rewrite, pieces, exactness, 120, **options)
    assert fired and complaints


def test_graphs_have_all_hazards_and_are_what_their_seed_says():
    hazards, opsets, pieces = Counter(), set(), set()
    for seed in range(300):
        case = random_graphs.random_graph(seed)
        hazards += case.hazards
        opsets.add(case.model.opset_import[0].version)
        pieces |= {*case.pieces}
        if seed % 10 == 0:
            onnx.checker.check_model(case.model)
            assert not random_graphs.compare(case.model, case.model, "E", case.feeds), seed
    for dtype in (np.float16, np.float64):
        for seed in range(20):
            case = random_graphs.random_graph(seed, dtype=dtype)
            assert not random_graphs.compare(case.model, case.model, "E", case.feeds), (dtype, seed)
    met = {name for name, (_, _, weight) in random_graphs.PIECES.items() if weight}
    assert opsets == set(random_graphs.OPSETS) and pieces == met and len(hazards) > 80
    assert {*random_graphs.PIECES} - met <= {name for arm in optimized_graphs.ARMS.values() for name in arm.only}
    again = random_graphs.random_graph(7).model.SerializeToString(deterministic=True)
    assert random_graphs.random_graph(7).model.SerializeToString(deterministic=True) == again


@pytest.mark.parametrize(
    "exactness, expected, got, right",
    [
        ("E", [0.0, np.nan], [0.0, -np.nan], True),
        ("E", [0.0], [-0.0], False),
        ("Z", [0.0], [-0.0], True),
        ("Z", [1.0], [np.nextafter(np.float32(1), np.float32(2))], False),
        ("T", [100.0, 1.0], [100.0009, 1.0009], True),
        ("T", [100.0, 1.0], [100.0, 1.0012], False),
        ("T", [np.inf, 1.0], [3e38, 1.0], False),
        ("T", [np.nan, 1.0], [0.0, 1.0], False),
        ("T", [1.0, 1.0], [np.nan, 1.0], False),
        ("M", [100.0, 1.0], [100.009, 1.0], True),
        ("M", [1.0, -1.0], [1.0, 1.0], False),
    ],
)
def test_the_judge_of_numbers(exactness, expected, got, right):
    expected, got = np.array(expected, np.float32), np.array(got, np.float32)
    assert (random_graphs._differs_as_it_may(expected, got, exactness) == "") == right
    assert random_graphs._differs_as_it_may(expected, got.astype(np.float64), exactness)
    assert random_graphs._differs_as_it_may(np.float16([1, 4]), np.float16([1, 4.0078]), "T") == ""
    assert random_graphs._differs_as_it_may(np.float16([1, 4]), np.float16([1, 4.0195]), "T")
    assert random_graphs._differs_as_it_may(expected, got[None], exactness)


def test_a_program_is_judged_by_its_files():
    assert random_graphs.check("cp IN OUT", range(5), "E") == {}
    failed = random_graphs.check("false IN OUT", range(2), "E")
    assert list(failed) == [0, 1] and failed[0] == ["exit code 1: nothing said"]
    assert list(random_graphs.check("true IN OUT", range(1), "E")) == [0]
