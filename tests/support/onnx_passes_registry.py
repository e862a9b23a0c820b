#!/usr/bin/env python3
"""Writes what the Python package onnx-passes registers: a class a line, with the keys that name it beside its own
name. Run in an environment that has onnx-passes (0.4.1 when the table was made):

    onnx_passes_registry.py > tests/data/onnx-passes/registry.txt
"""
import importlib
import importlib.metadata
import pkgutil
import sys

import onnx_passes


def main():
    from onnx_passes import passes

    for module in pkgutil.walk_packages(onnx_passes.__path__, "onnx_passes."):
        if ".tests" not in module.name:
            importlib.import_module(module.name)
    keys = {}
    for key, classes in passes._registry.items():
        for cls in classes:
            keys.setdefault(cls.__name__, set()).add(key)
    version = importlib.metadata.version("onnx-passes")
    print(f"# What onnx-passes {version} registers: class, keys. Made by tests/support/onnx_passes_registry.py.")
    for name in sorted(keys):
        print(name, *sorted(keys[name] - {name}))


if __name__ == "__main__":
    sys.exit(main())
