"""Error figures of quantized weights: what numpy computes, and the same whoever made which unit.

The weights' codes are cut by unit borders, so that figures are put together from several units.
"""

import shutil
import signal

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import before_record

K, COLUMNS = 2048, (20000, 23001)  # at 8 bits: 41 and 47 MB of codes, scales and zeros behind each
RUN = ("run",)
PASSES = ("--pass", "quantize:bits=8,block_size=64,symmetric=false")


def external(name, dims, offset):
    """A float32 tensor whose elements lie in w.data."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.data"), ("offset", offset), ("length", 4 * np.prod(dims))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return tensor


def write_model(path, columns, spoil=None):
    """A MatMul for each weight [K, n]; the data lies in one file, weight by weight."""
    rng = np.random.default_rng(5)
    nodes, weights, outputs, offset = [], [], [], 0
    with open(path.parent / "w.data", "wb") as data:
        for i, n in enumerate(columns):
            values = rng.standard_normal((K, n), dtype=np.float32) * np.float32(0.02)
            if spoil:
                values[spoil] = np.nan
            weights.append(external(f"w{i}", [K, n], offset))
            offset += data.write(values.tobytes())
            nodes.append(helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"], name=f"m{i}"))
            outputs.append(helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, ["b", n]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", K])
    graph = helper.make_graph(nodes, "g", [x], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture(scope="module")
def model(large_folder):
    folder = large_folder / "figures"
    folder.mkdir()
    yield write_model(folder / "m.onnx", COLUMNS)
    shutil.rmtree(folder)


def figures(report):
    return [tensor["error"] for step in report["passes"] for tensor in step.get("tensors", []) if "error" in tensor]


def run(weir, model, folder, *options):
    folder.mkdir(exist_ok=True)
    return weir.report(*RUN, model, folder / "out.onnx", *PASSES, *options)


@pytest.fixture(scope="module")
def alone(weir, model, large_folder):
    """Figures of one worker in one run."""
    found = figures(run(weir, model, large_folder / "alone", "--jobs", "1"))
    assert len(found) == len(COLUMNS)
    yield found
    shutil.rmtree(large_folder / "alone")


def test_figures_are_those_of_numpy(model, alone, large_folder):
    made = onnx.load(large_folder / "alone" / "out.onnx")
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in made.graph.initializer}
    for i, n in enumerate(COLUMNS):
        offset = sum(COLUMNS[:i]) * K * 4
        w = np.fromfile(model.parent / "w.data", np.float32, K * n, offset=offset).reshape(K, n)
        codes = tensors[f"w{i}_Q8"].reshape(n, K // 64, 64)
        scales, zeros = tensors[f"w{i}_scales"], tensors[f"w{i}_zero_points"]
        largest = squares = power = 0.0
        for at in range(0, n, 1000):  # parts that a processor's cache holds
            rows = slice(at, at + 1000)
            back = (codes[rows].astype(np.float32) - zeros[rows, :, None].astype(np.float32)) * scales[rows, :, None]
            part = np.ascontiguousarray(w[:, rows].T)
            error = (part - back.reshape(part.shape)).astype(np.float64)
            largest = max(largest, np.abs(error).max())
            squares += np.vdot(error, error)
            power += np.vdot(part, part.astype(np.float64))
        assert alone[i]["max_abs"] == pytest.approx(largest, rel=1e-6)
        assert alone[i]["rmse"] == pytest.approx(np.sqrt(squares / w.size), rel=1e-4)
        assert alone[i]["sqnr_db"] == pytest.approx(10 * np.log10(power / squares), abs=1e-3)


@pytest.mark.parametrize("options", [("--jobs", "2"), ("--jobs", "4"), ("--io", "null"), ("--memory", "6M")])
def test_figures_do_not_depend_on_how(weir, model, tmp_path, alone, options):
    assert figures(run(weir, model, tmp_path, *options)) == alone
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("unit", [1, 2])
def test_figures_survive_a_kill(weir, weir_fault, model, tmp_path, alone, unit):
    """Those of recorded units come from the records."""
    words = (*RUN, model, tmp_path / "out.onnx", *PASSES, "--jobs", "1")
    weir_fault(*words, env={"WEIR_FAULT": f"kill:{before_record(unit)}"}, code=-signal.SIGKILL)
    report = weir.report(*words, "--resume")
    assert report["weir"]["units_resumed"] == unit - 1
    assert figures(report) == alone
    shutil.rmtree(tmp_path)


def test_source_is_read_once(weir, model, tmp_path):
    """Scales and zeros come of the read that the codes took; where nothing keeps them (2M is the least that one
    worker takes) they cost more."""
    size = (model.parent / "w.data").stat().st_size
    report = run(weir, model, tmp_path / "a", "--io", "sync", "--jobs", "1")
    assert report["weir"]["source_bytes_read"] <= 1.02 * size
    report = run(weir, model, tmp_path / "b", "--io", "sync", "--jobs", "1", "--memory", "2M")
    assert report["weir"]["source_bytes_read"] > 1.5 * size
    shutil.rmtree(tmp_path)


# ---- formats whose figures are made of chunks ---------------------------------------------------

CHUNKED = {
    "qdq": ("quantize:bits=8,block_size=64,symmetric=false,format=qdq",),
    "qdq channel": ("quantize:bits=4,block_size=channel,symmetric=true,format=qdq",),
    "turned": ("conv2matmul", "quantize:bits=8,block_size=32,symmetric=false,format=qdq"),
    "shrink": ("shrink",),
    "linear": ("shrink:form=dequantize",),
    "levels": ("shrink:method=float_weights,levels=100",),
    "float16": ("cast:to=float16",),
    "bfloat16": ("cast:to=bfloat16",),
}


def passes(kind):
    return [word for name in CHUNKED[kind] for word in ("--pass", name)]


@pytest.fixture(scope="module")
def mixed(large_folder):
    """A MatMul of 72 MB in 16 bits: two units; and pointwise Convs, whose weights are turned."""
    folder = large_folder / "mixed"
    folder.mkdir()
    rng = np.random.default_rng(8)
    inits = [("w", (K, 18000)), ("c0", (1200, 900, 1)), ("c1", (700, 1200, 1))]
    data, tensors, offset = folder / "w.data", [], 0
    with open(data, "wb") as out:
        for name, dims in inits:
            values = rng.standard_normal(dims, dtype=np.float32) * np.float32(0.02)
            tensors.append(external(name, dims, offset))
            offset += out.write(values.tobytes())
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"], name="m"),
        helper.make_node("Conv", ["i", "c0"], ["h"], name="conv0"),
        helper.make_node("Conv", ["h", "c1"], ["z"], name="conv1"),
    ]
    real = TensorProto.FLOAT
    given = [
        helper.make_tensor_value_info("x", real, ["b", K]),
        helper.make_tensor_value_info("i", real, ["b", 900, "t"]),
    ]
    made = [
        helper.make_tensor_value_info("y", real, ["b", 18000]),
        helper.make_tensor_value_info("z", real, ["b", 700, "t"]),
    ]
    graph = helper.make_graph(nodes, "g", given, made, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    yield folder / "m.onnx"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def weights(mixed):
    """Of `mixed`, in double, with the figures that do not depend on what is made of them."""
    found = {t.name: onnx.numpy_helper.to_array(t).astype(np.float64) for t in onnx.load(mixed).graph.initializer}
    return {name: (weight, np.vdot(weight, weight)) for name, weight in found.items()}


def decoded(made, name):
    """What the tensors of a weight stand for, in double (products of blocks rounded to float32): [rows, columns] as stored."""
    t = {x.name: x for x in made.graph.initializer}
    number = {key: lambda key=key: onnx.numpy_helper.to_array(t[key]).astype(np.float64) for key in t}
    for kind in ("float16", "bfloat16", "dequantized"):
        if f"{name}_{kind}" in t:
            return number[f"{name}_{kind}"]()
    if f"{name}_quantized" in t and f"{name}_scale" in t:
        zero, scale = number[f"{name}_zero_point"](), number[f"{name}_scale"]()
        linear = t[f"{name}_zero_point"].data_type == TensorProto.UINT8
        codes = number[f"{name}_quantized"]()
        return (codes - zero) * scale if linear else codes * scale + zero
    [key] = [key for key in t if key.startswith(f"{name}_DQ_Q")]
    codes, scales = number[key](), number[f"{name}_DQ_scales"]()
    if f"{name}_DQ_zero_points" not in t:  # a scale a channel; codes lie the other way round
        return rounded(codes * scales.reshape(-1, 1)).T
    rows = codes.shape[0]
    block = 32 if -(-rows // 32) == scales.shape[0] else 64
    zeros = np.repeat(number[f"{name}_DQ_zero_points"](), block, 0)[:rows]
    return rounded((codes - zeros) * np.repeat(scales, block, 0)[:rows])


def rounded(products):
    """In double they are exact: a code of 8 bits times a float32."""
    return products.astype(np.float32).astype(np.float64)


def report_of(weir, model, folder, kind, *options):
    folder.mkdir(exist_ok=True)
    report = weir.report(*RUN, model, folder / "out.onnx", *passes(kind), *options)
    return {t["name"]: t["error"] for step in report["passes"] for t in step.get("tensors", [])}


OFTEN = ("qdq channel", "turned", "linear", "float16")  # of each kind of evaluator one


@pytest.mark.parametrize("kind", [each if each in OFTEN else pytest.param(each, marks=pytest.mark.long) for each in CHUNKED])
def test_chunks(weir, weir_fault, mixed, weights, tmp_path, kind):
    found = report_of(weir, mixed, tmp_path / "a", kind, "--jobs", "1")
    made = onnx.load(tmp_path / "a" / "out.onnx")
    assert found and all(found.values())
    compared = 0
    for name, error in found.items():
        weight, power = weights[name if name in weights else name[0] + name[4]]  # of conv0: c0
        stands_for = decoded(made, name)
        if stands_for.size == weight.size and stands_for.shape != weight.shape:
            weight = np.squeeze(weight)
            weight = weight.T if weight.shape != stands_for.shape else weight
        e = np.ascontiguousarray(np.subtract(weight, stands_for))
        assert error["max_abs"] == pytest.approx(max(e.max(), -e.min()), rel=1e-12)
        assert error["rmse"] == pytest.approx(np.sqrt(np.vdot(e, e) / e.size), rel=1e-9)
        assert error["sqnr_db"] == pytest.approx(10 * np.log10(power / np.vdot(e, e)), abs=1e-9)
        assert error["overflows"] == 0
        compared += 1
    assert compared >= (1 if kind.startswith("qdq") else 3)
    shutil.rmtree(tmp_path / "a")
    for options in (("--jobs", "3"), ("--io", "null", "--memory", "6M")):
        assert report_of(weir, mixed, tmp_path / "b", kind, *options) == found
        shutil.rmtree(tmp_path / "b")
    (tmp_path / "c").mkdir()
    words = (*RUN, mixed, tmp_path / "c" / "out.onnx", *passes(kind), "--jobs", "1")
    weir_fault(*words, env={"WEIR_FAULT": f"kill:{before_record(1)}"}, code=-signal.SIGKILL)
    assert report_of(weir, mixed, tmp_path / "c", kind, "--resume", "--jobs", "1") == found
    shutil.rmtree(tmp_path / "c")


def test_overflows_survive_a_kill(weir, weir_fault, tmp_path):
    """A refusal needs what an interrupted run found before."""
    source = write_model(tmp_path / "m.onnx", (20000, 3000))
    with open(tmp_path / "w.data", "r+b") as data:
        data.write(np.array([1e6, 7e4], np.float32).tobytes())
    (tmp_path / "o").mkdir()
    words = (*RUN, source, tmp_path / "o" / "out.onnx", "--pass", "cast:to=float16", "--jobs", "1")
    weir_fault(*words, env={"WEIR_FAULT": f"kill:{before_record(2)}"}, code=-signal.SIGKILL)
    said = weir(*words, "--resume", code=1).err
    assert "1 tensor has finite elements" in said and "'w0' (2)" in said
    assert not list((tmp_path / "o").iterdir())


@pytest.mark.parametrize(
    "name",
    ("quantize:bits=8", "quantize:bits=4,format=qdq", "quantize:bits=8,format=qdq,block_size=channel", "shrink"),
)
def test_not_finite_names_the_weight(weir, tmp_path, name):
    path = write_model(tmp_path / "bad.onnx", (70,), spoil=(3, 41))
    said = weir(*RUN, path, tmp_path / "out.onnx", "--pass", name, code=1).err
    assert "tensor 'w0':" in said
    assert "NaN" in said if name == "shrink" else "element [3,41]" in said and "nan" in said
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("name", ("quantize:bits=8", "quantize:bits=4,algorithm=k_quant", "quantize:bits=4,format=qdq"))
def test_range_past_float32(weir, tmp_path, name):
    """Finite elements so far apart that the scale between them is not: refused, and --symmetric takes them."""
    path = write_model(tmp_path / "far.onnx", (70,))
    with open(tmp_path / "w.data", "r+b") as data:
        for row, value in ((8, 3e38), (9, -3e38)):
            data.seek(4 * (row * 70 + 41))
            data.write(np.float32(value).tobytes())
    done = weir(*RUN, path, tmp_path / "out.onnx", "--pass", name, code=1)
    assert "'w0'" in done.err and "finite" in done.err and "--symmetric" in done.err
    assert not (tmp_path / "out.onnx").exists()
    if "k_quant" not in name:  # it adds squares in float32
        weir(*RUN, path, tmp_path / "out.onnx", "--pass", f"{name},symmetric=true")
