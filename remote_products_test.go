package galley_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend/backendtest"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/lower"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestProductsOfStep: where kernels of products are made for a device, a llama's step has them in each layer:
// one turns queries and keys, one gates, and one computes the gradients of gates.
func TestProductsOfStep(t *testing.T) {
	if testing.Short() {
		t.Skip("the interpreter takes long for products of 256 by 256")
	}
	d := galley.CPU(galley.Config{Threads: 2})
	defer d.Close()
	c := models.Config{Family: "llama", Vocab: 32, Hidden: 256, Intermediate: 256, Layers: 2, Heads: 4,
		KVHeads: 4, Positions: 128}
	model, err := models.New(c, nn.Config{Scope: d.NewSession(), Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	k := keeper(backendtest.Interpreter(1))
	loss := func(batch []*op.Tensor) *op.Tensor { return model.Loss(batch[0], batch[0]) }
	trainer, err := galley.NewTrainer(galley.TrainerConfig{Backend: k, Device: d, Params: model.Params(),
		Loss: loss, Compute: array.BF16})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := trainer.Start(array.New(array.I32, 2, 128)); err != nil {
		t.Fatal(err)
	}
	text, err := lower.Module(k.programs["train_step"],
		lower.ModuleConfig{Config: hlo.Config{Target: hlo.CUDA, Products: 1e-9}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"turned_product_2", "gated_product", "gated_gradient"} {
		if n := strings.Count(text, `name = "`+name+`"`); n != c.Layers {
			t.Errorf("%d calls of %s, want %d", n, name, c.Layers)
		}
	}
}
