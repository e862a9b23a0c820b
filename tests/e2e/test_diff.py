"""weir diff: what is different in two models, against small models with one thing changed, real rewrites, and an oracle.

The oracle is slow and plain: every tensor of both models is loaded, and compared by name.
"""

import copy
import random
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import peaks
from conftest import DATA, program

pytestmark = pytest.mark.in_memory

TORCHSCRIPT = DATA / "parakeet-torchscript" / "encoder-model.onnx"
DYNAMO = DATA / "parakeet-dynamo" / "encoder-model.onnx"


def weight(name, *dims, seed=0, dtype=np.float32):
    return numpy_helper.from_array(np.random.default_rng(seed).standard_normal(dims).astype(dtype), name)


def chain():
    """x ─ MatMul(w1) ─ Add(b1) ─ Relu ─ MatMul(w2) ─ Softmax ─ y, and an If on the way."""
    then = helper.make_graph([helper.make_node("Mul", ["a3", "half"], ["t"], name="halve")], "then", [], [helper.make_tensor_value_info("t", 1, None)])
    other = helper.make_graph([helper.make_node("Neg", ["a3"], ["e"], name="negate")], "else", [], [helper.make_tensor_value_info("e", 1, None)])
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a1"], name="first"),
        helper.make_node("Add", ["a1", "b1"], ["a2"], name="bias"),
        helper.make_node("Relu", ["a2"], ["a3"], name="relu"),
        helper.make_node("If", ["flag"], ["a4"], name="choose", then_branch=then, else_branch=other),
        helper.make_node("MatMul", ["a4", "w2"], ["a5"], name="second"),
        helper.make_node("Twice", ["a5"], ["a6"], name="twice", domain="my.ops"),
        helper.make_node("Softmax", ["a6"], ["y"], name="softmax", axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", 1, ["n", 64]), helper.make_tensor_value_info("flag", 9, [])],
        [helper.make_tensor_value_info("y", 1, ["n", 32])],
        [weight("w1", 64, 48, seed=1), weight("b1", 48, seed=2), weight("w2", 48, 32, seed=3), numpy_helper.from_array(np.float32(0.5), "half")],
    )
    twice = helper.make_function(
        "my.ops", "Twice", ["u"], ["v"], [helper.make_node("Add", ["u", "u"], ["v"], name="sum")], [helper.make_opsetid("", 17)]
    )
    return helper.make_model(
        graph, functions=[twice], opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)], ir_version=9, producer_name="tests"
    )


def node_named(model, name):
    return next(node for node in model.graph.node if node.name == name)


def tensor_named(model, name):
    return next(each for each in model.graph.initializer if each.name == name)


class Pair:
    def __init__(self, weir, folder):
        self.weir, self.folder = weir, folder

    def save(self, model, name):
        path = self.folder / name
        onnx.save(model, path)
        return path

    def __call__(self, before, after, *words):
        """The document; the exit code, the text and --quiet agree with it."""
        paths = [each if isinstance(each, Path) else self.save(each, name) for each, name in ((before, "a.onnx"), (after, "b.onnx"))]
        done = self.weir("diff", *paths, "--json", *words, code=None)
        assert done.code in (0, 1), done.said
        said = done.json()
        assert done.code == (0 if said["equal"] else 1)
        text = self.weir("diff", *paths, *words, code=done.code)
        assert bool(re.search("the models (are the same|have the same structure)", text.out)) == said["equal"]
        quiet = self.weir("diff", *paths, "--quiet", *words, code=done.code)
        assert quiet.out == "" and quiet.err == ""
        return said


@pytest.fixture
def pair(weir, tmp_path):
    return Pair(weir, tmp_path)


def details(said):
    return {each["name"]: {(d["what"], d.get("name", d.get("slot"))): (d.get("was"), d.get("is")) for d in each["details"]} for each in said["nodes"]["changed"]}


def names(said, which):
    return sorted(each["name"] for each in said["nodes"][which])


def rows(said):
    return {((row["was"] or {}).get("name"), (row["is"] or {}).get("name")): (row["matched_by"], row["values"]) for row in said["tensors"]["listed"]}


def nothing_but(said, *allowed):
    """No kind of difference is told but these."""
    found = set()
    found |= {line["what"] for line in said["changes"]}
    found |= {"operators"} if said["operators"] else set()
    found |= {key for key in ("removed", "added", "changed") if said["nodes"][key]}
    found |= {"renamed_values"} if said["nodes"]["renamed_values"] else set()
    found |= {"tensors"} if said["tensors"]["listed"] else set()
    assert found == set(allowed)


# ---- the same ----------------------------------------------------------------------------------------------------------


def test_a_copy_is_equal(pair):
    said = pair(chain(), chain(), "--weights", "values")
    assert said["equal"] and said["tensors"]["same"] == 4
    nothing_but(said)


def test_the_same_file_is_not_read(weir):
    out = weir("diff", TORCHSCRIPT, TORCHSCRIPT).out
    assert "the models are the same" in out and "not read: stored at the same place of the same file" in out
    assert "\n0 bytes of weights read" in out


@pytest.mark.parametrize("model", sorted((DATA / "exports").glob("**/*.onnx"))[::4], ids=lambda path: path.stem)
def test_exports_equal_themselves(weir, tmp_path, model):
    """Also in another layout: where bytes lie is told, and is no difference."""
    weir("convert", model, tmp_path / "out.onnx", "--external", "--no-manifest")
    weir("convert", model, tmp_path / "in.onnx", "--inline", "--no-manifest")
    for out in ("out.onnx", "in.onnx"):
        assert weir("diff", model, tmp_path / out, "--json").json()["equal"]


def test_order_of_nodes_is_no_difference(pair):
    model = chain()
    model.graph.node.insert(0, helper.make_node("Neg", ["x"], ["n"], name="aside"))
    model.graph.node.append(helper.make_node("Abs", ["n"], ["unused"], name="away"))
    moved = copy.deepcopy(model)
    aside = moved.graph.node.pop(0)
    moved.graph.node.insert(3, aside)
    said = pair(model, moved)
    assert said["equal"] and said["nodes"]["moved"] == 1


def test_external_and_inline(pair, tmp_path):
    model = chain()
    path = tmp_path / "outside" / "b.onnx"
    path.parent.mkdir()
    onnx.save(model, path, save_as_external_data=True, size_threshold=0, location="b.data")
    said = pair(chain(), path)
    assert said["equal"]
    assert {(each["was"]["external"], each["is"]["external"]) for each in said["tensors"]["listed"]} == {(False, True)}
    assert "moved from inside the .onnx to data files" in pair.weir("diff", tmp_path / "a.onnx", path).out
    assert "moved from data files into the .onnx" in pair.weir("diff", path, tmp_path / "a.onnx").out


def test_typed_fields_and_raw_data_are_the_same(pair):
    model, other = chain(), chain()
    w = tensor_named(other, "w1")
    values = numpy_helper.to_array(w).ravel().tolist()
    w.ClearField("raw_data")
    w.float_data.extend(values)
    assert pair(model, other)["equal"]


# ---- small things that count --------------------------------------------------------------------------------------------


def with_a_constant():
    """x + a Constant, through a function; two branches with a sparse initializer of one name."""

    def branch(name, value):
        sparse = helper.make_sparse_tensor(numpy_helper.from_array(np.array([value, 2], np.float32), "s"), numpy_helper.from_array(np.array([0, 2]), "s_i"), [3])
        return helper.make_graph([helper.make_node("Identity", ["s"], [name])], name, [], [helper.make_tensor_value_info(name, 1, [3])], sparse_initializer=[sparse])

    nodes = [
        helper.make_node("Constant", [], ["c"], "constant", value=numpy_helper.from_array(np.arange(3, dtype=np.float32))),
        helper.make_node("Own", ["x", "c"], ["t"], "own", domain="own"),
        helper.make_node("If", ["flag"], ["u"], "if", then_branch=branch("a", 1), else_branch=branch("b", 3)),
        helper.make_node("Add", ["t", "u"], ["y"], "add"),
    ]
    own = helper.make_function("own", "Own", ["p", "q"], ["r"], [helper.make_node("Mul", ["p", "q"], ["r"])], [helper.make_opsetid("", 17)])
    inputs = [helper.make_tensor_value_info("x", 1, [3]), helper.make_tensor_value_info("flag", 9, [])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, [3])])
    return helper.make_model(graph, functions=[own], opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)], ir_version=10)


def metadata(*entries):
    def change(model):
        for key, text in entries:
            model.metadata_props.add(key=key, value=text)

    return change


def no_change(model):
    del model


def with_dims(*dims):
    return lambda model: model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", 1, dims))


def noted(place):
    """Says of a dim of a value what it is."""

    def change(model):
        info = helper.make_tensor_value_info("t", 1, [3, 3])
        info.type.tensor_type.shape.dim[place].denotation = "DATA_BATCH"
        model.graph.value_info.append(info)

    return change


def sequence(denotation, of=1):
    info = helper.make_value_info("t", helper.make_sequence_type_proto(helper.make_tensor_type_proto(of, [3])))
    if denotation:
        info.type.sequence_type.elem_type.denotation = denotation
    return info


def declared(text=""):
    return lambda model: model.graph.value_info.append(helper.make_tensor_value_info("t", 1, [3], doc_string=text))


def twice(dims, text="", times=1):
    again = helper.make_tensor_value_info("t", 1, dims, doc_string=text)
    return lambda model: [model.graph.value_info.append(each) for each in (helper.make_tensor_value_info("t", 1, [3]), *[again] * times)]


def ghosts(*all_names):
    return lambda model: model.graph.value_info.extend(helper.make_tensor_value_info(each, 1, [3]) for each in all_names)


# Two changes of the model, which make it two models; and what is told of them.
SMALL_THINGS = {
    "a key twice": (metadata(("k", "v")), metadata(("k", "x"), ("k", "v")), ("metadata", "k")),
    "a key twice, in the first": (metadata(("k", "v"), ("k", "x")), metadata(("k", "v")), ("metadata", "k")),
    "keys in another order": (metadata(("k", "v"), ("l", "w")), metadata(("l", "w"), ("k", "v")), None),
    "a value after a NUL": (metadata(("k", "v\0w")), metadata(("k", "v\0x")), ("metadata", "k")),
    "an opset twice": (no_change, lambda model: model.opset_import.append(helper.make_opsetid("", 21)), ("opset", "ai.onnx")),
    "an opset twice, of a function": (no_change, lambda model: model.functions[0].opset_import.append(helper.make_opsetid("", 21)), ("opset", "ai.onnx (function own.Own)")),
    "an unknown field of an import": (no_change, lambda model: model.opset_import[0].MergeFromString(b"\xa2\x1f\x01x"), ("opset", "ai.onnx")),
    "an attribute of a Constant": (no_change, lambda model: model.graph.node[0].attribute.append(helper.make_attribute("extra", 5)), ("attribute", "extra")),
    "a text of a Constant's attribute": (no_change, lambda model: setattr(model.graph.node[0].attribute[0], "doc_string", "another"), ("attribute", "value")),
    "a name of a dim that is a number": (no_change, with_dims("3"), ("input", "x")),
    "a name of a dim with a comma": (with_dims("a", "b"), with_dims("a,b"), ("input", "x")),
    "a name of a dim that is a question mark": (with_dims(None), with_dims("?"), ("input", "x")),
    "a dim below 0": (with_dims(None), with_dims(-1), ("input", "x")),
    "a denotation of a type": (no_change, lambda model: setattr(model.graph.input[0].type, "denotation", "IMAGE"), ("input", "x")),
    "a denotation of a dim": (no_change, lambda model: setattr(model.graph.output[0].type.tensor_type.shape.dim[0], "denotation", "DATA_BATCH"), ("output", "y")),
    "a denotation of another dim": (noted(0), noted(1), ("value_info", "t")),
    "a denotation in a sequence": (lambda model: model.graph.value_info.append(sequence("")), lambda model: model.graph.value_info.append(sequence("IMAGE")), ("value_info", "t")),
    "a type that nobody knows in a sequence": (lambda model: model.graph.value_info.append(sequence("", 98)), lambda model: model.graph.value_info.append(sequence("", 99)), ("value_info", "t")),
    "a text of an input": (no_change, lambda model: setattr(model.graph.input[0], "doc_string", "another"), ("input", "x")),
    "metadata of an output": (no_change, lambda model: model.graph.output[0].metadata_props.add(key="k", value="v"), ("output", "y")),
    "a range of an input": (no_change, lambda model: model.graph.input[0].metadata_props.add(key="range", value="[0, 1]"), ("input", "x")),
    "a text of a value": (declared(), declared("another"), ("value_info", "t")),
    "a value twice": (declared(), twice([5]), ("value_info", "t")),
    "a value twice, with another type": (twice([5]), twice([6]), ("value_info", "t")),
    "a value twice, with another text": (twice([5]), twice([5], "another"), ("value_info", "t")),
    "a value three times": (twice([5]), twice([5], times=2), ("value_info", "t")),
    "a value that nothing makes": (no_change, lambda model: model.graph.value_info.append(helper.make_tensor_value_info("ghost", 1, [3])), ("value_info", "values that no node produces")),
    "another value that nothing makes": (ghosts("p", "q"), ghosts("p", "r"), ("value_info", "values that no node produces")),
    "such values in another order": (ghosts("p", "q"), ghosts("q", "p"), None),
    "one of several sparse ones": (no_change, lambda model: model.graph.node[2].attribute[1].g.sparse_initializer[0].values.CopyFrom(numpy_helper.from_array(np.array([4, 2], np.float32), "s")), ("tensor", "s")),
}  # fmt: skip


@pytest.mark.parametrize("thing", SMALL_THINGS)
def test_small_things(pair, thing):
    before, after, told = SMALL_THINGS[thing]
    a, b = with_a_constant(), with_a_constant()
    before(a), after(b)
    for first, second in ((a, b), (b, a)):
        said = pair(first, second)
        found = {(line["what"], line["name"]) for line in said["changes"]}
        found |= {(d["what"], d["name"]) for node in said["nodes"]["changed"] for d in node["details"]}
        found |= {("tensor", row["was"]["name"]) for row in said["tensors"]["listed"] if row["was"]}
        assert found == ({told} if told else set()) and said["equal"] == (told is None)
    assert pair(a, a)["equal"] and pair(b, b)["equal"]


# ---- one thing changed -------------------------------------------------------------------------------------------------


def test_attribute(pair):
    other = chain()
    node_named(other, "softmax").attribute[0].i = 0
    said = pair(chain(), other)
    assert details(said) == {"softmax": {("attribute", "axis"): ("-1", "0")}}
    nothing_but(said, "changed")


def test_attribute_added_and_removed(pair):
    other = chain()
    del node_named(other, "softmax").attribute[:]
    assert details(pair(chain(), other)) == {"softmax": {("attribute", "axis"): ("-1", None)}}
    assert details(pair(other, chain())) == {"softmax": {("attribute", "axis"): (None, "-1")}}


def test_operator(pair):
    other = chain()
    node_named(other, "relu").op_type = "Tanh"
    said = pair(chain(), other)
    assert details(said) == {"relu": {("operator", None): ("Relu", "Tanh")}}
    assert said["operators"] == [{"op": "Relu", "was": 1, "is": 0}, {"op": "Tanh", "was": 0, "is": 1}]
    nothing_but(said, "changed", "operators")


def test_rewired(pair):
    model, other = chain(), chain()
    for each in (model, other):
        each.graph.node.insert(3, helper.make_node("Sigmoid", ["a2"], ["s"], name="sigmoid"))
        each.graph.node.insert(4, helper.make_node("Mul", ["a3", "s"], ["m"], name="mul"))
    node_named(other, "mul").input[1] = "a2"
    said = pair(model, other)
    assert details(said) == {"mul": {("input", 1): ("s", "a2")}}
    nothing_but(said, "changed")


def test_swapped_inputs(pair):
    model, other = chain(), chain()
    for each in (model, other):
        each.graph.node.insert(3, helper.make_node("Sub", ["a3", "a2"], ["d"], name="sub"))
    node_named(other, "sub").input[:] = ["a2", "a3"]
    assert details(pair(model, other)) == {"sub": {("input", 0): ("a3", "a2"), ("input", 1): ("a2", "a3")}}


def test_node_added_in_between(pair):
    other = chain()
    other.graph.node.insert(2, helper.make_node("Dropout", ["a2"], ["kept"], name="dropout"))
    node_named(other, "relu").input[0] = "kept"
    said = pair(chain(), other)
    assert names(said, "added") == ["dropout"] and names(said, "removed") == []
    assert details(said) == {"relu": {("input", 0): ("a2", "kept")}}
    back = pair(other, chain())
    assert names(back, "removed") == ["dropout"]


def test_body_of_an_if(pair):
    other = chain()
    then = next(a for a in node_named(other, "choose").attribute if a.name == "then_branch").g
    then.node[0].op_type = "Add"
    said = pair(chain(), other)
    assert details(said) == {"halve": {("operator", None): ("Mul", "Add")}}
    assert said["nodes"]["changed"][0]["graph"] == "then_branch of choose"


def test_function(pair):
    other = chain()
    other.functions[0].node[0].op_type = "Mul"
    said = pair(chain(), other)
    assert details(said) == {"sum": {("operator", None): ("Add", "Mul")}}
    assert said["nodes"]["changed"][0]["graph"] == "function Twice"
    other.functions[0].name = node_named(other, "twice").op_type = "Thrice"
    said = pair(chain(), other)
    assert [(line["name"], line["was"], line["is"]) for line in said["changes"]] == [
        ("my.ops.Twice", "1 node", None), ("my.ops.Thrice", None, "1 node")]


def test_versions_metadata_inputs(pair):
    other = chain()
    other.ir_version = 10
    other.producer_name = "others"
    other.opset_import[0].version = 18
    helper.set_model_props(other, {"key": "value"})
    other.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    other.graph.input.append(helper.make_tensor_value_info("more", 7, [3]))
    said = pair(chain(), other)
    found = {(line["what"], line["name"]): (line["was"], line["is"]) for line in said["changes"]}
    assert found == {
        ("ir_version", ""): ("9", "10"),
        ("producer_name", ""): ("tests", "others"),
        ("opset", "ai.onnx"): ("17", "18"),
        ("metadata", "key"): (None, "value"),
        ("input", "x"): ("float[n,64]", "float[batch,64]"),
        ("input", "more"): (None, "int64[3]"),
    }
    assert not said["nodes"]["changed"] and not said["tensors"]["listed"]


def test_doc_strings(pair):
    other = chain()
    node_named(other, "relu").doc_string = "for people"
    assert details(pair(chain(), other)) == {"relu": {("other fields", None): (None, None)}}
    other = chain()
    other.graph.doc_string = "for people"
    assert [line["what"] for line in pair(chain(), other)["changes"]] == ["graph"]


def test_value_info(pair):
    other = chain()
    other.graph.value_info.append(helper.make_tensor_value_info("a1", 1, ["n", 48]))
    said = pair(chain(), other)
    assert said["changes"] == [{"what": "value_info", "name": "a1", "was": None, "is": "float[n,48]"}]


# ---- names dropped, renamed, renumbered --------------------------------------------------------------------------------


def renamed(model, new_name, weights=True):
    """Another name for every node and every value between nodes."""
    model = copy.deepcopy(model)
    kept = {each.name for each in [*model.graph.input, *model.graph.output]}
    if not weights:
        kept |= {each.name for each in model.graph.initializer}
    table = {}

    def of(name):
        return name if not name or name in kept else table.setdefault(name, new_name(name))

    def walk(graph):
        for node in graph.node:
            node.name = new_name(node.name) if node.name else ""
            node.input[:] = [of(each) for each in node.input]
            node.output[:] = [of(each) for each in node.output]
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    walk(attribute.g)
        for each in graph.initializer:
            each.name = of(each.name)
        if graph is not model.graph:
            for each in graph.output:
                each.name = of(each.name)
        del graph.value_info[:]

    walk(model.graph)
    return model


@pytest.mark.parametrize("source", [chain(), onnx.load(TORCHSCRIPT)], ids=["chain", "encoder"])
def test_all_names_changed(pair, source):
    """Every node and tensor has its twin, by what it is: nothing is added, removed or rewired."""
    source = copy.deepcopy(source)
    del source.graph.value_info[:]
    numbers = iter(range(1_000_000))
    other = renamed(source, lambda name: f"n{next(numbers)}")
    said = pair(source, other)
    assert not said["equal"] and not said["nodes"]["added"] and not said["nodes"]["removed"]
    assert {d["what"] for each in said["nodes"]["changed"] for d in each["details"]} <= {"name"}
    assert all(row["values"] == "same" and row["was"] and row["is"] for row in said["tensors"]["listed"])


def test_names_dropped(pair):
    source = chain()
    other = renamed(source, lambda name: name + "_")
    for node in other.graph.node:
        node.name = ""
    node_named_softmax = other.graph.node[-1]
    node_named_softmax.attribute[0].i = 0
    said = pair(source, other)
    assert not said["nodes"]["added"] and not said["nodes"]["removed"]
    assert details(said)["softmax"][("attribute", "axis")] == ("-1", "0")


def numbered(model):
    """As exporters number: each node by its place and operator, each value by its place."""
    model = copy.deepcopy(model)
    table = {}
    for i, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}_{i}"
        for k, name in enumerate(node.output):
            table[name] = name if name == "y" else f"{100 + i}_{k}"
        node.input[:] = [table.get(name, name) for name in node.input]
        node.output[:] = [table[name] for name in node.output]
    return model


def test_renumbered(pair):
    """Behind a node that went, every name is that of another node: they are not believed."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["v0"])]
    for i in range(40):
        nodes.append(helper.make_node("Add" if i % 3 else "Mul", [f"v{i}", "c"], [f"v{i + 1}"]))
    nodes.append(helper.make_node("Relu", ["v40"], ["y"]))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [1, 8])], [helper.make_tensor_value_info("y", 1, [1, 8])], [weight("w", 8, 8), weight("c", 8, seed=1)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    other = copy.deepcopy(model)
    gone = other.graph.node.pop(20)
    other.graph.node[20].input[0] = gone.input[0]
    said = pair(numbered(model), numbered(other))
    assert len(said["nodes"]["removed"]) == 1 and not said["nodes"]["added"]
    rewired = [each for each in said["nodes"]["changed"] if {d["what"] for d in each["details"]} - {"name"}]
    assert len(rewired) == 1


# ---- tensors -----------------------------------------------------------------------------------------------------------


def changed_tensor(model, name, at, by):
    t = tensor_named(model, name)
    values = numpy_helper.to_array(t).copy()
    values.ravel()[at] += np.float32(by)
    t.CopyFrom(numpy_helper.from_array(values, name))
    return model


def test_one_element(pair):
    model, other = chain(), changed_tensor(chain(), "w1", 1000, 0.5)
    said = pair(model, other)
    assert rows(said) == {("w1", "w1"): ("name", "differs")} and "figures" not in said["tensors"]["listed"][0]
    said = pair(model, other, "--weights", "values")
    [row] = said["tensors"]["listed"]
    a, b = (numpy_helper.to_array(tensor_named(each, "w1")).astype(np.float64).ravel() for each in (model, other))
    f = row["figures"]
    assert (f["differing"], f["elements"], f["first"]) == (1, 3072, 1000)
    assert f["max_abs_error"] == np.abs(a - b).max()
    assert f["mean_abs_error"] == pytest.approx(np.abs(a - b).mean(), rel=1e-12)
    assert f["sqnr_db"] == pytest.approx(10 * np.log10((a * a).sum() / ((a - b) ** 2).sum()), rel=1e-9)
    assert f["cosine"] == pytest.approx((a @ b) / np.sqrt((a @ a) * (b @ b)), rel=1e-9)


def test_weights_none(pair):
    """Large weights are not looked at; what is at hand with the metadata is."""
    said = pair(chain(), changed_tensor(chain(), "w1", 5, 1), "--weights", "none")
    assert said["equal"] and {row["values"] for row in said["tensors"]["listed"]} == {"not compared"}
    assert "weights were not compared" in pair.weir("diff", pair.folder / "a.onnx", pair.folder / "b.onnx", "--weights", "none").out
    said = pair(chain(), changed_tensor(chain(), "b1", 5, 1), "--weights", "none")
    assert rows(said)[("b1", "b1")] == ("name", "differs")


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0])
def test_special_values(pair, special):
    model, other = chain(), chain()
    for each in (model, other):
        values = numpy_helper.to_array(tensor_named(each, "w1")).copy()
        values.ravel()[7] = special
        tensor_named(each, "w1").CopyFrom(numpy_helper.from_array(values, "w1"))
    assert pair(model, other, "--weights", "values")["equal"]
    said = pair(model, chain(), "--weights", "values")
    [row] = said["tensors"]["listed"]
    assert row["figures"]["first"] == 7 and row["figures"]["nonfinite"] == (not np.isfinite(special))


def test_dtype_and_dims(pair):
    other = chain()
    values = numpy_helper.to_array(tensor_named(other, "w1"))
    tensor_named(other, "w1").CopyFrom(numpy_helper.from_array(values.astype(np.float16), "w1"))
    tensor_named(other, "b1").dims[:] = [1, 48]
    said = pair(chain(), other, "--weights", "values")
    listed = {row["was"]["name"]: row for row in said["tensors"]["listed"]}
    assert (listed["w1"]["was"]["dtype"], listed["w1"]["is"]["dtype"]) == ("float", "float16")
    error = np.abs(values.astype(np.float64) - values.astype(np.float16).astype(np.float64))
    assert listed["w1"]["figures"]["max_abs_error"] == error.max()
    assert (listed["b1"]["is"]["dims"], listed["b1"]["values"]) == ([1, 48], "same")


def test_renamed_and_transposed(pair):
    """By content: the nodes around them are different ones."""
    model, other = chain(), chain()
    first, second = node_named(other, "first"), node_named(other, "second")
    w1 = numpy_helper.to_array(tensor_named(other, "w1"))
    tensor_named(other, "w1").CopyFrom(numpy_helper.from_array(np.ascontiguousarray(w1.T), "turned"))
    first.op_type, first.name = "Gemm", "product"
    first.input[:] = ["x", "turned"]
    first.output[:] = ["p"]
    first.attribute.append(helper.make_attribute("transB", 1))
    node_named(other, "bias").input[0] = "p"
    tensor_named(other, "w2").name = second.input[1] = "other"
    said = pair(model, other)
    found = rows(said)
    assert found[("w2", "other")][1] == "same"
    assert found[("w1", "turned")][0] in ("transposed", "recast")
    if found[("w1", "turned")][0] == "recast":
        said = pair(model, other, "--weights", "values")
        assert [row["figures"]["differing"] for row in said["tensors"]["listed"] if row["matched_by"] == "recast"] == [0]


def test_constant_becomes_an_initializer(pair):
    model, other = chain(), chain()
    t = tensor_named(model, "b1")
    model.graph.node.insert(0, helper.make_node("Constant", [], ["b1"], name="constant", value=t))
    model.graph.initializer.remove(t)
    said = pair(model, other)
    assert rows(said) == {} or rows(said) == {("b1", "b1"): ("name", "same")}
    assert not said["equal"] and not said["nodes"]["changed"]
    assert "a Constant node -> an initializer" in pair.weir("diff", pair.folder / "a.onnx", pair.folder / "b.onnx", code=1).out


def test_strings(pair):
    model, other = chain(), chain()
    for each, words in ((model, ["a", "bc"]), (other, ["a", "bd"])):
        each.graph.initializer.append(helper.make_tensor("labels", TensorProto.STRING, [2], [word.encode() for word in words]))
    assert rows(pair(model, other)) == {("labels", "labels"): ("name", "differs")}
    assert pair(model, copy.deepcopy(model))["equal"]


def test_random_pairs_against_the_oracle(pair):
    """Tensors of many dtypes, some changed, added, removed: by name as numpy sees them."""
    dtypes = [np.float32, np.float16, np.float64, np.int8, np.uint8, np.int64, np.int32, np.bool_]
    for seed in range(12):
        rng = random.Random(seed)
        noise = np.random.default_rng(seed)
        both = [[], []]
        expected = {}
        for i in range(rng.randrange(1, 30)):
            name = f"t{i}"
            dims = [rng.randrange(1, 40) for _ in range(rng.randrange(0, 4))]
            a = (noise.standard_normal(dims) * 50).astype(rng.choice(dtypes))
            what = rng.choice(["same", "same", "element", "dtype", "removed", "added"])
            b = a.copy()
            if what == "element":
                k = rng.randrange(a.size)
                b = b.ravel()
                b[k] = not b[k] if b.dtype == np.bool_ else b[k] + 1
                b = b.reshape(a.shape)
            elif what == "dtype":
                b = a.astype(np.float32 if a.dtype != np.float32 else np.float64)
            if what != "added":
                both[0].append(numpy_helper.from_array(a, name))
            if what != "removed":
                both[1].append(numpy_helper.from_array(b, name))
            differs = what in ("removed", "added") or a.dtype != b.dtype or a.tobytes() != b.tobytes()
            if differs:
                expected[name] = what
        models = []
        for tensors in both:
            model = chain()
            model.graph.initializer.extend(tensors)
            models.append(model)
        said = pair(*models, "--weights", rng.choice(["digest", "values"]))
        named = [row for row in said["tensors"]["listed"] if row["matched_by"] == "name"]
        found = {row["was"]["name"] for row in named if row["values"] != "same" or row["was"]["dtype"] != row["is"]["dtype"]}
        assert found == {name for name, what in expected.items() if what in ("element", "dtype")}, seed
        # A removed and an added one may be each other's by content: both or neither are alone then.
        gone = {row["was"]["name"] for row in said["tensors"]["listed"] if row["was"] and row["matched_by"] != "name"}
        assert gone == {name for name, what in expected.items() if what == "removed"}, seed


# ---- real rewrites -----------------------------------------------------------------------------------------------------


def dequantized(model, node):
    """What MatMulNBits computes with, as numpy: [K, N]."""
    attributes = {a.name: a.i for a in node.attribute}
    k, n, bits, block = (attributes[name] for name in ("K", "N", "bits", "block_size"))
    tensors = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    blocks = -(-k // block)
    per = 8 // bits
    mask = (1 << bits) - 1

    def unpacked(bytes_, columns):
        rows_ = bytes_.reshape(n, -1)
        return np.stack([(rows_ >> (bits * i)) & mask for i in range(per)], -1).reshape(n, -1)[:, :columns]

    codes = unpacked(tensors[node.input[1]], blocks * block).reshape(n, blocks, block).astype(np.float64)
    scales = tensors[node.input[2]].reshape(n, blocks, 1).astype(np.float64)
    zeros = 1 << (bits - 1)
    if len(node.input) > 3 and node.input[3]:
        z = tensors[node.input[3]]
        zeros = (unpacked(z, blocks) if z.dtype == np.uint8 else z).reshape(n, blocks, 1).astype(np.float64)
    return ((codes - zeros) * scales).reshape(n, -1)[:, :k].T


@pytest.mark.parametrize(
    "options", [["--block-size", "32"], ["--bits", "8", "--symmetric", "--block-size", "64"], ["--bits", "2", "--block-size", "16"], ["--algorithm", "hqq", "--block-size", "32"]], ids=" ".join
)
def test_quantized_weights(weir, tmp_path, options):
    out = tmp_path / "q.onnx"
    weir("quantize", TORCHSCRIPT, out, *options)
    said = weir("diff", TORCHSCRIPT, out, "--weights", "values", "--json", code=1).json()
    source, result = onnx.load(TORCHSCRIPT), onnx.load(out)
    floats = {each.name: numpy_helper.to_array(each) for each in source.graph.initializer}
    made = {node.input[1]: node for node in result.graph.node if node.op_type == "MatMulNBits"}
    recast = [row for row in said["tensors"]["listed"] if row["matched_by"] == "recast"]
    assert len(recast) == len(made) == 19 and len(said["tensors"]["listed"]) == 19
    for row in recast:
        w = floats[row["was"]["name"]].astype(np.float64)
        e = w - dequantized(result, made[row["is"]["name"]])
        assert row["figures"]["max_abs_error"] == pytest.approx(np.abs(e).max(), rel=1e-5)
        assert row["figures"]["sqnr_db"] == pytest.approx(10 * np.log10((w * w).sum() / (e * e).sum()), abs=1e-3)
        assert "MatMulNBits" in row["is"]["form"] and row["is"]["parts"][0] == row["is"]["name"]
    assert not said["nodes"]["added"] and not said["nodes"]["removed"] and len(said["nodes"]["changed"]) == 19
    # The same from the other side, and of two that are quantized.
    back = weir("diff", out, TORCHSCRIPT, "--weights", "values", "--json", code=1).json()
    assert sum(row["matched_by"] == "recast" for row in back["tensors"]["listed"]) == 19
    again = tmp_path / "again.onnx"
    weir("quantize", TORCHSCRIPT, again, "--bits", "8", "--block-size", "128")
    both = weir("diff", out, again, "--weights", "values", "--json", code=1).json()
    assert sum(row["matched_by"] == "recast" and "figures" in row for row in both["tensors"]["listed"]) == 19


def test_figures_are_those_of_the_quantizer(weir, tmp_path):
    """What quantize reports of its errors is what diff finds in the files."""
    report = weir.report("quantize", DYNAMO, tmp_path / "q.onnx", "--block-size", "64")
    said = weir("diff", DYNAMO, tmp_path / "q.onnx", "--weights", "values", "--json", code=1).json()
    found = {row["was"]["name"]: row["figures"]["sqnr_db"] for row in said["tensors"]["listed"] if row["matched_by"] == "recast"}
    told = {each["name"]: each["error"]["sqnr_db"] for each in report["passes"][0]["tensors"]}
    assert len(told) == 19 and set(told) == set(found)
    for name, db in told.items():
        assert found[name] == pytest.approx(db, abs=1e-3)


def test_qdq(weir, tmp_path):
    out = tmp_path / "q.onnx"
    weir("quantize", DYNAMO, out, "--format", "qdq", "--block-size", "32")
    said = weir("diff", DYNAMO, out, "--weights", "values", "--json", code=1).json()
    recast = [row for row in said["tensors"]["listed"] if row["matched_by"] == "recast"]
    assert recast and all("DequantizeLinear" in row["is"]["form"] for row in recast)
    assert all(15 < row["figures"]["sqnr_db"] < 40 for row in recast)
    assert not [row for row in said["tensors"]["listed"] if row["matched_by"] == "alone"]


def test_conv2matmul(weir, tmp_path):
    weir("conv2matmul", TORCHSCRIPT, tmp_path / "c.onnx")
    said = weir("diff", TORCHSCRIPT, tmp_path / "c.onnx", "--json", code=1).json()
    assert {row["matched_by"] for row in said["tensors"]["listed"]} == {"transposed"}
    assert len(said["tensors"]["listed"]) == 6
    assert sorted(each["op"] for each in said["nodes"]["removed"]) == ["Conv"] * 6 + ["Transpose"] * 4
    # With one element of one of them changed it is no transpose any more: it is on one side only.
    model = onnx.load(tmp_path / "c.onnx")
    name = said["tensors"]["listed"][0]["is"]["name"]
    onnx.save(changed_tensor(model, name, 3, 1), tmp_path / "d.onnx")
    said = weir("diff", TORCHSCRIPT, tmp_path / "d.onnx", "--json", code=1).json()
    assert sorted(row["matched_by"] for row in said["tensors"]["listed"] if row["matched_by"] != "name") in (
        ["alone", "alone"] + ["transposed"] * 5, ["place"] + ["transposed"] * 5)


def test_conv2matmul_and_quantize(weir, tmp_path):
    """A pointwise kernel that became codes is found by the name of its node."""
    weir("run", TORCHSCRIPT, tmp_path / "q.onnx", "--pass", "conv2matmul", "--pass", "quantize:block_size=16")
    said = weir("diff", TORCHSCRIPT, tmp_path / "q.onnx", "--weights", "values", "--json", code=1).json()
    recast = {row["was"]["name"]: row for row in said["tensors"]["listed"] if row["matched_by"] == "recast"}
    assert len(recast) == 25 and all(12 < row["figures"]["sqnr_db"] < 40 for row in recast.values())
    assert sum(name.endswith("weight") for name in recast) == 6


def test_cast(weir, tmp_path):
    weir("cast", TORCHSCRIPT, tmp_path / "h.onnx", "--to", "float16")
    said = weir("diff", TORCHSCRIPT, tmp_path / "h.onnx", "--weights", "values", "--json", code=1).json()
    assert not said["nodes"]["changed"] and not said["nodes"]["removed"]
    assert {each["op"] for each in said["nodes"]["added"]} == {"Cast"}
    recast = [row for row in said["tensors"]["listed"] if row["matched_by"] == "recast"]
    assert len(recast) == 27 and all(row["figures"]["sqnr_db"] > 60 for row in recast)


def test_shrink(weir, tmp_path):
    weir("shrink", TORCHSCRIPT, "-o", tmp_path / "s.onnx", "--min-elements", "1024")
    said = weir("diff", TORCHSCRIPT, tmp_path / "s.onnx", "--weights", "values", "--json", code=1).json()
    recast = [row for row in said["tensors"]["listed"] if row["matched_by"] == "recast"]
    assert recast and all(row["figures"]["sqnr_db"] > 30 for row in recast)
    assert not [row for row in said["tensors"]["listed"] if row["was"] and row["matched_by"] == "alone"]


def test_optimize(weir, tmp_path):
    """What is left has its twin: few nodes are new, and no weight is lost but merged ones."""
    weir("optimize", TORCHSCRIPT, tmp_path / "o.onnx")
    said = weir("diff", TORCHSCRIPT, tmp_path / "o.onnx", "--json", code=1).json()
    assert len(said["nodes"]["added"]) <= 10 and said["second"]["nodes"] < said["first"]["nodes"]
    counts = {each["op"]: (each["was"], each["is"]) for each in said["operators"]}
    for side, path in enumerate((TORCHSCRIPT, tmp_path / "o.onnx")):
        model = onnx.load(path, load_external_data=False)
        assert counts["Identity"][side] == sum(node.op_type == "Identity" for node in model.graph.node)


# ---- manifests ---------------------------------------------------------------------------------------------------------


def test_trusted_manifests(weir, tmp_path):
    a, b = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for out in (a, b):
        weir("convert", TORCHSCRIPT, out, "--external", "--tensor-digests")
    said = weir("diff", a, b, "--trust-manifests", "--json").json()
    assert said["equal"] and said["tensors"]["by_manifests"] > 10
    out = weir("diff", a, b, "--trust-manifests").out
    assert "compared by the digests of their manifests, not read" in out and "\n0 bytes of weights read" in out
    # Trust is trust: a byte that changed since is not seen, and is where weights are read.
    data = tmp_path / "b.onnx.data"
    bytes_ = bytearray(data.read_bytes())
    bytes_[40000] ^= 1
    data.write_bytes(bytes_)
    assert weir("diff", a, b, "--trust-manifests", "--json").json()["equal"]
    assert not weir("diff", a, b, "--json", code=1).json()["equal"]
    # A companion that is not the manifest's is not used, and that is said.
    companion = tmp_path / "b.onnx.tensors.jsonl"
    companion.write_text(companion.read_text().replace("float", "flaot", 1))
    done = weir("diff", a, b, "--trust-manifests", code=1)
    assert "since it cannot use the digests of its manifest: its SHA-256 is not the one in the manifest" in done.err


def test_trusted_manifests_say_what_differs(weir, tmp_path):
    a, b = tmp_path / "a.onnx", tmp_path / "b.onnx"
    weir("convert", TORCHSCRIPT, a, "--external", "--tensor-digests")
    model = onnx.load(TORCHSCRIPT)
    onnx.save(changed_tensor(model, "onnx::MatMul_805", 9, 1), tmp_path / "c.onnx")
    weir("convert", tmp_path / "c.onnx", b, "--external", "--tensor-digests")
    said = weir("diff", a, b, "--trust-manifests", "--json", code=1).json()
    [row] = said["tensors"]["listed"]
    assert row["was"]["name"] == "onnx::MatMul_805" and row["by_manifest"] and row["values"] == "differs"


# ---- bad input, hostile names ------------------------------------------------------------------------------------------


def test_bad_input(weir, tmp_path):
    good = tmp_path / "good.onnx"
    onnx.save(chain(), good)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(good.read_bytes()[:-100])
    for words in ([good, broken], [broken, good]):
        weir("diff", *words, code=65)
    for words in ([good, tmp_path / "nothere.onnx"], [tmp_path / "nothere.onnx", good]):
        assert "nothere.onnx" in weir("diff", *words, code=66).err
    weir("diff", good, code=2)
    weir("diff", good, good, "--memory", "1K", code=2)


def test_missing_data(weir, tmp_path):
    """66 with a hint; the structure can be compared without it."""
    shutil.copytree(TORCHSCRIPT.parent, tmp_path / "m")
    path = tmp_path / "m" / TORCHSCRIPT.name
    (tmp_path / "m" / "onnx__MatMul_805").unlink()
    done = weir("diff", TORCHSCRIPT, path, code=66)
    assert "--weights none compares the structure" in done.err
    said = weir("diff", TORCHSCRIPT, path, "--weights", "none", "--json").json()
    assert said["equal"] and said["second"]["missing_data"] and not said["first"]["missing_data"]


def test_hostile_names(pair):
    evil = "\x1b[31m\u202ered\n\"quoted\""
    model, other = chain(), chain()
    for each in (model, other):
        node_named(each, "relu").name = evil
        each.graph.initializer.append(weight(evil, 4, 4))
    next(n for n in other.graph.node if n.op_type == "Relu").op_type = evil
    helper.set_model_props(other, {evil: evil})
    changed_tensor(other, evil, 0, 1)
    said = pair(model, other)
    assert {line["name"] for line in said["changes"]} == {evil}
    text = pair.weir("diff", pair.folder / "a.onnx", pair.folder / "b.onnx", code=1).out
    assert "\x1b" not in text and "\u202e" not in text


ODD = [0, 1, 3, 8, 33, -1, -2, 1 << 31, (1 << 31) - 1, 1 << 62, -(1 << 63), (1 << 63) - 1]


def odd_model(rng):
    """A product with a weight in one of the forms that diff looks behind, with odd attributes and dims."""

    def array(name, *dims, dtype=np.float32):
        return numpy_helper.from_array((np.random.default_rng(rng.randrange(99)).standard_normal(dims) * 9).astype(dtype), name)

    def odd(**given):
        return {key: rng.choice(ODD) if rng.random() < 0.25 else value for key, value in given.items()}

    k, n, block, bits = rng.choice([16, 33, 64]), rng.choice([1, 16, 33]), rng.choice([16, 32]), rng.choice([2, 4, 8])
    blocks = -(-k // block)
    form = rng.choice(["plain", "nbits", "gather", "chain", "chain", "conv", "gemm"])
    if form == "nbits":
        weights = [array("w_Q4", n, blocks, block * bits // 8, dtype=np.uint8), array("s", n * blocks + rng.choice([0, 0, 1]))]
        weights += rng.choice([[], [array("z", n * -(-blocks * bits // 8), dtype=np.uint8)], [array("z", n * blocks)]])
        names_ = ["x", *(each.name for each in weights)]
        nodes = [helper.make_node("MatMulNBits", names_, ["y"], domain="com.microsoft", **odd(K=k, N=n, bits=bits, block_size=block))]
    elif form == "gather":
        weights = [array("w", n, k, dtype=np.uint8), array("s", n, -(-k * 8 // bits // block))]
        nodes = [helper.make_node("GatherBlockQuantized", ["w", "i", "s"], ["y"], domain="com.microsoft", **odd(bits=bits, block_size=block, quantize_axis=1))]
    elif form == "chain":
        codes = array("c", *rng.choice([[k, n], [n], [], [2, k, n]]), dtype=rng.choice([np.int8, np.uint8, np.int32]))
        weights = [codes, array("s", *rng.choice([[], [1], [n], [k], [blocks, n], [0]])), array("e", *rng.choice([[], [1], [n], [3, 5]]))]
        attributes = {key: rng.choice(ODD) for key in ("axis", "block_size") if rng.random() < 0.5}
        perm = {} if rng.random() < 0.5 else {"perm": [rng.choice([0, 1, 2, -1, 1 << 40]) for _ in range(2)]}
        nodes = [
            helper.make_node("DequantizeLinear", ["c", "s"], ["d"], **attributes),
            helper.make_node("Transpose", ["d"], ["t"], **perm),
            helper.make_node(rng.choice(["Mul", "Add", "Sub", "Div"]), rng.choice([["t", "e"], ["e", "t"]]), ["m"]),
            helper.make_node("Cast", ["m"], ["v"], to=rng.choice([1, 10, 7, 8, 99, 0])),
            helper.make_node("MatMul", ["x", "v"], ["y"]),
        ]
    else:
        dims = {"plain": [k, n], "conv": [n, k, *rng.choice([[], [1], [1, 1], [3], [0]])], "gemm": rng.choice([[k, n], [n, k], [k]])}[form]
        weights = [array("w", *dims)]
        op = {"plain": "MatMul", "conv": "Conv", "gemm": "Gemm"}[form]
        nodes = [helper.make_node(op, ["x", "w"], ["y"], **({"transB": rng.choice([0, 1, 5])} if form == "gemm" else {}))]
    inputs = [helper.make_tensor_value_info("x", 1, None), helper.make_tensor_value_info("i", 7, None)]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)


def test_odd_attributes(weir, tmp_path):
    """What is looked behind was never checked: no number in it may end the program."""
    rng = random.Random(1)
    codes = set()
    for _ in range(250):
        for name in ("a.onnx", "b.onnx"):
            onnx.save(odd_model(rng), tmp_path / name)
        done = weir("diff", tmp_path / "a.onnx", tmp_path / "b.onnx", "--weights", "values", "--jobs", "1", code=None)
        codes.add(done.code)
        assert done.code in (0, 1, 65), done.said
    assert 1 in codes


def test_colours_only_on_a_terminal(weir, tmp_path):
    onnx.save(chain(), tmp_path / "a.onnx")
    other = chain()
    node_named(other, "softmax").attribute[0].i = 0
    onnx.save(other, tmp_path / "b.onnx")
    assert "\x1b" not in weir("diff", tmp_path / "a.onnx", tmp_path / "b.onnx", code=1).out
    assert "\x1b[33m~" in weir("diff", tmp_path / "a.onnx", tmp_path / "b.onnx", "--color", code=1).out


def test_long_lists_are_cut(pair):
    model, other = chain(), chain()
    for i in range(30):
        other.graph.node.append(helper.make_node("Abs", ["x"], [f"z{i}"], name=f"more{i}"))
    pair(model, other)
    paths = [pair.folder / "a.onnx", pair.folder / "b.onnx"]
    short, long = (weir_out.out for weir_out in (pair.weir("diff", *paths, code=1), pair.weir("diff", *paths, "--all", code=1)))
    assert "… and 20 more (--all)" in short and "more29" not in short
    assert "more (--all)" not in long and "more29" in long


# ---- how much is read, in how much memory ------------------------------------------------------------------------------


def one_large(path, megabytes, changed=None):
    """A model of one weight in a data file."""
    data = path.with_suffix(".data")
    with open(data, "wb") as file:
        file.truncate(megabytes << 20)
        if changed is not None:
            file.seek(changed)
            file.write(b"\x40")
    w = TensorProto(name="w", data_type=1, dims=[megabytes << 8, 1024], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", data.name), ("offset", "0"), ("length", str(megabytes << 20))):
        w.external_data.add(key=key, value=value)
    graph = helper.make_graph([helper.make_node("Gather", ["w", "i"], ["y"])], "g", [helper.make_tensor_value_info("i", 7, ["n"])], [helper.make_tensor_value_info("y", 1, ["n", 1024])], [w])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString())
    return path


def bytes_read(text):
    number, unit = re.search(r"^([\d.]+) (\w+) of weights read", text, re.M).groups()
    return float(number) * {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]


def test_a_tensor_that_differs_is_not_read_to_its_end(weir, tmp_path):
    a, b = one_large(tmp_path / "a.onnx", 256), one_large(tmp_path / "b.onnx", 256, changed=5 << 20)
    assert bytes_read(weir("diff", a, b, "--jobs", "1", code=1).out) < 20e6
    assert bytes_read(weir("diff", a, b, "--jobs", "1", "--weights", "values", code=1).out) > 500e6  # the control
    c = one_large(tmp_path / "c.onnx", 256)
    assert bytes_read(weir("diff", a, c, "--jobs", "1").out) > 500e6


@pytest.mark.parametrize("weights", ["digest", "values"])
def test_memory(tmp_path, weights):
    """That of --memory and the program, for a pair of 400 MiB each; with --io load, which holds what it reads, it is not."""
    a, b = one_large(tmp_path / "a.onnx", 400), one_large(tmp_path / "b.onnx", 400, changed=(400 << 20) - 5)
    words = [program("WEIR"), "diff", a, b, "--weights", weights, "--quiet"]
    done = peaks.run(words, timeout=300)
    assert done.code == 1 and done.peak_bytes < 64 << 20
    done = peaks.run([*words, "--io", "load", "--jobs", "1"], timeout=300)
    assert done.peak_bytes > 400 << 20


def test_the_kinds_of_changed_fields_are_named_once(pair):
    """Two functions with another opset and attribute each: four lines of two kinds."""

    def model(opset, attribute):
        names = ("first", "second")
        functions = [
            onnx.helper.make_function("own", name, ["x"], ["y"], [onnx.helper.make_node("Relu", ["x"], ["y"])], [onnx.helper.make_opsetid("", opset)], [attribute])
            for name in names
        ]
        nodes = [onnx.helper.make_node(name, [f"v{i}"], [f"v{i + 1}"], domain="own") for i, name in enumerate(names)]
        value = lambda name: onnx.helper.make_tensor_value_info(name, 1, [2])
        graph = onnx.helper.make_graph(nodes, "g", [value("v0")], [value("v2")])
        imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)]
        return onnx.helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=8)

    a, b = pair.save(model(17, "p"), "a.onnx"), pair.save(model(16, "q"), "b.onnx")
    said = pair.weir("diff", a, b, code=1).out
    assert "4 model fields changed (opset, graph)" in said
