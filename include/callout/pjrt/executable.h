// SPDX-License-Identifier: Apache-2.0
//
// Compiling programs with callbacks, and running them.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/pjrt/buffer.h"
#include "callout/pjrt/client.h"
#include "callout/pjrt/compile_process.h"
#include "callout/pjrt/event.h"
#include "callout/pjrt/handle.h"
#include "callout/pjrt/host_callback.h"
#include "callout/pjrt/program.h"
#include "callout/pjrt/signature.h"
#include "callout/status.h"

namespace callout::internal {
class ArgumentTypes;
class BindingScope;
class ExecutableCache;
class HostTransferProgram;
class Runners;
}  // namespace callout::internal

namespace callout::pjrt {

/// How a program is compiled.
struct CompileOptions {
  /// Bound for this program, by their names and by their places ("#0", "#1", ...). Names that are not among them are
  /// looked up in the process's registry.
  std::vector<LoadedHostCallback> loaded_host_callbacks = {};
  /// True: a name that nothing is bound to does not fail the compilation, but the program where it calls it; nor does
  /// code that `embedded_code` refuses.
  bool allow_unbound_names = false;
  /// Whether native code that the program carries (embed=True of callout.cpp, images of GPU kernels) may be loaded into
  /// this process; a program that carries code is FailedPrecondition otherwise. Loading runs the code's initialisers:
  /// SECURITY.md. nullopt: as the environment variable CALLOUT_EMBEDDED_CODE says; true where it is not set.
  std::optional<bool> embedded_code = {};
  int num_replicas = 1;  ///< Copies of the program that run beside each other.
  /// Devices over which arrays are sharded; 0: as many as the program was exported for, 1 if it does not say.
  int num_partitions = 0;
  /// The ids of the devices, replica by replica; the first ones if it is empty.
  std::vector<int> device_assignment = {};
  /// XLA's debug options for this program, by their names without dashes: {"xla_cpu_enable_fast_math", true}. The
  /// plugin says if it does not know one. No lists of numbers.
  Values xla_options = {};
  /// A folder of compiled programs: one that is there is loaded, another one is put there. Programs, options, plugins
  /// and machines are told apart. It is made with mode 0700 if it is missing. Empty: none.
  std::string cache_directory = {};
  /// Reads and compiles the program in another process, and loads here what it became: a program that crashes the
  /// plugin's reader is Internal then. That process knows this one's options, but none of its callbacks.
  CompileProcess process = {};
};

/// How a program is run.
struct ExecuteOptions {
  /// What callbacks see as run_id; 0: the plugin's choice.
  int32_t run_id = 0;
  /// The numbers of inputs that the program may overwrite and keep; their buffers are deleted then. Only inputs that
  /// the program was made to take over may be: Signature::donatable.
  std::vector<int64_t> donated_inputs = {};
  /// False: the arguments' types are not looked at. A plugin takes any array of as many bytes.
  bool check_arguments = true;
  /// How long Run waits; 0: until it is done. Nothing is cancelled: what was started goes on.
  std::chrono::nanoseconds timeout{0};
  /// What callbacks see as Call::context: a request, a deadline, a user. Kept until the run is done, also when
  /// `timeout` is over earlier; then dropped, on any thread. Null: none.
  std::shared_ptr<void> context = {};
};

/// Bytes, on each device.
struct MemoryStats {
  int64_t generated_code = 0;  ///< Machine code.
  int64_t arguments = 0;       ///< What the program takes.
  int64_t outputs = 0;         ///< What the program returns.
  int64_t aliases = 0;         ///< Of arguments that outputs share.
  int64_t temporaries = 0;     ///< What it needs meanwhile.
};

/// What one execution made: per device its outputs, and when it is done.
struct Execution {
  std::vector<std::vector<Buffer>> outputs;  ///< Per device, in the order of the program's results.
  std::vector<Event> done;                   ///< Per device.

  /// Blocks until all devices are done. The first error, with the callback's own code and text where the plugin tells
  /// them: it may only be in an output.
  CALLOUT_EXPORT Status Wait();
};

/// Movable. Const members are thread-safe; executions may overlap. Destroying it is safe while it runs: the plugin's
/// threads keep it, and so its callbacks, until they are done with it, which may be a moment after the outputs are
/// there.
class CALLOUT_EXPORT LoadedExecutable {
 public:
  /// Starts it. `arguments`: per device of the program. May return before it is done. Errors: InvalidArgument for
  /// another number of devices, and for arguments of other types (of a program for several shapes: with those that
  /// there are) or of another client, and over several devices for those that were deleted or are on another device;
  /// FailedPrecondition over several devices of XLA:CPU after such a launch failed halfway (docs/host.md); the
  /// callback's or the plugin's own. Blocks until the arguments are there where the program runs on a runner, see
  /// ClientOptions::concurrent_runs.
  Result<Execution> Execute(std::span<const std::vector<const Buffer*>> arguments,
                            const ExecuteOptions& options = {}) const;
  /// Executes on one device, and waits. DeadlineExceeded after ExecuteOptions::timeout, which a program that XLA:CPU
  /// runs on the thread that asks for it (see docs/host.md) may exceed.
  Result<std::vector<Buffer>> Run(const std::vector<const Buffer*>& arguments,
                                  const ExecuteOptions& options = {}) const;
  /// The same for `Run({&one, &other})`, which makes no vector of them.
  Result<std::vector<Buffer>> Run(std::initializer_list<const Buffer*> arguments,
                                  const ExecuteOptions& options = {}) const;

  /// Errors: Unimplemented if the plugin does not tell, or tells of what this library does not know.
  Result<Signature> ReadSignature() const;
  /// Returns the places of the compiled program that call out. Errors: as ReadSignature.
  Result<std::vector<CallbackUse>> ReadCallbackUses() const;
  /// Its other custom calls, and who has their functions. Errors: as ReadSignature.
  Result<std::vector<CustomCallUse>> ReadCustomCalls() const;
  /// XLA's estimates, "flops", "bytes accessed", ...: names are the plugin's.
  Result<Values> ReadCosts() const;
  /// XLA's estimate of the memory that it takes. Errors: the plugin's own.
  Result<MemoryStats> ReadMemoryStats() const;

  /// Returns what Compiler::Load makes it of again, also in another process, and also where this executable was loaded
  /// itself. Callbacks are in it by name only. The bytes are code of the plugin's, for this machine. Errors:
  /// Unimplemented if the plugin has none, and for a program for several shapes (serialize those of for_shapes, or use
  /// CompileOptions::cache_directory); else its own.
  Result<std::string> Serialize() const;
  /// Returns True if it was found in CompileOptions::cache_directory.
  bool is_from_cache() const { return is_from_cache_; }

  /// Returns the executables of a program for several shapes (Program::others), this one first, which ReadSignature and
  /// the other members describe; of other programs this one alone. Execute and Run choose the one that takes the
  /// arguments. Borrowed: valid as long as this object.
  std::vector<const LoadedExecutable*> for_shapes() const;
  /// Program::shapes.
  const std::string& shapes() const { return shapes_; }

  /// Returns the module's name; empty if the plugin does not tell.
  const std::string& name() const { return name_; }
  /// Returns the number of devices of this process on which it runs.
  size_t num_devices() const { return num_devices_; }
  /// Returns the number of outputs on each device.
  size_t num_outputs() const { return num_outputs_; }
  /// Returns the names under which the program asked for callbacks when it was compiled, each once.
  const std::vector<std::string>& callback_names() const { return callback_names_; }

 private:
  friend class Compiler;
  struct Launch;
  using Arguments = std::span<const std::span<const Buffer* const>>;  // per device
  LoadedExecutable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* handle);

  Result<const LoadedExecutable*> Choose(Arguments arguments) const;
  Result<Execution> ExecuteThis(Arguments arguments, const ExecuteOptions& options) const;
  Result<std::vector<Buffer>> RunChosen(std::span<const Buffer* const> arguments, const ExecuteOptions& options) const;
  Result<std::vector<Buffer>> RunThis(std::span<const Buffer* const> arguments, const ExecuteOptions& options) const;
  Status ReadProperties();
  Status CheckArgumentLayouts() const;
  Status MoveToRunners(const std::shared_ptr<const Client>& home, int32_t device,
                       std::shared_ptr<const std::string> bytes, internal::BindingScope& scope);
  bool RunsOnCaller() const;
  std::string WriteFile(const std::string& bytes) const;
  Result<std::string> ReadHloModule() const;
  Result<std::vector<Buffer>> RunFor(std::span<const Buffer* const> arguments, const ExecuteOptions& options) const;
  Status CheckBeforeLaunch(Arguments arguments, const Launch& launch) const;
  bool IsElsewhere(const Buffer& buffer, const Launch& launch) const;
  Status BorrowArguments(Arguments arguments, Launch& launch) const;
  Status DeleteDonated(Arguments arguments, const ExecuteOptions& options, const Launch& launch) const;
  static size_t ListKept(std::span<const int64_t> donated, Launch& launch);
  Status Start(Arguments arguments, const ExecuteOptions& options, Launch& launch) const;
  std::vector<Buffer> TakeOutputs(Launch& launch, size_t device) const;
  const std::shared_ptr<const Client>& client() const { return handle_.get_deleter().client; }

  Handle<PJRT_LoadedExecutable> handle_;
  // The plugin's bytes as its compiler made them, where handle_ was loaded from them: XLA:CPU does not keep the object
  // code of an executable that it loaded, so the plugin would serialize handle_ to bytes that load and cannot run.
  // Null: the plugin compiled handle_ itself, and can serialize it.
  std::shared_ptr<const std::string> loaded_from_;
  Handle<PJRT_Executable> executable_;
  std::string name_;
  size_t num_devices_ = 0;
  std::vector<PJRT_Device*> devices_;
  PJRT_Device* only_device_ = nullptr;  // which executions name, of XLA:CPU; else null
  size_t num_outputs_ = 0;
  std::vector<std::string> callback_names_;
  std::shared_ptr<const internal::HostTransferProgram> transfers_;  // null: none
  std::shared_ptr<internal::ArgumentTypes> argument_types_;
  bool is_from_cache_ = false;
  std::string shapes_;
  std::vector<LoadedExecutable> others_;  // for other shapes
  int32_t home_device_ = 0;               // the id of the device that it was compiled for
  bool wants_runners_ = false;            // true: it runs on runners where the client has some
  internal::Runners* runners_ = nullptr;  // the client's; null: it runs on the devices that it was compiled for
  std::vector<Handle<PJRT_LoadedExecutable>>
      others_on_runners_;  // for their clients after the first, which has handle_
};

/// Thread-safe.
class CALLOUT_EXPORT Compiler {
 public:
  /// Compiles for the client's devices.
  explicit Compiler(std::shared_ptr<const Client> client) : client_(std::move(client)) {}

  /// Returns what `args.Make()` returns.
  Result<LoadedHostCallback> MakeLoadedHostCallback(const LoadedHostCallbackMakeArgs& args) const;

  /// The executable keeps the callbacks that the program asks for. Errors: InvalidArgument for two callbacks of one
  /// name, for numbers of devices that cannot be, for programs of other platforms, and for programs that take tokens or
  /// symbolic dimensions; Unimplemented for arguments of another layout than row-major; FailedPrecondition for a newer
  /// StableHLO than the plugin's; NotFound for a name that nothing is bound to, with the names that the program needs
  /// where it says so; PermissionDenied for a cache to which others may write; of CompileOptions::process: Internal if
  /// a signal ends it, DeadlineExceeded, NotFound if it cannot be started; else the plugin's own.
  Result<LoadedExecutable> Compile(const Program& program, const CompileOptions& options = {}) const;

  /// Loads what LoadedExecutable::Serialize returned, with callbacks as Compile binds them; other options do not
  /// matter. The bytes are code, which the plugin believes: load only what you would load a shared library from.
  /// Errors: InvalidArgument for anything else and for damage; FailedPrecondition for what another plugin or machine
  /// made; NotFound for a name that nothing is bound to; else the plugin's own.
  Result<LoadedExecutable> Load(std::string_view serialized, const CompileOptions& options = {}) const;

 private:
  struct Preparation;
  Result<LoadedExecutable> CompileOne(const Program& program, const CompileOptions& options) const;
  Result<Preparation> Prepare(const Program& program, const CompileOptions& options) const;
  Result<std::string> CompileInProcess(const Preparation& prepared, const Program& program,
                                       const CompileOptions& options) const;
  Result<LoadedExecutable> CompileUncached(Preparation& prepared, const Program& program, const CompileOptions& options,
                                           std::string* serialized) const;
  Result<LoadedExecutable> CompileAnew(Preparation& prepared, const Program& program, const CompileOptions& options,
                                       std::string* serialized) const;
  Status Store(const internal::ExecutableCache& cache, const std::string& key, const std::string& serialized,
               const LoadedExecutable& executable, const CompileOptions& options) const;

  std::shared_ptr<const Client> client_;
};

}  // namespace callout::pjrt
