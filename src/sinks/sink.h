// SPDX-License-Identifier: Apache-2.0
//
// What sinks that write text share: a buffer of whole lines, written to a file descriptor at the end of each batch.
#pragma once

#include <string>

#include "registry/callback.h"

namespace callout::internal {

/// Writes all of `text` to `fd`, going on after short writes and signals. Error: Internal, with `what` and errno's
/// text.
Status WriteAll(int fd, const std::string& text, const std::string& what);

class Sink : public Callback {
 public:
  using Callback::Callback;
  Lane lane() const final { return Lane::kNative; }
  /// A sink is the target of taps; a program cannot wait for it.
  Status Call(const callout_call& call) final;
};

class TextSink : public Sink {
 public:
  using Sink::Sink;
  Status Deliver(const Record& record) final;
  Status Flush() final;

 protected:
  /// Appends whole lines, or nothing if it fails.
  virtual Status Format(const Record& record, std::string& lines) = 0;
  virtual Status Write(const std::string& lines) = 0;

 private:
  std::string lines_;
};

}  // namespace callout::internal
