package strict_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/strict"
)

type sample struct {
	Count int            `yaml:"count"`
	List  []int          `yaml:"list"`
	Part  float64        `yaml:"part"`
	Text  string         `yaml:"text"`
	Sizes map[string]int `yaml:"sizes"`
	More  *struct {
		Count uint8 `yaml:"count"`
	} `yaml:"more"`
}

func TestYAML(t *testing.T) {
	var s sample
	text := "---\ncount: 3 # three\nlist: [1, 2.0, 1e3]\npart: 1.5\ntext: |\n  a: [[\n  \"\nsizes: {a: " +
		"1}\nmore:\n  count: 7\n...\n"
	if err := strict.YAML([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%d %v %v %q %v %d", s.Count, s.List, s.Part, s.Text, s.Sizes,
		s.More.Count); got != `3 [1 2 1000] 1.5 "a: [[\n\"\n" map[a:1] 7` {
		t.Error(got)
	}
}

// TestYAMLRefuses: mistakes are one line with their place.
func TestYAMLRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"count: 1.9":                    "line 1, column 8: got 1.9, want a whole number",
		"count: 1e300":                  "line 1, column 8: ",
		"list:\n- 1\n- 2.5":             "line 3, column 3: got 2.5, want a whole number",
		"sizes: {a: 0.5}":               "line 1, column 12: got 0.5, want a whole number",
		"more:\n  count: 0.5":           "line 2, column 10: got 0.5, want a whole number",
		"part: &x 1.9\ncount: *x":       "got 1.9, want a whole number",
		"count: 1\n---\ncount: 2":       "line 2, column 1: a second document: want one",
		"count: 1\n---\n":               "line 2, column 1: a second document: want one",
		"count: 1\n...\ncount: 2":       "line 3, column 1: a second document: want one",
		"":                              "it is empty",
		"cuont: 1":                      `line 1, column 1: unknown field "cuont"`,
		strings.Repeat("x", 1<<20+1):    "it is too long",
		strings.Repeat("[", 65):         "line 1, column 65: it is nested too deeply",
		strings.Repeat("- ", 65) + "1":  "it is nested too deeply",
		"text: \"]\n" + quotes(70):      "it is nested too deeply",
		steps(65):                       "it is nested too deeply",
		keys(2049):                      "it has too many keys in one mapping",
		"sizes: {" + flowKeys(2049):     "it has too many keys in one mapping",
		"sizes:\n- &a [*a]\n- *a\n":     "line",
		"count: 99999999999999999999\n": "line 1",
	} {
		err := strict.YAML([]byte(text), &sample{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: got %v, want one line with %q", text, err, want)
		}
	}
}

// quotes nests, with a bracket in quotes after every other.
func quotes(n int) string { return "  \"\nlist: " + strings.Repeat(`["]", `, n) }

func steps(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%*sa:\n", i, "")
	}
	return b.String()
}

func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}

func flowKeys(n int) string { return strings.ReplaceAll(keys(n), "\n", ", ") }

// TestYAMLWide: many items, each with keys of its own, are no deep text.
func TestYAMLWide(t *testing.T) {
	var list []struct{ A, B int }
	if err := strict.YAML([]byte(strings.Repeat("- a: 1\n  b: 2\n", 3000)), &list); err != nil ||
		len(list) != 3000 {
		t.Errorf("%d items: %v", len(list), err)
	}
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{"count: 1", "list: [1, 2.5]", "- - - -", "a: &x [*x]\n---\n",
		"sizes: {a: 1, ? b : 2}", "text: |\n  x\n...", "%YAML 1.2\n---\ncount: !!int 3"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := strict.YAML(text, &sample{}); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: several lines", err)
		}
	})
}
