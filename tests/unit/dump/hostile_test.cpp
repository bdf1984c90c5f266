// Files that are no dumps of calls, or no longer.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "attnjit/error.hpp"
#include "base/json.hpp"
#include "unit/cache_fixtures.hpp"
#include "unit/dump_fixtures.hpp"
#include "unit/temp_directory.hpp"

using namespace attnjit;
namespace fs = std::filesystem;

namespace {

const instance::ProblemSpec kSpec = {.heads_q = 2, .seqlen_q = 3, .seqlen_kv = 5, .head_dim = 16};

// A dump of a small call in a folder of its own.
struct Dumped {
  test::TempDirectory folder;
  fs::path call = test::write_dump(folder.path(), test::call_of(instance::HostProblem(kSpec, 1)));
  fs::path results = folder / "000001.test.results";
};

// The message that refuses the call of `dumped`, or its results; empty if both are read.
std::string refusal(const Dumped& dumped) {
  try {
    const dump::CallFile file = dump::CallFile::open(dumped.call);
    file.load(test::kDumpMemory);
    file.load_results();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalidEnvironment);
    return error.what();
  }
  return "";
}

bool names(const std::string& message, const fs::path& file, const std::string& why) {
  return message.starts_with(file.string()) && message.find(why) != message.npos;
}

// The file with another head, whose checksum is right.
void set_head(const fs::path& path, const std::function<void(base::Json&)>& change) {
  const std::string text = test::slurp(path);
  dump::Header header;
  std::memcpy(&header, text.data(), sizeof header);
  base::Json head = base::parse_json(text.substr(sizeof header, header.head_bytes));
  change(head);
  const std::string changed = base::dump_json(head);
  const std::string tensors = text.substr(sizeof header + header.head_bytes);
  header.head_bytes = changed.size();
  header.digest = dump::digest_of(header, changed);
  std::string whole(reinterpret_cast<const char*>(&header), sizeof header);
  test::spill(path, whole + changed + tensors);
}

}  // namespace

TEST_CASE("a dump that was cut off or changed anywhere is refused by its name") {
  const Dumped dumped;
  REQUIRE(refusal(dumped).empty());
  for (const fs::path& file : {dumped.call, dumped.results}) {
    const std::string whole = test::slurp(file);
    const std::size_t step = whole.size() / 60 + 1;
    for (std::size_t at = 0; at < whole.size(); at += step) {
      CAPTURE(at);
      test::spill(file, whole.substr(0, at));
      CHECK(names(refusal(dumped), file, ""));
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
      test::spill(file, flipped);
      CHECK(names(refusal(dumped), file, ""));
    }
    test::spill(file, whole + "x");
    CHECK(names(refusal(dumped), file, "bytes instead of"));
    test::spill(file, whole);
  }
  CHECK(refusal(dumped).empty());
}

TEST_CASE("a dump of another format, and another call's results, are refused") {
  const Dumped dumped;
  const std::string whole = test::slurp(dumped.call);
  std::string other = whole;
  other[8] = 2;
  test::spill(dumped.call, other);
  CHECK(names(refusal(dumped), dumped.call, "its format is 2 and not 1"));
  test::spill(dumped.call, test::slurp(dumped.results));
  CHECK(names(refusal(dumped), dumped.call, "the other half of a dump"));
  test::spill(dumped.call, whole);
  set_head(dumped.call, [](base::Json& head) { head["origin"]["number"] = 7; });
  CHECK(names(refusal(dumped), dumped.results, "it belongs to another call"));
}

TEST_CASE("a head with a sound checksum is read with care") {
  const auto refuses = [](const char* why, const std::function<void(base::Json&)>& change) {
    const Dumped dumped;
    set_head(dumped.call, change);
    const std::string message = refusal(dumped);
    CAPTURE(message);
    CHECK(names(message, dumped.call, why));
  };
  refuses("a member \"origin\"", [](base::Json& head) { head.erase("origin"); });
  refuses("pass is \"sideways\"", [](base::Json& head) { head["pass"] = "sideways"; });
  refuses("a member \"lse\"", [](base::Json& head) { head["call"].erase("lse"); });
  refuses("members of this version's", [](base::Json& head) { head["call"]["more"] = 1; });
  refuses("q.shape is", [](base::Json& head) { head["call"]["q"]["shape"][2] = -1; });
  refuses("q.dtype is", [](base::Json& head) { head["call"]["q"]["dtype"] = "fp8"; });
  refuses("bytes instead of", [](base::Json& head) { head["call"]["q"]["shape"][2] = 4; });
  refuses("claims to be larger than the file",
          [](base::Json& head) { head["call"]["q"]["shape"][2] = std::int64_t{1} << 40; });
  refuses("score is", [](base::Json& head) { head["call"]["score"] = "s $"; });
  refuses("num_sequences is", [](base::Json& head) { head["call"]["num_sequences"] = -1; });
}

TEST_CASE("a dump whose strides span more memory than is allowed is refused before that is taken") {
  const Dumped dumped;
  set_head(dumped.call,
           [](base::Json& head) { head["call"]["q"]["strides"][1] = std::int64_t{1} << 40; });
  const dump::CallFile file = dump::CallFile::open(dumped.call);
  CHECK_THROWS_WITH_AS(file.load(test::kDumpMemory), doctest::Contains("span 2199"), Error);
  set_head(dumped.call, [](base::Json& head) { head["call"]["q"]["strides"][1] = INT64_MAX; });
  CHECK_THROWS_WITH_AS(dump::CallFile::open(dumped.call).load(test::kDumpMemory),
                       doctest::Contains("q: its shape and strides are those of no memory"), Error);
}

TEST_CASE("links, folders and files that others may write are no dumps") {
  const Dumped dumped;
  const fs::path moved = dumped.folder / "moved";
  fs::rename(dumped.call, moved);
  CHECK(names(refusal(dumped), dumped.call, ""));
  fs::create_symlink(moved, dumped.call);
  CHECK(names(refusal(dumped), dumped.call, ""));
  fs::remove(dumped.call);
  fs::create_directory(dumped.call);
  CHECK(names(refusal(dumped), dumped.call, ""));
  fs::remove(dumped.call);
  fs::rename(moved, dumped.call);
  REQUIRE(::chmod(dumped.call.c_str(), 0622) == 0);
  CHECK(names(refusal(dumped), dumped.call, ""));
}

TEST_CASE("a folder of dumps is private, and its README says whose data it holds") {
  const test::TempDirectory temp;
  const fs::path folder = temp / "a" / "calls";
  CHECK_FALSE(dump::why_no_folder(folder));
  struct stat status;
  REQUIRE(::stat(folder.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
  CHECK(test::slurp(folder / "README").substr(0, 40).find("hold user data") != std::string::npos);
  CHECK(dump::list_calls(folder).empty());

  REQUIRE(::chmod(folder.c_str(), 0707) == 0);
  CHECK(dump::why_no_folder(folder).value() == "everyone may write to it");
  fs::create_symlink(folder, temp / "link");
  CHECK(dump::why_no_folder(temp / "link").value() == "it is a symbolic link");
  test::spill(temp / "file", "");
  CHECK(dump::why_no_folder(temp / "file").has_value());
  CHECK_THROWS_WITH_AS(dump::list_calls(temp / "absent"), doctest::Contains("absent"), Error);
}
