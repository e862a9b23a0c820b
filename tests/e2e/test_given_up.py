"""`--fresh` after a run that was killed in its seal: whatever it had in place by then, the next run that ends leaves the
files of its own model and nothing else."""

import shutil
import signal

import onnx
import pytest

import compare
from conftest import DATA, sampled
from test_damaged_staging import damage
from test_resume import staging_folders

SOURCE = DATA / "parakeet-dynamo" / "encoder-model.onnx"

# Six data files of an old model, for four of which the new one has others by the same name. The last one goes. What
# `--fresh` then makes has as many, or fewer, or none.
OLD = ["convert", "--split", "100K"]
NEW = ["conv2matmul", "--split", "150K", "--force"]
THEN = {"same": NEW, "fewer": ["conv2matmul", "--split", "400K", "--force"], "one": ["convert", "--force"], "none": ["convert", "--inline", "--force"]}


def words(what, out, *more):
    return [what[0], SOURCE, out, *what[1:], *more]


def is_sealing(folder):
    return any((each / "seal.json").exists() and ".done" not in each.name for each in staging_folders(folder))


class Killed:
    """Copies of a folder in which NEW replaced OLD, killed at every call of its seal."""

    def __init__(self, weir, weir_fault, folder, options=()):
        self.base = folder / "base"
        self.base.mkdir()
        weir(*words(OLD, self.base / "m.onnx"))
        self.options = options
        self.fault = weir_fault
        self.folder = folder
        self.files = {}
        for name, what in THEN.items():
            (folder / name).mkdir()
            weir(*words(what, folder / name / "m.onnx"))
            self.files[name] = compare.folder_bytes(folder / name)

    def at(self, number):
        """The folder after a kill at that call; None: the run had fewer."""
        here = self.folder / f"kill-{number}"
        shutil.copytree(self.base, here)
        done = self.fault(*words(NEW, here / "m.onnx", *self.options), env={"WEIR_FAULT": f"kill:{number}"}, code=None)
        assert done.code in (0, -signal.SIGKILL), done.said
        return here if done.code else None

    def everywhere(self):
        """(number, folder) of every kill with a seal to be gone on with."""
        number = 0
        while here := self.at(number := number + 1):
            if is_sealing(here):
                yield number, here
            shutil.rmtree(here)


def has_passed(here, old):
    return (here / "m.onnx").read_bytes() != old


@pytest.fixture
def killed(weir, weir_fault, quick_folder):
    return Killed(weir, weir_fault, quick_folder)


@pytest.mark.parametrize("then", THEN)
def test_nothing_is_left_of_it(weir, killed, then):
    old = (killed.base / "m.onnx").read_bytes()
    seen = set()
    for number, here in killed.everywhere():
        seen.add(has_passed(here, old))
        done = weir(*words(THEN[then], here / "m.onnx", "--fresh"))
        assert "kept" not in done.err, done.err
        assert compare.folder_bytes(here) == killed.files[then], f"killed at call {number}"
        weir("audit", here / "m.onnx")
    assert seen == {False, True}


def test_nothing_is_left_of_a_run_without_a_passage(weir, weir_fault, quick_folder):
    """Its data has other names, since a copy of the old .onnx uses the old ones: those stay, the copy needs them."""
    for folder in ("base", "none"):
        (quick_folder / folder).mkdir()
        weir(*words(OLD, quick_folder / folder / "m.onnx"))
        shutil.copy(quick_folder / folder / "m.onnx", quick_folder / folder / "copy.onnx")
    weir(*words(THEN["none"], quick_folder / "none" / "m.onnx"))
    files = compare.folder_bytes(quick_folder / "none")
    old, seen = files["copy.onnx"], set()
    for number in range(1, 200):
        here = quick_folder / f"kill-{number}"
        shutil.copytree(quick_folder / "base", here)
        if weir_fault(*words(NEW, here / "m.onnx"), env={"WEIR_FAULT": f"kill:{number}"}, code=None).code == 0:
            break
        if is_sealing(here):
            seen.add(has_passed(here, old))
            weir(*words(THEN["none"], here / "m.onnx", "--fresh"))
            assert compare.folder_bytes(here) == files, f"killed at call {number}"
        shutil.rmtree(here)
    assert seen == {False, True}


def test_where_a_copy_stands_in_for_a_link(weir, killed):
    """On a file system without hard links the second name of the new data is another file."""
    copies = 0
    for number, here in killed.everywhere():
        for path in here.iterdir():
            if path.is_file() and path.stat().st_nlink == 2:
                content = path.read_bytes()
                path.unlink()
                path.write_bytes(content)
                copies += 1
        weir(*words(THEN["none"], here / "m.onnx", "--fresh"))
        assert compare.folder_bytes(here) == killed.files["none"], f"killed at call {number}"
    assert copies > 0


def test_a_second_kill_forgets_nothing(weir, weir_fault, killed):
    """The run with `--fresh` is killed as well, while it ends the first one or in its own seal."""
    seen = set()
    for number, here in killed.everywhere():
        again = words(THEN["none"], here / "m.onnx")
        kill = {"WEIR_FAULT": f"kill:renameat2:{number % 10 + 1}"}
        if weir_fault(*again, "--fresh", env=kill, code=None).code != 0:
            seen.add((is_sealing(here), code := weir(*again, code=None).code))
            if code == 75:
                weir(*again, "--fresh")
        for left in staging_folders(here):  # of the first one, emptied and dead
            assert {path.name for path in left.iterdir()} <= {"lock", "lock.tmp"}
            weir("clean", here, "--yes")
        assert compare.folder_bytes(here) == killed.files["none"], f"killed at call {number}"
    assert seen == {(False, 0), (True, 0), (True, 75)}


def test_of_the_input_itself(weir, weir_fault, quick_folder):
    """`--inplace`: behind the commit point the new model is the input, under the names that it was to have."""
    base = quick_folder / "base"
    weir(*words(OLD, base / "m.onnx"))
    weir("conv2matmul", base / "m.onnx", quick_folder / "m.onnx", "--inline")
    old, whole, seen = (base / "m.onnx").read_bytes(), (quick_folder / "m.onnx").read_bytes(), set()
    for number in range(1, 200):
        here = quick_folder / f"kill-{number}"
        shutil.copytree(base, here)
        run = ["conv2matmul", here / "m.onnx", "--inplace", "--split", "150K"]
        if weir_fault(*run, env={"WEIR_FAULT": f"kill:{number}"}, code=None).code == 0:
            break
        if is_sealing(here):
            seen.add(has_passed(here, old))
            weir(*run[:3], "--inline", "--fresh")
            assert sorted(each.name for each in here.iterdir()) == ["m.onnx", "m.onnx.manifest.json"]
            assert (here / "m.onnx").read_bytes() == whole
        shutil.rmtree(here)
    assert seen == {False, True}


@pytest.mark.parametrize("name, how", sampled(["m.onnx", "m.onnx.manifest.json", "a data file"], ["cut", "flipped"], every=2))
def test_what_is_damaged_gets_no_name(weir, killed, name, how):
    """Behind the commit point a file that was to be moved is damaged: nothing in use goes, and what may be left is
    named. The .onnx that is in place is the one of the passage then, and stays if the next run comes to nothing."""
    old, seen = (killed.base / "m.onnx").read_bytes(), 0
    for number, here in killed.everywhere():
        [staging] = staging_folders(here)
        staged = sorted(staging.glob("m.onnx_data*" if name == "a data file" else name))
        if not has_passed(here, old) or not staged:
            continue
        was = {each.name for each in here.iterdir() if each != staging}
        model = (here / "m.onnx").read_bytes()
        linked = staged[0].stat().st_nlink == 2  # then the model in place uses these very bytes
        damage(staged[0], how)
        done = weir("convert", here / "nowhere.onnx", here / "m.onnx", *THEN["none"][1:], "--fresh", code=66)
        assert (how == "flipped" and linked) or (here / "m.onnx").read_bytes() == model
        said = done.err + weir(*words(THEN["none"], here / "m.onnx", "--fresh")).err
        left = {each.name for each in here.iterdir()} - set(killed.files["none"])
        assert all(f"'{each}' (" in said for each in left), (left, said)
        assert left <= was and ("the interrupted run's files are damaged" in said or not left)
        weir("audit", here / "m.onnx")
        seen += bool(left)
    assert (seen > 0) == (name != "a data file" or how == "cut")


# ---- what `weir clean` says before


def unused(here):
    """Data files that the .onnx does not name."""
    graph = onnx.load(here / "m.onnx", load_external_data=False).graph if (here / "m.onnx").exists() else onnx.GraphProto()
    used = {entry.value for t in graph.initializer for entry in t.external_data if entry.key == "location"}
    return {each.name for each in here.iterdir() if each.is_file() and not each.name.startswith("m.onnx.manifest")} - used - {"m.onnx"}


def listed(weir, here):
    [row] = weir("clean", here, "--json").json()["found"]
    for each in row["data_files"]:
        assert each["bytes"] == (here / each["name"]).stat().st_size
    return {each["name"] for each in row["data_files"]}


@pytest.mark.parametrize("json", ["whole", "damaged"])
def test_clean_names_what_is_in_place_and_not_used(weir, killed, json):
    """Under the names of a passage, under its own, and of the old model: exactly those, and all of them stay."""
    (killed.base / "m.onnz_data_1").write_bytes(b"a stranger")
    seen, passages = 0, 0
    for number, here in killed.everywhere():
        [staging] = staging_folders(here)
        found = unused(here) - {"m.onnz_data_1"}
        if json == "damaged":  # then what was to be removed is not known any more
            damage(staging / "seal.json", "flipped")
            found -= {"m.onnx_data_4", "m.onnx_data_5"}
        assert listed(weir, here) == found, f"killed at call {number}"
        seen += len(found) > 0
        passages += any(name.startswith("m.o") and not name.startswith("m.onnx") for name in found)
        said = weir("clean", here, "--yes").out
        assert all(f"{name} (" in said for name in found) and found <= {each.name for each in here.iterdir()}
        assert ("in place already, but not used by a model: " in said) == bool(found)
    assert seen > passages > 5


def test_clean_names_data_of_a_run_that_was_not_to_be_known(weir, weir_fault, quick_folder):
    """Its seal.json is gone, so its folder may be removed; data with its name and size stays, another file is not meant."""
    weir(*words(NEW, quick_folder / "whole" / "m.onnx"))
    moves = 0
    for number in range(1, 100):
        here = quick_folder / f"kill-{number}"
        here.mkdir()
        done = weir_fault(*words(NEW, here / "m.onnx"), env={"WEIR_FAULT": f"kill:renameat2:{number}"}, code=None)
        if done.code == 0:
            break
        if is_sealing(here) and not (here / "m.onnx").exists():
            [staging] = staging_folders(here)
            (staging / "seal.json").unlink()
            found = unused(here)
            assert listed(weir, here) == found
            moves += bool(found)
            for name in list(found)[:1]:
                damage(here / name, "cut")
                assert listed(weir, here) == found - {name}
            said = weir("clean", here, "--yes").out
            assert "removed 1 interrupted run" in said and {each.name for each in here.iterdir()} == found
            assert ("it may have left these data files, which no model uses: " in said) == (len(found) > 1)
    assert moves > 2
