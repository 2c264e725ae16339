package op

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// Einsum returns a product of tensors by index letters: "bthd,bshd->bhts". Letters that the result lacks are
// summed over. A letter occurs at most once in an operand. With more than two operands, the two with the
// smallest product are multiplied first.
func Einsum(equation string, in ...*Tensor) *Tensor {
	equation = strings.ReplaceAll(equation, " ", "")
	e, err := parseEinsum(equation, len(in))
	if err != nil { // let Infer report it, with its place
		return apply1(einsum{Equation: equation}, in...)
	}
	in = slices.Clone(in)
	for i, x := range in { // an index of a single operand is summed before the product
		in[i], e.in[i] = sumAlone(x, e, i)
	}
	for len(in) > 2 {
		in = e.multiply(in)
	}
	if len(in) == 1 {
		return permuteTo(in[0], e.in[0], e.out)
	}
	return apply1(einsum{Equation: e.in[0] + "," + e.in[1] + "->" + e.out}, in...)
}

// multiply replaces the two operands with the smallest product by that product.
func (e *einsumIndex) multiply(in []*Tensor) []*Tensor {
	first, second, least := 0, 1, math.Inf(1)
	for i := range in {
		for j := i + 1; j < len(in); j++ {
			if n := e.productSize(in, i, j); n < least {
				first, second, least = i, j, n
			}
		}
	}
	word := e.productWord(first, second)
	in[first] = apply1(einsum{Equation: e.in[first] + "," + e.in[second] + "->" + word}, in[first], in[second])
	e.in[first] = word
	e.in = slices.Delete(e.in, second, second+1)
	return slices.Delete(in, second, second+1)
}

// productWord returns the letters of the product of two operands: those that the result or another operand
// has.
func (e *einsumIndex) productWord(i, j int) string {
	elsewhere, word := e.out, ""
	for k, other := range e.in {
		if k != i && k != j {
			elsewhere += other
		}
	}
	for _, c := range e.in[i] + e.in[j] {
		if strings.ContainsRune(elsewhere, c) && !strings.ContainsRune(word, c) {
			word += string(c)
		}
	}
	return word
}

// productSize returns the number of elements of the product of two operands.
func (e *einsumIndex) productSize(in []*Tensor, i, j int) float64 {
	size := 1.0
	for _, c := range e.productWord(i, j) {
		d := strings.IndexRune(e.in[i], c)
		from := in[i]
		if d < 0 {
			d, from = strings.IndexRune(e.in[j], c), in[j]
		}
		size *= float64(from.Dim(d))
	}
	return size
}

// einsumIndex is a parsed equation.
type einsumIndex struct {
	in  []string
	out string
}

func parseEinsum(equation string, operands int) (*einsumIndex, error) {
	lhs, out, ok := strings.Cut(equation, "->")
	e := &einsumIndex{in: strings.Split(lhs, ","), out: out}
	if !ok || len(e.in) != operands || operands < 1 {
		return nil, fmt.Errorf("equation %q does not fit %d operands: want a,b->c with a word for each", equation,
			operands)
	}
	for _, word := range append([]string{out}, e.in...) {
		for i := range len(word) {
			if !strings.Contains(letters, word[i:i+1]) {
				return nil, fmt.Errorf("equation %q: %q is not an index", equation, word[i])
			}
			if strings.Count(word, word[i:i+1]) > 1 {
				return nil, fmt.Errorf("equation %q: index %c stands twice in %q", equation, word[i], word)
			}
		}
	}
	for i := range len(out) {
		if !strings.Contains(lhs, out[i:i+1]) {
			return nil, fmt.Errorf("equation %q: no operand has index %c", equation, out[i])
		}
	}
	return e, nil
}

// sumAlone sums operand i over the letters that occur nowhere else.
func sumAlone(x *Tensor, e *einsumIndex, i int) (*Tensor, string) {
	if x.Err() != nil || len(e.in[i]) != len(x.Shape()) {
		return x, e.in[i]
	}
	var dims []int
	kept := ""
	for d, c := range e.in[i] {
		other := e.out
		for k, word := range e.in {
			if k != i {
				other += word
			}
		}
		if strings.ContainsRune(other, c) {
			kept += string(c)
		} else {
			dims = append(dims, d)
		}
	}
	if len(dims) == 0 {
		return x, kept
	}
	return Sum(x, dims...), kept
}

func permuteTo(x *Tensor, from, to string) *Tensor {
	if from == to || x.Err() != nil {
		return x
	}
	return Transpose(x, permOf(from, to)...)
}

func permOf(from, to string) []int {
	perm := make([]int, len(to))
	for i := range to {
		perm[i] = strings.IndexByte(from, to[i])
	}
	return perm
}

// einsum with Zeros looks for zeros at the ends of its operands' rows, and skips their terms where that
// changes no bit.
type einsum struct {
	Equation string
	Zeros    bool
}

func (einsum) Name() string { return "einsum" }

// SkipZeros returns the op with Zeros.
func (o einsum) SkipZeros() Op {
	o.Zeros = true
	return o
}

// Linear declares linearity in each operand by itself.
func (o einsum) Linear() [][]int {
	if strings.Contains(o.Equation, ",") {
		return [][]int{{0}, {1}}
	}
	return [][]int{{0}}
}
func (einsum) halfNative() {}

func (o einsum) Infer(in []Type) ([]Type, error) {
	e, err := parseEinsum(o.Equation, len(in))
	if err != nil {
		return nil, err
	}
	if err := wantFloats(in, 2); err != nil {
		return nil, err
	}
	var sizes [256]int
	var seen [256]bool
	for i, word := range e.in {
		if len(word) != len(in[i].Shape) {
			return nil, fmt.Errorf("equation %q: operand %d is %v: want %d dims", o.Equation, i, in[i], len(word))
		}
		for d := range len(word) {
			c := word[d]
			if n := in[i].Shape[d]; seen[c] && sizes[c] != n {
				return nil, fmt.Errorf("equation %q: index %c is %d and %d in %v and %v", o.Equation, c, sizes[c], n,
					in[0], in[1])
			}
			sizes[c], seen[c] = in[i].Shape[d], true
			if !strings.Contains(e.out+e.in[1-i], word[d:d+1]) {
				return nil, fmt.Errorf("equation %q: index %c is in one operand only: sum it first", o.Equation, c)
			}
		}
	}
	shape := make(array.Shape, len(e.out))
	for d := range len(e.out) {
		shape[d] = sizes[e.out[d]]
	}
	return []Type{{DType: in[0].DType, Shape: shape}}, nil
}

func (o einsum) VJP(in, _, dz []*Tensor) []*Tensor {
	e, _ := parseEinsum(o.Equation, 2)
	return []*Tensor{
		Einsum(e.out+","+e.in[1]+"->"+e.in[0], dz[0], in[1]),
		Einsum(e.in[0]+","+e.out+"->"+e.in[1], in[0], dz[0]),
	}
}

func (o einsum) Rule([]Type) mesh.Rule { return mesh.Rule(o.Equation) }

func (o einsum) Work(in, out []Type) Work {
	c := o.classify(in[0].Shape, in[1].Shape)
	return Work{Flops: 2 * float64(c.k) * float64(out[0].Shape.Len()), Bytes: moved(in, out)}
}

// contraction is an einsum as a batched matrix product: the indices of both operands and the result, those of
// one operand and the result, and those that are summed, each in the order of an operand.
type contraction struct {
	batch, left, right, sum string
	m, n, k, count          int
}

func (o einsum) classify(x, y array.Shape) contraction {
	e, _ := parseEinsum(o.Equation, 2)
	c := contraction{m: 1, n: 1, k: 1, count: 1}
	for d := range len(e.in[0]) {
		ch, n := e.in[0][d:d+1], x[d]
		switch inY, inOut := strings.Contains(e.in[1], ch), strings.Contains(e.out, ch); {
		case inY && inOut:
			c.batch, c.count = c.batch+ch, c.count*n
		case inY:
			c.sum, c.k = c.sum+ch, c.k*n
		default:
			c.left, c.m = c.left+ch, c.m*n
		}
	}
	for d := range len(e.in[1]) {
		if ch := e.in[1][d : d+1]; !strings.Contains(e.in[0], ch) {
			c.right, c.n = c.right+ch, c.n*y[d]
		}
	}
	return c
}

func (o einsum) Eval(env *Env, in, out []array.Array) {
	e, _ := parseEinsum(o.Equation, 2)
	c := o.classify(in[0].Shape(), in[1].Shape())
	if c.left != c.right && c.batch+c.right+c.left == e.out { // exchanged operands need no transpose
		e.in[0], e.in[1], in = e.in[1], e.in[0], []array.Array{in[1], in[0]}
		c.left, c.right, c.m, c.n = c.right, c.left, c.n, c.m
	}
	if p, ok := c.inPlace(e, in[0], in[1], out[0]); ok {
		p.zeros = o.Zeros
		p.run(env)
		return
	}
	c.moved(env, e, in, out)
}

// moved computes the contraction on operands that are moved to where products can read them.
func (c contraction) moved(env *Env, e *einsumIndex, in, out []array.Array) {
	x, transX := arrange(env, in[0], e.in[0], c.batch+c.left+c.sum, c.batch+c.sum+c.left)
	y, transY := arrange(env, in[1], e.in[1], c.batch+c.sum+c.right, c.batch+c.right+c.sum)
	result := c.batch + c.left + c.right
	to := out[0]
	if result != e.out {
		to = array.New(out[0].DType(), permuted(out[0].Shape(), e.out, result)...)
	}
	each := func(size int) batch { return batch{array.Shape{c.count}, []int{size}} }
	product{
		m: c.m, n: c.n, k: c.k, transX: transX, transY: transY, x: x, y: y, out: to,
		xs: each(c.m * c.k), ys: each(c.k * c.n), zs: each(c.m * c.n), count: c.count,
	}.run(env)
	if result != e.out {
		permuteInto(env, out[0], to, permOf(result, e.out))
	}
}

// arrange returns a with its indices in the wanted order, or in the swapped order, which a product can read
// as transposed; it moves memory only if a has neither.
func arrange(env *Env, a array.Array, have, want, swapped string) (_ array.Array, transposed bool) {
	if have == want {
		return a, false
	}
	if have == swapped {
		return a, true
	}
	to := array.New(a.DType(), permuted(a.Shape(), have, want)...)
	permuteInto(env, to, a, permOf(have, want))
	return to, false
}

func permuted(shape array.Shape, from, to string) array.Shape {
	out := make(array.Shape, len(shape))
	for i, p := range permOf(from, to) {
		out[i] = shape[p]
	}
	return out
}

func permuteInto(env *Env, dst, src array.Array, perm []int) {
	transpose{Perm: perm}.Eval(env, []array.Array{src}, []array.Array{dst})
}

// Emit orders the operands such that the result has the wanted order.
func (o einsum) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	e, _ := parseEinsum(o.Equation, 2)
	c := o.classify(in[0].Shape, in[1].Shape)
	at := func(word, of string) []int { return permOf(of, word) }
	result, x, y := c.batch+c.left+c.right, 0, 1
	if swapped := c.batch + c.right + c.left; result != e.out && swapped == e.out {
		result, x, y = swapped, 1, 0
	}
	t := hlo.Type{DType: out[0].DType, Shape: permuted(out[0].Shape, e.out, result)}
	z := w.Dot(in[x], in[y], at(c.batch, e.in[x]), at(c.batch, e.in[y]), at(c.sum, e.in[x]), at(c.sum, e.in[y]),
		t)
	if result == e.out {
		return []hlo.Ref{z}
	}
	return []hlo.Ref{w.Op("transpose", "permutation = "+hlo.Ints(permOf(result, e.out)), hloType(out[0]), z)}
}

func (einsum) Samples() []Sample {
	return []Sample{
		{Op: einsum{Equation: "bthd,bshd->bhts"}, In: []Arg{f32(2, 5, 3, 4), f32(2, 6, 3, 4)}},
		{Op: einsum{Equation: "abk,abn->kn"}, In: []Arg{f32(2, 5, 3), f32(2, 5, 4)}},
		{Op: einsum{Equation: "ij,jk->ki"}, In: []Arg{f32(5, 3), f32(3, 4)}},
		{Op: einsum{Equation: "i,j->ij"}, In: []Arg{f32(5), f32(3)}},
		{Op: einsum{Equation: "i,i->"}, In: []Arg{f32(5), f32(5)}},
		{Op: einsum{Equation: "bi,bi->bi"}, In: []Arg{f32(2, 5), f32(2, 5)}},
		{Op: einsum{Equation: "bsgrd,btgd->bgrst"}, In: []Arg{f32(2, 5, 3, 1, 8), f32(2, 6, 3, 8)}},
		{Op: einsum{Equation: "bgrst,btge->bsgre", Zeros: true}, In: []Arg{f32(2, 3, 2, 5, 6), f32(2, 6, 3, 8)}},
	}
}
