package step

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/comm/inproc"
)

// TestText: what a plan prints is read back to a plan that prints the same, needs the same memory and trains
// to the same bits.
func TestText(t *testing.T) {
	for _, x := range samples {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			p := x.step(t)
			back := reread(t, p)
			for d := range p.Devices() {
				if p.Memory(d) != back.Memory(d) || p.Load(d) != back.Load(d) {
					t.Errorf("device %d: memory %+v and load %+v, want %+v and %+v", d, back.Memory(d), back.Load(d),
						p.Memory(d), p.Load(d))
				}
			}
			want, got := trainPlan(t, p, x.micros), trainPlan(t, back, x.micros)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("losses are %v, want %v and the same state", got.losses, want.losses)
			}
			reread(t, p.Outline())
			c := x.config(t)
			f, err := NewForward(c)
			if err != nil {
				t.Fatal(err)
			}
			reread(t, f)
		})
	}
}

// reread prints a plan and reads it back.
func reread(t *testing.T, p *Plan) *Plan {
	t.Helper()
	text := p.String()
	back, err := Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again := back.String(); again != text {
		t.Fatalf("printed, read and printed again it is another:\n%s", difference(text, again))
	}
	return back
}

// difference returns the first lines that differ.
func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return fmt.Sprintf("line %d\n%s\n%s", i+1, as[i], bs[i])
		}
	}
	return "one is longer"
}

func trainPlan(t *testing.T, p *Plan, micros int) *trained {
	t.Helper()
	w, err := inproc.New(p.Devices())
	if err != nil {
		t.Fatal(err)
	}
	got, err := trainOn(w, p, micros)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestParseMistakes: a plan that was spoilt in one place is refused, with that place.
func TestParseMistakes(t *testing.T) {
	text := sample{2, 2, 3, "zbh1", 2}.step(t).String()
	for _, c := range []struct{ old, new, want string }{
		{"plan train", "plan tram", `1:6: got "tram"`},
		{"mesh 1 dp=2@[2,3]", "mesh 1 dp=2@[2,", "3:8: "},
		{"0: 0F0 0SF0", "0: 0F0 0XF0", `8:11: unknown kind "XF"`},
		{"variants 0 0 0", "variants 0 0", "0F2 has no input 0"},
		{"home 1 slots", "home 2 slots", `got "2", want a number from 0 to 1`},
		{"%2 = matmul %0 %1 :", "%2 = matmul %0 %9 :", "19:18: %9 is used before it is made"},
		{"tag 0 until", "tag 1 until", "deadlock"},
		{"to 2 tag 0", "to 9 tag 0", "no device 9"},
		{"arena %8", "arena %98", "want a number from 0 to"},
		{"tape 3 rank 1", "tape 3 rank 0", "device 3 is not of rank 0"},
		{"exchange all_reduce", "exchange", `want over`},
		{"weight \"two\" f64[4,4]", "weight \"one\" f64[4,4]", `a second weight "one"`},
	} {
		if !strings.Contains(text, c.old) {
			t.Errorf("the plan has no %q", c.old)
			continue
		}
		_, err := Parse(strings.Replace(text, c.old, c.new, 1))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.new, err, c.want)
		}
		if _, ok := errors.AsType[*SyntaxError](err); !ok && !strings.Contains(c.want, "deadlock") {
			t.Errorf("%q: %v has no place", c.new, err)
		}
	}
}

// FuzzParse: no text makes Parse fail otherwise than by an error, and what it reads prints to what it reads
// again.
func FuzzParse(f *testing.F) {
	for _, x := range []sample{{1, 1, 1, "1f1b", 0}, {2, 1, 2, "1f1b", 0}} {
		f.Add([]byte(x.step(f).String()))
	}
	f.Add([]byte(wholePlan(f).String()))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Count(text, []byte("\n")) > 2000 {
			return
		}
		p, err := Parse(string(text))
		if err != nil {
			return
		}
		printed := p.String()
		back, err := Parse(printed)
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if again := back.String(); again != printed {
			t.Fatal(difference(printed, again))
		}
	})
}
