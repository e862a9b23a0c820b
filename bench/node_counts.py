#!/usr/bin/env python3
"""How many nodes are left: of other graph optimizers, of ONNX Runtime's levels, and of weir.

    WEIR=build/plain/weir bench/node_counts.py [MODEL...]        without models: those of the tests and of the packages they install

The table of docs/optimize.md. Each model is a copy with random biases and gains; only results that ONNX Runtime finds right count
(tests/support/peers.py, which also makes the environment of the others). Columns: `least` of those that write ONNX, ONNX Runtime's basic level
among them, and whose it is; `optimize` and `preprocess` of weir; the runtime's extended level, and weir's `--goal onnxruntime`.
Exits with 1 if weir leaves more than one that it stands next to.
"""

import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "e2e")]

import peers  # noqa: E402

OURS = {"optimize": ["optimize"], "preprocess": ["preprocess"], "goal": ["optimize", "--goal", "onnxruntime"]}


def models():
    from conftest import DATA, package_models

    found = [*sorted((DATA / "exports").glob("*.onnx")), *sorted(DATA.glob("parakeet-*/encoder-model.onnx")), *sorted(DATA.glob("qat/*.onnx")), *sorted(DATA.glob("tied/*.onnx"))]
    return [*found, *(path for package in ("silero_vad", "magika", "rapidocr") for path in package_models(package))]


def name_of(path):
    """As docs/optimize.md has it."""
    if path.parent.name == "qat":
        return f"qat-{path.stem}"
    return path.parent.name if path.stem == "encoder-model" or path.parent.name == "tied" else "magika" if "magika" in path.parts else path.stem


def told(count):
    return "-" if count is None else str(count)


def main(words):
    interpreter, worse = peers.python(), 0
    print("| model | nodes | least | optimize | preprocess | extended | `--goal onnxruntime` |", flush=True)
    print("|---|---|---|---|---|---|---|", flush=True)
    for path in [Path(word) for word in words] or models():
        with tempfile.TemporaryDirectory() as folder:
            copy, found = peers.row(path, folder, interpreter)
            own = {name: peers.ours(command, copy, Path(folder) / f"{name}.onnx", path) for name, command in OURS.items()}
            for who, (count, why) in {**found, **own}.items():
                if count is None:
                    print(f"    {name_of(path)}: {who}: {why[:160]}", file=sys.stderr, flush=True)
            extended, _ = found.pop(peers.EXTENDED)
            least, who = min(((count, who) for who, (count, _) in found.items() if count is not None), default=(None, ""))
            made = {name: count for name, (count, _) in own.items()}
            print(f"| {name_of(path)} | {peers.nodes(copy)} | {told(least)} ({who}) |", *(f"{told(made[name])} |" for name in ("optimize", "preprocess")),
                  f"{told(extended)} | {told(made['goal'])} |", flush=True)  # fmt: skip
            worse += least is not None and (made["optimize"] is None or made["optimize"] > least)
            worse += extended is not None and (made["goal"] is None or made["goal"] > extended)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
