// What definitions demand of counts, attributes, types, regions, and the traits they name.

func.func @zero_regions(%a: tensor<2xf32>) {
  // expected-error@+1 {{'stablehlo.negate' op requires zero regions}}
  %0 = "stablehlo.negate"(%a) ({}) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @two_operands(%a: tensor<2xf32>) {
  // expected-error@+1 {{'stablehlo.add' op expected 2 operands, but found 1}}
  %0 = "stablehlo.add"(%a) : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @one_or_more_operands() {
  // expected-error@+1 {{'stablehlo.concatenate' op expected 1 or more operands, but found 0}}
  %0 = "stablehlo.concatenate"() {dimension = 0 : i64} : () -> tensor<2xf32>
  func.return
}

// -----

func.func @two_results(%a: tensor<2xui64>) {
  // expected-error@+1 {{'stablehlo.rng_bit_generator' op expected 2 results}}
  %0 = "stablehlo.rng_bit_generator"(%a) {rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>) -> tensor<2xui64>
  func.return
}

// -----

func.func @missing_attribute(%a: tensor<2xf32>) {
  // expected-error@+1 {{'stablehlo.slice' op requires attribute 'limit_indices'}}
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @attribute_of_another_kind(%a: tensor<2xf32>) {
  // expected-error@+1 {{'stablehlo.reverse' op attribute 'dimensions' failed to satisfy constraint: i64 dense array attribute}}
  %0 = "stablehlo.reverse"(%a) {dimensions = array<i32: 0>} : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @negative(%a: tensor<2xf32>) {
  // expected-error@+1 {{attribute 'dimension' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  %0 = "stablehlo.concatenate"(%a) {dimension = -1 : i64} : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @operand_type(%a: tensor<2xi32>) {
  // expected-error-re@+1 {{'stablehlo.ceil' op operand #0 must be ranked tensor of {{.*}}-bit float or per-tensor integer quantized values, but got 'tensor<2xi32>'}}
  %0 = "stablehlo.ceil"(%a) : (tensor<2xi32>) -> tensor<2xi32>
  func.return
}

// -----

func.func @variadic_operand_type(%a: tensor<2xi32>) {
  %t = stablehlo.create_token : !stablehlo.token
  // expected-error@+1 {{'stablehlo.after_all' op operand #1 must be variadic of token, but got 'tensor<2xi32>'}}
  %0 = "stablehlo.after_all"(%t, %a) : (!stablehlo.token, tensor<2xi32>) -> !stablehlo.token
  func.return
}

// -----

func.func @result_type(%a: tensor<1xindex>) {
  // expected-error-re@+1 {{'stablehlo.is_finite' op result #0 must be ranked tensor of {{.*}}, but got 'tensor<2xi8>'}}
  %0 = "stablehlo.is_finite"(%b) : (tensor<2xf32>) -> tensor<2xi8>
  %b = "x.make"() : () -> tensor<2xf32>
  func.return
}

// -----

func.func @quantized_dimension_out_of_range(%a: tensor<2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>) {
  // expected-error@+1 {{operand #0 must be}}
  %0 = "stablehlo.reshape"(%a) : (tensor<2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>) -> tensor<2x!quant.uniform<i8:f32:1, {1.0, 2.0}>>
  func.return
}

// -----

func.func @region_without_blocks(%p: tensor<i1>) {
  // expected-error@+1 {{'stablehlo.if' op region #1 ('false_branch') failed to verify constraint: region with 1 blocks}}
  "stablehlo.if"(%p) ({
    "stablehlo.return"() : () -> ()
  }, {
  }) : (tensor<i1>) -> ()
  func.return
}

// -----

func.func @region_with_two_blocks(%p: tensor<i1>) {
  // expected-error@+1 {{'stablehlo.if' op expects region #0 to have 0 or 1 blocks}}
  "stablehlo.if"(%p) ({
    "stablehlo.return"() : () -> ()
  ^bb1:
    "stablehlo.return"() : () -> ()
  }, {
    "stablehlo.return"() : () -> ()
  }) : (tensor<i1>) -> ()
  func.return
}

// -----

func.func @compatible(%a: tensor<2xf32>, %b: tensor<2xf64>) {
  // expected-error@+1 {{'stablehlo.multiply' op requires compatible types for all operands and results}}
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xf32>
  func.return
}

// -----

func.func @dynamic_sizes_are_compatible(%a: tensor<2x?xf32>, %b: tensor<?x3xf32>) {
  %0 = "stablehlo.multiply"(%a, %b) : (tensor<2x?xf32>, tensor<?x3xf32>) -> tensor<?x?xf32>
  func.return
}

// -----

func.func @same_shape(%a: tensor<2xf32>) {
  // expected-error@+1 {{'stablehlo.convert' op requires the same shape for all operands and results}}
  %0 = "stablehlo.convert"(%a) : (tensor<2xf32>) -> tensor<3xi32>
  func.return
}

// -----

func.func @same_element(%a: tensor<2xf32>) {
  // expected-error@+1 {{'stablehlo.reverse' op requires the same element type for all operands and results}}
  %0 = "stablehlo.reverse"(%a) {dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2xf64>
  func.return
}

// -----

func.func @elementwise(%a: tensor<2xcomplex<f32>>) {
  // expected-error@+1 {{'stablehlo.real' op all non-scalar operands/results must have the same shape and base type}}
  %0 = "stablehlo.real"(%a) : (tensor<2xcomplex<f32>>) -> tensor<3xf32>
  func.return
}

// -----

func.func @agreement(%a: tensor<4xf32>, %i: tensor<i32>) {
  // expected-error@+1 {{'stablehlo.dynamic_slice' op failed to verify that all of {operand, result} have same element type}}
  %0 = "stablehlo.dynamic_slice"(%a, %i) {slice_sizes = array<i64: 2>} : (tensor<4xf32>, tensor<i32>) -> tensor<2xf64>
  func.return
}

// -----

func.func @sizes_of_attributes(%a: tensor<4x4xf32>) {
  // expected-error@+1 {{'stablehlo.slice' op failed to verify that all of {start_indices, limit_indices, strides} have same size}}
  %0 = "stablehlo.slice"(%a) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 2, 2>, strides = array<i64: 1>} : (tensor<4x4xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @pairwise(%a: tensor<4xf32>, %b: tensor<4xi32>) {
  // expected-error@+1 {{'stablehlo.optimization_barrier' op requires the same type for operand and result at index 1}}
  %0:2 = "stablehlo.optimization_barrier"(%a, %b) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>)
  func.return
}

// -----

func.func @inference_says_it_twice(%a: tensor<4xf32>) {
  // expected-error@+2 {{'stablehlo.reverse' op inferred type(s) 'tensor<4xf32>' are incompatible with return type(s) of operation 'tensor<5xf32>'}}
  // expected-error@+1 {{'stablehlo.reverse' op failed to infer returned types}}
  %0 = "stablehlo.reverse"(%a) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @inference_waits_for_the_regions(%p: tensor<i1>, %a: tensor<4xf32>) {
  %0 = "stablehlo.if"(%p) ({
    // expected-error@+1 {{requires a single operand}}
    %1 = "stablehlo.negate"() : () -> tensor<4xf32>
    "stablehlo.return"(%a) : (tensor<4xf32>) -> ()
  }, {
    "stablehlo.return"() : () -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  func.return
}

// -----

func.func @attributes_of_a_pretty_form(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = stablehlo.convolution(%l, %r)
    dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [1, 1]}
    // expected-error@+1 {{attribute 'feature_group_count' failed to satisfy constraint}}
    {
      batch_group_count = 1 : i64,
      feature_group_count = 0 : i64
    } : (tensor<1x8x8x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x6x6x16xf32>
  %l = "x.make"() : () -> tensor<1x8x8x3xf32>
  %r = "x.make"() : () -> tensor<3x3x3x16xf32>
  func.return
}

// -----

func.func @some_quantized(%a: tensor<2x!quant.uniform<i8:f32, 1.0>>, %b: tensor<2xf32>) {
  // expected-error@+1 {{expects  all operands and results to be either quantized or non-quantized}}
  %0 = "stablehlo.add"(%a, %b) : (tensor<2x!quant.uniform<i8:f32, 1.0>>, tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 1.0>>
  return
}

// -----

func.func @a_buffer_from_nowhere(%a: memref<2xf32>) {
  // expected-error@+1 {{buffer output [] is not used in output_operand_alias}}
  %0 = "stablehlo.custom_call"(%a) {call_target_name = "foo"} : (memref<2xf32>) -> memref<2xf32>
  return
}

// -----

func.func @two_outputs_of_one_buffer(%a: memref<2xf32>) {
  // expected-error@+1 {{buffer operand 0[] is used in output_operand_alias more than once}}
  %0:2 = "stablehlo.custom_call"(%a) {call_target_name = "foo", output_operand_aliases = [
    #stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>,
    #stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 0, operand_tuple_indices = []>
  ]} : (memref<2xf32>) -> (memref<2xf32>, memref<2xf32>)
  return
}
