#!/usr/bin/env python3
"""Cases of onnx-passes beside what weir makes of them: a pass, a model, and what the original wrote.

    passes_cases.py --weir build/plain/weir FOLDER [CLASS…]       a table, a row a class, then every case that wants a look
    passes_cases.py --weir … --exactness rounding FOLDER          with another cap than finite
    passes_cases.py --weir … --save OUT FOLDER CLASS              and keep what weir wrote, as OUT/<case>.onnx
    passes_cases.py --weir … --left FILE FOLDER                   writes anew which cases are left to do; reasons stay

FOLDER (or an archive of one, as tests/data/onnx-passes/cases.tar.xz) holds `index.jsonl`, a line a case: `pass` (a class of onnx-passes), `tag`, `before` and `after` (models; no
`after` where the original raised or changed nothing), `fired`, `error`, `inputs` (name → "f32[2,N]{-1:1}": type, dims,
range of random elements), and perhaps `config` (the configuration file's keys besides `passes`).

Two models are the same if a walk from their outputs meets the same operators, attributes, constants (type, shape, every
bit), subgraphs and inputs: names, order, unused nodes and how a constant is stored do not count. Then both are folded:
nodes over constants are computed, Identity, idle Expand and Reshape of Reshape looked through. What is still another graph
is judged by its values, on random numbers and on NaNs, infinities, zeros and ends of the range. The verdicts:

    same      the original's graph                      not-fired  the original is right, weir changed nothing
    folded    the original's graph, folded              wrong      weir's values are not the source's
    rounded   … but for the last bits of constants      broken     weir's model does not run, the source does
    simpler   fewer nodes, and the source's values      refused    weir failed
    values    another graph, the source's values        missing    weir has no such pass
    held      the original is wrong, weir did nothing   unrun      another graph, and no runtime for the source
    more      weir fired alone, the source's values
    neither   nothing to do for either

What differs on special elements alone is told, and wrong if weir is asked for equal bits (`--exactness exact` or zero).
"""

import argparse
import collections
import dataclasses
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import tarfile
import tempfile
import zlib
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

GOOD = ("same", "folded", "rounded", "simpler", "values", "held", "more", "neither")
BAD = ("not-fired", "wrong", "broken", "refused", "missing", "unrun")
COMMUTES = {"Add", "Mul", "And", "Or", "Xor", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Max", "Mean", "Min",
            "Sum"}  # fmt: skip
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
         "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_}  # fmt: skip


# ---- the same graph up to names


def text_digest(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def array_digest(array):
    return text_digest("constant", str(array.dtype), array.shape, np.ascontiguousarray(array).tobytes())


def constant_of(node):
    """What a Constant node holds."""
    attribute = node.attribute[0]
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return numpy_helper.to_array(value)
    kinds = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    return np.array(value, kinds.get(attribute.name))


def is_op(node, *names):
    return node.domain in ("", "ai.onnx") and node.op_type in names


class Walk:
    """Digests of all values of a model. With `kinds`, a list, constants that differ in last bits are one of its members."""

    def __init__(self, model, folded=False, kinds=None):
        self.folded, self.kinds = folded, kinds
        self.versions = {o.domain: o.version for o in model.opset_import}
        self.defaults = {}
        self.shapes, self.nodes = {}, 0
        graph = model.graph
        for value in [*graph.value_info, *graph.input, *graph.output]:
            if value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                self.shapes[value.name] = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in dims]
        self.outputs = self.graph(graph, {}, 0)

    def graph(self, graph, outer, depth):
        known = dict(outer)
        inits = {t.name for t in graph.initializer}
        for number, value in enumerate(v for v in graph.input if v.name not in inits):
            known[value.name] = text_digest("input", depth, number)
        for tensor in graph.initializer:
            known[tensor.name] = self.constant(numpy_helper.to_array(tensor))
            self.shapes[tensor.name] = list(tensor.dims)
        known[""] = "absent"
        self.inner = {}
        for node in graph.node:
            self.node(node, known, depth)
        return [known[value.name] for value in graph.output]

    def constant(self, array):
        if self.kinds is None:
            return array_digest(array)
        for number, known in enumerate(self.kinds):
            if known.dtype == array.dtype and known.shape == array.shape and near_enough(known, array):
                return text_digest("constant", number)
        self.kinds.append(array)
        return text_digest("constant", len(self.kinds) - 1)

    def node(self, node, known, depth):
        if is_op(node, "Constant"):
            value = constant_of(node)
            known[node.output[0]] = self.constant(value)
            self.shapes[node.output[0]] = list(value.shape)
            return
        shape_in = self.shapes.get(node.input[0]) if node.input else None
        shape_out = self.shapes.get(node.output[0]) if node.output else None
        if self.folded:
            seen = self.seen_through(node, known, shape_in, shape_out)
            if seen:
                known[node.output[0]] = seen
                return
        self.nodes += 1
        operands = [known[name] for name in node.input]
        while operands and operands[-1] == "absent":
            operands.pop()
        if node.op_type in COMMUTES:
            operands.sort()
        attributes = self.attributes(node, known, depth)
        if is_op(node, "Transpose") and not attributes and shape_in is not None:
            attributes = [("perm", str(list(range(len(shape_in)))[::-1]))]
        for number, name in enumerate(node.output):
            if name:
                known[name] = text_digest(node.domain, node.op_type, attributes, operands, number)

    def seen_through(self, node, known, shape_in, shape_out):
        """The digest of what a node that does nothing, or only reshapes, gives; None for others."""
        here = known[node.input[0]] if node.input else None
        static = shape_out is not None and all(isinstance(d, int) for d in shape_out)
        if is_op(node, "Identity"):
            return here
        if is_op(node, "Expand", "Reshape") and shape_in is not None and shape_in == shape_out:
            return here
        if is_op(node, "Reshape", "Squeeze", "Unsqueeze", "Flatten") and static:
            if shape_in == shape_out:
                return here
            below = self.inner.get(here, here)
            reshaped = text_digest("reshape", shape_out, below)
            self.inner[reshaped] = below
            return reshaped
        return None

    def attributes(self, node, known, depth):
        found = []
        for attribute in node.attribute:
            value = onnx.helper.get_attribute_value(attribute)
            if attribute.type == onnx.AttributeProto.GRAPH:
                inside = self.inner
                value = self.graph(value, known, depth + 1)
                self.inner = inside
            elif attribute.type == onnx.AttributeProto.TENSOR:
                value = array_digest(numpy_helper.to_array(value))
            elif str(value) == str(self.default(node, attribute.name)):
                continue
            found.append((attribute.name, str(value)))
        return sorted(found)

    def default(self, node, name):
        key = (node.domain, node.op_type)
        if key not in self.defaults:
            try:
                schema = onnx.defs.get_schema(node.op_type, self.versions.get(node.domain, 1), node.domain)
                self.defaults[key] = schema.attributes
            except onnx.defs.SchemaError:
                self.defaults[key] = {}
        attribute = self.defaults[key].get(name)
        return onnx.helper.get_attribute_value(attribute.default_value) if attribute and attribute.default_value.name else None


def live(model):
    """A copy without nodes and initializers that no output needs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    wanted = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(names_in(node))
    del graph.node[:]
    graph.node.extend(reversed(kept))
    left = [t for t in graph.initializer if t.name in wanted]
    del graph.initializer[:]
    graph.initializer.extend(left)
    return copy


def names_in(node):
    """All names that a node and its subgraphs read."""
    found, pending = set(node.input), [node]
    while pending:
        for attribute in pending.pop().attribute:
            for graph in [attribute.g, *attribute.graphs]:
                found.update(v.name for v in graph.output)
                for inside in graph.node:
                    found.update(inside.input)
                    pending.append(inside)
    return found


def fold(model):
    """A copy in which nodes over constants are initializers, and shapes are inferred."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    del graph.value_info[:]  # what an optimizer left may be of a value that is another now
    try:
        copy = onnx.shape_inference.infer_shapes(copy, data_prop=True)
        graph = copy.graph
    except Exception:  # noqa: BLE001 — a model that inference refuses is compared as it is
        pass
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    shapes = {}
    for value in [*graph.value_info, *graph.input]:
        dims = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(d.HasField("dim_value") for d in dims):
            shapes[value.name] = [d.dim_value for d in dims]
    left = []
    for node in graph.node:
        values = folded_node(copy, node, known, shapes)
        if values is None:
            left.append(node)
            continue
        for name, value in zip(node.output, values):
            known[name] = np.asarray(value)
            if name:
                graph.initializer.append(numpy_helper.from_array(known[name], name))
    del graph.node[:]
    graph.node.extend(left)
    return live(copy)


def folded_node(model, node, known, shapes):
    """What a node over constants gives; None for other nodes."""
    if is_op(node, "Constant"):
        return [constant_of(node)]
    if is_op(node, "Shape") and node.input[0] in shapes:
        ends = {a.name: a.i for a in node.attribute}
        return [np.array(shapes[node.input[0]][ends.get("start", 0) : ends.get("end")], np.int64)]
    if is_op(node, "Size") and node.input[0] in shapes:
        return [np.array(np.prod(shapes[node.input[0]], dtype=np.int64))]
    if is_op(node, *RANDOM) or any(name and name not in known for name in names_in(node)) or not node.input:
        return None
    inputs = [name for name in dict.fromkeys(node.input) if name]
    kinds = [onnx.helper.np_dtype_to_tensor_dtype(known[name].dtype) for name in inputs]
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [onnx.helper.make_tensor_value_info(n, k, known[n].shape) for n, k in zip(inputs, kinds)],
        [onnx.ValueInfoProto(name=n) for n in node.output if n],
    )
    one = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    one.functions.extend(model.functions)
    found = run(one, {name: known[name] for name in inputs})
    if isinstance(found, str):
        return None
    found = iter(found)
    return [next(found) if name else None for name in node.output]


def alike(first, second):
    """How much of one graph two models are: "same", "folded", "rounded" or "" (another graph)."""
    first, second = live(first), live(second)
    if Walk(first).outputs == Walk(second).outputs:
        return "same"
    first, second = fold(first), fold(second)
    if Walk(first, folded=True).outputs == Walk(second, folded=True).outputs:
        return "folded"
    kinds = []
    rounded = [Walk(model, folded=True, kinds=kinds).outputs for model in (first, second)]
    return "rounded" if rounded[0] == rounded[1] else ""


def near_enough(a, b):
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    step = 8 * float(np.finfo(a.dtype).eps)
    with np.errstate(all="ignore"):
        return np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=step, atol=0, equal_nan=True)


# ---- values


def run(model, feeds):
    """Outputs, by ONNX Runtime without its rewrites, else by onnx's reference evaluator; a text where neither can."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    feeds = {k: v for k, v in feeds.items() if k in {i.name for i in model.graph.input}}
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)
    except Exception as error:  # noqa: BLE001 — of whatever kind, the other evaluator is asked
        first = str(error)
    try:
        with np.errstate(all="ignore"):
            return onnx.reference.ReferenceEvaluator(model).run(None, feeds)
    except Exception:  # noqa: BLE001
        return first[:300]


def parse_type(text):
    """'f32[2,N]{-1:1}' -> (numpy type, dims, least, largest)"""
    least, largest = -2.0, 2.0
    if "{" in text:
        text, ends = text[:-1].split("{")
        least, largest = map(float, ends.split(":"))
    if "[" not in text:
        return NUMPY[text], [2, 3], least, largest
    kind, dims = text[:-1].split("[")
    return NUMPY[kind], [int(d) if d.lstrip("-").isdigit() else 2 for d in dims.split(",") if d], least, largest


def special(dtype):
    if dtype == np.bool_:
        return np.array([0, 1], dtype)
    if np.issubdtype(dtype, np.floating):
        with np.errstate(all="ignore"):
            return np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, 1e-40, 3e38, 2.5, -2.5], dtype)
    ends = np.iinfo(dtype)
    return np.array([v for v in (0, 1, -1, 2, 3, 5, 250, ends.min, ends.max) if ends.min <= v <= ends.max], dtype)


def draw(inputs, seed, edges=False):
    """Elements for the inputs of a case; with `edges`, those that rewrites overlook."""
    feeds = {}
    for number, (name, text) in enumerate(inputs.items()):
        dtype, dims, least, largest = parse_type(text)
        rng = np.random.default_rng(zlib.crc32(name.encode()) + seed)
        if dtype == np.bool_:
            value = rng.integers(0, 2, dims).astype(bool)
        elif np.issubdtype(dtype, np.floating):
            value = rng.uniform(least, largest, dims).astype(dtype)
        else:
            low = max(least, 0) if np.issubdtype(dtype, np.unsignedinteger) else least * 4
            value = rng.integers(int(low), int(largest * 4) + 1, dims).astype(dtype)
        value = np.asarray(value, dtype)
        if edges and value.size:
            ends = special(dtype)
            value = ends[(np.arange(value.size) + 5 * number) % len(ends)].reshape(dims)
        feeds[name] = value
    return feeds


def judge(expected, found):
    """"equal", "close", "differ" or "shape" for the outputs of two models."""
    if len(expected) != len(found):
        return "shape"
    worst = "equal"
    for a, b in zip(map(np.asarray, expected), map(np.asarray, found)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return "shape"
        if np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            continue
        with np.errstate(all="ignore"):
            wide = a.astype(np.float64)
            size = np.abs(wide[np.isfinite(wide)]).max(initial=0.0)
            step = 1e-5 if a.dtype != np.float16 else 2e-3
            near = a.dtype.kind == "f" and np.allclose(b.astype(np.float64), wide, rtol=step, atol=0.2 * step * size, equal_nan=True)
        if not near:
            return "differ"
        worst = "close"
    return worst


def values(before, after, inputs):
    """How near the values of two models are, on ordinary elements: as `judge`, or "unrun", "broken"; and on others."""
    found = []
    for seed, edges in ((1, False), (2, False), (1, True)):
        feeds = draw(inputs, seed, edges)
        expected = run(before, feeds)
        if isinstance(expected, str):
            found.append("unrun")
            continue
        given = run(after, feeds)
        found.append("broken" if isinstance(given, str) else judge(expected, given))
    ranks = ["equal", "close", "differ", "shape", "broken", "unrun"]
    return max(found[:2], key=ranks.index), found[2]


# ---- a case


@dataclasses.dataclass
class Verdict:
    name: str
    tag: str
    word: str
    nodes: str = ""  # ours/theirs, folded
    note: str = ""

    def line(self):
        return " ".join(x for x in (self.name, self.tag, self.word, self.nodes, self.note) if x)


class Cases:
    """A folder of cases, and how weir is run over them."""

    def __init__(self, weir, folder, exactness="finite", save=None):
        self.weir, self.folder, self.exactness, self.save = str(weir), Path(folder), exactness, save
        with open(self.folder / "index.jsonl", encoding="utf-8") as lines:
            self.rows = [row for row in map(json.loads, lines) if "pass" in row]

    def model(self, row, which):
        return onnx.load(self.folder / row[which])

    def call(self, row, source, target, name=None):
        """Runs the pass of a case on a file: the finished process."""
        words = [self.weir, "run", source, target, "--exactness", self.exactness, "--json", "--no-manifest", "--force"]
        if row.get("config"):
            config = f"{target}.yaml"
            with open(config, "w", encoding="utf-8") as out:
                json.dump({"passes": [name or row["pass"]], **row["config"]}, out)
            words += ["--config", config]
        else:
            words += ["--pass", name or row["pass"]]
        return subprocess.run(words, capture_output=True, text=True, timeout=120)

    def judge(self, row):
        said = Verdict(row["pass"], row["tag"], "")
        with tempfile.TemporaryDirectory(prefix="weir-cases-") as folder:
            target = os.path.join(folder, "ours.onnx")
            done = self.call(row, str(self.folder / row["before"]), target)
            if done.returncode:
                first = done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"exit {done.returncode}"
                said.word, said.note = "refused", first[:160]
                known = subprocess.run([self.weir, "passes", row["pass"]], capture_output=True).returncode == 0
                if not known:
                    said.word, said.note = "missing", ""
                return said
            changed = json.loads(done.stdout)["weir"]["edits"] > 0
            ours = onnx.load(target)
        if self.save:
            Path(self.save).mkdir(parents=True, exist_ok=True)
            onnx.save(ours, Path(self.save) / f"{row['pass']}.{row['tag']}.onnx")
        self.look(row, said, ours, changed)
        return said

    def look(self, row, said, ours, changed):
        """The verdict on a model that weir wrote."""
        before = self.model(row, "before")
        if row["fired"] and row.get("after"):
            theirs = self.model(row, "after")
            said.word = alike(ours, theirs)
            if said.word:
                return
            nodes = [Walk(fold(model), folded=True).nodes for model in (ours, theirs)]
            said.nodes = f"{nodes[0]}/{nodes[1]}"
        near, edges = values(before, ours, row["inputs"]) if changed else ("equal", "equal")
        said.note = f"values {near}, special {edges}" if changed else ""
        strict = self.exactness in ("exact", "zero")
        if near in ("differ", "shape") or (strict and edges in ("close", "differ")):
            said.word = "wrong"
        elif near == "broken":
            said.word = "broken"
        elif not row["fired"] or not row.get("after"):
            said.word = "more" if changed else "neither"
        elif changed:
            said.word = "unrun" if near == "unrun" else "simpler" if nodes[0] < nodes[1] else "values"
        else:
            near, edges = values(before, theirs, row["inputs"])
            said.word = "not-fired" if near in ("equal", "close") and edges != "differ" else "held"
            said.note = f"the original: values {near}, special {edges}"


def all_verdicts(cases, rows, processes):
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        return pool.map(cases.judge, rows, chunksize=4)


def table(verdicts):
    """Lines: how many of each verdict, a row a class, and the cases to look at."""
    total = collections.Counter(v.word for v in verdicts)
    yield f"{len(verdicts)} cases: " + ", ".join(f"{total[w]} {w}" for w in (*GOOD, *BAD) if total[w])
    rows = collections.defaultdict(collections.Counter)
    for verdict in verdicts:
        rows[verdict.name][verdict.word] += 1
    yield f"{len(rows)} classes, {sum(not any(r[w] for w in BAD) for r in rows.values())} of them without a bad verdict"
    yield ""
    for name in sorted(rows):
        yield f"{name:44} " + ", ".join(f"{rows[name][w]} {w}" for w in (*GOOD, *BAD) if rows[name][w])
    yield ""
    for verdict in sorted(verdicts, key=lambda v: (v.name, v.tag)):
        if verdict.word in (*BAD, "simpler", "values", "more", "held") and verdict.word != "missing":
            yield verdict.line()


def read_left(path):
    """What a list of cases that are left says: {(class, tag): (verdict, reason)}."""
    found = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        said, _, reason = line.partition("  # ")
        if said and not said.startswith("#"):
            name, tag, word = said.split()
            found[name, tag] = (word, reason)
    return found


def write_left(path, verdicts):
    """The list anew: bad verdicts, and the reasons that it gave for them."""
    text = Path(path).read_text(encoding="utf-8")
    head = [line for line in text.splitlines() if line.startswith("#")]
    reasons = read_left(path)
    rows = []
    for v in sorted(verdicts, key=lambda v: (v.name, v.tag)):
        if v.word in BAD:
            reason = reasons.get((v.name, v.tag), ("", ""))[1]
            rows.append(f"{v.name} {v.tag} {v.word}" + (f"  # {reason}" if reason else ""))
    Path(path).write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")


def unpacked(path, folder):
    """The folder of cases; an archive is unpacked into another."""
    if Path(path).is_dir():
        return path
    with tarfile.open(path) as held:
        held.extractall(folder, filter="data")
    return folder


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default="build/plain/weir")
    parser.add_argument("--exactness", default="finite")
    parser.add_argument("--save", metavar="FOLDER")
    parser.add_argument("--left", metavar="FILE")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("folder")
    parser.add_argument("classes", nargs="*", metavar="CLASS")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="weir-cases-") as folder:
        held = unpacked(asked.folder, folder)
        cases = Cases(os.path.abspath(asked.weir), held, asked.exactness, asked.save)
        rows = [row for row in cases.rows if not asked.classes or row["pass"] in asked.classes]
        found = all_verdicts(cases, rows, asked.processes)
    if asked.left:
        write_left(asked.left, found)
    print("\n".join(table(found)))
    return any(v.word in BAD for v in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
