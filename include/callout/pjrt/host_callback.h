// SPDX-License-Identifier: Apache-2.0
//
// Callbacks of the host that a compiled program calls, and how they are made.
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

/// A callback that is ready to be called, under the name by which programs ask for it; "jax:0" for the first one that
/// JAX itself lowered (docs/host.md). A handle: copies are the same callback, which lives as long as one of them, or an
/// executable that was compiled with it. Thread-safe.
class CALLOUT_EXPORT LoadedHostCallback {
 public:
  /// `serialized`: what Serialize returns, empty for nothing. `transfers`: null for none.
  LoadedHostCallback(std::string name, std::shared_ptr<internal::Callback> callback, std::string serialized = {},
                     std::shared_ptr<const HostTransfers> transfers = nullptr)
      : name_(std::move(name)),
        callback_(std::move(callback)),
        serialized_(std::move(serialized)),
        transfers_(std::move(transfers)) {}

  /// Returns the name by which programs ask for it.
  const std::string& name() const { return name_; }
  /// Returns the channels through which programs reach it, in ascending order; null if it is called by its name only.
  /// See callout/pjrt/host_transfer.h.
  const std::shared_ptr<const HostTransfers>& transfers() const { return transfers_; }
  /// Returns what an OpaqueCallback makes the same callback of, in this process or another one. Unimplemented for one
  /// that is made of a function.
  Result<std::string> Serialize() const;
  /// For this library's own classes.
  const std::shared_ptr<internal::Callback>& callback() const { return callback_; }

 private:
  std::string name_;
  std::shared_ptr<internal::Callback> callback_;
  std::string serialized_;
  std::shared_ptr<const HostTransfers> transfers_;
};

/// What a callback is made of. The set is open: a host may have kinds of its own, which make what the kinds here make.
class CALLOUT_EXPORT LoadedHostCallbackMakeArgs {
 public:
  /// What it made stays.
  virtual ~LoadedHostCallbackMakeArgs();
  /// Makes a callback. Errors: those of its kind.
  virtual Result<LoadedHostCallback> Make() const = 0;
};

/// A C++ function. For a program's call it fills the results; for a tap it only looks at the arguments, on the thread
/// that delivers. Programs call it on their own threads, several at once; what it throws becomes its error. Behind the
/// text of an error that it returns is what it told `raw()->set_error`.
struct CALLOUT_EXPORT FunctionCallback final : LoadedHostCallbackMakeArgs {
  /// Copies what it is given.
  FunctionCallback(std::string callback_name, std::function<Status(const Call&)> callback_function)
      : name(std::move(callback_name)), function(std::move(callback_function)) {}
  /// InvalidArgument without a function.
  Result<LoadedHostCallback> Make() const override;

  std::string name;                             ///< By which programs ask for it.
  std::function<Status(const Call&)> function;  ///< What is called.
};

/// A function of a shared library: "path/lib.so:symbol", see callout/call.h and callout/kernel.h.
struct CALLOUT_EXPORT LibraryCallback final : LoadedHostCallbackMakeArgs {
  /// Copies what it is given.
  LibraryCallback(std::string callback_name, std::string library_and_symbol)
      : name(std::move(callback_name)), spec(std::move(library_and_symbol)) {}
  /// NotFound for a library or a symbol that is not there.
  Result<LoadedHostCallback> Make() const override;

  std::string name;  ///< By which programs ask for it.
  std::string spec;  ///< "path/lib.so:symbol".
};

/// A receiver of taps: a line each on standard output, a JSON object, a line of CSV or a row of an Arrow stream each in
/// a file, an event file of TensorBoard's, a .npy file or a Zarr store with the values as rows of arrays, or nothing.
/// OpaqueCallback makes all kinds of sinks, with their options.
struct CALLOUT_EXPORT SinkCallback final : LoadedHostCallbackMakeArgs {
  /// The kinds of sinks.
  enum class Kind { kNull, kPrint, kJsonLines, kCsv, kTensorBoard, kArrow, kNpy, kZarr };

  /// Copies what it is given.
  SinkCallback(std::string callback_name, Kind sink_kind, std::string file_path = {})
      : name(std::move(callback_name)), kind(sink_kind), path(std::move(file_path)) {}
  /// Whether the kind writes a file or a folder; not so for one that there is not. Thread-safe.
  bool NeedsPath() const;
  /// Opens the file. Errors: InvalidArgument for a kind that there is not; what keeps it from its file.
  Result<LoadedHostCallback> Make() const override;

  std::string name;  ///< By which programs ask for it.
  Kind kind;         ///< What it does with a record.
  /// The file of kJsonLines, kCsv, kArrow and kNpy, which is written anew; the folder of kTensorBoard; the store of
  /// kZarr, which is emptied; the format of kPrint, see docs/sinks.md, or nothing.
  std::string path;
};

/// What Serialize returned, "kind:payload": a sink with its options ("print:FORMAT", "null", "csv,append:PATH", ...:
/// see docs/sinks.md), "library:PATH:SYMBOL", or of a kind that the host has registered a maker for.
struct CALLOUT_EXPORT OpaqueCallback final : LoadedHostCallbackMakeArgs {
  /// Copies what it is given.
  OpaqueCallback(std::string callback_name, std::string serialized_bytes)
      : name(std::move(callback_name)), bytes(std::move(serialized_bytes)) {}
  /// NotFound, with the known kinds, for another kind; else its maker's errors.
  Result<LoadedHostCallback> Make() const override;

  std::string name;   ///< By which programs ask for it.
  std::string bytes;  ///< What Serialize returned.
};

/// Makes a callback of the payload behind "kind:".
using HostCallbackMaker = std::function<Result<LoadedHostCallback>(const std::string& name, std::string_view payload)>;

/// Makes `kind` known to OpaqueCallback until the process ends. If programs may use it, one that asks for the name
/// "kind:payload" gets what the maker makes of it, where nothing else has that name: only for makers that may be given
/// any payload. Errors: AlreadyExists; InvalidArgument for a kind that is empty or has a ':'. Thread-safe; the maker is
/// called on any thread.
CALLOUT_EXPORT Status RegisterHostCallbackMaker(const std::string& kind, HostCallbackMaker maker,
                                                bool programs_may_use = false);

/// A callout_closure: a callback of C, or of another language. Takes ownership of its context, which is destroyed with
/// the last of this object, the callbacks that it makes and the executables that use them. Of what is no closure
/// nothing is taken, and Make says why.
struct CALLOUT_EXPORT ClosureCallback final : LoadedHostCallbackMakeArgs {
  /// Takes ownership of the closure's context.
  ClosureCallback(std::string callback_name, const callout_closure& closure);
  /// InvalidArgument if it was made of no closure.
  Result<LoadedHostCallback> Make() const override;

  std::string name;                                      ///< By which programs ask for it.
  Result<std::shared_ptr<internal::Callback>> callback;  ///< For this library's own classes.
};

/// Blocks until every tap that programs made before the call is delivered. Returns the error of the last tap that
/// failed since the last call, DeadlineExceeded with what is outstanding, or FailedPrecondition in a process that was
/// forked from one that used Callout. Not from a callback. Thread-safe.
CALLOUT_EXPORT Status BarrierWait(double timeout_seconds = -1);

/// Counters of all callbacks of one name, since the process began. Those of taps count what was delivered.
struct CallbackStatistics {
  std::string name;         ///< Of the callbacks.
  uint64_t calls = 0;       ///< That ran; of taps records that were delivered.
  uint64_t bytes = 0;       ///< Of operands and results.
  double host_seconds = 0;  ///< Inside the callback; sampled where it is short.
  uint64_t drops = 0;       ///< Records that a full or closed queue did not take, or for which there was no memory.
  uint64_t skips = 0;       ///< Records that `every`, `min_interval_ns` and `sample_ppb` left out.
  uint64_t errors = 0;      ///< Calls that failed.
};

/// Returns the counters of all names, sorted. Thread-safe; numbers read while callbacks run may be of slightly
/// different moments.
CALLOUT_EXPORT std::vector<CallbackStatistics> ReadStatistics();

/// These counters, the queues' and those of live objects in Prometheus' text exposition format (version 0.0.4), to
/// serve or to write to a file; the names are those of callout.stats().prometheus() in Python. Thread-safe.
CALLOUT_EXPORT std::string PrometheusText();

}  // namespace callout::pjrt
