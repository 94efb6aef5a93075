// SPDX-License-Identifier: Apache-2.0
//
// A module in the form that the interpreter runs: the instructions of all functions in one array, with the places of
// their operands and their handlers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ptx/operation.h"
#include "ptx/program.h"
#include "ptx/types.h"

namespace callout::software_gpu::ptx {

class Warp;
struct Instruction;

/// Runs the instruction for the lanes whose bits are set in `lanes`, of which there is at least one.
using Handler = void (*)(Warp& warp, const Instruction& instruction, uint32_t lanes);

/// The place of a value: a register of the current frame or, if negative, the constant at `-1 - slot`.
using Slot = int32_t;
inline constexpr Slot kNoSlot = INT32_MIN;

/// The state space of an address. Parameters of kernels and parameters of calls are separate.
enum class Place : uint8_t { kGeneric, kGlobal, kShared, kLocal, kKernelParameter };

enum class AtomicKind : uint8_t { kCompute, kExchange, kCompareAndSwap, kIncrement, kDecrement };

/// Operations of several lanes of a warp.
enum class Collective : uint8_t {
  kWarpBarrier,
  kShuffle,
  kVoteAll,
  kVoteAny,
  kVoteUniform,
  kBallot,
  kMatchAny,
  kMatchAll,
  kReduce,
  kElect,
};

enum class BarrierKind : uint8_t { kSync, kArrive, kPopc, kAnd, kOr };
enum class Shuffle : uint8_t { kUp, kDown, kButterfly, kIndex };

struct Instruction {
  Handler run = nullptr;
  Slot to = kNoSlot;
  Slot second = kNoSlot;  ///< The destination after `|`.
  std::array<Slot, 4> in = {kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  Slot guard = kNoSlot;
  bool guard_negated = false;
  bool uniform = false;  ///< True if neither its guard nor its handler changes which lanes run.
  uint8_t bytes = 0;     ///< The size of one element in memory.
  uint8_t count = 1;     ///< The number of elements: .v2, .v4, .v8.
  uint8_t kind = 0;      ///< AtomicKind, Collective, BarrierKind, or what the handler defines.
  uint8_t mode = 0;      ///< A shuffle's mode, or what the handler defines.
  uint8_t extend = 0;    ///< The number of bits from which the sign is extended; 0: none.
  uint8_t register_bits = 64;
  uint32_t target = 0;  ///< A branch's target, or an index into one of Code's tables.
  int64_t offset = 0;   ///< Added to the address.
  int64_t second_offset = 0;
  bool narrow = false;  ///< True if the address is computed in 32 bits.
  int32_t line = 0;
  Operation operation;
};

/// Copies an argument to a parameter, or a result back.
struct Passed {
  bool in_registers = false;
  Slot from = 0;  ///< A register.
  Slot to = 0;
  uint32_t from_offset = 0;  ///< An offset in the frame's local memory.
  uint32_t to_offset = 0;
  uint32_t bytes = 0;
};

enum class Builtin : uint8_t { kNone, kPrintf, kAssertFail, kSetConditional };

struct Call {
  int32_t routine = -1;  ///< Negative for an indirect call by `address`, or a builtin.
  Slot address = kNoSlot;
  Builtin builtin = Builtin::kNone;
  std::vector<Passed> arguments;
  std::vector<Passed> results;
  std::vector<int32_t> resolved;  ///< For an indirect call: the direct call for each routine, or -1.
};

struct Formal {
  bool in_register = false;
  Slot slot = 0;
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

/// A function or a kernel.
struct Routine {
  std::string name;
  bool entry = false;
  bool defined = false;
  uint32_t begin = 0;      ///< Its first instruction.
  uint32_t registers = 0;  ///< The number of places in a frame.
  uint32_t local_bytes = 0;
  std::vector<Formal> parameters;
  std::vector<Formal> returns;
};

/// A constant that is the address of a variable, which Program::Place sets.
struct GlobalUse {
  uint32_t constant = 0;
  std::string variable;
  uint64_t addend = 0;
};

struct Code {
  std::vector<Instruction> instructions;
  std::vector<uint64_t> constants;  ///< Each 32 times, for the lanes.
  std::vector<Routine> routines;
  std::vector<Call> calls;
  std::vector<std::vector<Slot>> lists;         ///< The elements of vectors.
  std::vector<std::vector<uint32_t>> branches;  ///< The targets of brx.idx.
  std::vector<GlobalUse> uses;
  std::vector<std::string> spellings;  ///< The spelling of each instruction, for errors.
};

constexpr uint64_t RoundUp(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

inline constexpr uint64_t kMaxSharedBytes = 256 << 10;  // of a block
inline constexpr uint64_t kMaxLocalBytes = 512 << 10;   // of a thread, as on hardware

/// Windows of addresses above 47 bits, which no program of the host has.
inline constexpr int kWindowShift = 48;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << kWindowShift;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << kWindowShift;
inline constexpr uint64_t kParameterWindow = uint64_t{3} << kWindowShift;
/// The memory through which blocks of a cooperative launch meet.
inline constexpr uint64_t kGridWindow = uint64_t{4} << kWindowShift;
inline constexpr uint64_t kCodeWindow = uint64_t{5} << kWindowShift;
inline constexpr uint64_t kGridBytes = 64;

}  // namespace callout::software_gpu::ptx
