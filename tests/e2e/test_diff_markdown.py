"""`weir diff --format markdown`, read back with a parser of Markdown: rows, cells, and that no name of a file writes any."""

import numpy as np
import onnx
import pytest
from markdown_it import MarkdownIt
from onnx import TensorProto, helper, numpy_helper

from conftest import DATA, package_model
from test_diff import weight

pytestmark = pytest.mark.in_memory

DYNAMO = DATA / "parakeet-dynamo" / "encoder-model.onnx"
HOSTILE = [
    "a|b",
    "a\\|b|",
    "a\\\\|b | c | d |",
    "`a`|``b",
    "```",
    "x\n| forged | row | here |\n",
    "x\r\n\r\n# title",
    "<img src=x onerror=alert(1)>",
    "</code><b>bold</b>",
    "<!-- hidden",
    "&#124;&lt;&amp;",
    "[click](http://example.com)",
    "http://example.com www.example.com",
    "@everyone #1",
    "**bold** _it_ ~~gone~~",
    "$`x`$",
    " blank ",
    "\x1b[31mred",
    "\u202egnp.exe",
    "ä|ö",
    "\\",
    "|",
    "-",
]


def model(path, names, value):
    """A chain of Adds, each of a weight with a name; two models of other values differ in all of them."""
    nodes, weights, before = [], [], "in"
    for i, name in enumerate(names):
        weights.append(numpy_helper.from_array(np.full(3, value + i, np.float32), name))
        nodes.append(helper.make_node("Add", [before, name], [f"v{i}"], name=f"n{i} {name}", doc_string=str(value)))
        before = f"v{i}"
    nodes.append(helper.make_node("Identity", [before], ["out"]))
    io = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("in", "out")]
    made = helper.make_model(helper.make_graph(nodes, "g", io[:1], io[1:], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    for name in names:
        made.metadata_props.add(key=name, value=f"{value} {name}")
    path.write_bytes(made.SerializeToString())
    return path


def cells(text):
    """Rows of the only table, as the texts of their cells; what stands outside of it."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert [t.type for t in tokens].count("table_open") == 1
    rows, outside, row, in_table = [], [], None, False
    for token in tokens:
        in_table = token.type == "table_open" or in_table and token.type != "table_close"
        if token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            rows.append(row)
        elif token.type == "inline":
            (row if in_table else outside).append(token)
    return rows, outside


def shown(token):
    """What a reader sees: texts and code; HTML but for `code` may not be there, nor links."""
    text = ""
    for child in token.children:
        assert child.type in ("text", "code_inline", "html_inline", "text_special"), child.type
        assert child.type != "html_inline" or child.content in ("<code>", "</code>"), child.content
        text += "" if child.type == "html_inline" else child.content
    return text


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_writes_rows(weir, tmp_path, name):
    a, b = model(tmp_path / "a.onnx", [name, "plain"], 1), model(tmp_path / "b.onnx", [name, "plain"], 2)
    text = weir("diff", a, b, "--format", "markdown", code=1).out
    rows, outside = cells(text)
    assert all(len(row) == 3 for row in rows) and len(outside) == 1
    said = [[shown(token) for token in row] for row in rows]
    assert len(text.splitlines()) == 4 + len(rows) - 1  # each row of the table is a line, and no more
    assert not any(c < " " for c in text.replace("\n", ""))
    tensors = [row[0] for row in said if row[0].startswith("tensor ")]
    assert len(tensors) == 2 and "tensor plain" in tensors
    plain = name.replace("\n", "").isprintable() and "\\" not in name
    if plain and "\n" not in name:
        assert f"tensor {name}" in tensors


def test_a_file_name_writes_no_rows(weir, tmp_path):
    a, b = model(tmp_path / "a|`b.onnx", ["w"], 1), model(tmp_path / "<b>.onnx", ["w"], 2)
    rows, _ = cells(weir("diff", a, b, "--format", "markdown", code=1).out)
    assert [shown(token) for token in rows[1]] == ["model", str(a), str(b)]


@pytest.mark.parametrize("n", [1, 12, 13, 40, 400])
def test_at_most_40_lines(weir, tmp_path, n):
    """What is left out is counted: rows and the rest are the same number for any cut."""
    names = [f"w{i}" for i in range(n)]
    a, b = model(tmp_path / "a.onnx", names, 1), model(tmp_path / "b.onnx", names, 2)
    lines = weir("diff", a, b, "--format", "markdown", code=1).out.splitlines()
    assert len(lines) <= 40
    wanted = 3 + n + n + 1  # sizes, metadata, tensors; nodes changed alike
    if wanted <= 34:
        assert len(lines) == 4 + wanted and "more" not in lines[-1]
        return
    rest = wanted - 34 + (n - 1)  # of a group that has no row every node counts
    assert len(lines) == 40 and lines[-1] == f"… and {rest} more: `weir diff --all`"


def test_the_same_models(weir, tmp_path):
    a = model(tmp_path / "a.onnx", ["w"], 1)
    assert weir("diff", a, a, "--format", "markdown").out == "**the models are the same**\n"
    assert "--all" in weir("diff", a, a, "--format", "markdown", "--all", code=2).err
    assert "--json" in weir("diff", a, a, "--format", "markdown", "--json", code=2).err


def test_what_a_quantization_did(weir, tmp_path):
    out = tmp_path / "out.onnx"
    weir("quantize", DYNAMO, out, "--block-size", "64")
    rows, outside = cells(weir("diff", DYNAMO, out, "--weights", "values", "--format", "markdown", code=1).out)
    said = [[shown(token) for token in row] for row in rows]
    assert ["number of MatMulNBits", "0", "19"] in said and ["number of MatMul", "25", "6"] in said
    losses = [float(row[2].split("(SQNR ")[1].split(" dB")[0]) for row in said if "SQNR" in row[2]]
    assert len(losses) == 19 and losses == sorted(losses)
    assert said[-1][0] == "19 × MatMul, such as node_MatMul_206"


def test_nodes_that_came_and_went(weir, tmp_path):
    a = model(tmp_path / "a.onnx", ["w"], 1)
    made = onnx.load(a)
    made.graph.node.append(helper.make_node("Neg", ["v0"], ["neg"], name="new|node"))
    made.graph.output.append(helper.make_tensor_value_info("neg", 1, [3]))
    made.graph.initializer.append(weight("extra", 4))
    onnx.save(made, tmp_path / "b.onnx")
    said = [[shown(token) for token in row] for row in cells(weir("diff", a, tmp_path / "b.onnx", "--format", "markdown", code=1).out)[0]]
    assert ["node new|node", "–", "Neg"] in said and ["number of Neg", "0", "1"] in said
    assert ["tensor extra", "–", "float[4]"] in said


def test_a_tensor_that_has_another_name_shows_both(weir, tmp_path):
    """Also where it is paired by what is computed of it: the same type before and after would say nothing."""
    source = package_model("rapidocr", "rec")
    weir("run", source, tmp_path / "o.onnx", "--pass", "tidy", "--pass", "conv2matmul")
    rows, _ = cells(weir("diff", source, tmp_path / "o.onnx", "--format", "markdown", code=1).out)
    rows = [[shown(token) for token in row] for row in rows]
    alike = [row for row in rows if row[0].startswith("tensor ") and row[1] == row[2]]
    assert alike and all(" → " in row[0] for row in alike), alike
