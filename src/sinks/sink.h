// SPDX-License-Identifier: Apache-2.0
//
// What sinks share.
#pragma once

#include <memory>
#include <string>

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

}  // namespace callout::internal
