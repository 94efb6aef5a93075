// SPDX-License-Identifier: Apache-2.0
#include "callout/status.h"

namespace callout {

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk) error_ = std::make_unique<Error>(Error{code, std::move(message)});
}

}  // namespace callout
