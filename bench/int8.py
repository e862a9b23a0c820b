#!/usr/bin/env python3
"""How near int8 models are to the float model, and how fast they run: weir dynamic beside onnxruntime's quantize_dynamic.

  bench/int8.py MODEL [--samples DIR] [--rounds 15] [--threads 2]

Samples are .npz files with the model's inputs; without any, lines of text are rendered for a model of text recognition (an input
[N,3,48,W]; needs Pillow), or numbers are drawn. For each arm: dB of the outputs against the float model's over all samples, and the
best and the median time of a run, taken in rounds over all arms. Nothing here asserts.
"""

import argparse
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic

from measure import weir

TEXTS = ("The quick brown fox 0123", "weir streams 2.4 GB", "Invoice No. 48-115", "jumps over the lazy dog", "42.00 EUR incl. VAT",
         "Haltestelle Nord", "ABC def GHI jkl", "quantize me gently")  # fmt: skip
C2M = ["--pass", "conv2matmul:extended_conv1x1=true"]
OURS = {
    "weir dynamic": ["--pass", "dynamic"],
    "weir conv2matmul, dynamic": [*C2M, "--pass", "dynamic"],
    "weir dynamic, Conv too": ["--pass", "dynamic:op_types=MatMul+Gemm+LSTM+Gather+Conv"],
    "weir dynamic --form integer": ["--pass", "dynamic:form=integer"],
    "weir dynamic --reduce-range": ["--pass", "dynamic:reduce_range=true"],
}
THEIRS = {
    "quantize_dynamic": {},
    "quantize_dynamic QUInt8": {"weight_type": QuantType.QUInt8},
    "quantize_dynamic MatMul, per channel": {"op_types_to_quantize": ["MatMul"], "per_channel": True},
}


def lines(width=320):
    from PIL import Image, ImageDraw, ImageFont

    for i, text in enumerate(TEXTS * 3):
        image = Image.new("RGB", (width, 48), "white")
        ImageDraw.Draw(image).text((6, 8), text, fill=(10 * (i % 5),) * 3, font=ImageFont.load_default(22 + i % 4))
        x = np.asarray(image, np.float32).transpose(2, 0, 1)[None] / 255
        yield (x - 0.5) / 0.5


def drawn(session):
    rng = np.random.default_rng(1)
    for _ in range(8):
        feeds = {}
        for i in session.get_inputs():
            dims = [d if isinstance(d, int) and d > 0 else 1 if k == 0 else 64 for k, d in enumerate(i.shape)]
            if "float" in i.type:
                feeds[i.name] = rng.normal(0, 1, dims).astype(np.float16 if "16" in i.type else np.float32)
            else:
                feeds[i.name] = rng.integers(0, 8, dims).astype(np.int32 if "32" in i.type else np.int64)
        yield feeds


def samples(asked, session):
    if asked.samples:
        for path in sorted(Path(asked.samples).glob("*.npz")):
            yield dict(np.load(path))
        return
    (first, *rest) = session.get_inputs()
    if not rest and len(first.shape) == 4 and first.shape[1:3] == [3, 48]:
        for x in lines():
            yield {first.name: x}
    else:
        yield from drawn(session)


def opened(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def decibels(expected, got):
    signal = noise = 0.0
    for a, b in zip(expected, got):
        for x, y in zip(a, b):
            signal += float((x.astype(np.float64) ** 2).sum())
            noise += float(((x.astype(np.float64) - y) ** 2).sum())
    return 10 * np.log10(signal / noise) if noise else float("inf")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--samples")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        models = {"float32": asked.model}
        for i, (name, options) in enumerate(THEIRS.items()):
            path = f"{folder}/theirs{i}.onnx"
            try:
                quantize_dynamic(asked.model, path, **options)
                models[name] = path
            except Exception as why:  # noqa: BLE001 (whatever keeps it from writing one)
                print(f"{name}: {type(why).__name__}: {str(why)[:100]}", file=sys.stderr)
        for i, (name, passes) in enumerate(OURS.items()):
            models[name] = f"{folder}/ours{i}.onnx"
            subprocess.run([weir(), "run", asked.model, models[name], *passes, "--quiet"], check=True)
        sessions = {}
        for name, path in models.items():
            try:
                sessions[name] = opened(path, asked.threads)
            except Exception as why:  # noqa: BLE001
                print(f"{name}: does not load: {str(why)[:100]}", file=sys.stderr)
        feeds = list(samples(asked, sessions["float32"]))
        expected = [sessions["float32"].run(None, f) for f in feeds]
        found = {name: decibels(expected, [s.run(None, f) for f in feeds]) for name, s in sessions.items()}
        seconds = {name: [] for name in sessions}
        for _ in range(asked.rounds):
            for name in random.sample(list(sessions), len(sessions)):
                start = time.perf_counter()
                sessions[name].run(None, feeds[0])
                seconds[name].append(time.perf_counter() - start)
        print("| | dB | ms, best | ms, median | MB |\n|---|---|---|---|---|")
        for name in sessions:
            t = sorted(seconds[name])
            size = sum(f.stat().st_size for f in Path(models[name]).parent.glob(Path(models[name]).name + "*") if "manifest" not in f.name)
            print(f"| {name} | {found[name]:.1f} | {t[0] * 1e3:.1f} | {t[len(t) // 2] * 1e3:.1f} | {size / 1e6:.1f} |")


if __name__ == "__main__":
    main()
