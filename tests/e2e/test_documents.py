"""What programs read: every document of every command is as docs/schema says, also of those that fail.

The schemas let members come to documents later; here they are closed, so that none is written that they do not know.
"""

import json
import re
from pathlib import Path

import onnxruntime
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource

import signing_keys

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "docs" / "schema").glob("*.json")}
SOURCE = ROOT / "tests" / "data" / "parakeet-dynamo" / "encoder-model.onnx"


def closed(schema):
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    shut = {key: closed(value) for key, value in schema.items()}
    if isinstance(shut.get("properties"), dict) and shut.get("type") == "object":
        shut.setdefault("additionalProperties", False)
    return shut


def onnxruntime_library():
    [library] = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    return library


REGISTRY = Registry().with_resources((f"{name}.json", Resource.from_contents(closed(s))) for name, s in SCHEMAS.items())


def is_valid(document, name):
    Draft202012Validator(closed(SCHEMAS[name]), registry=REGISTRY).validate(document)
    return document


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schemas_are_schemas(name):
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"{name}.json" and SCHEMAS[name]["title"]


def writers(tmp_path):
    log = tmp_path / "log.jsonl"
    return [
        (["quantize", SOURCE, tmp_path / "a.onnx", "--gate", "sqnr=20.5dB", "--exclude", "nothing", "--edit-log", log]),
        (["quantize", SOURCE, tmp_path / "b.onnx", "--budget", "500000", "--candidates", "4:64,8:128"]),
        (["quantize", SOURCE, "--dry-run"]),
        (["quantize", SOURCE, "--dry-run", "--rank"]),
        (["cast", SOURCE, tmp_path / "c.onnx", "--to", "float16"]),
        (["shrink", SOURCE, "-o", tmp_path / "d.onnx"]),
        (["conv2matmul", SOURCE, tmp_path / "e.onnx", "--exactness", "zero"]),
        (["convert", SOURCE, tmp_path / "f.onnx", "--inline"]),
        (["run", SOURCE, tmp_path / "g.onnx", "--pass", "repeat(conv2matmul)", "--pass", "tidy", "--pass", "cast:to=bfloat16"]),
        (["replay", log, SOURCE, tmp_path / "h.onnx"]),
    ]


def test_reports(weir, tmp_path):
    for number, words in enumerate(writers(tmp_path)):
        file = tmp_path / f"{number}.json"
        said = is_valid(weir(*words, "--json", "--report-json", file).json(), "report")
        assert said["schema"] == 1 and said["command"] == words[0] and said["model"] == str(SOURCE)
        kept = is_valid(json.loads(file.read_text()), "report")
        machine = ("seconds", "peak_memory_bytes", "index_bytes", "peak_memory_limit_bytes")
        assert {k: v for k, v in kept["weir"].items() if k not in machine} == {
            k: v for k, v in said["weir"].items() if k not in machine
        }
        assert list(said)[:2] == ["schema", "command"]


@pytest.mark.parametrize(
    "name, words",
    [
        ("inspect", ["inspect", SOURCE]),
        ("inspect", ["inspect", SOURCE, "--tensors", "--tree"]),
        ("inspect", ["inspect", SOURCE, "--shapes"]),
        ("inspect", ["inspect", SOURCE, "--values"]),
        ("check", ["check", SOURCE]),
        ("measure", ["measure", SOURCE, "--candidates", "4:64,8:128"]),
        ("passes", ["passes"]),
        ("passes", ["passes", "matmulnbits"]),
        ("targets", ["targets"]),
        ("targets", ["targets", "webgpu"]),
        ("shrink-info", ["shrink", SOURCE, "--info"]),
        ("diff", ["diff", SOURCE, SOURCE]),
    ],
)
def test_answers(weir, name, words):
    said = is_valid(weir(*words, "--json").json(), name)
    assert said["schema"] == 1 and said["command"] == words[0]
    with pytest.raises(ValidationError):  # a member that is written, but not in the schema, is found
        is_valid({**said, "another": 1}, name)


def test_a_verification(weir, tmp_path):
    """Of whole models with their layers, of the sites of a log, and with the report of what was written; also of a failure."""
    log, out, other = tmp_path / "log.jsonl", tmp_path / "out.onnx", tmp_path / "other.onnx"
    runtime = ["--onnxruntime", onnxruntime_library()]
    wrote = weir("conv2matmul", SOURCE, out, "--edit-log", log, "--verify=sites", "--json", *runtime).json()
    sites = is_valid(weir("verify", SOURCE, "--edits", log, "--json", *runtime).json(), "verify")["verification"]
    assert is_valid(wrote, "report")["verification"]["rows"] == sites["rows"] != [] and sites["scope"] == "sites"
    whole = is_valid(weir("verify", SOURCE, out, "--layers", "--json", *runtime).json(), "verify")["verification"]
    assert whole["scope"] == "model" and whole["passed"] == len(whole["rows"]) and whole["layers"]
    weir("quantize", SOURCE, other, "--block-size", "32")
    failed = is_valid(weir("verify", SOURCE, other, "--max-abs", "0", "--json", *runtime, code=1).json(), "verify")
    assert failed["error"]["code"] == 1 and failed["verification"]["failed"] > 0
    assert all(row["why"] for row in failed["verification"]["rows"] if row["status"] == "failed")


def test_a_calibration(weir, tmp_path):
    words = ["calibrate", SOURCE, "-o", tmp_path / "r", "--generate", "2", "--exclude", "audio*", "--onnxruntime", onnxruntime_library()]
    said = is_valid(weir(*words, "--json").json(), "calibrate")
    assert said["runs"] == said["samples"] == 2 and said["values"] > 0 and said["not_covered"][0]["reason"] == "excluded"
    for line in (tmp_path / "r").read_text().splitlines():
        is_valid(json.loads(line), "ranges")
    found = events(weir(*words, "-f", "--quiet", "--method", "entropy", "--progress=json"))
    assert {each["label"] for each in found} == {"ranges", "counting"} and found[-1]["share"] == 1
    assert is_valid(weir(*words, "--json", code=2).json(), "error")["error"]["code"] == 2


def test_tables(weir):
    """What the tables say is what --help says: the same options, in one order, with the same words."""
    said = is_valid(weir("--generate", "json").json(), "tables")
    assert weir("--version").out.startswith(f"weir {said['version']}\n")
    overview = weir("--help").out
    for command in said["commands"]:
        assert f"  {command['name']} " in overview
        text = weir("help", command["name"]).out
        flags = re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", text, re.M)
        assert sorted(flags) == sorted([*(option["name"] for option in command["options"]), "help"])
        for option in command["options"]:
            if option["default"] and option["default"] != "default":
                assert f"(default: {option['default']})" in " ".join(text.split())
            if option["kind"] == "choice":
                words = "NAME" if "'weir targets' lists" in option["help"] else "|".join(option["choices"])
                assert f"--{option['name']} {words}" in text
            for other in option["excludes"]:
                [row] = (each for each in command["options"] if each["name"] == other)
                assert option["name"] in row["excludes"]
    assert [each["code"] for each in said["exit_codes"]] == sorted(each["code"] for each in said["exit_codes"])


def test_flags_are_booleans(weir):
    [found] = weir("passes", "conv2matmul", "--json").json()["passes"]
    defaults = {option["key"]: option["default"] for option in found["options"]}
    assert defaults["strict_compat"] is False and defaults["form"] == "auto"


def test_audit_and_clean(weir, tmp_path):
    out = tmp_path / "out.onnx"
    weir("conv2matmul", SOURCE, out)
    assert is_valid(weir("audit", out, "--json").json(), "audit")["whole"]
    data = tmp_path / "out.onnx.data"
    data.write_bytes(b"\xff" + data.read_bytes()[1:])
    damaged = is_valid(weir("audit", out, "--json", code=1).json(), "audit")
    assert not damaged["whole"] and damaged["damage"] and "error" not in damaged
    is_valid(weir("clean", tmp_path, "--json").json(), "clean")


def test_made_again(weir, tmp_path):
    out = tmp_path / "out.onnx"
    weir("conv2matmul", SOURCE, out)
    assert is_valid(weir("rebuild", out, "--source", SOURCE, "--json").json(), "rebuild")["same"]
    manifest = tmp_path / "out.onnx.manifest.json"
    manifest.write_text(manifest.read_text().replace('"form":"auto"', '"form":"flat"'))
    found = is_valid(weir("rebuild", out, "--source", SOURCE, "--json", code=1).json(), "rebuild")
    assert not found["same"] and found["differences"] and "error" not in found


def test_signatures(weir, tmp_path):
    private, public = signing_keys.make(tmp_path)
    out = tmp_path / "out.onnx"
    weir("conv2matmul", SOURCE, out)
    for again in (False, True):
        assert is_valid(weir("sign", out, "--key", private, "--json").json(), "sign")["was_signed"] is again
    found = is_valid(weir("audit", out, "--public-key", public, "--json").json(), "audit")
    assert found["whole"] and found["signature"] == f"{out}.sig"
    assert is_valid(weir("audit", out, "--json").json(), "audit")["signature"] is None
    (tmp_path / "out.onnx.sig").write_text("{}")
    assert is_valid(weir("audit", out, "--public-key", public, "--json", code=65).json(), "error")["error"]["code"] == 65


def test_a_plan(weir, tmp_path):
    """From its report to its output in place, with each state of it."""
    words = [SOURCE, tmp_path / "out.onnx", "--pass", "quantize:block_size=32", "--shards", "3"]
    is_valid(weir("plan", *words, "--dry-run", "--json").json(), "report")
    plan = is_valid(weir("plan", *words, "--json").json(), "report")["weir"]["staged"]
    file = is_valid(weir("jobs", plan, "--scheduler", "slurm", "--json").json(), "jobs")
    assert file["shards"] == 3 and file["text"] == weir("jobs", plan, "--scheduler", "slurm").out
    is_made = [is_valid(weir("status", plan, "--json").json(), "status")["state"]]
    assert is_valid(weir("finalize", plan, "--json", code=75).json(), "error")["error"]["code"] == 75
    made = is_valid(weir("shard", plan, "--count", "1", "--json").json(), "shard")
    assert made["units"] >= 1 and made["missing"] == made["units_before"] == 0 < made["bytes_written"]
    is_made.append(is_valid(weir("status", plan, "--recheck", "--json").json(), "status")["state"])
    assert is_valid(weir("finalize", plan, "--json").json(), "finalize")["was_in_place"] is False
    assert is_valid(weir("finalize", plan, "--json").json(), "finalize")["was_in_place"] is True
    is_made.append(is_valid(weir("status", plan, "--json").json(), "status")["state"])
    assert is_valid(weir("shard", plan, "--json").json(), "shard")["in_place"] and is_made == ["missing", "made", "in_place"]


@pytest.mark.parametrize("words", [["quantize"], ["conv2matmul"], ["cast", "--to", "float16"], ["optimize"]], ids=lambda words: words[0])
def test_diff(weir, tmp_path, words):
    out = tmp_path / "out.onnx"
    weir(*words, SOURCE, out)
    for weights in ("none", "digest", "values"):
        said = is_valid(weir("diff", SOURCE, out, "--weights", weights, "--json", code=1).json(), "diff")
        assert not said["equal"] and said["weights"] == weights and said["other"] == str(out)


FAILURES = [
    ["inspect", "nothere.onnx"],
    ["check", "nothere.onnx"],
    ["quantize", "nothere.onnx", "out.onnx"],
    ["quantize", SOURCE, "out.onnx", "--bits", "3"],
    ["quantize", SOURCE, "out.onnx", "--nothing"],
    ["quantize", SOURCE, "out.onnx", "--budget", "1000"],
    ["shrink", "nothere.onnx"],
    ["shrink", "nothere.onnx", "--info"],
    ["cast", SOURCE, "out.onnx"],
    ["measure", "nothere.onnx"],
    ["run", SOURCE, "out.onnx"],
    ["passes", "nothing"],
    ["targets", "nothing"],
    ["convert", SOURCE],
    ["conv2matmul", SOURCE, "out.onnx", "--form", "round"],
    ["replay", "nothere.jsonl", SOURCE, "out.onnx"],
    ["clean", "nothere"],
    ["shard", "nothere"],
    ["status", "nothere"],
    ["finalize", "nothere"],
    ["jobs", "nothere", "--scheduler", "shell"],
    ["sign", "nothere.onnx"],
    ["rebuild", "nothere.onnx", "--source", SOURCE],
    ["plan", SOURCE, "out.onnx"],
    ["audit", "nothere.onnx"],
    ["diff", SOURCE, "nothere.onnx"],
    ["diff", SOURCE, SOURCE, "--weights", "all"],
    ["verify", SOURCE],
    ["verify", SOURCE, SOURCE, "--onnxruntime", "nothere.so"],
]


@pytest.mark.parametrize("words", FAILURES, ids=lambda words: " ".join(map(str, words[:1] + words[2:])))
def test_failures(weir, tmp_path, words):
    """The exit code, the sentence and the hint that people are told, and nothing else on standard output."""
    plain = weir(*words, code=None, cwd=tmp_path)
    done = weir(*words, "--json", code=plain.code, cwd=tmp_path)
    assert plain.code > 0 and done.err == plain.err and list(tmp_path.iterdir()) == []
    said = is_valid(done.json(), "error")
    assert said["command"] == words[0] and said["error"]["code"] == plain.code
    lines = done.err.splitlines()
    assert f"weir: error: {said['error']['message']}" in lines
    assert said["error"]["hint"] is None or f"hint: {said['error']['hint']}" in lines


def test_a_refusal_is_in_the_document_of_the_dry_run(weir, tmp_path):
    out = tmp_path / "out.onnx"
    out.write_bytes(b"")
    said = is_valid(weir("convert", SOURCE, out, "--dry-run", "--json", code=2).json(), "report")
    assert said["error"]["code"] == 2 and said["error"]["message"] == said["weir"]["refusal"]["message"]
    assert said["weir"]["output"]


def test_many_models_are_lines(weir, tmp_path):
    """One document a model, in the order of the models: written, failed, written before."""
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    for name in ("a.onnx", "b.onnx"):
        weir("convert", SOURCE, tmp_path / name, "--inline", "--no-manifest")
    words = ["shrink", tmp_path / "a.onnx", tmp_path / "broken.onnx", tmp_path / "b.onnx", "--output-dir", tmp_path / "out"]
    done = weir(*words, "--json", code=65)
    written, failed, other = map(json.loads, done.out.splitlines())
    assert [each["model"] for each in (written, failed, other)] == [str(path) for path in words[1:4]]
    is_valid(written, "report"), is_valid(other, "report")
    assert is_valid(failed, "error")["error"]["code"] == 65
    (tmp_path / "out" / "b_quantized_weights.onnx").unlink()
    lines = weir(*words, "--json", "--resume", code=None).out.splitlines()
    first = is_valid(json.loads(lines[0]), "report")
    assert first["skipped_because"] == "output_exists" and "weir" not in first
    for line in weir("shrink", *words[1:4], "--info", "--json", code=65).out.splitlines():
        is_valid(json.loads(line), "error" if "error" in json.loads(line) else "shrink-info")


def events(done):
    return [is_valid(json.loads(line), "progress") for line in done.err.splitlines()]


@pytest.mark.parametrize(
    "words, label",
    [
        (["convert", SOURCE, "out.onnx"], "writing"),
        (["quantize", SOURCE, "out.onnx", "--algorithm", "k_quant", "--block-size", "64", "--jobs", "3"], "writing"),
        (["measure", SOURCE, "--candidates", "4:64"], "measuring"),
    ],
)
def test_progress_events(weir, tmp_path, words, label):
    """A start and an end for each piece of work, however short; --quiet keeps the rest off standard error, not these."""
    for quiet in ([], ["--quiet"]):
        found = events(weir(*words, "--progress=json", *quiet, cwd=tmp_path))
        assert [found[0]["event"], found[-1]["event"]] == ["start", "end"]
        assert {each["event"] for each in found[1:-1]} <= {"progress"}
        assert all(each["command"] == words[0] for each in found)
        assert found[-1]["done"] == found[-1]["total"] > 0 and found[-1]["share"] == 1
        assert [each["share"] for each in found] == sorted(each["share"] for each in found)
        if label != "measuring":
            assert {each["label"] for each in found} == {label}
        for path in tmp_path.iterdir():
            path.unlink()


def test_progress_events_of_an_audit(weir, tmp_path):
    weir("convert", SOURCE, tmp_path / "out.onnx")
    found = events(weir("audit", tmp_path / "out.onnx", "--progress", "json"))
    assert {each["label"] for each in found} == {"checking"} and found[-1]["event"] == "end"


def test_progress_words(weir, tmp_path):
    """The word may be left out, and no file is taken for it."""
    weir("convert", SOURCE, tmp_path / "in.onnx", "--inline")
    lines = weir("convert", "--progress", "in.onnx", "a.onnx", cwd=tmp_path).err
    assert "100 %" in lines and "{" not in lines
    assert "100 %" in weir("convert", "--progress", "plain", "in.onnx", "b.onnx", cwd=tmp_path).err
    assert weir("convert", "--progress=never", "in.onnx", "c.onnx", cwd=tmp_path).err == ""
    assert weir("convert", "--progress", "auto", "in.onnx", "d.onnx", cwd=tmp_path).err == ""


def test_a_line_of_a_completed_seal(weir, weir_fault, quick_folder):
    """The report that an interrupted run kept is indented; where documents are lines it is printed as one."""
    completed = 0
    for call in range(1, 20):
        here = quick_folder / str(call)
        here.mkdir()
        report = here / "report.json"
        words = ["shrink", SOURCE, "-o", here / "out.onnx", "--report-json", report]
        if weir_fault(*words, env={"WEIR_FAULT": f"kill:renameat2:{call}"}, code=None).code == 0:
            break
        if weir("audit", here / "out.onnx", code=None).code != 75:
            continue
        [line] = weir(*words, "--resume", "--json").out.splitlines()
        said = is_valid(json.loads(line), "report")
        assert said == json.loads(report.read_text()) and said["weir"]["resumed"] == "seal"
        assert said["command"] == "shrink" and said["model"] == str(SOURCE)
        completed += 1
    assert completed > 0
