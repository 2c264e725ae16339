package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// ScanConfig configures a scan. The zero value iterates from the first row of xs to the last.
type ScanConfig struct {
	// Length is the number of trips if xs is empty; otherwise it is the number of rows of xs.
	Length int
	// Reverse iterates from the last row to the first; row i of ys still belongs to row i of xs.
	Reverse bool
	// Recompute saves nothing for gradients: the carried values of all trips, which they need, are recomputed.
	Recompute bool
}

// Scan iterates over the first dim of xs: body takes the carried values and a row of each of xs, and returns
// the next carried values, of the same types, and rows of ys. Scan returns the last carried values, and ys.
// Tensors from outside that body uses become operands, so that gradients reach them.
//
// Gradients iterate backwards with the saved carried values, and recompute each trip.
func Scan(body func(carry, x []*Tensor) (next, y []*Tensor), carry, xs []*Tensor) (last, ys []*Tensor) {
	return ScanWith(ScanConfig{}, body, carry, xs)
}

// ScanWith is like Scan with a config.
func ScanWith(c ScanConfig, body func(carry, x []*Tensor) (next, y []*Tensor), carry, xs []*Tensor) (last,
	ys []*Tensor) {
	all := slices.Concat(carry, xs)
	bad := func(n int, err error) ([]*Tensor, []*Tensor) {
		list := invalidated(all, max(n, len(carry)+1), err)
		return slices.Clip(list[:len(carry)]), list[len(carry):]
	}
	if err := firstMistake("scan", all); err != nil {
		return bad(0, err)
	}
	o := scan{Carry: len(carry), Xs: len(xs), Length: c.Length, Reverse: c.Reverse}
	types, err := o.rows(typesOfValues(all))
	if err != nil {
		return bad(0, &ir.Error{Pos: ir.Caller(), Op: o.Name(), Err: err})
	}
	next := 0
	f, n, err := traceBody("body", types, func(x []*Tensor) []*Tensor {
		a, b := body(x[:len(carry)], x[len(carry):])
		next = len(a)
		return slices.Concat(a, b)
	})
	if err == nil && next != len(carry) {
		err = &ir.Error{Pos: ir.Caller(), Op: o.Name(),
			Err: fmt.Errorf("the body carries on %d values: want %d, as many as it takes", next, len(carry))}
	}
	if err != nil {
		return bad(n, err)
	}
	programs, captured, err := closed(len(all), f)
	if err != nil {
		return bad(n, err)
	}
	o.Body = programs[0].String()
	all = append(all, captured...)
	o.Save = !c.Recompute && o.Carry > 0 && anyTracked(all)
	out := ir.Apply(o, all...)
	if out[0].Err() != nil {
		return bad(n, out[0].Err())
	}
	return slices.Clone(out[:len(carry)]), slices.Clone(out[len(carry):n])
}

// scan runs a program for each row of some operands. Its operands are the carried values, those with rows,
// and those that every trip reads.
type scan struct {
	Body string
	// Carry is the number of carried operands, Xs the number of those with rows.
	Carry, Xs int
	// Length is the number of trips if no operand has rows.
	Length  int
	Reverse bool
	// Save returns, after the other results, the values that were carried into each trip.
	Save bool
	// Zero lists the results that another device provides, Start the carried values that begin on another
	// device: on this one they are zeros.
	Zero, Start []int
}

func (scan) Name() string               { return "scan" }
func (scan) halfNative()                {}
func (scan) precision() Precision       { return Widens }
func (o scan) texts() []string          { return []string{o.Body} }
func (o scan) Rule(in []Type) mesh.Rule { return flowRule(o, in) }

func (o scan) NumResults(int) int {
	n := resultsOf(o.Body)
	if o.Save {
		n += o.Carry
	}
	return n
}

// Trips returns the number of trips for operands of these types.
func (o scan) Trips(in []Type) int {
	if o.Xs > 0 {
		return in[o.Carry].Shape[0]
	}
	return o.Length
}

// rows returns the operand types of the body.
func (o scan) rows(in []Type) ([]Type, error) {
	if o.Carry < 0 || o.Xs < 0 || o.Carry+o.Xs > len(in) {
		return nil, fmt.Errorf("%d carried values and %d with rows: got %d operands", o.Carry, o.Xs, len(in))
	}
	if o.Length < 0 {
		return nil, fmt.Errorf("length %d is negative: want 0 trips or more", o.Length)
	}
	types := slices.Clone(in)
	for i := o.Carry; i < o.Carry+o.Xs; i++ {
		if len(in[i].Shape) == 0 {
			return nil, fmt.Errorf("operand %d, %v, has no rows: want at least one dim", i, in[i])
		}
		n := in[i].Shape[0]
		if first := in[o.Carry].Shape[0]; n != first || o.Length > 0 && n != o.Length {
			return nil, fmt.Errorf("operand %d, %v, has %d rows: want %d, as others have", i, in[i], n,
				max(o.Length, first))
		}
		types[i] = Type{DType: in[i].DType, Shape: in[i].Shape[1:]}
	}
	return types, nil
}

func (o scan) bodyTypes(in []Type) [][]Type {
	types, err := o.rows(in)
	if err != nil {
		return [][]Type{nil}
	}
	return [][]Type{types}
}

func (o scan) Bodies(in []Type) ([]*ir.Func, error) { return bodiesOf(o, in) }

func (o scan) WithBodies(fs []*ir.Func) Op {
	o.Body = fs[0].String()
	return o
}

func (o scan) Infer(in []Type) ([]Type, error) {
	types, err := o.rows(in)
	if err != nil {
		return nil, err
	}
	b, err := bodyOf(o.Body, types)
	if err != nil {
		return nil, err
	}
	given := typesOfValues(b.f.Results())
	if len(given) < o.Carry || len(given) == 0 {
		return nil, fmt.Errorf("the body gives %d values: want the %d that are carried, and a result", len(given),
			o.Carry)
	}
	if err := wantTypes("carried value", given[:o.Carry], in[:o.Carry]); err != nil {
		return nil, err
	}
	n := o.Trips(in)
	out := slices.Clone(given[:o.Carry])
	for _, t := range given[o.Carry:] {
		out = append(out, stacked(n, t))
	}
	if o.Save {
		for _, t := range in[:o.Carry] {
			out = append(out, stacked(n, t))
		}
	}
	if err := wantBelow("carried value that begins with zeros", o.Start, o.Carry); err != nil {
		return nil, err
	}
	return out, wantBelow("zero result", o.Zero, len(out))
}

// stacked returns the type of n stacked values.
func stacked(n int, t Type) Type {
	return Type{DType: t.DType, Shape: append([]int{n}, t.Shape...)}
}

// VJP iterates in the opposite direction. It carries the gradients of the carried values and of the operands
// that every trip reads, and recomputes each trip from the values that were carried into it.
func (o scan) VJP(in, out, dout []*Tensor) []*Tensor {
	fs, err := o.Bodies(typesOfValues(in))
	if err != nil {
		return invalidated(in, len(in), err)
	}
	g := scanGrad{o: o, f: fs[0], in: in, dout: dout}
	n := len(g.f.Results())
	g.saved = out[min(n, len(out)):]
	if !o.Save {
		again := o
		again.Save = true
		g.saved = ir.Apply(again, in...)[n:]
	}
	return g.build()
}

func (o scan) Localize(at *Place) (Op, error)              { return o.localized(at) }
func (o scan) CooperativeRule(in []Type) CooperativeRule   { return flowTogether(o, in) }
func (o scan) Cooperate(at *Place, in []*Tensor) []*Tensor { return together(o, at, in) }

func (o scan) localized(at *Place) (Op, error) {
	fs, local, err := localBodies(o, at)
	if err != nil {
		return nil, err
	}
	o.Body, o.Zero, o.Start = fs[0].String(), bothSets(o.Zero, local.zero), bothSets(o.Start, local.start)
	return o, nil
}

// bothSets returns the union of two sets of numbers, in order.
func bothSets(x, y []int) []int {
	all := slices.Concat(x, y)
	slices.Sort(all)
	return slices.Compact(all)
}

// ties gives carried values one layout before and after a trip; the dim of the trips must not be split.
func (o scan) ties(t *flowTies) {
	n := len(t.bodies[0].Results())
	for i, h := range t.operands {
		but := 0
		if i >= o.Carry && i < o.Carry+o.Xs {
			but = 1
			t.keepWhole(h.base)
			t.join(h.base, t.operands[o.Carry].base)
		}
		t.tie(h, t.param(0, i), but)
	}
	for i, h := range t.results {
		switch {
		case i < o.Carry:
			t.tie(h, t.given(0, i), 0)
			t.tie(h, t.operand(i), 0)
		case i < n:
			t.row(o, h)
			t.tie(h, t.given(0, i), 1)
		default:
			t.row(o, h)
			t.tie(h, t.operand(i-n), 1)
		}
	}
}

// row forbids splitting the dim along which a result has a row for each trip.
func (t *flowTies) row(o scan, h handle) {
	t.keepWhole(h.base)
	if o.Xs > 0 {
		t.join(h.base, t.operands[o.Carry].base)
	}
}

func (o scan) states(c *flowClass) ([]flowState, bool) {
	var in []flowState
	for i := range c.in {
		in = append(in, c.operand(i))
	}
	carry := in[:o.Carry]
	out, ok := c.carried(0, slices.Clone(carry), in[o.Carry:])
	if !ok {
		return nil, false
	}
	if o.Save {
		out = append(out, out[:o.Carry]...)
	}
	return out, true
}

// Work returns the work of all trips.
func (o scan) Work(in, _ []Type) Work {
	b, err := bodyOf(o.Body, o.bodyTypes(in)[0])
	if err != nil {
		return Work{}
	}
	return b.work().times(o.Trips(in))
}

func (w Work) times(n int) Work {
	k := float64(n)
	return Work{Flops: k * w.Flops, Bytes: k * w.Bytes, Wire: k * w.Wire}
}

// Scratch returns the memory of a trip, and of the values carried into it and out of it.
func (o scan) Scratch(in, _ []Type) int {
	return scratchOf(o, in) + carriedBytes(in[:o.Carry])
}

func (scan) Samples() []Sample {
	// A carried state, and a sum over rows and columns of each trip; weights that all trips share.
	cell := "func body(%0: f32[5,4], %1: f32[4], %2: f32[5,3], %3: f32[3,4]) {\n  %4 = matmul %2 %3\n" +
		"  %5 = add %0 %4\n  %6 = tanh %5\n  %7 = mul %6 %0\n  %8 = sum{dims=[0]} %7\n  %9 = add %1 %8\n" +
		"  return %6 %9 %7\n}\n"
	in := []Arg{f32(5, 4), f32(4), f32(6, 5, 3), f32(3, 4)}
	power := "func body(%0: f32[7], %1: f32[7]) {\n  %2 = mul %0 %1\n  return %2\n}\n"
	return []Sample{
		{Op: scan{Body: cell, Carry: 2, Xs: 1}, In: in},
		{Op: scan{Body: cell, Carry: 2, Xs: 1, Reverse: true, Save: true}, In: in},
		{Op: scan{Body: power, Carry: 1, Length: 3}, In: []Arg{f32(7), f32(7)}},
	}
}
