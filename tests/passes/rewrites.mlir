// One program for each rewrite that is no row of a table, and programs that it has to leave alone.
// After the dashes: the rewrite, `fires` or `stays`, and what it is run on, if not on any values:
// shapes in parentheses, elements in brackets.

// ----- compare_with_itself fires
func.func @main(%a: tensor<2xi32>) -> (tensor<2xi1>) {
  %r = stablehlo.compare GE, %a, %a, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// ----- compare_with_itself stays
func.func @main(%a: tensor<2xf32>) -> (tensor<2xi1>) {
  %r = stablehlo.compare GE, %a, %a, FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// ----- compare_with_itself stays
func.func @main(%a: tensor<2xi32>) -> (tensor<2xi1>) {
  %r = stablehlo.compare GE, %a, %a : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// ----- compare_constant_right fires
func.func @main(%a: tensor<2xui8>) -> (tensor<2xi1>) {
  %c = stablehlo.constant dense<[1, 2]> : tensor<2xui8>
  %r = stablehlo.compare GE, %c, %a, UNSIGNED : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// ----- compare_constant_right stays
func.func @main(%a: tensor<2xf32>) -> (tensor<2xi1>) {
  %c = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %r = stablehlo.compare GE, %c, %a, FLOAT : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// ----- compare_of_booleans fires
func.func @main(%a: tensor<2xi1>) -> (tensor<2xi1>) {
  %c = stablehlo.constant dense<true> : tensor<2xi1>
  %r = stablehlo.compare EQ, %a, %c : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// ----- compare_of_booleans stays
func.func @main(%a: tensor<2xi1>) -> (tensor<2xi1>) {
  %c = stablehlo.constant dense<false> : tensor<2xi1>
  %r = stablehlo.compare EQ, %a, %c : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}

// ----- select_by_broadcast_of_not fires
func.func @main(%p: tensor<1xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>) {
  %n = stablehlo.not %p : tensor<1xi1>
  %q = stablehlo.broadcast_in_dim %n, dims = [0] : (tensor<1xi1>) -> tensor<4xi1>
  %r = stablehlo.select %q, %a, %b : tensor<4xi1>, tensor<4xf32>
  return %r : tensor<4xf32>
}

// ----- select_by_broadcast_of_not stays
func.func @main(%p: tensor<1xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  %n = stablehlo.not %p : tensor<1xi1>
  %q = stablehlo.broadcast_in_dim %n, dims = [0] : (tensor<1xi1>) -> tensor<4xi1>
  %r = stablehlo.select %q, %a, %b : tensor<4xi1>, tensor<4xf32>
  return %r, %q : tensor<4xf32>, tensor<4xi1>
}

// ----- select_of_constants fires
func.func @main() -> (tensor<2xi32>) {
  %p = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %b = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
  %r = stablehlo.select %p, %a, %b : tensor<2xi1>, tensor<2xi32>
  return %r : tensor<2xi32>
}

// ----- broadcast_to_reshape fires
func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x1x3xf32>) {
  %r = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
  return %r : tensor<2x1x3xf32>
}

// ----- broadcast_to_reshape stays
func.func @main(%a: tensor<2xf32>) -> (tensor<3x2xf32>) {
  %r = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// ----- broadcast_to_itself fires
func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
  %r = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// ----- broadcast_to_itself stays
func.func @main(%a: tensor<1x2xf32>) -> (tensor<2x2xf32>) {
  %r = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// ----- broadcast_of_broadcast fires
func.func @main(%a: tensor<3x2xi32>) -> (tensor<2x4x3x5xi32>) {
  %b = stablehlo.broadcast_in_dim %a, dims = [1, 0] : (tensor<3x2xi32>) -> tensor<2x3x4xi32>
  %r = stablehlo.broadcast_in_dim %b, dims = [0, 2, 1] : (tensor<2x3x4xi32>) -> tensor<2x4x3x5xi32>
  return %r : tensor<2x4x3x5xi32>
}

// ----- broadcast_to_transpose fires
func.func @main(%a: tensor<2x3x4xf32>) -> (tensor<4x2x3xf32>) {
  %r = stablehlo.broadcast_in_dim %a, dims = [1, 2, 0] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  return %r : tensor<4x2x3xf32>
}

// ----- reshape_of_reshape fires
func.func @main(%a: tensor<4x3xf32>) -> (tensor<2x6xf32>) {
  %b = stablehlo.reshape %a : (tensor<4x3xf32>) -> tensor<12xf32>
  %r = stablehlo.reshape %b : (tensor<12xf32>) -> tensor<2x6xf32>
  return %r : tensor<2x6xf32>
}

// ----- same_type fires
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>) {
  %r = stablehlo.convert %a : tensor<4xf32>
  return %r : tensor<4xf32>
}

// ----- transpose_to_itself fires
func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
  %r = stablehlo.transpose %a, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// ----- transpose_of_transpose fires
func.func @main(%a: tensor<2x3x4xf32>) -> (tensor<3x2x4xf32>) {
  %b = stablehlo.transpose %a, dims = [1, 2, 0] : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %r = stablehlo.transpose %b, dims = [0, 2, 1] : (tensor<3x4x2xf32>) -> tensor<3x2x4xf32>
  return %r : tensor<3x2x4xf32>
}

// ----- transpose_to_reshape fires
func.func @main(%a: tensor<1x4x5xf32>) -> (tensor<4x1x5xf32>) {
  %r = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<1x4x5xf32>) -> tensor<4x1x5xf32>
  return %r : tensor<4x1x5xf32>
}

// ----- transpose_to_reshape stays
func.func @main(%a: tensor<2x4x5xf32>) -> (tensor<4x2x5xf32>) {
  %r = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<2x4x5xf32>) -> tensor<4x2x5xf32>
  return %r : tensor<4x2x5xf32>
}

// ----- reverse_to_itself fires
func.func @main(%a: tensor<1x3xf32>) -> (tensor<1x3xf32>) {
  %r = stablehlo.reverse %a, dims = [0] : tensor<1x3xf32>
  return %r : tensor<1x3xf32>
}

// ----- reverse_to_itself stays
func.func @main(%a: tensor<1x3xf32>) -> (tensor<1x3xf32>) {
  %r = stablehlo.reverse %a, dims = [0, 1] : tensor<1x3xf32>
  return %r : tensor<1x3xf32>
}

// ----- iota_of_one fires
func.func @main() -> (tensor<1x3xi32>) {
  %r = stablehlo.iota dim = 0 : tensor<1x3xi32>
  return %r : tensor<1x3xi32>
}

// ----- iota_of_one stays
func.func @main() -> (tensor<3xi32>) {
  %r = stablehlo.iota dim = 0 : tensor<3xi32>
  return %r : tensor<3xi32>
}

// ----- iota_to_broadcast fires
func.func @main() -> (tensor<2x3xf32>) {
  %r = stablehlo.iota dim = 1 : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// ----- concatenate_one fires
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>) {
  %r = stablehlo.concatenate %a, dim = 0 : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- concatenate_without_empty fires
func.func @main(%a: tensor<2xf32>, %e: tensor<0xf32>, %b: tensor<1xf32>) -> (tensor<3xf32>) {
  %r = stablehlo.concatenate %a, %e, %b, dim = 0 : (tensor<2xf32>, tensor<0xf32>, tensor<1xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// ----- concatenate_of_concatenate fires
func.func @main(%a: tensor<2xf32>, %b: tensor<1xf32>) -> (tensor<4xf32>) {
  %d = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
  %r = stablehlo.concatenate %b, %d, dim = 0 : (tensor<1xf32>, tensor<3xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// ----- concatenate_of_concatenate stays
func.func @main(%a: tensor<2xf32>, %b: tensor<1xf32>) -> (tensor<4xf32>, tensor<3xf32>) {
  %d = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
  %r = stablehlo.concatenate %b, %d, dim = 0 : (tensor<1xf32>, tensor<3xf32>) -> tensor<4xf32>
  return %r, %d : tensor<4xf32>, tensor<3xf32>
}

// ----- concatenate_of_concatenate stays
func.func @main(%a: tensor<2x2xf32>) -> (tensor<4x4xf32>) {
  %d = stablehlo.concatenate %a, %a, dim = 0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %r = stablehlo.concatenate %d, %d, dim = 1 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}

// ----- slice_of_everything fires
func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
  %r = stablehlo.slice %a [0:2, 0:3] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// ----- slice_of_everything stays
func.func @main(%a: tensor<3xf32>) -> (tensor<2xf32>) {
  %r = stablehlo.slice %a [1:3] : (tensor<3xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- slice_of_concatenate fires
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>, %d: tensor<2xf32>) -> (tensor<2xf32>) {
  %j = stablehlo.concatenate %a, %b, %d, dim = 0 : (tensor<2xf32>, tensor<3xf32>, tensor<2xf32>) -> tensor<7xf32>
  %r = stablehlo.slice %j [3:7:3] : (tensor<7xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- slice_of_concatenate stays
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>, %d: tensor<2xf32>) -> (tensor<2xf32>, tensor<7xf32>) {
  %j = stablehlo.concatenate %a, %b, %d, dim = 0 : (tensor<2xf32>, tensor<3xf32>, tensor<2xf32>) -> tensor<7xf32>
  %r = stablehlo.slice %j [3:7:3] : (tensor<7xf32>) -> tensor<2xf32>
  return %r, %j : tensor<2xf32>, tensor<7xf32>
}

// ----- slice_of_concatenate stays
func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>) {
  %j = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  %r = stablehlo.slice %j [1:4] : (tensor<5xf32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// ----- dynamic_slice_to_slice fires
func.func @main(%a: tensor<4x5xf32>) -> (tensor<2x3xf32>) {
  %i = stablehlo.constant dense<-3> : tensor<i64>
  %j = stablehlo.constant dense<9> : tensor<i64>
  %r = stablehlo.dynamic_slice %a, %i, %j, sizes = [2, 3] : (tensor<4x5xf32>, tensor<i64>, tensor<i64>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// ----- dynamic_slice_to_slice stays
func.func @main(%a: tensor<4xf32>, %i: tensor<i64>) -> (tensor<2xf32>) {
  %r = stablehlo.dynamic_slice %a, %i, sizes = [2] : (tensor<4xf32>, tensor<i64>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- update_of_nothing fires
func.func @main(%a: tensor<3xf32>, %i: tensor<i32>) -> (tensor<3xf32>) {
  %u = stablehlo.constant dense<> : tensor<0xf32>
  %r = stablehlo.dynamic_update_slice %a, %u, %i : (tensor<3xf32>, tensor<0xf32>, tensor<i32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// ----- update_of_everything fires
func.func @main(%a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>) {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.dynamic_update_slice %a, %b, %i : (tensor<3xf32>, tensor<3xf32>, tensor<i32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// ----- update_of_everything stays
func.func @main(%a: tensor<3xf32>, %b: tensor<2xf32>) -> (tensor<3xf32>) {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.dynamic_update_slice %a, %b, %i : (tensor<3xf32>, tensor<2xf32>, tensor<i32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// ----- pad_with_nothing fires
func.func @main(%a: tensor<3xf32>, %v: tensor<f32>) -> (tensor<3xf32>) {
  %r = stablehlo.pad %a, %v, low = [0], high = [0], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// ----- pad_with_nothing stays
func.func @main(%a: tensor<3xf32>, %v: tensor<f32>) -> (tensor<3xf32>) {
  %r = stablehlo.pad %a, %v, low = [1], high = [-1], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// ----- pad_of_nothing fires
func.func @main(%a: tensor<0x2xf32>, %v: tensor<f32>) -> (tensor<3x3xf32>) {
  %r = stablehlo.pad %a, %v, low = [1, 0], high = [2, 1], interior = [0, 0] : (tensor<0x2xf32>, tensor<f32>) -> tensor<3x3xf32>
  return %r : tensor<3x3xf32>
}

// ----- gather_to_slice fires
func.func @main(%a: tensor<5x4xf32>) -> (tensor<2x4xf32>) {
  %i = stablehlo.constant dense<7> : tensor<1xi32>
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0], index_vector_dim = 0>, slice_sizes = array<i64: 2, 4>}> : (tensor<5x4xf32>, tensor<1xi32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// ----- gather_to_slice stays
func.func @main(%a: tensor<5x4xf32>, %i: tensor<1xi32>) -> (tensor<2x4xf32>) {
  %r = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0], index_vector_dim = 0>, slice_sizes = array<i64: 2, 4>}> : (tensor<5x4xf32>, tensor<1xi32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// ----- get_dimension_size fires
func.func @main(%a: tensor<?x4xf32>) -> (tensor<i32>) {
  %r = stablehlo.get_dimension_size %a, dim = 1 : (tensor<?x4xf32>) -> tensor<i32>
  return %r : tensor<i32>
}

// ----- get_dimension_size stays
func.func @main(%a: tensor<?x4xf32>) -> (tensor<i32>) {
  %r = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  return %r : tensor<i32>
}

// ----- dynamic_broadcast_of_itself fires (2,) [3,2] [3,1,2]
func.func @main(%a: tensor<?xf32>, %s: tensor<2xi32>, %t: tensor<3xi32>) -> (tensor<?x?x?xf32>) {
  %b = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %r = stablehlo.dynamic_broadcast_in_dim %b, %t, dims = [0, 2] : (tensor<?x?xf32>, tensor<3xi32>) -> tensor<?x?x?xf32>
  return %r : tensor<?x?x?xf32>
}

// ----- dynamic_broadcast_of_no_expansion fires (2,) [2]
func.func @main(%a: tensor<?xf32>, %s: tensor<1xi32>) -> (tensor<?xf32>) {
  %r = "stablehlo.dynamic_broadcast_in_dim"(%a, %s) <{broadcast_dimensions = array<i64: 0>, known_nonexpanding_dimensions = array<i64: 0>}> : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// ----- dynamic_broadcast_of_no_expansion stays
func.func @main(%a: tensor<?xf32>, %s: tensor<1xi32>) -> (tensor<?xf32>) {
  %r = "stablehlo.dynamic_broadcast_in_dim"(%a, %s) <{broadcast_dimensions = array<i64: 0>}> : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// ----- dynamic_broadcast_of_reshape fires (6,) [2,3]
func.func @main(%a: tensor<?xf32>, %s: tensor<2xi32>) -> (tensor<?x?xf32>) {
  %b = stablehlo.dynamic_reshape %a, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %r = stablehlo.dynamic_broadcast_in_dim %b, %s, dims = [0, 1] : (tensor<?x?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// ----- dynamic_broadcast_of_reshape stays
func.func @main(%a: tensor<?xf32>, %s: tensor<2xi32>) -> (tensor<?x?xf32>) {
  %b = stablehlo.dynamic_reshape %a, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %r = stablehlo.dynamic_broadcast_in_dim %b, %s, dims = [1, 0] : (tensor<?x?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// ----- dynamic_broadcast_to_own_shape fires (2,)
func.func @main(%a: tensor<?xf32>) -> (tensor<?xf32>) {
  %s = shape.shape_of %a : tensor<?xf32> -> tensor<1xindex>
  %r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [0] : (tensor<?xf32>, tensor<1xindex>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// ----- dynamic_broadcast_to_static fires
func.func @main(%a: tensor<3xf32>) -> (tensor<?x3xf32>) {
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}

// ----- dynamic_broadcast_to_static stays
func.func @main(%a: tensor<3xf32>, %s: tensor<2xi32>) -> (tensor<?x3xf32>) {
  %r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}

// ----- dynamic_broadcast_to_static stays
func.func @main(%a: tensor<1xf32>) -> (tensor<?x3xf32, #stablehlo.bounds<4, ?>>) {
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %r = stablehlo.dynamic_broadcast_in_dim %a, %s, dims = [1] : (tensor<1xf32>, tensor<2xi32>) -> tensor<?x3xf32, #stablehlo.bounds<4, ?>>
  return %r : tensor<?x3xf32, #stablehlo.bounds<4, ?>>
}

// ----- dynamic_reshape_to_static fires (6,) [2,3]
func.func @main(%a: tensor<6xf32>, %s: tensor<2xi32>) -> (tensor<2x3xf32>) {
  %r = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// ----- dynamic_reshape_to_static stays
func.func @main(%a: tensor<6xf32>, %s: tensor<2xi32>) -> (tensor<2x?xf32>) {
  %r = stablehlo.dynamic_reshape %a, %s : (tensor<6xf32>, tensor<2xi32>) -> tensor<2x?xf32>
  return %r : tensor<2x?xf32>
}

// ----- dynamic_reshape_of_itself fires (6,) [2,3] [6]
func.func @main(%a: tensor<?xf32>, %s: tensor<2xi32>, %t: tensor<1xi32>) -> (tensor<?xf32>) {
  %b = stablehlo.dynamic_reshape %a, %s : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %r = stablehlo.dynamic_reshape %b, %t : (tensor<?x?xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// ----- dynamic_reshape_of_same_shape fires (6,) [6]
func.func @main(%a: tensor<?xf32>, %s: tensor<1xi32>) -> (tensor<?xf32>) {
  %b = stablehlo.dynamic_reshape %a, %s : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
  %d = stablehlo.add %b, %b : tensor<?xf32>
  %r = stablehlo.dynamic_reshape %d, %s : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// ----- shape_of_dynamic_reshape fires (6,) [2,3]
func.func @main(%a: tensor<?xf32>, %s: tensor<2xindex>) -> (tensor<2xindex>) {
  %b = stablehlo.dynamic_reshape %a, %s : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %r = shape.shape_of %b : tensor<?x?xf32> -> tensor<2xindex>
  return %r : tensor<2xindex>
}

// ----- dynamic_iota_to_static fires [2,3]
func.func @main(%s: tensor<2xi32>) -> (tensor<2x3xi32>) {
  %r = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// ----- dynamic_iota_to_broadcast fires [2,3]
func.func @main(%s: tensor<2xi32>) -> (tensor<2x?xi32>) {
  %r = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<2x?xi32>
  return %r : tensor<2x?xi32>
}

// ----- dynamic_iota_to_broadcast stays
func.func @main(%s: tensor<1xi32>) -> (tensor<?xi32>) {
  %r = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  return %r : tensor<?xi32>
}

// ----- dynamic_gather_to_gather fires
func.func @main(%a: tensor<5x4xf32>, %i: tensor<1xi32>) -> (tensor<2x4xf32>) {
  %s = stablehlo.constant dense<[2, 4]> : tensor<2xi32>
  %r = "stablehlo.dynamic_gather"(%a, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0], index_vector_dim = 0>}> : (tensor<5x4xf32>, tensor<1xi32>, tensor<2xi32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// ----- dynamic_pad_to_pad fires
func.func @main(%a: tensor<3xf32>, %v: tensor<f32>) -> (tensor<7xf32>) {
  %l = stablehlo.constant dense<1> : tensor<1xi32>
  %h = stablehlo.constant dense<-1> : tensor<1xi32>
  %n = stablehlo.constant dense<2> : tensor<1xi32>
  %r = stablehlo.dynamic_pad %a, %v, %l, %h, %n : (tensor<3xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<7xf32>
  return %r : tensor<7xf32>
}

// ----- real_dynamic_slice_to_slice fires
func.func @main(%a: tensor<6xf32>) -> (tensor<3xf32>) {
  %s = stablehlo.constant dense<1> : tensor<1xi32>
  %l = stablehlo.constant dense<6> : tensor<1xi32>
  %t = stablehlo.constant dense<2> : tensor<1xi32>
  %r = stablehlo.real_dynamic_slice %a, %s, %l, %t : (tensor<6xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<3xf32>
  return %r : tensor<3xf32>
}

// ----- real_dynamic_slice_to_dynamic_slice fires (2,6) [1,2]
func.func @main(%a: tensor<?x6xf32>, %s: tensor<2xi32>) -> (tensor<1x2xf32>) {
  %n = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %l = stablehlo.add %s, %n : tensor<2xi32>
  %t = stablehlo.constant dense<1> : tensor<2xi32>
  %r = stablehlo.real_dynamic_slice %a, %s, %l, %t : (tensor<?x6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2xf32>
  return %r : tensor<1x2xf32>
}

// ----- real_dynamic_slice_to_dynamic_slice stays
func.func @main(%a: tensor<?x6xf32>, %s: tensor<2xi32>) -> (tensor<1x2xf32>) {
  %n = stablehlo.constant dense<[1, 4]> : tensor<2xi32>
  %l = stablehlo.add %s, %n : tensor<2xi32>
  %t = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %r = stablehlo.real_dynamic_slice %a, %s, %l, %t : (tensor<?x6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x2xf32>
  return %r : tensor<1x2xf32>
}

// ----- reduce_of_no_dimensions fires
func.func @main(%a: tensor<3xi32>) -> (tensor<3xi32>) {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.reduce(%a init: %z) across dimensions = [] : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    %s = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }
  return %r : tensor<3xi32>
}

// ----- reduce_to_outer_values fires
func.func @main(%a: tensor<3xi32>, %z: tensor<i32>, %w: tensor<i32>) -> (tensor<i32>) {
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    stablehlo.return %w : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- reduce_to_outer_values stays
func.func @main(%a: tensor<0xi32>, %z: tensor<i32>, %w: tensor<i32>) -> (tensor<i32>) {
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<0xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    stablehlo.return %w : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- reduce_to_outer_values stays
func.func @main(%a: tensor<?xi32>, %z: tensor<i32>, %w: tensor<i32>) -> (tensor<i32>) {
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<?xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    stablehlo.return %w : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- reduce_of_nothing fires
func.func @main(%a: tensor<0xi32>, %z: tensor<i32>) -> (tensor<i32>) {
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<0xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    %s = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- reduce_without_unused fires
func.func @main(%a: tensor<3xi32>, %b: tensor<3xi32>) -> (tensor<i32>) {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%a init: %z), (%b init: %z) across dimensions = [0] : (tensor<3xi32>, tensor<3xi32>, tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
  reducer(%x: tensor<i32>, %u: tensor<i32>) (%y: tensor<i32>, %v: tensor<i32>) {
    %s = stablehlo.add %x, %u : tensor<i32>
    %t = stablehlo.maximum %y, %v : tensor<i32>
    stablehlo.return %s, %t : tensor<i32>, tensor<i32>
  }
  return %r#1 : tensor<i32>
}

// ----- reduce_without_unused stays
func.func @main(%a: tensor<3xi32>, %b: tensor<3xi32>) -> (tensor<i32>) {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%a init: %z), (%b init: %z) across dimensions = [0] : (tensor<3xi32>, tensor<3xi32>, tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
  reducer(%x: tensor<i32>, %u: tensor<i32>) (%y: tensor<i32>, %v: tensor<i32>) {
    %s = stablehlo.add %x, %u : tensor<i32>
    %t = stablehlo.add %s, %v : tensor<i32>
    stablehlo.return %s, %t : tensor<i32>, tensor<i32>
  }
  return %r#1 : tensor<i32>
}

// ----- reduce_without_unused stays
func.func @main(%a: tensor<3xi32>, %b: tensor<3xi32>) -> (tensor<i32>) {
  %z = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.reduce(%a init: %z), (%b init: %z) across dimensions = [0] : (tensor<3xi32>, tensor<3xi32>, tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
  reducer(%x: tensor<i32>, %u: tensor<i32>) (%y: tensor<i32>, %v: tensor<i32>) {
    %s = stablehlo.add %y, %v : tensor<i32>
    %t = stablehlo.multiply %x, %u : tensor<i32>
    stablehlo.return %s, %t : tensor<i32>, tensor<i32>
  }
  return %r#0 : tensor<i32>
}

// ----- reduce_without_unused stays
func.func @main(%a: tensor<3xi32>, %b: tensor<3xi32>) -> (tensor<i32>) {
  %z = stablehlo.constant dense<1> : tensor<i32>
  %k = stablehlo.constant dense<7> : tensor<i32>
  %r:2 = stablehlo.reduce(%a init: %z), (%b init: %z) across dimensions = [0] : (tensor<3xi32>, tensor<3xi32>, tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
  reducer(%x: tensor<i32>, %u: tensor<i32>) (%y: tensor<i32>, %v: tensor<i32>) {
    %t = stablehlo.multiply %x, %u : tensor<i32>
    stablehlo.return %k, %t : tensor<i32>, tensor<i32>
  }
  return %r#0 : tensor<i32>
}

// ----- sort_without_unused fires
func.func @main(%a: tensor<3xi32>, %b: tensor<3xf32>) -> (tensor<3xi32>) {
  %r:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>, %u: tensor<f32>, %v: tensor<f32>):
    %p = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<3xi32>, tensor<3xf32>) -> (tensor<3xi32>, tensor<3xf32>)
  return %r#0 : tensor<3xi32>
}

// ----- sort_without_unused stays
func.func @main(%a: tensor<3xi32>, %b: tensor<3xf32>) -> (tensor<3xf32>) {
  %r:2 = "stablehlo.sort"(%a, %b) <{dimension = 0 : i64}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>, %u: tensor<f32>, %v: tensor<f32>):
    %p = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<3xi32>, tensor<3xf32>) -> (tensor<3xi32>, tensor<3xf32>)
  return %r#1 : tensor<3xf32>
}

// ----- sort_of_last_dimension fires
func.func @main(%a: tensor<2x3xi32>) -> (tensor<2x3xi32>) {
  %r = "stablehlo.sort"(%a) <{dimension = -1 : i64}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %p = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// ----- while_captures fires
func.func @main(%a: tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>) {
  %n = stablehlo.constant dense<3> : tensor<i32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %o, %v = %a) : tensor<i32>, tensor<2xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %j = stablehlo.add %i, %k : tensor<i32>
    stablehlo.return %j, %v : tensor<i32>, tensor<2xf32>
  }
  return %r#0, %r#1 : tensor<i32>, tensor<2xf32>
}

// ----- while_captures stays
func.func @main(%a: tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>) {
  %n = stablehlo.constant dense<3> : tensor<i32>
  %k = stablehlo.constant dense<1> : tensor<i32>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %o, %v = %a) : tensor<i32>, tensor<2xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %w = stablehlo.add %v, %v : tensor<2xf32>
    %j = stablehlo.add %i, %k : tensor<i32>
    stablehlo.return %j, %w : tensor<i32>, tensor<2xf32>
  }
  return %r#0, %r#1 : tensor<i32>, tensor<2xf32>
}

// ----- element_of_tuple fires
func.func @main(%a: tensor<2xf32>, %b: tensor<i32>) -> (tensor<i32>) {
  %t = stablehlo.tuple %a, %b : tuple<tensor<2xf32>, tensor<i32>>
  %r = stablehlo.get_tuple_element %t[1] : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<i32>
  return %r : tensor<i32>
}

// ----- tuple_of_elements fires
func.func @main(%a: tuple<tensor<2xf32>, tensor<i32>>) -> (tuple<tensor<2xf32>, tensor<i32>>) {
  %x = stablehlo.get_tuple_element %a[0] : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<2xf32>
  %y = stablehlo.get_tuple_element %a[1] : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<i32>
  %r = stablehlo.tuple %x, %y : tuple<tensor<2xf32>, tensor<i32>>
  return %r : tuple<tensor<2xf32>, tensor<i32>>
}

// ----- tuple_of_elements stays
func.func @main(%a: tuple<tensor<i32>, tensor<i32>>) -> (tuple<tensor<i32>, tensor<i32>>) {
  %x = stablehlo.get_tuple_element %a[1] : (tuple<tensor<i32>, tensor<i32>>) -> tensor<i32>
  %y = stablehlo.get_tuple_element %a[0] : (tuple<tensor<i32>, tensor<i32>>) -> tensor<i32>
  %r = stablehlo.tuple %x, %y : tuple<tensor<i32>, tensor<i32>>
  return %r : tuple<tensor<i32>, tensor<i32>>
}

// ----- custom_call_to_typed fires
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>) {
  %r = stablehlo.custom_call @f(%a) {mhlo.backend_config = {x = 1 : i32}} : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- custom_call_to_typed stays
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>) {
  %r = stablehlo.custom_call @f(%a) {backend_config = "b", mhlo.backend_config = {x = 1 : i32}} : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- custom_call_to_typed stays
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>) {
  %r = stablehlo.custom_call @f(%a) {api_version = 2 : i32, mhlo.backend_config = {x = 1 : i32}} : (tensor<2xf32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- empty_to_constant fires
func.func @main(%a: tensor<0x2xf32>) -> (tensor<0x2xf32>) {
  %r = stablehlo.negate %a : tensor<0x2xf32>
  return %r : tensor<0x2xf32>
}

// ----- empty_to_constant stays
func.func @main(%a: tensor<0x?xf32>) -> (tensor<0x?xf32>) {
  %r = stablehlo.negate %a : tensor<0x?xf32>
  return %r : tensor<0x?xf32>
}

// ----- empty_to_constant stays
func.func @main(%a: tensor<0xf32>) -> (tensor<0xf32>) {
  %r = stablehlo.custom_call @f(%a) {has_side_effect = true} : (tensor<0xf32>) -> tensor<0xf32>
  return %r : tensor<0xf32>
}

// ----- fold_clamp fires
func.func @main() -> (tensor<3xi32>) {
  %l = stablehlo.constant dense<-1> : tensor<i32>
  %a = stablehlo.constant dense<[-5, 5, 0]> : tensor<3xi32>
  %h = stablehlo.constant dense<1> : tensor<i32>
  %r = stablehlo.clamp %l, %a, %h : (tensor<i32>, tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  return %r : tensor<3xi32>
}

// ----- fold_compare fires
func.func @main() -> (tensor<3xi1>) {
  %a = stablehlo.constant dense<[0x7FC00000, -0.0, 1.0]> : tensor<3xf32>
  %b = stablehlo.constant dense<[0x7FC00000, 0.0, 2.0]> : tensor<3xf32>
  %r = stablehlo.compare NE, %a, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  return %r : tensor<3xi1>
}

// ----- fold_convert fires
func.func @main() -> (tensor<2xui8>) {
  %a = stablehlo.constant dense<[300, -1]> : tensor<2xi32>
  %r = stablehlo.convert %a : (tensor<2xi32>) -> tensor<2xui8>
  return %r : tensor<2xui8>
}

// ----- fold_convert stays
func.func @main() -> (tensor<i32>) {
  %a = stablehlo.constant dense<-0.0> : tensor<f32>
  %r = stablehlo.convert %a : (tensor<f32>) -> tensor<i32>
  return %r : tensor<i32>
}

// ----- fold_select fires
func.func @main() -> (tensor<2xf32>) {
  %p = stablehlo.constant dense<true> : tensor<i1>
  %a = stablehlo.constant dense<1.0> : tensor<2xf32>
  %b = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %r = stablehlo.select %p, %a, %b : tensor<i1>, tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- fold_select stays
func.func @main() -> (tensor<2xf32>) {
  %p = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %a = stablehlo.constant dense<1.0> : tensor<2xf32>
  %b = stablehlo.constant dense<2.0> : tensor<2xf32>
  %r = stablehlo.select %p, %a, %b : tensor<2xi1>, tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- fold_broadcast_in_dim fires
func.func @main() -> (tensor<2xcomplex<f32>>) {
  %a = stablehlo.constant dense<(1.0, -0.0)> : tensor<complex<f32>>
  %r = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<complex<f32>>) -> tensor<2xcomplex<f32>>
  return %r : tensor<2xcomplex<f32>>
}

// ----- fold_broadcast_in_dim stays
func.func @main() -> (tensor<2x2xi32>) {
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %r = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<2xi32>) -> tensor<2x2xi32>
  return %r : tensor<2x2xi32>
}

// ----- fold_reshape fires
func.func @main() -> (tensor<2x1xi4>) {
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi4>
  %r = stablehlo.reshape %a : (tensor<2xi4>) -> tensor<2x1xi4>
  return %r : tensor<2x1xi4>
}

// ----- fold_dynamic_slice_of_splat fires
func.func @main(%i: tensor<i32>) -> (tensor<2xi32>) {
  %a = stablehlo.constant dense<7> : tensor<5xi32>
  %r = stablehlo.dynamic_slice %a, %i, sizes = [2] : (tensor<5xi32>, tensor<i32>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}

// ----- fold_dynamic_slice_of_splat stays
func.func @main(%i: tensor<i32>) -> (tensor<1xi32>) {
  %a = stablehlo.constant dense<[7, 8]> : tensor<2xi32>
  %r = stablehlo.dynamic_slice %a, %i, sizes = [1] : (tensor<2xi32>, tensor<i32>) -> tensor<1xi32>
  return %r : tensor<1xi32>
}

// ----- fold_slice fires
func.func @main() -> (tensor<2xi32>) {
  %a = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %r = stablehlo.slice %a [1:4:2] : (tensor<4xi32>) -> tensor<2xi32>
  return %r : tensor<2xi32>
}

// ----- fold_concatenate fires
func.func @main() -> (tensor<2x3xi32>) {
  %a = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>
  %b = stablehlo.constant dense<[[3, 4], [5, 6]]> : tensor<2x2xi32>
  %r = stablehlo.concatenate %a, %b, dim = 1 : (tensor<2x1xi32>, tensor<2x2xi32>) -> tensor<2x3xi32>
  return %r : tensor<2x3xi32>
}

// ----- join_splats fires
func.func @main(%a: tensor<1xf32>) -> (tensor<5xf32>) {
  %s = stablehlo.constant dense<1.0> : tensor<2xf32>
  %r = stablehlo.concatenate %a, %s, %s, dim = 0 : (tensor<1xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// ----- join_splats stays
func.func @main(%a: tensor<1xf32>) -> (tensor<5xf32>) {
  %s = stablehlo.constant dense<0.0> : tensor<2xf32>
  %t = stablehlo.constant dense<-0.0> : tensor<2xf32>
  %r = stablehlo.concatenate %a, %s, %t, dim = 0 : (tensor<1xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}

// ----- fold_get_dimension_size fires
func.func @main(%a: tensor<?x4xf32>) -> (tensor<i32>) {
  %r = stablehlo.get_dimension_size %a, dim = 1 : (tensor<?x4xf32>) -> tensor<i32>
  return %r : tensor<i32>
}

// ----- fold_set_dimension_size fires
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>) {
  %n = stablehlo.constant dense<4> : tensor<i32>
  %r = stablehlo.set_dimension_size %a, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// ----- fold_set_dimension_size stays
func.func @main(%a: tensor<4xf32>) -> (tensor<?xf32, #stablehlo.bounds<4>>) {
  %n = stablehlo.constant dense<3> : tensor<i32>
  %r = stablehlo.set_dimension_size %a, %n, dim = 0 : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
  return %r : tensor<?xf32, #stablehlo.bounds<4>>
}

// ----- fold_transpose fires
func.func @main() -> (tensor<2x2xi32>) {
  %a = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %r = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2xi32>) -> tensor<2x2xi32>
  return %r : tensor<2x2xi32>
}

// ----- fold_reverse fires
func.func @main() -> (tensor<2xi32>) {
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %r = stablehlo.reverse %a, dims = [0] : tensor<2xi32>
  return %r : tensor<2xi32>
}

// ----- fold_reverse stays
func.func @main() -> (tensor<2xi32>) {
  %a = stablehlo.constant dense<1> : tensor<2xi32>
  %r = stablehlo.reverse %a, dims = [0] : tensor<2xi32>
  return %r : tensor<2xi32>
}

// ----- fold_iota fires
func.func @main() -> (tensor<1xui8>) {
  %r = stablehlo.iota dim = 0 : tensor<1xui8>
  return %r : tensor<1xui8>
}

// ----- fold_iota stays
func.func @main() -> (tensor<2xi32>) {
  %r = stablehlo.iota dim = 0 : tensor<2xi32>
  return %r : tensor<2xi32>
}

// ----- fold_iota stays
func.func @main() -> (tensor<1xf32>) {
  %r = stablehlo.iota dim = 0 : tensor<1xf32>
  return %r : tensor<1xf32>
}

// ----- fold_reduce_of_no_dimensions fires
func.func @main(%a: tensor<3xi32>) -> (tensor<3xi32>) {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.reduce(%a init: %z) across dimensions = [] : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    %s = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }
  return %r : tensor<3xi32>
}

// ----- fold_reduce_to_constants fires
func.func @main(%a: tensor<2x3xi32>, %z: tensor<i32>) -> (tensor<2xi32>) {
  %w = stablehlo.constant dense<7> : tensor<i32>
  %r = stablehlo.reduce(%a init: %z) across dimensions = [1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<2xi32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    stablehlo.return %w : tensor<i32>
  }
  return %r : tensor<2xi32>
}

// ----- fold_reduce_to_constants stays
func.func @main(%a: tensor<0xi32>, %z: tensor<i32>) -> (tensor<i32>) {
  %w = stablehlo.constant dense<7> : tensor<i32>
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<0xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    stablehlo.return %w : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- fold_reduce_to_outer_values fires
func.func @main(%a: tensor<3xi32>, %z: tensor<i32>, %w: tensor<i32>) -> (tensor<i32>) {
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    stablehlo.return %w : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- fold_reduce_to_outer_values stays
func.func @main(%a: tensor<0xi32>, %z: tensor<i32>, %w: tensor<i32>) -> (tensor<i32>) {
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<0xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    stablehlo.return %w : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- lower_splats_into_reduce fires
func.func @main() -> (tensor<i32>) {
  %a = stablehlo.constant dense<12> : tensor<3xi32>
  %z = stablehlo.constant dense<10> : tensor<i32>
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    %s = stablehlo.and %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- lower_splats_into_reduce stays
func.func @main() -> (tensor<i32>) {
  %a = stablehlo.constant dense<12> : tensor<3xi32>
  %z = stablehlo.constant dense<10> : tensor<i32>
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    %s = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- lower_splats_into_reduce stays
func.func @main() -> (tensor<i32>) {
  %a = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %z = stablehlo.constant dense<10> : tensor<i32>
  %r = stablehlo.reduce(%a init: %z) across dimensions = [0] : (tensor<3xi32>, tensor<i32>) -> tensor<i32>
  reducer(%x: tensor<i32>, %y: tensor<i32>) {
    %s = stablehlo.and %x, %y : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }
  return %r : tensor<i32>
}

// ----- inline_known_case fires
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>) {
  %k = stablehlo.constant dense<-7> : tensor<i32>
  %r = "stablehlo.case"(%k) ({
    %t = stablehlo.add %a, %a : tensor<2xf32>
    stablehlo.return %t : tensor<2xf32>
  }, {
    stablehlo.return %a : tensor<2xf32>
  }) : (tensor<i32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- inline_known_case stays
func.func @main(%a: tensor<2xf32>, %k: tensor<i32>) -> (tensor<2xf32>) {
  %r = "stablehlo.case"(%k) ({
    %t = stablehlo.add %a, %a : tensor<2xf32>
    stablehlo.return %t : tensor<2xf32>
  }, {
    stablehlo.return %a : tensor<2xf32>
  }) : (tensor<i32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- inline_known_case fires
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32>) {
  %k = stablehlo.constant dense<0> : tensor<i32>
  %r = "stablehlo.case"(%k) ({
    %t = stablehlo.add %a, %a : tensor<2xf32>
    %s = "stablehlo.case"(%k) ({
      %u = stablehlo.multiply %t, %a : tensor<2xf32>
      stablehlo.return %u : tensor<2xf32>
    }, {
      stablehlo.return %t : tensor<2xf32>
    }) : (tensor<i32>) -> tensor<2xf32>
    stablehlo.return %s : tensor<2xf32>
  }, {
    stablehlo.return %a : tensor<2xf32>
  }) : (tensor<i32>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// ----- fold_while_that_never_runs fires
func.func @main(%a: tensor<2xf32>, %q: tensor<i1>) -> (tensor<2xf32>) {
  %f = stablehlo.constant dense<false> : tensor<i1>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %o, %v = %a) : tensor<i32>, tensor<2xf32>
  cond {
    stablehlo.return %f : tensor<i1>
  } do {
    %w = func.call @main(%v, %q) : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
    stablehlo.return %i, %w : tensor<i32>, tensor<2xf32>
  }
  return %r#1 : tensor<2xf32>
}

// ----- fold_while_that_never_runs stays
func.func @main(%a: tensor<2xf32>, %q: tensor<i1>) -> (tensor<2xf32>) {
  %f = stablehlo.constant dense<false> : tensor<i1>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %o, %v = %a) : tensor<i32>, tensor<2xf32>
  cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %w = func.call @main(%v, %q) : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
    stablehlo.return %i, %w : tensor<i32>, tensor<2xf32>
  }
  return %r#1 : tensor<2xf32>
}

// ----- erase_while_that_never_runs fires
func.func @main(%a: tensor<2xf32>, %q: tensor<i1>) -> (tensor<2xf32>) {
  %f = stablehlo.constant dense<false> : tensor<i1>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %o, %v = %a) : tensor<i32>, tensor<2xf32>
  cond {
    stablehlo.return %f : tensor<i1>
  } do {
    %w = func.call @main(%v, %q) : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
    stablehlo.return %i, %w : tensor<i32>, tensor<2xf32>
  }
  return %a : tensor<2xf32>
}

// ----- erase_while_that_never_runs stays
func.func @main(%a: tensor<2xf32>, %q: tensor<i1>) -> (tensor<2xf32>) {
  %f = stablehlo.constant dense<false> : tensor<i1>
  %o = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %o, %v = %a) : tensor<i32>, tensor<2xf32>
  cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %w = func.call @main(%v, %q) : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
    stablehlo.return %i, %w : tensor<i32>, tensor<2xf32>
  }
  return %a : tensor<2xf32>
}
