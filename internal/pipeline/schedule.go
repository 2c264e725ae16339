package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// Schedule is the order in which every rank of a pipeline executes its actions. It is data: generators and
// people write it, Check validates it, Lower adds the communication, and one interpreter runs it.
type Schedule struct {
	// Name is that of the generator; it may be empty.
	Name string
	// Stages and Micros are the numbers of stages of the model and of micro-batches of a step.
	Stages, Micros int
	// Place is the rank of each stage.
	Place []int
	// Ranks holds each rank's actions in order.
	Ranks [][]Action
}

// Len returns the number of actions on all ranks.
func (s *Schedule) Len() int {
	n := 0
	for _, r := range s.Ranks {
		n += len(r)
	}
	return n
}

// Lowered reports whether the schedule contains communication. If it does not, communication is implied.
func (s *Schedule) Lowered() bool {
	for _, r := range s.Ranks {
		for _, a := range r {
			if !a.Kind.Computes() {
				return true
			}
		}
	}
	return false
}

// Fits returns an error if a schedule that a person wrote is for other numbers of ranks, micro-batches or
// chunks. Zero in c matches any number.
func (s *Schedule) Fits(c Config) error {
	for _, n := range []struct {
		what      string
		got, want int
	}{
		{"ranks", c.Ranks, len(s.Ranks)},
		{"micro-batches", c.Micros, s.Micros},
		{"chunks a rank", c.Chunks, s.Chunks()},
	} {
		if n.got != 0 && n.got != n.want {
			return fmt.Errorf("schedule %s: is for %d %s: got %d", s.Name, n.want, n.what, n.got)
		}
	}
	return nil
}

// Splits reports whether some backward pass is split into its two halves.
func (s *Schedule) Splits() bool {
	for _, r := range s.Ranks {
		for _, a := range r {
			if a.Kind == Input || a.Kind == Weight {
				return true
			}
		}
	}
	return false
}

// Chunks returns the largest number of stages that one rank holds.
func (s *Schedule) Chunks() int {
	n := make([]int, len(s.Ranks))
	most := 0
	for _, r := range s.Place {
		n[r]++
		most = max(most, n[r])
	}
	return most
}

// Of returns the stages of a rank in the order of the model.
func (s *Schedule) Of(rank int) []int {
	var stages []int
	for stage, r := range s.Place {
		if r == rank {
			stages = append(stages, stage)
		}
	}
	return stages
}

// String returns the schedule as Parse reads it: a header, then one line a rank.
func (s *Schedule) String() string {
	var b []byte
	if s.Name != "" {
		b = append(b, "schedule "+s.Name+"\n"...)
	}
	b = append(b, "place"...)
	for _, r := range s.Place {
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(r), 10)
	}
	b = append(b, "\nmicros "...)
	b = strconv.AppendInt(b, int64(s.Micros), 10)
	b = append(b, '\n')
	for r, actions := range s.Ranks {
		b = strconv.AppendInt(b, int64(r), 10)
		b = append(b, ':')
		joint := byte(' ')
		for _, a := range actions {
			b = a.appendTo(append(b, joint))
			if joint = ' '; a.Joined {
				joint = '+'
			}
		}
		b = append(b, '\n')
	}
	return string(b)
}

// named reports whether a schedule's name can be written as one word.
func named(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' ||
			r == '.')
	})
}

// Unjoin returns the schedule with all joined actions separated, for ranks that gain nothing from overlapping
// them: the result of a forward need not wait for the backward beside it.
func Unjoin(s *Schedule) *Schedule {
	out := *s
	out.Ranks = make([][]Action, len(s.Ranks))
	for r, actions := range s.Ranks {
		out.Ranks[r] = append([]Action(nil), actions...)
		for i := range out.Ranks[r] {
			out.Ranks[r][i].Joined = false
		}
	}
	return &out
}
