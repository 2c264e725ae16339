package hlo_test

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

func Example() {
	w := hlo.NewWriter(hlo.Config{})
	x := w.Param(hlo.Type{DType: array.F32, Shape: array.Shape{2}})
	y := w.Op("multiply", "", x.Type, x, w.Constant(x.Type, 0.5))
	text := w.Module("half", y)
	fmt.Print(text)

	p, err := hlo.Parse(text)
	fmt.Println(err, p.Verify(), p.String() == text)
	// Output:
	// module @half attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
	//   func.func public @main(%arg0: tensor<2xf32>) -> (tensor<2xf32>) {
	//     %0 = "stablehlo.constant"() {value = dense<5.0e-01> : tensor<f32>} : () -> (tensor<f32>)
	//     %1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64>} : (tensor<f32>) -> (tensor<2xf32>)
	//     %2 = "stablehlo.multiply"(%arg0, %1) : (tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>)
	//     "func.return"(%2) : (tensor<2xf32>) -> ()
	//   }
	// }
	// <nil> <nil> true
}
