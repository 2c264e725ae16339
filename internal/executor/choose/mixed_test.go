package choose_test

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/cpu"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/choose"
	"github.com/galley-ml/galley/internal/transport"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// counted is a backend that counts the programs that it has run.
type counted struct {
	backend.Backend
	runs *atomic.Int64
}

func (c counted) Compile(p *backend.Program, o backend.Options) (backend.Executable, error) {
	e, err := c.Backend.Compile(p, o)
	return countedExecutable{e, c.runs}, err
}

type countedExecutable struct {
	backend.Executable
	runs *atomic.Int64
}

func (e countedExecutable) Run(args []backend.Buffer) ([]backend.Buffer, error) {
	e.runs.Add(1)
	return e.Executable.Run(args)
}

// mixed returns the losses of four layers under a config, whose parameters are made anew. Some rows do not
// count, so that the mean is not that of the parts' means.
func mixed(t *testing.T, change func(c *executor.Config)) []float64 {
	t.Helper()
	d := cpu.NewDevice(cpu.Config{Threads: 1})
	t.Cleanup(d.Close)
	in := nn.NewInit(nn.Config{Scope: d.NewSession(), Seed: 1, DType: array.F64})
	var layers []*nn.Linear
	for i := range 4 {
		layers = append(layers, nn.NewLinear(in.At("layers").Index(i), 6, 6))
	}
	c := executor.Config{Device: d, Params: in.Params(), Optimizer: optim.AdamW{}, World: transport.New,
		Loss: func(batch []*op.Tensor) *op.Tensor {
			x := batch[0]
			for i, l := range layers {
				x = op.Tanh(l.Forward(op.Mark(x, nn.LayerMark(i))))
			}
			return op.CrossEntropy(x, batch[1], op.CrossEntropyConfig{})
		}}
	change(&c)
	e, err := choose.New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	x, y := array.New(array.F64, 10, 6), array.New(array.I32, 10)
	for i := range x.Len() {
		x.Set(i, math.Sin(float64(i)))
	}
	for i, label := range []int32{3, -100, 1, 5, 0, -100, -100, 2, 4, 1} {
		array.Data[int32](y)[i] = label
	}
	var losses []float64
	for step := range 4 {
		r, err := e.Step(executor.Input{LR: 0.01, Count: float64(step + 1), Batch: []array.Array{x, y}})
		if err != nil {
			t.Fatal(err)
		}
		result, err := r.Wait()
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, result.Loss, result.Norm)
	}
	return losses
}

// TestMixed: ranks on backends, and shares of a batch, have the losses and norms of one device.
func TestMixed(t *testing.T) {
	want := mixed(t, func(*executor.Config) {})
	if !(want[6] < want[0]) {
		t.Errorf("losses %v do not fall", want)
	}
	var runs atomic.Int64
	other := func() backend.Backend { return counted{backendtest.Interpreter(1), &runs} }
	for name, change := range map[string]func(c *executor.Config){
		"host and interpreter": func(c *executor.Config) {
			c.Strategy = &strategy.Strategy{PP: 2, Micro: 2}
			c.RankBackends = []backend.Backend{nil, other()}
		},
		"interpreter and host, dp=2": func(c *executor.Config) {
			c.Strategy = &strategy.Strategy{PP: 2, DP: 2, Micro: 2, Schedule: "zbh1"}
			c.RankBackends = []backend.Backend{other()}
		},
		"shares 3:1": func(c *executor.Config) {
			c.Shares = []executor.Share{{Weight: 3}, {Backend: other(), Weight: 1}}
		},
		"shares 1:2:4": func(c *executor.Config) {
			c.Shares = []executor.Share{{Backend: other(), Weight: 1}, {Weight: 2}, {Weight: 4}}
		},
	} {
		runs.Store(0)
		got := mixed(t, change)
		if runs.Load() == 0 {
			t.Errorf("%s: the backend ran nothing", name)
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-10*(1+math.Abs(want[i])) {
				t.Errorf("%s: number %d is %.15g, on one device %.15g", name, i, got[i], want[i])
			}
		}
	}
}

func TestShareRows(t *testing.T) {
	for _, c := range []struct {
		rows    int
		weights []float64
		want    []int
	}{{10, []float64{3, 1}, []int{8, 2}}, {4, []float64{1, 1}, []int{2, 2}},
		{3, []float64{100, 1, 1}, []int{1, 1, 1}}, {8, []float64{1, 3}, []int{2, 6}}} {
		var shares []executor.Share
		for _, w := range c.weights {
			shares = append(shares, executor.Share{Weight: w})
		}
		got, err := executor.ShareRows(c.rows, shares)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%d rows by %v: got %v, want %v", c.rows, c.weights, got, c.want)
				break
			}
		}
	}
	if _, err := executor.ShareRows(1, make([]executor.Share, 2)); err == nil {
		t.Error("shares without weight are taken")
	}
}

// TestMixedRefused: what has no meaning is refused by name.
func TestMixedRefused(t *testing.T) {
	b := backendtest.Interpreter(1)
	for _, c := range []struct {
		c    executor.Config
		want string
	}{
		{executor.Config{RankBackends: []backend.Backend{b}}, "want a Strategy with PP"},
		{executor.Config{RankBackends: []backend.Backend{nil, b}, Strategy: &strategy.Strategy{DP: 2}}, "has pp=1"},
		{executor.Config{Shares: []executor.Share{{Weight: 1}}, Backend: b}, "Backend runs all"},
		{executor.Config{Shares: []executor.Share{{Weight: 1}}, Strategy: &strategy.Strategy{}},
			"want no Strategy"},
	} {
		if _, err := choose.New(c.c); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
