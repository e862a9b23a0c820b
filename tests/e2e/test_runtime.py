"""weir-ort and its client (src/verify/runtime/runtime.h) with the real ONNX Runtime, the oldest that is supported and the newest.

`runtime_tool` drives the client: it prints how each request ended, and writes what came. What it says is compared with
what onnxruntime's Python package gives for the same model. The newest is found by the ordinary search, as a user's is.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import runtimes
from conftest import DATA, built_tool

pytestmark = pytest.mark.in_memory

OLDEST, *_, NEWEST = runtimes.ONNXRUNTIME.values()
MIB = 1 << 20

# Element types by their name: numpy's, and how elements lie in a file.
NUMPY = {
    "float": np.float32,
    "uint8": np.uint8,
    "int8": np.int8,
    "uint16": np.uint16,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "bool": np.bool_,
    "float16": np.float16,
    "double": np.float64,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}


def library_of(version):
    python = runtimes.python_of("onnxruntime", version)
    [found] = python.parent.parent.glob("lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*")
    return str(found)


@pytest.fixture(scope="module", params=["oldest", "newest", "the tests' own"])
def version(request):
    """The environment that leads to it, and what it says it is."""
    if request.param == "oldest":
        return {"WEIR_ONNXRUNTIME": library_of(OLDEST)}, OLDEST
    if request.param == "newest":
        return {"VIRTUAL_ENV": str(runtimes.python_of("onnxruntime", NEWEST).parent.parent)}, NEWEST
    return {"VIRTUAL_ENV": sys.prefix}, onnxruntime.__version__


class Tool:
    """A sequence of words for runtime_tool, and what it said to each."""

    def __init__(self, folder, environment):
        self.folder, self.environment, self.words, self.n = folder, environment, [], 0
        self.program = built_tool("runtime_tool")
        self.environment = {"WEIR_ORT": str(self.program.parent.parent / "weir-ort"), **environment}

    def do(self, *words):
        self.words += [os.fspath(word) for word in words]
        return self

    def input(self, name, dtype, dims, content, how="--input"):
        path = self.folder / f"given{self.n}"
        self.n += 1
        path.write_bytes(content)
        return self.do(how, f"{name}={dtype}:{'x'.join(str(dim) for dim in dims)}:{path}")

    def array(self, name, dtype, array, how="--input"):
        return self.input(name, dtype, array.shape, np.ascontiguousarray(array).tobytes(), how)

    def strings(self, name, dims, texts):
        return self.input(name, "string", dims, b"".join(struct.pack("<I", len(text)) + text for text in texts))

    def run(self, prefix="out"):
        return self.do("--run", self.folder / f"{prefix}.")

    def said(self):
        clean = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "WEIR_ONNXRUNTIME", "WEIR_ORT")}
        done = subprocess.run(
            [self.program, "--mark", *self.words, "--close", "--mark"], env={**clean, **self.environment}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert lines[-1] == {"did": "mark", "more_files": 0, "child": False}
        return lines[1:-1]


@pytest.fixture
def tool(tmp_path, version):
    return Tool(tmp_path, version[0])


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def elements(output, dtype):
    return np.fromfile(output["path"], dtype=dtype).reshape(output["dims"])


def texts(output):
    content, found = Path(output["path"]).read_bytes(), []
    while content:
        [n] = struct.unpack_from("<I", content)
        found.append(content[4 : 4 + n])
        content = content[4 + n :]
    return found


def tensor(name, kind, dims):
    return helper.make_tensor_value_info(name, kind, dims)


def save(path, nodes, inputs, outputs, initializers=(), opset=20, **more):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), path, **more)
    return path


def identity(path, kind, opset=20):
    io = [tensor(name, kind, ["n", 3]) for name in "xy"]
    return save(path, [helper.make_node("Identity", ["x"], ["y"])], io[:1], io[1:], opset=opset)


def done(line):
    assert line["end"] == "done", line
    return line


# ---- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMPY)
def test_every_type_goes_there_and_back(tool, tmp_path, dtype):
    kind = getattr(TensorProto, dtype.upper())
    given = np.arange(6).reshape(2, 3).astype(NUMPY[dtype])
    tool.do("--open", "--load", identity(tmp_path / "m.onnx", kind)).array("x", dtype, given).run()
    _, load, run = tool.said()
    assert done(load)["inputs"] == [{"name": "x", "kind": "tensor", "optional": False, "dtype": dtype, "dims": [-1, 3]}]
    [y] = done(run)["outputs"]
    assert (y["name"], y["dtype"], y["dims"]) == ("y", dtype, [2, 3])
    assert elements(y, NUMPY[dtype]).tobytes() == given.tobytes()


def packed_model(path, kind, opset):
    """A packed input is dequantized, a float is quantized to a packed output."""
    scale = numpy_helper.from_array(np.array(1, np.float32), "one")
    zero = helper.make_tensor("zero", kind, [], [0])
    nodes = [helper.make_node("DequantizeLinear", ["q", "one"], ["d"]), helper.make_node("QuantizeLinear", ["x", "one", "zero"], ["r"])]
    given, out = [tensor("q", kind, ["n"]), tensor("x", TensorProto.FLOAT, ["m"])], [tensor("d", TensorProto.FLOAT, ["n"]), tensor("r", kind, ["m"])]
    return save(path, nodes, given, out, [scale, zero], opset=opset)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2"])
def test_packed_types_where_the_runtime_has_them(tool, tmp_path, version, dtype):
    """Nine elements: the last byte is half or a quarter full, and the rest of it is zero, whatever the runtime left there."""
    bits = int(dtype[-1])
    content, numbers = {
        "int4": (b"\x21\x43\x65\x87\x0f", [1, 2, 3, 4, 5, 6, 7, -8, -1]),
        "uint4": (b"\x21\x43\x65\x87\x0f", [1, 2, 3, 4, 5, 6, 7, 8, 15]),
        "int2": (b"\xe4\x1b\x02", [0, 1, -2, -1, -1, -2, 1, 0, -2]),
        "uint2": (b"\xe4\x1b\x02", [0, 1, 2, 3, 3, 2, 1, 0, 2]),
    }[dtype]
    numbers = np.array(numbers, np.float32)
    model = packed_model(tmp_path / "m.onnx", getattr(TensorProto, dtype.upper()), 21 if bits == 4 else 25)
    tool.do("--open", "--load", model).input("q", dtype, [9], content).array("x", "float", numbers).run()
    _, load, run = tool.said()
    if bits == 2 and version[1] == OLDEST:
        assert load["end"] == "refused" and run["end"] == "refused"
        return
    assert done(load)["inputs"][0]["dtype"] == dtype
    d, r = done(run)["outputs"]
    assert np.array_equal(elements(d, np.float32), numbers)
    assert (r["dtype"], r["dims"]) == (dtype, [9])
    assert Path(r["path"]).read_bytes() == content


def test_strings_of_any_bytes(tool, tmp_path):
    given = [b"", b"with a NUL\0inside", "größer".encode(), b"\xff\xfe no UTF-8", b"x" * 100_000, b"last"]
    tool.do("--open", "--load", identity(tmp_path / "m.onnx", TensorProto.STRING)).strings("x", [2, 3], given).run()
    [y] = done(tool.said()[-1])["outputs"]
    assert (y["dtype"], y["dims"]) == ("string", [2, 3])
    assert texts(y) == given


def test_scalars_and_tensors_without_elements(tool, tmp_path):
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["a"], ["b"])]
    given = [tensor("x", TensorProto.INT64, []), tensor("a", TensorProto.FLOAT, ["n", 0, "m"])]
    out = [tensor("y", TensorProto.INT64, []), tensor("b", TensorProto.FLOAT, None)]
    tool.do("--open", "--load", save(tmp_path / "m.onnx", nodes, given, out))
    tool.array("x", "int64", np.array(-7)).array("a", "float", np.zeros((5, 0, 2), np.float32)).run()
    _, load, run = tool.said()
    # One that has no dims and one of unknown rank are the same to a runtime's C API.
    assert [each["dims"] for each in load["inputs"] + load["outputs"]] == [None, [-1, 0, -1], None, [-1, 0, -1]]
    y, b = done(run)["outputs"]
    assert y["dims"] == [] and elements(y, np.int64) == -7
    assert b["dims"] == [5, 0, 2]


def sequence_of(name, kind):
    return helper.make_tensor_sequence_value_info(name, kind, None)


def test_sequences_as_inputs_and_outputs(tool, tmp_path):
    nodes = [helper.make_node("SequenceInsert", ["s", "x"], ["t"]), helper.make_node("SequenceLength", ["t"], ["n"])]
    io = [sequence_of("s", TensorProto.FLOAT), tensor("x", TensorProto.FLOAT, ["k"])]
    out = [sequence_of("t", TensorProto.FLOAT), tensor("n", TensorProto.INT64, [])]
    items = [np.arange(3, dtype=np.float32), np.arange(400_000, dtype=np.float32), np.zeros((2, 2), np.float32)]
    tool.do("--open", "--load", save(tmp_path / "m.onnx", nodes, io, out))
    for item in items:
        tool.array("", "float", item)
    tool.do("--sequence", "s", "3").array("x", "float", np.ones(1, np.float32)).run()
    _, load, run = tool.said()
    assert [each["kind"] for each in done(load)["inputs"]] == ["sequence", "tensor"]
    assert load["outputs"][0]["dtype"] == "float"
    sequence, *parts, count = done(run)["outputs"]
    assert sequence["kind"] == "sequence" and sequence["items"] == 4
    for part, item in zip(parts, [*items, np.ones(1, np.float32)]):
        assert np.array_equal(elements(part, np.float32), item)
    assert [part["by_file"] for part in parts] == [False, True, False, False]
    assert elements(count, np.int64) == 4


def optional_model(path):
    """(x: optional(float)) → has; and an optional that holds nothing."""
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"]))
    nodes = [
        helper.make_node("OptionalHasElement", ["x"], ["has"]),
        helper.make_node("Optional", [], ["nothing"], type=helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"])),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    values = [helper.make_value_info(name, kind) for name in ("x", "nothing", "same")]
    return save(path, nodes, values[:1], [tensor("has", TensorProto.BOOL, []), *values[1:]])


def test_optionals(tool, tmp_path):
    given = np.arange(4, dtype=np.float32)
    tool.do("--open", "--load", optional_model(tmp_path / "m.onnx")).array("x", "float", given).run()
    tool.do("--clear", "--nothing", "x").run("nothing")
    _, load, run, without = tool.said()
    assert [each["optional"] for each in done(load)["inputs"] + load["outputs"]] == [True, False, True, True]
    has, nothing, same = done(run)["outputs"]
    assert elements(has, np.bool_) and nothing["kind"] == "nothing"
    assert np.array_equal(elements(same, np.float32), given)
    assert without["end"] == "refused"
    assert without["message"] == "input 'x' is an empty optional, which the C API of ONNX Runtime cannot create"


def test_an_empty_sequence_cannot_be_given_but_can_come(tool, tmp_path):
    nodes = [helper.make_node("SequenceEmpty", [], ["e"], dtype=TensorProto.FLOAT), helper.make_node("SequenceLength", ["s"], ["n"])]
    model = save(tmp_path / "m.onnx", nodes, [sequence_of("s", TensorProto.FLOAT)], [sequence_of("e", TensorProto.FLOAT), tensor("n", TensorProto.INT64, [])])
    tool.do("--open", "--load", model, "--sequence", "s", "0").run()
    tool.do("--clear").array("", "float", np.ones(2, np.float32)).do("--sequence", "s", "1", "--want", "e").run()
    _, _, none, run = tool.said()
    assert none["end"] == "refused" and "input 's' is an empty sequence" in none["message"]
    assert [(each["kind"], each["items"]) for each in done(run)["outputs"]] == [("sequence", 0)]


def test_maps_are_not_known(tool, tmp_path):
    node = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[5, 6, 7])
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])))
    graph = helper.make_graph([node], "g", [tensor("x", TensorProto.FLOAT, ["n", 3])], [helper.make_value_info("z", kind)])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    tool.do("--open", "--load", tmp_path / "m.onnx").array("x", "float", np.ones((2, 3), np.float32)).run()
    _, load, run = tool.said()
    assert [each["kind"] for each in done(load)["outputs"]] == ["unknown"]
    assert (run["end"], run["message"]) == ("refused", "output 'z' is a sequence of elements that are not tensors")


# ---- sizes -------------------------------------------------------------------------------------------------------------


def test_large_arrays_go_by_files(tool, tmp_path):
    """Larger than 1 MiB, from memory and from a file, beside small ones; the results of several runs are there at once."""
    nodes = [helper.make_node("Add", ["a", "b"], ["c"]), helper.make_node("ReduceSum", ["c"], ["s"], keepdims=0)]
    io = [tensor(name, TensorProto.FLOAT, ["n"]) for name in "abc"]
    tool.do("--open", "--load", save(tmp_path / "m.onnx", nodes, io[:2], [io[2], tensor("s", TensorProto.FLOAT, [])]))
    n = 3 * MIB // 4 + 5
    a, b = np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32)
    tool.array("a", "float", a).array("b", "float", b, "--input-file").run("first")
    tool.do("--clear").array("a", "float", a[:262144]).array("b", "float", b[:262144], "--input-file").run("at")
    tool.do("--clear").array("a", "float", a[:262145]).array("b", "float", b[:262145]).run("over").do("--release")
    tool.do("--clear").array("a", "float", b).array("b", "float", b).run("again")
    lines = tool.said()[2:]
    for line, given, by_file in zip(lines, (a + b, a[:262144] + 0.5, a[:262145] + 0.5, b + b), (True, False, True, True)):
        c, s = done(line)["outputs"]
        assert (c["by_file"], s["by_file"]) == (by_file, False)
        assert np.array_equal(elements(c, np.float32), given)


def test_many_outputs_below_a_mebibyte_do_not_fill_a_message(tool, tmp_path):
    names = [f"y{i}" for i in range(100)]
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in names]
    io = [tensor(name, TensorProto.UINT8, ["n"]) for name in ["x", *names]]
    given = np.arange(MIB, dtype=np.uint8)
    tool.do("--open", "--load", save(tmp_path / "m.onnx", nodes, io[:1], io[1:])).array("x", "uint8", given).run()
    outputs = done(tool.said()[-1])["outputs"]
    assert len(outputs) == 100 and sum(not each["by_file"] for each in outputs) == 64
    assert all(np.array_equal(elements(each, np.uint8), given) for each in outputs)


# ---- models ------------------------------------------------------------------------------------------------------------


def test_one_model_after_the_other_and_many_runs(tool, tmp_path):
    tool.do("--open")
    expected = []
    for model in ("cnn-kept-dynamo-18", "bert-sdpa-dynamo-18", "gpt2-sdpa-torchscript-14"):
        path = DATA / "exports" / f"{model}.onnx"
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        numbers = np.load(DATA / "exports" / f"{model.split('-')[0]}.npz")
        given = {each.name: numbers[f"first.{each.name}"] for each in session.get_inputs()}
        expected.append((session, given))
        tool.do("--clear", "--load", path)
        for name, array in given.items():
            dtype = next(key for key, kind in NUMPY.items() if np.dtype(kind) == array.dtype)
            tool.array(name, dtype, array)
        tool.run(f"{model}.a").run(f"{model}.b")
    lines = tool.said()[1:]
    for i, (session, given) in enumerate(expected):
        load, first, second = lines[3 * i : 3 * i + 3]
        assert [each["name"] for each in done(load)["inputs"]] == list(given)
        numbers = session.run(None, given)
        assert [each["name"] for each in done(first)["outputs"]] == [each.name for each in session.get_outputs()]
        for output, again, number in zip(first["outputs"], done(second)["outputs"], numbers):
            np.testing.assert_allclose(elements(output, number.dtype), number, rtol=1e-3, atol=1e-4)
            assert Path(output["path"]).read_bytes() == Path(again["path"]).read_bytes()


def test_chosen_outputs_in_the_order_in_which_they_are_asked_for(tool, tmp_path):
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Abs", ["a"], ["b"]), helper.make_node("Neg", ["b"], ["c"])]
    io = [tensor(name, TensorProto.FLOAT, [2]) for name in "xabc"]
    tool.do("--open", "--load", save(tmp_path / "m.onnx", nodes, io[:1], io[1:])).array("x", "float", np.array([1, -2], np.float32))
    tool.do("--want", "c", "--want", "a").run()
    tool.do("--want", "no-such").run("none")
    _, _, run, none = tool.said()
    assert [each["name"] for each in done(run)["outputs"]] == ["c", "a"]
    assert np.array_equal(elements(run["outputs"][0], np.float32), [-1, -2])
    assert none["end"] == "refused" and "no-such" in none["message"]


def with_external_data(path):
    weight = numpy_helper.from_array(np.arange(64, dtype=np.float32).reshape(8, 8), "w")
    io = [tensor("x", TensorProto.FLOAT, [1, 8]), tensor("y", TensorProto.FLOAT, [1, 8])]
    save(path, [helper.make_node("MatMul", ["x", "w"], ["y"])], io[:1], io[1:], [weight], save_as_external_data=True, location="w.data", size_threshold=0)
    return path


def test_external_data_beside_the_model_and_elsewhere(tool, tmp_path, version):
    model = with_external_data(tmp_path / "m.onnx")
    elsewhere, data = tmp_path / "elsewhere", tmp_path / "data"
    elsewhere.mkdir(), data.mkdir()
    shutil.copy(model, elsewhere)
    shutil.copy(tmp_path / "w.data", data)
    x = np.eye(8, dtype=np.float32)[:1]
    tool.do("--open").array("x", "float", x).do("--load", model).run("beside")
    tool.do("--load-beside", elsewhere / "m.onnx", data).run("elsewhere").do("--load", elsewhere / "m.onnx")
    _, load, beside, load_elsewhere, there, missing = tool.said()
    assert done(load) and np.array_equal(elements(done(beside)["outputs"][0], np.float32)[0], np.arange(8))
    assert missing["end"] == "refused" and "w.data" in missing["message"]
    if version[1] == OLDEST:
        assert load_elsewhere["end"] == "refused"
        assert load_elsewhere["message"] == (
            "ONNX Runtime 1.20.1 reads external data only from the folder of the model "
            "(session.model_external_initializers_file_folder_path needs 1.21)"
        )
        return
    assert done(load_elsewhere) and np.array_equal(elements(done(there)["outputs"][0], np.float32)[0], np.arange(8))


def test_what_the_runtime_refuses_is_said_in_its_words(tool, tmp_path):
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "junk.onnx").write_bytes(b"\x08\x01junk")
    io = [tensor(name, TensorProto.FLOAT, [2]) for name in "xy"]
    custom = save(tmp_path / "custom.onnx", [helper.make_node("NoSuch", ["x"], ["y"], domain="nobody")], io[:1], io[1:])
    good = identity(tmp_path / "good.onnx", TensorProto.FLOAT)
    tool.do("--open")
    for path in (tmp_path / "no-such.onnx", tmp_path / "empty.onnx", tmp_path / "junk.onnx", custom, tmp_path):
        tool.do("--load", path)
    tool.do("--load", good).run("missing").array("x", "int64", np.zeros((1, 3), np.int64)).run("type")
    tool.do("--clear").array("x", "float", np.zeros((1, 4), np.float32)).run("dims")
    tool.do("--clear").array("z", "float", np.zeros((1, 3), np.float32)).run("name")
    tool.do("--clear").array("x", "float", np.zeros((1, 3), np.float32)).run("fine")
    _, *bad, load, missing, kind, dims, name, fine = tool.said()
    for line in (*bad, missing, kind, dims, name):
        assert (line["end"], line["kind"]) == ("refused", 1), line
        assert "\n" not in line["message"]
    assert "no-such.onnx" in bad[0]["message"] and "nobody" in bad[3]["message"]
    assert done(load) and done(fine)


def test_the_runtimes_own_rewrites_can_be_asked_for(tool, tmp_path):
    """Conv and Relu become one kernel, and their numbers may differ; without, two runs of the client give the same bytes."""
    path = DATA / "exports" / "cnn-folded-dynamo-20.onnx"
    image = np.load(DATA / "exports" / "cnn.npz")["first.image"]
    tool.do("--optimized", "--threads", "2", "--open", "--load", path).array("image", "float", image).run()
    _, load, run = tool.said()
    assert done(load) and done(run)


# ---- limits ------------------------------------------------------------------------------------------------------------


def test_a_model_that_wants_more_memory_than_there_is(tool, tmp_path):
    """The runtime says it, in the words of its language, and the next run goes on; without a limit it has the memory."""
    node = helper.make_node("ConstantOfShape", ["n"], ["zeros"], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [0]))
    sum_of = helper.make_node("ReduceSum", ["zeros"], ["s"], keepdims=0)
    model = save(tmp_path / "m.onnx", [node, sum_of], [tensor("n", TensorProto.INT64, [1])], [tensor("s", TensorProto.FLOAT, [])])
    large, small = (np.array([n], np.int64) for n in (200_000_000, 1000))
    tool.do("--memory", str(512 << 20), "--open", "--load", model).array("n", "int64", large).run("large")
    tool.do("--clear").array("n", "int64", small).run("small")
    _, _, refused, fine = tool.said()
    assert refused["end"] == "refused" and "bad" in refused["message"] and "alloc" in refused["message"]
    assert elements(done(fine)["outputs"][0], np.float32) == 0


def test_external_data_is_mapped_and_not_copied(tool, tmp_path):
    """128 MiB of weights that one row is taken of: neither the limit of memory nor the peak has room for them."""
    rows = np.zeros((32768, 1024), np.float32)
    rows[7] = 7
    io = [tensor("i", TensorProto.INT64, [1]), tensor("y", TensorProto.FLOAT, [1, 1024])]
    weights = [numpy_helper.from_array(rows, "w")]
    model = save(tmp_path / "m.onnx", [helper.make_node("Gather", ["w", "i"], ["y"])], io[:1], io[1:], weights, save_as_external_data=True, location="w.data")
    tool.do("--memory", str(100 << 20), "--open", "--load", model).array("i", "int64", np.array([7])).run().do("--peak")
    _, load, run, peak = tool.said()
    assert done(load) and elements(done(run)["outputs"][0], np.float32).tolist() == [[7.0] * 1024]
    assert peak["bytes"] < 100 << 20


def test_a_client_that_is_killed_leaves_nothing(tool, tmp_path, version):
    """A model that computes for hours: weir-ort sees the connection close and ends in the middle of it."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Sin", ["x"], ["y"])],
        "body",
        [tensor("i", TensorProto.INT64, []), tensor("go", TensorProto.BOOL, []), tensor("x", TensorProto.FLOAT, ["n"])],
        [tensor("on", TensorProto.BOOL, []), tensor("y", TensorProto.FLOAT, ["n"])],
    )
    for_ever = numpy_helper.from_array(np.array(2**62, np.int64), "count")
    io = [tensor(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
    model = save(tmp_path / "m.onnx", [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body)], io[:1], io[1:], [for_ever])
    words = tool.do("--open", "--load", model).array("x", "float", np.ones(8, np.float32)).run().words
    running = subprocess.Popen([tool.program, *words], env={**os.environ, **tool.environment}, stdout=subprocess.PIPE, text=True)
    assert done(json.loads(running.stdout.readline())) and done(json.loads(running.stdout.readline()))
    [child] = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    running.kill()
    running.communicate()
    while lives(child):
        time.sleep(0.01)
