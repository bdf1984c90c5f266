#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace attnjit::reference {

/// One batch element and kv head, with the query heads of its group.
struct Plane {
  std::int64_t batch = 0;
  std::int64_t head_kv = 0;
  friend bool operator==(const Plane&, const Plane&) = default;
};

/// Which planes are computed and judged. dk and dv need every row of a plane, so a backward is
/// sampled by planes where a forward is sampled by Rows.
struct Planes {
  bool all = true;
  std::vector<Plane> list;  ///< read only if !all

  static Planes every() { return {}; }
  static Planes only(std::vector<Plane> planes) { return {false, std::move(planes)}; }

  bool holds(const Plane& plane) const {
    return all || std::find(list.begin(), list.end(), plane) != list.end();
  }
};

}  // namespace attnjit::reference
