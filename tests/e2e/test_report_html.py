"""--report-html: a page that says what the JSON report says, loads nothing, and cannot be broken by names.

What a browser makes of it (sorting, searching, a hundred thousand rows) is in test_report_browser.py.
"""

import hashlib
import json
import math
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import report_page
from chain import make_chain

pytestmark = pytest.mark.in_memory
SOURCE = Path(__file__).resolve().parents[1] / "data" / "parakeet-dynamo" / "encoder-model.onnx"
RUN = ["--pass", "optimize", "--pass", "conv2matmul:extended_conv1x1=true", "--pass", "quantize:bits=4,block_size=32"]


@pytest.fixture(scope="module")
def reported(weir, tmp_path_factory):
    """A run with both reports: the folder, the page, the JSON."""
    folder = tmp_path_factory.mktemp("reported")
    weir("run", SOURCE, folder / "out.onnx", *RUN, "--report-html", folder / "r.html", "--report-json", folder / "r.json")
    return folder, report_page.read(folder / "r.html"), json.loads((folder / "r.json").read_text())


def near(shown, number):
    """As JSON has it: 7 digits in the page; numbers that JSON lacks are words there."""
    if isinstance(number, str):
        number = float(number)
    return shown == pytest.approx(number, rel=1e-6) or (math.isnan(shown) and math.isnan(number))


def test_tensors_are_those_of_the_json_report(reported):
    _, page, report = reported
    tensors = [tensor for step in report["passes"] for tensor in step["tensors"]]
    rows = page.rows("tensors")
    assert len(rows) == len(tensors) > 10
    assert {row["Tensor"] for row in rows} == {tensor["name"] for tensor in tensors}
    by_name = {tensor["name"]: tensor for tensor in tensors}
    for row in rows:
        tensor = by_name[row["Tensor"]]
        assert row["First used by"] == tensor["layer"] and row["Dims"].replace(" ", "") == json.dumps(tensor["dims"]).replace(" ", "")
        assert row["Before"] == tensor["bytes_before"] and row["After"] == tensor["bytes_after"]
        for title, key in (("SQNR, dB", "sqnr_db"), ("Cosine", "cosine"), ("Max abs error", "max_abs"), ("RMSE", "rmse")):
            assert near(row[title], tensor["error"][key]), (row, tensor)
    # Without a script the worst come first.
    worst = sorted(rows, key=lambda row: row["SQNR, dB"])
    plain = page.tables["tensors"]["plain"]
    assert len(plain) == min(100, len(rows)) and plain[0][0] == worst[0]["Tensor"]
    assert plain[0][4] == f"{worst[0]['SQNR, dB']:.1f}"


def test_nodes_are_those_of_the_json_report(reported):
    _, page, report = reported
    nodes = [(node["node_name"], node["op_type"], step["name"], node["status"]) for step in report["passes"] for node in step["nodes"]]
    found = [(row["Node"], row["Operator"], row["Pass"], row["Result"]) for row in page.rows("sites")]
    assert sorted(found) == sorted(nodes) and len(nodes) > 50
    kept = [node for step in report["passes"] for node in step["nodes"] if node["reason"] == "kernel_not_1x1"]
    assert kept and f"{len(kept)} Conv kernel larger than 1x1" in page.text()
    assert all(node["node_name"] in page.text() for node in kept[:50])


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_page_has_one_figure_of_memory(weir, tmp_path, jobs):
    """Also where several threads verify."""
    weir("quantize", SOURCE, tmp_path / "out.onnx", "--verify=all", "--jobs", str(jobs), "--report-html", tmp_path / "r.html")
    page = report_page.read(tmp_path / "r.html").source
    [whose] = re.findall(r"<dt>Peak memory</dt><dd>[^<]*<small>([^<]*)", page)
    assert page.lower().count("peak memory") == 1 and len(re.findall("the runtime had [0-9.]+ MB of memory", page)) == 1
    assert whose == "of weir itself" and (" of memory in 2 processes" in page) == (jobs == 2)


def test_headline_and_operators(reported):
    folder, page, report = reported
    before, after = onnx.load(SOURCE, load_external_data=False), onnx.load(folder / "out.onnx", load_external_data=False)
    text = page.text()
    assert f"{len(before.graph.node)} → {len(after.graph.node)}" in text
    for op in ("MatMulNBits", "Conv", "Identity"):
        counts = [sum(node.op_type == op for node in model.graph.node) for model in (before, after)]
        if counts[0] != counts[1]:
            assert re.search(rf"{op}( \(com.microsoft\))? ?{counts[0]}{counts[1]}", text.replace("> <", "><")), (op, counts)
    sizes = [sum(file["size"] for file in report["weir"][key]) for key in ("input", "output")]
    assert f"{100 * sizes[1] / sizes[0]:.1f} % of the input" in text


def test_how_to_make_it_again(reported):
    folder, page, report = reported
    text = page.text()
    manifest = json.loads((folder / "out.onnx.manifest.json").read_text())
    assert report["weir"]["plan_id"] in text and manifest["subject"][0]["digest"]["sha256"] in text
    for file in report["weir"]["output"]:
        assert hashlib.sha256((folder / file["name"]).read_bytes()).hexdigest() in text
    assert f"weir run {SOURCE} {folder / 'out.onnx'} --pass optimize" in text and "out.onnx.manifest.json" in text


def test_the_command_is_as_it_was_given(weir, tmp_path):
    """With the paths that were typed, and no others."""
    (tmp_path / "a b.onnx").write_bytes(SOURCE.read_bytes())
    for data in SOURCE.parent.glob("*.data"):
        (tmp_path / data.name).write_bytes(data.read_bytes())
    weir("convert", "a b.onnx", "c.onnx", "--report-html", "r.html", cwd=tmp_path)
    page = report_page.read(tmp_path / "r.html")
    assert "weir convert 'a b.onnx' c.onnx --report-html r.html" in page.text() and str(tmp_path) not in page.source


def test_the_same_run_gives_the_same_page(weir, tmp_path):
    pages = []
    for jobs in ("1", "3"):
        folder = tmp_path / jobs
        folder.mkdir()
        weir("run", SOURCE, "out.onnx", *RUN, "--report-html", "r.html", cwd=folder, env={"WEIR_JOBS": jobs})
        pages.append(report_page.read(folder / "r.html"))
    assert pages[0].without_run() == pages[1].without_run()


def commands(folder):
    log = folder / "log.jsonl"
    return [
        ["conv2matmul", SOURCE, folder / "a.onnx", "--edit-log", log],
        ["conv2matmul", SOURCE, folder / "b.onnx", "--strict-compat"],
        ["quantize", SOURCE, folder / "c.onnx", "--budget", "500000", "--candidates", "4:64,8:128"],
        ["cast", SOURCE, folder / "d.onnx", "--to", "float16"],
        ["shrink", SOURCE, "-o", folder / "e.onnx"],
        ["convert", SOURCE, folder / "f.onnx", "--inline"],
        ["infer", SOURCE, folder / "g.onnx"],
        ["optimize", SOURCE, folder / "h.onnx"],
        ["preprocess", SOURCE, folder / "i.onnx"],
        ["replay", log, SOURCE, folder / "j.onnx"],
        ["run", SOURCE, folder / "k.onnx", "--pass", "repeat(conv2matmul)", "--pass", "tidy", "--no-manifest"],
    ]


def test_every_command_that_writes_has_it(weir, tmp_path):
    for words in commands(tmp_path):
        said = weir(*words, "--report-html", tmp_path / "r.html")
        page = report_page.read(tmp_path / "r.html")
        assert f"weir {words[0]}" in page.text() and "written" in page.text(), words
        dry = weir(*words, "--dry-run", "--force", "--report-html", tmp_path / "dry.html")
        assert "dry run: nothing was written" in report_page.read(tmp_path / "dry.html").text()
        assert said.out and dry.out


def test_a_run_that_is_refused_has_a_page_with_the_reason(weir, tmp_path):
    words = ["quantize", SOURCE, tmp_path / "o.onnx", "--budget", "1000", "--report-html", tmp_path / "r.html"]
    weir(*words, "--dry-run", code=1)
    page = report_page.read(tmp_path / "r.html")
    assert "would be refused" in page.text() and "is too small: the smallest output" in page.text() and "raise --budget" in page.text()


def test_on_standard_output_it_stands_alone(weir, tmp_path):
    said = weir("convert", SOURCE, tmp_path / "o.onnx", "--report-html", "-")
    report_page.Page(said.out)
    done = weir("convert", SOURCE, tmp_path / "p.onnx", "--report-html", "-", "--json", code=2)
    assert "write to standard output" in done.err


def test_one_page_is_of_one_model(weir, tmp_path):
    for name in ("a", "b"):
        make_chain(tmp_path / f"{name}.onnx", 3)
    done = weir("shrink", tmp_path / "a.onnx", tmp_path / "b.onnx", "--report-html", tmp_path / "r.html", code=2)
    assert "--report-html names one file, but there are 2 models" in done.err and not (tmp_path / "r.html").exists()


def test_outputs_are_on_top(weir, tmp_path):
    """With the figures of the JSON report; no green page where nothing was judged, with a page that is green as control."""
    for words, badge in ((["quantize", "--block-size", "32"], "plain"), (["conv2matmul"], "good")):
        report = weir.report(words[0], SOURCE, tmp_path / "o.onnx", "--force", *words[1:], "--verify=all", "--report-html", tmp_path / "r.html")
        page = report_page.read(tmp_path / "r.html")
        sections = [attrs["id"] for tag, attrs in page.elements if tag == "section"]
        assert sections[:2] == ["outputs", "verification"] and "meaning" in sections
        cases = [row for row in report["verification"]["rows"] if row["name"] == "outputs"]
        row = min(cases, key=lambda row: float(row["figures"]["sqnr_db"]))
        top = page.source[page.source.index('id="outputs"') : page.source.index('id="verification"')]
        db = float(row["figures"]["sqnr_db"])
        assert f">{'∞' if math.isinf(db) else f'{db:.1f}'}<" in top and f">{row['figures']['cosine']:.6f}<" in top and f">{row['status'].replace('_', ' ')}<" in top
        assert f'<span class="badge {badge}">' in page.source
        rows = page.rows("verified")
        passed = [row["SQNR, dB"] for row in rows if row["Result"] == "passed" and row["SQNR, dB"] is not None]
        assert passed == sorted(passed) and len(passed) > 5


def test_charts_go_along_the_graph(weir, tmp_path):
    """A dot for each tensor, in the order of the nodes that use them."""
    weir("quantize", SOURCE, tmp_path / "o.onnx", "--block-size", "32", "--report-html", tmp_path / "r.html")
    page = report_page.read(tmp_path / "r.html")
    places = {node.name: n for n, node in enumerate(onnx.load(SOURCE, load_external_data=False).graph.node)}
    rows = page.rows("tensors")
    along = [places[row["First used by"]] for row in rows]
    assert along == sorted(along) and len(along) > 10
    paths = [dict(attrs)["d"] for tag, attrs in page.elements if tag == "path" and attrs["class"] == "dots c0"]
    assert len(paths) == 2
    for path in paths:
        dots = [tuple(map(float, dot.split())) for dot in re.findall(r"M([\d. ]+)h0", path)]
        assert len(dots) == len(rows) and dots == sorted(dots, key=lambda dot: dot[0])
    worst = min(range(len(rows)), key=lambda n: rows[n]["SQNR, dB"])
    dots = [float(dot) for dot in re.findall(r"M[\d.]+ ([\d.]+)h0", paths[0])]
    assert dots[worst] == max(dots)  # y grows downwards


def test_what_was_asked_for_by_name_comes_first(reported):
    """Of the nodes; then the passes of a set, those that looked at fewest first."""
    _, page, _ = reported
    passes = [row["Pass"] for row in page.rows("sites")]
    named = [name in ("conv2matmul", "quantize") for name in passes]
    assert named == sorted(named, reverse=True) and True in named and False in named
    others = [name for name in passes if name not in ("conv2matmul", "quantize")]
    counts = [others.count(name) for name in dict.fromkeys(others)]
    assert counts == sorted(counts) and len(counts) > 2


def test_figures_are_explained_and_bytes_are_grouped(weir, reported, tmp_path):
    _, page, report = reported
    assert all(word in page.text() for word in ("What the figures mean", "The energy of the tensor divided by the energy of the error", "Compare outputs on real inputs"))
    for file in report["weir"]["output"]:
        assert file["size"] >= 1000 and f">{file['size']:,}<" in page.source
    weir("convert", SOURCE, tmp_path / "o.onnx", "--report-html", tmp_path / "r.html")  # has no figures
    assert "What the figures mean" not in report_page.read(tmp_path / "r.html").text()


# ---- names

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "</title></style><script>alert(1)</script>",
    "<!--<script>",
    "\"' onmouseover=alert(1) x='",
    "]]>&lt;b&gt;&amp;",
    "\u202egnp.exe\u2066\u2028",
    "a\x1b[31m\x07\n\tb",
    "\\u003c/script\\u003e",
    "ü𝒳\U0010ffff",
    "{{7*7}}${7*7}",
    "x" * 60000,
    "é" * 400,
]


def hostile_model(path):
    """MatMuls whose weights, nodes and values are named so; and two names that are no UTF-8."""
    names = [*HOSTILE, "QQQQ-broken", "ZZZZ-broken"]
    nodes, weights = [], []
    rng = np.random.default_rng(1)
    for i, name in enumerate(names):
        weights.append(numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), f"{name}.{i}"))
        nodes.append(helper.make_node("MatMul", [f"v{i}", f"{name}.{i}"], [f"v{i + 1}"], name=f"{name}/{i}"))
    nodes.append(helper.make_node("<img src=y>", [f"v{len(names)}"], ["y"], domain="<b>", name="<i>custom"))
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in ("v0", "y")]
    graph = helper.make_graph(nodes, "<g>", value[:1], value[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("<b>", 1)], ir_version=9)
    path.write_bytes(model.SerializeToString().replace(b"QQQQ", b"\xff\xfe\xc0\xaf").replace(b"ZZZZ", b"\xed\xa0\x80<"))
    return names


def test_hostile_names_stay_texts(weir, tmp_path):
    names = hostile_model(tmp_path / "m.onnx")
    model = tmp_path / "<img src=z>&.onnx"
    (tmp_path / "m.onnx").rename(model)
    weir("quantize", model, tmp_path / "</title>o.onnx".replace("/", ""), "--block-size", "32", "--report-html", tmp_path / "r.html")
    page = report_page.read(tmp_path / "r.html")  # which knows no img, no second script, no attribute on…
    rows = {row["First used by"]: row for row in page.rows("tensors")}
    assert len(rows) == len(names)
    for i in (0, 1, 2, 3, 4, 8, 9):
        assert f"{names[i]}/{i}" in rows and rows[f"{names[i]}/{i}"]["Tensor"] == f"{names[i]}.{i}"
    text = page.text()
    assert names[0] in text and "<img src=z>&.onnx" in text and "<img src=y> (<b>)" in text
    for forbidden in "\u202e\u2066\u2028\x1b\x07":
        assert forbidden not in page.source
    assert r"\u{202e}gnp.exe\u{2066}\u{2028}" in text and r"a\x1b[31m\x07\x0a\x09b" in text
    assert r"\xff\xfe\xc0\xaf-broken" in text and r"\xed\xa0\x80<-broken" in text
    assert "… (60003 bytes)" in text and "x" * 513 not in page.source and "x" * 512 in text
    assert len(page.source) < 400_000


def test_markup_of_names_is_never_in_the_source(weir, tmp_path):
    """The control arm: a parser may forgive what a browser does not, so the source is searched too."""
    hostile_model(tmp_path / "m.onnx")
    weir("quantize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--report-html", tmp_path / "r.html")
    source = (tmp_path / "r.html").read_text()
    assert source.count("<script") == source.count("</script") and "<img" not in source and "<b>" in source.replace("<b>14 MatMul", "<b>")
    for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', source, re.S):
        assert "<" not in block and ">" not in block and "&" not in block
    assert source.count("onerror=alert") == source.count("&lt;img src=x onerror=alert") + source.count("\\u003cimg src=x onerror=alert")


# ---- many rows


def test_the_page_of_many_tensors_stays_small(weir, tmp_path):
    """Names as models have them: of each row the block has what differs from the row before."""
    count = 5000
    make_chain(tmp_path / "m.onnx", count)
    weir("cast", tmp_path / "m.onnx", tmp_path / "o.onnx", "--to", "float16", "--min-elements", "1", "--report-html", tmp_path / "r.html")
    page = report_page.read(tmp_path / "r.html")
    rows = page.rows("tensors")
    assert len(rows) >= count and len(page.tables["tensors"]["plain"]) == 100
    assert f"the first 100 of {len(rows)} rows" in page.text()
    assert len(page.source) / len(rows) < 150 * 2  # two tables: 100 000 rows of both stay below 15 MB each


# ---- what docs/report.md says


USUAL = re.findall(r"^\| (BERT|GPT-2|Llama|ViT) \(export\) \|(.*\(.*)\|$", (SOURCE.parents[3] / "docs" / "report.md").read_text(), re.M)


@pytest.mark.parametrize("name, cells", USUAL, ids=[name for name, _ in USUAL])
def test_what_is_usual_is_what_it_is(weir, tmp_path, name, cells):
    model = next((SOURCE.parents[1] / "exports").glob(f"{name.replace('-', '').lower()}-sdpa-dynamo-18.onnx"))
    for (bits, block), cell in zip(((8, 32), (4, 32), (4, 128), (2, 32)), cells.split("|"), strict=True):
        words = ["--bits", bits, "--block-size", block, "--op-types", "MatMul,Gemm,Gather", "--min-elements", 1, "--force"]
        report = weir.report("quantize", model, tmp_path / "o.onnx", *map(str, words))
        found = sorted(tensor["error"]["sqnr_db"] for step in report["passes"] for tensor in step["tensors"])
        wanted = [float(number) for number in re.findall(r"[\d.]+", cell)]
        assert np.allclose([np.median(found), found[0], found[-1]], wanted, atol=0.06), (cell, np.median(found), found[0], found[-1])


def test_the_page_of_the_docs_names_four_models():
    assert len(USUAL) == 4


# ---- where it cannot be written


def test_a_page_that_cannot_be_written_fails_as_the_json_report_does(weir, tmp_path):
    for option in ("--report-html", "--report-json"):
        done = weir("convert", SOURCE, tmp_path / f"{option}.onnx", option, "/dev/full", code=73)
        assert "'/dev/full'" in done.err
        assert not subprocess.run(["ls", tmp_path], capture_output=True, text=True).stdout.count(".part")
