package shard

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// apply traces one op on operands of these shapes and returns its node.
func apply(t *testing.T, shapes [][]int, f func(in []*op.Tensor) *op.Tensor) *ir.Node {
	t.Helper()
	b := ir.NewBuilder("test")
	in := make([]*op.Tensor, len(shapes))
	for i, s := range shapes {
		in[i] = b.Param("", ir.Type{DType: array.F32, Shape: s})
	}
	out := f(in)
	if _, err := b.Build(out); err != nil {
		t.Fatal(err)
	}
	return out.Node()
}

func specs(t *testing.T, texts string) []mesh.Spec {
	t.Helper()
	var list []mesh.Spec
	for _, text := range strings.Fields(texts) {
		s, err := mesh.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

func texts(specs []mesh.Spec) string {
	words := make([]string, len(specs))
	for i, s := range specs {
		words[i] = s.String()
	}
	return strings.Join(words, " ")
}

var (
	matmul = func(in []*op.Tensor) *op.Tensor { return op.MatMul(in[0], in[1]) }
	add    = func(in []*op.Tensor) *op.Tensor { return op.Add(in[0], in[1]) }
	mul    = func(in []*op.Tensor) *op.Tensor { return op.Mul(in[0], in[1]) }
	exp    = func(in []*op.Tensor) *op.Tensor { return op.Exp(in[0]) }
	neg    = func(in []*op.Tensor) *op.Tensor { return op.Neg(in[0]) }
	row    = func(in []*op.Tensor) *op.Tensor { return op.Mean(in[0], 1) }
	concat = func(in []*op.Tensor) *op.Tensor { return op.Concat(in, 0) }
)

var (
	product = [][]int{{8, 6}, {6, 4}}
	pair    = [][]int{{8, 6}, {8, 6}}
	one     = [][]int{{8, 6}}
)

func TestForward(t *testing.T) {
	m, _ := mesh.Parse("dp=2,tp=2")
	for _, c := range []struct {
		name          string
		shapes        [][]int
		f             func([]*op.Tensor) *op.Tensor
		have, in, out string
		mentions      string
	}{
		{"rows", product, matmul, "@[dp,_] @[_,tp]", "@[dp,_] @[_,tp]", "@[dp,tp]",
			"factor M is split by dp as in operand 0"},
		{"summed", product, matmul, "@[dp,tp] @[tp,_]", "@[dp,tp] @[tp,_]", "@[dp,_]+{tp}", ""},
		{"one side of the sum", product, matmul, "@[_,tp] @[_,_]", "@[_,tp] @[tp,_]", "@[_,_]+{tp}", ""},
		{"gathered weights", product, matmul, "@[dp,_] @[dp,_]", "@[dp,_] @[_,_]", "@[dp,_]",
			"the axis splits another factor"},
		{"partial passes a product", product, matmul, "@[dp,_]+{tp} @[_,_]", "@[dp,_]+{tp} @[_,_]", "@[dp,_]+{tp}",
			"passes"},
		{"two partials of a product", product, matmul, "@[_,_]+{tp} @[_,_]+{tp}", "@[_,_]+{tp} @[_,_]",
			"@[_,_]+{tp}", "passes"},
		{"two axes", product, matmul, "@[_,_]+{tp} @[_,_]+{dp}", "@[_,_]+{tp} @[_,_]+{dp}", "@[_,_]+{dp,tp}", ""},
		{"partial where the axis splits", product, matmul, "@[_,_]+{tp} @[_,tp]", "@[_,_] @[_,tp]", "@[_,tp]",
			"the axis splits operand 1"},
		{"sum of partials", pair, add, "@[_,_]+{tp} @[_,_]+{tp}", "@[_,_]+{tp} @[_,_]+{tp}", "@[_,_]+{tp}", ""},
		{"partial plus whole", pair, add, "@[_,_]+{tp} @[_,_]", "@[_,_] @[_,_]", "@[_,_]", "not linear"},
		{"mean plus whole", pair, add, "@[_,_]+{tp:mean} @[_,_]", "@[_,_]+{tp:mean} @[_,_]", "@[_,_]+{tp:mean}",
			""},
		{"reduce-scatter", pair, add, "@[_,_]+{tp} @[tp,_]", "@[tp,_] @[tp,_]", "@[tp,_]", "splits"},
		{"maximum does not pass", one, neg, "@[_,_]+{tp:max}", "@[_,_]", "@[_,_]", ""},
		{"not linear", one, exp, "@[dp,_]+{tp}", "@[dp,_]", "@[dp,_]", "exp is not linear"},
		{"times", pair, mul, "@[dp,_]+{tp} @[dp,_]", "@[dp,_]+{tp} @[dp,_]", "@[dp,_]+{tp}", ""},
		{"joined", pair, concat, "@[_,dp]+{tp} @[_,dp]+{tp}", "@[_,dp]+{tp} @[_,dp]+{tp}", "@[_,dp]+{tp}", ""},
		{"mean of a mean", one, row, "@[dp,tp]", "@[dp,tp]", "@[dp]+{tp}", ""},
		{"the larger leads", [][]int{{1, 6}, {8, 6}}, add, "@[_,dp] @[_,tp]", "@[_,tp.dp] @[_,tp.dp]", "@[_,tp.dp]",
			"gives way"},
		{"the first leads", pair, add, "@[_,dp] @[_,tp]", "@[_,dp.tp] @[_,dp.tp]", "@[_,dp.tp]", "gives way"},
		{"longer list", pair, add, "@[dp,_] @[dp.tp,_]", "@[dp.tp,_] @[dp.tp,_]", "@[dp.tp,_]", ""},
	} {
		n := apply(t, c.shapes, c.f)
		s, err := Forward(n.Op().(op.Op), m, ir.TypesOf(n.In()), ir.TypesOf(n.Out()), specs(t, c.have))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := texts(s.In); got != c.in {
			t.Errorf("%s: operands must have layout %s, want %s", c.name, got, c.in)
		}
		if got := texts(s.Out); got != c.out {
			t.Errorf("%s: results have layout %s, want %s", c.name, got, c.out)
		}
		if got := strings.Join(s.Reasons, "\n"); !strings.Contains(got, c.mentions) {
			t.Errorf("%s: reasons %s: want %q", c.name, got, c.mentions)
		}
	}
}

func TestBackward(t *testing.T) {
	m, _ := mesh.Parse("dp=2,tp=2")
	for _, c := range []struct {
		name          string
		shapes        [][]int
		f             func([]*op.Tensor) *op.Tensor
		want, in, out string
	}{
		{"product", product, matmul, "@[dp,tp]", "@[dp,_] @[_,tp]", "@[dp,tp]"},
		{"broadcast", [][]int{{6}, {8, 6}}, add, "@[dp,tp]", "@[tp] @[dp,tp]", "@[dp,tp]"},
		{"partial sum", pair, add, "@[dp,_]+{tp}", "@[dp,_]+{tp} @[dp,_]+{tp}", "@[dp,_]+{tp}"},
		{"not linear", one, exp, "@[dp,_]+{tp}", "@[dp,_]", "@[dp,_]"},
	} {
		n := apply(t, c.shapes, c.f)
		s, err := Backward(n.Op().(op.Op), m, ir.TypesOf(n.In()), ir.TypesOf(n.Out()), specs(t, c.want))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := texts(s.In); got != c.in {
			t.Errorf("%s: operands must have layout %s, want %s", c.name, got, c.in)
		}
		if got := texts(s.Out); got != c.out {
			t.Errorf("%s: results have layout %s, want %s", c.name, got, c.out)
		}
	}
}

func TestStepErrors(t *testing.T) {
	m, _ := mesh.Parse("dp=2")
	n := apply(t, product, matmul)
	for have, want := range map[string]string{
		"@[dp,_]":         "matmul: 1 specs: want one for each of 2 operands",
		"@[dp,_] @[xx,_]": "xx",
		"@[dp] @[_,_]":    "operand 0",
	} {
		_, err := Forward(n.Op().(op.Op), m, ir.TypesOf(n.In()), ir.TypesOf(n.Out()), specs(t, have))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", have, err, want)
		}
	}
}
