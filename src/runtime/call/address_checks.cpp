#include "runtime/call/address_checks.hpp"

#include <fmt/format.h>

#include "attnjit/error.hpp"
#include "cuda/memory.hpp"

namespace attnjit::runtime {
namespace {

void check_address(const cuda::Driver& driver, const char* what, const void* address) {
  if (address == nullptr || cuda::is_device_pointer(driver, address)) return;
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("{}: address {} is not device memory of the current context; copy the "
                          "tensor to the device first",
                          what, address));
}

}  // namespace

void check_addresses(const cuda::Driver& driver, const ForwardArgs& args) {
  check_address(driver, "q", args.q.data);
  check_address(driver, "k", args.k.data);
  check_address(driver, "v", args.v.data);
  check_address(driver, "out", args.out.data);
  check_address(driver, "lse", args.lse);
  check_address(driver, "row_max", args.row_max);
  check_address(driver, "max_logits", args.max_logits);
  check_address(driver, "seqlens_q", args.seqlens_q);
  check_address(driver, "seqlens_kv", args.seqlens_kv);
  check_address(driver, "cu_seqlens_q", args.cu_seqlens_q);
  check_address(driver, "cu_seqlens_kv", args.cu_seqlens_kv);
  if (args.mask) check_address(driver, "mask", args.mask->data);
  if (args.bias) check_address(driver, "bias", args.bias->data);
  if (args.sink) check_address(driver, "sink", args.sink->data);
  if (args.alibi_slopes) check_address(driver, "alibi_slopes", args.alibi_slopes->data);
  check_address(driver, "block_table", args.block_table);
  if (args.tail_mask) check_address(driver, "tail_mask", args.tail_mask->data);
  if (args.prepared_mask) check_address(driver, "prepared_mask", args.prepared_mask->data);
}

void check_addresses(const cuda::Driver& driver, const BackwardArgs& args) {
  check_addresses(driver, args.forward);
  check_address(driver, "dout", args.dout.data);
  check_address(driver, "dlse", args.dlse);
  check_address(driver, "dq", args.dq.data);
  check_address(driver, "dk", args.dk.data);
  check_address(driver, "dv", args.dv.data);
  if (args.dbias) check_address(driver, "dbias", args.dbias->data);
  if (args.dsink) check_address(driver, "dsink", args.dsink->data);
}

void check_addresses(const cuda::Driver& driver, const MergeLseArgs& args) {
  check_address(driver, "parts", args.parts.data);
  check_address(driver, "part_lses", args.part_lses);
  check_address(driver, "out", args.out.data);
  check_address(driver, "lse", args.lse);
  check_address(driver, "carry_lse", args.carry_lse);
  if (args.carry) check_address(driver, "carry", args.carry->data);
}

void check_addresses(const cuda::Driver& driver, const PrepareMaskArgs& args) {
  check_address(driver, "mask", args.mask.data);
  check_address(driver, "memory", args.memory);
}

}  // namespace attnjit::runtime
