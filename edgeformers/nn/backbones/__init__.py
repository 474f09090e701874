"""Pretrained text encoders: load, configure and export checkpoints of Hugging Face models."""

from edgeformers.nn.backbones.checkpoint import (
    backbone_config,
    export_backbone,
    load_backbone,
    random_backbone,
)
from edgeformers.nn.backbones.folder import find_backbone_folder

__all__ = [
    "backbone_config",
    "export_backbone",
    "find_backbone_folder",
    "load_backbone",
    "random_backbone",
]
