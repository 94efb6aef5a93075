// SPDX-License-Identifier: Apache-2.0
#include "host/pjrt/pjrt_abi.h"

#include "core/base/cat.h"
#include "core/base/status.h"
#include "core/encoding/error_tag.h"

namespace callout::internal {

static_assert(PJRT_API_MAJOR == 0, "what plugins are checked for");
static_assert(static_cast<int>(StatusCode::kInternal) == PJRT_Error_Code_INTERNAL &&
              static_cast<int>(StatusCode::kUnauthenticated) == PJRT_Error_Code_UNAUTHENTICATED);

const PJRT_Extension_Base* PjrtApi::Extension(PJRT_Extension_Type type) const {
  const PJRT_Extension_Base* extension = table_->extension_start;
  while (extension != nullptr && EnumNumber(extension->type) != type) extension = extension->next;
  return extension;
}

Status PjrtApi::TakeFailure(PJRT_Error* error) const {
  PjrtArgs<PJRT_Error_Message_Args> message;
  message.error = error;
  table_->PJRT_Error_Message(&message);
  PjrtArgs<PJRT_Error_GetCode_Args> code;
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  PJRT_Error* without_code = table_->PJRT_Error_GetCode(&code);
  std::string text(message.message == nullptr ? "" : message.message, message.message_size);
  // XLA:CPU puts this text before the error of a program that ran on its threads.
  constexpr std::string_view kOfArray = "Buffer Definition Event: ";
  if (text.starts_with(kOfArray)) text.erase(0, kOfArray.size());
  for (PJRT_Error* each : {without_code, error}) {
    if (each == nullptr) continue;
    PjrtArgs<PJRT_Error_Destroy_Args> destroy;
    destroy.error = each;
    table_->PJRT_Error_Destroy(&destroy);
  }
  // An error without a code is still an error.
  const auto number = static_cast<StatusCode>(EnumNumber(code.code) == PJRT_Error_Code_OK ? PJRT_Error_Code_UNKNOWN
                                                                                          : EnumNumber(code.code));
  return FromTaggedMessage(number, std::move(text));
}

Status PjrtApi::Threw(std::string_view name) {
  const Status caught = CaughtStatus();
  return caught.WithMessage("callout: the plugin threw an exception in " + std::string(name) + ": " +
                            std::string(caught.message()));
}

Status PjrtApi::Missing(std::string_view name) const {
  const PJRT_Api_Version& version = table_->pjrt_api_version;
  return Unimplemented(
      Cat("callout: the plugin (PJRT ", version.major_version, ".", version.minor_version, ") does not have ", name));
}

}  // namespace callout::internal
