package models

import (
	"bytes"
	"encoding/json"
	"maps"
	"strconv"
)

// MarshalJSON returns the text of a config.json in the form of transformers 5.
func (c Config) MarshalJSON() ([]byte, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	f, err := familyOf(c.Family)
	if err != nil {
		return nil, err
	}
	m := map[string]any{}
	for k, v := range c.Other {
		m[k] = v
	}
	maps.Copy(m, map[string]any{
		"model_type": c.Family, "architectures": []string{f.architectureOf(c.Task)}, "vocab_size": c.Vocab,
		f.keys.hidden: c.Hidden, f.keys.layers: c.Layers, f.keys.heads: c.Heads,
		f.keys.intermediate: c.Intermediate,
		f.keys.positions:    c.Positions, f.keys.activation: c.Activation, f.keys.eps: number(c.NormEps),
		"initializer_range": number(c.InitStd), "tie_word_embeddings": c.Tied,
	})
	if name := torchName(c.DType); name != "" {
		m["dtype"] = name
	}
	f.write(c, f, m)
	delete(m, "") // sizes that the family's files do not have
	return json.Marshal(m)
}

// UnmarshalJSON parses the text with ParseConfig.
func (c *Config) UnmarshalJSON(text []byte) (err error) {
	*c, err = ParseConfig(text)
	return err
}

// number is a float that prints with a fraction, 10000.0, because transformers checks types.
type number float64

func (x number) MarshalJSON() ([]byte, error) {
	b := strconv.AppendFloat(nil, float64(x), 'g', -1, 64)
	if !bytes.ContainsAny(b, ".e") {
		b = append(b, ".0"...)
	}
	return b, nil
}
