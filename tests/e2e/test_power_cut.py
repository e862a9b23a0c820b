"""A power cut at any call (ordinarily at every second, tools/test --all: at each), on three kinds of disk.

`weir-fault` is killed before its nth change to the file system, having kept a copy of every file and folder as it was at
its last sync (tests/fault/fs_shadow.h). The strict disk has those copies alone: contents, lengths and names that were
not synced are gone. The fast one had time for every name, length and small file, unit records among them, but not for
the payload of the outputs: where that was not synced there are zeros, which no record may vouch for. On the torn one
chance decides of every 512 bytes of every file that were not synced whether they are there, of its length, and whether all names are there. What stands
there under a final name has to be whole, or unfinished and known to be, and `--resume` has to end with the bytes of an
undisturbed run.
"""

import itertools
import os
import random
import shutil

import pytest

from conftest import ALL, DATA

pytestmark = pytest.mark.in_memory
SOURCE = DATA / "parakeet-dynamo" / "encoder-model.onnx"
KILLED = -9


def copies(shadow):
    """{path of a folder: [(key, is a folder, name)]} and {key of a folder: path}, as of their last syncs."""
    folders = {}
    for path in shadow.glob("*.names"):
        where, *rows = path.read_text().splitlines()
        rows = [row.split(" ", 2) for row in rows]
        folders[path.stem] = (where, [(key, kind == "d", name) for key, kind, name in rows])
    return folders


def put_together(shadow, folder, content=lambda inode, synced: synced):
    """Make the folder what the disk would hold. A file whose name was synced and whose bytes never were is empty.

    What is as it should be is not touched: a run that replaces its own input knows that by inode and times.
    """
    folders = copies(shadow)
    [root] = [key for key, (where, _) in folders.items() if where == str(folder)]
    todo = [(root, folder)]
    while todo:
        key, path = todo.pop()
        path.mkdir(exist_ok=True)
        rows = folders.get(key, ("", []))[1]
        for extra in {each.name for each in path.iterdir()} - {name for _, _, name in rows}:
            shutil.rmtree(path / extra) if (path / extra).is_dir() else (path / extra).unlink()
        for inner, is_folder, name in rows:
            if is_folder:
                todo.append((inner, path / name))
            else:
                inode, copy = inner.split("-")[0], shadow / f"{inner}.bytes"
                put_file(path / name, inode, content(inode, copy.read_bytes() if copy.exists() else b""))


def put_file(path, inode, content):
    if path.exists() and str(path.stat().st_ino) == inode and path.read_bytes() == content:
        return
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def last_sync(shadow, inode):
    kept = sorted(shadow.glob(f"{inode}-*.bytes"), key=lambda each: each.stat().st_mtime_ns)
    return kept[-1].read_bytes() if kept else b""


def lose_payload(shadow, folder):
    """Leave all as it is, but in the outputs what was not synced is zeros."""
    for path in [*folder.rglob("m.onnx"), *folder.rglob("m.onnx*data*")]:
        content, size = last_sync(shadow, path.stat().st_ino), path.stat().st_size
        content = content[:size] + bytes(max(size - len(content), 0))
        if path.read_bytes() != content:
            path.write_bytes(content)


SECTOR = 512


def torn(rng, synced, written):
    """Some sectors of the one, some of the other."""
    size, share = rng.choice([len(synced), len(written)]), rng.choice([0.1, 0.5, 0.9])
    mixed = bytearray(synced[:size].ljust(size, b"\0"))
    for at in range(0, min(size, len(written)), SECTOR):
        if rng.random() < share:
            part = written[at : min(at + SECTOR, size)]
            mixed[at : at + len(part)] = part
    return bytes(mixed)


def tear(shadow, folder):
    """Names as they are, or as they were synced; in every file any of the sectors that were not."""
    written = {str(path.stat().st_ino): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    rng = random.Random(sum(map(len, written.values())) + len(list(shadow.iterdir())))  # another one after each call

    def content(inode, synced):
        return torn(rng, synced, written[inode]) if written.get(inode, synced) != synced else synced

    if rng.random() < 0.5:
        put_together(shadow, folder, content)
        return
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            mixed = content(str(path.stat().st_ino), last_sync(shadow, path.stat().st_ino))
            if path.read_bytes() != mixed:
                path.write_bytes(mixed)


def state_of(folder):
    """What a cut may take: the size of every file, and which of its bytes are zeros."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.is_file() and path.read_bytes().count(0))
        for path in folder.rglob("*")
    }


def outputs(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def location(name):
    return b"location\x12" + bytes([len(name)]) + os.fsencode(name)


def is_passage(folder, whole):
    """Is m.onnx the new model, whole, with its data under other names for a while?"""
    content = (folder / "m.onnx").read_bytes()
    for data in [name for name in whole if "data" in name]:
        start = whole["m.onnx"].index(location(data)) + 10
        name = os.fsdecode(content[start : start + len(data)])
        if (folder / name).read_bytes() != whole[data]:
            return False
        content = content.replace(location(name), location(data))
    return content == whole["m.onnx"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode, cut",
    [
        ("fresh", lose_payload),
        ("force", put_together),
        ("inplace", lose_payload),
        ("split", put_together),
        ("force", tear),
        pytest.param("fresh", put_together, marks=pytest.mark.long),
        pytest.param("force", lose_payload, marks=pytest.mark.long),
        pytest.param("inplace", put_together, marks=pytest.mark.long),
        pytest.param("split", lose_payload, marks=pytest.mark.long),
        pytest.param("fresh", tear, marks=pytest.mark.long),
        pytest.param("inplace", tear, marks=pytest.mark.long),
        pytest.param("split", tear, marks=pytest.mark.long),
    ],
)
def test_power_cut_at_any_call(weir, weir_fault, tmp_path, mode, cut):
    out, shadow = tmp_path / "out", tmp_path / "shadow"
    model = out / "m.onnx"

    def prepare():
        for folder in (out, shadow):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        if mode != "fresh":
            weir("convert", SOURCE, model, "--quiet", *(["--split", "150K"] if mode == "split" else []))

    words = {
        "fresh": (SOURCE, model, "--tensor-digests"),
        "force": (SOURCE, model, "--force"),
        "inplace": (model, "--inplace"),
        "split": (SOURCE, model, "--force", "--split", "200K"),  # three data files take the names of four
    }[mode]
    prepare()
    before = outputs(out)
    weir("conv2matmul", *words, "--quiet")
    whole, cuts, lost = outputs(out), 0, 0

    def comes_through(fault):
        """Cut the power there. False: the run has ended before."""
        nonlocal cuts, lost
        prepare()
        env = {"WEIR_FAULT": fault, "WEIR_FAULT_SHADOW": str(shadow), "WEIR_FAULT_ROOT": str(out)}
        done = weir_fault("conv2matmul", *words, "--quiet", env=env, code=None)
        if done.code == 0:
            return False
        assert done.code == KILLED, f"{fault}: {done.said}"
        killed = state_of(out)
        cut(shadow, out)
        lost += killed != state_of(out)
        cuts += 1
        if model.exists():
            state = weir("audit", model, code=None)
            assert state.code in (0, 75), f"{fault}: {state.said}"
            known = model.read_bytes() in (before.get("m.onnx"), whole["m.onnx"])
            assert known or is_passage(out, whole), fault
        else:
            assert mode == "fresh", f"{fault}: the old model is gone"
        done = weir("conv2matmul", *words, "--quiet", "--resume", code=None)
        assert done.code == 0, f"{fault}: {done.said}"
        assert outputs(out) == whole, f"{fault}: {sorted(os.listdir(out))}"
        assert weir("audit", model).code == 0
        return True

    # Before a sync of payload there is most to lose, whichever number that call has.
    for call, step in (("fdatasync:", 1), ("", 1 if ALL else 2)):
        next(n for n in itertools.count(1, step) if not comes_through(f"kill:{call}{n}"))
    assert cuts > (40 if ALL else 20) and lost > 0, "the loop proves nothing"


def unfinished(folder):
    """The plan's folder, or None."""
    found = [path for path in folder.glob(".m.onnx.*.weir") if not path.name.endswith(".done.weir")]
    return found[0] if found else None


@pytest.mark.parametrize("command", ["plan", "shard", "finalize", "rebuild"])
def test_power_cut_of_a_plan(weir, weir_fault, tmp_path, command):
    """While it is planned, carried out, put in place or made again; what went before is on the disk. Given again, from the
    first command on that still has something to do, they end with the files of a single run."""
    out, shadow, single = tmp_path / "out", tmp_path / "shadow", tmp_path / "single"
    passes = ["--pass", "conv2matmul", "--tensor-digests"]
    single.mkdir()
    weir("run", SOURCE, single / "m.onnx", *passes)
    whole = outputs(single)
    model = out / "m.onnx"

    def call(each, run=weir, **more):
        words = {"plan": ["plan", SOURCE, model, *passes], "rebuild": ["rebuild", single / "m.onnx", "--source", SOURCE, "--write", out]}
        return run(*words.get(each, [each, unfinished(out) or out / ".m.onnx.0.weir"]), **more)

    before = {"plan": [], "shard": ["plan"], "finalize": ["plan", "shard"], "rebuild": []}[command]
    step, cuts, lost = 1 if ALL else 3, 0, 0
    for n in range(1, 500, step):
        for folder in (out, shadow):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        for each in before:
            call(each)
        env = {"WEIR_FAULT": f"kill:{n}", "WEIR_FAULT_SHADOW": str(shadow), "WEIR_FAULT_ROOT": str(out)}
        done = call(command, weir_fault, env=env, code=None)
        if done.code == 0:
            break
        assert done.code == KILLED, f"call {n}: {done.said}"
        killed = state_of(out)
        (put_together, lose_payload, tear)[n // step % 3](shadow, out)
        lost += killed != state_of(out)
        cuts += 1
        if model.exists():
            assert model.read_bytes() == whole["m.onnx"] and weir("audit", model, code=None).code in (0, 75), f"call {n}"
        for each in ["rebuild"] if command == "rebuild" else ["plan", "shard", "finalize"]:
            if each in before and unfinished(out) or model.exists() and not unfinished(out) and command != "rebuild":
                continue
            done = call(each, code=None)
            assert done.code == 0 or "exists already" in done.err, f"call {n}, {each}: {done.said}"
        assert outputs(out) == whole, f"call {n}: {sorted(os.listdir(out))}"
    assert cuts >= (2 if command == "shard" else 4) and n > step
    assert lost > 0 or command == "shard", "the loop proves nothing"


def test_what_a_shard_says_it_made_is_durable(weir, weir_fault, tmp_path):
    """A scheduler that was told 0 begins no shard again: its records and its bytes are there behind a cut, and finalize is enough."""
    out, shadow = tmp_path / "out", tmp_path / "shadow"
    for folder in (out, shadow):
        folder.mkdir()
    weir("plan", SOURCE, out / "m.onnx", "--pass", "conv2matmul")
    weir_fault("shard", unfinished(out), env={"WEIR_FAULT": "kill:1000", "WEIR_FAULT_SHADOW": str(shadow), "WEIR_FAULT_ROOT": str(out)})
    put_together(shadow, out)
    weir("finalize", unfinished(out))
    assert ": OK" in weir("audit", out / "m.onnx").out


def test_a_disk_that_lies_is_found_out(weir, weir_fault, tmp_path):
    """The control: where what was synced is lost all the same, the model is in place and damaged, and audit says so."""
    out, shadow, log = tmp_path / "out", tmp_path / "shadow", tmp_path / "log"
    words = ("conv2matmul", SOURCE, out / "m.onnx", "--quiet")
    out.mkdir()
    weir_fault(*words, env={"WEIR_FAULT_LOG": str(log)})
    calls = len(log.read_text().splitlines())
    shutil.rmtree(out)
    for folder in (out, shadow):
        folder.mkdir()
    env = {"WEIR_FAULT": f"kill:{calls}", "WEIR_FAULT_SHADOW": str(shadow), "WEIR_FAULT_ROOT": str(out)}
    weir_fault(*words, env=env, code=KILLED)
    for copy in shadow.glob(f"{(out / 'm.onnx.data').stat().st_ino}-*.bytes"):
        copy.unlink()
    lose_payload(shadow, out)
    assert "DAMAGED" in weir("audit", out / "m.onnx", code=1).out
