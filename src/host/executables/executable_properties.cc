// SPDX-License-Identifier: Apache-2.0
//
// Reads the properties of a compiled program.
#include "host/executables/executable_properties.h"

#include <algorithm>
#include <string>

#include "callout/pjrt/executable.h"
#include "core/base/cat.h"
#include "core/base/small_buffer.h"
#include "core/encoding/wire.h"
#include "host/executables/other_handlers.h"
#include "host/pjrt/pjrt_abi.h"
#include "host/pjrt/values.h"
#include "host/programs/hlo_calls.h"

namespace callout::internal {
namespace {

// Compares the buffer's type without the copies that Buffer::dtype and dims make.
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
  return InvalidArgument(Cat("callout: argument ", argument, " on device ", device, ": expected ", expected.ToString(),
                             ", got ", pjrt::ArrayType{dtype, dims}.ToString()));
}

std::string ListOf(const std::vector<int64_t>& numbers) { return numbers.empty() ? "none" : Join(numbers, ", "); }

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
    const std::string what = Cat("callout: donated_inputs has ", input);
    if (input < 0 || input >= static_cast<int64_t>(num_arguments)) {
      return InvalidArgument(Cat(what, ", and the program takes ", num_arguments, " inputs"));
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
      return InvalidArgument(Cat("callout: the program takes ", inputs_.size(), " arguments, device ", device, " got ",
                                 arguments[device].size()));
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const pjrt::Buffer& buffer = *arguments[device][i];
      if (buffer.type_tag() == input_tags_[i]) [[likely]]
        continue;
      if (inputs_[i].dtype == DType::kToken) continue;  // an array without elements stands for a token
      CALLOUT_ASSIGN_OR_RETURN(const bool is_of_type, IsOfType(buffer, api, inputs_[i]));
      if (!is_of_type) return Mismatch(buffer, i, device, inputs_[i]);
    }
  }
  return OkStatus();
}

}  // namespace callout::internal

namespace callout::pjrt {

using internal::PjrtArgs;

namespace {

// Returns the HloModuleProto in an HloModuleProtoWithConfig.
Result<std::string> ModuleOf(const std::string& bytes) {
  constexpr int kModule = 1;
  internal::WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == kModule && field->is_bytes) return std::string(field->bytes);
  }
  return internal::UnreadableHlo();
}

}  // namespace

Result<std::string> LoadedExecutable::ReadHloModule() const {
  const internal::PjrtApi& api = client()->plugin().api();
  PjrtArgs<PJRT_Program> program;
  PjrtArgs<PJRT_Executable_OptimizedProgram_Args> args;
  args.executable = executable_.get();
  args.program = &program;
  CALLOUT_RETURN_IF_ERROR(
      CALLOUT_PJRT(api, PJRT_Executable_OptimizedProgram, args));  // the first call returns the size
  std::string bytes(program.code_size, '\0');
  program.code = bytes.data();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Executable_OptimizedProgram, args));
  const std::string_view format(program.format, program.format_size);
  if (format == "hlo") return bytes;
  if (format == "hlo_with_config") return ModuleOf(bytes);
  return Unimplemented("callout: the plugin tells of programs as '" + std::string(format) +
                       "', expected 'hlo' or 'hlo_with_config'");
}

Status LoadedExecutable::CheckArgumentLayouts() const {
  CALLOUT_ASSIGN_OR_RETURN(const std::string module, ReadHloModule());
  return internal::CheckArgumentLayouts(module);
}

Result<Signature> LoadedExecutable::ReadSignature() const {
  CALLOUT_ASSIGN_OR_RETURN(const std::string module, ReadHloModule());
  return internal::ParseHloSignature(module, num_devices_);
}

Result<std::vector<CallbackUse>> LoadedExecutable::ReadCallbackUses() const {
  CALLOUT_ASSIGN_OR_RETURN(const std::string module, ReadHloModule());
  return internal::ParseHloCalls(module);
}

Result<std::vector<CustomCallUse>> LoadedExecutable::ReadCustomCalls() const {
  CALLOUT_ASSIGN_OR_RETURN(const std::string module, ReadHloModule());
  CALLOUT_ASSIGN_OR_RETURN(std::vector<CallbackUse> calls, internal::ParseForeignCalls(module));
  std::vector<CustomCallUse> uses;
  for (CallbackUse& call : calls) {
    std::string giver = internal::GiverOf(client()->plugin(), call.target);
    uses.push_back({std::move(call.target), std::move(giver), std::move(call.operands), std::move(call.results)});
  }
  return uses;
}

Result<Values> LoadedExecutable::ReadCosts() const {
  PjrtArgs<PJRT_Executable_GetCostAnalysis_Args> args;
  args.executable = executable_.get();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(client()->plugin().api(), PJRT_Executable_GetCostAnalysis, args));
  return internal::FromNamedValues(args.properties, args.num_properties);
}

Result<MemoryStats> LoadedExecutable::ReadMemoryStats() const {
  PjrtArgs<PJRT_Executable_GetCompiledMemoryStats_Args> args;
  args.executable = executable_.get();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(client()->plugin().api(), PJRT_Executable_GetCompiledMemoryStats, args));
  return MemoryStats{args.generated_code_size_in_bytes, args.argument_size_in_bytes, args.output_size_in_bytes,
                     args.alias_size_in_bytes, args.temp_size_in_bytes};
}

namespace {

std::string ListOf(const std::vector<ArrayType>& types) {
  return internal::Cat("(", internal::Join(types, ", ", &ArrayType::ToString), ")");
}

// Lists the types that the executable takes on a device, "?" if the plugin does not report them.
std::string TakenBy(const LoadedExecutable& executable) {
  const Result<Signature> signature = executable.ReadSignature();
  if (!signature.ok()) return "?";
  std::vector<ArrayType> types;
  for (const ProgramArray& input : signature->inputs) types.push_back(input.type);
  return ListOf(types);
}

Status NoneTakes(const LoadedExecutable& executable, std::span<const Buffer* const> arguments) {
  std::vector<ArrayType> types;
  for (const Buffer* buffer : arguments) {
    CALLOUT_ASSIGN_OR_RETURN(const DType dtype, buffer->dtype());
    CALLOUT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, buffer->dims());
    types.push_back({dtype, std::move(dims)});
  }
  std::string known;
  for (const LoadedExecutable* each : executable.for_shapes()) {
    known += (known.empty() ? " " : "; ") + each->shapes() + " takes " + TakenBy(*each);
  }
  return InvalidArgument("callout: the program '" + executable.name() + "' was not exported for " + ListOf(types) +
                         ":" + known);
}

}  // namespace

std::vector<const LoadedExecutable*> LoadedExecutable::for_shapes() const {
  std::vector<const LoadedExecutable*> all = {this};
  for (const LoadedExecutable& other : others_) all.push_back(&other);
  return all;
}

Result<const LoadedExecutable*> LoadedExecutable::Choose(Arguments arguments) const {
  const auto is_null = [](const Buffer* buffer) { return buffer == nullptr || buffer->handle() == nullptr; };
  for (const std::span<const Buffer* const> of_device : arguments) {
    for (const Buffer* buffer : of_device) {
      if (is_null(buffer)) return this;  // Run then reports the null argument
    }
  }
  if (arguments.size() != num_devices_) return this;  // Run then reports the wrong number
  for (const LoadedExecutable* each : for_shapes()) {
    if (each->argument_types_->AreKnown(*each)) continue;
    return Unimplemented("callout: the program '" + name() +
                         "' was exported for several shapes, and the plugin does not "
                         "tell which of them an executable takes");
  }
  const internal::PjrtApi& api = client()->plugin().api();
  if (argument_types_->Check(arguments, *this, api).ok()) return this;
  for (const LoadedExecutable& other : others_) {
    if (other.argument_types_->Check(arguments, other, api).ok()) return &other;
  }
  return NoneTakes(*this, arguments[0]);
}

Result<Execution> LoadedExecutable::Execute(std::span<const std::vector<const Buffer*>> arguments,
                                            const ExecuteOptions& options) const {
  internal::SmallBuffer<std::span<const Buffer* const>, 8> lists(arguments.size());
  std::copy(arguments.begin(), arguments.end(), lists.data());
  const Arguments all(lists.data(), lists.size());
  if (others_.empty()) [[likely]]
    return ExecuteThis(all, options);
  CALLOUT_ASSIGN_OR_RETURN(const LoadedExecutable* const chosen, Choose(all));
  return chosen->ExecuteThis(all, options);
}

Result<std::vector<Buffer>> LoadedExecutable::Run(const std::vector<const Buffer*>& arguments,
                                                  const ExecuteOptions& options) const {
  return RunChosen(arguments, options);
}

Result<std::vector<Buffer>> LoadedExecutable::Run(std::initializer_list<const Buffer*> arguments,
                                                  const ExecuteOptions& options) const {
  return RunChosen({arguments.begin(), arguments.size()}, options);
}

Result<std::vector<Buffer>> LoadedExecutable::RunChosen(std::span<const Buffer* const> arguments,
                                                        const ExecuteOptions& options) const {
  if (others_.empty()) [[likely]]
    return RunThis(arguments, options);
  CALLOUT_ASSIGN_OR_RETURN(const LoadedExecutable* const chosen, Choose({&arguments, 1}));
  return chosen->RunThis(arguments, options);
}

}  // namespace callout::pjrt
