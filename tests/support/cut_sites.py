#!/usr/bin/env python3
"""Runs the parts of sites that cut_tool writes, both of each on the same inputs, and says what came of them.

    cut_sites.py TOOL MODEL FOLDER STEP...
"""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort

DTYPES = {"float": np.float32, "double": np.float64, "bfloat16": ml_dtypes.bfloat16}
FLOATS = ("float", "double", "float16", "bfloat16")


@dataclasses.dataclass
class Found:
    told: dict  # what cut_tool says
    ended: list  # of each site: "equal", "differs", "doubt" (differs, and cut_tool says why it may), or why it did not run
    worst: list  # of each site: the largest difference, as a part of the largest element
    widened: list = dataclasses.field(default_factory=list)  # sites that are equal with what is around them

    def count(self, word):
        return self.ended.count(word)

    def others(self, *words):
        """Sites that ended otherwise, with their operators and passes."""
        sites = zip(self.ended, self.worst, self.told["sites"])
        return [(w, far, s["nodes"], s["passes"], s["name"]) for w, far, s in sites if w not in words]


def dtype_of(name):
    return np.dtype(DTYPES.get(name, name))


def draw(rng, given):
    """Of numbers that both sides hold exactly; what inference knows of the elements holds."""
    dtype = dtype_of(next(each for each in given["dtypes"] if each))
    if "elements" in given:
        return np.array(given["elements"]).reshape(given["dims"]).astype(dtype)
    if dtype.kind in "fV" or dtype == ml_dtypes.bfloat16:
        return rng.standard_normal(given["dims"]).astype(np.float16)
    if dtype.kind == "b":
        return rng.random(given["dims"]) < 0.7
    return rng.integers(0, 2, given["dims"]).astype(dtype)


def feeds_of(site, seed):
    """For both sides: pairs that share a value share the array."""
    rng, arrays, feeds = np.random.default_rng(seed), {}, ({}, {})
    for given in site["inputs"]:
        names = (given["before"], given["after"])
        known = [arrays[each] for each in enumerate(names) if each in arrays and each[1] is not None]
        array = known[0] if known else draw(rng, given)
        for side, name in enumerate(names):
            if name is None or given["default"]:
                continue
            arrays[side, name] = array
            feeds[side][name] = array.astype(dtype_of(given["dtypes"][side]))
    return feeds


def session(path):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def too_far(expected, got):
    """As a part of the largest element; infinity where it cannot be compared."""
    expected, got = np.asarray(expected), np.asarray(got)
    if expected.shape != got.shape:
        return np.inf
    if expected.dtype.kind not in "fiub" and expected.dtype != ml_dtypes.bfloat16:
        return 0.0 if (expected == got).all() else np.inf
    x, y = expected.astype(np.float64), got.astype(np.float64)
    if (np.isnan(x) != np.isnan(y)).any() or (np.isinf(x) != np.isinf(y)).any():
        return np.inf
    finite = np.isfinite(x)
    if not finite.any():
        return 0.0
    return float(np.abs(x[finite] - y[finite]).max() / max(1e-6, np.abs(x[finite]).max()))


def run_site(folder, number, site, check):
    feeds = feeds_of(site, number)
    outputs = []
    for side, word in enumerate(("before", "after")):
        path = folder / f"{number}.{word}.onnx"
        if check and site["typed"]:
            onnx.checker.check_model(str(path))
        outputs.append(session(path).run([pair[side] for pair in site["outputs"]], feeds[side]))
    return max(map(too_far, *outputs), default=0.0)


def cut(tool, model, folder, steps, sizes=(), layers=0):
    folder.mkdir(parents=True, exist_ok=True)
    options = [word for size in sizes for word in ("--size", size)]
    words = [tool, *options, "--layers", layers, model, folder, *steps]
    done = subprocess.run([str(each) for each in words], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{words}: exit code {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def judge(folder, told, tolerance=0.01, check=True, only=None):
    ended, worst = [], []
    for number, site in enumerate(told["sites"]):
        far = 0.0
        if only is not None and number not in only:
            word = "equal"
        elif site["why_not"]:
            word = site["why_not"]
        else:
            try:
                far = run_site(folder, number, site, check)
                word = "equal" if far <= tolerance else "doubt" if site["doubt"] else "differs"
            except Exception as error:  # whatever a runtime or the checker throws
                word = str(error).replace("\n", " ")[:300]
        ended.append(word)
        worst.append(far)
    return Found(told, ended, worst)


def cut_and_judge(tool, model, folder, steps, sizes=(), layers=(1, 2, 4, 8), **how):
    """Sites that are not equal are widened until they are."""
    found = judge(folder, cut(tool, model, folder, steps, sizes), **how)
    found.widened = []
    for deep in layers:
        left = [number for number, word in enumerate(found.ended) if word != "equal"]
        if not left:
            break
        wider = judge(folder, cut(tool, model, folder, steps, sizes, deep), only=left, **how)
        for number in left:
            if wider.ended[number] == "equal" or wider.ended[number] == "differs":
                found.ended[number], found.worst[number] = wider.ended[number], wider.worst[number]
                found.told["sites"][number] = wider.told["sites"][number]
        found.widened += [number for number in left if found.ended[number] == "equal"]
    return found


def main():
    tool, model, folder, *steps = sys.argv[1:]
    found = cut_and_judge(tool, model, Path(folder), steps)
    print(f"{len(found.ended)} sites, {found.count('equal')} equal")
    for each in found.others("equal"):
        print(*each)


if __name__ == "__main__":
    main()
