"""The job file of Slurm under Slurm: a controller and four nodes on this machine (slurm_nodes).

Whatever becomes of tasks, the output has the bytes of a run in one process, and the job that finalizes runs when all is done.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import SHARDS, is_there, parent_of, wait_until

NODES = Path(__file__).with_name("slurm_nodes")
lacking = [name for name in ("slurmctld", "slurmd", "sbatch", "munged", "setsid") if not shutil.which(name)]
pytestmark = [
    pytest.mark.skipif(bool(lacking), reason=f"Slurm is not installed: no {', '.join(lacking)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can start the daemons of Slurm"),
]


ENDS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")


class Slurm:
    def __init__(self, folder):
        self.folder = folder
        self.environment = {"SLURM_CONF": f"{folder}/slurm.conf"}

    def __call__(self, *words):
        done = subprocess.run(words, env={**os.environ, **self.environment}, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def jobs(self):
        """{number, as 7 or 7_0: what scontrol says of the job}, for a while after it ended too."""
        found = {}
        for line in self("scontrol", "--oneliner", "show", "job").splitlines():
            said = dict(re.findall(r"(\S+?)=(\S*)", line))
            if "JobId" in said:
                task = said.get("ArrayTaskId", "")
                found[f"{said['ArrayJobId']}_{task}" if task.isdigit() else said["JobId"]] = said
        return found

    def wait(self, number, state):
        """Until the job is in that state: what is said of it then."""
        def looks():
            said = self.jobs().get(number, {})
            is_so = said.get("JobState") == state
            assert is_so or said.get("JobState") not in ENDS, f"job {number} ended otherwise than {state}: {said}"
            return said if is_so else None
        return wait_until(looks, lambda: f"job {number} in state {state}, of {self.jobs()}")

    def pid_of(self, name):
        return int((self.folder / f"{name}.pid").read_text())


@pytest.fixture(scope="module")
def slurm(large_folder):
    folder = large_folder / "slurm"
    started = subprocess.run([NODES, "start", folder], capture_output=True, text=True)
    try:
        if started.returncode:
            pytest.skip(f"Slurm does not start here: {started.stderr.strip()}")
        yield Slurm(folder)
    finally:
        subprocess.run([NODES, "stop", folder], check=True)


@pytest.fixture
def submitted(slurm, desk):
    """Calls the job file with options for sbatch: the numbers of the array and of the job that finalizes."""
    desk.env.update(slurm.environment)
    numbers = []

    def submit(*options, then=lambda: None):
        before = set(slurm.jobs())
        desk.job_file("slurm")
        then()
        desk('bash ./job "$@"', words=options)
        came = set(slurm.jobs()) - before
        array = {each.partition("_")[0] for each in came if "_" in each} or {slurm.jobs()[each]["ArrayJobId"] for each in came if "ArrayJobId" in slurm.jobs()[each]}
        [array] = array
        [finalize] = [each for each in came if "ArrayJobId" not in slurm.jobs()[each]]
        numbers.extend([array, finalize])
        return array, finalize

    yield submit
    for number in numbers:
        subprocess.run(["scancel", "--signal=KILL", "--full", number], env=desk.env, capture_output=True)
        subprocess.run(["scancel", number], env=desk.env, capture_output=True)


def finished(slurm, desk, finalize):
    slurm.wait(finalize, "COMPLETED")
    desk.is_single()


def test_an_array_and_the_job_behind_it(slurm, desk, submitted):
    array, finalize = submitted()
    finished(slurm, desk, finalize)
    tasks = [slurm.jobs()[f"{array}_{index}"] for index in range(SHARDS)]
    assert {task["JobState"] for task in tasks} == {"COMPLETED"} and {task["Restarts"] for task in tasks} == {"0"}
    assert {task["CPUs/Task"] for task in tasks} == {"2"}


def test_nothing_is_finalized_behind_a_task_that_failed(slurm, desk, submitted):
    orders = desk.plan / "orders.json"
    array, finalize = submitted(then=lambda: orders.write_text("{}"))
    for index in range(SHARDS):
        assert slurm.wait(f"{array}_{index}", "FAILED")["ExitCode"] == "66:0"
    slurm.wait(finalize, "CANCELLED")
    assert desk.finalize_calls() == 0


# ---- one task stands still in the middle of its work, and something happens to it


def environment(pid):
    try:
        return dict(each.split("=", 1) for each in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in each)
    except OSError:
        return {}


@pytest.fixture
def held(slurm, desk, submitted):
    """(task 0 of the array, its process, the job that finalizes), when all other tasks are done. It is told of signals
    already, and has made no unit."""
    def hold(*options):
        desk.hold()
        array, finalize = submitted("--cpus-per-task=1", *options)
        pid = desk.held()
        for other in range(1, SHARDS):
            slurm.wait(f"{array}_{other}", "COMPLETED")
        return f"{array}_0", pid, finalize
    return hold


@pytest.fixture
def lose(slurm):
    """Kills the daemon of the node that a process runs on; it comes back when the test ends, with the node."""
    lost = []

    def kill(pid):
        name = environment(pid)["SLURMD_NODENAME"]
        os.kill(slurm.pid_of(name), signal.SIGKILL)
        lost.append(name)
        return name

    yield kill
    for name in lost:
        subprocess.run([NODES, "node", slurm.folder, name], check=True)
        wait_until(lambda: "idle" in slurm("sinfo", "-h", "-n", name, "-o", "%T"), f"{name} is back")


def came_again(slurm, task):
    assert int(slurm.wait(task, "COMPLETED")["Restarts"]) >= 1


def test_a_node_is_lost(slurm, desk, held, lose):
    """With all that ran there: its task comes again on another one."""
    task, pid, finalize = held()
    name = lose(pid)
    ours = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    ours = [each for each in ours if (of := environment(each)).get("SLURMD_NODENAME") == name and of.get("SLURM_CONF") == desk.env["SLURM_CONF"]]
    assert pid in ours
    keepers = {parent_of(each) for each in ours} - {*ours, 1}  # slurmstepd, which would tell of a death
    for each in [*keepers, *ours]:
        os.kill(each, signal.SIGKILL)
    came_again(slurm, task)
    finished(slurm, desk, finalize)


def test_a_task_runs_twice(slurm, desk, held, lose):
    """The daemon of the node dies, the task lives on: Slurm starts it again elsewhere. What finalizes waits for both."""
    task, pid, finalize = held()
    lose(pid)
    came_again(slurm, task)
    wait_until(desk.finalize_calls, "a call of finalize")
    assert is_there(pid) and not desk.is_made()
    os.kill(pid, signal.SIGCONT)
    finished(slurm, desk, finalize)
    assert not is_there(pid)


def test_a_task_makes_room(slurm, desk, held):
    """For a job of the partition that goes first: it is told, ends with what it has, and comes again."""
    task, pid, finalize = held()
    other = slurm("sbatch", "--parsable", "--partition=high", "--nodes=4", "--exclusive", f"--output={desk.folder}/other", "--wrap=true").strip()
    slurm.wait(other, "COMPLETED")
    assert not is_there(pid)
    came_again(slurm, task)
    finished(slurm, desk, finalize)


def test_the_time_is_up(slurm, desk, held):
    """A minute before it is, or up to half a minute more, the task is told so; it puts itself into the queue again."""
    task, pid, finalize = held("--time=2")
    wait_until(lambda: not is_there(pid), "the signal")  # Slurm lets it go on with that
    came_again(slurm, task)
    finished(slurm, desk, finalize)
