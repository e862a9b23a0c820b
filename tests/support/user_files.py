#!/usr/bin/env python3
"""A file system in user space (FUSE) over a folder, for one command: it has no more than such file systems need.

    unshare -rm user_files.py [--interrupted N] [--clock-back] BELOW MOUNT COMMAND …

No hard links, no unnamed files, no renames with flags, no fallocate, no copies of ranges; files are opened for direct
I/O, and one that nobody has open may have another inode number the next time. --other-inodes: at every look.
--interrupted: what opens, reads, writes and syncs is refused with EINTR N times in a row before it is done, as by a server
that takes every signal for a wish to stop. --clock-back: each change has a time before that of the last. 125: no FUSE here.
"""

import argparse
import ctypes
import errno
import os
import stat
import struct
import subprocess
import sys
import threading

CANNOT = 125
MS_NOSUID, MS_NODEV, MNT_DETACH = 2, 4, 2
DIRECT_IO = 1  # FOPEN_DIRECT_IO
ROOT = 1
(LOOKUP, FORGET, GETATTR, SETATTR, READLINK, SYMLINK, MKDIR, UNLINK, RMDIR, RENAME) = 1, 2, 3, 4, 5, 6, 9, 10, 11, 12
(OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR) = 14, 15, 16, 17, 18, 20, 25, 26, 27, 28
(RELEASEDIR, FSYNCDIR, CREATE, INTERRUPT, DESTROY, BATCH_FORGET) = 29, 30, 35, 36, 38, 42
INTERRUPTED = {OPEN, READ, WRITE, FSYNC, CREATE, OPENDIR, FSYNCDIR, SETATTR}
SET_MODE, SET_SIZE, SET_MTIME = 1, 8, 32


class Files:
    def __init__(self, below, how):
        self.paths = {ROOT: below}
        self.nodes, self.known, self.inos = {below: ROOT}, {}, {}
        self.next_node, self.next_ino = ROOT + 1, 1000
        self.how, self.refused, self.times, self.clock = how, {}, {}, 2_000_000_000

    # ---- what is said of a file

    def changed(self, path):
        self.clock -= 100
        self.times[path] = self.clock

    def attributes(self, path):
        at = os.lstat(path)
        if self.how.other_inodes or path not in self.inos:
            self.next_ino += 1
            self.inos[path] = self.next_ino
        mtime = self.times.get(path, int(at.st_mtime)) if self.how.clock_back else int(at.st_mtime)
        ctime = self.times.get(path, int(at.st_ctime)) if self.how.clock_back else int(at.st_ctime)
        fraction = (0, 0, 0) if self.how.clock_back else (0, at.st_mtime_ns % 10**9, at.st_ctime_ns % 10**9)
        return struct.pack("=6Q10I", self.inos[path], at.st_size, at.st_blocks, int(at.st_atime), mtime, ctime, *fraction,
                           at.st_mode, at.st_nlink, os.getuid(), os.getgid(), 0, 4096, 0)  # fmt: skip

    def entry(self, path):
        attributes = self.attributes(path)
        if path not in self.nodes:
            self.nodes[path], self.paths[self.next_node] = self.next_node, path
            self.next_node += 1
        node = self.nodes[path]
        self.known[node] = self.known.get(node, 0) + 1
        return struct.pack("=4Q2I", node, 0, 0, 0, 0, 0) + attributes

    def forget(self, node, times):
        """The kernel no longer knows it: next time it is another."""
        self.known[node] = self.known.get(node, 0) - times
        if node == ROOT or self.known[node] > 0:
            return
        path = self.paths.pop(node, None)
        if self.nodes.get(path) == node:
            del self.nodes[path]
            self.inos.pop(path, None)

    def gone(self, path):
        """A new file of that name is another one."""
        self.nodes.pop(path, None)
        self.inos.pop(path, None)

    def under(self, node, name):
        return os.path.join(self.paths[node], os.fsdecode(name.split(b"\0")[0]))

    # ---- requests

    def serve(self, code, node, body):
        if code in INTERRUPTED and self.how.interrupted:
            key = (code, self.paths.get(node))
            self.refused[key] = self.refused.get(key, 0) + 1
            if self.refused[key] % (self.how.interrupted + 1):
                raise OSError(errno.EINTR, "")
        return getattr(self, f"on_{code}", self.unknown)(node, body)

    def unknown(self, node, body):
        raise OSError(errno.ENOSYS, "")

    def on_1(self, node, body):
        return self.entry(self.under(node, body))

    def on_3(self, node, body):
        return struct.pack("=Q2I", 0, 0, 0) + self.attributes(self.paths[node])

    def on_4(self, node, body):
        valid, _, fh, size, _, _, mtime = struct.unpack_from("=2I5Q", body)
        mode = struct.unpack_from("=I", body, 68)[0]
        path = self.paths[node]
        if valid & SET_SIZE:
            os.truncate(path, size)
        if valid & SET_MODE:
            os.chmod(path, stat.S_IMODE(mode))
        if valid & SET_MTIME:
            os.utime(path, (mtime, mtime))
        self.changed(path)
        return self.on_3(node, body)

    def on_5(self, node, body):
        return os.fsencode(os.readlink(self.paths[node]))

    def on_9(self, node, body):
        path = self.under(node, body[8:])
        os.mkdir(path, struct.unpack_from("=I", body)[0] & 0o777)
        return self.entry(path)

    def on_10(self, node, body):
        os.unlink(self.under(node, body))
        self.gone(self.under(node, body))

    def on_11(self, node, body):
        os.rmdir(self.under(node, body))
        self.gone(self.under(node, body))

    def on_12(self, node, body):
        to_node = struct.unpack_from("=Q", body)[0]
        name, to, _ = body[8:].split(b"\0", 2)
        before, after = self.under(node, name), self.under(to_node, to)
        os.rename(before, after)
        self.gone(after)
        for each, path in list(self.paths.items()):
            if path == before or path.startswith(before + "/"):
                moved = self.paths[each] = after + path[len(before) :]
                if self.nodes.get(path) == each:
                    self.nodes[moved] = self.nodes.pop(path)
                    self.inos[moved] = self.inos.pop(path, 0)
        self.changed(after)

    def opened(self, path, flags):
        os.close(os.open(path, flags & ~(os.O_EXCL | os.O_CREAT)))
        return struct.pack("=Q2I", 0, DIRECT_IO, 0)

    def on_14(self, node, body):
        return self.opened(self.paths[node], struct.unpack_from("=I", body)[0] & ~os.O_NOFOLLOW)

    def on_15(self, node, body):
        _, off, size = struct.unpack_from("=2QI", body)
        with open(self.paths[node], "rb") as file:
            file.seek(off)
            return file.read(size)

    def on_16(self, node, body):
        _, off, size = struct.unpack_from("=2QI", body)
        fd = os.open(self.paths[node], os.O_WRONLY)
        os.pwrite(fd, body[40 : 40 + size], off)
        os.close(fd)
        self.changed(self.paths[node])
        return struct.pack("=2I", size, 0)

    def on_17(self, node, body):
        at = os.statvfs(self.paths[ROOT])
        return struct.pack("=5Q4I24x", at.f_blocks, at.f_bfree, at.f_bavail, at.f_files, at.f_ffree, at.f_bsize, 255, at.f_frsize, 0)

    def nothing(self, node, body):
        return b""

    on_18 = on_20 = on_25 = on_29 = on_30 = nothing

    def on_26(self, node, body):
        flags = struct.unpack_from("=I", body, 12)[0] & (1 << 5)  # large writes
        return struct.pack("=4I2H2I2HI28x", 7, 31, 1 << 16, flags, 16, 12, 1 << 17, 1, 32, 0, 0)

    def on_27(self, node, body):
        return struct.pack("=Q2I", 0, 0, 0)

    def on_28(self, node, body):
        _, off, size = struct.unpack_from("=2QI", body)
        out = b""
        for number, name in list(enumerate([".", "..", *sorted(os.listdir(self.paths[node]))], 1))[off:]:
            name = os.fsencode(name)
            entry = struct.pack("=2Q2I", 1, number, len(name), 0) + name + b"\0" * (-len(name) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return out

    def on_35(self, node, body):
        flags, mode = struct.unpack_from("=2I", body)
        path = self.under(node, body[16:])
        os.close(os.open(path, flags | os.O_CREAT, mode & 0o777))
        self.changed(path)
        return self.entry(path) + struct.pack("=Q2I", 0, DIRECT_IO, 0)


def answer(device, files):
    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError as why:
            if why.errno in (errno.EINTR, errno.ENOENT):
                continue
            return  # unmounted
        _, code, unique, node = struct.unpack_from("=2I2Q", request)
        if code == FORGET:
            files.forget(node, struct.unpack_from("=Q", request, 40)[0])
        if code == BATCH_FORGET:
            for k in range(struct.unpack_from("=I", request, 40)[0]):
                files.forget(*struct.unpack_from("=2Q", request, 48 + 16 * k))
        if code in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        try:
            said, error = files.serve(code, node, request[40:]) or b"", 0
        except OSError as why:
            said, error = b"", -why.errno
        except KeyError:
            said, error = b"", -errno.ENOENT
        try:
            os.write(device, struct.pack("=IiQ", 16 + len(said), error, unique) + said)
        except OSError:  # nobody waits any longer
            pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--interrupted", type=int, default=0)
    parser.add_argument("--other-inodes", action="store_true")
    parser.add_argument("--clock-back", action="store_true")
    parser.add_argument("below")
    parser.add_argument("mount")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    how = parser.parse_args()
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        sys.exit(CANNOT)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},default_permissions"
    if libc.mount(b"weir-test", os.fsencode(how.mount), b"fuse.weir-test", MS_NOSUID | MS_NODEV, options.encode()):
        sys.exit(CANNOT)
    threading.Thread(target=answer, args=(device, Files(os.path.realpath(how.below), how)), daemon=True).start()
    done = subprocess.run(how.command)
    libc.umount2(os.fsencode(how.mount), MNT_DETACH)
    sys.stdout.flush()
    os._exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


if __name__ == "__main__":
    main()
