package distribute

import (
	"fmt"

	"github.com/galley-ml/galley/internal/seed"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/units"
	"github.com/galley-ml/galley/mesh"
)

// Choice is what decides the layout of values of which annotations say nothing.
type Choice int

// The ways to decide.
const (
	// Inferred: annotations spread; what they do not reach is whole.
	Inferred Choice = iota
	// Searched: whatever makes the program cheapest, forward and backward together. Annotations of parameters
	// stay.
	Searched
)

// SearchReport says how good a searched sharding is, in the sum of what ops compute and of what values cost
// to move.
type SearchReport struct {
	// Seconds is what it costs, Bound what none costs less than in which repeated layers have one layout.
	Seconds, Bound float64
	// Variables and Labels are the size of the problem.
	Variables, Labels int
}

// String returns the report in one line.
func (r *SearchReport) String() string {
	return fmt.Sprintf("searched %d variables with %d labels: %s, at most %.1f%% from the best", r.Variables,
		r.Labels, units.Seconds(r.Seconds), 100*(r.Seconds-r.Bound)/r.Seconds)
}

// Search returns how the search went; nil where nothing was searched.
func (d *Program) Search() *SearchReport { return d.search }

// find takes the place of inference: the search says the layout of every value.
func (d *Program) find(asked map[int]mesh.Sharding) error {
	r, err := seed.Find(d.f, seed.Config{Mesh: d.config.Mesh, Prices: d.config.Prices, Next: d.config.Next,
		Given: asked})
	if err != nil {
		return err
	}
	d.search = &SearchReport{Seconds: r.Time, Bound: r.Bound, Variables: r.Variables, Labels: r.Labels}
	n := d.f.NumValues()
	d.inferred = &shard.Result{Specs: r.Specs, Meshes: make([]*mesh.Mesh, n), Reasons: make([][]string, n),
		Shardings: make([]mesh.Sharding, n)}
	for v, s := range r.Specs {
		d.inferred.Meshes[v], d.inferred.Shardings[v] = d.config.Mesh, mesh.Closed(s)
		d.inferred.Reasons[v] = []string{"searched: " + s.String()}
		if a, ok := asked[v]; ok {
			d.inferred.Reasons[v] = []string{"asked: " + a.String()}
		}
	}
	for i, v := range d.f.Results() {
		s := r.Specs[v.ID()].With()
		if a, ok := d.config.Results[i]; ok {
			s = a.Spec
		}
		d.inferred.Results = append(d.inferred.Results, s)
	}
	return nil
}
