package safetensors

import (
	"path/filepath"
	"testing"
)

// FuzzIndex: no text makes the reader of an index panic, and none names a shard outside of the directory.
func FuzzIndex(f *testing.F) {
	for _, text := range []string{
		`{"metadata": {"total_size": 4}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`,
		`{"weight_map": {"a": "../x.safetensors"}}`, `{"weight_map": {"a": "/etc/passwd"}}`,
		`{"weight_map": {"a": 1}}`, `{"weight_map": {"a": "x", "a": "y"}}`, `[]`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		shards, err := parseIndex(text)
		if err != nil {
			return
		}
		for name, tensors := range shards {
			if !filepath.IsLocal(name) || filepath.Base(name) != name {
				t.Errorf("%s: shard %q lies elsewhere", text, name)
			}
			if len(tensors) == 0 {
				t.Errorf("%s: shard %q has no tensors", text, name)
			}
		}
	})
}
