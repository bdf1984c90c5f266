#include "cli/input/problem_options.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <type_traits>

#include "cli/input/words.hpp"

namespace attnjit::cli {
namespace {

template <class T>
struct NumberOf {
  using Type = T;
};
template <class T>
struct NumberOf<std::optional<T>> : NumberOf<T> {};
template <class T>
struct NumberOf<std::vector<T>> : NumberOf<T> {};

// Refuses what is no number of type T: CLI11 cuts off what does not fit.
template <class T>
CLI::Validator number() {
  const auto check = [](const std::string& text) -> std::string {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc{} && rest == end) return {};
    const std::string shown = base::excerpt(text);
    if constexpr (!std::is_integral_v<T>) return fmt::format("'{}'; expected a number", shown);
    return fmt::format("'{}'; expected a whole number from {} to {}", shown,
                       std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max());
  };
  return {check, ""};
}

// Adds a flag of the problem; values of numbers are checked.
template <class Value>
CLI::Option* add_value(CLI::App& verb, const char* name, Value& value, const char* help) {
  CLI::Option* const option = verb.add_option(name, value, help)->group("Problem");
  using Number = typename NumberOf<Value>::Type;
  if constexpr (std::is_arithmetic_v<Number>) option->check(number<Number>());
  return option;
}

void add_sizes(CLI::App& verb, ProblemFlags& flags) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return add_value(verb, name, value, help);
  };
  add("--dtype", flags.dtype, "bf16 (default) or fp16");
  add("--batch", flags.batch, "Default 1");
  add("--heads-q", flags.heads_q, "Query heads, default 8");
  add("--heads-kv", flags.heads_kv, "Key/value heads, a divisor of --heads-q; default --heads-q");
  add("--seqlen-q", flags.seqlen_q, "Query rows, default 1024");
  add("--seqlen-kv", flags.seqlen_kv, "Keys, default --seqlen-q");
  add("--head-dim", flags.head_dim, "1 to 256, default 128");
  add("--head-dim-v", flags.head_dim_v, "Width of v and out, default --head-dim");
  for (const problem::Scalar& scalar : problem::kScalars) {
    verb.add_option_function<float>(
            "--" + with_dashes(scalar.name),
            [&flags, name = scalar.name](float value) { flags.scalars[name] = value; }, scalar.help)
        ->check(number<float>())
        ->group("Problem");
  }
  add("--layout", flags.layout, "Memory order of q, k, v and out: bhsd (default) or bshd");
  add("--seed", flags.seed, "Of the random inputs, default 1");
  verb.add_flag("--packed", flags.packed,
                "--batch sequences of random lengths, one after another in --seqlen-q rows, and "
                "in --seqlen-kv unless there are pages")
      ->group("Problem");
  add("--cu-seqlens-q", flags.cu_seqlens_q, "Where packed sequences begin, and their end: 0,5,70")
      ->delimiter(',');
  add("--cu-seqlens-kv", flags.cu_seqlens_kv, "The same for keys, default --cu-seqlens-q")
      ->delimiter(',');
  add("--page-size", flags.page_size,
      "Keys of a page, where k and v are pools of pages; --seqlen-kv keys of a batch element or "
      "packed sequence");
  add("--shared-pages", flags.shared_pages, "First pages that all batch elements have in common");
  verb.add_flag("--seqlens", flags.seqlens, "Random lengths per batch element, of q and of kv")
      ->group("Problem");
}

void add_features(CLI::App& verb, ProblemFlags& flags) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return add_value(verb, name, value, help);
  };
  add("--causal", flags.causal,
      "Keys up to the diagonal only; the value says where it starts: bottom-right or top-left")
      ->expected(0, 1);
  add("--window", flags.window, "L,R: keys before and after the diagonal; -1 = open");
  add("--diagonal", flags.diagonal, "bottom-right or top-left, for --causal, --window and --alibi");
  add("--diagonal-offset", flags.diagonal_offset, "Keys by which that diagonal lies further right");
  add("--row-offset", flags.row_offset,
      "Added to i of --score and --keep: the rows are a part of longer sequences, from this one "
      "on");
  add("--key-offset", flags.key_offset, "The same of keys, added to j");
  add("--alibi", flags.alibi,
      "Slopes of ALiBi: h, one per query head, or bh, one per batch element and query head");
  add("--mask", flags.mask,
      "Boolean mask over (batch, head, query, key): b11k, 1hqk, bgqk, shqk/2, p1qk/64x1, ...");
  add("--mask-kind", flags.mask_kind,
      "random (default), suffix, scattered, blocks, dead-rows, dead-head, dead-batch, all-true, "
      "all-false, top-bias, band");
  add("--mask-density", flags.mask_density, "Share of elements kept, default 0.7");
  verb.add_flag("--prepared-mask", flags.prepared_mask,
                "The mask is prepared before the call, as Context::prepare_mask() does")
      ->group("Problem");
  add("--bias", flags.bias, "Additive bias, with a pattern like --mask");
  add("--bias-dtype", flags.bias_dtype, "bf16, fp16 or fp32; default --dtype");
  add("--bias-kind", flags.bias_kind,
      "normal (default), minus-infinity, lowest, huge-logit, very-negative, graded");
}

void add_tail_mask(CLI::App& verb, ProblemFlags& flags) {
  verb.add_option("--tail-mask", flags.tail_mask,
                  "A random mask over the last keys in use, of as many columns as queries: b, one "
                  "per batch element, or 1, one for all")
      ->group("Problem");
}

void add_expressions(CLI::App& verb, ProblemFlags& flags) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return add_value(verb, name, value, help);
  };
  add("--score", flags.score,
      "What takes the place of the scaled score s: 's + rel[h, j - i + 64]'");
  add("--keep", flags.keep, "Whether a row keeps a key: 'j <= i + off || j < prefix[b]'");
  add("--operand", flags.operands,
      "NAME=DTYPE[:AXES[:FILL]], read by --score or --keep: axes are b, h, g, q, k or sizes, a "
      "fill "
      "is normal, below, sorted or count; rel=fp32:h,129 or doc=int32:b,k:sorted/16; repeat it")
      ->expected(1)
      ->take_all();
  add("--blocks", flags.blocks,
      "Lists of the blocks of keys that each block of rows reads: random:SHARE[+SHARE of full "
      "blocks]/ROWS[xKEYS][/AXES], where axes are b or 1 and h, g or 1; random:0.2/64, "
      "random:0.2+0.1/64x128/bg");
  add("--key-indices", flags.key_indices,
      "The keys that all rows of a kv head may see, others are not read: "
      "topk:NUMBER[/AXES[/DTYPE]], "
      "where axes are b or 1 and g or 1, and the dtype int32 or int64; topk:2048, "
      "topk:2048/1g/int64");
}

void add_sinks(CLI::App& verb, ProblemFlags& flags) {
  verb.add_flag("--sink", flags.sink, "A score per query head that has no key")->group("Problem");
  verb.add_option("--sink-dtype", flags.sink_dtype, "bf16, fp16 or fp32; default --dtype")
      ->group("Problem");
  verb.add_flag("--dsink", flags.dsink, "With the gradient of the sinks")->group("Problem");
}

void add_maxima(CLI::App& verb, ProblemFlags& flags) {
  const auto add = [&](const char* name, bool& value, const char* help) {
    verb.add_flag(name, value, help)->group("Problem");
  };
  add("--row-max", flags.row_max, "With the largest score of each row");
  add("--max-logits", flags.max_logits, "With the largest score of each query head");
}

void add_gradients(CLI::App& verb, ProblemFlags& flags) {
  const auto add = [&](const char* name, bool& value, const char* help) {
    verb.add_flag(name, value, help)->group("Problem");
  };
  add("--backward", flags.backward, "The gradients of the problem instead of its output");
  add("--dbias", flags.dbias, "With that of the bias, over the axes that the bias has");
  add("--dlse", flags.dlse, "With a gradient by lse among the inputs");
  add("--deterministic", flags.deterministic, "The same bits on every run");
  verb.add_option("--grad", flags.grad,
                  "With that of an operand of the score, by its name; repeat it")
      ->group("Problem")
      ->expected(1)
      ->take_all();
  verb.add_option("--dbias-dtype", flags.dbias_dtype, "--bias-dtype (default) or fp32")
      ->group("Problem");
}

}  // namespace

void add_problem_flags(CLI::App& verb, ProblemFlags& flags) {
  add_sizes(verb, flags);
  add_features(verb, flags);
  add_tail_mask(verb, flags);
  add_expressions(verb, flags);
  add_sinks(verb, flags);
  add_maxima(verb, flags);
  add_gradients(verb, flags);
}

}  // namespace attnjit::cli
