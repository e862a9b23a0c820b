"""`weir conv2matmul`: the same numbers from MatMul, on generated, exported and real models.

ONNX Runtime gives the numbers of source and result, ONNX's own evaluator those of double and bfloat16. Beside the
numbers: every Conv of the generated matrix has the expected word in the report, checkers accept the output, nothing
dead stays, and what the rewrite promises of its form (shared weights, cancelled Transposes, plain Reshapes) is there.
"""

import itertools
import json
import shutil
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import compare
import conv_matrix
import random_convs
from conftest import ALL, DATA, copy_model, package_model, package_models

FORMS = ("flat", "batched", "auto")
EVERYTHING = ("--extended-conv1x1", "--allow-non-unit-dilation")
SPECIAL = {case.name: case for case in conv_matrix.special()}
RANKS_AND_DTYPES = list(itertools.product(conv_matrix.SPATIAL, conv_matrix.DTYPES))


def rewrite(weir, source, out, *options):
    """Convert with every permission; gives the report."""
    return weir.report("conv2matmul", source, out, *EVERYTHING, "--no-manifest", *options)


def reasons(report):
    """The report's words, with all kinds of converted_… as one."""
    return ["converted" if node["status"] == "converted" else node["reason"] for node in report["nodes"]]


def convs(path):
    return len(compare.nodes(compare.structure(path), "Conv"))


def check(path, full=False):
    onnx.checker.check_model(path, full_check=full)


def passes_full_check(path):
    """Does the source itself stand the checker with shape inference?"""
    try:
        check(path, full=True)
    except Exception:
        return False
    return True


def nothing_dead(source, out):
    """No initializer of the output is unused that the source did not leave unused already."""
    before = set(compare.dead_initializers(compare.structure(source)))
    assert set(compare.dead_initializers(compare.structure(out))) <= before


# ---- the matrix


def check_case(weir, folder, case):
    """All forms of one case; raises on what is wrong."""
    source = folder / "in.onnx"
    onnx.save(case.model, source)
    full = passes_full_check(source)
    wanted = [[conv_matrix.reference(case.model, feeds) for feeds in case.feeds(0)]] if case.runnable else []
    for form in FORMS:
        out = folder / f"{form}.onnx"
        report = rewrite(weir, source, out, "--form", form)
        assert reasons(report) == case.expected(), (form, report["nodes"])
        kept = sum(reason != "converted" for reason in case.expected())
        foreign = convs(source) - len(case.sites)
        assert convs(out) == kept + foreign, (form, convs(out))
        check(out, full)
        nothing_dead(source, out)
        for want in wanted:
            same_numbers(case, out, want)


def same_numbers(case, out, wanted):
    model = onnx.load(out)
    for feeds, want in zip(case.feeds(0), wanted, strict=True):
        for a, b in zip(want, conv_matrix.reference(model, feeds), strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype, f"{a.dtype}{a.shape} became {b.dtype}{b.shape}"
            if not a.size:
                continue
            a, b = a.astype(np.float64), b.astype(np.float64)
            bound = conv_matrix.tolerance(case.dtype, case.channels, np.abs(a).max())
            assert np.abs(a - b).max() <= bound, f"off by {np.abs(a - b).max():.3g}, {bound:.3g} allowed"


def complaint(weir, folder, case):
    here = folder / case.name
    here.mkdir()
    try:
        check_case(weir, here, case)
    except Exception as failure:  # whatever a checker or runtime throws
        return f"{case.name}: {type(failure).__name__}: {str(failure)[:400]}"
    shutil.rmtree(here)
    return None


def cases_of(rank, dtype, half):
    """Every fourth case of these without WEIR_TEST_ALL, the others as the other half: an opset meets every stride and padding, at
    one rank and type in four."""
    cases = [case for case in conv_matrix.matrix() if case.name.startswith(f"{rank}d-{dtype}-")]
    opsets = len(conv_matrix.OPSETS[dtype])
    assert len(cases) == 10 * opsets
    begin = RANKS_AND_DTYPES.index((rank, dtype)) + 2 * half
    return [case for number, case in enumerate(cases) if ALL or (begin + number // opsets + number % opsets) % 4 == 0]


@pytest.mark.parametrize("rank, dtype", RANKS_AND_DTYPES)
def test_matrix(weir, quick_folder, pool, rank, dtype):
    cases = cases_of(rank, dtype, 0)
    complaints = [each for each in pool.map(lambda case: complaint(weir, quick_folder, case), cases) if each]
    assert not complaints, f"{len(complaints)} of {len(cases)}:\n" + "\n".join(complaints[:10])


@pytest.mark.parametrize("name", SPECIAL)
def test_special(weir, quick_folder, name):
    failure = complaint(weir, quick_folder, SPECIAL[name])
    assert not failure, failure


def test_permissions_of_every_case(weir, quick_folder, pool):
    """What is left alone without --extended-conv1x1 or --allow-non-unit-dilation, and the word for it."""

    def words(case):
        source = quick_folder / f"{case.name}.onnx"
        onnx.save(case.model, source)
        wrong = []
        for extended, dilation in itertools.product((False, True), repeat=2):
            options = [EVERYTHING[0]] * extended + [EVERYTHING[1]] * dilation
            report = weir.report("conv2matmul", source, "--dry-run", *options)
            if reasons(report) != case.expected(extended, dilation):
                wrong.append(f"{case.name} {options}: {reasons(report)}, not {case.expected(extended, dilation)}")
        return wrong

    cases = [*SPECIAL.values(), *itertools.islice(conv_matrix.matrix(), 0, None, 7)]
    complaints = [each for found in pool.map(words, cases) for each in found]
    assert not complaints, "\n".join(complaints[:10])


def test_max_dilation(weir, tmp_path):
    onnx.save(SPECIAL["dilation_2"].model, tmp_path / "in.onnx")
    for limit, expected in {
        1: "dilation_exceeds_max_guardrail",
        2: "dilation_exceeds_max_guardrail",
        3: "converted",
    }.items():
        report = weir.report(
            "conv2matmul", tmp_path / "in.onnx", "--dry-run", *EVERYTHING, "--max-dilation", str(limit)
        )
        assert reasons(report) == [expected], limit


# ---- what becomes of the graph


def special(weir, folder, name, *options):
    """The rewritten model of a special case, and its source."""
    onnx.save(SPECIAL[name].model, folder / "in.onnx")
    rewrite(weir, folder / "in.onnx", folder / "out.onnx", *options)
    return compare.structure(folder / "out.onnx"), SPECIAL[name].model


def count(model):
    return Counter(node.op_type for node in compare.nodes(model))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["shared_weight", "shared_weight_with_identity"])
def test_shared_weight_is_transposed_once(weir, tmp_path, form, name):
    model, _ = special(weir, tmp_path, name, "--form", form)
    products = compare.nodes(model, "MatMul")
    assert len(products) == 2 and len({node.input[1] for node in products}) == 1
    assert [list(each.dims) for each in model.graph.initializer if len(each.dims) > 1] == [[6, 6]]


def test_weight_shared_with_a_body_is_transposed_once(weir, tmp_path):
    model, _ = special(weir, tmp_path, "weight_shared_with_body")
    assert len({node.input[1] for node in compare.nodes(model, "MatMul")}) == 1


@pytest.mark.parametrize("name", ["weight_used_elsewhere", "weight_used_by_other_conv", "weight_is_graph_output"])
def test_weight_used_elsewhere_stays(weir, tmp_path, name):
    model, source = special(weir, tmp_path, name)
    before = {each.name: each.raw_data for each in source.graph.initializer}
    after = {each.name: each.raw_data for each in model.graph.initializer}
    assert after["y.weight"] == before["y.weight"]


def test_weight_used_nowhere_else_goes(weir, tmp_path):
    model, _ = special(weir, tmp_path, "consecutive_with_activation")
    names = {each.name for each in model.graph.initializer}
    assert not names & {"a.weight", "b.weight"} and {"a.bias", "b.bias"} <= names


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name, expected", [("consecutive_1d", 2), ("consecutive_2d_static", 2), ("consecutive_middle_seen", 3)]
)
def test_transposes_between_two_rewrites_cancel(weir, tmp_path, form, name, expected):
    """Two Convs in a row: in and out again once, and once more where the value between is wanted."""
    model, _ = special(weir, tmp_path, name, "--form", form)
    assert count(model)["Transpose"] <= expected, count(model)


def test_static_shapes_give_a_plain_reshape(weir, tmp_path):
    model, _ = special(weir, tmp_path, "consecutive_2d_static", "--form", "flat")
    assert not {"Shape", "Gather", "Concat"} & set(count(model)), count(model)
    assert count(model)["Reshape"] >= 1


def test_batched_form_needs_no_reshape(weir, tmp_path):
    for form in ("batched", "auto"):
        (tmp_path / form).mkdir()
        model, _ = special(weir, tmp_path / form, "encoder_like", "--form", form)
        assert not {"Shape", "Gather", "Concat", "Reshape"} & set(count(model)), count(model)


@pytest.mark.parametrize("form", FORMS)
def test_source_s_own_transposes(weir, tmp_path, form):
    """A pair of Transposes that the source has behind a Conv, whose output is wanted as well."""
    weight = onnx.numpy_helper.from_array(conv_matrix.noise(1, (4, 3, 1, 1), np.float32), "w")
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["y"]),
        onnx.helper.make_node("Transpose", ["y"], ["t"], perm=[0, 2, 3, 1]),
        onnx.helper.make_node("Transpose", ["t"], ["z"], perm=[0, 3, 1, 2]),
    ]
    m = conv_matrix.Model()
    m.nodes, m.initializers = nodes, [weight]
    m.input("x", [1, 3, 5, 6])
    m.output("z", [1, 4, 5, 6])
    m.output("y", [1, 4, 5, 6])
    onnx.save(m.build(), tmp_path / "in.onnx")
    feeds = [{"x": conv_matrix.noise(2, (1, 3, 5, 6), np.float32)}]
    same_as_source(weir, tmp_path / "in.onnx", tmp_path / "out.onnx", feeds, "--form", form)


def random_complaint(weir, folder, seed):
    """Rewrite a random graph in two forms; replay the edits; gives a complaint or None."""
    model, dims = random_convs.random_model(seed)
    here = folder / str(seed)
    here.mkdir()
    onnx.save(model, here / "in.onnx")
    feeds = [{"x": conv_matrix.noise(seed, dims, np.float32)}]
    try:
        for form in ("flat", "batched"):
            out, log = here / f"{form}.onnx", here / f"{form}.jsonl"
            same_as_source(weir, here / "in.onnx", out, feeds, "--form", form, "--edit-log", log)
            check(out, full=True)
            pointwise = [
                n
                for n in compare.nodes(compare.structure(out), "Conv")
                if not any(a.name == "group" for a in n.attribute)
            ]
            assert not pointwise, "a pointwise Conv is left"
            (here / "again").mkdir(exist_ok=True)
            weir("replay", log, here / "in.onnx", here / "again" / out.name, "--no-manifest")
            assert (here / "again" / out.name).read_bytes() == out.read_bytes(), "the replay differs"
    except Exception as failure:
        return f"seed {seed}, {form}: {type(failure).__name__}: {str(failure)[:300]}"
    shutil.rmtree(here)
    return None


def test_random_graphs(weir, quick_folder, pool):
    seeds = range(300 if ALL else 30)
    complaints = [each for each in pool.map(lambda seed: random_complaint(weir, quick_folder, seed), seeds) if each]
    assert not complaints, f"{len(complaints)} of {len(seeds)}:\n" + "\n".join(complaints[:10])


def shapes(model, names=None):
    """name → (element type, dims with None for what is not a number) of all that the model declares."""
    found = {}
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output]:
        kind = value.type.tensor_type
        if kind.HasField("shape"):
            dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim]
            found[value.name] = (kind.elem_type, dims)
    return found


def assert_declared_is_true(path):
    """What the model says of its values agrees with what inference finds without being told."""
    model = compare.structure(path)
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    inferred = shapes(onnx.shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True))
    for name, (kind, dims) in shapes(model).items():
        if name not in inferred:
            continue
        other_kind, other = inferred[name]
        assert kind == other_kind and len(dims) == len(other), name
        assert all(a is None or b is None or a == b for a, b in zip(dims, other)), (name, dims, other)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["with_value_info", "consecutive_2d_static", "consecutive_3d_strided", "encoder_like"])
def test_value_info_stays_true(weir, tmp_path, name, form):
    inferred = onnx.shape_inference.infer_shapes(SPECIAL[name].model)
    onnx.save(inferred, tmp_path / "in.onnx")
    rewrite(weir, tmp_path / "in.onnx", tmp_path / "out.onnx", "--form", form)
    assert_declared_is_true(tmp_path / "out.onnx")
    known = set(shapes(compare.structure(tmp_path / "out.onnx")))
    made = {name for node in compare.nodes(compare.structure(tmp_path / "out.onnx")) for name in node.output}
    constants = {each.name for each in compare.structure(tmp_path / "out.onnx").graph.initializer}
    assert known - made <= {"x", "batch"} | constants, "value_info of values that are gone"


def test_rewriting_twice_changes_nothing(weir, tmp_path):
    onnx.save(SPECIAL["encoder_like"].model, tmp_path / "in.onnx")
    rewrite(weir, tmp_path / "in.onnx", tmp_path / "once.onnx")
    report = rewrite(weir, tmp_path / "once.onnx", tmp_path / "twice.onnx")
    assert report["converted"] == 0
    assert (tmp_path / "once.onnx").read_bytes() == (tmp_path / "twice.onnx").read_bytes()


@pytest.mark.parametrize("options", [(), ("--strict-compat",)])
def test_a_conv_with_two_outputs_stays(weir, tmp_path, options):
    """No runtime knows what the second is; whoever uses it must not lose it."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 5]) for name in ("x", "y", "z")]
    weight = numpy_helper.from_array(np.ones((2, 2, 1), np.float32), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["y", "more"], "c"), helper.make_node("Relu", ["more"], ["z"])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "in.onnx")
    report = weir.report("conv2matmul", tmp_path / "in.onnx", tmp_path / "out.onnx", *options)
    assert reasons(report) == ["invalid_input_count"]
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "in.onnx").read_bytes()


def old_model(path, count):
    """IR version 3, where every initializer is an input too: a chain of `count` Convs, a strided one and a MatMul."""
    weight = np.ones((1, 1, 1), np.float32)
    weights = {f"w{number}": weight for number in range(count + 1)} | {"v": np.ones((3, 2), np.float32)}
    names = ["x", *(f"h{number}" for number in range(count))]
    nodes = [helper.make_node("Conv", [names[k], f"w{k}"], [names[k + 1]], name=f"n{k}") for k in range(count)]
    nodes.append(helper.make_node("Conv", [names[count], f"w{count}"], ["strided"], strides=[2], name="s"))
    nodes.append(helper.make_node("MatMul", ["strided", "v"], ["y"]))
    dims = {"x": [1, 1, 6], **{name: values.shape for name, values in weights.items()}, "y": [1, 1, 2]}
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, each) for name, each in dims.items()}
    tensors = [numpy_helper.from_array(each, name) for name, each in weights.items()]
    graph = helper.make_graph(nodes, "old", [each for name, each in values.items() if name != "y"], [values["y"]], tensors)
    onnx.save(helper.make_model(graph, ir_version=3, opset_imports=[helper.make_opsetid("", 11)]), path)


@pytest.mark.parametrize("then", ["conv2matmul:extended_conv1x1=true", "quantize:block_size=16", "cast:min_elements=1"])
def test_what_was_constant_before_ir_4_stays_it(weir, tmp_path, then):
    """In a second pass, or a second run, the weights that the first one left are weights still."""
    source, alone, once, out = (tmp_path / f"{name}.onnx" for name in ("in", "alone", "once", "out"))
    old_model(source, 2)
    then += ",to=float16" if then.startswith("cast") else ""
    weir("conv2matmul", source, once)
    weir("run", once, alone, "--pass", then)
    weir("run", source, out, "--pass", "conv2matmul", "--pass", then)
    for path in (once, alone, out):
        model = onnx.load(path)
        onnx.checker.check_model(model)
        assert model.ir_version >= 4 and [each.name for each in model.graph.input] == ["x"]
    assert sorted(node.op_type for node in onnx.load(alone).graph.node) == sorted(
        node.op_type for node in onnx.load(out).graph.node
    )
    report = weir.report("run", source, tmp_path / "again.onnx", "--pass", "conv2matmul", "--pass", then)
    assert "overridable" not in json.dumps(report) and "graph_input" not in json.dumps(report)
    assert report["passes"][1]["converted"] >= 1
    feeds = [{"x": np.arange(6, dtype=np.float32).reshape(1, 1, 6)}]
    want, [got] = compare.run(source, feeds)[0], compare.run(once, feeds)
    assert all(np.array_equal(a, b) for a, b in zip(want, got))


def test_many_inputs_of_initializers_go(weir, tmp_path):
    """The list of inputs is not copied for each of them: the index grows with the model."""
    index = {}
    for count in (1000, 8000):
        old_model(tmp_path / "in.onnx", count)
        report = weir.report("conv2matmul", tmp_path / "in.onnx", tmp_path / "out.onnx", "--force")
        assert report["converted"] == count
        index[count] = report["weir"]["index_bytes"]
    assert index[8000] <= 2 * 8 * index[1000], index


# ---- generated and exported encoders


def encoder_feeds(mels, frames=(97, 160)):
    return [
        {
            "audio_signal": np.random.default_rng(seed).normal(size=(1, mels, count)).astype(np.float32),
            "length": np.array([count], np.int64),
        }
        for seed, count in enumerate(frames)
    ]


def parakeet_feeds():
    """Features and mask; the second feed has a batch of two, of which one is half silent."""
    feeds = []
    for seed, (batch, frames) in enumerate([(1, 97), (2, 128)]):
        mask = np.ones((batch, frames), bool)
        mask[1:, frames // 2 :] = False
        signal = np.random.default_rng(seed).normal(size=(batch, frames, 32)).astype(np.float32)
        feeds.append({"audio_signal": signal, "attention_mask": mask})
    return feeds


def same_as_source(weir, source, out, feeds, *options):
    """Rewrite, check, run both; gives the report."""
    report = rewrite(weir, source, out, *options)
    check(out)
    nothing_dead(source, out)
    compare.assert_close(compare.run(source, feeds), compare.run(out, feeds))
    return report


@pytest.mark.parametrize("form", FORMS)
def test_encoder_of_one_layer(weir, tmp_path, one_layer, form):
    report = same_as_source(weir, one_layer, tmp_path / "out.onnx", encoder_feeds(128), "--form", form)
    assert report["converted"] == 4 and convs(tmp_path / "out.onnx") == 4
    shutil.rmtree(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("layers, fixture", [(4, "medium_encoder"), pytest.param(24, "full_encoder", marks=pytest.mark.long)])
def test_encoder_of_many_layers(request, weir, large_folder, layers, fixture):
    """400 MB (--all: 2.4 GB); source and result are run one after the other, and the result goes at once."""
    source, out = request.getfixturevalue(fixture), large_folder / "rewritten" / "encoder-model.onnx"
    out.parent.mkdir()
    report = rewrite(weir, source, out)
    assert report["converted"] == 2 + 2 * layers
    assert report["weir"]["output"][0]["size"] > 100_000_000 * layers - 10_000_000
    check(out)
    compare.assert_close(compare.run(source, encoder_feeds(128)), compare.run(out, encoder_feeds(128)))
    shutil.rmtree(out.parent)


def test_the_comparison_of_numbers_can_fail(weir, tmp_path, small_encoder):
    """The control arm: a weight that was not transposed, though its bytes are all there."""
    rewrite(weir, small_encoder, tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    [weight] = [each for each in model.graph.initializer if each.name == "/layers.0/conv/pointwise_conv2/Conv_w_t"]
    weight.raw_data = onnx.numpy_helper.to_array(weight).T.tobytes()
    onnx.save(model, tmp_path / "wrong.onnx")
    with pytest.raises(AssertionError, match="max abs"):
        feeds = encoder_feeds(128)
        compare.assert_close(compare.run(small_encoder, feeds), compare.run(tmp_path / "wrong.onnx", feeds))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["parakeet-dynamo", "parakeet-torchscript"])
def test_parakeet_exports(weir, tmp_path, name, form):
    source = DATA / name / "encoder-model.onnx"
    report = same_as_source(weir, source, tmp_path / "out.onnx", parakeet_feeds(), "--form", form)
    assert report["converted"] == 6 and all("kernel_not_1x1" in node["reason"] for node in report["nodes"]
                                            if node["status"] == "skipped")  # fmt: skip
    assert_declared_is_true(tmp_path / "out.onnx")


# ---- real models


def image_feeds(*dims):
    return [{"x": np.random.default_rng(0).normal(size=dims).astype(np.float32)}]


REAL = {
    "det": ("rapidocr", image_feeds(1, 3, 64, 96), 61, 83),
    "cls": ("rapidocr", image_feeds(2, 3, 48, 192), None, 53),
    "rec": ("rapidocr", image_feeds(1, 3, 48, 160), None, None),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", REAL)
def test_rapidocr(weir, tmp_path, part, form):
    package, feeds, converted, every = REAL[part]
    source = package_model(package, part)
    report = same_as_source(weir, source, tmp_path / "out.onnx", feeds, "--form", form)
    pointwise = [node for node in report["nodes"] if node["reason"] not in ("kernel_not_1x1", "group_not_1")]
    assert all(node["status"] == "converted" for node in pointwise), [n for n in pointwise if n["status"] == "skipped"]
    assert report["converted"] == len(pointwise) > 10
    assert converted in (None, report["converted"]) and every in (None, len(report["nodes"]))
    assert convs(tmp_path / "out.onnx") == report["skipped"]


def silero_feeds(path):
    """Noise for whatever a silero model takes: some want a rate, some a state, one a sequence."""
    dims = {"input": (1, 576), "state": (2, 1, 128), "h": (1, 1, 128), "c": (1, 1, 128)}
    if "sequence" in path.name:
        dims["input"] = (7, 576)
    rates = (16000, 8000) if path.name in ("silero_vad.onnx", "silero_vad_op18_ifless.onnx") else (16000,)
    names = [each.name for each in compare.session(path).get_inputs()]
    feeds = []
    for rate in rates:
        random = np.random.default_rng(rate)
        feed = {name: (random.normal(size=dims[name]) / 4).astype(np.float32) for name in names if name in dims}
        if rate == 8000:
            feed["input"] = feed["input"][:, :288]
        if "sr" in names:
            feed["sr"] = np.array(rate, np.int64)
        feeds.append(feed)
    return feeds


@pytest.mark.parametrize("path", package_models("silero_vad"), ids=lambda path: path.stem)
def test_silero_vad(weir, tmp_path, path):
    """Convs in nested If bodies, some of them without a known shape."""
    source = copy_model(path, tmp_path / "in")
    for form in FORMS:
        report = same_as_source(weir, source, tmp_path / f"{form}.onnx", silero_feeds(path), "--form", form)
        pointwise = [node for node in report["nodes"] if node["reason"] not in ("kernel_not_1x1", "group_not_1")]
        assert all(node["status"] == "converted" for node in pointwise), pointwise
    if path.name == "silero_vad.onnx":
        assert {node["graph"] for node in report["nodes"]} != {0}


# ---- strictly as the existing tool


def peer(source, options):
    """What onnx-conv2matmul makes of a model: (report as it writes it, model with raw payloads)."""
    from onnx_conv2matmul.rewriter import RewriteOptions, rewrite_conv1x1_to_matmul

    model, report = rewrite_conv1x1_to_matmul(onnx.load(source), RewriteOptions(**options))
    for _, tensor in compare.tensors(model):
        compare.make_raw(tensor, None)
    return json.dumps(report.to_json_dict(), indent=2, sort_keys=True) + "\n", model


def words(options):
    flags = {"allow_extended_conv1x1": "--extended-conv1x1", "allow_non_unit_dilation": "--allow-non-unit-dilation"}
    made = [flag for name, flag in flags.items() if options.get(name)]
    return made + ([f"--max-dilation={options['max_dilation']}"] if "max_dilation" in options else [])


def combinations(limits=(None,)):
    for extended, dilation, limit in itertools.product((False, True), (False, True), limits):
        options = {"allow_extended_conv1x1": extended, "allow_non_unit_dilation": dilation}
        yield options | ({"max_dilation": limit} if limit else {})


def assert_strictly_equal(weir, source, folder, options):
    """Report byte for byte; nodes, tensors and declared values one by one and in order.

    What is declared of a value that nothing uses may be lost with the Conv that made it.
    """
    report, out = folder / "report.json", folder / "out.onnx"
    weir(
        "conv2matmul",
        source,
        out,
        "--strict-compat",
        *words(options),
        "--report-json",
        report,
        "--no-manifest",
        "--force",
    )
    expected, theirs = peer(source, options)
    assert report.read_text() == expected, f"{options}: {compare.shorten(report.read_text())}"
    ours, used = compare.raw_model(out), compare.used_names(theirs)
    for name in ("node", "initializer", "input", "output", "value_info", "sparse_initializer"):
        a, b = ([each for each in getattr(model.graph, name) if name != "value_info" or each.name in used]
                for model in (ours, theirs))  # fmt: skip
        assert len(a) == len(b), f"{options}: {len(a)} {name}s, they have {len(b)}"
        for x, y in zip(a, b):
            found = compare.difference(x, y, f"{name} '{x.name}'")
            assert not found, f"{options}: {found}"
            same = x.SerializeToString(deterministic=True) == y.SerializeToString(deterministic=True)
            assert same or found == "", f"{options}: {name} '{x.name}'"


def strict_sources():
    yield from (DATA / name / "encoder-model.onnx" for name in ("parakeet-dynamo", "parakeet-torchscript"))
    for package in ("rapidocr", "silero_vad", "magika"):
        yield from package_models(package)


@pytest.mark.parametrize(
    "source", list(strict_sources()), ids=lambda path: path.stem if path.stem != "encoder-model" else path.parent.name
)
def test_strict_compat_on_real_models(weir, tmp_path, source):
    for options in combinations():
        assert_strictly_equal(weir, source, tmp_path, options)


@pytest.mark.parametrize("name", SPECIAL)
def test_strict_compat_on_special_cases(weir, quick_folder, name):
    onnx.save(SPECIAL[name].model, quick_folder / "in.onnx")
    for options in combinations(limits=(None, 2) if "dilation" in name else (None,)):
        assert_strictly_equal(weir, quick_folder / "in.onnx", quick_folder, options)


def test_words_and_files_of_the_existing_tool(weir, tmp_path):
    """Errors that its own tests compare; a report that a reader of JSON takes; a data file also where all weights are small."""
    source, out = DATA / "exports" / "cnn-kept-dynamo-18.onnx", tmp_path / "out.onnx"
    assert "max_dilation must be >= 1" in weir("conv2matmul", source, out, "--max-dilation", "0", code=2).err
    for option in ("--verify-output-index", "--verify-length-output-index"):
        said = weir("conv2matmul", source, out, "--verify", option, "7", code=2).err
        [output] = onnx.load(source, load_external_data=False).graph.output
        assert f"{option} out of range. Model has 1 output(s)." in said and f"hint: {option} 7: the model has one output ('{output.name}', index 0)" in said
    assert not out.exists()
    none = onnx.load(source)
    del none.graph.output[:]
    onnx.save(none, tmp_path / "none.onnx")
    for option in ("--verify-output-index", "--verify-length-output-index"):
        said = weir("conv2matmul", tmp_path / "none.onnx", out, "--verify", option, "0", code=2).err
        assert f"{option} out of range. Model has 0 output(s)." in said
    assert json.loads(weir("conv2matmul", source, out, "--report-json-stdout").out)["converted"] == 1
    told, line = weir("conv2matmul", source, out, "--report-json-stdout", "--strict-compat", "--force").out.rsplit("}", 1)
    assert json.loads(told + "}")["converted"] == 1 and line.strip() == f"converted=1 skipped=3 output={out}"
    weir("convert", source, tmp_path / "ext.onnx", "--external-threshold", "1")
    weir("conv2matmul", tmp_path / "ext.onnx", tmp_path / "strict.onnx", "--strict-compat")
    inline = [each for each in onnx.load(tmp_path / "strict.onnx", load_external_data=False).graph.initializer if each.data_location != TensorProto.EXTERNAL]
    assert all(np.prod(each.dims) <= 8 or each.data_type == TensorProto.INT64 for each in inline) and (tmp_path / "strict.onnx.data").exists()


def test_strict_compat_on_a_generated_encoder(weir, tmp_path, small_encoder):
    for options in combinations():
        assert_strictly_equal(weir, small_encoder, tmp_path, options)


@pytest.mark.parametrize("rank, dtype", RANKS_AND_DTYPES)
def test_strict_compat_on_the_matrix(weir, quick_folder, pool, rank, dtype):
    def complain(case):
        here = quick_folder / case.name
        here.mkdir()
        onnx.save(case.model, here / "in.onnx")
        try:
            for extended in (False, True):
                assert_strictly_equal(weir, here / "in.onnx", here, {"allow_extended_conv1x1": extended})
        except AssertionError as failure:
            return f"{case.name}: {str(failure)[:400]}"
        shutil.rmtree(here)
        return None

    cases = cases_of(rank, dtype, 1)
    complaints = [each for each in pool.map(complain, cases) if each]
    assert not complaints, f"{len(complaints)} of {len(cases)}:\n" + "\n".join(complaints[:10])


def test_strict_compat_on_random_graphs(weir, quick_folder, pool):
    def complain(seed):
        here = quick_folder / str(seed)
        here.mkdir()
        onnx.save(random_convs.random_model(seed)[0], here / "in.onnx")
        try:
            for extended in (False, True):
                assert_strictly_equal(weir, here / "in.onnx", here, {"allow_extended_conv1x1": extended})
        except AssertionError as failure:
            return f"seed {seed}: {str(failure)[:400]}"
        shutil.rmtree(here)
        return None

    seeds = range(60, 260 if ALL else 110)
    complaints = [each for each in pool.map(complain, seeds) if each]
    assert not complaints, f"{len(complaints)} of {len(seeds)}:\n" + "\n".join(complaints[:10])


def test_strict_compat_report_on_standard_output(weir, tmp_path):
    source = DATA / "parakeet-dynamo" / "encoder-model.onnx"
    done = weir("conv2matmul", source, tmp_path / "out.onnx", "--strict-compat", "--report-json-stdout", "--quiet")
    assert peer(source, {})[0] in done.out
