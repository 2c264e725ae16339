package grammar_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/galley-ml/galley/internal/grammar"
)

// jsonGBNF is JSON as llama.cpp's grammars write it: lines end inside parentheses and after ::=.
const jsonGBNF = `# a JSON object
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null")
object ::=
  "{" (
    string ":" " "? value   # the first
    ("," " "? string ":" value)*
  )? "}"
array  ::= "[" (value ("," value)*)? "]"
string ::= "\"" ( [^"\\\x00-\x1F\x7f] | "\\" (["\\bfnrt] | "u" "00" [0-9a-fA-F]{2}) )* "\""
number ::= "-"? ("0" | [1-9] [0-9]{0,14}) ("." [0-9]+)?
`

// TestGBNF: whatever fits the masks of a grammar follows it, by another judge.
func TestGBNF(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct {
		text string
		fits func(out string) bool
	}{
		{jsonGBNF, func(out string) bool { return json.Unmarshal([]byte(out), &map[string]any{}) == nil }},
		{"root ::= [a-c]+ \"-\" x{2,3} | \"\\u00e9\"{2}\r\nx ::= [^\\n\\]a] .", regexp.MustCompile(
			`(?s)^([a-c]+-([^\n\]a].){2,3}|éé)$`).MatchString},
	} {
		g, err := grammar.GBNF(c.text)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if out := write(t, g, r); !c.fits(out) {
				t.Fatalf("%q does not follow %s", out, c.text)
			}
		}
	}
}

// TestGBNFAccepts: texts of a grammar that calls itself, token by token.
func TestGBNFAccepts(t *testing.T) {
	g, err := grammar.GBNF("root ::= a b?\nb ::= [\\-x^]\na ::= \"(\" a? \")\"")
	if err != nil {
		t.Fatal(err)
	}
	c, err := grammar.Compile(g, vocabulary(), []int32{256})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"()": true, "((()))x": true, "()^": true, "(": false, "())": false,
		"":     false,
		"()xx": false} {
		m, ok := c.Matcher(), true
		for _, b := range []byte(text) {
			if ok = ok && m.Allowed()[b/64]>>(b%64)&1 == 1; ok {
				m.Take(int32(b))
			}
		}
		if got := ok && (m.Done() || m.Allowed()[4]&1 == 1); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestGBNFRefused: mistakes are named with their line.
func TestGBNFRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "root",
		"root ::= a":                       `rule "a"`,
		"root = \"a\"":                     "want ::=",
		"root ::= \"a":                     "does not end",
		"root ::= \"a\"\nroot ::= \"b\"":   "line 2",
		"root ::= (\"a\"":                  "want )",
		"root ::= [b-a]":                   "the lower first",
		"root ::= \"\\q\"":                 "not known",
		"root ::= \"\\xg0\"":               "hexadecimal",
		"root ::= \"a\"{3,2}":              "{3,2}",
		"root ::= \"a\"{":                  "without }",
		"root ::= root \"a\" | \"b\"":      "begins with itself",
		"root ::= a root\na ::= \"x\"?":    "begins with itself",
		"root ::= (\"a\"?)*":               "may be empty",
		"root ::= \"a\" )":                 "end of the rule",
		"root ::= []":                      "no characters",
		strings.Repeat("# long\n", 100000): "too large",
	} {
		if _, err := grammar.GBNF(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
}

// FuzzGBNF: no grammar makes the parser or the compiler panic.
func FuzzGBNF(f *testing.F) {
	f.Add(jsonGBNF)
	f.Add("root ::= [^a-z]{2,3} | (x)+\nx ::= \"\\u00e9\" .?")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 500 {
			return
		}
		if g, err := grammar.GBNF(text); err == nil {
			if c, err := grammar.Compile(g, vocabulary(), []int32{256}); err == nil {
				c.Matcher().Allowed()
			}
		}
	})
}
