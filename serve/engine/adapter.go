package engine

import (
	"fmt"

	"github.com/galley-ml/galley/internal/paged"
	"github.com/galley-ml/galley/models"
)

// adapter is an adapter that requests may name. Its number is unique for ever, so that pages of an unloaded
// adapter are never used for a new one with the same name.
type adapter struct {
	*paged.Adapter
	number uint64
	dir    string
}

// LoadAdapter reads a PEFT directory, so that requests may name the adapter. It replaces one of the same
// name: requests that already run with the old one continue with it.
func (e *Engine) LoadAdapter(name, dir string) error {
	if name == "" {
		return fmt.Errorf("engine: adapter %s: want a name", dir)
	}
	if e.host == nil {
		return fmt.Errorf("engine: adapter %s: models on a backend have none yet: want its weights merged", dir)
	}
	layers, err := models.ReadAdapter(dir, e.shape)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	packed, err := e.host.model.Adapter(layers)
	if err != nil {
		return fmt.Errorf("engine: %s: %w", dir, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loaded++
	e.adapters[name] = &adapter{packed, e.loaded, dir}
	return nil
}

// UnloadAdapter removes an adapter; requests that already run with it continue with it.
func (e *Engine) UnloadAdapter(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.adapters[name] == nil {
		return fmt.Errorf("engine: adapter %q: it is not loaded", name)
	}
	delete(e.adapters, name)
	return nil
}

// Adapters returns the directories of all adapters by name.
func (e *Engine) Adapters() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	dirs := map[string]string{}
	for name, a := range e.adapters {
		dirs[name] = a.dir
	}
	return dirs
}

// adapterOf returns the adapter of a name; the empty name is none, nil.
func (e *Engine) adapterOf(name string) (*adapter, error) {
	if name == "" {
		return nil, nil
	}
	if a := e.adapters[name]; a != nil {
		return a, nil
	}
	return nil, bad("model", "adapter %q: it is not loaded", name)
}

// salt returns the salt of page hashes, so that different adapters, and different Salts, share no pages.
func (s *sequence) salt() string {
	if s.adapter == nil {
		return s.Salt
	}
	return fmt.Sprintf("adapter %d\x00%s", s.adapter.number, s.Salt)
}

// packed returns the packed adapter for the model, nil for none.
func (a *adapter) packed() *paged.Adapter {
	if a == nil {
		return nil
	}
	return a.Adapter
}

// together compares items by adapter, so that sequences of one adapter are in one matrix product.
func together(a, b item) int {
	number := func(it item) uint64 {
		if it.adapter == nil {
			return 0
		}
		return it.adapter.number
	}
	x, y := number(a), number(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
