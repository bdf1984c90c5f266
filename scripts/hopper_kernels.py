"""The kernels of Hopper that scripts/sass-counts, scripts/compile-times and scripts/nvrtc-grid look at."""
import subprocess

CAUSAL = ["--causal", "bottom-right"]
PAGES = ["--page-size", "64", "--seqlens", *CAUSAL]
TRIANGLE = ["--path", "shared_bias", "--batch", "384", "--heads-q", "4", "--seqlen-q", "384", "--bias", "1hqk",
            "--bias-dtype", "fp32"]  # fmt: skip
# The step that each is of its problem's plan, and the flags of the problem.
KERNELS = {
    "forward D64": ["attn_fwd", "--head-dim", "64"],
    "forward D64 causal": ["attn_fwd", "--head-dim", "64", *CAUSAL],
    "forward D64 window, sink": ["attn_fwd", "--head-dim", "64", *CAUSAL, "--window", "1023,0", "--sink"],
    "forward D128": ["attn_fwd", "--head-dim", "128"],
    "forward D128 causal": ["attn_fwd", "--head-dim", "128", *CAUSAL],
    "forward D128 fp16": ["attn_fwd", "--head-dim", "128", "--dtype", "fp16"],
    "forward D128 bias": ["attn_fwd", "--head-dim", "128", "--bias", "bhqk"],
    "forward D128 mask": ["attn_fwd", "--head-dim", "128", "--mask", "b1qk"],
    "forward D128 mask, bias": ["attn_fwd", "--head-dim", "128", "--mask", "b1qk", "--bias", "bhqk"],
    "forward D128 softcap": ["attn_fwd", "--head-dim", "128", "--softcap", "50", *CAUSAL],
    "forward D128 alibi": ["attn_fwd", "--head-dim", "128", "--alibi", "h", *CAUSAL],
    "forward D128 packed": ["attn_fwd", "--head-dim", "128", "--packed", *CAUSAL],
    "forward D128 pages": ["attn_fwd", "--head-dim", "128", *PAGES],
    "forward D256": ["attn_fwd", "--head-dim", "256"],
    "forward D256 causal": ["attn_fwd", "--head-dim", "256", *CAUSAL],
    "forward D32 shared bias, mask": ["attn_fwd", "--head-dim", "32", *TRIANGLE, "--mask", "b11k"],
    "forward D256 window": ["attn_fwd", "--head-dim", "256", *CAUSAL, "--window", "1023,0"],
    "backward D64": ["attn_bwd_dkv", "--head-dim", "64", "--backward"],
    "backward D64 causal": ["attn_bwd_dkv", "--head-dim", "64", "--backward", *CAUSAL],
    "backward D128": ["attn_bwd_dkv", "--head-dim", "128", "--backward"],
    "backward D128 causal": ["attn_bwd_dkv", "--head-dim", "128", "--backward", *CAUSAL],
    "backward D128 mask": ["attn_bwd_dkv", "--head-dim", "128", "--backward", "--mask", "b1qk"],
    "backward D128 bias, dbias": ["attn_bwd_dkv", "--head-dim", "128", "--backward", "--bias", "bhqk", "--dbias"],
    "backward D128 softcap": ["attn_bwd_dkv", "--head-dim", "128", "--backward", "--softcap", "50", *CAUSAL],
    "backward D256, dk and dv": ["attn_bwd_dkv", "--head-dim", "256", "--backward"],
    "backward D256, dq": ["attn_bwd_dq", "--head-dim", "256", "--backward"],
}  # fmt: skip
DEFAULTS = {"--path": "wgmma", "--seqlen-q": "4096"}


def emit(attnjit, kernel, *options, env=None):
    """What `attnjit emit` with `options` prints of one of KERNELS."""
    step, *flags = kernel
    defaults = [word for item in DEFAULTS.items() if item[0] not in flags for word in item]
    command = [attnjit, "emit", "--arch", "sm_90a", "--step", step, "-q", *defaults, *flags, *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout
