"""What all end-to-end tests share: how to call weir, the models of installed packages, the large encoders.

WEIR names the program, WEIR_FAULT_PROGRAM the one with fault injection linked in; `tools/test` sets both.
"""

import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "support"))

import compare  # noqa: E402
import exact_products  # noqa: E402
import make_encoder  # noqa: E402
import quantizers  # noqa: E402
import runtimes  # noqa: E402
from installed import package_model, package_models  # noqa: E402, F401 (for the tests)
from shell import Done, Shell  # noqa: E402

DATA = TESTS / "data"
ALL = os.environ.get("WEIR_TEST_ALL") == "1"  # what takes long, too (tools/test --all)

# What the program would take from whoever runs the tests.
for variable in ("WEIR_MEMORY", "WEIR_JOBS", "WEIR_IO", "WEIR_ONNXRUNTIME", "WEIR_ORT"):
    os.environ.pop(variable, None)
# ONNX Runtime reports what it opens to its makers from 1.29 on: not what tests make.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# ONNX Runtime is that of the tests' own environment, found as a user's is.
os.environ["VIRTUAL_ENV"] = sys.prefix

from onnxruntime.quantization import quant_utils  # noqa: E402 (behind ORT_DISABLE_TELEMETRY)

exact_products.install()

# Who runs the tests in the background of a script has SIGINT ignored, which children inherit.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def program(variable):
    path = os.environ.get(variable, "")
    if not os.access(path, os.X_OK):
        pytest.exit(f"{variable} does not name a program: run the tests with tools/test e2e", returncode=2)
    return os.path.abspath(path)


def built_tool(name):
    """A program of the tests themselves: they are built beside weir-fault, whichever program WEIR is."""
    return Path(program("WEIR_FAULT_PROGRAM")).parent / name


# weir-ort lies beside the plain build of weir, which is not the program that all tests are of.
if "WEIR_FAULT_PROGRAM" in os.environ:
    os.environ["WEIR_ORT"] = os.path.abspath(Path(os.environ["WEIR_FAULT_PROGRAM"]).parent.parent / "weir-ort")


def sampled(*axes, every):
    """For parametrize: all combinations of what several lists have, of which one in `every` runs ordinarily, and the rest with --all.

    It is one whose places add up to a multiple of `every`, so that each element of a list meets a share of those of another.
    """
    places = itertools.product(*(enumerate(axis) for axis in axes))
    return [
        pytest.param(*(element for _, element in row), marks=[] if sum(place for place, _ in row) % every == 0 else pytest.mark.long)
        for row in places
    ]


def copy_model(source, folder):
    """A model with all that lies beside it, in a folder of its own; packages may be read-only or full of others."""
    folder.mkdir(parents=True, exist_ok=True)
    if "models" in source.parts or "site-packages" in source.parts:
        return Path(shutil.copy(source, folder))
    for path in source.parent.iterdir():
        shutil.copy(path, folder)
    return folder / source.name


@pytest.fixture(autouse=True, scope="session")
def no_copies_beside_shared_models():
    """ONNX Runtime's quantizers write <model>-inferred.onnx beside their source, for a while: not where another file of tests reads."""
    made = quant_utils.generate_identified_filename

    def checked(path, identifier):
        path = Path(path).resolve()
        if path.is_relative_to(DATA) or "site-packages" in path.parts:
            pytest.fail(f"{path} is other tests' too, and the quantizer writes beside it: give it a copy (copy_model)")
        return made(path, identifier)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quant_utils, "generate_identified_filename", checked)
        yield


class Weir:
    """Calls the program; `weir("convert", a, b)` demands success, `code=…` another exit code, `code=None` none."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *words, code=0, env=None, cwd=None, stdin=None):
        done = subprocess.run(
            [self.path, *(os.fspath(word) for word in words)],
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
        result = Done(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        assert code is None or result.code == code, f"exit code {result.code}, not {code}: {result.said}"
        return result

    def report(self, *words):
        """Run a writing command and give its --report-json."""
        with tempfile.TemporaryDirectory() as folder:
            self(*words, "--report-json", f"{folder}/report.json")
            return json.loads(Path(folder, "report.json").read_text())


@pytest.fixture(scope="session")
def weir():
    return Weir(program("WEIR"))


@pytest.fixture(scope="session")
def newest():
    """onnxruntime's quantizers in the newest version."""
    try:
        quantizers.THERE.start()
    except runtimes.Missing as why:
        pytest.skip(str(why))
    yield quantizers.THERE
    quantizers.THERE.stop()


@pytest.fixture(params=quantizers.TOOLS, ids=str)
def tool(request):
    """onnxruntime's quantizers, each version that --compat names."""
    return request.getfixturevalue("newest") if request.param is quantizers.THERE else request.param


@pytest.fixture(scope="session")
def weir_fault():
    return Weir(program("WEIR_FAULT_PROGRAM"))


def ended(body):
    """Lines with the line that ends a log, as whoever edits one could make it."""
    count = sum(1 for line in body.splitlines()[1:] if not re.match(r'{"edit":"(group|artifact|look|source|see)"', line))
    digest = hashlib.sha256(body.encode()).hexdigest()
    return body + f'{{"edit":"end","edits":{count},"sha256":"{digest}"}}\n'


def with_lines(log, *lines):
    """The text of an edit log with more lines behind its edits."""
    return ended("".join([*log.splitlines(keepends=True)[:-1], *(line + "\n" for line in lines)]))


def records_last(plan):
    """The records of a plan's folder newer than all else there, which is not read again then: clocks of files have steps."""
    newest = max(path.stat().st_ctime_ns for path in plan.iterdir() if not path.name.startswith("records."))
    for records in plan.glob("records.*"):
        while records.stat().st_ctime_ns <= newest:
            os.utime(records)


def before_record(number):
    """For WEIR_FAULT: the call that records the nth unit, when all before it are recorded.

    Syncs would not do: one of them covers all units that wait for it. Before its records a run writes four files whole:
    the lock, the plan, its literals, the head. Where the disk was slow a run of one job may then have up to AHEAD more units
    made, which it records when it is let go on, whatever it was told: of a model of few units all. Who wants some left gives
    it MANY_UNITS.
    """
    return f"write:{4 + number}"


AHEAD = 14  # jobs + lines are being recorded and as many wait (run_plan of run.c), lines are made; lines is LANES_MAX at most
MANY_UNITS = ("--split", "20M")  # conv2matmul of the medium encoder in 29 units


def as_user(folder, *opened):
    """The words that run weir as an ordinary user; None if we are root and cannot become one here.

    Root may write everywhere, so tests of permissions need somebody else. The program is copied to `folder`, and the
    folders of the session's own temporary tree that lead to it and to `opened` can then be walked through.
    """
    if os.geteuid() != 0:
        return [program("WEIR")]
    if not shutil.which("setpriv"):
        return None
    copy = Path(shutil.copy(program("WEIR"), folder))
    for path in [copy, *opened]:
        for parent in path.parents:
            if Path(tempfile.gettempdir()) in parent.parents:
                parent.chmod(parent.stat().st_mode | 0o055)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", os.fspath(copy)]


def read_only_folder(folder, *opened):
    """A folder in `folder` that only root may write to, and the words of as_user; skips where there are none."""
    out = folder / "read-only"
    out.mkdir()
    out.chmod(0o555)
    words = as_user(folder, *opened)
    if words is None:
        pytest.skip("root may write everywhere, and setpriv is not installed")
    return out, words


@pytest.fixture(scope="session")
def pool():
    """Threads for many short runs of the program."""
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as threads:
        yield threads


def without_posix():
    """[(start of a name, reason)] of tests of what a program for POSIX alone has not; none where it is another."""
    said = subprocess.run([program("WEIR"), "--version"], stdout=subprocess.PIPE, check=True).stdout
    rows = (TESTS / "without_posix.txt").read_text().splitlines() if b"(POSIX alone)" in said else []
    return [row.split(None, 1) for row in rows if ".py" in row and not row.startswith("#")]


def pytest_collection_modifyitems(items):
    for start, reason in without_posix():
        missing = [item for item in items if f"{item.path.name}::{item.name}".startswith(start)]
        for item in missing:
            item.add_marker(pytest.mark.skip(reason=f"not with POSIX alone: {reason}"))
        if not missing and any(item.path.name == start.split("::")[0] for item in items) and len(items) > 5000:  # all were collected
            raise pytest.UsageError(f"tests/without_posix.txt: no test is called {start}…")
    if not ALL:
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="with tools/test --all"))


def in_memory():
    """A folder in memory, as a context; None where there can be none, as in containers that have 64 MiB for it."""
    if not os.access("/dev/shm", os.W_OK) or shutil.disk_usage("/dev/shm").free < 2 << 30:
        return None
    return tempfile.TemporaryDirectory(prefix="weir-e2e-", dir="/dev/shm")


@pytest.fixture
def quick_folder(tmp_path):
    """For thousands of tiny models: in memory where that can be, since every run of weir waits for the disk."""
    with in_memory() or contextlib.nullcontext(tmp_path) as folder:
        yield Path(folder)


def is_small(node):
    return node.get_closest_marker("in_memory") is not None


@pytest.fixture
def tmp_path(request, tmp_path, monkeypatch):
    """pytest's own; of tests marked with in_memory a folder in memory, where tempfile makes its folders too."""
    with is_small(request.node) and in_memory() or contextlib.nullcontext(tmp_path) as folder:
        if folder != tmp_path:
            monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture(scope="module")
def module_folder(request, tmp_path_factory):
    """The same for what all tests of a module share."""
    with is_small(request.node) and in_memory() or contextlib.nullcontext(tmp_path_factory.mktemp("module")) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def tempfiles_in_memory(request):
    """Tests marked with in_memory have their tmp_path whether they name it or not: helpers ask tempfile."""
    if is_small(request.node):
        request.getfixturevalue("tmp_path")


# ---- encoders that several tests share, in a folder that goes when the session ends


@pytest.fixture(scope="session")
def large_folder():
    with tempfile.TemporaryDirectory(prefix="weir-e2e-") as folder:
        yield Path(folder)


@pytest.fixture
def result_folder(large_folder):
    """A folder of one test alone, on the disk; it goes with what lies in it."""
    folder = large_folder / "result"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def encoder(folder, name, **how):
    path = folder / name / "encoder-model.onnx"
    path.parent.mkdir()
    make_encoder.make_encoder(path, **how)
    return path


@pytest.fixture(scope="session")
def small_encoder(large_folder):
    """Two narrow layers, 2 MB: for everything that only needs the shape."""
    return encoder(large_folder, "small", size=2_000_000)


@pytest.fixture(scope="session")
def tiny_encoder(large_folder):
    """small_encoder under the names that README has."""
    path = large_folder / "tiny" / "encoder.onnx"
    path.parent.mkdir()
    make_encoder.make_encoder(path, size=2_000_000)
    return path


@pytest.fixture
def desk(tmp_path, tiny_encoder):
    """A shell in a folder with encoder.onnx and encoder.onnx.data, and weir on the PATH."""
    shell = Shell(tmp_path, weir=program("WEIR"), weir_fault=program("WEIR_FAULT_PROGRAM"))
    copy_model(tiny_encoder, shell.folder)
    return shell


@pytest.fixture(scope="session")
def one_layer(large_folder):
    """One layer, 73 MB: as small as it can be with three units of output, one of them the .onnx."""
    return encoder(large_folder, "one", shape=make_encoder.Shape(layers=1, d_model=800, ff=3200))


@pytest.fixture(scope="session")
def medium_encoder(large_folder):
    """Four layers at full width, 400 MB: eight units of output, one of them the .onnx."""
    return encoder(large_folder, "medium", shape=make_encoder.Shape(layers=4))


@pytest.fixture(scope="session")
def quiet_run(weir, large_folder, medium_encoder):
    """{name: SHA-256} of what conv2matmul with MANY_UNITS makes of the medium encoder as out.onnx when nobody disturbs it."""
    folder = large_folder / "quiet"
    folder.mkdir()
    weir("conv2matmul", medium_encoder, folder / "out.onnx", *MANY_UNITS)
    found = compare.folder_digests(folder)
    assert len(found) - 1 > 2 + AHEAD  # each file but the manifest is a unit
    shutil.rmtree(folder)
    return found


@pytest.fixture(scope="session")
def full_encoder(large_folder):
    """The 24 layers of 2.4 GB, every byte of it real."""
    return encoder(large_folder, "full")
