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

/// Options of a compilation.
struct CompileOptions {
  /// Callbacks to bind for this program, by their names and by their places ("#0", "#1", ...). Other names are looked
  /// up in the process's registry.
  std::vector<LoadedHostCallback> loaded_host_callbacks = {};
  /// True: a name without a binding, or code that `embedded_code` refuses, does not fail the compilation. The program
  /// fails when it calls that callback.
  bool allow_unbound_names = false;
  /// Whether native code that the program carries (embed=True of callout.cpp, images of GPU kernels) may be loaded into
  /// this process; if not, a program that carries code fails with FailedPrecondition. Loading runs the code's
  /// initialisers: SECURITY.md. nullopt: the environment variable CALLOUT_EMBEDDED_CODE decides; true where it is not
  /// set.
  std::optional<bool> embedded_code = {};
  int num_replicas = 1;  ///< Copies of the program that run in parallel.
  /// Devices over which arrays are sharded. 0: as many as the program was exported for, or 1 if the program does not
  /// record it.
  int num_partitions = 0;
  /// The ids of the devices, replica by replica; empty for the first devices.
  std::vector<int> device_assignment = {};
  /// XLA's debug options for this program, by their names without dashes: {"xla_cpu_enable_fast_math", true}. The
  /// plugin reports an option that it does not know. Lists of numbers are not supported.
  Values xla_options = {};
  /// A folder of compiled programs, as a cache: a program that is in the folder is loaded, another one is added. The
  /// keys distinguish programs, options, plugins and machines. A missing folder is made with mode 0700. Empty: no
  /// cache.
  std::string cache_directory = {};
};

/// Options of a run.
struct ExecuteOptions {
  /// Callbacks get it as run_id; 0: the plugin chooses.
  int32_t run_id = 0;
  /// The numbers of inputs that the program may overwrite and keep; their buffers are then deleted. Only inputs that
  /// the program was compiled to take over are allowed: Signature::donatable.
  std::vector<int64_t> donated_inputs = {};
  /// False skips the check of the arguments' types; a plugin accepts any array with the right number of bytes.
  bool check_arguments = true;
  /// The limit on the wait of Run; 0: no limit. A timeout cancels nothing: the run goes on.
  std::chrono::nanoseconds timeout{0};
  /// The object that callbacks get as Call::context: a request, a deadline, a user. The run keeps it until it is done,
  /// even if `timeout` ends the wait earlier, and then drops it on any thread. Null: none.
  std::shared_ptr<void> context = {};
};

/// XLA's estimates of memory, in bytes on each device.
struct MemoryStats {
  int64_t generated_code = 0;  ///< Machine code.
  int64_t arguments = 0;       ///< The program's arguments.
  int64_t outputs = 0;         ///< The program's results.
  int64_t aliases = 0;         ///< Parts of the arguments that outputs share.
  int64_t temporaries = 0;     ///< Temporary buffers.
};

/// The outputs of one execution, and the events that mark its end.
struct Execution {
  std::vector<std::vector<Buffer>> outputs;  ///< For each device, in the order of the program's results.
  std::vector<Event> done;                   ///< One for each device.

  /// Blocks until all devices are done. Returns the first error, with the callback's own code and text if the plugin
  /// passes them on, which may be only in an output.
  CALLOUT_EXPORT Status Wait();
};

/// A compiled program with its callbacks. Movable. Const members are thread-safe; executions may overlap. A running
/// executable may be destroyed: the plugin's threads keep it and its callbacks until they are done with it, which may
/// be a moment after the outputs are ready.
class CALLOUT_EXPORT LoadedExecutable {
 public:
  /// Starts an execution, and may return before its end. `arguments` has one vector for each device of the program.
  /// Errors: InvalidArgument for another number of devices, for arguments of other types (for a program with several
  /// shapes, the message lists its shapes) or of another client, and over several devices for arguments that were
  /// deleted or are on another device; FailedPrecondition over several devices of XLA:CPU after such a launch failed
  /// halfway (docs/host.md); the callback's or the plugin's own. Blocks until the arguments are ready if the program
  /// runs on a runner, see ClientOptions::concurrent_runs.
  Result<Execution> Execute(std::span<const std::vector<const Buffer*>> arguments,
                            const ExecuteOptions& options = {}) const;
  /// Executes on one device, and Blocks until the execution is done. DeadlineExceeded after ExecuteOptions::timeout. A
  /// program that XLA:CPU runs on the calling thread (see docs/host.md) may take longer.
  Result<std::vector<Buffer>> Run(const std::vector<const Buffer*>& arguments,
                                  const ExecuteOptions& options = {}) const;
  /// Executes on one device like the other Run; `Run({&one, &other})` then needs no vector.
  Result<std::vector<Buffer>> Run(std::initializer_list<const Buffer*> arguments,
                                  const ExecuteOptions& options = {}) const;

  /// Returns the types of inputs and outputs. Errors: Unimplemented if the plugin does not report them, or reports
  /// types that this library does not know.
  Result<Signature> ReadSignature() const;
  /// Returns the places of the compiled program that call callbacks. Errors: those of ReadSignature.
  Result<std::vector<CallbackUse>> ReadCallbackUses() const;
  /// Returns all other custom calls, and who provides their functions. Errors: those of ReadSignature.
  Result<std::vector<CustomCallUse>> ReadCustomCalls() const;
  /// Returns XLA's estimates, "flops", "bytes accessed", ...; the plugin chooses the names.
  Result<Values> ReadCosts() const;
  /// Returns XLA's estimate of the memory that a run takes. Errors: the plugin's own.
  Result<MemoryStats> ReadMemoryStats() const;

  /// Returns bytes from which Compiler::Load makes the executable again, in any process, even if this executable was
  /// itself loaded. The bytes name callbacks and do not contain them. They are the plugin's code for this machine.
  /// Errors: Unimplemented if the plugin cannot serialize, and for a program with several shapes (serialize those of
  /// for_shapes, or use CompileOptions::cache_directory); else the plugin's own.
  Result<std::string> Serialize() const;
  /// Returns true if the executable came from CompileOptions::cache_directory.
  bool is_from_cache() const { return is_from_cache_; }

  /// Returns the executables of a program with several shapes (Program::others), this one first; for other programs
  /// this one alone. ReadSignature and the other members describe this one. Execute and Run choose the executable that
  /// accepts the arguments. Borrowed: valid as long as this object.
  std::vector<const LoadedExecutable*> for_shapes() const;
  /// Returns Program::shapes.
  const std::string& shapes() const { return shapes_; }

  /// Returns the module's name; empty if the plugin does not report it.
  const std::string& name() const { return name_; }
  /// Returns the number of devices of this process on which the executable runs.
  size_t num_devices() const { return num_devices_; }
  /// Returns the number of outputs on each device.
  size_t num_outputs() const { return num_outputs_; }
  /// Returns the names under which the program asked for callbacks when it was compiled, each once.
  const std::vector<std::string>& callback_names() const { return callback_names_; }

 private:
  friend class Compiler;
  struct Launch;
  using Arguments = std::span<const std::span<const Buffer* const>>;  // one for each device
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
  // The bytes as the plugin's compiler made them, if handle_ was loaded from them. XLA:CPU does not keep the object
  // code of an executable that it loaded, so the plugin would serialize handle_ to bytes that load and cannot run.
  // Null: the plugin compiled handle_ itself, and can serialize it.
  std::shared_ptr<const std::string> loaded_from_;
  Handle<PJRT_Executable> executable_;
  std::string name_;
  size_t num_devices_ = 0;
  std::vector<PJRT_Device*> devices_;
  PJRT_Device* only_device_ = nullptr;  // XLA:CPU: the device that executions name; else null
  size_t num_outputs_ = 0;
  std::vector<std::string> callback_names_;
  std::shared_ptr<const internal::HostTransferProgram> transfers_;  // null: none
  std::shared_ptr<internal::ArgumentTypes> argument_types_;
  bool is_from_cache_ = false;
  std::string shapes_;
  std::vector<LoadedExecutable> others_;  // for other shapes
  int32_t home_device_ = 0;               // the id of the device for which the program was compiled
  bool wants_runners_ = false;            // true: the program runs on runners if the client has some
  internal::Runners* runners_ = nullptr;  // the client's; null: the program runs on home devices
  std::vector<Handle<PJRT_LoadedExecutable>>
      others_on_runners_;  // on the runners' clients after the first, which has handle_
};

/// Compiles programs for a client. Thread-safe.
class CALLOUT_EXPORT Compiler {
 public:
  /// Compiles for the devices of `client`.
  explicit Compiler(std::shared_ptr<const Client> client) : client_(std::move(client)) {}

  /// Returns what `args.Make()` returns.
  Result<LoadedHostCallback> MakeLoadedHostCallback(const LoadedHostCallbackMakeArgs& args) const;

  /// Compiles a program. The executable keeps the callbacks that the program asks for. Errors: InvalidArgument for two
  /// callbacks of one name, for impossible numbers of devices, for programs of other platforms, and for programs that
  /// take tokens or symbolic dimensions; Unimplemented for arguments of another layout than row-major;
  /// FailedPrecondition for a newer StableHLO than the plugin's; NotFound for a name without a binding, with the names
  /// that the program needs if it lists them; PermissionDenied for a cache to which others may write; else the plugin's
  /// own.
  Result<LoadedExecutable> Compile(const Program& program, const CompileOptions& options = {}) const;

  /// Loads the bytes that LoadedExecutable::Serialize returned. Uses the options for callbacks and `embedded_code` as
  /// Compile does; other options have no effect. The bytes are code, which the plugin trusts: load them only from a
  /// source from which you would load a shared library. Returns InvalidArgument for bytes that are damaged or that
  /// Serialize did not return, FailedPrecondition for bytes of another plugin or machine, NotFound for a name without a
  /// binding, and otherwise the plugin's own error.
  Result<LoadedExecutable> Load(std::string_view serialized, const CompileOptions& options = {}) const;

 private:
  struct Preparation;
  Result<LoadedExecutable> CompileOne(const Program& program, const CompileOptions& options) const;
  Result<Preparation> Prepare(const Program& program, const CompileOptions& options) const;
  Result<LoadedExecutable> CompileAnew(Preparation& prepared, const Program& program, const CompileOptions& options,
                                       std::string* serialized) const;
  Status Store(const internal::ExecutableCache& cache, const std::string& key, const std::string& serialized,
               const LoadedExecutable& executable, const CompileOptions& options) const;

  std::shared_ptr<const Client> client_;
};

}  // namespace callout::pjrt
