// SPDX-License-Identifier: Apache-2.0
//
// What a compiled program tells of itself.
#include "callout/pjrt/executable.h"
#include "pjrt/hlo_signature.h"
#include "pjrt/pjrt_abi.h"
#include "pjrt/values.h"

namespace callout::pjrt {

using internal::PjrtArgs;

Result<Signature> LoadedExecutable::ReadSignature() const {
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
  if (format != "hlo" && format != "hlo_with_config") {
    return Unimplemented("callout: the plugin tells of programs as '" + std::string(format) +
                         "', expected 'hlo' or 'hlo_with_config'");
  }
  return internal::ParseHloSignature(bytes, format == "hlo_with_config", num_devices_);
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
