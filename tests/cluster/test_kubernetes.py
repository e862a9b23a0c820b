"""The job files that are YAML: valid for Kubernetes, read as GitHub reads them; and what the two Jobs start, started in the
image that packaging/image makes, as the whole file system, in the order that pods come in."""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile

import pytest

from conftest import ODD, PASSES, SHARDS, TESTS, program

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
NAME = ODD + ": #1 $(HOME) $$ ${{ 1 }}\t\\n\n{}"
MODEL = TESTS / "data/tied/model.onnx"
ENDS = {"FailJob": {1, 2, 65, 66, 69, 70, 77}, "Ignore": {75}}  # what docs/cluster.md says of exit codes


@pytest.fixture
def plan(tmp_path, kind):
    folder = tmp_path / (NAME if kind == "github" else NAME.replace(":", ""))
    folder.mkdir()
    shutil.copy(MODEL, folder / "in.onnx")
    words = [program("WEIR"), "plan", folder / "in.onnx", folder / "out.onnx", *PASSES.split(), "--shards", str(SHARDS), "--json"]
    return json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["weir"]["staged"]


@pytest.fixture
def documents(plan, kind):
    text = subprocess.run([program("WEIR"), "jobs", plan, "--scheduler", kind], check=True, capture_output=True).stdout
    return list(yaml.safe_load_all(text))


def expanded(word):
    """As Kubernetes does with words of a command, where no variable has a value."""
    return re.sub(r"\$\$", "$", word)


def containers(job):
    spec = job["spec"]["template"]["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]


@pytest.mark.parametrize("kind", ["kubernetes"])
class TestKubernetes:
    def test_it_is_valid(self, documents):
        job, finalize = documents
        version = kubernetes_validate.latest_version()
        for each in documents:
            kubernetes_validate.validate(each, version, strict=True)
        for wrong in ({**job, "spec": {**job["spec"], "completion": 1}}, {**job, "spec": {**job["spec"], "completions": "3"}}):
            with pytest.raises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(wrong, version, strict=True)

    def test_it_says(self, documents, plan):
        job, finalize = documents
        assert job["spec"]["completionMode"] == "Indexed" and job["spec"]["completions"] == SHARDS
        for each in documents:
            rules = {rule["action"]: set(rule["onExitCodes"]["values"]) for rule in each["spec"]["podFailurePolicy"]["rules"]}
            assert rules == ENDS and each["spec"]["template"]["spec"]["restartPolicy"] == "Never"
            assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", each["metadata"]["name"]) and len(each["metadata"]["name"]) < 50
            for container in containers(each):
                assert [expanded(word) for word in container["command"]].count(plan) == 1
                [mount] = container["volumeMounts"]
                assert plan.startswith(mount["mountPath"] + "/") and ":" not in mount["mountPath"]


@pytest.mark.parametrize("kind", ["github"])
def test_github(documents, plan):
    [workflow] = documents
    assert re.sub(r"\$\{\{ '(.*?)' }}", r"\1", workflow["env"]["PLAN"]) == plan and len(re.findall(r"\$\{\{", workflow["env"]["PLAN"])) == 2
    jobs = workflow["jobs"]
    assert jobs["finalize"]["needs"] == "shard" and jobs["shard"]["strategy"]["matrix"]["index"] == list(range(SHARDS))
    for job, wanted in (("shard", ["shard", plan, "--index", "1", "--count", str(SHARDS)]), ("finalize", ["finalize", plan, "--recheck"])):
        [step] = jobs[job]["steps"]
        line = step["run"].replace("${{ matrix.index }}", "1")
        said = subprocess.run(["bash", "-e", "-c", "weir() { printf '%s\\0' \"$@\"; }\n" + line], env={**os.environ, "PLAN": plan}, capture_output=True, text=True)
        assert said.stdout.split("\0")[:-1] == wanted


# ---- the image


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """{name: bytes} of the archive, each blob of which has the digest that it is named after."""
    out = tmp_path_factory.mktemp("image") / "image.tar"
    subprocess.run([TESTS.parent / "packaging/image", platform.machine(), out], check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(out) as tar:
        files = {each.name: tar.extractfile(each).read() for each in tar if each.isfile()}
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(data).hexdigest() == name.rsplit("/", 1)[1]
    return files


@pytest.fixture
def enter(image, tmp_path):
    """Unpacks the image's layers as the root of a file system, and starts words there."""
    chroot = shutil.which("chroot", path=f"{os.environ['PATH']}:/usr/sbin")
    words = [chroot] if os.geteuid() == 0 else [shutil.which("unshare"), "--user", "--map-root-user", chroot]
    if subprocess.run([*words, "/", "/bin/true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no folder can be made the root of a process here")
    root = tmp_path / "root"

    def document(descriptor):
        return image["blobs/" + descriptor["digest"].replace(":", "/")]

    [manifest] = json.loads(image["index.json"])["manifests"]
    for layer in json.loads(document(manifest))["layers"]:
        with tarfile.open(fileobj=io.BytesIO(document(layer))) as tar:
            tar.extractall(root, filter="tar")

    def start(*command, **env):
        return subprocess.run([*words, root, *command], env=env, capture_output=True, text=True)

    start.root = root
    return start


def test_its_pods(enter, tmp_path):
    """Made, planned, and by the commands of the file: pods of the Job in any order, one of them twice, then those of the other."""
    folder = f"/models/{NAME.replace(':', '')}"
    (enter.root / folder[1:]).mkdir()
    shutil.copy(MODEL, enter.root / folder[1:] / "in.onnx")
    planned = enter("/bin/weir", "plan", f"{folder}/in.onnx", f"{folder}/out.onnx", *PASSES.split(), "--shards", str(SHARDS), "--json")
    plan = json.loads(planned.stdout)["weir"]["staged"]
    job, finalize = yaml.safe_load_all(enter("/bin/weir", "jobs", plan, "--scheduler", "kubernetes").stdout)

    def pod(of, **env):
        for container in containers(of):
            done = enter(*map(expanded, container["command"]), **env)
            if done.returncode:
                break
        return done.returncode

    [last] = containers(finalize)[1:]
    assert enter(*map(expanded, last["command"])).returncode == 75  # before its time
    assert [pod(job, JOB_COMPLETION_INDEX=str(index)) for index in (2, 0, 1, 0)] == [0] * 4
    assert pod(job, JOB_COMPLETION_INDEX=str(SHARDS)) == 2
    assert pod(finalize) == 0 and pod(finalize) == 0
    (tmp_path / "in").mkdir()
    shutil.copy(MODEL, tmp_path / "in/in.onnx")
    words = [program("WEIR"), "run", "in.onnx", tmp_path / "single/out.onnx", *PASSES.split()]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path / "in")
    made = enter.root / folder[1:]
    assert {path.name: path.read_bytes() for path in made.iterdir() if path.name != "in.onnx"} == {path.name: path.read_bytes() for path in (tmp_path / "single").iterdir()}
