// SPDX-License-Identifier: Apache-2.0
#include "host/programs/written_call.h"

#include <utility>

#include "core/attributes/jax_calls.h"

namespace callout::internal {

void AddCall(WrittenCall call, pjrt::ProgramContents& contents) {
  if (call.target == "shape_assertion") return;  // of JAX's symbolic shapes; it is gone once the shapes are known
  if (call.has_shape_operands && call.operands.size() >= call.results.size()) {
    call.operands.resize(call.operands.size() - call.results.size());
  }
  const auto is_token = [](const pjrt::ArrayType& type) { return type.dtype == DType::kToken; };
  std::erase_if(call.operands, is_token);
  std::erase_if(call.results, is_token);
  const bool is_jax = IsJaxTarget(call.target);
  if (!is_jax && !call.target.starts_with("callout.v")) {
    contents.custom_calls.push_back({std::move(call.target), "", std::move(call.operands), std::move(call.results)});
    return;
  }
  std::string name = call.callback.value_or("");
  if (is_jax) name = std::string(kJaxNamePrefix) + (call.jax_index ? std::to_string(*call.jax_index) : "?");
  contents.callbacks.push_back(
      {std::move(name), std::move(call.target), call.is_embedded, std::move(call.operands), std::move(call.results)});
}

}  // namespace callout::internal
