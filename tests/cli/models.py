"""Small models for the command-line cases: models.py KIND OUT.onnx; models.py manifest OUT.onnx SHARD_BYTES.

sampler    one of everything that inspect shows: external and inline weights, Constant nodes, If with two
           branches, a function, an unused initializer, bytes that no tensor uses, a name that steers terminals
operators  a fault of each kind that an operator's signature shows, in domains of ONNX and others
undefined  a node input that nothing makes, and a name that is made twice
manifest   OUT.onnx.manifest.json over OUT.onnx and its data file, in shards of that size
"""

import hashlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from wire import BOOL, FLOAT, INT32, INT64, blob, blobs, external, graph, model, node, opset, tensor  # noqa: E402


def sampler(path):
    data = os.path.basename(path) + ".data"
    rows = bytearray(131072 + 262144)
    rows[0:64] = bytes(range(64))
    rows[4096 : 4096 + 192] = bytes(192)
    with open(path + ".data", "wb") as file:
        file.write(rows)
    weights = [
        tensor("w1", FLOAT, [4, 4, 1], pairs=external(data, 0, 64)),
        tensor("w3", FLOAT, [4, 4, 3], pairs=external(data, 4096, 192)),
        tensor("never\x1b[31mused", FLOAT, [64, 1024], pairs=external(data, 131072, 262144)),
        tensor("two", FLOAT, [], raw=b"\0\0\0\x40"),
        tensor("inline", FLOAT, [4, 300, 1], raw=bytes(4800)),
    ]
    then = graph([node("Conv", ["b", "w1"], ["c1"])], outputs=[("c1", FLOAT)], name="then")
    other = graph([node("Identity", ["b"], ["c2"], name="keep")], outputs=[("c2", FLOAT)], name="else")
    nodes = [
        node("Conv", ["x", "w1"], ["a"], name="pointwise"),
        node("Conv", ["a", "w3"], ["b"], name="wide", pads=[1, 1]),
        node("If", ["flag"], ["c"], name="choose", then_branch=("g", then), else_branch=("g", other)),
        node("Constant", [], ["k"], value=("t", tensor("", INT64, [2], raw=bytes(16)))),
        node("Twice", ["c"], ["d"], domain="my.ops"),
        node("Concat", ["d", "d", "d", "d", "d", "d", "d", "d"], ["e"], axis=0),
        node("Mul", ["e", "two"], ["f"]),
        node("Conv", ["f", "inline", ""], ["y"]),
    ]
    body = graph(
        nodes,
        weights,
        inputs=[("x", FLOAT, [1, 4, "time"]), ("flag", BOOL, [])],
        outputs=[("y", FLOAT, [8, 300, None])],
        name="sampler",
    )
    twice = blob(1, "Twice") + blobs(4, ["u"]) + blobs(5, ["v"]) + blob(7, node("Add", ["u", "u"], ["v"]))
    twice += blob(9, opset(17)) + blob(10, "my.ops")
    more = blob(8, opset(1, "my.ops")) + blob(3, "1.2") + blob(25, twice)
    write(path, model(body, more=more))


def undefined(path):
    nodes = [node("Add", ["x", "ghost"], ["y"], name="adder"), node("Neg", ["x"], ["y"], name="twin")]
    write(path, model(graph(nodes, inputs=[("x", FLOAT, [2])], outputs=[("y", FLOAT, [2])])))


def operators(path):
    nodes = [
        node("Relu", ["x"], ["a"], name="sound", __note=1),
        node("Reluu", ["a"], ["b"], name="misspelt"),
        node("MatMulNBits", ["a"], ["c"], name="no_domain"),
        node("Gelu", ["a"], ["d"], name="too_new"),
        node("Upsample", ["a", "a"], ["e"], name="deprecated"),
        node("SimplifiedLayerNormalization", ["a", "a"], ["f"], name="runtime_only"),
        node("Affine", ["a"], ["g"], name="withdrawn"),
        node("MatMul", ["a"], ["h"], name="too_few"),
        node("Relu", ["a", "a"], ["i"], name="too_many"),
        node("Sum", [], ["j"], name="none"),
        node("Clip", ["a", "a", "a", "a"], ["k"], name="too_many_of_several"),
        node("Relu", ["a"], ["l", "l2"], name="outputs"),
        node("Where", ["flag", "", "a"], ["m"], name="left_out"),
        node("Softmax", ["a"], ["n"], name="attribute", axsi=1),
        node("Concat", ["a", "a"], ["o"], name="required"),
        node("Concat", ["a", "a"], ["p"], name="kind", axis="s"),
        node("MatMul", ["x", "w"], ["q"], name="two_types"),
        node("And", ["flag", "x"], ["r"], name="wrong_type"),
        node("Sin", ["w"], ["s"], name="wrong_type_of_weight"),
        node("SequenceAt", ["x", "w"], ["t"], name="sequence"),
        node("FusedMatMul", ["a", "a"], ["u"], name="microsoft", domain="com.microsoft", transC=1),
        node("QuickGelux", ["a"], ["v"], name="microsoft_unknown", domain="com.microsoft"),
        node("Scalar", ["a"], ["ml"], name="ml", domain="ai.onnx.ml"),
        node("Mine", ["a"], ["mine"], name="mine", domain="my.ops"),
        node("Mine", ["a"], ["mine2"], name="mine_again", domain="my.ops"),
        node("Twice", ["a"], ["twice"], name="function", domain="my.ops"),
    ]
    body = graph(
        nodes,
        [tensor("w", INT32, [4, 4], raw=bytes(64))],
        inputs=[("x", FLOAT), ("flag", BOOL)],
        outputs=[("a", FLOAT)],
    )
    twice = blob(1, "Twice") + blobs(4, ["u"]) + blobs(5, ["v"])
    twice += blob(7, node("Add", ["u", "u"], ["v"])) + blob(7, node("Ad", ["u", "u"], ["z"], name="inside"))
    twice += blob(9, opset(17)) + blob(10, "my.ops")
    domains = [("com.microsoft", 1), ("ai.onnx.ml", 3), ("my.ops", 1)]
    more = b"".join(blob(8, opset(version, domain)) for domain, version in domains) + blob(25, twice)
    write(path, model(body, more=more))


def manifest(path, size):
    resources = []
    for name in sorted([path, path + ".data"]):
        if not os.path.exists(name):
            continue
        with open(name, "rb") as file:
            body = file.read()
        for start in range(0, len(body), size):
            end = min(start + size, len(body))
            digest = hashlib.sha256(body[start:end]).hexdigest()
            shard = {"name": f"{os.path.basename(name)}:{start}:{end}", "algorithm": f"sha256-sharded-{size}"}
            resources.append({**shard, "digest": digest})
    root = hashlib.sha256(b"".join(bytes.fromhex(each["digest"]) for each in resources)).hexdigest()
    ours = {"version": 1, "plan_id": "00" * 32, "output": os.path.basename(path)}
    how = {"method": "shards", "hash_type": "sha256", "shard_size": size, "allow_symlinks": False}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": os.path.basename(path), "digest": {"sha256": root}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {"serialization": how, "resources": resources, "x_weir": ours},
    }
    with open(path + ".manifest.json", "w") as file:
        json.dump(statement, file)


def write(path, body):
    with open(path, "wb") as file:
        file.write(body)


if __name__ == "__main__":
    if sys.argv[1] == "manifest":
        manifest(sys.argv[2], int(sys.argv[3]))
    else:
        {"sampler": sampler, "undefined": undefined, "operators": operators}[sys.argv[1]](sys.argv[2])
