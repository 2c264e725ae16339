package distribute

import (
	"fmt"

	"github.com/galley-ml/galley/internal/seed"
	"github.com/galley-ml/galley/internal/shard"
	"github.com/galley-ml/galley/internal/units"
	"github.com/galley-ml/galley/mesh"
)

// Choice selects how values without annotations get their sharding.
type Choice int

// The choices.
const (
	// Inferred propagates annotations; values that they do not reach are replicated.
	Inferred Choice = iota
	// Searched minimises the cost of the program, forward and backward together. Annotations of parameters
	// are kept.
	Searched
)

// SearchReport says how good a searched sharding is, as the sum of compute and communication costs.
type SearchReport struct {
	// Seconds is its cost, Bound a lower bound for shardings in which repeated layers are sharded alike.
	Seconds, Bound float64
	// Variables and Labels are the size of the problem.
	Variables, Labels int
}

// String returns the report in one line.
func (r *SearchReport) String() string {
	return fmt.Sprintf("searched %d variables with %d labels: %s, at most %.1f%% from the best", r.Variables,
		r.Labels, units.Seconds(r.Seconds), 100*(r.Seconds-r.Bound)/r.Seconds)
}

// Search returns the report of the search; nil if shardings were inferred.
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
