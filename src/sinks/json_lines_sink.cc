// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <string_view>

#include "base/ticks.h"
#include "sinks/sink.h"
#include "sinks/sinks.h"
#include "sinks/text.h"

namespace callout::internal {
namespace {

class JsonLinesSink final : public TextSink {
 public:
  JsonLinesSink(std::string label, const std::string& path, int fd, bool fields)
      : TextSink(std::move(label), std::make_shared<TextOutput>(fd, "'" + path + "'")), fd_(fd), fields_(fields) {}
  ~JsonLinesSink() override {
    (void)Flush();
    close(fd_);
  }

 private:
  Status Format(const Record& record, std::string& lines) override {
    lines += "{\"name\": ";
    AppendJsonString(record.site->label, lines);
    if (fields_) {
      AppendField("device", record.device_ordinal, lines);
      AppendField("run", record.run_id, lines);
      AppendField("seq", static_cast<int64_t>(record.sequence), lines);
      lines += ", \"time\": ";
      char seconds[32];
      const double time = WallSecondsAt(record.ticks);
      lines.append(seconds, std::to_chars(seconds, seconds + sizeof(seconds), time, std::chars_format::fixed, 6).ptr);
    }
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      const std::string& name = record.site->leaf_names[i];
      lines += ", ";
      AppendJsonString(MemberName(name), lines);
      lines += ": ";
      AppendArray(record.buffers[i], TextStyle::kJson, lines);
    }
    lines += "}\n";
    return OkStatus();
  }

  // A leaf must not hide one of the record's own members.
  static std::string MemberName(const std::string& leaf) {
    static constexpr std::string_view kReserved[] = {"name", "device", "run", "seq", "time"};
    if (leaf.empty()) return "value";
    return std::find(std::begin(kReserved), std::end(kReserved), leaf) == std::end(kReserved) ? leaf : "value." + leaf;
  }

  static void AppendField(const char* name, int64_t value, std::string& lines) {
    lines.append(", \"").append(name).append("\": ").append(std::to_string(value));
  }

  const int fd_;
  const bool fields_;
};

}  // namespace

Result<std::shared_ptr<Callback>> MakeJsonLinesSink(std::string label, const std::string& path, bool append,
                                                    bool fields) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (append ? 0 : O_TRUNC), 0644);
  if (fd < 0) {
    const StatusCode code = errno == EACCES ? StatusCode::kPermissionDenied : StatusCode::kNotFound;
    return Status(code, "cannot open '" + path + "' for JSON lines: " + std::strerror(errno));
  }
  return std::shared_ptr<Callback>(std::make_shared<JsonLinesSink>(std::move(label), path, fd, fields));
}

}  // namespace callout::internal
