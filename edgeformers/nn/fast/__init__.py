"""Optional fast implementations of the layers in `edgeformers.nn`, and one switch for all of them.

A fast path computes the same function as the plain PyTorch code, up to rounding. `dispatch` decides
when each one applies:

- `short_attention` (kernels: `triton_attention`): attention within texts of up to 128 tokens on
  CUDA GPUs, in 16-bit precision. Longer texts use PyTorch's variable-length flash attention.
- `fused_ops` (kernels: `triton_ffn`, `triton_embedding`): linear + dropout + residual + LayerNorm,
  the feed-forward sublayer, and embedding lookup + LayerNorm + dropout, on CUDA GPUs in 16-bit
  precision.
- `onednn_layers`: inference of BERT-like layers on CPUs in float32.
- `edgeformers.training.cuda_graphs`: training steps replayed as CUDA graphs.

The environment variable EDGEFORMERS_FAST=0 turns all of them off, and so does

    with fast_paths(False):
        ...

`int8` is not covered by the switch: it changes the results and must be requested.
"""

from edgeformers.nn.fast.dispatch import fast_paths

__all__ = ["fast_paths"]
