"""What compare_builds.py runs: a table of cases, each a model and command lines.

A case is a list of steps that run one after the other in one folder. A step is the words behind `weir`; `{model}` stands
for the path of the case's model. Steps that begin with `@` are done by compare_builds.py itself:

  @flip FILE OFFSET    invert one bit of a file
  @link FROM TO        a symbolic link
  @text FILE TEXT      write a file

Most cases are made by `write`: a command with all of its records, then the replay of its log, and an audit. --jobs,
--memory and --io differ from case to case, chosen by the case's name: nothing that is compared depends on them.
"""

import zlib
from dataclasses import dataclass

import build_models
import conv_matrix

RESOURCES = (
    [],
    ["--jobs", "1"],
    ["--jobs", "3", "--io", "sync"],
    ["--jobs", "2", "--memory", "6MiB"],
    ["--jobs", "2", "--io", "uring", "--memory", "128MiB"],
    ["--jobs", "1", "--io", "auto", "--memory", "2MiB"],
)
RECORDS = ["--edit-log", "edits.jsonl", "--plan-out", "plan.json", "--report-json", "report.json", "--tensor-digests"]
AGAIN = ["--edit-log", "again/edits.jsonl", "--plan-out", "again/plan.json", "--tensor-digests"]


@dataclass
class Case:
    name: str
    model: str
    steps: list
    own: bool = False  # the model is changed, or lies where the outputs do: each program gets one of its own
    spoken: bool = True  # what it prints is compared
    full: bool = False  # needs the 2.4 GB encoder


CASES = {}


def add(name, model, steps, **more):
    assert name not in CASES, name
    CASES[name] = Case(name, model, steps, **more)


def resources(name):
    return RESOURCES[zlib.crc32(name.encode()) % len(RESOURCES)]


def write(command, model, tag, *options, steps=(), only=False, **more):
    """A command that writes out.onnx, with all records; and unless `only`, its replay and the audit of both."""
    name = f"{command}/{model}/{tag}"
    lines = [*steps, [command, "{model}", "out.onnx", *options, *RECORDS, *resources(name)]]
    if not only:
        lines += [
            ["replay", "edits.jsonl", "{model}", "again/out.onnx", *AGAIN, *resources(name + "again")],
            ["audit", "out.onnx", "--json"],
        ]
    add(name, model, lines, **more)


def tell(command, model, tag, *options, **more):
    """A command that only prints."""
    add(f"{command}/{model}/{tag}", model, [[command, "{model}", *options]], **more)


def chain(model, tag, *passes, **more):
    write("run", model, tag, *(word for one in passes for word in ("--pass", one)), **more)


# ---- groups of models

ENCODERS = ["encoder", "encoder-inline", "encoder-files", "encoder-opset13", "encoder-opset21"]
HALVES = ["encoder-float16", "encoder-bfloat16", "encoder-float16-inline", "encoder-bfloat16-inline"]
EXPORTS = ["parakeet-dynamo", "parakeet-torchscript", "tied"]
WEIGHTS = [f"weights-{kind}{where}" for kind in build_models.FLOATS for where in ("", "-external")]
OPSETS = ["weights-opset17", "weights-opset25"]
ODD = ["sampler", "sampler-known", "payloads", "chain"]
WIDE = ["wide-64x40000", "wide-40000x64", "wide-1500x1500", "wide-3x200001", "wide-100003x5"]
SPOILED = ["spoiled-nan", "spoiled-inf", "spoiled-large", "spoiled-above-half", "spoiled-half-nan"]
SPECIAL = [f"special-{case.name}" for case in conv_matrix.special()]
MATRIX = [f"matrix-{case.name}" for case in conv_matrix.matrix()]
RANDOM = [f"random-{seed}" for seed in range(build_models.RANDOM_GRAPHS)]


def packages():
    prefixes = tuple(f"{package}-" for package in ("rapidocr", "silero_vad", "magika"))
    return [name for name in build_models.MODELS if name.startswith(prefixes)]


def sound():
    return [*ENCODERS, "encoder-wide", *HALVES, *EXPORTS, *WEIGHTS, *OPSETS, *ODD, *packages()]


# ---- conv2matmul


def add_conv2matmul():
    for model in [*sound(), *SPECIAL]:
        write("conv2matmul", model, "extended", "--extended-conv1x1", "--allow-non-unit-dilation")
    for model in [*ENCODERS, *HALVES, *EXPORTS, "weights-float", *SPECIAL]:
        write("conv2matmul", model, "plain", only=True)
        for form in "flat", "batched", "auto":
            write("conv2matmul", model, form, "--extended-conv1x1", "--form", form, only=form == "auto")
    for model in [*EXPORTS, *SPECIAL, *packages()]:
        write("conv2matmul", model, "compat", "--strict-compat", "--extended-conv1x1", only=True)
    for model in SPECIAL:
        write("conv2matmul", model, "dilation", "--allow-non-unit-dilation", "--max-dilation", "1", only=True)
    for number, model in enumerate(MATRIX):
        form = ("auto", "flat", "batched")[number % 3]
        options = ["--extended-conv1x1", "--allow-non-unit-dilation", "--form", form]
        add(f"conv2matmul/{model}", model, [["conv2matmul", "{model}", "out.onnx", *options, *RECORDS]])
    for model in RANDOM:
        write("conv2matmul", model, "extended", "--extended-conv1x1")
    write("conv2matmul", "encoder-layer", "units", "--hash-inputs")
    tell("conv2matmul", "encoder", "stdout", "out.onnx", "--report-json-stdout", "--skip-checker")


# ---- quantize

SYMMETRY = {"asym": [], "sym": ["--symmetric"]}
ALL_OPS = ["--op-types", "MatMul,Gemm,Gather"]


def quantize(model, *words, **more):
    """The tag is the options' values."""
    tag = "-".join(word.lstrip("-") for word in words if word != "--op-types").replace("/", "_") or "plain"
    write("quantize", model, tag, *words, **more)


def add_quantize_grid():
    for bits in "2", "4", "8":
        for symmetry in SYMMETRY.values():
            shape = ["--bits", bits, *symmetry]
            for form in "qoperator", "qdq":
                for block in "16", "32", "64", "128", "256":
                    words = [*shape, "--format", form, "--block-size", block, *ALL_OPS]
                    quantize("weights-float", *words)
                    for model in "weights-float16", "weights-bfloat16":
                        if block in ("16", "128"):
                            quantize(model, *words)
                for model in "encoder", "weights-opset25", "wide-64x40000", "wide-40000x64", "tied":
                    quantize(model, *shape, "--format", form, "--block-size", "32", *ALL_OPS, only=model != "encoder")
            for model in "weights-float", "weights-float16-external", "encoder", "encoder-bfloat16", "weights-opset25":
                quantize(model, *shape, "--format", "qdq", "--block-size", "channel", *ALL_OPS)
            for algorithm in "rtn", "k_quant", "hqq":
                for form in "qoperator", "qdq":
                    words = [*shape, "--algorithm", algorithm, "--format", form, "--block-size", "32", *ALL_OPS]
                    quantize("weights-float", *words)
                    quantize("weights-float16", *words, only=True)
                    quantize("weights-bfloat16-external", *words, only=True)
                    quantize("encoder", *words, only=True)


def add_quantize_options():
    for model in [*sound(), *WIDE]:
        write("quantize", model, "defaults", only=model in WIDE)
        write("quantize", model, "all-qdq", "--format", "qdq", "--block-size", "64", *ALL_OPS)
    for model in SPECIAL:
        write("quantize", model, "small", "--block-size", "16", *ALL_OPS, only=True)
    for model in "encoder", "weights-float", "tied", "encoder-float16":
        for types in "MatMul", "Gemm", "Gather", "MatMul,Gather":
            write("quantize", model, f"types-{types}", "--op-types", types, "--block-size", "32", only=True)
        for level in "0", "1", "2", "3", "4":
            write("quantize", model, f"level-{level}", "--accuracy-level", level, only=True)
        write("quantize", model, "least", "--min-elements", "4000", *ALL_OPS)
    write("quantize", "encoder", "exclude", "--exclude", "*linear1*", "--exclude", "re:layers.[01].*linear2")
    write("quantize", "encoder", "include", "--include", "*self_attn*", "--include", "re:.*MatMul_70[0-9]+")
    write("quantize", "encoder", "both", "--include", "*self_attn*", "--exclude", "*linear_q*")
    several = ["--tensor", "*=bits8:g64:sym", "--tensor", "*linear1*=bits2:g32", "--tensor", "re:.*_70[0-9]+=asym"]
    for model in "encoder", "weights-float", "encoder-bfloat16":
        write("quantize", model, "tensor", *several, *ALL_OPS)
        write("quantize", model, "tensor-qdq", *several, "--format", "qdq", *ALL_OPS)
    write("quantize", "encoder", "algorithm-default", "--algorithm", "default", "--candidates", "8:32", only=True)
    write("quantize", "encoder", "nothing-matches", "--include", "nobody", only=True)


BUDGETS = {
    "encoder": ("600K", "700K", "1M", "10K"),
    "encoder-inline": ("700K",),
    "encoder-float16": ("450K", "600K"),
    "weights-float": ("700K", "1M"),
    "weights-bfloat16": ("500K",),
    "parakeet-dynamo": ("500K",),
    "tied": ("300K", "450K"),
    "rapidocr-PP-OCRv6_rec_small": ("16M",),
}
CANDIDATES = "2:64,4:128,4:64:sym,4:32:rtn,4:32:k_quant,8:128"


def add_quantize_stages():
    """What looks at the weights before it decides: budgets, gates, weights that are not finite."""
    for model, sizes in BUDGETS.items():
        for size in sizes:
            write("quantize", model, f"budget-{size}", "--budget", size)
            write("quantize", model, f"budget-{size}-types", "--budget", size, *ALL_OPS, "--candidates", CANDIDATES)
        write("quantize", model, "budget-qdq", "--budget", sizes[-1], "--format", "qdq", *ALL_OPS)
        tell("quantize", model, "budget-dry", "--budget", sizes[0], "--dry-run", "--json")
    write("quantize", "encoder", "budget-hqq", "--budget", "700K", "--candidates", "4:64:hqq,4:32:hqq,8:64:default")
    for model in "encoder", "weights-float", "weights-float16", "encoder-bfloat16", "parakeet-dynamo":
        for gate in "sqnr=20.5dB", "cosine=0.997", "maxabs=0.02":
            for action in "raise", "skip", "fail":
                options = ["--gate", gate, "--gate-action", action, *ALL_OPS]
                write("quantize", model, f"gate-{gate}-{action}", *options)
        both = ["--gate", "sqnr=18dB", "--gate", "cosine=0.99", "--format", "qdq", "--block-size", "32"]
        write("quantize", model, "gate-two", *both)
        write("quantize", model, "gate-budget", "--budget", "900K", "--gate", "sqnr=15dB")
        channel = ["--gate", "sqnr=17dB", "--format", "qdq", "--block-size", "channel"]
        write("quantize", model, "gate-channel", *channel)
    for model in SPOILED:
        for action in "fail", "skip":
            for form in "qoperator", "qdq":
                write("quantize", model, f"{action}-{form}", "--on-nonfinite", action, "--format", form)
        write("quantize", model, "skip-gate", "--on-nonfinite", "skip", "--gate", "sqnr=20dB")
        write("quantize", model, "skip-hqq", "--on-nonfinite", "skip", "--algorithm", "hqq")
        write("quantize", model, "budget", "--on-nonfinite", "skip", "--budget", "200K")


def add_quantize_units():
    """Outputs of several units, and so figures that are put together from records."""
    for tag, words in {
        "rows": ["--block-size", "64"],
        "eight": ["--bits", "8", "--symmetric", "--block-size", "32"],
        "qdq": ["--format", "qdq", "--block-size", "32"],
        "channel": ["--format", "qdq", "--block-size", "channel"],
        "gate": ["--gate", "sqnr=20.4dB"],
    }.items():
        write("quantize", "encoder-layer", f"units-{tag}", *words, only=tag != "rows")


# ---- measure


def add_measure():
    grid = [f"{bits}:{block}{how}" for bits in (2, 4, 8) for block in (16, 32, 64, 128, 256) for how in ("", ":sym")]
    for model in [*sound(), *WIDE, *SPOILED]:
        tell("measure", model, "text", *resources(model))
        tell("measure", model, "json", "--json", *ALL_OPS, "--candidates", "4:32,4:64:sym,8:128")
    for model in WEIGHTS[:6] + ["encoder", "encoder-float16", "tied"]:
        name = f"measure/{model}"
        for form in "qoperator", "qdq":
            words = ["--format", form, *ALL_OPS]
            tell("measure", model, f"grid-{form}", "--json", *words, "--candidates", ",".join(grid), *resources(name))
            some = "4:32:rtn,8:64:sym:rtn,4:32:k_quant,8:128:k_quant,4:64:hqq,2:32:hqq,8:32:default"
            tell("measure", model, f"algorithms-{form}", "--json", *words, "--candidates", some, *resources(name + form))
        tell("measure", model, "csv", "--csv", "--exclude", "*linear1*", "--min-elements", "2000")
    tell("measure", "encoder", "include", "--json", "--include", "*attn*", "--candidates", "4:32", "--candidates", "8:32")
    tell("measure", "encoder", "bad-candidate", "--candidates", "3:32")
    tell("measure", "encoder", "quiet", "--quiet", "--io", "sync", "--memory", "4MiB")
    tell("measure", "encoder", "null", "--io", "null", "--csv")
    tell("measure", "encoder", "progress", "--progress", spoken=False)
    tell("measure", "encoder-layer", "units", "--json", "--candidates", "4:32,4:128:sym,8:128")


# ---- shrink

METHODS = {
    "integer": [],
    "integer-dequantize": ["--form", "dequantize"],
    "channel": ["--per-channel"],
    "channel-dequantize": ["--per-channel", "--form", "dequantize"],
    "plain-form": ["--method", "integer_weights", "--form", "cast-mul-add"],
    "levels": ["--method", "float_weights"],
    "levels-2": ["--method", "float_weights", "--levels", "2"],
    "levels-100": ["--method", "float_weights", "--levels", "100"],
    "levels-65504": ["--method", "float_weights", "--levels", "65504"],
    "levels-channel": ["--method", "float_weights", "--levels", "16", "--per-channel"],
    "f16": ["--method", "f16_to_f32"],
}
SHRINK_EVERY = ["encoder", "encoder-float16", "encoder-bfloat16", *WEIGHTS, "weights-opset17", *SPOILED]


def shrink(model, tag, words):
    name = f"shrink/{model}/{tag}"
    lines = [
        ["shrink", "{model}", "--output-dir", "out", "--suffix", "_s.onnx", *words, *RECORDS, *resources(name)],
        ["replay", "edits.jsonl", "{model}", "again/out.onnx", *AGAIN, *resources(name + "again")],
    ]
    add(name, model, lines)


def add_shrink():
    for model in SHRINK_EVERY:
        for tag, words in METHODS.items():
            shrink(model, tag, words)
    for model in [name for name in [*sound(), *WIDE] if name not in SHRINK_EVERY]:
        for tag in "integer", "channel", "levels-100", "f16":
            shrink(model, tag, METHODS[tag])
    for tag in "integer", "channel", "levels":
        shrink("encoder-layer", f"units-{tag}", METHODS[tag])
    for model in "encoder", "weights-float16", "payloads":
        tell("shrink", model, "info", "--info")
        tell("shrink", model, "info-json", "--info", "--json")
    add("shrink/many", "encoder-inline", [["shrink", "in", "in/encoder.onnx", "{model}"], ["shrink", "in", "--quiet"]], own=True)
    out_first = ["shrink", "{model}", "-o", "out.onnx", "--no-manifest"]
    out_named = ["shrink", "{model}", "--output", "out.onnx", "--json"]
    add("shrink/refused", "encoder-inline", [out_first, out_named, ["shrink", "missing.onnx"], ["shrink", "{model}", "--levels", "1"]], own=True)


# ---- cast


def add_cast():
    for model in [*sound(), *SPOILED, *WIDE]:
        for to in "float16", "bfloat16":
            write("cast", model, to, "--to", to, only=model in WIDE)
            if model in SPOILED:
                write("cast", model, f"{to}-clip", "--to", to, "--on-overflow", "clip")
                write("cast", model, f"{to}-fail", "--to", to, "--on-overflow", "fail", "--exclude", "bad")
    for model in "encoder", "weights-float", "parakeet-dynamo":
        write("cast", model, "all", "--to", "float16", "--min-elements", "1")
        write("cast", model, "few", "--to", "bfloat16", "--min-elements", "16384", "--exclude", "*linear1*")
    write("cast", "encoder-layer", "units", "--to", "float16", only=True)
    for model in SPECIAL:
        write("cast", model, "all", "--to", "float16", "--min-elements", "1", only=True)


# ---- convert

LAYOUTS = {
    "plain": [],
    "external": ["--external"],
    "inline": ["--inline"],
    "named": ["--data-file", "w.bin"],
    "align": ["--external", "--align", "4096"],
    "align-1": ["--external", "--align", "1"],
    "split": ["--split", "400K"],
}


def add_convert():
    for model in [*sound(), "spoiled-nan", *(name for name in build_models.MODELS if name.startswith("corpus-"))]:
        for tag, words in LAYOUTS.items():
            write("convert", model, tag, *words, only=tag not in ("plain", "external"))
    for model in RANDOM[:10] + SPECIAL[:10]:
        write("convert", model, "external", "--external")
    write("convert", "encoder-layer", "units")
    write("convert", "encoder-layer", "inline", "--inline", only=True)
    for case in build_models.small_bad_cases():
        steps = [["convert", "{model}", case.out, *case.flags], ["check", "{model}", "--json", *case.flags]]
        steps += [["inspect", "{model}", *case.flags], ["convert", "{model}", "x/out.onnx", "--external", *case.flags]]
        add(f"convert/bad-{case.name}", f"bad-{case.name}", steps, own=True)


# ---- run

C2M, FLAT = "conv2matmul:extended_conv1x1=true", "conv2matmul:form=flat,allow_non_unit_dilation=true,max_dilation=3"
NBITS = "matmulnbits:bits=4,block_size=64,symmetric=false"
QDQ = "matmulnbits:bits=8,block_size=channel,symmetric,format=qdq,op_types=MatMul+Gemm+Gather"
CHAINS = {
    "int4": [C2M, NBITS],
    "int4-flat": [FLAT, NBITS],
    "channel": [C2M, QDQ],
    "cast": [C2M, "cast:to=float16"],
    "cast-bfloat16": [C2M, "cast:to=bfloat16,min_elements=64,on_overflow=clip"],
    "shrink": [C2M, "shrink"],
    "shrink-channel": [C2M, "shrink:per_channel=true"],
    "levels": [C2M, "shrink:method=float_weights,levels=50"],
    "levels-first": ["shrink:method=float_weights,levels=50", C2M, "matmulnbits:block_size=32"],
    "twice": ["conv2matmul:form=flat", C2M],
    "two-widths": ["matmulnbits:bits=8,include=*linear1*", "matmulnbits:bits=4,exclude=*linear_q*,block_size=32"],
    "cast-scales": ["matmulnbits:format=qdq,block_size=32", "cast:to=float16,min_elements=16"],
    "shrink-scales": ["matmulnbits:block_size=16", "shrink"],
    "shrink-form": ["shrink:form=dequantize,method=integer_weights", "cast:to=float16,exclude=*norm*"],
    "gate": [C2M, "matmulnbits:gate=sqnr=20dB+cosine=0.9,gate_action=skip,on_nonfinite=skip"],
    "budget": [C2M, "matmulnbits:budget=900K,candidates=4:128+4:32:sym+8:128"],
    "algorithm": [C2M, "matmulnbits:algorithm=hqq,block_size=32", "cast:to=float16"],
    "k-quant": [C2M, "matmulnbits:algorithm=k_quant,block_size=32,accuracy_level=4,min_elements=2000"],
    "tensor": [C2M, "matmulnbits:tensor=*linear1*=bits8\\:g32\\:sym+*linear_q*=bits2"],
    "f32": ["shrink:method=f16_to_f32", NBITS],
    "f32-cast": ["shrink:method=f16_to_f32", "cast:to=bfloat16", C2M],
    "compat": ["conv2matmul:strict_compat=true"],
    "all": [C2M, "matmulnbits:include=*linear*", "shrink:per_channel", "cast:to=float16,min_elements=128"],
}
RUN_ALL = ["encoder", "encoder-inline", "encoder-float16", "encoder-bfloat16", "weights-float", "weights-float16-external", *EXPORTS]

YAML = """# several passes with options of every form
passes:
  - conv2matmul
  - conv2matmul:
      extended-conv1x1: true
      form: "flat"
  - matmulnbits:
      bits: 4
      block_size: 32
      op_types: [MatMul, Gemm]
      exclude: ['*linear_q*', 're:.*linear_k']
  - shrink: {method: float_weights, levels: 300}
  - cast:
      to: bfloat16
      on_overflow: clip
"""
BAD_YAML = {
    "pass": "passes: [nothing]\n",
    "option": "passes:\n  - shrink:\n      lovels: 3\n",
    "value": "passes:\n  - cast: {to: float8}\n",
    "alias": "passes:\n  - &a shrink\n  - *a\n",
    "empty": "",
    "twice": "passes:\n  - cast: {to: float16, to: bfloat16}\n",
}


def add_run():
    for model in RUN_ALL:
        for tag, passes in CHAINS.items():
            chain(model, tag, *passes, only=tag.startswith("int4-"))
    for model in [name for name in [*sound(), *SPECIAL] if name not in RUN_ALL]:
        chain(model, "int4", *CHAINS["int4"])
        chain(model, "all", *CHAINS["all"], only=True)
    for model in RANDOM:
        chain(model, "small", C2M, "matmulnbits:block_size=16,format=qdq", "cast:to=float16,min_elements=1")
    for number, model in enumerate(MATRIX):
        more = ["matmulnbits:block_size=16", "cast:to=float16,min_elements=1", "shrink", QDQ][number % 4]
        add(f"run/{model}", model, [["run", "{model}", "out.onnx", "--pass", C2M, "--pass", more, *RECORDS]])
    for tag in "int4", "shrink-channel", "cast", "channel":
        chain("encoder-layer", f"units-{tag}", *CHAINS[tag], only=tag != "int4")
    for model in "encoder", "parakeet-dynamo", "weights-float":
        text = [["@text", "p.yaml", YAML]]
        write("run", model, "config", "--config", "p.yaml", steps=text)
        add(f"run/{model}/config-json", model, [*text, ["run", "{model}", "--config", "p.yaml", "--dry-run", "--json"]])
    for tag, text in BAD_YAML.items():
        add(f"run/encoder/bad-{tag}", "encoder", [["@text", "p.yaml", text], ["run", "{model}", "out.onnx", "--config", "p.yaml"]])
    for tag, words in {"pass": "nothing", "option": "shrink:lovels=3", "value": "cast:to=float8", "flag": "conv2matmul:form"}.items():
        tell("run", "encoder", f"bad-word-{tag}", "out.onnx", "--pass", words)


# ---- every option about outputs, once with each command


WRITERS = {
    "conv2matmul": ["--extended-conv1x1"],
    "quantize": ["--block-size", "32"],
    "cast": ["--to", "float16"],
    "convert": ["--external"],
    "run": ["--pass", "conv2matmul", "--pass", "shrink"],
}


def add_outputs():
    for command, options in WRITERS.items():
        start = [command, "{model}", *options]
        for model in "encoder", "encoder-inline":
            for tag, steps in {
                "operand": [[*start, "-o", "out.onnx", "--no-manifest"], ["audit", "out.onnx"]],
                "output": [[*start, "--output", "out.onnx", "--hash-inputs", "--json"], ["audit", "out.onnx"]],
                "dry": [[*start, "--dry-run", *RECORDS], [*start, "out.onnx", "--dry-run", "--json"]],
                "split": [[*start, "out.onnx", "--split", "300K", "--tensor-digests"], ["audit", "out.onnx"]],
                "force": [[*start, "out.onnx"], [*start, "out.onnx"], [*start, "out.onnx", "--force", "--tensor-digests"]],
                "resume": [[*start, "out.onnx", "--resume"], [*start, "out.onnx", "--resume"]],
                "null": [[*start, "out.onnx", "--io", "null", "--quiet"], [*start, "x.onnx", "--io", "load"]],
                "no-folder": [[*start, "no/such/folder/out.onnx"], [*start, "{model}"], [*start]],
                "memory": [[*start, "out.onnx", "--memory", "1MiB"], [*start, "out.onnx", "--memory", "2MiB", "--jobs", "1"]],
            }.items():
                add(f"{command}/{model}/out-{tag}", model, steps)
            steps = [[*start, "out.onnx", "--progress"], ["audit", "out.onnx", "--progress"]]
            add(f"{command}/{model}/out-progress", model, steps, spoken=False)
            inplace = [[*start, "--inplace", "--edit-log", "edits.jsonl"], ["audit", "{model}", "--quiet"]]
            add(f"{command}/{model}/out-inplace", model, inplace, own=True)
        links = [["@link", "{model}", "link.onnx"], [command, "link.onnx", "out.onnx", *options]]
        add(f"{command}/links", "encoder-inline", [*links, [*links[1], "--allow-links"]])
        missing = [[command, "missing.onnx", "out.onnx", *options], [command], [command, "{model}", "out.onnx", "--nothing"]]
        add(f"{command}/missing", "encoder", missing)


def add_shrink_outputs():
    start = ["shrink", "{model}"]
    for tag, steps in {
        "inplace": [[*start, "--inplace", *RECORDS], ["audit", "{model}"]],
        "force": [start, start, [*start, "--force", "--hash-inputs"]],
        "dry": [[*start, "--dry-run", "--json"], [*start, "--dry-run"]],
        "resume": [[*start, "--resume", "--no-manifest"], [*start, "--resume"]],
        "null": [[*start, "--io", "null", "--quiet"], [*start, "--io", "load"]],
    }.items():
        add(f"shrink/encoder/out-{tag}", "encoder", steps, own=True)
        add(f"shrink/encoder-float16-inline/out-{tag}", "encoder-float16-inline", steps, own=True)
    add("shrink/encoder/out-progress", "encoder", [[*start, "--progress", "--output-dir", "out"]], spoken=False)
    add("shrink/links", "encoder-inline", [["@link", "{model}", "link.onnx"], ["shrink", "link.onnx"], ["shrink", "link.onnx", "--allow-links"]])


def add_replay():
    """Logs that belong to another model, logs that are broken, and the options of replay."""
    record = ["conv2matmul", "{model}", "first/out.onnx", "--edit-log", "edits.jsonl", "--extended-conv1x1"]
    again = ["replay", "edits.jsonl", "{model}"]
    for tag, lines in {
        "name": [[*again, "other.onnx", *RECORDS], ["audit", "other.onnx", "--json"]],
        "dry": [[*again, "--dry-run"], [*again, "--dry-run", "--json", "--plan-out", "plan.json"]],
        "options": [[*again, "out.onnx", "--no-manifest", "--hash-inputs", "--json"], [*again, "out.onnx", "--force"]],
        "output": [[*again, "-o", "a.onnx", "--resume"], [*again, "--output", "b.onnx", "--memory", "4MiB", "--quiet"]],
        "null": [[*again, "a.onnx", "--io", "null"], [*again, "b.onnx", "--io", "load", "--jobs", "3"], [*again, "c.onnx", "--io", "sync"]],
        "cut": [["@flip", "edits.jsonl", "900"], [*again, "out.onnx"], ["replay", "missing.jsonl", "{model}", "out.onnx"], ["replay"]],
        "head": [["@flip", "edits.jsonl", "3"], [*again, "out.onnx"]],
    }.items():
        for model in "encoder", "parakeet-dynamo", "special-conv_in_if":
            add(f"replay/{model}/{tag}", model, [record, *lines])
    inplace = [[*record[:2], "--dry-run", *record[3:]], [*again, "--inplace", "--allow-links"], ["audit", "{model}"]]
    add("replay/encoder/inplace", "encoder", inplace, own=True)
    add("replay/encoder/progress", "encoder", [record, [*again, "out.onnx", "--progress"]], spoken=False)
    corpus = sorted((build_models.TESTS / "fuzz" / "corpus" / "fuzz_edit_log").glob("*.jsonl"))
    for path in corpus:
        text = path.read_text(errors="surrogateescape")
        for model in "encoder-inline", "weights-float":
            add(f"replay/{model}/corpus-{path.stem}", model, [["@text", "edits.jsonl", text], [*again, "out.onnx"]])


# ---- commands that look


def add_looks():
    corpus = [name for name in build_models.MODELS if name.startswith("corpus-")]
    for model in [*sound(), *SPECIAL, *RANDOM[:10], *WIDE, *SPOILED, *corpus]:
        look = [["inspect", "{model}", "--json"], ["check", "{model}", "--json"]]
        look += [["inspect", "{model}", "--tensors"], ["inspect", "{model}", "--tree"], ["inspect", "{model}"], ["check", "{model}"]]
        add(f"inspect/{model}", model, look)
    words = [["inspect", "{model}", "--json", "--tree"], ["inspect", "{model}", "--json", "--tensors"], ["inspect", "{model}", "--quiet"]]
    words += [["check", "{model}", "--quiet"], ["inspect", "{model}", "--allow-links"], ["check", "{model}", "--allow-links"]]
    words += [["inspect", "missing.onnx"], ["check", "missing.onnx", "--json"], ["measure", "{model}", "--allow-links", "--io", "load"]]
    add("inspect/options", "encoder", words)
    write_it = ["quantize", "{model}", "out.onnx", "--tensor-digests", "--block-size", "32"]
    for place, file in {"data": "out.onnx.data", "model": "out.onnx", "manifest": "out.onnx.manifest.json", "tensors": "out.onnx.tensors.jsonl"}.items():
        steps = [write_it, ["@flip", file, "700"], ["audit", "out.onnx", "--json"], ["audit", "out.onnx.manifest.json", "--jobs", "2"]]
        add(f"audit/{place}", "encoder", steps)
        add(f"audit/{place}-unlisted", "encoder", [[word for word in write_it if word != "--tensor-digests"], *steps[1:]])
    add("clean/nothing", "encoder", [["clean", "."], ["clean", ".", "--yes", "--json"], ["clean", "missing"], ["clean", ".", "--quiet"]])


COMMANDS = ("inspect", "check", "conv2matmul", "quantize", "shrink", "cast", "measure", "run", "passes", "convert", "replay", "clean", "audit")


def add_help():
    for command in COMMANDS:
        add(f"help/{command}", "encoder", [[command, "--help"], [command, "-h"], [command, "--help-all"]])
    lines = [["passes"], ["passes", "--json"], *(["passes", name] for name in ("conv2matmul", "matmulnbits", "shrink", "cast"))]
    add("help/passes-each", "encoder", [*lines, ["passes", "cast", "--json"], ["passes", "--quiet"], ["passes", "nothing"]])
    add("help/weir", "encoder", [["--help"], ["--help-all"], [], ["nothing"], ["--generate", "bash"]])


# ---- the 2.4 GB encoder


def add_full():
    def big(command, tag, *options):
        name = f"full/{command}-{tag}"
        add(name, "encoder-full", [[command, "{model}", "out.onnx", *options, *RECORDS]], full=True)

    big("conv2matmul", "extended", "--extended-conv1x1")
    big("convert", "plain")
    big("convert", "inline", "--inline")
    big("quantize", "channel", "--format", "qdq", "--block-size", "channel")
    big("quantize", "qdq", "--format", "qdq", "--block-size", "32")
    big("quantize", "budget", "--budget", "700M")
    big("cast", "float16", "--to", "float16")
    for tag in "int4", "shrink", "shrink-channel", "levels", "cast":
        big("run", tag, *(word for one in CHAINS[tag] for word in ("--pass", one)))
    seven = "2:64,4:128,4:64,4:32,4:64:sym,8:128,8:32:sym"
    add("full/measure", "encoder-full", [["measure", "{model}", "--json", "--candidates", seven]], full=True)


def add_all():
    """Fill CASES, once; gives the names of packages whose models are missing."""
    missing = build_models.add_all()
    if CASES:
        return missing
    add_conv2matmul()
    add_quantize_grid()
    add_quantize_options()
    add_quantize_stages()
    add_quantize_units()
    add_measure()
    add_shrink()
    add_cast()
    add_convert()
    add_run()
    add_outputs()
    add_shrink_outputs()
    add_replay()
    add_looks()
    add_help()
    add_full()
    return missing
