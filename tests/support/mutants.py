"""Wrong rewrites, one thing wrong in each: what a pass made is altered in the output, or in the lines of its edit log.

`of_output(source, result)` alters what the result has and the source has not: one element of each kind of constant, one
attribute, one permutation, one operand. `of_log(text)` alters one line of a log, as a pass that is wrong would have written it;
`weir replay --partial` makes the output. `nets` asks everything that could find it.
"""

import copy
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

NETS = ("structure", "audit", "sites", "rest", "model")
SIGN, EXPONENT = 0x80, 0x08  # of the byte that has both: 16 times as much or as little, or more
WIDTHS = {TensorProto.FLOAT: 4, TensorProto.DOUBLE: 8, TensorProto.FLOAT16: 2, TensorProto.BFLOAT16: 2}
BIT = {TensorProto.BOOL: 0x01}
HALVES = {TensorProto.BFLOAT16: ml_dtypes.bfloat16}
# What says how a node is computed, and not what.
NO_MEANING = {"accuracy_level", "op_name", "qk_matmul_output_mode", "softmax_precision", "allowzero", "momentum"}


@dataclass
class Mutant:
    kind: str  # a column of the table
    place: str  # for people
    apply: object = None  # changes a copy of the result
    text: str = ""  # or: the altered log
    group: int = 0  # of the altered line


# ---- what the result has of its own ----------------------------------------------------------------------------------


def raw(tensor):
    return tensor.raw_data or numpy_helper.to_array(tensor).tobytes()


def new_tensors(source, result):
    before = {tensor.name: raw(tensor) for tensor in source.graph.initializer}
    return [tensor for tensor in result.graph.initializer if before.get(tensor.name) != raw(tensor)]


def new_nodes(source, result):
    before = {node.SerializeToString() for node in source.graph.node}
    return [i for i, node in enumerate(result.graph.node) if node.SerializeToString() not in before]


def uses(model):
    """By the name of a value: (node, slot) of who reads it."""
    found = {}
    for node in model.graph.node:
        for slot, name in enumerate(node.input):
            found.setdefault(name, []).append((node, slot))
    return found


# What is read at the slots of operators on codes; of the others of these, nothing.
SLOTS = {
    "QuantizeLinear": {1: "scale", 2: "zero point"}, "DequantizeLinear": {0: "codes", 1: "scale", 2: "zero point"},
    "QLinearConv": {1: "scale", 2: "zero point", 3: "codes", 4: "scale", 5: "zero point", 6: "scale", 7: "zero point", 8: "bias"},
    "QGemm": {1: "scale", 2: "zero point", 3: "codes", 4: "scale", 5: "zero point", 6: "bias", 7: "scale", 8: "zero point"},
    "QLinearMatMul": {1: "scale", 2: "zero point", 3: "codes", 4: "scale", 5: "zero point", 6: "scale", 7: "zero point"},
}  # fmt: skip


def role_of(tensor, users):
    """The column of a constant, by who reads it."""
    for node, slot in users.get(tensor.name, []):
        if node.op_type in SLOTS:
            return SLOTS[node.op_type].get(slot, "constant")
        if node.op_type in ("MatMulNBits", "GatherBlockQuantized"):
            names = ["", "codes", "scale", "zero point", "", "bias"] if node.op_type == "MatMulNBits" else ["codes", "", "scale", "zero point"]
            return names[slot]
        if tensor.data_type in (TensorProto.INT8, TensorProto.UINT8) and node.op_type == "Cast":
            return "codes"
        if tensor.data_type not in WIDTHS:
            return "constant"
        if node.op_type in ("Conv", "Gemm", "ConvTranspose") and slot == 2 or (node.op_type == "Add" and len(tensor.dims) == 1):
            return "bias"
    return "weight" if tensor.data_type in WIDTHS else "constant"


# ---- one byte of a constant ------------------------------------------------------------------------------------------


def numbers_of(tensor):
    dtype = HALVES.get(tensor.data_type) or helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return np.frombuffer(raw(tensor), dtype).astype(np.float64)


def typical(tensor):
    """The place of the element of median size, of those that are not zero: neither the one that is seen best nor one that is nothing."""
    size = np.abs(numbers_of(tensor))
    order = [i for i in np.argsort(size, kind="stable") if size[i] > 0 and np.isfinite(size[i])]
    return int(order[len(order) // 2]) if order else None


def flipped(name, at, mask):
    def apply(model):
        tensor = next(each for each in model.graph.initializer if each.name == name)
        content = bytearray(raw(tensor))
        content[at] ^= mask
        for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            tensor.ClearField(field)
        tensor.raw_data = bytes(content)

    return apply


def of_constant(tensor, role):
    n = len(raw(tensor))
    if n == 0:
        return
    if tensor.data_type in WIDTHS:
        at = typical(tensor)
        if at is None:
            return
        last = (at + 1) * WIDTHS[tensor.data_type] - 1
        if role in ("scale", "bias"):
            yield Mutant(role, f"{tensor.name}[{at}] ^ sign", flipped(tensor.name, last, SIGN))
        else:
            yield Mutant("sign", f"{tensor.name}[{at}]", flipped(tensor.name, last, SIGN))
        if abs(numbers_of(tensor)[at]) < 1e30:  # what masks masks at a millionth of it too
            yield Mutant("exponent", f"{tensor.name}[{at}]", flipped(tensor.name, last, EXPONENT))
        return
    packed = role in ("codes", "zero point") and tensor.data_type in (TensorProto.UINT8, TensorProto.UINT4, TensorProto.INT4)
    at = n // 2 if tensor.data_type != TensorProto.INT32 else n // 8 * 4 + 3  # of codes of a bias the highest byte
    yield Mutant(role, f"{tensor.name}[{at}]", flipped(tensor.name, at, 0x08 if packed else BIT.get(tensor.data_type, 0x02) if role == "constant" else 0x40))


# ---- one word of a node ----------------------------------------------------------------------------------------------


TRUTHS = {"transA", "transB", "keepdims", "allowzero", "is_causal", "unidirectional", "interleaved", "exclusive", "reverse", "do_rotary"}


def other_number(x, name=""):
    """Ends that lie past the last are the same as the last: they are made smaller."""
    if name in TRUTHS or name == "end":
        return 1 - x if name in TRUTHS else x - 1
    return x + 1 if isinstance(x, int) else x * 1.5 + 0.1


def set_attribute(index, name, change):
    def apply(model):
        attribute = next(each for each in model.graph.node[index].attribute if each.name == name)
        value = change(helper.get_attribute_value(attribute))
        attribute.CopyFrom(helper.make_attribute(name, value))

    return apply


def swap_last(values):
    values = list(values)
    values[-1], values[-2] = values[-2], values[-1]
    return values


def of_attribute(index, node, attribute):
    place = f"{node.op_type} {node.name}.{attribute.name}"
    if attribute.name in NO_MEANING:
        return
    if attribute.name == "perm":
        yield Mutant("permutation", place, set_attribute(index, "perm", swap_last))
    elif attribute.type in (AttributeProto.INT, AttributeProto.FLOAT):
        yield Mutant("attribute", place, set_attribute(index, attribute.name, lambda x: other_number(x, attribute.name)))
    elif attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS) and len(helper.get_attribute_value(attribute)):
        yield Mutant("attribute", place, set_attribute(index, attribute.name, lambda v: [*list(v)[:-1], other_number(list(v)[-1])]))


def of_output(source, result):
    """Mutants of the result: of every role of constants, and every attribute of every operator, one (the first)."""
    users, seen = uses(result), set()
    for tensor in new_tensors(source, result):
        role = role_of(tensor, users)
        reader = next((f"{node.op_type}:{slot}" for node, slot in users.get(tensor.name, [])), "")
        if (role, reader) in seen or not role:
            continue
        seen.add((role, reader))
        yield from of_constant(tensor, role)
    for index in new_nodes(source, result):
        node = result.graph.node[index]
        for attribute in node.attribute:
            if (node.op_type, attribute.name) not in seen:
                seen.add((node.op_type, attribute.name))
                yield from of_attribute(index, node, attribute)


# ---- one line of a log -----------------------------------------------------------------------------------------------

ORDERED = {"Sub", "Div", "MatMul", "Gemm", "Pow", "Where", "Concat", "Less", "Greater", "Attention", "MultiHeadAttention", "RotaryEmbedding"}


def altered(line):
    """(column, place, the line otherwise) of what a wrong pass could have written."""
    row = json.loads(line)
    what = row["edit"]
    attributes = row.get("attrs", {})
    for name, value in attributes.items():
        for kind, x in value.items():
            place = f"{row.get('op', what)}.{name}"
            other = None
            if name in NO_MEANING:
                continue
            if name == "perm" and len(x) > 1:
                other = swap_last(x)
            elif kind in ("int", "float") and isinstance(x, (int, float)):
                other = other_number(x, name)
            elif kind in ("ints", "floats") and x and not isinstance(x[-1], str):
                other = [*x[:-1], other_number(x[-1])]
            if other is not None:
                yield "rule", place, {**row, "attrs": {**attributes, name: {kind: other}}}
    if what == "node.add" and row["op"] in ORDERED and len(row["in"]) > 1 and row["in"][0] != row["in"][1] and row["in"][1]:
        yield "rule", f"{row['op']} operands", {**row, "in": [row["in"][1], row["in"][0], *row["in"][2:]]}
    if what == "node.add":
        others = {"Add": "Sub", "Sub": "Add", "Mul": "Add", "Div": "Mul", "Relu": "Abs", "Min": "Max", "Max": "Min", "Sigmoid": "Tanh", "ReduceMean": "ReduceSum", "ReduceSum": "ReduceMean", "Gelu": "Relu", "Clip": "Identity"}
        if row["op"] in others and not row.get("domain") and not (row["op"] == "Clip" and len(row["in"]) < 2):
            ins = row["in"][:1] if row["op"] == "Clip" else row["in"]
            yield "rule", f"{row['op']} -> {others[row['op']]}", {**row, "op": others[row["op"]], "in": ins}
    if "recipe" in row:
        text = json.dumps(row["recipe"])
        for pattern, change in ((r'"perm": \[([0-9, ]+)\]', "perm"), (r'"symmetric": (false|true)', "symmetric"), (r'"fn": "(add|sub|mul|div)"', "fn"), (r'"op": "(add|sub|mul|div)"', "op")):
            found = re.search(pattern, text)
            if not found:
                continue
            word = found.group(1)
            new = {
                "perm": lambda: ", ".join(swap_last(word.split(", "))) if "," in word else None,
                "symmetric": lambda: "true" if word == "false" else "false",
            }.get(change, lambda: {"add": "sub", "sub": "add", "mul": "div", "div": "mul"}[word])()
            if new is not None:
                yield "rule", f"recipe {change}", {**row, "recipe": json.loads(text[: found.start(1)] + new + text[found.end(1) :])}


def of_log(text):
    """Mutants of a log: of every pass and every place of it one."""
    lines, group, of, seen = text.splitlines(), 0, "", set()
    for at, line in enumerate(lines[1:-1], 1):
        row = json.loads(line)
        if row["edit"] == "group":
            group, of = row["group"], row["pass"]
            continue
        for kind, place, other in altered(line):
            if (of, place) in seen:
                continue
            seen.add((of, place))
            new = [*lines[:at], json.dumps(other, separators=(",", ":")), *lines[at + 1 :]]
            yield Mutant(kind, f"{of}: {place}", text="\n".join(new) + "\n", group=group)


# ---- nets ------------------------------------------------------------------------------------------------------------


def refused(done):
    return done.err.splitlines()[0] if done.err else "exit code 1"


def sites(weir, source, out, log, *words):
    """(groups and reasons of failed sites, how many were not verified); (None, text) where it could not begin."""
    done = weir("verify", source, *([out] if out else []), "--edits", log, "--partial", "--json", *words, code=None)
    if done.code not in (0, 1) or not done.out.strip():
        return None, done.err
    of = json.loads(done.out)["verification"]
    return [row for row in of["rows"] if row["status"] == "failed"], of["not_verified"]


def rest(weir, source, out, log):
    """What no edit is about and is not as in the source."""
    done = weir("verify", source, out, "--edits", log, "--partial", "--sites", "1", "--json", code=None)
    said = json.loads(done.out)["verification"]["rest"] if done.out.strip() else None
    return said["first"] if said and said["differing"] else ""


def nets(weir, source, out, log, by_sites_alone=False):
    """{net: what it says, empty if it found nothing} of an output that is wrong."""
    failed, more = sites(weir, source, out, log)
    said = {"sites": more if failed is None else failed}
    if by_sites_alone and said["sites"]:
        return said
    said["rest"] = rest(weir, source, out, log)
    for net, words in (("structure", ["check", out]), ("audit", ["audit", out]), ("model", ["verify", source, out])):
        done = weir(*words, code=None)
        said[net] = "" if done.code == 0 else refused(done)
    return said


def same_files(a, b):
    """Of two folders with outputs: are their models the same bytes?"""
    return all(path.read_bytes() == (b / path.name).read_bytes() for path in a.glob("out.onnx*") if "manifest" not in path.name)


def judge(weir, source, made, mutant, folder, by_sites_alone=False):
    """What finds the mutant of what lies in `made` (out.onnx, log.jsonl), as `nets` says it; None: nothing is wrong with it."""
    folder.mkdir()
    try:
        out, log = folder / "out.onnx", made / "log.jsonl"
        if mutant.apply:
            model = onnx.load(made / "out.onnx")
            mutant.apply(model)
            for path in made.glob("out.onnx*"):
                shutil.copy(path, folder)
            onnx.save(model, out)
        else:
            log = folder / "log.jsonl"
            log.write_text(mutant.text)
            done = weir("replay", log, source, out, "--partial", code=None)
            if done.code:
                return {"structure": refused(done)}
            if same_files(made, folder):
                return None
        return nets(weir, source, out, log, by_sites_alone)
    finally:
        shutil.rmtree(folder)
