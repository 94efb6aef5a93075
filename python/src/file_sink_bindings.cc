// SPDX-License-Identifier: Apache-2.0
//
// Making native sinks that write files.
#include "bindings.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <map>
#include <memory>

#include "base/log.h"
#include "errors.h"
#include "files/file_sinks.h"
#include "files/open_files.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

internal::FileOptions Options(bool append, double fsync_seconds, uint64_t rotate_bytes, int keep) {
  return {.append = append, .fsync_seconds = fsync_seconds, .rotate_bytes = rotate_bytes, .keep = keep};
}

using Kinds = std::vector<std::pair<std::string, int>>;

internal::TensorBoardOptions TensorBoardOptions(double fsync_seconds, const Kinds& kinds) {
  internal::TensorBoardOptions options = {.fsync_seconds = fsync_seconds};
  for (const auto& [pattern, kind] : kinds) {
    options.kinds.emplace_back(pattern, static_cast<internal::SummaryKind>(kind));
  }
  return options;
}

// Without the GIL: a pipe waits for its reader, and file systems take their time. A signal's handler may raise.
template <typename Make>
CallbackHandle Open(Make&& make) {
  for (;;) {
    auto made = [&] {
      const internal::LogLater messages;
      const nb::gil_scoped_release release;
      return make();
    }();
    if (made.status().code() != StatusCode::kCancelled) return HandleOf(std::move(made));
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
  }
}

// Without the GIL: the thread that delivers may be writing.
void CloseFile(const CallbackHandle& sink) {
  const Status status = [&] {
    const nb::gil_scoped_release release;
    return internal::CloseFile(*sink.callback);
  }();
  ThrowIfError(status);
}

std::string Canonical(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, ignored);
  return canonical.empty() ? path : canonical.string();
}

// The sinks that write each path. They may outlive their Python objects: programs hold them. Of the GIL.
std::multimap<std::string, std::weak_ptr<internal::Callback>>& SinksByPath() {
  static auto* const sinks =
      new std::multimap<std::string, std::weak_ptr<internal::Callback>>;  // leaked: exit may close files
  return *sinks;
}

// `handle`, known by its path from now on.
CallbackHandle Known(const std::string& path, CallbackHandle handle) {
  auto& sinks = SinksByPath();
  std::erase_if(sinks, [](const auto& entry) { return entry.second.expired(); });
  sinks.emplace(Canonical(path), handle.callback);
  return handle;
}

// How many sinks wrote the path, all of which are closed now.
int CloseFilesAt(const std::string& path) {
  std::vector<CallbackHandle> found;
  const auto [begin, end] = SinksByPath().equal_range(Canonical(path));
  for (auto it = begin; it != end; ++it) {
    if (auto callback = it->second.lock()) found.push_back({std::move(callback)});
  }
  SinksByPath().erase(begin, end);
  for (const CallbackHandle& sink : found) CloseFile(sink);
  return static_cast<int>(found.size());
}

}  // namespace

void BindFileSinks(nb::module_& m) {
  m.def(
      "make_json_lines_sink",
      [](const std::string& label, const std::string& path, bool append, double fsync_seconds, uint64_t rotate_bytes,
         int keep, bool fields) {
        const auto options = Options(append, fsync_seconds, rotate_bytes, keep);
        return Known(path, Open([&] { return internal::MakeJsonLinesSink(label, path, options, fields); }));
      },
      nb::arg("label"), nb::arg("path"), nb::arg("append"), nb::arg("fsync_seconds"), nb::arg("rotate_bytes"),
      nb::arg("keep"), nb::arg("fields"));
  m.def(
      "make_csv_sink",
      [](const std::string& label, const std::string& path, bool append, double fsync_seconds, uint64_t rotate_bytes,
         int keep, const std::vector<std::string>& columns) {
        const auto options = Options(append, fsync_seconds, rotate_bytes, keep);
        return Known(path, Open([&] { return internal::MakeCsvSink(label, path, options, columns); }));
      },
      nb::arg("label"), nb::arg("path"), nb::arg("append"), nb::arg("fsync_seconds"), nb::arg("rotate_bytes"),
      nb::arg("keep"), nb::arg("columns"));
  m.def(
      "make_tensorboard_sink",
      [](const std::string& label, const std::string& logdir, double fsync_seconds, const Kinds& kinds) {
        const auto options = TensorBoardOptions(fsync_seconds, kinds);
        return Known(logdir, Open([&] { return internal::MakeTensorBoardSink(label, logdir, options); }));
      },
      nb::arg("label"), nb::arg("logdir"), nb::arg("fsync_seconds"), nb::arg("kinds"));
  m.def("close_files_at", &CloseFilesAt, nb::arg("path"), "As close_file, of all sinks that write the path; how many.");
  m.def("close_file", &CloseFile, nb::arg("sink"), "Writes what it has got and lets go of the file.");
  m.def(
      "is_written_here",
      [](const std::string& path) {
        const nb::gil_scoped_release release;
        return internal::IsWrittenHere(path);
      },
      nb::arg("path"), "Whether a sink of this process writes a file.");
}

}  // namespace callout::python
