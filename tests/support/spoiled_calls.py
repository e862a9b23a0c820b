#!/usr/bin/env python3
"""Run a command in which chosen system calls fail, by count: whatever it is linked to, and all processes that it starts.

    spoiled_calls.py RULE… -- COMMAND …

    read,write=EINTR:3        each such call of a thread fails three times in a row, then one passes
    fsync=EIO                 all of them fail
    openat/proc/=ENOENT       those whose path (of two, the first) begins with /proc/
    ioctl#0x4020940d=EXDEV    those with that second argument

Of rules that are about one call, the first decides. A seccomp filter hands the calls over to this process, which answers
for the kernel (seccomp_unotify(2)); what the dynamic loader asks for passes. SPOILED=FILE names a file that gets a line
with each call's name and how often it failed. 125: this cannot be done here.
"""

import ctypes
import errno
import fcntl
import os
import platform
import re
import select
import socket
import struct
import sys
from collections import Counter

# By machine; calls that AArch64 does not have are left out there.
NUMBERS = {
    "x86_64": {
        "read": 0, "write": 1, "poll": 7, "mmap": 9, "ioctl": 16, "pread64": 17, "pwrite64": 18, "writev": 20, "wait4": 61, "flock": 73,
        "fsync": 74, "fdatasync": 75, "ftruncate": 77, "rename": 82, "futex": 202, "openat": 257, "mkdirat": 258, "unlinkat": 263,
        "renameat": 264, "linkat": 265, "readlink": 89, "readlinkat": 267, "ppoll": 271, "splice": 275, "utimensat": 280, "fallocate": 285,
        "preadv": 295, "pwritev": 296, "renameat2": 316, "copy_file_range": 326, "preadv2": 327, "pwritev2": 328, "statx": 332,
        "clock_nanosleep": 230, "open": 2, "newfstatat": 262, "sendto": 44, "recvfrom": 45, "waitid": 247, "dup3": 292, "getrandom": 318,
        "memfd_create": 319, "fgetxattr": 193, "fsetxattr": 190, "fadvise64": 221, "sync_file_range": 277, "statfs": 137, "fstatfs": 138,
    },
    "aarch64": {
        "read": 63, "write": 64, "mmap": 222, "ioctl": 29, "pread64": 67, "pwrite64": 68, "writev": 66, "wait4": 260, "flock": 32,
        "fsync": 82, "fdatasync": 83, "ftruncate": 46, "futex": 98, "openat": 56, "mkdirat": 34, "unlinkat": 35, "renameat": 38,
        "linkat": 37, "readlinkat": 78, "ppoll": 73, "splice": 76, "utimensat": 88, "fallocate": 47, "preadv": 69, "pwritev": 70,
        "renameat2": 276, "copy_file_range": 285, "preadv2": 286, "pwritev2": 287, "statx": 291, "clock_nanosleep": 115,
        "newfstatat": 79, "sendto": 206, "recvfrom": 207, "waitid": 95, "dup3": 24, "getrandom": 278, "memfd_create": 279,
        "fgetxattr": 10, "fsetxattr": 7, "fadvise64": 223, "sync_file_range": 84, "statfs": 43, "fstatfs": 44,
    },
}.get(platform.machine(), {})  # fmt: skip
SINCE_COMMON = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "openat2": 437}  # of all machines
SECCOMP = {"x86_64": 317, "aarch64": 277}.get(platform.machine())
PATH_FIRST = {"open", "readlink", "rename", "statfs"}  # calls whose first argument is a path; of the others with one, the second

PR_SET_NO_NEW_PRIVS, SET_MODE_FILTER, NEW_LISTENER = 38, 1, 8
RECEIVE, ANSWER, CONTINUE = 0xC0502100, 0xC0182101, 1
LOAD_WORD, JUMP_IF_EQUAL, RETURN, ALLOW, ASK = 0x20, 0x15, 0x06, 0x7FFF0000, 0x7FC00000
CANNOT = 125


class Rule:
    def __init__(self, text):
        names, tail = text.split("=")
        self.names, self.argument, self.path = names, None, None
        if "#" in names:
            self.names, argument = names.split("#")
            self.argument = int(argument, 0)
        elif "/" in names:
            self.names, path = names.split("/", 1)
            self.path = ("/" + path).encode()
        self.names = [name for name in self.names.split(",") if name in NUMBERS or name in SINCE_COMMON]
        error, _, times = tail.partition(":")
        self.error, self.times = getattr(errno, error), int(times) if times else None
        self.seen = Counter()  # by thread and call

    def decides(self, name, call):
        if name not in self.names or (self.argument is not None and call.arguments[1] != self.argument):
            return False
        if name in ("write", "writev") and call.arguments[0] <= 2:  # what is printed: the C library takes no error back
            return False
        return self.path is None or call.text(0 if name in PATH_FIRST else 1).startswith(self.path)

    def fails(self, name, call):
        self.seen[call.thread, name] += 1
        return self.times is None or self.seen[call.thread, name] % (self.times + 1) != 0


class Call:
    def __init__(self, record):
        self.id, self.thread, _, self.number, _, self.at, *self.arguments = struct.unpack("=QIIiIQ6Q", record)

    def text(self, which):
        try:
            with open(f"/proc/{self.thread}/mem", "rb", 0) as memory:
                memory.seek(self.arguments[which])
                return memory.read(256).split(b"\0")[0]
        except OSError:
            return b""

    def of_loader(self, known={}):
        """Is it the dynamic loader that asks? It takes no call for interrupted."""
        if (self.thread, self.at) not in known:
            known[self.thread, self.at] = False
            try:
                for line in open(f"/proc/{self.thread}/maps"):
                    first, last = (int(word, 16) for word in line.split()[0].split("-"))
                    if first <= self.at < last:
                        known[self.thread, self.at] = re.search(r"/ld[-.0-9a-z_]*linux[^/]*$|/ld-[0-9.]*\.so$", line.strip()) is not None
            except OSError:
                pass
        return known[self.thread, self.at]


def number_of(name):
    return SINCE_COMMON.get(name) or NUMBERS[name]


def instruction(code, jump_true, jump_false, operand):
    return struct.pack("HBBI", code, jump_true, jump_false, operand)


class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def listener(names):
    """The descriptor that the calls of these names are handed to, from here on."""
    made = [instruction(LOAD_WORD, 0, 0, 0)]
    for name in names:
        made += [instruction(JUMP_IF_EQUAL, 0, 1, number_of(name)), instruction(RETURN, 0, 0, ASK)]
    made.append(instruction(RETURN, 0, 0, ALLOW))
    program = Program(len(made), b"".join(made))
    libc = ctypes.CDLL(None, use_errno=True)
    if SECCOMP is None or libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return -1
    return libc.syscall(SECCOMP, SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(program))


def answer(asked, rules, failed):
    names = {number_of(name): name for rule in rules for name in rule.names}
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    while poll.poll()[0][1] & select.POLLIN:
        record = bytearray(80)
        try:
            fcntl.ioctl(asked, RECEIVE, record)
        except OSError:  # it was killed meanwhile
            continue
        call = Call(record)
        name = names[call.number]
        rule = next((rule for rule in rules if rule.decides(name, call)), None)
        spoiled = rule is not None and not call.of_loader() and rule.fails(name, call)
        failed[name] += spoiled
        told = struct.pack("=QqiI", call.id, 0, -rule.error, 0) if spoiled else struct.pack("=QqiI", call.id, 0, 0, CONTINUE)
        try:
            fcntl.ioctl(asked, ANSWER, told)
        except OSError:
            pass


def main():
    dashes = sys.argv.index("--")
    rules, command = [Rule(text) for text in sys.argv[1:dashes]], sys.argv[dashes + 1 :]
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        found = listener(sorted({name for rule in rules for name in rule.names}))
        if found < 0:
            os._exit(CANNOT)
        socket.send_fds(theirs, [b"x"], [found])
        os.close(found)
        theirs.close()
        os.execvp(command[0], command)
    theirs.close()
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    failed = Counter()
    if descriptors:
        answer(descriptors[0], rules, failed)
    _, status = os.waitpid(child, 0)
    if "SPOILED" in os.environ:
        with open(os.environ["SPOILED"], "w") as told:
            told.writelines(f"{name} {count}\n" for name, count in sorted(failed.items()))
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
