package jinja_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/jinja"
)

type recorded struct {
	Template, Conversation string
	Values                 json.RawMessage
	Text                   *string
	Error                  string
}

func load[T any](t testing.TB, path string) (out T) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func values(t testing.TB, raw []byte) map[string]any {
	t.Helper()
	v, err := jinja.FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	var names map[string]json.RawMessage
	if err := json.Unmarshal(raw, &names); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for name := range names {
		out[name], _ = v.(*jinja.Dict).Get(name)
	}
	return out
}

// TestRecorded: every template and conversation gives what jinja2 has given, or an error where that had one.
// testdata/record.py records.
func TestRecorded(t *testing.T) {
	jinja.Now = func() time.Time { return time.Date(2025, 3, 7, 14, 5, 9, 0, time.UTC) }
	defer func() { jinja.Now = time.Now }()
	templates := load[map[string]string](t, "testdata/templates.json")
	for _, c := range load[[]recorded](t, "testdata/cases.json") {
		t.Run(c.Template+" "+c.Conversation, func(t *testing.T) {
			got, err := "", error(nil)
			p, err := jinja.Parse(templates[c.Template])
			if err != nil {
				t.Fatal(err)
			}
			got, err = p.Render(values(t, c.Values))
			switch {
			case c.Text == nil && err == nil:
				t.Errorf("got %q, want an error: %s", got, c.Error)
			case c.Text != nil && err != nil:
				t.Errorf("got %v, want %q", err, *c.Text)
			case c.Text != nil && got != *c.Text:
				t.Errorf("got\n%q, want\n%q", got, *c.Text)
			}
		})
	}
}

// TestErrors: a mistake names its line, and what to do.
func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a\n{% if x %}":                   "line 2: the template ends: want {% endif %}",
		"{{ x":                            "line 1: a tag does not end: want }}",
		"{% include 'x' %}":               `line 1: block "include" is not supported`,
		"{{ x|nofilter }}":                `line 1: no filter "nofilter"`,
		"\n\n{{ 'a' + 1 }}":               "line 3: a str + a int: no such operation",
		"{{ raise_exception('not so') }}": "line 1: not so",
		"{% for x in y %}{% endfor":       "a tag does not end",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}":                                "too deep",
		"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}": "does not end",
		"{{ 'abc' * 6148914691236517206 }}":                                              "a value is too large",
		"{% set x = 'a' * 9999 %}{{ x.replace('', x) }}":                                 "a value is too large",
		"{% set x = 'a' * 9999 %}{{ range(9999) | join(x) }}":                            "a value is too large",
		"{% set x = '\n' * 99999 %}{{ x | indent(1000, blank=true) }}":                   "a value is too large",
		"{% set x = 'ab' %}" + strings.Repeat("{% set x = x ~ x %}", 50):                 "a value is too large",
		"{% set x = [1] %}" + strings.Repeat("{% set x = x + x %}", 50):                  "a value is too large",
		"{% set x = [1] %}" + strings.Repeat("{% set x = [x, x] %}", 50):                 "a value is too large",
		"{% set x = 'a' * 9999999 %}{{ '{0}{0}{0}'.format(x) }}":                         "a value is too large",
		"{{ [range(99999), range(99999)] | map('unique') | map('length')}}":              "does not end",
		"{% set x = range(99999) %}{% for i in x %}{{ 0 in x }}{% endfor %}":             "does not end",
		strings.Repeat("(", 5000):                                                        "",
		"{{ " + strings.Repeat("(", 500) + "1" + strings.Repeat(")", 500) + " }}":        "nested too deep",
	} {
		p, err := jinja.Parse(text)
		if err == nil {
			_, err = p.Render(nil)
		}
		if want == "" {
			if err != nil {
				t.Errorf("got %v", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
}

// TestPowers: a power takes time by the length of its exponent.
func TestPowers(t *testing.T) {
	p, err := jinja.Parse("{{ (-1) ** 9007199254740993 }} {{ 0 ** 99999999999 }} {{ (-3) ** 5 }} {{ 2 ** 0 }}")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Render(nil); got != "-1 0 -243 1" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// FuzzTemplate: no template makes the renderer panic.
func FuzzTemplate(f *testing.F) {
	templates := load[map[string]string](f, "testdata/templates.json")
	for _, t := range templates {
		f.Add(t)
	}
	messages, err := jinja.FromJSON([]byte(
		`[{"role": "user", "content": "a"}, {"role": "assistant", "content": null}]`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		if p, err := jinja.Parse(text); err == nil {
			p.Render(map[string]any{"messages": messages, "bos_token": "<s>", "x": 3})
		}
	})
}

func FuzzFromJSON(f *testing.F) {
	f.Add([]byte(`{"b": [1, 2.5, null, {"a": "x"}], "a": true}`))
	f.Fuzz(func(t *testing.T, text []byte) { jinja.FromJSON(text) })
}
