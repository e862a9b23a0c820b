"""What runs models outside of Python: ONNX Runtime Web in node and in chromium, transformers.js in node.

The packages come from the npm registry, with the versions and digests of consumers/package-lock.json, and lie where other
runtimes do (runtimes.py), named by a digest of that file. node, npm and chromium are the system's (`tools/needs all`).
"""

import functools
import hashlib
import http.server
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.parse
from pathlib import Path

import numpy as np
import onnx

from runtimes import Missing, kept

HERE = Path(__file__).resolve().parent / "consumers"
WAIT = 900  # seconds until we give up on a browser
NO_ADAPTER = "there is no WebGPU adapter"  # as page.html says it


def program(*names):
    for name in names:
        if found := shutil.which(name):
            return found
    raise Missing(f"{names[0]} is not installed")


@functools.cache
def node():
    found = program("node")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version[1:].split(".")[0]) < 20:
        raise Missing(f"node 20 or newer is needed, this is {version}")
    return found


def modules():
    """The folder node_modules, filled if it is not there."""
    files = [HERE / "package.json", HERE / "package-lock.json"]

    def fill(folder):
        for path in files:
            shutil.copy(path, folder)
        # Scripts of the packages would fetch what no registry has.
        words = [program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--loglevel=error"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"npm cannot install transformers.js: {(done.stderr.strip() or done.stdout).splitlines()[0]}")

    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    return kept(f"npm-{digest[:16]}", fill) / "node_modules"


# ---- models in ONNX Runtime Web


def data_files(model):
    """The data files of a model, by the names that it has for them."""
    tensors = onnx.load(model, load_external_data=False).graph.initializer
    names = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    return {name: os.fspath(model.parent / name) for name in sorted(names)}


def web_jobs(jobs, scratch):
    """The jobs of runtimes.run ({name: (model, inputs.npz, outputs.npz)}) as files that models.mjs reads."""
    found = {}
    for number, (name, (model, inputs, _)) in enumerate(jobs.items()):
        given = {}
        for key, value in np.load(inputs).items():
            path = scratch / f"{number}.{key}"
            path.write_bytes(value.tobytes())
            given[key] = {"type": value.dtype.name, "dims": value.shape, "path": os.fspath(path)}
        out = os.fspath(scratch / f"{number}.out")
        found[name] = {"model": os.fspath(model), "data": data_files(model), "given": given, "out": out}
    (scratch / "jobs.json").write_text(json.dumps(found))
    return found


def said(folder):
    """What the program or page wrote."""
    found = json.loads((folder / "results.json").read_text())
    if found.get("error") == NO_ADAPTER:
        raise Missing(f"chromium: {NO_ADAPTER}")
    assert "error" not in found, found["error"]
    return found


def take_outputs(jobs, written, found):
    """Puts the outputs that models.mjs wrote where runtimes.run puts them."""
    for name, (model, _, outputs) in jobs.items():
        if found[name] is None:
            [value] = onnx.load(model, load_external_data=False).graph.output
            dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            dims = [each.dim_value for each in value.type.tensor_type.shape.dim]
            np.savez(outputs, np.fromfile(written[name]["out"], dtype).reshape(dims))


def in_node(script, folder):
    """What a script made of the folder's jobs.json."""
    words = [node(), HERE / script, modules(), folder / "jobs.json", folder / "results.json"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return said(folder)["found"]


def run_wasm(jobs, scratch):
    """What runtimes.run does, in ONNX Runtime Web's WebAssembly."""
    here = Path(tempfile.mkdtemp(dir=scratch))
    written = web_jobs(jobs, here)
    found = in_node("wasm.mjs", here)
    take_outputs(jobs, written, found)
    return found


def run_page(jobs, scratch, provider, packages=None):
    """The same in a browser, on "webgpu" or in "wasm"; and the features of WebGPU's adapter.

    `packages`: where onnxruntime-web lies, if it is not the one that is asked for by itself.
    """
    here = Path(tempfile.mkdtemp(dir=scratch))
    written = web_jobs(jobs, here)
    made = in_browser(provider, here, {model.parent for model, _, _ in jobs.values()}, packages)
    take_outputs(jobs, written, made["found"])
    return made["found"], made["features"]


# ---- models in transformers.js


def modules_of_transformers():
    """Where its own onnxruntime-web lies."""
    return modules() / "@huggingface" / "transformers" / "node_modules"


def run_transformers(jobs, scratch, browser):
    """{name: {ids, dims, values} or {error}} of {name: a job of sentences.mjs}."""
    here = Path(tempfile.mkdtemp(dir=scratch))
    (here / "jobs.json").write_text(json.dumps(jobs))
    if browser:
        return in_browser("transformers", here, {job["root"] for job in jobs.values()})["found"]
    return in_node("transformers.mjs", here)


# ---- a browser


class Files(http.server.SimpleHTTPRequestHandler):
    """Files under the server's roots by their whole paths; a PUT writes one under the first root."""

    extensions_map = {".mjs": "text/javascript", ".html": "text/html", ".wasm": "application/wasm", "": "application/octet-stream"}

    def translate_path(self, path):
        found = os.path.realpath(urllib.parse.unquote(urllib.parse.urlsplit(path).path))
        inside = any(Path(found).is_relative_to(root) for root in self.server.roots)
        return found if inside else os.fspath(self.server.roots[0] / "none")

    def do_PUT(self):
        path = Path(self.translate_path(self.path))
        assert path.is_relative_to(self.server.roots[0])
        path.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        if path == self.server.last:
            self.server.ended.set()

    def log_message(self, *_):
        pass


# SwiftShader computes WebGPU on the CPU; it has no float16.
BROWSER = (
    "--headless=new --no-sandbox --no-first-run --disable-dev-shm-usage --disable-background-networking --disable-component-update "
    "--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader --enable-features=Vulkan,WebGPU --use-vulkan=swiftshader"
).split()


def in_browser(what, folder, models, packages=None):
    """What page.html made of the folder's jobs.json; `models`: further folders that it reads."""
    browser = program("chromium", "chromium-browser")
    alone = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # it ends when we are killed
    folder, packages = folder.resolve(), (packages or modules()).resolve()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
    server.roots = [folder, packages, HERE, *(Path(model).resolve() for model in models)]
    server.last, server.ended = folder / "results.json", threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asked = urllib.parse.urlencode({"run": what, "modules": packages, "jobs": folder / "jobs.json", "results": server.last})
    page = f"http://127.0.0.1:{server.server_address[1]}{urllib.parse.quote(os.fspath(HERE))}/page.html?{asked}"
    with open(folder / "browser.log", "w") as log:
        words = [*alone, browser, *BROWSER, f"--user-data-dir={folder}/profile", page]
        running = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            for _ in range(WAIT):
                if server.ended.wait(1) or running.poll() is not None:
                    break
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            server.shutdown()
            server.server_close()
    assert server.ended.is_set(), f"chromium: {(folder / 'browser.log').read_text()[-2000:]}"
    return said(folder)
