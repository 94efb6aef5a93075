// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <utility>

#include "arguments.h"
#include "base/ticks.h"
#include "bindings.h"
#include "npz.h"
#include "report.h"
#include "session.h"
#include "shards.h"

namespace callout::tools {
namespace {

class Runner {
 public:
  explicit Runner(const RunOptions& options) : options_(options) {}

  // What can go wrong here is what was given.
  Status Prepare() {
    if (!options_.trace.empty()) CALLOUT_RETURN_IF_ERROR(BeginTrace());
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::Program program, pjrt::Program::FromFile(options_.program));
    CALLOUT_ASSIGN_OR_RETURN(const int devices, DevicesOf(program, options_.device_count));
    {
      const PhaseSpan span("load the plugin");
      progress_.Begin("loading the plugin");
      CALLOUT_ASSIGN_OR_RETURN(client_, OpenClient(options_.plugin, devices, options_.handlers));
    }
    CALLOUT_RETURN_IF_ERROR(Compile(program, devices));
    CALLOUT_ASSIGN_OR_RETURN(signature_, executable_->ReadSignature());
    std::vector<pjrt::ArrayType> expected;
    for (const pjrt::ProgramArray& input : signature_.inputs) expected.push_back(input.WholeType());
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<Array> arguments, ReadArguments(options_.arguments, expected));
    return Transfer(arguments);
  }

  Status Execute() {
    const auto calls = [] {
      uint64_t total = 0;
      for (const pjrt::CallbackStatistics& one : pjrt::ReadStatistics()) total += one.calls;
      return std::to_string(total) + " callbacks";
    };
    std::atomic<int> done{0};
    progress_.Begin("running", [&] {
      return (options_.repeat == 1 ? "" : std::to_string(done) + " of " + std::to_string(options_.repeat) + ", ") +
             calls();
    });
    Status status = OkStatus();
    for (; status.ok() && done < options_.repeat; ++done) status = ExecuteOnce();
    progress_.Begin("waiting for taps", calls);
    const PhaseSpan span("wait for taps");
    Status taps = pjrt::BarrierWait();
    progress_.End();
    return status.ok() ? std::move(taps) : std::move(status);
  }

  // Everything that is written after the program has run.
  Status Report(bool succeeded) {
    std::fflush(stdout);
    if (succeeded) CALLOUT_RETURN_IF_ERROR(ReportResults());
    if (options_.json) {
      if (succeeded) PrintJson(results_, options_.cache.empty() ? nullptr : CacheWord(), nanoseconds_);
    } else {
      if (options_.stats) PrintStatistics();
      if (options_.stats || (options_.repeat > 1 && succeeded)) PrintTimes(nanoseconds_);
    }
    return options_.trace.empty() ? OkStatus() : WriteTrace(options_.trace);
  }

 private:
  Status Compile(const pjrt::Program& program, int devices) {
    const PhaseSpan span("compile");
    progress_.Begin("compiling '" + options_.program + "'");
    pjrt::CompileOptions compile;
    compile.num_partitions = devices;
    compile.cache_directory = options_.cache;
    for (const std::string& text : options_.bindings) {
      CALLOUT_ASSIGN_OR_RETURN(pjrt::LoadedHostCallback callback, ParseBinding(text));
      compile.loaded_host_callbacks.push_back(std::move(callback));
    }
    auto executable = pjrt::Compiler(client_).Compile(program, compile);
    progress_.End();
    if (!executable.ok()) return std::move(executable).status();
    executable_ = std::make_unique<pjrt::LoadedExecutable>(std::move(executable).value());
    WarnOfUnused(compile.loaded_host_callbacks);
    return OkStatus();
  }

  void WarnOfUnused(const std::vector<pjrt::LoadedHostCallback>& bound) const {
    const std::vector<std::string>& asked = executable_->callback_names();
    for (const pjrt::LoadedHostCallback& callback : bound) {
      if (std::find(asked.begin(), asked.end(), callback.name()) != asked.end()) continue;
      std::string names;
      for (const std::string& name : asked) names += " '" + name + "'";
      std::fprintf(stderr, "callout: warning: the program does not ask for '%s'; it asks for:%s\n",
                   callback.name().c_str(), names.empty() ? " nothing" : names.c_str());
    }
  }

  Status Transfer(const std::vector<Array>& arguments) {
    const PhaseSpan span("copy arguments");
    const size_t devices = executable_->num_devices();
    buffers_.resize(devices);
    pointers_.resize(devices);
    for (size_t device = 0; device < devices; ++device) {
      for (size_t i = 0; i < arguments.size(); ++i) {
        const Array shard = ShardOf(arguments[i], signature_.inputs[i], device);
        CALLOUT_ASSIGN_OR_RETURN(pjrt::Buffer buffer,
                                 pjrt::Buffer::FromHost(client_, client_->devices()[device], shard.type.dtype,
                                                        shard.type.dims, shard.bytes.data()));
        buffers_[device].push_back(std::move(buffer));
      }
      for (const pjrt::Buffer& buffer : buffers_[device]) pointers_[device].push_back(&buffer);
    }
    return OkStatus();
  }

  Status ExecuteOnce() {
    const PhaseSpan span("run");
    const int64_t begin = internal::SteadyNanoseconds();
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Execution execution, executable_->Execute(pointers_));
    Status status = execution.Wait();
    nanoseconds_.push_back(internal::SteadyNanoseconds() - begin);
    outputs_ = std::move(execution.outputs);
    return status;
  }

  const char* CacheWord() const { return executable_->is_from_cache() ? "hit" : "miss"; }

  Status ReportResults() {
    NamedArrays& results = results_;
    for (size_t i = 0; i < signature_.outputs.size(); ++i) {
      if (signature_.outputs[i].type.dtype == DType::kToken) continue;  // it says that something is done
      std::vector<Array> shards;
      for (const std::vector<pjrt::Buffer>& on_device : outputs_) {
        CALLOUT_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, on_device[i].ToHost());
        shards.push_back({signature_.outputs[i].type, std::move(bytes)});
      }
      results.emplace_back("arr_" + std::to_string(i), Assemble(shards, signature_.outputs[i]));
    }
    if (!options_.json) PrintResults(results);
    return options_.output.empty() ? OkStatus() : WriteNpz(options_.output, results);
  }

  const RunOptions& options_;
  Progress progress_;
  std::shared_ptr<const pjrt::Client> client_;
  std::unique_ptr<pjrt::LoadedExecutable> executable_;
  pjrt::Signature signature_;
  std::vector<std::vector<pjrt::Buffer>> buffers_;
  std::vector<std::vector<const pjrt::Buffer*>> pointers_;
  std::vector<std::vector<pjrt::Buffer>> outputs_;
  std::vector<int64_t> nanoseconds_;
  NamedArrays results_;
};

}  // namespace

int Run(const RunOptions& options) {
  Runner runner(options);
  if (const Status status = runner.Prepare(); !status.ok()) return Refuse(status);
  const Status status = runner.Execute();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.c_message());
  const Status reported = runner.Report(status.ok());
  if (!reported.ok()) std::fprintf(stderr, "%s\n", reported.c_message());
  return status.ok() && reported.ok() ? kSuccess : kFailed;
}

}  // namespace callout::tools
