package nn_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// plainCell is PyTorch's definition of a step in loops: what each kind makes of the gates' sums.
type plainCell func(i, h func(gate, k int) float64, before [2]float64, k int) [2]float64

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

var plainCells = map[string]struct {
	gates, states int
	of            plainCell
	make          func(in *nn.Init, from, hidden int, c nn.RecurrentConfig) *nn.Recurrent
}{
	"rnn": {1, 1, func(i, h func(int, int) float64, _ [2]float64, k int) [2]float64 {
		return [2]float64{math.Tanh(i(0, k) + h(0, k))}
	}, nn.NewRNN},
	"gru": {3, 1, func(i, h func(int, int) float64, s [2]float64, k int) [2]float64 {
		r, z := sigmoid(i(0, k)+h(0, k)), sigmoid(i(1, k)+h(1, k))
		n := math.Tanh(i(2, k) + r*h(2, k))
		return [2]float64{(1-z)*n + z*s[0]}
	}, nn.NewGRU},
	"lstm": {4, 2, func(i, h func(int, int) float64, s [2]float64, k int) [2]float64 {
		g := func(n int) float64 { return i(n, k) + h(n, k) }
		c := sigmoid(g(1))*s[1] + sigmoid(g(0))*math.Tanh(g(2))
		return [2]float64{sigmoid(g(3)) * math.Tanh(c), c}
	}, nn.NewLSTM},
}

// sequence is one sequence of vectors.
type sequence = [][]float64

// plainLayer runs a layer over one sequence and returns its outputs and its last state.
func plainLayer(of plainCell, w map[string]array.Array, suffix string, x sequence, hidden int,
	backward bool) (sequence, [][2]float64) {
	state, out := make([][2]float64, hidden), make(sequence, len(x))
	for n := range x {
		t := n
		if backward {
			t = len(x) - 1 - n
		}
		sum := func(kind string, v []float64) func(gate, k int) float64 {
			return func(gate, k int) float64 {
				row := gate*hidden + k
				total := 0.0
				if b, ok := w["bias_"+kind+suffix]; ok {
					total = b.At(row)
				}
				for j, e := range v {
					total += w["weight_"+kind+suffix].At(row*len(v)+j) * e
				}
				return total
			}
		}
		before := make([]float64, hidden)
		for k := range before {
			before[k] = state[k][0]
		}
		next := make([][2]float64, hidden)
		for k := range next {
			next[k] = of(sum("ih", x[t]), sum("hh", before), state[k], k)
			out[t] = append(out[t], next[k][0])
		}
		state = next
	}
	return out, state
}

// TestRecurrent: layers of every kind, stacked, in both directions and without biases, are PyTorch's
// definitions.
func TestRecurrent(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	const batch, steps, from, hidden = 2, 4, 3, 2
	x := images(1, batch, steps, from, 1)
	for kind, p := range plainCells {
		for _, c := range []nn.RecurrentConfig{{}, {Layers: 2, NoBias: true}, {Layers: 2, Bidirectional: true}} {
			s := d.NewSession()
			in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 3})
			l := p.make(in, from, hidden, c)
			w := map[string]array.Array{}
			for _, param := range in.Params() {
				a, err := galley.Read(param.Value)
				if err != nil {
					t.Fatal(err)
				}
				w[param.Name] = a
			}
			y, last := l.Run(op.Reshape(s.Tensor(x), batch, steps, from), nil)
			for b := range batch {
				seq := make(sequence, steps)
				for i := range seq {
					for k := range from {
						seq[i] = append(seq[i], x.At((b*steps+i)*from+k))
					}
				}
				at0 := 0
				for _, layer := range []string{"_l0", "_l1"}[:max(c.Layers, 1)] {
					out, end := plainLayer(p.of, w, layer, seq, hidden, false)
					ends := [][][2]float64{end}
					if c.Bidirectional {
						back, end := plainLayer(p.of, w, layer+"_reverse", seq, hidden, true)
						ends = append(ends, end)
						for i := range out {
							out[i] = slices.Concat(out[i], back[i])
						}
					}
					for _, end := range ends {
						for n := range p.states {
							for k := range hidden {
								near(t, kind+" state", at(t, last[at0], b*hidden+k), end[k][n])
							}
							at0++
						}
					}
					seq = out
				}
				for i, v := range slices.Concat(seq...) {
					near(t, kind+" output", at(t, y, b*steps*len(seq[0])+i), v)
				}
			}
		}
	}
}

// TestRecurrentState: a sequence in two pieces, the second from the state of the first, and a cell step by
// step are the whole sequence; mistakes say what is wanted.
func TestRecurrentState(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	s := d.NewSession()
	in := nn.NewInit(nn.Config{Scope: s, DType: array.F64, Seed: 3})
	lstm, cell := nn.NewLSTM(in.At("a"), 3, 2, nn.RecurrentConfig{}), nn.NewLSTMCell(in.At("b"), 3, 2)
	for i, p := range in.At("a").Params()[4:] {
		p.Value = in.Params()[i].Value
	}
	x := op.Reshape(s.Tensor(images(1, 2, 4, 3, 1)), 2, 4, 3)
	whole, end := lstm.Run(x, nil)
	_, half := lstm.Run(op.Narrow(x, 1, 0, 2), nil)
	rest, again := lstm.Run(op.Narrow(x, 1, 2, 4), half)
	var h, c *op.Tensor
	for _, step := range op.Unbind(x, 1) {
		h, c = cell.Forward(step, h, c)
	}
	for i := range 4 {
		near(t, "rest", at(t, rest, i), at(t, whole, 4+i))
		near(t, "end", at(t, again[1], i), at(t, end[1], i))
		near(t, "cell", at(t, h, i), at(t, end[0], i))
		near(t, "memory", at(t, c, i), at(t, end[1], i))
	}
	if _, bad := lstm.Run(x, half[:1]); bad[0].Err() == nil ||
		!strings.Contains(bad[0].Err().Error(), "want 2") {
		t.Errorf("half a state: got %v", bad[0].Err())
	}
	if bad := lstm.Forward(op.Narrow(x, 2, 0, 2)); bad.Err() == nil {
		t.Error("inputs of another width are taken")
	}
	if bad := lstm.Forward(h); bad.Err() == nil ||
		!strings.Contains(bad.Err().Error(), "[batch, steps, features]") {
		t.Errorf("no sequence: got %v", bad.Err())
	}
}

// TestHook: what goes into a layer and what comes out of it can be looked at, and changed.
func TestHook(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	s, seen := d.NewSession(), 0.0
	net := nn.Sequential{nn.Hook{Layer: nn.Func(op.Exp), Forwarded: func(x, y *op.Tensor) *op.Tensor {
		seen = at(t, x, 0)
		return op.MulScalar(y, 2)
	}}}
	near(t, "changed", at(t, net.Forward(s.Tensor(array.Scalar(0.0))), 0), 2)
	near(t, "seen", seen, 0)
}
