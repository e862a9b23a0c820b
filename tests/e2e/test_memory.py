"""Memory: bounded by --memory and the index, whatever the size of the model, and a control arm that is not.

Peaks are VmHWM as wait4 reports it. Large sources are sparse files where only the shape counts, and `--io null` does
all but write. Each limit (of data, of addresses, of a cgroup) is set beside a run with `--io load`, which reads
everything first: it has to fail, or the limit would prove nothing. Growth is told by bytes, never by time.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import chain
import make_encoder
import peaks
import wire
from conftest import ALL, program, sampled

MIB = 1 << 20
BUDGET = 64 * MIB  # --memory 48 MiB and 16 MiB of program
LOADED = 1 << 30  # what the control arm takes at least, of a 2.4 GB model
ROW_BYTES = 150  # of the index, for a node or initializer, beside its names
LARGEST = 24_000_000_000 if ALL else 5_000_000_000  # of an encoder


@dataclass
class Measured:
    code: int
    said: str
    peak: int
    report: dict

    @property
    def index(self):
        return self.report["weir"]["index_bytes"]

    @property
    def beside_index(self):
        return self.peak - self.index


def measure(*words, limits=None):
    """Run a writing command; gives its peak and its report ({} if it wrote none)."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        done = peaks.run([program("WEIR"), *words, "--report-json", path], limits=limits, timeout=300)
        report = json.loads(path.read_text()) if path.exists() else {}
    return Measured(done.code, done.out + done.err, done.peak_bytes, report)


def rewrite_nowhere(source, *options, limits=None):
    return measure(
        "conv2matmul", source, "-o", source.with_name("nowhere.onnx"), "--io", "null", *options, limits=limits
    )


@pytest.fixture(scope="module")
def sparse_encoders(large_folder):
    """0.2, 2.4 and 5 GB (--all: 24) of layers at full width, nearly all of it holes."""
    paths = {}
    for size in (200_000_000, 2_400_000_000, LARGEST):
        paths[size] = large_folder / f"sparse-{size}" / "encoder-model.onnx"
        paths[size].parent.mkdir()
        make_encoder.make_encoder(paths[size], make_encoder.Shape(), size=size, sparse=True)
    yield paths
    for path in paths.values():
        shutil.rmtree(path.parent)


# ---- the encoder


@pytest.mark.slow
def test_full_encoder(weir, full_encoder, result_folder):
    """2.4 GB of real bytes, written, hashed, audited: each within the budget."""
    out = result_folder / "out.onnx"
    found = measure("conv2matmul", full_encoder, out)
    assert found.code == 0, found.said
    assert found.peak <= BUDGET + found.index, (found.peak, found.index)
    assert found.index < 8 * MIB
    assert found.report["weir"]["peak_memory_bytes"] <= found.peak
    audited = peaks.run([program("WEIR"), "audit", out], timeout=300)
    assert audited.code == 0 and audited.peak_bytes <= BUDGET, (audited.peak_bytes, audited.err)


@pytest.mark.slow
def test_same_memory_at_any_size(sparse_encoders):
    """0.2 and 5 GB (--all: 0.2, 2.4 and 24): what is beside the index is the same within ± 2 MiB."""
    found = {size: rewrite_nowhere(path) for size, path in sparse_encoders.items() if ALL or size != 2_400_000_000}
    assert all(each.code == 0 for each in found.values()), [each.said for each in found.values()]
    assert all(each.report["converted"] == 2 + 2 * layers_of(size) for size, each in found.items())
    beside = [each.beside_index for each in found.values()]
    assert max(beside) - min(beside) <= 4 * MIB, beside
    assert all(each.peak <= BUDGET + each.index for each in found.values()), beside


def layers_of(size):
    return make_encoder.fit(make_encoder.Shape(), size, narrow=False).layers


@pytest.mark.parametrize(
    "options", [["--jobs", "1"], ["--jobs", "4"], ["--memory", "16MiB"], ["--io", "sync"], ["--io", "uring"]]
)
def test_options_keep_the_bound(medium_encoder, result_folder, options):
    """Any number of workers shares the one budget, and a smaller budget is a smaller peak."""
    found = measure("conv2matmul", medium_encoder, result_folder / "out.onnx", *options)
    assert found.code == 0, found.said
    budget = 32 * MIB if "--memory" in options else BUDGET
    assert found.peak <= budget + found.index, (found.peak, found.index)


def huge_weight(folder, c_out, c_in):
    """One pointwise Conv whose weight is a hole of c_out × c_in floats."""
    weight = wire.tensor("w", wire.FLOAT, (c_out, c_in, 1), pairs=wire.external("w.bin", 0, 4 * c_out * c_in))
    graph = wire.graph(
        [wire.node("Conv", ["x", "w"], ["y"])],
        [weight],
        [("x", wire.FLOAT, [1, c_in, "t"])],
        [("y", wire.FLOAT, [1, c_out, "t"])],
    )
    (folder / "huge.onnx").write_bytes(wire.model(graph))
    with open(folder / "w.bin", "wb") as file:
        file.truncate(4 * c_out * c_in)
    return folder / "huge.onnx"


@pytest.mark.slow
@pytest.mark.parametrize(
    "dims",
    [pytest.param((8192, 8192), marks=pytest.mark.long), (64, 1_048_576), pytest.param((65536, 1024), marks=pytest.mark.long), (1_000_000, 64)],
    ids=["square", "wide", "tall", "taller"],
)
def test_one_huge_tensor(tmp_path, dims):
    """256 MiB to be transposed: the peak knows nothing of it, and no byte is asked for more than twice."""
    source = huge_weight(tmp_path, *dims)
    found = rewrite_nowhere(source)
    assert found.code == 0 and found.report["converted"] == 1, found.said
    assert found.peak <= BUDGET + found.index, found.peak
    assert found.report["weir"]["source_bytes_read"] <= 2.1 * 4 * dims[0] * dims[1]
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("io, memory", sampled(["sync", "auto"], ["8MiB", "48MiB"], every=2))
def test_tall_weight(weir, tmp_path, io, memory):
    """More rows than fit as whole lines: short fragments of each, picked from windows, are the same elements."""
    rows, columns = 600_011, 37
    source = huge_weight(tmp_path, rows, columns)
    weight = np.random.default_rng(7).random((rows, columns), dtype=np.float32)
    (tmp_path / "w.bin").write_bytes(weight.tobytes())
    report = weir.report("conv2matmul", source, tmp_path / "out.onnx", "--io", io, "--memory", memory, "--jobs", "2")
    assert report["weir"]["source_bytes_read"] <= 2.1 * weight.nbytes
    assert (tmp_path / "out.onnx.data").read_bytes() == weight.T.tobytes()
    shutil.rmtree(tmp_path)


def wide_weight(folder, rows, columns):
    """One MatMul whose weight is a hole of rows × columns floats."""
    weight = wire.tensor("w", wire.FLOAT, (rows, columns), pairs=wire.external("w.bin", 0, 4 * rows * columns))
    graph = wire.graph(
        [wire.node("MatMul", ["x", "w"], ["y"])],
        [weight],
        [("x", wire.FLOAT, ["n", rows])],
        [("y", wire.FLOAT, ["n", columns])],
    )
    (folder / "wide.onnx").write_bytes(wire.model(graph))
    with open(folder / "w.bin", "wb") as file:
        file.truncate(4 * rows * columns)
    return folder / "wide.onnx"


def quantize_nowhere(source, *options):
    return measure("quantize", source, "-o", source.with_name("nowhere.onnx"), "--io", "null", *options)


@pytest.mark.parametrize("block", sampled([128, 64, 32], every=3))
def test_scales_that_are_not_kept_cost_one_more_read(tmp_path, block):
    """256 MiB with a budget of 4 MiB: as many times too large for it as 4 GiB is for the default."""
    source = wide_weight(tmp_path, 4096, 16384)
    found = quantize_nowhere(source, "--memory", "4MiB", "--jobs", "1", "--block-size", str(block))
    assert found.code == 0, found.said
    assert found.report["weir"]["source_bytes_read"] <= 2.1 * 4 * 4096 * 16384


@pytest.mark.parametrize(
    "words", [pytest.param(("shrink",), marks=pytest.mark.long), ("quantize", "--format", "qdq", "--block-size", "channel")], ids=["shrink", "channel"]
)
def test_ranges_are_found_once_for_all_workers(tmp_path, words):
    """The codes of one weight are made in three units, by two workers: one of them reads it for its ranges."""
    source = wide_weight(tmp_path, 8192, 16384)
    where = ("-o", source.with_name("nowhere.onnx"), "--io", "null", "--jobs", "2")
    found = measure(*words, source, *where)
    assert found.code == 0, found.said
    assert found.report["weir"]["source_bytes_read"] <= 2.1 * 4 * 8192 * 16384
    # The control: two workers with no memory left to tell each other.
    alone = measure(*words, source, *where, "--memory", "4MiB")
    assert alone.code == 0, alone.said
    assert alone.report["weir"]["source_bytes_read"] >= 3 * 4 * 8192 * 16384


@pytest.mark.parametrize("options", [*(pytest.param(each, marks=pytest.mark.long) for each in ((), ("--symmetric",))), ("--symmetric", "--memory", "8MiB")], ids=" ".join)
def test_codes_of_whole_columns_are_made_once(tmp_path, options):
    """512 MiB: a read for the ranges, and one for codes and figures, though codes without zero points lie transposed."""
    source = wide_weight(tmp_path, 8192, 16384)
    found = quantize_nowhere(source, "--format", "qdq", "--block-size", "channel", *options)
    assert found.code == 0, found.said
    assert found.report["weir"]["source_bytes_read"] <= 2.1 * 4 * 8192 * 16384


@pytest.mark.slow
@pytest.mark.parametrize(
    "passes, most",
    [pytest.param(("quantize",), 1.02, marks=pytest.mark.long), (("quantize:format=qdq",), 1.02), pytest.param(("shrink",), 2.1, marks=pytest.mark.long)],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "",
)
def test_reads_of_an_encoder(sparse_encoders, passes, most):
    """Weights of convolutions too, whose codes lie transposed: their figures take no read of their own."""
    source = sparse_encoders[2_400_000_000]
    words = [word for each in ("conv2matmul:extended_conv1x1=true", *passes) for word in ("--pass", each)]
    found = measure("run", source, source.with_name("nowhere.onnx"), *words, "--io", "null")
    assert found.code == 0, found.said
    assert found.peak <= BUDGET + found.index, found.peak
    total = sum(each.stat().st_size for each in source.parent.iterdir())
    assert found.report["weir"]["source_bytes_read"] <= most * total


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(options, marks=pytest.mark.long)
        for options in (
            ("--block-size", "16"),
            ("--format", "qdq"),
            ("--block-size", "128"),
            ("--block-size", "32"),
            ("--block-size", "16", "--bits", "8"),
            ("--block-size", "32", "--bits", "8"),
            ("--format", "qdq", "--block-size", "32"),
        )
    ],
    ids=" ".join,
)
def test_quantize_one_weight_of_4_gib(tmp_path, options):
    """Blocks of 16: their zero points alone are more than the memory keeps. qdq: a block row of 65536 columns is larger
    than the memory, so its codes are made stripe by stripe, while its error figures go by the order of the codes."""
    source = wide_weight(tmp_path, 16384, 65536)
    found = quantize_nowhere(source, *options)
    assert found.code == 0, found.said
    assert found.peak <= BUDGET + found.index, found.peak
    assert found.report["weir"]["source_bytes_read"] <= 2.1 * 4 * 16384 * 65536


@pytest.mark.parametrize("options", [pytest.param(("--block-size", "16"), marks=pytest.mark.long), ("--format", "qdq")], ids=" ".join)
def test_quantize_one_weight_that_is_as_many_times_too_large(tmp_path, options):
    """1 GiB, a quarter of the weight above and of its columns, with a quarter of the default memory."""
    source = wide_weight(tmp_path, 16384, 16384)
    found = quantize_nowhere(source, *options, "--memory", "12MiB")
    assert found.code == 0, found.said
    assert found.peak <= 28 * MIB + found.index, found.peak
    assert found.report["weir"]["source_bytes_read"] <= 2.1 * 4 * 16384 * 16384


def test_workers_are_foreseen(sparse_encoders, result_folder):
    """More than there are units where these can be made in parts; a dry run says as many as a run has."""
    jobs = {}
    for io in ("sync", "null"):
        words = ("convert", sparse_encoders[200_000_000], result_folder / f"{io}.onnx", "--io", io)
        words += ("--jobs", "16", "--memory", "96MiB")
        dry, done = measure(*words, "--dry-run"), measure(*words)
        assert done.code == dry.code == 0, done.said
        assert dry.report["weir"]["jobs"] == done.report["weir"]["jobs"]
        jobs[io] = (done.report["weir"]["jobs"], done.report["weir"]["units"])
    assert jobs["sync"][0] == 16 and jobs["null"][0] == jobs["null"][1] < 16


def test_reported_peak_is_our_own(small_encoder, result_folder):
    """The figure in the report is this program's, whatever the one that started it took before."""
    ballast = bytearray(300 * MIB)
    ballast[::4096] = b"x" * len(ballast[::4096])
    words = [program("WEIR"), "convert", small_encoder, result_folder / "out.onnx", "--json"]
    done = subprocess.run(
        words, capture_output=True, text=True, preexec_fn=lambda: None
    )  # fork, not vfork: its peak is inherited
    assert json.loads(done.stdout)["weir"]["peak_memory_bytes"] < 64 * MIB, len(ballast)


# ---- limits, each with its control arm


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{"data": 64 * MIB}, {"as": 512 * MIB}], ids=["data 64 MiB", "addresses 512 MiB"])
def test_under_a_limit(sparse_encoders, limits):
    source = sparse_encoders[2_400_000_000]
    found = rewrite_nowhere(source, limits=limits)
    assert found.code == 0 and found.report["converted"] == 50, found.said
    control = measure("conv2matmul", source, "-o", source.with_name("nowhere.onnx"), "--io", "load", limits=limits)
    assert control.code != 0 and control.report == {}, "the control arm lives under the limit"
    assert not source.with_name("nowhere.onnx").exists()


@pytest.mark.slow
def test_written_under_a_limit_of_data(full_encoder, result_folder):
    """The same with real bytes on a real disk, and io_uring where there is one."""
    found = measure("conv2matmul", full_encoder, result_folder / "out.onnx", limits={"data": 64 * MIB})
    assert found.code == 0, found.said


@pytest.mark.slow
def test_control_arm_takes_the_model_s_size(sparse_encoders, result_folder):
    """Without a limit `--io load` works, and takes what a loader takes: the measurement can tell the two apart."""
    found = measure("conv2matmul", sparse_encoders[2_400_000_000], result_folder / "out.onnx", "--io", "load")
    assert found.code == 0, found.said
    assert found.peak > LOADED


def own_group(controller):
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path.lstrip("/")
    return None


def memory_group(limit):
    """A cgroup with a memory limit (v2, else v1), or the reason why there is none."""
    name = f"weir-e2e-{os.getpid()}"
    v2, v1 = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory")
    places = []
    if own_group("") is not None and (v2 / "cgroup.controllers").exists():
        places.append((v2 / own_group("") / name, "memory.max"))
    if own_group("memory") is not None:
        places.append((v1 / own_group("memory") / name, "memory.limit_in_bytes"))
    reason = "no memory controller"
    for group, knob in places:
        try:
            group.mkdir()
            try:
                (group / knob).write_text(str(limit))
                return group, None
            except OSError as error:
                group.rmdir()
                reason = str(error)
        except OSError as error:
            reason = str(error)
    return None, reason


@pytest.fixture
def group():
    made, reason = memory_group(128 * MIB)
    if made is None:
        pytest.skip(f"no cgroup can be made: {reason}")
    yield made
    made.rmdir()


def run_in(group, *words):
    script = 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"'
    return peaks.run(["sh", "-c", script, "sh", group, program("WEIR"), *words], timeout=300)


@pytest.mark.slow
def test_in_a_cgroup(group, sparse_encoders, result_folder):
    """128 MiB for process and page cache together, writing included; the control arm is killed."""
    source, out = sparse_encoders[2_400_000_000], result_folder / "out.onnx"
    done = run_in(group, "conv2matmul", source, out)
    assert done.code == 0, done.err
    out.unlink()
    control = run_in(group, "conv2matmul", source, result_folder / "control.onnx", "--io", "load")
    assert control.code != 0, "the control arm lives in the group"
    assert not (result_folder / "control.onnx").exists()


# ---- the index


@pytest.fixture(scope="module")
def chains(large_folder):
    """Chains of 1 000 to 1 000 000 nodes and as many initializers."""
    folder = large_folder / "chains"
    folder.mkdir()
    paths = {}
    for count in (1_000, 10_000, 100_000, 1_000_000):
        paths[count] = folder / f"chain-{count}.onnx"
        chain.make_chain(paths[count], count)
    yield paths
    shutil.rmtree(folder)


def plan_only(path):
    return measure("conv2matmul", path, "--dry-run")


def name_bytes(count):
    """Names of a chain: x… and w…, with what ends each."""
    return (2 * count + 1) * (max(6, len(str(count))) + 2)


@pytest.mark.slow
def test_a_million_nodes(chains):
    found = plan_only(chains[1_000_000])
    assert found.code == 0, found.said
    assert found.peak <= 400_000_000, found.peak
    rows = 2_000_000
    assert found.index - name_bytes(1_000_000) <= ROW_BYTES * rows, (found.index - name_bytes(1_000_000)) / rows


def test_index_grows_with_the_rows(chains):
    """From a thousand on, the bytes a row do not grow (tables double, so a row may have up to twice its size)."""
    each = {count: plan_only(path).index / count for count, path in chains.items()}
    assert each[1_000_000] <= 2 * min(each.values()), each
    assert each[100_000] <= 2 * each[1_000], each


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", pytest.param("inspect", marks=pytest.mark.long)])
def test_looking_at_a_million_nodes(chains, command):
    done = peaks.run([program("WEIR"), command, chains[1_000_000]], timeout=300)
    inferred = 90_000_000 if command == "check" else 0  # what it knows of a million values, and their types
    assert done.code == 0 and done.peak_bytes <= 400_000_000 + inferred, (done.peak_bytes, done.err)


@pytest.mark.slow
def test_converting_a_million_nodes(chains, result_folder):
    """Planning, emission and copying of a large .onnx, byte for byte."""
    found = measure("convert", chains[1_000_000], result_folder / "out.onnx")
    assert found.code == 0 and found.peak <= 400_000_000, (found.peak, found.said)
    assert (result_folder / "out.onnx").read_bytes() == chains[1_000_000].read_bytes()


@pytest.mark.slow
def test_listing_a_million_tensors(chains, result_folder):
    """Their digests are 185 MB of text, which goes to its file as it comes about."""
    found = measure("convert", chains[1_000_000], result_folder / "out.onnx", "--tensor-digests")
    assert found.code == 0 and found.beside_index <= BUDGET, (found.beside_index, found.said)
    listed = result_folder / "out.onnx.tensors.jsonl"
    assert listed.stat().st_size > 2 * BUDGET
    manifest = json.loads((result_folder / "out.onnx.manifest.json").read_text())
    assert manifest["predicate"]["x_weir"]["tensors_sha256"] == hashlib.sha256(listed.read_bytes()).hexdigest()
