// SPDX-License-Identifier: Apache-2.0
#include "sinks/inspectors/watch.h"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/cat.h"
#include "core/base/name_table.h"
#include "core/base/ticks.h"
#include "core/frame/buffer.h"
#include "sinks/inspectors/inspection.h"

namespace callout::internal {
namespace {

NameTable<WatchEntry>& WatchesByName() {
  static auto* const table = new NameTable<WatchEntry>;  // Leaked: programs may run during static destruction.
  return *table;
}

}  // namespace

bool WatchEntry::Add(const Record& record, uint64_t elements, const NonFinite& found,
                     std::optional<WatchedPlace>& place) {
  MutexLock lock(mutex_);
  int64_t& next = next_step_[record.device_ordinal];
  const int64_t step = record.step ? *record.step : StepAfter(next, record.skipped);
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
  std::string text =
      Cat("watch '", name, "': ", place.nan, " NaN and ", place.infinite, " infinite elements in step ", place.step,
          "; the first is ", place.is_nan ? "a NaN" : "infinite", ", at ", IndexString(place.index));
  if (!place.leaf.empty()) text += " of '" + place.leaf + "'";
  text += ", " + place.shape;
  if (!place.shard.empty()) text += ", the shard from " + IndexString(place.shard);
  return Cat(text, ", on device ", place.device_ordinal);
}

class Watch final : public Inspection {
 public:
  Watch(std::string label, WatchPayload payload)
      : Inspection(std::move(label), "a watch", {}),
        checks_{.nan = payload.kinds != WatchedKinds::kInfinities, .infinite = payload.kinds != WatchedKinds::kNans},
        stops_(payload.action == WatchAction::kStop) {}

  Result<Send> Inspect(const Record& record) override;

 private:
  WatchEntry& EntryFor(const std::string& name);

  const NonFiniteChecks checks_;
  const bool stops_;
  std::once_flag resolved_;
  std::string name_;  // The name of the first tap. A watch mostly serves one.
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

WatchedPlace WatchedAt(const Record& record, size_t leaf, int64_t first) {
  const callout_buffer& buffer = record.buffers[leaf];
  WatchedPlace place = {.device_ordinal = record.device_ordinal,
                        .run_id = record.run_id,
                        .time = WallSecondsAt(Ticks()),
                        .leaf = record.site->leaf_names[leaf],
                        .shape = ShapeString(buffer),
                        .index = WholeIndex(record, leaf, first)};
  const size_t axis = FirstAxis(record, leaf);
  for (size_t i = 0; axis + buffer.rank <= record.offsets.size() && i < buffer.rank; ++i)
    place.shard.push_back(Begin(record, axis + i));
  return place;
}

Result<Inspector::Send> Watch::Inspect(const Record& record) {
  NonFinite all;
  std::optional<WatchedPlace> place;
  uint64_t elements = 0;
  for (size_t leaf = 0; leaf < record.buffers.size(); ++leaf) {
    const callout_buffer& buffer = record.buffers[leaf];
    const NonFinite found = CountNonFinite(buffer, checks_);
    elements += static_cast<uint64_t>(ElementCount(buffer));
    all.nan += found.nan;
    all.infinite += found.infinite;
    if (found.first >= 0 && !place) {
      place = WatchedAt(record, leaf, found.first);
      place->is_nan = found.first_is_nan;
    }
  }
  if (place) {
    place->nan = all.nan;
    place->infinite = all.infinite;
  }
  const bool is_first = EntryFor(record.site->label).Add(record, elements, all, place);
  if (!place) return Send::kNothing;
  if (stops_) {
    return Status(StatusCode::kInternal, Describe(record.site->label, *place), StatusKind::kNonFinite);
  }
  return is_first ? Notice(Describe(record.site->label, *place)) : Send::kNothing;
}

}  // namespace

Result<std::shared_ptr<Callback>> MakeWatch(const std::string& label, std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(const WatchPayload decoded, DecodePayload<WatchPayload>("a watch", payload));
  return std::shared_ptr<Callback>(std::make_shared<Watch>(label, decoded));
}

}  // namespace callout::internal
