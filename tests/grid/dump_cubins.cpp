// dump_cubins DIRECTORY [N]: compiles both covering grids, or each Nth plan of them, and writes
// each distinct kernel's cubin and source there, with kernels.json, a list of which kernel each
// plan runs as its first, second ... step. dump_cubins --ptx SOURCE ENTRY ARCH prints the PTX of a
// source. scripts/codediff runs both. Honours ATTNJIT_TEMPLATE_DIR.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/environment.hpp"
#include "base/json.hpp"
#include "base/parallel.hpp"
#include "base/sha256.hpp"
#include "grid_plans.hpp"
#include "runtime/load/engine.hpp"

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

void dump(const std::filesystem::path& directory, std::size_t every) {
  runtime::Engine engine(base::process_environment());
  std::vector<GridPlan> all = forward_grid(engine.templates());
  for (GridPlan& plan : backward_grid(engine.templates())) all.push_back(std::move(plan));
  std::vector<GridPlan> plans;
  for (std::size_t i = 0; i < all.size(); i += every) plans.push_back(std::move(all[i]));
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
  base::parallel_for(list.size(), engine.environment().jobs, [&](std::size_t i) {
    const auto entry = engine.kernel(*list[i].source, *list[i].arch, {"grid", ""});
    write(directory / list[i].file,
          {reinterpret_cast<const char*>(entry->cubin.data()), entry->cubin.size()});
    write(directory / (list[i].file + ".cu"), list[i].source->text);
  });
  write(directory / "kernels.json", base::dump_json(kernels, 1));  // last: the rest is complete
  std::printf("%zu kernels of %zu plans\n", list.size(), plans.size());
}

void print_ptx(const char* file, const char* entry, const char* arch) {
  std::ifstream stream(file, std::ios::binary);
  const std::string source(std::istreambuf_iterator<char>(stream), {});
  runtime::Engine engine(base::process_environment());
  std::fputs(engine.compiler().ptx(source, entry, arch).c_str(), stdout);
}

void run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 4 && arguments[0] == "--ptx") {
    print_ptx(arguments[1].c_str(), arguments[2].c_str(), arguments[3].c_str());
  } else if (arguments.size() == 1 || arguments.size() == 2) {
    dump(arguments[0], arguments.size() == 2 ? std::stoul(arguments[1]) : 1);
  } else {
    throw std::invalid_argument("usage: DIRECTORY [N] | --ptx SOURCE ENTRY ARCH");
  }
}

}  // namespace
}  // namespace attnjit::test

int main(int argc, char** argv) {
  try {
    attnjit::test::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dump_cubins: %s\n", error.what());
    return 1;
  }
  return 0;
}
