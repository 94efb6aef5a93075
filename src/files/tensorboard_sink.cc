// SPDX-License-Identifier: Apache-2.0
//
// Event files: docs/sinks.md says what becomes of a record.
#include <fnmatch.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/ticks.h"
#include "base/wire.h"
#include "files/event_file.h"
#include "files/file_sink.h"
#include "files/file_sinks.h"
#include "files/record_cache.h"
#include "files/summary_tensor.h"
#include "files/tf_record.h"
#include "sinks/step_counter.h"

namespace callout::internal {
namespace {

struct Summary {
  size_t leaf;
  SummaryKind kind;
  std::string head;
};

class TensorBoardSink final : public FileSink {
 public:
  TensorBoardSink(std::string label, std::unique_ptr<FileOutput> file, TensorBoardOptions options)
      : FileSink(std::move(label), std::move(file)), options_(std::move(options)) {}

 private:
  Status Format(const Record& record, std::string& bytes) override {
    const int64_t step = steps_.Next(record);
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<Summary>* const summaries,
                             cache_.Find(record, [this](const Record& like) { return SummariesOf(like); }));
    summary_.Clear();
    for (const Summary& summary : *summaries) {
      auto tensor = TensorOf(record.buffers[summary.leaf], summary.kind);
      if (!tensor.ok()) {
        return InvalidArgument("cannot write '" + TagOf(record, summary.leaf) + "' to '" + file().path() +
                               "': " + std::string(tensor.status().message()));
      }
      AddValue(summary.head, *tensor, value_, summary_);
    }
    event_.Clear();
    WriteEvent(clock().SecondsAt(record.ticks), step, summary_.bytes(), event_);
    AppendTfRecord(event_.bytes(), bytes);
    return OkStatus();
  }

  Result<std::vector<Summary>> SummariesOf(const Record& record) const {
    std::vector<Summary> summaries;
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      const callout_buffer& buffer = record.buffers[i];
      const std::string& leaf = record.site->leaf_names[i];
      if (StepLeaf(leaf, buffer)) continue;
      const std::string tag = TagOf(record, i);
      SummaryKind kind = buffer.rank == 0 ? SummaryKind::kScalar : SummaryKind::kHistogram;
      for (const auto& [pattern, chosen] : options_.kinds) {
        if (fnmatch(pattern.c_str(), leaf.c_str(), 0) == 0 || fnmatch(pattern.c_str(), tag.c_str(), 0) == 0) {
          kind = chosen;
          break;
        }
      }
      summaries.push_back({i, kind, ValueHead(tag, kind)});
    }
    return summaries;
  }

  static std::string TagOf(const Record& record, size_t leaf) {
    const std::string& name = record.site->leaf_names[leaf];
    return name.empty() ? record.site->label : record.site->label + "/" + name;
  }

  const TensorBoardOptions options_;
  StepCounter steps_;
  RecordCache<std::vector<Summary>> cache_;
  // Kept for their memory.
  WireWriter value_;
  WireWriter summary_;
  WireWriter event_;
};

// As TensorBoard looks for them, and sorts them by time.
std::string EventFileName(double now) {
  static std::atomic<int> count{0};
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {"localhost"};
  std::array<char, 512> name;
  std::snprintf(name.data(), name.size(), "events.out.tfevents.%010lld.%s.%d.%d", static_cast<long long>(now),
                host.data(), getpid(), count.fetch_add(1, std::memory_order_relaxed));  // only has to differ
  return name.data();
}

}  // namespace

Result<std::shared_ptr<Callback>> MakeTensorBoardSink(std::string label, const std::string& logdir,
                                                      const TensorBoardOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(logdir, error);
  if (error) {
    const bool permission = error == std::errc::permission_denied || error == std::errc::read_only_file_system;
    return Status(permission ? StatusCode::kPermissionDenied : StatusCode::kNotFound,
                  "cannot make the folder '" + logdir + "' for TensorBoard: " + error.message());
  }
  const double now = WallSecondsAt(Ticks());
  const std::string path = (std::filesystem::path(logdir) / EventFileName(now)).string();
  CALLOUT_ASSIGN_OR_RETURN(
      std::unique_ptr<FileOutput> file,
      FileOutput::Open(path, {.fsync_seconds = options.fsync_seconds}, "TensorBoard", &EndOfTfRecords));
  std::string header;
  AppendTfRecord(VersionEvent(now), header);
  file->SetHeader(std::move(header));
  CALLOUT_RETURN_IF_ERROR(file->Flush());
  return std::shared_ptr<Callback>(std::make_shared<TensorBoardSink>(std::move(label), std::move(file), options));
}

}  // namespace callout::internal
