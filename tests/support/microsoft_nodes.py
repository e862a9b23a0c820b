"""Nodes of com.microsoft that ONNX Runtime mostly has no CPU kernel for, as it takes them: for tests that compare what is said of them."""

from dataclasses import dataclass, field

import onnx
from onnx import TensorProto, helper

TYPES = {"float": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "int64": TensorProto.INT64,
         "int32": TensorProto.INT32, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8}  # fmt: skip
F, H, I, L = "float", "float16", "int32", "int64"


def tensor(name, text):
    """A value of a text as "float[2,N]"."""
    dtype, dims = text[:-1].split("[")
    return helper.make_tensor_value_info(name, TYPES[dtype], [int(d) if d.isdigit() else d for d in dims.split(",")] if dims else [])


@dataclass
class Node:
    op: str
    inputs: str  # texts with blanks between them; "-" is none
    outputs: str  # their types; "-" is none
    attributes: dict = field(default_factory=dict)

    def names(self, letter, texts):
        return ["" if text == "-" else f"{letter}{i}" for i, text in enumerate(texts.split())]

    def model(self, outputs=None):
        """With these values as outputs; by default nothing is declared of them."""
        made = [name for name in self.names("y", self.outputs) if name]
        node = helper.make_node(self.op, self.names("x", self.inputs), self.names("y", self.outputs), "only", domain="com.microsoft", **self.attributes)
        inputs = [tensor(f"x{i}", text) for i, text in enumerate(self.inputs.split()) if text != "-"]
        graph = helper.make_graph([node], "g", inputs, outputs or [onnx.ValueInfoProto(name=name) for name in made])
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def node(op, inputs, outputs, **attributes):
    return Node(op, inputs, outputs, attributes)


NORMS = "float[8] float[8,3] float[3,8] float[8,2]"
MAMBA = "bfloat16[R,514] bfloat16[2,384,3] float[2,2,128,64] bfloat16[384,4] bfloat16[384] float[2] float[2] float[2] float[128] int32[1]"
SPARSE = "int32[6,4] int32[6] int32[2] int32[1]"
QSA = ("float[7,20] float[7,10] float[10] float[10] float[9,4] float[9,4] int32[3] int32[2] - - - - float[2,11,10] float[2,7,10] - "
       "int32[2,2]")  # fmt: skip
CSA = ("float[7,20] float[7,20] float[10] float[10] float[9,4] float[9,4] int32[3] int32[2] float[7,20] float[4,20] float[7,2] int64[7] "
       "float[2,11,10] float[2,7,20] float[2,7,20] int32[2,2]")  # fmt: skip
POLICY = {"compress_ratio": 4, "state_capacity": 11}
HEADS = {"num_heads": 4, "kv_num_heads": 2}

# What came with ONNX Runtime 1.32.
NEW = [
    node("GatherPacked", "uint8[V,36] int64[a,b]", "bfloat16", packed_type=2, K=64),
    node("GatherPacked", "uint8[V,36] int32[]", F, packed_type=2, K=64, output_dtype=1),
    node("GatherPacked", "uint8[V,36] int32[3]", H, packed_type=2, K=64, output_dtype=10),
    node("MatMulPacked", "float16[a,b,64] uint8[5,36]", H, packed_type=2, K=64, N=5),
    node("MoEPacked", "float16[2,3,64] float[6,4] uint8[4,32,36] uint8[4,32,36] uint8[4,64,18]", H, gate_type=2, down_type=2, up_type=2),
    node("MatMulNBitsQLoRA", "float16[2,3,64] uint8[5,2,16] float16[5,2] uint8[3,2,32] float16[3,2] uint8[5,1,32] float16[5,1]", H, K=64, N=5),
    node("MoEGroupRouter", "float16[2,3,8] float[8]", H, top_k=2),
    node("MoEGroupRouter", "float16[6,256] float[8] float16[8,256]", "- float float", top_k=2),
    node("SwiGLU", "float[7,4]", F),
    node("SwiGLU", "float16[7,4] float16[7,4]", H),
    node("RMSNormRotary", "float16[2,3,4,8] float[8] int64[2,3] float[9,2] float[9,2]", "bfloat16 float", rotary_embedding_dim=4),
    node("RMSNormRotary", "float16[2,3,4,8] float[6] int64[2,3] float[9,2] float[9,2]", "float16 float", rotary_embedding_dim=4,
         input_width=6, input_start=1, output_fp16=1, flatten_batch=1),
    node("RouterGateUpProj", "float16[a,3,8] float16[8,10]", "float16 float16", router_size=4),
    node("HyperConnectionLowRankMix", f"float[2,3,8] {NORMS}", "float float float", num_branches=2),
    node("GatedDeltaNetStateReplay", "float[9] float[8] float[7] int64[11]", F),
    node("ConvStateReplay", "float16[9] float16[8] float16[7] int64[8]", H),
    node("Mamba2Verify", MAMBA, "bfloat16 bfloat16 float bfloat16 float", heads=2, n_groups=1),
    node("PackedSparseAttentionIndexerMerge", "int32[3,4] int32[3] int32[5] int32[5] int32[5]", "int32 int32 int32", max_output_entries=6,
         policy_mode="append_range"),
    node("SpeculativePrefixCommit", "int64[2,8] int64[2,8] int32[2] int64[2,16] int64[2,2] int64[2,16] int64[2]", "int32 int64 int64"),
    node("SpeculativePrefixCommit", "int64[8] int64[8] int32[1] int64[16] int64[2] int64[16] int64[2]", "int32 int64 int64"),
]  # fmt: skip
# What has other inputs, outputs or attributes since then.
CHANGED = [
    node("GatedDeltaNet", "float[T,2,5] float[T,2,5] float[T,4,6] int32[3] float[T,4] float[T,4] float[2,4,6,5]", "float float", gate_lower_bound=-4.0),
    node("GatedDeltaNet", "float16[T,44] - - - float16[T,4] float16[T,4] float[2,4,6,5]", "float16 float"),
    node("GatedDeltaNet", "float[2,3,2,5] float[2,3,2,5] float[2,3,4,6] - float[2,3,4] float[2,3,4] float[2,4,6,5]", "float float"),
    node("GatedDeltaNet", "float[T,2,5] float[T,2,5] float[T,4,6] - float[T,4] float[T,4] float[2,4,6,5] - - int32[2]", "float float float",
         state_update_capacity=3),
    node("GatedDeltaNet", "float[T,2,5] float[T,2,5] float[T,4,6] - float[T,4,5] float[T,4] float[2,4,6,5] - - int32[2]", "float float float",
         state_update_capacity=3),
    node("VarlenCausalConvWithState", "float[7,4] float[4,1,2] int32[3] - float[2,4,1] - float[7,2,4] float[7,1]", "float float", group_size=1),
    node("VarlenCausalConvWithState", "float[7,4] float[4,1,3] int32[3] - float[2,4,2] int32[2]", "float float float", state_update_capacity=3),
    node("GatedAdd", "float[2,7,4] float[2,7,4] float[2,7,5] float[5,1]", F),
    node("CausalConvWithState", "float[2,7,4] float[7,1,3]", "float float", dilation=2),
    node("CausalConvWithState", "float[2,7,4] float[7,1,3]", "float float", state_window=2),
    node("CausalConvWithState", "float[2,7,4,5] float[7,1,3,2]", "float float", ndim=2),
    node("CausalConvWithState", "float[2,7,4,5] float[20,1,3]", "float float", channels_last=1),
    node("CausalConvWithState", "float[2,7,4] float[4,1,3]", "float float", channels_last=1, state_window=2),
    node("CausalConvWithState", "float[2,7,4] float[4,1,3]", "float float", channels_last=1, state_length=5),
    node("CausalConvWithState", "float[2,7,4] float[4,1,3]", "float float", channels_last=1, state_channels_last=0),
    node("CausalConvWithState", "float[2,7,4] float[3,1,3]", "float float float", channels_last=1, input_channels=3, state_update_capacity=2),
    node("DynamicSparseAttention", f"float16[2,3,32] float16[2,3,16] float16[2,3,16] float16[2,2,9,8] float16[2,2,9,8] - - {SPARSE}",
         "float16 float16 float16 int32", **HEADS),
    node("DynamicSparseAttention", f"float16[2,3,64] - - int8[2,2,9,8] int8[2,2,9,8] - - {SPARSE}", "bfloat16 int8 int8 int32", output_bf16=1, **HEADS),
    node("PackedSparseAttentionIndexer", f"{QSA} int32[2]", "int32 int32 float float - int32 float - int32", policy_mode="qsa", token_budget=8,
         state_update_capacity=3, **POLICY),
    node("PackedSparseAttentionIndexer", CSA, "int32 int32 float float float int32", policy_mode="csa", index_topk=5, **POLICY),
    node("GroupQueryAttention", "float[2,3,32] float[2,3,16] float[2,3,16] float[2,2,9,8] float[2,2,9,8] int32[2] int32[] - - - - - - - - - int32[2]",
         "float float float", q_norm_epsilon=1e-5, **HEADS),
    node("MoE", "float[6,8] float[6,4] float[4,6,8] - float[4,8,6]", F, activation_type="silu", swiglu_limit_after_activation=0),
    node("QMoE", "float[6,64] float[6,4] uint8[4,32,32] float[4,32] - uint8[4,64,16] float[4,64]", F, swiglu_limit_after_activation=0),
]  # fmt: skip
