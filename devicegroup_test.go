package galley_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// togetherRun is a training of a small model, on a backend of several devices or on the host.
type groupRun struct {
	backend  galley.Backend
	strategy *galley.Strategy
	init     *galley.Program
	layers   int // 0 is two
	hidden   int // 0 is 16
	family   string
	half     bool // f32 parameters and bf16 products
	// optimizer is AdamW where it is nil.
	optimizer optim.Optimizer
}

const groupBatch, groupSeq = 4, 8

func (r groupRun) trainer(t *testing.T) (*galley.Trainer, models.Model) {
	t.Helper()
	tr, m, err := r.make(t)
	if err != nil {
		t.Fatal(err)
	}
	return tr, m
}

func (r groupRun) make(t *testing.T) (*galley.Trainer, models.Model, error) {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	t.Cleanup(d.Close)
	dtype, compute := array.F64, array.Invalid
	if r.half {
		dtype, compute = array.F32, array.BF16
	}
	m, err := models.New(r.config(), nn.Config{Scope: d.NewSession(), Seed: 3, DType: dtype})
	if err != nil {
		t.Fatal(err)
	}
	arranged := m
	if r.strategy != nil {
		if arranged, _, err = galley.Arrange(m, *r.strategy, groupSeq); err != nil {
			t.Fatal(err)
		}
	}
	if r.optimizer == nil {
		r.optimizer = optim.AdamW{WeightDecay: 0.1}
	}
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Backend: r.backend,
		Strategy: r.strategy, Init: r.init, Compute: compute,
		ClipNorm: 1, Optimizer: r.optimizer, Schedule: optim.Constant{LR: 1e-2},
		Loss: func(b []*op.Tensor) *op.Tensor {
			n := b[0].Dim(1)
			return arranged.Loss(op.Narrow(b[0], 1, 0, n-1), op.Narrow(b[0], 1, 1, n))
		}})
	return tr, m, err
}

func (r groupRun) config() models.Config {
	c := models.Config{Family: cmp.Or(r.family, "llama"), Vocab: 24, Hidden: cmp.Or(r.hidden, 16),
		Intermediate: 24, Layers: cmp.Or(r.layers, 2), Heads: 4, KVHeads: 2, Tied: true, InitStd: 0.2}
	switch r.family {
	case "gpt2":
		c.KVHeads, c.Positions = 0, 16
	case "mixtral":
		c.Experts, c.ExpertsPerToken, c.Tied = 4, 2, false
	}
	return c
}

func groupIDs(step int) array.Array {
	ids := array.New(array.I32, groupBatch, groupSeq+1)
	for k := range ids.Len() {
		ids.Set(k, float64((k*7+step*13+k*k%11)%24))
	}
	return ids
}

func trainFor(t *testing.T, tr *galley.Trainer, steps int) []float64 {
	t.Helper()
	var out []float64
	for range steps {
		m, err := tr.Step(groupIDs(tr.Steps()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m.Loss, m.GradNorm)
	}
	return out
}

func sameNumbers(t *testing.T, got, want []float64, limit float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= limit) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	}
}

// TestDeviceGroup: a training step that the devices of a backend run as one program has the losses and norms
// of one device, however it is spread, and the parameters that come back are its own.
func TestDeviceGroup(t *testing.T) {
	one, host := groupRun{}.trainer(t)
	want := trainFor(t, one, 3)
	for _, s := range shortened([]galley.Strategy{
		{DP: 2}, {TP: 2}, {DP: 2, TP: 2}, {DP: 4}, {DP: 2, Zero: 1}, {DP: 2, Zero: 2}, {DP: 2, Zero: 3},
		{DP: 2, TP: 2, Zero: 3}, {TP: 2, Sequence: true}, {DP: 2, TP: 2, Sequence: true, Zero: 1},
		{CP: 2, Context: "ulysses"}, {DP: 2, CP: 2, Context: "ulysses", Zero: 2},
		{CP: 2, TP: 2, Sequence: true, Context: "ulysses"}, {CP: 2}, {DP: 2, CP: 2, Context: "ring"},
		{DP: 2, Recompute: "selective"}, {DP: 2, TP: 2, Zero: 3, Recompute: "full"},
		{DP: 2, Zero: 3, Recompute: "selective"},
	}) {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			trainsAlike(t, s, want, host)
		})
	}
}

// shortened returns every fifth of the cases in short mode, as under the race detector: the others take the
// same paths between goroutines and differ in numbers only.
func shortened[T any](cases []T) []T {
	if !testing.Short() {
		return cases
	}
	var some []T
	for i := 0; i < len(cases); i += 5 {
		some = append(some, cases[i])
	}
	return some
}

// trainsAlike trains by a strategy on devices of a backend, and compares numbers and parameters with those of
// a model on the host.
func trainsAlike(t *testing.T, s galley.Strategy, want []float64, host models.Model) {
	t.Helper()
	tr, m := groupRun{backend: backendtest.Interpreter(4), strategy: &s}.trainer(t)
	sameNumbers(t, trainFor(t, tr, 3), want, 1e-10)
	sameParams(t, tr, m, host)
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

// sameParams brings a trainer's parameters back and compares them with those of a model on the host.
func sameParams(t *testing.T, tr *galley.Trainer, m, host models.Model) {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	t.Cleanup(d.Close)
	if err := tr.Sync(d.NewSession()); err != nil {
		t.Fatal(err)
	}
	for i, p := range m.Params() {
		got, err := galley.Read(p.Value)
		if err != nil {
			t.Fatal(err)
		}
		want, err := galley.Read(host.Params()[i].Value)
		if err != nil {
			t.Fatal(err)
		}
		for k := range want.Len() {
			if !(math.Abs(got.At(k)-want.At(k)) <= 1e-8) {
				t.Fatalf("%s, element %d: got %v, want %v", p.Name, k, got.At(k), want.At(k))
			}
		}
	}
}

// TestDeviceGroupFamilies: so do models with learned positions and with experts, which tensor parallelism
// splits.
func TestDeviceGroupFamilies(t *testing.T) {
	for _, family := range shortened([]string{"mixtral", "gpt2"}) {
		one, _ := groupRun{family: family}.trainer(t)
		tr, _ := groupRun{family: family, backend: backendtest.Interpreter(4),
			strategy: &galley.Strategy{DP: 2, TP: 2, Zero: 1}}.trainer(t)
		sameNumbers(t, trainFor(t, tr, 2), trainFor(t, one, 2), 1e-10)
	}
}

// TestDeviceGroupFused: attention in bf16 that trades sequences for heads is the accelerator's own kernel,
// forward and backward.
func TestDeviceGroupFused(t *testing.T) {
	one, _ := groupRun{hidden: 32, half: true}.trainer(t)
	k := &moduleKeeper{Backend: backendtest.Interpreter(4)}
	tr, _ := groupRun{hidden: 32, half: true, backend: k,
		strategy: &galley.Strategy{DP: 2, CP: 2, Context: "ulysses", AMP: "bf16"}}.trainer(t)
	sameNumbers(t, trainFor(t, tr, 2), trainFor(t, one, 2), 5e-2)
	for _, call := range []string{`"__cudnn$fmhaSoftmax"`, `"__cudnn$fmhaSoftmaxBackward"`} {
		if n := strings.Count(k.text, call); n != 2 {
			t.Errorf("%s is called %d times: want once for each of two layers", call, n)
		}
	}
}

// TestDeviceGroupFirstValues: parameters that the devices make for themselves, each its part, are those of
// the host.
func TestDeviceGroupFirstValues(t *testing.T) {
	one, _ := groupRun{}.trainer(t)
	want := trainFor(t, one, 2)
	b := ir.NewBuilder("init")
	m, err := models.New(groupRun{}.config(), nn.Config{Scope: b, Seed: 3, DType: array.F64, Frozen: true})
	if err != nil {
		t.Fatal(err)
	}
	init, err := b.Build(nn.Values(m.Params())...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shortened([]galley.Strategy{{DP: 2, TP: 2}, {DP: 2, Zero: 3}}) {
		tr, _ := groupRun{backend: backendtest.Interpreter(4), strategy: &s, init: init}.trainer(t)
		sameNumbers(t, trainFor(t, tr, 2), want, 1e-10)
	}
}

// TestDeviceGroupCheckpoints: a run continues from a checkpoint that another strategy, or one device, has
// written.
func TestDeviceGroupCheckpoints(t *testing.T) {
	one, _ := groupRun{}.trainer(t)
	want := trainFor(t, one, 4)
	dir := t.TempDir()
	c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	first, _ := groupRun{backend: backendtest.Interpreter(4),
		strategy: &galley.Strategy{DP: 2, TP: 2, Zero: 1}}.trainer(t)
	trainFor(t, first, 2)
	if err := first.Save(context.Background(), c, 8); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*galley.Strategy{nil, {DP: 4, Zero: 3}, {TP: 2}} {
		r := groupRun{strategy: s}
		if s != nil {
			r.backend = backendtest.Interpreter(4)
		}
		tr, _ := r.trainer(t)
		if _, err := tr.Resume(dir); err != nil {
			t.Fatal(err)
		}
		sameNumbers(t, trainFor(t, tr, 2), want[4:], 1e-10)
	}
}

// TestDeviceGroupForward: a forward pass on several devices, or in micro-batches, is that of one.
func TestDeviceGroupForward(t *testing.T) {
	logits := func(r groupRun) array.Array {
		tr, m := r.trainer(t)
		f := tr.NewForward(func(b []*op.Tensor) []*op.Tensor {
			return []*op.Tensor{m.Forward(op.Narrow(b[0], 1, 0,
				groupSeq))}
		})
		out, err := f.Run(context.Background(), groupIDs(0))
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	want := logits(groupRun{})
	k := keeper(backendtest.Interpreter(1))
	for _, r := range []groupRun{
		{backend: backendtest.Interpreter(4), strategy: &galley.Strategy{DP: 2, TP: 2}},
		{backend: backendtest.Interpreter(2), strategy: &galley.Strategy{DP: 2, Zero: 3}},
		{backend: backendtest.Interpreter(2), strategy: &galley.Strategy{DP: 2, Micro: 2}},
		{backend: k, strategy: &galley.Strategy{Micro: 3}},
	} {
		got := logits(r)
		for i := range want.Len() {
			if !(math.Abs(got.At(i)-want.At(i)) <= 1e-10) {
				t.Fatalf("%v: element %d: got %v, want %v", r.strategy, i, got.At(i), want.At(i))
			}
		}
	}
	p := k.programs["forward"]
	if rows := p.Params()[len(p.Params())-1].Dim(0); rows == groupBatch {
		t.Errorf("with micro-batches a pass takes all %d rows at once", rows)
	}
}

// TestDeviceGroupMistakes: what the devices of a backend cannot do is said before anything runs, with what
// can be done.
func TestDeviceGroupMistakes(t *testing.T) {
	for _, c := range []struct {
		s    galley.Strategy
		want string
	}{
		{galley.Strategy{DP: 8}, `strategy "dp8" takes 8 devices: interpreter 0 has 4: want a smaller degree`},
		{galley.Strategy{PP: 2}, "want pp=1"}, {galley.Strategy{DP: 2, EP: 2}, "want ep=1"},
		{galley.Strategy{DP: 2, Overlap: strategy.On}, "leave overlap out"},
		{galley.Strategy{DP: 2, Offload: strategy.Offload{Optimizer: 1}},
			"want offload none"},
		{galley.Strategy{TP: 2, Zero: 1}, "zero=1 shards state over"},
		{galley.Strategy{DP: 2, AMP: "f16"}, "amp is f16"},
		{galley.Strategy{DP: 3}, "want a batch and sizes that dp3 divides"},
		{galley.Strategy{CP: 3}, "want context ulysses"},
		{galley.Strategy{Micro: 8},
			"a batch of 4 rows cannot be cut into 8 micro-batches: want micro=4 or a batch of 8"},
		{galley.Strategy{DP: 2, Micro: 8}, "want micro=4 or a batch of 8"}, {galley.Strategy{DP: 2, Micro: 4},
			"want a batch and sizes that dp2 ×4 divides"},
	} {
		t.Run(fmt.Sprint(c.s), func(t *testing.T) {
			tr, _, err := groupRun{backend: backendtest.Interpreter(4), strategy: &c.s}.make(t)
			if err == nil {
				_, err = tr.Step(groupIDs(0))
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, c.want)
			}
		})
	}
}

// moduleKeeper keeps the texts of the programs that devices run together.
type moduleKeeper struct {
	galley.Backend
	text string // of the last
	all  map[string]string
}

func (r *moduleKeeper) Devices() []backend.Backend { return r.Backend.(backend.Group).Devices() }

func (r *moduleKeeper) CompileSPMD(fs []*ir.Func, o backend.Options) (backend.Executable, error) {
	var err error
	r.text, err = lower.SPMD(fs, lower.ModuleConfig{Config: hlo.Config{Replicas: len(fs), Target: hlo.CUDA},
		Donate: lower.Donations(fs[0], o.Donate)})
	if err != nil {
		return nil, err
	}
	if r.all != nil {
		r.all[fs[0].Name()] = r.text
	}
	return r.Backend.(backend.Group).CompileSPMD(fs, o)
}

// TestDeviceGroupGolden: the module that devices share for a whole training step is the one in testdata.
func TestDeviceGroupGolden(t *testing.T) {
	golden.Run(t, "testdata/devicegroup/*.txt", func(t *testing.T, b golden.Block) string {
		s, err := strategy.Parse(b.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(b.Args[1], "zero=%d", &s.Zero); err != nil {
			t.Fatal(err)
		}
		r := &moduleKeeper{Backend: backendtest.Interpreter(4)}
		tr, _ := groupRun{backend: r, strategy: &s, layers: 1}.trainer(t)
		trainFor(t, tr, 1)
		parseModule(t, r.text, nil)
		return r.text
	})
}
