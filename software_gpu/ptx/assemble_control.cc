// SPDX-License-Identifier: Apache-2.0
//
// Assembles branches, calls and ends of threads, and barriers of blocks (PTX ISA 9.7.12 and 9.7.13).
#include "ptx/assembler.h"

namespace callout::software_gpu::ptx {

/// Ignores .uni, which promises that all lanes go one way.
void RoutineAssembler::Branch() {
  Take("uni");
  ExpectNoWords();
  ExpectOperands(1);
  if (In(0).kind != Operand::kName) Fail("expected a label");
  const Operand& label = In(0);
  Emit(RunBranch, {});
  jumps_.push_back(
      {static_cast<uint32_t>(module_.code_.instructions.size() - 1), scope_, label.name, -1, 0, statement_->line});
}

void RoutineAssembler::BranchTable() {
  if (!Take("idx")) Fail("unknown instruction");
  Take("uni");
  ExpectNoWords();
  ExpectOperands(2);
  const Statement* targets = In(1).kind == Operand::kName ? Directive(In(1).name) : nullptr;
  if (targets == nullptr || targets->kind != Statement::kTargets) Fail("unknown .branchtargets");
  Instruction instruction;
  instruction.in[0] = Source(In(0), Type::kU32);
  instruction.target = static_cast<uint32_t>(module_.code_.branches.size());
  module_.code_.branches.emplace_back(targets->operands.size());
  for (size_t i = 0; i < targets->operands.size(); ++i) {
    jumps_.push_back(
        {0, scope_, targets->operands[i].name, static_cast<int32_t>(instruction.target), i, statement_->line});
  }
  Emit(RunBranchTable, instruction);
}

/// Assembles call (results), name, (arguments). An indirect call has a register and, behind the arguments, a prototype.
void RoutineAssembler::Call() {
  Take("uni");
  ExpectNoWords();
  ExpectOperands(1, 4);
  static const std::vector<Operand> kNone;
  size_t at = 0;
  const std::vector<Operand>& results = In(0).kind == Operand::kList ? In(at++).parts : kNone;
  if (at >= statement_->operands.size() || In(at).kind != Operand::kName) Fail("it names no function");
  const Operand& callee = In(at++);
  const bool listed = at < statement_->operands.size() && In(at).kind == Operand::kList;
  const std::vector<Operand>& arguments = listed ? In(at++).parts : kNone;
  ptx::Call call;
  const std::optional<Name> name = Find(callee.name);
  if (!name) Fail("unknown function " + callee.name);
  std::vector<Formal> parameters, returns;
  if (name->kind == Name::kRoutine) {
    const Routine& target = module_.code_.routines[name->routine];
    call.routine = static_cast<int32_t>(name->routine);
    if (target.entry) Fail("a call of a kernel");
    call.builtin = target.defined                             ? Builtin::kNone
                   : target.name == "vprintf"                 ? Builtin::kPrintf
                   : target.name == "__assertfail"            ? Builtin::kAssertFail
                   : target.name == "cudaGraphSetConditional" ? Builtin::kSetConditional
                                                              : Builtin::kNone;
    if (!target.defined && call.builtin == Builtin::kNone) Fail("a function that is not defined: " + target.name);
    parameters = target.parameters;
    returns = target.returns;
  } else {
    call.address = Source(callee, Type::kU64);
    Prototype(at, parameters, returns);
  }
  Arguments(call, arguments, parameters, false);
  Arguments(call, results, returns, true);
  static constexpr size_t kBuiltinArguments[] = {0, 2, 5, 2};
  if (call.builtin != Builtin::kNone && call.arguments.size() != kBuiltinArguments[static_cast<int>(call.builtin)]) {
    Fail("the function takes other parameters");
  }
  if (call.builtin == Builtin::kNone) module_.kernel_shared_[index_].calls = true;
  Instruction instruction;
  instruction.target = static_cast<uint32_t>(module_.code_.calls.size());
  module_.code_.calls.push_back(std::move(call));
  Emit(RunCall, instruction);
}

/// Returns the parameters and results of an indirect call's prototype, without places.
void RoutineAssembler::Prototype(size_t at, std::vector<Formal>& parameters, std::vector<Formal>& returns) const {
  const Statement* prototype = nullptr;
  if (at + 1 == statement_->operands.size() && In(at).kind == Operand::kName) prototype = Directive(In(at).name);
  if (prototype == nullptr || prototype->kind != Statement::kPrototype) Fail("an indirect call without a prototype");
  for (size_t i = 0; i < prototype->variables.size(); ++i) {
    const Variable& variable = prototype->variables[i];
    Formal formal;
    formal.in_register = variable.space == Space::kRegister;
    formal.bytes = formal.in_register ? 0 : static_cast<uint32_t>(variable.bytes);
    (i < prototype->returns ? returns : parameters).push_back(formal);
  }
}

void RoutineAssembler::Arguments(ptx::Call& call, const std::vector<Operand>& actuals,
                                 const std::vector<Formal>& formals, bool results) {
  if (actuals.size() != formals.size()) Fail(results ? "another number of results" : "another number of arguments");
  for (size_t i = 0; i < actuals.size(); ++i) {
    const Formal& formal = formals[i];
    Passed move;
    move.in_registers = formal.in_register;
    move.bytes = formal.bytes;
    const std::optional<Name> name = Find(actuals[i].name);
    if (formal.in_register) {
      const Slot actual = results ? Target(actuals[i], RegisterBits(actuals[i]))
                                  : Source(actuals[i], RegisterBits(actuals[i]) == 1 ? Type::kPred : Type::kB64);
      (results ? move.to : move.from) = actual;
      (results ? move.from : move.to) = formal.slot;
    } else {
      if (actuals[i].kind != Operand::kName || !name || name->kind != Name::kFrame || name->bytes != formal.bytes) {
        Fail("an argument that is no .param of the same size: " + actuals[i].name);
      }
      const uint32_t actual = static_cast<uint32_t>(name->offset);
      (results ? move.to_offset : move.from_offset) = actual;
      (results ? move.from_offset : move.to_offset) = formal.offset;
    }
    (results ? call.results : call.arguments).push_back(move);
  }
}

void RoutineAssembler::Return() {
  Take("uni");
  ExpectNoWords();
  ExpectOperands(0);
  Emit(RunReturn, {});
}

void RoutineAssembler::Exit() {
  ExpectNoWords();
  ExpectOperands(0);
  Emit(RunExit, {});
}

void RoutineAssembler::Trap() {
  ExpectNoWords();
  ExpectOperands(0);
  Emit(RunTrap, {});
}

void RoutineAssembler::Nanosleep() {
  if (!Take("u32")) Fail("only .u32 is known");
  ExpectNoWords();
  ExpectOperands(1);
  Source(In(0), Type::kU32);
  Emit(RunNanosleep, {});
}

/// Assembles griddepcontrol, which does nothing: kernels of a stream run one after another, so all earlier ones have
/// ended.
void RoutineAssembler::GridDependency() {
  if (TakeOne({"launch_dependents", "wait"}) == "") Fail("unknown instruction");
  ExpectNoWords();
  ExpectOperands(0);
  Emit(RunNothing, {});
}

/// Assembles bar{.cta}.sync a{, b}, bar.arrive a, b and bar.red.op d, a{, b}, p. A barrier without .aligned is
/// assembled alike, because lanes arrive one by one here. bar.warp.sync is a barrier of the warp.
void RoutineAssembler::Barrier() {
  if (Take("warp")) return WarpBarrier();
  if (!words_.empty() && words_.front().starts_with("cluster")) Fail("barriers of clusters are not known");
  Take("cta");
  Take("aligned");
  Instruction instruction;
  size_t at = 0;
  if (Take("red")) {
    const std::string_view operation = TakeOne({"popc", "and", "or"});
    if (operation.empty()) Fail("it has no operation that is known");
    const BarrierKind kind = operation == "popc"  ? BarrierKind::kPopc
                             : operation == "and" ? BarrierKind::kAnd
                                                  : BarrierKind::kOr;
    instruction.kind = static_cast<uint8_t>(kind);
    const bool popc = kind == BarrierKind::kPopc;
    if (!Take(popc ? "u32" : "pred")) Fail("it has another type");
    ExpectOperands(3, 4);
    instruction.to = Target(In(0), popc ? 32 : 1);
    instruction.in[2] = Source(statement_->operands.back(), Type::kPred);
    at = 1;
  } else if (Take("arrive")) {
    instruction.kind = static_cast<uint8_t>(BarrierKind::kArrive);
    ExpectOperands(2);
  } else if (Take("sync")) {
    ExpectOperands(1, 2);
  } else {
    Fail("unknown instruction");
  }
  ExpectNoWords();
  instruction.in[0] = Source(In(at), Type::kU32);
  const size_t counted = at == 1 ? 4 : 2;  // with a number of threads
  if (statement_->operands.size() == counted) instruction.in[1] = Source(In(at + 1), Type::kU32);
  Emit(RunBarrier, instruction);
}

}  // namespace callout::software_gpu::ptx
