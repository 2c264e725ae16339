package models

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
)

// Fact returns the model's architecture in one line, for the checkpoints of a run.
func (c Config) Fact() data.Fact {
	c.DType = array.Invalid // that of the file
	h := fnv.New64a()
	if text, err := json.Marshal(c); err == nil {
		h.Write(text)
	}
	return data.Fact{Name: "model",
		Value: fmt.Sprintf("%s of %d layers, %d wide, %d heads, vocabulary %d, hash %016x",
			c.Family, c.Layers, c.Hidden, c.Heads, c.Vocab, h.Sum64())}
}
