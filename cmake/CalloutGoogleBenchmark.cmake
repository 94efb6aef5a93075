# SPDX-License-Identifier: Apache-2.0
include(FindOrFetch)
callout_find_or_fetch(benchmark 1.7 TARGET benchmark::benchmark_main AS benchmark
  OFF BENCHMARK_ENABLE_TESTING BENCHMARK_ENABLE_INSTALL
  URL https://github.com/google/benchmark/archive/refs/tags/v1.8.3.tar.gz
  SHA256 6bc180a57d23d4d9515519f92b0c83d61b05b5bab188961f36ac7b06b0d9e9ce)
