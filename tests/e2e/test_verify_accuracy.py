"""What a model that lost something is called: "verified" is said of outputs on given inputs that keep 10 dB, and of nothing else.

Each test has its control arm: the model that must get another word.
"""

import json

import numpy as np
import onnx
import onnxruntime
import peaks
import pytest
from onnx import TensorProto, helper, inliner, numpy_helper

import exact_products
import report_page
from small_models import save, value

pytestmark = pytest.mark.in_memory

ROWS = 128
UNJUDGED = "not judged (drawn inputs: {} DIR)"


def product(path, weight, behind=(), out="h", shape=("n", 32), dtype=TensorProto.FLOAT, opset=17):
    """x · weight, and what comes behind it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="product"), *behind]
    return save(path, nodes, [value("x", ["n", weight.shape[0]])], [value(out, list(shape), dtype)], {"w": weight}, opset)


@pytest.fixture
def weight():
    return np.random.default_rng(3).normal(size=(64, 32)).astype(np.float32)


@pytest.fixture
def given(tmp_path):
    """A hundred and twenty-eight rows."""
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(4).normal(size=(ROWS, 64)).astype(np.float32))
    return tmp_path / "rows.npz"


def found(weir, *words, code=0):
    return json.loads(weir("verify", *words, "--json", code=code).out)["verification"]


def test_quantized_on_drawn_and_on_given_inputs(weir, tmp_path, weight, given):
    source, out = product(tmp_path / "m.onnx", weight), tmp_path / "q.onnx"
    weir("quantize", source, out, "--block-size", "32")
    done = weir("verify", source, out)
    assert done.out.splitlines()[-1] == UNJUDGED.format("--inputs") + ": 1 of 1 output" and "verified" not in done.out and "passed" not in done.out
    [row] = (of := found(weir, source, out))["rows"]
    assert (of["passed"], of["failed"], of["not_verified"], of["not_judged"]) == (0, 0, 0, 1)
    assert row["status"] == "not_judged" and row["inputs"] == "drawn" and row["loses"] and row["figures"]["sqnr_db"] > 10
    # It counts as not verified where so much is asked for.
    assert "not judged" in weir("verify", source, out, "--require", "100%", code=1).err
    done = weir("verify", source, out, "--inputs", given)
    assert "SQNR of 10 dB" in done.out and done.out.splitlines()[-1] == "verified: 1 of 1 output (100.0 %)"
    # Bounds that somebody gave are judged, and it is said on what.
    done = weir("verify", source, out, "--metric", "sqnr=10")
    assert "passed (drawn; SQNR 10 dB)" in done.out and done.out.splitlines()[-1] == "verified: 1 of 1 output (100.0 %) on drawn inputs"
    assert "differs: SQNR" in weir("verify", source, out, "--metric", "sqnr=60", code=1).err


def test_a_cosine_decides_nothing(weir, tmp_path, weight, given):
    """Twice as large: the same direction, and wrong."""
    source = product(tmp_path / "m.onnx", weight)
    weir("quantize", product(tmp_path / "twice.onnx", weight * 2), tmp_path / "q.onnx", "--bits", "8", "--block-size", "32")
    done = weir("verify", source, tmp_path / "q.onnx", "--inputs", given, code=1)
    assert "'h' differs: SQNR" in done.err and "below 10 dB" in done.err and "differs (" in done.out
    [row] = found(weir, source, tmp_path / "q.onnx", "--inputs", given, code=1)["rows"]
    assert row["figures"]["cosine"] > 0.999 and row["status"] == "failed"
    # What is wrong about its sizes is wrong on drawn inputs too.
    weir("verify", source, tmp_path / "q.onnx")
    weir("quantize", product(tmp_path / "wide.onnx", np.hstack([weight, weight]), shape=("n", 64)), tmp_path / "w.onnx", "--block-size", "32")
    assert "float" in weir("verify", source, tmp_path / "w.onnx", code=1).err


@pytest.mark.parametrize("bits, changed", [("8", 0), ("2", 64)])
def test_a_run_that_ends_with_its_check(weir, tmp_path, bits, changed):
    """Where too many rows change their class nothing is written. In 2 bits each of two classes is off by 0.9, towards the other."""
    w, x = np.zeros((32, 32), np.float32), np.zeros((ROWS, 32), np.float32)
    w[30] = 3  # the range of each column is 0 to 3, and the step 1
    w[:3, 0], w[:3, 1], w[5, 5] = (1.45, 1.45, 0), (0.55, 0.55, 1), 3
    x[:64, :3], x[64:, 5] = (1, 1, 0.5), 1
    np.savez(tmp_path / "rows.npz", x=x)
    source, out = product(tmp_path / "m.onnx", w), tmp_path / "o.onnx"
    words = ["run", source, out, "--pass", f"quantize:bits={bits},block_size=32"]
    check = ["--verify=model", "--verify-inputs", tmp_path / "rows.npz", "--verify-metric", "top1=0.99"]
    said = weir(*words, *check, code=1 if changed else 0)
    assert out.exists() == (not changed) and (f"top-1 changes in {changed} of {ROWS} rows" in said.err) == bool(changed)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("o.")) == ([] if changed else ["o.onnx", "o.onnx.manifest.json"])
    weir(*words, "--force")  # without the check it is


@pytest.mark.parametrize("bits", ["2", "4"])
def test_few_bits_have_no_bound_of_their_own(weir, tmp_path, weight, given, bits):
    source, out = product(tmp_path / "m.onnx", weight), tmp_path / "q.onnx"
    weir("quantize", source, out, "--bits", bits, "--block-size", "32")
    last = weir("verify", source, out, "--inputs", given).out.splitlines()[-1]
    assert last == ("not judged (weights of 2 bits: --metric sqnr=DB): 1 of 1 output" if bits == "2" else "verified: 1 of 1 output (100.0 %)")
    weir("verify", source, out, "--inputs", given, "--metric", "sqnr=0")
    said = weir("quantize", source, out, "--force", "--bits", bits, "--block-size", "32", "--verify=model", "--verify-inputs", given).out
    assert ("--verify-metric sqnr=DB" in said) == (bits == "2")


@pytest.mark.parametrize(
    "words, lossy",
    [
        (["quantize", "--bits", "8", "--block-size", "32"], True),
        (["shrink", "--min-elements", "16"], True),
        (["dynamic"], True),
        (["cast", "--to", "float16"], True),
        (["cast", "--to", "float16", "--graph"], True),
        (["optimize"], False),
        (["run", "--pass", "opset:version=21"], False),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_commands(weir, tmp_path, weight, given, words, lossy):
    """The same by what a command writes, afterwards and on the way; exact passes are proved by drawn inputs, as ever."""
    source, out = product(tmp_path / "m.onnx", weight, [helper.make_node("Identity", ["h"], ["i"]), helper.make_node("Relu", ["i"], ["y"])], "y"), tmp_path / "o.onnx"
    how = ["--output", out] if words[0] == "shrink" else [out]
    said = weir(words[0], source, *how, *words[1:], "--verify=model").out
    assert (UNJUDGED.format("--verify-inputs") in said) == lossy and ("verified: 1 of 1" in said) != lossy
    said = weir("verify", source, out).out
    assert (UNJUDGED.format("--inputs") in said) == lossy and ("verified: 1 of 1" in said) != lossy
    # `lossy` has the reason that the bounds have, where no passes are known.
    [row] = (judged := found(weir, source, out, "--inputs", given))["rows"]
    why = ("16 bits" if words[0] == "cast" else "weights are quantized") if lossy else None
    assert judged["lossy"] == found(weir, source, out)["lossy"] == why
    told = "values rounded to float16" if "--graph" in words else why
    assert row["bounds"] == f"SQNR of 10 dB ({told})" if lossy else row["bounds"].startswith("relative")
    assert "verified: 1 of 1 output (100.0 %)\n" in weir("verify", source, out, "--inputs", given).out
    assert "verified: 1 of 1 output (100.0 %)\n" in weir(words[0], source, *how, *words[1:], "--force", "--verify=model", "--verify-inputs", given).out


@pytest.mark.parametrize(
    "made, words",
    [
        (np.nan, "NaN at 16 of 512 elements where SRC is finite"),
        (-np.inf, "infinite at 16 of 512 elements where SRC is finite"),
        ("both", "NaN at 16 and infinite at 16 of 512 elements where SRC is finite"),
    ],
)
def test_numbers_that_are_none_any_more(weir, tmp_path, weight, given, made, words):
    """On drawn inputs they prove nothing, and are said, whichever output has them; on given ones they fail."""
    behind = [helper.make_node("Add", ["h", "b"], ["y"]), helper.make_node("Relu", ["h"], ["z"])]

    def net(name, bias):
        constants = {"w": weight, "b": bias}
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="product"), *behind]
        return save(tmp_path / name, nodes, [value("x", ["n", 64])], [value("z", ["n", 32]), value("y", ["n", 32])], constants)

    none, some = np.zeros(32, np.float32), np.zeros(32, np.float32)
    some[:2] = [np.nan, np.inf] if made == "both" else [made, 0]
    source, out = net("m.onnx", none), tmp_path / "q.onnx"
    weir("quantize", net("bad.onnx", some), out, "--bits", "8", "--block-size", "32")
    for quiet in ([], ["--quiet"]):
        last = weir("verify", source, out, *quiet).out.splitlines()[-1]
        assert last == f"not judged (drawn inputs: --inputs DIR; {words}): 2 of 2 outputs"
    assert [row["why"] for row in found(weir, source, out)["rows"]] == ["drawn inputs: --inputs DIR", f"drawn inputs: --inputs DIR; {words}"]
    assert "not judged" in weir("verify", source, out, "--require", "1%", code=1).err
    assert "not finite in only one of the two" in weir("verify", source, out, "--inputs", given, code=1).err
    weir("verify", source, out, "--max-abs", "1000", code=1)


QUANTIZED = {
    "8 bits": ["quantize", "--bits", "8", "--block-size", "32"],
    "4 bits": ["quantize", "--bits", "4", "--block-size", "32"],
    "wide blocks": ["quantize", "--bits", "8", "--block-size", "64"],
    "qdq of 4 bits": ["quantize", "--bits", "4", "--block-size", "32", "--format", "qdq", "--opset", "auto"],
    "dynamic": ["dynamic"],
    "integers": ["dynamic", "--form", "integer"],
    "half": ["dynamic", "--exclude", "second"],
    "static": ["static", "--ranges", "ranges.json"],
    "static, in part": ["static", "--ranges", "ranges.json", "--exclude", "second"],
    "operators": ["static", "--ranges", "ranges.json", "--format", "qoperator"],
}  # fmt: skip


@pytest.fixture
def quantized(weir, tmp_path):
    """Makes a quantized model of two products, by its name in QUANTIZED."""
    rng = np.random.default_rng(7)
    constants = {"w": rng.normal(size=(64, 64)).astype(np.float32), "v": rng.normal(size=(64, 64)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="first"), helper.make_node("MatMul", ["h", "v"], ["y"], name="second")]
    source = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 64])], [value("y", ["n", 64])], constants, 21)
    weir("calibrate", source, "-o", tmp_path / "ranges.json", "--data", given_rows(tmp_path))

    def make(name):
        command, *words = QUANTIZED[name]
        weir(command, source, tmp_path / f"{name}.onnx", *[tmp_path / each if each == "ranges.json" else each for each in words], "--force")
        return tmp_path / f"{name}.onnx"

    return make


def given_rows(tmp_path):
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(4).normal(size=(ROWS, 64)).astype(np.float32))
    return tmp_path / "rows.npz"


@pytest.mark.parametrize(
    "before, after, why",
    [
        ("8 bits", "4 bits", "more weights of 4 bits or fewer than in SRC"),
        ("8 bits", "wide blocks", "weights of 8 bits in blocks of 64, which SRC does not have"),
        ("8 bits", "qdq of 4 bits", "more weights of 4 bits or fewer than in SRC"),
        ("8 bits", "static", "activations rounded to 8 bits at more places than in SRC"),
        ("4 bits", "dynamic", "activations rounded to 8 bits at more places than in SRC"),
        ("dynamic", "static", "activations rounded to 8 bits at more places than in SRC"),
        ("static, in part", "static", "more weights of 8 bits or fewer than in SRC"),
        ("half", "dynamic", "more weights of 8 bits or fewer than in SRC"),
        # The same numbers in another form, and other codes in the same places.
        ("static", "static", None),
        ("4 bits", "qdq of 4 bits", None),
        ("dynamic", "integers", None),
        ("static", "operators", None),
    ],
)
def test_two_quantized_models(weir, tmp_path, quantized, before, after, why):
    """What one has lost beside the other is judged as any loss: on given inputs by its SQNR, on drawn ones not at all."""
    source, out = quantized(before), quantized(after)
    drawn, judged = (weir("verify", source, out, *words, code=None) for words in ([], ["--inputs", given_rows(tmp_path)]))
    assert found(weir, source, out, code=None)["lossy"] == why
    if why:
        assert drawn.code == 0 and drawn.out.splitlines()[-1] == UNJUDGED.format("--inputs") + f": 1 of 1 output; lossy: {why}"
        assert judged.code == 0 and f"SQNR of 10 dB ({why})" in judged.out and judged.out.splitlines()[-1] == f"verified: 1 of 1 output (100.0 %); lossy: {why}"
    else:
        assert "not judged" not in drawn.out and "lossy" not in drawn.out and "relative error of 0.0001" in judged.out


def rounded(path, wrong=1.0):
    """Float weights that are rounded as they are computed with, and a MaxPool between codes."""
    nodes, constants = [], {"s": np.float32(0.05), "z": np.uint8(128), "sw": np.float32(0.02 * wrong), "zw": np.int8(0), "w": np.random.default_rng(8).normal(size=(8, 4, 3, 3)).astype(np.float32) / 2}

    def qdq(name, out, scale="s", zero="z"):
        nodes.append(helper.make_node("QuantizeLinear", [name, scale, zero], [out + "q"]))
        nodes.append(helper.make_node("DequantizeLinear", [out + "q", scale, zero], [out]))

    qdq("x", "xd")
    qdq("w", "wd", "sw", "zw")
    nodes.append(helper.make_node("Conv", ["xd", "wd"], ["c"]))
    qdq("c", "cd")
    nodes.append(helper.make_node("MaxPool", ["cd"], ["p"], kernel_shape=[2, 2]))
    qdq("p", "y")
    return save(path, nodes, [value("x", [1, 4, 16, 16])], [value("y", [1, 8, 13, 13])], constants)


def test_other_forms_of_the_same(weir, tmp_path):
    """What looks like a loss, and gives the same numbers, is verified; the control gives others."""
    source, out = rounded(tmp_path / "m.onnx"), tmp_path / "o.onnx"
    verified, words = "verified: 1 of 1 output (100.0 %)", ["--verify=model", "--force"]
    assert verified + "\n" in weir("requantize", source, out, *words).out
    assert weir("verify", source, out).out.splitlines()[-1] == verified
    other = rounded(tmp_path / "other.onnx", wrong=2.0)
    weir("requantize", other, tmp_path / "wrong.onnx")
    last = weir("verify", source, tmp_path / "wrong.onnx").out.splitlines()[-1]
    assert last == UNJUDGED.format("--inputs") + ": 1 of 1 output; lossy: more weights of 8 bits or fewer than in SRC"
    # Operators on codes may round a number between two of them to the other one; their pass is known to lose nothing.
    for form, before, after in (("qoperator", source, "codes.onnx"), ("qdq", tmp_path / "codes.onnx", "back.onnx")):
        said = weir("requantize", before, tmp_path / after, "--to", form, *words).out
        assert "lossy" not in said and (verified in said or UNJUDGED.format("--verify-inputs") in said)


def test_nodes_of_functions_are_no_loss(weir, tmp_path):
    """Written out they are as many as the calls: a function that calls another twice, called twice; a wrong one fails."""
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    inner = [helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["o"])]
    outer = [helper.make_node("Inner", [x, "s", "z"], [y], domain="own") for x, y in (("a", "b"), ("c", "o"))]
    outer.insert(1, helper.make_node("Neg", ["b"], ["c"]))
    functions = [helper.make_function("own", name, ["a", "s", "z"], ["o"], nodes, opset) for name, nodes in (("Inner", inner), ("Outer", outer))]
    calls = [helper.make_node("Outer", [x, "s", "z"], [y], domain="own") for x, y in (("x", "t"), ("e", "y"))]
    paths = [tmp_path / "m.onnx", tmp_path / "wrong.onnx"]
    for path, scale in zip(paths, (0.1, 0.15), strict=True):
        save(path, [calls[0], helper.make_node("Exp", ["t"], ["e"]), calls[1]], [value("x", [64])], [value("y", [64])], {"s": np.float32(scale), "z": np.uint8(128)})
        model = onnx.load(path)
        model.functions.extend(functions)
        model.opset_import.append(opset[1])
        onnx.save(model, path)
        said = weir("run", path, path.with_suffix(".out"), "--pass", "inline-functions", "--verify=model").out
        assert "verified: 1 of 1 output (100.0 %)\n" in said
    assert "relative error of 0.0001" in weir("verify", paths[0], paths[0].with_suffix(".out")).out
    assert "relative" in weir("verify", paths[0], paths[1].with_suffix(".out"), code=1).err


def test_constants_of_functions_are_no_loss(weir, tmp_path):
    """Each call counts: written out, there are more bytes of float16, and a wrong number among them is one."""
    weight = numpy_helper.from_array(np.linspace(-1, 1, 64).astype(np.float16))
    body = [helper.make_node("Constant", [], ["w"], value=weight), helper.make_node("Mul", ["a", "w"], ["o"])]
    function = helper.make_function("own", "Scaled", ["a"], ["o"], body, [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("Scaled", ["x"], ["t"], domain="own"), helper.make_node("Neg", ["t"], ["n"]), helper.make_node("Scaled", ["n"], ["y"], domain="own")]
    half = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [64]) for name in ("x", "y")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = helper.make_model(helper.make_graph(nodes, "g", half[:1], half[1:]), opset_imports=opsets, functions=[function], ir_version=8)
    onnx.save(made, tmp_path / "m.onnx")
    written = inliner.inline_local_functions(made)
    onnx.save(written, tmp_path / "o.onnx")
    assert "\nverified: 1 of 1 output (100.0 %)" in weir("verify", tmp_path / "m.onnx", tmp_path / "o.onnx").out
    [first, _] = (node.attribute[0].t for node in written.graph.node if node.op_type == "Constant")
    first.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(first) * np.float16(1.5), first.name))
    onnx.save(written, tmp_path / "wrong.onnx")
    assert "relative" in weir("verify", tmp_path / "m.onnx", tmp_path / "wrong.onnx", code=1).err


def half_twice(w, x, y):
    """A float16 weight, as it is."""
    return [helper.make_node("Mul", [x, w], [y])]


def codes_cast(w, x, y):
    """A table of codes that a Cast makes floats."""
    return [helper.make_node("Cast", [w], [y + "_w"], to=TensorProto.FLOAT), helper.make_node("Mul", [x, y + "_w"], [y])]


def codes_dequantized(w, x, y):
    return [helper.make_node("DequantizeLinear", [w, "s"], [y + "_w"]), helper.make_node("Mul", [x, y + "_w"], [y])]


def forms_of_two(folder, part, dtype, weight, scale):
    """x · w, its opposite, and that · w again: with one w, with two, with a function that has it, and with one that is given it."""
    held = numpy_helper.from_array(weight, "w")
    opset = [helper.make_opsetid("", 17)]
    factor = np.array(scale, dtype)

    def body(*given):
        constants = [helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(np.float32(0.5)))]
        constants += [] if given else [helper.make_node("Constant", [], ["w"], value=held)]
        return helper.make_function("own", "Part", ["a", *given], ["o"], [*constants, *part("w", "a", "o")], opset)

    def call(given, x, y):
        return [helper.make_node("Part", [x, *given], [y], domain="own")]

    shared = [*part("w", "h", "t"), helper.make_node("Neg", ["t"], ["n"]), *part("w", "n", "y")]
    if part is codes_cast:  # one Cast for both
        shared = [*part("w", "h", "t"), helper.make_node("Neg", ["t"], ["n"]), helper.make_node("Mul", ["n", "t_w"], ["y"])]
    forms = {
        "shared": (shared, None),
        "written": ([*part("w", "h", "t"), helper.make_node("Neg", ["t"], ["n"]), *part("w2", "n", "y")], None),
        "outlined": ([*call([], "h", "t"), helper.make_node("Neg", ["t"], ["n"]), *call([], "n", "y")], body()),
        "given": ([*call(["w"], "h", "t"), helper.make_node("Neg", ["t"], ["n"]), *call(["w"], "n", "y")], body("w")),
    }
    for name, (nodes, function) in forms.items():
        constants = {"f": factor, "s": np.float32(0.5)}
        constants |= {} if name == "outlined" else {"w": weight}
        constants |= {"w2": weight} if name == "written" else {}
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        nodes = [helper.make_node("Mul", ["x", "f"], ["h"]), *nodes]
        path = save(folder / f"{name}.onnx", nodes, [value("x", [64], kind)], [value("y", [64], kind)], constants, 17)
        if function:
            model = onnx.load(path)
            model.functions.append(function)
            model.opset_import.append(helper.make_opsetid("own", 1))
            onnx.save(model, path)
    return {name: folder / f"{name}.onnx" for name in forms}


@pytest.mark.parametrize("part", [half_twice, codes_cast, codes_dequantized])
def test_shared_and_outlined_constants_are_no_loss(weir, tmp_path, part):
    """Each form beside each other one, in both directions: verified where it is right, and a failure where a number is wrong."""
    dtype = np.float16 if part is half_twice else np.float32
    weight = np.linspace(-1, 1, 64).astype(np.float16) if part is half_twice else np.arange(-32, 32, dtype=np.int8)
    for name in ("right", "wrong"):
        (tmp_path / name).mkdir()
    right, wrong = (forms_of_two(tmp_path / name, part, dtype, weight, scale) for name, scale in (("right", 1), ("wrong", 1.5)))
    for before in right:
        for after in right:
            if before == after:
                continue
            assert "\nverified: 1 of 1 output (100.0 %)" in weir("verify", right[before], right[after]).out, (before, after)
            assert "relative" in weir("verify", right[before], wrong[after], code=1).err, (before, after)


def test_rounding_for_each_reader_is_no_loss(weir, tmp_path):
    """A number that is rounded once for two readers, or in a function for each of them; a wrong one fails, and one more place is a loss."""
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]

    def rounding(x, y, scale="s"):
        return [helper.make_node("QuantizeLinear", [x, scale, "z"], [y + "_q"]), helper.make_node("DequantizeLinear", [y + "_q", scale, "z"], [y])]

    def net(name, nodes, scale=0.1, body=None):
        path = save(tmp_path / name, nodes, [value("x", [64])], [value("y", [64])], {"s": np.float32(scale), "z": np.uint8(128)})
        if body:
            model = onnx.load(path)
            model.functions.append(helper.make_function("own", "Part", ["a", "s", "z"], ["o"], body, opset[:1]))
            model.opset_import.append(opset[1])
            onnx.save(model, path)
        return path

    ends = [helper.make_node("Add", ["e", "n"], ["y"])]
    once = [*rounding("x", "r"), helper.make_node("Exp", ["r"], ["e"]), helper.make_node("Neg", ["r"], ["n"]), *ends]
    twice = [*rounding("x", "r"), *rounding("x", "t"), helper.make_node("Exp", ["r"], ["e"]), helper.make_node("Neg", ["t"], ["n"]), *ends]
    called = [helper.make_node("Part", ["x", "s", "z"], [y], domain="own") for y in ("r", "t")] + twice[4:]
    forms = {"once": (once, None), "twice": (twice, None), "called": (called, rounding("a", "o"))}
    right, wrong = ({name: net(f"{name}{scale}.onnx", nodes, scale, body) for name, (nodes, body) in forms.items()} for scale in (0.1, 0.15))
    for before in forms:
        for after in forms:
            assert "\nverified: 1 of 1 output (100.0 %)\n" in weir("verify", right[before], right[after]).out, (before, after)
            assert "relative" in weir("verify", right[before], wrong[after], code=1).err, (before, after)
    more = net("more.onnx", [*once[:-1], *rounding("n", "m"), helper.make_node("Add", ["e", "m"], ["y"])], 0.3)
    assert found(weir, right["once"], more)["lossy"] == "activations rounded to 8 bits at more places than in SRC"


def test_rounding_by_operators_is_no_loss(weir, tmp_path):
    """Three products round their input each, or have it rounded once; a wrong scale in the other form fails."""
    rng, names = np.random.default_rng(3), range(3)
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in names]
    weights = {f"w{i}": rng.normal(size=(64, 32)).astype(np.float32) for i in names}
    source = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 64])], [value(f"y{i}", ["n", 32]) for i in names], weights)
    for form in ("operators", "integer"):
        weir("dynamic", source, tmp_path / f"{form}.onnx", *(["--form", form] if form == "integer" else []))
        model = onnx.load(tmp_path / f"{form}.onnx")
        for scale in (each for each in model.graph.initializer if "scale" in each.name):
            scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(1.5), scale.name))
        onnx.save(model, tmp_path / f"{form} wrong.onnx")
    for before, after in (("operators", "integer"), ("integer", "operators")):
        assert "\nverified: 3 of 3 outputs (100.0 %)" in weir("verify", tmp_path / f"{before}.onnx", tmp_path / f"{after}.onnx").out
        assert "relative" in weir("verify", tmp_path / f"{before}.onnx", tmp_path / f"{after} wrong.onnx", code=1).err


@pytest.mark.parametrize("form", ["shared", "outlined", "given"])
def test_losses_in_functions(weir, tmp_path, form):
    """The control: weights that two places share, in each form, with fewer bits in the other model; one of two of them is enough."""
    weight = np.random.default_rng(3).normal(size=64).astype(np.float32)

    def plain(w, x, y):
        return [helper.make_node("Mul", [x, w], [y])]

    source = forms_of_two(tmp_path, plain, np.float32, weight, 1)[form]
    for name, narrow, kept in (("half", [np.float16], []), ("part", [np.float16], [weight]), ("codes", [np.int8], []), ("part of codes", [np.int8], [weight])):
        nodes, constants = [helper.make_node("Cast", ["u"], ["uf"], to=TensorProto.FLOAT)], {"u": weight.astype(narrow[0])}
        nodes += [helper.make_node("Mul", ["x", "uf"], ["t"]), helper.make_node("Neg", ["t"], ["n"])]
        nodes.append(helper.make_node("Mul", ["n", "v" if kept else "uf"], ["y"]))
        constants |= {"v": weight} if kept else {}
        out = save(tmp_path / "o.onnx", nodes, [value("x", [64])], [value("y", [64])], constants, 17)
        assert UNJUDGED.format("--inputs") + ": 1 of 1 output" in weir("verify", source, out).out, name


def test_a_quantized_model_that_is_altered(weir, tmp_path, quantized):
    """The control: neither a lossless pass over a quantized model nor a wrong scale in it is a loss of its kind."""
    source = quantized("8 bits")
    weir("optimize", source, tmp_path / "o.onnx")
    assert weir("verify", source, tmp_path / "o.onnx").out.splitlines()[-1] == "verified: 1 of 1 output (100.0 %)"
    model = onnx.load(source)
    scales = next(each for each in model.graph.initializer if "scale" in each.name)
    scales.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scales) * np.float32(1.5), scales.name))
    onnx.save(model, tmp_path / "bad.onnx")
    assert "relative" in weir("verify", source, tmp_path / "bad.onnx", code=1).err
    # What is much worse than the other is another model on given inputs.
    twice = onnx.load(quantized("4 bits"))
    next(each for each in twice.graph.node if each.op_type == "MatMulNBits").input[2] = "more"
    first = next(each for each in twice.graph.initializer if "scale" in each.name)
    twice.graph.initializer.append(numpy_helper.from_array(numpy_helper.to_array(first) * np.float32(2), "more"))
    onnx.save(twice, tmp_path / "twice.onnx")
    assert "below 10 dB" in weir("verify", source, tmp_path / "twice.onnx", "--inputs", given_rows(tmp_path), code=1).err


def test_sites_say_what_they_show(weir, tmp_path, weight):
    source, words = product(tmp_path / "m.onnx", weight), ["--edit-log", tmp_path / "log.jsonl", "--report-html", tmp_path / "r.html", "--force"]
    shown = "each site computes what its edit describes; accuracy was not measured"
    assert weir("quantize", source, tmp_path / "q.onnx", "--verify", *words).out.count(shown) == 1
    assert "as computed; accuracy not measured" in (page := (tmp_path / "r.html").read_text()) and 'badge plain"' in page
    assert shown in weir("verify", source, tmp_path / "q.onnx", "--edits", tmp_path / "log.jsonl").out
    said = weir("quantize", source, tmp_path / "q.onnx", "--verify=all", *words).out
    assert shown in said and "1 of 2 sites and outputs" in said and UNJUDGED.format("--verify-inputs") in said.replace("1 not", "not")
    behind = [helper.make_node("Identity", ["h"], ["i"]), helper.make_node("Relu", ["i"], ["y"])]
    said = weir("optimize", product(tmp_path / "i.onnx", weight, behind, "y"), tmp_path / "o.onnx", "--verify=all", *words).out
    assert shown not in said and 'badge good">verified<' in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("words, style, word", [([], "plain", "not judged"), (["--inputs"], "good", "verified"), (["--metric", "sqnr=5"], "plain", "within bounds on drawn inputs")])
def test_the_badge(weir, tmp_path, weight, given, words, style, word):
    source, out, page = product(tmp_path / "m.onnx", weight), tmp_path / "q.onnx", tmp_path / "r.html"
    weir("quantize", source, out, "--block-size", "32")
    weir("verify", source, out, *words, *([given] if words == ["--inputs"] else []), "--report-html", page)
    assert f'badge {style}">{word}</span>' in page.read_text()


# ---- top-1 -----------------------------------------------------------------------------------------------------------

CHANGED = 13


def choices(tmp_path, behind, dtype=TensorProto.FLOAT, shape=("n", 4), opset=17):
    """Two models whose choice differs in 13 of 128 rows: the second has a weight in 8 bits, and another class for what input 5 says."""
    weight = np.zeros((64, 4), np.float32)
    weight[np.arange(6), [0, 1, 2, 3, 0, 1]] = 40
    other = weight.copy()
    other[5] = [0, 0, 40, 0]
    paths = [product(tmp_path / name, w, behind, "y", shape, dtype, opset) for name, w in (("a.onnx", weight), ("b.onnx", other))]
    weir_out = tmp_path / "q.onnx"
    x = np.zeros((ROWS, 64), np.float32)
    x[np.arange(ROWS), [5 if i < CHANGED else i % 5 for i in range(ROWS)]] = 1
    np.savez(tmp_path / "rows.npz", x=x)
    (tmp_path / "each").mkdir()
    for i in range(ROWS):
        np.savez(tmp_path / "each" / f"{i:03}.npz", x=x[i : i + 1])
    np.savez(tmp_path / "few.npz", x=x[:60])
    return paths, weir_out


SOFTMAX = [helper.make_node("Softmax", ["h"], ["y"])]


@pytest.mark.parametrize(
    "behind, dtype, shape, opset, told",
    [
        (SOFTMAX, TensorProto.FLOAT, ("n", 4), 17, True),
        (SOFTMAX, TensorProto.FLOAT, ("n", 4), 11, True),
        ([helper.make_node("LogSoftmax", ["h"], ["s"]), helper.make_node("Identity", ["s"], ["y"])], TensorProto.FLOAT, ("n", 4), 17, True),
        ([helper.make_node("ArgMax", ["h"], ["y"], axis=-1, keepdims=0)], TensorProto.INT64, ("n",), 17, True),
        ([helper.make_node("Softmax", ["h"], ["y"], axis=0)], TensorProto.FLOAT, ("n", 4), 17, False),
        ([helper.make_node("Softmax", ["h"], ["y"], axis=0)], TensorProto.FLOAT, ("n", 4), 11, False),
        ([helper.make_node("Relu", ["h"], ["y"])], TensorProto.FLOAT, ("n", 4), 17, False),
    ],
    ids=["softmax", "softmax-11", "logsoftmax", "argmax", "softmax-0", "softmax-0-11", "relu"],
)
def test_top1(weir, tmp_path, behind, dtype, shape, opset, told):
    (source, other), out = choices(tmp_path, behind, dtype, shape, opset)
    weir("quantize", other, out, "--bits", "8", "--block-size", "16")
    words = f"top-1 changes in {CHANGED} of {ROWS} rows"
    done = weir("verify", source, out, "--inputs", tmp_path / "rows.npz", code=None)
    assert ("top-1" in done.out) == (words in done.out.splitlines()[-1]) == told
    [row] = json.loads(weir("verify", source, out, "--inputs", tmp_path / "rows.npz", "--json", code=None).out)["verification"]["rows"]
    assert (row["top1_changed"], row["top1_rows"]) == ((CHANGED, ROWS) if told else (None, None)) and (row["figures"]["top1"] is not None) == told
    if not told:
        return
    # It is told, and does not fail; only a bound that somebody gives does.
    assert weir("verify", source, out, "--inputs", tmp_path / "rows.npz", "--metric", "max_abs=1000").code == 0
    assert weir("verify", source, out, "--inputs", tmp_path / "rows.npz", "--metric", "top1=0.85").code == 0
    assert words in weir("verify", source, out, "--inputs", tmp_path / "rows.npz", "--metric", "top1=0.99", code=1).err
    # Rows of all cases count together: one in a hundred may change although it is one of one in its case.
    assert weir("verify", source, out, "--inputs", tmp_path / "each", "--metric", "top1=0.85").out.splitlines()[-1].endswith(f"{words} of 'y'")
    assert words in weir("verify", source, out, "--inputs", tmp_path / "each", "--metric", "top1=0.95", code=1).err
    # The row of one case does not claim them for itself.
    (tmp_path / "two").mkdir()
    with np.load(tmp_path / "rows.npz") as given:
        for i in range(2):
            np.savez(tmp_path / "two" / f"{i}.npz", **{name: np.array_split(given[name], 2)[i] for name in given.files})
    assert f"{words} of all cases\n" in weir("verify", source, out, "--inputs", tmp_path / "two", code=None).out
    assert "of all cases" not in done.out
    # Few rows say nothing.
    assert "top-1" not in weir("verify", source, out, "--inputs", tmp_path / "few.npz", code=None).out


def test_top1_on_request(weir, tmp_path):
    """Of any output with rows."""
    (source, other), out = choices(tmp_path, [helper.make_node("Relu", ["h"], ["y"])])
    weir("quantize", other, out, "--bits", "8", "--block-size", "16")
    assert "top-1" not in weir("verify", source, out, "--inputs", tmp_path / "rows.npz", code=None).out
    assert f"top-1 changes in {CHANGED} of" in weir("verify", source, out, "--inputs", tmp_path / "rows.npz", "--metric", "top1=0.95", code=1).err


def test_undecided_rows_do_not_count(weir, tmp_path):
    """Rows whose two largest elements are closer than the largest error: the one that moves, and every other one like it."""
    source = product(tmp_path / "a.onnx", np.eye(4, dtype=np.float32), [helper.make_node("LogSoftmax", ["h"], ["y"])], "y", ("n", 4))
    turned = np.eye(4, dtype=np.float32)
    turned[3] = [-2, 0, 0, 1]
    weir("quantize", product(tmp_path / "b.onnx", turned, [helper.make_node("LogSoftmax", ["h"], ["y"])], "y", ("n", 4)), tmp_path / "q.onnx", "--bits", "8", "--block-size", "16")
    x = np.tile(np.float32([9, 0, 0, 0]), (ROWS, 1))
    x[:10] = [1, 0.5, -9, 0.5]  # the largest moves by an error of about 1, and is 0.5 ahead
    np.savez(tmp_path / "rows.npz", x=x)
    [row] = json.loads(weir("verify", source, tmp_path / "q.onnx", "--inputs", tmp_path / "rows.npz", "--json", code=None).out)["verification"]["rows"]
    assert (row["top1_changed"], row["top1_rows"], row["top1_ties"]) == (0, ROWS - 10, 10)


def test_ties_are_told(weir, tmp_path):
    """Ties are told wherever the share is, so that 118 rows are not taken for 128. A bound that is met has its figure in the closing lines too."""
    (source, other), out = choices(tmp_path, SOFTMAX)
    weir("quantize", other, out, "--bits", "8", "--block-size", "16")
    x = np.load(tmp_path / "rows.npz")["x"]
    x[20:30] = 0  # all four are equal
    (tmp_path / "two").mkdir()
    for i in range(2):
        np.savez(tmp_path / "two" / f"{i}.npz", x=x[i * 64 :][:64])
    ties, words, page = " (10 ties left out)", f"top-1 changes in {CHANGED} of {ROWS - 10} rows", tmp_path / "r.html"
    given = ("--inputs", tmp_path / "two")
    done = weir("verify", source, out, *given, "--metric", "top1=0.85", "--report-html", page)
    told = f"  metric  top1 0.8898 of 'y', at least 0.85: {CHANGED} of {ROWS - 10} rows change{ties}\n"
    assert f"{words} of all cases{ties}\n" in done.out and done.out.splitlines()[-1].endswith(f"{words} of 'y'{ties}") and told in done.out
    assert f"{words}{ties}: an agreement of 0.8898, below 0.99" in weir("verify", source, out, *given, "--metric", "top1=0.99", code=1).err
    assert [row["top1_ties"] for row in found(weir, source, out, *given, "--metric", "top1=0.85")["rows"]] == [None, 10]
    # The page has the share of all cases, and beside each case its own.
    read = report_page.read(page)
    assert f"{words} of y{ties}" in read.text() and f"89.0 %{ties}" in read.text()
    assert sorted(row["Top-1"] for row in read.rows("verified")) == [pytest.approx(1 - CHANGED / 54), 1]
    own = product(tmp_path / "own.onnx", np.diag(np.float32([9, 9, 9, 9])), SOFTMAX, "y", ("n", 4))
    np.savez(tmp_path / "own.npz", x=np.eye(4, dtype=np.float32)[np.arange(ROWS) % 4])
    check = ["--verify=model", "--verify-inputs", tmp_path / "own.npz", "--verify-metric", "top1=0.85"]
    done = weir("quantize", own, tmp_path / "o.onnx", "--block-size", "16", *check)
    assert f"  metric  top1 1 of 'y', at least 0.85: 0 of {ROWS} rows change\n" in done.out


@pytest.mark.parametrize("rows", [2, 99, 100])
def test_few_rows_are_no_top1(weir, tmp_path, rows):
    """Whoever asks for top-1 gets no "verified" of fewer than a hundred rows, whatever else holds; nor exit code 0."""
    (source, other), out = choices(tmp_path, SOFTMAX)
    weir("quantize", other, out, "--bits", "8", "--block-size", "16")
    x = np.load(tmp_path / "rows.npz")["x"]
    np.savez(tmp_path / "some.npz", x=x[-rows:])  # where nothing changes
    (tmp_path / "one").mkdir()
    for i in range(rows):
        np.savez(tmp_path / "one" / f"{i}.npz", x=x[-rows + i :][:1])
    for inputs in ("some.npz", "one"):
        for more in ([], ["--metric", "sqnr=0"]):
            words = ["verify", source, out, "--inputs", tmp_path / inputs, "--metric", "top1=0.5", *more]
            done, said = weir(*words, code=None), json.loads(weir(*words, "--json", code=None).out)
            every = 1 if inputs == "some.npz" else rows
            if rows < 100:
                assert done.code == 1 and f"could not be checked: 'y': top-1: too few rows ({rows}, 100 wanted)" in done.err and "passed" not in done.out
                assert said["verification"]["not_verified"] == every and said["error"]["code"] == 1
            else:
                assert done.code == 0 and said["verification"]["passed"] == every
            assert said["verification"]["unmet"] == sum(row["unmet"] for row in said["verification"]["rows"]) == (every if rows < 100 else 0)


def test_rows_that_count_are_few(weir, tmp_path):
    """Undecided rows do not make up the hundred; an output that fails for another reason fails."""
    (source, other), out = choices(tmp_path, [helper.make_node("Softmax", ["h"], ["y"])])
    weir("quantize", other, out, "--bits", "8", "--block-size", "16")
    x = np.load(tmp_path / "rows.npz")["x"]
    x[-30:] = 0  # all four are equal
    np.savez(tmp_path / "even.npz", x=x)
    words = ["verify", source, out, "--inputs", tmp_path / "even.npz", "--metric", "top1=0.5"]
    assert "too few rows (98, 100 wanted); in 30 more the two largest elements are closer than the largest error" in weir(*words, code=1).err
    assert "SQNR" in weir(*words, "--metric", "sqnr=90", code=1).err


def sets(folder, x, y):
    """A folder of one row and its expected output each."""
    for i in range(len(x)):
        (at := folder / f"test_data_set_{i}").mkdir(parents=True)
        (at / "input_0.pb").write_bytes(numpy_helper.from_array(x[i : i + 1], "x").SerializeToString())
        (at / "output_0.pb").write_bytes(numpy_helper.from_array(y[i : i + 1], "y").SerializeToString())
    return folder


@pytest.mark.parametrize("rows, changed", [(ROWS, 0), (ROWS, 13), (60, 0), (60, 7)])
def test_top1_of_expected_outputs(weir, tmp_path, rows, changed):
    """By the rows of all cases together, as of other outputs: one row that changed is not all of its case, and sixty are too few."""
    source = product(tmp_path / "a.onnx", 9 * np.eye(4, dtype=np.float32), [helper.make_node("Softmax", ["h"], ["y"])], "y", ("n", 4))
    x = np.eye(4, dtype=np.float32)[np.arange(rows) % 4]
    y = np.exp(9 * x) / np.exp(9 * x).sum(axis=1, keepdims=True)
    y[:changed] = x[:changed, ::-1]  # further apart than they are off
    given = ["--inputs", sets(tmp_path / "sets", x, y.astype(np.float32))]
    for out in ([], [source]):
        words = ["verify", source, *out, *given]
        done = weir(*words, "--metric", "top1=0.85", code=1 if rows < 100 else 0)
        assert (f"could not be checked: 'y': top-1: too few rows ({rows}, 100 wanted)" in done.err) == (rows < 100)
        if rows > 100 and changed:
            assert f"top-1 changes in {changed} of {rows} rows" in weir(*words, "--metric", "top1=0.99", code=1).err
        if rows > 100:
            told = [row for row in json.loads(weir(*words, "--metric", "top1=0.85", "--json").out)["verification"]["rows"] if "expected" in row["of"] and row["top1_rows"]]
            assert [(row["top1_rows"], row["top1_changed"], row["figures"]["top1"]) for row in told] == [(rows, changed, 1 - changed / rows)]


@pytest.mark.parametrize("names", [("y", "y"), ("", "y"), ("y", "y", "y", "y", "y", "y", "y", "y")])
def test_an_output_is_expected_once(weir, tmp_path, names):
    """Two files of one data set that mean the same output are refused, by name or by place."""
    source = product(tmp_path / "a.onnx", np.eye(4, dtype=np.float32), [helper.make_node("Softmax", ["h"], ["y"])], "y", ("n", 4))
    x = np.eye(4, dtype=np.float32)
    y = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)).astype(np.float32)
    folder = sets(tmp_path / "sets", x, y)
    for k, name in enumerate(names):
        (folder / "test_data_set_1" / f"output_{k}.pb").write_bytes(numpy_helper.from_array(y[1:2], name).SerializeToString())
    for out, metric in (([], []), ([source], []), ([source], ["--metric", "top1=0.9"])):
        done = weir("verify", source, *out, "--inputs", folder, *metric, code=65)
        assert "'test_data_set_1' expects output 'y' twice: in output_0.pb and output_1.pb" in done.err


@pytest.mark.parametrize("rows", [60, 128])
def test_top1_of_a_sequence(weir, tmp_path, rows):
    """The rows of its items count together, and sixty are too few."""
    last = [helper.make_node("Softmax", ["h"], ["s"]), helper.make_node("SequenceConstruct", ["s", "t"], ["y"])]
    paths = []
    for name, turned in (("a.onnx", 0), ("b.onnx", 1)):
        weight = 9 * np.eye(4, dtype=np.float32)
        weight[3] = [9, 0, 0, 0] if turned else weight[3]
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("LogSoftmax", ["x"], ["t"]), *last]
        y = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, ["n", 4])
        paths.append(save(tmp_path / name, nodes, [value("x", ["n", 4])], [y], {"w": weight}))
    np.savez(tmp_path / "x.npz", x=np.eye(4, dtype=np.float32)[np.arange(rows // 2) % 4])
    given = ["--inputs", tmp_path / "x.npz"]
    for result in paths:
        done = weir("verify", paths[0], result, *given, "--metric", "top1=0.85", code=1 if rows < 100 else 0)
        assert (f"could not be checked: 'y': top-1: too few rows ({rows}, 100 wanted)" in done.err) == (rows < 100)
    if rows > 100:
        assert f"top-1 changes in {rows // 8} of {rows} rows" in weir("verify", *paths, *given, "--metric", "top1=0.9", code=1).err


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.BOOL], ids=["one class", "bool"])
def test_choices_without_rows(weir, tmp_path, dtype):
    """Top-1 has no meaning there: asked for, it wants equal elements, beside an output with rows too."""
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(6).normal(size=(ROWS, 4)).astype(np.float32))
    classes, paths = 1 if dtype == TensorProto.FLOAT else 4, []
    for name, end in (("a.onnx", ["s"]), ("b.onnx", ["s", "k"])):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["s"]), helper.make_node("Softmax", ["x"], ["z"])]
        nodes += [helper.make_node("Mul", end, ["m"])] if len(end) > 1 else [helper.make_node("Identity", end, ["m"])]
        nodes += [helper.make_node("Cast", ["m"], ["y"], to=dtype)]
        constants = {"w": np.ones((4, classes), np.float32), "k": np.float32(0)}
        paths.append(save(tmp_path / name, nodes, [value("x", ["n", 4])], [value("y", ["n", classes], dtype), value("z", ["n", 4])], constants))
    words = ["--inputs", tmp_path / "rows.npz", "--metric", "top1=0.9"]
    assert "top-1 has no rows to compare" in weir("verify", *paths, *words, code=1).err
    assert "verified: 2 of 2 outputs" in weir("verify", paths[0], paths[0], *words).out


@pytest.mark.parametrize("numbers, other, code", [(128, 1, 0), (98, 1, 1), (0, 1, 1), (128, -1, 1)])
def test_rows_of_nan_are_no_choice(weir, tmp_path, numbers, other, code):
    """A row that is NaN in both counts for nothing, thirty of them or all."""
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, sign in zip(paths, (1, other), strict=True):
        save(path, [helper.make_node("Mul", ["x", "k"], ["y"])], [value("x", ["n", 5])], [value("y", ["n", 5])], {"k": np.float32([sign] * 4 + [1])})
    x = np.tile(np.float32([9, -9, 1, 1, 0]), (128, 1))
    x[numbers:, 4] = np.nan
    np.savez(tmp_path / "rows.npz", x=x)
    done = weir("verify", *paths, "--inputs", tmp_path / "rows.npz", "--metric", "top1=0.9", code=code)
    if other == 1:
        assert (f"too few rows ({numbers}, 100 wanted)" in done.err) == (code == 1)


def test_lengths_want_no_rows(weir, tmp_path):
    """Of whole numbers that are all equal: a shape beside a hundred rows of scores."""
    (source, other), out = choices(tmp_path, [helper.make_node("Softmax", ["h"], ["y"]), helper.make_node("Shape", ["h"], ["s"])])
    for path in (source, other):
        model = onnx.load(path)
        model.graph.output.append(value("s", [2], TensorProto.INT64))
        onnx.save(model, path)
    weir("quantize", other, out, "--bits", "8", "--block-size", "16")
    assert "verified: 2 of 2" in weir("verify", source, out, "--inputs", tmp_path / "rows.npz", "--metric", "top1=0.5").out


@pytest.mark.parametrize("dtype, large", [("int64", 2**60), ("int32", 2**30), ("uint64", 2**63)])
def test_integers_are_equal_however_large(weir, tmp_path, dtype, large):
    """After passes that lose nothing one more in a billion is another number: an index, a length, a hash."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx", tmp_path / "same.onnx"]
    for path, more in zip(paths, (0, 1, 0), strict=True):
        nodes = [helper.make_node("Cast", ["x"], ["i"], to=kind), helper.make_node("Mul", ["i", "none"], ["z"]),
                 helper.make_node("Add", ["z", "k"], ["y"]), helper.make_node("Relu", ["x"], ["f"])]  # fmt: skip
        numbers = {"none": np.zeros((), dtype), "k": np.array(large + more, dtype)}
        save(path, nodes, [value("x", ["n", 4])], [value("y", ["n", 4], kind), value("f", ["n", 4])], numbers)
    np.savez(tmp_path / "rows.npz", x=np.ones((3, 4), np.float32))
    given = ("--inputs", tmp_path / "rows.npz")
    for words in ((), given):
        assert "elements differ (max abs 1 at element 0)" in weir("verify", *paths[:2], *words, code=1).err
        assert "verified: 2 of 2" in weir("verify", paths[0], paths[2], *words).out
        weir("verify", *paths[:2], *words, "--metric", "relative=0.1")


# What whole numbers are made of; `by` and `more` are the numbers in which two models differ.
I32, I64, BOOL, F32 = TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT
PRODUCT = helper.make_node("Mul", ["x", "by"], ["t"])
WHOLE = {
    "cast": ("step", I32, [PRODUCT, helper.make_node("Cast", ["t"], ["y"], to=I32)]),
    "codes": ("step", TensorProto.UINT8, [PRODUCT, helper.make_node("Sub", ["t", "half"], ["u"]), helper.make_node("QuantizeLinear", ["u", "one", "zero"], ["y"])]),
    "floor": ("step", I64, [PRODUCT, helper.make_node("Floor", ["t"], ["u"]), helper.make_node("Cast", ["u"], ["i"], to=I64), helper.make_node("Add", ["i", "none"], ["y"])]),
    "body": ("step", I32, [PRODUCT, helper.make_node("If", ["yes"], ["y"], **{
        f"{name}_branch": helper.make_graph([helper.make_node("Cast", ["t"], [name], to=I32)], name, [], [value(name, ["n", 4], I32)])
        for name in ("then", "else")})]),
    "state": ("step", I32, [helper.make_node("Loop", ["two", "", "x"], ["t", "y"], body=helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Mul", ["s", "by"], ["u"]), helper.make_node("Cast", ["s"], ["v"], to=I32)], "body",
        [value("i", [], I64), value("c", [], BOOL), value("s", ["n", 4])], [value("d", [], BOOL), value("u", ["n", 4]), value("v", ["n", 4], I32)]))]),
    "function": ("step", I32, [helper.make_node("Whole", ["x", "by"], ["y"], domain="local")]),
    "sequence": ("step", I32, [PRODUCT, helper.make_node("Cast", ["t"], ["i"], to=I32), helper.make_node("SequenceConstruct", ["i", "i"], ["y"])]),
    "place": ("equal", I64, [helper.make_node("Sub", ["by", "x"], ["t"]), helper.make_node("ArgMax", ["t"], ["i"], axis=1), helper.make_node("Add", ["i", "more"], ["y"])]),
    "place of codes": ("equal", I64, [PRODUCT, helper.make_node("Cast", ["t"], ["c"], to=I32), helper.make_node("ArgMax", ["c"], ["i"], axis=1), helper.make_node("Add", ["i", "more"], ["y"])]),
    "place in a body": ("equal", I64, [PRODUCT, helper.make_node("Cast", ["t"], ["c"], to=I32), helper.make_node("If", ["yes"], ["i"], **{
        f"{name}_branch": helper.make_graph([helper.make_node("ArgMax", ["c"], [name], axis=1)], name, [], [value(name, ["n", 1], I64)])
        for name in ("then", "else")}), helper.make_node("Add", ["i", "more"], ["y"])]),
    "largest code": ("step", I32, [PRODUCT, helper.make_node("Cast", ["t"], ["c"], to=I32), helper.make_node("TopK", ["c", "k"], ["y", "i"])]),
    "place in a function": ("equal", I64, [PRODUCT, helper.make_node("Places", ["t"], ["i"], domain="local"), helper.make_node("Add", ["i", "more"], ["y"])]),
    "place of ids": ("step", I32, [PRODUCT, helper.make_node("Cast", ["t"], ["c"], to=I32), helper.make_node("ArgMax", ["ids"], ["i"]), helper.make_node("Cast", ["i"], ["j"], to=I32), helper.make_node("Add", ["c", "j"], ["y"])]),
    "stored": ("equal", F32, [helper.make_node("Cast", ["x"], ["i"], to=I64), helper.make_node("Add", ["i", "more"], ["j"]), helper.make_node("Cast", ["j"], ["g"], to=F32), helper.make_node("Transpose", ["g"], ["y"])]),
    "stored codes": ("step", F32, [PRODUCT, helper.make_node("Cast", ["t"], ["c"], to=I32), helper.make_node("Cast", ["c"], ["g"], to=F32), helper.make_node("Concat", ["g", "g"], ["y"], axis=0)]),
    "stored place": ("equal", F32, [helper.make_node("Sub", ["by", "x"], ["t"]), helper.make_node("ArgMax", ["t"], ["i"], axis=1), helper.make_node("Add", ["i", "more"], ["j"]), helper.make_node("Cast", ["j"], ["y"], to=F32)]),
    "truth": ("close", I32, [PRODUCT, helper.make_node("Greater", ["t", "many"], ["b"]), helper.make_node("Cast", ["b"], ["y"], to=I32)]),
    "count": ("close", I64, [PRODUCT, helper.make_node("Greater", ["t", "many"], ["b"]), helper.make_node("NonZero", ["b"], ["p"]), helper.make_node("Shape", ["p"], ["i"]),
                             helper.make_node("Add", ["i", "more"], ["y"])]),
    "moved": ("equal", I64, [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("Cast", ["t"], ["i"], to=I64), helper.make_node("Add", ["i", "more"], ["y"])]),
    "dims": ("equal", I64, [PRODUCT, helper.make_node("Shape", ["t"], ["i"]), helper.make_node("Add", ["i", "more"], ["y"])]),
    "whole": ("equal", I64, [helper.make_node("Cast", ["x"], ["i"], to=I64), helper.make_node("Sums", ["i", "more"], ["y"], domain="local")]),
    "items": ("equal", I64, [helper.make_node("Cast", ["x"], ["i"], to=I64), helper.make_node("Add", ["i", "more"], ["j"]), helper.make_node("SequenceConstruct", ["i", "j"], ["y"])]),
}  # fmt: skip


def whole(path, kind, by, more):
    """y is made as WHOLE says, f of x alone."""
    _, dtype, nodes = WHOLE[kind]
    numbers = {"by": np.float32(by), "more": np.array(more, np.int64), "half": np.float32(0.5), "one": np.float32(1), "zero": np.uint8(0),
               "none": np.array(0, np.int64), "yes": np.array(True), "two": np.array(2, np.int64), "many": np.float32(14), "ids": np.array([3, 9, 4]), "k": np.array([2])}  # fmt: skip
    used = {i for n in nodes for a in [n, *(b for at in n.attribute for b in at.g.node)] for i in a.input}
    sequence = kind in ("sequence", "items")
    y = helper.make_tensor_sequence_value_info("y", dtype, None) if sequence else helper.make_tensor_value_info("y", dtype, None)
    save(path, [*nodes, helper.make_node("Relu", ["x"], ["f"])], [value("x", ["n", 4])], [y, value("f", ["n", 4])], {k: v for k, v in numbers.items() if k in used})
    model = onnx.load(path)
    if any(n.domain == "local" for n in nodes):
        opsets = [helper.make_opsetid("", 17)]
        inside = {"Whole": [helper.make_node("Mul", ["a", "b"], ["t"]), helper.make_node("Cast", ["t"], ["c"], to=I32)],
                  "Places": [helper.make_node("Cast", ["a"], ["i"], to=I32), helper.make_node("ArgMax", ["i"], ["c"], axis=1)],
                  "Sums": [helper.make_node("Mul", ["a", "b"], ["t"]), helper.make_node("Cast", ["t"], ["c"], to=I64)]}  # fmt: skip
        [name] = {n.op_type for n in nodes} & set(inside)
        model.functions.append(helper.make_function("local", name, ["a", "b"][: 1 + (name != "Places")], ["c"], inside[name], opsets))
        model.opset_import.append(helper.make_opsetid("local", 1))
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_numbers_of_floats(weir, tmp_path, kind):
    """A float that another order rounds otherwise may be another whole number by a step; without one, all are equal."""
    how, dtype, _ = WHOLE[kind]
    large = 20000 if how == "equal" and kind != "dims" else 0
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    np.savez(tmp_path / "x.npz", x=x)
    less = 1 - 2.0**-20
    paths = [whole(tmp_path / f"{i}.onnx", kind, by, large + more) for i, (by, more) in enumerate([(1, 0), (1 if how == "equal" else less, how != "step"), (0.8, 2)])]
    words = ["--inputs", tmp_path / "x.npz"]
    found = [weir("verify", paths[0], path, *words, "--json", code=None).out for path in paths]
    rows = [{row["name"]: row for row in json.loads(out)["verification"]["rows"]} for out in found]
    bounds = {"step": "relative error of 0.0001 and one step", "close": "relative error of 0.0001", "equal": "equal"}
    if kind == "truth":
        rows[1] = rows[2]  # 15 is many, 12 is not, and less than 15 is still
    assert [row["y"]["bounds"] for row in rows] == [bounds[how]] * 3
    assert [row["y"]["status"] for row in rows] == ["passed", "passed" if how == "step" else "failed", "failed"]
    assert [row["f"]["status"] for row in rows] == ["passed"] * 3
    if how == "step":
        assert rows[1]["y"]["figures"]["max_abs"] == 1


ARGS = {
    "ArgMax": [helper.make_node("ArgMax", ["t"], ["y"], axis=1)],
    "ArgMin": [helper.make_node("Neg", ["t"], ["u"]), helper.make_node("ArgMin", ["u"], ["y"], axis=1, keepdims=0)],
    "first-axis": [helper.make_node("Transpose", ["t"], ["u"]), helper.make_node("ArgMax", ["u"], ["y"])],
    "int32": [helper.make_node("ArgMax", ["t"], ["p"], axis=-1), helper.make_node("Squeeze", ["p", "one"], ["q"]), helper.make_node("Cast", ["q"], ["y"], to=I32)],
    "float": [helper.make_node("ArgMax", ["t"], ["p"], axis=1), helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)],
    "TopK": [helper.make_node("TopK", ["t", "two"], ["v", "y"])],
    "codes": [helper.make_node("Mul", ["t", "million"], ["u"]), helper.make_node("Cast", ["u"], ["c"], to=I32), helper.make_node("ArgMax", ["c"], ["y"], axis=1)],
    "shown": [helper.make_node("ArgMax", ["t"], ["y"], axis=1)],
    "Add": [helper.make_node("ArgMax", ["t"], ["p"], axis=1), helper.make_node("Add", ["p", "two"], ["y"])],
}  # fmt: skip


@pytest.mark.parametrize("kind", ARGS)
def test_places_are_as_near_as_their_elements(weir, tmp_path, kind):
    """The largest element of three rows is at 20000, and the next one at 20001: less by 1e-5 of it, or by 1 %."""
    many, at = 20002, 20000
    x = np.random.default_rng(0).uniform(-1, 1, (3, many)).astype(np.float32)
    numbers = {"two": np.array([2], np.int64), "one": np.array([1], np.int64), "million": np.float32(1e6)}
    used = {i for n in ARGS[kind] for i in n.input}
    kept = kind != "Add"  # of other numbers nobody knows whose places they are
    for apart, other, code in ((1e-5, 1 - 2e-5, 0 if kept else 1), (1e-2, 1 - 2e-2, 1), (1e-5, 1, 0)):
        paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
        for path, by in zip(paths, (1, other), strict=True):
            scale = np.ones(many, np.float32)
            scale[at] = by
            outputs = [value("t", ["n", many])] if kind == "shown" else []
            y = value("y", None, {"int32": I32, "float": TensorProto.FLOAT}.get(kind, I64))
            save(path, [helper.make_node("Mul", ["x", "by"], ["t"]), *ARGS[kind]], [value("x", ["n", many])], [y, *outputs], {"by": scale} | {k: v for k, v in numbers.items() if k in used})
        x[:, at], x[:, at + 1] = 5, 5 * (1 - apart)
        np.savez(tmp_path / "x.npz", x=x)
        done = weir("verify", *paths, "--inputs", tmp_path / "x.npz", "--json", code=code)
        row = json.loads(done.out)["verification"]["rows"][0]
        assert row["figures"]["max_abs"] == (0 if other == 1 else 1)
        assert row["bounds"] == ("equal, or of elements within 0.0001" + " and one step" * (kind == "codes") if kept else "equal")
        # The source beside its own outputs, with places that are expected of it.
        folder = tmp_path / "data" / "test_data_set_0"
        folder.mkdir(parents=True, exist_ok=True)
        y = onnxruntime.InferenceSession(paths[1], providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
        (folder / "output_0.pb").write_bytes(numpy_helper.from_array(y, "y").SerializeToString())
        weir("verify", paths[0], "--inputs", tmp_path / "data", code=code)


def test_places_as_floats_are_no_sizes(weir, tmp_path):
    """Of an input, which is the same for both models: 20001 is not 20000, though less than 1e-4 of it apart."""
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, last in zip(paths, (0, 1), strict=True):
        nodes = [helper.make_node("ArgMax", ["x"], ["p"], axis=1, select_last_index=last), helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)]
        save(path, nodes, [value("x", ["n", 20002])], [value("y", None)], {})
    x = np.zeros((1, 20002), np.float32)
    x[0, 20000:] = 1
    np.savez(tmp_path / "x.npz", x=x)
    assert "1 of 1 element differs" in weir("verify", *paths, "--inputs", tmp_path / "x.npz", code=1).err


def test_floats_beside_places(weir, tmp_path):
    """Elements that are no whole numbers have the bound of floats, whatever stands beside them."""
    nodes = [helper.make_node("Mul", ["x", "by"], ["t"]), helper.make_node("ArgMax", ["t"], ["p"], axis=1), helper.make_node("Cast", ["p"], ["q"], to=TensorProto.FLOAT)]
    nodes += [helper.make_node("Concat", ["q", "t"], ["y"], axis=1)]
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, by in zip(paths, (1, 1 - 2.0**-20), strict=True):
        save(path, nodes, [value("x", ["n", 3])], [value("y", None)], {"by": np.float32(by)})
    np.savez(tmp_path / "x.npz", x=np.array([[1, 5, 3]], np.float32))
    assert "passed (x.npz; relative error of 0.0001)" in weir("verify", *paths, "--inputs", tmp_path / "x.npz").out


def test_a_place_that_there_is_not(weir, tmp_path):
    """Places past the end, which no ArgMax finds."""
    x = np.array([[1, 5, 5]], np.float32)
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, more in zip(paths, (0, 7), strict=True):
        nodes = [helper.make_node("Mul", ["x", "by"], ["t"]), helper.make_node("ArgMax", ["t"], ["p"], axis=1)]
        nodes += [helper.make_node("Add", ["p", "more"], ["y"]) if more else helper.make_node("Identity", ["p"], ["y"])]
        save(path, nodes, [value("x", ["n", 3])], [value("y", None, I64)], {"by": np.float32(1)} | ({"more": np.array(7, np.int64)} if more else {}))
    np.savez(tmp_path / "x.npz", x=x)
    assert "1 of 1 element differs" in weir("verify", *paths, "--inputs", tmp_path / "x.npz", code=1).err


def test_places_of_two_types(weir, tmp_path):
    """Of double in the one model, of float in the other: a source that computes in float16, and the same in float32."""
    x = np.zeros((2, 20), np.float32)
    x[:, 3], x[:, 7], x[:, 9] = 3, 4, 3.98
    np.savez(tmp_path / "x.npz", x=x)
    for less, code in (([], 0), ([7], 0), ([7, 9], 1)):
        paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
        for path, at, computed, kept in zip(paths, ([], less), (np.float16, np.float32), (TensorProto.DOUBLE, TensorProto.FLOAT), strict=True):
            scale = np.ones(20, computed)
            scale[at] = 0.5
            nodes = [helper.make_node("Cast", ["x"], ["h"], to=helper.np_dtype_to_tensor_dtype(np.dtype(computed))), helper.make_node("Mul", ["h", "by"], ["t"])]
            nodes += [helper.make_node("ArgMax", ["t"], ["p"], axis=1), helper.make_node("Cast", ["p"], ["y"], to=kept)]
            save(path, nodes, [value("x", ["n", 20])], [value("y", None, kept)], {"by": scale})
        assert ("2 of 2 elements differ" in weir("verify", *paths, "--inputs", tmp_path / "x.npz", code=code).err) == bool(code)


def test_elements_at_places_are_kept_for_one_case_alone(weir, tmp_path):
    """Of 4 MB in each of ten cases, with files of 12 MB at most; the outputs are a few bytes."""
    many = 1_000_000
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, by in zip(paths, (1 + 1e-5, 0.9), strict=True):
        scale = np.ones(many, np.float32)
        scale[5] = by
        nodes = [helper.make_node("Expand", ["x", "shape"], ["e"]), helper.make_node("Mul", ["e", "by"], ["t"]), helper.make_node("ArgMax", ["t"], ["y"], axis=1)]
        save(path, nodes, [value("x", [1, 1])], [value("y", None, I64)], {"by": scale, "shape": np.array([1, many])})
    for case in range(10):
        folder = tmp_path / "data" / f"test_data_set_{case}"
        folder.mkdir(parents=True)
        (folder / "input_0.pb").write_bytes(numpy_helper.from_array(np.full((1, 1), 1 + case, np.float32), "x").SerializeToString())
    done = peaks.run([weir.path, "verify", *paths, "--inputs", tmp_path / "data"], limits={"fsize": 12 << 20})
    assert done.code == 0, done.out + done.err
    assert "\nbound: equal, or of elements within" in done.out and "verified: 10 of 10" in done.out


@pytest.mark.parametrize("narrow", ["UINT8", "INT8", "BOOL"])
def test_places_that_a_type_cuts_off(weir, tmp_path, narrow):
    """300 and 301 become 44 and 45, or 1: the elements there are others."""
    x = np.zeros((1, 600), np.float32)
    x[0, 300], x[0, 301] = 5, 4
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, by in zip(paths, (1, 0.5), strict=True):
        scale = np.ones(600, np.float32)
        scale[300] = by
        nodes = [helper.make_node("Mul", ["x", "by"], ["t"]), helper.make_node("ArgMax", ["t"], ["p"], axis=1), helper.make_node("Cast", ["p"], ["q"], to=getattr(TensorProto, narrow))]
        save(path, [*nodes, helper.make_node("Cast", ["q"], ["y"], to=I64)], [value("x", ["n", 600])], [value("y", None, I64)], {"by": scale})
    np.savez(tmp_path / "x.npz", x=x)
    weir("verify", *paths, "--inputs", tmp_path / "x.npz", code=0 if narrow == "BOOL" else 1)


RANDOM = {
    "operator": [helper.make_node("RandomNormalLike", ["h"], ["r"]), helper.make_node("Add", ["h", "r"], ["y"])],
    "training": [helper.make_node("Dropout", ["h", "half", "yes"], ["y"])],
    "body": [helper.make_node("If", ["yes"], ["y"], **{
        f"{name}_branch": helper.make_graph([helper.make_node("RandomUniformLike", ["h"], [name])], name, [], [value(name, ["n", 4])])
        for name in ("then", "else")})],
    "captured": [helper.make_node("RandomNormalLike", ["h"], ["r"]), helper.make_node("If", ["yes"], ["y"], **{
        f"{name}_branch": helper.make_graph([helper.make_node("Neg", ["r"], [name])], name, [], [value(name, ["n", 4])])
        for name in ("then", "else")})],
    "function": [helper.make_node("Noise", ["h"], ["y"], domain="local")],
}  # fmt: skip


def noisy(path, kind, first, by, seed=None):
    """y is made of random numbers, z is not; `first`: a node before all, which nobody needs."""
    nodes = [helper.make_node(*(("Identity", ["x"], ["h"]) if not first else ("Neg", ["x"], ["n"])))]
    nodes += [helper.make_node("Neg", ["n"], ["h"])] if first else []
    nodes += [onnx.NodeProto.FromString(n.SerializeToString()) for n in RANDOM[kind]] + [helper.make_node("Mul", ["x", "by"], ["z"])]
    for branch in [a.g for n in nodes for a in n.attribute if a.g.node and first and kind == "body"]:
        branch.node[0].input[0] = "before"
        branch.node.insert(0, helper.make_node("Neg", ["h"], ["before"]))
    if seed is not None:
        next(n for n in nodes if n.op_type.startswith("Random")).attribute.append(helper.make_attribute("seed", seed))
    numbers = {"by": np.float32(by), "half": np.float32(0.5), "yes": np.array(True)}
    save(path, nodes, [value("x", ["n", 4])], [value("y", ["n", 4]), value("z", ["n", 4])], numbers)
    model = onnx.load(path)
    if kind == "function":
        inside = [helper.make_node("RandomNormalLike", ["a"], ["r"]), helper.make_node("Add", ["a", "r"], ["b"])]
        model.functions.append(helper.make_function("local", "Inner", ["a"], ["b"], inside, [helper.make_opsetid("", 17)]))
        outside = [helper.make_node("Inner", ["a"], ["b"], domain="local")]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
        model.functions.append(helper.make_function("local", "Noise", ["a"], ["b"], outside, opsets))
        model.opset_import.append(helper.make_opsetid("local", 1))
    used = {i for n in model.graph.node for i in n.input} | {"yes"}
    for t in [t for t in model.graph.initializer if t.name not in used]:
        model.graph.initializer.remove(t)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("kind", RANDOM)
def test_random_numbers(weir, tmp_path, kind):
    """What the runtime draws depends on the nodes before: it shows nothing where it differs, and nothing else is forgiven."""
    source, other, wrong = (noisy(tmp_path / f"{i}.onnx", kind, i > 0, 1 + (i == 2)) for i in range(3))
    done = weir("verify", source, other)
    assert "verified: 1 of 2 outputs (50.0 %), 1 not verified" in done.out and "which each model draws by itself" in done.out
    weir("verify", source, other, "--require", "100%", code=1)
    assert "'z'" in weir("verify", source, wrong, code=1).err
    if kind == "operator":
        seeded = [noisy(tmp_path / f"s{i}.onnx", kind, i > 0, 1, 9.0 if i > 1 else 4.0) for i in range(3)]
        assert "verified: 2 of 2" in weir("verify", *seeded[:2]).out
        assert "'y'" in weir("verify", seeded[0], seeded[2], code=1).err


DRAWN = [helper.make_node("RandomNormalLike", ["x"], ["r"]), helper.make_node("Add", ["x", "r"], ["s"])]
BOTH = ["n", 4]


def drawn(path, nodes, dims=BOTH, dtype=TensorProto.FLOAT, **numbers):
    """y as the nodes say, z of no random numbers."""
    return save(path, [helper.make_node("Neg", ["x"], ["z"]), *nodes], [value("x", BOTH)], [value("y", dims, dtype), value("z", BOTH)], numbers)


def dropped(ratio, mode):
    return [helper.make_node("Dropout", ["x", "ratio", "mode"], ["d"]), helper.make_node("Mul", ["d", "k"], ["y"])], {"ratio": np.float32(ratio), "mode": np.array(mode)}


@pytest.mark.parametrize("what", ["dims", "type", "none", "gone", "shape", "size", "ratio", "mode"])
def test_not_the_work_of_random_numbers(weir, tmp_path, what):
    """Another form, numbers that are none any more, and what numbers that are drawn have no part in."""
    paths, k = [tmp_path / "a.onnx", tmp_path / "b.onnx"], {"k": np.float32(1)}
    if what in ("ratio", "mode"):
        nodes, more = dropped(0 if what == "ratio" else 0.5, what == "ratio")
        for path, by in zip(paths, (1, 3), strict=True):
            drawn(path, nodes, k=np.float32(by), **more)
    elif what in ("shape", "size"):
        nodes = [*DRAWN, helper.make_node(what.title(), ["s"], ["i"]), helper.make_node("Add", ["i", "more"], ["y"])]
        for path, by in zip(paths, (1, 2), strict=True):
            drawn(path, nodes, [2] if what == "shape" else [], I64, more=np.array(by, np.int64))
    else:
        last = {"dims": helper.make_node("Transpose", ["s"], ["y"]), "type": helper.make_node("Cast", ["s"], ["y"], to=TensorProto.DOUBLE),
                "none": helper.make_node("Mul", ["s", "k"], ["y"]), "gone": helper.make_node("Relu", ["x"], ["y"])}[what]  # fmt: skip
        drawn(paths[0], [*DRAWN, helper.make_node("Mul", ["s", "k"], ["y"])], **k)
        drawn(paths[1], [*DRAWN, last], BOTH[::-1] if what == "dims" else BOTH, TensorProto.DOUBLE if what == "type" else TensorProto.FLOAT,
              **({"k": np.float32(np.nan)} if what == "none" else {}))  # fmt: skip
    assert "'y'" in weir("verify", *paths, code=1).err
    weir("verify", paths[0], paths[0])


def test_random_numbers_decide_a_form(weir, tmp_path):
    """Where inference does not know a dim from those of the inputs, the draw may decide it."""
    nodes = [*DRAWN, helper.make_node("NonZero", ["b"], ["p"]), helper.make_node("Shape", ["p"], ["i"]), helper.make_node("Add", ["i", "more"], ["y"])]
    nodes.insert(2, helper.make_node("Greater", ["r", "k"], ["b"]))
    k = {"k": np.float32(0.5)}
    np.savez(tmp_path / "x.npz", x=np.ones((64, 4), np.float32))
    given = ["--inputs", tmp_path / "x.npz"]
    paths = [drawn(tmp_path / f"{i}.onnx", nodes, [2], I64, more=np.array(i, np.int64), **k) for i in range(2)]
    assert "verified: 1 of 2 outputs (50.0 %), 1 not verified" in weir("verify", *paths, *given).out
    open_ = [drawn(tmp_path / f"o{i}.onnx", [*nodes[:3], helper.make_node("NonZero", ["b"], ["y"])], [2, "m"], I64, k=np.float32(i)) for i in range(2)]
    assert "verified: 1 of 2 outputs (50.0 %), 1 not verified" in weir("verify", *open_, *given).out


@pytest.mark.parametrize("words", [["--metric", "sqnr=10"], ["--metric", "max_abs=1e-3"], ["--max-abs", "0"]])
def test_a_bound_of_random_numbers_is_not_met(weir, tmp_path, words):
    paths = [drawn(tmp_path / f"{i}.onnx", [*DRAWN, helper.make_node("Mul", ["s", "k"], ["y"])], k=np.float32(1 + i)) for i in range(2)]
    weir("verify", *paths)
    assert "a requested bound could not be checked: 'y': it depends on random numbers" in weir("verify", *paths, *words, code=1).err


def test_zeros_show_nothing(weir, tmp_path, weight):
    """A model of another weight gives the same zeros; a bound of the user's own counts, and so do exact passes."""
    source, out = product(tmp_path / "m.onnx", weight), tmp_path / "q.onnx"
    weir("quantize", product(tmp_path / "other.onnx", -weight), out, "--block-size", "32")
    np.savez(tmp_path / "zeros.npz", x=np.zeros((ROWS, 64), np.float32))
    assert "returns only zeros for these inputs" in weir("verify", source, out, "--inputs", tmp_path / "zeros.npz", code=1).err
    weir("verify", source, out, "--inputs", tmp_path / "zeros.npz", "--max-abs", "0")
    weir("verify", source, source, "--inputs", tmp_path / "zeros.npz")


def test_few_rows_of_sites(weir, tmp_path, weight):
    source, out = product(tmp_path / "m.onnx", weight), tmp_path / "q.onnx"
    done = weir("quantize", source, out, "--block-size", "32", "--verify", "--verify-metric", "top1=0", code=1)
    assert "too few rows (2, 100 wanted)" in done.err and not out.exists()
    weir("quantize", source, out, "--block-size", "32", "--verify", "--verify-metric", "sqnr=0")


def test_few_rows_of_a_site_of_another_process(weir, tmp_path):
    """Whichever process looks at the one site whose bound could not be judged, the verdict is the same."""
    chance, nodes, inputs, outputs, weights = np.random.default_rng(5), [], [], [], {}
    for i in range(120):
        rows = 5 if i == 100 else 128
        inputs.append(value(f"x{i}", [rows, 16]))
        outputs.append(value(f"y{i}", [rows, 8]))
        weights |= {f"w{i}": chance.normal(size=(16, 8)).astype(np.float32), f"b{i}": chance.normal(size=8).astype(np.float32)}
        nodes += [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"t{i}"]), helper.make_node("Add", [f"t{i}", f"b{i}"], [f"y{i}"])]
    source = save(tmp_path / "m.onnx", nodes, inputs, outputs, weights)
    weir("optimize", source, tmp_path / "o.onnx", "--edit-log", tmp_path / "log.jsonl")
    for _ in range(4):
        done = weir("verify", source, tmp_path / "o.onnx", "--edits", tmp_path / "log.jsonl", "--metric", "top1=0.9", "--jobs", "2", code=1)
        assert "too few rows (5, 100 wanted)" in done.err and "119 of 120 sites" in done.out


# ---- sums that an optimized session cuts off ---------------------------------------------------------------------------


def coded(path, weight, x_zero=np.uint8(0)):
    """x · weight in QDQ form; x_zero None: the activations stay floats."""
    nodes = [helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"]), helper.make_node("MatMul", ["d", "v"], ["h"], name="product")]
    held = {"w": weight, "ws": np.float32(0.01), "wz": np.zeros((), weight.dtype)}
    if x_zero is None:
        nodes[:0] = [helper.make_node("Identity", ["x"], ["d"])]
    else:
        nodes[:0] = [helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["c"]), helper.make_node("DequantizeLinear", ["c", "xs", "xz"], ["d"])]
        held |= {"xs": np.float32(0.02), "xz": x_zero}
    return save(path, nodes, [value("x", ["n", 64])], [value("h", ["n", 32])], held)


@pytest.mark.parametrize(
    "codes, x_zero, told",
    [
        (np.int8(127), np.uint8(0), True),
        (np.int8(-65), np.int8(0), True),
        (np.int8(64), np.uint8(0), False),
        (np.uint8(255), np.uint8(0), False),
        (np.int8(127), None, False),
        (np.int8(127), np.uint16(0), False),
    ],
    ids=["int8", "int8 beside int8", "7 bits", "uint8", "floats", "uint16"],
)
@pytest.mark.parametrize("columns", [32, 4096])
def test_what_an_optimized_session_cuts_off(weir, tmp_path, codes, x_zero, told, columns):
    """On x86 without VNNI the figures of a QDQ model are not those of a session as people open it: the closing lines say so."""
    told = told and not exact_products.has_vnni()
    weight = np.full((64, columns), codes)  # of 4096 columns it is read from the file
    weight[:-1, 1:] //= 4  # the largest code lies anywhere
    held = coded(tmp_path / "q.onnx", weight, x_zero)
    model = onnx.load(held)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = columns
    model.opset_import[0].version = 21  # for codes of 16 bits
    onnx.save(model, held)
    source = product(tmp_path / "m.onnx", weight.astype(np.float32) * np.float32(0.01), shape=("n", columns))
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(4).uniform(0, 2.5, (ROWS, 64)).astype(np.float32))
    given, page = ("--inputs", tmp_path / "rows.npz"), tmp_path / "r.html"
    words = "not checked: on this processor (no VNNI) an optimized session may cut off sums of int8 products; --runtime-optimized with --inputs DIR shows that\n"
    done = weir("verify", source, held, *given, "--report-html", page)
    assert (words in done.out) == told and done.out.splitlines()[-1] == "verified: 1 of 1 output (100.0 %)"
    assert found(weir, source, held, *given).get("optimized_cut_off", False) == told
    assert ("verified without optimizations" in page.read_text()) == ("(<code>--runtime-optimized</code> shows that session)" in page.read_text()) == told
    assert "not checked: on this processor" not in weir("verify", source, held, *given, "--runtime-optimized", code=None).out
    assert "not checked: on this processor" not in weir("verify", source, source, *given).out


@pytest.mark.parametrize("form", ["DynamicQuantizeLinear", "com.microsoft", "Transpose", "Dropout", "Identity"])
def test_how_codes_come_to_a_product_that_is_cut_off(weir, tmp_path, form):
    model = onnx.load(coded(tmp_path / "q.onnx", np.full((32 if form == "Transpose" else 64, 64 if form == "Transpose" else 32), np.int8(127))))
    model.opset_import[0].version = 17
    nodes = {node.op_type: node for node in model.graph.node}
    if form == "DynamicQuantizeLinear":
        quantizer = nodes["QuantizeLinear"]
        quantizer.op_type = form
        del quantizer.input[1:]
        quantizer.output.extend(["dynamic_scale", "dynamic_zero"])
        model.graph.node[1].input[1:] = ["dynamic_scale", "dynamic_zero"]
    elif form == "com.microsoft":
        model.opset_import.append(helper.make_opsetid(form, 1))
        for node in model.graph.node:
            node.domain = form if "Linear" in node.op_type else ""
    else:
        moves = [helper.make_node(form, ["w" if i == 0 else f"w{i}"], [f"w{i + 1}"]) for i in range(9 if form == "Identity" else 1)]
        of_weight = next(node for node in model.graph.node if node.input[0] == "w")
        of_weight.input[0] = moves[-1].output[0]
        if form == "Dropout":  # before the product
            moves[0].input[0], moves[0].output[0], of_weight.input[0], nodes["MatMul"].input[1] = "v", "w1", "w", "w1"
        at = len(model.graph.node) - (1 if form == "Dropout" else 2)
        rest = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend([*rest[:at], *moves, *rest[at:]])
    onnx.save(model, tmp_path / "q.onnx")
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(4).uniform(0, 2.5, (ROWS, 64)).astype(np.float32))
    done = weir("verify", tmp_path / "q.onnx", tmp_path / "q.onnx", "--inputs", tmp_path / "rows.npz")
    assert ("not checked: on this processor" in done.out) == (not exact_products.has_vnni())


def test_an_optimized_session_that_cuts_off_fails(weir, tmp_path):
    """The option that the line names does find it."""
    held = coded(tmp_path / "q.onnx", np.full((64, 32), np.int8(127)))
    source = product(tmp_path / "m.onnx", np.full((64, 32), np.float32(1.27)))
    np.savez(tmp_path / "rows.npz", x=np.full((ROWS, 64), np.float32(5)))
    assert "verified: 1 of 1" in weir("verify", source, held, "--inputs", tmp_path / "rows.npz").out
    cut = not exact_products.has_vnni()
    done = weir("verify", source, held, "--inputs", tmp_path / "rows.npz", "--runtime-optimized", code=int(cut))
    assert ("SQNR" in done.err) == cut


def test_sites_with_products_that_are_cut_off(weir, tmp_path, weight):
    """After a run that verifies its sites another command shows that session."""
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(4).normal(size=(ROWS, 64)).astype(np.float32))
    source, out, ranges, log = product(tmp_path / "m.onnx", weight), tmp_path / "q.onnx", tmp_path / "r.jsonl", tmp_path / "log.jsonl"
    weir("calibrate", source, "-o", ranges, "--data", tmp_path / "rows.npz")
    words = "may cut off sums of int8 products; 'weir verify SRC OUT --runtime-optimized --inputs DIR' shows that\n"
    for more in ([], ["--reduce-range"]):
        told = not more and not exact_products.has_vnni()
        done = weir("static", source, out, "--ranges", ranges, "--force", "--verify", "--edit-log", log, *more)
        assert (words in done.out) == told and "accuracy was not measured" in done.out
        assert (words in weir("verify", source, out, "--edits", log).out) == told
        assert (words in weir("verify", source, "--edits", log).out) == told  # which writes no codes


# ---- steps -----------------------------------------------------------------------------------------------------------


def test_steps_of_a_pipeline(weir, tmp_path, weight, given):
    """Steps that look, and models pass by pass: the same words, each by what came before it."""
    source, report = product(tmp_path / "m.onnx", weight, [helper.make_node("Identity", ["h"], ["i"]), helper.make_node("Relu", ["i"], ["y"])], "y"), tmp_path / "r.json"
    passes = ["--pass", "tidy/identity", "--pass", "VerifyTolerance", "--pass", "quantize:bits=8,block_size=32", "--pass", "VerifyTolerance"]
    for more, last in (([], "not_judged"), (["--verify-inputs", given], "passed")):
        weir("run", source, tmp_path / "o.onnx", *passes, *more, "--verify=model", "--force", "--report-json", report, code=None)
        rows = json.loads(report.read_text())["verification"]["rows"]
        assert [row["status"] for row in rows][:2] == ["passed", last] and [row["loses"] for row in rows][:2] == [False, True]
