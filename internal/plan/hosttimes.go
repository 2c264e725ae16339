package plan

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/galley-ml/galley/op"
)

// factorAt returns the factor of count products, interpolated from the measured ones: weights decrease with
// the distance in sides and count, on a logarithmic scale. It is 1 if none is known.
func factorAt(list []HostFactor, s Sides, count float64) float64 {
	logs, weights := 0.0, 0.0
	for _, f := range list {
		far := 0.0
		for _, side := range [][2]float64{{float64(s.M), float64(f.M)}, {float64(s.N), float64(f.N)},
			{float64(s.K), float64(f.K)}, {count, f.Count}} {
			if side[0] > 0 && side[1] > 0 {
				far += math.Abs(math.Log2(side[0] / side[1]))
			}
		}
		weight := math.Exp(-2 * far)
		logs, weights = logs+weight*math.Log(f.Factor), weights+weight
	}
	if weights == 0 {
		return 1
	}
	return math.Exp(logs / weights)
}

// amid returns the time of an op, interpolated from the measured points around it. Points of similar
// arithmetic intensity, which determines the length of an op's inner loops, form a line along which time
// depends on work; between two lines it is interpolated on a logarithmic scale.
func amid(points []HostPoint, w op.Work) float64 {
	lines := map[float64][]HostPoint{}
	for _, p := range points {
		k := math.Round(intensity(p.Flops, p.Bytes))
		lines[k] = append(lines[k], p)
	}
	at := intensity(w.Flops, w.Bytes)
	low, high := math.Inf(-1), math.Inf(1)
	for k, line := range lines {
		if x := middle(line); x <= at {
			low = math.Max(low, k)
		} else {
			high = math.Min(high, k)
		}
	}
	switch {
	case math.IsInf(low, -1):
		return between(lines[high], w.Flops+w.Bytes)
	case math.IsInf(high, 1):
		return between(lines[low], w.Flops+w.Bytes)
	}
	a, b := middle(lines[low]), middle(lines[high])
	part := (at - a) / (b - a)
	return math.Pow(between(lines[low], w.Flops+w.Bytes),
		1-part) * math.Pow(between(lines[high], w.Flops+w.Bytes), part)
}

// middle returns the mean intensity of a line's points.
func middle(line []HostPoint) float64 {
	sum := 0.0
	for _, p := range line {
		sum += intensity(p.Flops, p.Bytes)
	}
	return sum / float64(len(line))
}

// intensity returns the logarithm of operations per byte.
func intensity(flops, bytes float64) float64 { return math.Log2(flops/(bytes+1) + 1) }

// between returns the time of work on the line through points. Beyond both ends it is proportional to work.
func between(points []HostPoint, work float64) float64 {
	points = slices.SortedStableFunc(slices.Values(points),
		func(a, b HostPoint) int { return cmp.Compare(a.work(), b.work()) })
	i := sort.Search(len(points), func(i int) bool { return points[i].work() >= work })
	switch {
	case i == 0:
		return points[0].Seconds * work / points[0].work()
	case i == len(points):
		return points[i-1].Seconds * work / points[i-1].work()
	}
	a, b := points[i-1], points[i]
	return a.Seconds + (work-a.work())/(b.work()-a.work())*(b.Seconds-a.Seconds)
}

func (p HostPoint) work() float64 { return p.Flops + p.Bytes }

// Product returns the seconds of one product, at a rate interpolated from the grid's shapes around it, by
// logarithms of the sides.
func (h *Host) Product(s Sides) float64 {
	var axes [3][]int
	rates := map[[3]int]float64{}
	for _, p := range h.Products {
		key := [3]int{p.M, p.N, p.K}
		rates[key] = p.Rate
		for i, side := range key {
			if !slices.Contains(axes[i], side) {
				axes[i] = append(axes[i], side)
			}
		}
	}
	var low, high [3]int
	var part [3]float64
	for i, side := range [3]int{s.M, s.N, s.K} {
		slices.Sort(axes[i])
		low[i], high[i], part[i] = around(axes[i], side)
	}
	logs, weights := 0.0, 0.0
	for corner := range 8 {
		key, w := low, 1.0
		for i := range 3 {
			if corner>>i&1 == 1 {
				key[i] = high[i]
				w *= part[i]
			} else {
				w *= 1 - part[i]
			}
		}
		if r := rates[key]; r > 0 && w > 0 {
			logs, weights = logs+w*math.Log(r), weights+w
		}
	}
	rate := h.Rate
	if weights > 0 {
		rate = math.Exp(logs / weights)
	}
	return 2 * float64(s.M) * float64(s.N) * float64(s.K) / rate
}

// around returns the neighbours of a side on an axis and its position between them.
func around(axis []int, side int) (low, high int, part float64) {
	i := sort.SearchInts(axis, side)
	switch {
	case i == 0:
		return axis[0], axis[0], 0
	case i == len(axis):
		return axis[i-1], axis[i-1], 0
	}
	low, high = axis[i-1], axis[i]
	return low, high, math.Log(float64(side)/float64(low)) / math.Log(float64(high)/float64(low))
}
