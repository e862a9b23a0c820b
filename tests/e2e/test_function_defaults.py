"""Tensors in the defaults of functions' attributes: they move with the layout, and go with their function."""

import json
import os

import onnx
from onnx import TensorProto, helper

from conftest import with_lines


def model_with_defaults(folder, count):
    """`count` functions, each with an 8000-byte external tensor as a default; the file that holds them, too."""
    functions = []
    for i in range(count):
        tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[2000], name="d", data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "w.bin"), ("offset", str(8000 * i)), ("length", "8000")):
            tensor.external_data.add(key=key, value=value)
        defaults = [helper.make_attribute("t", tensor), helper.make_attribute("k", i)]
        body = [helper.make_node("Add", ["x", "x"], ["y"])]
        opsets = [helper.make_opsetid("", 18)]
        functions.append(helper.make_function("loc", f"F{i}", ["x"], ["y"], body, opsets, attribute_protos=defaults))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("F1", ["x"], ["y"], domain="loc")], "g", [x], [y])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("loc", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)
    (folder / "in.onnx").write_bytes(model.SerializeToString())
    (folder / "w.bin").write_bytes(os.urandom(8000 * count))
    return folder / "in.onnx"


def test_every_function_keeps_its_own(weir, tmp_path):
    source = model_with_defaults(tmp_path, 5)
    weir("convert", source, tmp_path / "out.onnx")
    functions = onnx.load(tmp_path / "out.onnx", load_external_data=False).functions
    data, payload = (tmp_path / "out.onnx.data").read_bytes(), (tmp_path / "w.bin").read_bytes()
    for i, function in enumerate(functions):
        t, k = function.attribute_proto
        where = {entry.key: entry.value for entry in t.t.external_data}
        at = int(where["offset"])
        assert k.i == i and data[at : at + 8000] == payload[8000 * i : 8000 * (i + 1)]


def test_a_removed_function_leaves_no_payload(weir, tmp_path):
    source = model_with_defaults(tmp_path, 2)
    log = tmp_path / "log.jsonl"
    weir("convert", source, tmp_path / "all.onnx", "--edit-log", log)
    edit = {"edit": "function.remove", "function": "f0", "graph": "g1", "domain": "loc", "name": "F0"}
    log.write_text(with_lines(log.read_text(), json.dumps(edit)))
    weir("replay", log, source, tmp_path / "one.onnx")
    assert [f.name for f in onnx.load(tmp_path / "one.onnx", load_external_data=False).functions] == ["F1"]
    assert (tmp_path / "one.onnx.data").read_bytes() == (tmp_path / "w.bin").read_bytes()[8000:]
