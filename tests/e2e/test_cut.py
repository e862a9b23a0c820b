"""What passes changed, cut out of source and result as two small models each: the checker takes both, ONNX Runtime runs
both on the same inputs, and they give the same. A part that is wrong must be found.

A sample in the ordinary run; with WEIR_TEST_ALL (`tools/test --all`) all exports through all of these passes, and more
random graphs.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cut_sites
import random_graphs
from conftest import ALL, DATA, built_tool

pytestmark = pytest.mark.in_memory

TOOL = built_tool("cut_tool")
LOOSE = 0.3  # of quantized weights
STEPS = {
    "conv2matmul": 0.01,
    "tidy": 0.01,
    "fuse": 0.01,
    "optimize": 0.01,
    "cast:to=float16": 0.01,
    "shrink:min_elements=256": LOOSE,
    "quantize": LOOSE,
}
EXPORTS = sorted(DATA.glob("exports/*.onnx")) + sorted(DATA.glob("parakeet*/encoder-model.onnx"))
SAMPLE = ("bert-sdpa-torchscript-18", "cnn-kept-torchscript-17", "llama-rows-dynamo-23", "parakeet-torchscript")


def models():
    return [each for each in EXPORTS if ALL or any(word in str(each) for word in SAMPLE)]


@pytest.mark.parametrize("step", STEPS)
def test_sites_of_exports(step, tmp_path):
    sites = 0
    for model in models():
        folder = tmp_path / f"{model.parent.name}-{model.stem}"
        found = cut_sites.cut_and_judge(TOOL, model, folder, [step], tolerance=STEPS[step])
        assert found.others("equal") == [], model
        assert all(site["groups"] for site in found.told["sites"]), model
        sites += found.count("equal")
    assert sites > (0 if step == "fuse" or step == "conv2matmul" else 10), "nothing was cut"


def test_sites_of_random_graphs(tmp_path):
    """With Ifs, Loops, Scans, functions, optional inputs and initializers that callers may override."""
    sites = widened = 0
    for seed in range(4000 if ALL else 40):
        case = random_graphs.random_graph(seed)
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            onnx.save(case.model, f"{folder}/m.onnx")
            sizes = [f"{name}={'x'.join(map(str, each.shape))}" for name, each in case.feeds[0].items()]
            found = cut_sites.cut_and_judge(TOOL, f"{folder}/m.onnx", Path(folder) / "o", ["optimize"], sizes)
        assert found.others("equal") == [], seed
        sites += found.count("equal")
        widened += len(found.widened)
    assert sites > 60 and widened < 0.05 * sites


# ---- bodies and functions


def info(name, dims, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, dims)


def weight(name, *dims):
    return numpy_helper.from_array(np.random.default_rng(len(name)).standard_normal(dims).astype(np.float32), name)


def save(path, nodes, inputs, outputs, initializers=(), functions=(), opsets=(("", 18),), ir=8):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    imports = [helper.make_opsetid(*each) for each in opsets]
    model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=ir)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def cut(path, *steps, **how):
    found = cut_sites.cut_and_judge(TOOL, path, path.parent / "parts", steps, **how)
    assert found.others("equal") == []
    return found.told["sites"]


def branches(dims):
    """What both branches of an If do: one a pointwise convolution of what is outside, one a Relu."""
    conv = helper.make_node("Conv", ["outer", "w"], ["c"], name="inner_conv")
    then = helper.make_graph([conv], "then", [], [info("c", dims)], [weight("w", 3, 3, 1)])
    other = helper.make_graph([helper.make_node("Relu", ["outer"], ["r"])], "else", [], [info("r", dims)])
    return {"then_branch": then, "else_branch": other}


def test_a_change_in_a_body_is_a_site_of_the_body(tmp_path):
    dims = [2, 3, 5]
    nodes = [
        helper.make_node("Neg", ["x"], ["outer"]),
        helper.make_node("If", ["is"], ["y"], name="if", **branches(dims)),
    ]
    inputs = [info("x", dims), info("is", [], TensorProto.BOOL)]
    (site,) = cut(save(tmp_path / "m.onnx", nodes, inputs, [info("y", dims)]), "conv2matmul")
    assert site["graph"] != 0 and site["name"] == "inner_conv"
    assert site["nodes"][0] == ["Conv"] and "MatMul" in site["nodes"][1]
    assert [each["before"] for each in site["inputs"]] == ["outer"]  # made around the body


def test_a_shape_of_what_a_loop_made_is_asked_for_in_the_part(tmp_path):
    """Two Shapes of one value become one. How long it is, nothing says: the Shape that is left comes into the part."""
    body = helper.make_graph(
        [
            helper.make_node("Concat", ["has", "x"], ["longer"], axis=0),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("has", None)],
        [info("on", [], TensorProto.BOOL), info("longer", None)],
    )
    nodes = [
        helper.make_node("Loop", ["count", "", "x"], ["y"], name="loop", body=body),
        helper.make_node("Shape", ["y"], ["first"], name="first_shape"),
        helper.make_node("Shape", ["y"], ["second"], name="second_shape"),
        helper.make_node("Neg", ["second"], ["less"]),
    ]
    given = [info("x", [2, 3]), info("count", [], TensorProto.INT64)]
    made = [info("y", [None, 3]), info("first", [2], TensorProto.INT64), info("less", [2], TensorProto.INT64)]
    (site,) = cut(save(tmp_path / "m.onnx", nodes, given, made), "tidy")
    assert site["doubt"] is None and site["nodes"] == [["Loop", "Shape"]] * 2


def test_a_weight_that_bodies_read_is_a_site_around_them(tmp_path):
    dims = [4, 32]
    bodies = [
        helper.make_graph([helper.make_node("MatMul", ["x", "w"], [name])], name, [], [info(name, dims)]) for name in "ab"
    ]
    nodes = [helper.make_node("If", ["is"], ["y"], name="if", then_branch=bodies[0], else_branch=bodies[1])]
    inputs = [info("x", dims), info("is", [], TensorProto.BOOL)]
    path = save(tmp_path / "m.onnx", nodes, inputs, [info("y", dims)], [weight("w", 32, 32)])
    (site,) = cut(path, "shrink:min_elements=1", tolerance=LOOSE)
    assert site["graph"] == 0 and site["nodes"] == [[], ["Cast", "Mul", "Add"]] and site["inputs"] == []


def test_an_if_that_is_decided_is_one_node_before(tmp_path):
    dims = [2, 3, 5]
    yes = numpy_helper.from_array(np.array(True), "yes")
    nodes = [
        helper.make_node("Neg", ["x"], ["outer"]),
        helper.make_node("If", ["yes"], ["y"], name="if", **branches(dims)),
    ]
    (site,) = cut(save(tmp_path / "m.onnx", nodes, [info("x", dims)], [info("y", dims)], [yes]), "optimize/fold-if")
    assert site["nodes"] == [["If"], ["Conv"]]


def test_a_change_in_a_function_is_cut_with_each_call(tmp_path):
    dims = [2, 3, 5]
    nodes = [
        helper.make_node("Identity", ["a"], ["i"]),
        helper.make_node("LeakyRelu", ["i"], ["l"]),
        helper.make_node("Add", ["l", "i"], ["b"]),
    ]
    nodes[1].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    imports = [helper.make_opsetid("", 18)]
    inner = helper.make_function("local", "Inner", ["a"], ["b"], nodes, imports, ["slope"])
    call = helper.make_node("Inner", ["a"], ["b"], domain="local", slope=0.25)
    outer = helper.make_function("local", "Outer", ["a"], ["b"], [call], [*imports, helper.make_opsetid("local", 1)])
    main = [
        helper.make_node("Inner", ["x"], ["t"], domain="local", name="first", slope=0.5),
        helper.make_node("Relu", ["t"], ["u"]),
        helper.make_node("Outer", ["u"], ["y"], domain="local", name="second"),
    ]
    path = tmp_path / "m.onnx"
    opsets = (("", 18), ("local", 1))
    save(path, main, [info("x", dims)], [info("y", dims)], functions=[inner, outer], opsets=opsets)
    sites = cut(path, "tidy/identity")
    assert [(site["name"], site["nodes"]) for site in sites] == [
        ("first", [["Inner"], ["Inner"]]),
        ("second", [["Outer"], ["Outer"]]),
    ]
    assert all(site["passes"] == ["tidy/identity"] for site in sites)


# ---- bytes


def large(tmp_path, **how):
    """Two MatMuls, with weights of 18 and 2 MiB in one file beside the model."""
    rng = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(rng.standard_normal(dims).astype(np.float32), name)
        for name, dims in (("a", (2304, 2048)), ("b", (2048, 256)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["t"], name="large"),
        helper.make_node("MatMul", ["t", "b"], ["y"], name="small"),
    ]
    inputs, outputs = [info("x", ["n", 2304])], [info("y", ["n", 256])]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights), **how)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data")
    return path


def test_large_constants_lie_beside_and_what_was_external_is_in_the_part(tmp_path):
    path = large(tmp_path, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    sites = cut(path, "quantize", tolerance=LOOSE)
    parts = path.parent / "parts"
    assert [site["name"] for site in sites] == ["large", "small"]
    beside = (parts / "0.before.onnx.data").stat().st_size
    assert beside == 2304 * 2048 * 4
    assert sites[0]["bytes"][0] == beside + (parts / "0.before.onnx").stat().st_size
    for part in parts.glob("*.onnx"):
        for tensor in onnx.load(part, load_external_data=False).graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                assert {each.key: each.value for each in tensor.external_data}["location"] == f"{part.name}.data"
    assert not (parts / "1.before.onnx.data").exists()


def test_an_old_model_lists_its_initializers_and_its_parts_need_not(tmp_path):
    dims = [2, 3, 5]
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")]
    inputs = [info("x", dims), info("w", [4, 3, 1])]
    path = save(tmp_path / "m.onnx", nodes, inputs, [info("y", [2, 4, 5])], [weight("w", 4, 3, 1)], opsets=(("", 9),), ir=3)
    (site,) = cut(path, "conv2matmul")
    part = onnx.load(path.parent / "parts" / "0.before.onnx")
    assert part.ir_version == 4 and [each.name for each in part.graph.input] == ["x"]


def test_strings_of_a_constant_node_stay_a_node(tmp_path):
    nodes = [
        helper.make_node("Constant", [], ["s"], value_strings=["a", "bc"]),
        helper.make_node("Identity", ["s"], ["t"]),
        helper.make_node("Equal", ["names", "t"], ["e"]),
        helper.make_node("Not", ["e"], ["n"]),
        helper.make_node("Not", ["n"], ["y"]),
    ]
    inputs, outputs = [info("names", [2], TensorProto.STRING)], [info("y", [2], TensorProto.BOOL)]
    told = cut_sites.cut(
        TOOL, save(tmp_path / "m.onnx", nodes, inputs, outputs, opsets=(("", 19),), ir=9), tmp_path / "parts", ["tidy", "optimize"]
    )
    assert told["sites"] and all(site["why_not"] is None for site in told["sites"])


def test_a_constant_whose_tensor_spells_out_that_it_has_no_name(tmp_path):
    value = numpy_helper.from_array(np.array([1, 2], np.float32))
    value.name = ""
    nodes = [helper.make_node("Constant", [], ["c"], value=value), helper.make_node("Add", ["x", "c"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, [info("x", [2])], [info("y", [2])])
    spelled = path.read_bytes()
    assert b"\x42\x00" in spelled  # field 8, no bytes
    (site,) = cut(path, "optimize/constants")
    assert site["nodes"] == [[], []]


# ---- what is wrong is found


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_part_that_computes_something_else_is_found(side, tmp_path):
    model = DATA / "exports" / "cnn-kept-torchscript-17.onnx"
    told = cut_sites.cut(TOOL, model, tmp_path, ["fuse"])
    assert cut_sites.judge(tmp_path, told).others("equal") == []
    path = tmp_path / f"0.{side}.onnx"
    part = onnx.load(path)
    array = numpy_helper.to_array(part.graph.initializer[0]).copy()
    array.reshape(-1)[0] *= -1
    part.graph.initializer[0].CopyFrom(numpy_helper.from_array(array, part.graph.initializer[0].name))
    onnx.save(part, path)
    found = cut_sites.judge(tmp_path, told)
    assert found.ended[0] == "differs" and found.count("differs") == 1
