package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/strict"
)

// Config says for what a schedule is generated.
type Config struct {
	// Ranks is how many ranks the pipeline has; zero means one.
	Ranks int
	// Micros is how many micro-batches make a step; zero means one.
	Micros int
	// Chunks is how many stages each rank holds. Zero is what the schedule has: two for V shapes, else one, and two for
	// interleaved.
	Chunks int
}

// generator is one way to order a pipeline. chunks is how many a rank holds; zero leaves it to Config.
type generator struct {
	name, about string
	form        string // the closed form of its bubble, for people: F, B and W are of all chunks of a rank
	chunks      int
	build       func(c Config) *Schedule
}

// generators in the order of Names.
var generators = []generator{
	{"fthenb", "all forwards, then all backwards", "(p-1)(F+B)", 1, forwardThenBackward},
	{"1f1b", "one forward, one backward: as fast, with less memory", "(p-1)(F+B)", 1, oneForwardOneBackward},
	{"interleaved", "1f1b over several chunks a rank", "(p-1)(F+B)/v", 0, interleaved},
	{"zbh1", "1f1b with weight gradients moved into the bubbles", "(p-1)(F+B-2W)", 1, zeroBubbleH1},
	{"zbv", "zero bubble on a V: down the ranks and up again", "0 if F = B-W = W", 2, zeroBubbleV},
	{"dualpipev", "forwards and backwards in pairs on a V", "(p-1)(F&B+B-3W)/2", 2, dualPipeV},
}

// Names lists the schedules that Generate knows.
func Names() []string {
	names := make([]string, len(generators))
	for i, g := range generators {
		names[i] = g.name
	}
	return names
}

// About is one line on a schedule of Names.
func About(name string) string {
	for _, g := range generators {
		if g.name == name {
			return g.about
		}
	}
	return ""
}

// Generate makes the schedule of that name. Every number of ranks, micro-batches and chunks that the schedule can
// have is valid; its result passes Check.
func Generate(name string, c Config) (*Schedule, error) {
	g, c, err := resolve(name, c)
	if err != nil {
		return nil, err
	}
	s := g.build(c)
	s.Name = name
	return s, nil
}

// resolve finds the generator and fills in the zero values of c.
func resolve(name string, c Config) (generator, Config, error) {
	i := slices.IndexFunc(generators, func(g generator) bool { return g.name == name })
	if i < 0 {
		return generator{}, c, fmt.Errorf("schedule %q: unknown: want %s; did you mean %s?",
			name, strings.Join(Names(), ", "), strict.Nearest(name, Names()))
	}
	g := generators[i]
	if c.Ranks < 0 || c.Micros < 0 || c.Chunks < 0 {
		return g, c, fmt.Errorf("schedule %s: %d ranks, %d micro-batches, %d chunks: none can be negative", name, c.Ranks, c.Micros, c.Chunks)
	}
	c.Ranks, c.Micros = max(c.Ranks, 1), max(c.Micros, 1)
	switch {
	case c.Chunks == 0 && g.chunks == 0:
		c.Chunks = 2
	case c.Chunks == 0:
		c.Chunks = g.chunks
	case g.chunks == 2 && c.Chunks != 2:
		return g, c, fmt.Errorf("schedule %s: %d chunks a rank: a V has 2", name, c.Chunks)
	case g.chunks == 1 && c.Chunks != 1:
		return g, c, fmt.Errorf("schedule %s: %d chunks a rank: it has 1; interleaved takes any, zbv and dualpipev 2", name, c.Chunks)
	}
	if c.Ranks*c.Chunks > mostStages || c.Micros > mostMicros || c.Ranks*c.Chunks*c.Micros > mostCells {
		return g, c, fmt.Errorf("schedule %s: %d stages of %d micro-batches: want at most %d stages and a product of at most %d",
			name, c.Ranks*c.Chunks, c.Micros, mostStages, mostCells)
	}
	return g, c, nil
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
