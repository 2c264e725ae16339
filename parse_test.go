package galley_test

import (
	"testing"

	"github.com/galley-ml/galley/mesh"
)

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
