package op

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/kernel"
	"github.com/galley-ml/galley/mesh"
)

// mlpSeries is a network of layers x·w + b with tanh between them at points x [n, d], and its derivatives
// along lines through the points, the first Orders[i] along line i. The operands are x, a velocity for each
// line, then w [in, out] and b [out] of each layer. The results are the value, the derivatives line by line,
// and what the gradient needs: for tiles of kernel.TilePoints points, tanh of each hidden layer and its
// derivatives before tanh, [tiles, rows, points of a tile].
type mlpSeries struct{ Orders []int }

func (mlpSeries) Name() string { return "mlp_series" }

// series returns the number of results for each point: the value and its derivatives.
func (o mlpSeries) series() int { return 1 + derivativesIn(o.Orders) }

func (o mlpSeries) NumResults(int) int { return o.series() + 1 }

// mlpArgs holds the operands by role.
type mlpArgs[E any] struct {
	x     E
	along []E
	w, b  []E
}

func mlpArgsOf[E any](in []E, lines int) (a mlpArgs[E]) {
	a.x, a.along = in[0], in[1:1+lines]
	for i := 1 + lines; i+1 < len(in); i += 2 {
		a.w, a.b = append(a.w, in[i]), append(a.b, in[i+1])
	}
	return a
}

func (o mlpSeries) Infer(in []Type) ([]Type, error) {
	a, err := o.check(in)
	if err != nil {
		return nil, err
	}
	n, last := a.x.Shape[0], a.b[len(a.b)-1].Shape[0]
	out := slices.Repeat([]Type{{DType: a.x.DType, Shape: array.Shape{n, last}}}, o.series())
	return append(out, o.kept(a)), nil
}

// kept returns the type of the values that the gradient needs.
func (o mlpSeries) kept(a mlpArgs[Type]) Type {
	rows := 0
	for _, b := range a.b[:len(a.b)-1] {
		rows += b.Shape[0] * o.series()
	}
	tiles := (a.x.Shape[0] + kernel.TilePoints - 1) / kernel.TilePoints
	return Type{DType: a.x.DType, Shape: array.Shape{tiles, rows, kernel.TilePoints}}
}

// check checks the operands.
func (o mlpSeries) check(in []Type) (a mlpArgs[Type], err error) {
	lines := len(o.Orders)
	if err := wantOrders(o.Orders); err != nil {
		return a, err
	}
	if len(in) < 5+lines || (len(in)-1-lines)%2 != 0 {
		return a, fmt.Errorf(
			"want points, %d velocities, weights and biases of two layers or more: got %d operands",
			lines,
			len(in),
		)
	}
	if err := wantSeries(in[:1+lines], o.Orders, 1+lines); err != nil {
		return a, err
	}
	if !in[0].DType.IsFloat() {
		return a, fmt.Errorf("points are %v: want floats", in[0])
	}
	if len(in[0].Shape) != 2 || in[0].Shape[1] == 0 {
		return a, fmt.Errorf("points are %v: want [points, columns]", in[0])
	}
	if err := wantSame(in, len(in)); err != nil {
		return a, err
	}
	a = mlpArgsOf(in, lines)
	from := a.x.Shape[1]
	for l, w := range a.w {
		b := a.b[l].Shape
		if len(w.Shape) != 2 || len(b) != 1 || w.Shape[0] != from || w.Shape[1] != b[0] || b[0] == 0 {
			return a, fmt.Errorf("layer %d has weights %v and biases %v: want [%d, columns] and [columns]", l, w,
				a.b[l], from)
		}
		from = b[0]
	}
	return a, nil
}

// start returns the series of the points, which move along straight lines.
func (o mlpSeries) start(x *Tensor, along []*Tensor) []*Tensor {
	xs := []*Tensor{x}
	for i, k := range o.Orders {
		if xs = append(xs, along[i]); k == 2 {
			xs = append(xs, ZerosLike(x))
		}
	}
	return xs
}

// activated returns the series of tanh from that of its argument.
func (o mlpSeries) activated(z []*Tensor) []*Tensor {
	return append(z[:1:1], ir.Apply(tanhSeries{Orders: o.Orders}, z...)...)
}

func (o mlpSeries) Decompose(in []*Tensor) []*Tensor {
	a := mlpArgsOf(in, len(o.Orders))
	xs, kept := o.start(a.x, a.along), []*Tensor{}
	for l, w := range a.w {
		z := make([]*Tensor, len(xs))
		for s, x := range xs {
			z[s] = MatMul(x, w)
		}
		z[0] = Add(z[0], a.b[l])
		if l+1 == len(a.w) {
			return append(z, tilesOf(Concat(kept, 1)))
		}
		z[0] = Tanh(z[0])
		kept, xs = append(kept, z...), o.activated(z)
	}
	return nil
}

// tilesOf returns rows of points [n, k] as tiles [tiles, k, points], padded with zeros.
func tilesOf(x *Tensor) *Tensor {
	n, k := x.Dim(0), x.Dim(1)
	tiles := (n + kernel.TilePoints - 1) / kernel.TilePoints
	x = Pad(x, []int{0, 0}, []int{tiles*kernel.TilePoints - n, 0}, 0)
	return Transpose(Reshape(x, tiles, kernel.TilePoints, k), 0, 2, 1)
}

func (o mlpSeries) VJP(in, out, dout []*Tensor) []*Tensor {
	kept := len(out) - 1
	if dout[kept] != nil {
		return vjpByParts(o, in, dout)
	}
	args := append(slices.Clone(in), out[kept])
	for i, d := range dout[:kept] {
		if d == nil {
			d = ZerosLike(out[i])
		}
		args = append(args, d)
	}
	return ir.Apply(mlpSeriesGrad(o), args...)
}

// Rule lets devices split the points into whole tiles. Weights, which are small, are not split.
func (o mlpSeries) Rule(in []Type) mesh.Rule {
	r := newMLPRule(in[0])
	words := r.operands(len(o.Orders), (len(in)-1-len(o.Orders))/2)
	if words == nil {
		return mesh.Unknown
	}
	out := slices.Repeat([]string{r.points + r.columns()}, o.series())
	return r.rule(words, append(out, r.kept))
}

// mlpRule builds a rule: the factors of points and of tiles, and the letter of the last columns.
type mlpRule struct {
	points, kept, note string
	column             int
}

// mlpColumns holds the letters that are available for columns.
const mlpColumns = "abcdefghijklmopqrstuvwxyzABCDEFGHIJLMNOQRSUVWXYZ"

func newMLPRule(x Type) *mlpRule {
	if n := x.Shape[0]; n > 0 && n%kernel.TilePoints == 0 {
		return &mlpRule{points: "(TP*)", kept: "TK*P*", note: fmt.Sprintf("; P=%d", kernel.TilePoints)}
	}
	return &mlpRule{points: "n*", kept: "T*K*P*"}
}

// columns returns the letter of the last columns.
func (r *mlpRule) columns() string { return mlpColumns[r.column:r.column+1] + "*" }

// operands returns the factors of points, velocities, weights and biases; nil if there are too many layers.
func (r *mlpRule) operands(lines, layers int) []string {
	if layers >= len(mlpColumns) {
		return nil
	}
	words := slices.Repeat([]string{r.points + r.columns()}, 1+lines)
	for range layers {
		from := r.columns()
		r.column++
		words = append(words, from+r.columns(), r.columns())
	}
	return words
}

func (r *mlpRule) rule(in, out []string) mesh.Rule {
	return mesh.Rule(strings.Join(in, ",") + "->" + strings.Join(out, ",") + r.note)
}

func (o mlpSeries) Work(in, out []Type) Work {
	return Work{Flops: o.flops(in), Bytes: moved(in, out)}
}

// flops returns the flops of the products and of tanh.
func (o mlpSeries) flops(in []Type) float64 {
	a, sum := mlpArgsOf(in, len(o.Orders)), 0
	for l, w := range a.w {
		sum += 2*w.Shape.Len() + fusedFlops*a.b[l].Shape[0]
	}
	return float64(o.series()) * float64(in[0].Shape[0]) * float64(sum)
}

func (o mlpSeries) Eval(env *Env, in, out []array.Array) {
	float(
		out[0],
		func() { mlpForward[float32](env, o, in, out) },
		func() { mlpForward[float64](env, o, in, out) },
	)
}

func mlpForward[T floats](env *Env, o mlpSeries, in, out []array.Array) {
	m, a := mlpNetwork[T](o, in)
	outs := dataOf[T](out)
	last := len(outs) - 1
	m.Forward(env.Pool, in[0].Shape()[0], a.x, a.along, outs[:last], outs[last])
}

// mlpNetwork returns the network and operands for the kernel.
func mlpNetwork[T floats](o mlpSeries, in []array.Array) (*kernel.MLPSeries[T], mlpArgs[[]T]) {
	a := mlpArgsOf(dataOf[T](in), len(o.Orders))
	m := &kernel.MLPSeries[T]{Orders: o.Orders, Widths: []int{in[0].Shape()[1]}, W: a.w, B: a.b}
	for _, b := range a.b {
		m.Widths = append(m.Widths, len(b))
	}
	return m, a
}

func (o mlpSeries) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return emitByParts(o, w, in, out)
}

func (mlpSeries) Samples() []Sample {
	w := func(in, out int) Arg { return f32In(-1, 1, in, out) }
	return []Sample{
		{Op: mlpSeries{Orders: []int{2, 1}}, In: []Arg{f32(5, 2), f32(5, 2), f32(5, 2), w(2, 3), f32(3), w(3, 2),
			f32(2)}},
		{Op: mlpSeries{Orders: []int{1}}, In: []Arg{f32(128, 1), f32(128, 1), w(1, 3), f32(3), w(3, 2), f32(2),
			w(2, 1), f32(1)}},
	}
}
