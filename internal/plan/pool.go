package plan

import (
	"math"
	"slices"
)

// Pool predicts the deviation of runs from measured runs of other sources. It is a hierarchical model with
// effects of a software era, of an era on a device, and of the source that measured. Each effect is shrunk
// towards zero, the prediction without constants, as far as sources disagree: what only one source shows
// counts little, and a source that is unlike all others is predicted as without any.
type Pool struct {
	seen    []Residual
	agreed  map[pair]bool // seen by two sources or more: eras, and eras on devices
	widths  [levels]float64
	factor  [][]float64 // Cholesky factor of the covariance of what was seen
	weights []float64
	// doubt is the number of standard deviations by which a correction is shrunk: only what is certain is
	// corrected, so that no source is predicted worse than without.
	doubt float64
	// stretch is the factor by which intervals must be wider than the model says, to contain the runs of sources
	// that it has not seen.
	stretch float64
}

// pair is an era of software on a device, or on any.
type pair struct{ era, device string }

// Expected is the expected deviation of runs of some kind.
type Expected struct {
	// Factor multiplies the predicted time. Nine of ten runs are between the product divided by 1+Spread and the
	// product multiplied by it.
	Factor, Spread float64
}

// The levels of the hierarchy. The last three are a source's own and say nothing about others: of all its
// runs, of those of a kind, and of those with experts, which differ more.
const (
	ofEra = iota
	ofBoth
	ofSource
	ofOwn
	ofExperts
	levels
)

// shares reports whether two groups of runs share an effect. The effect of an era or a device that only one
// source shows is attributed to that source, because they cannot be separated.
func (p *Pool) shares(level int, a, b *Residual) bool {
	switch level {
	case ofEra:
		return a.Era == b.Era && a.Era != "" && (p.agreed[pair{era: a.Era}] || a.Source == b.Source)
	case ofBoth:
		at := pair{a.Era, a.Device}
		return at == pair{b.Era, b.Device} && (p.agreed[at] || a.Source == b.Source)
	case ofSource:
		return a.Source == b.Source
	case ofExperts:
		return a.Kind == b.Kind && a.Source == b.Source && a.Sparse
	}
	return a.Kind == b.Kind && a.Source == b.Source
}

// widthSteps are the candidate widths of an effect, as a fraction of the time.
var widthSteps = []float64{0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.3}

// usualWidth is the prior width of an effect.
const usualWidth = 0.1

// NewPool fits the widths of the effects by maximum likelihood.
func NewPool(seen []Residual) *Pool {
	p := &Pool{seen: slices.Clone(seen), stretch: 1}
	p.agree()
	for l := range p.widths {
		p.widths[l] = 0.06
	}
	best := p.likelihood()
	for range 4 {
		changed := false
		for l := range p.widths {
			was := p.widths[l]
			keep := was
			for _, w := range widthSteps {
				if p.widths[l] = w; w != was {
					if got := p.likelihood(); got > best+1e-9 {
						best, keep, changed = got, w, true
					}
				}
			}
			p.widths[l] = keep
		}
		if !changed {
			break
		}
	}
	p.solve()
	p.widen()
	return p
}

// agree determines what several sources have seen.
func (p *Pool) agree() {
	first := map[pair]string{}
	p.agreed = map[pair]bool{}
	for i := range p.seen {
		s := &p.seen[i]
		for _, at := range []pair{{era: s.Era}, {s.Era, s.Device}} {
			if first[at] == "" {
				first[at] = s.Source
			}
			p.agreed[at] = p.agreed[at] || first[at] != s.Source
		}
	}
}

// doubts are the candidates of doubt: a correction counts from one standard deviation on.
var doubts = []float64{1, 1.5, 2, 2.5}

// widen finds the smallest doubt with which no source is predicted worse from the others than without them,
// and stretches intervals until they contain nine of ten runs of each source, on average, when it is
// predicted so.
func (p *Pool) widen() {
	var rest []*Pool
	var sources []string
	for i := range p.seen {
		if s := p.seen[i].Source; !slices.Contains(sources, s) {
			sources, rest = append(sources, s), append(rest, p.without(s))
		}
	}
	p.doubt = doubts[len(doubts)-1]
	if len(sources) < 3 {
		return
	}
	var far []miss
	for _, p.doubt = range doubts {
		worse := false
		far = far[:0]
		for i, s := range sources {
			rest[i].doubt = p.doubt
			m := rest[i].misses(p.seen, s)
			worse = worse || harms(m)
			far = append(far, m...)
		}
		if !worse {
			break
		}
	}
	for p.stretch = 1; p.stretch < 4 && holds(far, p.stretch) < 0.9; p.stretch += 0.05 {
	}
}

// harms reports whether corrections increase the mean error of a source's groups.
func harms(groups []miss) bool {
	with, without := 0.0, 0.0
	for _, m := range groups {
		with += m.rows * m.rows * meanAbs(m.off, m.scatter)
		without += m.rows * m.rows * meanAbs(m.plain, m.scatter)
	}
	return with > without*(1+1e-9)
}

// meanAbs returns the mean absolute value of a normal distribution.
func meanAbs(middle, deviation float64) float64 {
	x := middle / deviation
	return deviation*math.Sqrt(2/math.Pi)*math.Exp(-x*x/2) + middle*(1-2*normal(-x))
}

// without returns the pool of all sources but one, with the same widths.
func (p *Pool) without(source string) *Pool {
	q := &Pool{widths: p.widths, stretch: 1}
	q.seen = slices.DeleteFunc(slices.Clone(p.seen), func(s Residual) bool { return s.Source == source })
	q.agree()
	q.solve()
	return q
}

// miss describes the runs of a group relative to the prediction from others: off is their mean deviation,
// plain that without correction, scatter their spread, and promised half the interval. rows is the square
// root of their number, so that a source that repeats itself counts less.
type miss struct{ off, plain, scatter, promised, rows float64 }

func (p *Pool) misses(seen []Residual, source string) (out []miss) {
	for i := range seen {
		if s := &seen[i]; s.Source == source {
			e := p.Expect(s.Kind)
			out = append(out, miss{s.Log - math.Log(e.Factor), s.Log, math.Max(s.Scatter, leastScatter),
				math.Log(1 + e.Spread), math.Sqrt(float64(s.Rows))})
		}
	}
	return out
}

// holds returns the fraction of runs within intervals that are stretched so, if each group is normally
// distributed.
func holds(far []miss, stretch float64) float64 {
	held, all := 0.0, 0.0
	for _, m := range far {
		half := stretch * m.promised
		part := normal((half-m.off)/m.scatter) - normal((-half-m.off)/m.scatter)
		held, all = held+m.rows*part, all+m.rows
	}
	return held / all
}

// normal returns the standard normal distribution function.
func normal(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }

// covariance returns that of two groups, without the noise of their means.
func (p *Pool) covariance(a, b *Residual) float64 {
	sum := 0.0
	for l, w := range p.widths {
		if p.shares(l, a, b) {
			sum += w * w
		}
	}
	return sum
}

// leastScatter is the smallest scatter of runs of one configuration: published ones differ by up to 9%.
const leastScatter = 0.03

// noise returns the variance of a group's median.
func (s *Residual) noise() float64 {
	x := math.Max(s.Scatter, leastScatter)
	return x * x / float64(max(1, s.Rows))
}

// solve factors the covariance and computes the weight of each group; ok is false if it has no factor.
func (p *Pool) solve() bool {
	n := len(p.seen)
	p.factor = make([][]float64, n)
	for i := range n {
		p.factor[i] = make([]float64, i+1)
		for j := range i + 1 {
			x := p.covariance(&p.seen[i], &p.seen[j])
			if i == j {
				x += p.seen[i].noise()
			}
			for k := range j {
				x -= p.factor[i][k] * p.factor[j][k]
			}
			if i > j {
				p.factor[i][j] = x / p.factor[j][j]
				continue
			}
			if !(x > 0) {
				return false
			}
			p.factor[i][i] = math.Sqrt(x)
		}
	}
	y := make([]float64, n)
	for i := range y {
		y[i] = p.seen[i].Log
	}
	p.weights = p.backward(p.forward(y))
	return true
}

// forward solves with the factor, backward with its transpose.
func (p *Pool) forward(y []float64) []float64 {
	x := make([]float64, len(y))
	for i := range y {
		x[i] = y[i]
		for j := range i {
			x[i] -= p.factor[i][j] * x[j]
		}
		x[i] /= p.factor[i][i]
	}
	return x
}

func (p *Pool) backward(y []float64) []float64 {
	x := slices.Clone(y)
	for i := len(y) - 1; i >= 0; i-- {
		for j := i + 1; j < len(y); j++ {
			x[i] -= p.factor[j][i] * x[j]
		}
		x[i] /= p.factor[i][i]
	}
	return x
}

// likelihood returns the log-likelihood of what was seen, including the prior of the widths.
func (p *Pool) likelihood() float64 {
	if !p.solve() {
		return math.Inf(-1)
	}
	sum := 0.0
	for i := range p.seen {
		sum -= 0.5*p.seen[i].Log*p.weights[i] + math.Log(p.factor[i][i])
	}
	for _, w := range p.widths {
		sum -= 0.5 * w * w / (usualWidth * usualWidth)
	}
	return sum
}

// within is the number of standard deviations that contain nine of ten.
const within = 1.645

// Expect returns the expected deviation of runs of a kind, by a source that has not been seen.
func (p *Pool) Expect(k Kind) Expected {
	own := &Residual{Kind: k, Source: "\x00"}
	cross := make([]float64, len(p.seen))
	mean, variance := 0.0, p.covariance(own, own)
	for i := range p.seen {
		cross[i] = p.covariance(own, &p.seen[i])
		mean += cross[i] * p.weights[i]
	}
	for _, x := range p.forward(cross) {
		variance -= x * x
	}
	shared := variance - p.sourceVariance(own)
	sure := max(0, math.Abs(mean)-p.doubt*math.Sqrt(max(0, shared)))
	variance += p.scatter(k)
	return Expected{math.Exp(math.Copysign(sure, mean)), math.Exp(p.stretch*within*math.Sqrt(variance)) - 1}
}

// sourceVariance returns the variance of a source's own effects.
func (p *Pool) sourceVariance(s *Residual) float64 {
	sum := 0.0
	for l := ofSource; l < levels; l++ {
		if p.shares(l, s, s) {
			sum += p.widths[l] * p.widths[l]
		}
	}
	return sum
}

// scatterRows is the number of rows that the overall scatter counts as.
const scatterRows = 10

// scatter returns the variance of runs of one source and kind: that of the same era, with experts or without,
// combined with that of all runs as far as rows are lacking.
func (p *Pool) scatter(k Kind) float64 {
	var all []float64
	near, weight := 0.0, 0.0
	for i := range p.seen {
		s := &p.seen[i]
		if s.Rows < 3 {
			continue
		}
		x := math.Max(s.Scatter*s.Scatter, leastScatter*leastScatter)
		all = append(all, x)
		if s.Sparse == k.Sparse && s.Era == k.Era {
			n := math.Min(float64(s.Rows), scatterRows)
			near, weight = near+n*x, weight+n
		}
	}
	usual := 0.01
	if len(all) > 0 {
		slices.Sort(all)
		usual = all[len(all)/2]
	}
	return (near + scatterRows*usual) / (weight + scatterRows)
}
