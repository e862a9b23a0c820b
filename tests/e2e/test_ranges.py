"""Ranges of values beside those of onnxruntime.quantization: its collectors are given the same arrays, and files of ranges are
read by it and written by it. Numbers are compared bit by bit."""

import contextlib
import io
import json
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from jsonschema.exceptions import ValidationError
from onnxruntime import quantization
from onnxruntime.quantization import calibrate

from conftest import built_tool
from test_documents import is_valid

pytestmark = pytest.mark.in_memory
TOOL = built_tool("ranges_tool")


def run(*words):
    return subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True)


def ours(folder, samples, method, bins=0, flags="-"):
    """Range, mean and deviation."""
    paths = []
    for i, x in enumerate(samples):
        paths.append(folder / f"{i:04}.npy")
        np.save(paths[-1], x)
    done = run("find", method, bins, flags, *paths)
    assert done.returncode == 0, done.stderr
    return [float.fromhex(word) for word in done.stdout.split()[1:]]


def theirs(samples, method, bins, symmetric, percentile=99.999):
    """The same of theirs; None where it fails: it wants bins that all have a width, and not too many that are empty."""
    collector = calibrate.HistogramCollector(method, symmetric, bins, 128, percentile, "same")
    try:
        with contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
            collector.collect({"x": samples})
            found = collector.compute_collection_result()["x"]
    except (AssertionError, ValueError):
        return None
    if method == "distribution":
        return [float(x) for x in (found.lowest, found.highest, found.avg, found.std)]
    low, high = settled(float(found[0]), float(found[1]))
    return [low, high, 0.0, 0.0]


def settled(low, high):
    """Of values in one or two bins away from 0 its range is turned over: quantized is the range with 0 in it."""
    if low > high:
        low = high = high if high > 0 else min(low, 0.0)
    return low, high


def draw(rng, dtype, equal_shapes=False):
    """Samples as activations have them: bells, tails, what a Relu leaves, few different numbers, very large and very small."""
    shape = (int(rng.integers(1, 40)), int(rng.integers(1, 60)))
    kind = rng.integers(6)
    scale = 10.0 ** int(rng.integers(-3, 4))
    samples = []
    for _ in range(int(rng.integers(1, 8))):
        x = rng.standard_normal(shape)
        if kind == 1:
            x = np.maximum(x, 0)
        elif kind == 2:
            x = x * np.where(rng.random(shape) < 0.02, 50, 1)
        elif kind == 3:
            x = np.round(x * 3)
        elif kind == 4:
            x = x + 5
        elif kind == 5:
            x = -np.abs(x) ** 3
        samples.append((x * scale).astype(dtype))
    return samples


def compare(folder, samples, rng, counts):
    """One of each method; counts: how often there was something to compare."""
    entropy_bins, bins = int(rng.choice([128, 129, 200, 512])), int(rng.choice([512, 1000, 2048]))
    percentile = float(rng.choice([99.999, 99.9, 99, 90, 100, 50]))
    for method, n, flags, words in (
        ("entropy", entropy_bins, "-", "entropy"),
        ("percentile", bins, "s", f"percentile={percentile}"),
        ("percentile", bins, "-", f"percentile={percentile}"),
        ("distribution", bins, "-", "distribution"),
    ):
        wanted = theirs(samples, method, n, flags == "s", percentile)
        got = ours(folder, samples, words, n, flags)
        if wanted is not None:
            assert got == wanted, (method, n, flags, percentile)
            counts[method] = counts.get(method, 0) + 1


@pytest.mark.parametrize("seed", range(6))
def test_histograms_are_those_of_onnxruntime(tmp_path, seed):
    rng, counts = np.random.default_rng(seed), {}
    for _ in range(8):
        compare(tmp_path, draw(rng, np.float32), rng, counts)
    assert counts["percentile"] >= 8 and counts["entropy"] >= 3 and counts["distribution"] >= 6


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_extremes_and_their_means_are_those_of_numpy(tmp_path, dtype):
    rng = np.random.default_rng(7)
    for n in (1, 2, 7, 8, 9, 31, 128, 130):
        samples = [(rng.standard_normal(20) * 3).astype(dtype) for _ in range(n)]
        samples[n // 2][:3] = np.nan
        least, most = [[f(x) for x in samples] for f in (np.nanmin, np.nanmax)]
        low, high = (f([[x] for x in xs], axis=0)[0] for f, xs in ((np.nanmean, least), (np.nanmean, most)))
        assert ours(tmp_path, samples, "minmax")[:2] == [min(least), max(most)]
        assert ours(tmp_path, samples, "minmax", 0, "m")[:2] == [float(low), float(high)]
        magnitude = float(max(abs(low), abs(high)))
        assert ours(tmp_path, samples, "minmax", 0, "ms")[:2] == [-magnitude, magnitude]


def test_half_precision_has_its_own_edges(tmp_path):
    rng, n = np.random.default_rng(3), 0
    for _ in range(20):
        samples = [x for x in draw(rng, np.float16) if np.isfinite(x).all()]
        if not samples:
            continue
        for method, bins in (("entropy", 128), ("entropy", 256), ("distribution", 512)):
            wanted = theirs(samples, method, bins, False)
            got = ours(tmp_path, samples, method, bins)
            if wanted is not None and np.isfinite(wanted).all():
                assert got == wanted, (method, bins)
                n += 1
    assert n > 30


def test_what_onnxruntime_cannot_do(tmp_path):
    """Samples of different shapes; NaN; half precision with bins that it has no room for; nothing at all."""
    ragged = [np.arange(6, dtype=np.float32), np.arange(4, dtype=np.float32).reshape(2, 2)]
    together = [np.concatenate([x.ravel() for x in ragged])]
    with pytest.raises(ValueError):
        theirs_of = calibrate.HistogramCollector("percentile", True, 512, 128, 99, "same")
        theirs_of.collect({"x": ragged})
    assert ours(tmp_path, ragged, "percentile=99", 512, "s") == theirs(together, "percentile", 512, True, 99)
    with_nan = [np.concatenate([together[0], np.full(3, np.nan, np.float32)])]
    assert ours(tmp_path, with_nan, "percentile=99", 512, "s") == theirs(together, "percentile", 512, True, 99)
    half = [np.linspace(-1, 1, 999).astype(np.float16)]
    assert theirs(half, "percentile", 4096, True) is None
    low, high, *_ = ours(tmp_path, half, "percentile=99", 4096, "s")
    assert (low, high) == (-float(np.float16(high)), high) and abs(high - 0.99) < 3e-3
    nothing = [np.empty((0, 3), np.float32)]
    for words in ("minmax", "percentile=99", "entropy"):
        assert ours(tmp_path, nothing, words)[:2] == [0, 0]


# ---- files ----


class Reader(calibrate.CalibrationDataReader):
    def __init__(self, samples):
        self.samples = iter(samples)

    def get_next(self):
        return next(self.samples, None)


def model_and_samples(folder, dtype=np.float32):
    """MatMul, Add, Relu, MatMul, Softmax; values of every sign."""
    rng, element = np.random.default_rng(11), onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = {"w1": rng.standard_normal((8, 16)), "b1": rng.standard_normal(16), "w2": rng.standard_normal((16, 4))}
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w1"], ["h"], "first"),
        onnx.helper.make_node("Add", ["h", "b1"], ["a"], "add"),
        onnx.helper.make_node("Relu", ["a"], ["r"], "relu"),
        onnx.helper.make_node("MatMul", ["r", "w2"], ["l"], "second"),
        onnx.helper.make_node("Softmax", ["l"], ["y"], "soft"),
    ]
    graph = onnx.helper.make_graph(
        nodes, "g", [onnx.helper.make_tensor_value_info("x", element, ["n", 8])],
        [onnx.helper.make_tensor_value_info("y", element, ["n", 4])],
        [onnx.numpy_helper.from_array(w.astype(dtype), name) for name, w in weights.items()])  # fmt: skip
    path = folder / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9), path)
    samples = [{"x": (rng.standard_normal((5, 8)) * (9 if k == 2 else 1)).astype(dtype)} for k in range(6)]
    return path, samples


METHODS = ["MinMax", "Entropy", "Percentile", "Distribution"]


def quantize(folder, name, model, samples, method, cache):
    out = folder / f"{name}.onnx"
    # Its range of Softmax, 0 to 1, has no deviation, which float8 wants.
    kind = quantization.QuantType.QFLOAT8E4M3FN if method == "Distribution" else quantization.QuantType.QInt8
    with contextlib.redirect_stdout(io.StringIO()):
        quantization.quantize_static(
            str(model), str(out), Reader(samples) if samples else None, activation_type=kind, weight_type=kind,
            calibrate_method=calibrate.CalibrationMethod[method], calibration_cache_path=cache,
            nodes_to_exclude=["soft"] if method == "Distribution" else [])  # fmt: skip
    return onnx.load(out)


def copied(form, path, out):
    done = run("copy", form, path)
    assert done.returncode == 0, done.stderr
    out.write_text(done.stdout)
    return out


@pytest.mark.parametrize("method", METHODS)
def test_caches_go_there_and_back(tmp_path, method):
    """What onnxruntime makes of a cache that we wrote is what it makes of its own, and of its own we read its own numbers."""
    model, samples = model_and_samples(tmp_path)
    cache = tmp_path / "its.json"
    wanted = quantize(tmp_path, "its", model, samples, method, cache)
    own = copied("own", cache, tmp_path / "r.jsonl")
    again = copied("cache", own, tmp_path / "ours.json")
    assert quantize(tmp_path, "ours", model, None, method, again).SerializeToString() == wanted.SerializeToString()
    theirs_data, rows = calibrate.load_tensors_data(cache), [json.loads(x) for x in own.read_text().splitlines()]
    assert rows[0]["method"] == method.lower()
    assert [row["value"] for row in rows[1:-1]] == list(theirs_data.keys())
    for row in rows[1:-1]:
        data = theirs_data[row["value"]]
        assert row["type"] == "float"
        assert [float.fromhex(row[key]) for key in ("min", "max")] == [float(np.ravel(x)[0]) for x in data.range_value]
        if method == "Distribution":
            assert [float.fromhex(row[key]) for key in ("mean", "deviation")] == [float(x) for x in data.avg_std]
    # The control arm: another number is another model.
    text = again.read_text()
    data = json.loads(text)["data"]["l"]
    key = "std" if method == "Distribution" else "highest"
    changed = json.loads(text)
    changed["data"]["l"][key]["data"] = np.multiply(data[key]["data"], 2).tolist()
    (tmp_path / "changed.json").write_text(json.dumps(changed))
    other = quantize(tmp_path, "other", model, None, method, tmp_path / "changed.json")
    assert other.SerializeToString() != wanted.SerializeToString()


def test_half_precision_caches(tmp_path):
    model, samples = model_and_samples(tmp_path, np.float16)
    wanted = quantize(tmp_path, "its", model, samples, "MinMax", tmp_path / "its.json")
    again = copied("cache", copied("own", tmp_path / "its.json", tmp_path / "r.jsonl"), tmp_path / "ours.json")
    assert '"float16"' in again.read_text()
    assert quantize(tmp_path, "ours", model, None, "MinMax", again).SerializeToString() == wanted.SerializeToString()


def test_tables_of_tensorrt(tmp_path):
    scales = {"x": np.float32(0.01), "a: b": np.float32(0.37)}
    path = tmp_path / "t.cache"
    path.write_text("TRT-8501-EntropyCalibration2\n" + "".join(f"{k}: {v.view(np.uint32):08x}\n" for k, v in scales.items()))
    cache = calibrate.load_tensors_data(copied("cache", path, tmp_path / "c.json"))
    for name, scale in scales.items():
        most = float(scale * np.float32(127))
        assert [float(x) for x in cache[name].range_value] == [-most, most]


def test_lines_are_as_the_schema_says(tmp_path):
    """All that a file can hold, from the corpus of the fuzzer."""
    corpus = Path(__file__).parents[1] / "fuzz" / "corpus" / "fuzz_ranges"
    (tmp_path / "r").write_bytes((corpus / "own-whole").read_bytes())
    (tmp_path / "r.data").write_bytes(bytes(200))
    done = run("copy", "own", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    lines = [is_valid(json.loads(line), "ranges") for line in done.stdout.splitlines()]
    assert {key for line in lines for key in line} >= {"weir_ranges", "histogram", "channels", "gram", "deviation", "end"}
    for wrong in ({"end": 1}, {**lines[1], "min": -1.0}, {**lines[1], "other": 1}, {**lines[0], "weir_ranges": 2}):
        with pytest.raises(ValidationError):
            is_valid(wrong, "ranges")


def test_order_and_cuts_change_nothing(tmp_path):
    """Samples in any order, elements in any place, samples cut in two: one range. (Theirs depends on the order of collects.)"""
    rng = np.random.default_rng(21)
    for _ in range(6):
        samples = draw(rng, rng.choice([np.float32, np.float16]))
        for words, bins in (("minmax", 0), ("entropy", 512), ("percentile=99.9", 2048), ("distribution", 512)):
            found = set()
            for turn in range(3):
                (folder := tmp_path / f"{turn}").mkdir(exist_ok=True)
                order = rng.permutation(len(samples))
                shuffled = [rng.permutation(samples[i].ravel()) for i in order]
                cut = int(rng.integers(1, shuffled[0].size)) if shuffled[0].size > 1 else 1
                shuffled = [shuffled[0][:cut], *shuffled[1:], shuffled[0][cut:]]
                found.add(tuple(ours(folder, [x for x in shuffled if x.size], words, bins)))
                for path in folder.iterdir():
                    path.unlink()
            assert len(found) == 1, (words, bins)
