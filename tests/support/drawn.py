"""Runs models in ONNX Runtime on what draw_tool draws for them.

    drawn.py TOOL MODEL...        a line each: the sizes, and how it ended
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort

DTYPES = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "bool": np.bool_, "complex64": np.complex64, "complex128": np.complex128,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn, "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2, "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8e8m0": ml_dtypes.float8_e8m0fnu,
} | {f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}  # fmt: skip


RAW = {np.dtype(each).name: f"u{np.dtype(each).itemsize}" for each in DTYPES.values() if np.dtype(each).kind not in "fbiuc"}
RAW |= {np.dtype(each).name: f"u{np.dtype(each).itemsize}" for name, each in DTYPES.items() if "float8" in name or name == "bfloat16"}


class Drawn:
    """What draw_tool says of a model or a node, and its arrays by name; `cannot`: why there are none."""

    def __init__(self, said, folder):
        self.sizes = said.get("sizes")
        self.cannot = said.get("error") or said.get("cannot")
        self.arrays = {}
        self.nodes = {each["node"]: Drawn(each, folder) for each in said.get("nodes", [])}
        for each in said.get("inputs", []):
            if "cannot" in each or each["dtype"] not in DTYPES:
                self.cannot = each.get("cannot", f"{each.get('dtype')} has no type in NumPy")
                return
            elements = np.fromfile(folder / each["file"], DTYPES[each["dtype"]])
            self.arrays[each["name"]] = elements.reshape(each["dims"])


def draw_all(tool, models, *options):
    """What is drawn for each of the models, in one call."""
    with tempfile.TemporaryDirectory() as top:
        folders = [Path(top, str(i)) for i in range(len(models))]
        pairs = []
        for model, folder in zip(models, folders):
            folder.mkdir()
            pairs += [str(model), str(folder)]
        done = subprocess.run([tool, *map(str, options), *pairs], capture_output=True, text=True)
        assert done.returncode == 0, done
        return [Drawn(json.loads(line), folder) for line, folder in zip(done.stdout.splitlines(), folders, strict=True)]


def draw(tool, model, *options):
    [drawn] = draw_all(tool, [model], *options)
    return drawn


def ort_value(array):
    """Types that NumPy does not have of itself go by their number in ONNX."""
    if array.dtype.kind != "V" and array.dtype.name not in RAW:
        return ort.OrtValue.ortvalue_from_numpy(array)
    number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(RAW[array.dtype.name]), number)


def to_numpy(value):
    """An array, or None for what is none, or of a type that NumPy does not have."""
    if not value.is_tensor():
        return None
    try:
        return value.numpy()
    except RuntimeError:
        return None


def run(model, arrays):
    """The outputs of the model by name. Raises what the runtime raises."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = str(model) if isinstance(model, (str, Path)) else model.SerializeToString()
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    feeds = {name: ort_value(array) for name, array in arrays.items()}
    outputs = session.run_with_ort_values(None, feeds)
    return {each.name: to_numpy(value) for each, value in zip(session.get_outputs(), outputs)}


class Alone:
    """Some nodes of a model's main graph as a model: what is drawn becomes inputs, constants come along."""

    def __init__(self, model):
        self.model = model
        self.tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        self.makers = {name: node for node in model.graph.node for name in node.output}

    def of(self, site, arrays):
        inputs = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                  for name, array in arrays.items()]  # fmt: skip
        nodes, tensors, seen = list(site[::-1]), [], {*arrays, *(name for node in site for name in node.output)}
        for each in nodes:  # it grows: constants behind Identity nodes
            for name in each.input:
                if name and name not in seen:
                    seen.add(name)
                    nodes += [self.makers[name]] if name in self.makers else []
                    tensors += [self.tensors[name]] if name in self.tensors else []
        outputs = [onnx.ValueInfoProto(name=name) for node in site for name in node.output if name]
        graph = onnx.helper.make_graph(nodes[::-1], "alone", inputs, outputs, tensors)
        return onnx.helper.make_model(
            graph, opset_imports=self.model.opset_import, functions=self.model.functions, ir_version=self.model.ir_version
        )


def naive(model, size=4, most=1000):
    """What somebody would give who knows nothing but types: a control."""
    rng, arrays = np.random.default_rng(0), {}
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else size for dim in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        numbers = rng.integers(0, 2 if dtype.kind == "b" else most, dims) if dtype.kind in "biu" else rng.standard_normal(dims)
        if value.name not in constants:
            arrays[value.name] = np.asarray(numbers).astype(dtype)
    return arrays


def runs(model, arrays):
    try:
        run(model, arrays)
    except Exception:  # whatever the bindings make of an error of the runtime
        return False
    return True


def not_finite(outputs):
    """Names of outputs with elements that are not finite."""
    return [name for name, array in outputs.items()
            if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all()]  # fmt: skip


if __name__ == "__main__":
    for path in sys.argv[2:]:
        drawn = draw(sys.argv[1], path)
        if drawn.cannot:
            print(path, "CANNOT", drawn.cannot)
            continue
        try:
            bad = not_finite(run(path, drawn.arrays))
            shapes = {name: (x.shape, x.ravel()[:6].tolist() if x.dtype.kind in "iub" else "") for name, x in drawn.arrays.items()}
            print(path, "ok" if not bad else f"NOT FINITE {bad}", drawn.sizes, str(shapes)[:600])
        except Exception as error:
            print(path, "FAILED", drawn.sizes, {n: x.shape for n, x in drawn.arrays.items()}, str(error)[:300])
