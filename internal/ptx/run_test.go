package ptx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
)

// eighths returns an array of small multiples of 1/8, of which sums of products are exact in any order.
func eighths(r *rand.Rand, shape ...int) array.Array {
	a := array.New(array.BF16, shape...)
	for i := range a.Len() {
		a.Set(i, float64(r.IntN(17)-8)/8)
	}
	return a
}

// blank returns an array of which every number is still to be written.
func blank(shape ...int) array.Array {
	a := array.New(array.BF16, shape...)
	for i := range a.Len() {
		a.Set(i, math.NaN())
	}
	return a
}

// call is a kernel with its arrays, of which the last ones are results.
type call struct {
	Kernel
	arrays  []array.Array
	results int
}

func (q GatedProduct) call() call {
	r := rand.New(rand.NewPCG(1, 2))
	return call{q.Kernel(), []array.Array{eighths(r, q.Rows, q.Depth), eighths(r, 2*q.Width, q.Depth),
		blank(q.Rows, 2*q.Width), blank(q.Rows, q.Width)}, 2}
}

func (q GatedGradient) call() call {
	r := rand.New(rand.NewPCG(3, 4))
	return call{q.Kernel(), []array.Array{eighths(r, q.Rows, q.Depth), eighths(r, q.Depth, q.Width), eighths(r,
		q.Rows, 2*q.Width), blank(q.Rows, 2*q.Width)}, 1}
}

func (q RoPEProduct) call() call {
	r := rand.New(rand.NewPCG(5, 6))
	cos, sin := array.New(array.F32, q.Seq, q.Head/2), array.New(array.F32, q.Seq, q.Head/2)
	for i := range cos.Len() {
		s, c := math.Sincos(100 * r.Float64())
		sin.Set(i, s)
		cos.Set(i, c)
	}
	arrays := []array.Array{eighths(r, q.Rows, q.Depth), eighths(r, q.cols(), q.Depth), cos, sin}
	for _, n := range q.widths() {
		arrays = append(arrays, blank(q.Rows, n))
	}
	return call{q.Kernel(), arrays, len(q.widths())}
}

// fresh returns the arrays with results of their own.
func (c call) fresh() []array.Array {
	list := append([]array.Array(nil), c.arrays...)
	for i := len(list) - c.results; i < len(list); i++ {
		list[i] = list[i].Clone()
	}
	return list
}

// want returns what the kernel should compute.
func (c call) want(t testing.TB) []array.Array {
	list := c.fresh()
	if err := reference(c.Name, list); err != nil {
		t.Fatal(err)
	}
	return list
}

// differ reports where arrays are further from each other than one step of bf16, or than rounding errors of
// what numbers near 0 are sums of.
func differ(got, want []array.Array) error {
	for i, a := range got {
		for j := range a.Len() {
			g, w := a.At(j), want[i].At(j)
			if bound := max(math.Abs(w)/128, 1e-5); !(math.Abs(g-w) <= bound) {
				return fmt.Errorf("array %d: number %d is %v, want %v", i, j, g, w)
			}
		}
	}
	return nil
}

// inTurn returns the kernel for one pair of units that computes all tiles, one after the other.
func (c call) inTurn() call {
	c.Text = nextTile.ReplaceAllString(c.Text, "${1}1;")
	c.Blocks = 2
	return c
}

var nextTile = regexp.MustCompile(fmt.Sprintf(`(add\.u32 %%r\d+, %%r\d+, )%d;`, Units/2))

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name string
		call
	}{
		{"gated product, least", GatedProduct{256, 256, 128}.call()},
		{"gated product", GatedProduct{512, 256, 384}.call()},
		{"gated gradient, least", GatedGradient{256, 256, 256}.call()},
		{"gated gradient", GatedGradient{512, 512, 512}.call()},
		{"turned product, least", RoPEProduct{256, 256, 256, 64, []int{256}, nil}.call()},
		{"turned product, heads of 64", RoPEProduct{512, 256, 128, 64, []int{512, 256}, []int{256}}.call()},
		{"turned product, heads of 128", RoPEProduct{256, 512, 64, 128, []int{256}, []int{512}}.call()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && !strings.HasSuffix(c.name, "least") {
				t.Skip("larger ones take longer")
			}
			want, turns := c.want(t), c.inTurn()
			for i, r := range []struct {
				Kernel
				running
			}{{c.Kernel, running{limit: enough}}, {turns.Kernel, running{limit: enough}}, {turns.Kernel,
				running{enough, rand.New(rand.NewPCG(7, 8))}}} {
				got := c.fresh()
				if err := runWith(r.Kernel, got, r.running); err != nil {
					t.Fatal(err)
				}
				if err := differ(got, want); err != nil {
					t.Fatalf("run %d: %v", i, err)
				}
			}
		})
	}
}

// enough is more steps than any of the tests' kernels takes.
const enough = 1 << 28

// TestRunRounds: more tiles than pairs of units, so that some compute a second one: the last rows.
func TestRunRounds(t *testing.T) {
	if testing.Short() {
		t.Skip("67 tiles take longer")
	}
	const rows = 256
	c := GatedProduct{Rows: rows * (Units/2 + 1), Depth: 256, Width: 128}.call()
	got := c.fresh()
	if err := Run(c.Kernel, got); err != nil {
		t.Fatal(err)
	}
	for i, x := range got[3].Float64s() {
		if math.IsNaN(x) {
			t.Fatalf("number %d was not written", i)
		}
	}
	for _, first := range []int{0, 7 * rows, Units / 2 * rows} {
		part := func(list []array.Array) (out []array.Array) {
			for i, a := range list {
				if i != 1 {
					a = a.Rows(first, first+rows)
				}
				out = append(out, a)
			}
			return out
		}
		want := call{c.Kernel, part(c.arrays), c.results}.want(t)
		if err := differ(part(got), want); err != nil {
			t.Fatalf("rows from %d on: %v", first, err)
		}
	}
}
