"""--provenance: a statement of SLSA v1 that in-toto's library reads, with the digests that sha256sum gives, the same from every run
of one plan, by one process or many, and through kills."""

import hashlib
import json
import os
import signal
import subprocess

import pytest
from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement as in_toto
from jsonschema import Draft202012Validator

from conftest import ALL, DATA, TESTS, program
from test_cluster import PASSES, files, plan_of

pytestmark = pytest.mark.in_memory
SOURCE = DATA / "parakeet-dynamo" / "encoder-model.onnx"
SCHEMA = json.loads((TESTS.parent / "docs" / "schema" / "provenance.json").read_text())
LATER = {"SOURCE_DATE_EPOCH": "1700000000"}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path):
    """The statement, once libraries have read it."""
    text = path.read_text()
    found = json.loads(text)
    Draft202012Validator(SCHEMA).validate(found)
    in_toto.Statement.copy_from_pb(json_format.Parse(text, in_toto.Statement([], "", {}).pb)).validate()
    json_format.ParseDict(found["predicate"], provenance_pb2.Provenance())
    return found


def test_what_it_says(weir, tmp_path):
    out = tmp_path / "out.onnx"
    weir("quantize", SOURCE, out, "--block-size", "32", "--budget", "400000", "--tensor-digests", "--provenance", tmp_path / "p.json")
    found = read(tmp_path / "p.json")
    assert found["subject"] == [{"name": name, "digest": {"sha256": sha256(tmp_path / name)}} for name in ("out.onnx", "out.onnx.data")]
    definition, details = found["predicate"]["buildDefinition"], found["predicate"]["runDetails"]
    ours = json.loads((tmp_path / "out.onnx.manifest.json").read_text())["predicate"]["x_weir"]
    assert {key: ours[key] for key in ("passes", "layout", "output")} == {key: definition["externalParameters"][key] for key in ("passes", "layout", "output")}
    assert definition["internalParameters"] == {"plan_id": ours["plan_id"], "meta_sha256": ours["source"]["meta_sha256"], "edits_sha256": ours["edits_sha256"]}
    known = {row["name"]: row["digest"]["sha256"] for row in definition["resolvedDependencies"]}
    sources = [SOURCE, SOURCE.with_name(SOURCE.name + ".data")]
    assert known == {**{path.name: sha256(path) for path in sources}, "measure": ours["artifacts"][0]["sha256"]}
    assert all(row["sha256"] is None for row in ours["source"]["files"]), "only --hash-inputs puts them into the manifest"
    assert details["builder"]["version"] == {"weir": ours["weir"]} and "metadata" not in details
    assert {row["name"]: row["digest"]["sha256"] for row in details["byproducts"]} == {f"out.onnx.{end}": sha256(tmp_path / f"out.onnx.{end}") for end in ("manifest.json", "tensors.jsonl")}
    text = (tmp_path / "p.json").read_text()
    assert str(tmp_path) not in text and os.uname().nodename not in text


def test_times(weir, tmp_path):
    """None of the clock's: bytes do not depend on when or where."""
    for name, env in (("a", {}), ("b", {}), ("c", LATER)):
        (tmp_path / name).mkdir()
        weir("convert", SOURCE, tmp_path / name / "out.onnx", "--provenance", tmp_path / f"{name}.json", env=env)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    times = {"startedOn": "2023-11-14T22:13:20Z", "finishedOn": "2023-11-14T22:13:20Z"}
    assert read(tmp_path / "c.json")["predicate"]["runDetails"].pop("metadata") == times
    for bad in ("soon", "-1", "1e3", "253402300800"):
        said = weir("convert", SOURCE, tmp_path / "d.onnx", "--provenance", tmp_path / "d.json", env={"SOURCE_DATE_EPOCH": bad}, code=2)
        assert "not a number of seconds" in said.err
    assert not list(tmp_path.glob("d.*"))
    weir("convert", SOURCE, tmp_path / "d.onnx", env={"SOURCE_DATE_EPOCH": "soon"})  # nobody asks


def test_by_many(weir, medium_encoder, large_folder):
    """What 'weir finalize' writes is what a single run does, outputs of many units included."""
    folders = [large_folder / name for name in ("provenance-one", "provenance-many")]
    for folder in folders:
        folder.mkdir()
    weir("run", medium_encoder, folders[0] / "out.onnx", *PASSES, "--provenance", folders[0] / "p.json")
    found = read(folders[0] / "p.json")
    assert {row["name"]: row["digest"]["sha256"] for row in found["subject"]} == {name: sha256(folders[0] / name) for name in ("out.onnx", "out.onnx.data")}
    plan = plan_of(weir, medium_encoder, folders[1])
    weir("shard", plan)
    weir("finalize", plan, "--provenance", folders[1] / "p.json")
    assert (folders[1] / "p.json").read_bytes() == (folders[0] / "p.json").read_bytes()
    weir("finalize", plan, "--provenance", folders[1] / "p.json")  # it is there already
    assert "was in place already" in weir("finalize", plan, "--provenance", folders[1] / "q.json", code=66).err
    for path in [path for folder in folders for path in folder.iterdir()]:
        path.unlink()


def test_where_it_goes(weir, small_encoder, tmp_path):
    out = tmp_path / "out.onnx"
    assert json.loads(weir("convert", SOURCE, out, "--provenance", "-").out)["subject"][0]["name"] == "out.onnx"
    assert "Both --json and --provenance" in weir("convert", SOURCE, out, "--provenance", "-", "--json", code=2).err
    for name in ("out.onnx.data", "out.onnx.manifest.json"):
        assert "--provenance would overwrite" in weir("convert", SOURCE, out, "--force", "--provenance", tmp_path / name, code=2).err
    assert "would both write" in weir("convert", SOURCE, out, "--force", "--provenance", tmp_path / "x", "--report-json", tmp_path / "x", code=2).err
    assert "--io=null writes none" in weir("convert", SOURCE, tmp_path / "n.onnx", "--io", "null", "--provenance", tmp_path / "x", code=2).err
    weir("convert", SOURCE, tmp_path / "n.onnx", "--dry-run", "--provenance", tmp_path / "x")
    weir("convert", SOURCE, out, "--provenance", tmp_path / "x", code=2)  # the output exists
    assert not (tmp_path / "x").exists() and not list(tmp_path.glob("*.part"))
    weir("shrink", SOURCE, small_encoder, "--output-dir", tmp_path / "s", "--provenance", tmp_path / "x", code=2)
    weir("plan", SOURCE, tmp_path / "p.onnx", "--pass", "conv2matmul", "--provenance", tmp_path / "x", code=2)
    folder = tmp_path / "planned"
    folder.mkdir()
    plan = plan_of(weir, small_encoder, folder)
    weir("shard", plan)
    for name in (small_encoder, folder / "out.onnx", folder / "out.onnx.data", folder / "out.onnx.manifest.json", folder / "out.onnx.sig"):
        assert "--provenance would overwrite" in weir("finalize", plan, "--provenance", name, code=2).err
    assert plan.exists()
    assert json.loads(weir("finalize", plan, "--provenance", "-").out)["subject"]


@pytest.mark.parametrize("command", ["conv2matmul", "finalize"])
def test_killed_before_each_call(weir, small_encoder, tmp_path, command):
    """The same command, given again, has the statement, also where only renames were left of the run."""
    weir("run", small_encoder, tmp_path / "whole" / "out.onnx", *PASSES, "--provenance", tmp_path / "whole.json")
    if command == "conv2matmul":  # which as a command of its own has other words for its options
        weir("conv2matmul", small_encoder, tmp_path / "whole" / "out.onnx", "--tensor-digests", "--force", "--provenance", tmp_path / "whole.json")
    expected, whole, sealed = (tmp_path / "whole.json").read_bytes(), files(tmp_path / "whole"), 0
    late = 0
    log = tmp_path / "log"

    def words(folder):
        if command == "conv2matmul":
            return [command, small_encoder, folder / "out.onnx", "--tensor-digests", "--provenance", folder.with_suffix(".json")]
        plan = plan_of(weir, small_encoder, folder)
        weir("shard", plan)
        return [command, plan, "--provenance", folder.with_suffix(".json")]

    def run(given, **env):
        return subprocess.run([program("WEIR_FAULT_PROGRAM"), *given], env={**os.environ, **env}, capture_output=True, text=True)

    (tmp_path / "count").mkdir()
    assert run(words(tmp_path / "count"), WEIR_FAULT_LOG=str(log)).returncode == 0
    calls = len(log.read_text().splitlines())
    for n in range(max(1, calls - 24) if not ALL else 1, calls + 1):
        folder = tmp_path / f"killed{n}"
        folder.mkdir()
        given = words(folder)
        assert run(given, WEIR_FAULT=f"kill:{n}").returncode == -signal.SIGKILL
        again = weir(*given, code=None)
        sealed += "completed the interrupted run" in again.err
        if again.code:  # all is in place, and nothing left of the folder that could tell
            assert again.code in (2, 66) and {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == whole, (n, again.said)
            late += 1
        else:
            assert folder.with_suffix(".json").read_bytes() == expected
            assert files(folder) == whole, n
    assert calls > 20 and late < 12 and (sealed or command == "finalize")
