#!/usr/bin/env python3
"""Measure what bench/README.md claims, and print its table.

  bench/claims.py MODEL [--rounds 7] [--only NAME]…       all claims, or some

MODEL is an external-data encoder of about 2.4 GB: tests/support/make_encoder.py writes one, bench/export_parakeet.py
the real architecture. The peers (onnx-conv2matmul, onnx, onnx_ir) come from tests/requirements.txt; run this with the
Python of that environment. How it measures: measure.py. Nothing here asserts.

  conv2matmul   weir conv2matmul against `cp` + `sync` of the same files + their SHA-256 divided by the cores
  peer          the same against onnx-conv2matmul, which leaves its files in the page cache; and with `sync` of them
  convert       weir convert against onnx_ir load + save + sync
  index         a chain of 1 000 000 nodes and initializers: weir's planning against onnx.load
  size          time per byte and memory at 0.2, 2.4 and 24 GB (sparse sources, null engine)
  int4          weir run: conv2matmul and 4 bit (block 64, asymmetric) in one go, against `cp` + `sync` of the source
  int4-peer     the same against onnx-conv2matmul and then onnxruntime's MatMulNBitsQuantizer
  shrink        weir shrink against onnx_shrink_ray (needs bench/requirements.txt)
  wide          one weight of 4 GiB (16384 x 65536) to 4 bit: memory, bytes read
  fold          a BatchNormalization folded into a Conv of 512 MiB: memory, bytes read
  int8          weir run: conv2matmul and dynamic int8 in one go, against `cp` + `sync` of the source
  int8-peer     the same against (MatMul only, without conv2matmul) onnxruntime's quantize_dynamic
  static        weir run: conv2matmul and static int8 (QDQ) with given ranges in one go, against `cp` + `sync` of the source
  static-peer   the same against (MatMul only, without conv2matmul) onnxruntime's quantize_static, given its calibration cache
  calibrate     a sample of weir calibrate, least and most alone and with histograms, against a run of the float model
  int4-size     as size, with the job of int4
  verify        sites of conv2matmul, and of it with 4 bits, against both models whole: seconds and memory
  audit         `openssl dgst -sha256` of a model's files against weir audit of them, by one worker
  diff          two copies of the model, and two of which every tensor differs, against `cmp` of their data files
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from measure import Arm, copy_and_sync, hash_files, peaks, rounds, weir

SUPPORT = Path(__file__).resolve().parent.parent / "tests" / "support"

PEER = "import sys\nfrom onnx_conv2matmul.cli import main\nsys.argv = ['onnx-conv2matmul'] + sys.argv[1:]\nmain()\n"
IR_SAVE = (
    "import sys, onnx_ir\n"
    "m = onnx_ir.load(sys.argv[1])\n"
    "onnx_ir.save(m, sys.argv[2], external_data=sys.argv[2].rsplit('/', 1)[1] + '.data')\n"
)
QUANTIZE = (
    "import sys\n"
    "from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer\n"
    "q = MatMulNBitsQuantizer(sys.argv[1], bits=4, block_size=64, is_symmetric=False)\n"
    "q.process()\n"
    "q.model.save_model_to_file(sys.argv[2], True)\n"
)
DYNAMIC = (
    "import sys\n"
    "from onnxruntime.quantization import quantize_dynamic\n"
    "quantize_dynamic(sys.argv[1], sys.argv[2], op_types_to_quantize=['MatMul'], per_channel=True, use_external_data_format=True)\n"
)
STATIC = (
    "import sys\n"
    "from onnxruntime.quantization import QuantFormat, QuantType, quantize_static\n"
    "quantize_static(sys.argv[1], sys.argv[2], None, op_types_to_quantize=['MatMul'], per_channel=True, quant_format=QuantFormat.QDQ,\n"
    "                activation_type=QuantType.QUInt8, use_external_data_format=True, calibration_cache_path=sys.argv[3])\n"
)
FLOAT = (  # as weir-ort runs it: weights mapped, not packed anew
    "import sys, numpy, onnxruntime\n"
    "o = onnxruntime.SessionOptions()\n"
    "o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL\n"
    "o.add_session_config_entry('session.disable_prepacking', '1')\n"
    "s = onnxruntime.InferenceSession(sys.argv[1], o)\n"
    "for path in sys.argv[2:]:\n"
    "    s.run(None, dict(numpy.load(path)))\n"
)
INT8 = ["--pass", "conv2matmul:extended_conv1x1=true", "--pass", "dynamic"]
SHRINK = ["-m", "onnx_shrink_ray.shrink"]
INT4 = ["--pass", "conv2matmul:extended_conv1x1=true", "--pass", "quantize:bits=4,block_size=64,symmetric=false"]
ONNX_LOAD = "import sys, onnx\nonnx.load(sys.argv[1])\n"


def files_of(model):
    """The .onnx and everything beside it that it may name."""
    model = Path(model)
    return [p for p in sorted(model.parent.iterdir()) if p.is_file()]


def weir_arm(name, words, out):
    outputs = [out, f"{out}.data", f"{out}.manifest.json"]
    return Arm(name, [[weir(), *words, str(out), "--quiet", "--force"]], outputs)


def conv2matmul(model, work, n):
    files = files_of(model)
    base, dgst = copy_and_sync(files, work / "copy"), hash_files(files)
    ours = weir_arm("weir conv2matmul", ["conv2matmul", str(model), "--extended-conv1x1"], work / "c2m.onnx")
    rounds([base, dgst, ours], n, files)
    cores = os.cpu_count()
    values = [o / (b + d / cores) for o, b, d in zip(ours.seconds, base.seconds, dgst.seconds)]
    yield "conv2matmul / (cp + sync + SHA-256/cores)", sorted(values)[len(values) // 2], values, 0.35
    yield "peak memory, MB", ours.peak / 1e6, [ours.peak / 1e6], None


def peer(model, work, n):
    files = files_of(model)
    out = work / "peer.onnx"
    theirs = Arm("onnx-conv2matmul",
                 [[sys.executable, "-c", PEER, str(model), str(out), "--extended-conv1x1", "--skip-checker"],
                  ["sync", str(out), f"{out}.data"]],
                 [out, f"{out}.data"])
    ours = weir_arm("weir conv2matmul", ["conv2matmul", str(model), "--extended-conv1x1"], work / "c2m.onnx")
    rounds([theirs, ours], n, files)
    values = [(t - s) / o for t, s, o in zip(theirs.seconds, theirs.last, ours.seconds)]
    yield "times faster than onnx-conv2matmul", sorted(values)[len(values) // 2], values, 5
    values = [t / o for t, o in zip(theirs.seconds, ours.seconds)]
    yield "times faster than onnx-conv2matmul and sync of its files", sorted(values)[len(values) // 2], values, None
    yield "times less memory", theirs.peak / ours.peak, [theirs.peak / ours.peak], 45


def beside_copy(model, work, n, name, passes, bound):
    files = files_of(model)
    base = copy_and_sync(files, work / "copy")
    report = work / f"{name}.json"
    words = ["run", str(model), *passes, "--report-json", str(report), "-o"]
    ours = weir_arm("weir run", words, work / f"{name}.onnx")
    rounds([base, ours], n, files)
    values = [o / b for o, b in zip(ours.seconds, base.seconds)]
    yield f"{name} / (cp + sync)", sorted(values)[len(values) // 2], values, bound
    yield "peak memory, MB", ours.peak / 1e6, [ours.peak / 1e6], None
    read = json.loads(report.read_text())["weir"]["source_bytes_read"] / sum(f.stat().st_size for f in files)
    yield "bytes read / bytes of the model", read, [read], 1.02


def int4(model, work, n):
    yield from beside_copy(model, work, n, "int4", INT4, 0.5)


def int8(model, work, n):
    yield from beside_copy(model, work, n, "int8", INT8, 0.6)


def calibrated(model, work, *words):
    """Ranges from one drawn sample, and the same as a cache of onnxruntime."""
    out, cache = work / "ranges.jsonl", work / "cache.json"
    done = peaks.run([weir(), "calibrate", str(model), "-o", str(out), "--cache", str(cache), "--generate", "1", "--quiet", "--force", *words],
                     env={**os.environ, "VIRTUAL_ENV": sys.prefix})  # fmt: skip
    if done.code:
        raise SystemExit(done.err)
    return str(out), str(cache)


def static(model, work, n):
    ranges, _ = calibrated(model, work, *INT8[:2])
    yield from beside_copy(model, work, n, "static", [*INT8[:2], "--pass", f"static:ranges={ranges}"], 0.6)


def static_peer(model, work, n):
    files = files_of(model)
    ranges, cache = calibrated(model, work)
    out = work / "peer.onnx"
    theirs = Arm("quantize_static", [[sys.executable, "-c", STATIC, str(model), str(out), cache]], [out, f"{out}.data"])
    ours = weir_arm("weir static", ["static", str(model), "--op-types", "MatMul", "--ranges", ranges, "-o"], work / "static.onnx")
    rounds([theirs, ours], n, files)
    values = [t / o for t, o in zip(theirs.seconds, ours.seconds)]
    yield "times faster than quantize_static", sorted(values)[len(values) // 2], values, 15
    yield "times less memory", theirs.peak / ours.peak, [theirs.peak / ours.peak], 60


def sample_files(model, folder, n):
    """As many arrays of noise, 640 frames long, for each input."""
    import numpy as np
    import onnx

    folder.mkdir(exist_ok=True)
    paths = [folder / f"{i}.npz" for i in range(n)]
    rng = np.random.default_rng(0)
    for path in paths:
        arrays = {}
        for i in onnx.load(model, load_external_data=False).graph.input:
            kind = i.type.tensor_type
            sizes = [d.dim_value or (1 if k == 0 else 640) for k, d in enumerate(kind.shape.dim)]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            arrays[i.name] = rng.standard_normal(sizes).astype(dtype) if dtype == np.float32 else np.full(sizes, 640 if sizes == [1] else 1, dtype)
        np.savez(path, **arrays)
    return [str(path) for path in paths]


def calibrate(model, work, n):
    """From runs of 2 and of 8 samples, so that what every process does once does not count."""
    few, many = 2, 8
    paths = sample_files(model, work / "samples", many)
    env = {**os.environ, "VIRTUAL_ENV": sys.prefix}
    out, report = work / "ranges.jsonl", work / "calibrate.json"
    arms, runs = {}, {}
    for method in ("minmax", "percentile"):
        for k in (few, many):
            words = ["calibrate", str(model), "-o", str(out), "--data", str(work / "samples"), "--samples", str(k), "--method", method, "--force"]
            arms[method, k] = Arm(f"{method}, {k}", [[weir(), *words, "--quiet"]], [out], env=env)
            done = peaks.run([weir(), *words, "--json"], env=env)
            report = json.loads(done.out)
            runs[method, k] = report["runs"]
            yield f"{method}, {k} samples: peak memory of weir, MB", report["peak_memory_bytes"] / 1e6, [report["peak_memory_bytes"] / 1e6], 80
            peak = report["runtime_peak_memory_bytes"] / 1e9
            yield f"{method}, {k} samples: peak memory of the runtime, GB", peak, [peak], None
    for k in (few, many):
        arms["float", k] = Arm(f"float, {k}", [[sys.executable, "-c", FLOAT, str(model), *paths[:k]]])
    rounds(list(arms.values()), n, files_of(model))

    def each(what):
        return [(b - a) / (many - few) for a, b in zip(arms[what, few].seconds, arms[what, many].seconds)]

    for method in ("minmax", "percentile"):
        share = (runs[method, many] - runs[method, few]) / (many - few)
        values = [ours / share / theirs for ours, theirs in zip(each(method), each("float"))]
        yield f"{method}: a run of {share:g} a sample / a run of the float model", sorted(values)[len(values) // 2], values, 1.3


def int8_peer(model, work, n):
    files = files_of(model)
    out = work / "peer.onnx"
    theirs = Arm("quantize_dynamic", [[sys.executable, "-c", DYNAMIC, str(model), str(out)]], [out, f"{out}.data"])
    ours = weir_arm("weir dynamic", ["dynamic", str(model), "--op-types", "MatMul", "-o"], work / "int8.onnx")
    rounds([theirs, ours], n, files)
    values = [t / o for t, o in zip(theirs.seconds, ours.seconds)]
    yield "times faster than quantize_dynamic", sorted(values)[len(values) // 2], values, 15
    yield "times less memory", theirs.peak / ours.peak, [theirs.peak / ours.peak], 60


def int4_peer(model, work, n):
    files = files_of(model)
    middle, out = work / "middle.onnx", work / "peer.onnx"
    theirs = Arm("onnx-conv2matmul, MatMulNBitsQuantizer",
                 [[sys.executable, "-c", PEER, str(model), str(middle), "--extended-conv1x1", "--skip-checker"],
                  [sys.executable, "-c", QUANTIZE, str(middle), str(out)]],
                 [middle, f"{middle}.data", out, f"{out}.data"])
    ours = weir_arm("weir run", ["run", str(model), *INT4, "-o"], work / "int4.onnx")
    rounds([theirs, ours], n, files)
    values = [t / o for t, o in zip(theirs.seconds, ours.seconds)]
    yield "times faster than both", sorted(values)[len(values) // 2], values, 20
    yield "times less memory", theirs.peak / ours.peak, [theirs.peak / ours.peak], 45


def sites(model, work, n, words):
    """Every site of a run against whole models: seconds are said as they are, since a person waits for them."""
    out, log = work / "verified.onnx", work / "verified.jsonl"
    peaks.run([weir(), *words[:1], str(model), str(out), *words[1:], "--edit-log", str(log), "--quiet"])
    env = {**os.environ, "VIRTUAL_ENV": sys.prefix}
    ours = Arm("sites", [[weir(), "verify", str(model), str(out), "--edits", str(log), "--require", "100%", "--quiet"]], env=env)
    whole = Arm("whole", [[weir(), "verify", str(model), str(out), "--metric", "cosine=0.5", "--quiet"]], env=env)
    rounds([ours, whole], n, files_of(model))
    for path in work.glob("verified*"):
        path.unlink()
    yield "sites, s", sorted(ours.seconds)[len(ours.seconds) // 2], ours.seconds, None
    yield "sites, peak memory of all processes, MB", ours.peak / 1e6, [ours.peak / 1e6], 300
    yield "whole models, s", sorted(whole.seconds)[len(whole.seconds) // 2], whole.seconds, None
    yield "whole models, peak memory of all processes, MB", whole.peak / 1e6, [whole.peak / 1e6], None


def verify(model, work, n):
    for words in (["conv2matmul", "--extended-conv1x1"], ["run", *INT4]):
        for what, *rest in sites(model, work, n, words):
            yield f"{words[0]}: {what}", *rest


def change_every_tensor(model):
    """Another last byte of each."""
    with open(f"{model}.data", "r+b") as file:
        for line in Path(f"{model}.tensors.jsonl").read_text().splitlines():
            tensor = json.loads(line)
            if tensor.get("file", "").endswith(".data") and tensor.get("length"):
                at = tensor["offset"] + tensor["length"] - 1
                byte = os.pread(file.fileno(), 1, at)[0] ^ 1
                os.pwrite(file.fileno(), bytes([byte]), at)


def diff(model, work, n):
    first, second, copy = work / "a" / model.name, work / "b" / model.name, work / "copy.data"
    for path in (first, second):
        path.parent.mkdir()
        peaks.run([weir(), "convert", str(model), str(path), "--tensor-digests", "--quiet"])
    shutil.copyfile(f"{first}.data", copy)
    for what in ("equal", "every tensor differs"):
        base = Arm("cmp", [["cmp", f"{first}.data", str(copy)]])
        ours = Arm("weir diff", [["sh", "-c", '"$0" diff "$1" "$2" --quiet || [ $? = 1 ]', weir(), str(first), str(second)]])
        rounds([base, ours], n, [Path(f"{first}.data"), Path(f"{second}.data"), copy])
        values = [o / b for o, b in zip(ours.seconds, base.seconds)]
        yield f"{what}: diff / cmp", sorted(values)[len(values) // 2], values, 1.3
        yield f"{what}: peak memory, MB", ours.peak / 1e6, [ours.peak / 1e6], None
        change_every_tensor(second)


def audit(model, work, n):
    """Seconds of one processor: the model is in the page cache, and both read it from there."""
    out = work / "audited" / model.name
    out.parent.mkdir()
    peaks.run([weir(), "convert", str(model), str(out), "--quiet"])
    files = [out, Path(f"{out}.data")]
    dgst, ours = hash_files(files), Arm("weir audit", [[weir(), "audit", str(out), "--jobs", "1", "--quiet"]])
    rounds([dgst, ours], n, files)
    shutil.rmtree(out.parent)
    values = [d / o for d, o in zip(dgst.seconds, ours.seconds)]
    yield "times faster than openssl dgst -sha256", sorted(values)[len(values) // 2], values, 1.5
    yield "peak memory, MB", ours.peak / 1e6, [ours.peak / 1e6], None


def shrink(model, work, n):
    files = files_of(model)
    folder = work / "shrunk"
    folder.mkdir()
    theirs = Arm("onnx_shrink_ray",
                 [[sys.executable, *SHRINK, "--external-data", "--output_dir", str(folder), str(model)]], [folder])
    ours = Arm("weir shrink", [[weir(), "shrink", str(model), "--output-dir", str(folder), "--quiet"]], [folder])
    rounds([theirs, ours], n, files)
    values = [t / o for t, o in zip(theirs.seconds, ours.seconds)]
    yield "times faster than onnx_shrink_ray", sorted(values)[len(values) // 2], values, 12
    yield "times less memory", theirs.peak / ours.peak, [theirs.peak / ours.peak], 100


def wide(_model, work, _n):
    model = work / "wide" / "wide.onnx"
    model.parent.mkdir()
    peaks.run([sys.executable, str(SUPPORT / "wide.py"), str(model), "16384", "65536"])
    report = work / "wide.json"
    for io in ("auto", "sync"):
        out = work / "wide.int4.onnx"
        arm = weir_arm(f"wide, --io {io}", ["quantize", str(model), "--io", io, "--report-json", str(report), "-o"], out)
        rounds([arm], 1, [])
        common = json.loads(report.read_text())["weir"]
        rest = (common["peak_memory_bytes"] - common["index_bytes"]) / 2**20
        yield f"{io}: VmHWM - index, MiB", rest, [rest], 64
        read = common["source_bytes_read"] / (16384 * 65536 * 4)
        yield f"{io}: bytes read / weight", read, [read], 2.1


def fold(_model, work, _n):
    model = work / "fold" / "conv.onnx"
    model.parent.mkdir()
    peaks.run([sys.executable, str(SUPPORT / "wide.py"), str(model), "8192", "1024", "--batch-norm"])
    report = work / "fold.json"
    rounds([weir_arm("fold", ["run", str(model), "--pass", "fuse/bn", "--report-json", str(report)], work / "folded.onnx")], 1, [])
    common = json.loads(report.read_text())["weir"]
    rest = (common["peak_memory_bytes"] - common["index_bytes"]) / 2**20
    yield "VmHWM - index, MiB", rest, [rest], 64
    read = common["source_bytes_read"] / (8192 * 1024 * 16 * 4)
    yield "bytes read / weight", read, [read], 1.02


def convert(model, work, n):
    files = files_of(model)
    out = work / "ir.onnx"
    theirs = Arm("onnx_ir save",
                 [[sys.executable, "-c", IR_SAVE, str(model), str(out)], ["sync", str(out), f"{out}.data"]],
                 [out, f"{out}.data"])
    ours = weir_arm("weir convert", ["convert", str(model)], work / "convert.onnx")
    rounds([theirs, ours], n, files)
    values = [o / t for t, o in zip(theirs.seconds, ours.seconds)]
    yield "convert / onnx_ir", sorted(values)[len(values) // 2], values, 1
    yield "memory / onnx_ir", ours.peak / theirs.peak, [ours.peak / theirs.peak], 1


def index(_model, work, n):
    chain = work / "chain.onnx"
    peaks.run([sys.executable, str(SUPPORT / "chain.py"), "1000000", str(chain)])
    theirs = Arm("onnx.load", [[sys.executable, "-c", ONNX_LOAD, str(chain)]])
    ours = Arm("weir plan", [[weir(), "conv2matmul", str(chain), "--dry-run", "--quiet"]])
    rounds([theirs, ours], n, [chain])
    chain.unlink()
    values = [o / t for t, o in zip(theirs.seconds, ours.seconds)]
    yield "index and plan / onnx.load", sorted(values)[len(values) // 2], values, 0.5
    yield "peak memory, MB", ours.peak / 1e6, [ours.peak / 1e6], 400


SIZES = ("0.2G", "2.4G", "24G")


def sizes(work, n, words):
    """The same job at three sizes: sparse sources, nothing written."""
    arms, per_byte = [], {}
    for text in SIZES:
        model = work / f"sparse-{text}" / "encoder.onnx"
        model.parent.mkdir(exist_ok=True)
        peaks.run([sys.executable, str(SUPPORT / "make_encoder.py"), str(model), "--size", text, "--sparse"])
        report = work / f"report-{text}.json"
        arms.append(Arm(text, [[weir(), words[0], str(model), str(work / "null.onnx"), *words[1:], "--io", "null", "--quiet",
                                "--report-json", str(report)]]))
    rounds(arms, n, [], cold=[f for text in SIZES for f in files_of(work / f"sparse-{text}" / "encoder.onnx")])
    for arm in arms:
        common = json.loads((work / f"report-{arm.name}.json").read_text())["weir"]
        source = work / f"sparse-{arm.name}" / "encoder.onnx.data"
        per_byte[arm.name] = [s / source.stat().st_size for s in arm.seconds]
        rest = (common["peak_memory_bytes"] - common["index_bytes"]) / 2**20
        yield f"{arm.name}: VmHWM - index, MiB", rest, [rest], 64
    values = [b / a for a, b in zip(per_byte["2.4G"], per_byte["24G"])]
    yield "time per byte, 24 GB / 2.4 GB", sorted(values)[len(values) // 2], values, 1.25


def size(_model, work, n):
    yield from sizes(work, n, ["conv2matmul"])


def int4_size(_model, work, n):
    yield from sizes(work, n, ["run", *INT4])


CLAIMS = {"conv2matmul": conv2matmul, "peer": peer, "convert": convert, "index": index, "size": size, "int4": int4,
          "int4-peer": int4_peer, "int8": int8, "int8-peer": int8_peer, "static": static, "static-peer": static_peer,
          "calibrate": calibrate, "shrink": shrink, "wide": wide, "fold": fold, "int4-size": int4_size, "verify": verify, "audit": audit, "diff": diff}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", action="append", choices=sorted(CLAIMS))
    parser.add_argument("--work", type=Path, help="folder for outputs, on the file system to measure")
    args = parser.parse_args()
    if args.work:
        Path(args.work).mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="weir-bench-", dir=args.work))
    rows = []
    try:
        for name in args.only or CLAIMS:
            print(f"{name}:", file=sys.stderr)
            for what, value, values, bound in CLAIMS[name](args.model, work, args.rounds):
                rows.append((name, what, value, min(values), max(values), bound))
    finally:
        shutil.rmtree(work)
    print("| claim | figure | median | min-max | bound |\n|---|---|---|---|---|")
    for name, what, value, least, most, bound in rows:
        print(f"| {name} | {what} | {value:.2f} | {least:.2f}-{most:.2f} | {'' if bound is None else bound} |")


if __name__ == "__main__":
    main()
