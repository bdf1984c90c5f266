#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "attnjit/backward.hpp"
#include "instance/host_buffer.hpp"
#include "instance/problem_spec.hpp"
#include "tensor/random.hpp"

namespace attnjit::instance {

/// Host tensors of a ProblemSpec, filled at random, with guard zones around each.
///
/// To run it on a device: allocate bytes().size() for each of buffers(), copy the bytes there, call
/// args_at() or backward_args_at() with the allocations, launch, and copy the bytes of the outputs
/// back. Then check_guards(), check_written() and check_output() judge what the kernel did.
class HostProblem {
 public:
  /// Throws Error(kInvalidProblem) as validate() does.
  explicit HostProblem(const ProblemSpec& spec, unsigned jobs);

  const ProblemSpec& spec() const { return spec_; }
  std::span<HostBuffer> buffers() { return buffers_; }
  std::span<const HostBuffer> buffers() const { return buffers_; }

  /// The buffer of `role`; null if the problem has none.
  HostBuffer* find(BufferRole role);
  const HostBuffer* find(BufferRole role) const;

  /// The forward's call on host memory.
  ForwardArgs args() const { return args_at(bases()); }

  /// The forward's call on mirrors: bases[i] is the start of a copy of buffers()[i]. The list of
  /// its operands belongs to this, and changes with a call on another mirror of the same bases.
  ForwardArgs args_at(std::span<void* const> bases) const;

  /// The same of a backward problem; throws Error(kInternal) if it is none.
  BackwardArgs backward_args() const { return backward_args_at(bases()); }
  BackwardArgs backward_args_at(std::span<void* const> bases) const;

  /// Fills out and lse with poison and restores their guards. Call it before each run.
  void poison_outputs();

  /// Empty, or a line for each output whose guard zone or padding was overwritten.
  std::string check_guards() const;

  /// Empty, or a line for each output with elements that were never written.
  std::string check_written() const;

  /// Empty, or a line for each input whose bytes differ from those it was filled with.
  std::string check_inputs() const;

 private:
  void fill(unsigned jobs);
  void add_first_key();
  void fill_backward_inputs(unsigned jobs);
  void set_heads(HostBuffer& buffer, const std::vector<float>& given);
  void fill_seqlens(HostBuffer& buffer, bool random_lengths, const std::vector<std::int32_t>& given,
                    std::int64_t length);
  void fill_table(HostBuffer& buffer);
  void fill_lists(HostBuffer& indices, tensor::Random random);

  std::vector<void*> bases() const;
  BackwardArgs all_args_at(std::span<void* const> bases) const;

  ProblemSpec spec_;
  std::vector<HostBuffer> buffers_;
  std::vector<std::uint64_t> checksums_;  // of the inputs, in the order of buffers_
  // The memory that calls on mirrors point to, by the mirror's first base.
  mutable std::map<const void*, std::vector<Operand>> operands_;
  mutable std::map<const void*, std::vector<Tensor>> gradients_;
};

}  // namespace attnjit::instance
