"""--rank: the error that quantized weights and activations give the products they are in, tr(EᵀGE) / tr(WᵀGW), against NumPy;
its order against the error that ONNX Runtime measures; the same for any jobs; budgets and gates by it; what is refused.
Second moments are those that NumPy finds, in the form of src/tensor_stats/second_moments.h."""

import hashlib
import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import gptq_reference as reference
import report_page
from conftest import ended

pytestmark = pytest.mark.in_memory


def rows_of(k, n, seed, spread=1.0):
    """Rows of a value whose columns go together, and are of all sizes."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((n, k)) @ (random.standard_normal((k, k)) / np.sqrt(k)) * np.exp(spread * random.standard_normal(k))
    return x.astype(np.float32)


def weight(k, n, seed):
    return (np.random.default_rng(seed).standard_normal((k, n)) / 20).astype(np.float32)


def save(path, nodes, weights, inputs, outputs, opset=21):
    onnx.save(helper.make_model(
        helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in inputs.items()],
                          [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in outputs.items()],
                          [numpy_helper.from_array(w, n) for n, w in weights.items()]),
        opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)


def products(path, weights, turned=()):
    """A product of its own for each weight, of a value x<i>."""
    save(path, [helper.make_node("Gemm" if i in turned else "MatMul", [f"x{i}", f"w{i}"], [f"y{i}"], name=f"n{i}",
                                 **({"transB": 1} if i in turned else {})) for i in range(len(weights))],
         {f"w{i}": w.T.copy() if i in turned else w for i, w in enumerate(weights)},
         {f"x{i}": ["n", w.shape[0]] for i, w in enumerate(weights)},
         {f"y{i}": ["n", w.shape[1]] for i, w in enumerate(weights)})


def ranked(weir, command, model, out, *words):
    told = weir(command, model, out, "--rank", "--force", "--no-manifest", "--report-json", out.with_suffix(".json"), *words)
    rank = json.loads(out.with_suffix(".json").read_text())["rank"]
    lines = told.out.splitlines()[1:]
    assert [line.split()[-1] for line in lines[:len(rank)]] == [r["node_name"] for r in rank]
    assert [r["sqnr_db"] for r in rank] == sorted(r["sqnr_db"] for r in rank)
    return {r["node_name"]: r for r in rank}


def found(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


def unpacked(path, name, bits, k):
    """What MatMulNBits computes with, in float32."""
    tensors = found(path)
    [node] = [n for n in onnx.load(path).graph.node if n.name.startswith(name + "_Q")]
    codes, scales, *zeros = (tensors[i] for i in node.input[1:4] if i)
    n, blocks, _ = codes.shape
    if zeros and zeros[0].dtype != np.uint8:  # hqq
        plain = reference.unpacked(codes, np.ones(scales.size, np.float32), None, bits, blocks * codes.shape[2] * 8 // bits).T
        plain = plain.reshape(n, blocks, -1) + (1 << (bits - 1))
        w = (plain - zeros[0].reshape(n, blocks, 1)).astype(np.float32) * scales.reshape(n, blocks, 1)
        return w.reshape(n, -1)[:, :k].T.astype(np.float64)
    return reference.unpacked(codes, scales, zeros[0] if zeros else None, bits, k).astype(np.float32).astype(np.float64)


def spread(w, scale, zero=0):
    return ((w.astype(np.int32) - zero).astype(np.float32) * scale).astype(np.float64)


def db(signal, error):
    return 10 * np.log10(signal / error)


def holds(row, w, stored, gram, by="gram"):
    e = w.astype(np.float64) - stored
    signal, error = np.einsum("ij,ij->", w, gram @ w.astype(np.float64)), np.einsum("ij,ij->", e, gram @ e)
    assert row["by"] == by
    np.testing.assert_allclose([row["signal"], row["error"]], [signal, error], rtol=1e-6)
    np.testing.assert_allclose(row["weight_sqnr_db"], db(signal, error), rtol=1e-6)


# Shapes: less than a tile of the second moments, and more than two; more columns than a panel has.
SHAPES = [(96, 300), (1100, 37)]


@pytest.mark.parametrize("words", [(4, "default"), (2, "default"), (4, "rtn"), (4, "k_quant"), (4, "hqq"), (8, "default"), (4, "gptq"),
                                   (4, "awq"), (4, "default", "--symmetric"), (4, "k_quant", "--symmetric")], ids=str)
def test_blocks_are_weighed_as_numpy_does(weir, tmp_path, words):
    bits, algorithm, *more = words
    weights = [weight(k, n, k) for k, n in SHAPES]
    xs = {f"x{i}": rows_of(k, 300, i) for i, (k, _) in enumerate(SHAPES)}
    products(tmp_path / "m.onnx", weights, turned=(1,))
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", xs)
    rank = ranked(weir, "quantize", tmp_path / "m.onnx", tmp_path / "q.onnx", "--ranges", tmp_path / "r.jsonl", "--op-types", "MatMul,Gemm",
                  "--bits", str(bits), "--algorithm", algorithm, "--block-size", "32", *more)
    for i, w in enumerate(weights):
        x = xs[f"x{i}"].astype(np.float64)
        stored = unpacked(tmp_path / "q.onnx", f"n{i}", bits, w.shape[0])
        if algorithm == "awq":  # the value is divided instead
            stored = stored * found(tmp_path / "q.onnx")[f"x{i}_awq_scale"].astype(np.float64)[:, None]
            e = w - stored
            np.testing.assert_allclose(rank[f"n{i}"]["error"], np.einsum("ij,ij->", e, x.T @ x @ e), rtol=1e-4)
        else:
            holds(rank[f"n{i}"], w, stored, x.T @ x)


@pytest.mark.parametrize("words", [("quantize", "--format", "qdq", "--block-size", "32"), ("quantize", "--format", "qdq", "--block-size", "channel"),
                                   ("static",), ("static", "--per-tensor"), ("dynamic",), ("dynamic", "--weight-type", "uint8")], ids=str)
def test_other_forms_are_weighed_as_numpy_does(weir, tmp_path, words):
    w, x = weight(160, 50, 3), rows_of(160, 200, 4)
    products(tmp_path / "m.onnx", [w])
    y = x @ w
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", {"x0": x, "y0": y})
    row = ranked(weir, words[0], tmp_path / "m.onnx", tmp_path / "q.onnx", "--ranges", tmp_path / "r.jsonl", *words[1:])["n0"]
    tensors = found(tmp_path / "q.onnx")
    [codes] = [v for n, v in tensors.items() if n.startswith("w0") and v.ndim == 2 and v.shape == w.shape and "scale" not in n and "zero" not in n]
    [scale] = [v for n, v in tensors.items() if n.startswith("w0") and "scale" in n]
    zero = [v.astype(np.int32) for n, v in tensors.items() if n.startswith("w0") and "zero" in n] or [np.int32(0)]
    if scale.ndim == 2 and scale.shape != w.shape:
        scale, zero = np.repeat(scale, -(-160 // len(scale)), 0)[:160], [np.repeat(zero[0], -(-160 // len(zero[0])), 0)[:160]]
    gram = x.T.astype(np.float64) @ x.astype(np.float64)
    holds(row, w, spread(codes, scale, zero[0]), gram)
    if words[0] == "static":  # and a step of the value, as an error of its own for each element
        step = tensors["x0_scale"].astype(np.float64)
        noise = len(x) * step ** 2 / 12 * (w.astype(np.float64) ** 2).sum()
        np.testing.assert_allclose(row["activation_sqnr_db"], db(row["signal"], noise), rtol=1e-6)
        np.testing.assert_allclose(row["sqnr_db"], db(row["signal"], row["error"] + noise), rtol=1e-6)
        # What it says is what comes out, as far as an expectation can.
        run = lambda path: outputs_of(path, {"x0": x})[0].astype(np.float64)
        there = run(tmp_path / "q.onnx")
        behind = tensors["y0_scale"].astype(np.float64)
        assert abs(db((y.astype(np.float64) ** 2).sum(), ((there - y) ** 2).sum() - y.size * behind ** 2 / 12) - row["sqnr_db"]) < 0.5
    else:
        assert row["activation_sqnr_db"] is None and row["sqnr_db"] == row["weight_sqnr_db"]


def outputs_of(path, feeds):
    return onnxruntime.InferenceSession(path, disabled()).run(None, feeds)


@pytest.mark.parametrize("words", [("quantize", "--block-size", "32"), ("quantize", "--block-size", "32", "--format", "qdq"), ("static",), ("dynamic",)],
                         ids=str)
def test_square_weights_lie_as_their_nodes_say(weir, tmp_path, words):
    """Nothing but the node tells rows from columns."""
    k = 96
    weights = [weight(k, k, i) for i in range(4)]
    xs = {f"x{i}": rows_of(k, 150, 10 + i, 1.5) for i in range(4)}
    nodes = [helper.make_node("MatMul", ["x0", "w0"], ["y0"], name="n0"),
             helper.make_node("Gemm", ["x1", "w1"], ["y1"], name="n1", transB=1),
             helper.make_node("Transpose", ["w2"], ["t2"], name="t"), helper.make_node("MatMul", ["x2", "t2"], ["y2"], name="n2"),
             helper.make_node("Gemm", ["x3", "w3"], ["y3"], name="n3")]
    save(tmp_path / "m.onnx", nodes, {f"w{i}": w.T.copy() if i in (1, 2) else w for i, w in enumerate(weights)},
         {f"x{i}": ["n", k] for i in range(4)}, {f"y{i}": ["n", k] for i in range(4)})
    seen = {**xs, **{f"y{i}": xs[f"x{i}"] @ w for i, w in enumerate(weights)}}
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", seen)
    op_types = ("--exclude", "n2") if words[0] == "static" else ("--op-types", "MatMul,Gemm")
    rank = ranked(weir, words[0], tmp_path / "m.onnx", tmp_path / "q.onnx", "--ranges", tmp_path / "r.jsonl", *words[1:], *op_types)
    assert len(rank) == (3 if words[0] == "static" else 4)
    for name, row in rank.items():
        i = int(name[1])
        if words[0] == "quantize" and words[-1] != "qdq":
            stored = unpacked(tmp_path / "q.onnx", name, 4, k)
        else:
            tensors = found(tmp_path / "q.onnx")
            of = {n: v for n, v in tensors.items() if n.startswith((f"w{i}", f"t{i}"))}
            [codes] = [v for n, v in of.items() if v.shape == (k, k)]
            [scale] = [v for n, v in of.items() if "scale" in n]
            zero = np.int32(next((v for n, v in of.items() if "zero" in n), 0))
            turned = i == 1 and words[0] != "dynamic"
            codes = codes.T if turned else codes
            if scale.ndim == 2:
                scale, zero = (np.repeat(v.T if turned else v, 32, 0) for v in (scale, zero))
            stored = spread(codes, scale, zero)
        gram = xs[f"x{i}"].T.astype(np.float64) @ xs[f"x{i}"].astype(np.float64)
        holds(row, weights[i], stored, gram)


def disabled():
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return options


def without_moments(path):
    """RANGES as --statistics channel writes them."""
    head, *lines = [json.loads(line) for line in path.read_text().splitlines()[:-1]]
    del head["data"]
    for line in lines:
        line.pop("gram", None)
    text = "".join(json.dumps(x, separators=(",", ":")) + "\n" for x in [head] + lines)
    path.write_text(text + json.dumps({"end": len(lines), "sha256": hashlib.sha256(text.encode()).hexdigest()}, separators=(",", ":")) + "\n")


def test_channels_are_weighed_by_squares_of_their_means(weir, tmp_path):
    w, x = weight(96, 40, 5), rows_of(96, 200, 6)
    products(tmp_path / "m.onnx", [w])
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", {"x0": x})
    without_moments(tmp_path / "r.jsonl")
    row = ranked(weir, "quantize", tmp_path / "m.onnx", tmp_path / "q.onnx", "--ranges", tmp_path / "r.jsonl", "--block-size", "32")["n0"]
    mean = np.abs(x.astype(np.float64)).mean(0).astype(np.float32)
    holds(row, w, unpacked(tmp_path / "q.onnx", "n0", 4, 96), np.diag((mean * mean).astype(np.float64)), by="channels")


def test_a_convolution_is_weighed_by_its_channels(weir, tmp_path):
    random = np.random.default_rng(7)
    w = random.standard_normal((12, 5, 3, 3)).astype(np.float32)
    x = (random.standard_normal((3, 5, 9, 8)) * np.exp(random.standard_normal((5, 1, 1)))).astype(np.float32)
    save(tmp_path / "m.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")], {"w": w}, {"x": [3, 5, 9, 8]}, {"y": [3, 12, 7, 6]})
    np.savez(tmp_path / "x.npz", x=x)
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r.jsonl", "--data", tmp_path / "x.npz", "--statistics", "gram")
    row = ranked(weir, "static", tmp_path / "m.onnx", tmp_path / "q.onnx", "--ranges", tmp_path / "r.jsonl")["conv"]
    tensors = found(tmp_path / "q.onnx")
    stored = spread(tensors["w_quantized"], tensors["w_scale"].reshape(-1, 1, 1, 1))
    mean = np.abs(x.astype(np.float64)).mean((0, 2, 3)).astype(np.float32)
    matrix = lambda v: v.reshape(12, -1).T
    holds(row, matrix(w), matrix(stored), np.diag(np.repeat((mean * mean).astype(np.float64), 9)), by="channels")


def test_without_statistics_weights_count_alone(weir, tmp_path):
    w = weight(96, 40, 8)
    products(tmp_path / "m.onnx", [w])
    for words in ((), ("--format", "qdq")):
        told = weir("quantize", tmp_path / "m.onnx", tmp_path / "q.onnx", "--rank", "--force", "--report-json", tmp_path / "r.json",
                    "--block-size", "32", *words)
        [row] = json.loads((tmp_path / "r.json").read_text())["rank"]
        [tensor] = json.loads((tmp_path / "r.json").read_text())["passes"][0]["tensors"]
        assert (row["by"], row["reason"]) == ("weight", "no_ranges") and "statistics" in told.err
        np.testing.assert_allclose(row["sqnr_db"], tensor["error"]["sqnr_db"], rtol=1e-5)


def test_passes_that_report_weights_are_ranked_too(weir, tmp_path):
    """Codes with a float offset; and what keeps no codes has no place in the list."""
    products(tmp_path / "m.onnx", [weight(96, 40, 8)])
    for words, n in (("shrink:min_elements=1", 1), ("shrink:min_elements=1,method=float_weights", 0), ("cast:to=float16", 0)):
        weir("run", tmp_path / "m.onnx", tmp_path / "q.onnx", "--pass", words, "--rank", "--force", "--report-json", tmp_path / "r.json")
        said = json.loads((tmp_path / "r.json").read_text())
        assert len(said["rank"]) == n and len(said["passes"][0]["tensors"]) == 1
        for row in said["rank"]:
            np.testing.assert_allclose(row["sqnr_db"], said["passes"][0]["tensors"][0]["error"]["sqnr_db"], rtol=1e-5)


def test_jobs_and_memory_change_nothing(weir, tmp_path):
    weights = [weight(k, n, k) for k, n in ((1100, 500), (300, 64), (512, 130))]
    products(tmp_path / "m.onnx", weights, turned=(2,))
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", {f"x{i}": rows_of(len(w), 200, i) for i, w in enumerate(weights)})
    for command in ("quantize", "dynamic"):
        said = set()
        for more in (("--jobs", "1"), ("--jobs", "2"), ("--jobs", "3", "--memory", "12MiB"), ("--jobs", "1", "--memory", "3MiB")):
            told = weir(command, tmp_path / "m.onnx", "--dry-run", "--rank", "--ranges", tmp_path / "r.jsonl", "--op-types", "MatMul,Gemm",
                        "--quiet", "--report-json", tmp_path / "r.json", *more)
            said.add((told.out, json.dumps(json.loads((tmp_path / "r.json").read_text())["rank"])))
        assert len(said) == 1 and len(said.pop()[0].splitlines()) == 4


def test_nothing_else_is_changed_by_it(weir, tmp_path):
    w, x = weight(96, 40, 5), rows_of(96, 200, 6)
    products(tmp_path / "m.onnx", [w])
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", {"x0": x})
    for words in (("--gate", "sqnr=1dB"), ("--algorithm", "gptq")):
        made = []
        for more in ((), ("--rank",)):
            weir("quantize", tmp_path / "m.onnx", tmp_path / "q.onnx", "--ranges", tmp_path / "r.jsonl", *words, "--force",
                 "--edit-log", tmp_path / "log", "--plan-out", tmp_path / "plan", *more)
            made.append([(tmp_path / n).read_bytes() for n in ("q.onnx", "q.onnx.manifest.json", "log", "plan", "plan.bin")])
        assert made[0] == made[1]


def deceptive(path, n_sites=6):
    """Sites whose weights lose the less, the more their output does: large rows of a weight, which its blocks are made for,
    meet columns of its value that are small, and the small rows meet the large ones."""
    random = np.random.default_rng(11)
    weights, xs = [], {}
    for i in range(n_sites):
        k, n = 128, 48
        # Weights with heavier tails lose more by themselves.
        w = random.standard_normal((k, n)) * (1 + (n_sites - i) * (random.random((k, n)) < 0.02))
        size = np.where(np.arange(k) % 32 < 4, 1.0, 1.0 / (1 + 0.5 * i))
        weights.append((w * size[:, None]).astype(np.float32))
        x = random.standard_normal((400, k)) / np.where(np.arange(k) % 32 < 4, 3.0 ** i, 1.0)
        xs[f"x{i}"] = x.astype(np.float32)
    products(path, weights)
    return xs


@pytest.mark.parametrize("words", [("quantize", "--block-size", "32"), ("quantize", "--block-size", "32", "--algorithm", "rtn")], ids=str)
def test_the_order_is_that_of_measured_errors(weir, tmp_path, words):
    """Weights alone say another one, which is wrong."""
    model = tmp_path / "m.onnx"
    xs = deceptive(model)
    reference.write_ranges(tmp_path / "r.jsonl", model, xs)
    with_them = ranked(weir, words[0], model, tmp_path / "q.onnx", "--ranges", tmp_path / "r.jsonl", *words[1:])
    alone = ranked(weir, words[0], model, tmp_path / "q.onnx", *words[1:])
    run = lambda path: outputs_of(path, xs)
    measured = {f"n{i}": db((a.astype(np.float64) ** 2).sum(), ((a - b).astype(np.float64) ** 2).sum())
                for i, (a, b) in enumerate(zip(run(model), run(tmp_path / "q.onnx")))}
    order = lambda of: sorted(of, key=of.get)
    assert order({n: r["sqnr_db"] for n, r in with_them.items()}) == order(measured)
    assert order({n: r["sqnr_db"] for n, r in alone.items()}) != order(measured)
    for name, figure in measured.items():
        assert abs(figure - with_them[name]["sqnr_db"]) < 0.05


def test_behind_other_passes_values_are_those_that_they_leave(weir, tmp_path):
    random = np.random.default_rng(12)
    w = (random.standard_normal((24, 16, 1, 1)) / 4).astype(np.float32)
    save(tmp_path / "m.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")], {"w": w}, {"x": [1, 16, 5, 4]}, {"y": [1, 24, 5, 4]})
    np.savez(tmp_path / "x.npz", x=random.standard_normal((1, 16, 5, 4)).astype(np.float32))
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r.jsonl", "--data", tmp_path / "x.npz", "--statistics", "gram",
         "--pass", "conv2matmul:extended_conv1x1=true")
    weir("run", tmp_path / "m.onnx", tmp_path / "q.onnx", "--pass", "conv2matmul:extended_conv1x1=true", "--pass",
         f"quantize:block_size=16,ranges={tmp_path}/r.jsonl", "--rank", "--report-json", tmp_path / "r.json")
    [row] = json.loads((tmp_path / "r.json").read_text())["rank"]
    assert row["by"] == "gram" and row["op_type"] == "MatMul"
    x = np.load(tmp_path / "x.npz")["x"].transpose(0, 2, 3, 1).reshape(-1, 16).astype(np.float64)
    [node] = [n for n in onnx.load(tmp_path / "q.onnx").graph.node if n.op_type == "MatMulNBits"]
    stored = unpacked(tmp_path / "q.onnx", node.name.split("_Q")[0], 4, 16)
    holds(row, w.reshape(24, 16).T, stored, x.T @ x)
    # What was seen of the model as it was, in front of the Transpose.
    weir("calibrate", tmp_path / "m.onnx", "-o", tmp_path / "r.jsonl", "--force", "--data", tmp_path / "x.npz", "--statistics", "channel")
    weir("run", tmp_path / "m.onnx", tmp_path / "q.onnx", "--force", "--pass", "conv2matmul:extended_conv1x1=true", "--pass",
         f"quantize:block_size=16,ranges={tmp_path}/r.jsonl", "--rank", "--report-json", tmp_path / "r.json")
    [row] = json.loads((tmp_path / "r.json").read_text())["rank"]
    mean = np.abs(x).mean(0).astype(np.float32)
    holds(row, w.reshape(24, 16).T, stored, np.diag((mean * mean).astype(np.float64)), by="channels")


def test_what_does_not_go_together(weir, tmp_path):
    w, x = weight(96, 40, 5), rows_of(96, 50, 6)
    products(tmp_path / "m.onnx", [w])
    go = lambda *more, code: weir("quantize", tmp_path / "m.onnx", "--dry-run", "--rank", "--ranges", tmp_path / "r.jsonl", *more, code=code)
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", {"x0": x[:, :64]})
    refused = go(code=66).err
    assert all(word in refused for word in ("'x0'", "64 columns", "'w0'", "96 rows", "'n0'", "--pass"))
    without_moments(tmp_path / "r.jsonl")
    assert "means by channel" in go(code=66).err
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", {"x0": x})
    data = (tmp_path / "r.jsonl.data").read_bytes()
    (tmp_path / "r.jsonl.data").write_bytes(data[:-8] + b"\1" * 8)
    assert "r.jsonl.data" in go(code=66).err
    (tmp_path / "r.jsonl.data").write_bytes(data)
    # A value that is not in RANGES is said, and weighed by its weight.
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", {"y0": x @ w})
    go("--report-json", tmp_path / "r.json", code=0)
    [row] = json.loads((tmp_path / "r.json").read_text())["rank"]
    assert (row["by"], row["reason"]) == ("weight", "no_range")


# ---- budgets and gates


def chosen(path):
    [step] = json.loads(path.read_text())["passes"]
    return {n["node_name"]: n.get("chosen") for n in step["nodes"]}


def test_a_gate_holds_the_output(weir, tmp_path):
    """Those whose output misses it get 8 bits, whatever their weights lose."""
    model = tmp_path / "m.onnx"
    reference.write_ranges(tmp_path / "r.jsonl", model, deceptive(model))
    rank = ranked(weir, "quantize", model, tmp_path / "q.onnx", "--ranges", tmp_path / "r.jsonl", "--block-size", "32")
    limit = np.median([r["sqnr_db"] for r in rank.values()])
    weir("quantize", model, tmp_path / "g.onnx", "--block-size", "32", "--gate", f"sqnr={limit:.6f}dB", "--ranges", tmp_path / "r.jsonl",
         "--report-json", tmp_path / "g.json", "--edit-log", tmp_path / "log")
    picked = chosen(tmp_path / "g.json")
    assert {n for n, c in picked.items() if c and c["scheme"] == "8:32"} == {n for n, r in rank.items() if r["sqnr_db"] < limit}
    for c in filter(None, picked.values()):
        assert c["weighed_by"] == "gram" and c["output_sqnr_db"] >= limit
    bits = {n.name.rsplit("_Q", 1)[0]: n.name[-1] for n in onnx.load(tmp_path / "g.onnx").graph.node}
    assert bits == {n: "8" if r["sqnr_db"] < limit else "4" for n, r in rank.items()}
    # A replay weighs again: the same bytes, and other weights or moments are refused.
    weir("replay", tmp_path / "log", model, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "g.onnx").read_bytes()
    refused = weir("quantize", model, "--dry-run", "--block-size", "32", "--gate", f"sqnr={limit:.6f}dB", "--gate-action", "fail",
                   "--ranges", tmp_path / "r.jsonl", code=1).err
    worst = min(rank, key=lambda n: rank[n]["sqnr_db"])
    assert f"'{worst}' ({rank[worst]['sqnr_db']:.2f} dB)" in refused


def test_a_budget_spends_where_the_output_gains(weir, tmp_path):
    model = tmp_path / "m.onnx"
    xs = deceptive(model)
    reference.write_ranges(tmp_path / "r.jsonl", model, xs)
    run = lambda path: outputs_of(path, xs)
    shares = {}
    for name, more in (("weights", ()), ("outputs", ("--ranges", tmp_path / "r.jsonl"))):
        out = tmp_path / f"{name}.onnx"
        weir("quantize", model, out, "--budget", "20K", "--candidates", "2:32,4:32,8:32", "--report-json", out.with_suffix(".json"),
             "--edit-log", tmp_path / "log", *more)
        assert out.stat().st_size <= 20 << 10
        shares[name] = sum(((a - b).astype(np.float64) ** 2).sum() / (a.astype(np.float64) ** 2).sum() for a, b in zip(run(model), run(out)))
    assert shares["outputs"] < 0.7 * shares["weights"], shares
    assert {c["weighed_by"] for c in chosen(tmp_path / "outputs.json").values()} == {"gram"}
    assert all("weighed_by" not in c for c in chosen(tmp_path / "weights.json").values())
    weir("replay", tmp_path / "log", model, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "outputs.onnx").read_bytes()


def test_a_budget_knows_weights_without_statistics(weir, tmp_path):
    weights = [weight(96, 40, 1), weight(64, 40, 2)]
    products(tmp_path / "m.onnx", weights)
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", {"x1": rows_of(64, 100, 3)})
    words = ("quantize", tmp_path / "m.onnx", tmp_path / "q.onnx", "--candidates", "2:32,4:32", "--budget", "4700", "--ranges", tmp_path / "r.jsonl",
             "--no-manifest", "--force", "--report-json", tmp_path / "r.json")
    weir(*words)
    picked = chosen(tmp_path / "r.json")
    assert "weighed_by" not in picked["n0"] and picked["n1"]["weighed_by"] == "gram"
    reference.write_ranges(tmp_path / "r.jsonl", tmp_path / "m.onnx", {"x1": rows_of(48, 100, 3)})
    refused = weir(*words, code=66).err
    assert all(word in refused for word in ("'x1'", "48 columns", "'w1'", "64 rows"))


def test_pairs_of_a_log_are_checked(weir, tmp_path):
    """A log may have been written by anybody."""
    model = tmp_path / "m.onnx"
    products(model, [weight(96, 40, 1)])
    reference.write_ranges(tmp_path / "r.jsonl", model, {"x0": rows_of(96, 100, 3)})
    weir("quantize", model, tmp_path / "q.onnx", "--gate", "sqnr=1dB", "--ranges", tmp_path / "r.jsonl", "--edit-log", tmp_path / "log")
    lines = (tmp_path / "log").read_text().splitlines()
    [at] = [i for i, line in enumerate(lines) if '"weighed"' in line]
    told = json.loads(lines[at])
    codes, by = told["of"][:2]
    for of, words in (([codes], "cannot be paired"), ([by, codes], "cannot be weighed"), ([codes, codes], "cannot be weighed")):
        changed = [*lines[:at], json.dumps({**told, "of": of}, separators=(",", ":"), ensure_ascii=False), *lines[at + 1:-1]]
        (tmp_path / "bad").write_text(ended("".join(line + "\n" for line in changed)))
        assert words in weir("replay", tmp_path / "bad", model, tmp_path / "x.onnx", code=65).err


# ---- the page


def test_the_page_ranks_sites(weir, tmp_path):
    model = tmp_path / "m.onnx"
    reference.write_ranges(tmp_path / "r.jsonl", model, deceptive(model))
    words = ("quantize", model, tmp_path / "q.onnx", "--force", "--report-html", tmp_path / "r.html")
    weir(*words)
    assert 'id="rank"' not in (tmp_path / "r.html").read_text()
    weir(*words, "--rank", "--ranges", tmp_path / "r.jsonl", "--report-json", tmp_path / "r.json")
    page = report_page.read(tmp_path / "r.html")
    assert "Sites by cost" in page.text()
    assert [(r["Node"], r["Weight"], r["Value"], r["Weighed by"]) for r in page.rows("ranked")] == [
        (r["node_name"], r["tensor"], r["value"], "gram") for r in json.loads((tmp_path / "r.json").read_text())["rank"]]
    assert [r["SQNR, dB"] for r in page.rows("ranked")] == sorted(r["SQNR, dB"] for r in page.rows("ranked"))
