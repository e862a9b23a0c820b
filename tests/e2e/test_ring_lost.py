"""io_uring that stops working in the middle of a run: `--io auto` goes on without it, to the same bytes.

WEIR_FAULT_IO (io_fault_engine.h) loses the ring at the nth operation handed to it or waited for; what it had then is
left in the kernel's hands.
"""

import itertools
import json

import pytest

SAID = "weir: io_uring stopped working during the run"


def run(weir_fault, source, folder, io, fault, code=0):
    folder.mkdir(exist_ok=True)
    words = ("--io", io, "--jobs", "1", "--report-json", folder / "report.json", "--force")
    env = {"WEIR_FAULT_IO": fault} if fault else {}
    done = weir_fault("conv2matmul", source, folder / "out.onnx", *words, env=env, code=code)
    return done, json.loads((folder / "report.json").read_text())["weir"] if done.code == 0 else None


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name.startswith("out.onnx") and "report" not in p.name}


@pytest.mark.parametrize("fault", ["submit:{}:EPERM", "wait:{}:EIO", "write:{}:EOPNOTSUPP"])
def test_auto_goes_on_without_a_lost_ring(weir_fault, small_encoder, tmp_path, fault):
    done, report = run(weir_fault, small_encoder, tmp_path / "whole", "auto", None)
    if report["io"] != "uring":
        pytest.skip("no io_uring here")
    assert "io_uring" not in done.err
    whole = files(tmp_path / "whole")
    assert len(whole) > 1
    lost = 0
    for number in itertools.chain([1, 2, 3], itertools.count(5, 7)):
        done, report = run(weir_fault, small_encoder, tmp_path / "lost", "auto", fault.format(number))
        assert files(tmp_path / "lost") == whole
        if report["io"] == "uring":  # the control: so many operations there are not
            assert SAID not in done.err
            break
        lost += 1
        assert report["io"] == "uring, then sync"
        assert done.err.count(SAID) == 1
    assert lost >= 3


@pytest.mark.parametrize("fault", ["submit:2:EPERM", "wait:2:EIO"])
def test_a_ring_asked_for_by_name_ends_the_run(weir_fault, small_encoder, tmp_path, fault):
    done, report = run(weir_fault, small_encoder, tmp_path / "whole", "auto", None)
    if report["io"] != "uring":
        pytest.skip("no io_uring here")
    done, _ = run(weir_fault, small_encoder, tmp_path / "lost", "uring", fault, code=None)
    assert done.code in (74, 77)
    assert "io_uring stopped working during the run: " in done.err and "--io=auto" in done.err
    assert not (tmp_path / "lost" / "out.onnx").exists()


def test_the_notice_comes_once_whatever_the_workers(weir_fault, small_encoder, tmp_path):
    whole, report = run(weir_fault, small_encoder, tmp_path / "whole", "auto", None)
    if report["io"] != "uring":
        pytest.skip("no io_uring here")
    folder = tmp_path / "lost"
    folder.mkdir()
    done = weir_fault(
        "conv2matmul", small_encoder, folder / "out.onnx", "--jobs", "4", env={"WEIR_FAULT_IO": "submit:1:persist:EPERM"}
    )
    assert done.err.count(SAID) == 1
    assert files(folder) == files(tmp_path / "whole")
