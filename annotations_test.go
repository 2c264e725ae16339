package galley_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
)

// TestAnnotationsRefused: an annotation that names no parameter or no axis is an error, with or without a
// strategy.
func TestAnnotationsRefused(t *testing.T) {
	for _, s := range []*galley.Strategy{nil, {TP: 2}} {
		for text, want := range map[string]string{
			"*.wq.weight=@[tp,_]":            "annotation *.wq.weight=@[tp,_]: it matches no parameter: want one like",
			"*.q_proj.weight=@[mp,_]":        "axis mp: want one of a strategy's: dp, ep, cp, tp",
			"*.q_proj.weight=@[pp,_]":        "axis pp: want one of a strategy's",
			"*.q_proj.weight=@[tp]":          "got 1 dims, want 2",
			"*.q_proj.weight=@[_,_]+{tp}":    "a parameter is sharded or replicated",
			"*.q_proj.weight=@[tp:(1)2.x,_]": "axis x: want one of a strategy's",
		} {
			_, err := galley.NewEngine(galley.EngineConfig{
				Model: galley.Language(smallModel(t, device(t))), Strategy: s, Annotations: annotations(t, text),
			})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s under %v: got %v, want %q", text, s, err, want)
			}
		}
	}
	_, err := galley.NewEngine(galley.EngineConfig{
		Model: galley.Language(smallModel(t, device(t))), Annotations: []galley.Annotation{{Pattern: "*.q_proj["}},
	})
	if err == nil || !strings.Contains(err.Error(), "syntax error in pattern") {
		t.Errorf("a pattern that is none: %v", err)
	}
}

// TestAnnotationKeepsAxes: an axis of one device splits nothing, and the others of the annotation still hold.
func TestAnnotationKeepsAxes(t *testing.T) {
	layouts := func(list []galley.Annotation) string {
		e, err := galley.NewEngine(galley.EngineConfig{
			Model: galley.Language(smallModel(t, device(t))), Strategy: &galley.Strategy{TP: 2}, Annotations: list,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		c, err := e.Cost(typesOf(batchOf(t, windows(t), 0))...)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v", *c)
	}
	plain, both := layouts(annotations(t, "*.q_proj.weight=@[_,tp]")), layouts(annotations(t,
		"*.q_proj.weight=@[cp,tp]"))
	if plain != both || plain == layouts(nil) {
		t.Errorf("by tp:\n%s\nby cp and tp:\n%s\nwithout:\n%s", plain, both, layouts(nil))
	}
}
