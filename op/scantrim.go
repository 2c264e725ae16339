package op

import (
	"slices"

	"github.com/galley-ml/galley/internal/ir"
)

// Trim drops rows that are not used, values saved for gradients that are not computed, and carried values
// that only determine themselves.
func (o scan) Trim(in []Type, used []bool) (Op, []int, []int) {
	if len(o.Zero)+len(o.Start) > 0 {
		return nil, nil, nil
	}
	fs, err := o.Bodies(in)
	if err != nil {
		return nil, nil, nil
	}
	f, given := fs[0], len(fs[0].Results())
	less := o
	less.Save = o.Save && slices.Contains(used[given:], true)
	want := slices.Clone(used[:given])
	for i := range o.Carry {
		want[i] = want[i] || less.Save
	}
	params := neededParams(f, o.Carry, want)
	var results, operands []int
	for i, w := range want {
		if w {
			results = append(results, i)
		}
	}
	body := results
	if less.Save {
		for i := range o.Carry {
			results = append(slices.Clip(results), given+i)
		}
	}
	trips := o.Trips(in)
	less.Carry, less.Xs = 0, 0
	for i, p := range params {
		if !p {
			continue
		}
		operands = append(operands, i)
		if i < o.Carry {
			less.Carry++
		} else if i < o.Carry+o.Xs {
			less.Xs++
		}
	}
	if len(results) == len(used) && len(operands) == len(in) || len(operands) == 0 {
		return nil, nil, nil
	}
	if less.Length = o.Length; less.Xs == 0 {
		less.Length = trips
	}
	b, err := subBody(f, operands, body)
	if err != nil {
		return nil, nil, nil
	}
	less.Body = b.String()
	return less, results, operands
}

// neededParams returns the parameters that the wanted results depend on. The first carry ones of both are
// carried: if such a parameter is needed, so is its result.
func neededParams(f *ir.Func, carry int, want []bool) []bool {
	for {
		var values []*Tensor
		for i, v := range f.Results() {
			if want[i] {
				values = append(values, v)
			}
		}
		read := map[*Tensor]bool{}
		for _, v := range values {
			read[v] = true
		}
		for n := range liveNodes(f, values) {
			for _, v := range n.In() {
				read[v] = true
			}
		}
		params, again := make([]bool, len(f.Params())), false
		for i, p := range f.Params() {
			params[i] = read[p]
			if i >= carry {
				continue
			}
			if params[i] && !want[i] {
				want[i], again = true, true
			}
			params[i] = params[i] || want[i]
		}
		if !again {
			return params
		}
	}
}

// subBody returns a program with some of its parameters and results.
func subBody(f *ir.Func, params, results []int) (*ir.Func, error) {
	var values []*Tensor
	for _, i := range results {
		values = append(values, f.Results()[i])
	}
	live := liveNodes(f, values)
	b := ir.NewBuilder(f.Name())
	args := make([]*Tensor, len(f.Params()))
	for _, i := range params {
		args[i] = b.Param("", f.Params()[i].Type())
	}
	made := map[*Tensor]*Tensor{}
	for i, p := range f.Params() {
		made[p] = args[i]
	}
	f.Replay(b, args, func(n *ir.Node, in []*Tensor) []*Tensor {
		if !live[n] {
			return make([]*Tensor, len(n.Out()))
		}
		out := b.Apply(n.Op(), in)
		for i, v := range n.Out() {
			made[v] = out[i]
		}
		return out
	})
	given := make([]*Tensor, len(values))
	for i, v := range values {
		given[i] = made[v]
	}
	return b.Build(given...)
}
