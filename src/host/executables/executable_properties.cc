// SPDX-License-Identifier: Apache-2.0
//
// What a compiled program tells of itself.
#include "callout/pjrt/executable.h"
#include "core/encoding/wire.h"
#include "host/executables/other_handlers.h"
#include "host/pjrt/pjrt_abi.h"
#include "host/pjrt/values.h"
#include "host/programs/hlo_calls.h"
#include "host/programs/hlo_shape.h"
#include "host/programs/hlo_signature.h"

namespace callout::pjrt {

using internal::PjrtArgs;

namespace {

// The HloModuleProto in an HloModuleProtoWithConfig.
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
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Executable_OptimizedProgram, args));  // the size
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

}  // namespace callout::pjrt
