"""Files that passes are given: of this model or refused, named by their digest in every record, and not needed by a replay."""

import hashlib
import json
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import report_page

pytestmark = pytest.mark.in_memory


def model(path, hidden="h", seed=0):
    rng = np.random.default_rng(seed)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], [hidden]), helper.make_node("Tanh", [hidden], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
        [numpy_helper.from_array(rng.standard_normal((32, 64)).astype(np.float32), "w")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def meta_sha256(weir, folder, path):
    weir("convert", path, folder / "tidy.onnx", "--edit-log", folder / "tidy.jsonl", "--force")
    return json.loads((folder / "tidy.jsonl").read_text().splitlines()[0])["source"]["meta_sha256"]


def ranges(path, values, meta, source="m.onnx"):
    """A file of ranges as 'weir calibrate' writes it."""
    lines = [{"weir_ranges": 1, "weir": "0.2.0", "source": {"name": source, "meta_sha256": meta}, "passes": [],
              "runtime": "1.31.1", "method": "minmax", "samples": {"n": 4, "sha256": "ab" * 32}}]  # fmt: skip
    for name, (low, high) in values.items():
        lines.append({"value": name, "type": "float", "min": hexed(low), "max": hexed(high), "elements": 100})
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    end = {"end": len(values), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    path.write_text(text + json.dumps(end, separators=(",", ":")) + "\n")
    return path


def hexed(x):
    sign, rest = ("-", x.hex()[1:]) if x < 0 else ("", x.hex())
    mantissa, exponent = rest.split("p")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{sign}{mantissa if mantissa != '0x' else '0x0'}p{exponent}"


VALUES = {"x": (-3.0, 2.5), "h": (-20.5, 31.25), "y": (-1.0, 1.0)}


def test_records_have_the_digest_and_replay_needs_no_file(weir, tmp_path):
    m = model(tmp_path / "m.onnx")
    r = ranges(tmp_path / "r.jsonl", VALUES, meta_sha256(weir, tmp_path, m))
    head = json.loads(r.read_text().splitlines()[0])
    found = {key: value for key, value in head.items() if key != "weir_ranges"}  # of what, by whom, by which method
    given = {"name": "r.jsonl", "sha256": hashlib.sha256(r.read_bytes()).hexdigest(), "calibration": found}
    out, log, report = tmp_path / "q.onnx", tmp_path / "log.jsonl", tmp_path / "report.json"
    plan = tmp_path / "plan.json"
    weir("static", m, out, "--ranges", r, "--edit-log", log, "--report-json", report, "--plan-out", plan)
    assert json.loads(log.read_text().splitlines()[0])["options"]["ranges"] == given
    assert json.loads(plan.read_text())["passes"][0]["options"]["ranges"] == given
    assert json.loads(report.read_text())["passes"][0]["options"]["ranges"] == given
    assert str(tmp_path) not in log.read_text()
    r.unlink()
    weir("replay", log, m, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == out.read_bytes()


def test_where_the_file_lies_changes_nothing(weir, tmp_path):
    m = model(tmp_path / "m.onnx")
    meta = meta_sha256(weir, tmp_path, m)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    logs = []
    for folder in ("a", "b"):
        r = ranges(tmp_path / folder / "r.jsonl", VALUES, meta)
        weir("run", m, tmp_path / folder / "q.onnx", "--pass", f"static:ranges={r}", "--edit-log", tmp_path / folder / "log")
        logs.append((tmp_path / folder / "log").read_text())
    assert logs[0] == logs[1]
    r = ranges(tmp_path / "a" / "r.jsonl", {**VALUES, "h": (-20.5, 31.5)}, meta)
    weir("static", m, tmp_path / "c.onnx", "--ranges", r, "--edit-log", tmp_path / "c.jsonl")
    assert (tmp_path / "c.jsonl").read_text() != logs[0]


def test_another_models_ranges_are_refused(weir, tmp_path):
    m, other = model(tmp_path / "m.onnx"), model(tmp_path / "other.onnx", "hidden")
    ours, theirs = meta_sha256(weir, tmp_path, m), meta_sha256(weir, tmp_path, other)
    r = ranges(tmp_path / "r.jsonl", VALUES, ours)
    done = weir("static", other, tmp_path / "q.onnx", "--ranges", r, code=66)
    assert "ranges of another model" in done.said and "no value 'h'" in done.said
    assert ours[:16] in done.said and theirs[:16] in done.said and "run 'weir calibrate'" in done.said
    assert not (tmp_path / "q.onnx").exists()
    # Another file whose values have the same names is used, with a warning.
    moved = ranges(tmp_path / "r.jsonl", VALUES, "cd" * 32, "before.onnx")
    done = weir("static", m, tmp_path / "q.onnx", "--ranges", moved)
    assert "has the ranges of another file, 'before.onnx'" in done.said
    cache = tmp_path / "cache.json"
    cache.write_text(json.dumps({"CLS": "TensorsData", "data": {"nothing": [0, 1]}}))
    done = weir("static", m, tmp_path / "q2.onnx", "--ranges", cache, code=66)
    assert "its one value is not in this one" in done.said


def test_what_cannot_be_read(weir, tmp_path):
    m = model(tmp_path / "m.onnx")
    done = weir("static", m, tmp_path / "q.onnx", "--ranges", tmp_path / "none", code=66)
    assert "the ranges" in done.said and "cannot be read" in done.said
    bad = ranges(tmp_path / "r.jsonl", VALUES, "ab" * 32)
    bad.write_text("".join(bad.read_text().splitlines(keepends=True)[:-1]))
    done = weir("static", m, tmp_path / "q.onnx", "--ranges", bad, code=65)
    assert "r.jsonl:5: the file is incomplete" in done.said
    weir("static", m, tmp_path / "q.onnx", "--ranges", tmp_path, code=66)
    assert not (tmp_path / "q.onnx").exists()


def test_it_is_not_written_over(weir, tmp_path):
    m = model(tmp_path / "m.onnx")
    r = ranges(tmp_path / "r.jsonl", VALUES, meta_sha256(weir, tmp_path, m))
    before = r.read_bytes()
    done = weir("static", m, tmp_path / "q.onnx", "--ranges", r, "--edit-log", r, code=2)
    assert r.read_bytes() == before and done.said
    weir("static", m, r, "--ranges", r, "--force", code=2)
    assert r.read_bytes() == before


def test_the_page_shows_ranges(weir, tmp_path):
    m = model(tmp_path / "m.onnx")
    r = ranges(tmp_path / "r.jsonl", {**VALUES, "<b>": (0.0, 8.0)}, meta_sha256(weir, tmp_path, m))
    lines = [json.loads(line) for line in r.read_text().splitlines()[:-1]]
    counts = [0] * 40 + [1, 5, 40, 5, 1, 0, 0, 0]
    lines[2]["histogram"] = {"from": hexed(-32.0), "to": hexed(32.0), "counts": counts}
    text = "".join(json.dumps(line) + "\n" for line in lines).replace(": ", ":").replace(", ", ",")
    r.write_text(text + f'{{"end":4,"sha256":"{hashlib.sha256(text.encode()).hexdigest()}"}}\n')
    cache = tmp_path / "c.json"
    cache.write_text(json.dumps({"x": [-1, 2], "h": [-5, 5]}))
    weir("run", m, tmp_path / "q.onnx", "--pass", f"static:ranges={r}", "--pass", f"static:ranges={cache}", "--report-html",
         tmp_path / "p.html")  # fmt: skip
    page = report_page.read(tmp_path / "p.html")
    rows = page.rows("ranges")
    assert [row["Value"] for row in rows] == ["x", "h", "y", "<b>"]
    assert [(row["Min"], row["Max"]) for row in rows] == [(-3, 2.5), (-20.5, 31.25), (-1, 1), (0, 8)]
    assert rows[2]["Distribution"] == "█" * 24 and rows[3]["Distribution"] == "·" * 12 + "█" * 12
    bars = rows[1]["Distribution"]  # 48 counts, two a bar: 1+5, 40+5, 1
    assert bars[:20] == "·" * 20 and bars[21] == "█" and "▁" <= bars[22] < bars[20] < "█" and bars[23] == "·"
    assert [row["Value"] for row in page.rows("ranges-2")] == ["x", "h"] and page.rows("ranges-2")[0]["Elements"] is None
    assert "method minmax, 4 samples" in page.text()


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder"])
@pytest.mark.parametrize(
    "words",
    [
        ["passes", "--rules", "FILE"],
        ["run", "in.onnx", "out.onnx", "--rules", "FILE"],
        ["run", "in.onnx", "out.onnx", "--config", "FILE"],
        ["replay", "FILE", "in.onnx", "out.onnx"],
        ["static", "in.onnx", "out.onnx", "--ranges", "FILE"],
    ],
    ids=lambda words: " ".join(words[:1] + [w for w in words if w.startswith("--")]),
)
def test_what_is_no_plain_file_is_refused_at_once(weir, tmp_path, monkeypatch, words, kind):
    """Nobody writes to the pipe, and the device has no end."""
    monkeypatch.chdir(tmp_path)
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    onnx.save(helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 18)], ir_version=8), "in.onnx")
    os.mkfifo("pipe")
    os.mkdir("folder")
    path = {"a pipe": "pipe", "a device": "/dev/zero", "a folder": "folder"}[kind]
    done = weir(*[path if word == "FILE" else word for word in words], code=66)
    assert f"'{path}' cannot be read: it is {kind}, and not a plain file" in done.err
    assert not os.path.exists("out.onnx")
