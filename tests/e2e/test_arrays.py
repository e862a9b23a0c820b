"""Files of arrays against NumPy and onnx, figures against NumPy: what is read, what is refused, what is written."""

import io
import json
import math
import os
import struct
import subprocess
import zipfile
import zlib

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.runner import Runner

from conftest import built_tool

pytestmark = pytest.mark.in_memory

TOOL = built_tool("arrays_tool")
MEGABYTE = 1 << 20


def tool(*words, code=0):
    done = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout[:2000]}{done.stderr}"
    return done


def read(path, scratch, *more):
    return [json.loads(line) for line in tool("read", path, scratch, *more).stdout.splitlines()]


def refused(path, scratch, *more, code=65):
    return tool("read", path, scratch, *more, code=code).stderr


def name_of(row):
    return bytes.fromhex(row["name"]).decode()


NUMPY = {"float": "<f4", "double": "<f8", "float16": "<f2", "int8": "i1", "int16": "<i2", "int32": "<i4", "int64": "<i8",
         "uint8": "u1", "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "bool": "?", "complex64": "<c8",
         "complex128": "<c16"}  # fmt: skip


def value(row):
    if row["dtype"] == "string":
        return np.array([bytes.fromhex(s).decode() for s in row["strings"]], dtype=object).reshape(row["dims"])
    return np.frombuffer(bytes.fromhex(row["bytes"]), NUMPY[row["dtype"]]).reshape(row["dims"])


def same(row, array):
    got, want = value(row), np.asarray(array)
    assert list(got.shape) == list(want.shape)
    if want.dtype.kind in "US":
        want = want.astype(str).astype(object)
        assert (got == want).all()
    else:
        assert got.tobytes() == np.ascontiguousarray(want).astype(want.dtype.newbyteorder("<")).tobytes()
        assert row["dtype"] == "bool" or got.dtype == want.dtype.newbyteorder("<")


def samples():
    random = np.random.default_rng(1)
    for dtype in NUMPY.values():
        yield f"t/{dtype.strip('<?') or 'b'}", (random.random((3, 4, 5)) * 100).astype(dtype)
    yield "scalar", np.float32(2.5)
    yield "none", np.zeros((2, 0, 3), np.int16)
    yield "one", np.zeros((1, 1), np.int64)
    yield "fortran", np.asfortranarray(random.random((3, 4, 5, 2)))
    yield "fortran flat", np.asfortranarray(random.random((1, 7)).astype(np.float32))
    yield "swapped", random.random((4, 5)).astype(">f4")
    yield "swapped fortran", np.asfortranarray(np.arange(30, dtype=">i8").reshape(5, 6))
    yield "swapped complex", (random.random(4) + 1j).astype(">c8")
    yield "text", np.array([["", "a", "Grüße"], ["日本", "😀", "x" * 40]])
    yield "swapped text", np.array(["ab", "ü"]).astype(">U3")
    yield "bytes", np.array([b"raw", b"", b"abcdef"])
    yield "no text", np.array([], dtype="U5")
    yield "äöü/layers.0", np.arange(3)
    yield "large", random.random((300, 1001))
    yield "large fortran", np.asfortranarray(random.random((300, 501)))
    yield "deep", np.arange(2).reshape([1] * 30 + [2])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes(tmp_path, save):
    arrays = dict(samples())
    save(tmp_path / "a.npz", **arrays)
    rows = read(tmp_path / "a.npz", tmp_path)
    assert [name_of(row) for row in rows] == list(arrays)
    for row in rows:
        same(row, arrays[name_of(row)])
        assert row["in_file"] == (len(row.get("bytes", "")) > 2 * MEGABYTE)
        assert row["case"] == "a.npz"


def test_single_arrays_in_all_versions(tmp_path):
    for name, array in samples():
        for version in ((1, 0), (2, 0), (3, 0)):
            with open(tmp_path / "x.npy", "wb") as f:
                np.lib.format.write_array(f, np.asarray(array), version=version)
            (row,) = read(tmp_path / "x.npy", tmp_path)
            same(row, array)


def npy(header, data=b"", version=1):
    header = header if isinstance(header, bytes) else header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


def test_archives_that_are_not_written_to_a_file(tmp_path):
    """Sizes behind the bytes (a pipe cannot seek), ZIP64 records, a comment, members stored by hand."""
    arrays = {"a": np.arange(5.0), "b": np.arange(70000, dtype=np.int32)}

    class Pipe(io.RawIOBase):
        def __init__(self):
            self.bytes = b""

        def writable(self):
            return True

        def write(self, b):
            self.bytes += bytes(b)
            return len(b)

    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        pipe = Pipe()
        with zipfile.ZipFile(pipe, "w", method) as z:
            z.comment = b"PK\5\6 is no end here"
            for name, array in arrays.items():
                with z.open(name + ".npy", "w", force_zip64=name == "b") as f:
                    np.lib.format.write_array(f, array)
        (tmp_path / "p.npz").write_bytes(pipe.bytes)
        for row in read(tmp_path / "p.npz", tmp_path):
            same(row, arrays[name_of(row)])


def zip64(whole, members=1, directory=None, record=44):
    """The same archive with the end that large ones have."""
    end = len(whole) - 22
    size, offset = struct.unpack("<2I", whole[end + 12 : end + 20])
    offset = offset if directory is None else directory
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", record, 45, 45, 0, 0, members, members, size, offset)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
    return whole[:end] + end64 + locator + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0)


def test_zip64_end(tmp_path):
    path = archive(tmp_path / "x.npz", [("a.npy", GOOD)])
    whole = path.read_bytes()
    path.write_bytes(zip64(whole))
    with np.load(path) as z:
        same(read(path, tmp_path)[0], z["a"])
    for changes, words in (({"members": 2}, "its end counts 2"), ({"members": 2**60}, "the limits are 100000"), ({"record": 45}, "does not give the place"),
                           ({"directory": 5}, "does not give the place"), ({"directory": 2**64 - 1}, "does not give the place")):  # fmt: skip
        path.write_bytes(zip64(whole, **changes))
        assert words in refused(path, tmp_path)


def test_cases_of_a_folder(tmp_path):
    for name in ("b", "a"):
        np.savez(tmp_path / f"{name}.npz", x=np.arange(3))
    (tmp_path / "other.txt").write_text("x")
    assert [row["case"] for row in read(tmp_path, tmp_path)] == ["a.npz", "b.npz"]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no test_data_set_*/input_*.pb and no *.npz" in refused(empty, tmp_path, code=66)
    assert "cannot open" in refused(tmp_path / "missing.npz", tmp_path, code=66)
    os.mkfifo(tmp_path / "pipe.npz")
    assert "'{}' is not a regular file".format(tmp_path / "pipe.npz") in refused(tmp_path / "pipe.npz", tmp_path, code=66)
    (tmp_path / "folder.npz").mkdir()
    assert "folder.npz' has no" in refused(tmp_path / "folder.npz", tmp_path, code=66)
    assert "not a .npz or a .npy" in refused(empty.parent / "other.txt", tmp_path)


# ---- what is refused -----------------------------------------------------------------------------

PLAIN = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"
HEADERS = {
    "no dict": "import os",
    "a call": "__import__('os').system('true')",
    "a member missing": "{'descr': '<f4', 'shape': (2,)}",
    "a member twice": "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
    "another member": "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}",
    "no tuple": "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
    "a list": "{'descr': '<f4', 'fortran_order': False, 'shape': [2]}",
    "text behind": PLAIN + " 1",
    "an escape": "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (2,)}",
    "an open string": "{'descr': '<f4",
    "a number for a flag": "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
    "a huge number": "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
    "nothing": "",
}
TYPES = {"<f3": "'<f3', which weir does not read", "|O": "pickle", "|V2": "bfloat16", "<V1": "float8", "<M8[ns]": "times",
         "x": "'x', which weir does not read", "<f": "'<f', which", "<f16": "'<f16'", "<U9999999": "9999999 characters",
         "<i-4": "'<i-4'"}  # fmt: skip


def test_headers_that_are_none(tmp_path):
    path = tmp_path / "x.npy"
    for what, header in HEADERS.items():
        path.write_bytes(npy(header, b"\0" * 8))
        assert "its header is not {'descr'" in refused(path, tmp_path), what
    for descr, words in TYPES.items():
        path.write_bytes(npy(PLAIN.replace("<f4", descr), b"\0" * 8))
        assert words in refused(path, tmp_path), descr
    path.write_bytes(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", b"\0" * 8))
    assert "structured dtype" in refused(path, tmp_path)
    for shape, words in {"(-1,)": "dim 0 is -1", "(2, 9223372036854775807)": "too many elements",
                         "(1000000000000,)": "4000000000000 bytes, but 8 follow", "(1,)": "[1] have 4 bytes, but 8 follow",
                         "(" + "1, " * 65 + ")": "more than 64 dims"}.items():  # fmt: skip
        path.write_bytes(npy(PLAIN.replace("(2,)", shape), b"\0" * 8))
        assert words in refused(path, tmp_path), shape
    path.write_bytes(npy("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000000,)}"))
    assert "no memory for so many" in refused(path, tmp_path)
    path.write_bytes(npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}", struct.pack("<I", 0xD800)))
    assert "U+D800, which is not a character" in refused(path, tmp_path)
    for version, words in {0: "format 0.0", 4: "format 4.0"}.items():
        path.write_bytes(npy(PLAIN, b"\0" * 8).replace(b"NUMPY\1", b"NUMPY" + bytes([version])))
        assert words in refused(path, tmp_path)
    path.write_bytes(npy(PLAIN.ljust(70000), b"\0" * 8, version=2))
    assert "70000 bytes; at most 65536" in refused(path, tmp_path)
    np.save(path, np.array([{}], dtype=object))
    assert "a pickle is a program, and weir runs no programs from data" in refused(path, tmp_path)
    np.save(path, np.zeros(3, ml_dtypes.bfloat16))
    assert "bytes without a type" in refused(path, tmp_path)


def test_every_cut_is_refused(tmp_path):
    """All prefixes of an archive and of an array, and an archive whose bytes are changed one by one: an answer, or a
    refusal, and never other elements."""
    arrays = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "y": np.array([1, 2], np.int8)}
    np.save(tmp_path / "x.npy", arrays["x"])
    whole = (tmp_path / "x.npy").read_bytes()
    cuts = sorted({*range(0, 140, 7), len(whole) - 1})
    for n in cuts:
        (tmp_path / "x.npy").write_bytes(whole[:n])
        refused(tmp_path / "x.npy", tmp_path)
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    whole = (tmp_path / "x.npz").read_bytes()
    for n in range(0, len(whole), 9):
        (tmp_path / "x.npz").write_bytes(whole[:n])
        refused(tmp_path / "x.npz", tmp_path)


def archive(path, members):
    """(name, bytes, changes) each: a ZIP written by hand, whose headers say what is asked for."""
    body, directory = b"", b""
    for name, data, *more in members:
        change = {"method": 8, "flags": 0, "local": {}, **(more[0] if more else {})}
        packed = data
        if change["method"] == 8:
            deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
            packed = deflate.compress(data) + deflate.flush()
        packed = change.get("packed", packed)
        fields = {"crc": zlib.crc32(data), "size": len(packed), "bytes": len(data), "method": change["method"],
                  "flags": change["flags"], "name": name.encode() if isinstance(name, str) else name}  # fmt: skip
        central = {**fields, **{k: v for k, v in change.items() if k in fields or k == "offset"}}
        local = {**central, **change["local"]}
        offset = central.get("offset", len(body))
        body += struct.pack("<4s5H3I2H", b"PK\3\4", 20, local["flags"], local["method"], 0, 0, local["crc"], local["size"],
                            local["bytes"], len(local["name"]), 0) + local["name"] + packed  # fmt: skip
        directory += struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, central["flags"], central["method"], 0, 0, central["crc"],
                                 central["size"], central["bytes"], len(central["name"]), 0, 0, 0, 0, 0, offset) + central["name"]  # fmt: skip
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), len(body), 0)
    path.write_bytes(body + directory + end)
    return path


GOOD = npy(PLAIN, struct.pack("<2f", 1, 2))


def test_archives_by_hand(tmp_path):
    """The control arm: what `archive` writes is read."""
    path = archive(tmp_path / "x.npz", [("a.npy", GOOD), ("b/c.npy", GOOD, {"method": 0})])
    rows = read(path, tmp_path)
    assert [name_of(row) for row in rows] == ["a", "b/c"] and value(rows[1]).tolist() == [1, 2]


BAD_MEMBERS = {
    "is a folder": [("a/", b"", {"method": 0})],
    "is not a .npy": [("a.txt", GOOD)],
    "in the archive twice": [("a.npy", GOOD), ("a.npy", GOOD)],
    "is encrypted": [("a.npy", GOOD, {"flags": 1})],
    "compressed by method 14": [("a.npy", GOOD, {"method": 14})],
    "CRC-32": [("a.npy", GOOD, {"crc": 1})],
    "have CRC-32": [("a.npy", GOOD, {"crc": 1, "method": 0})],
    "inflates to more than": [("a.npy", GOOD, {"bytes": len(GOOD) - 1})],
    "inflates to": [("a.npy", GOOD, {"bytes": len(GOOD) + 1})],
    "with bytes left over": [("a.npy", GOOD, {"packed": zlib.compress(GOOD, 9, -15) + b"x"})],
    "deflated bytes are damaged": [("a.npy", GOOD, {"packed": b"\xff" * 40})],
    "end too early": [("a.npy", GOOD, {"packed": zlib.compress(GOOD, 9, -15)[:-3]})],
    "does not match its": [("a.npy", GOOD, {"bytes": 1 << 30})],
    "another size": [("a.npy", GOOD, {"local": {"bytes": 5}})],
    "its header disagrees": [("a.npy", GOOD, {"local": {"name": b"b.npy"}})],
    "disagrees with the directory": [("a.npy", GOOD, {"local": {"method": 0}})],
    "shares bytes": [("a.npy", GOOD), ("b.npy", GOOD, {"offset": 0, "local": {}, "name": b"a.npy"})],
    "header is damaged": [("a.npy", GOOD, {"offset": 1})],
    "past the members": [("a.npy", GOOD, {"offset": 100000})],
    "bytes are past": [("a.npy", GOOD, {"size": 99999, "bytes": 99999, "method": 0, "packed": GOOD})],
    "is not text": [(b"\xff.npy", GOOD)],
    "it is not a .npy": [("a.npy", b"PK\3\4")],
    "pickle": [("a.npy", npy(PLAIN.replace("<f4", "|O"), b"\0" * 16))],
}


@pytest.mark.parametrize("words", BAD_MEMBERS)
def test_bad_members(tmp_path, words):
    message = refused(archive(tmp_path / "x.npz", BAD_MEMBERS[words]), tmp_path)
    assert words in message or (words == "shares bytes" and "in the archive twice" in message), message


def test_overlapping_members(tmp_path):
    """Two names for the same bytes, which a bomb is made of: the local header has one name, so a quine is needed; here the
    second member lies inside the first one's stored bytes."""
    inner = struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 0, zlib.crc32(GOOD), len(GOOD), len(GOOD), 5, 0) + b"b.npy" + GOOD
    outer = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,)}" % len(inner), inner)
    offset = 30 + 5 + len(outer) - len(inner)
    path = archive(tmp_path / "x.npz", [("a.npy", outer, {"method": 0}), ("b.npy", GOOD, {"method": 0, "offset": offset})])
    assert "array 'b.npy': it shares bytes" in refused(path, tmp_path)


def test_ends_that_lie(tmp_path):
    path = archive(tmp_path / "x.npz", [("a.npy", GOOD)])
    whole = path.read_bytes()
    for at, change, words in ((12, b"\1", "does not give the place"), (16, b"\1", "does not give the place"), (4, b"\1", "several volumes"),
                              (8, b"\2\0\2", "directory has 1 members, but its end counts 2"),
                              (20, b"\5", "its end is missing")):  # fmt: skip
        end = len(whole) - 22
        path.write_bytes(whole[: end + at] + change + whole[end + at + len(change) :])
        assert words in refused(path, tmp_path)
    path.write_bytes(b"#!/bin/sh\n" + whole)
    assert "not a .npz" in refused(path, tmp_path)
    path.write_bytes(whole.replace(b"PK\1\2", b"PK\1\3"))
    assert "directory is damaged at member 1" in refused(path, tmp_path)
    path.write_bytes(b"PK\5\6" + b"\0" * 18)
    assert read(path, tmp_path) == []


def test_bombs(tmp_path):
    """Megabytes of zeros in a few kilobytes: refused before a byte is inflated where that is more than allowed."""
    zeros = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4000000,)}", b"\0" * 4000000)
    path = archive(tmp_path / "x.npz", [(f"{i}.npy", zeros) for i in range(3)])
    assert path.stat().st_size < 20000
    assert "all arrays together can have at most 10.0 MB" in refused(path, tmp_path, 10000000)
    assert len(tool("read", path, tmp_path, 12000000).stdout) > 24000000  # the control arm
    path = archive(tmp_path / "y.npz", [("a.npy", zeros, {"bytes": 2000})])
    assert "inflates to more than the 2000 bytes" in refused(path, tmp_path)


# ---- messages of onnx ----------------------------------------------------------------------------


def tensors():
    random = np.random.default_rng(3)
    for dtype in NUMPY.values():
        yield numpy_helper.from_array((random.random((2, 3)) * 100).astype(dtype))
    yield numpy_helper.from_array(np.array(["ä", "", "abc"], object), "named")
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
                  ml_dtypes.float8_e5m2fnuz, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn):  # fmt: skip
        yield numpy_helper.from_array((random.random((3, 5)) * 6).astype(dtype))
    for kind, values in ((TensorProto.FLOAT, [1.5, -2, 3]), (TensorProto.DOUBLE, [1.5, -2, 3]), (TensorProto.INT64, [1, -(2**60), 3]),
                         (TensorProto.INT32, [1, -2, 3]), (TensorProto.INT8, [1, -2, 3]), (TensorProto.UINT8, [1, 255, 3]),
                         (TensorProto.BOOL, [1, 0, 1]), (TensorProto.UINT64, [1, 2**63, 3]), (TensorProto.UINT32, [1, 2**31, 3]),
                         (TensorProto.FLOAT16, [1.5, -2, 3]), (TensorProto.BFLOAT16, [1.5, -2, 3]),
                         (TensorProto.COMPLEX64, [1 + 2j, 3, 4j]), (TensorProto.INT4, [1, -2, 3])):  # fmt: skip
        yield helper.make_tensor("typed", kind, [3], values)
    yield helper.make_tensor("", TensorProto.INT8, [], [5])  # the bytes of a sequence of sequences, if one were 1 byte long
    yield helper.make_tensor("", TensorProto.INT8, [], [-5])
    yield numpy_helper.from_array(random.random(200000))
    yield helper.make_tensor("floats", TensorProto.FLOAT, [300000], random.random(300000).astype(np.float32))
    yield helper.make_tensor("longs", TensorProto.INT64, [200000], np.arange(200000) * 7919**3)
    yield numpy_helper.from_array(np.zeros((0, 2), np.float32))


def raw_of(tensor):
    if tensor.raw_data:
        return tensor.raw_data
    array = numpy_helper.to_array(tensor)
    return numpy_helper.from_array(array).raw_data if array.dtype != object else None


def test_tensors(tmp_path):
    for tensor in tensors():
        path = tmp_path / "x.pb"
        path.write_bytes(tensor.SerializeToString())
        (row,) = read(path, tmp_path)
        assert row["dims"] == list(tensor.dims) and name_of(row) == tensor.name and row["kind"] == "tensor"
        assert row["dtype"] == TensorProto.DataType.Name(tensor.data_type).lower()
        if tensor.data_type == TensorProto.STRING:
            assert [bytes.fromhex(s) for s in row["strings"]] == list(tensor.string_data)
        else:
            assert bytes.fromhex(row["bytes"]) == raw_of(tensor)
        assert row["in_file"] == (len(row.get("bytes", "")) > 2 * MEGABYTE)
        again = write(path, tmp_path, 0).read_bytes()
        back = TensorProto.FromString(again)
        np.testing.assert_array_equal(numpy_helper.to_array(back), numpy_helper.to_array(tensor))
        assert back.name == tensor.name


def write(path, folder, k, *more):
    tool("write", path, folder, folder / "case", k, *more)
    done = folder / "case" / f"test_data_set_{k}"
    made = (done / "input_0.pb").rename(folder / "made.pb")
    done.rmdir()
    return made


SEQUENCES = [[], [np.arange(3)], [np.arange(3.0), np.zeros((2, 2)), np.zeros(0)], [np.array(["a", "b"], object)],
             [[np.arange(2)], []], [[[np.arange(2), np.arange(3)]]]]  # fmt: skip


def flat(array):
    """What the tool prints of a sequence."""
    if isinstance(array, np.ndarray):
        return [("tensor", list(array.shape))]
    return [("sequence", len(array)), *(x for item in array for x in flat(item))]


def shapes(rows):
    return [("tensor", row["dims"]) if row["kind"] == "tensor" else (row["kind"], row["items"]) for row in rows]


def test_sequences(tmp_path):
    for sequence in SEQUENCES:
        path = tmp_path / "x.pb"
        path.write_bytes(numpy_helper.from_list(sequence, "named").SerializeToString())
        rows = read(path, tmp_path)
        assert shapes(rows) == flat(sequence) and name_of(rows[0]) == "named"
        assert rows[0]["either"] == (len(sequence) < 2) and not any(row["either"] for row in rows[1:])
        back = onnx.SequenceProto.FromString(write(path, tmp_path, 1).read_bytes())
        got = numpy_helper.to_list(back)
        assert back.name == "named" and flat(list(got)) == flat(sequence)


def test_optionals(tmp_path):
    path = tmp_path / "x.pb"
    for held, kinds in ((np.arange(3), [("tensor", [3])]), ([np.arange(3), np.zeros(2)], [("sequence", 2), ("tensor", [3]), ("tensor", [2])])):
        path.write_bytes(numpy_helper.from_optional(held, "named").SerializeToString())
        assert shapes(read(path, tmp_path, "optional")) == kinds
        assert shapes(read(path, tmp_path)) == [("sequence", 1), *kinds]
        back = onnx.OptionalProto.FromString(write(path, tmp_path, 0, "optional").read_bytes())
        assert (back.name, back.elem_type) == ("named", 3 if isinstance(held, list) else 1)
        np.testing.assert_equal(numpy_helper.to_optional(back), held)
    path.write_bytes(numpy_helper.from_optional(None).SerializeToString())
    assert shapes(read(path, tmp_path)) == [("nothing", 0)]
    made = onnx.OptionalProto.FromString(write(path, tmp_path, 0).read_bytes())
    assert numpy_helper.to_optional(made) is None


def test_bad_messages(tmp_path):
    path = tmp_path / "x.pb"
    good = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "x")

    def changed(**fields):
        t = TensorProto()
        t.CopyFrom(good)
        for name, to in fields.items():
            if name == "dims" or name.endswith("_data") and name != "raw_data":
                getattr(t, name).extend(to)
            else:
                setattr(t, name, to)
        return t.SerializeToString()

    deep = onnx.SequenceProto(elem_type=1)
    for _ in range(9):
        deep = onnx.SequenceProto(elem_type=3, sequence_values=[deep])
    far = TensorProto(data_type=1, dims=[1], data_location=1)
    far.external_data.add(key="location", value="/etc/passwd")
    bad = {
        "is empty": b"",
        "needs 24 bytes, but has 20": changed(raw_data=b"\0" * 20),
        "needs 48 bytes, but has 24": changed(dims=[2]),
        "of type 99": changed(data_type=99),
        "of type 0": TensorProto(dims=[0]).SerializeToString(),
        "elements in two fields": changed(float_data=[1.0] * 6),
        "field for other types": TensorProto(data_type=1, dims=[1], int64_data=[1]).SerializeToString(),
        "dim 0 of its tensor is -1": TensorProto(data_type=1, dims=[-1]).SerializeToString(),
        "too many elements": TensorProto(data_type=1, dims=[2**62, 2**62]).SerializeToString(),
        "more than 64 dims": TensorProto(data_type=1, dims=[1] * 65).SerializeToString(),
        "no memory for so many": TensorProto(data_type=8, dims=[2**40]).SerializeToString(),
        "has its elements in another file": far.SerializeToString(),
        "a segment of a tensor": TensorProto(data_type=1, dims=[1], segment=TensorProto.Segment(begin=1)).SerializeToString(),
        "more than 8 deep": deep.SerializeToString(),
        "a map": onnx.SequenceProto(elem_type=4, map_values=[onnx.MapProto()]).SerializeToString(),
        "a sparse tensor": onnx.SequenceProto(elem_type=2, sparse_tensor_values=[onnx.SparseTensorProto()]).SerializeToString(),
        "name of its tensor has 5000": changed(name="x" * 5000),
        "a zero byte": changed(name="a\0b"),
        "is not a TensorProto": b"\x0b\x00",
    }
    for words, content in bad.items():
        if words == "no memory for so many":
            words = "needs 1099511627776 entries, but has 0"
        path.write_bytes(content)
        message = refused(path, tmp_path)
        assert words in message, (words, message)
    whole = good.SerializeToString()
    for n in range(len(whole)):
        path.write_bytes(whole[:n])
        refused(path, tmp_path)


def test_a_data_set_is_read_and_written_as_onnx_does(tmp_path):
    """A case of NumPy's becomes a folder that onnx's own runner reads; read again, it is the same."""
    arrays = {"x": np.random.default_rng(5).random((3, 4)).astype(np.float32), "n": np.array([3]), "s": np.array(["a", "ü"])}
    np.savez(tmp_path / "in.npz", **arrays)
    tool("write", tmp_path / "in.npz", tmp_path, tmp_path / "case", 0)
    tool("write", tmp_path / "in.npz", tmp_path, tmp_path / "case", 10)
    tool("write", tmp_path / "in.npz", tmp_path, tmp_path / "case", 2)
    folder = tmp_path / "case" / "test_data_set_0"
    assert sorted(p.name for p in folder.iterdir()) == ["input_0.pb", "input_1.pb", "input_2.pb"]
    got = []
    runner = Runner.__new__(Runner)
    for i, kind in enumerate((TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING)):
        runner._load_proto(str(folder / f"input_{i}.pb"), got, helper.make_tensor_type_proto(kind, None))
    for array, want in zip(got, arrays.values()):
        np.testing.assert_array_equal(array.astype(str) if array.dtype == object else array, want)
    rows = read(tmp_path / "case", tmp_path)
    assert [row["case"] for row in rows[::3]] == ["test_data_set_0", "test_data_set_2", "test_data_set_10"]
    for row, array in zip(rows, arrays.values()):
        same(row, array)
    assert read(folder, tmp_path) == rows[:3] == read(f"{folder}/", tmp_path)
    message = tool("write", tmp_path / "in.npz", tmp_path, tmp_path / "case", 0, code=1).stderr
    assert "already has a test_data_set_0" in message
    assert sorted(p.name for p in (tmp_path / "case").iterdir()) == ["test_data_set_0", "test_data_set_10", "test_data_set_2"]
    (folder / "output_0.pb").write_bytes((folder / "input_0.pb").read_bytes())
    assert [row["list"] for row in read(folder, tmp_path)] == ["inputs"] * 3 + ["outputs"]
    (folder / "input_1.pb").unlink()
    assert "has input_2.pb, but no input_1.pb" in refused(folder, tmp_path, code=66)


# ---- figures -------------------------------------------------------------------------------------


def wide(x):
    return np.asarray(x).astype(np.float64)


def expected(r, x, rtol=1e-5, atol=1e-5):
    """The same figures with NumPy, by definition."""
    a, b = wide(r).ravel(), wide(x).ravel()
    fine = np.isfinite(a) & np.isfinite(b)
    apart = ~fine & ~((a == b) | (np.isnan(a) & np.isnan(b)))
    a, b = np.where(fine, a, 0), np.where(fine, b, 0)
    d = np.abs(a - b)
    if np.asarray(r).dtype.kind in "iu":
        d = np.array([float(abs(int(p) - int(q))) for p, q in zip(np.asarray(r).ravel(), np.asarray(x).ravel())])
    n = d.size
    ranked = np.sort(d)
    size = max(np.abs(a).max(), np.abs(b).max()) or 1  # squares neither overflow nor vanish
    rr, xx, rx, ee = (math.fsum((p / size) * (q / size)) for p, q in ((a, a), (b, b), (a, b), (d, d)))
    figures = {
        "count": n, "max_abs": d.max(), "mean_abs": math.fsum(d) / n, "p99": ranked[n - n // 100 - 1],
        "p999": ranked[n - n // 1000 - 1], "relative": d.max() / np.abs(a).max() if np.abs(a).max() else math.inf,
        "cosine": rx / math.sqrt(rr) / math.sqrt(xx) if rr and xx else 0.0,
        "sqnr": 10 * math.log10(rr / ee) if ee and rr else -math.inf if ee else math.inf, "largest": np.abs(a).max(),
        "first_worst": int(d.argmax()), "apart": int(apart.sum()), "first_apart": int(apart.argmax()),
        "nonfinite": int((~np.isfinite(wide(r))).sum()), "nonfinite_result": int((~np.isfinite(wide(x))).sum()),
        "beyond": int((d > atol + rtol * np.minimum(np.abs(a), np.abs(b))).sum() + apart.sum()),
    }  # fmt: skip
    if d.max() == 0:
        figures.update(relative=0.0, cosine=1.0)
    r, x = np.asarray(r), np.asarray(x)
    if r.ndim and r.shape[-1] >= 2 and r.dtype != bool:
        rows = [side.reshape(-1, r.shape[-1]) for side in (wide(r), wide(x))]
        none = [np.isnan(side).any(1) for side in rows]  # no largest element
        same = (rows[0].argmax(1) == rows[1].argmax(1)) & ~none[0]
        counted = ~(none[0] & none[1])
        if counted.any():
            figures["top1"] = float(same[counted].mean())
    return figures


def check(got, want):
    for name, number in want.items():
        seen = float(got[name])
        if name in ("mean_abs", "cosine", "sqnr"):
            assert math.isclose(seen, number, rel_tol=1e-12, abs_tol=1e-300), (name, seen, number)
        else:
            assert seen == number, (name, seen, number)


def compare(folder, pairs, *bounds):
    """Figures of pairs of arrays, by one run of the tool."""
    np.savez(folder / "r.npz", **{f"{i:03}": r for i, (r, _) in enumerate(pairs)})
    np.savez(folder / "x.npz", **{f"{i:03}": x for i, (_, x) in enumerate(pairs)})
    done = tool("compare", folder / "r.npz", folder / "x.npz", folder, *bounds)
    return [json.loads(line) for line in done.stdout.splitlines()]


def pairs_of_numbers():
    random = np.random.default_rng(11)
    for shape in ((1,), (2,), (7,), (1023,), (1024,), (1025,), (3, 1000), (50, 2), (4, 5, 300), (2, 5000), (200, 1001)):
        r = random.standard_normal(shape)
        x = r + 1e-3 * random.standard_normal(shape)
        yield r, x
        yield r.astype(np.float32), x.astype(np.float32)
        yield r.astype(np.float16), x.astype(np.float16)
        rare = np.where(random.random(shape) < 0.01, x, r)
        yield r, rare
        yield r, r.copy()
        for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
            yield (np.abs(r) * 40).astype(dtype), (np.abs(x) * 40.5).astype(dtype)
        yield r > 0, x > 0.001
        yield r * 0, x
        yield r, r * 0
        yield r * 1e200, x * 1e200
        yield r * 1e-200, x * 1e-200
        yield r, -r
    yield np.int64([2**62, 5]), np.int64([2**62 + 1, 5])
    yield np.uint64([2**64 - 1, 0, 3]), np.uint64([0, 2**64 - 1, 3])
    yield np.int64([-(2**63), 1]), np.int64([2**63 - 1, 1])
    # Steps: few different differences, among many elements; and differences of all sizes.
    r = random.standard_normal(150000)
    yield r, r + random.integers(0, 3, r.size) * 0.25
    yield np.zeros(140000), np.exp(random.standard_normal(140000) * 100)
    yield np.zeros(140000, np.float32), random.integers(0, 2, 140000).astype(np.float32)
    # All in one bin of the first 16 bits, then of the next.
    yield np.zeros(140000), 1 + random.random(140000) * 2.0**-12
    yield np.zeros(140000), 1 + random.random(140000) * 2.0**-30
    yield np.zeros(140000), 1 + random.integers(0, 100, 140000) * 2.0**-52


def test_figures(tmp_path):
    pairs = list(pairs_of_numbers())
    for i, (got, (r, x)) in enumerate(zip(compare(tmp_path, pairs, "free"), pairs)):
        want = expected(r, x)
        want.pop("beyond")
        try:
            check(got, want)
        except AssertionError as error:
            raise AssertionError(f"pair {i}: {r.dtype} {r.shape}: {error}") from None
        assert got["has_top1"] == ("top1" in want)
        assert got["unequal"] == int((r != x).sum()) and got["end"] == "passed"


def test_close_is_allclose_in_both_directions(tmp_path):
    pairs = list(pairs_of_numbers())[:60]
    for got, (r, x) in zip(compare(tmp_path, pairs), pairs):
        both = np.isclose(wide(r), wide(x), 1e-5, 1e-5) & np.isclose(wide(x), wide(r), 1e-5, 1e-5)
        assert got["beyond"] == int((~both).sum())
        assert (got["end"] == "passed") == (got["beyond"] == 0)
        if got["beyond"]:
            assert "beyond rtol 1e-05 and atol 1e-05" in got["why"]


def test_what_is_not_finite(tmp_path):
    nan, inf = np.nan, np.inf
    random = np.random.default_rng(2)
    long = random.standard_normal((3, 5000)).astype(np.float32)
    holes = long.copy()
    holes[1, 4000], holes[2, 0] = nan, inf
    pairs = [
        (np.float32([1, nan, 2]), np.float32([1, nan, 2])),
        (np.float32([1, inf, -inf]), np.float32([1.5, inf, -inf])),
        (np.float32([1, inf, 2]), np.float32([1, -inf, 2])),
        (np.float32([1, nan, 2]), np.float32([1, inf, 2])),
        (np.float32([1, 2, 3]), np.float32([1, nan, 3])),
        (np.float32([nan, 2, 3]), np.float32([1, 2, 3])),
        (np.float32([nan, nan]), np.float32([nan, nan])),
        (long, holes),
        (holes, holes.copy()),
        (holes, holes * np.float32(1.5)),
        (np.float16([inf, 5]), np.float16([inf, 6])),
    ]
    rows = compare(tmp_path, pairs, "free")
    for got, (r, x) in zip(rows, pairs):
        want = expected(r, x)
        want.pop("beyond")
        if want["nonfinite"] == want["count"]:
            want.update(relative=0, cosine=1)
        check(got, want)
        assert (got["end"] == "failed") == (want["apart"] > 0)
        assert ("not finite in only one of the two" in got["why"]) == (want["apart"] > 0)
    assert rows[7]["first_apart"] == 9000 and rows[9]["first_nonfinite"] == 9000
    for got, (r, x) in zip(compare(tmp_path, pairs, "finite", "free"), pairs):
        assert got["end"] == "failed"
    for got, (r, x) in zip(compare(tmp_path, pairs, "equal", "free"), pairs):
        assert (got["end"] == "passed") == np.array_equal(r, x, equal_nan=True)
    other = [(np.array([0x7FC00000, 0], np.uint32).view(np.float32), np.array([0xFFC00001, 0x80000000], np.uint32).view(np.float32))]
    (got,) = compare(tmp_path, other, "equal", "free")
    assert (got["unequal"], got["unequal_zeros"], got["end"]) == (1, 1, "failed")
    (got,) = compare(tmp_path, other, "equal", "zeros", "free")
    assert got["end"] == "passed"


def compare_messages(folder, r, x, *bounds):
    (folder / "r.pb").write_bytes(r.SerializeToString())
    (folder / "x.pb").write_bytes(x.SerializeToString())
    done = tool("compare", folder / "r.pb", folder / "x.pb", folder, *bounds)
    return json.loads(done.stdout)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4",
                                   "float4_e2m1fn", "int2", "uint2"])  # fmt: skip
def test_small_types(tmp_path, dtype):
    random = np.random.default_rng(4)
    for shape in ((5,), (3, 7), (40, 1001)):
        r = (random.random(shape) * 2).astype(getattr(ml_dtypes, dtype))
        x = (random.random(shape) * 2).astype(getattr(ml_dtypes, dtype))
        got = compare_messages(tmp_path, numpy_helper.from_array(r), numpy_helper.from_array(x), "free")
        r, x = r.astype(np.float64), x.astype(np.float64)
        want = expected(r, x)
        want.pop("beyond")
        check(got, want)
        assert got["unequal"] == int((r != x).sum())


def test_two_float_types(tmp_path):
    random = np.random.default_rng(9)
    for shape in ((7,), (3, 1100), (2, 200000)):
        r = random.standard_normal(shape).astype(np.float32)
        for dtype in (np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float4_e2m1fn):
            x = r.astype(dtype)
            sides = numpy_helper.from_array(r), numpy_helper.from_array(x)
            got = compare_messages(tmp_path, *sides, "free", "retyped")
            want = expected(r, x.astype(np.float64))
            want.pop("beyond")
            check(got, want)
            assert got["unequal"] == int((r.astype(np.float64) != x.astype(np.float64)).sum())
            assert compare_messages(tmp_path, *sides, "free")["end"] == "different"
    pair = numpy_helper.from_array(np.zeros(3, np.float32)), numpy_helper.from_array(np.zeros(3, np.int32))
    assert compare_messages(tmp_path, *pair, "retyped")["end"] == "different"


def test_sequences_and_strings(tmp_path):
    random = np.random.default_rng(8)
    parts = [(random.random(n), random.random(n)) for n in (5, 3000, 1, 0, 200)]
    sides = [numpy_helper.from_list([pair[s] for pair in parts]) for s in (0, 1)]
    want = expected(np.concatenate([r for r, _ in parts]), np.concatenate([x for _, x in parts]))
    want["top1"] = float(np.mean([r.argmax() == x.argmax() for r, x in parts if r.size >= 2]))
    want.pop("beyond")
    check(compare_messages(tmp_path, *sides, "free"), want)
    got = compare_messages(tmp_path, sides[0], numpy_helper.from_list([parts[0][0]]))
    assert got["end"] == "different" and got["why"] == "a sequence of 5 and a sequence of 1"
    got = compare_messages(tmp_path, numpy_helper.from_array(np.zeros(3)), numpy_helper.from_array(np.zeros((3, 1))))
    assert got["end"] == "different" and got["why"] == "double[3] and double[3,1]"
    got = compare_messages(tmp_path, numpy_helper.from_array(np.zeros(3)), numpy_helper.from_array(np.zeros(3, np.float32)))
    assert got["why"] == "double[3] and float[3]"
    texts = [numpy_helper.from_array(np.array(t, object)) for t in (["a", "b", "c"], ["a", "x", "c"])]
    assert compare_messages(tmp_path, texts[0], texts[0], "equal", "cosine=1", "top1=1", "max_abs=0")["end"] == "passed"
    for bound in ("equal", "max_abs=1", "mean_abs=9", "cosine=0.1", "sqnr=-900", "relative=9", "top1=0.5", "p99=5"):
        got = compare_messages(tmp_path, texts[0], texts[1], "free", bound)
        assert got["end"] == "failed" and got["unequal"] == 1 and got["first_worst"] == 1, bound
    nothing = numpy_helper.from_optional(None)
    assert compare_messages(tmp_path, nothing, nothing, "equal")["end"] == "passed"
    assert compare_messages(tmp_path, nothing, numpy_helper.from_array(np.zeros(3)))["why"] == "nothing and double[3]"


def test_bounds(tmp_path):
    """Each metric fails just past its figure and passes at it."""
    random = np.random.default_rng(6)
    pair = [(r := random.standard_normal((20, 50)), r + 0.3 * random.standard_normal((20, 50)))]
    (free,) = compare(tmp_path, pair, "free")
    figures = {"max_abs": "max_abs", "mean_abs": "mean_abs", "p99": "p99", "p999": "p999", "relative": "relative", "cosine": "cosine",
               "sqnr": "sqnr", "top1": "top1"}  # fmt: skip
    for metric, name in figures.items():
        least = metric in ("cosine", "sqnr", "top1")
        sign, other = (">=", "<=") if least else ("<=", ">=")
        for form in ("=", sign):
            (got,) = compare(tmp_path, pair, "free", f"{metric}{form}{free[name]!r}")
            assert got["end"] == "passed", metric
        worse = free[name] * (1 + 1e-9 if least == (free[name] > 0) else 1 - 1e-9)
        (got,) = compare(tmp_path, pair, "free", f"{metric}={worse!r}")
        assert got["end"] == "failed" and ("is below" if least else "is above") in got["why"], metric
        message = tool("compare", tmp_path / "r.npz", tmp_path / "x.npz", tmp_path, f"{metric}{other}0.5", code=2).stderr
        assert f"write {metric}{sign}0.5" in message
    for word in ("cosin=1", "sqnr", "sqnr=", "sqnr=x", "top1=1.5", "max_abs=-1", "p99=nan", "p99=inf", "=1", "cosine=2"):
        tool("compare", tmp_path / "r.npz", tmp_path / "x.npz", tmp_path, word, code=2)
    (got,) = compare(tmp_path, pair, "free", "max_abs=0", "cosine=1", "sqnr=900", "top1=1")
    assert got["why"].count(",") >= 3 and got["why"].startswith("max abs ")
