"""Job files: `weir jobs` for each scheduler, for a plan in a folder of letters that shells, YAML and Python read their own way.

What can run without a scheduler runs, with stand-ins for sbatch, srun, scontrol and mpirun; the schedulers themselves are
those of tests/cluster (tools/test --all).
"""

import ast
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import program
from shell import Shell

pytestmark = pytest.mark.in_memory
ODD = "it's a \"model\" of\tours\\ {}\nTASK\nPLAN #1 $(HOME) $$ ${{ 1 }} @SHARDS@"
SCHEDULERS = ["slurm", "kubernetes", "mpi", "ray", "dask", "github", "shell"]
PASSES = ["--pass", "quantize:block_size=64"]
SHARDS = 3
STAND_INS = {
    # Tasks of an array one after the other, until they are requeued no more.
    "sbatch": """#!/bin/bash
printf '%s\\n' "sbatch $*" >>"$CALLS"
script=$(cat) id=$(grep -c ^sbatch "$CALLS")
export SLURM_JOB_ID=$id SLURM_ARRAY_TASK_MIN=0
[[ $* =~ .*--cpus-per-task=([0-9]+) ]] && export SLURM_CPUS_PER_TASK=${BASH_REMATCH[1]}
[[ $* =~ --array=0-([0-9]+) ]] && tasks=$(seq 0 "${BASH_REMATCH[1]}") || tasks=none
for SLURM_ARRAY_TASK_ID in $tasks; do
  export SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_MAX=${tasks##*$'\\n'}
  [ "$tasks" != none ] || unset SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_MAX
  until rm -f "$CALLS.again"; bash <(printf '%s\\n' "$script") >>"$CALLS.out"; code=$?; [ ! -e "$CALLS.again" ]; do :; done
  [ $code = 0 ] || exit $code
done
echo "$id"
""",
    # Task $WHO, or what finalizes, ends with $CODE the first time.
    "srun": """#!/bin/bash
task=${SLURM_ARRAY_TASK_ID-finalize}
while [[ $1 = -* ]]; do echo "srun $task $1" >>"$CALLS"; shift; done
[ "${WHO-nobody}" != "$task" ] || [ -e "$CALLS.told" ] || { touch "$CALLS.told"; exit "$CODE"; }
"$@"
""",
    "scontrol": '#!/bin/bash\necho "scontrol $*" >>"$CALLS"; touch "$CALLS.again"\n',
    "mpirun": """#!/bin/bash
[ "$1" = -n ] || exit 2
n=$2; shift 2
for rank in $(seq 0 $((n - 1))); do
  OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=$n "$@" || exit
done
""",
}


@pytest.fixture
def desk(tmp_path, small_encoder):
    """A shell with weir, which notes how it is called, and the stand-ins; the model lies in a folder of odd letters there."""
    shell = Shell(tmp_path, weir_itself=program("WEIR"))
    notes = 'printf \'%s\\n\' "weir ${*/"$PLAN"/PLAN}" >>"$CALLS"\n[[ "$* rank=${OMPI_COMM_WORLD_RANK-}" != ${FAILS-nothing} ]] && exec weir-itself "$@"\n'
    for name, text in {**STAND_INS, "weir": "#!/bin/bash\n" + notes}.items():
        path = tmp_path / "bin" / name
        path.write_text(text)
        path.chmod(0o755)
    shutil.copytree(small_encoder.parent, shell / ODD / "in")
    shell.env["CALLS"] = os.fspath(tmp_path / "calls")
    return shell


def planned(desk, weir, shards=SHARDS):
    model = next((desk / ODD / "in").glob("*.onnx"))
    (desk / ODD / "out").mkdir()
    said = weir("plan", model, desk / ODD / "out/out.onnx", *PASSES, "--shards", str(shards), "--json").json()
    desk.env["PLAN"] = said["weir"]["staged"]
    return desk / ODD / "out" / said["weir"]["staged"].rsplit("/", 1)[-1]


def job_file(weir, plan, scheduler, *options):
    return weir("jobs", plan, "--scheduler", scheduler, *options).out


def calls(desk):
    """What was called, and nothing of what will be."""
    with open(desk.env["CALLS"], "a+") as file:
        file.seek(0)
        return file.read().splitlines()


def is_single(desk, weir):
    """The files of a run in one process, byte for byte."""
    model = next((desk / ODD / "in").glob("*.onnx"))
    weir("run", model, desk / "single/out.onnx", *PASSES)
    assert desk.files(f"{ODD}/out") == desk.files("single") and len(desk.files("single")) > 2


def run(desk, text, **how):
    (desk / "job").write_text(text)
    return desk("exec bash ./job", **how)


@pytest.mark.parametrize("scheduler", ["shell", "mpi", "slurm"])
def test_it_runs(desk, weir, scheduler):
    text = job_file(weir, planned(desk, weir), scheduler)
    run(desk, text)
    made = sorted(line for line in calls(desk) if line.startswith("weir shard PLAN "))
    assert len(made) == SHARDS
    if scheduler != "mpi":
        assert all(re.search(rf"--index {index}\b", line) and f"--count {SHARDS} " in line + " " for index, line in enumerate(made))
    assert [line for line in calls(desk) if line.startswith("weir")][-1] == "weir finalize PLAN --recheck"
    is_single(desk, weir)


@pytest.mark.parametrize("scheduler", ["shell", "mpi", "slurm"])
def test_nothing_is_finalized_when_a_shard_fails(desk, weir, scheduler):
    plan = planned(desk, weir)
    text = job_file(weir, plan, scheduler)
    desk.env["FAILS"] = "*rank=1" if scheduler == "mpi" else "shard *--index 1 *"
    done = run(desk, text, code=None)
    assert done.code != 0 and "weir shard" in "".join(calls(desk)) and "weir finalize PLAN --recheck" not in calls(desk)
    assert plan.exists() and not (plan.parent / "out.onnx").exists()


@pytest.mark.parametrize("who, code, job", [("1", 75, 1), ("1", 138, 1), ("finalize", 75, 2)])
def test_slurm_is_told(desk, weir, who, code, job):
    """What the array is submitted with, with the options that the script is given; who is told to go comes again."""
    plan = planned(desk, weir)
    (desk / "job").write_text(job_file(weir, plan, "slurm"))
    desk(f"WHO={who} CODE={code} bash ./job --partition=x --cpus-per-task=5")
    [array, finalize] = [line for line in calls(desk) if line.startswith("sbatch")]
    assert f" --array=0-{SHARDS - 1} " in array and " --requeue " in array and " --signal=USR1@60 " in array
    assert " --dependency=afterok:1 " in finalize and [line for line in calls(desk) if line.startswith("scontrol")] == [f"scontrol requeue {job}"]
    assert array.endswith(" --partition=x --cpus-per-task=5") and finalize.endswith(" --partition=x --cpus-per-task=5")
    tasks = {line for line in calls(desk) if line.startswith("srun")}
    assert tasks == {f"srun {index} --cpus-per-task=5" for index in range(SHARDS)}
    assert all("--jobs 5 " in line for line in calls(desk) if line.startswith("weir shard"))
    is_single(desk, weir)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_it_is_what_it_says(desk, weir, scheduler):
    """Each file in the eyes of what reads it, with every word replaced."""
    plan = planned(desk, weir)
    text = job_file(weir, plan, scheduler)
    assert not re.search(r"@[A-Z_]+@", text.replace("@SHARDS@", "")) and text.endswith("\n")
    if scheduler in ("ray", "dask"):
        compile(text, scheduler, "exec")
        said = next(node.value for node in ast.parse(text).body if isinstance(node, ast.Assign))
        assert ast.literal_eval(said) == (str(plan), SHARDS)
    elif scheduler in ("kubernetes", "github"):
        assert "\t" not in text and all(len(line) - len(line.lstrip(" ")) in range(0, 17, 2) for line in text.splitlines())
    else:
        assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0


def test_kubernetes(desk, weir):
    """Two Jobs; both mount the folder that holds plan and model, by the same path, and run as whose it is."""
    plan = planned(desk, weir)
    text = job_file(weir, plan, "kubernetes", "--image", "registry.example/weir:1 \"x\"")
    job, finalize = text.split("\n---\n")
    assert f"completions: {SHARDS}\n" in job and "completionMode: Indexed\n" in job and "completions" not in finalize
    texts = [json.loads(each) for each in re.findall(r'"(?:[^"\\]|\\.)*"', text)]
    assert texts.count(str(plan).replace("$", "$$")) == 3 and texts.count('registry.example/weir:1 "x"') == 3
    mounted = [json.loads(each) for each in re.findall(r"mountPath: (.*)}", text)]
    assert mounted == [os.fspath(desk / ODD)] * 3
    owner = plan.stat()
    assert text.count(f"runAsUser: {owner.st_uid}, runAsGroup: {owner.st_gid}") == 2
    assert '"weir:latest"' in job_file(weir, plan, "kubernetes")
    name = plan.name.split(".")[-2]
    assert re.findall(r"^  name: (.*)$", text, re.MULTILINE) == [f"weir-{name}", f"weir-{name}-finalize"]


def test_what_kubernetes_mounts_has_no_colon(weir, small_encoder, tmp_path):
    (tmp_path / "a:b").mkdir()
    model = shutil.copytree(small_encoder.parent, tmp_path / "a:b/in") / small_encoder.name
    for out, code in ((tmp_path / "a:b/out.onnx", 2), (tmp_path / "out.onnx", 0)):
        plan = weir("plan", model, out, *PASSES, "--json").json()["weir"]["staged"]
        said = weir("jobs", plan, "--scheduler", "kubernetes", code=code)
        assert ("has a ':' in its path" in said.err) == (code == 2)
        job_file(weir, plan, "github")


def test_github(desk, weir):
    """The plan is a variable, whose text GitHub would look through for expressions."""
    plan = planned(desk, weir)
    text = job_file(weir, plan, "github")
    assert f"index: [{','.join(map(str, range(SHARDS)))}]\n" in text and f"--count {SHARDS}\n" in text and "needs: shard\n" in text
    said = json.loads(re.search("^  PLAN: (.*)$", text, re.MULTILINE)[1])
    assert "${{ 1 }}" in str(plan) and said.replace("${{ '${{' }}", "${{") == str(plan) and said.count("${{") == 2
    for line in re.findall("run: (.*)", text):
        assert '"$PLAN"' in line and not re.search(": | #|'", line)


def test_a_matrix_has_256_places(desk, weir):
    plan = planned(desk, weir, 256)
    assert "254,255]" in job_file(weir, plan, "github")
    planned_again(desk, weir, 257)
    said = weir("jobs", plan, "--scheduler", "github", code=2)
    assert "at most 256 jobs, but the plan has 257 shards" in said.err and "--shards 256 or fewer" in said.err and said.out == ""
    assert "seq 0 256 |" in job_file(weir, plan, "shell")


def planned_again(desk, weir, shards):
    shutil.rmtree(desk / ODD / "out")
    return planned(desk, weir, shards)


def test_nothing_that_could_be_mounted(weir, small_encoder, tmp_path):
    """Two folders of which only the root holds both; each other scheduler takes them."""
    if small_encoder.parts[1] == tmp_path.parts[1]:
        pytest.skip("the tests' folders lie in one that can be mounted")
    plan = weir("plan", small_encoder, tmp_path / "out.onnx", *PASSES, "--json").json()["weir"]["staged"]
    said = weir("jobs", plan, "--scheduler", "kubernetes", code=2)
    assert "no common folder that can be mounted" in said.err and str(tmp_path) in said.err and said.out == ""
    for scheduler in SCHEDULERS:
        if scheduler != "kubernetes":
            job_file(weir, plan, scheduler)


def test_which_scheduler(desk, weir):
    plan = planned(desk, weir)
    said = weir("jobs", plan, code=2).err
    assert "needs --scheduler" in said and all(name in said for name in SCHEDULERS)
    assert "'cron'" in weir("jobs", plan, "--scheduler", "cron", code=2).err
    assert weir("jobs", plan / "plan.json", "--scheduler", "shell").out == job_file(weir, plan, "shell")


def test_nothing_is_left_to_do(desk, weir):
    """What is made, but not in place, can be finalized; what is in place cannot."""
    plan = planned(desk, weir)
    for index in range(SHARDS):
        weir("shard", plan, "--index", str(index))
    assert "weir finalize" in job_file(weir, plan, "shell")
    weir("finalize", plan)
    for scheduler in SCHEDULERS:
        said = weir("jobs", plan, "--scheduler", scheduler, code=66)
        assert "is in place already: there is nothing left to do" in said.err and said.out == ""
