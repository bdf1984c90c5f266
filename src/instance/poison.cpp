#include "instance/poison.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "reference/paged.hpp"
#include "reference/score_rule.hpp"
#include "reference/sequences.hpp"
#include "tensor/half.hpp"

namespace attnjit::instance {
namespace {

constexpr double kPoison[] = {std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity()};

// Keys of a (batch, kv head) that a kernel can tell unread before it loads them. A mask with a
// query axis is not looked at: there a key counts as kept. Of selected keys all in use are read.
std::vector<bool> unread_keys(const ForwardArgs& args, const reference::ScoreRule& rule,
                              std::int64_t batch, std::int64_t head_kv) {
  if (rule.selected()) {
    std::vector<bool> unread(static_cast<std::size_t>(args.k.shape[2]), true);
    for (std::int64_t key = 0; key < rule.keys_in_use(batch); ++key) {
      unread[static_cast<std::size_t>(key)] = rule.selected()->at(batch, head_kv, key) == 0;
    }
    return unread;
  }
  reference::KeyRange seen;
  for (std::int64_t query = 0; query < args.q.shape[2]; ++query) {
    seen = reference::unite(seen, rule.band(batch, query));
  }
  std::vector<bool> unread(static_cast<std::size_t>(reference::num_keys(args)), true);
  std::fill(unread.begin() + seen.begin, unread.begin() + seen.end, false);
  const auto& mask = rule.mask();
  if (!mask || mask->strides[2] != 0) {
    return unread;
  }
  const std::int64_t group = args.q.shape[1] / args.k.shape[1];
  for (std::int64_t key = seen.begin; key < seen.end; ++key) {
    bool kept = false;
    for (std::int64_t head = head_kv * group; head < (head_kv + 1) * group; ++head) {
      const std::int64_t index = mask->row_offset(batch, head, 0) + key * mask->strides[3];
      kept |= tensor::load(mask->data, mask->dtype, index) != 0;
    }
    unread[static_cast<std::size_t>(key)] = !kept;
  }
  return unread;
}

void poison_row(const Tensor& tensor, std::int64_t batch, std::int64_t head, std::int64_t row) {
  const std::int64_t offset =
      batch * tensor.strides[0] + head * tensor.strides[1] + row * tensor.strides[2];
  for (std::int64_t d = 0; d < tensor.shape[3]; ++d) {
    tensor::store(tensor.data, tensor.dtype, offset + d * tensor.strides[3],
                  kPoison[(row + d) % 3]);
  }
}

// Notes the rows of the pool that a call of batch elements reads in a head.
void note_read_rows(const ForwardArgs& args, std::int64_t head, std::vector<bool>& read) {
  const std::int64_t page_size = args.k.shape[2];
  const reference::ScoreRule rule(args);
  for (std::int64_t batch = 0; batch < args.q.shape[0]; ++batch) {
    const std::vector<bool> unread = unread_keys(args, rule, batch, head);
    for (std::int64_t key = 0; key < rule.keys_in_use(batch); ++key) {
      if (unread[static_cast<std::size_t>(key)]) continue;
      const std::int64_t row = reference::page_of(args, batch, key) * page_size + key % page_size;
      read[static_cast<std::size_t>(row)] = true;
    }
  }
}

// The same of the rows of all pages, those among them that no entry in use names.
void poison_pages(const ForwardArgs& args) {
  const std::int64_t page_size = args.k.shape[2], rows = args.k.shape[0] * page_size;
  std::vector<ForwardArgs> calls = {args};
  if (reference::is_packed(args)) {
    calls.clear();
    for (const reference::Sequence& sequence : reference::split_sequences(args)) {
      calls.push_back(sequence.call);
    }
  }
  for (std::int64_t head = 0; head < args.k.shape[1]; ++head) {
    std::vector<bool> read(static_cast<std::size_t>(rows), false);
    for (const ForwardArgs& call : calls) note_read_rows(call, head, read);
    for (std::int64_t row = 0; row < rows; ++row) {
      if (read[static_cast<std::size_t>(row)]) continue;
      poison_row(args.k, row / page_size, head, row % page_size);
      poison_row(args.v, row / page_size, head, row % page_size);
    }
  }
}

// Overwrites the rows of a bias that belong to no row in use, or to rows that causal and window
// leave no key.
void poison_unread_bias(const ForwardArgs& args, const reference::ScoreRule& rule) {
  const auto& bias = rule.bias();
  if (!bias || bias->strides[2] == 0) return;
  std::map<std::int64_t, bool> read;  // by the row's offset
  for (std::int64_t batch = 0; batch < args.q.shape[0]; ++batch) {
    for (std::int64_t query = 0; query < args.q.shape[2]; ++query) {
      const reference::KeyRange keys = rule.band(batch, query);
      for (std::int64_t head = 0; head < args.q.shape[1]; ++head) {
        read[bias->row_offset(batch, head, query)] |= keys.begin < keys.end;
      }
    }
  }
  for (const auto& [offset, is_read] : read) {
    for (std::int64_t key = 0; key < args.bias->shape[3] && !is_read; ++key) {
      tensor::store(args.bias->data, bias->dtype, offset + key * bias->strides[3],
                    kPoison[key % 3]);
    }
  }
}

// Overwrites the keys of a call that is neither packed nor paged.
void poison_unread_keys(const ForwardArgs& args, const reference::ScoreRule& rule) {
  for (std::int64_t batch = 0; batch < args.k.shape[0]; ++batch) {
    for (std::int64_t head = 0; head < args.k.shape[1]; ++head) {
      const std::vector<bool> unread = unread_keys(args, rule, batch, head);
      for (std::int64_t key = 0; key < args.k.shape[2]; ++key) {
        if (unread[static_cast<std::size_t>(key)]) {
          poison_row(args.k, batch, head, key);
          poison_row(args.v, batch, head, key);
        }
      }
    }
  }
}

// The same in each sequence, and everywhere past the last one.
void poison_packed_keys(const ForwardArgs& args) {
  std::int64_t end = 0;
  for (const reference::Sequence& sequence : reference::split_sequences(args)) {
    poison_unread_keys(sequence.call, reference::ScoreRule(sequence.call));
    end = sequence.kv_begin + sequence.keys();
  }
  for (std::int64_t head = 0; head < args.k.shape[1]; ++head) {
    for (std::int64_t key = end; key < args.k.shape[2]; ++key) {
      poison_row(args.k, 0, head, key);
      poison_row(args.v, 0, head, key);
    }
  }
}

}  // namespace

void poison_unread_inputs(const ForwardArgs& args) {
  if (reference::is_paged(args)) {
    poison_pages(args);
  } else if (reference::is_packed(args)) {
    poison_packed_keys(args);
  } else {
    const reference::ScoreRule rule(args);
    poison_unread_bias(args, rule);
    poison_unread_keys(args, rule);
  }
}

void poison_dead_rows(const std::vector<std::uint8_t>& dead, const float* lse, const Tensor& dout,
                      float* dlse) {
  const auto& [batches, heads, seqlen_q, dim_v] = dout.shape;
  const bool shared = dout.strides[0] == 0 || dout.strides[1] == 0 || dout.strides[2] == 0;
  for (std::int64_t index = 0; index < batches * heads * seqlen_q; ++index) {
    if (!dead[static_cast<std::size_t>(index)]) {
      continue;
    }
    if (!shared) {
      const std::int64_t plane = index / seqlen_q;
      poison_row(dout, plane / heads, plane % heads, index % seqlen_q);
    }
    if (dlse != nullptr && lse[index] == -std::numeric_limits<float>::infinity()) {
      dlse[index] = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

}  // namespace attnjit::instance
