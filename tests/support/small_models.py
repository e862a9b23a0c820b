"""Models of a few nodes, as tests write them down."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(path, nodes, inputs, outputs, constants, opset=17):
    """Constants: arrays by the names of their initializers."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path
