"""Rules of a user's own: weir run --rules, weir passes --rules, and what logs keep of them."""

import json
import re
import subprocess
from pathlib import Path

import mutated_rules
import numpy as np
import onnx
import pytest
from conftest import ALL, built_tool
from onnx import TensorProto, helper, numpy_helper

SOURCE = Path(__file__).resolve().parents[2]
EXPORTS = SOURCE / "tests" / "data" / "exports"
BERT = EXPORTS / "bert-sdpa-torchscript-18.onnx"

BREAK_ADDS = re.search(r"```\n(demo/BreakAdds.*?)```", (SOURCE / "docs" / "rules.md").read_text(), re.S)[1]
DIV = 'mine/DivToMul "a multiplication instead of a division" rounding : Div(x,c) -> Mul(x,Div(like(1,c),c)) where vars(x) & consts(c) & float(c) & all(c,"!=",0) ;\n'
RELU = 'mine/relu "Relu of Relu is Relu" exact : Relu(Relu(x)) -> Relu(x) ;\n'
EXAMPLE = re.search(r"```\n(# What keeps.*?)```", (SOURCE / "docs" / "rules.md").read_text(), re.S)[1]


@pytest.fixture
def rules(tmp_path):
    def write(text, name="my.rules"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def small(tmp_path, nodes, constants=(), out=(1, 2, 4, 4), name="in.onnx"):
    graph = helper.make_graph(
        [helper.make_node(op, ins.split(), [to], name=f"n{i}", **attrs) for i, (op, ins, to, attrs) in enumerate(nodes)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 4, 4])],
        [helper.make_tensor_value_info(nodes[-1][2], TensorProto.FLOAT, out)],
        [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in dict(constants).items()],
    )
    path = tmp_path / name
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def relus(tmp_path):
    return small(tmp_path, [("Relu", "x", "a", {}), ("Relu", "a", "b", {}), ("Relu", "b", "y", {})])


def operators(path):
    return [n.op_type for n in onnx.load(path, load_external_data=False).graph.node]


def changes(said):
    return {name: int(n) for n, name in re.findall(r"(\d+) changes? by ([\w/-]+)", said)}


# ---- a real model ------------------------------------------------------------------------------


def test_a_rule_of_ones_own_on_a_real_model(weir, rules, tmp_path):
    """Every division by a constant is a multiplication, the rest as it was; every site verified by what the rule promises."""
    divisions = operators(BERT).count("Div")
    done = weir("run", BERT, tmp_path / "out.onnx", "--rules", rules(DIV), "--verify", "--edit-log", tmp_path / "log.jsonl")
    after = operators(tmp_path / "out.onnx")
    fired = changes(done.out + done.err)["mine/DivToMul"]
    assert fired > 0 and after.count("Div") == divisions - fired and after.count("Mul") == operators(BERT).count("Mul") + fired
    assert f"verified: {fired} of {fired} sites" in done.out + done.err
    head = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[0])
    assert head["options"]["rules"] == [{"name": "my.rules", "text": DIV}]
    # The log alone makes the same bytes, and says how exact the rule was.
    rules("", "my.rules")
    (tmp_path / "again").mkdir()
    weir("replay", tmp_path / "log.jsonl", BERT, tmp_path / "again" / "out.onnx")
    assert (tmp_path / "again" / "out.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()
    again = weir("verify", BERT, tmp_path / "out.onnx", "--edits", tmp_path / "log.jsonl").out
    assert "mine/DivToMul; relative error" in again
    weir("audit", tmp_path / "out.onnx")


def test_a_wrong_rule_is_found_by_verification(weir, rules, tmp_path):
    wrong = 'mine/wrong exact : Relu(Relu(x)) -> Abs(x) ;'
    done = weir("run", relus(tmp_path), tmp_path / "out.onnx", "--rules", rules(wrong), "--verify", code=1)
    assert "mine/wrong" in done.out + done.err
    assert not (tmp_path / "out.onnx").exists()


def test_the_demo_of_the_docs(weir, rules, tmp_path):
    """BreakAdds fires once at each Add of two values, and verification names what it broke, once."""
    nodes = [("Neg", "x", "a", {}), ("Add", "x a", "b", {}), ("Add", "b b", "c", {}), ("Add", "c a", "y", {})]
    model = small(tmp_path, nodes)
    nameless = onnx.load(model)
    for node in nameless.graph.node:
        node.ClearField("name")
    onnx.save(nameless, model)
    done = weir("run", model, tmp_path / "broken.onnx", "--rules", rules(BREAK_ADDS))
    assert changes(done.out + done.err) == {"demo/BreakAdds": 2}
    assert [list(n.input) for n in onnx.load(tmp_path / "broken.onnx").graph.node if n.op_type == "Add"] == [["x", "x"], ["b", "b"], ["c", "c"]]
    done = weir("run", model, tmp_path / "out.onnx", "--rules", rules(BREAK_ADDS), "--verify", code=1)
    assert re.search(r"verification failed: 'b': \d+ of \d+ elements differ", done.err), done.err
    assert not (tmp_path / "out.onnx").exists()


def test_once(weir, rules, tmp_path):
    """A rule with 'once' skips the nodes that such a rule made, and those that other rules make of them."""
    twice = "mine/twice exact : Relu(x) -> Relu(Relu(x)) once ;\n"
    weir("run", relus(tmp_path), tmp_path / "out.onnx", "--rules", rules(twice))
    assert operators(tmp_path / "out.onnx") == ["Relu"] * 6
    there = "mine/there exact : Relu(x) -> Abs(x) once ;\nmine/back exact : Abs(x) -> Relu(x) ;\n"
    done = weir("run", relus(tmp_path), tmp_path / "same.onnx", "--rules", rules(there))
    assert changes(done.out + done.err) == {"mine/there": 3, "mine/back": 3} and "rewriting stopped" not in done.err
    assert operators(tmp_path / "same.onnx") == ["Relu"] * 3
    # The control: two rules of a set undo each other, and neither says once.
    weir("run", relus(tmp_path), tmp_path / "no.onnx", "--rules", rules(there.replace(" once", "")), code=2)


def test_once_in_a_repeat(weir, rules, tmp_path):
    """Later rounds of a repeat skip graphs in which such a rule fired; otherwise each round would double the model."""
    twice = rules("mine/twice exact : Relu(x) -> Relu(Relu(x)) once ;\n")
    done = weir("run", relus(tmp_path), tmp_path / "out.onnx", "--rules", twice, "--pass", "repeat=5(mine)")
    assert operators(tmp_path / "out.onnx") == ["Relu"] * 6 and "stopped" not in done.err
    weir("run", tmp_path / "out.onnx", tmp_path / "next.onnx", "--rules", twice)
    assert operators(tmp_path / "next.onnx") == ["Relu"] * 12


def test_one_value_or_two(weir, rules, tmp_path):
    nodes = [("Add", "x x", "a", {}), ("Neg", "x", "n", {}), ("Add", "a n", "y", {})]
    model = small(tmp_path, nodes)
    for condition, left in ("x is y", ["Mul", "Neg", "Add"]), ("x is not y", ["Add", "Neg", "Mul"]), ("!(x is y) & vars(x)", ["Add", "Neg", "Mul"]):
        weir("run", model, tmp_path / "out.onnx", "--rules", rules(f"mine/a exact : Add(x,y) -> Mul(x,y) where {condition} ;"), "--force")
        assert [op for op in operators(tmp_path / "out.onnx")] == left, condition


def test_what_a_log_keeps_is_what_its_changes_are_judged_by(weir, rules, tmp_path):
    """A rule that says exact and is not: without the rules in the log nobody would know what it said."""
    nearly = "mine/nearly exact : Abs(Relu(x)) -> Mul(Relu(x),like(1.00001,x)) ;"
    model = small(tmp_path, [("Relu", "x", "a", {}), ("Abs", "a", "y", {})])
    weir("run", model, tmp_path / "out.onnx", "--rules", rules(nearly), "--edit-log", tmp_path / "log.jsonl")
    weir("verify", model, tmp_path / "out.onnx", "--edits", tmp_path / "log.jsonl", code=1)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    head = json.loads(lines[0])
    del head["options"]["rules"]
    (tmp_path / "less.jsonl").write_text("\n".join([json.dumps(head, separators=(",", ":")), *lines[1:-1]]) + "\n")
    weir("verify", model, tmp_path / "out.onnx", "--edits", tmp_path / "less.jsonl", "--partial")


# ---- names -------------------------------------------------------------------------------------


def test_the_example_of_the_docs(weir, rules, tmp_path):
    path = rules(EXAMPLE)
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [("Mul", "x s", "a", {}), ("MaxPool", "a", "y", pool)]
    model = small(tmp_path, nodes, {"s": 0.37}, (1, 2, 2, 2))
    done = weir("run", model, tmp_path / "out.onnx", "--rules", path, "--verify")
    assert changes(done.out + done.err) == {"mine/ScalePastMaxPool": 1}
    assert operators(tmp_path / "out.onnx") == ["MaxPool", "Mul"]
    # A scale below 0, or a product that is used elsewhere, stays where it is.
    weir("run", small(tmp_path, nodes, {"s": -0.37}, (1, 2, 2, 2)), tmp_path / "same.onnx", "--rules", path)
    assert operators(tmp_path / "same.onnx") == ["Mul", "MaxPool"]


def test_passes_lists_them(weir, rules):
    path = rules(RELU + DIV + 'other/{F}Same "{F} of itself" for F in Max Min exact : {F}(x,x) -> x ;')
    listed = weir("passes", "--rules", path).out
    assert [m for m in re.findall(r"^  (\S+)  ", listed, re.M)] == ["mine/relu", "mine/DivToMul", "other/MaxSame", "other/MinSame"]
    found = json.loads(weir("passes", "--rules", path, "--json").out)
    assert [(p["name"], p["exactness"], p["from"]) for p in found["passes"]] == [
        ("mine/relu", "exact", f"{path}:1"),
        ("mine/DivToMul", "rounding", f"{path}:2"),
        ("other/MaxSame", "exact", f"{path}:3"),
        ("other/MinSame", "exact", f"{path}:3"),
    ]
    one = weir("passes", "--rules", path, "mine/relu").out
    assert "exact: Relu(Relu(x)) -> Relu(x)" in one and "--rules FILE --pass mine/relu" in one
    assert "mine/relu" not in weir("passes").out


def test_passes_of_both_kinds_run_in_one_pipeline(weir, rules, tmp_path):
    path = rules(RELU)
    model = small(tmp_path, [("Identity", "x", "i", {}), ("Relu", "i", "a", {}), ("Identity", "a", "b", {}), ("Relu", "b", "y", {})])
    done = weir("run", model, tmp_path / "out.onnx", "--rules", path, "--pass", "repeat(tidy/identity,mine)", "--edit-log", tmp_path / "log")
    assert changes(done.out + done.err) == {"tidy/identity": 2, "mine/relu": 1}
    assert operators(tmp_path / "out.onnx") == ["Relu"]
    (tmp_path / "p.yaml").write_text("passes:\n  - tidy/identity\n  - mine/relu: {exclude: [n3]}\n")
    weir("run", model, tmp_path / "config.onnx", "--rules", path, "--config", tmp_path / "p.yaml")
    assert operators(tmp_path / "config.onnx") == ["Relu", "Relu"]
    # Passes of the catalogue alone leave the log as it is without the file.
    for name, options in ("with", ["--rules", path]), ("without", []):
        weir("run", model, tmp_path / f"{name}.onnx", "--pass", "tidy/identity", "--edit-log", tmp_path / name, "--no-manifest", *options)
    heads = [json.loads((tmp_path / name).read_text().splitlines()[0]) for name in ("with", "without")]
    assert heads[0]["options"] == heads[1]["options"] and heads[0]["command"] == heads[1]["command"] == "tidy/identity"


def test_exactness_holds_rules_back(weir, rules, tmp_path):
    done = weir("run", BERT, tmp_path / "out.onnx", "--rules", rules(DIV), "--exactness", "zero")
    assert "mine/DivToMul" not in changes(done.out + done.err)
    assert operators(tmp_path / "out.onnx").count("Div") == operators(BERT).count("Div")


def test_lists_of_one_file_are_known_in_the_next(weir, rules, tmp_path):
    first, second = rules("ops SAME = Max Min ;\n", "a.rules"), rules("mine/{F} for F in $SAME exact : {F}(x,x) -> x ;", "b.rules")
    assert "mine/Max" in weir("passes", "--rules", first, "--rules", second).out
    assert "list 'SAME' does not exist" in weir("passes", "--rules", second, "--rules", first, code=2).err


@pytest.mark.parametrize("n", [2, 253, 254, 3000])
def test_operands_of_any_number(weir, rules, tmp_path, n):
    text = "mine/Up exact : Concat<axis=k>(each ts: Relu(x)) -> Relu(Concat<axis=k>(each t in ts: t.x)) ;\n"
    nodes = [helper.make_node("Relu", [f"x{i}"], [f"r{i}"]) for i in range(n)]
    nodes.append(helper.make_node("Concat", [f"r{i}" for i in range(n)], ["y"], axis=0))
    ins = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [2]) for i in range(n)]
    graph = helper.make_graph(nodes, "g", ins, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2 * n])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "in.onnx")
    weir("run", tmp_path / "in.onnx", tmp_path / "out.onnx", "--rules", rules(text))
    assert operators(tmp_path / "out.onnx") == ["Concat", "Relu"]


def test_opposites_in_different_sets_do_not_run_as_one_walk(weir, rules, tmp_path):
    """Two families are two sets: each runs to its end, one after the other."""
    path = rules("to/greater exact : Less(x,y) -> Greater(y,x) ;\nback/less exact : Greater(x,y) -> Less(y,x) ;\n")
    nodes = [("Less", "x c", "l", {}), ("Cast", "l", "y", {"to": 1})]
    done = weir("run", small(tmp_path, nodes, {"c": 1}), tmp_path / "out.onnx", "--rules", path)
    assert changes(done.out + done.err) == {"to/greater": 1, "back/less": 1}
    assert operators(tmp_path / "out.onnx") == ["Less", "Cast"]


def test_attributes_of_an_alternative_that_was_not_taken(weir, rules, tmp_path):
    """There are none to copy: those of the model's first node are none of the rule's business."""
    path = rules("mine/a exact : Neg((Elu<*e>(x)|x)) -> Elu<*e>(x) where none(none) ;".replace("none(none)", "uses(x) > 0"))
    nodes = [("LeakyRelu", "x", "a", {"alpha": 0.5}), ("Neg", "a", "y", {})]
    weir("run", small(tmp_path, nodes), tmp_path / "out.onnx", "--rules", path)
    node = next(n for n in onnx.load(tmp_path / "out.onnx").graph.node if n.op_type == "Elu")
    assert len(node.attribute) == 0


# ---- what is wrong -----------------------------------------------------------------------------

WRONG = {
    # name: (text, place, what is said, hint)
    "operator": ("m/a exact : Idenity(x) -> x ;", "1:13", "there is no operator 'Idenity'", "did you mean 'Identity'?"),
    "operator of another domain": ("m/a exact : ops::Sillu(x) -> x ;", "1:18", "there is no operator 'ops::Sillu'", "did you mean 'ops::Silu'?"),
    "operator of a template": ("m/a{F} for F in Add Subb exact : {F}(x,x) -> x ;", "1:34", "there is no operator 'Subb'", "did you mean 'Sub'?"),
    "function": ("m/a exact : Relu(x) -> x where const(x) ;", "1:32", "there is no function 'const'", "did you mean 'consts'?"),
    "name": ("m/a exact : Relu(some) -> sone ;", "1:27", "'sone' is not bound by the pattern", "did you mean 'some'?"),
    "name of each": ("m/a exact : Sum(each t: Relu(x)) -> Relu(Sum(each t in ts: t.x)) ;", "1:46", "'ts' is not bound by the pattern", "did you mean 't'?"),
    "field of each": ("m/a exact : Sum(each ts: Relu(xx)) -> Relu(Sum(each t in ts: t.xy)) ;", "1:62", "'xy' is not bound by the pattern of 'each'", "did you mean 'xx'?"),
    "list": ("ops UNARY = Relu ;\nm/a{F} for F in $UNARI exact : {F}(x) -> x ;", "2:17", "list 'UNARI' does not exist", "did you mean '$UNARY'?"),
    "no list": ("m/a{F} for F in $SOME exact : {F}(x) -> x ;", "1:17", "list 'SOME' does not exist", "define a list before its use: ops SOME = Add Mul ;"),
    "column": ("m/a exact : {F}(x) -> x ;", "1:13", "'{F}' is undefined: there is no 'for F'", None),
    "row": ("m/a for F/G in Add/Mul Sub exact : {F}(x,y) -> {G}(x,y) ;", "1:24", "'Sub' does not fit 'for F/G'", None),
    "literal": ("m/a for v in 1 two exact : Mul(x,{v}) -> x ;", "1:34", "'two' is not a number, inf, true, false or ones", None),
    "large number": ("m/a exact : Mul(x,99999999999999999999) -> x ;", "1:19", "99999999999999999999 does not fit in 64 bits", None),
    "arguments": ("m/a exact : Relu(x) -> x where same(x) ;", "1:32", "'same' takes 2 arguments, not 1", None),
    "more arguments": ("m/a exact : Relu(x) -> x where consts() ;", "1:32", "'consts' takes 1 or more arguments, not 0", None),
    "operands": ("m/a exact : Relu(Relu(x)) -> Relu(x,x) ;", "1:30", "'Relu' takes 1 operand, not 2", None),
    "kinds": ("m/a exact : Relu(x) -> x where rank(rank(x)) == 1 ;", "1:37", "'rank(x)' is a number, but a tensor is needed", None),
    "two kinds": ("m/a exact : Cast<to=x>(x) -> x ;", "1:24", "'x' is used for two kinds of things", None),
    "two lists of one name": ("m/a exact : Sum(each t: Max(each t: x)) -> x ;", "1:29", "'each' cannot be nested", None),
    "comparison": ("m/a exact : Add(x,y) -> x where x == y ;", "1:35", "'x == y' compares values that cannot be compared", "'x is y' and 'x is not y' compare two names of values"),
    "constant": ("m/a exact : Add(x,y) -> Mul(x,2) ;", "1:31", "'2' is a number, but a tensor is needed", "like(2,x) is a constant of the type of x"),
    "identity of numbers": ("m/a exact : Add(x,y) -> x where rank(x) is rank(y) ;", "1:33", "'rank(x)' is a number, but a tensor is needed", None),
    "after once": ("m/a exact : Add(x,y) -> x once more ;", "1:32", "'more' is not expected here", None),
    "choice": ("m/a exact : Cast<to=t>(x) -> Cast<to=t>(rank(x) == 1 ? x : t) where rank(x) == 1 ;", "1:54", "'x' and 't' are of different kinds", None),
    "attributes": ("m/a exact : Relu(x) -> Elu<*>(x) ;", "1:24", "'<*>' is not bound by the pattern", None),
    "twice": ("m/a exact : Elu<alpha=a,alpha=b>(x) -> x ;", "1:25", "'alpha' is there twice", None),
    "attribute": ("m/a exact : Elu<alpha=0.5>(x) -> x ;", "1:23", "an attribute of a pattern is a whole number, a text, none or a name", "name it and compare it in the condition: alpha=f … where f == 0.5"),
    "level": ("m/a : Relu(x) -> x ;", "1:5", "the exactness of the rule is missing: write exact, zero, rounding or finite before the ':'", "exact: the same bits for all inputs; zero: the same except -0 and NaN payloads; rounding: the same up to rounding; finite: the same if there is no NaN, infinity, zero divisor, or comparison that rounding decides"),
    "colon": ("m/a exact Relu(x) -> x ;", "1:1", "a rule needs a ':'", None),
    "end": ("m/a exact : Relu(x) -> x", "1:1", "the last statement does not end with ';'", None),
    "empty": ("m/a exact : Relu(Relu(x)) -> Relu(x) ;;", "1:39", "a statement is empty", None),
    "text": ('m/a "so exact : Relu(x) -> x ;\n', "1:31", "a text must end on its line: '\"' is missing", None),
    "arrow": ("# first\n\n  m/a exact :\n    Relu(x) x ;", "4:13", "'->' is expected before 'x', after 'Relu ( x )'", None),
    "umlauts count once": ('m/a "äöü" exact : Idenity(x) -> x ;', "1:19", "there is no operator 'Idenity'", "did you mean 'Identity'?"),
    "root": ("m/a exact : x -> x ;", "1:13", "a pattern begins with an operator", None),
    "capital": ("m/a exact : Relu(X) -> x ;", "1:18", "'X' is not allowed in a pattern", "names of values begin with a small letter; operators have parentheses"),
    "many": ("m/a exact : Sum(xs...,y) -> y ;", "1:17", "only the last operand may be 'xs...' or 'each'", None),
    "many alone": ("m/a exact : Sum(y,xs...) -> y ;", "1:19", "an operand 'xs...' or 'each' must be the only operand", None),
    "rest of the line": ("m/a exact : Relu(x) -> x because ;", "1:26", "'because' is not expected here", None),
    "since": ("m/a exact : Relu(Relu(x)) -> Relu(x) since ever ;", "1:44", "'since' must be followed by the number of an opset", None),
    "name of a part in a condition": ("m/a exact : Relu(x) -> x where finite(x@y) ;", "1:40", "a name cannot be given in a condition", None),
    "a loop in a loop": ("m/a exact : Sum(xs...) -> Max(each x in xs: Sum(each y in xs: y)) ;", "1:49", "'each' cannot be nested", None),
    "not many": ("m/a exact : Relu(x) -> Max(each y in x: y) ;", "1:28", "'x' is not a list of operands", None),
    "no element": ("m/a exact : Relu(x) -> Max(x.y) ;", "1:28", "'x' is not an element of 'each'", None),
    "no family": ("relu exact : Relu(Relu(x)) -> Relu(x) ;", "1:1", "'relu' has no family", "name the rule FAMILY/NAME: mine/relu"),
    "a family in a template": ("{F}/a for F in Max exact : {F}(x,x) -> x ;", "1:1", "'{F}/a' has no family", "name the rule FAMILY/NAME: mine/{F}/a"),
    "taken": ("\ntidy/identity exact : Relu(Relu(x)) -> Relu(x) ;", "2:1", "a pass with this name exists already", "use another family and name for the rule"),
    "no name": ("m/a* exact : Relu(x) -> x ;", "1:1", "'m/a*' is not a name", None),
    "code": ("m/a : proc fold ;", "1:7", "only rules are allowed here, not 'proc' or 'group'", None),
    "list without a name": ("ops = Add ;", "1:1", "write a list as: ops NAME = Add Mul ;", None),
    "loop": ("m/a{F} for F Add exact : {F}(x,x) -> x ;", "1:12", "write a loop as: for F in Add Mul", None),
    "grows": ("m/a exact : Relu(x) -> Relu(Relu(x)) ;", "1:1", "the result is not smaller than the pattern and contains Relu again: rewriting may not end", "with 'once' at its end, a rule does not match nodes that such a rule created"),
    "itself": ("m/a exact : Less(x,y) -> Less(y,x) ;", "1:1", "the rule reverses itself: rewriting would not end", "the rule is: m/a exact : Less(x,y) -> Less(y,x)"),
    "a comparison of what is rounded": (
        "m/a rounding : Greater(Add(x,z),Add(y,z)) -> Greater(x,y) ;",
        "1:1",
        "the level must be 'finite': the rule changes rounding before a comparison or before a conversion to whole numbers",
        "the rule is: m/a rounding : Greater(Add(x,z),Add(y,z)) -> Greater(x,y)",
    ),
    "whole numbers of what is rounded": (
        "m/a for F in Abs Floor rounding : {F}(Mul(Exp(x),Exp(y))) -> {F}(Exp(Add(x,y))) ;",
        "1:1",
        "the level must be 'finite': the rule changes rounding before a comparison or before a conversion to whole numbers",
        "the rule is: m/a for F in Abs Floor rounding : {F}(Mul(Exp(x),Exp(y))) -> {F}(Exp(Add(x,y)))",
    ),
    "opposites of a family": (
        "m/a exact : Less(x,y) -> Greater(y,x) ;\nm/b exact : Greater(x,y) -> Less(y,x) ;",
        "1:1",
        "the rule in FILE:2 (m/b) reverses it: rewriting would not end",
        "put opposite rules into different sets",
    ),
    "a circle": (
        "m/a exact : Abs(x) -> Relu(Neg(Elu(x))) ;\nm/b exact : Elu(x) -> Neg(Abs(Exp(x))) ;",
        "2:1",
        "Abs makes Elu makes Abs, and none of these rules makes the graph smaller: rewriting may not end",
        "the rule is: m/b exact : Elu(x) -> Neg(Abs(Exp(x)))",
    ),
    "many nodes": ("m/a exact : " + "Relu(" * 17 + "x" + ")" * 17 + " -> x ;", "1:1", "a rule may have 32 names, 16 nodes and 16 choices", None),
    "deep": ("m/a exact : " + "Relu(" * 60 + "x" + ")" * 60 + " -> x ;", "1:253", "the rule is nested more than 48 deep", None),
    "many names": ("m/a exact : Max(" + ",".join(f"x{i}" for i in range(70)) + ") -> x0 ;", "1:263", "a pattern's operator has at most 64 operands", None),
    "control": ("m/a exact : Relu(\x1bx) -> x ;", "1:18", "a control character (U+001B) is not allowed here", None),
    "long": ("m/a exact : Relu(" + "x" * 20000 + ") -> x ;", "1:16385", "the statement is longer than 16384 characters", None),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_has_a_place(case, weir, rules, tmp_path):
    text, place, message, hint = WRONG[case]
    path = rules(text)
    said = weir("run", relus(tmp_path), tmp_path / "out.onnx", "--rules", path, code=2).err.splitlines()
    assert said[0] == f"weir: error: {path}:{place}: {message.replace('FILE', str(path))}"
    if hint:
        assert said[1] == f"hint: {hint}"
    assert not (tmp_path / "out.onnx").exists()


def test_more_names_than_a_user_can_have(weir, rules, tmp_path):
    """Each is a pass among all; rules of one name are one, and a template has one for each row."""
    one = "mine{i}/a exact : Relu(Relu(Relu(x))) -> Relu(x) ;"
    weir("passes", "--rules", rules("\n".join(one.replace("{i}", str(i)) for i in [*range(2048), 7])))
    path = rules("\n".join(one.replace("{i}", str(i)) for i in range(2049)))
    said = weir("run", relus(tmp_path), tmp_path / "out.onnx", "--rules", path, code=2).err
    assert f"{path}:2049:1: there are more than 2048 names of rules" in said and "rules of one name are one pass" in said
    words = " ".join(f"{i}" for i in range(2, 50))
    path = rules(f"m/a{{F}}x{{G}} for F in {words} for G in {words} exact : Max(x,{{F}},{{G}}) -> Max(x,{{F}}) ;")
    assert "there are more than 2048 names of rules" in weir("passes", "--rules", path, code=2).err
    # One template again and again, with other rows each time; the same rows are the same names.
    one = "m/a{F} for F in %s exact : Relu(Relu(Relu(x))) -> Relu(x) ;"
    words = [" ".join(f"w{i}" for i in range(k, k + 64)) for k in range(0, 2112, 64)]
    weir("passes", "--rules", rules("\n".join(one % row for row in words[:32] + words[:4])))
    path = rules("\n".join(one % row for row in words[:32] + words[:4] + words[32:]))
    assert f"{path}:37:1: there are more than 2048 names of rules" in weir("passes", "--rules", path, code=2).err
    path = rules("m/b{F} for F in w1 w2 exact : Relu(Relu(Relu(x))) -> Relu(x) ; m/b{G} for F in w1 exact : Relu(Relu(Relu(x))) -> Relu(x) ;")
    assert f"{path}:1:64: '{{G}}' is undefined" in weir("passes", "--rules", path, code=2).err


def test_bytes_that_are_no_text(weir, rules, tmp_path):
    path = tmp_path / "my.rules"
    path.write_bytes(b"m/a exact : Relu(x) \xff -> x ;")
    assert f"{path}:1:21: the file is not UTF-8 text" in weir("passes", "--rules", path, code=2).err
    path.write_bytes(b"#" * (1 << 20) + b"\n")
    assert "more than 1 MiB of rules" in weir("passes", "--rules", path, code=2).err


def test_files_that_are_not_there_or_empty(weir, rules, tmp_path):
    model = relus(tmp_path)
    assert "the rules 'none.rules' cannot be read" in weir("run", model, tmp_path / "o.onnx", "--rules", "none.rules", code=66).err
    assert "there is no rule in" in weir("run", model, tmp_path / "o.onnx", "--rules", rules("# nothing\n"), code=2).err


# ---- any text ----------------------------------------------------------------------------------


def test_rules_with_mistakes_in_them(tmp_path):
    """Of the house's rules, with mistakes put in: those that still are rules run, the others have an error with a place."""
    for i, text in enumerate(mutated_rules.files(20000 if ALL else 400, seed=7)):
        (tmp_path / f"{i:05}").write_bytes(text)
    done = subprocess.run([built_tool("fuzz_rules_text"), tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- the page ----------------------------------------------------------------------------------


def test_the_page_has_every_function():
    page = (SOURCE / "docs" / "rules.md").read_text()
    names = re.findall(r"^RULES_FUNCTION\((\w+),", (SOURCE / "src/passes/rules/compile/rules_functions.def").read_text(), re.M)
    assert len(names) > 60
    assert [n for n in names if not re.search(rf"`{n}\(", page)] == []


def test_the_examples_of_the_page_are_rules(weir, rules):
    page = (SOURCE / "docs" / "rules.md").read_text()
    blocks = [b.partition("\n")[2] for b in page.split("```")[1::2] if " exact : " in b or " zero :" in b]
    assert len(blocks) == 3
    for block in blocks:
        assert re.search(r"  (mine|demo)/", weir("passes", "--rules", rules(block)).out)


def test_ways_to_match_are_limited_and_said(weir, rules, tmp_path):
    """15 Adds, each of a value and itself, may be turned in 2^15 ways at each node."""
    doubled = [("Add", f"{before} {before}", after, {}) for before, after in zip(["x", *(f"a{i}" for i in range(29))], [*(f"a{i}" for i in range(29)), "y"])]
    text = f"mine/Adds exact : {'Add(' * 15}Neg(x){''.join(f',{name})' for name in 'abcdefghijklmno')} -> x ;\n"
    done = weir("run", small(tmp_path, doubled), tmp_path / "out.onnx", "--rules", rules(text))
    assert "more than 4096 ways to match at one node: mine/Adds" in done.err
    assert operators(tmp_path / "out.onnx") == ["Add"] * 30


def test_who_runs_them_unverified_is_told(weir, tmp_path, rules):
    """A promise of a rule is its author's: nobody looked. The control: with --verify somebody does, and a rule of the book is known."""
    source, wrong = relus(tmp_path), rules('mine/wrong "no Relu at all" exact : Relu(x) -> x ;\n')
    words = ["run", source, tmp_path / "o.onnx", "--force"]
    said = "weir does not prove that your own rules are correct"
    assert said in (done := weir(*words, "--rules", wrong)).err and "--verify compares" in done.err
    assert "verification failed" in (done := weir(*words, "--rules", wrong, "--verify", code=1)).err and said not in done.err
    assert said not in weir(*words, "--rules", wrong, "--pass", "tidy").err
    assert said not in weir(*words, "--pass", "fuse").err
    assert said not in weir(*words, "--rules", wrong, "--quiet").err
