package triton

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
)

// snippet returns a kernel of these lines with pointers to f32, i32, i64, bf16, f16 and f64, and the first
// lanes %r of 4.
func snippet(lines string) string {
	return `module { tt.func public @k(%f: !tt.ptr<f32>, %i: !tt.ptr<i32>, %l: !tt.ptr<i64>, %b: !tt.ptr<bf16>, %h: !tt.ptr<f16>, %d: !tt.ptr<f64>) attributes {noinline = false} {
  %pid = tt.get_program_id x : i32
  %r = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
  %fs = tt.splat %f : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
  %fp = tt.addptr %fs, %r : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
  %is = tt.splat %i : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
  %ip = tt.addptr %is, %r : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
` + lines + `
  tt.return
} }`
}

// snippets is lines and what they leave in the first four elements of f32, or where f is nil of i32.
var snippets = []struct {
	lines string
	f, i  []float64
}{
	{"%c = arith.constant dense<[1.5, -2.0, 0x7FC00000, 3.0]> : tensor<4xf32> %z = arith.constant dense<0.0> " +
		": tensor<4xf32> " +
		"%m = arith.maxnumf %c, %z : tensor<4xf32> tt.store %fp, %m : tensor<4x!tt.ptr<f32>>", []float64{1.5, 0, 0,
		3}, nil},
	{"%c = arith.constant dense<[1.5, -2.0, 0x7FC00000, 3.0]> : tensor<4xf32> %z = arith.constant dense<0.0> " +
		": tensor<4xf32> " +
		"%m = arith.maximumf %c, %z : tensor<4xf32> tt.store %fp, %m : tensor<4x!tt.ptr<f32>>", []float64{1.5, 0,
		math.NaN(), 3}, nil},
	{"%c = arith.constant dense<[1.5, -2.0, 0x7FC00000, 3.0]> : tensor<4xf32> %z = arith.constant dense<0.0> " +
		": tensor<4xf32> %t = arith.cmpf olt, %c, %z : tensor<4xf32> " +
		"%n = arith.minnumf %c, %z : tensor<4xf32> %a = math.absf %n : tensor<4xf32> %g = arith.negf %a : " +
		"tensor<4xf32> " +
		"%s = arith.select %t, %a, %g : tensor<4xi1>, tensor<4xf32> tt.store %fp, %s : tensor<4x!tt.ptr<f32>>",
		[]float64{0, 2, 0, 0}, nil},
	{"%x = arith.sitofp %r : tensor<4xi32> to tensor<4xf32> %e = math.exp2 %x : tensor<4xf32> %q = math.sqrt " +
		"%e : tensor<4xf32> %p = arith.mulf %q, %q : tensor<4xf32> " +
		"%v = arith.divf %p, %e : tensor<4xf32> tt.store %fp, %v : tensor<4x!tt.ptr<f32>>", []float64{1,
		1 - 0x1p-24, 1, 1 - 0x1p-24}, nil},
	{"%x = arith.sitofp %r : tensor<4xi32> to tensor<4xf32> %e = math.tanh %x : tensor<4xf32> tt.store %fp, " +
		"%e : tensor<4x!tt.ptr<f32>>",
		[]float64{0, float64(float32(math.Tanh(1))), float64(float32(math.Tanh(2))),
			float64(float32(math.Tanh(3)))}, nil},
	{"%c = arith.constant dense<[1.00390625, 1.01171875, 1.0, 3.0e38]> : tensor<4xf32> %t = arith.truncf %c " +
		": tensor<4xf32> to tensor<4xbf16> " +
		"%e = arith.extf %t : tensor<4xbf16> to tensor<4xf32> tt.store %fp, %e : tensor<4x!tt.ptr<f32>>",
		[]float64{1, 1.015625, 1, 226 * 0x1p120}, nil},
	{"%c = arith.constant dense<2147483647> : tensor<4xi32> %s = arith.addi %c, %r : tensor<4xi32> tt.store " +
		"%ip, %s : tensor<4x!tt.ptr<i32>>",
		nil, []float64{2147483647, -2147483648, -2147483647, -2147483646}},
	{"%c = arith.constant dense<-7> : tensor<4xi32> %one = arith.constant dense<1> : tensor<4xi32> %d1 = " +
		"arith.addi %r, %one : tensor<4xi32> " +
		"%q = arith.divsi %c, %d1 : tensor<4xi32> tt.store %ip, %q : tensor<4x!tt.ptr<i32>>", nil, []float64{-7, -3,
		-2, -1}},
	{"%c = arith.constant dense<-7> : tensor<4xi32> %one = arith.constant dense<1> : tensor<4xi32> %d1 = " +
		"arith.addi %r, %one : tensor<4xi32> " +
		"%q = arith.remsi %c, %d1 : tensor<4xi32> tt.store %ip, %q : tensor<4x!tt.ptr<i32>>", nil, []float64{0, -1,
		-1, -3}},
	{"%c = arith.constant dense<2> : tensor<4xi32> %t = arith.cmpi sge, %r, %c : tensor<4xi32> %w = " +
		"arith.extsi %t : tensor<4xi1> to tensor<4xi32> " +
		"%a = arith.andi %w, %r : tensor<4xi32> %o = arith.ori %a, %c : tensor<4xi32> tt.store %ip, %o : " +
		"tensor<4x!tt.ptr<i32>>", nil, []float64{2, 2, 2, 3}},
	// Fibonacci: what is carried changes places
	{"%zero = arith.constant 0 : i32 %one = arith.constant 1 : i32 %five = arith.constant 5 : i32 " +
		"%res:2 = scf.for %n = %zero to %five step %one iter_args(%a = %zero, %c = %one) -> (i32, i32) : i32 { " +
		"%s = arith.addi %a, %c : i32 scf.yield %c, %s : i32, i32 } " +
		"tt.store %i, %res#0 : !tt.ptr<i32> %p1 = tt.addptr %i, %one : !tt.ptr<i32>, i32 tt.store %p1, %res#1 : " +
		"!tt.ptr<i32>", nil, []float64{5, 8, -1, -1}},
	{"%zero = arith.constant 0 : i32 %one = arith.constant 1 : i32 %three = arith.constant 3 : i32 " +
		"scf.for %n = %one to %three step %one : i32 { %p1 = tt.addptr %i, %n : !tt.ptr<i32>, i32 tt.store %p1, " +
		"%n : !tt.ptr<i32> }", nil, []float64{-1, 1, 2, -1}},
	{"%c = arith.constant dense<2> : tensor<4xi32> %t = arith.cmpi ne, %r, %c : tensor<4xi32> %nine = " +
		"arith.constant dense<9> : tensor<4xi32> " +
		"%v = tt.load %ip, %t, %nine evictionPolicy = evict_last : tensor<4x!tt.ptr<i32>> tt.store %ip, %v " +
		"evictionPolicy = evict_first : tensor<4x!tt.ptr<i32>>", nil, []float64{-1, -1, 9, -1}},
	{`%m = "tt.reduce"(%r) <{axis = 0 : i32}> ({ ^bb0(%x: i32, %y: i32): %z = arith.addi %x, %y : i32 tt.reduce.return %z : i32 }) : (tensor<4xi32>) -> i32 ` +
		"%t = arith.constant true %p = arith.constant 1 : i32 %s = arith.select %t, %m, %p : i32 tt.store %i, " +
		"%s, %t : !tt.ptr<i32>", nil, []float64{6, -1, -1, -1}},
	{"%v = arith.constant 9007199254740993 : i64 tt.store %l, %v : !tt.ptr<i64> %w = tt.load %l : " +
		"!tt.ptr<i64> %two = arith.constant 2 : i64 %m = arith.remsi %w, %two : i64 " +
		"%z = arith.constant 0 : i64 %t = arith.cmpi eq, %m, %z : i64 %p = arith.constant 1 : i32 %q = " +
		"arith.constant 3 : i32 %s = arith.select %t, %p, %q : i32 tt.store %i, %s : !tt.ptr<i32>",
		nil, []float64{3, -1, -1, -1}},
	{"%x = arith.constant 1.5 : f16 tt.store %h, %x : !tt.ptr<f16> %y = tt.load %h : !tt.ptr<f16> %w = " +
		"arith.extf %y : f16 to f64 tt.store %d, %w : !tt.ptr<f64> " +
		"%u = tt.load %d : !tt.ptr<f64> %n = arith.truncf %u : f64 to f32 tt.store %f, %n : !tt.ptr<f32>",
		[]float64{1.5, -1, -1, -1}, nil},
}

// snippetArgs returns arrays of four for a snippet's parameters, all -1.
func snippetArgs() []array.Array {
	var args []array.Array
	for _, d := range []array.DType{array.F32, array.I32, array.I64, array.BF16, array.F16, array.F64} {
		a := array.New(d, 4)
		for i := range 4 {
			a.Set(i, -1)
		}
		args = append(args, a)
	}
	return args
}

func TestOperations(t *testing.T) {
	for _, c := range snippets {
		args := snippetArgs()
		if err := Run(snippet(c.lines), [3]int{1, 1, 1}, args); err != nil {
			t.Errorf("%v in\n%s", err, c.lines)
			continue
		}
		got, want := args[0], c.f
		if want == nil {
			got, want = args[1], c.i
		}
		for i, w := range want {
			if g := got.At(i); g != w && !(math.IsNaN(g) && math.IsNaN(w)) {
				t.Errorf("got %v, want %v of\n%s", got, want, c.lines)
				break
			}
		}
	}
}

func TestGrid(t *testing.T) {
	text := `module { tt.func public @k(%o: !tt.ptr<i32>) {
  %x = tt.get_program_id x : i32 %y = tt.get_program_id y : i32 %z = tt.get_program_id z : i32
  %two = arith.constant 2 : i32 %a = arith.muli %z, %two : i32 %b = arith.addi %a, %y : i32 %c = arith.muli %b, %two : i32 %n = arith.addi %c, %x : i32
  %p = tt.addptr %o, %n : !tt.ptr<i32>, i32 tt.store %p, %n : !tt.ptr<i32> tt.return } }`
	out := array.New(array.I32, 8)
	if err := Run(text, [3]int{2, 2, 2}, []array.Array{out}); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if out.At(i) != float64(i) {
			t.Fatalf("got %v", out)
		}
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `line 1, column 1: got "": want module`},
		{"module {", "want tt.func"},
		{"module { tt.func public @k(%n: i32) { tt.return } }", "parameter %n is i32: want a pointer"},
		{snippet("") + "x", "want the end"},
		{snippet("%c = arith.frob %r : tensor<4xi32>"), "line 8, column 1: arith.frob: unknown operation"},
		{snippet("scf.yield"), "scf.yield: unknown operation, or not where it may stand"},
		{snippet("%c = arith.addi %r, %x : tensor<4xi32>"), "line 8, column 21: value %x is not defined"},
		{snippet("%c = arith.addi %r, %pid#1 : tensor<4xi32>"), "value %pid#1 is not defined"},
		{snippet("%c = arith.addi %r, %pid : tensor<4xi32>"), "value %pid is i32: want tensor<4xi32>"},
		{snippet("%c = arith.addf %r, %r : tensor<4xi32>"), "arith.addf: got tensor<4xi32>: not a type it takes"},
		{snippet("%1a = arith.addi %r, %r : tensor<4xi32>"), "line 8, column 2: got value %1a"},
		{snippet("%r = arith.addi %r, %r : tensor<4xi32>"), "value %r is defined twice"},
		{snippet("%c:2 = arith.addi %r, %r : tensor<4xi32>"), "got 2 names: want 1"},
		{snippet("%c = arith.constant dense<1> : tensor<3xi32>"), "want a power of two"},
		{snippet("%c = arith.constant dense<1> : tensor<4x4xi32>"), "got type 4xi32"},
		{snippet("%c = arith.constant dense<[]> : tensor<4xi32>"), "got 0 numbers for tensor<4xi32>"},
		{snippet("%c = arith.constant 1 : f32"), "got 1: want a number of f32 with a point"},
		{snippet("%c = arith.constant 0xFF800000 : bf16"), "want bits of bf16"},
		{snippet("%c = arith.constant 2147483648 : i32"), "want a number of i32"},
		{snippet("%c = arith.extf %r : tensor<4xi32> to tensor<4xf32>"), "arith.extf: got tensor<4xi32>"},
		{snippet("%c = arith.constant 1.0 : f32 %e = arith.extf %c : f32 to bf16"),
			"got f32 to bf16: not a conversion it makes"},
		{snippet("%c = arith.cmpi ult, %r, %r : tensor<4xi32>"), "ult: unknown comparison"},
		{snippet("%c = tt.splat %pid : i32 -> tensor<4xi64>"), "got i32 to tensor<4xi64>"},
		{snippet("%c = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<4xi32>"),
			"want a tensor of that many i32"},
		{snippet("%c = tt.load %ip evictionPolicy = evict_soon : tensor<4x!tt.ptr<i32>>"),
			"tt.load: evict_soon: unknown policy of the cache"},
		{snippet("%c = tt.load %r : tensor<4xi32>"), "tt.load: got tensor<4xi32>: want pointers"},
		{snippet("tt.store %fp, %r : tensor<4x!tt.ptr<f32>>"), "value %r is tensor<4xi32>: want tensor<4xf32>"},
		{snippet("%p = tt.addptr %ip, %r : tensor<4x!tt.ptr<i32>>, tensor<4xi32> %v = tt.load %p : " +
			"tensor<4x!tt.ptr<i32>>"), "tt.load: program [0 0 0]: lane 2: index 4 of argument 1: want 0 to 3"},
		{snippet("%m = arith.constant -1 : i32 %p = tt.addptr %i, %m : !tt.ptr<i32>, i32 tt.store %p, %m : " +
			"!tt.ptr<i32>"), "tt.store: program [0 0 0]: lane 0: index -1 of argument 1"},
		{snippet("%c = arith.divsi %r, %r : tensor<4xi32>"),
			"arith.divsi: program [0 0 0]: lane 0: 0 divided by 0"},
		{snippet("scf.for %n = %pid to %pid step %pid : i32 { }"), "step is 0"},
		{snippet("%c = scf.for %n = %pid to %pid step %pid iter_args(%a = %pid) -> (i32) : i32 { }"),
			"want an operation"},
		{snippet("%c = scf.for %n = %pid to %pid step %pid iter_args(%a = %pid) -> (i32) : i32 { scf.yield %r : " +
			"tensor<4xi32> }"), "value %r is tensor<4xi32>: want i32"},
		{snippet("%c = scf.for %n = %pid to %pid step %pid iter_args(%a = %pid) -> (i32) : i32 { scf.yield %n : " +
			"i32 } tt.store %i, %a : !tt.ptr<i32>"), "value %a is not defined"},
		{snippet("scf.for %n = %pid to %pid step %pid : i32 { "),
			"line 9, column 3: tt.return: unknown operation, or not where it may stand"},
		{snippet(`%m = "tt.reduce"(%r) <{axis = 1 : i32}> ({`), `axis is "1": want 0`},
		{snippet(`%m = "tt.reduce"(%pid) <{axis = 0 : i32}> ({`), "value %pid is i32: want a tensor"},
		{snippet(`%m = "tt.reduce"(%r) <{axis = 0 : i32}> ({ ^bb0(%x: i32): tt.reduce.return %x : i32 }) : (tensor<4xi32>) -> i32`), "want two of i32"},
	} {
		if err := Run(c.text, [3]int{1, 1, 1}, snippetArgs()); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q in\n%s", err, c.want, c.text)
		}
	}
}

func TestArgumentMistakes(t *testing.T) {
	args := snippetArgs()
	swapped := append([]array.Array{args[1], args[0]}, args[2:]...)
	for _, c := range []struct {
		grid [3]int
		args []array.Array
		want string
	}{
		{[3]int{1, 1, 1}, args[1:], "kernel k: got 5 arguments: want 6"},
		{[3]int{1, 1, 1}, swapped, "argument 0 is i32: want f32"},
		{[3]int{1, 0, 1}, args, "grid is [1 0 1]"},
	} {
		if err := Run(snippet(""), c.grid, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestDepthAndSize(t *testing.T) {
	var b strings.Builder
	for i := range 99 {
		b.WriteString(strings.ReplaceAll("scf.for %nI = %pid to %pid step %pid : i32 { ", "I",
			strings.Repeat("i", i+1)))
	}
	if _, err := parse(snippet(b.String())); err == nil || !strings.Contains(err.Error(), "deeper than") {
		t.Errorf("got %v", err)
	}
	b.Reset()
	for i := range 20 {
		b.WriteString("%c" + strings.Repeat("c", i) + " = arith.constant dense<1> : tensor<1048576xi32>\n")
	}
	if _, err := parse(snippet(b.String())); err == nil || !strings.Contains(err.Error(), "numbers together") {
		t.Errorf("got %v", err)
	}
}
