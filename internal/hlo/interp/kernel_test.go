package interp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/hlo/interp"
)

// doubling is a kernel that stores the sum of a row of two, twice over, in one number of each row.
const doubling = `module {
  tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %out: !tt.ptr<f32> {tt.divisibility = 16 : i32}) attributes {noinline = false} {
    %pid = tt.get_program_id x : i32
    %two = arith.constant 2 : i32
    %r = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
    %row = arith.muli %pid, %two : i32
    %base = tt.addptr %x, %row : !tt.ptr<f32>, i32
    %bases = tt.splat %base : !tt.ptr<f32> -> tensor<2x!tt.ptr<f32>>
    %p = tt.addptr %bases, %r : tensor<2x!tt.ptr<f32>>, tensor<2xi32>
    %v = tt.load %p : tensor<2x!tt.ptr<f32>>
    %s = "tt.reduce"(%v) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<2xf32>) -> f32
    %t = arith.addf %s, %s : f32
    %po = tt.addptr %out, %pid : !tt.ptr<f32>, i32
    tt.store %po, %t : !tt.ptr<f32>
    tt.return
  }
}`

// calling returns a program that calls a kernel on a matrix of three rows, for three numbers.
func calling(kernel string, programs int) string {
	return fmt.Sprintf(`module @m {
  func.func public @main(%%x: tensor<3x2xf32>) -> (tensor<3xf32>) {
    %%0 = "stablehlo.custom_call"(%%x) {call_target_name = "__gpu$xla.gpu.triton", has_side_effect = false, backend_config = {grid_x = %d : i32, grid_y = 1 : i32, grid_z = 1 : i32, ir = %s, name = "k", num_stages = 1 : i32, num_warps = 4 : i32}, api_version = 4 : i32, operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[0]> : tensor<1xindex>]} : (tensor<3x2xf32>) -> (tensor<3xf32>)
    "func.return"(%%0) : (tensor<3xf32>) -> ()
  }
}
`, programs, hlo.Quote(kernel))
}

func TestKernelCall(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{calling(doubling, 3), "f32[3]{6 14 22}"},
		{calling(doubling, 2), "f32[3]{6 14 NaN}"},
		{calling(doubling, 4),
			"line 3: stablehlo.custom_call: triton: kernel k: line 10, column 5: tt.load: program [3 0 0]: lane 0: " +
				"index 6 of argument 0: want 0 to 5"},
		{calling(strings.Replace(doubling, "%out, %pid", "%x, %pid", 1), 1), "the kernel writes to operand 0"},
		{calling("module", 1), "triton: line 1, column 7"},
	} {
		p, err := hlo.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if p.String() != c.text {
			t.Errorf("got\n%s\nwant\n%s", p, c.text)
		}
		var got string
		out, err := interp.Run(p, [][]array.Array{{array.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 3, 2)}})
		if err != nil {
			got = err.Error()
		} else {
			got = out[0][0].String()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
