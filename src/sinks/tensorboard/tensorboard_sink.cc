// SPDX-License-Identifier: Apache-2.0
//
// The sink that writes event files. docs/sinks.md describes how records become events.
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "core/base/ticks.h"
#include "core/encoding/wire.h"
#include "sinks/each_sink_kind.h"
#include "sinks/files/file_sink.h"
#include "sinks/files/tf_record.h"
#include "sinks/step_counter.h"
#include "sinks/tensorboard/event_file.h"

namespace callout::internal {
namespace {

// Pairs of pattern and kind.
using Chosen = std::vector<std::pair<std::string, ShownAs>>;

struct ShownLeaf {
  size_t leaf;
  ShownAs kind;
  std::string head;
};

/// Writes an event file to a folder.
class TensorBoardSink final : public FileSink {
 public:
  TensorBoardSink(std::string label, std::unique_ptr<FileOutput> file, Chosen chosen)
      : FileSink(std::move(label), std::move(file)), chosen_(std::move(chosen)) {}

 private:
  Status Format(const Record& record, std::string& bytes) override {
    const int64_t step = steps_.Next(record);
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<ShownLeaf>* const leaves,
                             cache_.Find(record, [this](const Record& like) { return LeavesOf(like); }));
    summary_.Clear();
    for (const ShownLeaf& shown : *leaves) {
      const auto data = SummaryDataOf(record.buffers[shown.leaf], shown.kind);
      if (!data.ok()) {
        return InvalidArgument("cannot write '" + TagOf(record, shown.leaf) + "' to '" + file().path() +
                               "': " + std::string(data.status().message()));
      }
      AddValue(shown.head, *data, value_, summary_);
    }
    event_.Clear();
    WriteEvent(clock().SecondsAt(record.ticks), step, summary_.bytes(), event_);
    AppendTfRecord(event_.bytes(), bytes);
    return OkStatus();
  }

  Result<std::vector<ShownLeaf>> LeavesOf(const Record& record) const {
    std::vector<ShownLeaf> leaves;
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      const callout_buffer& buffer = record.buffers[i];
      const std::string& leaf = record.site->leaf_names[i];
      if (StepLeaf(leaf, buffer)) continue;
      const std::string tag = TagOf(record, i);
      ShownAs kind = buffer.rank == 0 ? ShownAs::kScalar : ShownAs::kHistogram;
      for (const auto& [pattern, chosen] : chosen_) {
        if (fnmatch(pattern.c_str(), leaf.c_str(), 0) == 0 || fnmatch(pattern.c_str(), tag.c_str(), 0) == 0) {
          kind = chosen;
          break;
        }
      }
      leaves.push_back({i, kind, ValueHead(tag, kind)});
    }
    return leaves;
  }

  static std::string TagOf(const Record& record, size_t leaf) {
    const std::string& name = record.site->leaf_names[leaf];
    return name.empty() ? record.site->label : record.site->label + "/" + name;
  }

  /// The first pattern (fnmatch) that matches a leaf's name or tag gives the leaf's kind. Without a match, leaves
  /// without dimensions are scalars, and others are histograms.
  const Chosen chosen_;
  StepCounter steps_;
  RecordCache<std::vector<ShownLeaf>> cache_;
  // Members, so that their memory is reused.
  WireWriter value_;
  WireWriter summary_;
  WireWriter event_;
};

// Returns a name of the form that TensorBoard looks for and sorts by time.
std::string EventFileName(double now) {
  static std::atomic<int> count{0};
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {"localhost"};
  std::array<char, 512> name;
  std::snprintf(name.data(), name.size(), "events.out.tfevents.%010lld.%s.%d.%d", static_cast<long long>(now),
                host.data(), getpid(), count.fetch_add(1, std::memory_order_relaxed));  // Relaxed: only unique.
  return name.data();
}

// Parses texts of the form "PATTERN=KIND".
Result<Chosen> ChosenBy(const std::vector<std::string>& texts) {
  constexpr std::pair<std::string_view, ShownAs> kNames[] = {{"scalar", ShownAs::kScalar},
                                                             {"histogram", ShownAs::kHistogram},
                                                             {"image", ShownAs::kImage},
                                                             {"text", ShownAs::kText}};
  Chosen chosen;
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    const std::string_view name = equals == std::string::npos ? text : std::string_view(text).substr(equals + 1);
    const auto* const it =
        std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& each) { return each.first == name; });
    if (equals == std::string::npos || it == std::end(kNames)) {
      return InvalidArgument(
          "callout: the option 'kinds' of a sink must be PATTERN=scalar, histogram, image or text, got '" + text + "'");
    }
    chosen.emplace_back(text.substr(0, equals), it->second);
  }
  return chosen;
}

Result<std::shared_ptr<Callback>> MakeTensorBoard(const std::string& label, const SinkOptions& options) {
  CALLOUT_ASSIGN_OR_RETURN(const double fsync_seconds, FsyncSeconds(options));
  CALLOUT_ASSIGN_OR_RETURN(Chosen chosen, ChosenBy(options.Texts("kinds")));
  const std::string logdir = options.Text("logdir", "");
  std::error_code error;
  std::filesystem::create_directories(logdir, error);
  if (error) {
    const bool permission = error == std::errc::permission_denied || error == std::errc::read_only_file_system;
    return Status(permission ? StatusCode::kPermissionDenied : StatusCode::kNotFound,
                  "cannot make the folder '" + logdir + "' for TensorBoard: " + error.message());
  }
  const double now = WallSecondsAt(Ticks());
  const std::string path = (std::filesystem::path(logdir) / EventFileName(now)).string();
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<FileOutput> file,
                           FileOutput::Open(path, {.fsync_seconds = fsync_seconds}, "TensorBoard", &EndOfTfRecords));
  std::string header;
  AppendTfRecord(VersionEvent(now), header);
  file->SetHeader(std::move(header));
  CALLOUT_RETURN_IF_ERROR(file->Flush());
  return std::shared_ptr<Callback>(std::make_shared<TensorBoardSink>(label, std::move(file), std::move(chosen)));
}

}  // namespace

const SinkKind& TensorBoardKind() {
  static constexpr SinkOption kOptions[] = {
      {"logdir", OptionType::kPath, "needed", "the folder, created if missing"},
      {"kinds", OptionType::kTexts, "by dimensions",
       "PATTERN=`scalar`, `histogram`, `image` or `text`, for leaves and tags; given once for each"},
      kFsyncOption,
  };
  static constexpr SinkKind kKind = {
      .name = "tensorboard", .options = kOptions, .has_main = true, .is_for_hosts = true, .make = &MakeTensorBoard};
  return kKind;
}

}  // namespace callout::internal
