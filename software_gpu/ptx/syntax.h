// SPDX-License-Identifier: Apache-2.0
//
// The parsed text of a module, before decoding: declarations, and statements of functions with their operands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/lexer.h"
#include "ptx/program.h"
#include "ptx/types.h"

namespace callout::software_gpu::ptx {

enum class Space : uint8_t { kNone, kRegister, kGlobal, kConstant, kShared, kLocal, kParameter };

/// A declared variable, parameter or register.
struct Variable {
  std::string name;
  Space space = Space::kNone;
  Type type = Type::kNone;
  uint64_t bytes = 0;
  uint64_t alignment = 1;
  bool external = false;
  bool visible = false;
  bool unsized = false;    ///< name[]
  uint64_t registers = 0;  ///< %r<n>: the number of names; 0 for a single one.
  std::vector<std::byte> initial;
  std::vector<Relocation> relocations;
  int line = 0;
};

struct Operand {
  enum Kind : uint8_t { kName, kInteger, kFloat32, kFloat64, kAddress, kVector, kList, kPair };
  Kind kind = kName;
  bool negated = false;  ///< !p
  std::string name;      ///< For kName, and the beginning of an address, where it may be empty. `_` is the sink.
  uint64_t value = 0;    ///< A number's bits, or the number added to an address.
  std::vector<Operand> parts;
};

struct Statement {
  enum Kind : uint8_t { kInstruction, kLabel, kOpen, kClose, kDeclaration, kPrototype, kTargets };
  Kind kind = kInstruction;
  int line = 0;
  std::string guard;  ///< @p
  bool guard_negated = false;
  std::string spelling;  ///< An instruction's spelling, or a label's name.
  std::vector<Operand> operands;
  /// A declaration's variables; for a prototype, its returns and then its parameters.
  std::vector<Variable> variables;
  size_t returns = 0;
};

struct FunctionText {
  std::string name;
  bool entry = false;
  bool body = false;
  int line = 0;
  std::vector<Variable> returns;
  std::vector<Variable> parameters;
  uint32_t max_threads = 1024;
  std::array<uint32_t, 3> required_block = {};
  std::vector<Statement> statements;
};

struct ModuleText {
  std::vector<Variable> variables;
  std::vector<FunctionText> functions;  ///< A name occurs once, with its body if it has one.
};

/// Throws ReadError.
ModuleText ParseModule(std::string_view text);

/// Returns the type of ".u32" or "u32"; kNone if the word is no type.
Type TypeOf(std::string_view word);
/// Splits "a.b.c" at its dots.
std::vector<std::string_view> SplitWord(std::string_view word);

/// Reads tokens one after another. Throws ReadError.
class Cursor {
 public:
  explicit Cursor(const std::vector<Token>& tokens) : tokens_(tokens) {}

  const Token& Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& Take();
  bool IsSign(char sign, size_t ahead = 0) const {
    return Peek(ahead).kind == TokenKind::kSign && Peek(ahead).sign == sign;
  }
  bool IsWord(std::string_view word) const { return Peek().kind == TokenKind::kWord && Peek().text == word; }
  bool TakeSign(char sign);
  bool TakeWord(std::string_view word);
  void Expect(char sign);
  std::string Name();
  uint64_t Integer();
  /// Skips the rest of the current line.
  void SkipLine();
  /// Skips a block in braces.
  void SkipBlock();
  int line() const { return Peek().line; }
  [[noreturn]] void Fail(const std::string& what) const { throw ReadError(line(), what); }

 private:
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
};

/// Parses `.align 4 .b8 name[16] = {...}` behind the word of its space; `space` is kRegister for registers. Names after
/// a comma are further variables.
std::vector<Variable> ParseVariables(Cursor& cursor, Space space, bool initializers);
/// Parses `(.param .b32 a, .reg .b64 b)`, also `.param .u64 .ptr .global .align 16 p`.
std::vector<Variable> ParseParameters(Cursor& cursor);
/// Parses the statements between the braces of a function, and the closing brace.
std::vector<Statement> ParseBody(Cursor& cursor);

}  // namespace callout::software_gpu::ptx
