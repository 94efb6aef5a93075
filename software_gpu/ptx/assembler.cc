// SPDX-License-Identifier: Apache-2.0
//
// Assembles a module as a whole: its variables, kernels and functions, and everything that is only known when all of
// them are read.
#include "ptx/assembler.h"

#include <algorithm>

namespace callout::software_gpu::ptx {
namespace {

constexpr uint64_t kMaxParameters = 32764;  // PTX ISA 8.1: the limit for kernels since sm_70

Kernel KernelOf(const FunctionText& function, uint32_t index) {
  Kernel kernel;
  kernel.name = function.name;
  kernel.max_threads = std::min(function.max_threads, uint32_t{1024});
  kernel.required_block = function.required_block;
  kernel.function = index;
  uint64_t at = 0;
  for (const Variable& parameter : function.parameters) {
    if (parameter.space != Space::kParameter) throw ReadError(parameter.line, "a kernel's parameter in a register");
    at = RoundUp(at, parameter.alignment);
    if (at + parameter.bytes > kMaxParameters) throw ReadError(parameter.line, "too many bytes of parameters");
    kernel.parameters.push_back({parameter.name, static_cast<uint32_t>(at), static_cast<uint32_t>(parameter.bytes),
                                 static_cast<uint32_t>(parameter.alignment)});
    at += parameter.bytes;
  }
  kernel.parameter_bytes = static_cast<uint32_t>(at);
  return kernel;
}

}  // namespace

ModuleAssembler::ModuleAssembler(const ModuleText& text, Code& code, std::vector<Kernel>& kernels,
                                 std::vector<Global>& globals)
    : text_(text), code_(code), kernels_(kernels), globals_(globals) {}

Slot ModuleAssembler::Constant(uint64_t value) {
  auto [found, fresh] = constants_.try_emplace(value, 0);
  if (fresh) found->second = OwnConstant(value);
  return found->second;
}

Slot ModuleAssembler::OwnConstant(uint64_t value) {
  const size_t index = code_.constants.size() / kWarpLanes;
  code_.constants.insert(code_.constants.end(), kWarpLanes, value);
  return static_cast<Slot>(-1 - static_cast<int64_t>(index));
}

const Name* ModuleAssembler::Find(const std::string& name) const {
  auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

const Variable& ModuleAssembler::SharedVariable(const std::string& name) const { return *shared_.find(name)->second; }

void ModuleAssembler::AddGlobal(const Variable& variable, const std::string& name) {
  Global& global = globals_.emplace_back();
  global.name = name;
  global.bytes = variable.bytes;
  global.alignment = variable.alignment;
  global.constant = variable.space == Space::kConstant;
  global.external = variable.external;
  global.visible = variable.visible;
  global.initial = variable.initial;
  global.relocations = variable.relocations;
}

uint64_t ModuleAssembler::PlaceShared(const std::string& variable, uint64_t bytes, uint64_t alignment) {
  auto [found, fresh] = common_shared_.try_emplace(variable, 0);
  if (fresh) {
    found->second = RoundUp(common_bytes_, alignment);
    common_bytes_ = found->second + bytes;
  }
  return found->second;
}

void ModuleAssembler::Declare() {
  for (const Variable& variable : text_.variables) {
    Name name;
    name.kind = variable.space != Space::kShared ? Name::kGlobal
                : variable.external              ? Name::kDynamicShared
                                                 : Name::kShared;
    name.bytes = variable.bytes;
    name.variable = variable.name;
    names_[variable.name] = name;
    if (variable.space == Space::kShared) {
      shared_[variable.name] = &variable;
    } else {
      AddGlobal(variable, variable.name);
    }
  }
  for (const FunctionText& function : text_.functions) DeclareRoutine(function);
}

void ModuleAssembler::DeclareRoutine(const FunctionText& function) {
  const uint32_t index = static_cast<uint32_t>(code_.routines.size());
  Routine& routine = code_.routines.emplace_back();
  routine.name = function.name;
  routine.entry = function.entry;
  routine.defined = function.body;
  Name name;
  name.kind = Name::kRoutine;
  name.routine = index;
  if (!names_.emplace(function.name, name).second) throw ReadError(function.line, "declared twice: " + function.name);
}

void ModuleAssembler::AssembleRoutine(uint32_t index) {
  const FunctionText& function = text_.functions[index];
  if (!function.body) return;
  RoutineAssembler(*this, index).Assemble();
  if (!function.entry) return;
  Kernel kernel = KernelOf(function, index);
  kernel.local_bytes = code_.routines[index].local_bytes;
  kernel.registers = code_.routines[index].registers;
  kernels_.push_back(std::move(kernel));
}

void ModuleAssembler::Assemble() {
  Declare();
  // Formals come first, because calls look at them.
  for (uint32_t i = 0; i < text_.functions.size(); ++i) {
    if (!text_.functions[i].entry) RoutineAssembler(*this, i).Formals();
  }
  for (uint32_t i = 0; i < text_.functions.size(); ++i) AssembleRoutine(i);
  ResolveIndirectCalls();
  ResolveInitializers();
  for (Kernel& kernel : kernels_) {
    const KernelShared& own = kernel_shared_[kernel.function];
    const uint64_t before = own.calls ? RoundUp(common_bytes_, 128) : 0;
    for (uint32_t constant : own.constants) {
      for (int lane = 0; lane < kWarpLanes; ++lane) code_.constants[size_t{constant} * kWarpLanes + lane] += before;
    }
    if (before + own.bytes > kMaxSharedBytes) throw ReadError(1, kernel.name + " has more shared memory than there is");
    kernel.shared_bytes = static_cast<uint32_t>(before + own.bytes);
    for (const auto& [name, variable] : shared_) {
      if (variable->external) {
        kernel.shared_alignment = std::max(kernel.shared_alignment, static_cast<uint32_t>(variable->alignment));
      }
    }
  }
}

/// Finds the functions that each indirect call may reach: those whose parameters and results have the same sizes.
void ModuleAssembler::ResolveIndirectCalls() {
  const size_t calls = code_.calls.size();
  for (size_t i = 0; i < calls; ++i) {
    if (code_.calls[i].routine >= 0 || code_.calls[i].builtin != Builtin::kNone) continue;
    code_.calls[i].resolved.assign(code_.routines.size(), -1);
    for (size_t r = 0; r < code_.routines.size(); ++r) {
      const Routine& routine = code_.routines[r];
      Call direct = code_.calls[i];
      bool fits = routine.defined && !routine.entry && routine.parameters.size() == direct.arguments.size() &&
                  routine.returns.size() == direct.results.size();
      for (size_t k = 0; fits && k < direct.arguments.size(); ++k) {
        const Formal& formal = routine.parameters[k];
        Passed& move = direct.arguments[k];
        fits = formal.in_register == move.in_registers && formal.bytes == move.bytes;
        move.to = formal.slot;
        move.to_offset = formal.offset;
      }
      for (size_t k = 0; fits && k < direct.results.size(); ++k) {
        const Formal& formal = routine.returns[k];
        Passed& move = direct.results[k];
        fits = formal.in_register == move.in_registers && formal.bytes == move.bytes;
        move.from = formal.slot;
        move.from_offset = formal.offset;
      }
      if (!fits) continue;
      direct.resolved.clear();
      direct.routine = static_cast<int32_t>(r);
      code_.calls[i].resolved[r] = static_cast<int32_t>(code_.calls.size());
      code_.calls.push_back(std::move(direct));
    }
  }
}

/// Writes addresses of functions into initializers. Addresses of variables are left to the caller that places the
/// variables.
void ModuleAssembler::ResolveInitializers() {
  for (Global& global : globals_) {
    std::vector<Relocation> left;
    for (const Relocation& relocation : global.relocations) {
      const Name* name = Find(relocation.variable);
      if (name == nullptr || (name->kind != Name::kGlobal && name->kind != Name::kRoutine)) {
        throw ReadError(1, global.name + " has the address of an unknown variable: " + relocation.variable);
      }
      if (name->kind == Name::kGlobal) {
        left.push_back(relocation);
        continue;
      }
      const uint64_t value = kCodeWindow + name->routine;
      for (size_t i = 0; i < 8; ++i) {
        global.initial[relocation.offset + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
      }
    }
    global.relocations = std::move(left);
  }
}

}  // namespace callout::software_gpu::ptx
