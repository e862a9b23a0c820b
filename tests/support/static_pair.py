"""One model quantized twice: by onnxruntime's quantize_static and by `weir static --compat`, with the same ranges.

`Setup` holds what both are asked for. `theirs` lets the tool run the model on feeds, keep its calibration cache, and write its model;
`flags` are the words of weir's command line for the same, with that cache as the ranges, as that version of the tool (quantizers.py) writes it.
"""

import dataclasses
import json
import logging
import pathlib
import warnings

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static

import quantizers

logging.disable(logging.WARNING)
TYPES = {"int8": QuantType.QInt8, "uint8": QuantType.QUInt8, "int16": QuantType.QInt16, "uint16": QuantType.QUInt16,
         "int4": QuantType.QInt4, "uint4": QuantType.QUInt4, "float8e4m3fn": QuantType.QFLOAT8E4M3FN}
FLAGS = {
    "ActivationSymmetric": "activation-symmetric", "ActivationRestrictedAsymmetric": "activation-restricted-asymmetric",
    "WeightSymmetric": "weight-symmetric", "MinimumRealRange": "minimum-real-range",
    "ForceQuantizeNoInputCheck": "force-quantize-no-input-check", "AddQDQPairToWeight": "add-qdq-pair-to-weight",
    "QuantizeBias": "quantize-bias", "DedicatedQDQPair": "dedicated-qdq-pair",
    "OpTypesToExcludeOutputQuantization": "op-types-to-exclude-output-quantization",
    "QDQOpTypePerChannelSupportToAxis": "qdq-op-type-per-channel-support-to-axis",
    "QDQKeepRemovableActivations": "qdq-keep-removable-activations",
    "QDQDisableWeightAdjustForInt32Bias": "qdq-disable-weight-adjust-for-int32-bias",
    "UseQDQContribOps": "use-qdq-contrib-ops", "BlockSize": "block-size", "MatMulConstBOnly": "matmul-const-b-only",
}
CHOICES = ("WeightSymmetric", "QuantizeBias")  # true or false, not flags
# numpy's of the tool's divisions by 0, where it then takes another branch.
warnings.filterwarnings("ignore", category=RuntimeWarning)


@dataclasses.dataclass
class Setup:
    activation: str = "int8"
    weight: str = "int8"
    per_channel: bool = False
    reduce_range: bool = False
    ops: tuple = ()
    exclude: tuple = ()
    form: QuantFormat = QuantFormat.QDQ
    extra: dict = dataclasses.field(default_factory=dict)
    overrides: dict = dataclasses.field(default_factory=dict)  # as the file of --override


class Reader(CalibrationDataReader):
    def __init__(self, feeds):
        self.left = iter(feeds)

    def get_next(self):
        return next(self.left, None)


def numbers(override, dtype):
    """An override as the tool wants it: types as its enum, numbers as arrays."""
    found = {}
    for key, x in override.items():
        if key == "quant_type":
            found[key] = TYPES[x]
        elif key in ("scale", "rmin", "rmax"):
            found[key] = np.array(x, dtype)
        elif key == "zero_point":
            found[key] = np.array(x)
        elif key == "convert":
            found[key] = numbers(x, dtype)
        elif key == "recv_nodes":
            found[key] = set(x)
        else:
            found[key] = x
    return found


def method(setup):
    return CalibrationMethod.Distribution if setup.activation.startswith("float8") else CalibrationMethod.MinMax


def theirs(model, out, cache, setup, feeds=(), dtype=np.float32):
    """Writes the cache too, where it is not there. None, or what the tool raised."""
    extra = dict(setup.extra)
    if setup.overrides:
        extra["TensorQuantOverrides"] = {name: [numbers(x, dtype) for x in list_] for name, list_ in setup.overrides.items()}
    try:
        quantize_static(str(model), str(out), Reader(feeds), quant_format=setup.form, op_types_to_quantize=list(setup.ops) or None,
                        per_channel=setup.per_channel, reduce_range=setup.reduce_range, activation_type=TYPES[setup.activation],
                        weight_type=TYPES[setup.weight], nodes_to_exclude=list(setup.exclude), calibrate_method=method(setup),
                        extra_options=extra, calibration_cache_path=str(cache))
    except Exception as e:  # the tool raises what it likes
        return f"{type(e).__name__}: {e}"
    return None


def flags(setup, cache, folder, tool=quantizers.HERE):
    words = ["--ranges", str(cache), "--compat", tool.word, "--activation-type", setup.activation, "--weight-type", setup.weight]
    words += ["--per-channel"] if setup.per_channel else []
    words += ["--reduce-range"] if setup.reduce_range else []
    words += ["--format", "qoperator"] if setup.form == QuantFormat.QOperator else []
    for op in setup.ops:
        words += ["--op-types", op]
    for name in setup.exclude:
        words += ["--exclude", name]
    for key, x in setup.extra.items():
        if key in CHOICES:
            words += ["--" + FLAGS[key], str(x).lower()]
        elif isinstance(x, dict):
            for op, axis in x.items():
                words += ["--" + FLAGS[key], f"{op}={axis}"]
        elif isinstance(x, (list, tuple)):
            for op in x:
                words += ["--" + FLAGS[key], op]
        elif x is True:
            words += ["--" + FLAGS[key]]
        elif x is not False:
            words += ["--" + FLAGS[key], str(x)]
    if setup.overrides:
        file = pathlib.Path(folder) / "overrides.json"
        file.write_text(json.dumps(setup.overrides, indent=1))
        words += ["--override", str(file)]
    return words
