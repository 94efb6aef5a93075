// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <limits>
#include <optional>
#include <utility>

#include "sinks/each_sink_kind.h"
#include "sinks/record_format.h"
#include "sinks/sink.h"
#include "sinks/text/text.h"
#include "sinks/text_output.h"

namespace callout::internal {
namespace {

// Appends "name: value", or "name: leaf=value leaf=value".
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

// "auto" means colours if a format or `update` asks for more than plain lines, and if the terminal and the user want
// colours.
Result<bool> UsesColours(const SinkOptions& options, int fd) {
  const std::string colour = options.Text("color", "auto");
  if (colour == "true" || colour == "false") return colour == "true";
  if (colour == "auto") return (options.Has("format") || options.Flag("update")) && WantsColours(fd);
  return InvalidArgument("callout: the sink 'print' expects auto, true or false as 'color', got '" + colour + "'");
}

Result<std::shared_ptr<Callback>> MakePrint(const std::string& label, const SinkOptions& options) {
  std::optional<RecordFormat> format;
  if (options.Has("format")) {
    CALLOUT_ASSIGN_OR_RETURN(format, RecordFormat::Parse(options.Text("format", "")));
  }
  std::shared_ptr<TextOutput> output = TextOutput::Of(static_cast<int>(options.Integer("fd", STDOUT_FILENO)));
  CALLOUT_ASSIGN_OR_RETURN(const bool is_coloured, UsesColours(options, output->fd()));
  const bool update = options.Flag("update") && IsCapableTerminal(output->fd());
  return std::shared_ptr<Callback>(std::make_shared<PrintSink>(label, std::move(output), std::move(format),
                                                               is_coloured ? kTerminalColours : kNoColours, update));
}

}  // namespace

const SinkKind& PrintKind() {
  static constexpr SinkOption kOptions[] = {
      {"format", OptionType::kText, "`name: value`", "as Python's `str.format`, see [Formats](#formats)"},
      {"update", OptionType::kFlag, "false", "on a terminal, one line that each record writes over"},
      {"color", OptionType::kText, "auto", "`true`, `false`, or where a format or `update` meets a terminal"},
      {"fd", OptionType::kInteger, "1", "a file descriptor that stays open", 0, std::numeric_limits<int>::max()},
  };
  static constexpr SinkKind kKind = {
      .name = "print", .options = kOptions, .has_main = true, .is_for_hosts = true, .make = &MakePrint};
  return kKind;
}

Status CheckPrintFormat(const std::string& format, std::span<const std::string> leaf_names,
                        std::span<const DType> dtypes) {
  CALLOUT_ASSIGN_OR_RETURN(const RecordFormat parsed, RecordFormat::Parse(format));
  return parsed.Check(leaf_names, dtypes);
}

}  // namespace callout::internal
