"""The time of a call over a group, and with it the choice between ring and all-gather: pure functions, so that
all ranks come to the same answer."""

from dataclasses import dataclass

from ._schedule import Band, kept_pairs


@dataclass(frozen=True)
class Sizes:
    """A call of the whole group; lengths are those of the whole sequences."""

    batch: int
    heads_q: int
    heads_kv: int
    seqlen_q: int
    seqlen_kv: int
    head_dim: int
    head_dim_v: int
    element_bytes: int
    band: Band
    backward: bool

    def flop(self) -> float:
        pairs = kept_pairs(self.seqlen_q, self.seqlen_kv, self.band)
        products = 2.5 if self.backward else 1
        return products * 2 * self.batch * self.heads_q * (self.head_dim + self.head_dim_v) * pairs

    def kv_bytes(self) -> float:
        """K and V of the whole sequence; with fp32 sums of their gradients, which go with them, in a backward."""
        elements = self.batch * self.heads_kv * self.seqlen_kv * (self.head_dim + self.head_dim_v)
        return elements * (self.element_bytes + (4 if self.backward else 0))

    def partial_bytes(self) -> float:
        """Bytes that one more partial result of all rows moves: out written and read, or dq, and its fp32 sum read and
        written."""
        width = self.head_dim if self.backward else self.head_dim_v
        moved = 2 * self.element_bytes + (8 if self.backward else 0)
        return self.batch * self.heads_q * self.seqlen_q * width * moved


@dataclass(frozen=True)
class Machine:
    """Rates of a rank: FLOP/s of kernels, bytes/s of its link one way and of its memory; seconds that a
    collective or a send takes to begin, and that a call of the kernels costs beside them. `fits`: bytes that
    gathered keys may take."""

    flop_per_s: float = 550e12
    link_bytes_per_s: float = 300e9
    memory_bytes_per_s: float = 3e12
    link_seconds: float = 30e-6
    call_seconds: float = 15e-6
    fits: float = 4 * 2.0**30


def ring_seconds(sizes: Sizes, ranks: int, machine: Machine) -> float:
    """N calls, all but the last beside the exchange of a share; each result is merged."""
    kernel = sizes.flop() / ranks**2 / machine.flop_per_s + machine.call_seconds
    exchange = sizes.kv_bytes() / ranks / machine.link_bytes_per_s + machine.link_seconds
    merged = sizes.partial_bytes() / ranks / machine.memory_bytes_per_s
    returned = exchange if sizes.backward else 0  # the sums, once more to their owner
    return kernel + (ranks - 1) * max(kernel, exchange) + ranks * merged + returned


def gather_seconds(sizes: Sizes, ranks: int, machine: Machine) -> float:
    """All keys first, put in order in memory, and then a call for each of two chunks of rows."""
    kernel = sizes.flop() / ranks / machine.flop_per_s + 2 * machine.call_seconds
    exchange = sizes.kv_bytes() * (ranks - 1) / ranks / machine.link_bytes_per_s
    return kernel + exchange + machine.link_seconds + 4 * sizes.kv_bytes() / machine.memory_bytes_per_s


def choose(sizes: Sizes, ranks: int, machine: Machine | None = None) -> str:
    """The method, "ring" or "gather", that takes less time. A gather holds all keys, and has to save 5 %."""
    machine = machine or Machine()
    if sizes.kv_bytes() > machine.fits:
        return "ring"
    saves = gather_seconds(sizes, ranks, machine) < 0.95 * ring_seconds(sizes, ranks, machine)
    return "gather" if saves else "ring"
