"""What targets stand for runs the models that weir writes for them: ONNX Runtime Web, transformers.js, GenAI, Qualcomm's simulator.

With WEIR_TEST_ALL only (`tools/test --all`), since all of it is fetched first: tests/support/consumers.py and runtimes.py
say what, and keep it. Who lacks node or chromium has those tests skipped.
"""

import json

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import consumers
import runtimes
from test_targets import ALL, BASES, FORMATS, NEAR, Written, refused, save, warned

pytestmark = pytest.mark.skipif(not ALL, reason="with tools/test --all")


def had(run, *words):
    """What run gives; skips where the consumer cannot be had."""
    try:
        return run(*words)
    except runtimes.Missing as why:
        pytest.skip(str(why))


def near(got, wanted, most):
    error = np.linalg.norm(np.asarray(got) - wanted) / np.linalg.norm(wanted)
    assert error < most, f"a relative error of {error:.3g}"


def session(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def value(name, dims, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


# ---- ONNX Runtime Web


@pytest.fixture(scope="module")
def written(tmp_path_factory, weir):
    return Written(tmp_path_factory.mktemp("formats"), weir)


def refused_formats(weir, written, target):
    return {name for name in FORMATS if FORMATS[name][1][0] != "convert" and refused(weir, written, name, target)}


MATH = "float16 arithmetic"


def test_webassembly_runs_every_format(written, tmp_path):
    jobs = written.jobs(tmp_path)
    found = had(consumers.run_wasm, jobs, tmp_path)
    assert not any(found[source] for source in BASES)
    failed = {name for name, why in written.near(jobs, found, "WebAssembly").items() if why}
    assert failed == {"bfloat16 graph"}  # as the CPU provider of any version


def without_float16(found, features, computes):
    """What failed for other reasons than the adapter's: without float16 it fails on all that computes in it, and on nothing else so."""
    adapter = "requires f16 but the device does not support it"
    halves = {name for name, why in found.items() if why and adapter in why}
    failed = {name for name, why in found.items() if why} - halves
    assert halves == (set() if "shader-f16" in features else computes - failed)
    return failed


def test_webgpu_runs_what_is_not_refused(weir, written, tmp_path):
    jobs = written.jobs(tmp_path)
    found, features = had(consumers.run_page, jobs, tmp_path, "webgpu")
    assert found["matmul"] is None and found["gather"] is None
    wanted = refused_formats(weir, written, "webgpu")
    computes = {name for name in set(FORMATS) - wanted if MATH in warned(weir, written, name, "webgpu")}
    assert wanted and "float16 graph" in computes
    assert without_float16(written.near(jobs, found, "WebGPU"), features, computes) == wanted


def two_layers(path):
    """x → MatMul → Relu → MatMul, weights of 256 × 256."""
    random = np.random.default_rng(5)
    weights = [numpy_helper.from_array(random.normal(size=(256, 256)).astype(np.float32) / 16, name) for name in "ab"]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "b"], ["y"], "second"),
    ]
    np.savez(path.with_suffix(".npz"), x=random.normal(size=(3, 256)).astype(np.float32))
    return save(path, nodes, [value("x", [3, 256])], [value("y", [3, 256])], weights)


def open_rows(path):
    """The same with dims that have names, for which [1, 3, 256] is given."""
    model = onnx.load(two_layers(path))
    for each in (*model.graph.input, *model.graph.output):
        each.CopyFrom(value(each.name, ["batch", "rows", 256]))
    onnx.save(model, path)
    given = np.load(path.with_suffix(".npz"))["x"]
    np.savez(path.with_suffix(".npz"), x=given[None])
    return path


def on_webgpu(jobs, scratch):
    return consumers.run_page(jobs, scratch, "webgpu")[0]


@pytest.mark.parametrize("run", [consumers.run_wasm, on_webgpu])
def test_several_data_files_on_the_web(weir, tmp_path, run):
    source = two_layers(tmp_path / "model.onnx")
    given, out = source.with_suffix(".npz"), tmp_path / "split.onnx"
    report = weir.report("quantize", source, out, "--target", "webgpu", "--split", "40000")
    assert len(consumers.data_files(out)) == report["weir"]["data_files"] > 1
    jobs = {"split": (out, given, tmp_path / "got.npz")}
    assert had(run, jobs, tmp_path) == {"split": None}
    [wanted] = session(out).run(None, dict(np.load(given)))
    near(np.load(tmp_path / "got.npz")["arr_0"], wanted, 1e-4)


# ---- transformers.js


WORDS = "[PAD] [UNK] the quick brown fox jumps over lazy dog a model is too large to load so we stream it".split()
TEXT = "the quick fox is too large to load so a lazy dog jumps over it"
IDS = [WORDS.index(word) for word in TEXT.split()]
WIDTH = 64


def floats(random, *dims, size=1.0):
    return (random.normal(size=dims) * size).astype(np.float32)


def sentence_encoder(folder):
    """A folder as transformers.js wants it: a tokenizer of words and an encoder, in float. The model is what is returned."""
    random = np.random.default_rng(6)
    (folder / "onnx").mkdir(parents=True)
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None}
    tokenizer |= {"pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None}
    tokenizer["model"] = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    said = {"tokenizer_class": "PreTrainedTokenizer", "pad_token": "[PAD]", "unk_token": "[UNK]", "model_max_length": 64}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    tensors = {"words": floats(random, len(WORDS), WIDTH), "up": floats(random, WIDTH, 4 * WIDTH, size=0.2)}
    tensors["down"] = floats(random, 4 * WIDTH, WIDTH, size=0.1)
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["x"], "embed"),
        helper.make_node("MatMul", ["x", "up"], ["wide"], "up"),
        helper.make_node("Tanh", ["wide"], ["active"], "active"),
        helper.make_node("MatMul", ["active", "down"], ["delta"], "down"),
        helper.make_node("Add", ["x", "delta"], ["last_hidden_state"], "sum"),
    ]
    given = [value("input_ids", ["batch", "length"], TensorProto.INT64)]
    out = [value("last_hidden_state", ["batch", "length", WIDTH])]
    return save(folder / "source.onnx", nodes, given, out, [numpy_helper.from_array(each, name) for name, each in tensors.items()])


def tell(folder, **data_files):
    """config.json, which says how many data files there are (docs/files.md)."""
    named = {f"{name}.onnx": count for name, count in data_files.items()}
    config = {"model_type": "bert", "transformers.js_config": {"use_external_data_format": named}}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture
def hub(weir, tmp_path):
    """Models as transformers.js looks for them, each in a folder: its files by dtype, and how many data files they have."""
    source = sentence_encoder(tmp_path / "tiny")
    folder, target = source.parent, ["--target", "transformers.js"]
    # What `weir cast --graph --keep-io` and then `weir quantize` do, in one run.
    (folder / "q4f16.yaml").write_text("passes:\n- cast: {to: float16, graph: true, keep_io: true}\n- quantize\n")
    counts = {}
    for name, words in {
        "model": ["convert", "--split", "70000"],
        "model_q4": ["quantize", *target, "--split", "12000"],
        "model_q2": ["quantize", "--bits", "2", *target, "--external", "--split", "1GiB"],
        "model_fp16": ["cast", "--to", "float16", "--graph", "--keep-io", *target, "--split", "40000"],
        "model_q4f16": ["run", "--config", folder / "q4f16.yaml", *target, "--split", "12000"],
    }.items():
        report = weir.report(words[0], source, "-o", folder / "onnx" / f"{name}.onnx", *words[1:])
        counts[name] = report["weir"]["data_files"]
    assert counts["model"] > 1 and counts["model_q4"] > 1 and counts["model_q2"] == 1
    tell(folder, **counts)
    return folder, counts


DTYPES = {"fp32": "model", "q4": "model_q4", "q2": "model_q2", "fp16": "model_fp16", "q4f16": "model_q4f16"}


@pytest.mark.parametrize("devices", [["cpu"], ["wasm", "webgpu"]], ids=["node", "browser"])
def test_transformers_js(hub, tmp_path, devices):
    folder, counts = hub
    root = f"{tmp_path}/"
    jobs = {
        f"{dtype} {device}": {"root": root, "model": "tiny", "dtype": dtype, "device": device, "text": TEXT}
        for dtype in DTYPES
        for device in devices
    }
    found = had(consumers.run_transformers, jobs, tmp_path, devices != ["cpu"])
    given = {"input_ids": np.array([IDS])}
    [of_float] = session(folder / "source.onnx").run(None, given)
    for dtype in ("fp16", "q4f16"):  # Chromium's adapter here is SwiftShader's, which has no float16
        made = found.pop(f"{dtype} webgpu", {"error": "f16"})
        assert "error" not in made or "f16" in made["error"] or "fp16" in made["error"], made["error"]
    for name, made in found.items():
        assert "error" not in made, f"{name}: {made['error']}"
        assert made["ids"] == IDS and made["dims"] == list(of_float.shape)
        got = np.array(made["values"], np.float32).reshape(made["dims"])
        dtype = name.split()[0]
        [wanted] = session(folder / "onnx" / f"{DTYPES[dtype]}.onnx").run(None, given)
        near(got, wanted, 5e-3 if "f16" in dtype or "fp16" in dtype else 1e-3)
        near(got, of_float, {"fp32": 1e-3, "fp16": 5e-3, "q2": NEAR[2]}.get(dtype, NEAR[4]))


def test_transformers_js_wants_names_and_number_of_data_files(hub, weir, tmp_path):
    """As docs/files.md and docs/recipes.md say: with fewer of them told, or without --split, a browser does not load the model."""
    folder, counts = hub
    weir("cast", folder / "source.onnx", folder / "onnx" / "model_q2f16.onnx", "--to", "float16", "--external")
    assert (folder / "onnx" / "model_q2f16.onnx.data").exists()
    tell(folder, **{**counts, "model_q4": counts["model_q4"] - 1, "model_q2f16": 1})
    job = {"root": f"{tmp_path}/", "model": "tiny", "device": "wasm", "text": TEXT}
    jobs = {dtype: {**job, "dtype": dtype} for dtype in ("q4", "q2f16", "q2")}
    found = had(consumers.run_transformers, jobs, tmp_path, True)
    assert "error" not in found["q2"] and "model_q4.onnx_data_2" in found["q4"]["error"]
    assert "model_q2f16.onnx_data" in found["q2f16"]["error"]


def test_transformers_js_runs_everywhere_what_it_is_not_warned_of(weir, written, tmp_path):
    """Its own build of ONNX Runtime Web, in WebAssembly and on WebGPU with nothing left to the CPU."""
    packages = had(consumers.modules_of_transformers)
    refuses = refused_formats(weir, written, "transformers.js")
    warns = {name: warned(weir, written, name, "transformers.js") for name in set(FORMATS) - refuses}
    computes = {name for name, words in warns.items() if MATH in words}
    failed = set()
    for provider in ("wasm", "webgpu"):
        (tmp_path / provider).mkdir()
        jobs = written.jobs(tmp_path / provider)
        found, features = had(consumers.run_page, jobs, tmp_path, provider, packages)
        failed |= without_float16(written.near(jobs, found, provider), features, computes if provider == "webgpu" else set())
    others = {name for name, words in warns.items() if words - {MATH}}
    assert refuses == {"bfloat16 graph"} and others and failed == refuses | others


# ---- ONNX Runtime GenAI

LAYERS, HEADS, HEAD, VOCABULARY, LENGTH = 2, 2, 32, 96, 40
HIDDEN = HEADS * HEAD
PROMPT = [5, 17, 42, 3, 77, 8]


def decoder(path):
    """A decoder as ONNX Runtime GenAI's model builder writes them: rotary attention with a cache, in float."""
    random = np.random.default_rng(7)
    angles = np.arange(LENGTH)[:, None] / 100 ** (np.arange(HEAD // 2) / (HEAD // 2))
    tensors = {
        "embed": floats(random, VOCABULARY, HIDDEN),
        "cos": np.cos(angles).astype(np.float32),
        "sin": np.sin(angles).astype(np.float32),
        "one": np.array([1], np.int64),
        "end": np.array(1, np.int64),
    }
    nodes = [
        helper.make_node("ReduceSum", ["attention_mask", "one"], ["counts"], "counts", keepdims=0),
        helper.make_node("Sub", ["counts", "one"], ["lengths_"], "lengths"),
        helper.make_node("Cast", ["lengths_"], ["lengths"], "lengths_32", to=TensorProto.INT32),
        helper.make_node("Shape", ["attention_mask"], ["shape"], "shape"),
        helper.make_node("Gather", ["shape", "end"], ["total_"], "total"),
        helper.make_node("Cast", ["total_"], ["total"], "total_32", to=TensorProto.INT32),
        helper.make_node("Gather", ["embed", "input_ids"], ["x0"], "/model/embed_tokens/Gather"),
    ]
    given = [value(name, ["batch", dim], TensorProto.INT64) for name, dim in (("input_ids", "new"), ("attention_mask", "total_length"))]
    out = [value("logits", ["batch", "new", VOCABULARY])]

    def product(x, name, rows, columns, y):
        tensors[f"{name}.weight"] = floats(random, rows, columns, size=rows**-0.5)
        nodes.append(helper.make_node("MatMul", [x, f"{name}.weight"], [y], f"/{name}/MatMul"))

    for i in range(LAYERS):
        for letter in "qkv":
            product(f"x{i}", f"layers.{i}.{letter}_proj", HIDDEN, HIDDEN, f"{letter}{i}")
        for kind, letter in (("key", "k"), ("value", "v")):
            given.append(value(f"past_key_values.{i}.{kind}", ["batch", HEADS, "past", HEAD]))
            out.append(value(f"present.{i}.{kind}", ["batch", HEADS, "total_length", HEAD]))
        past, present = ([each.name for each in list_[-2:]] for list_ in (given, out))
        words = [f"q{i}", f"k{i}", f"v{i}", *past, "lengths", "total", "cos", "sin"]
        attributes = {"domain": "com.microsoft", "num_heads": HEADS, "kv_num_heads": HEADS, "do_rotary": 1}
        nodes.append(helper.make_node("GroupQueryAttention", words, [f"a{i}", *present], f"attention{i}", **attributes))
        product(f"a{i}", f"layers.{i}.o_proj", HIDDEN, HIDDEN, f"o{i}")
        nodes.append(helper.make_node("Add", [f"x{i}", f"o{i}"], [f"m{i}"], f"skip{i}"))
        product(f"m{i}", f"layers.{i}.up_proj", HIDDEN, 2 * HIDDEN, f"up{i}")
        nodes.append(helper.make_node("Tanh", [f"up{i}"], [f"t{i}"], f"tanh{i}"))
        product(f"t{i}", f"layers.{i}.down_proj", 2 * HIDDEN, HIDDEN, f"d{i}")
        nodes.append(helper.make_node("Add", [f"m{i}", f"d{i}"], [f"x{i + 1}"], f"skip_mlp{i}"))
    product(f"x{LAYERS}", "lm_head", HIDDEN, VOCABULARY, "logits")
    initializers = [numpy_helper.from_array(each, name) for name, each in tensors.items()]
    graph = helper.make_graph(nodes, "g", given, out, initializers)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=versions, ir_version=8), path)
    return path


def genai_config(folder):
    names = {"key": "%d.key", "value": "%d.value"}
    model = {
        "type": "llama",
        "context_length": LENGTH,
        "vocab_size": VOCABULARY,
        **{f"{name}_token_id": VOCABULARY - 1 - number for number, name in enumerate(("bos", "eos", "pad"))},
        "decoder": {
            "filename": "model.onnx",
            "session_options": {"intra_op_num_threads": 1, "provider_options": []},
            "hidden_size": HIDDEN,
            "head_size": HEAD,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "inputs": {
                "input_ids": "input_ids",
                "attention_mask": "attention_mask",
                **{f"past_{kind}_names": f"past_key_values.{name}" for kind, name in names.items()},
            },
            "outputs": {"logits": "logits", **{f"present_{kind}_names": f"present.{name}" for kind, name in names.items()}},
        },
    }
    search = {"max_length": LENGTH, "do_sample": False, "num_beams": 1, "past_present_share_buffer": False}
    (folder / "genai_config.json").write_text(json.dumps({"model": model, "search": search}))


def greedy(path, prompt):
    """The tokens that ONNX Runtime itself gives, a step at a time, and all logits of the prompt's last token."""
    run, tokens, new = session(path), list(prompt), list(prompt)
    cache = {each.name: np.zeros((1, HEADS, 0, HEAD), np.float32) for each in run.get_inputs()[2:]}
    first = None
    while len(tokens) < LENGTH and tokens[-1] != VOCABULARY - 2:
        given = {"input_ids": np.array([new]), "attention_mask": np.ones((1, len(tokens)), np.int64)}
        logits, *kept = run.run(None, {**given, **cache})
        cache = dict(zip(cache, kept))
        first = logits[0, -1] if first is None else first
        new = [int(logits[0, -1].argmax())]
        tokens += new
    return tokens, first


def test_genai_generates(weir, tmp_path):
    """The float model and three that weir made of it: each gives the tokens that it gives in ONNX Runtime."""
    source = decoder(tmp_path / "decoder.onnx")
    eight = ["--tensor", "lm_head*=bits8"]
    models = {
        "float": ["convert"],
        "int4": ["quantize", "--target", "genai"],
        "last product in 8 bits": ["quantize", "--target", "genai", *eight],
        "embedding too": ["quantize", "--target", "genai", "--op-types", "MatMul,Gather", *eight],
    }
    jobs, wanted = {}, {}
    np.savez(tmp_path / "prompt.npz", input_ids=np.array([PROMPT], np.int32))
    for number, (name, words) in enumerate(models.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        genai_config(folder)
        weir(words[0], source, "-o", folder / "model.onnx", *words[1:], "--external")
        assert (folder / "model.onnx.data").stat().st_size
        wanted[name], logits = greedy(folder / "model.onnx", PROMPT)
        near(logits, greedy(source, PROMPT)[1], {"float": 1e-4}.get(name, 2 * NEAR[4]))
        jobs[name] = (folder / "model.onnx", tmp_path / "prompt.npz", folder / "tokens.npz")
    found = had(runtimes.run, "onnxruntime-genai", runtimes.GENAI, jobs, tmp_path)
    assert found == {name: None for name in models}
    got = {name: np.load(out)["arr_0"].tolist() for name, (_, _, out) in jobs.items()}
    assert got == wanted and all(len(set(tokens)) > 3 for tokens in got.values())
    assert len({tuple(tokens) for tokens in got.values()}) > 1  # so that a model in the place of another is seen


# ---- Qualcomm's simulator


def on_qnn(jobs, scratch):
    return had(runtimes.run, "onnxruntime-qnn", runtimes.QNN, jobs, scratch)


def test_qnn_runs_what_is_neither_refused_nor_warned_of(weir, tmp_path):
    """In the simulator, where the CPU does nothing; MatMulNBits takes activations of three dims there."""
    written = Written(tmp_path, weir, rows=(1, 3))
    jobs = written.jobs(tmp_path)
    found = on_qnn(jobs, tmp_path)
    assert not any(found[source] for source in BASES)
    failed = {name for name, why in written.near(jobs, found, "QNN").items() if why}
    refuses = refused_formats(weir, written, "qnn-htp")
    warns = {name for name in FORMATS if name not in refuses and warned(weir, written, name, "qnn-htp")}
    assert "float16 graph" not in refuses | warns
    # What the table does not tell apart: weights of 8 bits are taken only where activations are quantized too, MatMulInteger is
    # with uint8 weights.
    assert refuses and warns and failed == (refuses | warns | {"by channel", "dynamic Gather"}) - {"dynamic integer"}


def test_qnn_takes_fixed_shapes_only(weir, tmp_path):
    """And the whole job as one pipeline file: fixed shapes, computing in float16, weights of 4 bits."""
    source = open_rows(tmp_path / "model.onnx")
    (tmp_path / "job.yaml").write_text(
        "target: qnn-htp\npasses:\n- infer: {set_dim: [batch=1, rows=3]}\n- cast: {to: float16, graph: true, keep_io: true}\n- quantize\n"
    )
    said = weir("quantize", source, tmp_path / "open.onnx", "--target", "qnn-htp").err
    assert "target qnn-htp runs fixed shapes only; inputs of the model have dims without a number: batch, rows" in said
    assert "fixed shapes" not in weir("run", source, tmp_path / "fixed.onnx", "--config", tmp_path / "job.yaml").err
    given = source.with_suffix(".npz")
    jobs = {name: (tmp_path / f"{name}.onnx", given, tmp_path / f"{name}.out.npz") for name in ("model", "open", "fixed")}
    found = on_qnn(jobs, tmp_path)
    assert found["model"] and found["open"] and found["fixed"] is None
    [wanted] = session(source).run(None, dict(np.load(given)))
    near(np.load(jobs["fixed"][2])["arr_0"], wanted, NEAR[4])
