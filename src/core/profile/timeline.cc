// SPDX-License-Identifier: Apache-2.0
#include "core/profile/timeline.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace callout::internal {
namespace {

using GroupKey = std::tuple<RowGroup, int32_t, uint32_t>;  // as in Row

struct GroupRows {
  std::vector<int64_t> free_from;  // one a row
};

bool IsPoint(const ProfileEvent& event) { return event.kind == ProfileKind::kQueue; }

// Parents before what lies in them: an outer span is recorded after its inner ones.
void SortEvents(std::vector<ProfileEvent>& events) {
  std::vector<uint32_t> order(events.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
    const ProfileEvent& a = events[left];
    const ProfileEvent& b = events[right];
    return std::tuple(a.begin, -a.end, right) < std::tuple(b.begin, -b.end, left);
  });
  std::vector<ProfileEvent> sorted;
  sorted.reserve(events.size());
  for (const uint32_t i : order) sorted.push_back(events[i]);
  events = std::move(sorted);
}

GroupKey GroupOf(const ProfileEvent& event, const ProfileThread& thread, const GroupKey* parent) {
  switch (event.kind) {
    case ProfileKind::kFunction:
      return {RowGroup::kFunctions, -1, 0};
    case ProfileKind::kPhase:
      return {RowGroup::kPhases, -1, 0};
    case ProfileKind::kCall:
    case ProfileKind::kTap:
    case ProfileKind::kDrop:
      return {RowGroup::kDevice, event.device, 0};
    default:
      break;
  }
  if (thread.delivers) return {RowGroup::kDelivery, -1, event.thread};
  return parent != nullptr ? *parent : GroupKey{RowGroup::kDevice, event.device, 0};
}

std::string NameOf(const GroupKey& key, uint32_t number, const Recording& recording) {
  const auto& [group, device, thread] = key;
  std::string name;
  if (group == RowGroup::kPhases) name = "phases";
  if (group == RowGroup::kDevice) name = device < 0 ? "no device" : "device " + std::to_string(device);
  if (group == RowGroup::kDelivery) name = "delivery thread " + recording.threads[thread].name;
  if (group == RowGroup::kFunctions) name = "Python functions";
  return number == 0 ? name : name + " (" + std::to_string(number + 1) + ")";
}

class Arranger {
 public:
  explicit Arranger(Recording& recording) : recording_(recording), open_(recording.threads.size()) {}

  Rows Run() {
    std::vector<ProfileEvent>& events = recording_.events;
    keys_.resize(events.size());
    rows_.of.assign(events.size(), Rows::kNone);
    for (uint32_t i = 0; i < events.size(); ++i) {
      if (!IsPoint(events[i])) Place(i);
    }
    Number();
    return std::move(rows_);
  }

 private:
  void Place(uint32_t i) {
    ProfileEvent& event = recording_.events[i];
    std::vector<uint32_t>& open = open_[event.thread];
    while (!open.empty() && recording_.events[open.back()].end <= event.begin) open.pop_back();
    const ProfileEvent* parent = open.empty() ? nullptr : &recording_.events[open.back()];
    if (parent != nullptr) {
      // Stamps that are taken in one order may differ by a few ticks in the other.
      event.end = std::min(event.end, parent->end);
      if (event.label == 0) {
        event.label = parent->label;
        event.device = parent->device;
        event.worker = parent->worker;
      }
    }
    const GroupKey* parent_key = open.empty() ? nullptr : &keys_[open.back()];
    keys_[i] = GroupOf(event, recording_.threads[event.thread], parent_key);
    const auto outer = std::find_if(open.rbegin(), open.rend(), [&](uint32_t each) { return keys_[each] == keys_[i]; });
    rows_.of[i] = outer != open.rend() ? rows_.of[*outer] : FreeRow(keys_[i], event);
    open.push_back(i);
  }

  // The first row of the group where nothing is at that time; for now its number in the group.
  uint32_t FreeRow(const GroupKey& key, const ProfileEvent& event) {
    std::vector<int64_t>& free_from = groups_[key].free_from;
    const auto row =
        std::find_if(free_from.begin(), free_from.end(), [&](int64_t free) { return free <= event.begin; });
    const auto number = static_cast<uint32_t>(row - free_from.begin());
    if (row == free_from.end()) free_from.push_back(0);
    free_from[number] = event.end;
    return number;
  }

  // From numbers in a group to those in the timeline.
  void Number() {
    std::map<GroupKey, uint32_t> first;
    for (const auto& [key, group] : groups_) {
      first[key] = static_cast<uint32_t>(rows_.rows.size());
      const auto& [kind, device, thread] = key;
      for (uint32_t number = 0; number < group.free_from.size(); ++number) {
        rows_.rows.push_back({kind, device, thread, number, NameOf(key, number, recording_)});
      }
    }
    for (size_t i = 0; i < rows_.of.size(); ++i) {
      if (rows_.of[i] != Rows::kNone) rows_.of[i] += first[keys_[i]];
    }
  }

  Recording& recording_;
  std::vector<std::vector<uint32_t>> open_;  // one a thread: the spans that the next event may lie in
  std::vector<GroupKey> keys_;               // one an event
  std::map<GroupKey, GroupRows> groups_;
  Rows rows_;
};

}  // namespace

Rows ArrangeRows(Recording& recording) {
  SortEvents(recording.events);
  return Arranger(recording).Run();
}

}  // namespace callout::internal
