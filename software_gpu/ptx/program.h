// SPDX-License-Identifier: Apache-2.0
//
// Reads the text of a PTX module and launches its kernels. Knows nothing of CUDA's driver, which provides memory and a
// clock through Machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace callout::software_gpu::ptx {

struct Parameter {
  std::string name;
  uint32_t offset = 0;
  uint32_t bytes = 0;
  uint32_t alignment = 1;
};

struct Kernel {
  std::string name;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t shared_bytes = 0;       ///< Static: its own variables and those of the module that it uses.
  uint32_t shared_alignment = 16;  ///< The alignment of dynamic shared memory, which lies behind the static part.
  uint32_t local_bytes = 0;        ///< For each thread.
  uint32_t registers = 0;          ///< The declared number; hardware would use fewer.
  uint32_t max_threads = 1024;
  std::array<uint32_t, 3> required_block = {};  ///< .reqntid; zero: any.
  uint32_t function = 0;                        ///< For Launch.
};

/// Bytes at `offset` of a variable that hold the address of another variable.
struct Relocation {
  uint64_t offset = 0;
  uint32_t bytes = 8;
  std::string variable;
  uint64_t addend = 0;
};

/// A variable of .global or .const at the module's scope.
struct Global {
  std::string name;
  uint64_t bytes = 0;
  uint64_t alignment = 1;
  bool constant = false;           ///< .const
  bool external = false;           ///< .extern: another module defines it.
  bool visible = false;            ///< .visible or .common or .weak: cuModuleGetGlobal finds it.
  std::vector<std::byte> initial;  ///< May be shorter than `bytes`: the rest is zero.
  std::vector<Relocation> relocations;
};

/// Memory that a kernel may access: addresses [begin, end) lie at `host` in this process.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::byte* host = nullptr;
  bool writable = true;
};

/// The device's services for a launch. **Thread-safe.**
class Machine {
 public:
  virtual ~Machine() = default;
  /// Returns the memory that holds `address`; a range without bytes if there is none. A launch may keep it until it
  /// ends.
  virtual Range Find(uint64_t address) = 0;
  /// Performs cudaGraphSetConditional. Returns false if there is no such handle.
  virtual bool SetConditional(uint64_t handle, uint32_t value) = 0;
  /// Receives the output of a kernel's printf, or the text of a failed assert.
  virtual void Print(std::string_view text) = 0;
  /// Returns the time for %globaltimer and %clock.
  virtual uint64_t Nanoseconds() = 0;
  /// Called now and then by kernels that run long. True ends the launch with Fault::kStopped.
  virtual bool Stopped() { return false; }
};

struct Shape {
  std::array<uint32_t, 3> grid = {1, 1, 1};
  std::array<uint32_t, 3> block = {1, 1, 1};
  uint32_t dynamic_shared = 0;
  bool cooperative = false;  ///< True if all blocks are resident, and may wait for each other with grid.sync().
};

/// How a launch ended.
struct Fault {
  enum Kind {
    kNone,
    kIllegalAddress,
    kMisalignedAddress,
    kInvalidAddressSpace,
    kInvalidPc,
    kIllegalInstruction,
    kTrap,           ///< `trap`, and `brkpt` without a debugger: CUDA_ERROR_LAUNCH_FAILED.
    kAssert,         ///< __assertfail: CUDA_ERROR_ASSERT.
    kStackOverflow,  ///< Calls nested too deep.
    kDeadlock,       ///< Every thread waits for another one; hardware would hang.
    kInvalidLaunch,  ///< The kernel does not take this shape or these parameters, and nothing ran.
    kStopped,        ///< Machine::Stopped().
  };
  Kind kind = kNone;
  std::string text;  ///< Names the kernel, the block and thread, the instruction and the address.
};

struct Code;

/// A module that was read. Immutable but for Place(); launches of it may run concurrently.
class Program {
 public:
  /// Returns null if the text has anything that this GPU does not know. `error` then names the line and the
  /// instruction.
  static std::unique_ptr<Program> Read(std::string_view text, std::string& error);
  ~Program();

  const std::vector<Kernel>& kernels() const { return kernels_; }
  const std::vector<Global>& globals() const { return globals_; }
  const Kernel* FindKernel(std::string_view name) const;
  const Global* FindGlobal(std::string_view name) const;

  /// Sets the address of a variable. Requires a call for each variable that is used, before the first launch. The
  /// caller writes the initial bytes and the relocations.
  void Place(std::string_view global, uint64_t address);

  /// Runs the kernel in the calling thread. `parameters` has Kernel::parameter_bytes bytes. **Blocks until** the grid
  /// ended.
  Fault Launch(const Kernel& kernel, const Shape& shape, std::span<const std::byte> parameters, Machine& machine) const;

 private:
  Program();

  std::vector<Kernel> kernels_;
  std::vector<Global> globals_;
  std::unique_ptr<Code> code_;
};

}  // namespace callout::software_gpu::ptx
