"""`weir rebuild`: what a manifest records is enough to make the same bytes again, whichever command made them; and what is
not the same is found, with its place and what may be the reason."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import old_logs
import ranges_file
import signing_keys
from conftest import DATA, before_record
from test_audit import flip
from test_resume import Running

pytestmark = pytest.mark.in_memory
SOURCE = DATA / "parakeet-torchscript" / "encoder-model.onnx"
RULES = Path(__file__).parent.parent / "unit" / "sample.rules"

# A command line, without the model and the output.
COMMANDS = [
    ["conv2matmul", "--form", "flat", "--extended-conv1x1"],
    ["quantize", "--block-size", "32", "--exclude", "*linear1*", "--exclude", "b,c"],
    ["quantize", "--bits", "8", "--symmetric", "--format", "qdq", "--opset", "auto"],
    ["quantize", "--budget", "1500000", "--candidates", "4:32,8:32"],
    ["quantize", "--target", "webgpu"],
    ["shrink", "--method", "float_weights", "--levels", "50"],
    ["cast", "--to", "float16", "--min-elements", "10"],
    ["cast", "--to", "float16", "--graph", "--keep-io", "--keep-op", "Softmax"],
    ["dynamic", "--compat", "onnxruntime", "--op-types", "MatMul"],
    ["dynamic", "--target", "transformers.js"],
    ["infer", "--inputs-are-constant"],
    ["optimize", "--goal", "onnxruntime", "--exactness", "finite", "--rounds", "3"],
    ["preprocess"],
    ["convert", "--inline"],
    ["convert", "--split", "1MiB"],
    ["convert", "--data-file", "weights.bin", "--align", "4096"],
    ["convert", "--external"],
    ["run", "--pass", "conv2matmul", "--pass", "quantize:block_size=32,exclude=a\\,b+c", "--exactness", "zero"],
    ["run", "--pass", "repeat(tidy,fuse/bn)", "--pass", "repeat=3(tidy;cast:to=float16,exclude=a)", "--repeat"],
    ["run", "--rules", "RULES", "--tensor-digests", "--hash-inputs"],
    ["plan", "--pass", "conv2matmul", "--hash-inputs"],
]


def made(weir, words, out):
    """The model that a command line writes, and its manifest."""
    out.parent.mkdir(exist_ok=True)
    command, *options = [RULES if word == "RULES" else word for word in words]
    if command == "plan":
        plan = weir(command, SOURCE, out, *options, "--json").json()["weir"]["staged"]
        weir("shard", plan, "--count", "1")
        weir("finalize", plan)
    elif command == "shrink":
        weir(command, SOURCE, "-o", out, *options)
    else:
        weir(command, SOURCE, out, *options)
    return Path(f"{out}.manifest.json")


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command(weir, tmp_path, words):
    """From the manifest alone: the outputs, the manifest, and what lies beside them."""
    manifest = made(weir, words, tmp_path / "made" / "out.onnx")
    alone = tmp_path / "alone" / manifest.name
    alone.parent.mkdir()
    shutil.copy(manifest, alone)
    said = weir("rebuild", alone, "--source", SOURCE)
    assert ": SAME: " in said.out and "error" not in said.err
    assert files(alone.parent).keys() == {manifest.name}  # nothing was written
    said = weir("rebuild", alone, "--source", SOURCE, "--write", tmp_path / "again", "--json").json()
    assert said["same"] and said["same_plan"] and said["notes"] == [] and said["output"] == str(tmp_path / "again" / "out.onnx")
    assert files(tmp_path / "again") == files(manifest.parent)


def test_files_that_passes_read(weir, tmp_path):
    """Ranges, by their digest, wherever they lie: beside the manifest, beside the source, in --files, here."""
    out = tmp_path / "made" / "out.onnx"
    ranges = tmp_path / "ranges.jsonl"
    rng = np.random.default_rng(1)
    ranges_file.write(ranges, {"audio_signal": [rng.standard_normal((1, 4, 4)).astype(np.float32)]})
    out.parent.mkdir()
    weir("quantize", SOURCE, out, "--ranges", ranges, "--algorithm", "awq", code=None)
    if not out.exists():
        weir("static", SOURCE, out, "--ranges", ranges, "--op-types", "MatMul", "--exclude", "*")
    words = ["rebuild", out, "--source", SOURCE]
    here = tmp_path / "here"
    here.mkdir()
    missing = weir(*words, code=66, cwd=here)
    assert "the file 'ranges.jsonl' (SHA-256 " in missing.err and "was not found" in missing.err and "--files" in missing.err
    assert ": SAME: " in weir(*words, "--files", tmp_path, cwd=here).out
    shutil.copy(ranges, here)
    assert ": SAME: " in weir(*words, cwd=here).out
    (here / "ranges.jsonl").write_text(ranges.read_text() + "\n")
    assert "is not the file that the passes read" in weir(*words, code=66, cwd=here).err
    shutil.copy(ranges, out.parent)
    assert ": SAME: " in weir(*words, cwd=here).out


def test_artifacts_that_were_kept(weir, tmp_path):
    """What passes found in weights is taken where it is what the manifest lists, and made again where it is not there."""
    out, kept = tmp_path / "out.onnx", tmp_path / "kept"
    words = ["--budget", "1500000", "--candidates", "4:32,8:32"]
    weir("quantize", SOURCE, out, *words, "--artifacts", kept)
    listed = json.loads(Path(f"{out}.manifest.json").read_text())["predicate"]["x_weir"]["artifacts"]
    assert {path.name for path in kept.iterdir()} == {f"{each['sha256']}.jsonl" for each in listed} and listed
    rebuild = ["rebuild", out, "--source", SOURCE]
    again, taken = weir(*rebuild, "--json").json(), weir(*rebuild, "--artifacts", kept, "--json").json()
    assert (again["same"], again["artifacts"], again["artifacts_taken"]) == (True, len(listed), 0)
    assert (taken["same"], taken["artifacts"], taken["artifacts_taken"]) == (True, len(listed), len(listed))
    assert f"{len(listed)} of {len(listed)} artifact" in weir(*rebuild, "--artifacts", kept).out
    first = next(kept.iterdir())
    flip(first, 200)
    assert "is damaged: its SHA-256" in weir(*rebuild, "--artifacts", kept, code=66).err
    weir("quantize", SOURCE, out, *words, "--artifacts", kept, "--force")  # which writes it anew
    assert weir(*rebuild, "--artifacts", kept, "--json").json()["artifacts_taken"] == len(listed)
    first.unlink()
    assert weir(*rebuild, "--artifacts", kept, "--json").json()["artifacts_taken"] == len(listed) - 1
    assert "there is no folder" in weir(*rebuild, "--artifacts", tmp_path / "nothing", code=66).err
    renamed = copied(tmp_path, "renamed.onnx")
    weir("quantize", SOURCE, out, *words, "--artifacts", kept, "--force")
    said = weir("rebuild", out, "--source", renamed, "--artifacts", kept, "--json").json()
    assert said["same"] and said["artifacts_taken"] == len(listed)


def test_ranges_found_again(weir, tmp_path):
    """With --calibrate they are not looked for, but made of the samples, as it is recorded; others are told by what differs."""
    ranges, out, here = tmp_path / "r.jsonl", tmp_path / "out.onnx", tmp_path / "here"
    here.mkdir()
    rebuild = ["rebuild", out, "--source", SOURCE, "--calibrate"]
    forms = [["--generate", "2", "--seed", "7"], ["--generate", "1", "--method", "percentile=99.5", "--symmetric=false", "--bins", "512", "--exclude", "*Softmax*"]]
    for words in forms:
        weir("calibrate", SOURCE, "-o", ranges, "--force", *words)
        weir("static", SOURCE, out, "--ranges", ranges, "--force")
        ranges.unlink()
        missing = weir(*rebuild[:-1], cwd=here, code=66).err
        assert "was not found" in missing and "; --calibrate measures it again" in missing
        said = weir(*rebuild, "--json", cwd=here).json()
        assert said["same"] and said["ranges_found_again"] == 1 and not list(here.iterdir())
    weir("calibrate", SOURCE, "-o", ranges, "--generate", "1", "--statistics", "gram")
    weir("quantize", SOURCE, out, "--ranges", ranges, "--algorithm", "gptq", "--force")
    shutil.move(f"{ranges}.data", here)  # second moments come anew as well
    assert "1 file of ranges measured again" in weir(*rebuild, cwd=here).out

    def samples(name, seed):
        rng = np.random.default_rng(seed)
        path = tmp_path / name
        np.savez(path, audio_signal=rng.standard_normal((1, 16, 32)).astype(np.float32), attention_mask=np.ones((1, 16), bool))
        return path

    ranges.unlink()
    weir("calibrate", SOURCE, "-o", ranges, "--data", samples("a.npz", 1))
    weir("static", SOURCE, out, "--ranges", ranges, "--force")
    assert ": SAME: " in weir(*rebuild, "--data", tmp_path / "a.npz").out
    assert "measured on samples, but no samples are given" in weir(*rebuild, code=2).err
    assert "the samples differ" in weir(*rebuild, "--data", samples("b.npz", 2), code=1).err
    assert "--data names the samples for --calibrate" in weir(*rebuild[:-1], "--data", tmp_path / "a.npz", code=2).err
    # Of a model that passes had changed: with their options, and as exactly as they were asked to be.
    (tmp_path / "before.yaml").write_text("exactness: zero\npasses:\n- conv2matmul: {form: flat}\n- tidy/identity: {exclude: '*norm*'}\n- tidy\n")
    one, three = ["--pass", "conv2matmul"], ["--pass", "conv2matmul:form=flat", "--pass", "tidy/identity:exclude=*norm*", "--pass", "tidy"]
    for words, passes in ((one, one), (["--config", tmp_path / "before.yaml"], three)):
        weir("calibrate", SOURCE, "-o", ranges, "--generate", "1", *words, "--force")
        weir("run", SOURCE, out, *passes, "--pass", f"static:ranges={ranges}", "--force")
        ranges.unlink()
        said = weir(*rebuild, "--json").json()
        assert said["same"] and said["ranges_found_again"] == 1
    # One of these read ranges itself, in a file of the same name; and these are asked for again.
    (tmp_path / "smoothed").mkdir()
    again = tmp_path / "smoothed" / ranges.name
    smooth = ["--pass", f"smooth:ranges={ranges}"]
    weir("calibrate", SOURCE, "-o", ranges, "--generate", "1", "--statistics", "channel")
    weir("calibrate", SOURCE, "-o", again, "--generate", "2", *smooth)
    weir("run", SOURCE, out, *smooth, "--pass", f"static:ranges={again}", "--force")
    said = weir(*rebuild, "--json", env=SPOILED).json()
    assert said["same"] and said["ranges_found_again"] == 2
    # Ranges that only another calibration read, before and behind such as the passes read.
    third = tmp_path / "third.jsonl"
    weir("calibrate", SOURCE, "-o", again, "--generate", "1", "--statistics", "channel", *smooth, "--force")
    weir("calibrate", SOURCE, "-o", third, "--data", samples("c.npz", 3))
    rebuild = [*rebuild, "--data", tmp_path / "c.npz"]  # which those that were drawn do not take
    for behind in (third, ranges):
        weir("run", SOURCE, out, "--pass", f"smooth:ranges={again}", "--pass", f"static:ranges={behind}", "--force")
        said = weir(*rebuild, "--json", env=SPOILED).json()
        assert said["same"] and said["ranges_found_again"] == (3 if behind is third else 2)


SPOILED = {"MALLOC_PERTURB_": "165"}  # what was freed does not look as it did


def test_ranges_are_found_again_on_the_source_alone(weir, tmp_path):
    """By whatever name; of another nothing is found, and it is said before anything is run."""
    ranges, out = tmp_path / "r.jsonl", tmp_path / "out.onnx"
    weir("calibrate", SOURCE, "-o", ranges, "--generate", "1")
    weir("static", SOURCE, out, "--ranges", ranges)
    ranges.unlink()
    said = weir("rebuild", out, "--source", copied(tmp_path, "renamed.onnx"), "--calibrate", "--json").json()
    assert said["same"] and said["ranges_found_again"] == 1 and said["notes"] == [f"the source was named '{SOURCE.name}'"]
    other = tmp_path / "other.onnx"
    weir("conv2matmul", SOURCE, other)
    err = weir("rebuild", out, "--source", other, "--calibrate", code=66).err
    assert "the ranges 'r.jsonl' were found on a model other than" in err and f"named '{SOURCE.name}'" in err


def copied(tmp_path, name="encoder-model.onnx"):
    folder = tmp_path / "source"
    shutil.copytree(SOURCE.parent, folder)
    return (folder / SOURCE.name).rename(folder / name)


def test_a_source_that_changed(weir, tmp_path):
    """A weight: the unit and its tensors are named, and which file it was if that is recorded."""
    source = copied(tmp_path)
    out = tmp_path / "out.onnx"
    weir("conv2matmul", source, out, "--hash-inputs")
    data = source.parent / "onnx__MatMul_798"
    flip(data, 1000)
    said = weir("rebuild", out, "--source", source, "--write", tmp_path / "again", code=1)
    assert "out.onnx.data bytes 0.." in said.out and "tensor '" in said.out and ": DIFFERENT: 1 of 2 units" in said.out
    assert f"'{data}' is not the file that the outputs were made from" in said.out
    assert not (tmp_path / "again").exists()
    found = weir("rebuild", out, "--source", source, "--json", code=1).json()
    assert not found["same"] and found["different_units"] == 1 and found["differences"][0]["file"] == "out.onnx.data"
    weir("conv2matmul", source, out, "--force")
    flip(data, 1000)
    assert "the manifest has no digests of them" in weir("rebuild", out, "--source", source, code=1).out
    with open(data, "ab") as file:
        file.write(b"x")
    assert "bytes, and the file that the outputs were made from has" in weir("rebuild", out, "--source", source, code=66).err


def test_a_source_by_another_name(weir, tmp_path):
    out = tmp_path / "out.onnx"
    weir("conv2matmul", SOURCE, out)
    said = weir("rebuild", out, "--source", copied(tmp_path, "renamed.onnx"), "--json").json()
    assert said["same"] and not said["same_plan"] and said["notes"] == [f"the source was named '{SOURCE.name}'"]


def test_another_source(weir, tmp_path):
    out = tmp_path / "out.onnx"
    weir("conv2matmul", SOURCE, out)
    refused = weir("rebuild", out, "--source", out, code=66).err
    assert "the outputs were made from a model other than" in refused and f"from a file named '{SOURCE.name}'" in refused
    assert "does not exist" in weir("rebuild", out, "--source", tmp_path / "no.onnx", code=66).err
    assert "needs --source" in weir("rebuild", out, code=2).err
    assert "--write" in weir("rebuild", out, "--source", SOURCE, "--force", code=2).err


def altered(manifest, change):
    """The manifest with something else in x_weir; its digests stay."""
    doc = json.loads(manifest.read_text())
    change(doc["predicate"]["x_weir"])
    manifest.write_text(json.dumps(doc))


def test_another_version(weir, tmp_path):
    """It says so, tries, and compares."""
    manifest = made(weir, ["conv2matmul"], tmp_path / "out.onnx")
    altered(manifest, lambda x: x.update(weir="0.0.9"))
    said = weir("rebuild", manifest, "--source", SOURCE)
    assert "written by weir 0.0.9" in said.err and ": SAME: " in said.out
    altered(manifest, lambda x: x["passes"][0]["options"].update(form="flat"))
    said = weir("rebuild", manifest, "--source", SOURCE, code=1)
    assert "they were made by weir 0.0.9" in said.out and "the passes made other edits" in said.out
    altered(manifest, lambda x: x["passes"][0].update(name="no/such"))
    refused = weir("rebuild", manifest, "--source", SOURCE, code=65).err
    assert "no pass 'no/such'" in refused and "written by weir 0.0.9" in refused


def test_other_files_come_out(weir, tmp_path):
    """Found before the bytes are made."""
    manifest = made(weir, ["convert", "--external"], tmp_path / "out.onnx")
    altered(manifest, lambda x: x["layout_asked"].update(form="inline"))
    said = weir("rebuild", manifest, "--source", SOURCE, "--json", code=1).json()
    assert all(row["what"].startswith("the run would ") for row in said["differences"]) and said["units"] == 0
    altered(manifest, lambda x: x["layout_asked"].update(form="external", data_file="else.bin"))
    said = weir("rebuild", manifest, "--source", SOURCE, code=1).out
    assert "the run would not write this file" in said and "the manifest has no such file" in said and "the run would write other files" in said


def test_of_the_first_version(weir, tmp_path):
    """A manifest of 0.1.0: names that passes had, options without effect, no layout as it was asked for."""
    manifest = DATA / "logs-0.1.0" / "out.onnx.manifest.json"
    name = json.loads(manifest.read_text())["predicate"]["x_weir"]["source"]["name"]
    source = old_logs.lay_out(manifest.parent / name, tmp_path)
    said = weir("rebuild", manifest, "--source", source, "--json").json()
    assert said["same"] and said["made_by"] == "0.1.0"


BROKEN = {
    "passes gone": lambda x: x.pop("passes"),
    "no list": lambda x: x.update(passes={"name": "tidy"}),
    "no name": lambda x: x.update(passes=[{"options": {}}]),
    "no options": lambda x: x.update(passes=[{"name": "conv2matmul"}]),
    "an option": lambda x: x["passes"][0]["options"].update(more=1),
    "a value": lambda x: x["passes"][0]["options"].update(form="round"),
    "a family": lambda x: x.update(passes=[{"name": "tidy", "options": {}}]),
    "rounds": lambda x: x.update(passes=[{"repeat": [], "rounds": 0}]),
    "deep": lambda x: x.update(passes=[eval('{"repeat":[' * 12 + '],"rounds":1}' * 12)]),
    "not alone": lambda x: x["passes"].append({"name": "run", "options": {"passes": []}}),
    "exactness": lambda x: x.update(passes=[{"name": "run", "options": {"passes": [], "exactness": "very"}}]),
    "rules": lambda x: x.update(passes=[{"name": "run", "options": {"passes": [], "rules": [{"name": "a", "text": "?"}]}}]),
    "a file elsewhere": lambda x: x.update(passes=[{"name": "smooth", "options": {"ranges": {"name": "/etc/passwd", "sha256": "0" * 64}}}]),
    "no digest": lambda x: x.update(passes=[{"name": "smooth", "options": {"ranges": {"name": "passwd", "sha256": "0"}}}]),
    "layout": lambda x: x.update(layout_asked={"form": 1}),
    "a data file elsewhere": lambda x: x["layout_asked"].update(data_file="../x"),
    "output": lambda x: x.update(output="../x.onnx"),
    "no output": lambda x: x.pop("output"),
    "version": lambda x: x.pop("weir"),
    "source": lambda x: x.pop("source"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_manifests_that_anybody_wrote(weir, tmp_path, what):
    """Refused as malformed, and nothing is written, whatever --write says."""
    manifest = made(weir, ["conv2matmul"], tmp_path / "made" / "out.onnx")
    altered(manifest, BROKEN[what])
    before = files(manifest.parent)
    refused = weir("rebuild", manifest, "--source", SOURCE, "--write", tmp_path / "again", code=65)
    assert refused.err.startswith("weir: error: ") and files(manifest.parent) == before and not (tmp_path / "again").exists()


def test_a_signed_one(weir, tmp_path):
    key, public = signing_keys.make(tmp_path)
    manifest = made(weir, ["conv2matmul"], tmp_path / "out.onnx")
    words = ["rebuild", tmp_path / "out.onnx", "--source", SOURCE, "--public-key", public]
    assert "there is no signature" in weir(*words, code=66).err
    weir("sign", tmp_path / "out.onnx", "--key", key)
    assert "signed with the P-256 key" in weir(*words).out
    altered(manifest, lambda x: x.update(artifacts=[]))
    assert "is not the one that was signed" in weir(*words, code=1).err


def test_files_that_are_damaged(weir, tmp_path):
    """The manifest is one thing, what lies beside it another: SAME is said of the first, and the second is looked at."""
    out = tmp_path / "made" / "out.onnx"
    manifest = made(weir, ["conv2matmul"], out)
    words = ["rebuild", manifest, "--source", SOURCE]
    assert "the files next to the manifest have the same bytes" in weir(*words).out
    flip(out.parent / "out.onnx.data", 5)
    said = weir(*words, code=1)
    assert ": SAME: 2 files" in said.out and "DAMAGED: 1 of 2 units" in said.out and "--write DIR" in said.err
    assert json.loads(weir(*words, "--json", code=1).out)["damaged_units"] == 1
    repaired = weir(*words, "--write", tmp_path / "again")
    assert "DAMAGED" in repaired.out and "wrote" in repaired.out and "--write" not in repaired.err
    weir("audit", tmp_path / "again" / "out.onnx")
    (out.parent / "out.onnx").unlink()
    assert "DAMAGED: 2 of 2 units" in weir(*words, code=1).out
    (out.parent / "out.onnx.data").unlink()
    said = weir(*words)
    assert "not next to the manifest and were not checked" in said.out and "DAMAGED" not in said.out
    assert json.loads(weir(*words, "--json").out)["files_there"] is False


def test_a_link_in_place_of_a_file(weir, tmp_path):
    """It is none of the files that the manifest is about: the verdict on the manifest stands, and the model can be made again."""
    out = tmp_path / "made" / "out.onnx"
    manifest = made(weir, ["conv2matmul"], out)
    (out.parent / "out.onnx.data").rename(tmp_path / "elsewhere")
    (out.parent / "out.onnx.data").symlink_to(tmp_path / "elsewhere")
    words = ["rebuild", manifest, "--source", SOURCE]
    for more, code in ([], 1), (["--write", tmp_path / "again"], 0):
        said = weir(*words, *more, code=code)
        assert ": SAME: 2 files" in said.out and "DAMAGED" in said.out and "link" in said.err
    weir("audit", tmp_path / "again" / "out.onnx")


def test_write(weir, tmp_path):
    """What is there stays, unless --force says otherwise."""
    out = tmp_path / "out.onnx"
    weir("conv2matmul", SOURCE, out)
    wanted = files(tmp_path)
    words = ["rebuild", out, "--source", SOURCE, "--write", tmp_path]
    assert "exists already" in weir(*words, code=2).err and files(tmp_path) == wanted
    flip(tmp_path / "out.onnx.data", 5)
    assert ": SAME: " in weir(*words, "--force").out and files(tmp_path) == wanted
    out.unlink()
    refused = weir(*words, code=2).err
    assert "there is a 'out.onnx.data' already" in refused and "empty folder" in refused


@pytest.mark.parametrize("before", [before_record(1), "renameat2:5", "renameat2:6", "renameat2:7"])
def test_continued(weir, tmp_path, before):
    """After a kill the same command goes on, also from between the last renames, and ends with the same files."""
    out = tmp_path / "made" / "out.onnx"
    out.parent.mkdir()
    weir("conv2matmul", SOURCE, out)
    again = tmp_path / "again"
    words = ["rebuild", out, "--source", SOURCE, "--write", again]
    with Running(words, before):
        pass  # killed there
    assert list(again.glob(".*.weir"))
    assert ": SAME: 2 files" in weir(*words).out and files(again) == files(out.parent)


def test_what_others_left(weir, tmp_path):
    """Another command's output is not completed; one's own is, and is not taken for what is asked by now."""
    out, other, again = tmp_path / "made" / "out.onnx", tmp_path / "other" / "out.onnx", tmp_path / "again"
    for command, path in (("conv2matmul", out), ("convert", other)):
        path.parent.mkdir()
        weir(command, SOURCE, path)
    words = ["rebuild", out, "--source", SOURCE, "--write", again]
    again.mkdir()
    with Running(["convert", SOURCE, again / "out.onnx"], "renameat2:6"):
        pass
    refused = weir(*words, code=75).err
    assert "run that command again to complete it" in refused and "--resume" not in refused
    shutil.rmtree(again)
    with Running(words, "renameat2:6"):
        pass
    shutil.copy(f"{other}.manifest.json", f"{out}.manifest.json")
    refused = weir(*words, code=1)
    assert "was completed, but it is another model" in refused.err and refused.out == ""
