package op

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Await returns xs and makes all of them available at the same time: nothing that uses one of the results is
// computed before all of xs are.
func Await(xs ...*Tensor) []*Tensor {
	if len(xs) == 0 {
		return nil
	}
	return ir.Apply(await{}, xs...)
}

type await struct{ mover }

func (await) Name() string                      { return "await" }
func (await) NumResults(n int) int              { return n }
func (await) VJP(_, _, dys []*Tensor) []*Tensor { return dys }

func (await) Infer(in []Type) ([]Type, error) {
	if len(in) == 0 {
		return nil, fmt.Errorf("want operands: got none")
	}
	return in, nil
}

// Rule does not let any dim be split: a factor of one operand would be missing in the results of the others.
// The op occurs only in programs of a single device.
func (await) Rule(in []Type) mesh.Rule {
	var words []string
	next := 0
	for _, t := range in {
		if next+len(t.Shape) > len(letters) {
			return mesh.Unknown
		}
		word := ""
		for _, f := range factors(next, len(t.Shape)) {
			word += string(f) + "*"
		}
		words, next = append(words, word), next+len(t.Shape)
	}
	side := strings.Join(words, ",")
	return mesh.Rule(side + "->" + side)
}

func (await) Eval(env *Env, in, out []array.Array) {
	for i := range in {
		copyBytes(env, out[i], in[i])
	}
}

func (await) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	types := make([]hlo.Type, len(out))
	for i, t := range out {
		types[i] = hloType(t)
	}
	return w.OpN("optimization_barrier", "", nil, types, in...)
}

func (await) Samples() []Sample { return oneSample(f32(5, 7), f32(3)) }
