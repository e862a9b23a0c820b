"""Reads the pages of --report-html as a browser would, without one: what is in them, what they may load, their tables.

    page = Page(path.read_text())      fails where elements are not closed, or there are others than pages have
    page.rows("tensors")               the rows of a table, by column title, as its script reads them
"""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}
ELEMENTS = set(
    "html head meta title style body main header footer section div p span h1 h2 h3 dl dt dd small strong b i br bdi code pre ul li "
    "table caption thead tbody tr th td details summary figure figcaption svg g line text path circle rect title script".split()
)
POLICY = re.compile(
    r"default-src 'none'; style-src ('sha256-[A-Za-z0-9+/=]+'); script-src ('sha256-[A-Za-z0-9+/=]+'); base-uri 'none'; form-action 'none'"
)
NUMBERS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def policy_hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.texts, self.attributes, self.elements = [], [], [], []
        self.blocks, self.scripts, self.styles, self.metas, self.ids = {}, [], [], {}, []
        self.tables, self.block = {}, None
        self.source = text
        assert text.startswith("<!doctype html>\n") and text.endswith("</html>\n")
        self.feed(text)
        self.close()
        assert self.open == [], self.open
        self.check_policy()

    # ---- parsing

    def handle_starttag(self, tag, attrs):
        assert tag in ELEMENTS, f"an element that pages do not have: {tag}"
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names) and not any(name.startswith("on") or name == "style" for name in names), (tag, names)
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        self.attributes += attrs.items()
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "meta":
            self.metas[attrs.get("http-equiv") or attrs.get("name") or "charset"] = attrs.get("content", attrs.get("charset"))
        if tag == "script" and attrs.get("type") == "application/json":
            self.block = attrs["id"]
        if tag == "div" and attrs.get("class") == "table":
            self.table = self.tables[attrs["id"]] = {"titles": [], "forms": [], "plain": []}
        if self.in_table() and tag == "th":
            assert attrs["scope"] == "col"
            self.table["forms"].append(attrs["data-form"])
            self.table["titles"].append("")
        if self.in_table() and tag == "tr" and "tbody" in self.open:
            self.table["plain"].append([])
        if self.in_table() and tag == "td":
            self.table["plain"][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()
        if tag == "script":
            self.block = None

    def in_table(self):
        return self.tables and "table" in self.open and any(c in ("rows",) for c in self.rows_open())

    def rows_open(self):
        last = next((a.get("class") for t, a in reversed(self.elements) if t == "div"), None)
        return [last]

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside == "script" and self.block:
            self.blocks[self.block] = self.blocks.get(self.block, "") + data
        elif inside == "script":
            self.scripts.append(data)
        elif inside == "style":
            self.styles.append(data)
        else:
            self.texts.append(data)
            if self.in_table() and "th" in self.open:
                self.table["titles"][-1] += data
            elif self.in_table() and "td" in self.open:
                self.table["plain"][-1][-1] += data

    # ---- what holds of every page

    def check_policy(self):
        """Nothing is loaded from anywhere, and the policy allows the page's own style and script, and no other."""
        policy = POLICY.fullmatch(self.metas["Content-Security-Policy"])
        assert policy and len(self.scripts) == len(self.styles) == 1
        assert policy[1] == policy_hash(self.styles[0]) and policy[2] == policy_hash(self.scripts[0])
        assert not {"src", "href", "action", "srcset", "data", "poster", "background"} & {name for name, _ in self.attributes}
        assert not re.search(r"url\(|@import|https?:|//[a-z]+\.", self.styles[0])
        assert not re.search(r"https?:|fetch|XMLHttp|import\(|eval|innerHTML|insertAdjacentHTML|document\.write", self.scripts[0])
        assert len(set(self.ids)) == len(self.ids), self.ids

    # ---- what a test asks

    def text(self):
        return " ".join("".join(self.texts).split())

    def rows(self, name):
        table, flat = self.tables[name], json.loads(self.blocks[f"{name}-rows"])
        rows, last, at = [], [""] * len(table["forms"]), 0
        while at < len(flat):
            row = {}
            for c, form in enumerate(table["forms"]):
                if form in ("name", "word", "state"):
                    last[c] = last[c][: flat[at]] + flat[at + 1]
                    row[table["titles"][c]] = last[c]
                    at += 2
                else:
                    row[table["titles"][c]] = NUMBERS.get(flat[at], flat[at]) if isinstance(flat[at], str) else flat[at]
                    at += 1
            rows.append(row)
        return rows

    def without_run(self):
        """The page without what belongs to the run: time and memory."""
        return re.sub(r"(<dt>(?:Time|Peak memory)</dt><dd>)[^<]*", r"\1", self.source)


def read(path):
    return Page(path.read_text(encoding="utf-8"))
