"""`tests/cli/run` compares the goldens of the command line. These tests give it cases that differ from their goldens."""

import subprocess

import pytest

from conftest import TESTS

RUN = TESTS / "cli" / "run"


@pytest.fixture
def case(weir, tmp_path):
    """A case in a folder of its own: case("echo x") returns whether it passes, case("echo x", "--write") writes its files."""

    def run(script, *flags):
        (tmp_path / "case.sh").write_text(script + "\n")
        done = subprocess.run([RUN, *flags, weir.path, tmp_path / "case.sh"], capture_output=True, text=True)
        assert done.returncode == ("FAILED case: " in done.stdout) and done.stderr == ""
        return done.returncode == 0

    run.folder = tmp_path
    run.files = lambda: {path.name: path.read_text() for path in tmp_path.iterdir() if path.name != "case.sh"}
    return run


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream(case, stream):
    """Without a file, a stream must be empty. With one, all of the stream must match the file."""

    def passes(script):
        return case(script if stream == "stdout" else f"{{ {script}; }} >&2")

    exact, pattern = (case.folder / f"case.{stream}.{kind}" for kind in ("exact", "glob"))
    assert passes("true") and not passes("echo word")
    exact.write_text("word\n")
    assert passes("echo word")
    assert not any(map(passes, ["true", "echo words", "echo word; echo word", "printf word"]))
    exact.unlink()
    pattern.write_text("w*[d]?\n")
    assert passes("echo 'wor[d]?'") and passes("echo w; echo '[d]?'")
    assert not any(map(passes, ["true", "echo word", "echo 'a w[d]?'", "echo 'w[d]?'; echo word"]))


def test_exit_codes(case):
    assert not case("exit 1")
    (case.folder / "case.exit").write_text("1\n")
    assert case("exit 1") and not case("exit 2") and not case("true")


def test_files_that_are_written(case):
    """--write gives a file to a stream with output, unless it has a pattern, and deletes the file of an empty stream."""
    (case.folder / "case.stderr.glob").write_text("*\n")
    assert case("echo word; echo other >&2", "--write") and case.files() == {"case.stdout.exact": "word\n", "case.stderr.glob": "*\n"}
    assert case("echo words; echo other >&2", "--write") and case.files()["case.stdout.exact"] == "words\n"
    assert case("echo words; echo other >&2")
    (case.folder / "case.stderr.glob").unlink()
    assert case("true", "--write") and case.files() == {}
    assert not case("exit 1", "--write") and case.files() == {}
