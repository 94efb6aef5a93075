// SPDX-License-Identifier: Apache-2.0
//
// Fixture for tests: runs a kernel whose instructions are placed between a prelude and an end.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ptx/program.h"

namespace callout::software_gpu::ptx {

/// Has 4 KiB at kBuffer and 64 read-only bytes at kConstants.
class TestMachine : public Machine {
 public:
  static constexpr uint64_t kBuffer = 0x7f0000001000;
  static constexpr uint64_t kConstants = 0x7f0000100000;

  Range Find(uint64_t address) override {
    if (address >= kBuffer && address < kBuffer + sizeof buffer) {
      return {kBuffer, kBuffer + sizeof buffer, reinterpret_cast<std::byte*>(buffer), true};
    }
    if (address >= kConstants && address < kConstants + sizeof constants) {
      return {kConstants, kConstants + sizeof constants, reinterpret_cast<std::byte*>(constants), false};
    }
    return {};
  }
  bool SetConditional(uint64_t handle, uint32_t value) override {
    if (handle == 0) return false;
    conditionals[handle] = value;
    return true;
  }
  void Print(std::string_view text) override { printed += text; }
  uint64_t Nanoseconds() override { return ++now; }
  bool Stopped() override { return stopped; }

  alignas(64) uint32_t buffer[1024] = {};
  alignas(64) uint32_t constants[16] = {};
  std::map<uint64_t, uint32_t> conditionals;
  std::string printed;
  std::atomic<uint64_t> now{0};
  std::atomic<bool> stopped{false};
};

inline const std::string kHead = ".version 8.6\n.target sm_90\n.address_size 64\n";

class KernelTest : public testing::Test {
 protected:
  /// Returns a module with the kernel `k(out)`. `body` gets its thread in %r0 and the buffer's address in %rd0; the
  /// value that it leaves in %r1 is stored in the buffer at the thread's index. The text `module` comes before the
  /// kernel.
  static std::string Module(const std::string& body, const std::string& module = "") {
    return kHead + module + R"(
.visible .entry k(.param .u64 out) {
.reg .pred %p<9>;
.reg .b16 %h<9>;
.reg .b32 %r<40>;
.reg .f32 %f<9>;
.reg .b64 %rd<20>;
.reg .f64 %d<9>;
mov.u32 %r0, %tid.x;
ld.param.u64 %rd0, [out];
mad.wide.u32 %rd1, %r0, 4, %rd0;
)" + body + R"(
st.global.u32 [%rd1], %r1;
ret;
})";
  }

  /// Reads and runs `text`, whose kernel `k` takes the buffer.
  Fault RunText(const std::string& text, Shape shape) {
    std::string error;
    program = Program::Read(text, error);
    EXPECT_NE(program, nullptr) << error;
    if (program == nullptr) return {Fault::kInvalidLaunch, error};
    uint64_t address = TestMachine::kConstants;
    for (const Global& global : program->globals()) {
      std::memcpy(machine.constants, global.initial.data(), global.initial.size());
      program->Place(global.name, address);
    }
    const uint64_t out = TestMachine::kBuffer;
    return program->Launch(*program->FindKernel("k"), shape, std::as_bytes(std::span(&out, 1)), machine);
  }

  /// Returns the value that each of `threads` of one block leaves in %r1.
  std::vector<uint32_t> Run(const std::string& body, uint32_t threads = 1, const std::string& module = "") {
    Shape shape;
    shape.block[0] = threads;
    const Fault fault = RunText(Module(body, module), shape);
    EXPECT_EQ(fault.kind, Fault::kNone) << fault.text;
    return {machine.buffer, machine.buffer + threads};
  }

  Fault RunFault(const std::string& body, uint32_t threads = 1, const std::string& module = "") {
    Shape shape;
    shape.block[0] = threads;
    return RunText(Module(body, module), shape);
  }

  static std::string ReadFails(const std::string& text) {
    std::string error;
    EXPECT_EQ(Program::Read(text, error), nullptr) << text;
    return error;
  }

  TestMachine machine;
  std::unique_ptr<Program> program;
};

}  // namespace callout::software_gpu::ptx
