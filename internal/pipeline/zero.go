package pipeline

import "strings"

// phase is a repeated piece of a rank's program: "F0 I1 W" is a forward of chunk 0, an input gradient of
// chunk 1 and the oldest remaining weight gradient; "F0+B1" joins two actions.
type phase struct {
	times int
	text  string
}

// writer writes the phases of one rank. Micro-batches of each chunk and direction come in order.
type writer struct {
	stages  []int // the stage of each chunk
	micros  int   // later micro-batches are omitted
	next    [2][2]int
	left    []Action // weight gradients that have yet to be computed, from first on
	first   int
	actions []Action
}

func newWriter(micros int, stages ...int) *writer {
	n := micros * len(stages)
	return &writer{stages: stages, micros: micros, left: make([]Action, 0, n), actions: make([]Action, 0, 3*n)}
}

// write writes the phases. They may be for more micro-batches than there are: omitting whole micro-batches
// removes no action that another one waits for, so short steps are correct, too.
func (w *writer) write(phases []phase) []Action {
	for _, p := range phases {
		words := strings.Fields(strings.ReplaceAll(p.text, "+", "+ "))
		for range p.times {
			for _, word := range words {
				w.add(word)
			}
		}
	}
	return w.actions
}

// add writes one action. If one of a pair is omitted, they are not joined.
func (w *writer) add(word string) {
	a := w.one(word)
	n := len(w.actions)
	if a.Micro < w.micros {
		a.Joined = word[len(word)-1] == '+'
		w.actions = append(w.actions, a)
	} else if n > 0 {
		w.actions[n-1].Joined = false
	}
}

func (w *writer) one(word string) Action {
	if word == "W" {
		w.first++
		return w.left[w.first-1]
	}
	kind, direction := Forward, 0
	switch word[0] {
	case 'B':
		kind, direction = Backward, 1
	case 'I':
		kind, direction = Input, 1
	}
	chunk := word[1] - '0'
	micro := w.next[chunk][direction]
	w.next[chunk][direction]++
	stage := w.stages[chunk]
	if kind == Input {
		w.left = append(w.left, act(stage, Weight, micro))
	}
	return act(stage, kind, micro)
}

// zeroBubbleH1 returns 1F1B that postpones weight gradients, on rank r by r micro-batches, so that input
// gradients go up the pipeline at once and the weight gradients fill what bubbles are left; at most as many
// micro-batches are alive on each rank as 1F1B has on its first [Qi et al. 2023, §2.2].
func zeroBubbleH1(c Config) *Schedule {
	s := blank(c, Cyclic(c.Ranks, 1))
	n := max(c.Micros, c.Ranks)
	for r := range s.Ranks {
		w := newWriter(c.Micros, r)
		s.Ranks[r] = w.write([]phase{
			{c.Ranks - r, "F0"},
			{r, "I0 F0"},
			{n - c.Ranks, "I0 W F0"},
			{c.Ranks - r, "I0 W"},
			{r, "W"},
		})
	}
	return s
}

// zeroBubbleV has no bubbles if the three kinds of work take equally long [Qi et al. 2024, §4.1]. Each rank
// holds a stage on the way down and one on the way up, so a micro-batch's backward begins on the rank where
// its forward ended.
func zeroBubbleV(c Config) *Schedule {
	s := blank(c, Vee(c.Ranks))
	n := max(c.Micros, 2*c.Ranks)
	for r := range s.Ranks {
		w := newWriter(c.Micros, r, 2*c.Ranks-1-r)
		s.Ranks[r] = w.write([]phase{
			{2*(c.Ranks-r) - 1, "F0"},
			{r, "F1 F0"},
			{c.Ranks - r, "F1 I1 W"},
			{n - 2*c.Ranks + r + 1, "F0 I0 W F1 I1 W"},
			{c.Ranks - r - 1, "I0 W F1 I1 W"},
			{r, "I0 I1"},
			{c.Ranks - r, "I0 W"},
			{2 * r, "W"},
		})
	}
	return s
}

// dualPipeV is DeepSeek's DualPipe cut in half: forwards and backwards go in pairs over a V, so that a rank
// needs only one copy of its parameters [DeepSeek-AI 2024, §3.2.1]. Near the end the second half of the
// backwards is split, and its weight gradients fill the last bubbles.
func dualPipeV(c Config) *Schedule {
	s := blank(c, Vee(c.Ranks))
	n := max(c.Micros, 2*c.Ranks)
	for r := range s.Ranks {
		w := newWriter(c.Micros, r, 2*c.Ranks-1-r)
		rest := c.Ranks - r - 1
		phases := []phase{
			{2 * rest, "F0"},
			{r + 1, "F0 F1"},
			{rest, "I1 W F1"},
		}
		pairs := n - 2*c.Ranks + r + 1
		if rest == 0 {
			// On the tip of the V the first backward depends on the forward before it: joined, it would wait.
			phases = append(phases, phase{1, "F0 B1 F1+B0"})
			pairs--
		}
		half := (r + 1) / 2
		phases = append(phases, phase{pairs, "F0+B1 F1+B0"}, phase{rest, "B1 F1+B0"}, phase{half, "B1 B0"})
		if r%2 == 0 {
			phases = append(phases, phase{1, "B1 I0"})
			half++
		}
		s.Ranks[r] = w.write(append(phases, phase{r + 1 - half, "I1 I0"}, phase{rest, "W I0"}, phase{r + 1, "W"}))
	}
	return s
}
