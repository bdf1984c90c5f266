#include "dump/pages.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

namespace attnjit::dump {
namespace {

// The ints of the part called `name`.
std::vector<std::int32_t> ints_of(const ForwardArgs& args, std::string_view name,
                                  const Fetch& fetch) {
  std::vector<std::int32_t> values;
  for (const Part& part : Call(args).parts()) {
    if (part.name != name) continue;
    const std::vector<std::byte> bytes = packed(part.view, fetch);
    values.resize(bytes.size() / sizeof(std::int32_t));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(std::int32_t));
  }
  return values;
}

// Calls visit(entry) for each entry of `table` that the call reads.
template <class Visit>
void for_each_read(const ForwardArgs& args, std::span<const std::int32_t> lengths,
                   std::vector<std::int32_t>& table, const Visit& visit) {
  const std::int64_t page_size = args.k.shape[2];
  const auto pages = static_cast<std::size_t>(args.max_pages);
  for (std::size_t element = 0; element < lengths.size(); ++element) {
    for (std::size_t page = 0; page < pages; ++page) {
      if (static_cast<std::int64_t>(page) * page_size >= lengths[element]) break;
      visit(table[element * pages + page]);
    }
  }
}

}  // namespace

Pages used_pages(const ForwardArgs& args, const Fetch& fetch) {
  Pages pages;
  pages.of = args.k.shape[0];
  pages.table = ints_of(args, "block_table", fetch);
  const std::vector<std::int32_t> lengths = ints_of(args, "seqlens_kv", fetch);
  const auto is_page = [&](std::int32_t entry) { return entry >= 0 && entry < pages.of; };
  std::set<std::int32_t> used;
  for_each_read(args, lengths, pages.table, [&](std::int32_t& entry) {
    if (is_page(entry)) used.insert(entry);
  });
  if (used.empty() && pages.of > 0) used.insert(0);
  pages.kept.assign(used.begin(), used.end());
  for_each_read(args, lengths, pages.table, [&](std::int32_t& entry) {
    if (!is_page(entry)) return;
    entry =
        static_cast<std::int32_t>(std::ranges::lower_bound(pages.kept, entry) - pages.kept.begin());
  });
  return pages;
}

bool is_pool(const ForwardArgs& args, std::string_view name) {
  return args.block_table != nullptr && (name == "k" || name == "v");
}

Tensor page_of(Tensor pool, std::int64_t number) {
  pool.data =
      static_cast<std::byte*>(pool.data) + number * pool.strides[0] * element_size(pool.dtype);
  pool.shape[0] = 1;
  return pool;
}

}  // namespace attnjit::dump
