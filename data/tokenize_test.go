package data

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// corpus writes files of all kinds, and returns their directory and the documents that they hold.
func corpus(t *testing.T) (string, []string) {
	t.Helper()
	dir := t.TempDir()
	var lines bytes.Buffer
	var texts []string
	for i := range 300 {
		text := strings.Repeat(fmt.Sprintf("document %d ", i), i%7)
		line, _ := json.Marshal(map[string]any{"text": text, "n": i})
		lines.Write(append(line, '\n'))
		texts = append(texts, text)
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	w.Write(lines.Bytes())
	w.Close()
	packer, _ := zstd.NewWriter(nil)
	write("a.jsonl", lines.Bytes())
	write("b.jsonl.gz", zipped.Bytes())
	write("c.txt", []byte("plain text"))
	write("d.ndjson.zst", packer.EncodeAll(lines.Bytes(), nil))
	write(".hidden", []byte{0xff})
	return dir, slices.Concat(texts, texts, []string{"plain text"}, texts)
}

func tokenizeConfig() TokenizeConfig {
	return TokenizeConfig{Tokenizer: Bytes{}, Name: "bytes", End: 0, ShardTokens: 3000, Workers: 3}
}

func readShards(t *testing.T, dir string) (texts []string) {
	t.Helper()
	shards, err := OpenShards(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shards {
		for i := range s.Documents() {
			ids := s.Document(i)
			if ids[len(ids)-1] != 0 {
				t.Fatalf("document %d does not end", i)
			}
			texts = append(texts, Bytes{}.Decode(ids[:len(ids)-1]))
		}
		s.Close()
	}
	return texts
}

func TestTokenize(t *testing.T) {
	in, want := corpus(t)
	out := filepath.Join(t.TempDir(), "out")
	stats, err := Tokenize(t.Context(), out, []string{in}, tokenizeConfig())
	if err != nil {
		t.Fatal(err)
	}
	if got := readShards(t, out); !slices.Equal(got, want) {
		t.Errorf("got %d documents, want %d in their order", len(got), len(want))
	}
	if stats.Documents != len(want) || stats.Shards < 3 {
		t.Errorf("got %+v", stats)
	}
	again, err := Tokenize(t.Context(), out, []string{in}, tokenizeConfig())
	if err != nil || again != stats {
		t.Errorf("a second run: got %+v, %v, want nothing to do", again, err)
	}
	other := tokenizeConfig()
	other.Name = "other"
	if _, err := Tokenize(t.Context(), out, []string{in}, other); err == nil ||
		!strings.Contains(err.Error(), "new directory") {
		t.Errorf("another tokenizer: got %v", err)
	}
}

// stopping cancels a run at the n-th text.
type stopping struct {
	Bytes
	left   chan struct{}
	cancel func()
}

func (s stopping) Encode(text string) []int32 {
	select {
	case <-s.left:
	default:
		s.cancel()
	}
	return s.Bytes.Encode(text)
}

func TestTokenizeResumes(t *testing.T) {
	in, want := corpus(t)
	out := t.TempDir()
	runs := 0
	for ; ; runs++ {
		ctx, cancel := context.WithCancel(t.Context())
		c := tokenizeConfig()
		left := make(chan struct{}, 200)
		for range cap(left) {
			left <- struct{}{}
		}
		c.Tokenizer = stopping{left: left, cancel: cancel}
		_, err := Tokenize(ctx, out, []string{in}, c)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || runs > 50 {
			t.Fatal(runs, err)
		}
	}
	if got := readShards(t, out); !slices.Equal(got, want) || runs < 2 {
		t.Errorf("after %d stops: got %d documents, want %d in their order", runs, len(got), len(want))
	}
}

func TestDocumentsErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.jsonl")
	if err := os.WriteFile(path, []byte("{\"text\":\"a\"}\n{\"text\":1}\n{}\nnonsense\n{\"text\":\"b\"}\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	var skipped []string
	config := DocumentsConfig{Skip: func(err error) { skipped = append(skipped, err.Error()) }}
	n := 0
	for _, err := range Documents([]string{path}, config) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2 || len(skipped) != 3 || !strings.Contains(skipped[1], `x.jsonl:3: it has no field "text"`) {
		t.Errorf("got %d documents, skipped %q", n, skipped)
	}
	for _, err := range Documents([]string{path}, DocumentsConfig{}) {
		if err != nil && !strings.Contains(err.Error(), "x.jsonl:2: field") {
			t.Errorf("got %v, want the line", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "y.txt"), []byte{0xff}, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, err := range Documents([]string{filepath.Join(dir, "y.txt")}, DocumentsConfig{}) {
		if err == nil || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("got %v", err)
		}
	}
	for _, err := range Documents([]string{filepath.Join(dir, "none")}, DocumentsConfig{}) {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}
