package galley_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/strategy"
)

func smallMixtral() models.Config {
	c := smallLlama()
	c.Family, c.Experts, c.ExpertsPerToken = "mixtral", 4, 2
	return c
}

// TestExpertParallel: training steps on devices that share experts and split tokens are those of one device.
// Tokens travel; no expert does, and no token is gathered.
func TestExpertParallel(t *testing.T) {
	uneven := smallMixtral()
	uneven.Experts = 5
	for _, c := range []struct {
		name   string
		config models.Config
		mesh   string
		batch  int
		tokens string
		layout models.Layout
	}{
		{"ep2", smallMixtral(), "ep=2", 2, "@[ep,_]", models.Layout{}},
		{"ep4", smallMixtral(), "ep=4", 4, "@[ep,_]", models.Layout{}},
		{"ep4 uneven tokens and experts", uneven, "ep=4", 6, "@[ep,_]", models.Layout{}},
		{"dp2 ep2", smallMixtral(), "dp=2,ep=2", 4, "@[dp.ep,_]", models.Layout{}},
		{"ep by sequence", smallMixtral(), "ep=2", 2, "@[_,ep]", models.Layout{Parts: 2}},
		{"ep2 cp2", smallMixtral(), "ep=2,cp=2", 2, "@[ep,cp]", models.Layout{Parts: 2, Context: op.ContextRing}},
		{"ep2 cp2 zigzag", smallMixtral(), "ep=2,cp=2", 2, "@[ep,cp]",
			models.Layout{Parts: 2, Order: models.Zigzag}},
		{"dp2 ep2 tp2", smallMixtral(), "dp=2,ep=2,tp=2", 4, "@[dp.ep,_]", models.Layout{}},
		{"capacity", smallMixtral(), "dp=2,ep=2", 4, "@[dp.ep,_]", models.Layout{Capacity: 0.75}},
		{"same tokens everywhere", smallMixtral(), "dp=2,ep=2", 4, "@[dp,_]", models.Layout{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.layout.Experts = 2
			p, args := stepOf(t, c.config, array.F64, c.batch, 8)
			if c.layout.Capacity > 0 {
				p = arrangedStep(t, c.config, models.Layout{Experts: 1, Capacity: c.layout.Capacity}, c.batch, 8)
			}
			one, err := galley.Compile(device(t), p, galley.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := train(t, p, args, 2, one.Run)
			q, m := arrangedStep(t, c.config, c.layout, c.batch, 8), parseMesh(t, c.mesh)
			plan := "none"
			if _, ok := m.Axis("tp"); ok {
				plan = "megatron"
			}
			d := spreadOut(t, q, m, plan, "batch*="+c.tokens, "*.experts.*_proj=@[ep,_,_]")
			e, err := d.Compile(world(t, m.Size()), distribute.Options{})
			if err != nil {
				t.Fatal(err)
			}
			same(t, train(t, q, args, 2, e.Run), want, 1e-10)
			wantExperts(t, d, strings.Contains(c.tokens, "ep"))
		})
	}
}

// wantExperts checks what the experts send.
func wantExperts(t *testing.T, d *galley.Distributed, travels bool) {
	t.Helper()
	exchanges := 0
	for _, x := range d.Inserted() {
		if !strings.Contains(x.Axes, "ep") || !strings.HasPrefix(x.Op, "experts") {
			continue
		}
		switch {
		case x.Kind == "all_to_all" && x.Asked:
			exchanges++
		case x.Kind == "all_reduce" && !travels:
		default:
			t.Errorf("got %v (%s → %s)", x, x.From, x.To)
		}
	}
	if travels && exchanges != 4 { // two layers, there and back
		t.Errorf("got %d exchanges, want 4", exchanges)
	}
}

// TestPlannedBatch: a plan cuts the batch by all axes that a mesh has for it.
func TestPlannedBatch(t *testing.T) {
	p := arrangedStep(t, smallMixtral(), models.Layout{Experts: 2}, 4, 8)
	for _, c := range []struct{ mesh, batch, experts string }{
		{"dp=2,ep=2,cp=2,tp=2", "@[dp.ep,cp]", "@[ep,_,_]"}, {"dp=2,ep=2,tp=2", "@[dp.ep,?]", "@[ep,_,_]"},
		{"dp=2,cp=2,tp=2", "@[dp,cp]", "@[tp,_,_]"}, {"ep=2,tp=2", "@[ep,?]", "@[ep,_,_]"}, {"cp=2,tp=2", "@[?,cp]",
			"@[tp,_,_]"},
		{"dp=2,tp=2", "@[dp,?]", "@[tp,_,_]"},
	} {
		list, err := distribute.PlanAnnotations("megatron", p, parseMesh(t, c.mesh))
		if err != nil {
			t.Fatal(err)
		}
		first := func(pattern string) string {
			for _, a := range list {
				if a.Pattern == pattern {
					return a.Sharding.String()
				}
			}
			return "none"
		}
		if batch, experts := first("batch*"), first("*.experts.down_proj"); batch != c.batch ||
			experts != c.experts {
			t.Errorf("%s: batch %s and experts %s, want %s and %s", c.mesh, batch, experts, c.batch, c.experts)
		}
	}
}

// TestExpertsByHost: rows that go to their experts within hosts and then between them, and heads that change
// places so for whole sequences, give the bits of those that go at once; the plan has groups of both kinds.
func TestExpertsByHost(t *testing.T) {
	t.Parallel()
	uneven := smallMixtral()
	uneven.Experts = 7
	for _, x := range []struct {
		config models.Config
		s      galley.Strategy
	}{
		{smallMixtral(), galley.Strategy{DP: 4, EP: 4}},
		{uneven, galley.Strategy{DP: 4, EP: 4, Zero: 3}},
		{uneven, galley.Strategy{DP: 8, EP: 8, Zero: 1}},
		{smallLlama(), galley.Strategy{CP: 4, Context: "ulysses"}},
	} {
		t.Run(x.s.String(), func(t *testing.T) {
			x.config.Heads, x.config.KVHeads = 4, 4
			batch := array.Shape{8, 17}
			make := func() *trial {
				tr, err := tryTrial(t, x.config, array.F32, &x.s, batch)
				if err != nil {
					t.Fatal(err)
				}
				return tr
			}
			want := make().train(t, 3)
			x.s.Host = 2
			by := make()
			if got := by.train(t, 3); !slices.Equal(got, want) {
				t.Errorf("losses and norms are %v, want %v", got, want)
			}
			text := by.planned(t).Step.TapeText(0)
			if !strings.Contains(text, `inner="`) && !strings.Contains(text, `all_to_all{mesh="cp=4" axes="cp:(2)2"`) {
				t.Errorf("no exchange goes by hosts:\n%s", text)
			}
		})
	}
}

// TestExpertsAway: with the matrices of experts and the optimizer's state of them in the host's memory or in
// files, steps have the same bits, and devices keep neither; the store has both.
func TestExpertsAway(t *testing.T) {
	t.Parallel()
	c := smallMixtral()
	c.Experts = 8
	for _, s := range []galley.Strategy{{}, {Micro: 2}, {DP: 2, EP: 2, Zero: 1}, {PP: 2, Micro: 2}} {
		t.Run(s.String(), func(t *testing.T) {
			run := func(o strategy.Offload) (curve []float64, m galley.DeviceMemory, elsewhere int) {
				s.Offload = o
				x, err := tryTrial(t, c, array.F32, &s, array.Shape{8, 9})
				if err != nil {
					t.Fatal(err)
				}
				p := x.planned(t)
				return x.train(t, 4), p.Memory[0], p.Step.OffloadedBytes(0)
			}
			want, near, _ := run(strategy.Offload{Experts: 1e-9}) // as one op, and none is away
			for _, o := range []strategy.Offload{{Experts: 1}, {Experts: 1, Dir: t.TempDir()},
				{Experts: 0.5, Optimizer: 1}} {
				got, m, elsewhere := run(o)
				if !slices.Equal(got, want) {
					t.Errorf("%v: losses and norms are %v, want %v", o, got, want)
				}
				if o.Experts == 1 && (2*m.Weights > near.Weights || 2*m.Slots > near.Slots || elsewhere < near.Weights) {
					t.Errorf(
						"%v: a device keeps %+v and %d bytes elsewhere, with experts in memory %+v",
						o,
						m,
						elsewhere,
						near,
					)
				}
			}
		})
	}
	if _, err := tryTrial(t, smallLlama(), array.F32, &galley.Strategy{Offload: strategy.Offload{Experts: 1}},
		array.Shape{4, 9}); err == nil || !strings.Contains(err.Error(), "llama has none") {
		t.Errorf("a model without experts: %v", err)
	}
}
