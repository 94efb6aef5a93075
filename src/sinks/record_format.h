// SPDX-License-Identifier: Apache-2.0
//
// Formats a record by a format string. A field stands for the first of these that exists:
//   a leaf of that name, or the leaf at that position;
//   {value}: the value, "a=1 b=2" if it has several leaves;
//   {name}, {step}, {device}, {run}, {seq}, {time}: properties of the record. {time} takes strftime's specifications.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "sinks/step_counter.h"
#include "sinks/text/format_string.h"
#include "sinks/text_output.h"

namespace callout::internal {

/// Not thread-safe, except for Check.
class CALLOUT_EXPORT RecordFormat {
 public:
  /// Parses a format string. InvalidArgument, with the position, for a malformed one.
  static Result<RecordFormat> Parse(std::string format);

  /// InvalidArgument for a field that a value with these leaves lacks, or whose specification belongs to another type.
  /// Thread-safe.
  Status Check(std::span<const std::string> leaf_names, std::span<const DType> dtypes) const;

  /// Appends the text of a record. On an error, those of Check, appends nothing. Must be called in the order of the
  /// records, whose steps it may count.
  Status Append(const Record& record, const Colours& colours, std::string& out);

 private:
  enum class Source { kLeaf, kValue, kName, kStep, kDevice, kRun, kSequence, kTime };
  struct Found {
    Source source;
    size_t leaf = 0;
  };

  RecordFormat(std::string format, std::vector<FormatPiece> pieces)
      : format_(std::move(format)), pieces_(std::move(pieces)) {}
  Result<Found> Find(const FormatField& field, std::span<const std::string> leaf_names) const;
  Status CheckField(const FormatField& field, Found found, std::span<const DType> dtypes) const;
  Status Resolve(const Record& record);
  Status AppendField(const FormatField& field, Found found, const Record& record, std::string& out) const;

  std::string format_;
  std::vector<FormatPiece> pieces_;
  StepCounter steps_;
  int64_t step_ = 0;  ///< The step of the record that is being written.

  // The leaves of the previous record, and where each field was found in it.
  std::vector<std::string> leaf_names_;
  std::vector<DType> dtypes_;
  std::vector<Found> found_;
  bool is_resolved_ = false;
};

}  // namespace callout::internal
