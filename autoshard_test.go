package galley_test

import (
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/mesh"
)

// TestSearchedSteps: what the search decides computes what one device does, and where devices are slow and
// links fast it does split.
func TestSearchedSteps(t *testing.T) {
	prices := distribute.Prices{Default: distribute.Link{Alpha: 1e-9, Beta: 1e-12}, Memory: 1e-9, Flop: 1e-9}
	for _, text := range shortened([]string{"dp=2,tp=2", "x=4", "dp=3"}) {
		p, args := stepOf(t, smallLlama(), array.F64, 4, 6)
		one, err := galley.Compile(device(t), p, galley.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := train(t, p, args, 2, one.Run)
		m := parseMesh(t, text)
		d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: m, Next: distribute.StepNext(p),
			Choice: distribute.Searched, Prices: prices})
		if err != nil {
			t.Fatal(text, err)
		}
		if len(d.Inserted()) == 0 {
			t.Errorf("%s: nothing is split", text)
		}
		if r := d.Search(); r.Bound > r.Seconds || !strings.Contains(r.String(), "from the best") {
			t.Errorf("%s: %v", text, r)
		}
		e, err := d.Compile(world(t, m.Size()), distribute.Options{})
		if err != nil {
			t.Fatal(text, err)
		}
		same(t, train(t, p, args, 2, e.Run), want, 1e-9)
	}
}

// TestSearchedKeepsAnnotations: what a user asks of a parameter stays.
func TestSearchedKeepsAnnotations(t *testing.T) {
	p, _ := stepOf(t, smallLlama(), array.F32, 4, 6)
	asked, err := mesh.ParseAnnotation("*.down_proj.weight=@[_,tp]")
	if err != nil {
		t.Fatal(err)
	}
	d, err := galley.Distribute(p, galley.DistributeConfig{
		Mesh: parseMesh(t,
			"dp=2,tp=2"), Next: distribute.StepNext(p), Choice: distribute.Searched,
		Annotations: []galley.Annotation{asked},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range p.Params() {
		if strings.HasSuffix(v.Name(), "down_proj.weight") {
			if _, s := d.Param(i); !s.Equal(mesh.Split(nil, mesh.On("tp"))) {
				t.Errorf("%s has layout %v", v.Name(), s)
			}
		}
	}
}
