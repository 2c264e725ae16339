package galley_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/eager"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// here is how lines of this file and of the chains begin in errors.
const here, chainLines = "annotated_refused_test.go:", "annotated_program_test.go:"

// refused is an error unless err names all words.
func refused(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%s: got %v, want an error with %q", what, err, w)
		}
	}
}

// TestStrategyAndMeshes: what a strategy says and the meshes of a model say, too, is an error that names the
// line of both, or is done; nothing of it is left out without a word.
func TestStrategyAndMeshes(t *testing.T) {
	const a, b = "dp=2,tp=2", "dp=2,tp=2@[4,5,6,7]"
	for _, s := range []galley.Strategy{{Layers: []int{1, 1}}, {PP: 2, DP: 2, TP: 2, Layers: []int{1, 1}},
		{Sequence: true}, {Context: "ulysses"}, {VPP: 2}, {Schedule: "zbv", Micro: 2}} {
		c := newChain(t, world(t, 8), 2, a, b)
		_, err := galley.ToStatic(c, chainLoader{}, c.loss, optim.AdamW{}, &s)
		refused(t, s.String(), err, `parameter "w0", laid at `+chainLines, chainLines, "strategy ")
		if err != nil && strings.Count(err.Error(), chainLines)+strings.Count(err.Error(), here) < 2 {
			t.Errorf("%v: got %v, want both lines", s, err)
		}
	}
	for _, s := range []galley.Strategy{{Shard: 2}, {DP: 2, Shard: 2}, {Layers: []int{4}}, {Zero: 1, Shard: 2}} {
		c := newChain(t, device(t).NewSession(), 2)
		_, err := galley.ToStatic(c, chainLoader{}, c.loss, optim.AdamW{}, &s)
		refused(t, s.String(), err, "strategy")
	}
	c := newChain(t, world(t, 8), 1, "dp=4,tp=2")
	_, err := galley.ToStatic(c, chainLoader{}, c.loss, optim.AdamW{}, &galley.Strategy{Zero: 1, Shard: 3})
	refused(t, "groups of three", err, "mesh dp=4,tp=2", "shard=3", "the 4 of")
}

// TestZeroGroupsOnMeshes: ZeRO in groups splits within a part of an axis of a model's own mesh: each device
// has a half of the slots, not a quarter, and the numbers are those of one device.
func TestZeroGroupsOnMeshes(t *testing.T) {
	want, _ := trainChain(t, newChain(t, device(t).NewSession(), 2), optim.AdamW{}, nil)
	slots := map[int]int{}
	for _, shard := range []int{0, 2} {
		got, d := trainChain(t, newChain(t, world(t, 4), 2, "dp=4,tp=1", "dp=4,tp=1"), optim.AdamW{},
			&galley.Strategy{Zero: 2, Shard: shard, Micro: 2})
		if err := within(got, want, 1e-10); err != nil {
			t.Error(err)
		}
		b := chainBatch(0)
		c, err := d.Trainer().Cost(typesOf(b)...)
		if err != nil {
			t.Fatal(err)
		}
		slots[shard] = c.Devices[0].Slots
	}
	if slots[2] != 2*slots[0] {
		t.Errorf("slots of a device: %d bytes in groups of two, %d over all four", slots[2], slots[0])
	}
}

// TestPartialParameters: a parameter whose sums are pending is refused, with the line that laid it so.
func TestPartialParameters(t *testing.T) {
	c := newChain(t, world(t, 2), 1)
	v := dtensor.Shard(c.weights[0].Value, parseMesh(t, "x=2"), mesh.Partial(mesh.Sum))
	c.weights[0].Value = v.Detach().Track()
	words := []string{`"w0", laid at ` + here, "@[_,_]+{x}", "sharded or replicated"}
	_, err := galley.ToStatic(c, chainLoader{}, squares, optim.AdamW{}, nil)
	refused(t, "static", err, words...)
	_, err = eager.NewOptimizer(c.weights, optim.AdamW{}, eager.Config{})
	refused(t, "eager", err, words...)
}

// TestMeshesWithoutDevices: what is laid on several devices where there is one is an error with its line: in
// a session, on a backend, in shares of a batch, in mode eager.
func TestMeshesWithoutDevices(t *testing.T) {
	d := device(t)
	_, err := galley.Read(dtensor.Shard(d.NewSession().Tensor(wave(2, 2)), parseMesh(t, "x=2"), mesh.Shard(0)))
	refused(t, "session", err, here, "dtensor.NewWorld")
	if _, err := galley.Read(dtensor.Shard(d.NewSession().Tensor(wave(2, 2)), parseMesh(t, "x=1"))); err != nil {
		t.Errorf("a mesh of the one device: %v", err)
	}
	hlo := backendtest.Interpreter(1)
	for name, c := range map[string]galley.TrainerConfig{
		"backend": {Backend: hlo}, "micro-batches": {Backend: hlo, Strategy: &galley.Strategy{Micro: 2}},
		"shares": {Shares: []galley.Share{{Backend: hlo, Weight: 1}, {Weight: 1}}}, "eager": {Mode: galley.Eager},
	} {
		m := newChain(t, d.NewSession(), 1)
		c.Device, c.Params = d, m.weights
		c.Loss = func(b []*galley.Tensor) *galley.Tensor {
			return squares(m.Forward(dtensor.Shard(b[0], parseMesh(t, "x=2"), mesh.Shard(0))), b[1:])
		}
		tr, err := galley.NewTrainer(c)
		if err == nil {
			_, err = tr.Step(chainBatch(0)...)
			tr.Close()
		}
		refused(t, name, err, here, "mesh x=2", "one device")
	}
	m := newChain(t, world(t, 2), 1, "x=2")
	_, err = galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.weights, Loss: chainStep(m),
		Shares: []galley.Share{{Backend: hlo, Weight: 1}, {Weight: 1}}})
	refused(t, "shares of parameters on a mesh", err, "Shares", "on meshes")
	_, err = galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.weights, Loss: chainStep(m),
		Recompute: "full"})
	refused(t, "recompute without a backend", err, `Strategy{Recompute: "full"}`)
}

// chainStep is the loss of a chain as a trainer takes it.
func chainStep(c *chain) func(b []*op.Tensor) *op.Tensor {
	return func(b []*op.Tensor) *op.Tensor { return c.loss(c.Forward(b[0]), b[1:]) }
}

// TestBackendsOfMeshes: meshes are ranks, and a rank may be of another backend.
func TestBackendsOfMeshes(t *testing.T) {
	hlo := backendtest.Interpreter(1)
	want, _ := trainChain(t, newChain(t, device(t).NewSession(), 2), optim.AdamW{}, nil)
	for _, s := range []*galley.Strategy{nil, {Micro: 2}} {
		m := newChain(t, world(t, 4), 2, "dp=2", "dp=2@[2,3]")
		tr, err := galley.NewTrainer(galley.TrainerConfig{Device: device(t), Params: m.weights, Loss: chainStep(m),
			Strategy: s, RankBackends: []galley.Backend{nil, hlo}})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		var got []float64
		for i := range chainSteps {
			r, err := tr.Step(chainBatch(i)...)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r.Loss)
		}
		if err := within(got, want[:chainSteps], 1e-10); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
	m := newChain(t, world(t, 4), 2, "dp=2", "dp=2@[2,3]")
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: device(t), Params: m.weights, Loss: chainStep(m),
		RankBackends: []galley.Backend{nil, hlo, hlo}})
	if err == nil {
		defer tr.Close()
		_, err = tr.Step(chainBatch(0)...)
	}
	refused(t, "backends of three ranks", err, "RankBackends of 3 ranks", "pp=2")
}

// TestIdleAxes: a tensor or a context axis that splits nothing of a model of one's own is refused, and so is
// a strategy op by op.
func TestIdleAxes(t *testing.T) {
	c := newChain(t, device(t).NewSession(), 2)
	_, err := galley.ToStatic(c, chainLoader{}, c.loss, optim.AdamW{}, &galley.Strategy{TP: 2})
	refused(t, "tp on a model without a plan", err, "tp=2", "no parameter is split over it", `"w0=@[tp,_]"`)
	_, err = galley.ToStatic(c, chainLoader{}, c.loss, optim.AdamW{}, &galley.Strategy{CP: 2})
	refused(t, "cp on a model without sequences", err, "cp=2", "nothing is split over it", "dp=2")
	_, err = galley.NewEngine(galley.EngineConfig{Model: c, Loss: c.loss, Mode: galley.Eager,
		Strategy: &galley.Strategy{DP: 2}})
	refused(t, "a strategy op by op", err, "mode is eager", `strategy "dp2"`)
}

// TestAutoOnMeshes: a search takes the meshes of a model as they are and finds the rest; what was said of a
// pipeline makes one.
func TestAutoOnMeshes(t *testing.T) {
	const a, b = "dp=2,tp=2", "dp=2,tp=2@[4,5,6,7]"
	want, _ := trainChain(t, newChain(t, device(t).NewSession(), 2), optim.AdamW{}, nil)
	for _, s := range []galley.Strategy{{Auto: 8}, {Auto: 8, Zero: 2, Schedule: "1f1b", Micro: 4}} {
		got, d := trainChain(t, newChain(t, world(t, 8), 2, a, b), optim.AdamW{}, &s)
		if err := within(got, want, 1e-10); err != nil {
			t.Errorf("%v: %v", s, err)
		}
		p := d.Plan()
		if p == nil || p.Strategy.Zero < s.Zero || s.Micro > 0 && p.Strategy.Micro != s.Micro || len(p.Idle()) > 0 {
			t.Errorf("%v: plan %v, %v", s, p, p.Idle())
		}
	}
	c := newChain(t, world(t, 8), 2, a, b)
	_, err := galley.ToStatic(c, chainLoader{}, c.loss, optim.AdamW{}, &galley.Strategy{Auto: 4})
	refused(t, "too few devices", err, "up to 7", "want 8")
	plain := newChain(t, device(t).NewSession(), 4)
	_, d := trainChain(t, plain, optim.AdamW{}, &galley.Strategy{Auto: 2, Schedule: "zbh1"})
	if s := d.Plan().Strategy; s.PP != 2 || s.Schedule != "zbh1" {
		t.Errorf("a schedule was said: got %v", s)
	}
	_, err = galley.ToStatic(newChain(t, device(t).NewSession(), 2), chainLoader{}, squares, optim.AdamW{},
		&galley.Strategy{Auto: 4, DP: 8})
	refused(t, "more than there are", err, "4 devices", "dp=8")
}

// TestZeroOnMixedMeshes: ZeRO over an axis that some of the meshes have: what lies on others, or on none,
// stays as it is there; an axis that none has is refused.
func TestZeroOnMixedMeshes(t *testing.T) {
	want, _ := trainChain(t, newChain(t, device(t).NewSession(), 3), optim.AdamW{}, nil)
	for _, stage := range []optim.ShardingStage{optim.ShardingStage1{Axis: "y"},
		optim.ShardingStage3{Axis: "y"}} {
		o, err := galley.ShardOptimizer(optim.AdamW{}, stage)
		if err != nil {
			t.Fatal(err)
		}
		plain := newChain(t, world(t, 4), 3, "x=3@[0,1,2]", "x=4", "y=2@[2,3]")
		whole := newChain(t, world(t, 4), 3).weights[1] // which is on no mesh
		plain.weights[1] = whole
		got, _ := trainChain(t, plain, o, nil)
		if err := within(got, want, 1e-10); err != nil {
			t.Errorf("%T: %v", stage, err)
		}
	}
	o, err := galley.ShardOptimizer(optim.AdamW{}, optim.ShardingStage1{Axis: "z"})
	if err != nil {
		t.Fatal(err)
	}
	c := newChain(t, world(t, 2), 1, "x=2")
	_, err = galley.ToStatic(c, chainLoader{}, c.loss, o, nil)
	refused(t, "an axis that there is not", err, `zero=1 over axis "z"`, "x=2")
}
