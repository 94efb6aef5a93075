// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "host/copy.h"
#include "host/host.h"
#include "host/programs.h"
#include "host/raw_handler.h"

namespace callout::bench {
namespace {

using pjrt::Buffer;
using pjrt::LoadedExecutable;
using pjrt::LoadedHostCallback;
using pjrt::LoadedHostCallbackMakeArgs;

constexpr char kRawTarget[] = "bench.raw_copy";

struct Size {
  const char* name;
  int64_t elements;
  int64_t count;  // iterations of the loop
  const char* count_text;
  int64_t runs;  // runs in a repetition
};

// One compiled loop and its argument.
struct Loop {
  Size size;
  Buffer argument;
  LoadedExecutable executable;

  float Run() const {
    const std::vector<const Buffer*> arguments = {&argument};
    const std::vector<Buffer> outputs = Value(executable.Run(arguments));
    return first_of(outputs[0]);
  }
  static float first_of(const Buffer& buffer) { return Value(buffer.View<float>()).values()[0]; }
};

class Loops {
 public:
  Loops(const Host& host, const Size& size) : host_(host), compiler_(host.client), size_(size) {}

  void AddEmpty(Row& row) {
    Add(row, "empty", EmptyLoop(size_.count), {}, CountsCalls(), [] {}, 1);
  }

  void AddCall(Row& row, const char* name, const char* target, const LoadedHostCallbackMakeArgs* callback) {
    Add(
        row, name, CallLoop(target, callback == nullptr ? "" : "callback = \"f\"", size_.elements, size_.count),
        callback, CountsCalls(), [] {}, size_.elements);
  }

  void AddTap(Row& row, const char* name, const LoadedHostCallbackMakeArgs& callback) {
    Add(
        row, name, TapLoop(size_.elements, size_.count), &callback, 1, [] { Check(pjrt::BarrierWait()); },
        size_.elements);
  }

 private:
  float CountsCalls() const { return 1 + static_cast<float>(size_.count); }

  void Add(Row& row, const char* name, std::string code, const LoadedHostCallbackMakeArgs* callback, float expected,
           std::function<void()> after, int64_t elements) {
    pjrt::CompileOptions options;
    if (callback != nullptr) options.loaded_host_callbacks = {Value(compiler_.MakeLoadedHostCallback(*callback))};
    const auto loop = std::make_shared<const Loop>(
        Loop{size_, Ones(host_.client, elements), Value(compiler_.Compile({std::move(code)}, options))});
    const auto run = [loop, expected] {
      if (const float got = loop->Run(); got != expected) {
        std::fprintf(stderr, "a loop returned %g, expected %g\n", got, expected);
        std::exit(1);
      }
    };
    RegisterTimed("loop/" + std::string(size_.name) + "/" + name, row, size_.runs, static_cast<double>(size_.count),
                  run, std::move(after));
  }

  const Host& host_;
  const pjrt::Compiler compiler_;
  const Size size_;
};

}  // namespace

void RegisterLoops(const Host& host, std::deque<Table>& tables) {
  host.bare.RegisterHandler(kRawTarget, &RawCopy);
  for (const Size& size : {Size{"f32[]", 1, 20'000, "20,000", 10}, Size{"1 KB", 256, 20'000, "20,000", 10},
                           Size{"1 MB", 1 << 18, 500, "500", 3}}) {
    const std::string title = "a callback in a loop of " + std::string(size.count_text) + ", " + size.name;
    Table& table = tables.emplace_back(title, "ns", Table::Comparison::kDifference);
    Loops loops(host, size);
    const auto function = [](const Call& call) {
      CopyCall(call);
      return OkStatus();
    };
    const auto ignore = [](const Call& call) {
      benchmark::DoNotOptimize(call.arg<float>(0).data());
      return OkStatus();
    };
    if (size.elements == 1) loops.AddEmpty(table.Add("empty loop"));
    loops.AddCall(table.AddPeer("raw handler"), "raw", kRawTarget, nullptr);
    const pjrt::FunctionCallback cpp("f", function);
    loops.AddCall(table.Add("call of a C++ function"), "function", "callout.v1.call", &cpp);
    const pjrt::LibraryCallback library("f", std::string(CALLOUT_BENCH_LIBRARY) + ":bench_copy");
    loops.AddCall(table.Add("call of a library's symbol"), "library", "callout.v1.call", &library);
    const pjrt::SinkCallback null("t", pjrt::SinkCallback::Kind::kNull);
    loops.AddTap(table.Add("tap to the null sink"), "tap_null", null);
    const pjrt::FunctionCallback tapped("t", ignore);
    loops.AddTap(table.Add("tap to a C++ function"), "tap_function", tapped);
  }
}

}  // namespace callout::bench
