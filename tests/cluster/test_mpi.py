"""The line for MPI, as it is: each process takes the part that mpirun's environment says."""

import re
import shutil

import pytest

from conftest import SHARDS

pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")
# More processes than processors, also for root: no word of the line.
ANYWHERE = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}


@pytest.fixture
def job(desk):
    desk.env.update(ANYWHERE)
    if desk("mpirun -n 3 true", code=None).code:
        pytest.skip("mpirun does not start processes here")
    return desk.job_file("mpi").read_text()


def test_three_processes(desk, job):
    assert job.startswith(f"mpirun -n {SHARDS} weir ")
    desk("exec bash ./job")
    desk.is_single()


def test_each_makes_its_own_part(desk, job):
    line, _, finalize = job.partition("&&")
    assert finalize.split()[:2] == ["weir", "finalize"]
    said = desk(line.replace(" --quiet", "")).out
    made = re.findall(rf"^shard (\d) of {SHARDS}: \d+ units? made", said, re.MULTILINE)
    assert sorted(map(int, made)) == list(range(SHARDS)) and not desk.is_made()
    assert desk('weir status "$1" --json', words=[desk.plan]).json()["units_missing"] == 0


def test_one_process_fails(desk, job):
    (desk.plan / "orders.json").write_text("{}")
    assert desk("exec bash ./job", code=None).code == 66
    assert desk.finalize_calls() == 0 and not desk.is_made()
