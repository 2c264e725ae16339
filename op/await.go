package op

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// Await returns xs, none of which is there before all of them are: what is computed from one waits for what
// the others are computed from.
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

// Rule keeps all dims whole, as far as there are names for them: a factor of one operand would be missing in
// the results of others. The op stands in programs of one device.
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
