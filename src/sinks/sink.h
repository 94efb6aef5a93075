// SPDX-License-Identifier: Apache-2.0
//
// Sinks: receivers of taps that need no Python. A kind of sinks (SinkKind) has a name, options and a maker. A program,
// the command or Python names a kind and gives its options as text. Sinks run on the native worker's thread, one record
// at a time, so most of them need no lock.
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
  /// Fails: a sink is the target of taps, and a program cannot wait for it.
  Status Call(const callout_call& call) final;
};

/// A sink that writes its lines at the end of each batch.
class CALLOUT_EXPORT TextSink : public Sink {
 public:
  TextSink(std::string label, std::shared_ptr<TextOutput> output)
      : Sink(std::move(label)), output_(std::move(output)) {}
  Status Deliver(const Record& record) final {
    return output_->Add([&](std::string& lines) { return Format(record, lines); });
  }
  Status Flush() final { return output_->Flush(); }

 protected:
  /// Appends whole lines. On an error, the appended text is dropped.
  virtual Status Format(const Record& record, std::string& lines) = 0;

 private:
  const std::shared_ptr<TextOutput> output_;
};

enum class OptionType {
  kFlag,     ///< "true" or "false".
  kInteger,  ///< From `least` to `most`.
  kText,
  kPath,     ///< A file or folder that the sink writes; must be given.
  kNumbers,  ///< Any number of numbers; the option is given once for each.
  kTexts,    ///< Any number of texts; the option is given once for each.
};

struct SinkOption {
  const char* name;
  OptionType type;
  const char* by_default;  ///< The default, as docs/sinks.md writes it. For a flag, its value.
  const char* meaning;
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
};

class SinkOptions;

struct SinkKind {
  const char* name;
  std::span<const SinkOption> options;
  bool has_main;      ///< The first option is the literal text after "kind:".
  bool is_for_hosts;  ///< False: only the owner of the sink can read its results.
  Result<std::shared_ptr<Callback>> (*make)(const std::string& label, const SinkOptions& options);

  /// Returns whether the text after "kind:" is a path, which must be given.
  bool needs_path() const { return has_main && options.front().type == OptionType::kPath; }
};

/// The options that were given for a kind, each with a value of its type.
class CALLOUT_EXPORT SinkOptions {
 public:
  /// Pairs of name and value.
  using Given = std::vector<std::pair<std::string, std::string>>;

  /// Checks options against their kind. InvalidArgument, with what was expected, for unknown names and for bad values.
  /// Borrowed: `kind` must outlive the result.
  static Result<SinkOptions> Check(const SinkKind& kind, Given given);

  // The names must be names of the kind's options, and of the requested type.
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

/// Makes a sink. Errors: those of Check, and the maker's. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeSink(const std::string& label, const SinkKind& kind,
                                                          SinkOptions::Given options);

/// InvalidArgument if `format` is malformed, or has a field that a value with these leaves lacks. Thread-safe.
CALLOUT_EXPORT Status CheckPrintFormat(const std::string& format, std::span<const std::string> leaf_names,
                                       std::span<const DType> dtypes);

/// Makes a sink that delivers every record to each of `receivers`, in their order, even if one fails. The first error
/// becomes the tee's, with the number of errors. Each receiver's own counters count its records. Error: InvalidArgument
/// if there are no receivers, or a Python function among them.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeTeeSink(std::string label,
                                                             std::vector<std::shared_ptr<Callback>> receivers);

}  // namespace callout::internal
