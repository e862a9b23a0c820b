"""What the system refuses, lacks or offers: no io_uring, no openat2, no locks, shared blocks, a race for a name.

None of it may change a byte of the output, and none of it may open what must stay closed.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import bad_models
import compare
import make_encoder
import wire
from conftest import TESTS, encoder, program

WITHOUT = TESTS / "support" / "without_calls.py"


def run_without(calls, *words):
    return subprocess.run(
        [sys.executable, "-I", WITHOUT, calls, program("WEIR"), *words], capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def expected(weir, large_folder, one_layer):
    folder = large_folder / "surroundings"
    folder.mkdir()
    weir("conv2matmul", one_layer, folder / "out.onnx")
    yield compare.folder_bytes(folder)
    shutil.rmtree(folder)


def assert_files(folder, expected):
    assert sorted(expected) == sorted(path.name for path in folder.iterdir())
    for name, content in expected.items():
        assert (folder / name).read_bytes() == content, name
    shutil.rmtree(folder)


# ---- engines


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS", "ENOMEM", "EMFILE"])
def test_without_io_uring(tmp_path, one_layer, expected, error):
    """`auto` falls back, says so once with the cause, and writes the same bytes."""
    done = run_without(f"io_uring_setup={error}", "conv2matmul", one_layer, tmp_path / "out.onnx")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("io_uring") >= 1 and len(done.stderr.splitlines()) <= 2, done.stderr
    assert_files(tmp_path, expected)


def test_without_io_uring_when_asked_for(tmp_path, one_layer):
    """Who asks for it by name gets an error, not another engine."""
    done = run_without("io_uring_setup=EPERM", "conv2matmul", one_layer, tmp_path / "out.onnx", "--io", "uring")
    assert done.returncode not in (0, 70) and "io_uring" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["quantize", "MODEL", "out.onnx"], ["measure", "MODEL"], ["diff", "MODEL", "MODEL", "--weights", "values"]], ids=lambda words: words[0])
def test_the_error_names_where_the_engine_was_asked_for(tmp_path, monkeypatch, one_layer, words):
    """The option, or the variable of the environment: of commands that write and of those that only read."""
    words = [{"MODEL": str(one_layer), "out.onnx": str(tmp_path / "out.onnx")}.get(word, word) for word in words]
    assert "weir: error: --io=uring: " in run_without("io_uring_setup=EPERM", *words, "--io", "uring").stderr
    monkeypatch.setenv("WEIR_IO", "uring")
    assert "weir: error: WEIR_IO=uring: " in run_without("io_uring_setup=EPERM", *words).stderr


def test_null_engine_writes_nothing_and_knows_the_digests(weir, tmp_path, one_layer, expected):
    """`--io null` prints the manifest of the files that it did not write."""
    done = weir("conv2matmul", one_layer, tmp_path / "out.onnx", "--io", "null", "--quiet")
    assert expected["out.onnx.manifest.json"].decode() in done.out
    assert list(tmp_path.iterdir()) == []


def test_load_engine_gives_the_same_bytes(weir, tmp_path, one_layer, expected):
    weir("conv2matmul", one_layer, tmp_path / "out.onnx", "--io", "load")
    assert_files(tmp_path, expected)


# ---- opening beneath


PLACES = [case for case in bad_models.cases() if case.name.startswith(("path-", "file-")) and not case.needs_user]


@pytest.mark.parametrize("case", PLACES, ids=[case.name for case in PLACES])
def test_opening_without_openat2(weir, tmp_path, case):
    """The walk over components decides as openat2 does, links to folders included."""
    path = case.make(tmp_path)
    usual = weir("convert", path, path.parent / "usual.onnx", *case.flags, "--no-manifest", code=None)
    other = run_without("openat2=ENOSYS", "convert", path, path.parent / "other.onnx", *case.flags, "--no-manifest")
    assert other.returncode == usual.code, other.stderr
    assert other.stderr == usual.err.replace("usual.onnx", "other.onnx")
    if usual.code == 0:
        compare.same_meaning(path.parent / "usual.onnx", path.parent / "other.onnx")


def exchange(folder, first, second):
    """renameat2 with RENAME_EXCHANGE: both names exist at any moment."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    return libc.renameat2(folder, first, folder, second, 2)


def test_a_link_swapped_in_while_it_runs(weir, tmp_path):
    """A file and a link to a secret change places all the time: a run is refused or sees the file, never the secret."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(b"secret!!" * 256)
    (inside / "w.bin").write_bytes(b"harmless" * 256)
    (inside / "link").symlink_to("../secret")
    weight = wire.tensor("w", wire.UINT8, (2048,), pairs=wire.external("w.bin", 0, 2048))
    graph = wire.graph([wire.node("Identity", ["w"], ["y"])], [weight], [], [("y", wire.UINT8, [2048])])
    (inside / "model.onnx").write_bytes(wire.model(graph))
    folder = os.open(inside, os.O_RDONLY)
    over = threading.Event()

    def swap():
        while not over.is_set():
            if exchange(folder, b"w.bin", b"link") != 0:
                over.set()

    swapping = threading.Thread(target=swap)
    swapping.start()
    codes = []
    try:
        for _ in range(200):
            done = weir(
                "convert", inside / "model.onnx", inside / "out.onnx", "--inline", "--no-manifest", "--force", code=None
            )
            codes.append(done.code)
            assert done.code in (0, 65, 66, 77), done.said
            if done.code == 0:
                content = (inside / "out.onnx").read_bytes()
                assert b"harmless" in content and b"secret" not in content
    finally:
        over.set()
        swapping.join()
        os.close(folder)
    if len(set(codes)) == 1:
        pytest.skip("no run met the other name, or names cannot be exchanged here")


# ---- file systems


@pytest.mark.parametrize(
    "fault",
    ["EOPNOTSUPP:fallocate:1:persist", "ENOSYS:flock:1:persist", "short:write:1:persist",
     "EINTR:write:2", "EINTR:fdatasync:1", "EINTR:fallocate:1"],
)  # fmt: skip
def test_file_systems_that_lack_something(weir_fault, tmp_path, one_layer, expected, fault):
    weir_fault("conv2matmul", one_layer, tmp_path / "out.onnx", env={"WEIR_FAULT": fault})
    assert_files(tmp_path, expected)


@pytest.fixture
def sharing_disk(tmp_path):
    """XFS with shared blocks in a file, where it can be mounted."""
    if not shutil.which("mkfs.xfs"):
        pytest.skip("mkfs.xfs is not installed")
    image, mount = tmp_path / "image", tmp_path / "mount"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(700 << 20)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", image], check=True)
    made = subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True, text=True)
    if made.returncode != 0:
        image.unlink()
        pytest.skip(f"no loop mount here: {made.stderr.strip()}")
    yield mount
    subprocess.run(["umount", mount], check=True)
    image.unlink()


@pytest.mark.slow
def test_untouched_tensors_share_blocks(weir, sharing_disk, tmp_path):
    """On a file system that can, most of the output is the input's own blocks; the bytes are the same. All tensors, biases too,
    are whole blocks here: what follows one that is not is on no border of a block."""
    model = encoder(sharing_disk, "in", shape=make_encoder.Shape(layers=1, ff=2048))
    (tmp_path / "elsewhere").mkdir()
    weir("conv2matmul", model, tmp_path / "elsewhere" / "out.onnx")
    expected = compare.folder_bytes(tmp_path / "elsewhere")
    out = sharing_disk / "out"
    out.mkdir()
    report = weir.report("conv2matmul", model, out / "out.onnx")
    assert report["weir"]["bytes_cloned"] > 0.8 * sum(each["size"] for each in report["weir"]["output"])
    weir("audit", out / "out.onnx")
    assert_files(out, expected)


def test_another_file_system_than_the_input_s(weir, quick_folder, one_layer, expected):
    """Nothing is renamed or cloned over the border of a file system."""
    if quick_folder.stat().st_dev == one_layer.stat().st_dev:
        pytest.skip("there is one file system only")
    (quick_folder / "out").mkdir()
    weir("conv2matmul", one_layer, quick_folder / "out" / "out.onnx")
    assert_files(quick_folder / "out", expected)


# ---- standard streams


def test_standard_output_closed_or_full(tmp_path, small_encoder):
    """A reader that goes away is no failure of a run; a full disk behind standard output is told."""
    words = [program("WEIR"), "convert", small_encoder]
    closed = subprocess.run([*words, tmp_path / "a.onnx"], stdout=None, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: os.close(1))  # fmt: skip
    assert closed.returncode in (0, 74), closed.stderr
    compare.same_meaning(small_encoder, tmp_path / "a.onnx")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*words, tmp_path / "b.onnx"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode in (73, 74) and "standard output" in done.stderr
    compare.same_meaning(small_encoder, tmp_path / "b.onnx")


@pytest.mark.parametrize("option", ["--json", "--report-json-stdout"])
def test_a_long_report_on_a_standard_output_that_is_gone_or_full(tmp_path, option):
    """Longer than what is held back until the end: what the system says of it is known only then."""
    source = tmp_path / "in.onnx"
    names = [f"h{number}" for number in range(65)]
    nodes = [wire.node("Conv", [names[k], "w"], [names[k + 1]]) for k in range(64)]
    weight = wire.tensor("w", wire.FLOAT, (2, 2, 1), b"\0" * 16)
    ends = [[(name, wire.FLOAT, [1, 2, 3])] for name in (names[0], names[-1])]
    source.write_bytes(wire.model(wire.graph(nodes, [weight], *ends)))
    words = [program("WEIR"), "conv2matmul", source, "--quiet", option]
    reader, writer = os.pipe()
    os.close(reader)
    gone = subprocess.run([*words, tmp_path / "a.onnx"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (gone.returncode, gone.stderr) == (0, "")
    with open("/dev/full", "w") as full:
        done = subprocess.run([*words, tmp_path / "b.onnx"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 73 and "standard output" in done.stderr, done.stderr


def test_a_limit_on_the_size_of_files_is_a_full_disk(tmp_path, small_encoder, weir):
    """Also where the system would rather send a signal that kills."""
    words = [program("WEIR"), "convert", small_encoder, tmp_path / "out.onnx", "--external"]
    done = subprocess.run(["prlimit", "--fsize=100000", *words], capture_output=True, text=True)
    assert done.returncode == 73 and "File too large" in done.stderr, (done.returncode, done.stderr)
    assert list(tmp_path.iterdir()) == []
    weir(*words[1:])
    compare.same_meaning(small_encoder, tmp_path / "out.onnx")


# As glibc says it, as musl does, and as weir does.
NO_DESCRIPTORS = re.compile("too many open files|no file descriptors available|opened", re.I)


@pytest.mark.parametrize("limit", range(4, 16))
def test_hardly_any_descriptors(tmp_path, small_encoder, limit):
    """Wherever they end: nothing is missing (66), and no model appears."""
    words = [program("WEIR"), "convert", small_encoder, tmp_path / "out.onnx", "--external"]
    done = subprocess.run(["prlimit", f"--nofile={limit}", *words], capture_output=True, text=True)
    if done.returncode == 0:
        return compare.same_meaning(small_encoder, tmp_path / "out.onnx")
    assert done.returncode in (74, 75) and NO_DESCRIPTORS.search(done.stderr), (done.returncode, done.stderr)
    assert not (tmp_path / "out.onnx").exists()


def test_few_descriptors(tmp_path):
    """300 data files under a limit of 64 open ones is refused with a word, or done: never half done."""
    weights, nodes, outputs = [], [], []
    (tmp_path / "in").mkdir()
    for number in range(300):
        name = f"w{number}"
        (tmp_path / "in" / name).write_bytes(bytes([number % 256]) * 2000)
        weights.append(wire.tensor(name, wire.UINT8, (2000,), pairs=wire.external(name, 0, 2000)))
        nodes.append(wire.node("Identity", [name], [f"{name}.out"]))
        outputs.append((f"{name}.out", wire.UINT8, [2000]))
    (tmp_path / "in" / "m.onnx").write_bytes(wire.model(wire.graph(nodes, weights, [], outputs)))
    words = [program("WEIR"), "convert", tmp_path / "in" / "m.onnx", tmp_path / "out.onnx"]
    done = subprocess.run(["prlimit", "--nofile=64", *words], capture_output=True, text=True)
    if done.returncode == 0:
        compare.same_meaning(tmp_path / "in" / "m.onnx", tmp_path / "out.onnx")
    else:
        assert done.returncode in (66, 74, 1) and NO_DESCRIPTORS.search(done.stderr), done.stderr
        assert [path.name for path in Path(tmp_path).iterdir()] == ["in"]
