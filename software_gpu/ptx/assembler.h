// SPDX-License-Identifier: Apache-2.0
//
// Turns statements into code: names get places, and spellings get handlers. Anything unknown throws ReadError.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/code.h"
#include "ptx/handlers.h"
#include "ptx/syntax.h"

namespace callout::software_gpu::ptx {

/// The meaning of a name.
struct Name {
  enum Kind : uint8_t { kRegister, kGlobal, kShared, kDynamicShared, kFrame, kKernelParameter, kRoutine };
  Kind kind = kRegister;
  Type type = Type::kNone;  ///< For a register.
  Slot slot = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t routine = 0;
  std::string variable;
};

/// The state that all functions of a module share while they are assembled.
class ModuleAssembler {
 public:
  ModuleAssembler(const ModuleText& text, Code& code, std::vector<Kernel>& kernels, std::vector<Global>& globals);
  void Assemble();

  Slot Constant(uint64_t value);
  /// Returns a constant that is not shared with equal ones, because it will change.
  Slot OwnConstant(uint64_t value);
  const Name* Find(const std::string& name) const;
  Code& code() { return code_; }
  const FunctionText& text(uint32_t routine) const { return text_.functions[routine]; }
  void AddGlobal(const Variable& variable, const std::string& name);
  /// Places a shared variable that a device function uses, or a kernel's own.
  uint64_t PlaceShared(const std::string& variable, uint64_t bytes, uint64_t alignment);
  const Variable& SharedVariable(const std::string& name) const;

 private:
  void Declare();
  void DeclareRoutine(const FunctionText& function);
  void AssembleRoutine(uint32_t index);
  void ResolveIndirectCalls();
  void ResolveInitializers();

  const ModuleText& text_;
  Code& code_;
  std::vector<Kernel>& kernels_;
  std::vector<Global>& globals_;
  std::map<std::string, Name, std::less<>> names_;
  std::map<uint64_t, Slot> constants_;
  std::map<std::string, const Variable*, std::less<>> shared_;
  std::map<std::string, uint64_t, std::less<>>
      common_shared_;  ///< Variables of device functions, at the start of every kernel's.
  uint64_t common_bytes_ = 0;
  struct KernelShared {
    std::vector<uint32_t> constants;  ///< To be moved behind the common variables.
    uint64_t bytes = 0;
    bool calls = false;
  };
  std::map<uint32_t, KernelShared> kernel_shared_;
  friend class RoutineAssembler;
};

/// Assembles one function.
class RoutineAssembler {
 public:
  RoutineAssembler(ModuleAssembler& module, uint32_t index);
  void Assemble();

 private:
  friend class ModuleAssembler;
  using Family = void (RoutineAssembler::*)();

  struct Scope {
    int32_t parent = -1;
    std::map<std::string, Name, std::less<>> names;
    std::map<std::string, std::pair<Name, uint64_t>, std::less<>> ranges;  ///< %r<n>, by the text before the number.
    std::map<std::string, uint32_t, std::less<>> labels;
    std::map<std::string, const Statement*, std::less<>> directives;  ///< .callprototype, .branchtargets
  };
  struct Jump {
    uint32_t instruction = 0;
    int32_t scope = 0;
    std::string label;
    int32_t table = -1;
    size_t entry = 0;
    int line = 0;
  };

  // Declarations and names.
  void Formals();
  void CollectLabels();
  void Declare(const Statement& statement);
  void DeclareVariable(const Variable& variable);
  Name Frame(const Variable& variable);
  Slot NewRegister() { return static_cast<Slot>(routine().registers++); }
  std::optional<Name> Find(const std::string& name) const;
  const Statement* Directive(const std::string& label) const;
  void ResolveJumps();

  // Operands.
  [[noreturn]] void Fail(const std::string& what) const;
  void ExpectOperands(size_t least, size_t most) const;
  void ExpectOperands(size_t count) const { ExpectOperands(count, count); }
  const Operand& In(size_t index) const { return statement_->operands[index]; }
  /// Returns the value of an operand, for an instruction of this type.
  Slot Source(const Operand& operand, Type type);
  Slot Number(const Operand& operand, Type type);
  Slot NamedSource(const Operand& operand, Type type);
  /// Emits the address of a variable. Returns false if the name is no variable's.
  bool AddressOf(const Name& name, uint64_t offset, Slot to);
  Slot SharedAddress(const std::string& variable, uint64_t offset);
  Slot GlobalAddress(const std::string& variable, uint64_t offset);
  bool SpecialRegister(const std::string& name, Slot to);
  /// Returns a register that is written. `bits`: its least width.
  Slot Target(const Operand& operand, int bits);
  /// Returns the width of a register by its name; 0 if the operand is no register.
  int RegisterBits(const Operand& operand) const;
  void Address(Instruction& instruction, const Operand& operand, Space space);
  uint32_t List(const std::vector<Slot>& slots);

  /// Emits with the statement's guard.
  void Emit(Handler handler, Instruction instruction);
  /// Emits without the statement's guard, for the value of an operand.
  Instruction& EmitPlain(Handler handler);

  // Words of the spelling. A word that nobody takes is unknown.
  bool Take(std::string_view word);
  std::string_view TakeOne(std::initializer_list<std::string_view> words);
  bool TakePrefix(std::string_view prefix);
  Type TakeType();
  Space TakeSpace();
  void TakeCacheHints();
  void ExpectNoWords() const;

  void AssembleStatement(const Statement& statement);
  static Family FamilyOf(std::string_view opcode);

  // Families of instructions.
  void Arithmetic();
  void Move();
  void MoveVector(const Operand& vector, const Operand& scalar, Type type, bool unpack);
  void ConvertAddress();
  void IsSpace();
  void Load();
  void Store();
  void Atomic();
  void Reduction();
  void AtomicCommon(bool returns);
  void AtomicOperation(Instruction& instruction, Type type, int vector);
  void Fence();
  void Hint();
  void CreatePolicy();
  void CopyAsync();
  void Branch();
  void BranchTable();
  void Call();
  void Prototype(size_t at, std::vector<Formal>& parameters, std::vector<Formal>& returns) const;
  void Arguments(ptx::Call& call, const std::vector<Operand>& actuals, const std::vector<Formal>& formals,
                 bool results);
  void Return();
  void Exit();
  void Trap();
  void Nanosleep();
  void Barrier();
  void Shuffle();
  void Vote();
  void Match();
  void Reduce();
  void Elect();
  void ActiveMask();
  void WarpBarrier();
  void GridDependency();

  Routine& routine() { return module_.code_.routines[index_]; }

  ModuleAssembler& module_;
  const uint32_t index_;
  const FunctionText& text_;
  std::vector<Scope> scopes_;
  int32_t scope_ = 0;
  std::vector<Jump> jumps_;
  const Statement* statement_ = nullptr;
  std::vector<std::string_view> words_;  ///< The words of the spelling that were not taken yet.
  Slot scratch_ = kNoSlot;
  Slot carry_ = kNoSlot;
};

}  // namespace callout::software_gpu::ptx
