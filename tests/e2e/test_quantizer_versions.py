"""What quantize_dynamic and quantize_static of either version write of small models (version_models.py), and what weir writes with
--compat of that version: the same nodes, names and tensors, or one of `REASONS` says why not, and what it says is looked at.

Ordinarily one setting in 24 for each model, others for each; with tools/test --all every one. Weights alone (MatMulNBits) are the same in both.
"""

import itertools

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, quantize_dynamic

import quantizers
import version_models
import wheel
from conftest import ALL
from quantized_alike import alike
from static_pair import Setup, flags, theirs
from test_quantize import BITS, SYMMETRIC, quantize

pytestmark = pytest.mark.in_memory

STEP = 1 if ALL else 24
MODELS, SETTINGS = [*version_models.MODELS], [*version_models.SETTINGS]
# Where the versions differ, or nearly: all of these are as the newest version writes them, but some as 1.31 does not, and why.
DIFFER = {
    ("gemm, turned", "dynamic"): None,
    ("gemm, beta 0", "qdq, uint8"): "infinite codes",
    ("gemm, beta 0", "qoperator"): "infinite codes",
    ("gemm f16, small", "qdq, uint8"): None,
    ("gemm f16, small", "qdq, int16"): None,
    ("gemm f16, beta 0", "qdq, uint8"): "infinite codes",
    ("gemm f16, beta 0", "qdq, int16"): "infinite codes",
    ("gemm f16, large bias", "qdq, uint8"): None,
    ("gemm f16, large bias", "qdq, int16"): None,
    ("matmul f16, subnormal", "qdq, uint8"): None,
    ("matmul f16, subnormal", "qdq, int16"): None,
    ("two gemms, one weight", "dynamic"): "does not run",
    ("gather and gemm", "dynamic"): "does not run",
    ("name taken, scale", "dynamic"): None,
}


class Made:
    """A model that was quantized by both."""

    def __init__(self, weir, folder, case, name, setting, tool):
        self.weir, self.folder, self.case, self.name, self.setting, self.tool = weir, folder, case, name, setting, tool
        self.source, self.ours, self.theirs = (folder / f"{n}.onnx" for n in ("m", "o", "t"))
        self.setup = version_models.SETTINGS[setting]
        self.is_static = isinstance(self.setup, Setup)
        for path in (self.ours, self.theirs):
            path.unlink(missing_ok=True)
        self.failure = self.theirs_made()
        self.said = self.ours_made()
        self.differences = alike(self.ours, self.theirs, raised=True) if not self.failure and self.ours.exists() else None

    def theirs_made(self):
        if self.is_static:
            dtype = np.float16 if "f16" in self.name else np.float32
            return self.tool(theirs, self.source, self.theirs, self.cache(), self.setup, self.case.feeds, dtype)
        try:
            self.tool(quantize_dynamic, self.source, self.theirs, **self.setup[0])
        except Exception as e:  # the tool raises what it likes
            return f"{type(e).__name__}: {e}"
        return None

    def cache(self):
        method = "distribution" if self.setup.activation.startswith("float8") else "minmax"
        return self.folder / f"{self.tool}-{method}.json"

    def ours_made(self, *more):
        if self.is_static:
            command = ["static", self.source, self.ours, *flags(self.setup, self.cache(), self.folder, self.tool)]
        else:
            command = ["dynamic", self.source, self.ours, "--compat", self.tool.word, *self.setup[1]]
        return self.weir(*command, *more, "--force", code=None)

    def decibels(self, path, tool=None):
        """As the nodes stand; None: it does not run, so or optimized."""
        tool, signal, noise = tool or self.tool, 0.0, 0.0
        try:
            for feeds in self.case.feeds:
                tool(quantizers.outputs, path, feeds)
                for a, b in zip(tool(quantizers.outputs, self.source, feeds), tool(quantizers.outputs, path, feeds, False)):
                    signal += np.square(a, dtype=np.float64).sum()
                    noise += np.square(a.astype(np.float64) - b).sum()
        except Exception:  # the runtime raises what it likes
            return None
        return 10 * np.log10(signal / noise) if noise and signal else 200

    def is_worse(self, by=3):
        """The tool's, by so many dB."""
        mine, other = self.decibels(self.ours), self.decibels(self.theirs)
        return mine is not None and (other is None or other < mine - by)

    def is_better(self, by=3):
        mine, other = self.decibels(self.ours), self.decibels(self.theirs)
        return mine is None or (other is not None and other > mine + by)

    def tensors(self, path, ends):
        return [numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if t.name.endswith(ends)]

    def gemm(self):
        """alpha and beta of the Gemm that has a bias."""
        node = next((n for n in self.case.model.graph.node if n.op_type == "Gemm" and len(n.input) > 2), None)
        given = {a.name: a.f for a in node.attribute} if node else {}
        return given.get("alpha", 1), given.get("beta", 1)


def fails(m):
    """The tool; what weir writes runs, or it refuses the same."""
    known = ("NotImplementedError: Per-block", "Too many bins", "Histogram has not been collected", "has nan", "no attribute", "not inexact")
    assert m.failure is None or any(k in m.failure for k in known) or m.tool is quantizers.HERE, m.failure
    stops = "--block-size" in m.said.err  # a warning: 1.31 stops at what it fuses then
    return m.failure is not None and (m.said.code in (1, 2, 65, 66) or stops or m.decibels(m.ours) is not None)


def does_not_run(m):
    return m.decibels(m.theirs) is None and m.decibels(m.ours) is not None


def has_infinite_codes(m):
    """Scales of 0; codes that are cut off, or so near to the end of int32, in float16, that sums pass it."""

    def is_so(path):
        most = (2**31 - 1) / (1.002 if "f16" in m.name else 1)
        cut = any(c.dtype == np.int32 and (np.abs(c.astype(np.int64)) >= most).any() for c in m.tensors(path, "_quantized"))
        return cut or any(s.dtype.kind == "f" and not s.all() for s in m.tensors(path, "_scale"))

    return is_so(m.theirs) and not is_so(m.ours) and (m.tool is quantizers.HERE or m.setting == "qdq, float8")


def is_overridable(m):
    """A weight that callers may override stays; told that it is constant, weir writes the same."""
    if m.name != "gemm, listed" or m.ours_made("--inputs-are-constant").code:
        return False
    left = alike(m.ours, m.theirs, raised=True)
    return left == [] or (m.setting == "qdq, pairs of weights" and all(d.startswith("inputs") for d in left))  # it stays one there


def loses_factors(m):
    """Codes of a bias leave out alpha, or beta is lost, which is worse."""
    alpha, beta = m.gemm()
    differ = {d.split("'")[1] for d in m.differences if d.startswith("tensor")}
    if m.tool is quantizers.THERE and beta == 0:
        return m.setup.extra.get("QuantizeBias") is False and m.is_worse()
    only = differ <= {"W_quantized", "W_scale", "b_quantized", "b_quantized_scale", "b_quantized_zero_point"}
    # A large bias is lost in both without room, or beta times itself by chance, where its codes are cut off.
    least = -0.1 if "no room" in m.setting or "large bias" in m.name else 3
    return m.is_static and only and (alpha != 1 or (beta != 1 and m.is_worse(least)))


def has_two_axes(m):
    """A scale a channel, of a weight whose nodes have channels along different axes."""
    return m.name in ("matmul and gemm, one weight", "gather and gemm") and m.is_static and m.setup.per_channel


def turns_twice(m):
    """One weight is turned in place for each Gemm: others read what it has become, or a later Gemm turns it back."""
    of_several = m.name == "if, weight outside"  # three times: back again
    return m.tool is quantizers.HERE and not m.is_static and (of_several or (m.name == "matmul and gemm, one weight" and m.is_worse(10)))


def is_a_batch(m):
    """A scale a channel of a batch of matrices, which no ONNX Runtime before 1.32 runs."""
    return m.name == "matmul, batch" and "channel" in repr(m.setup) and m.decibels(m.theirs, quantizers.HERE) is None


def drops_relu(m):
    """Though codes go below it."""
    ops = [[n.op_type for n in onnx.load(p).graph.node] for p in (m.ours, m.theirs)]
    return "Relu" in ops[0] and "Relu" not in ops[1] and m.setting in ("qdq, float8", "qdq, overrides")


def is_half_on_codes(m):
    """float16: weir computes with scales of float32, between Casts, whether the tool's operators take scales of float16 or not."""
    on_codes = not m.is_static or m.setup.form == QuantFormat.QOperator
    return "f16" in m.name and on_codes and any("'Cast'" in d for d in m.differences) and not m.is_better()


REASONS = {
    "fails": fails, "infinite codes": has_infinite_codes, "a weight that callers may override": is_overridable,
    "a Gemm with alpha or beta": loses_factors, "a scale a channel along two axes": has_two_axes, "turned more than once": turns_twice,
    "a batch with a scale a channel": is_a_batch, "a Relu that is dropped": drops_relu, "does not run": does_not_run,
    "float16 on codes": is_half_on_codes,
}  # fmt: skip


def why_not(m):
    """None: both are the same."""
    if m.differences == []:
        return None
    if m.failure:
        return "fails" if fails(m) else f"the tool fails: {m.failure}"
    if m.differences is None:
        return f"weir fails: {m.said.err}"
    reason = next((name for name, holds in REASONS.items() if name != "fails" and holds(m)), None)
    return reason or f"{m.differences[:4]}, {m.decibels(m.ours)}, theirs {m.decibels(m.theirs)} dB"


def fits(model, setting):
    """Overrides name values that the model has."""
    return "overrides" not in setting and "given" not in setting or not model.startswith("gather")


@pytest.mark.parametrize("name", MODELS)
def test_both_write_the_same(weir, tmp_path, tool, name):
    case, found, wrong = version_models.MODELS[name](), {}, {}
    onnx.save(case.model, tmp_path / "m.onnx")
    for i, setting in enumerate(SETTINGS):
        if (i + 3 * MODELS.index(name)) % STEP or not fits(name, setting):
            continue
        why = why_not(Made(weir, tmp_path, case, name, setting, tool))
        found[why or "equal"] = found.get(why or "equal", 0) + 1
        if why not in (None, *REASONS):
            wrong[setting] = why
    print(f"{tool} {name}: {found}")
    assert not wrong


@pytest.mark.parametrize("name, setting", DIFFER)
def test_where_the_versions_differ(weir, tmp_path, newest, name, setting):
    case = version_models.MODELS[name]()
    onnx.save(case.model, tmp_path / "m.onnx")
    new = Made(weir, tmp_path, case, name, setting, newest)
    assert new.differences == []
    new.theirs.rename(tmp_path / "new.onnx")
    old = Made(weir, tmp_path, case, name, setting, quantizers.HERE)
    assert why_not(old) == DIFFER[name, setting]
    assert old.failure or alike(old.theirs, tmp_path / "new.onnx") != [] or "subnormal" in name


WEIGHTS = ("matmul", "matmul, small", "matmul and add", "matmul f16", "matmul f16, subnormal", "gather", "gather f16", "net")
WAYS = [*itertools.product(BITS, (16, 128), SYMMETRIC)]


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_alone_are_the_same_in_both(weir, tmp_path, tool, name):
    """MatMulNBits and GatherBlockQuantized: no version is asked for."""
    model = version_models.MODELS[name]().model
    ops = ("MatMul", "Gather") if name.startswith("gather") else ("MatMul",)
    for bits, block, symmetric in WAYS if ALL else WAYS[WEIGHTS.index(name) % 3 :: 3]:
        ours = quantize(weir, model, tmp_path / "out.onnx", bits=bits, block=block, symmetric=symmetric, op_types="+".join(ops))
        made = tool(wheel.quantized, model, bits, block, symmetric, op_types=ops)
        wheel.assert_same_graph(ours.graph, made.graph)
