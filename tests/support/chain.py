#!/usr/bin/env python3
"""Write a chain of n Add nodes with n initializers of four floats: what costs is the index, not the weights.

    x000000 ─ Add(w000000) ─ x000001 ─ Add(w000001) ─ … ─ x<n>          all [4] float32

Names have a fixed width, so every node and every initializer takes the same number of bytes and the lengths in front
of them are known before anything is written: the file streams out in slabs of a few thousand messages, each one
formatted from a template. One million nodes (75 MB) take a few seconds and no memory to speak of.

Examples:
  chain.py 1000000 chain.onnx
"""

import argparse
import os
import struct
import sys

import wire

SLAB = 4096
VALUES = 1021  # different initializers, in turn


def templates(width):
    """The bytes of one node and one initializer as fields of the graph, with %-marks for numbers and floats."""
    sample = "0" * width
    node = wire.blob(1, wire.node("Add", ["x" + sample, "w" + sample], ["y" + sample]))
    marks = b"%%0%dd" % width
    for letter in (b"x", b"w", b"y"):
        node = node.replace(letter + sample.encode(), (b"x" if letter == b"y" else letter) + marks)
    weight = wire.blob(5, wire.tensor("w" + sample, wire.FLOAT, [4], b"\xff" * 16))
    weight = weight.replace(b"w" + sample.encode(), b"w" + marks).replace(b"\xff" * 16, b"%b")
    return node, weight


def payloads():
    """VALUES different payloads of 16 bytes, small and of both signs, so that a long chain stays finite."""
    return [
        struct.pack("<4f", *(((37 * row + 11 * column) % 4093 - 2046) / 65536 for column in range(4)))
        for row in range(VALUES)
    ]


def write_slabs(file, count, template, numbers):
    """Write `count` copies of a template; numbers(i) gives the values of copy i."""
    for first in range(0, count, SLAB):
        rows = range(first, min(count, first + SLAB))
        values = tuple(value for row in rows for value in numbers(row))
        file.write(template * len(rows) % values)


def make_chain(path, count):
    """Write the model to `path`; gives its size in bytes."""
    width = max(6, len(str(count)))
    node, weight = templates(width)
    floats = payloads()
    before = wire.blob(2, "chain")
    ends = [f"x{place:0{width}d}" for place in (0, count)]
    after = wire.blob(11, wire.value(ends[0], wire.FLOAT, [4])) + wire.blob(12, wire.value(ends[1], wire.FLOAT, [4]))
    node_bytes = len(node % (0, 0, 0))
    weight_bytes = len(weight % (0, floats[0]))
    body = count * (node_bytes + weight_bytes) + len(before) + len(after)
    with open(path, "wb") as file:
        file.write(wire.uint(1, 8) + wire.blob(2, "chain"))
        file.write(wire.tag(7, wire.BYTES) + wire.varint(body))
        write_slabs(file, count, node, lambda row: (row, row, row + 1))
        file.write(before)
        write_slabs(file, count, weight, lambda row: (row, floats[row % VALUES]))
        file.write(after)
        file.write(wire.blob(8, wire.opset(17)))
    return os.path.getsize(path)


def main(argv=None):
    summary, _, examples = __doc__.partition("Examples:")
    parser = argparse.ArgumentParser(
        description=summary, epilog="examples:" + examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int, help="how many nodes")
    parser.add_argument("out", help="the .onnx file to write")
    options = parser.parse_args(argv)
    print(f"{make_chain(options.out, options.count)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
