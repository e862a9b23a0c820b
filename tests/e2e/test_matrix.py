"""The same bytes, whoever makes them: shards, workers, engines, processors, compilers and how far they optimize.

Twelve lines in the ordinary run, in which every word of one column meets every word of another as far as twelve do; with
WEIR_TEST_ALL every combination. The builds are those that `tools/test` makes before this; one that is not there, or is older than
the sources, is left out, and so are processors without qemu-user. Each line runs `weir run`, or `weir plan`, its shards and `weir finalize`,
and what it leaves is compared with what one process leaves, file by file.
"""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ALL, DATA, TESTS, program

pytestmark = pytest.mark.in_memory
BUILD = TESTS.parent / "build"
# With weights of every size, and kernels of each kind: transposed, in blocks, cast, in int8.
RUNS = {
    "4 bits": (DATA / "parakeet-torchscript" / "encoder-model.onnx", ["--pass", "conv2matmul", "--pass", "quantize:block_size=32"]),
    "int8": (DATA / "parakeet-dynamo" / "encoder-model.onnx", ["--pass", "conv2matmul", "--pass", "dynamic:op_types=MatMul", "--pass", "cast:to=float16,min_elements=1,on_overflow=clip"]),
}
THREADS = BUILD / "tsan" / "weir"  # under ThreadSanitizer
SOURCES = max(path.stat().st_mtime for room in ("src", "tools") for path in (TESTS.parent / room).rglob("*") if path.is_file())
QEMU = shutil.which("qemu-x86_64")
AXES = {
    "shards": [None, 1, 2, 3, 7, 64],
    "jobs": [1, 2, 5],
    "io": ["auto", "sync"],
    "build": {"gcc -O2": Path(program("WEIR"))} | {name: path for name, path in {"clang -O0, sanitized": BUILD / "asan" / "weir", "musl, static": BUILD / "static-x86_64" / "weir"}.items() if path.exists() and path.stat().st_mtime > SOURCES},
    "processor": {"this one": [], **({"portable": [QEMU, "-cpu", "Nehalem"], "AVX2": [QEMU, "-cpu", "Haswell"]} if QEMU else {})},
}


def can_be(line):
    """The emulator knows neither io_uring nor the sanitizers' memory; sixty-six processes take long in it."""
    return line["processor"] == "this one" or (line["io"] == "sync" and "sanitized" not in line["build"] and (ALL or line["shards"] != 64))


def lines():
    every = [dict(zip(AXES, words)) for words in itertools.product(*AXES.values())]
    every = [line for line in every if can_be(line)]
    if ALL:
        return every
    chosen, met = [], set()
    for _ in range(12):
        best = max(every, key=lambda line: len(pairs(line) - met))
        chosen.append(best)
        met |= pairs(best)
    return chosen


def pairs(line):
    return set(itertools.combinations(sorted(line.items(), key=lambda item: item[0]), 2))


def call(line, *words):
    if words[0] in ("run", "plan", "shard", "finalize"):
        words = [*words, "--io", line["io"]] if words[0] != "plan" else words
        words = [*words, "--jobs", line["jobs"]]
    done = subprocess.run([*AXES["processor"][line["processor"]], AXES["build"][line["build"]], *map(str, words)], env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}, capture_output=True, text=True)
    assert done.returncode == 0, (line, words, done.stderr)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module", params=RUNS)
def run(request, weir, tmp_path_factory):
    source, passes = RUNS[request.param]
    folder = tmp_path_factory.mktemp("single")
    words = [source, "out.onnx", *passes, "--tensor-digests", "--hash-inputs"]
    weir("run", *words, cwd=folder)
    return words, files(folder)


@pytest.mark.parametrize("line", lines(), ids=lambda line: " ".join(f"{key}={word}" for key, word in line.items()))
def test_the_same_bytes(run, tmp_path, line):
    words, expected = run
    words = [words[0], tmp_path / words[1], *words[2:]]
    if line["shards"] is None:
        call(line, "run", *words)
    else:
        call(line, "plan", *words, "--shards", line["shards"])
        [plan] = tmp_path.glob(".out.onnx.*.weir")
        for index in range(line["shards"]):
            call(line, "shard", plan, "--index", index)
        call(line, "finalize", plan)
    assert files(tmp_path) == expected


@pytest.mark.skipif(not THREADS.exists() or THREADS.stat().st_mtime < SOURCES, reason="no build under ThreadSanitizer")
@pytest.mark.parametrize("passes", [["conv2matmul"], pytest.param(["conv2matmul", "quantize:block_size=64"], marks=pytest.mark.long), pytest.param(["dynamic"], marks=pytest.mark.long)], ids="+".join)
def test_eight_workers_under_thread_sanitizer(weir, medium_encoder, result_folder, passes):
    """A run of eight units with a worker for each, and what is left to be made in parts; two members of a plan at a time, of few
    workers, which make several units beside each other."""
    words = [medium_encoder, "out.onnx", *(word for each in passes for word in ("--pass", each))]
    for name in ("plain", "run", "plan"):
        (result_folder / name).mkdir()
    weir("run", *words, cwd=result_folder / "plain")
    env = {**os.environ, "TSAN_OPTIONS": f"halt_on_error=1 suppressions={TESTS / 'tsan.supp'}"}

    def begin(folder, *words, jobs=8):
        return subprocess.Popen([THREADS, *map(str, words), "--jobs", str(jobs)], cwd=result_folder / folder, env=env, stderr=subprocess.PIPE, text=True)

    def ended(process):
        _, err = process.communicate()
        assert process.returncode == 0, err

    ended(begin("run", "run", *words))
    ended(begin("plan", "plan", *words))
    [plan] = (result_folder / "plan").glob(".out.onnx.*.weir")
    for member in [begin("plan", "shard", plan, "--index", index, "--count", 2, jobs=1 + index) for index in range(2)]:
        ended(member)
    ended(begin("plan", "finalize", plan, "--recheck"))
    expected = files(result_folder / "plain")
    assert files(result_folder / "run") == expected and files(result_folder / "plan") == expected


def test_twelve_lines_meet_most_words():
    """Of all pairs of words that can be, the lines of the ordinary run have four fifths."""
    every = [dict(zip(AXES, words)) for words in itertools.product(*AXES.values())]
    possible = set().union(*(pairs(line) for line in every if can_be(line)))
    assert len(set().union(*map(pairs, lines()))) > 0.7 * len(possible)
