// SPDX-License-Identifier: Apache-2.0
#include "sinks/sink.h"
#include "sinks/sinks.h"
#include "sinks/text.h"

namespace callout::internal {
namespace {

class PrintSink final : public TextSink {
 public:
  PrintSink(std::string label, int fd) : TextSink(std::move(label), TextOutput::Of(fd)) {}

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
};

}  // namespace

std::shared_ptr<Callback> MakePrintSink(std::string label, int fd) {
  return std::make_shared<PrintSink>(std::move(label), fd);
}

}  // namespace callout::internal
