// SPDX-License-Identifier: Apache-2.0
//
// Callbacks of the host that a compiled program calls, and the ways to make them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "callout/abi.h"
#include "callout/call.h"
#include "callout/export.h"
#include "callout/status.h"

namespace callout::internal {
class Callback;
}

namespace callout::pjrt {

struct HostTransfers;

/// A callback that is ready to be called, under the name by which programs ask for it; "jax:0" for the first callback
/// that JAX itself lowered (docs/host.md). The object is a handle: copies are the same callback, which lives as long as
/// one of them, or an executable that was compiled with it. Thread-safe.
class CALLOUT_EXPORT LoadedHostCallback {
 public:
  /// Makes a handle. `serialized` is the result of Serialize, or empty if there is none. `transfers` may be null.
  LoadedHostCallback(std::string name, std::shared_ptr<internal::Callback> callback, std::string serialized = {},
                     std::shared_ptr<const HostTransfers> transfers = nullptr)
      : name_(std::move(name)),
        callback_(std::move(callback)),
        serialized_(std::move(serialized)),
        transfers_(std::move(transfers)) {}

  /// Returns the name by which programs ask for the callback.
  const std::string& name() const { return name_; }
  /// Returns the channels through which programs reach the callback, in ascending order; null if programs call it by
  /// its name only. See callout/pjrt/host_transfer.h.
  const std::shared_ptr<const HostTransfers>& transfers() const { return transfers_; }
  /// Returns bytes from which an OpaqueCallback makes the same callback, in any process. Unimplemented for a callback
  /// that was made of a function.
  Result<std::string> Serialize() const;
  /// Returns the callback, for this library's own classes.
  const std::shared_ptr<internal::Callback>& callback() const { return callback_; }

 private:
  std::string name_;
  std::shared_ptr<internal::Callback> callback_;
  std::string serialized_;
  std::shared_ptr<const HostTransfers> transfers_;
};

/// A recipe for a callback. Hosts may derive kinds of their own, which may use the kinds below.
class CALLOUT_EXPORT LoadedHostCallbackMakeArgs {
 public:
  /// Leaves the callbacks alive that Make has returned.
  virtual ~LoadedHostCallbackMakeArgs();
  /// Makes a callback. Errors: those of its kind.
  virtual Result<LoadedHostCallback> Make() const = 0;
};

/// A C++ function. In a program's call the function fills the results; for a tap it only reads the arguments, on the
/// delivery thread. Programs call the function on their own threads, several at once; an exception becomes the error of
/// the call. If the function returns an error, the text that it passed to `raw()->set_error` is appended.
struct CALLOUT_EXPORT FunctionCallback final : LoadedHostCallbackMakeArgs {
  /// Copies its arguments.
  FunctionCallback(std::string callback_name, std::function<Status(const Call&)> callback_function)
      : name(std::move(callback_name)), function(std::move(callback_function)) {}
  /// Makes the callback. InvalidArgument without a function.
  Result<LoadedHostCallback> Make() const override;

  std::string name;                             ///< The name by which programs ask for the callback.
  std::function<Status(const Call&)> function;  ///< The function to call.
};

/// A function of a shared library: "path/lib.so:symbol", see callout/call.h and callout/kernel.h.
struct CALLOUT_EXPORT LibraryCallback final : LoadedHostCallbackMakeArgs {
  /// Copies its arguments.
  LibraryCallback(std::string callback_name, std::string library_and_symbol)
      : name(std::move(callback_name)), spec(std::move(library_and_symbol)) {}
  /// Makes the callback. NotFound if there is no such library or symbol.
  Result<LoadedHostCallback> Make() const override;

  std::string name;  ///< The name by which programs ask for the callback.
  std::string spec;  ///< "path/lib.so:symbol".
};

/// A sink. By its kind, each record becomes a line on standard output; a JSON object, a line of CSV or a row of an
/// Arrow stream in a file; an event in an event file of TensorBoard; a row of arrays in a .npy file or a Zarr store; or
/// nothing. OpaqueCallback makes all kinds of sinks, with their options.
struct CALLOUT_EXPORT SinkCallback final : LoadedHostCallbackMakeArgs {
  /// The kinds of sinks.
  enum class Kind { kNull, kPrint, kJsonLines, kCsv, kTensorBoard, kArrow, kNpy, kZarr };

  /// Copies its arguments.
  SinkCallback(std::string callback_name, Kind sink_kind, std::string file_path = {})
      : name(std::move(callback_name)), kind(sink_kind), path(std::move(file_path)) {}
  /// Returns whether the kind writes a file or a folder; false for an unknown kind. Thread-safe.
  bool NeedsPath() const;
  /// Opens the file. Errors: InvalidArgument for an unknown kind; those of opening the file.
  Result<LoadedHostCallback> Make() const override;

  std::string name;  ///< The name by which programs ask for the sink.
  Kind kind;         ///< How the sink writes a record.
  /// The file of kJsonLines, kCsv, kArrow and kNpy, which is overwritten; the folder of kTensorBoard; the store of
  /// kZarr, which is emptied; the format of kPrint, see docs/sinks.md, or empty.
  std::string path;
};

/// A callback from the result of Serialize, "kind:payload": a sink with its options ("print:FORMAT", "null",
/// "csv,append:PATH", ...: see docs/sinks.md), "library:PATH:SYMBOL", or a kind for which the host has registered a
/// maker.
struct CALLOUT_EXPORT OpaqueCallback final : LoadedHostCallbackMakeArgs {
  /// Copies its arguments.
  OpaqueCallback(std::string callback_name, std::string serialized_bytes)
      : name(std::move(callback_name)), bytes(std::move(serialized_bytes)) {}
  /// Makes the callback. NotFound, with the known kinds, for another kind; else the errors of the kind's maker.
  Result<LoadedHostCallback> Make() const override;

  std::string name;   ///< The name by which programs ask for the callback.
  std::string bytes;  ///< The result of Serialize.
};

/// A function that makes a callback from the payload after "kind:".
using HostCallbackMaker = std::function<Result<LoadedHostCallback>(const std::string& name, std::string_view payload)>;

/// Registers the maker of `kind` for OpaqueCallback until the process ends. If `programs_may_use` is true, a program
/// that asks for the name "kind:payload" gets the maker's callback, unless another callback has that name; pass true
/// only for makers that are safe with any payload. Errors: AlreadyExists; InvalidArgument for a kind that is empty or
/// contains a ':'. Thread-safe; the maker is called on any thread.
CALLOUT_EXPORT Status RegisterHostCallbackMaker(const std::string& kind, HostCallbackMaker maker,
                                                bool programs_may_use = false);

/// A callback from a callout_closure, of C or another language. Takes ownership of the closure's context, which is
/// destroyed with the last of this object, the callbacks that it makes and the executables that use them. An invalid
/// closure is not taken, and Make returns the reason.
struct CALLOUT_EXPORT ClosureCallback final : LoadedHostCallbackMakeArgs {
  /// Copies the name. Takes ownership of the closure's context.
  ClosureCallback(std::string callback_name, const callout_closure& closure);
  /// Makes the callback. InvalidArgument if the closure was invalid.
  Result<LoadedHostCallback> Make() const override;

  std::string name;                                      ///< The name by which programs ask for the callback.
  Result<std::shared_ptr<internal::Callback>> callback;  ///< The callback, for this library's own classes.
};

/// Blocks until every tap that programs made before the call is delivered. Returns the error of the last tap that
/// failed since the last call, DeadlineExceeded with what is outstanding, or FailedPrecondition in a process that was
/// forked from one that used Callout. Must not be called from a callback. Thread-safe.
CALLOUT_EXPORT Status BarrierWait(double timeout_seconds = -1);

/// Counters of all callbacks of one name, since the process began. A tap's counters count delivered records.
struct CallbackStatistics {
  std::string name;         ///< Name of the callbacks.
  uint64_t calls = 0;       ///< Calls that ran; for taps, records that were delivered.
  uint64_t bytes = 0;       ///< Bytes of operands and results.
  double host_seconds = 0;  ///< Seconds inside the callback; sampled if the callback is short.
  uint64_t drops = 0;       ///< Records that a full or closed queue rejected, or for which there was no memory.
  uint64_t skips = 0;       ///< Records that `every`, `min_interval_ns` and `sample_ppb` left out.
  uint64_t errors = 0;      ///< Calls that failed.
};

/// Returns the counters of all names, sorted. Thread-safe; values read while callbacks run may be from slightly
/// different moments.
CALLOUT_EXPORT std::vector<CallbackStatistics> ReadStatistics();

/// Returns the counters of callbacks, queues and live objects in Prometheus' text exposition format (version 0.0.4),
/// for a server or a file; the names are those of callout.stats().prometheus() in Python. Thread-safe.
CALLOUT_EXPORT std::string PrometheusText();

}  // namespace callout::pjrt
