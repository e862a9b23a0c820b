"""What lies in a staging folder between a kill and the run that goes on: damaged, replaced, or put there by others.

Whatever it is, the output is the one of a run that nobody disturbed, or there is a refusal that names the file; no file
outside of the folder is ever written to, nothing waits for ever, and `--fresh` or a hand at the named file is a way on.
"""

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess

import onnx
import pytest

import compare
from conftest import as_user, before_record, program, sampled
from test_resume import Running, Setting, command, count_log, half_sealed, staging_folders

WAIT = 60
DAMAGES = ["flipped", "cut", "longer", "replaced", "missing", "empty"]


def damage(path, how):
    content = path.read_bytes() if path.exists() else b""
    if how == "flipped":
        middle = len(content) // 2
        content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    elif how == "cut":
        content = content[: max(len(content) * 2 // 3, 1)]
    elif how == "longer":
        content += b"more"
    elif how == "replaced":
        content = bytes(len(content))
    elif how == "empty":
        content = b""
    if how == "missing":
        path.unlink()
    elif how == "replaced":  # by another file, as a tool that copies does
        path.unlink()
        path.write_bytes(content)
    else:
        path.write_bytes(content)


# ---- with units unfinished


@pytest.fixture(scope="module")
def killed(weir, weir_fault, large_folder, one_layer):
    """A run with two of three units recorded, killed; and the files that it should have ended with."""
    folder = large_folder / "killed"
    (folder / "left").mkdir(parents=True)
    (folder / "whole").mkdir()
    weir(*command(one_layer, folder / "whole"))
    words = command(one_layer, folder / "left")
    weir_fault(*words, env={"WEIR_FAULT": f"kill:{before_record(3)}"}, code=-signal.SIGKILL)
    return folder


def copy_of(killed, one_layer, folder):
    """The killed run, as if it had been in `folder`: (staging folder, words that go on). Times and names stay."""
    shutil.copytree(killed / "left", folder / "out", copy_function=shutil.copy2)
    [staging] = staging_folders(folder / "out")
    return staging, command(one_layer, folder / "out")


def assert_whole(killed, folder):
    found = compare.folder_bytes(folder)
    whole = compare.folder_bytes(killed / "whole")
    assert sorted(found) == sorted(whole)
    assert found == whole


@pytest.mark.in_memory
@pytest.mark.parametrize("name, how", sampled(["out.onnx.data", "out.onnx", "records.0", "header.json", "plan.json", "plan.bin", "lock"], DAMAGES, every=3))
def test_damage_with_units_unfinished(weir, killed, one_layer, tmp_path, name, how):
    """Units that are not what their record says are made again; the rest is doubted as well."""
    staging, words = copy_of(killed, one_layer, tmp_path)
    damage(staging / name, how)
    done = weir(*words, "--json", code=None)
    assert done.code in (0, 2), done.said
    if done.code == 2:  # the version in the header is another one now
        assert name == "header.json" and staging.name in done.err and "--fresh" in done.err
        weir(*words, "--fresh")
    assert_whole(killed, tmp_path / "out")
    weir("audit", tmp_path / "out" / "out.onnx")
    if name == "out.onnx.data" and how == "flipped":
        assert done.json()["weir"]["units_resumed"] == 1
        assert "1 of the 64 MiB units that an interrupted run had written has changed since and will be rewritten" in done.err
    shutil.rmtree(tmp_path)


def test_without_damage_all_is_taken_over(weir, killed, one_layer, tmp_path):
    """What the tests above would not show: that something is taken over at all."""
    staging, words = copy_of(killed, one_layer, tmp_path)
    assert weir(*words, "--json").json()["weir"]["units_resumed"] == 2
    assert_whole(killed, tmp_path / "out")
    shutil.rmtree(tmp_path)


# ---- in the middle of a seal


@pytest.mark.parametrize("name, how", sampled(["model.onnx.data", "model.onnx", "model.onnx.manifest.json", "model.onnx.tensors.jsonl", "seal.json", "header.json"], DAMAGES, every=2))
def test_damage_in_the_middle_of_a_seal(weir, weir_fault, quick_folder, name, how):
    """Before anything more gets its name, all of it is compared with what was written; also what is in place."""
    setting = Setting(weir, "fresh", quick_folder)
    setting.words = lambda folder, words=setting.words: [*words(folder), "--tensor-digests"]
    whole = setting.make(quick_folder / "whole")
    weir(*setting.words(whole))
    here = half_sealed(weir_fault, setting, quick_folder)
    [staging] = staging_folders(here / "out")
    path = staging / name if (staging / name).exists() else here / "out" / name
    assert (path.parent == staging) == (name != "model.onnx.data"), "its data file is in place already"
    damage(path, how)
    before = sorted(each.name for each in (here / "out").iterdir())
    done = weir(*setting.words(here), "--resume", code=None)
    harmless = name == "header.json"  # no more than a word on how to go on, and whose version it is
    gone = name == "seal.json" and how == "missing"  # then it is as if it had not begun to seal
    assert done.code in ((0, 2) if harmless else (0,) if gone else (66,)), done.said
    if done.code != 0:
        assert (name in done.err or staging.name in done.err) and "--fresh" in done.err, done.err
        assert sorted(each.name for each in (here / "out").iterdir()) == before, "something was moved"
        weir(*setting.words(here), "--fresh")
    weir("audit", here / "out" / "model.onnx")
    assert setting.state(here) == "new"
    if name not in ("seal.json", "model.onnx.data"):  # where the data file got another name
        assert compare.folder_bytes(here / "out") == compare.folder_bytes(whole / "out")


def sealing(weir_fault, setting, folder):
    """A copy for every call behind the first rename of the seal, at which the run was killed."""
    log = count_log(weir_fault, setting, folder)
    first = next(i for i, (call, _) in enumerate(log) if call in ("renameat2", "linkat"))
    for number in range(first + 1, len(log) + 1):
        here = setting.make(folder / f"kill-{number}")
        weir_fault(*setting.words(here), env={"WEIR_FAULT": f"kill:{number}"}, code=-signal.SIGKILL)
        target = setting.target(here).parent
        if any((staging / "seal.json").exists() and ".done" not in staging.name for staging in staging_folders(target)):
            yield here
        shutil.rmtree(here)


@pytest.mark.parametrize("how, plan", sampled(["fresh", "force", "inplace"], ["whole", "damaged"], every=2))
def test_fresh_with_a_damaged_seal_keeps_all_and_names_what_is_left(weir, weir_fault, quick_folder, how, plan):
    """Wherever it was killed: what no model uses afterwards was named, a stranger of the same size was not, and no
    file went that was there before."""
    setting = Setting(weir, how, quick_folder)
    found = set()
    for here in sealing(weir_fault, setting, quick_folder):
        folder = setting.target(here).parent
        [staging] = staging_folders(folder)
        size = setting.files["model.onnx.data"]
        (folder / "model.o00000000").write_bytes(b"x" * len(size))  # as a passage may be called, by another plan
        for name in ["seal.json"] + ["plan.json"] * (plan == "damaged"):
            damage(staging / name, "flipped")
        was = {each.name for each in folder.iterdir() if each != staging}
        exists = setting.target(here).exists() and how == "fresh"
        if exists:
            refused = weir(*setting.words(here), "--fresh", code=75)
            assert "--fresh --force replaces it" in refused.err
        done = weir(*setting.words(here), "--fresh", *(["--force"] if exists else []), code=None)
        said = done.err
        if done.code == 77:  # the input is the new model, halfway from one name of its data to the other
            assert how == "inplace" and "is a hard link" in said
            said += weir(*setting.words(here), "--allow-links").err
        else:
            assert done.code == 0, said
        assert was <= {each.name for each in folder.iterdir()} and not staging.exists()
        assert compare.canonical(setting.target(here)) == setting.new
        used = {entry.value for t in onnx.load(setting.target(here), load_external_data=False).graph.initializer
                for entry in t.external_data if entry.key == "location"}  # fmt: skip
        left = {each.name for each in folder.iterdir()} - used - {"model.onnx", "model.onnx.manifest.json", "model.o00000000"}
        if plan == "whole":
            assert all(f"'{name}' (" in said for name in left), (left, said)
        else:
            assert "'seal.json' and plan are damaged" in said
        assert "model.o00000000" not in said
        found |= left
    assert len(found) > 0, "nothing was ever left over"


def test_without_damage_the_seal_is_completed(weir, weir_fault, quick_folder):
    setting = Setting(weir, "fresh", quick_folder)
    here = half_sealed(weir_fault, setting, quick_folder)
    assert "completed the interrupted run" in weir(*setting.words(here)).err
    assert compare.folder_bytes(here / "out") == setting.files


def test_a_seal_is_not_completed_over_another_input(weir, weir_fault, quick_folder):
    """The same command, but its input is another file by now: the user is asked."""
    setting = Setting(weir, "fresh", quick_folder)
    here = half_sealed(weir_fault, setting, quick_folder)
    source = here / "in" / "model.onnx"
    content = source.read_bytes()
    source.unlink()
    source.write_bytes(content)
    assert "--fresh discards it" in weir(*setting.words(here), code=75).err
    weir(*setting.words(here), "--fresh")
    assert compare.folder_bytes(here / "out") == setting.files


def test_fresh_gives_no_output_up_that_may_not_be_replaced(weir, weir_fault, quick_folder):
    """The new model is in place, its manifest is not: without --force that is completed or left as it is."""
    setting = Setting(weir, "fresh", quick_folder)
    log = [name for call, name in count_log(weir_fault, setting, quick_folder) if call == "renameat2"]
    here = setting.make(quick_folder / "late")
    last = len(log) - log[::-1].index("model.onnx.manifest.json")
    weir_fault(*setting.words(here), env={"WEIR_FAULT": f"kill:renameat2:{last}"}, code=-signal.SIGKILL)
    assert setting.state(here) == "new" and staging_folders(here / "out")
    weir(*setting.words(here), "--fresh", code=75)
    weir(*setting.words(here))
    assert compare.folder_bytes(here / "out") == setting.files


# ---- put there by others

THESIS = b"a thesis\n" * 1000


KINDS = ["hard link", "symbolic link", "FIFO", "folder"]


def put(kind, path, elsewhere):
    """Something that weir did not make, under a name where it has a file of its own."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "hard link":
        os.link(elsewhere, path)
    elif kind == "symbolic link":
        path.symlink_to(elsewhere)
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
        (path / "a").write_bytes(THESIS)


PLACES = [
    "lock",
    "header.json",
    "plan.json",
    "plan.bin",
    "records.0",
    "records.1",
    "out.onnx",
    "out.onnx.data",
    "out.onnx.tensors.jsonl",
    "out.onnx.manifest.json.tmp",
    "header.json.tmp",
    "seal.json",
    "seal.json.tmp",
    "report.json",
    "artifacts",
    "statistics",
]


def bounded(words):
    """(exit code, what was said) of a run that must not wait for somebody to open the other end."""
    done = subprocess.run([program("WEIR"), *map(os.fspath, words)], capture_output=True, text=True, timeout=WAIT)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.in_memory
@pytest.mark.parametrize("name, kind", sampled(PLACES, KINDS, every=2))
def test_what_others_put_there(weir, killed, one_layer, tmp_path, name, kind):
    """Going on is refused by name, nobody's file is touched, nothing waits; clean removes what is weir's."""
    if (name, kind) == ("artifacts", "folder"):
        pytest.skip("weir makes one itself")
    staging, words = copy_of(killed, one_layer, tmp_path)
    elsewhere = tmp_path / "thesis"
    elsewhere.write_bytes(THESIS)
    put(kind, staging / name, elsewhere)
    words = [*words, "--tensor-digests", "--report-json", tmp_path / "report.json"]
    dry, said = bounded([*words, "--dry-run"])
    code, said = bounded(words)
    assert elsewhere.read_bytes() == THESIS
    if name == "seal.json":
        assert dry == code == 75, said
        code, said = bounded([*words, "--resume"])
    assert code == 77 and name in said and (dry == code or name == "seal.json"), (dry, said)
    assert not (tmp_path / "out" / "out.onnx").exists()
    for left in (False, True):  # twice: what stays is said again
        code, said = bounded(["clean", tmp_path / "out", "--yes"])
        assert elsewhere.read_bytes() == THESIS
        kept = kind == "folder" and name != "artifacts"
        if kept and name != "seal.json":
            assert code == 77 and name in said and "did not create" in said, said
            assert (staging / name / "a").read_bytes() == THESIS
        elif name != "seal.json":
            assert code == 0 and not staging.exists(), said
    shutil.rmtree(tmp_path)


@pytest.mark.in_memory
@pytest.mark.parametrize("name, kind", sampled([place for place in PLACES if place not in ("lock", "seal.json")], KINDS, every=3))
def test_fresh_replaces_what_others_put_there(weir, killed, one_layer, tmp_path, name, kind):
    staging, words = copy_of(killed, one_layer, tmp_path)
    elsewhere = tmp_path / "thesis"
    elsewhere.write_bytes(THESIS)
    put(kind, staging / name, elsewhere)
    code, said = bounded([*words, "--fresh"])
    assert elsewhere.read_bytes() == THESIS
    if kind == "folder" and name != "artifacts":
        assert code == 77 and name in said and (staging / name / "a").read_bytes() == THESIS, said
    else:
        assert code == 0, said
        assert_whole(killed, tmp_path / "out")
    shutil.rmtree(tmp_path)


def test_clean_goes_on_behind_what_it_cannot_remove(weir, tmp_path):
    """One of three holds somebody's folder: the others go, and that one is said."""
    for i, letter in enumerate("abc"):
        staging = tmp_path / f".{letter}.onnx.{i:016x}.weir"
        staging.mkdir()
        (staging / f"{letter}.onnx").write_bytes(b"begun")
    other = tmp_path / f".b.onnx.{1:016x}.weir" / "b.onnx.data"
    other.mkdir()
    (other / "thesis").write_bytes(THESIS)
    assert "3 interrupted runs (" in weir("clean", tmp_path).out
    done = weir("clean", tmp_path, "--yes", code=77)
    assert "'b.onnx.data' in '.b.onnx.0000000000000001.weir' is a folder that weir did not create" in done.err
    assert done.out.count("  removed") == 2 and "removed 2 interrupted runs (" in done.out
    assert (other / "thesis").read_bytes() == THESIS
    assert [path.name for path in staging_folders(tmp_path)] == [other.parent.name]
    shutil.rmtree(other)
    assert "removed 1 interrupted run (" in weir("clean", tmp_path, "--yes").out
    assert "no interrupted runs in " in weir("clean", tmp_path).out


def test_clean_while_a_run_is_active(weir, tmp_path, one_layer):
    with Running(command(one_layer, tmp_path), before_record(2)) as run:
        assert "nothing removed (the run is still active)" in weir("clean", tmp_path, "--yes").out
        assert "nothing can be removed now (the run is still active)" in weir("clean", tmp_path).out
        code, err = run.end()
    assert code == 0, err
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o666])
def test_a_lock_of_another_user_is_a_lock(weir, killed, one_layer, tmp_path, mode):
    """Who may remove what others left must not remove what they are at: as root, and as one of the same group."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    staging, words = copy_of(killed, one_layer, tmp_path)
    before = compare.folder_bytes(staging)
    for path in (tmp_path / "out", staging):
        path.chmod(0o777)
    os.chown(staging / "lock", 12345, 12345)
    (staging / "lock").chmod(mode)
    clean = ["clean", tmp_path / "out", "--yes"]
    with open(staging / "lock") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert "still active" in weir(*clean).out
        if user := as_user(tmp_path, staging):
            other = subprocess.run([*user, *map(os.fspath, clean)], capture_output=True, text=True)
            assert "still active" in other.stdout, other
        assert compare.folder_bytes(staging) == before
    weir(*clean)
    assert not staging.exists()
    shutil.rmtree(tmp_path)


def test_commands_in_hints_are_quoted(weir, small_encoder, tmp_path):
    """Both the one that goes on and the one that removes."""
    folder = tmp_path / "it's a place"
    folder.mkdir()
    with Running(command(small_encoder, folder), "sigaction:3") as run:
        run.send_signal("SIGTERM")
        code, err = run.end()
    assert code == -signal.SIGTERM
    lines = [line.strip() for line in err.splitlines()]
    [go_on] = [shlex.split(line)[1:] for line in lines if line.startswith("continue: ")]
    [discard] = [shlex.split(line)[1:] for line in lines if line.startswith("discard: ")]
    assert go_on == ["weir", *map(os.fspath, command(small_encoder, folder))]
    assert discard == ["weir", "clean", os.fspath(folder), "--yes"]
    weir(*discard[1:])
    assert list(folder.iterdir()) == []
    weir(*go_on[1:])


def test_a_staging_folder_of_another_user(weir, small_encoder, tmp_path):
    """Who owns it could change what is written: made beforehand under the name that the run would give it."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    plan = weir("conv2matmul", small_encoder, tmp_path / "out.onnx", "--dry-run", "--json").json()["weir"]["plan_id"]
    folder = tmp_path / f".out.onnx.{plan[:16]}.weir"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    done = weir("conv2matmul", small_encoder, tmp_path / "out.onnx", code=77)
    assert folder.name in done.err and "belongs to another user" in done.err
    assert list(folder.iterdir()) in ([], [folder / "lock"])
    os.chown(folder, 0, 0)
    weir("conv2matmul", small_encoder, tmp_path / "out.onnx")


def test_staged_files_of_another_user(weir, killed, one_layer, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    staging, words = copy_of(killed, one_layer, tmp_path)
    os.chown(staging / "out.onnx.data", 65534, 65534)
    done = weir(*words, code=77)
    assert "'out.onnx.data'" in done.err and "belongs to another user" in done.err
    weir(*words, "--fresh")
    assert_whole(killed, tmp_path / "out")
    shutil.rmtree(tmp_path)


# ---- of another version


def set_header(staging, **members):
    header = json.loads((staging / "header.json").read_text())
    for name, value in members.items():
        header.pop(name) if value is None else header.update({name: value})
    (staging / "header.json").write_text(json.dumps(header))


OTHERS = {
    "0.1.0": ({"weir_staging": 1, "version": None}, "weir 0.1.0"),
    "later": ({"version": "9.8.7"}, "weir 9.8.7"),
    "other form": ({"weir_staging": 77}, "another build of weir"),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("options", [[], ["--resume"], ["--dry-run"]], ids=["again", "resume", "dry-run"])
def test_another_version_left_it(weir, killed, one_layer, tmp_path, other, options):
    """Never mixed: refused with the ways out, and each of them is one."""
    members, who = OTHERS[other]
    staging, words = copy_of(killed, one_layer, tmp_path)
    set_header(staging, **members)
    before = compare.folder_bytes(staging)
    done = weir(*words, *options, code=2)
    assert f"was left by {who}; this is weir " in done.err and "--fresh" in done.err, done.err
    after = compare.folder_bytes(staging)
    assert {name: after[name] for name in after if name != "lock"} == {name: before[name] for name in before if name != "lock"}
    if options:
        weir("clean", tmp_path / "out", "--yes")
        assert not staging.exists()
        weir(*words)
    else:
        weir(*words, "--fresh")
    assert_whole(killed, tmp_path / "out")
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("other", OTHERS)
def test_another_version_began_the_seal(weir, weir_fault, quick_folder, other):
    members, who = OTHERS[other]
    setting = Setting(weir, "fresh", quick_folder)
    here = half_sealed(weir_fault, setting, quick_folder)
    [staging] = staging_folders(here / "out")
    set_header(staging, **members)
    done = weir(*setting.words(here), "--resume", code=2)
    assert f"was left by {who}" in done.err
    weir(*setting.words(here), code=75)
    weir(*setting.words(here), "--fresh")
    assert compare.folder_bytes(here / "out") == setting.files


def test_another_version_measured(weir, weir_fault, small_encoder, quick_folder):
    """What a stage of another version found is not taken over either."""
    words = ["quantize", small_encoder, quick_folder / "q.onnx", "--candidates", "4:32,8:32", "--budget", "10GB"]
    weir_fault(*words, env={"WEIR_FAULT": "kill:fallocate:1"}, code=-signal.SIGKILL)
    for staging in staging_folders(quick_folder):
        set_header(staging, version="9.8.7")
    done = weir(*words, code=2)
    assert "was left by weir 9.8.7" in done.err
    said = weir(*words, "--fresh").err
    assert "took over" not in said
    weir("audit", quick_folder / "q.onnx")


# ---- with all in place


def test_a_kill_after_the_last_rename(weir, weir_fault, small_encoder, tmp_path):
    """The output is whole, and only its folder is left: the same command takes it away and says so, and so does `clean` without --yes."""
    log = tmp_path / "log"
    (tmp_path / "counted").mkdir()
    weir_fault(*command(small_encoder, tmp_path / "counted"), env={"WEIR_FAULT_LOG": os.fspath(log)})
    calls = log.read_text().splitlines()
    [last] = [n for n, call in enumerate(calls, start=1) if call.endswith(" sealed.json") and "renameat2" in call]
    whole = compare.folder_bytes(tmp_path / "counted")
    codes = set()
    for n in (last + 1, last + 2, len(calls)):
        for way in ("again", "forced", "cleaned"):
            folder = tmp_path / f"{way}{n}"
            folder.mkdir()
            weir_fault(*command(small_encoder, folder), env={"WEIR_FAULT": f"kill:{n}"}, code=-signal.SIGKILL)
            assert len(staging_folders(folder)) == 1
            if way == "cleaned":
                done = weir("clean", folder)
                assert "removed" in done.out and "interrupted runs in" in done.out
            else:
                done = weir(*command(small_encoder, folder), *(["--force"] if way == "forced" else []), code=None)
                assert ("is in place" in done.err) and done.code in (0, 2), done.said
                codes.add(done.code if way == "again" else None)
            assert compare.folder_bytes(folder) == whole
    assert codes == {0, 2, None}


def calls_of(weir_fault, words, log):
    weir_fault(*words, env={"WEIR_FAULT_LOG": os.fspath(log)})
    return log.read_text().splitlines()


def call_that(calls, *endings):
    """The number of the last call whose line has all of these."""
    return [n for n, call in enumerate(calls, start=1) if all(ending in call for ending in endings)][-1]


def kill_at(weir_fault, words, call, code=-signal.SIGKILL):
    weir_fault(*words, env={"WEIR_FAULT": f"kill:{call}"}, code=code)


def test_given_up_and_killed(weir, weir_fault, small_encoder, tmp_path):
    """A seal that was begun is given up, and that is killed too: nobody takes the output as being in place."""
    words = command(small_encoder, tmp_path / "counted")
    (tmp_path / "counted").mkdir()
    calls = calls_of(weir_fault, words, tmp_path / "log")
    sealing = call_that(calls, "renameat2 seal.json") + 2  # seal.json is there, and no file has its name
    for n in range(1, 9):
        folder = tmp_path / str(n)
        folder.mkdir()
        words = command(small_encoder, folder)
        kill_at(weir_fault, words, sealing)
        kill_at(weir_fault, [*words, "--fresh"], n)
        done = weir(*words, code=None)
        assert done.code == 0 and (folder / "out.onnx").exists(), (n, done.said)
        assert ": OK" in weir("audit", folder / "out.onnx").out
        assert compare.folder_bytes(folder) == compare.folder_bytes(tmp_path / "counted")


def test_changed_after_the_last_rename(weir, weir_fault, small_encoder, tmp_path):
    """Each call from sealed.json on: where the output is not what was made, the command with --resume does not say that it is in place."""
    (tmp_path / "counted").mkdir()
    calls = calls_of(weir_fault, command(small_encoder, tmp_path / "counted"), tmp_path / "log")
    for n in range(call_that(calls, " sealed.json", "renameat2") + 1, len(calls) + 1):
        folder = tmp_path / str(n)
        folder.mkdir()
        kill_at(weir_fault, command(small_encoder, folder), n)
        whole = (folder / "out.onnx").read_bytes()
        (folder / "out.onnx").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        done = weir(*command(small_encoder, folder), "--resume", code=2)
        assert "is in place" not in done.err.replace("whose output is in place", "") and "exists" in done.err
        assert staging_folders(folder) == []
        shutil.rmtree(folder)


def test_two_at_the_end(weir, weir_fault, small_encoder, tmp_path):
    """One is stopped before the folder, which has no lock any more, gets its last name; another one removes it and makes its own."""
    words = [*command(small_encoder, tmp_path), "--force"]
    weir(*words)
    renames = [call for call in calls_of(weir_fault, words, tmp_path / "log") if "renameat2" in call]
    with Running(words, f"renameat2:{call_that(renames, '.done.weir')}") as first:
        with Running(words, "fdatasync:2") as second:
            first.send_signal("SIGCONT")
            assert first.process.wait(WAIT) == 0
            [made] = staging_folders(tmp_path)
            assert not made.name.endswith(".done.weir")
            second.send_signal("SIGCONT")
            assert second.process.wait(WAIT) == 0
    assert staging_folders(tmp_path) == [] and ": OK" in weir("audit", tmp_path / "out.onnx").out


def test_more_than_one_finished(weir, small_encoder, tmp_path):
    words = command(small_encoder, tmp_path)
    weir(*words)
    for number in range(5):
        (tmp_path / f".out.onnx.{number:016x}.weir").mkdir()
        (tmp_path / f".out.onnx.{number:016x}.weir" / "sealed.json").write_text("{}")
    weir(*words, "--force")
    assert staging_folders(tmp_path) == []
