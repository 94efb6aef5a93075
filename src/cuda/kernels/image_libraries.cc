// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernels/image_libraries.h"

#include <atomic>
#include <map>
#include <set>
#include <utility>

#include "core/base/thread_annotations.h"
#include "core/encoding/sha256.h"

namespace callout::internal {
namespace {

std::atomic<int64_t> g_loaded{0};

struct Images {
  Mutex mutex;
  std::map<std::pair<const cuda::Driver*, std::string>, std::weak_ptr<const ImageLibrary>> by_digest
      CALLOUT_GUARDED_BY(mutex);
  std::set<std::string> expected CALLOUT_GUARDED_BY(mutex);
};

// Leaked: programs run until the process ends.
Images& GetImages() {
  static auto* const images = new Images;
  return *images;
}

}  // namespace

Result<std::shared_ptr<const ImageLibrary>> LoadImage(const cuda::Driver& driver, const std::string& bytes,
                                                      const std::string& name) {
  Images& images = GetImages();
  const std::string digest = Sha256Hex(bytes);
  const MutexLock lock(images.mutex);
  std::weak_ptr<const ImageLibrary>& known = images.by_digest[{&driver, digest}];
  if (auto library = known.lock()) return library;
  CALLOUT_ASSIGN_OR_RETURN(cuda::Library loaded, cuda::LoadLibrary(driver, bytes.c_str(), name));
  g_loaded.fetch_add(1, std::memory_order_relaxed);
  auto library = std::make_shared<const ImageLibrary>(ImageLibrary{std::move(loaded)});
  known = library;
  return library;
}

void ExpectImage(const std::string& bytes) {
  Images& images = GetImages();
  std::string digest = Sha256Hex(bytes);
  const MutexLock lock(images.mutex);
  images.expected.insert(std::move(digest));
}

bool IsExpectedImage(const std::string& bytes) {
  Images& images = GetImages();
  const std::string digest = Sha256Hex(bytes);
  const MutexLock lock(images.mutex);
  return images.expected.contains(digest);
}

int64_t ImagesLoaded() { return g_loaded.load(std::memory_order_relaxed); }

}  // namespace callout::internal
