"""Starts a command for peaks.py: PIPE [LIMIT=NUMBER…] -- COMMAND…; writes its exit code, seconds and peak in bytes to PIPE.

It imports nothing but what it calls: tests start it more than a thousand times.
"""

import os
import resource
import sys
import time


def launch(report_fd, limits, command):
    """Start the command under its limits, wait, write what wait4 says to `report_fd`."""
    os.set_inheritable(report_fd, False)
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        for limit in limits:
            name, number = limit.split("=")
            resource.setrlimit(getattr(resource, "RLIMIT_" + name.upper()), (int(number), int(number)))
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)
    _, status, usage = os.wait4(child, 0)
    seconds = time.monotonic() - begin
    os.write(report_fd, f"{os.waitstatus_to_exitcode(status)} {seconds} {1024 * usage.ru_maxrss}".encode())


if __name__ == "__main__":
    end = sys.argv.index("--")
    launch(int(sys.argv[1]), sys.argv[2:end], sys.argv[end + 1 :])
