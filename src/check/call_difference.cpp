#include "check/call_difference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tensor/half.hpp"

namespace attnjit::check {
namespace {

// Of two packed tensors of the same size.
OutputDifference difference_of(const dump::Part& part, const std::vector<std::byte>& one,
                               const std::vector<std::byte>& other) {
  OutputDifference result{.name = part.name};
  const auto width = static_cast<std::size_t>(element_size(part.view.dtype));
  result.elements = static_cast<std::int64_t>(one.size() / width);
  for (std::int64_t i = 0; i < result.elements; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * width;
    if (std::memcmp(&one[at], &other[at], width) == 0) continue;
    ++result.differing;
    const double off = std::fabs(tensor::load(one.data(), part.view.dtype, i) -
                                 tensor::load(other.data(), part.view.dtype, i));
    result.largest =
        std::max(result.largest, std::isnan(off) ? std::numeric_limits<double>::infinity() : off);
  }
  return result;
}

}  // namespace

std::vector<OutputDifference> differences(const dump::HostCall& call,
                                          const dump::Results& recorded) {
  std::vector<OutputDifference> list;
  for (std::size_t i = 0; i < call.parts().size(); ++i) {
    const dump::Part& part = call.parts()[i];
    if (part.role != dump::Role::kOutput || part.view.data == nullptr) continue;
    auto difference =
        difference_of(part, dump::packed(part.view, dump::fetch_from_host), recorded[i]);
    if (difference.differing > 0) list.push_back(std::move(difference));
  }
  return list;
}

}  // namespace attnjit::check
