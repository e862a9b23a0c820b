#!/usr/bin/env python3
"""Small models as PyTorch's two exporters write them: tests/data/exports/NAME-EXPORTER-OPSET.onnx.

    python tests/support/export_models.py tests/data/exports [NAME-EXPORTER-OPSET ...]

needs, in an environment of its own (the tests need none of it):

    pip install torch==2.13.0 transformers==5.23.0 onnxscript==0.7.2 onnx==1.23.2 onnxruntime==1.31.1

The architectures are the real ones (transformers' BERT, GPT-2, Llama, ViT) with two layers and a few channels; the CNN is
written here. Weights are random from a seed, and none is what it is before a training: no bias is zero, no gain or variance
one, so that who drops an addition because untrained models add zeros there gives other numbers. Symbols are `batch` and
`seq` (CNN: `batch`, `height`, `width`). What each model has:

| name | patterns |
|---|---|
| bert | positions by a slice of a table, attention with a mask, LayerNormalization, GELU by erf |
| gpt2 | Q, K, V from one product (a Gemm between Reshapes), causal mask, GELU by tanh, tied embedding |
| llama | RMSNorm, rotary embedding, four heads over two (GQA), SiLU, causal mask |
| vit | patches by a Conv, a class token that Expand spreads, LayerNormalization, GELU by erf |
| cnn | BatchNormalization behind Conv, depthwise Conv, ConvTranspose, Gemm; Pad before MaxPool and Conv; ceil_mode |

`eager` and `sdpa` are the two ways in which transformers writes attention; `rows` is sdpa with positions for each row of the
batch, without which the exporter's RotaryEmbedding (23) has caches that only a batch of one may have. `kept` is a CNN whose
BatchNormalizations the exporter was told to keep, `folded` one in which it put them into the weights.

NAME.npz has inputs at two bindings of the symbols and what PyTorch made of them, `first.INPUT`, `first.y`, `second...`: the
numbers of all files of that name. Each file is compared with them in ONNX Runtime before it is kept. Stack traces of the
machine that made a file are taken out of it.
"""

import argparse
import logging
import sys
import warnings
from pathlib import Path

# transformers asks whether there is a package hqq, and this folder has a file of that name.
HERE = Path(__file__).resolve().parent
sys.path = [each for each in sys.path if each and Path(each).resolve() != HERE]

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import nn

ATTENTION = ("eager", "sdpa")
CASES = [
    *(f"{name}-eager-{how}" for name in ("bert", "gpt2", "llama", "vit") for how in ("dynamo-20", "torchscript-17")),
    *("bert-sdpa-dynamo-18", "bert-sdpa-dynamo-23", "bert-sdpa-torchscript-14", "bert-sdpa-torchscript-18"),
    *("gpt2-sdpa-dynamo-18", "gpt2-sdpa-torchscript-14"),
    *("llama-sdpa-dynamo-18", "llama-rows-dynamo-23", "llama-sdpa-torchscript-14"),
    *("vit-sdpa-dynamo-18", "vit-sdpa-torchscript-14"),
    *("cnn-folded-dynamo-20", "cnn-kept-dynamo-18", "cnn-folded-torchscript-14", "cnn-kept-torchscript-17"),
]
SIZES = {"first": (1, 5), "second": (3, 9)}  # a batch and a length


# ---- models: a module, and its inputs at a batch and a length with their names and dynamic axes


class Text(nn.Module):
    """A model of transformers with one output."""

    def __init__(self, model, output, rows=False):
        super().__init__()
        self.model, self.output, self.rows = model, output, rows

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        more = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        if self.rows:
            more["position_ids"] = torch.arange(input_ids.shape[1]).expand(input_ids.shape)
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **more)[self.output]


class Image(nn.Module):
    def __init__(self, model, output):
        super().__init__()
        self.model, self.output = model, output

    def forward(self, pixel_values):
        return self.model(pixel_values=pixel_values)[self.output]


class Cnn(nn.Module):
    """What has to be asked before a BatchNormalization or a Pad is folded, once each."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm0 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.pad = nn.ConstantPad2d((1, 1, 1, 1), 0.0)
        self.pool = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.depth, self.norm1 = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8)
        self.point, self.norm2 = nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8)
        self.up, self.norm3 = nn.ConvTranspose2d(8, 6, 2, stride=2), nn.BatchNorm2d(6)
        self.average = nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)
        self.middle, self.norm4 = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.border, self.side = nn.ZeroPad2d((1, 0, 2, 1)), nn.Conv2d(6, 6, 3, groups=2)
        self.last = nn.Linear(8, 5)

    def forward(self, image):
        x = nn.functional.hardswish(self.norm0(self.stem(image)))
        x = self.pool(self.pad(x))
        y = nn.functional.relu6(self.norm1(self.depth(x)))
        x = torch.relu(x + self.norm2(self.point(y)))
        x = self.average(self.norm3(self.up(x)))
        x = self.side(self.border(x))
        x = nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.last(nn.functional.silu(self.norm4(self.middle(x))))


TOKEN_INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


def token_inputs(count):
    def inputs(batch, length):
        numbers = np.random.Generator(np.random.PCG64(length))
        ids, types = numbers.integers(0, 60, (batch, length)), numbers.integers(0, 2, (batch, length))
        mask = np.ones_like(ids)
        mask[-1, length - 2 :] = 0
        return tuple(torch.from_numpy(each) for each in (ids, mask, types)[:count])

    return inputs, TOKEN_INPUTS[:count], [{0: "batch", 1: "seq"}] * count


def image_inputs(name, axes, size):
    def inputs(batch, length):
        numbers = np.random.Generator(np.random.PCG64(batch))
        return (torch.from_numpy(numbers.standard_normal((batch, 3, *size(length))).astype(np.float32)),)

    return inputs, [name], [axes]


def bert(way):
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                        max_position_embeddings=128, attn_implementation=way)  # fmt: skip
    return Text(BertModel(config), "last_hidden_state"), *token_inputs(3)


def gpt2(way):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=60, n_positions=128, n_embd=32, n_layer=2, n_head=4, use_cache=False,
                        attn_implementation=way)  # fmt: skip
    return Text(GPT2LMHeadModel(config), "logits"), *token_inputs(2)


def llama(way):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=60, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=128, use_cache=False,
                         attn_implementation="sdpa" if way == "rows" else way)  # fmt: skip
    return Text(LlamaForCausalLM(config), "logits", way == "rows"), *token_inputs(2)


def vit(way):
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32,
                       patch_size=8, attn_implementation=way)  # fmt: skip
    return Image(ViTModel(config), "last_hidden_state"), *image_inputs("pixel_values", {0: "batch"}, lambda _: (32, 32))


def cnn(_):
    axes = {0: "batch", 2: "height", 3: "width"}
    return Cnn(), *image_inputs("image", axes, lambda length: (4 * length + 1, 6 * length))


MODELS = {"bert": bert, "gpt2": gpt2, "llama": llama, "vit": vit, "cnn": cnn}


def randomize(model, seed):
    """No parameter and no statistic stays what a layer begins with."""
    numbers = torch.Generator().manual_seed(seed)
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if not value.is_floating_point() or "inv_freq" in name:
            continue
        noise = torch.randn(value.shape, generator=numbers)
        with torch.no_grad():
            if name.endswith("running_var"):
                value.copy_(0.3 + noise.abs())
            elif value.ndim == 1 and name.endswith("weight"):
                value.copy_(1 + 0.3 * noise)
            elif value.ndim == 1:
                value.copy_(0.2 * noise)
            else:
                value.copy_(noise / max(1, value[0].numel()) ** 0.5)


def make(name, way):
    model, inputs, names, axes = MODELS[name](way)
    model = model.eval()
    randomize(model, 7)
    return model, inputs, names, axes


# ---- exports


def export(case, path):
    name, way, exporter, opset = case.split("-")
    model, inputs, names, axes = make(name, way)
    example, common = inputs(2, 8), {"opset_version": int(opset), "input_names": names, "output_names": ["y"]}
    if exporter == "dynamo":
        sizes = {size: torch.export.Dim(size, min=1, max=128) for each in axes for size in each.values()}
        shapes = tuple({axis: sizes[size] for axis, size in each.items()} for each in axes)
        torch.onnx.export(model, example, path, dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False,
                          optimize=way != "kept", **common)  # fmt: skip
    else:
        # Otherwise this exporter folds each BatchNormalization into the Conv before it.
        modes = torch.onnx.TrainingMode
        torch.onnx.export(model, example, path, dynamo=False, dynamic_axes=dict(zip(names, axes)),
                          training=modes.PRESERVE if way == "kept" else modes.EVAL, **common)  # fmt: skip
    forget_the_machine(path)


def forget_the_machine(path):
    """Stack traces have paths of the machine in them."""
    model = onnx.load(path)
    for node in [*model.graph.node, *(node for function in model.functions for node in function.node)]:
        kept = [pair for pair in node.metadata_props if "stack_trace" not in pair.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
        node.ClearField("doc_string")
    onnx.save(model, path)
    found = Path(path).read_bytes()
    assert b"site-packages" not in found and str(Path.home()).encode() not in found, f"{path} names the machine"


def numbers_of(name, path):
    """What PyTorch computes at both bindings, written to `path`."""
    model, inputs, names, _ = make(name, ATTENTION[0])
    arrays = {}
    for label, sizes in SIZES.items():
        given = inputs(*sizes)
        arrays |= {f"{label}.{each}": value.numpy() for each, value in zip(names, given)}
        with torch.no_grad():
            arrays[f"{label}.y"] = model(*given).numpy()
    np.savez(path, **arrays)


def difference(path, numbers):
    """Largest difference between ONNX Runtime and PyTorch at both bindings, as a part of the largest output."""
    session, arrays, found = ort.InferenceSession(path, providers=["CPUExecutionProvider"]), np.load(numbers), 0.0
    for label in SIZES:
        given = {each.name: arrays[f"{label}.{each.name}"] for each in session.get_inputs()}
        y, expected = session.run(None, given)[0], arrays[f"{label}.y"]
        assert y.shape == expected.shape, (path, y.shape, expected.shape)
        found = max(found, float(np.abs(y - expected).max() / np.abs(expected).max()))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*", default=CASES)
    words = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    words.folder.mkdir(parents=True, exist_ok=True)
    for name in sorted({case.split("-")[0] for case in words.cases}):
        numbers_of(name, words.folder / f"{name}.npz")
    for case in words.cases:
        path = words.folder / f"{case}.onnx"
        export(case, path)
        off = difference(path, words.folder / f"{case.split('-')[0]}.npz")
        assert off < 1e-5, f"{case}: {off}"
        print(f"{case}: {len(onnx.load(path).graph.node)} nodes, {path.stat().st_size} bytes, {off:.1e} off")


if __name__ == "__main__":
    main()
