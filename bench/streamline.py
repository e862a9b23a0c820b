#!/usr/bin/env python3
"""streamline of quantized networks: weir against onnx-passes, neither of them verifying.

    python -m venv V && V/bin/pip install onnx-passes==0.4.1 qonnx==1.0.0
    WEIR=build/static-x86_64/weir bench/streamline.py V [--rounds 3] [--width 32]

The networks are those of tests/support/quantized_nets.py. What both get is what the original's import-qonnx, inline-qonnx,
inline-batchnorm, inline-gemm and fold-constants make of them; what is timed is `streamline` alone, from file to file. Prints
for each network how many times faster weir is, median and ends over the rounds, how many times less memory it takes, and how
many nodes either leaves. How it measures: measure.py. Nothing here asserts.
"""

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

import onnx

from measure import Arm, rounds, weir

SUPPORT = Path(__file__).resolve().parent.parent / "tests" / "support"
CONFIG = "imports: [onnx_passes.passes.imports.qonnx, onnx_passes.passes.inline.qonnx]\n"
PREPARED = """import-qonnx shape-inference inline-qonnx inline-batchnorm inline-gemm shape-inference fold-constants""".split()


def prepared(tools, net, width, folder):
    """The network as both get it."""
    source, config, out = folder / f"{net}.onnx", folder / "imports.yaml", folder / f"{net}.in.onnx"
    config.write_text(CONFIG)
    words = [str(tools / "python"), str(SUPPORT / "quantized_nets.py"), net, str(source), "--width", str(width)]
    subprocess.run(words, check=True)
    words = [str(tools / "onnx-passes"), "-o", str(out), "-c", str(config), str(source), *PREPARED]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return out


def peak_of(command):
    """Bytes, by GNU time: what measure.py's own child takes is more than weir does."""
    done = subprocess.run(["/usr/bin/time", "-f", "%M", *command], capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1]) * 1024


def nodes(path):
    return len(onnx.load(path).graph.node)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path, help="where onnx-passes is installed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--width", type=int, default=32)
    asked = parser.parse_args()
    tools = asked.environment.resolve() / "bin"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for net in ("cnn", "transformer"):
            source = prepared(tools, net, asked.width, folder)
            ours, theirs = folder / "ours.onnx", folder / "theirs.onnx"
            words = ["run", str(source), str(ours), "--pass", "streamline", "--exactness", "finite", "--quiet", "--force"]
            arms = [
                Arm("weir", [[weir(), *words]]),
                Arm("onnx-passes", [[str(tools / "onnx-passes"), "-o", str(theirs), str(source), "streamline"]]),
            ]
            rounds(arms, asked.rounds, [source])
            peak = peak_of(arms[0].commands[0])
            times = [b / a for a, b in zip(arms[0].seconds, arms[1].seconds)]
            print(
                f"{net}: {statistics.median(times):.0f} times faster ({min(times):.0f}-{max(times):.0f}; "
                f"{statistics.median(arms[1].seconds):.1f} s), {arms[1].peak / peak:.0f} times less memory "
                f"({peak / 1e6:.1f} MB, {arms[1].peak / 1e6:.0f} MB), {nodes(ours)} nodes, {nodes(theirs)}"
            )


if __name__ == "__main__":
    main()
