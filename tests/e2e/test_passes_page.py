"""docs/passes.md is what the catalogue says, and every class and key of onnx-passes is known to it."""
import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WEIR = os.environ["WEIR"]

# Keys that stand for more here than there: what the original registers under a class name only, or splits.
# Functions of quantizers that nothing calls any more would stay.
WIDER = {"import-qonnx": {"RemoveUnusedFunctions"}, "inline-qonnx": {"RemoveUnusedFunctions"}}


def script():
    spec = importlib.util.spec_from_file_location("passes_page", ROOT / "tests" / "support" / "passes_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page():
    return script()


@pytest.fixture(scope="module")
def catalogue(page):
    return page.ask(WEIR)


def test_the_page_is_up_to_date(page):
    assert Path(page.PAGE).read_text(encoding="utf-8") == page.page(WEIR), (
        "tests/support/passes_page.py --write WEIR makes it anew")


def test_every_class_has_a_pass_or_a_reason(page, catalogue):
    missing = set(page.registry()) - set(page.covered(catalogue))
    assert missing == set(page.LEFT_OUT)


def test_keys_mean_what_they_mean_there(page, catalogue):
    ours = page.covered(catalogue)
    groups = {g["name"] for g in catalogue["groups"]}
    keys = {}
    for name, of in page.registry().items():
        for key in of:
            keys.setdefault(key, set()).add(name)
    for key, classes in keys.items():
        wanted = {ours[c] for c in classes if c not in page.LEFT_OUT} - groups
        if not wanted:
            continue
        found = {one["name"] for one in page.ask(WEIR, key)["passes"]}
        assert wanted <= found, key
        known = set().union(*(one["classes"] for one in page.ask(WEIR, key)["passes"]))
        assert known - classes <= WIDER.get(key, set()), key
