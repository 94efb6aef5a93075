// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/check_payload.h"

#include <array>
#include <charconv>
#include <optional>
#include <system_error>

#include "core/encoding/percent.h"

namespace callout::internal {
namespace {

constexpr size_t kFieldsBeforeText = 5;
constexpr size_t kMaxText = 1 << 16;
constexpr size_t kMaxOperands = 1 << 10;
constexpr int kMaxExtents = 16;

Status Malformed(std::string_view what, std::string_view found) {
  constexpr size_t kShown = 80;
  return InvalidArgument("callout: a check must be '1;raise;source;extents;operands;text', " + std::string(what) +
                         ", got '" + std::string(found.substr(0, kShown)) + "'");
}

std::optional<uint32_t> Number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::vector<CheckOperand>> Operands(std::string_view text, int num_extents) {
  std::vector<CheckOperand> operands;
  while (operands.size() < kMaxOperands) {
    std::string_view one = text.substr(0, text.find(','));
    const size_t length = one.size();
    CheckOperand operand;
    operand.is_elementwise = one.ends_with('e');
    if (operand.is_elementwise) one.remove_suffix(1);
    const std::optional<uint32_t> mask = Number(one);
    if (!mask || *mask >= (1U << static_cast<unsigned>(num_extents))) return std::nullopt;
    operand.lane_mask = *mask;
    operands.push_back(operand);
    if (length == text.size()) return operands;
    text.remove_prefix(length + 1);
  }
  return std::nullopt;
}

}  // namespace

Result<CheckText> ParseCheck(std::string_view payload) {
  std::array<std::string_view, kFieldsBeforeText> fields;
  std::string_view rest = payload;
  for (std::string_view& field : fields) {
    const size_t end = rest.find(';');
    if (end == std::string_view::npos) return Malformed("with 6 fields", payload);
    field = rest.substr(0, end);
    rest.remove_prefix(end + 1);
  }
  if (fields[0] != "1") return Malformed("of the format 1", fields[0]);
  if (fields[1] != "raise" && fields[1] != "warn") return Malformed("with 'raise' or 'warn'", fields[1]);
  if (rest.size() > kMaxText) return Malformed("with a text of at most 64 KiB", rest);
  std::optional<std::string> source = PercentDecoded(fields[2]);
  if (!source || source->size() > kMaxText)
    return Malformed("with a source whose '%' stand before two digits", fields[2]);
  const std::optional<uint32_t> extents = Number(fields[3]);
  if (!extents || *extents > kMaxExtents) return Malformed("with at most 16 extents", fields[3]);
  const auto num_extents = static_cast<int>(*extents);
  std::optional<std::vector<CheckOperand>> operands = Operands(fields[4], num_extents);
  if (!operands) return Malformed("with the operands' masks of " + std::to_string(num_extents) + " extents", fields[4]);
  CALLOUT_RETURN_IF_ERROR(RecordFormat::Parse(std::string(rest)).status());
  return CheckText{.fails = fields[1] == "raise",
                   .source = std::move(*source),
                   .num_extents = num_extents,
                   .operands = std::move(*operands),
                   .format = std::string(rest)};
}

}  // namespace callout::internal
