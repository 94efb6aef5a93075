// SPDX-License-Identifier: Apache-2.0
#include "libraries/client.h"

#include <dlfcn.h>

#include <cstdint>
#include <fstream>
#include <iterator>

#include "libraries/log.h"

namespace callout::software_gpu {
namespace {

constexpr int kVersion = 12000;

void* TheDriver() {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver;
}

}  // namespace

void* FindInDriver(const char* name) {
  using GetProcAddress = int (*)(const char*, void**, int, uint64_t, int*);
  if (TheDriver() == nullptr) return nullptr;
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(TheDriver(), "cuGetProcAddress_v2"));
  void* function = nullptr;
  int status = 0;
  return get != nullptr && get(name, &function, kVersion, 0, &status) == 0 ? function : nullptr;
}

std::string LibraryFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&FindInDriver), &info) == 0) return {};
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

std::optional<ProductKernel> ProductKernel::Load() {
  const std::string path = LibraryFolder() + "products.image";
  std::ifstream file(path, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  internal::cuda::CUlibrary library = nullptr;
  internal::cuda::CUkernel kernel = nullptr;
  const void* none = nullptr;
  if (image.empty() || CallDriver("cuLibraryLoadData", &library, static_cast<const void*>(image.data()), none, none, 0U,
                                  none, none, 0U) != 0) {
    Refuse("loading " + path, 0);
    return {};
  }
  ProductKernel made(library, nullptr);
  if (CallDriver("cuLibraryGetKernel", &kernel, library, "multiply_matrices") != 0) return {};
  made.kernel_ = kernel;
  return made;
}

ProductKernel::~ProductKernel() {
  if (library_ != nullptr) CallDriver("cuLibraryUnload", library_);
}

int ProductKernel::Launch(const Product& product, internal::cuda::CUstream stream) const {
  Product copy = product;
  void* parameters[] = {&copy};
  void** none = nullptr;
  const auto function = reinterpret_cast<internal::cuda::CUfunction>(kernel_);
  return CallDriver("cuLaunchKernel", function, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, static_cast<void**>(parameters),
                    none);
}

}  // namespace callout::software_gpu
