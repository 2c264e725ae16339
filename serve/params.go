package serve

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"

	"github.com/galley-ml/galley/serve/engine"
)

// params has the fields that completions and chats share. Unsupported fields of OpenAI's API are an error if
// they request something.
type params struct {
	Model         string             `json:"model"`
	Stream        bool               `json:"stream"`
	StreamOptions *streamOptions     `json:"stream_options"`
	Temperature   *float64           `json:"temperature"`
	TopP          *float64           `json:"top_p"`
	N             *int               `json:"n"`
	Stop          stops              `json:"stop"`
	Seed          *int64             `json:"seed"`
	Presence      *float64           `json:"presence_penalty"`
	Frequency     *float64           `json:"frequency_penalty"`
	LogitBias     map[string]float64 `json:"logit_bias"`
	User          string             `json:"user"`

	// Extensions of vLLM.
	TopK        *int     `json:"top_k"`
	MinP        *float64 `json:"min_p"`
	Repetition  *float64 `json:"repetition_penalty"`
	StopTokens  []int32  `json:"stop_token_ids"`
	IgnoreEOS   bool     `json:"ignore_eos"`
	IncludeStop bool     `json:"include_stop_str_in_output"`
	Priority    int      `json:"priority"`
	CacheSalt   string   `json:"cache_salt"`
	structure

	// Accepted, without effect.
	Store           *bool           `json:"store"`
	Metadata        json.RawMessage `json:"metadata"`
	ServiceTier     string          `json:"service_tier"`
	PromptCacheKey  string          `json:"prompt_cache_key"`
	SafetyIdentifer string          `json:"safety_identifier"`
}

type streamOptions struct {
	IncludeUsage       bool `json:"include_usage"`
	IncludeObfuscation bool `json:"include_obfuscation"`
}

// stops is one stop text or several.
type stops []string

func (s *stops) UnmarshalJSON(text []byte) error {
	var one *string
	if json.Unmarshal(text, &one) == nil {
		if one != nil {
			*s = stops{*one}
		}
		return nil
	}
	if json.Unmarshal(text, (*[]string)(s)) != nil {
		return badRequest("stop: want a text or a list of texts").at("stop", "")
	}
	return nil
}

// request returns the engine's request; the caller adds the prompt, the number of tokens and the
// log-probabilities.
func (p *params) request(m *Model, tenant string) (engine.Request, error) {
	r := engine.Request{Tenant: tenant, Adapter: m.adapterOf(p.Model), Priority: p.Priority, Salt: p.CacheSalt,
		N: 1, Stop: m.Stop, StopText: p.Stop, KeepStop: p.IncludeStop, Sampling: m.Defaults}
	for _, s := range p.Stop {
		if s == "" {
			return r, badRequest("stop: an empty text would end every answer").at("stop", "")
		}
	}
	if len(p.Stop) > 16 {
		return r, badRequest("stop: got %d texts, want at most 16", len(p.Stop)).at("stop", "")
	}
	if p.IgnoreEOS {
		r.Stop = nil
	}
	r.Stop = append(r.Stop[:len(r.Stop):len(r.Stop)], p.StopTokens...)
	set(&r.N, p.N)
	if r.N < 1 {
		return r, badRequest("n: got %d, want at least 1", r.N).at("n", "")
	}
	masks, err := p.masks(m)
	if err != nil {
		return r, err
	}
	r.Masks = masks
	c := &r.Sampling
	set(&c.Temperature, p.Temperature)
	set(&c.TopP, p.TopP)
	set(&c.MinP, p.MinP)
	set(&c.Repetition, p.Repetition)
	set(&c.Presence, p.Presence)
	set(&c.Frequency, p.Frequency)
	if p.TopK != nil {
		c.TopK = max(0, *p.TopK) // -1 means all in vLLM
	}
	c.Seed = rand.Uint64()
	if p.Seed != nil {
		c.Seed = uint64(*p.Seed)
	}
	for name, b := range p.LogitBias {
		id, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return r, badRequest("logit_bias: %q: want the number of a token", name).at("logit_bias", "")
		}
		if c.Bias == nil {
			c.Bias = map[int32]float64{}
		}
		c.Bias[int32(id)] = b
	}
	return r, nil
}

// limit sets how many tokens a request generates: as many as it requests, else byDefault, else what the
// context allows. field is the name of the prompt's field, for errors.
func (s *Server) limit(m *Model, r *engine.Request, field string, asked *int, byDefault int) error {
	room := m.Engine.Limit() - len(r.Prompt)
	if room < 1 {
		return tooLong(field, len(r.Prompt), 1, m)
	}
	r.Tokens = room
	if byDefault > 0 {
		r.Tokens = min(room, byDefault)
	}
	if asked != nil {
		if *asked < 1 {
			return badRequest("max_tokens: got %d, want at least 1", *asked).at("max_tokens", "")
		}
		if *asked > room {
			return tooLong(field, len(r.Prompt), *asked, m)
		}
		r.Tokens = *asked
	}
	if most := s.config.Tokens; most > 0 {
		if asked != nil && *asked > most {
			return badRequest("max_tokens: got %d, want at most %d here", *asked, most).at("max_tokens", "")
		}
		r.Tokens = min(r.Tokens, most)
	}
	return nil
}

func tooLong(field string, prompt, tokens int, m *Model) error {
	return badRequest("the model's context is %d tokens: the prompt has %d, and %d are to be generated",
		m.Engine.Limit(), prompt, tokens).at(field, "context_length_exceeded")
}
