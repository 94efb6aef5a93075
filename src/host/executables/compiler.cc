// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <utility>

#include "callout/pjrt/executable.h"
#include "core/attributes/jax_calls.h"
#include "core/base/cat.h"
#include "core/base/log.h"
#include "core/callbacks/binding_scope.h"
#include "core/encoding/checksums.h"
#include "host/executables/callback_bindings.h"
#include "host/executables/compile_options.h"
#include "host/executables/executable_file.h"
#include "host/executables/other_handlers.h"
#include "host/pjrt/pjrt_abi.h"
#include "host/transfers/preparation.h"
#include "host/transfers/transfer_streams.h"

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
    return InvalidArgument(what +
                           "has symbolic dimensions; export it for the shapes that it is run with: "
                           "callout.export(..., shapes=[...])");
  }
  if (options.num_partitions > 0 && program.num_devices > 0 && options.num_partitions != program.num_devices) {
    return InvalidArgument(internal::Cat(what, "was exported for ", program.num_devices, " devices, got ",
                                         options.num_partitions, " partitions"));
  }
  if (program.num_tokens > 0) {
    return InvalidArgument(internal::Cat(what, "takes tokens, for ", program.num_tokens,
                                         " ordered effects; callout.export keeps the order inside the program"));
  }
  return OkStatus();
}

// Returns the StableHLO version that the plugin reads, "" if the plugin does not report one.
std::string NewestStablehlo(const Plugin& plugin) {
  const auto it = plugin.attributes().find("stablehlo_current_version");
  if (it == plugin.attributes().end()) return "";
  const auto* numbers = std::get_if<std::vector<int64_t>>(&it->second);
  return numbers == nullptr ? "" : internal::Join(*numbers, ".");
}

bool IsNewer(const std::string& one, const std::string& other) {
  int a[3] = {}, b[3] = {};
  if (std::sscanf(one.c_str(), "%d.%d.%d", &a[0], &a[1], &a[2]) != 3) return false;
  if (std::sscanf(other.c_str(), "%d.%d.%d", &b[0], &b[1], &b[2]) != 3) return false;
  return std::lexicographical_compare(b, b + 3, a, a + 3);
}

// Adds the reason to the plugin's error where the reason is known.
Status Explain(Status error, const Program& program, const Plugin& plugin) {
  if (error.message().find("Side-effect HLO must have sharding") != std::string_view::npos) {
    return error.WithMessage(
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

// Makes a callback that fails, for a name to which nothing is bound.
std::shared_ptr<internal::Callback> MakePlaceholder(std::string_view name) {
  const std::string text(name);
  const auto fail = [text](const Call&) {
    return Status(StatusCode::kNotFound, "callout: no callback is bound to the name '" + text + "'",
                  StatusKind::kUnboundName);
  };
  Result<LoadedHostCallback> made = FunctionCallback(text, fail).Make();
  return made.ok() ? made->callback() : nullptr;
}

// Makes placeholder callbacks during a compilation for names to which nothing is bound, and collects the names.
class Placeholders {
 public:
  explicit Placeholders(const CompileOptions& options) : allows_all_(options.allow_unbound_names) {}

  internal::BindingScope::Fallback fallback() {
    return [this](std::string_view name) -> std::shared_ptr<internal::Callback> {
      if (allows_all_) return MakePlaceholder(name);
      if (!name.starts_with(internal::kJaxNamePrefix)) return nullptr;
      // A program of JAX's does not list the names that it needs, so the error names all missing ones once all were
      // looked up.
      if (std::ranges::find(missing_, name) == missing_.end()) missing_.emplace_back(name);
      return MakePlaceholder(name);
    };
  }

  /// NotFound with the names to which nothing is bound.
  Status Check() {
    if (missing_.empty()) return OkStatus();
    std::ranges::sort(missing_, {}, [](const std::string& name) { return std::pair(name.size(), name); });
    const auto quoted = [](const std::string& name) { return "'" + name + "'"; };
    return Status(
        StatusCode::kNotFound,
        "callout: no callback is bound to " + internal::Join(missing_, ", ", quoted) +
            ": they stand for the Python functions that JAX had when it lowered the program (pure_callback, "
            "io_callback, debug.callback, buffer_callback), in their order; bind a function to each of these names",
        StatusKind::kUnboundName);
  }

 private:
  const bool allows_all_;
  std::vector<std::string> missing_;
};

// True if a program may block on its callbacks. Taps do not block.
bool HasCalls(std::string_view code) {
  constexpr std::string_view kTargets[] = {"callout.v1.call", "callout.v1.buffer", "_python_cpu_callback"};
  return std::ranges::any_of(kTargets, [&](std::string_view target) { return code.find(target) != code.npos; });
}

}  // namespace

Result<LoadedHostCallback> Compiler::MakeLoadedHostCallback(const LoadedHostCallbackMakeArgs& args) const {
  return args.Make();
}

// The input of a compilation in the form that the plugin takes.
struct Compiler::Preparation {
  std::string options;  // serialised
  internal::Bindings bindings;
  std::string code;  // a copy, because PJRT wants it writable
};

Result<Compiler::Preparation> Compiler::Prepare(const Program& program, const CompileOptions& options) const {
  Preparation prepared;
  CALLOUT_RETURN_IF_ERROR(CheckCallable(program, options, client_->platform()));
  CALLOUT_ASSIGN_OR_RETURN(prepared.options,
                           internal::SerializeCompileOptions(options, std::max(program.num_devices, 1)));
  CALLOUT_ASSIGN_OR_RETURN(prepared.bindings, internal::MakeBindings(options.loaded_host_callbacks));
  CALLOUT_ASSIGN_OR_RETURN(
      prepared.code, internal::PrepareHostTransfers(program.code, options.loaded_host_callbacks, client_->platform()));
  return prepared;
}

// `serialized`: null, or receives the bytes that Serialize would return.
Result<LoadedExecutable> Compiler::CompileAnew(Preparation& prepared, const Program& program,
                                               const CompileOptions& options, std::string* serialized) const {
  std::string& code = prepared.code;
  constexpr std::string_view kFormat = "mlir";
  internal::PjrtArgs<PJRT_Program> source;
  source.code = code.data();
  source.code_size = code.size();
  source.format = kFormat.data();
  source.format_size = kFormat.size();
  internal::PjrtArgs<PJRT_Client_Compile_Args> args;
  args.client = client_->handle();
  args.program = &source;
  args.compile_options = prepared.options.data();
  args.compile_options_size = prepared.options.size();
  CALLOUT_RETURN_IF_ERROR(internal::ProvideLapack(*client_, code));
  Placeholders placeholders(options);
  internal::BindingScope scope(prepared.bindings, placeholders.fallback());
  scope.SetEmbeddedCode(options.embedded_code, options.allow_unbound_names);
  const Plugin& plugin = client_->plugin();
  Status status = internal::ExplainHostTransfers(CALLOUT_PJRT(plugin.api(), PJRT_Client_Compile, args));
  if (!status.ok()) return Explain(std::move(status), program, plugin);
  LoadedExecutable executable(client_, args.executable);
  CALLOUT_RETURN_IF_ERROR(placeholders.Check());
  CALLOUT_RETURN_IF_ERROR(executable.ReadProperties());
  CALLOUT_RETURN_IF_ERROR(internal::CheckJaxCalls(executable, prepared.bindings));
  if (code.find("mhlo.layout_mode") != std::string::npos) {  // reading the compiled program is slow
    CALLOUT_RETURN_IF_ERROR(executable.CheckArgumentLayouts());
  }
  CALLOUT_ASSIGN_OR_RETURN(executable.transfers_, internal::HostTransferProgram::Make(*client_, args.executable,
                                                                                      options.loaded_host_callbacks));
  executable.home_device_ = options.device_assignment.empty() ? client_->devices()[0].id : options.device_assignment[0];
  executable.wants_runners_ =
      HasCalls(code) && client_->platform() == "cpu" && executable.num_devices_ == 1 && !executable.RunsOnCaller();
  const bool moves = executable.wants_runners_ && client_->runners() != nullptr;
  if (moves || serialized != nullptr) {
    auto bytes = internal::SerializeExecutable(plugin.api(), args.executable);
    if (bytes.ok()) {  // without bytes, the executable runs where it was compiled
      const auto compiled = std::make_shared<const std::string>(*std::move(bytes));
      if (moves) (void)executable.MoveToRunners(client_, executable.home_device_, compiled, scope);
      if (serialized != nullptr) *serialized = executable.WriteFile(*compiled);
    }
  }
  executable.callback_names_ = scope.asked();
  executable.shapes_ = program.shapes;
  return executable;
}

Result<LoadedExecutable> Compiler::Compile(const Program& program, const CompileOptions& options) const {
  CALLOUT_ASSIGN_OR_RETURN(LoadedExecutable executable, CompileOne(program, options));
  for (const Program& other : program.others) {
    CALLOUT_ASSIGN_OR_RETURN(LoadedExecutable compiled, CompileOne(other, options));
    executable.is_from_cache_ = executable.is_from_cache_ && compiled.is_from_cache_;
    for (const std::string& name : compiled.callback_names_) {
      auto& names = executable.callback_names_;
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    executable.others_.push_back(std::move(compiled));
  }
  return executable;
}

// Writes a compiled program to the cache, unless the plugin cannot load it again.
Status Compiler::Store(const internal::ExecutableCache& cache, const std::string& key, const std::string& serialized,
                       const LoadedExecutable& executable, const CompileOptions& options) const {
  if (executable.loaded_from_ == nullptr) {  // nobody has tried to load the bytes yet
    if (const Result<LoadedExecutable> loaded = Load(serialized, options); !loaded.ok()) {
      return loaded.status().WithMessage(
          "callout: the compiled program is not put into the cache '" + options.cache_directory +
          "', because it cannot be loaded again: " + std::string(loaded.status().message()));
    }
  }
  return cache.Write(key, serialized);
}

Result<LoadedExecutable> Compiler::CompileOne(const Program& program, const CompileOptions& options) const {
  CALLOUT_ASSIGN_OR_RETURN(Preparation prepared, Prepare(program, options));
  if (options.cache_directory.empty()) return CompileAnew(prepared, program, options, nullptr);
  CALLOUT_ASSIGN_OR_RETURN(const auto cache, internal::ExecutableCache::Open(options.cache_directory));
  const std::string key = internal::Sha256Hex(
      internal::Cat(internal::MadeBy(*client_), '\n', prepared.options.size(), '\n', prepared.options, prepared.code));
  Status unusable;  // why the program in the cache cannot be loaded
  if (const auto found = cache.Read(key)) {
    Result<LoadedExecutable> loaded = Load(*found, options);
    if (loaded.ok()) {
      loaded->is_from_cache_ = true;
      loaded->shapes_ = program.shapes;
      return loaded;
    }
    unusable = loaded.status();
  }
  std::string serialized;
  // If a name is missing, the compilation fails with an error that names it; the program stays in the cache.
  CALLOUT_ASSIGN_OR_RETURN(LoadedExecutable executable, CompileAnew(prepared, program, options, &serialized));
  if (!unusable.ok()) {
    internal::Log(internal::LogLevel::kWarning,
                  "callout: the program in the cache '" + options.cache_directory +
                      "' cannot be loaded; it was compiled again, and is replaced: " + std::string(unusable.message()));
    cache.Remove(key);
  }
  if (serialized.empty()) return executable;
  if (const Status stored = Store(cache, key, serialized, executable, options); !stored.ok()) {
    internal::Log(internal::LogLevel::kWarning, stored.message());
  }
  return executable;
}

Result<LoadedExecutable> Compiler::Load(std::string_view serialized, const CompileOptions& options) const {
  CALLOUT_ASSIGN_OR_RETURN(internal::ExecutableFile file, internal::ExecutableFile::Read(serialized));
  if (const std::string here = internal::MadeBy(*client_); file.made_by != here) {
    return FailedPrecondition("callout: the executable was made by another plugin or machine: " + file.made_by +
                              "; here is " + here + "; compile the program here");
  }
  CALLOUT_ASSIGN_OR_RETURN(const internal::Bindings bindings, internal::MakeBindings(options.loaded_host_callbacks));
  CALLOUT_RETURN_IF_ERROR(internal::ProvideLapack(*client_, file.bytes));
  Placeholders placeholders(options);
  internal::BindingScope scope(bindings, placeholders.fallback());
  scope.SetEmbeddedCode(options.embedded_code, options.allow_unbound_names);
  LoadedExecutable executable(client_, nullptr);
  executable.wants_runners_ = file.wants_runners;
  executable.home_device_ = file.device;
  auto bytes = std::make_shared<const std::string>(std::move(file.bytes));
  if (file.wants_runners && client_->runners() != nullptr) {
    CALLOUT_RETURN_IF_ERROR(executable.MoveToRunners(client_, file.device, std::move(bytes), scope));
  } else {
    CALLOUT_ASSIGN_OR_RETURN(PJRT_LoadedExecutable* const handle, internal::LoadSerialized(*client_, *bytes, ""));
    executable.handle_ = Own(client_, handle);
    executable.loaded_from_ = std::move(bytes);
    CALLOUT_RETURN_IF_ERROR(executable.ReadProperties());
    CALLOUT_ASSIGN_OR_RETURN(executable.transfers_,
                             internal::HostTransferProgram::Make(*client_, handle, options.loaded_host_callbacks));
  }
  CALLOUT_RETURN_IF_ERROR(placeholders.Check());
  CALLOUT_RETURN_IF_ERROR(internal::CheckJaxCalls(executable, bindings));
  executable.callback_names_ = scope.asked();
  return executable;
}

Result<std::string> LoadedExecutable::Serialize() const {
  if (!others_.empty()) {
    return Unimplemented("callout: the program '" + name_ +
                         "' has several shapes: serialize each of for_shapes(), or use a cache_directory");
  }
  if (loaded_from_ != nullptr) return WriteFile(*loaded_from_);
  CALLOUT_ASSIGN_OR_RETURN(const std::string bytes,
                           internal::SerializeExecutable(client()->plugin().api(), handle_.get()));
  return WriteFile(bytes);
}

std::string LoadedExecutable::WriteFile(const std::string& bytes) const {
  return internal::ExecutableFile{internal::MadeBy(*client()), wants_runners_, home_device_, bytes}.Write();
}

}  // namespace callout::pjrt
