"""Operators as tables in C: reads the *.ops files, whose language README.md describes.

    compile_schema.py -o FOLDER

writes three files into the folder. schema_table.c has the rows that schema_table.h declares; schema_rules.def one
SCHEMA_RULE(id, family, parameter) for each rule of inference that an operator has; kit_ops.def one KIT_OP(id, domain, name,
least inputs, most inputs, flags) for each operator that passes know as a number. compile_rules.py and tests read the
operators with load().
"""

import argparse
import json
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path

ATTRIBUTE_TYPES = {
    "float": 1, "int": 2, "string": 3, "tensor": 4, "graph": 5, "floats": 6, "ints": 7, "strings": 8,
    "tensors": 9, "graphs": 10, "sparse_tensor": 11, "sparse_tensors": 12, "type_proto": 13, "type_protos": 14,
}  # fmt: skip
KINDS = ("tensor", "seq", "optional", "optional(seq)", "map(int64)", "map(string)", "seq(map(int64))", "seq(map(string))", "sparse")
OPTIONS = {"single": "SCHEMA_SINGLE", "optional": "SCHEMA_OPTIONAL_ONE", "variadic": "SCHEMA_VARIADIC"}
WORDS = {"ones": "ONES", "zeros": "ZEROS", "reversed": "REVERSED"}  # defaults that only the words of an operator say
FAMILIES = ("same", "broadcast", "cast", "reduce", "matmul", "window", "move", "slice", "resize", "index", "make", "sequence", "signal",
            "control", "attention", "picked", "ml", "none")  # fmt: skip
FLAGS = ("unary", "binary", "elementwise", "commutative", "random", "withdrawn", "kit", "jumps", "unrounded", "dims", "apart")
FOR_PASSES = {"kit"}  # says nothing to who asks the schema
CHANGES = ("same", "without", "with", "zero", "one_output", "second_input", "floating", "last_axis", "explicit_pads", "sampling",
           "resize_13", "dropout_12", "ranked", "changed")  # fmt: skip
REWRITES = ("align", "attributes", "drop", "drop_if", "flatten", "inputs", "integer", "nearest", "number", "only_one", "operator",
            "per_channel", "rename", "repeats", "say", "scales", "shift", "test_mode", "vector", "words")  # fmt: skip
VARIABLES_MAX = 16  # SCHEMA_VARIABLES_MAX
ANY = 255  # inputs or outputs: no bound


class SchemaError(Exception):
    pass


@dataclass
class Formal:
    name: str
    variable: str  # "" if its types are its own
    types: dict  # kind: set of dtypes
    option: str  # single, optional, variadic
    least: int
    same: bool  # variadic: all of one type


@dataclass
class Attribute:
    name: str
    type: str
    says: bool = False  # the type of outputs
    required: bool = False
    default: object = None  # int, float, str, list
    word: str = ""  # ones, zeros, reversed


@dataclass
class Version:
    since: int
    inputs: list
    outputs: list
    attributes: list  # by name
    more: bool  # other attributes may be there too
    variables: dict
    deprecated: bool = False
    one_or_all: bool = False
    change: str = "same"
    names: list = field(default_factory=list)  # of attributes, that the change looks at
    rewrite: str = ""


@dataclass
class Operator:
    domain: str
    name: str
    rule: str
    flags: set
    versions: list


# ---- reading -----------------------------------------------------------------------------------------------------


def dtypes():
    text = (Path(__file__).resolve().parents[1] / "base" / "dtype.def").read_text()
    return {name: int(number) for number, name in re.findall(r'^DTYPE\(\w+, (\d+), "(\w+)"', text, re.M)}


DTYPES = dtypes()


def read_dtypes(words, sets):
    found = set()
    for word in words.split(","):
        if word in sets:
            found |= sets[word]
        elif word in DTYPES:
            found.add(word)
        else:
            raise SchemaError(f"'{word}' is neither a type nor a set of types")
    return found


def read_types(text, sets):
    """'floats,bool,seq[floats]' -> {"tensor": {...}, "seq": {...}}"""
    types = {}
    for m in re.finditer(r"([\w()]+)\[([^\]]*)\](?:,|$)|([\w,]+?)(?:,(?=[\w()]+\[)|$)", text):
        kind, words = (m[1], m[2]) if m[1] else ("tensor", m[3])
        if kind not in KINDS:
            raise SchemaError(f"'{kind}' is no kind of type")
        types[kind] = types.get(kind, set()) | read_dtypes(words, sets)
    if not types or None in types:
        raise SchemaError(f"'{text}' are no types")
    return types


def read_formal(text, variables, sets):
    m = re.fullmatch(r"([\w().-]+):([\w,()\[\]]+)(\?|~?(?:\*|\+\d*))?", text)
    if not m:
        raise SchemaError(f"'{text}' is no input or output")
    variable = m[2] if m[2] in variables else ""
    types = variables[variable] if variable else read_types(m[2], sets)
    mark = m[3] or ""
    if mark in ("", "?"):
        return Formal(m[1], variable, types, "optional" if mark else "single", 0 if mark else 1, True)
    same, count = mark[0] != "~", mark.lstrip("~")
    least = 0 if count == "*" else int(count[1:] or 1)
    return Formal(m[1], variable, types, "variadic", least, same)


def read_formals(text, variables, sets):
    formals = [] if text == "-" else [read_formal(word, variables, sets) for word in text.split()]
    if any(each.option == "variadic" for each in formals[:-1]):
        raise SchemaError("a variadic input or output is the last")
    return formals


def float32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def read_value(text, type):
    if type.endswith("s") and text.startswith("["):
        return [read_value(word, type[:-1]) for word in text[1:-1].split(",")]
    if type == "int":
        return int(text)
    if type == "float":
        return float32(float(text))
    if type == "string":
        return json.loads(text) if text.startswith('"') else text
    raise SchemaError(f"an attribute of type {type} has no default that could be written")


def read_attribute(text):
    m = re.fullmatch(r"(\w+):(\w+)(\^?)(!|=.*|~\w+)?", text)
    if not m or m[2] not in ATTRIBUTE_TYPES or (m[3] and m[2] not in ("int", "tensor")):
        raise SchemaError(f"'{text}' is no attribute")
    made, end = Attribute(m[1], m[2], bool(m[3])), m[4] or ""
    made.required = end == "!"
    if end.startswith("="):
        made.default = read_value(end[1:], m[2])
    elif end.startswith("~"):
        if end[1:] not in WORDS:
            raise SchemaError(f"'{end[1:]}' is no default in words")
        made.word = end[1:]
    return made


def read_attributes(text):
    words = [] if text == "-" else re.findall(r'(?:"[^"]*"|[^\s"])+', text)
    attributes = [read_attribute(word) for word in words if word != "..."]
    names = [each.name for each in attributes]
    if names != sorted(set(names)):
        raise SchemaError("attributes are in order of their names")
    return attributes, "..." in words


def read_notes(version, text):
    for note in filter(None, map(str.strip, text.split(";"))):
        note, _, version.rewrite = note.partition(" -> ")
        for step in filter(None, version.rewrite.split(", ")):
            if step.split()[0] not in REWRITES:
                raise SchemaError(f"'{step.split()[0]}' is no rewrite of a node")
        word, *names = note.split()
        if word == "deprecated":
            version.deprecated = True
        elif word == "one_or_all_outputs":
            version.one_or_all = True
        elif word in CHANGES:
            version.change, version.names = word, names
        else:
            raise SchemaError(f"'{word}' is no change of an operator")


def read_version(line, before, sets):
    since, *columns = [each.strip() for each in line.split(" | ")]
    if len(columns) not in (3, 4):
        raise SchemaError("a version has its number and three or four columns")
    said = [old if new == '"' else new for new, old in zip(columns, before)]
    variables = {}
    for word in said[2].split() if said[2] != "-" else []:
        name, _, types = word.partition("=")
        variables[name] = read_types(types, sets)
    inputs, arrow, outputs = said[0].partition("->")
    if not arrow:
        raise SchemaError("inputs and outputs have an arrow between them")
    version = Version(int(since), read_formals(inputs.strip(), variables, sets), read_formals(outputs.strip(), variables, sets),
                      *read_attributes(said[1]), variables)  # fmt: skip
    if len(variables) > VARIABLES_MAX:
        raise SchemaError(f"more than {VARIABLES_MAX} type variables")
    read_notes(version, columns[3] if len(columns) == 4 else "")
    return version, said


def lines_of(path):
    """Lines without comments, with the lines that continue them; the number of the first."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("        "):
            found[-1][1] += " " + line.strip()
        else:
            found.append([number, line])
    return found


def read_header(line, domain):
    m = re.fullmatch(r"(\w+): ([\w ]+?)(?: \| ([\w ]+))?", line)
    if not m or m[2].split()[0] not in FAMILIES:
        raise SchemaError("an operator begins with its name and its rule of inference: 'Add: broadcast'")
    flags = set((m[3] or "").split())
    if flags - set(FLAGS):
        raise SchemaError(f"no flag: {' '.join(flags - set(FLAGS))}")
    return Operator(domain, m[1], m[2], flags, [])


def load_file(path, operators, domains, sets):
    domain, before = None, None
    for number, line in lines_of(path):
        try:
            if line.startswith("types "):
                name, _, words = line[6:].partition(" = ")
                sets[name] = read_dtypes(words.replace(" ", ","), sets)
            elif line.startswith("domain "):
                _, domain, version = line.split()
                domain = "" if domain == "ai.onnx" else domain
                domains[domain] = int(version)
            elif line.startswith(" "):
                version, before = read_version(line, before, sets)
                of = operators[-1].versions
                if of and of[-1].since >= version.since or version.since > domains[domain]:
                    raise SchemaError("versions are in order, and none is newer than its domain")
                of.append(version)
            else:
                operators.append(read_header(line, domain))
                before = (None,) * 3
        except (SchemaError, ValueError, TypeError) as e:
            raise SchemaError(f"{path}:{number}: {e}") from e


def load(folder=Path(__file__).parent):
    """All operators, in order of (domain, name), and {domain: its newest version}."""
    operators, domains, sets = [], {}, {}
    for path in sorted(Path(folder).glob("*.ops"), key=lambda path: (path.name != "types.ops", path.name)):
        load_file(path, operators, domains, sets)
    operators.sort(key=lambda op: (op.domain, op.name))
    for a, b in zip(operators, operators[1:]):
        if (a.domain, a.name) == (b.domain, b.name):
            raise SchemaError(f"'{a.name}' is there twice")
    return operators, domains


# ---- what passes know as numbers ------------------------------------------------------------------------------------

KIT_DOMAINS = {"": ("ONNX", ""), "com.microsoft": ("MICROSOFT", "ms_"), "onnx_passes.ops": ("PASSES", "ops_")}


def bounds(formals):
    """Least and most inputs (or outputs) of a version: what comes after the last that must be there may be left out."""
    least = 0
    for at, each in enumerate(formals):
        if each.option != "optional":
            least = at + each.least
    return least, ANY if formals and formals[-1].option == "variadic" else len(formals)


def kit_flags(op):
    flags = []
    for word, name in (("unary", "KIT_UNARY"), ("binary", "KIT_BINARY")):
        flags += [name] * (word in op.flags)
    flags += ["KIT_ELEMENTWISE"] * bool(op.flags & {"unary", "binary", "elementwise"})
    flags += ["KIT_COMMUTATIVE"] * ("commutative" in op.flags)
    flags += ["KIT_COMPARES"] * (op.rule == "broadcast bool")
    flags += ["KIT_REDUCES"] * (op.domain == "" and op.rule == "reduce")
    flags += [f"KIT_{word.upper()}" for word in ("random", "jumps", "unrounded") if word in op.flags]
    flags += ["KIT_GRAPHS"] * any(each.type == "graph" for version in op.versions for each in version.attributes)
    return " | ".join(flags) or "0"


def kit_rows(operators):
    """(id, domain, operator, least inputs, most inputs, flags) over all versions, in the order of their numbers."""
    for domain, (word, prefix) in KIT_DOMAINS.items():
        for op in operators:
            if op.domain != domain or (domain == "com.microsoft" and "kit" not in op.flags):
                continue
            least = min(bounds(each.inputs)[0] for each in op.versions)
            most = max(bounds(each.inputs)[1] for each in op.versions)
            yield prefix + op.name, word, op, least, most, kit_flags(op)


def say_kit(operators):
    for id, domain, op, least, most, flags in kit_rows(operators):
        yield f'KIT_OP({id}, {domain}, "{op.name}", {least}, {"KIT_ANY" if most == ANY else most}, {flags})'


# ---- C ------------------------------------------------------------------------------------------------------------


def text(s):
    return json.dumps(s)


def rule_id(rule):
    return rule.replace(" ", "_")


def say_rules(operators):
    for rule in sorted({op.rule for op in operators} - {"none"}):
        family, _, parameter = rule.partition(" ")
        yield f'SCHEMA_RULE({rule_id(rule)}, "{family}", "{parameter}")'


class Lists:
    """Rows of one kind behind each other, equal runs once."""

    def __init__(self, type, name):
        self.type, self.name, self.rows, self.at = type, name, [], {}

    def add(self, rows):
        rows = tuple(rows)
        if not rows:
            return "NULL"
        if rows not in self.at:
            self.at[rows] = len(self.rows)
            self.rows += rows
        return f"{self.name} + {self.at[rows]}"

    def say(self):
        yield f"static const {self.type} {self.name}[] = {{"
        yield from (f"    {row}," for row in self.rows)
        yield "};"


def masks(types):
    return "{{" + ", ".join(f"0x{sum(1 << DTYPES[each] for each in types.get(kind, ())):x}" for kind in KINDS) + "}}"


class Writer:
    def __init__(self):
        self.types = Lists("struct schema_types", "types")
        self.ints = Lists("int64_t", "ints")
        self.strings = Lists("char *const", "strings")
        self.formals = Lists("struct schema_formal", "formals")
        self.attributes = Lists("struct schema_attribute", "attributes")
        self.variables = Lists("struct schema_variable", "variables")
        self.versions = Lists("struct schema_signature", "versions")

    def formal(self, formal, variables):
        at = list(variables).index(formal.variable) if formal.variable else "SCHEMA_NO_VARIABLE"
        types, option = self.types.add([masks(formal.types)]), OPTIONS[formal.option]
        return f"{{{text(formal.name)}, {types}, {at}, {option}, {formal.least}, {str(formal.same).lower()}}}"

    def attribute(self, each):
        head = f"{text(each.name)}, {ATTRIBUTE_TYPES[each.type]}, {str(each.required).lower()}, {str(each.says).lower()}"
        if each.word:
            return f"{{{head}, SCHEMA_{WORDS[each.word]}, 0, {{0}}}}"
        value = each.default
        if value is None:
            return f"{{{head}, SCHEMA_NO_DEFAULT, 0, {{0}}}}"
        if isinstance(value, int):
            return f"{{{head}, SCHEMA_INT, 0, {{.i = {value}}}}}"
        if isinstance(value, float):
            return f"{{{head}, SCHEMA_FLOAT, 0, {{.f = {value.hex()}f}}}}"
        if isinstance(value, str):
            return f"{{{head}, SCHEMA_STRING, 0, {{.s = {text(value)}}}}}"
        if each.type == "ints":
            return f"{{{head}, SCHEMA_INTS, {len(value)}, {{.ints = {self.ints.add(map(str, value))}}}}}"
        if each.type == "strings":
            return f"{{{head}, SCHEMA_STRINGS, {len(value)}, {{.strings = {self.strings.add(map(text, value))}}}}}"
        raise SchemaError(f"'{each.name}': no default of this kind can be written")

    def version(self, version):
        n = version.variables
        inputs = self.formals.add(self.formal(each, n) for each in version.inputs)
        outputs = self.formals.add(self.formal(each, n) for each in version.outputs)
        attributes = self.attributes.add(self.attribute(each) for each in version.attributes)
        variables = self.variables.add(f"{{{text(name)}, {self.types.add([masks(types)])}}}" for name, types in n.items())
        least_in, most_in = bounds(version.inputs)
        least_out, most_out = bounds(version.outputs)
        return (f"{{{version.since}, {len(version.inputs)}, {len(version.outputs)}, {len(version.attributes)}, {len(n)}, "
                f"{least_in}, {most_in}, {least_out}, {most_out}, {str(version.one_or_all).lower()}, "
                f"{str(version.deprecated).lower()}, {str(version.more).lower()}, CHANGE_{version.change}, {inputs}, {outputs}, {attributes}, {variables}, "
                f"{text(' '.join(version.names))}, {text(version.rewrite)}}}")  # fmt: skip

    def operator(self, op):
        flags = [f"SCHEMA_{flag.upper()}" for flag in FLAGS if flag in op.flags and flag not in FOR_PASSES]
        if op.flags & {"unary", "binary"}:
            flags.append("SCHEMA_ELEMENTWISE")
        versions = self.versions.add(map(self.version, op.versions))
        return (f"{{{text(op.domain)}, {text(op.name)}, {versions}, {len(op.versions)}, "
                f"{' | '.join(flags) or '0'}, SCHEMA_RULE_{rule_id(op.rule)}}}")  # fmt: skip


def say_table(operators, domains):
    writer = Writer()
    rows = [writer.operator(op) for op in operators]
    yield "// Made by compile_schema.py from src/schema/*.ops."
    yield '#include "schema/inside/schema_table.h"'
    for each in (writer.types, writer.ints, writer.strings, writer.formals, writer.attributes, writer.variables, writer.versions):
        yield ""
        yield from each.say()
    yield "\nconst struct schema_operator schema_operators[] = {"
    yield from (f"    {row}," for row in rows)
    yield f"}};\nconst uint32_t schema_n_operators = {len(rows)};"
    yield "\nconst struct schema_domain schema_domains[] = {"
    yield from (f"    {{{text(domain)}, {version}}}," for domain, version in sorted(domains.items()))
    yield f"}};\nconst uint32_t schema_n_domains = {len(domains)};"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("-o", required=True)
    folder = Path(p.parse_args().o)
    try:
        operators, domains = load()
        (folder / "schema_table.c").write_text("\n".join(say_table(operators, domains)) + "\n")
        (folder / "schema_rules.def").write_text("\n".join(say_rules(operators)) + "\n")
        (folder / "kit_ops.def").write_text("\n".join(say_kit(operators)) + "\n")
    except SchemaError as e:
        raise SystemExit(f"error: {e}") from None


if __name__ == "__main__":
    main()
