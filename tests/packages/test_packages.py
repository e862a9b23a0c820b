"""What packaging/ makes beside the wheel: the static program, the container image, the Debian package.

Each is made by its one command, looked at with the tools of its kind, and run where there is nothing else: the static
program in a folder that is the whole file system, the image's layer likewise, the package in a Debian made for it
(with WEIR_TEST_ALL only, which also compares the static program over all command lines, not over a sample of them).
"""

import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from conftest import ALL, ROOT

MODEL = ROOT / "tests/data/tied/model.onnx"
LINKED = ["cJSON", "liburing", "libyaml", "musl", "openssl", "protobuf-c"]
only_all = pytest.mark.skipif(not ALL, reason="takes minutes: tools/test --all")


def run(*words, code=0, **options):
    done = subprocess.run([os.fspath(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    assert done.returncode == code, f"{words[0]}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def packaged(name, *words):
    return ROOT / run(ROOT / "packaging" / name, *words, cwd=ROOT).splitlines()[-1]


@pytest.fixture(scope="session")
def ordinary():
    return Path(os.environ["WEIR"]).resolve()


@pytest.fixture(scope="session")
def static():
    return packaged("static")


@pytest.fixture(scope="session")
def in_root():
    """Run a command in a folder that is its whole file system; skips where that is not allowed."""
    enter = ["chroot"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "chroot"]
    if subprocess.run([*enter, "/", "/bin/true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no folder can be made the root of a process here")
    return lambda root, *words: run(*enter, root, *words)


def program_headers(data):
    """The types of an ELF file's program headers."""
    assert data[:6] == b"\x7fELF\x02\x01"
    (at,), (size, n) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    return [struct.unpack_from("<I", data, at + i * size)[0] for i in range(n)]


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def quantized(ordinary, folder):
    """What the ordinary program makes of the model."""
    folder.mkdir()
    shutil.copy(MODEL, folder / "in.onnx")
    run(ordinary, "quantize", "in.onnx", "out.onnx", "--block-size", "32", cwd=folder)
    return digests(folder)


def test_the_program_needs_nothing(static, ordinary, tmp_path, in_root):
    needs = {2, 3}  # PT_DYNAMIC, PT_INTERP
    assert not needs & set(program_headers(static.read_bytes()))
    assert needs <= set(program_headers(ordinary.read_bytes()))
    root = tmp_path / "root"
    (root / "m").mkdir(parents=True)
    shutil.copy(static, root / "weir")
    shutil.copy(MODEL, root / "m/in.onnx")
    in_root(root, "/weir", "quantize", "/m/in.onnx", "/m/out.onnx", "--block-size", "32")
    assert digests(root / "m") == quantized(ordinary, tmp_path / "ordinary")


def test_the_program_says_the_same_version(static, ordinary):
    ours, theirs = run(static, "--version"), run(ordinary, "--version")
    assert ours.splitlines()[0] == theirs.splitlines()[0]


def test_licences_of_what_is_linked_in(static, ordinary):
    text = run(static, "--version", "--licenses")
    for name in LINKED:
        assert f"\n==== {name} ====\n" in text
    assert text.count("Apache License") >= 2 and "Dave Gamble" in text
    alone = run(ordinary, "--version", "--licenses")
    assert alone.count("\n==== ") == 1 and (ROOT / "LICENSE").read_text() in alone


def test_both_builds_write_the_same_bytes(static, ordinary):
    """Models, data, digests, edit logs and plans. Figures of reports are not compared: their last digits are libm's."""
    every = ["--every", "1" if ALL else "40"]
    said = run(sys.executable, ROOT / "tests/support/compare_builds.py", ordinary, static, "--quiet", *every)
    for kind in ("edit log", "plan", "manifest"):
        assert f"  {kind:<14} 0 cases differ" in said


def blobs(archive):
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


def test_the_image(static, ordinary, tmp_path, in_root):
    image = packaged("image", "x86_64", tmp_path / "image.tar")
    files = blobs(image)
    for name, data in files.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(data).hexdigest() == name.rsplit("/", 1)[1]

    def document(descriptor):
        data = files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(data) == descriptor["size"]
        return data

    (manifest,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(document(manifest))
    config = json.loads(document(manifest["config"]))
    (layer,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]] and config["config"]["Entrypoint"] == ["/bin/weir"]
    assert run(static, "--version").split()[1] == config["config"]["Labels"]["org.opencontainers.image.version"]

    root = tmp_path / "root"
    with tarfile.open(fileobj=io.BytesIO(document(layer))) as tar:
        names = tar.getnames()
        tar.extractall(root)
    assert all(f"usr/share/doc/weir/licenses/{name}.txt" in names for name in LINKED)
    shutil.copy(MODEL, root / "models/in.onnx")
    in_root(root, "/bin/weir", "quantize", "/models/in.onnx", "/models/out.onnx", "--block-size", "32")
    (root / "models/.keep").unlink()
    assert digests(root / "models") == quantized(ordinary, tmp_path / "ordinary")
    again = packaged("image", "x86_64", tmp_path / "again.tar")
    assert again.read_bytes() == image.read_bytes()


@only_all
def test_the_static_build_is_reproducible(static, tmp_path):
    first = static.read_bytes()
    shutil.rmtree(static.parent)
    assert packaged("static").read_bytes() == first


@pytest.fixture(scope="session")
def deb(tmp_path_factory):
    for tool in ("dh", "lintian", "debootstrap"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    return packaged("deb", tmp_path_factory.mktemp("deb"))


@only_all
def test_the_debian_package(deb):
    said = run("lintian", "--allow-root", deb)
    assert said == "", said
    names = run("dpkg-deb", "--contents", deb)
    for name in ("usr/bin/weir", "man1/weir-quantize.1.gz", "completions/weir", "doc/weir/changelog.gz", "doc/weir/changelog.Debian.gz", "doc/weir/schema/"):
        assert name in names
    assert "libssl3" in run("dpkg-deb", "--field", deb, "Depends")


@pytest.fixture(scope="session")
def debian(tmp_path_factory):
    """Run bash in a Debian 12 that has nothing, with this machine's sources of packages; a folder and a function."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        pytest.skip("debootstrap is missing, or we are not root")
    root = tmp_path_factory.mktemp("debian")
    run("debootstrap", "--variant=minbase", "bookworm", root)
    for name in ("apt/sources.list", "apt/sources.list.d", "apt/apt.conf.d", "resolv.conf", "pip.conf"):
        at, to = Path("/etc", name), root / "etc" / name
        if at.is_dir():
            shutil.copytree(at, to, dirs_exist_ok=True)
        elif at.exists():
            shutil.copy(at, to)
    for third_party in (root / "etc/apt/sources.list.d").iterdir():
        if not third_party.name.startswith("debian"):
            third_party.unlink()

    def bash(script):  # in a mount namespace of its own: what is mounted goes with it
        inside = f'mount -t proc proc "{root}/proc" && mount --bind /dev "{root}/dev" && exec chroot "{root}" bash -euo pipefail -c "$1"'
        return run("unshare", "--mount", "bash", "-c", inside, "bash", script)

    bash("apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates")
    # Whom this machine trusts: a registry may be behind a proxy with a certificate of its own.
    trusted = ["/etc/ssl/certs/ca-certificates.crt", *(os.environ.get(name, "") for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"))]
    for path in filter(os.path.isfile, trusted):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    return root, bash


@only_all
def test_the_debian_package_in_an_empty_debian(deb, ordinary, debian, tmp_path):
    root, bash = debian
    shutil.copy(deb, root / "weir.deb")
    shutil.copy(MODEL, root / "in.onnx")
    bash("apt-get install -y -qq --no-install-recommends /weir.deb; weir quantize /in.onnx /out.onnx --block-size 32")
    made = {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in ("out.onnx", "out.onnx.manifest.json")}
    wanted = quantized(ordinary, tmp_path / "ordinary")
    assert all(wanted[name] == sha for name, sha in made.items())
    bash("apt-get purge -y -qq weir")
    assert not (root / "usr/bin/weir").exists()


@only_all
def test_quickstart_in_an_empty_debian(debian):
    root, bash = debian
    (root / "weir").mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(root / "weir")
    said = bash("cd /weir && tools/quickstart --small")
    assert "quantized to 4 bits" in said and "OK" in said
