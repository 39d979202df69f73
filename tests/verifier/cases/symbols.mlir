// Functions, and what refers to names.

// expected-note@+1 {{see existing symbol definition here}}
func.func @twice() { func.return }
// expected-error@+1 {{redefinition of symbol named 'twice'}}
func.func @twice() { func.return }

// -----

func.func @caller() {
  // expected-error@+1 {{'func.call' op 'nobody' does not reference a valid function}}
  func.call @nobody() : () -> ()
  func.return
}

// -----

func.func private @one(tensor<f32>) -> tensor<f32>
func.func @caller(%a: tensor<f64>) {
  // expected-error@+1 {{'func.call' op operand type mismatch: expected operand type 'tensor<f32>', but provided 'tensor<f64>' for operand number 0}}
  %0 = func.call @one(%a) : (tensor<f64>) -> tensor<f32>
  func.return
}

// -----

func.func private @one(tensor<f32>) -> tensor<f32>
func.func @caller(%a: tensor<f32>) {
  // expected-error@+1 {{'func.call' op incorrect number of operands for callee}}
  %0 = func.call @one(%a, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return
}

// -----

func.func private @one(tensor<f32>) -> tensor<f32>
func.func @caller(%a: tensor<f32>) {
  // expected-error@+1 {{'func.call' op incorrect number of results for callee}}
  func.call @one(%a) : (tensor<f32>) -> ()
  func.return
}

// -----

func.func private @one(tensor<f32>) -> tensor<f32>
func.func @caller(%a: tensor<f32>) {
  // expected-error@+1 {{'func.call' op result type mismatch at index 0}}
  %0 = func.call @one(%a) : (tensor<f32>) -> tensor<f64>
  func.return
}

// -----

func.func @names_of_an_inner_module_are_its_own() {
  // expected-error@+1 {{'func.call' op 'inside' does not reference a valid function}}
  func.call @inside() : () -> ()
  func.return
}
module @inner {
  func.func @inside() { func.return }
  func.func @caller() {
    func.call @inside() : () -> ()
    func.return
  }
}

// -----

func.func @returns(%a: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{'func.return' op has 0 operands, but enclosing function (@returns) returns 1}}
  func.return
}

// -----

func.func @returns(%a: tensor<f32>) -> tensor<f64> {
  // expected-error@+1 {{type of return operand 0 ('tensor<f32>') doesn't match function result type ('tensor<f64>') in function @returns}}
  func.return %a : tensor<f32>
}

// -----

func.func @wrong_parent(%p: tensor<i1>) {
  "stablehlo.if"(%p) ({
    // expected-error@+1 {{'func.return' op expects parent op 'func.func'}}
    func.return
  }, {
    "stablehlo.return"() : () -> ()
  }) : (tensor<i1>) -> ()
  func.return
}

// -----

// expected-error@+1 {{'func.func' op entry block must have 1 arguments to match function signature}}
"func.func"() <{function_type = (tensor<f32>) -> (), sym_name = "f"}> ({
  "func.return"() : () -> ()
}) : () -> ()

// -----

// expected-error@+1 {{type of entry block argument #0('tensor<f64>') must match the type of the corresponding argument in function signature('tensor<f32>')}}
"func.func"() <{function_type = (tensor<f32>) -> (), sym_name = "f"}> ({
^bb0(%a: tensor<f64>):
  "func.return"() : () -> ()
}) : () -> ()

// -----

// expected-error@+1 {{'func.func' op symbol declaration cannot have public visibility}}
func.func @declared(tensor<f32>)

// -----

// expected-error@+1 {{visibility expected to be one of ["public", "private", "nested"], but got "hidden"}}
func.func @f() attributes {sym_visibility = "hidden"} { func.return }

// -----

func.func private @decomposition(tensor<f32>) -> tensor<f32>
func.func @composite(%a: tensor<f32>) {
  // expected-error@+1 {{name must be a valid namespaced op name}}
  %0 = stablehlo.composite "plain" %a {decomposition = @decomposition} : (tensor<f32>) -> tensor<f32>
  func.return
}

// -----

func.func @composite(%a: tensor<f32>) {
  // expected-error@+1 {{'nobody' does not reference a valid function}}
  %0 = stablehlo.composite "my.op" %a {decomposition = @nobody} : (tensor<f32>) -> tensor<f32>
  func.return
}

// -----

func.func private @decomposition(tensor<f32>) -> tensor<f32>
func.func @composite(%a: tensor<f32>) {
  // expected-error@+1 {{has 2 operand(s), but decomposition has 1}}
  %0 = stablehlo.composite "my.op" %a, %a {decomposition = @decomposition} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  func.return
}

// -----

func.func @collective(%a: tensor<2xf32>) {
  // expected-error@+1 {{replica_groups: mesh symbol 'nothing' not found}}
  %0 = "stablehlo.all_gather"(%a) {
    all_gather_dim = 0 : i64,
    replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @nothing, axes = [#stablehlo.axis_ref<name = "x">]>
  } : (tensor<2xf32>) -> tensor<4xf32>
  func.return
}

// -----

// Names are checked in sound modules only.
func.func @broken(%a: tensor<2xf32>) {
  // expected-error@+1 {{requires a single operand}}
  %0 = "stablehlo.negate"() : () -> tensor<4xf32>
  func.call @nobody() : () -> ()
  func.return
}
