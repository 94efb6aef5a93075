// SPDX-License-Identifier: Apache-2.0
//
// The driver as its clients see it: libcuda.so.1, and its functions by name.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "cuda/driver/driver_types.h"
#include "libraries/product.h"

namespace callout::software_gpu {

/// Returns a function of the driver, in its version for CUDA 12.0; null if there is no driver or no such function.
/// Thread-safe.
void* FindInDriver(const char* name);

/// Calls a function of the driver. Returns CUDA_ERROR_NOT_FOUND if there is none.
template <typename... Arguments>
int CallDriver(const char* name, Arguments... arguments) {
  void* found = FindInDriver(name);
  if (found == nullptr) return internal::cuda::CUDA_ERROR_NOT_FOUND;
  return reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
}

/// The kernel that computes products, loaded. Thread-safe.
class ProductKernel {
 public:
  /// Empty if the image beside this library cannot be loaded.
  static std::optional<ProductKernel> Load();
  ~ProductKernel();
  ProductKernel(ProductKernel&& other) noexcept
      : library_(std::exchange(other.library_, nullptr)), kernel_(other.kernel_) {}
  ProductKernel& operator=(ProductKernel&&) = delete;

  /// Makes an ordinary launch, which may be captured; each replay then computes the product again.
  int Launch(const Product& product, internal::cuda::CUstream stream) const;

 private:
  ProductKernel(internal::cuda::CUlibrary library, internal::cuda::CUkernel kernel)
      : library_(library), kernel_(kernel) {}

  internal::cuda::CUlibrary library_;
  internal::cuda::CUkernel kernel_;
};

/// Returns the folder of this library.
std::string LibraryFolder();

}  // namespace callout::software_gpu
