"""Compares training steps with a mask and a bias, as models have them: first the errors of out and of all gradients,
then the times of forward and backward, of attnjit beside what PyTorch has for both operands.

Needs a GPU, PyTorch and attnjit's package:
  python3 bench/users.py --output users.jsonl
An error is the root of the mean square over a tensor, against the formulas in fp64.
"""

import argparse
import itertools
import json
import os
import sys

import torch
import user_problems
from peers import ColdTimer, query_gpus, rounded, versions
from references import TENSORS, exact, rms
from torch_attention import FLOP_OF, ROUNDS, Contestant
from torch_inputs import Refused

import attnjit

WRONG = 0.05  # of the reference's root mean square: a larger error is a fault


def parts(q, k):
    """Pairs of an index of q and one of k, which cut a problem into independent ones of four axes: images, or query
    heads with the kv head that they share."""
    if q.dim() == 5:
        return [(image, image) for image in range(q.shape[0])]
    copies = q.shape[1] // k.shape[1]
    return [
        ((slice(b, b + 1), slice(copies * g, copies * (g + 1))), (slice(b, b + 1), slice(g, g + 1)))
        for b, g in itertools.product(range(q.shape[0]), range(k.shape[1]))
    ]


def references(problem, operands, dout):
    """out, dq, dk, dv and dbias in fp64."""
    q, k, v, mask, bias = operands
    operand = torch.where(mask, bias, float("-inf"))
    copies = q.shape[-3] // operand.shape[-3] if operand.shape[-3] > 1 else 1
    operand = operand.repeat_interleave(copies, -3).expand(*q.shape[:-1], -1)
    found = [torch.empty_like(t, dtype=torch.float64) for t in (q, q, k, v, operand)]
    for of_q, of_k in parts(q, k):
        results = exact(q[of_q], k[of_k], v[of_k], dout[of_q], operand[of_q], bool(problem.causal))
        for whole, index, part in zip(found, (of_q, of_q, of_k, of_k, of_q), results):
            whole[index] = part
    dbias = found.pop().unflatten(-3, (-1, copies)).sum(-3) if copies > 1 else found.pop()
    return [*found, dbias.sum_to_size(bias.shape)]


def errors_of(contestant, leaves, dout, truth):
    """{tensor: error} of a contestant. Raises Refused where one is too large to be rounding."""
    gradients = torch.autograd.grad(contestant.out, leaves, dout, retain_graph=True)
    errors = {}
    for name, result, reference in zip(TENSORS, (contestant.out, *gradients), truth):
        errors[name], size = rounded(rms(result - reference)), rms(reference)
        if not errors[name] <= WRONG * size:
            raise Refused(f"{name} is wrong: its error is {errors[name]:.3g} where it is {size:.3g}")
    return errors


def bits_that_differ(problem, operands, leaves, dout):
    """The names of what a prepared mask makes differ from a mask, in deterministic calls."""
    q, k, v, mask, bias = operands
    found = []
    for either in (mask, attnjit.prepare_mask(mask, backward=True)):
        out = attnjit.attention(
            q, k, v, mask=either, bias=bias, causal=problem.causal or None, deterministic=True
        )
        found.append((out, *torch.autograd.grad(out, leaves, dout)))
    return [name for name, *pair in zip(TENSORS, *found) if not torch.equal(*pair)]


def run_problem(timer, problem, implementations):
    """The row of a problem. The implementations take turns."""
    operands, leaves = user_problems.make(problem)
    dout = torch.randn_like(operands[0])
    truth = references(problem, [t.detach() for t in operands], dout)
    row, contestants = {"name": problem.name, "implementations": {}}, []
    for name, implementation in implementations.items():
        try:
            contestant = Contestant(name, implementation, problem, operands, leaves)
            row["implementations"][name] = {"errors": errors_of(contestant, leaves, dout, truth)}
            contestants.append(contestant)
        except (Refused, RuntimeError, TypeError, ValueError) as error:
            row["implementations"][name] = {"reason": f"{type(error).__name__}: {error}".splitlines()[0]}
    del truth
    if {"attnjit", "prepared"} <= {contestant.name for contestant in contestants}:
        row["prepared_differs"] = bits_that_differ(problem, operands, leaves, dout)
    for _ in range(ROUNDS):
        for contestant in contestants:
            contestant.run_round(timer)
    for contestant in contestants:
        row["implementations"][contestant.name] |= contestant.result(problem)
    return row


def lines_of(row):
    """The lines of the table."""
    for name, found in row["implementations"].items():
        if "reason" in found:
            figures = found["reason"]
        else:
            figures = "".join(f"{found[of]['ms']:9.3f}{found[of]['tflops']:7.0f}" for of in FLOP_OF)
            figures += "".join(f"{error:10.2e}" for error in found["errors"].values())
        yield f"{row['name']:<48} {name:<10}{figures}"
    if "prepared_differs" in row:
        differ = ", ".join(row["prepared_differs"])
        yield f"{'':<48} the prepared mask gives " + (
            f"other bits of {differ}" if differ else "the same bits"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--filter", nargs="+", default=[""], help="only problems with one of these in their name"
    )
    parser.add_argument(
        "--flex", action="store_true", help="FlexAttention as well, where it takes both operands"
    )
    parser.add_argument("--git", default="", help="commit to name in the results")
    parser.add_argument("--output", help="file of results to write, a line of JSON each")
    options = parser.parse_args()
    problems = list(user_problems.load(options.filter, options.flex))
    if not problems:
        parser.error(f"--filter: no problem has any of {options.filter} in its name")
    if not torch.cuda.is_available():
        print("users.py: error: PyTorch finds no GPU", file=sys.stderr)
        return 7
    header = {
        "schema": 1, "benchmark": "users", "git": options.git, **versions(), "attnjit": attnjit.__version__,
        "tuned": not os.environ.get("DISABLE_AUTOTUNE"), "device": torch.cuda.get_device_name(),
        "rounds": ROUNDS, "gpus_before": query_gpus(),
    }  # fmt: skip
    print(f"{header['device']}, torch {torch.__version__}; ms and TFLOP/s, errors\n{'problem':<48} {'':<10}"
          + "".join(f"{of:>16}" for of in FLOP_OF) + "".join(f"{name:>10}" for name in TENSORS))  # fmt: skip
    torch.set_warn_always(True)  # for the reasons of refusals
    timer = ColdTimer()
    with open(options.output or os.devnull, "w", encoding="utf-8") as file:
        print(json.dumps(header), file=file)
        for problem, implementations in problems:
            row = run_problem(timer, problem, implementations)
            print("\n".join(lines_of(row)), flush=True)
            print(json.dumps(row), file=file, flush=True)
        print(json.dumps({"gpus_after": query_gpus()}), file=file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
