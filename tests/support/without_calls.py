#!/usr/bin/env python3
"""Run a command in which chosen system calls fail, as they do in a container or on an older kernel.

    without_calls.py io_uring_setup=EPERM,openat2=ENOSYS COMMAND …

A seccomp filter of a few instructions is installed and inherited over exec: Docker's default profile does the same to
io_uring. Numbers are those above 423, which all architectures share.
"""

import ctypes
import errno
import os
import struct
import sys

NUMBERS = {"io_uring_setup": 425, "openat2": 437}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL_WITH = 0x7FFF0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def instruction(code, jump_true, jump_false, operand):
    return struct.pack("HBBI", code, jump_true, jump_false, operand)


def rules(failures):
    """The filter: the call's number is compared with each of ours; nothing else is looked at."""
    out = [instruction(LOAD_WORD, 0, 0, 0)]
    for name, error in failures.items():
        out.append(instruction(JUMP_IF_EQUAL, 0, 1, NUMBERS[name]))
        out.append(instruction(RETURN, 0, 0, FAIL_WITH | error))
    return out + [instruction(RETURN, 0, 0, ALLOW)]


def install(failures):
    made = rules(failures)
    program = Program(len(made), b"".join(made))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(program), 0, 0
    ):
        sys.exit(f"without_calls: {os.strerror(ctypes.get_errno())}")


def main():
    pairs = (pair.split("=") for pair in sys.argv[1].split(","))
    install({name: getattr(errno, error) for name, error in pairs})
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
