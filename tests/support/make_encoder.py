#!/usr/bin/env python3
"""Write a runnable FastConformer speech encoder of any size, as a stream.

    audio_signal [1, mels, T] ─ subsampling ×8 ─ N × layer ─ outputs [1, d_model, T/8]
    length [1] ───────────────────────────────────────────── encoded_lengths [1]

    subsampling   Conv 3×3 stride 2 (1 → channels), twice (depthwise 3×3 stride 2, pointwise 1×1), Linear
    layer         ½ feed-forward · attention with relative positions · convolution module · ½ feed-forward · norm
    convolution   norm, pointwise d → 2d, GLU, depthwise (batch norm folded in), Swish, pointwise d → d

It is shaped and named as a NeMo export is: MatMul weights and folded Convs are called onnx::MatMul_7012 and so on, the
rest by its module. Every layer has 2 pointwise Convs, the subsampling has 2 more. The defaults give 610 million
parameters, 2.4 GB.

First the graph is built as metadata, in which a weight is only a name, dims and a number; then the weights are written
one chunk at a time, so that memory does not depend on the size. A weight is a pure function of (seed, number, element):
a window on one block of noise that starts elsewhere for every tensor, scaled by 1/sqrt(fan in) to keep activations
sane. No two tensors are equal, and the bytes depend neither on the machine nor on numpy's version. The length of the
block is prime, so that rows do not repeat inside a tensor.

With --sparse only the first elements of each large tensor are written and the rest are holes of the file: a 200 GB
model that needs no disk. It loads and runs, but most of its weights are zero.

Examples:
  make_encoder.py encoder-model.onnx                              24 layers, 2.4 GB in encoder-model.onnx.data
  make_encoder.py --size 2M tiny.onnx                             narrower layers, as many as make 2 MB
  make_encoder.py --layers 2 --sidecar per-tensor dir/enc.onnx    one file a tensor
  make_encoder.py --size 24G --sparse big.onnx                    238 layers on next to no disk
"""

import argparse
import math
import os
import sys
import time
from dataclasses import dataclass, field

import numpy as np

import wire

BLOCK = 1048573  # elements of noise; prime
CHUNK = 1 << 18  # elements written at a time
ISLAND = 1 << 12  # elements of a large tensor that --sparse writes
SPARSE_BYTES = 1 << 16  # smaller tensors are written whole even so
EXTERNAL_BYTES = 1024  # smaller tensors stay in the .onnx file, as exporters have it
ALIGN = 64


@dataclass
class Shape:
    """The numbers that make an encoder."""

    layers: int = 24
    d_model: int = 1024
    ff: int = 4096
    heads: int = 8
    kernel: int = 9
    channels: int = 256
    mels: int = 128


@dataclass
class Weight:
    """A tensor of noise to be written later: centre + scale × noise, from place `number` of the block on."""

    name: str
    dims: tuple
    scale: float
    centre: float
    number: int
    place: tuple = field(default=None)  # (file name, offset) once it has one; None: inline

    @property
    def count(self):
        return math.prod(self.dims)

    @property
    def bytes(self):
        return 4 * self.count


# ---- the graph


class Builder:
    """Collects nodes and weights; `scope` is the module path that names are made from."""

    def __init__(self, opset):
        self.opset = opset
        self.scope = ""
        self.nodes = []
        self.weights = []
        self.small = []  # bodies of initializers that are computed here
        self.used = {}
        self.anonymous = 7000
        self.pointwise = 0

    def op(self, op_type, *inputs, outputs=1, out=None, **attributes):
        """Add a node; gives the name of its output, or a list of names."""
        name = f"{self.scope}/{op_type}"
        again = self.used.get(name, 0)
        self.used[name] = again + 1
        name += f"_{again}" if again else ""
        names = [out] if out else [f"{name}_output_{place}" for place in range(outputs)]
        self.nodes.append(wire.node(op_type, inputs, names, name=name, **attributes))
        return names if outputs > 1 else names[0]

    def constant(self, dtype, dims, values):
        raw = np.array(values, {wire.INT64: "<i8", wire.FLOAT: "<f4"}[dtype]).tobytes()
        return self.op("Constant", value=("t", wire.tensor("", dtype, dims, raw)))

    def ints(self, *values):
        return self.constant(wire.INT64, [len(values)], values)

    def int(self, value):
        return self.constant(wire.INT64, [], [value])

    def real(self, value):
        return self.constant(wire.FLOAT, [], [value])

    def weight(self, name, dims, fan_in=None, scale=0.05, centre=0.0):
        scale = 1 / math.sqrt(fan_in) if fan_in else scale
        self.weights.append(Weight(name, tuple(dims), scale, centre, len(self.weights)))
        return name

    def anonymous_weight(self, op_type, dims, fan_in):
        """A weight that the exporter made itself (transposed, folded), and numbered."""
        self.anonymous += 7
        return self.weight(f"onnx::{op_type}_{self.anonymous}", dims, fan_in)

    def given(self, name, values):
        values = np.ascontiguousarray(values, "<f4")
        self.small.append(wire.tensor(name, wire.FLOAT, values.shape, values.tobytes()))
        return name

    def module(self, name):
        """`layers.0.conv` of scope `/layers.0/conv`, for parameter names."""
        return f"{self.scope[1:].replace('/', '.')}.{name}"

    # ---- layers that recur

    def linear(self, x, name, d_in, d_out, bias=True):
        outer, self.scope = self.scope, f"{self.scope}/{name}"
        x = self.op("MatMul", x, self.anonymous_weight("MatMul", [d_in, d_out], d_in))
        if bias:
            x = self.op("Add", self.weight(self.module("bias"), [d_out]), x)
        self.scope = outer
        return x

    def conv(self, x, name, dims, folded=False, **attributes):
        """Conv with bias; `dims` are those of the weight. Folded ones lost their name to the batch norm."""
        outer, self.scope = self.scope, f"{self.scope}/{name}"
        fan_in = math.prod(dims[1:])
        if folded:
            weight = self.anonymous_weight("Conv", dims, fan_in)
            bias = self.weight(weight + "_bias", dims[:1])
        else:
            weight = self.weight(self.module("weight"), dims, fan_in)
            bias = self.weight(self.module("bias"), dims[:1])
        rank = len(dims) - 2
        self.pointwise += math.prod(dims[2:]) == 1
        plain = {"dilations": [1] * rank, "group": 1, "pads": [0] * 2 * rank, "strides": [1] * rank}
        x = self.op("Conv", x, weight, bias, kernel_shape=list(dims[2:]), **{**plain, **attributes})
        self.scope = outer
        return x

    def norm(self, x, name, width):
        """LayerNormalization, or before opset 17 the nodes that stood for it."""
        outer, self.scope = self.scope, f"{self.scope}/{name}"
        gain = self.weight(self.module("weight"), [width], centre=1.0)
        bias = self.weight(self.module("bias"), [width])
        if self.opset >= 17:
            x = self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-5)
        else:
            x = self.op("Sub", x, self.op("ReduceMean", x, axes=[-1], keepdims=1))
            square = self.op("Mul", x, x)
            variance = self.op("ReduceMean", square, axes=[-1], keepdims=1)
            x = self.op("Div", x, self.op("Sqrt", self.op("Add", variance, self.real(1e-5))))
            x = self.op("Add", self.op("Mul", x, gain), bias)
        self.scope = outer
        return x

    def swish(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def unsqueeze(self, x, *axes):
        return self.op("Unsqueeze", x, self.ints(*axes))

    def tail(self, x, start, end, axis):
        """x[start:end] along one axis; the bounds are names of int64 vectors."""
        return self.op("Slice", x, start, end, self.ints(axis))


@dataclass
class Frame:
    """Values that all layers share; they depend on the number of frames only."""

    positions: str  # [1, 2T−1, d_model] sines of the distances T−1 … −(T−1)
    silent: str  # [B, 1, T] true past the end of the signal
    unattended: str  # [B, 1, 1, T] the same for attention scores
    frames: str  # [1] the number T
    skewed: str  # the two shapes of the relative shift
    straight: str


def subsampled_length(g, length):
    """n → (n − 1) / 2 + 1, once for each stride of 2."""
    g.scope = "/pre_encode"
    one, two = g.int(1), g.int(2)
    for _ in range(3):
        length = g.op("Add", g.op("Div", g.op("Sub", length, one), two), one)
    return length


def subsampling(g, x, shape):
    g.scope = "/pre_encode"
    channels = shape.channels
    x = g.unsqueeze(g.op("Transpose", x, perm=[0, 2, 1]), 1)
    stride = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    x = g.op("Relu", g.conv(x, "conv.0", (channels, 1, 3, 3), **stride))
    for place in (2, 5):
        x = g.conv(x, f"conv.{place}", (channels, 1, 3, 3), group=channels, **stride)
        x = g.op("Relu", g.conv(x, f"conv.{place + 1}", (channels, channels, 1, 1)))
    x = g.op("Transpose", x, perm=[0, 2, 1, 3])
    x = g.op("Reshape", x, g.ints(0, 0, -1))
    return g.linear(x, "out", channels * math.ceil(shape.mels / 8), shape.d_model)


def frame_values(g, x, length, d_model):
    g.scope = "/pos_enc"
    frames = g.op("Gather", g.op("Shape", x), g.ints(1), axis=0)
    count = g.op("Squeeze", frames, g.ints(0))
    first = g.op("Sub", count, g.int(1))
    distances = g.op("Range", first, g.op("Neg", count), g.int(-1))
    distances = g.unsqueeze(g.op("Cast", distances, to=wire.FLOAT), 1)
    turns = np.exp(np.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    angles = g.op("Mul", distances, g.given("pos_enc.inv_freq", turns[None, :]))
    pairs = [g.unsqueeze(g.op(wave, angles), 2) for wave in ("Sin", "Cos")]
    positions = g.op("Reshape", g.op("Concat", *pairs, axis=-1), g.ints(1, -1, d_model))
    heard = g.op("Less", g.op("Range", g.int(0), count, g.int(1)), g.unsqueeze(length, 1))
    silent = g.op("Not", heard)
    return Frame(
        positions=positions,
        silent=g.unsqueeze(silent, 1),
        unattended=g.unsqueeze(silent, 1, 2),
        frames=frames,
        skewed=g.op("Concat", g.ints(0, 0, -1), frames, axis=0),
        straight=g.op("Concat", g.ints(0, 0), frames, g.ints(-1), axis=0),
    )


def relative_shift(g, scores, frame):
    """[B, H, T, 2T−1] by distance → [B, H, T, T] by position: row t moves left by T−1−t.

    One column is put in front; read as 2T rows of T, minus the first row, every row has moved by one more.
    """
    scores = g.op("Pad", scores, g.ints(0, 0, 0, 1, 0, 0, 0, 0))
    scores = g.op("Reshape", scores, frame.skewed)
    scores = g.tail(scores, g.ints(1), g.ints((1 << 63) - 1), 2)
    scores = g.op("Reshape", scores, frame.straight)
    return g.tail(scores, g.ints(0), frame.frames, 3)


def attention(g, x, frame, shape):
    d_model, heads = shape.d_model, shape.heads
    width = d_model // heads
    query, key, value = (g.linear(x, f"linear_{part}", d_model, d_model) for part in "qkv")
    place = g.linear(frame.positions, "linear_pos", d_model, d_model, bias=False)
    split = g.ints(0, 0, heads, width)
    query, key, value, place = (g.op("Reshape", part, split) for part in (query, key, value, place))
    scores = []
    for name, other in (("u", key), ("v", place)):
        bias = g.weight(g.module(f"pos_bias_{name}"), [heads, width])
        moved = g.op("Transpose", g.op("Add", query, bias), perm=[0, 2, 1, 3])
        scores.append(g.op("MatMul", moved, g.op("Transpose", other, perm=[0, 2, 3, 1])))
    scores = g.op("Add", scores[0], relative_shift(g, scores[1], frame))
    scores = g.op("Div", scores, g.real(math.sqrt(width)))
    scores = g.op("Where", frame.unattended, g.real(-10000.0), scores)
    x = g.op("MatMul", g.op("Softmax", scores, axis=-1), g.op("Transpose", value, perm=[0, 2, 1, 3]))
    x = g.op("Reshape", g.op("Transpose", x, perm=[0, 2, 1, 3]), g.ints(0, 0, d_model))
    return g.linear(x, "linear_out", d_model, d_model)


def convolution(g, x, frame, shape):
    d_model, kernel = shape.d_model, shape.kernel
    x = g.op("Transpose", x, perm=[0, 2, 1])
    x = g.conv(x, "pointwise_conv1", (2 * d_model, d_model, 1))
    kept, gate = g.op("Split", x, g.ints(d_model, d_model), outputs=2, axis=1)
    x = g.op("Mul", kept, g.op("Sigmoid", gate))
    x = g.op("Where", frame.silent, g.real(0.0), x)
    pads = [(kernel - 1) // 2, kernel // 2]
    x = g.conv(x, "depthwise_conv", (d_model, 1, kernel), folded=True, group=d_model, pads=pads)
    x = g.conv(g.swish(x), "pointwise_conv2", (d_model, d_model, 1))
    return g.op("Transpose", x, perm=[0, 2, 1])


def feed_forward(g, x, shape):
    x = g.swish(g.linear(x, "linear1", shape.d_model, shape.ff))
    return g.op("Mul", g.linear(x, "linear2", shape.ff, shape.d_model), g.real(0.5))


def layer(g, x, number, frame, shape):
    def part(name, norm_name, make):
        g.scope = home
        normed = g.norm(x, norm_name, shape.d_model)
        g.scope = f"{home}/{name}"
        y = make(normed)
        g.scope = home
        return g.op("Add", x, y)

    home = f"/layers.{number}"
    x = part("feed_forward1", "norm_feed_forward1", lambda y: feed_forward(g, y, shape))
    x = part("self_attn", "norm_self_att", lambda y: attention(g, y, frame, shape))
    x = part("conv", "norm_conv", lambda y: convolution(g, y, frame, shape))
    x = part("feed_forward2", "norm_feed_forward2", lambda y: feed_forward(g, y, shape))
    return g.norm(x, "norm_out", shape.d_model)


def build(shape, opset):
    """The whole graph as metadata."""
    g = Builder(opset)
    length = subsampled_length(g, "length")
    x = subsampling(g, "audio_signal", shape)
    frame = frame_values(g, x, length, shape.d_model)
    for number in range(shape.layers):
        x = layer(g, x, number, frame, shape)
    g.scope = ""
    g.op("Transpose", x, perm=[0, 2, 1], out="outputs")
    g.op("Cast", length, to=wire.INT64, out="encoded_lengths")
    return g


# ---- the bytes


def noise_block(seed):
    """BLOCK nearly normal numbers, twice in a row so that a window never wraps.

    splitmix64 of a counter; the sum of its four 16-bit quarters, centred, has a standard deviation of
    sqrt((2^32 − 1) / 3). Whole numbers up to the last division, hence the same everywhere.
    """
    with np.errstate(over="ignore"):
        state = np.arange(1, BLOCK + 1, dtype=np.uint64) + np.uint64(seed << 32)
        state *= np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    quarters = sum((state >> np.uint64(16 * part)) & np.uint64(0xFFFF) for part in range(4))
    block = ((quarters.astype(np.float64) - 2 * 65535) / math.sqrt((2**32 - 1) / 3)).astype("<f4")
    return np.concatenate([block, block])


class Filler:
    """Writes weights. The only place where their bytes exist, a chunk at a time."""

    def __init__(self, seed, sparse):
        self.block = noise_block(seed)
        self.room = np.empty(CHUNK, "<f4")
        self.sparse = sparse

    def write(self, file, weight):
        written = weight.count
        if self.sparse and weight.bytes >= SPARSE_BYTES:
            written = ISLAND
        start = weight.number * 104729 % BLOCK
        for first in range(0, written, CHUNK):
            room = self.room[: min(CHUNK, written - first)]
            at = (start + first) % BLOCK
            np.multiply(self.block[at : at + len(room)], np.float32(weight.scale), out=room)
            if weight.centre:
                room += np.float32(weight.centre)
            file.write(room)
        if written < weight.count:
            file.seek(4 * (weight.count - written), os.SEEK_CUR)

    def __call__(self, file, hole):
        self.write(file, hole.key)


def write_file(path, write):
    """Call write(file), and end the file where it stopped, holes included."""
    with open(path, "wb") as file:
        write(file)
        file.truncate(file.tell())


def choose_places(weights, sidecar, data_name):
    """Give every weight that goes outside its (file, offset). The rest stay inline."""
    end = 0
    for weight in weights:
        if sidecar == "inline" or weight.bytes < EXTERNAL_BYTES:
            continue
        if sidecar == "per-tensor":
            weight.place = (weight.name.replace(":", "_"), 0)
        else:
            offset = -(-end // ALIGN) * ALIGN
            weight.place = (data_name, offset)
            end = offset + weight.bytes


def write_outside(folder, weights, filler):
    """Data files, in the order of the weights; gaps from aligning become zeros."""
    by_file = {}
    for weight in weights:
        if weight.place:
            by_file.setdefault(weight.place[0], []).append(weight)
    for name, members in by_file.items():

        def write_members(file, members=members):
            for weight in members:
                file.seek(weight.place[1])
                filler.write(file, weight)

        write_file(os.path.join(folder, name), write_members)
    return sum(weight.bytes for weight in weights if weight.place), len(by_file)


def tensor_message(weight):
    if weight.place is None:
        return wire.tensor(weight.name, wire.FLOAT, weight.dims, wire.Hole(weight.bytes, weight))
    name, offset = weight.place
    pairs = wire.external(name, offset, weight.bytes)
    return wire.tensor(weight.name, wire.FLOAT, weight.dims, pairs=pairs)


def model_message(g, shape, frames):
    inputs = [("audio_signal", wire.FLOAT, [1, shape.mels, frames or "frames"]), ("length", wire.INT64, [1])]
    short = -(-frames // 8) if frames else "subsampled_frames"
    outputs = [("outputs", wire.FLOAT, [1, shape.d_model, short]), ("encoded_lengths", wire.INT64, [1])]
    initializers = [tensor_message(weight) for weight in g.weights] + g.small
    graph = wire.graph(g.nodes, initializers, inputs, outputs)
    ir_version = 8 if g.opset < 19 else 9 if g.opset < 21 else 10
    return wire.model(graph, opset_version=g.opset, ir_version=ir_version, producer="make_encoder")


def weights_bytes(shape):
    return sum(weight.bytes for weight in build(shape, 17).weights)


def fit(shape, size, narrow):
    """The shape with as many layers as make `size` bytes; `narrow` allows thinner layers until two fit."""
    while True:
        bare = weights_bytes(Shape(**{**vars(shape), "layers": 0}))
        each = weights_bytes(Shape(**{**vars(shape), "layers": 1})) - bare
        layers = round((size - bare) / each)
        if layers >= 2 or not narrow or shape.d_model < 8 * shape.heads:
            return Shape(**{**vars(shape), "layers": max(1, layers)})
        half = {name: getattr(shape, name) // 2 for name in ("d_model", "ff", "channels")}
        shape = Shape(**{**vars(shape), **half})


def make_encoder(
    out, shape=None, *, size=None, seed=0, opset=17, sidecar="one", sparse=False, data_name=None, frames=None
):
    """Write the model; gives a dict of what it has (layers, parameters, pointwise, tensors, files, bytes).

    `size` in bytes overrides shape.layers, and if `shape` is not given, may narrow it. `frames` makes T static.
    """
    if not 13 <= opset:
        raise ValueError(f"opset {opset}: 13 is the oldest this can write")
    out = os.fspath(out)
    folder = os.path.dirname(os.path.abspath(out))
    if size:
        shape = fit(shape or Shape(), size, narrow=shape is None)
    shape = shape or Shape()
    if shape.d_model % (2 * shape.heads):
        raise ValueError(f"d_model {shape.d_model} is not a multiple of 2 × {shape.heads} heads")
    g = build(shape, opset)
    choose_places(g.weights, sidecar, data_name or os.path.basename(out) + ".data")
    filler = Filler(seed, sparse)
    message = model_message(g, shape, frames)
    outside_bytes, outside_files = write_outside(folder, g.weights, filler)
    write_file(out, lambda file: wire.stream(message, file, filler))
    return {
        **vars(shape),
        "parameters": sum(weight.count for weight in g.weights),
        "pointwise": g.pointwise,
        "nodes": len(g.nodes),
        "tensors": len(g.weights) + len(g.small),
        "onnx_bytes": wire.size_of(message),
        "data_bytes": outside_bytes,
        "data_files": outside_files,
    }


def read_size(text):
    units = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    unit = text[-1:].upper()
    return int(float(text[:-1]) * units[unit]) if unit in units else int(text)


def read_options(argv):
    summary, _, examples = __doc__.partition("Examples:")
    parser = argparse.ArgumentParser(
        description=summary, epilog="examples:" + examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", help="the .onnx file to write")
    for name, default in vars(Shape()).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, help=f"default {default}")
    parser.add_argument("--size", type=read_size, help="bytes of weights to reach by layers: 2M, 2.4G (powers of ten)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--frames", type=int, help="a static number of frames instead of a free one")
    parser.add_argument("--sidecar", choices=["one", "per-tensor", "inline"], default="one")
    parser.add_argument("--data-name", help="name of the one sidecar (default OUT.data)")
    parser.add_argument("--sparse", action="store_true", help="leave most of each weight a hole in the file")
    return parser.parse_args(argv)


def main(argv=None):
    options = read_options(argv)
    given = {name: getattr(options, name) for name in vars(Shape()) if getattr(options, name) is not None}
    if options.ff is None and options.d_model:
        given["ff"] = 4 * options.d_model
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    begin = time.monotonic()
    facts = make_encoder(
        options.out,
        Shape(**given) if given else None,
        size=options.size,
        seed=options.seed,
        opset=options.opset,
        sidecar=options.sidecar,
        sparse=options.sparse,
        data_name=options.data_name,
        frames=options.frames,
    )
    print(
        "{layers} layers of {d_model}, {parameters} parameters, {nodes} nodes ({pointwise} pointwise Convs), "
        "{tensors} initializers, {onnx_bytes} bytes of .onnx, {data_bytes} bytes in {data_files} data file{s}, "
        "{seconds:.1f} s".format(**facts, s="s" * (facts["data_files"] != 1), seconds=time.monotonic() - begin)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
