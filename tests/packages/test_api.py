"""The functions do what the command line does: the same bytes, the same documents, an exception for each exit code."""

import dataclasses
import errno
import hashlib
import html
import inspect
import json
import keyword
import logging
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import make_encoder
import ranges_file
import signing_keys
from conftest import ROOT, SAMPLE, WAIT
from installed import package_models

RULES = ROOT / "tests" / "unit" / "sample.rules"
OPERANDS = {"IN": "input", "OUT": "output", "IN...": "inputs", "MODEL": "model", "MODEL|DIR": "model", "MODEL|MANIFEST": "model", "EDITS": "edits"}
OPERANDS |= {"PLAN": "plan", "DIR": "folder", "NAME": "name", "TARGET": "target", "SRC": "source", "OTHER": "other"}


def is_for_people(option):
    return option["name"] != "progress" and (option["group"] == "Messages" or "json" in option["excludes"])


def parameter(option):
    name = option["name"].replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


# ---- every command, every option


def test_every_command_is_a_function(weir, tables):
    for command in tables["commands"]:
        function = getattr(weir, command["name"])
        assert inspect.isfunction(function) and command["name"] in weir.__all__
        assert command["summary"].lower() in function.__doc__.splitlines()[0].lower()
        for example in command["examples"]:
            assert example["line"] in function.__doc__
    assert weir.__version__ == tables["version"]


def test_every_option_is_a_keyword(weir, tables):
    """And there are no others; --progress is a callable, and what is shown on a terminal has no keyword."""
    for command in tables["commands"]:
        operands = [OPERANDS[each["name"] + "..." * each["repeated"]] for each in command["operands"]]
        options = [parameter(each) for each in command["options"] if not is_for_people(each)]
        signature = inspect.signature(getattr(weir, command["name"]))
        taken = list(signature.parameters)
        assert taken[: len(operands)] == operands
        assert sorted(taken[len(operands) :]) == sorted(set(options) - set(operands)), command["name"]
        for name, each in signature.parameters.items():
            assert (each.kind is each.KEYWORD_ONLY) == (name not in operands) and not keyword.iskeyword(name)
        for option in command["options"]:
            if not is_for_people(option) and parameter(option) not in operands:
                default = signature.parameters[parameter(option)].default
                assert default is (inspect.Parameter.empty if option["required"] else False if option["kind"] == "flag" and not option["takes_false"] else None)
                if option["name"] != "progress":
                    text = " ".join(getattr(weir, command["name"]).__doc__.split())
                    start = option["help"].split("\n")[0].split("--")[0].strip()  # flags have other names here
                    assert f" {parameter(option)}: {' '.join(start.split())}" in text


def test_types_of_keywords(weir, tables):
    path = typing.Union[str, "os.PathLike[str]"]
    kinds = {
        "flag": [bool],
        "count": [int, None],
        "number": [int, None],
        "size": [int, str, None],
        "text": [str, None],
        "figure": [float, str, None],
        "name": [str, None],
        "list": [str, typing.Sequence[str], None],
        "lengths": [int, str, typing.Sequence[typing.Union[int, str]], None],
    }
    for command in tables["commands"]:
        module = sys.modules["weir._commands"]
        hints = typing.get_type_hints(getattr(weir, command["name"]), {**vars(module), "os": os})
        for option in command["options"]:
            if is_for_people(option) or option["name"] in ("progress", "output"):
                continue
            found = hints[parameter(option)]
            if option["kind"] == "choice":
                [words] = [each for each in (found, *typing.get_args(found)) if typing.get_origin(each) is typing.Literal]
                # Their order does not count: typing keeps one Literal for the same words.
                assert sorted(str(each) for each in typing.get_args(words)) == sorted(option["choices"])
                assert all(isinstance(each, int) == str(each).isdigit() for each in typing.get_args(words))
            elif option["kind"] == "maybe":
                assert found == typing.Union[bool, None, typing.Literal[tuple(option["choices"])]]
            elif (option["metavar"] or "").startswith("FILE|DIR"):
                samples = "ManySamples" if option["kind"] == "list" else "Samples"
                assert getattr(weir, command["name"]).__annotations__[parameter(option)] == f"Optional[{samples}]"
            elif option["kind"] in ("file", "stream", "folder"):
                assert str in typing.get_args(found) and typing.get_args(path)[0] in typing.get_args(found)
            else:
                lengths = option["kind"] == "list" and option["metavar"] == "N"
                wanted = kinds["lengths" if lengths else {"SIZE": "size", "X": "figure"}.get(option["metavar"], option["kind"])]
                wanted = [*wanted, None] if option["takes_false"] else wanted
                assert found == (typing.Union[tuple(wanted)] if len(wanted) > 1 else wanted[0]), option["name"]


# ---- the same as the command line


def flags(options):
    """The words of a command line, written without the package."""
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            yield from [f"--{name.rstrip('_').replace('_', '-')}", *([] if each is True else [str(each)])]


def tree(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


OF_THE_MACHINE = {"runtime_peak_memory_bytes", "seconds", "peak_memory_bytes", "index_bytes", "peak_memory_limit_bytes", "source_bytes_read", "disk_free_bytes", "bytes_cloned"}
OF_THE_MACHINE |= {"units_not_read"}  # clocks of files have steps: a unit as old as its record is read again


def without(document, here):
    """A document without what differs from run to run or by libm's last digit, and without the folder it was made in."""
    if isinstance(document, float):
        return float(f"{document:.14g}")
    if isinstance(document, dict):
        return {key: without(value, here) for key, value in document.items() if key not in OF_THE_MACHINE}
    if isinstance(document, list):
        return [without(each, here) for each in document]
    return document.replace(str(here), "HERE") if isinstance(document, str) else document


CALLS = {
    "inspect": [(["MODEL"], {"tensors": True, "tree": True}), (["MODEL"], {"values": True}), (["MODEL"], {})],
    "check": [(["MODEL"], {})],
    "conv2matmul": [(["MODEL", "OUT"], {"extended_conv1x1": True, "form": "flat", "edit_log": "LOG"}), (["MODEL", "OUT"], {"strict_compat": True})],
    "quantize": [
        (["MODEL", "OUT"], {"bits": 4, "block_size": 32, "symmetric": True, "exclude": ["*val_2*", "a b"], "report_json": "LOG"}),
        (["MODEL", "OUT"], {"bits": 8, "block_size": "channel", "format": "qdq", "op_types": ["MatMul", "Gemm"], "memory": "1GiB", "jobs": 2}),
        (["MODEL", "OUT"], {"budget": 400000, "candidates": ["4:32", "8:32"], "tensor_digests": True}),
        (["MODEL"], {"dry_run": True}),
    ],
    "shrink": [(["MODEL"], {"output_dir": "OUT", "method": "float_weights", "levels": 16}), (["MODEL"], {"info": True})],
    "dynamic": [(["MODEL", "OUT"], {"op_types": ["MatMul", "LSTM"], "weight_type": "uint8", "reduce_range": True}), (["MODEL", "OUT"], {"compat": "onnxruntime-1.31", "per_channel": True, "nodes_to_exclude": ["a", "b"]})],
    "cast": [(["MODEL", "OUT"], {"to": "float16", "min_elements": 1000}), (["MODEL"], {"to": "bfloat16", "output": "OUT"}), (["MODEL", "OUT"], {"to": "float16", "graph": True, "keep_io": True, "keep_op": ["Conv", "Softmax"], "on_overflow": "clip", "target": "webgpu"})],
    "requantize": [(["MODEL", "OUT"], {"to": "qoperator", "exclude": ["head*"]}), (["MODEL"], {"dry_run": True})],
    "static": [(["MODEL", "OUT"], {"ranges": "RANGES", "op_types": ["Gemm"], "weight_type": "uint8", "quantize_bias": "false"}), (["MODEL"], {"ranges": "RANGES", "op_types": ["Gemm"], "per_tensor": True, "dry_run": True})],
    "infer": [(["MODEL", "OUT"], {"set_dim": ["t=40"], "declared": "override", "report_html": "LOG"}), (["MODEL"], {"dry_run": True, "strict": True})],
    "optimize": [(["MODEL", "OUT"], {"skip": ["fuse", "tidy/*"], "rounds": 3, "exactness": "exact"}), (["MODEL", "OUT"], {"goal": "onnxruntime", "opset": 18, "only": "tidy", "fold_limit": "64KiB"})],
    "preprocess": [(["MODEL", "OUT"], {"skip_onnx_shape": True, "verbose": 1, "int_max": 1000000}), (["MODEL", "OUT"], {"data_file": "weights.bin"})],
    "measure": [(["MODEL"], {"candidates": ["4:64", "8:64:sym"], "include": "*"})],
    "smooth": [(["MODEL", "OUT"], {"ranges": "RANGES", "alpha": "auto"}), (["MODEL", "OUT"], {"ranges": "RANGES", "no_folding": True, "compat": "onnxruntime"})],
    "run": [(["MODEL", "OUT"], {"pass_": ["conv2matmul", "tidy", "quantize:block_size=32,exclude=a\\,b"], "exactness": "zero"}), (["MODEL", "OUT"], {"rules": "RULES"})],
    "plan": [(["MODEL"], {"pass_": ["conv2matmul", "quantize:block_size=32"], "shards": 3, "dry_run": True})],
    "shard": [(["PLANNED"], {"index": 1, "count": 2}), (["PLANNED"], {})],
    "status": [(["PLANNED"], {"recheck": True})],
    "finalize": [(["MADE"], {})],
    "jobs": [(["PLANNED"], {"scheduler": "shell"}), (["PLANNED"], {"scheduler": "ray", "image": "weir"})],
    "passes": [([], {}), (["quantize"], {}), ([], {"rules": "RULES"})],
    "targets": [([], {}), (["webgpu"], {})],
    "convert": [(["MODEL", "OUT"], {"data_file": "weights.bin", "align": 4096, "plan_out": "LOG"}), (["MODEL", "OUT"], {"inline": True, "no_manifest": True})],
    "replay": [(["EDITS", "MODEL", "OUT"], {})],
    "clean": [(["FOLDER"], {"yes": True})],
    "audit": [(["WRITTEN"], {})],
    "sign": [(["WRITTEN"], {"key": "KEY"})],
    "rebuild": [(["WRITTEN"], {"source": "MODEL"}), (["WRITTEN"], {"source": "MODEL", "write": "OUT"})],
    "diff": [(["MODEL", "MODEL"], {}), (["MODEL", "WRITTEN"], {"weights": "values", "trust_manifests": True})],
    "calibrate": [(["MODEL"], {"output": "OUT", "generate": 2, "method": "percentile=99.9"})],
    "verify": [(["MODEL", "WRITTEN"], {"layers": True, "seed": 7, "metric": ["cosine=0.9", "relative=0.5"]}), (["MODEL"], {"edits": "EDITS", "sites": "3"})],
}


def test_a_flag_that_a_target_set_is_taken_back(weir, tmp_path):
    """None leaves it to the target, False does not."""
    made = [weir.quantize(SAMPLE, tmp_path / f"{n}.onnx", target="webgpu", symmetric=given) for n, given in enumerate((None, False, True))]
    assert [report.passes[0].raw["options"].get("symmetric") for report in made] == [True, False, True]
    options = made[0].passes[0].options
    assert (options["bits"], options["block_size"], options["op_types"]) == (4, 32, ["MatMul"])


def test_every_command_has_a_call(tables):
    assert sorted(CALLS) == sorted(command["name"] for command in tables["commands"])


@pytest.mark.parametrize("name, n", [(name, n) for name in CALLS for n in range(len(CALLS[name]))])
def test_same_as_the_command_line(weir, ordinary, runtime, tmp_path, name, n):
    """Files and documents; the command line is that of the ordinary build."""
    operands, options = CALLS[name][n]
    results = []
    key, public = signing_keys.make(tmp_path)
    for here in (tmp_path / "api", tmp_path / "cli"):
        here.mkdir()
        (here / "w").mkdir()
        words = {"MODEL": SAMPLE, "OUT": here / "out.onnx", "LOG": here / "log", "FOLDER": here, "WRITTEN": here / "w" / "w.onnx", "EDITS": here / "w" / "edits", "RULES": RULES, "RANGES": tmp_path / "ranges.jsonl", "KEY": key}
        ranges_file.write(words["RANGES"], {"audio_signal": [np.ones((1, 2, 2), np.float32)]})
        ordinary("cast", SAMPLE, words["WRITTEN"], "--to", "float16", "--edit-log", words["EDITS"])
        if operands in (["PLANNED"], ["MADE"]):
            planned = tmp_path / f"{here.name}-planned"
            ordinary("plan", SAMPLE, planned / "p.onnx", "--pass", "conv2matmul")
            [words[operands[0]]] = planned.glob(".p.onnx.*.weir")
            if operands == ["MADE"]:
                ordinary("shard", words["MADE"])
        given = [words.get(word, word) for word in operands]
        chosen = {key: words.get(value, value) if isinstance(value, str) else value for key, value in options.items()}
        if here.name == "api":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", weir.WeirWarning)
                found = getattr(weir, name)(*given, **chosen)
            document = [each.raw for each in found] if name == "shrink" else found.raw
        else:
            differ = name == "diff" and given[0] != given[1]  # which is an answer, in Python no exception
            text = ordinary(name, *given, *flags(chosen), "--json", code=int(differ))
            document = [json.loads(line) for line in text.splitlines()] if name == "shrink" else json.loads(text)
        for signature in here.glob("w/*.sig"):  # no two are equal
            ordinary("audit", words["WRITTEN"], "--public-key", public)
            signature.unlink()
        if "report_json" in options:
            without_time = without(json.loads((here / "log").read_text()), here)
            (here / "log").write_text(json.dumps(without_time))
        if "report_html" in options:  # without the command line, its paths, times and memory
            blocks = re.findall(r'<script type="application/json".*?</script>', (here / "log").read_text(), re.S)
            assert blocks
            (here / "log").write_text("".join(blocks))
        results.append((without(document, here), {k: v for k, v in tree(here).items()}))
    assert results[0] == results[1]
    assert (len(results[0][1]) > 4) == ("OUT" in [*operands, *options.values()]) or "LOG" in options.values()


@pytest.mark.parametrize("package", ["rapidocr", "silero_vad", "magika"])
def test_models_of_packages(weir, ordinary, tmp_path, package):
    """What it writes of real models is what the ordinary build writes."""
    ran = 0
    for number, model in enumerate(package_models(package)):
        for name, options in (("quantize", {"block_size": 32, "copy": True}), ("conv2matmul", {})):
            here = [tmp_path / f"{number}{name}{n}" for n in "ab"]
            for each in here:
                each.mkdir()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", weir.WeirWarning)
                getattr(weir, name)(model, here[0] / "out.onnx", **options)
            ordinary(name, model, here[1] / "out.onnx", *flags(options))
            assert tree(here[0]) == tree(here[1]) and tree(here[0])
            ran += 1
            for each in here:
                shutil.rmtree(each)
    assert ran


# ---- what comes back


def is_the_document(value, raw):
    """Every member that there is, is an attribute of the same value."""
    if dataclasses.is_dataclass(value):
        assert value.raw is raw
        known = {field.name for field in dataclasses.fields(value)}
        for name, member in raw.items():
            if name not in ("schema", "error"):
                attribute = name + "_" * keyword.iskeyword(name)
                assert attribute in known, name
                is_the_document(getattr(value, attribute), member)
    elif isinstance(value, list):
        assert len(value) == len(raw)
        for pair in zip(value, raw):
            is_the_document(*pair)
    elif isinstance(value, dict):
        assert set(value) == set(raw)
        for name in raw:
            is_the_document(value[name], raw[name])
    elif isinstance(value, float) and isinstance(raw, str):
        assert math.isnan(value) if raw == "NaN" else value == float(raw)
    else:
        assert value == raw or str(value) == raw


def test_documents_are_dataclasses(weir, tmp_path):
    out = tmp_path / "out.onnx"
    found = [
        weir.inspect(SAMPLE, tensors=True, tree=True),
        weir.check(SAMPLE),
        weir.quantize(SAMPLE, out, gate="sqnr=20.5dB", memory="64MiB", block_size=64),
        weir.measure(SAMPLE, candidates="4:64"),
        weir.audit(out),
        weir.clean(tmp_path),
        weir.passes(),
        weir.conv2matmul(SAMPLE, tmp_path / "strict.onnx", strict_compat=True),
        *weir.shrink(SAMPLE, info=True),
        *weir.shrink(SAMPLE, output_dir=tmp_path / "shrunk"),
    ]
    for document in found:
        is_the_document(document, document.raw)
        assert repr(document).startswith(type(document).__name__ + "(") and len(repr(document)) < 20000
        # For people a line for each member, none of them long.
        if not isinstance(document, weir.Report):
            first, *rest = str(document).splitlines()
            assert first.startswith(f"weir {document.raw['command']}") and max(map(len, rest)) < 160 and "\n".join(rest) in html.unescape(document._repr_html_())
    types = ["Inspect", "Check", "Report", "Measure", "Audit", "Clean", "Passes", "Report", "ShrinkInfo", "Report"]
    assert [type(document) for document in found] == [getattr(weir, name) for name in types]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found[0].nodes = 3
    assert found[2].passes[0].tensors[0].error.sqnr_db > 10
    assert found[7].weir is None and found[7].converted == 6 and found[7].nodes[0].graph is None


def test_numbers_that_json_has_no_form_for(weir):
    documents = sys.modules["weir.documents"]
    error = {"cosine": "NaN", "max_abs": "Infinity", "overflows": "18446744073709551615", "rmse": 0.5, "sqnr_db": "-Infinity"}
    found = documents.ReportPassTensorError._from(error)
    assert math.isnan(found.cosine) and found.max_abs == math.inf and found.sqnr_db == -math.inf
    assert found.overflows == 2**64 - 1 and found.rmse == 0.5 and found.raw is error


def test_a_member_of_a_later_version(weir):
    found = weir.documents.ReportFile._from({"name": "a", "size": 3, "later": [1]})
    assert found.name == "a" and found.raw["later"] == [1]


def test_names_of_classes(weir, tables):
    """What functions return has a name in weir; parts of it have theirs in weir.documents."""
    classes = {name for name in dir(weir) if isinstance(getattr(weir, name), type)}
    returned = {typing.get_type_hints(getattr(weir, name), vars(sys.modules["weir._commands"]))["return"] for name in ("inspect", "quantize", "audit", "verify")}
    assert returned == {weir.Inspect, weir.Report, weir.Audit, weir.Verify}
    assert classes == {name for name in weir.__all__ if isinstance(getattr(weir, name), type)} and len(classes) < 40
    assert not hasattr(weir, "ReportPassTensorError") and weir.documents.ReportPassTensorError
    found = weir.inspect(SAMPLE)
    assert type(found.file) is weir.File is weir.documents.File and found.file.name == SAMPLE.name


def test_a_report_as_text(weir, ordinary, runtime, tmp_path):
    """The lines of the command line, which has times, memory and the size of files beside."""
    report = weir.quantize(SAMPLE, tmp_path / "a.onnx", block_size=32)
    printed = ordinary("quantize", SAMPLE, tmp_path / "b.onnx", "--block-size", "32").splitlines()
    told = str(report).splitlines()
    first = re.sub(r" in [0-9.]+ s, [0-9.]+ [kM]B of memory: ", ": ", printed[0])
    assert told[:-1] == report.weir.summary and first == told[0] != printed[0] and told[1:-1] == printed[1:-1] != []
    assert told[-1] == "  output  a.onnx, a.onnx.data" and printed[-1].startswith("wrote ")
    assert repr(report).startswith("Report(")
    dry = weir.quantize(SAMPLE, tmp_path / "c.onnx", block_size=32, dry_run=True)
    assert str(dry).startswith("dry run: ") and str(dry).splitlines()[-1].startswith("  planned  c.onnx")
    verified = weir.conv2matmul(SAMPLE, tmp_path / "d.onnx", verify="sites")
    assert "  verification  6 passed" in str(verified).splitlines()
    strict = weir.conv2matmul(SAMPLE, tmp_path / "e.onnx", strict_compat=True)  # has nothing of ours
    assert str(strict) == repr(strict)


def test_a_report_in_a_notebook(weir, tmp_path):
    model = tmp_path / "<b>&.onnx"
    model.symlink_to(SAMPLE)
    for data in SAMPLE.parent.glob("*.data"):
        (tmp_path / data.name).symlink_to(data)
    report = weir.quantize(model, tmp_path / "o.onnx", block_size=32, allow_links=True)
    page = report._repr_html_()
    assert "&lt;b&gt;&amp;.onnx" in page and "<b>&" not in page and "<script" not in page
    sizes = [sum(file.size for file in files) for files in (report.weir.input, report.weir.output)]
    assert f"({100 * sizes[1] / sizes[0]:.1f} %)" in page and f"<td>{len(report.passes[0].tensors)}</td>" in page
    [shown] = re.findall(r"<td>([^<]*) → ([^<]*) \(", page)
    assert f"{shown[0]} -> {shown[1]} (" in report.weir.summary[0]  # as the program says them


def test_a_notebook_says_times_and_sizes_as_the_program_does(weir, tmp_path):
    """Of a run of hours, and of no more than a byte."""
    document = weir.quantize(SAMPLE, tmp_path / "o.onnx", block_size=32).raw
    shown = {0.41: "0.41 s", 41.26: "41.3 s", 125.2: "2 min 5 s", 7199.4: "119 min 59 s", 7265: "2 h 1 min", 90000: "25 h 0 min"}
    for seconds, words in shown.items():
        own = {**document["weir"], "seconds": seconds, "peak_memory_bytes": 1}
        page = weir.documents.Report._from({**document, "weir": own})._repr_html_()
        assert f"<td>{words}</td>" in page and "<td>1 byte</td>" in page


# ---- paths and values


def test_paths(weir, tmp_path, monkeypatch):
    """With a dash in front, with bytes that are no UTF-8, relative, with __fspath__."""
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"\xff y.onnx")
    weir.convert(SAMPLE, "-x.onnx", inline=True)
    report = weir.convert(input="-x.onnx", output=odd, edit_log="--log")
    assert {"-x.onnx", odd, "--log"} <= set(os.listdir(tmp_path))
    assert report.weir.output[0].name == odd
    assert weir.inspect(Path(odd)).file.name == odd and weir.audit(Path("-x.onnx")).whole
    weir.convert(SAMPLE, output=Path("b.onnx"))
    weir.convert(os.fsencode(SAMPLE), b"\xff z.onnx", edit_log=b"\xff.log")
    assert {b"\xff z.onnx", b"\xff.log"} <= set(os.listdir(b"."))
    [shrunk] = weir.shrink([os.fsencode(SAMPLE)], output_dir=b"small")
    assert shrunk.weir.output[0].name in os.listdir("small")
    with pytest.raises(TypeError):
        weir.inspect(3)


def test_names_are_no_paths(weir):
    module = sys.modules["weir._commands"]
    for function, name in ((weir.targets, "target"), (weir.passes, "name")):
        assert typing.get_type_hints(function, vars(module))[name] == typing.Optional[str]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"jobs": True}, {"jobs": False}, {"memory": np.True_}, {"exclude": [True]}, {"force": 1}, {"force": "yes"}, {"symmetric": "false"}),
        *({"bits": [4, 8]}, {"bits": [4]}, {"target": ["cpu", "webgpu"]}, {"block_size": (32, 64)}, {"budget": [1, 2]}, {"memory": np.array([1, 2])}),
        *({"exclude": {"a": "b"}}, {"report_json": ["a", "b"]}),
    ],
)
def test_flags_and_values_are_not_mixed_up(weir, tmp_path, wrong):
    [name] = wrong
    with pytest.raises(TypeError, match=f"^{name} "):
        weir.quantize(SAMPLE, tmp_path / "out.onnx", **wrong)
    assert not list(tmp_path.iterdir())


def test_truth_of_numpy(weir, tmp_path):
    words = {"output": tmp_path / "out.onnx", "target": "webgpu"}
    made = [weir.quantize(SAMPLE, symmetric=np.bool_(given), force=np.True_, **words) for given in (True, False)]
    assert [report.passes[0].raw["options"].get("symmetric") for report in made] == [True, False]
    weir.quantize(SAMPLE, block_size=32, force=np.True_, dry_run=np.False_, **words)
    spec = weir.pass_spec("quantize", bits=np.int64(4), symmetric=np.False_, exclude=np.array(["a", "b"]))
    assert spec == "quantize:bits=4,symmetric=false,exclude=a+b"


def test_numbers_of_numpy(weir, tmp_path):
    weir.quantize(SAMPLE, tmp_path / "a.onnx", bits=np.int64(8), block_size=np.int32(32), memory=np.uint64(1 << 26))
    weir.quantize(SAMPLE, tmp_path / "b.onnx", bits=8, block_size=32)
    assert (tmp_path / "a.onnx.data").read_bytes() == (tmp_path / "b.onnx.data").read_bytes()


def test_pass_spec(weir, tmp_path):
    names = ["a,b", "c:d=e", "f+g\\h", "*x*"]
    report = None
    with pytest.warns(weir.WeirWarning):
        spec = weir.pass_spec("quantize", bits=8, symmetric=True, exclude=names, include="*")
        report = weir.run(SAMPLE, tmp_path / "out.onnx", pass_=[spec, weir.pass_spec("tidy")])
    options = report.passes[0].options
    assert options["exclude"] == names and options["bits"] == 8 and options["symmetric"] is True
    assert weir.pass_spec("tidy") == "tidy"


def test_threads(weir, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda n: weir.convert(SAMPLE, tmp_path / f"{n}.onnx", jobs=1), range(8)))
    assert len({report.weir.plan_id is None for report in done}) == 1
    assert len({(tmp_path / f"{n}.onnx.data").read_bytes() for n in range(8)}) == 1


# ---- samples that Python has


class Reader:
    """As onnxruntime's CalibrationDataReader."""

    def __init__(self, samples):
        self.samples = iter(samples)

    def get_next(self):
        return next(self.samples, None)


def sample_of(length, seed=0):
    signal = np.random.default_rng(seed).standard_normal((1, length, 32)).astype(np.float32)
    return {"audio_signal": signal, "attention_mask": np.ones((1, length), bool)}


@pytest.fixture
def spools(tmp_path, monkeypatch):
    """Where samples are spooled; nothing may be left there."""
    folder = tmp_path / "spools"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(folder))
    yield folder
    assert not list(folder.iterdir())


@pytest.fixture
def saved(tmp_path):
    """Three samples, and a folder of .npz with the same."""
    samples = [sample_of(length, length) for length in (40, 41, 50)]
    (tmp_path / "saved").mkdir()
    for n, sample in enumerate(samples):
        np.savez(tmp_path / "saved" / f"{n}.npz", **sample)
    return samples, tmp_path / "saved"


def forms(samples, folder):
    yield from (samples, tuple(samples), iter(samples), (each for each in samples), Reader(samples), [folder], [str(folder)])
    yield [{name: np.asfortranarray(array) for name, array in each.items()} for each in samples]
    yield [{name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in each.items()} for each in samples]


def test_calibration_takes_arrays(weir, runtime, spools, saved, tmp_path):
    """The ranges are those of the files, whatever gives the samples."""
    samples, folder = saved
    weir.calibrate(SAMPLE, output=tmp_path / "of_files.jsonl", data=folder)
    wanted = (tmp_path / "of_files.jsonl").read_bytes()
    for data in forms(samples, folder):
        found = weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=data, force=True)
        assert found.samples == 3 and (tmp_path / "r.jsonl").read_bytes() == wanted, data
    assert weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=samples[0], force=True).samples == 1
    assert (tmp_path / "r.jsonl").read_bytes() != wanted
    assert weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=[samples[0], folder, *samples[1:]], force=True).samples == 6


def test_onnxruntimes_own_reader(weir, runtime, spools, saved, tmp_path):
    from onnxruntime.quantization import CalibrationDataReader

    class Own(Reader, CalibrationDataReader):
        pass

    samples, _ = saved
    assert weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=Own(samples)).samples == 3


def test_strings_and_odd_names(weir, runtime, spools, tmp_path):
    """A model whose inputs have names of letters that folders and NumPy's savez do not take; strings as onnxruntime takes them."""
    names = ["file", "a/b", "../c"]
    nodes = [onnx.helper.make_node("Identity", [name], [f"out{n}"]) for n, name in enumerate(names)]
    kinds = [onnx.TensorProto.STRING, onnx.TensorProto.FLOAT, onnx.TensorProto.INT64]
    ends = [
        [onnx.helper.make_tensor_value_info(name, kind, [2]) for name, kind in zip(these, kinds)]
        for these in (names, ["out0", "out1", "out2"])
    ]
    graph = onnx.helper.make_graph(nodes, "g", *ends)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    arrays = [np.array(["x", "yé"], object), np.array([1, 2], np.float32), np.array([3, 4])]
    found = weir.verify(tmp_path / "m.onnx", tmp_path / "m.onnx", inputs=dict(zip(names, arrays))).verification
    assert [(row.name, row.status) for row in found.rows] == [(f"out{n}", "passed") for n in range(3)]


def test_verification_takes_arrays(weir, runtime, spools, saved, tmp_path):
    samples, folder = saved
    found = weir.conv2matmul(SAMPLE, tmp_path / "o.onnx", verify="model", verify_inputs=Reader(samples)).verification
    assert found.passed == 3 and found.failed == 0
    rows = [weir.verify(SAMPLE, tmp_path / "o.onnx", inputs=inputs).verification.rows for inputs in (folder, samples, samples[0])]
    assert [row.figures for row in rows[0]] == [row.figures for row in rows[1]] and len(rows[0]) == 3 and len(rows[2]) == 1
    assert {row.of for row in rows[1]} == {f"{n:07}.npz" for n in range(3)}


def test_as_many_samples_as_are_asked_for(weir, runtime, spools, saved, tmp_path, caplog):
    """A generator without an end; at most one sample is made that is not used."""
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield saved[0][0]

    with caplog.at_level(logging.INFO, "weir"):
        assert weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=endless(), samples=2).samples == 2
    assert len(taken) == 3 and "more samples are left out" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO, "weir"):
        weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=saved[0], samples=3, force=True)
    assert "left out" not in caplog.text


def test_one_sample_is_held_at_a_time(weir, runtime, spools, tmp_path):
    """A sample is written, and let go of, before the next one is made."""
    alive = []

    class Array(np.ndarray):
        pass

    def made():
        for length in range(40, 60):
            assert all(each() is None for each in alive[:-1])
            sample = {name: array.view(Array) for name, array in sample_of(length).items()}
            alive.append(weakref.ref(sample["audio_signal"]))
            yield sample
            del sample

    assert weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=made()).samples == 20


@pytest.mark.parametrize(
    "data, says",
    [
        (3, "data takes a path, a dict of arrays by the names of inputs"),
        (True, "not the type bool"),
        (np.ones(3), "not the type ndarray"),
        (Reader, "data is the class Reader"),
        ([np.ones(3)], r"data\[0\] is of type ndarray"),
        ([(sample_of(8), 1)], r"data\[0\] is of type tuple"),
        ([sample_of(8), 3], r"data\[1\] is of type int"),
        ({"x": [1.0]}, r"data\['x'\] is of type list, no array"),
        ([sample_of(8), {"x": 1}], r"data\[1\]\['x'\] is of type int, no array"),
        ({1: np.ones(3)}, "data has the key 1"),
        ({"x": np.array([None])}, r"data\['x'\] has elements of type object"),
        ({"x": np.zeros(1, "V2")}, r"data\['x'\] has elements of type \|V2"),
    ],
)
def test_what_is_no_sample(weir, spools, tmp_path, data, says):
    with pytest.raises(TypeError, match=says):
        weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=data)
    assert [path.name for path in tmp_path.iterdir()] == ["spools"]


def test_samples_that_do_not_come_or_fit(weir, runtime, spools, tmp_path):
    """What the reader raises is raised; the program's messages name samples by number."""

    def broken():
        yield sample_of(8)
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=broken())
    for data, says in (([], "data gives no sample"), (Reader([]), "data gives no sample"), ([sample_of(8), {}], "'0000001.npz' has no array for")):
        with pytest.raises(weir.InputError, match=says):
            weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=data)
    with pytest.raises(TypeError, match=r"inputs\[0\] is of type str"):
        weir.verify(SAMPLE, inputs=["a", "b"])
    with pytest.raises(TypeError, match="^jobs "):  # before any sample is taken
        weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=broken(), jobs=True)
    assert [path.name for path in tmp_path.iterdir()] == ["spools"]


def test_no_space_for_samples(weir, spools, tmp_path, monkeypatch):
    def full(*_words, **_more):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(weir.NoSpaceError, match="no space for the samples of data") as raised:
        weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=sample_of(8))
    assert raised.value.hint.startswith("TMPDIR")


def test_a_program_that_is_killed_leaves_no_samples(weir, spools, saved, tmp_path, instead):
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\nkill -9 $$\n")
    fake.chmod(0o755)
    instead(fake)
    with pytest.raises(weir.KilledError):
        weir.calibrate(SAMPLE, output=tmp_path / "r.jsonl", data=saved[0])


# ---- exceptions


def test_a_class_for_each_exit_code(weir, tables, tmp_path, instead):
    fake = tmp_path / "fake"
    instead(fake)
    codes = [each["code"] for each in tables["exit_codes"] if each["code"]]
    for code in codes:
        fake.write_text(f"#!/bin/sh\necho 'weir: error: it is {code}' >&2\necho 'hint: none' >&2\nexit {code}\n")
        fake.chmod(0o755)
        with pytest.raises(weir.WeirError) as raised:
            weir.inspect("a.onnx")
        kind = type(raised.value)
        assert kind is not weir.WeirError and f"exit code {code}" in kind.__doc__ and kind.__name__ in weir.__all__
        assert (raised.value.code, raised.value.message, raised.value.hint) == (code, f"it is {code}", "none")
        assert str(raised.value) == f"it is {code}\nhint: none"
        again = pickle.loads(pickle.dumps(raised.value))
        assert type(again) is kind and (again.code, again.message, again.hint) == (code, f"it is {code}", "none")
    assert len(set(codes)) == len({sys.modules["weir._errors"].by_code[code] for code in codes})


def test_failures(weir, tmp_path):
    (tmp_path / "garbage.onnx").write_bytes(b"garbage")
    linked = tmp_path / "linked"
    linked.mkdir()
    shutil.copy(SAMPLE, linked)
    os.link(shutil.copy(SAMPLE.with_name(SAMPLE.name + ".data"), tmp_path / "data"), linked / (SAMPLE.name + ".data"))
    out = tmp_path / "out.onnx"
    for kind, call in {
        weir.FailedError: lambda: weir.quantize(SAMPLE, out, budget=1000),
        weir.UsageError: lambda: weir.quantize(SAMPLE, out, bits=3),
        weir.ModelError: lambda: weir.inspect(tmp_path / "garbage.onnx"),
        weir.InputError: lambda: weir.convert(tmp_path / "nothere.onnx", out),
        weir.NotPermittedError: lambda: weir.convert(linked / SAMPLE.name, out),
    }.items():
        with pytest.raises(weir.WeirError) as raised:
            call()
        assert type(raised.value) is kind and raised.value.message, raised.value
        assert raised.value.report is None or raised.value.report.command
    assert not out.exists()
    with pytest.raises(TypeError):
        weir.cast(SAMPLE, out)  # --to has to be given
    with pytest.raises(weir.UsageError, match="Provide an output path"):
        weir.convert(SAMPLE)


def test_what_was_found_nevertheless(weir, ordinary, tmp_path):
    """The documents of audits and checks that find something, and of the models that shrink wrote."""
    out = tmp_path / "out.onnx"
    weir.convert(SAMPLE, out)
    data = tmp_path / "out.onnx.data"
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    with pytest.raises(weir.FailedError, match="1 of 2 units is damaged") as raised:
        weir.audit(out)
    assert isinstance(raised.value.report, weir.Audit) and raised.value.report.damage[0].file == data.name
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(weir.ModelError) as raised:
        weir.check(out)
    assert raised.value.report.errors == len([each for each in raised.value.report.faults if each.level == "error"]) > 0
    (tmp_path / "bad.onnx").write_bytes(b"bad")
    with pytest.raises(weir.ModelError, match="bad.onnx") as raised:
        weir.shrink([tmp_path / "bad.onnx", SAMPLE], output_dir=tmp_path / "small")
    [report] = raised.value.reports
    assert report.model == str(SAMPLE) and (tmp_path / "small").exists()


@pytest.mark.parametrize("printed", ["", "{}", "[]", "3", '{"schema": 1', '{"error": {"code": 66}}'])
def test_it_ends_well_without_a_document(weir, instead, tmp_path, printed):
    fake = tmp_path / "fake"
    instead(fake)
    fake.write_text(f"#!/bin/sh\nprintf '%s' '{printed}'\n")
    fake.chmod(0o755)
    for call in (lambda: weir.audit("a.onnx"), lambda: weir.convert("a.onnx", "b.onnx"), lambda: weir.measure("a.onnx")):
        with pytest.raises(weir.InternalError, match="without a document") as raised:
            call()
        assert raised.value.code == 70
    if printed:
        with pytest.raises(weir.InternalError):
            weir.shrink("a.onnx")
    else:
        assert weir.shrink("a.onnx") == []  # a document for each model, and there was none
    fake.write_text(f"#!/bin/sh\nprintf '%s' '{printed}'\necho 'weir: error: no' >&2\nexit 1\n")
    with pytest.raises(weir.FailedError, match="no"):
        weir.audit("a.onnx")


def test_the_system_refuses(weir, fault, instead, tmp_path, monkeypatch):
    instead(fault)
    for spec, kind in (("ENOSPC:fallocate:1", weir.NoSpaceError), ("EIO:fdatasync:1:persist", weir.InputOutputError)):
        monkeypatch.setenv("WEIR_FAULT", spec)
        with pytest.raises(weir.WeirError) as raised:
            weir.convert(SAMPLE, tmp_path / "out.onnx")
        assert type(raised.value) is kind, raised.value


def test_ended_by_a_signal(weir, fault, instead, tmp_path, monkeypatch):
    """By somebody else: it can be called again; by itself: it is to be reported."""
    instead(fault)
    monkeypatch.setenv("WEIR_FAULT", "kill:write:6")
    with pytest.raises(weir.KilledError, match="SIGKILL") as raised:
        weir.convert(SAMPLE, tmp_path / "out.onnx")
    assert isinstance(raised.value, weir.RetryError) and raised.value.code == 128 + signal.SIGKILL
    monkeypatch.delenv("WEIR_FAULT")
    assert weir.convert(SAMPLE, tmp_path / "out.onnx").weir.resumed == "units"
    fake = tmp_path / "fake"
    fake.write_text("#!/bin/sh\necho 'a promise is broken' >&2\nkill -ABRT $$\n")
    fake.chmod(0o755)
    instead(fake)
    with pytest.raises(weir.InternalError, match="SIGABRT.*\na promise is broken"):
        weir.convert(SAMPLE, tmp_path / "out.onnx")


# ---- warnings, notices, progress


def test_warnings_are_warnings(weir, tmp_path):
    with pytest.warns(weir.WeirWarning, match="nothing_like_it.*\nhint: ") as found:
        report = weir.quantize(SAMPLE, tmp_path / "out.onnx", exclude="nothing_like_it", block_size=32)
    assert found[0].filename == __file__, "the line that called"
    assert any("nothing_like_it" in each.sentence for each in report.passes[0].warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weir.quantize(SAMPLE, tmp_path / "other.onnx", block_size=32)


def test_a_failure_says_more_than_a_warning(weir, tmp_path):
    """Also where warnings are errors (-W error): what the run failed of is raised, with its hint."""
    weir.quantize(SAMPLE, tmp_path / "out.onnx", block_size=32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(weir.FailedError, match="is too small.*\nhint: "):
            weir.quantize(SAMPLE, tmp_path / "new.onnx", exclude="nothing_like_it", budget=1000)
        with pytest.raises(weir.WeirWarning, match="nothing_like_it"):  # the run that ended well says nothing else
            weir.quantize(SAMPLE, tmp_path / "new.onnx", exclude="nothing_like_it", block_size=32)


def test_notices_are_logged(weir, fault, instead, tmp_path, monkeypatch, caplog):
    instead(fault)
    monkeypatch.setenv("WEIR_FAULT", "kill:write:6")
    with pytest.raises(weir.KilledError):
        weir.convert(SAMPLE, tmp_path / "out.onnx")
    monkeypatch.delenv("WEIR_FAULT")
    with caplog.at_level(logging.INFO, "weir"):
        weir.convert(SAMPLE, tmp_path / "out.onnx", resume=True)
    assert [each for each in caplog.records if each.name == "weir" and each.message.startswith("resumed: ")], caplog.text


@pytest.mark.parametrize("name", ["convert", "measure", "audit", "shrink"])
def test_progress(weir, tmp_path, name):
    out, seen = tmp_path / "out.onnx", []
    if name == "convert":
        weir.convert(SAMPLE, out, progress=seen.append)
    elif name == "measure":
        weir.measure(SAMPLE, candidates="4:64", progress=seen.append)
    elif name == "shrink":
        weir.shrink(SAMPLE, output_dir=tmp_path, progress=seen.append)
    else:
        weir.convert(SAMPLE, out)
        weir.audit(out, progress=seen.append)
    assert all(isinstance(each, weir.Progress) and each.command == name for each in seen)
    assert [seen[0].event, seen[-1].event] == ["start", "end"]
    assert seen[-1].share == 1 and seen[-1].done == seen[-1].total > 0


def test_progress_comes_while_it_works(weir, fault, instead, tmp_path, monkeypatch):
    """The program stops itself when it has begun, and goes on only when the first event has come."""
    instead(fault)
    monkeypatch.setenv("WEIR_FAULT", "stop:write:5")
    seen = []

    def go_on(progress):
        if not seen:
            os.kill(child_of(os.getpid()), signal.SIGCONT)
        seen.append(progress)

    def give_up():
        for child in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)

    watchdog = threading.Timer(WAIT, give_up)
    watchdog.start()
    try:
        weir.convert(SAMPLE, tmp_path / "out.onnx", progress=go_on)
    finally:
        watchdog.cancel()
    assert [seen[0].event, seen[-1].event] == ["start", "end"]


def test_nothing_is_printed(weir, tmp_path, capfd):
    weir.convert(SAMPLE, tmp_path / "out.onnx")
    weir.inspect(SAMPLE)
    with pytest.raises(weir.InputError):
        weir.inspect(tmp_path / "nothere.onnx")
    assert capfd.readouterr() == ("", "")


# ---- how to stop


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_progress_that_raises_ends_the_program(weir, tmp_path, monkeypatch):
    started = []
    popen = subprocess.Popen

    def start(*words, **how):
        started.append(popen(*words, **how))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)

    def enough(progress):
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        weir.convert(SAMPLE, tmp_path / "out.onnx", progress=enough)
    assert len(started) == 1 and started[0].returncode is not None


SCRIPT = """
import os, sys
import weir, weir._run
weir._run.find_weir_bin = lambda: sys.argv[1]
try:
    weir.convert(sys.argv[2], sys.argv[3], jobs=1)
except KeyboardInterrupt:
    print("interrupted", [name for name in os.listdir(os.path.dirname(sys.argv[3])) if not name.endswith(".weir")])
del os.environ["WEIR_FAULT"]
print(weir.convert(sys.argv[2], sys.argv[3], jobs=1).weir.resumed)
"""


def child_of(pid):
    """The pid of its child that has stopped itself."""
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if state(child) == "T":
                return int(child)
        time.sleep(0.01)
    raise AssertionError("the program did not stop")


def test_interrupt(environment, fault, tmp_path):
    """Ctrl-C, which a terminal sends to everybody in the foreground, comes to Python alone, and from there once to the
    program: it cleans up, is waited for, and the next call continues. Of the model's 24 units at most 16 are
    made by then, however slow the disk is: AHEAD of tests/e2e/conftest.py says why."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    make_encoder.make_encoder(tmp_path / "in" / "encoder.onnx", size=1_500_000_000, sparse=True)
    words = [environment / "bin" / "python", "-c", SCRIPT, fault, tmp_path / "in" / "encoder.onnx", tmp_path / "out" / "out.onnx"]
    env = {**os.environ, "WEIR_FAULT": "stop:write:7"}  # a record
    process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        child = child_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        pending = 0
        end = time.monotonic() + WAIT
        while not pending and time.monotonic() < end:  # until Python has passed it on
            status = dict(line.split(":\t", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines() if ":\t" in line)
            pending = int(status["ShdPnd"], 16)
            time.sleep(0.01)
        assert pending == 1 << (signal.SIGTERM - 1)
        os.kill(child, signal.SIGCONT)
        out, err = process.communicate(timeout=WAIT)
    finally:
        process.kill()
    assert out.splitlines() == ["interrupted []", "units"], out + err


# ---- what the texts say


DOCTESTS = """
import doctest, importlib, sys
total = 0
for name in ("weir", "weir._run", "weir._commands", "weir.documents"):
    done = doctest.testmod(importlib.import_module(name))
    total += done.attempted
    if done.failed: sys.exit(1)
print(total)
"""


def test_docstrings(python):
    assert int(python("-c", DOCTESTS)) >= 4


PAGE = """
import doctest, sys
sys.path.append(sys.argv[2])  # NumPy, which the page's reader has
text = open(sys.argv[1]).read().split("```python\\n")[1:]
lines = "\\n".join(part.split("```")[0] for part in text)
test = doctest.DocTestParser().get_doctest(lines, {}, "python.md", sys.argv[1], 0)
done = doctest.DocTestRunner().run(test)
print(done)
sys.exit(done.failed)
"""


def test_page(python, encoder, runtime, tmp_path):
    """The examples of docs/python.md, one after the other, in a folder that has a model."""
    for path in encoder.parent.iterdir():
        shutil.copy(path, tmp_path)
    said = python("-c", PAGE, ROOT / "docs" / "python.md", Path(np.__file__).parent.parent, cwd=tmp_path)
    assert "failed=0" in said and "attempted=0" not in said


def test_page_names_every_class_and_code(weir, tables):
    page = (ROOT / "docs" / "python.md").read_text()
    for code, kind in sys.modules["weir._errors"].by_code.items():
        assert f"| `{kind.__name__}` | {code} |" in page
    for command in tables["commands"]:
        for option in command["options"]:
            if is_for_people(option):
                assert f"`--{option['name']}`" in page
