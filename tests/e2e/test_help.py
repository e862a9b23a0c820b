"""Help in two lengths: -h is a screen, --help is everything; topics; what shells complete."""

import re

import pytest

from conftest import TESTS

COMMANDS = re.findall(r"^COMMAND\((\w+)", (TESTS.parent / "tools/cli/commands.def").read_text(), re.M)

SCREEN = 40
TOPICS = ["targets", "memory", "pipelines", "options", "exit-codes", "completion", "environment"]


def is_narrow(text):
    return [line for line in text.splitlines() if len(line) > 80] == []


@pytest.fixture(scope="module")
def tables(weir):
    return {command["name"]: command for command in weir("--generate", "json").json()["commands"]}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_screen(weir, tables, command):
    """Usage, what it does, at most ten options by their short texts, two examples: 40 lines of 80 columns."""
    out = weir(command, "-h").out
    assert is_narrow(out) and len(out.splitlines()) <= SCREEN
    assert out.startswith(f"Usage: weir {command} ")
    options = re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", out, re.M)
    assert options == tables[command]["first"] and 1 <= len(options) <= 10
    assert len(re.findall(r"^  \$ weir ", out, re.M)) == 2
    assert f"'weir {command} --help'" in out


@pytest.mark.parametrize("command", COMMANDS)
def test_everything(weir, tables, command):
    """Every option with its whole text; wherever -h stands, it wins over what is wrong with the line."""
    out = weir(command, "--help").out
    words = " ".join(out.split())
    assert is_narrow(out)
    for option in tables[command]["options"]:
        assert " ".join(option["help"].split("\n")[0].split()) in words, option["name"]
        assert " ".join(" ".join(option["help"].split("\n")[1:]).split()) in words, option["name"]
    assert " ".join(tables[command]["about"].split()) in words
    assert weir("help", command).out.endswith(out)
    assert weir(command, "--nonsense", "-h").out == weir(command, "-h").out


def test_the_commands_by_family(weir, tables):
    """Each command once, under the heading of its family."""
    out = weir("-h").out
    assert is_narrow(out)
    found = {}
    for line in out.splitlines():
        if line.endswith(":"):
            heading = line
        elif re.match(r"  [a-z0-9]+  +\S", line):
            found[line.split()[0]] = heading
    assert sorted(found) == sorted(COMMANDS) and len(set(found.values())) == 6
    families = {name: command["family"] for name, command in tables.items()}
    assert len({(families[name], found[name]) for name in COMMANDS}) == 6
    assert weir(code=2).err == out
    assert is_narrow(weir("--help").out) and is_narrow(weir("--help-all").out)


@pytest.mark.parametrize("topic", TOPICS)
def test_topics(weir, topic):
    out = weir("help", topic).out
    assert is_narrow(out) and len(out) > 200
    assert re.search(rf"^  {topic}  ", weir("--help").out, re.M)


def test_topics_by_other_words(weir):
    assert weir("help", "exit", "codes").out == weir("help", "exit-codes").out
    assert weir("help", "pipeline").out == weir("help", "pipelines").out
    assert "there is no command or topic 'memroy'" in weir("help", "memroy", code=2).err
    assert "no command 'frobnicate'" in weir("help", "frobnicate", code=2).err
    for words in (["cast", "nonsense"], ["exit-codes", "x"], ["memory", "targets"]):
        assert f"unexpected argument '{words[1]}'" in weir("help", *words, code=2).err
    for word in ("help", "-h", "--help"):
        assert weir("help", word).out == weir("--help").out
    for word in ("", "w" * 100_000):
        assert "there is no command" in weir("help", word, code=2).err


def test_the_shared_options_once(weir, tables):
    """The topic has options that the commands share which write a model."""
    out = weir("help", "options").out
    flags = set(re.findall(r"^  (?:-\w, )?--([a-z0-9-]+)", out, re.M))
    assert {"dry-run", "force", "verify", "memory", "json", "report-html", "split"} <= flags
    shared = [{option["name"] for option in tables[command]["options"]} for command in ("quantize", "optimize", "run", "cast")]
    assert flags - {"help"} <= set.intersection(*shared)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_word(weir, shell):
    out = weir("completion", shell).out
    assert out == weir("--generate", shell).out and f"weir completion {shell}" in out
    assert all(topic in out for topic in TOPICS)


def test_completion_needs_a_shell(weir):
    for words in ([], ["tcsh"], ["bash", "zsh"], ["-h"], ["--help", "bash"]):
        done = weir("completion", *words, code=2)
        assert "usage: weir completion bash|zsh|fish" in done.err and done.out == ""


def test_commands_of_the_topics(desk):
    """What 'weir help pipelines' shows runs as it stands."""
    desk("cp encoder.onnx in.onnx")
    lines = desk.lines("weir help pipelines | sed -n 's/^  [$] //p'")
    assert len([line for line in lines if line.startswith("weir run")]) == 2
    for line in lines:
        desk(f"{line}; rm -rf out.onnx*")
