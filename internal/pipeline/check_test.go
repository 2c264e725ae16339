package pipeline

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"0F0", "schedule: missing 0B0"},
		{"0F0 0I0", "schedule: missing 0W0"},
		{"0F0 0W0", "schedule: missing 0I0"},
		{"0F0 0B0\n1F1 1B1", "schedule: missing 0F1 0B1 1F0 1B0"},
		{"micros 9\n0F0 0B0", "missing 0F1 0B1 0F2 0B2 0F3 0B3 0F4 0B4 and 8 more"},
		{"0F0 0F0 0B0", "rank 0 has 0F0 twice: at positions 0 and 1"},
		{"0F0 0B0 0W0", "both B and a half of it"},
		{"0B0 0F0", "rank 0 has 0B0 at position 0, before 0F0 at position 1"},
		{"0F0 0W0 0I0", "rank 0 has 0W0 at position 1, before 0I0 at position 2"},
		{"place 0 1\n0F0 0B0 1F0\n1B0", "rank 0 has 1F0: stage 1 is placed on rank 1"},
		{"micros 1\n0F0 0B0 0F1", "micro-batches 0 to 0"},
		{"0F0+0B0", "joins 0F0 to its own backward"},
		{"0F0 0B0+0F1 0B1", "joins 0B0 to something"},
		{"0F0 0B0 0F1 0B1\n1F1 1F0 1B1 1B0",
			"deadlock: rank 0 waits at 0B0 for 1B0, which rank 1 does after 1F1; rank 1 waits at 1F1 for 0F1, " +
				"which rank 0 does after 0B0"},
		{"1F0 0F0 1B0 0B0", "deadlock: rank 0 waits at 1F0 for 0F0, which rank 0 does after 1F0"},
		{"0F0 0F1+0B0 0B1\n1F0 1F1 1B0 1B1",
			"deadlock: rank 0 waits at 0B0 for 1B0, which rank 1 does after 1F1; rank 1 waits at 1F1 for 0F1, " +
				"which rank 0 does after 0B0"},
		{"0F0 0SF0 0RB0 0B0\n1F0 1B0", "missing 1RF0: stages 1 and 0 are on different ranks"},
		{"0F0 0SF0 0RB0 0B0\n1F0 1RF0 1B0 1SB0", "rank 1 has 1F0 at position 0, before 1RF0"},
		{"0F0 0SF0 0B0", "rank 0 has 0SF0: no other rank"},
		{"0F0 0SF0 0F1 0SF1 0RB0 0B0 0RB1 0B1\n1RF1 1F1 1RF0 1F0 1B0 1SB0 1B1 1SB1",
			"message 0 from rank 0 to rank 1 is sent by 0SF0 but received by 1RF1"},
		{"0F0 0SF0 0RB0 0B0 0F1 0SF1 0RB1 0B1\n1RF0 1F0 1RF1 1F1 1B0 1SB0 1B1 1SB1",
			"deadlock: rank 0 waits at 0RB0 for 1SB0, which rank 1 does after 1RF1; rank 1 waits at 1RF1 for 0SF1, " +
				"which rank 0 does after 0RB0"},
	} {
		s, err := Parse(tt.text)
		if err != nil {
			t.Errorf("%q: %v", tt.text, err)
			continue
		}
		_, err = Check(s)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestCheckRefusesShapes(t *testing.T) {
	for _, s := range []*Schedule{
		{},
		{Stages: 1, Micros: 1, Place: []int{0}},
		{Stages: 1, Micros: 1, Place: []int{1}, Ranks: [][]Action{{}}},
		{Stages: 2, Micros: 1, Place: []int{0}, Ranks: [][]Action{{}}},
		{Stages: 1 << 13, Micros: 1 << 11, Place: make([]int, 1<<13), Ranks: [][]Action{{}}},
		{Stages: 1, Micros: 1, Place: []int{0}, Ranks: [][]Action{{{Kind: 99}, {Kind: Backward}}}},
		{Stages: 1, Micros: 1, Place: []int{0}, Ranks: [][]Action{{{Kind: Forward}, {Kind: Backward,
			Joined: true}}}},
		{Stages: 1, Micros: 1, Place: []int{0}, Ranks: [][]Action{{{Kind: SendForward}, {Kind: Forward},
			{Kind: Backward}}}},
	} {
		if _, err := Check(s); err == nil {
			t.Errorf("%v passed", s)
		}
		if _, err := Simulate(s, Uniform(1, 2)); err == nil {
			t.Errorf("%v was simulated", s)
		}
	}
}

func TestDeadlockError(t *testing.T) {
	s, err := Parse("0F0 0B0 0F1 0B1\n1F1 1F0 1B1 1B0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Check(s)
	var dead *DeadlockError
	if !errors.As(err, &dead) || len(dead.Cycle) != 2 {
		t.Fatalf("got %v, want a circle of two", err)
	}
	if _, simulated := Simulate(s, Uniform(1, 2)); simulated == nil || simulated.Error() != err.Error() {
		t.Errorf("Simulate says %v, Check %v", simulated, err)
	}
}

func TestLowerV(t *testing.T) {
	s, err := Generate("zbv", Config{Ranks: 2, Micros: 2})
	if err != nil {
		t.Fatal(err)
	}
	low, err := Lower(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range low.Ranks[1] {
		if a.Stage == 1 && a.Kind == SendForward || a.Stage == 2 && a.Kind == RecvForward {
			t.Errorf("%s: stages 1 and 2 share rank 1", a)
		}
	}
	if _, err := Lower(low); err == nil {
		t.Error("lowered twice")
	}
}

func TestFits(t *testing.T) {
	s, err := Generate("zbv", Config{Ranks: 3, Micros: 4})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{{}, {Ranks: 3}, {Ranks: 3, Micros: 4, Chunks: 2}} {
		if err := s.Fits(c); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for want, c := range map[string]Config{
		"schedule zbv: is for 3 ranks: got 4":         {Ranks: 4},
		"schedule zbv: is for 4 micro-batches: got 8": {Micros: 8},
		"schedule zbv: is for 2 chunks a rank: got 1": {Chunks: 1},
	} {
		if err := s.Fits(c); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", c, err, want)
		}
	}
}

func TestBuffers(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int
	}{
		{"0F0 0B0", 1},
		{"0F0 0F1 0F2 0B0 0B1 0B2\n1F0 1F1 1F2 1B0 1B1 1B2", 1},
		// received early, held by the rank, not by the link
		{"0F0 0F1 0F2 0B2 0B1 0B0\n1F0 1F1 1F2 1B0 1B1 1B2", 1},
		{"1F0 1F1 1F2 0B0 0B1 0B2 # two ranks the other way round\n0F0 0F1 0F2 1B0", 0},
		{"place 0 1 0\n0F0 0F1 0F2 2F0 2B0 2F1 2B1 2F2 2B2 0B0 0B1 0B2\n1F0 1F1 1F2 1B0 1B1 1B2", 1},
		{"place 0 1 2 0\n0F0 0F1 0F2 3F0 3B0 3F1 3B1 3F2 3B2 0B0 0B1 0B2\n1F0 1F1 1F2 1B0 1B1 1B2\n2F0 2F1 2F2 " +
			"2B0 2B1 2B2", 1},
	} {
		s, err := Parse(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		low, err := Lower(s)
		if (err != nil) != (tt.want == 0) {
			t.Errorf("%q: %v", tt.text, err)
		}
		if err != nil {
			continue
		}
		if n, err := Buffers(low); err != nil || n != tt.want {
			t.Errorf("%q: %d, %v; want %d", tt.text, n, err, tt.want)
		}
		if _, err := Buffers(s); (err == nil) != (len(s.Ranks) == 1) {
			t.Errorf("%q, not lowered: %v", tt.text, err)
		}
	}
}

func TestQuestions(t *testing.T) {
	for _, c := range Classes() {
		name := c.Name
		if c.About == "" || c.Bubble == "" {
			t.Errorf("nothing is said about %s", name)
		}
		s, err := Generate(name, Config{Ranks: 3, Micros: 3})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := s.Splits(), c.Split; got != want {
			t.Errorf("%s splits backward passes: %v", name, got)
		}
		n := 0
		for r := range s.Ranks {
			for _, stage := range s.Of(r) {
				if s.Place[stage] != r {
					t.Errorf("%s: stage %d is not on rank %d", name, stage, r)
				}
				n++
			}
		}
		if n != s.Stages {
			t.Errorf("%s: ranks hold %d of %d stages", name, n, s.Stages)
		}
	}
}
