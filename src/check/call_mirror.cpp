#include "check/call_mirror.hpp"

namespace attnjit::check {

CallMirror::CallMirror(const cuda::Driver& driver, const dump::HostCall& host)
    : driver_(driver), host_(host), call_(host.call()) {
  std::vector<void*> addresses;
  for (const dump::HostCall::Block& block : host.blocks()) {
    buffers_.emplace_back(driver, block.bytes);
    cuda::copy_to_device(driver, buffers_.back().data(), block.memory.get(), block.bytes);
    addresses.push_back(static_cast<std::byte*>(buffers_.back().data()) + block.data);
  }
  call_.place(addresses);
}

void CallMirror::download_outputs() const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (host_.parts()[i].role != dump::Role::kOutput) continue;
    const dump::HostCall::Block& block = host_.blocks()[i];
    cuda::copy_to_host(driver_, block.memory.get(), buffers_[i].data(), block.bytes);
  }
}

}  // namespace attnjit::check
