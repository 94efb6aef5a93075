// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "callout/pjrt/executable.h"
#include "pjrt/bindings.h"
#include "pjrt/compile_options.h"
#include "pjrt/ffi_handlers.h"
#include "pjrt/host_transfer_streams.h"
#include "pjrt/host_transfers.h"
#include "pjrt/pjrt_abi.h"
#include "registry/binding_scope.h"

namespace callout::pjrt {
namespace {

Status CheckCallable(const Program& program, const CompileOptions& options, const std::string& platform) {
  const std::string what = "callout: the program " + (program.name.empty() ? "" : "'" + program.name + "' ");
  const auto& platforms = program.platforms;
  if (!platforms.empty() && std::find(platforms.begin(), platforms.end(), platform) == platforms.end()) {
    std::string known;
    for (const std::string& each : platforms) known += " '" + each + "'";
    return InvalidArgument(what + "was exported for" + known + ", and the plugin is for '" + platform + "'");
  }
  if (platforms.size() > 1) {
    return InvalidArgument(what + "was exported for several platforms; export it with platforms=['" + platform + "']");
  }
  if (program.has_dimension_arguments) {
    return InvalidArgument(what + "has symbolic dimensions; export it for the shapes that it is run with");
  }
  if (options.num_partitions > 0 && program.num_devices > 0 && options.num_partitions != program.num_devices) {
    return InvalidArgument(what + "was exported for " + std::to_string(program.num_devices) + " devices, got " +
                           std::to_string(options.num_partitions) + " partitions");
  }
  if (program.num_tokens > 0) {
    return InvalidArgument(what + "takes tokens, for " + std::to_string(program.num_tokens) +
                           " ordered effects; callout.export keeps the order inside the program");
  }
  return OkStatus();
}

// Which StableHLO the plugin reads, "" if it does not say.
std::string NewestStablehlo(const Plugin& plugin) {
  const auto it = plugin.attributes().find("stablehlo_current_version");
  if (it == plugin.attributes().end()) return "";
  const auto* numbers = std::get_if<std::vector<int64_t>>(&it->second);
  std::string version;
  for (const int64_t number : numbers == nullptr ? std::vector<int64_t>() : *numbers) {
    version += (version.empty() ? "" : ".") + std::to_string(number);
  }
  return version;
}

bool IsNewer(const std::string& one, const std::string& other) {
  int a[3] = {}, b[3] = {};
  if (std::sscanf(one.c_str(), "%d.%d.%d", &a[0], &a[1], &a[2]) != 3) return false;
  if (std::sscanf(other.c_str(), "%d.%d.%d", &b[0], &b[1], &b[2]) != 3) return false;
  return std::lexicographical_compare(b, b + 3, a, a + 3);
}

// The plugin's error, with its reason where that is known.
Status Explain(Status error, const Program& program, const Plugin& plugin) {
  if (error.message().find("Side-effect HLO must have sharding") != std::string_view::npos) {
    return Status(error.code(),
                  "callout: in a program over several partitions, taps and calls with side effects have to be inside "
                  "of shard_map. The plugin says: " +
                      std::string(error.message()));
  }
  error = internal::ExplainMissingHandler(std::move(error));
  const std::string version = program.StablehloVersion(), newest = NewestStablehlo(plugin);
  if (!IsNewer(version, newest)) return error;
  return FailedPrecondition(
      "callout: the program is StableHLO " + version + ", and the plugin '" + plugin.path() + "' reads " + newest +
      " and older; export it with callout.export(..., stablehlo_version=\"" + newest + "\"), or for_plugin=\"" +
      plugin.path() + "\". The plugin says: " + std::string(error.message()));
}

// Stands for a callback that nobody has.
std::shared_ptr<internal::Callback> MakePlaceholder(std::string_view name) {
  const std::string text(name);
  const auto fail = [text](const Call&) {
    return NotFound("callout: no callback is bound to the name '" + text + "'");
  };
  Result<LoadedHostCallback> made = FunctionCallback(text, fail).Make();
  return made.ok() ? made->callback() : nullptr;
}

// Whether a program may wait for its callbacks. Taps do not block.
bool HasCalls(std::string_view code) {
  return code.find("callout.v1.call") != std::string_view::npos ||
         code.find("callout.v1.buffer") != std::string_view::npos;
}

}  // namespace

Result<LoadedHostCallback> Compiler::MakeLoadedHostCallback(const LoadedHostCallbackMakeArgs& args) const {
  return args.Make();
}

Result<LoadedExecutable> Compiler::Compile(const Program& program, const CompileOptions& options) const {
  CALLOUT_RETURN_IF_ERROR(CheckCallable(program, options, client_->platform()));
  CALLOUT_ASSIGN_OR_RETURN(const std::string serialized,
                           internal::SerializeCompileOptions(options, std::max(program.num_devices, 1)));
  CALLOUT_ASSIGN_OR_RETURN(const internal::Bindings bindings, internal::MakeBindings(options.loaded_host_callbacks));
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
  CALLOUT_RETURN_IF_ERROR(internal::ProvideLapack(*client_, code));
  internal::BindingScope scope(bindings, options.allow_unbound_names ? &MakePlaceholder : nullptr);
  const Plugin& plugin = client_->plugin();
  Status status = internal::ExplainHostTransfers(CALLOUT_PJRT(plugin.api(), PJRT_Client_Compile, args));
  if (!status.ok()) return Explain(std::move(status), program, plugin);
  LoadedExecutable executable(client_, args.executable);
  CALLOUT_RETURN_IF_ERROR(executable.ReadProperties());
  if (code.find("mhlo.layout_mode") != std::string::npos) {  // reading the compiled program takes its time
    CALLOUT_RETURN_IF_ERROR(executable.CheckArgumentLayouts());
  }
  executable.callback_names_ = scope.asked();
  CALLOUT_ASSIGN_OR_RETURN(executable.transfers_, internal::HostTransferProgram::Make(*client_, args.executable,
                                                                                      options.loaded_host_callbacks));
  if (HasCalls(code)) CALLOUT_RETURN_IF_ERROR(executable.MoveToLanes(client_, options, scope));
  return executable;
}

}  // namespace callout::pjrt
