// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "arguments.h"
#include "callout/pjrt/binding.h"
#include "callout/pjrt/trace.h"
#include "core/base/cat.h"
#include "npz.h"
#include "report.h"
#include "shards.h"
#include "standard_output.h"
#include "temporary_file.h"
#include "whole_input.h"
#include "workload.h"

namespace callout::tools {
namespace {

constexpr char kStandardOutput[] = "-";

bool IsToken(const pjrt::ProgramArray& array) { return array.type.dtype == DType::kToken; }

// Calls ParseBinding, and names the option in errors.
Result<pjrt::LoadedHostCallback> Bind(const std::string& text) {
  auto callback = pjrt::ParseBinding(text);
  if (callback.ok()) return callback;
  std::string_view reason = callback.status().message();
  constexpr std::string_view kPrefix = "callout: ";
  if (reason.starts_with(kPrefix)) reason.remove_prefix(kPrefix.size());
  return callback.status().WithMessage(std::string(kPrefix) + "--bind " + std::string(reason));
}

class Runner {
 public:
  explicit Runner(const RunOptions& options)
      : options_(options), output_(options.json || options.output == kStandardOutput) {}

  // Loads the plugin and the program, compiles it, and reads the arguments. An error means that the inputs are
  // unusable.
  Status Prepare() {
    if (options_.json && options_.output == kStandardOutput) {
      return InvalidArgument("callout: --json and --output - are both for standard output");
    }
    if (!options_.trace.empty()) CALLOUT_RETURN_IF_ERROR(pjrt::StartTrace());
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Program program, pjrt::Program::FromFile(options_.program));
    CALLOUT_ASSIGN_OR_RETURN(const int devices, DevicesOf(program, options_.device_count));
    {
      const pjrt::TracePhase phase("load the plugin");
      progress_.Begin("loading the plugin");
      CALLOUT_ASSIGN_OR_RETURN(client_, OpenClient(options_.plugin, devices));
    }
    CALLOUT_RETURN_IF_ERROR(BindAll());
    const std::vector<pjrt::Program> others = std::exchange(program.others, {});
    CALLOUT_RETURN_IF_ERROR(Compile(program, devices));
    ArraySource source;
    Result<std::vector<Array>> arguments = ReadArgumentsOfProgram(source);
    if (!others.empty() && !arguments.ok()) {
      CALLOUT_ASSIGN_OR_RETURN(arguments, ChooseShapes(program, others, devices, std::move(arguments).status()));
    }
    if (!arguments.ok()) return std::move(arguments).status();
    WarnOfUnused();
    CALLOUT_RETURN_IF_ERROR(ReadExpected(source));
    return Transfer(*arguments);
  }

  Status Execute() {
    const auto calls = [] {
      uint64_t total = 0;
      for (const pjrt::CallbackStatistics& one : pjrt::ReadStatistics()) total += one.calls;
      return internal::Cat(total, " callbacks");
    };
    const int64_t runs = std::max(options_.repeat, options_.concurrency);
    workload_.emplace(*executable_, buffers_);
    progress_.Begin("running", [&, this] {
      const bool tells = runs > 1 || options_.min_seconds > 0;
      return (tells ? internal::Cat(workload_->done(), " of ", runs, ", ") : "") + calls();
    });
    Status status = OkStatus();
    if (options_.warm_up > 0)
      status = workload_->Run({.runs = options_.warm_up, .threads = std::min(options_.concurrency, options_.warm_up)});
    if (status.ok()) {
      status = workload_->Run({.runs = runs, .min_seconds = options_.min_seconds, .threads = options_.concurrency});
    }
    progress_.Begin("waiting for taps", calls);
    const pjrt::TracePhase phase("wait for taps");
    Status taps = pjrt::BarrierWait();
    progress_.End();
    return status.ok() ? std::move(taps) : std::move(status);
  }

  // Writes all output after the runs.
  Status Report(bool succeeded) {
    std::fflush(stdout);
    const Times times = workload_->ReadTimes();
    if (succeeded) {
      CALLOUT_ASSIGN_OR_RETURN(results_, ReadResults(workload_->outputs().front()));
      CALLOUT_RETURN_IF_ERROR(CompareResults());
      CALLOUT_RETURN_IF_ERROR(WriteResults());
    }
    if (options_.json) {
      output_.Release();
      if (succeeded) {
        PrintJson({.results = results_,
                   .cache = options_.cache.empty() ? nullptr : CacheWord(),
                   .times = times,
                   .comparisons = options_.expected.empty() ? nullptr : &comparisons_,
                   .as_expected = as_expected_});
      }
    } else {
      if (options_.stats) PrintStatistics();
      if (options_.stats || (times.nanoseconds.size() > 1 && succeeded)) PrintTimes(times);
    }
    if (!options_.metrics.empty()) CALLOUT_RETURN_IF_ERROR(WriteMetrics(options_.metrics));
    return options_.trace.empty() ? OkStatus() : WriteTrace(options_.trace);
  }

  // Returns whether Report found the expected results; true if none were given.
  bool as_expected() const { return as_expected_; }

 private:
  Status BindAll() {
    for (const std::string& text : options_.bindings) {
      CALLOUT_ASSIGN_OR_RETURN(pjrt::LoadedHostCallback callback, Bind(text));
      callbacks_.push_back(std::move(callback));
    }
    return OkStatus();
  }

  // Reads the arguments of the program that was compiled last.
  Result<std::vector<Array>> ReadArgumentsOfProgram(ArraySource& source) {
    CALLOUT_ASSIGN_OR_RETURN(signature_, executable_->ReadSignature());
    std::vector<pjrt::ArrayType> inputs;
    for (const pjrt::ProgramArray& input : signature_.inputs) {
      if (!IsToken(input)) inputs.push_back(input.WholeType());
    }
    return ReadArguments(options_.arguments, inputs, source);
  }

  // Compiles the first of `others` that takes the arguments. `error` is the reason why `first` does not.
  Result<std::vector<Array>> ChooseShapes(const pjrt::Program& first, const std::vector<pjrt::Program>& others,
                                          int devices, const Status& error) {
    for (const std::string& text : options_.arguments) {
      if (!text.starts_with(kStandardOutput)) continue;
      return InvalidArgument("callout: a program for several shapes cannot choose one by standard input: " +
                             std::string(error.message()));
    }
    std::string reasons = first.shapes + ": " + std::string(error.message());
    for (const pjrt::Program& other : others) {
      CALLOUT_RETURN_IF_ERROR(Compile(other, devices));
      ArraySource source;
      Result<std::vector<Array>> arguments = ReadArgumentsOfProgram(source);
      if (arguments.ok()) return arguments;
      reasons += "; " + other.shapes + ": " + std::string(arguments.status().message());
    }
    return InvalidArgument("callout: the arguments fit none of the program's shapes: " + reasons);
  }

  Status Compile(const pjrt::Program& program, int devices) {
    const pjrt::TracePhase phase("compile");
    progress_.Begin("compiling '" + options_.program + "'");
    pjrt::CompileOptions compile;
    compile.num_partitions = devices;
    compile.cache_directory = options_.cache;
    if (options_.refuses_embedded_code) compile.embedded_code = false;
    compile.loaded_host_callbacks = callbacks_;
    auto executable = pjrt::Compiler(client_).Compile(program, compile);
    progress_.End();
    if (!executable.ok()) return std::move(executable).status();
    executable_ = std::make_unique<pjrt::LoadedExecutable>(std::move(executable).value());
    return OkStatus();
  }

  void WarnOfUnused() const {
    const std::vector<std::string>& asked = executable_->callback_names();
    for (const pjrt::LoadedHostCallback& callback : callbacks_) {
      if (std::find(asked.begin(), asked.end(), callback.name()) != asked.end()) continue;
      std::string names;
      for (const std::string& name : asked) names += " '" + name + "'";
      std::fprintf(stderr, "callout: warning: the program does not ask for '%s'; it asks for:%s\n",
                   callback.name().c_str(), names.empty() ? " nothing" : names.c_str());
    }
  }

  Status Transfer(const std::vector<Array>& arguments) {
    const pjrt::TracePhase phase("copy arguments");
    const size_t devices = executable_->num_devices();
    buffers_.resize(devices);
    for (size_t device = 0; device < devices; ++device) {
      auto argument = arguments.begin();
      for (const pjrt::ProgramArray& input : signature_.inputs) {
        // An array without elements stands for a token.
        const Array shard = IsToken(input) ? MakeArray({DType::kBool, {0}}) : ShardOf(*argument++, input, device);
        CALLOUT_ASSIGN_OR_RETURN(pjrt::Buffer buffer,
                                 pjrt::Buffer::FromHost(client_, client_->devices()[device], shard.type.dtype,
                                                        shard.type.dims, shard.bytes.data()));
        buffers_[device].push_back(std::move(buffer));
      }
    }
    return OkStatus();
  }

  const char* CacheWord() const { return executable_->is_from_cache() ? "hit" : "miss"; }

  // Returns the numbers of the results that are arrays. Tokens only mark completion.
  std::vector<size_t> Results() const {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < signature_.outputs.size(); ++i) {
      if (!IsToken(signature_.outputs[i])) numbers.push_back(i);
    }
    return numbers;
  }

  Status ReadExpected(ArraySource& source) {
    std::vector<pjrt::ArrayType> types;
    for (const size_t i : Results()) types.push_back(signature_.outputs[i].WholeType());
    for (const std::string& text : options_.expected) {
      const size_t first = std::min(expected_.size(), types.size());
      CALLOUT_RETURN_IF_ERROR(source.Append(text, std::span(types).subspan(first), expected_));
      expected_sources_.resize(expected_.size(), text);
    }
    return OkStatus();
  }

  Result<NamedArrays> ReadResults(const Buffers& outputs) const {
    NamedArrays results;
    for (const size_t i : Results()) {
      std::vector<Array> shards;
      for (const std::vector<pjrt::Buffer>& on_device : outputs) {
        CALLOUT_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, on_device[i].ToHost());
        shards.push_back({signature_.outputs[i].type, std::move(bytes)});
      }
      results.emplace_back(internal::Cat("arr_", results.size()), Assemble(shards, signature_.outputs[i]));
    }
    return results;
  }

  // Compares the results of all threads, and reports the first thread whose results differ.
  Status CompareResults() {
    if (options_.expected.empty()) return OkStatus();
    for (size_t thread = 0; thread < workload_->outputs().size() && as_expected_; ++thread) {
      NamedArrays others;
      if (thread > 0) {
        CALLOUT_ASSIGN_OR_RETURN(others, ReadResults(workload_->outputs()[thread]));
      }
      Compare(thread > 0 ? others : results_);
    }
    return OkStatus();
  }

  void Compare(const NamedArrays& results) {
    comparisons_.clear();
    as_expected_ = results.size() == expected_.size();
    if (!as_expected_) {
      std::fprintf(stderr, "callout: the program returns %zu results, expected %zu\n", results.size(),
                   expected_.size());
    }
    for (size_t i = 0; i < std::min(results.size(), expected_.size()); ++i) {
      comparisons_.push_back(
          tools::Compare(expected_[i], results[i].second, options_.tolerances, expected_sources_[i]));
      if (comparisons_.back().equal) continue;
      as_expected_ = false;
      std::fprintf(stderr, "callout: %s\n", ToText(i, comparisons_.back()).c_str());
    }
  }

  Status WriteResults() {
    if (!options_.json && options_.output != kStandardOutput) PrintResults(results_);
    if (options_.output.empty()) return OkStatus();
    if (options_.output != kStandardOutput) return WriteNpz(options_.output, results_);
    // Archives need random access.
    CALLOUT_ASSIGN_OR_RETURN(const TemporaryFile file, TemporaryFile::Make());
    CALLOUT_RETURN_IF_ERROR(WriteNpz(file.path(), results_));
    CALLOUT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file.path(), "the results"));
    return output_.Write(bytes);
  }

  const RunOptions& options_;
  ReservedOutput output_;
  Progress progress_;
  std::shared_ptr<const pjrt::Client> client_;
  std::vector<pjrt::LoadedHostCallback> callbacks_;
  std::unique_ptr<pjrt::LoadedExecutable> executable_;
  pjrt::Signature signature_;
  Buffers buffers_;
  std::optional<Workload> workload_;
  std::vector<Array> expected_;
  std::vector<std::string> expected_sources_;  // One for each expected array.
  NamedArrays results_;
  std::vector<Comparison> comparisons_;  // The first thread's that differs, or else the last thread's.
  bool as_expected_ = true;
};

}  // namespace

int Run(const RunOptions& options) {
  Runner runner(options);
  if (const Status status = runner.Prepare(); !status.ok()) return Refuse(status);
  const Status status = runner.Execute();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.c_message());
  const Status reported = runner.Report(status.ok());
  if (!reported.ok()) std::fprintf(stderr, "%s\n", reported.c_message());
  return status.ok() && reported.ok() && runner.as_expected() ? kSuccess : kFailed;
}

}  // namespace callout::tools
