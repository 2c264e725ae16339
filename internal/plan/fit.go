package plan

import (
	"math"
	"slices"
)

// Observation is a run that was estimated without constants, and measured.
type Observation struct {
	Parts    Parts
	Measured float64
	// Layers is how many times a layer was run on one device: layers of a pipeline rank times micro-batches.
	Layers float64
	// Weight is how much it counts; 0 means 1.
	Weight float64
}

// with is the time that an observation would be estimated at with constants.
func (o *Observation) with(c Constants) float64 {
	p := &o.Parts
	compute := p.Compute + p.Recompute
	comm := p.TP + p.CP + p.EP + p.PP
	fixed := o.Layers * c.Layer
	bubble := p.Bubble
	if compute+comm > 0 { // a stage that one waits for is slower by as much
		bubble *= (compute*c.compute() + comm*c.communication() + fixed) / (compute + comm)
	}
	return (compute+p.Optimizer)*c.compute() + (comm+p.DP)*c.communication() + fixed + bubble + p.Offload
}

// Fit finds the constants that leave the smallest mean error of the logarithm, within bounds that physics
// allows: hardware does not compute faster than its micro-benchmarks by more than a little, nor half as fast.
func Fit(obs []Observation) Constants {
	best, found := math.Inf(1), Constants{Compute: 1, Communication: 1}
	for _, layer := range [...]float64{0, 0.1e-3, 0.2e-3, 0.3e-3, 0.5e-3, 0.7e-3, 1e-3, 1.4e-3} {
		for c := 0.85; c <= 1.9; c *= 1.02 {
			for n := 0.7; n <= 2.5; n *= 1.08 {
				k := Constants{Compute: c, Communication: n, Layer: layer}
				// Away from nothing costs a little: with few runs, only a clear gain moves a constant.
				loss := fitLoss(obs, k) + 0.03*math.Abs(math.Log(n)) + 0.01*math.Abs(math.Log(c)) + 2*layer
				if loss < best {
					best, found = loss, k
				}
			}
		}
	}
	return found
}

func fitLoss(obs []Observation, c Constants) float64 {
	sum, weights := 0.0, 0.0
	for i := range obs {
		w := orOne(obs[i].Weight)
		sum += w * math.Abs(math.Log(obs[i].with(c)/obs[i].Measured))
		weights += w
	}
	return sum / math.Max(weights, 1e-9)
}

// FitSpread is half the width of an interval that holds nine tenths of the observations.
func FitSpread(obs []Observation, c Constants) float64 {
	var errs []float64
	for i := range obs {
		errs = append(errs, math.Abs(obs[i].with(c)/obs[i].Measured-1))
	}
	if len(errs) == 0 {
		return 0
	}
	slices.Sort(errs)
	return errs[min(len(errs)-1, len(errs)*9/10)]
}
