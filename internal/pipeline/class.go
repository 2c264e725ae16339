package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/galley-ml/galley/internal/strict"
)

// Class describes a kind of schedule with all its properties, so that no other code compares names. Classes
// are read-only.
type Class struct {
	// Name is its name in Lookup's result, tables and files.
	Name string
	// Torch is PyTorch's name of the same schedule, which Lookup accepts, too; empty if it has none.
	Torch string
	// About is a one-line description, Bubble the closed form of its bubble: F, B and W are those of all chunks
	// of a rank.
	About, Bubble string
	// Chunks is the number of stages of each rank; zero leaves it to Config.
	Chunks int
	// Vee places stages down the ranks and up again; otherwise stage i is on rank i modulo ranks.
	Vee bool
	// Split means that all or some backward passes are split into input and weight gradients.
	Split bool
	// Pairs means that forwards and backwards are joined in pairs, which may overlap.
	Pairs bool
	// Worse names a class that is never slower than this one and never holds more activations: the search
	// then skips this one. It is empty if there is none.
	Worse string

	// foreign means that another module's generator makes the schedules: each is checked before it is used.
	foreign bool
	build   func(c Config) *Schedule
	// idle is the closed form behind Bubble, for equal stages.
	idle func(c Config, t times) (float64, error)
	// fill is the bubble of nearly equal stages.
	fill func(c Config, l Load) float64
	// held is the maximal number of micro-batches, over all its chunks, that a rank holds; nil if it has no
	// closed form.
	held func(c Config, rank int) float64
}

// classes is in the order of Names.
var classes = []Class{
	{
		Name: "fthenb", Torch: "GPipe", About: "all forwards, then all backwards", Bubble: "(p-1)(F+B)",
		Chunks: 1, Worse: "1f1b", build: forwardThenBackward, idle: plainIdle, fill: plainFill,
		held: func(c Config, _ int) float64 { return float64(c.Micros) },
	},
	{
		Name: "1f1b", Torch: "1F1B", About: "one forward, one backward: as fast, with less memory",
		Bubble: "(p-1)(F+B)",
		Chunks: 1, build: oneForwardOneBackward, idle: plainIdle, fill: plainFill,
		held: func(c Config, rank int) float64 { return float64(min(c.Micros, c.Ranks-rank)) },
	},
	{
		Name: "interleaved", Torch: "Interleaved1F1B", About: "1f1b over several chunks a rank",
		Bubble: "(p-1)(F+B)/v",
		build:  interleaved, idle: interleavedIdle, fill: interleavedFill, held: interleavedHeld,
	},
	{
		Name: "zbh1", About: "1f1b with weight gradients moved into the bubbles", Bubble: "(p-1)(F+B-2W)",
		Chunks: 1, Split: true, build: zeroBubbleH1, idle: zeroBubbleH1Idle,
		fill: func(_ Config, l Load) float64 { return max(0, l.Others-2*l.Weights) },
	},
	{
		Name: "zbv", Torch: "ZBVZeroBubble", About: "zero bubble on a V: down the ranks and up again",
		Bubble: "0 if F = B-W = W",
		Chunks: 2, Vee: true, Split: true, build: zeroBubbleV, idle: zeroBubbleVIdle,
		fill: func(_ Config, l Load) float64 { return max(0, l.Others-3*l.Weights) / 2 },
	},
	{
		Name: "dualpipev", Torch: "DualPipeV", About: "forwards and backwards in pairs on a V",
		Bubble: "(p-1)(F&B+B-3W)/2",
		Chunks: 2, Vee: true, Split: true, Pairs: true, build: dualPipeV, idle: dualPipeVIdle,
		fill: func(_ Config, l Load) float64 { return max(0, l.Others-2*l.Weights) / 2 },
	},
}

// Classes returns all classes, those of other modules last.
func Classes() []*Class {
	list := make([]*Class, len(classes))
	for i := range classes {
		list[i] = &classes[i]
	}
	return append(list, outside()...)
}

// Names returns the names of the schedules that Generate supports.
func Names() []string {
	var names []string
	for _, c := range Classes() {
		names = append(names, c.Name)
	}
	return names
}

// Lookup finds a class by its name or PyTorch's, ignoring case.
func Lookup(name string) (*Class, error) {
	for i := range classes { // exact spelling first: a search calls this millions of times
		if classes[i].Name == name {
			return &classes[i], nil
		}
	}
	for _, c := range Classes() {
		if strings.EqualFold(name, c.Name) || c.Torch != "" && strings.EqualFold(name, c.Torch) {
			return c, nil
		}
	}
	names := Names()
	return nil, fmt.Errorf("schedule %q: unknown: want one of %s; did you mean %s?",
		name, strings.Join(names, ", "), strict.Nearest(name, names))
}

// Choose is like Lookup with an optional name: the default is 1f1b, or interleaved for more than one chunk
// per rank.
func Choose(name string, chunks int) (*Class, error) {
	if name != "" {
		return Lookup(name)
	}
	return Default(chunks), nil
}

// Default returns the class if none is named.
func Default(chunks int) *Class {
	i := slices.IndexFunc(classes, func(c Class) bool {
		return !c.Split && c.Worse == "" && (c.Chunks == 1) == (chunks <= 1)
	})
	return &classes[i]
}

// Each returns the default number of chunks per rank.
func (c *Class) Each() int {
	if c.Chunks == 0 {
		return 2
	}
	return c.Chunks
}

// Check returns an error if a rank cannot hold that many chunks.
func (c *Class) Check(chunks int) error {
	switch {
	case c.Chunks == 0 || c.Chunks == chunks:
		return nil
	case c.Vee:
		return fmt.Errorf("schedule %s: %d chunks a rank: a V has %d chunks", c.Name, chunks, c.Chunks)
	}
	return fmt.Errorf("schedule %s: %d chunks a rank: it has %d; interleaved takes any, zbv and dualpipev 2",
		c.Name, chunks, c.Chunks)
}

// Rank returns the rank that holds a stage.
func (c *Class) Rank(stage, ranks int) int {
	if turn := stage / ranks; c.Vee && turn%2 == 1 {
		return ranks - 1 - stage%ranks
	}
	return stage % ranks
}

// Held returns the maximal number of micro-batches, each over all its chunks, that a rank holds. It reports
// false if there is no closed form: Check counts them.
func (c *Class) Held(g Config, rank int) (float64, bool) {
	if c.held == nil {
		return 0, false
	}
	return c.held(g, rank), true
}

// Load is the work of the busiest rank of a pipeline and of all others for one micro-batch, in seconds.
type Load struct {
	Busiest float64
	Others  float64 // the sum over the other ranks
	Weights float64 // the part of Others that is weight gradients
}

// Fill returns approximately how long the busiest rank waits in a step if stages are nearly equal and
// messages take no time.
func (c *Class) Fill(g Config, l Load) float64 { return c.fill(g, l) }

func plainFill(_ Config, l Load) float64 { return l.Others }

func interleavedFill(g Config, l Load) float64 {
	chunks := float64(g.Chunks)
	fill := l.Others / chunks
	if rest := g.Micros % g.Ranks; rest != 0 {
		fill += float64(g.Chunks-1) * float64(g.Ranks-rest) * l.Busiest / chunks
	}
	return fill
}

// interleavedHeld returns the chunks of the warm-up and the current one, in groups of as many micro-batches
// as ranks.
func interleavedHeld(g Config, rank int) float64 {
	if g.Chunks == 1 {
		return float64(min(g.Micros, g.Ranks-rank))
	}
	warm := 2*(g.Ranks-rank-1) + (g.Chunks-1)*g.Ranks
	return min(float64(g.Micros), float64(warm+1)/float64(g.Chunks))
}
