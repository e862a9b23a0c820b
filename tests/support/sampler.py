"""One model with a bit of everything that a TensorProto, an attribute or a message may be.

`every_payload()` has an initializer for each dtype in each encoding: raw, the typed field packed, unpacked, and in
chunks (packed pieces and single numbers mixed). `everything()` adds sparse tensors, functions, training info, Constant
nodes of all kinds, subgraphs, doc strings, metadata, and fields that no schema knows, in every message. Both are made
with wire.py, because a library would write each thing in one way only. What they compute does not matter: no runtime
has to run them, but onnx.checker accepts the second without its unknown fields.
"""

import random
import struct

import wire

# dtype: (bits, number of the typed field)
DTYPES = {
    "float": (1, 32, 4), "uint8": (2, 8, 5), "int8": (3, 8, 5), "uint16": (4, 16, 5), "int16": (5, 16, 5),
    "int32": (6, 32, 5), "int64": (7, 64, 7), "bool": (9, 8, 5), "float16": (10, 16, 5), "double": (11, 64, 10),
    "uint32": (12, 32, 11), "uint64": (13, 64, 11), "complex64": (14, 64, 4), "complex128": (15, 128, 10),
    "bfloat16": (16, 16, 5), "float8e4m3fn": (17, 8, 5), "float8e4m3fnuz": (18, 8, 5), "float8e5m2": (19, 8, 5),
    "float8e5m2fnuz": (20, 8, 5), "uint4": (21, 4, 5), "int4": (22, 4, 5), "float4e2m1": (23, 4, 5),
    "float8e8m0": (24, 8, 5), "uint2": (25, 2, 5), "int2": (26, 2, 5), "float6e2m3": (27, 6, 5),
    "float6e3m2": (28, 6, 5),
}  # fmt: skip
ENCODINGS = ("raw", "packed", "unpacked", "chunked")
SIGNED = {"int8", "int16", "int32"}


def elements(name, count, seed):
    """`count` elements of a dtype as packed raw bytes. Bits past the last element are zero."""
    _, bits, _ = DTYPES[name]
    data = bytearray(random.Random(seed).randbytes((count * bits + 7) // 8))
    if name == "bool":
        data = bytearray(byte & 1 for byte in data)
    if count * bits % 8:
        data[-1] &= (1 << count * bits % 8) - 1
    return bytes(data)


def numbers(name, raw, count):
    """The entries of the typed field for these elements: floats as 4 or 8 bytes, integers as numbers."""
    _, bits, field = DTYPES[name]
    if bits == 6:  # one number an element, though raw bytes hold four in three
        stream = int.from_bytes(raw, "little")
        return [stream >> at & 63 for at in range(0, 6 * count, 6)]
    if field in (4, 10):
        width = 4 if field == 4 else 8
        return [raw[at : at + width] for at in range(0, len(raw), width)]
    code = {8: "b", 16: "h", 32: "i", 64: "q"}.get(max(bits, 8))
    code = code if name in SIGNED or name == "int64" else code.upper()
    return [number for (number,) in struct.iter_unpack("<" + code, raw)]


def one_entry(field, entry):
    if isinstance(entry, bytes):
        return wire.tag(field, wire.FIXED32 if len(entry) == 4 else wire.FIXED64) + entry
    return wire.uint(field, entry)


def packed_entries(field, entries):
    body = b"".join(entry if isinstance(entry, bytes) else wire.varint(entry) for entry in entries)
    return wire.blob(field, body)


def typed_field(name, raw, count, encoding):
    field, entries = DTYPES[name][2], numbers(name, raw, count)
    if encoding == "packed":
        return packed_entries(field, entries)
    if encoding == "unpacked":
        return b"".join(one_entry(field, entry) for entry in entries)
    third = len(entries) // 3
    middle = b"".join(one_entry(field, entry) for entry in entries[third : 2 * third])
    return packed_entries(field, entries[:third]) + middle + packed_entries(field, entries[2 * third :])


def tensor(name, dtype, dims, encoding, seed):
    count = 1
    for dim in dims:
        count *= dim
    raw = elements(dtype, count, seed)
    number = DTYPES[dtype][0]
    if encoding == "raw":
        return wire.tensor(name, number, dims, raw)
    return wire.tensor(name, number, dims, more=typed_field(dtype, raw, count, encoding))


def payload_tensors(counts):
    """An initializer for each dtype, encoding and element count."""
    return [
        tensor(f"{dtype}.{encoding}.{count}", dtype, (count,), encoding, f"{dtype}{encoding}{count}")
        for dtype in DTYPES
        for encoding in ENCODINGS
        for count in counts
    ]


def carried(names):
    """Nodes that give every name a use, so that nothing is dead."""
    return [wire.node("Identity", [name], [f"{name}.out"], name=f"carry.{name}") for name in names]


def every_payload(counts=(5, 4099)):
    names = [f"{dtype}.{encoding}.{count}" for dtype in DTYPES for encoding in ENCODINGS for count in counts]
    strings = wire.tensor("strings", wire.STRING, (3,), more=wire.blobs(6, [b"a", b"", "ü\n".encode()]))
    nodes = carried([*names, "strings", "x"])
    inputs, outputs = [("x", wire.FLOAT, [1])], [("x.out", wire.FLOAT, [1])]
    graph = wire.graph(nodes, [*payload_tensors(counts), strings], inputs, outputs)
    return wire.model(graph, opset_version=25, ir_version=13)


# ---- everything else


def unknown(text):
    """A field that no schema has, of each wire type."""
    return (
        wire.blob(1000, f"unknown in {text}")
        + wire.uint(1001, 2**40 + 7)
        + wire.tag(1002, wire.FIXED32) + b"abcd"
        + wire.tag(1003, wire.FIXED64) + b"abcdefgh"
        + wire.tag(1004, wire.GROUP) + wire.uint(1, 5) + wire.tag(1004, wire.END_GROUP)
    )  # fmt: skip


def sparse(name, more=b""):
    """400 values among 10 000: large enough to be worth a place of its own."""
    values = tensor(name, "float", (400,), "packed", name)
    indices = b"".join(struct.pack("<q", 25 * place) for place in range(400))
    return (
        wire.blob(1, values) + wire.blob(2, wire.tensor("", wire.INT64, (400,), indices)) + wire.uint(3, 10_000) + more
    )


def attribute(name, kind, body):
    return wire.blob(1, name) + body + wire.uint(20, kind)


def constant(output, attribute_body):
    return wire.blob(2, output) + wire.blob(4, "Constant") + wire.blob(5, attribute_body)


def constants(more=b""):
    """A Constant node for every attribute that may give its value."""
    large = tensor("", "float", (30, 30), "unpacked", "constant")
    return [
        constant("c.value", attribute("value", 4, wire.blob(5, large)) + more),
        constant("c.sparse", attribute("sparse_value", 11, wire.blob(22, sparse("")))),
        constant("c.float", attribute("value_float", 1, wire.fixed32(2, 0.5))),
        constant("c.floats", attribute("value_floats", 6, wire.blob(7, bytes(range(240)) * 10))),
        constant("c.int", attribute("value_int", 2, wire.uint(3, -5))),
        constant("c.ints", attribute("value_ints", 7, wire.packed(8, range(-300, 300)))),
        constant("c.ints2", attribute("value_ints", 7, b"".join(wire.uint(8, n) for n in range(-300, 300)))),
        constant("c.string", attribute("value_string", 3, wire.blob(4, b"text"))),
        constant("c.strings", attribute("value_strings", 8, wire.blobs(9, [b"a", b"", b"bc"]))),
    ]


def branch(name, more=b""):
    """A subgraph with a weight of its own, one Constant, and an outer weight."""
    own = tensor(f"{name}.w", "float", (300,), "chunked", name)
    nodes = [
        constant(f"{name}.c", attribute("value", 4, wire.blob(5, tensor("", "float", (300,), "raw", name + "c")))),
        wire.node("Add", [f"{name}.w", f"{name}.c"], [f"{name}.sum"]),
        wire.node("Add", [f"{name}.sum", "outer"], [f"{name}.out"]),
    ]
    return wire.graph(nodes, [own], [], [(f"{name}.out", wire.FLOAT, [300])], name=name, more=more)


def function(more=b""):
    weight = attribute("value", 4, wire.blob(5, tensor("", "float", (300,), "packed", "function")))
    body = wire.blob(7, constant("fw", weight)) + wire.blob(7, wire.node("Add", ["p", "fw"], ["q"]))
    head = wire.blob(1, "Block") + wire.blob(4, "p") + wire.blob(5, "q") + wire.blob(6, "alpha")
    default = wire.blob(11, attribute("beta", 1, wire.fixed32(2, 2.0)))
    tail = (
        wire.blob(8, "a function")
        + wire.blob(9, wire.opset(25))
        + wire.blob(10, "test")
        + wire.blob(14, wire.entry("k", "v"))
    )
    return head + body + default + tail + more


def training(more=b""):
    start = wire.graph([constant("t.c", attribute("value", 4, wire.blob(5, tensor("", "float", (300,), "raw", "t"))))],
                       [], [], [("t.c", wire.FLOAT, [300])], name="start")  # fmt: skip
    step = wire.graph([wire.node("Identity", ["t.w"], ["t.next"])], [tensor("t.w", "float", (300,), "raw", "tw")],
                      [], [("t.next", wire.FLOAT, [300])], name="step")  # fmt: skip
    return wire.blob(1, start) + wire.blob(2, step) + wire.blob(4, wire.entry("outer", "t.next")) + more


def everything(with_unknown=True):
    """The model described above."""
    more = unknown if with_unknown else lambda text: b""
    outer = tensor("outer", "float", (300,), "packed", "outer") + wire.blob(12, "a weight") + more("tensor")
    names = ["value", "sparse", "float", "floats", "int", "ints", "ints2", "string", "strings"]
    choose = wire.node(
        "If",
        ["yes"],
        ["branched"],
        then_branch=("g", branch("then", more("subgraph"))),
        else_branch=("g", branch("else")),
    )
    nodes = [
        *constants(more("attribute")),
        *carried([f"c.{name}" for name in names]),
        *carried(["weights", "w.float16", "strings"]),
        choose + wire.blob(6, "a choice") + more("node"),
        wire.node("Block", ["branched"], ["y"], domain="test"),
    ]
    initializers = [
        outer,
        tensor("w.float16", "float16", (2000,), "unpacked", "half"),
        wire.tensor("strings", wire.STRING, (2,), more=wire.blobs(6, [b"a", b"b"])),
    ]
    annotation = wire.blob(14, wire.blob(1, "outer") + wire.blob(2, wire.entry("SCALE_TENSOR", "w.float16")))
    graph = wire.graph(
        nodes,
        initializers,
        [("yes", wire.BOOL, [])],
        [("y", wire.FLOAT, [300])],
        [("branched", wire.FLOAT, [300])],
        more=wire.blob(15, sparse("weights", more("sparse tensor")))
        + wire.blob(10, "the graph")
        + annotation
        + more("graph"),
    )
    imports = wire.blob(8, wire.opset(1, "test"))
    metadata = wire.blobs(14, [wire.entry("author", "nobody"), wire.entry("note", "ü \n \x01")])
    tail = imports + metadata + wire.blob(20, training(more("training"))) + wire.blob(25, function(more("function")))
    return wire.model(graph, opset_version=25, ir_version=13, more=tail + more("model"))
