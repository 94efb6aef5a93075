func.func public @main(%x: tensor<f32>, %y: tensor<4xf32>) -> tensor<f32> {
%0 = stablehlo.after_all : !stablehlo.token
%1 = "stablehlo.send"(%x, %0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
%2 = "stablehlo.send"(%y, %1) <{channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>, is_host_transfer = true}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
%3:2 = "stablehlo.recv"(%2) {channel_handle = #stablehlo.channel_handle<handle = 3, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<i32>, !stablehlo.token)
%4 = "stablehlo.send"(%x, %3#1) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 2>, is_host_transfer = true}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
return %x : tensor<f32>
}
