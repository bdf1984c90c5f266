#include "cli/work/bench/bench_machine.hpp"

#include <cstdio>
#include <ctime>
#include <memory>
#include <string_view>

#include "base/json.hpp"

namespace attnjit::cli {
namespace {

constexpr const char* kQuery =
    "nvidia-smi --format=csv,noheader --query-gpu=index,name,driver_version,clocks.sm,clocks.mem,"
    "clocks.max.sm,power.draw,temperature.gpu 2>/dev/null";

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json device_json(const cuda::DeviceInfo& device) {
  return {{"name", device.name}, {"arch", device.arch()}, {"sms", device.sm_count}};
}

Json query_gpus() {
  Json lines = Json::array();
  const auto close = [](std::FILE* stream) { ::pclose(stream); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(::popen(kQuery, "r"), close);
  if (!pipe) return lines;
  char line[512];
  while (std::fgets(line, sizeof line, pipe.get()) != nullptr) {
    const std::string_view text(line);
    lines.push_back(text.substr(0, text.find('\n')));
  }
  return lines;
}

}  // namespace attnjit::cli
