// SPDX-License-Identifier: Apache-2.0
//
// Programs with send and receive operations, in MLIR's text forms.
#pragma once

#include <string>

namespace callout::pjrt {

/// Sends f32[4] and s32[] on channels 1 and 2, and receives f32[4] and f32[2] on channels 3 and 4, in MLIR's pretty
/// form.
inline constexpr char kPretty[] = R"(module @m {
  func.func public @main(%arg0: tensor<4xf32>, %arg1: tensor<i32>) -> (tensor<4xf32>, tensor<2xf32>) {
    %0 = stablehlo.after_all  : !stablehlo.token
    %1 = "stablehlo.send"(%arg0, %0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
    %2 = "stablehlo.send"(%arg1, %1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>, is_host_transfer = true}> : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
    %3:2 = "stablehlo.recv"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>, is_host_transfer = true}> {mhlo.frontend_attributes = {_xla_host_transfer_rendezvous = "x, }"}} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %4:2 = "stablehlo.recv"(%3#1) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
    return %3#0, %4#0 : tensor<4xf32>, tensor<2xf32>
  }
}
)";

/// Does the transfers of kPretty, in MLIR's generic form, with locations.
inline constexpr char kGeneric[] = R"mlir(#loc2 = loc("-":3:26)
#loc3 = loc("-":3:45)
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<4xf32>, tensor<i32>) -> (tensor<4xf32>, tensor<2xf32>), sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("-":3:26), %arg1: tensor<i32> loc("-":3:45)):
    %0 = "stablehlo.after_all"() : () -> !stablehlo.token loc(#loc4)
    %1 = "stablehlo.send"(%arg0, %0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token loc(#loc5)
    %2 = "stablehlo.send"(%arg1, %1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>, is_host_transfer = true}> : (tensor<i32>, !stablehlo.token) -> !stablehlo.token loc(callsite("f(\")"("p.py":1:2) at #loc6))
    %3:2 = "stablehlo.recv"(%2) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token) loc(#loc7)
    %4:2 = "stablehlo.recv"(%3#1) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token) loc(#loc8)
    "func.return"(%3#0, %4#0) : (tensor<4xf32>, tensor<2xf32>) -> () loc(#loc9)
  }) : () -> () loc(#loc1)
}) : () -> () loc(#loc)
#loc = loc("-":2:1)
#loc1 = loc("-":3:3)
#loc4 = loc("-":4:11)
#loc5 = loc("-":5:11)
#loc6 = loc("-":6:11)
#loc7 = loc("-":7:12)
#loc8 = loc("-":8:12)
#loc9 = loc("-":9:5)
)mlir";

/// Does the transfers of kPretty, written by hand: without properties, with other names, comments and line breaks, and
/// without names for unused values.
inline constexpr char kByHand[] = R"(// "stablehlo.send"(%x) { is a comment
module @m attributes {mhlo.note = "stablehlo.send"} {
  func.func public @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<2xf32>) {
    %zero = stablehlo.after_all : !stablehlo.token
    %one = "stablehlo.send"(%x, %zero) {
      channel_handle = #stablehlo.channel_handle<type = 2, handle = 1>, is_host_transfer = true
    } : (tensor<4xf32>, !stablehlo.token) -> (!stablehlo.token)  // sent
    %two = "stablehlo.send"(%n, %one) {"is_host_transfer" = true, channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>} : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
    %y, %three = "stablehlo.recv"(%two) {channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
    %y2 = stablehlo.negate %y : tensor<4xf32>
    %z:2 = "stablehlo.recv"(%three) {channel_handle = #stablehlo.channel_handle<handle = 4, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
    %y3 = stablehlo.negate %y2 : tensor<4xf32>
    return %y3, %z#0 : tensor<4xf32>, tensor<2xf32>
  }
}
)";

/// Repeats `count` times: sends f32[] on channel 1 and the loop's counter on channel 2, and receives the next f32[] on
/// channel 3; with `in_function`, in a function that the loop calls. Then sends the result on channel 4.
inline std::string TransferLoop(int count, bool in_function) {
  const std::string body =
      R"(    %5 = "stablehlo.send"(%v, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
    %6 = "stablehlo.send"(%i, %5) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>, is_host_transfer = true}> : (tensor<i32>, !stablehlo.token) -> !stablehlo.token
    %7:2 = "stablehlo.recv"(%6) <{channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
)";
  const std::string in_loop =
      in_function ? "    %7:2 = func.call @f(%v, %i, %t) : (tensor<f32>, tensor<i32>, !stablehlo.token) -> "
                    "(tensor<f32>, !stablehlo.token)\n"
                  : body;
  const std::string function =
      in_function ? "func.func private @f(%v: tensor<f32>, %i: tensor<i32>, %t: !stablehlo.token) -> (tensor<f32>, "
                    "!stablehlo.token) {\n" +
                        body + "    return %7#0, %7#1 : tensor<f32>, !stablehlo.token\n}\n"
                  : "";
  return "module @m {\n" + function + R"(func.func public @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.after_all : !stablehlo.token
  %1 = stablehlo.constant dense<0> : tensor<i32>
  %2:3 = stablehlo.while(%i = %1, %v = %x, %t = %0) : tensor<i32>, tensor<f32>, !stablehlo.token
  cond {
    %5 = stablehlo.constant dense<)" +
         std::to_string(count) + R"(> : tensor<i32>
    %6 = stablehlo.compare LT, %i, %5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %6 : tensor<i1>
  } do {
)" + in_loop +
         R"(    %8 = stablehlo.constant dense<1> : tensor<i32>
    %9 = stablehlo.add %i, %8 : tensor<i32>
    stablehlo.return %9, %7#0, %7#1 : tensor<i32>, tensor<f32>, !stablehlo.token
  }
  %5 = "stablehlo.send"(%2#1, %2#2) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 2>, is_host_transfer = true}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
  return %2#1 : tensor<f32>
}
}
)";
}

}  // namespace callout::pjrt
