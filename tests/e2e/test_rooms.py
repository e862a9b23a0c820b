"""Walls that the build cannot draw: rooms of src print nothing, end nothing, and ask nobody for options (looked at in their
objects), and none has more files than a person looks through. And the wall that it draws: which room includes what."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from conftest import program

ROOT = Path(__file__).resolve().parents[2]
MOST_FILES = 25

COMMAND_LINE_ROOMS = {f"libweir_{name}" for name in ("cli", "help", "render_runs", "render_models", "render_results", "html", "request", "commands")}
COMMAND_LINE = re.compile(r"(cli|cmd|report|render|help|html|hints|progress|stops|terminal)_[a-z_]+")
PRINTS = {"printf", "vprintf", "puts", "putchar", "perror", "stdout", "stderr", "__printf_chk", "__vprintf_chk"}
ENDS = {"exit", "_exit", "_Exit", "quick_exit", "signal", "sigaction", "fork", "vfork", "posix_spawn", "posix_spawnp", "system", "popen"}
MEMORY = {"malloc", "calloc", "realloc", "free", "strdup", "aligned_alloc", "posix_memalign", "pthread_mutex_lock", "fopen", "fclose", "mmap", "close"}
ENDS |= {"execv", "execve", "execvp", "execl", "execlp", "process_end"}

# Whose objects may, and why.
ALLOWED = {
    "children.c": ({"posix_spawn", "_exit", "close"}, "starts weir-ort, which ends with who asked it, and moves descriptors for it"),
    "files.c": ({"realloc", "free", "pthread_mutex_lock", "fclose", "close"}, "lists what is open itself"),
    "resources.c": ({"malloc", "calloc", "realloc", "free", "pthread_mutex_lock"}, "lists what is in use"),
    "edit.c": ({"stderr"}, "names the edit that broke its promise, before it aborts"),
    "machine_linux.c": ({"close"}, "reads small files of /proc, with nothing between open and close"),
    "machine.c": ({"_exit"}, "process_end, which no other room may call"),
    "maps.c": (
        {"signal", "sigaction", "mmap", "aligned_alloc", "free", "pthread_mutex_lock"},
        "lists its maps itself; a file that is cut under a map raises SIGBUS, which must be an error of that read",
    ),
    "ort_serve.c": ({"stderr"}, "weir-ort's own failure, before there is anybody to answer"),
    "stops.c": ({"signal", "sigaction", "_exit"}, "requests to stop, which the command line watches for"),
}


def archives():
    """Of the build that the tests' program is from, by CMake's names of rooms."""
    build = Path(program("WEIR_FAULT_PROGRAM")).resolve().parents[1]
    rooms = build / "generated" / "rooms.txt"  # a build folder may have archives of rooms that are gone
    names = {f"libweir_{row.split()[0]}.a" for row in rooms.read_text().splitlines()} if rooms.exists() else set()
    found = sorted(path for path in build.glob("libweir_*.a") if path.name in names)
    if not found:
        pytest.skip("the program was not built here: there are no archives to look at")
    return found


def undefined(archive):
    """By source file: the symbols that its object needs."""
    symbols, member = defaultdict(set), None
    lines = subprocess.run(["nm", "-u", archive], check=True, capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        if line.endswith(".o:"):
            member = line.removesuffix(".o:")
        elif member and line.split():
            symbols[member].add(line.split()[-1].split("@")[0].removeprefix("__sysv_"))  # signal, where POSIX is all
    return symbols


def offences(symbols):
    return {s for s in symbols if s in PRINTS | ENDS | MEMORY or COMMAND_LINE.fullmatch(s)}


def of_rooms():
    """Objects of rooms whose sources are still there: old archives stay in a build folder."""
    sources = {path.name for path in (ROOT / "src").rglob("*.c")}
    for archive in archives():
        if archive.stem in COMMAND_LINE_ROOMS or archive.name == "libweir_test_support.a":
            continue
        for name, symbols in undefined(archive).items():
            if name in sources:
                yield name, symbols


def test_rooms_print_nothing_end_nothing_and_list_what_they_have():
    found = {name: offences(symbols) for name, symbols in of_rooms()}
    assert len(found) > 500
    assert {name: what for name, what in found.items() if what - ALLOWED.get(name, (set(), ""))[0]} == {}


def test_no_exception_is_kept_in_vain():
    found = {name: offences(symbols) for name, symbols in of_rooms()}
    assert {name for name, (what, why) in ALLOWED.items() if not what <= found.get(name, set()) or not why} == set()


# ---- who calls the system

# What only the room platform asks for. (pthread_* and the streams of the C library are on every system.)
SYSTEM = set("""
    access aligned_alloc alarm chdir chmod clock_gettime clock_nanosleep close closedir copy_file_range creat dirfd dl_iterate_phdr dladdr dlclose
    dlerror dlinfo dlopen dlsym dup dup2 dup3 execve explicit_bzero faccessat fallocate fchmod fchmodat fchown fchownat fcntl fdatasync fdopen
    fdopendir fileno flock fmemopen fnmatch fork freopen fstat fstatat fstatvfs fsync ftruncate futimens getauxval getc_unlocked getcwd getegid
    getenv geteuid getgid gethostname getpid getppid getpwuid_r getrandom getrlimit getrusage getuid glob globfree gmtime_r ioctl isatty kill link
    linkat localtime_r lseek lstat madvise mallopt malloc_trim memmem memrchr mkdir mkdirat mkdtemp mkfifo mkostemp mkstemp mlock mmap mprotect
    munmap nanosleep open open_memstream openat opendir pipe pipe2 poll posix_fadvise posix_fallocate posix_memalign posix_spawn posix_spawnp
    ppoll prctl pread preadv prlimit pthread_condattr_setclock pthread_sigmask pwrite pwritev pwritev2 qsort_r raise read readdir readlink
    readlinkat readv realpath recv recvmsg regcomp regexec regfree rename renameat renameat2 rmdir scandir sched_getaffinity sched_yield select
    send sendmsg setenv setitimer setrlimit shutdown sigaction sigaltstack signal sigprocmask sleep socketpair stat statvfs statx stpcpy
    strcasecmp strcasestr strchrnul strncasecmp strndup strnlen strsep strsignal strtok_r symlink symlinkat sync_file_range syscall sysconf
    sysinfo tcgetattr tmpfile truncate umask uname unlink unlinkat usleep utimensat vasprintf vfork wait waitid waitpid write writev
    _exit environ
""".split())

def plain(symbol):
    """`stat` of stat64, __xstat and the checked forms."""
    return re.sub(r"64$|_chk$|_2$", "", symbol.removeprefix("__").removeprefix("isoc99_"))


def calls_of_the_system():
    """By object, what it asks of the system itself; the room platform aside."""
    own = {path.name for path in (ROOT / "src" / "platform").rglob("*.c")}
    sources = {path.name for top in ("src", "tools") for path in (ROOT / top).rglob("*.c")} - own
    found = {}
    for archive in archives():
        for name, symbols in undefined(archive).items():
            asked = {plain(s) for s in symbols} & SYSTEM
            if name in sources and asked:
                found[name] = asked
    return found


def test_only_platform_calls_the_system():
    assert calls_of_the_system() == {}
    [platform] = [a for a in archives() if a.name == "libweir_platform.a"]
    asked = {plain(s) for symbols in undefined(platform).values() for s in symbols}
    assert {"openat", "mmap", "sigaction", "posix_spawn"} <= asked & SYSTEM  # the control: it is seen there


def test_the_command_line_is_found_out():
    """What may print and end is seen to: so it would be in a room."""
    tools = [a for a in archives() if a.stem in COMMAND_LINE_ROOMS]
    assert len(tools) == len(COMMAND_LINE_ROOMS)
    seen = set().union(*(offences(symbols) for a in tools for symbols in undefined(a).values()))
    assert {"puts", "stdout", "stops_watch"} <= seen
    assert any(COMMAND_LINE.fullmatch(s) for s in seen)


def test_a_room_is_looked_through():
    """But for the folder of commands, which has one for each."""
    folders = [f for part in ("src", "tools") for f in (ROOT / part).rglob("*") if f.is_dir() and f.name != "commands"]
    counts = {str(f.relative_to(ROOT)): sum(p.is_file() for p in f.iterdir()) for f in folders}
    assert len(counts) > 50
    assert {folder: n for folder, n in counts.items() if n > MOST_FILES and "__pycache__" not in folder} == {}


@pytest.mark.parametrize(
    "line, told",
    [
        ("", None),
        ("plan/plan.h", None),
        ("base/err.h", None),  # as plan/plan.h does
        ("run/inside/own.h", None),
        ("made.def", None),  # by the build
        ("load/load.h", None),  # behind
        ("check/check.h", "weir_run is not linked to weir_check (weir_room in CMakeLists.txt)"),  # behind load
        ("cli/cli.h", "weir_run is not linked to weir_cli (weir_room in CMakeLists.txt)"),
        ("plan/inside/rows.h", "only src/plan includes what is in its inside/"),
        ("plan.h", "an include is a path from src or tools"),
        ("plan/gone.h", "there is no such file"),
    ],
)
def test_a_room_includes_what_it_sees(tmp_path, line, told):
    rooms = """base src/base m
check src/check weir_base
load src/load weir_base BEHIND weir_check
plan src/plan weir_base PkgConfig::CRYPTO
run src/run weir_plan BEHIND weir_load
cli tools/cli weir_run"""
    include = f'#include "{line}"\n' if line else ""
    files = {
        "src/base/err.h": "",
        "src/check/check.h": "",
        "src/load/load.h": "",
        "src/plan/plan.h": '#include "base/err.h"\n',
        "src/plan/inside/rows.h": "",
        "src/run/inside/own.h": "",
        "src/run/run.c": "#include <stdio.h>\n" + include,
        "tools/cli/cli.h": '#include "base/err.h"\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    sys.path.insert(0, str(ROOT / "src"))
    try:
        from check_includes import faults
    finally:
        sys.path.pop(0)
    assert list(faults(tmp_path, rooms)) == ([f'src/run/run.c:2: #include "{line}": {told}'] if told else [])
