package bench

import (
	"encoding/json"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// WriteModel writes a model with Decode's random weights, in bfloat16, as a Hugging Face directory, so that
// other systems can run it, too. Its tokenizer has only a token for each byte.
func WriteModel(dir string, c models.Config) error {
	m, err := models.New(c, nn.Config{DType: array.BF16})
	if err != nil {
		return err
	}
	text, err := byteTokenizer()
	if err != nil {
		return err
	}
	return models.Save(
		dir,
		m,
		models.SaveConfig{Tokenizer: text, Each: func(f func(*nn.Param, array.Array) error) error {
			for _, p := range m.Params() {
				a, err := noise(p)
				if err == nil {
					err = f(p, a)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}},
	)
}

// byteTokenizer returns the tokenizer.json of byte-level BPE without merges.
func byteTokenizer() ([]byte, error) {
	vocab, next := map[string]int{}, rune(256)
	for i := range rune(256) {
		c := i
		if c < '!' || c > '~' && c < 0xa1 || c == 0xad { // unprintable bytes are mapped to characters after 255
			c, next = next, next+1
		}
		vocab[string(c)] = int(i)
	}
	level := map[string]any{
		"type":             "ByteLevel",
		"add_prefix_space": false,
		"trim_offsets":     true,
		"use_regex":        true,
	}
	return json.Marshal(map[string]any{"version": "1.0", "added_tokens": []any{}, "normalizer": nil,
		"pre_tokenizer": level, "decoder": level, "post_processor": nil,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}}})
}
