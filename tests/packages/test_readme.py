"""README as somebody follows it who has nothing but a clone: what it says is pasted into a shell, and its Python into Python.

The home is empty at the beginning: the program `weir` and the runtime come from the installation that README names.
"""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text()


def section(title):
    return README.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def fences(text, tag):
    return re.findall(rf"^```{tag}\n(.*?)^```$", text, re.M | re.S)


def test_install_session_load(tmp_path):
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("packaging", "tests"):
        (clone / name).symlink_to(ROOT / name)
    cache = os.environ.get("WEIR_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "weir")
    environment = {**os.environ, "HOME": os.fspath(tmp_path), "WEIR_CACHE": os.path.abspath(cache)}
    environment["PATH"] = f"{tmp_path}/.venvs/weir/bin:/usr/local/bin:/usr/bin:/bin"

    def paste(text):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=clone, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    [install] = fences(section("Install"), "bash")
    assert re.search(r"^weir \d+\.\d+\.\d+$", paste(install), re.M)
    session = section("A first session")
    [make] = re.findall(r"`(python3 tests/support/make_encoder\.py [^`]+)`", session)
    paste(make)
    [commands] = fences(session, "sh")
    said = paste(commands)
    assert "parameters" in said and "OK" in said
    [program] = fences(session, "python")
    (clone / "load.py").write_text(program)
    assert "audio" in paste("python load.py")
