"""Rules that ask about the elements of large constants: the answers are numpy's, only what must be read is, and a log replays.

The rules are those of tests/unit/asks.rules. Every case has a constant that is not at hand, and says whether its rule fires.
"""

import itertools
import json
import os
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import peaks
from conftest import built_tool

TOOL = built_tool("rules_tool_asks")
MIB = 1 << 20
ROWS, COLUMNS = 300, 300


def filled(number, dtype=np.float32, **others):
    """A matrix of one number, with others at some places, by name: at the beginning, amid, at the end."""
    a = np.full((ROWS, COLUMNS), number, dtype)
    for where, value in others.items():
        a[{"first": (0, 0), "amid": (ROWS // 2, 7), "last": (-1, -1)}[where]] = value
    return a


def ascending():
    return np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)


ROOTS = {"equal": "Abs", "unequal": "Neg", "below": "Exp", "below-or-equal": "Tanh", "above": "Sqrt", "above-or-equal": "Relu", "finite": "Sigmoid", "infinite": "Sign", "twice": "Floor"}
INF, NAN = np.inf, np.nan
CASES = [
    ("equal", filled(2), True),
    ("equal", filled(2, last=2.5), False),
    ("equal", filled(2, amid=NAN), False),
    ("equal", filled(2, np.int32), True),
    ("equal", filled(2, np.float16), True),
    ("equal", filled(2, np.float64, first=3), False),
    ("unequal", filled(3), True),
    ("unequal", filled(3, amid=NAN), True),
    ("unequal", filled(3, last=2), False),
    ("unequal", filled(1, last=3), False),  # 2 may lie between: not known
    ("below", filled(1, last=1.5), True),
    ("below", filled(1, last=2), False),
    ("below", filled(1, first=NAN), False),
    ("below", filled(1, first=-INF), True),
    ("below-or-equal", filled(1, last=2), True),
    ("below-or-equal", filled(1, amid=2.5), False),
    ("above", filled(3), True),
    ("above", filled(3, np.int64, amid=2), False),
    ("above-or-equal", filled(3, np.int64, amid=2), True),
    ("above-or-equal", filled(3, amid=-1), False),
    ("finite", ascending(), True),
    ("finite", filled(1, last=INF), False),
    ("finite", filled(1, amid=NAN), False),
    ("infinite", filled(1, last=-INF), True),
    ("infinite", filled(1), False),
    ("twice", filled(1e38), True),
    ("twice", filled(1, amid=3e38), False),  # the product is infinite
]


def value(name, dtype, dims):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), dims)


def save(path, nodes, constants, inputs, outputs):
    tensors = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location="in.data", size_threshold=1024)
    return path


def sub_model(folder, root, c):
    x, y = value("x", c.dtype, list(c.shape)), value("y", c.dtype, list(c.shape))
    nodes = [helper.make_node("Sub", ["x", "c"], ["d"]), helper.make_node(root, ["d"], ["e"]), helper.make_node("Identity", ["e"], ["y"])]
    return save(folder / "in.onnx", nodes, {"c": c}, [x], [y])


def run(folder, *options):
    """Rules that fired, and the artifacts of the edit log."""
    command = [TOOL, "all", "finite", folder / "in.onnx", folder / "out.onnx", "--force", "--edit-log", folder / "log.jsonl", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    fired = {line["pass"]: line["fired"] for line in map(json.loads, done.stdout.splitlines()) if "pass" in line}
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return fired, [line for line in log if line.get("edit") == "artifact"]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{name}-{i}" for i, (name, _, _) in enumerate(CASES)])
def test_answers(quick_folder, number):
    name, c, fires = CASES[number]
    sub_model(quick_folder, ROOTS[name], c)
    fired, artifacts = run(quick_folder)
    assert fired == ({f"asks/{name}": 1} if fires else {})
    assert [a["stage"] for a in artifacts] == ["facts"]


def test_floats_of_eight_bits_are_not_known_to_be_finite(quick_folder):
    """No stage looks at them, and they have NaN."""
    kind, dims = TensorProto.FLOAT8E4M3FN, [300, 300]
    c = helper.make_tensor("c", kind, dims, b"\x7f" * 90000, raw=True)
    nodes = [helper.make_node("Sub", ["x", "c"], ["d"]), helper.make_node("Sigmoid", ["d"], ["e"]), helper.make_node("Identity", ["e"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, kind, dims) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [c])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, quick_folder / "in.onnx", save_as_external_data=True, location="in.data", size_threshold=1024)
    assert run(quick_folder) == ({}, [])


@pytest.mark.parametrize("side", [128, 129])
@pytest.mark.parametrize("wrong", [None, (0, 1), (-1, -1), (60, 60)])
def test_identity(quick_folder, side, wrong):
    c = np.eye(side, dtype=np.float32)
    if wrong:
        c[wrong] = 0.5
    x, y = value("x", np.float32, [3, side]), value("y", np.float32, [3, side])
    nodes = [helper.make_node("MatMul", ["x", "c"], ["d"]), helper.make_node("Relu", ["d"], ["y"])]
    onnx.save(onnx.shape_inference.infer_shapes(onnx.load(save(quick_folder / "in.onnx", nodes, {"c": c}, [x], [y]), load_external_data=False)), quick_folder / "in.onnx")
    fired, _ = run(quick_folder)
    assert fired == ({} if wrong else {"asks/identity": 1})


def test_scale(quick_folder):
    """Whole multiples of an eighth are found, and multiplied out; what is none is read no further than that is seen."""
    codes = np.random.default_rng(1).integers(-100, 100, (500, 300)).astype(np.float32)
    codes[0, 0] = 1
    x, y = value("i", np.int64, [2]), value("y", np.float32, [2, 300])
    save(quick_folder / "in.onnx", [helper.make_node("Gather", ["w", "i"], ["y"])], {"w": codes / 8}, [x], [y])
    fired, artifacts = run(quick_folder)
    assert fired == {"asks/scale": 1}
    assert [a["stage"] for a in artifacts] == ["multiples", "multiples"]  # what it made has a scale of 1
    after = onnx.load(quick_folder / "out.onnx")
    arrays = [numpy_helper.to_array(t) for t in after.graph.initializer]
    assert [n.op_type for n in after.graph.node] == ["Gather", "Mul"]
    assert any(a.shape == codes.shape and np.array_equal(a, codes) for a in arrays)
    save(quick_folder / "in.onnx", [helper.make_node("Gather", ["w", "i"], ["y"])], {"w": codes / 7 + 0.01}, [x], [y])
    fired, artifacts = run(quick_folder)
    assert fired == {} and len(artifacts) == 1


def test_nothing_is_read_without_a_candidate(quick_folder):
    """The operator does not match; the cap holds the rule back; another part of the condition is wrong: nothing is asked."""
    c = filled(2)
    sub_model(quick_folder, "Log", c)
    assert run(quick_folder) == ({}, [])
    sub_model(quick_folder, "Floor", c)
    command = [TOOL, "all", "exact", quick_folder / "in.onnx", quick_folder / "out.onnx", "--force", "--edit-log", quick_folder / "log.jsonl"]
    subprocess.run(command, check=True, capture_output=True)
    assert '"artifact"' not in (quick_folder / "log.jsonl").read_text()
    c3 = np.full((2, 200, 300), np.inf, np.float32)
    sub_model(quick_folder, "Sign", c3)  # the rank is not 2
    assert run(quick_folder) == ({}, [])


def test_one_batch_for_all(quick_folder):
    """Many candidates in a graph and a branch, several for one constant: one question, each constant once."""
    constants = {f"c{i}": filled(i) for i in range(4)}
    nodes = []
    for i in range(8):
        nodes += [helper.make_node("Sub", ["x", f"c{i % 4}"], [f"d{i}"]), helper.make_node("Abs", [f"d{i}"], [f"e{i}"])]
    nodes.append(helper.make_node("Sum", [f"e{i}" for i in range(8)], ["y"]))
    dims = [ROWS, COLUMNS]
    save(quick_folder / "in.onnx", nodes, constants, [value("x", np.float32, dims)], [value("y", np.float32, dims)])
    fired, artifacts = run(quick_folder)
    assert fired == {"asks/equal": 2}
    assert len(artifacts) == 1 and len(artifacts[0]["of"]) == 4


@pytest.mark.parametrize("root", ["Abs", "Floor"])  # about a constant, and about what is computed of it
def test_replay(weir, quick_folder, root):
    sub_model(quick_folder, root, filled(2))
    fired, [artifact] = run(quick_folder)
    assert fired
    weir("replay", quick_folder / "log.jsonl", quick_folder / "in.onnx", quick_folder / "again.onnx")
    assert (quick_folder / "again.onnx").read_bytes() == (quick_folder / "out.onnx").read_bytes()
    # Other weights in the same place: the answer is another.
    data = bytearray((quick_folder / "in.data").read_bytes())
    data[-4:] = np.float32(2.5).tobytes()
    (quick_folder / "in.data").write_bytes(data)
    done = weir("replay", quick_folder / "log.jsonl", quick_folder / "in.onnx", quick_folder / "other.onnx", code=66)
    assert "not those that were read" in done.said


def test_a_killed_run_is_resumed_without_looking_again(quick_folder):
    source = sub_model(quick_folder, "Abs", filled(2))
    resumed = False
    for number in itertools.count(1):
        out = quick_folder / str(number) / "out.onnx"
        out.parent.mkdir()
        command = [TOOL, "all", "finite", source, out]
        if subprocess.run(command, env={**os.environ, "WEIR_FAULT": f"kill:{number}"}, capture_output=True).returncode == 0:
            break
        if out.exists():
            continue
        report = out.with_name("report.json")
        subprocess.run([*command, "--resume", "--report-json", report], check=True, capture_output=True)
        for stage in json.loads(report.read_text())["weir"].get("stages", []):
            assert stage["name"] == "facts"
            assert not stage["resumed"] or stage["source_bytes_read"] == 0
            resumed |= stage["resumed"]
    assert resumed


def test_large_constants_stream(quick_folder):
    """48 MiB, by one worker and by several, in 8 MiB: the same artifact."""
    c = np.full((3072, 4096), 2, np.float32)
    sub_model(quick_folder, "Abs", c)
    digests = set()
    for jobs in ("1", "3"):
        command = [TOOL, "all", "finite", quick_folder / "in.onnx", quick_folder / "out.onnx", "--force", "--no-manifest", "--memory", "8M", "--jobs", jobs, "--edit-log", quick_folder / "log.jsonl"]
        done = peaks.run(command, timeout=300)
        assert done.code == 0, done.err
        assert done.peak_bytes <= (8 + 16) * MIB
        log = [json.loads(line) for line in (quick_folder / "log.jsonl").read_text().splitlines()]
        digests |= {line["sha256"] for line in log if line.get("edit") == "artifact"}
    assert len(digests) == 1
    assert (quick_folder / "in.data").stat().st_size > (8 + 16) * MIB  # what did not fit
