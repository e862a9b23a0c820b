"""Every example of README.md and docs runs as it stands, in the order of its page, from a folder that holds models only.

    ```sh               commands, run by bash; each must succeed
    ```console          `$ command` and what it prints; numbers and paths of nodes may differ, a line `…` stands for any lines
    ```console exact    the same, and nothing may differ but times and memory
    ```python           what loads a model with onnxruntime
    ```bash             how weir is installed: run by tests/packages/test_readme.py

An example in any other fence is one that nobody runs: a line in it that begins with weir fails this test. Where a page
makes a file for a later example, it does so in an example.
"""

import importlib.util
import re
import shutil
import sys

import numpy as np
import onnx
import onnx.parser
import pytest

import make_encoder
from conftest import DATA, TESTS, program, without_posix
from shell import Shell

ROOT = TESTS.parent
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
MODELS = ["encoder.onnx", "model.onnx", "in.onnx", "qat.onnx"]  # all the same small encoder; and that of tests/data
TIMES = re.compile(r"\d[\d.]* s, \d[\d.]* [kM]B of memory")
UNKNOWN = "an unknown amount" if without_posix() else None  # of memory, whatever the page has
PLAN_ID = r"[0-9a-f]{16}(?=\.weir|\.\.\.)"  # a plan's, or a key's
VARIES = re.compile(rf"(?<!\S)/\S+|{PLAN_ID}|\d[\d.,]*( [kMGT]?i?B)?")  # names of nodes; plans and keys; numbers and sizes


def fences(page):
    """[(first line's number, tag, lines)]"""
    found, start, tag, lines = [], 0, None, []
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if line.startswith("```") and tag is None:
            start, tag, lines = number + 1, line[3:].strip(), []
        elif line.startswith("```"):
            found.append((start, tag, lines))
            tag = None
        elif tag is not None:
            lines.append(line)
    assert tag is None, f"{page}: the fence before line {start} does not end"
    return found


def pattern(line, exact):
    parts, at = [], 0
    for found in (TIMES if exact else VARIES).finditer(line):
        number = r"\d[\d.,]*( [kMGT]?i?B)?"
        told = TIMES.pattern
        if UNKNOWN and (exact or line[found.end() :].startswith(" of memory")):
            number, told = UNKNOWN, rf"\d[\d.]* s, {UNKNOWN} of memory"
        like = r"/\S+" if found[0].startswith("/") else PLAN_ID if re.fullmatch(r"[0-9a-f]{16}", found[0]) else number
        parts += [re.escape(line[at : found.start()]), told if exact else like]
        at = found.end()
    return "".join(parts) + re.escape(line[at:])


def check_output(place, wanted, got, exact):
    """Line for line; `…` takes as many as it has to."""
    text = "".join(r"(.*\n)*?" if line.strip() == "…" else pattern(line.rstrip(), exact) + "\n" for line in wanted)
    got = "".join(line.rstrip() + "\n" for line in got.splitlines())
    assert re.fullmatch(text, got), f"{place}: the page has\n" + "\n".join(wanted) + "\nand it prints\n" + got


def console(lines):
    """[(command, what it prints)]"""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, "what is printed comes before any command"
            found[-1][1].append(line)
    return found


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name in MODELS:
        make_encoder.make_encoder(folder / name, size=2_000_000)
    shutil.copytree(DATA / "parakeet-dynamo", folder, dirs_exist_ok=True)
    shutil.copy(DATA / "tied" / "model.onnx", folder / "decoder.onnx")
    make_samples(folder / "model.onnx", folder / "samples")
    make_samples(folder / "model.onnx", folder / "recordings", 4)  # a hundred rows and more that top-1 is judged by
    return folder


def make_samples(model, folder, count=2):
    """What `weir calibrate` takes: files with an array for each input."""
    folder.mkdir()
    inputs = onnx.load(model, load_external_data=False).graph.input
    rng = np.random.default_rng(0)
    for k in range(count):
        arrays = {}
        for value in inputs:
            tensor = value.type.tensor_type
            dims = [dim.dim_value or (1 if i == 0 else 64) for i, dim in enumerate(tensor.shape.dim)]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            arrays[value.name] = rng.standard_normal(dims).astype(dtype) if dtype == np.float32 else np.full(dims, 64, dtype)
        np.savez(folder / f"{k}.npz", **arrays)


@pytest.fixture
def workplace(tmp_path, models):
    shell = Shell(tmp_path, weir=program("WEIR"))
    shutil.copytree(models, shell.folder, dirs_exist_ok=True)
    return lambda script: shell(f"set -euo pipefail\n{script}", code=None)


@pytest.mark.parametrize("page", PAGES)
def test_examples(page, workplace):
    text = (ROOT / page).read_text().splitlines()
    for start, tag, lines in fences(page):
        place = f"{page}:{start}"
        said = re.search(r"In `([\w.]+)`:$", text[start - 4].rstrip())
        if tag == "" and said:  # a file that the examples behind it use
            workplace(f"cat > {said[1]} <<'END'\n" + "\n".join(lines) + "\nEND")
        elif tag == "sh":
            done = workplace("\n".join(lines))
            assert done.code == 0, f"{place}: {done.said}"
        elif tag in ("console", "console exact"):
            for command, wanted in console(lines):
                fails = any("error: " in line or line.startswith(("different: ", "**different**: ")) for line in wanted)  # as diff(1) does
                done = workplace(f"{{ {command}\n}} 2>&1 || test {int(fails)} = 1")
                assert done.code == 0, f"{place}: {done.out}"
                check_output(place, wanted, done.out, tag.endswith("exact"))
        elif tag == "python" and "import onnxruntime" in lines:
            done = workplace(f"{sys.executable} - <<'END'\n" + "\n".join(lines) + "\nEND")
            assert done.code == 0, f"{place}: {done.said}"
        elif tag != "bash":  # how weir is installed: tests/packages/test_readme.py
            stray = [line for line in lines if re.match(r"(\$ )?weir ", line)]
            assert not stray, f"{place}: an example that nobody runs: {stray[0]}"


# What docs/optimize.md draws under "Before and after": a model, and the operators that are left of it.
DRAWN = [
    ("optimize/fold-small", "g (float[N,3,224] x, float[a,b] y) => (float[p,q] z) { s = Shape(x) i = Constant<value_ints = [2]>() g = Gather(s, i) d = Div(g, i) m = Constant<value_ints = [-1]>() c = Concat<axis = 0>(d, m) z = Reshape(y, c) }", ["Reshape"]),
    ("optimize/fold-if", "g (float[N,3] x) => (float[p,q] z) { s = Shape(x) n = Size(s) two = Constant<value_int = 2>() c = Equal(n, two) z = If(c) <then_branch = t () => (float[N,3] a) { a = Relu(x) }, else_branch = e () => (float[N,3] b) { b = Neg(x) }> }", ["Relu"]),
    ("optimize/shapes", "g (float[N,3] x, float[a,32,8,8] y) => (float[p,q,r] z) { s = Shape(x) i = Constant<value_int = 0>() g = Gather(s, i) o = Constant<value_ints = [0]>() u = Unsqueeze(g, o) v = Constant<value_ints = [32]>() w = Constant<value_ints = [64]>() c = Concat<axis = 0>(u, v, w) z = Reshape(y, c) }", ["Reshape"]),
    ("optimize/fold-large", "g (float[N,2] x) => (float[p,q] z) <float[3,2] W = {1, 2, 3, 4, 5, 6}> { t = Transpose(W) k = Constant<value_float = 0.125>() m = Mul(t, k) z = MatMul(x, m) }", ["MatMul"]),
    ("optimize/transposes", "g (float[N,2,3] x) => (float[p,q,r] z) <float[3,2] c = {1, 2, 3, 4, 5, 6}> { t = Transpose<perm = [0, 2, 1]>(x) a = Add(t, c) z = Transpose<perm = [0, 2, 1]>(a) }", ["Add"]),
    ("optimize/transposes", "g (float[2,2,3] x) => (float[p,q,r] z) <float[2,3,1] c = {1, 2, 3, 4, 5, 6}> { t = Transpose<perm = [0, 2, 1]>(x) a = Concat<axis = 2>(t, c) z = Transpose<perm = [0, 2, 1]>(a) }", ["Concat"]),
    ("optimize/clip", "g (float[N] x) => (float[p] z) { a = Constant<value_float = -1.0>() b = Constant<value_float = 9.0>() c = Clip(x, a, b) z = Relu(c) }", ["Clip"]),
    ("optimize/affine", "g (float[N,1,4,4] x) => (float[p,q,r,s] z) <float[2,1,1,1] W = {1, 2}, float[2] b = {1, 2}, float[2] v = {5, 6}> { c = Conv(x, W, b) n = BatchNormalization(c, v, b, b, v) k = Constant<value_float = 0.5>() z = Mul(n, k) }", ["Conv"]),
    ("optimize/pad", "g (float[N,1,4,4] x) => (float[p,q,r,s] z) <float[1,1,1,1] W = {1}> { b = Constant<value_ints = [0, 0, 1, 1, 0, 0, 1, 1]>() c = Pad(x, b) z = Conv(c, W) }", ["Conv"]),
    ("optimize/layer-norm", "g (float[N,4] x) => (float[p,q] z) <float[4] g = {1, 2, 3, 4}> { o = Constant<value_ints = [-1]>() m = ReduceMean(x, o) d = Sub(x, m) two = Constant<value_float = 2.0>() s = Pow(d, two) v = ReduceMean(s, o) e = Constant<value_float = 0.00001>() a = Add(v, e) r = Sqrt(a) n = Div(d, r) k = Mul(n, g) z = Add(k, g) }", ["LayerNormalization"]),
]  # fmt: skip


def test_what_optimize_is_drawn_to_do(weir, tmp_path):
    text = (ROOT / "docs" / "optimize.md").read_text()
    drawn = re.findall(r"```\n(\S+) .*\n {20,}→ ", text)
    assert drawn == [name for name, _, _ in DRAWN]
    for name, graph, left in DRAWN:
        onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {graph}'), tmp_path / "in.onnx")
        weir("optimize", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force")
        assert [node.op_type for node in onnx.load(tmp_path / "out.onnx").graph.node] == left, name


def test_tables_of_accuracy_are_those_of_the_script():
    """Rows and columns of what bench/accuracy.py measures, which takes minutes."""
    spec = importlib.util.spec_from_file_location("accuracy", ROOT / "bench" / "accuracy.py")
    accuracy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(accuracy)
    for i, (page, columns) in enumerate(accuracy.COLUMNS.items()):
        lines = (ROOT / page).read_text().splitlines()
        at = lines.index("| | " + " | ".join(columns) + " |")
        names = [row[i] for row in accuracy.RECIPES if row[i]]
        assert [line.split(" | ")[0].removeprefix("| ") for line in lines[at + 2 : at + 2 + len(names)]] == names
        assert lines[at + 2 + len(names)] == ""
