package main

import (
	"fmt"

	"github.com/galley-ml/galley/serve/engine"
)

// openDraft opens the draft model of --draft; nil if there is none. Call closeAll after the engine has packed
// the weights.
func openDraft(dir string) (draft *engine.Draft, closeAll func(), err error) {
	if dir == "" {
		return nil, func() {}, nil
	}
	d, err := openModelDir(dir, checkpointChoice{})
	if err != nil {
		return nil, nil, fmt.Errorf("--draft: %w", err)
	}
	shape, read, done, err := d.weights()
	if err != nil {
		d.close()
		return nil, nil, fmt.Errorf("--draft=%s: %w", dir, err)
	}
	return &engine.Draft{Model: shape, Read: read, Grouped: d.grouped}, func() { done(); d.close() }, nil
}
