// SPDX-License-Identifier: Apache-2.0
//
// Closing native sinks that write files.
#include "module_bindings.h"

#include <nanobind/stl/string.h>

#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "errors.h"
#include "files/file_sink.h"
#include "files/open_files.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

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

void RememberFile(const std::string& path, const CallbackHandle& sink) {
  auto& sinks = SinksByPath();
  std::erase_if(sinks, [](const auto& entry) { return entry.second.expired(); });
  sinks.emplace(Canonical(path), sink.callback);
}

void BindFileSinks(nb::module_& m) {
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
