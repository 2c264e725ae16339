package auto

import (
	"math"

	"github.com/galley-ml/galley/internal/seed"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/strategy"
)

// bound returns a lower bound of the step time of all candidates: on each mesh, with each number of
// micro-batches, every op split in the way that computes least, on as many devices as compute at once.
func (f *finder) bound() float64 {
	least := math.Inf(1)
	for _, m := range f.space.meshes() {
		for _, n := range f.space.micros(m) {
			if m.Micro = n; placed(m) { // no layout is better than every op split over all devices
				m.DP, m.TP, m.PP = f.space.devices, 1, 1
			}
			if seconds, err := f.floor(m); err == nil {
				least = min(least, seconds)
			}
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// floor returns the lower bound of one mesh. A pipeline of pp stages computes a pp-th of it at a time.
func (f *finder) floor(m strategy.Strategy) (float64, error) {
	whole := m
	whole.DP = 1
	p, err := f.seeds.program(whole, m.Micro)
	if err != nil {
		return 0, err
	}
	grid, err := mesh.New([]mesh.Axis{{Name: strategy.DataAxis, Size: m.DP},
		{Name: strategy.TensorAxis, Size: m.TP}})
	if err != nil {
		return 0, err
	}
	clock := f.c.Machine.clock(m.Devices(), m.DP*m.TP)
	seconds, err := seed.Floor(p, grid, f.c.Machine.prices(grid, m))
	if err != nil {
		return 0, err
	}
	n := m.Devices()
	busy := float64(n*threads(clock, n)) / float64(min(clock.Cores, n*threads(clock, n)))
	return seconds * busy / float64(m.PP), nil
}
