"""Random small models of what is quantized to int8: products, convolutions, tables, recurrent layers, and what stands between.

    int8_models.py --save FILE --from SEED [--pieces WORD,WORD] [--opset N]

`random_model(seed)` gives a Case: the model, a function that draws inputs for it, and the names of its pieces. A model is a chain
of pieces over a batch of images [1,C,H,W] or of rows [1,T,D]. Weights are shared now and then, read by a float operator too, listed
as outputs, without names; nodes lack names; opsets vary. All values have types that onnx's own inference finds, names are unique.
"""

import argparse
import dataclasses
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEQUENCE = ("matmul", "matmul_add", "matmul_shared", "gemm", "gemm_trans", "lstm", "transpose", "activation", "residual",
            "batched", "layer_norm", "float_use", "softmax", "split", "reshape", "if", "activations")
IMAGE = ("conv", "conv_bias", "depthwise", "pointwise", "max_pool", "average_pool", "activation", "residual", "global",
         "concat", "pad", "clip", "resize")


@dataclasses.dataclass
class Case:
    model: onnx.ModelProto
    pieces: list
    seed: int

    def feeds(self, seed=0):
        rng = np.random.default_rng([self.seed, seed])
        found = {}
        for value in self.model.graph.input:
            dims = [d.dim_value for d in value.type.tensor_type.shape.dim]
            if value.type.tensor_type.elem_type == TensorProto.INT64:
                found[value.name] = rng.integers(0, 11, dims)
            elif value.type.tensor_type.elem_type == TensorProto.BOOL:
                found[value.name] = np.array(bool(rng.integers(0, 2)))
            else:
                found[value.name] = rng.normal(0, 1, dims).astype(np.float32)
        return found


class Maker:
    def __init__(self, seed, opset, scale=1.0):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = opset
        self.nodes, self.tensors, self.inputs, self.outputs = [], [], [], []
        self.dims = {}
        self.count = 0
        self.weights = []  # names of matrices, for sharing
        self.scale = scale

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def chance(self, p):
        return self.random.random() < p

    def tensor(self, stem, array):
        name = self.name(stem)
        self.tensors.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, *dims):
        """Normal, with channels of different ranges, and now and then only of one sign, or with a column of zeros."""
        w = self.numbers.normal(0, 1, dims) * np.exp(self.numbers.normal(0, 0.7, dims[-1]))
        if self.chance(0.1):
            w = np.abs(w)
        if self.chance(0.1):
            w[..., 0] = 0
        return self.tensor("w", (w * self.scale / np.sqrt(dims[0])).astype(np.float32))

    def bias(self, n):
        return self.tensor("b", self.numbers.normal(0, 0.3, n).astype(np.float32))

    def node(self, op, inputs, dims, outputs=1, domain="", **attributes):
        made = [self.name("v") for _ in range(outputs)]
        name = "" if self.chance(0.2) else self.name("n")
        self.nodes.append(helper.make_node(op, list(inputs), made, name=name, domain=domain, **attributes))
        for v in made:
            self.dims[v] = tuple(dims)
        return made[0] if outputs == 1 else made


# ---- pieces over rows [1,T,D] --------------------------------------------------------------------------------------------------


def matmul(m, x):
    d, n = m.dims[x][-1], m.random.choice((3, 8, 16, 17, 33))
    w = m.weight(d, n)
    m.weights.append((w, d, n))
    return m.node("MatMul", [x, w], (*m.dims[x][:-1], n))


def matmul_add(m, x):
    y = matmul(m, x)
    pair = [y, m.bias(m.dims[y][-1])]
    return m.node("Add", pair if m.chance(0.7) else pair[::-1], m.dims[y])


def matmul_shared(m, x):
    fits = [(w, n) for w, d, n in m.weights if d == m.dims[x][-1]]
    if not fits:
        return matmul(m, x)
    w, n = m.random.choice(fits)
    return m.node("MatMul", [x, w], (*m.dims[x][:-1], n))


def flat(m, x):
    dims = m.dims[x]
    if len(dims) == 2:
        return x
    shape = m.tensor("shape", np.array([-1, dims[-1]], np.int64))
    return m.node("Reshape", [x, shape], (int(np.prod(dims[:-1])), dims[-1]))


def unflat(m, x):
    dims = m.dims[x]
    shape = m.tensor("shape", np.array([1, *dims], np.int64))
    return m.node("Reshape", [x, shape], (1, *dims))


def gemm(m, x, trans=False):
    rows = flat(m, x)
    d, n = m.dims[rows][1], m.random.choice((4, 8, 15))
    w = m.weight(n, d) if trans else m.weight(d, n)
    attributes = {"transB": 1} if trans else {}
    if m.chance(0.2):
        attributes.update(m.random.choice(({"alpha": 0.5}, {"beta": 2.0})))
    inputs = [rows, w] + ([m.bias(n)] if m.chance(0.7) or m.opset < 11 else [])
    return unflat(m, m.node("Gemm", inputs, (m.dims[rows][0], n), **attributes))


def gemm_trans(m, x):
    return gemm(m, x, True)


def lstm(m, x):
    t, d = m.dims[x][1:]
    h = m.random.choice((4, 6))
    direction = m.random.choice(("forward", "reverse", "bidirectional"))
    n = 2 if direction == "bidirectional" else 1
    rows = m.node("Transpose", [x], (t, 1, d), perm=[1, 0, 2])
    w = m.tensor("w", m.numbers.normal(0, 0.5, (n, 4 * h, d)).astype(np.float32))
    r = m.tensor("r", m.numbers.normal(0, 0.5, (n, 4 * h, h)).astype(np.float32))
    inputs = [rows, w, r]
    if m.chance(0.6):
        inputs.append(m.tensor("b", m.numbers.normal(0, 0.3, (n, 8 * h)).astype(np.float32)))
    y = m.node("LSTM", inputs, (t, n, 1, h), outputs=m.random.choice((1, 3)), hidden_size=h, direction=direction)
    y = y[0] if isinstance(y, list) else y
    turned = m.node("Transpose", [y], (1, t, n, h), perm=[2, 0, 1, 3])
    shape = m.tensor("shape", np.array([1, t, n * h], np.int64))
    return m.node("Reshape", [turned, shape], (1, t, n * h))


def transpose(m, x):
    dims = m.dims[x]
    return m.node("Transpose", [x], (dims[0], dims[2], dims[1]), perm=[0, 2, 1])


def activation(m, x):
    op = m.random.choice(("Relu", "Sigmoid", "Tanh", "LeakyRelu"))
    return m.node(op, [x], m.dims[x])


def clip(m, x):
    low, high = (m.tensor("k", np.float32(v)) for v in (0.0, m.random.choice((2.0, 6.0))))
    return m.node("Clip", [x, low, high], m.dims[x])


def residual(m, x):
    op = m.random.choice(("Add", "Mul"))
    other = m.node("Sigmoid", [x], m.dims[x])
    return m.node(op, [x, other], m.dims[x])


def batched(m, x):
    d, n = m.dims[x][-1], 6
    w = m.tensor("w", m.numbers.normal(0, 0.3, (1, d, n)).astype(np.float32))
    return m.node("MatMul", [x, w], (*m.dims[x][:-1], n))


def activations(m, x):
    turned = transpose(m, x)
    y = m.node("MatMul", [x, turned], (1, m.dims[x][1], m.dims[x][1]))
    return m.node("Softmax", [y], m.dims[y], axis=2)


def layer_norm(m, x):
    if m.opset < 17:
        return activation(m, x)
    d = m.dims[x][-1]
    gain = m.tensor("g", m.numbers.uniform(0.5, 1.5, d).astype(np.float32))
    return m.node("LayerNormalization", [x, gain, m.bias(d)], m.dims[x])


def float_use(m, x):
    """A matrix that a float operator reads too, before or behind its MatMul."""
    d, n = m.dims[x][-1], 5
    w = m.weight(d, n)
    early = m.chance(0.5)
    reduced = m.node("ReduceMax", [w], (1, 1), axes=[0, 1], keepdims=1) if early and m.opset < 18 else None
    y = m.node("MatMul", [x, w], (*m.dims[x][:-1], n))
    if reduced is None:
        reduced = m.node("Abs", [w], (d, n))
        reduced = m.node("MatMul", [x, reduced], m.dims[y])
    return m.node("Add", [y, reduced], m.dims[y])


def softmax(m, x):
    return m.node("Softmax", [x], m.dims[x], axis=len(m.dims[x]) - 1)


def split(m, x):
    """Two branches that read one value."""
    a, b = matmul(m, x), matmul(m, x)
    a, b = activation(m, a), activation(m, b)
    return m.node("Concat", [a, b], (*m.dims[a][:-1], m.dims[a][-1] + m.dims[b][-1]), axis=2)


def reshape(m, x):
    return unflat(m, flat(m, x))


def branch(m, x):
    """If, with a product in one of its bodies."""
    if not any(i.name == "flag" for i in m.inputs):
        m.inputs.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    d = m.dims[x][-1]
    inner = numpy_helper.from_array(m.numbers.normal(0, 0.4, (d, d)).astype(np.float32), m.name("w"))
    outer = m.weight(d, d)
    out = [m.name("v") for _ in range(2)]
    kind = helper.make_tensor_value_info
    yes = helper.make_graph(
        [helper.make_node("MatMul", [x, inner.name], [out[0]], name=m.name("n"))], "yes", [], [kind(out[0], TensorProto.FLOAT, m.dims[x])],
        [inner, numpy_helper.from_array(np.float32(m.count), m.name("u"))])
    no = helper.make_graph(
        [helper.make_node("MatMul", [x, outer], [out[1]], name=m.name("n"))], "no", [], [kind(out[1], TensorProto.FLOAT, m.dims[x])])
    return m.node("If", ["flag"], m.dims[x], then_branch=yes, else_branch=no)


# ---- pieces over images [1,C,H,W] ----------------------------------------------------------------------------------------------


def conv(m, x, bias=False, kernel=3, depthwise=False):
    c = m.dims[x][1]
    n = c if depthwise else m.random.choice((3, 8))
    w = m.numbers.normal(0, 1, (n, 1 if depthwise else c, kernel, kernel)) * np.exp(m.numbers.normal(0, 0.7, (n, 1, 1, 1)))
    inputs = [x, m.tensor("w", (w / np.sqrt(c * kernel * kernel)).astype(np.float32))] + ([m.bias(n)] if bias else [])
    attributes = {"kernel_shape": [kernel, kernel], "pads": [kernel // 2] * 4}
    if depthwise:
        attributes["group"] = c
    return m.node("Conv", inputs, (1, n, *m.dims[x][2:]), **attributes)


def pool(op):
    def make(m, x):
        n, c, h, w = m.dims[x]
        if min(h, w) < 4:
            return activation(m, x)
        return m.node(op, [x], (n, c, h // 2, w // 2), kernel_shape=[2, 2], strides=[2, 2])

    return make


def global_pool(m, x):
    n, c = m.dims[x][:2]
    pooled = m.node("GlobalAveragePool", [x], (n, c, 1, 1))
    return m.node("Mul", [x, m.node("Sigmoid", [pooled], (n, c, 1, 1))], m.dims[x])


def concat(m, x):
    other = activation(m, x)
    n, c, h, w = m.dims[x]
    return m.node("Concat", [x, other], (n, 2 * c, h, w), axis=1)


def pad(m, x):
    n, c, h, w = m.dims[x]
    pads = m.tensor("pads", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))
    return m.node("Pad", [x, pads], (n, c, h + 2, w + 2), mode=m.random.choice(("constant", "reflect", "edge")))


def resize(m, x):
    n, c, h, w = m.dims[x]
    if h > 16:
        return activation(m, x)
    scales = m.tensor("scales", np.array([1, 1, 2, 2], np.float32))
    roi = m.tensor("roi", np.zeros(0, np.float32))
    return m.node("Resize", [x, roi, scales], (n, c, 2 * h, 2 * w), mode="nearest", coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")


PIECES = {
    "matmul": matmul, "matmul_add": matmul_add, "matmul_shared": matmul_shared, "gemm": gemm, "gemm_trans": gemm_trans, "lstm": lstm,
    "transpose": transpose, "activation": activation, "residual": residual, "batched": batched, "layer_norm": layer_norm,
    "float_use": float_use, "softmax": softmax, "split": split, "reshape": reshape, "if": branch, "activations": activations,
    "conv": conv, "conv_bias": lambda m, x: conv(m, x, bias=True), "depthwise": lambda m, x: conv(m, x, depthwise=True),
    "pointwise": lambda m, x: conv(m, x, bias=m.chance(0.5), kernel=1), "max_pool": pool("MaxPool"),
    "average_pool": pool("AveragePool"), "global": global_pool, "concat": concat, "pad": pad, "clip": clip, "resize": resize,
}  # fmt: skip


def table(m):
    """An embedding, whose table may be read by a product at the end too."""
    d = m.random.choice((8, 12))
    e = m.weight(11, d)
    m.inputs.append(helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 7]))
    return m.node("Gather", [e, "ids"], (1, 7, d)), e, d


def random_model(seed, pieces=None, opset=None, n=None):
    """`pieces`: words of SEQUENCE or IMAGE to choose from, with `table` and `tied` for embeddings; None: all."""
    rng = random.Random(seed)
    m = Maker(seed, opset or rng.choice((11, 12, 13, 15, 17, 18, 20)))
    words = set(pieces or (*SEQUENCE, *IMAGE, "table", "tied"))
    rows, images = [w for w in SEQUENCE if w in words], [w for w in IMAGE if w in words]
    is_image = not rows or (images and m.chance(0.35))
    e = None
    if is_image:
        x, chosen = "x", [m.random.choice(images) for _ in range(n or m.random.randint(2, 6))]
        m.dims[x] = (1, 3, 8, 8)
        m.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, m.dims[x]))
    else:
        chosen = [m.random.choice(rows) for _ in range(n or m.random.randint(2, 6))]
        if "table" in words and m.chance(0.35):
            x, e, d = table(m)
            chosen.insert(0, "table")
        else:
            x = "x"
            m.dims[x] = (1, m.random.choice((1, 5)), m.random.choice((8, 16)))
            m.inputs.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, m.dims[x]))
    for word in chosen:
        if word != "table":
            x = PIECES[word](m, x)
    if e is not None and "tied" in words and m.chance(0.5):
        w = m.weight(m.dims[x][-1], d)
        x = m.node("MatMul", [x, w], (*m.dims[x][:-1], d))
        if m.chance(0.5):
            x = m.node("MatMul", [x, m.node("Transpose", [e], (d, 11), perm=[1, 0])], (*m.dims[x][:-1], 11))
        else:
            x = unflat(m, m.node("Gemm", [flat(m, x), e, m.bias(11)], (m.dims[x][1], 11), transB=1))
        chosen.append("tied")
    outputs = [helper.make_tensor_value_info(x, TensorProto.FLOAT, m.dims[x])]
    inner = [v for v in m.dims if v not in (x, "x") and any(v in node.output for node in m.nodes[:-1]) and m.dims[v]]
    if inner and m.chance(0.2):
        v = m.random.choice(inner)
        if not any(v in node.output[1:] for node in m.nodes):
            outputs.append(helper.make_tensor_value_info(v, TensorProto.FLOAT, m.dims[v]))
    if seed % 6 == 4:  # that nothing uses
        m.tensor("u", np.arange(seed % 5, dtype=np.float32))
    graph = helper.make_graph(m.nodes, "int8", m.inputs, outputs, m.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", m.opset)], ir_version=8)
    onnx.checker.check_model(model)
    return Case(model, chosen, seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", required=True)
    parser.add_argument("--from", dest="seed", type=int, default=0)
    parser.add_argument("--pieces")
    parser.add_argument("--opset", type=int)
    asked = parser.parse_args()
    case = random_model(asked.seed, asked.pieces.split(",") if asked.pieces else None, asked.opset)
    onnx.save(case.model, asked.save)
    print(" ".join(case.pieces))


if __name__ == "__main__":
    main()
