// SPDX-License-Identifier: Apache-2.0
#include "trace.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/ticks.h"
#include "registry/callback.h"

namespace callout::tools {
namespace {

constexpr size_t kMaxSpans = 1'000'000;
constexpr double kNanosecondsPerMicrosecond = 1e3;  // the format's unit

// Forwards everything, and takes the time.
class TracedCallback final : public internal::Callback {
 public:
  TracedCallback(std::string name, std::shared_ptr<internal::Callback> inner, std::shared_ptr<Trace> trace)
      : Callback(std::move(name)), inner_(std::move(inner)), trace_(std::move(trace)) {}

  internal::Lane lane() const override { return inner_->lane(); }
  internal::LogSource log_source() const override { return inner_->log_source(); }
  std::span<const callout_parameter> parameters() const override { return inner_->parameters(); }
  Status Flush() override { return inner_->Flush(); }
  Status Call(const callout_call& call) override {
    const int64_t begin = internal::SteadyNanoseconds();
    Status status = inner_->Call(call);
    trace_->Add(label(), "call", begin, internal::SteadyNanoseconds(), call.device_ordinal);
    return status;
  }
  Status Deliver(const internal::Record& record) override {
    const int64_t begin = internal::SteadyNanoseconds();
    Status status = inner_->Deliver(record);
    trace_->Add(label(), "tap", begin, internal::SteadyNanoseconds(), record.device_ordinal);
    return status;
  }

 private:
  const std::shared_ptr<internal::Callback> inner_;
  const std::shared_ptr<Trace> trace_;
};

}  // namespace

void Trace::Add(const std::string& name, const char* category, int64_t begin_ns, int64_t end_ns, int device) {
  thread_local const int thread = gettid();
  const std::lock_guard lock(mutex_);
  if (spans_.size() < kMaxSpans) {
    spans_.push_back({name, category, begin_ns, end_ns, thread, device});
  } else {
    ++left_out_;
  }
}

Status Trace::Write(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const int process = getpid();
  nlohmann::json events = nlohmann::json::array();
  for (const Span& span : spans_) {
    nlohmann::json event = {{"ph", "X"},
                            {"name", span.name},
                            {"cat", span.category},
                            {"pid", process},
                            {"tid", span.thread},
                            {"ts", static_cast<double>(span.begin_ns) / kNanosecondsPerMicrosecond},
                            {"dur", static_cast<double>(span.end_ns - span.begin_ns) / kNanosecondsPerMicrosecond}};
    if (span.device >= 0) event["args"] = {{"device", span.device}};
    events.push_back(std::move(event));
  }
  const nlohmann::json trace = {
      {"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}, {"otherData", {{"spans_left_out", left_out_}}}};
  errno = 0;
  std::ofstream file(path);
  file << trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  if (file.flush()) return OkStatus();
  return InternalError("callout: cannot write the trace '" + path + "': " + std::strerror(errno));
}

TraceSpan::TraceSpan(Trace* trace, std::string name)
    : trace_(trace), name_(std::move(name)), begin_ns_(internal::SteadyNanoseconds()) {}

TraceSpan::~TraceSpan() {
  if (trace_ != nullptr) trace_->Add(name_, "phase", begin_ns_, internal::SteadyNanoseconds());
}

pjrt::LoadedHostCallback Traced(const pjrt::LoadedHostCallback& callback, std::shared_ptr<Trace> trace) {
  return {callback.name(), std::make_shared<TracedCallback>(callback.name(), callback.callback(), std::move(trace)), "",
          callback.transfers()};
}

}  // namespace callout::tools
