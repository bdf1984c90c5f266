#include "runtime/call/plan_table.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "problem/plan_key.hpp"

using namespace attnjit;
using launch::ForwardPlan;
using runtime::PlanTable;

namespace {

PlanTable::Key numbered_key(int number) {
  PlanTable::Key key{.context_id = 1, .plan = {}};
  key.plan.family.head_dim = number;
  return key;
}

std::unique_ptr<ForwardPlan> empty_plan() {
  return std::make_unique<ForwardPlan>(launch::ForwardPlanSpec{},
                                       std::vector<std::unique_ptr<cuda::Library>>{});
}

template <class Key>
void expect_different_hashes(const std::vector<Key>& keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      INFO(i, " and ", j);
      CHECK(problem::hash(keys[i]) != problem::hash(keys[j]));
    }
  }
}

}  // namespace

TEST_CASE("a plan is made once and stays where it is") {
  PlanTable table;
  std::vector<const ForwardPlan*> plans;
  constexpr int kPlans = 5000;  // several to a chain
  for (int i = 0; i < kPlans; ++i) {
    CHECK(table.find(numbered_key(i)) == nullptr);
    plans.push_back(&table.find_or_make(numbered_key(i), empty_plan));
  }
  const PlanTable::Make never = [] {
    FAIL_CHECK("made twice");
    return empty_plan();
  };
  for (int i = 0; i < kPlans; ++i) {
    CHECK(table.find(numbered_key(i)) == plans[i]);
    CHECK(&table.find_or_make(numbered_key(i), never) == plans[i]);
  }
}

TEST_CASE("another context has plans of its own") {
  PlanTable table;
  PlanTable::Key key = numbered_key(1);
  const ForwardPlan& first = table.find_or_make(key, empty_plan);
  key.context_id = 2;
  CHECK(table.find(key) == nullptr);
  CHECK(&table.find_or_make(key, empty_plan) != &first);
}

TEST_CASE("a plan that could not be made is not there, and is tried again") {
  PlanTable table;
  const PlanTable::Key key = numbered_key(1);
  const PlanTable::Make fail = []() -> std::unique_ptr<ForwardPlan> {
    throw std::runtime_error("no");
  };
  CHECK_THROWS_AS(table.find_or_make(key, fail), std::runtime_error);
  CHECK(table.find(key) == nullptr);
  const ForwardPlan& plan = table.find_or_make(key, empty_plan);
  CHECK(table.find(key) == &plan);
}

TEST_CASE("threads that want one plan get the one that the first of them makes") {
  PlanTable table;
  constexpr int kKeys = 200;
  std::atomic<int> made = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kKeys; ++i) {
        const ForwardPlan& plan = table.find_or_make(numbered_key(i), [&] {
          ++made;
          return empty_plan();
        });
        if (table.find(numbered_key(i)) != &plan) ++made;
      }
    });
  }
  threads.clear();  // joins
  CHECK(made == kKeys);
}

TEST_CASE("each member of a key changes its hash") {
  const problem::PlanKey base;
  std::vector<problem::PlanKey> keys;
  const auto add = [&](auto change) { change(keys.emplace_back(base)); };
  add([](auto&) {});
  add([](auto& k) { k.family.dtype = DType::kFloat16; });
  add([](auto& k) { k.family.head_dim = 64; });
  add([](auto& k) { k.family.head_dim_v = 64; });
  add([](auto& k) { k.family.gqa_ratio = 4; });
  add([](auto& k) { k.family.aligned = true; });
  add([](auto& k) { k.family.positive_scale = false; });
  add([](auto& k) { k.family.mask = problem::Extent::kPerKey; });
  add([](auto& k) { k.family.mask_vectorized = true; });
  add([](auto& k) { k.family.mask_per_query_head = true; });
  add([](auto& k) { k.family.bias = problem::Extent::kPerKey; });
  add([](auto& k) { k.family.bias_dtype = DType::kFloat32; });
  add([](auto& k) { k.family.bias_vectorized = true; });
  add([](auto& k) { k.family.bounded_left = true; });
  add([](auto& k) { k.family.bounded_right = true; });
  add([](auto& k) { k.family.seqlens = true; });
  add([](auto& k) { k.bucket_q = 64; });
  add([](auto& k) { k.bucket_kv = 64; });
  add([](auto& k) { k.bucket_planes = 4; });
  add([](auto& k) { k.mask_per_head = true; });
  add([](auto& k) { k.bias_per_head = true; });
  expect_different_hashes(keys);
}

TEST_CASE("each member of a backward's key changes its hash") {
  const problem::BackwardPlanKey base;
  std::vector<problem::BackwardPlanKey> keys;
  const auto add = [&](auto change) { change(keys.emplace_back(base)); };
  add([](auto&) {});
  add([](auto& k) { k.family.scores.head_dim = 64; });
  add([](auto& k) { k.family.scores.seqlens = true; });
  add([](auto& k) { k.family.dbias = problem::Extent::kPerPair; });
  add([](auto& k) { k.family.dbias_dtype = DType::kBFloat16; });
  add([](auto& k) { k.family.dbias_vectorized = true; });
  add([](auto& k) { k.family.dbias_reduces_planes = true; });
  add([](auto& k) { k.family.dbias_reduces_few = true; });
  add([](auto& k) { k.family.dbias_scalar = true; });
  add([](auto& k) { k.family.deterministic = true; });
  add([](auto& k) { k.bucket_q = 64; });
  add([](auto& k) { k.bucket_kv = 64; });
  expect_different_hashes(keys);
}
