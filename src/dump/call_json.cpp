#include "dump/call_json.hpp"

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>

#include "base/dtype.hpp"
#include "base/fields_json.hpp"
#include "expr/interned.hpp"
#include "problem/call_members.hpp"

template <>
struct attnjit::base::Words<attnjit::Diagonal> {
  static constexpr Word<Diagonal> kAll[] = {{"unspecified", Diagonal::kUnspecified},
                                            {"top_left", Diagonal::kTopLeft},
                                            {"bottom_right", Diagonal::kBottomRight}};
};

namespace attnjit {

constexpr auto fields(const Window*) {
  return base::fields_of<Window>(base::Field{"left", &Window::left},
                                 base::Field{"right", &Window::right});
}
constexpr auto fields(const PlaneOrder*) {
  return base::fields_of<PlaneOrder>(base::Field{"inner", &PlaneOrder::inner},
                                     base::Field{"cycle", &PlaneOrder::cycle});
}

namespace dump {
namespace {

using base::from_json_value;
using base::Json;
using base::refuse_json;

constexpr std::size_t kMaxOperands = 64;  // far above what a call may have
constexpr std::int64_t kMaxElements = std::int64_t{1} << 56;

Json address_json(const void* address) {
  if (address == nullptr) return nullptr;
  return reinterpret_cast<std::uintptr_t>(address) % kAddressBytes;
}

Json json_of(const Tensor& tensor) {
  const auto& [data, dtype, shape, strides] = tensor;  // every member
  return {{"address", address_json(data)},
          {"dtype", base::word(dtype)},
          {"shape", shape},
          {"strides", strides}};
}
Json json_of(const PreparedMask& mask) {
  const auto& [data, shape, for_backward] = mask;
  return {{"address", address_json(data)}, {"shape", shape}, {"for_backward", for_backward}};
}
Json json_of(const Expression& expression) { return std::string(expression.text()); }
Json json_of(std::span<const Operand> operands) {
  Json list = Json::array();
  for (const auto& [name, rank, tensor] : operands) {
    list.push_back({{"name", name}, {"rank", rank}, {"tensor", json_of(tensor)}});
  }
  return list;
}
Json json_of(std::span<const Tensor> tensors) {
  Json list = Json::array();
  for (const Tensor& tensor : tensors) list.push_back(json_of(tensor));
  return list;
}
template <class T>
requires std::integral<T> || std::floating_point<T> || std::is_enum_v<T> ||
    std::same_as<T, Window> || std::same_as<T, PlaneOrder>
        Json json_of(const T& value) {
  return base::to_json_value(value);
}
template <class T>
Json json_of(T* const& array) {
  return address_json(array);
}
Json json_of(const BlockLists& lists);
template <class T>
Json json_of(const std::optional<T>& member) {
  return member ? json_of(*member) : Json(nullptr);
}

template <class Args>
void add_members(const Args& args, Json& object) {
  base::for_each_field(args, [&](const char* name, const auto& member) {
    if constexpr (!std::same_as<std::remove_cvref_t<decltype(member)>, ForwardArgs>) {
      object[name] = json_of(member);
    }
  });
}

Json json_of(const BlockLists& lists) {
  Json object = Json::object();
  add_members(lists, object);
  return object;
}

void expect_count(const char* what, std::int64_t value) {
  if (value >= 0 && value <= kMaxElements) return;
  refuse_json(what, value, "0 or more, of 2^56 elements at most");
}

// Reads the members that add_members() writes.
class Reader {
 public:
  explicit Reader(Call& call) : call_(call) {}

  template <class Args>
  void read_members(Args& args, const Json& json) {
    base::for_each_field(args, [&](const char* name, auto& member) {
      if constexpr (!std::same_as<std::remove_cvref_t<decltype(member)>, ForwardArgs>) {
        if (!json.contains(name)) refuse_json("call", json, fmt::format("a member \"{}\"", name));
        read(json[name], name, member);
        ++members_;
      }
    });
  }
  std::size_t members() const { return members_; }

 private:
  static const Json& member_of(const Json& json, const std::string& what, const char* name) {
    if (!json.is_object() || !json.contains(name)) {
      refuse_json(what, json, fmt::format("an object with a member \"{}\"", name));
    }
    return json[name];
  }
  static void* read_address(const Json& json, const std::string& what) {
    if (json.is_null()) return nullptr;
    const auto address = from_json_value<std::uint32_t>(json, what);
    if (address >= kAddressBytes) refuse_json(what, json, fmt::format("< {}", kAddressBytes));
    return reinterpret_cast<void*>(kAddressBytes + address);
  }
  static std::array<std::int64_t, 4> read_four(const Json& json, const std::string& what) {
    if (!json.is_array() || json.size() != 4) refuse_json(what, json, "four integers");
    std::array<std::int64_t, 4> four{};
    for (std::size_t i = 0; i < four.size(); ++i) {
      four[i] = from_json_value<std::int64_t>(json[i], what);
    }
    return four;
  }
  static std::array<std::int64_t, 4> read_shape(const Json& json, const std::string& what) {
    const std::array<std::int64_t, 4> shape = read_four(json, what);
    std::int64_t elements = 1;
    for (const std::int64_t size : shape) {
      if (size < 0 ||
          __builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements) ||
          elements > kMaxElements) {
        refuse_json(what, json, "sizes from 0 of 2^56 elements at most");
      }
    }
    return shape;
  }

  static void read(const Json& json, const std::string& what, Tensor& tensor) {
    tensor.data = read_address(member_of(json, what, "address"), what + ".address");
    tensor.dtype = from_json_value<DType>(member_of(json, what, "dtype"), what + ".dtype");
    tensor.shape = read_shape(member_of(json, what, "shape"), what + ".shape");
    tensor.strides = read_four(member_of(json, what, "strides"), what + ".strides");
  }
  static void read(const Json& json, const std::string& what, PreparedMask& mask) {
    constexpr std::int64_t kMaxMaskElements = std::int64_t{1} << 40;
    constexpr std::int64_t kMaxMaskSize = std::numeric_limits<std::int32_t>::max() / 2;
    mask.data = read_address(member_of(json, what, "address"), what + ".address");
    mask.shape = read_shape(member_of(json, what, "shape"), what + ".shape");
    std::int64_t elements = 1;
    bool fits = true;
    for (const std::int64_t size : mask.shape) {
      elements *= std::max<std::int64_t>(size, 1);
      fits = fits && size <= kMaxMaskSize;
    }
    if (!fits || elements > kMaxMaskElements) {
      refuse_json(what + ".shape", json, "the shape of a mask");
    }
    mask.for_backward =
        from_json_value<bool>(member_of(json, what, "for_backward"), what + ".for_backward");
  }
  static void read(const Json& json, const std::string& what, Expression& expression) {
    const auto text = from_json_value<std::string>(json, what);
    if (text.empty()) return;
    try {
      expression = expr::expression(text);
    } catch (const Error&) {
      refuse_json(what, json, "the text of an expression, as attnjit writes it");
    }
  }
  void read(const Json& json, const std::string& what, std::span<const Operand>&) {
    if (!json.is_array() || json.size() > kMaxOperands)
      refuse_json(what, json, "a list of operands");
    std::vector<Operand> operands(json.size());
    std::vector<std::string> names(json.size());
    for (std::size_t n = 0; n < operands.size(); ++n) {
      const std::string place = fmt::format("{}[{}]", what, n);
      names[n] = from_json_value<std::string>(member_of(json[n], place, "name"), place + ".name");
      operands[n].name = names[n].c_str();
      operands[n].rank = from_json_value<int>(member_of(json[n], place, "rank"), place + ".rank");
      read(member_of(json[n], place, "tensor"), place + ".tensor", operands[n].tensor);
    }
    call_.set_operands(operands);
  }
  void read(const Json& json, const std::string& what, std::span<const Tensor>&) {
    const std::size_t operands = call_.forward_args().operands.size();
    if (!json.is_array() || (!json.empty() && json.size() != operands)) {
      refuse_json(what, json, "none, or one for each operand");
    }
    std::vector<Tensor> tensors(json.size());
    for (std::size_t n = 0; n < tensors.size(); ++n) {
      read(json[n], fmt::format("{}[{}]", what, n), tensors[n]);
    }
    call_.set_gradients(tensors);
  }
  template <class T>
  requires std::integral<T> || std::floating_point<T> || std::is_enum_v<T> ||
      std::same_as<T, Window> || std::same_as<T, PlaneOrder>
  static void read(const Json& json, const std::string& what, T& value) {
    value = from_json_value<T>(json, what);
  }
  template <class T>
  static void read(const Json& json, const std::string& what, T*& array) {
    array = static_cast<T*>(read_address(json, what));
  }
  void read(const Json& json, const std::string& what, BlockLists& lists) {
    std::size_t members = 0;
    base::for_each_field(lists, [&](const char* name, auto& member) {
      read(member_of(json, what, name), name, member);
      ++members;
    });
    if (json.size() != members) refuse_json(what, json, "the members of lists of blocks alone");
    expect_count("blocks.num_kv_blocks", lists.num_kv_blocks);
  }

  template <class T>
  void read(const Json& json, const std::string& what, std::optional<T>& member) {
    if (json.is_null()) return;
    read(json, what, member.emplace());
  }

  Call& call_;
  std::size_t members_ = 0;
};

}  // namespace

Json to_json(const Call& call) {
  Json object = Json::object();
  add_members(static_cast<const ScoreOptions&>(call.forward_args()), object);
  add_members(call.forward_args(), object);
  if (call.backward()) add_members(call.backward_args(), object);
  return object;
}

Call call_from_json(const Json& json, bool backward) {
  if (!json.is_object()) refuse_json("call", json, "an object");
  Call call = backward ? Call(BackwardArgs{}) : Call(ForwardArgs{});
  Reader reader(call);
  BackwardArgs& args = call.members();
  reader.read_members(static_cast<ScoreOptions&>(args.forward), json);
  reader.read_members(args.forward, json);
  if (backward) reader.read_members(args, json);
  if (json.size() != reader.members()) {
    refuse_json("call", json, "the members of this version's calls alone");
  }
  expect_count("num_sequences", args.forward.num_sequences);
  expect_count("max_pages", args.forward.max_pages);
  return call;
}

}  // namespace dump
}  // namespace attnjit
