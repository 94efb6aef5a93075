// SPDX-License-Identifier: Apache-2.0
//
// Parses the top level of a module: its directives, variables and functions (PTX ISA 11).
#include "ptx/syntax.h"

namespace callout::software_gpu::ptx {
namespace {

class ModuleParser {
 public:
  explicit ModuleParser(std::string_view text) : tokens_(Tokenize(text)), cursor_(tokens_) {}

  ModuleText Parse() {
    while (cursor_.Peek().kind != TokenKind::kEnd) {
      if (cursor_.TakeSign(';')) continue;  // the ';' that ends a function's declaration may stand alone
      ParseDirective(cursor_.Name());
    }
    if (!version_) cursor_.Fail("no .version: the text is no PTX");
    return std::move(module_);
  }

 private:
  void ParseDirective(const std::string& word) {
    if (word == ".version") {
      cursor_.Take();
      version_ = true;
    } else if (word == ".target") {
      do cursor_.Name();
      while (cursor_.TakeSign(','));
    } else if (word == ".address_size") {
      if (cursor_.Integer() != 64) cursor_.Fail("addresses that have not 64 bits");
    } else if (word == ".file" || word == ".pragma") {  // for debuggers, and hints to ptxas
      cursor_.SkipLine();
    } else if (word == ".section") {  // debug information
      cursor_.Name();
      cursor_.SkipBlock();
    } else if (word == ".visible" || word == ".weak" || word == ".common") {
      visible_ = true;
    } else if (word == ".extern") {
      external_ = true;
    } else {
      ParseDeclaration(word);
      visible_ = external_ = false;
    }
  }

  void ParseDeclaration(const std::string& word) {
    if (word == ".entry" || word == ".func") return ParseFunction(word == ".entry");
    Space space = Space::kNone;
    if (word == ".global") space = Space::kGlobal;
    if (word == ".const") space = Space::kConstant;
    if (word == ".shared") space = Space::kShared;
    if (space == Space::kNone) cursor_.Fail("unknown directive '" + word + "'");
    for (Variable& variable : ParseVariables(cursor_, space, space != Space::kShared)) {
      variable.visible = visible_;
      variable.external = external_;
      if (variable.unsized && variable.initial.empty() && !external_) cursor_.Fail("no size: " + variable.name);
      if (!variables_.emplace(variable.name, true).second) {
        throw ReadError(variable.line, "declared twice: " + variable.name);
      }
      module_.variables.push_back(std::move(variable));
    }
    cursor_.Expect(';');
  }

  void ParseFunction(bool entry) {
    FunctionText function;
    function.entry = entry;
    function.line = cursor_.line();
    while (cursor_.TakeWord(".noreturn")) {
    }
    if (cursor_.IsSign('(')) function.returns = ParseParameters(cursor_);
    function.name = cursor_.Name();
    if (cursor_.IsSign('(')) function.parameters = ParseParameters(cursor_);
    ParseAttributes(function);
    if (cursor_.TakeSign('{')) {
      function.body = true;
      function.statements = ParseBody(cursor_);
    }
    Add(std::move(function));
  }

  /// Parses a kernel's demands on ptxas and on its launches (PTX ISA 11.4 and 11.7).
  void ParseAttributes(FunctionText& function) {
    while (cursor_.Peek().kind == TokenKind::kWord && cursor_.Peek().text.starts_with('.')) {
      const std::string word(cursor_.Peek().text);
      if (word == ".maxntid" || word == ".reqntid") {
        cursor_.Take();
        const std::array<uint32_t, 3> block = Shape();
        function.max_threads = block[0] * block[1] * block[2];
        if (word == ".reqntid") function.required_block = block;
      } else if (word == ".minnctapersm" || word == ".maxnctapersm" || word == ".maxnreg") {
        cursor_.Take();  // register and residency limits do not matter here
        cursor_.Integer();
      } else if (word == ".noreturn") {
        cursor_.Take();
      } else if (word == ".pragma") {
        cursor_.SkipLine();
      } else if (!function.body && (word == ".visible" || word == ".extern" || word == ".weak" || word == ".entry" ||
                                    word == ".func" || word == ".global" || word == ".const" || word == ".shared" ||
                                    word == ".section" || word == ".file" || word == ".common")) {
        return;  // the next declaration; the ';' of one without a body is missing
      } else {
        cursor_.Fail("unknown directive '" + word + "' of " + function.name);
      }
    }
  }

  std::array<uint32_t, 3> Shape() {
    std::array<uint32_t, 3> shape = {1, 1, 1};
    for (size_t i = 0; i < 3; ++i) {
      const uint64_t extent = cursor_.Integer();
      if (extent == 0 || extent > 1024) cursor_.Fail("a block of no such size");
      shape[i] = static_cast<uint32_t>(extent);
      if (!cursor_.TakeSign(',')) break;
    }
    return shape;
  }

  void Add(FunctionText function) {
    auto [found, fresh] = functions_.emplace(function.name, module_.functions.size());
    if (fresh) {
      module_.functions.push_back(std::move(function));
      return;
    }
    FunctionText& known = module_.functions[found->second];
    if (known.body && function.body) throw ReadError(function.line, "defined twice: " + function.name);
    if (function.body) known = std::move(function);
  }

  std::vector<Token> tokens_;
  Cursor cursor_;
  ModuleText module_;
  std::map<std::string, size_t, std::less<>> functions_;
  std::map<std::string, bool, std::less<>> variables_;
  bool version_ = false;
  bool visible_ = false;
  bool external_ = false;
};

}  // namespace

ModuleText ParseModule(std::string_view text) { return ModuleParser(text).Parse(); }

}  // namespace callout::software_gpu::ptx
