"""What version 0.1.0 wrote is still understood: its edit logs replay to the same bytes, its manifests can be audited, and
its pipelines mean what they meant. So it is with records of a later version whose words have another meaning today."""

import json
import shutil

import onnx
import pytest

import old_logs
from conftest import DATA

HOME = DATA / "logs-0.1.0"
DIGESTS = json.loads((HOME / "digests.json").read_text())


@pytest.fixture
def source(tmp_path):
    """Lays out the model of a case with its data file; gives the path."""

    def lay_out(case):
        (tmp_path / "in").mkdir()
        (tmp_path / "out").mkdir()
        return old_logs.lay_out(HOME / DIGESTS[case]["model"], tmp_path / "in")

    return lay_out


def replay(weir, tmp_path, path, case):
    weir("replay", HOME / f"{case}.edits.jsonl", path, tmp_path / "out" / "out.onnx")
    return old_logs.outputs(tmp_path / "out")


def test_every_case_has_its_log():
    assert set(DIGESTS) == set(old_logs.CASES)
    assert {path.name for path in HOME.glob("*.edits.jsonl")} == {f"{case}.edits.jsonl" for case in DIGESTS}


@pytest.mark.parametrize("case", DIGESTS)
def test_replay(weir, tmp_path, source, case):
    assert replay(weir, tmp_path, source(case), case) == DIGESTS[case]["files"]


def test_other_log_makes_other_files(weir, tmp_path, source):
    """The control: two logs of one model, and digests that tell them apart."""
    made = replay(weir, tmp_path, source("quantize"), "quantize")
    assert made == DIGESTS["quantize"]["files"] != DIGESTS["quantize-sym8"]["files"]


@pytest.mark.parametrize("case", ["quantize-gate", "quantize-budget"])
def test_what_was_measured_is_measured_again(weir, tmp_path, source, case):
    """The log names what was found by its digest: a weight that changed since is refused."""
    path = source(case)
    data = path.with_name("weights.bin")
    content = bytearray(data.read_bytes())
    content[3] ^= 0x40
    data.write_bytes(content)
    done = weir("replay", HOME / f"{case}.edits.jsonl", path, tmp_path / "out" / "out.onnx", code=66)
    assert "weir: error:" in done.err and not list((tmp_path / "out").iterdir())


def test_audit_of_an_old_manifest(weir, tmp_path, source):
    case = old_logs.AUDITED
    replay(weir, tmp_path, source(case), case)
    out = tmp_path / "out" / "out.onnx"
    for end in "manifest.json", "tensors.jsonl":
        shutil.copy(HOME / f"out.onnx.{end}", tmp_path / "out")
    assert weir("audit", out, "--json").json()["whole"] is True
    data = out.with_name("out.onnx.data")
    content = bytearray(data.read_bytes())
    content[5] ^= 1
    data.write_bytes(content)
    found = weir("audit", out.with_name("out.onnx.manifest.json"), "--json", code=1).json()
    assert found["whole"] is False and found["damaged_units"] == 1


def test_an_old_pipeline(weir, tmp_path, source):
    path = source("pipeline")
    weir("run", path, tmp_path / "out" / "out.onnx", "--config", HOME / "pipeline.yaml")
    assert old_logs.outputs(tmp_path / "out") == DIGESTS["pipeline"]["files"]


# ---- --compat onnxruntime, before it had versions

UNNAMED = DATA / "compat-records"
RECORDS = sorted(path.name.removesuffix(".edits.jsonl") for path in UNNAMED.glob("*.edits.jsonl"))


def recorded_source(case):
    """The model of a record."""
    return UNNAMED / json.loads((UNNAMED / f"{case}.edits.jsonl").read_text().splitlines()[0])["source"]["name"]


@pytest.mark.parametrize("case", RECORDS)
def test_compat_without_a_version(weir, tmp_path, case):
    """The manifest, by which passes run anew, and the log make the bytes that were written then."""
    manifest = UNNAMED / f"{case}.onnx.manifest.json"
    again = ["--source", recorded_source(case), "--files", UNNAMED, "--write", tmp_path / "made"]
    assert weir("rebuild", manifest, *again, "--json").json()["same"]
    weir("replay", UNNAMED / f"{case}.edits.jsonl", recorded_source(case), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "made" / f"{case}.onnx").read_bytes()


@pytest.mark.parametrize("word, recorded", [("onnxruntime", "onnxruntime-1.32"), ("onnxruntime-1.31", "onnxruntime-1.31"), ("onnxruntime-1.32", "onnxruntime-1.32")])
def test_compat_is_recorded_with_its_version(weir, tmp_path, word, recorded):
    """What a user types means the newest, on the command line and in a pipeline; records say which, and are made again by that."""
    fc, ranges = UNNAMED / "fc.onnx", UNNAMED / "ranges.json"
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text((UNNAMED / "pipeline.yaml").read_text().replace("compat: onnxruntime", f"compat: {word}"))
    ways = [
        ["dynamic", fc, "OUT", "--compat", word],
        ["static", UNNAMED / "bias.onnx", "OUT", "--ranges", ranges, "--compat", word],
        ["smooth", fc, "OUT", "--ranges", ranges, "--compat", word],
        ["shrink", fc, "-o", "OUT", "--method", "integer_activations", "--compat", word],
        ["run", fc, "OUT", "--config", pipeline],
        ["run", fc, "OUT", "--pass", f"repeat(dynamic:compat={word})"],
    ]
    for i, way in enumerate(ways):
        out, log = tmp_path / f"{i}.onnx", tmp_path / f"{i}.edits.jsonl"
        weir(*(out if each == "OUT" else each for each in way), "--edit-log", log)
        manifest = tmp_path / f"{i}.onnx.manifest.json"
        for text in (log.read_text().splitlines()[0], manifest.read_text()):
            assert text.count(f'"compat":"{recorded}"') == text.count('"compat"') == 1
        assert weir("rebuild", manifest, "--source", way[1], "--files", UNNAMED, "--json").json()["same"]
        weir("replay", log, way[1], tmp_path / "again.onnx", "--force")
        assert (tmp_path / "again.onnx").read_bytes() == out.read_bytes()
    names = {t.name for t in onnx.load(tmp_path / "0.onnx").graph.initializer}
    assert ("W_Transposed_quantized" in names) == (recorded == "onnxruntime-1.32") != ("W_quantized" in names)
