package serve

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/galley-ml/galley/serve/engine"
)

// completionRequest is the body of POST /v1/completions.
type completionRequest struct {
	params
	Prompt    prompts `json:"prompt"`
	MaxTokens *int    `json:"max_tokens"`
	LogProbs  *int    `json:"logprobs"`
	Echo      bool    `json:"echo"`
	BestOf    *int    `json:"best_of"`
	Suffix    *string `json:"suffix"`
}

// prompts is one text, several texts, tokens, or several lists of tokens.
type prompts struct {
	texts []string
	ids   [][]int32
}

func (p *prompts) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		p.texts = []string{one}
		return nil
	}
	if json.Unmarshal(text, &p.texts) == nil && len(p.texts) > 0 {
		return nil
	}
	p.texts = nil
	var ids []int32
	if json.Unmarshal(text, &ids) == nil && len(ids) > 0 {
		p.ids = [][]int32{ids}
		return nil
	}
	if json.Unmarshal(text, &p.ids) == nil && len(p.ids) > 0 {
		return nil
	}
	return badRequest("prompt: want a text, texts, tokens or lists of tokens").at("prompt", "")
}

// encoded returns the tokens of every prompt.
func (p *prompts) encoded(t Text) [][]int32 {
	if p.ids != nil {
		return p.ids
	}
	var all [][]int32
	for _, text := range p.texts {
		all = append(all, t.Encode(text))
	}
	return all
}

// mostPrompts is the largest number of prompts of one request.
const mostPrompts = 64

func (s *Server) completions(w http.ResponseWriter, r *http.Request) {
	var c completionRequest
	if err := read(r, &c); err != nil {
		fail(w, err)
		return
	}
	m, err := s.model(c.Model)
	if err != nil {
		fail(w, err)
		return
	}
	defer m.users.Done()
	requests, err := s.completionRequests(r, m, &c)
	if err != nil {
		fail(w, err)
		return
	}
	to := &completionWriter{id: newID("cmpl-"), created: time.Now().Unix(), model: m, name: m.shown(c.Model),
		logProbs: c.LogProbs != nil, each: requests[0].N}
	if c.Echo {
		for _, q := range requests {
			to.echo = append(to.echo, m.Text.Decode(q.Prompt))
		}
	}
	s.answerRequests(w, r, m, &c.params, requests, to)
}

func (s *Server) completionRequests(
	r *http.Request,
	m *Model,
	c *completionRequest,
) ([]engine.Request, error) {
	base, err := c.request(m, s.tenant(r, c.User))
	if err != nil {
		return nil, err
	}
	if c.LogProbs != nil {
		base.Sampling.Top = *c.LogProbs
		if *c.LogProbs < 0 || *c.LogProbs > 20 {
			return nil, badRequest("logprobs: got %d, want 0 to 20", *c.LogProbs).at("logprobs", "")
		}
	}
	switch {
	case c.Suffix != nil && *c.Suffix != "":
		return nil, badRequest("suffix: texts cannot be inserted here").at("suffix", "")
	case c.BestOf != nil && *c.BestOf != base.N:
		return nil, badRequest("best_of: got %d, want n, which is %d", *c.BestOf, base.N).at("best_of", "")
	}
	all := c.Prompt.encoded(m.Text)
	if len(all) == 0 || len(all) > mostPrompts {
		return nil, badRequest("prompt: got %d, want 1 to %d", len(all), mostPrompts).at("prompt", "")
	}
	var requests []engine.Request
	for _, ids := range all {
		q := base
		q.Prompt = ids
		if len(ids) == 0 {
			return nil, badRequest("prompt: it has no tokens: want at least one").at("prompt", "")
		}
		if err := s.limit(m, &q, "prompt", c.MaxTokens, 16); err != nil { // OpenAI's default
			return nil, err
		}
		requests = append(requests, q)
	}
	return requests, nil
}

// completionWriter writes the answers of completions.
type completionWriter struct {
	id       string
	created  int64
	model    *Model
	name     string // of the model or adapter
	logProbs bool
	echo     []string
	each     int
	offsets  map[int]int
	echoed   map[int]bool
}

type completionChoice struct {
	Text     string              `json:"text"`
	Index    int                 `json:"index"`
	LogProbs *completionLogProbs `json:"logprobs"`
	Finish   *string             `json:"finish_reason"`
}

// completionLogProbs has one element for each token.
type completionLogProbs struct {
	Tokens   []string             `json:"tokens"`
	LogProbs []float64            `json:"token_logprobs"`
	Top      []map[string]float64 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

// finishOf returns the finish reason, nil while a choice is not finished.
func finishOf(f engine.Finish) *string {
	if f == "" {
		return nil
	}
	s := string(f)
	return &s
}

func (c *completionWriter) object(choices []completionChoice, u *usage) map[string]any {
	o := map[string]any{"id": c.id, "object": "text_completion", "created": c.created, "model": c.name,
		"choices": choices}
	if u != nil {
		o["usage"] = u
	}
	return o
}

func (c *completionWriter) begin(*stream) error {
	c.offsets, c.echoed = map[int]int{}, map[int]bool{}
	return nil
}

func (c *completionWriter) token(s *stream, i int, t engine.Token) error {
	text := t.Text
	if c.echo != nil && !c.echoed[i] {
		c.echoed[i] = true
		text = c.echo[i/c.each] + text
	}
	choice := completionChoice{Text: text, Index: i, Finish: finishOf(t.Finish)}
	if c.logProbs {
		choice.LogProbs = c.probabilities([]engine.Token{t}, c.offsets[i])
	}
	c.offsets[i] += len(t.Text)
	return s.send(c.object([]completionChoice{choice}, nil))
}

func (c *completionWriter) end(s *stream, u *usage) error {
	if u == nil {
		return nil
	}
	return s.send(c.object([]completionChoice{}, u))
}

func (c *completionWriter) whole(choices []answer, u usage) any {
	out := make([]completionChoice, len(choices))
	for i, a := range choices {
		text := a.text
		if c.echo != nil {
			text = c.echo[i/c.each] + text
		}
		out[i] = completionChoice{Text: text, Index: i, Finish: finishOf(a.finish)}
		if c.logProbs {
			out[i].LogProbs = c.probabilities(a.tokens, 0)
		}
	}
	return c.object(out, &u)
}

func (c *completionWriter) probabilities(tokens []engine.Token, offset int) *completionLogProbs {
	p := &completionLogProbs{}
	for _, t := range tokens {
		p.Tokens = append(p.Tokens, c.model.Text.Decode([]int32{t.ID}))
		p.LogProbs = append(p.LogProbs, t.LogProb)
		p.Offsets = append(p.Offsets, offset)
		offset += len(t.Text)
		top := map[string]float64{}
		for _, x := range t.Top {
			top[c.model.Text.Decode([]int32{x.ID})] = x.LogProb
		}
		p.Top = append(p.Top, top)
	}
	return p
}
