"""The file: its names, modes, records, licences and bill of materials; the same bytes again; what checkers say."""

import ast
import base64
import csv
import hashlib
import io
import json
import os
import platform
import re
import shutil
import stat
import struct
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from compare import folder_digests
from conftest import ALL, ROOT, SAMPLE

ARCH = platform.machine()
INFO = re.compile(r"onnx_weir-[^/]+\.dist-info/")


@pytest.fixture(scope="module")
def archive(wheel):
    with zipfile.ZipFile(wheel) as file:
        yield file


def in_info(archive, name):
    [path] = [each for each in archive.namelist() if INFO.match(each) and INFO.sub("", each) == name]
    return archive.read(path)


# Where installers put them: PREFIX/bin/weir, PREFIX/libexec/weir/weir-ort.
PROGRAMS = {"weir": ".data/scripts/weir", "weir-ort": ".data/data/libexec/weir/weir-ort"}


def program_name(archive, name):
    [path] = [each for each in archive.namelist() if each.endswith(PROGRAMS[name])]
    return path


def program(archive, name):
    return archive.read(program_name(archive, name))


def metadata(archive):
    return HeaderParser().parsestr(in_info(archive, "METADATA").decode())


def test_names(wheel, archive):
    version = metadata(archive)["Version"]
    assert wheel.name == f"onnx_weir-{version}-py3-none-manylinux2014_{ARCH}.musllinux_1_1_{ARCH}.whl"
    tags = HeaderParser().parsestr(in_info(archive, "WHEEL").decode()).get_all("Tag")
    assert tags == [f"py3-none-manylinux2014_{ARCH}", f"py3-none-musllinux_1_1_{ARCH}"]
    names = archive.namelist()
    assert len(names) == len(set(names)) and not [name for name in names if name.endswith(("/", ".pyc"))]
    assert {program_name(archive, each) for each in PROGRAMS} < set(names) and "weir/py.typed" in names


def test_modes(archive):
    """A zip entry without the type of a file loses its mode when it is installed."""
    for entry in archive.infolist():
        is_program = entry.filename.endswith(tuple(PROGRAMS.values()))
        assert entry.external_attr >> 16 == stat.S_IFREG | (0o755 if is_program else 0o644), entry.filename


def test_manual_and_completions(archive):
    """Installers put them into PREFIX/share, where man and the shells look."""
    found = {name.split(".data/data/share/")[1]: archive.read(name).decode() for name in archive.namelist() if ".data/data/share/" in name}
    weir = os.environ["WEIR"]
    places = {"bash": "bash-completion/completions/weir", "zsh": "zsh/site-functions/_weir", "fish": "fish/vendor_completions.d/weir.fish"}
    for shell, place in places.items():
        assert found.pop(place) == subprocess.run([weir, "completion", shell], capture_output=True, text=True, check=True).stdout
    tables = json.loads(subprocess.run([weir, "--generate", "json"], capture_output=True, check=True).stdout)
    assert sorted(found) == sorted(["man/man1/weir.1", *(f"man/man1/weir-{each['name']}.1" for each in tables["commands"])])
    assert all(".SH NAME" in page for page in found.values())


def test_record(archive):
    rows = list(csv.reader(io.StringIO(in_info(archive, "RECORD").decode())))
    assert sorted(row[0] for row in rows) == sorted(archive.namelist())
    for name, digest, size in rows:
        if name.endswith("/RECORD"):
            assert (digest, size) == ("", "")
            continue
        content = archive.read(name)
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert int(size) == len(content)


def test_metadata(archive):
    said = metadata(archive)
    [version] = re.findall(r"project\(weir VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())
    assert said["Name"] == "onnx-weir" and said["Version"] == version and said["Requires-Python"] == ">=3.9"
    assert said.get_all("Requires-Dist") == ['onnxruntime>=1.20; extra == "verify"']
    assert said.get_all("Provides-Extra") == ["verify"]


def test_description(archive):
    """README.md, whose links to files beside it are text, which is true wherever it is read."""
    text, readme = metadata(archive).get_payload(), (ROOT / "README.md").read_text()
    links = re.findall(r"\[([^][]*)\]\(([^()\s]+)\)", readme)
    assert len(links) > 10 and not re.findall(r"\]\((?!https?:)[^)]*\)", text)
    for said, target in links:
        readme = readme.replace(f"[{said}]({target})", f"`{target}`" if said == target else f"{said} `{target}`")
    assert text == readme


def test_licences(archive):
    """A text for everything that is linked in, and its licence in the expression."""
    said = metadata(archive)
    files = said.get_all("License-File")
    found = [INFO.sub("", name) for name in archive.namelist() if INFO.match(name) and "/licenses/" in name]
    assert sorted(f"licenses/{name}" for name in files) == sorted(found)
    assert all(len(in_info(archive, f"licenses/{name}")) > 500 for name in files)
    stems = {Path(name).stem.lower() for name in files} | {"compiler-rt" if "linked/zig-runtime.txt" in files else ""}
    bill = json.loads(in_info(archive, "sboms/onnx_weir.cyclonedx.json"))
    for part in bill["components"]:
        assert part["name"].lower() in stems, part["name"]
        assert part["licenses"][0]["license"]["id"] in said["License-Expression"].split(" AND ")


def test_bill_of_materials(archive):
    bill = json.loads(in_info(archive, "sboms/onnx_weir.cyclonedx.json"))
    assert bill["bomFormat"] == "CycloneDX" and bill["specVersion"] == "1.5"
    own = bill["metadata"]["component"]
    [runner] = own["components"]
    for part, name in ((own, "weir"), (runner, "weir-ort")):
        assert part["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(program(archive, name)).hexdigest()}]
        assert part["version"] == metadata(archive)["Version"]
    assert runner["name"] == "weir-ort"
    parts = {part["name"]: part for part in bill["components"]}
    assert {"protobuf-c", "liburing", "cjson", "libyaml", "zlib", "openssl", "musl"} <= set(parts)
    assert all(part["version"] for part in parts.values())
    assert parts["openssl"]["purl"].startswith("pkg:generic/openssl@") and parts["cjson"]["purl"].startswith("pkg:deb/debian/cjson@")
    assert bill["dependencies"][0] == {"ref": own["bom-ref"], "dependsOn": [part["bom-ref"] for part in bill["components"]]}


def segment_of(content, wanted):
    """The bytes of an ELF file's segment of that type, or None."""
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for n in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, start + n * size)
        if kind == wanted:
            return content[offset : offset + length]
    return None


def interpreter_of(content):
    """What an ELF program asks the system to load it with, or None."""
    return segment_of(content, 3)


def test_program_is_static(archive):
    content = program(archive, "weir")
    assert content[:4] == b"\x7fELF" and interpreter_of(content) is None
    assert interpreter_of(Path(shutil.which("env")).read_bytes()), "a program that is not static is to be told"


C_LIBRARY = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def needed(path):
    """The libraries that an ELF file names, and the newest version of glibc that it wants."""
    said = subprocess.run(["readelf", "--wide", "--dynamic", "--version-info", path], capture_output=True, text=True, check=True).stdout
    versions = [tuple(map(int, each.split("."))) for each in re.findall(r"Name: GLIBC_([\d.]+)", said)]
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", said)), max(versions), " PIE" in said


def test_weir_ort_runs_with_every_glibc_of_the_tag(archive, tmp_path):
    """manylinux2014 is glibc 2.17; nothing but the C library is asked for, which every such system has."""
    path = tmp_path / "weir-ort"
    path.write_bytes(program(archive, "weir-ort"))
    path.chmod(0o755)
    libraries, newest, is_pie = needed(path)
    assert libraries and libraries <= C_LIBRARY and newest <= (2, 17) and is_pie
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"weir-ort {metadata(archive)['Version']}\n"
    libraries, newest, _ = needed(os.environ["WEIR"])  # control: the ordinary program
    assert not libraries <= C_LIBRARY and newest > (2, 17)


def test_no_path_of_this_machine(archive):
    """What is built in another folder, with another cache, has the same bytes."""
    cache = os.environ.get("WEIR_CACHE", str(Path.home() / ".cache"))
    for name in archive.namelist():
        content = archive.read(name)
        assert os.fsencode(ROOT) not in content and os.fsencode(cache) not in content, name
    assert all(b"src/base/" in program(archive, name) for name in PROGRAMS)


def test_built_again(wheel, tmp_path):
    """The same bytes; another time gives others."""

    def build(name, **env):
        words = [ROOT / "packaging" / "wheel", ARCH, tmp_path / name]
        done = subprocess.run(words, env={**os.environ, **env}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return hashlib.sha256(Path(done.stdout.strip()).read_bytes()).hexdigest()

    once = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert build("again") == once
    assert build("later", SOURCE_DATE_EPOCH="1700000000") != once


def test_old_interpreters(archive, wheel, tmp_path):
    """No syntax that Python 3.9 lacks; and what other versions are on this machine import it and run the program."""
    for name in archive.namelist():
        if name.endswith(".py"):
            ast.parse(archive.read(name), name, feature_version=(3, 9))
    archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("weir/")])
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin" / "weir"
    path.write_bytes(program(archive, "weir"))
    path.chmod(0o755)
    for minor in range(9, 16):
        words = [f"python3.{minor}", "-W", "error", "-c", "import weir; print(weir.passes('conv2matmul').passes[0].name)"]
        if not shutil.which(words[0]) or subprocess.run([words[0], "-c", ""], capture_output=True).returncode:
            continue
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "conv2matmul\n", done.stderr


def test_installed_into_a_folder(wheel, tmp_path, python):
    """With pip install --target; the package finds its program there."""
    target = tmp_path / "a folder"
    words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*words, "--target", target, wheel], check=True, capture_output=True)
    lines = f"import sys; sys.path.insert(0, {str(target)!r}); import weir; print(weir.find_weir_bin()); weir.passes()"
    assert python("-c", lines) == f"{target}/bin/weir\n"


def test_installed(python, environment, archive):
    version = metadata(archive)["Version"]
    said = subprocess.run([environment / "bin" / "weir", "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"weir {version}\n")
    assert python("-m", "weir", "--version") == said
    assert python("-m", "weir", "nothing", code=2) == ""
    assert python("-c", "import weir; print(weir.__version__); print(weir.find_weir_bin())") == f"{version}\n{environment}/bin/weir\n"
    assert python("-c", "import importlib.metadata as m; print(m.version('onnx-weir'))") == f"{version}\n"


def test_a_program_that_is_missing(archive, tmp_path, python):
    archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("weir/")])
    lines = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import weir._find, sysconfig
weir._find.sysconfig.get_path = lambda *words, **more: "/nowhere"
try:
    weir.find_weir_bin()
except FileNotFoundError as error:
    print(error)
"""
    assert python("-c", lines).startswith("the program 'weir' is in none of /")


def test_aarch64(archive, ordinary, tmp_path):
    """The same package around another program, which gives the same bytes."""
    if not ALL:
        pytest.skip("takes minutes: tools/test --all")
    words = [ROOT / "packaging" / "wheel", "aarch64", tmp_path]
    built = Path(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
    assert built.name.endswith("-py3-none-manylinux2014_aarch64.musllinux_1_1_aarch64.whl")
    with zipfile.ZipFile(built) as other:
        names = [name for name in archive.namelist() if name.startswith("weir/")]
        assert names and all(archive.read(name) == other.read(name) for name in names)
        tags = HeaderParser().parsestr(in_info(other, "WHEEL").decode()).get_all("Tag")
        assert tags == ["py3-none-manylinux2014_aarch64", "py3-none-musllinux_1_1_aarch64"]
        for name in PROGRAMS:
            (tmp_path / name).write_bytes(program(other, name))
            (tmp_path / name).chmod(0o755)
    weir, ort = tmp_path / "weir", tmp_path / "weir-ort"
    assert interpreter_of(weir.read_bytes()) is None and weir.read_bytes()[18] == 183  # EM_AARCH64
    assert interpreter_of(ort.read_bytes()) == b"/lib/ld-linux-aarch64.so.1\0" and ort.read_bytes()[18] == 183
    libraries, newest, is_pie = needed(ort)
    assert libraries <= C_LIBRARY and newest <= (2, 17) and is_pie
    said = subprocess.run(["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", ort, "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"weir-ort {metadata(archive)['Version']}\n"
    for command, *options in (["quantize", "--block-size", "32"], ["conv2matmul"], ["cast", "--to", "float16"]):
        digests = []
        for name in ("here", "there"):
            (tmp_path / name).mkdir()
            words = [command, SAMPLE, tmp_path / name / "out.onnx", *options]
            if name == "here":
                ordinary(*words)
            else:
                subprocess.run(["qemu-aarch64", weir, *words], check=True, capture_output=True)
            digests.append(folder_digests(tmp_path / name))
            shutil.rmtree(tmp_path / name)
        assert digests[0] == digests[1] and len(digests[0]) == 3
    # Verified there, with the oldest runtime: newer ones crash in qemu-user as they are loaded, whoever loads them.
    packages = tmp_path / "packages"
    words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    where = ["--platform", "manylinux_2_27_aarch64", "--python-version", "3.11", "--implementation", "cp", "--target", packages]
    subprocess.run([*words, *where, "onnxruntime==1.20.1"], check=True)
    [library] = packages.glob("onnxruntime/capi/libonnxruntime.so.*")
    emulated = tmp_path / "emulated"
    emulated.write_text(f'#!/bin/sh\nexec qemu-aarch64 -L /usr/aarch64-linux-gnu "{ort}"\n')
    emulated.chmod(0o755)
    words = ["qemu-aarch64", weir, "conv2matmul", SAMPLE, tmp_path / "verified.onnx", "--verify=all", "--onnxruntime", library]
    done = subprocess.run(words, env={**os.environ, "WEIR_ORT": os.fspath(emulated)}, capture_output=True, text=True)
    assert done.returncode == 0 and "verified with ONNX Runtime 1.20.1" in done.stdout, done.stdout + done.stderr


# ---- checkers


@pytest.fixture(scope="module")
def tool():
    folder = Path(os.environ.get("WEIR_WHEEL_TOOLS", "/nowhere"), "bin")

    def run(name, *words, cwd=None):
        if not (folder / name).exists():
            pytest.skip(f"{name} is not installed (tests/requirements-wheel.txt)")
        return subprocess.run([folder / name, *words], capture_output=True, text=True, cwd=cwd)

    return run


@pytest.mark.parametrize("words", [["twine", "check", "--strict"], ["check-wheel-contents"]], ids=lambda words: words[0])
def test_checkers(tool, wheel, tmp_path, words):
    done = tool(*words, wheel)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / wheel.name  # control: one that has nothing
    with zipfile.ZipFile(broken, "w"):
        pass
    assert tool(*words, broken).returncode != 0


USE = """
from typing import Dict, Optional

import weir

report = weir.quantize("a.onnx", "b.onnx", bits=8, block_size="channel", exclude=["x"], memory=1 << 30, progress=print)
tensors = report.passes[0].tensors
name: str = tensors[0].name
lines = [weights.total_bytes_of_files for weights in weir.shrink("a.onnx", info=True)]
reports = [report.passes for report in weir.shrink(["a.onnx"], output_dir="x")]
found: bool = weir.audit("a.onnx").whole
sample = {"x": b"an array"}


class Reader:
    def get_next(self) -> Optional[Dict[str, bytes]]:
        return None


weir.calibrate("a.onnx", output="r.jsonl", data=sample)
weir.calibrate("a.onnx", output="r.jsonl", data=(each for each in [sample]))
weir.calibrate("a.onnx", output="r.jsonl", data=Reader())
weir.calibrate("a.onnx", output="r.jsonl", data=["x.bin:x:float:1", sample])
given: weir.Samples = Reader()
weir.verify("a.onnx", "b.onnx", inputs=given)
weir.convert("a.onnx", "b.onnx", verify_inputs=iter([sample]))
"""
MISUSE = [
    'weir.quantize("a.onnx", "b.onnx", bits=3)',
    'weir.quantize("a.onnx", "b.onnx", nothing=True)',
    'weir.cast("a.onnx", "b.onnx")',
    'weir.shrink("a.onnx")[0].weights',
    'weir.audit("a.onnx").nothing',
    'weir.convert("a.onnx", "b.onnx", progress=3)',
    'weir.calibrate("a.onnx", data=3)',
    'weir.verify("a.onnx", inputs=["a folder"])',
]


def test_types(tool, archive, tmp_path):
    archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("weir/")])
    (tmp_path / "use.py").write_text(USE)
    done = tool("mypy", "--strict", "weir", "use.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "misuse.py").write_text("import weir\n\n" + "\n".join(MISUSE) + "\n")
    done = tool("mypy", "--strict", "misuse.py", cwd=tmp_path)
    wrong = {int(line) for line in re.findall(r"^misuse\.py:(\d+): error", done.stdout, re.M)}
    assert wrong == set(range(3, 3 + len(MISUSE))), done.stdout
