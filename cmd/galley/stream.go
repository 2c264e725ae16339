package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/internal/strict"
)

// batchFrom returns a batch, or the error of making it: streamed texts are tokenized only when needed.
func batchFrom(b batches, sample int64) ([]array.Array, error) {
	if m, ok := b.(*data.Mixture); ok {
		return m.Try(sample)
	}
	return b.From(sample), nil
}

// stream returns a source whose texts are tokenized when they are needed, and its held-out part.
func (t *training) stream(s dataSource, vocab int) (train, held *data.Stream, err error) {
	c := data.StreamConfig{Tokenizer: t.tokenizer, End: -1, Seq: t.Seq, Rows: t.rows, Seed: t.Seed, Vocab: vocab,
		Documents: data.DocumentsConfig{Field: t.Field, Formats: formats}, BlockBytes: t.StreamBlock}
	if t.Skip {
		c.Documents.Skip = func(err error) { fmt.Fprintln(os.Stderr, "galley: skipped:", err) }
	}
	if t.End != "" {
		if c.End, err = t.tokenizer.id(t.End); err != nil {
			return nil, nil, fmt.Errorf("--end=%q: %w", t.End, err)
		}
	}
	paths := s.paths
	if t.Held > 0 {
		c.Keep = func(text string) bool { return !data.HeldOut(text, t.Held, heldSeed) }
	}
	if train, err = data.NewStream(paths, c); err != nil || t.Held == 0 {
		return train, nil, err
	}
	c.Keep, c.Order, c.Ahead = func(text string) bool { return data.HeldOut(text, t.Held, heldSeed) },
		data.Sequential, 1
	held, err = data.NewStream(paths, c)
	return train, held, err
}

// walkName is the file beside a run's checkpoints that records where the blocks of its streams begin. Without
// it a resumed run tokenizes all earlier text again.
const walkName = "stream.json"

// walk is the content of walkName: the blocks of the run's streams, and the facts that they depend on.
type walk struct {
	Facts  []data.Fact     `json:"facts"`
	Blocks [][]data.Walked `json:"blocks"`
}

// streams returns the streams of the run.
func (t *training) streams() []*data.Stream {
	if m, ok := t.text.(*data.Mixture); ok {
		return m.Streams()
	}
	return nil
}

// resumeStreams passes the block positions that an earlier run recorded to the run's streams.
func (t *training) resumeStreams() error {
	list := t.streams()
	if len(list) == 0 || t.Checkpoint == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(t.Checkpoint, walkName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var w walk
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(t.Checkpoint, walkName), err)
	}
	if !reflect.DeepEqual(w.Facts, t.walkFacts()) || len(w.Blocks) != len(list) {
		return nil // of other data: resuming from the checkpoint reports that
	}
	for i, s := range list {
		if err := s.Resume(w.Blocks[i]); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(t.Checkpoint, walkName), err)
		}
	}
	return nil
}

// keepStreams writes where the blocks of the run's streams begin.
func (t *training) keepStreams() error {
	list := t.streams()
	if len(list) == 0 || t.Checkpoint == "" || !job.First() {
		return nil
	}
	w := walk{Facts: t.walkFacts()}
	for _, s := range list {
		w.Blocks = append(w.Blocks, s.Walked())
	}
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	path := filepath.Join(t.Checkpoint, walkName)
	return errors.Join(os.WriteFile(path+".part", text, 0o666), os.Rename(path+".part", path))
}

// walkFacts returns what blocks depend on: all facts of the batches except their size, and the tokenizer.
func (t *training) walkFacts() (list []data.Fact) {
	for _, f := range t.text.Facts() {
		if f.Name != "batch" {
			list = append(list, f)
		}
	}
	kind := fmt.Sprintf(
		"%s of %d, end %q, held %v, tokenizer %d",
		t.Rows,
		t.Seq,
		t.End,
		t.Held,
		t.tokenizer.VocabSize(),
	)
	return append(list, data.Fact{Name: "rows", Value: kind})
}

// streamed adds the streams of a source to the mixtures.
func (t *training) streamed(s dataSource, vocab int, train, held *[]data.MixtureSource) error {
	kept, left, err := t.stream(s, vocab)
	if err != nil {
		return fmt.Errorf("%s: %w", strict.Name(s.name), err)
	}
	*train = append(*train, data.MixtureSource{Name: s.name, Stream: kept, Weight: s.weight})
	if left != nil {
		*held = append(*held, data.MixtureSource{Name: s.name, Stream: left, Weight: s.weight})
	}
	return nil
}

// printSamples prints a hash of each row of the next step's batch.
func (l *loop) printSamples(batch []array.Array) {
	if !job.First() {
		return
	}
	l.p.finish()
	line := fmt.Sprintf("samples of step %d:", l.trainer.Steps()+1)
	ids := batch[0]
	for i := range ids.Shape()[0] {
		line += fmt.Sprintf(" %08x", crc32.ChecksumIEEE(ids.Rows(i, i+1).Bytes()))
	}
	fmt.Println(line)
}

// checkData makes a first batch, so that unreadable texts are found before anything else takes time. It drops
// held-out data that is less than a row.
func (t *training) checkData() error {
	if err := t.resumeStreams(); err != nil {
		return err
	}
	if _, err := batchFrom(t.text, 0); err != nil {
		return err
	}
	if t.eval == nil {
		return nil
	}
	_, err := batchFrom(t.eval, 0)
	if errors.Is(err, data.ErrNoRows) {
		t.eval, err = nil, nil
	}
	return err
}
