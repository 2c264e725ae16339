package serve

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
)

// has reports whether a name in a request selects this model: its own name, or that of an adapter.
func (m *Model) has(name string) bool {
	if name == "" || m.Name == name {
		return true
	}
	_, ok := m.Engine.Adapters()[name]
	return ok
}

// adapterOf returns the adapter that the model's name in a request selects; empty is none.
func (m *Model) adapterOf(name string) string {
	if name == m.Name {
		return ""
	}
	return name
}

// shown returns the name of the model in an answer.
func (m *Model) shown(name string) string {
	if name == "" {
		return m.Name
	}
	return name
}

// adapterObjects returns the entries of a model's adapters in /v1/models.
func (s *Server) adapterObjects(m *Model) (list []any) {
	for _, name := range slices.Sorted(maps.Keys(m.Engine.Adapters())) {
		o := s.modelObject(m)
		o["id"], o["parent"] = name, m.Name
		list = append(list, o)
	}
	return list
}

// adapterRequest is the body of POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as in vLLM.
type adapterRequest struct {
	Name string `json:"lora_name"`
	// Path is a directory below that of Config.Adapters.
	Path string `json:"lora_path"`
	// Base is the name of the model to adapt; empty is the first.
	Base string `json:"base_model_name"`
}

// loadAdapter handles POST /v1/load_lora_adapter.
func (s *Server) loadAdapter(w http.ResponseWriter, r *http.Request) {
	m, c, err := s.adapterRequest(r)
	if err != nil {
		fail(w, err)
		return
	}
	defer m.users.Done()
	switch {
	case !filepath.IsLocal(c.Path):
		err = badRequest("lora_path: %q: want a directory below --adapters", c.Path).at("lora_path", "")
	case s.taken(c.Name, m):
		err = badRequest("lora_name: %q: a model or an adapter of another model is called so", c.Name).
			at("lora_name", "")
	default:
		if e := m.Engine.LoadAdapter(c.Name, filepath.Join(s.config.Adapters, c.Path)); e != nil {
			err = badRequest("%v", e).at("lora_path", "")
		}
	}
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, map[string]string{"status": "loaded", "model": c.Name, "parent": m.Name})
}

// taken reports whether a name is that of a model, or of an adapter of another model than m.
func (s *Server) taken(name string, m *Model) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.models {
		if other.Name == name || other != m && other.has(name) {
			return true
		}
	}
	return false
}

// unloadAdapter handles POST /v1/unload_lora_adapter.
func (s *Server) unloadAdapter(w http.ResponseWriter, r *http.Request) {
	m, c, err := s.adapterRequest(r)
	if err != nil {
		fail(w, err)
		return
	}
	defer m.users.Done()
	if err := m.Engine.UnloadAdapter(c.Name); err != nil {
		fail(w, notFound("%v", err).at("lora_name", ""))
		return
	}
	write(w, http.StatusOK, map[string]string{"status": "unloaded", "model": c.Name, "parent": m.Name})
}

// adapterRequest decodes a request and finds its model.
func (s *Server) adapterRequest(r *http.Request) (*Model, adapterRequest, error) {
	var c adapterRequest
	if err := read(r, &c); err != nil {
		return nil, c, err
	}
	if s.config.Adapters == "" {
		return nil, c, newError(http.StatusForbidden, "invalid_request_error",
			"adapters: the server lets nobody change them: it was started without --adapters")
	}
	if c.Name == "" {
		return nil, c, badRequest("lora_name: want what requests are to call it").at("lora_name", "")
	}
	m, err := s.model(c.Base)
	return m, c, err
}

// adopt loads the adapters of the model that m replaces.
func (m *Model) adopt(old *Model) error {
	own := m.Engine.Adapters()
	for name, dir := range old.Engine.Adapters() {
		if _, ok := own[name]; ok {
			continue
		}
		if err := m.Engine.LoadAdapter(name, dir); err != nil {
			return err
		}
	}
	return nil
}
