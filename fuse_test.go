package galley_test

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
)

// TestLoopsDoNotMatter: the losses of every family have the same bits with ops joined to loops, as generated
// code and as strips, and without.
func TestLoopsDoNotMatter(t *testing.T) {
	for _, c := range shortened(families(t)) {
		for _, how := range []struct{ fuse, jit string }{{"on", "on"}, {"on", "off"}} {
			t.Run(c.Family+"/jit="+how.jit, func(t *testing.T) {
				t.Setenv("GALLEY_FUSE", "off")
				want := curve(t, device(t), c, galley.Static, array.F32)
				t.Setenv("GALLEY_FUSE", how.fuse)
				t.Setenv("GALLEY_JIT", how.jit)
				got := curve(t, device(t), c, galley.Static, array.F32)
				for i := range want {
					if got[i] != want[i] {
						t.Fatalf("got %v\nwant %v", got, want)
					}
				}
			})
		}
	}
}
