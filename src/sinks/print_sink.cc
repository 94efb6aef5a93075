// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "sinks/sink.h"
#include "sinks/sinks.h"
#include "sinks/text.h"

namespace callout::internal {
namespace {

class PrintSink final : public TextSink {
 public:
  PrintSink(std::string label, int fd) : TextSink(std::move(label)), fd_(fd < 0 ? STDOUT_FILENO : fd) {}

 private:
  Status Format(const Record& record, std::string& lines) override {
    lines += record.site->label;
    lines += ':';
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      lines += ' ';
      if (!record.site->leaf_names[i].empty()) lines.append(record.site->leaf_names[i]).append("=");
      AppendArray(record.buffers[i], TextStyle::kPrint, lines);
    }
    lines += '\n';
    return OkStatus();
  }

  Status Write(const std::string& lines) override { return WriteAll(fd_, lines, "standard output"); }

  const int fd_;
};

}  // namespace

std::shared_ptr<Callback> MakePrintSink(std::string label, int fd) {
  return std::make_shared<PrintSink>(std::move(label), fd);
}

}  // namespace callout::internal
