"""Block quantization kernels, one core, against onnxruntime's quantize_matmul_4bits on all cores: 4096 x 4096,
4 bits, block 64, asymmetric. Medians of ratios of bytes of input per second, smallest and largest beside them.

    ninja -C build/plain kernels_bench && .venv/bin/python bench/kernels.py --bench build/plain/kernels_bench
"""

import argparse
import random
import statistics
import subprocess
import sys

import measure

SIDE = 4096
WHEEL = f"""
import time
import numpy as np
from onnxruntime.capi._pybind_state import quantize_matmul_4bits
w = np.random.default_rng(1).standard_normal(({SIDE}, {SIDE})).astype(np.float32)
blocks = {SIDE} // 64
q = np.ones(({SIDE}, blocks, 32), np.uint8)
s = np.ones(({SIDE}, blocks), np.float32)
z = np.ones(({SIDE}, blocks // 2), np.uint8)
for _ in range(2):
    begin = time.perf_counter()
    quantize_matmul_4bits(q, w, s, z, 64, {SIDE}, {SIDE}, False)
    seconds = time.perf_counter() - begin
print(seconds)
"""
BASE = ("nbits", "4", "64", "f32", "asymmetric")


def formats():
    """The base format, and every one that differs from it in one thing."""
    yield BASE
    others = (("qdq",), ("2", "8"), ("16", "32", "128", "256"), ("f16", "bf16"), ("symmetric",))
    for place, values in enumerate(others):
        for value in values:
            yield BASE[:place] + (value,) + BASE[place + 1 :]


def seconds_of(command):
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/plain/kernels_bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--all", action="store_true", help="every format, not only the one of the claim")
    args = parser.parse_args()
    wanted = list(formats()) if args.all else [BASE]
    arms = [(way, f, kind) for f in wanted for way in ("rows", "columns") for kind in ("plain", "figures")]
    ratios = {arm: [] for arm in arms}
    order = random.Random(1)
    for _ in range(args.rounds):
        measure.prime_memory()
        turn = [None, *arms]
        order.shuffle(turn)
        seconds = {}
        for arm in turn:
            if arm is None:
                seconds[arm] = seconds_of([sys.executable, "-c", WHEEL])
            else:
                way, f, kind = arm
                # Pinned: one core is the claim.
                seconds[arm] = seconds_of(["taskset", "-c", "0", args.bench, way, *f, kind])
        for arm in arms:
            width = 4 if arm[1][3] == "f32" else 2
            ratios[arm].append(width / seconds[arm] / (4 / seconds[None]))
    for arm in arms:
        v = ratios[arm]
        print(f"{arm[0]:8}{' '.join(arm[1]):36}{arm[2]:8} {statistics.median(v):6.2f} x ({min(v):.2f}-{max(v):.2f})")


if __name__ == "__main__":
    main()
