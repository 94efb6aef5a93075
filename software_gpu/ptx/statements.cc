// SPDX-License-Identifier: Apache-2.0
//
// Parses statements and operands of functions (PTX ISA 4.3, 4.6, 6).
#include "ptx/syntax.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr size_t kMaxOperands = 64;
constexpr int kMaxScopes = 256;

class BodyParser {
 public:
  explicit BodyParser(Cursor& cursor) : cursor_(cursor) {}

  std::vector<Statement> Parse() {
    for (int depth = 1; depth > 0;) {
      if (cursor_.Peek().kind == TokenKind::kEnd) cursor_.Fail("a function without an end");
      if (cursor_.IsSign('{')) {
        if (++depth > kMaxScopes) cursor_.Fail("blocks nested too deep");
        Add(Statement::kOpen);
        cursor_.Take();
      } else if (cursor_.IsSign('}')) {
        if (--depth > 0) Add(Statement::kClose);
        cursor_.Take();
      } else if (!cursor_.TakeSign(';')) {
        ParseStatement();
      }
    }
    return std::move(statements_);
  }

 private:
  Statement& Add(Statement::Kind kind) {
    Statement& statement = statements_.emplace_back();
    statement.kind = kind;
    statement.line = cursor_.line();
    return statement;
  }

  void ParseStatement() {
    if (cursor_.Peek().kind == TokenKind::kWord && cursor_.IsSign(':', 1)) {
      Add(Statement::kLabel).spelling = cursor_.Name();
      cursor_.Take();
    } else if (cursor_.Peek().kind == TokenKind::kWord && cursor_.Peek().text.starts_with('.')) {
      ParseDirective();
    } else {
      ParseInstruction();
    }
  }

  void ParseDirective() {
    static constexpr std::pair<std::string_view, Space> kSpaces[] = {
        {".reg", Space::kRegister},    {".local", Space::kLocal},   {".shared", Space::kShared},
        {".param", Space::kParameter}, {".global", Space::kGlobal}, {".const", Space::kConstant},
    };
    const std::string word(cursor_.Peek().text);
    if (word == ".loc") return cursor_.SkipLine();  // the place in a source, for debuggers
    if (word == ".pragma") {                        // hints to ptxas, such as "nounroll"
      cursor_.SkipLine();
      return;
    }
    for (const auto& [name, space] : kSpaces) {
      if (name != word) continue;
      Statement& statement = Add(Statement::kDeclaration);
      cursor_.Take();
      statement.variables = ParseVariables(cursor_, space, space == Space::kGlobal || space == Space::kConstant);
      return cursor_.Expect(';');
    }
    if (word == ".callprototype") return ParsePrototype();
    if (word == ".branchtargets" || word == ".calltargets") return ParseTargets();
    cursor_.Fail("unknown directive '" + word + "'");
  }

  /// Turns the label before a directive into the directive, whose name it is.
  Statement& TurnLabel(Statement::Kind kind) {
    if (statements_.empty() || statements_.back().kind != Statement::kLabel)
      cursor_.Fail("a directive without a label");
    statements_.back().kind = kind;
    cursor_.Take();
    return statements_.back();
  }

  /// Parses `label: .callprototype (.param .b32 _) _ (.param .b64 _);`.
  void ParsePrototype() {
    Statement& statement = TurnLabel(Statement::kPrototype);
    if (cursor_.IsSign('(')) statement.variables = ParseParameters(cursor_);
    statement.returns = statement.variables.size();
    if (cursor_.Name() != "_") cursor_.Fail("expected '_' in a .callprototype");
    if (cursor_.IsSign('(')) {
      for (Variable& parameter : ParseParameters(cursor_)) statement.variables.push_back(std::move(parameter));
    }
    cursor_.TakeWord(".noreturn");
    cursor_.Expect(';');
  }

  void ParseTargets() {
    Statement& statement = TurnLabel(Statement::kTargets);
    do {
      Operand& target = statement.operands.emplace_back();
      target.name = cursor_.Name();
    } while (cursor_.TakeSign(','));
    cursor_.Expect(';');
  }

  void ParseInstruction() {
    Statement& statement = Add(Statement::kInstruction);
    if (cursor_.TakeSign('@')) {
      statement.guard_negated = cursor_.TakeSign('!');
      statement.guard = cursor_.Name();
    }
    statement.spelling = cursor_.Name();
    if (cursor_.TakeSign(';')) return;
    statement.operands = ParseOperands(';', 0);
  }

  std::vector<Operand> ParseOperands(char end, int depth) {
    std::vector<Operand> operands;
    if (cursor_.TakeSign(end)) return operands;
    while (true) {
      operands.push_back(ParseOperand(depth));
      if (cursor_.TakeSign('|')) {
        Operand pair;
        pair.kind = Operand::kPair;
        pair.parts = {std::move(operands.back()), ParseOperand(depth)};
        operands.back() = std::move(pair);
      }
      if (operands.size() > kMaxOperands) cursor_.Fail("too many operands");
      if (!cursor_.TakeSign(',')) break;
    }
    cursor_.Expect(end);
    return operands;
  }

  Operand ParseOperand(int depth) {
    if (depth > 4) cursor_.Fail("operands nested too deep");
    Operand operand;
    if (cursor_.TakeSign('[')) {
      operand.kind = Operand::kAddress;
      if (cursor_.Peek().kind == TokenKind::kWord) operand.name = cursor_.Name();
      operand.value = Sum(operand.name.empty());
      cursor_.Expect(']');
    } else if (cursor_.TakeSign('{')) {
      operand.kind = Operand::kVector;
      operand.parts = ParseOperands('}', depth + 1);
      // Triton writes { %r1 } where it loads or stores one element.
      if (operand.parts.size() == 1) return Operand(operand.parts.front());
    } else if (cursor_.TakeSign('(')) {
      operand.kind = Operand::kList;
      operand.parts = ParseOperands(')', depth + 1);
    } else if (cursor_.TakeSign('!')) {
      operand.negated = true;
      operand.name = cursor_.Name();
    } else if (cursor_.Peek().kind == TokenKind::kWord) {
      operand.name = cursor_.Name();
      operand.value = Sum(false);
    } else {
      ParseNumber(operand);
    }
    return operand;
  }

  /// Parses `+4`, `+-4`, `-4`, or a number without a sign if it comes `first`.
  uint64_t Sum(bool first) {
    uint64_t sum = 0;
    for (; first || cursor_.IsSign('+') || cursor_.IsSign('-'); first = false) {
      bool minus = false;
      while (cursor_.IsSign('+') || cursor_.IsSign('-')) minus ^= cursor_.Take().sign == '-';
      const uint64_t value = cursor_.Integer();
      sum += minus ? 0 - value : value;
    }
    return sum;
  }

  void ParseNumber(Operand& operand) {
    const bool minus = cursor_.TakeSign('-');
    const Token& token = cursor_.Take();
    operand.value = token.value;
    if (token.kind == TokenKind::kInteger) {
      operand.kind = Operand::kInteger;
      if (minus) operand.value = 0 - operand.value;
    } else if (token.kind == TokenKind::kFloat32) {
      operand.kind = Operand::kFloat32;
      if (minus) operand.value ^= uint64_t{1} << 31;
    } else if (token.kind == TokenKind::kFloat64) {
      operand.kind = Operand::kFloat64;
      if (minus) operand.value ^= uint64_t{1} << 63;
    } else {
      throw ReadError(token.line, "expected an operand, got '" + std::string(token.text) + "'");
    }
  }

  Cursor& cursor_;
  std::vector<Statement> statements_;
};

}  // namespace

std::vector<Statement> ParseBody(Cursor& cursor) { return BodyParser(cursor).Parse(); }

}  // namespace callout::software_gpu::ptx
