package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/golden"
	"github.com/galley-ml/galley/internal/trace"
)

// even returns costs under which a rank needs 1 for each of F, I and W of a micro-batch, however many chunks
// it holds.
func even(s *Schedule) Costs {
	k := 1 / float64(s.Chunks())
	return costs(k, k, k)
}

// row simulates a schedule for a table.
func row(t *testing.T, name string, ranks, micros int) (*Schedule, *Timeline) {
	t.Helper()
	s, err := Generate(name, Config{Ranks: ranks, Micros: micros})
	if err != nil {
		t.Fatal(err)
	}
	line, err := Simulate(s, even(s))
	if err != nil {
		t.Fatal(err)
	}
	return s, line
}

func TestPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("| schedule | what it does | chunks a rank | bubble | at p=4, m=8 | step | micro-batches " +
		"held |\n|---|---|---|---|---|---|---|\n")
	for _, g := range classes {
		s, line := row(t, g.Name, 4, 8)
		held := 0
		for _, n := range line.PeakLive {
			held = max(held, n)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %s | %.4g | %.4g | %.4g |\n", g.Name, g.About, s.Chunks(), g.Bubble,
			line.LongestIdle(), line.Makespan, float64(held)/float64(s.Chunks()))
	}
	golden.Section(t, "../../docs/pipelines.md", "schedules", b.String())

	b.Reset()
	sizes := [][2]int{{2, 4}, {4, 4}, {4, 8}, {4, 32}, {8, 16}, {8, 64}, {16, 32}, {16, 128}}
	b.WriteString("| schedule |")
	for _, z := range sizes {
		fmt.Fprintf(&b, " p=%d m=%d |", z[0], z[1])
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(sizes)) + "\n")
	for _, name := range Names() {
		fmt.Fprintf(&b, "| `%s` |", name)
		for _, z := range sizes {
			_, line := row(t, name, z[0], z[1])
			fmt.Fprintf(&b, " %.1f%% |", 100*line.BubbleFraction())
		}
		b.WriteString("\n")
	}
	golden.Section(t, "../../docs/pipelines.md", "idle", b.String())

	text, err := os.ReadFile("../../examples/schedules/eager.schedule")
	if err != nil {
		t.Fatal(err)
	}
	golden.Section(t, "../../docs/pipelines.md", "example", "```\n"+string(text)+"```\n")
}

func TestPagePictures(t *testing.T) {
	for _, name := range []string{"1f1b", "zbv"} {
		s, err := Generate(name, Config{Ranks: 4, Micros: 8})
		if err != nil {
			t.Fatal(err)
		}
		k := 1e-3 / float64(s.Chunks())
		c := costs(k, k, k)
		c.Activation = []float64{1 << 28 / float64(s.Chunks())}
		line, err := Simulate(s, c)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := line.Grid().WriteSVG(&b); err != nil {
			t.Fatal(err)
		}
		golden.File(t, "../../docs/pipeline-"+name+".svg", b.String())
	}
}

func TestExampleFiles(t *testing.T) {
	files, err := filepath.Glob("../../examples/schedules/*.schedule")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := Lower(s); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestEagerHidesMessages shows that the example does what it says.
func TestEagerHidesMessages(t *testing.T) {
	text, err := os.ReadFile("../../examples/schedules/eager.schedule")
	if err != nil {
		t.Fatal(err)
	}
	eager, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Generate("1f1b", Config{Ranks: 3, Micros: 6})
	if err != nil {
		t.Fatal(err)
	}
	c := Uniform(1, 2)
	c.Latency = []float64{0.5}
	a, err := Simulate(eager, c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Simulate(plain, c)
	if err != nil {
		t.Fatal(err)
	}
	if a.Makespan >= b.Makespan {
		t.Errorf("eager takes %v, 1f1b %v", a.Makespan, b.Makespan)
	}
	if a.PeakLive[0] != 5 || b.PeakLive[0] != 3 {
		t.Errorf("rank 0 holds %d, of 1f1b %d", a.PeakLive[0], b.PeakLive[0])
	}
}

func TestPictures(t *testing.T) {
	every(t, func(t *testing.T, s *Schedule, c Config) {
		if c.Ranks > 3 {
			return
		}
		k := even(s)
		k.Transfer, k.Activation = []float64{0.125}, []float64{1 << 20}
		line, err := Simulate(s, k)
		if err != nil {
			t.Fatal(err)
		}
		if err := line.Grid().WriteSVG(io.Discard); err != nil {
			t.Errorf("%s %+v: %v", s.Name, c, err)
		}
		var b bytes.Buffer
		w := trace.NewWriter(&b)
		line.Trace(w)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var events []struct{ Ph, Cat string }
		if err := json.Unmarshal(b.Bytes(), &events); err != nil {
			t.Fatal(err)
		}
		spans := 0
		for _, e := range events {
			if e.Ph == "X" && e.Cat != "message" {
				spans++
			}
		}
		if spans != s.Len() {
			t.Errorf("%s %+v: %d spans of %d actions", s.Name, c, spans, s.Len())
		}
	})
}
