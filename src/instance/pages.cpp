#include "instance/pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "attnjit/error.hpp"
#include "base/printable.hpp"
#include "tensor/random.hpp"

namespace attnjit::instance {
namespace {

// All pages of the pool in a random order.
std::vector<std::int32_t> shuffled_pages(const ProblemSpec& spec) {
  constexpr std::uint64_t kOfPages = 202;
  const tensor::Random random = tensor::Random(spec.seed).stream(kOfPages);
  std::vector<std::int32_t> pages(static_cast<std::size_t>(spec.num_pages()));
  std::iota(pages.begin(), pages.end(), 0);
  for (std::size_t i = pages.size(); i > 1; --i) {
    std::swap(pages[i - 1],
              pages[static_cast<std::size_t>(random.below(i, static_cast<std::int64_t>(i)))]);
  }
  return pages;
}

[[noreturn]] void refuse_pages(const std::string& message) {
  throw Error(ErrorKind::kInvalidProblem, message);
}

}  // namespace

void check_pages(const ProblemSpec& spec) {
  if (spec.page_size < 0 || spec.shared_pages < 0) {
    refuse_pages(fmt::format("page_size, shared_pages: {} and {}; expected 0 or more",
                             spec.page_size, spec.shared_pages));
  }
  if (spec.shared_pages > spec.max_pages()) {
    refuse_pages(fmt::format("shared_pages: {}; expected at most the {} pages of a batch element",
                             spec.shared_pages, spec.max_pages()));
  }
  if (spec.paged() && spec.seqlen_kv % spec.page_size != 0) {
    refuse_pages(fmt::format("seqlen_kv: {}; expected a multiple of page_size = {}", spec.seqlen_kv,
                             spec.page_size));
  }
  if (!spec.tail_mask.empty() && spec.tail_mask != "b" && spec.tail_mask != "1") {
    refuse_pages(
        fmt::format("tail_mask: pattern '{}'; expected b or 1", base::excerpt(spec.tail_mask)));
  }
  if ((spec.paged() || !spec.tail_mask.empty()) && spec.backward) {
    refuse_pages("page_size, tail_mask: a backward takes neither; leave them out");
  }
  if (spec.packed && !spec.tail_mask.empty()) {
    refuse_pages("tail_mask: packed sequences take none; leave it out, or give q a batch axis");
  }
  if (spec.paged() && !spec.cu_seqlens_kv.empty()) {
    refuse_pages(
        "cu_seqlens_kv: set together with page_size; expected none, since pages have lengths only");
  }
}

std::vector<std::int32_t> page_numbers(const ProblemSpec& spec,
                                       std::span<const std::int32_t> lengths) {
  const std::vector<std::int32_t> pool = shuffled_pages(spec);
  const std::int32_t no_pages[] = {-1, std::numeric_limits<std::int32_t>::max(),
                                   static_cast<std::int32_t>(spec.num_pages()),
                                   std::numeric_limits<std::int32_t>::min()};
  std::vector<std::int32_t> table;
  for (std::int64_t batch = 0; batch < spec.batch; ++batch) {
    const std::int64_t length =
        std::clamp<std::int64_t>(lengths[static_cast<std::size_t>(batch)], 0, spec.seqlen_kv);
    for (std::int64_t page = 0; page < spec.max_pages(); ++page) {
      const std::int64_t own = page < spec.shared_pages ? page : batch * spec.max_pages() + page;
      table.push_back(page * spec.page_size < length ? pool[static_cast<std::size_t>(own)]
                                                     : no_pages[page % 4]);
    }
  }
  return table;
}

}  // namespace attnjit::instance
