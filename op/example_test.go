package op_test

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/op"
)

// A layer is a function of tensors: of eager ones, as here, or of traced ones.
func Example() {
	layer := func(x, w, b *op.Tensor) *op.Tensor {
		return op.GELU(op.Add(op.MatMul(x, w), b), "none")
	}
	s := cpu.NewDevice(cpu.Config{}).NewSession()
	x := s.Tensor(array.FromSlice([]float32{1, 2}, 1, 2))
	w := s.Tensor(array.FromSlice([]float32{1, 0, 0, 1}, 2, 2))
	b := s.Tensor(array.FromSlice([]float32{0, -2}, 2))
	y, err := cpu.Read(layer(x, w, b))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.4f\n", y.Float64s())
	// Output: [0.8413 0.0000]
}
