#!/usr/bin/env python3
"""Writes the modules of the Python package that are made when a wheel is:

    generate.py TABLES SCHEMAS PACKAGE

    _commands.py   a function for each command of TABLES (weir --generate json)
    documents.py   a dataclass for each object of the documents in the folder SCHEMAS (docs/schema)
    _version.py

A command's document has the schema of its name; commands without one write a model, and their document is the report.
The schema COMMAND-FLAG.json is that of the command with that flag. A document of several forms (anyOf) is a class of the last
of them; in another form the members that it lacks are None or empty. A command that takes any number of models writes a
document for each, one a line. Options whose group is "Messages", and those that cannot be given together with --json,
say what people see on a terminal: they are no keywords, but for --progress, which is a callable here.
"""

import builtins
import json
import keyword
import re
import sys
import textwrap
from pathlib import Path

WIDTH = 120
PROGRESS = "progress: called with a weir.Progress when a piece of work begins, once a second, and when it ends"
# Those of common.json whose numbers may come as strings.
NUMBERS = {"count": "int", "figure": "float", "setting": "Any"}
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
OPERANDS = {"IN": "input", "OUT": "output", "DIR": "folder", "SRC": "source"}
NAMES = {"NAME", "TARGET"}  # operands that are no paths
HEAD = '"""{}\n\nMade by packaging/python/generate.py when the package was built.\n"""\n\nfrom __future__ import annotations\n\n'


def capital(word):
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", word))


def singular(word):
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def identifier(word):
    name = re.sub(r"\W", "_", word)
    return name + "_" if keyword.iskeyword(name) else name


def wrapped(text, indent, first=None):
    first = indent if first is None else first
    how = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=indent, **how)


def docstring(lines, indent):
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'{indent}"""{text.lstrip()}\n{indent}"""\n'


# ---- documents --------------------------------------------------------------------------------------------------------


def without_descriptions(schema):
    if isinstance(schema, dict):
        return {k: without_descriptions(v) for k, v in schema.items() if k != "description" or not isinstance(v, str)}
    return [without_descriptions(each) for each in schema] if isinstance(schema, list) else schema


def literal(value):
    return json.dumps(value) if isinstance(value, str) else repr(value)


def function(make):
    """The expression as a function."""
    if make == "{}":
        return "same"
    return make[: -len("({})")] if re.fullmatch(r"[\w.]+\(\{\}\)", make) else f"lambda x: {make.format('x')}"


class Documents:
    """Classes for the objects of schemas. What a value is made by is an expression over {}."""

    def __init__(self, schemas):
        self.schemas = schemas
        self.shared = schemas["common"]["$defs"]
        self.classes = {}  # name: source
        self.of_shape = {}  # the text of a schema without its descriptions: name

    def type_of(self, schema, path):
        """The annotation of what is found at a path of names, and the expression that makes one of {}."""
        if "$ref" in schema:
            target = schema["$ref"].rsplit("/", 1)[1]
            if target in NUMBERS:
                return NUMBERS[target], target + "({})"
            clash = hasattr(builtins, capital(target))  # Warning
            return self.type_of(self.shared[target], ("reported", target) if clash else (target,))
        if "anyOf" in schema:
            return self.either(schema["anyOf"], path)
        if "const" in schema or "enum" in schema:
            return f"Literal[{', '.join(map(literal, schema.get('enum') or [schema['const']]))}]", "{}"
        kind = schema.get("type")
        if isinstance(kind, list) and set(kind) <= set(PLAIN):
            return f"Union[{', '.join(PLAIN[k] for k in kind)}]", "{}"
        if kind == "object" and "properties" in schema:
            name = self.class_of(schema, path)
            return name, name + "._from({})"
        if kind == "object":
            inner = schema.get("additionalProperties")
            of, make = self.type_of(inner, path) if isinstance(inner, dict) else ("Any", "{}")
            return f"Dict[str, {of}]", f"by_name({function(make)}, {{}})"
        if kind == "array" and isinstance(schema.get("items"), dict):
            of, make = self.type_of(schema["items"], (*path[:-1], path[-1] + "[]"))
            return f"List[{of}]", f"each({function(make)}, {{}})"
        return PLAIN[kind] if isinstance(kind, str) and kind in PLAIN else "Any", "{}"

    def either(self, schemas, path):
        others = [each for each in schemas if each.get("type") != "null"]
        types = [self.type_of(each, path) for each in others]
        if len(types) == 1:
            [(of, make)] = types
            return (of, make) if others == schemas else (f"Optional[{of}]", f"maybe({function(make)}, {{}})")
        if ("int", "count({})") in types and all(make in ("count({})", "{}") for _, make in types):
            return f"Union[{', '.join(of for of, _ in types)}]", "count_or_word({})"
        return "Any", "{}"

    def class_of(self, schema, path):
        """Objects of one shape share a class, which has the name of the first of them."""
        text = json.dumps(without_descriptions(schema), sort_keys=True)
        if text not in self.of_shape:
            name = "".join(capital(singular(part[:-2]) if part.endswith("[]") else part) for part in path)
            assert name not in self.classes, f"two different objects are named {name}"
            self.of_shape[text] = name
            at = f"``{'.'.join(path[1:])}`` of {path[0]}.json" if len(path) > 1 and path[0] in self.schemas else path[-1]
            self.add_class(name, schema, path, schema.get("description") or at)
        return self.of_shape[text]

    def add_class(self, name, schema, path, about):
        fields, makes, notes = [], [], []
        top = len(path) == 1 and path[0] in self.schemas
        forms = schema.get("anyOf", [])
        of_a_form = forms[-1]["required"] if forms else []
        required = [*schema.get("required", []), *of_a_form]
        for key, each in schema["properties"].items():
            if top and key in ("schema", "error"):  # the form of the document, and what an exception says
                continue
            of, make = self.type_of(each, (*path, key))
            # A report in the form of another tool (--strict-compat) lacks numbers and words that ours always has.
            value, attribute = f"get({json.dumps(key)})", identifier(key)
            if make.endswith("._from({})") and key in of_a_form:
                make = f"of_a_form({function(make)}, {{}})"
            elif make.endswith("._from({})") and key in required:
                value = f"raw[{json.dumps(key)}]"
            if key not in required:
                if not of.startswith(("List[", "Dict[", "Optional[")) and of != "Any":
                    of, make = f"Optional[{of}]", make if make == "{}" else f"maybe({function(make)}, {{}})"
            fields.append(f"    {attribute}: {of}\n")
            makes.append(f"            {attribute}={make.format(value)},\n")
            if each.get("description"):
                notes.append(wrapped(f"{attribute}: {each['description']}", "        ", "    "))
        about = wrapped(about[:1].upper() + about[1:] + ".", "    ", "")
        self.classes[name] = (
            f"@dataclass(frozen=True, repr=False)\nclass {name}({'Told' if path == ('report',) else 'Document' if top else 'Record'}):\n"
            + (docstring([about, "", *notes], "    ") if notes else f'    """{about}"""\n')
            + "\n"
            + "".join(fields)
            + f"\n    @classmethod\n    def _from(cls, raw: Dict[str, Any]) -> {name}:\n"
            + "        get: Any = raw.get\n        return cls(\n            raw=raw,\n"
            + "".join(makes)
            + "        )\n"
        )

    def source(self):
        for stem, schema in sorted(self.schemas.items()):
            if stem not in ("common", "error", "tables") and "properties" in schema:  # else it is of the lines of a file
                self.add_class(capital(stem), schema, (stem,), schema["title"])
        names = sorted(self.classes)
        return (
            HEAD.format("The documents that weir writes, as dataclasses: what functions return.")
            + "from dataclasses import dataclass\nfrom typing import Any, Dict, List, Literal, Optional, Union\n\n"
            + "from ._record import Document, Record, Told, by_name, count, count_or_word, each, figure, maybe, of_a_form, same, setting\n\n"
            + "__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n\n\n"
            + "\n\n".join(self.classes.values())
        )


# ---- commands ---------------------------------------------------------------------------------------------------------


def is_for_people(option):
    return option["name"] != "progress" and (option["group"] == "Messages" or "json" in option["excludes"])


def takes_samples(option):
    return option["metavar"] is not None and option["metavar"].startswith("FILE|DIR")


def words_type(words):
    return f"Literal[{', '.join(word if word.isdigit() else json.dumps(word) for word in words)}]"


def option_type(option):
    kind = option["kind"]
    if kind == "flag":
        return ("Optional[bool]", "None") if option["takes_false"] else ("bool", "False")
    if kind == "maybe":
        return f"Union[bool, None, {words_type(option['choices'])}]", "None"
    if kind == "choice":
        of = words_type(option["choices"])
    elif takes_samples(option):
        of = "ManySamples" if kind == "list" else "Samples"
    elif kind in ("file", "stream", "folder"):
        of = "StrPath"
    elif kind == "list" and option["metavar"] == "N":
        of = "Union[int, str, Sequence[Union[int, str]]]"
    elif kind == "list":
        of = "Union[str, Sequence[str]]"
    elif kind == "size" or option["metavar"] == "SIZE":
        of = "Union[int, str]"
    elif option["metavar"] == "X":
        of = "Union[float, str]"
    else:
        of = "int" if kind in ("count", "number") else "str"
    return (of, None) if option["required"] else (f"Optional[{of}]", "None")


class Command:
    def __init__(self, row, schemas):
        self.row = row
        self.name = identifier(row["name"])
        self.operands = [{**each, "python": self.operand_name(each)} for each in row["operands"]]
        # An option that stands for an operand (-o for OUT) is that operand.
        taken = {each["python"] for each in self.operands}
        self.options = [o for o in row["options"] if not is_for_people(o) and o["name"] != "progress"]
        same = [o["name"] for o in self.options if identifier(o["name"]) in taken]
        assert same in ([], ["output"]), f"{row['name']}: an operand and an option are both named {same}"
        self.options = [o for o in self.options if o["name"] not in same]
        self.progress = any(o["name"] == "progress" for o in row["options"])
        self.lines = any(each["repeated"] for each in self.operands)
        self.document = row["name"] if row["name"] in schemas else "report"
        switched = {o["name"]: f"{row['name']}-{o['name']}" for o in self.options}
        self.switched = {flag: document for flag, document in switched.items() if document in schemas}

    @staticmethod
    def operand_name(operand):
        first = operand["name"].split("|")[0]
        name = OPERANDS.get(first, identifier(first.lower()))
        return name + "s" if operand["repeated"] else name

    def parameters(self, switch=None, value="bool"):
        """`switch`: the flag that has another document, here known to be `value`."""
        lines = []
        for operand in self.operands:
            of = "str" if operand["name"] in NAMES else "StrPath"
            of = f"Union[{of}, Sequence[{of}]]" if operand["repeated"] else of
            lines.append(f"{operand['python']}: " + (f"Optional[{of}] = None" if operand["optional"] else of))
        if self.options or self.progress:
            lines.append("*")
        for option in self.options:
            of, default = option_type(option)
            if option["name"] == switch and value != "bool":
                of, default = f"Literal[{value}]", None if value == "True" else default
            lines.append(f"{identifier(option['name'])}: {of}" + (f" = {default}" if default else ""))
        if self.progress:
            lines.append("progress: Optional[Callable[[Progress], object]] = None")
        return "".join(f"    {line},\n" for line in lines)

    def returned(self, document=None):
        name = capital(document or self.document)
        return f"List[{name}]" if self.lines else name

    def in_python(self, text):
        """Flags that are keywords here, by the names that they have here."""
        known = {o["name"] for o in self.options}
        return re.sub(r"--([a-z0-9-]+)", lambda m: identifier(m[1]) if m[1] in known else m[0], text)

    def doc(self):
        row = self.row
        lines = [row["summary"][:1].upper() + row["summary"][1:] + ".", "", wrapped(self.in_python(row["about"]), "    ")]
        lines += ["", "    Keyword arguments:"]
        for option in self.options:
            short, _, long = self.in_python(option["help"]).partition("\n")
            note = f"{identifier(option['name'])}: {short}"
            if takes_samples(option):
                note += "; or dicts of arrays by the names of inputs, in a sequence, a generator or a reader with get_next"
            elif option["kind"] == "list":
                note += "; one, or a sequence of them"
            if option["default"] and option["default"] != "default":
                note += f" (default: {option['default']})"
            if long:
                note += ". " + long
            lines.append(wrapped(note, "            ", "        "))
        if self.progress:
            lines.append(wrapped(PROGRESS, "            ", "        "))
        if lines[-1].endswith("Keyword arguments:"):
            lines[-2:] = []
        lines += ["", "    On the command line:"]
        for example in row["examples"]:
            lines.append(f"        $ {example['line']}")
            lines.append(wrapped(example["why"], "            "))
        return docstring(lines, "    ")

    @staticmethod
    def given_operand(operand):
        name = operand["python"]
        return f'several("{name}", {name})' if operand["repeated"] else name

    def given(self, option):
        """A flag that a target may have set is taken back by the word false."""
        name = identifier(option["name"])
        if option["kind"] == "maybe":
            return f'flag_or_word("{name}", {name})'
        if takes_samples(option):
            most = [f"samples or {o['default']}" for o in self.options if o["name"] == "samples"]
            return f"given_samples({', '.join([json.dumps(name), name, str(option['kind'] == 'list'), *most])})"
        if option["kind"] == "list":
            return f'several("{name}", {name})'
        if option["kind"] != "flag":
            return name
        return f'flag("{name}", {name}, Flag("false"))' if option["takes_false"] else f'flag("{name}", {name})'

    def source(self):
        text = ""
        for flag, document in self.switched.items():
            usual, other = self.returned(), self.returned(document)
            for value, made in (("False", usual), ("True", other), ("bool", f"Union[{usual}, {other}]")):
                text += f"@overload\ndef {self.name}(\n{self.parameters(flag, value)}) -> {made}: ...\n"
        made = [self.returned(), *(self.returned(each) for each in self.switched.values())]
        text += f"def {self.name}(\n{self.parameters()}) -> {made[0] if len(made) == 1 else 'Any'}:\n{self.doc()}"
        operands = ", ".join(f'"{each["python"]}": {self.given_operand(each)}' for each in self.operands)
        text += f"    operands: Operands = {{{operands}}}\n    options: Options = {{\n"
        text += "".join(f"        {json.dumps(o['name'])}: {self.given(o)},\n" for o in self.options) + "    }\n"
        make = f"{capital(self.document)}._from"
        for flag, document in self.switched.items():
            text += f"    make: Any = {capital(document)}._from if {identifier(flag)} else {make}\n"
            make = "make"
        more = ", progress, tells_progress=True" if self.progress else ""
        if self.lines:
            return text + f"    return call({make}, {json.dumps(self.row['name'])}, operands, options{more}, lines=True)\n"
        return text + f"    return call({make}, {json.dumps(self.row['name'])}, operands, options{more})[0]\n"


def commands_source(tables, schemas):
    commands = [Command(row, schemas) for row in tables["commands"]]
    documents = sorted({capital(d) for c in commands for d in [c.document, *c.switched.values()]} | {"File", "Progress"})
    return (
        HEAD.format("A function for each command, and the documents that they return.")
        + "from typing import Any, Callable, List, Literal, Mapping, Optional, Sequence, Union, overload\n\n"
        + "from ._run import Flag, Operand, Option, call, flag, flag_or_word, several\n"
        + "from ._samples import ManySamples, Samples, StrPath, given_samples\n"
        + f"from .documents import {', '.join(documents)}\n\n"
        + "Operands = Mapping[str, Operand]\nOptions = Mapping[str, Option]\n\n"
        + "__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted([*(c.name for c in commands), *documents])) + "]\n\n\n"
        + "\n\n".join(command.source() for command in commands)
    )


def main():
    tables_file, schemas_folder, package = map(Path, sys.argv[1:])
    tables = json.loads(tables_file.read_text())
    schemas = {path.stem: json.loads(path.read_text()) for path in sorted(schemas_folder.glob("*.json"))}
    (package / "documents.py").write_text(Documents(schemas).source())
    (package / "_commands.py").write_text(commands_source(tables, schemas))
    head = HEAD.format("The version of the program that this package was built with.")
    (package / "_version.py").write_text(head + f"__version__ = {json.dumps(tables['version'])}\n")


if __name__ == "__main__":
    main()
