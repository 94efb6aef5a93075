// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json_string.h"
#include "files/file_sink.h"
#include "files/file_sinks.h"
#include "text/text.h"

namespace callout::internal {
namespace {

const std::string kUnnamed = "value";

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

  // A leaf must not hide one of the record's own members, nor another leaf. Records are mostly like the one before.
  void NameMembers(const std::vector<std::string>& leaves, bool has_step) {
    if (leaves == leaves_ && has_step == has_step_) return;
    std::set<std::string, std::less<>> taken = {"name", "device", "run", "seq", "time"};
    if (has_step) taken.insert("step");
    members_.assign(leaves.size(), "");
    for (size_t i = 0; i < leaves.size(); ++i) {  // what may be called as it is
      const std::string& name = leaves[i].empty() ? kUnnamed : leaves[i];
      if (taken.insert(name).second) members_[i] = name;
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!members_[i].empty()) continue;
      std::string name = kUnnamed + "." + (leaves[i].empty() ? kUnnamed : leaves[i]);
      for (int n = 2; !taken.insert(name).second; ++n) name = kUnnamed + std::to_string(n) + "." + leaves[i];
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
  std::vector<std::string> leaves_;  // that `members_` are called after
  bool has_step_ = false;
  std::vector<std::string> members_;
};

}  // namespace

Result<std::shared_ptr<Callback>> MakeJsonLinesSink(std::string label, const std::string& path,
                                                    const FileOptions& options, bool fields) {
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<FileOutput> file, FileOutput::Open(path, options, "JSON lines"));
  return std::shared_ptr<Callback>(std::make_shared<JsonLinesSink>(std::move(label), std::move(file), fields));
}

}  // namespace callout::internal
