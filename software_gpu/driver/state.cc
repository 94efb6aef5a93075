// SPDX-License-Identifier: Apache-2.0
#include "driver/state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <sstream>

#include "driver/captures.h"
#include "driver/control.h"
#include "driver/defaults.h"

namespace callout::software_gpu {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Returns the devices that CUDA_VISIBLE_DEVICES lists, in its order (CUDA Programming Guide, CUDA Environment
// Variables). An invalid number ends the list. Names of devices (GPU-...) are not known here.
std::vector<int> VisibleDevices() {
  const std::string text = Variable("CALLOUT_SOFTWARE_GPU_DEVICES");
  const int count = text.empty() ? 1 : std::atoi(text.c_str());
  std::vector<int> visible(static_cast<size_t>(std::max(count, 0)));
  std::iota(visible.begin(), visible.end(), 0);
  if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) return visible;
  visible.clear();
  for (const std::string& part : Split(Variable("CUDA_VISIBLE_DEVICES"), ',')) {
    char* end = nullptr;
    const long number = std::strtol(part.c_str(), &end, 10);
    if (end == part.c_str() || number < 0 || number >= count) break;
    visible.push_back(static_cast<int>(number));
  }
  return visible;
}

State* ReadEnvironment() {
  auto* const state = new State;
  const std::string version = Variable("CALLOUT_SOFTWARE_GPU_VERSION");
  if (!version.empty()) state->version = std::atoi(version.c_str());
  SetDevices(*state, VisibleDevices());
  for (const std::string& name : Split(Variable("CALLOUT_SOFTWARE_GPU_HIDE"), ',')) state->hidden.insert(name);
  for (const std::string& failure : Split(Variable("CALLOUT_SOFTWARE_GPU_FAIL"), ',')) {
    const std::vector<std::string> parts = Split(failure, ':');
    if (parts.size() == 3)
      AddFailure(*state, parts[0], std::atoi(parts[1].c_str()), static_cast<CUresult>(std::atoi(parts[2].c_str())));
  }
  state->reaches_host_memory = Variable("CALLOUT_SOFTWARE_GPU_HOST_MEMORY") == "1";
  const std::string delays = Variable("CALLOUT_SOFTWARE_GPU_DELAYS");
  if (!delays.empty()) state->seeds.emplace(std::strtoull(delays.c_str(), nullptr, 10));
  state->lazy = Variable("CUDA_MODULE_LOADING") != "EAGER";
  state->log_path = Variable("CALLOUT_SOFTWARE_GPU_LOG");
  return state;
}

thread_local bool per_thread_streams = false;

void WriteLog(const std::string& path, const std::string& line) {
  std::FILE* file = std::fopen(path.c_str(), "a");
  if (file == nullptr) return;
  std::fputs(line.c_str(), file);
  std::fclose(file);
}

}  // namespace

State& TheState() {
  static State* const state = ReadEnvironment();
  return *state;
}

std::vector<CUcontext>& ContextStack() {
  thread_local std::vector<CUcontext> stack;
  return stack;
}

bool& InHostFunction() {
  thread_local bool inside = false;
  return inside;
}

CUstreamCaptureMode& ThreadCaptureMode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

int NotSupported(const char* symbol) {
  const Call call(symbol, kAlways, "not supported");
  return CUDA_ERROR_NOT_SUPPORTED;
}

PerThreadStreams::PerThreadStreams() : before_(std::exchange(per_thread_streams, true)) {}
PerThreadStreams::~PerThreadStreams() { per_thread_streams = before_; }
bool PerThreadStreams::Active() { return per_thread_streams; }

CUresult State::Refuse(const std::string& what) {
  const std::string line = "refused: " + what + "\n";
  log += line;
  if (!log_path.empty()) WriteLog(log_path, line);
  return CUDA_ERROR_NOT_SUPPORTED;
}

std::optional<uint64_t> State::NextSeed() {
  return seeds.has_value() ? std::optional<uint64_t>((*seeds)()) : std::nullopt;
}

bool IsContext(const State& state, CUcontext context) {
  return std::any_of(state.contexts.begin(), state.contexts.end(),
                     [&](const auto& own) { return own.get() == context && own->retained > 0; });
}

bool SetCondition(State& state, CUcontext context, CUgraphConditionalHandle handle, uint32_t value) {
  const std::lock_guard lock(state.mutex);
  const auto found = state.conditions.find(handle);
  const std::shared_ptr<Condition> condition = found != state.conditions.end() ? found->second.lock() : nullptr;
  if (condition == nullptr || condition->context != context) return false;
  condition->value = value;
  return true;
}

bool Stays(CUresult result) {
  return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_TIMEOUT || result == CUDA_ERROR_ASSERT ||
         (result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED);
}

CUresult RefuseInCapture(State& state) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : state.captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool is_global =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && (own || ThreadCaptureMode() == CU_STREAM_CAPTURE_MODE_GLOBAL);
    if (ThreadCaptureMode() != CU_STREAM_CAPTURE_MODE_RELAXED &&
        (is_global || (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && own))) {
      capture->invalidated = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return result;
}

Call::Call(const char* function, unsigned needs, const std::string& arguments)
    : state_(TheState()), lock_(state_.mutex) {
  const std::string line = function + (arguments.empty() ? "" : "(" + arguments + ")") + "\n";
  state_.log += line;
  state_.thread_logs[std::this_thread::get_id()] += line;
  if (!state_.log_path.empty()) WriteLog(state_.log_path, line);
  if (!ContextStack().empty()) context_ = ContextStack().back();
  result_ = Scripted(function);
  if (Stays(result_) && context_ != nullptr) context_->fault = result_;
  if (result_ == CUDA_SUCCESS) result_ = Refusal(needs);
}

CUresult Call::Scripted(const char* function) {
  const int call = ++state_.calls[function];
  const auto [first, last] = state_.failures.equal_range(function);
  for (auto failure = first; failure != last; ++failure) {
    if (failure->second.first != call) continue;
    const CUresult result = failure->second.second;
    state_.failures.erase(failure);
    return result;
  }
  return CUDA_SUCCESS;
}

CUresult Call::Refusal(unsigned needs) {
  if (needs == kAlways) return CUDA_SUCCESS;
  if (InHostFunction()) return CUDA_ERROR_NOT_PERMITTED;
  if (!state_.initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if ((needs & kContext) == kContext) {
    if (context_ == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (context_->retained == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const CUresult fault = context_->fault; fault != CUDA_SUCCESS) return fault;
  }
  return (needs & kNotInCapture) != 0 ? RefuseInCapture(state_) : CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
