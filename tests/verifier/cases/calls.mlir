// custom_call, async_start, the ops of StableHLO's tests.

func.func @layouts_of_both(%a: tensor<2xf32>) {
  // expected-error@+1 {{Layout attributes should be specified for either both operands and results or none}}
  "stablehlo.custom_call"(%a) {call_target_name = "f", operand_layouts = [dense<0> : tensor<1xindex>]} : (tensor<2xf32>) -> ()
  func.return
}

// -----

func.func @as_many_layouts(%a: tensor<2xf32>) {
  // expected-error@+1 {{Number of operands must match the number of operand layouts, 1 != 0}}
  "stablehlo.custom_call"(%a) {call_target_name = "f", operand_layouts = [], result_layouts = []} : (tensor<2xf32>) -> ()
  func.return
}

// -----

func.func @layout_of_a_token(%t: !stablehlo.token) {
  // expected-error@+1 {{Only tensor types can have non-empty layout: operand #0 of type '!stablehlo.token' has layout dense<0> : tensor<1xindex>}}
  "stablehlo.custom_call"(%t) {call_target_name = "f", operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = []} : (!stablehlo.token) -> ()
  func.return
}

// -----

func.func @layout(%a: tensor<2x3xf32>) {
  // expected-error@+1 {{incorrect layout dense<[0, 2]> : tensor<2xindex> for type 'tensor<2x3xf32>', layout must be a permutation of [0, 2)}}
  "stablehlo.custom_call"(%a) {call_target_name = "f", operand_layouts = [dense<[0, 2]> : tensor<2xindex>], result_layouts = []} : (tensor<2x3xf32>) -> ()
  func.return
}

// -----

func.func @alias(%a: tensor<2xf32>) {
  // expected-error@+1 {{shapes mismatch in the output_operand_alias attribute: operand part has type 'tensor<2xf32>' and output part has type 'tensor<3xf32>'}}
  %0 = "stablehlo.custom_call"(%a) {
    call_target_name = "f",
    output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]
  } : (tensor<2xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @configuration() {
  // expected-error@+1 {{backend_config for api_version API_VERSION_ORIGINAL must be a string attribute}}
  "stablehlo.custom_call"() {call_target_name = "f", api_version = 1 : i32, backend_config = {}} : () -> ()
  func.return
}

// -----

func.func @wrapped(%a: tensor<4x4xf32>) {
  // expected-error@+2 {{'stablehlo.async_start' op region must contain a collective or slice operation}}
  // expected-error@+1 {{'stablehlo.async_start' op failed to infer returned types}}
  %0 = "stablehlo.async_start"(%a) ({
  ^bb0(%b: tensor<4x4xf32>):
    %1 = stablehlo.negate %b : tensor<4x4xf32>
    "stablehlo.return"(%1) : (tensor<4x4xf32>) -> ()
  }) : (tensor<4x4xf32>) -> !stablehlo.future<tensor<4x4xf32>>
  func.return
}

// -----

func.func @constant(%a: tensor<2xf32>) {
  // expected-error@+1 {{failed to verify that all of {lhs, value} have same type}}
  "check.expect_eq_const"(%a) <{value = dense<1.0> : tensor<3xf32>}> : (tensor<2xf32>) -> ()
  func.return
}

// -----

func.func @grid() {
  // expected-error@+1 {{Function "nobody" not found}}
  "interpreter.run_parallel"() {programs = [[@nobody]]} : () -> ()
  func.return
}

// -----

func.func private @program(tensor<f32>) -> tensor<f32>
func.func @grid(%a: tensor<f32>) {
  // expected-error@+1 {{Number of results (0) should match the sum of the number of results of all programs (2)}}
  "interpreter.run_parallel"(%a, %a) {programs = [[@program], [@program]]} : (tensor<f32>, tensor<f32>) -> ()
  func.return
}

// -----

func.func private @program(tensor<f32>)
func.func @grid(%a: tensor<f32>) {
  // expected-error@+1 {{Function "program" should take 0 arguments but instead takes 1 arguments}}
  "interpreter.run_parallel"(%a) {programs = [[@program]], infeed = [@program]} : (tensor<f32>) -> ()
  func.return
}

// -----

func.func @isolated(%a: tensor<4x4xf32>) {
  %0 = "stablehlo.async_start"(%a) ({
  ^bb0(%b: tensor<4x4xf32>):
    // expected-error@+1 {{'stablehlo.slice' op using value defined outside the region}}
    %1 = "stablehlo.slice"(%a) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 1>, strides = array<i64: 1, 1>} : (tensor<4x4xf32>) -> tensor<1x1xf32>
    "stablehlo.return"(%1) : (tensor<1x1xf32>) -> ()
  }) : (tensor<4x4xf32>) -> !stablehlo.future<tensor<1x1xf32>>
  func.return
}

// -----

func.func @isolated_scan(%a: tensor<2x3xf32>, %b: tensor<3xf32>, %c: tensor<3xf32>) {
  %0:2 = chlo.scan(%a) inits (%b) dimension=0 {
  ^bb0(%slice: tensor<3xf32>, %carry: tensor<3xf32>):
    // expected-error@+1 {{'stablehlo.add' op using value defined outside the region}}
    %1 = stablehlo.add %slice, %c : tensor<3xf32>
    stablehlo.return %1, %1 : tensor<3xf32>, tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>)
  func.return
}

// -----

func.func @isolated_deeply(%a: tensor<2x3xf32>, %b: tensor<3xf32>, %p: tensor<i1>) {
  %0:2 = chlo.scan(%a) inits (%b) dimension=0 {
  ^bb0(%slice: tensor<3xf32>, %carry: tensor<3xf32>):
    %q = stablehlo.constant dense<true> : tensor<i1>
    %1 = "stablehlo.if"(%q) ({
      stablehlo.return %slice : tensor<3xf32>
    }, {
      // expected-error@+1 {{'stablehlo.return' op using value defined outside the region}}
      stablehlo.return %b : tensor<3xf32>
    }) : (tensor<i1>) -> tensor<3xf32>
    stablehlo.return %1, %carry : tensor<3xf32>, tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>)
  func.return
}

// -----

// What is isolated is verified after all that is around it.
func.func @put_off(%a: tensor<4x4xf32>) {
  %0 = "stablehlo.async_start"(%a) ({
  ^bb0(%b: tensor<4x4xf32>):
    %1 = "stablehlo.negate"() : () -> tensor<4x4xf32>
    "stablehlo.return"(%1) : (tensor<4x4xf32>) -> ()
  }) : (tensor<4x4xf32>) -> !stablehlo.future<tensor<4x4xf32>>
  // expected-error@+1 {{'stablehlo.async_done' op requires one result}}
  "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<4x4xf32>>) -> ()
  func.return
}

// -----

// An error found after an op's regions ends the function, not what follows it.
func.func @late_error(%p: tensor<i1>) {
  // expected-error@+1 {{expects regions to end with 'stablehlo.return', found 'x.end'}}
  "stablehlo.if"(%p) ({
    "stablehlo.return"() : () -> ()
  }, {
    "x.end"() : () -> ()
  }) : (tensor<i1>) -> ()
  %0 = "stablehlo.negate"() : () -> tensor<4x4xf32>
  func.return
}
func.func @next() {
  // expected-error@+1 {{requires a single operand}}
  %0 = "stablehlo.negate"() : () -> tensor<4x4xf32>
  func.call @nobody() : () -> ()
  func.return
}

// -----

func.func @two() -> (tensor<f32>, tensor<f32>) {
  %0 = stablehlo.constant dense<1.0> : tensor<f32>
  return %0, %0 : tensor<f32>, tensor<f32>
}
func.func @program(%t: !stablehlo.token) {
  return
}
func.func @main(%t: !stablehlo.token) {
  // expected-error@+1 {{Function "two" should return 1 tensor but returns 2}}
  "interpreter.run_parallel"(%t) {programs = [[@program]], infeed = [@two]} : (!stablehlo.token) -> ()
  return
}

// -----

func.func @signed_storage(%a: tensor<2x!quant.uniform<si8:f32, 0.5>>) -> tensor<2xf32> {
  // expected-error@+1 {{op operand #0 must be ranked tensor of per-tensor integer quantized}}
  %0 = "stablehlo.uniform_dequantize"(%a) : (tensor<2x!quant.uniform<si8:f32, 0.5>>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @another_dialect(%a: tensor<2x3xf32>, %z: tensor<f32>) -> tensor<2xf32> {
  // expected-error@+1 {{The reduction-region expected to return some value(s)}}
  %0 = "stablehlo.reduce"(%a, %z) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    "llvm.return"() : () -> ()
  }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
