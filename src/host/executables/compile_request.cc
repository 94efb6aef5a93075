// SPDX-License-Identifier: Apache-2.0
#include "host/executables/compile_request.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/encoding/wire.h"

namespace callout::internal {
namespace {

// Numbers of fields.
struct OfRequest {
  static constexpr int kPlugin = 1;
  static constexpr int kConcurrentRuns = 2;
  static constexpr int kClientValue = 3;
  static constexpr int kReplicas = 4;
  static constexpr int kPartitions = 5;
  static constexpr int kAssigned = 6;
  static constexpr int kXlaOption = 7;
  static constexpr int kDevices = 8;
  static constexpr int kCode = 9;
  static constexpr int kHandler = 10;
};
struct OfValue {
  static constexpr int kName = 1;
  static constexpr int kText = 2;
  static constexpr int kInteger = 3;
  static constexpr int kIsList = 4;
  static constexpr int kElement = 5;
  static constexpr int kFloat = 6;
  static constexpr int kTruth = 7;
};
struct OfAnswer {
  static constexpr int kBytes = 1;
  static constexpr int kErrorCode = 2;
  static constexpr int kErrorText = 3;
};

constexpr std::string_view kAnswerMagic = "callout:";  // then 64 bits: how many bytes follow

Status NoMessage() { return InvalidArgument("callout: this is no message of a process that compiles"); }

uint64_t Bits(int64_t number) { return static_cast<uint64_t>(number); }

std::string WriteValue(const std::string& name, const pjrt::Value& value) {
  WireWriter writer;
  writer.AddMessage(OfValue::kName, name);
  if (const auto* text = std::get_if<std::string>(&value)) writer.AddMessage(OfValue::kText, *text);
  if (const auto* integer = std::get_if<int64_t>(&value)) writer.AddNumber(OfValue::kInteger, Bits(*integer));
  if (const auto* real = std::get_if<float>(&value)) writer.AddFloat(OfValue::kFloat, *real);
  if (const auto* truth = std::get_if<bool>(&value)) writer.AddNumber(OfValue::kTruth, *truth ? 1 : 0);
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    writer.AddNumber(OfValue::kIsList, 1);
    for (const int64_t integer : *integers) writer.AddNumber(OfValue::kElement, Bits(integer));
  }
  return writer.bytes();
}

Status ReadValue(std::string_view bytes, pjrt::Values& values) {
  std::string name;
  pjrt::Value value;
  std::vector<int64_t> integers;
  bool is_list = false;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == OfValue::kName) name = field->bytes;
    if (field->number == OfValue::kText) value = std::string(field->bytes);
    if (field->number == OfValue::kInteger) value = static_cast<int64_t>(field->value);
    if (field->number == OfValue::kFloat) value = std::bit_cast<float>(static_cast<uint32_t>(field->value));
    if (field->number == OfValue::kTruth) value = field->value != 0;
    if (field->number == OfValue::kIsList) is_list = true;
    if (field->number == OfValue::kElement) integers.push_back(static_cast<int64_t>(field->value));
  }
  if (!reader.ok()) return NoMessage();
  if (is_list) value = std::move(integers);
  values[std::move(name)] = std::move(value);
  return OkStatus();
}

}  // namespace

std::string CompileRequest::Write() const {
  WireWriter writer;
  writer.AddMessage(OfRequest::kPlugin, plugin);
  writer.AddNumber(OfRequest::kConcurrentRuns, Bits(client.concurrent_runs));
  for (const auto& [name, value] : client.values) writer.AddMessage(OfRequest::kClientValue, WriteValue(name, value));
  writer.AddNumber(OfRequest::kReplicas, Bits(options.num_replicas));
  writer.AddNumber(OfRequest::kPartitions, Bits(options.num_partitions));
  for (const int device : options.device_assignment) writer.AddNumber(OfRequest::kAssigned, Bits(device));
  for (const auto& [name, value] : options.xla_options)
    writer.AddMessage(OfRequest::kXlaOption, WriteValue(name, value));
  writer.AddNumber(OfRequest::kDevices, Bits(num_devices));
  for (const std::string& handler : handlers) writer.AddMessage(OfRequest::kHandler, handler);
  writer.AddMessage(OfRequest::kCode, code);
  return writer.bytes();
}

Result<CompileRequest> CompileRequest::Read(std::string_view bytes) {
  CompileRequest request;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    const int number = static_cast<int>(field->value);
    if (field->number == OfRequest::kPlugin) request.plugin = field->bytes;
    if (field->number == OfRequest::kConcurrentRuns) request.client.concurrent_runs = number;
    if (field->number == OfRequest::kReplicas) request.options.num_replicas = number;
    if (field->number == OfRequest::kPartitions) request.options.num_partitions = number;
    if (field->number == OfRequest::kAssigned) request.options.device_assignment.push_back(number);
    if (field->number == OfRequest::kDevices) request.num_devices = number;
    if (field->number == OfRequest::kCode) request.code = field->bytes;
    if (field->number == OfRequest::kHandler) request.handlers.emplace_back(field->bytes);
    if (field->number == OfRequest::kClientValue)
      CALLOUT_RETURN_IF_ERROR(ReadValue(field->bytes, request.client.values));
    if (field->number == OfRequest::kXlaOption)
      CALLOUT_RETURN_IF_ERROR(ReadValue(field->bytes, request.options.xla_options));
  }
  if (!reader.ok() || request.plugin.empty()) return NoMessage();
  return request;
}

std::string WriteCompileAnswer(const Result<std::string>& answer) {
  WireWriter writer;
  if (answer.ok()) {
    writer.AddMessage(OfAnswer::kBytes, *answer);
  } else {
    writer.AddNumber(OfAnswer::kErrorCode, static_cast<uint64_t>(answer.status().code()));
    writer.AddMessage(OfAnswer::kErrorText, answer.status().message());
  }
  const uint64_t size = writer.bytes().size();
  std::string bytes(kAnswerMagic);
  bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return bytes + writer.bytes();
}

AnswerState FindCompileAnswer(std::string_view bytes) {
  const size_t common = std::min(bytes.size(), kAnswerMagic.size());
  if (bytes.substr(0, common) != kAnswerMagic.substr(0, common)) return AnswerState::kOther;
  uint64_t size = 0;
  if (bytes.size() < kAnswerMagic.size() + sizeof(size)) return AnswerState::kPartial;
  std::memcpy(&size, bytes.data() + kAnswerMagic.size(), sizeof(size));
  const size_t left = bytes.size() - kAnswerMagic.size() - sizeof(size);
  if (left > size) return AnswerState::kOther;
  return left == size ? AnswerState::kWhole : AnswerState::kPartial;
}

Result<std::string> ReadCompileAnswer(std::string_view bytes) {
  if (FindCompileAnswer(bytes) != AnswerState::kWhole) return NoMessage();
  bytes.remove_prefix(kAnswerMagic.size() + sizeof(uint64_t));
  std::string executable, text;
  StatusCode code = StatusCode::kOk;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == OfAnswer::kBytes) executable = field->bytes;
    if (field->number == OfAnswer::kErrorCode) code = static_cast<StatusCode>(field->value);
    if (field->number == OfAnswer::kErrorText) text = field->bytes;
  }
  if (!reader.ok()) return NoMessage();
  if (code != StatusCode::kOk) return Status(code, std::move(text));
  if (executable.empty()) return NoMessage();
  return executable;
}

}  // namespace callout::internal
