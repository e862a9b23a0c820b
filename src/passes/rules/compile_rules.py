#!/usr/bin/env python3
"""Compiles *.rules (the language: README.md beside this file) into one C file of constant tables (rules_tables.h).

    compile_rules.py --schema FOLDER --functions rules_functions.def --name BOOK -o OUT.c FILE.rules...

FOLDER has the tables of operators (*.ops) and what reads them, compile_schema.py.

Three steps, from top to bottom of this file: reading (text to statements to trees), checking (every name bound, every
type right, every operator known), and writing (programs of 16-bit words and the tables around them). That rewriting ends,
and that no rule rounds before a jump, is proven by the compiler in C alone, of these files as of users'. Templates are
kept: a rule `for F in Add Mul` is one program with a table of two rows, and `{F}` a column of it. Every error is one line,
`FILE:LINE: what is wrong`, followed by the rule's text, and the exit code is 1.
"""

import argparse
import itertools
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

LEVELS = ["exact", "zero", "rounding", "finite"]
SIGNS = {"=": "exact", "=0": "zero", "~": "rounding", "!": "finite"}
LITERAL = re.compile(r"-?\d+(\.\d+)?$|-?inf$|true$|false$|ones$")
NONE = 0xFFFF  # of a word that names nothing
COLUMN = 0x8000  # a word with this bit is a column of the rule's table
HERE = 255  # the operand of `each` that is being looked at


class RulesError(Exception):
    """What is wrong with a rule, to be reported at its place."""


# ---- reading -----------------------------------------------------------------------------------------------------


@dataclass
class Rule:
    """One statement. `names` and operators may hold {X}; `rows` says what X is in each row."""

    file: str
    line: int
    text: str
    keys: list
    names: list
    summary: str
    level: int
    rows: list
    pattern: tuple = None
    result: tuple = None
    where: tuple = None
    since: int = 0
    once: bool = False
    types: dict = field(default_factory=dict)


@dataclass
class Book:
    rules: list = field(default_factory=list)
    codes: list = field(default_factory=list)  # passes that are C: (name, what, keys)
    lists: dict = field(default_factory=dict)
    spell: dict = field(default_factory=dict)


def statements(text):
    """(line, text) of what stands before each semicolon, comments taken out."""
    text = re.sub(r'"[^"\n]*"|#(?=\s|$|#)[^\n]*', lambda m: m[0] if m[0][0] == '"' else "", text)
    at, line, quoted, start = 0, 1, False, None
    for i, c in enumerate(text):
        quoted ^= c == '"'
        if start is None and not c.isspace():
            start = line
        if c == ";" and not quoted:
            yield start, " ".join(text[at:i].split())
            at, start = i + 1, None
        line += c == "\n"
    if text[at:].strip():
        raise RulesError(f"the last statement does not end with ';'", start)


def rows_of(head, lists):
    """Takes every `for A/B in …` out of the head: (the rest, a dict for each combination)."""
    loops = []
    while True:
        m = re.search(r"\bfor\s+([\w/]+)\s+in\s+(.*?)(?=\s+for\s|$)", head)
        if not m:
            break
        names, words = m[1].split("/"), []
        for word in m[2].split():
            if word.startswith("$") and word[1:] not in lists:
                raise RulesError(f"list '{word[1:]}' does not exist")
            words += lists[word[1:]] if word.startswith("$") else [word]
        for word in words:
            if word.count("/") + 1 != len(names):
                raise RulesError(f"'{word}' does not fit 'for {m[1]}'")
        loops.append([dict(zip(names, ["" if w == '""' else w for w in word.split("/")])) for word in words])
        head = head[: m.start()] + head[m.end() :]
    return head, [{k: v for part in combo for k, v in part.items()} for combo in itertools.product(*loops)]


def fill(text, row):
    """The text with {X} put in."""

    def value(m):
        if m[1] not in row:
            raise RulesError(f"'{{{m[1]}}}' is undefined: there is no 'for {m[1]}'")
        return row[m[1]]

    return re.sub(r"\{(\w+)\}", value, text)


def read(path, book):
    keys = []
    try:
        for line, text in statements(Path(path).read_text()):
            try:
                keys = read_statement(book, Path(path).name, line, text, keys)
            except RulesError as e:
                raise RulesError(f"{Path(path).name}:{line}: {e.args[0]}\n  {text}") from None
    except RulesError as e:
        if len(e.args) == 2:
            raise RulesError(f"{Path(path).name}:{e.args[1]}: {e.args[0]}") from None
        raise


def read_statement(book, file, line, text, keys):
    word = text.split(" ", 1)[0]
    if word == "ops":
        name, _, words = text[4:].partition("=")
        book.lists[name.strip()] = [x for w in words.split() for x in (book.lists[w[1:]] if w[0] == "$" else [w])]
    elif word == "spell":
        before, after = text.split()[1:]
        book.spell[before] = after
    elif word == "set":
        keys = text.split()[1:]
    else:
        read_rule(book, file, line, text, keys)
    return keys


def read_rule(book, file, line, text, keys):
    m = re.match(r'((?:"[^"]*"|::|[^:])*?)\s*:(?!:)\s*(.*)$', text)
    if not m:
        raise RulesError("a rule needs a ':'")
    head, body = m[1], m[2]
    kind = re.match(r"(proc|group)\s+(.+)$", body)
    level = re.search(r"(?:^|\s)(exact|zero|rounding|finite|=0|=|~|!)$", head)
    if level:
        head = head[: level.start()]
    elif not kind:
        raise RulesError("the exactness of the rule is missing: write exact, zero, rounding or finite before the ':'")
    summary = re.search(r'\s"([^"]*)"(?=\s+for\s|$)', head)
    if summary:
        head = head[: summary.start()] + head[summary.end() :]
    head, rows = rows_of(head, book.lists)
    names = head.split()
    if not names or any(not re.match(r"[A-Za-z{][\w/{}-]*$", n) for n in names):
        raise RulesError(f"'{head.strip()}' is not a name")
    if kind:
        book.codes += [(fill(n, r), kind[1], keys) for n in names for r in rows]
        return
    if len(names) != 1:
        raise RulesError("a rule has one name")
    sign = level[1]
    rule = Rule(file, line, text, keys, names, summary[1] if summary else "", LEVELS.index(SIGNS.get(sign, sign)), rows)
    Parser(rule, body, book).body()
    book.rules.append(rule)


TOKEN = re.compile(
    r"\s*(?:(\"[^\"]*\")|(->|\.\.\.|::|\?\?|==|!=|<=|>=)|((?:[A-Za-z_]|\{\w+\})(?:\w|\{\w+\})*)|(\d+(?:\.\d+)?)|(\S))"
)


class Parser:
    """Recursive descent over the body of a rule. Trees are tuples, their first element says what they are:

    patterns     var N · opt N · any · lit W N? · alt [P] · op DOM OP {attr: P} STAR [P] OUT · rest N · each N P
    expressions  name N · num X · word W (literals) · text S · list [E] · call F [E] · not E · and/or E E · cmp OP E E
                 index E E · slice E E? E? · ifelse C A B · else A B · field N N · splat N · ints E · op (with E) · for N N E · set E N
    """

    def __init__(self, rule, body, book):
        self.rule, self.book = rule, book
        self.tokens = [m[m.lastindex] for m in TOKEN.finditer(body)]
        self.at = 0

    def peek(self, k=0):
        return self.tokens[self.at + k] if self.at + k < len(self.tokens) else ""

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def eat(self, token):
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def need(self, token):
        if not self.eat(token):
            found = f"'{self.peek()}'" if self.peek() else "the end"
            raise RulesError(f"'{token}' is expected before {found}, after '{' '.join(self.tokens[max(0, self.at - 4) : self.at])}'")

    def name(self):
        word = self.next()
        if not re.match(r"[A-Za-z_]\w*$", word):
            raise RulesError(f"a name is expected, not '{word}'")
        return word

    def body(self):
        r = self.rule
        r.pattern = self.pattern()
        if r.pattern[0] != "op":
            raise RulesError("a pattern begins with an operator")
        self.need("->")
        r.result = self.term()
        for word in ("where", "mend"):
            if self.eat(word):
                e = self.expression()
                r.where = ("and", r.where, e) if r.where else e
        if self.eat("since"):
            r.since = int(self.next())
        r.once = self.eat("once")
        if self.peek():
            raise RulesError(f"'{self.peek()}' is not expected here")

    # An operator's name, and what stands between < and >.
    def operator(self, value):
        word, domain = self.next(), ""
        if self.eat("::"):
            domain, word = word, self.next()
        attrs, star = {}, None
        if self.eat("<"):
            while not self.eat(">"):
                if self.eat("*"):
                    star = self.name() if re.match(r"\w+$", self.peek()) else "*"
                else:
                    key = self.name()
                    self.need("=")
                    attrs[key] = value()
                if self.peek() != ">":
                    self.need(",")
        self.need("(")
        return domain, word, attrs, star

    def output(self):
        return self.name() if self.eat("@") else None

    def attribute(self):
        if self.peek() == "-" or re.match(r"\d", self.peek()):
            sign = "-" if self.eat("-") else ""
            return ("num", float(sign + self.peek()) if "." in self.peek() else int(sign + self.peek()), self.next())[:2]
        if self.peek().startswith('"'):
            return ("text", self.next()[1:-1])
        name = self.name()
        return ("none",) if name == "none" else ("var", name)

    def pattern(self):
        if self.eat("("):
            choices = [self.pattern()]
            while self.eat("|"):
                choices.append(self.pattern())
            self.need(")")
            return ("alt", choices)
        if self.peek() == "-" or LITERAL.match(self.peek()):
            word = ("-" if self.eat("-") else "") + self.next()
            return ("lit", word, self.output())
        if is_operator(self.peek(), self.peek(1)):
            domain, op, attrs, star = self.operator(self.attribute)
            args = []
            while not self.eat(")"):
                if self.peek() == "each" and self.peek(2) == ":":
                    self.next()
                    name = self.name()
                    self.need(":")
                    args.append(("each", name, self.pattern()))
                else:
                    args.append(self.pattern())
                if self.peek() != ")":
                    self.need(",")
            for a in args[:-1]:
                if a[0] in ("rest", "each"):
                    raise RulesError("only the last operand may be 'xs...' or 'each'")
            return ("op", domain, op, attrs, star, args, self.output())
        word = self.next()
        if re.match(r"\{\w+\}$", word):
            return ("lit", word, self.output())
        if word == "_":
            return ("any",)
        if not re.match(r"[a-z_]\w*$", word):
            raise RulesError(f"'{word}' is not allowed in a pattern")
        return ("rest", word) if self.eat("...") else ("opt", word) if self.eat("?") else ("var", word)

    # Expressions, from what binds least. A term is one whose value is a tensor.
    def term(self):
        if self.peek() == "each":
            self.next()
            name = self.name()
            self.need("in")
            of = self.name()
            self.need(":")
            return ("for", name, of, self.term())
        return self.expression()

    def expression(self):
        e = self.choice()
        if self.eat("?"):
            a = self.term()
            self.need(":")
            return ("ifelse", e, a, self.term())
        if self.eat("if"):
            c = self.choice()
            self.need("else")
            return ("ifelse", c, e, self.expression())
        if self.eat("??"):
            return ("else", e, self.term())
        return e

    def binary(self, below, sign, kind):
        e = below()
        while self.eat(sign):
            e = (kind, e, below())
        return e

    def choice(self):
        return self.binary(self.both, "|", "or")

    def both(self):
        return self.binary(self.compare, "&", "and")

    def compare(self):
        e = self.unary()
        if self.peek() in ("==", "!=", "<", "<=", ">", ">=", "in"):
            return ("cmp", self.next(), e, self.unary())
        if self.peek() == "not" and self.peek(1) == "in":
            self.at += 2
            return ("not", ("cmp", "in", e, self.unary()))
        if self.eat("is"):
            negated = self.eat("not")
            same = ("call", "is", [e, self.unary()])
            return ("not", same) if negated else same
        return e

    def unary(self):
        if self.eat("!"):
            return ("not", self.unary())
        if self.eat("-"):
            word = self.next()
            if word == "inf":
                return ("word", "-inf")
            if not re.match(r"\d", word):
                raise RulesError(f"a number is expected after '-', not '{word}'")
            return ("num", -number(word))
        if self.eat("#"):
            return ("ints", self.unary())
        if self.eat("*"):
            return ("splat", self.name())
        e = self.primary()
        while self.peek() in ("[", ".", "@"):
            if self.eat("["):
                e = self.brackets(e)
            elif self.eat("."):
                if e[0] != "name":
                    raise RulesError("only an element of 'each' has fields")
                e = ("field", e[1], self.name())
            else:
                self.next()
                e = ("set", e, self.name())
        return e

    def brackets(self, e):
        first = None if self.peek() == ":" else self.expression()
        if self.eat("]"):
            return ("index", e, first)
        self.need(":")
        last = None if self.peek() == "]" else self.expression()
        self.need("]")
        return ("slice", e, first, last)

    def primary(self):
        word = self.peek()
        if self.eat("("):
            e = self.expression()
            self.need(")")
            return e
        if self.eat("["):
            items = []
            while not self.eat("]"):
                items.append(self.expression())
                if self.peek() != "]":
                    self.need(",")
            return ("list", items)
        if is_operator(word, self.peek(1)):
            domain, op, attrs, star = self.operator(self.attribute_value)
            return ("op", domain, op, attrs, star, self.arguments(), None)
        self.next()
        if word.startswith('"'):
            return ("text", word[1:-1])
        if re.match(r"\d", word):
            return ("num", number(word))
        if word in ("inf", "true", "false", "ones") or re.match(r"\{\w+\}$", word):
            return ("word", word)
        if not re.match(r"[a-z_]\w*$", word):
            raise RulesError(f"'{word}' is not expected here" if word else "the rule ends too early")
        if self.eat("("):
            return ("call", word, self.arguments())
        return ("name", word)

    def attribute_value(self):
        # > ends the list, so a comparison needs parentheses here.
        e = self.unary()
        if self.eat("if"):
            c = self.unary()
            self.need("else")
            return ("ifelse", c, e, self.unary())
        return e

    def arguments(self):
        args = []
        while not self.eat(")"):
            args.append(self.term())
            if self.peek() != ")":
                self.need(",")
        return args


def number(word):
    return float(word) if "." in word else int(word)


def is_operator(word, behind):
    return behind in ("(", "<", "::") and (word[:1].isupper() or word[:1] == "{" or behind == "::")


def walk(tree):
    """Every tuple in a tree, itself included, from the outside in."""
    if isinstance(tree, tuple):
        yield tree
        for x in tree[1:]:
            yield from walk(x)
    elif isinstance(tree, list):
        for x in tree:
            yield from walk(x)
    elif isinstance(tree, dict):
        for x in tree.values():
            yield from walk(x)


# ---- checking ----------------------------------------------------------------------------------------------------


class Schema:
    """What the compiler knows of operators and functions: read from the tables that C is made of too.

    An operator is written as the kit calls it: ops::Silu is its ops_Silu. Its floor is the version since which it
    has meant what it means now, types and additions aside: nodes of an older version are not what a rule speaks of. Where
    types of integers were taken away since, that is the version since which it has meant this of floats (real_floors).
    """

    def __init__(self, schema, functions):
        sys.path.insert(0, str(schema))
        import compile_schema

        self.numbers, self.floors, self.functions, self.most = {"": 0}, [0], {}, [0]
        self.commutes = set()
        self.least, self.written = [0], [""]
        self.real_floors = [0]
        for name, domain, op, least, most, _ in compile_schema.kit_rows(compile_schema.load(schema)[0]):
            self.numbers[name] = len(self.numbers)
            history = op.versions if domain == "ONNX" else []
            first = history[0].since if history else 0
            changed = [first] + [each.since for each in history if each.change != "same"]
            self.floors.append(max(changed))
            self.real_floors.append(max([first] + [each.since for each in history if each.change not in ("same", "floating")]))
            self.most.append(most)
            self.least.append(least)
            self.written.append(op.name)
            if "commutative" in op.flags:
                self.commutes.add(name)
        for m in re.finditer(r'^RULES_FUNCTION\((\w+), "([^"]*)", "(\w)"\)', Path(functions).read_text(), re.M):
            self.functions[m[1]] = (m[2], m[3])

    def op(self, domain, op):
        name = f"{domain}_{op}" if domain else op
        if name not in self.numbers or not name:
            raise RulesError(f"there is no operator '{domain + '::' if domain else ''}{op}'")
        return self.numbers[name]


# Kinds of names and expressions: v tensor · V several tensors · E elements of 'each' · e one of them · a attribute (number, list or text)
# i number · l list · b truth · w literal · s text · t a tensor that is built
FITS = {"v": "v", "V": "vV", "t": "vt", "a": "ailbws", "i": "aib", "l": "al", "b": "ailbvte", "w": "aiw", "s": "as", "E": "E", "?": "vVEeailbwst"}


def check(rule, schema):
    types = {}
    bind_types(rule.pattern, types, schema, rule)
    rule.types = types
    if rule.where:
        want(rule, schema, rule.where, "b", dict(types))
    want(rule, schema, rule.result, "t", types)
    ops = [t for t in walk([rule.pattern, rule.result, rule.where]) if t[0] == "op"]
    for row in rule.rows:
        for t in ops:
            check_operands(t, schema.op(t[1], fill(t[2], row)), schema)
        for t in walk([rule.pattern, rule.result, rule.where]):
            if t[0] in ("lit", "word") and not LITERAL.match(fill(t[1], row)):
                raise RulesError(f"'{fill(t[1], row)}' is not a number, inf, true, false or ones")
    for t in walk(rule.pattern):
        if t[0] == "op" and t[5] and t[5][-1][0] in ("rest", "each") and len(t[5]) > 1:
            raise RulesError("an operand 'xs...' or 'each' must be the only operand")


def check_operands(t, number, schema):
    """As many operands as the operator has, where they do not stand for many."""
    n, least, most = len(t[5]), schema.least[number], schema.most[number]
    if least <= n <= most or any(x[0] in ("rest", "each", "for") for x in t[5]):
        return
    bound = least if n < least else most
    which = "" if least == most else "at least " if n < least else "at most "
    raise RulesError(f"'{schema.written[number]}' takes {which}{bound} operand{'s' * (bound != 1)}, not {n}")


def bind(types, name, kind):
    if types.setdefault(name, kind) != kind:
        raise RulesError(f"'{name}' is used for two kinds of things")


def bind_types(p, types, schema, rule):
    kind = p[0]
    if kind in ("var", "opt"):
        bind(types, p[1], "v")
    elif kind == "lit" and p[2]:
        bind(types, p[2], "v")
    elif kind == "alt":
        for x in p[1]:
            bind_types(x, types, schema, rule)
    elif kind == "rest":
        bind(types, p[1], "V")
    elif kind == "each":
        bind(types, p[1], "E")
        inner = {}
        bind_types(p[2], inner, schema, rule)
        types["." + p[1]] = inner
    elif kind == "op":
        for value in p[3].values():
            if value[0] == "var":
                bind(types, value[1], "a")
        if p[4]:
            bind(types, "*" + p[4], "*")
        for x in p[5]:
            bind_types(x, types, schema, rule)
        if p[6]:
            bind(types, p[6], "v")


def want(rule, schema, e, letter, types):
    found = kind_of(rule, schema, e, types)
    if found not in FITS[letter]:
        raise RulesError(f"'{show(e)}' is {KINDS[found]}, but {KINDS[letter]} is needed")


KINDS = {"v": "a tensor", "V": "several tensors", "E": "a list of 'each'", "e": "an element of 'each'", "a": "an attribute", "i": "a number", "l": "a list",
         "b": "a condition", "w": "a literal", "s": "a text", "t": "a tensor", "?": "anything"}  # fmt: skip


def kind_of(rule, schema, e, types):
    kind = e[0]

    def wants(x, letter):
        want(rule, schema, x, letter, types)

    if kind == "name":
        if e[1] == "none":
            return "a"
        if e[1] not in types:
            raise RulesError(f"'{e[1]}' is not bound by the pattern")
        return types[e[1]]
    if kind in ("num", "word", "text"):
        return {"num": "i", "word": "w", "text": "s"}[kind]
    if kind == "list":
        for x in e[1]:
            wants(x, "i")
        return "l"
    if kind == "splat":
        return kind_of(rule, schema, ("name", e[1]), types)
    if kind == "field":
        if types.get(e[1]) != "e":
            raise RulesError(f"'{e[1]}' is not an element of 'each'")
        inner = types["." + e[1]]
        if e[2] not in inner:
            raise RulesError(f"'{e[2]}' is not bound by the pattern of 'each'")
        return inner[e[2]]
    if kind in ("and", "or"):
        wants(e[1], "b"), wants(e[2], "b")
        return "b"
    if kind == "not":
        wants(e[1], "b")
        return "b"
    if kind == "cmp":
        a, b = kind_of(rule, schema, e[2], types), kind_of(rule, schema, e[3], types)
        if any(x not in "ailbws" for x in (a, b)) or (e[1] == "in" and b not in "al"):
            raise RulesError(f"'{show(e)}' compares values that cannot be compared")
        return "b"
    if kind in ("index", "slice"):
        wants(e[1], "l")
        for x in e[2:]:
            if x:
                wants(x, "i")
        return "a" if kind == "index" else "l"
    if kind == "ifelse":
        wants(e[1], "b")
        a, b = kind_of(rule, schema, e[2], types), kind_of(rule, schema, e[3], types)
        if a != b and not {a, b} <= {"v", "t"} and not {a, b} <= set("ailbws"):
            raise RulesError(f"'{show(e[2])}' and '{show(e[3])}' are of different kinds")
        return a if a == b else "t" if a in "vt" else "a"
    if kind == "else":
        wants(e[1], "v"), wants(e[2], "t")
        return "t"
    if kind == "ints":
        wants(e[1], "l")
        return "t"
    if kind == "set":
        wants(e[1], "t")
        bind(types, e[2], "v")
        return "t"
    if kind == "for":
        if e[2] not in types or types[e[2]] not in "VE":
            raise RulesError(f"'{e[2]}' is not a list of operands")
        inner = dict(types)
        inner[e[1]] = "v" if types[e[2]] == "V" else "e"
        if types[e[2]] == "E":
            inner["." + e[1]] = types["." + e[2]]
        want(rule, schema, e[3], "t", inner)
        return "t"
    if kind == "op":
        for x in e[3].values():
            wants(x, "a")
        if e[4] and "*" + e[4] not in types:
            raise RulesError(f"'<*{e[4].strip('*')}>' is not bound by the pattern")
        for x in e[5]:
            wants(x, "t")
        return "t"
    if kind == "call":
        if e[1] not in schema.functions:
            raise RulesError(f"there is no function '{e[1]}'")
        letters, result = schema.functions[e[1]]
        many = letters.endswith("+")
        wanted = list(letters.rstrip("+"))
        given = len(e[2])
        if given < len(wanted) or (given > len(wanted) and not many):
            raise RulesError(f"'{e[1]}' takes {len(wanted)}{' or more' if many else ''} arguments, not {given}")
        for i, x in enumerate(e[2]):
            wants(x, wanted[min(i, len(wanted) - 1)])
        return result
    raise AssertionError(kind)


def show(e):
    """An expression as text, for messages."""
    kind = e[0]
    if kind in ("name", "word", "num"):
        return str(e[1])
    if kind == "call":
        return f"{e[1]}({','.join(map(show, e[2]))})"
    if kind == "op":
        return f"{e[2]}({','.join(map(show, e[5]))})"
    if kind == "cmp":
        return f"{show(e[2])} {e[1]} {show(e[3])}"
    return {"field": lambda: f"{e[1]}.{e[2]}", "list": lambda: f"[{','.join(map(show, e[1]))}]"}.get(kind, lambda: f"({kind})")()


def at(rule, what):
    return RulesError(f"{rule.file}:{rule.line}: {what}\n  {rule.text}")


# ---- writing -----------------------------------------------------------------------------------------------------

PATTERN = "END ARITY FLIP NODE VAR OPT LIT ALT JUMP ATTR ATTR_NONE ATTR_INT ATTR_TEXT STAR OUT REST EACH EACH_END".split()
EXPRESSION = "END SMALL INT FLOAT REG LITERAL TEXT NONE FIELD LIST CALL NOT AND OR BOTH EITHER CMP INDEX SLICE BRANCH JUMP ELSE INTS SET FOR NEXT MARK NODE".split()
P = {w: i for i, w in enumerate(PATTERN)}
E = {w: i for i, w in enumerate(EXPRESSION)}
COMPARE = ["==", "!=", "<", "<=", ">", ">=", "in"]


class Table:
    """Distinct things by number."""

    def __init__(self, *first):
        self.items, self.ids = [], {}
        for x in first:
            self.id(x)

    def id(self, x):
        if x not in self.ids:
            self.ids[x] = len(self.items)
            self.items.append(x)
        return self.ids[x]


def constants(where):
    """What must be constant (c) or must not (v) wherever the condition holds: a dict for each of its alternatives."""
    if not where:
        return [{}]
    if where[0] == "or":
        return constants(where[1]) + constants(where[2])
    if where[0] == "and":
        return [{**a, **b} for a in constants(where[1]) for b in constants(where[2])][:64]
    if where[0] == "call" and where[1] in ("consts", "vars"):
        return [{x[1]: where[1][0] for x in where[2] if x[0] in ("name", "splat")}]
    return [{}]


def asks_fits(where, name):
    """Does the condition hold only where fits(name, …) does?"""
    if where and where[0] == "and":
        return asks_fits(where[1], name) or asks_fits(where[2], name)
    return bool(where) and where[0] == "call" and where[1] == "fits" and where[2][0] == ("name", name)


def always(p):
    """The operators of a pattern that are there whatever alternatives are taken."""
    if p[0] == "op":
        yield p
        for x in p[5]:
            yield from always(x)


NEEDS = {False: "nothing", True: "types and shapes, which the pass infers"}


def without_head(rule):
    """A rule's text but for its name and summary: how exact, for what, what it matches and makes, and when."""
    head, body = re.match(r'((?:"[^"]*"|::|[^:])*?)\s*:(?!:)\s*(.*)$', rule).groups()
    words = re.sub(r'"[^"]*"', "", head).split()
    return f"{' '.join(words[-1:] + words[1:-1])}: {body}"


class Writer:
    def __init__(self, book, schema):
        self.book, self.schema = book, schema
        self.words, self.ints, self.floats = Table(), Table(), Table()
        self.literals, self.passes, self.gates = Table(), Table(), Table(None)
        self.functions = list(schema.functions)
        self.code, self.cells, self.rules, self.entries = [], [], [], []
        self.summaries, self.levels, self.least, self.keys, self.texts = {}, {}, {}, {}, {}

    def all(self):
        for rule in self.book.rules:
            for part in self.parts(rule):
                self.rule(part)

    def parts(self, rule):
        """A rule whose table's row cannot be told from its operators is written once for every row."""
        if "{" in rule.pattern[2] or len(rule.rows) == 1:
            return [rule]
        ops = [t[2] for t in always(rule.pattern) if "{" in t[2]]
        if ops and len({fill(ops[0], row) for row in rule.rows}) == len(rule.rows):
            return [rule]
        return [Rule(**{**rule.__dict__, "rows": [row]}) for row in rule.rows]

    def rule(self, rule):
        self.now, self.columns = rule, Table()
        registers, fields = {}, {}
        for name, kind in rule.types.items():
            if name[0] != ".":
                registers[name] = len(registers)
        for name, kind in rule.types.items():
            if name[0] == ".":
                fields[name[1:]] = (len(registers), list(kind))
                for inner in kind:
                    registers[name + "." + inner] = len(registers)
        self.registers, self.fields, self.loops = registers, fields, {}
        self.n_nodes, self.n_choices, self.depth = 1, 0, 1
        out = []
        self.root(rule.pattern, out)
        out.append(P["END"])
        pattern = self.keep(out)
        where = None
        if rule.where:
            out = []
            self.expression(rule.where, out)
            where = self.keep(out + [E["END"]])
        out = []
        self.expression(rule.result, out)
        result = self.keep(out + [E["END"]])
        if len(registers) > 32 or self.n_nodes > 16 or self.n_choices > 16:
            raise at(rule, "a rule may have 32 names, 16 nodes and 16 choices")
        root = self.op(rule.pattern[1], rule.pattern[2])
        self.columns.id(("name", rule.names[0]))
        first = len(self.cells)
        for row in rule.rows:
            self.cells += [self.cell(c, row) for c in self.columns.items]
        number = len(self.rules)
        self.rules.append((pattern, where, result, first, len(self.columns.items), len(rule.rows), root, rule.level, self.depth, len(registers), rule.since, int(rule.once),
                           text(f"{rule.file}:{rule.line}"), text(rule.text)))  # fmt: skip
        for i, row in enumerate(rule.rows):
            self.entry(rule, number, i, row)

    def keep(self, program):
        self.code += program
        return len(self.code) - len(program)

    def cell(self, column, row):
        kind, text = column[0], fill(column[-1], row)
        if kind == "op":
            return self.schema.op(column[1], text)
        if kind == "literal":
            return self.literals.id(text)
        for before, after in self.book.spell.items():
            if before in row.values():
                text = text.replace(before, after)
        number = self.passes.id(text)
        self.levels[number] = max(self.levels.get(number, 0), self.now.level)
        self.least[number] = min(self.least.get(number, len(LEVELS)), self.now.level)
        if self.now.summary:
            self.summaries.setdefault(number, fill(self.now.summary, row))
        rule = without_head(self.now.text)
        if "{" in column[-1]:
            rule = fill(re.sub(r" for .*?(?=: )", "", rule, count=1), row)
        if rule not in self.texts.setdefault(number, []):
            self.texts[number].append(rule)
        self.keys.setdefault(number, []).extend(k for k in self.now.keys if k not in self.keys.get(number, []))
        return number

    def op(self, domain, text):
        return COLUMN | self.columns.id(("op", domain, text)) if "{" in text else self.schema.op(domain, text)

    def literal(self, text):
        return COLUMN | self.columns.id(("literal", text)) if "{" in text else self.literals.id(text)

    # Which operands a root may have, so that most nodes are dismissed by a look at what makes their operands.
    def entry(self, rule, number, i, row):
        known = constants(rule.where)
        args = rule.pattern[5]
        gates = []
        for k in range(2):
            a = args[k] if k < len(args) else ("any",)
            sets = [self.gate(a, row, w, rule) for w in known]
            gates.append(None if any(s is None for s in sets) else frozenset().union(*sets))
        number_of_root = self.schema.op(rule.pattern[1], fill(rule.pattern[2], row))
        either = 0
        if args and args[-1][0] == "each" and self.schema.most[number_of_root] <= 2 and asks_fits(rule.where, args[-1][1]):
            # One of the operands must be what the first alternative says.
            gates, either = [self.gate(args[-1][2][1][0], row, {}, rule), None], 1
        gates = [self.gates.id(g) for g in gates]
        bound = i if "{" in rule.pattern[2] or len(rule.rows) == 1 else NONE
        if bound == NONE and i > 0:
            return
        self.entries.append((number_of_root, number, bound, *gates, either))

    def gate(self, p, row, known, rule):
        constant = frozenset([self.schema.op("", "Constant"), self.schema.op("", "Identity")])
        if p[0] == "var":
            return constant if known.get(p[1]) == "c" else None
        if p[0] == "lit":
            return constant
        if p[0] == "op":
            rows = [row] if "{" in rule.pattern[2] else rule.rows
            return frozenset(self.schema.op(p[1], fill(p[2], r)) for r in rows)
        if p[0] == "alt":
            sets = [self.gate(x, row, known, rule) for x in p[1]]
            return None if any(s is None for s in sets) else frozenset().union(*sets)
        return None

    def root(self, p, out):
        self.node(p, 0, out, 1)

    def node(self, p, number, out, depth):
        """The program for what is inside a node that was found."""
        self.depth = max(self.depth, depth)
        _, domain, op, attrs, star, args, output = p
        many = args and args[-1][0] in ("rest", "each")
        if not many:
            out += [P["ARITY"], number, len(args)]
        names = {fill(op, row) for row in self.now.rows}
        if not many and len(args) == 2 and not domain and names & self.schema.commutes:
            out += [P["FLIP"], number]
            self.n_choices += 1
        for i, a in enumerate(args):
            self.operand(a, number, i, out, depth)
        for key, value in attrs.items():
            word = self.words.id(key)
            if value[0] == "none":
                out += [P["ATTR_NONE"], number, word]
            elif value[0] == "num":
                out += [P["ATTR_INT"], number, word, self.ints.id(int(value[1]))]
            elif value[0] == "text":
                out += [P["ATTR_TEXT"], number, word, self.words.id(value[1])]
            else:
                out += [P["ATTR"], self.register(value[1]), number, word]
        if star:
            out += [P["STAR"], self.register("*" + star), number]
        if output:
            out += [P["OUT"], self.register(output), number]

    def register(self, name):
        return self.registers[self.inside + name if getattr(self, "inside", "") else name]

    def operand(self, p, number, i, out, depth):
        kind = p[0]
        if kind in ("var", "opt"):
            out += [P[kind.upper()], self.register(p[1]), number, i]
        elif kind == "lit":
            out += [P["LIT"], self.register(p[2]) if p[2] else NONE, number, i, self.literal(p[1])]
        elif kind == "op":
            self.n_nodes += 1
            mine = self.n_nodes - 1
            out += [P["NODE"], mine, number, i, self.op(p[1], p[2])]
            self.node(p, mine, out, depth + 1)
        elif kind == "alt":
            self.n_choices += 1
            bodies = []
            for choice in p[1]:
                body = []
                self.operand(choice, number, i, body, depth)
                bodies.append(body)
            table = 2 + len(bodies)
            ends, start = [], table
            for body in bodies:
                ends.append(start)
                start += len(body) + 2
            out += [P["ALT"], len(bodies)] + ends
            for k, body in enumerate(bodies):
                # Words to skip, counted from behind the jump.
                out += body + [P["JUMP"], sum(len(b) + 2 for b in bodies[k + 1 :])]
        elif kind == "rest":
            out += [P["REST"], self.register(p[1]), number]
        elif kind == "each":
            first, inner = self.fields[p[1]]
            body = []
            self.inside = "." + p[1] + "."
            self.operand(p[2], number, HERE, body, depth)
            self.inside = ""
            out += [P["EACH"], self.register(p[1]), number, first, len(inner), len(body)] + body + [P["EACH_END"]]

    def expression(self, e, out):
        kind = e[0]

        def put(*words):
            out.extend(words)

        def then(*parts):
            for x in parts:
                self.expression(x, out)

        def jumping(word, body):
            inner = []
            body(inner)
            put(E[word], len(inner))
            out.extend(inner)

        if kind in ("name", "splat"):
            if e[1] == "none":
                put(E["NONE"])
            else:
                put(E["REG"], self.loops.get(e[1], self.registers.get(e[1])))
        elif kind == "num":
            if isinstance(e[1], float):
                put(E["FLOAT"], self.floats.id(e[1]))
            elif 0 <= e[1] < 0x8000:
                put(E["SMALL"], e[1])
            else:
                put(E["INT"], self.ints.id(e[1]))
        elif kind == "word":
            put(E["LITERAL"], self.literal(e[1]))
        elif kind == "text":
            put(E["TEXT"], self.words.id(e[1]))
        elif kind == "list":
            then(*e[1])
            put(E["LIST"], len(e[1]))
        elif kind == "field":
            put(E["FIELD"], self.loops[e[1]], self.fields_of[e[1]].index(e[2]))
        elif kind in ("and", "or"):
            then(e[1])
            jumping("AND" if kind == "and" else "OR", lambda inner: (self.expression(e[2], inner), inner.append(E["BOTH" if kind == "and" else "EITHER"])))
        elif kind == "not":
            then(e[1])
            put(E["NOT"])
        elif kind == "cmp":
            then(e[2], e[3])
            put(E["CMP"], COMPARE.index(e[1]))
        elif kind == "index":
            then(e[1], e[2])
            put(E["INDEX"])
        elif kind == "slice":
            then(e[1], *[x for x in e[2:] if x])
            put(E["SLICE"], (e[2] is not None) | (e[3] is not None) << 1)
        elif kind == "ifelse":
            then(e[1])
            yes, no = [], []
            self.expression(e[2], yes)
            self.expression(e[3], no)
            put(E["BRANCH"], len(yes) + 2)
            out.extend(yes)
            put(E["JUMP"], len(no))
            out.extend(no)
        elif kind == "else":
            then(e[1])
            jumping("ELSE", lambda inner: self.expression(e[2], inner))
        elif kind == "ints":
            then(e[1])
            put(E["INTS"])
        elif kind == "set":
            then(e[1])
            put(E["SET"], self.registers[e[2]])
        elif kind == "for":
            register = len(self.registers)
            self.registers["for " + e[1] + str(register)] = register
            before, self.loops = self.loops, {**self.loops, e[1]: register}
            self.fields_of = {**getattr(self, "fields_of", {}), e[1]: self.fields.get(e[2], (0, []))[1]}
            inner = []
            self.expression(e[3], inner)
            put(E["FOR"], register, self.registers[e[2]], len(inner) + 2)
            out.extend(inner)
            put(E["NEXT"], len(inner) + 2)
            self.loops = before
        elif kind == "call":
            then(*e[2])
            put(E["CALL"], self.functions.index(e[1]), len(e[2]))
        elif kind == "op":
            put(E["MARK"])
            then(*e[5])
            then(*e[3].values())
            put(E["NODE"], self.op(e[1], e[2]), self.registers["*" + e[4]] if e[4] else NONE, len(e[3]))
            put(*[self.words.id(k) for k in e[3]])
        else:
            raise AssertionError(kind)

    # ---- C ----

    def catalogue(self):
        """The rows of the catalogue of passes: rules_passes. A pass is as exact as its most exact rule: the others hold
        themselves back."""
        promises = {
            "exact": "the same bits for all inputs",
            "zero": "the same results except for the sign of zeros and the bits of NaNs",
            "rounding": "the same results up to rounding, for finite inputs",
            "finite": "the same if no value is NaN or infinite, no divisor is zero, and no comparison is so close that rounding decides it",
        }
        lines = ['#include "passes/rules/inside/rules_pass.h"', ""]
        for i, p in enumerate(self.passes.items):
            summary, level = self.summaries.get(i, ""), self.levels[i]
            keys = [k for k in self.keys[i] if k not in ("none", "infers", p.split("/")[0])]
            infers = "infers" in self.keys[i]
            more = f".keys = {text(' '.join(keys))}, " if keys else ""
            more += f".rules = texts{i}, "
            more += ".infers = true, " if infers else ""
            lines.append(
                f"static const struct pass pass{i} = {{.name = {text(p)}, .summary = {text(summary)}, .about = {text(summary + '.')}, "
                f"{more}.needs = {text(NEEDS[infers])}, .promises = {text(promises[LEVELS[level]])}, .exactness = {self.least[i]}, .loosest = {level}, "
                "NAME_FILTER_ALONE, .run_together = rules_pass_run};"
            )
        rows = ", ".join(f"&pass{i}" for i in range(len(self.passes.items)))
        return lines + [f"const struct pass *const rules_passes[] = {{{rows}, NULL}};"]

    def c(self, name, catalogue=False):
        lines = ["// Made by compile_rules.py; nobody edits it.", '#include "passes/rules/compile/rules_tables.h"', ""]

        def table(ctype, stem, rows, per=1):
            if not rows:
                rows = ["0"] if ctype.startswith(("uint", "int", "double")) else ["{0}"]
            lines.append(f"static const {ctype} {stem}[] = {{")
            for i in range(0, len(rows), per):
                lines.append("    " + " ".join(r + "," for r in rows[i : i + per]))
            lines.append("};")

        self.entries = [e for _, e in sorted(enumerate(self.entries), key=lambda x: (x[1][0], x[0]))]
        n_ops = len(self.schema.floors)
        roots = []
        for i in range(n_ops + 1):
            roots.append(sum(e[0] < i for e in self.entries))
        words_each = (n_ops + 63) // 64
        gates = []
        for g in self.gates.items:
            for w in range(words_each):
                gates.append(hex(sum(1 << (o - 64 * w) for o in (g or []) if 64 * w <= o < 64 * w + 64)) + "u")
        table("uint8_t", "floors", [str(f) for f in self.schema.floors], 24)
        table("uint8_t", "real_floors", [str(f) for f in self.schema.real_floors], 24)
        for i in range(len(self.passes.items)):
            lines.append(f"static const char *const texts{i}[] = {{{', '.join(map(text, self.texts[i]))}, NULL}};")
        about = [(text(p), text(self.summaries.get(i, "")), text(" ".join(self.keys[i])), self.levels[i], self.least[i]) for i, p in enumerate(self.passes.items)]
        table("struct rules_pass", "passes", [row(*a, f"texts{i}") for i, a in enumerate(about)])
        table("struct rules_rule", "rules", [row(*("NO_ID" if x is None else x for x in r)) for r in self.rules])
        table("struct rules_entry", "entries", [row(r, b, row(g, h), either) for _, r, b, g, h, either in self.entries], 6)
        table("uint32_t", "roots", [str(r) for r in roots], 16)
        table("uint64_t", "gates", gates, 4)
        table("struct rules_literal", "literals", [literal_c(w) for w in self.literals.items], 4)
        table("int64_t", "ints", [str(x) for x in self.ints.items], 8)
        table("double", "floats", [repr(x) for x in self.floats.items], 8)
        table("char *const", "words", [text(w) for w in self.words.items] or ['""'], 8)
        table("uint16_t", "cells", [str(x) for x in self.cells], 16)
        table("uint16_t", "code", [str(x) for x in self.code], 16)
        deepest = max([r[8] for r in self.rules], default=0)
        lines += [
            f"const struct rules_book {name} = {{",
            "    passes, rules, entries, roots, gates, floors, real_floors, literals, ints, floats, words, cells, code,",
            f"    {len(self.passes.items)}, {len(self.rules)}, {len(self.entries)}, {words_each}, {deepest},",
            f"    {', '.join(str(len(t)) for t in (self.literals.items, self.ints.items, self.floats.items, self.words.items, self.cells, self.code, self.gates.items))},",
            "};",
            f'_Static_assert(OPS == {n_ops}, "made for other operators");',
        ]
        if catalogue:
            lines += self.catalogue()
        return "\n".join(lines) + "\n"


def literal_c(word):
    if word == "ones":
        return "{RULES_ONES, 0, 0}"
    if word in ("true", "false"):
        return f"{{RULES_TRUTH, {int(word == 'true')}, {int(word == 'true')}}}"
    if "inf" in word:
        return f"{{RULES_REAL, 0, {'-' if word[0] == '-' else ''}INFINITY}}"
    if "." in word:
        return f"{{RULES_REAL, 0, {word}}}"
    return f"{{RULES_WHOLE, {word}, {word}}}"


def row(*cells):
    return "{" + ", ".join(map(str, cells)) + "}"


def text(s):
    return '"' + s.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?") + '"'


def compile_files(files, schema, name, catalogue=False):
    book = Book()
    for path in files:
        read(path, book)
    for rule in book.rules:
        try:
            check(rule, schema)
        except RulesError as e:
            raise at(rule, e.args[0]) from None
    writer = Writer(book, schema)
    writer.all()
    return book, writer, writer.c(name, catalogue)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--schema", required=True)
    p.add_argument("--functions", required=True)
    p.add_argument("--name", required=True)
    p.add_argument("--catalogue", action="store_true", help="rows of the catalogue of passes too")
    p.add_argument("-o", required=True)
    p.add_argument("files", nargs="+")
    a = p.parse_args()
    try:
        _, _, c = compile_files(a.files, Schema(a.schema, a.functions), a.name, a.catalogue)
    except RulesError as e:
        print(e.args[0], file=sys.stderr)
        return 1
    Path(a.o).write_text(c)
    return 0


if __name__ == "__main__":
    sys.exit(main())
