#!/usr/bin/env python3
"""Makes docs/passes.md from what 'weir passes --json' says and from the table of onnx-passes' classes:

    tests/support/passes_page.py [--write] WEIR      without --write: prints the page
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
REGISTRY = os.path.join(HERE, "..", "data", "onnx-passes", "registry.txt")
PAGE = os.path.join(HERE, "..", "..", "docs", "passes.md")

# Classes of onnx-passes that no pass of ours stands for, with the reason.
LEFT_OUT = {}

HEAD = """# Passes

<!-- Made by tests/support/passes_page.py from 'weir passes --json': change it there, or in the passes. -->

Every pass, by family. `weir passes NAME` says the same at the shell, and the options that a pass takes.

A name of passes, behind `--pass` or in a pipeline file ([pipelines.md](pipelines.md)), is one of:

| name | example | means |
|---|---|---|
| a pass | `algebraic/GroupAdd` | that pass |
| a class of onnx-passes | `GroupAdd`, `streamline.algebraic.numeric.GroupAdd` | the pass that does what it does |
| a family | `algebraic` | all of its passes, in their order |
| a set | `eliminate-where` | the passes that belong to it |
| one of the [names for several](#names-for-several-passes) | `streamline` | the passes that it lists, in rounds |

`family:NAME` says that a family or a set is meant.

**Exactness** says how far the results of a model may move: `exact` (the same bits), `zero` (the sign of a zero may
change), `rounding` (floats may round differently, [and so may what the model compares](pipelines.md#rounding-and-thresholds)) and `finite` (besides, nothing is promised where a value is infinite or
NaN). `--exactness` is the cap, `rounding` unless said otherwise; what is less exact does not run, and is counted.
A rule is shown with its own level: left of the arrow what is looked for, right of it what takes its place, behind `where`
its conditions and behind `mend` conditions on the result ([the language](../src/passes/rules/README.md)). Where a
template gives several passes, the rules shown are those of the first.
"""


def ask(weir, *args):
    done = subprocess.run([weir, "passes", "--json", *args], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def registry():
    """Class -> keys, as onnx-passes registers them."""
    with open(REGISTRY, encoding="utf-8") as f:
        rows = [line.split() for line in f if not line.startswith("#")]
    return {row[0]: row[1:] for row in rows}


def covered(catalogue):
    """Class of onnx-passes -> our name for it."""
    found = {}
    for one in catalogue["passes"]:
        for name in one["classes"]:
            found.setdefault(name, one["name"])
    for group in catalogue["groups"]:
        found[group["class"]] = group["name"]
    return found


def family_of(one):
    return one["name"].split("/")[0]


def level(one):
    first, last = one["exactness"], one["exactness_loosest"]
    return first if first == last else f"{first} to {last}"


def entries(passes):
    """Passes that come from one template together."""
    by_place, result = {}, []
    for one in passes:
        place = one.get("from")
        if place in by_place:
            by_place[place].append(one)
            continue
        result.append([one])
        if place:
            by_place[place] = result[-1]
    return result


def write_entry(out, members):
    first = members[0]
    names = ", ".join(f"`{m['name']}`" if m is first else f"`{m['name'].split('/')[-1]}`" for m in members)
    levels = sorted({level(m) for m in members}, key=lambda x: [level(m) for m in members].index(x))
    sets = sorted({s for m in members for s in m["sets"]})
    classes = sorted({c for m in members for c in m["classes"] if c != m["name"].split("/")[-1]})
    out.append(f"- {names}: {first['summary']} ({', or '.join(levels)}"
               + (f"; sets {', '.join(f'`{s}`' for s in sets)}" if sets else "")
               + (f"; onnx-passes' {', '.join(f'`{c}`' for c in classes)}" if classes else "") + ")")
    if first["rules"]:
        out.append("  ```text")
        out.extend(f"  {rule}" for rule in first["rules"])
        out.append("  ```")


def write_groups(out, groups):
    out += ["", "## Names for several passes", "", "| name | class of onnx-passes | in rounds until nothing changes | then once |",
            "|---|---|---|---|"]
    for g in groups:
        words = [f"`{g[part]}`" if g[part] else "" for part in ("rounds", "once")]
        out.append(f"| `{g['name']}` | `{g['class']}` | {words[0]} | {words[1]} |")


def write_classes(out, catalogue):
    ours = covered(catalogue)
    theirs = registry()
    known = [name for name in theirs if name in ours]
    out += ["", "## Classes of onnx-passes", "",
            f"Of {len(theirs)} classes that onnx-passes 0.4.1 registers, {len(known)} have a pass here; each is known by its "
            "name, and by each of its keys.", ""]
    if LEFT_OUT:
        out += ["Without one:", ""]
        out += [f"- `{name}`: {why}" for name, why in sorted(LEFT_OUT.items())]
        out.append("")
    elsewhere = [name for name in known if not ours[name].endswith("/" + name)]
    out += ["Those whose pass has another name:", "", "| class | pass |", "|---|---|"]
    out += [f"| `{name}` | `{ours[name]}` |" for name in elsewhere]


def page(weir):
    catalogue = ask(weir)
    out = HEAD.rstrip().split("\n")
    write_groups(out, catalogue["groups"])
    families = {}
    for one in catalogue["passes"]:
        families.setdefault(family_of(one), []).append(one)
    alone = [passes[0] for passes in families.values() if len(passes) == 1]
    for family, passes in families.items():
        if len(passes) == 1:
            continue
        out += ["", f"## {family}", "", f"{len(passes)} passes.", ""]
        for members in entries(passes):
            write_entry(out, members)
    out += ["", "## Families of one pass", ""]
    for one in alone:
        write_entry(out, [one])
    write_classes(out, catalogue)
    return "\n".join(out) + "\n"


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--write", action="store_true", help="into docs/passes.md")
    args.add_argument("weir")
    given = args.parse_args()
    text = page(given.weir)
    if given.write:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
