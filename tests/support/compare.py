"""What "the same model" means: two models compared whatever their layout, and runtimes' outputs compared.

`canonical(path)` gives the bytes of a model in which every payload lies as raw_data in its own TensorProto, wherever
it lay before: inline, typed field, packed or not, data file. Two files mean the same if their canonical bytes are
equal; unknown fields, doc strings and the order of everything count. Reading payloads is done here, from the published
rules alone, so that neither weir nor a library's leniency is its own witness.
"""

import hashlib
import math
import os
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

# Bits of an element, and the typed field that holds it with that field's numpy type.
BITS = {
    TensorProto.FLOAT: 32, TensorProto.UINT8: 8, TensorProto.INT8: 8, TensorProto.UINT16: 16, TensorProto.INT16: 16,
    TensorProto.INT32: 32, TensorProto.INT64: 64, TensorProto.BOOL: 8, TensorProto.FLOAT16: 16,
    TensorProto.DOUBLE: 64, TensorProto.UINT32: 32, TensorProto.UINT64: 64, TensorProto.COMPLEX64: 64,
    TensorProto.COMPLEX128: 128, TensorProto.BFLOAT16: 16, TensorProto.FLOAT8E4M3FN: 8,
    TensorProto.FLOAT8E4M3FNUZ: 8, TensorProto.FLOAT8E5M2: 8, TensorProto.FLOAT8E5M2FNUZ: 8, TensorProto.UINT4: 4,
    TensorProto.INT4: 4, TensorProto.FLOAT4E2M1: 4, TensorProto.FLOAT8E8M0: 8, TensorProto.UINT2: 2,
    TensorProto.INT2: 2, TensorProto.FLOAT6E2M3: 6, TensorProto.FLOAT6E3M2: 6,
}  # fmt: skip
TYPED_FIELDS = {"float_data": "<f4", "double_data": "<f8", "int64_data": "<i8", "uint64_data": "<u8"}
LARGE_OUTPUT_MAX, LARGE_OUTPUT_MEAN = 3e-5, 2e-6  # float32 models: both times max(1, largest output)


# ---- payloads


def tensor_bytes(tensor):
    """Size of a tensor's elements in their packed form."""
    return (math.prod(tensor.dims) * BITS[tensor.data_type] + 7) // 8


def external_pairs(tensor):
    return {entry.key: entry.value for entry in tensor.external_data}


def is_external(tensor):
    return tensor.data_location == TensorProto.EXTERNAL


def payload(tensor, folder):
    """The elements of a TensorProto as raw bytes, wherever they are."""
    if is_external(tensor):
        return external_payload(tensor, folder)
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    for field, kind in TYPED_FIELDS.items():
        values = getattr(tensor, field)
        if len(values):
            width = {TensorProto.UINT32: "<u4"}.get(tensor.data_type, kind)
            return np.array(values, kind).astype(width).tobytes()
    if BITS[tensor.data_type] == 6:
        return float6_bytes(tensor.int32_data)
    width = {8: "<u1", 16: "<u2", 32: "<u4"}.get(BITS[tensor.data_type], "<u1")  # below a byte: packed bytes
    return np.array(tensor.int32_data, "<i4").astype(width).tobytes()


def float6_bytes(entries):
    """One entry an element as a stream of 6-bit groups: four elements in three bytes."""
    bits = np.unpackbits(np.array(entries, "<i4").astype("u1")[:, None], axis=1, bitorder="little")[:, :6]
    return np.packbits(bits.ravel(), bitorder="little").tobytes()


def external_payload(tensor, folder):
    pairs = external_pairs(tensor)
    size = int(pairs.get("length", tensor_bytes(tensor)))
    with open(os.path.join(folder, pairs["location"]), "rb") as file:
        file.seek(int(pairs.get("offset", 0)))
        found = file.read(size)
    assert len(found) == size, f"{tensor.name}: {len(found)} of {size} bytes"
    return found


def tensors(message, place=""):
    """Every (place, TensorProto) below a message, in the order of the file."""
    if isinstance(message, TensorProto):
        yield place, message
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        items = [value] if hasattr(value, "ListFields") else value
        for number, item in enumerate(items):
            yield from tensors(item, f"{place}/{field.name}[{number}]")


def make_raw(tensor, folder):
    """Turn a TensorProto into one with raw_data, in place. Strings stay as they are."""
    if tensor.data_type == TensorProto.STRING:
        return
    found = payload(tensor, folder)
    assert len(found) == tensor_bytes(tensor), f"{tensor.name}: {len(found)} bytes, {tensor_bytes(tensor)} in shape"
    for field in (*TYPED_FIELDS, "int32_data", "external_data", "data_location"):
        tensor.ClearField(field)
    tensor.raw_data = found


# ---- whole models


def structure(path):
    """The ModelProto of a file, data files not opened."""
    return onnx.load(path, load_external_data=False)


def raw_model(path):
    """The ModelProto of a file with every payload as raw_data."""
    model = structure(path)
    for _, tensor in tensors(model):
        make_raw(tensor, Path(path).parent)
    return model


def canonical(path):
    return raw_model(path).SerializeToString(deterministic=True)


def same_meaning(first, second):
    """Assert that two files hold the same model, and say where they differ if not."""
    a, b = raw_model(first), raw_model(second)
    if a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True):
        return
    raise AssertionError(f"{first} and {second} differ: {difference(a, b) or 'in unknown fields'}")


def difference(a, b, place=""):
    """The first place where two messages of one type differ, or ''."""
    fields_a, fields_b = dict(named_fields(a)), dict(named_fields(b))
    for name in sorted({*fields_a, *fields_b}):
        here = f"{place}/{name}"
        if name not in fields_a or name not in fields_b:
            return f"{here} is only in the {'first' if name in fields_a else 'second'}"
        found = field_difference(fields_a[name], fields_b[name], here)
        if found:
            return found
    return ""


def named_fields(message):
    return ((field.name, value) for field, value in message.ListFields())


def field_difference(a, b, place):
    if hasattr(a, "ListFields"):
        return difference(a, b, place)
    if isinstance(a, (str, bytes, int, float)):
        return "" if a == b or a != a else f"{place}: {shorten(a)} became {shorten(b)}"
    if len(a) != len(b):
        return f"{place}: {len(a)} became {len(b)}"
    for number, (x, y) in enumerate(zip(a, b)):
        found = field_difference(x, y, f"{place}[{number}]")
        if found:
            return found
    return ""


def shorten(value):
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def folder_bytes(folder, skip=()):
    """Every file below a folder with its content; what tests compare to say "byte for byte"."""
    folder = Path(folder)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in skip
    }


def folder_digests(folder):
    """{name: SHA-256} of the files in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(Path(folder).iterdir()) if path.is_file()}


def model_files(path):
    """The bytes of a written model: its .onnx, its data files and its manifest, by name."""
    path = Path(path)
    names = {path.name, path.name + ".manifest.json"}
    names |= {external_pairs(tensor)["location"] for _, tensor in tensors(structure(path)) if is_external(tensor)}
    return {name: (path.parent / name).read_bytes() for name in sorted(names) if (path.parent / name).exists()}


# ---- what a model is made of


def graphs(model):
    """Every GraphProto and FunctionProto of a model, outermost first."""
    found = [model.graph, *model.functions]
    for graph in found:
        for node in graph.node:
            for attribute in node.attribute:
                found += [attribute.g] if attribute.HasField("g") else []
                found += attribute.graphs
    return found


def nodes(model, op_type=None):
    """Every node of every graph, or those of one operator of the default domain."""
    every = [node for graph in graphs(model) for node in graph.node]
    if op_type is None:
        return every
    return [node for node in every if node.op_type == op_type and node.domain in ("", "ai.onnx")]


def used_names(model):
    """Every value name that some node reads or some graph gives out."""
    names = {name for node in nodes(model) for name in node.input}
    for graph in graphs(model):
        names |= {value if isinstance(value, str) else value.name for value in graph.output}
    return names


def dead_initializers(model):
    used = used_names(model)
    inputs = {value.name for value in model.graph.input}
    return [
        each.name
        for graph in graphs(model)
        if hasattr(graph, "initializer")
        for each in graph.initializer
        if each.name not in used and each.name not in inputs
    ]


# ---- runtimes


def session(path):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])


def run(path, feeds):
    """The outputs of ONNX Runtime on several feeds, with one session."""
    running = session(path)
    return [running.run(None, feed) for feed in feeds]


def assert_close(want, got):
    """Outputs of a float32 model against those of its rewrite: lists of lists as `run` gives."""
    for case, (first, second) in enumerate(zip(want, got, strict=True)):
        for place, (a, b) in enumerate(zip(first, second, strict=True)):
            where = f"feed {case}, output {place}"
            assert a.shape == b.shape and a.dtype == b.dtype, f"{where}: {a.dtype}{a.shape} {b.dtype}{b.shape}"
            if not a.size:
                continue
            if a.dtype.kind != "f":
                assert np.array_equal(a, b), where
                continue
            a, b = a.astype(np.float64), b.astype(np.float64)
            scale, off = max(1.0, np.abs(a).max()), np.abs(a - b)
            assert np.isfinite(a).all() and np.isfinite(b).all(), where
            assert off.max() <= LARGE_OUTPUT_MAX * scale, f"{where}: max abs {off.max():.3g}, scale {scale:.3g}"
            assert off.mean() <= LARGE_OUTPUT_MEAN * scale, f"{where}: mean abs {off.mean():.3g}, scale {scale:.3g}"
