package galley_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// byHand is training op by op on devices, as one would write it with sharded tensors: parameters, gradients
// and the optimizer's memory are laid out by the same rules that ZeRO and tensor parallelism stand for.
type byHand struct {
	w     *dtensor.World
	m     *mesh.Mesh
	model models.Model
	zero  int
	slots [][]*galley.Tensor
	steps int
}

func newByHand(t *testing.T, c models.Config, s galley.Strategy, text string) *byHand {
	t.Helper()
	m := parseMesh(t, text)
	x := &byHand{w: world(t, m.Size()), m: m, zero: s.Zero}
	var err error
	if x.model, err = models.New(c, nn.Config{Scope: x.w, Seed: 3, DType: array.F64}); err != nil {
		t.Fatal(err)
	}
	for _, p := range x.model.Params() {
		p.Value = x.lay(p.Value, p.Name, 3).Detach().Track()
		zeros := x.lay(x.w.Tensor(array.New(array.F64, p.Type.Shape...)), p.Name, 1)
		x.slots = append(x.slots, []*galley.Tensor{zeros, zeros})
	}
	return x
}

// lay places what belongs to a parameter: over tp by its role, over dp from a stage of ZeRO on.
func (x *byHand) lay(v *galley.Tensor, name string, from int) *galley.Tensor {
	spec := mesh.Whole(len(v.Shape()))
	named := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasSuffix(name, w+".weight") })
	}
	if _, ok := x.m.Axis("tp"); ok {
		switch {
		case named("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "embed_tokens"):
			spec.Dims[0] = mesh.On("tp")
		case named("o_proj", "down_proj"):
			spec.Dims[1] = mesh.On("tp")
		}
	}
	if x.zero >= from {
		last := len(spec.Dims) - 1
		spec.Dims[last] = append(spec.Dims[last], mesh.On("dp")...)
	}
	return dtensor.ShardBySpec(v, x.m, spec)
}

// step returns one training step.
func (x *byHand) step(t *testing.T, windows array.Array, lr float64) (loss, norm float64) {
	t.Helper()
	n := windows.Shape()[1]
	var place []mesh.Placement
	if _, ok := x.m.Axis("dp"); ok {
		place = []mesh.Placement{mesh.Shard(0)}
	}
	ids := dtensor.Shard(x.w.Tensor(windows), x.m, place...)
	params := x.model.Params()
	l := x.model.Loss(op.Narrow(ids, 1, 0, n-1), op.Narrow(ids, 1, 1, n))
	grads := op.GradOnce([]*galley.Tensor{l}, nil, nn.Values(params))
	for i, p := range params {
		grads[i] = x.lay(grads[i], p.Name, 2)
	}
	total := optim.GlobalNorm(grads)
	out := readAll(t, []*galley.Tensor{l, total})
	x.steps++
	for i, p := range params {
		v, g := x.lay(p.Value.Detach(), p.Name, 1), x.lay(grads[i], p.Name, 1)
		at := optim.Step{LR: op.Const(v, lr), Count: op.Const(v, float64(x.steps)),
			Scale: optim.ClipScale(total, 1)}
		var next *galley.Tensor
		next, x.slots[i] = optim.AdamW{WeightDecay: 0.1}.Update(v, g, x.slots[i], at)
		p.Value = x.lay(next, p.Name, 3).Detach().Track()
	}
	return out[0].At(0), out[1].At(0)
}

// TestStaticStepsEqualEager: planned steps have the losses and norms of the same training op by op on the
// same devices.
func TestStaticStepsEqualEager(t *testing.T) {
	t.Parallel()
	const steps = 4
	for i, x := range []struct {
		s    galley.Strategy
		mesh string
	}{
		{galley.Strategy{DP: 2}, "dp=2"}, {galley.Strategy{TP: 2}, "tp=2"}, {galley.Strategy{DP: 2, TP: 2},
			"dp=2,tp=2"},
		{galley.Strategy{DP: 2, Zero: 1}, "dp=2"}, {galley.Strategy{DP: 2, Zero: 2},
			"dp=2"}, {galley.Strategy{DP: 2, Zero: 3}, "dp=2"},
		{galley.Strategy{DP: 2, TP: 2, Zero: 3}, "dp=2,tp=2"}, {galley.Strategy{DP: 3, Zero: 2}, "dp=3"},
	} {
		if testing.Short() && i > 2 {
			break
		}
		t.Run(name(&x.s), func(t *testing.T) {
			static := newTrial(t, tiny, array.F64, &x.s)
			eager := newByHand(t, tiny, x.s, x.mesh)
			var want []float64
			schedule := optim.Cosine{LR: 1e-2, Final: 1e-3, Warmup: 3, Steps: 20}
			for i := range steps {
				loss, norm := eager.step(t, static.windows(i), schedule.At(i))
				want = append(want, loss, norm)
			}
			sameCurve(t, static.train(t, steps), want, 1e-10)
		})
	}
}
