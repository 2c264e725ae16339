package galley_test

import (
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/lower"
)

// TestStableHLOGolden: the module that the devices of a mesh share for a whole training step, collectives
// with their groups included, is the one in testdata. It parses back and passes the verifier.
func TestStableHLOGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txt", func(t *testing.T, b golden.Block) string {
		c := smallLlama()
		c.Layers = 1
		p, _ := stepOf(t, c, array.F32, 4, 6)
		m := parseMesh(t, b.Args[0])
		d := spreadOut(t, p, m, b.Args[1])
		var locals []*ir.Func
		for device := range m.Size() {
			local, err := d.Local(device)
			if err != nil {
				t.Fatal(err)
			}
			locals = append(locals, local)
		}
		text, err := lower.SPMD(locals,
			lower.ModuleConfig{Config: hlo.Config{Replicas: m.Size(), Target: hlo.CUDA}})
		parseModule(t, text, err)
		return text
	})
}
