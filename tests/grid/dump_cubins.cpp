// dump_cubins DIRECTORY: compiles both covering grids and writes each distinct kernel's cubin
// there, with kernels.json, a list of which kernel each plan runs as its first, second ... step.
// scripts/codediff compares two such directories.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/environment.hpp"
#include "base/parallel.hpp"
#include "base/sha256.hpp"
#include "grid_plans.hpp"
#include "runtime/engine.hpp"

namespace attnjit::test {
namespace {

struct Job {
  const codegen::Arch* arch;
  const codegen::Source* source;
  std::string file;
};

void write(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

void dump(const std::filesystem::path& directory) {
  std::vector<GridPlan> plans = forward_grid();
  for (GridPlan& plan : backward_grid()) plans.push_back(std::move(plan));
  std::map<std::string, Job> jobs;  // by file name
  base::Json kernels = base::Json::array();
  for (const GridPlan& plan : plans) {
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const codegen::Source& source = plan.steps[i].source;
      const std::string hash = base::hex(base::sha256(source.text)).substr(0, 24);
      const std::string file = fmt::format("{}.{}.cubin", hash, plan.arch->name);
      jobs.emplace(file, Job{plan.arch, &source, file});
      kernels.push_back({{"step", fmt::format("{} step {}", plan.name, i + 1)},
                         {"entry", source.entry},
                         {"title", source.title},
                         {"threads", plan.steps[i].threads},
                         {"shared_bytes", plan.steps[i].shared_bytes},
                         {"file", file}});
    }
  }
  std::vector<Job> list;
  for (auto& [name, job] : jobs) list.push_back(job);
  runtime::Engine engine(base::process_environment());
  base::parallel_for(list.size(), engine.environment().jobs, [&](std::size_t i) {
    const auto entry = engine.kernel(*list[i].source, *list[i].arch, "grid");
    write(directory / list[i].file,
          {reinterpret_cast<const char*>(entry->cubin.data()), entry->cubin.size()});
  });
  write(directory / "kernels.json", base::dump_json(kernels, 1));  // last: the rest is complete
  std::printf("%zu kernels of %zu plans\n", list.size(), plans.size());
}

}  // namespace
}  // namespace attnjit::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: dump_cubins DIRECTORY\n", stderr);
    return 2;
  }
  try {
    attnjit::test::dump(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dump_cubins: %s\n", error.what());
    return 1;
  }
  return 0;
}
