"""What is drawn for a model can be run: ONNX Runtime takes it, and what comes out is finite. The control is what somebody
would draw who knows types alone."""

import warnings

import numpy as np
import onnx
import pytest
from drawn import Alone, draw, draw_all, naive, not_finite, run, runs
from onnx import TensorProto, helper

from conftest import ALL, DATA, built_tool, package_models

pytestmark = pytest.mark.in_memory

TOOL = built_tool("draw_tool")
EXPORTS = sorted((DATA / "exports").glob("*.onnx"))
ENCODERS = [DATA / f"parakeet-{how}" / "encoder-model.onnx" for how in ("dynamo", "torchscript")]
INSTALLED = [path for package in ("rapidocr", "silero_vad", "magika") for path in package_models(package)]
REAL = [*EXPORTS, *ENCODERS, *INSTALLED]


@pytest.fixture(scope="module")
def drawn():
    return dict(zip(REAL, draw_all(TOOL, REAL)))


@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_real_model_runs(path, drawn):
    assert not drawn[path].cannot
    outputs = run(path, drawn[path].arrays)
    assert outputs and not not_finite(outputs), drawn[path].sizes


def test_real_models_do_not_run_on_anything():
    """Ids past their tables, images too small, lengths that no window fits."""
    fail = [path for path in REAL if not runs(path, naive(onnx.load(path, load_external_data=False)))]
    assert len(fail) >= 10, fail


def test_sizes_are_as_asked_for():
    bert = DATA / "exports" / "bert-sdpa-dynamo-18.onnx"
    assert draw(TOOL, bert, "--length", 11).arrays["input_ids"].shape == (1, 11)
    assert draw(TOOL, bert, "--shape", "input_ids=3x7").arrays["attention_mask"].shape == (3, 7)
    assert "axis 2 is 32" in draw(TOOL, ENCODERS[0], "--shape", "audio_signal=1x9x9").cannot
    same, other = draw(TOOL, bert), draw(TOOL, bert, "--seed", 1)
    assert (same.arrays["input_ids"] != other.arrays["input_ids"]).any()
    assert (same.arrays["input_ids"] == draw(TOOL, bert).arrays["input_ids"]).all()


def test_images_of_other_sizes():
    for path in package_models("rapidocr"):
        height = 48 if "rec" in path.name else 64
        given = draw(TOOL, path, "--shape", f"x=2x3x{height}x96")
        assert given.arrays["x"].shape == (2, 3, height, 96)
        assert not not_finite(run(path, given.arrays)), path


# ---- sites


def sites(path, many):
    """Each `many` nodes of a model that stand behind each other, on what is drawn for them: those that fail, or give NaN;
    and how many there are."""
    model, wrong, n = onnx.load(path), [], 0
    given, alone = draw(TOOL, path, "--nodes", many).nodes, Alone(model)
    assert len(given) == len(model.graph.node)
    for i, (_, each) in enumerate(sorted(given.items())):
        site = model.graph.node[i : i + many]
        if any(a.type == onnx.AttributeProto.GRAPH for node in site for a in node.attribute):
            continue
        if all(node.op_type == "Constant" for node in site):
            continue
        n += 1
        assert not each.cannot, (site[0].name, each.cannot)
        try:
            outputs = run(alone.of(site, each.arrays), each.arrays)
        except Exception as error:
            wrong.append(f"{site[0].name} ({site[0].op_type}): {error}")
            continue
        if any(array is not None and array.dtype.kind == "f" and np.isnan(array).any() for array in outputs.values()):
            wrong.append(f"{site[0].name} ({site[0].op_type}): NaN")
    return wrong, n


FEW = ("bert-sdpa-dynamo-18", "gpt2-eager-torchscript-17", "llama-rows-dynamo-23", "vit-sdpa-torchscript-14",
       "cnn-kept-dynamo-18", "silero_vad_openvino_16k")  # fmt: skip


@pytest.mark.parametrize("many", [1, 5])
@pytest.mark.parametrize("path", [path for path in REAL if ALL or path.stem in FEW], ids=lambda path: path.stem)
def test_sites_run(path, many):
    if len(onnx.load(path).graph.node) <= many:
        pytest.skip("all of the model stands in an If")
    wrong, n = sites(path, many)
    assert not wrong and n > 2, "\n".join(wrong)


# ---- a cache


def decoder(total):
    """One step of attention over what is cached and what is new, with positions from a table of 40 rows."""
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
    positions = helper.make_tensor_value_info("position_ids", TensorProto.INT64, ["batch", "sequence"])
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", total])
    past = helper.make_tensor_value_info("past_key_values.0.key", TensorProto.FLOAT, ["batch", "past", 8])
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["w"]),
        helper.make_node("Gather", ["places", "position_ids"], ["p"]),
        helper.make_node("Add", ["w", "p"], ["x"]),
        helper.make_node("Concat", ["past_key_values.0.key", "x"], ["keys"], axis=1),
        helper.make_node("Transpose", ["keys"], ["keys_t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "keys_t"], ["scores"]),
        helper.make_node("Cast", ["attention_mask"], ["kept"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["one", "kept"], ["left"]),
        helper.make_node("Mul", ["left", "low"], ["added"]),
        helper.make_node("Unsqueeze", ["added", "axis"], ["added_3"]),
        helper.make_node("Add", ["scores", "added_3"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"]),
        helper.make_node("MatMul", ["weights", "keys"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    constants = {
        "words": rng.standard_normal((50, 8), np.float32),
        "places": rng.standard_normal((40, 8), np.float32),
        "one": np.float32(1),
        "low": np.float32(-10000),
        "axis": np.array([1]),
    }
    graph = helper.make_graph(
        nodes, "decoder", [ids, positions, mask, past],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "sequence", 8])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize("total", ["past + sequence", "total_sequence_length", "attention_mask_dim_1"])
def test_a_cache_fits(total, tmp_path):
    path = tmp_path / "decoder.onnx"
    onnx.save(decoder(total), path)
    given = draw(TOOL, path)
    assert given.arrays["attention_mask"].shape == (1, 24) and given.arrays["past_key_values.0.key"].shape == (1, 8, 8)
    assert given.arrays["position_ids"].ravel().tolist() == list(range(8, 24))
    assert given.arrays["input_ids"].max() < 50
    assert not not_finite(run(path, given.arrays))
    assert not runs(path, naive(decoder(total))), "ids past the table"


# ---- ONNX's own test models


def backend_cases():
    from onnx.backend.test.case.model import collect_testcases as collect_models
    from onnx.backend.test.case.node import collect_testcases as collect_nodes

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = {case.name: case for case in [*collect_nodes(None), *collect_models()] if case.model is not None}
    for i, (name, case) in enumerate(sorted(cases.items())):
        inputs = case.model.graph.input
        tensors = all(each.type.WhichOneof("value") == "tensor_type" and each.type.tensor_type.elem_type != TensorProto.STRING
                      for each in inputs)  # fmt: skip
        if inputs and tensors and case.data_sets and (ALL or i % 3 == 0):
            yield name, case


def test_models_of_onnx_run(tmp_path, capsys):
    """Of those that the runtime runs on the inputs that come with them."""
    cases = []
    for name, case in backend_cases():
        path = tmp_path / f"{name}.onnx"
        onnx.save(case.model, path)
        given = {value.name: np.asarray(array) for value, array in zip(case.model.graph.input, case.data_sets[0][0])}
        if runs(path, given):
            cases.append((name, case, path))
    given = draw_all(TOOL, [path for _, _, path in cases])
    fail = [name for (name, _, path), each in zip(cases, given) if each.cannot or not runs(path, each.arrays)]
    naively = sum(runs(path, naive(case.model, most=10)) for _, case, path in cases)
    with capsys.disabled():
        print(f" {len(cases) - len(fail)} of {len(cases)} run on what is drawn, {naively} on anything ", end="")
    assert len(cases) > 400
    assert len(fail) <= 0.01 * len(cases), fail
    assert naively <= 0.85 * len(cases)
