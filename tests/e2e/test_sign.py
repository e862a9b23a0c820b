"""Signatures: OpenSSF Model Signing and its libraries take what `weir sign` writes, `weir audit --public-key` takes what
they and we wrote, and neither takes anything that was altered."""

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from in_toto_attestation.v1 import statement as in_toto
from google.protobuf import json_format
from model_signing import hashing, verifying
from sigstore import dsse

import signing_keys
from conftest import ALL, DATA, program
from test_audit import flip
from test_cluster import plan_of

pytestmark = pytest.mark.in_memory
SOURCE = DATA / "parakeet-torchscript" / "encoder-model.onnx"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Of each curve, and another one of the first."""
    folder = tmp_path_factory.mktemp("keys")
    return {name: signing_keys.make(folder, name[:5], name) for name in (*signing_keys.CURVES, "P-256 of another")}


@pytest.fixture
def model(weir, tmp_path):
    """With digests per tensor, alone in a folder, not signed yet."""
    folder = tmp_path / "model"
    folder.mkdir()
    weir("conv2matmul", SOURCE, folder / "out.onnx", "--tensor-digests")
    return folder / "out.onnx"


def signature(model):
    return Path(f"{model}.sig")


def signed(weir, model, keys, name="P-256"):
    weir("sign", model, "--key", keys[name][0])
    return keys[name][1]


def statement(model):
    return base64.b64decode(json.loads(signature(model).read_text())["dsseEnvelope"]["payload"])


def upstream(model, public, beside=False):
    """What the package does for its command line."""
    verifying.Config().use_elliptic_key_verifier(public_key=public).set_ignore_unsigned_files(beside).verify(model.parent, signature(model))


def upstream_says(model, public, *more):
    words = [sys.executable, "-m", "model_signing", "verify", "key", model.parent, "--signature", signature(model), "--public_key", public, *more]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


# ---- others


def test_upstream(weir, model, keys):
    """Its command line takes the bundle, and none of a model with another byte."""
    public = signed(weir, model, keys)
    assert upstream_says(model, public) == (0, "Verification succeeded\n")
    flip(f"{model}.data", 1000)
    code, said = upstream_says(model, public)
    assert code != 0 and "Hash mismatch for" in said and "out.onnx.data" in said, said


@pytest.mark.parametrize("curve", signing_keys.CURVES)
def test_curves(weir, model, keys, curve):
    public = signed(weir, model, keys, curve)
    upstream(model, public)
    said = weir("audit", model, "--public-key", public).out
    assert f"signed with the {curve} key {hashlib.sha256(public.read_bytes()).hexdigest()[:16]}" in said and ": OK" in said
    with pytest.raises(ValueError, match="Key mismatch"):
        upstream(model, keys["P-256 of another"][1])


def test_beside_others(weir, model, keys):
    """A verifier looks at all of a folder, unless it is told not to."""
    public = signed(weir, model, keys)
    (model.parent / "other.bin").write_bytes(b"x")
    with pytest.raises(ValueError, match="Extra files found"):
        upstream(model, public)
    upstream(model, public, beside=True)
    weir("audit", model, "--public-key", public)


def test_libraries(weir, model, keys):
    """in-toto and sigstore read the statement; its digests are those of sha256sum."""
    signed(weir, model, keys)
    text = statement(model)
    found = json.loads(text)
    files = {row["name"]: row["digest"] for row in found["predicate"]["resources"]}
    assert files == {name: hashlib.sha256((model.parent / name).read_bytes()).hexdigest() for name in ("out.onnx", "out.onnx.data")}
    parsed = in_toto.Statement.copy_from_pb(json_format.Parse(text, in_toto.Statement([], "", {}).pb))
    parsed.validate()
    assert dsse.Statement(text)._inner.predicate_type == found["predicateType"]
    manifest = Path(f"{model}.manifest.json").read_bytes()
    ours = found["predicate"]["x_weir"]
    assert ours["manifest"] == {"name": "out.onnx.manifest.json", "sha256": hashlib.sha256(manifest).hexdigest()}
    assert ours["plan_id"] == json.loads(manifest)["predicate"]["x_weir"]["plan_id"]
    assert found["predicate"]["serialization"]["ignore_paths"] == ["out.onnx.manifest.json", "out.onnx.tensors.jsonl", "out.onnx.sig"]


def test_a_signature_of_another_tool(weir, model, keys):
    """It is good, but says nothing of the manifest."""
    from model_signing import signing

    hidden = [model.parent / f"out.onnx.{end}" for end in ("manifest.json", "tensors.jsonl", "sig")]
    config = hashing.Config().set_ignored_paths(paths=hidden)
    signing.Config().use_elliptic_key_signer(private_key=keys["P-256"][0]).set_hashing_config(config).sign(model.parent, signature(model))
    upstream(model, keys["P-256"][1])
    assert "is for a model without a manifest" in weir("audit", model, "--public-key", keys["P-256"][1], code=65).err


# ---- again


def test_given_again(weir, model, keys):
    public = signed(weir, model, keys)
    first, at = signature(model).read_bytes(), signature(model).stat().st_mtime_ns
    said = weir("sign", model, "--key", keys["P-256"][0], "--json").json()
    assert said["was_signed"] and not said["replaced"] and said["key"] == hashlib.sha256(public.read_bytes()).hexdigest()
    assert (signature(model).read_bytes(), signature(model).stat().st_mtime_ns) == (first, at)
    assert weir("sign", f"{model}.manifest.json", "--key", keys["P-384"][0], "--json").json()["replaced"]
    assert "was signed with another key" in weir("audit", model, "--public-key", public, code=1).err
    signature(model).write_text("{}")
    assert "in place of an older signature" in weir("sign", model, "--key", keys["P-256"][0]).out
    assert sorted(path.name for path in model.parent.iterdir()) == [model.name + end for end in ("", ".data", ".manifest.json", ".sig", ".tensors.jsonl")]


def test_a_model_that_was_made_anew(weir, model, keys):
    public = signed(weir, model, keys)
    weir("cast", SOURCE, model, "--to", "float16", "--force", "--tensor-digests")
    failed = weir("audit", model, "--public-key", public, code=1)
    assert "the manifest" in failed.err and "is not the one that was signed" in failed.err and not failed.out
    weir("audit", model)
    signed(weir, model, keys)
    weir("audit", model, "--public-key", public)
    upstream(model, public)


# ---- what is altered


def test_damage_is_named(weir, model, keys):
    """The signature holds, and says what should be there."""
    public = signed(weir, model, keys)
    flip(f"{model}.data", 1000)
    said = weir("audit", model, "--public-key", public, code=1).out
    assert "signed with the P-256 key" in said and "out.onnx.data bytes 0.." in said and "    tensor '" in said and "DAMAGED" in said


def test_damage_is_not_signed(weir, model, keys):
    flip(f"{model}.data", 1000)
    assert "'out.onnx.data' does not match its manifest: bytes 0.." in weir("sign", model, "--key", keys["P-256"][0], code=1).err
    Path(f"{model}.data").write_bytes(b"short")
    assert "it has 5 bytes instead of" in weir("sign", model, "--key", keys["P-256"][0], code=1).err
    Path(f"{model}.data").unlink()
    weir("sign", model, "--key", keys["P-256"][0], code=66)
    assert not signature(model).exists()


def test_every_part_of_it_is_signed(weir, model, keys):
    """One bit anywhere in the manifest, the statement or the signature."""
    public = signed(weir, model, keys)
    manifest = Path(f"{model}.manifest.json")
    whole, bundle = manifest.read_bytes(), json.loads(signature(model).read_text())
    for at in range(0, len(whole), len(whole) // 16):
        flip(manifest, at)
        assert "is not the one that was signed" in weir("audit", model, "--public-key", public, code=1).err
        flip(manifest, at)
    envelope = bundle["dsseEnvelope"]
    for where, key in ((envelope, "payload"), (envelope["signatures"][0], "sig")):
        text, good = where[key], base64.b64decode(where[key])
        for at in range(0, len(good), max(len(good) // 8, 1)):
            where[key] = base64.b64encode(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]).decode()
            signature(model).write_text(json.dumps(bundle))
            assert "is not valid: it, or the statement that it signs, was changed" in weir("audit", model, "--public-key", public, code=1).err
        where[key] = text
    signature(model).write_text(json.dumps(bundle))  # laid out otherwise, as other tools do
    assert ": OK" in weir("audit", model, "--public-key", public).out


@pytest.mark.parametrize(
    "change, what",
    [
        (lambda b: b.pop("mediaType"), "it is not a Sigstore bundle (v0.3)"),
        (lambda b: b.update(verificationMaterial={"certificate": {"rawBytes": "AAAA"}}), "it does not name a key"),
        (lambda b: b["verificationMaterial"]["publicKey"].update(hint=7), "the name of its key is not a string"),
        (lambda b: b["dsseEnvelope"].update(payloadType="text/plain"), "it contains no in-toto statement"),
        (lambda b: b["dsseEnvelope"].update(payload="e30"), "it contains no in-toto statement"),
        (lambda b: b["dsseEnvelope"].update(payload="e3 0="), "it contains no in-toto statement"),
        (lambda b: b["dsseEnvelope"]["signatures"].append({"sig": ""}), "it does not contain exactly one signature"),
        (lambda b: b["dsseEnvelope"].update(signatures=[]), "it does not contain exactly one signature"),
    ],
)
def test_no_bundle(weir, model, keys, change, what):
    public = signed(weir, model, keys)
    bundle = json.loads(signature(model).read_text())
    change(bundle)
    signature(model).write_text(json.dumps(bundle))
    assert what in weir("audit", model, "--public-key", public, code=65).err


def test_no_signature(weir, model, keys):
    public = keys["P-256"][1]
    assert "there is no signature" in weir("audit", model, "--public-key", public, code=66).err
    signature(model).write_bytes(b"\x00" * 100)
    weir("audit", model, "--public-key", public, code=65)
    assert "needs --key" in weir("sign", model, code=2).err
    weir("sign", model.parent / "nothing.onnx", "--key", keys["P-256"][0], code=66)
    Path(f"{model}.manifest.json").unlink()
    assert "was written with --no-manifest" in weir("sign", model, "--key", keys["P-256"][0], code=66).err


def test_keys_that_cannot_be_used(weir, model, keys, tmp_path):
    for what, (path, code) in signing_keys.unusable(tmp_path).items():
        assert what in weir("sign", model, "--key", path, code=code).err
    assert not signature(model).exists()
    public = signed(weir, model, keys)
    assert "is a private key" in weir("audit", model, "--public-key", keys["P-256"][0], code=2).err
    assert "a public key of the curve P-256" in weir("audit", model, "--public-key", tmp_path / "rsa.pub", code=2).err
    assert "is not a key in PEM form" in weir("audit", model, "--public-key", model, code=65).err
    link = tmp_path / "link"
    link.symlink_to(public)  # secrets are mounted as links
    weir("audit", model, "--public-key", link)


def test_links(weir, model, keys, tmp_path):
    """Neither is one replaced, nor a model signed that no verifier would read."""
    signature(model).symlink_to(tmp_path / "elsewhere")
    assert "where the signature belongs, is a link" in weir("sign", model, "--key", keys["P-256"][0], code=77).err
    assert not (tmp_path / "elsewhere").exists() and signature(model).is_symlink()
    signature(model).unlink()
    data = Path(f"{model}.data")
    shutil.move(data, tmp_path / "data")
    data.symlink_to(tmp_path / "data")
    assert "'out.onnx.data' is a link" in weir("sign", model, "--key", keys["P-256"][0], code=77).err


# ---- finalize


def test_finalize(weir, small_encoder, tmp_path, keys):
    private, public = keys["P-256"]
    plan = plan_of(weir, small_encoder, tmp_path)
    weir("shard", plan)
    weir("finalize", plan, "--sign-key", public, code=2)
    assert plan.exists() and not (tmp_path / "out.onnx").exists()
    assert "signed: " in weir("finalize", plan, "--sign-key", private).out
    upstream(tmp_path / "out.onnx", public)
    assert "signed already: " in weir("finalize", plan, "--sign-key", private).out
    signature(tmp_path / "out.onnx").unlink()
    assert weir("finalize", plan, "--json").json()["signature"] is None
    assert weir("finalize", plan, "--sign-key", private, "--json").json()["signature"] == f"{tmp_path}/out.onnx.sig"
    weir("audit", tmp_path / "out.onnx", "--public-key", public)


def test_a_plan_without_a_manifest(weir, small_encoder, tmp_path, keys):
    plan = plan_of(weir, small_encoder, tmp_path, "--no-manifest")
    weir("shard", plan)
    assert "the plan was made with --no-manifest" in weir("finalize", plan, "--sign-key", keys["P-256"][0], code=2).err
    weir("finalize", plan)


# ---- faults


@pytest.mark.parametrize("fault", ["kill:{}", "EIO:*:{}", "ENOSPC:*:{}:persist", "short:write:{}"])
def test_failed_or_killed_at_each_call(weir, model, keys, tmp_path, fault):
    """The old signature or the new one, whole; the same command completes."""
    words = [program("WEIR_FAULT_PROGRAM"), "sign", model, "--key", keys["P-256"][0]]
    old, log = keys["P-384"], tmp_path / "log"
    weir("sign", model, "--key", old[0])
    before = signature(model).read_bytes()
    subprocess.run(words, env={**os.environ, "WEIR_FAULT_LOG": str(log)}, check=True, capture_output=True)
    codes = []
    for n in range(1, len(log.read_text().splitlines()) + 1):
        signature(model).write_bytes(before)
        ended = subprocess.run(words, env={**os.environ, "WEIR_FAULT": fault.format(n)}, capture_output=True, text=True)
        codes.append(ended.returncode)
        weir("audit", model, "--public-key", old[1] if signature(model).read_bytes() == before else keys["P-256"][1])
        weir("sign", model, "--key", keys["P-256"][0])
        weir("audit", model, "--public-key", keys["P-256"][1])
        assert not list(model.parent.glob("*.tmp"))
    assert set(codes) <= ({0} if "short" in fault else {0, -signal.SIGKILL, 73, 74}), codes
    assert len(codes) >= 4 and ("short" in fault or sum(map(bool, codes)) >= 4), codes


def test_finalize_killed(weir, small_encoder, tmp_path, keys):
    """In the seal, between it and the signature, and while that is written: the same command ends with a model that is signed."""
    log, plain = tmp_path / "log", {**os.environ}
    for n in range(100):  # 0 counts
        folder = tmp_path / f"killed{n}"
        folder.mkdir()
        plan = plan_of(weir, small_encoder, folder)
        weir("shard", plan)
        words = ["finalize", plan, "--sign-key", keys["P-256"][0]]
        fault = {"WEIR_FAULT": f"kill:{calls - 2 * n}"} if n else {"WEIR_FAULT_LOG": str(log)}
        ended = subprocess.run([program("WEIR_FAULT_PROGRAM"), *words], env={**plain, **fault}, capture_output=True)
        if n == 0:
            calls = len(log.read_text().splitlines())
        assert ended.returncode == (-signal.SIGKILL if n else 0)
        weir(*words)
        weir("audit", folder / "out.onnx", "--public-key", keys["P-256"][1])
        assert len(list(folder.iterdir())) == 5, sorted(folder.iterdir())
        if calls - 2 * n < 3 or (n > 11 and not ALL):
            break
