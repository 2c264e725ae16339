package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/galley-ml/galley"
)

// checkpointFlags say where a run's checkpoints are and how often they are written.
type checkpointFlags struct {
	Checkpoint string `help:"Directory for checkpoints. If it holds some, training goes on from the newest good one, whatever devices wrote it." type:"path" placeholder:"DIR"`
	Every      int    `help:"Steps between checkpoints." default:"100"`
	Keep       int    `help:"Checkpoints that stay, the newest." default:"3"`
	LogLosses  bool   `help:"Print every step's loss and gradient norm in full precision."`
}

// saver writes checkpoints of one run; without a directory it does nothing.
type saver struct {
	c     *galley.Checkpoints
	every int
}

// checkpoints makes the directory ready and brings the trainer to the newest checkpoint in it.
func (f checkpointFlags) checkpoints(t *galley.Trainer) (*saver, error) {
	if f.Checkpoint == "" {
		return &saver{}, nil
	}
	if err := positive(map[string]int{"every": f.Every, "keep": f.Keep}); err != nil {
		return nil, err
	}
	r, err := t.Resume(f.Checkpoint)
	if err != nil && !errors.Is(err, galley.ErrNoCheckpoint) {
		return nil, fmt.Errorf("--checkpoint: %w", err)
	}
	if err == nil {
		for _, bad := range r.Skipped {
			fmt.Fprintln(os.Stderr, "galley: passed over:", bad)
		}
		fmt.Printf("going on after %d steps from %s\n", r.Step, r.From)
	}
	c, err := galley.OpenCheckpoints(galley.CheckpointConfig{Dir: f.Checkpoint, Keep: f.Keep})
	if err != nil {
		return nil, fmt.Errorf("--checkpoint: %w", err)
	}
	return &saver{c, f.Every}, nil
}

// due reports whether it is time for a checkpoint.
func (s *saver) due(t *galley.Trainer) bool { return s.c != nil && t.Steps()%s.every == 0 }

// save begins one. sample is the number of the next sample.
func (s *saver) save(ctx context.Context, t *galley.Trainer, sample int64) error {
	return t.Save(context.WithoutCancel(ctx), s.c, sample)
}

func (s *saver) wait() error {
	if s.c == nil {
		return nil
	}
	return s.c.Wait(context.Background())
}

func (s *saver) close() {
	if s.c != nil {
		s.c.Close()
	}
}
