"""What somebody may make of the files beside a model: manifests, signed statements, plans, records. Each is refused, or the answer says
what does not hold; docs/verification.md lists the kinds.

A forgery is made with care: root digests, SHA-256 of companions and checks of lines are computed again, and statements are signed
with the right key, so that what is wrong is what the row says and nothing else.
"""

import base64
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from onnx import TensorProto, helper, numpy_helper

import signing_keys
from conftest import with_lines, records_last, sampled

pytestmark = pytest.mark.in_memory
SHARD = 67108864


# ---- models


def net(path, seed=1, scale=1.0):
    """Two MatMul, with weights that are large enough for a data file."""
    rng = np.random.default_rng(seed)
    weights = [numpy_helper.from_array((rng.standard_normal((32, 32)) * scale).astype(np.float32), f"w{i}") for i in (1, 2)]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name="second"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, ["n", 32])], [value("y", 1, ["n", 32])], weights)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


@pytest.fixture(scope="module")
def made(weir, tmp_path_factory):
    """e.onnx with a data file and digests per tensor, f.onnx beside it, both signed; and what they were made from."""
    folder = tmp_path_factory.mktemp("made")
    private, public = signing_keys.make(folder)
    signing_keys.make(folder, name="other")
    (folder / "d").mkdir()
    for name, seed in (("e", 1), ("f", 2)):
        net(folder / f"{name}-src.onnx", seed)
        weir("convert", folder / f"{name}-src.onnx", folder / "d" / f"{name}.onnx", "--external", "--tensor-digests")
        weir("sign", folder / "d" / f"{name}.onnx", "--key", private)
    return folder


@pytest.fixture
def here(made, tmp_path):
    shutil.copytree(made, tmp_path / "made")
    return tmp_path / "made" / "d"


# ---- forging


def of(here, suffix="", name="e.onnx"):
    return here / f"{name}{suffix}"


def root_of(document):
    return hashlib.sha256(b"".join(bytes.fromhex(row["digest"]) for row in document["predicate"]["resources"])).hexdigest()


def manifest(change, name="e.onnx", root=True):
    """The manifest of e.onnx, changed; with `root` its root digest is made to fit."""

    def forge(here):
        path = of(here, ".manifest.json", name)
        document = json.loads(path.read_text())
        change(document)
        if root:
            document["subject"][0]["digest"]["sha256"] = root_of(document)
        path.write_text(json.dumps(document))

    return forge


def resources(change):
    return manifest(lambda document: change(document["predicate"]["resources"]))


def sign(here, payload, name="e.onnx", key="key.pem"):
    """A bundle of that statement by our key, as somebody with the key, or an older program, would have made it."""
    private = serialization.load_pem_private_key((here.parent / key).read_bytes(), None)
    kind = "application/vnd.in-toto+json"
    signature = private.sign(b"DSSEv1 %d %s %d " % (len(kind), kind.encode(), len(payload)) + payload, ec.ECDSA(hashes.SHA256()))
    bundle = json.loads(of(here, ".sig", name).read_text())
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    of(here, ".sig", name).write_text(json.dumps(bundle))


def statement_of(here, name="e.onnx"):
    return json.loads(base64.b64decode(json.loads(of(here, ".sig", name).read_text())["dsseEnvelope"]["payload"]))


def statement(change):
    """The statement that is signed, changed, and signed again with the right key."""

    def forge(here):
        document = statement_of(here)
        change(document)
        sign(here, json.dumps(document).encode())

    return forge


def both(forge):
    """What `forge` makes of the manifest, signed with the right key: what is wrong in a manifest stays wrong."""

    def together(here):
        forge(here)
        document, text = statement_of(here), of(here, ".manifest.json").read_bytes()
        document["predicate"]["x_weir"]["manifest"]["sha256"] = hashlib.sha256(text).hexdigest()
        try:  # files of one unit, whose digest is the unit's
            rows = [(row["name"].rsplit(":", 2)[0], row["digest"]) for row in json.loads(text)["predicate"]["resources"]]
            document["predicate"]["resources"] = [{"name": name, "algorithm": "sha256", "digest": digest} for name, digest in dict(rows).items()]
        except (ValueError, TypeError, LookupError, RecursionError):
            pass
        sign(here, json.dumps(document).encode())

    return together


def move(*pairs, copy=False):
    """Files of the folder by their suffixes or names, under other names."""

    def forge(here):
        for old, new in pairs:
            (shutil.copy if copy else shutil.move)(here / old, here / new)

    return forge


def does(*steps):
    def forge(here):
        for step in steps:
            step(here)

    return forge


def unlink(*names):
    return lambda here: [(here / name).unlink() for name in names]


def linked(name, leads_out=True):
    """A file of the folder becomes a link to where it is now."""

    def forge(here):
        away = here.parent if leads_out else here
        shutil.move(here / name, away / "moved")
        (here / name).symlink_to("../moved" if leads_out else "moved")

    return forge


def fifo(name):
    def forge(here):
        (here / name).unlink(missing_ok=True)
        os.mkfifo(here / name)

    return forge


def external(tensor, location):
    tensor.name, tensor.data_type, tensor.data_location = "more", TensorProto.FLOAT, TensorProto.EXTERNAL
    tensor.dims.extend([512])
    for key, value in (("location", location), ("offset", "0"), ("length", "2048")):
        pair = tensor.external_data.add()
        pair.key, pair.value = key, value


def in_initializer(model):
    model.graph.node.add().CopyFrom(helper.make_node("Identity", ["more"], ["more.out"], name="more"))
    return model.graph.initializer.add()


def in_constant(nodes):
    node = nodes.add(op_type="Constant", output=["more.out"], name="more")
    return node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t


def in_function(model):
    function = model.functions.add(name="F", domain="own", output=["more.out"], opset_import=[helper.make_opsetid("", 17)])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node.add(op_type="F", domain="own", output=["more.of.f"], name="f")
    return in_constant(function.node)


def in_training(model):
    graph = model.training_info.add().algorithm
    graph.name = "t"
    return graph.initializer.add()


def refers_to(location, where=in_initializer):
    """e.onnx written anew: one more tensor, in a file of that name, and the manifest's digest of e.onnx made to fit."""

    def forge(here):
        model = onnx.load(of(here), load_external_data=False)
        external(where(model), location)
        restate(here, "e.onnx", model.SerializeToString())
        if "/" not in location:
            (here / location).write_bytes(bytes(2048))

    return forge


def restate(here, name, content):
    """A file with other bytes, and a manifest that says so."""
    (here / name).write_bytes(content)

    def change(document):
        for row in document["predicate"]["resources"]:
            if row["name"].rsplit(":", 2)[0] == name:
                row.update(name=f"{name}:0:{len(content)}", digest=hashlib.sha256(content).hexdigest())

    manifest(change)(here)


def row(name, size, digest="0" * 64, start=0, algorithm=f"sha256-sharded-{SHARD}"):
    return {"name": f"{name}:{start}:{start + size}", "algorithm": algorithm, "digest": digest}


def put(path, value):
    """Sets a member of a document, by its keys and indexes."""

    def change(document):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


def cut_in_two(rows):
    """The data file in two units, each digest right, at a border that is none."""
    rows[1:] = [{**rows[1], "name": "e.onnx.data:0:4096"}, {**rows[1], "name": "e.onnx.data:4096:8192"}]


PREDICATE = ("predicate", "serialization")
X = ("predicate", "x_weir")

# Name: (what is made of the folder, the exit code of `audit`, what it says; of `sign`, None: the same; "": not asked).
# All of them are asked of `audit` with and without the key, where the manifest is signed again with it.
MANIFESTS = {
    # ---- about another model
    "a manifest of another model": (move(("f.onnx.manifest.json", "e.onnx.manifest.json")), 65, "is for 'f.onnx'"),
    "a subject of another name": (manifest(put(("subject", 0, "name"), "f.onnx")), 65, "are different models"),
    "a subject with a NUL in its name": (manifest(put(("subject", 0, "name"), "e.onnx\0evil")), 65, "its subject has no name"),
    "an output of another name": (manifest(put((*X, "output"), "f.onnx")), 65, "are different models"),
    "subject and output of another name": (
        manifest(lambda d: (put(("subject", 0, "name"), "f.onnx")(d), put((*X, "output"), "f.onnx")(d))), 65, "is for 'f.onnx'"),
    "no output": (manifest(lambda d: d["predicate"]["x_weir"].pop("output")), 65, "are different models"),
    "an output that is no text": (manifest(put((*X, "output"), 7)), 65, "are different models"),
    "a path as the model": (
        manifest(lambda d: (put(("subject", 0, "name"), "d/e.onnx")(d), put((*X, "output"), "d/e.onnx")(d))), 65, "is for 'd/e.onnx'"),
    "two subjects": (manifest(lambda d: d["subject"].append(d["subject"][0])), 65, "its subject"),
    "the data file as the model": (
        manifest(lambda d: (put(("subject", 0, "name"), "e.onnx.data")(d), put((*X, "output"), "e.onnx.data")(d))), 65, "is for 'e.onnx.data'"),
    "an empty name": (manifest(lambda d: (put(("subject", 0, "name"), "")(d), put((*X, "output"), "")(d))), 65, "is for ''"),
    "control characters as a name": (
        manifest(lambda d: (put(("subject", 0, "name"), "e.onnx\n: OK")(d), put((*X, "output"), "e.onnx\n: OK")(d))), 65, "is for 'e.onnx\\x0a: OK'"),
    # ---- not all of the files, or others
    "no data file": (resources(lambda rows: rows.pop()), 1, "not checked: e.onnx.data"),
    "no .onnx": (resources(lambda rows: rows.pop(0)), 65, "is not among its resources"),
    "no files": (resources(lambda rows: rows.clear()), 65, "is not among its resources"),
    "resources that are no list": (manifest(put(("predicate", "resources"), {}), root=False), 65, "its resources"),
    "a data file more in the model": (refers_to("more.data"), 1, "not checked: more.data"),
    "a data file more, of an attribute": (refers_to("more.data", lambda model: in_constant(model.graph.node)), 1, "not checked: more.data"),
    "a data file more, of a function": (refers_to("more.data", in_function), 1, "not checked: more.data"),
    "a data file more, of training": (refers_to("more.data", in_training), 1, "not checked: more.data"),
    "a data file more, by another path": (refers_to("./more.data"), 1, "not checked: ./more.data"),
    "a data file more, in a folder": (refers_to("deep/more.data"), 1, "not checked: deep/more.data"),
    "a data file more, outside": (refers_to("../more.data"), 65, "leaves the model's folder"),
    "a file of another model": (resources(lambda rows: rows.append(row("f.onnx", 10))), 65, "lists 'f.onnx'"),
    "a file of another model, with its digest": (
        lambda here: resources(lambda rows: rows.append(row("f.onnx", len(of(here, name="f.onnx").read_bytes()),
                                                            hashlib.sha256(of(here, name="f.onnx").read_bytes()).hexdigest())))(here),
        65, "lists 'f.onnx', but 'e.onnx' does not refer to it"),
    "no model at all": (lambda here: restate(here, "e.onnx", b"no model" * 100), 65, "e.onnx"),
    # ---- other ways of hashing
    "algorithm md5": (resources(lambda rows: rows[1].update(algorithm="md5")), 65, "a resource's algorithm"),
    "algorithm sha256": (resources(lambda rows: rows[0].update(algorithm="sha256")), 65, "a resource's algorithm"),
    "algorithm sha256-sharded-1": (resources(lambda rows: [r.update(algorithm="sha256-sharded-1") for r in rows]), 65, "a resource's algorithm"),
    "algorithm that is no text": (resources(lambda rows: rows[0].update(algorithm=None)), 65, "a resource's algorithm"),
    "no algorithm": (resources(lambda rows: rows[0].pop("algorithm")), 65, "a resource's algorithm"),
    "shards of 0 bytes": (manifest(put((*PREDICATE, "shard_size"), 0)), 65, "its shard_size"),
    "shards of -5 bytes": (manifest(put((*PREDICATE, "shard_size"), -5)), 65, "its shard_size"),
    "shards of 1.5 bytes": (manifest(put((*PREDICATE, "shard_size"), 1.5)), 65, "its shard_size"),
    "a size of shards that is a text": (manifest(put((*PREDICATE, "shard_size"), "67108864")), 65, "its shard_size"),
    "no size of shards": (manifest(lambda d: d["predicate"]["serialization"].pop("shard_size")), 65, "its shard_size"),
    "another size of shards": (manifest(put((*PREDICATE, "shard_size"), 4096)), 65, "a resource's algorithm"),
    "another size of shards, and algorithm": (
        manifest(lambda d: (put((*PREDICATE, "shard_size"), 4096)(d),
                            [r.update(algorithm="sha256-sharded-4096") for r in d["predicate"]["resources"]])), 65, "does not start or end at"),
    "units at other borders": (resources(cut_in_two), 65, "does not start or end at"),
    "method files": (manifest(put((*PREDICATE, "method"), "files")), 65, "its method"),
    "hash sha1": (manifest(put((*PREDICATE, "hash_type"), "sha1")), 65, "its method"),
    # ---- resources that are none
    "a path out of the folder": (resources(lambda rows: rows.insert(0, row("../key.pem", 10))), 65, "are not base names"),
    "an absolute path": (resources(lambda rows: rows.insert(0, row("/etc/passwd", 10))), 65, "are not base names"),
    "a path in a folder": (resources(lambda rows: rows.insert(0, row("d/e.onnx", 10))), 65, "are not base names"),
    "a file twice": (resources(lambda rows: rows.append(rows[0])), 65, "out of order"),
    "files out of order": (resources(lambda rows: rows.reverse()), 65, "out of order"),
    "a hole": (resources(lambda rows: rows[1].update(name="e.onnx.data:1:8192")), 65, "have a gap"),
    "a file of no bytes": (resources(lambda rows: rows.append(row("z", 0))), 65, "path:start:end"),
    "an end before the start": (resources(lambda rows: rows[1].update(name="e.onnx.data:8192:0")), 65, "path:start:end"),
    "a size past 2^63": (resources(lambda rows: rows[1].update(name="e.onnx.data:0:99999999999999999999")), 65, "path:start:end"),
    "a negative start": (resources(lambda rows: rows[1].update(name="e.onnx.data:-1:8192")), 65, "path:start:end"),
    "a longer file": (resources(lambda rows: rows[1].update(name="e.onnx.data:0:8193")), 1, "file is too short"),
    "a shorter file": (resources(lambda rows: rows[1].update(name="e.onnx.data:0:8191")), 1, "file is too long"),
    "a digest that is none": (manifest(
        lambda d: d["predicate"]["resources"][1].update(digest="z" * 64), root=False), 65, "not 64 hexadecimal digits"),
    "a short digest": (manifest(lambda d: d["predicate"]["resources"][1].update(digest="00"), root=False), 65, "not 64 hexadecimal digits"),
    "another digest": (resources(lambda rows: rows[1].update(digest="0" * 64)), 1, "digest differs"),
    "another root digest": (manifest(put(("subject", 0, "digest", "sha256"), "0" * 64), root=False), 65, "is inconsistent"),
    "no root digest": (manifest(lambda d: d["subject"][0].pop("digest"), root=False), 65, "its subject has no"),
    "a resource that is a number": (manifest(put(("predicate", "resources", 1), 7), root=False), 65, "path:start:end"),
    # ---- the document
    "no JSON": (lambda here: of(here, ".manifest.json").write_text("{"), 65, "manifest.json"),
    "a key twice": (lambda here: of(here, ".manifest.json").write_text(of(here, ".manifest.json").read_text().replace('{"_type"', '{"_type":1,"_type"')), 65, "_type"),
    "another type": (manifest(put(("_type",), "https://in-toto.io/Statement/v0.1")), 65, "not an in-toto statement"),
    "another predicate": (manifest(put(("predicateType",), "https://slsa.dev/provenance/v1")), 65, "not an in-toto statement"),
    "no x_weir": (manifest(lambda d: d["predicate"].pop("x_weir")), 65, "x_weir is missing"),
    "no plan id": (manifest(lambda d: d["predicate"]["x_weir"].pop("plan_id")), 65, "plan_id"),
    "a digest of tensors that is none": (manifest(put((*X, "tensors_sha256"), "no")), 65, "tensors_sha256"),
    "nested without end": (lambda here: of(here, ".manifest.json").write_text("[" * 100000), 65, "manifest.json"),
    "a FIFO": (fifo("e.onnx.manifest.json"), 66, "regular file"),
    # ---- the files
    "a byte of the data": (lambda here: flip(of(here, ".data")), 1, "e.onnx.data bytes 0.."),
    "a byte of the .onnx": (lambda here: flip(of(here)), 1, "e.onnx bytes 0.."),
    "the data of another model": (move(("f.onnx.data", "e.onnx.data")), 1, "digest differs"),
    "the .onnx of another model": (move(("f.onnx", "e.onnx")), 1, "e.onnx bytes 0.."),
    "no data": (unlink("e.onnx.data"), 1, "file is missing"),
    "a FIFO as the data": (fifo("e.onnx.data"), 1, "is not a regular file"),
    "data that is a link out of the folder": (linked("e.onnx.data"), 77, "points outside the model's folder"),
    "no digests of tensors": (unlink("e.onnx.tensors.jsonl"), 1, "e.onnx.tensors.jsonl: file is missing"),
}  # fmt: skip


def flip(path, at=100):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def is_refused(weir, here, name, forge, *words):
    _, code, says = MANIFESTS[name]
    forge(here)
    done = weir("audit", of(here), *words, code=code)
    assert says in done.out + done.err and ": OK" not in done.out, done.said


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests(weir, here, name):
    is_refused(weir, here, name, MANIFESTS[name][0])


@pytest.mark.parametrize("name", sampled((name for name in MANIFESTS if name != "a FIFO"), every=3))
def test_signed_manifests(weir, here, name):
    """With the right key: a signature makes nothing true."""
    is_refused(weir, here, name, both(MANIFESTS[name][0]), "--public-key", here.parent / "key.pub")


@pytest.mark.parametrize("name", sampled((name for name in MANIFESTS if name != "no digests of tensors"), every=3))
def test_what_is_wrong_is_not_signed(weir, here, name):
    before = of(here, ".sig").read_bytes()
    MANIFESTS[name][0](here)
    done = weir("sign", of(here), "--key", here.parent / "key.pem", code=None)
    assert done.code in (1, 65, 66, 77) and not done.out, done.said
    assert of(here, ".sig").read_bytes() == before


# ---- names


COPIES = [(f"e.onnx{end}", f"g.onnx{end}") for end in ("", ".manifest.json", ".sig", ".tensors.jsonl")]
RENAMED = {
    "a copy": move(*COPIES, copy=True),
    "moved": move(*COPIES),
    "another model, with manifest and signature of e.onnx": does(move(*COPIES, copy=True), move(("f.onnx", "g.onnx"), copy=True)),
    "links": lambda here: [(here / new).symlink_to(old) for old, new in COPIES],
    "hard links": lambda here: [os.link(here / old, here / new) for old, new in COPIES],
}


@pytest.mark.parametrize("name", RENAMED)
@pytest.mark.parametrize("operand", ["g.onnx", "g.onnx.manifest.json"])
def test_a_model_under_another_name(weir, here, name, operand):
    """It is not what its manifest says, whoever asks."""
    RENAMED[name](here)
    key, public = here.parent / "key.pem", here.parent / "key.pub"
    before = sorted(here.iterdir())
    for words in (["audit"], ["audit", "--public-key", public], ["sign", "--key", key], ["rebuild", "--source", here.parent / "e-src.onnx"],
                  ["rebuild", "--source", here.parent / "e-src.onnx", "--public-key", public]):  # fmt: skip
        done = weir(words[0], here / operand, *words[1:], code=None)
        if (words[0], name) != ("sign", "links"):  # a link is refused before that, where the signature would be written
            assert done.code == 65 and "is for 'e.onnx'" in done.err, done.said
        assert done.code in (65, 77)
    assert sorted(here.iterdir()) == before


def test_a_folder_under_another_name(weir, here):
    """The control arm: a copy of all of it holds, and so does a manifest under any name, for the model that it names."""
    shutil.copytree(here, here.parent / "elsewhere")
    assert ": OK" in weir("audit", here.parent / "elsewhere" / "e.onnx", "--public-key", here.parent / "key.pub").out
    shutil.copy(of(here, ".manifest.json"), here / "kept.json")
    assert f"{here}/e.onnx: OK" in weir("audit", here / "kept.json").out
    weir("sign", here / "kept.json", "--key", here.parent / "key.pem")
    assert ": OK" in weir("audit", here / "kept.json", "--public-key", here.parent / "key.pub").out
    shutil.copy(of(here, ".sig"), here / "kept.json.sig")
    said = weir("audit", here / "kept.json", "--public-key", here.parent / "key.pub", code=65).err
    assert "is for 'e.onnx.manifest.json', not for 'kept.json'" in said


def test_links_that_hold(weir, here):
    """The other control: links that a load of the model follows."""
    linked("e.onnx.data", leads_out=False)(here)
    assert ": OK" in weir("audit", of(here)).out
    cache, blobs = here.parent / "cache" / "snapshots" / "1", here.parent / "cache" / "blobs"
    cache.mkdir(parents=True)
    blobs.mkdir()
    for name in (name for name in sorted(os.listdir(here)) if name.startswith("f.")):
        digest = hashlib.sha256((here / name).read_bytes()).hexdigest()
        shutil.copy(here / name, blobs / digest)
        (cache / name).symlink_to(f"../../blobs/{digest}")
    assert ": OK" in weir("audit", cache / "f.onnx", "--public-key", here.parent / "key.pub").out


# ---- signatures


def bundle(change):
    def forge(here):
        document = json.loads(of(here, ".sig").read_text())
        change(document)
        of(here, ".sig").write_text(json.dumps(document))

    return forge


def envelope(change):
    return bundle(lambda document: change(document["dsseEnvelope"]))


def first_signature(sig):
    return envelope(lambda e: e["signatures"][0].update(sig=base64.b64encode(sig).decode()))


SIGNATURES = {
    # ---- statements that were signed with the right key
    "about another manifest": (statement(put((*X, "manifest", "name"), "f.onnx.manifest.json")), 65, "is for 'f.onnx.manifest.json'"),
    "about a manifest by a path": (statement(put((*X, "manifest", "name"), "d/e.onnx.manifest.json")), 65, "is for 'd/e.onnx.manifest.json'"),
    "about no manifest": (statement(lambda d: d["predicate"]["x_weir"]["manifest"].pop("name")), 65, "is for ''"),
    "about another model": (statement(put(("subject", 0, "name"), "f.onnx")), 65, "is for 'f.onnx'"),
    "about two models": (statement(lambda d: d["subject"].append(d["subject"][0])), 65, "is for 'e.onnx'"),
    "about no model": (statement(lambda d: d["subject"].clear()), 65, "is for ''"),
    "of fewer files": (statement(lambda d: d["predicate"]["resources"].pop()), 65, "disagree about 'e.onnx.data'"),
    "of more files": (statement(lambda d: d["predicate"]["resources"].append({"name": "f.onnx", "algorithm": "sha256", "digest": "0" * 64})), 65, "disagree about"),
    "of other files": (statement(put(("predicate", "resources", 0, "name"), "f.onnx")), 65, "disagree about 'e.onnx'"),
    "of other bytes": (statement(put(("predicate", "resources", 0, "digest"), "0" * 64)), 65, "disagree about 'e.onnx'"),
    "of another algorithm": (statement(put(("predicate", "resources", 0, "algorithm"), "md5")), 65, "disagree about 'e.onnx'"),
    "of no files": (statement(lambda d: d["predicate"].pop("resources")), 65, "disagree about"),
    "of another manifest's digest": (statement(put((*X, "manifest", "sha256"), "0" * 64)), 1, "is not the one that was signed"),
    "of a manifest without a digest": (statement(lambda d: d["predicate"]["x_weir"]["manifest"].pop("sha256")), 65, "a model without a manifest"),
    "without ours": (statement(lambda d: d["predicate"].pop("x_weir")), 65, "a model without a manifest"),
    "of another type": (statement(put(("_type",), "https://in-toto.io/Statement/v0.1")), 65, "something that is not a model"),
    "of another predicate": (statement(put(("predicateType",), "https://slsa.dev/provenance/v1")), 65, "something that is not a model"),
    "of no JSON": (lambda here: sign(here, b"{"), 65, "e.onnx.sig"),
    "of nothing": (lambda here: sign(here, b""), 65, "e.onnx.sig"),
    "of a key twice": (lambda here: sign(here, json.dumps(statement_of(here)).encode()[:-1] + b',"_type":1}'), 65, "_type"),
    # ---- signatures of others
    "of f.onnx": (move(("f.onnx.sig", "e.onnx.sig")), 1, "is not the one that was signed"),
    "by another key": (lambda here: sign(here, json.dumps(statement_of(here)).encode(), key="other.pem"), 1, "is not valid"),
    "by another key that says so": (
        does(lambda here: sign(here, json.dumps(statement_of(here)).encode(), key="other.pem"),
             bundle(lambda d: d["verificationMaterial"]["publicKey"].update(hint="0" * 64))), 1, "was signed with another key"),
    "by a key without a name": (
        does(lambda here: sign(here, json.dumps(statement_of(here)).encode(), key="other.pem"),
             bundle(lambda d: d["verificationMaterial"]["publicKey"].pop("hint"))), 1, "is not valid"),
    "of other bytes than the payload": (envelope(lambda e: e.update(payload=base64.b64encode(b"{}").decode())), 1, "is not valid"),
    "a payload with a break more": (envelope(lambda e: e.update(payload=base64.b64encode(base64.b64decode(e["payload"]) + b"\n").decode())), 1, "is not valid"),
    "r and s of 0": (first_signature(bytes([0x30, 6, 2, 1, 0, 2, 1, 0])), 1, "is not valid"),
    "an empty signature": (first_signature(b""), 1, "is not valid"),
    "a signature with bytes after it": (envelope(lambda e: e["signatures"][0].update(sig=base64.b64encode(base64.b64decode(e["signatures"][0]["sig"]) + b"x").decode())), 1, "is not valid"),
    "two signatures": (envelope(lambda e: e["signatures"].append(e["signatures"][0])), 65, "does not contain exactly one signature"),
    "no signature in it": (envelope(lambda e: e["signatures"].clear()), 65, "does not contain exactly one signature"),
    "a payload of another kind": (envelope(lambda e: e.update(payloadType="application/json")), 65, "no in-toto statement"),
    "not a Sigstore bundle": (bundle(lambda d: d.update(mediaType="application/json")), 65, "not a Sigstore bundle"),
    "made with a certificate": (bundle(lambda d: d.update(verificationMaterial={"certificate": {}})), 65, "does not name a key"),
    "a bundle that is no JSON": (lambda here: of(here, ".sig").write_text("["), 65, "e.onnx.sig"),
    "an empty bundle": (lambda here: of(here, ".sig").write_text(""), 65, "e.onnx.sig"),
    "no bundle": (unlink("e.onnx.sig"), 66, "there is no signature"),
    "a bundle that is a FIFO": (fifo("e.onnx.sig"), 66, "regular file"),
    "nested without end": (lambda here: of(here, ".sig").write_text("[" * 100000), 65, "e.onnx.sig"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(SIGNATURES, every=2))
def test_signatures(weir, here, name):
    forge, code, says = SIGNATURES[name]
    forge(here)
    for words in (["audit", of(here)], ["rebuild", of(here), "--source", here.parent / "e-src.onnx"]):
        done = weir(*words, "--public-key", here.parent / "key.pub", code=code)
        assert says in done.err and not done.out, done.said


# ---- what a manifest says of how its model was made


def made_by(*passes):
    return manifest(put((*X, "passes"), list(passes)))


def option(value, name="static", option="ranges", **more):
    return made_by({"name": name, "options": {option: value, **more}})


def ranges(here):
    (here / "r.json").write_text(json.dumps({value: [-3.0, 3.0] for value in ("x", "a", "b", "y")}))


RANGES = {"name": "r.json", "sha256": hashlib.sha256(json.dumps({v: [-3.0, 3.0] for v in ("x", "a", "b", "y")}).encode()).hexdigest()}
NO_FILE = "is not a file given by its name and SHA-256"
RECORDS = {
    # ---- files
    "a path as ranges": (option("/etc/passwd"), 65, NO_FILE),
    "a name as ranges, without a digest": (does(ranges, option("r.json")), 65, NO_FILE),
    "a path out of the folder as ranges": (option("../key.pem"), 65, NO_FILE),
    "a FIFO as ranges": (does(fifo("r.json"), option("r.json")), 65, NO_FILE),
    "a device as ranges": (option("/dev/zero"), 65, NO_FILE),
    "the kernel's messages as ranges": (option("/proc/kmsg"), 65, NO_FILE),
    "standard input as ranges": (option("-"), 65, NO_FILE),
    "a number as ranges": (option(7), 65, NO_FILE),
    "a list as ranges": (option(["r.json"]), 65, NO_FILE),
    "a path with a digest": (does(ranges, option({**RANGES, "name": "./r.json"})), 65, NO_FILE),
    "an absolute path with a digest": (lambda here: does(ranges, option({**RANGES, "name": str(here / "r.json")}))(here), 65, NO_FILE),
    "a folder with a digest": (option({**RANGES, "name": ".."}), 65, NO_FILE),
    "a name of no letters": (option({**RANGES, "name": ""}), 65, NO_FILE),
    "a name that is no text": (option({**RANGES, "name": 7}), 65, NO_FILE),
    "no digest": (does(ranges, option({"name": "r.json"})), 65, NO_FILE),
    "a digest that is none": (does(ranges, option({**RANGES, "sha256": "no"})), 65, "not 64 hexadecimal digits"),
    "another file than that of the digest": (does(ranges, option({**RANGES, "sha256": "0" * 64})), 66, "is not the file that the passes read"),
    "a FIFO by the name of the file": (does(fifo("r.json"), option(RANGES)), 66, "was not found"),
    "a file that is not there": (option(RANGES), 66, "was not found"),
    "ranges of dynamic by a path": (option("/etc/passwd", "dynamic"), 65, NO_FILE),
    "ranges of smooth by a path": (option("/etc/passwd", "smooth"), 65, NO_FILE),
    "ranges of quantize by a path": (option("/etc/passwd", "quantize", algorithm="gptq"), 65, NO_FILE),
    "an override by a path": (does(ranges, option("/etc/passwd", option="override", ranges=RANGES)), 65, NO_FILE),
    "a path in a repeat": (made_by({"repeat": [{"name": "static", "options": {"ranges": "/etc/passwd"}}], "rounds": 2}), 65, NO_FILE),
    "a path in a pipeline": (made_by({"name": "run", "options": {"passes": [{"name": "static", "options": {"ranges": "/etc/passwd"}}]}}), 65, NO_FILE),
    "rules by a path": (made_by({"name": "run", "options": {"passes": [], "rules": ["/etc/passwd"]}}), 65, "rules"),
    "rules by a name": (made_by({"name": "run", "options": {"passes": [], "rules": [{"name": "/etc/passwd"}]}}), 65, "rules"),
    "a data file by a path": (manifest(put((*X, "layout_asked"), {"form": "external", "data_file": "../x", "align": 0, "inline_below": 1024})), 65, "data file"),
    "a data file in a folder": (manifest(put((*X, "layout_asked"), {"form": "external", "data_file": "a/b", "align": 0, "inline_below": 1024})), 65, "data file"),
    # ---- what passes are, and layouts
    "a pass of no name": (made_by({"options": {}}), 65, "has no name"),
    "a pass that there is not": (made_by({"name": "nothing", "options": {}}), 65, "has no pass"),
    "a set as a pass": (made_by({"name": "all", "options": {}}), 65, "has no pass"),
    "an option that there is not": (option("x", option="nothing"), 65, "has no option"),
    "a pipeline that is not alone": (made_by({"name": "run", "options": {"passes": []}}, {"name": "tidy/identity", "options": {}}), 65, "is not alone"),
    "rounds without end": (made_by({"repeat": [], "rounds": 2**40}), 65, "number of rounds"),
    "passes that are no list": (manifest(put((*X, "passes"), {"name": "run"})), 65, "they are not a list"),
    "an alignment that is none": (manifest(put((*X, "layout_asked"), {"form": "external", "align": 3, "inline_below": 1024})), 65, "layout"),
    "another source": (manifest(put((*X, "source", "meta_sha256"), "0" * 64)), 66, "a model other than"),
    "another size of the source": (manifest(lambda d: d["predicate"]["x_weir"]["source"]["files"][0].update(size=1)), 66, "bytes, and the file"),
    "no source": (manifest(lambda d: d["predicate"]["x_weir"].pop("source")), 65, "what its model was made from"),
    "no version": (manifest(lambda d: d["predicate"]["x_weir"].pop("weir")), 65, "what made its model"),
    "other passes": (made_by({"name": "cast", "options": {"to": "float16"}}), 1, "DIFFERENT"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(RECORDS, every=3))
def test_records_of_how_it_was_made(weir, here, name):
    """`weir rebuild` opens no file that a record names by a path, or without a digest, and writes nothing elsewhere."""
    forge, code, says = RECORDS[name]
    forge(here)
    before = sorted(here.parent.rglob("*"))
    done = weir("rebuild", of(here), "--source", here.parent / "e-src.onnx", code=code, cwd=here)
    assert says in done.out + done.err and "root:" not in done.err, done.said
    assert sorted(here.parent.rglob("*")) == before


def test_a_record_with_a_file_that_holds(weir, here):
    """The control arm: ranges by name and digest, beside the manifest."""
    ranges(here)
    weir("static", here.parent / "e-src.onnx", of(here, name="s.onnx"), "--ranges", here / "r.json")
    assert "SAME" in weir("rebuild", of(here, name="s.onnx"), "--source", here.parent / "e-src.onnx").out


# ---- the folder of a plan


@pytest.fixture(scope="module")
def planned(weir, made):
    """A plan whose units are made, with digests per tensor; records are later than outputs, as where disks take their time."""
    (made / "p").mkdir()
    weir("plan", made / "e-src.onnx", made / "p" / "o.onnx", "--external", "--tensor-digests", "--pass", "cast:to=float16")
    [plan] = (made / "p").glob(".o*")
    weir("shard", plan, "--index", "0", "--count", "1")
    return plan


@pytest.fixture
def plan(planned, tmp_path):
    shutil.copytree(planned.parent, tmp_path / "p")
    records_last(tmp_path / "p" / planned.name)
    return tmp_path / "p" / planned.name


def checked(line):
    """A line with its check, as orders and records have it."""
    head = line[: line.rindex(',"check":"')]
    return f'{head},"check":"{hashlib.sha256(head.encode()).hexdigest()[:16]}"}}\n'


def dumps(document):
    return json.dumps(document, separators=(",", ":"))


def orders(change):
    def forge(plan):
        document = json.loads((plan / "orders.json").read_text())
        change(document)
        document["check"] = document.pop("check")
        (plan / "orders.json").write_text(checked(dumps(document) + "\n"))
        return plan

    return forge


def header(change):
    """header.json, and what names it by its digest: orders and records."""

    def forge(plan):
        document, old = json.loads((plan / "header.json").read_text()), hashlib.sha256((plan / "header.json").read_bytes()).hexdigest()
        change(document)
        (plan / "header.json").write_text(dumps(document))
        new = hashlib.sha256((plan / "header.json").read_bytes()).hexdigest()
        for path in (plan / "orders.json", *plan.glob("records.*")):
            path.write_text("".join(checked(line.replace(old, new)) for line in path.read_text().splitlines()))
        return plan

    return forge


def planned_as(change):
    """plan.json, its id in the header and in the folder's name."""

    def forge(plan):
        path = plan / "plan.json"
        old = hashlib.sha256(path.read_bytes()).hexdigest()
        path.write_text(change(path.read_text()))
        new = hashlib.sha256(path.read_bytes()).hexdigest()
        header(lambda d: d.update(plan_id=new))(plan)
        return plan.rename(plan.with_name(plan.name.replace(old[:16], new[:16])))

    return forge


def replaced(old, new):
    def change(text):
        assert old in text
        return text.replace(old, new, 1)

    return planned_as(change)


def small(change):
    def forge(plan):
        path = plan / "small.jsonl"
        path.write_text(change(path.read_text()))
        return orders(lambda d: d.update(small_sha256=hashlib.sha256(path.read_bytes()).hexdigest()))(plan)

    return forge


def record(unit, sha256="0" * 64, **more):
    """One more record, of this plan and with a right check."""

    def forge(plan):
        of = hashlib.sha256((plan / "header.json").read_bytes()).hexdigest()
        with (plan / "records.77").open("a") as file:
            file.write(checked(dumps({"unit": unit, "sha256": sha256, "header": of, **more, "check": ""}) + "\n"))
        records_last(plan)
        return plan

    return forge


def in_plan(change):
    def forge(plan):
        change(plan)
        return plan

    return forge


LAYOUT = '{"form":"external","data_file":null,"align":0,"inline_below":1024}'
DEEP = "[" * 79 + "]" * 79
# Name: (what is made of the folder, the exit code of `finalize`, what it says).
PLANS = {
    # ---- orders
    "a layout that ends the manifest's": (orders(put(("layout_asked",), '{}},"evil":1')), 66, "has a layout that 'weir plan' did not write"),
    "a layout of another kind": (orders(put(("layout_asked",), "[]")), 66, "has a layout that 'weir plan' did not write"),
    "a layout with more in it": (orders(put(("layout_asked",), LAYOUT[:-1] + ',"evil":1}')), 66, "has a layout that 'weir plan' did not write"),
    "a layout with a path": (orders(put(("layout_asked",), LAYOUT.replace("null", '"../x"'))), 66, "has a layout that 'weir plan' did not write"),
    "a layout that is no JSON": (orders(put(("layout_asked",), "evil")), 66, "has a layout that 'weir plan' did not write"),
    "an empty layout": (orders(put(("layout_asked",), "")), 66, "has a layout that 'weir plan' did not write"),
    "a layout that is a number": (orders(put(("layout_asked",), 7)), 66, "'orders.json'"),
    "a layout of another order": (orders(put(("layout_asked",), dumps(dict(reversed(json.loads(LAYOUT).items()))))), 66, "has a layout that 'weir plan' did not write"),
    "edits that are no digest": (orders(put(("edits_sha256",), 'x","evil":"')), 66, "'orders.json'"),
    "edits of another kind": (orders(put(("edits_sha256",), 7)), 66, "'orders.json'"),
    "edits that are not said": (orders(lambda d: d.pop("edits_sha256")), 66, "'orders.json'"),
    "no shards": (orders(put(("shards",), 0)), 66, "'orders.json'"),
    "shards without end": (orders(put(("shards",), 2**40)), 66, "'orders.json'"),
    "a flag that is a number": (orders(put(("manifest",), 1)), 66, "'orders.json'"),
    "digests per tensor that were not asked for": (orders(put(("tensor_digests",), False)), 66, "'orders.json'"),
    "small tensors that are not said": (orders(put(("small_sha256",), None)), 66, "'orders.json'"),
    "another digest of small tensors": (orders(put(("small_sha256",), "0" * 64)), 66, "'small.jsonl'"),
    "another header": (orders(put(("header_sha256",), "0" * 64)), 66, "'header.json'"),
    "another format": (orders(put(("weir_orders",), 2)), 66, "'orders.json'"),
    "a file beside the model": (orders(put(("companions",), ["/etc/passwd"])), 66, "'plan.json'"),
    "files beside the model without end": (orders(put(("companions",), ["/etc/passwd"] * 1000)), 66, "'plan.json'"),
    "a file beside the model that is none": (orders(put(("companions",), [""])), 66, "'orders.json'"),
    "files that are no list": (orders(put(("companions",), {})), 66, "'orders.json'"),
    "orders without their check": (in_plan(lambda plan: (plan / "orders.json").write_text((plan / "orders.json").read_text().replace('"shards":1', '"shards":2'))), 66, "'orders.json'"),
    "no orders": (in_plan(lambda plan: (plan / "orders.json").unlink()), 66, "is not ready"),
    "orders that are a FIFO": (in_plan(fifo("orders.json")), 77, "orders.json"),
    # ---- the header
    "another source": (header(put(("sources", 0, "name"), "f-src.onnx")), 66, "'plan.json'"),
    "a source by a path": (header(put(("sources", 0, "name"), "../../../etc/passwd")), 66, "'plan.json'"),
    "a source of another size": (header(put(("sources", 0, "size"), 1)), 66, "'plan.json'"),
    "a source of another time": (header(put(("sources", 0, "mtime_ns"), 1)), 66, "same size, different mtime"),
    "a source more": (header(lambda d: d["sources"].append(d["sources"][0])), 66, "'plan.json'"),
    "no source": (header(lambda d: d["sources"].clear()), 66, "'plan.json'"),
    "a source that is a number": (header(put(("sources", 0), 7)), 66, "'plan.json'"),
    "sources that are no list": (header(put(("sources",), {})), 66, "'header.json'"),
    "another folder of sources": (header(put(("source_folder",), "/etc")), 66, "e-src.onnx"),
    "another plan": (header(put(("plan_id",), "0" * 64)), 66, "'plan.json'"),
    "another version": (header(put(("version",), "9.9.9")), 66, "was planned by weir 9.9.9"),
    "a header that is no JSON": (in_plan(lambda plan: (plan / "header.json").write_text("{")), 66, "'header.json'"),
    # ---- the plan
    "passes that end the manifest's": (replaced('"passes":[', '"passes":[],"evil":['), 66, "the plan in"),
    "passes that are an object": (planned_as(lambda text: re.sub(r'"passes":.*\n', '"passes":{},\n', text)), 66, "the plan in"),
    "passes nested to the end": (planned_as(lambda text: re.sub(r'"passes":.*\n', f'"passes":{DEEP},\n', text)), 66, "the plan in"),
    "a layout of the plan that is a list": (planned_as(lambda text: re.sub(r'"layout":.*\n', '"layout":[],\n', text)), 66, "the plan in"),
    "an output by a path": (replaced('{"name":"o.onnx.data"', '{"name":"../o.onnx.data"'), 66, "the plan in"),
    "an output that is the header": (replaced('{"name":"o.onnx.data"', '{"name":"header.json"'), 66, "header.json"),
    "two outputs of one name": (replaced('{"name":"o.onnx.data"', '{"name":"o.onnx"'), 66, "o.onnx"),
    "a source by a path, in the plan too": (
        lambda plan: replaced('{"name":"e-src.onnx"', '{"name":"../e-src.onnx"')(header(put(("sources", 0, "name"), "../e-src.onnx"))(plan)), 66, "'plan.json'"),
    "a plan of another source": (replaced('{"name":"e-src.onnx"', '{"name":"f-src.onnx"'), 66, "'plan.json'"),
    "a plan with a break more": (planned_as(lambda text: text + "\n"), 66, "the plan in"),
    "a plan cut off": (planned_as(lambda text: text[:-10]), 66, "the plan in"),
    "a plan under another name": (in_plan(lambda plan: (plan / "plan.json").write_text((plan / "plan.json").read_text() + " ")), 66, "the plan in"),
    "other literals": (in_plan(lambda plan: flip(plan / "plan.bin", 3)), 66, "the plan in"),
    "small tensors that are none": (small(lambda text: "{}"), 66, "'small.jsonl'"),
    "small tensors cut off": (small(lambda text: text[:-2]), 66, "'small.jsonl'"),
    # ---- records and units
    "a unit changed after it was recorded": (in_plan(lambda plan: flip(plan / "o.onnx.data")), 75, "1 of 2 units is missing: 0"),
    "a record of a unit that there is not": (record(99), 0, "is damaged or of another plan"),
    "a record of a unit below 0": (record(-1), 0, "is damaged or of another plan"),
    "a record of another plan": (record(0, header="0" * 64), 0, "is damaged or of another plan"),
    "a record of no digest": (record(0, sha256="no"), 0, "is damaged or of another plan"),
    "a record without its check": (in_plan(lambda plan: (plan / "records.77").write_text('{"unit":0}\n')), 0, "is damaged or of another plan"),
    "a record that contradicts another": (record(0), 0, "1 unit has records that contradict each other: hashed again"),
    "records that contradict each other, of a unit that changed": (
        lambda plan: record(0)(in_plan(lambda plan: flip(plan / "o.onnx.data"))(plan)), 75, "1 of 2 units is missing: 0"),
    "a thousand records of one unit": (lambda plan: [record(0, sha256=f"{n:064x}")(plan) for n in range(1000)][-1], 0, "contradict each other"),
    "an output that is shorter": (in_plan(lambda plan: os.truncate(plan / "o.onnx.data", 10)), 66, "has another size than planned"),
    "an output that is a link": (in_plan(lambda plan: ((plan / "o.onnx.data").unlink(), (plan / "o.onnx.data").symlink_to("/etc/passwd"))), 77, "o.onnx.data"),
    "records that are a link": (in_plan(lambda plan: (plan / "records.78").symlink_to("/etc/passwd")), 77, "records.78"),
    "a seal that was not begun": (in_plan(lambda plan: (plan / "seal.json").write_text("{}")), 66, "seal.json"),
}  # fmt: skip


@pytest.mark.parametrize("name", sampled(PLANS, every=3))
def test_plans(weir, plan, name):
    """Refused before anything has its name, or finished right: whole, and with a manifest that says what it should."""
    forge, code, says = PLANS[name]
    plan = forge(plan)
    done = weir("finalize", plan, code=code)
    assert says in done.out + done.err and "root:" not in done.err, done.said
    out = plan.parent / "o.onnx"
    assert out.exists() == (code == 0)
    if code == 0:
        json.loads(Path(f"{out}.manifest.json").read_text())
        assert ": OK" in weir("audit", out).out


def test_a_plan_that_holds(weir, plan):
    """The control arm. What was taken on trust is said, and nothing is where all was read."""
    again = shutil.copytree(plan.parent, plan.parent.with_name("q")) / plan.name
    records_last(plan)
    said = weir("finalize", plan)
    assert "2 units were not read again (--recheck)" in said.out
    assert "not read again" not in weir("finalize", again, "--recheck").out
    assert weir("finalize", plan, "--json").json()["units_not_read"] == 0  # it was in place
    for folder in (plan.parent, again.parent):
        assert ": OK" in weir("audit", folder / "o.onnx").out


# ---- who believes a manifest besides


def test_a_manifest_gives_no_right_to_files(weir, here):
    """Of a model that is replaced, files go that the old one had: none that its manifest alone lists, and none of another model's manifest."""
    (here / "mine.txt").write_text("mine")
    resources(lambda rows: rows.append(row("mine.txt", 4)))(here)
    shutil.copy(of(here, ".manifest.json"), of(here, ".manifest.json", "g.onnx"))
    shutil.copy(of(here, name="f.onnx"), of(here, name="g.onnx"))
    before = {path: path.read_bytes() for path in here.iterdir() if path.name.startswith("f.") or path.name == "mine.txt"}
    weir("convert", here.parent / "e-src.onnx", of(here), "--external", "--data-file", "mine.txt", "--force", code=2)
    for name in ("e.onnx", "g.onnx"):
        weir("convert", here.parent / "e-src.onnx", here / name, "--inline", "--force")
    assert {path: path.read_bytes() for path in before} == before
    assert not of(here, ".data").exists()  # that one was e.onnx's own


@pytest.mark.parametrize("called", ["a tensor", "a node", "the text of a location that nothing has"])
def test_a_name_in_the_model_gives_no_right_to_files(weir, here, called):
    """Neither does a name that stands in the .onnx: a file is the model's if the data of a tensor is in it."""
    (here / "mine.txt").write_text("mine")
    model = onnx.load(of(here), load_external_data=False)
    if called == "a tensor":
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(2, np.float32), "mine.txt"))
    elif called == "a node":
        model.graph.node[0].name = "mine.txt"
    else:
        model.doc_string = "\x0a\x08location\x12\x08mine.txt"
    restate(here, "e.onnx", model.SerializeToString())
    resources(lambda rows: rows.append(row("mine.txt", 4)))(here)
    source = here.parent / "e-src.onnx"
    weir("convert", source, of(here), "--external", "--data-file", "mine.txt", "--force", code=2)
    weir("convert", source, of(here), "--inline", "--force")
    assert (here / "mine.txt").read_text() == "mine" and not of(here, ".data").exists()


def test_digests_are_trusted_of_whole_manifests_only(weir, here):
    """`diff --trust-manifests`: where a file is not in the manifest, nobody vouches for it."""
    shutil.copytree(here, here.parent / "other")
    words = ["diff", of(here), of(here.parent / "other"), "--trust-manifests"]
    assert "is read" not in weir(*words).err
    resources(lambda rows: rows.pop())(here)
    assert "a file of the model is not in the manifest" in weir(*words).err
    shutil.copy(of(here, ".manifest.json", "f.onnx"), of(here, ".manifest.json"))
    assert "it has no readable manifest" in weir(*words).err


# ---- edit logs


@pytest.mark.parametrize(
    "name, code, says",
    [
        ("../e-src.onnx", 65, "is not the name of a file"),
        ("/etc/passwd", 65, "is not the name of a file"),
        ("..", 65, "is not the name of a file"),
        ("", 65, "is not the name of a file"),
        ("x", 66, "was not found"),
        ("e.onnx.sig", 66, "is not the one that the log was made with"),
        ("fifo", 66, "was not found"),
    ],
)
def test_sources_of_edit_logs(weir, here, name, code, says):
    """Base names, with a size and a digest."""
    log = here / "log.jsonl"
    weir("convert", here.parent / "e-src.onnx", here / "o.onnx", "--edit-log", log)
    fifo("fifo")(here)
    source = {"edit": "source", "file": 1, "name": name, "size": 5, "sha256": "0" * 64}
    log.write_text(with_lines(log.read_text(), json.dumps(source)))
    assert says in weir("replay", log, here.parent / "e-src.onnx", here / "p.onnx", code=code).err
