package bench

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// BurgersConfig is training steps of a physics-informed network for Burgers' equation: its loss contains u,
// ux, ut and uxx of a tanh network with two inputs, and Adam trains it.
type BurgersConfig struct {
	// Points is the number of points of a step; Layers the hidden layers, of Width each.
	Points, Layers, Width int
	DType                 array.DType
	Threads               int
	// Rounds is the number of turns of each variant, of burgersTurn steps.
	Rounds int
	// Python is an interpreter with PyTorch; empty means none.
	Python string
	// Profile adds the time of each op of the Taylor series steps.
	Profile bool
}

// turn runs a few steps and returns the milliseconds of the fastest, and the loss of the first.
type turn func() (ms, loss float64, err error)

// burgersTurn is the number of steps of a turn.
const burgersTurn = 3

// BurgersResult is the best milliseconds of a step: derivatives by Taylor series, by gradients of gradients,
// and PyTorch's by the same.
type BurgersResult struct {
	Points   int      `json:"points"`
	Layers   int      `json:"layers"`
	Width    int      `json:"width"`
	DType    string   `json:"dtype"`
	Threads  int      `json:"threads"`
	SeriesMS float64  `json:"series_ms"`
	GradMS   float64  `json:"grad_ms"`
	TorchMS  float64  `json:"torch_ms,omitempty"`
	Torch    string   `json:"torch,omitempty"`
	Loss     float64  `json:"loss"`
	Ops      []OpTime `json:"ops,omitempty"`
}

// String prints the result in a line.
func (r BurgersResult) String() string {
	line := fmt.Sprintf(
		"2-%dx%d-1, %d points, %s, %d thread(s): series %.3f ms (%.2f µs a point), Grad of Grad %.3f ms",
		r.Width,
		r.Layers,
		r.Points,
		r.DType,
		r.Threads,
		r.SeriesMS,
		1e3*r.SeriesMS/float64(r.Points),
		r.GradMS,
	)
	if r.TorchMS > 0 {
		line += fmt.Sprintf("; PyTorch %s %.3f ms: %.2fx", r.Torch, r.TorchMS, r.TorchMS/min(r.SeriesMS, r.GradMS))
	} else {
		line += "; no PyTorch: " + r.Torch
	}
	for _, o := range r.Ops {
		line += fmt.Sprintf("\n%5.1f%%  %9.2f ms  %6d calls  %s", 100*o.Share, o.MS, o.Calls, o.Op)
	}
	return line
}

// Burgers times steps of all variants, in turns, and keeps the best of each.
func Burgers(c BurgersConfig) (r BurgersResult, err error) {
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	r = BurgersResult{Points: c.Points, Layers: c.Layers, Width: c.Width, DType: c.DType.String(),
		Threads: d.Threads(), Torch: "none was asked for"}
	times := profile{}
	ways := make([]turn, 2)
	for i, f := range []fieldsOf{c.series, c.gradients} {
		step, err := c.trainer(d, f, times.observer(c.Profile && i == 0))
		if err != nil {
			return r, err
		}
		ways[i] = step
	}
	if c.Python != "" {
		peer, name, err := startPeer(c.Python, burgersScript, c.args(r.Threads)...)
		if err != nil {
			return r, err
		}
		if r.Torch = name; peer != nil {
			defer peer.close()
			ways = append(ways, func() (float64, float64, error) { return peer.turn(burgersTurn) })
		}
	}
	best, err := c.turns(ways, &r.Loss)
	if err != nil {
		return r, err
	}
	r.SeriesMS, r.GradMS, r.Ops = best[0], best[1], times.sorted()
	if len(best) > 2 {
		r.TorchMS = best[2]
	}
	return r, nil
}

func (c BurgersConfig) args(threads int) []string {
	return []string{strconv.Itoa(c.Points), strconv.Itoa(c.Layers), strconv.Itoa(c.Width), c.DType.String(),
		strconv.Itoa(threads)}
}

// turns runs all variants one after the other, in rounds. All train the same network: their first losses must
// agree, otherwise the work is not the same.
func (c BurgersConfig) turns(ways []turn, first *float64) ([]float64, error) {
	best := make([]float64, len(ways))
	for round := range c.Rounds + 1 {
		for i, way := range ways {
			ms, loss, err := way()
			if err != nil {
				return nil, err
			}
			switch {
			case round == 0 && i == 0:
				*first = loss
			case round == 0 && !(math.Abs(loss-*first) <= 1e-3*math.Abs(*first)):
				return nil, fmt.Errorf("way %d has loss %g at first, series have %g: they do not train the same",
					i, loss, *first)
			}
			if round == 1 || round > 1 && ms < best[i] { // round 0 compiles and warms up
				best[i] = ms
			}
		}
	}
	return best, nil
}

// fieldsOf computes u, ux, ut and uxx of a network at points.
type fieldsOf func(net func(x *op.Tensor) *op.Tensor, x *op.Tensor) []*op.Tensor

func (BurgersConfig) series(net func(x *op.Tensor) *op.Tensor, x *op.Tensor) []*op.Tensor {
	return galley.Derivatives(net, x, "", "x", "t", "xx")
}

func (BurgersConfig) gradients(net func(x *op.Tensor) *op.Tensor, x *op.Tensor) []*op.Tensor {
	u := net(x)
	first := galley.Grad(op.Sum(u), x)[0]
	ux, ut := op.Narrow(first, 1, 0, 1), op.Narrow(first, 1, 1, 2)
	return []*op.Tensor{u, ux, ut, op.Narrow(galley.Grad(op.Sum(ux), x)[0], 1, 0, 1)}
}

// trainer returns a function that runs a turn of steps.
func (c BurgersConfig) trainer(d *galley.Device, f fieldsOf,
	observe func(n *galley.Node, took time.Duration)) (turn, error) {
	params := c.params(d.NewSession())
	net := func(x *op.Tensor) *op.Tensor {
		for i := range c.Layers + 1 {
			if x = op.LinearT(x, params[2*i].Value, params[2*i+1].Value); i < c.Layers {
				x = op.Tanh(x)
			}
		}
		return x
	}
	t, err := galley.NewTrainer(galley.TrainerConfig{
		Device: d, Params: params, Observe: observe, SkipNorm: true,
		Optimizer: optim.Adam{}, Schedule: optim.Constant{LR: 1e-3},
		Loss: func(batch []*op.Tensor) *op.Tensor {
			u := f(net, batch[0])
			rest := op.Add(u[2], op.Mul(u[0], u[1]))
			return op.Mean(op.Square(op.Sub(rest, op.MulScalar(u[3], 0.01/math.Pi))))
		},
	})
	if err != nil {
		return nil, err
	}
	points := c.points()
	return func() (ms, loss float64, err error) {
		first := true
		timing, err := measure(0, burgersTurn, func() error {
			m, err := t.Step(points)
			if first {
				loss, first = m.Loss, false
			}
			return err
		})
		return timing.BestMS, loss, err
	}, nil
}

// params returns weights and biases as burgers.py makes them.
func (c BurgersConfig) params(s *galley.Session) []*nn.Param {
	var params []*nn.Param
	in := 2
	for i := range c.Layers + 1 {
		out := c.Width
		if i == c.Layers {
			out = 1
		}
		w := make([]float64, in*out)
		for k := range w {
			w[k] = math.Sqrt(6/float64(in+out)) * math.Sin(float64(1+10*i+k))
		}
		for j, a := range []array.Array{array.FromSlice(w, in, out), array.New(array.F64, out)} {
			v := op.Cast(s.Tensor(a), c.DType)
			params = append(params, &nn.Param{Name: fmt.Sprint("wb"[j:j+1], i), Type: v.Type(), Value: v.Track()})
		}
		in = out
	}
	return params
}

// points are spread evenly over x from -1 to 1 and t from 0 to 1.
func (c BurgersConfig) points() array.Array {
	xt := make([]float64, 2*c.Points)
	for k := range c.Points {
		xt[2*k] = 2*math.Mod(float64(k)*0.6180339887, 1) - 1
		xt[2*k+1] = math.Mod(float64(k)*0.7548776662, 1)
	}
	a := array.FromSlice(xt, c.Points, 2)
	if c.DType == array.F64 {
		return a
	}
	return array.FromSlice(narrow32(xt), c.Points, 2)
}

func narrow32(xs []float64) []float32 {
	out := make([]float32, len(xs))
	for i, x := range xs {
		out[i] = float32(x)
	}
	return out
}
