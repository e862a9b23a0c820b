#!/usr/bin/env python3
"""How much a text recognizer misreads after each recipe: a table each of docs/recipes.md, docs/shrink.md and docs/int8.md.

    WEIR=build/plain/weir bench/accuracy.py

The model is PP-OCRv6_rec_small of the package rapidocr; 40 lines of three words are drawn from a seed, with the font of Pillow, and 16 others calibrate.
Columns: the size of all files, plain and compressed; lines that are read correctly; steps of lines whose largest class differs from
the float model's. Products of whole numbers are exact, as on a processor with VNNI (tests/support/exact_products.py). Pillow and brotli go into
environments of their own.
"""

import gzip
import importlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import exact_products  # noqa: E402
import int8_accuracy  # noqa: E402
import runtimes  # noqa: E402

LINES, CALIBRATION, WIDTH, BROTLI = 40, 16, 480, "1.2.0"
Q4 = "weir run MODEL OUT --target webgpu --pass tidy --pass conv2matmul --pass quantize"
C2M = "weir run MODEL OUT --pass conv2matmul"
LEVELS = "weir shrink MODEL -o OUT --method float_weights --levels"
# Its name in docs/recipes.md, docs/shrink.md and docs/int8.md ("": the page does not have it), and commands: MODEL is the model, OUT the file that is judged.
RECIPES = [
    ("the model, float32", "the model, float32", "float32", ["weir convert MODEL OUT"]),
    ("`weir cast --to float16`", "`weir cast --to float16`", "", ["weir cast MODEL OUT --to float16"]),
    ("`weir cast --to float16 --graph`", "", "", ["weir cast MODEL OUT --to float16 --graph"]),
    ("", "`weir shrink --method float_weights --levels 1000`", "", [f"{LEVELS} 1000"]),
    ("", "`… --levels 256`", "", [f"{LEVELS} 256"]),
    ("", "`… --levels 100`", "", [f"{LEVELS} 100"]),
    ("`weir shrink`", "`weir shrink`: int8", "", ["weir shrink MODEL -o OUT"]),
    ("`weir run --pass conv2matmul --pass dynamic`", "`weir run --pass conv2matmul --pass dynamic`", "**`weir run --pass conv2matmul --pass dynamic`**", [f"{C2M} --pass dynamic"]),
    ("`weir run --pass conv2matmul --pass smooth --pass dynamic`", "", "", ["weir calibrate MODEL -o channels.jsonl --data DATA --statistics channel", f"{C2M} --pass smooth:alpha=0.5,ranges=channels.jsonl --pass dynamic"]),
    ("`weir calibrate`, then `weir static`", "", "", ["weir calibrate MODEL -o ranges.jsonl --data DATA", "weir static MODEL OUT --ranges ranges.jsonl"]),
    ("[the smallest file for the browser](#the-smallest-file-for-the-browser)", "`weir run --target webgpu --pass tidy --pass conv2matmul --pass quantize` (q4)", "", [Q4]),
    ("the same with `quantize:bits=8`", "", "", [f"{Q4}:bits=8"]),
    ("the same with `quantize:symmetric=false`", "", "", [f"{Q4}:symmetric=false"]),
    ("the same with `quantize:gate=sqnr=20dB`", "", "", [f"{Q4}:gate=sqnr=20dB"]),
    ("the smallest file, then `weir cast --to float16 --graph`", "q4, then `weir cast --to float16 --graph` (q4f16)", "", [Q4.replace("OUT", "q4.onnx"), "weir cast q4.onnx OUT --to float16 --graph"]),
    ("", "`weir run --pass conv2matmul --pass quantize:block_size=64 --pass shrink`", "", [f"{C2M} --pass quantize:block_size=64 --pass shrink"]),
    ("`weir run --target cpu --pass conv2matmul --pass quantize`", "", "", ["weir run MODEL OUT --target cpu --pass conv2matmul --pass quantize"]),
    ("2 bits with hqq, and `gate=sqnr=8dB`", "", "", [f"{C2M} --pass quantize:bits=2,block_size=32,algorithm=hqq,gate=sqnr=8dB"]),
    ("", "", "`quantize_dynamic`, uint8 weights", ["quantize_dynamic MODEL OUT QUInt8"]),
    ("", "", "`quantize_dynamic`, its defaults (int8 weights)", ["quantize_dynamic MODEL OUT QInt8"]),
]  # fmt: skip
COLUMNS = {
    "docs/recipes.md": ["MB", "lines read correctly", "top-1 changes"],
    "docs/shrink.md": ["raw", "gzip -9", "brotli -q 9", "lines read correctly"],
    "docs/int8.md": ["MB", "lines read correctly"],
}


def brotli():
    python = runtimes.environment(f"brotli-{BROTLI}", [f"brotli=={BROTLI}"])
    sys.path.append(str(next(python.parent.parent.glob("lib/python*/site-packages"))))
    return importlib.import_module("brotli")


def characters(path):
    """By class: blank, those of the model, a space."""
    [found] = [p.value for p in onnx.load(path).metadata_props if p.key == "character"]
    return ["", *found.split("\n"), " "]


def read(classes, names):
    """The text of a line: steps of the same class in a row are one character."""
    return "".join(names[c] for i, c in enumerate(classes) if i == 0 or classes[i - 1] != c).strip()


def classes_of(model, folder, feeds):
    """The largest class of each step, for each line."""
    session = int8_accuracy.session(exact_products.exact_file(model, folder / "exact.onnx"))
    [given] = session.get_inputs()
    dtype = np.float16 if given.type == "tensor(float16)" else np.float32
    return [session.run(None, {given.name: feed.astype(dtype)})[0].argmax(-1)[0] for feed in feeds]


def make(weir, source, commands, folder, data):
    places = {"weir": weir, "MODEL": source, "OUT": "out.onnx", "DATA": data}
    for command in commands:
        words = [str(places.get(word, word)) for word in shlex.split(command)]
        if words[0] == "quantize_dynamic":
            quantize_dynamic(words[1], folder / words[2], weight_type=QuantType[words[3]])
            continue
        done = subprocess.run([*words, "--quiet"], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{command}: {done.stderr}")
    return folder / "out.onnx"


def main():
    weir = Path(os.environ["WEIR"]).resolve()
    os.environ.setdefault("VIRTUAL_ENV", sys.prefix)  # where weir looks for ONNX Runtime
    source = int8_accuracy.package_file("rapidocr", "models", "PP-OCRv6_rec_small.onnx")
    names, squeeze, rng = characters(source), brotli(), np.random.default_rng(1)
    texts, arrays = zip(*(int8_accuracy.text_line(rng, WIDTH, words=3) for _ in range(LINES)), strict=True)
    wanted, rows = None, {page: [] for page in COLUMNS}
    with tempfile.TemporaryDirectory(prefix="weir-accuracy-") as work:
        data = Path(work, "data")
        data.mkdir()
        for i in range(CALIBRATION):
            np.savez(data / f"{i:02}.npz", x=int8_accuracy.text_line(rng, WIDTH, words=3)[1])
        for i, (*called, commands) in enumerate(RECIPES):
            folder = Path(work, str(i))
            folder.mkdir()
            model = make(weir, source, commands, folder, data)
            files = [path.read_bytes() for path in sorted(folder.glob("out.onnx*")) if "manifest" not in path.name]
            got = classes_of(model, folder, arrays)
            wanted = wanted or got
            sizes = [sum(map(len, files)), sum(len(gzip.compress(f, 9)) for f in files), sum(len(squeeze.compress(f, quality=9)) for f in files)]
            figures = dict(zip(["raw", "gzip -9", "brotli -q 9"], (f"{size / 1e6:.2f}" for size in sizes), strict=True))
            figures["MB"] = figures["raw"]
            figures["lines read correctly"] = f"{sum(read(c, names) == text for c, text in zip(got, texts, strict=True))} of {LINES}"
            figures["top-1 changes"] = f"{100 * np.concatenate([a != b for a, b in zip(got, wanted, strict=True)]).mean():.1f} %"
            print(commands[-1], figures, file=sys.stderr, flush=True)
            for (page, columns), name in zip(COLUMNS.items(), called, strict=True):
                if name:
                    rows[page].append(f"| {name} | " + " | ".join(figures[c] for c in columns) + " |")
    for page, columns in COLUMNS.items():
        print(page, "| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|", *rows[page], sep="\n")


if __name__ == "__main__":
    main()
