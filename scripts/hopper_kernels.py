"""The kernels of Hopper that scripts/sass-counts and scripts/compile-times look at."""
import subprocess

SIZES = ["--seqlen-q", "4096", "--seqlen-kv", "4096"]
# The flags of each kernel's problem.
KERNELS = {
    "forward D64": ["--head-dim", "64"],
    "forward D64 causal": ["--head-dim", "64", "--causal", "bottom-right"],
    "forward D128": ["--head-dim", "128"],
    "forward D128 causal": ["--head-dim", "128", "--causal", "bottom-right"],
    "forward D128 fp16": ["--head-dim", "128", "--dtype", "fp16"],
    "forward D128 bias": ["--head-dim", "128", "--bias", "bhqk"],
    "forward D128 mask": ["--head-dim", "128", "--mask", "b1qk"],
    "forward D128 mask, bias": ["--head-dim", "128", "--mask", "b1qk", "--bias", "bhqk"],
    "forward D256": ["--head-dim", "256"],
    "forward D256 causal": ["--head-dim", "256", "--causal", "bottom-right"],
    "backward D64": ["--head-dim", "64", "--backward"],
    "backward D64 causal": ["--head-dim", "64", "--backward", "--causal", "bottom-right"],
    "backward D128": ["--head-dim", "128", "--backward"],
    "backward D128 causal": ["--head-dim", "128", "--backward", "--causal", "bottom-right"],
}


def emit(attnjit, flags, *options, env=None):
    """What `attnjit emit` with `options` prints of the wgmma kernel of the problem of `flags`."""
    step = "attn_bwd_dkv" if "--backward" in flags else "attn_fwd"
    command = [attnjit, "emit", "--arch", "sm_90a", "--path", "wgmma", "--step", step, "-q", *SIZES,
               *flags, *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout
