#include "check/call_copy.hpp"

#include "check/call_verdict.hpp"
#include "instance/forward_results.hpp"

namespace attnjit::check {

Views views_of(const dump::Call& call) {
  Views views;
  for (const dump::Part& part : call.parts()) views[part.name] = part.view;
  return views;
}

dump::HostCall copy_call(const dump::Call& changed, const Views& views) {
  dump::HostCall copy(changed, ~std::uint64_t{0});
  for (std::size_t i = 0; i < copy.parts().size(); ++i) {
    const dump::Part& part = copy.parts()[i];
    if (part.role != dump::Role::kInput || part.view.data == nullptr) continue;
    copy.fill(i, dump::packed(views.at(part.name), dump::fetch_from_host));
  }
  return copy;
}

void write_forward(const dump::HostCall& call, unsigned jobs) {
  if (!call.call().backward()) return;
  std::vector<std::uint8_t> mask;
  instance::write_forward_results(with_dense_mask(call.call().forward_args(), mask), jobs);
}

}  // namespace attnjit::check
