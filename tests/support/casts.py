#!/usr/bin/env python3
"""Prints tests/kernels/casts.def: what onnx's reference implementation makes of Cast between all
number types, for numbers around every border.

Rows: FROM(type, inputs) and CAST(from, to, saturate, outputs), elements as hexadecimal bits; "-" where
ONNX leaves the result open, or its text and its reference differ (kernels_convert.h).
"""
import sys
import warnings

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper
from onnx.reference.ops.op_cast import cast_to

FLOATS = "FLOAT DOUBLE FLOAT16 BFLOAT16".split()
FLOAT8 = "FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ".split()
SMALL = "FLOAT6E2M3 FLOAT6E3M2 FLOAT4E2M1".split()  # no infinity, no NaN
INTEGERS = {f"{s}INT{b}": (s, b) for b in (2, 4, 8, 16, 32, 64) for s in ("U", "")}
SOURCES = FLOATS + FLOAT8 + ["FLOAT8E8M0"] + SMALL + list(INTEGERS) + ["BOOL"]
TARGETS = [t for t in SOURCES if t != "FLOAT8E8M0"]  # as a target its own test holds it to the text

NUMBERS = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, 3.5, 0.75, 0.25, 3, -2, 5, 6, 6.9, 7, 7.5, 7.75, -8, -9, 15,
           16, 28, 30, 31, 127, 128, -128, -129, 240, 247, 248, 249, 255, 256, 448, 464, 465, 480, 32767,
           -32768, 65504, 65519, 65520, 57344, 61439, 61440, 65535, 65536, 2**24 + 2, 2**31, -(2**31), 2**32,
           2**62, 2**63, -(2.0**63), 1e30, -1e30, 2.0**-6, 2.0**-10, 2.0**-9, 1.5 * 2**-10, 2.0**-17, 2.0**-18,
           2.0**-24, 2.0**-25, -(2.0**-60), 3.4e38, np.inf, -np.inf, np.nan, -np.nan]


def numpy_type(name):
    return helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))


def bits_of(array):
    return array.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize])


def inputs(name):
    if name == "BOOL":
        return np.array([False, True])
    if name in INTEGERS:
        sign, bits = INTEGERS[name]
        low, high = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        some = [low, low + 1, -1, 0, 1, 3, 5, 7, 8, 17, 100, 200, 249, 465, 1000, 65519, 65520, 2**24 + 1,
                2**31 + 1, 2**40 + 2**32, high - 1, high]
        return np.array(sorted({x for x in some if low <= x <= high})).astype(numpy_type(name))
    if name in FLOATS:
        return np.array(NUMBERS).astype(numpy_type(name))
    codes = {4: 16, 6: 64}.get({"FLOAT4E2M1": 4, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}.get(name, 8), 256)
    return np.arange(codes, dtype=np.uint8)[:: 1 if codes < 256 else 5].copy().view(numpy_type(name))


def is_open(source, values, target, results):
    """A mask of elements whose result is open."""
    wide = values.astype(np.float64)
    none = np.zeros(len(values), bool)
    if target in INTEGERS and source not in INTEGERS and source != "BOOL":
        sign, bits = INTEGERS[target]
        low, high = (0.0, 2.0**bits) if sign else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
        whole = np.trunc(wide)
        return ~((whole >= low) & (whole < high))
    if target in SMALL and source != target:
        none |= np.isnan(wide)
        if target != "FLOAT4E2M1":
            none |= (bits_of(results) & 63) == 32
    return none


def reference(source, target, saturate):
    values = inputs(source)
    if source == target:
        return values, values
    return values, cast_to(values, getattr(TensorProto, target), saturate)


def text(array, mask, name):
    bits = {"FLOAT4E2M1": 4, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}.get(name)
    bits = bits or (INTEGERS[name][1] if name in INTEGERS else 8 * array.dtype.itemsize)
    words = ["-" if m else f"{int(b) & (2**bits - 1):x}" for b, m in zip(bits_of(array), mask)]
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > 90:
            lines.append(line)
            line = ""
        line += word + " "
    return "\n     ".join(f'"{x}"' for x in lines + [line])


def table():
    out = ["// Made by tests/support/casts.py, from onnx's reference implementation of Cast."]
    for source in SOURCES:
        values = inputs(source)
        out.append(f"FROM({source},\n     {text(values, np.zeros(len(values), bool), source)})")
        for target in TARGETS:
            for saturate in (True, False) if target in FLOAT8 else (True,):
                try:
                    values, results = reference(source, target, saturate)
                except TypeError:  # the reference cannot (ml_dtypes has no such conversion)
                    continue
                mask = is_open(source, values, target, results)
                out.append(f"CAST({source}, {target}, {str(saturate).lower()},\n     {text(results, mask, target)})")
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    sys.stdout.write(table())
