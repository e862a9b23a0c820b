"""Targets: what the table says of runtimes is what they do, in both directions, and weir keeps to it.

Every format that weir writes is loaded and run on the oldest and the newest ONNX Runtime of the table; with WEIR_TEST_ALL
(`tools/test --all`) on every version and on OpenVINO. What weir says a model needs must be just what runs it: a version
that lacks it must fail, and one that has it must give numbers close to those of the float model.
"""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import runtimes
from conftest import ALL, DATA

pytestmark = pytest.mark.in_memory

OLDEST, *BETWEEN, NEWEST = runtimes.ONNXRUNTIME
VERSIONS = [OLDEST, *BETWEEN, NEWEST] if ALL else [OLDEST, NEWEST]
# The greatest error beside the float model's output, relative; numbers that have nothing to do with it have about 1.4.
NEAR = {2: 0.75, 4: 0.2, 8: 0.02}


# ---- models


def save(path, nodes, given, out, initializers, opset=17, ir=8):
    graph = helper.make_graph(nodes, "g", given, out, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def matmul(path, dtype=np.float32, rows=(3,), **versions):
    random = np.random.default_rng(1)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weight = numpy_helper.from_array(random.normal(size=(256, 64)).astype(dtype), "w")
    x = random.normal(size=(*rows, 256))
    np.savez(path.with_suffix(".npz"), x=x.astype(dtype))
    np.savez(path.with_suffix(".wide.npz"), x=x.astype(np.float32))  # for what makes its inputs float32
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "mm")
    io = [helper.make_tensor_value_info(name, kind, dims) for name, dims in (("x", [*rows, 256]), ("y", [*rows, 64]))]
    return save(path, [node], io[:1], io[1:], [weight], **versions)


def gather(path, dtype=np.float32):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    random = np.random.default_rng(2)
    table = numpy_helper.from_array(random.normal(size=(100, 256)).astype(dtype), "table")
    np.savez(path.with_suffix(".npz"), ids=random.integers(0, 100, 17))
    node = helper.make_node("Gather", ["table", "ids"], ["y"], "embed")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [17])
    return save(path, [node], [ids], [helper.make_tensor_value_info("y", kind, [17, 256])], [table])


def conv(path):
    random = np.random.default_rng(3)
    weight = numpy_helper.from_array(random.normal(size=(8, 16, 3, 3)).astype(np.float32), "w")
    np.savez(path.with_suffix(".npz"), x=random.normal(size=(1, 16, 9, 9)).astype(np.float32))
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv")
    io = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", [1, 16, 9, 9]), ("y", [1, 8, 7, 7]))]
    return save(path, [node], io[:1], io[1:], [weight])


# Name: the model, what weir is asked for, how near it comes.
def quantizations():
    rows = {}
    for bits in (2, 4, 8):
        for name, words in (("", []), (" symmetric", ["--symmetric"]), (" blocks of 32", ["--block-size", "32"])):
            rows[f"MatMulNBits {bits}{name}"] = ("matmul", ["quantize", "--bits", str(bits), *words], NEAR[bits])
            rows[f"DequantizeLinear {bits}{name}"] = (
                "matmul",
                ["quantize", "--bits", str(bits), "--format", "qdq", *words],
                NEAR[bits],
            )
        rows[f"MatMulNBits {bits} float16"] = ("half", ["quantize", "--bits", str(bits)], NEAR[bits])
        rows[f"accuracy level 4, {bits}"] = ("matmul", ["quantize", "--bits", str(bits), "--accuracy-level", "4"], NEAR[bits])
        for source in ("matmul", "half"):
            for block in ("16", "256"):
                words = ["quantize", "--bits", str(bits), "--block-size", block]
                rows[f"MatMulNBits {bits} {source} blocks of {block}"] = (source, words, NEAR[bits])
        rows[f"Gather {bits} float16"] = ("half_gather", ["quantize", "--bits", str(bits), "--op-types", "Gather"], NEAR[bits])
        rows[f"DequantizeLinear {bits} float16"] = ("half", ["quantize", "--bits", str(bits), "--format", "qdq"], NEAR[bits])
        rows[f"GatherBlockQuantized {bits}"] = ("gather", ["quantize", "--bits", str(bits), "--op-types", "Gather"], NEAR[bits])
        rows[f"Gather DequantizeLinear {bits}"] = (
            "gather",
            ["quantize", "--bits", str(bits), "--op-types", "Gather", "--format", "qdq"],
            NEAR[bits],
        )
    for bits in (2, 4):
        for source in ("matmul", "half"):
            rows[f"hqq {bits} {source}"] = (source, ["quantize", "--bits", str(bits), "--algorithm", "hqq"], NEAR[bits])
    return rows


FORMATS = {
    **quantizations(),
    "by channel": ("matmul", ["quantize", "--format", "qdq", "--block-size", "channel", "--symmetric", "--bits", "8"], NEAR[8]),
    "dynamic": ("matmul", ["dynamic"], NEAR[8]),
    "dynamic integer": ("matmul", ["dynamic", "--form", "integer", "--weight-type", "uint8"], NEAR[8]),
    "dynamic float16": ("half", ["dynamic"], NEAR[8]),
    "dynamic Gather": ("gather", ["dynamic", "--op-types", "Gather"], NEAR[8]),
    "ConvInteger int8": ("conv", ["dynamic", "--op-types", "Conv"], NEAR[8]),
    "ConvInteger uint8": ("conv", ["dynamic", "--op-types", "Conv", "--weight-type", "uint8"], NEAR[8]),
    "cast float16": ("matmul", ["cast", "--to", "float16"], 0.002),
    "float16 graph": ("matmul", ["cast", "--to", "float16", "--graph", "--keep-io"], 0.005),
    "bfloat16 graph": ("matmul", ["cast", "--to", "bfloat16", "--graph", "--keep-io"], 0.02),
    "cast bfloat16": ("matmul", ["cast", "--to", "bfloat16"], 0.01),
    "shrink": ("matmul", ["shrink"], 0.05),
    "shrink dequantize": ("matmul", ["shrink", "--form", "dequantize"], 0.05),
    "shrink float_weights": ("matmul", ["shrink", "--method", "float_weights"], 0.05),
    "shrink f16_to_f32": ("half", ["shrink", "--method", "f16_to_f32"], 0.005),
    **{f"opset {opset}": (f"opset{opset}", ["convert"], 0.001) for opset in (21, 22, 23, 24, 25, 26)},
    **{f"IR version {ir}": (f"ir{ir}", ["convert"], 0.001) for ir in (10, 11, 12, 13)},
}


# What a version runs although a later one, or another processor, does not: weir says the version from which on all do.
MORE = {("DequantizeLinear 2 float16", "1.24"), ("accuracy level 4, 8", "1.22")}

BASES = ["matmul", "half", "gather", "half_gather", "conv"]


class Written:
    def __init__(self, folder, weir, rows=(3,)):
        self.folder, self.weir = folder, weir
        self.sources = {
            "matmul": matmul(folder / "matmul.onnx", rows=rows),
            "half": matmul(folder / "half.onnx", np.float16, rows),
        }
        self.sources["gather"] = gather(folder / "gather.onnx")
        self.sources["conv"] = conv(folder / "conv.onnx")
        self.sources["half_gather"] = gather(folder / "half_gather.onnx", np.float16)
        for opset in range(21, 27):
            self.sources[f"opset{opset}"] = matmul(folder / f"opset{opset}.onnx", rows=rows, opset=opset, ir=10)
        for ir in range(10, 14):
            self.sources[f"ir{ir}"] = matmul(folder / f"ir{ir}.onnx", rows=rows, opset=21, ir=ir)
        self.models, self.needs = {}, {}
        for name, (source, words, _) in FORMATS.items():
            out = folder / f"{name.replace(' ', '-')}.onnx"
            weir(words[0], self.sources[source], "-o", out, *words[1:], "--no-manifest", "--quiet")
            self.models[name] = out
            self.needs[name] = weir("inspect", out, "--json").json()["needs"]

    def given(self, name):
        return self.sources[FORMATS[name][0]].with_suffix(".wide.npz" if "f16_to_f32" in name else ".npz")

    def jobs(self, here):
        """What runtimes.run is asked for: the models that weir wrote, and those they were made of."""
        jobs = {name: (path, self.given(name), here / f"{path.stem}.npz") for name, path in self.models.items()}
        for source in BASES:
            path = self.sources[source]
            jobs[source] = (path, path.with_suffix(".npz"), here / f"float-{source}.npz")
        return jobs

    def near(self, jobs, found, where):
        """{format: error}; numbers that came out must be near those of the model it was made of, if that ran."""
        for name, (source, _, near) in FORMATS.items():
            source = source if source in BASES else "matmul"
            if found[name] is None and found[source] is None:
                wanted, got = (np.load(jobs[each][2])["arr_0"].astype(np.float64) for each in (source, name))
                error = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
                assert error < near, f"{name} on {where}: a relative error of {error:.3g}"
        return {name: found[name] for name in FORMATS}

    def run(self, package, version):
        """{format: error, None where it ran and what came out is near}"""
        here = self.folder / f"{package}-{version}"
        here.mkdir()
        jobs = self.jobs(here)
        try:
            found = runtimes.run(package, version, jobs, here)
        except runtimes.Missing as why:
            pytest.skip(str(why))
        assert not any(found[source] for source in BASES)
        return self.near(jobs, found, f"{package} {version}")


@pytest.fixture(scope="module")
def written(module_folder, weir):
    return Written(module_folder, weir)


def minor(version):
    return int(version.split(".")[1])


def runs_in(needs, version):
    """Does the model run in that version of ONNX Runtime, as weir says?"""
    if needs["onnxruntime"] is None:
        return not needs["why"]  # else none runs it
    return minor(needs["onnxruntime"]) <= minor(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_onnxruntime(written, version):
    wrong = []
    for name, error in written.run("onnxruntime", runtimes.ONNXRUNTIME[version]).items():
        if (name, version) in MORE:
            continue
        if (error is None) != runs_in(written.needs[name], version):
            wrong.append(f"{name} needs {written.needs[name]}: {error or 'it runs'}")
    assert not wrong, "\n".join(wrong)


def table(weir):
    return {each["name"]: each for each in weir("targets", "--json").json()["targets"]}


def refused(weir, written, name, target):
    """Does weir refuse this format for the target? Nothing is written."""
    source, words, _ = FORMATS[name]
    out = written.folder / "refused.onnx"
    done = weir(words[0], written.sources[source], "-o", out, *words[1:], "--target", target, "--dry-run", code=None)
    assert done.code in (0, 2) and (done.code == 0 or f"target {target} does not" in done.err), done.err
    return done.code == 2


def warned(weir, written, name, target):
    """What weir warns of, that a part of the target does not run it in this format."""
    source, words, _ = FORMATS[name]
    if words[0] == "convert":
        return set()
    done = weir(words[0], written.sources[source], "-o", written.folder / "warned.onnx", *words[1:], "--target", target, "--dry-run")
    found = re.search(f"warning: target {target} does not run (.*) everywhere", done.err)
    return set(found[1].split(", ")) if found else set()


def test_refusals_are_the_needs(weir, written, pool):
    """A format is refused for just those versions that are older than what its model needs."""

    def check(name):
        for version in runtimes.ONNXRUNTIME:
            wanted = not runs_in(written.needs[name], version)
            assert refused(weir, written, name, f"ort-{version}") == wanted, (name, version)

    list(pool.map(check, [name for name in FORMATS if FORMATS[name][1][0] != "convert"]))


@pytest.mark.skipif(not ALL, reason="with tools/test --all")
def test_openvino(weir, written):
    failed = {name for name, error in written.run("openvino", runtimes.OPENVINO).items() if error}
    asked = {name for name in FORMATS if FORMATS[name][1][0] != "convert"}
    wanted = {name for name in asked if refused(weir, written, name, "openvino")}
    warns = {name for name in asked - wanted if warned(weir, written, name, "openvino")}
    assert wanted and warns and wanted <= failed <= wanted | warns


def test_the_oldest_lacks_something_and_the_newest_nothing(weir, written):
    """So that neither direction is empty."""
    needed = [each["onnxruntime"] for each in written.needs.values()]
    assert {"1.21", "1.23", "1.24", "1.25", "1.27", "1.28", None} == set(needed)
    found = table(weir)
    assert len(found["ort-1.20"]["does_not_run"]) > 5 and found["ort-1.31"]["does_not_run"] == ["bfloat16 arithmetic"]
    assert [name for name in found if name.startswith("ort-")] == [f"ort-{version}" for version in runtimes.ONNXRUNTIME]


# ---- float16 and bfloat16 graphs, fixed shapes


def test_bfloat16_arithmetic_is_said(weir, written):
    [why] = written.needs["bfloat16 graph"]["why"]
    assert why == "bfloat16 arithmetic" and written.needs["bfloat16 graph"]["onnxruntime"] is None
    said = weir("inspect", written.models["bfloat16 graph"]).out
    assert "ONNX Runtime does not run it on a CPU (bfloat16 arithmetic)" in said
    assert not written.needs["cast bfloat16"]["why"]  # whose weights alone have the type


def test_float16_arithmetic_is_not_storage(weir, written):
    for words, warned in ((["--graph"], True), (["--graph", "--keep-io"], True), ([], False)):
        done = weir("cast", written.sources["matmul"], "-o", "none.onnx", "--to", "float16", *words, "--target", "webgpu", "--dry-run")
        assert ("does not run float16 arithmetic everywhere" in done.err) == warned
    assert "hint: cast without --graph" in weir("cast", written.sources["matmul"], "-o", "none.onnx", "--to", "float16", "--graph", "--target", "webgpu", "--dry-run").err
    # A model that computes in it before counts too; how to cast is no help then.
    said = weir("quantize", written.sources["half"], "-o", "none.onnx", "--target", "webgpu", "--dry-run").err
    assert "float16 arithmetic" in said and "--graph" not in said


def open_dims(path, **dims):
    """An Add of inputs with these dims."""
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, each) for name, each in dims.items()]
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["any"] * max(map(len, dims.values())))
    return save(path, [helper.make_node("Sum", list(dims), ["out"], "sum")], given, [out], [])


def test_a_target_of_fixed_shapes_names_the_dims(weir, tmp_path):
    def said(name, *words, **dims):
        return weir("run", open_dims(tmp_path / f"{name}.onnx", **dims), tmp_path / f"{name}-out.onnx", *words, "--target", "qnn-htp").err

    err = said("named", "--pass", "tidy", x=["batch", 3, "time"], y=["batch", 1, 4])
    assert "target qnn-htp runs fixed shapes only; inputs of the model have dims without a number: batch, time\n" in err
    assert "--set-dim NAME=NUMBER" in err
    err = said("nameless", "--pass", "tidy", x=[None, 3])
    assert "the input 'x' has dims without a number" in err and "--set-shape x=" in err
    err = said("both", "--pass", "tidy", x=["batch", None])
    assert "without a number: batch\n" in err and "--set-shape x=" in err
    many = {f"x{i}": [f"d{i}"] for i in range(12)}
    assert "d0, d1, d2, d3, d4, d5, d6, d7 and others\n" in said("many", "--pass", "tidy", **many)
    # Numbers, and what is made a number on the way.
    assert "fixed shapes" not in said("fixed", "--pass", "tidy", x=[2, 3], y=[1, 3])
    steps = ["--pass", "infer:set_dim=batch=1+time=8", "--pass", "tidy"]
    assert "fixed shapes" not in said("made", *steps, x=["batch", 3, "time"])


# ---- what a target sets


ENCODER = DATA / "parakeet-dynamo" / "encoder-model.onnx"


def nodes(path, op_type):
    found = [node for node in onnx.load(path, load_external_data=False).graph.node if node.op_type == op_type]
    return [(node, {each.name: helper.get_attribute_value(each) for each in node.attribute}) for node in found]


def test_defaults(weir, tmp_path):
    out = tmp_path / "out.onnx"
    said = weir("quantize", ENCODER, out, "--target", "cpu", "--tensor", "*350*=bits8")
    assert "target cpu: blocks of 32, symmetric, accuracy level 4 on 4-bit nodes" in said.err
    levels = {(attrs["bits"], attrs["block_size"], attrs.get("accuracy_level"), len(node.input)) for node, attrs in nodes(out, "MatMulNBits")}
    assert levels == {(4, 32, 4, 3), (8, 32, None, 3)}
    assert "needs ONNX Runtime 1.23 or newer (8-bit MatMulNBits)" in said.out


def test_own_options_win(weir, tmp_path):
    out = tmp_path / "out.onnx"
    weir("quantize", ENCODER, out, "--target", "cpu", "--block-size", "64", "--symmetric=false", "--accuracy-level", "1")
    assert {(attrs["block_size"], attrs["accuracy_level"], len(node.input)) for node, attrs in nodes(out, "MatMulNBits")} == {(64, 1, 4)}
    weir("quantize", ENCODER, out, "--target", "cpu", "--algorithm", "hqq", "--force")  # which has no symmetric form
    weir("quantize", ENCODER, out, "--target", "cpu", "--format", "qdq", "--force")  # which has no accuracy level


@pytest.mark.parametrize(
    "words, told",
    [
        (["--symmetric=false"], "blocks of 32, accuracy level 4 on 4-bit nodes (you set --symmetric=false)"),
        (["--symmetric", "--block-size", "32"], "blocks of 32, symmetric, accuracy level 4 on 4-bit nodes"),
        (
            ["--block-size", "64", "--symmetric=false", "--accuracy-level", "1"],
            "no defaults used (you set --block-size 64, --symmetric=false, --accuracy-level 1)",
        ),
        (["--algorithm", "hqq"], "blocks of 32, accuracy level 4 on 4-bit nodes"),
        (["--format", "qdq"], "blocks of 32, symmetric"),
        (["--budget", "500k"], "--candidates 4:128:sym,4:64:sym,4:32:sym,8:128:sym, accuracy level 4 on 4-bit nodes"),
        (["--budget", "500k", "--candidates", "4:64,8:64"], "accuracy level 4 on 4-bit nodes (you set --candidates 4:64,8:64)"),
    ],
)
def test_it_says_what_it_sets_and_what_the_user_set_instead(weir, tmp_path, words, told):
    said = weir("quantize", ENCODER, tmp_path / "out.onnx", "--target", "cpu", *words).err
    assert f"weir: target cpu: {told}\n" in said


@pytest.mark.parametrize(
    "word, hint",
    [
        ("ort-1.99", "'ort-1.32', the nearest"),
        ("ort-1.5", "'ort-1.20', the nearest"),
        ("ORT 1.22", "'ort-1.22'"),
        ("onnxruntime-1.24.3", "'ort-1.24'"),
        ("onnxruntime-1.99", "'ort-1.32', the nearest"),
        ("onnxruntime-1.32", "'ort-1.32'"),
        ("ort", "'cpu'"),
    ],
)
def test_a_version_that_is_no_target(weir, tmp_path, word, hint):
    said = weir("quantize", ENCODER, tmp_path / "out.onnx", "--target", word, code=2).err
    assert f"hint: did you mean {hint}? 'weir targets' lists all\n" in said
    assert f"hint: did you mean {hint}?\n" in weir("targets", word, code=2).err
    assert "1.3" not in weir("quantize", ENCODER, tmp_path / "out.onnx", "--target", "ort-1.x", code=2).err


@pytest.mark.parametrize(
    "words, told",
    [
        (["dynamic", "--target", "transformers.js"], "weight-type=by-conv, compat=onnxruntime-1.31, enable-subgraph=true"),
        (["dynamic", "--target", "transformers.js", "--weight-type", "uint8"], "compat=onnxruntime-1.31, enable-subgraph=true (you set --weight-type uint8)"),
        (["dynamic", "--target", "transformers.js", "--form", "integer"], "weight-type=by-conv"),
        (["dynamic", "--target", "sherpa"], "op-types=MatMul, form=integer"),
        (["dynamic", "--target", "sherpa", "--form", "fused"], "op-types=MatMul (you set --form fused)"),
        (["dynamic", "--target", "cpu"], "ONNX Runtime 1.31 on a CPU, for speed"),
        (["shrink", "--target", "cpu"], "ONNX Runtime 1.31 on a CPU, for speed"),
        (["quantize", "--target", "ort-1.31"], "the defaults of quantize"),
    ],
)
def test_it_says_what_it_sets_for_this_command(weir, tmp_path, words, told):
    command, *rest = words
    out = ["--output-dir", tmp_path] if command == "shrink" else [tmp_path / "out.onnx"]
    said = weir(command, ENCODER, *out, *rest).err
    assert f"weir: target {rest[1]}: {told}\n" in said


def test_steps_of_a_target_that_differ_have_a_line_each(weir, tmp_path):
    steps = ["--pass", "quantize:symmetric=false,include=*350*", "--pass", "quantize", "--pass", "quantize:min_elements=9"]
    said = weir("run", ENCODER, tmp_path / "out.onnx", *steps, "--target", "webgpu").err
    lines = [line for line in said.splitlines() if line.startswith("weir: target")]
    assert lines == ["weir: target webgpu: blocks of 32 (you set symmetric=false)", "weir: target webgpu: blocks of 32, symmetric"]


def test_columns_that_are_one_block_are_by_channel(weir, tmp_path):
    """What the defaults of tensorrt say of them is what is written."""
    out = tmp_path / "out.onnx"
    said = weir("quantize", ENCODER, out, "--target", "tensorrt")
    assert "blocks of 128 (columns of up to 128 elements: by channel)" in said.err
    model = onnx.load(out)
    dims = {each.name: list(each.dims) for each in model.graph.initializer}
    found = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    assert found and all(dims[node.input[0]][0] <= 128 and dims[node.input[1]][0] == 1 for node in found)
    assert "4 bits by channel" in said.out


def test_the_same_bytes_by_all_ways(weir, tmp_path):
    """A command's flag, a pass's key, the flag of run, the key of a file; and the options written out."""
    (tmp_path / "before.yaml").write_text("target: tensorrt\npasses: [quantize]\n")
    (tmp_path / "behind.yaml").write_text("passes:\n- quantize: {bits: 4}\ntarget: tensorrt\n")
    (tmp_path / "other.yaml").write_text("target: webgpu\npasses: [quantize]\n")
    ways = [
        ["quantize", "--target", "tensorrt"],
        ["quantize", "--format", "qdq", "--block-size", "128", "--symmetric"],
        ["run", "--pass", "quantize:target=tensorrt"],
        ["run", "--pass", "quantize", "--target", "tensorrt"],
        ["run", "--config", "before.yaml"],
        ["run", "--config", "behind.yaml"],
        ["run", "--config", "other.yaml", "--target", "tensorrt"],
        ["run", "--pass", "quantize:target=tensorrt", "--target", "webgpu"],
    ]
    found = set()
    for number, words in enumerate(ways):
        (tmp_path / str(number)).mkdir()
        out = tmp_path / str(number) / "out.onnx"
        weir(words[0], ENCODER, out, *words[1:], cwd=tmp_path)
        found.add((out.read_bytes(), out.with_name("out.onnx.data").read_bytes()))
    assert len(found) == 1


def test_a_log_says_the_options_and_replays(weir, tmp_path):
    out, again, log = tmp_path / "out.onnx", tmp_path / "again.onnx", tmp_path / "log.jsonl"
    weir("quantize", ENCODER, out, "--target", "cpu", "--edit-log", log)
    options = json.loads(log.read_text().splitlines()[0])["options"]
    assert options["target"] == "cpu" and options["accuracy_level"] == 4 and options["block_size"] == "32"
    weir("replay", log, ENCODER, again)
    assert (tmp_path / "again.onnx.data").read_bytes() == (tmp_path / "out.onnx.data").read_bytes()


# ---- what weir does not pick


def chosen(report):
    return {node["chosen"]["scheme"] for each in report["passes"] for node in each["nodes"] if "chosen" in node}


def test_budgets_do_not_pick_what_does_not_run(weir, tmp_path):
    words = ["quantize", ENCODER, tmp_path / "out.onnx", "--budget", "700k", "--force"]
    assert "8:128" in chosen(weir.report(*words))  # which a larger budget takes
    old = weir.report(*words, "--target", "ort-1.22")
    assert old["weir"]["needs"]["onnxruntime"] is None and chosen(old) and "8:128" not in chosen(old)
    assert "8:128" in chosen(weir.report(*words, "--target", "ort-1.23"))
    said = weir(*words, "--target", "ort-1.22").err
    assert said.count("not a candidate: 8:128") == 1


def test_gates_do_not_raise_to_what_does_not_run(weir, tmp_path):
    words = ["quantize", ENCODER, tmp_path / "out.onnx", "--gate", "sqnr=22dB", "--block-size", "32", "--force"]
    raised = weir.report(*words)
    assert raised["weir"]["needs"] == {"onnxruntime": "1.23", "why": ["8-bit MatMulNBits"]}
    old = weir.report(*words, "--target", "ort-1.22")
    assert old["weir"]["needs"]["onnxruntime"] is None
    [each] = old["passes"]
    left = {node["tensor"] for node in each["nodes"] if node["reason"] == "target"}
    [of_raised] = raised["passes"]
    assert left == {node["tensor"] for node in of_raised["nodes"] if node.get("chosen", {}).get("by") == "gate" and node["chosen"]["scheme"].startswith("8")}


def test_what_was_there_before_counts(weir, tmp_path):
    """A model with nodes that a target does not run is not written for it by anything, but for others."""
    eight = tmp_path / "eight.onnx"
    weir("quantize", ENCODER, eight, "--bits", "8", "--include", "*350*")
    for words in (["cast", "--to", "float16"], ["shrink"], ["run", "--pass", "tidy"], ["quantize"]):
        out = tmp_path / f"{words[0]}.onnx"
        done = weir(words[0], eight, "-o", out, *words[1:], "--target", "ort-1.22", code=2)
        assert "target ort-1.22 does not run 8-bit MatMulNBits, which the output would have" in done.err and not out.exists()
        weir(words[0], eight, "-o", out, *words[1:], "--target", "ort-1.23")


def test_float16_weights_of_the_model_count(weir, written, tmp_path):
    """Which no option tells: 2 bits of them came to ONNX Runtime after 2 bits of float32."""
    for target, code in (("ort-1.27", 2), ("ort-1.28", 0)):
        weir("quantize", written.sources["half"], tmp_path / "out.onnx", "--bits", "2", "--target", target, code=code)
    weir("quantize", written.sources["matmul"], tmp_path / "float.onnx", "--bits", "2", "--target", "ort-1.27")


def test_warnings(weir, tmp_path):
    done = weir("cast", ENCODER, tmp_path / "out.onnx", "--to", "bfloat16", "--target", "transformers.js")
    assert "warning: target transformers.js does not run bfloat16 everywhere" in done.err
    weir("cast", ENCODER, tmp_path / "none.onnx", "--to", "bfloat16", "--target", "webgpu", code=2)


def test_nothing_is_said_without_a_target(weir, tmp_path):
    done = weir("quantize", ENCODER, tmp_path / "out.onnx", "--block-size", "32")
    assert "target" not in done.err + done.out and "needs" not in done.out
    assert "needs ONNX Runtime" not in weir("inspect", tmp_path / "out.onnx").out


def test_measure(weir):
    done = weir("measure", ENCODER, "--target", "ort-1.22", "--json")
    schemes = {each["candidate"] for each in done.json()["totals"]}
    assert schemes == {"4:128", "4:64", "4:32"} and "not a candidate: 8:128" in done.err
    own = weir("measure", ENCODER, "--target", "webgpu", "--candidates", "4:32,2:64", "--json").json()
    assert {each["candidate"] for each in own["totals"]} == {"4:32", "2:64"}
