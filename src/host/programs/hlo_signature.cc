// SPDX-License-Identifier: Apache-2.0
#include "host/programs/hlo_signature.h"

#include <algorithm>
#include <utility>

#include "core/encoding/wire.h"
#include "host/programs/hlo_shape.h"
#include "host/programs/hlo_sharding.h"

namespace callout::internal {
namespace {

// HloModuleProto
constexpr int kProgramShape = 4;
constexpr int kAliases = 8;
constexpr int kOutputSharding = 12;
constexpr int kParameterSharding = 14;
constexpr int kBufferDonors = 18;
// ProgramShapeProto
constexpr int kParameters = 1;
constexpr int kResult = 2;
// OpSharding
constexpr int kTupleShardings = 5;
// HloInputOutputAliasProto and HloBufferDonorProto: entries
constexpr int kEntries = 1;
constexpr int kAliasParameter = 2;
constexpr int kDonorParameter = 1;

struct Module {
  std::string_view program_shape;
  std::string_view output_sharding;
  std::vector<std::string_view> parameter_shardings;
  std::vector<int64_t> donatable;
};

void AddDonated(std::string_view message, int parameter_field, std::vector<int64_t>& donatable) {
  WireReader entries(message);
  while (const auto entry = entries.Next()) {
    if (entry->number != kEntries || !entry->is_bytes) continue;
    int64_t parameter = 0;  // proto3 leaves zeros out
    WireReader fields(entry->bytes);
    while (const auto field = fields.Next()) {
      if (field->number == parameter_field) parameter = static_cast<int64_t>(field->value);
    }
    donatable.push_back(parameter);
  }
}

Result<Module> ReadModule(std::string_view bytes) {
  Module module;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == kProgramShape) module.program_shape = field->bytes;
    if (field->number == kOutputSharding) module.output_sharding = field->bytes;
    if (field->number == kParameterSharding) module.parameter_shardings.push_back(field->bytes);
    if (field->number == kAliases) AddDonated(field->bytes, kAliasParameter, module.donatable);
    if (field->number == kBufferDonors) AddDonated(field->bytes, kDonorParameter, module.donatable);
  }
  std::sort(module.donatable.begin(), module.donatable.end());
  module.donatable.erase(std::unique(module.donatable.begin(), module.donatable.end()), module.donatable.end());
  if (!reader.ok()) return UnreadableHlo();
  return module;
}

Result<std::vector<pjrt::ProgramArray>> ReadArrays(const std::vector<std::string_view>& shapes,
                                                   const std::vector<std::string_view>& shardings, size_t num_devices) {
  std::vector<pjrt::ProgramArray> arrays;
  for (size_t i = 0; i < shapes.size(); ++i) {
    CALLOUT_ASSIGN_OR_RETURN(HloShape shape, ParseHloShape(shapes[i]));
    const std::string_view sharding = i < shardings.size() ? shardings[i] : std::string_view();
    pjrt::ProgramArray array{std::move(shape.type), {}};
    CALLOUT_ASSIGN_OR_RETURN(array.sharding, ParseSharding(sharding, array.type.dims.size(), num_devices));
    for (size_t axis = 0; axis < array.type.dims.size(); ++axis) {
      int64_t whole = 0;  // as ProgramArray::WholeType computes it
      if (__builtin_mul_overflow(array.type.dims[axis], array.sharding.tiles[axis], &whole)) return UnreadableHlo();
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// The shardings of a tuple's elements; of the one element if it is no tuple.
std::vector<std::string_view> ElementShardings(std::string_view sharding) {
  std::vector<std::string_view> elements;
  WireReader reader(sharding);
  while (const auto field = reader.Next()) {
    if (field->number == kTupleShardings && field->is_bytes) elements.push_back(field->bytes);
  }
  if (elements.empty()) elements.push_back(sharding);
  return elements;
}

}  // namespace

Status CheckArgumentLayouts(std::string_view bytes) {
  CALLOUT_ASSIGN_OR_RETURN(const Module module, ReadModule(bytes));
  WireReader shapes(module.program_shape);
  for (size_t i = 0; const auto field = shapes.Next();) {
    if (field->number != kParameters) continue;
    CALLOUT_ASSIGN_OR_RETURN(const HloShape shape, ParseHloShape(field->bytes));
    if (!shape.is_row_major) {
      return Unimplemented("callout: argument " + std::to_string(i) + " of the program, " + shape.type.ToString() +
                           ", is in another layout than row-major");
    }
    ++i;
  }
  return shapes.ok() ? OkStatus() : UnreadableHlo();
}

Result<pjrt::Signature> ParseHloSignature(std::string_view bytes, size_t num_devices) {
  CALLOUT_ASSIGN_OR_RETURN(const Module module, ReadModule(bytes));
  if (module.program_shape.empty()) return UnreadableHlo();
  std::vector<std::string_view> parameters;
  std::string_view result;
  WireReader shape(module.program_shape);
  while (const auto field = shape.Next()) {
    if (field->number == kParameters) parameters.push_back(field->bytes);
    if (field->number == kResult) result = field->bytes;
  }
  if (!shape.ok()) return UnreadableHlo();
  CALLOUT_ASSIGN_OR_RETURN(const HloShape returned, ParseHloShape(result));
  const std::vector<std::string_view> results =
      returned.is_tuple ? returned.elements : std::vector<std::string_view>{result};
  pjrt::Signature signature;
  CALLOUT_ASSIGN_OR_RETURN(signature.inputs, ReadArrays(parameters, module.parameter_shardings, num_devices));
  CALLOUT_ASSIGN_OR_RETURN(signature.outputs,
                           ReadArrays(results, ElementShardings(module.output_sharding), num_devices));
  signature.donatable = module.donatable;
  return signature;
}

}  // namespace callout::internal
