"""GPTQ in dense float64 arrays, as the paper has it: a Hessian, its inverse, the upper factor of that, and updates of all
rows that are left. What weir computes in tiles and by another formula (src/stream/eval/quantize/eval_gptq.c) is held
against the errors of this. Also the companion of RANGES: tiles of second moments."""

import hashlib
import json
import os

import numpy as np

SIDE = 512


def tiles(gram):
    """The bytes of src/tensor_stats/second_moments.h."""
    k = len(gram)
    at = range(0, k, SIDE)
    return b"".join(np.ascontiguousarray(gram[i:i + SIDE, j:j + SIDE], "<f8").tobytes()
                    for i in at for j in at if j <= i)


def nbits_parameters(block, bits, symmetric):
    """Scale and zero point of each column of a block, as MLAS finds them for MatMulNBits."""
    block = block.astype(np.float32)
    if symmetric:
        lo, hi = block.min(0), block.max(0)
        scale = -np.where(np.abs(lo) >= np.abs(hi), lo, hi) / np.float32(1 << (bits - 1))
        return scale, np.full(len(scale), 1 << (bits - 1))
    lo, hi = np.minimum(block.min(0), 0), np.maximum(block.max(0), 0)
    scale = (hi - lo) / np.float32((1 << bits) - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        zero = np.where(scale != 0, np.clip(np.floor(-lo / scale + np.float32(0.5)), 0, (1 << bits) - 1), 0)
    return scale, zero


def codes_of(rows, scale, zero, bits):
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scale != 0, np.clip(np.rint(rows / scale + zero), 0, (1 << bits) - 1), zero)


def dampened(gram):
    h = gram.astype(np.float64).copy()
    d = np.diag(h).copy()
    mean = d[d > 0].mean() if (d > 0).any() else 1.0
    h[np.diag_indices(len(h))] = np.where(d > 0, d, mean) + 0.01 * mean
    return h


def rtn(w, bits, block, symmetric):
    out = np.empty(w.shape, np.float64)
    for g in range(0, len(w), block):
        scale, zero = nbits_parameters(w[g:g + block], bits, symmetric)
        out[g:g + block] = (codes_of(w[g:g + block].astype(np.float64), scale.astype(np.float64), zero, bits)
                            - zero) * scale.astype(np.float64)
    return out


def gptq(w, gram, bits, block, symmetric):
    """What W [K, N] is stored as."""
    w = w.astype(np.float64).copy()
    w[np.diag(gram) == 0] = 0
    u = np.linalg.cholesky(np.linalg.inv(dampened(gram))).T
    out = np.empty_like(w)
    for i in range(len(w)):
        if i % block == 0:
            scale, zero = nbits_parameters(w[i:i + block], bits, symmetric)
            scale = scale.astype(np.float64)
        out[i] = (codes_of(w[i], scale, zero, bits) - zero) * scale
        e = (w[i] - out[i]) / u[i, i]
        w[i + 1:] -= np.outer(u[i, i + 1:], e)
    return out


def output_error(w, stored, gram):
    """tr(EᵀGE): the squared error of the output over all rows that the second moments are of."""
    e = w.astype(np.float64) - stored
    return float(np.einsum("ij,ij->", e, gram @ e))


def unpacked(codes, scales, zeros, bits, k):
    """What codes, scales and zero points of MatMulNBits stand for, [K, N]."""
    n, blocks, _ = codes.shape
    per = 8 // bits
    shifts = np.arange(per, dtype=np.uint8) * bits
    spread = lambda x: ((x[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*x.shape[:-1], -1)
    c = spread(codes.astype(np.uint8)).astype(np.float64)
    z = (np.full((n, blocks), 1 << (bits - 1)) if zeros is None
         else spread(zeros.reshape(n, -1).astype(np.uint8))[:, :blocks])
    values = (c - z[..., None]) * scales.reshape(n, blocks)[..., None].astype(np.float64)
    return values.reshape(n, -1)[:, :k].T


def write_ranges(path, model, moments, means=True):
    """RANGES and RANGES.data of a model file for {value: X}, X the rows that the value had (any leading dims)."""
    data, lines = b"", []
    for name, x in moments.items():
        x = np.asarray(x, np.float32).reshape(-1, x.shape[-1]).astype(np.float64)
        data += b"\0" * (-len(data) % 64)
        own = tiles(x.T @ x)
        least, most = min(x.min(), 0.0), max(x.max(), 0.0)
        lines.append({"value": name, "type": "float", "min": float(least).hex(), "max": float(most).hex(),
                      "elements": x.size,
                      "channels": {"axis": -1, "n": x.shape[1], "mean_abs": "".join(
                          "%08x" % b for b in np.abs(x).mean(0).astype(np.float32).view(np.uint32))},
                      "gram": {"k": x.shape[1], "rows": len(x), "at": len(data), "bytes": len(own),
                               "sha256": hashlib.sha256(own).hexdigest()}})
        if not means:
            del lines[-1]["channels"]
        data += own
    head = {"weir_ranges": 1, "weir": "0", "source": {"name": os.path.basename(model)}, "passes": [], "runtime": "",
            "method": "minmax", "samples": {"n": 1, "sha256": "0" * 64},
            "data": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    text = "".join(json.dumps(x, separators=(",", ":")) + "\n" for x in [head] + lines)
    text += json.dumps({"end": len(lines), "sha256": hashlib.sha256(text.encode()).hexdigest()},
                       separators=(",", ":")) + "\n"
    with open(path, "w") as f:
        f.write(text)
    with open(str(path) + ".data", "wb") as f:
        f.write(data)


def scaled_rtn(w, s, bits, block, symmetric):
    """What W stands for where its rows are quantized times s."""
    return rtn((w * s[:, None]).astype(np.float32), bits, block, symmetric) / s[:, None].astype(np.float64)


def ridged(gram, rows):
    """Second moments of few rows count as less certain, as eval_moments.c says."""
    return gram + 0.3 * len(gram) / rows * np.diag(gram).mean() * np.eye(len(gram))


def awq_scales(weights, mean, gram, rows, bits, block, symmetric):
    """The scales of llm-awq's search, by the error of the output, of those that make no weight's error larger."""
    gram, part = ridged(gram, rows), len(mean) / (len(mean) + 10 * rows)
    mean = mean.astype(np.float64)
    mean = (mean + (mean.mean() - mean) * part).astype(np.float32).astype(np.float64)
    best = None
    for i in range(20):
        s = np.maximum(mean ** (i / 20), 1e-4).astype(np.float32).astype(np.float64)
        s = (s / np.sqrt(s.max() * s.min())).astype(np.float32)
        errors = [output_error(w, scaled_rtn(w, s, bits, block, symmetric), gram) for w in weights]
        if best is None:
            plain = errors
        if best is None or (sum(errors) < best[0] and all(a <= b for a, b in zip(errors, plain))):
            best = sum(errors), s
    return best[1]


def awq(w, s, gram, rows, bits, block, symmetric):
    """What W stands for with rows times s and the ranges of blocks cut down, one after the other, as whole columns want it."""
    scaled, gram = (w * s[:, None]).astype(np.float32), ridged(gram, rows)
    by = s[:, None].astype(np.float64)
    out = scaled_rtn(w, s, bits, block, symmetric)
    errors = scaled / by - out
    sums = gram @ errors
    for g in range(0, len(w), block):
        at = slice(g, g + block)
        low, high = np.minimum(scaled[at].min(0), 0), np.maximum(scaled[at].max(0), 0)
        least, best = np.zeros(w.shape[1]), np.zeros(scaled[at].shape)
        for i in range(1, 10):
            part = 1 - i / 20
            cut = np.clip(scaled[at], (low.astype(np.float64) * part).astype(np.float32), (high.astype(np.float64) * part).astype(np.float32))
            scale, zero = nbits_parameters(cut, bits, symmetric)
            scale = scale.astype(np.float64)
            stored = (codes_of(scaled[at].astype(np.float64), scale, zero, bits) - zero) * scale / by[at]
            d = scaled[at] / by[at] - stored - errors[at]
            more = (d * (2 * sums[at] + gram[at, at] @ d)).sum(0)
            out[at], best = np.where(more < least, stored, out[at]), np.where(more < least, d, best)
            least = np.minimum(more, least)
        errors[at] += best
        sums += gram[:, at] @ best
    return out
