"""What int8 costs: models that people run, quantized by onnxruntime's quantizers and by weir, on the same samples.

    python tests/support/int8_accuracy.py --weir build/plain/weir [--models rec,cls,vad,magika,tiny] [--rows WORD] [--rounds N]

Prints a table in Markdown: for each way of quantizing and each model the SQNR of the outputs in dB against the float
model, the share of samples (steps of a line of text, chunks of speech) on which both decide alike, and the milliseconds
of a run (median over rounds in which all rows run once, in random order, on all cores). The models come with the
packages rapidocr, silero-vad and magika; `tiny` is a transformer with channels that are far larger than the others.

    rec     24 lines of text, drawn, 3x48x320; decides: the class of each step
    cls     48 such lines, some upside down, 3x48x192; decides: up or down
    vad     200 chunks of spoken vowels and pauses, with the float model's state; decides: above .5
    magika  128 files of installed packages; decides: the type
    tiny    64 sequences; decides: the largest output of each token

Calibration takes other samples of the same kind. Everything is drawn from seeds.
"""

import argparse
import contextlib
import importlib
import importlib.util
import logging
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parent))
import runtimes  # noqa: E402

PILLOW = "13.0.0"
WORDS = "weir lets the stream pass and measures what it holds 0123456789 invoice total amount street number".split()


def package_file(package, *parts):
    return Path(importlib.util.find_spec(package).origin).parent.joinpath(*parts)


def session(path, optimized=True, threads=0):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


# ---- samples


def pillow():
    """Pillow of an environment of its own."""
    python = runtimes.environment(f"pillow-{PILLOW}", [f"pillow=={PILLOW}"])
    where = next(python.parent.parent.glob("lib/python*/site-packages"))
    if str(where) not in sys.path:
        sys.path.append(str(where))
    return importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageDraw"), importlib.import_module("PIL.ImageFont")


def text_line(rng, width, turned=False, words=6):
    """A line of so many words, and how rapidocr's models see it: float32 [1,3,48,width] from -1 to 1. What is too long is cut off."""
    image, draw, font = pillow()
    grey = int(rng.integers(200, 256))
    picture = image.new("L", (width, 48), grey)
    text = " ".join(rng.choice(WORDS) for _ in range(words))
    draw.Draw(picture).text((int(rng.integers(2, 10)), int(rng.integers(2, 10))), text, fill=int(rng.integers(0, 80)),
                            font=font.load_default(int(rng.integers(22, 34))))  # fmt: skip
    pixels = np.asarray(picture, dtype=np.float32) + rng.normal(0, 4, (48, width)).astype(np.float32)
    if turned:
        pixels = pixels[::-1, ::-1]
    return text, np.repeat(((pixels / 255 - 0.5) / 0.5)[None, None], 3, axis=1).astype(np.float32)


def line(rng, width, turned=False):
    return text_line(rng, width, turned)[1]


def lines(name, count, seed, width):
    rng = np.random.default_rng(seed)
    return [{name: line(rng, width, turned=width < 200 and i % 2 == 1)} for i in range(count)]


VOWELS = [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410)]  # formants in Hz


def resonance(x, hertz, width):
    """x through a filter with one resonance."""
    r = np.exp(-np.pi * width / 16000)
    a, b, y = 2 * r * np.cos(2 * np.pi * hertz / 16000), -r * r, np.zeros(len(x) + 2)
    for i in range(len(x)):
        y[i + 2] = (1 - r) * x[i] + a * y[i + 1] + b * y[i]
    return y[2:]


def speech(count, seed, path):
    """Chunks of 512 samples at 16 kHz, each with the state that the float model has come to: words of five vowels a second,
    pulses through the resonances of a mouth, with pauses between them."""
    rng, size = np.random.default_rng(seed), count * 512
    t = np.arange(size) / 16000
    phase = np.cumsum(120 * (1 + 0.15 * np.sin(2 * np.pi * 0.6 * t))) / 16000
    pulses, voice = np.diff(np.floor(phase), prepend=0) + rng.normal(0, 0.02, size), np.zeros(size)
    for at in range(0, size, 3200):
        part = pulses[at : at + 3200]
        mouth = zip(VOWELS[rng.integers(len(VOWELS))], (80, 100, 140), strict=True)
        voice[at : at + 3200] = sum(resonance(part, *each) for each in mouth) * np.hanning(len(part))
    signal = np.where(np.sin(2 * np.pi * 0.4 * t) > -0.2, 0.4 * voice / np.abs(voice).max(), 0) + rng.normal(0, 0.003, size)
    float_model, state, context, feeds = session(path, threads=1), np.zeros((2, 1, 128), np.float32), np.zeros(64), []
    for chunk in signal.reshape(count, 512):
        feeds.append({"input": np.concatenate([context, chunk])[None].astype(np.float32), "state": state,
                      "sr": np.array(16000, np.int64)})  # fmt: skip
        state, context = float_model.run(None, feeds[-1])[1], chunk[-64:]
    return feeds


def files(count, seed):
    """Of 128 files and more the first and last 1024 bytes, as magika reads them."""
    found = []
    for package in ("onnx", "numpy", "rapidocr"):
        found += sorted(p for p in package_file(package, "").rglob("*") if p.is_file() and p.stat().st_size > 4096)
    picked = random.Random(seed).sample(found, count)
    feeds = []
    for path in picked:
        with path.open("rb") as file:
            head = file.read(1024)
            file.seek(-1024, 2)
            tail = file.read(1024)
        feeds.append({"bytes": np.frombuffer(head + tail, np.uint8).astype(np.int32)[None]})
    return feeds


def tiny_model(path):
    """Two pre-LN layers, 64 wide, whose LayerNormalizations have gains of 12 to 30 in three channels."""
    rng, nodes, tensors, width, heads = np.random.default_rng(1), [], [], 64, 4

    def tensor(name, array):
        tensors.append(numpy_helper.from_array(array.astype(array.dtype if array.dtype == np.int64 else np.float32), name))
        return name

    def node(op, ins, **attrs):
        nodes.append(helper.make_node(op, ins, [f"v{len(nodes)}"], name=f"n{len(nodes)}", **attrs))
        return nodes[-1].output[0]

    def norm(x, name):
        gain = rng.uniform(0.8, 1.2, width)
        gain[[5, 23, 41]] = (12, 30, 20)
        return node("LayerNormalization", [x, tensor(f"{name}_g", gain), tensor(f"{name}_b", rng.normal(0, 0.1, width))])

    def dense(x, name, n, m):
        y = node("MatMul", [x, tensor(f"{name}_w", rng.normal(0, n**-0.5, (n, m)))])
        return node("Add", [y, tensor(f"{name}_c", rng.normal(0, 0.02, m))])

    split, join = tensor("split", np.array([0, 0, heads, width // heads])), tensor("join", np.array([0, 0, width]))
    x = "x"
    for layer in range(2):
        h = norm(x, f"ln{layer}")
        q, k, v = (node("Transpose", [node("Reshape", [dense(h, f"{w}{layer}", width, width), split])], perm=p)
                   for w, p in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])))  # fmt: skip
        scores = node("Softmax", [node("Mul", [node("MatMul", [q, k]), tensor(f"s{layer}", np.array(0.25))])], axis=-1)
        mixed = node("Reshape", [node("Transpose", [node("MatMul", [scores, v])], perm=[0, 2, 1, 3]), join])
        x = node("Add", [x, dense(mixed, f"o{layer}", width, width)])
        h = dense(norm(x, f"lm{layer}"), f"u{layer}", width, 4 * width)
        x = node("Add", [x, dense(node("Relu", [h]), f"d{layer}", 4 * width, width)])
    nodes.append(helper.make_node("MatMul", [norm(x, "lf"), tensor("head", rng.normal(0, 0.125, (width, 64)))], ["y"], name="head"))
    graph = helper.make_graph(nodes, "tiny", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "t", width])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "t", 64])], tensors)  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def tokens(count, seed):
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(0, 1, (1, 16, 64)).astype(np.float32)} for _ in range(count)]


def models(work):
    """{name: (path, samples to judge by, samples to calibrate with, decisions of the outputs)}."""
    vad = package_file("silero_vad", "data", "silero_vad_16k_op15.onnx")
    tiny = work / "tiny.onnx"
    tiny_model(tiny)
    largest = lambda outputs: outputs[0].argmax(-1).ravel()  # noqa: E731
    return {
        "rec": lambda: (package_file("rapidocr", "models", "PP-OCRv6_rec_small.onnx"), lines("x", 24, 1, 320), lines("x", 16, 2, 320), largest),
        "cls": lambda: (package_file("rapidocr", "models", "ch_ppocr_mobile_v2.0_cls_mobile.onnx"), lines("x", 48, 3, 192), lines("x", 32, 4, 192), largest),
        "vad": lambda: (vad, speech(200, 5, vad), speech(64, 6, vad), lambda outputs: outputs[0].ravel() > 0.5),
        "magika": lambda: (package_file("magika", "models", "standard_v3_3", "model.onnx"), files(128, 7), files(64, 8), largest),
        "tiny": lambda: (tiny, tokens(64, 9), tokens(32, 10), largest),
    }  # fmt: skip


# ---- ways to quantize


def tool_dynamic(**options):
    def make(path, out, _, __):
        quantization = importlib.import_module("onnxruntime.quantization")
        words = {"int8": quantization.QuantType.QInt8, "uint8": quantization.QuantType.QUInt8}
        given = {k: words.get(v, v) if isinstance(v, str) else v for k, v in options.items()}
        quantization.quantize_dynamic(str(path), str(out), **given)

    return make


def with_opset_13(path, out):
    """The model, raised to opset 13 where it is older: DequantizeLinear has an axis from there on."""
    model = onnx.load(path)
    if all(each.version >= 13 for each in model.opset_import if each.domain in ("", "ai.onnx")):
        return path
    raised = out.parent / "raised.onnx"
    onnx.save(onnx.version_converter.convert_version(model, 13), raised)
    return raised


def tool_static(method="MinMax", form="QDQ", activations="QUInt8", **options):
    def make(path, out, calibration, _):
        q = importlib.import_module("onnxruntime.quantization")

        class Reader(q.CalibrationDataReader):
            def __init__(self):
                self.feeds = iter(calibration)

            def get_next(self):
                return next(self.feeds, None)

        source = with_opset_13(path, out) if options.get("per_channel") else path
        q.quantize_static(str(source), str(out), Reader(), quant_format=q.QuantFormat[form], weight_type=q.QuantType.QInt8,
                          activation_type=q.QuantType[activations], calibrate_method=q.CalibrationMethod[method], **options)  # fmt: skip

    return make


def weir_run(*passes, method=None):
    """`weir run` with these words; `{ranges}` in them is what `weir calibrate` found of the model behind the passes before."""

    def make(path, out, calibration, weir):
        words = [str(weir), "run", str(path), str(out), "--force", "--quiet"]
        for each in passes:
            if "{ranges}" in each:
                folder, ranges = out.parent / "samples", out.parent / "ranges.jsonl"
                folder.mkdir(exist_ok=True)
                for i, feed in enumerate(calibration):
                    np.savez(folder / f"{i:04}.npz", **feed)
                said = subprocess.run([str(weir), "calibrate", str(path), "-o", str(ranges), "--data", str(folder), "--fresh", "--samples",
                                       str(len(calibration)), "--quiet", *(["--method", method] if method else [])], capture_output=True, text=True)  # fmt: skip
                if said.returncode:
                    raise RuntimeError(said.stderr)
                each = each.replace("{ranges}", str(ranges))
            words += ["--pass", each]
        said = subprocess.run(words, capture_output=True, text=True)
        if said.returncode:
            raise RuntimeError(said.stderr)

    return make


ROWS = [
    ("onnxruntime dynamic, int8, per tensor", tool_dynamic(weight_type="int8")),
    ("onnxruntime dynamic, uint8, per tensor", tool_dynamic(weight_type="uint8")),
    ("onnxruntime dynamic, MatMul per column", tool_dynamic(weight_type="int8", op_types_to_quantize=["MatMul"], per_channel=True)),
    ("weir dynamic", weir_run("dynamic")),
    ("weir dynamic, Conv too", weir_run("dynamic:op_types=MatMul,op_types=Gemm,op_types=LSTM,op_types=Conv")),
    ("weir conv2matmul, dynamic", weir_run("conv2matmul", "dynamic")),
    ("onnxruntime QDQ, per tensor, all", tool_static()),
    ("onnxruntime QDQ, per channel, all", tool_static(per_channel=True)),
    ("onnxruntime QDQ, per channel, Conv MatMul Gemm", tool_static(per_channel=True, op_types_to_quantize=["Conv", "MatMul", "Gemm"])),
    ("weir static", weir_run("static:ranges={ranges}")),
    ("onnxruntime QDQ, per channel, all, percentile", tool_static(method="Percentile", per_channel=True)),
    ("weir static, percentile", weir_run("static:ranges={ranges}", method="percentile")),
    ("onnxruntime QOperator, per channel, all", tool_static(form="QOperator", per_channel=True)),
    ("weir static, qoperator", weir_run("static:ranges={ranges},format=qoperator")),
    ("onnxruntime QDQ, 16-bit activations, per channel", tool_static(activations="QUInt16", per_channel=True)),
    ("weir static, 16-bit activations", weir_run("static:ranges={ranges},activation_type=uint16")),
]  # fmt: skip


# ---- figures


def outputs_of(path, feeds):
    s = session(path)
    return [s.run(None, feed) for feed in feeds]


def decibels(wanted, got):
    """Of the first output, over all samples."""
    signal = sum(float((w[0].astype(np.float64) ** 2).sum()) for w in wanted)
    noise = sum(float(((w[0].astype(np.float64) - g[0].astype(np.float64)) ** 2).sum()) for w, g in zip(wanted, got, strict=True))
    return 10 * np.log10(signal / noise) if noise else float("inf")


def latency(paths, feeds, rounds):
    """{name: median of a run in ms}, all of them once in each round."""
    sessions, times, rng = {name: session(path) for name, path in paths.items()}, {name: [] for name in paths}, random.Random(1)
    for _ in range(rounds):
        for name in rng.sample(sorted(sessions), len(sessions)):
            feed = feeds[rng.randrange(len(feeds))]
            began = time.perf_counter()
            sessions[name].run(None, feed)
            times[name].append(time.perf_counter() - began)
    return {name: 1000 * statistics.median(t) for name, t in times.items()}


def table(weir, wanted, rows, rounds, work):
    columns, kept = {}, models(work)
    for name in wanted:
        path, feeds, calibration, decide = kept[name]()
        reference, made, column = outputs_of(path, feeds), {"float32": path}, {}
        decided = np.concatenate([decide(each) for each in reference])
        for row, make in rows:
            folder = work / f"{name}-{len(made)}-{abs(hash(row))}"
            folder.mkdir()
            out = folder / "out.onnx"
            try:
                with contextlib.redirect_stderr(None), contextlib.redirect_stdout(None):
                    make(path, out, calibration, weir)
                got = outputs_of(out, feeds)
            except Exception as e:  # a tool that fails on a model is a figure too
                column[row] = "-"
                print(f"{name}: {row}: {str(e).strip().splitlines()[0][:200]}", file=sys.stderr)
                continue
            agree = float((np.concatenate([decide(each) for each in got]) == decided).mean())
            column[row], made[row] = (decibels(reference, got), agree), out
        times = latency(made, feeds, rounds)
        columns[name] = {row: value if value == "-" else f"{value[0]:.1f} dB, {value[1]:.2f}, {times[row]:.1f} ms" for row, value in column.items()}
        columns[name]["float32"] = f"{times['float32']:.1f} ms"
    print("| | " + " | ".join(columns) + " |\n|---" * 1 + "|---" * len(columns) + "|")
    for row in ["float32", *(row for row, _ in rows)]:
        print(f"| {row} | " + " | ".join(columns[name][row] for name in columns) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weir", type=Path, required=True)
    p.add_argument("--models", default="rec,cls,vad,magika,tiny")
    p.add_argument("--rows", default="", help="only rows with this word in their name")
    p.add_argument("--rounds", type=int, default=21)
    given = p.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    os.environ.setdefault("VIRTUAL_ENV", sys.prefix)  # where weir looks for ONNX Runtime
    with tempfile.TemporaryDirectory(prefix="weir-int8-") as work:
        rows = [row for row in ROWS if given.rows in row[0]]
        table(given.weir.resolve(), given.models.split(","), rows, given.rounds, Path(work))


if __name__ == "__main__":
    main()
