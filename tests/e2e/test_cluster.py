"""One plan carried out by several processes: the bytes of a single run, whoever made which units, however often and in
whatever order, and through kills, signals, damage and other people's files."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import AHEAD, ALL, MANY_UNITS, program
from test_documents import is_valid
from test_resume import Running

PASSES = ["--pass", "conv2matmul", "--tensor-digests"]
RECORD_2 = "write:2"  # a member writes nothing through that table but records
UNITS = 8  # of the medium encoder, as conv2matmul leaves it
SCHEDULED = {  # a member's environment: third of four
    "Slurm": {"SLURM_ARRAY_TASK_ID": "12", "SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_MAX": "13"},
    "Slurm with a step": {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "7", "SLURM_ARRAY_TASK_STEP": "2"},
    "Kubernetes": {"JOB_COMPLETION_INDEX": "2"},
    "AWS Batch": {"AWS_BATCH_JOB_ARRAY_INDEX": "2", "AWS_BATCH_JOB_ARRAY_SIZE": "4"},
    "PBS": {"PBS_ARRAY_INDEX": "2"},
    "Torque": {"PBS_ARRAYID": "2"},
    "LSF": {"LSB_JOBINDEX": "3", "LSB_JOBINDEX_END": "4"},
    "Grid Engine": {"SGE_TASK_ID": "3", "SGE_TASK_FIRST": "1", "SGE_TASK_LAST": "4", "SGE_TASK_STEPSIZE": "1"},
    "Open MPI": {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"},
    "MPI": {"PMI_RANK": "2", "PMI_SIZE": "4"},
    "srun": {"SLURM_PROCID": "2", "SLURM_NTASKS": "4"},
    "no array of LSF": {"LSB_JOBINDEX": "0", "PMI_RANK": "2", "PMI_SIZE": "4"},
    "no array of Grid Engine": {"SGE_TASK_ID": "undefined", "PMI_RANK": "2", "PMI_SIZE": "4"},
}


def plan_of(weir, model, folder, *more):
    said = weir("plan", model, folder / "out.onnx", *PASSES, *more, "--json").json()["weir"]
    return folder / said["staged"].rsplit("/", 1)[-1]


def state(weir, plan):
    return weir("status", plan, "--json").json()


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def single(weir, medium_encoder, large_folder):
    """What a run in one process writes; its files are compared by `is_single`."""
    folder = large_folder / "single"
    weir("run", medium_encoder, folder / "out.onnx", *PASSES)
    yield folder
    shutil.rmtree(folder)


def is_single(folder, single):
    names = sorted(path.name for path in single.iterdir())
    assert sorted(path.name for path in folder.iterdir()) == names
    for name in names:
        assert subprocess.run(["cmp", folder / name, single / name], capture_output=True).returncode == 0, name


@pytest.mark.parametrize(
    "shards, order, options",
    [
        pytest.param(1, [0], [], marks=pytest.mark.long),
        (2, [1, 0], ["--jobs", "1", "--io", "sync"]),
        (3, [2, 0, 1, 1], ["--jobs", "2"]),
        pytest.param(7, range(7), ["--jobs", "5"], marks=pytest.mark.long),
        pytest.param(64, reversed(range(64)), ["--jobs", "1"], marks=pytest.mark.long),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_the_bytes_of_a_single_run(weir, medium_encoder, result_folder, single, shards, order, options):
    plan = plan_of(weir, medium_encoder, result_folder, "--shards", str(shards))
    before = state(weir, plan)
    assert (before["state"], before["units"], before["missing"], before["shards"]) == ("missing", UNITS, [[0, UNITS - 1]], shards)
    made = 0
    for index in order:
        said = weir("shard", plan, "--index", str(index), *options, "--json").json()
        made += said["units"] - said["units_before"]
        assert said["missing"] == UNITS - made
    assert made == UNITS and state(weir, plan)["state"] == "made"
    weir("finalize", plan)
    is_single(result_folder, single)
    for command in ("finalize", "shard", "status"):  # nothing is left to do
        assert "in place" in weir(command, plan).out


@pytest.mark.parametrize("name", SCHEDULED)
def test_the_part_that_a_scheduler_means(weir, small_encoder, tmp_path, name):
    plan = plan_of(weir, small_encoder, tmp_path, "--shards", "4")
    said = weir("shard", plan, "--json", env=SCHEDULED[name]).json()
    assert (said["index"], said["count"]) == (2, 4)
    said = weir("shard", plan, "--json", "--index", "0", "--count", "9", env=SCHEDULED[name]).json()
    assert (said["index"], said["count"]) == (0, 9)


def test_more_shards_than_units_are_said(weir, small_encoder, tmp_path):
    said = weir("plan", small_encoder, tmp_path / "out.onnx", *PASSES, "--shards", "9")
    units = int(re.search(r": (\d+) units? of 64 MiB in 9 shards", said.out)[1])
    assert units < 9 and re.search(rf"^weir: {units} units? (is|are) work for {units} shards?: the other {9 - units} have nothing to do$", said.err, re.M)
    said = weir("plan", small_encoder, tmp_path / "out.onnx", *PASSES, "--shards", str(units))
    assert "nothing to do" not in said.err


def test_the_rate_is_that_of_the_work(weir, small_encoder, tmp_path):
    """A plan may wait for days before its first member begins."""
    plan = plan_of(weir, small_encoder, tmp_path, "--shards", "2")
    day = time.time() - 86400
    os.utime(plan / "orders.json", (day, day))
    assert state(weir, plan)["bytes_per_second"] == 0
    weir("shard", plan, "--index", "0", "--count", "2")
    [records] = plan.glob("records.*")
    if subprocess.run(["stat", "-c", "%W", records], capture_output=True, text=True).stdout.strip() in ("", "0", "-"):
        pytest.skip("this file system does not keep when a file was made")
    said = state(weir, plan)
    assert said["bytes_per_second"] > 2 * said["bytes_done"] / 86400


def test_a_plan_is_no_interrupted_run(weir, small_encoder, tmp_path):
    plan = plan_of(weir, small_encoder, tmp_path, "--shards", "2")
    said = weir("clean", tmp_path).out.splitlines()
    assert said[1] == f"    a plan without a finished unit; to make all units: weir shard {plan} --count 1"
    assert re.fullmatch(r"1 plan \(.*\); remove with --yes", said[2])
    weir("shard", plan, "--index", "0", "--count", "2")
    assert f"    an unfinished plan; its progress: weir status {plan}\n" in weir("clean", tmp_path).out
    [found] = is_valid(weir("clean", tmp_path, "--json").json(), "clean")["found"]
    assert found["plan"] and found["resume"].startswith("weir plan ")
    assert "removed 1 plan (" in weir("clean", tmp_path, "--yes").out and not plan.exists()
    assert "no interrupted runs in " in weir("clean", tmp_path).out


def test_where_the_page_of_a_plan_is_made(weir, tmp_path):
    assert "hint: that is 'weir plan --report-html'" in weir("finalize", tmp_path, "--report-html", tmp_path / "p.html", code=2).err


def test_a_part_that_is_not_there(weir, small_encoder, tmp_path):
    plan = plan_of(weir, small_encoder, tmp_path, "--shards", "4")
    assert "--index is missing: there are 4 shards" in weir("shard", plan, code=2).err
    assert "there is no shard 4 of 4: shards are counted from 0" in weir("shard", plan, "--index", "4", code=2).err
    assert "Kubernetes numbers this shard 7" in weir("shard", plan, env={"JOB_COMPLETION_INDEX": "7"}, code=2).err


def test_members_at_the_same_time(weir, medium_encoder, result_folder, single):
    """One stands still before it records its second unit, while another copy of it and all others work."""
    plan = plan_of(weir, medium_encoder, result_folder)
    with Running(["shard", plan, "--jobs", "1"], RECORD_2):
        assert "shards of" in weir("finalize", plan, code=75).err
        said = weir("shard", plan, "--json").json()
        assert said["units_before"] == 1 and said["missing"] == 0
        assert "still running" in weir("finalize", plan, code=75).err
    weir("finalize", plan)
    is_single(result_folder, single)


def test_early(weir, medium_encoder, result_folder, single):
    """What is missing is named; a run in one process goes on with what members made."""
    plan = plan_of(weir, medium_encoder, result_folder)
    weir("shard", plan, "--index", "1", "--count", "3")
    [[_, first], [last, _]] = state(weir, plan)["missing"]
    said = weir("finalize", plan, code=75).err
    assert f"units are missing: 0-{first}, {last}-{UNITS - 1}" in said and plan.exists()
    assert "resumed: " in weir("run", medium_encoder, result_folder / "out.onnx", *PASSES).err
    is_single(result_folder, single)


@pytest.mark.parametrize("number, code", [pytest.param(signal.SIGTERM, 75, marks=pytest.mark.long), (signal.SIGUSR1, 75), pytest.param(signal.SIGXCPU, 75, marks=pytest.mark.long), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal(weir, medium_encoder, result_folder, number, code):
    """Whatever ends it, what was recorded counts."""
    plan = plan_of(weir, medium_encoder, result_folder, *MANY_UNITS)
    units = state(weir, plan)["units"]
    with Running(["shard", plan, "--jobs", "1"], RECORD_2) as run:
        assert state(weir, plan)["units_missing"] == units - 1
        run.process.send_signal(number)
        run.process.send_signal(signal.SIGCONT)
        assert run.process.wait(60) == code
    assert units - 1 - AHEAD <= state(weir, plan)["units_missing"] < units
    weir("shard", plan)
    weir("finalize", plan)


def test_killed_before_each_call(weir, weir_fault, small_encoder, tmp_path):
    """plan, shard and finalize, one after the other: killed before any change to the file system, and given again."""
    weir("run", small_encoder, tmp_path / "single" / "out.onnx", *PASSES)
    expected, kills = files(tmp_path / "single"), 0
    step = 1 if ALL else 7
    for command in ("plan", "shard", "finalize"):
        for n in range(1, 500, step):
            folder = tmp_path / f"{command}{n}"
            words = {"plan": [small_encoder, folder / "out.onnx", *PASSES]}
            for each in ("plan", "shard", "finalize"):
                arguments = words.get(each) or [next(folder.glob(".out.onnx.*.weir"))]
                if each == command:
                    ended = subprocess.run([program("WEIR_FAULT_PROGRAM"), each, *arguments], env={**os.environ, "WEIR_FAULT": f"kill:{n}"}, capture_output=True)
                    if ended.returncode == 0:
                        break
                    assert ended.returncode == -signal.SIGKILL
                    kills += 1
                weir(each, *arguments)
            else:
                assert files(folder) == expected, (command, n)
                shutil.rmtree(folder)
                continue
            break
        assert n > step
    assert kills > 10


def flip(path, at=None):
    text = bytearray(path.read_bytes())
    text[len(text) // 2 if at is None else at] ^= 1
    path.write_bytes(text)


@pytest.mark.parametrize("name", ["plan.json", "plan.bin", "header.json", "orders.json", "small.jsonl"])
def test_a_flipped_bit_of_the_plan(weir, small_encoder, tmp_path, name):
    plan = plan_of(weir, small_encoder, tmp_path)
    flip(plan / name)
    for command in ("shard", "status", "finalize"):
        said = weir(command, plan, code=66).err
        assert name in said or "the plan in" in said or "planned by" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == [plan.name]


def test_a_flipped_bit_of_a_record(weir, small_encoder, tmp_path):
    """The unit is made again, which is said."""
    plan = plan_of(weir, small_encoder, tmp_path)
    weir("shard", plan)
    [records] = plan.glob("records.*")
    flip(records, 40)
    said = state(weir, plan)
    assert said["damaged_records"] == 1 and said["units_missing"] == 1
    assert "is damaged or of another plan" in weir("finalize", plan, code=75).err
    assert "is damaged or of another plan" in weir("shard", plan).err
    weir("finalize", plan)


def test_a_flipped_bit_of_an_output(weir, small_encoder, tmp_path):
    plan = plan_of(weir, small_encoder, tmp_path)
    weir("shard", plan)
    flip(plan / "out.onnx.data")
    said = weir("status", plan, "--recheck", "--json").json()
    assert said["damaged_units"] == 1 and said["units_missing"] == 1
    assert "1 of 2 units is missing: 0" in weir("finalize", plan, "--recheck", code=75).err
    assert "will be rewritten" in weir("shard", plan).err
    weir("finalize", plan, "--recheck")
    assert ": OK" in weir("audit", tmp_path / "out.onnx").out


def test_another_source(weir, small_encoder, tmp_path):
    copy, out = tmp_path / "copy", tmp_path / "out"
    shutil.copytree(small_encoder.parent, copy)
    out.mkdir()
    plan = plan_of(weir, small_encoder, out)
    assert "is not what the plan was made from" not in weir("shard", plan, "--source-dir", copy).err  # copytree keeps times
    data = next(copy.glob("*.data"))
    os.utime(data, ns=(0, 0))
    assert "same size, different mtime" in weir("shard", plan, "--source-dir", copy, code=66).err
    data.write_bytes(data.read_bytes() + b"x")
    assert "bytes then" in weir("finalize", plan, "--source-dir", copy, code=66).err
    data.unlink()
    weir("shard", plan, "--source-dir", copy, code=66)
    weir("finalize", plan)


def test_what_is_not_ours(weir, small_encoder, tmp_path):
    plan = plan_of(weir, small_encoder, tmp_path)
    (plan / "records.9").symlink_to(small_encoder)
    for command in ("shard", "status", "finalize"):
        assert "'records.9'" in weir(command, plan, code=77).err
    (plan / "records.9").unlink()
    link = tmp_path / ".out.onnx.0123456789abcdef.weir"
    link.symlink_to(plan)
    assert "is a link" in weir("shard", link, code=77).err
    link.unlink()
    if os.geteuid() == 0:
        os.chown(plan / "orders.json", 12345, -1)
        assert "another user" in weir("shard", plan, code=77).err


def test_a_plan_of_something_else(weir, small_encoder, tmp_path):
    plan = plan_of(weir, small_encoder, tmp_path)
    other = tmp_path / "other"
    shutil.copytree(plan, other / ".out.onnx.0123456789abcdef.weir")
    assert "another plan than its name says" in weir("shard", other / ".out.onnx.0123456789abcdef.weir", code=66).err
    header = (plan / "header.json").read_text()
    version = json.loads(header)["version"]
    (plan / "header.json").write_text(header.replace(f'"version":"{version}"', '"version":"9.9.9"'))
    assert "was planned by weir 9.9.9" in weir("shard", plan, code=66).err
    (plan / "header.json").write_text(header)
    (plan / "orders.json").unlink()
    assert "is not ready" in weir("shard", plan, code=66).err
    weir("shard", tmp_path / "nothing", code=66)
    weir("shard", tmp_path, code=66)


def test_two_plans_for_one_output(weir, small_encoder, tmp_path):
    """The one that is finalized first has the name."""
    first = plan_of(weir, small_encoder, tmp_path)
    second = plan_of(weir, small_encoder, tmp_path, "--pass", "cast:to=float16")
    for plan in (first, second):
        weir("shard", plan)
    weir("finalize", first)
    assert "was made by another run since this one was planned" in weir("finalize", second, code=66).err
    assert ": OK" in weir("audit", tmp_path / "out.onnx").out


def test_a_plan_that_is_given_again(weir, small_encoder, tmp_path):
    plan = plan_of(weir, small_encoder, tmp_path)
    weir("shard", plan)
    assert "2 of them finished already" in weir("plan", small_encoder, tmp_path / "out.onnx", *PASSES, "--shards", "9").out
    assert state(weir, plan)["shards"] == 9 and state(weir, plan)["units_missing"] == 0
    weir("finalize", plan / "plan.json")


def test_nothing_is_written(weir, medium_encoder, result_folder, single):
    """The null engine: units are hashed and recorded, and the manifest is that of the real run."""
    plan = plan_of(weir, medium_encoder, result_folder, "--io", "null")
    assert sum(path.stat().st_size for path in plan.iterdir()) < 5_000_000
    weir("shard", plan, "--index", "0", "--count", "2")
    weir("shard", plan, "--index", "1", "--count", "2")
    said = weir("finalize", plan).out.rsplit("nothing was written", 1)[0]
    assert said == (single / "out.onnx.manifest.json").read_text() and not list(result_folder.iterdir())


def test_no_verification_of_a_plan(weir, small_encoder, tmp_path):
    assert "writes no output that could be verified" in weir("plan", small_encoder, tmp_path / "o.onnx", *PASSES, "--verify", code=2).err
