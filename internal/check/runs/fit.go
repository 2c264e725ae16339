package runs

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/plan"
)

// seen returns the residuals of a source's rows by kind, predicted without constants.
func (s *runSource) seen() []plan.Residual {
	logs := map[plan.Kind][]float64{}
	var kinds []plan.Kind
	for _, c := range s.cases {
		if c.step == 0 {
			continue
		}
		k := c.kind()
		if logs[k] == nil {
			kinds = append(kinds, k)
		}
		logs[k] = append(logs[k], math.Log(c.step/c.plain))
	}
	var out []plan.Residual
	for _, k := range kinds {
		middle, scatter := spread(logs[k])
		out = append(out, plan.Residual{Source: s.name, Kind: k, Rows: len(logs[k]), Log: round(middle),
			Scatter: round(scatter)})
	}
	return out
}

func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// spread returns the middle of numbers, and the standard deviation of a normal distribution that has nine
// tenths of them as near to the middle as they are.
func spread(xs []float64) (middle, deviation float64) {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	middle = (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
	for i := range xs {
		xs[i] = math.Abs(xs[i] - middle)
	}
	slices.Sort(xs)
	return middle, xs[(len(xs)-1)*9/10] / 1.645
}

// others returns the residuals of all sources but one: those of the file, and stored ones that the file does
// not have.
func (t *runTable) others(own *runSource) (seen []plan.Residual) {
	inFile := func(name string) bool {
		return slices.ContainsFunc(t.sources, func(s *runSource) bool { return s.name == name })
	}
	for _, s := range t.sources {
		if s != own {
			seen = append(seen, s.saw...)
		}
	}
	for _, s := range plan.StoredResiduals() {
		if !inFile(s.Source) {
			seen = append(seen, s)
		}
	}
	return seen
}

// hold estimates a source again, with constants from the others.
func (t *runTable) hold(s *runSource, seen []plan.Residual) {
	pool := plan.NewPool(seen)
	least, most := math.Inf(1), 0.0
	for _, c := range s.cases {
		e := pool.Expect(c.kind())
		if err := c.estimate(t.corrected(e)); err != nil {
			panic("check: a row that was estimated before: " + err.Error())
		}
		least, most = min(least, e.Factor), max(most, e.Factor)
	}
	s.held, s.least, s.most = score(s.cases), least, most
}

// corrected returns the calibration with the expected corrections.
func (t *runTable) corrected(e plan.Expected) plan.Calibration {
	cal := t.cal
	cal.Level, cal.Constants = 2, plan.Constants{Compute: e.Factor, Communication: e.Factor}
	cal.Spread = e.Spread
	return cal
}

// writeSeen writes the residuals of the rows, to be stored in package plan.
func (t *runTable) writeSeen(path string) error {
	var lines []string
	for _, s := range t.sources {
		for _, x := range s.saw {
			text, err := json.Marshal(x)
			if err != nil {
				return err
			}
			lines = append(lines, " "+string(text))
		}
	}
	return os.WriteFile(path, []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"), 0o644)
}
