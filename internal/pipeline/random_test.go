package pipeline

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawValid returns a generated schedule, or one with stages anywhere and actions in any order that is
// possible.
func drawValid(t *rapid.T) *Schedule {
	c := Config{Ranks: rapid.IntRange(1, 4).Draw(t, "ranks"), Micros: rapid.IntRange(1, 5).Draw(t, "micros")}
	if rapid.Bool().Draw(t, "any order") {
		return drawOrder(t, c)
	}
	name := rapid.SampledFrom(Names()).Draw(t, "name")
	if name == "interleaved" {
		c.Chunks = rapid.IntRange(1, 3).Draw(t, "chunks")
	}
	s, err := Generate(name, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drawOrder lets a random action happen that can, until all have.
func drawOrder(t *rapid.T, c Config) *Schedule {
	stages := rapid.IntRange(1, 6).Draw(t, "stages")
	place := make([]int, stages)
	for i := range place {
		place[i] = rapid.IntRange(0, c.Ranks-1).Draw(t, "place")
	}
	s := &Schedule{Stages: stages, Micros: c.Micros, Place: place, Ranks: make([][]Action, c.Ranks)}
	f := flow{s: s}
	made := make([]bool, f.cells())
	var todo []Action
	for m := range c.Micros {
		for i := range stages {
			todo = append(todo, act(i, Forward, m))
			if rapid.Bool().Draw(t, "split") {
				todo = append(todo, act(i, Input, m))
			} else {
				todo = append(todo, act(i, Backward, m))
			}
		}
	}
	for len(todo) > 0 {
		var can []int
		for i, a := range todo {
			if n := f.needs(a); n == none || made[n] {
				can = append(can, i)
			}
		}
		i := rapid.SampledFrom(can).Draw(t, "next")
		a := todo[i]
		todo = slices.Delete(todo, i, i+1)
		s.Ranks[place[a.Stage]] = append(s.Ranks[place[a.Stage]], a)
		if n := f.makes(a); n != none {
			made[n] = true
		}
		if a.Kind == Input {
			todo = append(todo, act(a.Stage, Weight, a.Micro))
		}
	}
	return s
}

// disturb swaps, moves, drops or doubles a few actions.
func disturb(t *rapid.T, s *Schedule) {
	for range rapid.IntRange(0, 5).Draw(t, "changes") {
		r := rapid.IntRange(0, len(s.Ranks)-1).Draw(t, "rank")
		n := len(s.Ranks[r])
		if n < 2 {
			continue
		}
		i := rapid.IntRange(0, n-1).Draw(t, "at")
		j := rapid.IntRange(0, n-1).Draw(t, "to")
		a := s.Ranks[r][i]
		switch rapid.IntRange(0, 9).Draw(t, "change") {
		case 0:
			s.Ranks[r] = slices.Delete(s.Ranks[r], i, i+1)
		case 1:
			s.Ranks[r] = slices.Insert(s.Ranks[r], j, a)
		case 2, 3, 4:
			s.Ranks[r] = slices.Insert(slices.Delete(s.Ranks[r], i, i+1), j, a)
		case 5, 6:
			j = min(i+1, n-1)
			fallthrough
		default:
			s.Ranks[r][i], s.Ranks[r][j] = s.Ranks[r][j], a
		}
	}
}

// full reports whether every stage does everything once, which an interpreter does not notice.
func full(s *Schedule) bool {
	c := checker{flow: flow{s, s.Lowered()}}
	return c.index() == nil && c.complete() == nil
}

// often is how many times the properties are checked, of a hundred draws each unless a flag says otherwise.
const often = 10

func TestCheckPassesWhatRuns(t *testing.T) {
	passed, refused := 0, 0
	property := func(rt *rapid.T) {
		s := Unjoin(drawValid(rt))
		disturb(rt, s)
		_, err := Check(s)
		done, ran := interpret(t, s, &tagged{boxes: map[Action]chan int{}})
		if err != nil {
			if done && ran == nil && full(s) {
				rt.Fatalf("runs, but Check says %v\n%s", err, s)
			}
			refused++
			return
		}
		passed++
		if !done || ran != nil {
			rt.Fatalf("passes Check, but ended %v with %v\n%s", done, ran, s)
		}
		runLowered(t, rt, s)
	}
	for range often {
		rapid.Check(t, property)
	}
	t.Logf("%d passed, %d refused", passed, refused)
	if passed < 10 || refused < 10 {
		t.Error("the draws hardly tell passing schedules from others")
	}
}

// runLowered runs the lowered schedule over links that are just large enough, and finds that smaller ones are
// not.
func runLowered(t *testing.T, rt *rapid.T, s *Schedule) {
	low, err := Lower(s)
	if err != nil {
		rt.Fatalf("passes Check, but does not lower: %v\n%s", err, s)
	}
	size := 1
	if low.Lowered() {
		if size, err = Buffers(low); err != nil {
			rt.Fatal(err)
		}
	}
	if done, ran := interpret(t, low, &wires{size: size, pairs: map[[2]int]chan letter{}}); !done || ran != nil {
		rt.Fatalf("with buffers of %d ended %v with %v\n%s", size, done, ran, low)
	}
	if size > 1 {
		if done, _ := interpret(t, low, &wires{size: size - 1, pairs: map[[2]int]chan letter{}}); done {
			rt.Fatalf("buffers of %d are enough, Buffers says %d\n%s", size-1, size, low)
		}
	}
	slow := Costs{Forward: []float64{1}, Input: []float64{1}, Weight: []float64{1}, Transfer: []float64{0.5},
		Latency: []float64{0.25}}
	a, err := Simulate(s, slow)
	if err != nil {
		rt.Fatal(err)
	}
	b, err := Simulate(low, slow)
	if err != nil || a.Makespan != b.Makespan {
		rt.Fatalf("makespan %v, lowered %v: %v\n%s", a.Makespan, b.Makespan, err, low)
	}
}

func TestCheckPassesWhatRunsLowered(t *testing.T) {
	passed, refused := 0, 0
	property := func(rt *rapid.T) {
		s, err := Lower(drawValid(rt))
		if err != nil {
			rt.Fatal(err)
		}
		if !s.Lowered() {
			rt.Skip("one rank")
		}
		s = Unjoin(s)
		disturb(rt, s)
		if !s.Lowered() {
			rt.Skip("all communication was dropped")
		}
		_, err = Check(s)
		done, ran := interpret(t, s, &wires{size: s.Len(), pairs: map[[2]int]chan letter{}})
		switch ok := done && ran == nil; {
		case err == nil && !ok:
			rt.Fatalf("passes Check, but ended %v with %v\n%s", done, ran, s)
		case err != nil && ok && full(s):
			rt.Fatalf("runs, but Check says %v\n%s", err, s)
		case err == nil:
			passed++
		default:
			refused++
		}
	}
	for range often {
		rapid.Check(t, property)
	}
	t.Logf("%d passed, %d refused", passed, refused)
	if passed < 10 || refused < 5 {
		t.Error("the draws hardly tell passing schedules from others")
	}
}

func TestJoinedRun(t *testing.T) {
	for ranks := 1; ranks <= 4; ranks++ {
		for micros := 1; micros <= 10; micros++ {
			s, err := Generate("dualpipev", Config{Ranks: ranks, Micros: micros})
			if err != nil {
				t.Fatal(err)
			}
			low, err := Lower(s)
			if err != nil {
				t.Fatal(err)
			}
			if done, ran := interpret(t, low, &wires{size: low.Len(), pairs: map[[2]int]chan letter{}}); !done ||
				ran != nil {
				t.Errorf("%d ranks, %d micro-batches: ended %v with %v", ranks, micros, done, ran)
			}
		}
	}
}
