package nn

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// cell is a step of a recurrent layer: it takes the contribution of inputs to its gates and the previous
// state, and returns the next state, whose first tensor is the output.
type cell interface {
	inputs(x *op.Tensor) *op.Tensor
	step(x *op.Tensor, state []*op.Tensor) []*op.Tensor
	first(x *op.Tensor) []*op.Tensor
}

// stepOf returns the state of a cell after x; nil tensors of the previous state are zeros.
func stepOf(c cell, x *op.Tensor, state ...*op.Tensor) []*op.Tensor {
	if x.Err() != nil || len(x.Shape()) != 2 {
		return invalidState(x, len(state), "got %v, want [batch, features]", x)
	}
	before := c.first(x)
	for i, s := range state {
		if s != nil {
			before[i] = s
		}
	}
	return c.step(c.inputs(x), before)
}

// invalidState returns a state that carries an error.
func invalidState(x *op.Tensor, n int, format string, args ...any) []*op.Tensor {
	bad := x
	if x.Err() == nil {
		for i, a := range args {
			if v, ok := a.(*op.Tensor); ok {
				args[i] = v.Type()
			}
		}
		bad = ir.Invalid(x.Scope(), &ir.Error{Pos: ir.Caller(), Op: "recurrent", Err: fmt.Errorf(format, args...)})
	}
	list := make([]*op.Tensor, n)
	for i := range list {
		list[i] = bad
	}
	return list
}

// RecurrentConfig describes a stack of recurrent layers. The zero value is one layer with biases.
type RecurrentConfig struct {
	// Layers is the number of layers; 0 means 1.
	Layers int
	// Bidirectional runs a second set of cells from the end, and concatenates both results.
	Bidirectional bool
	// Dropout is the rate between layers.
	Dropout float64
	// NoBias omits biases.
	NoBias bool
	// ReLU replaces tanh in plain recurrent layers.
	ReLU bool
	// Scan runs the steps as one op, op.Scan, instead of one set of nodes per step, so that programs do not grow
	// with sequences. Results are the same.
	Scan bool
}

// Recurrent is a stack of layers that process a sequence step by step. The number of steps is that of the
// traced or given tensor: the steps are unrolled, or one op. Parameters have PyTorch's names.
type Recurrent struct {
	scan bool
	// cells is by layer and direction.
	cells  [][]cell
	states int
	// dropouts is by layer; the first has none before it.
	dropouts []*Dropout
}

// NewRNN makes plain recurrent layers, NewGRU gated ones and NewLSTM those with a memory.
func NewRNN(in *Init, from, hidden int, c RecurrentConfig) *Recurrent {
	return newRecurrent(in, from, hidden, 1, c, func(g gates) cell { return &RNNCell{g, c.ReLU} }, 1)
}

// NewGRU makes gated recurrent units.
func NewGRU(in *Init, from, hidden int, c RecurrentConfig) *Recurrent {
	return newRecurrent(in, from, hidden, 3, c, func(g gates) cell { return &GRUCell{g} }, 1)
}

// NewLSTM makes long short-term memories.
func NewLSTM(in *Init, from, hidden int, c RecurrentConfig) *Recurrent {
	return newRecurrent(in, from, hidden, 4, c, func(g gates) cell { return &LSTMCell{g} }, 2)
}

func newRecurrent(in *Init, from, hidden, n int, c RecurrentConfig, of func(g gates) cell,
	states int) *Recurrent {
	r := &Recurrent{states: states, scan: c.Scan}
	for layer := range max(c.Layers, 1) {
		r.dropouts = append(r.dropouts, NewDropout(in.Index(layer), c.Dropout))
		directions := []string{fmt.Sprintf("_l%d", layer)}
		if c.Bidirectional {
			directions = append(directions, directions[0]+"_reverse")
		}
		var cells []cell
		for _, suffix := range directions {
			cells = append(cells, of(newGates(in, suffix, from, hidden, n, !c.NoBias)))
		}
		r.cells, from = append(r.cells, cells), hidden*len(cells)
	}
	return r
}

// Forward returns the outputs of the last layer for x [batch, steps, from], from a state of zeros: [batch,
// steps, hidden], or twice as many in both directions.
func (r *Recurrent) Forward(x *op.Tensor) *op.Tensor {
	y, _ := r.Run(x, nil)
	return y
}

// Run is like Forward from a state, and the state at the end: for each layer, and in it for each direction,
// the outputs [batch, hidden] and, of an LSTM, the memory. A nil state is zeros.
func (r *Recurrent) Run(x *op.Tensor, state []*op.Tensor) (y *op.Tensor, last []*op.Tensor) {
	each := r.states * len(r.cells[0])
	if n := each * len(r.cells); x.Err() != nil || len(x.Shape()) != 3 || x.Dim(1) == 0 {
		last = invalidState(x, n, "got %v, want [batch, steps, features] with one step or more", x)
		return last[0], last
	} else if state != nil && len(state) != n {
		last = invalidState(x, n, "got a state of %d tensors, want %d", len(state), n)
		return last[0], last
	}
	for layer, cells := range r.cells {
		if layer > 0 {
			x = r.dropouts[layer].Forward(x)
		}
		var ys []*op.Tensor
		for d, c := range cells {
			var before []*op.Tensor
			if state != nil {
				at := layer*each + d*r.states
				before = state[at : at+r.states]
			}
			along := unroll
			if r.scan {
				along = scanned
			}
			out, end := along(c, x, before, d > 0)
			ys, last = append(ys, out), append(last, end...)
		}
		if x = ys[0]; len(ys) > 1 {
			x = op.Concat(ys, 2)
		}
	}
	return x, last
}

// unroll takes a cell through a sequence, from its end where it is to go backward.
func unroll(c cell, x *op.Tensor, state []*op.Tensor, backward bool) (y *op.Tensor, end []*op.Tensor) {
	if state == nil {
		state = c.first(x)
	}
	steps := op.Unbind(c.inputs(x), 1)
	if steps[0].Err() != nil {
		return steps[0], invalidState(steps[0], len(state), "")
	}
	outs := make([]*op.Tensor, len(steps))
	for i := range steps {
		t := i
		if backward {
			t = len(steps) - 1 - i
		}
		state = c.step(steps[t], state)
		outs[t] = state[0]
	}
	return op.Stack(outs, 1), state
}

// scanned returns unroll as one op.
func scanned(c cell, x *op.Tensor, state []*op.Tensor, backward bool) (y *op.Tensor, end []*op.Tensor) {
	if state == nil {
		state = c.first(x)
	}
	steps := op.Transpose(c.inputs(x), 1, 0, 2)
	end, ys := op.ScanWith(op.ScanConfig{Reverse: backward}, func(s, x []*op.Tensor) (next, y []*op.Tensor) {
		next = c.step(x[0], s)
		return next, next[:1]
	}, state, []*op.Tensor{steps})
	return op.Transpose(ys[0], 1, 0, 2), end
}
