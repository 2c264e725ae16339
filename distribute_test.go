package galley_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// stepOf returns the training step of a new model, and its first arguments.
func stepOf(t *testing.T, c models.Config, dtype array.DType, batch, seq int) (*galley.Program,
	[]array.Array) {
	t.Helper()
	s := device(t).NewSession()
	m, err := models.New(c, nn.Config{Scope: s, DType: dtype, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	p := trace(t, m, batch, seq)
	var args []array.Array
	for _, q := range m.Params() {
		a, err := galley.Read(q.Value)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, a)
	}
	for _, v := range p.Params()[len(args):] {
		a := array.New(v.DType(), v.Shape()...)
		switch {
		case v.Name() == "lr":
			write(a, 0, 0.01)
		case v.DType() == array.I32:
			for i := range a.Len() {
				array.Data[int32](a)[i] = int32((i*7 + i*i) % c.Vocab)
			}
		}
		args = append(args, a)
	}
	return p, args
}

func trace(t testing.TB, m models.Model, batch, seq int) *galley.Program {
	t.Helper()
	p, err := galley.TraceStep(galley.TrainerConfig{
		Params: m.Params(), ClipNorm: 1, Loss: func(b []*op.Tensor) *op.Tensor { return m.Loss(b[0], b[1]) },
	}, slices.Repeat([]op.Type{{DType: array.I32, Shape: array.Shape{batch, seq}}}, 2)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(a array.Array, i int, x float64) {
	if a.DType() == array.F64 {
		array.Data[float64](a)[i] = x
	} else {
		array.Data[float32](a)[i] = float32(x)
	}
}

// train runs steps, each on what the one before it returned, and collects all results.
func train(t *testing.T, p *galley.Program, args []array.Array, steps int,
	run func(args []array.Array) ([]array.Array, error)) [][]array.Array {
	t.Helper()
	count := slices.IndexFunc(p.Params(), func(v *op.Tensor) bool { return v.Name() == "count" })
	args = slices.Clone(args)
	var all [][]array.Array
	for step := range steps {
		args[count] = args[count].Clone()
		write(args[count], 0, float64(step+1))
		out, err := run(args)
		if err != nil {
			t.Fatal(err)
		}
		copy(args, out[2:])
		all = append(all, out)
	}
	return all
}

// same compares every result of every step: the loss, the norm, the next parameters and state.
func same(t *testing.T, got, want [][]array.Array, tolerance float64) {
	t.Helper()
	for step := range want {
		for i, w := range want[step] {
			g := got[step][i]
			for j := range w.Len() {
				if e := math.Abs(g.At(j) - w.At(j)); !(e <= tolerance*max(1, math.Abs(w.At(j)))) {
					t.Fatalf("step %d, result %d, element %d: got %v, want %v", step, i, j, g.At(j), w.At(j))
				}
			}
		}
	}
}

func spreadOut(t testing.TB, p *galley.Program, m *mesh.Mesh, plan string,
	extra ...string) *galley.Distributed {
	t.Helper()
	var list []galley.Annotation
	for _, text := range extra {
		a, err := mesh.ParseAnnotation(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a)
	}
	more, err := distribute.PlanAnnotations(plan, p, m)
	if err != nil {
		t.Fatal(err)
	}
	d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: m, Annotations: append(list, more...),
		Next: distribute.StepNext(p)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func smallLlama() models.Config {
	return models.Config{Family: "llama", Vocab: 24, Hidden: 16, Intermediate: 20, Layers: 2, Heads: 4,
		KVHeads: 2, Positions: 16}
}

// TestDistributedSteps: three training steps on a mesh have the losses, norms, parameters and state of one
// device.
func TestDistributedSteps(t *testing.T) {
	tied, gpt := smallLlama(), models.Config{Family: "gpt2", Vocab: 24, Hidden: 16, Intermediate: 32, Layers: 2,
		Heads: 4, Positions: 16}
	tied.Tied = true
	experts := smallLlama()
	experts.Family, experts.Experts, experts.ExpertsPerToken = "mixtral", 4, 2
	for _, c := range []struct {
		name   string
		config models.Config
		mesh   string
		plan   string
		extra  []string
		dtype  array.DType
		batch  int
	}{
		{"data", smallLlama(), "dp=4", "data", nil, array.F64, 4},
		{"data uneven", smallLlama(), "dp=4", "data", nil, array.F64, 3},
		{"tensor", smallLlama(), "tp=2", "megatron", nil, array.F64, 2},
		{"tensor uneven", smallLlama(), "tp=3", "megatron", nil, array.F64, 2},
		{"both", smallLlama(), "dp=2,tp=2", "megatron", nil, array.F64, 4},
		{"both f32", smallLlama(), "dp=2,tp=2", "megatron", nil, array.F32, 4},
		{"tied", tied, "dp=2,tp=2", "megatron", nil, array.F64, 4},
		{"weights by dp too", smallLlama(), "dp=2,tp=2", "megatron", []string{"*_proj.weight=@[tp,dp]"}, array.F64,
			4},
		{"sequence", smallLlama(), "dp=2,sp=2", "none", []string{"batch*=@[dp,sp]"}, array.F64, 4},
		{"experts", experts, "dp=2,tp=2", "megatron", nil, array.F64, 4},
		{"every axis on every weight", smallLlama(), "a=2,b=2", "none",
			[]string{"*_proj.weight=@[a.b,_]", "batch*=@[b.a,?]"}, array.F64, 3},
		{"gpt2", gpt, "dp=2,tp=2", "megatron", nil, array.F64, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, args := stepOf(t, c.config, c.dtype, c.batch, 6)
			one, err := galley.Compile(device(t), p, galley.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := train(t, p, args, 3, one.Run)
			m := parseMesh(t, c.mesh)
			e, err := spreadOut(t, p, m, c.plan, c.extra...).Compile(world(t, m.Size()), distribute.Options{})
			if err != nil {
				t.Fatal(err)
			}
			tolerance := 1e-10
			if c.dtype == array.F32 {
				tolerance = 2e-5
			}
			same(t, train(t, p, args, 3, e.Run), want, tolerance)
		})
	}
}

// TestStateStays: parameters and state go from step to step in their layouts, and only what the step inserts
// is sent.
func TestStateStays(t *testing.T) {
	p, args := stepOf(t, smallLlama(), array.F64, 4, 6)
	m, w := parseMesh(t, "dp=2,tp=2"), world(t, 4)
	d := spreadOut(t, p, m, "megatron")
	keep := len(p.Results()) - 2
	var donate []int
	for i := range keep {
		donate = append(donate, i)
	}
	e, err := d.Compile(w, distribute.Options{Donate: donate})
	if err != nil {
		t.Fatal(err)
	}
	values := make([]*galley.Tensor, len(args))
	for i, a := range args {
		if values[i], err = e.Place(i, w.Tensor(a.Clone())); err != nil {
			t.Fatal(err)
		}
	}
	one, err := galley.Compile(device(t), p, galley.Options{})
	if err != nil {
		t.Fatal(err)
	}
	count := keep + 1
	want := train(t, p, args, 3, one.Run)
	for step := range 3 {
		scalar := array.New(array.F64)
		write(scalar, 0, float64(step+1))
		values[count] = w.Tensor(scalar)
		out, err := e.RunSharded(values)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range out[2:] {
			_, have, _ := dtensor.Placements(v)
			if _, need := d.Param(i); !have.Equal(need) {
				t.Fatalf("result %d has layout %s, parameter %d as %s", i+2, have, i, need)
			}
		}
		var got []array.Array
		for _, v := range out {
			a, err := galley.Read(v)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, a)
		}
		same(t, [][]array.Array{got}, want[step:step+1], 1e-10)
		copy(values, out[2:])
	}
	whole, err := d.Memory(0)
	if err != nil {
		t.Fatal(err)
	}
	if planned := e.Memory(0); planned != whole {
		t.Errorf("memory: planned %+v, predicted %+v", planned, whole)
	}
}

func TestDistributeMistakes(t *testing.T) {
	p, _ := stepOf(t, smallLlama(), array.F32, 4, 6)
	m := parseMesh(t, "dp=2,tp=2")
	sharding := func(text string) mesh.Sharding {
		s, err := mesh.ParseSharding(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		config galley.DistributeConfig
		want   string
	}{
		{galley.DistributeConfig{}, "want a mesh"},
		{galley.DistributeConfig{Annotations: []galley.Annotation{{Pattern: "*.wq", Sharding: sharding("@[tp]")}}},
			"annotation *.wq=@[tp] matches no parameter: they are called model.embed_tokens.weight"},
		{galley.DistributeConfig{Annotations: []galley.Annotation{{Pattern: "lm_head.weight",
			Sharding: sharding("@[tp]")}}}, "lm_head.weight"},
		{galley.DistributeConfig{Annotations: []galley.Annotation{{Pattern: "lm_head.weight",
			Sharding: sharding("@[xx,_]")}}}, "xx"},
		{galley.DistributeConfig{Params: map[int]mesh.Sharding{999: sharding("@[tp]")}},
			"sharding of parameter 999"},
		{galley.DistributeConfig{Results: map[int]mesh.Sharding{-1: sharding("@[tp]")}}, "sharding of result -1"},
		{galley.DistributeConfig{Next: map[int]int{0: 0}}, "result 0 becomes parameter 0: got"},
	} {
		if !strings.Contains(c.want, "mesh") {
			c.config.Mesh = m
		}
		if _, err := galley.Distribute(p, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestStrict(t *testing.T) {
	m := parseMesh(t, "tp=2")
	types := []galley.Type{{DType: array.F32, Shape: array.Shape{4, 6}},
		{DType: array.F32, Shape: array.Shape{6, 8}}}
	product := func(wish func(x *galley.Tensor) *galley.Tensor) error {
		p, err := galley.Trace("product", types, func(in []*galley.Tensor) []*galley.Tensor {
			return []*galley.Tensor{op.Tanh(wish(op.MatMul(in[0], in[1])))}
		})
		if err != nil {
			return err
		}
		s := mesh.Closed(mesh.Split(nil, mesh.Axes{{Axis: "tp"}}))
		_, err = galley.Distribute(p, galley.DistributeConfig{
			Mesh: m, Params: map[int]mesh.Sharding{0: s,
				1: mesh.Closed(mesh.Split(mesh.Axes{{Axis: "tp"}}, nil))}, Strict: distribute.ForbidUnasked,
		})
		return err
	}
	err := product(func(x *galley.Tensor) *galley.Tensor { return x })
	unasked, ok := errors.AsType[*distribute.UnaskedError](err)
	if !ok || !strings.Contains(err.Error(), "distribute_test.go:") ||
		!strings.Contains(err.Error(), "all_reduce") {
		t.Errorf("got %v", err)
	} else if len(unasked.List) != 1 {
		t.Errorf("got %v, want one", unasked.List)
	}
	if err := product(func(x *galley.Tensor) *galley.Tensor { return dtensor.Shard(x, m) }); err != nil {
		t.Errorf("asked: %v", err)
	}
}

// TestSharedLocals: devices with equal programs share one.
func TestSharedLocals(t *testing.T) {
	p, _ := stepOf(t, smallLlama(), array.F32, 4, 6)
	d := spreadOut(t, p, parseMesh(t, "dp=2,tp=2"), "megatron")
	seen := map[*galley.Program]bool{}
	for id := range 4 {
		local, err := d.Local(id)
		if err != nil {
			t.Fatal(err)
		}
		seen[local] = true
	}
	if len(seen) > 2 {
		t.Errorf("%d programs, want at most one for each position along tp", len(seen))
	}
	if e := d.Explain(); e.All.Count == 0 || len(e.Lines) >= e.All.Count {
		t.Errorf("%d lines for %d communications", len(e.Lines), e.All.Count)
	}
}
