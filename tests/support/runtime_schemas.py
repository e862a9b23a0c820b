"""Schemas that an ONNX Runtime registers, as JSON, by the Python of an environment that has it and need have nothing else.

    python runtime_schemas.py > schemas.json

What attributes mean that are not there is an AttributeProto in hexadecimal.
"""

import json
import sys

from onnxruntime.capi import onnxruntime_pybind11_state as runtime


def formals(which):
    return [{"name": each.name, "type": each.typeStr, "option": each.option.name.lower(), "same": each.isHomogeneous} for each in which]


def plain(schema):
    return {
        "domain": schema.domain,
        "name": schema.name,
        "since": schema.since_version,
        "deprecated": schema.deprecated,
        "inputs": formals(schema.inputs),
        "outputs": formals(schema.outputs),
        "min_input": schema.min_input,
        "min_output": schema.min_output,
        "attributes": {name: {"type": each.type.name, "required": each.required, "default": each._default_value.hex()}
                       for name, each in schema.attributes.items()},
        "variables": {each.type_param_str: list(each.allowed_type_strs) for each in schema.type_constraints},
    }  # fmt: skip


if __name__ == "__main__":
    json.dump([plain(schema) for schema in runtime.get_all_operator_schema()], sys.stdout)
