#pragma once
#include <string>

#include "base/fields.hpp"
#include "explain/counts.hpp"

namespace attnjit::explain {

/// A call as far as its time depends on it: the work that its kernels count, and traits by which
/// calls are alike.
struct Profile {
  bool backward = false;
  std::string path;   ///< of the main kernel, "wgmma"
  std::string dbias;  ///< codegen::DbiasMethod
  int head_dim = 0;   ///< the wider one of head_dim and head_dim_v
  int block_q = 0, block_kv = 0;
  bool mask = false, mask_per_pair = false, mask_prepared = false;
  bool bias = false, bias_per_pair = false;
  bool wide = true;  ///< all operands move in 16-byte vectors
  bool band = false, packed = false, paged = false, listed_blocks = false, grouped_heads = false;
  bool softcap = false, alibi = false, deterministic = false;
  double walked_pairs = 0, tiles = 0, slots = 0;  ///< slots: thread blocks on the device at a time
  double tensor_flop = 0, exponentials = 0, reduced_bytes = 0, memory_bytes = 0, idle = 0;
  int launches = 0;

  bool operator==(const Profile&) const = default;
};

constexpr auto fields(const Profile*) {
  using P = Profile;
  return base::fields_of<P>(
      base::Field{"backward", &P::backward}, base::Field{"path", &P::path},
      base::Field{"dbias", &P::dbias}, base::Field{"head_dim", &P::head_dim},
      base::Field{"block_q", &P::block_q}, base::Field{"block_kv", &P::block_kv},
      base::Field{"mask", &P::mask}, base::Field{"mask_per_pair", &P::mask_per_pair},
      base::Field{"mask_prepared", &P::mask_prepared}, base::Field{"bias", &P::bias},
      base::Field{"bias_per_pair", &P::bias_per_pair}, base::Field{"wide", &P::wide},
      base::Field{"band", &P::band}, base::Field{"packed", &P::packed},
      base::Field{"paged", &P::paged}, base::Field{"listed_blocks", &P::listed_blocks},
      base::Field{"grouped_heads", &P::grouped_heads}, base::Field{"softcap", &P::softcap},
      base::Field{"alibi", &P::alibi}, base::Field{"deterministic", &P::deterministic},
      base::Field{"walked_pairs", &P::walked_pairs}, base::Field{"tiles", &P::tiles},
      base::Field{"slots", &P::slots}, base::Field{"tensor_flop", &P::tensor_flop},
      base::Field{"exponentials", &P::exponentials},
      base::Field{"reduced_bytes", &P::reduced_bytes},
      base::Field{"memory_bytes", &P::memory_bytes}, base::Field{"idle", &P::idle},
      base::Field{"launches", &P::launches});
}

Profile profile(const launch::ForwardPlanSpec& spec, const problem::Problem& problem,
                const Counts& counts);
Profile profile(const launch::BackwardPlanSpec& spec, const problem::BackwardProblem& problem,
                const Counts& counts);

/// The distance between two calls, 0 for equal ones: the sum of the differences of their traits and
/// of the logarithms of their sizes. Calls of different passes or paths are further apart than any
/// others.
double distance(const Profile& a, const Profile& b);

/// Whether two calls do the same work, whatever their values are.
bool same_work(const Profile& a, const Profile& b);

/// Whether the same traits change from `from` to `to` as from `before` to `after`, and any do.
bool same_change(const Profile& before, const Profile& after, const Profile& from,
                 const Profile& to);

}  // namespace attnjit::explain
