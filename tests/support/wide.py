#!/usr/bin/env python3
"""Write a model of one MatMul with a K x N float32 weight in a data file: for what must not depend on the largest tensor.

    x [1, K] ─ MatMul(w [K, N]) ─ y [1, N]

or, with --batch-norm, of one Conv with N inputs, K outputs and a kernel of 4 x 4, and a BatchNormalization behind it:

    x [1, N, 4, 4] ─ Conv(w [K, N, 4, 4]) ─ BatchNormalization ─ y [1, K, 1, 1]

The weight is written as a stream, a slab of rows at a time: one block of seeded normal numbers, shifted by a prime and
scaled row by row, so that neighbouring rows and columns differ.

Examples:
  wide.py wide.onnx 16384 65536      # 4 GiB
  wide.py tall.onnx 65536 1024
  wide.py conv.onnx 8192 1024 --batch-norm    # 512 MiB
"""

import argparse
from pathlib import Path

import numpy as np

import wire

SLAB_ROWS = 64


def write_weight(path, rows, columns, seed=1):
    ring = np.random.default_rng(seed).standard_normal(columns + 65521).astype(np.float32) * np.float32(0.02)
    ring = np.concatenate([ring, ring[:columns]])
    with open(path, "wb") as f:
        for start in range(0, rows, SLAB_ROWS):
            slab = np.empty((min(SLAB_ROWS, rows - start), columns), np.float32)
            for i in range(len(slab)):
                at = (start + i) * 7919 % (columns + 65521)
                slab[i] = np.resize(ring[at : at + columns], columns) * np.float32(1 + (start + i) % 13 / 16)
            f.write(slab.tobytes())


def write_model(path, rows, columns):
    path = Path(path)
    data = path.name + ".data"
    write_weight(path.parent / data, rows, columns)
    weight = wire.tensor("w", wire.FLOAT, [rows, columns], pairs=wire.external(data, 0, rows * columns * 4))
    body = wire.graph(
        [wire.node("MatMul", ["x", "w"], ["y"], name="wide")],
        [weight],
        [("x", wire.FLOAT, [1, rows])],
        [("y", wire.FLOAT, [1, columns])],
    )
    path.write_bytes(wire.model(body, opset_version=21, ir_version=10))


def write_batch_norm(path, outputs, inputs):
    path = Path(path)
    data = path.name + ".data"
    write_weight(path.parent / data, outputs, inputs * 16)
    weight = wire.tensor("w", wire.FLOAT, [outputs, inputs, 4, 4],
                         pairs=wire.external(data, 0, outputs * inputs * 16 * 4))
    rng = np.random.default_rng(2)
    vectors = [wire.tensor(name, wire.FLOAT, [outputs], raw=rng.uniform(0.5, 1.5, outputs).astype(np.float32).tobytes())
               for name in ("gamma", "beta", "mean", "var")]
    body = wire.graph(
        [wire.node("Conv", ["x", "w"], ["c"], name="wide"),
         wire.node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["y"], name="norm")],
        [weight, *vectors],
        [("x", wire.FLOAT, [1, inputs, 4, 4])],
        [("y", wire.FLOAT, [1, outputs, 1, 1])],
    )
    path.write_bytes(wire.model(body, opset_version=21, ir_version=10))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("rows", type=int)
    parser.add_argument("columns", type=int)
    parser.add_argument("--batch-norm", action="store_true", help="a Conv and a BatchNormalization")
    args = parser.parse_args()
    (write_batch_norm if args.batch_norm else write_model)(args.out, args.rows, args.columns)


if __name__ == "__main__":
    main()
