#!/usr/bin/env python3
"""Files that attack a reader of ONNX: what must be refused, with which word, and what looks bad but is legal.

Three layers:

  cases()          named folders: one model with its data files, what a good reader does with it, and what its message
                   has to say. In three states: accepted True (legal, however odd), False (refused with one of `codes`
                   and a message that matches `pattern`), None (readers may differ; a refusal has to have one of
                   `codes`, and a crash, a hang or a large memory is wrong in any case).
  truncations()    every beginning of a small model.
  broken_lengths() every length in a small model replaced by 0, -1, 2^31, 2^63-1 and 2^64-1, one at a time; the lengths
                   of the messages around it are repaired, so that the lie itself is reached.

Most cases are one sound model with one thing wrong: an Add of an input and the weight `w` (four floats, external in
`w.bin`), so that a message can be asked to name the tensor, the file and the number. Messages are held to `pattern`
only as far as any good sentence would contain it.

Everything is made with wire.py, since a library would refuse. Run as a program, it writes all cases below a folder.
"""

import argparse
import gzip
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import wire

USAGE, BAD_MODEL, INPUT, NO_SPACE, PERMISSION = 2, 65, 66, 73, 77
DATA = bytes(range(64))  # the usual w.bin: 16 floats
# -1 as the 32-bit number that protobuf's own lengths are; in 64 bits it is 2^64-1
LIES = {"0": 0, "-1": (1 << 32) - 1, "2^31": 1 << 31, "2^63-1": (1 << 63) - 1, "2^64-1": (1 << 64) - 1}


@dataclass
class Case:
    name: str
    make: Callable  # make(folder: Path) -> Path of the model; the folder exists and is empty
    accepted: bool | None
    codes: tuple = (BAD_MODEL,)  # exit codes of a refusal
    pattern: str = ""  # a regular expression (re.search, any case) for the message of a refusal
    flags: tuple = ()  # to be given to the command
    out: str = "out.onnx"  # name of the output, beside the model
    needs_user: bool = False  # means nothing to root
    large: bool = False  # gigabytes of output, where accepted: plan it, or write it nowhere


CASES = []


def case(name, make, accepted, pattern="", codes=(BAD_MODEL,), **more):
    CASES.append(Case(name, make, accepted, codes, pattern, **more))


# ---- a sound model, and the ways to spoil it


def usual_graph(initializers, nodes=None, inputs=None, **more):
    """y = Add(x, w) on vectors of four."""
    return wire.graph(
        nodes if nodes is not None else [wire.node("Add", ["x", "w"], ["y"], name="add")],
        initializers,
        inputs or [("x", wire.FLOAT, ["n", 4])],
        [("y", wire.FLOAT, ["n", 4])],
        **more,
    )


def usual_model(*initializers, **more):
    opset = more.pop("opset_version", 17)
    return wire.model(usual_graph(initializers, **more), opset_version=opset, ir_version=8 if opset < 21 else 10)


def write(folder, model, files=None):
    """Put model.onnx and data files in a folder."""
    for name, content in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "model.onnx").write_bytes(model)
    return folder / "model.onnx"


def plain(model, files=None):
    """A maker for a model that needs nothing but itself and some data files."""
    return lambda folder: write(folder, model, files)


def external_model(pairs, dtype=wire.FLOAT, dims=(4,), opset_version=17):
    return usual_model(wire.tensor("w", dtype, dims, pairs=pairs), opset_version=opset_version)


def at(location, files=None):
    """A maker: the weight lies in `location` (text or bytes)."""
    return plain(external_model(wire.external(location, 0, 16)), files)


def numbers(offset=None, length=None, files=None, **more):
    """A maker: the weight has these offset and length (numbers or text) in w.bin."""
    model = external_model(wire.external("w.bin", offset, length), **more)
    return plain(model, {"w.bin": DATA} if files is None else files)


# ---- paths


def path_cases():
    outside = r"\bw\b.*(outside|leaves|beneath|\.\.|absolute)"
    for name, location in {
        "parent": "../x",
        "parent_of_sub": "a/../../x",
        "parent_alone": "..",
        "absolute": "/etc/hostname",
        "absolute_twice": "//x",
        "proc_mem": "/proc/self/mem",
        "dev_zero": "/dev/zero",
    }.items():
        case(f"path-{name}", at(location, {"a/keep": b""}), False, outside)
    for name, location in {"drive": "C:\\x", "backslash": "a\\..\\b", "backslash_parent": "..\\x"}.items():
        case(f"path-{name}", at(location), False, r"\bw\b", (BAD_MODEL, INPUT))
    case("path-empty", at(""), False, r"\bw\b.*(empty|location)")
    case("path-dot", at("."), False, r"\bw\b.*(regular file|directory|folder)")
    case("path-directory", at("sub", {"sub/keep": DATA}), False, r"\bw\b.*(regular file|directory|folder)", (INPUT,))
    case("path-too_long", at("x/" * 2048 + "x"), False, r"\bw\b.*(long|4096|4097)")
    case("path-nul", at(b"w.bin\0.txt", {"w.bin": DATA}), False, r"NUL")
    case("path-invalid_utf8", utf8_twin, None, codes=(BAD_MODEL, INPUT))
    case("path-missing", at("w.bin"), False, r"\bw\b.*w\.bin", (INPUT,))
    case("path-missing_folder", at("sub/w.bin"), False, r"\bw\b.*sub/w\.bin", (INPUT,))
    case("path-trailing_space", at("w.bin ", {"w.bin": DATA}), False, r"\bw\b.*w\.bin ", (INPUT,))
    case("path-trailing_slash", at("w.bin/", {"w.bin": DATA}), False, r"\bw\b.*w\.bin/", (BAD_MODEL, INPUT))
    case("path-component_of_256", at("x" * 256), False, r"\bw\b", (BAD_MODEL, INPUT))
    case("path-other_case", at("W.bin", {"w.bin": DATA}), False, r"\bw\b.*W\.bin", (INPUT,))
    composed, decomposed = "caf\u00e9.bin", "cafe\u0301.bin"
    case("path-other_normal_form", at(composed, {decomposed: DATA}), False, r"\bw\b", (INPUT,))
    case("path-normal_form_twins", at(composed, {decomposed: b"", composed: DATA}), True)
    case("path-case_twins", at("W.bin", {"w.bin": b"", "W.bin": DATA}), True)
    case("path-two_dots_inside", at("a..b", {"a..b": DATA}), True)
    case("path-parent_that_stays", at("sub/../w.bin", {"sub/keep": b"", "w.bin": DATA}), None)
    case("path-component_of_255", at("x" * 255, {"x" * 255: DATA}), True)
    case("path-hash", at("#inline", {"#inline": DATA}), True)
    case("path-dot_slash", at("./w.bin", {"w.bin": DATA}), True)
    case("path-subfolder", at("sub/w.bin", {"sub/w.bin": DATA}), True)
    case("path-the_model_itself", at("model.onnx"), None, codes=(BAD_MODEL,))


def utf8_twin(folder):
    with open(os.path.join(os.fsencode(folder), b"\xff\xfe.bin"), "wb") as file:
        file.write(DATA)
    return at(b"\xff\xfe.bin")(folder)


def special_file(make):
    """A maker: w.bin is whatever make(path) creates."""

    def maker(folder):
        make(folder / "w.bin")
        return at("w.bin")(folder)

    return maker


def make_socket(path):
    """Bind by a relative name, since socket names are short."""
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.bind(path.name)
    finally:
        os.chdir(here)


def link_final(path):
    (path.parent / "real.bin").write_bytes(DATA)
    path.symlink_to("real.bin")


def link_loop(path):
    path.symlink_to("w2.bin")
    (path.parent / "w2.bin").symlink_to("w.bin")


def link_hard(path):
    (path.parent / "real.bin").write_bytes(DATA)
    os.link(path.parent / "real.bin", path)


def link_parent(folder):
    (folder / "real").mkdir()
    (folder / "real" / "w.bin").write_bytes(DATA)
    (folder / "sub").symlink_to("real")
    return at("sub/w.bin")(folder)


def link_out(folder):
    """A link that leaves the model's folder."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / "secret.bin").write_bytes(DATA)
    inside = folder / "inside"
    inside.mkdir()
    (inside / "w.bin").symlink_to("../outside/secret.bin")
    return at("w.bin")(inside)


def cache_tree(folder):
    """The layout of the Hugging Face cache: what users name are links, the bytes are blobs named by digest."""
    blobs, snapshot = folder / "blobs", folder / "snapshots" / "0123abcd"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "aaaa").write_bytes(external_model(wire.external("model.onnx.data", 0, 16)))
    (blobs / "bbbb").write_bytes(DATA)
    (snapshot / "model.onnx").symlink_to("../../blobs/aaaa")
    (snapshot / "model.onnx.data").symlink_to("../../blobs/bbbb")
    return snapshot / "model.onnx"


def cache_tree_elsewhere(folder):
    """The same, but the data file's link leads to a folder that only has the name."""
    model = cache_tree(folder)
    (folder / "blobs" / "bbbb").unlink()
    (folder / "secrets" / "blobs").mkdir(parents=True)
    (folder / "secrets" / "blobs" / "bbbb").write_bytes(DATA)
    (model.parent / "model.onnx.data").unlink()
    (model.parent / "model.onnx.data").symlink_to("../../secrets/blobs/bbbb")
    return model


def link_cases():
    case("file-fifo", special_file(os.mkfifo), False, r"\bw\b.*(regular file|fifo|pipe)", (BAD_MODEL, INPUT))
    case("file-socket", special_file(make_socket), False, r"\bw\b", (BAD_MODEL, INPUT))
    case(
        "file-symlink_dangling",
        special_file(lambda path: path.symlink_to("gone")),
        False,
        r"\bw\b.*w\.bin",
        (BAD_MODEL, INPUT),
    )
    case("file-symlink_loop", special_file(link_loop), False, r"\bw\b.*w\.bin", (BAD_MODEL, INPUT))
    allowed = {"flags": ("--allow-links",)}
    for name, make in {"symlink": special_file(link_final), "symlink_parent": link_parent, "cache_tree": cache_tree}.items():
        case(f"file-{name}", make, True)  # within the folder, or to where the user's own link leads
        case(f"file-{name}-allowed", make, True, **allowed)
    case("file-hard_link", special_file(link_hard), False, r"--allow-links", (PERMISSION,))
    case("file-hard_link-allowed", special_file(link_hard), True, **allowed)
    case("file-symlink_outside", link_out, False, r"\bw\b.*--allow-links", (PERMISSION,))
    case("file-cache_tree_elsewhere", cache_tree_elsewhere, False, r"\bw\b.*--allow-links", (PERMISSION,))
    case("file-symlink_outside-allowed", link_out, None, codes=(BAD_MODEL, INPUT), **allowed)
    case("file-sparse", sparse_data, True)
    case("file-short", numbers(0, 16, files={"w.bin": DATA[:10]}), False, r"\bw\b.*w\.bin.*\b10\b", (BAD_MODEL, INPUT))
    case("file-empty", numbers(0, 16, files={"w.bin": b""}), False, r"\bw\b.*w\.bin", (BAD_MODEL, INPUT))
    case("file-unreadable", unreadable_data, False, r"w\.bin", (PERMISSION,), needs_user=True)
    case("file-unreadable_model", unreadable_model, False, r"model\.onnx", (PERMISSION,), needs_user=True)
    case("file-unwritable_folder", unwritable_folder, False, codes=(PERMISSION,), needs_user=True)
    case("file-no_model", lambda folder: folder / "model.onnx", False, r"model\.onnx", (INPUT,))
    case("file-model_is_folder", model_is_folder, False, r"model\.onnx", (BAD_MODEL, INPUT))
    case("out-same_as_model", at("w.bin", {"w.bin": DATA}), False, r"inplace|same", (USAGE,), out="model.onnx")
    case("out-data_same_as_data", same_sidecar, False, r"out\.onnx\.data", (USAGE, BAD_MODEL, INPUT))
    case("out-link_to_model", out_links_to_model, False, codes=(USAGE, BAD_MODEL, INPUT), out="again.onnx")


def sparse_data(folder):
    path = at("w.bin")(folder)
    with open(folder / "w.bin", "wb") as file:
        file.truncate(1 << 40)
    return path


def unreadable_data(folder):
    path = at("w.bin", {"w.bin": DATA})(folder)
    (folder / "w.bin").chmod(0)
    return path


def unreadable_model(folder):
    path = at("w.bin", {"w.bin": DATA})(folder)
    path.chmod(0)
    return path


def unwritable_folder(folder):
    path = at("w.bin", {"w.bin": DATA})(folder)
    folder.chmod(0o555)
    return path


def model_is_folder(folder):
    (folder / "model.onnx").mkdir()
    return folder / "model.onnx"


def same_sidecar(folder):
    """The sidecar that out.onnx would get is the one that the model reads (large enough to need one)."""
    model = external_model(wire.external("out.onnx.data", 0, 4096), dims=(256, 4))
    return write(folder, model, {"out.onnx.data": bytes(4096)})


def out_links_to_model(folder):
    path = at("w.bin", {"w.bin": DATA})(folder)
    os.link(path, folder / "again.onnx")
    return path


# ---- numbers


def number_cases():
    malformed = {
        "minus": "-1",
        "plus": "+5",
        "leading_space": " 5",
        "trailing_space": "5 ",
        "hex": "0x10",
        "exponent": "1e1",
        "underscore": "1_6",
        "empty": "",
        "arabic": "\u0661\u0666",
        "text": "sixteen",
        "fraction": "16.0",
        "nul": b"16\0",
    }
    for name, text in malformed.items():
        case(f"number-offset_{name}", numbers(text, 16), False, r"NUL" if name == "nul" else r"\bw\b.*offset")
        case(f"number-length_{name}", numbers(0, text), False, r"NUL" if name == "nul" else r"\bw\b.*length")
    case("number-offset_leading_zeros", numbers("0016", 16), None)
    for name, offset in {
        "2^64-1": (1 << 64) - 1,
        "2^64": 1 << 64,
        "2^63-1": (1 << 63) - 1,
        "2^63": 1 << 63,
        "past_end": 65,
        "end_past_end": 49,
        "wraps": (1 << 64) - 8,
        "many_digits": int("9" * 400),
    }.items():
        case(f"number-offset_{name}", numbers(offset, 16), False, r"\bw\b", (BAD_MODEL, INPUT))
    for name, length in {"2^64-1": (1 << 64) - 1, "2^64": 1 << 64, "2^63": 1 << 63, "petabyte": 1 << 50}.items():
        case(f"number-length_{name}", numbers(0, length), False, r"\bw\b", (BAD_MODEL, INPUT))
    case("number-length_zero", numbers(0, 0), False, r"\bw\b.*length")
    case("number-length_short", numbers(0, 12), False, r"\bw\b.*\b12\b.*\b16\b|\bw\b.*\b16\b.*\b12\b")
    case("number-length_long", numbers(0, 20), False, r"\bw\b.*\b20\b.*\b16\b|\bw\b.*\b16\b.*\b20\b")
    case("number-offset_odd", numbers(3, 16), True)
    case("number-offset_at_end", numbers(48, 16), True)
    case("number-no_offset", numbers(None, 16), True)
    case("number-no_length", numbers(16, None), True)
    case("number-location_only", numbers(), True)
    case("number-no_length_past_end", numbers(52, None), False, r"\bw\b", (BAD_MODEL, INPUT))


def dims_cases():
    case("dims-minus_one", numbers(0, 16, dims=(-1, 4)), False, r"\bw\b.*-1")
    case("dims-least", numbers(0, None, dims=(-(1 << 63),)), False, r"\bw\b")
    case("dims-2^63-1", numbers(0, None, dims=((1 << 63) - 1,)), False, r"\bw\b")
    case("dims-product_overflows", numbers(0, None, dims=(1 << 32, 1 << 32)), False, r"\bw\b")
    case("dims-product_wraps_to_4", numbers(0, 16, dims=((1 << 62) + 1, 4)), False, r"\bw\b")
    case("dims-overflow_beside_zero", numbers(0, None, dims=(0, 1 << 40, 1 << 40)), None)
    case("dims-zero", dims_of(wire.tensor("w", wire.FLOAT, (0, 4), pairs=wire.external("w.bin", 0, 0))), True)
    case("dims-zero_without_length", dims_of(wire.tensor("w", wire.FLOAT, (0,), pairs=wire.external("w.bin"))), True)
    case("dims-scalar", dims_of(wire.tensor("w", wire.FLOAT, (), pairs=wire.external("w.bin", 4, 4))), True)
    case("dims-rank_100000", numbers(0, 4, dims=(1,) * 100_000), False, r"\bw\b")
    case("dims-raw_too_short", plain(usual_model(wire.tensor("w", wire.FLOAT, (4,), DATA[:12]))), False, r"\bw\b.*12")
    case("dims-raw_too_long", plain(usual_model(wire.tensor("w", wire.FLOAT, (4,), DATA[:20]))), False, r"\bw\b.*20")
    floats = wire.blob(4, DATA[:12])
    case("dims-float_data_short", plain(usual_model(wire.tensor("w", wire.FLOAT, (4,), more=floats))), False, r"\bw\b")
    ragged = wire.blob(4, DATA[:15])
    case("dims-float_data_ragged", plain(usual_model(wire.tensor("w", wire.FLOAT, (4,), more=ragged))), False)
    case("dims-no_data", plain(usual_model(wire.tensor("w", wire.FLOAT, (4,)))), False, r"\bw\b")
    both = wire.packed(1, [2]) + wire.uint(1, 2)
    halves = both + wire.uint(2, wire.FLOAT) + wire.blob(8, "w") + wire.blob(9, DATA[:16])
    case("dims-packed_and_not", plain(usual_model(halves, inputs=[("x", wire.FLOAT, [2, 2])])), True)


def dims_of(weight):
    """A maker for a model that only has to be carried along: the weight feeds an Identity of its own shape."""
    nodes = [wire.node("Identity", ["w"], ["v"]), wire.node("Identity", ["x"], ["y"])]
    return plain(usual_model(weight, nodes=nodes, opset_version=25), {"w.bin": DATA})


def dtype_cases():
    for name, dtype, count, size in (
        ("int4_odd", wire.INT4, 5, 3),
        ("uint4_odd", wire.UINT4, 7, 4),
        ("int2_odd", wire.INT2, 5, 2),
        ("uint2", wire.UINT2, 8, 2),
        ("float4", wire.FLOAT4E2M1, 3, 2),
        ("float8", wire.FLOAT8E4M3FN, 5, 5),
        ("complex128", wire.COMPLEX128, 3, 48),
        ("bool", wire.BOOL, 9, 9),
    ):
        weight = wire.tensor("w", dtype, (count,), pairs=wire.external("w.bin", 1, size))
        case(f"dtype-{name}", dims_of(weight), True)
        wrong = wire.tensor("w", dtype, (count,), pairs=wire.external("w.bin", 1, size + 1))
        case(f"dtype-{name}-wrong_length", dims_of(wrong), False, r"\bw\b")
    for name, dtype in {"undefined": 0, "unknown": 99, "negative": -1, "2^31": 1 << 31}.items():
        case(f"dtype-{name}", numbers(0, 16, dtype=dtype), False, r"\bw\b")
    case("dtype-external_string", numbers(0, 16, dtype=wire.STRING), False, r"\bw\b.*string")
    both = wire.tensor("w", wire.STRING, (1,), b"abc")
    case("dtype-string_in_raw", dims_of(both), False, r"\bw\b")


# ---- external_data entries


def entries_case(name, pairs, accepted, pattern="", **more):
    case(f"entries-{name}", plain(external_model(pairs), {"w.bin": DATA, "other.bin": DATA}), accepted, pattern, **more)


def entry_cases():
    sound = wire.external("w.bin", 16, 16)
    entries_case("no_location", [("offset", "0"), ("length", "16")], False, r"\bw\b.*location")
    entries_case("none", [], False, r"\bw\b.*location")
    entries_case("twice", [("location", "gone"), ("offset", "99"), *sound], True)
    entries_case("unknown_key", [*sound, ("comment", "hello")], True)
    entries_case("prepacked", [*sound, ("prepacked_0", "key|0|16")], True)
    entries_case("checksum", [*sound, ("checksum", "0" * 40)], True)
    entries_case("basepath", [*sound, ("basepath", "/etc")], True)
    million = wire.blob(13, wire.entry("k", "v")) * 1_000_000
    crowd = wire.tensor("w", wire.FLOAT, (4,), pairs=sound, more=million)
    case("entries-million", plain(usual_model(crowd), {"w.bin": DATA}), False, r"\bw\b|entries")
    all_of_them = wire.tensor("w", wire.FLOAT, (4,), DATA[:16], sound, wire.blob(4, DATA[:16]))
    case("entries-three_payloads", plain(usual_model(all_of_them), {"w.bin": DATA}), False, r"\bw\b")
    two = wire.tensor("w", wire.FLOAT, (4,), DATA[:16], more=wire.blob(4, DATA[:16]))
    case("entries-raw_and_float_data", plain(usual_model(two)), False, r"\bw\b")
    raw = wire.tensor("w", wire.FLOAT, (4,), DATA[:16], sound)
    case("entries-raw_and_external", plain(usual_model(raw), {"w.bin": DATA}), False, r"\bw\b")
    kept = wire.tensor("w", wire.FLOAT, (4,), DATA[:16], more=wire.blobs(13, [wire.entry(*pair) for pair in sound]))
    case("entries-location_default", plain(usual_model(kept), {"w.bin": DATA}), None)
    odd = wire.tensor("w", wire.FLOAT, (4,), DATA[:16], more=wire.uint(14, 7))
    case("entries-data_location_7", plain(usual_model(odd)), None)


# ---- protobuf


def nested_types(depth):
    """A model whose deepest message lies `depth` messages below the ModelProto: sequences of sequences."""
    body, below = wire.uint(1, wire.FLOAT), 4  # graph, value, type, tensor type
    if (depth - below) % 2:
        body, below = (wire.uint(1, wire.FLOAT) + wire.blob(2, b""), below + 1)  # an empty shape for parity
    kind = wire.blob(1, body)
    kind = wrapped(kind, (depth - below) // 2, (b"\x22", b"\x0a"))
    values = wire.blob(13, wire.blob(1, "unused") + wire.blob(2, kind))
    return usual_model(wire.tensor("w", wire.FLOAT, (4,), DATA[:16]), more=values)


def nested_graphs(depth):
    """Graphs in attributes of nodes in graphs: three messages a turn."""
    turns = (depth - 1) // 3
    tail = wire.blob(1, "a") + wire.uint(20, 5)
    body = wrapped(b"", turns, (b"\x0a", b"\x2a", b"\x32"), tails=(b"", tail, b""))
    return wire.uint(1, 8) + wire.blob(7, body) + wire.blob(8, wire.opset(17))


def wrapped(body, turns, tags, tails=None):
    """Put `body` into `turns` × len(tags) messages, in linear time: heads are collected from the inside out."""
    tails = tails or (b"",) * len(tags)
    heads, ends, size = [], [], len(body)
    for _ in range(turns):
        for key, tail in zip(reversed(tags), reversed(tails), strict=True):
            ends.append(tail)
            size += len(tail)
            heads.append(key + wire.varint(size))
            size += len(heads[-1])
    return b"".join(reversed(heads)) + body + b"".join(ends)


def with_field(more, message="model"):
    """The sound inline model with extra bytes at the end of the model, the graph, the node or the tensor."""
    weight = wire.tensor("w", wire.FLOAT, (4,), DATA[:16], more=more if message == "tensor" else b"")
    node = wire.node("Add", ["x", "w"], ["y"], name="add") + (more if message == "node" else b"")
    graph = usual_graph([weight], [node], more=more if message == "graph" else b"")
    return wire.model(graph, more=more if message == "model" else b"")


SOUND = with_field(b"")


def protobuf_cases():
    for depth, accepted in {99: True, 100: True, 101: False, 102: False, 10_000: False}.items():
        case(f"nesting-types_{depth}", plain(nested_types(depth)), accepted, r"nest|deep|depth")
    case("nesting-types_1000000", lambda folder: write(folder, nested_types(1_000_000)), False, r"nest|deep|depth")
    case("nesting-graphs_10000", plain(nested_graphs(10_000)), False, r"nest|deep|depth")
    groups = wire.tag(200, wire.GROUP) * 10_000 + wire.tag(200, wire.END_GROUP) * 10_000
    case("nesting-groups_10000", plain(with_field(groups)), False)

    unknown = 200
    field = lambda wire_type: wire.tag(unknown, wire_type)  # noqa: E731
    varints = {
        "minus_one_in_10_bytes": (wire.uint(unknown, -1), True),
        "overlong": (field(0) + wire.overlong(5, 4), True),
        "overlong_10": (field(0) + wire.overlong(5, 10), True),
        "bits_past_64": (field(0) + b"\xff" * 9 + b"\x7f", None),
        "11_bytes": (field(0) + b"\x80" * 10 + b"\x01", False),
        "endless": (field(0) + b"\x80" * 64, False),
        "overlong_tag": (wire.overlong(unknown << 3, 4) + b"\x01", None),
        "tag_past_32_bits": (wire.varint((1 << 35) | unknown << 3) + b"\x01", None),
        "overlong_length": (field(2) + wire.overlong(3, 5) + b"abc", True),
    }
    for name, (more, accepted) in varints.items():
        case(f"varint-{name}", plain(with_field(more)), accepted)
    fields = {
        "zero": (b"\x00\x00", False),
        "zero_length_delimited": (b"\x02\x00", False),
        "group": (field(3) + wire.uint(1, 5) + field(4), True),
        "groups_nested": (field(3) * 3 + wire.blob(1, "abc") + field(4) * 3, True),
        "group_never_ends": (field(3) + wire.uint(1, 5), False),
        "group_ends_other": (field(3) + wire.tag(201, 4), False),
        "group_end_alone": (field(4), False),
        "type_6": (field(6) + b"\x01", False),
        "type_7": (field(7) + b"\x01", False),
        "fixed32_cut": (field(5) + b"abc", False),
        "fixed64_cut": (field(1) + b"abcdefg", False),
        "unknown_of_every_type": (
            wire.uint(unknown, 5) + field(1) + DATA[:8] + field(2) + b"\x03abc" + field(5) + DATA[:4],
            True,
        ),
        "largest_number": (wire.uint((1 << 29) - 1, 5), True),
    }
    for name, (more, accepted) in fields.items():
        case(f"field-{name}", plain(with_field(more)), accepted)
        case(f"field-{name}-in_node", plain(with_field(more, "node")), accepted)
    for name, length in {"one_more": 4, "2^31-1": (1 << 31) - 1, "2^32-1": (1 << 32) - 1, "2^63": 1 << 63}.items():
        for place in ("model", "graph", "node", "tensor"):
            lie = field(2) + wire.varint(length) + b"abc"
            case(f"length-{name}-in_{place}", plain(with_field(lie, place)), False)
    packed_cases()
    wrong_type_cases()
    repeated_cases()


def packed_cases():
    """Packed fields that claim more than there is, or end inside a number."""
    huge = wire.varint((1 << 31) - 1)
    for name, field in {"dims": 1, "float_data": 4, "int32_data": 5, "int64_data": 7, "double_data": 10}.items():
        more = wire.tag(field, wire.BYTES) + huge + b"\x01\x01"
        case(f"packed-{name}_past_end", plain(with_field(more, "tensor")), False)
    cut = wire.tensor("w", wire.INT64, (2,), more=wire.blob(7, b"\x01\x80"))
    case("packed-varint_cut", dims_of(cut), False)
    few = wire.tensor("w", wire.INT64, (3,), more=wire.packed(7, [1, 2]))
    case("packed-too_few", dims_of(few), False, r"\bw\b")
    many = wire.tensor("w", wire.INT64, (1,), more=wire.packed(7, [1, 2]))
    case("packed-too_many", dims_of(many), False, r"\bw\b")
    mixed = wire.tensor("w", wire.INT64, (4,), more=wire.packed(7, [1, 2]) + wire.uint(7, 3) + wire.packed(7, [4]))
    case("packed-and_not", dims_of(mixed), True)
    negative = wire.tensor("w", wire.INT32, (2,), more=wire.packed(5, [-1, -(1 << 31)]))
    case("packed-negative", dims_of(negative), True)


def wrong_type_cases():
    """Known fields with another wire type: protobuf takes them for unknown fields."""
    case("wrong_type-ir_version", plain(wire.blob(1, "8") + SOUND[2:]), None)
    case("wrong_type-graph", plain(wire.uint(1, 8) + wire.uint(7, 5) + wire.blob(8, wire.opset(17))), False)
    case("wrong_type-node_name", plain(with_field(wire.uint(3, 1), "node")), None)
    case("wrong_type-raw_data", dims_of(wire.tensor("w", wire.FLOAT, (4,), more=wire.uint(9, 1))), False)


def repeated_cases():
    """Singular fields given twice: the last wins, and messages merge."""
    case("repeated-ir_version", plain(SOUND + wire.uint(1, 8)), True)
    case("repeated-node_name", plain(with_field(wire.blob(3, "later"), "node")), True)
    case("repeated-op_type", plain(with_field(wire.blob(4, "Mul"), "node")), True)
    case("repeated-raw_data", plain(with_field(wire.blob(9, DATA[16:32]), "tensor")), True)
    node = wire.node("Add", ["x", "w"], ["y"], name="add")
    weight = wire.tensor("w", wire.FLOAT, (4,), DATA[:16])
    first = wire.graph([node], [], [("x", wire.FLOAT, ["n", 4])], [])
    second = wire.graph([], [weight], [], [("y", wire.FLOAT, ["n", 4])])
    head, tail = wire.uint(1, 8), wire.blob(8, wire.opset(17))
    case("repeated-graph", plain(head + wire.blob(7, first) + tail + wire.blob(7, second)), None)  # legal protobuf; weir refuses to merge two graphs
    kind = wire.blob(1, wire.uint(1, wire.FLOAT)) + wire.blob(1, wire.blob(2, wire.blob(1, wire.uint(1, 4))))
    value = wire.blob(13, wire.blob(1, "w") + wire.blob(2, kind))
    case("repeated-tensor_type", plain(with_field(value, "graph")), True)


# ---- whole files


def file_cases():
    contents = {
        "empty": b"",
        "one_byte": b"\x08",
        "text": b"This is not a model.\n",
        "gzip": gzip.compress(SOUND, mtime=0),
        "floats": DATA * 16,
        "zeros": bytes(4096),
        "json": b'{"irVersion": "8"}',
        "only_ir_version": wire.uint(1, 8),
        "no_graph": wire.uint(1, 8) + wire.blob(8, wire.opset(17)),
    }
    for name, content in contents.items():
        case(f"whole-{name}", plain(content), False, r"model\.onnx")
    case("whole-2GiB_of_zeros", huge_file(2**31 - 1), False, r"model\.onnx")
    case(
        "whole-no_opset",
        plain(wire.uint(1, 8) + wire.blob(7, usual_graph([wire.tensor("w", 1, (4,), DATA[:16])]))),
        False,
    )
    case("whole-sound", plain(SOUND), True)
    case("whole-over_2GiB", huge_model, True, large=True)


def huge_file(size):
    def make(folder):
        path = plain(b"")(folder)
        with open(path, "r+b") as file:
            file.truncate(size)
        return path

    return make


def huge_model(folder):
    """A sound model whose own file is over 2 GiB, all of it a hole: other readers refuse it, a streaming one need not."""
    rows = 1 << 28
    weight = wire.tensor("w", wire.DOUBLE, (rows,), wire.Hole(8 * rows, None))
    nodes = [wire.node("Identity", ["w"], ["v"]), wire.node("Identity", ["x"], ["y"])]
    with open(folder / "model.onnx", "wb") as file:
        model = wire.model(usual_graph([weight], nodes))
        wire.stream(model, file, lambda file, hole: file.seek(hole.size, os.SEEK_CUR))
    return folder / "model.onnx"


# ---- the graph


def graph_cases():
    weight = wire.tensor("w", wire.FLOAT, (4,), DATA[:16])
    add = wire.node("Add", ["x", "w"], ["y"], name="add")

    def refused(name, pattern, model):
        case(f"graph-{name}", plain(model), False, pattern)

    refused("duplicate_initializer", r"\bw\b", usual_model(weight, weight))
    ring = [wire.node("Add", ["x", "b"], ["a"], name="first"), wire.node("Add", ["a", "w"], ["b"], name="second")]
    close = wire.node("Identity", ["b"], ["y"])
    refused("cycle", r"cycl|order|before|first|second", usual_model(weight, nodes=[*ring, close]))
    itself = wire.node("Add", ["y", "w"], ["y"], name="snake")
    refused("cycle_of_one", r"snake|\by\b", usual_model(weight, nodes=[itself]))
    late = [wire.node("Identity", ["a"], ["y"], name="late"), wire.node("Add", ["x", "w"], ["a"])]
    case("graph-out_of_order", plain(usual_model(weight, nodes=late)), None)
    refused("undefined_input", r"nowhere", usual_model(weight, nodes=[wire.node("Add", ["x", "nowhere"], ["y"])]))
    refused("undefined_output", r"\by\b", usual_model(weight, nodes=[wire.node("Add", ["x", "w"], ["z"])]))
    refused("value_made_twice", r"\by\b", usual_model(weight, nodes=[add, add]))
    refused("node_makes_initializer", r"\bw\b", usual_model(weight, nodes=[wire.node("Neg", ["x"], ["w"]), add]))
    refused("nul_in_name", r"NUL", usual_model(weight, nodes=[wire.node("Add", ["x", "w"], ["y"], name="a\0b")]))
    nameless = wire.tensor("", wire.FLOAT, (4,), DATA[:16])
    case("graph-nameless_initializer", plain(usual_model(weight, nameless)), None)
    refused(
        "long_name",
        r"long|65536|64 KiB|name",
        usual_model(weight, nodes=[add, wire.node("Neg", ["x"], ["n" * 70_000])]),
    )
    as_input = [("x", wire.FLOAT, ["n", 4]), ("w", wire.FLOAT, [4])]
    case("graph-initializer_is_input", plain(usual_model(weight, inputs=as_input)), True)
    sparse = sparse_field("w")
    refused("initializer_sparse_twin", r"\bw\b", usual_model(weight, more=sparse))
    case("graph-sparse_initializer", plain(usual_model(weight, more=sparse_field("s"))), True)
    refused("recursive_function", r"recurs|cycl|Self", recursive_functions(["Self"]))
    refused("recursive_functions", r"recurs|cycl|Ping|Pong", recursive_functions(["Ping", "Pong"]))
    overlap = [
        wire.tensor(name, wire.FLOAT, (4,), pairs=wire.external("w.bin", at, 16)) for name, at in (("w", 0), ("v", 8))
    ]
    twins = [wire.tensor(name, wire.FLOAT, (4,), pairs=wire.external("w.bin", 0, 16)) for name in "wv"]
    case("graph-overlapping_extents", plain(usual_model(*overlap), {"w.bin": DATA}), True)
    case("graph-same_extent_twice", plain(usual_model(*twins), {"w.bin": DATA}), True)
    case("graph-bomb_of_aliases", alias_bomb, None, codes=(BAD_MODEL, NO_SPACE), large=True)
    odd = 'w\x1b[31m\n"\\\u202e'
    names = [wire.tensor(odd, wire.FLOAT, (4,), DATA[:16])]
    case("graph-odd_names", plain(usual_model(*names, nodes=[wire.node("Add", ["x", odd], ["y"], name=odd)])), True)
    short = [wire.tensor(odd, wire.FLOAT, (4,), DATA[:12])]
    # its message quotes the name: control characters must not reach a terminal
    case(
        "graph-odd_names_in_message",
        plain(usual_model(*short, nodes=[wire.node("Add", ["x", odd], ["y"])])),
        False,
        r"12",
    )


def sparse_field(name):
    """A sparse_initializer of two values among six."""
    values = wire.tensor(name, wire.FLOAT, (2,), DATA[:8])
    indices = wire.tensor("", wire.INT64, (2,), (1).to_bytes(8, "little") + (4).to_bytes(8, "little"))
    return wire.blob(15, wire.blob(1, values) + wire.blob(2, indices) + wire.uint(3, 6))


def recursive_functions(names):
    """Model-local functions, each calling the next and the last the first."""
    functions = b""
    for name, callee in zip(names, names[1:] + names[:1], strict=True):
        body = wire.node(callee, ["x"], ["y"], domain="test")
        imports = wire.blob(9, wire.opset(17)) + wire.blob(9, wire.opset(1, "test"))
        function = wire.blob(1, name) + wire.blob(4, "x") + wire.blob(5, "y") + wire.blob(7, body) + imports
        functions += wire.blob(25, function + wire.blob(10, "test"))
    call = wire.node(names[0], ["x"], ["y"], domain="test")
    return wire.model(usual_graph([], [call]), more=wire.blob(8, wire.opset(1, "test")) + functions)


def alias_bomb(folder):
    """4096 names for the same 64 MiB hole: 256 GiB if every name is written out."""
    size = 1 << 26
    pairs = wire.external("w.bin", 0, size)
    aliases = [wire.tensor(f"v{number}", wire.UINT8, (size,), pairs=pairs) for number in range(4096)]
    path = plain(usual_model(wire.tensor("w", wire.FLOAT, (4,), DATA[:16]), *aliases))(folder)
    with open(folder / "w.bin", "wb") as file:
        file.truncate(size)
    return path


def place_cases():
    """A bad tensor in every place a tensor can hang: each must be found, wherever it is."""
    bad = wire.tensor("w_bad", wire.FLOAT, (4,), pairs=wire.external("../x", 0, 16))
    good = wire.tensor("w", wire.FLOAT, (4,), DATA[:16])
    add = wire.node("Add", ["x", "w"], ["y"])
    constant = wire.node("Constant", [], ["c"], value=("t", bad))
    inner = wire.graph([wire.node("Identity", ["x"], ["i"])], [bad], [], [("i", wire.FLOAT, None)])
    outer = wire.node("If", ["flag"], ["j"], then_branch=("g", inner), else_branch=("g", inner))
    flag = ("flag", wire.BOOL, [])
    body = wire.blob(7, constant) + wire.blob(7, wire.node("Add", ["x", "c"], ["y"]))
    head = wire.blob(1, "Block") + wire.blob(4, "x") + wire.blob(5, "y")
    function = head + body + wire.blob(9, wire.opset(17)) + wire.blob(10, "test")
    call = wire.node("Block", ["x"], ["y"], domain="test")
    functions = wire.blob(8, wire.opset(1, "test")) + wire.blob(25, function)
    training = wire.blob(20, wire.blob(1, wire.graph([], [bad])))
    sparse = wire.blob(
        15, wire.blob(1, bad) + wire.blob(2, wire.tensor("", wire.INT64, (4,), bytes(32))) + wire.uint(3, 6)
    )
    models = {
        "initializer": usual_model(good, bad),
        "constant": usual_model(good, nodes=[add, constant]),
        "subgraph": usual_model(good, nodes=[add, outer], inputs=[("x", wire.FLOAT, ["n", 4]), flag]),
        "function": wire.model(usual_graph([], [call]), more=functions),
        "training": wire.model(usual_graph([good]), more=training),
        "sparse": usual_model(good, more=sparse),
    }
    for name, model in models.items():
        case(f"place-{name}", plain(model), False, r"\.\./x")


def cases():
    """All cases, in a fixed order."""
    if not CASES:
        for add in (
            path_cases,
            link_cases,
            number_cases,
            dims_cases,
            dtype_cases,
            entry_cases,
            protobuf_cases,
            file_cases,
            graph_cases,
            place_cases,
        ):
            add()
    return CASES


# ---- every byte, every length


def small_model():
    """Some 600 bytes with a bit of everything: typed and raw payloads, a Constant, a subgraph, a function, metadata."""
    branch = lambda op: wire.graph([wire.node(op, ["s"], ["b" + op])], [], [], [("b" + op, wire.FLOAT, None)])  # noqa: E731
    nodes = [
        wire.node("Add", ["x", "w"], ["a"], name="add"),
        wire.node("Constant", [], ["c"], value=("t", wire.tensor("", wire.FLOAT, (4,), more=wire.blob(4, DATA[:16])))),
        wire.node("Conv", ["img", "k"], ["s"], name="conv", strides=[1, 1], auto_pad="VALID"),
        wire.node("If", ["flag"], ["t"], then_branch=("g", branch("Neg")), else_branch=("g", branch("Abs"))),
        wire.node("Twice", ["a"], ["y"], domain="test"),
    ]
    initializers = [
        wire.tensor("w", wire.FLOAT, (4,), DATA[:16]),
        wire.tensor("k", wire.FLOAT, (2, 1, 1, 1), DATA[:8]),
        wire.tensor("i", wire.INT64, (2,), more=wire.packed(7, [-1, 300])),
    ]
    inputs = [("x", wire.FLOAT, ["n", 4]), ("img", wire.FLOAT, [1, 1, 3, 3]), ("flag", wire.BOOL, [])]
    graph = wire.graph(nodes, initializers, inputs, [("y", wire.FLOAT, ["n", 4]), ("t", wire.FLOAT, [1, 2, 3, 3])])
    twice = (
        wire.blob(1, "Twice")
        + wire.blob(4, "p")
        + wire.blob(5, "q")
        + wire.blob(7, wire.node("Add", ["p", "p"], ["q"]))
    )
    function = wire.blob(25, twice + wire.blob(9, wire.opset(17)) + wire.blob(10, "test"))
    metadata = wire.blob(14, wire.entry("author", "nobody"))
    return wire.model(graph, more=wire.blob(8, wire.opset(1, "test")) + metadata + function)


def truncations(data=None):
    """Yield (length, bytes, accepted) for every proper beginning.

    Cut between two fields of the model behind the graph, it is a model again (accepted None); else it is not (False).
    """
    data = small_model() if data is None else data
    ends, complete, at = set(), False, 0
    for field in wire.split(data):
        at += len(with_lie([field], None, None))
        complete = complete or field[0] == 7
        if complete:
            ends.add(at)
    for length in range(len(data)):
        yield length, data[:length], None if length in ends else False


def broken_lengths(data=None):
    """Yield (name, bytes, accepted), one for every length field and lie.

    A length past the end is never right (False). With 0 the body is read as fields of the message around it, which
    can make sense by chance (None).
    """
    data = small_model() if data is None else data
    tree = wire.split(data)
    for place in length_fields(tree):
        for name, lie in LIES.items():
            broken = with_lie(tree, place, lie)
            if broken != data:
                yield f"{'.'.join(map(str, place))}={name}", broken, None if lie == 0 else False


def length_fields(fields, place=()):
    """Index paths of all length-delimited fields of a split message."""
    for number, (_, wire_type, _, body) in enumerate(fields):
        if wire_type == wire.BYTES:
            yield (*place, number)
            if isinstance(body, list):
                yield from length_fields(body, (*place, number))


def with_lie(fields, place, lie):
    """The message again, with `lie` for the length of the field at `place` (None: no lie)."""
    out = b""
    for number, (_, wire_type, head, body) in enumerate(fields):
        here = place is not None and number == place[0]
        if isinstance(body, list):
            body = with_lie(body, place[1:] if here and len(place) > 1 else None, lie)
        if wire_type == wire.BYTES:
            head += wire.varint(lie if here and len(place) == 1 else len(body))
        out += head + body
    return out


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to put one folder a case")
    parser.add_argument("--only", default="", help="cases whose name begins so")
    options = parser.parse_args(argv)
    for each in cases():
        if each.name.startswith(options.only):
            folder = options.folder / each.name
            folder.mkdir(parents=True)
            word = {True: "legal", False: f"refused {each.codes}", None: "either"}[each.accepted]
            print(f"{each.make(folder)}  {word}  {' '.join(each.flags)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
