package galley_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/eager"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// loop is a model that is trained by a loop as people write it, and by a trainer.
type loop struct {
	dtype    array.DType
	by       optim.Optimizer
	schedule optim.Schedule
	clip     float64
	compute  array.DType
}

const loopSteps = 4

func (l loop) model(t *testing.T, scope op.Scope) models.Model {
	t.Helper()
	c := tiny
	c.Tied = true
	m, err := models.New(c, nn.Config{Scope: scope, Seed: 3, DType: l.dtype})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ids returns the windows of a step.
func (l loop) ids(step int) array.Array {
	a := array.New(array.I32, 6, 9)
	for i := range a.Len() {
		a.Set(i, float64((i*7+step*13+i*i%11)%tiny.Vocab))
	}
	return a
}

func lossOf(m models.Model, ids *galley.Tensor) *galley.Tensor {
	n := ids.Dim(1)
	return m.Loss(op.Narrow(ids, 1, 0, n-1), op.Narrow(ids, 1, 1, n))
}

// trained returns losses of steps, then what the parameters are after them.
func trained(t *testing.T, losses []float64, params []*nn.Param) [][]array.Array {
	t.Helper()
	out := []array.Array{array.FromSlice(losses, len(losses))}
	for _, p := range params {
		a, err := galley.Read(p.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return [][]array.Array{out}
}

// static returns the loop as a compiled step.
func (l loop) static(t *testing.T, s *galley.Strategy) [][]array.Array {
	t.Helper()
	d := device(t)
	m := l.model(t, d.NewSession())
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Optimizer: l.by,
		Strategy: s, Schedule: l.schedule, ClipNorm: l.clip, Compute: l.compute,
		Loss: func(b []*op.Tensor) *op.Tensor { return lossOf(m, b[0]) }})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var losses []float64
	for i := range loopSteps {
		r, err := tr.Step(l.ids(i))
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, r.Loss)
	}
	if err := tr.Sync(nil); err != nil {
		t.Fatal(err)
	}
	return trained(t, losses, m.Params())
}

// run returns the loop, op by op, with parameters as lay places them and batches as they come.
func (l loop) run(t *testing.T, m models.Model, o optim.Optimizer,
	batch func(a array.Array) *galley.Tensor) [][]array.Array {
	t.Helper()
	opt, err := eager.NewOptimizer(m.Params(), o, eager.Config{Schedule: l.schedule, ClipNorm: l.clip})
	if err != nil {
		t.Fatal(err)
	}
	var losses []float64
	for i := range loopSteps {
		x := batch(l.ids(i))
		loss := lossOf(m, x)
		if l.compute != array.Invalid {
			loss = x.Scope().(*galley.Session).Autocast(l.compute, func() *galley.Tensor { return lossOf(m, x) })
		}
		if err := loss.Backward(); err != nil {
			t.Fatal(err)
		}
		if err := opt.Step(); err != nil {
			t.Fatal(err)
		}
		opt.ClearGrad()
		losses = append(losses, readAll(t, []*galley.Tensor{loss})[0].At(0))
	}
	return trained(t, losses, m.Params())
}

// TestEagerLoopBits: on one device a loop of Backward, Step and ClearGrad has the bits of compiled steps,
// with every optimizer, schedules, groups, clipping and 16-bit products.
func TestEagerLoopBits(t *testing.T) {
	t.Parallel()
	groups := optim.Groups{Default: optim.AdamW{WeightDecay: 0.1}, Groups: []optim.Group{
		{Params: []string{"*norm*"}, Optimizer: optim.SGD{Momentum: 0.9}}, {Params: []string{"*embed*"}, LR: 0.1}}}
	for name, l := range map[string]loop{
		"adamw": {by: optim.AdamW{WeightDecay: 0.1}, clip: 1}, "adam": {by: optim.Adam{}},
		"sgd":       {by: optim.SGD{Momentum: 0.9}, schedule: optim.Cosine{LR: 0.1, Warmup: 2, Steps: 9}},
		"lion":      {by: optim.Lion{WeightDecay: 0.1}, schedule: optim.WSD{LR: 1e-3, Decay: 2, Steps: 4}},
		"adafactor": {by: optim.Adafactor{}, clip: 0.5}, "muon": {by: optim.Muon{}, clip: 1},
		"averaged": {by: optim.Averaged{Optimizer: optim.AdamW{}}}, "groups": {by: groups, clip: 1},
		"f64":  {by: optim.AdamW{}, dtype: array.F64, clip: 1},
		"bf16": {by: optim.AdamW{}, compute: array.BF16, clip: 1}, "f16": {by: optim.AdamW{}, compute: array.F16},
	} {
		t.Run(name, func(t *testing.T) {
			s := device(t).NewSession()
			m := l.model(t, s)
			same(t, l.run(t, m, l.by, s.Tensor), l.static(t, nil), 0)
		})
	}
}

// TestEagerLoopOnMeshes: the same loop on parameters that are on a mesh has the numbers of one device under
// every stage of ZeRO, and what ZeRO splits is split.
func TestEagerLoopOnMeshes(t *testing.T) {
	t.Parallel()
	groups := optim.Groups{Default: optim.AdamW{WeightDecay: 0.1}, Groups: []optim.Group{
		{Params: []string{"*norm*"}, Optimizer: optim.SGD{Momentum: 0.9}}, {Params: []string{"*embed*"}, LR: 0.1}}}
	for _, by := range []optim.Optimizer{optim.AdamW{WeightDecay: 0.1}, groups, optim.Adafactor{}, optim.Muon{},
		optim.Lion{}, optim.Averaged{Optimizer: optim.SGD{Momentum: 0.9}}} {
		l := loop{by: by, dtype: array.F64, clip: 1, schedule: optim.Linear{LR: 1e-2, Warmup: 2, Steps: 9}}
		want := l.static(t, nil)
		for _, c := range []struct {
			mesh  string
			stage int
		}{{"dp=2", 0}, {"dp=2", 1}, {"dp=3", 2}, {"dp=2,tp=2", 3}, {"dp=2,tp=2", 1}, {"tp=2", 0}} {
			if _, adamw := by.(optim.AdamW); !adamw && (c.mesh != "dp=2,tp=2" || testing.Short()) {
				continue
			}
			t.Run(fmt.Sprintf("%T %s %d", by, c.mesh, c.stage),
				func(t *testing.T) { l.onMesh(t, c.mesh, c.stage, want) })
		}
	}
}

func (l loop) onMesh(t *testing.T, text string, stage int, want [][]array.Array) {
	m := parseMesh(t, text)
	w := world(t, m.Size())
	model := l.model(t, w)
	rule := func(name string, x op.Type) []mesh.Placement {
		if _, ok := m.Axis("tp"); !ok || len(x.Shape) < 2 {
			return nil
		}
		return append(make([]mesh.Placement, m.NumAxes()-1), mesh.Shard(0))
	}
	if err := dtensor.ShardLayer(model.Params(), m, rule); err != nil {
		t.Fatal(err)
	}
	o := l.by
	if stage > 0 {
		stages := []optim.ShardingStage{optim.ShardingStage1{}, optim.ShardingStage2{Axis: "dp"},
			optim.ShardingStage3{}}
		sharded, err := galley.ShardOptimizer(o, stages[stage-1])
		if err != nil {
			t.Fatal(err)
		}
		o = sharded
	}
	got := l.run(t, model, o, func(a array.Array) *galley.Tensor {
		if _, ok := m.Axis("dp"); ok {
			return dtensor.Shard(w.Tensor(a), m, mesh.Shard(0))
		}
		return dtensor.Shard(w.Tensor(a), m)
	})
	same(t, got, want, 1e-10)
}

// TestEagerZeroLayouts: stage 1 splits slots, 2 gradients too, 3 parameters too.
func TestEagerZeroLayouts(t *testing.T) {
	for stage := range 4 {
		m, w := parseMesh(t, "x=2,y=2"), world(t, 4)
		in := nn.NewInit(nn.Config{Scope: w, Seed: 1, DType: array.F64})
		p := in.Param("w", array.Shape{4, 6}, nn.Normal(1))
		err := dtensor.ShardLayer(in.Params(), m, func(string, op.Type) []mesh.Placement {
			return []mesh.Placement{mesh.Replicate(), mesh.Shard(0)}
		})
		if err != nil {
			t.Fatal(err)
		}
		opt, err := eager.NewOptimizer(in.Params(), optim.AdamW{},
			eager.Config{Sharding: []optim.ShardingStage{nil, optim.ShardingStage1{Axis: "x"},
				optim.ShardingStage2{Axis: "x"}, optim.ShardingStage3{Axis: "x"}}[stage]})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := op.Sum(op.Square(p.Value)).Backward(); err != nil {
				t.Fatal(err)
			}
		}
		if err := opt.Step(); err != nil {
			t.Fatal(err)
		}
		for k, x := range []*galley.Tensor{opt.Slots("w")[0], p.Grad(), p.Value} {
			want := "@[y,_]"
			if stage > k {
				want = "@[y,x]"
			}
			if _, spec, _ := dtensor.Placements(x); spec.String() != want {
				t.Errorf("stage %d: tensor %d of slots, gradient, parameter is %v, want %s", stage, k, spec, want)
			}
		}
	}
}

// TestEagerZeroMixedMeshes: a parameter on a mesh without the axis that ZeRO splits over, or on none, stays
// as it is, as in a static run; where none is on any mesh, that is said.
func TestEagerZeroMixedMeshes(t *testing.T) {
	w := world(t, 4)
	in := nn.NewInit(nn.Config{Scope: w, Seed: 1, DType: array.F64})
	a, b := in.Param("a", array.Shape{4, 6}, nn.Normal(1)), in.Param("b", array.Shape{4, 6}, nn.Normal(1))
	plain := in.Param("plain", array.Shape{4}, nn.Normal(1))
	zero := eager.Config{Sharding: optim.ShardingStage3{Axis: "y"}}
	if _, err := eager.NewOptimizer(in.Params(), optim.AdamW{}, zero); err == nil ||
		!strings.Contains(err.Error(), "no parameter is on a mesh") {
		t.Errorf("on no mesh: got %v", err)
	}
	for p, text := range map[*nn.Param]string{a: "x=4", b: "y=2@[2,3]"} {
		if err := dtensor.ShardLayer([]*nn.Param{p}, parseMesh(t, text), nil); err != nil {
			t.Fatal(err)
		}
	}
	opt, err := eager.NewOptimizer(in.Params(), optim.AdamW{}, zero)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*nn.Param{a, b, plain} {
		if err := op.Sum(op.Square(p.Value)).Backward(); err != nil {
			t.Fatal(err)
		}
	}
	if err := opt.Step(); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[*nn.Param]string{a: "@[_,_]", b: "@[_,y]"} {
		if _, spec, _ := dtensor.Placements(p.Value); spec.String() != want {
			t.Errorf("%s rests as %v, want %s", p.Name, spec, want)
		}
	}
}

// TestEagerAccumulates: gradients of several passes add up to those of the whole batch, on a device and on a
// mesh.
func TestEagerAccumulates(t *testing.T) {
	for _, text := range []string{"", "dp=2"} {
		var scope interface {
			op.Scope
			Tensor(array.Array) *op.Tensor
		} = device(t).NewSession()
		if text != "" {
			scope = world(t, 2)
		}
		in := nn.NewInit(nn.Config{Scope: scope, Seed: 1, DType: array.F64})
		up := nn.NewLinear(in, 5, 3)
		if text != "" {
			if err := dtensor.ShardLayer(in.Params(), parseMesh(t, text),
				func(string, op.Type) []mesh.Placement { return []mesh.Placement{mesh.Shard(0)} }); err != nil {
				t.Fatal(err)
			}
		}
		grads := func(parts ...array.Array) []array.Array {
			for _, a := range parts {
				y := op.MulScalar(op.Mean(op.Square(up.Forward(scope.Tensor(a)))), float64(a.Shape()[0])/8)
				if err := y.Backward(); err != nil {
					t.Fatal(err)
				}
			}
			out := readAll(t, []*galley.Tensor{up.Weight.Grad(), up.Bias.Grad()})
			for _, p := range in.Params() {
				p.ClearGrad()
			}
			return out
		}
		x := wave(8, 5)
		got, want := grads(x.Rows(0, 3), x.Rows(3, 8)), grads(x)
		same(t, [][]array.Array{got}, [][]array.Array{want}, 1e-12)
	}
}

// TestEagerScaler: f16 gradients that overflow skip a step and halve the scale; the rest is that of a step
// without a scale, and small gradients do not vanish.
func TestEagerScaler(t *testing.T) {
	s := device(t).NewSession()
	in := nn.NewInit(nn.Config{Scope: s, Seed: 1})
	up := nn.NewLinear(in, 4, 3)
	opt, err := eager.NewOptimizer(in.Params(), optim.AdamW{}, eager.Config{ClipNorm: 1})
	if err != nil {
		t.Fatal(err)
	}
	scaler := eager.NewScaler()
	before := readAll(t, []*galley.Tensor{up.Weight.Value})[0]
	step := func(size float64) bool {
		x := array.New(array.F32, 5, 4)
		for i := range x.Len() {
			x.Set(i, math.Sin(float64(i))*size)
		}
		loss := s.Autocast(array.F16, func() *galley.Tensor { return op.Mean(op.Square(up.Forward(s.Tensor(x)))) })
		if err := scaler.Scale(loss).Backward(); err != nil {
			t.Fatal(err)
		}
		skipped, err := scaler.Step(opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.ClearGrad()
		return skipped
	}
	if !step(20) || scaler.Value() != 1<<15 || opt.Steps() != 1 {
		t.Errorf("an overflow: scale %v after %d steps", scaler.Value(), opt.Steps())
	}
	same(t, [][]array.Array{readAll(t, []*galley.Tensor{up.Weight.Value})}, [][]array.Array{{before}}, 0)
	if step(1e-4) || scaler.Value() != 1<<15 {
		t.Errorf("no overflow: scale %v", scaler.Value())
	}
	after := readAll(t, []*galley.Tensor{up.Weight.Value})[0]
	if after.At(0) == before.At(0) {
		t.Error("a small gradient has vanished")
	}
	if _, err := scaler.Step(opt); err == nil || !strings.Contains(err.Error(), "scaler.Scale(loss)") {
		t.Errorf("got %v", err)
	}
}

// TestEagerHooks: any tensor can be looked at, forward and backward, within layers too.
func TestEagerHooks(t *testing.T) {
	for name, scope := range map[string]interface {
		op.Scope
		Tensor(array.Array) *op.Tensor
		Watch(func(galley.ExecutedOp)) func()
	}{"device": device(t).NewSession(), "world": world(t, 2)} {
		t.Run(name, func(t *testing.T) {
			in := nn.NewInit(nn.Config{Scope: scope, Seed: 1, DType: array.F64})
			net := nn.Sequential{nn.NewLinear(in.At("a"), 4, 3), nn.Func(op.Tanh), nn.NewLinear(in.At("b"), 3, 2)}
			var forward, backward []array.Array
			var lines []string
			stop := scope.Watch(func(x galley.ExecutedOp) {
				if x.Op != "tanh" {
					return
				}
				lines = append(lines, x.Pos)
				forward = append(forward, readAll(t, x.Out)[0])
				if err := x.Out[0].OnGrad(func(dy *galley.Tensor) *galley.Tensor {
					backward = append(backward, readAll(t, []*galley.Tensor{dy})[0])
					return op.MulScalar(dy, 2)
				}); err != nil {
					t.Error(err)
				}
			})
			h := net[0].Forward(scope.Tensor(wave(5, 4)))
			if err := h.RetainGrad(); err != nil {
				t.Fatal(err)
			}
			y := net[1:].Forward(h)
			stop()
			if err := op.Sum(y).Backward(); err != nil {
				t.Fatal(err)
			}
			b := net[2].(*nn.Linear).Weight.Value
			z := op.Tanh(h)
			dy := op.MatMul(op.OnesLike(y), b)
			want := []*galley.Tensor{z, dy, op.Mul(op.MulScalar(dy, 2), op.Sub(op.OnesLike(z), op.Square(z)))}
			got := []array.Array{forward[0], backward[0], readAll(t, []*galley.Tensor{h.Grad()})[0]}
			same(t, [][]array.Array{got}, [][]array.Array{readAll(t, want)}, 1e-12)
			if len(forward) != 1 || len(backward) != 1 || !strings.HasPrefix(lines[0], "eager_test.go:") {
				t.Errorf("%d forward, %d backward, at %q", len(forward), len(backward), lines)
			}
		})
	}
}

// TestEagerMistakes: each first mistake is an error with its line and what to do.
func TestEagerMistakes(t *testing.T) {
	type env struct {
		w   *dtensor.World
		in  *nn.Init
		up  *nn.Linear
		opt *eager.Optimizer
		x   *galley.Tensor
	}
	shard := func(e env, text string) error {
		return dtensor.ShardLayer(e.in.Params(), parseMesh(t, text),
			func(string, op.Type) []mesh.Placement { return []mesh.Placement{mesh.Shard(0)} })
	}
	for want, f := range map[string]func(e env) error{
		"want a scalar: reduce it with op.Mean": func(e env) error { return e.up.Forward(e.x).Backward() },
		"given back by Backward at eager_test.go:": func(e env) error {
			loss := op.Sum(e.up.Forward(e.x))
			if err := loss.Backward(); err != nil {
				return err
			}
			return loss.Backward()
		},
		"computed from no tracked tensor":                    func(e env) error { return op.Sum(e.x).Backward() },
		"none of 2 parameters has a gradient: call Backward": func(e env) error { return e.opt.Step() },
		"no gradient has reached 1 of 2 parameters: bias: compute the loss from them, freeze": func(e env) error {
			if err := op.Sum(e.up.Weight.Value).Backward(); err != nil {
				return err
			}
			return e.opt.Step()
		},
		`"weight" is @[tp,_] on tp=2 and was @[dp,_] on dp=2 when the optimizer was made`: func(e env) error {
			if err := shard(e, "tp=2"); err != nil {
				return err
			}
			if err := op.Sum(e.up.Forward(e.x)).Backward(); err != nil {
				return err
			}
			return e.opt.Step()
		},
		`stage 1 over axis "tp": no mesh of a parameter has such an axis: want one of [dp=2]`: func(e env) error {
			_, err := eager.NewOptimizer(e.in.Params(), optim.AdamW{}, eager.Config{
				Sharding: optim.ShardingStage1{Axis: "tp"}})
			return err
		},
		"call Backward that often before Step": func(e env) error {
			_, err := eager.NewOptimizer(e.in.Params(), &galley.Optimizer{Accumulate: 3}, eager.Config{})
			return err
		},
		"matmul: ": func(e env) error { return op.Sum(op.MatMul(e.x, e.x)).Backward() },
		"want bf16 or f16": func(e env) error {
			return e.w.Autocast(array.F32, func() *galley.Tensor { return op.Sum(e.up.Forward(e.x)) }).Backward()
		},
		"is not tracked, so no gradient reaches it": func(e env) error { return e.x.RetainGrad() },
	} {
		t.Run(want, func(t *testing.T) {
			w := world(t, 2)
			in := nn.NewInit(nn.Config{Scope: w, Seed: 1, DType: array.F64})
			e := env{w: w, in: in, up: nn.NewLinear(in, 4, 4), x: w.Tensor(wave(5, 4))}
			if err := shard(e, "dp=2"); err != nil {
				t.Fatal(err)
			}
			var err error
			if e.opt, err = eager.NewOptimizer(in.Params(), optim.AdamW{}, eager.Config{}); err != nil {
				t.Fatal(err)
			}
			if err = f(e); err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v", err)
			}
			if !strings.HasPrefix(err.Error(), "eager_test.go:") && !strings.HasPrefix(err.Error(), "optimizer: ") {
				t.Errorf("no line in %v", err)
			}
		})
	}
}

// TestEagerMemory: a long loop does not take more and more memory, on a device and on a mesh, also where its
// losses are kept and numbers change from step to step.
func TestEagerMemory(t *testing.T) {
	for _, text := range []string{"", "dp=2"} {
		w := world(t, 2)
		in := nn.NewInit(nn.Config{Scope: w, Seed: 1})
		up, down := nn.NewLinear(in.At("up"), 64, 256), nn.NewLinear(in.At("down"), 256, 64)
		c := eager.Config{ClipNorm: 1, Schedule: optim.Cosine{LR: 1e-3, Steps: 400}}
		lay := w.Tensor
		if text != "" {
			m := parseMesh(t, text)
			whole := func(string, op.Type) []mesh.Placement { return nil }
			if err := dtensor.ShardLayer(in.Params(), m, whole); err != nil {
				t.Fatal(err)
			}
			lay = func(a array.Array) *galley.Tensor { return dtensor.Shard(w.Tensor(a), m, mesh.Shard(0)) }
			c.Sharding = optim.ShardingStage2{}
		}
		opt, err := eager.NewOptimizer(in.Params(), optim.AdamW{}, c)
		if err != nil {
			t.Fatal(err)
		}
		var losses []*galley.Tensor
		steps := func(n int) uint64 {
			for i := range n {
				x := array.New(array.F32, 32, 64)
				x.Set(i, 1)
				loss := op.Mean(op.Square(down.Forward(op.Tanh(up.Forward(lay(x))))))
				if err := loss.Backward(); err != nil {
					t.Fatal(err)
				}
				if err := opt.Step(); err != nil {
					t.Fatal(err)
				}
				opt.ClearGrad()
				losses = append(losses, loss)
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		first, last := steps(20), steps(200)
		if grown := int64(last) - int64(first); grown > 1<<20 { // the activations of a step are 70 KB
			t.Errorf("%q: %d bytes more after 200 steps than after 20", text, grown)
		}
		runtime.KeepAlive(losses)
	}
}
