"""Times what other libraries have of sinks, softcaps, windows, packed sequences and paged keys, as peers.py times the
rest: FlashAttention-4 (package flash-attn-4), FlexAttention, and cuDNN's graphs (package nvidia-cudnn-frontend).

Needs a GPU, PyTorch, and the packages of the libraries that are asked for:
  python3 bench/feature_peers.py --shapes bench/shapes/features.json --filter gpt-oss --output features-peers.json
Of a problem whose pass is backward, only the backward is timed. What a library lacks is a row with the reason.
"""

import argparse
import sys

import shapes
import torch
from peers import ColdTimer, backend_row, query_gpus, time_backward, versions, write
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch_inputs import DTYPES, Refused


def normal(problem, *shape):
    return torch.randn(shape, dtype=DTYPES[problem.dtype], device="cuda")


def bounds(problem):
    """Numbers of keys before and after the diagonal; None where a side is open."""
    left, right = (None if side < 0 else side for side in problem.options.get("window", (-1, -1)))
    return left, 0 if problem.causal else right


def refuse(problem, *members):
    """Refuses a problem that has any of these."""
    for member in members:
        if problem.options.get(member) or getattr(problem, member, None):
            raise Refused(f"{member}: not compared with this library")


def measure(timer, problem, leaves, forward):
    """The rounds of a forward, or of the gradients by `leaves`."""
    if problem.backward:
        for leaf in leaves:
            leaf.requires_grad_()
        return time_backward(timer, forward(), leaves)
    with torch.inference_mode():
        return {"rounds": timer.rounds(forward)}


def run_fa4(timer, problem):
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func

    refuse(problem, "bias", "mask", "alibi", "tail_mask", "row_max", "max_logits", "prepared_mask")
    tensors, keys = problem.batch, problem.seqlen_kv
    options = {"causal": bool(problem.causal), "softcap": float(problem.options.get("softcap", 0.0))}
    if "window" in problem.options:
        options["window_size"] = bounds(problem)
    if problem.options.get("sink"):
        options["learnable_sink"] = normal(problem, problem.heads_q)
    call = flash_attn_func
    if problem.options.get("packed"):
        begins = torch.tensor(problem.options["cu_seqlens_q"], dtype=torch.int32, device="cuda")
        longest = int(begins.diff().max())
        options |= {
            "cu_seqlens_q": begins,
            "cu_seqlens_k": begins,
            "max_seqlen_q": longest,
            "max_seqlen_k": longest,
        }
        call, tensors = flash_attn_varlen_func, None
    lead = () if tensors is None else (tensors,)
    q = normal(problem, *lead, problem.seqlen_q, problem.heads_q, problem.head_dim)
    if page := problem.options.get("page_size"):
        pages = problem.batch * keys // page
        table = torch.randperm(pages, device="cuda").to(torch.int32).view(problem.batch, -1)
        used = torch.full((problem.batch,), keys, dtype=torch.int32, device="cuda")
        options |= {"page_table": table, "seqused_k": used}
        call, lead, keys = flash_attn_varlen_func, (pages,), page
    k = normal(problem, *lead, keys, problem.heads_kv, problem.head_dim)
    v = normal(problem, *lead, keys, problem.heads_kv, problem.head_dim_v)

    def forward():
        result = call(q, k, v, **options)
        return result[0] if isinstance(result, tuple) else result

    return measure(timer, problem, [q, k, v], forward)


def run_flex(timer, problem):
    refuse(
        problem, "mask", "alibi", "sink", "tail_mask", "row_max", "max_logits", "prepared_mask", "page_size"
    )
    packed = problem.options.get("packed")
    batch = 1 if packed else problem.batch
    q = normal(problem, batch, problem.heads_q, problem.seqlen_q, problem.head_dim)
    k = normal(problem, batch, problem.heads_kv, problem.seqlen_kv, problem.head_dim)
    v = normal(problem, batch, problem.heads_kv, problem.seqlen_kv, problem.head_dim_v)
    left, right = bounds(problem)
    softcap = problem.options.get("softcap", 0.0)
    leaves, bias = [q, k, v], None
    if packed:  # documents of one long sequence
        begins = torch.tensor(problem.options["cu_seqlens_q"], device="cuda")
        document = torch.bucketize(torch.arange(problem.seqlen_q, device="cuda"), begins, right=True) - 1
        place = torch.arange(problem.seqlen_q, device="cuda") - begins[document]
        if problem.bias:
            longest = int(begins.diff().max())
            bias = normal(problem, problem.heads_q, longest, longest)
            leaves += [bias] if problem.dbias else []
    elif problem.bias:
        raise Refused("bias: peers.py compares it")

    def keeps(b, h, i, j):
        keep = i >= 0 if right is None else j <= i + right
        keep = keep if left is None else keep & (j >= i - left)
        return keep & (document[i] == document[j]) if packed else keep

    def change(score, b, h, i, j):
        score = softcap * torch.tanh(score / softcap) if softcap else score
        return score if bias is None else score + bias[h, place[i], place[j]]

    torch.compiler.reset()
    compiled = torch.compile(flex_attention, dynamic=False)
    block_mask = create_block_mask(keeps, None, None, problem.seqlen_q, problem.seqlen_kv, device="cuda")
    changes = change if softcap or bias is not None else None
    return measure(
        timer,
        problem,
        leaves,
        lambda: compiled(
            q, k, v, score_mod=changes, block_mask=block_mask, enable_gqa=problem.heads_q != problem.heads_kv
        ),
    )


def cudnn_tensors(graph, kind, problem):
    """(buffers, tensors of the graph by buffer, options of sdpa) for q, k, v and out of `problem`.

    Packed sequences are a batch whose elements begin where ragged offsets say, in buffers [T, H, D].
    """
    import cudnn

    heads = (problem.heads_q, problem.heads_kv, problem.heads_kv, problem.heads_q)
    widths = (problem.head_dim, problem.head_dim, problem.head_dim_v, problem.head_dim_v)
    if not problem.options.get("packed"):
        rows = (problem.seqlen_q, problem.seqlen_kv, problem.seqlen_kv, problem.seqlen_q)
        buffers = [normal(problem, problem.batch, h, r, d) for h, r, d in zip(heads, rows, widths)]
        return buffers, {graph.tensor_like(x): x for x in buffers[:3]}, {}
    begins = torch.tensor(problem.options["cu_seqlens_q"], dtype=torch.int32, device="cuda")
    batch, longest = len(begins) - 1, int(begins.diff().max())
    buffers, operands, targets = [], {}, []
    for h, d in zip(heads, widths):
        buffers.append(normal(problem, problem.seqlen_q, h, d))
        offsets = (begins * h * d).view(-1, 1, 1, 1)
        ragged = graph.tensor_like(offsets)
        operands[ragged] = offsets
        targets.append(((batch, h, longest, d), (longest * h * d, d, h * d, 1), ragged))
    tensors = {}
    for buffer, (dim, stride, ragged) in list(zip(buffers, targets))[:3]:
        tensor = graph.tensor(dim=dim, stride=stride, data_type=kind)
        tensor.set_ragged_offset(ragged)
        tensors[tensor] = buffer
    lengths = begins.diff().to(torch.int32).view(-1, 1, 1, 1)
    options = {"use_padding_mask": True}
    for name in ("seq_len_q", "seq_len_kv"):
        options[name] = graph.tensor(dim=(batch, 1, 1, 1), stride=(1, 1, 1, 1), data_type=cudnn.data_type.INT32)
        operands[options[name]] = lengths
    return buffers, tensors | operands, options | {"target": targets[3]}


def run_cudnn(timer, problem):
    import cudnn

    refuse(
        problem,
        "backward",
        "bias",
        "mask",
        "alibi",
        "tail_mask",
        "row_max",
        "max_logits",
        "prepared_mask",
        "page_size",
        "softcap",
    )
    kind = cudnn.data_type.HALF if DTYPES[problem.dtype] == torch.float16 else cudnn.data_type.BFLOAT16
    graph = cudnn.pygraph(
        io_data_type=kind,
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
    )
    buffers, operands, options = cudnn_tensors(graph, kind, problem)
    out = buffers[3]
    dim, stride, ragged = options.pop("target", (out.size(), out.stride(), None))
    lse = torch.empty(*dim[:3], 1, device="cuda")
    options |= {"attn_scale": problem.head_dim**-0.5, "generate_stats": True}
    left, right = bounds(problem)
    if right is not None:
        options |= {
            "diagonal_alignment": cudnn.diagonal_alignment.TOP_LEFT,
            "diagonal_band_right_bound": right,
        }
    if left is not None:
        options["diagonal_band_left_bound"] = left + 1
    if problem.options.get("sink"):
        sink = torch.randn(1, problem.heads_q, 1, 1, device="cuda")
        options["sink_token"] = graph.tensor_like(sink)
        operands[options["sink_token"]] = sink
    result, stats = graph.sdpa(*list(operands)[:3], **options)
    result.set_output(True).set_dim(dim).set_stride(stride)
    if ragged is not None:
        result.set_ragged_offset(ragged)
    stats.set_output(True).set_data_type(cudnn.data_type.FLOAT)
    operands |= {result: out, stats: lse}
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    graph.check_support()
    graph.build_plans()
    workspace = torch.empty(graph.get_workspace_size(), dtype=torch.uint8, device="cuda")
    return {"rounds": timer.rounds(lambda: graph.execute(operands, workspace))}


RUNS = {"fa4": run_fa4, "flex": run_flex, "cudnn": run_cudnn}


def run_problem(timer, problem, names):
    """The row of a problem, also printed."""
    row = {"name": problem.name, "backends": {}}
    for name in names:
        torch.manual_seed(problem.seed)
        try:
            result = backend_row(problem, RUNS[name](timer, problem))
            print(
                f"{problem.name:<55} {name:<6} {result['ms']:9.4f} {result['tflops']:8.1f} {result['kv_tb_per_s']:8.2f}",
                flush=True,
            )
        except Exception as error:  # noqa: BLE001, libraries raise anything for what they lack
            result = {"ms": None, "reason": (str(error).splitlines() or [repr(error)])[0]}
            print(f"{problem.name:<55} {name:<6} refused: {result['reason'][:160]}", flush=True)
        row["backends"][name] = result
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="bench/shapes/features.json")
    parser.add_argument("--filter", default="", help="only problems with this in their name")
    parser.add_argument("--backends", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--output", help="file of results to write, JSON")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("feature_peers.py: error: PyTorch finds no GPU", file=sys.stderr)
        return 7
    device = torch.cuda.get_device_properties()
    report = {
        "schema": 1,
        "benchmark": "peers",
        **versions(),
        "device": {"name": device.name, "sms": device.multi_processor_count},
        "gpus_before": query_gpus(),
    }
    timer = ColdTimer()
    problems = [p for p in shapes.load(options.shapes) if options.filter in p.name]
    report["rows"] = [run_problem(timer, p, options.backends) for p in problems]
    report["gpus_after"] = query_gpus()
    write(report, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
