"""Attention over the ranks of a process group: sequences that outgrow one GPU. docs/guide/multi-gpu.md of the project
tells how it works and what it costs."""

from ._attention import attention, shard, unshard

__all__ = ["attention", "shard", "unshard"]
