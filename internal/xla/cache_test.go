package xla

import (
	"bytes"
	"crypto/sha256"
	"os"
	"testing"
)

// FuzzCache: whatever a file of the cache holds, it returns what was put there, whole, or nothing.
func FuzzCache(f *testing.F) {
	f.Add([]byte("program"), uint16(0), byte(0))
	f.Add([]byte("program"), uint16(3), byte(1))
	f.Add([]byte("x"), uint16(40), byte(255))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		c := &cache{t.TempDir(), "maker"}
		key := sha256.Sum256([]byte("key"))
		c.put(key, data)
		if got := c.get(key); !bytes.Equal(got, data) {
			t.Fatalf("put %q, got %q", data, got)
		}
		if len(data) == 0 {
			return
		}
		file, err := os.ReadFile(c.path(key))
		if err != nil {
			t.Fatal(err)
		}
		file[int(at)%len(file)] ^= flip
		if err := os.WriteFile(c.path(key), file[:len(file)-int(at/1024)%len(file)], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := c.get(key); got != nil && !bytes.Equal(got, data) {
			t.Errorf("a damaged file gives %q for %q", got, data)
		}
	})
}
