package galley_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/backend/backendtest"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
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

// TestJoinedState: weights that one product takes lie as one tensor on a backend, so that a step puts nothing together and cuts no gradient; losses and
// parameters stay what they are.
func TestJoinedState(t *testing.T) {
	want, wantModel := togetherRun{}.trainer(t)
	k := keeper(backendtest.Interpreter(1))
	got, gotModel := togetherRun{backend: k}.trainer(t)
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

// TestRoundedState: with products in 16 bits the state holds rounded weights, which the update writes; the step rounds none.
func TestRoundedState(t *testing.T) {
	for _, policy := range []string{"none", "full"} {
		k := keeper(backendtest.Interpreter(1))
		got, _ := togetherRun{backend: k, half: true, strategy: &galley.Strategy{Recompute: policy}}.trainer(t)
		want, _ := togetherRun{half: true}.trainer(t)
		a, b := trainFor(t, got, 4), trainFor(t, want, 4)
		for i := 0; i < len(a); i += 2 { // losses; norms of so small a model differ more
			sameNumbers(t, a[i:i+1], b[i:i+1], 2e-2)
		}
		for _, n := range k.programs["train_step"].Nodes() {
			if n.Op().Name() == "cast" && n.In()[0].Node() == nil && len(n.In()[0].Shape()) == 2 && n.Out()[0].DType() == array.BF16 {
				t.Errorf("%s: the step rounds a weight: %v", policy, n)
			}
		}
	}
}

// TestJoinedCheckpoint: what a checkpoint brings back is trained on, the rounded copies of weights too.
func TestJoinedCheckpoint(t *testing.T) {
	for _, half := range []bool{false, true} {
		t.Run(fmt.Sprint(half), func(t *testing.T) {
			dir := t.TempDir()
			c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			a, _ := togetherRun{backend: backendtest.Interpreter(1), half: half}.trainer(t)
			trainFor(t, a, 2)
			if err := a.Save(context.Background(), c, 0); err != nil {
				t.Fatal(err)
			}
			if err := c.Wait(context.Background()); err != nil {
				t.Fatal(err)
			}
			want := trainFor(t, a, 2)
			b, _ := togetherRun{backend: backendtest.Interpreter(1), half: half}.trainer(t)
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

// TestJoinedOptimizer: an optimizer that looks at more than an element sees parameters as they are.
func TestJoinedOptimizer(t *testing.T) {
	want, _ := togetherRun{optimizer: wholeNorm{}}.trainer(t)
	got, _ := togetherRun{optimizer: wholeNorm{}, backend: backendtest.Interpreter(1)}.trainer(t)
	sameNumbers(t, trainFor(t, got, 3), trainFor(t, want, 3), 1e-10)
}

// TestStepKernels: a step in 16 bits on CUDA reads logits once for the loss and its gradient, and gates where the product left them.
func TestStepKernels(t *testing.T) {
	k := keeper(backendtest.Interpreter(1))
	tr, _ := togetherRun{backend: k, half: true}.trainer(t)
	trainFor(t, tr, 1)
	text, err := op.Module(k.programs["train_step"], op.ModuleConfig{Config: hlo.Config{Target: hlo.CUDA}})
	if err != nil {
		t.Fatal(err)
	}
	const layers = 2
	for name, want := range map[string]int{"cross_entropy": 1, "log_sum_exp": 0, "softmax_grad": 0, "swiglu": layers, "rms_norm_grad": 2 * layers} {
		if got := strings.Count(text, `name = "`+name+`"`); got != want {
			t.Errorf("%d calls of %s, want %d", got, name, want)
		}
	}
}
