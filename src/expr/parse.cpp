#include "expr/parse.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "attnjit/error.hpp"
#include "base/printable.hpp"
#include "expr/lexer.hpp"
#include "expr/operations.hpp"

namespace attnjit::expr {
namespace {

constexpr std::size_t kMaxNameShown = 40;
// Brackets, arguments and signs inside each other at most: an expression of kMaxDepth has fewer
// than two for each of its levels.
constexpr int kMaxNesting = 2 * kMaxDepth;

// The declaration that a name of a canonical text makes: f0, i1, b2.
std::optional<OperandDeclaration> canonical_declaration(std::string_view name, std::size_t rank) {
  constexpr std::string_view kDigits = "0123456789";
  if (name.size() < 2 || name.find_first_not_of(kDigits, 1) != name.npos) return std::nullopt;
  for (const Type type : {Type::kBool, Type::kInt, Type::kFloat}) {
    if (expr::name(type)[0] == name[0]) {
      return OperandDeclaration{std::string(name), type, static_cast<int>(rank)};
    }
  }
  return std::nullopt;
}

/// Parses by precedence: T. Norvell, "Parsing expressions by recursive descent", 1999, the method
/// of precedence climbing.
class Parser {
 public:
  Parser(std::string_view text, std::span<const OperandDeclaration> operands)
      : text_(text), lexer_(text), declared_(operands) {}
  /// Of a canonical text.
  explicit Parser(std::string_view text) : text_(text), lexer_(text), declares_(true) {}

  Expr parse(Kind kind) {
    if (text_.size() > kMaxText) {
      reject_at(text_, kMaxText, fmt::format("the text is longer than {} bytes", kMaxText));
    }
    if (kind == Kind::kKeep) allows_score_ = false;
    advance();
    const std::size_t place = token_.place;
    int value = ternary();
    if (token_.kind != TokenKind::kEnd) unexpected("an operator or the end");
    value = located(place, [&] { return make_root(graph_, kind, value); });
    return graph_.finish(value);
  }

 private:
  /// Counts levels of recursion.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.level_ > kMaxNesting) {
        parser_.fail(fmt::format("more than {} levels of brackets; expected fewer", kMaxNesting));
      }
    }
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  // ternary = infix [ "?" ternary ":" ternary ]
  int ternary() {
    const Level level(*this);
    const int condition = infix(precedence::kOr);
    const std::size_t place = token_.place;
    if (!accept("?")) return condition;
    const int a = ternary();
    expect(":");
    const int b = ternary();
    return make_at(place, Op::kSelect, {condition, a, b});
  }

  // infix = prefix { operator infix }, where operators bind at least as tightly as `least`
  int infix(int least) {
    int left = prefix();
    for (;;) {
      const Op op = token_.kind == TokenKind::kSymbol
                        ? find_operation(token_.text, Notation::kInfix)
                        : Op::kLiteral;
      const int level = operation(op).precedence;
      if (op == Op::kLiteral || level < least) return left;
      const std::size_t place = token_.place;
      advance();
      const int right = infix(level + 1);
      left = make_at(place, op, {left, right});
    }
  }

  // prefix = ( "-" | "!" ) prefix | primary
  int prefix() {
    const Op op = token_.kind == TokenKind::kSymbol ? find_operation(token_.text, Notation::kPrefix)
                                                    : Op::kLiteral;
    if (op == Op::kLiteral) return primary();
    const Level level(*this);
    const std::size_t place = token_.place;
    advance();
    constexpr std::uint64_t kLowest = std::uint64_t{1} << 63;
    if (op == Op::kNegate && token_.kind == TokenKind::kInt && token_.number == kLowest) {
      advance();
      return graph_.add(literal(std::numeric_limits<std::int64_t>::min()));
    }
    return make_at(place, op, {prefix()});
  }

  int primary() {
    const Token token = token_;
    switch (token.kind) {
      case TokenKind::kInt: {
        constexpr std::uint64_t kHighest = std::numeric_limits<std::int64_t>::max();
        if (token.number > kHighest) fail("a number outside of int64");
        advance();
        return graph_.add(literal(static_cast<std::int64_t>(token.number)));
      }
      case TokenKind::kFloat:
        advance();
        return graph_.add(literal(token.value));
      case TokenKind::kWord:
        advance();
        return word(token);
      default:
        break;
    }
    if (!accept("(")) unexpected("a value");
    const int value = ternary();
    expect(")");
    return value;
  }

  int word(const Token& token) {
    if (token.text == "true" || token.text == "false") {
      return graph_.add(literal(token.text == "true"));
    }
    if (token.text == "inf") return graph_.add(literal(std::numeric_limits<float>::infinity()));
    if (token.text == "s") {
      if (!allows_score_) {
        reject_at(text_, token.place,
                  "s is used in a keep expression; expected it in a score alone");
      }
      return graph_.add(score());
    }
    if (const int found = find_index(token.text); found < kNumIndices) {
      return graph_.add(index(static_cast<Index>(found)));
    }
    if (const Op op = find_operation(token.text, Notation::kFunction); op != Op::kLiteral) {
      expect("(");
      const std::vector<int> args = list(")");
      return located(token.place, [&] { return make(graph_, op, args); });
    }
    return read(token);
  }

  int read(const Token& token) {
    const auto declared = std::ranges::find(declared_, token.text,
                                            [](const auto& d) { return std::string_view(d.name); });
    if (declared == declared_.end() && !declares_) unknown(token);
    std::vector<int> indices;
    if (accept("[")) indices = list("]");
    const auto declaration =
        declares_ ? canonical_declaration(token.text, indices.size()) : std::optional(*declared);
    if (!declaration) unknown(token);
    return located(token.place,
                   [&] { return make_read(graph_, graph_.operand(*declaration), indices); });
  }

  // list = [ ternary { "," ternary } ] close
  std::vector<int> list(const char* close) {
    std::vector<int> values;
    if (accept(close)) return values;
    do {
      values.push_back(ternary());
      if (values.size() > kMaxRank) fail(fmt::format("more than {} values in a list", kMaxRank));
    } while (accept(","));
    expect(close);
    return values;
  }

  int make_at(std::size_t place, Op op, std::initializer_list<int> args) {
    return located(place, [&] { return make(graph_, op, args); });
  }

  // The node that `make` adds to the graph; errors get a caret at `place`.
  template <class Make>
  int located(std::size_t place, Make make) {
    int added = 0;
    try {
      added = make();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalidProblem) throw;
      reject_at(text_, place, error.what());
    }
    if (const std::string why = graph_.why_too_large(added); !why.empty()) {
      reject_at(text_, place, why);
    }
    return added;
  }

  bool accept(std::string_view symbol) {
    if (token_.kind != TokenKind::kSymbol || token_.text != symbol) return false;
    advance();
    return true;
  }

  void expect(const char* symbol) {
    if (!accept(symbol)) unexpected(symbol);
  }

  void advance() { token_ = lexer_.next(); }

  [[noreturn]] void fail(const std::string& message) { reject_at(text_, token_.place, message); }

  [[noreturn]] void unexpected(const char* expected) {
    fail(token_.kind == TokenKind::kEnd
             ? fmt::format("the text ends here; expected {}", expected)
             : fmt::format("{} stands here; expected {}", base::excerpt(token_.text, kMaxNameShown),
                           expected));
  }

  [[noreturn]] void unknown(const Token& token) {
    std::string names;
    for (const OperandDeclaration& operand : declared_) {
      names += (names.empty() ? "" : ", ") + operand.name;
    }
    reject_at(text_, token.place,
              fmt::format("{} is no index, function or operand; operands are {}",
                          base::excerpt(token.text, kMaxNameShown),
                          names.empty() ? "none" : base::excerpt(names, 200)));
  }

  std::string_view text_;
  Lexer lexer_;
  std::span<const OperandDeclaration> declared_;
  Graph graph_;
  Token token_;
  int level_ = 0;
  bool allows_score_ = true;
  bool declares_ = false;  // names declare operands
};

}  // namespace

Expr parse(Kind kind, std::string_view text, std::span<const OperandDeclaration> operands) {
  check_declarations(operands);
  return Parser(text, operands).parse(kind);
}

Expr parse_canonical(Kind kind, std::string_view text) { return Parser(text).parse(kind); }

}  // namespace attnjit::expr
