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

// batchFrom returns a batch, where making one may fail: texts that are tokenized as they are needed.
func batchFrom(b batches, sample int64) ([]array.Array, error) {
	if m, ok := b.(*data.Mixture); ok {
		return m.Try(sample)
	}
	return b.From(sample), nil
}

// stream returns a source whose texts are tokenized when they are needed; held is what is left out of it.
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

// walkName is the file beside a run's checkpoints that keeps where the blocks of its streams begin. Without
// it a run that goes on tokenizes what came before once more.
const walkName = "stream.json"

// walk is what walkName holds: of the run's streams, by what their rows depend on.
type walk struct {
	Facts  []data.Fact     `json:"facts"`
	Blocks [][]data.Walked `json:"blocks"`
}

// streams returns those of the run.
func (t *training) streams() []*data.Stream {
	if m, ok := t.text.(*data.Mixture); ok {
		return m.Streams()
	}
	return nil
}

// resumeStreams tells the run's streams what an earlier one has found out.
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
		return nil // of other data, which the checkpoint itself will say
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

// walkFacts returns what blocks depend on: all that batches do but their size, and the tokenizer.
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

// tellSamples prints a hash of each row of the batch of the next step.
func (l *loop) tellSamples(batch []array.Array) {
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

// checkData makes a first batch, so that texts which cannot be read are found before anything else takes
// time, and leaves out what is held out where that is less than a row.
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
