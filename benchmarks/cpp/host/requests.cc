// SPDX-License-Identifier: Apache-2.0
//
// Measures a server's work: requests with and without callbacks from several threads, and the time until a program is
// ready.
#include <filesystem>
#include <thread>

#include "host/host.h"
#include "host/programs.h"

namespace callout::bench {
namespace {

constexpr int64_t kElements = 4;
constexpr int64_t kExtent = 128;  // rows and columns of the network's matrices
constexpr int kThreads = 8;
constexpr int kRunsOfThread = 500;

pjrt::CompileOptions Callbacks() {
  pjrt::CompileOptions options;
  const auto copy = [](const Call& call) {
    const auto from = call.arg<float>(0);
    std::copy(from.begin(), from.end(), call.result<float>(0).begin());
    return OkStatus();
  };
  options.loaded_host_callbacks = {Value(pjrt::FunctionCallback("hook", copy).Make()),
                                   Value(pjrt::SinkCallback("t", pjrt::SinkCallback::Kind::kNull).Make())};
  return options;
}

struct Request {
  pjrt::LoadedExecutable network;
  pjrt::Buffer input;
};

std::shared_ptr<Request> MakeRequest(const Host& host, bool calls) {
  const std::vector<int64_t> dims = {kExtent, kExtent};
  const std::vector<float> values(static_cast<size_t>(kExtent * kExtent), 0.01F);
  return std::make_shared<Request>(
      Request{Value(pjrt::Compiler(host.client).Compile({Network(kExtent, 4, calls)}, Callbacks())),
              Value(pjrt::Buffer::FromHost(host.client, host.client->devices()[0], dims, values))});
}

void RegisterHooks(const Host& host, std::deque<Table>& tables) {
  Table& table = tables.emplace_back("a request to four layers of f32[128,128]", "ns", Table::Comparison::kRatio);
  const auto add = [&](Row& row, const std::string& name, const std::shared_ptr<Request>& request) {
    const auto run = [request] { benchmark::DoNotOptimize(Value(request->network.Run({&request->input}))); };
    RegisterTimed("request/" + name, row, 300, 1, run, [] {});
  };
  add(table.AddPeer("same without callbacks"), "plain", MakeRequest(host, false));
  add(table.Add("with a hook and a tap"), "hook_and_tap", MakeRequest(host, true));
}

void RegisterThreads(const Host& host, std::deque<Table>& tables) {
  Table& table = tables.emplace_back("a small program from 8 threads, a run of all", "ns", Table::Comparison::kRatio);
  const auto add = [&](Row& row, const std::string& name, auto run_of_thread) {
    const auto run = [run_of_thread] {
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([run_of_thread, i] {
          for (int k = 0; k < kRunsOfThread; ++k) run_of_thread(static_cast<size_t>(i));
        });
      }
      for (std::thread& thread : threads) thread.join();
    };
    RegisterTimed("threads/" + name, row, 5, kThreads * kRunsOfThread, run, [] {});
  };
  const auto bare = std::make_shared<std::deque<BareProgram>>();  // each holds the outputs of its last run
  for (int i = 0; i < kThreads; ++i) bare->emplace_back(host.bare, AddOne(kElements), kElements, 1);
  add(table.AddPeer("bare C API"), "bare", [bare](size_t thread) { (*bare)[thread].Run(); });
  struct Ours {
    pjrt::LoadedExecutable program;
    pjrt::Buffer input;
  };
  const auto ours = std::make_shared<std::vector<Ours>>();
  for (int i = 0; i < kThreads; ++i) {
    ours->push_back({Value(pjrt::Compiler(host.client).Compile({AddOne(kElements)})), Ones(host.client, kElements)});
  }
  add(table.Add("callout::pjrt"), "callout", [ours](size_t thread) {
    const Ours& one = (*ours)[thread];
    benchmark::DoNotOptimize(Value(one.program.Run({&one.input})));
  });
}

void RegisterCache(const Host& host, std::deque<Table>& tables) {
  Table& table = tables.emplace_back("24 layers, until they are ready to run", "ms", Table::Comparison::kRatio);
  const auto add = [&](Row& row, const std::string& name, const std::string& folder) {
    const auto run = [client = host.client, folder] {
      pjrt::CompileOptions options = Callbacks();
      options.cache_directory = folder;
      benchmark::DoNotOptimize(Value(pjrt::Compiler(client).Compile({Network(kExtent, 24, true)}, options)));
    };
    RegisterTimed("ready/" + name, row, 1, 1, run, [] {});
  };
  std::string folder = std::filesystem::temp_directory_path() / "callout_bench_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::exit(1);
  static const std::shared_ptr<void> removes(nullptr, [folder](void*) { std::filesystem::remove_all(folder); });
  add(table.AddPeer("compilation"), "compiled", "");
  add(table.Add("loaded from the cache"), "cached", folder);
}

}  // namespace

void RegisterRequests(const Host& host, std::deque<Table>& tables) {
  RegisterHooks(host, tables);
  RegisterThreads(host, tables);
  RegisterCache(host, tables);
}

}  // namespace callout::bench
