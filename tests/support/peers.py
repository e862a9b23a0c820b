#!/usr/bin/env python3
"""Other graph optimizers, and how many nodes each leaves: of a model with which nothing is lost unseen, judged by the runtime.

    peers.py run PEER IN OUT           in the environment of the peers

bench/node_counts.py prints a table of all of them.

Models as exporters write them before a training have biases of zeros and gains of ones, and who drops these additions is not
caught. So each model is copied with other numbers in their places (`with_numbers`). A peer gets the copy in a process of its
own with a limit of time; what it writes counts only if ONNX Runtime, without its own optimizations, gives the numbers of the
copy at two bindings of the symbols. Nodes of bodies and of functions count, whoever wrote them.

Versions are in runtimes.py, which keeps the environment.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 300


# ---- in the environment of the peers


def quant_pre_process(source, out, **how):
    from onnxruntime.quantization.shape_inference import quant_pre_process as run

    run(source, out, **how)


def onnxslim(source, out):
    import onnx
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), out)


def onnxsim(source, out):
    import onnx
    import onnxsim

    model, fine = onnxsim.simplify(onnx.load(source))
    assert fine
    onnx.save(model, out)


def onnxoptimizer(source, out):
    import onnx
    import onnxoptimizer

    passes = onnxoptimizer.get_fuse_and_elimination_passes()
    onnx.save(onnxoptimizer.optimize(onnx.load(source), passes, fixed_point=True), out)


def onnxscript(source, out):
    import onnx
    import onnxscript.optimizer
    import onnxscript.rewriter

    onnx.save(onnxscript.rewriter.rewrite(onnxscript.optimizer.optimize(onnx.load(source))), out)


def onnxruntime_level(level):
    def run(source, out):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.optimized_model_filepath = os.fspath(out)
        options.log_severity_level = 4
        onnxruntime.InferenceSession(os.fspath(source), options, providers=["CPUExecutionProvider"])

    return run


PEERS = {
    "quant_pre_process": quant_pre_process,
    "without sym": lambda source, out: quant_pre_process(source, out, skip_symbolic_shape=True),
    "onnxslim": onnxslim,
    "onnxsim": onnxsim,
    "onnxoptimizer": onnxoptimizer,
    "onnxscript": onnxscript,
    "onnxruntime": onnxruntime_level("ORT_ENABLE_BASIC"),
}
# Which uses ONNX Runtime's own operators: next to `weir optimize --goal onnxruntime`.
EXTENDED = "extended"
ALL = {**PEERS, EXTENDED: onnxruntime_level("ORT_ENABLE_EXTENDED")}


# ---- in that of the tests


def python():
    """The Python that has all peers; made if it is not there."""
    import runtimes

    packages = [f"{package}=={version}" for package, version in runtimes.PEERS.items()]
    return runtimes.environment("peers-" + "-".join(runtimes.PEERS.values()), [*packages, *runtimes.BESIDE_PEERS])


def with_numbers(source, out):
    """A copy in one file in which no vector of a layer is zeros, or ones."""
    import numpy as np
    import onnx
    from onnx import numpy_helper

    model, numbers = onnx.load(source), np.random.Generator(np.random.PCG64(3))
    tensors = [*model.graph.initializer]
    tensors += [each.t for node in model.graph.node if node.op_type == "Constant" for each in node.attribute if each.name == "value"]
    for tensor in tensors:
        if len(tensor.dims) != 1 or tensor.dims[0] < 2 or tensor.data_type not in (1, 10, 11):
            continue
        old = numpy_helper.to_array(tensor)
        if (old == 0).all() or (old == 1).all():
            new = (old + 0.3 * numbers.uniform(-1, 1, old.shape)).astype(old.dtype)
            tensor.CopyFrom(numpy_helper.from_array(new, tensor.name))
    onnx.save(model, out)
    return out


def nodes(path):
    """How many there are, bodies and functions included."""
    import onnx

    def of(body):
        held = [attribute for node in body for attribute in node.attribute]
        return len(body) + sum(of(graph.node) for each in held for graph in [*each.graphs, *([each.g] if each.HasField("g") else [])])

    model = onnx.load(path, load_external_data=False)
    return of(model.graph.node) + sum(of(function.node) for function in model.functions)


def wrong(before, after, named):
    """What is wrong with a model that should compute what another does, or "": at two bindings, 1e-4 of the largest element.

    The bindings are those of the model `named`.
    """
    import numpy as np
    import onnx
    import onnxruntime

    import shape_oracle

    model = onnx.load(before)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        sessions = [onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"]) for path in (before, after)]
        for binding in shape_oracle.bindings_for(Path(named).resolve(), model)[:2]:
            inputs = shape_oracle.inputs_at(model, binding)
            results = [session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()}) for session in sessions]
            for name, one, other in zip(model.graph.output, *results, strict=True):
                if one.shape != other.shape or one.dtype != other.dtype:
                    return f"{name.name} is {other.dtype}{other.shape}, not {one.dtype}{one.shape}"
                if one.dtype.kind != "f":
                    if not np.array_equal(one, other):
                        return f"{name.name} has other elements"
                elif not np.allclose(one, other, rtol=0, atol=1e-4 * np.abs(one).max(initial=0) + 1e-6, equal_nan=True):
                    return f"{name.name} is off by {np.abs(one - other).max():.3g} of {np.abs(one).max():.3g}"
    except Exception as why:  # of any kind: the runtime has its own
        return str(why).strip().splitlines()[0]
    return ""


def run(peer, source, out, interpreter, named):
    """(nodes that a peer leaves, "") or (None, why not)."""
    words = [interpreter, __file__, "run", peer, source, out]
    with tempfile.TemporaryDirectory() as folder:  # some write into the one they run in
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, cwd=folder)
        except subprocess.TimeoutExpired:
            return None, f"more than {SECONDS} s"
    if done.returncode or not Path(out).is_file():
        return None, "\n".join((done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1:])
    why = wrong(source, out, named)
    return (None, why) if why else (nodes(out), "")


def row(source, folder, interpreter):
    """The copy of a model, and {peer: (nodes or None, why not)} of all."""
    copy = with_numbers(source, Path(folder) / "copy.onnx")
    return copy, {peer: run(peer, copy, Path(folder) / f"{number}.onnx", interpreter, source) for number, peer in enumerate(ALL)}


def ours(words, copy, out, named):
    """The same of weir."""
    command, *options = words
    done = subprocess.run([os.environ["WEIR"], command, copy, out, "--quiet", "--force", *options], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    why = wrong(copy, out, named)
    return (None, why) if why else (nodes(out), "")


if __name__ == "__main__":
    ALL[sys.argv[2]](*sys.argv[3:])
