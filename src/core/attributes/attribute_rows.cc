// SPDX-License-Identifier: Apache-2.0
#include "core/attributes/attribute_rows.h"

#include "core/attributes/site_attributes.h"

namespace callout::internal {

std::span<const TargetAttributes> AllTargetAttributes() {
  static constexpr TargetAttributes kAll[] = {
      {"callout.v1.buffer", kDescriptions<BufferAttributes>},
      {"callout.v1.buffer_capturable", kDescriptions<BufferAttributes>},
      {"callout.v1.call", kDescriptions<CallAttributes>},
      {"callout.v1.check", kDescriptions<CheckAttributes>},
      {"callout.v1.gathered_call", kDescriptions<GatheredCallAttributes>},
      {"callout.v1.gathered_tap", kDescriptions<GatheredTapAttributes>},
      {"callout.v1.image", kDescriptions<ImageAttributes>},
      {"callout.v1.image_sync", kDescriptions<ImageAttributes>},
      {"callout.v1.read", kDescriptions<ReadAttributes>},
      {"callout.v1.tap", kDescriptions<TapAttributes>},
  };
  return kAll;
}

}  // namespace callout::internal
