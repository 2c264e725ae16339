package op_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/op/optest"
)

func TestZigzagOrder(t *testing.T) {
	if got, want := op.ZigzagOrder(2, 8), []int{0, 1, 6, 7, 2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := op.ZigzagOrder(3, 8); got != nil {
		t.Errorf("got %v for a sequence that does not divide, want nothing", got)
	}
	s := device(t, 1).NewSession()
	for _, c := range [][2]int{{1, 2}, {2, 8}, {3, 12}, {4, 40}} {
		at := read(t, op.ZigzagPositions(s, c[0], c[1]))
		rows := read(t, op.ZigzagRows(op.Iota(s, array.I32, array.Shape{c[1]}, 0), 0, c[0]))
		for i, want := range op.ZigzagOrder(c[0], c[1]) {
			if int(at.At(i)) != want || int(rows.At(i)) != want {
				t.Fatalf("%v: row %d: position %v, element %v, want %d", c, i, at.At(i), rows.At(i), want)
			}
		}
	}
}

// TestZigzagAttention: attention of rows in zigzag order is attention in zigzag order, also where blocks are
// several.
func TestZigzagAttention(t *testing.T) {
	s := device(t, 2).NewSession()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ parts, seq, window int }{{2, 40, 0}, {3, 630, 0}, {2, 1200, 150}} {
		xs := at(s, []array.Array{
			normals(rng, array.F64, 2, c.seq, 4, 8), normals(rng, array.F64, 2, c.seq, 2, 8), normals(rng, array.F64,
				2, c.seq, 2, 5),
		})
		dout := s.Tensor(normals(rng, array.F64, 2, c.seq, 4, 5))
		plain := op.AttentionConfig{Causal: true, Window: c.window}
		want := op.Attention(xs[0], xs[1], xs[2], plain)
		grads := op.Grad([]*op.Tensor{want}, []*op.Tensor{dout}, xs)
		zig := func(x *op.Tensor) *op.Tensor { return op.ZigzagRows(x, 1, c.parts) }
		plain.Zigzag = c.parts
		ys := []*op.Tensor{zig(xs[0]).Track(), zig(xs[1]).Track(), zig(xs[2]).Track()}
		got := op.Attention(ys[0], ys[1], ys[2], plain)
		if e := distance(read(t, got), read(t, zig(want))); e > 1e-12 {
			t.Errorf("%v: results differ by %.3g", c, e)
		}
		for i, g := range op.Grad([]*op.Tensor{got}, []*op.Tensor{zig(dout)}, ys) {
			if e := distance(read(t, g), read(t, zig(grads[i]))); e > 1e-12 {
				t.Errorf("%v: gradients of operand %d differ by %.3g", c, i, e)
			}
		}
	}
}

// TestZigzagBalance: under a causal mask devices in a ring have equal work in zigzag order, and not in that
// of positions.
func TestZigzagBalance(t *testing.T) {
	m, err := mesh.Parse("x=4")
	if err != nil {
		t.Fatal(err)
	}
	in := []op.Type{{DType: array.F32, Shape: array.Shape{1, 512, 4, 16}}}
	in = append(in, in[0], in[0])
	for zigzag, most := range map[int]float64{0: 1.8, 4: 1.01} {
		work := ringWork(t, m, op.AttentionConfig{Causal: true, Zigzag: zigzag}, in)
		ratio := slices.Max(work) / (work[0] + work[1] + work[2] + work[3]) * 4
		if ratio > most || zigzag == 0 && ratio < 1.5 {
			t.Errorf("zigzag %d: the busiest device has %.3f of the mean work %v", zigzag, ratio, work)
		}
	}
}

// ringWork returns the flops of each device in an attention that they compute together.
func ringWork(t *testing.T, m *mesh.Mesh, c op.AttentionConfig, in []op.Type) []float64 {
	t.Helper()
	s := device(t, 1).NewSession()
	x := s.Tensor(array.New(in[0].DType, in[0].Shape...)).Track()
	o := op.Attention(x, x, x, c).Node().Op().(op.Cooperator)
	p, out, err := optest.Bind(o, in, o.CooperativeRule(in).Rule)
	if err != nil {
		t.Fatal(err)
	}
	a := make(mesh.Assignment, len(p.Factors))
	a[p.Index('s')] = mesh.On("x")
	var work []float64
	for _, id := range m.Devices() {
		at, err := op.NewPlace(p, m, a, id, in, out)
		if err != nil {
			t.Fatal(err)
		}
		f, err := op.Cooperation(o, at)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, n := range f.Nodes() {
			sum += n.Op().(op.Op).Work(valueTypes(n.In()), valueTypes(n.Out())).Flops
		}
		work = append(work, sum)
	}
	return work
}

func valueTypes(vs []*op.Tensor) []op.Type {
	var ts []op.Type
	for _, v := range vs {
		ts = append(ts, v.Type())
	}
	return ts
}
