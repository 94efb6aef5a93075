// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/watch.h"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/log.h"
#include "core/base/name_table.h"
#include "core/base/ticks.h"
#include "core/frame/buffer.h"

namespace callout::internal {
namespace {

NameTable<WatchEntry>& WatchesByName() {
  static auto* const table = new NameTable<WatchEntry>;  // leaked: programs may run during static destruction
  return *table;
}

}  // namespace

bool WatchEntry::Add(const Record& record, uint64_t elements, const NonFinite& found,
                     std::optional<WatchedPlace>& place) {
  MutexLock lock(mutex_);
  int64_t& next = next_step_[record.device_ordinal];
  const int64_t step = record.step ? *record.step : StepAfter(next, record.unsent);
  next = StepAfter(step, 1);
  ++counts_.calls;
  counts_.elements += elements;
  counts_.nan += found.nan;
  counts_.infinite += found.infinite;
  if (!place) return false;
  place->step = step;
  if (counts_.bad_calls++ > 0) return false;
  counts_.first = place;
  return true;
}

WatchCounts WatchEntry::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

void WatchEntry::Clear() {
  MutexLock lock(mutex_);
  counts_ = {};
  next_step_.clear();
}

std::shared_ptr<WatchEntry> WatchEntryFor(const std::string& name) { return WatchesByName().Find(name); }

std::vector<std::pair<std::string, WatchCounts>> AllWatches() {
  std::vector<std::pair<std::string, WatchCounts>> all;
  for (const auto& [name, entry] : WatchesByName().All()) all.emplace_back(name, entry->counts());
  return all;
}

void ResetWatches(const std::optional<std::string>& name) {
  WatchesByName().Reset(name, [](WatchEntry& entry) { entry.Clear(); });
}

namespace {

std::string Describe(const std::string& name, const WatchedPlace& place) {
  std::string text = "watch '" + name + "': " + std::to_string(place.nan) + " NaN and " +
                     std::to_string(place.infinite) + " infinite elements in step " + std::to_string(place.step) +
                     "; the first is " + (place.is_nan ? "a NaN" : "infinite") + ", at " + IndexString(place.index);
  if (!place.leaf.empty()) text += " of '" + place.leaf + "'";
  text += ", " + place.shape;
  if (!place.shard.empty()) text += ", the shard from " + IndexString(place.shard);
  return text + ", on device " + std::to_string(place.device_ordinal);
}

class Watch final : public Callback, public Inspector {
 public:
  Watch(std::string label, WatchOptions options) : Callback(std::move(label)), options_(options) {}

  // Its notices are logged, and Python's loggers need the interpreter.
  Worker worker() const override { return Worker::kPython; }
  Inspector* inspector() override { return this; }
  Status Call(const callout_call& /*call*/) override {
    return FailedPrecondition("a watch looks at taps; it cannot be called for a result");
  }
  Status Deliver(const Record& record) override;
  Result<Send> Inspect(const Record& record) override;

 private:
  WatchEntry& EntryFor(const std::string& name);

  const WatchOptions options_;
  std::once_flag resolved_;
  std::string name_;  // of the first tap: a watch mostly serves one
  std::shared_ptr<WatchEntry> entry_;
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<WatchEntry>> others_ CALLOUT_GUARDED_BY(mutex_);
};

WatchEntry& Watch::EntryFor(const std::string& name) {
  std::call_once(resolved_, [&] {
    name_ = name;
    entry_ = WatchEntryFor(name);
  });
  if (name == name_) return *entry_;
  MutexLock lock(mutex_);
  std::shared_ptr<WatchEntry>& entry = others_[name];
  if (entry == nullptr) entry = WatchEntryFor(name);
  return *entry;
}

WatchedPlace PlaceOf(const Record& record, size_t leaf, int64_t first, size_t offset) {
  const callout_buffer& buffer = record.buffers[leaf];
  WatchedPlace place = {.device_ordinal = record.device_ordinal,
                        .run_id = record.run_id,
                        .time = WallSecondsAt(Ticks()),
                        .leaf = record.site->leaf_names[leaf],
                        .shape = ShapeString(buffer),
                        .index = Unravel(first, buffer)};
  if (offset + buffer.rank > record.offsets.size()) return place;
  place.shard.assign(record.offsets.begin() + static_cast<ptrdiff_t>(offset),
                     record.offsets.begin() + static_cast<ptrdiff_t>(offset + buffer.rank));
  for (size_t axis = 0; axis < place.index.size(); ++axis)
    place.index[axis] = StepAfter(place.shard[axis], place.index[axis]);
  return place;
}

Result<Inspector::Send> Watch::Inspect(const Record& record) {
  NonFinite all;
  std::optional<WatchedPlace> place;
  uint64_t elements = 0;
  size_t offset = 0;
  for (size_t leaf = 0; leaf < record.buffers.size(); ++leaf) {
    const callout_buffer& buffer = record.buffers[leaf];
    const NonFinite found = CountNonFinite(buffer, options_.checks);
    elements += static_cast<uint64_t>(ElementCount(buffer));
    all.nan += found.nan;
    all.infinite += found.infinite;
    if (found.first >= 0 && !place) {
      place = PlaceOf(record, leaf, found.first, offset);
      place->is_nan = found.first_is_nan;
    }
    offset += buffer.rank;
  }
  if (place) {
    place->nan = all.nan;
    place->infinite = all.infinite;
  }
  const bool is_first = EntryFor(record.site->label).Add(record, elements, all, place);
  if (!place) return Send::kNothing;
  if (options_.stop) return InternalError(Describe(record.site->label, *place));
  return is_first ? Send::kNotice : Send::kNothing;
}

// The notice of the first bad value.
Status Watch::Deliver(const Record& record) {
  const WatchCounts counts = EntryFor(record.site->label).counts();
  if (counts.first) Log(LogLevel::kWarning, Describe(record.site->label, *counts.first));
  return OkStatus();
}

}  // namespace

Result<WatchOptions> ParseWatch(std::string_view payload) {
  for (const bool stop : {false, true}) {
    for (const auto& [text, checks] :
         {std::pair("n", NonFiniteChecks{.infinite = false}), std::pair("i", NonFiniteChecks{.nan = false}),
          std::pair("ni", NonFiniteChecks{})}) {
      if (payload == std::string("1;") + text + (stop ? ";stop" : ";report")) return WatchOptions{checks, stop};
    }
  }
  return InvalidArgument("callout: a watch must be '1;' and 'n', 'i' or 'ni' and ';report' or ';stop', got '" +
                         std::string(payload) + "'");
}

std::shared_ptr<Callback> MakeWatch(std::string label, WatchOptions options) {
  return std::make_shared<Watch>(std::move(label), options);
}

Result<std::shared_ptr<Callback>> MakeWatchOf(const std::string& label, std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(const WatchOptions options, ParseWatch(payload));
  return MakeWatch(label, options);
}

}  // namespace callout::internal
