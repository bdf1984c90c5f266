"""Reads a file of bench/shapes as `attnjit bench` does: the same problems under the same names.

Run as a program it prints the names: python3 bench/shapes.py bench/shapes/forward.json
"""

import dataclasses
import itertools
import json
import re
import sys

# The members of an entry, in the order in which their lists cross.
_MEMBERS = ("dtype", "batch", "heads", "head_dim", "head_dim_v", "seqlens", "causal", "window",
            "diagonal", "alibi", "mask", "mask_kind", "mask_density", "bias", "bias_dtype", "bias_kind",
            "sink", "scale", "layout", "use_seqlens", "packed", "cu_seqlens_q", "cu_seqlens_kv",
            "score", "keep", "operands", "blocks", "key_indices", "row_max", "max_logits", "page_size",
            "shared_pages", "tail_mask", "seed", "dbias", "grad", "prepared_mask", "softcap", "deterministic")
# Members whose value is a pair of numbers, and what stands between the two in a name.
_PAIRS = {"heads": "/", "seqlens": "/", "window": ","}
# Members whose value is itself a list.
_LISTS = ("cu_seqlens_q", "cu_seqlens_kv", "operands", "grad")
_LABELS = ("name", "source", "pass")


@dataclasses.dataclass(frozen=True)
class Problem:
    """One attention forward, or its backward. Patterns are four letters over (batch, head, query,
    key) as in configs/schema/manifest.schema.json, empty where the operand is absent."""

    name: str
    dtype: str
    batch: int
    heads_q: int
    heads_kv: int
    seqlen_q: int
    seqlen_kv: int
    head_dim: int
    head_dim_v: int
    causal: str  # "top-left", "bottom-right", or empty
    mask: str
    mask_kind: str
    mask_density: float
    bias: str
    layout: str  # memory order of q, k, v and out: "bhsd" or "bshd"
    seed: int
    backward: bool
    dbias: bool  # whether the backward computes the bias's gradient
    options: dict  # members of the entry that are none of the above, by name

    @property
    def others(self):
        """The names of the options that are wanted."""
        return tuple(m for m, value in self.options.items() if value is not False)

    def scores(self):
        """How many scores the diagonal and the window leave to one head, over the batch."""
        if self.options.get("packed"):
            sizes = [[end - begin for begin, end in itertools.pairwise(self.options[member])]
                     for member in ("cu_seqlens_q", "cu_seqlens_kv")]
            return sum(map(self._scores_of, *sizes))
        return self.batch * self._scores_of(self.seqlen_q, self.seqlen_kv)

    def _scores_of(self, queries, keys):
        """Those of one sequence."""
        left, right = self.options.get("window", (-1, -1))
        if self.causal:
            right = 0
        if left < 0 and right < 0:
            return queries * keys
        shift = keys - queries if self.causal == "bottom-right" else 0
        rows = range(queries)
        ends = [keys if right < 0 else min(max(i + shift + right + 1, 0), keys) for i in rows]
        begins = [0 if left < 0 else max(i + shift - left, 0) for i in rows]
        return sum(max(end - begin, 0) for begin, end in zip(begins, ends))

    def flop(self):
        """Of the two products of a forward, or the five of a backward; masks and biases count
        nothing."""
        forward = 2 * self.scores() * self.heads_q * (self.head_dim + self.head_dim_v)
        return 2.5 * forward if self.backward else forward

    def kv_bytes(self):
        """Bytes of k and v."""
        width = self.head_dim + self.head_dim_v
        tensors = 1 if self.options.get("packed") else self.batch
        return 2 * tensors * self.heads_kv * self.seqlen_kv * width

    def pattern_shape(self, pattern):
        """The shape of a mask or bias with that pattern."""
        heads = {"h": self.heads_q, "g": self.heads_kv}
        return (self.batch if pattern[0] == "b" else 1, heads.get(pattern[1], 1),
                self.seqlen_q if pattern[2] == "q" else 1,
                self.seqlen_kv if pattern[3] == "k" else 1)


def _values(member, value):
    """The values that an entry lists for a member; pairs are made of single numbers."""
    if member in _LISTS:
        return value if isinstance(value[0], list) else [value]
    if member not in _PAIRS:
        return value if isinstance(value, list) else [value]
    pairs = value if isinstance(value, list) and isinstance(value[0], list) else [value]
    return [pair if isinstance(pair, list) else [pair, pair] for pair in pairs]


def _text(member, value):
    """How a name shows a value."""
    if member in _PAIRS:
        return _PAIRS[member].join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _word(value):
    return value.replace("_", "-")


def _pattern(value):
    return "" if value == "none" else value


def _problem(name, given, backward):
    known = dict(given)
    heads_q, heads_kv = known.pop("heads")
    seqlen_q, seqlen_kv = known.pop("seqlens")
    head_dim = known.pop("head_dim")
    return Problem(name=name, dtype=known.pop("dtype", "bf16"), batch=known.pop("batch", 1),
                   heads_q=heads_q, heads_kv=heads_kv, seqlen_q=seqlen_q, seqlen_kv=seqlen_kv,
                   head_dim=head_dim, head_dim_v=known.pop("head_dim_v", head_dim),
                   causal=_word(known.pop("causal", False) or ""),
                   mask=_pattern(known.pop("mask", "")),
                   mask_kind=_word(known.pop("mask_kind", "random")),
                   mask_density=known.pop("mask_density", 0.7),
                   bias=_pattern(known.pop("bias", "")), layout=known.pop("layout", "bhsd"),
                   seed=known.pop("seed", 1),
                   backward=backward, dbias=known.pop("dbias", False),
                   options=known)


def _cross(entry):
    """One problem for each pass and combination of the values of an entry's members."""
    passes = entry.get("pass", "forward")
    for wanted in passes if isinstance(passes, list) else [passes]:
        yield from _cross_pass(entry, wanted == "backward")


def _cross_pass(entry, backward):
    name = entry["name"]
    if backward and "backward" not in name:
        name += " backward"
    unknown = set(entry) - set(_MEMBERS) - set(_LABELS)
    if unknown:
        raise ValueError(f"{entry['name']}: unknown members {sorted(unknown)}")
    axes = {member: _values(member, entry[member]) for member in _MEMBERS if member in entry}
    for choice in itertools.product(*axes.values()):
        given = dict(zip(axes, choice))
        varying = (f" {m}={_text(m, v)}" for m, v in given.items() if len(axes[m]) > 1)
        yield _problem(name + "".join(varying), given, backward)


def load(path):
    """The problems of a file, in order. Comments take whole lines."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^\s*//.*$", "", file.read(), flags=re.MULTILINE)
    return [problem for entry in json.loads(text)["problems"] for problem in _cross(entry)]


if __name__ == "__main__":
    for problem in load(sys.argv[1]):
        print(problem.name)
