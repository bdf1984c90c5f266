#include <doctest/doctest.h>

#include <string>

#include "base/sha256.hpp"

using namespace attnjit::base;

TEST_CASE("SHA-256 gives the published digests") {
  const auto of = [](const std::string& text) { return hex(sha256(text)); };
  CHECK(of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(
      of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
         "lmnopqrsmnopqrstnopqrstu") ==
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(of(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on how the bytes arrive, around every padding length") {
  for (std::size_t length = 0; length < 200; ++length) {
    const std::string text(length, 'x');
    Sha256 piecewise;
    for (const char c : text) piecewise.update(std::string_view(&c, 1));
    CHECK(piecewise.finish() == sha256(text));
    CHECK(sha256(text) != sha256(text + "x"));
  }
  // 55, 56 and 64 bytes: the length just fits, does not fit, and starts a block of its own.
  CHECK(hex(sha256(std::string(55, 'a'))) ==
        "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(hex(sha256(std::string(56, 'a'))) ==
        "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  CHECK(hex(sha256(std::string(64, 'a'))) ==
        "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST_CASE("a tagged hash tells apart fields that read the same when joined") {
  const auto one = [](std::string_view name, auto value) {
    return TaggedHash().field(name, value).digest();
  };
  CHECK(one("ab", "c") == one("ab", "c"));
  CHECK(one("ab", "c") != one("a", "bc"));
  CHECK(one("a", "1") != one("a", std::int64_t{1}));
  CHECK(one("a", "") != TaggedHash().digest());
  CHECK(one("a", "x1:ay") != TaggedHash().field("a", "x").field("a", "y").digest());
  CHECK(TaggedHash().field("a", "1").field("b", "2").digest() !=
        TaggedHash().field("b", "2").field("a", "1").digest());
}
