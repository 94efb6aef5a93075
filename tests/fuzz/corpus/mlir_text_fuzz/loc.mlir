module @m {
func.func public @main(%x: tensor<f32>, %y: tensor<4xf32>) -> tensor<f32> {
%0 = stablehlo.after_all : !stablehlo.token
%1 = "stablehlo.send"(%x, %0) <{channel_handle = #stablehlo.channel_handle<handle = 4, type = 2>, is_host_transfer = true}> : (tensor<f32>, !stablehlo.token) -> !stablehlo.token loc(#loc1)
return %x : tensor<f32>
}
}
#loc1 = loc("a/b.py":1:2)
