"""weir infer: what it writes is what the runtime gives, on real exports and the models of packages.

shape_oracle.py judges: shapes are stripped, inferred, and evaluated at two bindings of the inputs' symbols against every
value of a run. That it finds mistakes is shown in test_harness.py.
"""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import shape_oracle
from conftest import DATA, package_models, program

pytestmark = pytest.mark.in_memory

QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 4
QUIET.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # the runtime folds by what is declared

EXPORTS = sorted((DATA / "exports").glob("*.onnx"))
PARAKEET = {
    DATA / "parakeet-dynamo" / "encoder-model.onnx": 274,
    DATA / "parakeet-torchscript" / "encoder-model.onnx": 646,
}

# Of these some shapes are known only when the model runs: (right, with symbols of their own, without a shape).
DEPENDS_ON_DATA = {
    "PP-OCRv6_rec_small.onnx": (470, 10, 0),
    "silero_vad.onnx": (2, 2, 2),
    "silero_vad_16k_op15.onnx": (107, 5, 10),
    "silero_vad_half.onnx": (83, 5, 9),
}


def judged(path):
    report = shape_oracle.check(path, f"{program('WEIR')} infer IN OUT --quiet")
    assert (report.error, report.wrong, report.dtype_wrong) == ("", [], [])
    assert report.dtype_right == report.values
    return report


@pytest.mark.parametrize("path", [*EXPORTS, *PARAKEET], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_value_of_an_export(path):
    report = judged(path)
    assert (report.right, report.fresh, report.unknown) == (report.values, [], [])
    assert report.values == PARAKEET.get(path, report.values)


@pytest.mark.parametrize("package", ["rapidocr", "silero_vad", "magika"])
def test_models_of_packages(package):
    for path in package_models(package):
        report = judged(path)
        right, fresh, unknown = DEPENDS_ON_DATA.get(path.name, (report.values, 0, 0))
        assert report.right >= right and len(report.fresh) <= fresh and len(report.unknown) <= unknown, (path.name, report.line())


# ---- what the file says then


def small_model(folder, dims=("batch", 3, "t"), length="length", nodes=None, opsets=None):
    """Conv with stride 2 over t, and what declares its output."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3], [0.5] * 36)
    nodes = nodes or [
        helper.make_node("Conv", ["x", "w"], ["h"], name="conv", strides=[2], pads=[1, 1]),
        helper.make_node("Relu", ["h"], ["y"], name="relu"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4, length])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=opsets or [helper.make_opsetid("", 18)], ir_version=8)
    path = folder / "in.onnx"
    onnx.save(model, path)
    return path


def dims(model, name):
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.name == name:
            return shape_oracle.dims_of(value.type)
    return None


def test_set_shapes_are_declared(weir, tmp_path):
    source = small_model(tmp_path)
    weir("infer", source, tmp_path / "a.onnx", "--set-shape", "x=2x3xframes")
    found = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(found, full_check=True)
    assert [dims(found, name) for name in "xhy"] == [[2, 3, "frames"], [2, 4, "(frames + 1)//2"], [2, 4, "(frames + 1)//2"]]
    weir("infer", source, tmp_path / "b.onnx", "--set-dim", "batch=2", "--set-dim", "t=9")
    found = onnx.load(tmp_path / "b.onnx")
    assert [dims(found, name) for name in "xhy"] == [[2, 3, 9], [2, 4, 5], [2, 4, 5]]


def test_names_of_dims_that_say_the_same_stay(weir, tmp_path):
    """A formula in another spelling stays; a name that only the output has does not."""
    spelled = small_model(tmp_path, length="((t - 1)//2) + 1")
    weir("infer", spelled, tmp_path / "a.onnx")
    found = onnx.load(tmp_path / "a.onnx")
    assert dims(found, "y") == ["batch", 4, "((t - 1)//2) + 1"] and dims(found, "h") == ["batch", 4, "(t + 1)//2"]
    weir("infer", small_model(tmp_path, length="LayerNormalizationout_dim_0"), tmp_path / "b.onnx")
    assert dims(onnx.load(tmp_path / "b.onnx"), "y") == ["batch", 4, "(t + 1)//2"]


def test_twice_is_once(weir, tmp_path):
    for number, path in enumerate([*package_models("rapidocr"), small_model(tmp_path)]):
        once, twice = tmp_path / f"{number}.once.onnx", tmp_path / f"{number}.twice.onnx"
        weir("infer", path, once)
        weir("infer", once, twice)
        assert once.read_bytes() == twice.read_bytes(), path


@pytest.mark.parametrize(
    "words, message",
    [
        (["--set-shape", "z=1x2"], "the model has no input 'z'"),
        (["--set-shape", "x"], "'x' is not of the form INPUT=SHAPE"),
        (["--set-shape", "x=1x5x7"], "the input 'x' cannot have the shape '1x5x7'"),
        (["--set-shape", "x=1x3"], "the input 'x' cannot have the shape '1x3'"),
        (["--set-dim", "bacth=1"], "no input has a dim named 'bacth'"),
        (["--set-dim", "batch=-1"], "'batch=-1' is not of the form NAME=NUMBER"),
        (["--set-dim", "batch=99999999999999999999"], "is not of the form NAME=NUMBER"),
        (["--set-dim", "batch=1", "--set-dim", "batch=2"], "the dim 'batch' cannot be 2"),
    ],
)
def test_what_cannot_be_set(weir, tmp_path, words, message):
    done = weir("infer", small_model(tmp_path), tmp_path / "out.onnx", *words, code=2)
    assert message in done.err and not (tmp_path / "out.onnx").exists()


def unknown_operator(folder):
    nodes = [helper.make_node("Magic", ["x"], ["h"], name="magic", domain="my.domain"), helper.make_node("Relu", ["h"], ["k"]), helper.make_node("Relu", ["k"], ["y"])]
    return small_model(folder, nodes=nodes, opsets=[helper.make_opsetid("", 18), helper.make_opsetid("my.domain", 1)])


def test_what_is_not_known_is_counted(weir, tmp_path):
    source = unknown_operator(tmp_path)
    done = weir("infer", source, tmp_path / "out.onnx")
    assert "1 Magic (unknown operator)" in done.out
    found = weir("inspect", source, "--shapes", "--json").json()["shapes"]
    assert found["totals"]["no_shape"] == 2 and found["totals"]["reasons"]["unknown_operator"] == 1
    assert [(each["name"], each["dims"], each["why"]) for each in found["values"]][1] == ("h", None, "unknown_operator")


def test_strict(weir, tmp_path):
    done = weir("infer", unknown_operator(tmp_path), tmp_path / "out.onnx", "--strict", code=1)
    assert "2 values have no known shape" in done.err and "the first is 'h'" in done.err
    assert not (tmp_path / "out.onnx").exists()
    weir("infer", small_model(tmp_path), tmp_path / "out.onnx", "--strict")


def test_declarations_that_are_wrong(weir, tmp_path):
    source = small_model(tmp_path, dims=[1, 3, 9], length=77)
    done = weir("infer", source, tmp_path / "a.onnx")
    assert "declared as 77" in done.err and dims(onnx.load(tmp_path / "a.onnx"), "y") == [1, 4, 5]
    weir("infer", source, tmp_path / "b.onnx", "--declared", "keep")
    assert dims(onnx.load(tmp_path / "b.onnx"), "y") == [1, 4, 77] or dims(onnx.load(tmp_path / "b.onnx"), "y") == ["batch", 4, 77]
    weir("infer", source, tmp_path / "c.onnx", "--declared", "refuse", code=65)
    assert not (tmp_path / "c.onnx").exists()


def test_only_declarations_change(weir, tmp_path):
    """Nodes, weights and all else stay; a replay of the edit log makes the same bytes."""
    source = EXPORTS[0]
    weir("infer", source, tmp_path / "a.onnx", "--edit-log", tmp_path / "edits.jsonl")
    before, after = onnx.load(source), onnx.load(tmp_path / "a.onnx")
    for model in (before, after):
        del model.graph.value_info[:], model.graph.input[:], model.graph.output[:]
    assert before.SerializeToString(deterministic=True) == after.SerializeToString(deterministic=True)
    weir("replay", tmp_path / "edits.jsonl", source, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


# ---- declarations that are wrong


def stale(where, dim):
    """x [N,2,3], shape arithmetic over its batch, and what is declared of the batch: of an output, of values in between, in bodies, in a function."""
    V, F = helper.make_tensor_value_info, TensorProto.FLOAT
    make = helper.make_node

    def flat(of, to, p):
        nodes = [make("Shape", [of], [p + "s"]), make("Constant", [], [p + "z"], value_ints=[0]), make("Constant", [], [p + "m"], value_ints=[6])]
        return nodes + [make("Gather", [p + "s", p + "z"], [p + "b"]), make("Concat", [p + "b", p + "m"], [p + "t"], axis=0), make("Reshape", [of, p + "t"], [to])]

    inner, functions, infos, inputs = [make("Relu", ["x"], ["r"])], [], [], [V("x", F, [None if where == "nameless" else "N", 2, 3])]
    declared = V("y", F, [dim, 6] if where in ("output", "nameless") else None)
    if where == "between":
        infos = [V("r", F, [dim, 2, 3])]
    if where == "rank":
        infos = [V("r", F, ["N", 6])]
    if where == "if":
        bodies = [helper.make_graph([make(op, ["x"], [op])], op, [], [V(op, F, [dim, 2, 3])]) for op in ("Relu", "Neg")]
        inner = [make("If", ["c"], ["r"], then_branch=bodies[0], else_branch=bodies[1])]
        inputs.append(V("c", TensorProto.BOOL, []))
    if where in ("loop", "scan"):
        loop = where == "loop"
        first = [V("i", TensorProto.INT64, []), V("g", TensorProto.BOOL, [])] if loop else []
        nodes = [make("Relu", ["v0"], ["v1"]), *([make("Identity", ["g"], ["h"])] if loop else [make("Identity", ["e"], ["o"])])]
        last = [V("v1", F, [dim, 2, 3])]
        body = helper.make_graph(nodes, "b", [*first, V("v0", F, [dim, 2, 3]), *([] if loop else [V("e", F, None)])],
                                 [*([V("h", TensorProto.BOOL, [])] if loop else []), *last, *([] if loop else [V("o", F, None)])])
        inner = [make("Constant", [], ["k"], value_int=2), make("Constant", [], ["go"], value=helper.make_tensor("", TensorProto.BOOL, [], [True]))]
        inner.append(make("Loop", ["k", "go", "x"], ["r"], body=body) if loop else make("Scan", ["x", "x"], ["r", "all"], body=body, num_scan_inputs=1))
    if where == "function":
        function = helper.make_function("my", "F", ["a"], ["b"], [make("Relu", ["a"], ["fr"]), *flat("fr", "b", "f")], [helper.make_opsetid("", 18)])
        function.value_info.append(V("fr", F, [dim, 2, 3]))
        functions.append(function)
        nodes = [make("F", ["x"], ["y"], domain="my")]
    else:
        nodes = [*inner, *flat("r", "y", "")]
    graph = helper.make_graph(nodes, "g", inputs, [declared], value_info=infos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my", 1)], functions=functions, ir_version=10)


def declared_dims(model):
    graphs, found = [model.graph], {}
    while graphs:
        graph = graphs.pop()
        graphs += [a.g for node in graph.node for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        for v in [*graph.input, *graph.output, *graph.value_info]:
            found[v.name] = [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
    for function in model.functions:
        for v in function.value_info:
            found[v.name] = [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
    return found


@pytest.mark.parametrize("where", ["output", "nameless", "between", "rank", "if", "loop", "scan", "function"])
def test_the_inputs_win_over_declarations(weir, tmp_path, where):
    """The result runs for every batch that the source runs for, and declares no other; what is declared rightly, or of a name, says nothing."""
    source, right = tmp_path / "m.onnx", tmp_path / "right.onnx"
    onnx.save(stale(where, 1), source)
    onnx.save(stale(where, "N") if where != "rank" else stale("between", "M"), right)
    names = {"output": "y", "nameless": "y", "between": "r", "rank": "r", "if": "Relu", "loop": "v0", "scan": "v0", "function": "fr"}
    done = weir("check", source)
    assert f"warning: value '{names[where]}'" in done.out
    assert " 0 errors, 0 warnings" in weir("check", right).out
    session = onnxruntime.InferenceSession(source, QUIET, providers=["CPUExecutionProvider"])
    for words in (["infer"], ["optimize"], ["optimize", "--exactness", "exact"], ["preprocess"], ["cast", "--graph", "--to", "float16", "--keep-io"], ["run", "--pass", "optimize/shapes"]):
        out = tmp_path / "out.onnx"
        done = weir(words[0], source, out, *words[1:], "--force")
        assert where == "rank" or f"value '{names[where]}'" in done.err, words
        dims_after = declared_dims(onnx.load(out))
        assert not [name for name, dims in dims_after.items() if dims[:1] == [1] and name in ("x", "y", "r", "v0", "v1", "Relu", "Neg", "fr")], (words, dims_after)
        after = onnxruntime.InferenceSession(out, QUIET, providers=["CPUExecutionProvider"])
        for batch in (1, 2, 3):
            feeds = {"x": np.arange(6 * batch, dtype=np.float32).reshape(batch, 2, 3) - 3}
            if where == "if":
                feeds["c"] = np.array(True)
            got = after.run(["y"], feeds)[0]
            assert got.shape == (batch, 6), words
            if where not in ("if", "loop", "scan") or batch == 1:  # the runtime itself believes what bodies declare
                assert np.array_equal(got, session.run(["y"], feeds)[0])
        assert not [line for line in weir(words[0], right, out, *words[1:], "--force").err.splitlines() if "warning" in line], words
    for word in ("keep", "override"):
        weir("infer", source, tmp_path / "other.onnx", "--declared", word, "--force")
    assert declared_dims(onnx.load(tmp_path / "other.onnx"))["x"][1:] == [2, 3]
    weir("infer", source, tmp_path / "refused.onnx", "--declared", "refuse", code=65)
    weir("convert", source, tmp_path / "copy.onnx", "--force")
    assert declared_dims(onnx.load(tmp_path / "copy.onnx")) == declared_dims(onnx.load(source))


def test_what_only_a_declaration_says_is_not_folded(weir, tmp_path):
    """A Reshape to a shape that is an input, NonZero: the declared numbers are written, and the result runs for others."""
    V, make = helper.make_tensor_value_info, helper.make_node
    nodes = [make("Reshape", ["x", "s"], ["r"]), make("Shape", ["r"], ["d"]), make("NonZero", ["r"], ["n"]), make("Shape", ["n"], ["e"]), make("Reshape", ["r", "d"], ["y"])]
    outputs = [V("y", TensorProto.FLOAT, [4, 6]), V("d", TensorProto.INT64, [2]), V("e", TensorProto.INT64, [2])]
    infos = [V("r", TensorProto.FLOAT, [4, 6]), V("n", TensorProto.INT64, [2, 24])]
    graph = helper.make_graph(nodes, "g", [V("x", TensorProto.FLOAT, [24]), V("s", TensorProto.INT64, [2])], outputs, value_info=infos)
    source = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), source)
    feeds = {"x": np.r_[0, np.ones(23, np.float32)].astype(np.float32), "s": np.array([3, 8])}
    want = onnxruntime.InferenceSession(source, QUIET, providers=["CPUExecutionProvider"]).run(None, feeds)
    for words in (["infer"], ["optimize"], ["run", "--pass", "streamline"]):
        out = tmp_path / "out.onnx"
        assert "warning" not in weir(words[0], source, out, *words[1:], "--force").err
        got = onnxruntime.InferenceSession(out, QUIET, providers=["CPUExecutionProvider"]).run(None, feeds)
        assert all(np.array_equal(a, b) for a, b in zip(want, got, strict=True)), words
        assert declared_dims(onnx.load(out))["y"] == [4, 6]


def test_flat_convolutions_do_not_believe_declarations(weir, tmp_path):
    V, make, F = helper.make_tensor_value_info, helper.make_node, TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float32), "w")
    for dim in ("N", 1, 2):
        graph = helper.make_graph([make("Relu", ["x"], ["r"]), make("Conv", ["r", "w"], ["y"])], "g", [V("x", F, [2 if dim == 2 else "N", 3, 5, 5])], [V("y", F, None)], [weight],
                                  value_info=[V("r", F, [dim, 3, 5, 5])])
        source, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), source)
        weir("conv2matmul", source, out, "--form", "flat", "--force")
        assert ("Shape" in [node.op_type for node in onnx.load(out).graph.node]) == (dim != 2)
        x = np.ones((2, 3, 5, 5), np.float32)
        assert onnxruntime.InferenceSession(out, QUIET, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].shape == (2, 4, 5, 5)


def test_what_is_written_does_not_change_what_does_not_run(weir, tmp_path):
    """Without a trip the runtime gives scan outputs the dims that it knows of the body: none may be added. Dims that are declared in front of a body that
    cannot run would keep the model from being loaded."""
    V, make, F = helper.make_tensor_value_info, helper.make_node, TensorProto.FLOAT
    first = [make("Shape", ["x"], ["s"]), make("Cast", ["s"], ["f"], to=1), make("Mul", ["f", "half"], ["g"]), make("Cast", ["g"], ["n"], to=7), make("Expand", ["one", "n"], ["h"])]
    constants = {"half": np.float32(0.5), "one": np.float32(1), "w": np.ones(4, np.float32), "go": np.array(True)}
    constants = [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    bodies = {"runs": make("Relu", ["h"], ["o"]), "broadcasts": make("Mul", ["h", "w"], ["o"])}
    ins, out = [V("x", F, ["a", "b"]), V("k", TensorProto.INT64, [])], tmp_path / "out.onnx"
    for name, node in bodies.items():
        nodes = [make("Identity", ["c"], ["d"]), node]
        body = helper.make_graph(nodes, "b", [V("i", TensorProto.INT64, []), V("c", TensorProto.BOOL, [])], [V("d", TensorProto.BOOL, []), V("o", F, None)])
        branches = [helper.make_graph(nodes[1:], "t", [], [V("o", F, None)]), helper.make_graph([make("Relu", ["h"], ["e"])], "e", [], [V("e", F, None)])]
        for operator in (make("Loop", ["k", "go"], ["y"], body=body), make("If", ["q"], ["y"], then_branch=branches[0], else_branch=branches[1])):
            last = [make("Cast", ["k"], ["q"], to=9)] if operator.op_type == "If" else []
            graph = helper.make_graph([*first, *last, operator], "g", ins, [V("y", F, None)], constants)
            source = tmp_path / "m.onnx"
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
            feeds = {"x": np.ones((4, 6), np.float32), "k": np.array(0)}
            want = onnxruntime.InferenceSession(source, QUIET, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
            assert " 0 errors, 0 warnings" in weir("check", source).out
            for words in (["infer"], ["infer", "--set-shape", "x=4x6"], ["optimize"], ["preprocess"]):
                weir(words[0], source, out, *words[1:], "--force")
                got = onnxruntime.InferenceSession(out, QUIET, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
                assert got.shape == want.shape, (name, operator.op_type, words)


# ---- inspect


def test_inspect_lists_values(weir, tmp_path):
    source = DATA / "exports" / "bert-sdpa-dynamo-18.onnx"
    done = weir("inspect", source, "--values")
    lines = [line.split("\t") for line in done.out.splitlines()]
    assert lines[0] == ["name", "dtype", "dims", "graph", "why", "values"]
    rows = {line[0]: line[1:] for line in lines[1:]}
    assert rows["input_ids"] == ["int64", "[batch,seq]", "0", "-", "-"]
    assert rows["val_35"] == ["int64", "[4]", "0", "-", "{batch,1,1,seq}"]
    document = json.loads(weir("inspect", source, "--shapes", "--json").out)["shapes"]
    assert [each["name"] for each in document["values"]] == [line[0] for line in lines[1:]]
    assert document["totals"] == {"values": 128, "known": 128, "some_dims_unknown": 0, "no_shape": 0, "reasons": {}}
    assert all("elements" not in each for each in document["values"])


def test_inspect_shortens_long_lists(weir, tmp_path):
    """The first 16 of a list that is known, a count of one that is not; JSON has all of both."""
    values = {"short": np.arange(17), "long": np.arange(18), "floats": np.arange(40, dtype=np.float32) / 300}
    nodes = [onnx.helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(array)) for name, array in values.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in values]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [], outputs))
    onnx.save(model, tmp_path / "m.onnx")
    rows = {line.split("\t")[0]: line.split("\t")[-1] for line in weir("inspect", tmp_path / "m.onnx", "--values").out.splitlines()}
    assert rows["short"] == "{" + ",".join(map(str, range(17))) + "}"
    assert rows["long"] == "{" + ",".join(map(str, range(16))) + ",... 2 more}"
    known = [x for x in values["floats"] if (float(x) * 2**24).is_integer()]
    assert 0 < len(known) < 40
    assert rows["floats"] == f"{{40 elements, {len(known)} known}}"
    document = json.loads(weir("inspect", tmp_path / "m.onnx", "--values", "--json").out)["shapes"]["values"]
    assert [len(each["elements"]) for each in document] == [17, 18, 40]


@pytest.mark.parametrize("command", ["infer", "optimize"])
def test_once_more_changes_nothing(weir, tmp_path, command):
    """Numbers that only the run tells keep the names that they were given, in bodies too."""
    for path in package_models("silero_vad"):
        once, twice = tmp_path / "once.onnx", tmp_path / "twice.onnx"
        weir(command, path, once, "--force")
        weir(command, once, twice, "--force")
        assert once.read_bytes() == twice.read_bytes(), path.name


def concats_of_symbols(file, n, halved=False):
    """A chain of n Concats, each with an input whose size has a name of its own; halved: behind each a Slice of every second row."""
    inits, nodes, last = [helper.make_tensor(name, TensorProto.INT64, [1], [value]) for name, value in (("zero", 0), ("end", 2**62), ("two", 2))], [], "x"
    for i in range(n):
        nodes.append(helper.make_node("Concat", [last, f"x{i}"], [f"c{i}"], axis=0))
        if halved:
            nodes.append(helper.make_node("Slice", [f"c{i}", "zero", "end", "zero", "two"], [f"h{i}"]))
        last = nodes[-1].output[0]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"s_{name}", 4]) for name in ("x", *(f"x{i}" for i in range(n)))]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info(last, TensorProto.FLOAT, [None, None])], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)


@pytest.mark.parametrize("halved", [False, True])
def test_sums_of_many_symbols_keep_their_names(weir, tmp_path, halved):
    """Dims whose text would be too long get names, which stay: passes that are repeated until nothing changes come to an end."""
    file = tmp_path / "0.onnx"
    concats_of_symbols(file, 150, halved)
    assert "repeated passes" not in weir("run", file, tmp_path / "o.onnx", "--pass", "streamline").err
    for i in range(5):
        weir("infer", tmp_path / f"{i}.onnx", tmp_path / f"{i + 1}.onnx")
    assert (tmp_path / "3.onnx").read_bytes() == (tmp_path / "4.onnx").read_bytes() == (tmp_path / "5.onnx").read_bytes()
    dims = {v.name: v.type.tensor_type.shape.dim[0].dim_param for v in onnx.load(tmp_path / "4.onnx").graph.value_info}
    assert dims["c0"] == "s_x + s_x0"
    assert any(dim.startswith("unk__") for dim in dims.values())


def test_a_name_is_kept_for_one_number(weir, tmp_path):
    """Of two numbers in bodies that were declared the same name one keeps it, and none that the main graph declares too."""
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 18]>
        g (float[a, 3] x, bool c) => (float[unk__7, 3] u, float v, float w) {
            u = Identity(x)
            v = If(c) <then_branch = t () => (float r) { n = NonZero(x) q = Cast<to: int = 1>(n) r = Identity(q) },
                       else_branch = e () => (float r2) { r2 = Neg(x) }>
            w = If(c) <then_branch = t2 () => (float r3) { n2 = NonZero(x) q2 = Cast<to: int = 1>(n2) r3 = Identity(q2) },
                       else_branch = e2 () => (float r4) { r4 = Neg(x) }>
        }""")
    names = {}
    for dim in ("unk__7", "unk__5"):
        for node, inner in ((model.graph.node[1], "n"), (model.graph.node[2], "n2")):
            body = node.attribute[0].g
            del body.value_info[:]
            body.value_info.append(helper.make_tensor_value_info(inner, TensorProto.INT64, [2, dim]))
        onnx.save(model, tmp_path / "in.onnx")
        weir("infer", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force")
        out = onnx.load(tmp_path / "out.onnx")
        bodies = [node.attribute[0].g for node in out.graph.node[1:]]
        names[dim] = [{v.name: v.type.tensor_type.shape.dim[1].dim_param for v in body.value_info}[inner] for body, inner in zip(bodies, ("n", "n2"))]
    assert "unk__7" not in names["unk__7"] and len({*names["unk__7"]}) == 2
    assert names["unk__5"][0] == "unk__5" != names["unk__5"][1]
