"""compare_builds.py sees what is different between two programs, and says nothing where nothing is."""

import pytest

import compare_builds
from conftest import program

CASE = "conv2matmul/special-shared_weight/extended"
# Another log, and a replay that makes other files of the old one.
OTHER_LOG = "[ $1 = conv2matmul ] && sed -i 's/reason/raison/' edits.jsonl; [ $1 = replay ] && printf X >> again/out.onnx"

# A log that is whole, with other words in it.
OTHER_REASONS = r"""{
head -n -1 edits.jsonl | sed 's/"reason":"/&a_/' > body
sum=$(sha256sum < body | cut -c 1-64)
tail -n 1 edits.jsonl | sed "s/[0-9a-f]\{64\}/$sum/" | cat body - > other && mv other edits.jsonl && rm body
}"""


@pytest.fixture
def spoiled(tmp_path):
    """A program that does what weir does, and then runs a line of shell in the folder of the outputs."""

    def make(line):
        path = tmp_path / "spoiled"
        path.write_text(f'#!/bin/sh\n"{program("WEIR")}" "$@"\ncode=$?\n{line}\nexit $code\n')
        path.chmod(0o755)
        return path

    return make


def compared(new, *options):
    return compare_builds.main([program("WEIR"), str(new), "--only", CASE, *options])


def test_a_program_and_itself(capsys):
    assert compared(program("WEIR"), "--strict") == 0
    assert "1 same" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line, kind",
    [
        ("[ -f out.onnx ] && printf X | dd of=out.onnx bs=1 seek=90 conv=notrunc status=none", "model"),
        ("[ -f out.onnx.tensors.jsonl ] && sed -i 's/\"sha256\":.\"..../\"sha256\":[\"0000/' out.onnx.tensors.jsonl", "tensor digest"),
        ("sed -i 's/\"digest\":\"..../\"digest\":\"0000/' out.onnx.manifest.json", "unit digest"),
        ('[ "$1" = audit ] && code=70', "exit code"),
        (OTHER_LOG, "old log"),
    ],
)
def test_what_must_not_be(spoiled, capsys, line, kind):
    assert compared(spoiled(line)) == 1
    out = capsys.readouterr().out
    assert f"DIFFERENT  {CASE}: " in out and f"\n    {kind}: " in out, out


@pytest.mark.parametrize(
    "line, kind",
    [
        (OTHER_REASONS, "edit log"),
        ("sed -i 's/\"plan_id\":\"..../\"plan_id\":\"0000/' out.onnx.manifest.json", "manifest ids"),
        ("sed -i 's/reason/raison/' report.json", "report"),
        ("echo more >&2", "stderr"),
    ],
)
def test_what_is_only_told(spoiled, capsys, line, kind):
    assert compared(spoiled(f"[ $1 = conv2matmul ] && {line}")) == 0
    assert f"differs    {CASE}: " in (out := capsys.readouterr().out) and f"    {kind}: " in out, out
    assert compared(spoiled(f"[ $1 = conv2matmul ] && {line}"), "--strict") == 1


def test_what_depends_on_the_machine_is_no_difference(spoiled, capsys):
    line = "[ -f report.json ] && sed -i 's/\"peak_memory_bytes\": */&9/' report.json"
    assert compared(spoiled(line), "--strict") == 0, capsys.readouterr().out
