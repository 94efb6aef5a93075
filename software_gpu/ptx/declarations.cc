// SPDX-License-Identifier: Apache-2.0
//
// Parses declarations of variables, registers and parameters (PTX ISA 5.4), and defines the cursor of the whole reader.
#include <algorithm>
#include <bit>

#include "ptx/syntax.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr uint64_t kMaxVariable = uint64_t{1} << 32;
constexpr uint64_t kMaxInitial = uint64_t{1} << 28;
constexpr uint64_t kMaxRegisters = 1 << 20;

/// Returns one number of an initializer, in the representation of `type`.
uint64_t Initial(Cursor& cursor, Type type) {
  const bool minus = cursor.TakeSign('-');
  const Token& token = cursor.Take();
  uint64_t value = token.value;
  if (token.kind == TokenKind::kFloat32 || token.kind == TokenKind::kFloat64) {
    double number = token.kind == TokenKind::kFloat32 ? std::bit_cast<float>(static_cast<uint32_t>(value))
                                                      : std::bit_cast<double>(value);
    if (minus) number = -number;
    if (type == Type::kF64 || (type == Type::kB64 && token.kind == TokenKind::kFloat64)) {
      return std::bit_cast<uint64_t>(number);
    }
    if (type == Type::kF32 || type == Type::kB32) return std::bit_cast<uint32_t>(static_cast<float>(number));
    throw ReadError(token.line, "a float initializes a variable of another type");
  }
  if (token.kind != TokenKind::kInteger) {
    throw ReadError(token.line, "unknown initializer '" + std::string(token.text) + "'");
  }
  if (IsFloat(type)) throw ReadError(token.line, "an integer initializes a float");
  return minus ? 0 - value : value;
}

class InitializerParser {
 public:
  InitializerParser(Cursor& cursor, Variable& variable, Type type, uint64_t limit)
      : cursor_(cursor), variable_(variable), type_(type), limit_(std::min(limit, kMaxInitial)) {}

  void Parse(int depth = 0) {
    if (depth > 8) cursor_.Fail("an initializer nested too deep");
    if (!cursor_.TakeSign('{')) return Element();
    if (cursor_.TakeSign('}')) return;
    do Parse(depth + 1);
    while (cursor_.TakeSign(','));
    cursor_.Expect('}');
  }

 private:
  /// Parses a number, or an address: `name`, `generic(name)`, either with `+n`. A byte of an address, `0xFF(...)`, is
  /// refused.
  void Element() {
    uint64_t value = 0;
    if (cursor_.Peek().kind == TokenKind::kWord) {
      const bool generic = cursor_.TakeWord("generic");
      if (generic) cursor_.Expect('(');
      Relocation relocation{variable_.initial.size(), static_cast<uint32_t>(Bits(type_) / 8), cursor_.Name(), 0};
      if (generic) cursor_.Expect(')');
      if (cursor_.TakeSign('+')) relocation.addend = cursor_.Integer();
      if (relocation.bytes != 8) cursor_.Fail("an address in a variable that is not of 64 bits");
      variable_.relocations.push_back(std::move(relocation));
    } else {
      value = Initial(cursor_, type_);
      if (cursor_.IsSign('(')) cursor_.Fail("parts of an address as initializer are not known");
    }
    for (int bit = 0; bit < Bits(type_); bit += 8) {
      variable_.initial.push_back(static_cast<std::byte>(value >> bit & 0xff));
    }
    if (variable_.initial.size() > limit_) cursor_.Fail("more initializers than " + variable_.name + " has elements");
  }

  Cursor& cursor_;
  Variable& variable_;
  Type type_;
  uint64_t limit_;
};

uint64_t Alignment(Cursor& cursor) {
  const uint64_t alignment = cursor.Integer();
  if (!std::has_single_bit(alignment) || alignment > 65536) cursor.Fail("unknown alignment");
  return alignment;
}

/// Parses the words between the space and the first name.
Variable ParseType(Cursor& cursor, Space space, int& lanes) {
  Variable variable;
  variable.space = space;
  bool pointer = false;
  lanes = 1;
  while (cursor.Peek().kind == TokenKind::kWord && cursor.Peek().text.starts_with('.')) {
    const std::string word(cursor.Take().text);
    if (word == ".align") {
      const uint64_t alignment = Alignment(cursor);
      if (!pointer) variable.alignment = alignment;  // otherwise of the memory to which it points
    } else if (word == ".ptr" && space == Space::kParameter) {
      pointer = true;
    } else if (pointer && (word == ".global" || word == ".const" || word == ".shared" || word == ".local")) {
      // The space to which a pointer points does not change how it is passed.
    } else if ((word == ".v2" || word == ".v4") && space != Space::kRegister && space != Space::kParameter) {
      lanes = word == ".v2" ? 2 : 4;
    } else if (variable.type == Type::kNone && TypeOf(word) != Type::kNone) {
      variable.type = TypeOf(word);
    } else {
      cursor.Fail("unknown word '" + word + "' in a declaration");
    }
  }
  if (variable.type == Type::kNone) cursor.Fail("a declaration without a type");
  if (variable.type == Type::kPred && space != Space::kRegister) cursor.Fail("a predicate that is no register");
  return variable;
}

void ParseDimensions(Cursor& cursor, Variable& variable, uint64_t element) {
  uint64_t count = 1;
  while (cursor.TakeSign('[')) {
    if (cursor.TakeSign(']')) {
      variable.unsized = true;
      continue;
    }
    const uint64_t dimension = cursor.Integer();
    cursor.Expect(']');
    if (dimension > kMaxVariable || count * dimension > kMaxVariable) cursor.Fail("too large: " + variable.name);
    count *= dimension;
  }
  variable.bytes = variable.unsized ? 0 : count * element;
  if (variable.bytes > kMaxVariable) cursor.Fail("too large: " + variable.name);
}

}  // namespace

const Token& Cursor::Take() {
  const Token& token = Peek();
  if (at_ < tokens_.size()) ++at_;
  return token;
}

bool Cursor::TakeSign(char sign) {
  if (!IsSign(sign)) return false;
  Take();
  return true;
}

bool Cursor::TakeWord(std::string_view word) {
  if (!IsWord(word)) return false;
  Take();
  return true;
}

void Cursor::Expect(char sign) {
  if (!TakeSign(sign)) Fail(std::string("expected '") + sign + "', got '" + std::string(Peek().text) + "'");
}

std::string Cursor::Name() {
  if (Peek().kind != TokenKind::kWord) Fail("expected a name, got '" + std::string(Peek().text) + "'");
  return std::string(Take().text);
}

uint64_t Cursor::Integer() {
  if (Peek().kind != TokenKind::kInteger) Fail("expected a number, got '" + std::string(Peek().text) + "'");
  return Take().value;
}

void Cursor::SkipLine() {
  const int line = Peek().line;
  while (Peek().kind != TokenKind::kEnd && Peek().line == line) Take();
}

void Cursor::SkipBlock() {
  Expect('{');
  for (int depth = 1; depth > 0; Take()) {
    if (Peek().kind == TokenKind::kEnd) Fail("a block without an end");
    depth += IsSign('{') ? 1 : IsSign('}') ? -1 : 0;
  }
}

Type TypeOf(std::string_view word) {
  static constexpr std::pair<std::string_view, Type> kTypes[] = {
      {"pred", Type::kPred}, {"b8", Type::kB8},     {"b16", Type::kB16},     {"b32", Type::kB32},
      {"b64", Type::kB64},   {"b128", Type::kB128}, {"u8", Type::kU8},       {"u16", Type::kU16},
      {"u32", Type::kU32},   {"u64", Type::kU64},   {"s8", Type::kS8},       {"s16", Type::kS16},
      {"s32", Type::kS32},   {"s64", Type::kS64},   {"f16", Type::kF16},     {"bf16", Type::kBf16},
      {"f32", Type::kF32},   {"f64", Type::kF64},   {"f16x2", Type::kF16x2}, {"bf16x2", Type::kBf16x2},
  };
  if (word.starts_with('.')) word.remove_prefix(1);
  for (const auto& [name, type] : kTypes) {
    if (name == word) return type;
  }
  return Type::kNone;
}

std::vector<std::string_view> SplitWord(std::string_view word) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t dot = word.find('.');
    parts.push_back(word.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    word.remove_prefix(dot + 1);
  }
}

std::vector<Variable> ParseVariables(Cursor& cursor, Space space, bool initializers) {
  int lanes = 1;
  Variable common = ParseType(cursor, space, lanes);
  const uint64_t element = static_cast<uint64_t>(Bits(common.type)) / 8 * lanes;
  if (space != Space::kRegister) common.alignment = std::max(common.alignment, element);
  std::vector<Variable> variables;
  do {
    Variable variable = common;
    variable.line = cursor.line();
    variable.name = cursor.Name();
    if (space == Space::kRegister && cursor.TakeSign('<')) {
      variable.registers = cursor.Integer();
      cursor.Expect('>');
      if (variable.registers > kMaxRegisters) cursor.Fail("too many registers: " + variable.name);
    } else if (space != Space::kRegister) {
      ParseDimensions(cursor, variable, element);
    }
    if (initializers && cursor.TakeSign('=')) {
      InitializerParser(cursor, variable, common.type, variable.unsized ? kMaxInitial : variable.bytes).Parse();
      if (variable.unsized) variable.bytes = variable.initial.size();
    }
    variables.push_back(std::move(variable));
  } while (cursor.TakeSign(','));
  return variables;
}

std::vector<Variable> ParseParameters(Cursor& cursor) {
  std::vector<Variable> parameters;
  cursor.Expect('(');
  if (cursor.TakeSign(')')) return parameters;
  do {
    const bool in_register = cursor.TakeWord(".reg");
    if (!in_register && !cursor.TakeWord(".param")) cursor.Fail("expected .param or .reg");
    const Space space = in_register ? Space::kRegister : Space::kParameter;
    int lanes = 1;
    Variable parameter = ParseType(cursor, space, lanes);
    const uint64_t element = static_cast<uint64_t>(Bits(parameter.type)) / 8;
    parameter.line = cursor.line();
    parameter.name = cursor.Name();
    if (!in_register) {
      parameter.alignment = std::max(parameter.alignment, element);
      ParseDimensions(cursor, parameter, element);
    }
    parameters.push_back(std::move(parameter));
  } while (cursor.TakeSign(','));
  cursor.Expect(')');
  return parameters;
}

}  // namespace callout::software_gpu::ptx
