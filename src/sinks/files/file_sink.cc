// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/file_sink.h"

#include <charconv>
#include <cmath>
#include <string>

#include "core/base/ticks.h"

namespace callout::internal {

void RecordClock::Read() {
  constexpr uint64_t kMany = uint64_t{1} << 40U;
  const double nanoseconds = TicksToNanoseconds(kMany);
  second_ticks_ = nanoseconds > 0 ? static_cast<uint64_t>(static_cast<double>(kMany) / nanoseconds * 1e9) : 1;
  tick_seconds_ = 1 / static_cast<double>(second_ticks_);
  anchor_ticks_ = Ticks();
  anchor_seconds_ = WallSecondsAt(anchor_ticks_);
}

void RecordClock::Append(uint64_t ticks, std::string& out) {
  constexpr int64_t kMicroseconds = 1'000'000;
  constexpr size_t kDigits = 6;
  const int64_t microseconds = std::llround(SecondsAt(ticks) * static_cast<double>(kMicroseconds));
  char text[32];
  // Adds a leading 1, which keeps the zeros and is then replaced by the point.
  char* const point = std::to_chars(text, text + sizeof(text), microseconds / kMicroseconds).ptr;
  std::to_chars(point, text + sizeof(text), kMicroseconds + microseconds % kMicroseconds);
  *point = '.';
  out.append(text, static_cast<size_t>(point - text) + 1 + kDigits);
}

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
