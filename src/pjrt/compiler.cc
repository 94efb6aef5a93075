// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "callout/pjrt/executable.h"
#include "pjrt/bindings.h"
#include "pjrt/compile_options.h"
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
  CALLOUT_ASSIGN_OR_RETURN(const internal::Bindings bindings, internal::MakeBindings(options.loaded_host_callbacks));
  std::string code = program.code;  // PJRT wants it writable
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
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(client_->plugin().api(), PJRT_Client_Compile, args));
  LoadedExecutable executable(client_, args.executable);
  CALLOUT_RETURN_IF_ERROR(executable.ReadProperties());
  executable.callback_names_ = scope.asked();
  return executable;
}

}  // namespace callout::pjrt
