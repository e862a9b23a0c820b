"""`weir optimize --exactness exact`: every output of every model has the bits that it had.

Real exports, whose TorchScript forms must end with no more nodes than what is named here, in ONNX Runtime without its own
optimizations; and one pass at a time over the random graphs that it is about (all together: test_optimized_graphs.py).
"""

import hashlib

import numpy as np
import onnx
import pytest

import random_graphs
from conftest import DATA, package_models

pytestmark = pytest.mark.in_memory

EXPORTS = sorted((DATA / "exports").glob("*.onnx"))
ENCODERS = [DATA / f"parakeet-{name}" / "encoder-model.onnx" for name in ("dynamo", "torchscript")]
FAMILY = ("constants", "fold-if", "fold-small", "shapes", "no-effect", "fold-large")
# What optimizing leaves at most: nodes of all graphs. Those of the other exporter are what there is to reach.
NODES = {
    "bert-eager-torchscript-17": 103,
    "gpt2-eager-torchscript-17": 111,
    "llama-eager-torchscript-17": 167,
    "vit-eager-torchscript-17": 76,
    "parakeet-torchscript": 257,
}


def count(graph):
    rest, nodes = [graph], 0
    while rest:
        graph = rest.pop()
        nodes += len(graph.node)
        rest += [each.g for node in graph.node for each in node.attribute if each.type == onnx.AttributeProto.GRAPH]
    return nodes


def label(path):
    return path.parent.name if path.stem == "encoder-model" else path.stem


def nodes_of(path):
    return count(onnx.load(path, load_external_data=False).graph)


def feed(model, turn):
    """Inputs of a BERT, GPT-2, Llama, ViT, CNN or Parakeet: a name is one size, tokens are few, masks end with zeros."""
    noise, sizes, out = np.random.Generator(np.random.PCG64(turn)), {}, {}
    for each in model.get_inputs():
        dims = [size if isinstance(size, int) else sizes.setdefault(size, 2 + 3 * len(sizes) + turn) for size in each.shape]
        if each.type == "tensor(bool)":
            array = np.ones(dims, bool)
        elif each.type == "tensor(int64)":
            array = noise.integers(0, 2 if "type" in each.name else 50, dims)
        else:
            array = noise.standard_normal(dims).astype(np.float32)
        if "mask" in each.name and array.dtype != np.float32:
            array[...] = 1
            array[..., -2:] = 0
        out[each.name] = array
    return out


@pytest.mark.parametrize("path", [*EXPORTS, *ENCODERS], ids=label)
def test_an_export_computes_the_same_bits(weir, quick_folder, path):
    out = quick_folder / "out" / "model.onnx"
    out.parent.mkdir()
    weir("optimize", path, out, "--exactness", "exact", "--quiet")
    assert nodes_of(out) <= min(nodes_of(path), NODES.get(label(path), nodes_of(path)))
    onnx.checker.check_model(out)
    session = random_graphs.session(str(path))
    assert random_graphs.compare(str(path), str(out), "E", [feed(session, turn) for turn in (0, 1)]) == []


def silero(path):
    out = []
    for turn in (0, 1):
        noise, given = np.random.Generator(np.random.PCG64(turn)), {}
        for each in random_graphs.session(str(path)).get_inputs():
            wanted = {"input": (1, 512), "state": (2, 1, 128), "h": (2, 1, 64), "c": (2, 1, 64)}.get(each.name, ())
            dims = [size if isinstance(size, int) else other for size, other in zip(each.shape, wanted)]
            given[each.name] = noise.standard_normal(dims).astype(np.float32)
            if each.name == "sr":
                given["sr"] = np.array((16000, 8000)[turn], np.int64)
        if given.get("sr", 16000) == 8000:
            given["input"] = given["input"][:, :256]
        out.append(given)
    return out


@pytest.mark.parametrize("name, most", [("silero_vad.onnx", 140), ("silero_vad_half.onnx", 69), ("silero_vad_16k_op15.onnx", 72)])
def test_branches_that_are_decided_go(weir, quick_folder, name, most):
    [path] = [each for each in package_models("silero_vad") if each.name == name]
    out = quick_folder / "out.onnx"
    weir("optimize", path, out, "--exactness", "exact", "--quiet")
    assert nodes_of(out) <= most < nodes_of(path) / 2
    feeds = silero(path) if name == "silero_vad.onnx" else silero(path)[:1]
    assert random_graphs.compare(str(path), str(out), "E", feeds) == []


@pytest.mark.parametrize("name, dims", [("PP-OCRv6_rec_small", (1, 3, 48, 96)), ("ch_ppocr_mobile_v2.0_cls", (2, 3, 48, 192))])
def test_models_for_reading_text(weir, quick_folder, name, dims):
    [path] = [each for each in package_models("rapidocr") if each.name.startswith(name)]
    out = quick_folder / "out.onnx"
    weir("optimize", path, out, "--exactness", "exact", "--quiet")
    x = np.random.Generator(np.random.PCG64(0)).standard_normal(dims).astype(np.float32)
    assert nodes_of(out) < 0.75 * nodes_of(path)
    assert random_graphs.compare(str(path), str(out), "E", [{"x": x}]) == []


def test_a_log_of_branches_that_moved_replays(weir, quick_folder):
    [path] = [each for each in package_models("silero_vad") if each.name == "silero_vad.onnx"]
    log, out, again = quick_folder / "log.jsonl", quick_folder / "out.onnx", quick_folder / "again" / "out.onnx"
    again.parent.mkdir()
    weir("optimize", path, out, "--edit-log", log, "--quiet")
    weir("replay", log, path, again, "--quiet")
    assert hashlib.sha256(out.read_bytes()).digest() == hashlib.sha256(again.read_bytes()).digest()


PIECES = {
    "fold-if": ["ifs", "loops", "functions"],
    "fold-small": ["exporter_shapes", "ifs", "functions", "constants"],
    "shapes": ["exporter_shapes", "reshapes", "slices", "twice"],
    "no-effect": ["nothings", "slices", "transposes", "concats", "pad_window"],
    "fold-large": ["constants", "dequantized", "transposed_weights", "spelled_out"],
    "constants": ["odd_outputs", "constants", "functions"],
}


@pytest.mark.parametrize("name", FAMILY)
def test_one_pass_alone(weir, name):
    program = f"{weir.path} run IN OUT --force --quiet --exactness exact --pass optimize/{name}"
    assert random_graphs.check(program, range(25), "E", PIECES[name]) == {}


@pytest.mark.parametrize("words, nodes", [([], 1), (["--fold-limit", "1KiB"], 2), (["--fold-limit", "16KiB"], 1)])
def test_a_limit_for_what_is_computed(weir, quick_folder, words, nodes):
    """A row and a column of 64 floats make 16 KiB."""
    row = np.arange(64, dtype=np.float32).reshape(1, 64)
    constants = [onnx.numpy_helper.from_array(each, name) for each, name in ((row, "row"), (row.T.copy(), "column"))]
    steps = [onnx.helper.make_node("Add", ["row", "column"], ["m"]), onnx.helper.make_node("Mul", ["x", "m"], ["y"])]
    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n", 64, 64]) for name in "xy"]
    graph = onnx.helper.make_graph(steps, "limit", ends[:1], ends[1:], constants)
    source, out = quick_folder / "in.onnx", quick_folder / "out.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8), source)
    weir("optimize", source, out, "--exactness", "exact", "--quiet", *words)
    assert nodes_of(out) == nodes
    feeds = [{"x": np.full((2, 64, 64), 0.5, np.float32)}]
    assert random_graphs.compare(str(source), str(out), "E", feeds) == []


SIGNED = {  # what gives zeros of both signs
    "Ceil": ["a"], "Floor": ["a"], "Round": ["a"], "Neg": ["a"], "Relu": ["a"], "Identity": ["a"], "Sign": ["a"], "Sqrt": ["z"],
    "Mul": ["a", "minus"], "Div": ["a", "minus"], "Add": ["z", "z"], "Sub": ["a", "a"], "Max": ["a", "z"], "Min": ["a", "z"], "Where": ["c", "z", "a"],
    "ReduceSum": ["z", "axes"], "ReduceMax": ["z", "axes"],
}  # fmt: skip
TAKING = {
    "Gather": (["i"], {"axis": 1}),
    "Slice": (["zero", "one", "zero"], {}),
    "Reshape": (["flat"], {}),
    "Cast": ([], {"to": onnx.TensorProto.DOUBLE}),
    "Transpose": ([], {}),
    "Concat": (["a"], {"axis": 0}),
}


@pytest.mark.parametrize("op", SIGNED)
def test_zeros_keep_their_signs(weir, quick_folder, op):
    """What constants are folded to, and what then takes elements of them; and with operands that are inputs."""
    a = (np.arange(32).reshape(8, 4) % 5 - 2).astype(np.float32) / 4
    z = np.where(np.arange(4) % 2 == 0, np.float32(0), np.float32(-0.0)) * np.ones((8, 1), np.float32)
    known = {"a": a, "z": z, "c": a > 0, "minus": np.float32(-1), "i": np.int64(2), "zero": np.array([0]), "one": np.array([1]), "flat": np.array([-1]), "axes": np.array([0])}
    nodes = [onnx.helper.make_node(op, SIGNED[op], ["v"])]
    nodes += [onnx.helper.make_node(taking, ["v", *more], [taking], **attributes) for taking, (more, attributes) in TAKING.items()]
    used = {name for node in nodes for name in node.input} - {"v"}
    for inputs in (set(), used & {"a", "z"}):
        graph = onnx.helper.make_graph(
            nodes,
            "signed",
            [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, known[n].shape) for n in sorted(inputs)],
            [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.DOUBLE if n == "Cast" else onnx.TensorProto.FLOAT, None) for n in TAKING],
            [onnx.numpy_helper.from_array(np.asarray(known[n]), n) for n in sorted(used - inputs)],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
        onnx.save(model, quick_folder / "in.onnx")
        weir("optimize", quick_folder / "in.onnx", quick_folder / "out.onnx", "--exactness", "exact", "--force", "--quiet")
        feeds = {n: known[n] for n in inputs}
        had, has = (random_graphs.session(str(quick_folder / name)).run(None, feeds) for name in ("in.onnx", "out.onnx"))
        for taking, x, y in zip(TAKING, had, has, strict=True):
            assert x.shape == y.shape and x.tobytes() == y.tobytes(), taking


@pytest.mark.parametrize("words", [["optimize"], ["preprocess"], ["run", "--pass", "streamline"]], ids=lambda words: words[-1])
def test_nodes_out_of_order(weir, quick_folder, words):
    """Runtimes sort nodes by themselves: what stands before another may need it."""
    make = onnx.helper.make_node
    shape = [make("NonZero", ["x"], ["nz"]), make("Transpose", ["nz"], ["t"]), make("Shape", ["t"], ["s"])]
    lists = [
        [*shape, make("Cast", ["s"], ["c"], to=7), make("Slice", ["c", "zero", "one", "zero"], ["y"])],
        [*shape[:2], make("Shape", ["t"], ["s"], start=0, end=1), make("Cast", ["s"], ["y"], to=7)],
        [*shape, make("Gather", ["s", "zero"], ["g"]), make("Mul", ["g", "one"], ["m"]), make("Add", ["m", "zero"], ["y"])],
    ]
    cases = []
    for nodes in lists:
        graph = onnx.helper.make_graph(
            nodes[::-1],
            "backwards",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [1])],
            [onnx.numpy_helper.from_array(np.array([i]), n) for i, n in ((0, "zero"), (1, "one"))],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8)
        cases.append((model, [{"x": np.array([0, 1, 0, 2, 3], np.float32)}]))
    for seed in range(6):
        case = random_graphs.random_graph(seed)
        nodes = list(case.model.graph.node)[::-1]
        del case.model.graph.node[:]
        case.model.graph.node.extend(nodes)
        cases.append((case.model, case.feeds[:1]))
    for number, (model, feeds) in enumerate(cases):
        onnx.save(model, quick_folder / "in.onnx")
        weir(words[0], quick_folder / "in.onnx", quick_folder / "out.onnx", *words[1:], "--force", "--quiet")
        assert random_graphs.compare(str(quick_folder / "in.onnx"), str(quick_folder / "out.onnx"), "T", feeds) == [], number
