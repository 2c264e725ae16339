package serve

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"

	"github.com/galley-ml/galley/serve/engine"
)

func (s *Server) modelObject(m *Model) map[string]any {
	return map[string]any{"id": m.Name, "object": "model", "created": m.Created.Unix(), "owned_by": "galley",
		"max_model_len": m.Engine.Limit()}
}

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	list := []any{}
	for _, m := range s.models {
		list = append(append(list, s.modelObject(m)), s.adapterObjects(m)...)
	}
	s.mu.Unlock()
	write(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (s *Server) oneModel(w http.ResponseWriter, r *http.Request) {
	m, err := s.model(r.PathValue("name"))
	if err != nil {
		fail(w, err)
		return
	}
	defer m.users.Done()
	o := s.modelObject(m)
	if name := r.PathValue("name"); name != m.Name {
		o["id"], o["parent"] = name, m.Name
	}
	write(w, http.StatusOK, o)
}

// embeddings handles POST /v1/embeddings: the last token's final hidden state, normalized to length 1.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) {
	var c struct {
		Model      string  `json:"model"`
		Input      prompts `json:"input"`
		Format     string  `json:"encoding_format"`
		Dimensions *int    `json:"dimensions"`
		User       string  `json:"user"`
	}
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
	all := c.Input.encoded(m.Text)
	hidden := m.Engine.Model().Hidden
	switch {
	case len(all) == 0 || len(all) > 2048:
		err = badRequest("input: got %d, want 1 to 2048", len(all)).at("input", "")
	case c.Format != "" && c.Format != "float" && c.Format != "base64":
		err = badRequest("encoding_format: got %q, want float or base64", c.Format).at("encoding_format", "")
	case c.Dimensions != nil && *c.Dimensions != hidden:
		err = badRequest("dimensions: got %d, want %d, the model's own", *c.Dimensions, hidden).at("dimensions", "")
	}
	if err != nil {
		fail(w, err)
		return
	}
	data, tokens := []any{}, 0
	for i, ids := range all {
		x, err := m.Engine.Embed(r.Context(), engine.Request{Prompt: ids, Adapter: m.adapterOf(c.Model)})
		if err != nil {
			fail(w, err)
			return
		}
		tokens += len(ids)
		data = append(
			data,
			map[string]any{"object": "embedding", "index": i, "embedding": encoded(unit(x), c.Format)},
		)
	}
	deadline(w, s.config.WriteTimeout)
	write(w, http.StatusOK, map[string]any{"object": "list", "model": m.shown(c.Model), "data": data,
		"usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}})
}

// unit returns a vector scaled to length 1.
func unit(x []float32) []float32 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(float64(v) / math.Max(math.Sqrt(sum), 1e-12))
	}
	return out
}

// encoded returns the numbers, or the base64 of their bytes if format is base64.
func encoded(x []float32, format string) any {
	if format != "base64" {
		return x
	}
	b := make([]byte, 0, 4*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// tokenize handles POST /tokenize, as in vLLM.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	var c struct {
		chatRequest
		Prompt  *string `json:"prompt"`
		Special *bool   `json:"add_special_tokens"`
	}
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
	var ids []int32
	switch {
	case c.Prompt != nil && c.Special != nil && !*c.Special:
		ids = m.plain().Encode(*c.Prompt)
	case c.Prompt != nil:
		ids = m.Text.Encode(*c.Prompt)
	default:
		if ids, err = m.chatPrompt(&c.chatRequest); err != nil {
			fail(w, err)
			return
		}
	}
	if ids == nil {
		ids = []int32{}
	}
	write(w, http.StatusOK, map[string]any{"tokens": ids, "count": len(ids), "max_model_len": m.Engine.Limit()})
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	var c struct {
		Model  string  `json:"model"`
		Tokens []int32 `json:"tokens"`
	}
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
	write(w, http.StatusOK, map[string]any{"prompt": m.Text.Decode(c.Tokens)})
}
