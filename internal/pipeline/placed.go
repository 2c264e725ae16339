package pipeline

import (
	"fmt"
	"slices"
)

// Placed makes the named schedule for stages on given ranks. If the class places them otherwise, only fthenb
// and 1f1b, which is also the default, can be made for any placement.
func Placed(name string, place []int, ranks, micros int) (*Schedule, error) {
	g := Config{Ranks: ranks, Micros: micros, Chunks: max(1, len(place)/ranks)}
	class, err := Choose(name, g.Chunks)
	if err != nil {
		return nil, err
	}
	var plain *Schedule
	if class.Check(g.Chunks) == nil {
		if plain, err = class.Generate(g); err != nil {
			return nil, err
		}
		if slices.Equal(plain.Place, place) {
			return plain, nil
		}
	}
	if name == "" || !class.Split && class.Chunks == 1 {
		return listed(class, place, g), nil
	}
	if plain != nil {
		return nil, fmt.Errorf("schedule %s: stages are on ranks %v: want %v, or 1f1b or fthenb, which take any",
			class.Name, place, plain.Place)
	}
	return nil, fmt.Errorf("schedule %s: stages are on ranks %v: %w", class.Name, place, class.Check(g.Chunks))
}

// listed returns a schedule for any placement: at every tick each rank does what it can, with fthenb forwards
// first, else backwards, earlier micro-batches before later ones.
func listed(class *Class, place []int, g Config) *Schedule {
	s := blank(g, place)
	s.Name = "1f1b"
	first := []Kind{Backward, Forward}
	if class.Name == "fthenb" {
		s.Name, first = class.Name, []Kind{Forward, Backward}
	}
	l := &lister{s: s, done: map[Action]int{}}
	for tick := 1; len(l.done) < 2*len(place)*s.Micros; tick++ {
		for rank := range s.Ranks {
			if a, ok := l.next(rank, tick, first); ok {
				s.Ranks[rank], l.done[a] = append(s.Ranks[rank], a), tick
			}
		}
	}
	return s
}

// lister makes a schedule tick by tick; done is the tick of each action.
type lister struct {
	s    *Schedule
	done map[Action]int
}

// next returns what a rank does at a tick: of the preferred kind the earliest micro-batch, at its furthest
// stage.
func (l *lister) next(rank, tick int, kinds []Kind) (Action, bool) {
	for _, k := range kinds {
		for m := range l.s.Micros {
			for stage := l.s.Stages - 1; stage >= 0; stage-- {
				if a := act(stage, k, m); l.s.Place[stage] == rank && l.done[a] == 0 && l.ready(a, tick) {
					return a, true
				}
			}
		}
	}
	return Action{}, false
}

// ready reports whether everything that an action needs was done before a tick.
func (l *lister) ready(a Action, tick int) bool {
	before := func(x Action) bool { return l.done[x] > 0 && l.done[x] < tick }
	if a.Kind == Forward {
		return a.Stage == 0 || before(act(a.Stage-1, Forward, a.Micro))
	}
	return before(act(a.Stage, Forward, a.Micro)) &&
		(a.Stage == l.s.Stages-1 || before(act(a.Stage+1, Backward, a.Micro)))
}
