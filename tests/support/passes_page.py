#!/usr/bin/env python3
"""Makes docs/passes.md from the output of 'weir passes --json' and the table of onnx-passes' classes:

    tests/support/passes_page.py [--write] WEIR      without --write, prints the page
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
REGISTRY = os.path.join(HERE, "..", "data", "onnx-passes", "registry.txt")
PAGE = os.path.join(HERE, "..", "..", "docs", "passes.md")

# Classes of onnx-passes without a pass in weir, with the reason.
LEFT_OUT = {}

HEAD = """# Passes

<!-- Made by tests/support/passes_page.py from 'weir passes --json': change it there, or in the passes. -->

This page is a reference list of all passes, by family. To run passes, read [pipelines.md](pipelines.md). To make a model smaller or faster,
read [optimize.md](optimize.md).

```sh
weir passes                                                 # all passes
weir passes algebraic                                       # the passes of a family
weir passes algebraic/GroupAdd                              # one pass: what it needs and promises, rules, options
weir run in.onnx out.onnx --pass algebraic/GroupAdd --pass tidy
```

The option `--pass` and [pipeline files](pipelines.md#in-a-file) accept these names:

| name | example | runs |
|---|---|---|
| a pass | `algebraic/GroupAdd` | that pass |
| a class of onnx-passes | `GroupAdd`, `streamline.algebraic.numeric.GroupAdd` | the pass with the same effect |
| a family | `algebraic` | all of its passes, in their order |
| a set | `eliminate-where` | the passes that belong to it |
| a [name for several passes](#names-for-several-passes) | `streamline` | the passes that it lists, in rounds |

If a pass has the same name as a family or a set, write `family:NAME` for the family or set.

**Exactness** is in parentheses after the summary of each pass. It is how much the results of the model may change
([details](pipelines.md#how-exact)):

| level | what may change |
|---|---|
| `exact` | nothing: the same bits |
| `zero` | the sign of zeros and the bits of NaNs |
| `rounding` | floats may round differently, [and so may the inputs of comparisons](pipelines.md#rounding-and-thresholds) |
| `finite` | like `rounding`; in addition, nothing is promised for values that are infinite or NaN |

`--exactness LEVEL` skips passes and rewrites that are less exact than LEVEL, and the report counts them. The default is `rounding`.

**Rules** are shown with their own level. The pattern is left of the arrow and the result right of it. `where` introduces the conditions of the
rule, `mend` conditions on the result ([the language](../src/passes/rules/README.md)). If one template makes several passes, the page shows
the rules of the first.
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
    """Groups of passes that come from the same template."""
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
    out += ["", "## Names for several passes", "", "| name | class of onnx-passes | repeated until nothing changes | then once |",
            "|---|---|---|---|"]
    for g in groups:
        words = [f"`{g[part]}`" if g[part] else "" for part in ("rounds", "once")]
        out.append(f"| `{g['name']}` | `{g['class']}` | {words[0]} | {words[1]} |")


def write_classes(out, catalogue):
    ours = covered(catalogue)
    theirs = registry()
    known = [name for name in theirs if name in ours]
    out += ["", "## Classes of onnx-passes", "",
            f"onnx-passes 0.4.1 registers {len(theirs)} classes. weir has a pass for {len(known)} of them. You can use the name of the class and "
            "each of its registry keys.", ""]
    if LEFT_OUT:
        out += ["Classes without a pass:", ""]
        out += [f"- `{name}`: {why}" for name, why in sorted(LEFT_OUT.items())]
        out.append("")
    elsewhere = [name for name in known if not ours[name].endswith("/" + name)]
    out += ["The passes of these classes have other names:", "", "| class | pass |", "|---|---|"]
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
    args.add_argument("--write", action="store_true", help="write docs/passes.md")
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
