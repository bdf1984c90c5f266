#include "dump/call.hpp"

#include <array>
#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "launch/mask_plan.hpp"
#include "problem/call_members.hpp"

namespace attnjit::dump {
namespace {

Tensor floats(std::array<std::int64_t, 4> shape) {
  return Tensor::contiguous(nullptr, DType::kFloat32, shape);
}
Tensor ints(std::int64_t count) {
  return Tensor::contiguous(nullptr, DType::kInt32, {count, 1, 1, 1});
}
Tensor rows_of(const ForwardArgs& args) {
  return floats({args.q.shape[0], args.q.shape[1], 1, args.q.shape[2]});
}

// A member that is a bare pointer, and the tensor that it points to.
struct Array {
  std::string_view name;
  Tensor (*view)(const ForwardArgs&);
};
constexpr Array kArrays[] = {
    {"lse", rows_of},
    {"row_max", rows_of},
    {"dlse", rows_of},
    {"max_logits",
     [](const ForwardArgs& a) {
       return floats({1, a.q.shape[1], 1, 1});
     }},
    {"seqlens_q", [](const ForwardArgs& a) { return ints(num_elements(a)); }},
    {"seqlens_kv", [](const ForwardArgs& a) { return ints(num_elements(a)); }},
    {"cu_seqlens_q", [](const ForwardArgs& a) { return ints(num_elements(a) + 1); }},
    {"cu_seqlens_kv", [](const ForwardArgs& a) { return ints(num_elements(a) + 1); }},
    {"block_table", [](const ForwardArgs& a) {
       return Tensor{nullptr,
                     DType::kInt32,
                     {num_elements(a), 1, 1, a.max_pages},
                     {a.block_table_stride, 0, 0, 1}};
     }}};

constexpr const Array* find_array(std::string_view name) {
  for (const Array& array : kArrays) {
    if (array.name == name) return &array;
  }
  return nullptr;
}

// Whether kArrays has every member of `Args` that is a pointer.
template <class Args>
consteval bool knows_arrays() {
  return base::kFields<Args>.apply([](const auto&... field) {
    return (
        (!std::is_pointer_v<std::remove_cvref_t<decltype(std::declval<Args&>().*(field.member))>> ||
         find_array(field.name) != nullptr) &&
        ...);
  });
}
static_assert(knows_arrays<ForwardArgs>() && knows_arrays<BackwardArgs>(),
              "kArrays must have the shape of every array of a call");

constexpr std::string_view kForwardOutputs[] = {"out", "lse", "row_max", "max_logits"};
constexpr std::string_view kBackwardOutputs[] = {"dq",    "dk",    "dv",
                                                 "dbias", "dsink", "operand_gradients"};

Role role_of(std::string_view member, bool backward) {
  const auto among = [member](const auto& names) {
    for (const std::string_view name : names) {
      if (name == member) return Role::kOutput;
    }
    return Role::kInput;
  };
  return backward ? among(kBackwardOutputs) : among(kForwardOutputs);
}

Tensor bytes_of(const PreparedMask& mask) {
  const std::int64_t bytes = launch::prepared_layout(mask).bytes;
  return Tensor::contiguous(nullptr, DType::kBool, {1, 1, 1, bytes});
}

}  // namespace

std::int64_t num_elements(const ForwardArgs& args) {
  return args.cu_seqlens_q != nullptr ? args.num_sequences : args.q.shape[0];
}

Call::Call(const ForwardArgs& args) : backward_(false) {
  args_.forward = args;
  set_operands(args.operands);
}

Call::Call(const BackwardArgs& args) : backward_(true), args_(args) {
  args_.forward.row_max = nullptr;
  args_.forward.max_logits = nullptr;
  set_operands(args.forward.operands);
  set_gradients(args.operand_gradients);
}

Call::Call(const Call& other) : backward_(other.backward_), args_(other.args_) {
  set_operands(other.operands_);
  set_gradients(other.gradients_);
}

void Call::set_operands(std::span<const Operand> operands) {
  std::vector<Operand> list(operands.begin(), operands.end());
  std::vector<std::string> names;
  for (const Operand& operand : list) names.emplace_back(operand.name);
  for (std::size_t n = 0; n < list.size(); ++n) list[n].name = names[n].c_str();
  names_ = std::move(names);
  operands_ = std::move(list);
  args_.forward.operands = operands_;
}

void Call::set_gradients(std::span<const Tensor> gradients) {
  gradients_ = std::vector(gradients.begin(), gradients.end());
  args_.operand_gradients = gradients_;
}

void Call::for_each_part(const Visit& visit) {
  const auto visit_member = [&]<class Member>(const char* name, Member& member) {
    const Role role = role_of(name, backward_);
    if constexpr (std::same_as<Member, Tensor>) {
      visit(name, member, role);
    } else if constexpr (std::same_as<Member, std::optional<Tensor>>) {
      if (member) visit(name, *member, role);
    } else if constexpr (std::same_as<Member, std::optional<PreparedMask>>) {
      if (!member) return;
      Tensor view = bytes_of(*member);
      view.data = const_cast<void*>(member->data);
      visit(name, view, role);
      member->data = view.data;
    } else if constexpr (std::is_pointer_v<Member>) {
      if (member == nullptr) return;
      Tensor view = find_array(name)->view(args_.forward);
      view.data = const_cast<void*>(static_cast<const void*>(member));
      visit(name, view, role);
      member = static_cast<Member>(view.data);
    } else if constexpr (std::same_as<Member, std::span<const Operand>>) {
      for (std::size_t n = 0; n < operands_.size(); ++n) {
        visit(std::string(name) + "." + names_[n], operands_[n].tensor, role);
      }
    } else if constexpr (std::same_as<Member, std::span<const Tensor>>) {
      for (std::size_t n = 0; n < gradients_.size(); ++n) {
        visit(std::string(name) + "." + names_[n], gradients_[n], role);
      }
    } else {
      // Members without memory of their own, and those whose members are visited behind them.
      static_assert(std::integral<Member> || std::same_as<Member, Expression> ||
                    std::same_as<Member, PlaneOrder> || std::same_as<Member, ForwardArgs> ||
                    std::same_as<Member, std::optional<BlockLists>>);
    }
  };
  base::for_each_field(args_.forward, visit_member);
  if (args_.forward.blocks) base::for_each_field(*args_.forward.blocks, visit_member);
  if (backward_) base::for_each_field(args_, visit_member);
}

std::vector<Part> Call::parts() const {
  std::vector<Part> parts;
  Call copy(*this);
  copy.for_each_part([&](const std::string& name, Tensor& view, Role role) {
    parts.push_back({name, view, role});
  });
  return parts;
}

void Call::place(std::span<void* const> addresses) {
  std::size_t next = 0;
  for_each_part([&](const std::string&, Tensor& view, Role) {
    void* const address = addresses[next++];
    if (view.data != nullptr) view.data = address;
  });
}

}  // namespace attnjit::dump
