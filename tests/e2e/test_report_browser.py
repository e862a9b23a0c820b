"""What chromium makes of the page of --report-html: tables that sort and search, also with a hundred thousand rows, with keys alone, on
paper, in the dark, on a phone, and without scripts.

With WEIR_TEST_ALL only (`tools/test --all`); who lacks chromium has these tests skipped.
"""

import pytest

import report_page
from browser import Browser
from chain import make_chain
from runtimes import Missing
from test_report_html import RUN, SOURCE, hostile_model
from test_targets import ALL

pytestmark = pytest.mark.skipif(not ALL, reason="with tools/test --all")
TENSORS = "document.getElementById('tensors')"
NAMES = f"[...{TENSORS}.querySelectorAll('tbody tr:not(.space)')].map(r => r.cells[0].textContent)"
COUNT = f"{TENSORS}.querySelector('output').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    try:
        with Browser(tmp_path_factory.mktemp("browser")) as running:
            yield running
    except Missing as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def page(weir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    weir("run", SOURCE, folder / "out.onnx", *RUN, "--report-html", folder / "r.html")
    return folder / "r.html"


@pytest.fixture(scope="module")
def verified_page(weir, tmp_path_factory):
    """A page with a verification."""
    folder = tmp_path_factory.mktemp("verified")
    weir("quantize", SOURCE, folder / "out.onnx", "--verify=all", "--report-html", folder / "r.html")
    return folder / "r.html"


def opened(browser, path):
    browser.scripts(True)
    browser.looks(1200)
    browser.open(path)
    browser.requests.clear()
    return report_page.read(path)


def click(browser, title):
    browser.ask(f"[...{TENSORS}.querySelectorAll('th button')].find(b => b.textContent === {title!r}).click()")


def sorts(browser):
    return browser.ask(f"[...{TENSORS}.querySelectorAll('th')].map(h => h.getAttribute('aria-sort'))")


def seek(browser, text):
    browser.ask(f"var i = {TENSORS}.querySelector('input'); i.focus(); i.select()")
    browser.type(text) if text else browser.key("Delete", 46)
    browser.ask("new Promise(done => setTimeout(done, 200))")


def test_it_sorts(browser, page):
    rows = opened(browser, page).rows("tensors")
    for title, key in (("Before", lambda row: row["Before"]), ("SQNR, dB", lambda row: row["SQNR, dB"]), ("Tensor", lambda row: row["Tensor"])):
        for down in (False, True):
            click(browser, title)
            names = browser.ask(NAMES)
            wanted = [row["Tensor"] for row in sorted(rows, key=key, reverse=down)]
            assert [key(row) for name in names for row in rows if row["Tensor"] == name] == sorted(map(key, rows), reverse=down)[: len(names)]
            assert len(names) >= 15 and names[0] == wanted[0]
            assert [sort for sort in sorts(browser) if sort] == ["descending" if down else "ascending"]


def test_it_searches(browser, page):
    rows = opened(browser, page).rows("tensors")
    text = next(row["First used by"] for row in rows if row["First used by"] != rows[0]["First used by"])
    seek(browser, text.upper())
    wanted = {row["Tensor"] for row in rows if text.lower() in (row["Tensor"] + "\n" + row["First used by"]).lower()}
    assert set(browser.ask(NAMES)) == wanted and 0 < len(wanted) < len(rows)
    assert browser.ask(COUNT) == f"{len(wanted)} of {len(rows)} rows"
    seek(browser, "no such name")
    assert browser.ask(NAMES) == [] and browser.ask(COUNT) == f"0 of {len(rows)} rows"
    seek(browser, "")
    assert browser.ask(COUNT) == f"{len(rows)} rows"


def test_numbers_read_as_without_a_script(browser, page):
    """The script writes numbers as the program does."""
    found = opened(browser, page)
    names = [row["Tensor"] for row in found.rows("tensors")]
    plain = {row[0]: row for row in found.tables["tensors"]["plain"]}
    live = browser.ask(f"[...{TENSORS}.querySelectorAll('tbody tr:not(.space)')].map(r => [...r.cells].map(c => c.textContent))")
    assert len(names) == len(set(names)) and len(live) > 10
    assert [row for row in live if row[0] in plain] == [plain[row[0]] for row in live if row[0] in plain]


def test_with_keys_alone(browser, page):
    opened(browser, page)
    browser.ask(f"{TENSORS}.querySelector('input').focus()")
    stops = []
    for _ in range(4):
        browser.key("Tab", 9)
        stops.append(browser.ask("document.activeElement.tagName + ' ' + (document.activeElement.getAttribute('role') || '')"))
    assert stops[0] == "DIV region" and stops[1:] == ["BUTTON "] * 3
    before = sorts(browser)
    browser.key("Enter", 13, "\r")
    assert sorts(browser) != before and sorts(browser)[2] == "ascending"
    browser.ask(f"{TENSORS}.querySelector('.rows').focus()")
    browser.key("End", 35)
    browser.ask("new Promise(done => setTimeout(done, 600))")
    assert browser.ask(f"{TENSORS}.querySelector('.rows').scrollTop") > 0


def test_it_loads_nothing_and_complains_of_nothing(browser, page):
    browser.complaints.clear()
    opened(browser, page)
    assert [url for url in browser.requests if not url.startswith("file:")] == [] and browser.complaints == []
    # The control arms: what the policy forbids is seen here.
    browser.ask("var s = document.createElement('script'); s.textContent = 'window.bad = 1'; document.body.appendChild(s)")
    assert browser.ask("window.bad === undefined") and any("Content Security Policy" in text for text in browser.complaints)
    assert browser.ask("fetch('http://127.0.0.1:9/').then(() => 'loaded', () => 'refused')") == "refused"
    browser.ask("new Promise(done => { var i = new Image(); i.onerror = i.onload = done; i.src = 'http://127.0.0.1:9/x.png' })")
    assert sum("Content Security Policy" in text for text in browser.complaints) >= 3


def test_hostile_names_do_nothing(browser, weir, tmp_path):
    hostile_model(tmp_path / "m.onnx")
    weir("quantize", tmp_path / "m.onnx", tmp_path / "o.onnx", "--block-size", "32", "--report-html", tmp_path / "r.html")
    browser.complaints.clear()
    rows = opened(browser, tmp_path / "r.html").rows("tensors")
    assert browser.ask("document.querySelectorAll('img, iframe, main script:not([type])').length") == 0
    assert browser.complaints == [] and browser.requests == []
    click(browser, "Tensor")
    assert set(browser.ask(NAMES)) == {row["Tensor"] for row in rows}


def test_tables_fit_an_ordinary_window(browser, page, verified_page):
    """Of 1280 and of 1024 columns, with all of their numbers; names have the rest, and are whole in their tips."""
    for path in (page, verified_page):
        opened(browser, path)
        for width in (1280, 1024):
            browser.looks(width)
            fits = browser.ask("[...document.querySelectorAll('.rows')].map(r => [r.clientWidth, r.scrollWidth, r.querySelector('td.name').clientWidth])")
            assert fits and all(inner <= outer and name >= (80 if width == 1024 else 200) for outer, inner, name in fits), (width, fits)
        browser.looks(700)  # the control arm
        assert any(inner > outer for outer, inner in browser.ask("[...document.querySelectorAll('.rows')].map(r => [r.clientWidth, r.scrollWidth])"))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 768, 1200])
def test_nothing_hangs_over(browser, page, width, dark):
    """No page is wider than its window; only tables scroll by themselves."""
    opened(browser, page)
    browser.looks(width, dark=dark, mobile=width < 500)
    assert browser.ask("document.documentElement.scrollWidth") <= width


RIGHT = "[...document.querySelectorAll('{}')].map(e => e.getBoundingClientRect().right)"


def test_a_phone_shows_captions_and_bars(browser, page):
    opened(browser, page)
    browser.looks(360, mobile=True)
    for what in ("caption", ".ops tbody .bars", ".ops tbody .number"):
        right = [x for x in browser.ask(RIGHT.format(what)) if x]  # what is folded is nowhere
        assert right and max(right) <= 360, what
    assert max(browser.ask(RIGHT.format(".scroll td"))) > 360  # the control arm: tables that scroll
    assert browser.ask("[...document.querySelectorAll('.arrow')].every(e => e.getClientRects().length === 1)")


@pytest.mark.parametrize("width", [360, 768, 1200])
@pytest.mark.parametrize("verified", [False, True])
def test_tiles_fill_their_rows(browser, page, verified_page, width, verified):
    opened(browser, verified_page if verified else page)
    browser.looks(width, mobile=width < 500)
    rows = browser.ask("""(() => { const rows = {}, box = document.querySelector('.cards').getBoundingClientRect();
      for (const e of document.querySelectorAll('.card')) { const r = e.getBoundingClientRect(); rows[r.top] = [...(rows[r.top] || []), r.right]; }
      return Object.values(rows).map(r => [r.length, box.right - Math.max(...r)]); })()""")
    assert all(abs(left) < 1 for _, left in rows) and sum(n for n, _ in rows) == (6 if verified else 5)
    assert all(n > 1 for n, _ in rows) or width < 500


CONTRAST = """(() => {
  const light = c => { const [r, g, b] = c.match(/[0-9.]+/g).slice(0, 3).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } return 'rgb(255, 255, 255)'; };
  let least = 99, where = '';
  for (const e of document.querySelectorAll('main *, footer *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.getClientRects().length || e.closest('svg, script')) continue;
    const a = light(getComputedStyle(e).color), b = light(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < least) { least = ratio; where = e.tagName + ' ' + e.textContent.slice(0, 40); }
  }
  return [least, where];
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(browser, page, dark):
    """4.5 to 1 everywhere, as WCAG 2 wants of texts."""
    opened(browser, page)
    browser.looks(1200, dark=dark)
    least, where = browser.ask(CONTRAST)
    assert least >= 4.5, where


def test_it_prints(browser, page):
    opened(browser, page)
    kept = [row["Node"] for row in report_page.read(page).rows("sites") if row["Why"] == "kernel larger than 1x1"]
    browser.ask("addEventListener('beforeprint', () => { window.printed = document.querySelector('#kept').innerText })")
    paper = browser.paper()
    assert kept and all(name in browser.ask("window.printed") for name in kept)  # what is folded on a screen, too
    assert browser.ask("document.querySelectorAll('details[open]').length") == 0
    assert paper.startswith(b"%PDF-") and paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") < 40


def test_without_scripts(browser, page):
    found = report_page.read(page)
    browser.looks(1200)
    browser.scripts(False)
    browser.open(page)
    node = browser.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    rows = browser.call("DOM.querySelectorAll", nodeId=node, selector="#tensors tbody tr")["nodeIds"]
    assert len(rows) == len(found.tables["tensors"]["plain"])
    assert browser.call("DOM.querySelectorAll", nodeId=node, selector="#tensors input, #tensors button")["nodeIds"] == []
    browser.scripts(True)


def test_a_hundred_thousand_rows(browser, weir, tmp_path):
    make_chain(tmp_path / "m.onnx", 100_000)
    weir("cast", tmp_path / "m.onnx", tmp_path / "o.onnx", "--to", "float16", "--min-elements", "1", "--report-html", tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 30_000_000
    rows = opened(browser, tmp_path / "r.html").rows("tensors")
    assert len(rows) >= 100_000
    click(browser, "Tensor")
    click(browser, "Tensor")
    assert browser.ask(NAMES)[0] == max(row["Tensor"] for row in rows)
    assert browser.ask(f"{TENSORS}.querySelectorAll('tr').length") < 100  # those in view, and some around them
    browser.ask(f"{TENSORS}.querySelector('.rows').scrollTop = 1e9")
    browser.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.ask(NAMES)[-1] == min(row["Tensor"] for row in rows)
    seek(browser, rows[77_777]["Tensor"])
    assert rows[77_777]["Tensor"] in browser.ask(NAMES)
