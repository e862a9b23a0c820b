#!/usr/bin/env python3
"""Run two builds of weir on the models of the tests and compare all that they write, byte for byte.

  compare_builds.py OLD NEW [--only NAME]… [--every N] [--size small|full] [--strict] [--keep DIR]

A net under changes that must not change results. The cases are those of build_cases.py (command lines), on the models of
build_models.py. Each runs in two sibling folders, with the same words and the same relative names:

  DIR/models/MODEL/…            written once; both programs read it (but where it is changed in place: one for each)
  DIR/cases/CASE/old, …/new     where the programs run, and what they leave

What is compared, by kind. The first five and `old log` must be equal, or the exit code is 1; the others are counted and
shown, and count as much with --strict.

  exit code       of every step
  model           .onnx files
  data            data files
  unit digest     subject and resources of manifests: one SHA-256 for each unit of 64 MiB
  tensor digest   place and SHA-256 of every tensor in .tensors.jsonl
  tensor list     the rest of .tensors.jsonl
  edit log, plan  with FILE.bin
  manifest ids    manifests in which only plan_id, edits_sha256 and tensors_sha256 differ
  manifest        manifests in which something else differs
  report          --report-json, without fields of memory, machine and bytes read
  stdout, stderr  without figures of memory, disk space and bytes read
  old log         where the logs differ, NEW replays OLD's: model, data and digests must be those of OLD's replay
  left over       other files, and names of staging folders

For each case there is one line, and below it for each kind where the first difference lies. At the end: differences by
kind, and the options (and their words) of OLD's help that no case uses. Two cases run at a time, those of the 2.4 GB
encoder one at a time; the large one belongs on a disk with 15 GB to spare (--keep DIR).

Needs the Python environment of the tests. Without --keep, work is done in memory (/dev/shm) where there is room.
"""

import argparse
import collections
import contextlib
import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import build_cases
import build_models

MUST = ("exit code", "model", "data", "unit digest", "tensor digest")
KINDS = (*MUST, "tensor list", "edit log", "plan", "manifest ids", "manifest", "report", "stdout", "stderr", "old log", "left over")
MACHINE_KEYS = {"peak_memory_bytes", "peak_memory_limit_bytes", "index_bytes", "source_bytes_read", "bytes_read"}
MACHINE_KEYS |= {"free_bytes", "disk_free_bytes", "seconds"}
MACHINE_TEXT = [
    (re.compile(r"^(peak memory|disk needed|workers|memory):.*$", re.MULTILINE), r"\1: …"),
    (re.compile(r"; [^;\n]*\bread$", re.MULTILINE), "; … read"),
    (re.compile(r" in [0-9.]+ s, [0-9.]+ [kMG]B of memory(?=:|$)", re.MULTILINE), " in …"),
    (re.compile(r"^weir: \w+ +[0-9]+ % .*\n", re.MULTILINE), ""),  # progress, said after some seconds
    (re.compile(rf'"({"|".join(sorted(MACHINE_KEYS))})": *[-+.0-9e]+'), r'"\1": 0'),
]
MANIFEST_IDS = ("plan_id", "edits_sha256", "tensors_sha256")
STAGING = re.compile(r"^\.(.*)\.[0-9a-f]{16}\.weir$")
ROOM_BYTES = 6 << 30  # free memory that makes /dev/shm the place to work
STEP_SECONDS = 900
LINE_WIDTH = 170


@dataclass
class Found:
    """What is different in a case: (kind, file, where the first difference lies)."""

    case: build_cases.Case
    differences: list = field(default_factory=list)
    files: int = 0
    seconds: float = 0

    def add(self, kind, file, where=""):
        assert kind in KINDS, kind
        self.differences.append((kind, file, where))


# ---- running


def own_step(folder, words):
    """A step that is not weir's."""
    name, file, *more = words
    if name == "@flip":
        path, offset = folder / file, int(more[0])
        if path.exists() and path.stat().st_size > offset:
            content = bytearray(path.read_bytes())
            content[offset] ^= 1
            path.write_bytes(content)
    elif name == "@link":
        (folder / more[0]).symlink_to(file)
    elif name == "@text":
        (folder / file).write_text(more[0], errors="surrogateescape")
    else:
        raise ValueError(f"no step {name}")


def call(program, folder, words):
    """Run weir in a folder; gives (exit code, stdout, stderr)."""
    for word in words:
        for name in ("again", "first", "x"):
            if word.startswith(name + "/"):
                (folder / name).mkdir(exist_ok=True)
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [program, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=STEP_SECONDS
    )
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


class Models:
    """The models, each written when it is first asked for."""

    def __init__(self, folder):
        self.folder, self.guard, self.made = folder, threading.Lock(), {}

    def shared(self, name):
        with self.guard:
            entry = self.made.setdefault(name, [threading.Lock(), None])
        with entry[0]:
            if entry[1] is None:
                folder = self.folder / name
                folder.mkdir(parents=True)
                entry[1] = build_models.MODELS[name](folder)
        return entry[1]

    def path_for(self, case, folder):
        """How a case's steps name its model, from `folder`."""
        if not case.own:
            return os.path.relpath(self.shared(case.model), folder)
        (folder / "in").mkdir()
        return os.path.relpath(build_models.MODELS[case.model](folder / "in"), folder)


def run_side(program, case, folder, models):
    """All steps of a case with one program; gives what each said."""
    folder.mkdir(parents=True)
    model = models.path_for(case, folder)
    said = []
    for step in case.steps:
        words = [word.replace("{model}", model) for word in step]
        if words and words[0].startswith("@"):
            own_step(folder, words)
        else:
            said.append((words, *call(program, folder, words)))
    return said


# ---- comparing


def first_difference(a, b):
    """Of two texts: the number of the line that differs first, and what it says in both, from near the difference on."""
    a, b = a.splitlines(), b.splitlines()
    for number, (x, y) in enumerate(zip([*a, None], [*b, None], strict=False), 1):
        if x != y:
            break
    else:
        return f"{len(a)} lines became {len(b)}"
    x, y = ("(end)" if text is None else text for text in (x, y))
    start = max(0, len(os.path.commonprefix([x, y])) - LINE_WIDTH // 3)
    cut = lambda text: ("…" if start else "") + text[start : start + LINE_WIDTH]  # noqa: E731
    return f"line {number}\n      old: {cut(x)}\n      new: {cut(y)}"


def first_byte(old, new):
    """Where two files of bytes differ."""
    sizes = old.stat().st_size, new.stat().st_size
    with open(old, "rb") as a, open(new, "rb") as b:
        place = 0
        while True:
            x, y = a.read(1 << 20), b.read(1 << 20)
            if x != y or not x:
                place += next((i for i, pair in enumerate(zip(x, y, strict=False)) if pair[0] != pair[1]), min(len(x), len(y)))
                return f"byte {place} of {sizes[0]}" + (f" (new: {sizes[1]})" if sizes[0] != sizes[1] else "")
            place += len(x)


def without_machine(value):
    """JSON without what depends on the machine or the moment."""
    if isinstance(value, dict):
        return {key: without_machine(inner) for key, inner in value.items() if key not in MACHINE_KEYS}
    return [without_machine(inner) for inner in value] if isinstance(value, list) else value


def comparable(text):
    """Printed text or a JSON file, without what depends on the machine."""
    with contextlib.suppress(ValueError):
        return json.dumps(without_machine(json.loads(text)), indent=1, ensure_ascii=False)
    for pattern, instead in MACHINE_TEXT:
        text = pattern.sub(instead, text)
    return text


def manifest_parts(text):
    """(digests, the rest without ids) of a manifest; None for what is not one."""
    try:
        value = json.loads(text)
        digests = [value.pop("subject"), value["predicate"].pop("resources")]
        for key in MANIFEST_IDS:
            value["predicate"]["x_weir"].pop(key, None)
    except (ValueError, KeyError, TypeError):
        return None
    return digests, value


def compare_manifests(old, new, name, found):
    a, b = manifest_parts(old), manifest_parts(new)
    if a is None or b is None:
        found.add("unit digest", name, "not a manifest")
        return
    if a[0] != b[0]:
        found.add("unit digest", name, first_difference(json.dumps(a[0], indent=1), json.dumps(b[0], indent=1)))
    if a[1] != b[1]:
        found.add("manifest", name, first_difference(json.dumps(a[1], indent=1), json.dumps(b[1], indent=1)))
    elif a[0] == b[0]:
        found.add("manifest ids", name, first_difference(old, new))


def tensor_digests(text):
    keys = ("name", "file", "offset", "length", "dtype", "dims", "sha256")
    return [[row.get(key) for key in keys] for row in map(json.loads, text.splitlines())]


def kind_of(name):
    """The kind of a file by its name, as the cases choose names."""
    base = os.path.basename(name)
    for end, kind in {
        ".manifest.json": "manifest",
        ".tensors.jsonl": "tensor list",
        "edits.jsonl": "edit log",
        "plan.json": "plan",
        "plan.json.bin": "plan",
        "report.json": "report",
        ".onnx": "model",
    }.items():
        if base.endswith(end):
            return kind
    return "data"


def compare_files(old, new, name, found):
    if filecmp.cmp(old, new, shallow=False):
        return
    kind = kind_of(name)
    if kind in ("model", "data") or name.endswith(".bin"):
        found.add(kind, name, first_byte(old, new))
        return
    a, b = (path.read_text(errors="replace") for path in (old, new))
    if kind == "manifest":
        compare_manifests(a, b, name, found)
    elif kind == "report":
        if comparable(a) != comparable(b):
            found.add(kind, name, first_difference(comparable(a), comparable(b)))
    elif kind == "tensor list" and tensor_digests(a) != tensor_digests(b):
        found.add("tensor digest", name, first_difference(a, b))
    else:
        found.add(kind, name, first_difference(a, b))


def listing(folder):
    """{relative name: path} of files, and the names of staging folders without the digest in them."""
    files, staging = {}, []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        parts = [STAGING.match(part) for part in name.split("/")]
        if any(parts):
            if parts[-1]:
                staging.append(f"{os.path.dirname(name)}/{parts[-1].group(1)}")
        elif path.is_file():
            files[name] = path
    return files, staging


def compare_folders(old, new, found):
    (old_files, old_staging), (new_files, new_staging) = listing(old), listing(new)
    for name in sorted({**old_files, **new_files}):
        if name not in old_files or name not in new_files:
            kind = {"manifest": "unit digest", "tensor list": "tensor digest"}.get(kind_of(name), kind_of(name))
            found.add(kind, name, "written by one of them only: " + ("new" if name in new_files else "old"))
        else:
            compare_files(old_files[name], new_files[name], name, found)
    if old_staging != new_staging:
        found.add("left over", "staging folders", f"{old_staging} became {new_staging}")
    found.files = len(old_files)


def compare_said(old, new, found):
    for (words, code, out, err), (_, new_code, new_out, new_err) in zip(old, new, strict=True):
        step = "weir " + " ".join(words)
        if code != new_code:
            found.add("exit code", step, f"{code} became {new_code}: {(new_err or new_out).strip()[:300]}")
        if not found.case.spoken:
            continue
        for kind, a, b in (("stdout", out, new_out), ("stderr", err, new_err)):
            if comparable(a) != comparable(b):
                found.add(kind, step, first_difference(comparable(a), comparable(b)))


def replay_old_log(program, case, folder, models, found):
    """NEW's replay of OLD's log makes OLD's files; asked only where the logs differ."""
    replays = [step for step in case.steps if step[:2] == ["replay", "edits.jsonl"] and step[3] == "again/out.onnx"]
    if not replays or "edits.jsonl" not in [file for kind, file, _ in found.differences if kind == "edit log"]:
        return
    side = folder / "crossed"
    side.mkdir()
    shutil.copyfile(folder / "old" / "edits.jsonl", side / "edits.jsonl")
    words = ["replay", "edits.jsonl", models.path_for(case, side), "again/out.onnx", "--tensor-digests"]
    code, _, err = call(program, side, words)
    crossed = Found(case)
    if (folder / "old" / "again").exists() and code == 0:
        compare_folders(folder / "old" / "again", side / "again", crossed)
    elif (folder / "old" / "again" / "out.onnx").exists() or code == 0:
        crossed.add("exit code", "replay", f"{code}: {err.strip()[:300]}")
    for kind, file, where in crossed.differences:
        if kind in MUST and "edits.jsonl" not in file:
            found.add("old log", file, f"{kind}: {where}")


def run_case(case, programs, work, models):
    start = time.monotonic()
    found = Found(case)
    folder = work / "cases" / case.name
    try:
        said = [run_side(program, case, folder / side, models) for program, side in zip(programs, ("old", "new"), strict=True)]
        compare_said(*said, found)
        compare_folders(folder / "old", folder / "new", found)
        replay_old_log(programs[1], case, folder, models, found)
    except subprocess.TimeoutExpired as late:
        found.add("exit code", " ".join(late.cmd), f"took longer than {STEP_SECONDS} s")
    found.seconds = time.monotonic() - start
    return found


# ---- which options no case uses


def help_text(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True).stdout


def choices(argument):
    """The words of `a|b|c`, but not of `N` or `SIZE`."""
    return argument.split("|") if "|" in argument and argument == argument.lower() else []


def unused(program):
    """Options of commands, keys of passes and their words that no case uses, as the help lists them."""
    used, keys = collections.defaultdict(set), collections.defaultdict(set)
    for case in build_cases.CASES.values():
        for step in case.steps:
            if not step or step[0].startswith("@"):
                continue
            used[step[0]].update(step)
            for word in step:
                name, _, options = word.partition(":")
                keys[name].update(part for option in options.split(",") for part in (option, option.split("=")[0]))
                used[step[0]].update(word.split(","))
    left = []
    for command in build_cases.COMMANDS:
        for name, argument in re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+) ?(\S*)", help_text(program, command, "--help-all"), re.MULTILINE):
            left += [f"{command} {name}"] if name not in used[command] else []
            left += [f"{command} {name} {word}" for word in choices(argument) if word not in used[command]]
    for line in help_text(program, "passes").splitlines():
        if line.startswith("  ") and not line.startswith("   "):
            name = line.split()[0]
            for key in re.findall(r"^  ([a-z0-9_]+)=", help_text(program, "passes", name), re.MULTILINE):
                left += [f"pass {name}: {key}"] if key not in keys[name] else []
    return left


# ---- the program


def places(found):
    """For each kind, worst first, the first place, and how many files more; what the run wrote before what its replay did."""
    rank = lambda difference: (KINDS.index(difference[0]), difference[1].startswith("again/"))  # noqa: E731
    by_kind = collections.defaultdict(list)
    for kind, file, where in sorted(found.differences, key=rank):
        by_kind[kind].append((file, where))
    for kind, ((file, where), *more) in by_kind.items():
        yield kind, f"{file}: {where}" + (f"\n      and {len(more)} more" if more else "")


def show(found, strict):
    """(is it a difference that must not be, the lines to print)"""
    found_places = dict(places(found))
    hard = any(strict or kind in (*MUST, "old log") for kind in found_places)
    state = "DIFFERENT" if hard else "differs" if found_places else "same"
    kinds = ": " + ", ".join(found_places) if found_places else ""
    lines = [f"{state:9}  {found.case.name}{kinds}  ({found.files} files, {found.seconds:.1f} s)"]
    lines += [f"    {kind}: {place}" for kind, place in found_places.items()]
    return hard, "\n".join(lines)


def chosen_cases(options):
    cases = [case for case in build_cases.CASES.values() if options.size == "full" or not case.full]
    if options.only:
        cases = [case for case in cases if any(part in case.name for part in options.only)]
    return sorted(cases, key=lambda case: case.full)[:: options.every]


def run_all(cases, programs, work, options):
    """Run cases and show each; gives the counts by kind, and how many cases are same, differ, or must not."""
    models, counts, states = Models(work / "models"), collections.Counter(), collections.Counter()

    def finish(found):
        hard, text = show(found, options.strict)
        counts.update({kind for kind, _, _ in found.differences})
        states["DIFFERENT" if hard else "differs" if found.differences else "same"] += 1
        if found.differences or not options.quiet:
            print(text, flush=True)
        if not (options.keep and found.differences):
            shutil.rmtree(work / "cases" / found.case.name, ignore_errors=True)

    run = lambda case: run_case(case, programs, work, models)  # noqa: E731
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(run, [case for case in cases if not case.full]):
            finish(found)
    for case in cases:
        if case.full:
            finish(run(case))
    return counts, states


@contextlib.contextmanager
def work_folder(options):
    if options.keep:
        options.keep.mkdir(parents=True)
        yield options.keep.resolve()
        return
    memory = os.statvfs("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    fits = options.size == "small" and memory and memory.f_bavail * memory.f_frsize > ROOM_BYTES
    with tempfile.TemporaryDirectory(prefix="weir-builds-", dir="/dev/shm" if fits else None) as folder:
        yield Path(folder)


def read_options(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="the weir that is right")
    parser.add_argument("new", metavar="NEW", help="the weir that is asked")
    parser.add_argument("--only", action="append", metavar="NAME", help="cases with NAME in theirs; may be repeated")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="a sample: each Nth case")
    parser.add_argument("--size", choices=["small", "full"], default="small", help="full: with the 2.4 GB encoder")
    parser.add_argument("--strict", action="store_true", help="exit code 1 for a difference of any kind")
    parser.add_argument("--quiet", action="store_true", help="no lines for cases that are the same")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work in DIR (new), and leave the cases that differ there")
    parser.add_argument("--list", action="store_true", help="print the names of the cases, and run none")
    return parser.parse_args(argv)


def main(argv=None):
    options = read_options(argv)
    missing = build_cases.add_all()
    cases = chosen_cases(options)
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    programs = [os.path.abspath(path) for path in (options.old, options.new)]
    for path in programs:
        if not os.access(path, os.X_OK):
            sys.exit(f"{path} is no program")
    start = time.monotonic()
    with work_folder(options) as work:
        counts, states = run_all(cases, programs, work, options)
    print(f"\n{len(cases)} cases in {time.monotonic() - start:.0f} s: " + ", ".join(f"{n} {state}" for state, n in states.items()))
    for kind in KINDS:
        print(f"  {kind:14} {counts[kind]} cases differ" + (" (must not)" if counts[kind] and kind in (*MUST, "old log") else ""))
    for package in missing:
        print(f"not installed, so its models were left out: {package} (tests/requirements-models.txt)")
    if not options.only and options.every == 1:
        print("options that no case uses: " + (", ".join(unused(programs[0])) or "none"))
    return 1 if states["DIFFERENT"] else 0


if __name__ == "__main__":
    sys.exit(main())
