#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "attnjit/error.hpp"
#include "base/sha256.hpp"
#include "cache/entry.hpp"
#include "unit/cache_fixtures.hpp"

using namespace attnjit;
using namespace attnjit::cache;
using Bytes = std::vector<std::byte>;
using Kind = Rejection::Kind;

namespace {

constexpr std::size_t kHeaderBytes = 104;
constexpr std::size_t kChecksumOffset = 72;

const Rejection* rejection_of(const std::variant<Entry, Rejection>& result) {
  return std::get_if<Rejection>(&result);
}

/// The kind of rejection; fails the test where the bytes are accepted.
Kind reject(std::span<const std::byte> bytes) {
  const auto result = decode(bytes);
  REQUIRE(rejection_of(result));
  CHECK_FALSE(rejection_of(result)->reason.empty());
  return rejection_of(result)->kind;
}

template <typename T>
Bytes with_field(Bytes bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

/// Makes the checksum right again, so that only the check under test can refuse the bytes.
Bytes resealed(Bytes bytes) {
  base::Sha256 hash;
  hash.update(std::span(bytes).first(kChecksumOffset));
  hash.update(std::span(bytes).subspan(kHeaderBytes));
  const base::Digest digest = hash.finish();
  std::memcpy(bytes.data() + kChecksumOffset, digest.data(), digest.size());
  return bytes;
}

std::string reason_of(const Bytes& bytes) {
  const auto result = decode(bytes);
  return rejection_of(result) ? rejection_of(result)->reason : "accepted";
}

}  // namespace

TEST_CASE("decode undoes encode") {
  Entry entry = test::make_entry("a");
  for (const std::string meta : {"", "{}", "not looked at \x80\xff"}) {
    entry.meta_json = meta;
    const auto result = decode(encode(entry));
    const Entry* const back = std::get_if<Entry>(&result);
    REQUIRE(back);
    CHECK(back->key == entry.key);
    CHECK(back->arch == entry.arch);
    CHECK(back->compiler_id == entry.compiler_id);
    CHECK(back->meta_json == meta);
    CHECK(back->cubin == entry.cubin);
  }
}

TEST_CASE("an entry file is laid out as documented") {
  const Entry entry = test::make_entry("a");
  const Bytes bytes = encode(entry);
  CHECK(std::memcmp(bytes.data(),
                    "\x89"
                    "ATK\r\n\x1a\n\x01\x00\x68\x00",
                    12) == 0);
  CHECK(std::memcmp(bytes.data() + 40, entry.key.digest.data(), 32) == 0);
  CHECK((bytes.size() - entry.cubin.size()) % 64 == 0);
  CHECK(encode(entry) == bytes);
  CHECK_FALSE(rejection_of(decode(resealed(bytes))));
}

TEST_CASE("no byte of an entry can change unnoticed") {
  const Bytes bytes = encode(test::make_entry("a"));
  const std::size_t cubin = bytes.size() - test::fake_cubin().size();
  for (std::size_t i = 0; i < bytes.size(); i += i < cubin ? 1 : 97) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      CAPTURE(i);
      Bytes flipped = bytes;
      flipped[i] ^= static_cast<std::byte>(mask);
      reject(flipped);
    }
  }
}

TEST_CASE("a file of another length is damaged") {
  Bytes bytes = encode(test::make_entry("a"));
  for (std::size_t length = 0; length < bytes.size(); length += 64) {
    CAPTURE(length);
    CHECK(reject(std::span(bytes).first(length)) == Kind::kDamaged);
  }
  CHECK(reject(std::span(bytes).first(bytes.size() - 1)) == Kind::kDamaged);
  bytes.push_back(std::byte{0});
  CHECK(reject(bytes) == Kind::kDamaged);
  CHECK(reject(resealed(bytes)) == Kind::kDamaged);
}

TEST_CASE("absurd lengths are refused before anything is allocated") {
  const Bytes bytes = encode(test::make_entry("a"));
  constexpr auto kHuge = std::numeric_limits<std::uint64_t>::max();
  for (const std::size_t offset : {24, 32}) {  // meta, cubin
    for (const std::uint64_t value :
         {kHuge, kHuge - 63, kHuge / 2 + 1, std::uint64_t{1} << 32, kMaxCubinBytes + 1}) {
      CAPTURE(value);
      CHECK(reason_of(resealed(with_field(bytes, offset, value))).find("larger than allowed") !=
            std::string::npos);
    }
    for (const std::uint64_t value : {std::uint64_t{4096}, kMaxMetaBytes}) {
      CAPTURE(value);
      CHECK(reject(resealed(with_field(bytes, offset, value))) == Kind::kDamaged);
    }
  }
  for (const std::size_t offset : {16, 20}) {  // arch, compiler
    CHECK(reason_of(resealed(with_field(bytes, offset, 0xffffffffU))).find("larger than allowed") !=
          std::string::npos);
  }
}

TEST_CASE("a header of another format is damage, an older or a newer one") {
  const Bytes bytes = encode(test::make_entry("a"));
  CHECK(reject(with_field(bytes, 8, std::uint16_t{2})) == Kind::kDamaged);
  CHECK(reject(resealed(with_field(bytes, 8, std::uint16_t{2}))) == Kind::kDamaged);
  CHECK(reject(resealed(with_field(bytes, 8, std::uint16_t{0}))) == Kind::kDamaged);
  CHECK(reject(resealed(with_field(bytes, 10, std::uint16_t{96}))) == Kind::kDamaged);
  CHECK(reject(resealed(with_field(bytes, 12, 1U))) == Kind::kDamaged);
}

TEST_CASE("a file that went through a text-mode transfer is damaged") {
  const Bytes bytes = encode(test::make_entry("a"));
  Bytes mangled;
  for (const std::byte byte : bytes) {
    if (byte == std::byte{'\n'}) mangled.push_back(std::byte{'\r'});
    mangled.push_back(byte);
  }
  CHECK(reject(mangled) == Kind::kDamaged);
}

TEST_CASE("a payload that is no ELF file is damaged even under a right checksum") {
  Entry entry = test::make_entry("a");
  entry.cubin[0] = std::byte{0x7e};
  CHECK(reason_of(encode(entry)).find("ELF") != std::string::npos);
  entry.cubin.clear();
  CHECK(reason_of(encode(entry)).find("ELF") != std::string::npos);
}

TEST_CASE("encode refuses what decode would not take") {
  Entry entry = test::make_entry("a");
  entry.meta_json.assign(kMaxMetaBytes + 1, ' ');
  CHECK_THROWS_AS(encode(entry), Error);
  entry.meta_json.pop_back();
  CHECK_FALSE(rejection_of(decode(encode(entry))));
}
