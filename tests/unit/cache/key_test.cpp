#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "cache/key.hpp"

using attnjit::cache::KernelKey;
using attnjit::cache::make_key;

using Options = std::vector<std::string>;

TEST_CASE("a key depends on source, entry, architecture with suffix, and each option") {
  const Options options = {"-std=c++20", "--no-cache"};
  const std::set<KernelKey> keys = {
      make_key("source", "entry", "sm_90a", options),
      make_key("source ", "entry", "sm_90a", options),
      make_key("source", "entry2", "sm_90a", options),
      make_key("source", "entry", "sm_90", options),
      make_key("source", "entry", "sm_90a", Options{"-std=c++20"}),
      make_key("source", "entry", "sm_90a", Options{"-std=c++20", "--no-cache", "--no-cache"}),
      make_key("source", "entry", "sm_90a", Options{"-std=c++20--no-cache"}),
      make_key("sourceentry", "", "sm_90a", options),
  };
  CHECK(keys.size() == 8);
}

TEST_CASE("a key does not depend on the order of options") {
  CHECK(make_key("s", "e", "sm_80", Options{"-a", "-b"}) ==
        make_key("s", "e", "sm_80", Options{"-b", "-a"}));
}

TEST_CASE("a key is stable: this value is the name of files on people's disks") {
  const std::string text = make_key("source", "entry", "sm_90a", Options{"-std=c++20"}).text();
  CHECK(text == "9e2c4b962b3f3d991177139f8b9833ce453232f8634ec6e1dd67be0d7187a256");
}
