// SPDX-License-Identifier: Apache-2.0
//
// Declarations for the output of generate_symbols.py. They use none of CUDA's types, because the generated names have
// no parameters.
#pragma once

namespace callout::software_gpu {

/// Counts and logs the call of a name that this driver does not implement. Returns CUDA_ERROR_NOT_SUPPORTED.
int NotSupported(const char* symbol);

/// While it lives, a null stream in this thread's calls is the thread's own stream, as in names with _ptsz.
class PerThreadStreams {
 public:
  PerThreadStreams();
  ~PerThreadStreams();
  PerThreadStreams(const PerThreadStreams&) = delete;
  PerThreadStreams& operator=(const PerThreadStreams&) = delete;

  /// True if a PerThreadStreams lives in this thread.
  static bool Active();

 private:
  bool before_;
};

}  // namespace callout::software_gpu
