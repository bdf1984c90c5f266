#include "launch/mask_plan.hpp"

#include "launch/grid.hpp"
#include "launch/prepared_mask.hpp"

namespace attnjit::launch {
namespace {

kernel::MaskPackParams params_of(const problem::MaskProblem& problem, const PrepareMaskArgs& args) {
  const PreparedMaskLayout layout(MaskTiles(problem.mask), problem.key.by_keys);
  const auto words_at = [&](std::int64_t offset) {
    return at_offset<kernel::uint32>(args.memory, offset);
  };
  return mask_pack_params(problem.mask, args.mask.data, words_at(0),
                          problem.key.by_keys ? words_at(layout.key_words) : nullptr,
                          at_offset<kernel::uint8>(args.memory, layout.classes));
}

}  // namespace

kernel::MaskPackParams mask_pack_params(const problem::Operand& mask, const void* data,
                                        kernel::uint32* words, kernel::uint32* key_words,
                                        kernel::uint8* classes) {
  const MaskTiles tiles(mask);
  return {.mask = static_cast<const kernel::uint8*>(data),
          .words = words,
          .classes = classes,
          .batch_stride = mask.batch_stride,
          .head_stride = mask.head_stride,
          .query_stride = mask.query_stride,
          .key_stride = mask.key_stride,
          .num_heads = mask.num_heads,
          .seqlen_q = tiles.rows,
          .seqlen_kv = tiles.keys,
          .words_per_row = tiles.words_per_row,
          .num_q_tiles = tiles.q_tiles,
          .num_kv_tiles = tiles.kv_tiles,
          .key_words = key_words,
          .words_per_key = tiles.words_per_key};
}

MaskPlanSpec make_mask_plan_spec(const problem::MaskKey& key,
                                 const codegen::TemplateSet& templates) {
  const kernel::MaskPackConfig config = codegen::mask_pack_config(key);
  MaskPlanSpec spec;
  spec.steps.push_back(make_step(codegen::render_mask_pack(config, templates), config, 0));
  return spec;
}

MaskArguments::MaskArguments(const MaskPlanSpec& spec, const problem::MaskProblem& problem,
                             const PrepareMaskArgs& args)
    : params_(params_of(problem, args)),
      shape_(launch_shape(spec.steps.front(), MaskTiles(problem.mask).classes())) {}

}  // namespace attnjit::launch
