// SPDX-License-Identifier: Apache-2.0
//
// For what generate_symbols.py writes. Free of CUDA's types: the generated names have no parameters.
#pragma once

namespace callout::software_gpu {

/// Counts and logs the call of a name that the driver does not have. CUDA_ERROR_NOT_SUPPORTED.
int NotSupported(const char* symbol);

/// While it lives, a null stream is the thread's own in the calls of this thread, as in names with _ptsz.
class PerThreadStreams {
 public:
  PerThreadStreams();
  ~PerThreadStreams();
  PerThreadStreams(const PerThreadStreams&) = delete;
  PerThreadStreams& operator=(const PerThreadStreams&) = delete;

  /// True in a thread in which one lives.
  static bool Active();

 private:
  bool before_;
};

}  // namespace callout::software_gpu
