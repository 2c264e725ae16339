package galley_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// chains returns a recurrence along a sequence and one against it, which meet at the end, and batches of one
// sample.
func chains(t *testing.T) (galley.Model, galley.Loader) {
	t.Helper()
	in := nn.NewInit(nn.Config{Scope: device(t).NewSession(), Seed: 3})
	ahead, back := nn.NewGRU(in.At("ahead"), 64, 128, nn.RecurrentConfig{}), nn.NewGRU(in.At("back"), 64, 128,
		nn.RecurrentConfig{})
	m := galley.ModelFunc(in.Params(), func(b []*galley.Tensor) []*galley.Tensor {
		return []*galley.Tensor{op.Mul(ahead.Forward(b[0]), op.Flip(back.Forward(op.Flip(b[0], 1)), 1))}
	})
	return m, oneSample{}
}

// oneSample is batches of one sample: 10 positions of 64 elements.
type oneSample struct{}

func (oneSample) Len() int { return 3 }

func (oneSample) Batch(i int) ([]array.Array, error) {
	x, y := array.New(array.F32, 1, 10, 64), array.New(array.F32, 1, 10, 128)
	for k := range x.Len() {
		x.Set(k, float64((k*7+i)%13)/13-0.5)
	}
	for k := range y.Len() {
		y.Set(k, float64((k*5+i)%11)/11-0.5)
	}
	return []array.Array{x, y}, nil
}

// TestAutoBranches: branches on two devices train as one device does, to the bit, said and with the rest left
// to the search; so does the plan that was saved and read.
func TestAutoBranches(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a search takes seconds, and runs by itself")
	}
	opt := optim.AdamW{}
	m, l := chains(t)
	one, err := galley.ToStatic(m, l, galley.MeanSquares, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	want := lossesOf(t, one, l)
	same := func(name string, d *galley.DistModel) {
		t.Helper()
		for i, x := range lossesOf(t, d, l) {
			if x != want[i] {
				t.Errorf("%s: step %d: %v, one device %v", name, i, x, want[i])
			}
		}
	}
	for _, s := range []galley.Strategy{{Auto: 2, Branches: 2}, {Branches: 2}} {
		m, l := chains(t)
		d, err := galley.ToStatic(m, l, galley.MeanSquares, opt, &s)
		if err != nil {
			t.Fatal(s, err)
		}
		same(s.Line(), d)
		if s.Auto > 0 {
			p := d.Plan()
			if p.Strategy.Branches != 2 || !strings.Contains(p.String(), "chose branches2") {
				t.Errorf("%s: found %s", s.Line(), p)
			}
			path := filepath.Join(t.TempDir(), "plan.yaml")
			if err := p.Save(path); err != nil {
				t.Fatal(err)
			}
			readBack(t, path, same)
		}
		d.Close()
	}
}

// readBack trains by a plan that was saved.
func readBack(t *testing.T, path string, same func(string, *galley.DistModel)) {
	t.Helper()
	m, l := chains(t)
	b, err := l.Batch(0)
	if err != nil {
		t.Fatal(err)
	}
	types := []galley.Type{
		{DType: b[0].DType(), Shape: b[0].Shape()},
		{DType: b[1].DType(), Shape: b[1].Shape()},
	}
	p, err := galley.LoadPlan(path, m, galley.PlanConfig{Loss: galley.MeanSquares, Batch: types})
	if err != nil {
		t.Fatal(err)
	}
	parallel, err := p.Apply(m, optim.AdamW{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := galley.ToStatic(parallel, l, galley.MeanSquares, optim.AdamW{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	same("a plan from a file", d)
}

// TestAutoFindsBranches: where a step has one sample and two recurrences, devices of their own run one each,
// though nobody says so; a device whose threads share all cores is the faster one in a process.
func TestAutoFindsBranches(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a search takes seconds, and runs by itself")
	}
	m, l := chains(t)
	b, err := l.Batch(0)
	if err != nil {
		t.Fatal(err)
	}
	c := galley.PlanConfig{Loss: galley.MeanSquares, Batch: []galley.Type{
		{DType: b[0].DType(), Shape: b[0].Shape()}, {DType: b[1].DType(), Shape: b[1].Shape()}}}
	p, err := galley.Plan(m, "1x2 H100-SXM", c)
	if err != nil {
		t.Fatal(err)
	}
	if p.Strategy.Branches != 2 {
		t.Errorf("found %s", p)
	}
}
