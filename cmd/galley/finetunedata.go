package main

import (
	"context"
	"fmt"
	"os"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/data"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// read makes batches of the data and derives the number of steps from it.
func (f *finetuning) read(vocab int) error {
	c := data.ChatConfig{Tokenizer: f.tokenizer.Tokenizer, Seq: f.Seq}
	var called string
	var err error
	if c.Template, called, err = chatTemplate(f.c.Dir, f.c.ChatTemplate); err != nil {
		return err
	}
	fmt.Printf("conversations are written by %s\n", called)
	skipped := 0
	if f.c.Skip {
		c.Skip = func(error) { skipped++ }
	}
	if f.c.End != "" {
		if _, err := f.tokenizer.id(f.c.End); err != nil {
			return fmt.Errorf("--end=%q: %w", f.c.End, err)
		}
		c.End = f.c.End
	}
	read := f.readChats
	if f.c.Method == "dpo" {
		read = f.readPairs
	}
	rows, cut, left, err := read(c, vocab)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		n    int
		what string
	}{{skipped, "lines could not be read and are left out"}, {cut, "are longer than --seq and were cut"},
		{left, "of these had no answer within it and are left out"}} {
		if x.n > 0 {
			fmt.Fprintf(os.Stderr, "galley: note: %d %s\n", x.n, x.what)
		}
	}
	epoch := (rows + f.Batch - 1) / f.Batch
	if f.Steps == 0 {
		f.Steps = f.c.Epochs * epoch
	}
	if f.ValidEvery == 0 {
		f.ValidEvery = epoch
	}
	return nil
}

// readChats makes batches of conversations.
func (f *finetuning) readChats(c data.ChatConfig, vocab int) (rows, cut, left int, err error) {
	chats, err := data.ReadChats(f.c.Data, c)
	if err != nil {
		return 0, 0, 0, err
	}
	train, held, err := chats.Split(f.c.Held, heldSeed)
	if err != nil {
		return 0, 0, 0, err
	}
	if err := examplesFit(chats, vocab); err != nil {
		return 0, 0, 0, err
	}
	m, err := f.mixture(train)
	if err != nil {
		return 0, 0, 0, err
	}
	f.text = m
	if held.Len() > 0 {
		h, err := f.mixture(held)
		if err != nil {
			return 0, 0, 0, err
		}
		f.eval = h
	}
	return m.Rows(), chats.Cut, chats.Left, nil
}

// mixture returns examples as rows, packed or padded.
func (f *finetuning) mixture(e data.Examples) (*data.Mixture, error) {
	var rows data.RowSource
	var err error
	if f.c.Rows == "packed" {
		rows, err = data.Pack(e, f.Seq)
	} else {
		rows, err = data.Pad(e, f.Seq)
	}
	if err != nil {
		return nil, err
	}
	return data.NewMixture([]data.MixtureSource{{Name: "conversations", Rows: rows, Weight: 1,
		Fact: data.HashExamples(e)}},
		data.MixtureConfig{Batch: f.Batch, Seq: f.Seq, Seed: f.Seed, Packed: f.c.Rows == "packed"})
}

// examplesFit checks that the tokens of examples are in the model's vocabulary.
func examplesFit(e data.Examples, vocab int) error {
	for i := range e.Len() {
		ids := make([]int32, 2*e.Size(i))
		n := len(ids) / 2
		e.Fill(i, ids[:n], ids[n:])
		if err := inVocabulary(ids, vocab); err != nil {
			return err
		}
	}
	return nil
}

// readPairs makes batches of preferences, with the log-probabilities of the model before training.
func (f *finetuning) readPairs(c data.ChatConfig, vocab int) (rows, cut, left int, err error) {
	p, err := data.ReadPreferences(f.c.Data, c)
	if err != nil {
		return 0, 0, 0, err
	}
	if err := examplesFit(p.Examples(), vocab); err != nil {
		return 0, 0, 0, err
	}
	if err := f.reference(p); err != nil {
		return 0, 0, 0, err
	}
	f.loss = func(model models.Model, batch []*op.Tensor) *op.Tensor {
		return models.PreferenceLoss(model, batch[0], batch[1], batch[2], f.c.Beta)
	}
	train, held, err := p.Split(f.c.Held, heldSeed)
	if err != nil {
		return 0, 0, 0, err
	}
	config := data.LoaderConfig{Batch: f.Batch, Seed: f.Seed}
	if f.text, err = data.NewPairs(train, f.Seq, config); err != nil {
		return 0, 0, 0, err
	}
	if held.Len() > 0 {
		if f.eval, err = data.NewPairs(held, f.Seq, config); err != nil {
			return 0, 0, 0, err
		}
	}
	f.more = append(f.more, galley.Fact{Name: "beta", Value: fmt.Sprint(f.c.Beta)})
	return train.Len(), p.Cut, p.Left, nil
}

// reference computes the log-probabilities of all answers under the model before training.
func (f *finetuning) reference(p *data.Preferences) error {
	trainer, err := galley.NewTrainer(galley.TrainerConfig{Device: f.d, Backend: f.b, Params: f.model.Params(),
		Compute: f.compute(), Optimizer: optim.SGD{},
		Loss: func(batch []*op.Tensor) *op.Tensor { return f.model.Loss(batch[0], batch[1]) }})
	if err != nil {
		return err
	}
	defer trainer.Close()
	pass := trainer.NewForward(func(batch []*op.Tensor) []*op.Tensor {
		return []*op.Tensor{models.LogProbs(f.model, batch[0], batch[1])}
	})
	defer pass.Close()
	all, err := data.NewPairs(p, f.Seq, data.LoaderConfig{Batch: f.Batch, Order: data.Sequential})
	if err != nil {
		return err
	}
	tell := progressPrinter()
	reference := make([][2]float32, p.Len())
	for at := 0; at < p.Len(); at += f.Batch {
		tell("reading what the model prefers", at, p.Len())
		batch := all.From(int64(at))
		for i, a := range batch {
			batch[i] = a.Reshape(2*f.Batch, f.Seq)
		}
		out, err := pass.Run(context.Background(), batch...)
		if err != nil {
			return err
		}
		keepReference(reference[at:], out[0])
	}
	p.Reference = reference
	return nil
}

// keepReference stores the log-probabilities of a batch; rows beyond the last pair repeat the first.
func keepReference(reference [][2]float32, logProbs array.Array) {
	for i := range min(len(reference), logProbs.Len()/2) {
		reference[i] = [2]float32{float32(logProbs.At(2 * i)), float32(logProbs.At(2*i + 1))}
	}
}
