#include "launch/tensor_maps.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "base/parallel.hpp"
#include "launch/kernels/backward_kernels.hpp"
#include "launch/kernels/forward_kernels.hpp"
#include "unit/backward_fixtures.hpp"
#include "unit/forward_fixtures.hpp"

using namespace attnjit;
using attnjit::test::forward_args;

namespace {

// The calls of the encoder, in order.
struct Asked {
  void* address;
  std::vector<cuuint64_t> extents, strides;
  std::vector<cuuint32_t> box, steps;
};
std::vector<Asked> asked;
CUresult answer = CUDA_SUCCESS;

CUresult CUDAAPI record(CUtensorMap*, CUtensorMapDataType, cuuint32_t rank, void* address,
                        const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                        const cuuint32_t* steps, CUtensorMapInterleave, CUtensorMapSwizzle,
                        CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  asked.push_back({address,
                   {extents, extents + rank},
                   {strides, strides + rank - 1},
                   {box, box + rank},
                   {steps, steps + rank}});
  return answer;
}

void set_maps(const ForwardArgs& args, int head_dim = 128, int pack_gqa_heads = 1,
              int page_kv = 64) {
  asked.clear();
  const kernel::ForwardWgmmaConfig config{.dtype = kernel::DType::kBFloat16,
                                          .head_dim = head_dim,
                                          .head_dim_v = head_dim,
                                          .gqa_ratio = pack_gqa_heads,
                                          .scale_first = false,
                                          .pack_gqa = pack_gqa_heads > 1,
                                          .block_q = 128,
                                          .block_kv = 64,
                                          .page_kv = page_kv,
                                          .num_stages = 2,
                                          .producer_registers = 40,
                                          .min_blocks = 1,
                                          .teams = 1};
  kernel::ForwardWgmmaParams params{};
  launch::set_maps(config, problem::make_problem(args), args, record, {}, params);
}

using Numbers = std::vector<cuuint64_t>;
using Small = std::vector<cuuint32_t>;

}  // namespace

TEST_CASE("q and out are read and written by rows, k and v by fours of rows") {
  const ForwardArgs args = forward_args({.batch = 2,
                                         .heads_q = 4,
                                         .heads_kv = 2,
                                         .seqlen_q = 100,
                                         .seqlen_kv = 200,
                                         .head_dim = 128});
  set_maps(args);
  REQUIRE(asked.size() == 4);
  CHECK(asked[0].address == args.q.data);
  CHECK(asked[0].extents == Numbers{128, 100, 4, 2});
  CHECK(asked[0].strides == Numbers{256, 25600, 102400});
  CHECK(asked[0].box == Small{64, 64, 1, 1});
  CHECK(asked[1].address == args.out.data);
  CHECK(asked[1].box == Small{64, 16, 1, 1});
  CHECK(asked[2].address == args.k.data);
  CHECK(asked[2].extents == Numbers{128, 50, 4, 2, 2});
  CHECK(asked[2].strides == Numbers{1024, 256, 51200, 102400});
  CHECK(asked[2].box == Small{64, 16, 4, 1, 1});
  CHECK(asked[3].address == args.v.data);
}

TEST_CASE("pages take the place of batch elements, and a tile of several has a box for each") {
  ForwardArgs args = forward_args({.batch = 2,
                                   .heads_q = 4,
                                   .heads_kv = 2,
                                   .seqlen_q = 100,
                                   .seqlen_kv = 256,
                                   .head_dim = 128,
                                   .head_dim_v = 128});
  test::page_keys(args, 128);
  set_maps(args);
  REQUIRE(asked.size() == 4);
  CHECK(asked[0].extents == Numbers{128, 100, 4, 2});
  CHECK(asked[2].extents == Numbers{128, 32, 4, 2, 5});
  CHECK(asked[2].strides == Numbers{1024, 256, 32768, 65536});
  CHECK(asked[2].box == Small{64, 16, 4, 1, 1});

  args = forward_args({.seqlen_kv = 256, .head_dim = 128, .head_dim_v = 128});
  const ForwardArgs in_a_row = args;
  test::page_keys(args, 32);
  set_maps(args, 128, 1, 32);
  REQUIRE(asked.size() == 4);
  CHECK(asked[2].address == args.k.data);
  CHECK(asked[2].extents == Numbers{128, 8, 4, 8, 33});
  CHECK(asked[2].box == Small{64, 8, 4, 1, 1});

  // Every other row of 16 keys.
  args = in_a_row;
  test::page_keys(args, 16);
  set_maps(args, 128, 1, 16);
  REQUIRE(asked.size() == 4);
  CHECK(asked[2].extents == Numbers{128, 8, 2, 8, 65});
  CHECK(asked[2].strides == Numbers{512, 256, 4096, 32768});
  CHECK(asked[2].box == Small{64, 8, 2, 1, 1});
}

TEST_CASE("heads of pack_gqa are an axis of q of their own, and out and a bias have no map") {
  ForwardArgs args = forward_args({.batch = 2,
                                   .heads_q = 8,
                                   .heads_kv = 2,
                                   .seqlen_q = 100,
                                   .seqlen_kv = 200,
                                   .head_dim = 128});
  args.bias = test::bias(args, "bhqk");
  set_maps(args, 128, 4);
  REQUIRE(asked.size() == 3);
  CHECK(asked[0].address == args.q.data);
  CHECK(asked[0].extents == Numbers{128, 4, 100, 2, 2});
  CHECK(asked[0].strides == Numbers{25600, 256, 102400, 204800});
  CHECK(asked[0].box == Small{64, 4, 16, 1, 1});
  CHECK(asked[1].address == args.k.data);
  CHECK(asked[2].address == args.v.data);
}

TEST_CASE("rows past the last four have maps of their own") {
  set_maps(forward_args({.seqlen_q = 100, .seqlen_kv = 203, .head_dim = 128}));
  REQUIRE(asked.size() == 6);
  CHECK(asked[2].extents[1] == 50);
  CHECK(asked[3].extents[1] == 203);
  CHECK(asked[3].box[1] == 64);
  CHECK(asked[3].steps == Small{1, 4, 1, 1});
}

TEST_CASE("boxes of packed sequences have one row of each four, for these begin anywhere") {
  const std::int32_t begins[3] = {0, 70, 200};
  for (const int keys : {200, 203}) {
    ForwardArgs args =
        forward_args({.batch = 1, .seqlen_q = 200, .seqlen_kv = keys, .head_dim = 128});
    args.cu_seqlens_q = args.cu_seqlens_kv = begins;
    args.num_sequences = 2;
    set_maps(args);
    REQUIRE(asked.size() == (keys == 200 ? 4 : 6));
    CHECK(asked[2].extents == Numbers{128, 50, 4, 8, 1});
    CHECK(asked[2].box == Small{64, 16, 1, 1, 1});
    if (keys == 203) CHECK(asked[3].steps == Small{1, 4, 1, 1});
  }
}

TEST_CASE("pages of packed sequences have the boxes of pages, whatever their queries' maps") {
  ForwardArgs args = forward_args({.seqlen_kv = 256, .head_dim = 128, .head_dim_v = 128});
  test::page_keys(args, 32);
  test::pack_queries(args);
  set_maps(args, 128, 1, 32);
  REQUIRE(asked.size() == 4);
  CHECK(asked[0].extents == Numbers{128, 512, 32, 1});
  CHECK(asked[2].extents == Numbers{128, 8, 4, 8, 33});
  CHECK(asked[2].box == Small{64, 8, 4, 1, 1});
}

TEST_CASE("out has no map where it is written from registers") {
  set_maps(forward_args({.seqlen_q = 100, .seqlen_kv = 200, .head_dim = 256}), 256);
  CHECK(asked.size() == 3);
}

TEST_CASE("axes of extent 1 have strides that the encoder takes") {
  set_maps(forward_args(
      {.batch = 1, .heads_q = 1, .heads_kv = 1, .seqlen_q = 1, .seqlen_kv = 4, .head_dim = 128}));
  for (const Asked& map : asked) {
    for (const cuuint64_t stride : map.strides) {
      CHECK(stride % 16 == 0);
      CHECK(stride > 0);
    }
  }
}

TEST_CASE("a map that the driver refuses is named") {
  answer = CUDA_ERROR_INVALID_VALUE;
  CHECK_THROWS_WITH_AS(set_maps(forward_args({.head_dim = 128})),
                       doctest::Contains("the driver refuses a tensor map of q"), Error);
  answer = CUDA_SUCCESS;
}

TEST_CASE("a backward reads k, v, q and dout by rows, the latter two where there are any") {
  constexpr kernel::DkvWgmmaConfig kConfig{.dtype = kernel::DType::kBFloat16,
                                           .head_dim = 64,
                                           .head_dim_v = 64,
                                           .gqa_ratio = 2,
                                           .key_parts = 1,
                                           .block_q = 128,
                                           .num_stages = 2,
                                           .producer_registers = 40,
                                           .dq_registers = 72};
  const auto set = [&](int seqlen_q) {
    asked.clear();
    const BackwardArgs args = test::backward_args(forward_args({.batch = 2,
                                                                .heads_q = 4,
                                                                .heads_kv = 2,
                                                                .seqlen_q = seqlen_q,
                                                                .seqlen_kv = 200,
                                                                .head_dim = 64}));
    kernel::DkvWgmmaParams params{};
    launch::set_maps(kConfig, std::nullopt, problem::make_problem(args), args, record, params);
    return args;
  };
  const BackwardArgs args = set(100);
  REQUIRE(asked.size() == 4);
  CHECK(asked[0].address == args.forward.k.data);
  CHECK(asked[0].extents == Numbers{64, 200, 2, 2});
  CHECK(asked[0].strides == Numbers{128, 25600, 51200});
  CHECK(asked[0].box == Small{64, 128, 1, 1});
  CHECK(asked[1].address == args.forward.v.data);
  CHECK(asked[2].address == args.forward.q.data);
  CHECK(asked[2].extents == Numbers{64, 100, 4, 2});
  CHECK(asked[2].box == Small{64, 128, 1, 1});
  CHECK(asked[3].address == args.dout.data);
  set(0);
  CHECK(asked.size() == 2);
}

TEST_CASE("a map of a shape that was made before gets another address") {
  static std::vector<void*> replaced;
  replaced.clear();
  const launch::ReplaceTensorMapAddress replace = [](CUtensorMap* map, void* address) {
    CHECK(map->opaque[0] == 7);  // what was kept
    replaced.push_back(address);
    return CUDA_SUCCESS;
  };
  const launch::EncodeTensorMap encode = [](CUtensorMap* map, auto... rest) {
    map->opaque[0] = 7;
    return record(map, rest...);
  };
  launch::TensorMapTable table;
  const launch::TensorMapMaker maker(encode, replace, table);
  launch::TensorMapShape shape{.type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                               .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                               .rank = 2,
                               .extents = {64, 100},
                               .strides = {128},
                               .box = {64, 64},
                               .steps = {1, 1}};
  asked.clear();
  CUtensorMap map;
  int first = 0, second = 0;
  CHECK(maker.make(shape, &first, map) == CUDA_SUCCESS);
  CHECK(maker.make(shape, &second, map) == CUDA_SUCCESS);
  CHECK(asked.size() == 1);
  CHECK(replaced == std::vector<void*>{&second});

  const auto is_another = [&](auto change) {
    launch::TensorMapShape other = shape;
    change(other);
    const std::size_t before = asked.size();
    CHECK(maker.make(other, &first, map) == CUDA_SUCCESS);
    CHECK(asked.size() == before + 1);
  };
  is_another([](auto& s) { s.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16; });
  is_another([](auto& s) { s.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE; });
  is_another([](auto& s) { s.rank = 3; });
  is_another([](auto& s) { s.extents[1] = 101; });
  is_another([](auto& s) { s.strides[0] = 256; });
  is_another([](auto& s) { s.box[1] = 128; });
  is_another([](auto& s) { s.steps[1] = 4; });

  // A full table keeps what it has and takes no more.
  for (int turn = 0; turn < 2; ++turn) {
    for (cuuint64_t rows = 200; rows < 200 + launch::TensorMapTable::kPlaces; ++rows) {
      shape.extents[1] = rows;
      CHECK(maker.make(shape, &first, map) == CUDA_SUCCESS);
    }
  }
  CHECK(asked.size() == 8 + 2 * launch::TensorMapTable::kPlaces - 8);
  CHECK(replaced.size() == 1 + 8);

  answer = CUDA_ERROR_INVALID_VALUE;
  CHECK(maker.make(shape, &first, map) == CUDA_ERROR_INVALID_VALUE);
  answer = CUDA_SUCCESS;
}

TEST_CASE("threads that meet shapes for the first time keep each of them once or twice") {
  const launch::ReplaceTensorMapAddress replace = [](CUtensorMap*, void*) { return CUDA_SUCCESS; };
  launch::TensorMapTable table;
  const launch::TensorMapMaker maker(launch::encode_nothing, replace, table);
  base::parallel_for(400, 4, [&](std::size_t i) {
    launch::TensorMapShape shape{};
    shape.extents[0] = i % 4;
    CUtensorMap map;
    CHECK(maker.make(shape, nullptr, map) == CUDA_SUCCESS);
  });
  for (cuuint64_t i = 0; i < 4; ++i) {
    launch::TensorMapShape shape{};
    shape.extents[0] = i;
    CHECK(table.find(shape) != nullptr);
  }
}
