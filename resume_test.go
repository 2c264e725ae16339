package galley_test

import (
	"context"
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/strategy"
)

// TestResumeElsewhere: a run that is interrupted after step 9 and goes on under another strategy has the same
// rest of the curve.
func TestResumeElsewhere(t *testing.T) {
	t.Parallel()
	const interrupted, steps = 9, 14
	alone := newTrial(t, tiny, array.F64, nil)
	want := alone.train(t, steps)
	last := firstWeight(t, alone)
	many := &galley.Strategy{DP: 2, TP: 2, PP: 2, Micro: 2}
	for i, x := range []struct{ from, to *galley.Strategy }{
		{nil, many}, {many, nil},
		{&galley.Strategy{DP: 2, Zero: 3}, &galley.Strategy{PP: 2, Micro: 4}},
		{&galley.Strategy{PP: 2, Micro: 4, Schedule: "zbv"}, &galley.Strategy{DP: 4, Zero: 3}},
		{&galley.Strategy{DP: 3, Zero: 1}, &galley.Strategy{TP: 3, Zero: 2}}, // uneven boxes on both sides
		{&galley.Strategy{CP: 2}, &galley.Strategy{DP: 2, Zero: 2, Offload: strategy.Offload{Optimizer: 1}}},
		{&galley.Strategy{DP: 2, Zero: 1, Offload: strategy.Offload{Optimizer: 1, Dir: t.TempDir()}},
			&galley.Strategy{TP: 4, Sequence: true}},
		{&galley.Strategy{DP: 4, Zero: 3, Shard: 2}, &galley.Strategy{DP: 2, Zero: 3, Micro: 2,
			Offload: strategy.Offload{Optimizer: 0.5, Parameters: 1, Activations: 0.5}}},
		{&galley.Strategy{PP: 2, Micro: 4, Offload: strategy.Offload{Parameters: 0.5, Dir: t.TempDir()}},
			&galley.Strategy{DP: 4, Zero: 1, Shard: 2}},
		{&galley.Strategy{DP: 8}, &galley.Strategy{DP: 8}},
	} {
		if testing.Short() && i > 2 {
			break
		}
		t.Run(name(x.from)+" to "+name(x.to), func(t *testing.T) {
			dir := t.TempDir()
			first := newTrial(t, tiny, array.F64, x.from)
			got := first.train(t, interrupted)
			save(t, first, dir)
			second := newTrial(t, tiny, array.F64, x.to)
			r, err := second.Resume(dir)
			if err != nil {
				t.Fatal(err)
			}
			if r.Step != interrupted || r.Sample != interrupted*8 {
				t.Errorf("goes on after step %d with sample %d", r.Step, r.Sample)
			}
			sameCurve(t, append(got, second.train(t, steps)...), want, 1e-10)
			sameCurve(t, firstWeight(t, second), last, 1e-10)
		})
	}
}

// firstWeight returns the model's first parameter, brought back from its devices.
func firstWeight(t *testing.T, x *trial) []float64 {
	t.Helper()
	if err := x.Sync(x.device.NewSession()); err != nil {
		t.Fatal(err)
	}
	a, err := galley.Read(x.model.Params()[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	return array.Data[float64](a)
}

// TestResumePrecisely: a run in mixed precision goes on under its own strategy with the very same numbers,
// and in f32 on one device from its precise weights.
func TestResumePrecisely(t *testing.T) {
	t.Parallel()
	for i, s := range []galley.Strategy{
		{AMP: "bf16"}, {AMP: "f16"}, {DP: 2, TP: 2, Zero: 2, AMP: "bf16"}, {DP: 2, Zero: 3, AMP: "f16",
			Micro: 2}, {PP: 2, Micro: 4, AMP: "bf16", Schedule: "zbh1"},
		{DP: 2, TP: 2, PP: 2, Micro: 2}, {DP: 2, Zero: 3, Micro: 2},
		{DP: 4, Zero: 2, Shard: 2, AMP: "bf16", Micro: 2, Offload: strategy.Offload{Optimizer: 0.5,
			Parameters: 0.5, Activations: 1}},
	} {
		if testing.Short() && i > 1 {
			break
		}
		t.Run(name(&s), func(t *testing.T) {
			want := newTrial(t, tiny, array.F32, &s).train(t, 14)
			dir := t.TempDir()
			first := newTrial(t, tiny, array.F32, &s)
			got := first.train(t, 9)
			save(t, first, dir)
			second := newTrial(t, tiny, array.F32, &s)
			if _, err := second.Resume(dir); err != nil {
				t.Fatal(err)
			}
			sameCurve(t, append(got, second.train(t, 14)...), want, 0)
			alone := newTrial(t, tiny, array.F32, nil)
			if _, err := alone.Resume(dir); err != nil {
				t.Fatal(err)
			}
			for i, x := range alone.train(t, 14) {
				if i%2 == 0 && math.Abs(x-want[18+i]) > 0.02 {
					t.Errorf("step %d: loss is %v, with mixed precision %v", 9+i/2, x, want[18+i])
				}
			}
		})
	}
}

func save(t *testing.T, x *trial, dir string) {
	t.Helper()
	c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Save(context.Background(), c, int64(8*x.Steps())); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
