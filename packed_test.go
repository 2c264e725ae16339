package galley_test

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// packedLosses trains on packed rows of short and long documents.
func packedLosses(t *testing.T, s *galley.Strategy) []float64 {
	t.Helper()
	d := galley.CPU(galley.Config{Threads: 1})
	defer d.Close()
	m, err := models.New(models.Config{Family: "llama", Vocab: 40, Hidden: 16, Intermediate: 24, Layers: 2,
		Heads: 4, KVHeads: 2, InitStd: 0.2}, nn.Config{Scope: d.NewSession(), Seed: 3, DType: array.F64})
	if err != nil {
		t.Fatal(err)
	}
	arranged := models.Model(m)
	if s != nil {
		if arranged, _, err = galley.Arrange(m, *s, 12); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := galley.NewTrainer(galley.TrainerConfig{Device: d, Params: m.Params(), Strategy: s, ClipNorm: 1,
		Optimizer: optim.AdamW{}, Schedule: optim.Constant{LR: 1e-2},
		Loss: func(b []*op.Tensor) *op.Tensor { return models.PackedLoss(arranged, b[0], b[1], b[2], b[3]) }})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var documents [][]int32
	for n := range 30 {
		var doc []int32
		for i := range (n*7)%17 + 1 {
			doc = append(doc, int32((i*i+3*n+i)%40))
		}
		documents = append(documents, doc)
	}
	rows, err := data.Pack(data.Pieces(data.NewCorpus(documents...), 12), 12)
	if err != nil {
		t.Fatal(err)
	}
	batches, err := data.NewMixture([]data.MixtureSource{{Name: "all", Rows: rows, Weight: 1}},
		data.MixtureConfig{Batch: 8, Seq: 12, Packed: true})
	if err != nil {
		t.Fatal(err)
	}
	var losses []float64
	for i := range 3 {
		r, err := tr.Step(batches.From(int64(8 * i))...)
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, r.Loss, r.GradNorm)
	}
	return losses
}

// TestPackedStrategies: packed rows have the same losses however they are spread, also where devices share a
// row: segments and positions travel with it.
func TestPackedStrategies(t *testing.T) {
	want := packedLosses(t, nil)
	for _, s := range []galley.Strategy{{DP: 2, TP: 2}, {PP: 2, Micro: 2}, {DP: 2, Zero: 3},
		{CP: 2}, {CP: 2, Context: "ulysses"}, {CP: 3, DP: 2}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) { sameNumbers(t, packedLosses(t, &s), want, 1e-10) })
	}
}
