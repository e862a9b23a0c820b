#!/usr/bin/env python3
"""Export the real architecture: transformers' ParakeetEncoder through both of PyTorch's exporters.

make_encoder.py (tests/support) writes an encoder of any size without PyTorch; this program gives the graphs that
people really have. The two exporters lay the same network out very differently:

  dynamo       one sidecar `<out>.data`, weights as plain initializers, opset 20, stack traces in the metadata of
               every node
  torchscript  opset 17; past 2 GB it writes one file a tensor, named like the tensor, and it merges initializers of
               equal content: all but the first user of a merged bias see it through an Identity node

Nothing is downloaded, weights are random and seeded. Biases, normalization statistics and gains are drawn too, so
that no two tensors are equal and a bias that gets lost shows in the numbers. `--fresh-bias` makes all biases of one
length equal instead, as in a model that nobody trained: that is what the torchscript exporter merges.

Two things are done to what the exporters give, so that the files depend on the options and the package versions only:
folders are cut from the stack traces, and a small torchscript export, which the exporter keeps inline, is laid out as
the large ones are (`--inline` leaves it alone).

Examples:
  export_parakeet.py encoder-model.onnx                                    2.4 GB, about 90 s and 3 GB of memory
  export_parakeet.py --exporter torchscript --fresh-bias out/encoder-model.onnx
  export_parakeet.py --hidden 64 --layers 2 small/encoder-model.onnx

The fixtures tests/data/parakeet-dynamo and tests/data/parakeet-torchscript were made by
  SMALL="--hidden 64 --layers 2 --ff 128 --heads 4 --channels 16 --mels 32"
  export_parakeet.py $SMALL --lean tests/data/parakeet-dynamo/encoder-model.onnx
  export_parakeet.py $SMALL --exporter torchscript --fresh-bias tests/data/parakeet-torchscript/encoder-model.onnx
"""

import argparse
import os
import re
import sys
import time

import torch
from transformers import ParakeetEncoder, ParakeetEncoderConfig

# A tensor under this many bytes stays in the .onnx file when the torchscript exporter goes external.
TORCHSCRIPT_EXTERNAL_BYTES = 1024
FRAMES_BEFORE_TRACE = 200


class Encoder(torch.nn.Module):
    """The encoder with one tensor out; exporters name outputs by position."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, audio_signal, attention_mask):
        return self.encoder(audio_signal, attention_mask=attention_mask).last_hidden_state


def make_config(options):
    config = ParakeetEncoderConfig(
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=options.ff or 4 * options.hidden,
        num_mel_bins=options.mels,
        subsampling_factor=8,
        subsampling_conv_channels=options.channels,
        attention_bias=True,
        convolution_bias=True,
        conv_kernel_size=9,
    )
    config._attn_implementation = "eager"
    return config


def draw_small_tensors(encoder, seed, fresh_bias):
    """Give every bias, gain and running statistic a value of its own, or with `fresh_bias` one value per length."""
    named = list(encoder.named_parameters()) + list(encoder.named_buffers())
    for place, (name, tensor) in enumerate(named):
        if not tensor.is_floating_point() or not name.endswith(("bias", "norm.weight", "_mean", "_var")):
            continue
        merged = fresh_bias and name.endswith(".bias")
        generator = torch.Generator().manual_seed(seed + (tensor.numel() if merged else 1_000_003 * (place + 1)))
        noise = 0.05 * torch.randn(tensor.shape, generator=generator)
        centre = 1.0 if name.endswith(("norm.weight", "_var")) else 0.0
        with torch.no_grad():
            tensor.copy_(centre + noise)


def make_encoder(options):
    torch.manual_seed(options.seed)
    encoder = ParakeetEncoder(make_config(options)).eval()
    draw_small_tensors(encoder, options.seed, options.fresh_bias)
    return Encoder(encoder).eval()


def tidy_notes(model, lean):
    """Stack traces name the files of this machine; keep the part from the package (or the file name) on.

    `lean` drops them, and whatever else PyTorch notes about a node, apart from the module it came from.
    """
    inside_package = re.compile(r'(?<=File ")[^"]*/(?:site|dist)-packages/')
    elsewhere = re.compile(r'(?<=File ")/[^"]*/')
    nodes = list(model.graph)
    for function in model.functions.values():
        nodes.extend(function)
    for node in nodes:
        for key, text in list(node.metadata_props.items()):
            node.metadata_props[key] = elsewhere.sub("", inside_package.sub("", text))
            if lean and key != "namespace":
                del node.metadata_props[key]


def export_dynamo(model, example, options):
    axes = {0: "batch", 1: "t"}
    program = torch.onnx.export(
        model,
        example,
        dynamo=True,
        input_names=["audio_signal", "attention_mask"],
        output_names=["outputs"],
        dynamic_shapes={"audio_signal": axes, "attention_mask": axes},
        external_data=True,
    )
    tidy_notes(program.model, options.lean)
    program.save(options.out, external_data=True)


def spread_weights(path):
    """Lay a small inline model out as the exporter lays out one past 2 GB: one file a tensor, named like it.

    The exporter decides by size alone and has no switch for it, hence this emulation; the graph is untouched, merged
    biases and their Identity nodes included.
    """
    import onnx
    from onnx.external_data_helper import set_external_data

    folder = os.path.dirname(os.path.abspath(path))
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        payload = tensor.raw_data
        if len(payload) < TORCHSCRIPT_EXTERNAL_BYTES:
            continue
        name = re.sub(r'[:/\\?*"<>|]', "_", tensor.name)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(payload)
        set_external_data(tensor, location=name)
        tensor.ClearField("raw_data")
    onnx.save(model, path)


def export_torchscript(model, example, options):
    axes = {0: "batch", 1: "t"}
    torch.onnx.export(
        model,
        example,
        options.out,
        dynamo=False,
        opset_version=17,
        input_names=["audio_signal", "attention_mask"],
        output_names=["outputs"],
        dynamic_axes={"audio_signal": axes, "attention_mask": axes, "outputs": {0: "batch", 1: "t2"}},
    )
    alone = os.listdir(os.path.dirname(os.path.abspath(options.out))) == [os.path.basename(options.out)]
    if alone and not options.inline:
        spread_weights(options.out)


def read_options(argv):
    summary, _, examples = __doc__.partition("Examples:")
    parser = argparse.ArgumentParser(
        description=summary, epilog="examples:" + examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", help="the .onnx file to write, best in a folder of its own")
    parser.add_argument("--exporter", choices=["dynamo", "torchscript"], default="dynamo")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--ff", type=int, help="width of the feed-forward part (default 4 × hidden)")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--mels", type=int, default=128)
    parser.add_argument("--channels", type=int, default=256, help="channels of the subsampling")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--frames", type=int, default=FRAMES_BEFORE_TRACE, help="length of the traced example")
    parser.add_argument("--fresh-bias", action="store_true", help="biases of one length are equal, as untrained")
    parser.add_argument("--inline", action="store_true", help="keep a small torchscript export in one file")
    parser.add_argument("--lean", action="store_true", help="dynamo: few notes per node, half the .onnx file")
    return parser.parse_args(argv)


def main(argv=None):
    options = read_options(argv)
    folder = os.path.dirname(os.path.abspath(options.out))
    os.makedirs(folder, exist_ok=True)
    begin = time.monotonic()
    model = make_encoder(options)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters / 1e6:.1f} M parameters", flush=True)
    example = (torch.randn(1, options.frames, options.mels), torch.ones(1, options.frames, dtype=torch.bool))
    with torch.no_grad():
        {"dynamo": export_dynamo, "torchscript": export_torchscript}[options.exporter](model, example, options)
    size = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
    print(f"{options.out}: {size} bytes in {len(os.listdir(folder))} files, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
