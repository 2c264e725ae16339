package plan

import (
	"math"
	"slices"
)

// Observation is a step that was estimated without constants, and measured on this machine.
type Observation struct {
	Parts    Parts
	Measured float64
}

// with returns the estimated time of an observation with constants.
func (o *Observation) with(c Constants) float64 {
	p := &o.Parts
	compute, comm := p.Compute+p.Recompute, p.TP+p.CP+p.EP+p.PP
	bubble := p.Bubble
	if compute+comm > 0 { // a stage that another one waits for is slower by as much
		bubble *= (compute*c.compute() + comm*c.communication()) / (compute + comm)
	}
	return (compute+p.Optimizer)*c.compute() + (comm+p.DP)*c.communication() + bubble + p.Offload + p.Fixed
}

// Fit determines the ratios of measured to estimated time for computation and communication on this machine,
// and the spread of steps around them. Both are shrunk towards a common factor, because steps that differ
// little in their communication do not separate them.
func Fit(obs []Observation) (c Constants, spread float64) {
	var ratios []float64
	for i := range obs {
		ratios = append(ratios, obs[i].Measured/obs[i].Parts.Sum())
	}
	if len(ratios) == 0 {
		return Constants{}, 0
	}
	slices.Sort(ratios)
	middle := ratios[len(ratios)/2]
	best := math.Inf(1)
	for a := 0.5; a <= 2.01; a *= 1.05 {
		for b := 0.1; b <= 10.1; b *= 1.1 {
			k := Constants{Compute: bound(middle * a), Communication: bound(middle * b)}
			if loss := fitLoss(obs, k) + 0.02*math.Abs(math.Log(b/a)); loss < best {
				best, c = loss, k
			}
		}
	}
	return c, fitSpread(obs, c)
}

// bound clamps a constant to the range that a calibration may hold.
func bound(x float64) float64 { return min(99, max(1e-3, x)) }

func fitLoss(obs []Observation, c Constants) float64 {
	sum := 0.0
	for i := range obs {
		sum += math.Abs(math.Log(obs[i].with(c) / obs[i].Measured))
	}
	return sum / float64(len(obs))
}

// leastSpread is the narrowest interval that is promised for steps measured on this machine.
const leastSpread = 0.05

// fitSpread returns half the width of an interval that contains all observations.
func fitSpread(obs []Observation, c Constants) float64 {
	most := leastSpread
	for i := range obs {
		most = max(most, math.Exp(math.Abs(math.Log(obs[i].with(c)/obs[i].Measured)))-1)
	}
	return min(99, most)
}
