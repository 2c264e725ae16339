package models

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/safetensors"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestRecordedAhead: a DeepSeek-V3 with a layer that predicts the token behind the next has the losses and
// gradients that testdata/finetune.py has recorded, and is written and read again with it. Without being
// asked for it the layer is left out, as in transformers.
func TestRecordedAhead(t *testing.T) {
	s := newSession(t)
	in := nn.Config{Scope: s, DType: array.F64}
	const dir = "testdata/deepseek_mtp"
	m, err := LoadAhead(dir, 1, in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := safetensors.Open(dir + "/reference.safetensors")
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
	differsBy(t, "main", read(t, op.Reshape(m.Loss(ids, labels), 1)), want("main"), 1e-5)
	both, err := WithLoss(m, LossConfig{Ahead: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	loss := both.Loss(ids, labels)
	differsBy(t, "loss", read(t, op.Reshape(loss, 1)), want("loss"), 1e-5)
	trained, found := nn.Trainable(m.Params()), 0
	for i, g := range op.GradOnce([]*op.Tensor{loss}, nil, nn.Values(trained)) {
		if _, _, ok := r.Type("grad." + trained[i].Name); ok {
			found++
			differsBy(t, trained[i].Name, read(t, g), want("grad."+trained[i].Name), 1e-4)
		}
	}
	if found < len(trained) {
		t.Errorf("%d of %d parameters have recorded gradients", found, len(trained))
	}
	plain, err := Load(dir, in)
	if err != nil {
		t.Fatal(err)
	}
	sameWithin(t, "without", plain.Loss(ids, labels), m.Loss(ids, labels))
	if n, all := len(plain.Params()), len(m.Params()); n >= all {
		t.Errorf("%d parameters without the layer, %d with it", n, all)
	}
	out := t.TempDir()
	if err := Save(out, m, SaveConfig{}); err != nil {
		t.Fatal(err)
	}
	again, err := LoadAhead(out, 1, in)
	if err != nil {
		t.Fatal(err)
	}
	if again, err = WithLoss(again, LossConfig{Ahead: 0.3}); err != nil {
		t.Fatal(err)
	}
	sameWithin(t, "again", again.Loss(ids, labels), loss)
}

func TestAheadErrors(t *testing.T) {
	if _, err := New(Config{Family: "llama", Vocab: 9, Hidden: 8, Intermediate: 8, Layers: 1, Heads: 2,
		Ahead: 1},
		nn.Config{}); err == nil || !strings.Contains(err.Error(), "llama has none") {
		t.Errorf("got %v", err)
	}
	if _, err := WithLoss(mustLoad(t, "llama", nn.Config{}), LossConfig{Ahead: 1}); err == nil ||
		!strings.Contains(err.Error(), "Config.Ahead") {
		t.Errorf("got %v", err)
	}
	if _, err := LoadAhead("testdata/deepseek_mtp", 2, nn.Config{}); err == nil ||
		!strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v", err)
	}
}
