package hlo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
)

// module returns a program of these lines on three operands: a matrix, a vector and indices.
func module(lines ...string) string {
	return "module @m {\n  func.func public @main(%a: tensor<2x3xf32>, %b: tensor<3xf32>, %i: tensor<4xi32>) " +
		"-> (tensor<2x3xf32>) {\n    " +
		strings.Join(append(lines, `"func.return"(%a) : (tensor<2x3xf32>) -> ()`), "\n    ") + "\n  }\n}\n"
}

func TestParseMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "want module"},
		{"module @m {", "want func.func"},
		{module(`%0 = "stablehlo.abs"(%a) : (tensor<2x3xf32>) -> (tensor<2x3xf32>`), "line 4"},
		{module(`%0 = "stablehlo.abs"(%a, %b) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`),
			"2 operands and 1 results: want as many as types: 1 and 1"},
		{module(`%0:2 = "stablehlo.abs"(%a) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`), "2 results: want as many"},
		{module(`%0 = "stablehlo.abs"(%a) {x = dense<[1, 2]> : tensor<3xi64>} : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`), "want 3 elements, not 2"},
		{module(`%0 = "stablehlo.abs"(%a) {x = #stablehlo.dot<a [1]>} : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`),
			"want ="},
		{module(`%0 = "stablehlo.abs"(%a) : (tensor<99999999999x99999xf32>) -> (tensor<2x3xf32>)`),
			"want fewer elements"},
		{module() + "x", "want the end"},
		{module(`%0 = "stablehlo.abs"(%a) {x = "a`, `b"} : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`),
			"line 3: got \"a\": want a closing"},
		{module(`%0 = "stablehlo.abs"(%a) {x = "\2"} : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`), "want an escape"},
		{module(`%0 = "stablehlo.abs"(%a) {x = ` + strings.Repeat("[", 99) +
			`} : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`), "levels"},
	} {
		if _, err := hlo.Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q in\n%s", err, c.want, c.text)
		}
	}
}

func TestVerifyMistakes(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`%0 = "stablehlo.abs"(%x) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`, "value %x is not defined"},
		{`%0 = "stablehlo.abs"(%b) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`,
			"value %b is tensor<3xf32>: got tensor<2x3xf32>"},
		{`%a = "stablehlo.abs"(%a) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`, "defined twice"},
		{`%0 = "stablehlo.abs"(%a) : (tensor<2x3xf32>) -> (tensor<3x2xf32>)`, "want that type"},
		{`%0 = "stablehlo.tanh"(%i) : (tensor<4xi32>) -> (tensor<4xi32>)`, "want elements of"},
		{`%0 = "stablehlo.add"(%a, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>)`, "want that type"},
		{`%0 = "stablehlo.frob"(%a) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`, "unknown operation"},
		{`"func.return"(%a) : (tensor<2x3xf32>) -> ()`, "at the end"},
		{`%0 = "stablehlo.constant"() {value = dense<1.0> : tensor<f32>} : () -> (tensor<2xf32>)`,
			"want tensor<f32>"},
		{`%0 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> (tensor<2xi32>)`, "want a dim"},
		{`%0 = "stablehlo.broadcast_in_dim"(%b) {broadcast_dimensions = array<i64: 0>} : (tensor<3xf32>) -> (tensor<2x3xf32>)`, "do not take"},
		{`%0 = "stablehlo.reshape"(%a) : (tensor<2x3xf32>) -> (tensor<7xf32>)`, "got tensor<7xf32>"},
		{`%0 = "stablehlo.transpose"(%a) {permutation = array<i64: 1, 1>} : (tensor<2x3xf32>) -> (tensor<3x2xf32>)`,
			"permutation is"},
		{`%0 = "stablehlo.slice"(%b) {start_indices = array<i64: 1>, limit_indices = array<i64: 4>, strides = array<i64: 1>} : (tensor<3xf32>) -> (tensor<3xf32>)`, "cannot cut"},
		{`%0 = "stablehlo.concatenate"(%b, %b) {dimension = 0 : i64} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<5xf32>)`, "want tensor<6xf32>"},
		{`%0 = "stablehlo.compare"(%b, %b) {comparison_direction = #stablehlo<comparison_direction XX>} : (tensor<3xf32>, tensor<3xf32>) -> (tensor<3xi1>)`, "comparison_direction"},
		{`%0 = "stablehlo.dot_general"(%a, %b) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>} : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<3xf32>)`, "dims 0 and 0 differ"},
		{`%0 = "stablehlo.gather"(%a, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>} : (tensor<2x3xf32>, tensor<4xi32>) -> (tensor<4x2xf32>)`, "want tensor<4x3xf32>"},
		{`%0 = "stablehlo.while"(%b) ({
    ^bb0(%p: tensor<3xf32>):
      "stablehlo.return"(%p) : (tensor<3xf32>) -> ()
    }, {
    ^bb0(%q: tensor<3xf32>):
      "stablehlo.return"(%q) : (tensor<3xf32>) -> ()
    }) : (tensor<3xf32>) -> (tensor<3xf32>)`, "want tensor<i1>"},
		{`%0 = "stablehlo.all_gather"(%b) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<3xf32>) -> (tensor<3xf32>)`, "want tensor<6xf32>"},
	} {
		p, err := hlo.Parse(module(c.line))
		if err != nil {
			t.Errorf("%v in\n%s", err, c.line)
			continue
		}
		if err := p.Verify(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q in\n%s", err, c.want, c.line)
		}
	}
	p, err := hlo.Parse(module())
	if err != nil || p.Verify() != nil {
		t.Error(err, p.Verify())
	}
}

// kernelCall is a call of a kernel.
const kernelCall = `%0 = "stablehlo.custom_call"(%a) {call_target_name = "__gpu$xla.gpu.triton", api_version = 4 : i32, ` +
	`backend_config = {grid_x = 64 : i32, grid_y = 1 : i32, grid_z = 1 : i32, ir = "module { \22tt.reduce\22 }\0A", name = "k", num_stages = 1 : i32, num_warps = 4 : i32}, ` +
	`operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`

func TestKernelCall(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"api_version = 4", "api_version = 2", "api_version is 2 : i32: want 4 : i32"},
		{"grid_y = 1 : i32, ", "", "backend_config: grid_y is <nil>: want an i32"},
		{"grid_x = 64 : i32", "grid_x = 64 : i64", "grid_x is 64 : i64"},
		{"grid_x = 64", "grid_x = 0", "grid_x is 0 : i32"},
		{"num_warps = 4", "num_warps = 3", "power of two of warps"},
		{`name = "k"`, "name = 1 : i32", "name is 1 : i32: want a text"},
		{"{grid_x", `"s", x = {grid_x`, `backend_config is "s": want a dictionary`},
		{"operand_layouts = [dense<[1, 0]>", "operand_layouts = [dense<[0, 1]>", "rows one after the other"},
	} {
		text := module(strings.Replace(kernelCall, c.old, c.new, 1))
		p, err := hlo.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if p.String() != text {
			t.Errorf("got\n%s\nwant\n%s", p, text)
		}
		if err := p.Verify(); err == nil != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestQuote(t *testing.T) {
	text := "a \"b\"\n\t\\é\x00"
	if q := hlo.Quote(text); q.Text() != text || strings.ContainsAny(string(q), "\"\n") {
		t.Errorf("got %s for %q", q, q.Text())
	}
	if got := hlo.TextAttr(`\n\t\"\\\22\0a`).Text(); got != "\n\t\"\\\"\n" {
		t.Errorf("got %q", got)
	}
}

func TestLiterals(t *testing.T) {
	w := hlo.NewWriter(hlo.Config{})
	var refs []hlo.Ref
	for _, d := range []array.DType{array.F64, array.F32, array.BF16, array.F16} {
		for _, x := range []float64{1, -0.1, 1e300, 65504, 3e38} {
			refs = append(refs, w.Constant(hlo.Type{DType: d}, x))
		}
	}
	text := w.Module("2 literals", refs...)
	for _, want := range []string{"@_2_literals", "dense<1.0e+00> : tensor<f64>",
		"dense<-1.0e-01> : tensor<f32>", "dense<0x7F800000> : tensor<f32>", "dense<0x7C00> : tensor<f16>",
		"dense<-1.00097656e-01> : tensor<bf16>", "dense<1.0e+300> : tensor<f64>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

// FuzzParse: what parses prints as text that parses to the same, and neither that nor verifying it panics.
func FuzzParse(f *testing.F) {
	f.Add(module(`%0 = "stablehlo.custom_call"(%a) {backend_config = {a = 1 : i32, b = "\22\0A\\"}, y = {}} : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`))
	f.Add(module(`%0 = "stablehlo.abs"(%a) {x = [1 : i64, "s"], y} : (tensor<2x3xf32>) -> (tensor<2x3xf32>)`))
	paths, _ := filepath.Glob("../../op/testdata/stablehlo/*.txt")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range strings.Split(string(text), "\n\n") {
			if _, out, ok := strings.Cut(part, "\n----\n"); ok && len(out) < 4000 {
				f.Add(strings.TrimRight(out, "\n") + "\n")
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := hlo.Parse(text)
		if err != nil {
			return
		}
		_ = p.Verify()
		again, err := hlo.Parse(p.String())
		if err != nil {
			t.Fatalf("%v\n%s\nwhich is how this prints:\n%s", err, p, text)
		}
		if again.String() != p.String() {
			t.Fatalf("prints as\n%s\nthen as\n%s", p, again)
		}
	})
}
