// SPDX-License-Identifier: Apache-2.0
//
// Measures the host on the CPU plugin against programs that use the C API directly. Contenders take turns in random
// order; the tables at the end have the medians of the repetitions.
#include <cstdlib>
#include <string_view>

#include "callout/version.h"
#include "host/host.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::bench {

Host OpenHost(const std::string& plugin) {
  const pjrt::ClientOptions options = {.values = {{"cpu_device_count", int64_t{2}}}};
  const auto client = Value(pjrt::Client::Create(Value(pjrt::Plugin::Load(plugin)), options));
  return {client, BarePjrt(&client->plugin().api().table(), client->handle())};
}

pjrt::Buffer Ones(const std::shared_ptr<const pjrt::Client>& client, int64_t elements, size_t device) {
  const std::vector<int64_t> dims(elements == 1 ? 0 : 1, elements);
  const std::vector<float> values(static_cast<size_t>(elements), 1.0F);
  return Value(pjrt::Buffer::FromHost(client, client->devices().at(device), dims, values));
}

namespace {

int Main(int argc, char** argv) {
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", /*overwrite=*/0);  // silences one line of XLA's log for each client
  constexpr std::string_view kStartup = "--startup=";
  if (argc == 2 && std::string_view(argv[1]).starts_with(kStartup)) {
    return RunStartup(argv[1] + kStartup.size(), CALLOUT_BENCH_PLUGIN);
  }
  // Our flags stand before the caller's, because the last value of a flag counts.
  std::vector<std::string> flags = {argv[0], "--benchmark_repetitions=15",
                                    "--benchmark_enable_random_interleaving=true",
                                    "--benchmark_report_aggregates_only=true"};
  flags.insert(flags.end(), argv + 1, argv + argc);
  std::vector<char*> pointers;
  for (std::string& flag : flags) pointers.push_back(flag.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;
  const Host host = OpenHost(CALLOUT_BENCH_PLUGIN);
  std::deque<Table> tables;
  RegisterLoops(host, tables);
  RegisterExecutions(host, tables);
  RegisterRequests(host, tables);
  RegisterStartups(tables);
  benchmark::RunSpecifiedBenchmarks();
  std::printf("\ncallout %s; plugin with PJRT %d.%d; compiler %s\n", CALLOUT_VERSION,
              host.client->plugin().major_version(), host.client->plugin().minor_version(), __VERSION__);
  for (const Table& table : tables) table.Print();
  return 0;
}

}  // namespace
}  // namespace callout::bench

int main(int argc, char** argv) { return callout::bench::Main(argc, argv); }
