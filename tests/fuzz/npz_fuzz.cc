// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the command's .npz files.
#include "npz.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "fuzz.h"
#include "npy.h"
#include "npz_mutation.h"

namespace {

// minizip opens files by name.
std::string PathOf(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

void callout::fuzz::Try(std::string_view bytes) {
  const int fd = memfd_create("input.npz", MFD_CLOEXEC);
  CALLOUT_CHECK(fd >= 0 && write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "no memory");
  const Result<tools::NamedArrays> arrays = tools::ReadNpz(PathOf(fd));
  (void)tools::ReadNpz(PathOf(fd), {DType::kBfloat16}, "x");
  close(fd);
  if (!arrays.ok()) return;
  for (const auto& [name, array] : *arrays) (void)tools::FormatNpy(array);
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return callout::fuzz::MutateInput(data, size, max_size, seed, callout::fuzz::MutateNpz);
}
