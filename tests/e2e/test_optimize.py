"""weir optimize: fewer nodes, the same numbers, and shapes that are true of what is left.

What each rewrite is allowed to change is tested with it (test_rules.py, test_folds.py …); here they run together.
"""

import re

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import shape_oracle
from conftest import DATA, package_models, program, sampled
from test_preprocess import EXPORTS, MODELS, is_same, key_of, operators

pytestmark = pytest.mark.in_memory

BERT = EXPORTS / "bert-eager-torchscript-17.onnx"


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_exports(weir, tmp_path, path):
    report = shape_oracle.check(path, f"{program('WEIR')} optimize IN OUT --quiet")
    assert (report.error, report.wrong, report.dtype_wrong) == ("", [], [])
    assert (report.fresh, report.unknown) == ([], [])
    out = tmp_path / "out.onnx"
    weir("optimize", path, out)
    assert is_same(path, out)
    before, after = operators(path), operators(out)
    assert after.total() <= before.total() and after["Identity"] == 0
    if "torchscript" in str(path):
        assert after.total() < 0.75 * before.total()


@pytest.mark.parametrize("package", ["rapidocr", "silero_vad", "magika"])
def test_models_of_packages(weir, tmp_path, package):
    for path in package_models(package):
        report = shape_oracle.check(path, f"{program('WEIR')} optimize IN OUT --quiet")
        assert (report.error, report.wrong, report.dtype_wrong) == ("", [], []), path.name
        weir("optimize", path, tmp_path / path.name)
        assert is_same(path, tmp_path / path.name), path.name


def test_goals(weir, tmp_path):
    """What is to be quantized keeps its MatMuls; the key is preprocess's alone."""
    for goal in ("onnx", "quantization", "onnxruntime"):
        weir("optimize", BERT, tmp_path / f"{goal}.onnx", "--goal", goal)
    quantization, other = operators(tmp_path / "quantization.onnx"), operators(tmp_path / "onnx.onnx")
    assert quantization["MatMul"] == operators(BERT)["MatMul"] >= other["MatMul"]
    assert key_of(onnx.load(tmp_path / "quantization.onnx")) is None


def test_steps_are_chosen(weir, tmp_path):
    weir("optimize", BERT, tmp_path / "a.onnx", "--only", "optimize/fold-small")
    weir("optimize", BERT, tmp_path / "b.onnx", "--skip", "tidy/*", "--skip", "fuse")
    only, skipped, all_of = (operators(tmp_path / "a.onnx"), operators(tmp_path / "b.onnx"), operators(BERT))
    assert only.total() < all_of.total() and skipped.total() < all_of.total() and only["Identity"] == all_of["Identity"]
    done = weir("optimize", BERT, tmp_path / "c.onnx", "--only", "tidy/identty", code=2)
    assert "no such step" in done.err and "did you mean 'tidy/identity'?" in done.err


def test_exactness_holds_back(weir, tmp_path):
    done = weir("optimize", DATA / "exports" / "cnn-kept-torchscript-17.onnx", tmp_path / "a.onnx", "--exactness", "exact")
    assert operators(tmp_path / "a.onnx")["BatchNormalization"] > 0 and re.search(r"held back.*\(--exactness rounding allows", done.out)
    weir("optimize", DATA / "exports" / "cnn-kept-torchscript-17.onnx", tmp_path / "b.onnx")
    assert operators(tmp_path / "b.onnx").total() < operators(tmp_path / "a.onnx").total()


def test_fixed_shapes(weir, tmp_path):
    """With the inputs' dims as numbers, more is decided."""
    weir("optimize", BERT, tmp_path / "a.onnx")
    weir("optimize", BERT, tmp_path / "b.onnx", "--set-dim", "batch=2", "--set-dim", "seq=7")
    assert operators(tmp_path / "b.onnx").total() < operators(tmp_path / "a.onnx").total()
    found = onnx.load(tmp_path / "b.onnx")
    assert all(isinstance(dim, int) for value in [*found.graph.input, *found.graph.value_info] for dim in shape_oracle.dims_of(value.type) or [])


def test_as_a_pass(weir, tmp_path):
    """The name of the family is all that the command does, but for the shapes that it writes; in a file too."""
    weir("optimize", BERT, tmp_path / "a.onnx")
    weir("run", BERT, tmp_path / "b.onnx", "--pass", "optimize", "--pass", "infer")
    (tmp_path / "c.yaml").write_text("passes:\n  - optimize:\n      exclude: no-such-node\n  - infer\n")
    weir("run", BERT, tmp_path / "c.onnx", "--config", tmp_path / "c.yaml")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes() == (tmp_path / "c.onnx").read_bytes()
    listed = weir("passes", "optimize").out
    assert listed.index("optimize/constants\n") < listed.index("at the end, once:") < listed.index("tidy/unused-initializers\n")


def test_a_branch_that_cannot_run_in_one_call_of_a_function(weir, tmp_path):
    """It runs in the other."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18, "my": 1]>
        g (float[2,3] a, bool c, float[2,8] b, bool d) => (float[p,q] y, float[r,s] z) { y = my.F(a, c)  z = my.F(b, d) }
        <domain: "my", opset_import: ["": 18]>
        F (x, c) => (y) {
            y = If(c) <then_branch = t () => (float[m,n] u) { k = Constant<value_ints = [4, 4]>() w = Reshape(x, k) u = Neg(w) },
                       else_branch = e () => (float[o,l] f) { f = Relu(x) }>
        }""")
    onnx.save(model, tmp_path / "m.onnx")
    given = {"a": np.arange(-3, 3, dtype=np.float32).reshape(2, 3), "c": np.array(False), "b": np.arange(16, dtype=np.float32).reshape(2, 8), "d": np.array(True)}
    weir("optimize", tmp_path / "m.onnx", tmp_path / "o.onnx")
    _, z = ort.InferenceSession(tmp_path / "o.onnx").run(None, given)
    assert np.array_equal(z, -given["b"].reshape(4, 4))


FAILS = "k = Constant<value_ints = [5, 4]>() w = ConstantOfShape(k) d = MatMul(h, w)"
BODIES = {
    "if": f"y = If(c) <then_branch = a () => (float[m,n2] d) {{ {FAILS} }}, else_branch = b () => (float[o,r] f) {{ f = Relu(h) }}>",
    "if neither": f'''y = If(c) <then_branch = a () => (float[m,n2] d) {{ {FAILS} }},
                               else_branch = b () => (float[o,r] f) {{ k = Constant<value_ints = [6, 4]>() w = ConstantOfShape(k) f = MatMul(h, w) }}>''',
    "loop": f'''y = Loop(trips, , h) <body = l (int64 i, bool ci, float[p2,q2] hh) => (bool co, float[p3,q3] z) {{
                co = Identity(ci) {FAILS} z = Identity(d) }}>''',
    "loop that stacks": f'''h2, ys = Loop(trips, , h) <body = l (int64 i, bool ci, float[p2,q2] hh) => (bool co, float[p3,q3] e2, float[p4,q4] z) {{
                co = Identity(ci) e2 = Identity(hh) {FAILS} z = Identity(d) }}> y = Add(h2, h2)''',
    "loop in if": f'''y = If(c) <then_branch = a () => (float[m,n2] d2) {{
                d2 = Loop(trips, , h) <body = l (int64 i, bool ci, float[p2,q2] hh) => (bool co, float[p3,q3] z) {{ co = Identity(ci) {FAILS} z = Identity(d) }}> }},
                else_branch = b () => (float[o,r] f) {{ f = Relu(h) }}>''',
}
SHAPES = {
    "where": "s = Shape(x) n = Gather(s, one) e = Equal(n, minus) t = Where(e, seven, n) to = Concat<axis = 0>(minus, t) h = Reshape(x, to)",
    "max": "s = Shape(x) n = Gather(s, one) m = Max(n, one) to = Concat<axis = 0>(minus, m) h = Reshape(x, to)",
    "axes": "u = Unsqueeze(x, one) s = Shape(u) n = Gather(s, one) e = Equal(n, one) ax = Where(e, one, seven) h = Squeeze(u, ax)",
    "constants": "t = Mul(three, one) to = Concat<axis = 0>(minus, t) h = Reshape(x, to)",
}


@pytest.mark.parametrize("body, shape", sampled(BODIES, SHAPES, every=4))
def test_a_body_that_cannot_run_keeps_no_model_from_being_loaded(weir, tmp_path, body, shape):
    """Whoever knows that h has 3 columns refuses the product of the body: no pass tells the runtime."""
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
        g (float[N,3] x, bool c, int64 trips) => (float[p,q] y) <int64[1] seven = {{7}}, int64[1] minus = {{-1}}, int64[1] one = {{1}}, int64[1] three = {{3}}> {{
            {SHAPES[shape]} {BODIES[body]} }}""")
    onnx.save(model, tmp_path / "m.onnx")
    given = {"x": np.arange(-3, 3, dtype=np.float32).reshape(2, 3), "c": np.array(False), "trips": np.array(0)}
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # with constants it is refused otherwise, as the source is
    levels = [options] if shape == "constants" else [options, ort.SessionOptions()]

    def results(path):
        sessions = [ort.InferenceSession(path, level) for level in levels]
        return None if body == "if neither" else [session.run(["y"], {k.name: given[k.name] for k in session.get_inputs()})[0].tolist() for session in sessions]

    source = results(tmp_path / "m.onnx")
    for words in ("optimize", "preprocess", "infer", *(f"run --pass {p}" for p in ("streamline", "fold-constants", "reorder", "optimize/fold-small", "optimize/fold-large"))):
        command, *options_of = words.split()
        weir(command, tmp_path / "m.onnx", tmp_path / "o.onnx", *options_of, "--force")
        assert results(tmp_path / "o.onnx") == source, words


DECLARED = {"input": ("", "h = Reshape(x, to)", "x"), "value": ("float[N,3] v,", "v = Relu(x) h = Reshape(v, to)", "v"),
            "less": ("float[A,B] v,", "v = Relu(x) h = Reshape(v, to)", "v"), "not": ("", "v = Relu(x) h = Reshape(v, to)", "v")}  # fmt: skip


@pytest.mark.parametrize("words", ["reorder", "streamline"])
@pytest.mark.parametrize("kind", DECLARED)
def test_dims_that_the_model_declares_are_no_secret(weir, tmp_path, words, kind):
    """The runtime reads them too: what such a value becomes elsewhere is rewritten, though it leads to a body that cannot run."""
    said, nodes, of = DECLARED[kind]
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
        g (float[N,3] x, bool c) => (float[p,q] y, float[N,3] u) <{said} int64[1] minus = {{-1}}, int64[1] one = {{1}}> {{
            s = Shape(x) n = Gather(s, one) m = Max(n, one) to = Concat<axis = 0>(minus, m) {nodes}
            s2 = Shape(x) n2 = Gather(s2, one) m2 = Max(n2, one) t2 = Concat<axis = 0>(minus, m2) u = Reshape({of}, t2)
            y = If(c) <then_branch = a () => (float[m,n3] d) {{ {FAILS} }}, else_branch = b () => (float[o,r] f) {{ f = Neg(h) }}> }}""")
    onnx.save(model, tmp_path / "m.onnx")
    given = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array(False)}
    weir("run", tmp_path / "m.onnx", tmp_path / "o.onnx", "--pass", words)
    y, u = ort.InferenceSession(tmp_path / "o.onnx").run(None, given)
    assert np.array_equal(y, -given["x"])
    assert np.array_equal(u, given["x"])
    made = next(n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node if "u" in n.output)
    assert kind not in ("input", "value") or made != "Reshape"


def test_a_branch_that_cannot_run_keeps_no_model_from_being_loaded(weir, tmp_path):
    """The runtime does not know that x has 3 columns before the Reshape goes, and then the product of the branch does not fit."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
        g (float[N,3] x, bool c) => (float[p,q] y) <int64[1] seven = {7}, int64[1] minus = {-1}, int64[1] one = {1}> {
            s = Shape(x)  n = Gather(s, one)  e = Equal(n, minus)  t = Where(e, seven, n)  to = Concat<axis = 0>(minus, t)  h = Reshape(x, to)
            y = If(c) <then_branch = a () => (float[m,n2] d) { k = Constant<value_ints = [5, 4]>() w = ConstantOfShape(k) d = MatMul(h, w) },
                       else_branch = b () => (float[o,r] f) { f = Relu(h) }>
        }""")
    onnx.save(model, tmp_path / "m.onnx")
    given = {"x": np.arange(-3, 3, dtype=np.float32).reshape(2, 3), "c": np.array(False)}
    for command in ("optimize", "preprocess", "infer"):
        weir(command, tmp_path / "m.onnx", tmp_path / f"{command}.onnx")
        [y] = ort.InferenceSession(tmp_path / f"{command}.onnx").run(None, given)
        assert np.array_equal(y, np.maximum(given["x"], 0))


def test_names_outlast_those_that_are_added(weir, tmp_path):
    """A Loop of one trip with a stacked output: the axes of the Unsqueeze get a long name, and the table of names moves."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    body = onnx.helper.make_graph(
        [make("Identity", ["go"], ["on"]), make("Add", ["x", "x"], ["twice"])], "body",
        [info("i", onnx.TensorProto.INT64, []), info("go", onnx.TensorProto.BOOL, [])],
        [info("on", onnx.TensorProto.BOOL, []), info("twice", onnx.TensorProto.FLOAT, [2])])
    for length in (1000, 5000, 60000):
        graph = onnx.helper.make_graph(
            [make("Loop", ["one", "yes"], ["stacked"], name="l" * length, body=body), make("Neg", ["stacked"], ["y"])], "g",
            [info("x", onnx.TensorProto.FLOAT, [2])], [info("y", onnx.TensorProto.FLOAT, [1, 2])],
            [onnx.helper.make_tensor("one", onnx.TensorProto.INT64, [], [1]),
             onnx.helper.make_tensor("yes", onnx.TensorProto.BOOL, [], [True])])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
        weir("run", tmp_path / "m.onnx", tmp_path / "o.onnx", "--pass", "optimize/fold-if", "--force", env={"MALLOC_PERTURB_": "165"})
        nodes = onnx.load(tmp_path / "o.onnx").graph.node
        assert [n.name for n in nodes if n.op_type == "Unsqueeze"] == ["stacked"], length
