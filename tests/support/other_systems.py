#!/usr/bin/env python3
"""Compiles weir for systems that it has no build for yet: every file of src and tools but src/platform's own and the home of liburing, for Windows
and macOS, by the static program's compiler, with the warnings of the build, each an error. Nothing is linked, and no object is kept.

    other_systems.py BUILD [--target TARGET]… [--jobs N] [--libraries FOLDER]

BUILD is a build folder of this machine (build/plain): its commands are taken, without what is for this machine. FOLDER is what packaging/libraries
prints, for the compiler and the headers of the libraries. The end is 1 if a file does not compile, and says which and why.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# By name: what clang calls it, and the folders and macros that `zig cc -target NAME` gives it. (`zig cc` itself wants an object to keep.)
TARGETS = {
    "x86_64-windows-gnu": ("x86_64-windows-gnu", "any-windows-any", ["-D__MSVCRT_VERSION__=0xE00", "-D_WIN32_WINNT=0x0a00", "-D__CRT__NO_INLINE"]),
    "x86_64-macos": ("x86_64-apple-macosx15.0.0", "any-darwin-any", []),
    "aarch64-macos": ("arm64-apple-macosx15.0.0", "any-darwin-any", []),
}
LEFT_OUT = {"src/stream/io/io_uring_engine.c"}  # the home of liburing


def commands(build):
    """(file, arguments) of each file that has to compile everywhere. Of what the build made, what is in the program."""
    seen = set()
    ninja = subprocess.run(["ninja", "-C", build, "-t", "compdb"], check=True, capture_output=True, text=True).stdout
    for row in json.loads(ninja):
        path = Path(row["directory"], row["file"]).resolve()
        if path.suffix != ".c" or path in seen:
            continue
        seen.add(path)
        made = path.is_relative_to(build / "generated")
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
        if not made and (not name.startswith(("src/", "tools/")) or name.startswith("src/platform/") or name in LEFT_OUT):
            continue
        yield path, list(arguments(row["command"], build))


def arguments(command, build):
    """What a command says to the compiler that is of the program, not of this machine."""
    words = iter(shlex.split(command)[1:])
    for word in words:
        if word in ("-iquote", "-isystem", "-I"):
            folder = next(words)
            if Path(folder).is_relative_to(ROOT) or Path(folder).is_relative_to(build):
                yield from (word, folder)
        elif word in ("-o", "-c", "-MF", "-MT", "-MQ"):
            next(words)
        elif word.startswith(("-I", "-D", "-W", "-std=", "-ff", "-fno-strict-overflow", "-fvisibility")):
            yield word


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--libraries", type=Path)
    asked = parser.parse_args()
    libraries = asked.libraries or Path(subprocess.run([ROOT / "packaging/libraries"], check=True, capture_output=True, text=True).stdout.strip())
    zig = libraries.parent / re.search(r"zig-[^/]+(?=/ziglang/zig)", (libraries / "bin/cc").read_text())[0] / "ziglang"
    files = list(commands(asked.build.resolve()))
    assert len(files) > 600, f"{asked.build} has commands for {len(files)} files"
    failed = False
    for target in asked.target or TARGETS:
        triple, headers, macros = TARGETS[target]
        start = [zig / "zig", "clang", "-target", triple, "-nostdinc", "-isystem", zig / "lib/include", "-isystem", zig / "lib/libc/include" / headers]
        start += [*macros, "-isystem", libraries / "include", "-c", "-O0", "-o", os.devnull, "-fno-caret-diagnostics", "-ferror-limit=0", "-Werror"]

        def compiled(each, start=start):
            done = subprocess.run([*start, *each[1], each[0]], capture_output=True, text=True, cwd=asked.build)
            return done.returncode, done.stdout + done.stderr

        with ThreadPoolExecutor(asked.jobs) as pool:
            ends = list(pool.map(compiled, files))
        said = "".join(said.replace(f"{ROOT}/", "") for _, said in ends)
        print(said, end="")
        bad = sum(code != 0 for code, _ in ends)
        print(f"{target}: {len(files) - bad} of {len(files)} files compile, {len(re.findall(r': (?:fatal )?error: ', said))} errors")
        failed |= bad > 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
