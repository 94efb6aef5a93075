// SPDX-License-Identifier: Apache-2.0
#include "ffi/find_callback.h"

#include "registry/embedded_library.h"
#include "registry/registry.h"

namespace callout::internal {

Result<std::shared_ptr<Callback>> FindCallback(const XLA_FFI_Attrs& attrs) {
  CALLOUT_ASSIGN_OR_RETURN(const std::string_view name, StringAttribute(attrs, "callback"));
  CALLOUT_ASSIGN_OR_RETURN(const std::string_view needed, StringAttribute(attrs, "names"));
  CALLOUT_ASSIGN_OR_RETURN(const XLA_FFI_Attrs* library, DictionaryAttribute(attrs, "library"));
  if (library == nullptr) return Registry::Get().Find(name, needed);
  EmbeddedLibrary embedded;
  CALLOUT_ASSIGN_OR_RETURN(embedded.bytes, StringAttribute(*library, "bytes"));
  CALLOUT_ASSIGN_OR_RETURN(embedded.digest, StringAttribute(*library, "digest"));
  CALLOUT_ASSIGN_OR_RETURN(embedded.platform, StringAttribute(*library, "platform"));
  CALLOUT_ASSIGN_OR_RETURN(embedded.symbol, StringAttribute(*library, "symbol"));
  return LoadEmbeddedFunction(std::string(name), embedded);
}

}  // namespace callout::internal
