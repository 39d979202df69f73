func.func @applied(%arg0: tensor<4x2xf32>, %arg1: tensor<f32>) -> tensor<2xf32> {
  %0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.maximum across dimensions = [0] {note} : (tensor<4x2xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @reducer(%arg0: tensor<4xf32>, %arg1: tensor<4xi32>, %arg2: tensor<f32>, %arg3: tensor<i32>) {
  %0:2 = stablehlo.reduce(%arg0 init: %arg2), (%arg1 init: %arg3) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%arg4: tensor<f32>, %arg6: tensor<f32>) (%arg5: tensor<i32>, %arg7: tensor<i32>)  {
    stablehlo.return %arg4, %arg7 : tensor<f32>, tensor<i32>
  }
  return
}

// -----

func.func @not_commutative(%arg0: tensor<4xf32>, %arg1: tensor<f32>) {
  %0 = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
   reducer(%arg2: tensor<f32>, %arg3: tensor<f32>)  {
    %1 = stablehlo.subtract %arg2, %arg3 : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }
  return
}

// -----

func.func @other_order(%arg0: tensor<4xf32>, %arg1: tensor<f32>) {
  %0 = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
   reducer(%arg2: tensor<f32>, %arg3: tensor<f32>)  {
    %1 = stablehlo.add %arg3, %arg2 : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }
  return
}

// -----

func.func @while(%arg0: tensor<i32>, %arg1: tensor<f32>) {
  %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %arg1) : tensor<i32>, tensor<f32> attributes {note = 1 : i64}
  cond {
    %1 = stablehlo.compare LT, %iterArg, %iterArg : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    stablehlo.return %iterArg, %iterArg_0 : tensor<i32>, tensor<f32>
  }
  return
}

// -----

func.func @nothing() {
  stablehlo.while()
  cond {
    %c = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    stablehlo.return 
  }
  return
}

// -----

func.func @scan(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) {
  %0:2 = chlo.scan(%arg0) inits (%arg1) dimension=0  attributes {is_reverse = true} {
  ^bb0(%input: tensor<3xf32>, %carry: tensor<3xf32>):
    stablehlo.return %input, %carry : tensor<3xf32>, tensor<3xf32>
  } : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @assuming(%arg0: !shape.witness, %arg1: tensor<f32>) {
  %0 = shape.assuming %arg0 -> (tensor<f32>) {
    shape.assuming_yield %arg1 : tensor<f32>
  }
  shape.assuming %arg0 {
  }
  return
}

// -----

func.func @branches(%arg0: i1, %arg1: i32) {
  cf.cond_br %arg0, ^bb1(%arg1 : i32), ^bb2
^bb1(%0: i32):  // pred: ^bb0
  cf.br ^bb2
^bb2:  // 2 preds: ^bb0, ^bb1
  return
}

// -----

sdy.mesh @mesh = <["x"=4, "y"=2]> {note}
func.func @manual(%arg0: tensor<8x8xf32>) {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x", "y"} (%arg1: tensor<2x4xf32>) {
    sdy.return %arg1 : tensor<2x4xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={} () {
    sdy.return
  } : () -> ()
  %1 = sdy.named_computation<"foo">(%0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] (%arg1: tensor<8x8xf32>) {
    sdy.return %arg1 : tensor<8x8xf32>
  } {note} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  sdy.named_computation<"a b">() () {
    sdy.return
  } : () -> ()
  return
}

// -----
func.func @composite(%arg0: tensor<f32>) {
  %0 = stablehlo.composite "a.b" %arg0 ({
  ^bb0(%arg1: tensor<f32>):
    stablehlo.return %arg1 : tensor<f32>
  }, {
  }) {decomposition = @f, version = 1 : i32} : (tensor<f32>) -> tensor<f32>
  return
}

// -----
func.func @loops(%arg0: tensor<f32>, %arg1: i1, %arg2: index, %arg3: i32) {
  %0 = scf.for %arg4 = %arg2 to %arg2 step %arg2 iter_args(%arg5 = %arg0) -> (tensor<f32>) {
    scf.yield %arg5 : tensor<f32>
  }
  scf.for %arg4 = %arg3 to %arg3 step %arg3  : i32 {
  } {note}
  %1 = scf.if %arg1 -> (tensor<f32>) {
    scf.yield %arg0 : tensor<f32>
  } else {
    scf.yield %arg0 : tensor<f32>
  }
  scf.if %arg1 {
  }
  %2 = scf.while (%arg4 = %arg0) : (tensor<f32>) -> tensor<f32> {
    scf.condition(%arg1) %arg4 : tensor<f32>
  } do {
  ^bb0(%arg4: tensor<f32>):
    scf.yield %arg4 : tensor<f32>
  } attributes {note}
  scf.while : () -> () {
    scf.condition(%arg1)
  } do {
    scf.yield
  }
  return
}
