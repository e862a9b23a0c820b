"""Measurements against numpy, what they do not depend on, and what is decided by them: budgets, gates, weights that are
not finite; stages that were interrupted, and stages that a replay makes again."""

import csv
import io
import itertools
import json
import os
import shutil
import signal

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import compare
import peaks
from conftest import ALL, DATA, program

SCHEMES = [f"{bits}:{block}{how}" for bits in (2, 4, 8) for block in (16, 32, 64, 128, 256) for how in ("", ":sym")]
DYNAMO = DATA / "parakeet-dynamo" / "encoder-model.onnx"


# ---- the formulas, in numpy ----------------------------------------------------------------------


def half_away(x):
    whole = np.trunc(x)
    return (whole + np.copysign(np.abs(x - whole) >= 0.5, x)).astype(np.float32)


def quantize_block(block, bits, symmetric):
    """What the codes of one block of every column stand for: block is [rows, columns], float32."""
    qmax, half = np.float32(2**bits - 1), np.float32(2 ** (bits - 1))
    low, high = block.min(axis=0), block.max(axis=0)
    if symmetric:
        scale = -np.where(np.abs(high) > np.abs(low), high, low) / half
        zero = np.full_like(scale, half)
    else:
        low, high = np.minimum(low, np.float32(0)), np.maximum(high, np.float32(0))
        scale = (high - low) / qmax
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = np.where(scale != 0, np.float32(0) - low / scale, low)
        zero = np.clip(half_away(exact), 0, qmax)
    return scale.astype(np.float32), zero.astype(np.float32)


def dequantized(w, bits, block, symmetric, half_scales=False):
    """[K, N] float32 as MLAS's blockwise quantization leaves it."""
    out = np.empty_like(w)
    for k in range(0, w.shape[0], block):
        part = w[k : k + block]
        scale, zero = quantize_block(part, bits, symmetric)
        if half_scales:
            scale = scale.astype(np.float16).astype(np.float32)
        with np.errstate(divide="ignore"):
            inverse = np.where(scale != 0, np.float32(1) / scale, np.float32(0)).astype(np.float32)
        codes = np.clip(half_away(part * inverse + zero), 0, np.float32(2**bits - 1))
        out[k : k + block] = (codes - zero) * scale
    return out


def column_sums(products, block):
    """Sums over every column as the kernels add them up: in double over pieces of a block, at most 256 elements each;
    a piece in eight lanes of float32."""
    total = np.zeros(products.shape[1])
    for start in range(0, len(products), block):
        whole = products[start : start + block]
        for at in range(0, len(whole), 256):
            piece = whole[at : at + 256]
            lanes = np.zeros((8, products.shape[1]), np.float32)
            for k in range(0, len(piece), 8):
                lanes[: len(piece[k : k + 8])] += piece[k : k + 8]
            x = lanes
            total += ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))
    return total


def figures(w, was, block):
    """Sums of float32 products, and what follows: of formats whose codes are packed by column."""
    e = w - was
    vv, ee, ve = (column_sums(products, block).sum() for products in (w * w, e * e, w * e))
    exact = (e.astype(np.float64) ** 2).sum()
    assert ee == pytest.approx(exact, rel=1e-6)
    return what_follows(w, e, vv, ee, ve)


def exact_figures(w, was):
    """Of the others, what codes stand for being rounded: in double."""
    w = w.astype(np.float64)
    e = w - was.astype(np.float64)
    return what_follows(w, e, *((a * b).sum() for a, b in ((w, w), (e, e), (w, e))))


def what_follows(w, e, vv, ee, ve):
    return {
        "sum_vv": vv,
        "sum_ee": ee,
        "sum_ve": ve,
        "max_abs_error": float(np.abs(e).max()),
        "rmse": np.sqrt(ee / w.size),
        "sqnr_db": 10 * np.log10(vv / ee),
        "cosine": (vv - ve) / np.sqrt(vv * (vv - 2 * ve + ee)),
    }


def scheme(words):
    bits, block, *how = words.split(":")
    return int(bits), int(block), how == ["sym"]


def measured(weir, model, *options):
    done = weir("measure", model, "--json", *options).json()
    return {w["name"]: {c["candidate"]: c for c in w["candidates"]} for w in done["weights"]}, done


def close(got, want, largest):
    """Sums to 1e-9 of what they are made of: v*e cancels, so it is measured by the largest sum."""
    assert abs(got["sum_ve"] - want["sum_ve"]) <= 1e-9 * largest
    for key in ("sum_vv", "sum_ee", "rmse", "sqnr_db", "cosine", "max_abs_error"):
        assert got[key] == pytest.approx(want[key], rel=1e-9), key


# ---- models --------------------------------------------------------------------------------------


def matmul_model(weights, path, dtype=np.float32):
    """x @ w + ... for every weight, each of [K, N]; inline."""
    nodes, inputs, outputs, tensors = [], [], [], []
    for name, w in weights.items():
        inputs.append(helper.make_tensor_value_info(f"x_{name}", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), ["b", w.shape[0]]))
        outputs.append(helper.make_tensor_value_info(f"y_{name}", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None))
        nodes.append(helper.make_node("MatMul", [f"x_{name}", name], [f"y_{name}"], name=f"mm_{name}"))
        tensors.append(numpy_helper.from_array(w.astype(dtype), name))
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(7)
    return {
        "normal": rng.standard_normal((300, 70), dtype=np.float32),
        "thin": rng.standard_normal((33, 5), dtype=np.float32),
        "positive": rng.random((256, 40), dtype=np.float32) + np.float32(0.5),
        "spiky": (rng.standard_normal((512, 64)) ** 5).astype(np.float32),
    }


@pytest.fixture(scope="module")
def model(weights, tmp_path_factory):
    return matmul_model(weights, tmp_path_factory.mktemp("measure") / "m.onnx")


# ---- figures -------------------------------------------------------------------------------------


def test_figures_equal_numpy(weir, model, weights):
    got, _ = measured(weir, model, "--candidates", ",".join(SCHEMES))
    assert set(got) == set(weights)
    for name, words in itertools.product(weights, SCHEMES):
        want = figures(weights[name], dequantized(weights[name], *scheme(words)), scheme(words)[1])
        close(got[name][words], want, want["sum_vv"])


def test_figures_of_float16(weir, weights, tmp_path):
    halves = {name: w.astype(np.float16) for name, w in weights.items()}
    got, _ = measured(weir, matmul_model(halves, tmp_path / "h.onnx", np.float16), "--candidates", "4:32,8:64:sym")
    for name, words in itertools.product(halves, ("4:32", "8:64:sym")):
        w = halves[name].astype(np.float32)
        want = figures(w, dequantized(w, *scheme(words), half_scales=True), scheme(words)[1])
        close(got[name][words], want, want["sum_vv"])


def test_bytes_are_those_of_the_tensors(weir, model, tmp_path):
    """Codes, scales and zero points as quantize writes them."""
    got, _ = measured(weir, model, "--candidates", "4:32,8:128:sym,2:16")
    for words in ("4:32", "8:128:sym", "2:16"):
        bits, block, symmetric = scheme(words)
        out = tmp_path / f"{bits}.onnx"
        weir("quantize", model, out, "--bits", str(bits), "--block-size", str(block), *(["--symmetric"] * symmetric))
        tensors = {t.name: numpy_helper.to_array(t).nbytes for t in onnx.load(out).graph.initializer}
        for name in got:
            assert sum(n for t, n in tensors.items() if t.startswith(f"{name}_")) == got[name][words]["bytes"]


@pytest.mark.parametrize("options", [["--jobs", "1"], ["--jobs", "3"], ["--memory", "2M", "--jobs", "1"], ["--io", "sync"], ["--io", "null"]])
def test_nothing_else_matters(weir, small_encoder, options):
    words = ["--candidates", "4:64,8:32:sym"]
    assert measured(weir, small_encoder, *words, *options)[1] == measured(weir, small_encoder, *words)[1]


def test_one_read(weir, small_encoder):
    """Every weight is read once, however many candidates."""
    _, done = measured(weir, small_encoder, "--candidates", ",".join(SCHEMES))
    assert done["source_bytes_read"] == sum(w["bytes"] for w in done["weights"]) > 1_000_000


def test_memory(one_layer):
    """Within --memory and what a program takes, for weights of 16 MiB; the control arm reads all of it first."""
    words = [program("WEIR"), "measure", one_layer, "--candidates", "4:64,8:128", "--quiet", "--csv"]
    done = peaks.run([*words, "--memory", "8M"], timeout=300)
    whole = peaks.run([*words, "--io", "load"], timeout=300)
    assert done.code == whole.code == 0 and done.out == whole.out
    assert done.peak_bytes <= (8 + 16 + 4) << 20 < 64 << 20 < whole.peak_bytes


def test_selection_and_forms(weir, small_encoder):
    every, done = measured(weir, small_encoder)
    some = sorted(every)[:2]
    only, _ = measured(weir, small_encoder, *itertools.chain.from_iterable(("--include", name) for name in some))
    assert only == {name: every[name] for name in some}
    rest, _ = measured(weir, small_encoder, *itertools.chain.from_iterable(("--exclude", name) for name in some))
    assert rest == {name: row for name, row in every.items() if name not in some}
    rows = list(csv.DictReader(io.StringIO(weir("measure", small_encoder, "--csv").out)))
    assert len(rows) == sum(len(row) for row in every.values())
    for row in rows:
        assert float(row["sqnr_db"]) == every[row["weight"]][row["candidate"]]["sqnr_db"]
        assert int(row["bytes"]) == every[row["weight"]][row["candidate"]]["bytes"]
    assert done["totals"][0]["sum_ee"] == pytest.approx(sum(r[done["totals"][0]["candidate"]]["sum_ee"] for r in every.values()))


def test_channel_with_qdq(weir, weights, tmp_path):
    """One scale a column: codes are rounded before the zero point is added."""
    model = matmul_model(weights, tmp_path / "m.onnx")
    got, _ = measured(weir, model, "--candidates", "8:channel", "--format", "qdq")
    for name, w in weights.items():
        scale, zero = quantize_block(w, 8, False)
        codes = np.clip(half_away(w * (np.float32(1) / scale)) + zero, 0, 255).astype(np.float32)
        want = exact_figures(w, (codes - zero) * scale)
        close(got[name]["8:channel"], want, want["sum_vv"])
    assert weir("measure", model, "--candidates", "8:channel", code=2).err


def test_chosen_figures_are_those_of_the_run(weir, small_encoder, tmp_path):
    """What is measured before is what the run finds while it writes, to the last bit."""
    report = weir.report("quantize", small_encoder, tmp_path / "out.onnx", "--budget", "1M", "--candidates", "4:128,4:32,8:64")
    [step] = report["passes"]
    chosen = {n["tensor"]: n["chosen"] for n in step["nodes"] if "chosen" in n}
    errors = {t["name"]: t["error"] for t in step["tensors"]}
    assert chosen and set(chosen) == set(errors)
    for name, error in errors.items():
        assert error["sqnr_db"] == chosen[name]["sqnr_db"] and error["max_abs"] == chosen[name]["max_abs"]


KEYS = ("cosine", "max_abs", "rmse", "sqnr_db")


@pytest.mark.parametrize("words", ["4:128", "2:32", "8:64:sym"])
@pytest.mark.parametrize("kind", [["--format", "qdq"], ["--op-types", "MatMul,Gemm,Gather"], ["--format", "qdq", "--op-types", "MatMul,Gather"]])
def test_measured_is_what_the_run_reports(weir, small_encoder, tmp_path, kind, words):
    """All figures of all weights, whatever the format, beside other candidates or alone, to the last bit."""
    alone, _ = measured(weir, small_encoder, *kind, "--candidates", words)
    among, _ = measured(weir, small_encoder, *kind, "--candidates", f"4:16,{words},8:256", "--memory", "6M", "--jobs", "2")
    bits, block, sym = scheme(words)
    how = ["--bits", str(bits), "--block-size", str(block), *(["--symmetric"] * sym), *kind]
    _, report = quantized(weir, small_encoder, tmp_path / "out", *how)
    errors = {t["name"]: t["error"] for t in report["passes"][0]["tensors"]}
    assert errors and set(errors) <= set(alone)
    for name, error in errors.items():
        for row in (alone[name][words], among[name][words]):
            assert [error[key] for key in KEYS] == [row[key] for key in ("cosine", "max_abs_error", "rmse", "sqnr_db")]


# ---- other algorithms, tables ---------------------------------------------------------------------

ALGORITHMS = ("rtn", "k_quant", "hqq")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithm_is_that_of_the_run(weir, small_encoder, tmp_path, algorithm):
    """Every figure of every weight, to the last bit; the default algorithm, as a control, gives others (asymmetric, rtn
    and it mostly agree)."""
    plain = "4:32:sym" if algorithm == "rtn" else "4:32"
    words = f"{plain}:{algorithm}"
    rows, _ = measured(weir, small_encoder, "--candidates", f"{plain},{words}")
    how = ["--algorithm", algorithm, "--block-size", "32", *(["--symmetric"] * (algorithm == "rtn"))]
    _, report = quantized(weir, small_encoder, tmp_path / "out", *how)
    errors = {t["name"]: t["error"] for t in report["passes"][0]["tensors"]}
    assert set(errors) == set(rows)
    for name, error in errors.items():
        row = rows[name][words]
        assert [error[key] for key in ("cosine", "max_abs", "rmse", "sqnr_db")] == [
            row[key] for key in ("cosine", "max_abs_error", "rmse", "sqnr_db")
        ]
        assert row["algorithm"] == algorithm and row["sum_ee"] != rows[name][plain]["sum_ee"]


@pytest.mark.parametrize("options", [["--jobs", "1"], ["--memory", "2M", "--jobs", "1"], ["--io", "null"]])
def test_algorithms_do_not_depend_on_how(weir, model, options):
    words = ["--candidates", "4:64:rtn,2:256:k_quant,4:128:hqq,8:32:sym:rtn"]
    assert measured(weir, model, *words, *options)[1] == measured(weir, model, *words)[1]


def dequantize_nbits(tensors, name, shape, block):
    """The floats that MatMulNBits makes of 4 bit codes, by whatever names its tensors have."""
    codes, scales, zeros = (
        next(t for key, t in tensors.items() if key.startswith(f"{name}_") and key.endswith(ends))
        for ends in (("_Q4", "_Q4G64"), ("_scales", "_scale"), ("_zero_points", "_zp"))
    )
    k, n = shape
    blocks = codes.shape[1]
    nibbles = np.stack([codes & 15, codes >> 4], axis=-1).reshape(n, blocks, block).astype(np.float32)
    if zeros.dtype == np.uint8:
        packed = zeros.reshape(n, -1)
        zeros = np.stack([packed & 15, packed >> 4], axis=-1).reshape(n, -1)[:, :blocks]
    steps = nibbles - zeros.reshape(n, blocks, 1).astype(np.float32)
    return (steps * scales.reshape(n, blocks, 1)).reshape(n, blocks * block)[:, :k].T


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithm_against_numpy(weir, model, weights, tmp_path, algorithm):
    """Figures of the codes that are written, computed by numpy."""
    rows, _ = measured(weir, model, "--candidates", f"4:64:{algorithm}")
    out, _ = quantized(weir, model, tmp_path / "out", "--algorithm", algorithm, "--block-size", "64")
    tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load(out).graph.initializer}
    for name, w in weights.items():
        want = figures(w, dequantize_nbits(tensors, name, w.shape, 64), 64)
        close(rows[name][f"4:64:{algorithm}"], want, want["sum_vv"])


def picks_of(report):
    return {n["tensor"]: n["chosen"] for n in report["passes"][0]["nodes"] if "chosen" in n}


def test_budget_mixes_algorithms(weir, small_encoder, tmp_path):
    """Picked figures are those of the run; the sum is no worse than with fewer candidates."""
    plain, mixed = "4:128,4:32", "4:128,4:32,4:128:hqq,4:128:k_quant,4:32:rtn"
    rows, _ = measured(weir, small_encoder, "--candidates", mixed)
    sums = {}
    for words in (plain, mixed):
        out, report = quantized(weir, small_encoder, tmp_path / str(len(words)), "--budget", "1M", "--candidates", words)
        picks, errors = picks_of(report), {t["name"]: t["error"] for t in report["passes"][0]["tensors"]}
        assert set(picks) == set(rows) == set(errors) and size_of(out) <= 1 << 20
        for name, pick in picks.items():
            assert errors[name]["sqnr_db"] == pick["sqnr_db"] == rows[name][pick["scheme"]]["sqnr_db"]
        sums[words] = sum(rows[name][pick["scheme"]]["sum_ee"] for name, pick in picks.items())
    assert sums[mixed] < sums[plain]
    assert any(pick["scheme"].count(":") == 2 for pick in picks.values())
    onnx.checker.check_model(out)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_algorithm_with_a_budget_and_a_gate(weir, model, tmp_path, algorithm):
    """Candidates are of that algorithm; 8 bits of hqq, which there are none of, by the default one."""
    four, eight = f"4:64:{algorithm}", "8:32" if algorithm == "hqq" else f"8:32:{algorithm}"
    rows, _ = measured(weir, model, "--candidates", f"{four},{eight}")
    best = {name: min(row, key=lambda words: row[words]["sum_ee"]) for name, row in rows.items()}
    _, report = quantized(weir, model, tmp_path / "a", "--algorithm", algorithm, "--budget", "100M", "--candidates", "4:64,8:32")
    assert {name: pick["scheme"] for name, pick in picks_of(report).items()} == best and eight in best.values()
    _, report = quantized(weir, model, tmp_path / "b", "--algorithm", algorithm, "--budget", "100M", "--candidates", "4:64")
    assert {pick["scheme"] for pick in picks_of(report).values()} == {four}
    _, report = quantized(weir, model, tmp_path / "c", "--algorithm", algorithm, "--block-size", "32", "--gate", "sqnr=35dB")
    assert {(pick["by"], pick["scheme"]) for pick in picks_of(report).values()} == {("gate", eight)}
    assert len(picks_of(report)) >= 3


@pytest.mark.parametrize("words", ["8:64:hqq", "4:64:sym:hqq", "4:64:rtn:hqq", "4:64:RTN"])
def test_candidates_that_there_are_not(weir, model, words):
    weir("measure", model, "--candidates", words, code=2)


def half_even_table(w, bits, block):
    """A table as GatherBlockQuantized's quantizer leaves it: true division, half to even."""
    out = np.empty(w.shape, np.float32)
    qmax = np.float32(2**bits - 1)
    for at in range(0, w.shape[1], block):
        part = w[:, at : at + block]
        low = np.minimum(part.min(axis=1, keepdims=True), np.float32(0))
        high = np.maximum(part.max(axis=1, keepdims=True), np.float32(0))
        scale = (high - low) / qmax
        zero = np.clip(np.rint(-low / scale), 0, qmax)
        codes = np.clip(np.rint(part / scale + zero), 0, qmax)
        out[:, at : at + block] = (codes - zero) * scale
    return out


def test_table_is_measured_in_its_own_arithmetic(weir, tmp_path):
    """Elements that lie half between two codes: only rounding to even gives these figures."""
    rng = np.random.default_rng(3)
    w = (rng.integers(-14, 17, (50, 96)) * 0.5).astype(np.float32)
    w[:, ::32], w[:, 1::32] = -7, 8  # scale 1 in every block of 32
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 96])
    graph = helper.make_graph([helper.make_node("Gather", ["table", "ids"], ["y"], name="g")], "g", [ids], [y], [numpy_helper.from_array(w, "table")])
    source = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), source)
    rows, _ = measured(weir, source, "--op-types", "Gather", "--candidates", "4:32")
    want = exact_figures(w, half_even_table(w, 4, 32))
    close(rows["table"]["4:32"], want, want["sum_vv"])
    away = exact_figures(w.T, dequantized(w.T.copy(), 4, 32, False))
    assert abs(away["sum_ve"] - want["sum_ve"]) > 1e-3 * want["sum_ee"]  # the control arm: ties the other way


def gathers(path, table, *axes):
    """Gather(table, ids) along each of the axes; the outputs are y0, y1, …"""
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    nodes = [helper.make_node("Gather", ["table", "ids"], [f"y{i}"], name=f"g{i}", axis=axis) for i, axis in enumerate(axes)]
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(len(axes))]
    graph = helper.make_graph(nodes, "g", [ids], outputs, [numpy_helper.from_array(table, "table")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


@pytest.mark.parametrize("columns", [8, 31, 32, 100, 128, 130, 256, 300])
def test_blocks_as_long_as_the_rows_of_a_table(weir, tmp_path, columns):
    """Blocks of 128 and 256 hold a whole row of some tables, and more than that."""
    w = np.random.default_rng(columns).standard_normal((50, columns)).astype(np.float32)
    rows, done = measured(weir, gathers(tmp_path / "m.onnx", w, 0), "--op-types", "Gather", "--candidates", "4:32,4:128,4:256")
    for block in (32, 128, 256):
        want = exact_figures(w, half_even_table(w, 4, block))
        close(rows["table"][f"4:{block}"], want, want["sum_vv"])
    assert done["source_bytes_read"] == w.nbytes


def test_tables_that_take_four_bits_only(weir, tmp_path):
    """GatherBlockQuantized has 2 and 8 bits for gathered rows of whole blocks: nothing else is measured, or picked."""
    rng = np.random.default_rng(5)
    for columns, axes, all_bits in (512, [0], True), (512, [1], False), (300, [0], False), (100, [0, 1], False):
        w = rng.standard_normal((64, columns)).astype(np.float32)
        folder = tmp_path / f"{columns}{axes}"
        folder.mkdir()
        source, op = gathers(folder / "m.onnx", w, *axes), ["--op-types", "Gather"]
        rows, _ = measured(weir, source, *op, "--candidates", "2:32,4:32,8:128")
        assert list(rows["table"]) == (["2:32", "4:32", "8:128"] if all_bits else ["4:32"])
        for name, options, otherwise in (
            ("raise", ["--gate", "sqnr=40dB"], {"gather_shape"}),
            ("budget", ["--budget", "1M"], {"quantized"}),
            ("eight", ["--budget", "1M", "--candidates", "8:128"], {"gather_shape"}),
        ):
            out, report = quantized(weir, source, folder / name, *op, *options, "--copy")
            assert {n["reason"] for n in report["passes"][0]["nodes"]} == ({"quantized"} if all_bits else otherwise)
            session = ort.InferenceSession(str(out), providers=["CPUExecutionProvider"])
            for axis, y in zip(axes, session.run(None, {"ids": np.array([3, 0, -1])})):
                assert np.abs(y - w.take([3, 0, -1], axis)).max() < 0.3


def test_two_uses_of_a_table_choose_for_themselves(weir, tmp_path):
    w = np.random.default_rng(6).standard_normal((64, 512)).astype(np.float32)
    source = gathers(tmp_path / "m.onnx", w, 0, 1)
    _, report = quantized(weir, source, tmp_path / "out", "--op-types", "Gather", "--budget", "1M")
    assert [n["chosen"]["scheme"] for n in report["passes"][0]["nodes"]] == ["8:128", "4:32"]


@pytest.mark.parametrize("order", (["rows", "product"], ["product", "rows"]))
def test_a_tied_table_is_two_weights(weir, tmp_path, order):
    """Quantized alike, it is written for MatMulNBits and for GatherBlockQuantized, which takes whole blocks alone."""
    table = numpy_helper.from_array(np.random.default_rng(7).standard_normal((4096, 48)).astype(np.float32), "table")
    nodes = {
        "rows": helper.make_node("Gather", ["table", "ids"], ["r"], "rows"),
        "product": helper.make_node("MatMul", ["x", "columns"], ["y"], "product"),
    }
    turn = helper.make_node("Transpose", ["table"], ["columns"], perm=[1, 0])
    inputs = [("ids", TensorProto.INT64, ["n"]), ("x", TensorProto.FLOAT, ["m", 48])]
    outputs = [("r", TensorProto.FLOAT, ["n", 48]), ("y", TensorProto.FLOAT, ["m", 4096])]
    graph = helper.make_graph([turn, *(nodes[name] for name in order)], "g",
                              *([helper.make_tensor_value_info(*i) for i in side] for side in (inputs, outputs)), [table])  # fmt: skip
    source = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), source)
    alike = ["--op-types", "MatMul,Gather", "--bits", "8", "--block-size", "16"]
    for candidates, budget, want in (
        ("8:32,8:128", 2_000_000, {"rows": "gather_shape", "product": "quantized"}),
        ("8:16,4:16", 440_000, {"rows": "quantized", "product": "quantized"}),  # one of 8 bits and one of 4 fit
    ):
        options = ["--budget", str(budget), "--candidates", candidates]
        out, report = quantized(weir, source, tmp_path / str(budget), *alike, *options)
        assert {n["node_name"]: n["reason"] for n in report["passes"][0]["nodes"]} == want
        assert size_of(out) <= budget
        ort.InferenceSession(str(out), providers=["CPUExecutionProvider"])


def test_a_candidate_that_no_weight_takes(weir, tmp_path):
    source = gathers(tmp_path / "m.onnx", np.ones((64, 100), np.float32), 1)
    done = weir("measure", source, "--op-types", "Gather", "--candidates", "8:64")
    assert "not measured: 1 Gather (row length not a multiple of the block size), such as g0" in done.out and "0 weights" in done.out


# ---- budgets -------------------------------------------------------------------------------------

CANDIDATES = "2:64,4:128,4:32,8:128"


def size_of(path):
    return sum(p.stat().st_size for p in path.parent.iterdir() if p.suffix in (".onnx", ".data"))


def quantized(weir, source, folder, *options):
    folder.mkdir()
    out = folder / "out.onnx"
    report = weir.report("quantize", source, out, *options)
    return out, report


def summed_error(weir, source, report):
    rows, _ = measured(weir, source, "--candidates", CANDIDATES)
    picks = {n["tensor"]: n["chosen"]["scheme"] for n in report["passes"][0]["nodes"] if "chosen" in n}
    assert set(picks) == set(rows)
    return sum(rows[name][scheme]["sum_ee"] for name, scheme in picks.items()), picks


@pytest.mark.parametrize("slack", [1.02, 1.2, 1.6, 2.5])
def test_budget_fits_and_is_no_worse_than_any_uniform(weir, small_encoder, tmp_path, slack):
    rows, _ = measured(weir, small_encoder, "--candidates", CANDIDATES)
    uniform = {}
    for words in CANDIDATES.split(","):
        bits, block, _ = scheme(words)
        out, _ = quantized(weir, small_encoder, tmp_path / words.replace(":", "-"), "--bits", str(bits), "--block-size", str(block))
        uniform[words] = (size_of(out), sum(row[words]["sum_ee"] for row in rows.values()))
    budget = int(min(size for size, _ in uniform.values()) * slack) + 65536
    out, report = quantized(weir, small_encoder, tmp_path / "out", "--budget", str(budget), "--candidates", CANDIDATES)
    assert size_of(out) <= budget
    error, picks = summed_error(weir, small_encoder, report)
    # Counted, not planned: a uniform one that all but fills the budget may be out of reach.
    fitting = [error for size, error in uniform.values() if size + 4096 <= budget]
    assert size_of(out) > 0.99 * budget or set(picks.values()) == {"8:128"}
    assert fitting and error <= min(fitting) * (1 + 1e-12)
    if slack == 1.2:
        assert len(set(picks.values())) > 1
    onnx.checker.check_model(out)


def shared_model(path, weights, nodes, size=256):
    rng = np.random.default_rng(0)
    made = [helper.make_node("MatMul", [f"v{i}", f"w{i % weights}"], [f"v{i + 1}"], f"a/rather/long/name/of/a/layer/mm{i}") for i in range(nodes)]
    tensors = [numpy_helper.from_array((rng.normal(size=(size, size)) * 0.06).astype(np.float32), f"w{i}") for i in range(weights)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name in ("v0", f"v{nodes}")]
    graph = helper.make_graph(made, "g", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("weights, nodes, size", [(1, 200, 256), (3, 90, 64), (40, 40, 16)])
def test_a_budget_that_a_candidate_fits_is_kept(weir, tmp_path, weights, nodes, size):
    """Nodes that share weights, and weights that lie in the .onnx: to the byte, with the smallest one; the refusal names
    that size."""
    source = shared_model(tmp_path / "m.onnx", weights, nodes, size)
    words = ("2:16", "4:16", "8:16")
    sizes = []
    for word in words:
        bits, block = word.split(":")
        out, _ = quantized(weir, source, tmp_path / bits, "--bits", bits, "--block-size", block)
        sizes.append(size_of(out))
    options = ("--candidates", ",".join(words))
    out, report = quantized(weir, source, tmp_path / "exact", "--budget", str(sizes[0]), *options)
    assert size_of(out) == sizes[0] and {pick["scheme"] for pick in picks_of(report).values()} == {words[0]}
    for number, (budget, least) in enumerate(((sizes[1] + 64, sizes[1]), (sizes[2] + 64, sizes[2]))):
        out, _ = quantized(weir, source, tmp_path / f"more{number}", "--budget", str(budget), *options)
        assert least <= size_of(out) <= budget
    done = weir("quantize", source, tmp_path / "no.onnx", "--budget", str(sizes[0] - 1), *options, code=1)
    assert "the smallest output that these candidates allow has " in done.err and f"({sizes[0]} bytes)" in done.err
    assert not (tmp_path / "no.onnx").exists()


def test_a_budget_counts_what_later_passes_make_of_it(weir, small_encoder, tmp_path):
    """The plan is that of the whole pipeline: what cast saves is room for more bits. Weights are read for it once."""
    passes = ["--pass", "matmulnbits:budget=900K", "--pass", "cast:to=float16"]
    report = weir.report("run", small_encoder, tmp_path / "out.onnx", *passes)
    assert 0.98 * 900 * 1024 < size_of(tmp_path / "out.onnx") <= 900 * 1024
    assert [s["name"] for s in report["weir"]["stages"]] == ["measure"]


def size_of_run(weir, source, folder, *passes):
    folder.mkdir()
    report = weir.report("run", source, folder / "out.onnx", *(word for text in passes for word in ("--pass", text)))
    return report, size_of(folder / "out.onnx")


def test_a_budget_in_a_repeat_is_that_of_one_pass(weir, small_encoder, tmp_path):
    """The round in which nothing is left to be picked says nothing of what was counted."""
    passes = "quantize:budget=900K"
    _, once = size_of_run(weir, small_encoder, tmp_path / "once", passes)
    _, again = size_of_run(weir, small_encoder, tmp_path / "again", f"repeat({passes})")
    assert once == again and 0.98 * 900 * 1024 < once <= 900 * 1024


def test_two_budgets_are_refused(weir, small_encoder, tmp_path):
    """Each is for all files of the output: none of the two would know what the other needs."""
    first, second = "quantize:budget=900K,include=*layers.0*", "quantize:budget=1.5M"
    said = "two passes set budget (900K and 1.5M), but it applies to all files of the output\nhint: set the budget for one pass only"
    words = ["--pass", first, "--pass", "tidy", "--pass"]
    for last in (second, f"repeat({second})"):
        assert said in weir("run", small_encoder, tmp_path / "o.onnx", *words, last, code=2).err
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text("passes: [quantize: {budget: 900K}, tidy, quantize: {budget: 1.5M}]")
    assert said in weir("run", small_encoder, tmp_path / "o.onnx", "--config", pipeline, code=2).err
    assert said in weir("run", tmp_path / "missing.onnx", tmp_path / "o.onnx", "--config", pipeline, code=2).err
    assert list(tmp_path.iterdir()) == [pipeline]
    report, size = size_of_run(weir, small_encoder, tmp_path / "one", first.replace("budget=900K", "bits=8"), second)
    assert size <= 1.5 * 2**20 and [s["name"] for s in report["weir"]["stages"]] == ["measure"]


def test_a_dry_run_counts_what_measuring_holds(weir, tmp_path):
    """Questions, answers and candidates of many weights are more than the index that the run is left with."""
    source = shared_model(tmp_path / "m.onnx", 1500, 1500, 16)
    words = ("quantize", source, tmp_path / "o.onnx", "--budget", "3M", "--candidates", "4:16,8:16", "--memory", "2MiB", "--jobs", "1")
    said = weir(*words, "--dry-run", "--json").json()["weir"]
    assert said["peak_memory_limit_bytes"] > said["index_bytes"] + (2 << 20) + (16 << 20)
    done = weir(*words, "--json").json()["weir"]
    assert done["index_bytes"] == said["index_bytes"] and done["peak_memory_bytes"] <= done["peak_memory_limit_bytes"]


def test_a_budget_too_small_for_convolutions_says_what_helps(weir, small_encoder, tmp_path):
    done = weir("quantize", small_encoder, tmp_path / "out.onnx", "--budget", "300K", code=1)
    assert "a budget of 300KiB is too small" in done.err and "in pointwise Conv nodes are not quantized" in done.err


def spread_model(folder, weights, others, kept):
    """Weights, the first maybe an output too, and tensors that nobody quantizes, each a little more than a MiB; in one
    data file."""
    rng = np.random.default_rng(1)
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"], f"fc{i}") for i in range(weights)]
    tensors = [numpy_helper.from_array(rng.standard_normal((512, 600), dtype=np.float32), f"w{i}") for i in range(weights)]
    for i in range(others):
        tensors.append(numpy_helper.from_array(rng.standard_normal((262145,), dtype=np.float32), f"b{i}"))
        nodes.append(helper.make_node("Neg", [f"b{i}"], [f"n{i}"], f"neg{i}"))
    outputs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["b", 600]) for i in range(weights)]
    outputs += [helper.make_tensor_value_info(f"n{i}", TensorProto.FLOAT, [262145]) for i in range(others)]
    if kept:
        outputs.append(helper.make_tensor_value_info("w0", TensorProto.FLOAT, [512, 600]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 512])
    model = helper.make_model(helper.make_graph(nodes, "g", [x], outputs, tensors), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "in.onnx", save_as_external_data=True, location="in.data", size_threshold=1024)
    return folder / "in.onnx"


@pytest.mark.parametrize("weights, others, kept", [(1, 12, False), (1, 1, True), (24, 0, False)])
def test_budget_counts_all_of_the_output(weir, tmp_path, weights, others, kept):
    """What alignment takes before every tensor, names, and a weight that stays since it is an output: from every budget
    comes a file that fits, or the word that none does."""
    source = spread_model(tmp_path, weights, others, kept)
    rows, _ = measured(weir, source, "--candidates", CANDIDATES)
    sizes = [c["bytes"] for c in rows["w0"].values()]
    rest, left = others * 4 * 262145, 4 * 512 * 600 if kept else 0
    fitted, small = 0, 0
    for number, budget in enumerate(range(rest + weights * min(sizes), rest + left + weights * max(sizes) + (2 << 20), 160_000)):
        out = tmp_path / str(number) / "out.onnx"
        out.parent.mkdir()
        done = weir("quantize", source, out, "--budget", str(budget), "--candidates", CANDIDATES, code=None)
        if done.code == 1:
            assert "is too small" in done.err, done.err
            small += 1
        else:
            assert done.code == 0 and size_of(out) <= budget, (budget, done.err)
            fitted += 1
        shutil.rmtree(out.parent)
    assert fitted > 3 and small > 0, (fitted, small)


def test_budget_too_small(weir, small_encoder, tmp_path):
    done = weir("quantize", small_encoder, tmp_path / "out.onnx", "--budget", "100k", code=1)
    assert "too small" in done.err and list(tmp_path.iterdir()) == []


def test_tensor_beats_budget(weir, small_encoder, tmp_path):
    names = sorted(measured(weir, small_encoder)[0])
    _, report = quantized(weir, small_encoder, tmp_path / "out", "--budget", "100M", "--tensor", f"{names[0]}=bits2:g16")
    chosen = {n["tensor"]: n.get("chosen") for n in report["passes"][0]["nodes"] if n["status"] == "converted"}
    assert chosen[names[0]] is None
    assert {c["scheme"] for name, c in chosen.items() if name != names[0]} == {"8:128"}


def test_tensor_beats_budget_where_it_says_the_default(weir, model, weights, tmp_path):
    _, report = quantized(weir, model, tmp_path / "out", "--budget", "100M", "--tensor", "thin=bits4:g128:asym")
    chosen = {n["tensor"]: n.get("chosen", {}).get("scheme") for n in report["passes"][0]["nodes"]}
    assert chosen == {name: None if name == "thin" else "8:128" for name in weights}


# ---- gates ---------------------------------------------------------------------------------------


def test_gate_actions(weir, model, weights, tmp_path):
    rows, _ = measured(weir, model, "--candidates", "4:32,8:32")
    ranked = sorted(rows, key=lambda name: rows[name]["4:32"]["sqnr_db"])
    limit = (rows[ranked[0]]["4:32"]["sqnr_db"] + rows[ranked[1]]["4:32"]["sqnr_db"]) / 2
    gate = ["--block-size", "32", "--gate", f"sqnr={limit}dB"]
    _, raised = quantized(weir, model, tmp_path / "raise", *gate)
    chosen = {n["tensor"]: n.get("chosen", {}).get("scheme") for n in raised["passes"][0]["nodes"]}
    assert chosen == {name: "8:32" if name == ranked[0] else None for name in rows}
    said = weir("quantize", model, tmp_path / "never.onnx", "--gate", "sqnr=200dB").err
    layers = {w["name"]: w["layer"] for w in weir("measure", model, "--candidates", "4:32", "--json").json()["weights"]}
    assert all(f"'{layers[name]}' misses the gate with 8 bits too" in said for name in rows)
    _, skipped = quantized(weir, model, tmp_path / "skip", *gate, "--gate-action", "skip")
    reasons = {n["tensor"]: n["reason"] for n in skipped["passes"][0]["nodes"]}
    assert reasons == {name: "gate" if name == ranked[0] else "quantized" for name in rows}
    failed = weir("quantize", model, tmp_path / "fail.onnx", *gate, "--gate-action", "fail", code=1)
    assert f"'{layers[ranked[0]]}' (" in failed.err and f"'{layers[ranked[1]]}' (" not in failed.err
    assert not (tmp_path / "fail.onnx").exists() and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("gate", ["cosine=0.999999", "maxabs=0.0001"])
def test_other_gates(weir, model, tmp_path, gate):
    done = weir("quantize", model, tmp_path / "out.onnx", "--gate", gate, "--gate-action", "fail", code=1)
    assert "4 of 4 weights" in done.err


def test_nonfinite(weir, weights, tmp_path):
    broken = dict(weights, bad=weights["normal"].copy(), worse=weights["normal"].copy())
    broken["bad"][17, 3], broken["worse"][200, 60] = np.inf, np.nan
    source = matmul_model(broken, tmp_path / "m.onnx")
    _, report = quantized(weir, source, tmp_path / "out", "--on-nonfinite", "skip")
    reasons = {n["tensor"]: n["reason"] for n in report["passes"][0]["nodes"]}
    assert reasons == {name: "nonfinite" if name in ("bad", "worse") else "quantized" for name in broken}
    kept = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "out" / "out.onnx").graph.initializer}
    np.testing.assert_array_equal(kept["worse"], broken["worse"])


# ---- the stage ------------------------------------------------------------------------------------

BUDGET = ["--budget", "1M", "--candidates", CANDIDATES]


@pytest.fixture(scope="module")
def undisturbed(weir, small_encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    weir("quantize", small_encoder, folder / "out.onnx", *BUDGET)
    return compare.folder_bytes(folder)


def test_killed_anywhere(weir, weir_fault, small_encoder, quick_folder, undisturbed):
    """Killed before each change to the file system; resumed, and nothing is left. Once the artifact is there, the
    weights are not read again."""
    found = 0
    for number in itertools.count(1, 1 if ALL else 3):
        folder = quick_folder / str(number)
        folder.mkdir()
        words = ["quantize", small_encoder, folder / "out.onnx", *BUDGET]
        if weir_fault(*words, env={"WEIR_FAULT": f"kill:{number}"}, code=None).code == 0:
            break
        if not (folder / "out.onnx").exists():
            report = weir.report(*words, "--resume")
            [stage] = report["weir"].get("stages", [{"resumed": False}])  # none: all but the seal was done
            found += stage["resumed"]
            assert not stage["resumed"] or stage["source_bytes_read"] == 0
        elif any(p.name.startswith(".") for p in folder.iterdir()):
            weir(*words, "--resume", code=None)  # only renames, or the folder's removal, are left
        weir("clean", folder, "--yes")
        assert compare.folder_bytes(folder) == undisturbed, number
        shutil.rmtree(folder)
    assert number > 20 and found > 1


def killed_stage(weir_fault, source, folder):
    """A run that was killed between its stage and its plan; gives its words."""
    folder.mkdir()
    words = ["quantize", source, folder / "out.onnx", *BUDGET]
    for number in itertools.count(1):
        weir_fault(*words, env={"WEIR_FAULT": f"kill:{number}"}, code=-signal.SIGKILL)
        [left] = [p for p in folder.iterdir() if p.name.endswith(".weir")] or [None]
        if left and any(len(p.name) == 64 for p in left.iterdir()):
            return words
        for p in folder.iterdir():
            shutil.rmtree(p)


def test_changed_source_is_refused(weir, weir_fault, small_encoder, quick_folder):
    source = quick_folder / "in" / small_encoder.name
    shutil.copytree(small_encoder.parent, source.parent)
    words = killed_stage(weir_fault, source, quick_folder / "out")
    os.utime(source.parent / (source.name + ".data"))
    done = weir(*words, "--resume", code=66)
    assert "changed since its weights were measured" in done.err and "interrupted run" not in done.err
    assert "took over" not in weir(*words).err  # measured again, without --resume
    assert not list((quick_folder / "out").glob(".*"))


def test_resume_says_what_it_found(weir, weir_fault, small_encoder, quick_folder):
    """The stage was all there was: that is not nothing. The control arm found nothing at all."""
    words = killed_stage(weir_fault, small_encoder, quick_folder / "out")
    said = weir(*words, "--resume").err
    assert "reusing what an interrupted run had measured" in said and "no interrupted run" not in said
    said = weir("quantize", small_encoder, quick_folder / "other.onnx", *BUDGET, "--resume").err
    assert "took over" not in said and "no interrupted run with these options" in said
    assert "other options)" not in said


def test_budget_with_a_fraction(weir, small_encoder, tmp_path):
    """1.5M is three times 512K, to the last byte of everything that follows."""
    for name, budget in (("words", "1.5M"), ("bytes", str(3 << 19))):
        quantized(weir, small_encoder, tmp_path / name, "--budget", budget, "--candidates", CANDIDATES)
    first, second = ((tmp_path / name / "out.onnx.data").read_bytes() for name in ("words", "bytes"))
    assert first == second
    assert "is not a size" in weir("quantize", small_encoder, tmp_path / "x.onnx", "--budget", "1.5", code=2).err


def test_clean_lists_a_stage(weir, weir_fault, small_encoder, quick_folder):
    killed_stage(weir_fault, small_encoder, quick_folder / "out")
    assert "quantize" in weir("clean", quick_folder / "out").out
    weir("clean", quick_folder / "out", "--yes")
    assert list((quick_folder / "out").iterdir()) == []


def test_replay(weir, small_encoder, tmp_path):
    """The same bytes from the log; 66 from other weights, though names and sizes are the same."""
    for name in ("first", "second", "third"):
        (tmp_path / name).mkdir()
    log = tmp_path / "edits.jsonl"
    weir("quantize", small_encoder, tmp_path / "first" / "out.onnx", *BUDGET, "--edit-log", log)
    weir("replay", log, small_encoder, tmp_path / "second" / "out.onnx")
    assert compare.folder_bytes(tmp_path / "first") == compare.folder_bytes(tmp_path / "second")
    artifacts = [json.loads(line) for line in log.read_text().splitlines() if '"artifact"' in line]
    manifest = json.loads((tmp_path / "first" / "out.onnx.manifest.json").read_text())
    assert [{"stage": a["stage"], "sha256": a["sha256"]} for a in artifacts] == manifest["predicate"]["x_weir"]["artifacts"]
    other = tmp_path / "in" / small_encoder.name
    shutil.copytree(small_encoder.parent, other.parent)
    with open(f"{other}.data", "r+b") as f:
        f.seek(1_000_001)
        f.write(b"\x11")
    done = weir("replay", log, other, tmp_path / "third" / "out.onnx", code=66)
    assert "measured" in done.err and list((tmp_path / "third").iterdir()) == []


@pytest.mark.parametrize(
    "options, refusal",
    [(["--budget", "100K"], "a budget of 100KiB is too small"), (["--gate", "sqnr=60dB", "--gate-action", "fail"], "miss the gate")],
)
def test_a_dry_run_is_refused_as_the_run_and_writes_no_log_that_it_would_not(weir, small_encoder, tmp_path, options, refusal):
    """Also without an OUT: the model and its weights refuse, not a place."""
    records = ["--edit-log", tmp_path / "log.jsonl", "--plan-out", tmp_path / "plan.json"]
    for words in ([tmp_path / "out.onnx"], [tmp_path / "out.onnx", "--dry-run"], ["--dry-run"]):
        done = weir("quantize", small_encoder, *words, *options, *records, code=1)
        assert refusal in done.err and ("this would fail with exit code 1" in done.out) == ("--dry-run" in words)
        assert list(tmp_path.iterdir()) == []
    said = weir("quantize", small_encoder, "--dry-run", *options, "--json", code=1).json()["weir"]["refusal"]
    assert said["exit_code"] == 1 and refusal in said["message"]


def test_a_dry_run_that_is_not_refused_writes_the_log_of_the_run(weir, small_encoder, tmp_path):
    dry, real = tmp_path / "dry.jsonl", tmp_path / "real.jsonl"
    weir("quantize", small_encoder, tmp_path / "out.onnx", *BUDGET, "--dry-run", "--edit-log", dry)
    weir("quantize", small_encoder, tmp_path / "out.onnx", *BUDGET, "--edit-log", real)
    assert dry.read_bytes() == real.read_bytes()
    weir("quantize", small_encoder, tmp_path / "out.onnx", *BUDGET[:1], "1K", "--dry-run", "--edit-log", dry, code=2)  # OUT is there
    assert dry.read_bytes() == real.read_bytes()  # and no output is that small: what was there stays


def test_dry_run_leaves_nothing(weir, small_encoder, tmp_path):
    weir("quantize", small_encoder, tmp_path / "out.onnx", *BUDGET, "--dry-run")
    assert list(tmp_path.iterdir()) == []
