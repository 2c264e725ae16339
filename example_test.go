package galley_test

import (
	"fmt"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/op"
)

func ExampleTrace() {
	in := []galley.Type{{DType: array.F32, Shape: array.Shape{4, 6}},
		{DType: array.F32, Shape: array.Shape{6, 8}}}
	p, err := galley.Trace("layer", in, func(in []*galley.Tensor) []*galley.Tensor {
		return []*galley.Tensor{op.Tanh(op.MatMul(in[0], in[1]))}
	})
	fmt.Print(p, err)
	// Output:
	// func layer(%0: f32[4,6], %1: f32[6,8]) {
	//   %2 = matmul %0 %1 : f32[4,8]  # example_test.go:15
	//   %3 = tanh %2 : f32[4,8]  # example_test.go:15
	//   return %3
	// }
	//  <nil>
}
