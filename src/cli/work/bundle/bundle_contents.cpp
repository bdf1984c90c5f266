#include "cli/work/bundle/bundle_contents.hpp"

#include <algorithm>
#include <string_view>
#include <variant>

#include "attnjit/error.hpp"

namespace attnjit::cli {
namespace {

// The kernels of the CPU executor are kept beside those of GPUs, and are of no use elsewhere.
bool is_wanted(const std::vector<std::string>& archs, std::string_view arch) {
  return arch.starts_with("sm_") &&
         (archs.empty() || std::ranges::find(archs, arch) != archs.end());
}

template <class PlanKey>
void add_record(cache::BundleWriter& writer, const tuner::BasicRecord<PlanKey>& record) {
  writer.add_record(tuner::RecordStore::id(record.key), record.key.device.arch, to_json(record));
}

template <class Problem>
void add_record_of(cache::BundleWriter& writer, const Problem& problem,
                   const tuner::DeviceClass& device, runtime::Engine& engine) {
  const auto key = problem::plan_key(problem);
  using PlanKey = std::remove_const_t<decltype(key)>;
  const auto match = engine.records().find(
      tuner::BasicTuneKey<PlanKey>{device, key, engine.space<PlanKey>().name()});
  if (match) add_record(writer, match->record);
}

}  // namespace

std::vector<std::string> add_everything(cache::BundleWriter& writer,
                                        const std::vector<std::string>& archs, Session& session) {
  std::vector<std::string> unusable;
  const cache::Store& store = session.engine().cache().store();
  std::vector<cache::StoredFile> files = store.list();
  const std::string own = cache::compiler_tag(session.compiler_id());
  std::ranges::stable_partition(files, [&](const auto& file) { return file.compiler_tag == own; });
  for (const cache::StoredFile& file : files) {
    if (!is_wanted(archs, file.arch)) continue;
    const auto result = store.read(file);
    if (const auto* rejection = std::get_if<cache::Rejection>(&result)) {
      unusable.push_back(fmt::format("{}: {}", file.path.string(), rejection->reason));
    } else {
      writer.add(std::get<cache::Entry>(result));
    }
  }
  for (const tuner::AnyRecord& record : session.engine().records().list()) {
    if (!is_wanted(archs, device_of(record).arch)) continue;
    std::visit([&](const auto& each) { add_record(writer, each); }, record);
  }
  return unusable;
}

void add_kernels(cache::BundleWriter& writer, const Sweep& sweep, Session& session) {
  for (const SweptKernel& kernel : sweep.kernels) {
    const std::string arch(kernel.arch->name);
    const auto found = session.engine().cache().look_up(kernel.step.key, arch);
    if (!found) {
      throw Error(ErrorKind::kCache,
                  fmt::format("[{}] for {} has left the cache while it was exported; run attnjit "
                              "warmup again",
                              kernel.step.spec.source.title, arch));
    }
    writer.add(*found->entry);
  }
}

void add_records(cache::BundleWriter& writer, const std::vector<Case>& cases,
                 const std::vector<const codegen::Arch*>& archs, Session& session) {
  runtime::Engine& engine = session.engine();
  for (const tuner::DeviceClass& device : session.recorded_devices()) {
    if (std::ranges::find(archs, device.arch, &codegen::Arch::name) == archs.end()) continue;
    for (const Case& job : cases) {
      if (job.spec.backward) {
        add_record_of(writer, make_backward_problem(job.spec), device, engine);
      } else {
        add_record_of(writer, make_problem(job.spec), device, engine);
      }
    }
  }
}

}  // namespace attnjit::cli
