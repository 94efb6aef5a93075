// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/file_sink.h"

#include <charconv>
#include <string>

namespace callout::internal {

Result<double> FsyncSeconds(const SinkOptions& options) {
  const std::string text = options.Text("fsync", "never");
  if (text == "never") return FileOptions::kNever;
  if (text == "batch") return 0.0;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error == std::errc() && end == text.data() + text.size() && seconds >= 0) return seconds;
  return InvalidArgument("callout: the option 'fsync' of a sink must be never, batch or 0 or more seconds, got '" +
                         text + "'");
}

Result<FileOptions> FileOptionsOf(const SinkOptions& options) {
  if (options.Has("keep") && !options.Has("rotate_bytes")) {
    return InvalidArgument(
        "callout: the option 'keep' of a sink is how many rotated files are kept, and needs 'rotate_bytes'");
  }
  CALLOUT_ASSIGN_OR_RETURN(const double fsync_seconds, FsyncSeconds(options));
  return FileOptions{.append = options.Flag("append"),
                     .fsync_seconds = fsync_seconds,
                     .rotate_bytes = static_cast<uint64_t>(options.Integer("rotate_bytes", 0)),
                     .keep = static_cast<int>(options.Integer("keep", FileOptions::kAll))};
}

Status CloseFile(Callback& sink) {
  auto* const writer = dynamic_cast<WritingSink*>(&sink);
  if (writer == nullptr) return InvalidArgument("callout: '" + sink.label() + "' writes no file");
  return writer->Close();
}

}  // namespace callout::internal
