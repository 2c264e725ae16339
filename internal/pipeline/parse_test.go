package pipeline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	s, err := Parse(`# two ranks, by hand
schedule mine   # a name
place 0 1

0: 0F0 0F1+0B0	0B1
   1F0 1B0 1F1 1B1 # without a number: the next rank
`)
	if err != nil {
		t.Fatal(err)
	}
	want := &Schedule{Name: "mine", Stages: 2, Micros: 2, Place: []int{0, 1}, Ranks: [][]Action{
		{act(0, Forward, 0), {Stage: 0, Kind: Forward, Micro: 1, Joined: true}, act(0, Backward, 0),
			act(0, Backward, 1)},
		{act(1, Forward, 0), act(1, Backward, 0), act(1, Forward, 1), act(1, Backward, 1)},
	}}
	if d := cmp.Diff(want, s); d != "" {
		t.Error(d)
	}
}

func TestParseInfersPlace(t *testing.T) {
	s, err := Parse("0F0 3F0 3B0 0B0\n1F0 2F0 2B0 1B0")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int{0, 1, 1, 0}, s.Place); d != "" {
		t.Error(d)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "1:1: no ranks"},
		{"0:", "1:1: no actions"},
		{"0: 0F0 0X0", `1:9: unknown kind "X": want F, B, I, W, SF, RF, SB or RB`},
		{"0: 0F0 0f0", `1:9: unknown kind "f"`},
		{"\n  0F0 F0", "2:7: action \"F0\" is not a stage, a kind and a micro-batch"},
		{"0F", "1:1: action"},
		{"0F-1", "1:3: micro-batch \"-1\" is not a number"},
		{"0F99999999999", "1:3: micro-batch \"99999999999\" is not a number"},
		{"0F2000000", "1:3: micro-batch 2000000 is too large"},
		{"1: 0F0", "1:1: rank 1 out of order: want 0"},
		{"0F0 0B0+", "1:5: action 0B0 is joined to nothing"},
		{"0F0 0B0\nplace 0", "2:1: place after the first rank"},
		{"place 0\nplace 0", "2:1: second place line"},
		{"schedule a b", "1:1: schedule takes one name"},
		{"shedule a", `1:1: unknown word "shedule": want schedule`},
		{"micros x", `1:8: micros "x" is not a number`},
		{"place 0\n0F0 1F0", "2:5: action 1F0: stage 1 of 1"},
		{"place 0 7\n0F0", "stage 1 is placed on rank 7: there are lines for 1"},
		{"2F0", "stage 0 has no actions"},
		{"place" + strings.Repeat(" 0", 17) + "\nmicros 1048575\n0F0", "want a product of at most"},
	} {
		_, err := Parse(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	every(t, func(t *testing.T, s *Schedule, c Config) {
		low, err := Lower(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []*Schedule{s, low} {
			got, err := Parse(want.String())
			if err != nil {
				t.Fatalf("%s %+v: %v", s.Name, c, err)
			}
			if got.String() != want.String() || !got.equal(want) {
				t.Fatalf("%s %+v: got\n%s", s.Name, c, got)
			}
		}
	})
}

func (s *Schedule) equal(o *Schedule) bool {
	return s.Name == o.Name && s.Stages == o.Stages && s.Micros == o.Micros && slices.Equal(s.Place, o.Place) &&
		slices.EqualFunc(s.Ranks, o.Ranks, slices.Equal[[]Action])
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		s, err := Generate(name, Config{Ranks: 2, Micros: 2})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.String())
	}
	files, err := filepath.Glob("testdata/*.schedule")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("0F0 0B0+\n:")
	f.Add("place 0 0 1 # x\nmicros 3\n0:\n1: 0SF1 2RB9")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || !again.equal(s) {
			t.Fatalf("%q became %q: %v", text, s, err)
		}
		_, checked := Check(s)
		_, ran := Simulate(s, Uniform(1, 2))
		if checked == nil && ran != nil {
			t.Fatalf("%q passes Check but not Simulate: %v", text, ran)
		}
	})
}
