package galley_test

import (
	"math"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestDeviceGroupHalf: what devices compute together of 16-bit values is as exact as what one device
// computes.
func TestDeviceGroupHalf(t *testing.T) {
	for name, c := range map[string]struct {
		config models.Config
		mesh   string
		layout models.Layout
	}{
		"ring": {smallLlama(), "dp=1,cp=2,tp=2",
			models.Layout{Parts: 2, Context: op.ContextRing, Order: models.Zigzag}},
		"ulysses": {smallGPT2(), "dp=1,cp=2,tp=2", models.Layout{Parts: 2, Context: op.ContextUlysses}},
		"experts": {smallMixtral(), "dp=1,ep=2,tp=2", models.Layout{Experts: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			want := halfLoss(t, c.config, models.Layout{}, "dp=1,tp=1")
			got := halfLoss(t, c.config, c.layout, c.mesh)
			if e := math.Abs(got - want); !(e <= 2e-3*want) {
				t.Errorf("loss %v, want %v", got, want)
			}
		})
	}
}

// halfLoss returns the loss after two steps in bf16.
func halfLoss(t *testing.T, c models.Config, l models.Layout, meshText string) float64 {
	t.Helper()
	m, err := models.New(c, nn.Config{Scope: device(t).NewSession(), DType: array.BF16, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = models.Arrange(m, l); err != nil {
		t.Fatal(err)
	}
	p := trace(t, m, 2, 8)
	var args []array.Array
	for i, v := range p.Params() {
		a := array.New(v.DType(), v.Shape()...)
		switch {
		case i < len(m.Params()):
			if a, err = galley.Read(m.Params()[i].Value); err != nil {
				t.Fatal(err)
			}
		case v.Name() == "lr":
			write(a, 0, 0.01)
		case v.DType() == array.I32:
			for j := range a.Len() {
				array.Data[int32](a)[j] = int32(j * 5 % c.Vocab)
			}
		}
		args = append(args, a)
	}
	mesh := parseMesh(t, meshText)
	e, err := spreadOut(t, p, mesh, "megatron").Compile(world(t, mesh.Size()), distribute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return train(t, p, args, 3, e.Run)[2][0].At(0)
}
