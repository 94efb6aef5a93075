// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/located_nans_payload.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <optional>
#include <system_error>
#include <utility>

#include "core/base/fork_mutex.h"
#include "core/encoding/percent.h"

namespace callout::internal {
namespace {

constexpr size_t kMostKept = 256;

struct Findings {
  ForkMutex mutex;
  std::deque<RunFinding> latest CALLOUT_GUARDED_BY(mutex);
};

Findings& All() {
  static auto* const all = new Findings;  // leaked: programs may run while the process ends
  return *all;
}

bool Follows(const RunFinding& found, bool from_infinite, const RunFinding& earlier) {
  if (earlier.run_id != found.run_id) return false;
  if (from_infinite && !earlier.is_nan && earlier.backward == found.backward) return true;
  return found.is_shard && earlier.device_ordinal != found.device_ordinal &&
         std::pair(earlier.backward, earlier.order) < std::pair(found.backward, found.order);
}

bool IsSame(const RunFinding& one, const RunFinding& other) {
  return one.run_id == other.run_id && one.device_ordinal == other.device_ordinal && one.order == other.order &&
         one.is_nan == other.is_nan;
}

}  // namespace

bool AddRunFinding(const RunFinding& found, bool from_infinite) {
  Findings& all = All();
  MutexLock lock(all.mutex);
  if (found.run_id != 0 && std::any_of(all.latest.begin(), all.latest.end(), [&](const RunFinding& earlier) {
        return Follows(found, from_infinite, earlier);
      })) {
    return false;
  }
  if (std::none_of(all.latest.begin(), all.latest.end(),
                   [&](const RunFinding& earlier) { return IsSame(found, earlier); })) {
    if (all.latest.size() == kMostKept) all.latest.pop_front();
    all.latest.push_back(found);
  }
  return true;
}

namespace {

constexpr size_t kFields = 14;
constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kMostOperands = 1 << 14;
constexpr uint64_t kMostExtents = 16;

Status NoPlace(const std::string& what, std::string_view found) {
  constexpr size_t kShown = 80;
  return InvalidArgument(
      "callout: locate_nans must be "
      "'1;warn;ni;forward;order;extents;masks;live;operations;inputs;steps;place;expression;module', " +
      what + ", got '" + std::string(found.substr(0, kShown)) + "'");
}

std::optional<uint64_t> NumberBelow(std::string_view text, uint64_t end) {
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || stop != text.data() + text.size() || number >= end) return std::nullopt;
  return number;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<std::string> Decoded(std::string_view text) {
  std::optional<std::string> decoded = PercentDecoded(text);
  if (!decoded) return NoPlace("whose '%' stand before two digits", text);
  return *std::move(decoded);
}

// One of two words.
std::optional<bool> IsFirst(std::string_view text, std::string_view first, std::string_view second) {
  if (text != first && text != second) return std::nullopt;
  return text == first;
}

Status ParseWords(const std::vector<std::string_view>& fields, LocatedNansText& text) {
  const std::optional<bool> fails = IsFirst(fields[1], "raise", "warn");
  if (!fails) return NoPlace("with 'raise' or 'warn'", fields[1]);
  const std::optional<bool> infinities = IsFirst(fields[2], "ni", "n");
  if (!infinities) return NoPlace("with 'n' or 'ni'", fields[2]);
  const std::optional<bool> backward = IsFirst(fields[3], "backward", "forward");
  if (!backward) return NoPlace("with 'forward' or 'backward'", fields[3]);
  text.fails = *fails;
  text.infinities = *infinities;
  text.backward = *backward;
  return OkStatus();
}

Status ParseNumbers(const std::vector<std::string_view>& fields, LocatedNansText& text) {
  const auto order = NumberBelow(fields[4], uint64_t{1} << 62);
  if (!order) return NoPlace("with a number for its order", fields[4]);
  const auto extents = NumberBelow(fields[5], kMostExtents + 1);
  if (!extents) return NoPlace("with at most 16 extents", fields[5]);
  const auto live = NumberBelow(fields[7], 2);
  if (!live) return NoPlace("with 0 or 1 for the lanes that live", fields[7]);
  const auto inputs = NumberBelow(fields[9], kMostOperands);
  if (!inputs) return NoPlace("with the number of its inputs", fields[9]);
  const auto steps = NumberBelow(fields[10], kMostOperands);
  if (!steps) return NoPlace("with the number of the loops around", fields[10]);
  text.order = *order;
  text.num_extents = static_cast<int>(*extents);
  text.num_live = *live;
  text.num_inputs = *inputs;
  text.num_steps = *steps;
  return OkStatus();
}

}  // namespace

Result<LocatedNansText> ParseLocatedNans(std::string_view payload) {
  if (payload.size() > kMostBytes) return NoPlace("of at most 1 MiB", payload);
  const std::vector<std::string_view> fields = Split(payload, ';');
  if (fields.size() != kFields) return NoPlace("with 14 fields", payload);
  if (fields[0] != "1") return NoPlace("of the format 1", fields[0]);
  LocatedNansText text;
  CALLOUT_RETURN_IF_ERROR(ParseWords(fields, text));
  CALLOUT_RETURN_IF_ERROR(ParseNumbers(fields, text));
  for (const std::string_view one : Split(fields[8], ',')) {
    CALLOUT_ASSIGN_OR_RETURN(std::string operation, Decoded(one));
    text.operations.push_back(std::move(operation));
  }
  for (const std::string_view one : Split(fields[6], ',')) {
    const auto mask = NumberBelow(one, uint64_t{1} << static_cast<unsigned>(text.num_extents));
    if (!mask) return NoPlace("with masks of " + std::to_string(text.num_extents) + " extents", fields[6]);
    text.lane_masks.push_back(static_cast<uint32_t>(*mask));
  }
  const size_t operands = text.num_live + text.operations.size() + text.num_inputs + text.num_steps;
  if (text.lane_masks.size() != operands || operands > kMostOperands) {
    return NoPlace("with a mask for each of " + std::to_string(operands) + " operands", fields[6]);
  }
  CALLOUT_ASSIGN_OR_RETURN(text.place, Decoded(fields[11]));
  CALLOUT_ASSIGN_OR_RETURN(text.expression, Decoded(fields[12]));
  CALLOUT_ASSIGN_OR_RETURN(text.module, Decoded(fields[13]));
  return text;
}

}  // namespace callout::internal
