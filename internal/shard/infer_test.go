package shard_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txt", func(t *testing.T, b golden.Block) string {
		f, err := ir.Parse(b.Input, op.Lookup)
		if err != nil {
			return "error: " + err.Error()
		}
		c, err := config(f, b)
		if err != nil {
			return "error: " + err.Error()
		}
		r, err := shard.Infer(f, c)
		if err != nil {
			return "error: " + err.Error()
		}
		return show(f, r)
	})
}

// config reads a mesh, then annotations of values, %0=@[dp,?], and results, >0=@[dp,_].
func config(f *ir.Func, b golden.Block) (shard.Config, error) {
	c := shard.Config{Values: map[int]mesh.Sharding{}, Results: make([]mesh.Sharding, len(f.Results()))}
	c.Strategy = map[string]shard.Strategy{"basic": shard.Basic, "aggressive": shard.Aggressive,
		"op": shard.ByOp}[b.Command]
	var err error
	if c.Mesh, err = mesh.Parse(b.Args[0]); err != nil {
		return c, err
	}
	for _, arg := range b.Args[1:] {
		name, text, _ := strings.Cut(arg, "=")
		s, err := mesh.ParseSharding(text)
		if err != nil {
			return c, err
		}
		n, err := strconv.Atoi(name[1:])
		if err != nil {
			return c, err
		}
		if name[0] == '%' {
			c.Values[n] = s
		} else {
			c.Results[n] = s
		}
	}
	return c, nil
}

func show(f *ir.Func, r *shard.Result) string {
	var b strings.Builder
	for v := range f.NumValues() {
		fmt.Fprintf(&b, "%%%d %v %v\n", v, r.Specs[v], r.Shardings[v])
		for _, why := range r.Reasons[v] {
			fmt.Fprintf(&b, "   %s\n", why)
		}
	}
	for i, s := range r.Results {
		fmt.Fprintf(&b, ">%d %v\n", i, s)
	}
	return b.String()
}

// randomProgram returns a few layers of ops of many kinds on [8,8] tensors.
func randomProgram(t *rapid.T) *ir.Func {
	b := ir.NewBuilder("random")
	square := ir.Type{DType: array.F32, Shape: array.Shape{8, 8}}
	vs := []*op.Tensor{b.Param("", square), b.Param("", square), b.Param("", square)}
	pick := func() *op.Tensor { return vs[rapid.IntRange(0, len(vs)-1).Draw(t, "operand")] }
	for range rapid.IntRange(1, 10).Draw(t, "nodes") {
		var y *op.Tensor
		switch rapid.IntRange(0, 8).Draw(t, "kind") {
		case 0:
			y = op.Add(pick(), pick())
		case 1:
			y = op.MatMul(pick(), pick())
		case 2:
			y = op.Transpose(pick(), 1, 0)
		case 3:
			y = op.Expand(op.Reshape(op.Sum(pick(), 1), 8, 1), 8, 8)
		case 4:
			y = op.Reshape(op.Exp(op.Reshape(pick(), 4, 16)), 8, 8)
		case 5:
			y = op.Softmax(pick(), 1)
		case 6:
			y = op.Concat([]*op.Tensor{op.Narrow(pick(), 0, 0, 4), op.Narrow(pick(), 0, 4, 8)}, 0)
		case 7:
			y = op.Flip(pick(), 0)
		case 8:
			y = op.Neg(pick())
		}
		vs = append(vs, y)
	}
	f, err := b.Build(vs[len(vs)-1], pick())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func randomSharding(t *rapid.T) mesh.Sharding {
	texts := []string{"@[a,b]", "@[b,?]", "@[?,a?]", "@[a.b?,?]", "@[_,_]", "@[?,_]", "@[a:(1)2?,?]",
		"@[?,?]-{b}", "@[c!1,a?]", "@[?,c?!2]", "@[b.c,?]", "@[c,a!1]"}
	s, err := mesh.ParseSharding(rapid.SampledFrom(texts).Draw(t, "sharding"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestInferLaws: whatever the program and the wishes, closed dims stay, open ones begin with what was asked,
// every Spec is legal, every op can run on what comes out, and the answer is the same each time.
func TestInferLaws(t *testing.T) {
	m := parseMesh(t, "a=4,b=2,c=3")
	rapid.Check(t, func(t *rapid.T) {
		f := randomProgram(t)
		c := shard.Config{Mesh: m, Values: map[int]mesh.Sharding{}}
		c.Strategy = rapid.SampledFrom([]shard.Strategy{shard.ByUser, shard.ByOp, shard.Aggressive,
			shard.Basic}).Draw(t, "strategy")
		for v := range f.NumValues() {
			if rapid.IntRange(0, 2).Draw(t, "asked") == 0 && len(valueShape(f, v)) == 2 {
				c.Values[v] = randomSharding(t)
			}
		}
		r, err := shard.Infer(f, c)
		if err != nil {
			t.Fatal(err)
		}
		for v, s := range c.Values {
			checkKept(t, m, v, s, r.Shardings[v])
		}
		for v := range f.NumValues() {
			if err := r.Specs[v].Check(m, len(valueShape(f, v))); err != nil {
				t.Fatalf("%%%d: %v", v, err)
			}
		}
		for _, n := range f.Nodes() {
			checkRuns(t, m, n, r)
		}
		again, err := shard.Infer(f, c)
		if err != nil || show(f, again) != show(f, r) {
			t.Fatalf("another answer for the same question: %v", err)
		}
	})
}

func valueShape(f *ir.Func, id int) []int {
	if id < len(f.Params()) {
		return f.Params()[id].Shape()
	}
	for _, n := range f.Nodes() {
		for _, v := range n.Out() {
			if v.ID() == id {
				return v.Shape()
			}
		}
	}
	return nil
}

func checkKept(t *rapid.T, m *mesh.Mesh, v int, asked, got mesh.Sharding) {
	for d := range asked.Freedom {
		want, have := asked.Spec.Dims[d], got.Spec.Dims[d]
		if !asked.Freedom[d].Open && !have.Equal(want) {
			t.Fatalf("%%%d: dim %d is closed: asked %v, got %v", v, d, asked, got)
		}
		if !m.HasPrefix(have, want) {
			t.Fatalf("%%%d: dim %d does not begin as asked: %v, got %v", v, d, asked, got)
		}
	}
	for _, s := range got.Spec.Used() {
		if m.Overlap(s, asked.Replicated) {
			t.Fatalf("%%%d: %v splits a dim: asked %v, got %v", v, s, asked, got)
		}
	}
}

func checkRuns(t *rapid.T, m *mesh.Mesh, n *ir.Node, r *shard.Result) {
	var in, out []ir.Type
	var have []mesh.Spec
	for _, v := range n.In() {
		in, have = append(in, v.Type()), append(have, r.Specs[v.ID()])
	}
	for _, v := range n.Out() {
		out = append(out, v.Type())
	}
	s, err := shard.Forward(n.Op().(op.Op), m, in, out, have)
	if err != nil {
		t.Fatalf("%s cannot run on %v: %v", n.Op().Name(), have, err)
	}
	if c := s.Rule.Check(m, s.Assign); len(c) > 0 {
		t.Fatalf("%s: %v", n.Op().Name(), c)
	}
	for i, spec := range slices.Concat(s.In, s.Out) {
		if err := spec.Check(m, spec.Rank()); err != nil {
			t.Fatalf("%s: tensor %d: %v", n.Op().Name(), i, err)
		}
	}
}

// TestTransformer: data and tensor parallelism spread from the parameters to where they belong.
func TestTransformer(t *testing.T) {
	f, asked := step(t, size{layers: 2, batch: 8, seq: 16, hidden: 32, heads: 4, dim: 8, inner: 64, vocab: 128})
	m := parseMesh(t, "dp=2,tp=2")
	r, err := shard.Infer(f, shard.Config{Mesh: m, Values: asked})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"attention": "@[dp,_,tp,_]", "swiglu": "@[dp,_,tp]", "rms_norm": "@[dp,_,_]",
		"embedding": "@[dp,_,_]"}
	for _, n := range f.Nodes() {
		if w, ok := want[n.Op().Name()]; ok {
			if got := r.Specs[n.Out()[0].ID()].String(); got != w {
				t.Errorf("%s: got %s, want %s: %v", n.Op().Name(), got, w, r.Reasons[n.Out()[0].ID()])
			}
		}
	}
	for i := range f.Results() {
		if i == 0 {
			continue
		}
		var p *ir.Value // result i updates a parameter of its own
		for _, v := range f.Results()[i].Node().In() {
			if v.Node() == nil {
				p = v
			}
		}
		if got, want := r.Results[i].String(), r.Specs[p.ID()].String(); got != want {
			t.Errorf("%s: the new value has layout %s, the old one as %s", p.Name(), got, want)
		}
	}
}

func TestInferErrors(t *testing.T) {
	b := ir.NewBuilder("main")
	x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{8, 8}})
	f, err := b.Build(op.Exp(x))
	if err != nil {
		t.Fatal(err)
	}
	m := parseMesh(t, "a=2")
	split := mesh.Closed(mesh.Split(mesh.On("a"), nil))
	for _, c := range []struct {
		config shard.Config
		want   string
	}{
		{shard.Config{Mesh: m, Values: map[int]mesh.Sharding{7: split}},
			"annotation of value 7: program main has 2 values"},
		{shard.Config{Mesh: m, Results: []mesh.Sharding{split, split}},
			"annotations of 2 results: program main has 1"},
		{shard.Config{Values: map[int]mesh.Sharding{0: split}}, "want a mesh that has them"},
		{shard.Config{Mesh: m, Values: map[int]mesh.Sharding{0: mesh.Closed(mesh.Whole(3))}}, "parameter %0 \"x\""},
	} {
		if _, err := shard.Infer(f, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
