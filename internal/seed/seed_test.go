package seed_test

import (
	"path"
	"testing"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/internal/pass"
	"github.com/galley-ml/galley/internal/seed"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// step returns a traced training step of a llama, optimised as Distribute does.
func step(t testing.TB, c models.Config, batch, seq int) *galley.Program {
	t.Helper()
	model, err := models.New(c, nn.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loss := func(in []*op.Tensor) *op.Tensor {
		return model.Loss(op.Narrow(in[0], 1, 0, seq), op.Narrow(in[0], 1, 1, seq+1))
	}
	p, err := galley.TraceStep(galley.TrainerConfig{Params: model.Params(), ClipNorm: 1, Loss: loss},
		op.Type{DType: array.I32, Shape: array.Shape{batch, seq + 1}})
	if err != nil {
		t.Fatal(err)
	}
	if p, err = pass.Optimize(p); err != nil {
		t.Fatal(err)
	}
	return p
}

func llama(layers, hidden int) models.Config {
	return models.Config{Family: "llama", Vocab: 1024, Hidden: hidden, Intermediate: 3 * hidden, Layers: layers,
		Heads: 8, KVHeads: 8, Positions: 4096}
}

// byHand returns the price of the best built-in annotations.
func byHand(t testing.TB, p *galley.Program, c seed.Config) (string, float64) {
	t.Helper()
	name, best := "", 0.0
	for _, plan := range distribute.Plans() {
		list, err := distribute.PlanAnnotations(plan, p, c.Mesh)
		if err != nil {
			continue
		}
		seeds := map[int]mesh.Sharding{}
		for _, v := range p.Params() {
			for _, a := range list {
				if _, done := seeds[v.ID()]; !done && matches(a, v.Name()) {
					seeds[v.ID()] = a.Sharding
				}
			}
		}
		inferred, err := shard.Infer(p, shard.Config{Mesh: c.Mesh, Values: seeds})
		if err != nil {
			t.Fatal(plan, err)
		}
		price, err := seed.PriceOf(p, inferred.Specs, c)
		if err != nil {
			t.Fatal(plan, err)
		}
		t.Logf("%s: compute %.1f µs, communication %.1f µs", plan, price.Compute*1e6, price.Communication*1e6)
		if name == "" || price.Total() < best {
			name, best = plan, price.Total()
		}
	}
	return name, best
}

func TestFindBeatsAnnotations(t *testing.T) {
	for _, test := range []struct {
		mesh                       string
		layers, hidden, batch, seq int
	}{
		{"dp=2,tp=4", 2, 1024, 4, 512},
		{"dp=4,tp=2", 2, 512, 16, 256},
		{"dp=8", 3, 256, 16, 128},
		{"tp=8", 2, 2048, 1, 1024},
	} {
		if testing.Short() && test.mesh != "dp=8" {
			continue
		}
		m, err := mesh.Parse(test.mesh)
		if err != nil {
			t.Fatal(err)
		}
		p := step(t, llama(test.layers, test.hidden), test.batch, test.seq)
		c := seed.Config{Mesh: m, Next: distribute.StepNext(p)}
		start := time.Now()
		r, err := seed.Find(p, c)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		hand, best := byHand(t, p, c)
		t.Logf("%s: %d nodes, %d variables, %d labels, %v: %.1f µs, gap %.1f%%; %s %.1f µs", test.mesh,
			len(p.Nodes()), r.Variables, r.Labels, took,
			r.Price.Total()*1e6, 100*r.Gap(), hand, best*1e6)
		if r.Price.Total() > best*(1+1e-9) {
			t.Errorf("%s: found %.1f µs, annotations %s %.1f µs", test.mesh, r.Price.Total()*1e6, hand, best*1e6)
		}
		if r.Bound > r.Time*(1+1e-9) {
			t.Errorf("%s: bound %v above %v", test.mesh, r.Bound, r.Time)
		}
	}
}

func matches(a galley.Annotation, name string) bool {
	ok, err := path.Match(a.Pattern, name)
	return ok && err == nil
}
