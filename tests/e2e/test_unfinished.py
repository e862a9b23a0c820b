"""Commands that read a model whose run was killed between its last renames, while its data has two names: each says so
and how to go on, unless it can read the model as it is."""

import os
import shutil
import signal

import pytest

from test_given_up import SOURCE, is_sealing
from test_resume import staging_folders

OLD = ["convert", SOURCE]
NEW = ["conv2matmul", SOURCE]
READING = {
    "check": ["check"],
    "inspect": ["inspect"],
    "convert": ["convert", "-o", "elsewhere.onnx"],
    "dry run": ["quantize", "--dry-run"],
    "measure": ["measure"],
    "shrink": ["shrink", "--info"],
    "audit": ["audit"],
}


def killed(weir, weir_fault, folder, split=()):
    """A folder for every kill of the seal that left a data file of the .onnx with two names."""
    base = folder / "base"
    weir(*OLD, base / "m.onnx", *split)
    for number in range(1, 200):
        here = folder / f"kill-{number}"
        shutil.copytree(base, here)
        done = weir_fault(*NEW, here / "m.onnx", "--force", *split, env={"WEIR_FAULT": f"kill:{number}"}, code=None)
        if done.code == 0:
            return
        assert done.code == -signal.SIGKILL, done.said
        if is_sealing(here) and (here / "m.onnx").read_bytes() != (base / "m.onnx").read_bytes():
            if any(each.stat().st_nlink > 1 for each in here.glob("m.o*")):
                yield here
        shutil.rmtree(here)


@pytest.mark.parametrize("what", READING)
def test_what_is_read_says_so(weir, weir_fault, quick_folder, what):
    count = 0
    command, *more = READING[what]
    for here in killed(weir, weir_fault, quick_folder):
        done = weir(command, here / "m.onnx", *more, code=None, cwd=here)
        [staging] = staging_folders(here)
        said = " ".join(done.said.split())
        assert done.code == (0 if what == "inspect" else 75), done.said
        assert "the run that wrote it was interrupted before the last files were moved into place" in said
        assert f"(they are in '{staging.name}')" in said and f"weir clean {here} shows it" in said
        assert "--allow-links" not in said and "hard link" not in said
        count += 1
    assert count > 3


def test_check_says_it_once(weir, weir_fault, quick_folder):
    """Of several data files; as a document, too."""
    for here in killed(weir, weir_fault, quick_folder, ("--split", "100K")):
        [fault] = weir("check", here / "m.onnx", "--json", code=75).json()["faults"]
        assert fault["place"] == "" and "was interrupted" in fault["message"], fault
        assert weir("check", here / "m.onnx", code=75).out.endswith("m.onnx: 1 error, 0 warnings, 0 notes\n")
        break
    else:
        pytest.fail("no data file ever had two names")


def test_a_link_is_still_a_link(weir, tmp_path):
    """Without an interrupted run, or with one of another model: two names are not ours to explain."""
    weir("convert", SOURCE, tmp_path / "m.onnx")
    os.link(tmp_path / "m.onnx.data", tmp_path / "twin")
    (tmp_path / ".other.onnx.0123456789abcdef.weir").mkdir()
    (tmp_path / ".other.onnx.0123456789abcdef.weir" / "seal.json").write_text("{}")
    for words in (["check"], ["convert", "-o", tmp_path / "o.onnx"]):
        done = weir(words[0], tmp_path / "m.onnx", *words[1:], code=77)
        assert "is a hard link: the file has 2 names" in done.said and "use --allow-links" in done.said
