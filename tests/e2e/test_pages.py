"""Pages: every link leads somewhere, the index has every page, and the words that people search with lead to the right one."""

import functools
import http.server
import os
import re
import subprocess
import threading
import time

import pytest

from browser import Browser
from conftest import ALL
from pages import ROOT, anchors, links, pages

DOCS = ROOT / "docs"

# A word, and the page where a search for it should end.
SEARCHED = {
    "constant folding": "optimize.md",
    "dead code": "tidy.md",
    "glob": "quantize.md",
    "ETA": "files.md",
    "GPTQ": "quantize.md",
    "zero point": "quantize.md",
    "calibration": "ranges.md",
    "entropy": "ranges.md",
    "resume": "files.md",
    "checksum": "files.md",
    "signature": "reproducible.md",
    "Hessian": "quantize.md",
    "tokenizer": "recipes.md",
    "above 2 GB": "above-2gb.md",
    "exceeds maximum protobuf size of 2GB": "above-2gb.md",
    "float16": "cast.md",
    "NaN": "quantize.md",
    "Slurm": "cluster.md",
    "opset": "optimize.md",
    "browser": "recipes.md",
}


@pytest.mark.parametrize("page", pages())
def test_links(page):
    wrong = []
    for line, target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = ROOT / os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else ROOT / page
        if not other.exists():
            wrong.append(f"{page}:{line}: there is no {target}")
        elif anchor and other.suffix == ".md" and anchor not in anchors(other):
            wrong.append(f"{page}:{line}: {target} has no such heading")
    assert not wrong, "\n".join(wrong)


def test_the_index_has_every_page():
    linked = {os.path.normpath(target.partition("#")[0]) for _, target in links("docs/README.md")}
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - linked == {"README.md"}


def test_the_site_has_every_page():
    listed = re.findall(r": ([\w/-]+\.md)$", (ROOT / "packaging/site.yml").read_text(), re.M)
    assert {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - set(listed) == {"README.md"}


@pytest.mark.parametrize("word", SEARCHED)
def test_searched_words(word):
    """grep -i finds the word in that page."""
    how = 0 if word.isupper() else re.I  # ETA is not in metadata
    assert re.search(rf"\b{re.escape(word)}", (DOCS / SEARCHED[word]).read_text(), how)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


FOUND = "[...document.querySelectorAll('.md-search-result__link')].map(each => new URL(each.href).pathname.slice(1))"


@pytest.mark.skipif(not ALL, reason="tools/test --all builds the site")
def test_the_site(tmp_path):
    """It is built without a warning, asks no other machine for anything, and its search finds each word's page among the first eight."""
    done = subprocess.run([ROOT / "packaging/site", tmp_path / "site"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path / "site"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here, missing = f"http://127.0.0.1:{server.server_port}/", {}
    try:
        with Browser(tmp_path) as browser:
            for word, page in SEARCHED.items():
                browser.open(f"{here}index.html?q={word.replace(' ', '+')}")
                found, until = [], time.monotonic() + 60
                while not found and time.monotonic() < until:
                    found = browser.ask(FOUND)
                    time.sleep(0.1)
                pages_found = list(dict.fromkeys(path.partition("#")[0] for path in found))
                if page.replace(".md", ".html") not in pages_found[:8]:
                    missing[word] = (page, pages_found[:8])
            assert all(url.startswith((here, "data:", "blob:", "about:")) for url in browser.requests)
    finally:
        server.shutdown()
    assert not missing
