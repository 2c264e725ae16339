package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// WhileConfig configures a loop.
type WhileConfig struct {
	// MaxTrips is the maximal number of trips; 0 means no bound. Gradients need one.
	MaxTrips int
}

// While applies body to init, then to its own results, as long as going, a boolean scalar, is true for them.
// Tensors from outside that they use become operands. It has no gradient; use Scan, or WhileWith a bound, for
// one.
func While(going func(x []*Tensor) *Tensor, body func(x []*Tensor) []*Tensor, init ...*Tensor) []*Tensor {
	return WhileWith(WhileConfig{}, going, body, init...)
}

// WhileWith is like While with a config.
func WhileWith(c WhileConfig, going func(x []*Tensor) *Tensor, body func(x []*Tensor) []*Tensor,
	init ...*Tensor) []*Tensor {
	if err := firstMistake("while", init); err != nil {
		return invalidated(init, len(init), err)
	}
	types := typesOfValues(init)
	f, _, err := traceBody("going", types, func(x []*Tensor) []*Tensor { return []*Tensor{going(x)} })
	if err != nil {
		return invalidated(init, len(init), err)
	}
	g, _, err := traceBody("body", types, body)
	if err != nil {
		return invalidated(init, len(init), err)
	}
	programs, captured, err := closed(len(init), f, g)
	if err != nil {
		return invalidated(init, len(init), err)
	}
	o := whileLoop{
		Going:    programs[0].String(),
		Body:     programs[1].String(),
		Carry:    len(init),
		MaxTrips: c.MaxTrips,
	}
	out := ir.Apply(o, append(slices.Clone(init), captured...)...)
	if out[0].Err() != nil {
		return invalidated(init, len(init), out[0].Err())
	}
	return out
}

// whileLoop runs a program as long as another one returns true. Its operands are the carried values and those
// that every trip reads.
type whileLoop struct {
	Going, Body string
	// Carry is the number of carried operands, MaxTrips the maximal number of trips, or 0.
	Carry, MaxTrips int
	// Zero lists the results that another device provides, Start the carried values that begin on another
	// device: on this one they are zeros.
	Zero, Start []int
}

func (whileLoop) Name() string               { return "while" }
func (whileLoop) halfNative()                {}
func (whileLoop) precision() Precision       { return Widens }
func (o whileLoop) NumResults(int) int       { return o.Carry }
func (o whileLoop) texts() []string          { return []string{o.Going, o.Body} }
func (o whileLoop) Rule(in []Type) mesh.Rule { return flowRule(o, in) }

func (o whileLoop) bodyTypes(in []Type) [][]Type { return [][]Type{in, in} }

func (o whileLoop) Bodies(in []Type) ([]*ir.Func, error) { return bodiesOf(o, in) }

// Trips returns the maximal number of trips.
func (o whileLoop) Trips([]Type) int { return max(1, o.MaxTrips) }

func (o whileLoop) WithBodies(fs []*ir.Func) Op {
	o.Going, o.Body = fs[0].String(), fs[1].String()
	return o
}

func (o whileLoop) Infer(in []Type) ([]Type, error) {
	if o.Carry < 1 || o.Carry > len(in) {
		return nil, fmt.Errorf("%d carried values: got %d operands", o.Carry, len(in))
	}
	if o.MaxTrips < 0 {
		return nil, fmt.Errorf("at most %d trips: want 0, for no bound, or more", o.MaxTrips)
	}
	fs, err := o.Bodies(in)
	if err != nil {
		return nil, err
	}
	truth := []Type{{DType: array.Bool}}
	if err := wantTypes("condition", typesOfValues(fs[0].Results()), truth); err != nil {
		return nil, err
	}
	given := typesOfValues(fs[1].Results())
	if err := wantTypes("carried value", given, in[:o.Carry]); err != nil {
		return nil, err
	}
	if err := wantBelow("carried value that begins with zeros", o.Start, o.Carry); err != nil {
		return nil, err
	}
	return given, wantBelow("zero result", o.Zero, len(given))
}

// VJP is that of a scan with MaxTrips trips, of which those after the end pass the carried values on
// unchanged.
func (o whileLoop) VJP(in, _, dout []*Tensor) []*Tensor {
	if o.MaxTrips == 0 {
		return invalidated(in, len(in), &ir.Error{Pos: ir.Caller(), Op: o.Name(), Err: fmt.Errorf(
			"a loop without a bound has no gradient: give WhileWith a MaxTrips, or take Scan")})
	}
	return vjpByParts(boundedWhile{o}, in, dout)
}

// boundedWhile is a loop with a bound, expressed as a scan.
type boundedWhile struct{ whileLoop }

func (o boundedWhile) Decompose(in []*Tensor) []*Tensor {
	fs, err := o.Bodies(typesOfValues(in))
	if err != nil {
		return invalidated(in, o.Carry, err)
	}
	seen := in[o.Carry:]
	last, _ := ScanWith(ScanConfig{Length: o.MaxTrips}, func(carry, _ []*Tensor) (next, y []*Tensor) {
		b := carry[0].Scope()
		all := slices.Concat(carry, seen)
		going := fs[0].Replay(b, all, nil)[0]
		return Cond(going, func(x []*Tensor) []*Tensor {
			return fs[1].Replay(x[0].Scope(), slices.Concat(x, seen), nil)
		}, func(x []*Tensor) []*Tensor { return x }, carry...), nil
	}, in[:o.Carry], nil)
	return last
}

func (o whileLoop) Localize(at *Place) (Op, error)              { return o.localized(at) }
func (o whileLoop) CooperativeRule(in []Type) CooperativeRule   { return flowTogether(o, in) }
func (o whileLoop) Cooperate(at *Place, in []*Tensor) []*Tensor { return together(o, at, in) }

func (o whileLoop) localized(at *Place) (Op, error) {
	fs, local, err := localBodies(o, at)
	if err != nil {
		return nil, err
	}
	o = o.WithBodies(fs).(whileLoop)
	o.Zero, o.Start = bothSets(o.Zero, local.zero), bothSets(o.Start, local.start)
	return o, nil
}

// ties gives carried values one layout before and after a trip.
func (o whileLoop) ties(t *flowTies) {
	for i, h := range t.operands {
		t.tie(h, t.param(0, i), 0)
		t.tie(h, t.param(1, i), 0)
	}
	for i, h := range t.results {
		t.tie(h, t.given(1, i), 0)
		t.tie(h, t.operand(i), 0)
	}
}

// states requires that all devices end the loop at the same trip.
func (o whileLoop) states(c *flowClass) ([]flowState, bool) {
	var in []flowState
	for i := range c.in {
		in = append(in, c.operand(i))
	}
	rest := in[o.Carry:]
	out, ok := c.carried(1, slices.Clone(in[:o.Carry]), rest)
	if !ok || c.through(0, slices.Concat(out, rest))[0] != stateSame {
		return nil, false
	}
	return out, true
}

// Work returns the work of the maximal number of trips, or of one trip if that is not known.
func (o whileLoop) Work(in, _ []Type) Work {
	x, err := bodyOf(o.Going, in)
	if err != nil {
		return Work{}
	}
	y, err := bodyOf(o.Body, in)
	if err != nil {
		return Work{}
	}
	v, w := x.work(), y.work()
	return Work{Flops: v.Flops + w.Flops, Bytes: v.Bytes + w.Bytes, Wire: v.Wire + w.Wire}.times(o.Trips(in))
}

// Scratch returns the memory of a trip, and of the values carried into it and out of it.
func (o whileLoop) Scratch(in, _ []Type) int {
	return scratchOf(o, in) + carriedBytes(in[:o.Carry])
}

func (o whileLoop) Eval(env *Env, in, out []array.Array) {
	going, b := mustBody(o.Going, in), mustBody(o.Body, in)
	memory, restore := env.borrow(max(going.bytes, b.bytes) + carriedBytes(typesOfArrays(in[:o.Carry])))
	defer restore()
	now, next, memory := carriedIn(env, memory, in[:o.Carry], o.Start)
	args, goes := slices.Clone(in), array.New(array.Bool)
	for k := 0; o.MaxTrips == 0 || k < o.MaxTrips; k++ {
		copy(args, now)
		if going.run(env, memory, args, []array.Array{goes}); !array.Data[bool](goes)[0] {
			break
		}
		b.run(env, memory, args, next)
		now, next = next, now
	}
	for i, a := range now {
		copyBytes(env, out[i], a)
	}
	zeroAll(out, o.Zero)
}

// Emit writes a loop that counts its trips if they are bounded.
func (o whileLoop) Emit(w *hlo.Writer, in []hlo.Ref, _ []Type) []hlo.Ref {
	going, body := mustBodyOf(o.Going, typesOfRefs(in)).f, mustBodyOf(o.Body, typesOfRefs(in)).f
	state := append(emitZero(w, slices.Clone(in[:o.Carry]), o.Start), in[o.Carry:]...)
	counter := hlo.Type{DType: array.I32}
	if o.MaxTrips > 0 {
		state = append(state, w.Constant(counter, 0))
	}
	types := make([]hlo.Type, len(state))
	for i, r := range state {
		types[i] = r.Type
	}
	goes := w.Region(types, func(s []hlo.Ref) []hlo.Ref {
		p := EmitFunc(w, going, s[:len(in)])[0]
		if o.MaxTrips > 0 {
			below := w.Compare("LT", s[len(in)], w.Constant(counter, float64(o.MaxTrips)))
			p = w.Op("and", "", p.Type, p, below)
		}
		return []hlo.Ref{p}
	})
	trip := w.Region(types, func(s []hlo.Ref) []hlo.Ref {
		next := append(emitBody(w, body, s[:len(in)]), s[o.Carry:len(in)]...)
		if o.MaxTrips > 0 {
			next = append(next, w.Op("add", "", counter, s[len(in)], w.Constant(counter, 1)))
		}
		return next
	})
	return emitZero(w, w.OpN("while", "", []string{goes, trip}, types, state...)[:o.Carry], o.Zero)
}

func (whileLoop) Samples() []Sample {
	// A state that grows as long as the sum of another is below a bound.
	going := "func going(%0: f32[5,4], %1: f32[5,3], %2: f32[3,4], %3: f32[]) {\n" +
		"  %4 = sum{dims=[0,1]} %1\n  %5 = less %4 %3\n  return %5\n}\n"
	body := "func body(%0: f32[5,4], %1: f32[5,3], %2: f32[3,4], %3: f32[]) {\n  %4 = matmul %1 %2\n" +
		"  %5 = add %0 %4\n  %6 = tanh %5\n  %7 = add %1 %1\n  return %6 %7\n}\n"
	in := []Arg{f32(5, 4), f32In(0.5, 1, 5, 3), f32(3, 4), f32In(50, 51)}
	return []Sample{
		{Op: whileLoop{Going: going, Body: body, Carry: 2, MaxTrips: 5}, In: in},
		{Op: whileLoop{Going: going, Body: body, Carry: 2, MaxTrips: 1}, In: in},
	}
}
