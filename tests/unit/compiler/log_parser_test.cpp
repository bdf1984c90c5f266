#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "attnjit/error.hpp"
#include "compiler/log_parser.hpp"

using attnjit::Error;
using namespace attnjit::compiler;

namespace {

/// A log that NVRTC 13.0 wrote, unless its name says otherwise.
std::string recorded(const std::string& name) {
  std::ifstream file(std::string(ATTNJIT_TEST_ASSETS) + "/nvrtc_logs/" + name);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("of several kernels the log parser reads the one that is asked for") {
  const std::string log = recorded("two_kernels_sm_90a.txt");
  const Facts spilling = parse_log(log, "spilling_kernel");
  CHECK(spilling.registers == 32);
  CHECK(spilling.stack_bytes == 312);
  CHECK(spilling.spill_store_bytes == 596);
  CHECK(spilling.spill_load_bytes == 644);
  CHECK(spilling.static_shared_bytes == 0);

  // A function that was not inlined follows this kernel; its zeros must not replace the kernel's.
  const Facts small = parse_log(log, "small_kernel");
  CHECK(small.registers == 12);
  CHECK(small.stack_bytes == 16);
  CHECK(small.spill_store_bytes == 0);
  CHECK(small.static_shared_bytes == 128);
}

TEST_CASE("the log of NVRTC 12.4 reads the same") {
  const Facts small = parse_log(recorded("two_kernels_sm_80_nvrtc_12_4.txt"), "small_kernel");
  CHECK(small.registers == 10);
  CHECK(small.stack_bytes == 16);
  CHECK(small.static_shared_bytes == 128);
}

TEST_CASE("spills are a warning, not a serialisation") {
  const Facts facts = parse_log(recorded("two_kernels_sm_90a.txt"), "spilling_kernel");
  REQUIRE(facts.warnings.size() == 1);
  CHECK(facts.warnings[0].starts_with("ptxas warning : Registers are spilled"));
  CHECK_FALSE(facts.serialized());
}

TEST_CASE("C75xx remarks are kept whole and mean a serialised kernel") {
  const Facts facts = parse_log(recorded("wgmma_serialized_sm_90a.txt"), "gmma");
  CHECK(facts.registers == 30);
  REQUIRE(facts.warnings.size() == 6);
  CHECK(facts.warnings[0].find("(C7517)") != std::string::npos);
  CHECK(facts.warnings[5].find("(C7511)") != std::string::npos);
  CHECK(facts.warnings[5].ends_with("in the function 'gmma'"));
  CHECK(facts.serialized());
}

TEST_CASE("a code in an echoed comment is not a message") {
  const Facts facts = parse_log(recorded("comment_decoy_sm_80.txt"), "decoy");
  REQUIRE(facts.warnings.size() == 1);
  CHECK(facts.warnings[0].starts_with("k.cu(2): warning #177-D"));
  CHECK_FALSE(facts.serialized());
}

TEST_CASE("codes outside C7510 to C7520 are kept but serialise nothing") {
  const std::string log =
      "ptxas info    : (C7508) setmaxnreg ignored\n"
      "ptxas info    : (C751) too short, (Cabcd) no number\n"
      "ptxas info    : Function properties for k\n";
  const Facts facts = parse_log(log, "k");
  REQUIRE(facts.warnings.size() == 1);
  CHECK(facts.warnings[0].find("C7508") != std::string::npos);
  CHECK_FALSE(facts.serialized());
}

TEST_CASE("a name that merely begins like the entry is another kernel") {
  const std::string log = recorded("two_kernels_sm_90a.txt");
  CHECK_THROWS_AS(parse_log(log, "small"), Error);
  CHECK_THROWS_AS(parse_log(log, "small_kernel_2"), Error);
  CHECK_THROWS_AS(parse_log("", "small_kernel"), Error);
}

TEST_CASE("a log without a final newline loses nothing") {
  const Facts facts = parse_log(
      "ptxas info    : Function properties for k\n"
      "ptxas info    : Used 24 registers, 2048 bytes smem",
      "k");
  CHECK(facts.registers == 24);
  CHECK(facts.static_shared_bytes == 2048);
}
