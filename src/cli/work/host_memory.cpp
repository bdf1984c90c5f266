#include "cli/work/host_memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "attnjit/error.hpp"
#include "cli/report/table.hpp"

namespace attnjit::cli {
namespace {

constexpr double kUsableShare = 0.9;

double host_memory() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

void check_host_memory(double bytes, std::string_view what, std::string_view remedy) {
  if (bytes <= kUsableShare * host_memory()) return;
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{} need {} of host memory and this machine has {}; {}", what,
                          human_bytes(bytes), human_bytes(host_memory()), remedy));
}

}  // namespace attnjit::cli
