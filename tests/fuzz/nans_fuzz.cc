// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the text by which programs describe lines that locate_nans watches, with operands of any number, type and
// shape: an input is a line of text, followed by bytes for the operands.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "fuzz.h"
#include "mutation.h"
#include "sinks/inspectors/located_nans.h"
#include "testing/test_buffer.h"

namespace callout::fuzz {
namespace {

using internal::LocatedNansPayload;
using internal::TestBuffer;

constexpr size_t kMostOperands = 16;  // more operands find nothing new
constexpr size_t kMostRank = 4;
constexpr size_t kMostText = 1 << 16;

DType AnyType(FuzzedDataProvider& data) {
  constexpr DType kTypes[] = {DType::kFloat32,    DType::kBool,    DType::kInt32,       DType::kInt64, DType::kFloat64,
                              DType::kComplex64,  DType::kUint8,   DType::kBfloat16,    DType::kInt4,  DType::kToken,
                              DType::kComplex128, DType::kFloat16, DType::kFloat8E4M3Fn};
  return data.PickValueInArray(kTypes);
}

// Returns the type that operand `operand` has in a program of Callout's own: only such operands get past the checks.
DType Expected(const LocatedNansPayload& text, size_t operand) {
  if (operand < text.num_live()) return DType::kBool;
  return operand < text.num_live() + text.operations.size() + text.num_inputs() ? DType::kFloat32 : DType::kInt32;
}

// Creates an operand. The leading lane axes have the same extents in all operands, except in a deliberately wrong one.
TestBuffer Operand(const LocatedNansPayload& text, size_t operand, const std::vector<int64_t>& lanes,
                   FuzzedDataProvider& data) {
  const bool is_wrong = data.ConsumeIntegralInRange(0, 15) == 0;
  const DType dtype = is_wrong ? AnyType(data) : Expected(text, operand);
  std::vector<int64_t> dims;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if ((text.masks[operand] >> i & 1U) != 0) dims.push_back(lanes[i]);
  }
  if (is_wrong && data.ConsumeBool()) dims.clear();
  for (auto more = data.ConsumeIntegralInRange<size_t>(0, kMostRank - 1); more > 0 && dims.size() < 2 * kMostRank;
       --more) {
    dims.push_back(data.ConsumeIntegralInRange<int64_t>(0, 3));
  }
  if (dtype == DType::kToken) dims.clear();
  TestBuffer buffer = TestBuffer::Zeros(dtype, std::move(dims));
  std::vector<uint8_t>& bytes = buffer.bytes();
  if (dtype != DType::kFloat32) {
    for (uint8_t& byte : bytes) byte = data.ConsumeIntegral<uint8_t>();
    return buffer;
  }
  constexpr float kValues[] = {0, 1, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()};
  for (size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
    const float value = data.PickValueInArray(kValues);
    std::memcpy(&bytes[i], &value, sizeof(value));
  }
  return buffer;
}

void Look(const LocatedNansPayload& text, internal::Callback& nans, FuzzedDataProvider& data) {
  std::vector<int64_t> lanes(static_cast<size_t>(text.extents));
  for (int64_t& extent : lanes) extent = data.ConsumeIntegralInRange<int64_t>(0, lanes.size() > kMostRank ? 1 : 3);
  std::vector<TestBuffer> operands;
  for (size_t i = 0; i < text.masks.size(); ++i) operands.push_back(Operand(text, i, lanes, data));
  if (!operands.empty() && data.ConsumeIntegralInRange(0, 15) == 0) operands.pop_back();
  std::vector<callout_buffer> views;
  size_t rank = 0;
  for (TestBuffer& operand : operands) rank += views.emplace_back(operand.view()).rank;
  std::vector<int64_t> offsets(data.ConsumeIntegralInRange(0, 3) == 0 ? rank : 0);
  for (int64_t& offset : offsets) {
    offset = data.ConsumeBool() ? data.ConsumeIntegralInRange<int64_t>(0, 4) : data.ConsumeIntegral<int64_t>();
  }
  internal::SiteInfo site = {.label = "site", .leaf_names = std::vector<std::string>(views.size())};
  internal::Record record;
  record.site = &site;
  record.run_id = data.ConsumeIntegralInRange<int64_t>(0, 3);
  record.buffers = views;
  record.offsets = offsets;
  const Result<internal::Inspector::Send> sent = nans.inspector()->Inspect(record);
  CALLOUT_CHECK(!sent.ok() || *sent == internal::Inspector::Send::kNothing, "something is to be delivered");
}

}  // namespace

void Try(std::string_view bytes) {
  const size_t end = bytes.find('\n');
  const std::string_view payload = bytes.substr(0, end);
  const Result<LocatedNansPayload> text = internal::ParseLocatedNans(payload);
  const Result<std::shared_ptr<internal::Callback>> nans = internal::MakeLocatedNans("nans", payload);
  CALLOUT_CHECK(text.ok() == nans.ok(), "a text that can be read, and of which nothing can be made");
  if (!text.ok() || text->masks.size() > kMostOperands || end == std::string_view::npos) return;
  internal::SetLocatedNansReporter([](std::string_view line, std::string_view attributes) {
    CALLOUT_CHECK(attributes.find(line) != std::string_view::npos, "a report without its line");
    CALLOUT_CHECK(attributes.size() < kMostText + 2 * 4096, "a report that grows beyond its text");
    return line.size() % 2 == 0 ? internal::Reported::kTaken : internal::Reported::kRefused;
  });
  bytes.remove_prefix(end + 1);
  FuzzedDataProvider data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  for (int runs = data.ConsumeIntegralInRange(1, 3); runs > 0; --runs) Look(*text, **nans, data);
}

namespace {

constexpr const char* kPieces[] = {"1",
                                   "warn",
                                   "raise",
                                   "ni",
                                   "n",
                                   "forward",
                                   "backward",
                                   ";",
                                   ",",
                                   "0",
                                   "2",
                                   "3",
                                   "7",
                                   "16",
                                   "65535",
                                   "4611686018427387903",
                                   "18446744073709551615",
                                   "-1",
                                   "log",
                                   "log%2C",
                                   "%",
                                   "%4",
                                   "%00",
                                   "%F0%9F",
                                   "f.py:3 in f",
                                   "\n",
                                   ";;;;",
                                   "0,0,0",
                                   "1,1,1,0",
                                   "1;warn;ni;forward;0;1;1,1,1,0;1;log;1;1;f.py:3 in f;y = log(x);net\n",
                                   "1;raise;n;backward;7;2;3,1,2;0;log,mul;1;0;f.py:3;;\n"};

}  // namespace
}  // namespace callout::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return callout::fuzz::MutateTokens(data, size, max_size, seed, ";,\n", callout::fuzz::kPieces);
}
