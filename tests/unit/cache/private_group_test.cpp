#include <doctest/doctest.h>

#include <array>
#include <string>

#include "cache/private_group.hpp"

namespace {

/// Whether a group of `name` and `id` is private to ann, whose primary group is 1001. `member`: the
/// one that it has beside its owner; may be null.
bool is_anns(std::string name, gid_t id, const char* member) {
  std::string ann = "ann", other = member == nullptr ? "" : member;
  std::array<char*, 2> members = {member == nullptr ? nullptr : other.data(), nullptr};
  passwd owner{};
  owner.pw_name = ann.data();
  owner.pw_gid = 1001;
  group group{};
  group.gr_name = name.data();
  group.gr_gid = id;
  group.gr_mem = members.data();
  return attnjit::cache::is_private_group(owner, group);
}

}  // namespace

TEST_CASE("a private group has its owner's name and no other member") {
  CHECK(is_anns("ann", 1001, nullptr));
  CHECK(is_anns("ann", 1001, "ann"));
  CHECK_FALSE(is_anns("ann", 1001, "bob"));
  CHECK_FALSE(is_anns("users", 1001, nullptr));
  CHECK_FALSE(is_anns("ann", 100, nullptr));
}

TEST_CASE("a group that the system does not know is nobody's own") {
  CHECK_FALSE(attnjit::cache::is_private_group(0, 54321));
  CHECK_FALSE(attnjit::cache::is_private_group(54321, 54321));
}
