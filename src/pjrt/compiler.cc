// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "callout/pjrt/executable.h"
#include "pjrt/compile_options.h"
#include "pjrt/host_transfer_streams.h"
#include "pjrt/host_transfers.h"
#include "pjrt/pjrt_abi.h"
#include "registry/binding_scope.h"

namespace callout::pjrt {

Result<Program> Program::FromFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  Program program{std::string(std::istreambuf_iterator<char>(file), {})};
  if (file.is_open() && !file.bad()) return program;
  const StatusCode code = errno == EACCES ? StatusCode::kPermissionDenied : StatusCode::kNotFound;
  return Status(code, "callout: cannot read the program '" + path + "': " + std::strerror(errno));
}

Result<LoadedHostCallback> Compiler::MakeLoadedHostCallback(const LoadedHostCallbackMakeArgs& args) const {
  return args.Make();
}

Result<LoadedExecutable> Compiler::Compile(const Program& program, const CompileOptions& options) const {
  CALLOUT_ASSIGN_OR_RETURN(const std::string serialized, internal::SerializeCompileOptions(options));
  internal::Bindings bindings;
  for (const LoadedHostCallback& callback : options.loaded_host_callbacks) {
    if (!bindings.emplace(callback.name(), callback.callback()).second) {
      return InvalidArgument("callout: two callbacks are bound to the name '" + callback.name() + "'");
    }
  }
  CALLOUT_RETURN_IF_ERROR(internal::BindHostTransfers(options.loaded_host_callbacks, bindings));
  CALLOUT_ASSIGN_OR_RETURN(
      std::string code,  // PJRT wants it writable
      internal::PrepareHostTransfers(program.code, options.loaded_host_callbacks, client_->platform()));
  constexpr std::string_view kFormat = "mlir";
  internal::PjrtArgs<PJRT_Program> source;
  source.code = code.data();
  source.code_size = code.size();
  source.format = kFormat.data();
  source.format_size = kFormat.size();
  internal::PjrtArgs<PJRT_Client_Compile_Args> args;
  args.client = client_->handle();
  args.program = &source;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  const internal::BindingScope scope(bindings);
  CALLOUT_RETURN_IF_ERROR(
      internal::ExplainHostTransfers(CALLOUT_PJRT(client_->plugin().api(), PJRT_Client_Compile, args)));
  LoadedExecutable executable(client_, args.executable);
  CALLOUT_RETURN_IF_ERROR(executable.ReadProperties());
  executable.callback_names_ = scope.asked();
  CALLOUT_ASSIGN_OR_RETURN(executable.transfers_, internal::HostTransferProgram::Make(*client_, args.executable,
                                                                                      options.loaded_host_callbacks));
  return executable;
}

}  // namespace callout::pjrt
