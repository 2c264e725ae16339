package models

import (
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestRecordedRouterLoss: the balance of experts, the loss with it and the routers' gradients are those of
// transformers, which keeps RoPE's angles in float32.
func TestRecordedRouterLoss(t *testing.T) {
	s := newSession(t)
	m, err := WithLoss(
		mustLoad(t, "mixtral", nn.Config{Scope: s, DType: array.F64}),
		LossConfig{RouterBalance: 0.05},
	)
	if err != nil {
		t.Fatal(err)
	}
	r, err := safetensors.Open("testdata/routers/mixtral.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := func(name string) array.Array {
		a, err := r.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ids, labels := s.Tensor(want("ids")), s.Tensor(want("labels"))
	loss := m.Loss(ids, labels)
	differsBy(t, "loss", read(t, op.Reshape(loss, 1)), want("loss"), 1e-5)
	plain := mustLoad(t, "mixtral", nn.Config{Scope: s, DType: array.F64}).Loss(ids, labels)
	aux := op.MulScalar(op.Sub(loss, plain), 20)
	differsBy(t, "aux", read(t, op.Reshape(aux, 1)), want("aux"), 1e-4)
	found := 0
	grads := op.GradOnce([]*op.Tensor{loss}, nil, nn.Values(m.Params()))
	for i, p := range m.Params() {
		if _, _, ok := r.Type("grad." + p.Name); ok {
			found++
			differsBy(t, p.Name, read(t, grads[i]), want("grad."+p.Name), 1e-4)
		}
	}
	if found != 2 {
		t.Errorf("%d routers have recorded gradients, want 2", found)
	}
}

// TestLossTerms: each term is its definition, packed rows have the same, and what cannot be is refused.
func TestLossTerms(t *testing.T) {
	s := newSession(t)
	m := mustLoad(t, "mixtral", nn.Config{Scope: s, DType: array.F64})
	ids := s.Tensor(array.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3))
	labels := s.Tensor(array.FromSlice([]int32{2, -100, 4, 5, 6, 7}, 2, 3))
	logits := m.Forward(ids)
	plain := read(t, m.Loss(ids, labels)).At(0)
	lse := read(t, op.LogSumExp(logits, -1))
	z := 0.0
	for i := range 6 {
		if i != 1 {
			z += lse.At(i) * lse.At(i) / 5
		}
	}
	smooth := read(t, op.CrossEntropy(logits, labels, op.CrossEntropyConfig{LabelSmoothing: 0.2})).At(0)
	loads := RouterLoads(m, ids)
	if len(loads) != 2 {
		t.Fatalf("got %d layers of loads, want 2", len(loads))
	}
	for _, l := range loads {
		if sum := read(t, op.Sum(l)).At(0); math.Abs(sum-2) > 1e-12 { // of two rows
			t.Errorf("loads sum to %v, want 2", sum)
		}
	}
	for _, test := range []struct {
		config LossConfig
		want   float64
	}{{LossConfig{LogitZ: 0.5}, plain + 0.5*z}, {LossConfig{LabelSmoothing: 0.2}, smooth}} {
		d, err := WithLoss(m, test.config)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, d.Loss(ids, labels)).At(0); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%+v: got %v, want %v", test.config, got, test.want)
		}
	}
	// Of one sequence a batch and a sequence are the same.
	one, label := op.Narrow(ids, 0, 1, 2), op.Narrow(labels, 0, 1, 2)
	var both [2]float64
	for i, by := range []bool{false, true} {
		d, err := WithLoss(m, LossConfig{RouterBalance: 1, RouterZ: 0.1, BySequence: by})
		if err != nil {
			t.Fatal(err)
		}
		both[i] = read(t, d.Loss(one, label)).At(0)
	}
	if math.Abs(both[0]-both[1]) > 1e-12 || both[0] <= read(t, m.Loss(one, label)).At(0) {
		t.Errorf("got %v", both)
	}
	for _, test := range []struct {
		name   string
		config LossConfig
		want   string
	}{{"llama", LossConfig{RouterZ: 1}, "llama has no routers"},
		{"mixtral", LossConfig{LabelSmoothing: 2}, "got 2"},
		{"mixtral", LossConfig{LogitZ: -1}, "got -1"}} {
		if _, err := WithLoss(mustLoad(t, test.name, nn.Config{}), test.config); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q in it", test.config, err, test.want)
		}
	}
}
