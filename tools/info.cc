// SPDX-License-Identifier: Apache-2.0
#include "info.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>

#include "callout/pjrt/binding.h"
#include "callout/pjrt/contents.h"
#include "core/base/cat.h"
#include "report.h"
#include "session.h"

namespace callout::tools {
namespace {

std::string ToText(const pjrt::Value& value) {
  struct Visitor {
    std::string operator()(const std::string& text) const { return text; }
    std::string operator()(int64_t number) const { return std::to_string(number); }
    std::string operator()(float number) const { return std::to_string(number); }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    std::string operator()(const std::vector<int64_t>& numbers) const { return internal::Join(numbers, "."); }
  };
  return std::visit(Visitor(), value);
}

// Returns the name of a PJRT_Extension_Type (pjrt_c_api.h).
std::string ExtensionName(int type) {
  static const std::map<int, const char*> names = {
      {0, "GPU custom call"},
      {1, "profiler"},
      {2, "custom partitioner"},
      {3, "stream"},
      {4, "layouts"},
      {5, "FFI"},
      {6, "memory descriptions"},
      {7, "triton"},
      {8, "raw buffer"},
      {9, "phase compile"},
      {12, "cross-host transfers"},
      {13, "executable metadata"},
      {14, "callback"},
      {15, "host allocator"},
  };
  const auto it = names.find(type);
  return it == names.end() ? internal::Cat("number ", type) : it->second;
}

void PrintPlugin(const pjrt::Plugin& plugin) {
  std::printf("plugin %s\n  PJRT %d.%d\n", plugin.path().c_str(), plugin.major_version(), plugin.minor_version());
  for (const auto& [name, value] : plugin.attributes()) std::printf("  %s %s\n", name.c_str(), ToText(value).c_str());
  const std::string extensions = internal::Join(plugin.extensions(), ", ", ExtensionName);
  std::printf("  extensions: %s\n", extensions.empty() ? "none" : extensions.c_str());
}

void PrintDevices(const pjrt::Client& client) {
  std::printf("  platform %s", client.platform().c_str());
  const auto topology = client.ReadTopology();
  const std::string version = topology.ok() ? topology->platform_version : "";
  std::printf("%s%s\n", version.empty() ? "" : ", version ", version.c_str());
  for (const pjrt::Device& device : client.devices()) {
    const std::string memories = internal::Join(device.memories, ", ", &pjrt::Memory::kind);
    std::printf("  device %d: %s, ordinal %d%s%s\n", device.id, device.kind.c_str(), device.ordinal,
                memories.empty() ? "" : ", memories ", memories.c_str());
  }
}

// Prints arrays. `numbers` are the numbers of a function's arguments, if the program does not take all of them.
void PrintArrays(const char* what, const std::vector<pjrt::ProgramArray>& arrays,
                 const std::vector<int>& numbers = {}) {
  size_t number = 0;  // Does not count tokens, which users neither pass nor get.
  for (const pjrt::ProgramArray& array : arrays) {
    if (array.type.dtype == DType::kToken) continue;
    const std::string whole = array.WholeType().ToString(), part = array.type.ToString();
    std::printf("  %s %zu: %s%s%s", what, number, whole.c_str(), whole == part ? "" : ", on each device ",
                whole == part ? "" : part.c_str());
    if (number < numbers.size() && numbers[number] != static_cast<int>(number)) {
      std::printf(", the function's argument %d", numbers[number]);
    }
    std::printf("\n");
    ++number;
  }
}

// The prefix of callbacks' names in programs that JAX itself lowered.
constexpr std::string_view kJaxNames = "jax:";

void PrintUses(const std::vector<pjrt::CallbackUse>& uses) {
  std::map<std::string, size_t> places;  // Groups uses by their printed text.
  std::vector<std::string> lines;
  for (const pjrt::CallbackUse& use : uses) {
    constexpr std::string_view kPrefix = "callout.v1.";
    const std::string target = use.target.starts_with(kPrefix) ? use.target.substr(kPrefix.size()) : use.target;
    const bool is_jax = use.name.starts_with(kJaxNames);
    const char* kind = is_jax ? nullptr : pjrt::KindWithoutBinding(use.name);
    std::string line = kind != nullptr ? kind : (is_jax ? "JAX's callback" : target) + " '" + use.name + "'";
    line += " " + Listed(use.operands);
    if (!use.results.empty()) line += " -> " + Listed(use.results);
    if (use.is_embedded) line += ", which the program carries";
    if (places[line]++ == 0) lines.push_back(line);
  }
  for (const std::string& line : lines) {
    const size_t count = places[line];
    std::printf("  %s%s\n", line.c_str(), count == 1 ? "" : (internal::Cat(", in ", count, " places")).c_str());
  }
}

void PrintCustomCalls(const std::vector<pjrt::CustomCallUse>& uses) {
  std::map<std::string, size_t> places;  // Groups uses by their printed text.
  for (const pjrt::CustomCallUse& use : uses) {
    const std::string giver = use.given_by.empty() ? "" : ", given by " + use.given_by;
    ++places["custom call '" + use.target + "' " + Listed(use.operands) + " -> " + Listed(use.results) + giver];
  }
  for (const auto& [line, count] : places) {
    std::printf("  %s%s\n", line.c_str(), count == 1 ? "" : (internal::Cat(", in ", count, " places")).c_str());
  }
}

// Quotes the text as one word of a shell.
std::string ShellQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// Lists names with possible bindings, in the form that `callout run` takes.
void PrintNames(const std::vector<std::string>& names) {
  std::string unbound;
  for (const std::string& name : names) {
    if (pjrt::KindWithoutBinding(name) != nullptr) continue;
    if (name.starts_with("py:")) {
      std::printf("  '%s' is a Python function of the process that traced it: it cannot be bound here\n", name.c_str());
    } else {
      unbound += " --bind " + ShellQuoted(name + "=...");
    }
  }
  if (!unbound.empty()) std::printf("  to run it:%s\n", unbound.c_str());
}

// Prints general properties of the program, before its arrays and calls.
void PrintHead(const pjrt::Program& program, const std::string& name, size_t num_devices, const std::string& path) {
  std::printf("program %s\n  name %s", path.c_str(), name.empty() ? "unknown" : name.c_str());
  if (num_devices > 1) std::printf(", on %zu devices", num_devices);
  if (!program.written_by.empty()) std::printf(", written by %s", program.written_by.c_str());
  const std::string version = program.StablehloVersion();
  std::printf("%s%s\n", version.empty() ? "" : ", StableHLO ", version.c_str());
  if (!program.shapes.empty()) {
    std::string others;
    for (const pjrt::Program& other : program.others) others += (others.empty() ? "; also for " : ", ") + other.shapes;
    std::printf("  for %s%s\n", program.shapes.c_str(), others.c_str());
  }
}

Status PrintProgram(const pjrt::Program& program, const pjrt::LoadedExecutable& executable, const std::string& path) {
  PrintHead(program, executable.name(), executable.num_devices(), path);
  CALLOUT_ASSIGN_OR_RETURN(const pjrt::Signature signature, executable.ReadSignature());
  PrintArrays("argument", signature.inputs, program.kept_arguments);
  PrintArrays("result", signature.outputs);
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<pjrt::CallbackUse> uses, executable.ReadCallbackUses());
  PrintUses(uses);
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<pjrt::CustomCallUse> others, executable.ReadCustomCalls());
  PrintCustomCalls(others);
  PrintNames(executable.callback_names());
  return OkStatus();
}

std::vector<pjrt::ProgramArray> Whole(const std::vector<pjrt::ArrayType>& types) {
  std::vector<pjrt::ProgramArray> arrays;
  arrays.reserve(types.size());
  for (const pjrt::ArrayType& type : types) {
    arrays.push_back({type, {.tiles = std::vector<int64_t>(type.dims.size(), 1), .parts = {}}});
  }
  return arrays;
}

Status PrintContents(const pjrt::Program& program, const std::string& path) {
  CALLOUT_ASSIGN_OR_RETURN(const pjrt::ProgramContents contents, pjrt::ReadContents(program));
  PrintHead(program, program.name, static_cast<size_t>(program.num_devices), path);
  const std::string platforms = internal::Join(program.platforms, ", ");
  if (!platforms.empty()) std::printf("  platforms %s\n", platforms.c_str());
  if (program.has_dimension_arguments)
    std::printf("  of symbolic shapes: to run it, export it for some, shapes=[...]\n");
  PrintArrays("argument", Whole(contents.inputs), program.kept_arguments);
  PrintArrays("result", Whole(contents.outputs));
  PrintUses(contents.callbacks);
  PrintCustomCalls(contents.custom_calls);
  std::vector<std::string> names;
  std::unordered_set<std::string_view> seen;
  for (const pjrt::CallbackUse& use : contents.callbacks) {
    if (!use.is_embedded && seen.insert(use.name).second) names.push_back(use.name);
  }
  PrintNames(names);
  return OkStatus();
}

Status PrintPluginInfo(const InfoOptions& options) {
  CALLOUT_ASSIGN_OR_RETURN(const auto plugin, pjrt::Plugin::Load(options.plugin.path));
  PrintPlugin(*plugin);
  CALLOUT_ASSIGN_OR_RETURN(const int devices, DevicesOf({}, options.device_count));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, OpenClient(options.plugin, devices));
  PrintDevices(*client);
  return OkStatus();
}

Status PrintProgramInfo(const InfoOptions& options) {
  CALLOUT_ASSIGN_OR_RETURN(const pjrt::Program program, pjrt::Program::FromFile(options.program));
  // A plugin cannot compile symbolic shapes.
  if (!options.compiles || program.has_dimension_arguments) return PrintContents(program, options.program);
  CALLOUT_ASSIGN_OR_RETURN(const int devices, DevicesOf(program, options.device_count));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, OpenClient(options.plugin, devices));
  Progress progress;
  progress.Begin("compiling '" + options.program + "'");
  const pjrt::CompileOptions compile{.allow_unbound_names = true, .embedded_code = false, .num_partitions = devices};
  pjrt::Program first = program;
  first.others.clear();
  CALLOUT_ASSIGN_OR_RETURN(const auto executable, pjrt::Compiler(client).Compile(first, compile));
  progress.End();
  return PrintProgram(program, executable, options.program);
}

}  // namespace

int Info(const InfoOptions& options) {
  const Status status = options.program.empty() ? PrintPluginInfo(options) : PrintProgramInfo(options);
  return status.ok() ? kSuccess : Refuse(status);
}

}  // namespace callout::tools
