package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/galley-ml/galley/internal/grammar"
	"github.com/galley-ml/galley/serve/engine"
)

// structure has the fields that constrain an answer to a grammar.
type structure struct {
	ResponseFormat *responseFormat `json:"response_format"`
	GuidedJSON     json.RawMessage `json:"guided_json"`
	GuidedRegex    *string         `json:"guided_regex"`
	GuidedChoice   []string        `json:"guided_choice"`
	GuidedGrammar  *string         `json:"guided_grammar"`
}

type responseFormat struct {
	Type   string `json:"type"`
	Schema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict"`
	} `json:"json_schema"`
}

// form identifies a grammar: its kind, and its source text.
type form struct{ kind, text string }

// form returns the grammar that the request sets, and the field that sets it; kind is empty for none.
func (s *structure) form() (f form, param string, err error) {
	var all []form
	if r := s.ResponseFormat; r != nil {
		param = "response_format"
		switch {
		case r.Type == "text":
		case r.Type == "json_object":
			all = append(all, form{"json", ""})
		case r.Type == "json_schema" && r.Schema != nil && len(r.Schema.Schema) > 0:
			all = append(all, form{"schema", compactJSON(r.Schema.Schema)})
		default:
			return f, param, fmt.Errorf(
				"type %q: want text, json_object, or json_schema with json_schema.schema",
				r.Type,
			)
		}
	}
	if len(s.GuidedJSON) > 0 && string(s.GuidedJSON) != "null" {
		param = "guided_json"
		text := string(s.GuidedJSON)
		var inner string
		if json.Unmarshal(s.GuidedJSON, &inner) == nil { // vLLM also accepts the schema as a string
			text = inner
		}
		all = append(all, form{"schema", compactJSON([]byte(text))})
	}
	if s.GuidedRegex != nil {
		param = "guided_regex"
		all = append(all, form{"regex", *s.GuidedRegex})
	}
	if s.GuidedChoice != nil {
		param = "guided_choice"
		text, _ := json.Marshal(s.GuidedChoice)
		all = append(all, form{"choice", string(text)})
	}
	if s.GuidedGrammar != nil {
		param = "guided_grammar"
		all = append(all, form{"gbnf", *s.GuidedGrammar})
	}
	if len(all) > 1 {
		return f, param, fmt.Errorf("got %d forms, want one", len(all))
	}
	if len(all) == 1 {
		f = all[0]
	}
	return f, param, nil
}

// compactJSON returns JSON without white space; text that is not JSON stays as it is.
func compactJSON(text []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return string(text)
	}
	return b.String()
}

// masks returns a function that makes the grammar's mask of each continuation; nil if there is no grammar.
func (s *structure) masks(m *Model) (func() engine.Mask, error) {
	f, param, err := s.form()
	if err == nil && f.kind == "" {
		return nil, nil
	}
	var c *grammar.Compiled
	if err == nil {
		c, err = m.grammars.get(m, f)
	}
	if err != nil {
		return nil, badRequest("%s: %v", param, err).at(param, "")
	}
	return func() engine.Mask { return c.Matcher() }, nil
}

// grammars caches a model's compiled grammars, the latest used last.
type grammars struct {
	mu    sync.Mutex
	vocab *grammar.Vocabulary
	kept  map[form]*grammar.Compiled
	order []form
}

// mostGrammars is the size of the cache.
const mostGrammars = 32

func (g *grammars) get(m *Model, f form) (*grammar.Compiled, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.kept[f]; ok {
		i := slices.Index(g.order, f)
		g.order = append(slices.Delete(g.order, i, i+1), f)
		return c, nil
	}
	parsed, err := f.parse()
	if err != nil {
		return nil, err
	}
	if g.vocab == nil {
		g.vocab, g.kept = m.vocabulary(), map[form]*grammar.Compiled{}
	}
	c, err := grammar.Compile(parsed, g.vocab, m.Stop)
	if err != nil {
		return nil, err
	}
	if len(g.order) >= mostGrammars {
		delete(g.kept, g.order[0])
		g.order = g.order[1:]
	}
	g.kept[f], g.order = c, append(g.order, f)
	return c, nil
}

func (f form) parse() (*grammar.Grammar, error) {
	switch f.kind {
	case "json":
		return grammar.JSON()
	case "schema":
		return grammar.Schema([]byte(f.text))
	case "regex":
		return grammar.Regex(f.text)
	case "calls":
		return parseCalls(f.text)
	case "gbnf":
		return grammar.GBNF(f.text)
	}
	var texts []string
	if err := json.Unmarshal([]byte(f.text), &texts); err != nil {
		return nil, err
	}
	return grammar.Choice(texts)
}

// vocabulary returns the bytes that each token adds to a text. A token's text may depend on whether another
// precedes it, so each is decoded after one.
func (m *Model) vocabulary() *grammar.Vocabulary {
	before := m.plain().Encode("a")
	before = before[max(0, len(before)-1):]
	prefix := m.Text.Decode(before)
	texts := make([]string, m.Engine.Model().Vocab)
	for i := range texts {
		id := int32(i)
		if m.Special != nil && m.Special(id) || slices.Contains(m.Stop, id) {
			continue
		}
		texts[i] = strings.TrimPrefix(m.Text.Decode(append(before[:len(before):len(before)], id)), prefix)
	}
	return grammar.NewVocabulary(texts)
}
