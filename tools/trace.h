// SPDX-License-Identifier: Apache-2.0
//
// A timeline in the Trace Event Format, which Perfetto and chrome://tracing show: the command's phases, and each time a
// callback ran.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "callout/pjrt/host_callback.h"
#include "callout/status.h"

namespace callout::tools {

/// Thread-safe. Keeps the first million spans, and counts the rest.
class Trace {
 public:
  /// `category`: what the viewer can filter by.
  void Add(const std::string& name, const char* category, int64_t begin_ns, int64_t end_ns, int device = -1);

  /// Errors: with the path.
  Status Write(const std::string& path) const;

 private:
  struct Span {
    std::string name;
    const char* category;
    int64_t begin_ns;
    int64_t end_ns;
    int thread;
    int device;
  };

  mutable std::mutex mutex_;
  std::vector<Span> spans_;
  uint64_t left_out_ = 0;
};

/// Adds the time from its making to its end. A null trace is none.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, std::string name);
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* const trace_;
  const std::string name_;
  const int64_t begin_ns_;
};

/// `callback`, which adds a span to `trace` each time that it runs.
pjrt::LoadedHostCallback Traced(const pjrt::LoadedHostCallback& callback, std::shared_ptr<Trace> trace);

}  // namespace callout::tools
