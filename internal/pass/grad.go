package pass

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// Grad returns a program with f's results followed by the gradient of its first result, which must be a
// scalar, with respect to the parameters wrt. The program can be differentiated again.
func Grad(f *ir.Func, wrt []int) (*ir.Func, error) {
	if len(f.Results()) == 0 || f.Results()[0].Shape().Len() != 1 {
		return nil, fmt.Errorf("gradient of %s: the first result must be one number", f.Name())
	}
	b := ir.NewBuilder(f.Name())
	args := b.ParamsOf(f)
	results := f.Replay(b, args, nil)
	xs := make([]*ir.Value, len(wrt))
	for i, w := range wrt {
		if w < 0 || w >= len(args) {
			return nil, fmt.Errorf("gradient of %s: no parameter %d: it has %d", f.Name(), w, len(args))
		}
		xs[i] = args[w]
	}
	return b.Build(append(results, op.Grad(results[:1], nil, xs)...)...)
}
