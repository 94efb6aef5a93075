// SPDX-License-Identifier: Apache-2.0
#include "host/host.h"
#include "host/programs.h"

namespace callout::bench {
namespace {

constexpr int64_t kElements = 4;
constexpr int64_t kBatch = 200;  // executions between two looks at the clock

struct Ours {
  std::vector<pjrt::Buffer> inputs;
  pjrt::LoadedExecutable executable;
  std::vector<std::vector<const pjrt::Buffer*>> arguments;

  void Run() const {
    if (arguments.size() == 1) {
      benchmark::DoNotOptimize(Value(executable.Run(arguments[0])));
    } else {
      pjrt::Execution execution = Value(executable.Execute(arguments));
      Check(execution.Wait());
    }
  }
};

std::shared_ptr<Ours> MakeOurs(const Host& host, int num_devices) {
  pjrt::CompileOptions options;
  options.num_replicas = num_devices;
  std::vector<pjrt::Buffer> inputs;
  for (int i = 0; i < num_devices; ++i) inputs.push_back(Ones(host.client, kElements, static_cast<size_t>(i)));
  auto ours = std::make_shared<Ours>(
      Ours{std::move(inputs), Value(pjrt::Compiler(host.client).Compile({AddOne(kElements)}, options)), {}});
  for (const pjrt::Buffer& input : ours->inputs) ours->arguments.push_back({&input});
  return ours;
}

}  // namespace

void RegisterExecutions(const Host& host, std::deque<Table>& tables) {
  for (const int num_devices : {1, 2}) {
    const std::string devices = std::to_string(num_devices) + (num_devices == 1 ? " device" : " devices");
    Table& table =
        tables.emplace_back("a small program, executed and waited for, " + devices, "ns", Table::Comparison::kRatio);
    const int64_t batches = num_devices == 1 ? 50 : 10;
    const auto add = [&](Row& row, const std::string& name, auto program) {
      const auto run = [program] {
        for (int64_t i = 0; i < kBatch; ++i) program->Run();
      };
      RegisterTimed("execute/" + devices + "/" + name, row, batches, kBatch, run, [] {});
    };
    const auto bare = std::make_shared<BareProgram>(host.bare, AddOne(kElements), kElements, num_devices);
    if (bare->RunAndRead() != 2) std::exit(1);
    add(table.AddPeer("bare C API"), "bare", bare);
    add(table.Add("callout::pjrt"), "callout", MakeOurs(host, num_devices));
  }
}

}  // namespace callout::bench
