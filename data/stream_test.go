package data

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// streamTexts writes texts as a plain, a gzip and a zstd file of JSON lines and as plain text.
func streamTexts(t *testing.T) (dir string, texts []string) {
	t.Helper()
	dir = t.TempDir()
	var files [3]bytes.Buffer
	for i := range 90 {
		text := fmt.Sprintf("%d %s.", i, strings.Repeat("wörd ", i%17))
		texts = append(texts, text)
		line, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		files[i%3].Write(append(line, '\n'))
	}
	plain := strings.Repeat("A line of plain text.\n", 30)
	texts = append(texts, plain)
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write(files[1].Bytes())
	w.Close()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"a.jsonl": files[0].Bytes(), "b.jsonl.gz": gz.Bytes(),
		"c.jsonl.zst": e.EncodeAll(files[2].Bytes(), nil), "d.txt": []byte(plain)} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir, texts
}

func newStream(t *testing.T, dir string, c StreamConfig) *Stream {
	t.Helper()
	c.Tokenizer, c.End, c.Seq = Bytes{}, -1, 32
	c.Rows = func(x *Corpus) (RowSource, error) { return Pack(Pieces(x, 32), 32) }
	s, err := NewStream([]string{dir}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func streamRow(t *testing.T, s *Stream, n int64) []int32 {
	t.Helper()
	b := newRows(1, 32, true)
	if err := s.Fill(n, b.row(0)); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(b.row(0).IDs, b.row(0).Labels, b.row(0).Segments)
}

// TestStream: an epoch has every byte of every text once, whatever the size of blocks; the second has the
// same rows in another order; rows are the same when they are asked for at random, and by a stream that
// continues.
func TestStream(t *testing.T) {
	dir, texts := streamTexts(t)
	var want [256]int
	for _, text := range texts {
		for i := range len(text) {
			want[text[i]]++
		}
	}
	for _, block := range []int64{1, 50, 333, 1 << 20} {
		t.Run(fmt.Sprint(block), func(t *testing.T) {
			s := newStream(t, dir, StreamConfig{BlockBytes: block, Seed: 5})
			var rows [][]int32
			var got [256]int
			n := int64(0)
			for ; ; n++ {
				row := streamRow(t, s, n)
				if s.find(n).Epoch > 0 {
					break
				}
				rows = append(rows, row)
				for i, id := range row[:32] {
					if row[64+i] > 0 {
						got[id]++
					}
				}
			}
			if got != want {
				t.Errorf("an epoch of %d rows has other bytes", n)
			}
			sameRows(t, s, dir, block, rows)
			var second [][]int32
			for i := range n {
				second = append(second, streamRow(t, s, n+i))
			}
			if s.find(2*n-1).Epoch != 1 || block < 1<<20 && reflect.DeepEqual(second, rows) {
				t.Errorf("the second epoch is as the first, or ends elsewhere")
			}
		})
	}
}

// sameRows compares streams that begin anywhere.
func sameRows(t *testing.T, s *Stream, dir string, block int64, rows [][]int32) {
	t.Helper()
	walked := s.Walked()
	for i := range 20 {
		n := i * 7919 % len(rows)
		if !slices.Equal(streamRow(t, s, int64(n)), rows[n]) {
			t.Fatalf("row %d is another one when it is read again", n)
		}
		on := newStream(t, dir, StreamConfig{BlockBytes: block, Seed: 5, Ahead: 1 + i%3})
		if i%2 == 0 { // it knows some of the blocks
			if err := on.Resume(walked[:len(walked)*i/20]); err != nil {
				t.Fatal(err)
			}
		}
		for k := n; k < min(n+3, len(rows)); k++ {
			if !slices.Equal(streamRow(t, on, int64(k)), rows[k]) {
				t.Fatalf("row %d is another one in a run that goes on at %d", k, n)
			}
		}
	}
}

// TestStreamMistakes: a broken line is an error with its place, or is left out; so is a text without a row.
func TestStreamMistakes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.jsonl")
	good := `{"text": "` + strings.Repeat("a", 40) + `"}` + "\n"
	if err := os.WriteFile(path, []byte(good+"{\n"+good), 0o666); err != nil {
		t.Fatal(err)
	}
	b := newRows(1, 32, true)
	err := newStream(t, dir, StreamConfig{}).Fill(0, b.row(0))
	if err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("x.jsonl at byte %d: unexpected end", len(good))) {
		t.Errorf("a broken line: %v", err)
	}
	skipped := 0
	s := newStream(t, dir, StreamConfig{Documents: DocumentsConfig{Skip: func(error) { skipped++ }}, Ahead: 1})
	if err := s.Fill(0, b.row(0)); err != nil || skipped == 0 {
		t.Errorf("a line that is left out: %v, %d skipped", err, skipped)
	}
	none := newStream(t, dir, StreamConfig{Keep: func(string) bool { return false },
		Documents: DocumentsConfig{Skip: func(error) {}}})
	if err := none.Fill(0, b.row(0)); !errors.Is(err, ErrNoRows) {
		t.Errorf("no text is kept: %v", err)
	}
	if err := s.Resume([]Walked{{First: 3}}); err == nil {
		t.Error("blocks that do not follow each other are taken")
	}
}

// TestHeldOut: about the share that is asked for, and never both.
func TestHeldOut(t *testing.T) {
	n := 0
	for i := range 10000 {
		if HeldOut(fmt.Sprint(i), 0.05, 1) {
			n++
		}
	}
	if n < 400 || n > 600 {
		t.Errorf("of 10000 texts %d are held out", n)
	}
}
