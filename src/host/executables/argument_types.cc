// SPDX-License-Identifier: Apache-2.0
#include "host/executables/argument_types.h"

#include <algorithm>
#include <string>

#include "host/pjrt/values.h"

namespace callout::internal {
namespace {

// Without the copies of Buffer::dtype and dims.
Result<bool> IsOfType(const pjrt::Buffer& buffer, const PjrtApi& api, const pjrt::ArrayType& type) {
  PjrtArgs<PJRT_Buffer_ElementType_Args> element;
  element.buffer = buffer.handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Buffer_ElementType, element));
  PjrtArgs<PJRT_Buffer_Dimensions_Args> dims;
  dims.buffer = buffer.handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Buffer_Dimensions, dims));
  const auto expected = ToPjrtType(type.dtype);
  return expected.ok() && *expected == EnumNumber(element.type) &&
         std::equal(dims.dims, dims.dims + dims.num_dims, type.dims.begin(), type.dims.end());
}

Status Mismatch(const pjrt::Buffer& buffer, size_t argument, size_t device, const pjrt::ArrayType& expected) {
  CALLOUT_ASSIGN_OR_RETURN(const DType dtype, buffer.dtype());
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, buffer.dims());
  return InvalidArgument("callout: argument " + std::to_string(argument) + " on device " + std::to_string(device) +
                         ": expected " + expected.ToString() + ", got " + pjrt::ArrayType{dtype, dims}.ToString());
}

std::string ListOf(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text.empty() ? "none" : text;
}

}  // namespace

void ArgumentTypes::Read(const pjrt::LoadedExecutable& executable) {
  const Result<pjrt::Signature> signature = executable.ReadSignature();
  known_ = signature.ok();
  if (!known_) return;
  for (const pjrt::ProgramArray& input : signature->inputs) {
    inputs_.push_back(input.type);
    input_tags_.push_back(TypeTag(input.type.dtype, input.type.dims));
  }
  for (const pjrt::ProgramArray& output : signature->outputs) {
    outputs_.push_back(TypeTag(output.type.dtype, output.type.dims));
  }
  donatable_ = signature->donatable;
  output_tags_.store(&outputs_, std::memory_order_release);  // pairs with the acquire in AreKnown and OutputTag
}

bool ArgumentTypes::AreKnown(const pjrt::LoadedExecutable& executable) {
  if (output_tags_.load(std::memory_order_acquire) != nullptr) [[likely]]  // pairs with the release in Read
    return true;
  std::call_once(read_, [&] { Read(executable); });
  return known_;
}

Status ArgumentTypes::CheckDonated(std::span<const int64_t> donated, size_t num_arguments,
                                   const pjrt::LoadedExecutable& executable) {
  const bool is_known = AreKnown(executable);
  for (const int64_t input : donated) {
    const std::string what = "callout: donated_inputs has " + std::to_string(input);
    if (input < 0 || input >= static_cast<int64_t>(num_arguments)) {
      return InvalidArgument(what + ", and the program takes " + std::to_string(num_arguments) + " inputs");
    }
    if (!is_known || std::find(donatable_.begin(), donatable_.end(), input) != donatable_.end()) continue;
    return InvalidArgument(what + ", which the program cannot take over: it was made to take " + ListOf(donatable_) +
                           " (donate_argnums of jax.jit)");
  }
  return OkStatus();
}

Status ArgumentTypes::Check(std::span<const std::span<const pjrt::Buffer* const>> arguments,
                            const pjrt::LoadedExecutable& executable, const PjrtApi& api) {
  if (!AreKnown(executable)) return OkStatus();
  for (size_t device = 0; device < arguments.size(); ++device) {
    if (arguments[device].size() != inputs_.size()) {
      return InvalidArgument("callout: the program takes " + std::to_string(inputs_.size()) + " arguments, device " +
                             std::to_string(device) + " got " + std::to_string(arguments[device].size()));
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const pjrt::Buffer& buffer = *arguments[device][i];
      if (buffer.type_tag() == input_tags_[i]) [[likely]]
        continue;
      if (inputs_[i].dtype == DType::kToken) continue;  // an array without elements stands for one
      CALLOUT_ASSIGN_OR_RETURN(const bool is_of_type, IsOfType(buffer, api, inputs_[i]));
      if (!is_of_type) return Mismatch(buffer, i, device, inputs_[i]);
    }
  }
  return OkStatus();
}

}  // namespace callout::internal
