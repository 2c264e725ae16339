package data

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func writeShard(t testing.TB, vocab int, docs ...[]int32) string {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "s")
	w, err := NewShardWriter(prefix, vocab)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		if err := w.Add(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return prefix
}

func TestShard(t *testing.T) {
	docs := [][]int32{{1, 2, 3}, {}, {65535, 4}}
	for _, vocab := range []int{1 << 16, 1<<16 + 1} {
		s, err := OpenShard(writeShard(t, vocab, docs...))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range docs {
			if got := s.Document(i); !slices.Equal(got, want) {
				t.Errorf("document %d: got %v, want %v", i, got, want)
			}
		}
		if s.Documents() != 3 || s.Len() != 5 {
			t.Errorf("got %d documents of %d tokens", s.Documents(), s.Len())
		}
		s.Close()
	}
}

// TestShardLayout holds the bytes of an index to Megatron's.
func TestShardLayout(t *testing.T) {
	prefix := writeShard(t, 100, []int32{7, 8}, []int32{9})
	index, err := os.ReadFile(prefix + ".idx")
	if err != nil {
		t.Fatal(err)
	}
	want := "MMIDIDX\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" + "\x08" + // magic, version, u16
		"\x02\x00\x00\x00\x00\x00\x00\x00" + "\x03\x00\x00\x00\x00\x00\x00\x00" + // sequences, bounds
		"\x02\x00\x00\x00\x01\x00\x00\x00" + // sizes
		"\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00" + // places
		"\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00" // bounds
	if string(index) != want {
		t.Errorf("got %q, want %q", index, want)
	}
}

func TestShardErrors(t *testing.T) {
	damage := func(name string, f func([]byte) []byte) error {
		prefix := writeShard(t, 100, []int32{7, 8}, []int32{9})
		b, err := os.ReadFile(prefix + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(prefix+name, f(b), 0o666); err != nil {
			t.Fatal(err)
		}
		_, err = OpenShard(prefix)
		return err
	}
	for want, err := range map[string]error{
		"cut off":       damage(".idx", func(b []byte) []byte { return b[:20] }),
		"5 sequences":   damage(".idx", func(b []byte) []byte { b[18] = 5; return b }),
		"want 6":        damage(".bin", func(b []byte) []byte { return b[:4] }),
		"type of token": damage(".idx", func(b []byte) []byte { b[17] = 6; return b }),
		"version":       damage(".idx", func(b []byte) []byte { b[9] = 2; return b }),
		"one behind":    damage(".idx", func(b []byte) []byte { b[34] = 1; return b }),
		"want rising":   damage(".idx", func(b []byte) []byte { b[len(b)-8] = 9; return b }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	w, err := NewShardWriter(filepath.Join(t.TempDir(), "s"), 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add([]int32{1 << 16}); err == nil {
		t.Error("a token of more than two bytes is taken")
	}
	w.Discard()
}

// TestSamplerOfShards: windows of tokens on disk are those of the same tokens in memory.
func TestSamplerOfShards(t *testing.T) {
	ids := make([]int32, 1000)
	for i := range ids {
		ids[i] = int32(i)
	}
	var shards []TokenSource
	for _, cut := range [][2]int{{0, 333}, {333, 333}, {333, 700}, {700, 1000}} {
		s, err := OpenShard(writeShard(t, 1000, ids[cut[0]:cut[1]]))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		shards = append(shards, s)
	}
	config := SamplerConfig{Batch: 3, Seq: 17, Seed: 5}
	a, err := NewSampler(ids, config)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewSamplerOf(Join(shards...), config)
	if err != nil {
		t.Fatal(err)
	}
	for step := range 50 {
		if !slices.Equal(a.Batch(step).Bytes(), b.Batch(step).Bytes()) {
			t.Fatalf("step %d differs", step)
		}
	}
	if !slices.Equal(a.Facts(), b.Facts()) {
		t.Errorf("facts: got %v, want %v", b.Facts(), a.Facts())
	}
}

func FuzzShardIndex(f *testing.F) {
	prefix := writeShard(f, 100, []int32{7, 8}, []int32{9})
	index, err := os.ReadFile(prefix + ".idx")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(index, 6)
	f.Add(index[:40], 0)
	f.Fuzz(func(t *testing.T, index []byte, size int) {
		if size < 0 || size > 1<<12 {
			return
		}
		s := &Shard{bin: mapping{make([]byte, size)}}
		if err := s.readIndex(index); err != nil {
			return
		}
		for i := range s.Documents() {
			s.Document(i)
		}
	})
}
