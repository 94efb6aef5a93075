// SPDX-License-Identifier: Apache-2.0
//
// Programs for several shapes: one executable for each, chosen by the arguments.
#include <algorithm>
#include <string>

#include "callout/pjrt/executable.h"
#include "core/base/small_buffer.h"
#include "host/executables/argument_types.h"

namespace callout::pjrt {
namespace {

std::string ListOf(const std::vector<ArrayType>& types) {
  std::string text;
  for (const ArrayType& type : types) text += (text.empty() ? "" : ", ") + type.ToString();
  return "(" + text + ")";
}

// The types that it takes on a device, "?" where the plugin does not tell.
std::string TakenBy(const LoadedExecutable& executable) {
  const Result<Signature> signature = executable.ReadSignature();
  if (!signature.ok()) return "?";
  std::vector<ArrayType> types;
  for (const ProgramArray& input : signature->inputs) types.push_back(input.type);
  return ListOf(types);
}

Status NoneTakes(const LoadedExecutable& executable, std::span<const Buffer* const> arguments) {
  std::vector<ArrayType> types;
  for (const Buffer* buffer : arguments) {
    CALLOUT_ASSIGN_OR_RETURN(const DType dtype, buffer->dtype());
    CALLOUT_ASSIGN_OR_RETURN(std::vector<int64_t> dims, buffer->dims());
    types.push_back({dtype, std::move(dims)});
  }
  std::string known;
  for (const LoadedExecutable* each : executable.for_shapes()) {
    known += (known.empty() ? " " : "; ") + each->shapes() + " takes " + TakenBy(*each);
  }
  return InvalidArgument("callout: the program '" + executable.name() + "' was not exported for " + ListOf(types) +
                         ":" + known);
}

}  // namespace

std::vector<const LoadedExecutable*> LoadedExecutable::for_shapes() const {
  std::vector<const LoadedExecutable*> all = {this};
  for (const LoadedExecutable& other : others_) all.push_back(&other);
  return all;
}

Result<const LoadedExecutable*> LoadedExecutable::Choose(Arguments arguments) const {
  const auto is_null = [](const Buffer* buffer) { return buffer == nullptr || buffer->handle() == nullptr; };
  for (const std::span<const Buffer* const> of_device : arguments) {
    for (const Buffer* buffer : of_device) {
      if (is_null(buffer)) return this;  // which says so
    }
  }
  if (arguments.size() != num_devices_) return this;  // which says so
  for (const LoadedExecutable* each : for_shapes()) {
    if (each->argument_types_->AreKnown(*each)) continue;
    return Unimplemented("callout: the program '" + name() +
                         "' was exported for several shapes, and the plugin does not "
                         "tell which of them an executable takes");
  }
  const internal::PjrtApi& api = client()->plugin().api();
  if (argument_types_->Check(arguments, *this, api).ok()) return this;
  for (const LoadedExecutable& other : others_) {
    if (other.argument_types_->Check(arguments, other, api).ok()) return &other;
  }
  return NoneTakes(*this, arguments[0]);
}

Result<Execution> LoadedExecutable::Execute(std::span<const std::vector<const Buffer*>> arguments,
                                            const ExecuteOptions& options) const {
  internal::SmallBuffer<std::span<const Buffer* const>, 8> lists(arguments.size());
  std::copy(arguments.begin(), arguments.end(), lists.data());
  const Arguments all(lists.data(), lists.size());
  if (others_.empty()) [[likely]]
    return ExecuteThis(all, options);
  CALLOUT_ASSIGN_OR_RETURN(const LoadedExecutable* const chosen, Choose(all));
  return chosen->ExecuteThis(all, options);
}

Result<std::vector<Buffer>> LoadedExecutable::Run(const std::vector<const Buffer*>& arguments,
                                                  const ExecuteOptions& options) const {
  return RunChosen(arguments, options);
}

Result<std::vector<Buffer>> LoadedExecutable::Run(std::initializer_list<const Buffer*> arguments,
                                                  const ExecuteOptions& options) const {
  return RunChosen({arguments.begin(), arguments.size()}, options);
}

Result<std::vector<Buffer>> LoadedExecutable::RunChosen(std::span<const Buffer* const> arguments,
                                                        const ExecuteOptions& options) const {
  if (others_.empty()) [[likely]]
    return RunThis(arguments, options);
  CALLOUT_ASSIGN_OR_RETURN(const LoadedExecutable* const chosen, Choose({&arguments, 1}));
  return chosen->RunThis(arguments, options);
}

}  // namespace callout::pjrt
