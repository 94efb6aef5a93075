// SPDX-License-Identifier: Apache-2.0
//
// The images of this process's programs, loaded: one library for equal bytes, which all devices share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "callout/export.h"
#include "cuda/driver/kernel.h"

namespace callout::internal {

/// A loaded image. It is unloaded with the last program that uses it.
struct ImageLibrary {
  cuda::Library library;
};

/// The library of `bytes`, loaded by the first who asks while nobody else holds it. `name` is for errors. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<const ImageLibrary>> LoadImage(const cuda::Driver& driver,
                                                                     const std::string& bytes, const std::string& name);

/// Notes that this process made the image itself, so that programs may carry it where embedded code is refused.
/// Thread-safe.
CALLOUT_EXPORT void ExpectImage(const std::string& bytes);

/// Returns true for the bytes of an image that ExpectImage has noted. Thread-safe.
CALLOUT_EXPORT bool IsExpectedImage(const std::string& bytes);

/// Images that were loaded since the start. Thread-safe.
CALLOUT_EXPORT int64_t ImagesLoaded();

}  // namespace callout::internal
