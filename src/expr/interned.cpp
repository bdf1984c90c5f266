#include "expr/interned.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <unordered_set>

#include "attnjit/error.hpp"
#include "base/dtype.hpp"
#include "base/per_process.hpp"
#include "expr/lexer.hpp"
#include "expr/parse.hpp"
#include "expr/print.hpp"

namespace attnjit::expr {

// Values that never change, so that no call can tell who else has asked for them.
class RefTable {
 public:
  static Ref keep(Interned entry) {
    static const base::PerProcess<RefTable> table;
    const std::lock_guard lock(table->mutex_);
    const auto [at, is_new] = table->entries_.try_emplace(entry.text, entry);
    return Ref(&at->second);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Interned> entries_;
};

class TextTable {
 public:
  static Expression keep(std::string_view text) {
    static const base::PerProcess<TextTable> table;
    const std::lock_guard lock(table->mutex_);
    return Expression(&*table->texts_.emplace(text).first);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::string> texts_;
};

namespace {

constexpr std::string_view kSeparator = "; ";

const char* name(Kind kind) { return kind == Kind::kScore ? "score" : "keep"; }

[[noreturn]] void refuse(std::string_view text) {
  throw Error(ErrorKind::kInvalidProblem,
              fmt::format("expression: \"{}\" is no canonical text of a score or a keep", text));
}

DType parse_dtype(std::string_view word, std::string_view text) {
  for (const auto& each : base::Words<DType>::kAll) {
    if (word == each.text) return each.value;
  }
  refuse(text);
}

}  // namespace

Ref Ref::of(Kind kind, const Expr& e, std::vector<DType> dtypes) {
  if (dtypes.size() != e.operands().size()) {
    throw Error(ErrorKind::kInternal, "an expression needs a dtype for each operand");
  }
  std::string text = fmt::format("{} {}", name(kind), canonical_text(e));
  for (std::size_t n = 0; n < dtypes.size(); ++n) {
    text += fmt::format("{}{}", n == 0 ? kSeparator : ", ", base::word(dtypes[n]));
  }
  const BoundedSides bounded = kind == Kind::kKeep ? bounded_sides(e) : BoundedSides{};
  const ReadBlocks blocks = kind == Kind::kKeep ? read_blocks(e) : ReadBlocks{};
  return RefTable::keep({kind, e, std::move(dtypes), uses(e), bounded, blocks, std::move(text)});
}

Ref Ref::parse(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t blank = text.find(' ');
  if (blank == text.npos) refuse(text);
  const std::string_view word = text.substr(0, blank);
  if (word != name(Kind::kScore) && word != name(Kind::kKeep)) refuse(text);
  const Kind kind = word == name(Kind::kScore) ? Kind::kScore : Kind::kKeep;
  const std::size_t separator = text.find(kSeparator);
  const Expr e = parse_canonical(kind, text.substr(blank + 1, separator - blank - 1));
  std::vector<DType> dtypes;
  std::string_view rest = separator == text.npos ? "" : text.substr(separator + 2);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(", ");
    dtypes.push_back(parse_dtype(rest.substr(0, comma), text));
    rest = comma == rest.npos ? "" : rest.substr(comma + 2);
  }
  if (dtypes.size() != e.operands().size()) refuse(text);
  const Ref ref = of(kind, e, std::move(dtypes));
  if (ref.text() != text) refuse(text);
  return ref;
}

Expression expression(std::string_view text) {
  if (text.size() > kMaxText) {
    throw Error(ErrorKind::kInvalidProblem,
                fmt::format("expression: {} bytes; expected at most {}", text.size(), kMaxText));
  }
  Lexer lexer(text);
  Token token = lexer.next();
  if (token.kind == TokenKind::kEnd) reject_at(text, 0, "expression: the text is empty");
  while (token.kind != TokenKind::kEnd) token = lexer.next();
  return TextTable::keep(text);
}

const char* kept_name(std::string_view name) { return TextTable::keep(name).text().data(); }

}  // namespace attnjit::expr
