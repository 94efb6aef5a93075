// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/cat.h"
#include "core/encoding/json.h"
#include "sinks/each_sink_kind.h"
#include "sinks/files/file_sink.h"
#include "sinks/text/text.h"

namespace callout::internal {
namespace {

const std::string kUnnamed = "value";

/// Appends one JSON object for each record to the file:
///   {"name": label, "device": 0, "run": 1, "seq": 7, "time": 1700000000.25, "value": 0.5}
/// A value of several leaves has its leaves as members ("loss": 0.5, ...) in place of "value". A leaf that has the name
/// of one of the record's own members is written as "value.<leaf>". "step" follows the name if the tap has a step.
/// Without `fields`, only the name, the step and the values are written.
class JsonLinesSink final : public FileSink {
 public:
  JsonLinesSink(std::string label, std::unique_ptr<FileOutput> file, bool fields)
      : FileSink(std::move(label), std::move(file)), fields_(fields) {}

 private:
  Status Format(const Record& record, std::string& lines) override {
    lines += "{\"name\": ";
    AppendJsonString(record.site->label, lines);
    if (record.step) AppendField("step", *record.step, lines);
    if (fields_) {
      AppendField("device", record.device_ordinal, lines);
      AppendField("run", record.run_id, lines);
      AppendField("seq", static_cast<int64_t>(record.sequence), lines);
      lines += ", \"time\": ";
      clock().Append(record.ticks, lines);
    }
    NameMembers(record.site->leaf_names, record.step.has_value());
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      lines += ", ";
      AppendJsonString(members_[i], lines);
      lines += ": ";
      CALLOUT_RETURN_IF_ERROR(AppendArray(record.buffers[i], TextStyle::kJson, lines));
    }
    lines += "}\n";
    return OkStatus();
  }

  // Names the members so that no leaf hides one of the record's own members or another leaf. Consecutive records mostly
  // have the same leaves.
  void NameMembers(const std::vector<std::string>& leaves, bool has_step) {
    if (leaves == leaves_ && has_step == has_step_) return;
    std::set<std::string, std::less<>> taken = {"name", "device", "run", "seq", "time"};
    if (has_step) taken.insert("step");
    members_.assign(leaves.size(), "");
    for (size_t i = 0; i < leaves.size(); ++i) {  // Leaves that keep their own names.
      const std::string& name = leaves[i].empty() ? kUnnamed : leaves[i];
      if (taken.insert(name).second) members_[i] = name;
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!members_[i].empty()) continue;
      std::string name = kUnnamed + "." + (leaves[i].empty() ? kUnnamed : leaves[i]);
      for (int n = 2; !taken.insert(name).second; ++n) name = Cat(kUnnamed, n, ".", leaves[i]);
      members_[i] = std::move(name);
    }
    leaves_ = leaves;
    has_step_ = has_step;
  }

  static void AppendField(const char* name, int64_t value, std::string& lines) {
    char digits[24];
    lines.append(", \"").append(name).append("\": ");
    lines.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }

  const bool fields_;
  std::vector<std::string> leaves_;  // The leaves that `members_` belongs to.
  bool has_step_ = false;
  std::vector<std::string> members_;
};

Result<std::shared_ptr<Callback>> MakeJsonLines(const std::string& label, const SinkOptions& options) {
  CALLOUT_ASSIGN_OR_RETURN(const FileOptions file_options, FileOptionsOf(options));
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<FileOutput> file,
                           FileOutput::Open(options.Text("path", ""), file_options, "JSON lines"));
  return std::shared_ptr<Callback>(std::make_shared<JsonLinesSink>(label, std::move(file), options.Flag("fields")));
}

}  // namespace

const SinkKind& JsonLinesKind() {
  static constexpr SinkOption kOptions[] = {
      kPathOption,  kAppendOption, {"fields", OptionType::kFlag, "true", "write device, run, seq and time too"},
      kFsyncOption, kRotateOption, kKeepOption,
  };
  static constexpr SinkKind kKind = {
      .name = "jsonl", .options = kOptions, .has_main = true, .is_for_hosts = true, .make = &MakeJsonLines};
  return kKind;
}

}  // namespace callout::internal
