// SPDX-License-Identifier: Apache-2.0
#include "host/programs/hlo_calls.h"

#include <map>
#include <optional>
#include <utility>

#include "core/attributes/jax_calls.h"
#include "core/encoding/percent.h"
#include "core/encoding/wire.h"
#include "host/programs/hlo_signature.h"

namespace callout::internal {
namespace {

constexpr std::string_view kOurTargets = "callout.v";
// HloModuleProto
constexpr int kComputations = 3;
// HloComputationProto
constexpr int kInstructions = 2;
// HloInstructionProto
constexpr int kShape = 3;
constexpr int kTarget = 28;
constexpr int kId = 35;
constexpr int kOperandIds = 36;
constexpr int kBackendConfig = 43;

struct Instruction {
  int64_t id = 0;
  std::string_view shape;
  std::string_view target;
  std::string_view config;
  std::vector<int64_t> operands;
};

Result<Instruction> ReadInstruction(std::string_view bytes) {
  Instruction instruction;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == kShape) instruction.shape = field->bytes;
    if (field->number == kTarget) instruction.target = field->bytes;
    if (field->number == kBackendConfig) instruction.config = field->bytes;
    if (field->number == kId) instruction.id = static_cast<int64_t>(field->value);
    if (field->number == kOperandIds && !AppendNumbers(*field, instruction.operands)) return UnreadableHlo();
  }
  if (!reader.ok()) return UnreadableHlo();
  return instruction;
}

// Appends the array, or those of the tuple; tokens are left out.
Status AppendArrays(std::string_view shape_bytes, std::vector<pjrt::ArrayType>& arrays) {
  CALLOUT_ASSIGN_OR_RETURN(HloShape shape, ParseHloShape(shape_bytes));
  if (shape.is_tuple) {
    for (const std::string_view element : shape.elements) {
      CALLOUT_ASSIGN_OR_RETURN(HloShape inner, ParseHloShape(element));
      if (!inner.is_tuple && inner.type.dtype != DType::kToken) arrays.push_back(std::move(inner.type));
    }
  } else if (shape.type.dtype != DType::kToken) {
    arrays.push_back(std::move(shape.type));
  }
  return OkStatus();
}

// Either ours, or the others.
Status AppendCalls(std::string_view computation, bool ours_only, std::vector<pjrt::CallbackUse>& calls) {
  std::map<int64_t, Instruction> by_id;
  std::vector<int64_t> wanted;
  WireReader reader(computation);
  while (const auto field = reader.Next()) {
    if (field->number != kInstructions || !field->is_bytes) continue;
    CALLOUT_ASSIGN_OR_RETURN(Instruction instruction, ReadInstruction(field->bytes));
    const bool is_ours = instruction.target.starts_with(kOurTargets) || IsJaxTarget(instruction.target);
    if (!instruction.target.empty() && is_ours == ours_only) wanted.push_back(instruction.id);
    by_id[instruction.id] = std::move(instruction);
  }
  if (!reader.ok()) return UnreadableHlo();
  for (const int64_t id : wanted) {
    const Instruction& instruction = by_id[id];
    std::map<std::string, std::string> attributes = ParseDictionary(instruction.config);
    const bool is_embedded = attributes.contains(std::string(kLibraryAttribute));
    std::string callback = std::move(attributes[std::string(kCallbackAttribute)]);
    if (IsJaxTarget(instruction.target)) {
      callback = std::string(kJaxNamePrefix) + attributes[std::string(kJaxIndexAttribute)];
    }
    pjrt::CallbackUse use{std::move(callback), std::string(instruction.target), is_embedded, {}, {}};
    for (const int64_t operand : instruction.operands) {
      const auto it = by_id.find(operand);
      if (it == by_id.end()) return UnreadableHlo();
      CALLOUT_RETURN_IF_ERROR(AppendArrays(it->second.shape, use.operands));
    }
    CALLOUT_RETURN_IF_ERROR(AppendArrays(instruction.shape, use.results));
    calls.push_back(std::move(use));
  }
  return OkStatus();
}

// Takes a string literal, of which `text` begins behind the first quote, off the front.
std::string TakeString(std::string_view& text) {
  std::string value;
  while (!text.empty() && text.front() != '"') {
    char c = text.front();
    text.remove_prefix(1);
    if (c == '\\' && !text.empty()) {
      const std::optional<char> code = internal::HexByte(text);
      c = code.value_or(text.front());
      text.remove_prefix(code ? 2 : 1);
    }
    value += c;
  }
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

}  // namespace

std::map<std::string, std::string> ParseDictionary(std::string_view text) {
  std::map<std::string, std::string> entries;
  int depth = 0;
  std::string word;              // what was read since the last sign, quoted or not
  std::string* value = nullptr;  // of the entry that is being read; null before its '='
  // Of a number, as in "1 : i64".
  const auto take_number = [&] {
    if (value != nullptr && value->empty()) *value = word.substr(0, word.find_first_not_of("-0123456789"));
  };
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '"') {
      word = TakeString(text);
      if (depth == 1 && value != nullptr) *value = std::exchange(word, "");
      continue;
    }
    if (depth == 1 && (c == ',' || c == '}')) take_number();
    if (c == '{' || c == '[' || c == '<' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == '>' || c == ')') --depth;
    if (depth != 1) continue;
    if (c == '=') {
      value = &entries[word];
      word.clear();
    } else if (c == ',' || c == '{') {
      value = nullptr;
      word.clear();
    } else if (c != ' ') {
      word += c;
    }
  }
  return entries;
}

static Result<std::vector<pjrt::CallbackUse>> ParseCalls(std::string_view module, bool ours_only) {
  std::vector<pjrt::CallbackUse> calls;
  WireReader reader(module);
  while (const auto field = reader.Next()) {
    if (field->number == kComputations) CALLOUT_RETURN_IF_ERROR(AppendCalls(field->bytes, ours_only, calls));
  }
  if (!reader.ok()) return UnreadableHlo();
  return calls;
}

Result<std::vector<pjrt::CallbackUse>> ParseHloCalls(std::string_view module) {
  return ParseCalls(module, /*ours_only=*/true);
}

Result<std::vector<pjrt::CallbackUse>> ParseForeignCalls(std::string_view module) {
  return ParseCalls(module, /*ours_only=*/false);
}

}  // namespace callout::internal
