#!/usr/bin/env python3
"""Recomputes a manifest with OpenSSF Model Signing and compares.

    check_manifest.py OUT.onnx.manifest.json [--beside]

The folder of the manifest is hashed by the `model_signing` package (method shards, the manifest's own shard
size), and resources, root digest and serialization are compared with what the manifest says. Then
the manifest is read back by the package's own reader, as a verifier does. With --beside
other files may lie in the folder (the input, say): only the files that the manifest names are hashed, as
with --ignore-unsigned-files; without it an unsigned file is a failure, as it is for a verifier.

Exit code 0: everything is equal. 1: a difference, told on standard output. 2: usage.
"""

import argparse
import hashlib
import json
import pathlib
import sys

from model_signing import hashing
from model_signing._signing import signing


def recompute(folder, statement, beside):
    """The package's manifest of the folder, as an in-toto statement."""
    how = statement["predicate"]["serialization"]
    config = hashing.Config().use_shard_serialization(
        hashing_algorithm=how["hash_type"], shard_size=how["shard_size"],
        allow_symlinks=how["allow_symlinks"],
    )
    config.set_ignored_paths(paths=how.get("ignore_paths", []), ignore_git_paths=False)
    files = None
    if beside:
        names = {r["name"].rsplit(":", 2)[0] for r in statement["predicate"]["resources"]}
        files = [folder / name for name in sorted(names)]
    return config.hash(folder, files_to_hash=files)


def differences(ours, theirs):
    """Sentences that say how a statement of ours differs from the recomputed manifest."""
    payload = signing.Payload(theirs).statement.pb
    want = {
        "root digest": payload.subject[0].digest["sha256"],
        "resources": [
            {"name": d.identifier, "algorithm": d.digest.algorithm, "digest": d.digest.digest_hex}
            for d in theirs.resource_descriptors()
        ],
    }
    have = {
        "root digest": ours["subject"][0]["digest"]["sha256"],
        "resources": ours["predicate"]["resources"],
    }
    for key, value in want.items():
        if have[key] != value:
            yield f"{key}: the manifest has {have[key]!r}, model_signing computes {value!r}"
    raw = b"".join(bytes.fromhex(r["digest"]) for r in have["resources"])
    if hashlib.sha256(raw).hexdigest() != have["root digest"]:
        yield "the root digest is not that of the manifest's own resources"
    if signing.dsse_payload_to_manifest(ours) != theirs:
        yield "model_signing reads the manifest as another one than it computes"
    how, their_how = ours["predicate"]["serialization"], dict(theirs.serialization_type)
    their_how["ignore_paths"] = sorted(str(p) for p in their_how.get("ignore_paths", []))
    if {**how, "ignore_paths": sorted(how.get("ignore_paths", []))} != their_how:
        yield f"serialization: the manifest has {how!r}, model_signing {their_how!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("manifest", type=pathlib.Path)
    parser.add_argument("--beside", action="store_true",
                        help="other files lie in the folder: look only at those the manifest names")
    args = parser.parse_args()
    statement = json.loads(args.manifest.read_text(encoding="utf-8"))
    theirs = recompute(args.manifest.resolve().parent, statement, args.beside)
    found = list(differences(statement, theirs))
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
