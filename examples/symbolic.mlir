// What jax.export writes for two sizes with names, b and s: the row sums of x, and as many zeros.
module @rows attributes {jax.uses_shape_polymorphism = true} {
  func.func public @main(%x: tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %b = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
    %s = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
    %ok = stablehlo.compare GE, %s, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%ok, %s) {api_version = 2 : i32, error_message = "Expected value >= 1 for dimension variable 's', found {0}. Using the following polymorphic shapes specifications: args[0].shape = (b, s).", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
    %r:2 = call @_wrapped_jax_export_main(%b, %s, %x) : (tensor<i32>, tensor<i32>, tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xf32>)
    return %r#0, %r#1 : tensor<?xf32>, tensor<?xf32>
  }
  func.func private @_wrapped_jax_export_main(%b: tensor<i32> {jax.global_constant = "b"}, %s: tensor<i32> {jax.global_constant = "s"}, %x: tensor<?x?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sums = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
    %size = stablehlo.reshape %b : (tensor<i32>) -> tensor<1xi32>
    %zeros = stablehlo.dynamic_broadcast_in_dim %zero, %size, dims = [] : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
    return %sums, %zeros : tensor<?xf32>, tensor<?xf32>
  }
}
