"""The first hour of someone who has never seen the source: README in one hand, a shell in the other.

    this file                       build and install, look, quantize, choose, dry runs, layouts, pipelines, logs, audits
    test_first_hour_mistakes.py     what goes wrong: slips on the command line, wrong files, folders, names, links
    test_first_hour_terminal.py     keys and screens: Ctrl-C, Ctrl-Z, kills, pipes, colours, progress, completions

Every test is a task that such a person set themselves, given to bash as they typed it. Judged is what they can see: the
exit code, what is printed (errors are one plain line and at most one hint), what lies in the folder before and after,
whether ONNX Runtime loads the result and what it then computes. Other files look at each of these closely, and at every
case; this one only asks whether the way from one to the next can be walked. So it takes little for granted about
wording: names of files, options and nodes, numbers, and that it is short.
"""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import compare
import make_encoder
from conftest import TESTS, package_model, package_models, program
from installed import PACKAGE_MODELS
from test_conv2matmul import encoder_feeds
from test_documented import console, fences

ROOT = TESTS.parent


def nearness(path, other):
    """How near the encoder's outputs are to those of another, in dB; 300 if they are the same."""
    feeds = encoder_feeds(128, (97,))
    [[want, length]], [[got, other_length]] = compare.run(path, feeds), compare.run(other, feeds)
    assert want.shape == got.shape and np.array_equal(length, other_length) and np.isfinite(got).all()
    power, error = np.square(want, dtype=float).sum(), np.square(want - got, dtype=float).sum()
    return 10 * np.log10(power / error) if error else 300


def size_of_all(desk, name):
    """Bytes of a model and its data, without its manifest."""
    return sum(path.stat().st_size for path in desk.folder.glob(f"{name}*") if path.suffix != ".json")


def some_models():
    """Models that nobody here made: of packages, and of the onnx package's own tests."""
    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    of_onnx = [*data.glob("light/*.onnx"), *data.glob("simple/test_s*/model.onnx")]
    assert len(of_onnx) > 10
    return [path for package in PACKAGE_MODELS for path in package_models(package)] + sorted(of_onnx)


# ---- what README says first


def test_the_first_command_of_readme(desk):
    """From a folder with a model in it, nothing made before."""
    _, _, lines = next(each for each in fences("README.md") if each[1].startswith("console"))
    [(line, _)] = console(lines)
    before = desk.files()
    said = desk(line)
    assert said.err == "" and len(said.out.splitlines()) <= 4
    assert " dB" in said.out and " s" in said.out and "MB of memory" in said.out
    for name in ("int4/encoder.onnx", "int4/encoder.onnx.data", "int4/encoder.onnx.manifest.json"):
        assert name in said.out and (desk / name).exists()
    assert {name: digest for name, digest in desk.files().items() if not name.startswith("int4")} == before
    assert size_of_all(desk, "int4/encoder.onnx") < size_of_all(desk, "encoder.onnx") / 3
    assert nearness(desk / "encoder.onnx", desk / "int4/encoder.onnx") > 5
    desk.refused(line, 2, "--force", "int4/encoder.onnx")


def test_the_small_quickstart(desk):
    """What it shows once the machine has what it needs: every command of its first part, in order."""
    script = (ROOT / "tools" / "quickstart").read_text()
    desk('bash -n "$1"', words=[ROOT / "tools" / "quickstart"])
    first_part = script[: script.index("[ $small = yes ]")]
    shown = re.findall(r"^show (weir .*)$", first_part, re.MULTILINE)
    assert len(shown) >= 3 and "weir --version" in first_part
    shutil.copy(package_model("rapidocr", "det_small"), desk / "det.onnx")
    for line in ["weir --version", *shown]:
        desk(line)
    feeds = [{"x": np.random.default_rng(0).random((1, 3, 96, 96), np.float32)}]
    want = compare.run(desk / "det.onnx", feeds)
    compare.assert_close(want, compare.run(desk / "det.matmul.onnx", feeds))
    assert np.allclose(want, compare.run(desk / "det.int4.onnx", feeds), atol=0.01)  # no text in noise: all near 0


def test_build_by_hand(desk):
    """README's line configures without what only tests need, and weir is what it would build."""
    for name in ("cmake", "ninja"):
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed")
    readme = (ROOT / "README.md").read_text()
    assert "cmake -S . -B build -G Ninja && ninja -C build" in readme
    desk('cmake -S "$1" -B build -G Ninja >log 2>&1 || { cat log; false; }', words=[ROOT])
    planned = desk("ninja -C build -t commands").out
    assert "-o weir " in planned and "/tests/" not in planned and "cmocka" not in planned
    assert "WEIR_TESTS:BOOL=OFF" in (desk / "build" / "CMakeCache.txt").read_text()


def test_install(desk):
    """Program, manual pages, docs and completions, in place under a prefix."""
    build = Path(program("WEIR")).parent
    if not (build / "cmake_install.cmake").exists() or not shutil.which("cmake"):
        pytest.skip("weir was not built by CMake here")
    desk('cmake --install "$1" --prefix "$PWD/usr"', words=[build])
    assert desk("usr/bin/weir --version").out.startswith("weir ")
    there = "\n".join(desk.files("usr"))
    for name in ("man1/weir.1", "man1/weir-quantize.1", "quantize.md", "_weir", "weir.fish", "bash-completion"):
        assert name in there, name


# ---- what is this, and is it sound?


def test_what_is_this_model(desk):
    """A folder of models of others: every one is described, as text and for programs."""
    for number, path in enumerate(some_models()):
        shutil.copy(path, desk / f"m{number}.onnx")
    before = desk.files()
    for how in ("", "--tensors --tree"):
        wrong = desk(f'for m in m*.onnx; do weir inspect "$m" {how} >/dev/null 2>>said || echo "$m $?"; done; cat said; rm said')
        assert wrong.out == "", how
    for path in desk.folder.glob("m*.onnx"):
        found, model = desk(f"weir inspect {path.name} --json").json(), compare.structure(path)
        assert found["ir_version"] == model.ir_version and len(found["opsets"]) == len(model.opset_import), path
    assert desk.files() == before
    screen = desk("weir inspect encoder.onnx").out
    assert len(screen.splitlines()) < 80
    for word in ("encoder.onnx.data", "k parameters", "audio_signal", "float[1,128,frames]", "MatMul", "opset"):
        assert word in screen, word


def test_the_best_next_command_is_typed_as_it_stands(desk):
    """With its size within a few per cent; then the way to check it; and again of what that makes."""
    said = desk.lines("weir inspect encoder.onnx")
    promised = float(re.search(r"^Next, for about ([\d.]+) kB", said[-4])[1])
    desk(said[-3].strip())
    desk("weir verify encoder.onnx encoder.onnx --save-case DIR --quiet")
    assert "verified: " in desk(said[-1].strip()).out
    assert abs(size_of_all(desk, "encoder.int4.onnx") / 1000 - promised) < 0.1 * promised
    assert re.search(r"quantized.*58 weights.*4 bits", desk("weir inspect encoder.int4.onnx").out)


def test_are_these_models_sound(desk):
    """No false alarms about models of others; 15 broken ones, each with its code and a place."""
    for number, path in enumerate(some_models()):
        shutil.copy(path, desk / f"m{number}.onnx")
    assert desk('for m in m*.onnx; do weir check "$m" >/dev/null || echo "$m $?"; done').out == ""
    model = compare.structure(desk / "encoder.onnx")
    whole = (desk / "encoder.onnx").read_bytes()

    def changed(change):
        other = compare.structure(desk / "encoder.onnx")
        change(other)
        return other.SerializeToString()

    def rename_data(other):
        for _, tensor in compare.tensors(other):
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = "gone.data"

    def point_past_the_end(other):
        tensor = next(each for _, each in compare.tensors(other) if compare.is_external(each))
        next(entry for entry in tensor.external_data if entry.key == "offset").value = "99999999"

    def point_out(other):
        tensor = next(each for _, each in compare.tensors(other) if compare.is_external(each))
        next(entry for entry in tensor.external_data if entry.key == "location").value = "../secret"

    external = next(t.name for _, t in compare.tensors(model) if compare.is_external(t))
    node = next(each for each in model.graph.node if each.op_type == "MatMul")
    broken = {
        "empty": (b"", 65, ""),
        "half": (whole[: len(whole) // 2], 65, "cut off"),
        "one byte": (whole[:1], 65, ""),
        "zeros": (bytes(4096), 65, "zeros"),
        "text": (b"hello, world\n", 65, "text"),
        "tail": (whole + b"\xff" * 9, 65, ""),
        "lost data": (changed(rename_data), 66, "gone.data"),
        "past the end": (changed(point_past_the_end), 65, external),
        "outside": (changed(point_out), 65, "../secret"),
        "no producer": (changed(lambda m: m.graph.input.pop(0)), 65, "audio_signal"),
        "made twice": (changed(lambda m: m.graph.node.append(node)), 65, node.output[0]),
        "no such output": (changed(lambda m: setattr(m.graph.output[0], "name", "nowhere")), 65, "nowhere"),
        "length of dims": (changed(lambda m: m.graph.initializer[0].dims.append(3)), 65, model.graph.initializer[0].name),
        "twice a name": (changed(lambda m: m.graph.initializer.append(m.graph.initializer[0])), 65, model.graph.initializer[0].name),
        "no graph": (changed(lambda m: m.ClearField("graph")), 65, ""),
    }  # fmt: skip
    for name, (content, code, mentioned) in broken.items():
        (desk / "broken.onnx").write_bytes(content)
        done = desk("weir check broken.onnx", code=None)
        assert done.code == code, f"{name}: {done}"
        assert mentioned in done.said and "broken.onnx" in done.said and len(done.said.splitlines()) <= 6, f"{name}: {done}"
        desk.refused("weir quantize broken.onnx out.onnx", done.code, mentioned, "broken.onnx")


# ---- 4 bits for a CPU, for a browser, for any runtime; layers that stay


def test_int4_for_a_cpu(desk):
    """Blocks of 32, symmetric, products of 8 bits: loads, runs, and is near; 8 bits are nearer by far."""
    desk("weir quantize encoder.onnx cpu.onnx --block-size 32 --symmetric --accuracy-level 4")
    desk("weir quantize encoder.onnx int8.onnx --bits 8 --block-size 32")
    four, eight = nearness(desk / "encoder.onnx", desk / "cpu.onnx"), nearness(desk / "encoder.onnx", desk / "int8.onnx")
    assert four > 5 and eight > 25 and eight > four + 15
    products = [node for node in onnx.load(desk / "cpu.onnx").graph.node if node.op_type == "MatMulNBits"]
    assert len(products) == 46
    for node in products:
        options = {each.name: each.i for each in node.attribute}
        assert (options["bits"], options["block_size"], options["accuracy_level"]) == (4, 32, 4)


def test_what_the_end_of_a_run_says(desk):
    """What is usual, for each number of bits; and who was kept, by a name that stands for a layer."""
    for bits, usual in ((2, 7), (4, 21), (8, 45)):
        said = desk(f"weir quantize encoder.onnx b{bits}.onnx --bits {bits} --block-size 64").out
        worst = float(re.search(rf"worst .* ([\d.]+) dB  \(usual for {bits} bits: about {usual}\)", said)[1])
        assert abs(worst - usual) < 1.5
    kept = re.search(r"kept .*, such as that of (\S+)", desk("weir cast encoder.onnx half.onnx --to fp16").out)[1]
    [node] = [node for node in onnx.load(desk / "encoder.onnx", load_external_data=False).graph.node if node.name == kept]
    assert node.op_type != "Constant"


def test_int4_for_a_browser(desk):
    """One file with no zero points, tables of embeddings too: what WebGPU takes."""
    numbers = np.random.default_rng(0)
    weights = {"table": (512, 64), "w": (64, 256)}
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Gather", ["table", "ids"], ["x"], "embed"),
            onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "head"),
        ],
        "words",
        [onnx.helper.make_tensor_value_info("ids", onnx.TensorProto.INT64, ["n"])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 256])],
        [onnx.numpy_helper.from_array(numbers.normal(size=s).astype("f4"), n) for n, s in weights.items()],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), desk / "words.onnx")
    desk("weir quantize words.onnx web.onnx --block-size 32 --symmetric --op-types MatMul,Gather")
    assert sorted(desk.files()) == ["encoder.onnx", "encoder.onnx.data", "web.onnx", "web.onnx.manifest.json", "words.onnx"]
    found = onnx.load(desk / "web.onnx").graph
    assert [node.op_type for node in found.node] == ["GatherBlockQuantized", "MatMulNBits"]
    assert not any("zero" in each.name for each in found.initializer)
    feeds = [{"ids": np.arange(7)}]
    [[want]], [[got]] = compare.run(desk / "words.onnx", feeds), compare.run(desk / "web.onnx", feeds)
    assert np.corrcoef(want.ravel(), got.ravel())[0, 1] > 0.97


def test_int4_for_any_runtime(desk):
    """Standard operators of opset 21; a model that cannot be raised to it is refused, which is no fault of its file."""
    desk("weir quantize encoder.onnx qdq.onnx --format qdq --block-size 32")
    model = onnx.load(desk / "qdq.onnx")
    onnx.checker.check_model(model)
    assert {each.domain for each in model.opset_import} <= {"", "ai.onnx"}
    assert any(node.op_type == "DequantizeLinear" for node in model.graph.node)
    assert nearness(desk / "encoder.onnx", desk / "qdq.onnx") > 5
    shutil.copy(package_model("rapidocr", "rec_small"), desk / "ocr.onnx")
    desk.refused("weir quantize ocr.onnx out.onnx --format qdq", 1, "opset", "--format qoperator")
    desk("weir quantize ocr.onnx out.onnx --format qoperator --block-size 32")
    compare.session(desk / "out.onnx")


def kept_in_float(desk, name):
    return {n.name for n in onnx.load(desk / name, load_external_data=False).graph.node if n.op_type == "MatMul"}


def test_layers_that_stay_in_float(desk):
    """By a glob, by an expression, by the one tensor; the numbers of the others are as before."""
    desk("weir quantize encoder.onnx all.onnx --block-size 32")
    desk("weir quantize encoder.onnx glob.onnx --block-size 32 --exclude '/layers.0/*' --exclude '*linear_q*'")
    desk(r"weir quantize encoder.onnx re.onnx --block-size 32 --exclude 're:^/layers\.[02]/'")
    without = kept_in_float(desk, "all.onnx")
    by_glob, by_re = kept_in_float(desk, "glob.onnx") - without, kept_in_float(desk, "re.onnx") - without
    assert by_glob and all(name.startswith("/layers.0/") or "linear_q" in name for name in by_glob)
    assert by_re and {name.split("/")[1] for name in by_re} == {"layers.0", "layers.2"}
    assert nearness(desk / "encoder.onnx", desk / "glob.onnx") > 5
    desk("weir quantize encoder.onnx only.onnx --block-size 32 --include '/layers.1/*'")
    others = kept_in_float(desk, "only.onnx") - without
    assert others and not any(name.startswith("/layers.1/") for name in others)


def test_a_slip_in_a_pattern(desk):
    """It matches nothing: said, with the nearest names; the run goes on."""
    done = desk("weir quantize encoder.onnx o.onnx --block-size 32 --exclude '/layers.0/self_atn/*'")
    assert "/layers.0/self_atn/*" in done.err and "/layers.0/self_attn/" in done.err
    desk.refused("weir quantize encoder.onnx p.onnx --exclude 're:('", 2, "--exclude")


# ---- a size to fit in, an error not to pass, two ways side by side


def test_it_has_to_fit(desk):
    """All files together; and the size that a refusal names can be had, one byte less cannot."""
    desk("weir quantize encoder.onnx fits.onnx --budget 700KB")
    assert 600_000 < size_of_all(desk, "fits.onnx") <= 700_000
    assert nearness(desk / "encoder.onnx", desk / "fits.onnx") > 5
    refusal = desk.refused("weir quantize encoder.onnx small.onnx --budget 300KB", 1, "300KB", "conv2matmul")
    least = int(max(re.findall(r"(\d{5,})", refusal.err.splitlines()[0])))
    desk.refused(f"weir quantize encoder.onnx small.onnx --budget {least - 1}", 1, str(least))
    desk(f"weir quantize encoder.onnx small.onnx --budget {least}")
    assert size_of_all(desk, "small.onnx") == least
    desk.refused("weir quantize encoder.onnx o.onnx --budget 700QB", 2, "700QB", "400M")


def test_no_layer_may_be_worse_than_that(desk):
    """A gate: what misses it gets 8 bits, stays in float, or fails the run."""
    line = "weir quantize encoder.onnx {}.onnx --block-size 64 --gate sqnr=21dB --gate-action {} --report-json {}.json"
    desk(line.format(*["raise"] * 3))
    desk(line.format(*["skip"] * 3))
    for action in ("raise", "skip"):
        tensors = json.loads((desk / f"{action}.json").read_text())["passes"][0]["tensors"]
        assert tensors and min(each["error"]["sqnr_db"] for each in tensors) >= 21
    assert nearness(desk / "encoder.onnx", desk / "raise.onnx") > 5
    assert size_of_all(desk, "skip.onnx") > size_of_all(desk, "raise.onnx") > 600_000
    refusal = desk.refused(line.format(*["fail"] * 3), 1, " dB", "--gate-action raise", "/layers.")
    said, _ = dry(desk, "weir quantize encoder.onnx f.onnx --block-size 64 --gate sqnr=21dB --gate-action fail", code=1)
    assert said.err == refusal.err and "46 weights quantized to 4 bits" in said.out
    assert desk("weir quantize encoder.onnx --block-size 64 --gate sqnr=21dB --gate-action fail --dry-run", code=1).err == refusal.err


def test_compare_two_quantizations(desk):
    """measure in one table; two reports side by side by a few words of a script."""
    table = desk.lines("weir measure encoder.onnx --candidates 4:32,4:128,8:128")
    assert len(table) < 45 and "--all" in table[-2]
    assert desk.lines("weir measure encoder.onnx --candidates 4:32,8:32 --csv | tail -n +2 | wc -l") == ["92"]
    desk("for b in 32 128; do weir quantize encoder.onnx b$b.onnx --block-size $b --report-json b$b.json --quiet; done")
    compared = "import json; a, b = (json.load(open(f'b{n}.json'))['passes'][0]['tensors'] for n in (32, 128)); "
    compared += "print(sum(x['error']['sqnr_db'] > y['error']['sqnr_db'] for x, y in zip(a, b, strict=True)), len(a))"
    better, of = map(int, desk('python3 -c "$1"', words=[compared]).out.split())
    assert better == of == 46
    if shutil.which("jq"):
        lines = desk.lines("jq -r '.passes[0].tensors[] | [.layer, .error.sqnr_db] | @tsv' b32.json | sort -t$'\t' -k2 -n | head -3")
        assert len(lines) == 3


# ---- what would it do?


def dry(desk, line, code=0):
    """A dry run as text and for programs, which change nothing; the run that ends alike, if it fails."""
    before = desk.files()
    text, document = desk(f"{line} --dry-run", code=code), desk(f"{line} --dry-run --json", code=code).json()
    assert desk.files() == before and text.out.startswith("dry run: ")
    assert "disk needed" in text.out and "peak memory" in text.out
    if code:
        desk.refused(line, code)
        assert document["weir"]["refusal"]["message"] in text.err and str(code) in text.out
    return text, document["weir"]


def test_what_would_it_do(desk):
    """To a new file, over one, into a folder that is missing, closed, on a full disk; figures in every case."""
    line = "weir quantize encoder.onnx q.onnx --block-size 32"
    _, planned = dry(desk, line)
    assert planned["refusal"] is None
    desk(line)
    for each in planned["output"]:
        assert (desk / each["name"]).stat().st_size == each["size"]
    text, over = dry(desk, line, code=2)
    assert "--force" in text.err and over["output"] == planned["output"]
    would = re.search(r"would write:\n((?:  .*\n)+)", desk(f"{line} --dry-run", code=2).out)[1]
    wrote = desk(f"{line} --force").out.splitlines()[-1].removeprefix("wrote ")
    assert re.findall(r"^  (\S+)", would, re.MULTILINE) == re.findall(r"(\S+) \(", wrote)
    desk("mkdir sub")
    would = desk("weir quantize encoder.onnx sub/q.onnx --block-size 32 --dry-run").out
    assert "would write:\n  sub/q.onnx  " in would and "  sub/q.onnx.data  " in would
    text, _ = dry(desk, "weir quantize encoder.onnx none/at/all.onnx --block-size 32", code=2)
    assert "mkdir -p none/at" in text.err
    assert desk("weir quantize encoder.onnx --dry-run --block-size 32").code == 0


# ---- one file or two


def test_one_file_or_two(desk):
    """Inline, one data file, under a name, aligned: the same model each time, and back again to the same bytes."""
    desk("weir convert encoder.onnx one.onnx --inline && weir convert one.onnx two.onnx --external")
    desk("weir convert encoder.onnx named.onnx --data-file weights.bin --align 64K")
    assert not (desk / "one.onnx.data").exists() and (desk / "two.onnx.data").exists()
    for name in ("one.onnx", "two.onnx", "named.onnx"):
        compare.same_meaning(desk / "encoder.onnx", desk / name)
        assert nearness(desk / "encoder.onnx", desk / name) == 300
    grown = r"\(10\d\.\d %, [\d.]+ kB of it for alignment\) in"
    assert re.search(grown, desk("weir convert encoder.onnx padded.onnx").out)
    assert "for alignment" not in desk("weir quantize encoder.onnx less.onnx --block-size 32").out
    places = [compare.external_pairs(t) for _, t in compare.tensors(compare.structure(desk / "named.onnx")) if compare.is_external(t)]
    assert {each["location"] for each in places} == {"weights.bin"}
    assert all(int(each.get("offset", 0)) % 65536 == 0 for each in places)
    desk("weir convert one.onnx again.onnx --external && mv again.onnx.data x && cmp x two.onnx.data")


def test_more_than_one_file_holds(desk):
    """2.4 GB in one .onnx: known before anything is written."""
    make_encoder.make_encoder(desk / "big.onnx", size=2_400_000_000, sparse=True)
    before = sorted(path.name for path in desk.folder.iterdir())
    done = desk("weir convert big.onnx one.onnx --inline", code=1)
    assert "2147483647" in done.err and "--inline" in done.err and len(done.err.splitlines()) <= 2
    assert sorted(path.name for path in desk.folder.iterdir()) == before


# ---- a pipeline in a file


def test_a_pipeline_in_a_file(desk):
    """YAML, JSON and options on the line: the same plan, the same bytes."""
    (desk / "p.yaml").write_text("passes:\n  - conv2matmul\n  - quantize: {block_size: 32}\n  - tidy\n")
    (desk / "p.json").write_text('{"passes": ["conv2matmul", {"quantize": {"block_size": 32}}, "tidy"]}')
    desk("mkdir a b c")
    desk("weir run encoder.onnx a/o.onnx --config p.yaml && weir run encoder.onnx b/o.onnx --config p.json")
    desk("weir run encoder.onnx c/o.onnx --pass conv2matmul --pass quantize:block_size=32 --pass tidy")
    assert desk.files("a") == desk.files("b") == desk.files("c")
    assert nearness(desk / "encoder.onnx", desk / "a/o.onnx") > 5
    desk("weir run encoder.onnx d.onnx --config - < p.yaml")


@pytest.mark.parametrize(
    "text, mentioned",
    [
        ("passes:\n\t- tidy\n", [":2:1:", "tab", "spaces"]),
        ("pases: [tidy]\n", ["'pases'", "'passes'"]),
        ("passes:\n  - quantize: {bitz: 4}\n", [":2:", "'bitz'", "'bits'"]),
        ("passes:\n  - quantize: {bits: 3}\n", [":2:", "'3'", "8"]),
        ("passes:\n  - quantise\n", [":2:", "'quantise'", "'quantize'"]),
        ("passes:\n  - quantize: {bits: 4\n", [":3:"]),
        ("passes: 3\n", [":1:"]),
        ('{"passes": ["tidy",}', [":1:"]),
        ("", []),
    ],
)  # fmt: skip
def test_a_slip_in_a_pipeline(desk, text, mentioned):
    """The line and the column, and what was meant."""
    (desk / "p.yaml").write_text(text)
    desk.refused("weir run encoder.onnx o.onnx --config p.yaml", 2, "p.yaml", *mentioned)


# ---- what exactly was changed


def test_what_exactly_was_changed(desk):
    """The log is read by line, two of them are compared, and either makes its model again."""
    desk("mkdir a b; weir quantize encoder.onnx a/q.onnx --block-size 32 --edit-log a.jsonl")
    desk("weir quantize encoder.onnx b/q.onnx --block-size 64 --edit-log b.jsonl")
    edits = [json.loads(line) for line in (desk / "a.jsonl").read_text().splitlines()]
    assert sum("MatMulNBits" in json.dumps(each) for each in edits) == 46
    assert desk.lines("diff a.jsonl b.jsonl | grep -c '^<'") != ["0"]
    desk("mkdir c; weir replay a.jsonl encoder.onnx c/q.onnx")
    assert desk.files("c")["q.onnx"] == desk.files("a")["q.onnx"]
    assert desk.files("c")["q.onnx.data"] == desk.files("a")["q.onnx.data"]
    desk("head -20 a.jsonl > cut.jsonl")
    desk.refused("weir replay cut.jsonl encoder.onnx r.onnx", 65, "cut.jsonl", "--partial")
    desk("sed 's/_Q4/_Q9/' a.jsonl > edited.jsonl; ! cmp -s a.jsonl edited.jsonl")
    desk.refused("weir replay edited.jsonl encoder.onnx r.onnx", 65, "edited.jsonl")
    desk.refused("weir replay a.jsonl a/q.onnx r.onnx", 66, "a/q.onnx", "encoder.onnx")
    desk.refused("weir replay encoder.onnx a.jsonl r.onnx", 65, "'encoder.onnx'", "replay EDITS IN")


# ---- is it still what was written?


@pytest.fixture
def written(desk):
    desk("weir quantize encoder.onnx q.onnx --block-size 32 && weir audit q.onnx")
    return desk


DAMAGE = {
    "a byte of the data": ("printf x | dd of=q.onnx.data bs=1 seek=3000 conv=notrunc 2>/dev/null", 1, "q.onnx.data"),
    "a byte of the model": ("printf x | dd of=q.onnx bs=1 seek=100 conv=notrunc 2>/dev/null", 1, "q.onnx"),
    "data cut": ("truncate -s 1000 q.onnx.data", 1, "1000 of"),
    "data longer": ("echo >> q.onnx.data", 1, "q.onnx.data"),
    "data lost": ("rm q.onnx.data", 1, "missing"),
    "model lost": ("rm q.onnx", 1, "missing"),
    "manifest lost": ("rm q.onnx.manifest.json", 66, "q.onnx.manifest.json"),
    "manifest broken": ("head -c 100 q.onnx.manifest.json > m && mv m q.onnx.manifest.json", 65, "q.onnx.manifest.json"),
    "all lost": ("rm q.onnx*", 66, "q.onnx"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_is_it_still_what_was_written(written, name):
    harm, code, mentioned = DAMAGE[name]
    written(harm)
    before = written.files()
    done = written("weir audit q.onnx", code=code)
    assert mentioned in done.said and len(done.said.splitlines()) <= 12, done.said
    assert code == 1 or len(done.err.splitlines()) <= 2
    assert name != "model lost" or "itself is damaged" not in done.err
    assert written("weir audit q.onnx --json", code=code).json() and written.files() == before


def test_a_model_that_was_moved(written):
    """With its manifest it can be audited anywhere; renamed alone it cannot, which is said."""
    written("mkdir -p x/y && mv q.onnx* x/y && weir audit x/y/q.onnx && cd x && weir audit y/q.onnx")
    written("mv x/y/q.onnx x/y/other.onnx")
    done = written("weir audit x/y/other.onnx", code=66)
    assert "x/y/other.onnx.manifest.json" in done.err and "hint: " in done.err
    written("weir audit encoder.onnx", code=66)


# ---- a model larger than memory


def test_a_model_of_24_gb(desk):
    """Looked at, checked and planned under a limit of address space that it would not fit in a hundred times over."""
    make_encoder.make_encoder(desk / "big.onnx", size=24_000_000_000, sparse=True)
    screen = desk("ulimit -v 400000; weir inspect big.onnx | head -60").out
    assert "24.0 GB" in screen and "parameters" in screen
    desk("ulimit -v 400000; weir check big.onnx")
    planned = desk("ulimit -v 400000; weir quantize big.onnx q.onnx --block-size 64 --jobs 2 --dry-run --json").json()["weir"]
    assert planned["refusal"] is None or planned["refusal"]["exit_code"] == 73
    assert sum(each["size"] for each in planned["output"]) < 8_000_000_000
    assert sorted(path.name for path in desk.folder.iterdir() if path.name.startswith("q")) == []
