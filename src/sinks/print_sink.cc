// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "sinks/record_format.h"
#include "sinks/sink.h"
#include "sinks/sinks.h"
#include "sinks/terminal.h"
#include "text/text.h"
#include "text/text_style.h"

namespace callout::internal {
namespace {

// "name: value", or "name: leaf=value leaf=value".
Status AppendNameAndValues(const Record& record, const Colours& colours, std::string& out) {
  out.append(colours.name).append(record.site->label).append(colours.end);
  out += ':';
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    out += ' ';
    if (!record.site->leaf_names[i].empty()) out.append(record.site->leaf_names[i]).append("=");
    out += colours.value;
    CALLOUT_RETURN_IF_ERROR(AppendArray(record.buffers[i], TextStyle::kPrint, out));
    out += colours.end;
  }
  return OkStatus();
}

class PrintSink final : public Sink {
 public:
  PrintSink(std::string label, std::shared_ptr<TextOutput> output, std::optional<RecordFormat> format,
            const Colours& colours, bool update)
      : Sink(std::move(label)),
        output_(std::move(output)),
        format_(std::move(format)),
        colours_(colours),
        update_(update) {}

  Status Deliver(const Record& record) override {
    if (update_) return output_->Replace([&](std::string& line) { return Append(record, line); });
    return output_->Add([&](std::string& lines) {
      CALLOUT_RETURN_IF_ERROR(Append(record, lines));
      lines += '\n';
      return OkStatus();
    });
  }
  Status Flush() override { return output_->Flush(); }

 private:
  Status Append(const Record& record, std::string& out) {
    if (format_) return format_->Append(record, colours_, out);
    return AppendNameAndValues(record, colours_, out);
  }

  const std::shared_ptr<TextOutput> output_;
  std::optional<RecordFormat> format_;
  const Colours colours_;
  const bool update_;
};

bool UsesColours(const PrintOptions& options, int fd) {
  if (options.colour != PrintColour::kAuto) return options.colour == PrintColour::kAlways;
  return (options.format || options.update) && WantsColours(fd);
}

}  // namespace

std::shared_ptr<Callback> MakePrintSink(std::string label, int fd) {
  return MakePrintSink(std::move(label), fd, PrintOptions()).value();
}

Result<std::shared_ptr<Callback>> MakePrintSink(std::string label, int fd, const PrintOptions& options) {
  std::optional<RecordFormat> format;
  if (options.format) {
    CALLOUT_ASSIGN_OR_RETURN(format, RecordFormat::Parse(*options.format));
  }
  std::shared_ptr<TextOutput> output = TextOutput::Of(fd);
  const Colours& colours = UsesColours(options, output->fd()) ? kTerminalColours : kNoColours;
  const bool update = options.update && IsCapableTerminal(output->fd());
  return std::shared_ptr<Callback>(
      std::make_shared<PrintSink>(std::move(label), std::move(output), std::move(format), colours, update));
}

Status CheckPrintFormat(const std::string& format, std::span<const std::string> leaf_names,
                        std::span<const DType> dtypes) {
  CALLOUT_ASSIGN_OR_RETURN(const RecordFormat parsed, RecordFormat::Parse(format));
  return parsed.Check(leaf_names, dtypes);
}

}  // namespace callout::internal
