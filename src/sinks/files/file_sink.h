// SPDX-License-Identifier: Apache-2.0
//
// What sinks that write a file share: their options, and their place among the open files.
#pragma once

#include <limits>
#include <memory>
#include <string>

#include "sinks/files/file_output.h"
#include "sinks/files/record_clock.h"
#include "sinks/sink.h"

namespace callout::internal {

inline constexpr SinkOption kPathOption = {"path", OptionType::kPath, "needed", "the file, created if missing"};
inline constexpr SinkOption kAppendOption = {"append", OptionType::kFlag, "false",
                                             "keep what the file holds, but for a torn record at its end"};
inline constexpr SinkOption kFsyncOption = {"fsync", OptionType::kText, "never",
                                            "`never`, after each `batch`, or at most every so many seconds"};
inline constexpr SinkOption kRotateOption = {"rotate_bytes", OptionType::kInteger, "never",
                                             "a file that would become larger is renamed to PATH.1", 1};
inline constexpr SinkOption kKeepOption = {"keep", OptionType::kInteger,           "all", "how many renamed files stay",
                                           1,      std::numeric_limits<int>::max()};

/// `fsync`, as FileOptions has it. InvalidArgument if it is none of the three.
Result<double> FsyncSeconds(const SinkOptions& options);

/// All of them. InvalidArgument if they do not go together.
Result<FileOptions> FileOptionsOf(const SinkOptions& options);

/// A sink that can be told to write what it has got, and to let go of its files.
class WritingSink : public Sink {
 public:
  using Sink::Sink;
  /// Further records are errors; again does nothing. Thread-safe.
  virtual Status Close() = 0;
};

/// A sink of one file that grows.
class FileSink : public WritingSink {
 public:
  FileSink(std::string label, std::unique_ptr<FileOutput> file)
      : WritingSink(std::move(label)), file_(std::move(file)) {}
  Status Deliver(const Record& record) override {
    return file_->Add([&](std::string& bytes) { return Format(record, bytes); });
  }
  Status Flush() override { return file_->Flush(); }
  Status Close() override { return file_->Close(); }

 protected:
  /// Appends a whole record, or says why not.
  virtual Status Format(const Record& record, std::string& bytes) = 0;
  FileOutput& file() { return *file_; }
  RecordClock& clock() { return clock_; }

 private:
  const std::unique_ptr<FileOutput> file_;
  RecordClock clock_;
};

/// Writes what a sink that writes a file has got, and lets go of the file: further records are errors.
/// InvalidArgument for any other callback. Thread-safe.
CALLOUT_EXPORT Status CloseFile(Callback& sink);

}  // namespace callout::internal
