// SPDX-License-Identifier: Apache-2.0
//
// What sinks that write a file share.
#pragma once

#include <memory>
#include <string>

#include "files/file_output.h"
#include "files/record_clock.h"
#include "sinks/sink.h"

namespace callout::internal {

class FileSink : public Sink {
 public:
  FileSink(std::string label, std::unique_ptr<FileOutput> file) : Sink(std::move(label)), file_(std::move(file)) {}
  Status Deliver(const Record& record) override {
    return file_->Add([&](std::string& bytes) { return Format(record, bytes); });
  }
  Status Flush() override { return file_->Flush(); }
  /// Writes what it has got, and lets go of the file. Any thread.
  virtual Status Close() { return file_->Close(); }

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
