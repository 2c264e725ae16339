package pipeline

import "fmt"

// Config holds the sizes of a schedule.
type Config struct {
	// Ranks is the number of pipeline ranks; zero means one.
	Ranks int
	// Micros is the number of micro-batches of a step; zero means one.
	Micros int
	// Chunks is the number of stages of each rank. Zero means that of the class, or two if the class leaves it
	// open.
	Chunks int
}

// Generate makes the named schedule. Every number of ranks, micro-batches and chunks that the schedule
// supports is valid; the result passes Check.
func Generate(name string, c Config) (*Schedule, error) {
	class, err := Lookup(name)
	if err != nil {
		return nil, err
	}
	return class.Generate(c)
}

// Generate makes the class's schedule.
func (c *Class) Generate(g Config) (*Schedule, error) {
	g, err := c.resolve(g)
	if err != nil {
		return nil, err
	}
	s := c.build(g)
	if c.foreign {
		if err := c.holds(s, g); err != nil {
			return nil, fmt.Errorf("schedule %s: for %d ranks, %d micro-batches and %d chunks a rank: %w",
				c.Name, g.Ranks, g.Micros, g.Chunks, err)
		}
	}
	s.Name = c.Name
	return s, nil
}

// resolve fills in the zero values of g and checks the others.
func (c *Class) resolve(g Config) (Config, error) {
	if g.Ranks < 0 || g.Micros < 0 || g.Chunks < 0 {
		return g, fmt.Errorf("schedule %s: %d ranks, %d micro-batches, %d chunks: none can be negative",
			c.Name, g.Ranks, g.Micros, g.Chunks)
	}
	g.Ranks, g.Micros = max(g.Ranks, 1), max(g.Micros, 1)
	if g.Chunks == 0 {
		g.Chunks = c.Each()
	}
	if err := c.Check(g.Chunks); err != nil {
		return g, err
	}
	if g.Ranks*g.Chunks > mostStages || g.Micros > mostMicros || g.Ranks*g.Chunks*g.Micros > mostCells {
		return g, fmt.Errorf(
			"schedule %s: %d stages of %d micro-batches: want at most %d stages and a product of at most %d",
			c.Name,
			g.Ranks*g.Chunks,
			g.Micros,
			mostStages,
			mostCells,
		)
	}
	return g, nil
}

// Cyclic places stage i on rank i modulo ranks.
func Cyclic(ranks, chunks int) []int {
	place := make([]int, ranks*chunks)
	for i := range place {
		place[i] = i % ranks
	}
	return place
}

// Vee places stages down the ranks and up again: the first and the last stage share a rank.
func Vee(ranks int) []int {
	place := make([]int, 2*ranks)
	for i := range ranks {
		place[i], place[2*ranks-1-i] = i, i
	}
	return place
}
