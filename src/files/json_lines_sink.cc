// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "base/json_string.h"
#include "files/file_sink.h"
#include "files/file_sinks.h"
#include "text/text.h"

namespace callout::internal {
namespace {

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
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      lines += ", ";
      AppendJsonString(MemberName(record.site->leaf_names[i], record.step.has_value()), lines);
      lines += ": ";
      AppendArray(record.buffers[i], TextStyle::kJson, lines);
    }
    lines += "}\n";
    return OkStatus();
  }

  // A leaf must not hide one of the record's own members.
  static std::string MemberName(const std::string& leaf, bool has_step) {
    static constexpr std::string_view kReserved[] = {"name", "device", "run", "seq", "time"};
    if (leaf.empty()) return "value";
    const bool taken = std::find(std::begin(kReserved), std::end(kReserved), leaf) != std::end(kReserved);
    return taken || (has_step && leaf == "step") ? "value." + leaf : leaf;
  }

  static void AppendField(const char* name, int64_t value, std::string& lines) {
    char digits[24];
    lines.append(", \"").append(name).append("\": ");
    lines.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }

  const bool fields_;
};

}  // namespace

Result<std::shared_ptr<Callback>> MakeJsonLinesSink(std::string label, const std::string& path,
                                                    const FileOptions& options, bool fields) {
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<FileOutput> file, FileOutput::Open(path, options, "JSON lines"));
  return std::shared_ptr<Callback>(std::make_shared<JsonLinesSink>(std::move(label), std::move(file), fields));
}

}  // namespace callout::internal
