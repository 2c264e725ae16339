package galley_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
	"github.com/galley-ml/galley/strategy"
)

// TestSplitWeightsState: with products in 16 bits the state holds weights as halves, of which products take
// the rounded one; the step rounds none.
func TestSplitWeightsState(t *testing.T) {
	for _, policy := range []strategy.Recompute{"none", "full"} {
		k := keeper(backendtest.Interpreter(1))
		got, _ := groupRun{backend: k, half: true, strategy: &galley.Strategy{Recompute: policy}}.trainer(t)
		want, _ := groupRun{half: true}.trainer(t)
		a, b := trainFor(t, got, 4), trainFor(t, want, 4)
		for i := 0; i < len(a); i += 2 { // losses; norms of so small a model differ more
			sameNumbers(t, a[i:i+1], b[i:i+1], 2e-2)
		}
		for _, n := range k.programs["train_step"].Nodes() {
			if n.Op().Name() != "cast" || n.Out()[0].DType() != array.BF16 || len(n.Out()[0].Shape()) != 2 {
				continue
			}
			if from := n.In()[0].Node(); from == nil || from.Op().Name() == "join_f32" {
				t.Errorf("%s: the step rounds a weight: %v", policy, n)
			}
		}
	}
}

// TestSplitWeightsKeepAllBits: steps far smaller than what 16 bits resolve add up in weights that are as
// halves, as in whole ones.
func TestSplitWeightsKeepAllBits(t *testing.T) {
	k := keeper(backendtest.Interpreter(1))
	keepsAllBits(t, k)
	if n := strings.Count(k.programs["train_step"].String(), "= join_f32"); n != 1 {
		t.Errorf("%d weights are split master weights, want the joined one", n)
	}
}

// TestSplitWeightsOnAccelerator: they do so on an accelerator, whose compiler might round otherwise.
func TestSplitWeightsOnAccelerator(t *testing.T) {
	b, err := galley.XLA(galley.XLAConfig{})
	if err != nil {
		t.Skipf("no accelerator: %v", err)
	}
	defer b.Close()
	keepsAllBits(t, b)
}

// keepsAllBits compares how far weights move on a backend with how far they move on the host.
func keepsAllBits(t *testing.T, b galley.Backend) {
	t.Helper()
	after := func(b galley.Backend) (params []float64) {
		c := galley.TrainerConfig{Compute: array.BF16, Optimizer: optim.SGD{}, Schedule: optim.Constant{LR: 1e-5}}
		tr, list := joinLoss(t, b, c, func(x, w1, w2 *op.Tensor) []*op.Tensor { return products(x, w1, w2) })
		stepRows(t, tr, slices.Repeat([]int{3}, 20)...)
		if err := tr.Sync(galley.CPU(galley.Config{Threads: 1}).NewSession()); err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			a, err := galley.Read(p.Value)
			if err != nil {
				t.Fatal(err)
			}
			params = append(params, a.Float64s()...)
		}
		return params
	}
	want, got := after(nil), after(b)
	for i, x := range want {
		first := float64(float32(float64((i%16*7+i/16*3)%11)/11 - 0.4))
		if moved, wantMoved := got[i]-first, x-first; math.Abs(moved-wantMoved) > 0.05*math.Abs(wantMoved)+1e-7 {
			t.Errorf("%s: element %d moved by %.4g, want %.4g", b.Name(), i, moved, wantMoved)
		}
	}
}

// TestSplitWeightsForward: a forward pass takes weights in their layouts: whole before the first step, as
// halves behind it, also of weights that a checkpoint brought.
func TestSplitWeightsForward(t *testing.T) {
	dir := t.TempDir()
	c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k := keeper(backendtest.Interpreter(1))
	tr, m := groupRun{backend: k, half: true}.trainer(t)
	f := tr.NewForward(func(b []*op.Tensor) []*op.Tensor { return []*op.Tensor{m.Loss(b[0], b[0])} })
	loss := func() float64 {
		out, err := f.Run(t.Context(), groupIDs(0))
		if err != nil {
			t.Fatal(err)
		}
		return out[0].At(0)
	}
	before := loss()
	if strings.Contains(k.programs["forward"].String(), "join_f32") {
		t.Error("weights are split master weights before the first step")
	}
	if err := tr.Save(t.Context(), c, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	trainFor(t, tr, 2)
	if after := loss(); after == before || !strings.Contains(k.programs["forward"].String(), ".upper") {
		t.Errorf("loss %v after steps, %v before: want the halves of new weights", after, before)
	}
	if _, err := tr.Resume(dir); err != nil {
		t.Fatal(err)
	}
	if again := loss(); again != before {
		t.Errorf("loss %v after the checkpoint, want %v", again, before)
	}
}

// TestSplitWeightsFail: whatever fails midway, no bit of the state is lost, halves take no more memory than
// whole weights, and Close leaves nothing. One of the optimizers sees weights as they are, so that nothing is
// joined.
func TestSplitWeightsFail(t *testing.T) {
	for _, o := range []optim.Optimizer{nil, wholeNorm{}} {
		t.Run(fmt.Sprintf("%T", o), func(t *testing.T) { splitWeightsFail(t, o) })
	}
}

func splitWeightsFail(t *testing.T, o optim.Optimizer) {
	ctx, dir := t.Context(), t.TempDir()
	saved, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	b := newBufferCounter()
	tr, m := groupRun{backend: b, half: true, optimizer: o}.trainer(t)
	f := tr.NewForward(func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{m.Loss(in[0], in[0])} })
	defer f.Close()
	loss := func() float64 {
		out, err := f.Run(ctx, groupIDs(0))
		if err != nil {
			t.Fatal(err)
		}
		return out[0].At(0)
	}
	same := func(when string, want []float64) {
		t.Helper()
		if got := paramsOf(t, tr, m); !slices.Equal(got, want) {
			t.Errorf("%s: parameters are not what they were", when)
		}
	}
	bytes, before, first := b.bytes(), loss(), paramsOf(t, tr, m)
	b.fails["split_f32"] = 2
	if _, err := tr.Step(groupIDs(0)); err == nil {
		t.Fatal("the step does not say what failed")
	}
	same("after a failure", first)
	if err := errors.Join(tr.Save(ctx, saved, 0), saved.Wait(ctx)); err != nil {
		t.Fatal(err)
	}
	if after := loss(); after != before {
		t.Errorf("loss %v of halves, want %v", after, before)
	}
	same("as halves", first)
	trainFor(t, tr, 2)
	if n := b.bytes(); n != bytes {
		t.Errorf("%d bytes after steps, %d before", n, bytes)
	}
	for range 2 {
		if _, err := tr.Resume(dir); err != nil {
			t.Fatal(err)
		}
		same("after a checkpoint", first)
		b.fails["split_f32"] = 1
		if _, err := tr.Step(groupIDs(0)); err == nil {
			t.Fatal("the step does not say what failed")
		}
		same("after a checkpoint and a failure", first)
	}
	if again := loss(); again != before {
		t.Errorf("loss %v after a checkpoint, want %v", again, before)
	}
	if n := b.bytes(); n != bytes {
		t.Errorf("%d bytes after a checkpoint, %d before", n, bytes)
	}
	if err := tr.Close(); err != nil || len(b.live) > 0 {
		t.Errorf("Close leaves %d buffers: %v", len(b.live), err)
	}
}

// paramsOf returns all elements of a model's parameters as they are on the trainer's backend.
func paramsOf(t *testing.T, tr *galley.Trainer, m models.Model) (list []float64) {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	if err := tr.Sync(d.NewSession()); err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Params() {
		a, err := galley.Read(p.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, a.Float64s()...)
	}
	return list
}
