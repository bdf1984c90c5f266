#include "cache/private_group.hpp"

#include <cerrno>
#include <optional>
#include <string_view>
#include <vector>

namespace attnjit::cache {
namespace {

constexpr std::size_t kFirstBytes = 1024;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

/// A row of the user or group database, and the text that its members point to.
template <class Row>
struct Found {
  Row row;
  std::vector<char> text;
};

/// The row of `id` by `find`, getpwuid_r() or getgrgid_r().
template <class Row, class Id>
std::optional<Found<Row>> look_up(int (*find)(Id, Row*, char*, std::size_t, Row**), Id id) {
  Found<Row> found;
  for (std::size_t bytes = kFirstBytes; bytes <= kMostBytes; bytes *= 2) {
    found.text.resize(bytes);
    Row* row = nullptr;
    const int error = find(id, &found.row, found.text.data(), bytes, &row);
    if (row != nullptr) return found;
    if (error != ERANGE) break;
  }
  return std::nullopt;
}

}  // namespace

bool is_private_group(const passwd& owner, const group& group) {
  const std::string_view name = owner.pw_name;
  if (owner.pw_gid != group.gr_gid || name != group.gr_name) return false;
  for (char** member = group.gr_mem; *member != nullptr; ++member) {
    if (*member != name) return false;
  }
  return true;
}

bool is_private_group(uid_t owner, gid_t group) {
  const auto user = look_up(::getpwuid_r, owner);
  const auto members = look_up(::getgrgid_r, group);
  return user && members && is_private_group(user->row, members->row);
}

}  // namespace attnjit::cache
