"""What onnxruntime's own quantizer makes of a model, and models compared tensor by tensor and node by node."""

import copy
import logging

import onnx
from onnx import numpy_helper
from onnxruntime.quantization import matmul_nbits_quantizer as quantizer
from onnxruntime.quantization.quant_utils import QuantFormat

import compare

logging.getLogger(quantizer.__name__).setLevel(logging.ERROR)


def quantized(model, bits=4, block=128, symmetric=False, qdq=False, op_types=("MatMul",), channel=False, **more):
    """A quantized copy of a model (a ModelProto without external data), by the default algorithm."""
    worker = quantizer.MatMulNBitsQuantizer(
        copy.deepcopy(model),
        bits=bits,
        block_size=block,
        is_symmetric=symmetric,
        quant_format=QuantFormat.QDQ if qdq else QuantFormat.QOperator,
        op_types_to_quantize=op_types,
        channel_wised_quantize=channel,
        **more,
    )
    worker.process()
    return worker.model.model


def by_algorithm(model, algorithm, bits=4, block=128, symmetric=False):
    """The same by rtn, k_quant or hqq."""
    config = {
        "rtn": lambda: quantizer.RTNWeightOnlyQuantConfig(),
        "k_quant": lambda: quantizer.KQuantWeightOnlyQuantConfig(),
        "hqq": lambda: quantizer.HQQWeightOnlyQuantConfig(block_size=block, bits=bits),
    }[algorithm]()
    worker = quantizer.MatMulNBitsQuantizer(
        copy.deepcopy(model), bits=bits, block_size=block, is_symmetric=symmetric, algo_config=config
    )
    worker.process()
    return worker.model.model


def values(tensor):
    return tensor.data_type, tuple(tensor.dims), compare.payload(tensor, None)


def initializers(graph):
    """{name: (type, dims, bytes)} in order. Of tensors of one name, which must be equal, the first counts."""
    found = {}
    for tensor in graph.initializer:
        assert found.setdefault(tensor.name, values(tensor)) == values(tensor), f"two different '{tensor.name}'"
    return found


def attribute(each):
    """An attribute's value. A tensor is its elements: the name in it says nothing."""
    if each.type == onnx.AttributeProto.TENSOR:
        return values(each.t)
    if each.type == onnx.AttributeProto.GRAPH:
        return listing(each.g)
    return onnx.helper.get_attribute_value(each)


def described(node):
    attributes = {each.name: attribute(each) for each in node.attribute}
    return node.op_type, node.domain, node.name, list(node.input), list(node.output), attributes


def listing(graph):
    """All that counts of a graph: initializers and nodes in order."""
    return list(initializers(graph).items()), [described(node) for node in graph.node]


def assert_same_initializers(ours, theirs):
    ours, theirs = initializers(ours), initializers(theirs)
    assert list(ours) == list(theirs)
    for name in ours:
        assert ours[name][:2] == theirs[name][:2], name
        assert ours[name][2] == theirs[name][2], f"'{name}': other bytes"


def assert_same_graph(ours, theirs):
    assert_same_initializers(ours, theirs)
    for a, b in zip(ours.node, theirs.node):
        assert described(a) == described(b)
    assert len(ours.node) == len(theirs.node)


def array(tensor):
    return numpy_helper.to_array(tensor)
