"""Are two quantized models the same, the order of their nodes aside?

`alike(ours, theirs)` gives a list of differences, one sentence each; it is empty where the two have the same nodes (operator, name,
inputs, outputs, attributes, graphs inside), the same initializers byte for byte, the same opsets, inputs, outputs and functions. With
`names=False` the names of nodes and of values in between are aside too: a value then is what makes it, a constant is its bytes. With
`raised=True` two ways to write what a raise of the opset needs are one, since onnx's version_converter makes nodes and names of its
own: a Constant node of theirs is an initializer of ours that they do not have, by its bytes; an attribute that has the default of its
operator is none. What tools write about a model (producer, metadata, value_info, documentation) is not looked at.

    python tests/support/quantized_alike.py OURS.onnx THEIRS.onnx [--no-names] [--raised]
"""

import hashlib
import sys
from collections import Counter

import onnx
from onnx import numpy_helper

MOST = 40  # differences that are listed


def elements(tensor):
    """Bytes of a TensorProto's elements, whichever field has them."""
    if tensor.data_type == onnx.TensorProto.STRING:
        return b"\0".join(tensor.string_data)
    return numpy_helper.to_array(tensor).tobytes()


def tensor_key(tensor):
    digest = hashlib.sha256(elements(tensor)).hexdigest()[:16]
    return onnx.TensorProto.DataType.Name(tensor.data_type), tuple(tensor.dims), digest


def type_key(value):
    """Of an input or output: its type, dims by number or name."""
    t = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return value.type.SerializeToString()
    dims = tuple(d.dim_param or (d.dim_value if d.HasField("dim_value") else "?") for d in t.shape.dim) if t.HasField("shape") else None
    return t.elem_type, dims


class Graph:
    """What is compared of a graph or a function's body. `outer`: keys of the values around it."""

    def __init__(self, nodes, inputs, outputs, initializers, names, outer=()):
        self.names = names
        self.values = dict(outer)
        self.tensors = {t.name: tensor_key(t) for t in initializers}
        self.inputs = inputs
        if not names:
            for i, (name, _) in enumerate(inputs):
                self.values[name] = ("input", i, name)
            self.values.update({name: ("tensor", *key) for name, key in self.tensors.items()})
        self.nodes = Counter()
        self.n_by_op = Counter()
        for node in sorted_nodes(nodes, self.values) if not names else nodes:
            key = self.node_key(node)
            self.nodes[key] += 1
            self.n_by_op[node.op_type] += 1
            if not names:
                digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
                for i, out in enumerate(node.output):
                    if out:
                        self.values[out] = ("node", node.op_type, digest, i)
        self.outputs = [(name if names else self.values.get(name, name), kind) for name, kind in outputs]

    def value(self, name):
        return name if self.names or not name else self.values.get(name, name)

    def attribute(self, a):
        if a.ref_attr_name:
            return a.name, "ref", a.ref_attr_name
        if a.type == onnx.AttributeProto.GRAPH:
            return a.name, graph_of(a.g, self.names, self.values).key()
        if a.type == onnx.AttributeProto.GRAPHS:
            return (a.name, *(graph_of(g, self.names, self.values).key() for g in a.graphs))
        if a.type == onnx.AttributeProto.TENSOR:
            return a.name, tensor_key(a.t)
        found = onnx.helper.get_attribute_value(a)
        return a.name, tuple(found) if isinstance(found, (list, tuple)) or hasattr(found, "append") else found

    def node_key(self, node):
        inputs, outputs = list(node.input), list(node.output)
        while inputs and not inputs[-1]:
            inputs.pop()
        while outputs and not outputs[-1]:
            outputs.pop()
        domain = "" if node.domain == "ai.onnx" else node.domain
        attributes = tuple(sorted((self.attribute(a) for a in node.attribute), key=repr))
        name = node.name if self.names else ""
        made = tuple(outputs) if self.names else tuple(bool(o) for o in outputs)
        return domain, node.op_type, name, tuple(self.value(i) for i in inputs), made, attributes

    def key(self):
        tensors = tuple(sorted(self.tensors.items())) if self.names else ()
        inputs, outputs = tuple(name for name, _ in self.inputs), tuple(name for name, _ in self.outputs)
        return tuple(sorted(map(repr, self.nodes.elements()))), tensors, inputs, outputs


def sorted_nodes(nodes, known):
    """In an order in which what makes a value stands before its users (values from around are known)."""
    made = {o for node in nodes for o in node.output if o}
    done, left, order = set(known) - made, list(nodes), []
    while left:
        rest = []
        for node in left:
            needs = {i for i in node.input if i} | {i for a in node.attribute for g in graphs_of(a) for i in outer_names(g)}
            if needs & made <= done:
                order.append(node)
                done.update(o for o in node.output if o)
            else:
                rest.append(node)
        if len(rest) == len(left):
            return order + rest
        left = rest
    return order


def graphs_of(attribute):
    return [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else list(attribute.graphs)


def outer_names(graph):
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer} | {o for n in graph.node for o in n.output}
    used = {i for n in graph.node for i in n.input if i} | {o.name for o in graph.output}
    for node in graph.node:
        for a in node.attribute:
            for g in graphs_of(a):
                used |= outer_names(g)
    return used - own


def graph_of(g, names, outer=()):
    own = {t.name for t in g.initializer}
    inputs = [(i.name, type_key(i)) for i in g.input if names or i.name not in own]
    return Graph(g.node, inputs, [(o.name, type_key(o)) for o in g.output], g.initializer, names, outer)


def same_output(a, b):
    """Tools write what onnx infers of outputs: where either says no number, any will do."""
    if a[0] != b[0] or not (isinstance(a[1], tuple) and isinstance(b[1], tuple)):
        return a == b
    (one, dims), (other, more) = a[1], b[1]
    if one != other or dims is None or more is None:
        return one == other
    return len(dims) == len(more) and all(x == y or isinstance(x, str) or isinstance(y, str) for x, y in zip(dims, more))


def missing(ours, theirs, what):
    for key, n in (ours - theirs).items():
        yield f"only ours: {n} x {what} {key!r}"
    for key, n in (theirs - ours).items():
        yield f"only theirs: {n} x {what} {key!r}"


def graph_differences(a, b):
    if a.n_by_op != b.n_by_op:
        yield f"operators: ours {dict(a.n_by_op - b.n_by_op)} more, theirs {dict(b.n_by_op - a.n_by_op)} more"
    yield from missing(a.nodes, b.nodes, "node")
    if a.names:
        for name in sorted(set(a.tensors) | set(b.tensors)):
            if a.tensors.get(name) != b.tensors.get(name):
                yield f"tensor {name!r}: ours {a.tensors.get(name)}, theirs {b.tensors.get(name)}"
    if a.inputs != b.inputs:
        yield f"inputs: ours {a.inputs}, theirs {b.inputs}"
    if len(a.outputs) != len(b.outputs) or not all(map(same_output, a.outputs, b.outputs)):
        yield f"outputs: ours {a.outputs}, theirs {b.outputs}"


def opsets(model):
    return {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}


def loaded(model):
    return model if isinstance(model, onnx.ModelProto) else onnx.load(str(model))


def constants(nodes):
    return {n.output[0]: n.attribute[0].t for n in nodes if n.op_type == "Constant" and n.attribute[0].name == "value"}


def by_bytes(model, own):
    """A copy with the tensors of `own` (name: tensor) called by their bytes, as initializers, and without attributes at their default."""
    settled = onnx.ModelProto()
    settled.CopyFrom(model)
    graph, version = settled.graph, opsets(model).get("", 1)
    called = {name: "constant {} {} {}".format(*tensor_key(t)) for name, t in own.items()}
    kept = [n for n in graph.node if not (n.op_type == "Constant" and n.output[0] in called)]
    held = [t for t in graph.initializer if t.name not in called]
    for name, tensor in {called[name]: t for name, t in own.items()}.items():
        held.append(onnx.TensorProto())
        held[-1].CopyFrom(tensor)
        held[-1].name = name
    for node in kept:
        node.input[:] = [called.get(i, i) for i in node.input]
        defaults = onnx.defs.get_schema(node.op_type, version).attributes if node.domain in ("", "ai.onnx") else {}
        said = [a for a in node.attribute if not (a.name in defaults and defaults[a.name].default_value == a)]
        del node.attribute[:]
        node.attribute.extend(said)
    for field, rows in ((graph.node, kept), (graph.initializer, held)):
        rows = [type(r).FromString(r.SerializeToString()) for r in rows]
        del field[:]
        field.extend(rows)
    return settled


def alike(ours, theirs, names=True, raised=False):
    a, b = loaded(ours), loaded(theirs)
    if raised:
        known, made = {t.name for t in b.graph.initializer}, constants(b.graph.node)
        bytes_made = {tensor_key(t) for t in made.values()}
        own = {t.name: t for t in a.graph.initializer if t.name not in known and tensor_key(t) in bytes_made}
        a, b = by_bytes(a, own | constants(a.graph.node)), by_bytes(b, made)
    found = []
    if opsets(a) != opsets(b):
        found.append(f"opsets: ours {opsets(a)}, theirs {opsets(b)}")
    found += graph_differences(graph_of(a.graph, names), graph_of(b.graph, names))
    theirs_by_name = {(f.domain, f.name): f for f in b.functions}
    if {(f.domain, f.name) for f in a.functions} != set(theirs_by_name):
        found.append("other functions")
    for f in a.functions:
        g = theirs_by_name.get((f.domain, f.name))
        if g is not None:
            pair = [Graph(x.node, [(i, None) for i in x.input], [(o, None) for o in x.output], [], names) for x in (f, g)]
            found += [f"function {f.name}: {d}" for d in graph_differences(*pair)]
    return found[:MOST] + ([f"and {len(found) - MOST} more"] if len(found) > MOST else [])


if __name__ == "__main__":
    different = alike(sys.argv[1], sys.argv[2], "--no-names" not in sys.argv[3:], "--raised" in sys.argv[3:])
    print("\n".join(different) or "alike")
    sys.exit(bool(different))
