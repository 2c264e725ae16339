package step

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm/inproc"
)

// TestForward: the forward half of every sample gives what its program gives on one device, also for fewer
// micro-batches than the schedule has.
func TestForward(t *testing.T) {
	for _, x := range samples {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			for _, micros := range []int{1, x.micros} {
				c := x.config(t)
				c.Variant = c.Variant[:micros]
				got := forward(t, c)
				alone := sample{ranks: 1, dp: 1, micros: x.micros, schedule: "1f1b"}.config(t)
				alone.Variant, alone.Forwards = alone.Variant[:micros], c.Forwards
				for m, want := range forward(t, alone) {
					if math.Abs(got[m]-want) > 1e-12 {
						t.Errorf("%d micro-batches: got %v, want %v of number %d", micros, got[m], want, m)
					}
				}
			}
		})
	}
}

// forward returns the first result of a pass for each micro-batch.
func forward(t *testing.T, c Config) []float64 {
	t.Helper()
	p, err := NewForward(c)
	if err != nil {
		t.Fatal(err)
	}
	w, err := inproc.New(p.Devices())
	if err != nil {
		t.Fatal(err)
	}
	r := StartForward(w)
	defer r.Close()
	wave := func(seed int) array.Array {
		a := array.New(array.F64, 4, 4)
		for i := range a.Len() {
			a.Set(i, 0.3*math.Sin(float64(seed*31+i)))
		}
		return a
	}
	weights := func(device, weight int) (array.Array, error) {
		for _, m := range c.Meshes {
			l, err := c.Weights[weight].Rest.Layout(m, []int{4, 4})
			if err != nil {
				return array.Array{}, err
			}
			if box, ok := l.Box(device); ok {
				part := array.New(array.F64, box.Size...)
				array.CopyBox(part, []int{0, 0}, wave(100+weight), box.Start, box.Size)
				return part, nil
			}
		}
		return array.Array{}, fmt.Errorf("no device %d", device)
	}
	var batch [][]array.Array
	for m := range c.Variant {
		batch = append(batch, []array.Array{wave(m)})
	}
	out, err := r.Run(context.Background(), p, weights, batch)
	if err != nil {
		t.Fatal(err)
	}
	var list []float64
	for _, results := range out {
		list = append(list, results[0].At(0))
	}
	return list
}
