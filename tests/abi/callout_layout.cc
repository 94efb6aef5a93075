// SPDX-License-Identifier: Apache-2.0
//
// This file contains no test code: compiling it is the check. Our own C ABI is frozen: libraries of callbacks that were
// compiled against version 1 keep working. Fields may be appended, with a new line here; existing lines never change.
#include <cstddef>
#include <type_traits>

#include "callout/abi.h"
#include "callout/dtype.h"
#include "callout/queue_policy.h"
#include "callout/status.h"

#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), #type)
#define OFFSET(type, field, bytes) static_assert(offsetof(type, field) == (bytes), #type "." #field)

static_assert(CALLOUT_ABI_VERSION == 1);

static_assert(std::is_standard_layout_v<callout_buffer> && std::is_trivial_v<callout_buffer>);
SIZE(callout_buffer, 32);
OFFSET(callout_buffer, dtype, 0);
OFFSET(callout_buffer, rank, 4);
OFFSET(callout_buffer, data, 8);
OFFSET(callout_buffer, dims, 16);
OFFSET(callout_buffer, size_bytes, 24);

static_assert(std::is_standard_layout_v<callout_call> && std::is_trivial_v<callout_call>);
SIZE(callout_call, 112);
OFFSET(callout_call, struct_size, 0);
OFFSET(callout_call, num_args, 8);
OFFSET(callout_call, num_results, 12);
OFFSET(callout_call, args, 16);
OFFSET(callout_call, results, 24);
OFFSET(callout_call, run_id, 32);
OFFSET(callout_call, device_ordinal, 40);
OFFSET(callout_call, platform, 44);
OFFSET(callout_call, error_context, 48);
OFFSET(callout_call, set_error, 56);
OFFSET(callout_call, attributes, 64);
OFFSET(callout_call, num_attributes, 72);
OFFSET(callout_call, allocator, 80);
OFFSET(callout_call, allocate, 88);
OFFSET(callout_call, stream, 96);
OFFSET(callout_call, context, 104);
static_assert(CALLOUT_PLATFORM_HOST == 0 && CALLOUT_PLATFORM_CUDA == 1);

static_assert(std::is_standard_layout_v<callout_attribute> && std::is_trivial_v<callout_attribute>);
SIZE(callout_attribute, 32);
OFFSET(callout_attribute, name, 0);
OFFSET(callout_attribute, kind, 8);
OFFSET(callout_attribute, dtype, 12);
OFFSET(callout_attribute, data, 16);
OFFSET(callout_attribute, count, 24);
static_assert(CALLOUT_ATTRIBUTE_SCALAR == 1 && CALLOUT_ATTRIBUTE_ARRAY == 2 && CALLOUT_ATTRIBUTE_STRING == 3);

static_assert(std::is_standard_layout_v<callout_parameter> && std::is_trivial_v<callout_parameter>);
SIZE(callout_parameter, 24);
OFFSET(callout_parameter, kind, 0);
OFFSET(callout_parameter, dtype, 4);
OFFSET(callout_parameter, rank, 8);
OFFSET(callout_parameter, name, 16);
static_assert(CALLOUT_PARAMETER_IN == 1 && CALLOUT_PARAMETER_OUT == 2 && CALLOUT_PARAMETER_ATTRIBUTE == 3);

static_assert(std::is_standard_layout_v<callout_function> && std::is_trivial_v<callout_function>);
SIZE(callout_function, 40);
OFFSET(callout_function, struct_size, 0);
OFFSET(callout_function, abi_version, 8);
OFFSET(callout_function, kind, 12);
OFFSET(callout_function, fn, 16);
OFFSET(callout_function, parameters, 24);
OFFSET(callout_function, num_parameters, 32);
static_assert(CALLOUT_FUNCTION_POINTERS == 1 && CALLOUT_FUNCTION_CALL == 2);

static_assert(std::is_standard_layout_v<callout_closure> && std::is_trivial_v<callout_closure>);
SIZE(callout_closure, 32);
OFFSET(callout_closure, struct_size, 0);
OFFSET(callout_closure, call, 8);
OFFSET(callout_closure, context, 16);
OFFSET(callout_closure, destroy, 24);

static_assert(std::is_standard_layout_v<callout_api> && std::is_trivial_v<callout_api>);
SIZE(callout_api, 32);
OFFSET(callout_api, struct_size, 0);
OFFSET(callout_api, abi_version, 8);
OFFSET(callout_api, register_function, 16);
OFFSET(callout_api, unregister, 24);

static_assert(std::is_same_v<callout_call_fn, int32_t (*)(const callout_call*)>);
static_assert(std::is_same_v<callout_pointers_fn, int32_t (*)(void**, const int64_t*)>);
static_assert(std::is_same_v<callout_stream_fn, int32_t (*)(void**, const int64_t*, void*)>);
static_assert(std::is_same_v<decltype(callout_get_api), const callout_api*(uint32_t)>);

// Exported programs and other languages embed these numbers.
static_assert(static_cast<int>(callout::OverflowPolicy::kBlock) == 0 &&
              static_cast<int>(callout::OverflowPolicy::kDropNewest) == 1 &&
              static_cast<int>(callout::OverflowPolicy::kFail) == 2);
static_assert(static_cast<int>(callout::StatusCode::kInvalidArgument) == 3 &&
              static_cast<int>(callout::StatusCode::kNotFound) == 5 &&
              static_cast<int>(callout::StatusCode::kAlreadyExists) == 6 &&
              static_cast<int>(callout::StatusCode::kInternal) == 13);
static_assert(static_cast<int>(callout::DType::kBool) == 1 && static_cast<int>(callout::DType::kInt32) == 4 &&
              static_cast<int>(callout::DType::kInt64) == 5 && static_cast<int>(callout::DType::kFloat32) == 11 &&
              static_cast<int>(callout::DType::kFloat64) == 12 && static_cast<int>(callout::DType::kComplex64) == 15);
