"""weir check against onnx.checker, on what a node looks like: operators, inputs, outputs, attributes, types.

Sound models are the one-node models of onnx's own backend tests and the models of packages; faults are put into the former
at random. Where the checker takes a model, weir finds no error in it, and what the checker refuses weir refuses too. Types
the checker looks at only with full_check, which infers them: weir must not say more than that. The ordinary run looks at
every third of the sound models and at half of the faults.
"""

import json
import random
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import microsoft_nodes
from conftest import ALL, package_models

pytestmark = pytest.mark.in_memory
MANY = 2 if ALL else 1


TYPES_OF = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}


def backend_models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        return {case.name: case.model for case in collect_testcases(None) if case.model is not None}


@pytest.fixture(scope="module")
def models():
    found = backend_models()
    assert len(found) > 1500
    return found


def refused(model, full=False):
    try:
        onnx.checker.check_model(model, full_check=full)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as e:
        return str(e).strip().splitlines()[0]
    return None


@pytest.fixture(scope="module")
def errors_of(weir, module_folder):
    """{name: messages of level error} of many models."""

    def errors(item):
        name, model = item
        path = module_folder / f"{name}.onnx"
        path.write_bytes(model.SerializeToString())
        done = weir("check", path, "--json", code=None)
        path.unlink()
        assert done.code in (0, 65), done.err
        return name, [fault["message"] for fault in json.loads(done.out)["faults"] if fault["level"] == "error"]

    def all_errors(found):
        with ThreadPoolExecutor(4) as pool:
            return dict(pool.map(errors, found.items()))

    return all_errors


def test_sound_models_have_no_error(models, errors_of):
    some = models if ALL else {name: models[name] for name in sorted(models)[::3]}
    found = {name: messages for name, messages in errors_of(some).items() if messages}
    assert {name: messages for name, messages in found.items() if not refused(models[name])} == {}


@pytest.mark.parametrize("package", ["rapidocr", "silero_vad", "magika"])
def test_models_of_packages_have_no_error(weir, package):
    for path in package_models(package):
        weir("check", path)


# ---- faults -------------------------------------------------------------------------------------------------------


def drop_input(node, rng):
    del node.input[rng.randrange(len(node.input)) if node.input else 0 :]


def add_input(node, rng):
    node.input.append(node.input[-1] if node.input else "")


def empty_input(node, rng):
    if node.input:
        node.input[rng.randrange(len(node.input))] = ""


def add_outputs(node, rng):
    node.output.extend(f"more{i}" for i in range(rng.randrange(1, 5)))


def drop_attribute(node, rng):
    if node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]


def add_attribute(node, rng):
    name = rng.choice(["axis", "axes", "keepdims", "alpha", "to", "Axis", "__note"])
    if name not in [each.name for each in node.attribute]:
        node.attribute.append(helper.make_attribute(name, rng.choice([1, 1.0, "s", [1]])))


def other_attribute(node, rng):
    if node.attribute:
        name = node.attribute[i := rng.randrange(len(node.attribute))].name
        node.attribute[i].CopyFrom(helper.make_attribute(name, rng.choice([1, 1.0, "s", [1, 2], [1.0], ["s"]])))


def rename(node, rng):
    node.op_type = rng.choice([node.op_type + "u", node.op_type[:-1], node.op_type.lower(), "Affine", "Upsample", "Scatter"])


def other_operator(node, rng):
    node.op_type = rng.choice(["Add", "Conv", "Clip", "Concat", "If", "Softmax", "Constant", "LSTM", "Split", "Attention"])


MUTATIONS = [drop_input, add_input, empty_input, add_outputs, drop_attribute, add_attribute, other_attribute, rename, other_operator]


def other_opset(model, rng):
    for opset in model.opset_import:
        opset.version = rng.randrange(1, opset.version + 1)


def mutants(models, n, seed):
    rng = random.Random(seed)
    for i in range(n):
        name = rng.choice(sorted(models))
        model = onnx.ModelProto()
        model.CopyFrom(models[name])
        if not model.graph.node:
            continue
        mutation = rng.choice([*MUTATIONS, other_opset])
        if mutation is other_opset:
            other_opset(model, rng)
        else:
            mutation(rng.choice(list(model.graph.node)), rng)
        yield f"{i}-{mutation.__name__}-{name}", model


def runs(model):
    """Does ONNX Runtime run it, on ones of the declared shapes?"""
    try:
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {each.name: np.ones([d if isinstance(d, int) else 2 for d in each.shape], TYPES_OF[each.type]) for each in session.get_inputs()}
        session.run(None, feeds)
    except Exception:  # whatever it says
        return False
    return True


def test_weir_refuses_what_the_checker_refuses(models, errors_of):
    changed = dict(mutants(models, 1000 * MANY, 7))
    found, both, neither = errors_of(changed), 0, 0
    for name, model in changed.items():
        theirs = refused(model)
        if theirs and not found[name]:
            pytest.fail(f"{name}: only the checker: {theirs}")
        if found[name] and not theirs:  # then it is a matter of types, or of shapes, which the runtime knows
            assert refused(model, full=True) or not runs(model), (name, found[name])
        both += bool(theirs)
        neither += not theirs
    assert both > 300 * MANY and neither > 200 * MANY


TYPES = [TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING, TensorProto.FLOAT16,
         TensorProto.BFLOAT16, TensorProto.UINT8, TensorProto.COMPLEX64, TensorProto.DOUBLE, TensorProto.INT4]  # fmt: skip


def test_wrong_types_are_found_where_they_are_declared(models, errors_of):
    """Of models with one node and one input of another type, weir refuses nearly all that inference refuses, and nothing else."""
    rng, changed = random.Random(11), {}
    names = [name for name, model in models.items() if len(model.graph.node) == 1 and model.graph.input]
    for i in range(300 * MANY):
        model = onnx.ModelProto()
        model.CopyFrom(models[name := rng.choice(names)])
        declared = rng.choice(list(model.graph.input)).type
        if declared.HasField("tensor_type"):
            declared.tensor_type.elem_type = rng.choice(TYPES)
            changed[f"{i}-{name}"] = model
    found, refusals = errors_of(changed), 0
    for name, model in changed.items():
        theirs = refused(model, full=True)
        assert not found[name] or theirs, (name, found[name])
        refusals += bool(theirs)
    assert sum(map(bool, found.values())) > 0.9 * refusals > 100 * MANY


def test_operators_that_only_a_runtime_has(weir, tmp_path):
    """The checker lets early experiments pass, weir warns of them; what ONNX Runtime adds both refuse."""
    for op, expected in (("ImageScaler", 0), ("ATen", 0), ("SimplifiedLayerNormalization", 65), ("LayerNormalization", 65)):
        value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2])
        graph = helper.make_graph([helper.make_node(op, ["x", "x"], ["y"])], "g", [value("x")], [value("y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        assert op in weir("check", tmp_path / "m.onnx", code=expected).out
        assert bool(refused(model)) == bool(expected), op


def test_other_commands_take_such_models(weir, tmp_path):
    """A model with an operator that nobody knows is converted as ever."""
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2])
    graph = helper.make_graph([helper.make_node("Reluu", ["x"], ["y"], betta=1)], "g", [value("x")], [value("y")])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    weir("check", tmp_path / "m.onnx", code=65)
    weir("convert", tmp_path / "m.onnx", tmp_path / "o.onnx")
    weir("inspect", tmp_path / "m.onnx")


# What only follows from other nodes: nodes that cannot run with their inputs, dtypes that are none of theirs.
FOLLOWS = {
    "matmul": "g (float[2,3] x) => (float[n,m] y) { w = Constant<value_floats = [1.0, 2.0]>() y = MatMul(x, w) }",
    "add": "g (float[2,3] x, float[4] z) => (float[n,m] y) { y = Add(x, z) }",
    "concat": "g (float[2,3] x, float[3] z) => (float[n,m] y) { y = Concat<axis = 0>(x, z) }",
    "reshape": "g (float[2,3] x) => (float[n,m] y) { s = Constant<value_ints = [4, 2]>() y = Reshape(x, s) }",
    "axis": "g (float[2,3] x) => (float[n,m] y) { y = Softmax<axis = 2>(x) }",
    "index": "g (float[2,3] x) => (float[m] y) { i = Constant<value_int = 5>() y = Gather(x, i) }",
    "top": "g (float[2,3] x) => (float[n,m] y, int64[n,m] i) { k = Constant<value_ints = [7]>() y, i = TopK(x, k) }",
    "branches": "g (bool c, float[2] x) => (float[m] y) { y = If(c) <then_branch = t () => (float[2] r) { r = Relu(x) }, else_branch = e () => (int64[1] q) { q = Shape(x) }> }",
    "cast": "g (float[2,3] x) => (float[2,3] y) { y = Cast<to = 7>(x) }",
    "one type": "g (float[2,3] x) => (float[n,m] y) { s = Shape(x) k = Size(s) y = Add(x, k) }",
    "other type": "g (float[2,3] x) => (float[n,m] y) { s = Shape(x) y = Relu(x) k = Sin(s) }",
    "later": "g (float[2,3] x) => (float[n,m] y) { s = Shape(x) c = Unsqueeze(s, a) a = Constant<value_ints = [1]>() k = Not(c) y = Relu(x) }",
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_from_other_nodes(weir, tmp_path, name):
    """The runtime refuses it too, when it loads the model or runs it; with dims and types that fit it does not."""
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> {FOLLOWS[name]}')
    nodes = sorted(model.graph.node, key=lambda node: node.op_type != "Constant")
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, tmp_path / "m.onnx")
    done = weir("check", tmp_path / "m.onnx", code=65)
    assert [line.split(":")[0] for line in done.out.splitlines()[:-1]] == ["error"]
    with pytest.raises(Exception, match="."):
        session = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
        session.run(None, {each.name: np.ones([d if isinstance(d, int) else 2 for d in each.shape], TYPES_OF[each.type]) for each in session.get_inputs()})


def test_shapes_that_are_only_declared_wrong(weir, tmp_path):
    """A warning: runtimes run such models. Of a decided If only the branch counts that is taken."""
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
        g (float[2,3] x) => (float[2,4] y, float[3] z) {
            y = Relu(x)  r = Shape(x)  k = Size(r)  two = Constant<value_int = 2>()  c = Equal(k, two)
            z = If(c) <then_branch = t () => (float[q] a) { one = Constant<value_ints = [1, -1]>() w = Reshape(x, one) s = Constant<value_ints = [0]>() b = Squeeze(w, s) a = Relu(b) },
                       else_branch = e () => (float[q2] d) { n = Constant<value_ints = [7]>() d = Reshape(x, n) }>
        }""")
    onnx.save(model, tmp_path / "m.onnx")
    done = weir("check", tmp_path / "m.onnx")
    assert "warning: value 'y': a dim is declared as 4, but is 3" in done.out
    assert "0 errors" in done.out


@pytest.mark.parametrize("where", ["input", "value_info"])
def test_initializers_that_are_declared_of_another_type(weir, tmp_path, where):
    """Of the default of an input the runtime refuses it, elsewhere it overlooks it."""
    declared = helper.make_tensor_value_info("w", TensorProto.DOUBLE, [2])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
    graph = helper.make_graph([helper.make_node("Neg", ["w"], ["n"]), helper.make_node("Abs", ["x"], ["y"])], "g", inputs,
                              [helper.make_empty_tensor_value_info("y")], [numpy_helper.from_array(np.ones(2, np.float32), "w")])  # fmt: skip
    getattr(graph, where).append(declared)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "m.onnx")
    done = weir("check", tmp_path / "m.onnx", code=65 if where == "input" else 0)
    assert ("error" if where == "input" else "warning") + ": value 'w': it is declared as double, but its elements are float" in done.out
    if where == "input":
        with pytest.raises(Exception, match="Type Error"):
            ort.InferenceSession(str(tmp_path / "m.onnx"))
    else:
        ort.InferenceSession(str(tmp_path / "m.onnx"))


MADE = {"ConstantOfShape": "value", "Constant": "value", "Cast": "to", "EyeLike": "dtype", "RandomNormal": "dtype", "RandomUniformLike": "dtype", "Bernoulli": "dtype", "Multinomial": "dtype",
        "HannWindow": "output_datatype", "QuantizeLinear": "output_dtype"}


@pytest.mark.parametrize("op", MADE)
def test_types_that_attributes_say(weir, tmp_path, op):
    """No value declares them: what the operator's version makes decides."""
    words = {TensorProto.FLOAT: "float", TensorProto.BFLOAT16: "bfloat16", TensorProto.DOUBLE: "double", TensorProto.FLOAT8E4M3FN: "float8e4m3fn", TensorProto.INT64: "int64"}
    answers, path = set(), tmp_path / "m.onnx"
    for opset in (13, 15, 18, 19, 20, 21, 22, 24):
        for dtype, word in words.items():
            if not onnx.defs.has(op, opset) or MADE[op] not in onnx.defs.get_schema(op, opset).attributes:
                continue
            schema = onnx.defs.get_schema(op, opset)
            of = next(v.allowed_type_strs for v in schema.type_constraints if v.type_param_str == schema.outputs[0].type_str)
            given = helper.make_tensor("", dtype, [1], [1]) if MADE[op] == "value" else dtype
            inputs = {"ConstantOfShape": ["k"], "Constant": [], "RandomNormal": [], "HannWindow": ["n"], "QuantizeLinear": ["x", "s"], "Cast": ["x"]}.get(op, ["x"])
            node = helper.make_node(op, inputs, ["y"], **{MADE[op]: given}, **({"shape": [2]} if op == "RandomNormal" else {}))
            ins = [helper.make_tensor_value_info(*each) for each in (("x", TensorProto.FLOAT, [2, 4]), ("k", TensorProto.INT64, [1]), ("n", TensorProto.INT64, []), ("s", TensorProto.FLOAT, []))]
            graph = helper.make_graph([node], "g", ins, [helper.make_empty_tensor_value_info("y")])
            onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
            takes = f"tensor({word})" in of
            answers.add(takes)
            said = weir("check", path, code=0 if takes else 65).out
            assert takes or f"its output 'y' is {word}" in said
    assert True in answers and (op == "Constant" or False in answers)


def empty_sequence(op, **attributes):
    inputs = {"SequenceEmpty": [], "RandomNormal": [], "QuantizeLinear": ["x", "s"]}.get(op, ["x"])
    nodes = [helper.make_node(op, inputs, ["a"], **attributes), helper.make_node("SequenceLength" if op == "SequenceEmpty" else "Shape", ["a"], ["y"])]
    ins = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4]), helper.make_tensor_value_info("s", TensorProto.FLOAT, [])]
    graph = helper.make_graph(nodes, "g", ins, [helper.make_tensor_value_info("y", TensorProto.INT64, [] if op == "SequenceEmpty" else ["n"])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_sequences_whose_type_an_attribute_says(weir, tmp_path):
    """As ONNX has it for all types; without the attribute they are of float."""
    path, answers = tmp_path / "m.onnx", set()
    for dtype in (None, *(each for each in TensorProto.DataType.values() if each < 24)):
        model = empty_sequence("SequenceEmpty", **({} if dtype is None else {"dtype": dtype}))
        onnx.save(model, path)
        try:
            onnx.checker.check_model(model, full_check=True)
            good = True
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError, ValueError):
            good = False
        answers.add(good)
        said = weir("check", path, code=0 if good else 65).out
        assert good or "its output is a sequence of" in said or "its attribute 'dtype' is 0, which is not an element type" in said
    assert answers == {True, False}


@pytest.mark.parametrize("op, name", [("Cast", "to"), ("EyeLike", "dtype"), ("RandomNormal", "dtype"), ("SequenceEmpty", "dtype"), ("QuantizeLinear", "output_dtype")])
def test_attributes_that_say_no_type(weir, tmp_path, op, name):
    more = {"shape": [2]} if op == "RandomNormal" else {}
    for number in (99, -1, 2**40):
        onnx.save(empty_sequence(op, **{name: number}, **more), tmp_path / "m.onnx")
        assert f"its attribute '{name}' is {number}, which is not an element type" in weir("check", tmp_path / "m.onnx", code=65).out
    onnx.save(empty_sequence("QuantizeLinear", output_dtype=0), tmp_path / "m.onnx")  # what it means when it is left out
    weir("check", tmp_path / "m.onnx")


@pytest.mark.parametrize("between", [False, True])
def test_outputs_of_bodies_that_are_made_around_them(weir, tmp_path, between):
    """ONNX does not say that a body makes its outputs; ONNX Runtime refuses the model."""
    own = [helper.make_node("Identity", ["x"], ["own"])] if between else []
    branches = {"then_branch": helper.make_graph(own, "then", [], [helper.make_empty_tensor_value_info("own" if between else "x")]),
                "else_branch": helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "else", [], [helper.make_empty_tensor_value_info("n")])}  # fmt: skip
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], **branches)], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "m.onnx")
    assert ("warning: graph 'then': its output 'x' is a value of an enclosing graph" in weir("check", tmp_path / "m.onnx").out) == (not between)
    if not between:
        with pytest.raises(Exception, match="outer scope value"):
            ort.InferenceSession(str(tmp_path / "m.onnx"))


@pytest.mark.parametrize("where", ["graph", "body", "function", "apart", "nameless"])
def test_two_nodes_of_one_name(weir, tmp_path, where):
    """ONNX lets them; ONNX Runtime loads no graph with them, but graphs apart from each other may share a name."""
    x, b, c = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xbc")
    y, k = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]), helper.make_tensor_value_info("k", TensorProto.BOOL, [])
    name = "" if where == "nameless" else "n"
    pair = [helper.make_node("Relu", ["x"], ["r"], name=name), helper.make_node("Relu", ["r"], ["b"], name=name)]
    functions, domains, inputs = [], [], [x]
    if where in ("graph", "nameless"):
        nodes = [*pair, helper.make_node("Neg", ["b"], ["y"])]
    elif where == "function":
        functions = [helper.make_function("f", "F", ["x"], ["b"], pair, [helper.make_opsetid("", 17)])]
        nodes, domains = [helper.make_node("F", ["x"], ["y"], domain="f")], [helper.make_opsetid("f", 1)]
    else:
        then = helper.make_graph(pair if where == "body" else [helper.make_node("Relu", ["x"], ["b"], name="n")], "then", [], [b])
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["c"], name="n")], "else", [], [c])
        nodes, inputs = [helper.make_node("If", ["k"], ["y"], name="n", then_branch=then, else_branch=other)], [x, k]
    graph = helper.make_graph(nodes, "g", inputs, [y])
    path, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(helper.make_model(graph, functions=functions, opset_imports=[helper.make_opsetid("", 17), *domains], ir_version=8), path)
    said = weir("check", path).out
    if where in ("apart", "nameless"):
        assert "0 errors, 0 warnings, 0 notes" in said
        ort.InferenceSession(str(path))
        return
    assert "another node of its graph has this name: ONNX Runtime does not load such a model" in said and "1 warning," in said
    with pytest.raises(Exception, match="same node name"):
        ort.InferenceSession(str(path))
    first = ["--pass", "inline-functions"] if where == "function" else []
    assert ("--pass inline-functions" in said) == bool(first)
    weir("run", path, out, *first, "--pass", "unique-names")
    assert "0 warnings" in weir("check", out).out
    ort.InferenceSession(str(out))


# ---- com.microsoft ------------------------------------------------------------------------------------------------------


def told(weir, folder, node, outputs=None):
    """What is said of a model of one node; errors and warnings."""
    path = folder / "one.onnx"
    onnx.save(node.model(outputs), path)
    return [fault["message"] for fault in json.loads(weir("check", path, "--json", code=None).out)["faults"] if fault["level"] != "note"]


@pytest.mark.parametrize("nodes", (microsoft_nodes.NEW, microsoft_nodes.CHANGED), ids=("new", "changed"))
def test_nodes_of_the_newest_runtime_are_known(weir, tmp_path, nodes):
    assert {node.op: said for node in nodes if (said := told(weir, tmp_path, node))} == {}


def test_faults_of_nodes_of_the_newest_runtime(weir, tmp_path):
    gather = next(node for node in microsoft_nodes.NEW if node.op == "GatherPacked")
    y = lambda dtype: [microsoft_nodes.tensor("y0", f"{dtype}[a,b,64]")]  # noqa: E731
    assert told(weir, tmp_path, gather, y("bfloat16")) == []
    for faulty, outputs, said in (
        (replace(gather, attributes={"packed_type": 2}), None, "'K'"),
        (replace(gather, attributes={**gather.attributes, "bits": 4}), None, "'bits'"),
        (replace(gather, attributes={**gather.attributes, "output_dtype": 10}), y("float"), "declared as float, but is float16"),
        (replace(gather, attributes={**gather.attributes, "output_dtype": 99}), None, "99, which is not an element type"),
        (replace(gather, inputs="float[9,64] int64[a]"), None, "must be uint8"),
        (gather, y("float"), "declared as float, but is bfloat16"),
    ):
        [fault] = told(weir, tmp_path, faulty, outputs)
        assert said in fault, fault
