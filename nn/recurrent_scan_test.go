package nn_test

import (
	"fmt"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
)

// TestRecurrentScan: as one op layers give the bits of unrolled ones, and their gradients to the last digits;
// programs do not grow with the sequence.
func TestRecurrentScan(t *testing.T) {
	d := galley.CPU(galley.Config{Threads: 2})
	defer d.Close()
	for name, kind := range plainCells {
		t.Run(name, func(t *testing.T) {
			run := func(scan bool, steps int) (values, grads []array.Array, nodes int) {
				s := d.NewSession()
				in := nn.NewInit(nn.Config{Scope: s, Seed: 5, DType: array.F64})
				r := kind.make(in, 3, 4, nn.RecurrentConfig{Layers: 2, Bidirectional: true, Scan: scan})
				x := array.New(array.F64, 2, steps, 3)
				for i := range x.Len() {
					x.Set(i, float64(i%7)/5-0.6)
				}
				y, last := r.Run(s.Tensor(x), nil)
				var params []*op.Tensor
				for _, p := range in.Params() {
					params = append(params, p.Value)
				}
				loss := op.Add(op.Sum(op.Mul(y, op.Sin(y))), op.Sum(op.Square(last[len(last)-1])))
				for _, v := range append([]*op.Tensor{y}, last...) {
					values = append(values, mustRead(t, v))
				}
				for _, g := range op.Grad([]*op.Tensor{loss}, nil, params) {
					grads = append(grads, mustRead(t, g))
				}
				f, err := galley.Trace("recurrent", []op.Type{{DType: array.F64, Shape: x.Shape()}},
					func(in []*op.Tensor) []*op.Tensor { return []*op.Tensor{r.Forward(in[0])} })
				if err != nil {
					t.Fatal(err)
				}
				return values, grads, len(f.Nodes())
			}
			want, wantGrads, _ := run(false, 9)
			got, gotGrads, short := run(true, 9)
			for i := range want {
				if fmt.Sprint(got[i]) != fmt.Sprint(want[i]) {
					t.Errorf("result %d: got %v, want %v", i, got[i], want[i])
				}
			}
			for i, g := range gotGrads {
				for k := range g.Len() {
					if diff := g.At(k) - wantGrads[i].At(k); diff > 1e-12 || diff < -1e-12 {
						t.Fatalf("gradient %d: got %v, want %v", i, g, wantGrads[i])
					}
				}
			}
			if _, _, long := run(true, 30); long != short {
				t.Errorf("%d nodes for 30 steps, %d for 9", long, short)
			}
		})
	}
}

func mustRead(t *testing.T, x *op.Tensor) array.Array {
	t.Helper()
	a, err := galley.Read(x)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
