"""weir calibrate: ranges, histograms and statistics against onnxruntime's own calibrators and numpy; what a kill, a runtime that dies,
groups and the order of samples change (nothing); what is refused.
"""

import fcntl
import json
import os
import signal
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.calibrate import CalibrationDataReader, CalibrationMethod, create_calibrator, load_tensors_data

from conftest import DATA, built_tool, copy_model

pytestmark = pytest.mark.in_memory

EXPORTS = DATA / "exports"
[LIBRARY] = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")


# ---- samples and what was found --------------------------------------------------------------------


def sample_of(name, rng):
    if name.startswith("bert"):
        tokens = rng.integers(0, 50, (2, 7))
        return {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
    if name.startswith("llama"):
        tokens = rng.integers(0, 50, (2, 7))
        return {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
    if name.startswith("cnn"):
        return {"image": rng.normal(size=(2, 3, 25, 30)).astype("f4")}
    return {"pixel_values": rng.normal(size=(2, 3, 32, 32)).astype("f4")}


def put_samples(folder, samples):
    folder.mkdir()
    for number, sample in enumerate(samples):
        np.savez(folder / f"{number:02}.npz", **sample)
    return folder


def samples_for(name, folder, n=4, seed=1):
    rng = np.random.default_rng(seed)
    return put_samples(folder, [sample_of(name, rng) for _ in range(n)])


def read(path):
    """The values of a RANGES by name, and its head."""
    head, *rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    assert head["weir_ranges"] == 1
    return {row["value"]: row for row in rows if "value" in row}, head


def ends(row):
    return float.fromhex(row["min"]), float.fromhex(row["max"])


def floats(text):
    return np.array([int(text[i : i + 8], 16) for i in range(0, len(text), 8)], np.uint32).view("f4")


class Reader(CalibrationDataReader):
    def __init__(self, folder, only=slice(None)):
        self.files = iter(sorted(Path(folder).glob("*.npz"))[only])

    def get_next(self):
        file = next(self.files, None)
        return None if file is None else dict(np.load(file))


def theirs(model, folder, method, scratch, strides=(slice(None),), **options):
    """strides: what is collected at once, as quantize_static does it with CalibStridedMinMax."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calibrator = create_calibrator(str(copy_model(model, scratch / "in")), None, str(scratch / "augmented.onnx"), method, extra_options=options)
        for stride in strides:
            calibrator.collect_data(Reader(folder, stride))
        return calibrator.compute_data().data


def run_all(model, names, folder):
    """What these values are, sample by sample."""
    model = onnx.load(model)
    inputs = {each.name for each in model.graph.input}
    have = {each.name for each in model.graph.output} | inputs
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names if name not in have)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    wanted = [name for name in names if name not in inputs]
    found = {name: [] for name in names}
    for file in sorted(folder.glob("*.npz")):
        sample = dict(np.load(file))
        for name, value in {**dict(zip(wanted, session.run(wanted, sample))), **{k: sample[k] for k in names if k in inputs}}.items():
            found[name].append(value)
    return found


# ---- against onnxruntime -----------------------------------------------------------------------------

METHODS = [
    (["minmax"], CalibrationMethod.MinMax, {}),
    (["minmax", "--symmetric"], CalibrationMethod.MinMax, {"symmetric": True}),
    (["minmax", "--moving-average"], CalibrationMethod.MinMax, {"moving_average": True}),
    (["entropy"], CalibrationMethod.Entropy, {}),
    (["entropy", "--bins", "256"], CalibrationMethod.Entropy, {"num_bins": 256}),
    (["percentile"], CalibrationMethod.Percentile, {}),
    (["percentile=99.9"], CalibrationMethod.Percentile, {"percentile": 99.9}),
    (["percentile=99", "--symmetric=false"], CalibrationMethod.Percentile, {"percentile": 99.0, "symmetric": False}),
    (["distribution"], CalibrationMethod.Distribution, {}),
    (["distribution=p3"], CalibrationMethod.Distribution, {"scenario": "p3"}),
]
SAME = ["cnn-kept-dynamo-18", "vit-eager-dynamo-20"]
MORE = ["bert-eager-dynamo-20", "llama-rows-dynamo-23", "cnn-folded-torchscript-14", "vit-sdpa-torchscript-14"]


def check_same(weir, tmp_path, name, words, method, options):
    model, out = EXPORTS / f"{name}.onnx", tmp_path / "r.jsonl"
    folder = samples_for(name, tmp_path / "samples")
    weir("calibrate", model, "-o", out, "--data", folder, "--method", *words)
    ours, head = read(out)
    found = theirs(model, folder, method, tmp_path, **options)
    assert len(found) > 20 and head["samples"]["n"] == 4
    for value, data in found.items():
        row = ours[value]
        if method == CalibrationMethod.Distribution:
            least, most = data.avg_std
            if np.isnan(most):  # of a value that is one number: the root of what rounding makes less than zero
                continue
            mean, deviation = float.fromhex(row["mean"]), float.fromhex(row["deviation"])
            if options:  # a power's last bit is the library's
                assert np.allclose((mean, deviation), (least, most), rtol=1e-5, atol=1e-6 * max(1, most)) and head["cube_roots"], value
            else:
                assert (float(least), float(most)) == (mean, deviation), value
        else:
            least, most = data.range_value
            if np.ravel(least)[0] > np.ravel(most)[0]:  # of a value that is one number: no range at all
                assert ends(row)[0] <= ends(row)[1]
                continue
            assert (float(np.ravel(least)[0]), float(np.ravel(most)[0])) == ends(row), value


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("words, method, options", METHODS, ids=[" ".join(words) for words, _, _ in METHODS])
def test_equals_onnxruntime(weir, tmp_path, name, words, method, options):
    """Every value that its calibrator looks at, bit for bit."""
    check_same(weir, tmp_path, name, words, method, options)


@pytest.mark.parametrize("name", MORE)
def test_ranges_equal_onnxruntime(weir, tmp_path, name):
    check_same(weir, tmp_path, name, *METHODS[0])


STRIDES = {"in order": (slice(0, 2), slice(2, 4)), "turned": (slice(2, 4), slice(0, 2))}


@pytest.mark.parametrize("words, method, options", [METHODS[0], METHODS[1], METHODS[2], METHODS[6]], ids=["minmax", "symmetric", "moving", "percentile"])
def test_strides(weir, tmp_path, words, method, options):
    """Ours are those of all samples at once, however the tool's come in: with minmax the same, bit for bit; the other two depend there on
    which stride came first."""
    model, folder = EXPORTS / "cnn-kept-dynamo-18.onnx", tmp_path / "samples"
    rng = np.random.default_rng(5)
    put_samples(folder, [{"image": (scale * rng.normal(size=(2, 3, 25, 30))).astype("f4")} for scale in (1, 2, 4, 3)])
    weir("calibrate", model, "-o", tmp_path / "r", "--data", folder, "--method", *words)
    ours, _ = read(tmp_path / "r")

    def ranges(strides):
        found = theirs(model, folder, method, tmp_path, strides, **options)
        return {value: tuple(float(np.ravel(each)[0]) for each in data.range_value) for value, data in found.items()}

    once = ranges([slice(None)])
    assert len(once) > 20 and once == {value: ends(ours[value]) for value in once}
    strided = {order: ranges(strides) for order, strides in STRIDES.items()}
    if method == CalibrationMethod.MinMax and "moving_average" not in options:
        assert strided["in order"] == strided["turned"] == once
    else:
        assert strided["in order"] != strided["turned"] and once not in strided.values()


def test_samples_of_different_shapes(weir, tmp_path):
    """Which onnxruntime's histograms do not take: ranges are those of its minmax, counts are numpy's."""
    rng = np.random.default_rng(3)
    shapes = [(1, 3, 20, 24), (2, 3, 31, 25), (3, 3, 28, 40)]
    folder = put_samples(tmp_path / "s", [{"image": rng.normal(size=shape).astype("f4")} for shape in shapes])
    model = EXPORTS / "cnn-kept-dynamo-18.onnx"
    weir("calibrate", model, "-o", tmp_path / "r", "--data", folder, "--method", "entropy", "--bins", "256")
    ours, _ = read(tmp_path / "r")
    names = ["conv2d", "hardswish", "image"]
    for name, values in run_all(model, names, folder).items():
        flat = np.concatenate([value.ravel() for value in values])
        most = max(abs(flat.min()), abs(flat.max()))
        counts, _ = np.histogram(flat, bins=256, range=(-most, most))
        assert ours[name]["histogram"]["counts"] == counts.tolist() and ours[name]["elements"] == flat.size


@pytest.mark.parametrize("words, method, options", [METHODS[0], METHODS[3], METHODS[5]], ids=["minmax", "entropy", "percentile"])
def test_the_cache_is_that_of_onnxruntime(weir, tmp_path, words, method, options):
    """Its own reader takes it, and finds what its calibrator finds."""
    model, folder = EXPORTS / "cnn-kept-dynamo-18.onnx", samples_for("cnn", tmp_path / "samples")
    weir("calibrate", model, "-o", tmp_path / "r", "--cache", tmp_path / "cache.json", "--data", folder, "--method", *words)
    ours = load_tensors_data(tmp_path / "cache.json")
    assert ours.calibration_method == method
    for value, data in theirs(model, folder, method, tmp_path, **options).items():
        assert [np.ravel(each)[0] for each in ours[value].range_value] == [np.ravel(each)[0] for each in data.range_value], value
    assert "--force" in weir("calibrate", model, "-o", tmp_path / "s", "--cache", tmp_path / "cache.json", "--data", folder, code=2).err


# ---- nothing leaves a trace --------------------------------------------------------------------------

COUNTING = ["--method", "percentile=99.9", "--statistics", "gram"]


@pytest.fixture(scope="module")
def once(weir, module_folder):
    """A model that is calibrated in one go: model, samples, the words, what comes out."""
    model, folder = EXPORTS / "llama-rows-dynamo-23.onnx", samples_for("llama", module_folder / "samples")
    weir("calibrate", model, "-o", module_folder / "r", "--data", folder, *COUNTING)
    return model, folder, (module_folder / "r").read_bytes(), (module_folder / "r.data").read_bytes()


def test_groups_leave_no_trace(weir, once, tmp_path):
    model, folder, ranges, data = once
    runs = []
    for group in ("1KiB", "20KiB", "1GiB"):
        done = weir("calibrate", model, "-o", tmp_path / "r", "-f", "--data", folder, *COUNTING, "--group", group, "--json")
        assert ((tmp_path / "r").read_bytes(), (tmp_path / "r.data").read_bytes()) == (ranges, data)
        said = done.json()
        assert said["runs"] == 4 + 4 * said["groups"]
        assert f"{said['runs'] - 4} runs follow" in done.err
        runs.append(said["runs"])
    assert runs[0] > runs[1] > runs[2] == 8


def test_the_order_of_samples_leaves_no_trace_but_in_their_digest(weir, once, tmp_path):
    model, folder, ranges, _ = once
    again = tmp_path / "samples"
    again.mkdir()
    for number, file in enumerate(sorted(folder.iterdir(), reverse=True)):
        (again / f"{number:02}.npz").write_bytes(file.read_bytes())
    weir("calibrate", model, "-o", tmp_path / "r", "--data", again, *COUNTING)

    def without(text):
        rows = [json.loads(line) for line in text.splitlines() if b'"value"' in line]
        for row in rows:  # sums of products in another order
            row.pop("gram", None)
        return rows
    assert without((tmp_path / "r").read_bytes()) == without(ranges)


def test_a_kill_costs_one_sample(weir, weir_fault, once, tmp_path):
    """Before writes of a run, from the first to the last: the next one goes on, and what comes out is the same."""
    model, folder, ranges, data = once
    out, resumed, scratch = tmp_path / "r", set(), tmp_path / "scratch"  # a kill leaves what lies there
    scratch.mkdir()
    for number in range(1, 400, 5):
        words = ["calibrate", model, "-o", out, "-f", "--data", folder, *COUNTING, "--group", "20KiB"]
        ended = weir_fault(*words, env={"WEIR_FAULT": f"kill:write:{number}", "TMPDIR": str(scratch)}, code=None)
        if ended.code == 0:
            break
        assert ended.code == -signal.SIGKILL
        said = weir(*words, "--json").json()
        assert (out.read_bytes(), (tmp_path / "r.data").read_bytes()) == (ranges, data)
        resumed.add(said["resumed_runs"])
        assert said["resumed_runs"] + said["runs"] == 4 + 4 * said["groups"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["r", "r.data", "scratch"]
    assert ended.code == 0 and len(resumed) > 5
    assert list(scratch.iterdir()) == []  # the one that ended removed what those before it left


def test_folders_of_runs_that_live_stay(weir, once, tmp_path):
    """A folder is dead if nobody has it locked; what is not ours by name, or by kind, stays in any case."""
    model, folder, _, _ = once
    scratch = tmp_path / "scratch"
    for name in "weir-calibrate-alive1", "weir-calibrate-dead12/0", "weir-verify-dead12", "weir-calibrated", "weir-calibrate-linked/to":
        (scratch / name).mkdir(parents=True)
    (scratch / "weir-calibrate-dead12" / "model.onnx").write_bytes(b"x")
    (scratch / "weir-calibrate-dead12" / "0" / "rows").write_bytes(b"x")
    (scratch / "weir-calibrate-linked" / "to" / "one").symlink_to(model)
    held = os.open(scratch / "weir-calibrate-alive1", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    words = ["calibrate", model, "-o", tmp_path / "r", "--data", folder, "--samples", "1"]
    weir(*words, env={"TMPDIR": str(scratch)})
    left = ["weir-calibrate-alive1", "weir-calibrate-linked", "weir-calibrated", "weir-verify-dead12"]
    assert sorted(path.name for path in scratch.iterdir()) == left
    os.close(held)
    weir(*words, "--force", "--fresh", env={"TMPDIR": str(scratch)})
    assert sorted(path.name for path in scratch.iterdir()) == left[1:]


@pytest.mark.parametrize("at", [1, 3, 6])
def test_a_runtime_that_dies_half_way(weir, once, tmp_path, at):
    model, folder, ranges, data = once
    words = ["calibrate", model, "-o", tmp_path / "r", "--data", folder, *COUNTING]
    mortal = ["--onnxruntime", built_tool("libort_mortal.so")]
    environment = {"WEIR_ORT_REAL": str(LIBRARY)}
    died = weir(*words, *mortal, env={**environment, "WEIR_ORT_DIES_AT": str(at)}, code=75)
    assert f"sample '0{(at - 1) % 4}.npz'" in died.err and "SIGABRT" in died.err and "continue with this sample" in died.err
    assert not (tmp_path / "r").exists()
    said = weir(*words, *mortal, "--json", env=environment).json()
    assert (said["resumed_runs"], said["runs"]) == (at - 1, 8 - (at - 1))
    assert ((tmp_path / "r").read_bytes(), (tmp_path / "r.data").read_bytes()) == (ranges, data)


def test_fresh_begins_anew(weir, once, tmp_path):
    model, folder, ranges, _ = once
    words = ["calibrate", model, "-o", tmp_path / "r", "--data", folder, *COUNTING]
    mortal = ["--onnxruntime", built_tool("libort_mortal.so")]
    environment = {"WEIR_ORT_REAL": str(LIBRARY)}
    weir(*words, *mortal, env={**environment, "WEIR_ORT_DIES_AT": "5"}, code=75)
    assert "calibrate" in weir("clean", tmp_path).said  # which lists what is left, with the command that goes on
    said = weir(*words, *mortal, "--fresh", "--json", env=environment).json()
    assert (said["resumed_runs"], said["runs"]) == (0, 8) and (tmp_path / "r").read_bytes() == ranges


# ---- statistics by channel ----------------------------------------------------------------------------


def check_statistics(model, folder, out, gram):
    rows, _ = read(out)
    names = [name for name, row in rows.items() if "channels" in row]
    data = Path(f"{out}.data").read_bytes() if gram else b""
    grams = 0
    for name, values in run_all(model, names, folder).items():
        row = rows[name]["channels"]
        x = np.concatenate([np.moveaxis(value, row["axis"], -1).reshape(-1, value.shape[row["axis"]]) for value in values])
        assert row["n"] == x.shape[1]
        assert np.array_equal(floats(row["min"]), x.min(0)) and np.array_equal(floats(row["max"]), x.max(0))
        assert np.array_equal(floats(row["mean_abs"]), np.abs(x.astype("f8")).mean(0).astype("f4")), name
        if "gram" not in rows[name]:
            continue
        place = rows[name]["gram"]
        k, at, grams = place["k"], place["at"], grams + 1
        assert place["rows"] == len(x) and k == x.shape[1]
        g = x.astype("f8").T @ x.astype("f8")
        for r in range(0, k, 512):
            for c in range(0, r + 1, 512):
                side = min(512, k - r), min(512, k - c)
                tile = np.frombuffer(data, "f8", side[0] * side[1], at).reshape(side)
                assert np.allclose(tile, g[r : r + side[0], c : c + side[1]], rtol=1e-12, atol=1e-12 * np.abs(g).max())
                at += tile.nbytes
        assert at == place["at"] + place["bytes"]
    return names, grams


@pytest.mark.parametrize("name", ["cnn-kept-dynamo-18", "bert-eager-dynamo-20", "vit-sdpa-torchscript-14"])
def test_statistics_are_those_of_numpy(weir, tmp_path, name):
    model, folder = EXPORTS / f"{name}.onnx", samples_for(name, tmp_path / "samples")
    weir("calibrate", model, "-o", tmp_path / "r", "--data", folder, "--statistics", "gram")
    names, grams = check_statistics(model, folder, tmp_path / "r", True)
    assert len(names) >= 6 and grams >= 2


def linear(k, n, opset):
    """x ─▶ Tanh ─▶ h ─▶ MatMul with a constant weight ─▶ y."""
    w = numpy_helper.from_array(np.random.default_rng(k).normal(size=(k, n)).astype("f4"), "w")
    nodes = [helper.make_node("Tanh", ["x"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", k])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "linear", [x], [y], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [9, 13, 17, 18, 21])
def test_statistics_in_each_opset(weir, tmp_path, opset):
    """Axes are an attribute or an input; K of several tiles, rows that fill several panels."""
    model = tmp_path / "m.onnx"
    onnx.save(linear(700, 3, opset), model)
    rng = np.random.default_rng(opset)
    folder = put_samples(tmp_path / "s", [{"x": rng.normal(size=(rows, 700)).astype("f4")} for rows in (1, 300, 40)])
    weir("calibrate", model, "-o", tmp_path / "r", "--data", folder, "--statistics", "gram", "--memory", "1MiB")
    assert check_statistics(model, folder, tmp_path / "r", True) == (["h"], 1)


@pytest.mark.parametrize("width", [1024, 1025, 5000])
def test_statistics_of_many_channels(weir, tmp_path, width):
    """The runtime returns more than 4 KiB in a file."""
    model = tmp_path / "m.onnx"
    onnx.save(linear(width, 1, 17), model)
    folder = put_samples(tmp_path / "s", [{"x": np.random.default_rng(width).normal(size=(2, width)).astype("f4")}])
    weir("calibrate", model, "-o", tmp_path / "r", "--data", folder, "--statistics", "channel")
    assert check_statistics(model, folder, tmp_path / "r", False) == (["h"], 0)


def test_channels_alone_have_no_companion(weir, tmp_path):
    onnx.save(linear(30, 3, 17), tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": np.ones((2, 30), "f4")}])
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder, "--statistics", "channel")
    assert check_statistics(tmp_path / "m.onnx", folder, tmp_path / "r", False) == (["h"], 0)
    assert not (tmp_path / "r.data").exists()


# ---- types, NaN, infinities, bodies -------------------------------------------------------------------


def chain(nodes, dtype=TensorProto.FLOAT, dims=("a", "b"), tensors=(), opset=17):
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", dtype, list(dims))],
        [helper.make_tensor_value_info("y", dtype, None)],
        [numpy_helper.from_array(value, name) for name, value in tensors],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("dtype", ["float16", "double"])
def test_other_floats(weir, tmp_path, dtype):
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    onnx.save(chain([helper.make_node("Mul", ["x", "x"], ["h"]), helper.make_node("Sqrt", ["h"], ["y"])], number), tmp_path / "m.onnx")
    x = np.array([[-3, 2.5, 0.1]], dtype)
    folder = put_samples(tmp_path / "s", [{"x": x}])
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder)
    rows, _ = read(tmp_path / "r")
    single = lambda value: float(np.float32(value))  # noqa: E731
    assert [rows[name]["type"] for name in "xhy"] == [dtype] * 3
    assert ends(rows["x"]) == (-3, 2.5) and ends(rows["h"]) == (single((x * x).min()), 9) and ends(rows["y"])[1] == 3


def test_nan_counts_for_nothing(weir, tmp_path):
    """In an input, in what it comes into, and where it comes about; a sample whose values have none is as it was."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Sqrt", ["t"], ["s"]),
        helper.make_node("Reshape", ["s", "flat"], ["f"]),
        helper.make_node("Abs", ["f"], ["y"]),
    ]
    onnx.save(chain(nodes, tensors=[("flat", np.array([-1]))]), tmp_path / "m.onnx")
    samples = [np.array([[1, -4, np.nan, 9]], "f4"), np.array([[2, 3, 2, 3]], "f4"), np.array([[5, 25, 1, 1]], "f4")]
    folder = put_samples(tmp_path / "s", [{"x": sample} for sample in samples])
    said = weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder, "--method", "entropy", "--json").json()
    rows, _ = read(tmp_path / "r")
    assert said["nan_values"] == 6
    assert {name: rows[name].get("nans") for name in "xtsfy"} == {"x": 1, "t": 1, "s": 2, "f": 2, "y": 2}
    onnx_values = run_all(tmp_path / "m.onnx", list("xrtsfy"), folder)
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "-f", "--data", folder)
    rows, _ = read(tmp_path / "r")
    for name, values in onnx_values.items():
        flat = np.concatenate([value.ravel() for value in values])
        assert ends(rows[name]) == (np.nanmin(flat), np.nanmax(flat)), name


def test_thousands_of_values(weir, tmp_path):
    """Small ones are fetched, larger ones reduced in the runtime: in the first and last sample all are small, in the second those
    of many rows are not. Zeros have no sign in either."""
    steps = [
        lambda a, b: [helper.make_node("Relu", [a], [b])],
        lambda a, b: [helper.make_node("Mul", [a, "minus"], [b])],
        lambda a, b: [helper.make_node("MatMul", [a, "w"], [b])],
        lambda a, b: [helper.make_node("Add", [a, "x"], [b])],
        lambda a, b: [helper.make_node("Where", [b + "?", "nan", a], [b])],
    ]
    nodes = [helper.make_node("Less", ["x", "least"], [f"v{k + 1}?"]) for k in range(4, 20, 5)]
    for k in range(1050):
        step = steps[k % 5] if k % 5 != 4 or k < 20 else steps[0]
        nodes += step(f"v{k}" if k else "x", f"v{k + 1}" if k < 1049 else "y")
    w = np.random.default_rng(3).standard_normal((4, 4)).astype("f4") / 4
    tensors = [("w", w), ("minus", np.float32(-1)), ("nan", np.float32("nan")), ("least", np.float32(-2.5))]
    onnx.save(chain(nodes, dims=("n", 4), tensors=tensors), tmp_path / "m.onnx")
    rng = np.random.default_rng(4)
    folder = put_samples(tmp_path / "s", [{"x": rng.standard_normal((n, 4)).astype("f4")} for n in (3, 1500, 0, 7)])
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder, "--statistics", "channel")
    rows, _ = read(tmp_path / "r")
    assert len(rows) == 1051
    for name, values in run_all(tmp_path / "m.onnx", list(rows), folder).items():
        flat = np.concatenate([value.ravel() for value in values])
        assert ends(rows[name]) == (np.nanmin(flat), np.nanmax(flat)), name
        if "channels" in rows[name] and "nans" not in rows[name]:
            most = floats(rows[name]["channels"]["max"])
            assert not np.signbit(most[most == 0]).any(), name


def test_infinities_are_refused_or_left_out(weir, tmp_path):
    nodes = [
        helper.make_node("Where", ["c", "x", "never"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["p"]),
        helper.make_node("Add", ["p", "x"], ["y"]),
    ]
    model = chain(nodes, dims=(1, 3), tensors=[("c", np.array([True, True, False])), ("never", np.array(-np.inf, "f4"))])
    onnx.save(model, tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": np.array([[1, 2, 3]], "f4")}])
    words = ["calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder]
    refused = weir(*words, code=65).err
    assert "'masked' has an element that is minus infinite in sample '00.npz'" in refused and "--skip-infinite" in refused
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "s"]
    for more, reason in ((["--exclude", "mask*"], "excluded"), (["--skip-infinite"], "infinite")):
        said = weir(*words, "-f", *more, "--json").json()
        assert said["not_covered"] == [{"reason": reason, "value": "masked"}]
        assert sorted(read(tmp_path / "r")[0]) == ["p", "x", "y"]


@pytest.mark.parametrize("form", [(), ("--format", "qoperator"), ("--compat", "onnxruntime")])
@pytest.mark.parametrize("more", [("--skip-infinite",), ("--exclude", "mask*")])
def test_static_leaves_float_what_was_left_out(weir, tmp_path, form, more):
    """A mask of minus infinity has no range on request: the value stays float, and the products are quantized."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Where", ["c", "zero", "never"], ["mask"]),
        helper.make_node("Add", ["q", "mask"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"]),
        helper.make_node("MatMul", ["p", "w"], ["y"]),
    ]
    rng = np.random.default_rng(2)
    tensors = [("c", np.array([[True, False, True]])), ("zero", np.array(0, "f4")), ("never", np.array(-np.inf, "f4")), ("w", rng.normal(size=(3, 3)).astype("f4"))]
    onnx.save(chain(nodes, dims=("n", 3), tensors=tensors), tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": rng.normal(size=(2, 3)).astype("f4")}])
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder, "--skip-infinite", *more)
    words = ["static", tmp_path / "m.onnx", tmp_path / "o.onnx", "--ranges", tmp_path / "r", "--op-types", "all", "--report-json", tmp_path / "report.json"]
    weir(*words, *form)
    graph = onnx.load(tmp_path / "o.onnx").graph
    assert not any("mask" in i for n in graph.node if n.op_type == "QuantizeLinear" for i in n.input)
    assert any("w_quantized" in t.name for t in graph.initializer)
    left = [n["reason"] for n in json.loads((tmp_path / "report.json").read_text())["passes"][0]["nodes"] if n["status"] == "skipped"]
    assert form == ("--compat", "onnxruntime") or left


def test_static_refuses_what_nobody_left_out(weir, tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    onnx.save(chain(nodes, dims=("n", 3), tensors=[("w", np.eye(3, dtype="f4"))]), tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": np.ones((2, 3), "f4")}])
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder)
    lines = (tmp_path / "r").read_text().splitlines()
    cache = {"h": [0.0, 3.0], "y": [0.0, 9.0]}
    (tmp_path / "cache.json").write_text(json.dumps({name: {"CLS": "TensorData", "lowest": low, "highest": high} for name, (low, high) in cache.items()}))
    assert len(lines) == 5
    said = weir("static", tmp_path / "m.onnx", tmp_path / "o.onnx", "--ranges", tmp_path / "cache.json", code=None)
    assert said.code in (65, 66) and not (tmp_path / "o.onnx").exists()


def test_strings_of_any_length(weir, tmp_path):
    """Samples with strings: their digest is of the strings, not of what is behind them in a file's rows."""
    text = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in ("s", "t")]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y"))
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Identity", ["s"], ["t"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [x, text[0]], [y, text[1]]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    digests = []
    for number, lists in enumerate([(["longer", "c"], ["é", "ab"], ["", "abc"]), (["x", "y"], ["ab", "c"], ["", ""])]):
        arrays = [{"x": np.array([-1 - i, 1 + i], "f4"), "s": np.array(list_of)} for i, list_of in enumerate(lists)]
        forms = [put_samples(tmp_path / f"npz{number}", arrays), tmp_path / f"pb{number}"]
        for i, sample in enumerate(arrays):
            (forms[1] / f"test_data_set_{i}").mkdir(parents=True)
            for j, value in enumerate((sample["x"], sample["s"].astype(object))):
                (forms[1] / f"test_data_set_{i}" / f"input_{j}.pb").write_bytes(numpy_helper.from_array(value).SerializeToString())
        for folder in forms:
            weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder, "-f")
            rows, head = read(tmp_path / "r")
            assert {name: ends(row) for name, row in rows.items()} == {"x": (-3, 3), "y": (0, 3)}
            digests.append(head["samples"]["sha256"])
    assert digests[0] == digests[1] != digests[2] == digests[3]


def test_values_in_bodies_are_named(weir, tmp_path):
    body = helper.make_graph(
        [helper.make_node("Tanh", ["x"], ["inside"])], "then", [], [helper.make_tensor_value_info("inside", TensorProto.FLOAT, None)]
    )
    other = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["else"])], "else", [], [helper.make_tensor_value_info("else", TensorProto.FLOAT, None)]
    )
    model = chain([helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=other)], tensors=[("c", np.array(True))])
    onnx.save(model, tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": np.ones((2, 2), "f4")}])
    done = weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder)
    assert "not covered: 2 values in bodies of If, Loop or Scan" in done.out
    assert sorted(read(tmp_path / "r")[0]) == ["x", "y"]


def test_values_without_elements(weir, tmp_path):
    onnx.save(chain([helper.make_node("Tanh", ["x"], ["y"])]), tmp_path / "m.onnx")
    empty = put_samples(tmp_path / "s", [{"x": np.ones((0, 2), "f4")}])
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", empty)
    assert [read(tmp_path / "r")[0][name].get("elements", 0) for name in "xy"] == [0, 0]
    np.savez(empty / "01.npz", x=np.array([[1, 2]], "f4"))
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "-f", "--data", empty, "--method", "percentile")
    assert read(tmp_path / "r")[0]["x"]["elements"] == 2


# ---- where weights lie -------------------------------------------------------------------------------


@pytest.mark.parametrize("external", [False, True])
def test_weights_stay_where_they_are(weir, tmp_path, external):
    """In a data file with an odd name, in the .onnx itself; the scratch folder holds a small model and is gone in the end."""
    here = tmp_path / "a folder, with 'letters'"
    here.mkdir()
    model = linear(300, 200, 17)
    w = numpy_helper.to_array(model.graph.initializer[0])
    onnx.save(model, here / "m.onnx", save_as_external_data=external, location="w b.bin", size_threshold=0)
    folder = put_samples(tmp_path / "s", [{"x": np.eye(300, dtype="f4")}])
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = weir("calibrate", here / "m.onnx", "-o", tmp_path / "r", "--data", folder, "--json", env={"TMPDIR": str(scratch)})
    assert done.json()["temporary_bytes"] == 0 and not list(scratch.iterdir())
    y = np.tanh(np.eye(300, dtype="f4")) @ w
    assert np.allclose(ends(read(tmp_path / "r")[0]["y"]), (y.min(), y.max()), rtol=1e-5)


def test_a_model_as_passes_leave_it(weir, tmp_path):
    """Weights that a pass changed are written for the time of the run, and that is said."""
    model = tmp_path / "m.onnx"
    onnx.save(linear(300, 200, 17), model)
    folder = put_samples(tmp_path / "s", [{"x": np.eye(300, dtype="f4")}])
    passes = ["--pass", "quantize:bits=8,block_size=32,format=qdq"]
    done = weir("calibrate", model, "-o", tmp_path / "r", "--data", folder, *passes, "--json")
    assert done.json()["temporary_bytes"] >= 300 * 200 and "weights that passes changed" in done.err
    weir("quantize", model, tmp_path / "q.onnx", "--bits", "8", "--block-size", "32", "--format", "qdq")
    weir("calibrate", tmp_path / "q.onnx", "-o", tmp_path / "direct", "--data", folder)
    rows, head = read(tmp_path / "r")
    assert [each["name"] for each in head["passes"]] == ["quantize"]
    assert rows == read(tmp_path / "direct")[0]


def test_drawn_samples(weir, tmp_path):
    model = EXPORTS / "cnn-kept-dynamo-18.onnx"
    texts = []
    for seed in ("1", "1", "2"):
        weir("calibrate", model, "-o", tmp_path / "r", "-f", "--generate", "2", "--seed", seed)
        texts.append((tmp_path / "r").read_text())
    assert texts[0] == texts[1] != texts[2]


# ---- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sample, says",
    [
        ({"x": np.ones((2, 30), "f8")}, "double"),
        ({"x": np.ones((2, 30, 1), "f4")}, "dims"),
        ({"x": np.ones((2, 31), "f4")}, "31"),
        ({"z": np.ones((2, 30), "f4")}, "'z'"),
        ({}, "x"),
    ],
)
def test_samples_that_do_not_fit(weir, tmp_path, sample, says):
    """Before the first run, with file and input."""
    onnx.save(linear(30, 3, 17), tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": np.ones((2, 30), "f4")}, sample])
    refused = weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder, code=66).err
    assert "01.npz" in refused and says in refused
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "s"]


def test_what_is_refused(weir, tmp_path):
    onnx.save(linear(30, 3, 17), tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": np.ones((2, 30), "f4")}])
    empty = tmp_path / "empty"
    empty.mkdir()
    words = ["calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r"]
    assert "needs samples" in weir(*words, code=2).err
    assert "-o" in weir("calibrate", tmp_path / "m.onnx", "--data", folder, code=2).err
    weir(*words, "--data", empty, code=66)
    weir(*words, "--data", tmp_path / "nothing", code=66)
    weir(*words, "--data", folder, "--method", "median", code=2)
    weir(*words, "--data", folder, "--bins", "10", "--method", "entropy", code=2)
    assert "at most 16384" in weir(*words, "--data", folder, "--bins", "16385", "--method", "entropy", code=2).err
    weir(*words, "--data", folder, "--onnxruntime", tmp_path / "none.so", code=69)
    weir(*words, "--data", folder)
    assert "--force" in weir(*words, "--data", folder, code=2).err
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "m.onnx", "-f", "--data", folder, code=2)
    weir("calibrate", tmp_path / "m.onnx", "-o", empty, "-f", "--data", folder, code=2)


def test_a_model_that_the_runtime_does_not_load(weir, tmp_path):
    model = chain([helper.make_node("Nothing", ["x"], ["y"], domain="no.such")])
    model.opset_import.append(helper.make_opsetid("no.such", 1))
    onnx.save(model, tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": np.ones((2, 2), "f4")}])
    assert "cannot load" in weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder, code=1).err


def test_what_the_runtime_refuses_names_the_sample(weir, tmp_path):
    nodes = [helper.make_node("Reshape", ["x", "four"], ["f"]), helper.make_node("Tanh", ["f"], ["y"])]
    onnx.save(chain(nodes, tensors=[("four", np.array([4]))]), tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": np.ones((2, 2), "f4")}, {"x": np.ones((3, 2), "f4")}])
    refused = weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder, code=66).err
    assert "sample '01.npz': ONNX Runtime" in refused and f"'{tmp_path}/m.onnx'" in refused


def test_weir_itself_stays_small(weir, tmp_path):
    """What it holds are sums, and a little of what comes back: here of 100 MB that one run gives."""
    names = ["x", *(f"h{number}" for number in range(199)), "y"]
    onnx.save(chain([helper.make_node("Neg", [a], [b]) for a, b in zip(names, names[1:])]), tmp_path / "m.onnx")
    folder = put_samples(tmp_path / "s", [{"x": np.ones((128, 1000), "f4")}])
    said = weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r", "--data", folder, "--method", "percentile", "--json").json()
    assert said["runs"] == 2 and said["values"] == 201
    assert said["peak_memory_bytes"] < 50_000_000 < 100_000_000 < said["runtime_peak_memory_bytes"]


def test_killed_between_its_renames(weir, weir_fault, tmp_path):
    """Of what a killed run had placed the same command knows that it is its own, and of nothing else."""
    source, ranges, cache = DATA / "parakeet-torchscript" / "encoder-model.onnx", tmp_path / "r.jsonl", tmp_path / "cache"
    words = ["calibrate", source, "-o", ranges, "--generate", "1", "--statistics", "gram"]
    whole = tmp_path / "whole"
    whole.mkdir()
    weir(*words[:3], whole / "r.jsonl", *words[4:], "--cache", whole / "cache")
    log = tmp_path / "log"
    weir_fault(*words, "--cache", cache, env={"WEIR_FAULT_LOG": str(log)})
    [placed] = [n for n, line in enumerate(log.read_text().splitlines()) if line.split()[1] == "renameat2" and line.endswith("r.jsonl.data")]
    for path in (ranges, cache, Path(f"{ranges}.data")):
        path.unlink()
    weir_fault(*words, "--cache", cache, env={"WEIR_FAULT": f"kill:{placed + 1}"}, code=-9)
    [staging] = tmp_path.glob(".r.jsonl.*.weir")
    (staging / "data").rename(f"{ranges}.data")  # as far as the next call
    other = tmp_path / "other"
    other.write_text("mine")
    assert f"'{other}' exists" in weir(*words, "--cache", other, code=2).err and other.read_text() == "mine"
    weir(*words, "--cache", cache)
    for path in (ranges, cache, Path(f"{ranges}.data")):
        assert path.read_bytes() == (whole / path.name).read_bytes()


def test_a_place_that_cannot_be_is_known_before(weir, tmp_path):
    source = DATA / "parakeet-torchscript" / "encoder-model.onnx"
    words = ["calibrate", source, "-o", tmp_path / "r.jsonl", "--generate", "1", "--statistics", "gram"]
    weir(*words, "--cache", tmp_path / "nowhere" / "cache", code=2)
    assert not list(tmp_path.iterdir())
    weir(*words)
