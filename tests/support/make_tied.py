"""A tiny decoder with tied embeddings, as torch exports it: tests/data/tied/model.onnx.

    python tests/support/make_tied.py tests/data/tied/model.onnx      (needs torch; the tests do not)

Two layers of attention and a feed-forward net over 96 channels, a vocabulary of 160: the output projection uses the
embedding's own weight, through a Transpose that is kept in the file. Dynamic batch and length.
"""

import sys

import torch
from torch import nn

WIDTH, HEADS, VOCABULARY, LAYERS = 96, 4, 160, 2


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.behind = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.before(x)).reshape(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.behind(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x) @ self.embed.weight.transpose(0, 1)


def main(path):
    torch.manual_seed(0)
    model = Decoder().eval()
    tokens = torch.randint(0, VOCABULARY, (2, 7))
    torch.onnx.export(
        model,
        (tokens,),
        path,
        dynamo=False,
        opset_version=17,
        do_constant_folding=False,
        input_names=["tokens"],
        output_names=["logits"],
        dynamic_axes={"tokens": {0: "batch", 1: "length"}, "logits": {0: "batch", 1: "length"}},
    )


if __name__ == "__main__":
    main(sys.argv[1])
