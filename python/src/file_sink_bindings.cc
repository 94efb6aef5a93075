// SPDX-License-Identifier: Apache-2.0
//
// Closes native sinks that write files.
#include "module_bindings.h"

#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "core/base/fork_mutex.h"
#include "errors.h"
#include "gil.h"
#include "python_text.h"
#include "sinks/files/file_sink.h"
#include "sinks/files/open_files.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// Closes the sink's files without the GIL, because the delivery thread may be writing.
void CloseFile(const CallbackHandle& sink) {
  const Status status = [&] {
    const GilRelease release;
    return internal::CloseFile(*sink.callback);
  }();
  ThrowIfError(status);
}

std::string Canonical(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, ignored);
  return canonical.empty() ? path : canonical.string();
}

// The sinks that write each path. Programs hold sinks, so sinks may outlive their Python objects.
struct SinksByPath {
  internal::ForkMutex mutex;
  std::multimap<std::string, std::weak_ptr<internal::Callback>> sinks CALLOUT_GUARDED_BY(mutex);

  static SinksByPath& Get() {
    static auto* const all = new SinksByPath;  // leaked: exit may close files
    return *all;
  }
};

// Returns the sinks that write `path`, and forgets the path.
std::vector<CallbackHandle> TakeSinksOf(const std::string& path) {
  std::vector<CallbackHandle> found;
  SinksByPath& all = SinksByPath::Get();
  const internal::MutexLock lock(all.mutex);
  const auto [begin, end] = all.sinks.equal_range(path);
  for (auto it = begin; it != end; ++it) {
    if (auto callback = it->second.lock()) found.push_back({std::move(callback)});
  }
  all.sinks.erase(begin, end);
  return found;
}

// Closes all sinks that write the path, and returns their number.
int CloseFilesAt(const FilePath& path) {
  const std::vector<CallbackHandle> found = TakeSinksOf(Canonical(path.bytes));
  for (const CallbackHandle& sink : found) CloseFile(sink);
  return static_cast<int>(found.size());
}

}  // namespace

void RememberFile(const std::string& path, const CallbackHandle& sink) {
  std::string canonical = Canonical(path);
  SinksByPath& all = SinksByPath::Get();
  const internal::MutexLock lock(all.mutex);
  std::erase_if(all.sinks, [](const auto& entry) { return entry.second.expired(); });
  all.sinks.emplace(std::move(canonical), sink.callback);
}

void BindFileSinks(nb::module_& m) {
  m.def("close_files_at", &CloseFilesAt, nb::arg("path"),
        "Closes all sinks that write the path, as `close_file` does, and tells how many.");
  m.def("close_file", &CloseFile, nb::arg("sink"), "Writes what it has got and lets go of the file.");
  m.def(
      "is_written_here",
      [](const FilePath& path) {
        const GilRelease release;
        return internal::IsWrittenHere(path.bytes);
      },
      nb::arg("path"), "Whether a sink of this process writes a file.");
}

}  // namespace callout::python
