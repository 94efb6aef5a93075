// SPDX-License-Identifier: Apache-2.0
#include "sinks/tensorboard/event_file.h"

#include "core/encoding/utf8.h"

namespace callout::internal {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";

// Field numbers.
enum Event { kWallTime = 1, kStep = 2, kVersion = 3, kSummary = 5, kSource = 10 };
enum SummaryField { kValue = 1 };
enum Value { kTag = 1, kMetadata = 9 };
enum Metadata { kPluginData = 1, kDataClass = 4 };

struct Plugin {
  std::string_view name;
  uint64_t data_class;  // 2: tensor, 3: sequence of blobs
};

Plugin PluginOf(ShownAs kind) {
  switch (kind) {
    case ShownAs::kScalar:
      break;  // readers know a `simple_value` without metadata
    case ShownAs::kHistogram:
      return {"histograms", 2};
    case ShownAs::kImage:
      return {"images", 3};
    case ShownAs::kText:
      return {"text", 2};
  }
  return {};
}

}  // namespace

std::string VersionEvent(double wall_time) {
  WireWriter source, event;
  source.AddMessage(1, "callout");
  event.AddDouble(kWallTime, wall_time);
  event.AddMessage(kVersion, kFileVersion);
  event.AddMessage(kSource, source.bytes());
  return event.bytes();
}

void WriteEvent(double wall_time, int64_t step, std::string_view summary, WireWriter& event) {
  event.AddDouble(kWallTime, wall_time);
  event.AddNumber(kStep, static_cast<uint64_t>(step));
  event.AddMessage(kSummary, summary);
}

std::string ValueHead(std::string_view tag, ShownAs kind) {
  WireWriter plugin_data, metadata, value;
  value.AddMessage(kTag, ValidUtf8(tag));
  if (kind == ShownAs::kScalar) return value.bytes();
  const Plugin plugin = PluginOf(kind);
  plugin_data.AddMessage(1, plugin.name);
  metadata.AddMessage(kPluginData, plugin_data.bytes());
  metadata.AddNumber(kDataClass, plugin.data_class);
  value.AddMessage(kMetadata, metadata.bytes());
  return value.bytes();
}

void AddValue(std::string_view head, std::string_view data, WireWriter& value, WireWriter& summary) {
  value.Clear();
  value.AddFields(head);
  value.AddFields(data);
  summary.AddMessage(kValue, value.bytes());
}

}  // namespace callout::internal
