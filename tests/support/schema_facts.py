"""What the installed packages say of operators, in the form in which weir's table says it.

    schema_facts.py OPERATOR...         the rows of these operators as src/schema/*.ops would have them

A fact is a dict; facts() gives those of onnx (domains of ONNX) and of the newest ONNX Runtime (com.microsoft, and the operators
that it adds to ai.onnx). rows() writes the facts of one operator as lines: the rule of inference, flags and what a raise of the
opset does to a node are no facts of these packages and must be added by hand.
"""

import json
import re
import struct
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import onnx
import onnx.defs

import runtimes

RUNTIME = "onnxruntime"  # what it adds to ai.onnx

SETS = {}  # in order: later ones may name earlier ones
for name, members in (
    ("floats", "float16 float double"),
    ("float8", "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz"),
    ("ints", "int8 int16 int32 int64"),
    ("uints", "uint8 uint16 uint32 uint64"),
    ("wide", "int32 int64 uint32 uint64"),
    ("numbers", "floats ints uints"),
    ("plain", "numbers bool"),
    ("all", "plain string complex64 complex128"),
    ("all13", "all bfloat16"),
    ("all19", "all13 float8"),
    ("all21", "all19 int4 uint4"),
    ("all23", "all21 float4e2m1"),
    ("all24", "all23 float8e8m0"),
    ("all25", "all24 int2 uint2"),
    ("all28", "all25 float6e2m3 float6e3m2"),
):
    SETS[name] = frozenset().union(*(SETS.get(word, {word}) for word in members.split()))

NUMBERS = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}
ATTRIBUTE_TYPES = {name: name.lower() for name in onnx.AttributeProto.AttributeType.keys()}


# ---- facts ---------------------------------------------------------------------------------------------------------


def kind_of(text):
    """'seq(tensor(float))' -> ('seq', 'float'); 'map(string, float)' -> ('map(string)', 'float')."""
    text = text.replace(" ", "")
    if m := re.fullmatch(r"tensor\((\w+)\)", text):
        return "tensor", m[1]
    if m := re.fullmatch(r"map\((\w+),(?:tensor\()?(\w+)\)?\)", text):
        return f"map({m[1]})", m[2]
    if m := re.fullmatch(r"sparse_tensor\((\w+)\)", text):
        return "sparse", m[1]
    m = re.fullmatch(r"(seq|optional)\((.*)\)", text)
    kind, dtype = kind_of(m[2])
    return (m[1] if kind == "tensor" else f"{m[1]}({kind})"), dtype


def types_of(texts):
    """{kind: sorted dtypes}"""
    found = defaultdict(set)
    for text in texts:
        kind, dtype = kind_of(text)
        found[kind].add(dtype)
    return {kind: sorted(found[kind]) for kind in sorted(found)}


def float32(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def default_of(attribute):
    if not attribute.name:
        return None
    value = onnx.helper.get_attribute_value(attribute)
    plain = lambda x: x.decode() if isinstance(x, bytes) else {"float32": float32(x)} if isinstance(x, float) else x
    return [plain(x) for x in value] if isinstance(value, list) else plain(value)


def formals_of(formals, variables, option, least, homogeneous, type_str):
    made = []
    for formal in formals:
        named = type_str(formal)
        made.append({
            "name": formal.name,
            "variable": named if named in variables else None,
            "types": variables.get(named) or types_of([named]),
            "option": option(formal),
            "least": least(formal),
            "same": homogeneous(formal),
        })
    return made


def from_onnx(schema):
    variables = {each.type_param_str: types_of(each.allowed_type_strs) for each in schema.type_constraints}
    option = lambda formal: formal.option.name.lower()
    least = lambda formal: {"single": 1, "optional": 0}.get(option(formal), formal.min_arity)
    arguments = variables, option, least, lambda f: f.is_homogeneous, lambda f: f.type_str
    return {
        "domain": schema.domain,
        "name": schema.name,
        "since": schema.since_version,
        "deprecated": schema.deprecated,
        "inputs": formals_of(schema.inputs, *arguments),
        "outputs": formals_of(schema.outputs, *arguments),
        "attributes": {name: {"type": ATTRIBUTE_TYPES[each.type.name], "required": each.required,
                              "default": default_of(each.default_value)} for name, each in sorted(schema.attributes.items())},
        "variables": dict(sorted(variables.items())),
    }  # fmt: skip


def from_runtime(schema, domain):
    variables = {name: types_of(texts) for name, texts in schema["variables"].items()}

    def formals(which, least_of_all):
        made = [SimpleNamespace(**each) for each in which]
        before = sum(each.option != "variadic" for each in made)
        least = lambda formal: {"single": 1, "optional": 0}.get(formal.option, least_of_all - before)
        return formals_of(made, variables, lambda f: f.option, least, lambda f: f.same, lambda f: f.type)

    attributes = {}
    for name, each in sorted(schema["attributes"].items()):
        held = onnx.AttributeProto.FromString(bytes.fromhex(each["default"]))
        attributes[name] = {"type": ATTRIBUTE_TYPES[each["type"]], "required": each["required"], "default": default_of(held)}
    return {
        "domain": domain,
        "name": schema["name"],
        "since": schema["since"],
        "deprecated": schema["deprecated"],
        "inputs": formals(schema["inputs"], schema["min_input"]),
        "outputs": formals(schema["outputs"], schema["min_output"]),
        "attributes": attributes,
        "variables": dict(sorted(variables.items())),
    }


def onnx_facts():
    """Those of onnx, by (domain, name, since version)."""
    schemas = onnx.defs.get_all_schemas_with_history()
    return {(schema.domain, schema.name, schema.since_version): from_onnx(schema) for schema in schemas}


def runtime_facts(python, ours):
    """What the ONNX Runtime of that Python has beside them."""
    found = {}
    done = subprocess.run([python, Path(__file__).with_name("runtime_schemas.py")], capture_output=True, check=True)
    for schema in json.loads(done.stdout):
        key = schema["domain"], schema["name"], schema["since"]
        if schema["domain"] == "com.microsoft":
            found[key] = from_runtime(schema, schema["domain"])
        elif schema["domain"] == "" and key not in ours:
            found[RUNTIME, schema["name"], schema["since"]] = from_runtime(schema, RUNTIME)
    return found


def newest_runtime():
    """The Python of an environment with the newest ONNX Runtime; runtimes.Missing if there is none."""
    return runtimes.python_of("onnxruntime", list(runtimes.ONNXRUNTIME.values())[-1])


def facts():
    """All of them: of the installed onnx, and of the newest ONNX Runtime."""
    found = onnx_facts()
    return found | runtime_facts(newest_runtime(), found)


# ---- rows ----------------------------------------------------------------------------------------------------------


def say_dtypes(dtypes):
    left, words = set(dtypes), []
    while left:
        name = max((name for name in SETS if SETS[name] <= set(dtypes)), key=lambda name: len(SETS[name] & left), default=None)
        if name is None or len(SETS[name] & left) < 3:
            break
        words.append(name)
        left -= SETS[name]
    return ",".join(words + sorted(left, key=NUMBERS.get))


def say_types(types):
    said = {kind: say_dtypes(dtypes) for kind, dtypes in types.items()}
    order = sorted(said, key=lambda kind: (kind != "tensor", kind))
    return ",".join(said[kind] if kind == "tensor" else f"{kind}[{said[kind]}]" for kind in order)


def say_formal(formal):
    mark = {"single": "", "optional": "?"}.get(formal["option"])
    if mark is None:
        mark = ("~" if not formal["same"] else "") + {0: "*", 1: "+"}.get(formal["least"], f"+{formal['least']}")
    return f"{formal['name']}:{formal['variable'] or say_types(formal['types'])}{mark}"


def say_float(bits):
    """The shortest text that is this float32."""
    x = struct.unpack("<f", struct.pack("<I", bits))[0]
    texts = (f"{x:.{digits}g}" for digits in range(1, 10))
    return next(text for text in texts if abs(float(text)) < 2.0**128 and float32(float(text)) == bits)


def say_value(value):
    if isinstance(value, list):
        return "[" + ",".join(map(say_value, value)) + "]"
    if isinstance(value, dict):
        return say_float(value["float32"])
    return str(value) if isinstance(value, int) or re.fullmatch(r"[^\s\"|]+", value) else f'"{value}"'


def say_attribute(name, attribute):
    end = "!" if attribute["required"] else ""
    if attribute["default"] is not None:
        end = "=" + say_value(attribute["default"])
    return f"{name}:{attribute['type']}{end}"


def columns(fact):
    formals = lambda which: " ".join(map(say_formal, fact[which])) or "-"
    yield f"{formals('inputs')} -> {formals('outputs')}"
    yield " ".join(say_attribute(name, each) for name, each in fact["attributes"].items()) or "-"
    yield " ".join(f"{name}={say_types(types)}" for name, types in fact["variables"].items()) or "-"


def rows(history):
    """Lines of an operator's versions in order: a column that is as in the line before is a ditto mark."""
    before = (None,) * 3
    for fact in history:
        now = tuple(columns(fact))
        said = ['"' if new == old else new for new, old in zip(now, before)]
        yield f"{fact['since']:4} | {' | '.join(said)}" + (" | deprecated" if fact["deprecated"] else "")
        before = now


def histories(facts):
    found = defaultdict(list)
    for (domain, name, _), fact in sorted(facts.items(), key=lambda item: item[0]):
        found[domain, name].append(fact)
    return found


if __name__ == "__main__":
    for (domain, name), history in histories(facts()).items():
        if name in sys.argv[1:]:
            print(f"# {domain or 'ai.onnx'}\n{name}: none")
            print("\n".join(rows(history)))
