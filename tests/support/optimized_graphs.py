#!/usr/bin/env python3
"""Many random graphs through what optimizes graphs: none may be harmed, and no shape that is written may be wrong.

    optimized_graphs.py --weir build/plain/weir 20000                            so many graphs, spread over the arms
    optimized_graphs.py --weir build/plain/weir --arm zero --seed 4711 1         one of them again, and how it is harmed
    optimized_graphs.py --weir build/plain/weir --arm zero --seed 4711 --save FOLDER 1     … shrunk, in files

An arm is a command of weir, and how exactly what it writes must compute what the graph computed (`ARMS`). Graphs and the
judge are those of random_graphs.py; on top of these come inputs with NaNs, infinities and numbers at the ends of the range
where the arm promises equal bits, weights that lie in a data file, and what the arm `shapes` asks: whether every dim that
was inferred is what the runtime makes, at two bindings of the names of dims.

A graph that is harmed is shrunk before it is told: one output, what does not matter for it cut off, values in between made
inputs. What each step of weir changed is counted over all graphs; `Found.fired` says of a step how many graphs it changed.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import helper

import random_graphs
import shape_oracle


@dataclasses.dataclass(frozen=True)
class Arm:
    words: tuple  # of the command, without the files
    exactness: str  # as random_graphs.compare takes it; "" for shapes
    share: int = 1
    dtype: type = np.float32
    opset: int = 0  # 0: any
    odd: bool = True  # whether NaNs, infinities and the like are given where exactness is E or Z
    overrides: bool = True  # whether callers may give what the model has an initializer for
    without: tuple = ()  # pieces
    only: tuple = ()  # one of these pieces a graph


NOISE = ("random_pairs",)  # ONNX Runtime has no kernels for those of opset 22
WAVES = ("rotary_forms",)  # the last bit of its Sin and Cos depends on where an element lies, and what moves past them moves it
ARMS = {
    "exact": Arm(("optimize", "--exactness", "exact"), "E", 3),
    "zero": Arm(("optimize", "--exactness", "zero"), "Z", 3),
    "rounding": Arm(("optimize",), "T", 5),
    "newest": Arm(("optimize",), "T", 2, opset=24, without=NOISE),
    "raised": Arm(("optimize", "--opset", "24"), "T", 2, without=NOISE),
    "onnxruntime": Arm(("optimize", "--goal", "onnxruntime"), "T", 3),
    "sums": Arm(("optimize", "--goal", "onnxruntime"), "T", opset=18, only=("behind_adds", "layer_norm", "gelu")),
    "quantization": Arm(("optimize", "--goal", "quantization"), "T"),
    "preprocess": Arm(("preprocess",), "T", 2),
    "constant": Arm(("optimize", "--inputs-are-constant"), "T", overrides=False),
    # Between nodes that it computes in float32 ONNX Runtime does not round to float16: fewer nodes, other bits.
    "half-exact": Arm(("optimize", "--exactness", "zero"), "T", dtype=np.float16),
    "half": Arm(("optimize",), "T", 2, dtype=np.float16),
    "double": Arm(("optimize",), "T", dtype=np.float64),
    # What callers may override becomes constant: that is one of its steps. Whether Where keeps the sign of a zero, and ReduceMin
    # a NaN, depends in ONNX Runtime on how the operand lies, and Transposes move past both; numbers stay what they were.
    "streamline": Arm(("run", "--pass", "streamline"), "T", 2, overrides=False),
    "streamline-exact": Arm(("run", "--pass", "streamline", "--exactness", "exact"), "Z", 2, odd=False, overrides=False, without=WAVES),
    "streamline-zero": Arm(("run", "--pass", "streamline", "--exactness", "zero"), "Z", odd=False, overrides=False, without=WAVES),
    "streamline-half": Arm(("run", "--pass", "streamline"), "T", dtype=np.float16, overrides=False),
    "shapes": Arm(("infer",), "", 2),
    "shapes-left": Arm(("optimize",), ""),
    "factors": Arm(("optimize",), "T", 2, only=("scaled_operands", "folded_gemm")),
    "simplified": Arm(("optimize",), "T", 3, only=("hard_activations", "kept_axes", "constant_parts", "filled_values")),
}  # fmt: skip
REFUSED = "changed between opset"  # what --opset says of a node that it has no newer form for
STEP = 1_000_000  # between the seeds of two arms
LARGEST_SHRUNK = 400  # tries


@dataclasses.dataclass
class Found:
    graphs: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # of an arm
    fired: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # graphs that a pass changed
    unjudged: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # not run by the runtime, or refused
    shapes: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # values, by verdict
    harmed: list = dataclasses.field(default_factory=list)  # (arm, seed, complaints, the shrunk graph as text)

    def add(self, other):
        for mine, theirs in ((self.graphs, other.graphs), (self.unjudged, other.unjudged), (self.fired, other.fired), (self.shapes, other.shapes)):
            mine.update(theirs)
        self.harmed += other.harmed


# ---- graphs


def case_of(arm, seed, pieces=None):
    how = ARMS[arm]
    case = random_graphs.random_graph(seed, pieces or how.only, how.opset or None, how.dtype, how.without)
    if not how.overrides:
        constant = {tensor.name for tensor in case.model.graph.initializer}
        case.feeds = [{name: x for name, x in feed.items() if name not in constant} for feed in case.feeds[:2]]
    if how.exactness in ("E", "Z") and how.odd:
        case.feeds.append(odd_numbers(case.feeds[0], seed))
    return case


def odd_numbers(feed, seed):
    """The same inputs with a NaN, infinities and the largest and least numbers here and there."""
    noise, odd = np.random.Generator(np.random.PCG64(seed)), {}
    for name, array in feed.items():
        odd[name] = array.copy()
        if array.dtype.kind == "f":
            ends = np.finfo(array.dtype)
            some = [np.nan, np.inf, -np.inf, ends.max, ends.tiny, ends.smallest_subnormal, -0.0]
        elif array.dtype.kind in "iu":
            some = [np.iinfo(array.dtype).min, np.iinfo(array.dtype).max]
        else:
            continue
        picked = noise.integers(0, 3, array.shape) == 0
        odd[name][picked] = noise.choice(np.array(some, array.dtype), np.count_nonzero(picked))
    return odd


def save(model, path, external):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if external:
        onnx.save(copy, path, save_as_external_data=True, location="in.data", size_threshold=0)
    else:
        onnx.save(copy, path)


# ---- one graph in one arm


class Runner:
    """Calls weir, or a function of two paths in its place, in a folder of its own."""

    def __init__(self, weir, folder):
        self.weir, self.folder = weir, folder
        self.source, self.out, self.report = (os.path.join(folder, name) for name in ("in.onnx", "out.onnx", "report.json"))

    def rewrite(self, arm, model, external=False):
        """Names of the passes that changed something; or a complaint."""
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))
        save(model, self.source, external)
        if callable(self.weir):
            self.weir(self.source, self.out)
            return [], ""
        words = [self.weir, ARMS[arm].words[0], self.source, self.out, *ARMS[arm].words[1:]]
        words += ["--quiet", "--report-json", self.report]
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode or not os.path.exists(self.out):
            return [], f"exit code {done.returncode}: {(done.stderr.strip() or 'nothing said').splitlines()[0]}"
        with open(self.report) as file:
            steps = json.load(file).get("passes", [])
        return [step["name"] for step in steps if step["converted"]], ""

    def complaints(self, arm, model, feeds, external=False):
        """(what is wrong, names of the passes that changed something)"""
        fired, failed = self.rewrite(arm, model, external)
        if failed:
            return [failed], fired
        return random_graphs.compare(model, self.out, ARMS[arm].exactness, feeds), fired

    def wrong_shapes(self, arm, case):
        """(what is wrong, a Report): what is inferred, at the case's own dims and at others at which it runs."""
        bindings = two_bindings(case)
        if not bindings:
            return [], None
        source = os.path.join(self.folder, "graph.onnx")
        save(case.model, source, False)
        program = [self.weir, ARMS[arm].words[0], "IN", "OUT", *ARMS[arm].words[1:], "--quiet", "--force"]
        report = shape_oracle.check(source, program, bindings)
        return [*([report.error] if report.error else []), *report.wrong, *report.dtype_wrong], report


def two_bindings(case):
    """The case's dims by name, and others that the runtime takes: all of them other, or only some; or none."""
    first = {}
    for value in shape_oracle.inputs_of(case.model):
        for axis, dim in enumerate(shape_oracle.dims_of(value.type) or []):
            if isinstance(dim, str):
                first[dim] = case.feeds[0][value.name].shape[axis]
    session = random_graphs.session(case.model)

    def runs(binding):
        try:
            session.run(None, shape_oracle.inputs_at(case.model, binding))
        except shape_oracle.RuntimeException:
            return False
        return True

    if not runs(first):
        return []
    other = {name: size + 3 for name, size in first.items()}
    if runs(other):
        return [first, other]
    other = dict(first)
    for name, size in first.items():
        if runs({**other, name: size + 3}):
            other[name] = size + 3
    return [first, other]


# ---- a smaller graph with the same fault


def with_all_values(model, feeds):
    """Every value of the main graph by name, for each of the feeds; {} where that does not run."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    there = {each.name for each in copy.graph.output}
    names = [name for node in copy.graph.node for name in node.output if name and name not in there]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        session = random_graphs.session(copy)
        names = [each.name for each in session.get_outputs() if each.type.startswith("tensor")]
        return [dict(zip(names, session.run(names, feed))) for feed in feeds]
    except Exception:  # whatever it is that the runtime does not take
        return []


def pruned(model):
    """Without nodes and constants that no output needs."""
    graph = model.graph
    needed = {each.name for each in graph.output}
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= set(random_graphs.taken([node]))
    for rows, name_of in (
        (graph.node, lambda node: needed & set(node.output)),
        (graph.initializer, lambda each: each.name in needed),
        (graph.input, lambda each: each.name in needed),
    ):
        kept = [each for each in rows if name_of(each)]
        del rows[:]
        rows.extend(kept)
    del graph.value_info[:]
    return model


def smaller(model, feeds, values):
    """Graphs with less in them, and the inputs for them."""
    for each in model.graph.output if len(model.graph.output) > 1 else []:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        del copy.graph.output[:]
        copy.graph.output.append(each)
        yield copy, feeds
    outputs = {each.name for each in model.graph.output}
    for node in reversed(model.graph.node):
        for name in node.output:
            if name in outputs or not values or any(name not in each for each in values):
                continue
            # what was made before this value does not matter
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            for twin in copy.graph.node:
                for place, made in enumerate(twin.output):
                    if made == name:
                        twin.output[place] = ""
            kept = [twin for twin in copy.graph.node if any(twin.output)]
            del copy.graph.node[:]
            copy.graph.node.extend(kept)
            array = values[0][name]
            dims = [size if all(each[name].shape[axis] == size for each in values) else None for axis, size in enumerate(array.shape)]
            copy.graph.input.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
            yield copy, [{**feed, name: each[name]} for feed, each in zip(feeds, values)]
            # what is made of it does not matter
            copy = onnx.ModelProto()
            copy.CopyFrom(model)
            del copy.graph.output[:]
            copy.graph.output.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim))
            yield copy, feeds


def shrink(model, feeds, is_harmed):
    """The smallest graph found that is harmed as well, and its feeds."""
    tries = 0
    while tries < LARGEST_SHRUNK:
        size = len(model.graph.node)
        for small, given in smaller(model, feeds, with_all_values(model, feeds)):
            small = pruned(small)
            names = {each.name for each in small.graph.input}
            given = [{name: x for name, x in feed.items() if name in names} for feed in given]
            less = (len(small.graph.node), len(small.graph.output)) < (size, len(model.graph.output))
            tries += 1
            if less and is_harmed(small, given):
                model, feeds = small, given
                break
            if tries >= LARGEST_SHRUNK:
                return model, feeds
        else:
            return model, feeds
    return model, feeds


def harmed_too(runner, arm):
    def judge(model, feeds):
        try:
            random_graphs.session(model).run(None, feeds[0])
        except Exception:  # a graph that does not run says nothing
            return False
        return bool(runner.complaints(arm, model, feeds)[0])

    return judge


# ---- many


def runs(case):
    """Bodies that take what the main graph makes are sometimes too much for the runtime without its optimizations."""
    try:
        session = random_graphs.session(case.model)
        return all(session.run(None, feed) for feed in case.feeds)
    except Exception:  # whatever it says
        return False


def run_one(runner, arm, seed, pieces, found, folder=None):
    case = case_of(arm, seed, pieces)
    found.graphs[arm] += 1
    if not runs(case):
        found.unjudged[arm] += 1
        return
    if not ARMS[arm].exactness:
        wrong, report = runner.wrong_shapes(arm, case)
        if report:
            for verdict in ("fresh", "wrong", "unknown"):
                found.shapes[verdict] += len(getattr(report, verdict))
            found.shapes["right"] += report.right
            found.shapes["graphs"] += 1
    else:
        wrong, fired = runner.complaints(arm, case.model, case.feeds, external=seed % 4 == 0)
        found.fired.update(fired)
        if wrong and wrong[0].startswith("exit code 1") and REFUSED in wrong[0]:
            found.unjudged[arm] += 1
            return
    if not wrong:
        return
    model, text = case.model, ""
    if ARMS[arm].exactness:
        model, feeds = shrink(model, case.feeds, harmed_too(runner, arm))
        text = onnx.printer.to_text(model)
        if folder:
            os.makedirs(folder, exist_ok=True)
            onnx.save(model, os.path.join(folder, f"{arm}-{seed}.onnx"))
            runner.rewrite(arm, model)
            if os.path.exists(runner.out):
                shutil.copy(runner.out, os.path.join(folder, f"{arm}-{seed}-out.onnx"))
            np.savez(os.path.join(folder, f"{arm}-{seed}.npz"), **{f"{n}.{k}": x for n, f in enumerate(feeds) for k, x in f.items()})
    found.harmed.append((arm, seed, wrong, text))


def run_many(weir, arm, seeds, pieces=None, folder=None):
    """What is found of graphs with these seeds."""
    found = Found()
    # In memory where that can be: every run of weir waits for the disk.
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="weir-graphs-", dir=base) as place:
        runner = Runner(weir, place)
        for seed in seeds:
            run_one(runner, arm, seed, pieces, found, folder)
    return found


def shares(count, arms, first=0):
    """(arm, seeds) so that all together are at least that many, in parts of a few hundred."""
    total = sum(ARMS[arm].share for arm in arms)
    for number, arm in enumerate(ARMS):
        if arm not in arms:
            continue
        mine = -(-count * ARMS[arm].share // total)
        start = number * STEP + first
        for begin in range(start, start + mine, 200):
            yield arm, range(begin, min(begin + 200, start + mine))


def run_arms(weir, count, arms=None, first=0, jobs=1, pieces=None, folder=None, tell=None):
    """What is found of so many graphs, spread over the arms by their shares; `tell` is given what is found by and by."""
    found = Found()
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        parts = [pool.submit(run_many, weir, arm, seeds, pieces, folder) for arm, seeds in shares(count, arms or [*ARMS], first)]
        for part in concurrent.futures.as_completed(parts):
            found.add(part.result())
            if tell:
                tell(found)
    found.harmed.sort(key=lambda each: each[:2])
    return found


def again(arm, seed):
    return f"tests/support/optimized_graphs.py --weir build/plain/weir --arm {arm} --seed {seed} 1"


def told(found):
    """Lines: what ran, what fired, what is harmed and how to see it again."""
    lines = [f"{found.graphs.total()} graphs: " + ", ".join(f"{arm} {n}" for arm, n in sorted(found.graphs.items()))]
    lines.append("of which not judged: " + ", ".join(f"{arm} {n}" for arm, n in sorted(found.unjudged.items())))
    lines.append("changed by: " + ", ".join(f"{name} {n}" for name, n in sorted(found.fired.items())))
    lines.append("dims of values: " + ", ".join(f"{name} {n}" for name, n in sorted(found.shapes.items())))
    for arm, seed, wrong, text in found.harmed:
        lines += [f"{arm} {seed}: {again(arm, seed)}", *(f"  {each}" for each in wrong[:6]), text]
    return lines


def progress(found):
    print(f"\r{found.graphs.total()} graphs, {len(found.harmed)} harmed", end="", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--weir", required=True, help="the program")
    parser.add_argument("--arm", action="append", choices=ARMS, help="only this one (may be repeated)")
    parser.add_argument("--first", type=int, default=0, help="other graphs: how far in the seeds of every arm to begin")
    parser.add_argument("--seed", type=int, help="the graph with this seed, and COUNT - 1 behind it (with one --arm)")
    parser.add_argument("--piece", action="append", choices=random_graphs.PIECES)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--save", metavar="FOLDER", help="keep what is harmed there, shrunk")
    parser.add_argument("count", type=int)
    words = parser.parse_args()
    begin, weir = time.perf_counter(), os.path.abspath(words.weir)
    if words.seed is not None:
        if not words.arm or len(words.arm) != 1:
            parser.error("--seed is of one --arm")
        found = run_many(weir, words.arm[0], range(words.seed, words.seed + words.count), words.piece, words.save)
    else:
        found = run_arms(weir, words.count, words.arm, words.first, words.jobs, words.piece, words.save, progress)
    print(*told(found), f"{time.perf_counter() - begin:.0f} s, {len(found.harmed)} harmed", sep="\n")
    return 1 if found.harmed else 0


if __name__ == "__main__":
    sys.exit(main())
