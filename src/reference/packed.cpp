#include "reference/packed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/plane_order.hpp"
#include "reference/sequences.hpp"
#include "reference/unpacked.hpp"
#include "tensor/half.hpp"

namespace attnjit::reference {
namespace {

constexpr double kNotComputed = std::numeric_limits<double>::quiet_NaN();

std::size_t index(std::int64_t number) { return static_cast<std::size_t>(number); }

// Copies `heads` blocks of `from`, one after another, to where `pitch` apart they begin in `to`.
template <class T>
void scatter(const std::vector<T>& from, std::int64_t heads, std::vector<T>& to, std::int64_t first,
             std::int64_t pitch) {
  const std::int64_t size = heads == 0 ? 0 : static_cast<std::int64_t>(from.size()) / heads;
  for (std::int64_t head = 0; head < heads; ++head) {
    std::copy_n(from.begin() + head * size, size, to.begin() + head * pitch + first);
  }
}

// The selected rows of a sequence, and the position of the first among all that are selected.
struct OwnRows {
  Rows rows;
  std::int64_t first;
};
OwnRows own_rows(const Rows& rows, const Sequence& sequence) {
  const std::int64_t begin = sequence.q_begin, end = begin + sequence.rows();
  if (rows.all) return {rows, begin};
  const auto first = std::lower_bound(rows.list.begin(), rows.list.end(), begin);
  const auto last = std::lower_bound(first, rows.list.end(), end);
  std::vector<std::int64_t> own(first, last);
  for (std::int64_t& row : own) row -= begin;
  return {Rows::only(std::move(own)), first - rows.list.begin()};
}

// Zeros for a tensor in the planes selected, NaN in others. `heads_per_plane`: of it, to a kv head.
Gradient zeros(const Tensor& tensor, const Planes& planes, std::int64_t heads_per_plane) {
  Gradient gradient;
  for (std::int64_t head = 0; head < tensor.shape[1]; ++head) {
    const double value = planes.holds({0, head / heads_per_plane}) ? 0 : kNotComputed;
    gradient.values.insert(gradient.values.end(), index(tensor.shape[2] * tensor.shape[3]), value);
    gradient.terms.insert(gradient.terms.end(), index(tensor.shape[2]), value);
  }
  return gradient;
}

// Writes a sequence's gradient to its rows of `to`, from row `begin` of each head on.
void scatter(const Gradient& from, const Tensor& tensor, std::int64_t begin, Gradient& to) {
  const std::int64_t heads = tensor.shape[1], rows = tensor.shape[2], columns = tensor.shape[3];
  scatter(from.values, heads, to.values, begin * columns, rows * columns);
  scatter(from.terms, heads, to.terms, begin, rows);
  if (!from.sizes.empty()) scatter(from.sizes, heads, to.sizes, begin * columns, rows * columns);
}

// A dbias of a sequence alone, in fp32: its rows and keys where dbias keeps them. One key more
// than the only one keeps a dbias over keys apart from one that sums over them.
Tensor own_dbias(const Tensor& dbias, const Sequence& sequence) {
  const std::int64_t rows = dbias.shape[2] == 1 ? 1 : sequence.rows();
  const std::int64_t keys = dbias.shape[3] == 1 ? 1 : std::max<std::int64_t>(sequence.keys(), 2);
  return Tensor::contiguous(nullptr, DType::kFloat32, {1, dbias.shape[1], rows, keys});
}

// Adds a sequence's dbias to the plane that it shares. `to.terms` holds squares meanwhile.
void add_dbias(const Gradient& from, const Tensor& own, const BackwardArgs& args,
               const Sequence& sequence, Gradient& to) {
  const auto& [planes, heads, rows, keys] = args.dbias->shape;
  const bool packed = packs_keys(*args.forward.bias, args.forward) && keys > 1;
  const PlaneIndex plane_of(planes, args.forward.bias_order, args.forward.num_sequences);
  const std::int64_t plane = plane_of(sequence.index);
  const std::int64_t first_key = packed ? sequence.kv_begin : 0;
  const std::int64_t own_keys = keys == 1 ? 1 : std::min(sequence.keys(), keys - first_key);
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t row = 0; row < std::min(rows, own.shape[2]); ++row) {
      const std::int64_t source = head * own.shape[2] + row;
      const std::int64_t target = (plane * heads + head) * rows + row;
      for (std::int64_t key = 0; key < own_keys; ++key) {
        to.values[index(target * keys + first_key + key)] +=
            from.values[index(source * own.shape[3] + key)];
      }
      to.terms[index(target)] += from.terms[index(source)] * from.terms[index(source)];
    }
  }
}

// Adds a sequence's gradient to that of all. `to.terms` holds squares meanwhile.
void add_sums(const Gradient& from, Gradient& to) {
  for (std::size_t n = 0; n < from.values.size(); ++n) to.values[n] += from.values[n];
  for (std::size_t row = 0; row < from.terms.size(); ++row) {
    to.terms[row] += from.terms[row] * from.terms[row];
  }
}

Gradient empty_sums(const std::optional<Tensor>& tensor) {
  if (!tensor) return {};
  const std::int64_t rows = tensor->shape[0] * tensor->shape[1] * tensor->shape[2];
  return {std::vector(index(rows * tensor->shape[3]), 0.0), std::vector(index(rows), 0.0), {}};
}

void finish_sums(Gradient& sums) {
  for (double& terms : sums.terms) terms = std::sqrt(terms);
}

// dlse of a sequence, [Hq, rows].
std::vector<float> own_dlse(const BackwardArgs& args, const Sequence& sequence) {
  const std::int64_t rows = args.forward.q.shape[2];
  std::vector<float> own;
  for (std::int64_t head = 0; head < args.forward.q.shape[1]; ++head) {
    const float* first = args.dlse + head * rows + sequence.q_begin;
    own.insert(own.end(), first, first + sequence.rows());
  }
  return own;
}

}  // namespace

ForwardResult forward_packed(const ForwardArgs& args, Arithmetic arithmetic, const Rows& rows,
                             unsigned jobs, const Planes& planes) {
  const std::int64_t heads = args.q.shape[1], count = rows.count(args.q.shape[2]);
  const std::int64_t dim_v = args.v.shape[3], group = heads / args.k.shape[1];
  ForwardResult result;
  for (std::int64_t head = 0; head < heads; ++head) {
    const bool computed = planes.holds({0, head / group});
    const double lse = computed ? -std::numeric_limits<double>::infinity() : kNotComputed;
    result.out.insert(result.out.end(), index(count * dim_v), computed ? 0 : kNotComputed);
    result.lse.insert(result.lse.end(), index(count), lse);
    result.row_max.insert(result.row_max.end(), index(count), lse);
    result.score_errors.insert(result.score_errors.end(), index(count), 0);
    result.dead.insert(result.dead.end(), index(count), computed ? 1 : 0);
  }
  for (const Sequence& sequence : split_sequences(args)) {
    const OwnRows own = own_rows(rows, sequence);
    const ForwardResult part =
        forward_unpacked(sequence.call, arithmetic, own.rows, jobs, planes, sequence.index);
    scatter(part.out, heads, result.out, own.first * dim_v, count * dim_v);
    scatter(part.lse, heads, result.lse, own.first, count);
    scatter(part.row_max, heads, result.row_max, own.first, count);
    scatter(part.score_errors, heads, result.score_errors, own.first, count);
    scatter(part.dead, heads, result.dead, own.first, count);
  }
  return result;
}

BackwardResult backward_packed(const BackwardArgs& args, Arithmetic arithmetic,
                               const Planes& planes, unsigned jobs) {
  const std::int64_t group = args.forward.q.shape[1] / args.forward.k.shape[1];
  BackwardResult result{zeros(args.dq, planes, group), zeros(args.dk, planes, 1),
                        zeros(args.dv, planes, 1),     empty_sums(args.dbias),
                        empty_sums(args.dsink),        {}};
  for (const Tensor& tensor : args.operand_gradients) {
    result.operands.push_back(
        empty_sums(tensor.data == nullptr ? std::nullopt : std::optional(tensor)));
  }
  if (arithmetic == Arithmetic::kExact) result.dv.sizes = result.dv.values;
  for (const Sequence& sequence : split_sequences(args.forward)) {
    BackwardArgs call = args;
    call.forward = sequence.call;
    call.dout = rows_of(args.dout, sequence.q_begin, sequence.rows());
    call.dq = rows_of(args.dq, sequence.q_begin, sequence.rows());
    call.dk = rows_of(args.dk, sequence.kv_begin, sequence.keys());
    call.dv = rows_of(args.dv, sequence.kv_begin, sequence.keys());
    if (args.dbias) call.dbias = own_dbias(*args.dbias, sequence);
    const std::vector<float> dlse =
        args.dlse == nullptr ? std::vector<float>() : own_dlse(args, sequence);
    if (args.dlse != nullptr) call.dlse = dlse.data();
    const BackwardResult part = backward_unpacked(call, arithmetic, planes, jobs, sequence.index);
    scatter(part.dq, args.dq, sequence.q_begin, result.dq);
    scatter(part.dk, args.dk, sequence.kv_begin, result.dk);
    scatter(part.dv, args.dv, sequence.kv_begin, result.dv);
    if (args.dbias) add_dbias(part.dbias, *call.dbias, args, sequence, result.dbias);
    if (args.dsink) add_sums(part.dsink, result.dsink);
    for (std::size_t n = 0; n < part.operands.size(); ++n) {
      add_sums(part.operands[n], result.operands[n]);
    }
  }
  for (Gradient& sums : result.operands) finish_sums(sums);
  finish_sums(result.dbias);
  finish_sums(result.dsink);
  if (args.dbias && arithmetic == Arithmetic::kRounded) {
    for (double& value : result.dbias.values) value = tensor::round_to(args.dbias->dtype, value);
  }
  return result;
}

}  // namespace attnjit::reference
