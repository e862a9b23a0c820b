"""RANGES as `weir calibrate` writes it, made of NumPy arrays: what passes that read it are tested with."""

import hashlib
import json

import numpy as np


def hexes(values):
    return np.asarray(values, ">f4").tobytes().hex()


def line_of(name, samples, axis=None):
    """What is known of a value by arrays of it; by channel along the axis, if one is given."""
    row = {"value": name, "type": "float"}
    row["min"] = float(min(x.min() for x in samples)).hex()
    row["max"] = float(max(x.max() for x in samples)).hex()
    row["elements"] = int(sum(x.size for x in samples))
    if axis is not None:
        rows = np.concatenate([np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis]) for x in samples])
        row["channels"] = {
            "axis": axis,
            "n": rows.shape[1],
            "min": hexes(rows.min(0)),
            "max": hexes(rows.max(0)),
            "mean_abs": hexes(np.abs(rows.astype(np.float64)).mean(0)),
        }
    return row


def text_of(rows):
    head = {
        "weir_ranges": 1,
        "weir": "0",
        "source": {"name": "m.onnx"},
        "passes": [],
        "runtime": "1",
        "method": "minmax",
        "samples": {"n": 1, "sha256": "00" * 32},
    }
    lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in [head, *rows])
    end = {"end": len(rows), "sha256": hashlib.sha256(lines.encode()).hexdigest()}
    return lines + json.dumps(end, separators=(",", ":")) + "\n"


def write(path, samples, axes=None):
    """samples: {name: arrays of a value}; axes: {name: the axis of its channels}."""
    path.write_text(text_of([line_of(name, arrays, (axes or {}).get(name)) for name, arrays in samples.items()]))
    return path
