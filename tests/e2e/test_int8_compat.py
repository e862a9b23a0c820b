"""Models that people have, as onnxruntime quantizes them: `weir static` and `weir dynamic` with --compat, each version.

Static ones from the tool's own calibration cache, as QDQ and as operators on codes, and dynamic ones: nodes, names and tensors must be the
same, node order aside. Where the tool fails, or writes what does not load, that is named, and ours must run. Ordinarily a few models,
with tools/test --all every one; random models are in test_static.py, test_static_qoperator.py and test_dynamic.py.
"""

import json
import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic

import quantizers
from conftest import ALL, DATA, copy_model
from installed import package_models
from quantized_alike import alike
from static_pair import Setup, flags, theirs

pytestmark = pytest.mark.in_memory

CODES = QuantFormat.QOperator
STATIC = {
    "qdq": Setup(),
    "qdq, by channel": Setup("uint8", per_channel=True),
    "qdq of products": Setup("uint8", ops=("Conv", "MatMul", "Gemm")),
    "qoperator": Setup("uint8", form=CODES),
    "qoperator, by channel": Setup("uint8", per_channel=True, form=CODES),
}
DYNAMIC = {
    "dynamic": ({}, ()),
    "dynamic, by channel": ({"per_channel": True, "weight_type": QuantType.QUInt8}, ("--per-channel", "--weight-type", "uint8")),
}
PACKAGES = [p for name in ("rapidocr", "silero_vad", "magika") for p in package_models(name)]
ENCODERS = [DATA / f"parakeet-{how}" / "encoder-model.onnx" for how in ("dynamo", "torchscript")]
EXPORTS = sorted((DATA / "exports").glob("*.onnx"))
FEW = [p for p in PACKAGES if p.stem in ("silero_vad_16k_op15", "model")] + ENCODERS[:1] + EXPORTS[1::6]
MODELS = [*PACKAGES, *ENCODERS, *EXPORTS] if ALL else FEW
PAIRS = [(quantizers.HERE, m) for m in MODELS] + [(quantizers.THERE, m) for m in (MODELS if ALL else FEW[::2])]

IMAGES = {"rec_small": (1, 3, 48, 160), "cls_mobile": (2, 3, 48, 192), "det_small": (1, 3, 64, 96)}
# What the tool raises of some of them.
FAILS = ("InferenceError", "AttributeError: 'NoneType' object", "RuntimeError: Invalid model with unknown initializers", "to be an initializer")


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL)


def drawn(path):
    """Normal numbers, masks of ones, bytes for magika, 576 samples of 16 kHz for silero-vad; a batch of 1, other free dims of 12."""
    model = onnx.load(path, load_external_data=False)
    rng, feeds = np.random.default_rng(5), {}
    held = {t.name for t in model.graph.initializer}
    image = next((dims for part, dims in IMAGES.items() if part in path.name), None)
    for value in model.graph.input:
        kind = value.type.tensor_type
        free = 1 if "silero" in path.name else 12
        dims = image or [d.dim_value or (1 if i == 0 else free) for i, d in enumerate(kind.shape.dim)]
        if "silero" in path.name and len(dims) == 2:
            dims = (1, 576)
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if value.name in held:
            continue
        if dtype.kind == "f":
            feeds[value.name] = rng.normal(0, 1, dims).astype(dtype)
        elif "magika" in str(path):
            feeds[value.name] = rng.integers(0, 256, dims).astype(dtype)
        else:
            feeds[value.name] = np.full(dims, 16000 if "silero" in path.name else 1, dtype)
    return feeds


def runs(path, feeds, tool=quantizers.HERE):
    try:
        tool(quantizers.outputs, path, feeds)
    except Exception:  # the runtime raises what it likes
        return False
    return True


def judge(ours, made, failure, feeds, tool):
    """Are they alike? Otherwise why that cannot be, and ours runs."""
    if failure:
        assert any(known in failure for known in FAILS), failure
    differences = [failure] if failure else alike(ours, made, raised=True)
    if not differences:
        return "equal"
    assert failure or not runs(made, feeds, tool), differences
    assert runs(ours, feeds, tool)
    return "the tool fails" if failure else "what the tool writes does not run"


def static(weir, source, feeds, folder, setup, tool):
    made, out, cache = folder / "t.onnx", folder / "o.onnx", folder / "cache.json"
    failure = tool(theirs, source, made, cache, setup, [feeds])
    done = weir("static", source, out, "--force", *flags(setup, cache, folder, tool), code=None)
    if "Infinity" in cache.read_text():  # masks: a scale of infinity there; refused, or left float
        same = done.code == 0 and not failure and alike(out, made) == []
        assert same or setup.form == CODES or "is not finite" in done.err
        return "equal" if same else "infinite ranges"
    assert done.code == 0, done.said
    return judge(out, made, failure, feeds, tool)


def dynamic(weir, source, feeds, folder, options, words, tool):
    made, out = folder / "t.onnx", folder / "o.onnx"
    weir("dynamic", source, out, "--compat", tool.word, "--force", "--quiet", *words)
    try:
        tool(quantize_dynamic, str(source), str(made), **options)
    except Exception as e:  # so does the tool
        return judge(out, made, f"{type(e).__name__}: {e}", feeds, tool)
    return judge(out, made, None, feeds, tool)


def raised(source, folder):
    """The model in opset 13, as onnx's converter makes it."""
    onnx.save(onnx.version_converter.convert_version(onnx.load(source), 13), folder / "raised.onnx")
    return folder / "raised.onnx"


def forms_of(source):
    """All; ordinarily every third, others for each model."""
    forms = [*STATIC, *DYNAMIC]
    return forms if ALL else forms[FEW.index(source) % 3 :: 3]


@pytest.mark.parametrize("tool, source", PAIRS, ids=lambda x: f"{x.parent.name}-{x.stem}" if isinstance(x, Path) else str(x), indirect=["tool"])
def test_models_as_the_tools_write_them(weir, tmp_path, tool, source):
    feeds, found, forms = drawn(source), {}, forms_of(source)
    source = copy_model(source, tmp_path / "in")
    for form in forms:
        if form in DYNAMIC:
            found[form] = dynamic(weir, source, feeds, tmp_path, *DYNAMIC[form], tool)
            continue
        setup = STATIC[form]
        found[form] = static(weir, source, feeds, tmp_path, setup, tool)
        if found[form] == "what the tool writes does not run" and onnx.load(source, load_external_data=False).opset_import[0].version < 13:
            found[form] = static(weir, raised(source, tmp_path), feeds, tmp_path, setup, tool) + ", of the model in opset 13"
    print(source.stem, json.dumps(found))
    if not ALL:
        assert "equal" in found.values() and set(found.values()) <= {"equal", "infinite ranges"}, found
