package tokenizer

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	llama3Pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+` + spaceRun
	qwen2Pattern  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+` + spaceRun
)

func pieces(t testing.TB, s matchSplit, expr, text string) []string {
	t.Helper()
	var err error
	if s.matcher, err = newPattern(expr); err != nil {
		t.Fatal(err)
	}
	var got []string
	s.split(aligned{text: text}, func(a aligned) { got = append(got, a.text) })
	return got
}

// TestPatterns has what Python's re gives, with its lookahead; pieces are separated by |.
func TestPatterns(t *testing.T) {
	for _, test := range []struct{ name, expr, text, want string }{
		{"gpt2", gpt2Pattern, "I'll  go\n\nnow", "I|'ll| | go|\n|\n|now"},
		{"gpt2", gpt2Pattern, "DON'T", "DON|'|T"},
		{"gpt2", gpt2Pattern, "12345 6", "12345| 6"},
		{"gpt2", gpt2Pattern, "a   ", "a|   "},
		{"gpt2", gpt2Pattern, "a \u3000b", "a| |\u3000|b"},
		{"gpt2", gpt2Pattern, "e\u0301!", "e|\u0301!"},
		{"gpt2", gpt2Pattern, "x\xff\xfe y", "x|\xff\xfe| y"},
		{"llama3", llama3Pattern, "I'LL  go\n\nnow", "I|'LL| | go|\n\n|now"},
		{"llama3", llama3Pattern, "1234567 ½", "123|456|7| |½"},
		{"llama3", llama3Pattern, "a \n  \n   b", "a| \n  \n|  | b"},
		{"llama3", llama3Pattern, "!!\r\n\n(x)", "!!\r\n\n|(x|)"},
		{"llama3", llama3Pattern, "\tx\t\ty", "\tx|\t|\ty"},
		{"qwen2", qwen2Pattern, "1234 x", "1|2|3|4| x"},
		{"no lookahead", `\d+`, "a12b٣", "a|12|b|٣"},
		{"empty matches", `x*`, "axxé", "a|xx|é"},
	} {
		got := pieces(t, matchSplit{}, test.expr, test.text)
		if diff := cmp.Diff(strings.Split(test.want, "|"), got); diff != "" {
			t.Errorf("%s: %q (-want +got):\n%s", test.name, test.text, diff)
		}
	}
}

func TestBehaviors(t *testing.T) {
	for _, test := range []struct {
		split matchSplit
		want  string
	}{
		{matchSplit{behavior: isolated}, "a|.|.|b|.|c"},
		{matchSplit{behavior: removed}, "a|b|c"},
		{matchSplit{behavior: removed, invert: true}, ".|.|."},
		{matchSplit{behavior: mergedWithPrevious}, "a.|.|b.|c"},
		{matchSplit{behavior: mergedWithNext}, "a|.|.b|.c"},
		{matchSplit{behavior: contiguous}, "a|..|b|.|c"},
	} {
		if got := strings.Join(pieces(t, test.split, `\.`, "a..b.c"), "|"); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.split, got, test.want)
		}
	}
}

// TestBacktracking has what Go's regexp cannot say.
func TestBacktracking(t *testing.T) {
	for _, test := range []struct{ expr, text, want string }{
		{`a(?!b)`, "ab日ac", "ab日|a|c"},
		{`(?<=a)b`, "abcb", "a|b|cb"},
		{`^a`, "aa", "a|a"},
		{`\bword`, "sword word", "sword |word"},
	} {
		if got := strings.Join(pieces(t, matchSplit{}, test.expr, test.text), "|"); got != test.want {
			t.Errorf("%s: got %q, want %q", test.expr, got, test.want)
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for _, expr := range []string{`(`, `[a`, `a{2,1}`} {
		_, err := newPattern(expr)
		if err == nil || !strings.Contains(err.Error(), "regular expression") {
			t.Errorf("%s: got %v, want an error with the expression", expr, err)
		}
	}
}

// TestDFAIsRegexp compares matches with those of Go's regexp on random text.
func TestDFAIsRegexp(t *testing.T) {
	for _, expr := range []string{
		strings.TrimSuffix(llama3Pattern, spaceRun), strings.TrimSuffix(gpt2Pattern,
			spaceRun), `a*?b|a+`, `(?i:k|ſ)x?`,
		`[^a-c]{2,3}|.`, `(a|ab)(c|bcd)?`, `\p{Lu}+[\p{Ll}\p{M}]*|\p{P}{1,2}`, `x*`, `é|日+`,
	} {
		translated, err := translate(expr)
		if err != nil {
			t.Fatal(err)
		}
		d, err := newDFA(translated)
		if err != nil {
			t.Fatal(expr, err)
		}
		re := regexp.MustCompile(`^(?:` + translated + `)`)
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringOf(rapid.SampledFrom([]rune("abcdxK\u212aſks' \nL1é½日.\u0301🙂\uFFFD"))).Draw(t, "text")
			if got, want := d.match(text), len(re.FindString(text)); got != want {
				t.Fatalf("%s: %q: got %d, want %d", expr, text, got, want)
			}
		})
	}
}

// TestSplitsLoseNothing joins the pieces of random text.
func TestSplitsLoseNothing(t *testing.T) {
	for _, expr := range []string{gpt2Pattern, llama3Pattern, qwen2Pattern} {
		p, err := newPattern(expr)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.StringOf(rapid.SampledFrom([]rune(" \n\r\t'sLl1é½日.\u00a0\u0301🙂"))).Draw(t, "text")
			var joined strings.Builder
			matchSplit{matcher: p}.split(aligned{text: text}, func(a aligned) {
				if a.text == "" {
					t.Fatal("empty piece")
				}
				joined.WriteString(a.text)
			})
			if joined.String() != text {
				t.Fatalf("got %q, want %q", joined.String(), text)
			}
		})
	}
}
