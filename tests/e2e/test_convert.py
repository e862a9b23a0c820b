"""`weir convert`: whatever the layout, the model means the same.

Round trips between one file, one data file and many; the rules of where a payload goes; every dtype in every encoding;
every model that onnx ships for its backend tests; and equal bytes from any number of workers, engine and memory.
"""

import itertools
import os
import re
import shutil
import stat

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compare
import make_encoder
import sampler
import wire
from conftest import ALL, DATA, copy_model

KIB, MIB = 1 << 10, 1 << 20
FIXTURES = ["parakeet-dynamo", "parakeet-torchscript"]


def write(folder, content, name="model.onnx"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def sized_model(folder, sizes, name="model.onnx", inline=True):
    """A model with one uint8 initializer a size, w0, w1, …; with a data file, w<n> starts at an odd place."""
    weights, data = [], b""
    for number, size in enumerate(sizes):
        raw = sampler.elements("uint8", size, number)
        if inline:
            weights.append(wire.tensor(f"w{number}", wire.UINT8, (size,), raw))
            continue
        data += b"\xee" * 7
        pairs = wire.external("weights.bin", len(data), size)
        weights.append(wire.tensor(f"w{number}", wire.UINT8, (size,), pairs=pairs))
        data += raw
    nodes = sampler.carried([f"w{number}" for number in range(len(sizes))])
    outputs = [(f"w{number}.out", wire.UINT8, [size]) for number, size in enumerate(sizes)]
    path = write(folder, wire.model(wire.graph(nodes, weights, [], outputs)), name)
    if not inline:
        (folder / "weights.bin").write_bytes(data)
    return path


def external_tensors(path):
    return [tensor for _, tensor in compare.tensors(compare.structure(path)) if compare.is_external(tensor)]


def places(path):
    """name → (offset, length) of every tensor in the data file."""
    pairs = {tensor.name: compare.external_pairs(tensor) for tensor in external_tensors(path)}
    return {name: (int(each["offset"]), int(each["length"])) for name, each in pairs.items()}


# ---- round trips


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture_round_trip(weir, tmp_path, name):
    """Data files → one sidecar → inline → one sidecar: always the same model, and the second sidecar is the first."""
    source = DATA / name / "encoder-model.onnx"
    first, inline, again = (tmp_path / each / "encoder-model.onnx" for each in ("first", "inline", "again"))
    for path in (first, inline, again):
        path.parent.mkdir()
    weir("convert", source, first)
    weir("convert", first, inline, "--inline")
    weir("convert", inline, again, "--external")
    for path in (first, inline, again):
        compare.same_meaning(source, path)
        onnx.checker.check_model(path)
    assert sorted(os.listdir(inline.parent)) == ["encoder-model.onnx", "encoder-model.onnx.manifest.json"]
    assert compare.model_files(first) | {"encoder-model.onnx.manifest.json": b""} == (
        compare.model_files(again) | {"encoder-model.onnx.manifest.json": b""}
    )


def test_the_comparison_can_fail(weir, tmp_path):
    """The control arm of every test here: one bit of one weight, or one name, and the models differ."""
    source = DATA / "parakeet-dynamo" / "encoder-model.onnx"
    weir("convert", source, tmp_path / "out.onnx")
    data = bytearray((tmp_path / "out.onnx.data").read_bytes())
    data[100_000] ^= 1
    (tmp_path / "out.onnx.data").write_bytes(data)
    with pytest.raises(AssertionError, match="raw_data"):
        compare.same_meaning(source, tmp_path / "out.onnx")
    model = compare.structure(source)
    model.graph.node[3].name += "x"
    shutil.copytree(source.parent, tmp_path / "renamed")
    (tmp_path / "renamed" / source.name).write_bytes(model.SerializeToString())
    with pytest.raises(AssertionError, match="name"):
        compare.same_meaning(source, tmp_path / "renamed" / source.name)


def test_many_files_become_one(weir, tmp_path):
    source = DATA / "parakeet-torchscript" / "encoder-model.onnx"
    assert len({compare.external_pairs(tensor)["location"] for tensor in external_tensors(source)}) > 20
    weir("convert", source, tmp_path / "out.onnx")
    assert sorted(os.listdir(tmp_path)) == ["out.onnx", "out.onnx.data", "out.onnx.manifest.json"]
    compare.same_meaning(source, tmp_path / "out.onnx")


def test_onnx_load_sees_the_same_tensors(weir, tmp_path, small_encoder):
    """The library's own loader as the witness, beside our own."""
    weir("convert", small_encoder, tmp_path / "out.onnx")
    weir("convert", small_encoder, tmp_path / "inline.onnx", "--inline")
    models = [onnx.load(path) for path in (small_encoder, tmp_path / "out.onnx", tmp_path / "inline.onnx")]
    for other in models[1:]:
        assert list(models[0].graph.node) == list(other.graph.node)
        for a, b in zip(models[0].graph.initializer, other.graph.initializer, strict=True):
            assert (a.name, a.data_type, list(a.dims)) == (b.name, b.data_type, list(b.dims))
            assert onnx.numpy_helper.to_array(a).tobytes() == onnx.numpy_helper.to_array(b).tobytes()


def test_inline_stays_byte_for_byte(weir, tmp_path):
    """What nothing changes is a copy of the source's bytes, fields that nobody knows included."""
    for name, content in (("everything", sampler.everything()), ("payloads", sampler.every_payload())):
        source = write(tmp_path / name, content)
        weir("convert", source, tmp_path / f"{name}.onnx")
        assert (tmp_path / f"{name}.onnx").read_bytes() == content


def test_everything_round_trip(weir, tmp_path):
    """Sparse tensors, functions, training info, Constants, subgraphs, unknown fields: out and back in again."""
    source = write(tmp_path / "in", sampler.everything())
    weir("convert", source, tmp_path / "out.onnx", "--external")
    weir("convert", tmp_path / "out.onnx", tmp_path / "back.onnx", "--inline")
    assert external_tensors(tmp_path / "out.onnx")
    compare.same_meaning(source, tmp_path / "out.onnx")
    compare.same_meaning(source, tmp_path / "back.onnx")


def test_unknown_fields_survive_in_touched_messages(weir, tmp_path):
    """Each unknown field is in the output as often as in the source, also where the message had to be written anew."""
    source = write(tmp_path / "in", sampler.everything())
    weir("convert", source, tmp_path / "out.onnx", "--external")
    for text in (source.read_bytes(), (tmp_path / "out.onnx").read_bytes()):
        words = re.findall(rb"unknown in ([a-z ]+[a-z])", text)
        assert sorted(set(words)) == [
            b"attribute", b"function", b"graph", b"model", b"node", b"sparse tensor", b"subgraph", b"tensor",
            b"training",
        ]  # fmt: skip
        assert len(words) == 9
    assert (tmp_path / "out.onnx").read_bytes().count(sampler.unknown("tensor")) == 1


def unknown(text):
    return b"\x9a\x06" + bytes([len(text)]) + text  # field 99


@pytest.mark.parametrize("words", [
    ["quantize", "--block-size", "16"],
    ["quantize", "--block-size", "16", "--format", "qdq"],
    ["convert", "--external"],
], ids=["import", "raise", "move"])  # fmt: skip
def test_unknown_fields_of_imports_survive(weir, tmp_path, words):
    """Where another import is added, where the version of one is raised, and where nothing is written anew."""
    weight = numpy_helper.from_array(np.random.default_rng(1).normal(size=(64, 64)).astype(np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "mm")], "g", [x], [y], [weight])
    model = helper.make_model(graph, ir_version=10)
    del model.opset_import[:]
    for domain, version, text in (("", 20, b"first"), ("com.acme", 2, b"second")):
        model.opset_import.add(domain=domain, version=version).MergeFromString(unknown(text))
    write(tmp_path, model.SerializeToString(), "in.onnx")
    weir(words[0], tmp_path / "in.onnx", tmp_path / "out.onnx", *words[1:])
    found = {o.domain: o.SerializeToString() for o in onnx.load(tmp_path / "out.onnx", load_external_data=False).opset_import}
    assert unknown(b"first") in found[""] and unknown(b"second") in found["com.acme"]
    content = (tmp_path / "out.onnx").read_bytes()
    assert content.count(unknown(b"first")) == content.count(unknown(b"second")) == 1


def test_known_everything_passes_the_checker(weir, tmp_path):
    source = write(tmp_path / "in", sampler.everything(with_unknown=False))
    weir("convert", source, tmp_path / "out.onnx", "--external")
    onnx.checker.check_model(source)
    onnx.checker.check_model(tmp_path / "out.onnx")


# ---- payloads


def test_every_dtype_in_every_encoding(weir, tmp_path):
    """Typed fields become raw bytes in the sidecar; what is small keeps its encoding."""
    source = write(tmp_path / "in", sampler.every_payload())
    weir("convert", source, tmp_path / "out.onnx", "--external")
    weir("convert", tmp_path / "out.onnx", tmp_path / "back.onnx", "--inline")
    compare.same_meaning(source, tmp_path / "out.onnx")
    compare.same_meaning(source, tmp_path / "back.onnx")
    moved = {tensor.name for tensor in external_tensors(tmp_path / "out.onnx")}
    large = {each.name for _, each in compare.tensors(compare.structure(source))
             if each.data_type != TensorProto.STRING and compare.tensor_bytes(each) >= 1024}  # fmt: skip
    assert moved == large


def test_bits_beyond_an_int32(weir, tmp_path):
    """int32_data holds int32: what a varint has above 32 bits does not count, for a bool as for any other type."""
    for count in (2000, 70_000):  # known when loading, and read when writing
        entries = [each % 3 << 32 | (each % 5 == 0) for each in range(count)]
        bools = wire.tensor("b", wire.BOOL, (count,), more=wire.packed(5, entries))
        bytes_ = wire.tensor("u", wire.UINT8, (count,), more=wire.packed(5, entries))
        outputs = [("b.out", wire.BOOL, [count]), ("u.out", wire.UINT8, [count])]
        graph = wire.graph(sampler.carried(["b", "u"]), [bools, bytes_], [], outputs)
        source = write(tmp_path / str(count), wire.model(graph))
        weir("convert", source, source.parent / "out.onnx", "--external")
        assert len(external_tensors(source.parent / "out.onnx")) == 2
        compare.same_meaning(source, source.parent / "out.onnx")


@pytest.mark.parametrize("names", [["", "w"], ["w", ""], ["w", "", "w"], ["v", "w"], ["", "v", "", "w"]], ids="-".join)
def test_the_last_of_two_names_counts(weir, tmp_path, names):
    """A field that is given twice where one belongs; also in a tensor that is encoded anew."""
    raw = wire.blob(9, sampler.elements("float", 500, 1))
    weight = wire.uint(1, 500) + wire.uint(2, 1) + wire.blobs(8, names) + wire.blob(12, "a weight") + raw
    constant = sampler.constant("c", sampler.attribute("value", 4, wire.blob(5, weight)))
    initializers = [weight] if names[-1] else []
    nodes = [constant, *sampler.carried(["c", "w"] if initializers else ["c"])]
    source = write(tmp_path, wire.model(wire.graph(nodes, initializers, [], [("c.out", wire.FLOAT, [500])])))
    for out, *options in [("out.onnx", "--external"), ("back.onnx", "--inline")]:
        weir("convert", source, tmp_path / out, *options)
        compare.same_meaning(source, tmp_path / out)
    assert compare.structure(tmp_path / "out.onnx").graph.node[0].attribute[0].t.HasField("name")


def test_long_typed_field(weir, tmp_path):
    """300 000 varints of all lengths: more than one checkpoint, read back from any place."""
    numbers = [(-1) ** n * (n * 2654435761 % (1 << (n % 63))) for n in range(300_000)]
    weight = wire.tensor("w", wire.INT64, (len(numbers),), more=wire.packed(7, numbers))
    graph = wire.graph(sampler.carried(["w"]), [weight], [], [("w.out", wire.INT64, [len(numbers)])])
    source = write(tmp_path / "in", wire.model(graph))
    for name, options in {"a": [], "b": ["--jobs", 1, "--io", "sync"], "c": ["--memory", "4M"]}.items():
        weir("convert", source, tmp_path / f"{name}.onnx", "--external", *map(str, options))
        compare.same_meaning(source, tmp_path / f"{name}.onnx")


def test_large_attributes(weir, tmp_path):
    """Lists and strings in attributes that are too large to be held: they stay where they are, byte for byte."""
    count = 100_000
    real = sampler.elements("float", count, 1)
    bodies = {
        "floats": wire.blob(7, real) + wire.uint(20, 6),
        "floats2": b"".join(wire.tag(7, wire.FIXED32) + real[at : at + 4] for at in range(0, len(real), 4))
        + wire.uint(20, 6),
        "ints": wire.packed(8, range(-count, count, 2)) + wire.uint(20, 7),
        "string": wire.blob(4, b"x" * 3_000_000) + wire.uint(20, 3),
        "strings": wire.blobs(9, [b"a" * (n % 50) for n in range(count)]) + wire.uint(20, 8),
    }
    value = {"floats": "value_floats", "floats2": "value_floats", "ints": "value_ints", "string": "value_string",
             "strings": "value_strings"}  # fmt: skip
    nodes = [sampler.constant(name, wire.blob(1, value[name]) + body) for name, body in bodies.items()]
    foreign = wire.blob(1, "x") + wire.blob(2, "y") + wire.blob(4, "Foreign") + wire.blob(7, "test")
    nodes.append(foreign + b"".join(wire.blob(5, wire.blob(1, name) + body) for name, body in bodies.items()))
    outputs = [(name, wire.FLOAT, None) for name in (*bodies, "y")]
    graph = wire.graph(nodes, [wire.tensor("w", wire.FLOAT, (500,), real[:2000])], [("x", wire.FLOAT, [1])], outputs)
    source = write(tmp_path / "in", wire.model(graph, more=wire.blob(8, wire.opset(1, "test"))))
    weir("convert", source, tmp_path / "same.onnx")
    assert (tmp_path / "same.onnx").read_bytes() == source.read_bytes()
    weir("convert", source, tmp_path / "out.onnx", "--external")
    weir("convert", tmp_path / "out.onnx", tmp_path / "back.onnx", "--inline")
    assert [tensor.name for tensor in external_tensors(tmp_path / "out.onnx")] == ["w"]
    compare.same_meaning(source, tmp_path / "back.onnx")


@pytest.mark.parametrize("options", [[], ["--inline"], ["--external", "--align", "4096"]])
def test_external_parts_of_sparse_tensors(weir, tmp_path, options):
    """Values and indices of a sparse initializer, each in a file of its own."""
    values = sampler.elements("float", 400, 7)
    indices = b"".join((25 * place).to_bytes(8, "little") for place in range(400))
    parts = wire.blob(1, wire.tensor("s", wire.FLOAT, (400,), pairs=wire.external("values.bin", 3, 1600)))
    parts += wire.blob(2, wire.tensor("", wire.INT64, (400,), pairs=wire.external("sub/indices.bin")))
    graph = wire.graph([wire.node("Identity", ["s"], ["y"])], [], [], [("y", wire.FLOAT, [10_000])],
                       more=wire.blob(15, parts + wire.uint(3, 10_000)))  # fmt: skip
    source = write(tmp_path / "in", wire.model(graph))
    (source.parent / "sub").mkdir()
    (source.parent / "values.bin").write_bytes(b"abc" + values)
    (source.parent / "sub" / "indices.bin").write_bytes(indices)
    weir("convert", source, tmp_path / "out.onnx", *options)
    compare.same_meaning(source, tmp_path / "out.onnx")
    assert bool(external_tensors(tmp_path / "out.onnx")) == (options != ["--inline"])


# ---- layout


def test_small_tensors_stay_inline(weir, tmp_path):
    source = sized_model(tmp_path / "in", [0, 1, 1023, 1024, 5000], inline=False)
    weir("convert", source, tmp_path / "out.onnx")
    assert sorted(places(tmp_path / "out.onnx")) == ["w3", "w4"]
    compare.same_meaning(source, tmp_path / "out.onnx")


def test_alignment_ladder(weir, tmp_path):
    """64 bytes, 4 KiB from 64 KiB on, 64 KiB from 1 MiB on; source order; nothing but zeros between; no hole."""
    sizes = [1024, 64 * KIB - 1, 3000, 64 * KIB, 1024, MIB - 1, 1025, MIB, 2000, MIB + 5, 1100]
    source = sized_model(tmp_path / "in", sizes)
    weir("convert", source, tmp_path / "out.onnx", "--external")
    data, end = (tmp_path / "out.onnx.data").read_bytes(), 0
    for number, size in enumerate(sizes):
        offset, length = places(tmp_path / "out.onnx")[f"w{number}"]
        step = 64 * KIB if size >= MIB else 4 * KIB if size >= 64 * KIB else 64
        assert offset == -(-end // step) * step and length == size
        assert data[end:offset] == bytes(offset - end)
        assert data[offset : offset + length] == sampler.elements("uint8", size, number)
        end = offset + length
    assert len(data) == end


@pytest.mark.parametrize("align", [1, 16, 4096, MIB])
def test_align_option(weir, tmp_path, align):
    sizes = [1024, 70_000, 1025, MIB + 1]
    source = sized_model(tmp_path / "in", sizes)
    weir("convert", source, tmp_path / "out.onnx", "--external", "--align", align and str(align))
    end = 0
    for number, size in enumerate(sizes):
        assert places(tmp_path / "out.onnx")[f"w{number}"] == (-(-end // align) * align, size)
        end = -(-end // align) * align + size
    compare.same_meaning(source, tmp_path / "out.onnx")


def test_align_must_be_a_power_of_two(weir, tmp_path):
    source = sized_model(tmp_path / "in", [2000])
    weir("convert", source, tmp_path / "out.onnx", "--external", "--align", "48", code=2)


def test_external_entries_are_canonical(weir, tmp_path):
    """Exactly location, offset and length: other readers fail on more."""
    source = sized_model(tmp_path / "in", [2000, 3000], inline=False)
    weir("convert", source, tmp_path / "out.onnx")
    for tensor in external_tensors(tmp_path / "out.onnx"):
        assert [entry.key for entry in tensor.external_data] == ["location", "offset", "length"]
        pairs = compare.external_pairs(tensor)
        assert pairs["location"] == "out.onnx.data"
        assert all(pairs[key] == str(int(pairs[key])) for key in ("offset", "length"))
        assert not tensor.HasField("raw_data")


def test_dead_bytes_are_dropped(weir, tmp_path):
    """Bytes of a data file that no tensor names do not come along."""
    source = sized_model(tmp_path / "in", [4096] * 4, inline=False)
    dead = b"dead bytes" * 100_000
    (source.parent / "weights.bin").write_bytes((source.parent / "weights.bin").read_bytes() + dead)
    weir("convert", source, tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").stat().st_size == 4 * 4096
    compare.same_meaning(source, tmp_path / "out.onnx")


def test_aliases_share_their_bytes(weir, tmp_path):
    """Tensors that named one range of the source name one range of the output."""
    pairs = wire.external("w.bin", 0, 4096)
    weights = [wire.tensor(name, wire.UINT8, (4096,), pairs=pairs) for name in "abc"]
    outputs = [(f"{name}.out", wire.UINT8, [4096]) for name in "abc"]
    source = write(tmp_path / "in", wire.model(wire.graph(sampler.carried("abc"), weights, [], outputs)))
    (source.parent / "w.bin").write_bytes(sampler.elements("uint8", 4096, 1))
    weir("convert", source, tmp_path / "out.onnx")
    assert set(places(tmp_path / "out.onnx").values()) == {(0, 4096)}
    assert (tmp_path / "out.onnx.data").stat().st_size == 4096
    compare.same_meaning(source, tmp_path / "out.onnx")


def test_inline_source_with_external_tensors_in_attributes(weir, tmp_path):
    """Constant nodes that exporters put outside come into the one sidecar, or inline."""
    raw = sampler.elements("float", 1000, 5)
    outside = wire.tensor("", wire.FLOAT, (1000,), pairs=wire.external("c.bin", 8, 4000))
    graph = wire.graph([wire.node("Constant", [], ["y"], value=("t", outside))], [], [], [("y", wire.FLOAT, [1000])])
    source = write(tmp_path / "in", wire.model(graph))
    (source.parent / "c.bin").write_bytes(b"x" * 8 + raw)
    weir("convert", source, tmp_path / "out.onnx")
    weir("convert", source, tmp_path / "inline.onnx", "--inline")
    for name in ("out.onnx", "inline.onnx"):
        compare.same_meaning(source, tmp_path / name)
        onnx.checker.check_model(tmp_path / name)
    assert external_tensors(tmp_path / "out.onnx") and not external_tensors(tmp_path / "inline.onnx")


def test_data_file_name(weir, tmp_path):
    source = sized_model(tmp_path / "in", [2000])
    weir("convert", source, tmp_path / "out.onnx", "--data-file", "weights of mine.bin")
    assert sorted(os.listdir(tmp_path)) == ["in", "out.onnx", "out.onnx.manifest.json", "weights of mine.bin"]
    compare.same_meaning(source, tmp_path / "out.onnx")


@pytest.mark.parametrize("name", ["out.onnx", "../w.bin", "a/b", "", "..", "a..b"])
def test_data_file_names_that_cannot_be(weir, tmp_path, name):
    source = sized_model(tmp_path / "in", [2000])
    weir("convert", source, tmp_path / "out.onnx", f"--data-file={name}", code=2)
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("style", ["model.onnx.data", "model.onnx_data"])
def test_sidecar_is_named_in_the_style_of_the_input(weir, tmp_path, style):
    path = tmp_path / "in" / "model.onnx"
    path.parent.mkdir()
    make_encoder.make_encoder(path, make_encoder.Shape(1, 16, 64, 2, 9, 8, 16), data_name=style)
    weir("convert", path, tmp_path / "out.onnx")
    assert (tmp_path / style.replace("model", "out")).exists()
    compare.same_meaning(path, tmp_path / "out.onnx")


def test_inline_past_2_gib_is_refused_while_planning(weir, tmp_path):
    """The data file is one hole: if weir read it, it would take a while, and it must write nothing."""
    size = 1 << 31
    weight = wire.tensor("w", wire.UINT8, (size,), pairs=wire.external("w.bin", 0, size))
    source = write(
        tmp_path / "in", wire.model(wire.graph(sampler.carried(["w"]), [weight], [], [("w.out", 2, [size])]))
    )
    with open(source.parent / "w.bin", "wb") as file:
        file.truncate(size)
    done = weir("convert", source, tmp_path / "out.onnx", "--inline", code=1)
    assert "2147483647" in done.err and "--inline" in done.err
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.slow
def test_onnx_over_2_gib_becomes_readable(weir, tmp_path):
    """An .onnx that is too large for other readers gets a data file, and says so; every byte is a hole."""
    rows = 1 << 28
    weight = wire.tensor("w", wire.DOUBLE, (rows,), wire.Hole(8 * rows, None))
    model = wire.model(wire.graph(sampler.carried(["w"]), [weight], [], [("w.out", wire.DOUBLE, [rows])]))
    with open(tmp_path / "huge.onnx", "wb") as file:
        wire.stream(model, file, lambda file, hole: file.seek(hole.size, os.SEEK_CUR))
    done = weir("convert", tmp_path / "huge.onnx", tmp_path / "out.onnx", "--dry-run", "--json")
    assert "2 GiB" in done.err
    sizes = {each["name"]: each["size"] for each in done.json()["weir"]["output"]}
    assert sizes["out.onnx.data"] == 8 * rows and sizes["out.onnx"] < 10_000


@pytest.mark.parametrize("mask, mode", [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_come_from_the_umask(weir, tmp_path, mask, mode):
    source = sized_model(tmp_path / "in", [2000])
    before = os.umask(mask)
    try:
        weir("convert", source, tmp_path / "out.onnx", "--external", "--tensor-digests")
    finally:
        os.umask(before)
    written = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(written) == 4
    for path in written:
        assert stat.S_IMODE(path.stat().st_mode) == mode, path.name


# ---- equal bytes


def test_equal_bytes_for_any_workers_engine_and_memory(weir, tmp_path, medium_encoder):
    """Copies and transposes, seven units: nothing about a run shows in its output."""
    said = weir("convert", medium_encoder, "-o", tmp_path / "x", "--memory=1", code=2).err
    least = int(re.search(r"needs (\d+)MiB", said)[1]) << 20
    source, expected = medium_encoder, None
    runs = [*itertools.product((1, 2, 3), ("uring", "sync"), ("least", "48MiB"))]
    if not ALL:  # each number of workers with both engines and both memories, each engine too
        runs = [runs[place] for place in (0, 3, 5, 6, 8, 11)]
    for jobs, engine, memory in runs:
        folder = tmp_path / "out"
        folder.mkdir()
        memory = str(least * jobs) if memory == "least" else memory
        weir("conv2matmul", source, folder / "out.onnx", "--jobs", str(jobs), "--io", engine, "--memory", memory)
        found = compare.folder_bytes(folder)
        expected = expected or found
        assert sorted(found) == ["out.onnx", "out.onnx.data", "out.onnx.manifest.json"]
        assert found == expected, (jobs, engine, memory)
        shutil.rmtree(folder)


# ---- every model of onnx's backend tests


def backend_models():
    """(name, bytes) of all that ship with onnx: the node tests are made in memory, the others are files."""
    from onnx.backend.test import loader

    for case in loader.load_model_tests(kind="node"):
        yield case.name, case.model.SerializeToString()
    folder = loader.DATA_DIR
    for root, _, files in os.walk(folder):
        for name in sorted(files):
            if name.endswith(".onnx"):
                path = os.path.join(root, name)
                with open(path, "rb") as file:
                    yield os.path.relpath(path, folder).replace("/", "-"), file.read()


def convert_backend_model(weir, folder, name, content):
    """Inline → inline byte for byte, → external and back in meaning. Gives a complaint or nothing."""
    source = write(folder / name, content)
    same, out, back = (folder / name / each for each in ("same.onnx", "out.onnx", "back.onnx"))
    try:
        weir("convert", source, same, "--no-manifest")
        assert same.read_bytes() == content, "inline to inline is not a copy"
        weir("convert", source, out, "--external", "--no-manifest")
        compare.same_meaning(source, out)
        if external_tensors(out):
            weir("convert", out, back, "--inline", "--no-manifest")
            compare.same_meaning(source, back)
    except AssertionError as failure:
        return f"{name}: {str(failure)[:300]}"
    shutil.rmtree(folder / name)
    return None


@pytest.mark.slow
def test_backend_models_keep_their_meaning(weir, quick_folder, pool):
    models = list(backend_models())
    assert len(models) > 1500
    if not ALL:
        models = models[::16]
    complaints = pool.map(lambda each: convert_backend_model(weir, quick_folder, *each), models)
    complaints = [each for each in complaints if each]
    assert not complaints, f"{len(complaints)} of {len(models)}:\n" + "\n".join(complaints[:20])


@pytest.mark.parametrize("package", ["rapidocr", "silero_vad", "magika"])
def test_package_models(weir, tmp_path, package):
    """Real models of real exporters: inline is a copy, external and back is the same, and checkers accept it."""
    from conftest import package_models

    for path in package_models(package):
        source = copy_model(path, tmp_path / path.stem)
        weir("convert", source, tmp_path / "same.onnx", "--force")
        assert (tmp_path / "same.onnx").read_bytes() == source.read_bytes()
        weir("convert", source, tmp_path / "out.onnx", "--external", "--force")
        weir("convert", tmp_path / "out.onnx", tmp_path / "back.onnx", "--inline", "--force")
        compare.same_meaning(source, tmp_path / "out.onnx")
        compare.same_meaning(source, tmp_path / "back.onnx")
        onnx.checker.check_model(tmp_path / "out.onnx")
