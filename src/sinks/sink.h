// SPDX-License-Identifier: Apache-2.0
//
// Sinks: receivers of taps that need no Python. A kind of sinks (SinkKind) has a name, options and a maker; a
// program, the command or Python names a kind and gives its options as text.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "sinks/text_output.h"

namespace callout::internal {

class CALLOUT_EXPORT Sink : public Callback {
 public:
  using Callback::Callback;
  Worker worker() const final { return Worker::kNative; }
  bool takes_taps_only() const final { return true; }
  /// A sink is the target of taps; a program cannot wait for it.
  Status Call(const callout_call& call) final;
};

/// Writes lines at the end of each batch.
class CALLOUT_EXPORT TextSink : public Sink {
 public:
  TextSink(std::string label, std::shared_ptr<TextOutput> output)
      : Sink(std::move(label)), output_(std::move(output)) {}
  Status Deliver(const Record& record) final {
    return output_->Add([&](std::string& lines) { return Format(record, lines); });
  }
  Status Flush() final { return output_->Flush(); }

 protected:
  /// Appends whole lines. What it appended when it fails is dropped.
  virtual Status Format(const Record& record, std::string& lines) = 0;

 private:
  const std::shared_ptr<TextOutput> output_;
};

enum class OptionType {
  kFlag,     ///< "true" or "false"
  kInteger,  ///< From `least` to `most`.
  kText,
  kPath,     ///< A file or folder that the sink writes; it has to be given.
  kNumbers,  ///< Any number of them; the option is given once for each.
  kTexts,    ///< Likewise.
};

struct SinkOption {
  const char* name;
  OptionType type;
  const char* by_default;  ///< As docs/sinks.md has it. Of a flag: the value.
  const char* meaning;
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};

class SinkOptions;

struct SinkKind {
  const char* name;
  std::span<const SinkOption> options;
  bool has_main;      ///< The first option is what stands behind "kind:", as it is.
  bool is_for_hosts;  ///< False: only whoever holds the sink can ask it for what it has.
  Result<std::shared_ptr<Callback>> (*make)(const std::string& label, const SinkOptions& options);

  /// What stands behind "kind:" is a path, and has to be there.
  bool needs_path() const { return has_main && options.front().type == OptionType::kPath; }
};

/// What was given of a kind's options, each value of its type.
class CALLOUT_EXPORT SinkOptions {
 public:
  /// (name, value)
  using Given = std::vector<std::pair<std::string, std::string>>;

  /// InvalidArgument, with what was expected, for other names or values. Borrowed: `kind` outlives it.
  static Result<SinkOptions> Check(const SinkKind& kind, Given given);

  // The names are some of the kind's, of the type that is asked for.
  bool Has(std::string_view name) const;
  bool Flag(std::string_view name) const;
  int64_t Integer(std::string_view name, int64_t otherwise) const;
  std::string Text(std::string_view name, std::string_view otherwise) const;
  std::vector<double> Numbers(std::string_view name) const;
  std::vector<std::string> Texts(std::string_view name) const;

 private:
  SinkOptions(const SinkKind& kind, Given given) : kind_(&kind), given_(std::move(given)) {}
  const std::string* Find(std::string_view name) const;

  const SinkKind* kind_;
  Given given_;
};

/// Errors: as Check; else the maker's. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeSink(const std::string& label, const SinkKind& kind,
                                                          SinkOptions::Given options);

// Receivers of taps that need no Python. They run on the native worker's thread, one record at a time, so they lock
// nothing.

/// InvalidArgument if `format` is malformed or asks for what a value of these leaves has not. Thread-safe.
CALLOUT_EXPORT Status CheckPrintFormat(const std::string& format, std::span<const std::string> leaf_names,
                                       std::span<const DType> dtypes);

/// Hands every record to each of `receivers`, in their order; one that fails keeps it from no other. The first error is
/// the tee's, and says how many there were. Their own statistics count what they got. Error: InvalidArgument if there
/// is none, or a Python function among them.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeTeeSink(std::string label,
                                                             std::vector<std::shared_ptr<Callback>> receivers);

}  // namespace callout::internal
