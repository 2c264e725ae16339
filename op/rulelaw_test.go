package op_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/op/optest"
)

var sweep = flag.Bool("sweep", false,
	"run the rule law on more sizes and look for missing rules on all meshes")

// lawGrid returns what the rule laws try; of meshes only the one given in short runs.
func lawGrid(short string) optest.Grid {
	g := optest.Grid{Meshes: []string{"x=2", "x=3", "x=4", "x=2,y=2", "x=2,y=3"},
		DTypes: []array.DType{array.F64, array.F32}, Sizes: []int{0, 2}}
	if *sweep {
		g.Sizes = []int{0, 1, 2, 8}
	}
	if testing.Short() {
		g.Meshes, g.DTypes = []string{short}, g.DTypes[:1]
	}
	return g
}

func TestRuleLaw(t *testing.T) {
	pairs, grid := 0, lawGrid("x=2")
	law(t, func(t *testing.T, o op.Op, args []op.Arg) { pairs += optest.Rule(t, o, args, grid) })
	t.Logf("%d pairs of an op and an assignment", pairs)
}

func TestCooperativeLaw(t *testing.T) {
	pairs, grid := 0, lawGrid("x=3")
	law(t, func(t *testing.T, o op.Op, args []op.Arg) { pairs += optest.Cooperative(t, o, args, grid) })
	t.Logf("%d pairs of an op and an assignment", pairs)
}

// reasonsForWhole is the samples in which a factor may be split by chance.
var reasonsForWhole = map[string]string{
	"concat/2": "what is joined is empty but for one operand",
	"update_buffer/1": "the result has nothing of the buffer, so no reduction of it is right but one of " +
		"equal copies",
	"while/1": "the bound ends it before the condition does, on every device",
	"fused/0": "programs are fused when they have been split",
	"fused/1": "programs are fused when they have been split",
	"fused/2": "programs are fused when they have been split",
}

// TestMissingRules tries to split every factor that a rule keeps whole. One that could be split is freedom
// given away, unless reasonsForWhole has a reason.
func TestMissingRules(t *testing.T) {
	for _, o := range op.All() {
		if _, local := o.(op.Collective); local {
			continue // an op of local programs, which are not split again
		}
		for i, s := range optest.Samples(o) {
			missing := optest.MissingFactors(t, s)
			rule := s.Op.Rule(argTypes(s.In))
			if reasonsForWhole[fmt.Sprintf("%s/%d", o.Name(), i)] != "" {
				continue
			}
			if missing != "" || rule == mesh.Unknown {
				t.Errorf("%s/%d: rule %q: %s%v may be split along %q", o.Name(), i, rule, ir.FormatOp(s.Op),
					argTypes(s.In), missing)
			}
		}
	}
}

func argTypes(args []op.Arg) []op.Type {
	ts := make([]op.Type, len(args))
	for i, a := range args {
		ts[i] = a.Type
	}
	return ts
}

// TestRuleLawFindsWrongRules: the law is only worth what it refuses.
func TestRuleLawFindsWrongRules(t *testing.T) {
	meshes := []string{"x=2", "x=2,y=2"}
	for _, c := range []struct {
		name  string
		wrong mesh.Rule
		what  string
	}{
		{"softmax", "abc->abc", "sums over the split dim are not combined"},
		{"sum", "abc->bc; a:max", "combined by another reduction"},
		{"matmul", "mk,kn->mn; k:max", "combined by another reduction"},
		{"cumsum", "abc->abc", "a part does not know what precedes it"},
		{"flip", "ab->ab", "parts change places"},
		{"linear", "abK,NK,N->abN; K:max", "combined by another reduction"},
	} {
		o, _ := op.Lookup(c.name)
		s := optest.Samples(o.(op.Op))[0]
		for _, m := range meshes {
			if optest.WrongRule(t, s.Op, s.In, c.wrong, m) == nil {
				t.Errorf("%s passes on %s with the rule %q: %s", c.name, m, c.wrong, c.what)
			}
		}
	}
}
