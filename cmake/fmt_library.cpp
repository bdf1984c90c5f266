// The compiled part of fmt 9 and 10, for systems whose package holds headers and a shared library
// only: libattnjit must not depend on the latter, and fmt in every source file of ours costs five
// seconds of compiling each. A fmt that is downloaded brings a static library and needs none of
// this.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
// fmt/format.h declares these as instantiated elsewhere.
template FMT_API auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
}  // namespace detail
FMT_END_NAMESPACE
