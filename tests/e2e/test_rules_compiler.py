"""The compiler of rules says where a rule is wrong, and what is wrong with it; what is right becomes tables."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import built_tool

SOURCE = Path(__file__).resolve().parents[2] / "src"
RULES = SOURCE / "passes" / "rules"
TESTS = SOURCE.parent / "tests"


def run(compiler, folder, files, name="book"):
    """(exit code, messages, the C file or None) of the build's compiler (python) or that of weir (c)."""
    made = folder / f"{compiler}.c"
    made.unlink(missing_ok=True)
    if compiler == "c":
        program = [built_tool("rules_compiler")]
    else:
        program = [sys.executable, "-B", RULES / "compile_rules.py", "--schema", SOURCE / "schema", "--functions", RULES / "compile" / "rules_functions.def"]
    done = subprocess.run([*program, "--name", name, "-o", made, *files], capture_output=True, text=True)
    return done.returncode, done.stderr, made.read_text() if made.exists() else None


def compile_rules(compiler, folder, text):
    """Of one file `t.rules`."""
    (folder / "t.rules").write_text(text)
    return run(compiler, folder, [folder / "t.rules"])


def tables(made):
    """What a C file says, by table: its tokens, numbers by their value."""
    tokens = re.findall(r'"(?:\\.|[^"\\])*"|0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?|\w+|[^\w\s,]', made.partition("\n\n")[2])
    values = [float.fromhex(t) if t.startswith("0x") else float(t) if t[0].isdigit() else t for t in tokens]
    found, table = {}, []
    for value in values:
        table.append(value)
        if value == ";":
            head = table[: table.index("=")] if "=" in table else table
            found[" ".join(map(str, head))], table = table, []
    assert not table
    return found


WRONG = {
    "no level": ("a : Identity(x) -> x ;", "t.rules:1: the exactness of the rule is missing"),
    "no end": ("a exact : Identity(x) -> x", "t.rules:1: the last statement does not end with ';'"),
    "second line": ("a exact : Identity(x) -> x ;\n\nb exact : Identity(x) x ;", "t.rules:3: '->' is expected before 'x'"),
    "operator": ("a exact : Idenity(x) -> x ;", "there is no operator 'Idenity'"),
    "operator of a template": ("a for F in Add Subb exact : {F}(x,y) -> x ;", "there is no operator 'Subb'"),
    "other domain": ("a exact : ops::Nothing(x) -> x ;", "there is no operator 'ops::Nothing'"),
    "unbound in the result": ("a exact : Identity(x) -> y ;", "'y' is not bound by the pattern"),
    "unbound in the condition": ("a exact : Identity(x) -> x where consts(y) ;", "'y' is not bound by the pattern"),
    "unbound column": ("a exact : {F}(x) -> x ;", "'{F}' is undefined: there is no 'for F'"),
    "unbound attributes": ("a exact : Relu(x) -> Elu<*>(x) ;", "'<**>' is not bound by the pattern".replace("**", "*")),
    "function": ("a exact : Identity(x) -> x where konsts(x) ;", "there is no function 'konsts'"),
    "arguments": ("a exact : Identity(x) -> x where same(x) ;", "'same' takes 2 arguments, not 1"),
    "operands": ("a exact : Relu(Relu(x)) -> Relu(x,x) ;", "'Relu' takes 1 operand, not 2"),
    "operands of a template": ("a for F in Add Relu exact : {F}(x,y) -> x ;", "'Relu' takes 1 operand, not 2"),
    "few operands": ("a exact : Where(x) -> x ;", "'Where' takes 3 operands, not 1"),
    "many operands": ("a exact : Clip(x,a,b,c) -> x ;", "'Clip' takes at most 3 operands, not 4"),
    "kinds": ("a exact : Identity(x) -> x where rank(rank(x)) == 1 ;", "'rank(x)' is a number, but a tensor is needed"),
    "attribute as a tensor": ("a exact : Cast<to=t>(x) -> t ;", "'t' is an attribute, but a tensor is needed"),
    "two kinds": ("a exact : Cast<to=x>(x) -> x ;", "'x' is used for two kinds of things"),
    "comparison": ("a exact : Add(x,y) -> x where x == y ;", "compares values that cannot be compared"),
    "identity of numbers": ("a exact : Add(x,y) -> x where rank(x) is y ;", "'rank(x)' is a number, but a tensor is needed"),
    "once twice": ("a exact : Add(x,y) -> Add(x,x) once once ;", "'once' is not expected here"),
    "list": ("a for F in $NONE exact : {F}(x) -> x ;", "list 'NONE' does not exist"),
    "row": ("a for F/G in Add/Mul Sub exact : {F}(x,y) -> {G}(x,y) ;", "'Sub' does not fit 'for F/G'"),
    "literal": ("a for v in 1 two exact : Mul(x,{v}) -> x ;", "'two' is not a number"),
    "root": ("a exact : x -> x ;", "a pattern begins with an operator"),
    "many": ("a exact : Sum(xs...,y) -> y ;", "only the last operand may be 'xs...' or 'each'"),
    "rest of the line": ("a exact : Identity(x) -> x because ;", "'because' is not expected here"),
}


# What only the compiler in C sees: the build has it read the house's rules too (rules_proven).
UNPROVEN = {
    "grows": ("a exact : Relu(x) -> Relu(Relu(x)) ;", "the result is not smaller than the pattern and contains Relu again"),
    "no constants": ("a exact : Sum(xs...) -> Sum(each x in xs: x) ;", "the result is not smaller than the pattern and contains Sum again"),
    "opposites": (
        "set s ;\na exact : Relu(Transpose<perm=p>(x)) -> Transpose<perm=p>(Relu(x)) ;\n"
        "b exact : Transpose<perm=p>(Relu(x)) -> Relu(Transpose<perm=p>(x)) ;",
        "t.rules:2: the rule in t.rules:3 (b) reverses it",
    ),
    "a comparison of what is rounded": ("a rounding : Less(Mul(x,z),y) -> Less(x,Div(y,z)) where consts(y,z) & vars(x) ;", "before a comparison or before a conversion to whole numbers"),
    "a result with a sum": ("a rounding : Less(Relu(Add(x,y)),y) -> Less(Add(x,y),least_sum(y,x)) ;", "before a comparison or before a conversion to whole numbers"),
    "itself": ("a exact : Less(x,y) -> Less(y,x) ;", "the rule reverses itself"),
    "circle": (
        "set s ;\na exact : Abs(x) -> Relu(Neg(Elu(x))) ;\nb exact : Elu(x) -> Neg(Abs(Exp(x))) ;",
        "and none of these rules makes the graph smaller: rewriting may not end",
    ),
}


def refuses(compiler, folder, text, message):
    code, said, made = compile_rules(compiler, folder, text + "\n")
    assert code == 1 and made is None
    assert said.startswith("t.rules:")
    assert message in re.sub(r"^(t.rules:\d+):\d+", r"\1", said)


@pytest.mark.parametrize("compiler", ["python", "c"])
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case, compiler, tmp_path):
    refuses(compiler, tmp_path, *WRONG[case])


@pytest.mark.parametrize("case", UNPROVEN)
def test_what_is_not_proven_is_refused(case, tmp_path):
    refuses("c", tmp_path, *UNPROVEN[case])


JUMP = "the level must be 'finite'"
BEFORE = "a rounding : {}(Mul(Exp(x),Exp(y))%s) -> {}(Exp(Add(x,y))%s) %s;"


@pytest.mark.parametrize("jump, more, where", [
    ("Cast<to=7>", "", ""), ("Cast<to=9>", "", ""), ("Cast<to=17>", "", ""), ("Cast<to=t>", "", ""), ("Cast<to=t>", "", "where t in [1,7] "),
    ("Cast<to=t>", "", "where t == 1 | t == 7 "), ("CastLike", ",z", ""), ("DynamicQuantizeLinear", "", ""), ("TopK", ",z", ""), ("Mod", ",z", ""),
    ("OneHot", ",z,v", ""), ("ThresholdedRelu", "", ""), ("Shrink", "", ""), ("NonZero", "", ""), ("ops::Quant", ",z,p,b", ""), ("ms::QuantizeLinear", ",z,p", ""),
])  # fmt: skip
def test_roundings_before_a_jump_stay(jump, more, where, tmp_path):
    code, said, made = compile_rules("c", tmp_path, BEFORE.replace("{}", jump) % (more, more, where))
    assert code == 1 and JUMP in said


@pytest.mark.parametrize("rounds", ["Sin", "Asin", "Softmax", "Gelu", "HardSwish", "CumSum", "Cast<to=10>", "Mean", "ms::QuickGelu", "LayerNormalization"])
def test_what_may_round_is_not_taken_away_before_a_jump(rounds, tmp_path):
    more = {"CumSum": ",z", "LayerNormalization": ",z"}.get(rounds, "")
    code, said, made = compile_rules("c", tmp_path, f"a rounding : Floor({rounds}(x{more})) -> Floor(x) ;")
    assert code == 1 and JUMP in said


@pytest.mark.parametrize("rule", [
    BEFORE.replace("{}", "Cast<to=1>") % ("", "", ""), BEFORE.replace("{}", "Abs") % ("", "", ""), BEFORE.replace("{}", "Gelu") % ("", "", ""),
    "a rounding : Cast<to=t>(Mul(Exp(x),Exp(y))) -> Cast<to=t>(Exp(Add(x,y))) where rank(x) == 1 & t in [1,10,16] ;",
    "a rounding : Cast<to=t>(Mul(Exp(x),Exp(y))) -> Cast<to=t>(Exp(Add(x,y))) where t == 11 ;",
    "a rounding : Floor(Transpose<perm=p>(Abs(x))) -> Transpose<perm=p>(Floor(Abs(x))) ;",
])  # fmt: skip
def test_what_jumps_nowhere_is_rounding(rule, tmp_path):
    assert compile_rules("c", tmp_path, rule)[:2] == (0, "")


RIGHT = {
    "once": "a exact : Add(x,y) -> Add(x,x) where x is not y & rank(x) == 1 once ; b exact : Relu(x) -> Relu(Relu(x)) since 6 once ; c exact : Max(x,y) -> x where x is y ;",
    "signs": "a = : Identity(x) -> x ; b =0 : Add(x,0)@o -> expand(x,o) ; c ~ : Neg(Neg(x)) -> x ; d ! : Sub(x,x) -> fill(0,x) ;",
    "the opposite in another set": (
        "set s ; a exact : Relu(Transpose<perm=p>(x)) -> Transpose<perm=p>(Relu(x)) ;\n"
        "set t ; b exact : Transpose<perm=p>(Relu(x)) -> Relu(Transpose<perm=p>(x)) ;"
    ),
    "constants fold": "a ~ : Add(Add(x,y),z) -> Add(x,Add(y,z)) where vars(x) & consts(y,z) ;",
    "what folds ends": "a ~ : Sum(xs...) -> Sum(each x in xs: x) where consts(xs) ;",
    "templates": 'a{P}{F} "{F} of itself" for P in "" Bitwise for F in And Or exact : {P}{F}(x,x) -> x ;',
    "procedures": "set s ; Fold : proc fold ; All : group a b ; a exact : Identity(x) -> x ;",
    "comments": "# nothing\na exact : Flatten<axis=k>(x) -> Reshape(x,#[prod(dims(x)[:k]),prod(dims(x)[k:])]) where static(x) ; # more",
    "alternatives": "a ~ : Add((Mul(a,x)|x),(Mul(b,x)|x)) -> Mul(x,Add(a ?? like(1,x), b ?? like(1,x))) where none(a) | consts(a) ;",
}


@pytest.mark.parametrize("compiler", ["python", "c"])
@pytest.mark.parametrize("case", RIGHT)
def test_what_is_right_becomes_tables(case, compiler, tmp_path):
    code, said, made = compile_rules(compiler, tmp_path, RIGHT[case])
    assert (code, said) == (0, "")
    assert "const struct rules_book book" in made


@pytest.mark.parametrize("case", RIGHT)
def test_both_compilers_make_the_same_tables(case, tmp_path):
    made = [compile_rules(compiler, tmp_path, RIGHT[case])[2] for compiler in ("python", "c")]
    assert tables(made[0]) == tables(made[1])


BOOKS = {path.stem: [path] for path in sorted((TESTS / "unit").glob("*.rules"))} | {"house": sorted((RULES / "book").glob("*.rules"))}


@pytest.mark.parametrize("book", BOOKS)
def test_both_compilers_make_the_same_books(book, tmp_path):
    made = [run(compiler, tmp_path, BOOKS[book])[2] for compiler in ("python", "c")]
    assert len(tables(made[0])["static const uint16_t code [ ]"]) > 30
    assert tables(made[0]) == tables(made[1])


def test_tables_that_differ_are_told_apart(tmp_path):
    made = [compile_rules("c", tmp_path, text)[2] for text in ("a exact : Add(x,0) -> x ;", "a exact : Add(x,0.5) -> x ;")]
    assert tables(made[0]) != tables(made[1])


def test_templates_stay_tables(tmp_path):
    """A rule for eight operators is one program, with eight rows; four passes that it makes are named."""
    _, _, made = compile_rules("python", tmp_path, RIGHT["templates"])
    assert made.count('"t.rules:1"') == 1
    assert all(f'{{"a{name}", "{name.removeprefix("Bitwise")} of itself"' in made for name in ["And", "Or", "BitwiseAnd", "BitwiseOr"])


def test_the_same_text_gives_the_same_tables(tmp_path):
    made = [compile_rules("c", tmp_path, "\n".join(RIGHT[k] for k in ("templates", "alternatives")))[2] for _ in range(2)]
    assert made[0] == made[1]
