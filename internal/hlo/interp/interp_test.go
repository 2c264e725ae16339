package interp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/hlo/interp"
)

// sum is a program in which two devices add up what they hold.
const sum = `module @sum {
  func.func public @main(%x: tensor<2xf32>) -> (tensor<2xf32>) {
    %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %r = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> (tensor<f32>)
      "stablehlo.return"(%r) : (tensor<f32>) -> ()
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> (tensor<2xf32>)
    "func.return"(%0) : (tensor<2xf32>) -> ()
  }
}
`

func Example() {
	p, err := hlo.Parse(sum)
	if err != nil {
		fmt.Println(err)
		return
	}
	x, y := array.FromSlice([]float32{1, 2}, 2), array.FromSlice([]float32{10, 20}, 2)
	out, err := interp.Run(p, [][]array.Array{{x}, {y}})
	fmt.Println(array.Data[float32](out[0][0]), array.Data[float32](out[1][0]), err)
	// Output: [11 22] [11 22] <nil>
}

func TestMistakes(t *testing.T) {
	x := array.FromSlice([]float32{1, 2}, 2)
	wide := array.FromSlice([]float64{1, 2}, 2)
	for _, c := range []struct {
		text string
		in   []array.Array
		want string
	}{
		{sum, nil, "device 0 has 0 operands: want 1"},
		{sum, []array.Array{wide}, "operand 0 is tensor<2xf64>: want tensor<2xf32>"},
		{strings.Replace(sum, "all_reduce", "frobnicate", 1), []array.Array{x},
			"line 3: stablehlo.frobnicate: unknown operation"},
		{strings.Replace(sum, "stablehlo.all_reduce", "other.op", 1), []array.Array{x},
			"other.op: unknown operation"},
		{strings.Replace(sum, "return\"(%0)", "return\"(%9)", 1), []array.Array{x}, "value %9 is not defined"},
	} {
		p, err := hlo.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := interp.Run(p, [][]array.Array{c.in}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
