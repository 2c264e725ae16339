package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Cond returns then(xs) if pred, a boolean scalar, is true, and otherwise(xs) if not; only one of them is
// computed. Both must return tensors of the same types. Tensors from outside that they use become operands,
// so that gradients reach them.
func Cond(pred *Tensor, then, otherwise func(x []*Tensor) []*Tensor, xs ...*Tensor) []*Tensor {
	all := append([]*Tensor{pred}, xs...)
	if err := firstMistake("cond", all); err != nil {
		return invalidated(all, 1, err)
	}
	types := typesOfValues(xs)
	f, n, err := traceBody("then", types, then)
	if err != nil {
		return invalidated(all, n, err)
	}
	g, n, err := traceBody("otherwise", types, otherwise)
	if err != nil {
		return invalidated(all, n, err)
	}
	programs, captured, err := closed(len(xs), f, g)
	if err != nil {
		return invalidated(all, n, err)
	}
	return ir.Apply(cond{Then: programs[0].String(), Else: programs[1].String()}, append(all, captured...)...)
}

// cond runs one of two programs.
type cond struct {
	Then, Else string
	// Zero lists the results that another device computes: on this one they are zeros.
	Zero []int
}

func (cond) Name() string         { return "cond" }
func (cond) halfNative()          {}
func (cond) precision() Precision { return Widens }
func (o cond) NumResults(int) int { return resultsOf(o.Then) }

func (o cond) texts() []string              { return []string{o.Then, o.Else} }
func (o cond) bodyTypes(in []Type) [][]Type { return [][]Type{in[1:], in[1:]} }

func (o cond) Bodies(in []Type) ([]*ir.Func, error) { return bodiesOf(o, in) }

func (cond) Trips([]Type) int { return 1 }

func (o cond) WithBodies(fs []*ir.Func) Op {
	o.Then, o.Else = fs[0].String(), fs[1].String()
	return o
}

func (o cond) Infer(in []Type) ([]Type, error) {
	if len(in) == 0 || in[0].DType != array.Bool || len(in[0].Shape) != 0 {
		return nil, fmt.Errorf("want one truth value, bool[], as the condition: got %v", in[:min(1, len(in))])
	}
	fs, err := o.Bodies(in)
	if err != nil {
		return nil, err
	}
	out := typesOfValues(fs[0].Results())
	if err := wantTypes("result of the second branch", typesOfValues(fs[1].Results()), out); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the branches return nothing: want a result")
	}
	return out, wantBelow("zero result", o.Zero, len(out))
}

// VJP chooses between the gradients of the two branches.
func (o cond) VJP(in, _, dout []*Tensor) []*Tensor {
	fs, err := o.Bodies(typesOfValues(in))
	if err != nil {
		return invalidated(in, len(in), err)
	}
	args := slices.Clone(in)
	for _, d := range dout {
		if d != nil {
			args = append(args, d)
		}
	}
	var grads []*ir.Func
	for _, f := range fs {
		g, err := branchGradient(f, dout)
		if err != nil {
			return invalidated(in, len(in), err)
		}
		grads = append(grads, g)
	}
	if len(grads[0].Results()) == 0 {
		return make([]*Tensor, len(in))
	}
	return toFloats(in, ir.Apply(cond{Then: grads[0].String(), Else: grads[1].String()}, args...))
}

// branchGradient returns a program that takes the operands of a branch and the gradients of its results, and
// returns the gradients of its float operands.
func branchGradient(f *ir.Func, dout []*Tensor) (*ir.Func, error) {
	b := ir.NewBuilder(f.Name() + "_grad")
	xs := b.ParamsOf(f)
	ys := f.Replay(b, xs, nil)
	var from, cotangents, at []*Tensor
	for i, d := range dout {
		if d != nil {
			from, cotangents = append(from, ys[i]), append(cotangents, b.Param("", ys[i].Type()))
		}
	}
	for _, x := range xs {
		if x.DType().IsFloat() {
			at = append(at, x)
		}
	}
	return pruned(b.Build(Grad(from, cotangents, at)...))
}

// pruned returns a program without dead nodes.
func pruned(f *ir.Func, err error) (*ir.Func, error) {
	if err != nil {
		return nil, err
	}
	b := ir.NewBuilder(f.Name())
	return b.Build(replayLive(b, f, b.ParamsOf(f))...)
}

func (o cond) Rule(in []Type) mesh.Rule                    { return flowRule(o, in) }
func (o cond) Localize(at *Place) (Op, error)              { return o.localized(at) }
func (o cond) CooperativeRule(in []Type) CooperativeRule   { return flowTogether(o, in) }
func (o cond) Cooperate(at *Place, in []*Tensor) []*Tensor { return together(o, at, in) }

func (o cond) localized(at *Place) (Op, error) {
	fs, local, err := localBodies(o, at)
	if err != nil {
		return nil, err
	}
	o = o.WithBodies(fs).(cond)
	o.Zero = bothSets(o.Zero, local.zero)
	return o, nil
}

// ties connects the operands with the parameters of both branches, and the results with theirs.
func (o cond) ties(t *flowTies) {
	for branch := range 2 {
		for i := range t.in[1:] {
			t.tie(t.operand(1+i), t.param(branch, i), 0)
		}
		for i := range t.out {
			t.tie(t.result(i), t.given(branch, i), 0)
		}
	}
}

// states propagates a split class of dims through both branches.
func (o cond) states(c *flowClass) ([]flowState, bool) {
	if c.operand(0) != stateSame {
		return nil, false
	}
	var in []flowState
	for i := range len(c.in) - 1 {
		in = append(in, c.operand(1+i))
	}
	x, y := c.through(0, in), c.through(1, in)
	for i := range x {
		x[i] = eitherState(x[i], y[i])
	}
	return x, true
}

// Work returns the work of the more expensive branch.
func (o cond) Work(in, out []Type) Work {
	x, err := bodyOf(o.Then, in[1:])
	if err != nil {
		return Work{}
	}
	y, err := bodyOf(o.Else, in[1:])
	if err != nil {
		return Work{}
	}
	v, w := x.work(), y.work()
	return Work{Flops: max(v.Flops, w.Flops), Bytes: max(v.Bytes, w.Bytes), Wire: max(v.Wire, w.Wire)}
}

// Scratch returns the memory of the branch that needs more.
func (o cond) Scratch(in, _ []Type) int { return scratchOf(o, in) }

func (o cond) Eval(env *Env, in, out []array.Array) {
	text := o.Else
	if array.Data[bool](in[0])[0] {
		text = o.Then
	}
	b := mustBody(text, in[1:])
	memory, restore := env.borrow(b.bytes)
	defer restore()
	b.run(env, memory, in[1:], out)
	zeroAll(out, o.Zero)
}

func (o cond) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	branch := func(text string) string {
		f := mustBodyOf(text, typesOfRefs(in[1:])).f
		return w.Region(nil, func([]hlo.Ref) []hlo.Ref { return EmitFunc(w, f, in[1:]) })
	}
	which := w.Convert(in[0], array.I32)
	return emitZero(w, w.OpN("case", "", []string{branch(o.Else), branch(o.Then)}, hloTypes(out), which), o.Zero)
}

func (cond) Samples() []Sample {
	then := "func then(%0: f32[5,7], %1: f32[7]) {\n  %2 = mul %0 %1\n  %3 = sum{dims=[1]} %2\n" +
		"  return %2 %3\n}\n"
	otherwise := "func otherwise(%0: f32[5,7], %1: f32[7]) {\n  %2 = tanh %0\n  %3 = square %2\n" +
		"  %4 = sum{dims=[1]} %3\n  return %2 %4\n}\n"
	x := []Arg{f32(5, 7), f32(7)}
	return []Sample{
		{Op: cond{Then: then, Else: otherwise}, In: append([]Arg{bools()}, x...)},
		{Op: cond{Then: otherwise, Else: then}, In: append([]Arg{bools()}, x...)},
	}
}
