#!/usr/bin/env python3
"""Files of rules with mistakes in them: statements of the house's book, with tokens dropped, doubled, swapped and put in from
other rules. Some still are rules, some not; both the compiler and the engine must take what comes.

    mutated_rules.py FOLDER [N] [SEED]      writes N files (500)
"""

import random
import re
import sys
from pathlib import Path

RULES = Path(__file__).resolve().parents[2] / "src" / "passes" / "rules" / "book"
TOKEN = re.compile(r'"[^"\n]*"|->|\.\.\.|::|\?\?|==|!=|<=|>=|\{\w+\}|\w+|\s+|.', re.S)


def statements():
    """Rules of the house, and the lists that they use."""
    lists, rules = [], []
    for path in sorted(RULES.glob("*.rules")):
        text = re.sub(r'"[^"\n]*"|#(?=\s|$|#)[^\n]*', lambda m: m[0] if m[0][0] == '"' else "", path.read_text())
        for statement in text.split(";"):
            statement = " ".join(statement.split())
            if statement.startswith("ops "):
                lists.append(statement + " ;\n")
            elif ":" in statement and not re.search(r": (proc|group) ", statement):
                rules.append(statement)
    return lists, rules


def kind_of(token):
    """Tokens of one kind mostly fit in each other's place."""
    for kind in (r"[A-Z]\w*$", r"[a-z_]\w*$", r"\d", r"\{\w+\}$", r"[&|]$|==|!=|[<>]=?$"):
        if re.match(kind, token):
            return kind
    return token


def mutate(rng, rule, others):
    tokens = TOKEN.findall(rule)
    if rng.random() < 0.3 and " where " in rule:  # what it asked for
        tokens = TOKEN.findall(rule.partition(" where ")[0])
    for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 6])):
        at = rng.randrange(len(tokens))
        other = TOKEN.findall(rng.choice(others))
        same = [t for t in tokens + other if kind_of(t) == kind_of(tokens[at])]
        kind = rng.randrange(20)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens.insert(at, tokens[at])
        elif kind == 2:
            to = rng.randrange(len(tokens))
            tokens[at], tokens[to] = tokens[to], tokens[at]
        elif kind == 3:
            tokens[at] = rng.choice(other)
        elif kind == 4:
            start = rng.randrange(len(other))
            tokens[at:at] = other[start : start + rng.randrange(1, 8)]
        else:
            tokens[at] = rng.choice(same)
        tokens = tokens or [" "]
    return "".join(tokens)


def files(n, seed=0):
    """n texts as bytes: rules, and for some a NUL and the bytes of a graph."""
    rng = random.Random(seed)
    lists, rules = statements()
    for _ in range(n):
        text = "".join(lists) + "".join(mutate(rng, rng.choice(rules), rules) + " ;\n" for _ in range(rng.choice([1, 1, 2, 3])))
        graph = b"\0" + rng.randbytes(rng.randrange(200)) if rng.random() < 0.5 else b""
        yield text.encode() + graph


def main():
    folder = Path(sys.argv[1])
    n, seed = (int(x) for x in (sys.argv[2:] + ["500", "0"][len(sys.argv) - 2 :]))
    folder.mkdir(parents=True, exist_ok=True)
    for i, text in enumerate(files(n, seed)):
        (folder / f"{i:05}").write_bytes(text)


if __name__ == "__main__":
    main()
