// SPDX-License-Identifier: Apache-2.0
//
// Assembles a function: its declarations, scopes and labels, and the family of each instruction.
#include <algorithm>

#include "ptx/assembler.h"

namespace callout::software_gpu::ptx {
namespace {

constexpr uint32_t kMaxPlaces = 1 << 16;  // of registers in a frame

}  // namespace

RoutineAssembler::RoutineAssembler(ModuleAssembler& module, uint32_t index)
    : module_(module), index_(index), text_(module.text(index)), scopes_(1) {}

/// Places a variable in the frame's local memory.
Name RoutineAssembler::Frame(const Variable& variable) {
  Routine& own = routine();
  const uint64_t offset = RoundUp(own.local_bytes, std::max<uint64_t>(variable.alignment, 1));
  if (variable.alignment > 16) throw ReadError(variable.line, "local memory of an alignment over 16 is not known");
  if (offset + variable.bytes > kMaxLocalBytes)
    throw ReadError(variable.line, "too much local memory: " + variable.name);
  own.local_bytes = static_cast<uint32_t>(offset + variable.bytes);
  Name name;
  name.kind = Name::kFrame;
  name.offset = offset;
  name.bytes = variable.bytes;
  return name;
}

void RoutineAssembler::Formals() {
  Routine& own = routine();
  // Formals are known from a declaration; only the names are missing.
  if (!own.parameters.empty() || !own.returns.empty()) {
    size_t i = 0, k = 0;
    for (auto [texts, formals, at] :
         {std::tuple{&text_.returns, &own.returns, &i}, std::tuple{&text_.parameters, &own.parameters, &k}}) {
      for (const Variable& variable : *texts) {
        const Formal& formal = (*formals)[(*at)++];
        Name name;
        name.kind = formal.in_register ? Name::kRegister : Name::kFrame;
        name.type = variable.type;
        name.slot = formal.slot;
        name.offset = formal.offset;
        name.bytes = formal.bytes;
        scopes_[0].names[variable.name] = name;
      }
    }
    return;
  }
  const auto add = [&](const std::vector<Variable>& variables, std::vector<Formal>& formals) {
    for (const Variable& variable : variables) {
      Formal formal;
      formal.in_register = variable.space == Space::kRegister;
      if (formal.in_register) {
        formal.slot = NewRegister();
      } else {
        formal.offset = static_cast<uint32_t>(Frame(variable).offset);
        formal.bytes = static_cast<uint32_t>(variable.bytes);
      }
      formals.push_back(formal);
    }
  };
  add(text_.returns, own.returns);
  add(text_.parameters, own.parameters);
}

void RoutineAssembler::DeclareVariable(const Variable& variable) {
  Scope& scope = scopes_[scope_];
  Name name;
  name.type = variable.type;
  name.bytes = variable.bytes;
  if (variable.space == Space::kRegister) {
    const uint64_t count = std::max<uint64_t>(variable.registers, 1);
    if (routine().registers + count > kMaxPlaces) throw ReadError(variable.line, "too many registers");
    name.slot = static_cast<Slot>(routine().registers);
    routine().registers += static_cast<uint32_t>(count);
    if (variable.registers != 0) {
      scope.ranges[variable.name] = {name, variable.registers};
      return;
    }
  } else if (variable.space == Space::kLocal || variable.space == Space::kParameter) {
    name = Frame(variable);
  } else {
    // Static variables of a function live as long as the module.
    const std::string unique = text_.name + "$" + variable.name + "$" + std::to_string(variable.line);
    name.variable = unique;
    if (variable.space == Space::kShared) {
      name.kind = variable.unsized ? Name::kDynamicShared : Name::kShared;
      module_.shared_[unique] = &variable;
    } else {
      name.kind = Name::kGlobal;
      module_.AddGlobal(variable, unique);
    }
  }
  scope.names[variable.name] = name;
}

/// Assembles the body. Scopes are numbered in the order in which they open, and labels are collected first.
void RoutineAssembler::Assemble() {
  routine().begin = static_cast<uint32_t>(module_.code_.instructions.size());
  if (text_.entry) {
    uint64_t at = 0;
    for (const Variable& parameter : text_.parameters) {
      at = RoundUp(at, parameter.alignment);
      Name name;
      name.kind = Name::kKernelParameter;
      name.offset = at;
      name.bytes = parameter.bytes;
      scopes_[0].names[parameter.name] = name;
      at += parameter.bytes;
    }
  } else {
    Formals();
  }
  for (const Statement& statement : text_.statements) {
    statement_ = &statement;
    AssembleStatement(statement);
  }
  statement_ = nullptr;
  // Behind its last instruction a function returns, and a kernel ends.
  static const Statement kEnd{Statement::kInstruction, 0, "", false, "ret", {}, {}, 0};
  statement_ = &kEnd;
  Emit(RunReturn, {});
  ResolveJumps();
}

void RoutineAssembler::AssembleStatement(const Statement& statement) {
  switch (statement.kind) {
    case Statement::kOpen:
      scopes_.push_back({scope_, {}, {}, {}, {}});
      scope_ = static_cast<int32_t>(scopes_.size() - 1);
      return;
    case Statement::kClose:
      scope_ = scopes_[scope_].parent;
      return;
    case Statement::kLabel:
      if (!scopes_[scope_]
               .labels.emplace(statement.spelling, static_cast<uint32_t>(module_.code_.instructions.size()))
               .second) {
        Fail("the label comes twice");
      }
      return;
    case Statement::kDeclaration:
      for (const Variable& variable : statement.variables) DeclareVariable(variable);
      return;
    case Statement::kPrototype:
    case Statement::kTargets:
      scopes_[scope_].directives[statement.spelling] = &statement;
      return;
    case Statement::kInstruction:
      break;
  }
  words_ = SplitWord(statement.spelling);
  const std::string_view opcode = words_.front();
  words_.erase(words_.begin());
  (this->*FamilyOf(opcode))();
}

const Statement* RoutineAssembler::Directive(const std::string& label) const {
  for (int32_t at = scope_; at >= 0; at = scopes_[at].parent) {
    auto found = scopes_[at].directives.find(label);
    if (found != scopes_[at].directives.end()) return found->second;
  }
  // A directive may stand behind its use.
  for (const Statement& statement : text_.statements) {
    const bool directive = statement.kind == Statement::kPrototype || statement.kind == Statement::kTargets;
    if (directive && statement.spelling == label) return &statement;
  }
  return nullptr;
}

void RoutineAssembler::ResolveJumps() {
  for (const Jump& jump : jumps_) {
    const uint32_t* target = nullptr;
    for (int32_t at = jump.scope; at >= 0 && target == nullptr; at = scopes_[at].parent) {
      auto found = scopes_[at].labels.find(jump.label);
      if (found != scopes_[at].labels.end()) target = &found->second;
    }
    if (target == nullptr) throw ReadError(jump.line, "unknown label " + jump.label);
    if (jump.table >= 0) {
      module_.code_.branches[jump.table][jump.entry] = *target;
    } else {
      module_.code_.instructions[jump.instruction].target = *target;
    }
  }
}

uint32_t RoutineAssembler::List(const std::vector<Slot>& slots) {
  module_.code_.lists.push_back(slots);
  return static_cast<uint32_t>(module_.code_.lists.size() - 1);
}

Instruction& RoutineAssembler::EmitPlain(Handler handler) {
  Code& code = module_.code_;
  code.spellings.push_back(statement_->spelling);
  Instruction& instruction = code.instructions.emplace_back();
  instruction.run = handler;
  instruction.line = statement_->line;
  return instruction;
}

void RoutineAssembler::Emit(Handler handler, Instruction instruction) {
  if (!statement_->guard.empty()) {
    Operand guard;
    guard.name = statement_->guard;
    instruction.guard = Source(guard, Type::kPred);
    instruction.guard_negated = statement_->guard_negated;
  }
  Instruction& placed = EmitPlain(handler);
  placed = instruction;
  placed.run = handler;
  placed.line = statement_->line;
}

bool RoutineAssembler::Take(std::string_view word) {
  auto found = std::find(words_.begin(), words_.end(), word);
  if (found == words_.end()) return false;
  words_.erase(found);
  return true;
}

std::string_view RoutineAssembler::TakeOne(std::initializer_list<std::string_view> words) {
  for (std::string_view word : words) {
    if (Take(word)) return word;
  }
  return {};
}

bool RoutineAssembler::TakePrefix(std::string_view prefix) {
  auto found = std::find_if(words_.begin(), words_.end(), [&](std::string_view w) { return w.starts_with(prefix); });
  if (found == words_.end()) return false;
  words_.erase(found);
  return true;
}

Type RoutineAssembler::TakeType() {
  auto found = std::find_if(words_.begin(), words_.end(), [](std::string_view w) { return TypeOf(w) != Type::kNone; });
  if (found == words_.end()) Fail("it has no type that is known");
  const Type type = TypeOf(*found);
  words_.erase(found);
  if (type == Type::kB128) Fail("values of 128 bits are not known");
  return type;
}

Space RoutineAssembler::TakeSpace() {
  if (TakeOne({"global"}) != "") return Space::kGlobal;
  if (TakeOne({"const"}) != "") return Space::kConstant;
  // This GPU runs clusters of one block only, so the shared memory of a cluster is that of the block.
  if (TakeOne({"shared", "shared::cta", "shared::cluster"}) != "") return Space::kShared;
  if (TakeOne({"local"}) != "") return Space::kLocal;
  if (TakeOne({"param", "param::entry", "param::func"}) != "") return Space::kParameter;
  return Space::kNone;
}

/// Takes and ignores cache hints: there are no caches.
void RoutineAssembler::TakeCacheHints() {
  TakeOne({"ca", "cg", "cs", "lu", "wb", "wt"});
  Take("nc");
  while (TakePrefix("L1::") || TakePrefix("L2::")) {
  }
}

void RoutineAssembler::ExpectNoWords() const {
  if (!words_.empty()) Fail("unknown modifier ." + std::string(words_.front()));
}

RoutineAssembler::Family RoutineAssembler::FamilyOf(std::string_view opcode) {
  using A = RoutineAssembler;
  static const std::map<std::string_view, Family> kFamilies = {
      {"mov", &A::Move},
      {"cvta", &A::ConvertAddress},
      {"isspacep", &A::IsSpace},
      {"ld", &A::Load},
      {"ldu", &A::Load},
      {"st", &A::Store},
      {"atom", &A::Atomic},
      {"red", &A::Reduction},
      {"membar", &A::Fence},
      {"fence", &A::Fence},
      {"prefetch", &A::Hint},
      {"prefetchu", &A::Hint},
      {"applypriority", &A::Hint},
      {"createpolicy", &A::CreatePolicy},
      {"cp", &A::CopyAsync},
      {"bra", &A::Branch},
      {"brx", &A::BranchTable},
      {"call", &A::Call},
      {"ret", &A::Return},
      {"exit", &A::Exit},
      {"trap", &A::Trap},
      {"brkpt", &A::Trap},
      {"nanosleep", &A::Nanosleep},
      {"bar", &A::Barrier},
      {"barrier", &A::Barrier},
      {"shfl", &A::Shuffle},
      {"vote", &A::Vote},
      {"match", &A::Match},
      {"redux", &A::Reduce},
      {"elect", &A::Elect},
      {"activemask", &A::ActiveMask},
      {"griddepcontrol", &A::GridDependency},
  };
  auto found = kFamilies.find(opcode);
  return found == kFamilies.end() ? &A::Arithmetic : found->second;
}

}  // namespace callout::software_gpu::ptx
