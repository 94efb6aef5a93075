// SPDX-License-Identifier: Apache-2.0
#include "driver/programs.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "driver/state.h"

namespace callout::software_gpu {
namespace {

class DeviceMachine : public ptx::Machine {
 public:
  explicit DeviceMachine(CUcontext context) : context_(context) {}

  ptx::Range Find(uint64_t address) override {
    State& state = TheState();
    const MemoryRange range = state.memory.RangeAt(address);
    if (range.host == nullptr || !MayAccess(range)) return {};
    const bool writable = range.WritableBy(context_->device);
    return {range.begin, range.begin + range.bytes, reinterpret_cast<std::byte*>(range.host), writable};
  }

  bool SetConditional(uint64_t handle, uint32_t value) override {
    return SetCondition(TheState(), context_, handle, value);
  }

  void Print(std::string_view text) override {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  uint64_t Nanoseconds() override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }

  bool Stopped() override { return context_->fault != CUDA_SUCCESS; }

 private:
  // True if the context may access the memory: another device's needs cuCtxEnablePeerAccess, and mapped memory needs
  // cuMemSetAccess.
  bool MayAccess(const MemoryRange& range) const {
    if (range.kind != MemoryKind::kDevice || range.context == context_) return range.ReadableBy(context_->device);
    return context_->HasPeer(range.context);
  }

  CUcontext context_;
};

CUresult ErrorOf(ptx::Fault::Kind kind) {
  switch (kind) {
    case ptx::Fault::kNone:
      return CUDA_SUCCESS;
    case ptx::Fault::kIllegalAddress:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ptx::Fault::kMisalignedAddress:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ptx::Fault::kInvalidAddressSpace:
      return CUDA_ERROR_INVALID_ADDRESS_SPACE;
    case ptx::Fault::kInvalidPc:
      return CUDA_ERROR_INVALID_PC;
    case ptx::Fault::kIllegalInstruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case ptx::Fault::kAssert:
      return CUDA_ERROR_ASSERT;
    case ptx::Fault::kStackOverflow:
      return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case ptx::Fault::kDeadlock:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

// Writes the initial bytes of the variables. Addresses of other variables are written when all variables have one.
CUresult WriteInitial(State& state, const LoadedProgram& loaded) {
  for (const ptx::Global& global : loaded.program->globals()) {
    if (global.external) continue;
    char* const memory = state.memory.Find(loaded.variables.at(global.name), global.bytes).memory;
    std::memset(memory, 0, global.bytes);
    std::copy_n(global.initial.data(), std::min<size_t>(global.initial.size(), global.bytes),
                reinterpret_cast<std::byte*>(memory));
    for (const ptx::Relocation& relocation : global.relocations) {
      const auto target = loaded.variables.find(relocation.variable);
      if (target == loaded.variables.end()) return CUDA_ERROR_INVALID_PTX;
      const uint64_t address = target->second + relocation.addend;
      std::memcpy(memory + relocation.offset, &address, relocation.bytes);
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

void WriteErrorLog(std::string_view problem, unsigned int count, const CUjit_option* options, void** values) {
  char* buffer = nullptr;
  void** size = nullptr;
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) size = &values[i];
  }
  const size_t bytes = size != nullptr ? reinterpret_cast<uintptr_t>(*size) : 0;
  if (buffer == nullptr || bytes == 0) return;
  const size_t written = std::min(problem.size(), bytes - 1);
  std::memcpy(buffer, problem.data(), written);
  buffer[written] = '\0';
  *size = reinterpret_cast<void*>(uintptr_t{written});
}

CUresult LoadProgram(State& state, CUcontext context, const std::string& text, std::shared_ptr<LoadedProgram>* loaded,
                     std::string* problem) {
  auto made = std::make_shared<LoadedProgram>();
  made->program = ptx::Program::Read(text, *problem);
  if (made->program == nullptr) {
    std::fprintf(stderr, "software GPU: PTX was refused: %s\n", problem->c_str());
    return CUDA_ERROR_INVALID_PTX;
  }
  for (const ptx::Global& global : made->program->globals()) {
    if (global.external) {
      *problem = "the variable " + global.name + " is of another module";
      std::fprintf(stderr, "software GPU: PTX was refused: %s\n", problem->c_str());
      return CUDA_ERROR_INVALID_PTX;
    }
    const CUdeviceptr address = state.memory.Allocate(context, std::max<size_t>(global.bytes, 1), /*counted=*/false);
    if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    made->variables[global.name] = address;
    made->program->Place(global.name, address);
  }
  if (const CUresult wrong = WriteInitial(state, *made); wrong != CUDA_SUCCESS) return wrong;
  *loaded = std::move(made);
  return CUDA_SUCCESS;
}

CUresult RunProgram(const LoadedProgram& loaded, const ptx::Kernel& kernel, const ptx::Shape& shape,
                    std::span<const std::byte> parameters, CUcontext context) {
  DeviceMachine machine(context);
  const ptx::Fault fault = loaded.program->Launch(kernel, shape, parameters, machine);
  if (fault.kind == ptx::Fault::kStopped) return context->fault;
  if (fault.kind != ptx::Fault::kNone) std::fprintf(stderr, "software GPU: %s\n", fault.text.c_str());
  return ErrorOf(fault.kind);
}

}  // namespace callout::software_gpu
