package galley_test

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/mesh"
)

func FuzzParseStrategy(f *testing.F) {
	for _, text := range []string{"", "dp=2,tp=2,pp=2", " cp=2 , ep=4", "dp=0", "dp=2,dp=2",
		"dp=99999999999999999999", "xp=1", ","} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := galley.ParseStrategy(text)
		if err != nil {
			return
		}
		for _, n := range []int{s.DP, s.TP, s.PP, s.CP, s.EP} {
			if n < 0 {
				t.Fatalf("%q: degree %d", text, n)
			}
		}
	})
}

func FuzzParseAnnotation(f *testing.F) {
	for _, text := range []string{"*.up_proj.weight=@[tp,_]", "w=[dp,?]", "[=@[]", "a=b=@[x]",
		"*=@[{x,y},_]+{z}", "w"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := mesh.ParseAnnotation(text)
		if err != nil {
			return
		}
		if b, err := mesh.ParseAnnotation(a.String()); err != nil || b.String() != a.String() {
			t.Fatalf("%q reads back as %q: %v", a, b, err)
		}
	})
}
