"""The manifest, `weir audit`, and the digests per tensor.

The manifest is recomputed with model-signing's own API, in a folder that holds nothing else and beside the input;
`audit` has to find a single flipped byte and name its unit and tensor.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import compare
import sampler
import wire
from conftest import DATA, built_tool, package_model, with_lines

UNIT = 64 << 20


def statement(out):
    return json.loads(Path(f"{out}.manifest.json").read_text())


def signing_disagrees(out, beside=False):
    """What model-signing has to say against a manifest, in sentences; none if it agrees."""
    import check_manifest

    return list(
        check_manifest.differences(statement(out), check_manifest.recompute(Path(out).parent, statement(out), beside))
    )


@pytest.fixture(scope="module")
def written(weir, large_folder, one_layer):
    """Two units of data, in a folder of its own. Tests that damage it work on a copy."""
    folder = large_folder / "audit"
    folder.mkdir()
    weir("conv2matmul", one_layer, folder / "out.onnx", "--tensor-digests", "--hash-inputs")
    yield folder / "out.onnx"
    shutil.rmtree(folder)


@pytest.fixture
def copy(written, tmp_path):
    shutil.copytree(written.parent, tmp_path / "copy")
    yield tmp_path / "copy" / written.name
    shutil.rmtree(tmp_path / "copy")


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


# ---- the manifest


def test_model_signing_agrees_in_a_folder_of_its_own(written):
    assert not signing_disagrees(written)


def test_model_signing_sees_a_flipped_byte(copy):
    """The control arm: a verifier that always agreed would prove nothing."""
    flip(f"{copy}.data", 70 << 20)
    assert signing_disagrees(copy)


def test_model_signing_agrees_beside_the_input(weir, tmp_path):
    """The manifest names our outputs only, whatever else lies there."""
    shutil.copytree(DATA / "parakeet-torchscript", tmp_path / "both")
    out = tmp_path / "both" / "out.onnx"
    weir("conv2matmul", tmp_path / "both" / "encoder-model.onnx", out)
    alone = tmp_path / "alone"
    alone.mkdir()
    weir("conv2matmul", tmp_path / "both" / "encoder-model.onnx", alone / "out.onnx")
    assert Path(f"{out}.manifest.json").read_bytes() == (alone / "out.onnx.manifest.json").read_bytes()
    assert not signing_disagrees(out, beside=True)
    assert not signing_disagrees(alone / "out.onnx")
    assert signing_disagrees(out), "an unsigned file is one to a verifier that is not told to pass it over"


def test_manifest_form(written, one_layer):
    """The fields of an in-toto Statement, and ours beside them."""
    found = statement(written)
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == "https://model_signing/signature/v1.0"
    assert [subject["name"] for subject in found["subject"]] == ["out.onnx"]
    how = found["predicate"]["serialization"]
    assert (how["method"], how["hash_type"], how["shard_size"], how["allow_symlinks"]) == (
        "shards",
        "sha256",
        UNIT,
        False,
    )
    assert how["ignore_paths"] == ["out.onnx.manifest.json", "out.onnx.tensors.jsonl"]
    ours = found["predicate"]["x_weir"]
    assert set(ours) == {
        "version", "weir", "plan_id", "passes", "layout", "output", "source", "layout_asked", "edits_sha256",
        "tensors_sha256", "artifacts",
    }  # fmt: skip
    assert ours["output"] == "out.onnx" and ours["passes"][0]["name"] == "conv2matmul"
    for each in ours["source"]["files"]:
        path = one_layer.parent / each["name"]
        assert each["size"] == path.stat().st_size
        assert each["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    companion = Path(f"{written}.tensors.jsonl").read_bytes()
    assert ours["tensors_sha256"] == hashlib.sha256(companion).hexdigest()


def test_a_report_names_its_plan_and_stands_in_no_manifest(weir, small_encoder, tmp_path):
    """Two runs have two reports (they took their time) and one manifest, whose plan both name."""
    manifests, ids = [], []
    for name, words in (("a", ["--report-json"]), ("b", ["--jobs", "1", "--report-json"])):
        out = tmp_path / name / "out.onnx"
        weir("conv2matmul", small_encoder, out, *words, tmp_path / f"{name}.json")
        manifests.append(Path(f"{out}.manifest.json").read_bytes())
        ids.append(json.loads((tmp_path / f"{name}.json").read_text())["weir"]["plan_id"])
    assert manifests[0] == manifests[1]
    assert ids == [statement(tmp_path / "a" / "out.onnx")["predicate"]["x_weir"]["plan_id"]] * 2


def test_manifest_digests_recomputed_by_hand(written):
    root = hashlib.sha256()
    names = []
    for each in statement(written)["predicate"]["resources"]:
        name, start, end = each["name"].rsplit(":", 2)
        with open(written.parent / name, "rb") as file:
            file.seek(int(start))
            digest = hashlib.sha256(file.read(int(end) - int(start)))
        assert each["digest"] == digest.hexdigest() and each["algorithm"] == f"sha256-sharded-{UNIT}"
        root.update(digest.digest())
        names.append((name, int(start), int(end)))
    assert root.hexdigest() == statement(written)["subject"][0]["digest"]["sha256"]
    assert names == sorted(names)
    sizes = {path.name: path.stat().st_size for path in (written, Path(f"{written}.data"))}
    assert {name: max(end for each, _, end in names if each == name) for name in sizes} == sizes


def test_manifest_names_the_edit_log(weir, tmp_path, small_encoder):
    weir("conv2matmul", small_encoder, tmp_path / "out.onnx", "--edit-log", tmp_path / "edits.jsonl")
    ours = statement(tmp_path / "out.onnx")["predicate"]["x_weir"]
    assert ours["edits_sha256"] == hashlib.sha256((tmp_path / "edits.jsonl").read_bytes()).hexdigest()


def test_records_hold_nothing_of_the_run(weir, tmp_path, small_encoder):
    """No path, host, user or time: two runs in two places give equal manifests, logs, plans and companions."""
    found = []
    for name in ("one", "two"):
        folder = tmp_path / name
        shutil.copytree(small_encoder.parent, folder / "in")
        (folder / "out").mkdir()
        weir("conv2matmul", folder / "in" / small_encoder.name, folder / "out" / "out.onnx", "--tensor-digests",
             "--edit-log", folder / "out" / "edits.jsonl", "--plan-out", folder / "out" / "plan.json")  # fmt: skip
        found.append(compare.folder_bytes(folder / "out"))
    assert found[0] == found[1]
    assert len(found[0]) == 7
    assert not any(str(tmp_path).encode() in content for content in found[0].values())


def test_no_manifest(weir, tmp_path, small_encoder):
    weir("conv2matmul", small_encoder, tmp_path / "out.onnx", "--no-manifest")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.onnx", "out.onnx.data"]
    assert "manifest" in weir("audit", tmp_path / "out.onnx", code=66).err


def test_no_manifest_leaves_no_old_one_behind(weir, tmp_path, small_encoder):
    """A manifest that speaks of other bytes would be a lie."""
    weir("conv2matmul", small_encoder, tmp_path / "out.onnx")
    weir("convert", small_encoder, tmp_path / "out.onnx", "--force", "--no-manifest")
    assert not (tmp_path / "out.onnx.manifest.json").exists()


# ---- audit


def test_whole(weir, written):
    for target in (written, f"{written}.manifest.json"):
        found = weir("audit", target, "--json").json()
        assert found["whole"] and found["files"] == 2 and found["units"] == 3 and found["damage"] == []
        assert ": OK (2 files" in weir("audit", target).out


def damage(weir, out):
    found = weir("audit", out, "--json", code=1).json()
    assert not found["whole"] and found["damaged_units"] >= len(found["damage"]) > 0
    assert "DAMAGED" in weir("audit", out, code=1).out
    return found["damage"]


def data_tensors(out):
    """(offset, length, name) of every tensor in the data file."""
    pairs = [(compare.external_pairs(tensor), tensor.name) for _, tensor in compare.tensors(compare.structure(out))
             if compare.is_external(tensor)]  # fmt: skip
    return sorted((int(each["offset"]), int(each["length"]), name) for each, name in pairs)


@pytest.mark.parametrize("where", ["first byte", "unit border", "last byte"])
def test_flipped_byte(weir, copy, where):
    """One bit: the unit is named, all the tensors in it without digests per tensor, with them the one that differs."""
    companion = Path(f"{copy}.tensors.jsonl")
    data = Path(f"{copy}.data")
    offset = {"first byte": 0, "unit border": UNIT, "last byte": data.stat().st_size - 1}[where]
    flip(data, offset)
    [found] = damage(weir, copy)
    assert found["file"] == data.name and found["offset"] == offset // UNIT * UNIT
    assert found["length"] == min(UNIT, data.stat().st_size - found["offset"])
    end = found["offset"] + found["length"]
    inside = {name for start, size, name in data_tensors(copy) if start < end and start + size > found["offset"]}
    hit = {name for start, size, name in data_tensors(copy) if start <= offset < start + size}
    assert set(found["tensors"]) == hit and len(hit) == 1 and found["narrowed"]
    assert found["whole_tensors"] == len(inside) - 1 > 0
    companion.unlink()
    [found] = damage(weir, copy)
    assert set(found["tensors"]) == inside and not found["narrowed"] and found["whole_tensors"] == 0


def test_damage_between_tensors(weir, copy):
    """A flipped byte of padding: a damaged unit, and no tensor that differs."""
    ends = [(start + size, following) for (start, size, _), (following, _, _)
            in zip(data_tensors(copy), data_tensors(copy)[1:])]  # fmt: skip
    gap = next(end for end, following in ends if end < following)
    flip(Path(f"{copy}.data"), gap)
    [found] = damage(weir, copy)
    assert found["tensors"] == [] and found["narrowed"] and found["whole_tensors"] > 0


def rewritten(lines, row, **change):
    rows = [json.loads(line) for line in lines]
    rows[row].update(change)
    return "".join(json.dumps(each) + "\n" for each in rows)


COMPANION_DAMAGES = {
    "out of range": (lambda lines: rewritten(lines, 3, offset=1 << 40), "line 4 is outside its file"),
    "unknown name": (lambda lines: rewritten(lines, 1, name="nobody"), "line 2 names a tensor that the model"),
    "unknown file": (lambda lines: rewritten(lines, 0, file="../x"), "line 1 names a file"),
    "too few digests": (lambda lines: rewritten(lines, 0, sha256=[]), "line 1 does not have one digest"),
    "no digest": (lambda lines: lines[0].replace('"sha256":["', '"sha256":["x', 1) + "\n", "line 1 "),
    "not JSON": (lambda lines: lines[0] + "\n{\n", "line 2 is not JSON"),
    "not an object": (lambda lines: "[]\n", "line 1 is not that of a tensor"),
}


@pytest.mark.parametrize("how", COMPANION_DAMAGES)
@pytest.mark.parametrize("recorded", [True, False])
def test_damaged_companion_is_not_used(weir, copy, how, recorded):
    """Not what the manifest records, or, where somebody made that agree, not what fits the files: one line says so."""
    companion, manifest = Path(f"{copy}.tensors.jsonl"), Path(f"{copy}.manifest.json")
    change, why = COMPANION_DAMAGES[how]
    text = change(companion.read_text().splitlines())
    if recorded:
        old = hashlib.sha256(companion.read_bytes()).hexdigest()
        manifest.write_text(manifest.read_text().replace(old, hashlib.sha256(text.encode()).hexdigest()))
    companion.write_text(text)
    flip(Path(f"{copy}.data"), 0)
    done = weir("audit", copy, "--json", code=1)
    [found] = done.json()["damage"]
    assert not found["narrowed"] and len(found["tensors"]) > 1
    assert (why if recorded else "its SHA-256 is not the one in the manifest") in done.err
    assert done.err.count("\n") == 1


def test_companion_that_no_manifest_records(weir, copy):
    manifest = Path(f"{copy}.manifest.json")
    found = json.loads(manifest.read_text())
    found["predicate"]["x_weir"]["tensors_sha256"] = None
    manifest.write_text(json.dumps(found))
    flip(Path(f"{copy}.data"), 0)
    done = weir("audit", copy, "--json", code=1)
    assert "the manifest does not record it" in done.err and not done.json()["damage"][0]["narrowed"]


# ---- a damaged .onnx


@pytest.fixture
def small(weir, small_encoder, tmp_path):
    (tmp_path / "small").mkdir()
    weir("conv2matmul", small_encoder, tmp_path / "small" / "out.onnx", "--tensor-digests")
    return tmp_path / "small" / "out.onnx"


def onnx_places(small):
    """Places in the .onnx to hit, each with the tensor that is hit, or None."""
    content = small.read_bytes()
    rows = [json.loads(line) for line in Path(f"{small}.tensors.jsonl").read_text().splitlines()]
    inline = [row for row in rows if row["file"] == small.name and row["length"] >= 8 and "encoding" not in row]
    payload = inline[len(inline) // 2]
    name = compare.structure(small).graph.node[-1].name.encode()
    assert name
    return {
        "inline payload": (payload["offset"] + payload["length"] // 2, payload["name"]),
        "first byte of a payload": (inline[0]["offset"], inline[0]["name"]),
        "node name": (content.index(name), None),
        "framing of the graph": (content.index(b"\x3a") + 2, None),  # ModelProto.graph: tag, then its length
        "first byte": (0, None),
        "last byte": (len(content) - 1, None),
    }


ONNX_PLACES = ("inline payload", "first byte of a payload", "node name", "framing of the graph", "first byte", "last byte")


@pytest.mark.parametrize("where", ONNX_PLACES)
def test_flipped_byte_in_the_onnx(weir, small, where):
    """Digests per tensor name the tensor that differs, whether the .onnx can still be read or not."""
    offset, hit = onnx_places(small)[where]
    rows = [json.loads(line) for line in Path(f"{small}.tensors.jsonl").read_text().splitlines()]
    inside = [row for row in rows if row["file"] == small.name and row["length"]]
    flip(small, offset)
    [found] = damage(weir, small)
    assert (found["file"], found["offset"], found["length"]) == (small.name, 0, small.stat().st_size)
    assert found["tensors"] == ([hit] if hit else []) and found["narrowed"]
    assert found["whole_tensors"] == len(inside) - len(found["tensors"]) > 0
    said = weir("audit", small, code=1).err
    assert said.startswith("hint: to make the damaged files again: ") and said.count("\n") == 1  # no warning
    if not hit:
        assert "the damage is outside the tensors" in weir("audit", small, code=1).out


@pytest.mark.parametrize("where", ONNX_PLACES)
def test_flipped_byte_in_the_onnx_without_digests(weir, small, where):
    """Then the damaged .onnx itself is asked: all that lies in the unit, or a sentence that nobody knows."""
    offset, hit = onnx_places(small)[where]
    names = {row["name"] for row in map(json.loads, Path(f"{small}.tensors.jsonl").read_text().splitlines())
             if row["file"] == small.name and row["length"]}  # fmt: skip
    Path(f"{small}.tensors.jsonl").unlink()
    flip(small, offset)
    done = weir("audit", small, "--json", code=1)
    [found] = done.json()["damage"]
    assert (found["file"], found["offset"], found["narrowed"]) == (small.name, 0, False)
    if found["tensors"] is None:
        assert "is too damaged to be read as a model" in done.err and where in ("framing of the graph", "first byte")
        assert "no other unit in this file" in weir("audit", small, code=1).out
    else:
        # A tensor in an attribute is "g0/n12.value" to the run, and has no name to a reader of its output.
        assert "is damaged: weir names the tensors" in done.err and (not hit or ".value" in hit or hit in found["tensors"])
        assert {name for name in names if ".value" not in name} <= {*found["tensors"]}
        assert where in ("inline payload", "first byte of a payload", "node name", "last byte")


def test_damage_in_both_files(weir, small):
    """With digests per tensor a damaged .onnx takes nothing from what is said of the data file."""
    offset, hit = onnx_places(small)["inline payload"]
    first = data_tensors(small)[0]
    flip(small, offset)
    flip(f"{small}.data", first[0])
    found = damage(weir, small)
    assert [(each["file"], each["tensors"]) for each in found] == [(small.name, [hit]), (f"{small.name}.data", [first[2]])]


def test_whole_units_of_an_unreadable_model(weir, copy):
    """Nobody can name tensors: each damaged range, and where the whole part of the file begins and ends."""
    Path(f"{copy}.tensors.jsonl").unlink()
    flip(copy, onnx_places_framing(copy))
    flip(f"{copy}.data", 5)
    done = weir("audit", copy, "--json", code=1).json()
    sizes = {each["file"]: each for each in done["damaged_files"]}
    data = sizes[f"{copy.name}.data"]
    rest = {"offset": UNIT, "length": Path(f"{copy}.data").stat().st_size - UNIT}
    assert (data["units"], data["whole_units"], data["first_whole"], data["last_whole"]) == (2, 1, rest, rest)
    assert (sizes[copy.name]["whole_units"], sizes[copy.name]["first_whole"]) == (0, None)
    assert f"1 of the file's 2 units is intact: bytes {UNIT}.." in weir("audit", copy, code=1).out


def onnx_places_framing(copy):
    return copy.read_bytes().index(b"\x3a") + 2


@pytest.mark.parametrize("at", ["first byte", "middle", "last byte"])
def test_flipped_byte_in_the_digests_per_tensor(weir, small, at):
    """They are no part of the model, which is whole; that they cannot be used any more is said at once."""
    companion = Path(f"{small}.tensors.jsonl")
    size = companion.stat().st_size
    flip(companion, {"first byte": 0, "middle": size // 2, "last byte": size - 1}[at])
    done = weir("audit", small)
    assert ": OK (" in done.out and companion.name in done.err and "is not the one in the manifest" in done.err
    flip(small, small.stat().st_size // 2)
    done = weir("audit", small, "--json", code=1)
    assert not done.json()["damage"][0]["narrowed"] and "is not the one in the manifest" in done.err


def test_flipped_digit_in_the_manifest(weir, small):
    """Of any digest, or of any place, in it: nothing is whole by such a manifest.

    Most contradict the root digest, and no file is judged by them. Where a file ends is in no digest: then the file is
    called too long or too short.
    """
    manifest = Path(f"{small}.manifest.json")
    text = manifest.read_text()
    checked = text[: text.index('"x_weir"')]
    digits = [match.start(group) for match in re.finditer(r'"(?:digest|sha256)":"([0-9a-f]{64})"|:(\d+):(\d+)"', checked)
              for group in range(1, 4) if match.start(group) >= 0]  # fmt: skip
    assert len(digits) == 1 + 2 * 3
    codes = []
    for at in digits:
        manifest.write_text(text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :])
        done = weir("audit", small, code=None)
        codes.append(done.code)
        assert "out.onnx.manifest.json" in done.err if done.code == 65 else "DAMAGED" in done.out
    assert sorted(codes) == [1] * 2 + [65] * 5


def test_missing_data_file(weir, copy):
    data = Path(f"{copy}.data")
    data.unlink()
    found = damage(weir, copy)
    assert {each["file"] for each in found} == {data.name} and "missing" in found[0]["what"]


@pytest.mark.parametrize("keep", [0, 1000, UNIT, UNIT + 5])
def test_truncated_data_file(weir, copy, keep):
    data = Path(f"{copy}.data")
    size = data.stat().st_size
    with open(data, "r+b") as file:
        file.truncate(keep)
    found = damage(weir, copy)
    assert {each["file"] for each in found} == {data.name}
    assert all("short" in each["what"] for each in found)
    assert min(each["offset"] for each in found) == keep // UNIT * UNIT < size


def test_longer_data_file(weir, copy):
    with open(f"{copy}.data", "ab") as file:
        file.write(b"x")
    assert damage(weir, copy)[0]["file"] == f"{copy.name}.data"


def edited(content, change):
    found = json.loads(content)
    change(found)
    return json.dumps(found)


MANIFEST_DAMAGES = {
    "empty": lambda text: "",
    "no json": lambda text: text[:-20],
    "not a statement": lambda text: "{}",
    "root digest": lambda text: edited(text, lambda m: m["subject"][0]["digest"].update(sha256="0" * 64)),
    "resource digest": lambda text: edited(text, lambda m: m["predicate"]["resources"][0].update(digest="0" * 64)),
    "resource gone": lambda text: edited(text, lambda m: m["predicate"]["resources"].pop()),
    "path leaves the folder": lambda text: text.replace('"out.onnx:0:', '"../out.onnx:0:'),
    "absolute path": lambda text: text.replace('"out.onnx:0:', '"/out.onnx:0:'),
    "hole between shards": lambda text: text.replace(f":{UNIT}:", f":{UNIT + 1}:"),
    "negative": lambda text: text.replace("out.onnx:0:", "out.onnx:-1:"),
}


@pytest.mark.parametrize("how", MANIFEST_DAMAGES)
def test_damaged_manifest(weir, copy, how):
    """A manifest that contradicts itself is refused before any file is read."""
    path = Path(f"{copy}.manifest.json")
    changed = MANIFEST_DAMAGES[how](path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    done = weir("audit", copy, code=65)
    assert "out.onnx.manifest.json" in done.err


# ---- digests per tensor


def digests_by_hand(out, row):
    with open(out.parent / row["file"], "rb") as file:
        file.seek(row["offset"])
        content = file.read(row["length"])
    assert len(content) == row["length"]
    return [hashlib.sha256(content[at : at + UNIT]).hexdigest() for at in range(0, len(content), UNIT)]


def test_tensor_digests(written):
    """One line a tensor, in every file; recomputed with hashlib."""
    rows = [json.loads(line) for line in Path(f"{written}.tensors.jsonl").read_text().splitlines()]
    model = compare.structure(written)
    assert {row["name"] for row in rows} >= {each.name for each in model.graph.initializer}
    for row in rows:
        assert set(row) == {"name", "file", "offset", "length", "dtype", "dims", "sha256", "from"}
        assert row["sha256"] == digests_by_hand(written, row), row["name"]
    by_name = {row["name"]: row for row in rows}
    for offset, length, name in data_tensors(written):
        assert (by_name[name]["file"], by_name[name]["offset"], by_name[name]["length"]) == (
            f"{written.name}.data",
            offset,
            length,
        )
    made = [row for row in rows if "transpose" in row["from"]]
    assert len(made) == 4 and all(row["name"].endswith("_w_t") for row in made)


@pytest.mark.slow
def test_tensor_larger_than_a_unit(weir, tmp_path):
    """Digests are a list over 64 MiB pieces from the tensor's own start, wherever the units of its file begin."""
    sizes = {"small": 5000, "large": 2 * UNIT + 12345}
    weights = [wire.tensor(name, wire.UINT8, (size,), pairs=wire.external("w.bin", start, size))
               for (name, size), start in zip(sizes.items(), (0, 5000))]  # fmt: skip
    outputs = [(f"{name}.out", wire.UINT8, [size]) for name, size in sizes.items()]
    nodes = [wire.node("Identity", [name], [f"{name}.out"]) for name in sizes]
    (tmp_path / "in.onnx").write_bytes(wire.model(wire.graph(nodes, weights, [], outputs)))
    with open(tmp_path / "w.bin", "wb") as file:
        for number in range(130):
            file.write(bytes([number]) * (1 << 20))
    weir("convert", tmp_path / "in.onnx", tmp_path / "out.onnx", "--tensor-digests")
    rows = [json.loads(line) for line in (tmp_path / "out.onnx.tensors.jsonl").read_text().splitlines()]
    [large] = [row for row in rows if row["name"] == "large"]
    assert large["sha256"] == digests_by_hand(tmp_path / "out.onnx", large) and len(large["sha256"]) == 3
    for path in tmp_path.iterdir():
        path.unlink()


@pytest.mark.parametrize("command", ["convert", "conv2matmul"])
def test_tensor_digests_of_an_inline_model(weir, tmp_path, command):
    """Tensors that lie in the .onnx are listed as well, the ones that nothing touched among them."""
    out = tmp_path / "out.onnx"
    weir(command, package_model("rapidocr", "cls"), out, "--tensor-digests")
    rows = every_tensor_has_its_row(out)
    assert len(rows) > 200 and {row["file"] for row in rows} == {out.name}


def tensor_of(row, out):
    """(dtype, dims, elements) of what lies where a row says: plain elements, or the message that holds them."""
    with open(out.parent / row["file"], "rb") as file:
        file.seek(row["offset"])
        content = file.read(row["length"])
    number = getattr(onnx.TensorProto, row["dtype"].upper())
    if "encoding" in row:
        [(field, _, _, _)] = fields = wire.split(content, "Graph")
        body = content[len(fields[0][2]) :]
        _, at = wire.read_varint(body, 0)
        if row["name"].split(".")[-1].startswith("value_"):
            found = helper.get_attribute_value(onnx.AttributeProto.FromString(body[at:]))
            found = found if isinstance(found, list) else [found]
            if number != onnx.TensorProto.STRING:
                found = np.array(found, helper.tensor_dtype_to_np_dtype(number)).tobytes()
        else:
            tensor = onnx.TensorProto.FromString(body[at:])
            assert (tensor.data_type, list(tensor.dims)) == (number, row["dims"]) and not tensor.raw_data
            found = elements_of(tensor, out.parent)
        content = found
    return number, tuple(row["dims"]), tuple(content) if isinstance(content, list) else content


def elements_of(tensor, folder):
    return list(tensor.string_data) if tensor.data_type == tensor.STRING else compare.payload(tensor, folder)


def constant_lists(model):
    """What Constant nodes hold in attributes other than `value`, as (dtype, dims, elements)."""
    numbers = {"float": onnx.TensorProto.FLOAT, "int": onnx.TensorProto.INT64, "string": onnx.TensorProto.STRING}
    for node in compare.nodes(model, "Constant"):
        for each in node.attribute:
            kind = each.name.removeprefix("value_").removesuffix("s")
            if kind not in numbers:
                continue
            found = helper.get_attribute_value(each)
            dims = (len(found),) if each.name.endswith("s") else ()
            found = list(found) if dims else [found]
            if kind != "string":
                found = np.array(found, helper.tensor_dtype_to_np_dtype(numbers[kind])).tobytes()
            yield numbers[kind], dims, tuple(found) if kind == "string" else found


def every_tensor_has_its_row(out):
    rows = [json.loads(line) for line in Path(f"{out}.tensors.jsonl").read_text().splitlines()]
    model = compare.structure(out)
    want = [(each.data_type, tuple(each.dims), elements_of(each, out.parent)) for _, each in compare.tensors(model)]
    want = [(*key, tuple(found) if isinstance(found, list) else found) for *key, found in want]
    assert Counter(tensor_of(row, out) for row in rows) == Counter([*want, *constant_lists(model)])
    for row in rows:
        assert row["sha256"] == digests_by_hand(out, row), row["name"]
    assert {each.name for each in model.graph.initializer} <= {row["name"] for row in rows}
    return rows


@pytest.mark.parametrize("layout", ["--inline", "--external"])
@pytest.mark.parametrize("source", [sampler.everything, sampler.every_payload, lambda: sampler.every_payload((0, 1))])
def test_every_tensor_has_a_digest(weir, tmp_path, source, layout):
    """Whatever it is of, however it is encoded, wherever it hangs: one row, whose range holds exactly this tensor."""
    (tmp_path / "in.onnx").write_bytes(source())
    for step, name, form in (("in", "copied", "--inline"), ("in", "external", "--external"), ("external", "out", layout)):
        weir("convert", tmp_path / f"{step}.onnx", tmp_path / f"{name}.onnx", form, "--tensor-digests")
        assert len(every_tensor_has_its_row(tmp_path / f"{name}.onnx")) > 10


def test_renamed_tensors_have_digests(weir, tmp_path):
    """What is written anew because its name changed: numbers as elements, strings as the fields that hold them."""
    strings = wire.tensor("words", wire.STRING, [2], more=wire.blob(6, "one") + wire.blob(6, "two"))
    floats = wire.tensor("real", wire.FLOAT, [2], raw=bytes(range(8)))
    empty = wire.tensor("none", wire.FLOAT, [0])
    outputs = [("words.out", wire.STRING, [2]), ("real.out", wire.FLOAT, [2]), ("none.out", wire.FLOAT, [0])]
    nodes = sampler.carried(["words", "real", "none"])
    (tmp_path / "in.onnx").write_bytes(wire.model(wire.graph(nodes, [strings, floats, empty], [], outputs)))
    log, out = tmp_path / "log.jsonl", tmp_path / "out.onnx"
    weir("convert", tmp_path / "in.onnx", tmp_path / "same.onnx", "--edit-log", log)
    for number, name in enumerate(("words", "real", "none"), start=3):  # 0 to 2 are the graph's outputs
        edit = {"edit": "value.rename", "value": f"g0/v{number}:{name}", "to": f"new_{name}"}
        log.write_text(with_lines(log.read_text(), json.dumps(edit)))
    weir("replay", log, tmp_path / "in.onnx", out, "--tensor-digests")
    rows = [json.loads(line) for line in Path(f"{out}.tensors.jsonl").read_text().splitlines()]
    whole = out.read_bytes()
    held = {row["name"]: whole[row["offset"] : row["offset"] + row["length"]] for row in rows}
    assert held == {"new_words": wire.blob(6, "one") + wire.blob(6, "two"), "new_real": bytes(range(8)), "new_none": b""}
    assert [row.get("encoding") for row in rows if row["name"] == "new_words"] == ["strings"]
    for row in rows:
        assert row["sha256"] == digests_by_hand(out, row), row["name"]


def test_small_tensors_are_no_part_of_the_plan(weir, tmp_path):
    """Asking for digests changes neither plan nor outputs, so that a run may be resumed with it or without."""
    (tmp_path / "in.onnx").write_bytes(sampler.everything())
    for name, more in (("one", ()), ("two", ("--tensor-digests",))):
        (tmp_path / name).mkdir()
        weir("convert", tmp_path / "in.onnx", tmp_path / name / "out.onnx", "--plan-out", tmp_path / name / "plan", *more)
    for name in ("out.onnx", "plan", "plan.bin"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_what_is_not_there(weir, tmp_path, small_encoder):
    """The path, not a manifest, where neither is there; of a model without one how that comes."""
    assert weir("audit", tmp_path / "no.onnx", code=66).err == f"weir: error: '{tmp_path}/no.onnx' does not exist\n"
    assert "does not exist" in weir("audit", tmp_path / "no.onnx.manifest.json", code=66).err
    done = weir("audit", small_encoder, code=66)
    assert "does not exist" in done.err and "not written by weir" in done.err
    weir("convert", small_encoder, tmp_path / "out.onnx")
    (tmp_path / "out.onnx").unlink()
    assert "missing" in weir("audit", tmp_path / "out.onnx", code=1).out


# ---- how long it takes


def of_many_files(folder, n):
    """A model whose n tensors have a file each, none of which is there; its manifest, and digests per tensor that name all of them."""
    folder.mkdir()
    tensors = []
    for i in range(n):
        tensor = onnx.TensorProto(name=f"w{i}", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
        for key, value in (("location", f"f{i:06d}"), ("offset", "0"), ("length", "8")):
            tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
    nodes = [helper.make_node("Identity", [f"w{i}"], [f"o{i}"], name=f"n{i}") for i in range(n)]
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("o0", 1, [2])], tensors)
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    (folder / "m.onnx").write_bytes(content)
    zero = "0" * 64
    lines = [json.dumps({"name": f"w{i}", "file": f"f{i:06d}", "offset": 0, "length": 8, "dtype": "float", "dims": [2], "sha256": [zero]}) for i in range(n)]
    companion = "".join(line + "\n" for line in lines)
    (folder / "m.onnx.tensors.jsonl").write_text(companion)
    rows = [(f"f{i:06d}", 8, zero) for i in range(n)] + [("m.onnx", len(content), hashlib.sha256(content).hexdigest())]
    resources = [{"name": f"{name}:0:{size}", "algorithm": f"sha256-sharded-{UNIT}", "digest": digest} for name, size, digest in rows]
    ours = {"version": 1, "weir": "x", "plan_id": zero, "output": "m.onnx", "tensors_sha256": hashlib.sha256(companion.encode()).hexdigest()}
    root = hashlib.sha256(b"".join(bytes.fromhex(row["digest"]) for row in resources)).hexdigest()
    how = {"method": "shards", "hash_type": "sha256", "shard_size": UNIT, "allow_symlinks": False}
    (folder / "m.onnx.manifest.json").write_text(json.dumps({
        "_type": "https://in-toto.io/Statement/v1", "subject": [{"name": "m.onnx", "digest": {"sha256": root}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {"serialization": how, "resources": resources, "x_weir": ours}}))  # fmt: skip
    return folder / "m.onnx"


@pytest.mark.parametrize("hurt", ["whole", "damaged", "unreadable"])
@pytest.mark.parametrize("companion", [True, False], ids=["", "no digests"])
def test_twice_the_files_take_twice_the_steps(weir, tmp_path, hurt, companion):
    """None of them is there: a look at all others for each of them would be four times as many. Steps are basic blocks, counted."""
    steps = {}
    for n in (500, 1000):
        model = of_many_files(tmp_path / str(n), n)
        if hurt == "damaged":
            flip(model, model.stat().st_size - 1)
        elif hurt == "unreadable":
            flip(model, 0)
        if not companion:
            Path(f"{model}.tensors.jsonl").unlink()
        told = tmp_path / "steps"
        done = subprocess.run([built_tool("weir-steps"), "audit", model, "--json"], env={**os.environ, "WEIR_STEPS": str(told)}, capture_output=True)
        assert done.returncode == 1 and len(json.loads(done.stdout)["damage"]) == n + (hurt != "whole")
        steps[n] = int(told.read_text())
    assert n < steps[500] and steps[1000] < 2.3 * steps[500], steps


# ---- what to do about it


def test_damage_has_hints(weir, tmp_path):
    """How the files are made again, as a line that does it; and what would have named the damaged tensor alone."""
    source = DATA / "parakeet-dynamo" / "encoder-model.onnx"
    weir("convert", source, tmp_path / "in.onnx", "--inline", "--no-manifest")
    out = tmp_path / "o u t.onnx"
    weir("quantize", tmp_path / "in.onnx", out, "--data-file", "w.data")
    before = (tmp_path / "w.data").read_bytes()
    flip(tmp_path / "w.data", 1000)
    said = weir("audit", out, code=1)
    assert "and " in said.out and "more tensors" in said.out
    line = re.search(r"hint: to make the damaged files again: weir (rebuild .*)\n", said.err)[1]
    assert "with --tensor-digests, 'weir audit' names" in said.err
    again = subprocess.run(["sh", "-c", f'"$0" {line}', os.environ["WEIR"]], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0 and (tmp_path / "again" / "w.data").read_bytes() == before, again.stderr
    assert weir("audit", out, "--json", code=1).err == "" and "hint" not in weir("audit", out, "--quiet", code=1).err
    weir("quantize", tmp_path / "in.onnx", out, "--data-file", "w.data", "--force", "--tensor-digests")
    flip(tmp_path / "w.data", 1000)
    assert "--tensor-digests" not in weir("audit", out, code=1).err
