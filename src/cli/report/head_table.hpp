#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "reference/accuracy.hpp"

namespace attnjit::cli {

/// A line for each head of an output that is wrong: how many of its rows are right and wrong, and
/// where the wrong ones lie in their tiles of `tile` rows, which tells a race or a tile's edge from
/// a fault of every row. The heads that are right come as one line. `rows`: those of a head that
/// were judged.
std::string head_table(const std::string& output, const reference::Report& report,
                       std::int64_t rows, int tile);

/// "0-15, 32": the numbers of `rows` modulo `tile`, each once.
std::string offsets_in_tile(const std::vector<std::int64_t>& rows, int tile);

}  // namespace attnjit::cli
