"""Inputs of functions that a caller leaves out: no pass makes an operand of them that an operator needs."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

OPSET = helper.make_opsetid("", 21)
PASSES = {
    "conv": ["conv2matmul", "conv2matmul:form=flat", "conv2matmul:extended_conv1x1=true"],
    "gemm": ["quantize:block_size=16,op_types=Gemm", "quantize:block_size=16,op_types=Gemm,format=qdq",
             "shrink", "unfuse/gemm", "fuse/bn"],
}  # fmt: skip
CALLS = {"empty": ["img", ""], "short": ["img"], "given": ["img", "bias"]}


def model_of(kind, arguments, nested):
    numbers = np.random.default_rng(3)
    if kind == "conv":
        weight, xs, ys = numbers.normal(size=(16, 8, 1, 1)), [1, 8, 4, 5], [1, 16, 4, 5]
        body = [helper.make_node("Conv", ["x", "w", "b"], ["y"], "node")]
    else:
        weight, xs, ys = numbers.normal(size=(32, 16)), [3, 32], [3, 16]
        body = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], "node")]
    weight = numpy_helper.from_array(weight.astype(np.float32))
    body.insert(0, helper.make_node("Constant", [], ["w"], value=weight))
    functions = [helper.make_function("local", "F", ["x", "b"], ["y"], body, [OPSET])]
    if nested:
        call = [helper.make_node("F", ["p", "q"], ["r"], domain="local")]
        imports = [OPSET, helper.make_opsetid("local", 1)]
        functions.append(helper.make_function("local", "G", ["p", "q"], ["r"], call, imports))
    bias = numpy_helper.from_array(numbers.normal(size=16).astype(np.float32), "bias")
    graph = helper.make_graph(
        [helper.make_node("G" if nested else "F", arguments, ["out"], domain="local")],
        "g",
        [helper.make_tensor_value_info("img", TensorProto.FLOAT, xs)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ys)],
        [bias] if "bias" in arguments else [],
    )
    imports = [OPSET, helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)
    return model, numbers.normal(size=xs).astype(np.float32)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("nested", [False, True], ids=["", "nested"])
@pytest.mark.parametrize("kind,words", [(kind, words) for kind in PASSES for words in PASSES[kind]])
def test_the_output_runs_and_agrees(weir, tmp_path, kind, words, nested, call):
    model, x = model_of(kind, CALLS[call], nested)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", words)
    theirs, ours = (ort.InferenceSession(tmp_path / f).run(None, {"img": x})[0] for f in ("in.onnx", "out.onnx"))
    assert np.abs(theirs - ours).max() <= (0.25 if "quantize" in words else 1e-5) * np.abs(theirs).max()


@pytest.mark.parametrize("call,converts", [("empty", 0), ("short", 0), ("given", 1)])
@pytest.mark.parametrize("kind", PASSES)
def test_a_bias_that_every_call_gives_is_no_obstacle(weir, tmp_path, kind, call, converts):
    model, _ = model_of(kind, CALLS[call], True)
    onnx.save(model, tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--pass", PASSES[kind][0])
    ops = [n.op_type for n in onnx.load(tmp_path / "out.onnx").functions[0].node]
    assert ops.count("Add") == converts and ops.count(kind.capitalize()) == 1 - converts
