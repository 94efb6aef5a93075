// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "sinks/sink.h"
#include "sinks/text/numpy_text.h"
#include "sinks/text/text.h"
#include "sinks/value_print.h"

namespace callout::internal {
namespace {

class ValuePrintSink final : public TextSink {
 public:
  ValuePrintSink(std::string label, ValuePrint print, int fd)
      : TextSink(std::move(label), TextOutput::Of(fd)), print_(std::move(print)) {}

 private:
  Status Format(const Record& record, std::string& lines) override {
    if (record.buffers.size() != print_.num_leaves) {
      return InvalidArgument("callout: an id_print of " + std::to_string(print_.num_leaves) + " arrays got " +
                             std::to_string(record.buffers.size()));
    }
    std::vector<std::string> leaves(print_.num_leaves);
    for (size_t i = 0; i < leaves.size(); ++i) CALLOUT_RETURN_IF_ERROR(AppendLeaf(record.buffers[i], leaves[i]));
    lines += print_.head;
    if (print_.has_device) lines.append("cpu:" + std::to_string(record.device_ordinal) + print_.after_device);
    if (print_.has_head()) lines += '\n';
    lines.append(LayOut(print_.layout, leaves)).append("\n");
    return OkStatus();
  }

  Status AppendLeaf(const callout_buffer& buffer, std::string& out) const {
    const NumpyTextOptions options = {print_.threshold, static_cast<float>(print_.exponents_from)};
    return AppendNumpyText(buffer, options, out) ? OkStatus() : AppendArray(buffer, TextStyle::kPrint, out);
  }

  const ValuePrint print_;
};

}  // namespace

std::shared_ptr<Callback> MakeValuePrintSink(std::string label, ValuePrint print, int fd) {
  return std::make_shared<ValuePrintSink>(std::move(label), std::move(print), fd);
}

Result<std::shared_ptr<Callback>> MakeValuePrint(const std::string& label, std::string_view payload) {
  CALLOUT_ASSIGN_OR_RETURN(ValuePrint print, ParseValuePrint(payload));
  return MakeValuePrintSink(label, std::move(print), /*fd=*/-1);
}

}  // namespace callout::internal
