// SPDX-License-Identifier: Apache-2.0
#include "sinks/sink.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/base/cat.h"
#include "core/base/invariant.h"
#include "core/base/status.h"
#include "core/base/ticks.h"
#include "core/callbacks/invoke.h"
#include "sinks/each_sink_kind.h"

namespace callout::internal {

Status Sink::Call(const callout_call& /*call*/) {
  return FailedPrecondition("a sink takes taps; it cannot be called for a result");
}

namespace {

const SinkOption* FindOption(const SinkKind& kind, std::string_view name) {
  const auto it = std::find_if(kind.options.begin(), kind.options.end(),
                               [&](const SinkOption& option) { return option.name == name; });
  return it == kind.options.end() ? nullptr : &*it;
}

template <typename T>
std::optional<T> Parse(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool IsList(OptionType type) { return type == OptionType::kNumbers || type == OptionType::kTexts; }

// Returns a description of the values that the option takes, or nothing if `value` is one of them.
std::string ExpectedOf(const SinkOption& option, std::string_view value) {
  switch (option.type) {
    case OptionType::kFlag:
      return value == "true" || value == "false" ? "" : "true or false";
    case OptionType::kInteger: {
      const auto number = Parse<int64_t>(value);
      if (number && *number >= option.least && *number <= option.most) return "";
      return Cat("an integer from ", option.least, " to ", option.most);
    }
    case OptionType::kNumbers:
      return Parse<double>(value) ? "" : "a number";
    case OptionType::kText:
    case OptionType::kPath:
    case OptionType::kTexts:
      break;
  }
  return "";
}

Status Wrong(const SinkKind& kind, const std::string& what) {
  return InvalidArgument("callout: the sink '" + std::string(kind.name) + "' " + what);
}

Status NoSuchOption(const SinkKind& kind, const std::string& name) {
  const std::string known = Join(kind.options, ", ", &SinkOption::name);
  return Wrong(kind, "has no option '" + name + "'; it has " + (known.empty() ? "none" : known));
}

}  // namespace

Result<SinkOptions> SinkOptions::Check(const SinkKind& kind, Given given) {
  for (auto it = given.begin(); it != given.end(); ++it) {
    const std::string& name = it->first;
    const std::string& value = it->second;
    const SinkOption* const option = FindOption(kind, name);
    if (option == nullptr) return NoSuchOption(kind, name);
    const auto is_same = [&](const auto& before) { return before.first == name; };
    if (!IsList(option->type) && std::any_of(given.begin(), it, is_same)) {
      return Wrong(kind, "takes its '" + name + "' once");
    }
    const std::string expected = ExpectedOf(*option, value);
    if (!expected.empty()) {
      std::string what = "expects " + expected;
      return Wrong(kind, what.append(" as '").append(name).append("', got '").append(value).append("'"));
    }
  }
  SinkOptions options(kind, std::move(given));
  for (const SinkOption& option : kind.options) {
    if (option.type == OptionType::kPath && options.Text(option.name, "").empty()) {
      return Wrong(kind, "needs its '" + std::string(option.name) + "'");
    }
  }
  return options;
}

const std::string* SinkOptions::Find(std::string_view name) const {
  CALLOUT_CHECK(FindOption(*kind_, name) != nullptr, "a sink asks for its own options");
  const auto it = std::find_if(given_.begin(), given_.end(), [&](const auto& one) { return one.first == name; });
  return it == given_.end() ? nullptr : &it->second;
}

bool SinkOptions::Has(std::string_view name) const { return Find(name) != nullptr; }

bool SinkOptions::Flag(std::string_view name) const {
  const std::string* const value = Find(name);
  return (value != nullptr ? *value : FindOption(*kind_, name)->by_default) == std::string_view("true");
}

int64_t SinkOptions::Integer(std::string_view name, int64_t otherwise) const {
  const std::string* const value = Find(name);
  return value == nullptr ? otherwise : Parse<int64_t>(*value).value();
}

std::string SinkOptions::Text(std::string_view name, std::string_view otherwise) const {
  const std::string* const value = Find(name);
  return value == nullptr ? std::string(otherwise) : *value;
}

std::vector<double> SinkOptions::Numbers(std::string_view name) const {
  std::vector<double> numbers;
  for (const std::string& text : Texts(name)) numbers.push_back(Parse<double>(text).value());
  return numbers;
}

std::vector<std::string> SinkOptions::Texts(std::string_view name) const {
  std::vector<std::string> texts;
  for (const auto& [each, value] : given_) {
    if (each == name) texts.push_back(value);
  }
  return texts;
}

Result<std::shared_ptr<Callback>> MakeSink(const std::string& label, const SinkKind& kind, SinkOptions::Given options) {
  CALLOUT_ASSIGN_OR_RETURN(const SinkOptions checked, SinkOptions::Check(kind, std::move(options)));
  return kind.make(label, checked);
}

namespace {

class NullSink final : public Sink {
 public:
  using Sink::Sink;
  Status Deliver(const Record& /*record*/) override { return OkStatus(); }
};

Result<std::shared_ptr<Callback>> MakeNull(const std::string& label, const SinkOptions& /*options*/) {
  return std::shared_ptr<Callback>(std::make_shared<NullSink>(label));
}

}  // namespace

const SinkKind& NullKind() {
  static constexpr SinkKind kKind = {
      .name = "null", .options = {}, .has_main = false, .is_for_hosts = true, .make = &MakeNull};
  return kKind;
}

namespace {

class TeeSink final : public Sink {
 public:
  TeeSink(std::string label, std::vector<std::shared_ptr<Callback>> receivers)
      : Sink(std::move(label)), receivers_(std::move(receivers)) {}

  Status Deliver(const Record& record) override {
    // All receivers but the last get no blocks, because a receiver that took one would take memory that others still
    // read.
    std::vector<void*> no_blocks(record.buffers.size());
    Record shared = record;
    shared.blocks = no_blocks.data();
    size_t left = receivers_.size();
    return All([&](Callback& receiver) {
      const uint64_t start = Ticks();
      Status status = receiver.Deliver(--left == 0 ? record : shared);
      CallbackStats& stats = receiver.stats();
      stats.host_ticks.fetch_add(Ticks() - start, std::memory_order_relaxed);
      stats.Count(TotalBytes(record.buffers));
      return status;
    });
  }

  Status Flush() override {
    return All([](Callback& receiver) { return receiver.Flush(); });
  }

 private:
  // Calls `body` with every receiver, even after an error. Returns the first error, and the number of errors.
  template <typename Body>
  Status All(Body&& body) {
    Status first;
    size_t failed = 0;
    for (const auto& receiver : receivers_) {
      Status status = Guarded(body, *receiver);
      if (status.ok()) continue;
      receiver->stats().errors.fetch_add(1, std::memory_order_relaxed);
      if (failed++ == 0) {
        first = status.WithMessage("sink '" + receiver->label() + "': " + std::string(status.message()));
      }
    }
    if (failed < 2) return first;
    return first.WithMessage(
        Cat(first.message(), " (and ", failed - 1, " more of the ", receivers_.size(), " sinks failed)"));
  }

  const std::vector<std::shared_ptr<Callback>> receivers_;
};

}  // namespace

Result<std::shared_ptr<Callback>> MakeTeeSink(std::string label, std::vector<std::shared_ptr<Callback>> receivers) {
  if (receivers.empty()) return InvalidArgument("callout: the tee '" + label + "' has no receivers");
  for (const auto& receiver : receivers) {
    if (receiver->worker() == Worker::kNative) continue;
    return InvalidArgument("callout: the tee '" + label + "' delivers without Python; '" + receiver->label() +
                           "' is a Python function");
  }
  return std::shared_ptr<Callback>(std::make_shared<TeeSink>(std::move(label), std::move(receivers)));
}

}  // namespace callout::internal
