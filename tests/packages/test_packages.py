"""What packaging/ makes beside the wheel: the static program, the container image, the Debian package.

Each is made by its one command, looked at with the tools of its kind, and run where there is nothing else: the static
program in a folder that is the whole file system, the image's layer likewise, the package in a Debian made for it
(with WEIR_TEST_ALL only, which also compares the static program over all command lines, not over a sample of them).
What the commands refuse, wait for, keep and fetch is seen in copies of packaging/ with caches of their own.
"""

import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import onnx
import pytest

import attack_models
import peaks
from compare import folder_digests
from conftest import ALL, ROOT

MODEL = ROOT / "tests/data/tied/model.onnx"
MAINTAINER = r"Ann O'Bob | Söns & \1"  # letters that sed, the shell and awk would take for their own
MIB = 1 << 20
FOUND = ROOT / "tests/fuzz/corpus/mutants"
ATTACKS = list(attack_models.ATTACKS) if ALL else ["deep_ifs", "loops_that_run_once", "long_chains"]  # what asks for stack, tables, rounds
LINKED = ["cJSON", "liburing", "libyaml", "musl", "openssl", "protobuf-c", "zlib"]
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
    return lambda root, *words, code=0: run(*enter, root, *words, code=code)


def program_headers(data):
    """The types of an ELF file's program headers."""
    assert data[:6] == b"\x7fELF\x02\x01"
    (at,), (size, n) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    return [struct.unpack_from("<I", data, at + i * size)[0] for i in range(n)]


def quantized(ordinary, folder):
    """What the ordinary program makes of the model."""
    folder.mkdir()
    shutil.copy(MODEL, folder / "in.onnx")
    run(ordinary, "quantize", "in.onnx", "out.onnx", "--block-size", "32", cwd=folder)
    return folder_digests(folder)


def test_the_program_needs_nothing(static, ordinary, tmp_path, in_root):
    needs = {2, 3}  # PT_DYNAMIC, PT_INTERP
    assert not needs & set(program_headers(static.read_bytes()))
    assert needs <= set(program_headers(ordinary.read_bytes()))
    root = tmp_path / "root"
    (root / "m").mkdir(parents=True)
    shutil.copy(static, root / "weir")
    shutil.copy(MODEL, root / "m/in.onnx")
    in_root(root, "/weir", "quantize", "/m/in.onnx", "/m/out.onnx", "--block-size", "32")
    assert folder_digests(root / "m") == quantized(ordinary, tmp_path / "ordinary")


def refused(in_root, root, program, model):
    """What `weir verify` says there, where no model can be run."""
    said = json.loads(in_root(root, program, "verify", model, model, "--json", code=69))["error"]
    return said["message"], said["hint"]


def test_verify_where_there_is_no_glibc(static, tmp_path, in_root):
    """As in Alpine: weir-ort is there and cannot start; the rest of weir does not need it."""
    root = tmp_path / "root"
    root.mkdir()
    for path in (static, MODEL):
        shutil.copy(path, root)
    message, hint = refused(in_root, root, "/weir", "/model.onnx")
    assert message == "weir-ort, the program that opens ONNX Runtime, was not found" and "WEIR_ORT" in hint
    for folder in ("var/tmp", "usr/bin"):  # of PATH: there is no /proc that would say where weir lies
        (root / folder).mkdir(parents=True)
    shutil.copy(static.with_name("weir-ort"), root / "usr/bin")
    message, hint = refused(in_root, root, "/weir", "/model.onnx")
    assert message == "cannot start '/usr/bin/weir-ort': the dynamic loader that it needs is not on this system" and "glibc" in hint


def test_where_weir_ort_is_put(static, tmp_path):
    """Beside the program, also where that is copied to another place."""
    made = packaged("static", "x86_64", tmp_path)
    assert made == tmp_path / "weir"
    assert folder_digests(tmp_path) == {name: sha for name, sha in folder_digests(static.parent).items() if name in ("weir", "weir-ort")}


def test_the_program_says_the_same_version(static, ordinary):
    ours, theirs = run(static, "--version"), run(ordinary, "--version")
    assert ours.splitlines()[0] == theirs.splitlines()[0]
    assert run(static.with_name("weir-ort"), "--version") == ours.splitlines()[0].replace("weir", "weir-ort") + "\n"


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


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_end(static, tmp_path, name):
    """Threads have a small stack in musl, and its allocator and its sort are others."""
    source, out = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(attack_models.ATTACKS[name](), source)
    done = peaks.run([static, "optimize", source, out], timeout=300)
    assert done.code == 0, done.err
    assert done.peak_bytes <= 32 * MIB + 80 * source.stat().st_size
    onnx.load(out)


def test_what_fuzzing_found_ends(static, tmp_path):
    lines = (FOUND / "finds.txt").read_text().splitlines()
    finds = [line.split() for line in lines if not line.startswith("#") and " r.jsonl" not in line]
    assert len(finds) > 10
    for name, *words in finds:
        shutil.copy(FOUND / name, tmp_path / "m.onnx")
        (tmp_path / "o.onnx").unlink(missing_ok=True)
        done = subprocess.run([static, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert 0 <= done.returncode < 128, (name, done.returncode, done.stderr)


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
    assert "weir-ort" in refused(in_root, root, "/bin/weir", "/models/in.onnx")[0]
    (root / "models/.keep").unlink()
    assert folder_digests(root / "models") == quantized(ordinary, tmp_path / "ordinary")
    again = packaged("image", "x86_64", tmp_path / "again.tar")
    assert again.read_bytes() == image.read_bytes()


@only_all
def test_the_containerfile(static, ordinary, tmp_path):
    """Built by buildah, which needs neither a registry nor a runtime of containers, and run in its root."""
    if os.geteuid() != 0 or not shutil.which("buildah"):
        pytest.skip("buildah is missing, or we are not root")
    buildah = ["buildah", "--root", tmp_path / "storage", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
    run(*buildah, "bud", "--isolation", "chroot", "-f", ROOT / "packaging/Containerfile", "-t", "weir", ROOT)
    container = run(*buildah, "from", "weir").strip()
    said = json.loads(run(*buildah, "inspect", "--type", "image", "weir"))["OCIv1"]["config"]
    assert said["Entrypoint"] == ["/bin/weir"] and said["WorkingDir"] == "/models"
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(MODEL, models / "in.onnx")
    weir = [*buildah, "run", "--isolation", "chroot", "--volume", f"{models}:/models", container, "/bin/weir"]
    run(*weir, "quantize", "in.onnx", "out.onnx", "--block-size", "32")
    assert folder_digests(models) == quantized(ordinary, tmp_path / "ordinary")
    run(*buildah, "rm", container)
    run(*buildah, "rmi", "weir")


@only_all
def test_the_static_build_is_reproducible(static, tmp_path):
    first = [static.read_bytes(), static.with_name("weir-ort").read_bytes()]
    shutil.rmtree(static.parent)
    again = packaged("static")
    assert [again.read_bytes(), again.with_name("weir-ort").read_bytes()] == first


@pytest.fixture(scope="session")
def deb(tmp_path_factory):
    for tool in ("dh", "lintian", "debootstrap"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    name = {"DEBFULLNAME": MAINTAINER, "DEBEMAIL": "ann@example.org"}
    folder = tmp_path_factory.mktemp("deb") / "out"
    said = run(ROOT / "packaging/deb", folder, cwd=ROOT, env={**os.environ, **name})
    assert [each.name for each in folder.parent.iterdir()] == ["out"] and (ROOT / "build/deb.log").stat().st_size > 0
    return Path(said.splitlines()[-1])


@only_all
def test_the_debian_package(deb):
    ours = "bogus-mail-host-in-debian-changelog,malformed-contact"  # what it says of the name above
    said = run("lintian", "--allow-root", "--suppress-tags", ours, deb)
    assert said == "", said
    names = run("dpkg-deb", "--contents", deb)
    for name in ("usr/bin/weir", "usr/libexec/weir/weir-ort", "man1/weir-quantize.1.gz", "completions/weir", "doc/weir/changelog.gz", "doc/weir/changelog.Debian.gz", "doc/weir/schema/"):
        assert name in names
    assert "libssl3" in run("dpkg-deb", "--field", deb, "Depends")
    assert run("dpkg-deb", "--field", deb, "Maintainer") == f"{MAINTAINER} <ann@example.org>\n"


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
        # What this machine builds with is not there.
        alone = "env -u CMAKE_C_COMPILER_LAUNCHER -u WEIR_CACHE"
        inside = f'mount -t proc proc "{root}/proc" && mount --bind /dev "{root}/dev" && exec {alone} chroot "{root}" bash -euo pipefail -c "$1"'
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
    bash("weir verify /in.onnx /out.onnx 2>/said && exit 1 || [ $? = 69 ]; grep 'ONNX Runtime was not found' /said")
    bash("apt-get install -y -qq --no-install-recommends python3-pip && pip install --quiet --break-system-packages onnxruntime")
    bash("weir verify /in.onnx /out.onnx | grep 'compared with ONNX Runtime'")
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


# ---- the commands themselves


def started(folder, name, *words, cache=None, **env):
    """One of the commands, from a copy of packaging/ in a folder, with a cache there."""
    if not (folder / "packaging").exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / "packaging", folder / "packaging")
        shutil.copy(ROOT / "CMakeLists.txt", folder)
    env = {**os.environ, "WEIR_CACHE": os.fspath(cache or folder / "cache"), **env}
    words = [folder / "packaging" / name, *words]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=env)


def ended(process, code=1):
    said, complaint = process.communicate()
    assert process.returncode == code, said + complaint
    return complaint if code else said


def apt_of(folder, **files):
    """APT_CONFIG for an apt that knows these files only; __ in a name is its dot."""
    (folder / "parts").mkdir(parents=True)
    for name, text in files.items():
        (folder / "parts" / name.replace("__", ".")).write_text(text)
    config = folder / "apt.conf"
    config.write_text(f'Dir::Etc::sourcelist "{folder}/sources.list";\nDir::Etc::sourceparts "{folder}/parts";\n')
    return os.fspath(config)


@pytest.mark.parametrize("name", ["libraries", "static", "wheel", "image", "deb"])
def test_help_and_misuse(tmp_path, name):
    said = ended(started(tmp_path, name, "--help"), code=0)
    assert f"packaging/{name} [" in said and said.count("--locked") >= 2
    assert "unknown argument '--nothing'" in ended(started(tmp_path, name, "--nothing"), code=2)


@pytest.mark.parametrize("name", ["static", "wheel", "image"])
def test_locked_is_passed_on(tmp_path, name):
    started(tmp_path, name, "--help").communicate()
    below = tmp_path / "packaging" / ("libraries" if name == "static" else "static")
    below.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >>given\nexit 1\n')
    ended(started(tmp_path, name, "--locked"))
    assert "--locked" in (tmp_path / "given").read_text().splitlines()
    (tmp_path / "given").unlink()
    ended(started(tmp_path, name))
    assert "--locked" not in (tmp_path / "given").read_text().splitlines()


@pytest.mark.parametrize("letter", '"|:;=%*[<`\\\n')
def test_folders_that_no_build_is_possible_in(tmp_path, letter):
    odd = tmp_path / f"a{letter}b"
    assert "no build is possible in" in ended(started(odd, "static", cache=tmp_path / "cache"))
    assert "no build is possible in" in ended(started(tmp_path / "clone", "libraries", cache=odd / "cache"))
    assert not (odd / "build").exists() and not (tmp_path / "cache").exists()


@only_all
def test_folders_of_odd_letters(static, tmp_path):
    """A clone and a cache in them: the same bytes."""
    odd = tmp_path / "it's a $HOME, söß & (odd) {one}"
    clone, cache = odd / "clone", odd / "cache"
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")[:-1]
    for name in names:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, clone / name, follow_symlinks=False)
    libraries = libraries_of(static)
    for each in (libraries.parent / "sources", compiler_of(libraries), libraries):
        shutil.copytree(each, cache / each.name, symlinks=True, copy_function=os.link)
    said = ended(started(clone, "static", cache=cache), code=0)
    assert (clone / said.strip()).read_bytes() == static.read_bytes()


def libraries_of(static):
    """The folder in the cache that the static program was built with."""
    [line] = re.findall(r"^WEIR_LIBRARIES:UNINITIALIZED=(.*)$", (static.parent / "CMakeCache.txt").read_text(), re.M)
    return Path(line)


def compiler_of(libraries):
    return libraries.parent / re.search(r"/(zig-[^/]+)/ziglang/zig", (libraries / "bin/cc").read_text())[1]


def test_two_builds_at_once(tmp_path):
    """The second waits and says so; here it ends where it finds no sources."""
    (tmp_path / "cache").mkdir()
    with open(tmp_path / "cache/lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = started(tmp_path, "libraries", APT_CONFIG=apt_of(tmp_path / "apt"))
        said = process.stderr.readline()
        assert said == f"packaging/libraries: waiting for another build, which holds {tmp_path}/cache/lock\n"
    assert "waiting" not in ended(process)
    (tmp_path / "build").mkdir()
    with open(tmp_path / "build/static-x86_64.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = started(tmp_path, "static", APT_CONFIG=apt_of(tmp_path / "another"))
        assert "packaging/static: waiting for another build" in process.stderr.readline()
    ended(process)


STANZA = "# of this machine\n{types}\nURIs: {uri}\nSuites: ./\n{more}"


@pytest.mark.parametrize(
    "files",
    [
        {"ubuntu__sources": STANZA.format(types="Types: deb", uri="file:{}", more="Trusted: yes\n")},
        {"x__sources": "\n" + STANZA.format(types="types: deb\n deb-src", uri="cdrom:[A]/", more="") + "\n\n"
                       + STANZA.format(types="Types: deb deb-src", uri="file:{}", more="Trusted: yes\n")},
        {"x__list": "# deb nothing\ndeb cdrom:[A B]/ ./\ndeb\t[trusted=yes]\tfile:{} ./\n"},
        {"x__list": " deb-src [ trusted=yes ] file:{} ./\ndeb [trusted=yes] file:{} ./\n"},
    ],
    ids=["ubuntu", "cdrom", "tab", "both"],
)
def test_where_sources_come_from(tmp_path, files):
    """Every file that apt reads: an archive with one file, which is not what sources.lock wants, is found by each."""
    archive = tmp_path / "archive"
    archive.mkdir()
    md5, sha = "Files:\n", "Checksums-Sha256:\n"
    for name in ("1.4.1.orig.tar.gz", "1.4.1-1.debian.tar.xz", "1.4.1-1.dsc"):
        (archive / f"protobuf-c_{name}").write_bytes(data := b"another file: " + name.encode())
        md5 += f" {hashlib.md5(data).hexdigest()} {len(data)} protobuf-c_{name}\n"
        sha += f" {hashlib.sha256(data).hexdigest()} {len(data)} protobuf-c_{name}\n"
    head = "Package: protobuf-c\nFormat: 3.0 (quilt)\nBinary: x\nArchitecture: any\nVersion: 1.4.1-1\nDirectory: .\n"
    (archive / "Sources").write_text(head + md5 + sha)
    config = apt_of(tmp_path / "apt", **{name: text.replace("{}", os.fspath(archive)) for name, text in files.items()})
    said = ended(started(tmp_path / "clone", "libraries", "--locked", APT_CONFIG=config))
    assert "protobuf-c_1.4.1.orig.tar.gz is not the one that sources.lock names" in said


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"x__list": "deb cdrom:[A]/ ./\n#deb file:/ ./\n", "y__list__disabled": "deb file:/ ./\n"},
        {"x__sources": STANZA.format(types="Types: deb", uri="file:/", more="Enabled: no\n")},
    ],
    ids=["none", "cdrom", "disabled"],
)
def test_no_archive_for_sources(tmp_path, files):
    config = apt_of(tmp_path / "apt", **files)
    assert "apt names no archive to take sources from" in ended(started(tmp_path / "clone", "libraries", APT_CONFIG=config))


def test_a_build_says_what_it_does(static, tmp_path):
    """A line for each library and the name of the log, which is kept where one does not build: here the second, of a compiler that gives up."""
    libraries = libraries_of(static)
    cache, stub = tmp_path / "cache", tmp_path / "cache" / compiler_of(libraries).name
    (stub / "ziglang").mkdir(parents=True)
    (stub / "whole").touch()
    (cache / "sources").symlink_to(libraries.parent / "sources")
    (stub / "ziglang/zig").write_text('#!/bin/sh\necho "zig $*"\ncase $* in *cJSON.c*) exit 1 ;; *" -o "*) touch library.o ;; esac\n')
    (stub / "ziglang/zig").chmod(0o755)
    said = ended(started(tmp_path, "libraries")).splitlines()
    steps = [line.removeprefix("packaging/libraries: ") for line in said if line.startswith("packaging/libraries: ")]
    assert re.fullmatch(r"building the libraries for x86_64 \(some minutes, once\); the log is /.*/build\.log", steps[0]), said
    assert steps[1:3] == ["building protobuf-c", "building cjson"] and len(steps) == 4
    assert steps[3] == f"a library did not build; the whole log is {cache}/libraries-x86_64.log"
    assert "cJSON.c" in (cache / "libraries-x86_64.log").read_text()


def test_old_folders_leave_the_cache(static, tmp_path):
    libraries = libraries_of(static)
    cache = tmp_path / "cache"
    cache.mkdir()
    for each in (libraries.parent / "sources", compiler_of(libraries), libraries):
        (cache / each.name).symlink_to(each)
    days = {"libraries-x86_64-0": 1, "libraries-x86_64-1": 40, "zig-0.0.1-0": 1, "zig-0.0.0-0": 40, "zig-objects": None, "libraries-x86_64-2": None}
    for name, age in days.items():
        (cache / name).mkdir()
        if age:
            (cache / name / "whole").touch()
            os.utime(cache / name / "whole", (time.time() - age * 86400,) * 2)
    process = started(tmp_path, "libraries")
    said, notices = process.communicate()
    assert process.returncode == 0 and said.strip() == os.fspath(cache / libraries.name), notices
    gone = [name for name in days if not (cache / name).exists()]
    assert gone == ["libraries-x86_64-1", "zig-0.0.0-0", "libraries-x86_64-2"]
    assert all(f"removing {name} from the cache" in notices for name in gone) and notices.count("removing") == len(gone)


def test_the_compiler_is_pinned():
    lines = [line for line in (ROOT / "packaging/compiler.lock").read_text().splitlines() if not line.startswith("#")]
    assert re.fullmatch(r"ziglang==[\d.]+ \\( --hash=sha256:[0-9a-f]{64} \\)* --hash=sha256:[0-9a-f]{64}", re.sub(r"\s+", " ", " ".join(lines)))


@only_all
def test_another_compiler_is_refused(static, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/sources").symlink_to(libraries_of(static).parent / "sources")
    started(tmp_path, "libraries", "--help").communicate()
    lock = tmp_path / "packaging/compiler.lock"
    lock.write_text(re.sub(r"[0-9a-f]{64}", lambda found: found[0][::-1], lock.read_text()))
    assert "pip did not install what compiler.lock names" in ended(started(tmp_path, "libraries"))
    assert not list((tmp_path / "cache").glob("zig-*/whole"))


@pytest.mark.parametrize("compiler", ["gcc", "clang", "gcc -funsigned-char"])
def test_licences_beyond_ascii(tmp_path, compiler):
    """As text in C they are what they were, and no compiler warns."""
    words = compiler.split()
    if not shutil.which(words[0]):
        pytest.skip(f"{words[0]} is not installed")
    text = "© Söns — „quoted“ \\x41 \"'\n" + bytes(range(128, 256)).decode("latin-1")
    (tmp_path / "linked").mkdir()
    for path in (tmp_path / "LICENSE", tmp_path / "linked/other.txt"):
        path.write_text(path.name + text)
    cmake = ["cmake", f"-DOUR={tmp_path}/LICENSE", f"-DLIBRARIES={tmp_path}/linked", f"-DOUTPUT={tmp_path}/licenses.c"]
    run(*cmake, "-P", ROOT / "tools/cli/help/licenses.cmake")
    (tmp_path / "main.c").write_text('#include <stdio.h>\n#include "cli/help/licenses.h"\nint main(void) {'
                                     " for (const struct license *l = licenses; l->name; l++) fputs(l->text, stdout); }\n")
    warnings = ["-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-iquote", ROOT / "tools"]
    run(*words, *warnings, tmp_path / "licenses.c", tmp_path / "main.c", "-o", tmp_path / "main")
    assert run(tmp_path / "main") == "LICENSE" + text + "other.txt" + text
