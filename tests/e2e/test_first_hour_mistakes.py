"""The first hour, continued: what goes wrong at a shell (test_first_hour.py says what this is about).

Slips on the command line, files that are something else, folders and disks that take nothing, names that shells and
programs trip over, links. Every refusal has to have its exit code, be one plain line and at most one hint, name what is
wrong, and leave the folder as it was: Shell.refused holds them all to that.
"""

import gzip
import shutil
import subprocess
import zipfile

import onnx
import pytest

import compare
from conftest import as_user

# ---- slips on the command line

SLIPS = {
    # what was typed: the exit code, and what the answer has to have in it
    "weir quantise encoder.onnx o": (2, "'quantise'", "weir quantize"),
    "weir inpect encoder.onnx": (2, "'inpect'", "weir inspect"),
    "weir --hlep": (2, "--hlep", "--help"),
    "weir -v": (2, "-v", "--version"),
    "weir quantize --hlep": (2, "--hlep", "--help"),
    "weir quantize": (2, "IN", "weir quantize IN"),
    "weir quantize -o p.onnx": (2, "IN", "weir quantize IN"),
    "weir quantize encoder.onnx": (2, "--inplace", "usage: weir quantize IN [OUT]", "-o encoder.int4.onnx"),
    "weir quantize encoder.onnx o extra.onnx": (2, "'extra.onnx'", "weir quantize IN"),
    "weir quantize encoder.onnx o --blocksize 32": (2, "--blocksize", "--block-size"),
    "weir quantize encoder.onnx o --block_size 32": (2, "--block_size", "--block-size"),
    "weir quantize encoder.onnx o --block-size 33": (2, "'33'", "--block-size", "32"),
    "weir quantize encoder.onnx o --block-size": (2, "--block-size", "128"),
    "weir quantize encoder.onnx o --block-size channel": (2, "channel", "--format qdq"),
    "weir quantize encoder.onnx o --bits=5": (2, "'5'", "--bits"),
    "weir quantize encoder.onnx o --bits 4bit": (2, "'4bit'", "--bits"),
    "weir quantize encoder.onnx o --symetric": (2, "--symetric", "--symmetric"),
    "weir quantize encoder.onnx o --asymmetric": (2, "--asymmetric", "leave out --symmetric"),
    "weir quantize encoder.onnx o --symmetric=yes": (2, "--symmetric", "'yes'"),
    "weir quantize encoder.onnx o --format QDC": (2, "'QDC'", "qdq"),
    "weir quantize encoder.onnx o --algorithm kquant": (2, "'kquant'", "k_quant"),
    "weir quantize encoder.onnx o --algorithm hqq --bits 8": (2, "hqq", "4 bits"),
    "weir quantize encoder.onnx o --op-types Matmul,Conv": (2, "'Conv'", "for --op-types:", "Gather"),
    "weir run encoder.onnx o --pass quantize:op-types=Conv": (2, "'Conv'", "for op_types:", "Gather"),
    "weir run encoder.onnx o --pass quantize:block_size=3": (2, "'3'", "for block_size:", "32"),
    "weir quantize encoder.onnx o --budget 4MBB": (2, "'4MBB'", "400M"),
    "weir quantize encoder.onnx o.onnx --budget 1": (1, "1 byte ", "add candidates"),
    "weir quantize encoder.onnx o --gate snr=30dB": (2, "snr=30dB", "sqnr"),
    "weir quantize encoder.onnx o --gate sqnr=high": (2, "sqnr=high", "sqnr=20dB"),
    "weir quantize encoder.onnx o --gate-action skip": (2, "gate-action", "gate"),
    "weir quantize encoder.onnx o --candidates 4:64": (2, "candidates", "budget"),
    "weir quantize encoder.onnx o --budget 1M --candidates 3:64": (2, "'3:64'", "4:64"),
    "weir quantize encoder.onnx o --tensor '*=bits3'": (2, "bits3", "bits4"),
    "weir quantize encoder.onnx o --accuracy-level 9": (2, "accuracy", "4"),
    "weir quantize encoder.onnx o --memory abc": (2, "'abc'", "--memory"),
    "weir quantize encoder.onnx o --memory 1K": (2, "--memory", "MiB"),
    "weir quantize encoder.onnx o --jobs 0": (2, "'0'", "--jobs"),
    "weir quantize encoder.onnx o --jobs many": (2, "'many'", "--jobs"),
    "weir quantize encoder.onnx o --progress=loud": (2, "'loud'", "plain"),
    "weir quantize encoder.onnx -": (2, "pipe", "./-"),
    "weir quantize encoder.onnx p.onnx -o q.onnx": (2, "p.onnx", "q.onnx"),
    "weir quantize encoder.onnx -o p.onnx -o q.onnx": (2, "--output is given twice: 'p.onnx' and 'q.onnx'"),
    "weir convert encoder.onnx o --plan-out=a --plan-out b": (2, "--plan-out is given twice: 'a' and 'b'"),
    "weir quantize encoder.onnx o --exclude A B": (2, "'B'", "--exclude takes one", "--exclude 'B'"),
    "weir quantize encoder.onnx o --exclude=A B": (2, "'B'", "--exclude 'B'"),
    "weir check encoder.onnx encoder.onnx": (2, "weir check MODEL", 'for m in *.onnx; do weir check "$m"; done'),
    "weir measure encoder.onnx encoder.onnx": (2, 'for m in *.onnx; do weir measure "$m"; done'),
    "weir quantize encoder.onnx q.onnx --inplace": (2, "--inplace"),
    "weir inspect encoder.onnx --dry-run": (2, "--dry-run", "weir inspect"),
    "weir audit encoder.onnx --allow-links": (2, "--allow-links", "weir audit"),
    "weir run encoder.onnx o": (2, "--pass", "weir passes"),
    "weir run encoder.onnx o --bits 4": (2, "--bits", "--pass quantize:bits"),
    "weir run encoder.onnx o --pass quantise": (2, "'quantise'", "'quantize'"),
    "weir run encoder.onnx o --pass quantize:blocksize=3": (2, "blocksize", "block_size"),
    "weir run encoder.onnx o --pass quantize:symmetric=yes": (2, "'yes'", "true"),
    "weir cast encoder.onnx o": (2, "--to", "float16"),
    "weir cast encoder.onnx o --to int8": (2, "'int8'", "float16"),
    "weir shrink encoder.onnx --levels 3": (2, "levels", "float_weights"),
    "weir shrink encoder.onnx small.onnx": (66, "'small.onnx'", "-o small.onnx"),
    "weir convert encoder.onnx o --inline --external": (2, "--inline", "--external"),
    "weir convert encoder.onnx o --align 3": (2, "'3'", "--align"),
    "weir convert encoder.onnx o --data-file a/b": (2, "'a/b'", "--data-file"),
    "weir measure encoder.onnx out.csv": (2, "'out.csv'", "weir measure IN"),
    "weir passes nosuch": (2, "'nosuch'", "weir passes"),
    "weir clean": (2, "DIR", "weir clean DIR"),
    "weir clean nothere": (66, "'nothere'"),
    "weir replay encoder.onnx log.jsonl out": (65, "'encoder.onnx'", "EDITS IN"),
    "weir run encoder.onnx o --config nothere.yaml": (66, "'nothere.yaml'"),
    "weir inspect ../desk/encoder.onx": (66, "'../desk/encoder.onx'"),
    "weir audit nothere.onnx": (66, "'nothere.onnx'"),
    "weir audit encoder.onnx": (66, "encoder.onnx.manifest.json", "--no-manifest"),
    "weir audit encoder.onnx.data": (66, "give the .onnx", "weir audit encoder.onnx"),
    "weir audit .": (66, "'.'", "is a folder", "manifest"),
    "weir measure .": (66, "'.'", "folder"),
    "weir quantize . o.onnx": (66, "'.'", "folder"),
}


@pytest.mark.parametrize("line", SLIPS)
def test_a_slip_on_the_command_line(desk, line):
    code, *mentioned = SLIPS[line]
    desk.refused(line, code, *mentioned)


def test_words_that_could_be_meant(desk):
    """Slips that say clearly what is wanted are taken: other cases of a word, names from other tools."""
    desk("weir quantize encoder.onnx a.onnx --format QDQ --block-size 32 && weir cast encoder.onnx b.onnx --to fp16")
    desk("weir quantize encoder.onnx d.onnx -o d.onnx --bits 8 --bits 4", code=2)
    desk("weir quantize encoder.onnx -o d.onnx -o d.onnx --bits 8 --bits 4 --block-size 32 | grep '4 bits'")
    desk("weir quantize encoder.onnx c.onnx --op-types matmul --block-size 32 && weir version && weir help quantize && weir -V")
    assert "weir COMMAND" in desk("weir", code=2).err


# ---- files that are something else


def elsewhere(content):
    return lambda desk: (desk / "x.onnx").write_bytes(content)


def zipped(desk):
    with zipfile.ZipFile(desk / "x.onnx", "w") as file:
        file.write(desk / "encoder.onnx", "encoder.onnx")


def zeroed_tail(desk):
    whole = (desk / "encoder.onnx").read_bytes()
    (desk / "x.onnx").write_bytes(whole[: len(whole) // 2] + bytes(len(whole) // 2))


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 2055424\n" % (b"0" * 64)
HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"
OTHERS = {
    "text": (elsewhere(b"hello\n"), "text"),
    "web page": (elsewhere(HTML), "web page"),
    "LFS pointer": (elsewhere(LFS), "git lfs pull"),
    "zip": (zipped, "zip"),
    "gzip": (lambda desk: (desk / "x.onnx").write_bytes(gzip.compress((desk / "encoder.onnx").read_bytes())), "gzip"),
    "GGUF": (elsewhere(b"GGUF\x03\0\0\0" + bytes(60)), "GGUF"),
    "safetensors": (elsewhere(b"\x10\0\0\0\0\0\0\0" + b'{"__metadata__"}' + bytes(32)), "safetensors"),
    "a program": (lambda desk: shutil.copy("/bin/true", desk / "x.onnx"), "not an ONNX model"),
    "zeros": (elsewhere(bytes(5000)), "download"),
    "a zeroed tail": (zeroed_tail, "x.onnx"),
    "nothing": (elsewhere(b""), "empty"),
    "weights": (lambda desk: shutil.copy(desk / "encoder.onnx.data", desk / "x.onnx"), "x.onnx"),
    "cut": (lambda desk: (desk / "x.onnx").write_bytes((desk / "encoder.onnx").read_bytes()[:77777]), "cut off"),
    "JSON": (elsewhere(b'{"model": 1}\n'), "not an ONNX model"),
}


TAILS = {
    "ones": b"\xff" * 9,
    "text": b"garbage at end",
    "letters": b"abcdef",
    "a line break": b"\n",
    "zeros": bytes(30),
    "the end of a group": b"\x0c",
}


@pytest.mark.parametrize("name", TAILS)
def test_something_after_the_model(desk, name):
    """It is not a download that ended early; that is said of the same file with its own end cut off."""
    whole = (desk / "encoder.onnx").read_bytes()
    (desk / "x.onnx").write_bytes(whole + TAILS[name])
    for line in ("weir inspect x.onnx", "weir quantize x.onnx o.onnx"):
        said = desk.refused(line, 65, f"the model ends at byte {len(whole)}", "appended")
        assert "cut off" not in said.err
    (desk / "x.onnx").write_bytes(whole[:-1])
    assert "cut off" in desk.refused("weir inspect x.onnx", 65).err


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_that_is_something_else(desk, name):
    make, mentioned = OTHERS[name]
    make(desk)
    for line in ("weir inspect x.onnx", "weir quantize x.onnx o.onnx", "weir measure x.onnx", "weir shrink x.onnx -o o.onnx"):
        desk.refused(line, 65, "x.onnx", mentioned)
    assert mentioned in desk("weir check x.onnx", code=65).said
    assert desk("weir inspect x.onnx --json", code=65).json()["error"]["code"] == 65


@pytest.mark.parametrize(
    "change, code, mentioned",
    [
        ("rm encoder.onnx.data", 66, "missing"),
        ("printf '%s' \"$1\" > encoder.onnx.data", 66, "git lfs pull"),
        ("truncate -s 1000000 encoder.onnx.data", 65, "encoder.onnx.data"),
        ("> encoder.onnx.data", 66, "empty"),
        ("rm encoder.onnx.data; mkdir encoder.onnx.data", 66, "encoder.onnx.data"),
        ("mkdir sub; mv encoder.onnx.data sub", 66, "missing"),
    ],
)  # fmt: skip
def test_a_data_file_that_is_not_what_it_was(desk, change, code, mentioned):
    """The model can be looked at all the same; nothing is made of it."""
    desk(change, words=[LFS.decode()])
    desk("weir inspect encoder.onnx")
    done = desk("weir check encoder.onnx", code=code)
    assert mentioned in done.said and "encoder.onnx.data" in done.said and len(done.said.splitlines()) <= 3
    desk.refused("weir quantize encoder.onnx o.onnx", code, mentioned, "encoder.onnx.data")


# ---- places that take nothing


@pytest.fixture
def ordinary(desk):
    """The desk of somebody who is not root: `ordinary(line)`, as desk(line)."""
    words = as_user(desk.folder.parent, desk / "encoder.onnx")
    if words is None:
        pytest.skip("root may read and write everywhere, and setpriv is not installed")
    *setpriv, copy = words
    desk.folder.chmod(0o777)
    link = desk.folder.parent / "bin" / "weir"
    link.unlink()
    link.write_text("#!/bin/sh\nexec " + " ".join([*setpriv, copy]) + ' "$@"\n')
    link.chmod(0o755)
    return desk


def test_a_folder_that_is_read_only(ordinary):
    ordinary("mkdir closed; cp encoder.onnx* closed; chmod 555 closed")
    refusal = ordinary.refused("weir quantize encoder.onnx closed/o.onnx --block-size 32", 77, "closed")
    planned = ordinary("weir quantize encoder.onnx closed/o.onnx --block-size 32 --dry-run", code=77)
    assert planned.err == refusal.err and "disk needed" in planned.out and "77" in planned.out
    ordinary.refused("weir quantize closed/encoder.onnx --inplace --block-size 32", 77, "closed")
    ordinary.refused("weir quantize encoder.onnx closed/o/o.onnx --block-size 32", 77, "closed")
    ordinary("weir quantize closed/encoder.onnx o.onnx --block-size 32 --quiet && weir audit o.onnx")


def test_a_model_that_may_not_be_read(ordinary):
    ordinary("chmod 000 encoder.onnx")
    ordinary.refused("weir inspect encoder.onnx", 77, "encoder.onnx")
    ordinary("chmod 644 encoder.onnx; chmod 000 encoder.onnx.data")
    shown = ordinary("weir inspect encoder.onnx")
    assert "unreadable encoder.onnx.data: 73 tensors (2.06 MB)" in shown.out and "Permission denied" in shown.out
    assert "Permission denied" in ordinary("weir check encoder.onnx", code=77).out
    ordinary.refused("weir quantize encoder.onnx o.onnx --block-size 32", 77, "encoder.onnx.data")


def test_a_model_that_is_write_protected(ordinary):
    ordinary("cp encoder.onnx m.onnx; chmod 444 m.onnx; chmod 666 encoder.onnx*")
    ordinary.refused("weir quantize encoder.onnx m.onnx --force --block-size 32", 77, "m.onnx", "--force-readonly")
    ordinary.refused("weir quantize m.onnx --inplace --block-size 32", 77, "m.onnx", "--force-readonly")


def test_a_disk_of_400_kb(desk):
    """Seen before a byte is written, in the dry run too; and enough for what fits."""
    small = desk / "small"
    small.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", small], capture_output=True)
    if done.returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        done = desk.refused("weir quantize encoder.onnx small/o.onnx --block-size 32", 73, "kB")
        assert desk("weir quantize encoder.onnx small/o.onnx --block-size 32 --dry-run", code=73).err == done.err
        desk.refused("weir convert encoder.onnx small/o.onnx", 73, "kB")
        assert desk.files("small") == {}
    finally:
        subprocess.run(["umount", small], check=True)


# ---- names

NAMES = ["sp ace", "grüße-模型", "new\nline", "it's", "-dash", "$HOME", "a;b", "*", "ab", "quo\"te", "back\\slash", "per%cent"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_trip_programs_up(desk, name):
    """In, out, audit, and in a hint that is to be typed: of a folder and of a file of that name."""
    (desk / f"{name}.d").mkdir()
    for part in ("encoder.onnx", "encoder.onnx.data"):
        shutil.copy(desk / part, desk / f"{name}.d")
    before = desk.files()
    path = f"./{name}.d/{name}.onnx"
    desk('cd "./$1.d"; weir convert encoder.onnx "./$1.onnx" --inline --no-manifest', words=[name])
    for line in ("weir inspect", "weir check", "weir measure --candidates 4:32", "weir quantize -o ./q.onnx --block-size 32"):
        desk(f'{line} -- "$1" || {line} "$1"', words=[path])
    desk('weir quantize "$1" "${1%.onnx}.q.onnx" --block-size 32 && weir audit "${1%.onnx}.q.onnx"', words=[path])
    refusal = desk('weir quantize "$1" "${1%.onnx}.q.onnx" --block-size 32', code=2, words=[path])
    assert len(refusal.err.splitlines()) == 2 and "\x1b" not in refusal.err
    assert {each: digest for each, digest in desk.files().items() if each in before} == before
    compare.same_meaning(desk / "encoder.onnx", desk / path)


def test_the_same_model_by_other_paths(desk):
    """Absolute, relative, through a folder and back; the same bytes, and the message has what was typed."""
    desk('mkdir a b c x; weir quantize encoder.onnx a/o.onnx --block-size 32; weir quantize "$PWD/encoder.onnx" "$PWD/b/o.onnx" --block-size 32')
    desk("cd x; weir quantize ../x/../encoder.onnx ../c/o.onnx --block-size 32")
    assert desk.files("a") == desk.files("b") == desk.files("c")
    desk.refused("cd x; weir inspect ../encodr.onnx", 66, "'../encodr.onnx'")
    desk("mkdir y; weir quantize encoder.onnx x --block-size 32; weir quantize encoder.onnx y/ --block-size 32")
    assert desk.files("x") == desk.files("y")
    for out in (".", "./", "x", "x/", "encoder.onnx", "./encoder.onnx", "encoder.onnx.data"):
        desk.refused(f"weir quantize encoder.onnx {out}", 2)


# ---- links


def test_links_that_were_typed(desk):
    """The link that is named is followed, wherever it leads; data is looked for beside the link, then the same is fine."""
    desk("mkdir there; ln -s ../encoder.onnx there/m.onnx; ln -s ../encoder.onnx.data there/encoder.onnx.data")
    shown = desk("weir inspect there/m.onnx").out
    assert "unreadable encoder.onnx.data" in shown and "--allow-links" in shown and "MatMul" in shown and "weir run" not in shown
    assert "unreadable" not in desk("weir inspect there/m.onnx --allow-links").out
    desk.refused("weir measure there/m.onnx", 77, "there/encoder.onnx.data", "--allow-links")
    desk.refused("weir quantize there/m.onnx o.onnx --block-size 32", 77, "there/encoder.onnx.data", "--allow-links")
    desk("weir quantize there/m.onnx o.onnx --block-size 32 --allow-links; weir quantize encoder.onnx p.onnx --block-size 32")
    assert desk.files()["o.onnx.data"] == desk.files()["p.onnx.data"]
    desk("ln -s nowhere dangling.onnx; ln -s loop.onnx loop.onnx")
    for name in ("dangling.onnx", "loop.onnx"):
        desk.refused(f"weir inspect {name}", 66, name)
    desk.refused("weir quantize there/m.onnx --inplace --allow-links --block-size 32", 2, "there/m.onnx")


def test_copies_that_are_hard_links(desk):
    """Backups made by `cp -l`: data takes a word, and a model is replaced without a change to the copy."""
    desk("mkdir backup; cp -l encoder.onnx encoder.onnx.data backup")
    before = desk.files("backup")
    desk.refused("weir quantize encoder.onnx o.onnx --block-size 32", 77, "encoder.onnx.data", "--allow-links")
    [file] = desk("weir inspect encoder.onnx --json").json()["data_files"]
    assert "hard link" in file["unreadable"] and "missing" not in file and file["tensors"] == 73
    desk("weir quantize encoder.onnx o2.onnx --block-size 32 --allow-links && weir audit o2.onnx")
    desk("weir quantize encoder.onnx --inplace --block-size 32 --allow-links && weir audit encoder.onnx")
    assert desk.files("backup") == before


def test_a_hugging_face_cache(desk):
    """Everything works in its tree of links without a word; what is written there leaves the blobs alone."""
    desk(
        "mkdir -p hub/blobs hub/snapshots/abc; mv encoder.onnx hub/blobs/1; mv encoder.onnx.data hub/blobs/2; cd hub/snapshots/abc;"
        " ln -s ../../blobs/1 encoder.onnx; ln -s ../../blobs/2 encoder.onnx.data"
    )
    before = desk.files("hub/blobs")
    for line in ("inspect", "check", "measure", "quantize --dry-run"):
        desk(f"weir {line} hub/snapshots/abc/encoder.onnx")
    desk("weir quantize hub/snapshots/abc/encoder.onnx o.onnx --block-size 32 && weir audit o.onnx")
    desk("cd hub/snapshots/abc && weir quantize encoder.onnx int4.onnx --block-size 32 && weir audit int4.onnx")
    model = onnx.load(desk / "hub/snapshots/abc/int4.onnx")
    assert any(node.op_type == "MatMulNBits" for node in model.graph.node)
    desk.refused("weir quantize hub/snapshots/abc/encoder.onnx --inplace --block-size 32", 2, "encoder.onnx")
    assert desk.files("hub/blobs") == before
