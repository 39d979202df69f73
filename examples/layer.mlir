// A dense layer, relu(x * w + b), partly in generic form.
func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %xw = "stablehlo.dot"(%x, %w) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %bias = "stablehlo.broadcast_in_dim"(%b) {broadcast_dimensions = array<i64: 1>}
    : (tensor<4xf32>) -> tensor<8x4xf32>
  %sum = stablehlo.add %xw, %bias : tensor<8x4xf32>
  %zeros = stablehlo.constant dense<0.0> : tensor<8x4xf32>
  %relu = stablehlo.maximum %sum, %zeros : tensor<8x4xf32> loc("relu"("layer.py":12:4))
  func.return %relu : tensor<8x4xf32>
}
