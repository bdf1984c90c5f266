#include "check/device_mirror.hpp"

namespace attnjit::check {

DeviceMirror::DeviceMirror(const cuda::Driver& driver, const instance::HostProblem& problem)
    : driver_(driver), problem_(problem) {
  for (const instance::HostBuffer& buffer : problem.buffers()) {
    buffers_.emplace_back(driver, buffer.bytes().size());
    cuda::copy_to_device(driver, buffers_.back().data(), buffer.bytes().data(),
                         buffer.bytes().size());
  }
}

std::vector<void*> DeviceMirror::bases() const {
  std::vector<void*> bases;
  for (const cuda::DeviceBuffer& buffer : buffers_) bases.push_back(buffer.data());
  return bases;
}

ForwardArgs DeviceMirror::with_prepared_mask(ForwardArgs args) const {
  if (!prepared_mask_) return args;
  args.prepared_mask = prepared_mask_;
  args.mask.reset();
  return args;
}

void DeviceMirror::upload_outputs() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const instance::HostBuffer& buffer = problem_.buffers()[i];
    if (!buffer.is_output()) continue;
    cuda::copy_to_device(driver_, buffers_[i].data(), buffer.bytes().data(), buffer.bytes().size());
  }
}

void DeviceMirror::replace(const instance::HostProblem& problem) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const auto bytes = problem.buffers()[i].bytes();
    cuda::copy_to_device(driver_, buffers_[i].data(), bytes.data(), bytes.size());
  }
}

void DeviceMirror::download(instance::HostProblem& problem) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const auto bytes = problem.buffers()[i].bytes();
    cuda::copy_to_host(driver_, bytes.data(), buffers_[i].data(), bytes.size());
  }
}

}  // namespace attnjit::check
