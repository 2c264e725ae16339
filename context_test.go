package galley_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

func smallGPT2() models.Config {
	return models.Config{Family: "gpt2", Vocab: 24, Hidden: 16, Intermediate: 32, Layers: 2, Heads: 4,
		Positions: 16}
}

// arrangedStep returns the training step of a new model under a layout.
func arrangedStep(t testing.TB, c models.Config, l models.Layout, batch, seq int) *galley.Program {
	t.Helper()
	m, err := models.New(c, nn.Config{DType: array.F64, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if m, err = models.Arrange(m, l); err != nil {
		t.Fatal(err)
	}
	return trace(t, m, batch, seq)
}

// zigzagged returns the rows of ids in zigzag order.
func zigzagged(a array.Array, parts int) array.Array {
	out := a.Clone()
	seq := a.Shape()[1]
	for i := range a.Len() {
		row := i / seq * seq
		array.Data[int32](out)[i] = array.Data[int32](a)[row+op.ZigzagOrder(parts, seq)[i-row]]
	}
	return out
}

// distributeBatch splits sequences, and whatever else the plan splits.
func distributeBatch(t testing.TB, p *galley.Program, m *mesh.Mesh, batch string) *galley.Distributed {
	plan := "none"
	if _, ok := m.Axis("tp"); ok {
		plan = "megatron"
	}
	return spreadOut(t, p, m, plan, "batch*="+batch)
}

// TestContextParallel: training steps on sequences that devices share are those of one device, and nothing of
// a sequence is brought together but what attention asks for.
func TestContextParallel(t *testing.T) {
	sliding := smallLlama()
	sliding.Family, sliding.Window = "mistral", 5
	for k, c := range []struct {
		config models.Config
		mesh   string
		seq    int
	}{
		{smallLlama(), "cp=2", 8}, {smallLlama(), "cp=4", 16}, {smallLlama(), "dp=2,cp=2", 12}, {smallLlama(),
			"cp=3", 8},
		{smallLlama(), "cp=2,tp=2", 8}, {sliding, "cp=4", 16}, {smallGPT2(), "cp=2", 8}, {smallGPT2(), "dp=2,cp=4",
			16},
	} {
		for i, l := range []models.Layout{
			{Context: op.ContextRing}, {Context: op.ContextUlysses}, {}, {Context: op.ContextRing,
				Order: models.Zigzag},
			{Context: op.ContextRing, Order: models.Zigzag, Given: models.Zigzag},
		} {
			if testing.Short() && i != k%5 { // each mesh and each layout, not each pair
				continue
			}
			name := fmt.Sprintf("%s,%s,seq=%d,%s,order=%d,given=%d", c.config.Family, c.mesh, c.seq, l.Context,
				l.Order, l.Given)
			t.Run(name, func(t *testing.T) { contextParallel(t, c.config, l, c.mesh, c.seq) })
		}
	}
}

func contextParallel(t *testing.T, c models.Config, l models.Layout, meshText string, seq int) {
	p, args := stepOf(t, c, array.F64, 2, seq)
	one, err := galley.Compile(device(t), p, galley.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := train(t, p, args, 2, one.Run)
	m := parseMesh(t, meshText)
	axis, _ := m.Axis("cp")
	l.Parts = axis.Size
	heads := 1
	if tp, ok := m.Axis("tp"); ok {
		heads = tp.Size
	}
	l, _ = l.Fit(c, seq, heads)
	q := arrangedStep(t, c, l, 2, seq)
	if l.Given == models.Zigzag {
		n := len(args)
		args = append(slices.Clone(args[:n-2]), zigzagged(args[n-2], l.Parts), zigzagged(args[n-1], l.Parts))
	}
	batch := "@[_,cp]"
	if _, ok := m.Axis("dp"); ok {
		batch = "@[dp,cp]"
	}
	d := distributeBatch(t, q, m, batch)
	e, err := d.Compile(world(t, m.Size()), distribute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, train(t, q, args, 2, e.Run), want, 1e-10)
	wantContext(t, d, l)
}

// wantContext checks who communicates along the axis of the sequence: sums of gradients, attention as it was
// told to, and ids that are put in order.
func wantContext(t *testing.T, d *galley.Distributed, l models.Layout) {
	t.Helper()
	kinds := map[string]int{}
	for _, x := range d.Inserted() {
		if !strings.Contains(x.Axes, "cp") || strings.HasPrefix(x.Tensor, "i32") {
			continue
		}
		attends := strings.HasPrefix(x.Op, "attention")
		kinds[x.Kind]++
		switch {
		case x.Kind == "all_reduce", x.Kind == "reduce_scatter" && !attends:
		case x.Kind == "permute" && attends && x.Asked && l.Context != op.ContextUlysses:
		case x.Kind == "all_to_all" && l.Context == op.ContextUlysses:
		default:
			t.Errorf("got %v (%s → %s)", x, x.From, x.To)
		}
	}
	if want := map[string]string{op.ContextUlysses: "all_to_all", op.ContextRing: "permute",
		"": "permute"}[l.Context]; kinds[want] == 0 {
		t.Errorf("got %v: want %s", kinds, want)
	}
}

// TestContextMemory: four devices that share a sequence need a quarter of one device's memory each, however
// they attend.
func TestContextMemory(t *testing.T) {
	const seq, parts = 4096, 4
	c := smallLlama()
	c.Positions, c.Heads, c.KVHeads = seq, 8, 4
	whole := arrangedStep(t, c, models.Layout{}, 1, seq)
	one, err := galley.Distribute(whole, galley.DistributeConfig{Mesh: parseMesh(t, "cp=1")})
	if err != nil {
		t.Fatal(err)
	}
	all, err := one.Memory(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []models.Layout{
		{Parts: parts, Context: op.ContextRing}, {Parts: parts, Context: op.ContextUlysses},
		{Parts: parts, Context: op.ContextRing, Order: models.Zigzag, Given: models.Zigzag},
	} {
		d := distributeBatch(t, arrangedStep(t, c, l, 1, seq), parseMesh(t, "cp=4"), "@[_,cp]")
		for id := range parts {
			part, err := d.Memory(id)
			if err != nil {
				t.Fatal(err)
			}
			ratio := float64(part.Arena) * parts / float64(all.Arena)
			t.Logf("%s, order %d, device %d: %d bytes of %d: %.3f of a quarter", l.Context, l.Order, id, part.Arena,
				all.Arena, ratio)
			if ratio > 1.1 {
				t.Errorf("%s, order %d, device %d: %.3f of a quarter", l.Context, l.Order, id, ratio)
			}
		}
	}
}
