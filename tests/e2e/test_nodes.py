"""How few nodes are left: no more than any other optimizer leaves whose result is right, and nothing for a second run.

LEAST has the least that the peers left, of what was right at two bindings (peers.py makes the copies, runs them and
judges); EXTENDED what ONNX Runtime's extended level left, next to `--goal onnxruntime`. With `tools/test --all` they are installed and run again, and LEAST must be what they give. The
table of docs/optimize.md must not say less than is left.
"""

import os
import re
from pathlib import Path

import onnx
import pytest

import peers
import runtimes
from conftest import DATA, TESTS, package_models, program
from test_targets import ALL

pytestmark = pytest.mark.in_memory

# Nodes, bodies included, and who left them: onnxruntime's quant_pre_process (without symbolic shapes where it fails with
# them), onnxslim, onnxsim, onnxoptimizer, onnxscript, ONNX Runtime's basic level, of the versions in runtimes.PEERS.
LEAST = {
    "bert-eager-dynamo-20": (90, "onnxoptimizer"),
    "bert-eager-torchscript-17": (117, "onnxslim"),
    "bert-sdpa-dynamo-18": (120, "onnxoptimizer"),
    "bert-sdpa-dynamo-23": (81, "onnxoptimizer"),
    "bert-sdpa-torchscript-14": (162, "onnxslim"),
    "bert-sdpa-torchscript-18": (145, "onnxslim"),
    "cnn-folded-dynamo-20": (18, "onnxslim"),
    "cnn-folded-torchscript-14": (19, "onnxslim"),
    "cnn-kept-dynamo-18": (18, "onnxscript"),
    "cnn-kept-torchscript-17": (19, "onnxslim"),
    "gpt2-eager-dynamo-20": (106, "onnxsim"),
    "gpt2-eager-torchscript-17": (217, "onnxslim"),
    "gpt2-sdpa-dynamo-18": (128, "onnxsim"),
    "gpt2-sdpa-torchscript-14": (241, "onnxslim"),
    "llama-eager-dynamo-20": (162, "onnxsim"),
    "llama-eager-torchscript-17": (213, "onnxslim"),
    "llama-rows-dynamo-23": (96, "onnxsim"),
    "llama-sdpa-dynamo-18": (182, "onnxsim"),
    "llama-sdpa-torchscript-14": (219, "onnxslim"),
    "vit-eager-dynamo-20": (72, "quant_pre_process"),
    "vit-eager-torchscript-17": (89, "onnxslim"),
    "vit-sdpa-dynamo-18": (94, "onnxsim"),
    "vit-sdpa-torchscript-14": (120, "onnxslim"),
    "parakeet-dynamo": (269, "onnxslim"),
    "parakeet-torchscript": (304, "quant_pre_process"),
    "silero_vad": (116, "onnxscript"),
    "silero_vad_16k_op15": (60, "onnxscript"),
    "magika": (93, "onnxslim"),
    "PP-OCRv6_det_small": (227, "onnxsim"),
    "PP-OCRv6_rec_small": (280, "onnxslim"),
    "ch_ppocr_mobile_v2.0_cls_mobile": (179, "without sym"),
    "qat-converted": (23, "onnxruntime"),
    "qat-fake_quant": (23, "onnxscript"),
    "tied": (63, "onnxruntime"),
    "silero_vad_16k_sequence": (25, "onnxslim"),
    "silero_vad_half": (57, "onnxscript"),
    "silero_vad_op18_ifless": (90, "onnxoptimizer"),
    "silero_vad_openvino_16k": (36, "onnxruntime"),
}
# Nodes that ONNX Runtime's extended level leaves, of what was right.
EXTENDED = {
    "bert-eager-dynamo-20": 81,
    "bert-eager-torchscript-17": 114,
    "bert-sdpa-dynamo-18": 115,
    "bert-sdpa-dynamo-23": 74,
    "bert-sdpa-torchscript-14": 142,
    "bert-sdpa-torchscript-18": 142,
    "gpt2-eager-dynamo-20": 97,
    "gpt2-eager-torchscript-17": 211,
    "gpt2-sdpa-dynamo-18": 121,
    "gpt2-sdpa-torchscript-14": 239,
    "llama-eager-dynamo-20": 155,
    "llama-eager-torchscript-17": 242,
    "llama-rows-dynamo-23": 97,
    "llama-sdpa-dynamo-18": 177,
    "llama-sdpa-torchscript-14": 268,
    "vit-eager-dynamo-20": 66,
    "vit-eager-torchscript-17": 85,
    "vit-sdpa-dynamo-18": 100,
    "vit-sdpa-torchscript-14": 109,
    "parakeet-dynamo": 262,
    "parakeet-torchscript": 300,
    "qat-converted": 9,
    "qat-fake_quant": 14,
    "tied": 49,
    "silero_vad": 212,
    "silero_vad_16k_op15": 108,
    "silero_vad_16k_sequence": 21,
    "silero_vad_half": 105,
    "silero_vad_op18_ifless": 78,
    "silero_vad_openvino_16k": 31,
    "magika": 94,
    "PP-OCRv6_det_small": 158,
    "PP-OCRv6_rec_small": 169,
    "ch_ppocr_mobile_v2.0_cls_mobile": 155,
}
# There it makes operators on codes, which is what `weir requantize` is for.
ON_CODES = {"qat-converted", "qat-fake_quant"}
# What `preprocess` leaves on purpose, but the peer does not: factors of 1/2 that end a GELU.
KEPT = {("PP-OCRv6_det_small", "preprocess"): 13}
# Exports of one model, at the same opset: what TorchScript's becomes next to what dynamo's becomes.
PAIRS = [
    *((f"{model}-eager-torchscript-17", f"{model}-eager-dynamo-20", "20") for model in ("bert", "gpt2", "llama", "vit")),
    *((f"{model}-sdpa-torchscript-14", f"{model}-sdpa-dynamo-18", "18") for model in ("bert", "gpt2", "llama", "vit")),
    ("cnn-folded-torchscript-14", "cnn-folded-dynamo-20", "20"),
    ("cnn-kept-torchscript-17", "cnn-kept-dynamo-18", "18"),
    ("parakeet-torchscript", "parakeet-dynamo", "17"),
]


PAGE = (TESTS.parent / "docs" / "optimize.md").read_text()
TOLD = {
    name: {"least": int(least), "optimize": int(optimize), "preprocess": int(preprocess), "extended": extended, "goal": int(goal)}
    for name, least, optimize, preprocess, extended, goal in re.findall(
        r"^\| (\S+) \| \d+ \| (\d+) \([\w ]+\) \| (\d+) \| (\d+)(?: \([^|]+\))? \| (\S+) \| (\d+) \|$", PAGE, re.M)
}


def path_of(name):
    if (DATA / name).is_dir():
        return DATA / name / ("model.onnx" if name == "tied" else "encoder-model.onnx")
    if (DATA / "exports" / f"{name}.onnx").is_file():
        return DATA / "exports" / f"{name}.onnx"
    if name.startswith("qat-"):
        return DATA / "qat" / f"{name.removeprefix('qat-')}.onnx"
    if name == "magika":
        [path] = package_models("magika")
        return path
    [path] = [each for package in ("rapidocr", "silero_vad") for each in package_models(package) if each.stem == name]
    return path


@pytest.fixture(scope="module")
def optimized(weir, module_folder):
    """The path of what a command makes of the copy of a model; each is made once."""

    def make(name, command, *words):
        out = module_folder / "-".join([name, command, *(word.strip("-") for word in words)])
        out = out.with_name(f"{out.name}.onnx")
        if not out.exists():
            copy = module_folder / f"{name}.onnx"
            if not copy.exists():
                peers.with_numbers(path_of(name), copy)
            weir(command, copy, out, *words)
        return out

    return make


@pytest.mark.parametrize("command", ["optimize", "preprocess"])
@pytest.mark.parametrize("name", LEAST)
def test_no_more_than_peers_leave(weir, tmp_path, optimized, name, command):
    out = optimized(name, command)
    assert peers.nodes(out) <= TOLD[name][command] <= LEAST[name][0] + KEPT.get((name, command), 0)
    assert LEAST[name][0] == TOLD[name]["least"]
    if command == "optimize":
        assert {node.domain for node in onnx.load(out).graph.node} <= {"", "ai.onnx"}
    again = weir(command, out, tmp_path / "again.onnx")
    assert "nothing changed" in again.out and (tmp_path / "again.onnx").read_bytes() == out.read_bytes()


@pytest.mark.parametrize("name", LEAST)
def test_no_more_than_the_extended_level_leaves(optimized, name):
    left = peers.nodes(optimized(name, "optimize", "--goal=onnxruntime"))
    assert left <= TOLD[name]["goal"] and TOLD[name]["extended"] == str(EXTENDED.get(name, "-"))
    assert left <= EXTENDED.get(name, left) or name in ON_CODES


@pytest.mark.parametrize("one,other,opset", PAIRS, ids=lambda word: word if "-" in word else "")
def test_exporters_meet(optimized, one, other, opset):
    assert peers.nodes(optimized(one, "optimize", "--opset", opset)) <= peers.nodes(optimized(other, "optimize"))


def test_copies_have_other_numbers(module_folder, optimized):
    """Untrained exports have zeros for biases: whoever drops the additions is found out."""
    optimized("parakeet-dynamo", "optimize")
    assert "off by" in peers.wrong(path_of("parakeet-dynamo"), module_folder / "parakeet-dynamo.onnx", path_of("parakeet-dynamo"))


@pytest.mark.skipif(not ALL, reason="with tools/test --all")
@pytest.mark.parametrize("name", LEAST)
def test_what_peers_leave(tmp_path, name):
    try:
        interpreter = peers.python()
    except runtimes.Missing as why:
        pytest.skip(str(why))
    os.environ["WEIR"] = program("WEIR")
    path = path_of(name)
    copy, found = peers.row(path, tmp_path, interpreter)
    assert found.pop(peers.EXTENDED)[0] == EXTENDED.get(name)
    counts = {peer: count for peer, (count, _) in found.items() if count is not None}
    least, who = LEAST[name]
    assert (min(counts.values()), counts[who]) == (least, least), found
    for command in ("optimize", "preprocess"):
        count, why = peers.ours([command], copy, Path(tmp_path) / f"{command}.onnx", path)
        assert why == "" and count <= least + KEPT.get((name, command), 0)
