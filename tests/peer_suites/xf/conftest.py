"""Which of the tests run, and why others do not."""

import os

import attnjit_operators
import pytest
import suite

if os.environ.get("SUITE_ON_CPU"):
    import cpu_kernels

    cpu_library = cpu_kernels.install()
attnjit_operators.install()

SAMPLE = {"test_forward": 430, "test_backward": 370, "test_logsumexp": 100, "test_paged_attention": 60}
# Tests of what attnjit does not support, or that want a refusal of what it supports.
REASONS = {
    "test_f16_biasf32": "wants a refusal of fp32 biases, which attnjit takes",
    "test_f32_biasf16": "fp32: no kernels",
    "test_flash_gqa_wrong_strides": "wants refusals of strides that attnjit takes",
    "test_dispatch_decoding_bmhk": "xformers' own dispatch",
    "test_dispatch_decoding_bmghk": "xformers' own dispatch",
    "test_triton_splitk_rowwise_fp8": "fp8 keys: no door",
    "test_fp8_attention": "fp8: no door",
    "test_fav3_kvsplit_attn": "an operator of FlashAttention-3",
    "test_dropout_ck": "ROCm",
    "test_dropout_backward_ck": "ROCm",
    "test_ck_splitk_decoder": "ROCm",
    "test_paged_attention_ck": "ROCm",
}
# One id of each is enough to see the reason; these are many.
ONCE = {*REASONS, "test_paged_attention_flash3"}
MASKS_ALONE = ("test_attn_bias_", "test_window_size_materialize", "test_local_attn_bias")
RUN_KERNELS = ("test_attn_bias_padded", "test_attn_bias_blockdiag_doc")


def parameters(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


def case(item):
    values = parameters(item)
    return values.get("opFW_device_dtype_biasT_B_Mq_Mkv_H_K_Kv") or values.get(
        "opBW_device_dtype_biasT_B_Mq_Mkv_H_K_Kv"
    )


def family(item):
    """The kernels that a test needs, roughly."""
    if case(item):
        _, _, dtype, bias, *_, k, kv = case(item)
        return f"{'BW' if 'backward' in item.name else 'FW'} {dtype} {bias} {k} {kv}"
    return item.originalname


def is_candidate(item):
    name, values = item.originalname, parameters(item)
    if name.startswith(MASKS_ALONE) and name not in RUN_KERNELS:
        return False  # xformers' masks without a call
    if values.get("num_quant_groups") or values.get("dequant"):
        return False  # quantised keys: no door
    if name not in ("test_forward", "test_backward", "test_logsumexp"):
        return True
    _, _, _, bias, _, q_len, kv_len, _, k, kv = case(item)
    from xformers.ops.fmha.common import _is_bias_type_supported_in_BMK

    if max(k, kv) > 64 and max(k, kv) != 128 or min(k, kv) < 32 or (k != kv and suite.order(item) % 4):
        return False  # few families of kernels
    paged = "Paged" in bias.__name__
    if values.get("packed") and (paged or k != kv or q_len != kv_len):
        return False  # the test skips these
    return values.get("fmt") != "BMK" or _is_bias_type_supported_in_BMK(bias)


def pytest_collection_modifyitems(config, items):
    by_name = {}
    for item in sorted(filter(is_candidate, items), key=suite.order):
        by_name.setdefault(item.originalname, []).append(item)
    wanted = []
    for name, found in by_name.items():
        if name in REASONS:
            for item in found:
                item.add_marker(pytest.mark.skip(reason=REASONS[name]))
        wanted += found[: 1 if name in ONCE else SAMPLE.get(name, len(found))]
    suite.keep(config, items, suite.mine(wanted, family))
