"""Write ONNX files by hand: the protobuf wire format, and the few ONNX messages that tests need.

A library that holds whole models cannot write a 200 GB one, and one that checks what it writes cannot write a broken
one. This module does both, needs nothing but Python, and knows nothing of what is legal.

Every function here returns the bytes of one field, so that messages are sums:

    model(graph(node("Add", ["x", "w"], ["y"]), inputs=[("x", FLOAT, ["n", 4])], ...))

Where a payload is too large to hold, it enters as `Hole(size, key)`: a message with a hole in it becomes a `Rope`, a
list of bytes and holes that knows its size. `stream(rope, file, fill)` writes it and calls `fill(file, hole)` where a
hole comes by. Field numbers stand in this file only; `SUBMESSAGES` tells which of them hold messages, for those who
walk a file to break it (`split`).
"""

import struct

FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE = range(1, 12)
COMPLEX64, COMPLEX128, BFLOAT16 = 14, 15, 16
FLOAT8E4M3FN, UINT4, INT4, FLOAT4E2M1, UINT2, INT2 = 17, 21, 22, 23, 25, 26

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)

# message -> field number -> the message inside; fields that are absent hold numbers, bytes or text
SUBMESSAGES = {
    "Model": {7: "Graph", 8: "OperatorSet", 14: "Entry", 20: "Training", 25: "Function"},
    "Graph": {1: "Node", 5: "Tensor", 11: "Value", 12: "Value", 13: "Value", 15: "Sparse", 16: "Entry"},
    "Node": {5: "Attribute", 9: "Entry"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 14: "Type", 22: "Sparse", 23: "Sparse"},
    "Tensor": {13: "Entry", 16: "Entry"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Value": {2: "Type"},
    "Type": {1: "TensorType", 4: "Sequence", 9: "Optional"},
    "TensorType": {2: "Shape"},
    "Sequence": {1: "Type"},
    "Optional": {1: "Type"},
    "Shape": {1: "Dim"},
    "Function": {7: "Node", 9: "OperatorSet", 11: "Attribute", 12: "Value", 14: "Entry"},
    "Training": {1: "Graph", 2: "Graph", 3: "Entry", 4: "Entry"},
}


class Hole:
    """A payload of `size` bytes that is not here yet; `key` tells the one who fills it which."""

    def __init__(self, size, key):
        self.size = size
        self.key = key


class Rope:
    """Bytes and holes in a row. `size` is the sum of both."""

    def __init__(self, parts):
        self.parts = list(parts)
        self.size = sum(size_of(part) for part in self.parts)


def size_of(part):
    return len(part) if isinstance(part, (bytes, bytearray)) else part.size


def join(*pieces):
    """One piece from many: bytes if all are, else a rope. Neighbouring bytes become one part."""
    parts = []
    for piece in pieces:
        for part in piece.parts if isinstance(piece, Rope) else [piece]:
            if isinstance(part, Hole):
                parts.append(part)
            elif parts and isinstance(parts[-1], bytearray):
                parts[-1] += part
            else:
                parts.append(bytearray(part))
    parts = [bytes(part) if isinstance(part, bytearray) else part for part in parts]
    if any(isinstance(part, Hole) for part in parts):
        return Rope(parts)
    return b"".join(parts)


def stream(piece, file, fill):
    """Write a piece to an open file; `fill(file, hole)` writes (or seeks over) exactly `hole.size` bytes."""
    for part in piece.parts if isinstance(piece, Rope) else [piece]:
        if isinstance(part, Hole):
            fill(file, part)
        else:
            file.write(part)


# ---- the wire format


def varint(number):
    """Base 128, low groups first; a negative number as its 64-bit two's complement, as protobuf does."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def overlong(number, size):
    """The same number in exactly `size` bytes, padded with empty groups: legal up to ten."""
    groups = [(number >> (7 * place)) & 127 for place in range(size)]
    return bytes(group | 128 for group in groups[:-1]) + bytes(groups[-1:])


def tag(field, wire_type):
    return varint(field << 3 | wire_type)


def uint(field, number):
    return tag(field, VARINT) + varint(number)


def fixed32(field, real):
    return tag(field, FIXED32) + struct.pack("<f", real)


def blob(field, body):
    """A length-delimited field: bytes, text or a message (which may be a rope)."""
    if isinstance(body, str):
        body = body.encode()
    return join(tag(field, BYTES) + varint(size_of(body)), body)


def blobs(field, bodies):
    return join(*(blob(field, body) for body in bodies))


def packed(field, numbers):
    return blob(field, b"".join(varint(number) for number in numbers))


# ---- ONNX messages; each function gives the message's body, and its parent wraps it


def entry(key, value):
    return blob(1, key) + blob(2, value)


def external(location, offset=None, length=None, **more):
    """The pairs of a tensor's external_data. Numbers may be given as text, to be wrong."""
    pairs = {"location": location, "offset": offset, "length": length, **more}
    return [(key, str(value) if isinstance(value, int) else value) for key, value in pairs.items() if value is not None]


def tensor(name, dtype, dims, raw=None, pairs=None, more=b""):
    """TensorProto with raw_data (bytes or a Hole), or external `pairs`, or whatever fields are in `more`."""
    body = join(b"".join(uint(1, dim) for dim in dims), uint(2, dtype), blob(8, name))
    if raw is not None:
        body = join(body, blob(9, raw))
    if pairs is not None:
        body = join(body, blobs(13, [entry(*pair) for pair in pairs]), uint(14, 1))
    return join(body, more)


def tensor_type(dtype, dims=None):
    """TypeProto of a tensor; a dimension is a number, a name or None, and dims None is an unknown rank."""
    shape = b""
    if dims is not None:
        shape = blob(2, b"".join(blob(1, dimension(dim)) for dim in dims))
    return blob(1, uint(1, dtype) + shape)


def dimension(dim):
    if dim is None:
        return b""
    return uint(1, dim) if isinstance(dim, int) else blob(2, dim)


def value(name, dtype, dims=None):
    return blob(1, name) + blob(2, tensor_type(dtype, dims))


def attribute(name, what):
    """AttributeProto; the Python type of `what` picks the ONNX type. A tensor or graph comes as ("t"|"g", body)."""
    head = blob(1, name)
    if isinstance(what, tuple):
        field, kind = {"t": (5, 4), "g": (6, 5)}[what[0]]
        return join(head, blob(field, what[1]), uint(20, kind))
    if isinstance(what, float):
        return head + fixed32(2, what) + uint(20, 1)
    if isinstance(what, int):
        return head + uint(3, what) + uint(20, 2)
    if isinstance(what, (str, bytes)):
        return head + blob(4, what) + uint(20, 3)
    if what and isinstance(what[0], float):
        return head + b"".join(fixed32(7, real) for real in what) + uint(20, 6)
    return head + b"".join(uint(8, number) for number in what) + uint(20, 7)


def node(op_type, inputs, outputs, name="", domain="", **attributes):
    body = blobs(1, inputs) + blobs(2, outputs)
    body += blob(3, name) if name else b""
    body += blob(4, op_type)
    body = join(body, blobs(5, [attribute(key, what) for key, what in attributes.items()]))
    return join(body, blob(7, domain) if domain else b"")


def graph(nodes, initializers=(), inputs=(), outputs=(), values=(), name="main_graph", more=b""):
    """GraphProto. Nodes and initializers are bodies; inputs, outputs and values are (name, dtype, dims)."""
    return join(
        blobs(1, nodes),
        blob(2, name),
        blobs(5, initializers),
        blobs(11, [value(*each) for each in inputs]),
        blobs(12, [value(*each) for each in outputs]),
        blobs(13, [value(*each) for each in values]),
        more,
    )


def opset(version, domain=""):
    return (blob(1, domain) if domain else b"") + uint(2, version)


def model(graph_body, opset_version=17, ir_version=8, producer="weir-tests", more=b""):
    """A whole ModelProto: what goes into the file."""
    head = uint(1, ir_version) + blob(2, producer)
    return join(head, blob(7, graph_body), blob(8, opset(opset_version)), more)


# ---- taking a file apart again


def read_varint(data, at):
    """(number, place after it) of a well-formed varint."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at


def split(data, message="Model"):
    """Cut a well-formed message into fields: [(field, wire type, head bytes, body)].

    `body` is bytes, or the list of a submessage's own fields.
    """
    at, fields = 0, []
    while at < len(data):
        begin = at
        key, at = read_varint(data, at)
        field, wire_type = key >> 3, key & 7
        head = data[begin:at]
        if wire_type == VARINT:
            _, end = read_varint(data, at)
        elif wire_type == BYTES:
            length, at = read_varint(data, at)
            end = at + length
        else:
            end = at + {FIXED64: 8, FIXED32: 4}[wire_type]
        inner = SUBMESSAGES.get(message, {}).get(field)
        body = split(data[at:end], inner) if wire_type == BYTES and inner else data[at:end]
        fields.append((field, wire_type, head, body))
        at = end
    return fields
