package galley_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// programKeeper is a backend that remembers what it compiled.
type programKeeper struct {
	galley.Backend
	programs map[string]*ir.Func
}

func (k *programKeeper) Compile(f *ir.Func, o backend.Options) (backend.Executable, error) {
	k.programs[f.Name()] = f
	return k.Backend.Compile(f, o)
}

func keeper(b galley.Backend) *programKeeper { return &programKeeper{b, map[string]*ir.Func{}} }

// TestFusedParamsState: weights that one product takes are fused into one tensor on a backend, so that a step
// puts nothing together and cuts no gradient; losses and parameters stay what they are.
func TestFusedParamsState(t *testing.T) {
	want, wantModel := groupRun{}.trainer(t)
	k := keeper(backendtest.Interpreter(1))
	got, gotModel := groupRun{backend: k}.trainer(t)
	sameNumbers(t, trainFor(t, got, 4), trainFor(t, want, 4), 1e-10)
	p := k.programs["train_step"]
	for _, n := range p.Nodes() {
		if name := n.Op().Name(); (name == "concat" || name == "split") && n.In()[0].Node() == nil {
			t.Errorf("the step joins or cuts weights: %v", n)
		}
	}
	if a, b := len(p.Params()), 3*len(gotModel.Params())+3; a >= b {
		t.Errorf("the step has %d parameters, want fewer than %d", a, b)
	}
	sameParams(t, got, gotModel, wantModel)
}

// TestFusedParamsCheckpoint: what a checkpoint brings back is trained on, halves of weights too.
func TestFusedParamsCheckpoint(t *testing.T) {
	for _, half := range []bool{false, true} {
		t.Run(fmt.Sprint(half), func(t *testing.T) {
			dir := t.TempDir()
			c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			a, _ := groupRun{backend: backendtest.Interpreter(1), half: half}.trainer(t)
			trainFor(t, a, 2)
			if err := a.Save(context.Background(), c, 0); err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(context.Background()); err != nil {
				t.Fatal(err)
			}
			want := trainFor(t, a, 2)
			b, _ := groupRun{backend: backendtest.Interpreter(1), half: half}.trainer(t)
			trainFor(t, b, 3) // its state lies joined, and is another
			if _, err := b.Resume(dir); err != nil {
				t.Fatal(err)
			}
			sameNumbers(t, trainFor(t, b, 2), want, 0)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// wholeNorm is an optimizer that looks at a parameter as a whole.
type wholeNorm struct{}

func (wholeNorm) Slots() int { return 0 }

func (wholeNorm) Update(p, g *op.Tensor, _ []*op.Tensor, s optim.Step) (*op.Tensor, []*op.Tensor) {
	norm := op.Sqrt(op.Sum(op.Mul(g, g)))
	return op.Sub(p, op.Mul(g, op.Div(op.Cast(s.LR, g.DType()), norm))), nil
}

// TestFusedParamsOptimizer: an optimizer that looks at more than an element sees parameters as they are.
func TestFusedParamsOptimizer(t *testing.T) {
	for _, o := range []optim.Optimizer{wholeNorm{}, lamb{}} {
		want, _ := groupRun{optimizer: o}.trainer(t)
		got, _ := groupRun{optimizer: o, backend: backendtest.Interpreter(1)}.trainer(t)
		sameNumbers(t, trainFor(t, got, 3), trainFor(t, want, 3), 1e-10)
	}
}

// TestStepKernels: a step in 16 bits on CUDA reads logits once for the loss and its gradient, and gates where
// the product left them.
func TestStepKernels(t *testing.T) {
	k := keeper(backendtest.Interpreter(1))
	tr, _ := groupRun{backend: k, half: true}.trainer(t)
	trainFor(t, tr, 1)
	text, err := lower.Module(k.programs["train_step"], lower.ModuleConfig{Config: hlo.Config{Target: hlo.CUDA}})
	if err != nil {
		t.Fatal(err)
	}
	const layers = 2
	for name, want := range map[string]int{"cross_entropy": 1, "log_sum_exp": 0, "softmax_grad": 0,
		"swiglu": layers, "rms_norm_grad": 2 * layers} {
		if got := strings.Count(text, `name = "`+name+`"`); got != want {
			t.Errorf("%d calls of %s, want %d", got, name, want)
		}
	}
}

// joinLoss returns a trainer of weights w1 and w2, and these, whose loss is of products that f makes of the
// batch and them, on a backend or, where that is nil, on the host.
func joinLoss(t *testing.T, b galley.Backend, c galley.TrainerConfig,
	f func(x, w1, w2 *op.Tensor) []*op.Tensor) (*galley.Trainer, []*nn.Param) {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	t.Cleanup(func() { d.Close() })
	s := d.NewSession()
	var params []*nn.Param
	for i := range 2 {
		w := array.New(array.F32, 4, 4)
		for k := range w.Len() {
			w.Set(k, float64((k*7+i*3)%11)/11-0.4)
		}
		v := s.Tensor(w).Track()
		params = append(params, &nn.Param{Name: fmt.Sprint("w", i), Type: v.Type(), Value: v})
	}
	c.Device, c.Backend, c.Params = d, b, params
	c.Loss = func(batch []*op.Tensor) *op.Tensor {
		var loss *op.Tensor
		for _, y := range f(batch[0], params[0].Value, params[1].Value) {
			l := op.Mean(op.Square(op.Cast(y, array.F32)))
			if loss == nil {
				loss = l
				continue
			}
			loss = op.Add(loss, l)
		}
		return loss
	}
	tr, err := galley.NewTrainer(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr, params
}

// stepRows takes steps of batches of so many rows and returns their losses.
func stepRows(t *testing.T, tr *galley.Trainer, rows ...int) []float64 {
	t.Helper()
	var losses []float64
	for _, n := range rows {
		x := array.New(array.F32, n, 4)
		for i := range x.Len() {
			x.Set(i, float64((i*5+tr.Steps())%7)/7)
		}
		m, err := tr.Step(x)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, m.Loss)
	}
	return losses
}

// TestFusedParamsKinds: tensors that are not trained may stand among those that one product takes, weights
// may be cut late, the loss need not look at the batch, and batches of another size may use other weights.
func TestFusedParamsKinds(t *testing.T) {
	frozen := galley.CPU(galley.Config{Threads: 1}).NewSession().Tensor(array.FromSlice(make([]float32, 16), 4,
		4))
	for name, f := range map[string]func(x, w1, w2 *op.Tensor) []*op.Tensor{
		"frozen first": func(x, w1, w2 *op.Tensor) []*op.Tensor { return products(x, frozen, w1, w2) },
		"frozen amid":  func(x, w1, w2 *op.Tensor) []*op.Tensor { return products(x, w1, frozen, w2) },
		"frozen last":  func(x, w1, w2 *op.Tensor) []*op.Tensor { return products(x, w1, w2, frozen) },
		"cut late": func(x, w1, w2 *op.Tensor) []*op.Tensor {
			return append(products(x, w1), products(x, op.Chunk(w2, 1, 2)...)...)
		},
		"no batch": func(_, w1, w2 *op.Tensor) []*op.Tensor { return products(w1, w2) },
		"more for many": func(x, w1, w2 *op.Tensor) []*op.Tensor {
			return products(x, []*op.Tensor{w1,
				w2}[:1+x.Dim(0)/5]...)
		},
	} {
		for _, compute := range []array.DType{array.Invalid, array.BF16} {
			t.Run(fmt.Sprint(name, " ", compute), func(t *testing.T) {
				c := galley.TrainerConfig{Compute: compute}
				host, _ := joinLoss(t, nil, c, f)
				want := stepRows(t, host, 3, 6, 3, 6)
				chip, _ := joinLoss(t, backendtest.Interpreter(1), c, f)
				got := stepRows(t, chip, 3, 6, 3, 6)
				bound := 1e-6
				if compute.IsHalf() {
					bound = 2e-2
				}
				sameNumbers(t, got, want, bound)
			})
		}
	}
}

func products(x *op.Tensor, ws ...*op.Tensor) []*op.Tensor {
	var list []*op.Tensor
	for _, w := range ws {
		list = append(list, op.MatMul(x, w))
	}
	return list
}

// lamb looks at a parameter as a whole, though what it has inside does not.
type lamb struct{ optim.AdamW }

func (l lamb) Update(p, g *op.Tensor, slots []*op.Tensor, s optim.Step) (*op.Tensor, []*op.Tensor) {
	next, slots := l.AdamW.Update(p, g, slots, s)
	return op.Add(next, op.MulScalar(op.Mul(p, op.Mean(op.Square(p))), 0.1)), slots
}

// failingOnce is a backend that cannot compile the n-th program of a name.
type failingOnce struct {
	galley.Backend
	name string
	n    int
}

func (f *failingOnce) Compile(p *ir.Func, o backend.Options) (backend.Executable, error) {
	if p.Name() == f.name {
		if f.n--; f.n == 0 {
			return nil, errors.New("out of memory")
		}
	}
	return f.Backend.Compile(p, o)
}

// TestJoinFails: a program that cannot be compiled leaves the state as it was, and the next step trains.
func TestJoinFails(t *testing.T) {
	want, _ := groupRun{half: true}.trainer(t)
	for name, n := range map[string]int{"concat": 2, "train_step": 1, "split_f32": 2} {
		tr, _ := groupRun{half: true, backend: &failingOnce{backendtest.Interpreter(1), name, n}}.trainer(t)
		if _, err := tr.Step(groupIDs(0)); err == nil || !strings.Contains(err.Error(), "out of memory") {
			t.Fatalf("%s: got %v, want the backend's error", name, err)
		}
		if m, err := tr.Step(groupIDs(0)); err != nil || math.Abs(m.Loss-trainFor(t, want, 1)[0]) > 2e-2 {
			t.Errorf("%s: after a failure: loss %v, %v", name, m.Loss, err)
		}
		want, _ = groupRun{half: true}.trainer(t)
	}
}
