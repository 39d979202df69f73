// Blocks, terminators, uses of values.

func.func @use_before_definition() {
  // expected-error@+1 {{operand #0 does not dominate this use}}
  "x.use"(%a) : (i32) -> ()
  // expected-note@+1 {{operand defined here (op in the same block)}}
  %a = "x.make"() : () -> i32
  func.return
}

// -----

func.func @use_in_another_branch(%c: i1) {
  cf.cond_br %c, ^a, ^b
^a:
  // expected-note@+1 {{op in the same region}}
  %x = "x.make"() : () -> i32
  cf.br ^b
^b:
  // expected-error@+1 {{operand #0 does not dominate this use}}
  "x.use"(%x) : (i32) -> ()
  func.return
}

// -----

func.func @dominating_block_is_fine(%c: i1) {
  %x = "x.make"() : () -> i32
  cf.cond_br %c, ^a, ^b
^a:
  "x.use"(%x) : (i32) -> ()
  cf.br ^b
^b:
  "x.use"(%x) : (i32) -> ()
  func.return
}

// -----

func.func @unreachable_blocks_are_not_checked() {
  func.return
^never:
  "x.use"(%x) : (i32) -> ()
  %x = "x.make"() : () -> i32
  cf.br ^never
}

// -----

func.func @regions_read_outer_values(%p: tensor<i1>, %a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.if"(%p) ({
    "stablehlo.return"(%a) : (tensor<2xf32>) -> ()
  }, {
    %1 = stablehlo.negate %a : tensor<2xf32>
    "stablehlo.return"(%1) : (tensor<2xf32>) -> ()
  }) : (tensor<i1>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}

// -----

// expected-error@+1 {{empty block: expect at least a terminator}}
"func.func"() <{function_type = () -> (), sym_name = "no_terminator"}> ({
^bb0:
}) : () -> ()

// -----

func.func @block_without_terminator(%a: tensor<2xf32>) {
  // expected-error@+1 {{block with no terminator}}
  %0 = stablehlo.negate %a : tensor<2xf32>
}

// -----

func.func @end_of_another_dialect(%a: tensor<i32>) {
  // expected-error@+1 {{block with no terminator, has "arith.index_cast"}}
  %0 = arith.index_cast %a : tensor<i32> to tensor<index>
}

// -----

func.func @ends_of_other_dialects(%a: tensor<f32>) -> tensor<f32> {
  cf.br ^bb1(%a : tensor<f32>)
^bb1(%b: tensor<f32>):
  func.return %b : tensor<f32>
}

// -----

func.func @return_in_the_middle(%a: tensor<2xf32>) {
  // expected-error@+1 {{'func.return' op must be the last operation in the parent block}}
  func.return
  "x.use"(%a) : (tensor<2xf32>) -> ()
  func.return
}

// -----

func.func @another_dialects_terminator(%p: tensor<i1>) {
  // expected-error@+1 {{'stablehlo.if' op expects regions to end with 'stablehlo.return', found 'x.end'}}
  "stablehlo.if"(%p) ({
    "stablehlo.return"() : () -> ()
  }, {
    "x.end"() : () -> ()
  }) : (tensor<i1>) -> ()
  func.return
}

// -----

func.func @back_to_the_entry() {
  func.return
}
// expected-error@+1 {{entry block of region may not have predecessors}}
func.func @loop() {
^entry:
  cf.br ^next
^next:
  cf.br ^entry
}

// -----

func.func @first_error_of_each_function(%a: tensor<2xf32>) {
  // expected-error@+1 {{requires a single operand}}
  %0 = "stablehlo.negate"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = "stablehlo.negate"(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}
func.func @another(%a: tensor<2xf32>) {
  // expected-error@+1 {{requires one result}}
  "stablehlo.negate"(%a) : (tensor<2xf32>) -> ()
  func.return
}

// -----

// expected-error@+1 {{unregistered operation 'stablehlo.nothing' found in dialect ('stablehlo')}}
"stablehlo.nothing"() : () -> ()
